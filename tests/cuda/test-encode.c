/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the encoders are made of, on the GPU against the CPU. */
#include "tests/cuda/test-cuda.h"

static Twin *
random_f32 (CudaTest *t, gdouble scale, guint rank, const gint64 *shape)
{
  return twin_random (t, H3_DTYPE_F32, scale, rank, shape);
}

typedef struct {
  gint b, t, h, w, ci, co, kt, k, stride_t, stride, pad;
} Shape;

/* Values up to @x_scale, weights that make them @w_scale times as large. */
static void
try_scaled_conv (CudaTest *t, Shape s, gdouble x_scale, gdouble w_scale)
{
  gdouble y_scale = x_scale * w_scale;
  Twin *w = random_f32 (t, w_scale / sqrt (s.ci * s.kt * s.k * s.k),
      DIMS (s.co, s.kt, s.k, s.k, s.ci));
  Twin *x = random_f32 (t, x_scale, DIMS (s.b, s.t, s.h, s.w, s.ci));
  gint64 out[] = { s.b, (s.t - 1) / s.stride_t + 1, s.h / s.stride,
    s.w / s.stride, s.co };
  Twin *y = twin_out (t, H3_DTYPE_F32, 5, out);
  Twin *bias = random_f32 (t, y_scale, DIMS (s.co)), *more;
  g_autoptr (H3Weight) cpu = twin_weight_cpu (w);
  g_autoptr (H3Weight) gpu = twin_weight_gpu (w);
  H3Conv3dArgs a = { y->cpu, x->cpu, cpu, bias->cpu, NULL, s.stride_t, s.stride,
    s.pad };
  H3Conv3dArgs g = { y->gpu, x->gpu, gpu, bias->gpu, NULL, s.stride_t, s.stride,
    s.pad };

  h3_conv3d (t->ops.stream, &a);
  h3_conv3d (t->gpu, &g);
  twin_check (t, "conv3d", y, 2e-6);
  more = random_f32 (t, y_scale, 5, out);
  a.residual = more->cpu;
  g.residual = more->gpu;
  h3_conv3d (t->ops.stream, &a);
  h3_conv3d (t->gpu, &g);
  twin_check (t, "conv3d with residual", y, 2e-6);
  a.residual = y->cpu;
  g.residual = y->gpu;
  h3_conv3d (t->ops.stream, &a);
  h3_conv3d (t->gpu, &g);
  twin_check (t, "conv3d onto itself", y, 2e-6);
}

static void
try_conv (CudaTest *t, Shape s)
{
  try_scaled_conv (t, s, 1, 1);
}

static void
test_conv (CudaTest *t)
{
  /* the network's layers, small; half of the operands begin at odd elements,
   * so each several times */
  for (gint i = 0; i < 8; i++) {
    try_conv (t, (Shape){ 1, 1, 16, 24, 32, 32, 3, 3, 1, 1, 1 });
    try_conv (t, (Shape){ 2, 1, 16, 16, 64, 96, 3, 3, 1, 1, 1 });
    try_conv (t, (Shape){ 1, 5, 10, 6, 64, 130, 3, 3, 1, 1, 1 });
    try_conv (t, (Shape){ 2, 5, 8, 12, 32, 64, 3, 3, 2, 2, 0 });
    try_conv (t, (Shape){ 1, 3, 24, 20, 96, 96, 3, 3, 1, 2, 0 });
    try_conv (t, (Shape){ 1, 2, 5, 7, 32, 64, 1, 1, 1, 1, 0 });
    try_conv (t, (Shape){ 1, 3, 4, 4, 160, 48, 3, 3, 1, 1, 1 });
    try_conv (t, (Shape){ 1, 2, 16, 16, 3, 128, 3, 3, 1, 1, 1 });
  }
  for (gint i = 0; i < 24; i++) {
    gint stride = 1 + i % 2, ci = ops_pick (&t->ops, 1, 70);

    try_conv (t,
        (Shape){ ops_pick (&t->ops, 1, 3), ops_pick (&t->ops, 1, 5),
            stride * ops_pick (&t->ops, 2, 20),
            stride * ops_pick (&t->ops, 2, 20), i % 3 ? ci / 32 * 32 + 32 : ci,
            ops_pick (&t->ops, 1, 140), ops_pick (&t->ops, 1, 3), 3,
            ops_pick (&t->ops, 1, 3), stride, 2 - stride });
  }
  if (g_test_slow ()) {
    try_conv (t, (Shape){ 1, 1, 128, 128, 128, 128, 3, 3, 1, 1, 1 });
    try_conv (t, (Shape){ 1, 5, 16, 16, 1024, 1024, 3, 3, 1, 1, 1 });
    try_conv (t, (Shape){ 1, 5, 16, 16, 1024, 48, 3, 3, 1, 1, 1 });
  }
}

/* Float32's range, whatever pieces a kernel makes of it. */
static void
test_conv_range (CudaTest *t)
{
  static const gdouble scales[][2] = { { 1e6, 1 }, { 1e-6, 1 }, { 1, 1e6 },
    { 1, 1e-6 }, { 1e30, 1e-10 }, { 1e-10, 1e30 }, { 1e25, 1e-20 } };

  for (guint i = 0; i < G_N_ELEMENTS (scales); i++)
    for (gint k = 0; k < 4; k++)
      try_scaled_conv (t, (Shape){ 1, 3, 9, 18, 64, 66, 3, 3, 1, 1, 1 },
          scales[i][0], scales[i][1]);
  /* nothing but zeros */
  try_scaled_conv (t, (Shape){ 1, 2, 8, 8, 64, 64, 3, 3, 1, 1, 1 }, 0, 1);
  try_scaled_conv (t, (Shape){ 1, 2, 8, 8, 64, 64, 3, 3, 1, 1, 1 }, 1, 0);
}

/* A clip's bytes are the same alone and among so many that a kernel takes larger
 * tiles, and so are its first frame's, whatever follows. */
static void
test_conv_alone (CudaTest *t)
{
  enum { CLIPS = 200, FRAMES = 3, SIDE = 16, C = 64 };
  const gint64 frame = SIDE * SIDE * C, clip = FRAMES * frame;
  H3Device *device = t->gpu->device;
  g_autofree gfloat *values = g_new (gfloat, CLIPS * clip);
  g_autofree gfloat *all = g_new (gfloat, CLIPS * clip);
  g_autofree gfloat *one = g_new (gfloat, clip);
  g_autoptr (H3Tensor) x = NULL;
  g_autoptr (H3Tensor) bias = NULL;
  g_autoptr (H3Weight) w = NULL;
  g_autoptr (H3Tensor) y = h3_tensor_new (device, H3_DTYPE_F32,
      DIMS (CLIPS, FRAMES, SIDE, SIDE, C), NULL);

  for (gint64 i = 0; i < CLIPS * clip; i++)
    values[i] = ldexp (g_rand_double_range (t->ops.rand, -1, 1),
        (gint) (i / frame * 7 % 24));
  x = h3_tensor_new_from_host (device, H3_DTYPE_F32, 5, y->shape, values, NULL);
  w = h3_weight_new_plain (h3_tensor_new_from_host (device, H3_DTYPE_F32,
      DIMS (C, 3, 3, 3, C), values + 12345, NULL));
  bias = h3_tensor_new_from_host (device, H3_DTYPE_F32, DIMS (C), values, NULL);
  h3_conv3d (t->gpu, &(H3Conv3dArgs){ y, x, w, bias, NULL, 1, 1, 1 });
  h3_download (t->gpu, all, y);
  for (gint i = 0; i < CLIPS; i += 33)
    for (gint frames = 1; frames <= FRAMES; frames += 2) {
      const gint64 shape[] = { 1, frames, SIDE, SIDE, C };
      g_autoptr (H3Tensor) part = h3_tensor_view (x, i * clip, 5, shape);
      g_autoptr (H3Tensor) alone =
          h3_tensor_new (device, H3_DTYPE_F32, 5, shape, NULL);

      h3_conv3d (t->gpu,
          &(H3Conv3dArgs){ alone, part, w, bias, NULL, 1, 1, 1 });
      h3_download (t->gpu, one, alone);
      g_assert_true (h3_stream_synchronize (t->gpu, NULL));
      g_assert_cmpmem (one, frames * frame * sizeof *one, all + i * clip,
          frames * frame * sizeof *one);
    }
}

static void
try_norm (CudaTest *t, gint f, gint h, gint w, gint c, gint groups,
    gfloat offset)
{
  gint64 n = (gint64) f * h * w * c;
  g_autofree gfloat *values = g_new (gfloat, n);
  Twin *x, *y = twin_out (t, H3_DTYPE_F32, DIMS (f, h, w, c));
  Twin *gain = random_f32 (t, 2, DIMS (c)), *bias = random_f32 (t, 1, DIMS (c));

  for (gint64 i = 0; i < n; i++)
    values[i] = offset + g_rand_double_range (t->ops.rand, -2, 2);
  x = twin_of (t, H3_DTYPE_F32, values, DIMS (f, h, w, c));
  h3_group_norm_silu (t->ops.stream, &(H3GroupNormArgs){ y->cpu, x->cpu,
                                         gain->cpu, bias->cpu, groups, 1e-6f });
  h3_group_norm_silu (t->gpu, &(H3GroupNormArgs){ y->gpu, x->gpu, gain->gpu,
                                  bias->gpu, groups, 1e-6f });
  twin_check (t, "group_norm_silu", y, 2e-6);
}

static void
test_norm (CudaTest *t)
{
  try_norm (t, 2, 5, 7, 32, 32, 0);
  try_norm (t, 3, 8, 8, 64, 32, 0);
  try_norm (t, 1, 64, 64, 128, 32, 0);
  try_norm (t, 5, 16, 16, 1024, 32, 0);
  try_norm (t, 2, 2, 2, 2048, 32, 0);
  try_norm (t, 1, 1, 1, 6, 2, 0);
  try_norm (t, 2, 9, 4, 60, 5, 0);
  try_norm (t, 1, 70, 90, 256, 32, 0);
  try_norm (t, 1, 9, 40, 300, 3, 10);
}

static void
test_pixels (CudaTest *t)
{
  for (gint i = 0; i < 6; i++) {
    gint f = ops_pick (&t->ops, 1, 3), h = ops_pick (&t->ops, 4, 40),
         w = ops_pick (&t->ops, 4, 40);
    gint th = ops_pick (&t->ops, 1, h), tw = ops_pick (&t->ops, 1, w);
    g_autoptr (H3Tensor) cpu =
        h3_tensor_new (t->ops.device, H3_DTYPE_U8, DIMS (f, h, w, 3), NULL);
    g_autoptr (H3Tensor) gpu =
        h3_tensor_new (t->gpu->device, H3_DTYPE_U8, DIMS (f, h, w, 3), NULL);
    Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (f, th, tw, 3));
    H3NetworkPixelsArgs a = { y->cpu, cpu, ops_pick (&t->ops, 0, h - th),
      ops_pick (&t->ops, 0, w - tw), { 0.485f, 0.456f, 0.406f },
      { 0.229f, 0.224f, 0.225f } };
    H3NetworkPixelsArgs g = a;

    for (gint k = 0; k < f * h * w * 3; k++)
      ((guint8 *) cpu->data)[k] = ops_pick (&t->ops, 0, 255);
    h3_upload (t->gpu, gpu, cpu->data);
    g.y = y->gpu;
    g.rgb = gpu;
    h3_network_pixels (t->ops.stream, &a);
    h3_network_pixels (t->gpu, &g);
    twin_check (t, "network_pixels", y, 0);
  }
}

static void
test_snake (CudaTest *t)
{
  for (gint i = 0; i < 6; i++) {
    gint b = ops_pick (&t->ops, 1, 2), c = ops_pick (&t->ops, 1, 9),
         n = ops_pick (&t->ops, 1, 3000);
    Twin *x = random_f32 (t, 3, DIMS (b, c, n));
    Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (b, c, n));
    Twin *a = random_f32 (t, 2, DIMS (c)), *inv = random_f32 (t, 2, DIMS (c));

    h3_snake (t->ops.stream,
        &(H3SnakeArgs){ y->cpu, x->cpu, a->cpu, inv->cpu });
    h3_snake (t->gpu, &(H3SnakeArgs){ y->gpu, x->gpu, a->gpu, inv->gpu });
    twin_check (t, "snake", y, 2e-6);
    h3_snake (t->ops.stream,
        &(H3SnakeArgs){ x->cpu, x->cpu, a->cpu, inv->cpu });
    h3_snake (t->gpu, &(H3SnakeArgs){ x->gpu, x->gpu, a->gpu, inv->gpu });
    twin_check (t, "snake in place", x, 2e-6);
    h3_multiply (t->ops.stream, y->cpu, x->cpu);
    h3_multiply (t->gpu, y->gpu, x->gpu);
    twin_check (t, "multiply", y, 4e-6);
  }
}

void
add_encode_tests (void)
{
  cuda_test_add ("/cuda/encode/conv3d", test_conv);
  cuda_test_add ("/cuda/encode/conv3d-range", test_conv_range);
  cuda_test_add ("/cuda/encode/conv3d-alone", test_conv_alone);
  cuda_test_add ("/cuda/encode/group-norm-silu", test_norm);
  cuda_test_add ("/cuda/encode/network-pixels", test_pixels);
  cuda_test_add ("/cuda/encode/snake", test_snake);
}
