/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Products with weights of bytes, E4M3 or integers, in the tensor cores' own
 * arithmetic: rows of x become bytes with a scale each, as they come, and the
 * scales are multiplied into the sums (checkpoints.md 5.3, 5.5). */
#include "cuda/device.h"

/* And where the library leaves sums of 32 bits in scratch, too. */
#define SUMS_STEP 1024
/* Our kernel computes whole tiles of so many rows; where more than an eighth would
 * be for nothing, the library has smaller ones. */
#define TILE_ROWS 256

/* So few rows are multiplied with decoded weights, which takes as long: AdaLN's
 * are, on which all of a clip depends. */
#define FEW_ROWS 16

/* Whether the product may be taken: the weight's own encoding is one of bytes,
 * and nobody asked for full precision. */
static gboolean
is_of_bytes (const H3Weight *w)
{
  return !w->full_precision &&
         (w->encoding == H3_ENCODING_E4M3 || w->encoding == H3_ENCODING_INT8);
}

/* Rows of x at a time: as many as have room for their bytes where otherwise
 * decoded weights are. */
static gint64
rows_at_once (gint64 depth)
{
  return MAX ((gint64) H3_CUDA_DECODED / depth / TILE_ROWS, 1) * TILE_ROWS;
}

/* Rows [first, first + p->rows) of x into scratch: p->x, p->x_scale. */
static cudaError_t
quantise_rows (H3Stream *stream, const H3Tensor *x, gint64 first,
    const H3Weight *w, H3CudaBytes *p)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  gint64 most = MIN (h3_tensor_rows (x), rows_at_once (p->depth));
  gsize row = p->depth * h3_dtype_size (x->dtype);
  gfloat *scale =
      h3_cuda_scratch (stream, &cuda->scratch[0], most * sizeof *scale);
  guint8 *q = h3_cuda_scratch (stream, &cuda->decoded, most * p->depth);

  if (!q || !scale)
    return cudaErrorMemoryAllocation;
  p->x = q;
  p->x_scale = scale;
  return h3_cuda_quantise (cuda->handle, w->encoding, q, scale, x->dtype,
      (const guint8 *) x->data + first * row, p->rows, p->depth,
      w->column_scale ? w->column_scale->data : NULL, w->rotation);
}

/* By the library, and a pass for the scales. */
static cudaError_t
multiply_with_library (H3Stream *stream, const H3CudaBytes *p)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;

  for (gint64 first = 0; first < p->rows; first += SUMS_STEP) {
    H3CudaBytes part = *p;
    gpointer sums;
    cudaError_t err;

    part.rows = MIN (SUMS_STEP, p->rows - first);
    part.x += first * p->depth;
    part.x_scale += first;
    part.y = (guint8 *) p->y + first * p->cols * h3_dtype_size (p->y_type);
    sums = h3_cuda_scratch (stream, &cuda->scratch[1],
        MIN (SUMS_STEP, p->rows) * p->cols * sizeof (gfloat));
    if (!sums || !h3_cuda_sum_bytes (stream, &part, sums))
      return cudaErrorUnknown;
    err = h3_cuda_scale_sums (cuda->handle, &part, sums);
    if (err != cudaSuccess)
      return err;
  }
  return cudaSuccess;
}

static gboolean
library_can (H3Stream *stream, const H3CudaBytes *p)
{
  gint needed = p->encoding == H3_ENCODING_E4M3 ? 89 : 80;

  return !p->swiglu && p->cols % 16 == 0 && p->depth % 16 == 0 &&
         ((gsize) p->w & 15) == 0 &&
         h3_cuda_device (stream)->capability >= needed;
}

static gboolean
fills_tiles (gint64 rows)
{
  gint64 filled = (rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;

  return filled - rows <= filled / 8;
}

gboolean
h3_cuda_linear_bytes (H3Stream *stream, const H3LinearArgs *args,
    gboolean swiglu)
{
  const H3Weight *w = args->weight;
  const H3Tensor *x = args->x;
  gint64 rows = h3_tensor_rows (x), step;
  gboolean own, library;
  H3CudaBytes p = { .encoding = w->encoding,
    .cols = h3_tensor_cols (args->y),
    .depth = w->cols,
    .y_type = args->y->dtype,
    .y = args->y->data,
    .accumulate = args->accumulate,
    .swiglu = swiglu };

  if (rows <= FEW_ROWS || !is_of_bytes (w) ||
      args->activation != H3_ACTIVATION_NONE ||
      w->rotation > H3_CUDA_ROTATED_COLS)
    return FALSE;
  p.w = w->tensor->data;
  p.w_scale = w->scale->data;
  p.bias = args->bias ? args->bias->data : NULL;
  if (p.depth > H3_CUDA_QUANTISED_COLS)
    return FALSE;
  library = library_can (stream, &p);
  own = h3_cuda_can_linear_bytes_sm90 (&p) &&
        (fills_tiles (rows) || (!library && !swiglu));
  if (!own && !library)
    return FALSE;
  step = rows_at_once (p.depth);
  for (gint64 first = 0; first < rows; first += step) {
    p.rows = MIN (step, rows - first);
    p.y = (guint8 *) args->y->data + first * p.cols * h3_dtype_size (p.y_type);
    if (!h3_cuda_ok (stream, "quantising rows",
            quantise_rows (stream, x, first, w, &p)) ||
        !h3_cuda_ok (stream, "linear",
            own ? h3_cuda_linear_bytes_sm90 (((H3CudaStream *) stream)->handle,
                      &p)
                : multiply_with_library (stream, &p)))
      return TRUE;
    h3_cuda_pace (stream, (gdouble) p.rows * w->rows * w->cols);
    if (stream->error)
      return TRUE;
  }
  return TRUE;
}
