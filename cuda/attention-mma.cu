/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attention on the tensor cores of every architecture from sm_80 on, for 16-bit
 * types and heads of 16, 32, 64, 72 or 128: 64 queries a block, 16 a warp, keys and
 * values in tiles of 64 through two buffers of shared memory, softmax as it
 * goes. Causal, grouped heads and batches of sequences; any length. */
#include "cuda/kernel.cuh"

#define WARPS 4
#define BM 64 /* queries of a block */
#define BN 64 /* keys of a tile */

template <typename T> struct Mma;

/* c += a b, a 16x16 row-major, b 16x8 column-major */
#define H3_MMA(NAME, TYPE) \
  template <> struct Mma<TYPE> { \
    static __device__ __forceinline__ void \
    run (float *c, const unsigned *a, unsigned b0, unsigned b1) \
    { \
      asm volatile ( \
          "mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 " \
          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
    } \
  };
H3_MMA ("bf16", bf16)
H3_MMA ("f16", __half)

template <typename T>
__device__ __forceinline__ unsigned
pack (float low, float high)
{
  T pair[2] = { from_float<T> (low), from_float<T> (high) };
  return *reinterpret_cast<unsigned *> (pair);
}

__device__ __forceinline__ void
ldmatrix (unsigned *r, const void *p)
{
  unsigned at = (unsigned) __cvta_generic_to_shared (p);
  asm volatile (
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

__device__ __forceinline__ void
ldmatrix_trans (unsigned *r, const void *p)
{
  unsigned at = (unsigned) __cvta_generic_to_shared (p);
  asm volatile (
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

/* 16 bytes to shared memory, zeros where @inside is false. */
__device__ __forceinline__ void
copy_async (void *dst, const void *src, bool inside)
{
  unsigned at = (unsigned) __cvta_generic_to_shared (dst);
  int bytes = inside ? 16 : 0;
  asm volatile ("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at),
      "l"(src), "r"(bytes));
}

/* Elements of a head in shared memory: whole steps of the product, 0 where the
 * head has none. */
template <int D>
constexpr int padded = (D + 15) / 16 * 16;

template <typename T, int D>
struct Tile {
  T row[BN][padded<D> + 8]; /* the pad keeps ldmatrix off one bank */
};

/* Rows first .. first + BN - 1 of one head, as far as there are any. */
template <typename T, int D>
__device__ __forceinline__ void
load_tile (Tile<T, D> *tile, const T *base, gint64 stride, gint64 first,
    gint64 length)
{
  constexpr int per_row = padded<D> / 8;

  for (int i = threadIdx.x; i < BN * per_row; i += WARPS * H3_WARP) {
    int r = i / per_row, c = i % per_row * 8;
    bool inside = first + r < length && c < D;
    copy_async (&tile->row[r][c],
        base + (inside ? (first + r) * stride + c : 0), inside);
  }
}

template <typename T, int D>
__global__ void __launch_bounds__ (WARPS * H3_WARP)
attention_mma (T *y, const T *qkv, int heads, int kv_heads, gint64 length,
    bool causal, float scale_log2)
{
  extern __shared__ __align__ (16) unsigned char shared[];
  Tile<T, D> *keys = reinterpret_cast<Tile<T, D> *> (shared);
  Tile<T, D> *values = keys + 2;
  int warp = threadIdx.x / H3_WARP, lane = threadIdx.x % H3_WARP;
  int head = blockIdx.y, kv = head / (heads / kv_heads);
  gint64 first = (gint64) blockIdx.z * length;
  gint64 stride = (gint64) (heads + 2 * kv_heads) * D;
  /* the longest causal rows first: the last blocks are then the short ones */
  gint64 q0 = (gint64) (causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BM;
  const T *q = qkv + first * stride + head * D;
  const T *k = qkv + first * stride + (heads + kv) * D;
  const T *v = k + (gint64) kv_heads * D;
  gint64 end = causal ? min (length, q0 + BM) : length;
  int n_tiles = (int) ((end + BN - 1) / BN);
  gint64 row0 = q0 + warp * 16 + lane / 4, row1 = row0 + 8;

  load_tile<T, D> (&keys[0], k, stride, 0, length);
  load_tile<T, D> (&values[0], v, stride, 0, length);
  asm volatile ("cp.async.commit_group;");

  constexpr int DP = padded<D>;
  unsigned qf[DP / 16][4];
#pragma unroll
  for (int ks = 0; ks < DP / 16; ks++) {
    int c = ks * 16 + lane % 4 * 2;
    const T *p0 = q + row0 * stride + c, *p1 = q + row1 * stride + c;
    bool in0 = row0 < length, in1 = row1 < length;
    qf[ks][0] = in0 ? *(const unsigned *) p0 : 0;
    qf[ks][1] = in1 ? *(const unsigned *) p1 : 0;
    bool whole_step = ks * 16 + 8 < D;
    qf[ks][2] = in0 && whole_step ? *(const unsigned *) (p0 + 8) : 0;
    qf[ks][3] = in1 && whole_step ? *(const unsigned *) (p1 + 8) : 0;
  }

  float o[DP / 8][4] = {};
  float top[2] = { -INFINITY, -INFINITY }, sum[2] = { 0.0f, 0.0f };

  for (int t = 0; t < n_tiles; t++) {
    gint64 key0 = (gint64) t * BN;

    if (t + 1 < n_tiles) {
      load_tile<T, D> (&keys[(t + 1) & 1], k, stride, key0 + BN, length);
      load_tile<T, D> (&values[(t + 1) & 1], v, stride, key0 + BN, length);
      asm volatile ("cp.async.commit_group;");
      asm volatile ("cp.async.wait_group 1;");
    } else {
      asm volatile ("cp.async.wait_group 0;");
    }
    __syncthreads ();

    const Tile<T, D> *kt = &keys[t & 1], *vt = &values[t & 1];
    float s[BN / 8][4] = {};
#pragma unroll
    for (int ks = 0; ks < DP / 16; ks++)
#pragma unroll
      for (int n = 0; n < BN / 8; n += 2) {
        unsigned b[4];
        /* two n-tiles: rows n*8 + (lane / 16) * 8 + lane % 8 */
        ldmatrix (b, &kt->row[n * 8 + lane / 16 * 8 + lane % 8]
                         [ks * 16 + lane / 8 % 2 * 8]);
        Mma<T>::run (s[n], qf[ks], b[0], b[1]);
        Mma<T>::run (s[n + 1], qf[ks], b[2], b[3]);
      }

    bool edge = key0 + BN > length || (causal && key0 + BN > q0);
    float next[2] = { top[0], top[1] };
#pragma unroll
    for (int n = 0; n < BN / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        gint64 key = key0 + n * 8 + lane % 4 * 2 + i % 2;
        s[n][i] *= scale_log2;
        if (edge && (key >= length || (causal && key > (i < 2 ? row0 : row1))))
          s[n][i] = -INFINITY;
        next[i / 2] = fmaxf (next[i / 2], s[n][i]);
      }
    float old[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      next[r] = fmaxf (next[r], __shfl_xor_sync (~0u, next[r], 1));
      next[r] = fmaxf (next[r], __shfl_xor_sync (~0u, next[r], 2));
      /* rows past the end of a causal block have no key at all */
      float base = next[r] == -INFINITY ? 0.0f : next[r];
      old[r] = exp2f (top[r] - base);
      top[r] = next[r];
      next[r] = base;
      sum[r] *= old[r];
    }
#pragma unroll
    for (int n = 0; n < BN / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        s[n][i] = exp2f (s[n][i] - next[i / 2]);
        sum[i / 2] += s[n][i];
      }
#pragma unroll
    for (int n = 0; n < DP / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        o[n][i] *= old[i / 2];

#pragma unroll
    for (int ks = 0; ks < BN / 16; ks++) {
      unsigned p[4] = { pack<T> (s[2 * ks][0], s[2 * ks][1]),
        pack<T> (s[2 * ks][2], s[2 * ks][3]),
        pack<T> (s[2 * ks + 1][0], s[2 * ks + 1][1]),
        pack<T> (s[2 * ks + 1][2], s[2 * ks + 1][3]) };
#pragma unroll
      for (int n = 0; n < DP / 8; n += 2) {
        unsigned b[4];
        ldmatrix_trans (b, &vt->row[ks * 16 + lane % 16]
                               [n * 8 + lane / 16 * 8]);
        Mma<T>::run (o[n], p, b[0], b[1]);
        Mma<T>::run (o[n + 1], p, b[2], b[3]);
      }
    }
    __syncthreads ();
  }

#pragma unroll
  for (int r = 0; r < 2; r++) {
    sum[r] += __shfl_xor_sync (~0u, sum[r], 1);
    sum[r] += __shfl_xor_sync (~0u, sum[r], 2);
    gint64 row = r ? row1 : row0;
    if (row >= length)
      continue;
    T *out = y + ((first + row) * heads + head) * D + lane % 4 * 2;
    float inv = 1.0f / sum[r];
#pragma unroll
    for (int n = 0; n < D / 8; n++)
      *(unsigned *) (out + n * 8) =
          pack<T> (o[n][2 * r] * inv, o[n][2 * r + 1] * inv);
  }
}

template <typename T, int D>
static cudaError_t
launch (H3CudaStreamHandle stream, const H3AttentionArgs *a)
{
  gint64 length = h3_tensor_rows (a->y) / a->n_sequences;
  int bytes = 4 * sizeof (Tile<T, D>);
  cudaError_t err = cudaFuncSetAttribute (attention_mma<T, D>,
      cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);

  if (err != cudaSuccess)
    return err;
  attention_mma<T, D><<<dim3 (blocks_for (length, BM), a->heads,
      a->n_sequences), WARPS * H3_WARP, bytes, stream>>> ((T *) a->y->data,
      (const T *) a->qkv->data, a->heads, a->kv_heads, length, a->causal,
      a->scale * 1.4426950408889634f);
  return cudaGetLastError ();
}

template <typename T>
static cudaError_t
launch_size (H3CudaStreamHandle stream, const H3AttentionArgs *a)
{
  switch (a->head_dim) {
    case 16:
      return launch<T, 16> (stream, a);
    case 32:
      return launch<T, 32> (stream, a);
    case 64:
      return launch<T, 64> (stream, a);
    case 72: /* the vision tower's */
      return launch<T, 72> (stream, a);
    case 128:
      return launch<T, 128> (stream, a);
    default:
      return cudaErrorNotSupported;
  }
}

cudaError_t
h3_cuda_attention_mma (H3CudaStreamHandle stream, const H3AttentionArgs *a)
{
  if (h3_tensor_rows (a->y) == 0)
    return cudaSuccess;
  if (!aligned16 (a->qkv->data) || !aligned16 (a->y->data) ||
      a->y->dtype != a->qkv->dtype || a->n_sequences > 65535)
    return cudaErrorNotSupported;
  if (a->qkv->dtype == H3_DTYPE_BF16)
    return launch_size<bf16> (stream, a);
  if (a->qkv->dtype == H3_DTYPE_F16)
    return launch_size<__half> (stream, a);
  return cudaErrorNotSupported;
}
