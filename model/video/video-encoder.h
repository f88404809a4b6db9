/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The video autoencoder's encoder: pictures and clips to latents (video-vae.md
 * 4, 5, 8 to 10; sampling.md 2). */
#pragma once

#include "model/video/video-vae.h"

G_BEGIN_DECLS

#define H3_VIDEO_MAX_LEVELS 16

typedef struct {
  H3VideoVaeConfig
      vae; /* latents, tiles, pixels; its decoder's fields may be 0 */
  gint levels, blocks; /* residual blocks of a level */
  gint first;          /* channels of the first convolution: 128 */
  gint channels[H3_VIDEO_MAX_LEVELS];
  gint space[H3_VIDEO_MAX_LEVELS], time[H3_VIDEO_MAX_LEVELS]; /* 1 or 2 */
  gint groups;
  gdouble eps;
} H3VideoEncoderConfig;

typedef struct _H3VideoEncoderModel H3VideoEncoderModel;

/* Checks names, shapes and types of the encoder's tensors against the
 * configuration; reads none. @device: (nullable): for which weights are counted.
 * @config, @weight_bytes: (out), may be NULL. */
gboolean h3_video_encoder_plan (const H3Checkpoint *checkpoint,
    const H3Device *device, H3VideoEncoderConfig *config, guint64 *weight_bytes,
    GError **error);
/* The encoder's half only. Immutable, shared, reference counted. */
H3VideoEncoderModel *h3_video_encoder_load (const H3Checkpoint *checkpoint,
    H3Device *device, const H3Stop *stop, H3LoadProgress progress,
    gpointer user_data, GError **error);
H3VideoEncoderModel *h3_video_encoder_model_ref (H3VideoEncoderModel *model);
void h3_video_encoder_model_unref (H3VideoEncoderModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3VideoEncoderModel,
    h3_video_encoder_model_unref)
const H3VideoEncoderConfig *h3_video_encoder_config (
    const H3VideoEncoderModel *model);

/**
 * H3VideoEncoder: encodes pictures and clips of one size. The workspace does not
 * depend on a clip's length and is kept from one to the next; what grows with it
 * is the mean and log-variance on the host, twice the latent.
 */
typedef struct _H3VideoEncoder H3VideoEncoder;

/* The device bytes h3_video_encoder_new() takes; 0 for a size it refuses.
 * @clips: FALSE when only stills will be encoded, which takes much less. */
guint64 h3_video_encoder_workspace (const H3VideoEncoderConfig *config,
    const H3Device *device, gint height, gint width, gboolean clips);
/**
 * h3_video_encoder_new:
 * @stream: stays the caller's, must outlive the encoder, which uses it from the
 *   caller's thread
 * @height, @width: pixels, multiples of config.vae.ratio (16) and at least twice
 *   it. A caller with other pictures crops them, from the top left.
 *
 * H3_ERROR_SETTINGS for another size, or when a side needs more tiles than are
 * possible.
 */
H3VideoEncoder *h3_video_encoder_new (H3VideoEncoderModel *model,
    H3Stream *stream, gint height, gint width, gboolean clips, GError **error);
void h3_video_encoder_free (H3VideoEncoder *encoder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3VideoEncoder, h3_video_encoder_free)

/* Begins a still or a clip; forgets one begun before. */
void h3_video_encoder_start (H3VideoEncoder *encoder);

/**
 * h3_video_encoder_push:
 * @rgb: rows of @width RGB pixels, @stride bytes apart (at least 3 @width), host
 *   memory; copied
 *
 * The next frame, 24 a second. Every 17th call or so computes: once 22 frames
 * wait, the first 17 are encoded. H3_ERROR_FORMAT for a second frame when the
 * encoder is for stills, or a short stride. @stop is asked between the network's
 * layers. After an error the clip is forgotten.
 */
gboolean h3_video_encoder_push (H3VideoEncoder *encoder, const guint8 *rgb,
    gint stride, const H3Stop *stop, const H3Tap *tap, GError **error);

typedef enum {
  H3_POSTERIOR_SAMPLE, /* mean + sigma * noise, rounded to float16: the release's */
  H3_POSTERIOR_MEAN, /* as it is: ComfyUI's */
} H3Posterior;

/* What the reference seeds every condition's noise with. */
#define H3_POSTERIOR_SEED 42

/**
 * h3_video_encoder_finish:
 * @latent: (out): [C, T, H / 16, W / 16] float32, normalised, on the stream's
 *   device; T is h3_video_encoded_latents() of the frames pushed
 *
 * Encodes what waits and ends the clip. Of 2 .. 4 frames the first is taken as a
 * still, of more 17 k + 5, as h3_video_encoded_frames() says; the rest, from the
 * end, is left out. H3_ERROR_FORMAT when there is no frame, H3_ERROR_NUMERIC
 * when a latent is NaN or infinite.
 */
gboolean h3_video_encoder_finish (H3VideoEncoder *encoder,
    H3Posterior posterior, guint64 seed, const H3Stop *stop, const H3Tap *tap,
    H3Tensor **latent, GError **error);

G_END_DECLS
