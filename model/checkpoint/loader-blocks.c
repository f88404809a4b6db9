/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matrices in GGUF's blocks that are not one weight as they are: rows that are no
 * whole blocks (comfy.gguf.orig_shape, checkpoints.md 6.2) become floats, parts
 * of different types a weight each. */
#include "model/blocks.h"
#include "model/checkpoint/loader-private.h"
#include "model/checkpoint/stored-values.h"

#include <string.h>

/* Elements decoded at a time; whole blocks of every type. */
#define STEP 65536

void
h3_loader_parts_look_at_blocks (H3LoaderParts *p)
{
  gboolean any = FALSE, same = TRUE;

  for (guint i = 0; i < p->n; i++) {
    H3Encoding encoding = p->quantised[i].encoding;

    if (h3_encoding_is_block (encoding)) {
      any = TRUE;
      if (p->plain || p->cols % h3_encoding_info (encoding)->block)
        p->decoded = TRUE;
    }
    same = same && p->tensor[i]->type == p->type;
  }
  if (!any || same || p->decoded)
    return;
  /* rows of one part in one piece, or not */
  p->stacked = p->order == H3_ROWS_AS_STORED;
  p->decoded = !p->stacked;
}

/* Some whole blocks, as many elements as @n. */
static gboolean
read_blocks (const H3StoredTensor *tensor, gint64 first, gint64 n,
    gfloat *values, GError **error)
{
  guint block = h3_stored_type_block (tensor->type);
  gsize size = h3_stored_type_size (tensor->type);
  g_autofree guint8 *bytes = g_malloc (n / block * size);
  gsize index;

  if (!h3_stored_tensor_read (tensor, first / block * size, n / block * size,
          bytes, error))
    return FALSE;
  if (block > 1)
    h3_blocks_decode (h3_quantised_block_encoding (tensor->type), bytes,
        n / block, values);
  else
    h3_stored_values_widen (tensor->type, bytes, n, values);
  if (h3_stored_values_finite (H3_STORED_F32, values, n, &index))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "%s: tensor %s: element %" G_GINT64_FORMAT
      " is NaN or Inf; weights must be finite",
      tensor->path, tensor->name, first + (gint64) index);
  return FALSE;
}

/* An H3LoaderTake to floats on the host. */
static gboolean
take_decoded (H3Loader *loader, const H3StoredTensor *tensor, gint64 first,
    gint64 n, gpointer dest, gint64 offset)
{
  guint block = h3_stored_type_block (tensor->type);
  gint64 end = first + n, total = h3_stored_tensor_elements (tensor);
  g_autofree gfloat *values = g_new (gfloat, STEP);
  gfloat *to = (gfloat *) dest + offset;

  for (gint64 at = first / block * block; at < end; at += STEP) {
    gint64 here = MIN (STEP, total - at);
    gint64 from = MAX (first, at), until = MIN (end, at + here);
    GError *error = NULL;

    /* no further than to the end of the last block that is needed */
    here = MIN (here, (end - at + block - 1) / block * block);
    if (!read_blocks (tensor, at, here, values, &error)) {
      h3_loader_fail (loader, error);
      return FALSE;
    }
    memcpy (to, values + (from - at), (until - from) * sizeof *to);
    to += until - from;
  }
  return TRUE;
}

/* Floats to numbers of @dtype, in place. */
static gboolean
narrow (H3Loader *loader, const H3LoaderParts *p, gfloat *values, H3DType dtype)
{
  H3StoredType type = dtype == H3_DTYPE_F16 ? H3_STORED_F16 : H3_STORED_BF16;
  gsize n = p->rows * p->cols, index;

  if (dtype == H3_DTYPE_F32)
    return TRUE;
  h3_stored_values_convert (H3_STORED_F32, values, n, type, values);
  if (h3_stored_values_finite (type, values, n, &index))
    return TRUE;
  h3_loader_fail (loader, g_error_new (H3_ERROR, H3_ERROR_NUMERIC,
                              "%s: tensor %s: a number is beyond what %s, in "
                              "which %s computes here, "
                              "can hold",
                              p->tensor[0]->path, p->tensor[0]->name,
                              h3_dtype_name (dtype), loader->device->name));
  return FALSE;
}

H3Weight *
h3_loader_load_decoded (H3Loader *loader, const H3LoaderParts *p, H3DType dtype,
    gboolean keep)
{
  const gint64 shape[] = { p->rows, p->cols };
  g_autofree gfloat *values = NULL;
  g_autoptr (H3Tensor) tensor = NULL;

  if (!h3_loader_may_go_on (loader))
    return NULL;
  values = g_try_malloc_n (MAX (p->rows * p->cols, 1), sizeof *values);
  if (!values) {
    h3_loader_fail (loader,
        g_error_new (H3_ERROR, H3_ERROR_NO_SPACE,
            "%s: tensor %s: no memory for %" G_GINT64_FORMAT " floats",
            p->tensor[0]->path, p->tensor[0]->name, p->rows * p->cols));
    return NULL;
  }
  tensor = h3_loader_new_tensor (loader, dtype, 2, shape);
  if (!tensor || !h3_loader_take_ordered (loader, p, take_decoded, values) ||
      !narrow (loader, p, values, dtype) ||
      !h3_loader_upload (loader, tensor, values))
    return NULL;
  if (keep) {
    h3_loader_remember (loader, tensor);
    loader->computed += tensor->bytes;
    h3_loader_report_progress (loader);
  }
  return h3_weight_new_plain (g_steal_pointer (&tensor));
}
