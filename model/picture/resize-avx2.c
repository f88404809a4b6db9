/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The passes for processors with AVX2: 48 bytes side by side are summed in
 * registers, those of a row or a pixel's channels in 16 rows. */
#include <immintrin.h>
#include <string.h>

#include "model/picture/resize-passes.h"

#define BLOCK 48
#define ROWS 16
#define LANES 8

/* Eight sums to bytes: clamp (sum >> p, 0, 255). */
static inline void
put (guint8 *y, __m256i sum, __m128i precision)
{
  const __m256i s = _mm256_sra_epi32 (sum, precision);
  const __m128i pair = _mm_packs_epi32 (_mm256_castsi256_si128 (s),
      _mm256_extracti128_si256 (s, 1));

  _mm_storel_epi64 ((__m128i *) y, _mm_packus_epi16 (pair, pair));
}

/* y[k] = clamp ((2^(p-1) + sum_j w[j] x[j stride + k]) >> p, 0, 255) */
static inline void
sum_block (guint8 *y, const gint32 *w, gint n, const guint8 *x, gsize stride,
    guint precision)
{
  const __m128i p = _mm_cvtsi32_si128 (precision);
  __m256i sum[BLOCK / LANES];

#pragma GCC unroll 6
  for (gint v = 0; v < BLOCK / LANES; v++)
    sum[v] = _mm256_set1_epi32 (1 << (precision - 1));
  for (gint j = 0; j < n; j++, x += stride) {
    const __m256i weight = _mm256_set1_epi32 (w[j]);

#pragma GCC unroll 6
    for (gint v = 0; v < BLOCK / LANES; v++) {
      const __m256i value = _mm256_cvtepu8_epi32 (
          _mm_loadl_epi64 ((const __m128i *) (x + v * LANES)));

      sum[v] = _mm256_add_epi32 (sum[v], _mm256_mullo_epi32 (weight, value));
    }
  }
#pragma GCC unroll 6
  for (gint v = 0; v < BLOCK / LANES; v++)
    put (y + v * LANES, sum[v], p);
}

static void
columns (const H3ResizeAxis *axis, gint bytes, guint8 *dst, gsize dst_stride,
    const guint8 *src, gsize src_stride)
{
  const gint whole = bytes / BLOCK * BLOCK;

  for (gint i = 0; i < axis->dst; i++) {
    const gint32 *w = axis->weight + (gsize) i * axis->taps;
    const guint8 *x = src + axis->first[i] * src_stride;

    for (gint at = 0; at < whole; at += BLOCK)
      sum_block (dst + i * dst_stride + at, w, axis->count[i], x + at,
          src_stride, axis->precision);
  }
  if (whole < bytes)
    h3_resize_passes_baseline.columns (axis, bytes - whole, dst + whole,
        dst_stride, src + whole, src_stride);
}

/* --- rows --- */

/* 16 x 16 bytes with lines and columns exchanged: each round shuffles the bytes
 * of all lines like a pack of cards, and after four of them they are sorted.
 * @n bytes of @rows lines are read; what is missing is 0. */
static inline void
load_turned (__m128i line[ROWS], const guint8 *src, gsize stride, gint rows,
    gint n)
{
  __m128i next[ROWS];

#pragma GCC unroll 16
  for (gint y = 0; y < ROWS; y++) {
    line[y] = _mm_setzero_si128 ();
    if (y < rows)
      memcpy (&line[y], src + y * stride, n);
  }
#pragma GCC unroll 4
  for (gint round = 0; round < 4; round++) {
#pragma GCC unroll 8
    for (gint y = 0; y < ROWS / 2; y++) {
      next[2 * y] = _mm_unpacklo_epi8 (line[y], line[y + ROWS / 2]);
      next[2 * y + 1] = _mm_unpackhi_epi8 (line[y], line[y + ROWS / 2]);
    }
#pragma GCC unroll 16
    for (gint y = 0; y < ROWS; y++)
      line[y] = next[y];
  }
}

/* @rows rows of @bytes bytes to @bytes lines of 16. */
static void
turn_in (guint8 *dst, const guint8 *src, gsize stride, gint rows, gint bytes)
{
  __m128i line[ROWS];

  for (gint at = 0; at < bytes; at += ROWS) {
    if (rows == ROWS && at + ROWS <= bytes)
      load_turned (line, src + at, stride, ROWS, ROWS);
    else
      load_turned (line, src + at, stride, rows, MIN (ROWS, bytes - at));
    memcpy (dst + (gsize) at * ROWS, line, sizeof line);
  }
}

/* And back, at most a block. */
static void
turn_out (guint8 *dst, gsize stride, const guint8 *src, gint rows, gint bytes)
{
  __m128i line[ROWS];

  for (gint at = 0; at < bytes; at += ROWS) {
    const gint n = MIN (ROWS, bytes - at);

    load_turned (line, src + at * ROWS, ROWS, ROWS, ROWS);
    if (n == ROWS)
      for (gint y = 0; y < rows; y++)
        memcpy (dst + y * stride + at, &line[y], ROWS);
    else
      for (gint y = 0; y < rows; y++)
        memcpy (dst + y * stride + at, &line[y], n);
  }
}

/* 16 rows turned: a pixel's neighbour is BLOCK bytes away. */
static void
rows (const H3ResizeAxis *axis, gint n_rows, guint8 *dst, gsize dst_stride,
    const guint8 *src, gsize src_stride, guint8 *turned)
{
  guint8 pixels[ROWS * BLOCK];

  for (gint y = 0; y < n_rows; y += ROWS) {
    const gint n = MIN (ROWS, n_rows - y);

    turn_in (turned, src + y * src_stride, src_stride, n,
        axis->src * H3_RESIZE_CHANNELS);
    for (gint x = 0; x < axis->dst; x += ROWS) {
      const gint m = MIN (ROWS, axis->dst - x);

      for (gint i = x; i < x + m; i++)
        sum_block (pixels + (i - x) * BLOCK,
            axis->weight + (gsize) i * axis->taps, axis->count[i],
            turned + (gsize) axis->first[i] * BLOCK, BLOCK, axis->precision);
      turn_out (dst + y * dst_stride + x * H3_RESIZE_CHANNELS, dst_stride,
          pixels, n, m * H3_RESIZE_CHANNELS);
    }
  }
}

const H3ResizePasses h3_resize_passes_avx2 = { rows, columns };
