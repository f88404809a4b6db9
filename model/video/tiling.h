/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tiles of an axis and windows of a clip (video-vae.md 8.1, 9.2). */
#pragma once

#include "model/ops.h"

G_BEGIN_DECLS

/* @length: pixels, a multiple of @ratio. FALSE with H3_ERROR_SETTINGS when the
 * axis needs more than H3_MAX_TILES tiles or overlap > tile - ratio. */
gboolean h3_tile_axis_init (H3TileAxis *axis, gint length, gint tile,
    gint min_overlap, gint ratio, GError **error);

/* Decoder windows of T latents, and the frames they give in all. */
gint h3_video_windows (gint latent_frames);
gint h3_video_frames (gint latent_frames);

G_END_DECLS
