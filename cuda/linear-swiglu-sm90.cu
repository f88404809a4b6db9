/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* y = silu (g) * u, [g, u] = x Wᵀ + b, for Hopper (sm_90a), 16-bit types. A tile
 * of y, 128 rows by 128 columns, is a product of 256 columns: the gate's, then
 * up's, so that a thread has both of an element in its registers and neither
 * ever goes through memory. */
#include "cuda/linear-sm90.cuh"

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
    uint32_t at = staged (y, row, n, lane);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float *g = d + 4 * n + 2 * r, *u = g + TILE / 2;
      store_shared (at + r * 8 * BOX_BYTES,
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
  bool leader = threadIdx.x % WARPGROUP == 0;
  uint32_t y = at.y + group * 2 * Y_BOX;
  uint32_t shared_bias = at.bias + group * BIAS_BYTES;
  Consumer consumer (s, group);
  float d[TILE];

  for (int i = blockIdx.x / CLUSTER; i < s.n_work; i += gridDim.x / CLUSTER) {
    Work<true> w (s, i, rank);
    Bias b (bias, s.cols, w.col0 + threadIdx.x % WARPGROUP);

    consumer.multiply<T> (d, s, at);
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
  int rank = blockIdx.x % CLUSTER;

  run_block<T, true> (shape, &x_map, &w_map, at, rank, [&] (int group) {
    consume<T> (shape, &y_map, bias, at, group, rank);
  });
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
  CUtensorMap x_map, w_map, y_map;
  Shape shape;
  cudaError_t err;

  if (!shape_init (&shape, rows, cols, depth * sizeof (T), TILE))
    return cudaErrorNotSupported;
  if ((err = map_matrices (&x_map, a->x, depth, rows, 1, TILE)) !=
          cudaSuccess ||
      (err = map_matrices (&w_map, w, depth, 2 * cols, 1, TILE)) !=
          cudaSuccess ||
      (err = map_matrices (&y_map, a->y, cols, rows, 1, 64)) != cudaSuccess)
    return err;
  return launch_clusters (stream, n_multiprocessors, shape, linear_swiglu<T>,
      x_map, w_map, y_map, a->bias ? (const float *) a->bias->data : NULL,
      shape);
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
  int n;
  cudaError_t err;

  if (rows == 0 || cols == 0 || a->x->dtype != w->dtype || a->x->dtype != a->y->dtype ||
      !whole (cols, a->y->data, w->data, a->bias ? a->bias->data : NULL) ||
      !whole (h3_tensor_cols (a->x), a->x->data) || !fills_tiles (rows))
    return cudaErrorNotSupported;
  if ((err = check_hopper (&n)) != cudaSuccess)
    return err;
  if (a->x->dtype == H3_DTYPE_BF16)
    return launch<bf16> (stream, a, n);
  if (a->x->dtype == H3_DTYPE_F16)
    return launch<__half> (stream, a, n);
  return cudaErrorNotSupported;
}
