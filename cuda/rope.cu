/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* q/k norm and rotary embedding, in place on the fused rows: a warp per head.
 * What the norm gives is rounded before it is rotated, as the reference rounds
 * it (denoiser.md 3.8). */
#include "cuda/kernel.cuh"

#define WARPS 8
#define MAX_HEAD 256

typedef struct {
  const float *q_norm, *k_norm; /* both NULL: no gain */
  const float *cosines, *sines;
  gint64 table_rows;
  float eps;
  bool norm;
  int heads, kv_heads, dim, rot;
} Job;

/* Heads of 64 or 128, LANES lanes a head, each with eight neighbours: the
 * partners of a rotation, rot apart, are the same elements of another lane. */
template <typename T, int LANES>
__global__ void __launch_bounds__ (WARPS * H3_WARP)
qk_norm_rope (T *qkv, const __grid_constant__ Job j)
{
  constexpr int AT_ONCE = H3_WARP / LANES;
  gint64 row = blockIdx.x;
  int warp = threadIdx.x / H3_WARP, lane = threadIdx.x % LANES;
  int sub = threadIdx.x % H3_WARP / LANES;
  int total = j.heads + 2 * j.kv_heads, n = j.heads + j.kv_heads;
  int apart = j.rot / 8, partner = lane;
  bool low = lane < apart, rotates = lane < 2 * apart;
  float c[8], s[8], wq[8], wk[8];

#pragma unroll
  for (int i = 0; i < 8; i++)
    wq[i] = wk[i] = 1.0f;
  if (j.q_norm) {
    load8 (j.q_norm + lane * 8, wq);
    load8 (j.k_norm + lane * 8, wk);
  }
  if (rotates) {
    gint64 entry = row % j.table_rows * j.rot + (low ? lane : lane - apart) * 8;
    load8 (j.cosines + entry, c);
    load8 (j.sines + entry, s);
    partner = low ? lane + apart : lane - apart;
  }
  for (int first = warp * AT_ONCE; first < n; first += WARPS * AT_ONCE) {
    int h = min (first + sub, n - 1); /* the last one again, not stored */
    T *x = qkv + (row * total + h) * (LANES * 8) + lane * 8;
    float v[8], sum = 0.0f;

    load8 (x, v);
#pragma unroll
    for (int i = 0; i < 8; i++)
      sum += v[i] * v[i];
#pragma unroll
    for (int i = LANES / 2; i; i /= 2)
      sum += __shfl_xor_sync (~0u, sum, i);
    float rstd = j.norm ? rsqrtf (sum / (LANES * 8) + j.eps) : 1.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      v[i] = rounded<T> (v[i] * rstd * (h < j.heads ? wq[i] : wk[i]));
      float other = __shfl_sync (~0u, v[i], partner, LANES);
      if (rotates)
        v[i] = low ? v[i] * c[i] - other * s[i] : v[i] * c[i] + other * s[i];
    }
    if (first + sub < n)
      store8 (x, v);
  }
}

/* Any head: through shared memory. */
template <typename T>
__global__ void __launch_bounds__ (WARPS * H3_WARP)
qk_norm_rope_any (T *qkv, const __grid_constant__ Job j)
{
  __shared__ float head_of[WARPS][MAX_HEAD];
  gint64 row = blockIdx.x;
  int warp = threadIdx.x / H3_WARP, lane = threadIdx.x % H3_WARP;
  int total = j.heads + 2 * j.kv_heads, rot = j.rot;
  const float *c = j.cosines + row % j.table_rows * rot;
  const float *s = j.sines + row % j.table_rows * rot;
  float *v = head_of[warp];

  for (int h = blockIdx.y * WARPS + warp; h < j.heads + j.kv_heads;
       h += gridDim.y * WARPS) {
    T *x = qkv + (row * total + h) * j.dim;
    const float *w = h < j.heads ? j.q_norm : j.k_norm;
    float sum = 0.0f;

    for (int i = lane; i < j.dim; i += H3_WARP) {
      v[i] = to_float (x[i]);
      sum += v[i] * v[i];
    }
    float rstd = j.norm ? rsqrtf (warp_sum (sum) / j.dim + j.eps) : 1.0f;
    for (int i = lane; i < j.dim; i += H3_WARP)
      v[i] = rounded<T> (v[i] * rstd * (w ? w[i] : 1.0f));
    __syncwarp ();
    for (int i = lane; i < j.dim; i += H3_WARP) {
      float out = v[i];
      if (i < rot)
        out = v[i] * c[i] - v[i + rot] * s[i];
      else if (i < 2 * rot)
        out = v[i] * c[i - rot] + v[i - rot] * s[i - rot];
      x[i] = from_float<T> (out);
    }
    __syncwarp ();
  }
}

template <typename T>
static cudaError_t
launch (H3CudaStreamHandle stream, T *qkv, gint64 rows, const Job &j)
{
  int blocks = (j.heads + j.kv_heads + WARPS - 1) / WARPS;
  bool fast = (j.dim == 64 || j.dim == 128) &&
      whole (j.rot, qkv, j.q_norm, j.k_norm, j.cosines) &&
      aligned16 (j.sines);

  if (fast && j.dim == 64)
    qk_norm_rope<T, 8><<<rows, WARPS * H3_WARP, 0, stream>>> (qkv, j);
  else if (fast)
    qk_norm_rope<T, 16><<<rows, WARPS * H3_WARP, 0, stream>>> (qkv, j);
  else
    qk_norm_rope_any<T><<<dim3 (rows, MIN (blocks, 4)), WARPS * H3_WARP, 0,
        stream>>> (qkv, j);
  return cudaGetLastError ();
}

cudaError_t
h3_cuda_qk_norm_rope (H3CudaStreamHandle stream, const H3QkNormRopeArgs *a)
{
  gint64 rows = h3_tensor_rows (a->qkv);
  Job j = {};

  if (rows == 0)
    return cudaSuccess;
  if (a->head_dim > MAX_HEAD)
    return cudaErrorInvalidValue;
  if (a->q_norm) {
    j.q_norm = (const float *) a->q_norm->data;
    j.k_norm = (const float *) a->k_norm->data;
  }
  j.table_rows = 1;
  if (a->cos) {
    j.cosines = (const float *) a->cos->data;
    j.sines = (const float *) a->sin->data;
    j.table_rows = h3_tensor_rows (a->cos);
    j.rot = (int) h3_tensor_cols (a->cos);
  }
  j.eps = a->eps;
  j.norm = !a->no_norm;
  j.heads = a->heads;
  j.kv_heads = a->kv_heads;
  j.dim = a->head_dim;
  H3_WITH_TYPE (a->qkv->dtype, T,
      return launch (stream, (T *) a->qkv->data, rows, j));
  return cudaErrorInvalidValue;
}
