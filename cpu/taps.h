/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The inner loops of both convolutions: sums of shifted rows. */
#pragma once

#include "cpu/vector.h"

/* Outputs of a block: a multiple of every tile's width below. */
#define H3_TAPS_BLOCK 96
#define H3_TAPS_ROWS 6

/**
 * H3Taps: out[r][n] = bias[r] + sum_{c, k} w[r, c, k] x[c][offset[k] + n]
 * summed over c, then k, one product at a time: an element's bytes do not
 * depend on its place in a tile or a block.
 * @x: row c starts at c * x_stride; a tile reads up to offset[k] + BLOCK - 1
 * @w: w[r, c, k] at r * w_row + c * w_channel + k * w_tap
 * @bias: of row 0, or NULL
 */
typedef struct {
  const gfloat *x;
  gint64 x_stride;
  const gfloat *w;
  gint64 w_row, w_channel, w_tap;
  const gfloat *bias;
  const gint64 *offset;
  gint64 channels, taps;
} H3Taps;

/* One tile of @rows x (@wide vectors), all sums in registers. */
static inline __attribute__ ((always_inline)) void
h3_taps_tile (const H3Taps *t, gint rows, gint wide, gint64 n,
    gfloat (*out)[H3_TAPS_BLOCK])
{
  H3Vector sum[12];

#pragma GCC unroll 6
  for (gint r = 0; r < rows; r++) {
    H3Vector zero = { 0 };
    H3Vector bias = t->bias ? zero + t->bias[r] : zero;
#pragma GCC unroll 12
    for (gint v = 0; v < wide; v++)
      sum[r * wide + v] = bias;
  }
  for (gint64 c = 0; c < t->channels; c++) {
    const gfloat *x = t->x + c * t->x_stride + n;
    const gfloat *w = t->w + c * t->w_channel;

    for (gint64 k = 0; k < t->taps; k++, w += t->w_tap) {
      const gfloat *at = x + t->offset[k];
#pragma GCC unroll 12
      for (gint v = 0; v < wide; v++) {
        H3Vector input = h3_vector_load (at + v * H3_LANES);
#pragma GCC unroll 6
        for (gint r = 0; r < rows; r++)
          sum[r * wide + v] =
              h3_vector_fma (w[r * t->w_row], input, sum[r * wide + v]);
      }
    }
  }
#pragma GCC unroll 6
  for (gint r = 0; r < rows; r++)
#pragma GCC unroll 12
    for (gint v = 0; v < wide; v++)
      h3_vector_store (&out[r][n + v * H3_LANES], sum[r * wide + v]);
}

#define H3_TAPS_SWEEP(rows, wide)                                              \
  for (gint64 i = 0; i < n; i += (wide) *H3_LANES)                             \
  h3_taps_tile (t, rows, wide, i, out)

/* The first @n outputs, and up to BLOCK - 1 more, of up to 6 rows; returns how
 * many rows it made of the @rows left. */
static inline gint
h3_taps_rows (const H3Taps *t, gint64 rows, gint64 n,
    gfloat (*out)[H3_TAPS_BLOCK])
{
  if (rows >= 6) {
    H3_TAPS_SWEEP (6, 2);
    return 6;
  }
  if (rows >= 4) {
    H3_TAPS_SWEEP (4, 3);
    return 4;
  }
  if (rows >= 2) {
    H3_TAPS_SWEEP (2, 6);
    return 2;
  }
  H3_TAPS_SWEEP (1, 12);
  return 1;
}
