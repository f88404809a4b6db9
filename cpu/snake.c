/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SnakeBeta at twice the rate, between two FIR filters (audio-vae.md 4.5 to
 * 4.9). */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

#define TAPS 12

static gfloat
activated (const gfloat *x, gint64 length, gint64 j, const gfloat *f, gfloat a,
    gfloat inv_b)
{
  gint64 i0 = (j + 5) / 2, phase = (j + 5) % 2;
  gfloat u = 0, s;

  for (gint m = 0; m < TAPS / 2; m++)
    u = h3_fma (f[phase + 2 * m], x[CLAMP (i0 - m, 0, length - 1)], u);
  u *= 2;
  s = sinf (a * u);
  return u + inv_b * (s * s);
}

static void
snake_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3SnakeBetaArgs *t = data;
  gint64 c = index % t->x->shape[1], length = t->x->shape[2];
  const gfloat *x = (const gfloat *) t->x->data + index * length;
  const gfloat *up = t->up_filter->data, *down = t->down_filter->data;
  gfloat a = ((const gfloat *) t->a->data)[c];
  gfloat inv_b = ((const gfloat *) t->inv_b->data)[c];
  gfloat *y = (gfloat *) t->y->data + index * length;

  for (gint64 n = 0; n < length; n++) {
    gfloat sum = 0;
    for (gint k = 0; k < TAPS; k++)
      sum = h3_fma (down[k], activated (x, length,
              CLAMP (2 * n + k - 5, 0, 2 * length - 1), up, a, inv_b), sum);
    y[n] = sum;
  }
}

void
H3_ISA (h3_cpu_snake_beta) (H3Stream *stream, const H3SnakeBetaArgs *args)
{
  h3_cpu_for (stream, args->x->shape[0] * args->x->shape[1], 0, snake_task,
      args);
}
