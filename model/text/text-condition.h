/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keyframes and references as the text encoder sees them (text-encoder.md 3, 4).
 *
 * A picture or a clip comes at its native size and rate; sizes, resizing and the
 * 24 fps grid are model/picture/prepare.h's, so that the text encoder and the
 * autoencoder see the same canvas. Of a clip only every 12th frame at 24 fps is
 * kept, which is what the tower reads. A sound is a label alone. */
#pragma once

#include "model/denoise/condition.h"
#include "model/picture/prepare.h"
#include "model/picture/resize.h"
#include "model/text/vision-size.h"

G_BEGIN_DECLS

/**
 * H3TextCondition:
 * @kind: H3_CONDITION_VIDEO with @has_sound is a clip with its soundtrack
 * @frames: 24 fps frames of a clip, cut to the target's; 1 of a picture
 * @images: what the tower reads, on the canvas: one of a picture, ceil (frames /
 *   12) of a clip, none of a sound
 * @size: at which the tower reads them; of a clip once it is finished
 *
 * Read-only but for @has_sound, which may be found out later than the frames.
 * Used by one thread at a time while it is made.
 */
typedef struct {
  H3ConditionKind kind;
  gboolean has_sound;
  gint frames;
  gint canvas_width, canvas_height;
  guint n_images;
  H3Image *images;
  H3VisionSize size;
  /*< private >*/
  gint most_frames;
  gboolean finished;
} H3TextCondition;

/**
 * h3_text_condition_new_picture:
 * @kind: a keyframe or H3_CONDITION_IMAGE
 * @image: on its canvas (h3_image_fit()); its pixels are taken, also when this
 *   fails
 */
H3TextCondition *h3_text_condition_new_picture (H3ConditionKind kind,
    H3Image *image, GError **error);
H3TextCondition *h3_text_condition_new_audio (void);

/**
 * h3_text_condition_new_clip:
 * @canvas_width, @canvas_height: h3_canvas_of_aspect() of the clip's own size
 * @most_frames: frames of the target; what comes after them is not looked at
 *
 * Push all frames in order, then finish.
 */
H3TextCondition *h3_text_condition_new_clip (gint canvas_width,
    gint canvas_height, gint most_frames, gboolean has_sound, GError **error);
/**
 * h3_text_condition_push:
 * @until: the 24 fps slot at which the clip's next frame begins, or where it
 *   ends (h3_clip_slot_of_frame(), h3_clip_slot_of_time()): this frame fills the
 *   slots from the last one's @until, none when they are equal
 * @src: RGB, @height rows of @width pixels, @stride bytes apart
 */
gboolean h3_text_condition_push (H3TextCondition *clip, gint64 until,
    const guint8 *src, gsize stride, gint width, gint height, GError **error);
/* Enough frames have come: pushing more changes nothing. */
gboolean h3_text_condition_is_full (const H3TextCondition *clip);
/* FALSE with H3_ERROR_FORMAT for fewer than 13 frames at 24 fps, of which the
 * tower cannot read two. */
gboolean h3_text_condition_finish (H3TextCondition *clip, GError **error);

void h3_text_condition_free (H3TextCondition *condition);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3TextCondition, h3_text_condition_free)

/* Rows of the vision tower in all. */
gint64 h3_text_condition_tokens (const H3TextCondition *condition);

G_END_DECLS
