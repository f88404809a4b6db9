/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The packed audio and video transformer (denoiser.md 2, 3). */
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/denoise/packing.h"
#include "model/tap.h"

G_BEGIN_DECLS

/**
 * H3TransformerConfig:
 * @freq_dim, @time_hidden, @time_dim: of the time embedder, which a pruned
 *   transformer does not have: 0, but @time_dim where the file says what the
 *   curve was projected from
 * @curve_points, @curve_width: a pruned transformer's table of timesteps
 *   (denoiser.md 6); 0 otherwise
 */
typedef struct {
  gint hidden, layers, refiner_layers, heads, head_dim, ffn;
  gint video_channels, audio_channels, text_dim;
  gint freq_dim, time_hidden, time_dim, rope_freqs;
  gint curve_points, curve_width;
  guint64 encoded; /* h3_loader_encoded_elements() */
  gdouble rope_theta, norm_eps, qk_norm_eps, final_norm_eps;
  gint low_rank; /* the highest of adapters beside quantised weights; 0: none */
} H3TransformerConfig;

typedef struct _H3Transformer H3Transformer;

/* Checks every tensor, and the checkpoint's adapters. @device: (nullable): for which @weight_bytes are counted,
 * and which takes the encodings or is an error; NULL: as stored. @weight_bytes: of those that stay in the device's memory;
 * AdaLN's, 40 % of all where they are not pruned, are read when a schedule needs
 * them. */
gboolean h3_transformer_plan (const H3Checkpoint *checkpoint,
    const H3Device *device, H3TransformerConfig *config, guint64 *weight_bytes,
    GError **error);
/* Shared between sessions, of any thread; reference counted. Keeps the files
 * open. Its weights have the checkpoint's adapters in them, or beside them where
 * they are quantised (denoiser.md 8.1). What was computed of AdaLN is kept, which changes no result. */
H3Transformer *h3_transformer_load (const H3Checkpoint *checkpoint,
    H3Device *device, const H3Stop *stop, H3LoadProgress progress,
    gpointer user_data, GError **error);
H3Transformer *h3_transformer_ref (H3Transformer *transformer);
void h3_transformer_unref (H3Transformer *transformer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Transformer, h3_transformer_unref)
const H3TransformerConfig *h3_transformer_config (
    const H3Transformer *transformer);
/* (transfer container) (element-type H3Tensor): its weights, for parking. */
GPtrArray *h3_transformer_tensors (const H3Transformer *transformer);

/**
 * H3TransformerSession: one request's packed sequence: everything that does not
 * change between steps (refined text, rotary table, AdaLN tables of the whole
 * schedule, per-step row indices) and the workspace, allocated once.
 */
typedef struct _H3TransformerSession H3TransformerSession;

/* Bytes a session of @rows packed rows and @steps steps needs beside the
 * weights, with AdaLN's tables and what it takes to make them. */
guint64 h3_transformer_workspace (const H3TransformerConfig *config,
    const H3Device *device, gint rows, gint steps);

/**
 * h3_transformer_session_new:
 * @prompt_embeds: [N, text_dim], any float type
 * @t_v, @t_a: [steps] timesteps of the schedule
 * @video_conditions: [Vc, 4 * video_channels] float32, already noised, in packed
 *   order, or NULL; @audio_conditions likewise [Ac, audio_channels]
 * @progress: (nullable): called while AdaLN's weights are read, which takes
 *   seconds, for timesteps this transformer has not seen; bytes
 */
H3TransformerSession *h3_transformer_session_new (H3Transformer *transformer,
    H3Stream *stream, const H3Packing *packing, const H3Tensor *prompt_embeds,
    const gfloat *t_v, const gfloat *t_a, gint steps,
    const H3Tensor *video_conditions, const H3Tensor *audio_conditions,
    H3LoadProgress progress, gpointer user_data, const H3Stop *stop,
    const H3Tap *tap, GError **error);
void h3_transformer_session_free (H3TransformerSession *session);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3TransformerSession,
    h3_transformer_session_free)

/**
 * h3_transformer_forward:
 * @video, @audio: target rows [video_rows, 4 * video_channels] and
 *   [audio_rows, audio_channels], float32
 * @video_velocity, @audio_velocity: the same shapes, written
 *
 * Enqueues step @step; allocates nothing and does not wait, except that @stop is
 * asked between blocks. On the CPU it has run when this returns.
 */
gboolean h3_transformer_forward (H3TransformerSession *session, gint step,
    const H3Tensor *video, const H3Tensor *audio, H3Tensor *video_velocity,
    H3Tensor *audio_velocity, const H3Stop *stop, const H3Tap *tap,
    GError **error);

G_END_DECLS
