/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Products of bytes for Hopper (sm_90a): rows of x and of W in E4M3 or in signed
 * integers, each with its scale,
 *   y[m, n] = sum_k (x[m, k] w[n, k]) * (x_scale[m] * w_scale[n]) + b[n]
 * to bfloat16 or float32, added to what y has or not, or through SwiGLU. */
#include "cuda/linear-sm90.cuh"

enum Finish {
  STAGED, /* y through shared memory: bfloat16, not added */
  DIRECT, /* y from registers */
  SWIGLU, /* y = silu (g) * u, staged: W's rows in pairs */
};

struct Scales {
  const float *x, *w, *bias; /* bias may be NULL */
};

/* What belongs to a thread's two columns of eight. */
struct Columns {
  float2 scale, bias;

  __device__ __forceinline__
  Columns (const Scales &s, int col, int first, int cols)
  {
    bool inside = col < cols;
    const float2 none = make_float2 (0.0f, 0.0f);

    scale = inside ? __ldg ((const float2 *) (s.w + first + col)) : none;
    bias = inside && s.bias ? __ldg ((const float2 *) (s.bias + first + col))
                            : none;
  }
  template <typename D>
  __device__ __forceinline__ float2
  of (const D *d, float x_scale) const
  {
    return make_float2 (fmaf ((float) d[0], x_scale * scale.x, bias.x),
        fmaf ((float) d[1], x_scale * scale.y, bias.y));
  }
};

/* A thread's rows are r and r + 8 of its warpgroup's 64. */
struct Rows {
  int row;
  float scale[2];

  __device__ __forceinline__
  Rows (const Scales &s, int row0, int rows)
  {
    row = threadIdx.x % WARPGROUP / H3_WARP * 16 + threadIdx.x % H3_WARP / 4;
#pragma unroll
    for (int r = 0; r < 2; r++)
      scale[r] = row0 + row + 8 * r < rows ? s.x[row0 + row + 8 * r] : 0.0f;
  }
};

/* A thread's columns of the tile's first or second 128, to shared memory. */
template <typename D>
__device__ __forceinline__ void
finish_half (const D *d, const Scales &s, const Rows &rows, int col, int cols,
    uint32_t y)
{
  int lane = threadIdx.x % H3_WARP;

#pragma unroll
  for (int n = 0; n < TILE / 8; n++) {
    Columns c (s, col + n * 8 + lane % 4 * 2, 0, cols);
    uint32_t at = staged (y, rows.row, n, lane);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float2 v = c.of (d + 4 * n + 2 * r, rows.scale[r]);
      store_shared (at + r * 8 * BOX_BYTES, pack2<bf16> (v.x, v.y));
    }
  }
}

template <typename D>
__device__ __forceinline__ void
finish_swiglu (const D *d, const Scales &s, const Rows &rows, int col,
    int cols, uint32_t y)
{
  int lane = threadIdx.x % H3_WARP;

#pragma unroll
  for (int n = 0; n < TILE / 8; n++) {
    Columns g (s, col + n * 8 + lane % 4 * 2, 0, cols);
    Columns u (s, col + n * 8 + lane % 4 * 2, cols, cols);
    uint32_t at = staged (y, rows.row, n, lane);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const D *gate = d + 4 * n + 2 * r, *up = gate + TILE / 2;
      store_shared (at + r * 8 * BOX_BYTES,
          gated<bf16> (g.of (gate, rows.scale[r]), u.of (up, rows.scale[r])));
    }
  }
}

__device__ __forceinline__ void
put (float *y, float2 v, bool add)
{
  float2 *at = (float2 *) y;
  float2 old = add ? *at : make_float2 (0.0f, 0.0f);

  *at = make_float2 (old.x + v.x, old.y + v.y);
}

__device__ __forceinline__ void
put (bf16 *y, float2 v, bool add)
{
  uint32_t *at = (uint32_t *) y;
  float2 old = make_float2 (0.0f, 0.0f);

  if (add)
    old = Pair<bf16>::wide (two<bf16> (*at));
  *at = pack2<bf16> (old.x + v.x, old.y + v.y);
}

template <typename TY, typename D>
__device__ __forceinline__ void
finish_direct (const D *d, const Scales &s, const Rows &rows, const Shape &shape,
    int row0, int col0, TY *y, bool add)
{
  int lane = threadIdx.x % H3_WARP;

#pragma unroll
  for (int n = 0; n < 2 * TILE / 8; n++) {
    int col = col0 + n * 8 + lane % 4 * 2;
    Columns c (s, col, 0, shape.cols);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      int row = row0 + rows.row + 8 * r;
      if (row < shape.rows && col < shape.cols)
        put (y + (gint64) row * shape.cols + col,
            c.of (d + 4 * n + 2 * r, rows.scale[r]), add);
    }
  }
}

template <typename T> struct Sum {
  typedef float D;
};
template <> struct Sum<int8_t> {
  typedef int D;
};

/* The warpgroup's half of a pair of boxes leaves for y. */
__device__ __forceinline__ void
send (const CUtensorMap *y_map, uint32_t y, int col, int row, int group)
{
  fence_copies ();
  named_sync (1 + group, WARPGROUP);
  if (threadIdx.x % WARPGROUP == 0) {
    store_box (y_map, col, row, y);
    store_box (y_map, col + BOX_COLS, row, y + Y_BOX);
    store_commit ();
  }
}

/* What it was before has left. */
__device__ __forceinline__ void
take_staging (int group)
{
  if (threadIdx.x % WARPGROUP == 0)
    store_wait ();
  named_sync (1 + group, WARPGROUP);
}

template <typename T, Finish FINISH, typename TY>
__device__ __forceinline__ void
consume (const Shape &s, const CUtensorMap *y_map, TY *y, bool add,
    const Scales &scales, const Layout &at, int group, int rank)
{
  typedef typename Sum<T>::D D;
  uint32_t staging = at.y + group * 2 * Y_BOX;
  Consumer consumer (s, group);
  D d[TILE];

  for (int i = blockIdx.x / CLUSTER; i < s.n_work; i += gridDim.x / CLUSTER) {
    Work<FINISH == SWIGLU> w (s, i, rank);
    int row0 = w.row0 + group * 64;

    consumer.multiply<T> (d, s, at);
    Rows rows (scales, row0, s.rows);
    if (FINISH == DIRECT) {
      finish_direct (d, scales, rows, s, row0, w.col0, y, add);
    } else if (FINISH == SWIGLU) {
      take_staging (group);
      finish_swiglu (d, scales, rows, w.col0, s.cols, staging);
      send (y_map, staging, w.col0, row0, group);
    } else {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        take_staging (group);
        finish_half (d + half * TILE / 2, scales, rows,
            w.col0 + half * TILE, s.cols, staging);
        send (y_map, staging, w.col0 + half * TILE, row0, group);
      }
    }
  }
  if (FINISH != DIRECT && threadIdx.x % WARPGROUP == 0)
    store_wait ();
}

template <typename T, Finish FINISH, typename TY>
__global__ void __launch_bounds__ (THREADS, 1)
linear_bytes (const __grid_constant__ CUtensorMap x_map,
    const __grid_constant__ CUtensorMap w_map,
    const __grid_constant__ CUtensorMap y_map, TY *y, bool add,
    const __grid_constant__ Scales scales,
    const __grid_constant__ Shape shape)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  Layout at (shared_address (shared));
  int rank = blockIdx.x % CLUSTER;

  run_block<T, FINISH == SWIGLU> (shape, &x_map, &w_map, at, rank,
      [&] (int group) {
        consume<T, FINISH, TY> (shape, &y_map, y, add, scales, at, group,
            rank);
      });
#endif
}

/* --- host --- */

template <typename T, Finish FINISH, typename TY>
static cudaError_t
launch (H3CudaStreamHandle stream, const H3CudaBytes *a, int n)
{
  const bool paired = FINISH == SWIGLU;
  gint64 w_rows = paired ? 2 * a->cols : a->cols;
  CUtensorMap x_map, w_map, y_map = {};
  Scales scales = { a->x_scale, a->w_scale, a->bias };
  Shape shape;
  cudaError_t err;

  if (!shape_init (&shape, a->rows, a->cols, a->depth,
          paired ? TILE : 2 * TILE))
    return cudaErrorNotSupported;
  if ((err = map_memory (&x_map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1,
           (void *) a->x, a->depth, a->rows, 1, TILE)) != cudaSuccess ||
      (err = map_memory (&w_map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1,
           (void *) a->w, a->depth, w_rows, 1, TILE)) != cudaSuccess)
    return err;
  if (FINISH != DIRECT &&
      (err = map_memory (&y_map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, a->y,
           a->cols, a->rows, 1, 64)) != cudaSuccess)
    return err;
  return launch_clusters (stream, n, shape, linear_bytes<T, FINISH, TY>,
      x_map, w_map, y_map, (TY *) a->y, (bool) a->accumulate, scales, shape);
}

template <typename T>
static cudaError_t
choose (H3CudaStreamHandle stream, const H3CudaBytes *a, int n)
{
  if (a->swiglu)
    return launch<T, SWIGLU, bf16> (stream, a, n);
  if (a->y_type == H3_DTYPE_F32)
    return launch<T, DIRECT, float> (stream, a, n);
  return a->accumulate ? launch<T, DIRECT, bf16> (stream, a, n)
                       : launch<T, STAGED, bf16> (stream, a, n);
}

gboolean
h3_cuda_can_linear_bytes_sm90 (const H3CudaBytes *a)
{
  int n;

  return a->cols % 8 == 0 && a->depth % 16 == 0 && aligned16 (a->y) &&
      aligned16 (a->x) && aligned16 (a->w) && aligned16 (a->w_scale) &&
      aligned16 (a->bias) &&
      (a->y_type == H3_DTYPE_BF16 ||
          (a->y_type == H3_DTYPE_F32 && !a->swiglu)) &&
      check_hopper (&n) == cudaSuccess;
}

cudaError_t
h3_cuda_linear_bytes_sm90 (H3CudaStreamHandle stream, const H3CudaBytes *a)
{
  cudaError_t err;
  int n;

  if (!h3_cuda_can_linear_bytes_sm90 (a))
    return cudaErrorNotSupported;
  if ((err = check_hopper (&n)) != cudaSuccess)
    return err;
  return a->encoding == H3_ENCODING_INT8 ? choose<int8_t> (stream, a, n)
                                         : choose<e4m3> (stream, a, n);
}
