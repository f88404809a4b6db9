/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attention for any head size and type, in float32 arithmetic: a warp per query
 * row, keys in turn, softmax as it goes. It is right, not fast; shapes that
 * matter take the tensor cores (attention-mma.cu, sdpa.c). */
#include "cuda/kernel.cuh"

#define WARPS 4
#define MAX_PER_LANE 8 /* head sizes up to 256 */

template <typename T>
__global__ void __launch_bounds__ (WARPS * H3_WARP)
attention_any (T *y, const T *qkv, int heads, int kv_heads, int dim,
    gint64 length, bool causal, float scale)
{
  int lane = threadIdx.x % H3_WARP;
  gint64 row = (gint64) blockIdx.x * WARPS + threadIdx.x / H3_WARP;
  int head = blockIdx.y;
  gint64 first = (gint64) blockIdx.z * length; /* of the sequence */
  int total = heads + 2 * kv_heads, kv = head / (heads / kv_heads);
  float q[MAX_PER_LANE], acc[MAX_PER_LANE] = {};
  float top = -INFINITY, sum = 0.0f;

  if (row >= length)
    return;
#pragma unroll
  for (int i = 0; i < MAX_PER_LANE; i++) {
    int d = lane + i * H3_WARP;
    q[i] = d < dim
        ? to_float (qkv[((first + row) * total + head) * dim + d]) : 0.0f;
  }
  gint64 end = causal ? row + 1 : length;
  for (gint64 j = 0; j < end; j++) {
    const T *k = qkv + ((first + j) * total + heads + kv) * dim;
    const T *v = k + (gint64) kv_heads * dim;
    float s = 0.0f;

#pragma unroll
    for (int i = 0; i < MAX_PER_LANE; i++) {
      int d = lane + i * H3_WARP;
      if (d < dim)
        s = fmaf (q[i], to_float (k[d]), s);
    }
    s = warp_sum (s) * scale;
    float next = fmaxf (top, s);
    /* a NaN score, which fmaxf would lose, has to reach the row */
    float old = expf (top - next), p = expf (s - next);
    if (s != s)
      p = s;
    sum = sum * old + p;
#pragma unroll
    for (int i = 0; i < MAX_PER_LANE; i++) {
      int d = lane + i * H3_WARP;
      if (d < dim)
        acc[i] = acc[i] * old + p * to_float (v[d]);
    }
    top = next;
  }
#pragma unroll
  for (int i = 0; i < MAX_PER_LANE; i++) {
    int d = lane + i * H3_WARP;
    if (d < dim)
      y[((first + row) * heads + head) * dim + d] =
          from_float<T> (acc[i] / sum);
  }
}

cudaError_t
h3_cuda_attention_any (H3CudaStreamHandle stream, const H3AttentionArgs *a)
{
  gint64 rows = h3_tensor_rows (a->y);
  gint64 length = rows / a->n_sequences;

  if (rows == 0)
    return cudaSuccess;
  if (a->head_dim > MAX_PER_LANE * H3_WARP || a->n_sequences > 65535 ||
      a->y->dtype != a->qkv->dtype)
    return cudaErrorInvalidValue;
  H3_WITH_TYPE (a->qkv->dtype, T,
      attention_any<<<dim3 (blocks_for (length, WARPS), a->heads,
          a->n_sequences), WARPS * H3_WARP, 0, stream>>> ((T *) a->y->data,
          (const T *) a->qkv->data, a->heads, a->kv_heads, a->head_dim,
          length, a->causal, a->scale));
  return cudaGetLastError ();
}
