/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Causal 3-D convolution, channels last (video-vae.md 5), on any GPU (for Hopper
 * there is a faster one, conv3d-sm90.cu), as an implicit matrix product: pixels
 * by output channels, summed over (tap, input channel) in that order whatever
 * the tile.
 *
 * The fast kernel has tensor cores do it to float32's precision: each number is
 * the sum of two of TF32's, x = xh + xl, and x w = xl wh + xh wl + xh wh but for
 * 2^-22. Tensor cores round sums towards zero, so those of a slab begin at zero
 * and are added up outside, where additions round to nearest. */
#include "cuda/kernel.cuh"

typedef struct {
  float *y;
  const float *x, *w, *bias, *residual;
  int frames, height, width; /* of the input; frames of a batch item */
  int to, ho, wo;            /* of the output */
  int ci, co, kt, k;
  int stride_t, stride, pad;
  int pixels; /* of the output, in all */
} Conv;

/* Where the taps of an output pixel begin in the input: the frame in the batch
 * and in its item, the row, the column. */
__device__ __forceinline__ int4
origin (const Conv &c, int m)
{
  int j = m % c.wo, i = m / c.wo % c.ho, f = m / c.wo / c.ho;
  int t = f % c.to * c.stride_t - (c.kt - 1);

  if (m >= c.pixels)
    return make_int4 (0, -(1 << 30), 0, 0);
  return make_int4 (f / c.to * c.frames + t, t, i * c.stride - c.pad,
      j * c.stride - c.pad);
}

__device__ __forceinline__ int
mirror (int at, int n)
{
  at = at < 0 ? -at : at;
  return at >= n ? 2 * (n - 1) - at : at;
}

/* The first element of what tap (dt, dy, dx) sees, or -1: before the first
 * frame, or no pixel. */
__device__ __forceinline__ gint64
source (const Conv &c, int4 o, int dt, int dy, int dx)
{
  if (o.y + dt < 0)
    return -1;
  return (((gint64) (o.x + dt) * c.height + mirror (o.z + dy, c.height)) *
      c.width + mirror (o.w + dx, c.width)) * c.ci;
}

/* The first dt that one of pixels @m0 .. @m1 sees a frame at. */
__device__ __forceinline__ int
first_frame_tap (const Conv &c, int m0, int m1)
{
  int f0 = m0 / (c.wo * c.ho), f1 = min (m1, c.pixels - 1) / (c.wo * c.ho);
  int latest = f0 / c.to == f1 / c.to ? f1 % c.to : c.to - 1;

  return max (0, c.kt - 1 - latest * c.stride_t);
}

/* ---- tensor cores ---- */

#define BM 128 /* pixels of a block */
#define BN 128 /* output channels */
#define BK 32  /* input channels of a slab: rows of 128 bytes */
#define FAST_THREADS 256
#define ROWS (FAST_THREADS / 8) /* that are loaded at once, 16 bytes a thread */
#define STAGE_BYTES ((BM + BN) * BK * 4)

/* Four floats of row @row: the eight pieces of a row are exchanged by its
 * number, so that eight rows' same piece lies in eight places. */
__device__ __forceinline__ unsigned
piece (unsigned base, int row, int q)
{
  return base + row * (BK * 4) + ((q ^ (row & 7)) << 4);
}

__device__ __forceinline__ void
copy16_async (unsigned to, const float *from, bool inside)
{
  int bytes = inside ? 16 : 0;
  asm volatile ("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
      "l"(from), "r"(bytes));
}

/* Which slab comes next. */
typedef struct {
  int dt, dy, dx, c0;
} Cursor;

__device__ __forceinline__ void
load_slab (const Conv &c, Cursor &at, const int4 *origins, unsigned stage,
    int n0)
{
  int q = threadIdx.x % 8, tap = (at.dt * c.k + at.dy) * c.k + at.dx;
  int taps = c.kt * c.k * c.k;

#pragma unroll
  for (int i = 0; i < BM / ROWS; i++) {
    int row = threadIdx.x / 8 + i * ROWS;
    gint64 from = source (c, origins[row], at.dt, at.dy, at.dx);
    copy16_async (piece (stage, row, q),
        from < 0 ? c.x : c.x + from + at.c0 + q * 4, from >= 0);
  }
  stage += BM * BK * 4;
#pragma unroll
  for (int i = 0; i < BN / ROWS; i++) {
    int row = threadIdx.x / 8 + i * ROWS;
    bool inside = n0 + row < c.co;
    copy16_async (piece (stage, row, q), !inside ? c.w
        : c.w + ((gint64) (n0 + row) * taps + tap) * c.ci + at.c0 + q * 4,
        inside);
  }
  at.c0 += BK;
  if (at.c0 < c.ci)
    return;
  at.c0 = 0;
  if (++at.dx < c.k)
    return;
  at.dx = 0;
  if (++at.dy < c.k)
    return;
  at.dy = 0;
  at.dt++;
}

/* Four 8 x 4 matrices; lane l names row l % 8 of matrix l / 8. */
__device__ __forceinline__ void
load_matrices (unsigned at, unsigned v[4])
{
  asm volatile ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
}

/* TF32 has 10 bits after the point: to nearest, and what is left. */
__device__ __forceinline__ void
split (unsigned v, unsigned &high, unsigned &low)
{
  high = (v + 0x1000u) & 0xffffe000u;
  low = __float_as_uint (__uint_as_float (v) - __uint_as_float (high));
}

__device__ __forceinline__ void
multiply_add (float d[4], const unsigned a[4], const unsigned b[2])
{
  asm volatile ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* A warp's 64 pixels by 32 channels, summed over a slab. */
__device__ __forceinline__ void
add_slab (float acc[4][4][4], unsigned stage, int wm, int wn)
{
  int lane = threadIdx.x % H3_WARP, in = lane & 7, mi = lane >> 3;
  float part[4][4][4] = {};

#pragma unroll
  for (int kk = 0; kk < BK / 8; kk++) {
    unsigned bh[4][2], bl[4][2];

#pragma unroll
    for (int np = 0; np < 2; np++) {
      unsigned v[4];
      load_matrices (piece (stage + BM * BK * 4,
          wn * 32 + np * 16 + (mi >> 1) * 8 + in, 2 * kk + (mi & 1)), v);
#pragma unroll
      for (int i = 0; i < 4; i++)
        split (v[i], bh[np * 2 + i / 2][i % 2], bl[np * 2 + i / 2][i % 2]);
    }
#pragma unroll
    for (int mt = 0; mt < 4; mt++) {
      unsigned v[4], ah[4], al[4];
      load_matrices (piece (stage, wm * 64 + mt * 16 + (mi & 1) * 8 + in,
          2 * kk + (mi >> 1)), v);
#pragma unroll
      for (int i = 0; i < 4; i++)
        split (v[i], ah[i], al[i]);
#pragma unroll
      for (int nt = 0; nt < 4; nt++)
        multiply_add (part[mt][nt], al, bh[nt]);
#pragma unroll
      for (int nt = 0; nt < 4; nt++)
        multiply_add (part[mt][nt], ah, bl[nt]);
#pragma unroll
      for (int nt = 0; nt < 4; nt++)
        multiply_add (part[mt][nt], ah, bh[nt]);
    }
  }
#pragma unroll
  for (int mt = 0; mt < 4; mt++)
#pragma unroll
    for (int nt = 0; nt < 4; nt++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        acc[mt][nt][i] += part[mt][nt][i];
}

/* Channels n and n + 1 of pixel m. */
__device__ __forceinline__ void
put_pair (const Conv &c, int m, int n, float a, float b)
{
  gint64 at = (gint64) m * c.co + n;

  if (m >= c.pixels || n >= c.co)
    return;
  a += c.bias[n];
  b += c.bias[n + 1];
  if (c.residual) {
    float2 r = *(const float2 *) (c.residual + at);
    a += r.x;
    b += r.y;
  }
  *(float2 *) (c.y + at) = make_float2 (a, b);
}

/* Slabs STAGES - 1 ahead of the one that is summed are on their way. */
template <int STAGES>
__global__ void __launch_bounds__ (FAST_THREADS, 1)
conv_fast (const __grid_constant__ Conv c)
{
  extern __shared__ __align__ (128) float shared[];
  __shared__ int4 origins[BM];
  int blocks_n = (c.co + BN - 1) / BN;
  int m0 = blockIdx.x / blocks_n * BM, n0 = blockIdx.x % blocks_n * BN;
  int warp = threadIdx.x / H3_WARP, lane = threadIdx.x % H3_WARP;
  int wm = warp & 1, wn = warp >> 1;
  unsigned base = (unsigned) __cvta_generic_to_shared (shared);
  Cursor at = { first_frame_tap (c, m0, m0 + BM - 1), 0, 0, 0 };
  int slabs = (c.kt - at.dt) * c.k * c.k * (c.ci / BK);
  float acc[4][4][4] = {};

  for (int i = threadIdx.x; i < BM; i += FAST_THREADS)
    origins[i] = origin (c, m0 + i);
  __syncthreads ();
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < slabs)
      load_slab (c, at, origins, base + s * STAGE_BYTES, n0);
    asm volatile ("cp.async.commit_group;");
  }
  for (int s = 0; s < slabs; s++) {
    int next = s + STAGES - 1;

    asm volatile ("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads ();
    if (next < slabs)
      load_slab (c, at, origins, base + next % STAGES * STAGE_BYTES, n0);
    asm volatile ("cp.async.commit_group;");
    add_slab (acc, base + s % STAGES * STAGE_BYTES, wm, wn);
  }

#pragma unroll
  for (int mt = 0; mt < 4; mt++)
#pragma unroll
    for (int nt = 0; nt < 4; nt++) {
      int m = m0 + wm * 64 + mt * 16 + lane / 4;
      int n = n0 + wn * 32 + nt * 8 + lane % 4 * 2;
      put_pair (c, m, n, acc[mt][nt][0], acc[mt][nt][1]);
      put_pair (c, m + 8, n, acc[mt][nt][2], acc[mt][nt][3]);
    }
}

template <int STAGES>
static cudaError_t
launch_stages (H3CudaStreamHandle stream, const Conv &c, gint64 blocks)
{
  int bytes = STAGES * STAGE_BYTES;

  if (cudaFuncSetAttribute (conv_fast<STAGES>,
          cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) {
    cudaGetLastError (); /* the GPU has not that much shared memory */
    return cudaErrorNotSupported;
  }
  conv_fast<STAGES><<<blocks, FAST_THREADS, bytes, stream>>> (c);
  return cudaGetLastError ();
}

static cudaError_t
launch_fast (H3CudaStreamHandle stream, const Conv &c)
{
  gint64 blocks = (gint64) blocks_for (c.pixels, BM) * blocks_for (c.co, BN);
  cudaError_t err;

  if (c.ci % BK || c.co % 2 || blocks > G_MAXINT || !aligned16 (c.x) ||
      !aligned16 (c.w) || !aligned16 (c.y) || !aligned16 (c.residual))
    return cudaErrorNotSupported;
  err = launch_stages<4> (stream, c, blocks);
  return err == cudaErrorNotSupported ? launch_stages<3> (stream, c, blocks)
                                      : err;
}

/* ---- any convolution: a thread has four pixels by four channels ---- */

#define ANY_TILE 64
#define ANY_TERMS 16
#define ANY_THREADS 256

__global__ void __launch_bounds__ (ANY_THREADS)
conv_any (const __grid_constant__ Conv c)
{
  __shared__ float xs[ANY_TERMS][ANY_TILE + 1], ws[ANY_TERMS][ANY_TILE + 1];
  __shared__ int4 origins[ANY_TILE];
  int blocks_n = (c.co + ANY_TILE - 1) / ANY_TILE;
  int m0 = blockIdx.x / blocks_n * ANY_TILE;
  int n0 = blockIdx.x % blocks_n * ANY_TILE;
  int tm = threadIdx.x / 16, tn = threadIdx.x % 16;
  int terms = c.kt * c.k * c.k * c.ci;
  int k0 = first_frame_tap (c, m0, m0 + ANY_TILE - 1) * c.k * c.k * c.ci;
  float acc[4][4] = {};

  for (int i = threadIdx.x; i < ANY_TILE; i += ANY_THREADS)
    origins[i] = origin (c, m0 + i);
  __syncthreads ();
  for (; k0 < terms; k0 += ANY_TERMS) {
    for (int i = threadIdx.x; i < ANY_TERMS * ANY_TILE; i += ANY_THREADS) {
      int k = k0 + i % ANY_TERMS, row = i / ANY_TERMS, tap = k / c.ci;
      gint64 from = k < terms ? source (c, origins[row], tap / (c.k * c.k),
          tap / c.k % c.k, tap % c.k) : -1;

      xs[i % ANY_TERMS][row] = from < 0 ? 0.0f : c.x[from + k % c.ci];
      ws[i % ANY_TERMS][row] = k < terms && n0 + row < c.co
          ? c.w[(gint64) (n0 + row) * terms + k] : 0.0f;
    }
    __syncthreads ();
#pragma unroll
    for (int k = 0; k < ANY_TERMS; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          acc[i][j] = fmaf (xs[k][tm + i * 16], ws[k][tn + j * 16], acc[i][j]);
    __syncthreads ();
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int m = m0 + tm + i * 16, n = n0 + tn + j * 16;
      gint64 at = (gint64) m * c.co + n;

      if (m >= c.pixels || n >= c.co)
        continue;
      float v = acc[i][j] + c.bias[n];
      c.y[at] = c.residual ? v + c.residual[at] : v;
    }
}

cudaError_t
h3_cuda_conv3d_any (H3CudaStreamHandle stream, const H3Conv3dArgs *a)
{
  const gint64 *x = a->x->shape, *y = a->y->shape;
  const gint64 *w = a->weight->tensor->shape;
  gint64 pixels = y[0] * y[1] * y[2] * y[3], blocks;
  Conv c = { (float *) a->y->data, (const float *) a->x->data,
    (const float *) a->weight->tensor->data, (const float *) a->bias->data,
    a->residual ? (const float *) a->residual->data : NULL, (int) x[1],
    (int) x[2], (int) x[3], (int) y[1], (int) y[2], (int) y[3], (int) x[4],
    (int) w[0], (int) w[1], (int) w[2], a->stride_t, a->stride, a->pad,
    (int) pixels };
  cudaError_t err;

  if (pixels * w[0] == 0)
    return cudaSuccess;
  /* pixels and terms of a sum are counted in int */
  if (pixels > G_MAXINT - BM || w[1] * w[2] * w[2] * w[4] > G_MAXINT - BK)
    return cudaErrorInvalidValue;
  err = launch_fast (stream, c);
  if (err != cudaErrorNotSupported)
    return err;
  blocks = (gint64) blocks_for (pixels, ANY_TILE) * blocks_for (w[0], ANY_TILE);
  if (blocks > G_MAXINT)
    return cudaErrorInvalidValue;
  conv_any<<<blocks, ANY_THREADS, 0, stream>>> (c);
  return cudaGetLastError ();
}
