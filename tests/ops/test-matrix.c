/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matrix products, embedding and attention. */
#include "tests/ops/ops-test.h"

static const H3DType dtypes[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

static gdouble
activation (gdouble x, H3Activation kind)
{
  switch (kind) {
    case H3_ACTIVATION_SILU:
      return x / (1 + exp (-x));
    case H3_ACTIVATION_GELU_TANH:
      return 0.5 * x *
             (1 + tanh (sqrt (2 / G_PI) * (x + 0.044715 * pow (x, 3))));
    case H3_ACTIVATION_GELU_ERF:
      return 0.5 * x * (1 + erf (x / sqrt (2)));
    default:
      return x;
  }
}

static gdouble *
linear_reference (const H3LinearArgs *a)
{
  gint64 m = h3_tensor_rows (a->y), n = h3_tensor_cols (a->y);
  gint64 k = h3_tensor_cols (a->x);
  gdouble *want = g_new (gdouble, m * n);

  for (gint64 i = 0; i < m * n; i++) {
    gdouble sum = a->bias ? ops_at (a->bias, i % n) : 0;

    for (gint64 c = 0; c < k; c++)
      sum += ops_at (a->x, i / n * k + c) *
             ops_at (a->weight->tensor, i % n * k + c);
    want[i] = a->accumulate ? sum + ops_at (a->y, i)
                            : activation (sum, a->activation);
  }
  return want;
}

static void
try_linear (Ops *ops, H3DType dtype, gint m, gint n, gint k, gboolean bias,
    gboolean accumulate, H3Activation kind)
{
  g_autoptr (H3Weight) w = ops_weight (ops, dtype, 1, DIMS (n, k));
  H3LinearArgs args = { .weight = w,
    .activation = kind,
    .accumulate = accumulate };
  gdouble *want;

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (m, k));
  args.y = ops_random (ops, H3_DTYPE_F32, 1, DIMS (m, n));
  if (bias)
    args.bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (n));
  want = linear_reference (&args);
  h3_linear (ops->stream, &args);
  ops_check (ops, args.y, want, 2e-7 * k + 1e-6);
}

static void
test_linear (Ops *ops)
{
  for (gint i = 0; i < 36; i++)
    try_linear (ops, dtypes[i % 3], i % 5 ? ops_pick (ops, 1, 40) : 1,
        i % 7 ? ops_pick (ops, 1, 70) : 1, i % 11 ? ops_pick (ops, 1, 90) : 1,
        i % 2, i % 4 == 3, i % 4 == 3 ? H3_ACTIVATION_NONE : i / 4 % 4);
  /* several tiles with ragged ends; several panels of K */
  for (gint i = 0; i < 3; i++) {
    try_linear (ops, dtypes[i], 150, 201, 33, TRUE, FALSE, H3_ACTIVATION_SILU);
    try_linear (ops, dtypes[i], 2, 70, 2100, TRUE, FALSE, H3_ACTIVATION_NONE);
    try_linear (ops, dtypes[i], 3, 130, 2100, TRUE, TRUE, H3_ACTIVATION_NONE);
    try_linear (ops, dtypes[i], 700, 90, 20, FALSE, FALSE, H3_ACTIVATION_NONE);
  }
}

/* The two operations it joins, to the bit. */
static void
test_linear_swiglu (Ops *ops)
{
  for (gint i = 0; i < 18; i++) {
    gint m = ops_pick (ops, 1, 90), f = ops_pick (ops, 1, 70);
    gint k = ops_pick (ops, 1, 90), bytes = 4 * m * f;
    g_autoptr (H3Weight) w =
        ops_weight (ops, dtypes[i % 3], 1, DIMS (2 * f, k));
    H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (m, k));
    H3Tensor *bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2 * f));
    H3Tensor *both = ops_new (ops, H3_DTYPE_F32, DIMS (m, 2 * f));
    H3Tensor *want = ops_new (ops, H3_DTYPE_F32, DIMS (m, f));
    H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (m, f));
    H3LinearSwigluArgs args = { y, x, w, i % 2 ? bias : NULL, both };

    h3_linear (ops->stream,
        &(H3LinearArgs){ .y = both, .x = x, .weight = w, .bias = args.bias });
    h3_swiglu (ops->stream, want, both);
    h3_linear_swiglu (ops->stream, &args);
    g_assert_cmpmem (y->data, bytes, want->data, bytes);
  }
}

static void
test_linear_swiglu_shapes (Ops *ops)
{
  g_autoptr (H3Weight) w = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (8, 3));
  g_autoptr (H3Weight) odd = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (7, 3));
  H3LinearSwigluArgs args = { ops_new (ops, H3_DTYPE_F32, DIMS (5, 4)),
    ops_random (ops, H3_DTYPE_F32, 1, DIMS (5, 3)), w, NULL,
    ops_new (ops, H3_DTYPE_F32, DIMS (5, 8)) };
  H3LinearSwigluArgs bad = args;

  bad.weight = odd;
  h3_linear_swiglu (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "linear_swiglu: the weight is");
  bad = args;
  bad.bias = args.x;
  h3_linear_swiglu (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "linear_swiglu: the bias is");
  bad = args;
  bad.gate_up = args.y;
  h3_linear_swiglu (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "linear_swiglu: gate_up is");
  bad = args;
  bad.gate_up = NULL;
  h3_linear_swiglu (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "linear_swiglu: gate_up is missing");
  bad = args;
  bad.y = args.gate_up;
  h3_linear_swiglu (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "linear_swiglu: the weight is");
  h3_linear_swiglu (ops->stream, &args);
}

static void
test_linear_empty (Ops *ops)
{
  g_autoptr (H3Weight) w = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (4, 3));
  H3Tensor *x = ops_new (ops, H3_DTYPE_F32, DIMS (0, 3));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (0, 4));

  h3_linear (ops->stream, &(H3LinearArgs){ .y = y, .x = x, .weight = w });
}

static void
test_linear_nan (Ops *ops)
{
  for (gint i = 0; i < 3; i++) {
    g_autoptr (H3Weight) w = ops_weight (ops, dtypes[i], 1, DIMS (90, 40));
    H3LinearArgs args = { .weight = w, .activation = i + 1 };

    args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (80, 40));
    args.y = ops_new (ops, H3_DTYPE_F32, DIMS (80, 90));
    ops_f32 (args.x)[41 * 40 + 7] = NAN;
    if (i == 0)
      ops_f32 (w->tensor)[3 * 40 + 5] = NAN;
    else
      ((guint16 *) w->tensor->data)[3 * 40 + 5] = 0x7fff;
    h3_linear (ops->stream, &args);
    for (gint k = 0; k < 80 * 90; k++)
      g_assert_cmpint (isnan (ops_f32 (args.y)[k]) != 0, ==,
          k / 90 == 41 || k % 90 == 3);
  }
}

/* Every f16 and bf16 bit pattern, through the embedding. */
static void
test_embedding (Ops *ops)
{
  for (gint d = 1; d < 3; d++) {
    H3Weight *w = ops_weight (ops, dtypes[d], 1, DIMS (256, 256));
    H3Tensor *ids = ops_rows (ops, 300, 256);
    H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (300, 256));
    gdouble *want = g_new (gdouble, 300 * 256);

    for (gint i = 0; i < 65536; i++)
      ((guint16 *) w->tensor->data)[i] = i;
    for (gint i = 0; i < 256; i++)
      ((gint32 *) ids->data)[i] = i;
    for (gint i = 0; i < 300 * 256; i++)
      want[i] = ops_at (w->tensor,
          ((const gint32 *) ids->data)[i / 256] * 256 + i % 256);
    h3_embedding (ops->stream, y, w, ids);
    ops_check (ops, y, want, 0);
    h3_weight_unref (w);
  }
}

static gdouble *
attention_reference (const H3AttentionArgs *a)
{
  gint64 rows = h3_tensor_rows (a->y), d = a->head_dim;
  gint64 length = rows / a->n_sequences;
  gint64 width = h3_tensor_cols (a->qkv);
  gdouble *want = g_new0 (gdouble, rows * a->heads * d);
  g_autofree gdouble *p = g_new (gdouble, MAX (length, 1));

  for (gint64 s = 0; s < rows; s++)
    for (guint h = 0; h < a->heads; h++) {
      gint64 kv = a->heads + h / (a->heads / a->kv_heads);
      gint64 first = s / length * length;
      gint64 end = a->causal ? s + 1 : first + length;
      gdouble max = -INFINITY, sum = 0;

      for (gint64 t = first; t < end; t++) {
        gdouble dot = 0;

        for (gint64 i = 0; i < d; i++)
          dot += ops_at (a->qkv, s * width + h * d + i) *
                 ops_at (a->qkv, t * width + kv * d + i);
        p[t - first] = dot * a->scale;
        max = MAX (max, p[t - first]);
      }
      for (gint64 t = first; t < end; t++)
        sum += p[t - first] = exp (p[t - first] - max);
      for (gint64 t = first; t < end; t++)
        for (gint64 i = 0; i < d; i++)
          want[(s * a->heads + h) * d + i] +=
              p[t - first] / sum *
              ops_at (a->qkv, t * width + (kv + a->kv_heads) * d + i);
    }
  return want;
}

static H3AttentionArgs
attention_args (Ops *ops, gint length, gint sequences, gint heads,
    gint kv_heads, gint d, gboolean causal)
{
  H3AttentionArgs args = { .heads = heads,
    .kv_heads = kv_heads,
    .head_dim = d,
    .n_sequences = sequences,
    .causal = causal,
    .scale = 1 / sqrt (d) };

  args.qkv = ops_random (ops, H3_DTYPE_F32, 2,
      DIMS (length * sequences, (heads + 2 * kv_heads) * d));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (length * sequences, heads * d));
  return args;
}

static void
test_attention (Ops *ops)
{
  static const gint lengths[] = { 1, 2, 63, 64, 65, 127, 129, 200, 261 };
  static const gint heads[][2] = { { 1, 1 }, { 2, 1 }, { 3, 3 }, { 4, 2 },
    { 6, 2 } };
  static const gint dims[] = { 1, 8, 13, 16, 32 };

  for (guint i = 0; i < 2 * G_N_ELEMENTS (lengths); i++) {
    H3AttentionArgs args = attention_args (ops, lengths[i / 2], 1 + i % 3,
        heads[i % 5][0], heads[i % 5][1], dims[(i + 2) % 5], i % 2);

    h3_attention (ops->stream, &args);
    ops_check (ops, args.y, attention_reference (&args), 5e-6);
  }
}

/* Scores far from 0, and such that the largest comes last or first. */
static void
test_attention_large (Ops *ops)
{
  for (gint i = 0; i < 2; i++) {
    H3AttentionArgs args = attention_args (ops, 300, 1, 1, 1, 2, FALSE);
    gfloat *row = ops_f32 (args.qkv);

    for (gint s = 0; s < 300; s++, row += 6)
      row[2] = (i ? s : 300 - s) * 3.0f;
    h3_attention (ops->stream, &args);
    ops_check (ops, args.y, attention_reference (&args), 1e-4);
  }
}

/* The first tile of keys scores -Inf throughout: it has no weight. */
static void
test_attention_infinite (Ops *ops)
{
  H3AttentionArgs args = attention_args (ops, 300, 1, 1, 1, 1, FALSE);
  gfloat *row = ops_f32 (args.qkv);

  for (gint s = 0; s < 300; s++, row += 3) {
    row[0] = 1e30f;
    row[1] = s < 150 ? -1e30f : 0;
  }
  h3_attention (ops->stream, &args);
  ops_check (ops, args.y, attention_reference (&args), 5e-6);
}

static void
test_attention_nan (Ops *ops)
{
  H3AttentionArgs args = attention_args (ops, 200, 2, 2, 1, 8, FALSE);
  gfloat *qkv = ops_f32 (args.qkv);

  /* a key of sequence 1: all rows of that sequence, none of the other */
  qkv[(200 + 170) * 32 + 16] = NAN;
  h3_attention (ops->stream, &args);
  for (gint i = 0; i < 400 * 16; i++)
    g_assert_cmpint (isnan (ops_f32 (args.y)[i]) != 0, ==, i / 16 >= 200);
  /* causal: only the rows from it on */
  args.causal = TRUE;
  h3_attention (ops->stream, &args);
  for (gint i = 0; i < 400 * 16; i++)
    g_assert_cmpint (isnan (ops_f32 (args.y)[i]) != 0, ==, i / 16 >= 370);
  /* the same for a value of channel 2, in that channel of both heads */
  qkv[(200 + 170) * 32 + 16] = 0;
  qkv[(200 + 170) * 32 + 24 + 2] = NAN;
  h3_attention (ops->stream, &args);
  for (gint i = 0; i < 400 * 16; i++)
    g_assert_cmpint (isnan (ops_f32 (args.y)[i]) != 0, ==,
        i / 16 >= 370 && i % 8 == 2);
}

static void
test_shapes (Ops *ops)
{
  g_autoptr (H3Weight) w = ops_weight (ops, H3_DTYPE_BF16, 1, DIMS (4, 3));
  g_autoptr (H3Weight) none = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (4, 0));
  H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, 3));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (2, 4));
  H3Tensor *ids = ops_rows (ops, 2, 4);
  H3Tensor *wide = ops_new (ops, H3_DTYPE_F32, DIMS (2, 12));
  H3LinearArgs linear = { .y = y, .x = y, .weight = w };
  H3AttentionArgs attention = { .y = y,
    .qkv = wide,
    .heads = 1,
    .kv_heads = 1,
    .head_dim = 4,
    .n_sequences = 1 };

  h3_linear (ops->stream, &linear);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "linear: the weight is bfloat16 "
      "[4, 3], needs to be a float type [any, 4]");
  linear.x = x;
  linear.y = x;
  h3_linear (ops->stream, &linear);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "linear: y is float32 [2, 3], needs "
      "to be an activation type of this device [2, 4]");
  linear.y = y;
  linear.bias = x;
  h3_linear (ops->stream, &linear);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the bias");
  linear.bias = NULL;
  linear.accumulate = TRUE;
  linear.activation = H3_ACTIVATION_SILU;
  h3_linear (ops->stream, &linear);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "exclude each other");
  linear.accumulate = FALSE;
  linear.weight = none;
  linear.x = ops_new (ops, H3_DTYPE_F32, DIMS (2, 0));
  h3_linear (ops->stream, &linear);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "x has no columns");
  linear.x = NULL;
  h3_linear (ops->stream, &linear);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "x is missing");
  linear.x = x;
  linear.weight = NULL;
  h3_linear (ops->stream, &linear);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the weight is missing");

  h3_embedding (ops->stream, y, w, ids);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "embedding: y is float32 [2, 4]");
  h3_embedding (ops->stream, (H3Tensor *) x, w, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "embedding: ids is float32 [2, 3]");
  ((gint32 *) ids->data)[1] = 4;
  h3_embedding (ops->stream, (H3Tensor *) x, w, ids);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "row 1 names row 4, needs to be in "
      "0 .. 3");
  ((gint32 *) ids->data)[1] = -1;
  h3_embedding (ops->stream, (H3Tensor *) x, w, ids);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "row 1 names row -1");

  attention.heads = 2;
  h3_attention (ops->stream, &attention);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "attention: qkv is float32 [2, 12], "
      "needs to be an activation type of this device [any, 16]");
  attention.heads = 3;
  attention.kv_heads = 2;
  h3_attention (ops->stream, &attention);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "3 heads of 4 cannot share 2");
  attention.heads = attention.kv_heads = 1;
  attention.n_sequences = 3;
  h3_attention (ops->stream, &attention);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "2 rows cannot be cut into 3");
  attention.n_sequences = 1;
  attention.y = wide;
  h3_attention (ops->stream, &attention);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "attention: y is float32 [2, 12]");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/ops/matrix/linear", test_linear);
  ops_add ("/ops/matrix/linear/empty", test_linear_empty);
  ops_add ("/ops/matrix/linear/nan", test_linear_nan);
  ops_add ("/ops/matrix/linear-swiglu", test_linear_swiglu);
  ops_add ("/ops/matrix/linear-swiglu/shapes", test_linear_swiglu_shapes);
  ops_add ("/ops/matrix/embedding", test_embedding);
  ops_add ("/ops/matrix/attention", test_attention);
  ops_add ("/ops/matrix/attention/large", test_attention_large);
  ops_add ("/ops/matrix/attention/infinite", test_attention_infinite);
  ops_add ("/ops/matrix/attention/nan", test_attention_nan);
  ops_add ("/ops/matrix/shapes", test_shapes);
  return g_test_run ();
}
