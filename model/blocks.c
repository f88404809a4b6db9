/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/blocks.h"
#include "model/checkpoint/stored-values.h"

#include <math.h>
#include <string.h>

/* One block to float32. */
typedef void (*Decode) (const guint8 *b, gfloat *y);

static inline gfloat
half (const guint8 *bytes)
{
  gfloat value;

  h3_stored_values_widen (H3_STORED_F16, bytes, 1, &value);
  return value;
}

static inline guint32
word (const guint8 *bytes)
{
  guint32 value;

  memcpy (&value, bytes, 4);
  return GUINT32_FROM_LE (value);
}

static inline gfloat
float_of_bits (guint32 bits)
{
  gfloat value;

  memcpy (&value, &bits, 4);
  return value;
}

/* --- 32 elements: the low nibbles are the first 16 --- */

static inline guint
nibble (const guint8 *qs, guint e)
{
  return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4;
}

static void
decode_q8_0 (const guint8 *b, gfloat *y)
{
  gfloat d = half (b);

  for (guint e = 0; e < 32; e++)
    y[e] = d * (gint8) b[2 + e];
}

static void
decode_q4_0 (const guint8 *b, gfloat *y)
{
  gfloat d = half (b);

  for (guint e = 0; e < 32; e++)
    y[e] = ((gint) nibble (b + 2, e) - 8) * d;
}

static void
decode_q4_1 (const guint8 *b, gfloat *y)
{
  gfloat d = half (b), m = half (b + 2);

  for (guint e = 0; e < 32; e++)
    y[e] = nibble (b + 4, e) * d + m;
}

static void
decode_q5_0 (const guint8 *b, gfloat *y)
{
  gfloat d = half (b);
  guint32 qh = word (b + 2);

  for (guint e = 0; e < 32; e++)
    y[e] = ((gint) (nibble (b + 6, e) | (qh >> e & 1) << 4) - 16) * d;
}

static void
decode_q5_1 (const guint8 *b, gfloat *y)
{
  gfloat d = half (b), m = half (b + 2);
  guint32 qh = word (b + 4);

  for (guint e = 0; e < 32; e++)
    y[e] = (nibble (b + 8, e) | (qh >> e & 1) << 4) * d + m;
}

static const gint8 nl_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
  1, 13, 25, 38, 53, 69, 89, 113 };

static void
decode_iq4_nl (const guint8 *b, gfloat *y)
{
  gfloat d = half (b);

  for (guint e = 0; e < 32; e++)
    y[e] = d * nl_values[nibble (b + 2, e)];
}

static const gfloat e2m1[16] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1,
  -1.5f, -2, -3, -4, -6 };

/* 2^(e - 127); e = 0 is subnormal, 255 NaN (checkpoints.md 5.1). */
static inline gfloat
e8m0 (guint8 e)
{
  if (e == 255)
    return NAN;
  return e == 0 ? 0x1p-127f : float_of_bits ((guint32) e << 23);
}

static void
decode_mxfp4 (const guint8 *b, gfloat *y)
{
  gfloat d = e8m0 (b[0]);

  for (guint e = 0; e < 32; e++)
    y[e] = d * e2m1[nibble (b + 1, e)];
}

/* An E4M3 scale without its sign; 0 and 0x7f are 0 here. */
static inline gfloat
ue4m3 (guint8 code)
{
  code &= 0x7f;
  return code == 0x7f ? 0 : float_of_bits ((guint32) code << 20) * 0x1p120f;
}

/* 64 elements: four sub-blocks of 16, with a scale and 8 bytes each. */
static void
decode_nvfp4 (const guint8 *b, gfloat *y)
{
  for (guint s = 0; s < 4; s++) {
    gfloat d = ue4m3 (b[s]);
    const guint8 *qs = b + 4 + 8 * s;

    for (guint j = 0; j < 16; j++)
      y[16 * s + j] = d * e2m1[j < 8 ? qs[j] & 15 : qs[j - 8] >> 4];
  }
}

/* --- 256 elements: e = 128 h + 32 j + p --- */

static void
decode_q2_k (const guint8 *b, gfloat *y)
{
  const guint8 *sc = b, *qs = b + 16;
  gfloat d = half (b + 80), dmin = half (b + 82);

  for (guint e = 0; e < 256; e++) {
    guint h = e / 128, j = e % 128 / 32, p = e % 32;
    guint8 scale = sc[e / 16];

    y[e] =
        d * (scale & 15) * (qs[32 * h + p] >> 2 * j & 3) - dmin * (scale >> 4);
  }
}

/* Scale @g of 16, of 6 bits. */
static inline gint
q3_k_scale (const guint8 *s, guint g)
{
  guint low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
  guint high = s[8 + g % 4] >> 2 * (g / 4) & 3;

  return (gint) (low | high << 4) - 32;
}

static void
decode_q3_k (const guint8 *b, gfloat *y)
{
  const guint8 *hm = b, *qs = b + 32, *s = b + 96;
  gfloat d = half (b + 108);

  for (guint g = 0; g < 16; g++) {
    gfloat scale = d * q3_k_scale (s, g);

    for (guint e = 16 * g; e < 16 * g + 16; e++) {
      guint h = e / 128, j = e % 128 / 32, p = e % 32;
      gint low = qs[32 * h + p] >> 2 * j & 3;

      y[e] = scale * (low - (hm[p] >> (4 * h + j) & 1 ? 0 : 4));
    }
  }
}

/* Scale and minimum @j of 8, of 6 bits each. */
static inline void
q4_k_scale (const guint8 *s, guint j, guint *sc, guint *mn)
{
  if (j < 4) {
    *sc = s[j] & 63;
    *mn = s[j + 4] & 63;
  } else {
    *sc = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
    *mn = s[j + 4] >> 4 | s[j] >> 6 << 4;
  }
}

/* @qh: the fifth bits, or NULL */
static inline void
decode_q45_k (const guint8 *b, const guint8 *qh, const guint8 *qs, gfloat *y)
{
  gfloat d = half (b), dmin = half (b + 2);

  for (guint g = 0; g < 8; g++) {
    const guint8 *q = qs + 32 * (g / 2);
    guint sc, mn;
    gfloat scale, minimum;

    q4_k_scale (b + 4, g, &sc, &mn);
    scale = d * sc;
    minimum = dmin * mn;
    for (guint p = 0; p < 32; p++) {
      guint code = g % 2 ? q[p] >> 4 : q[p] & 15;

      if (qh)
        code += 16 * (qh[p] >> g & 1);
      y[32 * g + p] = scale * code - minimum;
    }
  }
}

static void
decode_q4_k (const guint8 *b, gfloat *y)
{
  decode_q45_k (b, NULL, b + 16, y);
}

static void
decode_q5_k (const guint8 *b, gfloat *y)
{
  decode_q45_k (b, b + 16, b + 48, y);
}

static void
decode_q6_k (const guint8 *b, gfloat *y)
{
  const guint8 *ql = b, *qh = b + 128;
  const gint8 *sc = (const gint8 *) b + 192;
  gfloat d = half (b + 208);

  for (guint g = 0; g < 16; g++) {
    gfloat scale = d * sc[g];

    for (guint e = 16 * g; e < 16 * g + 16; e++) {
      guint h = e / 128, j = e % 128 / 32, p = e % 32;
      guint8 low = ql[64 * h + 32 * (j & 1) + p];
      guint code = (j < 2 ? low & 15 : low >> 4) | (qh[32 * h + p] >> 2 * j & 3)
                                                       << 4;

      y[e] = scale * ((gint) code - 32);
    }
  }
}

static void
decode_iq4_xs (const guint8 *b, gfloat *y)
{
  gfloat d = half (b);
  guint sh = b[2] | b[3] << 8;
  const guint8 *sl = b + 4, *qs = b + 8;

  for (guint g = 0; g < 8; g++) {
    guint ls = (sl[g / 2] >> 4 * (g % 2) & 15) | (sh >> 2 * g & 3) << 4;
    gfloat scale = d * ((gint) ls - 32);

    for (guint p = 0; p < 32; p++)
      y[32 * g + p] = scale * nl_values[nibble (qs + 16 * g, p)];
  }
}

static const Decode decoders[H3_N_ENCODINGS] = {
  [H3_ENCODING_Q4_0] = decode_q4_0,
  [H3_ENCODING_Q4_1] = decode_q4_1,
  [H3_ENCODING_Q5_0] = decode_q5_0,
  [H3_ENCODING_Q5_1] = decode_q5_1,
  [H3_ENCODING_Q8_0] = decode_q8_0,
  [H3_ENCODING_Q2_K] = decode_q2_k,
  [H3_ENCODING_Q3_K] = decode_q3_k,
  [H3_ENCODING_Q4_K] = decode_q4_k,
  [H3_ENCODING_Q5_K] = decode_q5_k,
  [H3_ENCODING_Q6_K] = decode_q6_k,
  [H3_ENCODING_IQ4_NL] = decode_iq4_nl,
  [H3_ENCODING_IQ4_XS] = decode_iq4_xs,
  [H3_ENCODING_MXFP4] = decode_mxfp4,
  [H3_ENCODING_GGUF_NVFP4] = decode_nvfp4,
};

gboolean
h3_encoding_is_block (H3Encoding encoding)
{
  return decoders[encoding] != NULL;
}

void
h3_blocks_decode (H3Encoding encoding, gconstpointer bytes, gsize n,
    gfloat *dst)
{
  const H3EncodingInfo *info = h3_encoding_info (encoding);
  const guint8 *from = bytes;

  g_return_if_fail (h3_encoding_is_block (encoding));

  for (gsize i = 0; i < n; i++)
    decoders[encoding](from + i * info->block_bytes, dst + i * info->block);
}
