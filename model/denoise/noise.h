/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* torch's CPU normal generator, and who draws what (sampling.md 3). */
#pragma once

#include "model/denoise/geometry.h"

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
 * h3_noise_t2va:
 * @video_rows: [geometry->video_rows, 4 * video_channels]
 * @audio_rows: [geometry->audio_rows, audio_channels]
 *
 * FALSE with H3_ERROR_NO_SPACE when there is no memory to reorder the noise.
 */
gboolean h3_noise_t2va (H3NoiseMode mode, guint64 seed,
    const H3Geometry *geometry, gint video_channels, gint audio_channels,
    gfloat *video_rows, gfloat *audio_rows, GError **error);

G_END_DECLS
