/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/stored-values.h"

#include <string.h>

/* Inf and NaN have all bits of the exponent set. */
#define F32_EXPONENT 0x7f800000u
#define F16_EXPONENT 0x7c00u
#define BF16_EXPONENT 0x7f80u

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
  return (load16 (bytes, i) & BF16_EXPONENT) != BF16_EXPONENT;
}

/* Whether there is any at all, in loops that vectorise. */
static gboolean
any_special (H3StoredType type, const guint8 *bytes, gsize n)
{
  guint32 any = 0;

  if (type == H3_STORED_F32) {
    for (gsize i = 0; i < n; i++)
      any |= (load32 (bytes, i) & F32_EXPONENT) == F32_EXPONENT;
  } else {
    guint16 exponent = type == H3_STORED_F16 ? F16_EXPONENT : BF16_EXPONENT;
    for (gsize i = 0; i < n; i++)
      any |= (load16 (bytes, i) & exponent) == exponent;
  }
  return any != 0;
}

gboolean
h3_stored_values_finite (H3StoredType type, gconstpointer bytes, gsize n,
    gsize *index)
{
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
