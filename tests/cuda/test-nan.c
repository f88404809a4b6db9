/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A NaN goes in: it comes out where the CPU, which is tested, puts it, and
 * nowhere else. Attention's are in test-matrix.c, the norms' in test-rows.c. */
#include "tests/cuda/test-cuda.h"

static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

/* Random, but for the middle element. */
static Twin *
one_nan (CudaTest *t, H3DType dtype, guint rank, const gint64 *shape)
{
  g_autofree gfloat *values = NULL;
  gint64 n = 1;

  for (guint i = 0; i < rank; i++)
    n *= shape[i];
  values = g_new (gfloat, n);
  for (gint64 i = 0; i < n; i++)
    values[i] = g_rand_double_range (t->ops.rand, -1, 1);
  values[n / 2] = NAN;
  return twin_of (t, dtype, values, rank, shape);
}

/* The CPU kept it, so that the comparison is one. */
static void
check (CudaTest *t, const gchar *what, const Twin *y, gdouble tolerance)
{
  gboolean any = FALSE;

  g_assert_true (h3_stream_synchronize (t->ops.stream, NULL));
  for (gint64 i = 0; i < h3_tensor_size (y->cpu) && !any; i++)
    any = isnan (ops_at (y->cpu, i));
  if (!any)
    g_error ("%s: the CPU lost the NaN", what);
  twin_check (t, what, y, tolerance);
}

static void
test_copy (CudaTest *t)
{
  for (guint i = 0; i < 9; i++) {
    Twin *x = one_nan (t, types[i / 3], DIMS (5, 37));
    Twin *y = twin_out (t, types[i % 3], DIMS (5, 37));

    h3_copy (t->ops.stream, y->cpu, x->cpu);
    h3_copy (t->gpu, y->gpu, x->gpu);
    check (t, "copy", y, twin_tolerance (types[i % 3]));
    if (types[i % 3] != H3_DTYPE_F32)
      continue;
    h3_scale (t->ops.stream, y->cpu, y->cpu, 0);
    h3_scale (t->gpu, y->gpu, y->gpu, 0);
    check (t, "scale", y, 0);
  }
}

static void
test_moved (CudaTest *t)
{
  static const gint32 numbers[] = { 8, 2, 4 };

  for (guint i = 0; i < 3; i++) {
    Twin *table = one_nan (t, types[i], DIMS (9, 37)); /* in row 4 */
    Twin *rows = twin_of (t, H3_DTYPE_I32, numbers, DIMS (3));
    Twin *y = twin_out (t, types[i], DIMS (3, 37));
    Twin *z = twin_random (t, types[i], 1, DIMS (9, 37));
    g_autoptr (H3Weight) cpu = twin_weight_cpu (table);
    g_autoptr (H3Weight) gpu = twin_weight_gpu (table);

    h3_embedding (t->ops.stream, y->cpu, cpu, rows->cpu);
    h3_embedding (t->gpu, y->gpu, gpu, rows->gpu);
    check (t, "embedding", y, 0);
    h3_scatter_rows (t->ops.stream, z->cpu, y->cpu, rows->cpu);
    h3_scatter_rows (t->gpu, z->gpu, y->gpu, rows->gpu);
    check (t, "scatter_rows", z, 0);
  }
}

static void
try_table (CudaTest *t, H3DType type, Twin *x, Twin *table)
{
  Twin *w = twin_random (t, H3_DTYPE_F32, 1, DIMS (40));
  Twin *rows = twin_rows (t, 9, 3), *y = twin_out (t, type, DIMS (9, 40));
  H3RmsNormArgs a = { y->cpu, x->cpu, w->cpu, 1e-5, table->cpu, rows->cpu, 1,
    2 };
  H3RmsNormArgs b = { y->gpu, x->gpu, w->gpu, 1e-5, table->gpu, rows->gpu, 1,
    2 };

  ((gint32 *) rows->cpu->data)[4] = 1; /* the table's row of a NaN */
  h3_upload (t->gpu, rows->gpu, rows->cpu->data);
  h3_rms_norm (t->ops.stream, &a);
  h3_rms_norm (t->gpu, &b);
  check (t, "rms_norm with a table", y, 2 * twin_tolerance (type));
  h3_gated_residual (t->ops.stream, y->cpu, x->cpu, table->cpu, rows->cpu, 1);
  h3_gated_residual (t->gpu, y->gpu, x->gpu, table->gpu, rows->gpu, 1);
  check (t, "gated_residual", y, 4 * twin_tolerance (type));
}

static void
test_table (CudaTest *t)
{
  for (guint i = 0; i < 3; i++) {
    try_table (t, types[i], one_nan (t, types[i], DIMS (9, 40)),
        twin_random (t, types[i], 1, DIMS (3, 3 * 40)));
    try_table (t, types[i], twin_random (t, types[i], 1, DIMS (9, 40)),
        one_nan (t, types[i], DIMS (3, 3 * 40)));
  }
}

/* Through every activation, with and without a pass of ours. */
static void
test_linear (CudaTest *t)
{
  for (guint i = 0; i < 36; i++) {
    H3DType in = types[i % 3], out = types[i / 3 % 3];
    Twin *x = one_nan (t, in, DIMS (9, 40));
    Twin *w = twin_random (t, in, 1, DIMS (31, 40));
    Twin *b = one_nan (t, H3_DTYPE_F32, DIMS (31));
    Twin *y = twin_out (t, out, DIMS (9, 31));
    g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
    g_autoptr (H3Weight) gpu = twin_weight_gpu (w);
    H3LinearArgs a = { y->cpu, x->cpu, cpu, i % 2 ? b->cpu : NULL, i / 9 };
    H3LinearArgs g = { y->gpu, x->gpu, gpu, i % 2 ? b->gpu : NULL, i / 9 };

    h3_linear (t->ops.stream, &a);
    h3_linear (t->gpu, &g);
    check (t, "linear", y, 2 * twin_tolerance (out) + 1e-6);
  }
}

static void
test_solver (CudaTest *t)
{
  Twin *x = twin_random (t, H3_DTYPE_F32, 1, DIMS (9, 3));
  Twin *v = one_nan (t, H3_DTYPE_F32, DIMS (9, 3));
  Twin *d = twin_random (t, H3_DTYPE_F32, 1, DIMS (9, 3));
  H3SolverArgs a = { x->cpu, v->cpu, d->cpu, 0.9f, 0.37f, 4, 0.61f, 0.41f,
    -0.17f };
  H3SolverArgs b = a;

  b.x = x->gpu;
  b.v = v->gpu;
  b.d_prev = d->gpu;
  h3_solver_step (t->ops.stream, &a);
  h3_solver_step (t->gpu, &b);
  check (t, "solver_step: x", x, 0);
  check (t, "solver_step: d_prev", d, 0);
}

static void
test_video (CudaTest *t)
{
  Twin *latent = one_nan (t, H3_DTYPE_F32, DIMS (3, 3, 5, 5));
  Twin *mean = twin_random (t, H3_DTYPE_F32, 1, DIMS (3));
  Twin *tokens = twin_out (t, H3_DTYPE_F32, DIMS (7 * 25, 3));
  Twin *before = one_nan (t, H3_DTYPE_F32, DIMS (3, 3, 13, 31));
  Twin *y = twin_random (t, H3_DTYPE_F32, 1, DIMS (3, 9, 13, 31));
  Twin *rows = one_nan (t, H3_DTYPE_F32, DIMS (3 * 4, 8));
  Twin *v = twin_out (t, H3_DTYPE_F32, DIMS (2, 3, 4, 4));
  Twin *a = twin_out (t, H3_DTYPE_F32, DIMS (2, 8, 6));
  H3LatentTileArgs cut = { tokens->cpu, latent->cpu, mean->cpu, mean->cpu, 0, 0,
    0, 7, 5, 5 };

  h3_latent_tile (t->ops.stream, &cut);
  cut.y = tokens->gpu;
  cut.latent = latent->gpu;
  cut.mean = cut.std = mean->gpu;
  h3_latent_tile (t->gpu, &cut);
  check (t, "latent_tile", tokens, 0);
  h3_blend_frames (t->ops.stream, &(H3BlendFramesArgs){ y->cpu, before->cpu });
  h3_blend_frames (t->gpu, &(H3BlendFramesArgs){ y->gpu, before->gpu });
  check (t, "blend_frames", y, 2e-7);
  h3_video_rows_to_latent (t->ops.stream, v->cpu, rows->cpu);
  h3_video_rows_to_latent (t->gpu, v->gpu, rows->gpu);
  check (t, "video_rows_to_latent", v, 0);
  h3_audio_rows_to_latent (t->ops.stream, a->cpu, rows->cpu);
  h3_audio_rows_to_latent (t->gpu, a->gpu, rows->gpu);
  check (t, "audio_rows_to_latent", a, 0);
}

static void
test_compose (CudaTest *t)
{
  const H3TileAxis axis_y = { 40, 16, 3, { 0, 12, 24 }, { 4, 4 } };
  const H3TileAxis axis_x = { 28, 16, 2, { 0, 12 }, { 4 } };
  Twin *tiles =
      twin_random (t, H3_DTYPE_F32, 1, DIMS (6, 2 * 16 + 5, 3 * 4 * 16));
  Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (3, 5, 40, 28));

  /* the third tile's 4th frame, row 6, column 6 */
  ops_f32 (tiles->cpu)[(2 * 37 + 16 + 5) * 192 + 10] = NAN;
  h3_upload (t->gpu, tiles->gpu, tiles->cpu->data);
  for (gint mode = 0; mode < 2; mode++) {
    H3ComposeTilesArgs a = { y->cpu, tiles->cpu, &axis_y, &axis_x, 3, 4, 4,
      mode };
    H3ComposeTilesArgs b = a;

    b.y = y->gpu;
    b.tiles = tiles->gpu;
    h3_compose_tiles (t->ops.stream, &a);
    h3_compose_tiles (t->gpu, &b);
    check (t, "compose_tiles", y, 5e-7);
  }
}

static void
test_audio (CudaTest *t)
{
  Twin *x = one_nan (t, H3_DTYPE_F32, DIMS (2, 5, 101));
  Twin *w = twin_random (t, H3_DTYPE_F32, 1, DIMS (7, 5, 3));
  Twin *up = twin_random (t, H3_DTYPE_F32, 1, DIMS (5, 7, 4));
  Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (2, 7, 101));
  Twin *z = twin_out (t, H3_DTYPE_F32, DIMS (2, 7, 202));
  Twin *s = twin_out (t, H3_DTYPE_F32, DIMS (2, 5, 101));
  Twin *a = twin_random (t, H3_DTYPE_F32, 1, DIMS (5));
  Twin *taps = twin_random (t, H3_DTYPE_F32, 1, DIMS (12));
  g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
  g_autoptr (H3Weight) gpu = twin_weight_gpu (w);
  g_autoptr (H3Weight) up_cpu = twin_weight_cpu (up);
  g_autoptr (H3Weight) up_gpu = twin_weight_gpu (up);

  h3_conv1d (t->ops.stream, &(H3Conv1dArgs){ y->cpu, x->cpu, cpu, .stride = 1,
                                .dilation = 1, .pad = 1 });
  h3_conv1d (t->gpu, &(H3Conv1dArgs){ y->gpu, x->gpu, gpu, .stride = 1,
                         .dilation = 1, .pad = 1 });
  check (t, "conv1d", y, 2e-6);
  h3_conv_transpose1d (t->ops.stream,
      &(H3ConvTranspose1dArgs){ z->cpu, x->cpu, up_cpu, .stride = 2 });
  h3_conv_transpose1d (t->gpu,
      &(H3ConvTranspose1dArgs){ z->gpu, x->gpu, up_gpu, .stride = 2 });
  check (t, "conv_transpose1d", z, 2e-6);
  h3_snake_beta (t->ops.stream, &(H3SnakeBetaArgs){ s->cpu, x->cpu, a->cpu,
                                    a->cpu, taps->cpu, taps->cpu });
  h3_snake_beta (t->gpu, &(H3SnakeBetaArgs){ s->gpu, x->gpu, a->gpu, a->gpu,
                             taps->gpu, taps->gpu });
  check (t, "snake_beta", s, 3e-6);
  h3_mean3 (t->ops.stream, s->cpu, x->cpu, s->cpu, NULL);
  h3_mean3 (t->gpu, s->gpu, x->gpu, s->gpu, NULL);
  check (t, "mean3", s, 3e-6);
}

void
add_nan_tests (void)
{
  cuda_test_add ("/cuda/nan/copy", test_copy);
  cuda_test_add ("/cuda/nan/moved", test_moved);
  cuda_test_add ("/cuda/nan/table", test_table);
  cuda_test_add ("/cuda/nan/linear", test_linear);
  cuda_test_add ("/cuda/nan/solver-step", test_solver);
  cuda_test_add ("/cuda/nan/video", test_video);
  cuda_test_add ("/cuda/nan/compose-tiles", test_compose);
  cuda_test_add ("/cuda/nan/audio", test_audio);
}
