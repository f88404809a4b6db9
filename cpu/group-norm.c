/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Group norm of each frame, then SiLU, channels last (video-vae.md 5): tasks sum
 * up parts of a frame, then the same tasks apply what all of them found. */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

typedef struct {
  gdouble sum, squares;
} Sums;

typedef struct {
  const H3GroupNormArgs *args;
  gint64 pixels, channels, width; /* of a group */
  gint64 part;                    /* pixels of a task */
  gint64 parts;                   /* tasks of a frame */
  Sums *sums;                     /* [frames, parts, groups] */
} Norm;

/* Where a task's pixels begin, and how many they are. */
static gint64
part_of (const Norm *t, gint64 index, gint64 *n)
{
  gint64 first = index % t->parts * t->part;

  *n = MIN (t->part, t->pixels - first);
  return (index / t->parts * t->pixels + first) * t->channels;
}

/* By channel, in double, which vectors can do; then by group. */
static void
sum_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Norm *t = data;
  gint64 n, at = part_of (t, index, &n), c;
  const gfloat *x = (const gfloat *) t->args->x->data + at;
  gdouble *restrict sum = scratch, *restrict squares = sum + t->channels;
  Sums *out = t->sums + index * t->args->groups;

  memset (scratch, 0, 2 * t->channels * sizeof *sum);
  for (gint64 p = 0; p < n; p++, x += t->channels)
    for (c = 0; c < t->channels; c++) {
      gdouble v = x[c];

      sum[c] += v;
      squares[c] += v * v;
    }
  for (c = 0; c < t->channels; c++) {
    Sums *group = &out[c / t->width];

    group->sum = (c % t->width ? group->sum : 0) + sum[c];
    group->squares = (c % t->width ? group->squares : 0) + squares[c];
  }
}

/* A frame's mean, as two floats, and 1 / deviation, for each channel. */
static void
statistics (const Norm *t, gint64 frame, gfloat *mean, gfloat *rest,
    gfloat *rstd)
{
  const Sums *sums = t->sums + frame * t->parts * t->args->groups;
  gdouble n = (gdouble) t->pixels * t->width;

  for (gint64 g = 0; g < t->args->groups; g++) {
    gdouble sum = 0, squares = 0, m, variance;

    for (gint64 p = 0; p < t->parts; p++) {
      sum += sums[p * t->args->groups + g].sum;
      squares += sums[p * t->args->groups + g].squares;
    }
    m = sum / n;
    variance = squares / n - m * m;
    variance = variance < 0 ? 0 : variance; /* NaN stays */
    for (gint64 c = g * t->width; c < (g + 1) * t->width; c++) {
      mean[c] = (gfloat) m;
      rest[c] = (gfloat) (m - mean[c]);
      rstd[c] = (gfloat) (1 / sqrt (variance + t->args->eps));
    }
  }
}

static void
apply_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Norm *t = data;
  gint64 n, at = part_of (t, index, &n);
  const gfloat *x = (const gfloat *) t->args->x->data + at;
  gfloat *restrict y = (gfloat *) t->args->y->data + at;
  const gfloat *w = t->args->weight->data, *b = t->args->bias->data;
  gfloat *mean = scratch, *rest = mean + t->channels;
  gfloat *rstd = rest + t->channels;

  statistics (t, index / t->parts, mean, rest, rstd);
  for (gint64 p = 0; p < n; p++, x += t->channels, y += t->channels)
    for (gint64 c = 0; c < t->channels; c++)
      y[c] = h3_siluf ((x[c] - mean[c] - rest[c]) * rstd[c] * w[c] + b[c]);
}

void
H3_ISA (h3_cpu_group_norm_silu) (H3Stream *stream, const H3GroupNormArgs *args)
{
  const gint64 *x = args->x->shape + args->x->rank - 3; /* H, W, C */
  Norm t = { .args = args,
    .pixels = x[0] * x[1],
    .channels = x[2],
    .width = x[2] / args->groups };
  gint64 frames;

  if (h3_tensor_size (args->x) == 0)
    return;
  frames = h3_tensor_size (args->x) / (t.pixels * t.channels);
  t.part = MIN (4 * h3_cpu_row_grain (t.channels), t.pixels);
  t.parts = h3_cpu_ceil_div (t.pixels, t.part);
  t.sums = g_try_new (Sums, frames * t.parts * args->groups);
  if (!t.sums) {
    h3_stream_fail (stream, H3_ERROR_NO_SPACE,
        "group_norm_silu: no memory for the sums of %" G_GINT64_FORMAT
        " frames",
        frames);
    return;
  }
  h3_cpu_for (stream, frames * t.parts, 2 * t.channels * sizeof (gdouble),
      sum_task, &t);
  if (!stream->error)
    h3_cpu_for (stream, frames * t.parts, 3 * t.channels * sizeof (gfloat),
        apply_task, &t);
  g_free (t.sums);
}
