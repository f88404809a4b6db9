/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matrix products and attention, on the GPU against the CPU. */
#include "tests/cuda/test-cuda.h"

static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

static void
try_linear (CudaTest *t, H3DType tx, H3DType tw, H3DType ty, gint m, gint n,
    gint k, gboolean bias, gboolean accumulate, H3Activation activation)
{
  Twin *x = twin_random (t, tx, 1, DIMS (m, k));
  Twin *w = twin_random (t, tw, 1 / sqrt (k), DIMS (n, k));
  Twin *b = twin_random (t, H3_DTYPE_F32, 1, DIMS (n));
  Twin *y = accumulate ? twin_random (t, ty, 1, DIMS (m, n))
                       : twin_out (t, ty, DIMS (m, n));
  g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
  g_autoptr (H3Weight) gpu = twin_weight_gpu (w);
  g_autofree gchar *what =
      g_strdup_printf ("linear %s by %s to %s, %d x %d x "
                       "%d, bias %d, accumulate %d, activation %d",
          h3_dtype_name (tx), h3_dtype_name (tw), h3_dtype_name (ty), m, n, k,
          bias, accumulate, activation);
  H3LinearArgs a = { y->cpu, x->cpu, cpu, bias ? b->cpu : NULL, activation,
    accumulate };
  H3LinearArgs g = { y->gpu, x->gpu, gpu, bias ? b->gpu : NULL, activation,
    accumulate };

  h3_linear (t->ops.stream, &a);
  h3_linear (t->gpu, &g);
  /* a bias is rounded to the result's type too */
  twin_check (t, what, y,
      (bias ? 1.5 : 1) * twin_tolerance (ty) + (ty == H3_DTYPE_F32 ? 1e-6 : 0));
}

static void
test_linear (CudaTest *t)
{
  /* as the models mix them */
  static const gint mixes[][3] = { { 2, 2, 2 }, { 2, 2, 0 }, { 1, 1, 1 },
    { 0, 0, 0 }, { 0, 0, 2 }, { 1, 0, 1 }, { 0, 1, 0 }, { 0, 2, 0 },
    { 2, 1, 2 }, { 2, 0, 0 } };

  for (guint i = 0; i < 12 * G_N_ELEMENTS (mixes); i++) {
    const gint *mix = mixes[i / 12];
    gboolean direct = mix[2] == 0 || (mix[0] == mix[1] && mix[1] == mix[2]);
    gboolean accumulate = i % 4 == 3 && direct;

    try_linear (t, types[mix[0]], types[mix[1]], types[mix[2]],
        i % 5 ? ops_pick (&t->ops, 1, 300) : 1, ops_pick (&t->ops, 1, 300),
        i % 3 ? 8 * ops_pick (&t->ops, 1, 60) : ops_pick (&t->ops, 1, 400),
        i % 2, accumulate, accumulate ? H3_ACTIVATION_NONE : i / 3 % 4);
  }
}

static void
try_linear_swiglu (CudaTest *t, H3DType type, H3DType tw, gint m, gint f,
    gint k, gboolean bias)
{
  Twin *x = twin_random (t, type, 1, DIMS (m, k));
  Twin *w = twin_random (t, tw, 6 / sqrt (k), DIMS (2 * f, k));
  Twin *b = twin_random (t, H3_DTYPE_F32, 1, DIMS (2 * f));
  Twin *y = twin_out (t, type, DIMS (m, f));
  Twin *both = twin_out (t, type, DIMS (m, 2 * f));
  g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
  g_autoptr (H3Weight) gpu = twin_weight_gpu (w);
  g_autofree gchar *what =
      g_strdup_printf ("linear_swiglu %s by %s, %d x %d x %d, bias %d",
          h3_dtype_name (type), h3_dtype_name (tw), m, f, k, bias);
  g_autofree gfloat *first = NULL;

  h3_linear_swiglu (t->ops.stream, &(H3LinearSwigluArgs){ y->cpu, x->cpu, cpu,
                                       bias ? b->cpu : NULL, both->cpu });
  for (gint i = 0; i < 3; i++) {
    g_autofree gfloat *values = NULL;

    h3_linear_swiglu (t->gpu, &(H3LinearSwigluArgs){ y->gpu, x->gpu, gpu,
                                  bias ? b->gpu : NULL, both->gpu });
    twin_check (t, what, y, 3 * twin_tolerance (type));
    values = twin_values (t, y);
    if (!first)
      first = g_steal_pointer (&values);
    else
      g_assert_cmpmem (first, 4 * m * f, values, 4 * m * f);
  }
}

/* Sizes that fill tiles of 256 rows by 128 columns, and such that do not. */
static void
test_linear_swiglu (CudaTest *t)
{
  static const gint sizes[][3] = { { 1, 8, 8 }, { 37, 41, 24 },
    { 256, 128, 64 }, { 256, 8, 8 }, { 255, 136, 72 }, { 250, 400, 136 },
    { 512, 129, 64 }, { 1000, 264, 328 }, { 2010, 1160, 56 },
    { 500, 2200, 200 } };

  for (guint i = 0; i < 24 * G_N_ELEMENTS (sizes); i++) {
    const gint *s = sizes[i / 24];

    try_linear_swiglu (t, types[i % 3], types[i % 3], s[0], s[1], s[2],
        i / 3 % 2);
  }
  try_linear_swiglu (t, H3_DTYPE_F16, H3_DTYPE_F32, 256, 128, 64, TRUE);
  if (!g_test_slow ())
    return;
  try_linear_swiglu (t, H3_DTYPE_F16, H3_DTYPE_F16, 1797 * 2, 8192, 2048, TRUE);
  try_linear_swiglu (t, H3_DTYPE_BF16, H3_DTYPE_BF16, 1024, 14336, 5376, FALSE);
}

static void
test_linear_big (CudaTest *t)
{
  if (!g_test_slow ()) {
    g_test_skip ("only with -m slow");
    return;
  }
  for (gint i = 0; i < 2; i++) {
    try_linear (t, types[2], types[2], types[2], 2049, 5376, 1024, i, FALSE,
        H3_ACTIVATION_NONE);
    try_linear (t, types[2], types[2], types[0], 300, 2560, 5120, i, TRUE,
        H3_ACTIVATION_NONE);
    try_linear (t, types[1], types[1], types[1], 1797, 2048, 2048, i, FALSE,
        H3_ACTIVATION_NONE);
    try_linear (t, types[0], types[0], types[2], 38010, 672, 96, i, FALSE,
        H3_ACTIVATION_NONE);
    /* by pieces, where it is aligned, and in more than one step of rows */
    for (gint k = 0; k < 4; k++)
      try_linear (t, types[0], types[0], types[0], 8300, 3072, 2048, i, k == 3,
          H3_ACTIVATION_NONE);
  }
}

/* The same product twice, and by another process tomorrow, has the same bytes:
 * here at least the first. */
static void
test_linear_repeats (CudaTest *t)
{
  Twin *x = twin_random (t, H3_DTYPE_BF16, 1, DIMS (1111, 512));
  Twin *w = twin_random (t, H3_DTYPE_BF16, 1, DIMS (1536, 512));
  Twin *y = twin_out (t, H3_DTYPE_BF16, DIMS (1111, 1536));
  g_autoptr (H3Weight) weight = twin_weight_gpu (w);
  g_autofree gfloat *first = NULL;

  for (gint i = 0; i < 4; i++) {
    g_autofree gfloat *values = NULL;

    h3_linear (t->gpu,
        &(H3LinearArgs){ .y = y->gpu, .x = x->gpu, .weight = weight });
    values = twin_values (t, y);
    if (!first)
      first = g_steal_pointer (&values);
    else
      g_assert_cmpmem (first, 1111 * 1536 * 4, values, 1111 * 1536 * 4);
  }
}

static void
test_linear_nan (CudaTest *t)
{
  for (guint d = 0; d < 3; d++) {
    g_autofree gfloat *values = g_new (gfloat, 80 * 40);
    Twin *x, *w = twin_random (t, types[d], 1, DIMS (90, 40));
    Twin *y = twin_out (t, types[d], DIMS (80, 90));
    g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
    g_autoptr (H3Weight) gpu = twin_weight_gpu (w);

    for (gint i = 0; i < 80 * 40; i++)
      values[i] = g_rand_double_range (t->ops.rand, -1, 1);
    values[41 * 40 + 7] = NAN;
    x = twin_of (t, types[d], values, DIMS (80, 40));
    h3_linear (t->ops.stream, &(H3LinearArgs){ y->cpu, x->cpu, cpu });
    h3_linear (t->gpu, &(H3LinearArgs){ y->gpu, x->gpu, gpu });
    twin_check (t, "linear of NaN", y, twin_tolerance (types[d]));
  }
}

static void
try_attention (CudaTest *t, H3DType type, gint length, gint sequences,
    gint heads, gint kv, gint d, gboolean causal)
{
  Twin *qkv = twin_random (t, type, 2,
      DIMS ((gint64) length * sequences, (heads + 2 * kv) * d));
  Twin *y = twin_out (t, type, DIMS ((gint64) length * sequences, heads * d));
  H3AttentionArgs a = { y->cpu, qkv->cpu, heads, kv, d, sequences, causal,
    1 / sqrtf (d) };
  H3AttentionArgs b = a;
  g_autofree gchar *what = g_strdup_printf ("attention %s, %d x %d rows, %d of "
                                            "%d heads of %d, causal %d",
      h3_dtype_name (type), sequences, length, heads, kv, d, causal);

  b.y = y->gpu;
  b.qkv = qkv->gpu;
  h3_attention (t->ops.stream, &a);
  h3_attention (t->gpu, &b);
  /* the probabilities are rounded as well */
  twin_check (t, what, y,
      type == H3_DTYPE_F32 ? 5e-6 : 2 * twin_tolerance (type));
}

static void
test_attention (CudaTest *t)
{
  static const gint lengths[] = { 1, 2, 15, 63, 64, 65, 127, 129, 200, 261 };
  static const gint heads[][2] = { { 1, 1 }, { 2, 1 }, { 3, 3 }, { 8, 2 } };
  static const gint dims[] = { 13, 16, 32, 64, 128, 72, 256 };

  for (guint i = 0; i < 12 * G_N_ELEMENTS (lengths); i++)
    try_attention (t, types[i % 3], lengths[i / 12], 1 + i / 3 % 3,
        heads[i % 4][0], heads[i % 4][1], dims[(i + i / 12) % 7], i / 2 % 2);
}

/* Long enough for cuDNN: one sequence, and the video decoder's batches. */
static void
test_attention_long (CudaTest *t)
{
  if (!g_test_slow ()) {
    g_test_skip ("only with -m slow");
    return;
  }
  for (guint d = 1; d < 3; d++) {
    try_attention (t, types[d], 1797, 3, 4, 4, 64, FALSE);
    try_attention (t, types[d], 1349, 2, 4, 4, 64, FALSE);
    try_attention (t, types[d], 4999, 1, 3, 3, 128, FALSE);
    try_attention (t, types[d], 1500, 1, 8, 1, 128, TRUE);
  }
  try_attention (t, types[0], 1500, 1, 2, 1, 64, FALSE);
}

/* The released length: some rows against a sum in double. */
static void
test_attention_released (CudaTest *t)
{
  const gint64 n = 38010, heads = 2, d = 128, width = 3 * heads * d;
  static const gint64 rows[] = { 0, 1, 12345, 37887, 38009 };
  g_autofree gfloat *got = NULL;
  g_autofree gdouble *p = NULL;
  Twin *qkv, *y;
  const gfloat *v;

  if (!g_test_slow ()) {
    g_test_skip ("only with -m slow");
    return;
  }
  qkv = twin_random (t, H3_DTYPE_BF16, 2, DIMS (n, width));
  y = twin_out (t, H3_DTYPE_BF16, DIMS (n, heads * d));
  h3_attention (t->gpu, &(H3AttentionArgs){ y->gpu, qkv->gpu, heads, heads, d,
                            1, FALSE, 1 / sqrtf (d) });
  got = twin_values (t, y);
  v = ops_f32 (qkv->cpu);
  p = g_new (gdouble, n);
  for (guint r = 0; r < G_N_ELEMENTS (rows) * heads; r++) {
    gint64 row = rows[r / heads], h = r % heads;
    gdouble top = -INFINITY, sum = 0, error2 = 0, norm2 = 0;

    for (gint64 j = 0; j < n; j++) {
      p[j] = 0;
      for (gint64 i = 0; i < d; i++)
        p[j] += (gdouble) v[row * width + h * d + i] *
                v[j * width + (heads + h) * d + i];
      p[j] /= sqrt (d);
      top = MAX (top, p[j]);
    }
    for (gint64 j = 0; j < n; j++)
      sum += p[j] = exp (p[j] - top);
    for (gint64 i = 0; i < d; i++) {
      gdouble want = 0;

      for (gint64 j = 0; j < n; j++)
        want += p[j] / sum * v[j * width + (2 * heads + h) * d + i];
      error2 += pow (got[(row * heads + h) * d + i] - want, 2);
      norm2 += want * want;
    }
    g_test_message ("row %" G_GINT64_FORMAT ": %.3g", row,
        sqrt (error2 / norm2));
    g_assert_cmpfloat (sqrt (error2 / norm2), <, 6e-3);
  }
  for (gint64 i = 0; i < n * heads * d; i++)
    g_assert_true (isfinite (got[i]));
}

/* Scores far from 0, the largest last or first. */
static void
test_attention_large (CudaTest *t)
{
  for (gint i = 0; i < 6; i++) {
    g_autofree gfloat *values = g_new (gfloat, 300 * 48);
    H3DType type = types[i % 3];
    Twin *qkv, *y = twin_out (t, type, DIMS (300, 16));

    for (gint k = 0; k < 300 * 48; k++)
      values[k] = g_rand_double_range (t->ops.rand, -1, 1);
    for (gint s = 0; s < 300; s++)
      values[s * 48 + 16] = (i / 3 ? s : 300 - s) * 3.0f;
    qkv = twin_of (t, type, values, DIMS (300, 48));
    h3_attention (t->ops.stream,
        &(H3AttentionArgs){ y->cpu, qkv->cpu, 1, 1, 16, 1, FALSE, 0.25 });
    h3_attention (t->gpu,
        &(H3AttentionArgs){ y->gpu, qkv->gpu, 1, 1, 16, 1, FALSE, 0.25 });
    twin_check (t, "attention of large scores", y,
        type == H3_DTYPE_F32 ? 1e-4 : 4 * twin_tolerance (type));
  }
}

/* A key of the second sequence: all rows of that sequence, none of the other;
 * causal: only the rows from it on. */
static void
test_attention_nan (CudaTest *t)
{
  static const gint lengths[] = { 200, 1100 };

  for (guint i = 0; i < 12; i++) {
    gint n = lengths[i % 2], d = i / 6 ? 128 : 13;
    H3DType type = types[i / 2 % 3];
    g_autofree gfloat *values = g_new (gfloat, 2 * n * 3 * d);

    for (gint causal = 0; causal < 2; causal++) {
      Twin *qkv, *y = twin_out (t, type, DIMS (2 * n, d));
      g_autofree gfloat *got = NULL;

      for (gint k = 0; k < 2 * n * 3 * d; k++)
        values[k] = g_rand_double_range (t->ops.rand, -1, 1);
      values[(n + 170) * 3 * d + d + 5] = NAN;
      qkv = twin_of (t, type, values, DIMS (2 * n, 3 * d));
      h3_attention (t->gpu,
          &(H3AttentionArgs){ y->gpu, qkv->gpu, 1, 1, d, 2, causal, 0.1 });
      got = twin_values (t, y);
      for (gint k = 0; k < 2 * n * d; k++)
        if ((isnan (got[k]) != 0) != (k / d >= n + (causal ? 170 : 0)))
          g_error ("%s, head of %d, causal %d: row %d of %d is %g",
              h3_dtype_name (type), d, causal, k / d, n, got[k]);
    }
  }
}

void
add_matrix_tests (void)
{
  cuda_test_add ("/cuda/matrix/linear", test_linear);
  cuda_test_add ("/cuda/matrix/linear/big", test_linear_big);
  cuda_test_add ("/cuda/matrix/linear/repeats", test_linear_repeats);
  cuda_test_add ("/cuda/matrix/linear/nan", test_linear_nan);
  cuda_test_add ("/cuda/matrix/linear-swiglu", test_linear_swiglu);
  cuda_test_add ("/cuda/matrix/attention", test_attention);
  cuda_test_add ("/cuda/matrix/attention/long", test_attention_long);
  cuda_test_add ("/cuda/matrix/attention/released", test_attention_released);
  cuda_test_add ("/cuda/matrix/attention/large", test_attention_large);
  cuda_test_add ("/cuda/matrix/attention/nan", test_attention_nan);
}
