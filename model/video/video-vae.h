/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The video autoencoder's decoder (video-vae.md 6 to 9, 12). */
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/tap.h"
#include "model/video/tiling.h"

G_BEGIN_DECLS

#define H3_VIDEO_MAX_CHANNELS 128

typedef struct {
  gint channels; /* latent */
  gint layers, heads, head_dim, registers, ffn;
  gint ratio, ratio_t; /* 16, 4 */
  gint clip_length, token_drop;
  gint tile, min_overlap; /* pixels */
  gdouble rope_theta, rope_ratio, eps;
  gfloat latents_mean[H3_VIDEO_MAX_CHANNELS];
  gfloat latents_std[H3_VIDEO_MAX_CHANNELS];
  gfloat pixel_mean[3], pixel_std[3];
  guint64 encoded; /* h3_loader_encoded_elements() */
} H3VideoVaeConfig;

typedef struct _H3VideoVae H3VideoVae;

/* Checks names, shapes and types of the decoder's tensors against the
 * configuration; reads none. @device: (nullable): for which weights are counted,
 * and which takes the encodings or is an error; NULL: as stored. @config,
 * @weight_bytes: (out), may be NULL. */
gboolean h3_video_vae_plan (const H3Checkpoint *checkpoint,
    const H3Device *device, H3VideoVaeConfig *config, guint64 *weight_bytes,
    GError **error);
/* The decoder's half only. Immutable, shared, reference counted. */
H3VideoVae *h3_video_vae_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error);
H3VideoVae *h3_video_vae_ref (H3VideoVae *vae);
void h3_video_vae_unref (H3VideoVae *vae);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3VideoVae, h3_video_vae_unref)
const H3VideoVaeConfig *h3_video_vae_config (const H3VideoVae *vae);

/**
 * H3VideoDecoder: decodes latents of one size, window by window. The workspace
 * does not depend on the clip's length and is kept from clip to clip.
 */
typedef struct _H3VideoDecoder H3VideoDecoder;

/* The bytes h3_video_decoder_new() takes; 0 for a size it refuses. */
guint64 h3_video_decoder_workspace (const H3VideoVaeConfig *config,
    const H3Device *device, gint latent_h, gint latent_w);
/* @stream must outlive the decoder, which uses it from the caller's thread.
 * H3_ERROR_SETTINGS when a side needs more tiles than are possible. */
H3VideoDecoder *h3_video_decoder_new (H3VideoVae *vae, H3Stream *stream,
    gint latent_h, gint latent_w, H3Composition composition, GError **error);
void h3_video_decoder_free (H3VideoDecoder *decoder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3VideoDecoder, h3_video_decoder_free)

/* Begins a clip. @latent: [C, T, h, w] float32, normalised, on the stream's
 * device; kept by reference. T >= 1, else, and for any other shape or type,
 * H3_ERROR_FORMAT. Forgets a clip begun before. */
gboolean h3_video_decoder_start (H3VideoDecoder *decoder, H3Tensor *latent,
    GError **error);
/* Frames of the clip begun. */
gint h3_video_decoder_frames (const H3VideoDecoder *decoder);

/**
 * h3_video_decoder_next:
 * @pixels: (out) (transfer none): network pixels [3, n, H, W] float32, valid
 * until the next call; feed them to h3_emit_picture()
 * @first: (out): the clip's number of their first frame
 * @n: (out): how many are final now, 0 at the end of the clip
 *
 * Gives a window's 17 frames, or as many as the clip has; after the last window
 * one more call gives the up to 5 frames that no window follows. Small windows
 * are decoded in groups, as many as a large one would cost: the first call of a
 * group does the computing. @stop is asked between transformer blocks; after
 * H3_ERROR_CANCELLED the same window can be asked for again.
 */
gboolean h3_video_decoder_next (H3VideoDecoder *decoder, const H3Stop *stop,
    const H3Tap *tap, H3Tensor **pixels, gint *first, gint *n, GError **error);

G_END_DECLS
