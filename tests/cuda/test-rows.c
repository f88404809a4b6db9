/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations on rows, on the GPU against the CPU. */
#include "tests/cuda/test-cuda.h"

static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };
/* the last ones: the released widths, and rows beyond 8192 elements */
static const gint sizes[][2] = { { 1, 1 }, { 1, 37 }, { 37, 1 }, { 5, 16 },
  { 130, 128 }, { 70, 129 }, { 3, 5376 }, { 9, 2048 }, { 2, 8200 } };

static void
test_copy (CudaTest *t)
{
  for (guint i = 0; i < 9; i++) {
    gint n = ops_pick (&t->ops, 1, 3000);
    Twin *x = twin_random (t, types[i / 3], 100, DIMS (3, n));
    Twin *y = twin_out (t, types[i % 3], DIMS (3, n));

    h3_copy (t->ops.stream, y->cpu, x->cpu);
    h3_copy (t->gpu, y->gpu, x->gpu);
    twin_check (t, "copy", y,
        i % 3 == i / 3 ? 0 : twin_tolerance (types[i % 3]));
  }
  for (guint i = 0; i < 4; i++) {
    Twin *x = twin_random (t, H3_DTYPE_F32, 1, DIMS (1000 * i + 1));
    Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (1000 * i + 1));

    h3_scale (t->ops.stream, y->cpu, x->cpu, 0.37f);
    h3_scale (t->gpu, y->gpu, x->gpu, 0.37f);
    twin_check (t, "scale", y, 0);
    h3_scale (t->ops.stream, y->cpu, y->cpu, 3);
    h3_scale (t->gpu, y->gpu, y->gpu, 3);
    twin_check (t, "scale in place", y, 0);
  }
}

/* Narrowing is to nearest, ties to even: exactly the CPU's, which is tested. */
static void
test_rounding (CudaTest *t)
{
  for (guint d = 1; d < 3; d++) {
    Twin *x = twin_random (t, H3_DTYPE_F32, 1e5, DIMS (1 << 20));
    Twin *y = twin_out (t, types[d], DIMS (1 << 20));
    g_autoptr (H3Tensor) narrow =
        h3_tensor_new_1d (t->ops.device, types[d], 1 << 20, NULL);

    for (gint i = 0; i < 1 << 20; i += 2) /* small numbers, ties */
      ops_f32 (x->cpu)[i] = ldexpf (2 * (i % 5001) + 1, -i % 31 - 12);
    h3_upload (t->gpu, x->gpu, x->cpu->data);
    h3_copy (t->ops.stream, narrow, x->cpu);
    h3_copy (t->ops.stream, y->cpu, narrow);
    h3_copy (t->gpu, y->gpu, x->gpu);
    twin_check (t, "rounding", y, 0);
  }
}

static void
try_rms_norm (CudaTest *t, H3DType ty, H3DType tx, H3DType table, gint s,
    gint h)
{
  Twin *x = twin_random (t, tx, 3, DIMS (s, h));
  Twin *w = twin_random (t, H3_DTYPE_F32, 1, DIMS (h));
  Twin *m = twin_random (t, table, 1, DIMS (7, 6 * h));
  Twin *rows = twin_rows (t, s, 7);
  Twin *y = twin_out (t, ty, DIMS (s, h));
  H3RmsNormArgs a = { .y = y->cpu, .x = x->cpu, .weight = w->cpu, .eps = 1e-5 };
  H3RmsNormArgs b = { .y = y->gpu, .x = x->gpu, .weight = w->gpu, .eps = 1e-5 };

  h3_rms_norm (t->ops.stream, &a);
  h3_rms_norm (t->gpu, &b);
  twin_check (t, "rms_norm", y, twin_tolerance (ty));
  a.table = m->cpu;
  b.table = m->gpu;
  a.rows = rows->cpu;
  b.rows = rows->gpu;
  a.shift = b.shift = 3;
  a.scale = b.scale = 5;
  h3_rms_norm (t->ops.stream, &a);
  h3_rms_norm (t->gpu, &b);
  twin_check (t, "rms_norm with a table", y, twin_tolerance (ty));
}

static void
test_rms_norm (CudaTest *t)
{
  for (guint i = 0; i < 3 * G_N_ELEMENTS (sizes); i++)
    try_rms_norm (t, types[i % 3], types[i / 3 % 3], types[(i + i / 9) % 3],
        sizes[i / 3][0], sizes[i / 3][1]);
  /* what the models use most, aligned more likely than not */
  for (guint i = 0; i < 6; i++)
    try_rms_norm (t, H3_DTYPE_BF16, i % 2 ? H3_DTYPE_F32 : H3_DTYPE_BF16,
        H3_DTYPE_BF16, 33, 5376);
  if (g_test_slow ())
    try_rms_norm (t, H3_DTYPE_BF16, H3_DTYPE_BF16, H3_DTYPE_BF16, 38010, 5376);
}

static void
test_layer_norm (CudaTest *t)
{
  for (guint i = 0; i < 2 * G_N_ELEMENTS (sizes); i++) {
    gint s = sizes[i / 2][0], h = sizes[i / 2][1];
    H3DType ty = types[i % 3];
    Twin *x = twin_random (t, types[i / 3 % 3], 3, DIMS (s, h));
    Twin *w = twin_random (t, H3_DTYPE_F32, 1, DIMS (h));
    Twin *b = twin_random (t, H3_DTYPE_F32, 1, DIMS (h));
    Twin *y = twin_out (t, ty, DIMS (s, h));

    h3_layer_norm (t->ops.stream,
        &(H3LayerNormArgs){ y->cpu, x->cpu, w->cpu, b->cpu, 1e-5 });
    h3_layer_norm (t->gpu,
        &(H3LayerNormArgs){ y->gpu, x->gpu, w->gpu, b->gpu, 1e-5 });
    twin_check (t, "layer_norm", y, twin_tolerance (ty));
  }
}

static void
try_rope (CudaTest *t, H3DType type, gint s, gint heads, gint kv, gint d,
    gint rot, gboolean gain)
{
  Twin *qkv = twin_random (t, type, 2, DIMS (s, (heads + 2 * kv) * d));
  Twin *q = twin_random (t, H3_DTYPE_F32, 1, DIMS (d));
  Twin *k = twin_random (t, H3_DTYPE_F32, 1, DIMS (d));
  gint period = s > 6 && s % 3 == 0 ? s / 3 : s;
  Twin *c = twin_random (t, H3_DTYPE_F32, 1, DIMS (period, MAX (rot, 1)));
  Twin *n = twin_random (t, H3_DTYPE_F32, 1, DIMS (period, MAX (rot, 1)));
  H3QkNormRopeArgs a = { .qkv = qkv->cpu,
    .heads = heads,
    .kv_heads = kv,
    .head_dim = d,
    .eps = 1e-6 };
  H3QkNormRopeArgs b = { .qkv = qkv->gpu,
    .heads = heads,
    .kv_heads = kv,
    .head_dim = d,
    .eps = 1e-6 };

  if (gain) {
    a.q_norm = q->cpu;
    b.q_norm = q->gpu;
    a.k_norm = k->cpu;
    b.k_norm = k->gpu;
  }
  if (rot) {
    a.cos = c->cpu;
    b.cos = c->gpu;
    a.sin = n->cpu;
    b.sin = n->gpu;
  }
  h3_qk_norm_rope (t->ops.stream, &a);
  h3_qk_norm_rope (t->gpu, &b);
  twin_check (t, "qk_norm_rope", qkv, 1.5 * twin_tolerance (type));
}

static void
test_rope (CudaTest *t)
{
  static const gint shape[][5] = { /* rows, heads, kv, dim, rot */
    { 1, 1, 1, 2, 1 }, { 9, 5, 5, 32, 12 }, { 30, 2, 1, 16, 8 },
    { 7, 4, 2, 13, 6 }, { 60, 56, 56, 128, 48 }, { 5, 64, 8, 128, 64 },
    { 12, 32, 32, 64, 24 }, { 4, 2, 2, 96, 48 }, { 4, 3, 1, 128, 33 },
    { 2, 1, 1, 256, 128 }
  };

  for (guint i = 0; i < 6 * G_N_ELEMENTS (shape); i++) {
    const gint *s = shape[i / 6];

    try_rope (t, types[i % 3], s[0], s[1], s[2], s[3], i % 4 == 3 ? 0 : s[4],
        i % 2);
  }
  if (g_test_slow ())
    try_rope (t, H3_DTYPE_BF16, 38010, 8, 8, 128, 48, TRUE);
}

static void
try_gates (CudaTest *t, H3DType tx, H3DType tb, H3DType table, gint s, gint h)
{
  Twin *x = twin_random (t, tx, 1, DIMS (s, h));
  Twin *branch = twin_random (t, tb, 1, DIMS (s, h));
  Twin *scale = twin_random (t, H3_DTYPE_F32, 1, DIMS (h));
  Twin *m = twin_random (t, table, 1, DIMS (3, 6 * h));
  Twin *rows = twin_rows (t, s, 3);
  Twin *gate_up = twin_random (t, tx, 20, DIMS (s, 2 * h));
  Twin *y = twin_out (t, tx, DIMS (s, h));

  h3_swiglu (t->ops.stream, y->cpu, gate_up->cpu);
  h3_swiglu (t->gpu, y->gpu, gate_up->gpu);
  twin_check (t, "swiglu", y, 2 * twin_tolerance (tx));
  h3_scaled_residual (t->ops.stream, x->cpu, branch->cpu, scale->cpu);
  h3_scaled_residual (t->gpu, x->gpu, branch->gpu, scale->gpu);
  twin_check (t, "scaled_residual", x, twin_tolerance (tx));
  h3_gated_residual (t->ops.stream, x->cpu, branch->cpu, m->cpu, rows->cpu, 4);
  h3_gated_residual (t->gpu, x->gpu, branch->gpu, m->gpu, rows->gpu, 4);
  twin_check (t, "gated_residual", x, 2 * twin_tolerance (tx));
}

static void
test_gates (CudaTest *t)
{
  for (guint i = 0; i < 3 * G_N_ELEMENTS (sizes); i++)
    try_gates (t, types[i % 3], types[i / 3 % 3], types[(i + i / 9) % 3],
        sizes[i / 3][0], sizes[i / 3][1]);
  /* more rows than a grid's second axis has */
  try_gates (t, H3_DTYPE_BF16, H3_DTYPE_BF16, H3_DTYPE_BF16, 70001, 8);
  if (g_test_slow ())
    try_gates (t, H3_DTYPE_BF16, H3_DTYPE_BF16, H3_DTYPE_BF16, 38010, 5376);
}

/* Against the CPU, and to the bit against the two operations it joins, on the
 * same memory. */
static void
try_residual_norm (CudaTest *t, H3DType tx, H3DType tb, H3DType ty, gint s,
    gint h)
{
  Twin *x = twin_random (t, tx, 3, DIMS (s, h));
  Twin *branch = twin_random (t, tb, 2, DIMS (s, h));
  Twin *scale = twin_random (t, H3_DTYPE_F32, 1, DIMS (h));
  Twin *w = twin_random (t, H3_DTYPE_F32, 1, DIMS (h));
  Twin *y = tb == ty && s % 2 ? branch : twin_out (t, ty, DIMS (s, h));
  Twin *old_x = twin_out (t, tx, DIMS (s, h));
  Twin *old_branch = twin_out (t, tb, DIMS (s, h));
  g_autofree gfloat *sum = NULL, *one_sum = NULL, *normed = NULL;
  g_autofree gfloat *one_normed = NULL;

  h3_copy (t->gpu, old_x->gpu, x->gpu);
  h3_copy (t->gpu, old_branch->gpu, branch->gpu);
  h3_scaled_residual (t->gpu, x->gpu, branch->gpu, scale->gpu);
  h3_rms_norm (t->gpu, &(H3RmsNormArgs){ y->gpu, x->gpu, w->gpu, 1e-5 });
  sum = twin_values (t, x);
  normed = twin_values (t, y);
  h3_copy (t->gpu, x->gpu, old_x->gpu);
  h3_copy (t->gpu, branch->gpu, old_branch->gpu);

  h3_residual_norm (t->ops.stream, &(H3ResidualNormArgs){ x->cpu, branch->cpu,
                                       scale->cpu, y->cpu, w->cpu, 1e-5 });
  h3_residual_norm (t->gpu, &(H3ResidualNormArgs){ x->gpu, branch->gpu,
                                scale->gpu, y->gpu, w->gpu, 1e-5 });
  twin_check (t, "residual_norm: x", x, twin_tolerance (tx));
  twin_check (t, "residual_norm: y", y, 2 * twin_tolerance (MAX (tx, ty)));
  one_sum = twin_values (t, x);
  one_normed = twin_values (t, y);
  g_assert_cmpmem (one_sum, 4 * s * h, sum, 4 * s * h);
  g_assert_cmpmem (one_normed, 4 * s * h, normed, 4 * s * h);
}

static void
test_residual_norm (CudaTest *t)
{
  for (guint i = 0; i < 6 * G_N_ELEMENTS (sizes); i++)
    try_residual_norm (t, types[i / 2 % 3], types[i % 3],
        types[i % 2 ? i % 3 : (i + i / 9) % 3], sizes[i / 6][0],
        sizes[i / 6][1]);
  /* what the video decoder uses, aligned more likely than not */
  for (guint i = 0; i < 12; i++)
    try_residual_norm (t, H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_F16, 32 + i,
        2048 - i / 3 * 8);
}

/* Bit for bit. */
static void
test_solver (CudaTest *t)
{
  for (gint i = 0; i < 6; i++) {
    gint n = ops_pick (&t->ops, 1, 40000);
    Twin *x = twin_random (t, H3_DTYPE_F32, 1, DIMS (n, 3));
    Twin *v = twin_random (t, H3_DTYPE_F32, 1, DIMS (n, 3));
    Twin *d = twin_random (t, H3_DTYPE_F32, 1, DIMS (n, 3));
    H3SolverArgs a = { .x = x->cpu,
      .v = v->cpu,
      .in_scale = 0.9f,
      .sigma_t = 0.37f,
      .d_scale = 4,
      .a = 0.61f,
      .b = 0.41f,
      .c = i % 2 ? -0.17f : 0,
      .d_prev = i ? d->cpu : NULL };
    H3SolverArgs b = a;

    b.x = x->gpu;
    b.v = v->gpu;
    b.d_prev = i ? d->gpu : NULL;
    h3_solver_step (t->ops.stream, &a);
    h3_solver_step (t->gpu, &b);
    twin_check (t, "solver_step: x", x, 0);
    twin_check (t, "solver_step: d_prev", d, 0);
  }
}

static void
test_rows_moved (CudaTest *t)
{
  for (guint i = 0; i < 9; i++) {
    H3DType from = types[i / 3], to = types[i % 3];
    gdouble tolerance = from == to ? 0 : twin_tolerance (to);
    gint n = ops_pick (&t->ops, 1, 60), h = ops_pick (&t->ops, 1, 300);
    Twin *table = twin_random (t, from, 1, DIMS (n + 7, h));
    Twin *ids = twin_rows (t, n, n + 7);
    Twin *y = twin_out (t, to, DIMS (n, h));
    Twin *z = twin_random (t, to, 1, DIMS (2 * n, h));
    g_autofree gint32 *odd = g_new (gint32, n);
    g_autoptr (H3Weight) a = twin_weight_cpu (table);
    g_autoptr (H3Weight) b = twin_weight_gpu (table);
    Twin *rows, *x = twin_random (t, from, 1, DIMS (n, h));

    h3_embedding (t->ops.stream, y->cpu, a, ids->cpu);
    h3_embedding (t->gpu, y->gpu, b, ids->gpu);
    twin_check (t, "embedding", y, tolerance);
    for (gint k = 0; k < n; k++)
      odd[k] = 2 * ((k * 7 + 3) % n) + k % 2; /* no row twice: any order */
    for (gint k = 0; n % 7 == 0 && k < n; k++)
      odd[k] = 2 * k;
    rows = twin_of (t, H3_DTYPE_I32, odd, DIMS (n));
    h3_scatter_rows (t->ops.stream, z->cpu, x->cpu, rows->cpu);
    h3_scatter_rows (t->gpu, z->gpu, x->gpu, rows->gpu);
    twin_check (t, "scatter_rows", z, tolerance);
  }
}

/* A row number outside is reported, once, and nothing is touched. */
static void
test_bad_rows (CudaTest *t)
{
  static const gint32 ids[] = { 1, 4, -1 };
  Twin *table = twin_random (t, H3_DTYPE_BF16, 1, DIMS (4, 9));
  Twin *rows = twin_of (t, H3_DTYPE_I32, ids, DIMS (3));
  Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (3, 9));
  g_autoptr (H3Weight) w = twin_weight_gpu (table);
  g_autoptr (GError) error = NULL;

  h3_embedding (t->gpu, y->gpu, w, rows->gpu);
  g_assert_false (h3_stream_synchronize (t->gpu, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE);
  g_clear_error (&error);
  h3_scatter_rows (t->gpu, table->gpu, y->gpu, rows->gpu);
  g_assert_false (h3_stream_synchronize (t->gpu, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE);
  g_assert_true (h3_stream_synchronize (t->gpu, NULL));
}

static void
test_count (CudaTest *t)
{
  for (guint d = 0; d < 3; d++) {
    g_autofree gfloat *values = g_new0 (gfloat, 300001);
    gint32 count = -1;
    Twin *x, *n = twin_rows (t, 1, 9);

    values[0] = NAN;
    values[1000] = INFINITY;
    values[300000] = -INFINITY;
    values[5] = 60000;
    x = twin_of (t, types[d], values, DIMS (300001));
    h3_count_nonfinite (t->gpu, n->gpu, x->gpu);
    h3_download (t->gpu, &count, n->gpu);
    g_assert_true (h3_stream_synchronize (t->gpu, NULL));
    g_assert_cmpint (count, ==, 3);
  }
}

/* One NaN in a row: the row is NaN, its neighbours are not. The CPU's places,
 * which are tested, are the GPU's. */
static void
test_nan (CudaTest *t)
{
  for (guint d = 0; d < 3; d++) {
    g_autofree gfloat *values = g_new (gfloat, 9 * 64);
    Twin *x, *qkv, *y = twin_out (t, types[d], DIMS (9, 64));
    Twin *w = twin_random (t, H3_DTYPE_F32, 1, DIMS (64));
    Twin *half = twin_out (t, types[d], DIMS (9, 32));
    Twin *z = twin_random (t, types[d], 1, DIMS (9, 64));

    for (gint i = 0; i < 9 * 64; i++)
      values[i] = g_rand_double_range (t->ops.rand, -1, 1);
    values[4 * 64 + 3] = NAN;
    x = twin_of (t, types[d], values, DIMS (9, 64));
    qkv = twin_of (t, types[d], values, DIMS (3, 3 * 64));
    h3_rms_norm (t->ops.stream,
        &(H3RmsNormArgs){ y->cpu, x->cpu, w->cpu, 1e-5 });
    h3_rms_norm (t->gpu, &(H3RmsNormArgs){ y->gpu, x->gpu, w->gpu, 1e-5 });
    twin_check (t, "rms_norm of NaN", y, twin_tolerance (types[d]));
    h3_layer_norm (t->ops.stream,
        &(H3LayerNormArgs){ y->cpu, x->cpu, w->cpu, w->cpu, 1e-5 });
    h3_layer_norm (t->gpu,
        &(H3LayerNormArgs){ y->gpu, x->gpu, w->gpu, w->gpu, 1e-5 });
    twin_check (t, "layer_norm of NaN", y, twin_tolerance (types[d]));
    h3_swiglu (t->ops.stream, half->cpu, x->cpu);
    h3_swiglu (t->gpu, half->gpu, x->gpu);
    twin_check (t, "swiglu of NaN", half, 2 * twin_tolerance (types[d]));
    h3_scaled_residual (t->ops.stream, z->cpu, x->cpu, w->cpu);
    h3_scaled_residual (t->gpu, z->gpu, x->gpu, w->gpu);
    twin_check (t, "scaled_residual of NaN", z, twin_tolerance (types[d]));
    h3_qk_norm_rope (t->ops.stream,
        &(H3QkNormRopeArgs){ qkv->cpu, 1, 1, 64, .eps = 1e-6 });
    h3_qk_norm_rope (t->gpu,
        &(H3QkNormRopeArgs){ qkv->gpu, 1, 1, 64, .eps = 1e-6 });
    twin_check (t, "qk_norm_rope of NaN", qkv, twin_tolerance (types[d]));
  }
}

void
add_rows_tests (void)
{
  cuda_test_add ("/cuda/rows/copy", test_copy);
  cuda_test_add ("/cuda/rows/rounding", test_rounding);
  cuda_test_add ("/cuda/rows/rms-norm", test_rms_norm);
  cuda_test_add ("/cuda/rows/layer-norm", test_layer_norm);
  cuda_test_add ("/cuda/rows/qk-norm-rope", test_rope);
  cuda_test_add ("/cuda/rows/gates", test_gates);
  cuda_test_add ("/cuda/rows/residual-norm", test_residual_norm);
  cuda_test_add ("/cuda/rows/solver-step", test_solver);
  cuda_test_add ("/cuda/rows/moved", test_rows_moved);
  cuda_test_add ("/cuda/rows/bad", test_bad_rows);
  cuda_test_add ("/cuda/rows/count-nonfinite", test_count);
  cuda_test_add ("/cuda/rows/nan", test_nan);
}
