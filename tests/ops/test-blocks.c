/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GGUF's blocks: the worked bytes of checkpoints.md 6.3, and random ones in
 * linear and embedding against the formulas for one element, in double. */
#include "tests/ops/ops-test.h"

#include "model/blocks.h"

static gdouble
half (const guint8 *b)
{
  gint bits = b[0] | b[1] << 8, e = bits >> 10 & 31, m = bits & 1023;
  gdouble v = e ? ldexp (1024 + m, e - 25) : ldexp (m, -24);

  return bits & 0x8000 ? -v : v;
}

static gint
bit (const guint8 *bytes, guint i)
{
  return bytes[i / 8] >> i % 8 & 1;
}

/* Nibble @i of bytes that hold two each, @n low ones and then @n high ones. */
static gint
nib (const guint8 *qs, guint i, guint n)
{
  return i < n ? qs[i] % 16 : qs[i - n] / 16;
}

/* Two bits: byte 32 h + p has those of 4 elements. */
static gint
two (const guint8 *qs, guint e)
{
  return qs[32 * (e / 128) + e % 32] / (1 << e % 128 / 32 * 2) % 4;
}

static gdouble
e2m1 (gint code)
{
  static const gdouble values[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };

  return code & 8 ? -values[code & 7] : values[code & 7];
}

static gdouble
nl (gint code)
{
  static const gdouble values[] = { -127, -104, -83, -65, -49, -35, -22, -10, 1,
    13, 25, 38, 53, 69, 89, 113 };

  return values[code];
}

static gint
q3_k_scale (const guint8 *s, guint g)
{
  gint lo4 = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
  gint hi2 = (s[8 + g % 4] >> (2 * (g / 4))) & 3;

  return (lo4 | hi2 << 4) - 32;
}

static gint
q4_k_scale (const guint8 *s, guint j, gboolean minimum)
{
  if (j < 4)
    return s[minimum ? j + 4 : j] & 63;
  return minimum ? (s[j + 4] >> 4) | (s[j] >> 6) << 4
                 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
}

static gdouble
q6_k (const guint8 *b, guint e)
{
  guint j = e % 128 / 32;
  guint8 byte = b[e / 128 * 64 + 32 * (j & 1) + e % 32];
  gint code = (j < 2 ? byte & 15 : byte >> 4) + 16 * two (b + 128, e);

  return half (b + 208) * (gint8) b[192 + e / 16] * (code - 32);
}

static gdouble
iq4_xs (const guint8 *b, guint e)
{
  guint g = e / 32;
  gint sh = b[2] | b[3] << 8;
  gint ls = ((b[4 + g / 2] >> (4 * (g % 2))) & 15) | ((sh >> (2 * g)) & 3) << 4;

  return half (b) * (ls - 32) * nl (nib (b + 8 + 16 * g, e % 32, 16));
}

static gdouble
nvfp4 (const guint8 *b, guint e)
{
  guint s = e / 16, j = e % 16;
  gint code = b[s] & 127;
  gdouble d = code < 8 ? ldexp (code, -9) : ldexp (8 + code % 8, code / 8 - 10);

  return (code == 127 ? 0 : d) * e2m1 (nib (b + 4 + 8 * s, j, 8));
}

/* Element @e of block @b. */
static gdouble
element (H3Encoding encoding, const guint8 *b, guint e)
{
  switch (encoding) {
    case H3_ENCODING_Q8_0:
      return half (b) * (gint8) b[2 + e];
    case H3_ENCODING_Q4_0:
      return (nib (b + 2, e, 16) - 8) * half (b);
    case H3_ENCODING_Q4_1:
      return nib (b + 4, e, 16) * half (b) + half (b + 2);
    case H3_ENCODING_Q5_0:
      return (nib (b + 6, e, 16) + 16 * bit (b + 2, e) - 16) * half (b);
    case H3_ENCODING_Q5_1:
      return (nib (b + 8, e, 16) + 16 * bit (b + 4, e)) * half (b) +
             half (b + 2);
    case H3_ENCODING_IQ4_NL:
      return half (b) * nl (nib (b + 2, e, 16));
    case H3_ENCODING_MXFP4:
      return b[0] == 255 ? NAN : ldexp (e2m1 (nib (b + 1, e, 16)), b[0] - 127);
    case H3_ENCODING_GGUF_NVFP4:
      return nvfp4 (b, e);
    case H3_ENCODING_Q2_K:
      return half (b + 80) * (b[e / 16] & 15) * two (b + 16, e) -
             half (b + 82) * (b[e / 16] >> 4);
    case H3_ENCODING_Q3_K:
      return half (b + 108) * q3_k_scale (b + 96, e / 16) *
             (two (b + 32, e) - (bit (b + e % 32, e / 32) ? 0 : 4));
    case H3_ENCODING_Q4_K:
      return half (b) * q4_k_scale (b + 4, e / 32, FALSE) *
                 nib (b + 16 + 32 * (e / 64), e % 64, 32) -
             half (b + 2) * q4_k_scale (b + 4, e / 32, TRUE);
    case H3_ENCODING_Q5_K:
      return half (b) * q4_k_scale (b + 4, e / 32, FALSE) *
                 (nib (b + 48 + 32 * (e / 64), e % 64, 32) +
                     16 * bit (b + 16 + e % 32, e / 32)) -
             half (b + 2) * q4_k_scale (b + 4, e / 32, TRUE);
    case H3_ENCODING_Q6_K:
      return q6_k (b, e);
    case H3_ENCODING_IQ4_XS:
      return iq4_xs (b, e);
    default:
      g_assert_not_reached ();
  }
}

static gdouble
value (const H3Weight *w, gint64 row, gint64 k)
{
  const H3EncodingInfo *info = h3_encoding_info (w->encoding);

  return element (w->encoding,
      (const guint8 *) w->tensor->data + row * h3_tensor_cols (w->tensor) +
          k / info->block * info->block_bytes,
      k % info->block);
}

static void
try_linear (Ops *ops, H3Encoding encoding, gint m, gint n, gint k)
{
  g_autoptr (H3Weight) w = ops_encoded (ops, encoding, n, k);
  H3LinearArgs args = { .weight = w };
  gdouble *want = g_new0 (gdouble, m * n);
  gdouble largest = 0;

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (m, k));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (m, n));
  for (gint j = 0; j < n; j++)
    for (gint c = 0; c < k; c++) {
      gdouble v = value (w, j, c);

      largest = MAX (largest, fabs (v));
      for (gint i = 0; i < m; i++)
        want[i * n + j] += ops_at (args.x, (gint64) i * k + c) * v;
    }
  h3_linear (ops->stream, &args);
  ops_check (ops, args.y, want, (2e-7 * k + 1e-6) * MAX (largest, 1));
}

#define ALL_BLOCKS(e)                                                          \
  (H3Encoding e = H3_ENCODING_Q4_0; e <= H3_ENCODING_GGUF_NVFP4; e++)

static void
test_linear (Ops *ops)
{
  for
    ALL_BLOCKS (e)
    {
      gint block = h3_encoding_info (e)->block;

      try_linear (ops, e, 1, 1, block);
      try_linear (ops, e, 3, 40, 3 * block);
      try_linear (ops, e, 2, 70, 2304); /* three panels */
    }
}

static void
test_embedding (Ops *ops)
{
  for
    ALL_BLOCKS (e)
    {
      g_autoptr (H3Weight) w = ops_encoded (ops, e, 9, 1280);
      H3Tensor *ids = ops_rows (ops, 20, 9);
      H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (20, 1280));
      gdouble *want = g_new (gdouble, 20 * 1280);

      for (gint i = 0; i < 20 * 1280; i++)
        want[i] = value (w, ((gint32 *) ids->data)[i / 1280], i % 1280);
      h3_embedding (ops->stream, y, w, ids);
      ops_check (ops, y, want, 1e-6);
    }
}

/* Rows of a plain matrix in bfloat16 between those of blocks. */
static void
test_stacked (Ops *ops)
{
  H3Weight *parts[] = { ops_encoded (ops, H3_ENCODING_Q4_K, 70, 1280),
    ops_weight (ops, H3_DTYPE_BF16, 1, DIMS (9, 1280)),
    ops_encoded (ops, H3_ENCODING_Q6_K, 30, 1280) };
  g_autoptr (H3Weight) w = h3_weight_new_stacked (parts, 3);
  H3LinearArgs args = { .weight = w };
  gdouble *want = g_new0 (gdouble, 2 * 109);
  gdouble largest = 1;

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, 1280));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, 109));
  for (gint j = 0; j < 109; j++)
    for (gint c = 0; c < 1280; c++) {
      gdouble v = j < 70   ? value (parts[0], j, c)
                  : j < 79 ? ops_at (parts[1]->tensor, (j - 70) * 1280 + c)
                           : value (parts[2], j - 79, c);

      largest = MAX (largest, fabs (v));
      for (gint i = 0; i < 2; i++)
        want[i * 109 + j] += ops_at (args.x, (gint64) i * 1280 + c) * v;
    }
  h3_linear (ops->stream, &args);
  ops_check (ops, args.y, want, 3e-4 * largest);
  parts[0]->cols = 512;
  h3_linear (ops->stream, &args);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "in GGUF Q4_K, needs to be [any, 1280]");
}

static void
test_refused (Ops *ops)
{
  g_autoptr (H3Weight) w = ops_encoded (ops, H3_ENCODING_Q4_K, 8, 300);
  g_autoptr (H3Weight) other = ops_encoded (ops, H3_ENCODING_Q8_0, 8, 64);
  H3LinearArgs args = { .weight = w };

  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, 300));
  args.y = ops_new (ops, H3_DTYPE_F32, DIMS (2, 8));
  h3_linear (ops->stream, &args);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "300 columns are no whole blocks of 256 of GGUF Q4_K");
  ops->device->encodings = 1u << H3_ENCODING_Q4_K;
  args.weight = other;
  args.x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, 64));
  h3_linear (ops->stream, &args);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "does not take weights in GGUF Q8_0");
}

/* --- worked bytes --- */

/* x[i] = (i - 16) / 10 in Q8_0. */
static void
test_worked_q8_0 (void)
{
  static const gint first[] = { -127, -119, -111, -103 };
  static const gdouble want[] = { -1.59971, -1.49894, -1.39817, -1.29740 };
  guint8 b[34] = { 0x73, 0x22 };
  gfloat y[32];

  for (guint i = 0; i < 4; i++)
    b[2 + i] = first[i];
  b[33] = 127;
  h3_blocks_decode (H3_ENCODING_Q8_0, b, 1, y);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpfloat_with_epsilon (y[i], want[i], 5e-6);
  g_assert_cmpfloat (y[4], ==, 0);
  g_assert_cmpfloat_with_epsilon (y[31], 1.59971, 5e-6);
}

static const guint8 scales[12] = { 0x41, 0x82, 0xc3, 0x04, 0x15, 0x26, 0x37,
  0x48, 0x9a, 0xbc, 0xde, 0xf0 };

/* All codes 1: the scales, and the minima, as they are. */
static void
test_worked_q4_k (void)
{
  static const gint sc[] = { 1, 2, 3, 4, 26, 44, 62, 0 };
  static const gint mn[] = { 21, 38, 55, 8, 9, 11, 13, 31 };

  for (guint five = 0; five < 2; five++) {
    H3Encoding encoding = five ? H3_ENCODING_Q5_K : H3_ENCODING_Q4_K;
    guint8 b[176] = { 0 };
    gfloat y[256];

    memcpy (b + 4, scales, sizeof scales);
    memset (b + (five ? 48 : 16), 0x11, 128);
    b[1] = 0x3c; /* d = 1 */
    h3_blocks_decode (encoding, b, 1, y);
    for (guint e = 0; e < 256; e++)
      g_assert_cmpfloat (y[e], ==, sc[e / 32]);
    b[1] = 0;
    b[3] = 0x3c; /* dmin = 1 */
    h3_blocks_decode (encoding, b, 1, y);
    for (guint e = 0; e < 256; e++)
      g_assert_cmpfloat (y[e], ==, -mn[e / 32]);
  }
}

static void
test_worked_q3_k (void)
{
  static const gint s[] = { 1, -30, 3, -28, 5, 22, 23, -24, -12, 24, -4, 16, 1,
    2, 19, 20 };
  guint8 b[110];
  gfloat y[256];

  memset (b, 0xff, 32);      /* nothing is subtracted */
  memset (b + 32, 0x55, 64); /* all codes 1 */
  memcpy (b + 96, scales, sizeof scales);
  b[108] = 0;
  b[109] = 0x3c;
  h3_blocks_decode (H3_ENCODING_Q3_K, b, 1, y);
  for (guint e = 0; e < 256; e++)
    g_assert_cmpfloat (y[e], ==, s[e / 16]);
  memset (b, 0, 32); /* 4 is subtracted */
  h3_blocks_decode (H3_ENCODING_Q3_K, b, 1, y);
  for (guint e = 0; e < 256; e++)
    g_assert_cmpfloat (y[e], ==, -3 * s[e / 16]);
}

/* What scale codes say at their ends. */
static void
test_scale_codes (void)
{
  guint8 mx[17] = { 0 }, nv[36] = { 0x7f, 0, 0xb8, 1 };
  gfloat y[64];

  memset (mx + 1, 0x22, 16); /* all 1 */
  h3_blocks_decode (H3_ENCODING_MXFP4, mx, 1, y);
  g_assert_cmpfloat (y[0], ==, 0x1p-127);
  mx[0] = 254;
  h3_blocks_decode (H3_ENCODING_MXFP4, mx, 1, y);
  g_assert_cmpfloat (y[31], ==, 0x1p127);
  mx[0] = 255;
  h3_blocks_decode (H3_ENCODING_MXFP4, mx, 1, y);
  g_assert_true (isnan (y[0]));

  memset (nv + 4, 0xa2, 32); /* 1 and -1 */
  h3_blocks_decode (H3_ENCODING_GGUF_NVFP4, nv, 1, y);
  g_assert_cmpfloat (y[0], ==, 0);
  g_assert_cmpfloat (y[16], ==, 0);
  g_assert_cmpfloat (y[32], ==, 1); /* without a sign */
  g_assert_cmpfloat (y[40], ==, -1);
  g_assert_cmpfloat (y[48], ==, 0x1p-9);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/blocks/worked/q8_0", test_worked_q8_0);
  g_test_add_func ("/ops/blocks/worked/q4_k", test_worked_q4_k);
  g_test_add_func ("/ops/blocks/worked/q3_k", test_worked_q3_k);
  g_test_add_func ("/ops/blocks/scale-codes", test_scale_codes);
  ops_add ("/ops/blocks/linear", test_linear);
  ops_add ("/ops/blocks/embedding", test_embedding);
  ops_add ("/ops/blocks/stacked", test_stacked);
  ops_add ("/ops/blocks/refused", test_refused);
  return g_test_run ();
}
