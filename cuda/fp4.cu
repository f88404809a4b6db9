/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an NVFP4 product on Blackwell's tensor cores needs beside the library
 * (checkpoints.md 5.2): rows of x as FP4 with a scale for each 16 of them, scales
 * where the tensor cores look for them, and the sums' own scales. */
#include "cuda/kernel.cuh"

#include <cuda_fp4.h>
#include <cuda_fp8.h>

#define THREADS 256
#define BLOCK 16 /* columns that share a scale */

/* The largest E4M3 times the largest E2M1, and the latter. */
#define LARGEST (448.0f * 6.0f)
#define LARGEST_CODE 6.0f

gboolean
h3_cuda_has_fp4 (void)
{
  int device, major = 0;

  return cudaGetDevice (&device) == cudaSuccess &&
      cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor,
          device) == cudaSuccess &&
      major >= 10;
}

/* Where the scale of row r and block c is; C: h3_cuda_fp4_scale_cols(). */
__device__ __forceinline__ gint64
tiled_place (gint64 r, int c, int C)
{
  return (r / 128 * (C / 4) + c / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 +
      c % 4;
}

__device__ __forceinline__ float
e4m3 (guint8 code)
{
  return __half2float (__nv_cvt_fp8_to_halfraw (code, __NV_E4M3));
}

/* |v| as an integer, whose order is the numbers', NaN above all. */
__device__ __forceinline__ unsigned
magnitude (float v)
{
  return __float_as_uint (fabsf (v));
}

__device__ __forceinline__ unsigned
block_max (unsigned v)
{
  __shared__ unsigned part[THREADS / H3_WARP];

  v = __reduce_max_sync (~0u, v);
  if (threadIdx.x % H3_WARP == 0)
    part[threadIdx.x / H3_WARP] = v;
  __syncthreads ();
  for (int i = 0; i < THREADS / H3_WARP; i++)
    v = max (v, part[i]);
  return v;
}

/* v = x [16] times factor; the row's first column is @first */
template <typename TX>
__device__ __forceinline__ unsigned
load_block (const TX *x, const float *factor, int first, float *v)
{
  unsigned most = 0;

#pragma unroll
  for (int i = 0; i < BLOCK; i++) {
    v[i] = to_float (x[first + i]);
    if (factor)
      v[i] *= factor[first + i];
    most = max (most, magnitude (v[i]));
  }
  return most;
}

/* A block of threads a row. */
template <typename TX>
__global__ void __launch_bounds__ (THREADS)
quantise (guint8 *q, guint8 *scales, float *row_scale, const TX *x,
    const float *factor, float input_scale, int cols, int scale_cols)
{
  gint64 row = blockIdx.x;
  unsigned most = 0;
  float v[BLOCK];

  x += row * cols;
  q += row * (cols / 2);
  for (int g = threadIdx.x; g < cols / BLOCK; g += THREADS)
    most = max (most, load_block (x, factor, g * BLOCK, v));
  float largest = __uint_as_float (block_max (most));
  /* NaN or Inf of one element is that of the whole row */
  float ts = isfinite (largest) && input_scale > 0 ? input_scale
                                                   : largest / LARGEST;
  if (threadIdx.x == 0)
    row_scale[row] = ts;
  for (int g = threadIdx.x; g < cols / BLOCK; g += THREADS) {
    most = load_block (x, factor, g * BLOCK, v);
    float wanted =
        ts > 0 ? fminf (__uint_as_float (most) / LARGEST_CODE / ts, 448) : 0;
    guint8 b = __nv_cvt_float_to_fp8 (wanted, __NV_SATFINITE, __NV_E4M3);
    float unit = ts * e4m3 (b);
    unsigned w[2] = { 0, 0 };
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
      float c = unit > 0 ? fminf (fmaxf (v[i] / unit, -LARGEST_CODE),
                               LARGEST_CODE)
                         : 0.0f;
      unsigned code =
          __nv_cvt_float_to_fp4 (c, __NV_E2M1, cudaRoundNearest) & 15;
      /* the even column in the high nibble, as the weight has it */
      w[i / 8] |= code << (i % 8 / 2 * 8 + (i % 2 ? 0 : 4));
    }
    *(uint2 *) (q + g * 8) = make_uint2 (w[0], w[1]);
    scales[tiled_place (row, g, scale_cols)] = b;
  }
}

cudaError_t
h3_cuda_fp4_quantise (H3CudaStreamHandle stream, guint8 *q, guint8 *scales,
    gfloat *row_scale, H3DType x_type, gconstpointer x, gint64 rows,
    gint64 cols, const gfloat *factor, gfloat input_scale)
{
  int scale_cols = (int) h3_cuda_fp4_scale_cols (cols);

  if (rows == 0 || cols % (2 * BLOCK) || cols > G_MAXINT || rows > G_MAXINT)
    return cudaErrorInvalidValue;
  cudaError_t err = cudaMemsetAsync (scales, 0,
      h3_cuda_fp4_scale_bytes (rows, cols), stream);
  if (err != cudaSuccess)
    return err;
  H3_WITH_TYPE (x_type, TX,
      quantise<<<(unsigned) rows, THREADS, 0, stream>>> (q, scales, row_scale,
          (const TX *) x, factor, input_scale, (int) cols, scale_cols));
  return cudaGetLastError ();
}

__global__ void
tile (guint8 *tiled, const guint8 *scales, gint64 n, int cols, int tiled_cols)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i < n)
    tiled[tiled_place (i / cols, i % cols, tiled_cols)] = scales[i];
}

cudaError_t
h3_cuda_fp4_tile (H3CudaStreamHandle stream, guint8 *tiled,
    const guint8 *scales, gint64 rows, gint64 cols)
{
  gint64 blocks = cols / BLOCK;
  cudaError_t err = cudaMemsetAsync (tiled, 0,
      h3_cuda_fp4_scale_bytes (rows, cols), stream);

  if (err != cudaSuccess || rows * blocks == 0)
    return err;
  tile<<<blocks_for (rows * blocks, THREADS), THREADS, 0, stream>>> (tiled,
      scales, rows * blocks, (int) blocks, (int) h3_cuda_fp4_scale_cols (cols));
  return cudaGetLastError ();
}

template <typename TY>
__global__ void
finish (TY *y, gint64 y_stride, const float *sums, const float *x_scale,
    const float *w_scale, const float *bias, gint64 n, gint64 cols, bool add)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i >= n)
    return;
  gint64 row = i / cols, col = i % cols;
  float v = sums[i] * x_scale[row] * w_scale[col];
  TY *to = y + row * y_stride + col;

  if (bias)
    v += bias[col];
  *to = from_float<TY> (add ? to_float (*to) + v : v);
}

cudaError_t
h3_cuda_fp4_finish (H3CudaStreamHandle stream, H3DType y_type, gpointer y,
    gint64 y_stride, const gfloat *sums, const gfloat *x_scale,
    const gfloat *w_scale, const gfloat *bias, gint64 rows, gint64 cols,
    gboolean add)
{
  gint64 n = rows * cols;

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (y_type, TY,
      finish<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((TY *) y,
          y_stride, sums, x_scale, w_scale, bias, n, cols, (bool) add));
  return cudaGetLastError ();
}
