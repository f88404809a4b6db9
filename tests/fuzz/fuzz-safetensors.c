/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as a safetensors file: refused with an error, or every tensor lies
 * inside the file and can be read. */
#include "fuzz.h"

#include "model/checkpoint/safetensors.h"

static void
check_tensor (const H3SafeTensors *file, guint n, gsize size)
{
  const H3StoredTensor *tensor = h3_safetensors_nth (file, n);
  g_autofree guint8 *bytes = NULL;
  g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);
  g_autoptr (GError) error = NULL;
  guint64 elements = 1;

  g_assert_true (h3_safetensors_lookup (file, tensor->name) == tensor);
  g_assert_true (g_utf8_validate (tensor->name, -1, NULL));
  g_assert_cmpuint (tensor->rank, <=, H3_STORED_MAX_RANK);
  for (guint i = 0; i < tensor->rank; i++)
    elements *= tensor->shape[i];
  g_assert_cmpuint (tensor->bytes, ==,
      elements * h3_stored_type_size (tensor->type));
  g_assert_cmpuint (tensor->bytes, <=, size);
  g_assert_cmpuint (tensor->offset, <=, size - tensor->bytes);

  bytes = g_malloc (tensor->bytes + 1);
  g_assert_true (
      h3_stored_tensor_read (tensor, 0, tensor->bytes, bytes, &error));
  g_assert_no_error (error);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) file =
      h3_safetensors_parse (data, size, "fuzz", &error);

  g_assert_true ((file == NULL) == (error != NULL));
  if (!file) {
    g_assert_true (error->domain == H3_ERROR);
    g_assert_true (g_utf8_validate (error->message, -1, NULL));
    return 0;
  }
  g_assert_cmpuint (h3_safetensors_trailing (file), <=, size);
  for (guint i = 0; i < h3_safetensors_n_tensors (file); i++)
    check_tensor (file, i, size);
  return 0;
}
