/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Resizing RGB pictures exactly as the reference does, whose pixels the model's
 * weights were trained on and the golden data hold (text-encoder.md 4.1, 4.2). */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

/* Sides a picture can have here. */
#define H3_PICTURE_MAX_SIDE 65536

typedef enum {
  /* Keyframes and references to their canvas: PIL's Image.resize (LANCZOS). */
  H3_RESIZE_LANCZOS,
  /* Canvases to the vision tower's patch grid: torchvision's resize (BICUBIC,
   * antialias) of a uint8 tensor. */
  H3_RESIZE_BICUBIC,
} H3ResizeFilter;

/**
 * H3Resizer:
 *
 * One size to one other: a horizontal pass whose result is rounded to 8 bits,
 * then a vertical one; a pass that would not change its axis is left out, so
 * equal sizes copy. For an output pixel at i of n, from m input pixels:
 *
 *   c = (i + 1/2) m / n,  s = max (1, m / n),  the filter's support r
 *   taps j = floor (c - r s + 1/2) .. floor (c + r s + 1/2) - 1, inside the input
 *   w_j = f ((j + 1/2 - c) / s) / sum,  in float64
 *   y = clamp ((2^(p-1) + sum_j round (w_j 2^p) x_j) >> p, 0, 255)
 *
 * LANCZOS: r = 3, p = 22. BICUBIC: Keys' kernel with a = -1/2, r = 2, and the
 * largest p up to 22 with which every weight of the axis fits into int16.
 *
 * Used by one thread at a time.
 */
typedef struct _H3Resizer H3Resizer;

/**
 * h3_resizer_new:
 *
 * Sides from 1 to H3_PICTURE_MAX_SIDE, else H3_ERROR_FORMAT; no memory for the
 * weights and the rows between the passes is H3_ERROR_NO_SPACE.
 */
H3Resizer *h3_resizer_new (H3ResizeFilter filter, gint src_width,
    gint src_height, gint dst_width, gint dst_height, GError **error);
void h3_resizer_free (H3Resizer *resizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Resizer, h3_resizer_free)

/**
 * h3_resizer_run:
 * @dst, @src: RGB, 8 bits, of the resizer's sizes; may not overlap
 * @dst_stride, @src_stride: bytes from one row to the next
 */
void h3_resizer_run (H3Resizer *resizer, guint8 *dst, gsize dst_stride,
    const guint8 *src, gsize src_stride);

/**
 * h3_resize:
 *
 * One picture: a resizer made, run and freed. @dst and @src have no gaps between
 * their rows.
 */
gboolean h3_resize (H3ResizeFilter filter, guint8 *dst, gint dst_width,
    gint dst_height, const guint8 *src, gint src_width, gint src_height,
    GError **error);

G_END_DECLS
