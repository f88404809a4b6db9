/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/stored-values.h"

#include <string.h>

/* Inf and NaN have all bits of the exponent set. */
#define F32_EXPONENT 0x7f800000u
#define F16_EXPONENT 0x7c00u
#define BF16_EXPONENT 0x7f80u
#define E5M2_EXPONENT 0x7cu
/* Which has no Inf, and one NaN. */
#define E4M3_NAN 0x7fu

static inline guint32
load32 (const guint8 *bytes, gsize i)
{
  guint32 v;
  memcpy (&v, bytes + 4 * i, 4);
  return GUINT32_FROM_LE (v);
}

static inline guint16
load16 (const guint8 *bytes, gsize i)
{
  guint16 v;
  memcpy (&v, bytes + 2 * i, 2);
  return GUINT16_FROM_LE (v);
}

static inline gboolean
is_finite (H3StoredType type, const guint8 *bytes, gsize i)
{
  if (type == H3_STORED_F32)
    return (load32 (bytes, i) & F32_EXPONENT) != F32_EXPONENT;
  if (type == H3_STORED_F16)
    return (load16 (bytes, i) & F16_EXPONENT) != F16_EXPONENT;
  if (type == H3_STORED_F8_E4M3)
    return (bytes[i] & E4M3_NAN) != E4M3_NAN;
  if (type == H3_STORED_F8_E5M2)
    return (bytes[i] & E5M2_EXPONENT) != E5M2_EXPONENT;
  return (load16 (bytes, i) & BF16_EXPONENT) != BF16_EXPONENT;
}

static gboolean
any_special8 (guint8 special, const guint8 *bytes, gsize n)
{
  const guint8 lowest = special & -special;
  guint8 any = 0;

  for (gsize i = 0; i < n; i++)
    any |= (guint8) ((bytes[i] & special) + lowest);
  return any >> 7;
}

/* Whether there is any at all, as fast as memory is: an exponent of all ones
 * carries into the sign, which was masked out. */
static gboolean
any_special (H3StoredType type, const guint8 *bytes, gsize n)
{
  if (type == H3_STORED_F32) {
    guint32 any = 0;

    for (gsize i = 0; i < n; i++)
      any |= (load32 (bytes, i) & F32_EXPONENT) + 0x00800000u;
    return any >> 31;
  }
  if (type == H3_STORED_F8_E4M3 || type == H3_STORED_F8_E5M2)
    return any_special8 (type == H3_STORED_F8_E4M3 ? E4M3_NAN : E5M2_EXPONENT,
        bytes, n);
  if (type == H3_STORED_I8 || type == H3_STORED_U8)
    return FALSE;

  const guint16 exponent = type == H3_STORED_F16 ? F16_EXPONENT : BF16_EXPONENT;
  const guint16 lowest = exponent & -exponent;
  guint16 any = 0;

  for (gsize i = 0; i < n; i++)
    any |= (guint16) ((load16 (bytes, i) & exponent) + lowest);
  return any >> 15;
}

/* Where a block's scales are that are halves; MXFP4's is a byte. */
static const guint8 halves[H3_N_STORED_TYPES][2] = {
  [H3_STORED_Q4_0] = { 0, 0 },
  [H3_STORED_Q4_1] = { 0, 2 },
  [H3_STORED_Q5_0] = { 0, 0 },
  [H3_STORED_Q5_1] = { 0, 2 },
  [H3_STORED_Q8_0] = { 0, 0 },
  [H3_STORED_Q2_K] = { 80, 82 },
  [H3_STORED_Q3_K] = { 108, 108 },
  [H3_STORED_Q4_K] = { 0, 2 },
  [H3_STORED_Q5_K] = { 0, 2 },
  [H3_STORED_Q6_K] = { 208, 208 },
  [H3_STORED_IQ4_NL] = { 0, 0 },
  [H3_STORED_IQ4_XS] = { 0, 0 },
};

/* Of @n whole blocks; a scale in 8 bits is never Inf, and NaN in MXFP4 alone. */
static gboolean
blocks_finite (H3StoredType type, const guint8 *bytes, gsize n, gsize *index)
{
  gsize size = h3_stored_type_size (type);
  guint8 a = halves[type][0], b = halves[type][1];

  if (type == H3_STORED_NVFP4)
    return TRUE;
  for (*index = 0; *index < n; (*index)++, bytes += size)
    if (type == H3_STORED_MXFP4 ? bytes[0] == 255
                                : !is_finite (H3_STORED_F16, bytes + a, 0) ||
                                      !is_finite (H3_STORED_F16, bytes + b, 0))
      return FALSE;
  return TRUE;
}

gboolean
h3_stored_values_finite (H3StoredType type, gconstpointer bytes, gsize n,
    gsize *index)
{
  if (h3_stored_type_block (type) > 1)
    return blocks_finite (type, bytes, n, index);
  if (!any_special (type, bytes, n))
    return TRUE;
  *index = 0;
  while (is_finite (type, bytes, *index))
    (*index)++;
  return FALSE;
}

static inline guint32
widen_half (guint16 half)
{
  guint32 sign = (guint32) (half & 0x8000) << 16;
  guint32 exponent = half >> 10 & 31, mantissa = half & 0x3ff;

  if (exponent == 31)
    return sign | F32_EXPONENT | mantissa << 13;
  if (exponent == 0) {
    if (mantissa == 0)
      return sign;
    /* subnormal: 2^-24 * mantissa */
    for (exponent = 113; !(mantissa & 0x400); exponent--)
      mantissa <<= 1;
    return sign | exponent << 23 | (mantissa & 0x3ff) << 13;
  }
  return sign | (exponent + 112) << 23 | mantissa << 13;
}

void
h3_stored_values_widen (H3StoredType type, gconstpointer bytes, gsize n,
    gfloat *dst)
{
  for (gsize i = 0; i < n; i++) {
    guint32 bits;

    if (type == H3_STORED_F32)
      bits = load32 (bytes, i);
    else if (type == H3_STORED_F16)
      bits = widen_half (load16 (bytes, i));
    else
      bits = (guint32) load16 (bytes, i) << 16;
    memcpy (&dst[i], &bits, 4);
  }
}

/* The bits of the nearest bfloat16; Inf for what is larger than the largest. */
static inline guint16
narrow_to_brain (guint32 bits)
{
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* The bits of the nearest half. Without branches, so that loops vectorise. */
static inline guint16
narrow_to_half (guint32 bits)
{
  /* adding 0.5 leaves a multiple of 2^-24 in the mantissa, rounded */
  const guint32 half = 126u << 23;
  guint32 sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  guint32 normal, small;
  gfloat value;

  normal = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
  normal = size >= (143u << 23) ? F16_EXPONENT : normal; /* 2^16 and more */
  memcpy (&value, &size, 4);
  value += 0.5f;
  memcpy (&small, &value, 4);
  return sign | (size < (113u << 23) ? small - half : normal);
}

/* What fits in the stack and in the nearest cache. */
#define BLOCK 1024

static void
narrow (H3StoredType to, const gfloat *values, gsize n, guint16 *dst)
{
  for (gsize i = 0; i < n; i++) {
    guint32 bits;

    memcpy (&bits, &values[i], 4);
    dst[i] = GUINT16_TO_LE (
        to == H3_STORED_F16 ? narrow_to_half (bits) : narrow_to_brain (bits));
  }
}

void
h3_stored_values_convert (H3StoredType type, gconstpointer bytes, gsize n,
    H3StoredType to, gpointer dst)
{
  gsize from_size = h3_stored_type_size (type);
  gsize to_size = h3_stored_type_size (to);
  const guint8 *from = bytes;
  guint8 *at = dst;
  gfloat values[BLOCK];
  guint16 narrowed[BLOCK];

  if (type == to) {
    memmove (dst, bytes, n * to_size);
    return;
  }
  for (gsize i = 0; i < n; i += BLOCK) {
    gsize here = MIN (n - i, BLOCK);

    h3_stored_values_widen (type, from + i * from_size, here, values);
    if (to == H3_STORED_F32) {
      memcpy (at + i * to_size, values, here * to_size);
    } else {
      narrow (to, values, here, narrowed);
      memcpy (at + i * to_size, narrowed, here * to_size);
    }
  }
}
