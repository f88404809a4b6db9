/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The two passes of a resizer: sums of 8-bit values times fixed-point weights. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Bytes of a pixel. */
#define H3_RESIZE_CHANNELS 3

/**
 * H3ResizeAxis: the weights of one axis
 * @taps: room for the weights of an output pixel
 * @weight: [dst][taps], times 2^precision; of a pixel at most 2 in sum of
 *   magnitudes (1.55 at an edge), so that a sum of products stays below 2^31
 * @first: [dst] the first input pixel
 * @count: [dst] how many
 */
typedef struct {
  gint src, dst;
  gint taps;
  guint precision;
  gint32 *weight;
  gint *first;
  gint *count;
} H3ResizeAxis;

/* One table per instruction set; their results are the same bytes. */
typedef struct {
  /* @rows rows from axis->src pixels to axis->dst; @scratch:
   * H3_RESIZE_SCRATCH_BYTES(). */
  void (*rows) (const H3ResizeAxis *axis, gint rows, guint8 *dst,
      gsize dst_stride, const guint8 *src, gsize src_stride, guint8 *scratch);
  /* From axis->src rows of @bytes bytes to axis->dst. */
  void (*columns) (const H3ResizeAxis *axis, gint bytes, guint8 *dst,
      gsize dst_stride, const guint8 *src, gsize src_stride);
} H3ResizePasses;

/* Of the horizontal pass, for @width input pixels. */
#define H3_RESIZE_SCRATCH_BYTES(width)                                         \
  (16 * ((gsize) (width) *H3_RESIZE_CHANNELS + 16))

extern const H3ResizePasses h3_resize_passes_baseline;
extern const H3ResizePasses h3_resize_passes_avx2;

G_END_DECLS
