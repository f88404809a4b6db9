/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Convolutions and activations of the audio decoder. */
#include "tests/ops/ops-test.h"

static const gdouble half_filter[6] = { 2.028966449896243e-03,
  9.389463944067880e-03, -2.554346406529466e-02, -5.765737547536496e-02,
  1.285726090813288e-01, 4.432098000653667e-01 };

static H3Tensor *
filter (Ops *ops)
{
  H3Tensor *f = ops_new (ops, H3_DTYPE_F32, DIMS (12));

  for (gint i = 0; i < 12; i++)
    ops_f32 (f)[i] = half_filter[MIN (i, 11 - i)];
  return f;
}

static gdouble *
conv_reference (const H3Conv1dArgs *a, const H3Tensor *residual)
{
  const gint64 *y = a->y->shape, *w = a->weight->tensor->shape;
  gint64 length = a->x->shape[2];
  gdouble *want = g_new (gdouble, h3_tensor_size (a->y));

  for (gint64 b = 0; b < y[0]; b++)
    for (gint64 o = 0; o < y[1]; o++)
      for (gint64 n = 0; n < y[2]; n++) {
        gint64 at = (b * y[1] + o) * y[2] + n;
        gdouble sum = a->bias ? ops_at (a->bias, o) : 0;

        for (gint64 c = 0; c < w[1]; c++)
          for (gint64 k = 0; k < w[2]; k++) {
            gint64 i = n * a->stride - a->pad + k * a->dilation;
            if (i >= 0 && i < length)
              sum += ops_at (a->weight->tensor, (o * w[1] + c) * w[2] + k) *
                     ops_at (a->x, (b * w[1] + c) * length + i);
          }
        want[at] = sum + (residual ? ops_at (residual, at) : 0);
      }
  return want;
}

static void
try_conv (Ops *ops, H3DType dtype, gint b, gint ci, gint co, gint k,
    gint length, gint stride, gint dilation, gint pad)
{
  gint lo = (length + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
  g_autoptr (H3Weight) w = ops_weight (ops, dtype, 0.3, DIMS (co, ci, k));
  H3Conv1dArgs args = { .weight = w,
    .stride = stride,
    .dilation = dilation,
    .pad = pad };
  gdouble *want;

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (b, ci, length));
  args.y = ops_random (ops, H3_DTYPE_F32, 1, DIMS (b, co, lo));
  h3_conv1d (ops->stream, &args);
  ops_check (ops, args.y, conv_reference (&args, NULL), 1e-5);

  args.bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (co));
  args.residual = ops_random (ops, H3_DTYPE_F32, 1, DIMS (b, co, lo));
  h3_conv1d (ops->stream, &args);
  ops_check (ops, args.y, conv_reference (&args, args.residual), 1e-5);

  args.residual = args.y;
  want = conv_reference (&args, args.y);
  h3_conv1d (ops->stream, &args);
  ops_check (ops, args.y, want, 1e-5);
}

static void
test_conv (Ops *ops)
{
  static const gint kernels[] = { 1, 3, 7, 11 };

  for (gint i = 0; i < 24; i++) {
    gint k = kernels[i % 4], d = 1 + 2 * (i / 4 % 3);

    try_conv (ops, H3_DTYPE_F32, 1 + i % 2, ops_pick (ops, 1, 9), 1 + i % 13, k,
        ops_pick (ops, 1, 260), 1, d, (k - 1) * d / 2);
  }
  try_conv (ops, H3_DTYPE_F16, 2, 5, 17, 1, 37, 1, 1, 0);
  try_conv (ops, H3_DTYPE_BF16, 2, 5, 17, 7, 37, 1, 1, 3);
  /* the encoder's strides, and a kernel as long as its input */
  try_conv (ops, H3_DTYPE_F32, 2, 3, 5, 10, 203, 5, 1, 3);
  try_conv (ops, H3_DTYPE_F32, 2, 3, 5, 4, 99, 2, 3, 1);
  try_conv (ops, H3_DTYPE_F32, 1, 2, 3, 3, 5, 7, 1, 0);
  try_conv (ops, H3_DTYPE_F32, 1, 2, 3, 90, 90, 1, 1, 0);
  /* more channels than a task makes, and than it takes at a time */
  try_conv (ops, H3_DTYPE_F32, 1, 4, 431, 3, 33, 1, 1, 1);
  try_conv (ops, H3_DTYPE_F32, 1, 131, 13, 3, 110, 1, 1, 1);
  try_conv (ops, H3_DTYPE_BF16, 2, 131, 27, 3, 43, 2, 1, 1);
}

static gdouble *
transpose_reference (const H3ConvTranspose1dArgs *a)
{
  const gint64 *y = a->y->shape, *w = a->weight->tensor->shape;
  gint64 length = a->x->shape[2], pad = (w[2] - a->stride) / 2;
  gdouble *want = g_new (gdouble, h3_tensor_size (a->y));

  for (gint64 i = 0; i < h3_tensor_size (a->y); i++)
    want[i] = a->bias ? ops_at (a->bias, i / y[2] % y[1]) : 0;
  for (gint64 b = 0; b < y[0]; b++)
    for (gint64 c = 0; c < w[0]; c++)
      for (gint64 o = 0; o < w[1]; o++)
        for (gint64 i = 0; i < length; i++)
          for (gint64 k = 0; k < w[2]; k++) {
            gint64 n = i * a->stride - pad + k;
            if (n >= 0 && n < y[2])
              want[(b * y[1] + o) * y[2] + n] +=
                  ops_at (a->weight->tensor, (c * w[1] + o) * w[2] + k) *
                  ops_at (a->x, (b * w[0] + c) * length + i);
          }
  return want;
}

static void
try_transpose (Ops *ops, H3DType dtype, gint b, gint ci, gint co, gint k,
    gint u, gint length)
{
  g_autoptr (H3Weight) w = ops_weight (ops, dtype, 0.3, DIMS (ci, co, k));
  H3ConvTranspose1dArgs args = { .weight = w, .stride = u };

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (b, ci, length));
  args.y = ops_random (ops, H3_DTYPE_F32, 1, DIMS (b, co, u * length));
  args.bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (co));
  h3_conv_transpose1d (ops->stream, &args);
  ops_check (ops, args.y, transpose_reference (&args), 1e-5);
  args.bias = NULL;
  h3_conv_transpose1d (ops->stream, &args);
  ops_check (ops, args.y, transpose_reference (&args), 1e-5);
}

static void
test_transpose (Ops *ops)
{
  static const gint shape[][2] = { { 9, 5 }, { 4, 2 }, { 2, 2 }, { 1, 1 },
    { 3, 1 }, { 11, 3 }, { 5, 5 } };

  for (guint i = 0; i < G_N_ELEMENTS (shape); i++) {
    try_transpose (ops, H3_DTYPE_F32, 2, ops_pick (ops, 1, 9), 1 + i,
        shape[i][0], shape[i][1], ops_pick (ops, 1, 7));
    try_transpose (ops, H3_DTYPE_F32, 1, 3, 13 + 9 * i, shape[i][0],
        shape[i][1], ops_pick (ops, 90, 200));
  }
  try_transpose (ops, H3_DTYPE_F32, 1, 130, 31, 9, 5, 21);
  try_transpose (ops, H3_DTYPE_BF16, 1, 67, 9, 9, 5, 21);
  try_transpose (ops, H3_DTYPE_F16, 1, 4, 9, 4, 2, 21);
}

static gdouble
snake_up (const H3SnakeBetaArgs *t, gint64 row, gint64 length, gint64 j)
{
  gint64 c = row % t->x->shape[1];
  gdouble u = 0, s;

  for (gint m = 0; m < 6; m++)
    u += 2 * ops_at (t->up_filter, (j + 5) % 2 + 2 * m) *
         ops_at (t->x, row * length + CLAMP ((j + 5) / 2 - m, 0, length - 1));
  s = sin (ops_at (t->a, c) * u);
  return u + ops_at (t->inv_b, c) * s * s;
}

static gdouble *
snake_reference (const H3SnakeBetaArgs *t)
{
  gint64 length = t->x->shape[2];
  gint64 rows = t->x->shape[0] * t->x->shape[1];
  gdouble *want = g_new (gdouble, h3_tensor_size (t->y));

  for (gint64 row = 0; row < rows; row++)
    for (gint64 n = 0; n < length; n++) {
      gdouble sum = 0;

      for (gint k = 0; k < 12; k++)
        sum +=
            ops_at (t->down_filter, k) *
            snake_up (t, row, length, CLAMP (2 * n + k - 5, 0, 2 * length - 1));
      want[row * length + n] = sum;
    }
  return want;
}

static H3SnakeBetaArgs
snake_args (Ops *ops, gint b, gint c, gint length, gdouble scale)
{
  H3SnakeBetaArgs args = { .up_filter = filter (ops),
    .down_filter = filter (ops) };

  args.x = ops_random (ops, H3_DTYPE_F32, scale, DIMS (b, c, length));
  args.y = ops_random (ops, H3_DTYPE_F32, 1, DIMS (b, c, length));
  args.a = ops_random (ops, H3_DTYPE_F32, 3, DIMS (c));
  args.inv_b = ops_random (ops, H3_DTYPE_F32, 3, DIMS (c));
  return args;
}

static void
test_snake (Ops *ops)
{
  for (gint i = 0; i < 24; i++) {
    H3SnakeBetaArgs args = snake_args (ops, 1 + i % 2, ops_pick (ops, 1, 5),
        i < 14 ? i + 1 : ops_pick (ops, 15, 1200), 2);

    h3_snake_beta (ops->stream, &args);
    ops_check (ops, args.y, snake_reference (&args), 3e-6);
  }
}

/* audio-vae.md 4.9 */
static void
test_snake_example (Ops *ops)
{
  static const gfloat x[4] = { 1, 2, -1, 0.5 };
  static const gdouble y[4] = { 1.96287996, 2.50042501, -0.22416892,
    0.52570982 };
  H3SnakeBetaArgs args = snake_args (ops, 1, 1, 4, 1);

  memcpy (args.x->data, x, sizeof x);
  *ops_f32 (args.a) = 1;
  *ops_f32 (args.inv_b) = 1;
  h3_snake_beta (ops->stream, &args);
  ops_check (ops, args.y, g_memdup2 (y, sizeof y), 1e-6);
}

/* The sine's arguments reach far outside one period: the float product a u is
 * given, so the reference takes it from a single sample that every tap sees. */
static void
test_snake_range (Ops *ops)
{
  for (gint i = 0; i < 400; i++) {
    H3SnakeBetaArgs args = snake_args (ops, 1, 1, 1, 1);
    gfloat x = pow (10, g_rand_double_range (ops->rand, -6, 12));
    gdouble *want = g_new (gdouble, 1), s;
    gfloat u = 0, v;

    *ops_f32 (args.x) = x;
    *ops_f32 (args.a) = 1;
    *ops_f32 (args.inv_b) = 1e6f;
    /* identity filters: one tap of a half before the doubling */
    memset (args.up_filter->data, 0, 12 * sizeof (gfloat));
    memset (args.down_filter->data, 0, 12 * sizeof (gfloat));
    ops_f32 (args.up_filter)[4] = ops_f32 (args.up_filter)[5] = 0.5f;
    ops_f32 (args.down_filter)[6] = 1;
    u = x;
    s = sin (u);
    v = u;
    *want = v + 1e6 * s * s;
    h3_snake_beta (ops->stream, &args);
    ops_check (ops, args.y, want, x < 1e5 ? 3e-7 : 1e-6);
  }
}

static void
test_snake_nan (Ops *ops)
{
  H3SnakeBetaArgs args = snake_args (ops, 1, 2, 100, 1);
  gint nans = 0;

  ops_f32 (args.x)[50] = NAN;
  h3_snake_beta (ops->stream, &args);
  for (gint i = 0; i < 200; i++)
    nans += isnan (ops_f32 (args.y)[i]);
  g_assert_cmpint (nans, >=, 10);
  g_assert_cmpint (nans, <=, 11);
  g_assert_true (isnan (ops_f32 (args.y)[50]));
}

/* x[first .. first + n) of every row as a tensor of its own */
static H3Tensor *
slice (Ops *ops, const H3Tensor *x, gint64 first, gint64 n)
{
  H3Tensor *part =
      ops_new (ops, H3_DTYPE_F32, DIMS (x->shape[0], x->shape[1], n));

  for (gint64 row = 0; row < x->shape[0] * x->shape[1]; row++)
    memcpy (ops_f32 (part) + row * n, ops_f32 (x) + row * x->shape[2] + first,
        n * sizeof (gfloat));
  return part;
}

/* y's [first, ..) equals part's [skip, ..) byte for byte, n elements a row. */
static void
assert_slice (const H3Tensor *y, gint64 first, const H3Tensor *part,
    gint64 skip, gint64 n)
{
  for (gint64 row = 0; row < y->shape[0] * y->shape[1]; row++)
    g_assert_cmpmem (ops_f32 (y) + row * y->shape[2] + first,
        n * sizeof (gfloat), ops_f32 (part) + row * part->shape[2] + skip,
        n * sizeof (gfloat));
}

static void
slice_of_conv (Ops *ops, gint length, gint first, gint n)
{
  gint ci = first % 7 ? ops_pick (ops, 1, 7) : 70;
  gint co = ops_pick (ops, 1, 14), halo = 15;
  g_autoptr (H3Weight) w = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (co, ci, 11));
  H3Conv1dArgs args = { .weight = w, .stride = 1, .dilation = 3, .pad = halo };
  H3Tensor *whole;

  args.bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (co));
  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, ci, length));
  whole = args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, co, length));
  h3_conv1d (ops->stream, &args);
  args.x = slice (ops, args.x, first - halo, n + 2 * halo);
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, co, n + 2 * halo));
  h3_conv1d (ops->stream, &args);
  assert_slice (whole, first, args.y, halo, n);
}

static void
slice_of_transpose (Ops *ops, gint length, gint first, gint n)
{
  gint ci = first % 7 ? ops_pick (ops, 1, 7) : 70;
  gint co = ops_pick (ops, 1, 14), u = 5;
  g_autoptr (H3Weight) w = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (ci, co, 9));
  H3ConvTranspose1dArgs args = { .weight = w, .stride = u };
  H3Tensor *whole;

  args.bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (co));
  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, ci, length));
  whole = args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, co, u * length));
  h3_conv_transpose1d (ops->stream, &args);
  args.x = slice (ops, args.x, first - 1, n + 2);
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, co, u * (n + 2)));
  h3_conv_transpose1d (ops->stream, &args);
  assert_slice (whole, u * first, args.y, u, u * n);
}

static void
slice_of_snake (Ops *ops, gint length, gint first, gint n)
{
  /* some arguments beyond the fast sine's limit */
  H3SnakeBetaArgs args = snake_args (ops, 2, 3, length, first % 3 ? 2 : 1e6);
  H3Tensor *whole = args.y;

  h3_snake_beta (ops->stream, &args);
  args.x = slice (ops, args.x, first - 6, n + 12);
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, 3, n + 12));
  h3_snake_beta (ops->stream, &args);
  assert_slice (whole, first, args.y, 6, n);
}

/* What makes a decode in chunks equal to a whole one. */
static void
test_slices (Ops *ops)
{
  for (gint i = 0; i < 40; i++) {
    gint n = ops_pick (ops, 1, i % 2 ? 40 : 700);
    gint first = 16 + ops_pick (ops, 0, 300);
    gint length = first + n + 16 + ops_pick (ops, 0, 200);

    slice_of_conv (ops, length, first, n);
    slice_of_transpose (ops, length, first, n);
    slice_of_snake (ops, length, first, n);
  }
}

static void
test_conv_nan (Ops *ops)
{
  g_autoptr (H3Weight) w = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (3, 2, 3));
  H3Conv1dArgs args = { .weight = w, .stride = 1, .dilation = 1, .pad = 1 };

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (1, 2, 100));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (1, 3, 100));
  ops_f32 (args.x)[150] = NAN;
  h3_conv1d (ops->stream, &args);
  for (gint i = 0; i < 300; i++)
    g_assert_cmpint (isnan (ops_f32 (args.y)[i]) != 0, ==,
        ABS (i % 100 - 50) <= 1);
}

static void
test_mean3 (Ops *ops)
{
  for (gint i = 0; i < 4; i++) {
    gint n = ops_pick (ops, 1, 60000);
    H3Tensor *a = ops_random (ops, H3_DTYPE_F32, 1, DIMS (n));
    H3Tensor *b = ops_random (ops, H3_DTYPE_F32, 1, DIMS (n));
    H3Tensor *c = ops_random (ops, H3_DTYPE_F32, 1, DIMS (n));
    gdouble *want = g_new (gdouble, n);

    for (gint k = 0; k < n; k++) {
      gfloat sum = ops_f32 (a)[k] + ops_f32 (b)[k];
      want[k] = i % 2 ? sum / 2 : (gfloat) (sum + ops_f32 (c)[k]) / 3;
    }
    h3_mean3 (ops->stream, a, a, b, i % 2 ? NULL : c);
    ops_check (ops, a, want, 0);
  }
}

static void
test_interleave (Ops *ops)
{
  gint n = 333;
  H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 2, DIMS (2, 1, n));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (n, 2));
  gdouble *want = g_new (gdouble, 2 * n);

  ops_f32 (x)[7] = NAN;
  ops_f32 (x)[8] = INFINITY;
  ops_f32 (x)[9] = -INFINITY;
  for (gint b = 0; b < 2; b++)
    for (gint k = 0; k < n; k++) {
      gdouble v = ops_at (x, b * n + k);
      want[2 * k + b] = isnan (v) ? v : CLAMP (v, -1, 1);
    }
  h3_interleave_clamp (ops->stream, y, x);
  ops_check (ops, y, want, 0);
}

static void
test_audio_rows (Ops *ops)
{
  gint c = 5, t = 7;
  H3Tensor *rows = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2 * t, c));
  H3Tensor *latent = ops_new (ops, H3_DTYPE_F32, DIMS (2, c, t));
  gdouble *want = g_new (gdouble, 2 * c * t);

  for (gint s = 0; s < 2; s++)
    for (gint i = 0; i < c; i++)
      for (gint k = 0; k < t; k++)
        want[(s * c + i) * t + k] = ops_at (rows, (s * t + k) * c + i);
  h3_audio_rows_to_latent (ops->stream, latent, rows);
  ops_check (ops, latent, want, 0);
}

static void
test_shapes (Ops *ops)
{
  g_autoptr (H3Weight) w = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (3, 2, 3));
  H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (1, 2, 10));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (1, 3, 10));
  H3Tensor *short_y = ops_new (ops, H3_DTYPE_F32, DIMS (1, 3, 9));
  H3Conv1dArgs conv = { .y = y,
    .x = x,
    .weight = w,
    .stride = 1,
    .dilation = 1,
    .pad = 1 };
  H3ConvTranspose1dArgs up = { .y = y, .x = x, .weight = w, .stride = 2 };
  H3SnakeBetaArgs snake = snake_args (ops, 1, 2, 10, 1);

  conv.y = short_y;
  h3_conv1d (ops->stream, &conv);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "conv1d: y is float32 [1, 3, 9], needs to be float32 [1, 3, 10]");
  conv.y = y;
  conv.x = y;
  h3_conv1d (ops->stream, &conv);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "the weight is float32 [3, 2, 3], needs to be a float type [any, 3, ");
  conv.x = x;
  conv.stride = 0;
  h3_conv1d (ops->stream, &conv);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "stride 0");
  conv.stride = 1;
  conv.dilation = G_MAXINT;
  h3_conv1d (ops->stream, &conv);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "does not fit into length 10");
  conv.dilation = 1;
  conv.residual = short_y;
  h3_conv1d (ops->stream, &conv);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the residual is float32 [1, 3, 9]");
  conv.residual = NULL;
  conv.bias = short_y;
  h3_conv1d (ops->stream, &conv);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the bias is float32 [1, 3, 9]");

  h3_conv_transpose1d (ops->stream, &up);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "conv_transpose1d: the weight");
  up.x = y;
  h3_conv_transpose1d (ops->stream, &up);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "a kernel of 3 and stride 2");
  up.stride = 3;
  h3_conv_transpose1d (ops->stream, &up);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "y is float32 [1, 3, 10], needs to be float32 [1, 2, 30]");

  snake.y = y;
  h3_snake_beta (ops->stream, &snake);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "snake_beta: y is");
  snake = snake_args (ops, 1, 3, 10, 1);
  snake.x = snake.y = y;
  h3_snake_beta (ops->stream, &snake);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "overlaps x");
  h3_mean3 (ops->stream, y, y, y, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "mean3: c is");
  h3_interleave_clamp (ops->stream, y, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "interleave_clamp: x is");
  h3_audio_rows_to_latent (ops->stream, y, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "audio_rows_to_latent: the latent is");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/ops/audio/conv1d", test_conv);
  ops_add ("/ops/audio/conv1d/nan", test_conv_nan);
  ops_add ("/ops/audio/conv-transpose1d", test_transpose);
  ops_add ("/ops/audio/snake-beta", test_snake);
  ops_add ("/ops/audio/snake-beta/example", test_snake_example);
  ops_add ("/ops/audio/snake-beta/range", test_snake_range);
  ops_add ("/ops/audio/snake-beta/nan", test_snake_nan);
  ops_add ("/ops/audio/slices", test_slices);
  ops_add ("/ops/audio/mean3", test_mean3);
  ops_add ("/ops/audio/interleave-clamp", test_interleave);
  ops_add ("/ops/audio/rows-to-latent", test_audio_rows);
  ops_add ("/ops/audio/shapes", test_shapes);
  return g_test_run ();
}
