/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* y = silu (g) * u, [g, u] = x Wᵀ + b, for Hopper (sm_90a), 16-bit types.
 *
 * A block stays on its multiprocessor and walks over tiles of y, 128 rows by
 * 128 columns. A tile is a product of 256 columns: the gate's, then up's, so
 * that a thread has both of an element in its registers and neither ever goes
 * through memory. One warp feeds the block through a ring of shared memory; the
 * two blocks of a cluster work on the same columns, and each loads half of the
 * weights for both. Each of two consumer warpgroups owns 64 rows; the second
 * starts LAG stages late and stays so far behind, so that the end of one's tile
 * runs beside the other's products. */
#include "cuda/sm90.cuh"

#define TILE 128
#define STAGES 4
#define LAG 2
#define GROUPS 2
#define CLUSTER 2
#define THREADS ((GROUPS + 1) * WARPGROUP)
#define X_BYTES (TILE * 128)
#define W_HALF (TILE * 128)
#define STAGE_BYTES (X_BYTES + 2 * W_HALF)
#define Y_BOX (64 * 128)
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
  int cols;              /* of y */
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

/* What a block works on. */
struct Work {
  int row0, col0;

  __device__ __forceinline__
  Work (const Shape &s, int i, int rank)
  {
    int first = i / (s.n_pairs * ACROSS) * ACROSS;
    int across = min (ACROSS, s.n_across - first);
    int rest = i - first * s.n_pairs;
    row0 = (rest / across * CLUSTER + rank) * TILE;
    col0 = (first + rest % across) * TILE;
  }
};

__device__ __forceinline__ void
produce (const Shape &s, const CUtensorMap *x_map, const CUtensorMap *w_map,
    const Layout &at, int rank)
{
  uint64_t policy = policy_evict_last ();
  Ring<STAGES> ring;

  for (int i = blockIdx.x / CLUSTER; i < s.n_work; i += gridDim.x / CLUSTER) {
    Work w (s, i, rank);

#pragma unroll 1
    for (int k = 0; k < s.n_depth; k++) {
      uint32_t full = at.full (ring.stage);

      barrier_wait (at.empty (ring.stage), ring.phase ^ 1);
      barrier_expect (full, STAGE_BYTES);
      load_box<1> (at.x (ring.stage), x_map, k * BOX_COLS, w.row0, 0, full,
          policy);
      load_box<CLUSTER> (at.w (ring.stage) + rank * W_HALF, w_map,
          k * BOX_COLS, rank * s.cols + w.col0, 0, full, policy);
      ring.next ();
    }
  }
}

/* d (+)= x wᵀ over one stage, started */
template <typename T>
__device__ __forceinline__ void
start_product (float (&d)[TILE], uint32_t x, uint32_t w, bool add)
{
  uint64_t a = matrix_descriptor (x, 16), b = matrix_descriptor (w, 16);

  wgmma_fence ();
#pragma unroll
  for (int i = 0; i < BOX_COLS / 16; i++)
    Wgmma<T, 2 * TILE>::shared (d, a + i * 32 / 16, b + i * 32 / 16,
        add || i > 0);
  wgmma_commit ();
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

/* A thread's column of a tile's biases. */
struct Bias {
  float gate, up;

  __device__ __forceinline__
  Bias (const float *bias, int cols, int col)
  {
    bool inside = bias && col < cols;
    gate = inside ? bias[col] : 0.0f;
    up = inside ? bias[cols + col] : 0.0f;
  }
};

/* As T has them: the gate's, then up's. */
template <typename T>
__device__ __forceinline__ void
share (const Bias &b, uint32_t at)
{
  uint32_t both = pack2<T> (b.gate, b.up);
  int i = threadIdx.x % WARPGROUP;

  asm volatile ("{\n.reg .b16 g, u;\n"
                "mov.b32 {g, u}, %1;\n"
                "st.shared.b16 [%0], g;\n"
                "st.shared.b16 [%0 + %2], u;\n}" ::"r"(at + i * 2),
                "r"(both), "n"(TILE * 2)
                : "memory");
}

/* The accumulators' gates and ups to a warpgroup's 64 rows of y in shared
 * memory: two boxes of 64 columns. A thread has rows r and r + 8 and in each
 * group of eight columns its two. */
template <typename T>
__device__ __forceinline__ void
finish (const float (&d)[TILE], uint32_t bias, uint32_t y)
{
  int lane = threadIdx.x % H3_WARP;
  int row = threadIdx.x % WARPGROUP / H3_WARP * 16 + lane / 4;
  uint32_t b[2][TILE / 8];

#pragma unroll
  for (int n = 0; n < TILE / 8; n++) {
    b[0][n] = load_shared (bias + (n * 8 + lane % 4 * 2) * 2);
    b[1][n] = load_shared (bias + (TILE + n * 8 + lane % 4 * 2) * 2);
  }
#pragma unroll
  for (int n = 0; n < TILE / 8; n++) {
    float2 bg = Pair<T>::wide (two<T> (b[0][n]));
    float2 bu = Pair<T>::wide (two<T> (b[1][n]));
    uint32_t at = y + n / 8 * Y_BOX + row * 128 +
        ((n % 8 ^ lane / 4) * 16) + lane % 4 * 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float *g = d + 4 * n + 2 * r, *u = g + TILE / 2;
      store_shared (at + r * 8 * 128,
          gated<T> (make_float2 (g[0] + bg.x, g[1] + bg.y),
              make_float2 (u[0] + bu.x, u[1] + bu.y)));
    }
  }
}

template <typename T>
__device__ __forceinline__ void
consume (const Shape &s, const CUtensorMap *y_map, const float *bias,
    const Layout &at, int group, int rank)
{
  int lane = threadIdx.x % H3_WARP;
  bool leader = threadIdx.x % WARPGROUP == 0;
  uint32_t y = at.y + group * 2 * Y_BOX;
  uint32_t shared_bias = at.bias + group * BIAS_BYTES;
  Ring<STAGES> ring;
  float d[TILE];
  int ahead = min (LAG, s.n_depth);

  if (group > 0)
    named_sync (1 + GROUPS, GROUPS * WARPGROUP);
  for (int i = blockIdx.x / CLUSTER; i < s.n_work; i += gridDim.x / CLUSTER) {
    Work w (s, i, rank);
    Bias b (bias, s.cols, w.col0 + threadIdx.x % WARPGROUP);
    int last = 0;

#pragma unroll 1
    for (int k = 0; k < s.n_depth; k++) {
      barrier_wait (at.full (ring.stage), ring.phase);
      start_product<T> (d, at.x (ring.stage) + group * 64 * 128,
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

    if (leader)
      store_wait ();
    share<T> (b, shared_bias);
    named_sync (1 + group, WARPGROUP);
    finish<T> (d, shared_bias, y);
    fence_copies ();
    named_sync (1 + group, WARPGROUP);
    if (leader) {
      store_box (y_map, w.col0, w.row0 + group * 64, y);
      store_box (y_map, w.col0 + BOX_COLS, w.row0 + group * 64, y + Y_BOX);
      store_commit ();
    }
  }
  if (leader)
    store_wait ();
}

template <typename T>
__global__ void __launch_bounds__ (THREADS, 1)
linear_swiglu (const __grid_constant__ CUtensorMap x_map,
    const __grid_constant__ CUtensorMap w_map,
    const __grid_constant__ CUtensorMap y_map, const float *bias,
    const __grid_constant__ Shape shape)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  Layout at (shared_address (shared));
  int group = __shfl_sync (~0u, threadIdx.x / WARPGROUP, 0);
  int rank = blockIdx.x % CLUSTER;

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
      produce (shape, &x_map, &w_map, at, rank);
    __syncwarp ();
  } else {
    asm volatile ("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGS));
    consume<T> (shape, &y_map, bias, at, group - 1, rank);
  }
  /* the other block may still write here, or arrive */
  cluster_sync ();
#endif
}

/* --- host --- */

template <typename T>
static cudaError_t
launch (H3CudaStreamHandle stream, const H3LinearSwigluArgs *a,
    int n_multiprocessors)
{
  const H3Tensor *w = a->weight->tensor;
  gint64 rows = h3_tensor_rows (a->x), depth = h3_tensor_cols (a->x);
  gint64 cols = h3_tensor_cols (a->y);
  gint64 n_pairs = (rows + CLUSTER * TILE - 1) / (CLUSTER * TILE);
  gint64 n_across = (cols + TILE - 1) / TILE;
  gint64 n_clusters = MIN (n_pairs * n_across, n_multiprocessors / CLUSTER);
  CUtensorMap x_map, w_map, y_map;
  cudaFuncAttributes code;
  Shape shape;
  cudaError_t err;

  if (n_pairs * n_across > G_MAXINT - n_multiprocessors)
    return cudaErrorNotSupported;
  /* built without sm_90a, the kernel is empty */
  if ((err = cudaFuncGetAttributes (&code, linear_swiglu<T>)) != cudaSuccess)
    return err;
  if (code.numRegs < 65536 / THREADS / 8 * 8)
    return cudaErrorNotSupported;
  shape.cols = (int) cols;
  shape.n_pairs = (int) n_pairs;
  shape.n_across = (int) n_across;
  shape.n_depth = (int) ((depth + BOX_COLS - 1) / BOX_COLS);
  shape.n_work = (int) (n_pairs * n_across);
  if ((err = map_matrices (&x_map, a->x, depth, rows, 1, TILE)) !=
          cudaSuccess ||
      (err = map_matrices (&w_map, w, depth, 2 * cols, 1, TILE)) !=
          cudaSuccess ||
      (err = map_matrices (&y_map, a->y, cols, rows, 1, 64)) != cudaSuccess ||
      (err = cudaFuncSetAttribute (linear_swiglu<T>,
           cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED)) !=
          cudaSuccess)
    return err;

  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = CLUSTER;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3 ((unsigned) n_clusters * CLUSTER);
  config.blockDim = dim3 (THREADS);
  config.dynamicSmemBytes = SHARED;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx (&config, linear_swiglu<T>, x_map, w_map, y_map,
      a->bias ? (const float *) a->bias->data : NULL, shape);
}

/* Few rows fill a pair of tiles badly: the library has smaller ones. */
static bool
fills_tiles (gint64 rows)
{
  gint64 filled = (rows + CLUSTER * TILE - 1) / (CLUSTER * TILE) * CLUSTER *
      TILE;

  return filled - rows <= filled / 16;
}

cudaError_t
h3_cuda_linear_swiglu_sm90 (H3CudaStreamHandle stream,
    const H3LinearSwigluArgs *a)
{
  const H3Tensor *w = a->weight->tensor;
  gint64 rows = h3_tensor_rows (a->x), cols = h3_tensor_cols (a->y);
  int device, major, n;
  cudaError_t err;

  if (rows == 0 || cols == 0 || a->x->dtype != w->dtype || a->x->dtype != a->y->dtype ||
      !whole (cols, a->y->data, w->data, a->bias ? a->bias->data : NULL) ||
      !whole (h3_tensor_cols (a->x), a->x->data) || !fills_tiles (rows) ||
      rows > G_MAXINT / 2 || cols > G_MAXINT / 4)
    return cudaErrorNotSupported;
  if ((err = cudaGetDevice (&device)) != cudaSuccess ||
      (err = cudaDeviceGetAttribute (&major,
           cudaDevAttrComputeCapabilityMajor, device)) != cudaSuccess ||
      (err = cudaDeviceGetAttribute (&n, cudaDevAttrMultiProcessorCount,
           device)) != cudaSuccess)
    return err;
  if (major != 9 || n < CLUSTER)
    return cudaErrorNotSupported;
  if (a->x->dtype == H3_DTYPE_BF16)
    return launch<bf16> (stream, a, n);
  if (a->x->dtype == H3_DTYPE_F16)
    return launch<__half> (stream, a, n);
  return cudaErrorNotSupported;
}
