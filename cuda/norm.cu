/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* RMS norm, after a residual sum or with AdaLN modulation by table row, and
 * layer norm: one block per row, or a warp. Rows of up to 8192 elements stay in
 * registers between the reduction and the output; odd or longer ones are read
 * twice. */
#include "cuda/kernel.cuh"

#define THREADS 256
#define KEPT 4        /* groups of eight that a thread keeps */
#define WARP_KEPT 8   /* and a lane, where a warp has a row to itself */
#define WARPS 4

/* What modulates a row; table NULL: nothing. */
typedef struct {
  const void *table;
  H3DType type;
  const gint32 *rows;
  gint64 cols;
  int shift, scale;
} Modulation;

/* v = x + branch * scale, eight elements at @at of a row's, and x as well. The
 * branch came with x: all of a row's loads are under way before the first use.
 */
template <typename TX, typename TB>
__device__ __forceinline__ void
add_branch (TX *x, float *v, const Eight<TB> &branch, const float *scale)
{
  float s[8];

  load8 (scale, s);
#pragma unroll
  for (int j = 0; j < 8; j++)
    v[j] = rounded<TX> (add_scaled (v[j], to_float (branch.v[j]), s[j]));
  store8 (x, v);
}

template <typename TY, typename TX>
__global__ void __launch_bounds__ (THREADS)
rms_norm (TY *y, const TX *x, const float *weight, float eps,
    const __grid_constant__ Modulation m, int cols)
{
  gint64 row = blockIdx.x;
  float v[KEPT][8];
  float sum = 0.0f;

#pragma unroll
  for (int k = 0; k < KEPT; k++) {
    int i = (k * blockDim.x + threadIdx.x) * 8;
    if (i < cols)
      load8 (x + row * cols + i, v[k]);
  }
#pragma unroll
  for (int k = 0; k < KEPT; k++)
    if ((k * blockDim.x + threadIdx.x) * 8 < cols)
#pragma unroll
      for (int j = 0; j < 8; j++)
        sum += v[k][j] * v[k][j];
  float rstd = rsqrtf (block_sum (sum) / cols + eps);
  gint64 at = m.table ? m.rows[row] * m.cols : 0;

#pragma unroll
  for (int k = 0; k < KEPT; k++) {
    int i = (k * blockDim.x + threadIdx.x) * 8;
    float w[8], s[8], b[8];
    if (i >= cols)
      continue;
    load8 (weight + i, w);
    if (m.table) {
      load_any<true> (m.table, m.type, at + (gint64) m.scale * cols + i, 8, s);
      load_any<true> (m.table, m.type, at + (gint64) m.shift * cols + i, 8, b);
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
      v[k][j] = v[k][j] * rstd * w[j];
      if (m.table)
        v[k][j] = v[k][j] * (1.0f + s[j]) + b[j];
    }
    store8 (y + row * cols + i, v[k]);
  }
}

/* Short rows, without modulation: a warp for each, which needs no barrier.
 * ADD: first x += branch * scale; y may be the branch. */
template <typename TY, typename TX, bool ADD>
__global__ void __launch_bounds__ (WARPS * H3_WARP)
rms_norm_short (TY *y, TX *x, const float *weight, float eps, int cols,
    gint64 rows, const TY *branch, const float *scale)
{
  gint64 row = (gint64) blockIdx.x * WARPS + threadIdx.x / H3_WARP;
  int lane = threadIdx.x % H3_WARP;
  float v[WARP_KEPT][8];
  Eight<TY> b[WARP_KEPT];
  float sum = 0.0f;

  if (row >= rows)
    return;
#pragma unroll
  for (int k = 0; k < WARP_KEPT; k++) {
    int i = (k * H3_WARP + lane) * 8;
    if (i >= cols)
      continue;
    load8 (x + row * cols + i, v[k]);
    if (ADD)
      b[k] = *(const Eight<TY> *) (branch + row * cols + i);
  }
#pragma unroll
  for (int k = 0; k < WARP_KEPT; k++) {
    int i = (k * H3_WARP + lane) * 8;
    if (ADD && i < cols)
      add_branch (x + row * cols + i, v[k], b[k], scale + i);
  }
#pragma unroll
  for (int k = 0; k < WARP_KEPT; k++)
    if ((k * H3_WARP + lane) * 8 < cols)
#pragma unroll
      for (int j = 0; j < 8; j++)
        sum += v[k][j] * v[k][j];
  float rstd = rsqrtf (warp_sum (sum) / cols + eps);
#pragma unroll
  for (int k = 0; k < WARP_KEPT; k++) {
    int i = (k * H3_WARP + lane) * 8;
    float w[8];
    if (i >= cols)
      continue;
    load8 (weight + i, w);
#pragma unroll
    for (int j = 0; j < 8; j++)
      v[k][j] = v[k][j] * rstd * w[j];
    store8 (y + row * cols + i, v[k]);
  }
}

template <typename TY, typename TX>
__global__ void __launch_bounds__ (THREADS)
rms_norm_any (TY *y, const TX *x, const float *weight, float eps,
    const __grid_constant__ Modulation m, int cols)
{
  gint64 row = blockIdx.x;
  float sum = 0.0f;

  x += row * cols;
  for (int i = threadIdx.x; i < cols; i += THREADS)
    sum += to_float (x[i]) * to_float (x[i]);
  float rstd = rsqrtf (block_sum (sum) / cols + eps);
  gint64 at = m.table ? m.rows[row] * m.cols : 0;

  for (int i = threadIdx.x; i < cols; i += THREADS) {
    float v = to_float (x[i]) * rstd * weight[i];
    if (m.table) {
      float s = any_value (m.table, m.type, at + (gint64) m.scale * cols + i);
      float b = any_value (m.table, m.type, at + (gint64) m.shift * cols + i);
      v = v * (1.0f + s) + b;
    }
    y[row * cols + i] = from_float<TY> (v);
  }
}

cudaError_t
h3_cuda_rms_norm (H3CudaStreamHandle stream, const H3RmsNormArgs *a)
{
  gint64 rows = h3_tensor_rows (a->x), cols = h3_tensor_cols (a->x);
  const float *w = (const float *) a->weight->data;
  Modulation m = {};
  /* as few threads as have the row in as few groups: 5376 are 224 by 3 by 8 */
  int groups = (int) MIN (cols / 8, THREADS * KEPT);
  int each = (groups + THREADS - 1) / THREADS;
  int threads = (groups / MAX (each, 1) + H3_WARP - 1) / H3_WARP * H3_WARP;
  bool fast;

  if (rows == 0 || cols == 0)
    return cudaSuccess;
  if (a->table) {
    m.table = a->table->data;
    m.type = a->table->dtype;
    m.rows = (const gint32 *) a->rows->data;
    m.cols = h3_tensor_cols (a->table);
    m.shift = a->shift;
    m.scale = a->scale;
  }
  fast = cols <= (gint64) threads * 8 * KEPT && threads <= THREADS &&
      whole (cols, a->x->data, a->y->data, w, m.table);
  H3_WITH_TYPE (a->y->dtype, TY, H3_WITH_TYPE (a->x->dtype, TX,
      if (fast && !m.table && cols <= H3_WARP * 8 * WARP_KEPT)
        rms_norm_short<TY, TX, false><<<blocks_for (rows, WARPS),
            WARPS * H3_WARP, 0, stream>>> ((TY *) a->y->data,
            (TX *) a->x->data, w, a->eps, cols, rows, NULL, NULL);
      else if (fast)
        rms_norm<<<rows, threads, 0, stream>>> ((TY *) a->y->data,
            (const TX *) a->x->data, w, a->eps, m, cols);
      else
        rms_norm_any<<<rows, THREADS, 0, stream>>> ((TY *) a->y->data,
            (const TX *) a->x->data, w, a->eps, m, cols)));
  return cudaGetLastError ();
}

/* In one pass where rows are short, of a length that is whole, and the branch is
 * of y's type; else in two. */
cudaError_t
h3_cuda_residual_norm (H3CudaStreamHandle stream, const H3ResidualNormArgs *a)
{
  gint64 rows = h3_tensor_rows (a->x), cols = h3_tensor_cols (a->x);
  const float *w = (const float *) a->weight->data;
  const float *s = (const float *) a->scale->data;
  H3RmsNormArgs norm = {};
  cudaError_t err;

  if (rows == 0 || cols == 0)
    return cudaSuccess;
  if (a->branch->dtype == a->y->dtype && cols <= H3_WARP * 8 * WARP_KEPT &&
      whole (cols, a->x->data, a->branch->data, s, w) &&
      aligned16 (a->y->data)) {
    H3_WITH_TYPE (a->y->dtype, TY, H3_WITH_TYPE (a->x->dtype, TX,
        rms_norm_short<TY, TX, true><<<blocks_for (rows, WARPS),
            WARPS * H3_WARP, 0, stream>>> ((TY *) a->y->data,
            (TX *) a->x->data, w, a->eps, cols, rows,
            (const TY *) a->branch->data, s)));
    return cudaGetLastError ();
  }
  norm.y = a->y;
  norm.x = a->x;
  norm.weight = a->weight;
  norm.eps = a->eps;
  err = h3_cuda_scaled_residual (stream, a->x, a->branch, a->scale);
  return err != cudaSuccess ? err : h3_cuda_rms_norm (stream, &norm);
}

template <typename TY, typename TX>
__global__ void __launch_bounds__ (THREADS)
layer_norm (TY *y, const TX *x, const float *weight, const float *bias,
    float eps, int cols)
{
  gint64 row = blockIdx.x;
  float sum = 0.0f, square = 0.0f;

  x += row * cols;
  for (int i = threadIdx.x; i < cols; i += THREADS)
    sum += to_float (x[i]);
  float mean = block_sum (sum) / cols;
  for (int i = threadIdx.x; i < cols; i += THREADS) {
    float d = to_float (x[i]) - mean;
    square += d * d;
  }
  float rstd = rsqrtf (block_sum (square) / cols + eps);
  for (int i = threadIdx.x; i < cols; i += THREADS)
    y[row * cols + i] = from_float<TY> (
        (to_float (x[i]) - mean) * rstd * weight[i] + bias[i]);
}

cudaError_t
h3_cuda_layer_norm (H3CudaStreamHandle stream, const H3LayerNormArgs *a)
{
  gint64 rows = h3_tensor_rows (a->x), cols = h3_tensor_cols (a->x);

  if (rows == 0 || cols == 0)
    return cudaSuccess;
  H3_WITH_TYPE (a->y->dtype, TY, H3_WITH_TYPE (a->x->dtype, TX,
      layer_norm<<<rows, THREADS, 0, stream>>> ((TY *) a->y->data,
          (const TX *) a->x->data, (const float *) a->weight->data,
          (const float *) a->bias->data, a->eps, cols)));
  return cudaGetLastError ();
}
