/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* torch's CPU normal generator, and who draws what (sampling.md 3). */
#pragma once

#include "model/denoise/condition.h"

G_BEGIN_DECLS

/* MT19937 with torch's normal transform. */
typedef struct {
  guint32 state[624];
  guint next;
  gboolean has_spare; /* of the scalar path, n < 16 */
  gdouble spare;
} H3Generator;

void h3_generator_seed (H3Generator *generator, guint64 seed);
guint32 h3_generator_u32 (H3Generator *generator);
/* What torch.randn (n, generator = …) returns; n of any size. */
void h3_generator_randn (H3Generator *generator, gfloat *out, gsize n);

typedef enum {
  H3_NOISE_DIFFUSERS,
  H3_NOISE_SGLANG,
  H3_NOISE_COMFY,
} H3NoiseMode;

/**
 * H3Noise: what a request draws, in rows as they are packed
 * @conditions: [rows of all visual conditions, 4 * video_channels]; NULL
 *   without conditions
 * @video: [geometry->video_rows, 4 * video_channels]
 * @audio: [geometry->audio_rows, audio_channels]
 */
typedef struct {
  gfloat *conditions, *video, *audio;
} H3Noise;

/**
 * h3_noise_draw:
 * @conditions: (array length=n_conditions): their shapes; sampling.md 3.1 says
 *   when each is drawn
 *
 * FALSE with H3_ERROR_NO_SPACE when there is no memory to reorder the noise.
 */
gboolean h3_noise_draw (H3NoiseMode mode, guint64 seed,
    const H3Geometry *geometry, const H3Condition *conditions,
    guint n_conditions, gint video_channels, gint audio_channels,
    H3Noise *noise, GError **error);

/* sampling.md 3.4: how much of the noise a visual condition gets, whose own
 * share is H3_CONDITION_LEVEL. */
#define H3_CONDITION_LEVEL 0.999f
gfloat h3_condition_noise (H3NoiseMode mode);

G_END_DECLS
