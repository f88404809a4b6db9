/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the vision tower reads, made on the host. Private to model/text. */
#pragma once

#include "model/text/vision-model.h"

G_BEGIN_DECLS

/* [images, height, width, 3] uint8: the condition's images at the tower's size. */
H3Tensor *h3_vision_make_pixels (const H3TextCondition *condition,
    H3Device *device, GError **error);

/* [patches, 4] int32 and float32: for every patch four rows of the position
 * table and how much of each (text-encoder.md 5.2). */
gboolean h3_vision_make_positions (const H3VisionConfig *config,
    const H3VisionSize *size, H3Device *device, H3Tensor **ids, H3Tensor **mix,
    GError **error);

/* [patches of a block, head_dim / 2] float32 (text-encoder.md 5.3). */
gboolean h3_vision_make_rope (const H3VisionConfig *config,
    const H3VisionSize *size, H3Device *device, H3Tensor **cosines,
    H3Tensor **sines, GError **error);

G_END_DECLS
