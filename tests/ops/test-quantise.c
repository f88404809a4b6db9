/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rows of floats as E4M3: the worked bytes of checkpoints.md 5.1 and 5.3, and
 * every code against its neighbours. */
#include "tests/ops/ops-test.h"

static gdouble
value (guint8 code)
{
  gint e = code >> 3 & 15, m = code & 7;
  gdouble v = e ? ldexp (8 + m, e - 10) : ldexp (m, -9);

  return code & 128 ? -v : v;
}

/* Quantises @n numbers as one row; the codes. */
static const guint8 *
codes_of (Ops *ops, H3DType dtype, const gfloat *from, gint64 n, gfloat *scale)
{
  H3Tensor *x = ops_new (ops, H3_DTYPE_F32, DIMS (1, n));
  H3Tensor *narrow = ops_new (ops, dtype, DIMS (1, n));
  H3Tensor *q = ops_new (ops, H3_DTYPE_U8, DIMS (1, n));
  H3Tensor *s = ops_new (ops, H3_DTYPE_F32, DIMS (1));

  memcpy (x->data, from, n * sizeof *from);
  if (dtype == H3_DTYPE_F32) {
    h3_quantise_rows (ops->stream, q, s, x);
  } else {
    h3_copy (ops->stream, narrow, x);
    h3_quantise_rows (ops->stream, q, s, narrow);
  }
  g_assert_true (h3_stream_check (ops->stream, NULL));
  g_byte_array_append (ops->out, q->data, n);
  *scale = ops_f32 (s)[0];
  return q->data;
}

static void
test_worked (Ops *ops)
{
  static const gfloat w[] = { 0.5, -1, 3.25, -7, 0.01, 6.25 };
  static const guint8 bytes[] = { 0x60, 0xe8, 0x75, 0xfe, 0x32, 0x7c };
  static const gfloat one[] = { 448, 1, 17, 19, 0x1p-10f, -0.0f, 0x1p-9f,
    -0x3p-10f, 0x1p-6f };
  static const guint8 ones[] = { 0x7e, 0x38, 0x58, 0x5a, 0x00, 0x80, 0x01, 0x82,
    0x08 };
  gfloat scale;

  for (gint i = 0; i < 2; i++) {
    H3DType dtype = i ? H3_DTYPE_F16 : H3_DTYPE_F32;

    g_assert_cmpmem (codes_of (ops, dtype, w, 6, &scale), 6, bytes, 6);
    g_assert_cmpfloat (scale, ==, 0.015625f);
    g_assert_cmpmem (codes_of (ops, dtype, one, 9, &scale), 9, ones, 9);
    g_assert_cmpfloat (scale, ==, 1);
  }
}

/* Every code by itself; halfway to the next the even one of the two; a little
 * before and after that the nearer one. */
static void
test_nearest (Ops *ops)
{
  gfloat x[1 + 3 * 126] = { 448 }, scale;
  const guint8 *q;

  for (gint code = 0; code < 126; code++) {
    gdouble middle = (value (code) + value (code + 1)) / 2;

    x[1 + 3 * code] = nextafterf (middle, 0);
    x[2 + 3 * code] = -middle;
    x[3 + 3 * code] = nextafterf (middle, 448);
  }
  q = codes_of (ops, H3_DTYPE_F32, x, G_N_ELEMENTS (x), &scale);
  g_assert_cmpfloat (scale, ==, 1);
  for (gint code = 0; code < 126; code++) {
    g_assert_cmpint (q[1 + 3 * code], ==, code);
    g_assert_cmpint (q[2 + 3 * code], ==, 0x80 | (code + code % 2));
    g_assert_cmpint (q[3 + 3 * code], ==, code + 1);
  }
}

/* What a weight of it stands for is within half a code of x. */
static void
test_random (Ops *ops)
{
  H3Tensor *x = ops_random (ops, H3_DTYPE_BF16, 3, DIMS (37, 70));
  H3Tensor *ids = ops_new (ops, H3_DTYPE_I32, DIMS (37));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (37, 70));
  g_autoptr (H3Weight) w = h3_weight_new_encoded (H3_ENCODING_E4M3, 37, 70);
  gdouble *want = g_new (gdouble, 37 * 70);

  w->tensor = h3_tensor_ref (ops_new (ops, H3_DTYPE_U8, DIMS (37, 70)));
  w->scale = h3_tensor_ref (ops_new (ops, H3_DTYPE_F32, DIMS (37)));
  for (gint i = 0; i < 37; i++)
    ((gint32 *) ids->data)[i] = i;
  h3_quantise_rows (ops->stream, w->tensor, w->scale, x);
  h3_embedding (ops->stream, y, w, ids);
  for (gint i = 0; i < 37 * 70; i++)
    want[i] = ops_at (x, i);
  ops_check (ops, y, want, 0.07);
}

static void
test_odd (Ops *ops)
{
  static const gfloat zeros[] = { 0, -0.0f, 0 },
                      tiny[] = { 1e-40f, 0, -1e-38f };
  gfloat bad[] = { 1, 2, NAN, 3 }, scale;
  const guint8 *q = codes_of (ops, H3_DTYPE_F32, zeros, 3, &scale);

  g_assert_cmpint (q[0] | q[2], ==, 0);
  g_assert_cmpint (q[1], ==, 0x80);
  g_assert_cmpfloat (scale, >, 0);
  q = codes_of (ops, H3_DTYPE_F32, tiny, 3, &scale);
  g_assert_true (isfinite (scale));
  codes_of (ops, H3_DTYPE_F32, bad, 4, &scale);
  g_assert_true (isnan (scale));
  bad[2] = -INFINITY;
  codes_of (ops, H3_DTYPE_F32, bad, 4, &scale);
  g_assert_true (isinf (scale));
}

static void
test_refused (Ops *ops)
{
  H3Tensor *x = ops_new (ops, H3_DTYPE_F32, DIMS (2, 4));
  H3Tensor *q = ops_new (ops, H3_DTYPE_U8, DIMS (2, 4));
  H3Tensor *scale = ops_new (ops, H3_DTYPE_F32, DIMS (2));

  h3_quantise_rows (ops->stream, q, scale, q);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "quantise_rows: x is uint8 [2, 4]");
  h3_quantise_rows (ops->stream, x, scale, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "quantise_rows: q is float32 [2, 4]");
  h3_quantise_rows (ops->stream, q, x, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "quantise_rows: scale is float32 [2, 4]");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/ops/quantise/worked", test_worked);
  ops_add ("/ops/quantise/nearest", test_nearest);
  ops_add ("/ops/quantise/random", test_random);
  ops_add ("/ops/quantise/odd", test_odd);
  ops_add ("/ops/quantise/refused", test_refused);
  return g_test_run ();
}
