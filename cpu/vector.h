/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Vectors as wide as the instruction set's registers. */
#pragma once

#include <glib.h>
#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#define H3_LANES 8
#else
#define H3_LANES 4
#endif

typedef gfloat H3Vector __attribute__ ((vector_size (4 * H3_LANES)));

static inline H3Vector
h3_vector_load (const gfloat *x)
{
  H3Vector v;
  memcpy (&v, x, sizeof v);
  return v;
}

static inline void
h3_vector_store (gfloat *y, H3Vector v)
{
  memcpy (y, &v, sizeof v);
}

/* a * b + c in every lane, as h3_fma() */
static inline H3Vector
h3_vector_fma (gfloat a, H3Vector b, H3Vector c)
{
#ifdef __FMA__
  return _mm256_fmadd_ps (_mm256_set1_ps (a), b, c);
#else
  return a * b + c;
#endif
}
