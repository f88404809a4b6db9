/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sizes at which the vision tower reads pictures and clips
 * (text-encoder.md 4.2): the processor's smart resize. */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

#define H3_VISION_PATCH 16   /* pixels of a patch's side */
#define H3_VISION_TEMPORAL 2 /* frames of a patch */
#define H3_VISION_MERGE 2    /* patches of a token's side */
/* Every so many frames at 24 fps the tower reads one: 2 fps. */
#define H3_VISION_SAMPLE 12

/* What h3_vision_picture_size() and h3_vision_clip_size() find. */
typedef struct {
  gint width, height;  /* pixels; multiples of 32 */
  gint blocks;         /* temporal: 1, or a clip's pairs of samples */
  gint grid_h, grid_w; /* patches of a block */
  gint tokens;         /* of a block: grid_h * grid_w / 4 */
} H3VisionSize;

/* Of a picture of @width x @height. H3_ERROR_FORMAT beyond an aspect of 200. */
gboolean h3_vision_picture_size (H3VisionSize *size, gint width, gint height,
    GError **error);
/* Of a clip's @samples frames of @width x @height; the budget of pixels is the
 * whole clip's. */
gboolean h3_vision_clip_size (H3VisionSize *size, gint samples, gint width,
    gint height, GError **error);

G_END_DECLS
