/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tiles to frames in space (video-vae.md 8.3, 8.4), windows in time (9.2). A
 * task makes one frame of one colour, row by row. */
#include <string.h>

#include "cpu/cpu.h"

typedef struct {
  const H3ComposeTilesArgs *args;
  gint c, frame; /* of the window */
  gint y;
  gfloat *other; /* scratch: a row of what is blended in */
} Row;

static gint
owner_of (const H3TileAxis *axis, gint at)
{
  gint k = axis->n - 1;

  while (axis->start[k] > at)
    k--;
  return k;
}

/* The weight of tile @k against tile @k - 1 at @at: r_k of 8.4. */
static gfloat
rise (const H3TileAxis *axis, gint k, gint at)
{
  if (k == 0 || at - axis->start[k] >= axis->overlap[k - 1])
    return 1;
  return (gfloat) (at - axis->start[k]) / axis->overlap[k - 1];
}

/* @n pixels of tile (i, j) from the picture's column @x on. */
static void
tile_row (const Row *row, gint i, gint j, gint x, gint n, gfloat *out)
{
  const H3ComposeTilesArgs *a = row->args;
  gint p = a->patch, pt = a->patch_t;
  gint iy = row->y - a->axis_y->start[i], ix = x - a->axis_x->start[j];
  gint64 columns = a->tiles->shape[2];
  gint64 token = ((gint64) (row->frame / pt) * (a->axis_y->tile / p) + iy / p) *
                 (a->axis_x->tile / p);
  const gfloat *tile =
      (const gfloat *) a->tiles->data +
      (i * (gint64) a->axis_x->n + j) * a->tiles->shape[1] * columns +
      ((gint64) (row->c * pt + row->frame % pt) * p + iy % p) * p;

  for (gint end = ix + n; ix < end;) {
    gint run = MIN (p - ix % p, end - ix);

    memcpy (out, tile + (token + ix / p) * columns + ix % p, run * sizeof *out);
    out += run;
    ix += run;
  }
}

/* y = (1 - w) previous + w y */
static void
mix (gfloat *restrict y, const gfloat *restrict previous, gint n, gfloat w)
{
  for (gint k = 0; k < n; k++)
    y[k] = (1 - w) * previous[k] + w * y[k];
}

/* The same with w = k / @overlap. */
static void
ramp (gfloat *restrict y, const gfloat *restrict previous, gint n, gint overlap)
{
  for (gint k = 0; k < n; k++) {
    gfloat w = (gfloat) k / overlap;
    y[k] = (1 - w) * previous[k] + w * y[k];
  }
}

/* 8.3: owners' pixels, blended with the raw tile above, then the raw left. */
static void
raw_row (const Row *row, gfloat *out)
{
  const H3TileAxis *ay = row->args->axis_y, *ax = row->args->axis_x;
  gint i = owner_of (ay, row->y);
  gfloat w = rise (ay, i, row->y);

  for (gint j = 0; j < ax->n; j++) {
    gint x = ax->start[j];
    gint n = (j + 1 < ax->n ? ax->start[j + 1] : ax->length) - x;

    tile_row (row, i, j, x, n, out + x);
    if (w < 1) {
      tile_row (row, i - 1, j, x, n, row->other);
      mix (out + x, row->other, n, w);
    }
    if (j > 0) {
      n = MIN (n, ax->overlap[j - 1]);
      tile_row (row, i, j - 1, x, n, row->other);
      ramp (out + x, row->other, n, ax->overlap[j - 1]);
    }
  }
}

/* 8.4: every tile is blended over what the ones before it made. */
static void
composited_row (const Row *row, gfloat *out)
{
  const H3TileAxis *ay = row->args->axis_y, *ax = row->args->axis_x;
  gfloat *column = row->other, *tile = column + ax->tile;
  gint last = owner_of (ay, row->y), first = last;

  while (first > 0 && row->y < ay->start[first - 1] + ay->tile)
    first--;
  for (gint j = 0; j < ax->n; j++) {
    gint x = ax->start[j], overlap = j > 0 ? ax->overlap[j - 1] : 0;

    tile_row (row, first, j, x, ax->tile, column);
    for (gint i = first + 1; i <= last; i++) {
      tile_row (row, i, j, x, ax->tile, tile);
      mix (tile, column, ax->tile, rise (ay, i, row->y));
      memcpy (column, tile, ax->tile * sizeof *tile);
    }
    ramp (column, out + x, overlap, overlap);
    memcpy (out + x, column, ax->tile * sizeof *out);
  }
}

static void
compose_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3ComposeTilesArgs *a = data;
  gint64 frames = a->y->shape[1];
  gint height = a->y->shape[2], width = a->y->shape[3];
  gfloat *out = (gfloat *) a->y->data + index * height * width;
  Row row = { .args = a,
    .c = index / frames,
    .frame = index % frames + a->first_frame,
    .other = scratch };

  for (; row.y < height; row.y++, out += width) {
    if (a->composition == H3_COMPOSITION_RAW)
      raw_row (&row, out);
    else
      composited_row (&row, out);
  }
}

void
H3_ISA (h3_cpu_compose_tiles) (H3Stream *stream, const H3ComposeTilesArgs *args)
{
  h3_cpu_for (stream, args->y->shape[0] * args->y->shape[1],
      2 * args->axis_x->tile * sizeof (gfloat), compose_task, args);
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
