/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Encoded weights in linear and embedding: the worked bytes of checkpoints.md
 * 5, and random ones against plain arithmetic in double precision. */
#include "tests/ops/ops-test.h"

static H3Tensor *
bytes (Ops *ops, gint64 rows, gint64 cols, const guint8 *from)
{
  H3Tensor *t = ops_new (ops, H3_DTYPE_U8, DIMS (rows, cols));

  for (gint64 i = 0; i < rows * cols; i++)
    ((guint8 *) t->data)[i] =
        from ? from[i] : (guint8) g_rand_int_range (ops->rand, 0, 256);
  return h3_tensor_ref (t);
}

static H3Tensor *
floats (Ops *ops, gint64 n, const gfloat *from)
{
  H3Tensor *t = from ? ops_new (ops, H3_DTYPE_F32, 1, &n)
                     : ops_random (ops, H3_DTYPE_F32, 1, 1, &n);

  if (from)
    memcpy (t->data, from, n * sizeof *from);
  return h3_tensor_ref (t);
}

/* A row of @n numbers in one encoding, and what it stands for. */
typedef struct {
  H3Encoding encoding;
  gint n;
  guint8 bytes[32];
  gfloat scale;
  guint8 block_scale;
  guint rotation;
  gdouble want[16];
  gdouble tolerance;
} Worked;

static const Worked worked[] = {
  { H3_ENCODING_E4M3, 6, { 0x60, 0xe8, 0x75, 0xfe, 0x32, 0x7c }, 0.015625f, 0,
      1, { 0.5, -1, 3.25, -7, 0.009765625, 6 }, 0 },
  { H3_ENCODING_E4M3, 6, { 0x7e, 0x01, 0x38, 0x58, 0x5a, 0x80 }, 1, 0, 1,
      { 448, 0.001953125, 1, 16, 20, -0.0 }, 0 },
  { H3_ENCODING_E5M2, 5, { 0x3c, 0x7b, 0x01, 0xc1, 0x04 }, 2, 0, 1,
      { 2, 114688, 0x1p-15, -5, 0x1p-13 }, 0 },
  { H3_ENCODING_NVFP4, 16, { 0x08, 0x09, 0x1a, 0x3c, 0x5e, 0x00, 0xc3, 0x6f },
      0.015625f, 0x6b, 1,
      { 0, -0.0, 0, -.6875, .6875, -1.375, 2.0625, -2.75, 4.125, -5.5, 0, 0,
          -2.75, 2.0625, 5.5, -8.25 },
      0 },
  { H3_ENCODING_MXFP8, 4, { 0x4c, 0xba, 0x5e, 0x7c }, 0, 0x7d, 1,
      { 1.5, -0.3125, 7, 96 }, 0 },
  /* a factor of 0 */
  { H3_ENCODING_MXFP8, 2, { 0x4c, 0xba }, 0, 0, 1, { 0, -0.0 }, 0 },
  { H3_ENCODING_INT8, 4, { 0xca, 0x7f, 0x5b, 0x12 }, 0.027559055f, 0, 4,
      { 2.01181, 0, -0.992126, 3.99606 }, 3e-6 },
  { H3_ENCODING_INT8, 4, { 0x80, 0x7f, 0xff, 0x00 }, 0.5f, 0, 1,
      { -64, 63.5, -0.5, 0 }, 0 },
};

static void
test_worked (Ops *ops)
{
  for (guint i = 0; i < G_N_ELEMENTS (worked); i++) {
    const Worked *e = &worked[i];
    g_autoptr (H3Weight) w = h3_weight_new_encoded (e->encoding, 1, e->n);
    gint64 width = h3_encoding_row_bytes (e->encoding, e->n);
    H3Tensor *ids = ops_rows (ops, 1, 1);
    H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (1, e->n));
    gdouble *want = g_memdup2 (e->want, e->n * sizeof *want);

    w->tensor = bytes (ops, 1, width, e->bytes);
    w->rotation = e->rotation;
    if (h3_encoding_info (e->encoding)->scale)
      w->scale = floats (ops, 1, &e->scale);
    if (h3_encoding_info (e->encoding)->scale_block)
      w->block_scale = bytes (ops, 1, 1, &e->block_scale);
    h3_embedding (ops->stream, y, w, ids);
    ops_check (ops, y, want, e->tolerance);
    for (gint k = 0; e->tolerance == 0 && k < e->n; k++) /* -0 is not 0 */
      g_assert_cmpint (!!signbit (e->want[k]), ==, !!signbit (ops_f32 (y)[k]));
  }
}

/* The first row of H16 and that H is its own inverse. */
static void
test_hadamard (Ops *ops)
{
  static const gchar signs[] = "+++-+++-+++----+";
  const gfloat one = 1;
  guint8 row[16] = { 1 };
  g_autoptr (H3Weight) w = h3_weight_new_encoded (H3_ENCODING_INT8, 1, 16);
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (1, 16));
  gdouble *want = g_new (gdouble, 16);

  w->tensor = bytes (ops, 1, 16, row);
  w->scale = floats (ops, 1, &one);
  w->rotation = 16;
  for (gint k = 0; k < 16; k++)
    want[k] = signs[k] == '+' ? 0.25 : -0.25;
  h3_embedding (ops->stream, y, w, ops_rows (ops, 1, 1));
  ops_check (ops, y, want, 0);
}

static gdouble
float8 (guint8 code, gint exponent_bits)
{
  gint mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  gint e = (code & 127) >> mantissa_bits, m = code & ((1 << mantissa_bits) - 1);
  gdouble v = e ? ldexp (1 + ldexp (m, -mantissa_bits), e - bias)
                : ldexp (m, 1 - bias - mantissa_bits);

  return code & 128 ? -v : v;
}

static gdouble
code_value (const H3Weight *w, gint64 row, gint64 k)
{
  static const gdouble e2m1[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
  const guint8 *q =
      (const guint8 *) w->tensor->data + row * h3_tensor_cols (w->tensor);
  guint8 nibble;

  switch (w->encoding) {
    case H3_ENCODING_E5M2:
      return float8 (q[k], 5);
    case H3_ENCODING_INT8:
      return (gint8) q[k];
    case H3_ENCODING_NVFP4:
      nibble = q[k / 2] >> (k % 2 ? 0 : 4) & 15;
      return (nibble & 8 ? -1 : 1) * e2m1[nibble & 7];
    default:
      return float8 (q[k], 4);
  }
}

/* H_G[i][k] from its definition as a Kronecker power. */
static gdouble
hadamard (guint g, guint i, guint k)
{
  gdouble v = 1;

  for (; g > 1; g /= 4, i /= 4, k /= 4)
    v *= i % 4 + k % 4 == 3 ? -0.5 : 0.5;
  return v;
}

static gdouble
scaled_value (const H3Weight *w, gint64 row, gint64 k)
{
  gdouble v = code_value (w, row, k);
  guint per = h3_encoding_info (w->encoding)->scale_block;

  if (w->scale)
    v *= ops_at (w->scale, row);
  if (per) {
    const guint8 *scales = w->block_scale->data;
    guint8 s = scales[row * h3_tensor_cols (w->block_scale) + k / per];
    v *= w->encoding == H3_ENCODING_NVFP4 ? float8 (s, 4) : ldexp (1, s - 127);
  }
  return v;
}

static gdouble
value (const H3Weight *w, gint64 row, gint64 k)
{
  guint g = w->rotation;
  gdouble v = 0;

  for (guint i = 0; i < g; i++)
    v += scaled_value (w, row, k / g * g + i) * hadamard (g, i, k % g);
  return w->column_scale ? v * ops_at (w->column_scale, k) : v;
}

static H3Weight *
random_weight (Ops *ops, H3Encoding encoding, gint64 rows, gint64 cols,
    guint rotation, gboolean columns)
{
  H3Weight *w = ops_encoded (ops, encoding, rows, cols);

  if (columns)
    w->column_scale = floats (ops, cols, NULL);
  w->rotation = rotation;
  return w;
}

static void
try_linear (Ops *ops, H3Encoding encoding, gint m, gint n, gint k,
    guint rotation, gboolean columns)
{
  g_autoptr (H3Weight) w =
      random_weight (ops, encoding, n, k, rotation, columns);
  H3LinearArgs args = { .weight = w };
  gdouble *want = g_new (gdouble, m * n), *row = g_new (gdouble, k);
  gdouble largest = 0;

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (m, k));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (m, n));
  for (gint j = 0; j < n; j++) {
    for (gint c = 0; c < k; c++) {
      row[c] = value (w, j, c);
      largest = MAX (largest, fabs (row[c]));
    }
    for (gint i = 0; i < m; i++) {
      want[i * n + j] = 0;
      for (gint c = 0; c < k; c++)
        want[i * n + j] += ops_at (args.x, (gint64) i * k + c) * row[c];
    }
  }
  g_free (row);
  h3_linear (ops->stream, &args);
  ops_check (ops, args.y, want, (2e-7 * k + 1e-6) * MAX (largest, 1));
}

static void
test_linear (Ops *ops)
{
  for (H3Encoding e = H3_ENCODING_E4M3; e <= H3_ENCODING_MXFP8; e++) {
    try_linear (ops, e, 1, 1, 1, 1, FALSE);
    try_linear (ops, e, 3, 40, 100, 1, TRUE);
    try_linear (ops, e, 70, 90, 33, 1, FALSE);
    try_linear (ops, e, 2, 70, 2112, 1, e % 2); /* three panels */
  }
  try_linear (ops, H3_ENCODING_INT8, 3, 70, 2112, 64, FALSE);
  try_linear (ops, H3_ENCODING_INT8, 3, 9, 512, 256, TRUE);
  try_linear (ops, H3_ENCODING_INT8, 3, 9, 2048, 1024, FALSE);
}

/* More columns than one panel. */
static void
test_embedding (Ops *ops)
{
  for (H3Encoding e = H3_ENCODING_E4M3; e <= H3_ENCODING_MXFP8; e++) {
    g_autoptr (H3Weight) w = random_weight (ops, e, 9, 1100, 1, FALSE);
    H3Tensor *ids = ops_rows (ops, 20, 9);
    H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (20, 1100));
    gdouble *want = g_new (gdouble, 20 * 1100);

    for (gint i = 0; i < 20 * 1100; i++)
      want[i] = value (w, ((gint32 *) ids->data)[i / 1100], i % 1100);
    h3_embedding (ops->stream, y, w, ids);
    ops_check (ops, y, want, 1e-5);
  }
}

static H3Weight *
factor (Ops *ops, gint rows, gint cols)
{
  return h3_weight_new_plain (
      h3_tensor_ref (ops_random (ops, H3_DTYPE_F32, 1, DIMS (rows, cols))));
}

/* y = x Wᵀ + b + x downᵀ upᵀ, with the same through SwiGLU, and a second time
 * in less of the stream's memory. */
static void
try_low_rank (Ops *ops, H3Encoding encoding, gint m, gint n, gint k, gint rank)
{
  g_autoptr (H3Weight) w = random_weight (ops, encoding, n, k, 1, FALSE);
  H3LinearArgs args = { .weight = w };
  gdouble *want = g_new (gdouble, m * n);
  gdouble *gated = g_new (gdouble, m * n / 2);
  H3Tensor *bias = ops_random (ops, H3_DTYPE_F32, 1, DIMS (n));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (m, n / 2));

  w->down = factor (ops, rank, k);
  w->up = factor (ops, n, rank);
  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (m, k));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (m, n));
  args.bias = bias;
  for (gint i = 0; i < m; i++)
    for (gint j = 0; j < n; j++) {
      gdouble sum = ops_at (bias, j);

      for (gint c = 0; c < k; c++) {
        gdouble x = ops_at (args.x, (gint64) i * k + c), low = 0;

        for (gint r = 0; r < rank; r++)
          low += ops_at (w->up->tensor, (gint64) j * rank + r) *
                 ops_at (w->down->tensor, (gint64) r * k + c);
        sum += x * (value (w, j, c) + low);
      }
      want[i * n + j] = sum;
    }
  for (gint i = 0; i < m; i++)
    for (gint j = 0; j < n / 2; j++) {
      gdouble gate = want[i * n + j];

      gated[i * (n / 2) + j] =
          gate / (1 + exp (-gate)) * want[i * n + n / 2 + j];
    }
  h3_linear (ops->stream, &args);
  ops_check (ops, args.y, want, 1e-4);
  h3_linear_swiglu (ops->stream, &(H3LinearSwigluArgs){ .y = y,
                                     .x = args.x,
                                     .weight = w,
                                     .bias = bias,
                                     .gate_up = args.y });
  ops_check (ops, y, gated, 1e-3);
}

static void
test_low_rank (Ops *ops)
{
  try_low_rank (ops, H3_ENCODING_E4M3, 3, 8, 40, 2);
  try_low_rank (ops, H3_ENCODING_INT8, 70, 36, 33, 5);
  try_low_rank (ops, H3_ENCODING_NVFP4, 1, 2, 16, 1);
  try_low_rank (ops, H3_ENCODING_MXFP8, 9, 12, 64, 17);
}

/* Factors that do not fit, and what takes none. */
static void
test_low_rank_refused (Ops *ops)
{
  static const struct {
    gint rank, cols, rows, up_rank;
    const gchar *text;
  } cases[] = {
    { 2, 39, 8, 2, "the weight is float32 [2, 39]" },
    { 2, 40, 7, 2, "the weight is float32 [7, 2]" },
    { 2, 40, 8, 3, "the weight is float32 [8, 3]" },
  };
  g_autoptr (H3Weight) w =
      random_weight (ops, H3_ENCODING_E4M3, 8, 40, 1, FALSE);
  H3LinearArgs args = { .weight = w, .activation = H3_ACTIVATION_SILU };

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, 40));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, 8));
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_clear_pointer (&w->down, h3_weight_unref);
    g_clear_pointer (&w->up, h3_weight_unref);
    w->down = factor (ops, cases[i].rank, cases[i].cols);
    w->up = factor (ops, cases[i].rows, cases[i].up_rank);
    h3_linear (ops->stream, &args);
    ops_fails (ops, H3_ERROR_WRONG_TYPE, cases[i].text);
  }
  g_clear_pointer (&w->up, h3_weight_unref);
  w->up = factor (ops, 8, 2);
  h3_linear (ops->stream, &args);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "exclude each other");
  h3_embedding (ops->stream, ops_new (ops, H3_DTYPE_F32, DIMS (3, 40)), w,
      ops_rows (ops, 3, 8));
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "a low rank is not looked up");
}

static void
refused (Ops *ops, H3Weight *w, gint64 n, gint64 k, const gchar *text)
{
  H3LinearArgs args = { .weight = w };

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, k));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, n));
  h3_linear (ops->stream, &args);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, text);
  h3_weight_unref (w);
}

static void
test_refused (Ops *ops)
{
  H3Weight *w;

  refused (ops, random_weight (ops, H3_ENCODING_INT8, 8, 64, 1, FALSE), 8, 32,
      "the weight is [8, 64] in int8_tensorwise, needs to be [any, 32]");
  refused (ops, random_weight (ops, H3_ENCODING_INT8, 8, 40, 1, FALSE), 7, 40,
      "y is float32 [2, 7]");
  w = random_weight (ops, H3_ENCODING_INT8, 8, 64, 1, FALSE);
  w->rotation = 32; /* no power of 4 */
  refused (ops, w, 8, 64, "the weight's rotation of 32 does not fit");
  w = random_weight (ops, H3_ENCODING_INT8, 8, 40, 1, FALSE);
  w->rotation = 16;
  refused (ops, w, 8, 40, "the weight's rotation of 16 does not fit");
  w = random_weight (ops, H3_ENCODING_INT8, 8, 40, 1, FALSE);
  w->rotation = 0;
  refused (ops, w, 8, 40, "the weight's rotation of 0 does not fit");
  w = random_weight (ops, H3_ENCODING_E4M3, 8, 40, 1, FALSE);
  g_clear_pointer (&w->scale, h3_tensor_unref);
  refused (ops, w, 8, 40, "the weight's scale is missing");
  w = random_weight (ops, H3_ENCODING_NVFP4, 8, 40, 1, FALSE);
  g_clear_pointer (&w->block_scale, h3_tensor_unref);
  w->block_scale = bytes (ops, 8, 2, NULL);
  refused (ops, w, 8, 40, "the weight's block scale is uint8 [8, 2]");
  w = random_weight (ops, H3_ENCODING_NVFP4, 8, 40, 1, FALSE);
  g_clear_pointer (&w->tensor, h3_tensor_unref);
  w->tensor = bytes (ops, 8, 20, NULL); /* half a block is missing */
  refused (ops, w, 8, 40, "the weight is uint8 [8, 20]");
  w = random_weight (ops, H3_ENCODING_E4M3, 8, 40, 1, FALSE);
  w->column_scale = floats (ops, 39, NULL);
  refused (ops, w, 8, 40, "the weight's column scale is float32 [39]");
  ops->device->encodings = 1u << H3_ENCODING_E4M3;
  refused (ops, random_weight (ops, H3_ENCODING_MXFP8, 8, 40, 1, FALSE), 8, 40,
      "does not take weights in mxfp8");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/ops/encoding/worked", test_worked);
  ops_add ("/ops/encoding/hadamard", test_hadamard);
  ops_add ("/ops/encoding/linear", test_linear);
  ops_add ("/ops/encoding/embedding", test_embedding);
  ops_add ("/ops/encoding/refused", test_refused);
  ops_add ("/ops/encoding/low-rank", test_low_rank);
  ops_add ("/ops/encoding/low-rank-refused", test_low_rank_refused);
  return g_test_run ();
}
