/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vision tower's geometry. Private to model/text. */
#pragma once

#include "model/checkpoint/config.h"
#include "model/text/vision-model.h"

G_BEGIN_DECLS

#define H3_VISION_PREFIX "model.visual."

/* Reads vision_config of config.json; absent keys have the released values.
 * Settings that the tower of text-encoder.md 5 does not know are
 * H3_ERROR_WRONG_TYPE. */
gboolean h3_vision_config_read (const H3Config *file, H3VisionConfig *config,
    GError **error);

/* As h3_text_config_check_shapes(). */
void h3_vision_config_check_shapes (H3Loader *loader, const H3Config *file,
    H3VisionConfig *config);

G_END_DECLS
