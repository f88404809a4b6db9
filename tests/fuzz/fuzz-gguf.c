/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as a GGUF file: refused with an error, or every tensor lies inside
 * the file and can be read and decoded. */
#include "fuzz.h"

#include "model/checkpoint/gguf.h"

static void
check_tensor (const H3Gguf *gguf, guint n, gsize size)
{
  const H3StoredTensor *tensor = h3_gguf_nth (gguf, n);
  g_autofree guint8 *bytes = NULL;
  g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);
  g_autoptr (GError) error = NULL;
  guint block = h3_stored_type_block (tensor->type);
  guint64 elements = h3_stored_tensor_elements (tensor);

  g_assert_true (h3_gguf_lookup (gguf, tensor->name) == tensor);
  g_assert_true (g_utf8_validate (tensor->name, -1, NULL));
  g_assert_cmpuint (tensor->rank, <=, H3_STORED_MAX_RANK);
  g_assert_cmpuint (elements % block, ==, 0);
  g_assert_cmpuint (tensor->bytes, ==,
      elements / block * h3_stored_type_size (tensor->type));
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
  g_autoptr (H3Gguf) gguf = h3_gguf_parse (data, size, "fuzz", &error);

  g_assert_true ((gguf == NULL) == (error != NULL));
  if (!gguf) {
    g_assert_true (error->domain == H3_ERROR);
    g_assert_true (g_utf8_validate (error->message, -1, NULL));
    return 0;
  }
  g_assert_cmpuint (h3_gguf_trailing (gguf), <=, size);
  for (guint i = 0; i < h3_gguf_n_tensors (gguf); i++)
    check_tensor (gguf, i, size);
  return 0;
}
