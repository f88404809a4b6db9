/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/denoise/noise.h"

#include "model/denoise/packing.h"

#include <math.h>
#include <string.h>

/* MT19937 (Matsumoto and Nishimura 1998). */
#define MT_N 624
#define MT_M 397
#define MT_MATRIX 0x9908b0dfu
#define MT_UPPER 0x80000000u
#define MT_LOWER 0x7fffffffu

/* torch transforms normals in blocks of this many; below, one by one. */
#define BLOCK 16

void
h3_generator_seed (H3Generator *generator, guint64 seed)
{
  guint32 *s = generator->state;

  s[0] = (guint32) seed; /* torch ignores the upper half */
  for (guint j = 1; j < MT_N; j++)
    s[j] = 1812433253u * (s[j - 1] ^ (s[j - 1] >> 30)) + j;
  generator->next = MT_N;
  generator->has_spare = FALSE;
  generator->spare = 0;
}

static void
twist (guint32 *s)
{
  for (guint j = 0; j < MT_N; j++) {
    guint32 y = (s[j] & MT_UPPER) | (s[(j + 1) % MT_N] & MT_LOWER);

    s[j] = s[(j + MT_M) % MT_N] ^ (y >> 1) ^ (y & 1 ? MT_MATRIX : 0);
  }
}

guint32
h3_generator_u32 (H3Generator *generator)
{
  guint32 y;

  if (generator->next >= MT_N) {
    twist (generator->state);
    generator->next = 0;
  }
  y = generator->state[generator->next++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

/* 24 bits, the float uniform. */
static gfloat
uniform24 (H3Generator *generator)
{
  return (h3_generator_u32 (generator) & 0xffffff) * 0x1p-24f;
}

/* 53 bits of two draws, high half first, the double uniform. */
static gdouble
uniform53 (H3Generator *generator)
{
  guint64 high = h3_generator_u32 (generator);
  guint64 low = h3_generator_u32 (generator);

  return (((high << 32) | low) & ((G_GUINT64_CONSTANT (1) << 53) - 1)) *
         0x1p-53;
}

/* One block of uniforms to normals, in place: value j pairs with j + 8. */
static void
box_muller_block (gfloat *d)
{
  for (guint j = 0; j < BLOCK / 2; j++) {
    gfloat u1 = 1.0f - d[j];
    gfloat u2 = d[j + BLOCK / 2];
    gfloat r = sqrtf (-2.0f * logf (u1));
    gfloat theta = 2.0f * (gfloat) G_PI * u2;

    d[j] = r * cosf (theta);
    d[j + BLOCK / 2] = r * sinf (theta);
  }
}

static void
fill_uniform (H3Generator *generator, gfloat *d, gsize n)
{
  for (gsize i = 0; i < n; i++)
    d[i] = uniform24 (generator);
}

/* The path of fewer than 16 values: pairs, the second kept for later. */
static gdouble
scalar_normal (H3Generator *generator)
{
  gdouble u1, u2, r, theta;

  if (generator->has_spare) {
    generator->has_spare = FALSE;
    return generator->spare;
  }
  u1 = uniform53 (generator);
  u2 = uniform53 (generator);
  r = sqrt (-2.0 * log1p (-u2));
  theta = 2.0 * G_PI * u1;
  generator->spare = r * sin (theta);
  generator->has_spare = TRUE;
  return r * cos (theta);
}

void
h3_generator_randn (H3Generator *generator, gfloat *out, gsize n)
{
  if (n < BLOCK) {
    for (gsize i = 0; i < n; i++)
      out[i] = (gfloat) scalar_normal (generator);
    return;
  }

  fill_uniform (generator, out, n);
  for (gsize i = 0; i + BLOCK <= n; i += BLOCK)
    box_muller_block (out + i);
  if (n % BLOCK != 0) {
    /* a ragged end is drawn again as one whole block */
    gfloat *tail = out + n - BLOCK;

    fill_uniform (generator, tail, BLOCK);
    box_muller_block (tail);
  }
}

static gfloat *
try_noise (gsize n, GError **error)
{
  gfloat *noise = g_try_new (gfloat, n);

  if (!noise)
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for %" G_GSIZE_FORMAT " bytes of noise",
        n * sizeof (gfloat));
  return noise;
}

/* Drawn as a latent [C, drawn_t, h, w], of which the first @t frames are used,
 * in rows. */
static gboolean
latent_noise (H3Generator *generator, gint channels, gint drawn_t, gint t,
    gint h, gint w, gfloat *rows, GError **error)
{
  gsize frame = (gsize) h * w, n = (gsize) channels * drawn_t * frame;
  g_autofree gfloat *latent = try_noise (n, error);

  if (!latent)
    return FALSE;
  h3_generator_randn (generator, latent, n);
  for (gsize c = 1; c < (gsize) channels && t < drawn_t; c++)
    memmove (latent + c * t * frame, latent + c * drawn_t * frame,
        t * frame * sizeof (gfloat));
  h3_patchify (rows, latent, channels, t, h, w);
  return TRUE;
}

static gboolean
video_noise (H3Generator *generator, const H3Geometry *geometry, gint channels,
    gfloat *rows, GError **error)
{
  return latent_noise (generator, channels, geometry->latent_t,
      geometry->latent_t, geometry->latent_h, geometry->latent_w, rows, error);
}

/* ComfyUI draws [C, 2, T]; row (ch T + t) column c. */
static gboolean
audio_noise_channels_first (H3Generator *generator, const H3Geometry *geometry,
    gint channels, gfloat *rows, GError **error)
{
  gsize n_rows = geometry->audio_rows;
  gsize n = n_rows * channels;
  g_autofree gfloat *latent = try_noise (n, error);

  if (!latent)
    return FALSE;
  h3_generator_randn (generator, latent, n);
  for (gsize c = 0; c < (gsize) channels; c++)
    for (gsize row = 0; row < n_rows; row++)
      rows[row * channels + c] = latent[c * n_rows + row];
  return TRUE;
}

/* One visual condition's rows. @generator: the request's, which only the
 * diffusers convention draws conditions from. */
static gboolean
condition_noise (H3NoiseMode mode, guint64 seed, H3Generator *generator,
    const H3Condition *c, gint channels, gint target_t, guint n_visual,
    gfloat *rows, GError **error)
{
  H3Generator own;

  switch (mode) {
    case H3_NOISE_DIFFUSERS:
      return latent_noise (generator, channels, c->latent_t, c->latent_t,
          c->latent_h, c->latent_w, rows, error);
    case H3_NOISE_SGLANG:
      /* of the longest sequence there could be, the first frames */
      h3_generator_seed (&own, seed);
      return latent_noise (&own, channels,
          MAX (target_t + (gint) n_visual, c->latent_t), c->latent_t,
          c->latent_h, c->latent_w, rows, error);
    case H3_NOISE_COMFY:
      h3_generator_seed (&own, seed);
      h3_generator_randn (&own, rows,
          h3_condition_video_rows (c) * 4 * channels);
      return TRUE;
  }
  return FALSE;
}

static gboolean
conditions_noise (H3NoiseMode mode, guint64 seed, H3Generator *generator,
    const H3Geometry *geometry, const H3Condition *conditions,
    guint n_conditions, gint channels, gfloat *rows, GError **error)
{
  guint n_visual = 0;

  for (guint i = 0; i < n_conditions; i++)
    n_visual += conditions[i].latent_t > 0;
  for (guint i = 0; i < n_conditions; i++) {
    const H3Condition *c = &conditions[i];

    if (c->latent_t == 0)
      continue;
    if (!condition_noise (mode, seed, generator, c, channels,
            geometry->latent_t, n_visual, rows, error))
      return FALSE;
    rows += h3_condition_video_rows (c) * 4 * channels;
  }
  return TRUE;
}

gfloat
h3_condition_noise (H3NoiseMode mode)
{
  return mode == H3_NOISE_DIFFUSERS ? 1.0f - H3_CONDITION_LEVEL : 0.001f;
}

gboolean
h3_noise_draw (H3NoiseMode mode, guint64 seed, const H3Geometry *geometry,
    const H3Condition *conditions, guint n_conditions, gint video_channels,
    gint audio_channels, H3Noise *noise, GError **error)
{
  gsize n_audio = (gsize) geometry->audio_rows * audio_channels;
  H3Generator generator;

  h3_generator_seed (&generator, seed);
  if (!conditions_noise (mode, seed, &generator, geometry, conditions,
          n_conditions, video_channels, noise->conditions, error) ||
      !video_noise (&generator, geometry, video_channels, noise->video, error))
    return FALSE;

  switch (mode) {
    case H3_NOISE_DIFFUSERS:
      h3_generator_randn (&generator, noise->audio, n_audio);
      return TRUE;
    case H3_NOISE_SGLANG:
      h3_generator_seed (&generator, seed);
      h3_generator_randn (&generator, noise->audio, n_audio);
      return TRUE;
    case H3_NOISE_COMFY:
      return audio_noise_channels_first (&generator, geometry, audio_channels,
          noise->audio, error);
  }
  return FALSE;
}
