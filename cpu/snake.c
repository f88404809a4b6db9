/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SnakeBeta at twice the rate, between two FIR filters (audio-vae.md 4.5 to
 * 4.9).
 *
 * The signal at twice the rate is kept as its even and odd samples, so that
 * every loop runs over neighbours. All loops go in whole STEPs: an element is
 * computed by the same instructions wherever it lies in a block, a row or a
 * chunk, which is why a slice with its halo gives the same bytes as the whole. */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

#define TAPS 12
#define HALF (TAPS / 2)
#define STEP 16
#define BLOCK 512
#define REACH 3 /* y[n] reads activations n - 3 .. n + 3 */
#define SIZE (BLOCK + STEP)

/* x[first + i], edges repeated. */
static void
take (gfloat *out, const gfloat *x, gint64 length, gint64 first, gint n)
{
  if (first >= 0 && first + n <= length) {
    memcpy (out, x + first, n * sizeof *out);
    return;
  }
  for (gint i = 0; i < n; i++)
    out[i] = x[CLAMP (first + i, 0, length - 1)];
}

/* y[i] = 2 sum_m f[2 m] x[i - m] */
static void
up (gfloat *restrict y, const gfloat *restrict x, gint n, const gfloat *f)
{
  for (gint i = 0; i < n; i += STEP)
    for (gint k = 0; k < STEP; k++) {
      gfloat sum = f[0] * x[i + k];

      for (gint m = 1; m < HALF; m++)
        sum = h3_fma (f[2 * m], x[i + k - m], sum);
      y[i + k] = 2 * sum;
    }
}

/* u <- u + inv_b sin (a u)² */
static void
activate (gfloat *restrict u, gint n, gfloat a, gfloat inv_b)
{
  guint32 largest = 0; /* of the bits of |a u|, which order as the numbers do */

  for (gint i = 0; i < n; i++)
    largest = MAX (largest, h3_float_bits (a * u[i]) & 0x7fffffff);
  if (G_UNLIKELY (largest > h3_float_bits (H3_SINF_LIMIT))) {
    for (gint i = 0; i < n; i++) {
      gfloat s = h3_sinf (a * u[i]);
      u[i] = h3_fma (inv_b, s * s, u[i]);
    }
    return;
  }
  for (gint i = 0; i < n; i += STEP)
    for (gint k = 0; k < STEP; k++) {
      gfloat s = h3_sinf_reduced (a * u[i + k]);
      u[i + k] = h3_fma (inv_b, s * s, u[i + k]);
    }
}

/* y[i] = sum_k f[k] v[2 i + k - 5]; v's even and odd samples begin REACH
 * before y's */
static void
down (gfloat *restrict y, const gfloat *restrict even,
    const gfloat *restrict odd, gint n, const gfloat *f)
{
  for (gint i = 0; i < n; i += STEP)
    for (gint k = 0; k < STEP; k++) {
      gfloat sum = f[0] * odd[i + k];

      sum = h3_fma (f[1], even[i + k + 1], sum);
      for (gint m = 1; m < HALF; m++) {
        sum = h3_fma (f[2 * m], odd[i + k + m], sum);
        sum = h3_fma (f[2 * m + 1], even[i + k + m + 1], sum);
      }
      y[i + k] = sum;
    }
}

typedef struct {
  const H3SnakeBetaArgs *args;
  gint64 length, blocks;
  gint64 grain; /* blocks of a task */
} Snake;

static void
snake_block (const Snake *t, gint64 row, gint64 n0)
{
  const H3SnakeBetaArgs *s = t->args;
  const gfloat *x = (const gfloat *) s->x->data + row * t->length;
  gint64 c = row % s->x->shape[1], first = n0 - REACH;
  gfloat a = ((const gfloat *) s->a->data)[c];
  gfloat inv_b = ((const gfloat *) s->inv_b->data)[c];
  const gfloat *filter = s->up_filter->data;
  gint n = MIN (BLOCK, t->length - n0);
  gint steps = (n + STEP - 1) / STEP * STEP, wide = steps + STEP;
  gfloat in[SIZE + 2 * STEP], even[SIZE], odd[SIZE], out[BLOCK];

  /* even sample 2i from x[i - 3 .. i + 2], odd 2i + 1 from x[i - 2 .. i + 3] */
  take (in, x, t->length, first - 3, wide + HALF);
  up (even, in + 5, wide, filter + 1);
  up (odd, in + 6, wide, filter);
  activate (even, wide, a, inv_b);
  activate (odd, wide, a, inv_b);
  /* beyond the ends the activated signal repeats, not the signal */
  for (gint i = 0; first + i < 0; i++)
    even[i] = odd[i] = even[-first];
  for (gint i = MIN (t->length - first, SIZE); i < n + 2 * REACH; i++)
    even[i] = odd[i] = odd[t->length - first - 1];
  down (out, even, odd, steps, s->down_filter->data);
  memcpy ((gfloat *) s->y->data + row * t->length + n0, out, n * sizeof *out);
}

static void
snake_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Snake *t = data;
  gint64 rows = t->args->x->shape[0] * t->args->x->shape[1];
  gint64 end = MIN ((index + 1) * t->grain, rows * t->blocks);

  for (gint64 i = index * t->grain; i < end; i++)
    snake_block (t, i / t->blocks, i % t->blocks * BLOCK);
}

void
H3_ISA (h3_cpu_snake_beta) (H3Stream *stream, const H3SnakeBetaArgs *args)
{
  Snake t = { .args = args, .length = args->x->shape[2] };
  gint64 rows = args->x->shape[0] * args->x->shape[1];

  t.blocks = h3_cpu_ceil_div (t.length, BLOCK);
  t.grain = MAX (1, H3_CPU_GRAIN / MAX (MIN (t.length, BLOCK), 1));
  h3_cpu_for (stream, h3_cpu_ceil_div (rows * t.blocks, t.grain), 0, snake_task,
      &t);
}

/* The encoder's, without filters (4.4). */

typedef struct {
  const H3SnakeArgs *args;
  gint64 length, blocks;
  gint64 grain; /* blocks of a task */
} Plain;

static void
plain_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Plain *t = data;
  const H3SnakeArgs *s = t->args;
  gint64 channels = s->x->shape[1];
  gint64 end =
      MIN ((index + 1) * t->grain, s->x->shape[0] * channels * t->blocks);

  for (gint64 i = index * t->grain; i < end; i++) {
    gint64 row = i / t->blocks, n0 = i % t->blocks * BLOCK;
    gint64 at = row * t->length + n0;
    gint n = MIN (BLOCK, t->length - n0);
    gint steps = (n + STEP - 1) / STEP * STEP;
    gfloat u[BLOCK];

    memcpy (u, (const gfloat *) s->x->data + at, n * sizeof *u);
    memset (u + n, 0, (steps - n) * sizeof *u);
    activate (u, steps, ((const gfloat *) s->a->data)[row % channels],
        ((const gfloat *) s->inv_a->data)[row % channels]);
    memcpy ((gfloat *) s->y->data + at, u, n * sizeof *u);
  }
}

void
H3_ISA (h3_cpu_snake) (H3Stream *stream, const H3SnakeArgs *args)
{
  Plain t = { .args = args, .length = args->x->shape[2] };
  gint64 rows = args->x->shape[0] * args->x->shape[1];

  t.blocks = h3_cpu_ceil_div (t.length, BLOCK);
  t.grain = MAX (1, H3_CPU_GRAIN / MAX (MIN (t.length, BLOCK), 1));
  h3_cpu_for (stream, h3_cpu_ceil_div (rows * t.blocks, t.grain), 0, plain_task,
      &t);
}
