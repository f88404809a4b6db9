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

/**
 * h3_audio_vae_plan:
 * @config: (out): without the latents_mean and latents_std that a weight file
 *   itself may hold; those are in h3_audio_vae_config() once it is loaded
 * @weight_bytes: (out): device bytes of the decoder's weights
 *
 * Reads the configuration (audio-vae.md 8.3; a field that no file names takes
 * the release's rule, a width the tensors') and checks it against every
 * tensor's name, shape and type. H3_ERROR_WRONG_TYPE names the field or the
 * tensors. The encoder's tensors may be there and are not read.
 */
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

/* Device bytes. @chunk: core latents per chunk, at least 1 (256 is the default
 * of the element). */
guint64 h3_audio_decoder_workspace (const H3AudioVaeConfig *config,
    const H3Device *device, gint chunk);
/* Allocates the whole workspace. @stream stays the caller's and must outlive the
 * decoder. H3_ERROR_SETTINGS for a chunk out of range. */
H3AudioDecoder *h3_audio_decoder_new (H3AudioVae *vae, H3Stream *stream,
    gint chunk, GError **error);
void h3_audio_decoder_free (H3AudioDecoder *decoder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3AudioDecoder, h3_audio_decoder_free)

/**
 * h3_audio_decoder_start:
 * @latent: [2, C, T] float32, normalised (2.2); read before this returns
 *
 * Begins a clip, whether or not the one before was at its end. H3_ERROR_FORMAT
 * for another type or shape, H3_ERROR_NUMERIC for a NaN or an infinity, naming
 * where it is.
 */
gboolean h3_audio_decoder_start (H3AudioDecoder *decoder, H3Tensor *latent,
    GError **error);

/**
 * h3_audio_decoder_next:
 * @samples: (out) (transfer none): [n, 2] float32 interleaved, in [-1, 1], valid
 *   until the next call. The same bytes whatever the chunk.
 * @first: (out): the clip's number of the first sample; @n: 0 at the end
 *
 * A NaN or an infinity in the result is H3_ERROR_NUMERIC and names the sample.
 * @stop is asked before the chunk and before every block of the network
 * (H3_ERROR_CANCELLED). After an error the next call tries the same chunk again,
 * and h3_audio_decoder_start() begins a new clip.
 */
gboolean h3_audio_decoder_next (H3AudioDecoder *decoder, const H3Stop *stop,
    const H3Tap *tap, H3Tensor **samples, gint *first, gint *n, GError **error);

G_END_DECLS
