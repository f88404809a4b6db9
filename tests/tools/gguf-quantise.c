/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks out of numbers (checkpoints.md 6.3). */
#include "gguf-file.h"

#include "model/blocks.h"
#include "model/checkpoint/stored-values.h"

#include <math.h>
#include <string.h>

/* One block; @b is all 0 before. */
typedef void (*Quantise) (const gfloat *x, guint8 *b);

/* Writes the nearest half; returns what it is. */
static gfloat
put_half (guint8 *b, gfloat value)
{
  gfloat rounded;

  h3_stored_values_convert (H3_STORED_F32, &value, 1, H3_STORED_F16, b);
  h3_stored_values_widen (H3_STORED_F16, b, 1, &rounded);
  return rounded;
}

static gint
nearest (gfloat x, gfloat unit, gint low, gint high)
{
  return unit == 0 ? CLAMP (0, low, high)
                   : CLAMP ((gint) roundf (x / unit), low, high);
}

static gfloat
max_abs (const gfloat *x, guint n)
{
  gfloat most = 0;

  for (guint i = 0; i < n; i++)
    most = MAX (most, fabsf (x[i]));
  return most;
}

static void
extremes (const gfloat *x, guint n, gfloat *low, gfloat *high)
{
  *low = *high = x[0];
  for (guint i = 1; i < n; i++) {
    *low = MIN (*low, x[i]);
    *high = MAX (*high, x[i]);
  }
}

static void
put_nibble (guint8 *qs, guint e, guint n, guint code)
{
  if (e < n)
    qs[e] |= code;
  else
    qs[e - n] |= code << 4;
}

static void
put_bit (guint8 *bytes, guint i, guint bit)
{
  bytes[i / 8] |= bit << i % 8;
}

/* --- 32 elements --- */

static void
quantise_q8_0 (const gfloat *x, guint8 *b)
{
  gfloat d = put_half (b, max_abs (x, 32) / 127);

  for (guint e = 0; e < 32; e++)
    b[2 + e] = nearest (x[e], d, -127, 127);
}

/* @bits 4: Q4_0; 5: Q5_0 */
static void
quantise_signed (const gfloat *x, guint8 *b, guint bits)
{
  gint half = 1 << (bits - 1);
  gfloat d = put_half (b, max_abs (x, 32) / (half - 0.5f));
  guint8 *high = b + 2, *qs = b + (bits == 5 ? 6 : 2);

  for (guint e = 0; e < 32; e++) {
    guint code = nearest (x[e], d, -half, half - 1) + half;

    put_nibble (qs, e, 16, code & 15);
    if (bits == 5)
      put_bit (high, e, code >> 4);
  }
}

static void
quantise_q4_0 (const gfloat *x, guint8 *b)
{
  quantise_signed (x, b, 4);
}

static void
quantise_q5_0 (const gfloat *x, guint8 *b)
{
  quantise_signed (x, b, 5);
}

static void
quantise_offset (const gfloat *x, guint8 *b, guint bits)
{
  gint most = (1 << bits) - 1;
  guint8 *high = b + 4, *qs = b + (bits == 5 ? 8 : 4);
  gfloat low, top, d, m;

  extremes (x, 32, &low, &top);
  d = put_half (b, (top - low) / most);
  m = put_half (b + 2, low);
  for (guint e = 0; e < 32; e++) {
    guint code = nearest (x[e] - m, d, 0, most);

    put_nibble (qs, e, 16, code & 15);
    if (bits == 5)
      put_bit (high, e, code >> 4);
  }
}

static void
quantise_q4_1 (const gfloat *x, guint8 *b)
{
  quantise_offset (x, b, 4);
}

static void
quantise_q5_1 (const gfloat *x, guint8 *b)
{
  quantise_offset (x, b, 5);
}

/* The code whose value times @unit is nearest to @x. */
static guint
nearest_of (const gfloat *values, gfloat x, gfloat unit)
{
  guint best = 0;

  for (guint i = 1; i < 16; i++)
    if (fabsf (values[i] * unit - x) < fabsf (values[best] * unit - x))
      best = i;
  return best;
}

static const gfloat nl_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
  1, 13, 25, 38, 53, 69, 89, 113 };
static const gfloat e2m1_values[16] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f,
  -1, -1.5f, -2, -3, -4, -6 };

static void
quantise_iq4_nl (const gfloat *x, guint8 *b)
{
  gfloat d = put_half (b, max_abs (x, 32) / 120);

  for (guint e = 0; e < 32; e++)
    put_nibble (b + 2, e, 16, nearest_of (nl_values, x[e], d));
}

static void
quantise_mxfp4 (const gfloat *x, guint8 *b)
{
  gint e8 = (gint) ceilf (log2f (MAX (max_abs (x, 32), 1e-30f) / 6)) + 127;

  b[0] = CLAMP (e8, 0, 254);
  for (guint e = 0; e < 32; e++)
    put_nibble (b + 1, e, 16,
        nearest_of (e2m1_values, x[e], ldexpf (1, b[0] - 127)));
}

static void
quantise_nvfp4 (const gfloat *x, guint8 *b)
{
  for (guint s = 0; s < 4; s++) {
    gfloat want = max_abs (x + 16 * s, 16) / 6, unit = 0;
    guint code = 0;

    while (code < 0x7e && unit < want) {
      code++;
      unit = code < 8 ? ldexpf (code, -9)
                      : ldexpf (8 + code % 8, (gint) (code / 8) - 10);
    }
    b[s] = code;
    for (guint j = 0; j < 16; j++)
      put_nibble (b + 4 + 8 * s, j, 8,
          nearest_of (e2m1_values, x[16 * s + j], unit));
  }
}

/* --- 256 elements --- */

/* Scales and minima of sub-blocks of @n, each with a code up to @most: x is about
 * d sc q - dmin mn, q up to @levels. */
static void
fit_sub_blocks (const gfloat *x, guint n, guint levels, guint most,
    guint8 *put_d, guint8 *put_dmin, guint *sc, guint *mn, gfloat *scale,
    gfloat *minimum)
{
  guint n_sub = 256 / n;
  gfloat d = 0, dmin = 0;

  for (guint i = 0; i < n_sub; i++) {
    gfloat low, high;

    extremes (x + n * i, n, &low, &high);
    low = MIN (low, 0);
    scale[i] = (high - low) / levels;
    minimum[i] = -low;
    d = MAX (d, scale[i]);
    dmin = MAX (dmin, minimum[i]);
  }
  d = put_half (put_d, d / most);
  dmin = put_half (put_dmin, dmin / most);
  for (guint i = 0; i < n_sub; i++) {
    sc[i] = nearest (scale[i], d, 0, most);
    mn[i] = nearest (minimum[i], dmin, 0, most);
    scale[i] = d * sc[i];
    minimum[i] = dmin * mn[i];
  }
}

static void
quantise_q2_k (const gfloat *x, guint8 *b)
{
  guint sc[16], mn[16];
  gfloat scale[16], minimum[16];

  fit_sub_blocks (x, 16, 3, 15, b + 80, b + 82, sc, mn, scale, minimum);
  for (guint e = 0; e < 256; e++) {
    guint g = e / 16;

    b[g] = sc[g] | mn[g] << 4;
    b[16 + 32 * (e / 128) + e % 32] |=
        nearest (x[e] + minimum[g], scale[g], 0, 3) << 2 * (e % 128 / 32);
  }
}

/* Codes of sub-blocks of @n around 0, the largest @most; units to @scale. */
static void
fit_signed (const gfloat *x, guint n, gfloat levels, gint most, guint8 *put_d,
    gint *sc, gfloat *scale)
{
  gfloat d;

  for (guint i = 0; i < 256 / n; i++)
    scale[i] = max_abs (x + n * i, n) / levels;
  d = put_half (put_d, max_abs (scale, 256 / n) / most);
  for (guint i = 0; i < 256 / n; i++) {
    sc[i] = nearest (scale[i], d, 0, most);
    scale[i] = d * sc[i];
  }
}

static void
quantise_q3_k (const gfloat *x, guint8 *b)
{
  guint8 *hm = b, *qs = b + 32, *s = b + 96;
  gint sc[16];
  gfloat scale[16];

  fit_signed (x, 16, 3.5f, 31, b + 108, sc, scale);
  for (guint g = 0; g < 16; g++) {
    guint code = sc[g] + 32;

    put_nibble (s, g, 8, code & 15);
    s[8 + g % 4] |= code >> 4 << 2 * (g / 4);
  }
  for (guint e = 0; e < 256; e++) {
    guint code = nearest (x[e], scale[e / 16], -4, 3) + 4;

    qs[32 * (e / 128) + e % 32] |= (code & 3) << 2 * (e % 128 / 32);
    hm[e % 32] |= code >> 2 << e / 32;
  }
}

static void
put_q4_k_scales (guint8 *s, const guint *sc, const guint *mn)
{
  for (guint j = 0; j < 4; j++) {
    s[j] = sc[j] | sc[j + 4] >> 4 << 6;
    s[j + 4] = mn[j] | mn[j + 4] >> 4 << 6;
    s[j + 8] = (sc[j + 4] & 15) | (mn[j + 4] & 15) << 4;
  }
}

static void
quantise_q45_k (const gfloat *x, guint8 *b, guint bits)
{
  guint8 *qh = b + 16, *qs = b + (bits == 5 ? 48 : 16);
  guint sc[8], mn[8];
  gfloat scale[8], minimum[8];

  fit_sub_blocks (x, 32, (1 << bits) - 1, 63, b, b + 2, sc, mn, scale, minimum);
  put_q4_k_scales (b + 4, sc, mn);
  for (guint e = 0; e < 256; e++) {
    guint g = e / 32;
    guint code = nearest (x[e] + minimum[g], scale[g], 0, (1 << bits) - 1);

    put_nibble (qs + 32 * (g / 2), e % 64, 32, code & 15);
    if (bits == 5)
      qh[e % 32] |= code >> 4 << g;
  }
}

static void
quantise_q4_k (const gfloat *x, guint8 *b)
{
  quantise_q45_k (x, b, 4);
}

static void
quantise_q5_k (const gfloat *x, guint8 *b)
{
  quantise_q45_k (x, b, 5);
}

static void
quantise_q6_k (const gfloat *x, guint8 *b)
{
  gint sc[16];
  gfloat scale[16];

  fit_signed (x, 16, 31.5f, 127, b + 208, sc, scale);
  for (guint e = 0; e < 256; e++) {
    guint h = e / 128, j = e % 128 / 32, p = e % 32;
    guint code = nearest (x[e], scale[e / 16], -32, 31) + 32;

    b[192 + e / 16] = sc[e / 16];
    b[64 * h + 32 * (j & 1) + p] |= (code & 15) << (j < 2 ? 0 : 4);
    b[128 + 32 * h + p] |= code >> 4 << 2 * j;
  }
}

static void
quantise_iq4_xs (const gfloat *x, guint8 *b)
{
  gint sc[8];
  gfloat scale[8];
  guint high = 0;

  fit_signed (x, 32, 120, 31, b, sc, scale);
  for (guint g = 0; g < 8; g++) {
    guint ls = sc[g] + 32;

    high |= ls >> 4 << 2 * g;
    b[4 + g / 2] |= (ls & 15) << 4 * (g % 2);
    for (guint p = 0; p < 32; p++)
      put_nibble (b + 8 + 16 * g, p, 16,
          nearest_of (nl_values, x[32 * g + p], scale[g]));
  }
  b[2] = high;
  b[3] = high >> 8;
}

static const Quantise quantisers[H3_N_STORED_TYPES] = {
  [H3_STORED_Q4_0] = quantise_q4_0,
  [H3_STORED_Q4_1] = quantise_q4_1,
  [H3_STORED_Q5_0] = quantise_q5_0,
  [H3_STORED_Q5_1] = quantise_q5_1,
  [H3_STORED_Q8_0] = quantise_q8_0,
  [H3_STORED_Q2_K] = quantise_q2_k,
  [H3_STORED_Q3_K] = quantise_q3_k,
  [H3_STORED_Q4_K] = quantise_q4_k,
  [H3_STORED_Q5_K] = quantise_q5_k,
  [H3_STORED_Q6_K] = quantise_q6_k,
  [H3_STORED_IQ4_NL] = quantise_iq4_nl,
  [H3_STORED_IQ4_XS] = quantise_iq4_xs,
  [H3_STORED_MXFP4] = quantise_mxfp4,
  [H3_STORED_NVFP4] = quantise_nvfp4,
};

void
gguf_quantise (H3StoredType type, const gfloat *values, gsize n, guint8 *bytes)
{
  guint block = h3_stored_type_block (type);
  gsize size = h3_stored_type_size (type);

  if (!quantisers[type]) {
    h3_stored_values_convert (H3_STORED_F32, values, n, type, bytes);
    return;
  }
  memset (bytes, 0, n / block * size);
  for (gsize i = 0; i < n / block; i++)
    quantisers[type](values + i * block, bytes + i * size);
}

void
gguf_decode (H3StoredType type, const guint8 *bytes, gsize n, gfloat *values)
{
  if (quantisers[type])
    h3_blocks_decode (type - H3_STORED_Q4_0 + H3_ENCODING_Q4_0, bytes,
        n / h3_stored_type_block (type), values);
  else
    h3_stored_values_widen (type, bytes, n, values);
}
