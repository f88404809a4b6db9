/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The audio autoencoder's encoder: sound to latents (audio-vae.md 2, 6, 10.3). */
#pragma once

#include "model/audio/audio-vae.h"

G_BEGIN_DECLS

typedef struct {
  H3AudioVaeConfig vae; /* latents, hop, rate; its decoder's fields may be 0 */
  gint dim, heads;      /* 64, 8 */
  gint n_stages;
  gint rates[H3_AUDIO_MAX_STAGES]; /* 2, 4, 4, 5, 5 */
  gint halo; /* latents each side whose samples the convolutions reach: 12 */
} H3AudioEncoderConfig;

typedef struct _H3AudioEncoderModel H3AudioEncoderModel;

/* As h3_audio_vae_plan() and _load(), of the encoder's half alone. */
gboolean h3_audio_encoder_plan (const H3Checkpoint *checkpoint,
    H3AudioEncoderConfig *config, guint64 *weight_bytes, GError **error);
H3AudioEncoderModel *h3_audio_encoder_load (const H3Checkpoint *checkpoint,
    H3Device *device, const H3Stop *stop, H3LoadProgress progress,
    gpointer user_data, GError **error);
H3AudioEncoderModel *h3_audio_encoder_model_ref (H3AudioEncoderModel *model);
void h3_audio_encoder_model_unref (H3AudioEncoderModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3AudioEncoderModel,
    h3_audio_encoder_model_unref)
const H3AudioEncoderConfig *h3_audio_encoder_config (
    const H3AudioEncoderModel *model);

/**
 * H3AudioEncoder: the convolutions run chunk by chunk in a workspace that is
 * kept; the attention over all of a sound before each latent takes memory by its
 * length while it is encoded.
 */
typedef struct _H3AudioEncoder H3AudioEncoder;

/* Device bytes of an encoder, and of encoding a sound of @latents. @chunk: core
 * latents per chunk, from 1 (64 is a good one). */
guint64 h3_audio_encoder_workspace (const H3AudioEncoderConfig *config,
    const H3Device *device, gint chunk, gint latents);
/* @stream stays the caller's and must outlive the encoder. H3_ERROR_SETTINGS for
 * a chunk out of range. */
H3AudioEncoder *h3_audio_encoder_new (H3AudioEncoderModel *model,
    H3Stream *stream, gint chunk, GError **error);
void h3_audio_encoder_free (H3AudioEncoder *encoder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3AudioEncoder, h3_audio_encoder_free)

/* Latents of that many samples: as many as hold them all. */
gint h3_audio_encoded_latents (const H3AudioEncoderConfig *config,
    gsize samples);

/**
 * h3_audio_encoder_encode:
 * @samples: [2, @n]: all of left, then all of right, at config.vae.rate (32 000),
 *   as h3_audio_reference_sound() gives them
 * @latent: (out): [2, C, T] float32, the posterior's mean (2.3), normalised, on
 *   the stream's device; T is h3_audio_encoded_latents(). The same bytes
 *   whatever the chunk.
 *
 * H3_ERROR_FORMAT when there are no samples, or too many, H3_ERROR_NUMERIC for a
 * NaN or an infinity in them, naming where it is, or in the result. @stop is
 * asked between the network's blocks.
 */
gboolean h3_audio_encoder_encode (H3AudioEncoder *encoder,
    const gfloat *samples, gsize n, const H3Stop *stop, const H3Tap *tap,
    H3Tensor **latent, GError **error);

G_END_DECLS
