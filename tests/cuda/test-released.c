/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sizes of a released clip of 1344 x 768, 124 frames, whose sequence has
 * 38 010 rows (-m slow). Products, attention and what their own files have at
 * that size already are not repeated. And the least there is: one row. */
#include "model/video/tiling.h"
#include "tests/cuda/test-cuda.h"

#define ROWS 38010

static gboolean
skip (void)
{
  if (!g_test_slow ())
    g_test_skip ("only with -m slow");
  return !g_test_slow ();
}

static void
try_rows (CudaTest *t, gint64 n)
{
  Twin *x = twin_random (t, H3_DTYPE_BF16, 1, DIMS (n, 672));
  Twin *w = twin_random (t, H3_DTYPE_BF16, 0.05, DIMS (520, 672));
  Twin *gain = twin_random (t, H3_DTYPE_F32, 1, DIMS (672));
  Twin *table = twin_random (t, H3_DTYPE_BF16, 1, DIMS (3, 6 * 672));
  Twin *rows = twin_rows (t, n, 3), *ids = twin_rows (t, n, 520);
  Twin *product = twin_out (t, H3_DTYPE_BF16, DIMS (n, 520));
  Twin *y = twin_out (t, H3_DTYPE_BF16, DIMS (n, 672));
  Twin *half = twin_out (t, H3_DTYPE_BF16, DIMS (n, 336));
  Twin *wide = twin_out (t, H3_DTYPE_F32, DIMS (n, 672));
  g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
  g_autoptr (H3Weight) gpu = twin_weight_gpu (w);
  gdouble tolerance = twin_tolerance (H3_DTYPE_BF16);

  h3_copy (t->ops.stream, wide->cpu, x->cpu);
  h3_copy (t->gpu, wide->gpu, x->gpu);
  twin_check (t, "copy", wide, 0);
  h3_scale (t->ops.stream, wide->cpu, wide->cpu, 0.3f);
  h3_scale (t->gpu, wide->gpu, wide->gpu, 0.3f);
  twin_check (t, "scale", wide, 0);
  h3_linear (t->ops.stream, &(H3LinearArgs){ product->cpu, x->cpu, cpu });
  h3_linear (t->gpu, &(H3LinearArgs){ product->gpu, x->gpu, gpu });
  twin_check (t, "linear", product, tolerance);
  h3_embedding (t->ops.stream, y->cpu, cpu, ids->cpu);
  h3_embedding (t->gpu, y->gpu, gpu, ids->gpu);
  twin_check (t, "embedding", y, 0);
  h3_layer_norm (t->ops.stream,
      &(H3LayerNormArgs){ y->cpu, x->cpu, gain->cpu, gain->cpu, 1e-5 });
  h3_layer_norm (t->gpu,
      &(H3LayerNormArgs){ y->gpu, x->gpu, gain->gpu, gain->gpu, 1e-5 });
  twin_check (t, "layer_norm", y, tolerance);
  h3_rms_norm (t->ops.stream, &(H3RmsNormArgs){ y->cpu, x->cpu, gain->cpu, 1e-5,
                                  table->cpu, rows->cpu, 1, 2 });
  h3_rms_norm (t->gpu, &(H3RmsNormArgs){ y->gpu, x->gpu, gain->gpu, 1e-5,
                           table->gpu, rows->gpu, 1, 2 });
  twin_check (t, "rms_norm", y, tolerance);
  h3_swiglu (t->ops.stream, half->cpu, x->cpu);
  h3_swiglu (t->gpu, half->gpu, x->gpu);
  twin_check (t, "swiglu", half, 2 * tolerance);
  h3_scaled_residual (t->ops.stream, wide->cpu, x->cpu, gain->cpu);
  h3_scaled_residual (t->gpu, wide->gpu, x->gpu, gain->gpu);
  twin_check (t, "scaled_residual", wide, 1e-6);
  h3_gated_residual (t->ops.stream, wide->cpu, x->cpu, table->cpu, rows->cpu,
      3);
  h3_gated_residual (t->gpu, wide->gpu, x->gpu, table->gpu, rows->gpu, 3);
  twin_check (t, "gated_residual", wide, 1e-6);
}

static void
try_targets (CudaTest *t, gint64 n)
{
  Twin *x = twin_random (t, H3_DTYPE_F32, 1, DIMS (n, 96));
  Twin *v = twin_random (t, H3_DTYPE_F32, 1, DIMS (n, 96));
  Twin *z = twin_random (t, H3_DTYPE_BF16, 1, DIMS (n + 300, 96));
  g_autofree gint32 *numbers = g_new (gint32, n);
  Twin *rows, *count = twin_rows (t, 1, 9);
  H3SolverArgs a = { x->cpu, v->cpu, NULL, 1, 0.37f, 1, 0.61f, 0.41f, 0 };
  H3SolverArgs b = a;

  for (gint64 i = 0; i < n; i++)
    numbers[i] = (gint32) (n + 299 - i);
  rows = twin_of (t, H3_DTYPE_I32, numbers, DIMS (n));
  b.x = x->gpu;
  b.v = v->gpu;
  h3_solver_step (t->ops.stream, &a);
  h3_solver_step (t->gpu, &b);
  twin_check (t, "solver_step", x, 0);
  h3_scatter_rows (t->ops.stream, z->cpu, x->cpu, rows->cpu);
  h3_scatter_rows (t->gpu, z->gpu, x->gpu, rows->gpu);
  twin_check (t, "scatter_rows", z, twin_tolerance (H3_DTYPE_BF16));
  h3_count_nonfinite (t->ops.stream, count->cpu, x->cpu);
  h3_count_nonfinite (t->gpu, count->gpu, x->gpu);
  twin_check (t, "count_nonfinite", count, 0);
}

static void
test_one (CudaTest *t)
{
  try_rows (t, 1);
  try_targets (t, 1);
}

static void
test_rows (CudaTest *t)
{
  if (!skip ()) {
    try_rows (t, ROWS);
    try_targets (t, ROWS - 300);
  }
}

/* One window of 28 tiles, and its frames. */
static void
test_window (CudaTest *t)
{
  const gint w = 1344, h = 768;
  Twin *tiles, *y, *before;
  H3TileAxis ay, ax;

  if (skip ())
    return;
  g_assert_true (h3_tile_axis_init (&ay, h, 256, 64, 16, NULL));
  g_assert_true (h3_tile_axis_init (&ax, w, 256, 64, 16, NULL));
  tiles = twin_random (t, H3_DTYPE_F32, 1, DIMS (ay.n * ax.n, 1797, 3072));
  y = twin_out (t, H3_DTYPE_F32, DIMS (3, 17, h, w));
  before = twin_random (t, H3_DTYPE_F32, 1, DIMS (3, 5, h, w));
  h3_compose_tiles (t->ops.stream,
      &(H3ComposeTilesArgs){ y->cpu, tiles->cpu, &ay, &ax, 3, 4, 16, 0 });
  h3_compose_tiles (t->gpu,
      &(H3ComposeTilesArgs){ y->gpu, tiles->gpu, &ay, &ax, 3, 4, 16, 0 });
  twin_check (t, "compose_tiles", y, 5e-7);
  h3_blend_frames (t->ops.stream, &(H3BlendFramesArgs){ y->cpu, before->cpu });
  h3_blend_frames (t->gpu, &(H3BlendFramesArgs){ y->gpu, before->gpu });
  twin_check (t, "blend_frames", y, 2e-7);
}

static void
test_latents (CudaTest *t)
{
  const gint n = 37, h = 48, w = 84;
  Twin *video, *audio, *v, *a, *mean, *tokens;
  H3LatentTileArgs cut = { .t0 = 33,
    .y0 = 20,
    .x0 = 68,
    .t = 7,
    .h = 16,
    .w = 16 };

  if (skip ())
    return;
  video = twin_random (t, H3_DTYPE_F32, 1, DIMS (n * h * w / 4, 96));
  audio = twin_random (t, H3_DTYPE_F32, 1, DIMS (2 * 207, 32));
  v = twin_out (t, H3_DTYPE_F32, DIMS (24, n, h, w));
  a = twin_out (t, H3_DTYPE_F32, DIMS (2, 32, 207));
  mean = twin_random (t, H3_DTYPE_F32, 1, DIMS (24));
  tokens = twin_out (t, H3_DTYPE_F16, DIMS (7 * 16 * 16, 24));
  h3_video_rows_to_latent (t->ops.stream, v->cpu, video->cpu);
  h3_video_rows_to_latent (t->gpu, v->gpu, video->gpu);
  twin_check (t, "video_rows_to_latent", v, 0);
  h3_audio_rows_to_latent (t->ops.stream, a->cpu, audio->cpu);
  h3_audio_rows_to_latent (t->gpu, a->gpu, audio->gpu);
  twin_check (t, "audio_rows_to_latent", a, 0);
  cut.y = tokens->cpu;
  cut.latent = v->cpu;
  cut.mean = cut.std = mean->cpu;
  h3_latent_tile (t->ops.stream, &cut);
  cut.y = tokens->gpu;
  cut.latent = v->gpu;
  cut.mean = cut.std = mean->gpu;
  h3_latent_tile (t->gpu, &cut);
  twin_check (t, "latent_tile", tokens, twin_tolerance (H3_DTYPE_F16));
}

static void
test_sound (CudaTest *t)
{
  Twin *x, *w, *y, *a, *taps, *half, *s;
  g_autoptr (H3Weight) cpu = NULL;
  g_autoptr (H3Weight) gpu = NULL;

  if (skip ())
    return;
  x = twin_random (t, H3_DTYPE_F32, 1, DIMS (2, 512, 1035));
  w = twin_random (t, H3_DTYPE_F32, 0.05, DIMS (512, 256, 9));
  y = twin_out (t, H3_DTYPE_F32, DIMS (2, 256, 5175));
  a = twin_random (t, H3_DTYPE_F32, 1, DIMS (256));
  taps = twin_random (t, H3_DTYPE_F32, 0.4, DIMS (12));
  half = twin_out (t, H3_DTYPE_F32, DIMS (2, 256, 5175));
  s = twin_out (t, H3_DTYPE_F32, DIMS (5175 * 256, 2));
  cpu = twin_weight_cpu (w);
  gpu = twin_weight_gpu (w);
  h3_conv_transpose1d (t->ops.stream,
      &(H3ConvTranspose1dArgs){ y->cpu, x->cpu, cpu, .stride = 5 });
  h3_conv_transpose1d (t->gpu,
      &(H3ConvTranspose1dArgs){ y->gpu, x->gpu, gpu, .stride = 5 });
  twin_check (t, "conv_transpose1d", y, 2e-6);
  h3_snake_beta (t->ops.stream, &(H3SnakeBetaArgs){ half->cpu, y->cpu, a->cpu,
                                    a->cpu, taps->cpu, taps->cpu });
  h3_snake_beta (t->gpu, &(H3SnakeBetaArgs){ half->gpu, y->gpu, a->gpu, a->gpu,
                             taps->gpu, taps->gpu });
  twin_check (t, "snake_beta", half, 3e-6);
  h3_mean3 (t->ops.stream, y->cpu, y->cpu, half->cpu, half->cpu);
  h3_mean3 (t->gpu, y->gpu, y->gpu, half->gpu, half->gpu);
  twin_check (t, "mean3", y, 3e-6);
  y = twin_random (t, H3_DTYPE_F32, 2, DIMS (2, 1, 5175 * 256));
  h3_interleave_clamp (t->ops.stream, s->cpu, y->cpu);
  h3_interleave_clamp (t->gpu, s->gpu, y->gpu);
  twin_check (t, "interleave_clamp", s, 0);
}

void
add_released_tests (void)
{
  cuda_test_add ("/cuda/one-row", test_one);
  cuda_test_add ("/cuda/released/rows", test_rows);
  cuda_test_add ("/cuda/released/window", test_window);
  cuda_test_add ("/cuda/released/latents", test_latents);
  cuda_test_add ("/cuda/released/sound", test_sound);
}
