/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* 1-D convolutions in float32 as implicit matrix products (audio-vae.md 4.1,
 * 4.2, 12): output channels by positions, summed over (input channel, tap) in
 * that order whatever the tile, so a chunk gives the bytes of the whole. */
#include "cuda/kernel.cuh"

#define THREADS 256
#define BK 8 /* terms of the sum in shared memory at a time */

typedef struct {
  float *y;
  const float *x, *w, *bias, *residual;
  int ci, co, taps, length, out_length;
  int stride, dilation, pad;
} Conv;

/* Where term k of output n comes from: the plain convolution. */
struct Plain {
  static __device__ __forceinline__ int terms (const Conv &c)
  {
    return c.ci * c.taps;
  }
  static __device__ __forceinline__ float
  weight (const Conv &c, int o, int k, int)
  {
    return c.w[(gint64) o * c.ci * c.taps + k];
  }
  static __device__ __forceinline__ float
  input (const Conv &c, const float *x, int k, int n, int)
  {
    int ch = k / c.taps, tap = k % c.taps;
    int at = n * c.stride - c.pad + tap * c.dilation;
    return at >= 0 && at < c.length ? x[(gint64) ch * c.length + at] : 0.0f;
  }
  static __device__ __forceinline__ int position (const Conv &, int n, int)
  {
    return n;
  }
};

/* The transposed one, a phase of the output at a time: n = q * stride + phase,
 * all of one phase see the same taps r + j * stride. */
struct Transposed {
  static __device__ __forceinline__ int terms (const Conv &c)
  {
    return c.ci * ((c.taps + c.stride - 1) / c.stride);
  }
  static __device__ __forceinline__ float
  weight (const Conv &c, int o, int k, int phase)
  {
    int per = (c.taps + c.stride - 1) / c.stride;
    int ch = k / per, tap = (phase + c.pad) % c.stride + k % per * c.stride;
    return tap < c.taps ? c.w[((gint64) ch * c.co + o) * c.taps + tap] : 0.0f;
  }
  static __device__ __forceinline__ float
  input (const Conv &c, const float *x, int k, int n, int phase)
  {
    int per = (c.taps + c.stride - 1) / c.stride;
    int ch = k / per, j = k % per;
    int at = (n * c.stride + phase + c.pad) / c.stride - j;
    return at >= 0 && at < c.length ? x[(gint64) ch * c.length + at] : 0.0f;
  }
  static __device__ __forceinline__ int
  position (const Conv &c, int n, int phase)
  {
    return n * c.stride + phase;
  }
};

/* BM output channels by BN positions a block, TM by TN a thread. */
template <typename KIND, int BM, int BN, int TM, int TN>
__global__ void __launch_bounds__ (THREADS)
conv (const __grid_constant__ Conv c, int positions, int phases)
{
  static_assert (BM / TM * (BN / TN) == THREADS, "one tile a thread");
  __shared__ float ws[BK][BM + 4], xs[BK][BN + 4];
  int phase = blockIdx.z % phases;
  gint64 batch = blockIdx.z / phases;
  int n0 = blockIdx.x * BN, o0 = blockIdx.y * BM;
  int tn = threadIdx.x % (BN / TN), tm = threadIdx.x / (BN / TN);
  const float *x = c.x + batch * c.ci * c.length;
  int terms = KIND::terms (c);
  float acc[TM][TN] = {};

  for (int k0 = 0; k0 < terms; k0 += BK) {
    for (int i = threadIdx.x; i < BK * BM; i += THREADS) {
      int k = i % BK, o = i / BK;
      ws[k][o] = k0 + k < terms && o0 + o < c.co
          ? KIND::weight (c, o0 + o, k0 + k, phase) : 0.0f;
    }
    for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
      int n = i % BN, k = i / BN;
      xs[k][n] = k0 + k < terms && n0 + n < positions
          ? KIND::input (c, x, k0 + k, n0 + n, phase) : 0.0f;
    }
    __syncthreads ();
#pragma unroll
    for (int k = 0; k < BK; k++) {
      float w[TM], v[TN];
#pragma unroll
      for (int i = 0; i < TM; i++)
        w[i] = ws[k][tm * TM + i];
#pragma unroll
      for (int j = 0; j < TN; j++)
        v[j] = xs[k][tn + j * (BN / TN)];
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++)
          acc[i][j] = fmaf (w[i], v[j], acc[i][j]);
    }
    __syncthreads ();
  }

#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) {
      int o = o0 + tm * TM + i, n = n0 + tn + j * (BN / TN);
      if (o >= c.co || n >= positions)
        continue;
      gint64 at = (batch * c.co + o) * c.out_length +
          KIND::position (c, n, phase);
      float v = acc[i][j] + (c.bias ? c.bias[o] : 0.0f);
      c.y[at] = c.residual ? v + c.residual[at] : v;
    }
}

template <typename KIND>
static cudaError_t
launch (H3CudaStreamHandle stream, const Conv &c, int positions, int phases,
    gint64 batch)
{
  if (positions == 0 || batch == 0 || c.co == 0)
    return cudaSuccess;
  if (batch * phases > 65535)
    return cudaErrorInvalidValue;
#define LAUNCH(BM, BN, TM, TN) \
  conv<KIND, BM, BN, TM, TN><<<dim3 (blocks_for (positions, BN), \
      blocks_for (c.co, BM), batch * phases), THREADS, 0, stream>>> (c, \
      positions, phases)
  if (c.co > 64)
    LAUNCH (128, 64, 8, 4);
  else if (c.co > 16)
    LAUNCH (64, 64, 4, 4);
  else
    LAUNCH (16, 256, 4, 4);
#undef LAUNCH
  return cudaGetLastError ();
}

cudaError_t
h3_cuda_conv1d (H3CudaStreamHandle stream, const H3Conv1dArgs *a,
    const gfloat *weight)
{
  const gint64 *xs = a->x->shape, *ys = a->y->shape;
  const H3Tensor *w = a->weight->tensor;
  Conv c = { (float *) a->y->data, (const float *) a->x->data,
    weight, a->bias ? (const float *) a->bias->data : NULL,
    a->residual ? (const float *) a->residual->data : NULL, (int) xs[1],
    (int) ys[1], (int) w->shape[2], (int) xs[2], (int) ys[2], a->stride,
    a->dilation, a->pad };

  return launch<Plain> (stream, c, ys[2], 1, ys[0]);
}

cudaError_t
h3_cuda_conv_transpose1d (H3CudaStreamHandle stream,
    const H3ConvTranspose1dArgs *a, const gfloat *weight)
{
  const gint64 *xs = a->x->shape, *ys = a->y->shape;
  const H3Tensor *w = a->weight->tensor;
  Conv c = { (float *) a->y->data, (const float *) a->x->data,
    weight, a->bias ? (const float *) a->bias->data : NULL,
    NULL, (int) xs[1], (int) ys[1], (int) w->shape[2], (int) xs[2],
    (int) ys[2], a->stride, 1, (int) (w->shape[2] - a->stride) / 2 };

  return launch<Transposed> (stream, c, xs[2], a->stride, ys[0]);
}
