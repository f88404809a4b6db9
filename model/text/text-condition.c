/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/text-condition.h"

/* Two samples are one block, the least the tower reads of a clip. */
#define LEAST_FRAMES (H3_VISION_SAMPLE + 1)

static gint
samples_of (gint frames)
{
  return (frames + H3_VISION_SAMPLE - 1) / H3_VISION_SAMPLE;
}

void
h3_text_condition_free (H3TextCondition *condition)
{
  for (guint i = 0; i < condition->n_images; i++)
    h3_image_clear (&condition->images[i]);
  g_free (condition->images);
  g_free (condition);
}

gint64
h3_text_condition_tokens (const H3TextCondition *condition)
{
  return (gint64) condition->size.blocks * condition->size.tokens;
}

H3TextCondition *
h3_text_condition_new_audio (void)
{
  H3TextCondition *condition = g_new0 (H3TextCondition, 1);

  condition->kind = H3_CONDITION_AUDIO;
  condition->has_sound = TRUE;
  condition->finished = TRUE;
  return condition;
}

H3TextCondition *
h3_text_condition_new_picture (H3ConditionKind kind, H3Image *image,
    GError **error)
{
  g_autoptr (H3TextCondition) condition = g_new0 (H3TextCondition, 1);

  condition->kind = kind;
  condition->frames = 1;
  condition->canvas_width = image->width;
  condition->canvas_height = image->height;
  condition->images = g_new (H3Image, 1);
  condition->images[condition->n_images++] = *image;
  image->pixels = NULL;
  condition->finished = TRUE;
  if (!h3_vision_picture_size (&condition->size, image->width, image->height,
          error))
    return NULL;
  return g_steal_pointer (&condition);
}

H3TextCondition *
h3_text_condition_new_clip (gint canvas_width, gint canvas_height,
    gint most_frames, gboolean has_sound, GError **error)
{
  H3TextCondition *clip;

  if (canvas_width < 1 || canvas_height < 1 ||
      canvas_width > H3_PICTURE_MAX_SIDE ||
      canvas_height > H3_PICTURE_MAX_SIDE || most_frames < 1) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a reference clip of at most %d frames on a canvas of %d x %d pixels: "
        "each must be at least 1, a side at most %d",
        most_frames, canvas_width, canvas_height, H3_PICTURE_MAX_SIDE);
    return NULL;
  }
  clip = g_new0 (H3TextCondition, 1);
  clip->kind = H3_CONDITION_VIDEO;
  clip->has_sound = has_sound;
  clip->canvas_width = canvas_width;
  clip->canvas_height = canvas_height;
  clip->most_frames = most_frames;
  return clip;
}

gboolean
h3_text_condition_is_full (const H3TextCondition *clip)
{
  return clip->frames == clip->most_frames;
}

gboolean
h3_text_condition_push (H3TextCondition *clip, gint64 until, const guint8 *src,
    gsize stride, gint width, gint height, GError **error)
{
  const gint end = CLAMP (until, clip->frames, clip->most_frames);
  const guint samples = samples_of (end);
  H3Image *room;

  clip->frames = end;
  if (samples == clip->n_images)
    return TRUE;
  room = g_try_renew (H3Image, clip->images, samples);
  if (!room) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for %u frames of a reference clip", samples);
    return FALSE;
  }
  clip->images = room;
  /* a frame that stands for more than half a second is read more than once */
  while (clip->n_images < samples) {
    if (!h3_image_fit (&clip->images[clip->n_images], H3_FIT_STRETCH,
            clip->canvas_width, clip->canvas_height, src, stride, width, height,
            error))
      return FALSE;
    clip->n_images++;
  }
  return TRUE;
}

gboolean
h3_text_condition_finish (H3TextCondition *clip, GError **error)
{
  if (clip->frames < LEAST_FRAMES) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a reference clip has %d frames at 24 fps, at least %d (%.2f s) are "
        "needed",
        clip->frames, LEAST_FRAMES, LEAST_FRAMES / 24.0);
    return FALSE;
  }
  if (!h3_vision_clip_size (&clip->size, clip->n_images, clip->canvas_width,
          clip->canvas_height, error))
    return FALSE;
  clip->finished = TRUE;
  return TRUE;
}
