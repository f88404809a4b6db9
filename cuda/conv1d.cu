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

/* ---- the plain convolution with stride 1: what the decoder is made of ---- */

#define FAST_THREADS 128
#define FAST_TERMS 32    /* of the sum, at most, in shared memory at a time */
#define FAST_CHANNELS 8  /* of them so many input channels at most */
#define FAST_SHARED (96 << 10)
#define TM 8 /* output channels of a thread */

__device__ __forceinline__ void
copy4_async (float *dst, const float *src, bool inside)
{
  unsigned at = (unsigned) __cvta_generic_to_shared (dst);
  int bytes = inside ? 4 : 0;
  asm volatile ("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at),
      "l"(src), "r"(bytes));
}

/* How a block's part of the sum lies in shared memory, twice: weights
 * [terms][BM + 4], then rows of the input [channels][width]. */
typedef struct {
  int channels, width, weights, floats;
} Part;

static Part
part_of (const Conv &c, int bm, int bn)
{
  Part p;

  p.channels = MAX (MIN (FAST_TERMS / c.taps, FAST_CHANNELS), 1);
  p.width = bn + (c.taps - 1) * c.dilation;
  p.weights = p.channels * c.taps * (bm + 4);
  p.floats = p.weights + p.channels * p.width;
  return p;
}

/* A lane has a term, of which there are no more than lanes. */
template <int BM, int TN>
__device__ __forceinline__ void
load_part (const Conv &c, const Part &p, const float *x, float *to, int c0,
    int o0, int n0)
{
  int first = n0 - c.pad, t = threadIdx.x % H3_WARP;
  int warp = threadIdx.x / H3_WARP, row = c.ci * c.taps;
  int left = min (p.channels, c.ci - c0) * c.taps; /* terms that there are */
  const float *w = c.w + (gint64) (o0 + warp) * row + (gint64) c0 * c.taps + t;

  if (t < p.channels * c.taps)
#pragma unroll 4
    for (int o = warp; o < BM; o += FAST_THREADS / H3_WARP) {
      bool inside = t < left && o0 + o < c.co;
      copy4_async (to + t * (BM + 4) + o, inside ? w : c.w, inside);
      w += (gint64) FAST_THREADS / H3_WARP * row;
    }
  to += p.weights;
  for (int ch = 0; ch < p.channels; ch++)
    for (int i = threadIdx.x; i < p.width; i += FAST_THREADS) {
      int at = first + i;
      bool inside = c0 + ch < c.ci && at >= 0 && at < c.length;
      copy4_async (to + ch * p.width + i,
          inside ? x + (gint64) (c0 + ch) * c.length + at : x, inside);
    }
}

template <int BM, int TN>
__global__ void __launch_bounds__ (FAST_THREADS)
conv_fast (const __grid_constant__ Conv c, const __grid_constant__ Part p)
{
  constexpr int COLS = FAST_THREADS / (BM / TM); /* threads along positions */
  extern __shared__ __align__ (16) float shared[];
  int n0 = blockIdx.x * COLS * TN, o0 = blockIdx.y * BM;
  int tn = threadIdx.x % COLS, tm = threadIdx.x / COLS;
  const float *x = c.x + (gint64) blockIdx.z * c.ci * c.length;
  float acc[TM][TN] = {};
  int n_parts = (c.ci + p.channels - 1) / p.channels;

  load_part<BM, TN> (c, p, x, shared, 0, o0, n0);
  asm volatile ("cp.async.commit_group;");
  for (int i = 0; i < n_parts; i++) {
    if (i + 1 < n_parts)
      load_part<BM, TN> (c, p, x, shared + ((i + 1) & 1) * p.floats,
          (i + 1) * p.channels, o0, n0);
    asm volatile ("cp.async.commit_group;");
    asm volatile ("cp.async.wait_group 1;");
    __syncthreads ();

    const float *ws = shared + (i & 1) * p.floats + tm * TM;
    const float *xs = shared + (i & 1) * p.floats + p.weights + tn;
    for (int ch = 0; ch < p.channels; ch++, xs += p.width)
      for (int k = 0; k < c.taps; k++, ws += BM + 4) {
        const float *xk = xs + k * c.dilation;
        float w[TM], v[TN];
#pragma unroll
        for (int m = 0; m < TM; m += 4)
          *(float4 *) (w + m) = *(const float4 *) (ws + m);
#pragma unroll
        for (int j = 0; j < TN; j++)
          v[j] = xk[j * COLS];
#pragma unroll
        for (int m = 0; m < TM; m++)
#pragma unroll
          for (int j = 0; j < TN; j++)
            acc[m][j] = fmaf (w[m], v[j], acc[m][j]);
      }
    __syncthreads ();
  }

#pragma unroll
  for (int m = 0; m < TM; m++)
#pragma unroll
    for (int j = 0; j < TN; j++) {
      int o = o0 + tm * TM + m, n = n0 + tn + j * COLS;
      if (o >= c.co || n >= c.out_length)
        continue;
      gint64 at = ((gint64) blockIdx.z * c.co + o) * c.out_length + n;
      float v = acc[m][j] + (c.bias ? c.bias[o] : 0.0f);
      c.y[at] = c.residual ? v + c.residual[at] : v;
    }
}

template <int BM, int TN>
static cudaError_t
launch_fast (H3CudaStreamHandle stream, const Conv &c, gint64 batch)
{
  constexpr int BN = FAST_THREADS / (BM / TM) * TN;
  Part p = part_of (c, BM, BN);
  int bytes = 2 * p.floats * sizeof (float);
  cudaError_t err;

  if (bytes > FAST_SHARED)
    return cudaErrorNotSupported;
  err = cudaFuncSetAttribute (conv_fast<BM, TN>,
      cudaFuncAttributeMaxDynamicSharedMemorySize, FAST_SHARED);
  if (err != cudaSuccess)
    return err;
  conv_fast<BM, TN><<<dim3 (blocks_for (c.out_length, BN),
      blocks_for (c.co, BM), batch), FAST_THREADS, bytes, stream>>> (c, p);
  return cudaGetLastError ();
}

/* Half as many positions a block where there would be few blocks. */
template <int BM>
static cudaError_t
launch_size (H3CudaStreamHandle stream, const Conv &c, gint64 batch)
{
  constexpr int BN = FAST_THREADS / (BM / TM) * 8;
  gint64 blocks = (gint64) blocks_for (c.out_length, BN) *
      blocks_for (c.co, BM) * batch;

  if (blocks < 400)
    return launch_fast<BM, 4> (stream, c, batch);
  return launch_fast<BM, 8> (stream, c, batch);
}

static cudaError_t
launch_plain (H3CudaStreamHandle stream, const Conv &c, gint64 batch)
{
  if (c.stride != 1 || c.taps > FAST_TERMS || batch > 65535)
    return cudaErrorNotSupported;
  if (c.co > 32)
    return launch_size<64> (stream, c, batch);
  if (c.co > 16)
    return launch_size<32> (stream, c, batch);
  if (c.co > 8)
    return launch_size<16> (stream, c, batch);
  return launch_size<8> (stream, c, batch);
}

/* ---- any convolution ---- */

/* BM output channels by BN positions a block, RM by RN a thread. */
template <typename KIND, int BM, int BN, int RM, int RN>
__global__ void __launch_bounds__ (THREADS)
conv (const __grid_constant__ Conv c, int positions, int phases)
{
  static_assert (BM / RM * (BN / RN) == THREADS, "one tile a thread");
  __shared__ float ws[BK][BM + 4], xs[BK][BN + 4];
  int phase = blockIdx.z % phases;
  gint64 batch = blockIdx.z / phases;
  int n0 = blockIdx.x * BN, o0 = blockIdx.y * BM;
  int tn = threadIdx.x % (BN / RN), tm = threadIdx.x / (BN / RN);
  const float *x = c.x + batch * c.ci * c.length;
  int terms = KIND::terms (c);
  float acc[RM][RN] = {};

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
      float w[RM], v[RN];
#pragma unroll
      for (int i = 0; i < RM; i++)
        w[i] = ws[k][tm * RM + i];
#pragma unroll
      for (int j = 0; j < RN; j++)
        v[j] = xs[k][tn + j * (BN / RN)];
#pragma unroll
      for (int i = 0; i < RM; i++)
#pragma unroll
        for (int j = 0; j < RN; j++)
          acc[i][j] = fmaf (w[i], v[j], acc[i][j]);
    }
    __syncthreads ();
  }

#pragma unroll
  for (int i = 0; i < RM; i++)
#pragma unroll
    for (int j = 0; j < RN; j++) {
      int o = o0 + tm * RM + i, n = n0 + tn + j * (BN / RN);
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
#define LAUNCH(BM, BN, RM, RN) \
  conv<KIND, BM, BN, RM, RN><<<dim3 (blocks_for (positions, BN), \
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

  cudaError_t err = cudaErrorNotSupported;

  if (ys[0] * ys[1] * ys[2] > 0)
    err = launch_plain (stream, c, ys[0]);
  return err == cudaErrorNotSupported
      ? launch<Plain> (stream, c, ys[2], 1, ys[0]) : err;
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
