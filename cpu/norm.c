/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* RMS norm with modulation by table row, and layer norm. */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

#define LANES 16

/* Sums in LANES partial sums, in double: norms of long rows stay exact to
 * float, and the order is the same for every instruction set. */
static gdouble
sum (const gfloat *x, gint64 n)
{
  gdouble lane[LANES] = { 0 }, total = 0;
  gint64 i = 0;

  for (; i + LANES <= n; i += LANES)
    for (gint k = 0; k < LANES; k++)
      lane[k] += x[i + k];
  for (; i < n; i++)
    lane[i % LANES] += x[i];
  for (gint k = 0; k < LANES; k++)
    total += lane[k];
  return total;
}

/* sum (x - mean)² */
static gdouble
sum_squares (const gfloat *x, gint64 n, gdouble mean)
{
  gdouble lane[LANES] = { 0 }, total = 0;
  gint64 i = 0;

  for (; i + LANES <= n; i += LANES)
    for (gint k = 0; k < LANES; k++)
      lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
  for (; i < n; i++)
    lane[i % LANES] += (x[i] - mean) * (x[i] - mean);
  for (gint k = 0; k < LANES; k++)
    total += lane[k];
  return total;
}

static void
rms_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3RmsNormArgs *a = data;
  gint64 h = h3_tensor_cols (a->x), grain = h3_cpu_row_grain (h);
  gint64 end = MIN ((index + 1) * grain, h3_tensor_rows (a->x));
  const gfloat *w = a->weight->data;

  for (gint64 s = index * grain; s < end; s++) {
    const gfloat *x = (const gfloat *) a->x->data + s * h;
    gfloat *y = (gfloat *) a->y->data + s * h;
    gfloat rstd = 1.0 / sqrt (sum_squares (x, h, 0) / h + a->eps);

    for (gint64 i = 0; i < h; i++)
      y[i] = x[i] * rstd * w[i];
    if (a->table) {
      const gint32 *rows = a->rows->data;
      const gfloat *row =
          (const gfloat *) a->table->data + rows[s] * h3_tensor_cols (a->table);
      const gfloat *scale = row + a->scale * h, *shift = row + a->shift * h;

      for (gint64 i = 0; i < h; i++)
        y[i] = y[i] * (1 + scale[i]) + shift[i];
    }
  }
}

void
H3_ISA (h3_cpu_rms_norm) (H3Stream *stream, const H3RmsNormArgs *args)
{
  gint64 grain = h3_cpu_row_grain (h3_tensor_cols (args->x));

  if (args->table && !h3_cpu_rows_inside (stream, "rms_norm", args->rows,
                         h3_tensor_rows (args->table)))
    return;
  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (args->x), grain), 0,
      rms_task, args);
}

void
H3_ISA (h3_cpu_residual_norm) (H3Stream *stream, const H3ResidualNormArgs *args)
{
  const H3RmsNormArgs norm = { .y = args->y,
    .x = args->x,
    .weight = args->weight,
    .eps = args->eps };

  H3_ISA (h3_cpu_scaled_residual) (stream, args->x, args->branch, args->scale);
  H3_ISA (h3_cpu_rms_norm) (stream, &norm);
}

static void
layer_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3LayerNormArgs *a = data;
  gint64 h = h3_tensor_cols (a->x), grain = h3_cpu_row_grain (h);
  gint64 end = MIN ((index + 1) * grain, h3_tensor_rows (a->x));
  const gfloat *w = a->weight->data, *b = a->bias->data;

  for (gint64 s = index * grain; s < end; s++) {
    const gfloat *x = (const gfloat *) a->x->data + s * h;
    gfloat *y = (gfloat *) a->y->data + s * h;
    gdouble mean = sum (x, h) / h;
    gfloat rstd = 1.0 / sqrt (sum_squares (x, h, mean) / h + a->eps);

    for (gint64 i = 0; i < h; i++)
      y[i] = (gfloat) (x[i] - mean) * rstd * w[i] + b[i];
  }
}

void
H3_ISA (h3_cpu_layer_norm) (H3Stream *stream, const H3LayerNormArgs *args)
{
  gint64 grain = h3_cpu_row_grain (h3_tensor_cols (args->x));

  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (args->x), grain), 0,
      layer_task, args);
}
