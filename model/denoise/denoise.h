/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A whole request: noise, loop, final latents (sampling.md 6, 8). */
#pragma once

#include "model/denoise/noise.h"
#include "model/denoise/solver.h"
#include "model/denoise/transformer.h"

G_BEGIN_DECLS

typedef struct {
  H3Geometry geometry;
  guint64 seed;
  H3NoiseMode noise_mode;
  const H3Schedule *schedule;
  H3Solver solver;
  gdouble shift_v, shift_a;
  const H3Condition *conditions; /* in the order of the request */
  guint n_conditions;
} H3DenoiseRequest;

/* After step @step (1 based) of @steps, from the computing thread, with the
 * device's work of that step done. */
typedef void (*H3StepFunc) (gint step, gint steps, gpointer user_data);

/**
 * h3_denoise:
 * @prompt_embeds: [N, text_dim]; @text_tags: int32 [N] or NULL
 * @request: conditions' tensors are on the stream's device
 * @step, @tables: (nullable): progress, both with @user_data. @tables: see
 *   h3_transformer_session_new()
 * @tap: "video_conditions" (rows as the transformer reads them),
 *   "step0.video_velocity", "step0.latents_out", … as in golden/README.md
 * @video_latent: (out): [C, T, h, w] float32, normalised
 * @audio_latent: (out): [2, C, T] float32, normalised
 *
 * NaN or Inf in the result is H3_ERROR_NUMERIC naming the first bad step.
 */
gboolean h3_denoise (H3Transformer *transformer, H3Stream *stream,
    const H3DenoiseRequest *request, const H3Tensor *prompt_embeds,
    const gint32 *text_tags, H3StepFunc step, H3LoadProgress tables,
    gpointer user_data, const H3Stop *stop, const H3Tap *tap,
    H3Tensor **video_latent, H3Tensor **audio_latent, GError **error);

G_END_DECLS
