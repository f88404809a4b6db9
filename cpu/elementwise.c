/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gates and residual sums. */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

typedef struct {
  H3Tensor *y;
  const H3Tensor *a, *b, *c;
  const gint32 *rows;
  guint gate;
  gint64 grain; /* rows or elements of a task */
} Args;

static void
swiglu_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Args *t = data;
  gint64 f = h3_tensor_cols (t->y);
  gint64 end = MIN ((index + 1) * t->grain, h3_tensor_rows (t->y));

  for (gint64 s = index * t->grain; s < end; s++) {
    const gfloat *gate = (const gfloat *) t->a->data + s * 2 * f;
    const gfloat *up = gate + f;
    gfloat *restrict y = (gfloat *) t->y->data + s * f;

    for (gint64 i = 0; i < f; i++)
      y[i] = h3_siluf (gate[i]) * up[i];
  }
}

void
H3_ISA (h3_cpu_swiglu) (H3Stream *stream, H3Tensor *y, const H3Tensor *gate_up)
{
  Args t = { .y = y,
    .a = gate_up,
    .grain = h3_cpu_row_grain (2 * h3_tensor_cols (y)) };

  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (y), t.grain), 0,
      swiglu_task, &t);
}

/* x += scale * branch, the scale's row by number or the only one. */
static void
residual_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Args *t = data;
  gint64 h = h3_tensor_cols (t->y), width = h3_tensor_cols (t->b);
  gint64 end = MIN ((index + 1) * t->grain, h3_tensor_rows (t->y));

  for (gint64 s = index * t->grain; s < end; s++) {
    const gfloat *branch = (const gfloat *) t->a->data + s * h;
    const gfloat *scale = (const gfloat *) t->b->data + t->gate * h +
                          (t->rows ? t->rows[s] * width : 0);
    gfloat *restrict x = (gfloat *) t->y->data + s * h;

    for (gint64 i = 0; i < h; i++)
      x[i] += scale[i] * branch[i];
  }
}

void
H3_ISA (h3_cpu_scaled_residual) (H3Stream *stream, H3Tensor *x,
    const H3Tensor *branch, const H3Tensor *scale)
{
  Args t = { .y = x,
    .a = branch,
    .b = scale,
    .grain = h3_cpu_row_grain (h3_tensor_cols (x)) };

  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (x), t.grain), 0,
      residual_task, &t);
}

void
H3_ISA (h3_cpu_gated_residual) (H3Stream *stream, H3Tensor *x,
    const H3Tensor *branch, const H3Tensor *table, const H3Tensor *rows,
    guint gate)
{
  Args t = { .y = x,
    .a = branch,
    .b = table,
    .rows = rows->data,
    .gate = gate,
    .grain = h3_cpu_row_grain (h3_tensor_cols (x)) };

  if (!h3_cpu_rows_inside (stream, "gated_residual", rows,
          h3_tensor_rows (table)))
    return;
  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (x), t.grain), 0,
      residual_task, &t);
}

static void
mean3_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Args *t = data;
  gint64 end = MIN ((index + 1) * t->grain, h3_tensor_size (t->y));
  const gfloat *a = t->a->data, *b = t->b->data;
  const gfloat *c = t->c ? t->c->data : NULL;
  gfloat *y = t->y->data;

  if (c)
    for (gint64 i = index * t->grain; i < end; i++)
      y[i] = ((a[i] + b[i]) + c[i]) / 3.0f;
  else
    for (gint64 i = index * t->grain; i < end; i++)
      y[i] = (a[i] + b[i]) / 2.0f;
}

void
H3_ISA (h3_cpu_mean3) (H3Stream *stream, H3Tensor *y, const H3Tensor *a,
    const H3Tensor *b, const H3Tensor *c)
{
  Args t = { .y = y, .a = a, .b = b, .c = c, .grain = 2 * H3_CPU_GRAIN };

  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_size (y), t.grain), 0,
      mean3_task, &t);
}

void
H3_ISA (h3_cpu_multiply) (H3Stream *stream, H3Tensor *y, const H3Tensor *x)
{
  const gfloat *factor = x->data;
  gfloat *value = y->data;

  for (gint64 i = 0, n = h3_tensor_size (y); i < n; i++)
    value[i] *= factor[i];
}

/* Comparisons with NaN are false, so NaN passes. */
void
H3_ISA (
    h3_cpu_interleave_clamp) (H3Stream *stream, H3Tensor *y, const H3Tensor *x)
{
  gint64 channels = x->shape[0], length = x->shape[2];

  for (gint64 b = 0; b < channels; b++)
    for (gint64 n = 0; n < length; n++) {
      gfloat v = ((const gfloat *) x->data)[b * length + n];

      v = v > 1 ? 1 : v;
      v = v < -1 ? -1 : v;
      ((gfloat *) y->data)[n * channels + b] = v;
    }
}
