/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Products with encoded weights: some rows of the weight are decoded into
 * scratch, in the type of x, and multiplied; then the next. What a weight stands
 * for is rounded to that type, once; no more than H3_CUDA_DECODED bytes of it
 * are in memory. */
#include "cuda/device.h"

/* Rows of a block are a multiple of it where there are more blocks than one, for
 * the products' tiles. */
#define ROW_UNIT 256

static gint64
ceil_div (gint64 a, gint64 b)
{
  return (a + b - 1) / b;
}

/* Rows to decode at a time: blocks of one size. */
static gint64
rows_at_once (const H3Weight *w, H3DType dtype)
{
  gint64 row = w->cols * h3_dtype_size (dtype);
  gint64 most = MAX ((gint64) H3_CUDA_DECODED / MAX (row, 1), 1);
  gint64 even = ceil_div (w->rows, ceil_div (w->rows, most));

  return w->rows <= most ? w->rows
                         : MIN (ceil_div (even, ROW_UNIT) * ROW_UNIT, most);
}

/* As h3_device_decode_bytes() plans it, whatever the blocks' size is. */
static gsize
scratch_bytes (const H3Weight *w, H3DType dtype)
{
  gsize row = w->cols * h3_dtype_size (dtype);

  return MAX (row, MIN (w->rows * row, H3_CUDA_DECODED));
}

/* Columns [col, col + w->rows) of y. FALSE when the stream failed. */
static gboolean
decode_and_multiply (H3Stream *stream, const H3LinearArgs *args,
    const H3Weight *w, gint64 col)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  H3DType dtype = args->x->dtype;
  gint64 step = rows_at_once (w, dtype);
  gpointer rows;

  if (w->rows == 0)
    return TRUE;
  rows = h3_cuda_scratch (stream, &cuda->decoded, scratch_bytes (w, dtype));
  if (!rows)
    return FALSE;
  for (gint64 first = 0; first < w->rows; first += step) {
    gint64 n = MIN (step, w->rows - first);

    if (!h3_cuda_ok (stream, "decoding a weight",
            h3_cuda_decode (cuda->handle, dtype, rows, w, first, NULL, n)) ||
        !h3_cuda_linear_rows (stream, args,
            &(H3CudaRows){ col + first, n, dtype, rows }))
      return FALSE;
  }
  return TRUE;
}

static gboolean
linear_part (H3Stream *stream, const H3LinearArgs *args, const H3Weight *w,
    gint64 col)
{
  if (w->encoding == H3_ENCODING_PLAIN)
    return h3_cuda_linear_rows (stream, args,
        &(H3CudaRows){ col, w->rows, w->tensor->dtype, w->tensor->data });
  if (h3_cuda_linear_fp4 (stream, args, w, col))
    return stream->error == NULL;
  return decode_and_multiply (stream, args, w, col);
}

void
h3_cuda_linear_encoded (H3Stream *stream, const H3LinearArgs *args)
{
  const H3Weight *w = args->weight;
  gint64 col = 0;

  if (h3_tensor_rows (args->x) == 0)
    return;
  if (w->encoding != H3_ENCODING_STACKED) {
    if (!h3_cuda_linear_bytes (stream, args, FALSE))
      linear_part (stream, args, w, 0);
    return;
  }
  for (guint i = 0; i < G_N_ELEMENTS (w->parts) && w->parts[i]; i++) {
    if (!linear_part (stream, args, w->parts[i], col))
      return;
    col += w->parts[i]->rows;
  }
}

/* Each part writes the rows that are its own. */
void
h3_cuda_embedding_encoded (H3Stream *stream, H3Tensor *y,
    const H3Weight *weight, const H3Tensor *ids, gint32 *bad_row)
{
  H3CudaStreamHandle handle = ((H3CudaStream *) stream)->handle;
  const H3Weight *const *parts = &weight;
  gint64 n = h3_tensor_size (ids), first = 0;
  guint n_parts = 1;

  if (weight->encoding == H3_ENCODING_STACKED) {
    parts = (const H3Weight *const *) weight->parts;
    n_parts = G_N_ELEMENTS (weight->parts);
  }
  if (!h3_cuda_ok (stream, "embedding",
          h3_cuda_check_rows (handle, ids->data, n, weight->rows, bad_row)))
    return;
  for (guint i = 0; i < n_parts && parts[i]; i++) {
    if (!h3_cuda_ok (stream, "embedding",
            h3_cuda_decode (handle, y->dtype, y->data, parts[i], first,
                ids->data, n)))
      return;
    first += parts[i]->rows;
  }
}
