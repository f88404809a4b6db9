/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rows of floats as E4M3 with a scale each (checkpoints.md 5.3). */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

#define MOST 448.0f

typedef struct {
  const H3Tensor *x;
  guint8 *q;
  gfloat *scale;
  gint64 cols, grain;
} Quantise;

/* To nearest, ties to even. Below 2^-6 codes are multiples of 2^-9; above they
 * are a float's upper bits with another bias, where a carry out of the mantissa
 * is right as it is. */
static inline guint8
e4m3_code (gfloat v)
{
  guint32 bits = h3_float_bits (v), sign = bits >> 24 & 0x80;
  gfloat a = h3_bits_float (bits & 0x7fffffff);
  guint32 normal, small;

  if (isnan (v))
    return sign | 0x7f;
  a = a < MOST ? a : MOST;
  bits = h3_float_bits (a);
  normal = ((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - (120 << 3);
  /* 1.5 2^23: what is added to it is rounded to a whole number */
  small = h3_float_bits ((a < 1 ? a : 1) * 512 + 12582912.0f) & 0xff;
  return sign | (a < 0x1p-6f ? small : normal);
}

/* Bits without sign are ordered as the numbers are, Inf and NaN at the end. */
static gfloat
largest (const gfloat *x, gint64 n)
{
  guint32 most = 0;

  for (gint64 i = 0; i < n; i++) {
    guint32 bits = h3_float_bits (x[i]) & 0x7fffffff;
    most = most > bits ? most : bits;
  }
  return h3_bits_float (most);
}

static void
quantise_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Quantise *a = data;
  gint64 end = MIN ((index + 1) * a->grain, h3_tensor_rows (a->x));
  gfloat *x = scratch;

  for (gint64 row = index * a->grain; row < end; row++) {
    guint8 *q = a->q + row * a->cols;
    gfloat most, per;

    h3_widen (x, a->x, row * a->cols, a->cols);
    most = largest (x, a->cols);
    if (most < H3_QUANTISED_LEAST)
      most = H3_QUANTISED_LEAST;
    a->scale[row] = most / MOST;
    per = MOST / most;
    for (gint64 i = 0; i < a->cols; i++)
      q[i] = e4m3_code (x[i] * per);
  }
}

void
H3_ISA (h3_cpu_quantise_rows) (H3Stream *stream, H3Tensor *q, H3Tensor *scale,
    const H3Tensor *x)
{
  Quantise a = { .x = x,
    .q = q->data,
    .scale = scale->data,
    .cols = h3_tensor_cols (x) };

  a.grain = h3_cpu_row_grain (a.cols);
  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (x), a.grain),
      a.cols * sizeof (gfloat), quantise_task, &a);
}
