/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attention over tiles of query and key rows with a running softmax, so that
 * memory is a tile's whatever the length. */
#include <cblas.h>

#include "cpu/cpu.h"
#include "cpu/mathf.h"

#define TILE_Q 64
#define TILE_K 128
/* Short sequences' tiles go together, so that waking a thread pays. */
#define MIN_PRODUCTS (1 << 17)

typedef struct {
  const H3AttentionArgs *args;
  gint64 length; /* rows of a sequence */
  gint64 tiles;  /* query tiles of a sequence */
  gint64 all;    /* tiles of all sequences and heads */
  gint64 grain;  /* tiles of a task */
} Attention;

/* p = exp (p scale - max), with the running maximum, and the row's sum; returns
 * what earlier output of the row must be multiplied with. */
static gfloat
softmax_row (gfloat *p, gint64 n, gfloat scale, gfloat *max, gfloat *sum)
{
  gfloat lane[8], top = *max, base, fix;
  gint64 i;

  for (gint k = 0; k < 8; k++)
    lane[k] = top;
  for (i = 0; i + 8 <= n; i += 8)
    for (gint k = 0; k < 8; k++) {
      p[i + k] *= scale;
      lane[k] = p[i + k] > lane[k] ? p[i + k] : lane[k];
    }
  for (; i < n; i++) {
    p[i] *= scale;
    top = p[i] > top ? p[i] : top;
  }
  for (gint k = 0; k < 8; k++)
    top = lane[k] > top ? lane[k] : top;
  /* Nothing but -Inf so far: any base will do, and 0 is not NaN. */
  base = top == -INFINITY ? 0 : top;
  fix = h3_expf (*max - base);
  for (i = 0; i < n; i++)
    p[i] = h3_expf (p[i] - base);
  *max = top;
  *sum *= fix;
  for (gint k = 0; k < 8; k++)
    lane[k] = 0;
  for (i = 0; i + 8 <= n; i += 8)
    for (gint k = 0; k < 8; k++)
      lane[k] += p[i + k];
  for (; i < n; i++)
    lane[0] += p[i];
  for (gint k = 0; k < 8; k++)
    *sum += lane[k];
  return fix;
}

/* y += sum_t p[t] v[t]: what a causal row sees, and nothing else: in a product
 * of whole tiles a later row's NaN would come through its weight of 0. */
static void
add_values (gfloat *restrict y, const gfloat *p, gint64 n, const gfloat *v,
    gint64 stride, gint64 d)
{
  for (gint64 t = 0; t < n; t++, v += stride)
    for (gint64 i = 0; i < d; i++)
      y[i] = h3_fma (p[t], v[i], y[i]);
}

/* One tile of query rows of one head; @p: a tile of scores. */
static void
attention_tile (const Attention *t, gint64 index, gfloat *p)
{
  const H3AttentionArgs *a = t->args;
  gint64 d = a->head_dim, width = h3_tensor_cols (a->qkv);
  gint64 y_width = a->heads * d;
  gint64 q0 = index % t->tiles * TILE_Q;
  gint64 head = index / t->tiles % a->heads;
  gint64 first = index / t->tiles / a->heads * t->length;
  gint64 kv_head = head / (a->heads / a->kv_heads);
  const gfloat *base = (const gfloat *) a->qkv->data + first * width;
  const gfloat *q = base + q0 * width + head * d;
  const gfloat *k = base + (a->heads + kv_head) * d;
  const gfloat *v = k + a->kv_heads * d;
  gfloat *y = (gfloat *) a->y->data + (first + q0) * y_width + head * d;
  gint64 rows = MIN (TILE_Q, t->length - q0);
  gint64 seen = a->causal ? q0 + rows : t->length;
  gfloat max[TILE_Q], sum[TILE_Q];

  for (gint64 i = 0; i < rows; i++) {
    max[i] = -INFINITY;
    sum[i] = 0;
    memset (y + i * y_width, 0, d * sizeof *y);
  }
  for (gint64 k0 = 0; k0 < seen; k0 += TILE_K) {
    gint64 cols = MIN (TILE_K, seen - k0);
    gboolean diagonal = a->causal && k0 + cols > q0 + 1;

    cblas_sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, d, 1, q,
        width, k + k0 * width, width, 0, p, TILE_K);
    for (gint64 i = 0; i < rows; i++) {
      gfloat *row = p + i * TILE_K;
      gint64 n = a->causal ? CLAMP (q0 + i + 1 - k0, 0, cols) : cols;
      gfloat fix = softmax_row (row, n, a->scale, &max[i], &sum[i]);

      for (gint64 j = 0; j < d; j++)
        y[i * y_width + j] *= fix;
      if (diagonal)
        add_values (y + i * y_width, row, n, v + k0 * width, width, d);
    }
    if (!diagonal)
      cblas_sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, d, cols, 1,
          p, TILE_K, v + k0 * width, width, 1, y, y_width);
  }
  for (gint64 i = 0; i < rows; i++)
    for (gint64 j = 0; j < d; j++)
      y[i * y_width + j] /= sum[i];
}

static void
attention_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Attention *t = data;
  gint64 end = MIN ((index + 1) * t->grain, t->all);

  for (gint64 i = index * t->grain; i < end; i++)
    attention_tile (t, i, scratch);
}

void
H3_ISA (h3_cpu_attention) (H3Stream *stream, const H3AttentionArgs *args)
{
  Attention t = { .args = args,
    .length = h3_tensor_rows (args->qkv) / args->n_sequences };

  if (t.length == 0)
    return;
  if (h3_tensor_cols (args->qkv) > G_MAXINT32) {
    h3_stream_fail (stream, H3_ERROR_WRONG_TYPE,
        "attention: %" G_GINT64_FORMAT
        " columns are more than the matrix library can "
        "address",
        h3_tensor_cols (args->qkv));
    return;
  }
  t.tiles = h3_cpu_ceil_div (t.length, TILE_Q);
  t.all = args->n_sequences * args->heads * t.tiles;
  t.grain = MAX (1,
      MIN_PRODUCTS / (MIN (t.length, TILE_Q) * t.length * args->head_dim));
  h3_cpu_for (stream, h3_cpu_ceil_div (t.all, t.grain),
      TILE_Q * TILE_K * sizeof (gfloat), attention_task, &t);
}
