/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Causal 3-D convolution, channels last (video-vae.md 5).
 *
 * A task makes some output channels of some pixels: the input that a few taps
 * of them see is gathered as a matrix, of which a pixel's neighbours are one
 * piece, and OpenBLAS multiplies it with those taps' weights. How pixels,
 * channels and taps are cut depends on the shape alone. */
#include <cblas.h>

#include "cpu/cpu.h"
#include "cpu/mathf.h"

#define PIXELS 256 /* of a task, where a frame has them */
#define PANEL 768  /* columns of the gathered matrix, about */
#define MIN_TASKS 16

typedef struct {
  const H3Conv3dArgs *args;
  gint64 frames, height, width; /* of the input; frames of a batch item */
  gint64 to, ho, wo;            /* of the output */
  gint64 ci, co, kt, k;
  gint64 rows;          /* of pixels, in all */
  gint64 cols;          /* pixels of a row in a task */
  gint64 col_tasks;     /* tasks that share a row */
  gint64 block_rows;    /* rows of a task */
  gint64 tile_o, tiles; /* output channels of a task, tasks that share them */
  gint64 panel;         /* (frame, row) taps gathered at once */
} Conv;

/* Rows row .. row + n - 1, columns col .. col + m - 1. */
typedef struct {
  gint64 row, n, col, m;
} Block;

static gint64
mirror (gint64 at, gint64 n)
{
  at = at < 0 ? -at : at;
  return at >= n ? 2 * (n - 1) - at : at;
}

/* The K neighbours in a row of each of the block's pixels in it. */
static void
gather_row (const Conv *t, const gfloat *x, gint64 col, gint64 m, gint64 stride,
    gfloat *out)
{
  for (gint64 j = 0; j < m; j++, out += stride) {
    gint64 first = (col + j) * t->args->stride - t->args->pad;

    if (first >= 0 && first + t->k <= t->width) {
      memcpy (out, x + first * t->ci, t->k * t->ci * sizeof *out);
      continue;
    }
    for (gint64 dx = 0; dx < t->k; dx++)
      memcpy (out + dx * t->ci, x + mirror (first + dx, t->width) * t->ci,
          t->ci * sizeof *out);
  }
}

/* Tap @tap = dt * K + dy of the whole block, at its columns of @out. */
static void
gather_tap (const Conv *t, const Block *b, gint64 tap, gint64 stride,
    gfloat *out)
{
  gint64 dt = tap / t->k, dy = tap % t->k, width = t->k * t->ci;

  for (gint64 r = b->row; r < b->row + b->n; r++, out += b->m * stride) {
    gint64 i = r % t->ho, frame = r / t->ho % t->to, item = r / t->ho / t->to;
    gint64 from = frame * t->args->stride_t + dt - (t->kt - 1);
    gint64 y = mirror (i * t->args->stride + dy - t->args->pad, t->height);

    if (from >= 0) {
      const gfloat *x =
          (const gfloat *) t->args->x->data +
          ((item * t->frames + from) * t->height + y) * t->width * t->ci;
      gather_row (t, x, b->col, b->m, stride, out);
    } else {
      for (gint64 j = 0; j < b->m; j++)
        memset (out + j * stride, 0, width * sizeof *out);
    }
  }
}

/* The first tap that is not before the first frame for every row. */
static gint64
first_tap (const Conv *t, const Block *b)
{
  gint64 latest = 0;

  for (gint64 r = b->row; r < b->row + b->n; r++)
    latest = MAX (latest, r / t->ho % t->to);
  return MAX (0, t->kt - 1 - latest * t->args->stride_t) * t->k;
}

static void
conv_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Conv *t = data;
  const H3Conv3dArgs *a = t->args;
  gint64 o = index % t->tiles * t->tile_o, n = MIN (t->tile_o, t->co - o);
  gint64 block = index / t->tiles, taps = t->kt * t->k, width = t->k * t->ci;
  const gfloat *w = (const gfloat *) a->weight->tensor->data + o * taps * width;
  const gfloat *bias = (const gfloat *) a->bias->data + o;
  gfloat *sums = scratch, *x = sums + PIXELS * t->tile_o;
  Block b;
  gint64 m, first, at;

  b.row = block / t->col_tasks * t->block_rows;
  b.n = MIN (t->block_rows, t->rows - b.row);
  b.col = block % t->col_tasks * t->cols;
  b.m = MIN (t->cols, t->wo - b.col);
  m = b.n * b.m;
  first = first_tap (t, &b);
  for (gint64 tap = first; tap < taps; tap += t->panel) {
    gint64 some = MIN (t->panel, taps - tap), k = some * width;

    for (gint64 i = 0; i < some; i++)
      gather_tap (t, &b, tap + i, k, x + i * width);
    cblas_sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, x, k,
        w + tap * width, taps * width, tap > first, sums, n);
  }
  /* whole rows follow each other in y, and part of one is in one piece */
  at = (b.row * t->wo + b.col) * t->co + o;
  for (gint64 p = 0; p < m; p++, at += t->co, sums += n) {
    gfloat *y = (gfloat *) a->y->data + at;
    const gfloat *more =
        a->residual ? (const gfloat *) a->residual->data + at : NULL;

    if (more)
      for (gint64 i = 0; i < n; i++)
        y[i] = sums[i] + bias[i] + more[i];
    else
      for (gint64 i = 0; i < n; i++)
        y[i] = sums[i] + bias[i];
  }
}

static void
cut (Conv *t)
{
  gint64 blocks;

  t->cols = MIN (t->wo, PIXELS);
  t->col_tasks = h3_cpu_ceil_div (t->wo, t->cols);
  t->block_rows = t->col_tasks > 1 ? 1 : PIXELS / t->cols;
  blocks = h3_cpu_ceil_div (t->rows, t->block_rows) * t->col_tasks;
  t->tile_o = 256;
  while (
      t->tile_o > 64 && blocks * h3_cpu_ceil_div (t->co, t->tile_o) < MIN_TASKS)
    t->tile_o /= 2;
  t->tile_o = MIN (t->tile_o, t->co);
  t->tiles = h3_cpu_ceil_div (t->co, t->tile_o);
  t->panel = CLAMP (PANEL / (t->k * t->ci), 1, t->kt * t->k);
}

void
H3_ISA (h3_cpu_conv3d) (H3Stream *stream, const H3Conv3dArgs *args)
{
  const gint64 *x = args->x->shape, *y = args->y->shape;
  const gint64 *w = args->weight->tensor->shape;
  Conv t = { .args = args,
    .frames = x[1],
    .height = x[2],
    .width = x[3],
    .to = y[1],
    .ho = y[2],
    .wo = y[3],
    .ci = x[4],
    .co = w[0],
    .kt = w[1],
    .k = w[2],
    .rows = y[0] * y[1] * y[2] };

  if (h3_tensor_size (args->y) == 0)
    return;
  if (t.ci > G_MAXINT32 / (t.kt * t.k * t.k) || t.co > G_MAXINT32) {
    h3_stream_fail (stream, H3_ERROR_WRONG_TYPE,
        "conv3d: a weight of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
        " channels is more than the matrix library can address",
        t.co, t.ci);
    return;
  }
  cut (&t);
  h3_cpu_for (stream,
      h3_cpu_ceil_div (t.rows, t.block_rows) * t.col_tasks * t.tiles,
      PIXELS * (t.tile_o + t.panel * t.k * t.ci) * sizeof (gfloat), conv_task,
      &t);
}
