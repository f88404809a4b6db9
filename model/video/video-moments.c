/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From means and log-variances to latents (video-vae.md 10.2). On the host: what
 * a condition is has to be the same bytes whatever device encoded it, as far as
 * its moments are. */
#include <math.h>

#include "model/denoise/noise.h"
#include "model/video/video-private.h"

typedef struct {
  gint t;
  gfloat values[];
} Piece;

void
h3_video_moments_init (H3VideoMoments *moments, gint channels, gint64 plane)
{
  moments->channels = channels;
  moments->plane = plane;
  moments->pieces = g_ptr_array_new_with_free_func (g_free);
}

void
h3_video_moments_clear (H3VideoMoments *moments)
{
  g_clear_pointer (&moments->pieces, g_ptr_array_unref);
}

void
h3_video_moments_reset (H3VideoMoments *moments)
{
  g_ptr_array_set_size (moments->pieces, 0);
  moments->length = 0;
}

gfloat *
h3_video_moments_add (H3VideoMoments *moments, gint t, GError **error)
{
  gsize bytes =
      (gsize) 2 * moments->channels * t * moments->plane * sizeof (gfloat);
  Piece *piece = g_try_malloc (sizeof *piece + bytes);

  if (!piece) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "Video encoder: no memory for %" G_GSIZE_FORMAT
        " bytes of latents' mean and variance",
        bytes);
    return NULL;
  }
  piece->t = t;
  g_ptr_array_add (moments->pieces, piece);
  moments->length += t;
  return piece->values;
}

/* To the nearest float16, ties to even. */
static gfloat
round_f16 (gfloat x)
{
  gint exponent;
  gfloat step;

  if (x == 0 || !isfinite (x))
    return x;
  frexpf (x, &exponent);
  step = ldexpf (1, MAX (exponent, -13) - 11);
  x = rintf (x / step) * step;
  return fabsf (x) > 65504 ? copysignf (INFINITY, x) : x;
}

/* z = mean + sigma noise, rounded; @z: the noise */
static void
sample (gfloat *z, const gfloat *mean, const gfloat *logvar, gint64 n)
{
  for (gint64 i = 0; i < n; i++) {
    gfloat sigma = expf (0.5f * CLAMP (logvar[i], -30.0f, 20.0f));

    z[i] = round_f16 (mean[i] + sigma * z[i]);
  }
}

/* Channel @c of a piece into its place, and the normalisation of 4.2. */
static gboolean
put_channel (const H3VideoMoments *moments, const Piece *piece, gint c,
    const H3VideoVaeConfig *config, H3Posterior posterior, gfloat *z)
{
  gint64 n = piece->t * moments->plane;
  const gfloat *mean = piece->values + c * n;
  const gfloat *logvar = mean + moments->channels * n;
  gboolean finite = TRUE;

  if (posterior == H3_POSTERIOR_SAMPLE)
    sample (z, mean, logvar, n);
  for (gint64 i = 0; i < n; i++) {
    gfloat v = posterior == H3_POSTERIOR_SAMPLE ? z[i] : mean[i];

    z[i] = (v - config->latents_mean[c]) / config->latents_std[c];
    finite &= isfinite (z[i]) != 0;
  }
  return finite;
}

gfloat *
h3_video_posterior (const H3VideoMoments *moments,
    const H3VideoVaeConfig *config, H3Posterior posterior, guint64 seed,
    GError **error)
{
  gint64 channel = moments->length * moments->plane;
  gsize n = (gsize) moments->channels * channel;
  g_autofree gfloat *z = g_try_new (gfloat, n);
  H3Generator generator;

  if (!z) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "Video encoder: no memory for %" G_GSIZE_FORMAT " bytes of latents",
        n * sizeof (gfloat));
    return NULL;
  }
  if (posterior == H3_POSTERIOR_SAMPLE) {
    h3_generator_seed (&generator, seed);
    h3_generator_randn (&generator, z, n);
  }
  for (gint c = 0; c < moments->channels; c++) {
    gfloat *at = z + c * channel;

    for (guint p = 0; p < moments->pieces->len; p++) {
      const Piece *piece = g_ptr_array_index (moments->pieces, p);

      if (!put_channel (moments, piece, c, config, posterior, at)) {
        g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
            "Video encoder: channel %d of the latents has NaN or infinite "
            "values: the weights are damaged",
            c);
        return NULL;
      }
      at += piece->t * moments->plane;
    }
  }
  return g_steal_pointer (&z);
}
