/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* 1-D convolution and its transpose (audio-vae.md 4.1, 4.2).
 *
 * A task makes some output channels of some blocks of BLOCK outputs. A block's
 * input is taken out of x with zeros beyond the ends, one row per channel and
 * phase of the stride, so that every tap reads neighbours; where the stride is 1
 * and the block far from the ends, x is read where it lies. */
#include "cpu/cpu.h"
#include "cpu/mathf.h"
#include "cpu/taps.h"

#define BLOCK H3_TAPS_BLOCK
#define MIN_MACS (1 << 18)
#define MIN_TASKS 16

typedef struct {
  const H3Tensor *x, *weight;
  H3Tensor *y;
  const gfloat *bias, *residual;
  gint64 ci, co, k, length;
  gint64 stride; /* of the input (conv) or the output (transpose) */
  gint64 pad;
  gint64 blocks;        /* of a batch item */
  gint64 block_rows;    /* output channels of a task */
  gint64 row_tasks;     /* tasks that make one block */
  gint64 grain;         /* blocks of a task */
  gint64 span;          /* input a block reaches, per phase */
  const gint64 *offset; /* of each tap in a channel's input */
  gfloat *weights;      /* scratch: widened weights of 6 rows */
  gfloat *input;        /* scratch: a block's input */
} Conv;

/* A channel's @span elements from @first on, every @step th, zero outside. */
static void
take (gfloat *out, const gfloat *x, gint64 length, gint64 first, gint64 step,
    gint64 span)
{
  gint64 begin = first < 0 ? MIN (h3_cpu_ceil_div (-first, step), span) : 0;
  gint64 end =
      first < length ? MIN ((length - 1 - first) / step + 1, span) : begin;

  end = MAX (end, begin);
  memset (out, 0, begin * sizeof *out);
  if (step == 1)
    memcpy (out + begin, x + first + begin, (end - begin) * sizeof *out);
  else
    for (gint64 i = begin; i < end; i++)
      out[i] = x[first + i * step];
  memset (out + end, 0, (span - end) * sizeof *out);
}

/* Input of the block whose first tap reads @first. */
static void
block_input (const Conv *t, H3Taps *taps, gint64 item, gint64 first,
    gint64 phases)
{
  const gfloat *x = (const gfloat *) t->x->data + item * t->ci * t->length;

  if (phases == 1 && first >= 0 && first + t->span <= t->length) {
    taps->x = x + first;
    taps->x_stride = t->length;
    return;
  }
  for (gint64 c = 0; c < t->ci; c++)
    for (gint64 p = 0; p < phases; p++)
      take (t->input + (c * phases + p) * t->span, x + c * t->length, t->length,
          first + p, phases, t->span);
  taps->x = t->input;
  taps->x_stride = phases * t->span;
}

static Conv
with_scratch (const Conv *shared, gfloat *scratch)
{
  Conv t = *shared;

  t.weights = scratch;
  t.input = scratch;
  if (t.weight->dtype != H3_DTYPE_F32)
    t.input += H3_TAPS_ROWS * t.ci * t.k;
  return t;
}

/* Weights [Co, Ci, K] of @rows outputs from @o on. */
static void
conv_weights (const Conv *t, H3Taps *taps, gint64 o, gint64 rows)
{
  gint64 row = t->ci * t->k;

  taps->w_row = row;
  taps->w_channel = t->k;
  taps->w_tap = 1;
  if (t->weight->dtype == H3_DTYPE_F32) {
    taps->w = (const gfloat *) t->weight->data + o * row;
  } else {
    h3_widen (t->weights, t->weight, o * row, rows * row);
    taps->w = t->weights;
  }
}

static void
conv_block (const Conv *t, gint64 item, gint64 n0, gint64 o, gint64 end)
{
  H3Taps taps = { .offset = t->offset, .channels = t->ci, .taps = t->k };
  gint64 lo = t->y->shape[2], n = MIN (BLOCK, lo - n0);
  gfloat out[H3_TAPS_ROWS][BLOCK];

  block_input (t, &taps, item, n0 * t->stride - t->pad, t->stride);
  while (o < end) {
    gint rows;

    conv_weights (t, &taps, o, MIN (end - o, H3_TAPS_ROWS));
    taps.bias = t->bias ? t->bias + o : NULL;
    rows = h3_taps_rows (&taps, end - o, n, out);
    for (gint r = 0; r < rows; r++, o++) {
      gint64 at = (item * t->co + o) * lo + n0;
      gfloat *y = (gfloat *) t->y->data + at;

      if (t->residual)
        for (gint64 i = 0; i < n; i++)
          y[i] = out[r][i] + t->residual[at + i];
      else
        memcpy (y, out[r], n * sizeof *y);
    }
  }
}

static void
conv_task (gconstpointer data, gint64 index, gpointer scratch)
{
  Conv t = with_scratch (data, scratch);
  gint64 o = index % t.row_tasks * t.block_rows;
  gint64 block = index / t.row_tasks * t.grain;
  gint64 end = MIN (block + t.grain, t.blocks * t.x->shape[0]);

  for (; block < end; block++)
    conv_block (&t, block / t.blocks, block % t.blocks * BLOCK, o,
        MIN (o + t.block_rows, t.co));
}

/* Weights [Ci, Co, K], phase @phase's taps, of @rows outputs from @o on. */
static void
transpose_weights (const Conv *t, H3Taps *taps, gint64 phase, gint64 o,
    gint64 rows)
{
  taps->w_row = t->k;
  taps->w_tap = t->stride;
  if (t->weight->dtype == H3_DTYPE_F32) {
    taps->w_channel = t->co * t->k;
    taps->w = (const gfloat *) t->weight->data + o * t->k + phase;
    return;
  }
  for (gint64 c = 0; c < t->ci; c++)
    h3_widen (t->weights + c * rows * t->k, t->weight, (c * t->co + o) * t->k,
        rows * t->k);
  taps->w_channel = rows * t->k;
  taps->w = t->weights + phase;
}

/* Outputs i0 * stride + phase - pad for i0 .. i0 + BLOCK - 1 and all phases. */
static void
transpose_block (const Conv *t, gint64 item, gint64 i0, gint64 o, gint64 end)
{
  H3Taps taps = { .offset = t->offset, .channels = t->ci };
  gint64 lo = t->y->shape[2], u = t->stride;
  gint64 reach = h3_cpu_ceil_div (t->k, u) - 1;
  gint64 last = (lo - 1 + t->pad) / u; /* the last i0 that has outputs */
  gint64 n = MIN (BLOCK, last + 1 - i0);
  gfloat out[H3_TAPS_ROWS][BLOCK];
  gint rows = 0;

  block_input (t, &taps, item, i0 - reach, 1);
  for (; o < end; o += rows) {
    gfloat *y = (gfloat *) t->y->data + (item * t->co + o) * lo;

    taps.bias = t->bias ? t->bias + o : NULL;
    for (gint64 phase = 0; phase < u; phase++) {
      gint64 first = i0 * u + phase - t->pad;

      transpose_weights (t, &taps, phase, o, MIN (end - o, H3_TAPS_ROWS));
      taps.taps = h3_cpu_ceil_div (t->k - phase, u);
      rows = h3_taps_rows (&taps, end - o, n, out);
      for (gint r = 0; r < rows; r++)
        for (gint64 i = 0; i < n; i++)
          if (first + i * u >= 0 && first + i * u < lo)
            y[r * lo + first + i * u] = out[r][i];
    }
  }
}

static void
transpose_task (gconstpointer data, gint64 index, gpointer scratch)
{
  Conv t = with_scratch (data, scratch);
  gint64 o = index % t.row_tasks * t.block_rows;
  gint64 block = index / t.row_tasks * t.grain;
  gint64 end = MIN (block + t.grain, t.blocks * t.x->shape[0]);

  for (; block < end; block++)
    transpose_block (&t, block / t.blocks, block % t.blocks * BLOCK, o,
        MIN (o + t.block_rows, t.co));
}

/* Few blocks share their channels out, small ones go together. */
static void
run (H3Stream *stream, const gchar *op, Conv *t, gint64 phases, H3CpuTask task)
{
  gint64 all = t->blocks * t->x->shape[0];
  gsize scratch = 0, weights = 0;

  if (all == 0 || t->co == 0)
    return;
  t->row_tasks = all < MIN_TASKS ? h3_cpu_ceil_div (MIN_TASKS, all) : 1;
  t->block_rows = h3_cpu_ceil_div (t->co, t->row_tasks);
  t->block_rows = MAX (24, h3_cpu_ceil_div (t->block_rows, 12) * 12);
  t->row_tasks = h3_cpu_ceil_div (t->co, t->block_rows);
  t->grain =
      MAX (1, MIN_MACS / BLOCK /
                  MAX (1, MIN (t->co, t->block_rows) * (gdouble) t->ci * t->k));

  if (!g_size_checked_mul (&scratch, t->span, phases) ||
      !g_size_checked_mul (&scratch, scratch, t->ci) ||
      !g_size_checked_mul (&weights, H3_TAPS_ROWS * t->ci, t->k) ||
      !g_size_checked_add (&scratch, scratch, weights) ||
      !g_size_checked_mul (&scratch, scratch, sizeof (gfloat))) {
    h3_stream_fail (stream, H3_ERROR_NO_SPACE,
        "%s: the input of %" G_GSIZE_FORMAT
        " channels is more than can be addressed",
        op, (gsize) t->ci);
    return;
  }
  h3_cpu_for (stream, h3_cpu_ceil_div (all, t->grain) * t->row_tasks, scratch,
      task, t);
}

/* Where the stream's taps lie: kernels are short, larger ones are allocated. */
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
        "%s: no memory for a kernel of "
        "%" G_GINT64_FORMAT " taps",
        op, n);
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
    .stride = args->stride,
    .pad = args->pad };
  gint64 reach = (t.k - 1) * args->dilation;
  Offsets offsets;
  gint64 *offset = offsets_init (&offsets, stream, "conv1d", t.k);

  if (!offset)
    return;
  t.blocks = h3_cpu_ceil_div (args->y->shape[2], BLOCK);
  t.span = BLOCK + reach / t.stride;
  for (gint64 k = 0; k < t.k; k++) {
    gint64 at = k * args->dilation;
    offset[k] = at % t.stride * t.span + at / t.stride;
  }
  t.offset = offset;
  run (stream, "conv1d", &t, t.stride, conv_task);
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
    .length = args->x->shape[2],
    .stride = args->stride };
  gint64 reach = h3_cpu_ceil_div (t.k, t.stride) - 1;
  Offsets offsets;
  gint64 *offset =
      offsets_init (&offsets, stream, "conv_transpose1d", reach + 1);

  if (!offset)
    return;
  t.pad = (t.k - t.stride) / 2;
  t.span = BLOCK + reach;
  if (args->y->shape[2] > 0)
    t.blocks =
        h3_cpu_ceil_div ((args->y->shape[2] - 1 + t.pad) / t.stride + 1, BLOCK);
  for (gint64 j = 0; j <= reach; j++)
    offset[j] = reach - j;
  t.offset = offset;
  run (stream, "conv_transpose1d", &t, 1, transpose_task);
  g_free (offsets.many);
}
