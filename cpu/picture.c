/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Network pixels to pictures (video-vae.md 4.1, 11). */
#include <math.h>

#include "cpu/cpu.h"

/* BT.709: luma weights, and what scales B - Y and R - Y to -0.5 .. 0.5. */
#define KR 0.2126f
#define KG 0.7152f
#define KB 0.0722f
#define CB_SCALE (1 / 1.8556f)
#define CR_SCALE (1 / 1.5748f)

typedef struct {
  gfloat y, cb, cr; /* 0 .. 1, -0.5 .. 0.5 */
} Colour;

/* NaN compares false and becomes 0. */
static gfloat
unit (gfloat v)
{
  v = v > 0 ? v : 0;
  return v < 1 ? v : 1;
}

static gfloat
channel (const H3EmitPictureArgs *a, gint c, gint x, gint y)
{
  const gint64 *shape = a->pixels->shape;
  gint64 row = (c * shape[1] + a->frame) * shape[2] + y;
  gfloat p = ((const gfloat *) a->pixels->data)[row * shape[3] + x];

  return unit (p * a->std[c] + a->mean[c]);
}

static guint8
quantize (gfloat code, H3Quantize how)
{
  code = how == H3_QUANTIZE_ROUND ? rintf (code) : truncf (code);
  return CLAMP (code, 0, 255);
}

static Colour
colour (const H3EmitPictureArgs *a, gint x, gint y)
{
  gfloat r = channel (a, 0, x, y), g = channel (a, 1, x, y),
         b = channel (a, 2, x, y);
  gfloat luma = KR * r + KG * g + KB * b;

  return (Colour){ luma, (b - luma) * CB_SCALE, (r - luma) * CR_SCALE };
}

static guint8
chroma_code (gfloat c, H3Quantize how)
{
  return quantize (128 + 224 * c, how);
}

static void
rgb_row (const H3EmitPictureArgs *a, gint y, gint step)
{
  const H3Picture *p = &a->picture;
  guint8 *out = (guint8 *) p->plane[0] + (gsize) y * p->stride[0];

  for (gint x = 0; x < p->width; x++, out += step) {
    for (gint c = 0; c < 3; c++)
      out[c] = quantize (255 * channel (a, c, x, y), a->quantize);
    if (step == 4)
      out[3] = 255;
  }
}

static void
luma_row (const H3EmitPictureArgs *a, gint y)
{
  const H3Picture *p = &a->picture;
  guint8 *out = (guint8 *) p->plane[0] + (gsize) y * p->stride[0];

  for (gint x = 0; x < p->width; x++)
    out[x] = quantize (16 + 219 * colour (a, x, y).y, a->quantize);
}

static void
full_chroma_row (const H3EmitPictureArgs *a, gint y)
{
  const H3Picture *p = &a->picture;
  guint8 *cb = (guint8 *) p->plane[1] + (gsize) y * p->stride[1];
  guint8 *cr = (guint8 *) p->plane[2] + (gsize) y * p->stride[2];

  for (gint x = 0; x < p->width; x++) {
    Colour v = colour (a, x, y);

    cb[x] = chroma_code (v.cb, a->quantize);
    cr[x] = chroma_code (v.cr, a->quantize);
  }
}

/* 4:2:0, sited left: 1-2-1 about the even column, the mean of two rows; edges
 * repeat. */
static void
half_chroma_row (const H3EmitPictureArgs *a, gint row)
{
  const H3Picture *p = &a->picture;
  gint y[2] = { 2 * row, MIN (2 * row + 1, p->height - 1) };
  gboolean planar = p->format == H3_PICTURE_I420;
  guint8 *cb = (guint8 *) p->plane[1] + (gsize) row * p->stride[1];
  guint8 *cr =
      planar ? (guint8 *) p->plane[2] + (gsize) row * p->stride[2] : cb + 1;
  gint step = planar ? 1 : 2;

  for (gint x = 0; x < p->width; x += 2, cb += step, cr += step) {
    gfloat sum_cb = 0, sum_cr = 0;

    for (gint i = 0; i < 2; i++) {
      Colour left = colour (a, MAX (x - 1, 0), y[i]);
      Colour here = colour (a, x, y[i]);
      Colour right = colour (a, MIN (x + 1, p->width - 1), y[i]);

      sum_cb += left.cb + 2 * here.cb + right.cb;
      sum_cr += left.cr + 2 * here.cr + right.cr;
    }
    *cb = chroma_code (sum_cb / 8, a->quantize);
    *cr = chroma_code (sum_cr / 8, a->quantize);
  }
}

/* A task is two rows of the picture: one of 4:2:0 chroma. */
static void
picture_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3EmitPictureArgs *a = data;
  gint end = MIN (2 * (index + 1), a->picture.height);

  for (gint y = 2 * index; y < end; y++) {
    switch (a->picture.format) {
      case H3_PICTURE_RGB:
        rgb_row (a, y, 3);
        break;
      case H3_PICTURE_RGBA:
        rgb_row (a, y, 4);
        break;
      case H3_PICTURE_Y444:
        luma_row (a, y);
        full_chroma_row (a, y);
        break;
      case H3_PICTURE_NV12:
      case H3_PICTURE_I420:
        luma_row (a, y);
        break;
    }
  }
  if (a->picture.format == H3_PICTURE_NV12 ||
      a->picture.format == H3_PICTURE_I420)
    half_chroma_row (a, index);
}

void
H3_ISA (h3_cpu_emit_picture) (H3Stream *stream, const H3EmitPictureArgs *args)
{
  h3_cpu_for (stream, h3_cpu_ceil_div (args->picture.height, 2), 0,
      picture_task, args);
}
