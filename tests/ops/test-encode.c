/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the encoders are made of. */
#include "tests/ops/ops-test.h"

static gint64
mirror (gint64 at, gint64 n)
{
  return at < 0 ? -at : at >= n ? 2 * n - 2 - at : at;
}

/* The input of output (b, t, i, j) that tap (dt, dy, dx) sees, or NULL. */
static const gfloat *
seen (const H3Conv3dArgs *a, gint64 b, gint64 t, gint64 i, gint64 j, gint64 dt,
    gint64 dy, gint64 dx)
{
  const gint64 *x = a->x->shape;
  gint64 from = t * a->stride_t + dt - (a->weight->tensor->shape[1] - 1);
  gint64 y = mirror (i * a->stride + dy - a->pad, x[2]);
  gint64 c = mirror (j * a->stride + dx - a->pad, x[3]);

  if (from < 0)
    return NULL;
  return ops_f32 (a->x) + (((b * x[1] + from) * x[2] + y) * x[3] + c) * x[4];
}

static gdouble
conv_sum (const H3Conv3dArgs *a, gint64 b, gint64 t, gint64 i, gint64 j,
    gint64 o)
{
  const gint64 *w = a->weight->tensor->shape;
  const gfloat *value =
      ops_f32 (a->weight->tensor) + o * w[1] * w[2] * w[3] * w[4];
  gdouble sum = ops_at (a->bias, o);

  for (gint64 dt = 0; dt < w[1]; dt++)
    for (gint64 dy = 0; dy < w[2]; dy++)
      for (gint64 dx = 0; dx < w[3]; dx++, value += w[4]) {
        const gfloat *x = seen (a, b, t, i, j, dt, dy, dx);

        for (gint64 c = 0; x && c < w[4]; c++)
          sum += (gdouble) value[c] * x[c];
      }
  return sum;
}

static gdouble *
conv_reference (const H3Conv3dArgs *a)
{
  const gint64 *y = a->y->shape;
  gint64 n = h3_tensor_size (a->y);
  gdouble *want = g_new (gdouble, n);

  for (gint64 at = 0; at < n; at++) {
    gint64 p = at / y[4];

    want[at] = conv_sum (a, p / y[3] / y[2] / y[1], p / y[3] / y[2] % y[1],
        p / y[3] % y[2], p % y[3], at % y[4]);
    if (a->residual)
      want[at] += ops_at (a->residual, at);
  }
  return want;
}

typedef struct {
  gint b, t, h, w, ci, co, kt, k, stride_t, stride, pad;
} Shape;

static void
try_conv (Ops *ops, Shape s)
{
  g_autoptr (H3Weight) w =
      ops_weight (ops, H3_DTYPE_F32, 0.3, DIMS (s.co, s.kt, s.k, s.k, s.ci));
  H3Conv3dArgs args = { .weight = w,
    .stride_t = s.stride_t,
    .stride = s.stride,
    .pad = s.pad };
  gdouble *want;

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (s.b, s.t, s.h, s.w, s.ci));
  args.y = ops_random (ops, H3_DTYPE_F32, 1,
      DIMS (s.b, (s.t - 1) / s.stride_t + 1, s.h / s.stride, s.w / s.stride,
          s.co));
  args.bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (s.co));
  h3_conv3d (ops->stream, &args);
  ops_check (ops, args.y, conv_reference (&args), 1e-5);

  args.residual = args.y;
  want = conv_reference (&args);
  h3_conv3d (ops->stream, &args);
  ops_check (ops, args.y, want, 1e-5);

  args.residual =
      ops_random (ops, H3_DTYPE_F32, 1, args.y->rank, args.y->shape);
  h3_conv3d (ops->stream, &args);
  ops_check (ops, args.y, conv_reference (&args), 1e-5);
}

static void
test_conv (Ops *ops)
{
  /* the network's: causal, the two downsamplings, shortcut, first and last */
  try_conv (ops, (Shape){ 1, 1, 16, 24, 32, 32, 3, 3, 1, 1, 1 });
  try_conv (ops, (Shape){ 1, 5, 8, 6, 32, 40, 3, 3, 1, 1, 1 });
  try_conv (ops, (Shape){ 1, 5, 8, 6, 20, 24, 3, 3, 2, 2, 0 });
  try_conv (ops, (Shape){ 2, 4, 6, 8, 20, 24, 3, 3, 1, 2, 0 });
  try_conv (ops, (Shape){ 2, 3, 5, 7, 33, 65, 1, 1, 1, 1, 0 });
  try_conv (ops, (Shape){ 3, 3, 9, 11, 3, 17, 3, 3, 1, 1, 1 });
  try_conv (ops, (Shape){ 1, 2, 2, 2, 300, 9, 3, 3, 1, 1, 1 });
  /* more pixels in a row than a task has, and more channels */
  try_conv (ops, (Shape){ 1, 1, 3, 600, 4, 5, 3, 3, 1, 1, 1 });
  try_conv (ops, (Shape){ 1, 2, 2, 523, 2, 3, 3, 3, 1, 1, 1 });
  try_conv (ops, (Shape){ 1, 1, 4, 4, 5, 300, 3, 3, 1, 1, 1 });
  try_conv (ops, (Shape){ 1, 3, 2, 4, 2, 3, 3, 3, 2, 2, 0 });
  for (gint i = 0; i < 24; i++) {
    gint stride = 1 + i % 2;

    try_conv (ops,
        (Shape){ ops_pick (ops, 1, 3), ops_pick (ops, 1, 5),
            stride * ops_pick (ops, 2, 20), stride * ops_pick (ops, 2, 20),
            ops_pick (ops, 1, 40), ops_pick (ops, 1, 70), ops_pick (ops, 1, 3),
            3, ops_pick (ops, 1, 3), stride, 2 - stride });
  }
}

/* A still is what a clip begins with. */
static void
test_causal (Ops *ops)
{
  g_autoptr (H3Weight) w =
      ops_weight (ops, H3_DTYPE_F32, 0.3, DIMS (7, 3, 3, 3, 5));
  H3Tensor *bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (7));
  H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (1, 4, 6, 6, 5));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (1, 4, 6, 6, 7));
  H3Tensor *still = ops_new (ops, H3_DTYPE_F32, DIMS (1, 1, 6, 6, 7));
  g_autoptr (H3Tensor) first =
      h3_tensor_view (x, 0, 5, (const gint64[]){ 1, 1, 6, 6, 5 });
  gdouble *want = g_new (gdouble, 6 * 6 * 7);

  h3_conv3d (ops->stream, &(H3Conv3dArgs){ y, x, w, bias, NULL, 1, 1, 1 });
  h3_conv3d (ops->stream,
      &(H3Conv3dArgs){ still, first, w, bias, NULL, 1, 1, 1 });
  for (gint i = 0; i < 6 * 6 * 7; i++)
    want[i] = ops_at (y, i);
  ops_check (ops, still, want, 1e-6);
}

static void
try_norm (Ops *ops, gint frames, gint h, gint w, gint c, gint groups,
    gdouble offset)
{
  gint pixels = h * w, width = c / groups;
  H3GroupNormArgs a = { .groups = groups, .eps = 1e-6f };
  gdouble *want = g_new (gdouble, (gsize) frames * pixels * c);

  a.x = ops_random (ops, H3_DTYPE_F32, 2, DIMS (frames, h, w, c));
  a.y = ops_new (ops, H3_DTYPE_F32, DIMS (frames, h, w, c));
  a.weight = ops_random (ops, H3_DTYPE_F32, 2, DIMS (c));
  a.bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (c));
  for (gint64 i = 0; i < h3_tensor_size (a.x); i++)
    ops_f32 (a.x)[i] += offset;
  for (gint f = 0; f < frames; f++)
    for (gint g = 0; g < groups; g++) {
      gdouble sum = 0, squares = 0, n = pixels * width;

      for (gint k = 0; k < pixels * width; k++)
        sum +=
            ops_at (a.x, (f * pixels + k / width) * c + g * width + k % width);
      for (gint k = 0; k < pixels * width; k++)
        squares += pow (ops_at (a.x, (f * pixels + k / width) * c + g * width +
                                         k % width) -
                            sum / n,
            2);
      for (gint k = 0; k < pixels * width; k++) {
        gint at = (f * pixels + k / width) * c + g * width + k % width;
        gdouble v = (ops_at (a.x, at) - sum / n) / sqrt (squares / n + a.eps);

        v = v * ops_at (a.weight, g * width + k % width) +
            ops_at (a.bias, g * width + k % width);
        want[at] = v / (1 + exp (-v));
      }
    }
  h3_group_norm_silu (ops->stream, &a);
  ops_check (ops, a.y, want, 1e-5);
}

static void
test_norm (Ops *ops)
{
  try_norm (ops, 2, 5, 7, 32, 32, 0);
  try_norm (ops, 3, 8, 8, 64, 32, 0);
  try_norm (ops, 1, 20, 30, 128, 32, 0);
  try_norm (ops, 2, 2, 2, 1024, 32, 0);
  try_norm (ops, 1, 1, 1, 6, 2, 0);
  try_norm (ops, 2, 9, 4, 60, 5, 0);
  try_norm (ops, 1, 9, 4, 96, 3, 100); /* a mean far from 0 */
}

static void
test_pixels (Ops *ops)
{
  H3Tensor *rgb = ops_new (ops, H3_DTYPE_U8, DIMS (3, 9, 11, 3));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (2, 4, 5, 3));
  H3NetworkPixelsArgs a = { y, rgb, 5, 6, { 0.485f, 0.456f, 0.406f },
    { 0.229f, 0.224f, 0.225f } };
  gdouble *want = g_new (gdouble, 2 * 4 * 5 * 3);

  for (gint i = 0; i < 3 * 9 * 11 * 3; i++)
    ((guint8 *) rgb->data)[i] = i < 256 ? i : ops_pick (ops, 0, 255);
  for (gint at = 0; at < 2 * 4 * 5 * 3; at++) {
    gint c = at % 3, j = at / 3 % 5, i = at / 15 % 4, f = at / 60;
    gfloat v = ops_at (rgb, ((f * 9 + 5 + i) * 11 + 6 + j) * 3 + c);

    v /= 255.0f;
    v -= a.mean[c];
    want[at] = v / a.std[c];
  }
  h3_network_pixels (ops->stream, &a);
  ops_check (ops, y, want, 0);
}

static void
try_snake (Ops *ops, gint b, gint c, gint length, gdouble scale)
{
  H3SnakeArgs args;
  gdouble *want = g_new (gdouble, (gsize) b * c * length);

  args.x = ops_random (ops, H3_DTYPE_F32, scale, DIMS (b, c, length));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (b, c, length));
  args.a = ops_random (ops, H3_DTYPE_F32, 2, DIMS (c));
  args.inv_a = ops_random (ops, H3_DTYPE_F32, 2, DIMS (c));
  for (gint i = 0; i < b * c * length; i++) {
    gint k = i / length % c;
    gdouble x = ops_at (args.x, i);

    want[i] = x + ops_at (args.inv_a, k) *
                      pow (sin ((gfloat) (ops_at (args.a, k) * x)), 2);
  }
  h3_snake (ops->stream, &args);
  ops_check (ops, args.y, g_memdup2 (want, sizeof *want * b * c * length),
      1e-5);
  args.y = (H3Tensor *) args.x;
  h3_snake (ops->stream, &args);
  ops_check (ops, args.y, want, 1e-5);
}

static void
test_snake (Ops *ops)
{
  H3SnakeArgs example = { .x = ops_new (ops, H3_DTYPE_F32, DIMS (1, 2, 1)) };

  try_snake (ops, 2, 3, 1, 3);
  try_snake (ops, 2, 7, 513, 3);
  try_snake (ops, 1, 2, 2000, 100);
  try_snake (ops, 1, 2, 40, 1e7);
  /* audio-vae.md 4.4 */
  example.y = ops_new (ops, H3_DTYPE_F32, DIMS (1, 2, 1));
  example.a = ops_new (ops, H3_DTYPE_F32, DIMS (2));
  example.inv_a = ops_new (ops, H3_DTYPE_F32, DIMS (2));
  memcpy (example.x->data, (const gfloat[]){ 0.7f, -0.4f }, 8);
  memcpy (example.a->data, (const gfloat[]){ 1.3f, 0.5f }, 8);
  memcpy (example.inv_a->data, (const gfloat[]){ 1 / 1.3f, 2 }, 8);
  h3_snake (ops->stream, &example);
  ops_check (ops, example.y,
      g_memdup2 ((const gdouble[]){ 1.179473965, -0.321060994 }, 16), 2e-7);
}

static void
test_multiply (Ops *ops)
{
  H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 2, DIMS (3, 7));
  H3Tensor *y = ops_random (ops, H3_DTYPE_F32, 2, DIMS (3, 7));
  gdouble *want = g_new (gdouble, 21);

  for (gint i = 0; i < 21; i++)
    want[i] = (gfloat) (ops_at (x, i) * ops_at (y, i));
  h3_multiply (ops->stream, y, x);
  ops_check (ops, y, want, 0);
}

static void
test_conv_shapes (Ops *ops)
{
  g_autoptr (H3Weight) w =
      ops_weight (ops, H3_DTYPE_F32, 1, DIMS (4, 3, 3, 3, 2));
  g_autoptr (H3Weight) narrow =
      ops_weight (ops, H3_DTYPE_F16, 1, DIMS (4, 3, 3, 3, 2));
  H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (1, 2, 6, 6, 2));
  H3Tensor *thin = ops_random (ops, H3_DTYPE_F32, 1, DIMS (1, 2, 6, 1, 2));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (1, 2, 6, 6, 4));
  H3Tensor *bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (4));
  const H3Conv3dArgs good = { y, x, w, bias, NULL, 1, 1, 1 };
  H3Conv3dArgs a = good;

  a.weight = NULL;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "conv3d: the weight is missing");
  a.weight = narrow;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the weight is float16");
  a = good;
  a.x = y;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the weight is float32 [4, 3, 3, 3, 2]");
  a = good;
  a.bias = NULL;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the bias is missing");
  a = good;
  a.stride = 4;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "strides 1 and 4");
  a.stride = 0;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "does not fit 2 frames of 6 x 6");
  a = good;
  a.x = thin;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "does not fit 2 frames of 6 x 1");
  a = good;
  a.pad = 3;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "pad 3");
  a = good;
  a.stride_t = 2;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "y is float32 [1, 2, 6, 6, 4]");
  a = good;
  a.residual = x;
  h3_conv3d (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the residual is");
}

static void
test_shapes (Ops *ops)
{
  H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (1, 6, 6, 4));
  H3Tensor *y = ops_random (ops, H3_DTYPE_F32, 1, DIMS (1, 6, 6, 4));
  H3Tensor *four = ops_random (ops, H3_DTYPE_F32, 1, DIMS (4));
  H3Tensor *five = ops_random (ops, H3_DTYPE_F32, 1, DIMS (5));
  H3Tensor *rgb = ops_new (ops, H3_DTYPE_U8, DIMS (1, 6, 6, 3));
  H3Tensor *pixels = ops_new (ops, H3_DTYPE_F32, DIMS (1, 4, 4, 3));
  H3Tensor *sound = ops_random (ops, H3_DTYPE_F32, 1, DIMS (1, 4, 9));

  h3_group_norm_silu (ops->stream,
      &(H3GroupNormArgs){ y, x, four, four, 3, 1e-6f });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "4 channels are not 3 equal groups");
  h3_group_norm_silu (ops->stream,
      &(H3GroupNormArgs){ y, x, five, four, 2, 1e-6f });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the weight is float32 [5]");
  h3_group_norm_silu (ops->stream,
      &(H3GroupNormArgs){ x, x, four, four, 2, 1e-6f });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "overlaps x");
  h3_network_pixels (ops->stream, &(H3NetworkPixelsArgs){ pixels, rgb, 3, 0 });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "a tile of 1 x 4 x 4 at (3, 0)");
  h3_network_pixels (ops->stream, &(H3NetworkPixelsArgs){ pixels, rgb, 0, -1 });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "at (0, -1) is not inside");
  h3_network_pixels (ops->stream,
      &(H3NetworkPixelsArgs){ pixels, pixels, 0, 0 });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "rgb is float32");
  h3_snake (ops->stream, &(H3SnakeArgs){ sound, sound, five, four });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "snake: a is float32 [5]");
  h3_snake (ops->stream, &(H3SnakeArgs){ x, sound, four, four });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "snake: y is float32 [1, 6, 6, 4]");
  h3_multiply (ops->stream, four, five);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "multiply: x is float32 [5]");
  h3_multiply (ops->stream, four, four);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "overlaps x");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/ops/encode/conv3d", test_conv);
  ops_add ("/ops/encode/conv3d/causal", test_causal);
  ops_add ("/ops/encode/conv3d/shapes", test_conv_shapes);
  ops_add ("/ops/encode/group-norm-silu", test_norm);
  ops_add ("/ops/encode/network-pixels", test_pixels);
  ops_add ("/ops/encode/snake", test_snake);
  ops_add ("/ops/encode/multiply", test_multiply);
  ops_add ("/ops/encode/shapes", test_shapes);
  return g_test_run ();
}
