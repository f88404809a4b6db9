/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations on rows: norms, rotary embedding, gates, residuals, copies, the
 * solver's step. */
#include "tests/ops/ops-test.h"

static const gint sizes[][2] = { { 1, 1 }, { 1, 37 }, { 37, 1 }, { 5, 16 },
  { 130, 128 }, { 3, 5120 }, { 400, 129 } };

#define F32(...) ops_random (ops, H3_DTYPE_F32, 1, DIMS (__VA_ARGS__))

static gdouble
mean_square (const H3Tensor *x, gint64 first, gint64 n, gdouble mean)
{
  gdouble sum = 0;

  for (gint64 i = 0; i < n; i++)
    sum += pow (ops_at (x, first + i) - mean, 2);
  return sum / n;
}

static gdouble *
rms_reference (const H3RmsNormArgs *a)
{
  gint64 s = h3_tensor_rows (a->x), h = h3_tensor_cols (a->x);
  gdouble *want = g_new (gdouble, s * h);

  for (gint64 i = 0; i < s * h; i++) {
    gdouble rms = sqrt (mean_square (a->x, i / h * h, h, 0) + a->eps);

    want[i] = ops_at (a->x, i) / rms * ops_at (a->weight, i % h);
    if (a->table) {
      gint64 row = ops_at (a->rows, i / h) * h3_tensor_cols (a->table);
      want[i] = want[i] * (1 + ops_at (a->table, row + a->scale * h + i % h)) +
                ops_at (a->table, row + a->shift * h + i % h);
    }
  }
  return want;
}

static void
test_rms_norm (Ops *ops)
{
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    gint s = sizes[i][0], h = sizes[i][1];
    H3RmsNormArgs args = { .y = F32 (s, h),
      .x = F32 (s, h),
      .weight = F32 (h),
      .eps = 1e-5,
      .shift = 3,
      .scale = 4 };

    if (s * h > 20000)
      continue;
    h3_rms_norm (ops->stream, &args);
    ops_check (ops, args.y, rms_reference (&args), 2e-6);
    args.table = F32 (7, 6 * h);
    args.rows = ops_rows (ops, s, 7);
    h3_rms_norm (ops->stream, &args);
    ops_check (ops, args.y, rms_reference (&args), 3e-6);
  }
}

/* The two operations it joins, to the bit. */
static void
test_residual_norm (Ops *ops)
{
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    gint s = sizes[i][0], h = sizes[i][1], bytes = 4 * s * h;
    H3Tensor *x = F32 (s, h), *branch = F32 (s, h), *scale = F32 (h);
    H3Tensor *w = F32 (h), *sum = F32 (s, h), *normed = F32 (s, h);
    H3Tensor *y = i % 2 ? branch : F32 (s, h);

    h3_copy (ops->stream, sum, x);
    h3_scaled_residual (ops->stream, sum, branch, scale);
    h3_rms_norm (ops->stream, &(H3RmsNormArgs){ normed, sum, w, 1e-5 });
    h3_residual_norm (ops->stream,
        &(H3ResidualNormArgs){ x, branch, scale, y, w, 1e-5 });
    g_assert_cmpmem (x->data, bytes, sum->data, bytes);
    g_assert_cmpmem (y->data, bytes, normed->data, bytes);
  }
}

static void
test_layer_norm (Ops *ops)
{
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    gint s = sizes[i][0], h = sizes[i][1];
    H3LayerNormArgs args = { .y = F32 (s, h),
      .x = F32 (s, h),
      .weight = F32 (h),
      .bias = F32 (h),
      .eps = 1e-5 };
    gdouble *want = g_new (gdouble, s * h);

    /* a mean far from 0 must not cost digits */
    for (gint k = 0; k < s * h; k++)
      ops_f32 (args.x)[k] += 100;
    for (gint r = 0; r < s; r++) {
      gdouble mean = 0, var;

      for (gint k = 0; k < h; k++)
        mean += ops_at (args.x, r * h + k) / h;
      var = mean_square (args.x, r * h, h, mean);
      for (gint k = 0; k < h; k++)
        want[r * h + k] = (ops_at (args.x, r * h + k) - mean) /
                              sqrt (var + args.eps) * ops_at (args.weight, k) +
                          ops_at (args.bias, k);
    }
    h3_layer_norm (ops->stream, &args);
    ops_check (ops, args.y, want, 1e-5);
  }
}

static gdouble *
rope_reference (const H3QkNormRopeArgs *a)
{
  gint64 d = a->head_dim, all = a->heads + 2 * a->kv_heads;
  gint64 s = h3_tensor_rows (a->qkv), rot = a->cos ? a->cos->shape[1] : 0;
  gdouble *want = g_new (gdouble, s * all * d);

  for (gint64 row = 0; row < s; row++)
    for (gint64 h = 0; h < all; h++) {
      gdouble *y = want + (row * all + h) * d;
      const H3Tensor *w = h < a->heads ? a->q_norm : a->k_norm;
      gdouble rms =
          a->no_norm
              ? 1
              : sqrt (mean_square (a->qkv, (row * all + h) * d, d, 0) + a->eps);

      for (gint64 i = 0; i < d; i++) {
        y[i] = ops_at (a->qkv, (row * all + h) * d + i);
        if (h < a->heads + a->kv_heads)
          y[i] *= (w ? ops_at (w, i) : 1) / rms;
      }
      for (gint64 i = 0; i < rot && h < a->heads + a->kv_heads; i++) {
        gdouble c = ops_at (a->cos, row % a->cos->shape[0] * rot + i);
        gdouble n = ops_at (a->sin, row % a->cos->shape[0] * rot + i);
        gdouble left = y[i], right = y[i + rot];

        y[i] = left * c - right * n;
        y[i + rot] = right * c + left * n;
      }
    }
  return want;
}

static void
test_rope (Ops *ops)
{
  static const gint shape[][5] = { /* rows, heads, kv, dim, rot */
    { 1, 1, 1, 2, 1 }, { 9, 5, 5, 32, 12 }, { 30, 2, 1, 16, 8 },
    { 7, 4, 2, 13, 6 }, { 60, 3, 3, 128, 48 }, { 4, 1, 1, 64, 24 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (shape); i++) {
    gint s = shape[i][0], d = shape[i][3], rot = shape[i][4];
    H3QkNormRopeArgs args = { .heads = shape[i][1],
      .kv_heads = shape[i][2],
      .head_dim = d,
      .eps = 1e-6 };
    gdouble *want;

    for (gint mode = 0; mode < 5; mode++) {
      args.no_norm = mode == 4;
      args.qkv = F32 (s, (shape[i][1] + 2 * shape[i][2]) * d);
      args.q_norm = mode & 1 ? F32 (d) : NULL;
      args.k_norm = mode & 1 ? F32 (d) : NULL;
      args.cos = mode & 6 ? F32 (s > 6 ? s / 3 : s, rot) : NULL;
      args.sin = mode & 6 ? F32 (s > 6 ? s / 3 : s, rot) : NULL;
      want = rope_reference (&args);
      h3_qk_norm_rope (ops->stream, &args);
      ops_check (ops, args.qkv, want, 3e-6);
    }
  }
}

static void
test_gates (Ops *ops)
{
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    gint s = sizes[i][0], h = sizes[i][1], n = s * h;
    H3Tensor *y = F32 (s, h), *x = F32 (s, h), *branch = F32 (s, h);
    H3Tensor *gate_up = ops_random (ops, H3_DTYPE_F32, 20, DIMS (s, 2 * h));
    H3Tensor *scale = F32 (h), *table = F32 (3, 6 * h);
    H3Tensor *rows = ops_rows (ops, s, 3);
    gdouble *want = g_new (gdouble, n);

    for (gint k = 0; k < n; k++) {
      gdouble g = ops_at (gate_up, k / h * 2 * h + k % h);
      want[k] =
          g / (1 + exp (-g)) * ops_at (gate_up, k / h * 2 * h + h + k % h);
    }
    h3_swiglu (ops->stream, y, gate_up);
    ops_check (ops, y, want, 1e-6);

    want = g_new (gdouble, n);
    for (gint k = 0; k < n; k++)
      want[k] = ops_at (x, k) + ops_at (branch, k) * ops_at (scale, k % h);
    h3_scaled_residual (ops->stream, x, branch, scale);
    ops_check (ops, x, want, 1e-6);

    want = g_new (gdouble, n);
    for (gint k = 0; k < n; k++)
      want[k] =
          ops_at (x, k) +
          ops_at (branch, k) *
              ops_at (table, ops_at (rows, k / h) * 6 * h + 5 * h + k % h);
    h3_gated_residual (ops->stream, x, branch, table, rows, 5);
    ops_check (ops, x, want, 1e-6);
  }
}

/* Bit for bit what separately rounded float32 operations give. */
static void
test_solver (Ops *ops)
{
  for (gint i = 0; i < 6; i++) {
    gint n = ops_pick (ops, 1, 40000);
    H3SolverArgs s = { .x = F32 (n, 3),
      .v = F32 (n, 3),
      .in_scale = 0.9f,
      .sigma_t = 0.37f,
      .d_scale = 4,
      .a = 0.61f,
      .b = 0.41f,
      .c = i % 2 ? -0.17f : 0 };
    gdouble *want = g_new (gdouble, 3 * n), *kept = g_new (gdouble, 3 * n);

    s.d_prev = i == 0 ? NULL : F32 (n, 3);
    for (gint k = 0; k < 3 * n; k++) {
      volatile gfloat in = s.in_scale * ops_f32 (s.x)[k];
      volatile gfloat step = s.sigma_t * ops_f32 (s.v)[k];
      volatile gfloat sum = in + step, d = sum * s.d_scale;
      volatile gfloat ax = s.a * ops_f32 (s.x)[k], bd = s.b * d;
      volatile gfloat next = ax + bd;

      if (s.c != 0) {
        volatile gfloat cd = s.c * ops_f32 (s.d_prev)[k];
        next = next + cd;
      }
      want[k] = next;
      kept[k] = d;
    }
    h3_solver_step (ops->stream, &s);
    ops_check (ops, s.x, want, 0);
    if (s.d_prev)
      ops_check (ops, s.d_prev, kept, 0);
    else
      g_free (kept);
  }
}

static void
test_copies (Ops *ops)
{
  static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

  for (gint from = 0; from < 3; from++)
    for (gint to = 0; to < 3; to++) {
      H3Tensor *x = ops_random (ops, types[from], 100, DIMS (3, 777));
      H3Tensor *y = ops_new (ops, types[to], DIMS (3, 777));
      gdouble tolerance = to == 0 || to == from ? 0
                          : to == 1             ? 0x1p-11
                                                : 0x1p-8;
      gdouble *want = g_new (gdouble, 3 * 777);

      for (gint k = 0; k < 3 * 777; k++)
        want[k] = ops_at (x, k);
      h3_copy (ops->stream, y, x);
      ops_check (ops, y, want, tolerance);
    }
}

/* Narrowing rounds to nearest, ties to even: every half-precision value, the
 * midpoints between neighbours, and a little to each side. */
static void
test_rounding (Ops *ops)
{
  static const H3DType types[] = { H3_DTYPE_F16, H3_DTYPE_BF16 };

  for (gint d = 0; d < 2; d++) {
    gint inf = d ? 0x7f80 : 0x7c00;
    H3Tensor *grid = ops_new (ops, types[d], DIMS (inf + 1));
    H3Tensor *wide = ops_new (ops, H3_DTYPE_F32, DIMS (inf, 4));
    H3Tensor *narrow = ops_new (ops, types[d], DIMS (inf, 4));
    gdouble *want = g_new (gdouble, inf * 4);

    for (gint i = 0; i <= inf; i++)
      ((guint16 *) grid->data)[i] = i;
    for (gint i = 0; i < inf; i++) {
      gdouble low = ops_at (grid, i);
      /* the step past the largest number, where Inf stands */
      gdouble high =
          i + 1 < inf ? ops_at (grid, i + 1) : 2 * low - ops_at (grid, i - 1);
      gfloat middle = (low + high) / 2;

      ops_f32 (wide)[4 * i] = low;
      ops_f32 (wide)[4 * i + 1] = middle;
      ops_f32 (wide)[4 * i + 2] = nextafterf (middle, 0);
      ops_f32 (wide)[4 * i + 3] = nextafterf (middle, INFINITY);
      want[4 * i] = want[4 * i + 2] = low;
      want[4 * i + 3] = ops_at (grid, i + 1);
      want[4 * i + 1] = i % 2 ? ops_at (grid, i + 1) : low;
    }
    h3_copy (ops->stream, narrow, wide);
    h3_stream_synchronize (ops->stream, NULL);
    for (gint k = 0; k < 4 * inf; k++)
      if (ops_at (narrow, k) != want[k])
        g_error ("%.9g to %s is %.9g, needs %.9g", ops_at (wide, k),
            h3_dtype_name (types[d]), ops_at (narrow, k), want[k]);
    g_free (want);
  }
}

static void
test_scale (Ops *ops)
{
  H3Tensor *x = F32 (3, 50001), *y = F32 (3, 50001);
  gdouble *want = g_new (gdouble, 150003);

  for (gint k = 0; k < 150003; k++)
    want[k] = 0.3f * ops_f32 (x)[k];
  h3_scale (ops->stream, y, x, 0.3f);
  h3_scale (ops->stream, x, x, 0.3f);
  ops_check (ops, x, g_memdup2 (want, 150003 * sizeof *want), 0);
  ops_check (ops, y, want, 0);
}

static void
test_scatter (Ops *ops)
{
  H3Tensor *x = F32 (40, 9), *y = F32 (50, 9);
  H3Tensor *rows = ops_rows (ops, 40, 50);
  gdouble *want = g_new (gdouble, 450);

  for (gint k = 0; k < 450; k++)
    want[k] = ops_at (y, k);
  for (gint k = 0; k < 360; k++)
    want[(gint) ops_at (rows, k / 9) * 9 + k % 9] = ops_at (x, k);
  h3_scatter_rows (ops->stream, y, x, rows);
  ops_check (ops, y, want, 0);
}

static void
test_count (Ops *ops)
{
  static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

  for (gint d = 0; d < 3; d++) {
    H3Tensor *wide = F32 (3001);
    H3Tensor *x = ops_new (ops, types[d], DIMS (3001));
    H3Tensor *count = ops_rows (ops, 1, 9);

    ops_f32 (wide)[0] = NAN;
    ops_f32 (wide)[1000] = INFINITY;
    ops_f32 (wide)[3000] = -INFINITY;
    ops_f32 (wide)[5] = 60000;
    h3_copy (ops->stream, x, wide);
    h3_count_nonfinite (ops->stream, count, x);
    g_assert_true (h3_stream_synchronize (ops->stream, NULL));
    g_assert_cmpint (*(gint32 *) count->data, ==, 3);
  }
}

/* One NaN in a row: the row is NaN, its neighbours are not. */
static void
test_nan (Ops *ops)
{
  H3Tensor *x = F32 (9, 32), *y = F32 (9, 32), *w = F32 (32), *b = F32 (32);
  H3Tensor *half = F32 (9, 16);
  H3QkNormRopeArgs rope = { .heads = 1,
    .kv_heads = 1,
    .head_dim = 4,
    .qkv = F32 (9, 12),
    .eps = 1e-6 };

  ops_f32 (x)[4 * 32 + 3] = NAN;
  h3_rms_norm (ops->stream,
      &(H3RmsNormArgs){ .y = y, .x = x, .weight = w, .eps = 1e-5 });
  for (gint k = 0; k < 288; k++)
    g_assert_cmpint (isnan (ops_f32 (y)[k]) != 0, ==, k / 32 == 4);
  h3_layer_norm (ops->stream, &(H3LayerNormArgs){ .y = y,
                                  .x = x,
                                  .weight = w,
                                  .bias = b,
                                  .eps = 1e-5 });
  for (gint k = 0; k < 288; k++)
    g_assert_cmpint (isnan (ops_f32 (y)[k]) != 0, ==, k / 32 == 4);
  h3_swiglu (ops->stream, half, x);
  for (gint k = 0; k < 144; k++)
    g_assert_cmpint (isnan (ops_f32 (half)[k]) != 0, ==, k == 4 * 16 + 3);
  ops_f32 (rope.qkv)[3 * 12 + 5] = NAN;
  h3_qk_norm_rope (ops->stream, &rope);
  for (gint k = 0; k < 108; k++)
    g_assert_cmpint (isnan (ops_f32 (rope.qkv)[k]) != 0, ==,
        k / 4 == 3 * 3 + 1);
  y = F32 (9, 32);
  h3_scaled_residual (ops->stream, y, x, w);
  for (gint k = 0; k < 288; k++)
    g_assert_cmpint (isnan (ops_f32 (y)[k]) != 0, ==, k == 4 * 32 + 3);
}

static void
test_norm_shapes (Ops *ops)
{
  H3Tensor *x = F32 (4, 6), *y = F32 (4, 6), *w = F32 (6), *odd = F32 (5);
  H3RmsNormArgs rms = { .y = y, .x = x, .weight = odd };
  H3QkNormRopeArgs rope = { .qkv = x,
    .heads = 1,
    .kv_heads = 1,
    .head_dim = 2,
    .cos = F32 (4, 1) };

  h3_rms_norm (ops->stream, &rms);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "rms_norm: the weight is float32 [5], needs to be float32 [6]");
  rms.weight = w;
  rms.table = F32 (2, 12);
  rms.rows = ops_rows (ops, 4, 2);
  rms.shift = 1;
  rms.scale = 2;
  h3_rms_norm (ops->stream, &rms);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "no parameter 2 of 6 channels");
  rms.scale = 0;
  ((gint32 *) rms.rows->data)[2] = 2;
  h3_rms_norm (ops->stream, &rms);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "rms_norm: row 2 names row 2, needs to be in 0 .. 1");
  rms.rows = NULL;
  h3_rms_norm (ops->stream, &rms);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "rows is missing");
  rms.table = NULL;
  rms.y = x;
  h3_rms_norm (ops->stream, &rms);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the output overlaps x");

  h3_layer_norm (ops->stream,
      &(H3LayerNormArgs){ .y = y, .x = x, .weight = w });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "layer_norm: the bias is missing");

  h3_qk_norm_rope (ops->stream, &rope);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "one of a pair");
  rope.sin = F32 (4, 2);
  h3_qk_norm_rope (ops->stream, &rope);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "qk_norm_rope: sin is float32 [4, 2]");
  rope.cos = rope.sin;
  h3_qk_norm_rope (ops->stream, &rope);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "at most 1 columns");
  rope.q_norm = rope.k_norm = F32 (rope.head_dim);
  rope.no_norm = TRUE;
  h3_qk_norm_rope (ops->stream, &rope);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "no_norm and q_norm");
}

static void
test_residual_norm_shapes (Ops *ops)
{
  H3Tensor *x = F32 (4, 6), *odd = F32 (5), *w = F32 (6);
  H3ResidualNormArgs args = { x, F32 (4, 6), w, F32 (4, 6), w, 1e-5 };
  H3ResidualNormArgs bad = args;

  bad.branch = odd;
  h3_residual_norm (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "residual_norm: the branch is");
  bad = args;
  bad.scale = odd;
  h3_residual_norm (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "residual_norm: the scale is");
  bad = args;
  bad.weight = NULL;
  h3_residual_norm (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "residual_norm: the weight is missing");
  bad = args;
  bad.y = x;
  h3_residual_norm (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the output overlaps x");
  bad = args;
  bad.branch = x;
  h3_residual_norm (ops->stream, &bad);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the output overlaps the branch");
  h3_residual_norm (ops->stream, &args);
}

static void
test_row_shapes (Ops *ops)
{
  H3Tensor *x = F32 (4, 6), *y = F32 (4, 6), *odd = F32 (5), *w = F32 (6);
  H3Tensor *table = F32 (2, 12), *rows = ops_rows (ops, 4, 2);

  h3_swiglu (ops->stream, y, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "swiglu: gate_up is float32 [4, 6]");
  h3_scaled_residual (ops->stream, x, y, odd);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "scaled_residual: the scale is");
  h3_scaled_residual (ops->stream, x, odd, w);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "scaled_residual: the branch is");
  h3_gated_residual (ops->stream, x, y, table, rows, 2);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "no parameter 2");
  h3_gated_residual (ops->stream, x, y, odd, rows, 0);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "a table of 5 columns");
  ((gint32 *) rows->data)[3] = -7;
  h3_gated_residual (ops->stream, x, y, table, rows, 1);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "row 3 names row -7");
  h3_scatter_rows (ops->stream, x, y, rows);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "scatter_rows: row 3 names row -7");
  h3_scatter_rows (ops->stream, odd, y, rows);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "scatter_rows: y is float32 [5]");
  h3_copy (ops->stream, x, odd);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "copy: the destination is");
  h3_copy (ops->stream, rows, odd);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "copy: the destination is int32 [4]");
  h3_scale (ops->stream, x, odd, 1);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "scale: y is float32 [4, 6]");
  h3_count_nonfinite (ops->stream, rows, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "count is int32 [4]");
  h3_solver_step (ops->stream, &(H3SolverArgs){ .x = x, .v = odd });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "solver_step: v is float32 [5]");
  h3_solver_step (ops->stream, &(H3SolverArgs){ .x = x, .v = y, .c = 1 });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "c = 1 needs d_prev");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/ops/rows/rms-norm", test_rms_norm);
  ops_add ("/ops/rows/residual-norm", test_residual_norm);
  ops_add ("/ops/rows/residual-norm/shapes", test_residual_norm_shapes);
  ops_add ("/ops/rows/layer-norm", test_layer_norm);
  ops_add ("/ops/rows/qk-norm-rope", test_rope);
  ops_add ("/ops/rows/gates", test_gates);
  ops_add ("/ops/rows/solver-step", test_solver);
  ops_add ("/ops/rows/copy", test_copies);
  ops_add ("/ops/rows/copy/rounding", test_rounding);
  ops_add ("/ops/rows/scale", test_scale);
  ops_add ("/ops/rows/scatter", test_scatter);
  ops_add ("/ops/rows/count-nonfinite", test_count);
  ops_add ("/ops/rows/nan", test_nan);
  ops_add ("/ops/rows/norm-shapes", test_norm_shapes);
  ops_add ("/ops/rows/shapes", test_row_shapes);
  return g_test_run ();
}
