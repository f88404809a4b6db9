/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* 1-D convolution and its transpose (audio-vae.md 4.1, 4.2).
 *
 * A task makes some output channels of some blocks of BLOCK outputs, CHANNELS
 * input channels at a time: what it reads stays in the caches, and long sums
 * are sums of partial sums. A block's input is taken out of x with zeros beyond
 * the ends, one row per channel and phase of the stride, so that every tap reads
 * neighbours; where the stride is 1 and the block far from the ends, x is read
 * where it lies. The transpose is one such convolution per phase of its stride. */
#include "cpu/cpu.h"
#include "cpu/mathf.h"
#include "cpu/taps.h"

#define BLOCK H3_TAPS_BLOCK
#define CHANNELS 64
#define MAX_ROWS 192
#define MIN_MACS (1 << 18)
#define MIN_TASKS 16

typedef struct {
  const H3Tensor *x, *weight;
  H3Tensor *y;
  const gfloat *bias, *residual;
  gboolean transposed;
  gint64 ci, co, k, length;
  gint64 in_phases;  /* the convolution's stride, 1 for the transpose */
  gint64 out_phases; /* 1, the transpose's stride */
  gint64 pad;
  gint64 blocks;        /* of a batch item */
  gint64 block_rows;    /* output channels of a task */
  gint64 row_tasks;     /* tasks that make one block */
  gint64 grain;         /* blocks of a task */
  gint64 span;          /* input a block reaches, per phase */
  const gint64 *offset; /* of each tap in a channel's input */
} Conv;

/* One task's memory and place. */
typedef struct {
  const Conv *conv;
  gfloat *sums;        /* [out_phases][block_rows][BLOCK] */
  gfloat *weights;     /* widened: 6 rows, CHANNELS channels */
  gfloat *input;       /* [CHANNELS][in_phases][span] */
  gint64 row, end_row; /* output channels */
  gint64 item;         /* of the batch */
} Work;

/* A channel's @span elements from @first on, every @step th, zero outside. */
static void
take (gfloat *out, const gfloat *x, gint64 length, gint64 first, gint64 step,
    gint64 span)
{
  gint64 begin = first < 0 ? MIN (h3_cpu_ceil_div (-first, step), span) : 0;
  gint64 end = first < length ? MIN ((length - 1 - first) / step + 1, span) : 0;

  end = MAX (end, begin);
  memset (out, 0, begin * sizeof *out);
  if (step == 1)
    memcpy (out + begin, x + first + begin, (end - begin) * sizeof *out);
  else
    for (gint64 i = begin; i < end; i++)
      out[i] = x[first + i * step];
  memset (out + end, 0, (span - end) * sizeof *out);
}

/* Input of channels @c .. @c + @n - 1 for a block whose first tap reads
 * @first. */
static void
set_input (const Work *work, H3Taps *taps, gint64 first, gint64 c, gint64 n)
{
  const Conv *t = work->conv;
  const gfloat *x =
      (const gfloat *) t->x->data + (work->item * t->ci + c) * t->length;

  taps->channels = n;
  if (t->in_phases == 1 && first >= 0 && first + t->span <= t->length) {
    taps->x = x + first;
    taps->x_stride = t->length;
    return;
  }
  for (gint64 i = 0; i < n; i++)
    for (gint64 p = 0; p < t->in_phases; p++)
      take (work->input + (i * t->in_phases + p) * t->span, x + i * t->length,
          t->length, first + p, t->in_phases, t->span);
  taps->x = work->input;
  taps->x_stride = t->in_phases * t->span;
}

/* Weights [Co, Ci, K] of output rows @o .. and input channels @c .. */
static void
set_weights (const Work *work, H3Taps *taps, gint64 o, gint64 rows, gint64 c)
{
  const Conv *t = work->conv;
  gint64 n = taps->channels * t->k;

  taps->taps = t->k;
  taps->w_tap = 1;
  taps->w_channel = t->k;
  if (t->weight->dtype == H3_DTYPE_F32) {
    taps->w_row = t->ci * t->k;
    taps->w = (const gfloat *) t->weight->data + (o * t->ci + c) * t->k;
    return;
  }
  for (gint64 r = 0; r < rows; r++)
    h3_widen (work->weights + r * n, t->weight, ((o + r) * t->ci + c) * t->k,
        n);
  taps->w_row = n;
  taps->w = work->weights;
}

/* The same of weights [Ci, Co, K]: the taps of output phase @phase. */
static void
set_transposed_weights (const Work *work, H3Taps *taps, gint64 o, gint64 rows,
    gint64 c, gint64 phase)
{
  const Conv *t = work->conv;

  taps->taps = h3_cpu_ceil_div (t->k - phase, t->out_phases);
  taps->w_tap = t->out_phases;
  taps->w_row = t->k;
  if (t->weight->dtype == H3_DTYPE_F32) {
    taps->w_channel = t->co * t->k;
    taps->w = (const gfloat *) t->weight->data + (c * t->co + o) * t->k + phase;
    return;
  }
  for (gint64 i = 0; i < taps->channels; i++)
    h3_widen (work->weights + i * rows * t->k, t->weight,
        ((c + i) * t->co + o) * t->k, rows * t->k);
  taps->w_channel = rows * t->k;
  taps->w = work->weights + phase;
}

/* Adds channels @c .. to the sums of @n outputs of one phase. */
static void
add_channels (const Work *work, H3Taps *taps, gint64 c, gint64 phase, gint64 n)
{
  const Conv *t = work->conv;
  gfloat part[H3_TAPS_ROWS][BLOCK];
  gint rows;

  for (gint64 o = work->row; o < work->end_row; o += rows) {
    gfloat *sums = work->sums + (phase * t->block_rows + o - work->row) * BLOCK;
    gint64 left = work->end_row - o, group = MIN (left, H3_TAPS_ROWS);

    if (t->transposed)
      set_transposed_weights (work, taps, o, group, c, phase);
    else
      set_weights (work, taps, o, group, c);
    taps->bias = c == 0 && t->bias ? t->bias + o : NULL;
    if (c == 0) {
      rows = h3_taps_rows (taps, left, n, (gfloat (*)[BLOCK]) sums);
      continue;
    }
    rows = h3_taps_rows (taps, left, n, part);
    for (gint r = 0; r < rows; r++)
      for (gint64 i = 0; i < n; i++)
        sums[r * BLOCK + i] += part[r][i];
  }
}

/* All sums of a block of @n outputs whose first tap reads @first. */
static void
sum_block (const Work *work, gint64 first, gint64 n)
{
  const Conv *t = work->conv;
  H3Taps taps = { .offset = t->offset };
  gint64 c = 0;

  do {
    set_input (work, &taps, first, c, MIN (CHANNELS, t->ci - c));
    for (gint64 phase = 0; phase < t->out_phases; phase++)
      add_channels (work, &taps, c, phase, n);
    c += CHANNELS;
  } while (c < t->ci);
}

static void
conv_block (const Work *work, gint64 n0)
{
  const Conv *t = work->conv;
  gint64 lo = t->y->shape[2], n = MIN (BLOCK, lo - n0);
  const gfloat *sums = work->sums;

  sum_block (work, n0 * t->in_phases - t->pad, n);
  for (gint64 o = work->row; o < work->end_row; o++, sums += BLOCK) {
    gint64 at = (work->item * t->co + o) * lo + n0;
    gfloat *y = (gfloat *) t->y->data + at;

    if (t->residual)
      for (gint64 i = 0; i < n; i++)
        y[i] = sums[i] + t->residual[at + i];
    else
      memcpy (y, sums, n * sizeof *y);
  }
}

/* Outputs i * stride + phase - pad for i0 <= i < i0 + BLOCK and all phases. */
static void
transpose_block (const Work *work, gint64 i0)
{
  const Conv *t = work->conv;
  gint64 lo = t->y->shape[2], u = t->out_phases;
  gint64 reach = h3_cpu_ceil_div (t->k, u) - 1;
  gint64 last = (lo - 1 + t->pad) / u; /* the last i that has outputs */
  gint64 n = MIN (BLOCK, last + 1 - i0);

  sum_block (work, i0 - reach, n);
  for (gint64 phase = 0; phase < u; phase++)
    for (gint64 o = work->row; o < work->end_row; o++) {
      const gfloat *sums =
          work->sums + (phase * t->block_rows + o - work->row) * BLOCK;
      gfloat *y = (gfloat *) t->y->data + (work->item * t->co + o) * lo;
      gint64 at = i0 * u + phase - t->pad;

      for (gint64 i = 0; i < n; i++, at += u)
        if (at >= 0 && at < lo)
          y[at] = sums[i];
    }
}

static void
conv_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Conv *t = data;
  gint64 block = index / t->row_tasks * t->grain;
  gint64 end = MIN (block + t->grain, t->blocks * t->x->shape[0]);
  Work work = { .conv = t, .sums = scratch };

  work.row = index % t->row_tasks * t->block_rows;
  work.end_row = MIN (work.row + t->block_rows, t->co);
  work.weights = work.sums + t->out_phases * t->block_rows * BLOCK;
  work.input = work.weights;
  if (t->weight->dtype != H3_DTYPE_F32)
    work.input += H3_TAPS_ROWS * CHANNELS * t->k;
  for (; block < end; block++) {
    work.item = block / t->blocks;
    if (t->transposed)
      transpose_block (&work, block % t->blocks * BLOCK);
    else
      conv_block (&work, block % t->blocks * BLOCK);
  }
}

/* Bytes of a task's memory; FALSE when they cannot be addressed. */
static gboolean
work_bytes (const Conv *t, gsize *bytes)
{
  gsize sums, weights, input;

  return g_size_checked_mul (&sums, t->out_phases, t->block_rows * BLOCK) &&
         g_size_checked_mul (&weights, H3_TAPS_ROWS * CHANNELS, t->k) &&
         g_size_checked_mul (&input, t->span, CHANNELS) &&
         g_size_checked_mul (&input, input, t->in_phases) &&
         g_size_checked_add (&sums, sums, weights) &&
         g_size_checked_add (&sums, sums, input) &&
         g_size_checked_mul (bytes, sums, sizeof (gfloat));
}

/* Few blocks share their channels out, small ones go together. */
static void
run (H3Stream *stream, const gchar *op, Conv *t)
{
  gint64 all = t->blocks * t->x->shape[0];
  gsize bytes;

  if (all == 0 || t->co == 0)
    return;
  t->row_tasks = all < MIN_TASKS ? h3_cpu_ceil_div (MIN_TASKS, all) : 1;
  t->block_rows = h3_cpu_ceil_div (t->co, t->row_tasks);
  t->block_rows =
      CLAMP (h3_cpu_ceil_div (t->block_rows, 12) * 12, 24, MAX_ROWS);
  t->block_rows = MIN (t->block_rows, t->co);
  t->row_tasks = h3_cpu_ceil_div (t->co, t->block_rows);
  t->grain = MAX (1,
      MIN_MACS / BLOCK / MAX (1, t->block_rows * (gdouble) t->ci * t->k));
  if (work_bytes (t, &bytes))
    h3_cpu_for (stream, h3_cpu_ceil_div (all, t->grain) * t->row_tasks, bytes,
        conv_task, t);
  else
    h3_stream_fail (stream, H3_ERROR_NO_SPACE,
        "%s: a kernel of %" G_GINT64_FORMAT " taps and stride %" G_GINT64_FORMAT
        " needs more memory than can be addressed",
        op, t->k, MAX (t->in_phases, t->out_phases));
}

/* Kernels are short; the places of longer ones' taps are allocated. */
typedef struct {
  gint64 few[64];
  gint64 *many;
} Offsets;

static gint64 *
offsets_init (Offsets *offsets, H3Stream *stream, const gchar *op, gint64 n)
{
  offsets->many = NULL;
  if (n <= G_N_ELEMENTS (offsets->few))
    return offsets->few;
  offsets->many = g_try_new (gint64, n);
  if (!offsets->many)
    h3_stream_fail (stream, H3_ERROR_NO_SPACE,
        "%s: no memory for a kernel of %" G_GINT64_FORMAT " taps", op, n);
  return offsets->many;
}

void
H3_ISA (h3_cpu_conv1d) (H3Stream *stream, const H3Conv1dArgs *args)
{
  const H3Tensor *w = args->weight->tensor;
  Conv t = { .x = args->x,
    .weight = w,
    .y = args->y,
    .bias = args->bias ? args->bias->data : NULL,
    .residual = args->residual ? args->residual->data : NULL,
    .co = w->shape[0],
    .ci = w->shape[1],
    .k = w->shape[2],
    .length = args->x->shape[2],
    .in_phases = args->stride,
    .out_phases = 1,
    .pad = args->pad };
  gint64 reach = (t.k - 1) * args->dilation;
  Offsets offsets;
  gint64 *offset = offsets_init (&offsets, stream, "conv1d", t.k);

  if (!offset)
    return;
  t.blocks = h3_cpu_ceil_div (args->y->shape[2], BLOCK);
  t.span = BLOCK + reach / args->stride;
  for (gint64 k = 0; k < t.k; k++) {
    gint64 at = k * args->dilation;
    offset[k] = at % args->stride * t.span + at / args->stride;
  }
  t.offset = offset;
  run (stream, "conv1d", &t);
  g_free (offsets.many);
}

void
H3_ISA (h3_cpu_conv_transpose1d) (H3Stream *stream,
    const H3ConvTranspose1dArgs *args)
{
  const H3Tensor *w = args->weight->tensor;
  Conv t = { .x = args->x,
    .weight = w,
    .y = args->y,
    .bias = args->bias ? args->bias->data : NULL,
    .ci = w->shape[0],
    .co = w->shape[1],
    .k = w->shape[2],
    .transposed = TRUE,
    .length = args->x->shape[2],
    .in_phases = 1,
    .out_phases = args->stride };
  gint64 reach = h3_cpu_ceil_div (t.k, args->stride) - 1;
  Offsets offsets;
  gint64 *offset =
      offsets_init (&offsets, stream, "conv_transpose1d", reach + 1);

  if (!offset)
    return;
  t.pad = (t.k - args->stride) / 2;
  t.span = BLOCK + reach;
  if (args->y->shape[2] > 0)
    t.blocks =
        h3_cpu_ceil_div ((args->y->shape[2] - 1 + t.pad) / args->stride + 1,
            BLOCK);
  for (gint64 j = 0; j <= reach; j++)
    offset[j] = reach - j;
  t.offset = offset;
  run (stream, "conv_transpose1d", &t);
  g_free (offsets.many);
}
