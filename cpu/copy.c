/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies: with conversion, scaled, by row number. */
#include "cpu/decode.h"
#include "cpu/mathf.h"

typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Weight *weight;
  const gint32 *rows;
  gint64 grain;
  gfloat factor;
} Copy;

static void
convert (H3Tensor *y, const H3Tensor *x, gint64 first, gint64 n)
{
  gfloat wide[256];

  for (gint64 i = 0; i < n; i += 256) {
    gint64 m = MIN (n - i, 256);
    guint16 *half = (guint16 *) y->data + first + i;

    if (y->dtype == H3_DTYPE_F32) {
      h3_widen ((gfloat *) y->data + first + i, x, first + i, m);
      continue;
    }
    h3_widen (wide, x, first + i, m);
    for (gint64 k = 0; k < m; k++)
      half[k] = y->dtype == H3_DTYPE_BF16 ? h3_float_to_bf16 (wide[k])
                                          : h3_float_to_f16 (wide[k]);
  }
}

static void
copy_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Copy *c = data;
  gint64 first = index * c->grain;
  gint64 n = MIN (c->grain, h3_tensor_size (c->y) - first);
  gsize item = h3_dtype_size (c->y->dtype);

  if (c->y->dtype == c->x->dtype)
    memcpy ((guint8 *) c->y->data + first * item,
        (const guint8 *) c->x->data + first * item, n * item);
  else
    convert (c->y, c->x, first, n);
}

void
H3_ISA (h3_cpu_copy) (H3Stream *stream, H3Tensor *dst, const H3Tensor *src)
{
  Copy c = { .y = dst, .x = src, .grain = 4 * H3_CPU_GRAIN };

  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_size (dst), c.grain), 0,
      copy_task, &c);
}

static void
scale_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Copy *c = data;
  gint64 first = index * c->grain;
  gint64 n = MIN (c->grain, h3_tensor_size (c->y) - first);
  gfloat *y = (gfloat *) c->y->data + first;
  const gfloat *x = (const gfloat *) c->x->data + first;

  for (gint64 i = 0; i < n; i++)
    y[i] = c->factor * x[i];
}

void
H3_ISA (h3_cpu_scale) (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    gfloat factor)
{
  Copy c = { .y = y, .x = x, .grain = 4 * H3_CPU_GRAIN, .factor = factor };

  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_size (y), c.grain), 0,
      scale_task, &c);
}

static void
embedding_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Copy *c = data;
  gint64 cols = c->weight->cols;
  gint64 end = MIN ((index + 1) * c->grain, h3_tensor_rows (c->y));

  for (gint64 i = index * c->grain; i < end; i++)
    H3_ISA (h3_cpu_decode)
    (c->weight, c->rows[i], 0, cols, (gfloat *) c->y->data + i * cols);
}

void
H3_ISA (h3_cpu_embedding) (H3Stream *stream, H3Tensor *y,
    const H3Weight *weight, const H3Tensor *ids)
{
  Copy c = { .y = y, .weight = weight, .rows = ids->data };

  if (!h3_cpu_rows_inside (stream, "embedding", ids, weight->rows))
    return;
  c.grain = h3_cpu_row_grain (h3_tensor_cols (y));
  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (y), c.grain), 0,
      embedding_task, &c);
}

/* Not in parallel: two rows may name the same one, and the last has to win. */
void
H3_ISA (h3_cpu_scatter_rows) (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows)
{
  const gint32 *row = rows->data;
  gint64 cols = h3_tensor_cols (x);

  if (!h3_cpu_rows_inside (stream, "scatter_rows", rows, h3_tensor_rows (y)))
    return;
  for (gint64 i = 0; i < rows->shape[0]; i++)
    memcpy ((gfloat *) y->data + row[i] * cols,
        (const gfloat *) x->data + i * cols, cols * sizeof (gfloat));
}

/* Not in parallel either: rows that name the same one add up. */
void
H3_ISA (h3_cpu_add_rows) (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows)
{
  const gint32 *row = rows->data;
  gint64 cols = h3_tensor_cols (x);

  if (!h3_cpu_rows_inside (stream, "add_rows", rows, h3_tensor_rows (y)))
    return;
  for (gint64 i = 0; i < rows->shape[0]; i++) {
    const gfloat *from = (const gfloat *) x->data + i * cols;
    gfloat *to = (gfloat *) y->data + row[i] * cols;

    for (gint64 k = 0; k < cols; k++)
      to[k] += from[k];
  }
}

void
H3_ISA (h3_cpu_count_nonfinite) (H3Stream *stream, H3Tensor *count,
    const H3Tensor *x)
{
  gint64 n = h3_tensor_size (x), found = 0;
  const guint32 *word = x->data;
  const guint16 *half = x->data;

  /* Not finite is: the exponent is all ones. */
  if (x->dtype == H3_DTYPE_F32) {
    for (gint64 i = 0; i < n; i++)
      found += (word[i] & 0x7f800000) == 0x7f800000;
  } else {
    guint16 exponent = x->dtype == H3_DTYPE_F16 ? 0x7c00 : 0x7f80;
    for (gint64 i = 0; i < n; i++)
      found += (half[i] & exponent) == exponent;
  }
  *(gint32 *) count->data = MIN (found, G_MAXINT32);
}
