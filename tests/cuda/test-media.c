/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Around and inside the autoencoders, on the GPU against the CPU. */
#include "model/video/tiling.h"
#include "tests/cuda/test-cuda.h"

static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

static Twin *
random_f32 (CudaTest *t, gdouble scale, guint rank, const gint64 *shape)
{
  return twin_random (t, H3_DTYPE_F32, scale, rank, shape);
}

static void
test_latent_tile (CudaTest *t)
{
  for (gint i = 0; i < 12; i++) {
    gint c = ops_pick (&t->ops, 1, 24), frames = ops_pick (&t->ops, 1, 9);
    gint h = ops_pick (&t->ops, 1, 20), w = ops_pick (&t->ops, 1, 20);
    H3LatentTileArgs a = { .t = 7,
      .h = ops_pick (&t->ops, 1, h),
      .w = ops_pick (&t->ops, 1, w),
      .t0 = ops_pick (&t->ops, 0, 10) };
    Twin *latent = random_f32 (t, 1, DIMS (c, frames, h, w));
    Twin *mean = random_f32 (t, 1, DIMS (c)),
         *std = random_f32 (t, 1, DIMS (c));
    Twin *y = twin_out (t, types[i % 3], DIMS (7 * a.h * a.w, c));
    H3LatentTileArgs b;

    a.y0 = ops_pick (&t->ops, 0, h - a.h);
    a.x0 = ops_pick (&t->ops, 0, w - a.w);
    b = a;
    a.y = y->cpu;
    b.y = y->gpu;
    a.latent = latent->cpu;
    b.latent = latent->gpu;
    a.mean = mean->cpu;
    b.mean = mean->gpu;
    a.std = std->cpu;
    b.std = std->gpu;
    h3_latent_tile (t->ops.stream, &a);
    h3_latent_tile (t->gpu, &b);
    twin_check (t, "latent_tile", y, i % 3 ? twin_tolerance (types[i % 3]) : 0);
  }
}

static void
try_compose (CudaTest *t, gint height, gint width, gint tile, gint least,
    gint patch, gint first, gint frames)
{
  g_autoptr (GError) error = NULL;
  H3TileAxis ay, ax;
  gint channels = patch > 1 ? 3 : 8; /* pixels, moments */
  Twin *tiles,
      *y = twin_out (t, H3_DTYPE_F32, DIMS (channels, frames, height, width));
  gint tokens;

  h3_tile_axis_init (&ay, height, tile, least, patch, &error);
  g_assert_no_error (error);
  h3_tile_axis_init (&ax, width, tile, least, patch, &error);
  g_assert_no_error (error);
  tokens = (first + frames + 3) / 4 * (ay.tile / patch) * (ax.tile / patch);
  tiles = random_f32 (t, 1,
      DIMS (ay.n * ax.n, tokens + 5, channels * 4 * patch * patch));
  for (gint mode = 0; mode < 2; mode++) {
    H3ComposeTilesArgs a = { y->cpu, tiles->cpu, &ay, &ax, first, 4, patch,
      mode };
    H3ComposeTilesArgs b = a;

    b.y = y->gpu;
    b.tiles = tiles->gpu;
    h3_compose_tiles (t->ops.stream, &a);
    h3_compose_tiles (t->gpu, &b);
    twin_check (t, mode ? "compose_tiles, composited" : "compose_tiles, raw", y,
        5e-7);
  }
}

static void
test_compose (CudaTest *t)
{
  try_compose (t, 8, 12, 16, 4, 4, 0, 3);
  try_compose (t, 40, 28, 16, 4, 4, 3, 3);
  try_compose (t, 64, 16, 16, 4, 2, 0, 2);
  try_compose (t, 32, 96, 256, 64, 16, 3, 17);
  try_compose (t, 320, 288, 256, 64, 16, 3, 5);
  try_compose (t, 21, 40, 16, 4, 1, 0, 8);
}

static void
test_blend (CudaTest *t)
{
  for (gint n = 0; n < 6; n++) {
    Twin *y = random_f32 (t, 1, DIMS (3, 9, 13, 31));
    Twin *before = random_f32 (t, 1, DIMS (3, n, 13, 31));

    h3_blend_frames (t->ops.stream,
        &(H3BlendFramesArgs){ y->cpu, before->cpu });
    h3_blend_frames (t->gpu, &(H3BlendFramesArgs){ y->gpu, before->gpu });
    twin_check (t, "blend_frames", y, 2e-7);
  }
}

/* Codes are the CPU's but where the last bit of a sum falls on two sides of a
 * tie, which no more than one in 10 000 does. Bytes between rows stay. */
static void
try_picture (CudaTest *t, H3PictureFormat format, gint w, gint h,
    H3Quantize quantize)
{
  Twin *pixels = random_f32 (t, 2.8, DIMS (3, 2, h, w));
  gint stride = 4 * w + 9, rows = 3 * h + 3, differ = 0;
  g_autofree guint8 *cpu = g_malloc (stride * rows);
  g_autofree guint8 *gpu = g_malloc (stride * rows);
  H3EmitPictureArgs a = { .picture = { format, w, h,
                              { cpu, cpu + stride * (h + 1),
                                  cpu + stride * (2 * h + 2) },
                              { stride, stride, stride } },
    .pixels = pixels->cpu,
    .frame = 1,
    .mean = { 0.485f, 0.456f, 0.406f },
    .std = { 0.229f, 0.224f, 0.225f },
    .quantize = quantize };
  H3EmitPictureArgs b = a;
  g_autoptr (GError) error = NULL;

  ops_f32 (pixels->cpu)[w * h] = NAN;
  h3_upload (t->gpu, pixels->gpu, pixels->cpu->data);
  memset (cpu, 0xa5, stride * rows);
  memset (gpu, 0xa5, stride * rows);
  for (gint i = 0; i < 3; i++)
    b.picture.plane[i] = gpu + ((guint8 *) a.picture.plane[i] - cpu);
  b.pixels = pixels->gpu;
  h3_emit_picture (t->ops.stream, &a);
  h3_emit_picture (t->gpu, &b);
  g_assert_true (h3_stream_synchronize (t->ops.stream, NULL));
  h3_stream_synchronize (t->gpu, &error);
  g_assert_no_error (error);
  for (gint i = 0; i < stride * rows; i++) {
    g_assert_cmpint (ABS (cpu[i] - gpu[i]), <=, 1);
    differ += cpu[i] != gpu[i];
  }
  g_assert_cmpint (differ, <=, stride * rows / 10000);
}

static void
test_pictures (CudaTest *t)
{
  static const gint sizes[][2] = { { 1, 1 }, { 2, 2 }, { 1, 5 }, { 5, 1 },
    { 7, 9 }, { 33, 10 }, { 96, 64 }, { 333, 101 } };

  for (gint format = 0; format < 5; format++)
    for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
      try_picture (t, format, sizes[i][0], sizes[i][1], i % 2);
  if (g_test_slow ())
    try_picture (t, H3_PICTURE_NV12, 1344, 768, H3_QUANTIZE_ROUND);
}

static void
try_conv (CudaTest *t, H3DType type, gint b, gint ci, gint co, gint k,
    gint length, gint stride, gint dilation, gint pad)
{
  gint lo = (length + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
  Twin *w = twin_random (t, type, 1 / sqrt (ci * k), DIMS (co, ci, k));
  Twin *x = random_f32 (t, 1, DIMS (b, ci, length));
  Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (b, co, lo));
  Twin *bias = random_f32 (t, 1, DIMS (co));
  Twin *more = random_f32 (t, 1, DIMS (b, co, lo));
  g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
  g_autoptr (H3Weight) gpu = twin_weight_gpu (w);
  H3Conv1dArgs a = { y->cpu, x->cpu, cpu, NULL, NULL, stride, dilation, pad };
  H3Conv1dArgs g = { y->gpu, x->gpu, gpu, NULL, NULL, stride, dilation, pad };

  h3_conv1d (t->ops.stream, &a);
  h3_conv1d (t->gpu, &g);
  twin_check (t, "conv1d", y, 2e-6);
  a.bias = bias->cpu;
  g.bias = bias->gpu;
  a.residual = more->cpu;
  g.residual = more->gpu;
  h3_conv1d (t->ops.stream, &a);
  h3_conv1d (t->gpu, &g);
  twin_check (t, "conv1d with bias and residual", y, 2e-6);
  a.residual = y->cpu;
  g.residual = y->gpu;
  h3_conv1d (t->ops.stream, &a);
  h3_conv1d (t->gpu, &g);
  twin_check (t, "conv1d onto itself", y, 2e-6);
}

static void
test_conv (CudaTest *t)
{
  static const gint kernels[] = { 1, 3, 7, 11 };

  for (gint i = 0; i < 36; i++) {
    gint k = kernels[i % 4], d = 1 + 2 * (i / 4 % 3);

    try_conv (t, H3_DTYPE_F32, 1 + i % 2, ops_pick (&t->ops, 1, 140),
        ops_pick (&t->ops, 1, 140), k, ops_pick (&t->ops, 1, 700), 1, d,
        (k - 1) * d / 2);
  }
  try_conv (t, H3_DTYPE_F16, 2, 5, 17, 1, 37, 1, 1, 0);
  try_conv (t, H3_DTYPE_BF16, 2, 5, 17, 7, 37, 1, 1, 3);
  try_conv (t, H3_DTYPE_F32, 2, 3, 5, 10, 203, 5, 1, 3);
  try_conv (t, H3_DTYPE_F32, 2, 3, 5, 4, 99, 2, 3, 1);
  try_conv (t, H3_DTYPE_F32, 1, 2, 3, 90, 90, 1, 1, 0);
  if (g_test_slow ()) {
    try_conv (t, H3_DTYPE_F32, 2, 256, 256, 11, 8280, 1, 5, 25);
    try_conv (t, H3_DTYPE_F32, 2, 8, 8, 7, 165600, 1, 3, 9);
    try_conv (t, H3_DTYPE_F32, 2, 8, 1, 7, 165600, 1, 1, 3);
  }
}

static void
try_transpose (CudaTest *t, gint b, gint ci, gint co, gint k, gint u,
    gint length)
{
  Twin *w = random_f32 (t, 1 / sqrt (ci), DIMS (ci, co, k));
  Twin *x = random_f32 (t, 1, DIMS (b, ci, length));
  Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (b, co, u * length));
  Twin *bias = random_f32 (t, 1, DIMS (co));
  g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
  g_autoptr (H3Weight) gpu = twin_weight_gpu (w);

  h3_conv_transpose1d (t->ops.stream,
      &(H3ConvTranspose1dArgs){ y->cpu, x->cpu, cpu, bias->cpu, u });
  h3_conv_transpose1d (t->gpu,
      &(H3ConvTranspose1dArgs){ y->gpu, x->gpu, gpu, bias->gpu, u });
  twin_check (t, "conv_transpose1d", y, 2e-6);
  h3_conv_transpose1d (t->ops.stream,
      &(H3ConvTranspose1dArgs){ y->cpu, x->cpu, cpu, NULL, u });
  h3_conv_transpose1d (t->gpu,
      &(H3ConvTranspose1dArgs){ y->gpu, x->gpu, gpu, NULL, u });
  twin_check (t, "conv_transpose1d without bias", y, 2e-6);
}

static void
test_transpose (CudaTest *t)
{
  static const gint shape[][2] = { { 9, 5 }, { 4, 2 }, { 2, 2 }, { 1, 1 },
    { 3, 1 }, { 11, 3 }, { 5, 5 } };

  for (guint i = 0; i < G_N_ELEMENTS (shape); i++) {
    try_transpose (t, 2, ops_pick (&t->ops, 1, 90), 1 + i, shape[i][0],
        shape[i][1], ops_pick (&t->ops, 1, 7));
    try_transpose (t, 1, 3, 13 + 29 * i, shape[i][0], shape[i][1],
        ops_pick (&t->ops, 90, 300));
  }
}

static const gdouble half_filter[6] = { 2.028966449896243e-03,
  9.389463944067880e-03, -2.554346406529466e-02, -5.765737547536496e-02,
  1.285726090813288e-01, 4.432098000653667e-01 };

static void
try_snake (CudaTest *t, gint b, gint c, gint length, gdouble scale)
{
  gfloat taps[12];
  Twin *x = random_f32 (t, scale, DIMS (b, c, length));
  Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (b, c, length));
  Twin *a = random_f32 (t, 3, DIMS (c)), *inv = random_f32 (t, 3, DIMS (c));
  Twin *f;

  for (gint i = 0; i < 12; i++)
    taps[i] = half_filter[MIN (i, 11 - i)];
  f = twin_of (t, H3_DTYPE_F32, taps, DIMS (12));
  h3_snake_beta (t->ops.stream,
      &(H3SnakeBetaArgs){ y->cpu, x->cpu, a->cpu, inv->cpu, f->cpu, f->cpu });
  h3_snake_beta (t->gpu,
      &(H3SnakeBetaArgs){ y->gpu, x->gpu, a->gpu, inv->gpu, f->gpu, f->gpu });
  twin_check (t, "snake_beta", y, 3e-6);
}

static void
test_snake (CudaTest *t)
{
  for (gint i = 0; i < 24; i++)
    try_snake (t, 1 + i % 2, ops_pick (&t->ops, 1, 5),
        i < 14 ? i + 1 : ops_pick (&t->ops, 15, 5000), 2);
  for (gint i = 1022; i < 1027; i++)
    try_snake (t, 1, 2, i, 2);
}

/* x[first .. first + n) of every row as a tensor of its own. */
static Twin *
slice (CudaTest *t, const Twin *x, gint first, gint n)
{
  gint64 rows = x->cpu->shape[0] * x->cpu->shape[1], length = x->cpu->shape[2];
  g_autofree gfloat *part = g_new (gfloat, rows * n);

  for (gint64 row = 0; row < rows; row++)
    memcpy (part + row * n, ops_f32 (x->cpu) + row * length + first,
        n * sizeof (gfloat));
  return twin_of (t, H3_DTYPE_F32, part,
      DIMS (x->cpu->shape[0], x->cpu->shape[1], n));
}

/* What makes a decode in chunks equal to a whole one, byte for byte. */
static void
test_slices (CudaTest *t)
{
  for (gint i = 0; i < 20; i++) {
    gint n = ops_pick (&t->ops, 1, i % 2 ? 40 : 1500), halo = 15;
    gint first = halo + ops_pick (&t->ops, 0, 300);
    gint length = first + n + halo + ops_pick (&t->ops, 0, 200);
    gint ci = ops_pick (&t->ops, 1, 40), co = ops_pick (&t->ops, 1, 200);
    Twin *x = random_f32 (t, 1, DIMS (2, ci, length));
    Twin *part = slice (t, x, first - halo, n + 2 * halo);
    Twin *w = random_f32 (t, 1, DIMS (co, ci, 11));
    Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (2, co, length));
    Twin *z = twin_out (t, H3_DTYPE_F32, DIMS (2, co, n + 2 * halo));
    g_autoptr (H3Weight) weight = twin_weight_gpu (w);
    g_autofree gfloat *whole = NULL, *cut = NULL;

    h3_conv1d (t->gpu, &(H3Conv1dArgs){ y->gpu, x->gpu, weight, .stride = 1,
                           .dilation = 3, .pad = halo });
    h3_conv1d (t->gpu, &(H3Conv1dArgs){ z->gpu, part->gpu, weight, .stride = 1,
                           .dilation = 3, .pad = halo });
    whole = twin_values (t, y);
    cut = twin_values (t, z);
    for (gint row = 0; row < 2 * co; row++)
      g_assert_cmpmem (whole + row * length + first, n * sizeof (gfloat),
          cut + row * (n + 2 * halo) + halo, n * sizeof (gfloat));
  }
}

static void
test_samples (CudaTest *t)
{
  for (gint i = 0; i < 4; i++) {
    gint n = ops_pick (&t->ops, 1, 60000);
    Twin *a = random_f32 (t, 1, DIMS (n)), *b = random_f32 (t, 1, DIMS (n));
    Twin *c = random_f32 (t, 1, DIMS (n));
    g_autofree gfloat *values = g_new (gfloat, 2 * n);
    Twin *x, *y = twin_out (t, H3_DTYPE_F32, DIMS (n, 2));

    h3_mean3 (t->ops.stream, a->cpu, a->cpu, b->cpu, i % 2 ? c->cpu : NULL);
    h3_mean3 (t->gpu, a->gpu, a->gpu, b->gpu, i % 2 ? c->gpu : NULL);
    twin_check (t, "mean3", a, 0);

    for (gint k = 0; k < 2 * n; k++)
      values[k] = g_rand_double_range (t->ops.rand, -2, 2);
    values[n - 1] = NAN;
    values[n] = INFINITY;
    x = twin_of (t, H3_DTYPE_F32, values, DIMS (2, 1, n));
    h3_interleave_clamp (t->ops.stream, y->cpu, x->cpu);
    h3_interleave_clamp (t->gpu, y->gpu, x->gpu);
    twin_check (t, "interleave_clamp", y, 0);
  }
}

static void
test_rows_to_latent (CudaTest *t)
{
  for (gint i = 0; i < 6; i++) {
    gint c = ops_pick (&t->ops, 1, 30), n = ops_pick (&t->ops, 1, 40);
    gint h = 2 * ops_pick (&t->ops, 1, 9), w = 2 * ops_pick (&t->ops, 1, 9);
    Twin *video = random_f32 (t, 1, DIMS (n * h * w / 4, 4 * c));
    Twin *audio = random_f32 (t, 1, DIMS (2 * n, c));
    Twin *v = twin_out (t, H3_DTYPE_F32, DIMS (c, n, h, w));
    Twin *a = twin_out (t, H3_DTYPE_F32, DIMS (2, c, n));

    h3_video_rows_to_latent (t->ops.stream, v->cpu, video->cpu);
    h3_video_rows_to_latent (t->gpu, v->gpu, video->gpu);
    twin_check (t, "video_rows_to_latent", v, 0);
    h3_audio_rows_to_latent (t->ops.stream, a->cpu, audio->cpu);
    h3_audio_rows_to_latent (t->gpu, a->gpu, audio->gpu);
    twin_check (t, "audio_rows_to_latent", a, 0);
  }
}

void
add_media_tests (void)
{
  cuda_test_add ("/cuda/media/latent-tile", test_latent_tile);
  cuda_test_add ("/cuda/media/compose-tiles", test_compose);
  cuda_test_add ("/cuda/media/blend-frames", test_blend);
  cuda_test_add ("/cuda/media/pictures", test_pictures);
  cuda_test_add ("/cuda/media/conv1d", test_conv);
  cuda_test_add ("/cuda/media/conv-transpose1d", test_transpose);
  cuda_test_add ("/cuda/media/snake-beta", test_snake);
  cuda_test_add ("/cuda/media/slices", test_slices);
  cuda_test_add ("/cuda/media/samples", test_samples);
  cuda_test_add ("/cuda/media/rows-to-latent", test_rows_to_latent);
}
