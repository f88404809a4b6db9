/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The recipe of tests/golden/README.md: every number follows from component,
 * name, place and seed. */
#include "mkcheckpoint.h"

#include <math.h>
#include <string.h>

#define GOLDEN_RATIO G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)

/* float32 bits of the 12-tap Kaiser-windowed sinc (audio-vae.md 4.6); the taps
 * are symmetric. */
static const guint32 lowpass_half[6] = { 0x3B04F861, 0x3C19D646, 0xBCD14084,
  0xBD6C2A26, 0x3E03A888, 0x3EE2EC65 };

static guint64
fnv1a64 (const gchar *component, const gchar *name)
{
  g_autofree gchar *text = g_strconcat (component, ":", name, NULL);
  guint64 hash = G_GUINT64_CONSTANT (0xCBF29CE484222325);

  for (const guchar *c = (const guchar *) text; *c; c++)
    hash = (hash ^ *c) * G_GUINT64_CONSTANT (0x100000001B3);
  return hash;
}

/* u_i in [-1, 1), exact in float32. */
static inline gfloat
uniform (guint64 s0, gint64 i)
{
  guint64 x = s0 + (guint64) (i + 1) * GOLDEN_RATIO;

  x = (x ^ (x >> 30)) * G_GUINT64_CONSTANT (0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * G_GUINT64_CONSTANT (0x94D049BB133111EB);
  x ^= x >> 31;
  return (gfloat) (x >> 40) * 0x1p-23f - 1.0f;
}

/* TRUE when the tensor is not random. */
static gboolean
fixed_values (const MkTensor *tensor, gfloat *values, gint64 n)
{
  if (g_str_equal (tensor->name, "rope.inv_freq")) {
    /* theta^(-2j / (2n)), the power rounded before the division, as torch */
    for (gint64 j = 0; j < n; j++)
      values[j] = 1.0f / (gfloat) pow (10000.0, (gdouble) j / n);
    return TRUE;
  }
  if (g_str_equal (tensor->name, "decoder.mask_token") ||
      g_str_has_suffix (tensor->name, ".zero_k_bias")) {
    memset (values, 0, n * sizeof *values);
    return TRUE;
  }
  if (g_str_has_suffix (tensor->name, ".filter")) {
    for (gint64 j = 0; j < n; j++)
      memcpy (&values[j], &lowpass_half[j < 6 ? j : 11 - j], 4);
    return TRUE;
  }
  return FALSE;
}

static gfloat
matrix_scale (const MkTensor *tensor, const gchar *component)
{
  gdouble fan_in = 1;
  gdouble c;

  for (guint d = 1; d < tensor->rank; d++)
    fan_in *= tensor->shape[d];
  c = sqrt (3.0 / fan_in);
  if (g_str_equal (component, "text_encoder") &&
      (g_str_has_suffix (tensor->name, ".o_proj.weight") ||
          g_str_has_suffix (tensor->name, ".down_proj.weight")))
    c *= 0.3;
  return c;
}

gfloat *
mk_values (const MkTensor *tensor, const gchar *component, guint64 seed)
{
  const gchar *dot = strrchr (tensor->name, '.');
  const gchar *last = dot ? dot + 1 : tensor->name;
  guint64 s0 = fnv1a64 (component, tensor->name) ^ (seed * GOLDEN_RATIO);
  gint64 n = mk_tensor_size (tensor);
  gfloat *values = g_new (gfloat, n);
  gfloat scale = 0.2f;

  if (fixed_values (tensor, values, n))
    return values;

  if (g_str_equal (last, "weight_g")) {
    for (gint64 i = 0; i < n; i++)
      values[i] = 0.7f * (1.0f + 0.2f * uniform (s0, i));
    return values;
  }
  if (g_str_equal (last, "alpha") || g_str_equal (last, "beta"))
    scale = 0.3f;
  else if (g_str_equal (last, "bias"))
    scale = 0.1f;
  else if (strstr (tensor->name, "embed_tokens"))
    scale = 0.8f;
  else if (tensor->rank >= 2)
    scale = matrix_scale (tensor, component);
  else {
    for (gint64 i = 0; i < n; i++)
      values[i] = 1.0f + 0.2f * uniform (s0, i);
    return values;
  }
  for (gint64 i = 0; i < n; i++)
    values[i] = scale * uniform (s0, i);
  return values;
}
