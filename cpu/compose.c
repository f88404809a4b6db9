/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tiles to frames in space (video-vae.md 8.3, 8.4), windows in time (9.2). */
#include "cpu/cpu.h"

/* Which tiles a pixel of an axis is blended from, and with which weights. */
typedef struct {
  gint owner;
  gfloat weight; /* of the owner in mode raw; the rest is owner - 1's */
} Place;

static gint
owner_of (const H3TileAxis *axis, gint at)
{
  gint k = axis->n - 1;

  while (axis->start[k] > at)
    k--;
  return k;
}

static Place
place_of (const H3TileAxis *axis, gint at)
{
  Place place = { owner_of (axis, at), 1 };
  gint k = place.owner, inside = at - axis->start[k];

  if (k > 0 && inside < axis->overlap[k - 1])
    place.weight = (gfloat) inside / axis->overlap[k - 1];
  return place;
}

/* r_k of 8.4 */
static gfloat
rise (const H3TileAxis *axis, gint k, gint at)
{
  if (k == 0 || at - axis->start[k] >= axis->overlap[k - 1])
    return 1;
  return (gfloat) (at - axis->start[k]) / axis->overlap[k - 1];
}

static gfloat
pixel (const H3ComposeTilesArgs *a, gint i, gint j, gint c, gint frame, gint y,
    gint x)
{
  gint p = a->patch, pt = a->patch_t;
  gint iy = y - a->axis_y->start[i], ix = x - a->axis_x->start[j];
  gint64 token = ((gint64) (frame / pt) * (a->axis_y->tile / p) + iy / p) *
                     (a->axis_x->tile / p) +
                 ix / p;
  gint64 column = ((gint64) (c * pt + frame % pt) * p + iy % p) * p + ix % p;
  gint64 row = (gint64) (i * a->axis_x->n + j) * a->tiles->shape[1] + token;

  return ((const gfloat *) a->tiles->data)[row * a->tiles->shape[2] + column];
}

static gfloat
raw_pixel (const H3ComposeTilesArgs *a, gint c, gint frame, gint y, gint x)
{
  Place py = place_of (a->axis_y, y), px = place_of (a->axis_x, x);
  gfloat v = pixel (a, py.owner, px.owner, c, frame, y, x);

  if (py.weight < 1)
    v = (1 - py.weight) * pixel (a, py.owner - 1, px.owner, c, frame, y, x) +
        py.weight * v;
  if (px.weight < 1)
    v = (1 - px.weight) * pixel (a, py.owner, px.owner - 1, c, frame, y, x) +
        px.weight * v;
  return v;
}

static gfloat
composited_pixel (const H3ComposeTilesArgs *a, gint c, gint frame, gint y,
    gint x)
{
  const H3TileAxis *ay = a->axis_y, *ax = a->axis_x;
  gfloat v = 0, rest_y = 1;

  for (gint i = owner_of (ay, y); i >= 0 && y < ay->start[i] + ay->tile; i--) {
    gfloat rest_x = 1, wy = rise (ay, i, y) * rest_y;

    for (gint j = owner_of (ax, x);
         wy != 0 && j >= 0 && x < ax->start[j] + ax->tile; j--) {
      gfloat wx = rise (ax, j, x) * rest_x;

      if (wx != 0)
        v += wy * wx * pixel (a, i, j, c, frame, y, x);
      rest_x *= 1 - rise (ax, j, x);
    }
    rest_y *= 1 - rise (ay, i, y);
  }
  return v;
}

static void
compose_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3ComposeTilesArgs *a = data;
  gint64 frames = a->y->shape[1];
  gint height = a->y->shape[2], width = a->y->shape[3];
  gint c = index / frames, frame = index % frames + a->first_frame;
  gfloat *out = (gfloat *) a->y->data + index * height * width;

  for (gint y = 0; y < height; y++)
    for (gint x = 0; x < width; x++)
      *out++ = a->composition == H3_COMPOSITION_RAW
                   ? raw_pixel (a, c, frame, y, x)
                   : composited_pixel (a, c, frame, y, x);
}

void
H3_ISA (h3_cpu_compose_tiles) (H3Stream *stream, const H3ComposeTilesArgs *args)
{
  h3_cpu_for (stream, 3 * args->y->shape[1], 0, compose_task, args);
}

void
H3_ISA (h3_cpu_blend_frames) (H3Stream *stream, const H3BlendFramesArgs *args)
{
  gint64 n = args->previous->shape[1], frames = args->y->shape[1];
  gint64 size = args->y->shape[2] * args->y->shape[3];

  for (gint64 c = 0; c < 3; c++)
    for (gint64 k = 0; k < n; k++) {
      const gfloat *previous =
          (const gfloat *) args->previous->data + (c * n + k) * size;
      gfloat *y = (gfloat *) args->y->data + (c * frames + k) * size;
      gfloat w = (gfloat) k / n;

      for (gint64 i = 0; i < size; i++)
        y[i] = previous[i] * (1 - w) + y[i] * w;
    }
}
