/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One element in, one out: conversion, SwiGLU, residuals, bias and activation,
 * the solver (denoiser.md 3.6, sampling.md 6). */
#include "cuda/kernel.cuh"

#define THREADS 256

template <typename TD, typename TS>
__global__ void
convert (TD *dst, const TS *src, gint64 n, float factor, bool vectors)
{
  gint64 i = ((gint64) blockIdx.x * THREADS + threadIdx.x) * 8;
  float v[8];

  if (i >= n)
    return;
  int m = min ((gint64) 8, n - i);
  if (vectors && m == 8)
    load8 (src + i, v);
  else
    load_n (src + i, m, v);
#pragma unroll
  for (int k = 0; k < 8; k++)
    v[k] *= factor;
  if (vectors && m == 8)
    store8 (dst + i, v);
  else
    store_n (dst + i, m, v);
}

cudaError_t
h3_cuda_convert (H3CudaStreamHandle stream, H3DType dst_type, gpointer dst,
    H3DType src_type, gconstpointer src, gint64 n, gfloat factor)
{
  bool vectors = aligned16 (dst) && aligned16 (src);

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (dst_type, TD, H3_WITH_TYPE (src_type, TS,
      convert<<<blocks_for (n, THREADS * 8), THREADS, 0, stream>>> (
          (TD *) dst, (const TS *) src, n, factor, vectors)));
  return cudaGetLastError ();
}

/* Three bfloat16 numbers hold the 24 bits of a float: x = x0 + x1 + x2. Of the
 * nine products of two such sums six count, the others are below a float's last
 * bit. The smallest come first: x2 w0, x0 w2, x1 w1, x1 w0, x0 w1, x0 w0. */
__global__ void
split (bf16 *pieces, const float *x, gint64 n, gint64 cols, bool weight)
{
  gint64 i = ((gint64) blockIdx.x * THREADS + threadIdx.x) * 8;
  float v[8], part[3][8];

  if (i >= n)
    return;
  load8 (x + i, v);
#pragma unroll
  for (int k = 0; k < 8; k++) {
    part[0][k] = rounded<bf16> (v[k]);
    /* of infinity nothing is left */
    v[k] = isinf (part[0][k]) ? 0.0f : v[k] - part[0][k];
    part[1][k] = rounded<bf16> (v[k]);
    part[2][k] = v[k] - part[1][k];
  }
  pieces += i / cols * H3_CUDA_PIECES * cols + i % cols;
  store8 (pieces, part[weight ? 0 : 2]);
  store8 (pieces + cols, part[weight ? 2 : 0]);
  store8 (pieces + 2 * cols, part[1]);
  store8 (pieces + 3 * cols, part[weight ? 0 : 1]);
  store8 (pieces + 4 * cols, part[weight ? 1 : 0]);
  store8 (pieces + 5 * cols, part[0]);
}

gboolean
h3_cuda_has_kernels (void)
{
  cudaFuncAttributes code;
  cudaError_t err = cudaFuncGetAttributes (&code, split);

  if (err != cudaSuccess)
    cudaGetLastError ();
  return err != cudaErrorNoKernelImageForDevice &&
      err != cudaErrorInvalidDeviceFunction;
}

/* @cols a multiple of eight, both aligned to 16 bytes */
cudaError_t
h3_cuda_split (H3CudaStreamHandle stream, gpointer pieces, gconstpointer x,
    gint64 rows, gint64 cols, gboolean weight)
{
  if (rows == 0 || cols == 0)
    return cudaSuccess;
  split<<<blocks_for (rows * cols, THREADS * 8), THREADS, 0, stream>>> (
      (bf16 *) pieces, (const float *) x, rows * cols, cols, weight);
  return cudaGetLastError ();
}

/* The reference rounds silu (g) and then the product (denoiser.md 3.8). */
template <typename T, bool WHOLE>
__global__ void
swiglu (T *y, const T *gate_up, int cols)
{
  gint64 row = blockIdx.y;
  int i = (blockIdx.x * THREADS + threadIdx.x) * 8;
  float g[8], u[8];

  if (i >= cols)
    return;
  int n = min (8, cols - i);
  gate_up += row * 2 * cols;
  load_part<WHOLE> (gate_up + i, n, g);
  load_part<WHOLE> (gate_up + cols + i, n, u);
#pragma unroll
  for (int k = 0; k < 8; k++)
    g[k] = rounded<T> (g[k] / (1.0f + expf (-g[k]))) * u[k];
  store_part<WHOLE> (y + row * cols + i, n, g);
}

/* A grid's second axis ends at 65 535; rows beyond go in further launches. */
#define MAX_ROWS 65535

template <typename F>
static cudaError_t
for_rows (gint64 rows, F launch)
{
  for (gint64 first = 0; first < rows; first += MAX_ROWS)
    launch (first, (unsigned) MIN (rows - first, MAX_ROWS));
  return cudaGetLastError ();
}

cudaError_t
h3_cuda_swiglu (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *gate_up)
{
  gint64 cols = h3_tensor_cols (y);
  bool fast = whole (cols, y->data, gate_up->data);

  if (y->dtype != gate_up->dtype || cols == 0)
    return cols ? cudaErrorInvalidValue : cudaSuccess;
  H3_WITH_TYPE (y->dtype, T,
      return for_rows (h3_tensor_rows (y), [&] (gint64 first, unsigned n) {
        dim3 grid (blocks_for (cols, THREADS * 8), n);
        T *out = (T *) y->data + first * cols;
        const T *in = (const T *) gate_up->data + first * 2 * cols;
        if (fast)
          swiglu<T, true><<<grid, THREADS, 0, stream>>> (out, in, cols);
        else
          swiglu<T, false><<<grid, THREADS, 0, stream>>> (out, in, cols);
      }));
  return cudaErrorInvalidValue;
}

/* x += branch * scale, or with rows: x += table[rows[s], gate] * branch */
template <typename TX, typename TB, bool WHOLE>
__global__ void
residual (TX *x, const TB *branch, const void *scale, H3DType scale_type,
    const gint32 *rows, gint64 table_cols, gint64 first_col, int cols)
{
  gint64 row = blockIdx.y;
  int i = (blockIdx.x * THREADS + threadIdx.x) * 8;
  float v[8], b[8], g[8];

  if (i >= cols)
    return;
  int n = min (8, cols - i);
  gint64 at = (rows ? rows[row] * table_cols : 0) + first_col + i;
  load_part<WHOLE> (x + row * cols + i, n, v);
  load_part<WHOLE> (branch + row * cols + i, n, b);
  load_any<WHOLE> (scale, scale_type, at, n, g);
#pragma unroll
  for (int k = 0; k < 8; k++)
    v[k] = add_scaled (v[k], b[k], g[k]);
  store_part<WHOLE> (x + row * cols + i, n, v);
}

template <typename TX, typename TB>
static cudaError_t
launch_residual (H3CudaStreamHandle stream, H3Tensor *x,
    const H3Tensor *branch, const H3Tensor *scale, const gint32 *rows,
    gint64 table_cols, gint64 first_col)
{
  gint64 cols = h3_tensor_cols (x);
  bool fast = whole (cols, x->data, branch->data, scale->data);

  if (cols == 0)
    return cudaSuccess;
  return for_rows (h3_tensor_rows (x), [&] (gint64 first, unsigned n) {
    dim3 grid (blocks_for (cols, THREADS * 8), n);
    TX *px = (TX *) x->data + first * cols;
    const TB *pb = (const TB *) branch->data + first * cols;
    const gint32 *pr = rows ? rows + first : NULL;
    if (fast)
      residual<TX, TB, true><<<grid, THREADS, 0, stream>>> (px, pb,
          scale->data, scale->dtype, pr, table_cols, first_col, cols);
    else
      residual<TX, TB, false><<<grid, THREADS, 0, stream>>> (px, pb,
          scale->data, scale->dtype, pr, table_cols, first_col, cols);
  });
}

cudaError_t
h3_cuda_scaled_residual (H3CudaStreamHandle stream, H3Tensor *x,
    const H3Tensor *branch, const H3Tensor *scale)
{
  H3_WITH_TYPE (x->dtype, TX, H3_WITH_TYPE (branch->dtype, TB,
      return (launch_residual<TX, TB> (stream, x, branch, scale, NULL, 0,
          0))));
  return cudaErrorInvalidValue;
}

cudaError_t
h3_cuda_gated_residual (H3CudaStreamHandle stream, H3Tensor *x,
    const H3Tensor *branch, const H3Tensor *table, const H3Tensor *rows,
    guint gate)
{
  H3_WITH_TYPE (x->dtype, TX, H3_WITH_TYPE (branch->dtype, TB,
      return (launch_residual<TX, TB> (stream, x, branch, table,
          (const gint32 *) rows->data, h3_tensor_cols (table),
          gate * h3_tensor_cols (x)))));
  return cudaErrorInvalidValue;
}

__device__ __forceinline__ float
activate (float x, H3Activation activation)
{
  switch (activation) {
    case H3_ACTIVATION_SILU:
      return x / (1.0f + expf (-x));
    case H3_ACTIVATION_GELU_TANH:
      return 0.5f * x *
          (1.0f + tanhf (0.7978845608f * (x + 0.044715f * x * x * x)));
    case H3_ACTIVATION_GELU_ERF:
      return 0.5f * x * (1.0f + erff (x * 0.7071067812f));
    default:
      return x;
  }
}

template <typename TY, typename TX>
__global__ void
bias_act (TY *y, gint64 y_stride, const TX *x, const float *bias, gint64 n,
    gint64 cols, H3Activation activation)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i >= n)
    return;
  gint64 row = i / cols, col = i % cols;
  float v = to_float (x[i]);
  if (bias)
    v += bias[col];
  y[row * y_stride + col] = from_float<TY> (activate (v, activation));
}

cudaError_t
h3_cuda_bias_act (H3CudaStreamHandle stream, H3DType y_type, gpointer y,
    gint64 y_stride, H3DType x_type, gconstpointer x, const gfloat *bias,
    gint64 rows, gint64 cols, H3Activation activation)
{
  gint64 n = rows * cols;

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (y_type, TY, H3_WITH_TYPE (x_type, TX,
      bias_act<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (
          (TY *) y, y_stride, (const TX *) x, bias, n, cols, activation)));
  return cudaGetLastError ();
}

/* Every product and sum rounded on its own, as the CPU does. */
__global__ void
solver_step (float *x, const float *v, float *d_prev, gint64 n,
    float in_scale, float sigma_t, float d_scale, float a, float b, float c)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i >= n)
    return;
  float x_in = __fmul_rn (in_scale, x[i]);
  float d = __fmul_rn (__fadd_rn (x_in, __fmul_rn (sigma_t, v[i])), d_scale);
  float next = __fadd_rn (__fmul_rn (a, x[i]), __fmul_rn (b, d));
  if (c != 0.0f)
    next = __fadd_rn (next, __fmul_rn (c, d_prev[i]));
  if (d_prev)
    d_prev[i] = d;
  x[i] = next;
}

cudaError_t
h3_cuda_solver_step (H3CudaStreamHandle stream, const H3SolverArgs *s)
{
  gint64 n = h3_tensor_size (s->x);

  if (n == 0)
    return cudaSuccess;
  solver_step<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (
      (float *) s->x->data, (const float *) s->v->data,
      s->d_prev ? (float *) s->d_prev->data : NULL, n, s->in_scale,
      s->sigma_t, s->d_scale, s->a, s->b, s->c);
  return cudaGetLastError ();
}

__global__ void
mean (float *y, const float *a, const float *b, const float *c, gint64 n)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i >= n)
    return;
  float sum = __fadd_rn (a[i], b[i]);
  y[i] = c ? __fdiv_rn (__fadd_rn (sum, c[i]), 3.0f) : sum / 2.0f;
}

cudaError_t
h3_cuda_mean (H3CudaStreamHandle stream, H3Tensor *y, const H3Tensor *a,
    const H3Tensor *b, const H3Tensor *c)
{
  gint64 n = h3_tensor_size (y);

  if (n == 0)
    return cudaSuccess;
  mean<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((float *) y->data,
      (const float *) a->data, (const float *) b->data,
      c ? (const float *) c->data : NULL, n);
  return cudaGetLastError ();
}

__global__ void
multiply (float *y, const float *x, gint64 n)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i < n)
    y[i] *= x[i];
}

cudaError_t
h3_cuda_multiply (H3CudaStreamHandle stream, H3Tensor *y, const H3Tensor *x)
{
  gint64 n = h3_tensor_size (y);

  if (n == 0)
    return cudaSuccess;
  multiply<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (
      (float *) y->data, (const float *) x->data, n);
  return cudaGetLastError ();
}

template <typename T>
__global__ void
count_nonfinite (int *count, const T *x, gint64 n)
{
  int bad = 0;

  for (gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x; i < n;
       i += (gint64) gridDim.x * THREADS)
    bad += !isfinite (to_float (x[i]));
  bad = __reduce_add_sync (~0u, bad);
  if (threadIdx.x % H3_WARP == 0 && bad)
    atomicAdd (count, bad);
}

cudaError_t
h3_cuda_count_nonfinite (H3CudaStreamHandle stream, H3Tensor *count,
    const H3Tensor *x)
{
  gint64 n = h3_tensor_size (x);
  cudaError_t err = cudaMemsetAsync (count->data, 0, 4, stream);

  if (err != cudaSuccess || n == 0)
    return err;
  H3_WITH_TYPE (x->dtype, T,
      count_nonfinite<<<MIN (blocks_for (n, THREADS), 1024), THREADS, 0,
          stream>>> ((int *) count->data, (const T *) x->data, n));
  return cudaGetLastError ();
}
