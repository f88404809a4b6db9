/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Network pixels to pictures (video-vae.md 4.1, 11), two rows at a time: one of
 * 4:2:0 chroma. */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

/* BT.709: luma weights, and what scales B - Y and R - Y to -0.5 .. 0.5. */
#define KR 0.2126f
#define KG 0.7152f
#define KB 0.0722f
#define CB_SCALE (1 / 1.8556f)
#define CR_SCALE (1 / 1.5748f)

/* Row @y as R, G and B in 0 .. 1, one after the other. NaN compares false and
 * becomes 0. */
static void
unit_row (const H3EmitPictureArgs *a, gint y, gfloat *out)
{
  const gint64 *shape = a->pixels->shape;
  gint64 width = shape[3];

  for (gint c = 0; c < 3; c++, out += width) {
    const gfloat *p = (const gfloat *) a->pixels->data +
                      ((c * shape[1] + a->frame) * shape[2] + y) * width;
    gfloat mean = a->mean[c], std = a->std[c];

    for (gint64 x = 0; x < width; x++) {
      gfloat v = p[x] * std + mean;

      v = v > 0 ? v : 0;
      out[x] = v < 1 ? v : 1;
    }
  }
}

/* R, G, B to Y, Cb, Cr codes, not yet rounded, in place. */
static void
yuv_row (gfloat *row, gint64 width)
{
  gfloat *restrict r = row, *restrict g = row + width,
                   *restrict b = row + 2 * width;

  for (gint64 x = 0; x < width; x++) {
    gfloat luma = KR * r[x] + KG * g[x] + KB * b[x];
    gfloat cb = (b[x] - luma) * CB_SCALE, cr = (r[x] - luma) * CR_SCALE;

    r[x] = 16 + 219 * luma;
    g[x] = 128 + 224 * cb;
    b[x] = 128 + 224 * cr;
  }
}

/* 4:2:0, sited left: 1-2-1 about the even column, the mean of two rows; edges
 * repeat. Into the first half of @top. */
static void
halve (gfloat *top, const gfloat *bottom, gint width)
{
  for (gint x = 0; x < width; x += 2) {
    gint left = MAX (x - 1, 0), right = MIN (x + 1, width - 1);

    top[x / 2] = (top[left] + 2 * top[x] + top[right] + bottom[left] +
                     2 * bottom[x] + bottom[right]) /
                 8;
  }
}

/* @n codes to every @step th byte. Codes of values in 0 .. 1 are in 0 .. 255;
 * adding 2^23 leaves a rounded integer, ties to even, in the low bits. */
static void
put (guint8 *out, gint step, const gfloat *code, gint n, gfloat gain,
    H3Quantize how)
{
  if (how == H3_QUANTIZE_ROUND)
    for (gint i = 0; i < n; i++)
      out[i * step] = h3_float_bits (gain * code[i] + 8388608.0f);
  else
    for (gint i = 0; i < n; i++)
      out[i * step] = (gint) (gain * code[i]);
}

static guint8 *
line (const H3Picture *picture, gint plane, gint y)
{
  return (guint8 *) picture->plane[plane] + (gsize) y * picture->stride[plane];
}

static void
rgb_row (const H3EmitPictureArgs *a, gint y, gfloat *row)
{
  gint width = a->picture.width;
  gint step = a->picture.format == H3_PICTURE_RGBA ? 4 : 3;
  guint8 *out = line (&a->picture, 0, y);

  unit_row (a, y, row);
  for (gint c = 0; c < 3; c++)
    put (out + c, step, row + (gsize) c * width, width, 255, a->quantize);
  if (step == 4)
    for (gint x = 0; x < width; x++)
      out[4 * x + 3] = 255;
}

static void
luma_row (const H3EmitPictureArgs *a, gint y, gfloat *row)
{
  unit_row (a, y, row);
  yuv_row (row, a->picture.width);
  put (line (&a->picture, 0, y), 1, row, a->picture.width, 1, a->quantize);
}

static void
full_chroma_row (const H3EmitPictureArgs *a, gint y, const gfloat *row)
{
  for (gint c = 1; c < 3; c++)
    put (line (&a->picture, c, y), 1, row + (gsize) c * a->picture.width,
        a->picture.width, 1, a->quantize);
}

static void
half_chroma_row (const H3EmitPictureArgs *a, gint y, gfloat *top,
    const gfloat *bottom)
{
  const H3Picture *p = &a->picture;
  gint n = p->width / 2 + p->width % 2;

  for (gint c = 1; c < 3; c++) {
    gfloat *row = top + (gsize) c * p->width;

    halve (row, bottom + (gsize) c * p->width, p->width);
    if (p->format == H3_PICTURE_I420)
      put (line (p, c, y), 1, row, n, 1, a->quantize);
    else
      put (line (p, 1, y) + c - 1, 2, row, n, 1, a->quantize);
  }
}

/* Rows 2 @pair and 2 @pair + 1; @row has room for both. */
static void
emit_pair (const H3EmitPictureArgs *a, gint pair, gfloat *row)
{
  gint rows = MIN (2, a->picture.height - 2 * pair);
  gsize size = 3 * (gsize) a->picture.width;

  for (gint i = 0; i < rows; i++) {
    gint y = 2 * pair + i;

    if (a->picture.format >= H3_PICTURE_RGB)
      rgb_row (a, y, row + i * size);
    else
      luma_row (a, y, row + i * size);
    if (a->picture.format == H3_PICTURE_Y444)
      full_chroma_row (a, y, row + i * size);
  }
  if (a->picture.format == H3_PICTURE_NV12 ||
      a->picture.format == H3_PICTURE_I420)
    half_chroma_row (a, pair, row, row + (rows - 1) * size);
}

static void
picture_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3EmitPictureArgs *a = data;
  gint64 grain = h3_cpu_row_grain (2 * a->pixels->shape[3]);
  gint64 end =
      MIN ((index + 1) * grain, h3_cpu_ceil_div (a->picture.height, 2));

  for (gint64 pair = index * grain; pair < end; pair++)
    emit_pair (a, pair, scratch);
}

void
H3_ISA (h3_cpu_emit_picture) (H3Stream *stream, const H3EmitPictureArgs *args)
{
  gint64 width = args->pixels->shape[3];
  gint64 pairs = h3_cpu_ceil_div (args->picture.height, 2);

  h3_cpu_for (stream, h3_cpu_ceil_div (pairs, h3_cpu_row_grain (2 * width)),
      6 * width * sizeof (gfloat), picture_task, args);
}

/* The other way: a task has some rows of a tile. */

typedef struct {
  const H3NetworkPixelsArgs *args;
  gint64 rows, grain;
} Pixels;

static void
pixels_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Pixels *t = data;
  const H3NetworkPixelsArgs *a = t->args;
  gint64 height = a->y->shape[1], width = a->y->shape[2];
  gint64 end = MIN ((index + 1) * t->grain, t->rows);

  for (gint64 r = index * t->grain; r < end; r++) {
    gint64 line = r / height * a->rgb->shape[1] + a->y0 + r % height;
    const guint8 *rgb =
        (const guint8 *) a->rgb->data + (line * a->rgb->shape[2] + a->x0) * 3;
    gfloat *y = (gfloat *) a->y->data + r * width * 3;

    for (gint64 i = 0; i < width; i++, rgb += 3, y += 3)
      for (gint c = 0; c < 3; c++)
        y[c] = (rgb[c] / 255.0f - a->mean[c]) / a->std[c];
  }
}

void
H3_ISA (
    h3_cpu_network_pixels) (H3Stream *stream, const H3NetworkPixelsArgs *args)
{
  const gint64 *y = args->y->shape;
  Pixels t = { .args = args,
    .rows = y[0] * y[1],
    .grain = h3_cpu_row_grain (3 * y[2]) };

  h3_cpu_for (stream, h3_cpu_ceil_div (t.rows, t.grain), 0, pixels_task, &t);
}
