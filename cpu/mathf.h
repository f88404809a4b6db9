/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Elementary functions as branch-free inline code, which the compiler turns
 * into vectors, and conversions between float types. */
#pragma once

#include <glib.h>
#include <math.h>
#include <string.h>

#include "model/tensor.h"

static inline guint32
h3_float_bits (gfloat x)
{
  guint32 u;
  memcpy (&u, &x, sizeof u);
  return u;
}

static inline gfloat
h3_bits_float (guint32 u)
{
  gfloat x;
  memcpy (&x, &u, sizeof x);
  return x;
}

/* a * b + c, rounded once where the instruction set can: written out because
 * contraction left to the compiler could differ between a loop and its tail. */
static inline gfloat
h3_fma (gfloat a, gfloat b, gfloat c)
{
#ifdef __FMA__
  return __builtin_fmaf (a, b, c);
#else
  return a * b + c;
#endif
}

/**
 * h3_expf: e^x to 2 ulp, 0 and Inf beyond the range, denormals included, NaN
 * stays NaN.
 *
 * x = n ln 2 + r; e^r by a polynomial; 2^n as two factors so that both ends of
 * the range are reached without a special case.
 */
static inline gfloat
h3_expf (gfloat x)
{
  const gfloat round = 12582912.0f; /* 1.5 * 2^23 */
  gfloat t, n, r, p;
  gint32 k, half;

  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  t = x * 1.44269504f + round;
  n = t - round;
  k = (gint32) (h3_float_bits (t) - 0x4b400000u);
  r = h3_fma (n, -0.693359375f, x);
  r = h3_fma (n, 2.12194440e-4f, r);
  p = 1.9875691500e-4f;
  p = h3_fma (p, r, 1.3981999507e-3f);
  p = h3_fma (p, r, 8.3334519073e-3f);
  p = h3_fma (p, r, 4.1665795894e-2f);
  p = h3_fma (p, r, 1.6666665459e-1f);
  p = h3_fma (p, r, 5.0000001201e-1f);
  p = h3_fma (p * r, r, r) + 1.0f;
  half = k >> 1;
  return p * h3_bits_float ((guint32) (half + 127) << 23) *
         h3_bits_float ((guint32) (k - half + 127) << 23);
}

static inline gfloat
h3_siluf (gfloat x)
{
  return x / (1.0f + h3_expf (-x));
}

/* 0.5 (1 + tanh u) = 1 / (1 + e^-2u) */
static inline gfloat
h3_gelu_tanhf (gfloat x)
{
  gfloat u = 0.797884561f * (x + 0.044715f * x * x * x);

  return x / (1.0f + h3_expf (-2.0f * u));
}

static inline gfloat
h3_gelu_erff (gfloat x)
{
  return 0.5f * x * (1.0f + erff (x * 0.707106781f));
}

/* The largest argument h3_sinf_reduced() is accurate for. */
#define H3_SINF_LIMIT 1e6f

/**
 * h3_sinf_reduced: sin x to 2 ulp for |x| <= H3_SINF_LIMIT.
 *
 * x = n pi + r in double, pi in two parts of which the first has 33 bits, so
 * that n times it is exact; sin x = (-1)^n sin r.
 */
static inline gfloat
h3_sinf_reduced (gfloat x)
{
  const gdouble round = 6755399441055744.0; /* 1.5 * 2^52 */
  gdouble d = x, t, n;
  guint64 parity;
  gfloat r, r2, p;

  t = d * 0.31830988618379067154 + round;
  n = t - round;
  d = d - n * 3.14159265346825122833;
  d = d - n * 1.21542010130123e-10;
  memcpy (&parity, &t, sizeof parity);
  r = (gfloat) d;
  r2 = r * r;
  p = 2.6057496e-6f;
  p = h3_fma (p, r2, -1.9809589e-4f);
  p = h3_fma (p, r2, 8.3330665e-3f);
  p = h3_fma (p, r2, -1.666666e-1f);
  p = h3_fma (p * r2, r, r);
  return h3_bits_float (h3_float_bits (p) ^ (guint32) (parity << 31));
}

/* sin x for any x: the same bytes as above where that is accurate. */
static inline gfloat
h3_sinf (gfloat x)
{
  return fabsf (x) > H3_SINF_LIMIT ? sinf (x) : h3_sinf_reduced (x);
}

static inline gfloat
h3_bf16_to_float (guint16 h)
{
  return h3_bits_float ((guint32) h << 16);
}

/* Shifted into float's fields the exponent is 112 too small; multiplying puts
 * that right for normal and denormal numbers alike. */
static inline gfloat
h3_f16_to_float (guint16 h)
{
  guint32 sign = (guint32) (h & 0x8000) << 16;
  guint32 rest = (guint32) (h & 0x7fff) << 13;
  gfloat value = h3_bits_float (rest) * 0x1p112f;
  guint32 bits = h3_float_bits (value);

  bits = rest >= 0x7c00u << 13 ? rest | 0x7f800000 : bits;
  return h3_bits_float (bits | sign);
}

/* Ties to even; NaN stays NaN. */
static inline guint16
h3_float_to_bf16 (gfloat x)
{
  guint32 u = h3_float_bits (x);

  if ((u & 0x7fffffff) > 0x7f800000)
    return (u >> 16) | 0x40;
  return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}

static inline guint16
h3_float_to_f16 (gfloat x)
{
  guint32 u = h3_float_bits (x);
  guint16 sign = (u >> 16) & 0x8000;

  u &= 0x7fffffff;
  if (u > 0x7f800000)
    return sign | 0x7e00;
  if (u >= 0x477ff000) /* 65520 and more round to Inf */
    return sign | 0x7c00;
  if (u < 0x38800000) /* below 2^-14: denormal, counted in units of 2^-24 */
    return sign | (guint16) rintf (h3_bits_float (u) * 0x1p24f);
  u += 0xfff + ((u >> 13) & 1);
  return sign | ((u - 0x38000000) >> 13);
}

/* @n elements from @first of a float tensor, as float32 into @y. */
static inline void
h3_widen (gfloat *y, const H3Tensor *x, gint64 first, gint64 n)
{
  const gfloat *f32 = (const gfloat *) x->data + first;
  const guint16 *half = (const guint16 *) x->data + first;

  switch (x->dtype) {
    case H3_DTYPE_F32:
      memcpy (y, f32, n * sizeof *y);
      break;
    case H3_DTYPE_BF16:
      for (gint64 i = 0; i < n; i++)
        y[i] = h3_bf16_to_float (half[i]);
      break;
    default:
      for (gint64 i = 0; i < n; i++)
        y[i] = h3_f16_to_float (half[i]);
      break;
  }
}
