/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the products for Hopper (sm_90a) share, all but what is done with a
 * tile's sums.
 *
 * A block stays on its multiprocessor and walks over tiles of x Wᵀ, 128 rows by
 * 256 of W's rows: neighbours, or, where they come in pairs (gate and up), 128 of
 * the first half and the 128 of the second that belong to them. One warp feeds
 * the block through a ring of shared memory; the two blocks of a cluster work on
 * the same columns, and each loads half of the weights for both. Each of two
 * consumer warpgroups owns 64 rows; the second starts LAG stages late and stays
 * so far behind, so that the end of one's tile runs beside the other's products.
 */
#pragma once

#include "cuda/sm90.cuh"

#define TILE 128
#define STAGES 4
#define LAG 2
#define GROUPS 2
#define CLUSTER 2
#define THREADS ((GROUPS + 1) * WARPGROUP)
#define X_BYTES (TILE * BOX_BYTES)
#define W_HALF (TILE * BOX_BYTES)
#define STAGE_BYTES (X_BYTES + 2 * W_HALF)
#define Y_BOX (64 * BOX_BYTES)
#define Y_BYTES (GROUPS * 2 * Y_BOX)
#define BIAS_BYTES (2 * TILE * 2)
#define SHARED \
  (1024 + STAGES * STAGE_BYTES + Y_BYTES + GROUPS * BIAS_BYTES + 128)
/* Columns of tiles that are worked on together: their weights stay in the
 * cache while the rows go by. */
#define ACROSS 8
/* 65536 registers over the block: what the feeding warps give up */
#define PRODUCER_REGS 24
#define CONSUMER_REGS 240

static_assert (SHARED <= 227 * 1024, "shared memory");

struct Shape {
  int rows, cols;        /* of y */
  int n_pairs, n_across; /* tiles of rows, two at a time; tiles of columns */
  int n_depth;           /* stages of a product */
  int n_work;            /* n_pairs x n_across */
};

/* Where things are in shared memory. */
struct Layout {
  uint32_t stages, y, bias, barriers;

  __device__ __forceinline__
  Layout (uint32_t base)
  {
    stages = (base + 1023) & ~1023u;
    y = stages + STAGES * STAGE_BYTES;
    bias = y + Y_BYTES;
    barriers = bias + GROUPS * BIAS_BYTES;
  }
  __device__ __forceinline__ uint32_t x (int s) const
  {
    return stages + s * STAGE_BYTES;
  }
  __device__ __forceinline__ uint32_t w (int s) const
  {
    return x (s) + X_BYTES;
  }
  __device__ __forceinline__ uint32_t full (int s) const
  {
    return barriers + 8 * s;
  }
  __device__ __forceinline__ uint32_t empty (int s) const
  {
    return full (s + STAGES);
  }
};

/* What a block works on: rows and columns of y, and which rows of W it loads. */
template <bool PAIRED> struct Work {
  int row0, col0, w_row;

  __device__ __forceinline__
  Work (const Shape &s, int i, int rank)
  {
    int first = i / (s.n_pairs * ACROSS) * ACROSS;
    int across = min (ACROSS, s.n_across - first);
    int rest = i - first * s.n_pairs;
    row0 = (rest / across * CLUSTER + rank) * TILE;
    col0 = (first + rest % across) * TILE * (PAIRED ? 1 : 2);
    w_row = col0 + rank * (PAIRED ? s.cols : TILE);
  }
};

template <typename T, bool PAIRED>
__device__ __forceinline__ void
produce (const Shape &s, const CUtensorMap *x_map, const CUtensorMap *w_map,
    const Layout &at, int rank)
{
  uint64_t policy = policy_evict_last ();
  Ring<STAGES> ring;

  for (int i = blockIdx.x / CLUSTER; i < s.n_work; i += gridDim.x / CLUSTER) {
    Work<PAIRED> w (s, i, rank);

#pragma unroll 1
    for (int k = 0; k < s.n_depth; k++) {
      uint32_t full = at.full (ring.stage);
      int col = k * (int) (BOX_BYTES / sizeof (T));

      barrier_wait (at.empty (ring.stage), ring.phase ^ 1);
      barrier_expect (full, STAGE_BYTES);
      load_box<1> (at.x (ring.stage), x_map, col, w.row0, 0, full, policy);
      load_box<CLUSTER> (at.w (ring.stage) + rank * W_HALF, w_map, col,
          w.w_row, 0, full, policy);
      ring.next ();
    }
  }
}

/* d (+)= x wᵀ over one stage, started */
template <typename T, typename D>
__device__ __forceinline__ void
start_product (D (&d)[TILE], uint32_t x, uint32_t w, bool add)
{
  uint64_t a = matrix_descriptor (x, 16), b = matrix_descriptor (w, 16);

  wgmma_fence ();
#pragma unroll
  for (int i = 0; i < BOX_BYTES / 32; i++)
    Wgmma<T, 2 * TILE>::shared (d, a + i * 32 / 16, b + i * 32 / 16,
        add || i > 0);
  wgmma_commit ();
}

/* The sums of a tile: the consumers' half of the ring. */
struct Consumer {
  Ring<STAGES> ring;
  int group, lane, ahead;

  __device__ __forceinline__
  Consumer (const Shape &s, int group_)
  {
    group = group_;
    lane = threadIdx.x % H3_WARP;
    ahead = min (LAG, s.n_depth);
    if (group > 0)
      named_sync (1 + GROUPS, GROUPS * WARPGROUP);
  }

  template <typename T, typename D>
  __device__ __forceinline__ void
  multiply (D (&d)[TILE], const Shape &s, const Layout &at)
  {
    int last = 0;

#pragma unroll 1
    for (int k = 0; k < s.n_depth; k++) {
      barrier_wait (at.full (ring.stage), ring.phase);
      start_product<T> (d, at.x (ring.stage) + group * 64 * BOX_BYTES,
          at.w (ring.stage), k > 0);
      wgmma_wait<1> ();
      if (k > 0)
        release<CLUSTER> (at.empty (last), lane);
      last = ring.stage;
      ring.next ();
      if (group == 0 && ahead > 0 && --ahead == 0)
        named_arrive (1 + GROUPS, GROUPS * WARPGROUP);
    }
    wgmma_wait<0> ();
    pin (d);
    release<CLUSTER> (at.empty (last), lane);
  }
};

/* The block's frame: @consume (group) is called by the consumers' threads. */
template <typename T, bool PAIRED, typename F>
__device__ __forceinline__ void
run_block (const Shape &shape, const CUtensorMap *x_map,
    const CUtensorMap *w_map, const Layout &at, int rank, F consume)
{
  int group = __shfl_sync (~0u, threadIdx.x / WARPGROUP, 0);

  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      barrier_init (at.full (s), 1);
      barrier_init (at.empty (s), GROUPS * 4 * CLUSTER);
    }
    asm volatile ("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads ();
  cluster_sync ();

  if (group == 0) {
    asm volatile ("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGS));
    if (threadIdx.x == 0)
      produce<T, PAIRED> (shape, x_map, w_map, at, rank);
    __syncwarp ();
  } else {
    asm volatile ("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGS));
    consume (group - 1);
  }
  /* the other block may still write here, or arrive */
  cluster_sync ();
}

__device__ __forceinline__ float
reciprocal (float x)
{
  float y;
  asm ("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float
silu (float g)
{
  return g * reciprocal (1.0f + exp2_approx (g * -1.4426950408889634f));
}

__device__ __forceinline__ uint32_t
load_shared (uint32_t at)
{
  uint32_t v;
  asm volatile ("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}

__device__ __forceinline__ void
store_shared (uint32_t at, uint32_t v)
{
  asm volatile ("st.shared.b32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}

template <typename T> struct Pair;
template <> struct Pair<__half> {
  typedef __half2 Two;
  static __device__ __forceinline__ float2 wide (Two v)
  {
    return __half22float2 (v);
  }
};
template <> struct Pair<bf16> {
  typedef __nv_bfloat162 Two;
  static __device__ __forceinline__ float2 wide (Two v)
  {
    return __bfloat1622float2 (v);
  }
};

template <typename T>
__device__ __forceinline__ typename Pair<T>::Two
two (uint32_t bits)
{
  return *(typename Pair<T>::Two *) &bits;
}

/* Each of g, u, silu (g) and their product is rounded (denoiser.md 3.8). */
template <typename T>
__device__ __forceinline__ uint32_t
gated (float2 g, float2 u)
{
  g = Pair<T>::wide (two<T> (pack2<T> (g.x, g.y)));
  typename Pair<T>::Two y =
      __hmul2 (two<T> (pack2<T> (silu (g.x), silu (g.y))),
          two<T> (pack2<T> (u.x, u.y)));
  return *(uint32_t *) &y;
}

/* Where two neighbours of a warpgroup's 64 x 128 of y are in shared memory, two
 * boxes of 64 columns: of a thread's row @row and its columns of the @n-th eight.
 */
__device__ __forceinline__ uint32_t
staged (uint32_t y, int row, int n, int lane)
{
  return y + n / 8 * Y_BOX + row * BOX_BYTES + ((n % 8 ^ lane / 4) * 16) +
      lane % 4 * 4;
}

/* --- host --- */

/* FALSE when there are more tiles than numbers for them. */
static bool
shape_init (Shape *s, gint64 rows, gint64 cols, gint64 row_bytes,
    int tile_cols)
{
  gint64 n_pairs = (rows + CLUSTER * TILE - 1) / (CLUSTER * TILE);
  gint64 n_across = (cols + tile_cols - 1) / tile_cols;

  if (rows > G_MAXINT / 2 || cols > G_MAXINT / 4 ||
      n_pairs * n_across > G_MAXINT / 2)
    return false;
  s->rows = (int) rows;
  s->cols = (int) cols;
  s->n_pairs = (int) n_pairs;
  s->n_across = (int) n_across;
  s->n_depth = (int) ((row_bytes + BOX_BYTES - 1) / BOX_BYTES);
  s->n_work = (int) (n_pairs * n_across);
  return true;
}

/* The number of multiprocessors in @n. */
static cudaError_t
check_hopper (int *n)
{
  int device, major;
  cudaError_t err;

  if ((err = cudaGetDevice (&device)) != cudaSuccess ||
      (err = cudaDeviceGetAttribute (&major,
           cudaDevAttrComputeCapabilityMajor, device)) != cudaSuccess ||
      (err = cudaDeviceGetAttribute (n, cudaDevAttrMultiProcessorCount,
           device)) != cudaSuccess)
    return err;
  return major == 9 && *n >= CLUSTER ? cudaSuccess : cudaErrorNotSupported;
}

/* @kernel over all of @shape. cudaErrorNotSupported when this build has it
 * without sm_90a: it is empty then. */
template <typename... P, typename... A>
static cudaError_t
launch_clusters (H3CudaStreamHandle stream, int n_multiprocessors,
    const Shape &shape, void (*kernel) (P...), A... args)
{
  cudaFuncAttributes code;
  cudaError_t err;

  if ((err = cudaFuncGetAttributes (&code, kernel)) != cudaSuccess)
    return err;
  if (code.numRegs < 65536 / THREADS / 8 * 8)
    return cudaErrorNotSupported;
  if ((err = cudaFuncSetAttribute (kernel,
           cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED)) !=
      cudaSuccess)
    return err;

  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = CLUSTER;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3 (MIN (shape.n_work, n_multiprocessors / CLUSTER) * CLUSTER);
  config.blockDim = dim3 (THREADS);
  config.dynamicSmemBytes = SHARED;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx (&config, kernel, args...);
}
