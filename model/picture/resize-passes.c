/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The passes for every processor. */
#include "model/picture/resize-passes.h"

#define CHANNELS H3_RESIZE_CHANNELS

static inline guint8
clamp_pixel (gint32 sum, guint precision)
{
  return CLAMP (sum >> precision, 0, 255);
}

static void
rows (const H3ResizeAxis *axis, gint n_rows, guint8 *dst, gsize dst_stride,
    const guint8 *src, gsize src_stride, guint8 *scratch)
{
  const gint32 half = 1 << (axis->precision - 1);

  for (gint y = 0; y < n_rows; y++, dst += dst_stride, src += src_stride) {
    for (gint i = 0; i < axis->dst; i++) {
      const gint32 *w = axis->weight + (gsize) i * axis->taps;
      const guint8 *x = src + axis->first[i] * CHANNELS;
      gint32 r = half, g = half, b = half;

      for (gint j = 0; j < axis->count[i]; j++, x += CHANNELS) {
        r += w[j] * x[0];
        g += w[j] * x[1];
        b += w[j] * x[2];
      }
      dst[i * CHANNELS] = clamp_pixel (r, axis->precision);
      dst[i * CHANNELS + 1] = clamp_pixel (g, axis->precision);
      dst[i * CHANNELS + 2] = clamp_pixel (b, axis->precision);
    }
  }
}

/* Columns of an output row summed at a time. */
#define BLOCK 768

static void
columns (const H3ResizeAxis *axis, gint bytes, guint8 *dst, gsize dst_stride,
    const guint8 *src, gsize src_stride)
{
  gint32 sum[BLOCK];

  for (gint i = 0; i < axis->dst; i++, dst += dst_stride) {
    const gint32 *w = axis->weight + (gsize) i * axis->taps;

    for (gint at = 0; at < bytes; at += BLOCK) {
      const gint n = MIN (BLOCK, bytes - at);
      const guint8 *x = src + axis->first[i] * src_stride + at;

      for (gint k = 0; k < n; k++)
        sum[k] = 1 << (axis->precision - 1);
      for (gint j = 0; j < axis->count[i]; j++, x += src_stride) {
        for (gint k = 0; k < n; k++)
          sum[k] += w[j] * x[k];
      }
      for (gint k = 0; k < n; k++)
        dst[at + k] = clamp_pixel (sum[k], axis->precision);
    }
  }
}

const H3ResizePasses h3_resize_passes_baseline = { rows, columns };
