/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Causal 3-D convolution (video-vae.md 5), for Hopper (sm_90a), to float32's
 * precision out of products of float16.
 *
 * Two passes make pieces first: each number, times a power of two that brings
 * the largest of its frame (of a weight: of its output channel) below 2^15, is
 * the sum of two of float16's, x = xh + xl but for 2^-23 of x or 2^-40 of the
 * largest. x w = xl wh + xh wl + xh wh is then as good as float32's own product.
 * Pieces of 32 channels lie side by side, a slab: 32 high ones, 32 low ones, 128
 * bytes. Frames get their mirrored borders here, so that what a tap sees of a
 * tile is a box.
 *
 * A block stays on its multiprocessor and walks over tiles: 16 columns and some
 * rows of an output frame by 128 output channels. One warp feeds it through two
 * rings of shared memory; the taps of a column of the kernel see the same box,
 * each a row further down. Two warpgroups own half of the rows each: while one
 * adds up, the other's products run. Tensor cores round sums towards zero, so
 * those of a slab begin at zero and are added up outside, where additions round
 * to nearest, in the order (frame tap, slab, column tap, row tap). A number does
 * not depend on the tile it is in, nor on the other frames beside those it
 * sees. */
#include "cuda/sm90.cuh"

#define SLAB 32          /* channels */
#define ROW_BYTES 128    /* of a slab: high and low pieces */
#define WIDE 16          /* pixels of a tile's row */
#define HIGH 8           /* rows of a tile, times MB */
#define COLS 128         /* output channels of a tile */
#define GROUPS 2
#define MOST_TAPS 3      /* rows of a kernel */
#define THREADS ((GROUPS + 1) * WARPGROUP)
#define PICTURE_ROW (WIDE * ROW_BYTES)
#define W_BYTES (COLS * ROW_BYTES)
#define PRODUCER_REGS 24
#define CONSUMER_REGS 240

#define PASS_THREADS 256

/* ---- pieces ---- */

/* Numbers up to @most (its bits) times 2^-e are below 2^15; e may be anything
 * where they are not finite. */
__device__ __forceinline__ int
exponent (unsigned most)
{
  return max ((int) (most >> 23) - 127, -60) - 14;
}

__device__ __forceinline__ float
power_of_two (int e)
{
  return __int_as_float ((e + 127) << 23);
}

__device__ __forceinline__ unsigned
magnitude (float v)
{
  return __float_as_uint (v) & 0x7fffffffu;
}

/* The largest of a block's, in its first thread. */
__device__ __forceinline__ unsigned
block_max (unsigned v)
{
  __shared__ unsigned part[PASS_THREADS / H3_WARP];

  v = __reduce_max_sync (~0u, v);
  if (threadIdx.x % H3_WARP == 0)
    part[threadIdx.x / H3_WARP] = v;
  __syncthreads ();
  if (threadIdx.x < H3_WARP)
    v = __reduce_max_sync (~0u,
        threadIdx.x < PASS_THREADS / H3_WARP ? part[threadIdx.x] : 0u);
  return v;
}

/* Eight channels' pieces: the low ones follow the slab's high ones. */
__device__ __forceinline__ void
store_pieces (__half *to, const float *v, float scale)
{
  uint4 high, low;
  uint32_t *h = (uint32_t *) &high, *l = (uint32_t *) &low;

#pragma unroll
  for (int i = 0; i < 4; i++) {
    float a = v[2 * i] * scale, b = v[2 * i + 1] * scale;
    h[i] = pack2<__half> (a, b);
    float2 back = __half22float2 (*(__half2 *) &h[i]);
    l[i] = pack2<__half> (a - back.x, b - back.y);
  }
  *(uint4 *) to = high;
  *(uint4 *) (to + SLAB) = low;
}

/* Bits of the largest magnitude of each frame, from zero. */
template <bool WHOLE>
__global__ void __launch_bounds__ (PASS_THREADS)
find_most (unsigned *most, const float *x, gint64 size)
{
  gint64 step = (gint64) gridDim.x * PASS_THREADS * 8;
  unsigned v = 0;

  x += blockIdx.y * size;
  for (gint64 i = ((gint64) blockIdx.x * PASS_THREADS + threadIdx.x) * 8;
       i < size; i += step) {
    float e[8];
    load_part<WHOLE> (x + i, (int) min (size - i, (gint64) 8), e);
#pragma unroll
    for (int k = 0; k < 8; k++)
      v = max (v, magnitude (e[k]));
  }
  v = block_max (v);
  if (threadIdx.x == 0)
    atomicMax (most + blockIdx.y, v);
}

typedef struct {
  int height, width; /* of the input */
  int rows, cols;    /* with what the taps see beyond the edges */
  int ci, slabs, pad;
} Frame;

__device__ __forceinline__ int
mirror (int at, int n)
{
  at = at < 0 ? -at : at;
  return at >= n ? 2 * (n - 1) - at : at;
}

/* pieces [F, slabs, rows, cols, 2 SLAB] */
template <bool WHOLE>
__global__ void __launch_bounds__ (PASS_THREADS)
split_frames (__half *pieces, const float *x, const unsigned *most,
    const __grid_constant__ Frame f)
{
  int i = blockIdx.x * PASS_THREADS + threadIdx.x, eights = f.slabs * SLAB / 8;
  int p = i / eights, c = i % eights * 8, size = f.rows * f.cols;
  float v[8];

  if (p >= size)
    return;
  int row = mirror (p / f.cols - f.pad, f.height);
  int col = mirror (p % f.cols - f.pad, f.width);
  x += (((gint64) blockIdx.y * f.height + row) * f.width + col) * f.ci;
  if (WHOLE && c < f.ci)
    load8 (x + c, v);
  else
    load_n (x + c, f.ci - c, v);
  store_pieces (pieces + (((gint64) blockIdx.y * f.slabs + c / SLAB) * size +
                             p) * (2 * SLAB) + c % SLAB,
      v, power_of_two (-exponent (most[blockIdx.y])));
}

/* Of output channel blockIdx.x: pieces [taps - first, slabs, co, 2 SLAB], and
 * what its sums have to be multiplied with. */
template <bool WHOLE>
__global__ void __launch_bounds__ (PASS_THREADS)
split_weight (__half *pieces, float *scale, const float *w, int taps, int first,
    int ci, int slabs)
{
  __shared__ unsigned most;
  int eights = slabs * SLAB / 8, n = taps * ci;
  unsigned largest = 0;
  float v[8];

  w += (gint64) blockIdx.x * n;
  for (int i = threadIdx.x * 8; i < n; i += PASS_THREADS * 8) {
    load_part<WHOLE> (w + i, n - i, v);
#pragma unroll
    for (int k = 0; k < 8; k++)
      largest = max (largest, magnitude (v[k]));
  }
  largest = block_max (largest);
  if (threadIdx.x == 0) {
    most = largest;
    scale[blockIdx.x] = power_of_two (exponent (largest));
  }
  __syncthreads ();
  float factor = power_of_two (-exponent (most));
  for (int i = threadIdx.x; i < (taps - first) * eights; i += PASS_THREADS) {
    int tap = i / eights, c = i % eights * 8;
    const float *from = w + (gint64) (first + tap) * ci + c;
    if (WHOLE && c < ci)
      load8 (from, v);
    else
      load_n (from, ci - c, v);
    store_pieces (pieces + (((gint64) tap * slabs + c / SLAB) * gridDim.x +
                               blockIdx.x) * (2 * SLAB) + c % SLAB, v, factor);
  }
}

/* ---- products ---- */

typedef struct {
  float *y;
  const float *bias, *residual;
  const float *scale;   /* of output channels */
  const unsigned *most; /* of input frames */
  int frames, to, ho, wo, co;
  int kt, k, stride_t, stride;
  int first; /* tap in time that there are weights of */
  int slabs;
  int across, down, n_cols, n_work; /* tiles of a frame; of y */
} Shape;

/* Where things are in shared memory, and how many of them there are. */
template <int MB> struct Layout {
  static const int BOX_ROWS = HIGH * MB + MOST_TAPS - 1;
  static const int X_BYTES = BOX_ROWS * PICTURE_ROW;
  static const int X_STAGES = MB == 1 ? 4 : 3;
  static const int W_STAGES = MB == 1 ? 8 : 7;
  static const int SHARED = 1024 + X_STAGES * X_BYTES + W_STAGES * W_BYTES +
      16 * (X_STAGES + W_STAGES);
  uint32_t base;

  __device__ __forceinline__
  Layout (uint32_t shared) : base ((shared + 1023) & ~1023u)
  {
  }
  __device__ __forceinline__ uint32_t x (int s) const
  {
    return base + s * X_BYTES;
  }
  __device__ __forceinline__ uint32_t w (int s) const
  {
    return x (X_STAGES) + s * W_BYTES;
  }
  __device__ __forceinline__ uint32_t x_full (int s) const
  {
    return w (W_STAGES) + 16 * s;
  }
  __device__ __forceinline__ uint32_t w_full (int s) const
  {
    return x_full (X_STAGES + s);
  }
  static __device__ __forceinline__ uint32_t empty (uint32_t full)
  {
    return full + 8;
  }
};

static_assert (Layout<1>::SHARED <= 227 * 1024, "shared memory");
static_assert (Layout<2>::SHARED <= 227 * 1024, "shared memory");

/* A tile: where it begins, and the frame taps it has. */
template <int MB> struct Tile {
  int n0, x0, y0, frame; /* of the output */
  int source, dt;        /* the input's frame at tap 0, the first that is one */

  __device__ __forceinline__
  Tile (const Shape &s, int i)
  {
    n0 = i % s.n_cols * COLS;
    i /= s.n_cols;
    x0 = i % s.across * WIDE;
    i /= s.across;
    y0 = i % s.down * (HIGH * MB);
    frame = i / s.down;
    int t = frame % s.to * s.stride_t - (s.kt - 1);
    source = frame / s.to * s.frames + t;
    dt = max (0, -t);
  }
};

/* One box of 4-D pieces; the barrier counts the bytes. */
__device__ __forceinline__ void
load_pixels (uint32_t dst, const void *map, int col, int row, int slab,
    uint32_t barrier)
{
  asm volatile ("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier"
                "::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::
                "r"(dst), "l"(map), "r"(0), "r"(col), "r"(row), "r"(slab),
                "r"(barrier)
                : "memory");
}

template <int MB>
__device__ __forceinline__ void
produce (const Shape &s, const CUtensorMap *x_map, const CUtensorMap *w_map,
    const Layout<MB> &at)
{
  typedef Layout<MB> L;
  bool shared_rows = s.stride == 1;
  int rows = HIGH * MB + (shared_rows ? s.k - 1 : 0);
  uint64_t policy = policy_evict_last ();
  Ring<L::X_STAGES> xs;
  Ring<L::W_STAGES> ws;

  for (int i = blockIdx.x; i < s.n_work; i += gridDim.x) {
    Tile<MB> t (s, i);

    for (int dt = t.dt; dt < s.kt; dt++)
      for (int c = 0; c < s.slabs; c++)
        for (int dx = 0; dx < s.k; dx++)
          for (int dy = 0; dy < s.k; dy++) {
            if (dy == 0 || !shared_rows) {
              uint32_t full = at.x_full (xs.stage);

              barrier_wait (L::empty (full), xs.phase ^ 1);
              barrier_expect (full, rows * PICTURE_ROW);
              load_pixels (at.x (xs.stage), x_map, t.x0 * s.stride + dx,
                  t.y0 * s.stride + dy, (t.source + dt) * s.slabs + c, full);
              xs.next ();
            }
            int tap = ((dt - s.first) * s.k + dy) * s.k + dx;
            uint32_t full = at.w_full (ws.stage);

            barrier_wait (L::empty (full), ws.phase ^ 1);
            barrier_expect (full, W_BYTES);
            load_box<1> (at.w (ws.stage), w_map, 0, t.n0, tap * s.slabs + c,
                full, policy);
            ws.next ();
          }
  }
}

/* part = x wᵀ over a slab of 64 pixels, started: the small products first */
__device__ __forceinline__ void
start_products (float (&part)[COLS / 2], uint32_t x, uint32_t w)
{
  const uint64_t low = SLAB * 2 / 16, next = 16 * 2 / 16;
  uint64_t a = matrix_descriptor (x, 16), b = matrix_descriptor (w, 16);

  wgmma_fence ();
  Wgmma<__half, COLS>::shared (part, a + low, b, 0);
  Wgmma<__half, COLS>::shared (part, a + low + next, b + next, 1);
  Wgmma<__half, COLS>::shared (part, a, b + low, 1);
  Wgmma<__half, COLS>::shared (part, a + next, b + low + next, 1);
  Wgmma<__half, COLS>::shared (part, a, b, 1);
  Wgmma<__half, COLS>::shared (part, a + next, b + next, 1);
  wgmma_commit ();
}

/* A thread has of 64 pixels, four rows of a tile, in its warp's row pixels
 * lane / 4 and 8 further right, and of each eight channels two. */
__device__ __forceinline__ void
finish (const Shape &s, const float (&acc)[COLS / 2], int n0, int x, int y,
    int frame)
{
  int lane = threadIdx.x % H3_WARP;

  x += lane / 4;
  y += threadIdx.x % WARPGROUP / H3_WARP;
  n0 += lane % 4 * 2;
  if (y >= s.ho)
    return;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    gint64 at =
        (((gint64) frame * s.ho + y) * s.wo + x + h * 8) * s.co + n0;
    float2 r[COLS / 8];

    if (x + h * 8 >= s.wo)
      continue;
#pragma unroll
    for (int j = 0; j < COLS / 8; j++)
      r[j] = s.residual && n0 + j * 8 < s.co
          ? *(const float2 *) (s.residual + at + j * 8)
          : make_float2 (0.0f, 0.0f);
#pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
      int n = n0 + j * 8;
      if (n >= s.co)
        continue;
      float a = fmaf (acc[4 * j + 2 * h], s.scale[n], s.bias[n]);
      float b = fmaf (acc[4 * j + 2 * h + 1], s.scale[n + 1], s.bias[n + 1]);
      if (s.residual) {
        a += r[j].x;
        b += r[j].y;
      }
      *(float2 *) (s.y + at + j * 8) = make_float2 (a, b);
    }
  }
}

template <int MB>
__device__ __forceinline__ void
consume (const Shape &s, const Layout<MB> &at, int group)
{
  typedef Layout<MB> L;
  int lane = threadIdx.x % H3_WARP;
  bool shared_rows = s.stride == 1;
  int columns = s.slabs * s.k; /* of the kernel, in all slabs */
  Ring<L::X_STAGES> xs;
  Ring<L::W_STAGES> ws;
  float acc[MB][COLS / 2], part[COLS / 2];

  for (int i = blockIdx.x; i < s.n_work; i += gridDim.x) {
    Tile<MB> t (s, i);

#pragma unroll
    for (int b = 0; b < MB; b++)
#pragma unroll
      for (int j = 0; j < COLS / 2; j++)
        acc[b][j] = 0.0f;
#pragma unroll 1
    for (int dt = t.dt; dt < s.kt; dt++) {
      float scale = power_of_two (exponent (s.most[t.source + dt]));
      int column = 0, dy = 0;

#pragma unroll 1
      while (column < columns) {
        uint32_t x_full = at.x_full (xs.stage), w_full = at.w_full (ws.stage);
        bool last = dy == s.k - 1 || !shared_rows;

        if (dy == 0 || !shared_rows)
          barrier_wait (x_full, xs.phase);
        barrier_wait (w_full, ws.phase);
#pragma unroll
        for (int b = 0; b < MB; b++) {
          start_products (part, at.x (xs.stage) +
              ((group * MB + b) * 4 + (shared_rows ? dy : 0)) * PICTURE_ROW,
              at.w (ws.stage));
          wgmma_wait<0> ();
          pin (part);
          if (b == MB - 1) {
            release<1> (L::empty (w_full), lane);
            if (last)
              release<1> (L::empty (x_full), lane);
          }
#pragma unroll
          for (int j = 0; j < COLS / 2; j++)
            acc[b][j] = fmaf (part[j], scale, acc[b][j]);
        }
        if (last)
          xs.next ();
        ws.next ();
        if (++dy == s.k) {
          dy = 0;
          column++;
        }
      }
    }
#pragma unroll
    for (int b = 0; b < MB; b++)
      finish (s, acc[b], t.n0, t.x0, t.y0 + (group * MB + b) * 4, t.frame);
  }
}

template <int MB>
__global__ void __launch_bounds__ (THREADS, 1)
convolve (const __grid_constant__ CUtensorMap x_map,
    const __grid_constant__ CUtensorMap w_map,
    const __grid_constant__ Shape shape)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  typedef Layout<MB> L;
  L at (shared_address (shared));
  int group = __shfl_sync (~0u, threadIdx.x / WARPGROUP, 0);

  if (threadIdx.x == 0) {
    for (int i = 0; i < L::X_STAGES + L::W_STAGES; i++) {
      barrier_init (at.x_full (i), 1);
      barrier_init (L::empty (at.x_full (i)), GROUPS * 4);
    }
    asm volatile ("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads ();
  if (group == 0) {
    asm volatile ("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGS));
    if (threadIdx.x == 0)
      produce<MB> (shape, &x_map, &w_map, at);
  } else {
    asm volatile ("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGS));
    consume<MB> (shape, at, group - 1);
  }
#endif
}

/* --- host --- */

/* Of one convolution: sizes, and where its pieces are. */
typedef struct {
  gint64 frames, co, taps, used; /* taps: of the weight, that see a frame */
  Frame frame;
  Shape shape;
  gint64 x_halves, w_halves;
  gsize bytes;
} Plan;

#define ALIGNED(n) (((gsize) (n) + 255) & ~(gsize) 255)

static Plan
plan_of (const H3Conv3dArgs *a)
{
  const gint64 *x = a->x->shape, *y = a->y->shape;
  const gint64 *w = a->weight->tensor->shape;
  int slabs = (int) ((w[4] + SLAB - 1) / SLAB);
  int latest = (int) (y[1] - 1) * a->stride_t;
  Plan p = {};

  p.frames = x[0] * x[1];
  p.co = w[0];
  p.frame = { (int) x[2], (int) x[3], (int) ((y[2] - 1) * a->stride + w[2]),
    (int) ((y[3] - 1) * a->stride + w[2]), (int) w[4], slabs, a->pad };
  p.shape = { (float *) a->y->data, (const float *) a->bias->data,
    a->residual ? (const float *) a->residual->data : NULL, NULL, NULL,
    (int) x[1], (int) y[1], (int) y[2], (int) y[3], (int) w[0], (int) w[1],
    (int) w[2], a->stride_t, a->stride,
    MAX (0, (int) w[1] - 1 - latest), slabs };
  p.taps = w[1] * w[2] * w[2];
  p.used = p.taps - p.shape.first * w[2] * w[2];
  p.x_halves = p.frames * slabs * 2 * SLAB * p.frame.rows * p.frame.cols;
  p.w_halves = p.used * slabs * 2 * SLAB * p.co;
  p.bytes = ALIGNED (p.frames * 4) + ALIGNED (p.co * 4) +
      ALIGNED (p.x_halves * 2) + ALIGNED (p.w_halves * 2);
  return p;
}

/* Few channels leave most of a tile of products empty. */
#define LEAST_CHANNELS 48

static bool
fits (const H3Conv3dArgs *a)
{
  const gint64 *x = a->x->shape, *y = a->y->shape;
  const gint64 *w = a->weight->tensor->shape;
  int device, major;

  if (w[4] < LEAST_CHANNELS || w[0] < LEAST_CHANNELS || w[0] % 2 ||
      w[2] > MOST_TAPS || a->stride > 8 || a->stride_t > 8 ||
      ((size_t) a->y->data & 7) ||
      (a->residual && ((size_t) a->residual->data & 7)))
    return false;
  /* counted in int, or a grid's second axis */
  if (h3_tensor_size (a->y) == 0 || x[0] * x[1] > 65535 ||
      (x[2] + 16) * (x[3] + 16) * (w[4] + SLAB) > G_MAXINT ||
      w[1] * w[2] * w[2] * (w[4] + SLAB) > G_MAXINT / 8 ||
      y[0] * y[1] * y[2] * y[3] > G_MAXINT / 8 || w[0] > G_MAXINT / 8)
    return false;
  return cudaGetDevice (&device) == cudaSuccess &&
      cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor,
          device) == cudaSuccess &&
      major == 9;
}

template <bool WHOLE>
static void
make_pieces (H3CudaStreamHandle stream, const H3Conv3dArgs *a, const Plan &p,
    unsigned *most, float *scale, __half *xs, __half *ws)
{
  const Frame &f = p.frame;
  gint64 size = (gint64) f.height * f.width * f.ci;
  gint64 eights = (gint64) f.rows * f.cols * f.slabs * (SLAB / 8);
  const float *x = (const float *) a->x->data;

  cudaMemsetAsync (most, 0, p.frames * 4, stream);
  find_most<WHOLE><<<dim3 (MIN (blocks_for (size, PASS_THREADS * 32), 256),
      p.frames), PASS_THREADS, 0, stream>>> (most, x, size);
  split_frames<WHOLE><<<dim3 (blocks_for (eights, PASS_THREADS), p.frames),
      PASS_THREADS, 0, stream>>> (xs, x, most, f);
  split_weight<WHOLE><<<p.co, PASS_THREADS, 0, stream>>> (ws, scale,
      (const float *) a->weight->tensor->data, p.taps, p.taps - p.used, f.ci,
      f.slabs);
}

static cudaError_t
map_pixels (CUtensorMap *map, const __half *pieces, const Plan &p, int rows)
{
  const Frame &f = p.frame;
  EncodeTiled encode = find_encode_tiled ();
  cuuint32_t stride = p.shape.stride;
  cuuint64_t dim[4] = { 2 * SLAB, (cuuint64_t) f.cols, (cuuint64_t) f.rows,
    (cuuint64_t) (p.frames * f.slabs) };
  cuuint64_t bytes[3] = { ROW_BYTES, ROW_BYTES * dim[1],
    ROW_BYTES * dim[1] * dim[2] };
  cuuint32_t box[4] = { 2 * SLAB, WIDE * stride,
    stride == 1 ? rows + p.shape.k - 1 : rows * stride, 1 };
  cuuint32_t step[4] = { 1, stride, stride, 1 };

  if (!encode)
    return cudaErrorNotSupported;
  return encode (map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *) pieces, dim,
             bytes, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
      ? cudaSuccess
      : cudaErrorNotSupported;
}

template <int MB>
static gint64
tiles_of (Shape *s, gint64 frames)
{
  s->across = (s->wo + WIDE - 1) / WIDE;
  s->down = (s->ho + HIGH * MB - 1) / (HIGH * MB);
  s->n_cols = (s->co + COLS - 1) / COLS;
  return frames * s->across * s->down * s->n_cols;
}

template <int MB>
static cudaError_t
launch (H3CudaStreamHandle stream, Plan &p, gint64 frames, const __half *xs,
    const __half *ws, int n_multiprocessors)
{
  H3Tensor w = {};
  CUtensorMap x_map, w_map;
  cudaFuncAttributes code;
  cudaError_t err;
  gint64 n = tiles_of<MB> (&p.shape, frames);

  if (n > G_MAXINT - n_multiprocessors)
    return cudaErrorNotSupported;
  /* built without sm_90a, the kernel is empty */
  if ((err = cudaFuncGetAttributes (&code, convolve<MB>)) != cudaSuccess)
    return err;
  if (code.numRegs < 65536 / THREADS / 8 * 8)
    return cudaErrorNotSupported;
  p.shape.n_work = (int) n;
  w.dtype = H3_DTYPE_F16;
  w.data = (gpointer) ws;
  if ((err = map_pixels (&x_map, xs, p, HIGH * MB)) != cudaSuccess ||
      (err = map_matrices (&w_map, &w, 2 * SLAB, p.co,
           p.used * p.shape.slabs, COLS)) != cudaSuccess ||
      (err = cudaFuncSetAttribute (convolve<MB>,
           cudaFuncAttributeMaxDynamicSharedMemorySize,
           Layout<MB>::SHARED)) != cudaSuccess)
    return err;
  convolve<MB><<<MIN (n, n_multiprocessors), THREADS, Layout<MB>::SHARED,
      stream>>> (x_map, w_map, p.shape);
  return cudaGetLastError ();
}

/* Twice as many tiles of half the size, where they fill the device better. */
static bool
small_tiles (const Plan &p, gint64 frames, int n_multiprocessors)
{
  Shape s = p.shape;
  gint64 large = blocks_for (tiles_of<2> (&s, frames), n_multiprocessors);
  gint64 small = blocks_for (tiles_of<1> (&s, frames), n_multiprocessors);

  return small * 9 < large * 2 * 8;
}

gsize
h3_cuda_conv3d_sm90_scratch (const H3Conv3dArgs *a)
{
  return fits (a) ? plan_of (a).bytes : 0;
}

cudaError_t
h3_cuda_conv3d_sm90 (H3CudaStreamHandle stream, const H3Conv3dArgs *a,
    gpointer scratch)
{
  gint64 frames = a->y->shape[0] * a->y->shape[1];
  Plan p = plan_of (a);
  guint8 *at = (guint8 *) scratch;
  unsigned *most = (unsigned *) at;
  float *scale = (float *) (at += ALIGNED (p.frames * 4));
  __half *xs = (__half *) (at += ALIGNED (p.co * 4));
  __half *ws = (__half *) (at + ALIGNED (p.x_halves * 2));
  int device, n;
  cudaError_t err;

  if ((err = cudaGetDevice (&device)) != cudaSuccess ||
      (err = cudaDeviceGetAttribute (&n, cudaDevAttrMultiProcessorCount,
           device)) != cudaSuccess)
    return err;
  p.shape.most = most;
  p.shape.scale = scale;
  if (whole (p.frame.ci, a->x->data, a->weight->tensor->data))
    make_pieces<true> (stream, a, p, most, scale, xs, ws);
  else
    make_pieces<false> (stream, a, p, most, scale, xs, ws);
  if ((err = cudaGetLastError ()) != cudaSuccess)
    return err;
  return small_tiles (p, frames, n)
      ? launch<1> (stream, p, frames, xs, ws, n)
      : launch<2> (stream, p, frames, xs, ws, n);
}
