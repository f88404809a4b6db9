/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Encoded weights (checkpoints.md 5, 6.3) as numbers, some rows at a time. A
 * thread makes eight neighbours of each of four rows: they are of one block and of
 * one half of its bytes in every encoding. A warp makes 256. */
#include "cuda/kernel.cuh"

#define THREADS 128
#define COLS 8
#define ROWS 4
#define WARP_COLS (H3_WARP * COLS)

static_assert (THREADS * COLS == H3_MAX_ROTATION, "a block spans a rotation");

/* An H3Weight without host memory. */
struct Source {
  const guint8 *bytes;
  gint64 row_bytes;
  const float *scale;        /* [rows] */
  const guint8 *block_scale; /* [rows, row_blocks] */
  gint64 row_blocks;
  const float *column_scale; /* [cols] or NULL */
  gint64 rows;
  int cols;
  int rotation;
  H3DType type; /* of a plain one */
};

/* --- bytes of any alignment; the first is the lowest --- */

__device__ __forceinline__ unsigned
two_bytes (const guint8 *p)
{
  return (size_t) p & 1 ? p[0] | p[1] << 8 : *(const guint16 *) p;
}

__device__ __forceinline__ unsigned
four_bytes (const guint8 *p)
{
  return (size_t) p & 3 ? two_bytes (p) | two_bytes (p + 2) << 16
                        : *(const unsigned *) p;
}

__device__ __forceinline__ uint2
eight_bytes (const guint8 *p)
{
  if ((size_t) p & 7)
    return make_uint2 (four_bytes (p), four_bytes (p + 4));
  return *(const uint2 *) p;
}

/* The first @n of eight; the others are 0. */
__device__ __forceinline__ uint2
some_bytes (const guint8 *p, int n)
{
  unsigned w[2] = { 0, 0 };

  if (n == COLS)
    return eight_bytes (p);
#pragma unroll
  for (int i = 0; i < COLS; i++)
    if (i < n)
      w[i / 4] |= p[i] << 8 * (i % 4);
  return make_uint2 (w[0], w[1]);
}

__device__ __forceinline__ unsigned
byte_of (uint2 w, int i)
{
  return ((i < 4 ? w.x : w.y) >> 8 * (i % 4)) & 255;
}

/* --- element codes: a code's fields at float's place are the number but for a
 * power of 2, subnormal or not --- */

__device__ __forceinline__ float
e4m3 (unsigned code)
{
  unsigned bits = (code & 0x80) << 24 | (code & 0x7f) << 20;

  return (code & 0x7f) == 0x7f ? NAN : __uint_as_float (bits) * 0x1p120f;
}

__device__ __forceinline__ float
e5m2 (unsigned code)
{
  unsigned bits = (code & 0x80) << 24 | (code & 0x7f) << 21;

  return (code & 0x7c) == 0x7c ? NAN : __uint_as_float (bits) * 0x1p112f;
}

__device__ __forceinline__ float
e2m1 (unsigned code)
{
  unsigned bits = (code & 8) << 28 | (code & 7) << 22;

  return __uint_as_float (bits) * 0x1p126f;
}

/* A scale without its sign; 0x7f is 0. */
__device__ __forceinline__ float
ue4m3 (unsigned code)
{
  code &= 0x7f;
  return code == 0x7f ? 0.0f : __uint_as_float (code << 20) * 0x1p120f;
}

/* One line of the cache. */
__device__ const gint8 nl_values[16] = { -127, -104, -83, -65, -49, -35, -22,
  -10, 1, 13, 25, 38, 53, 69, 89, 113 };

/* --- encodings: an object has read what eight numbers of a row take, from column
 * @col on, a multiple of 8, of which @n are there; [i] is number i, but for
 * rotation and column scale. Reading comes first, for many rows, and arithmetic
 * later: a thread waits for memory once --- */

struct Plain {
  float v[COLS];

  __device__ __forceinline__
  Plain (const Source &s, gint64 row, int col, int n)
  {
    gint64 at = row * s.cols + col;

    if (n == COLS && s.cols % COLS == 0 && ((size_t) s.bytes & 15) == 0)
      load_any<true> (s.bytes, s.type, at, n, v);
    else
      load_any<false> (s.bytes, s.type, at, n, v);
  }
  __device__ __forceinline__ float operator[] (int i) const { return v[i]; }
};

/* A byte each, and the row's scale. */
struct Bytes {
  uint2 q;
  float scale;

  __device__ __forceinline__
  Bytes (const Source &s, gint64 row, int col, int n)
      : q (some_bytes (s.bytes + row * s.row_bytes + col, n)),
        scale (s.scale[row])
  {
  }
};

struct E4m3 : Bytes {
  using Bytes::Bytes;
  __device__ __forceinline__ float operator[] (int i) const
  {
    return e4m3 (byte_of (q, i)) * scale;
  }
};

struct E5m2 : Bytes {
  using Bytes::Bytes;
  __device__ __forceinline__ float operator[] (int i) const
  {
    return e5m2 (byte_of (q, i)) * scale;
  }
};

struct Int8 : Bytes {
  using Bytes::Bytes;
  __device__ __forceinline__ float operator[] (int i) const
  {
    return (gint8) byte_of (q, i) * scale;
  }
};

/* The even column is in the high nibble. */
struct Nvfp4 {
  unsigned q, block_scale;
  float scale;

  __device__ __forceinline__
  Nvfp4 (const Source &s, gint64 row, int col, int n)
      : q (four_bytes (s.bytes + row * s.row_bytes + col / 2)),
        block_scale (s.block_scale[row * s.row_blocks + col / 16]),
        scale (s.scale[row])
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return e2m1 (q >> (8 * (i / 2) + (i % 2 ? 0 : 4)) & 15) *
        (e4m3 (block_scale) * scale);
  }
};

struct Mxfp8 {
  uint2 q;
  unsigned exponent;

  __device__ __forceinline__
  Mxfp8 (const Source &s, gint64 row, int col, int n)
      : q (eight_bytes (s.bytes + row * s.row_bytes + col)),
        exponent (s.block_scale[row * s.row_blocks + col / 32])
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return e4m3 (byte_of (q, i)) *
        (exponent == 255 ? NAN : __uint_as_float (exponent << 23));
  }
};

/* --- GGUF's blocks: @b is the block's bytes, @e the first element in it --- */

template <typename Block>
struct Blocks : Block {
  __device__ __forceinline__
  Blocks (const Source &s, gint64 row, int col, int n)
      : Block (s.bytes + row * s.row_bytes + col / Block::n * Block::bytes,
            col % Block::n)
  {
  }
};

/* A half's bits as a number. */
__device__ __forceinline__ float
half_of (unsigned bits)
{
  return __half2float (__ushort_as_half ((unsigned short) bits));
}

/* Eight codes of a block of 32, whose low nibbles are the first 16. */
struct Nibbles {
  uint2 w;
  int shift;

  __device__ __forceinline__
  Nibbles (const guint8 *qs, int e)
      : w (eight_bytes (qs + e % 16)), shift (e < 16 ? 0 : 4)
  {
  }
  __device__ __forceinline__ int operator[] (int i) const
  {
    return byte_of (w, i) >> shift & 15;
  }
};

struct Q8_0 {
  enum { n = 32, bytes = 34 };
  unsigned d;
  uint2 q;

  __device__ __forceinline__
  Q8_0 (const guint8 *b, int e) : d (two_bytes (b)), q (eight_bytes (b + 2 + e))
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return half_of (d) * (gint8) byte_of (q, i);
  }
};

struct Q4_0 {
  enum { n = 32, bytes = 18 };
  unsigned d;
  Nibbles q;

  __device__ __forceinline__
  Q4_0 (const guint8 *b, int e) : d (two_bytes (b)), q (b + 2, e)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return (q[i] - 8) * half_of (d);
  }
};

struct Q4_1 {
  enum { n = 32, bytes = 20 };
  unsigned d, m;
  Nibbles q;

  __device__ __forceinline__
  Q4_1 (const guint8 *b, int e)
      : d (two_bytes (b)), m (two_bytes (b + 2)), q (b + 4, e)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return q[i] * half_of (d) + half_of (m);
  }
};

struct Q5_0 {
  enum { n = 32, bytes = 22 };
  unsigned d, high;
  Nibbles q;

  __device__ __forceinline__
  Q5_0 (const guint8 *b, int e)
      : d (two_bytes (b)), high (four_bytes (b + 2) >> e), q (b + 6, e)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return ((int) (q[i] | (high >> i & 1) << 4) - 16) * half_of (d);
  }
};

struct Q5_1 {
  enum { n = 32, bytes = 24 };
  unsigned d, m, high;
  Nibbles q;

  __device__ __forceinline__
  Q5_1 (const guint8 *b, int e)
      : d (two_bytes (b)), m (two_bytes (b + 2)),
        high (four_bytes (b + 4) >> e), q (b + 8, e)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return (q[i] | (high >> i & 1) << 4) * half_of (d) + half_of (m);
  }
};

struct Iq4Nl {
  enum { n = 32, bytes = 18 };
  unsigned d;
  Nibbles q;

  __device__ __forceinline__
  Iq4Nl (const guint8 *b, int e) : d (two_bytes (b)), q (b + 2, e)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return half_of (d) * nl_values[q[i]];
  }
};

/* The scale is 2^(exponent - 127); 0 is subnormal. */
struct Mxfp4 {
  enum { n = 32, bytes = 17 };
  unsigned exponent;
  Nibbles q;

  __device__ __forceinline__
  Mxfp4 (const guint8 *b, int e) : exponent (b[0]), q (b + 1, e)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    float d = exponent == 255 ? NAN
        : exponent == 0       ? 0x1p-127f
                              : __uint_as_float (exponent << 23);

    return d * e2m1 (q[i]);
  }
};

/* Four sub-blocks of 16, with a scale and 8 bytes each. */
struct GgufNvfp4 {
  enum { n = 64, bytes = 36 };
  unsigned d;
  uint2 q;
  int shift;

  __device__ __forceinline__
  GgufNvfp4 (const guint8 *b, int e)
      : d (b[e / 16]), q (eight_bytes (b + 4 + e / 16 * 8)),
        shift (e % 16 ? 4 : 0)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    return ue4m3 (d) * e2m1 (byte_of (q, i) >> shift & 15);
  }
};

/* 256 elements: e = 128 h + 32 j + p */

struct Q2K {
  enum { n = 256, bytes = 84 };
  unsigned sc, d, dmin;
  uint2 q;
  int shift;

  __device__ __forceinline__
  Q2K (const guint8 *b, int e)
      : sc (b[e / 16]), d (two_bytes (b + 80)), dmin (two_bytes (b + 82)),
        q (eight_bytes (b + 16 + e / 128 * 32 + e % 32)),
        shift (e % 128 / 32 * 2)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    float scale = half_of (d) * (sc & 15), minimum = half_of (dmin) * (sc >> 4);

    return scale * (byte_of (q, i) >> shift & 3) - minimum;
  }
};

struct Q3K {
  enum { n = 256, bytes = 110 };
  unsigned low, high, d;
  uint2 q, mask;
  int g; /* of 16 */

  __device__ __forceinline__
  Q3K (const guint8 *b, int e)
      : low (b[96 + e / 16 % 8]), high (b[96 + 8 + e / 16 % 4]),
        d (two_bytes (b + 108)),
        q (eight_bytes (b + 32 + e / 128 * 32 + e % 32)),
        mask (eight_bytes (b + e % 32)), g (e / 16)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    unsigned code = (low >> (g < 8 ? 0 : 4) & 15) | (high >> g / 4 * 2 & 3) << 4;
    int two = byte_of (q, i) >> g % 8 / 2 * 2 & 3;

    return half_of (d) * ((int) code - 32) *
        (two - (byte_of (mask, i) >> g / 2 & 1 ? 0 : 4));
  }
};

/* FIFTH: 32 bytes of fifth bits come before the nibbles. Scale and minimum j of 8
 * have 6 bits each: those of the last four are in two places. */
template <bool FIFTH>
struct Q45K {
  enum { n = 256, bytes = FIFTH ? 176 : 144 };
  unsigned halves, s0, s4, s8;
  uint2 q, high;
  int g; /* of 32 */

  __device__ __forceinline__
  Q45K (const guint8 *b, int e)
      : halves (four_bytes (b)), s0 (b[4 + e / 32 % 4]),
        s4 (b[4 + 4 + e / 32 % 4]), s8 (b[4 + 8 + e / 32 % 4]),
        q (eight_bytes (b + (FIFTH ? 48 : 16) + e / 64 * 32 + e % 32)),
        high (FIFTH ? eight_bytes (b + 16 + e % 32) : make_uint2 (0, 0)),
        g (e / 32)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    unsigned sc = g < 4 ? s0 & 63 : (s8 & 15) | s0 >> 6 << 4;
    unsigned mn = g < 4 ? s4 & 63 : s8 >> 4 | s4 >> 6 << 4;
    float scale = half_of (halves & 0xffff) * sc;
    float minimum = half_of (halves >> 16) * mn;
    unsigned code = byte_of (q, i) >> (g % 2 ? 4 : 0) & 15;

    if (FIFTH)
      code += (byte_of (high, i) >> g & 1) << 4;
    return scale * code - minimum;
  }
};

struct Q6K {
  enum { n = 256, bytes = 210 };
  unsigned sc, d;
  uint2 low, high;
  int j;

  __device__ __forceinline__
  Q6K (const guint8 *b, int e)
      : sc (b[192 + e / 16]), d (two_bytes (b + 208)),
        low (eight_bytes (b + e / 128 * 64 + e % 64)),
        high (eight_bytes (b + 128 + e / 128 * 32 + e % 32)), j (e % 128 / 32)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    unsigned code = (byte_of (low, i) >> (j < 2 ? 0 : 4) & 15) |
        (byte_of (high, i) >> 2 * j & 3) << 4;

    return half_of (d) * (gint8) sc * ((int) code - 32);
  }
};

struct Iq4Xs {
  enum { n = 256, bytes = 136 };
  unsigned d, high, low;
  Nibbles q;
  int g; /* of 32 */

  __device__ __forceinline__
  Iq4Xs (const guint8 *b, int e)
      : d (two_bytes (b)), high (two_bytes (b + 2)), low (b[4 + e / 64]),
        q (b + 8 + e / 32 * 16, e % 32), g (e / 32)
  {
  }
  __device__ __forceinline__ float operator[] (int i) const
  {
    unsigned code = (low >> 4 * (g % 2) & 15) | (high >> 2 * g & 3) << 4;

    return half_of (d) * ((int) code - 32) * nl_values[q[i]];
  }
};

/* --- v = v H_G over G neighbours --- */

/* One factor H4 / 2 over four: y_j = (a + b + c + d) / 2 - x_(3 - j) */
__device__ __forceinline__ void
rotate4 (float *x)
{
  float half = 0.5f * (x[0] + x[1] + x[2] + x[3]);
  float y[4] = { half - x[3], half - x[2], half - x[1], half - x[0] };

#pragma unroll
  for (int i = 0; i < 4; i++)
    x[i] = y[i];
}

/* The block's 1024 columns, eight a thread; every thread calls it. */
__device__ __forceinline__ void
rotate (float *v, int g)
{
  __shared__ float row[H3_MAX_ROTATION];

  rotate4 (v);
  rotate4 (v + 4);
  if (g >= 16) /* four quarters of 4: two here, two in the neighbour */
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float low = __shfl_xor_sync (~0u, v[i], 1);
      float high = __shfl_xor_sync (~0u, v[i + 4], 1);
      float half = 0.5f * ((v[i] + v[i + 4]) + (low + high));
      v[i] = half - high;
      v[i + 4] = half - low;
    }
#pragma unroll
  for (int lane = 2; lane <= 8; lane *= 4) /* steps of 16 and 64 columns */
    if (g > 8 * lane)
#pragma unroll
      for (int i = 0; i < COLS; i++) {
        float opposite = __shfl_xor_sync (~0u, v[i], 3 * lane);
        float sum = v[i] + __shfl_xor_sync (~0u, v[i], lane);
        sum += __shfl_xor_sync (~0u, sum, 2 * lane);
        v[i] = 0.5f * sum - opposite;
      }
  if (g <= WARP_COLS)
    return;
  __syncthreads (); /* the last row's have been read */
  float *to = row + threadIdx.x * COLS;
#pragma unroll
  for (int i = 0; i < COLS; i++)
    to[i] = v[i];
  __syncthreads ();
  const float *from = row + threadIdx.x % H3_WARP * COLS;
  int j = threadIdx.x / H3_WARP;
#pragma unroll
  for (int i = 0; i < COLS; i++) {
    float sum = (from[i] + from[WARP_COLS + i]) +
        (from[2 * WARP_COLS + i] + from[3 * WARP_COLS + i]);
    v[i] = 0.5f * sum - from[(3 - j) * WARP_COLS + i];
  }
}

/* --- the kernel --- */

template <bool WHOLE>
__device__ __forceinline__ void
store_any (void *y, H3DType type, gint64 at, int n, const float *v)
{
  if (type == H3_DTYPE_BF16)
    store_part<WHOLE> ((bf16 *) y + at, n, v);
  else if (type == H3_DTYPE_F16)
    store_part<WHOLE> ((__half *) y + at, n, v);
  else
    store_part<WHOLE> ((float *) y + at, n, v);
}

/* @chunks: warps for ROWS rows */
template <typename Code, bool ROTATED>
__global__ void __launch_bounds__ (THREADS)
decode (const __grid_constant__ Source s, void *y, H3DType y_type, bool fast,
    gint64 first, const gint32 *ids, unsigned n, unsigned chunks)
{
  unsigned warp = blockIdx.x * (THREADS / H3_WARP) + threadIdx.x / H3_WARP;
  unsigned to = warp / chunks * ROWS;
  int col = warp % chunks * WARP_COLS + threadIdx.x % H3_WARP * COLS;
  bool inside = col < s.cols;
  gint64 row[ROWS];
  float factor[COLS];

  if (!inside)
    col = 0;
  int left = min (COLS, s.cols - col);
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    row[r] = to + r >= n ? -1 : ids ? ids[to + r] - first : first + to + r;
    if (row[r] >= s.rows)
      row[r] = -1;
  }
#define READ(r) { s, max (row[r], (gint64) 0), col, left }
  const Code code[ROWS] = { READ (0), READ (1), READ (2), READ (3) };
#undef READ
  if (s.column_scale)
    load_n (s.column_scale + col, left, factor);
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float v[COLS];
#pragma unroll
    for (int i = 0; i < COLS; i++)
      v[i] = code[r][i];
    if (ROTATED)
      rotate (v, s.rotation);
    if (s.column_scale)
#pragma unroll
      for (int i = 0; i < COLS; i++)
        v[i] *= factor[i];
    if (!inside || row[r] < 0)
      continue;
    gint64 at = (gint64) (to + r) * s.cols + col;
    if (fast)
      store_any<true> (y, y_type, at, left, v);
    else
      store_any<false> (y, y_type, at, left, v);
  }
}

template <typename Code, bool ROTATED>
static cudaError_t
launch (H3CudaStreamHandle stream, const Source &s, gpointer y, H3DType y_type,
    gint64 first, const gint32 *ids, gint64 n)
{
  gint64 chunks = (s.cols + WARP_COLS - 1) / WARP_COLS;
  gint64 warps = (n + ROWS - 1) / ROWS * chunks;

  if (n == 0 || s.cols == 0 || s.rows == 0)
    return cudaSuccess;
  if (warps > G_MAXINT || n > G_MAXINT)
    return cudaErrorInvalidConfiguration;
  decode<Code, ROTATED><<<blocks_for (warps, THREADS / H3_WARP), THREADS, 0,
      stream>>> (s, y, y_type, whole (s.cols, y), first, ids, n, chunks);
  return cudaGetLastError ();
}

#define CASE(encoding, ...) \
  case H3_ENCODING_##encoding: \
    return launch<__VA_ARGS__, false> (stream, s, y, y_type, first, ids, n)

cudaError_t
h3_cuda_decode (H3CudaStreamHandle stream, H3DType y_type, gpointer y,
    const H3Weight *weight, gint64 first, const gint32 *ids, gint64 n)
{
  const H3Tensor *scale = weight->scale, *blocks = weight->block_scale;
  const H3Tensor *columns = weight->column_scale;
  Source s = {};

  if (weight->cols > G_MAXINT / 2)
    return cudaErrorInvalidConfiguration;
  s.bytes = (const guint8 *) weight->tensor->data;
  s.row_bytes = weight->encoding == H3_ENCODING_PLAIN
      ? 0
      : h3_encoding_row_bytes (weight->encoding, weight->cols);
  s.scale = scale ? (const float *) scale->data : NULL;
  s.block_scale = blocks ? (const guint8 *) blocks->data : NULL;
  s.row_blocks = blocks ? h3_tensor_cols (blocks) : 0;
  s.column_scale = columns ? (const float *) columns->data : NULL;
  s.rows = weight->rows;
  s.cols = (int) weight->cols;
  s.rotation = (int) weight->rotation;
  s.type = weight->tensor->dtype;
  switch (weight->encoding) {
    CASE (PLAIN, Plain);
    CASE (E4M3, E4m3);
    CASE (E5M2, E5m2);
    case H3_ENCODING_INT8:
      if (weight->rotation > 1)
        return launch<Int8, true> (stream, s, y, y_type, first, ids, n);
      return launch<Int8, false> (stream, s, y, y_type, first, ids, n);
    CASE (NVFP4, Nvfp4);
    CASE (MXFP8, Mxfp8);
    CASE (Q4_0, Blocks<Q4_0>);
    CASE (Q4_1, Blocks<Q4_1>);
    CASE (Q5_0, Blocks<Q5_0>);
    CASE (Q5_1, Blocks<Q5_1>);
    CASE (Q8_0, Blocks<Q8_0>);
    CASE (Q2_K, Blocks<Q2K>);
    CASE (Q3_K, Blocks<Q3K>);
    CASE (Q4_K, Blocks<Q45K<false>>);
    CASE (Q5_K, Blocks<Q45K<true>>);
    CASE (Q6_K, Blocks<Q6K>);
    CASE (IQ4_NL, Blocks<Iq4Nl>);
    CASE (IQ4_XS, Blocks<Iq4Xs>);
    CASE (MXFP4, Blocks<Mxfp4>);
    CASE (GGUF_NVFP4, Blocks<GgufNvfp4>);
    default:
      return cudaErrorInvalidValue;
  }
}

__global__ void
check_rows (const gint32 *ids, gint64 n, gint64 rows, gint32 *bad_row)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i < n && (ids[i] < 0 || ids[i] >= rows))
    atomicExch (bad_row, 1);
}

cudaError_t
h3_cuda_check_rows (H3CudaStreamHandle stream, const gint32 *ids, gint64 n,
    gint64 rows, gint32 *bad_row)
{
  if (n == 0)
    return cudaSuccess;
  check_rows<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (ids, n, rows,
      bad_row);
  return cudaGetLastError ();
}
