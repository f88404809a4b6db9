/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The packed sequence: rows, tags and positions (packing.md 3 to 5, 7). */
#pragma once

#include "model/denoise/condition.h"

G_BEGIN_DECLS

typedef enum {
  H3_TAG_VIDEO = 0,
  H3_TAG_TEXT = 1,
  H3_TAG_AUDIO = 2,
} H3Tag;

/* What decides a row's timestep. */
typedef enum {
  H3_CLOCK_VIDEO,           /* t_video: text and target video */
  H3_CLOCK_AUDIO,           /* t_audio: target audio */
  H3_CLOCK_VIDEO_CONDITION, /* max (t_video, 0.999) */
  H3_CLOCK_AUDIO_CONDITION, /* 1 */
} H3Clock;

/**
 * H3Packing: [ text | conditions | target audio | target video ]
 *
 * Targets are always the last rows, audio first; conditions come between.
 */
typedef struct {
  gint rows;
  gint text_rows;
  gint condition_video_rows, condition_audio_rows;
  gint first_audio, first_video; /* of the targets */
  gint video_rows, audio_rows;   /* of the targets */
  guint8 *tag;                   /* H3Tag [rows] */
  guint8 *clock;                 /* H3Clock [rows] */
  gdouble *position;             /* [rows][3]: t, h, w */
} H3Packing;

/**
 * h3_packing_init:
 * @text_tags: int32 [n_text], 1 or 0 (vision); NULL = all 1
 * @conditions: (array length=n_conditions): in the order of the request; checked
 *   by h3_conditions_check() here
 */
gboolean h3_packing_init (H3Packing *packing, const H3Geometry *geometry,
    const gint32 *text_tags, gint n_text, const H3Condition *conditions,
    guint n_conditions, GError **error);
void h3_packing_clear (H3Packing *packing);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3Packing, h3_packing_clear)

/* Host patchify (packing.md 3): latent [C, T, h, w] -> rows [T h/2 w/2, 4 C]. */
void h3_patchify (gfloat *rows, const gfloat *latent, gint c, gint t, gint h,
    gint w);

G_END_DECLS
