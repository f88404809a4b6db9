/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The anti-aliased snake as one kernel (audio-vae.md 4.7 to 4.9, 12): a block
 * takes a stretch of one channel, makes the activated 2x signal in shared
 * memory and decimates it on the way out. */
#include "cuda/kernel.cuh"

#define THREADS 256
#define STRETCH 1024 /* outputs of a block */
#define TAPS 12
/* y[n] reads v[2n - 5 .. 2n + 6] */
#define LEFT 5
#define UP (2 * STRETCH + TAPS - 1)
/* u[j] reads x[(j + 5) / 2 - 5 .. (j + 5) / 2] */
#define IN (STRETCH + 16)

__global__ void __launch_bounds__ (THREADS)
snake_beta (float *y, const float *x, const float *a, const float *inv_b,
    const float *up, const float *down, int channels, int length)
{
  __shared__ float in[IN], act[UP], up_f[TAPS], down_f[TAPS];
  gint64 line = blockIdx.y;
  int c = line % channels;
  int n0 = blockIdx.x * STRETCH;
  int j0 = 2 * n0 - LEFT;          /* of act[0] */
  int first = n0 - 8;              /* of in[0] */
  float ca = a[c], cb = inv_b[c];

  x += line * length;
  y += line * length;
  if (threadIdx.x < TAPS) {
    up_f[threadIdx.x] = up[threadIdx.x];
    down_f[threadIdx.x] = down[threadIdx.x];
  }
  for (int i = threadIdx.x; i < IN; i += THREADS)
    in[i] = x[min (max (first + i, 0), length - 1)];
  __syncthreads ();

  for (int i = threadIdx.x; i < UP; i += THREADS) {
    /* the clamp of 4.8 repeats the activated signal's ends */
    int j = min (max (j0 + i, 0), 2 * length - 1);
    int odd = (j + 5) & 1, at = (j + 5) / 2;
    float u = 0.0f;

#pragma unroll
    for (int m = 0; m < TAPS / 2; m++) {
      int k = min (max (at - m, 0), length - 1) - first;
      /* far outside the stretch only where nothing reads the result */
      k = min (max (k, 0), IN - 1);
      u = fmaf (up_f[odd + 2 * m], in[k], u);
    }
    u *= 2.0f;
    float s = sinf (ca * u);
    act[i] = u + cb * (s * s);
  }
  __syncthreads ();

  for (int i = threadIdx.x; i < STRETCH && n0 + i < length; i += THREADS) {
    float sum = 0.0f;

#pragma unroll
    for (int k = 0; k < TAPS; k++)
      sum = fmaf (down_f[k], act[2 * i + k], sum);
    y[n0 + i] = sum;
  }
}

cudaError_t
h3_cuda_snake_beta (H3CudaStreamHandle stream, const H3SnakeBetaArgs *args)
{
  const gint64 *s = args->x->shape;
  gint64 lines = s[0] * s[1];

  if (h3_tensor_size (args->x) == 0)
    return cudaSuccess;
  if (lines > 65535)
    return cudaErrorInvalidValue;
  snake_beta<<<dim3 (blocks_for (s[2], STRETCH), lines), THREADS, 0,
      stream>>> ((float *) args->y->data, (const float *) args->x->data,
      (const float *) args->a->data, (const float *) args->inv_b->data,
      (const float *) args->up_filter->data,
      (const float *) args->down_filter->data, s[1], s[2]);
  return cudaGetLastError ();
}

/* The encoder's (4.4): a line is a channel of a batch item. */
__global__ void
snake (float *y, const float *x, const float *a, const float *inv_a,
    int channels, gint64 length)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;
  int c = blockIdx.y % channels;

  if (i >= length)
    return;
  i += blockIdx.y * length;
  float v = x[i], s = sinf (a[c] * v);
  y[i] = fmaf (inv_a[c], s * s, v);
}

cudaError_t
h3_cuda_snake (H3CudaStreamHandle stream, const H3SnakeArgs *args)
{
  const gint64 *s = args->x->shape;
  gint64 lines = s[0] * s[1];

  if (h3_tensor_size (args->x) == 0)
    return cudaSuccess;
  if (lines > 65535)
    return cudaErrorInvalidValue;
  snake<<<dim3 (blocks_for (s[2], THREADS), lines), THREADS, 0, stream>>> (
      (float *) args->y->data, (const float *) args->x->data,
      (const float *) args->a->data, (const float *) args->inv_a->data, s[1],
      s[2]);
  return cudaGetLastError ();
}

/* y [L, B] = clamp (x [B, 1, L], -1, 1); a NaN compares false and stays */
__global__ void
interleave_clamp (float *y, const float *x, int channels, gint64 length)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i >= channels * length)
    return;
  float v = x[i % channels * length + i / channels];
  v = v < -1.0f ? -1.0f : v;
  y[i] = v > 1.0f ? 1.0f : v;
}

cudaError_t
h3_cuda_interleave_clamp (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *x)
{
  gint64 n = h3_tensor_size (y);

  if (n == 0)
    return cudaSuccess;
  interleave_clamp<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (
      (float *) y->data, (const float *) x->data, x->shape[0], x->shape[2]);
  return cudaGetLastError ();
}
