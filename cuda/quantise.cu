/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rows of floats as bytes with a scale each (checkpoints.md 5.3, 5.5): a block
 * per row, which is read once and stays in registers. */
#include <cuda_fp8.h>

#include "cuda/kernel.cuh"

#define MOST_THREADS 512
#define KEPT 8 /* groups of eight that a thread has at most */

static_assert (MOST_THREADS * KEPT * 8 == H3_CUDA_QUANTISED_COLS, "columns");
/* Columns that a warp has next to each other are rotated without leaving it. */
static_assert (H3_WARP * 8 == H3_CUDA_ROTATED_COLS, "rotation");

/* The largest of a block, in every thread; NaN is the largest, Inf the next:
 * floats without sign are ordered like their bits. */
__device__ __forceinline__ float
block_largest (float v)
{
  __shared__ unsigned part[H3_WARP];
  int lane = threadIdx.x % H3_WARP, warp = threadIdx.x / H3_WARP;
  unsigned bits = __reduce_max_sync (~0u, __float_as_uint (fabsf (v)));

  if (lane == 0)
    part[warp] = bits;
  __syncthreads ();
  bits = lane < blockDim.x / H3_WARP ? part[lane] : 0;
  return __uint_as_float (__reduce_max_sync (~0u, bits));
}

__device__ __forceinline__ float
larger (float a, float b)
{
  return __uint_as_float (max (__float_as_uint (fabsf (a)),
      __float_as_uint (fabsf (b))));
}

/* One factor H4 / 2 of the rotation: of four elements a, b, c, d the i-th
 * becomes half the sum of all, less the one that is 3 - i. */
__device__ __forceinline__ void
rotate_quad (float &a, float &b, float &c, float &d)
{
  float half = 0.5f * ((a + b) + (c + d));
  float ra = half - d, rb = half - c, rc = half - b, rd = half - a;

  a = ra;
  b = rb;
  c = rc;
  d = rd;
}

/* Of elements that lanes have which differ in two neighbouring bits of their
 * numbers, the lower @bit. */
__device__ __forceinline__ float
rotate_lanes (float v, int bit)
{
  float pair = v + __shfl_xor_sync (~0u, v, bit);

  return 0.5f * (pair + __shfl_xor_sync (~0u, pair, 2 * bit)) -
      __shfl_xor_sync (~0u, v, 3 * bit);
}

/* Each run of @g elements of a warp's 256, eight in a lane. */
__device__ __forceinline__ void
rotate (float (&v)[8], unsigned g)
{
  if (g >= 4) {
    rotate_quad (v[0], v[1], v[2], v[3]);
    rotate_quad (v[4], v[5], v[6], v[7]);
  }
  if (g >= 16) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float pair = v[i] + v[i + 4];
      float half = 0.5f * (pair + __shfl_xor_sync (~0u, pair, 1));
      float low = __shfl_xor_sync (~0u, v[i], 1);
      v[i] = half - __shfl_xor_sync (~0u, v[i + 4], 1);
      v[i + 4] = half - low;
    }
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    if (g >= 64)
      v[i] = rotate_lanes (v[i], 2);
    if (g >= 256)
      v[i] = rotate_lanes (v[i], 8);
  }
}

/* How a byte stands for a number of at most @most. */
struct E4m3Bytes {
  static constexpr float most = 448.0f;
  static __device__ __forceinline__ unsigned
  two (float a, float b)
  {
    return __nv_cvt_float2_to_fp8x2 (make_float2 (a, b), __NV_SATFINITE,
        __NV_E4M3);
  }
};

struct Int8Bytes {
  static constexpr float most = 127.0f;
  static __device__ __forceinline__ unsigned
  one (float a)
  {
    return (unsigned) max (-127, min (127, __float2int_rn (a))) & 0xff;
  }
  static __device__ __forceinline__ unsigned
  two (float a, float b)
  {
    return one (a) | one (b) << 8;
  }
};

template <typename B>
__device__ __forceinline__ void
store_bytes (unsigned char *q, const float (&v)[8], float per)
{
  unsigned two[4];

#pragma unroll
  for (int i = 0; i < 4; i++)
    two[i] = B::two (__fmul_rn (v[2 * i], per), __fmul_rn (v[2 * i + 1], per));
  *(uint2 *) q = make_uint2 (two[0] | two[1] << 16, two[2] | two[3] << 16);
}

/* N: groups that a thread has. Every thread takes part in every group: lanes
 * exchange what they have. */
template <typename B, typename TX, int N, bool WHOLE>
__global__ void __launch_bounds__ (MOST_THREADS)
quantise (unsigned char *q, float *scale, const TX *x, int cols,
    const float *factor, unsigned rotation)
{
  gint64 row = blockIdx.x;
  float v[N][8], most = 0.0f;

  x += row * cols;
#pragma unroll
  for (int k = 0; k < N; k++) {
    int i = (k * blockDim.x + threadIdx.x) * 8;
    if (i < cols)
      load_part<WHOLE> (x + i, 8, v[k]);
    else
#pragma unroll
      for (int j = 0; j < 8; j++)
        v[k][j] = 0.0f;
    if (factor && i < cols)
#pragma unroll
      for (int j = 0; j < 8; j++)
        v[k][j] *= factor[i + j];
  }
#pragma unroll
  for (int k = 0; k < N; k++) {
    if (rotation > 1)
      rotate (v[k], rotation);
#pragma unroll
    for (int j = 0; j < 8; j++)
      most = larger (most, v[k][j]);
  }
  most = block_largest (most);
  /* not fmaxf, which would drop NaN */
  most = most < H3_QUANTISED_LEAST ? H3_QUANTISED_LEAST : most;
  if (threadIdx.x == 0)
    scale[row] = __fdiv_rn (most, B::most);
  float per = __fdiv_rn (B::most, most);

#pragma unroll
  for (int k = 0; k < N; k++) {
    int i = (k * blockDim.x + threadIdx.x) * 8;
    if (i < cols)
      store_bytes<B> (q + row * cols + i, v[k], per);
  }
}

/* E4M3 of rows of any length and place, which are read twice. */
template <typename TX>
__global__ void
quantise_any (unsigned char *q, float *scale, const TX *x, int cols)
{
  gint64 row = blockIdx.x;
  float most = 0.0f;

  for (int i = threadIdx.x; i < cols; i += blockDim.x)
    most = larger (most, to_float (x[row * cols + i]));
  most = block_largest (most);
  most = most < H3_QUANTISED_LEAST ? H3_QUANTISED_LEAST : most;
  if (threadIdx.x == 0)
    scale[row] = __fdiv_rn (most, E4m3Bytes::most);
  float per = __fdiv_rn (E4m3Bytes::most, most);
  for (int i = threadIdx.x; i < cols; i += blockDim.x)
    q[row * cols + i] = (unsigned char) E4m3Bytes::two (
        __fmul_rn (to_float (x[row * cols + i]), per), 0.0f);
}

template <typename B, typename TX, int N>
static void
launch (H3CudaStreamHandle stream, guint8 *q, float *scale, const TX *x,
    gint64 rows, gint64 cols, const float *factor, guint rotation, int threads)
{
  if (aligned16 (x))
    quantise<B, TX, N, true><<<rows, threads, 0, stream>>> (q, scale, x, cols,
        factor, rotation);
  else
    quantise<B, TX, N, false><<<rows, threads, 0, stream>>> (q, scale, x, cols,
        factor, rotation);
}

/* As few groups for a thread as fill a block of at most 256 threads, or more
 * where rows are longer. */
template <typename B, typename TX>
static cudaError_t
choose (H3CudaStreamHandle stream, guint8 *q, float *scale, const TX *x,
    gint64 rows, gint64 cols, const float *factor, guint rotation)
{
  int groups = (int) (cols / 8);
  int n = groups <= 256 ? 1
      : groups <= 512   ? 2
      : groups <= 1024  ? 4
                        : 8;
  int threads = ((groups + n - 1) / n + H3_WARP - 1) / H3_WARP * H3_WARP;

  if (n == 1)
    launch<B, TX, 1> (stream, q, scale, x, rows, cols, factor, rotation,
        threads);
  else if (n == 2)
    launch<B, TX, 2> (stream, q, scale, x, rows, cols, factor, rotation,
        threads);
  else if (n == 4)
    launch<B, TX, 4> (stream, q, scale, x, rows, cols, factor, rotation,
        threads);
  else
    launch<B, TX, KEPT> (stream, q, scale, x, rows, cols, factor, rotation,
        threads);
  return cudaGetLastError ();
}

cudaError_t
h3_cuda_quantise (H3CudaStreamHandle stream, H3Encoding encoding, guint8 *q,
    gfloat *scale, H3DType x_type, gconstpointer x, gint64 rows, gint64 cols,
    const gfloat *factor, guint rotation)
{
  if (rows == 0 || cols == 0)
    return cudaSuccess;
  if (rows > G_MAXINT || cols > G_MAXINT || rotation > H3_CUDA_ROTATED_COLS)
    return cudaErrorInvalidValue;
  if (cols % 8 || cols > H3_CUDA_QUANTISED_COLS || ((gsize) q & 7)) {
    if (encoding != H3_ENCODING_E4M3 || factor || rotation > 1)
      return cudaErrorInvalidValue;
    H3_WITH_TYPE (x_type, TX,
        quantise_any<<<rows, 256, 0, stream>>> (q, scale, (const TX *) x,
            (int) cols));
    return cudaGetLastError ();
  }
  H3_WITH_TYPE (x_type, TX,
      if (encoding == H3_ENCODING_E4M3)
        return (choose<E4m3Bytes, TX> (stream, q, scale, (const TX *) x, rows,
            cols, factor, rotation));
      return (choose<Int8Bytes, TX> (stream, q, scale, (const TX *) x, rows,
          cols, factor, rotation)));
  return cudaErrorInvalidValue;
}

/* --- sums of bytes to numbers --- */

#define THREADS 256

template <typename TY, typename D>
__global__ void
scale_sums (TY *y, const D *sums, const float *x_scale, const float *w_scale,
    const float *bias, int cols, bool add)
{
  gint64 row = blockIdx.y;
  int col = (blockIdx.x * THREADS + threadIdx.x) * 4;

  if (col >= cols)
    return;
  float scale = x_scale[row];
  y += row * cols + col;
  sums += row * cols + col;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float v = fmaf ((float) sums[i], scale * w_scale[col + i],
        bias ? bias[col + i] : 0.0f);
    y[i] = from_float<TY> (add ? to_float (y[i]) + v : v);
  }
}

/* cols a multiple of 4, and no more rows than a grid's second axis */
cudaError_t
h3_cuda_scale_sums (H3CudaStreamHandle stream, const H3CudaBytes *a,
    gconstpointer sums)
{
  dim3 grid (blocks_for (a->cols, THREADS * 4), (unsigned) a->rows);

  if (a->cols % 4 || a->rows > 65535)
    return cudaErrorInvalidValue;
  H3_WITH_TYPE (a->y_type, TY,
      if (a->encoding == H3_ENCODING_INT8)
        scale_sums<<<grid, THREADS, 0, stream>>> ((TY *) a->y,
            (const int *) sums, a->x_scale, a->w_scale, a->bias, (int) a->cols,
            (bool) a->accumulate);
      else
        scale_sums<<<grid, THREADS, 0, stream>>> ((TY *) a->y,
            (const float *) sums, a->x_scale, a->w_scale, a->bias,
            (int) a->cols, (bool) a->accumulate));
  return cudaGetLastError ();
}
