/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The audio autoencoder's decoder (audio-vae.md 4, 5, 10). */
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/tap.h"

G_BEGIN_DECLS

#define H3_AUDIO_MAX_CHANNELS 128
#define H3_AUDIO_MAX_STAGES 12

typedef struct {
  gint channels; /* latent */
  gint latent_dim, decoder_dim;
  gint n_stages, n_kernels, n_dilations;
  gint rates[H3_AUDIO_MAX_STAGES], kernels[H3_AUDIO_MAX_STAGES];
  gint resblock_kernels[H3_AUDIO_MAX_STAGES];
  gint dilations[H3_AUDIO_MAX_STAGES][H3_AUDIO_MAX_STAGES];
  gint hop;  /* product of rates: 800 */
  gint halo; /* latents each side that can reach a sample: 29 */
  gint rate; /* 32000 */
  gfloat latents_mean[H3_AUDIO_MAX_CHANNELS];
  gfloat latents_std[H3_AUDIO_MAX_CHANNELS];
} H3AudioVaeConfig;

typedef struct _H3AudioVae H3AudioVae;

gboolean h3_audio_vae_plan (const H3Checkpoint *checkpoint,
    H3AudioVaeConfig *config, guint64 *weight_bytes, GError **error);
/* The decoder's half only. Immutable, shared, reference counted. */
H3AudioVae *h3_audio_vae_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error);
H3AudioVae *h3_audio_vae_ref (H3AudioVae *vae);
void h3_audio_vae_unref (H3AudioVae *vae);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3AudioVae, h3_audio_vae_unref)
const H3AudioVaeConfig *h3_audio_vae_config (const H3AudioVae *vae);

/* Decodes clips chunk by chunk; the workspace depends on the chunk alone. */
typedef struct _H3AudioDecoder H3AudioDecoder;

/* @chunk: core latents per chunk, at least 1 (256 is the default of the element). */
guint64 h3_audio_decoder_workspace (const H3AudioVaeConfig *config,
    const H3Device *device, gint chunk);
H3AudioDecoder *h3_audio_decoder_new (H3AudioVae *vae, H3Stream *stream,
    gint chunk, GError **error);
void h3_audio_decoder_free (H3AudioDecoder *decoder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3AudioDecoder, h3_audio_decoder_free)

/* @latent: [2, C, T] float32, normalised; kept by reference. */
gboolean h3_audio_decoder_start (H3AudioDecoder *decoder, H3Tensor *latent,
    GError **error);

/**
 * h3_audio_decoder_next:
 * @samples: (out) (transfer none): [n, 2] float32 interleaved, in [-1, 1], valid
 *   until the next call. The same bytes whatever the chunk.
 * @first: (out): the clip's number of the first sample; @n: 0 at the end
 *
 * NaN in the result is H3_ERROR_NUMERIC.
 */
gboolean h3_audio_decoder_next (H3AudioDecoder *decoder, const H3Stop *stop,
    const H3Tap *tap, H3Tensor **samples, gint *first, gint *n, GError **error);

G_END_DECLS
