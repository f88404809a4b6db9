/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matrix products by OpenBLAS, cut into a grid of tiles that depends on the
 * shape alone; each tile is one single-threaded product. */
#include <cblas.h>

#include "cpu/decode.h"
#include "cpu/mathf.h"

/* Columns of K decoded at a time. */
#define PANEL H3_DECODE_COLS

typedef struct {
  const H3LinearArgs *args;
  gint64 m, n, k;
  gint64 tile_m, tile_n;
  gint64 tiles_n;
} Linear;

static void
activate (gfloat *y, gint64 n, H3Activation activation)
{
  switch (activation) {
    case H3_ACTIVATION_NONE:
      break;
    case H3_ACTIVATION_SILU:
      for (gint64 i = 0; i < n; i++)
        y[i] = h3_siluf (y[i]);
      break;
    case H3_ACTIVATION_GELU_TANH:
      for (gint64 i = 0; i < n; i++)
        y[i] = h3_gelu_tanhf (y[i]);
      break;
    case H3_ACTIVATION_GELU_ERF:
      for (gint64 i = 0; i < n; i++)
        y[i] = h3_gelu_erff (y[i]);
      break;
  }
}

/* y tile (+)= x[m0 .., k0 ..] w[n0 .., k0 ..]ᵀ */
static void
product (const Linear *l, gint64 m0, gint64 m, gint64 n0, gint64 n, gint64 k0,
    gint64 k, const gfloat *w, gint64 w_stride)
{
  const H3LinearArgs *a = l->args;

  cblas_sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1,
      (const gfloat *) a->x->data + m0 * l->k + k0, l->k, w, w_stride,
      k0 > 0 || a->accumulate, (gfloat *) a->y->data + m0 * l->n + n0, l->n);
}

static void
linear_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Linear *l = data;
  const H3LinearArgs *a = l->args;
  const H3Tensor *weight = a->weight->tensor;
  gint64 m0 = index / l->tiles_n * l->tile_m;
  gint64 n0 = index % l->tiles_n * l->tile_n;
  gint64 m = MIN (l->tile_m, l->m - m0), n = MIN (l->tile_n, l->n - n0);

  if (weight && weight->dtype == H3_DTYPE_F32) {
    product (l, m0, m, n0, n, 0, l->k,
        (const gfloat *) weight->data + n0 * l->k, l->k);
  } else {
    for (gint64 k0 = 0; k0 < l->k; k0 += PANEL) {
      gint64 k = MIN (PANEL, l->k - k0);

      for (gint64 i = 0; i < n; i++)
        H3_ISA (h3_cpu_decode)
      (a->weight, n0 + i, k0, k, (gfloat *) scratch + i * k);
      product (l, m0, m, n0, n, k0, k, scratch, k);
    }
  }
  for (gint64 i = 0; i < m; i++) {
    gfloat *y = (gfloat *) a->y->data + (m0 + i) * l->n + n0;

    if (a->bias)
      for (gint64 j = 0; j < n; j++)
        y[j] += ((const gfloat *) a->bias->data)[n0 + j];
    activate (y, n, a->activation);
  }
}

/* Large tiles use the product's caches best; smaller ones when there would be
 * too few to share out; one when the whole is hardly work. */
static void
choose_tiles (Linear *l)
{
  gint64 tile = 256;

  while (tile > 64 &&
         h3_cpu_ceil_div (l->m, tile) * h3_cpu_ceil_div (l->n, tile) < 16)
    tile /= 2;
  if (l->m * l->n < (1 << 18) / MAX (l->k, 1))
    tile = MAX (l->m, l->n);
  l->tile_m = MIN (l->m, tile);
  l->tile_n = MIN (l->n, tile);
  l->tiles_n = h3_cpu_ceil_div (l->n, l->tile_n);
}

void
H3_ISA (h3_cpu_linear) (H3Stream *stream, const H3LinearArgs *args)
{
  Linear l = { .args = args,
    .m = h3_tensor_rows (args->x),
    .n = args->weight->rows,
    .k = h3_tensor_cols (args->x) };
  gsize scratch = 0;

  if (l.m == 0 || l.n == 0)
    return;
  if (l.k > G_MAXINT32 || l.n > G_MAXINT32) {
    h3_stream_fail (stream, H3_ERROR_WRONG_TYPE,
        "linear: a weight of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
        " is more than the matrix "
        "library can address",
        l.n, l.k);
    return;
  }
  choose_tiles (&l);
  if (!args->weight->tensor || args->weight->tensor->dtype != H3_DTYPE_F32)
    scratch = l.tile_n * MIN (l.k, PANEL) * sizeof (gfloat);
  h3_cpu_for (stream, h3_cpu_ceil_div (l.m, l.tile_m) * l.tiles_n, scratch,
      linear_task, &l);
}

void
H3_ISA (h3_cpu_linear_swiglu) (H3Stream *stream, const H3LinearSwigluArgs *args)
{
  const H3LinearArgs product = { .y = args->gate_up,
    .x = args->x,
    .weight = args->weight,
    .bias = args->bias };

  H3_ISA (h3_cpu_linear) (stream, &product);
  H3_ISA (h3_cpu_swiglu) (stream, args->y, args->gate_up);
}
