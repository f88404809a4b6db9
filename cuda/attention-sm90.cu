/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attention for Hopper (sm_90a), 16-bit types, heads of 64 or 128.
 *
 * A block stays on its multiprocessor and walks over tiles of queries. Two
 * warps feed it: the copy engine brings keys and values through rings of shared
 * memory, for both blocks of a cluster at once where there is one. Each
 * consumer warpgroup owns 64 queries; it starts the scores of the next keys,
 * then the product of the last probabilities with their values, and does the
 * softmax of the former while other warpgroups' products run.
 * Keys go from the last tile to the first, so that only the first tile worked
 * on has keys past the end to mask. */
#include "cuda/sm90.cuh"

/* A running maximum moves only when it grows by more than this power of two:
 * probabilities stay far below overflow and the output is seldom rescaled. */
#define SLACK_LOG2 8.0f

/* D: head size, BN: keys of a tile, GROUPS: consumer warpgroups of a block,
 * CLUSTER: blocks that share what is loaded, BM: queries of a block */
template <typename T_, int D_, int BN_, int GROUPS_, int CLUSTER_, bool CAUSAL_>
struct Config {
  typedef T_ T;
  static constexpr int D = D_, BN = BN_, GROUPS = GROUPS_, CLUSTER = CLUSTER_;
  static constexpr bool CAUSAL = CAUSAL_;
  static constexpr int BM = GROUPS * 64, STAGES = 2;
  /* Three warpgroups start their products one after the other (7 % faster so);
   * two find their rhythm alone (1 % faster so). */
  static constexpr bool TURNS = GROUPS > 2;
  static constexpr int THREADS = (GROUPS + 1) * WARPGROUP;
  static constexpr int HALVES = D / BOX_COLS;
  static constexpr int Q_HALF = 64 * 128, Q_BYTES = BM * D * 2;
  static constexpr int KV_HALF = BN * 128, KV_BYTES = BN * D * 2;
  static constexpr int SHARED = 1024 + Q_BYTES + 2 * STAGES * KV_BYTES + 256;
  /* 65536 registers over the block: what the feeding warps give up */
  static constexpr int PRODUCER_REGS = GROUPS == 2 ? 24 : 32;
  static constexpr int CONSUMER_REGS = GROUPS == 2 ? 240 : 160;
  static_assert (CLUSTER == 1 || CLUSTER == HALVES, "a half for each block");
  static_assert (SHARED <= 227 * 1024, "shared memory");
};

struct Shape {
  int heads, kv_heads;
  int length;    /* rows of a sequence */
  int n_tiles;   /* of a cluster's queries, in a sequence */
  int n_work;    /* tiles x heads x sequences */
  float scale_log2;
};

/* Where things are in shared memory. */
template <typename C> struct Layout {
  uint32_t q, k, v, barriers;

  __device__ __forceinline__
  Layout (uint32_t base)
  {
    q = (base + 1023) & ~1023u;
    k = q + C::Q_BYTES;
    v = k + C::STAGES * C::KV_BYTES;
    barriers = v + C::STAGES * C::KV_BYTES;
  }
  __device__ __forceinline__ uint32_t k_stage (int s) const
  {
    return k + s * C::KV_BYTES;
  }
  __device__ __forceinline__ uint32_t v_stage (int s) const
  {
    return v + s * C::KV_BYTES;
  }
  __device__ __forceinline__ uint32_t q_full (void) const { return barriers; }
  __device__ __forceinline__ uint32_t q_empty (void) const
  {
    return barriers + 8;
  }
  __device__ __forceinline__ uint32_t k_full (int s) const
  {
    return barriers + 16 + 8 * s;
  }
  __device__ __forceinline__ uint32_t k_empty (int s) const
  {
    return k_full (s + C::STAGES);
  }
  __device__ __forceinline__ uint32_t v_full (int s) const
  {
    return k_full (s + 2 * C::STAGES);
  }
  __device__ __forceinline__ uint32_t v_empty (int s) const
  {
    return k_full (s + 3 * C::STAGES);
  }
};

/* What a block works on. */
template <typename C> struct Work {
  int q0, head, kv, sequence, n_keys;

  __device__ __forceinline__
  Work (const Shape &s, int i, int rank)
  {
    int tile = i % s.n_tiles;
    int rest = i / s.n_tiles;
    head = rest % s.heads;
    sequence = rest / s.heads;
    kv = head / (s.heads / s.kv_heads);
    q0 = (tile * C::CLUSTER + rank) * C::BM;
    int end = C::CAUSAL ? min (s.length, q0 + C::BM) : s.length;
    n_keys = (end + C::BN - 1) / C::BN; /* tiles of keys */
  }
};

/* One tile of keys, or of values, into a stage. */
template <typename C>
__device__ __forceinline__ void
load_tile (const CUtensorMap *map, uint32_t dst, uint32_t full, int col,
    int row, int sequence, int rank, uint64_t policy)
{
  barrier_expect (full, C::KV_BYTES);
  if (C::CLUSTER == 1)
#pragma unroll
    for (int h = 0; h < C::HALVES; h++)
      load_box<1> (dst + h * C::KV_HALF, map, col + h * BOX_COLS, row, sequence,
          full, policy);
  else
    load_box<C::CLUSTER> (dst + rank * C::KV_HALF, map, col + rank * BOX_COLS,
        row, sequence, full, policy);
}

template <typename C>
__device__ __forceinline__ void
produce_queries_and_keys (const Shape &s, const CUtensorMap *q_map,
    const CUtensorMap *kv_map, const Layout<C> &at, int rank)
{
  uint64_t policy = policy_evict_last ();
  Ring<C::STAGES> k;
  uint32_t q_phase = 1;

  for (int i = blockIdx.x / C::CLUSTER; i < s.n_work;
       i += gridDim.x / C::CLUSTER) {
    Work<C> w (s, i, rank);

    barrier_wait (at.q_empty (), q_phase);
    q_phase ^= 1;
    barrier_expect (at.q_full (), C::Q_BYTES);
#pragma unroll 1
    for (int box = 0; box < C::GROUPS * C::HALVES; box++)
      load_box<1> (at.q + box * C::Q_HALF, q_map,
          w.head * C::D + box % C::HALVES * BOX_COLS,
          w.q0 + box / C::HALVES * 64, w.sequence, at.q_full (), policy);

#pragma unroll 1
    for (int t = w.n_keys - 1; t >= 0; t--) {
      barrier_wait (at.k_empty (k.stage), k.phase ^ 1);
      load_tile<C> (kv_map, at.k_stage (k.stage), at.k_full (k.stage),
          (s.heads + w.kv) * C::D, t * C::BN, w.sequence, rank, policy);
      k.next ();
    }
  }
}

template <typename C>
__device__ __forceinline__ void
produce_values (const Shape &s, const CUtensorMap *kv_map, const Layout<C> &at,
    int rank)
{
  uint64_t policy = policy_evict_last ();
  Ring<C::STAGES> v;

  for (int i = blockIdx.x / C::CLUSTER; i < s.n_work;
       i += gridDim.x / C::CLUSTER) {
    Work<C> w (s, i, rank);

#pragma unroll 1
    for (int t = w.n_keys - 1; t >= 0; t--) {
      barrier_wait (at.v_empty (v.stage), v.phase ^ 1);
      load_tile<C> (kv_map, at.v_stage (v.stage), at.v_full (v.stage),
          (s.heads + s.kv_heads + w.kv) * C::D, t * C::BN, w.sequence, rank,
          policy);
      v.next ();
    }
  }
}

/* s = q kᵀ, started */
template <typename C>
__device__ __forceinline__ void
start_scores (float (&s)[C::BN / 2], uint32_t q, uint32_t k)
{
  uint64_t a = matrix_descriptor (q, 16), b = matrix_descriptor (k, 16);

  wgmma_fence ();
#pragma unroll
  for (int i = 0; i < C::D / 16; i++)
    Wgmma<typename C::T, C::BN>::shared (s,
        a + (i / 4 * C::Q_HALF + i % 4 * 32) / 16,
        b + (i / 4 * C::KV_HALF + i % 4 * 32) / 16, i > 0);
  wgmma_commit ();
}

/* o += p v, started */
template <typename C>
__device__ __forceinline__ void
start_values (float (&o)[C::D / 2], const uint32_t (&p)[C::BN / 4], uint32_t v)
{
  uint64_t b = matrix_descriptor (v, C::KV_HALF);

  wgmma_fence ();
#pragma unroll
  for (int i = 0; i < C::BN / 16; i++)
    Wgmma<typename C::T, C::D>::values (o, p + 4 * i, b + i * 16 * 128 / 16);
  wgmma_commit ();
}

/* Scores of keys past the end, or after the query, are minus infinity. A
 * thread's elements of an accumulator: rows r and r + 8, in each group of eight
 * columns its two. */
template <typename C>
__device__ __forceinline__ void
mask (float (&s)[C::BN / 2], int key0, int length, int row)
{
#pragma unroll
  for (int i = 0; i < C::BN / 2; i++) {
    int key = key0 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
    if (key >= length || (C::CAUSAL && key > row + (i & 2) * 4))
      s[i] = -INFINITY;
  }
}

struct Softmax {
  float top[2], sum[2];
};

/* s = 2^(scale (s - top)) with the running maxima of the thread's two rows;
 * returns by how much what was summed before must shrink. */
template <int N>
__device__ __forceinline__ void
softmax (float (&s)[N], Softmax &row, float (&shrink)[2], float scale,
    float slack)
{
  float top[2][2] = { { s[0], s[1] }, { s[2], s[3] } };
#pragma unroll
  for (int i = 4; i < N; i++)
    top[i / 2 % 2][i % 2] = fmaxf (top[i / 2 % 2][i % 2], s[i]);

  float base[2], sum[2][2] = {};
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float t = fmaxf (top[r][0], top[r][1]);
    t = fmaxf (t, __shfl_xor_sync (~0u, t, 1));
    t = fmaxf (t, __shfl_xor_sync (~0u, t, 2));
    t = t > row.top[r] + slack ? t : row.top[r];
    /* a row without a key so far */
    base[r] = t == -INFINITY ? 0.0f : t * scale;
    shrink[r] = t == row.top[r] ? 1.0f
                                : exp2_approx (row.top[r] * scale - base[r]);
    row.top[r] = t;
  }
#pragma unroll
  for (int i = 0; i < N; i++) {
    s[i] = exp2_approx (fmaf (s[i], scale, -base[i / 2 % 2]));
    sum[i / 2 % 2][i % 2] += s[i];
  }
#pragma unroll
  for (int r = 0; r < 2; r++)
    row.sum[r] = row.sum[r] * shrink[r] + (sum[r][0] + sum[r][1]);
}

template <typename T, int N>
__device__ __forceinline__ void
pack_probabilities (uint32_t (&p)[N], const float (&s)[2 * N])
{
#pragma unroll
  for (int i = 0; i < N; i++)
    p[i] = pack2<T> (s[2 * i], s[2 * i + 1]);
}

template <int N>
__device__ __forceinline__ void
rescale (float (&o)[N], const float (&shrink)[2])
{
  if (__any_sync (~0u, shrink[0] != 1.0f || shrink[1] != 1.0f)) {
#pragma unroll
    for (int i = 0; i < N; i++)
      o[i] *= shrink[i / 2 % 2];
  }
}

template <typename C>
__device__ __forceinline__ void
store (typename C::T *y, const Shape &shape, const Work<C> &w, int row0,
    const float (&o)[C::D / 2], Softmax &row)
{
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float sum = row.sum[r];
    sum += __shfl_xor_sync (~0u, sum, 1);
    sum += __shfl_xor_sync (~0u, sum, 2);
    float inv = 1.0f / sum;
    int at = row0 + 8 * r;
    if (at >= shape.length)
      continue;
    typename C::T *out = y +
        (((int64_t) w.sequence * shape.length + at) * shape.heads + w.head) *
            C::D +
        threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < C::D / 8; n++)
      *(uint32_t *) (out + n * 8) = pack2<typename C::T> (
          o[4 * n + 2 * r] * inv, o[4 * n + 2 * r + 1] * inv);
  }
}

/* What a consumer warpgroup carries from tile to tile. */
template <typename C> struct Consumer {
  const Layout<C> &at;
  uint32_t q; /* its queries */
  int lane, turn, next_turn;
  float scale, slack;
  Ring<C::STAGES> k, v;

  __device__ __forceinline__ void
  wait_keys (void)
  {
    barrier_wait (at.k_full (k.stage), k.phase);
  }
  __device__ __forceinline__ void
  wait_values (void)
  {
    barrier_wait (at.v_full (v.stage), v.phase);
  }
  __device__ __forceinline__ void
  release_keys (void)
  {
    release<C::CLUSTER> (at.k_empty (k.stage), lane);
    k.next ();
  }
  __device__ __forceinline__ void
  release_values (void)
  {
    release<C::CLUSTER> (at.v_empty (v.stage), lane);
    v.next ();
  }
  __device__ __forceinline__ void
  take_turn (void)
  {
    if (C::TURNS)
      named_sync (turn, 2 * WARPGROUP);
  }
  __device__ __forceinline__ void
  pass_turn (void)
  {
    if (C::TURNS)
      named_arrive (next_turn, 2 * WARPGROUP);
  }
};

template <typename C>
__device__ __forceinline__ void
consume (const Shape &shape, typename C::T *y, const Layout<C> &at, int group,
    int rank)
{
  int lane = threadIdx.x % H3_WARP;
  int row_in_tile = group * 64 + threadIdx.x % WARPGROUP / H3_WARP * 16 +
      lane / 4;
  Consumer<C> c = { at, at.q + group * C::HALVES * C::Q_HALF, lane, 1 + group,
    1 + (group + 1) % C::GROUPS, shape.scale_log2,
    SLACK_LOG2 / shape.scale_log2 };
  uint32_t q_phase = 0;
  float s[C::BN / 2], o[C::D / 2];
  uint32_t p[C::BN / 4];

  if (group == C::GROUPS - 1)
    c.pass_turn ();

  for (int i = blockIdx.x / C::CLUSTER; i < shape.n_work;
       i += gridDim.x / C::CLUSTER) {
    Work<C> w (shape, i, rank);
    int row0 = w.q0 + row_in_tile, t = w.n_keys - 1;
    Softmax row = { { -INFINITY, -INFINITY }, { 0.0f, 0.0f } };
    float shrink[2];

    barrier_wait (at.q_full (), q_phase);
    q_phase ^= 1;
    c.wait_keys ();
    start_scores<C> (s, c.q, at.k_stage (c.k.stage));
    wgmma_wait<0> ();
    pin (s);
    c.release_keys ();
    mask<C> (s, t * C::BN, shape.length, row0);
    softmax (s, row, shrink, c.scale, c.slack);
    pack_probabilities<typename C::T> (p, s);
#pragma unroll
    for (int j = 0; j < C::D / 2; j++)
      o[j] = 0.0f;

#pragma unroll 1
    for (t--; t >= 0; t--) {
      c.wait_keys ();
      c.take_turn ();
      start_scores<C> (s, c.q, at.k_stage (c.k.stage));
      c.wait_values ();
      start_values<C> (o, p, at.v_stage (c.v.stage));
      c.pass_turn ();

      wgmma_wait<1> ();
      pin (s);
      c.release_keys ();
      if (C::CAUSAL)
        mask<C> (s, t * C::BN, shape.length, row0);
      softmax (s, row, shrink, c.scale, c.slack);

      wgmma_wait<0> ();
      pin (o);
      pin (s);
      c.release_values ();
      pack_probabilities<typename C::T> (p, s);
      rescale (o, shrink);
    }

    if (lane == 0)
      barrier_arrive (at.q_empty ());
    c.wait_values ();
    start_values<C> (o, p, at.v_stage (c.v.stage));
    wgmma_wait<0> ();
    pin (o);
    c.release_values ();
    store<C> (y, shape, w, row0, o, row);
  }
  /* the turn that the last warpgroup passed on */
  if (group == 0)
    c.take_turn ();
}

template <typename C>
__global__ void __launch_bounds__ (C::THREADS, 1)
attention_sm90 (const __grid_constant__ CUtensorMap q_map,
    const __grid_constant__ CUtensorMap kv_map, typename C::T *y,
    const __grid_constant__ Shape shape)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  Layout<C> at (shared_address (shared));
  int group = __shfl_sync (~0u, threadIdx.x / WARPGROUP, 0);
  int rank = blockIdx.x % C::CLUSTER;

  if (threadIdx.x == 0) {
    barrier_init (at.q_full (), 1);
    barrier_init (at.q_empty (), C::GROUPS * 4);
    for (int s = 0; s < C::STAGES; s++) {
      barrier_init (at.k_full (s), 1);
      barrier_init (at.v_full (s), 1);
      barrier_init (at.k_empty (s), C::GROUPS * 4 * C::CLUSTER);
      barrier_init (at.v_empty (s), C::GROUPS * 4 * C::CLUSTER);
    }
    asm volatile ("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads ();
  if (C::CLUSTER > 1)
    cluster_sync ();

  if (group == 0) {
    asm volatile ("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(
        C::PRODUCER_REGS));
    if (threadIdx.x == 0)
      produce_queries_and_keys<C> (shape, &q_map, &kv_map, at, rank);
    else if (threadIdx.x == H3_WARP)
      produce_values<C> (shape, &kv_map, at, rank);
    __syncwarp ();
  } else {
    asm volatile ("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(
        C::CONSUMER_REGS));
    consume<C> (shape, y, at, group - 1, rank);
  }
  /* the other block may still write here, or arrive */
  if (C::CLUSTER > 1)
    cluster_sync ();
#endif
}

/* --- host --- */

/* The fused q, k and v. */
static cudaError_t
map_rows (CUtensorMap *map, const H3AttentionArgs *a, gint64 length,
    int box_rows)
{
  return map_matrices (map, a->qkv,
      ((gint64) a->heads + 2 * a->kv_heads) * a->head_dim, length,
      a->n_sequences, box_rows);
}

template <typename C>
static cudaError_t
launch (H3CudaStreamHandle stream, const H3AttentionArgs *a, gint64 length,
    int n_multiprocessors)
{
  CUtensorMap q_map, kv_map;
  Shape shape;
  gint64 per_head = (length + C::CLUSTER * C::BM - 1) / (C::CLUSTER * C::BM);
  gint64 n_work = per_head * a->heads * a->n_sequences;
  gint64 n_blocks = MIN (n_work, n_multiprocessors / C::CLUSTER) * C::CLUSTER;
  cudaFuncAttributes code;
  cudaError_t err;

  if (n_work > G_MAXINT - n_multiprocessors)
    return cudaErrorNotSupported;
  /* built without sm_90a, the kernel is empty */
  if ((err = cudaFuncGetAttributes (&code, attention_sm90<C>)) !=
      cudaSuccess)
    return err;
  if (code.numRegs < 65536 / C::THREADS / 8 * 8)
    return cudaErrorNotSupported;
  shape.heads = (int) a->heads;
  shape.kv_heads = (int) a->kv_heads;
  shape.length = (int) length;
  shape.n_tiles = (int) per_head;
  shape.n_work = (int) n_work;
  shape.scale_log2 = a->scale * 1.4426950408889634f;
  if ((err = map_rows (&q_map, a, length, 64)) != cudaSuccess ||
      (err = map_rows (&kv_map, a, length, C::BN)) != cudaSuccess ||
      (err = cudaFuncSetAttribute (attention_sm90<C>,
           cudaFuncAttributeMaxDynamicSharedMemorySize, C::SHARED)) !=
          cudaSuccess)
    return err;

  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = C::CLUSTER;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3 ((unsigned) n_blocks);
  config.blockDim = dim3 (C::THREADS);
  config.dynamicSmemBytes = C::SHARED;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx (&config, attention_sm90<C>, q_map, kv_map,
      (typename C::T *) a->y->data, shape);
}

template <typename T>
static cudaError_t
launch_size (H3CudaStreamHandle stream, const H3AttentionArgs *a,
    gint64 length, int n)
{
  if (a->head_dim == 64 && a->causal)
    return launch<Config<T, 64, 128, 3, 1, true>> (stream, a, length, n);
  if (a->head_dim == 64)
    return launch<Config<T, 64, 128, 3, 1, false>> (stream, a, length, n);
  if (a->head_dim == 128 && a->causal)
    return launch<Config<T, 128, 128, 2, 1, true>> (stream, a, length, n);
  if (a->head_dim == 128)
    return launch<Config<T, 128, 192, 2, 2, false>> (stream, a, length, n);
  return cudaErrorNotSupported;
}

cudaError_t
h3_cuda_attention_sm90 (H3CudaStreamHandle stream, const H3AttentionArgs *a)
{
  gint64 rows = h3_tensor_rows (a->y), length;
  int device, major, n;
  cudaError_t err;

  if (rows == 0)
    return cudaSuccess;
  length = rows / a->n_sequences;
  if (!aligned16 (a->qkv->data) || !aligned16 (a->y->data) ||
      length > G_MAXINT / 2 || !(a->scale > 0.0f))
    return cudaErrorNotSupported;
  if ((err = cudaGetDevice (&device)) != cudaSuccess ||
      (err = cudaDeviceGetAttribute (&major,
           cudaDevAttrComputeCapabilityMajor, device)) != cudaSuccess ||
      (err = cudaDeviceGetAttribute (&n, cudaDevAttrMultiProcessorCount,
           device)) != cudaSuccess)
    return err;
  if (major != 9)
    return cudaErrorNotSupported;
  if (a->qkv->dtype == H3_DTYPE_BF16)
    return launch_size<bf16> (stream, a, length, n);
  if (a->qkv->dtype == H3_DTYPE_F16)
    return launch_size<__half> (stream, a, length, n);
  return cudaErrorNotSupported;
}
