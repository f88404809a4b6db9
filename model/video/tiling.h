/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tiles of an axis and windows of a clip (video-vae.md 8.1, 9.2). */
#pragma once

#include "model/ops.h"

G_BEGIN_DECLS

/* video-vae.md 1: what the temporal layout is made of. A clip of 17 frames has
 * 5 latents, a window the next clip's first 2 as well. Of a window's 28 raw
 * frames 3 .. 19 are new, and 23 .. 27 cross-fade into the next window's first
 * 5 new ones. */
#define H3_VIDEO_CLIP_LENGTH 17
#define H3_VIDEO_TOKEN_DROP 3
#define H3_VIDEO_RATIO_T 4
#define H3_VIDEO_WINDOW 7
#define H3_VIDEO_WINDOW_STEP 5
#define H3_VIDEO_WINDOW_FRAMES H3_VIDEO_CLIP_LENGTH
#define H3_VIDEO_FIRST_FRAME 3
#define H3_VIDEO_OVERLAP_FRAME                                                 \
  (H3_VIDEO_FIRST_FRAME + H3_VIDEO_WINDOW_STEP * H3_VIDEO_RATIO_T)
#define H3_VIDEO_OVERLAP 5
/* So that a frame's number is an int. */
#define H3_VIDEO_MAX_LATENTS (G_MAXINT / H3_VIDEO_RATIO_T)

/* @length: pixels, a multiple of @ratio. FALSE with H3_ERROR_SETTINGS when the
 * axis needs more than H3_MAX_TILES tiles or overlap > tile - ratio. */
gboolean h3_tile_axis_init (H3TileAxis *axis, gint length, gint tile,
    gint min_overlap, gint ratio, GError **error);

/* Decoder windows of T latents, and the frames they give in all. 0 for T < 1;
 * T is at most H3_VIDEO_MAX_LATENTS. */
gint h3_video_windows (gint latent_frames);
gint h3_video_frames (gint latent_frames);

/* The other way (9.1): how many of a clip's frames the encoder takes, from the
 * first, and the latents they make. 1 of 1 .. 4, 17 k + 5 of more; 0 for none. */
gint h3_video_encoded_frames (gint frames);
gint h3_video_encoded_latents (gint frames);

G_END_DECLS
