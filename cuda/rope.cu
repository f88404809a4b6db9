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
  int heads, kv_heads, dim, rot;
} Job;

/* Each lane has V neighbours of the head; the partners of a rotation, rot apart,
 * are the same elements of another lane. */
template <typename T, int V> struct alignas (sizeof (T) * V) Pack {
  T v[V];
};

template <typename T, int V>
__global__ void __launch_bounds__ (WARPS * H3_WARP)
qk_norm_rope (T *qkv, const __grid_constant__ Job j)
{
  gint64 row = blockIdx.x;
  int warp = threadIdx.x / H3_WARP, lane = threadIdx.x % H3_WARP;
  int total = j.heads + 2 * j.kv_heads, apart = j.rot / V;
  bool low = lane < apart, rotates = lane < 2 * apart;
  float c[V] = {}, s[V] = {}, wq[V], wk[V];

#pragma unroll
  for (int i = 0; i < V; i++) {
    int at = lane * V + i;
    if (rotates) {
      gint64 entry = row % j.table_rows * j.rot + (low ? at : at - j.rot);
      c[i] = j.cosines[entry];
      s[i] = low ? -j.sines[entry] : j.sines[entry];
    }
    wq[i] = j.q_norm ? j.q_norm[at] : 1.0f;
    wk[i] = j.q_norm ? j.k_norm[at] : 1.0f;
  }
#pragma unroll 2
  for (int h = blockIdx.y * WARPS + warp; h < j.heads + j.kv_heads;
       h += gridDim.y * WARPS) {
    Pack<T, V> *at = reinterpret_cast<Pack<T, V> *> (
        qkv + (row * total + h) * (V * H3_WARP)) + lane;
    Pack<T, V> p = *at;
    float v[V], sum = 0.0f;

#pragma unroll
    for (int i = 0; i < V; i++) {
      v[i] = to_float (p.v[i]);
      sum += v[i] * v[i];
    }
    float rstd = rsqrtf (warp_sum (sum) / (V * H3_WARP) + j.eps);
#pragma unroll
    for (int i = 0; i < V; i++) {
      v[i] = rounded<T> (v[i] * rstd * (h < j.heads ? wq[i] : wk[i]));
      float other = __shfl_sync (~0u, v[i], low ? lane + apart : lane - apart);
      p.v[i] = from_float<T> (rotates ? v[i] * c[i] + other * s[i] : v[i]);
    }
    *at = p;
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
    float rstd = rsqrtf (warp_sum (sum) / j.dim + j.eps);
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
  dim3 grid (rows, MIN (blocks, 4));
  int v = j.dim / H3_WARP;

  if (!aligned16 (qkv) || j.dim % H3_WARP || v > 4 || v == 3 || j.rot % v)
    v = 0;
  switch (v) {
    case 1:
      qk_norm_rope<T, 1><<<grid, WARPS * H3_WARP, 0, stream>>> (qkv, j);
      break;
    case 2:
      qk_norm_rope<T, 2><<<grid, WARPS * H3_WARP, 0, stream>>> (qkv, j);
      break;
    case 4:
      qk_norm_rope<T, 4><<<grid, WARPS * H3_WARP, 0, stream>>> (qkv, j);
      break;
    default:
      qk_norm_rope_any<T><<<grid, WARPS * H3_WARP, 0, stream>>> (qkv, j);
  }
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
  j.heads = a->heads;
  j.kv_heads = a->kv_heads;
  j.dim = a->head_dim;
  H3_WITH_TYPE (a->qkv->dtype, T,
      return launch (stream, (T *) a->qkv->data, rows, j));
  return cudaErrorInvalidValue;
}
