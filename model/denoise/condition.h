/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a clip may be conditioned on beside its text: keyframes or references
 * (packing.md 4, 6). */
#pragma once

#include "model/denoise/geometry.h"
#include "model/tensor.h"

G_BEGIN_DECLS

#define H3_MAX_REFERENCES 12
#define H3_MAX_REFERENCE_IMAGES 9
#define H3_MAX_REFERENCE_VIDEOS 3
#define H3_MAX_REFERENCE_AUDIOS 3
/* The release's 15 s of clips and of sounds, rounded up to the longest clip it
 * makes (packing.md 2.1, 6.2). */
#define H3_MAX_REFERENCE_FRAMES 362
#define H3_MAX_REFERENCE_SOUND 604 /* latents */

typedef enum {
  H3_CONDITION_FIRST_FRAME,
  H3_CONDITION_LAST_FRAME,
  H3_CONDITION_IMAGE, /* references from here on */
  H3_CONDITION_VIDEO, /* with a soundtrack or without */
  H3_CONDITION_AUDIO,
} H3ConditionKind;

typedef enum {
  H3_TASK_T2VA,
  H3_TASK_FL2VA,
  H3_TASK_REF2VA,
} H3Task;

/**
 * H3Condition: one of them, as the autoencoders see it
 * @latent_t, @latent_h, @latent_w: of its pictures, 0 without
 * @audio_t: latents of its sound per channel, 0 without
 * @video: [C, latent_t, latent_h, latent_w] float32, normalised, or NULL where
 *   only the layout is asked for
 * @audio: [2, C, audio_t] float32, normalised, or NULL likewise
 */
typedef struct {
  H3ConditionKind kind;
  gint latent_t, latent_h, latent_w;
  gint audio_t;
  const H3Tensor *video, *audio;
} H3Condition;

/* "last frame", for messages. */
const gchar *h3_condition_name (H3ConditionKind kind);

/**
 * h3_condition_kinds_check:
 *
 * packing.md 6.1, 6.2, 10: a first frame, a last one or both in that order; or
 * references, at most 9 pictures, 3 clips, 3 sounds, 12 in all, not sounds alone;
 * not both. H3_ERROR_FORMAT, with counts.
 */
gboolean h3_condition_kinds_check (const H3ConditionKind *kinds, guint n,
    GError **error);

/**
 * h3_conditions_check:
 *
 * Their kinds, and shapes: keyframes have the target's canvas. Shapes that no
 * encoder makes are refused, and tensors that do not have the shape they say.
 * H3_ERROR_FORMAT, with counts.
 */
gboolean h3_conditions_check (const H3Condition *conditions, guint n,
    const H3Geometry *geometry, GError **error);

/**
 * h3_conditions_check_lengths:
 *
 * The release's limits on all reference clips and on all reference sounds, which
 * other implementations do not look at. H3_ERROR_FORMAT, with counts.
 */
gboolean h3_conditions_check_lengths (const H3Condition *conditions, guint n,
    GError **error);

/* Of conditions that were checked. */
H3Task h3_conditions_task (const H3Condition *conditions, guint n);

/* Packed rows: (T h w / 4) and (2 T). */
gint64 h3_condition_video_rows (const H3Condition *condition);
gint64 h3_condition_audio_rows (const H3Condition *condition);

G_END_DECLS
