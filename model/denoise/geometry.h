/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lengths and sizes (packing.md 2). */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

#define H3_FPS 24
#define H3_AUDIO_RATE 32000
#define H3_AUDIO_HOP 800
#define H3_CANVAS_MULTIPLE 32
#define H3_LATENT_RATIO 16 /* pixels of a latent's side */

/* The smallest 17k + 5 that is at least @frames (at least 5). */
gint h3_align_frames (gint frames);
/* round (seconds * 24), ties to even; not aligned. */
gint h3_frames_of_duration (guint64 nanoseconds);
/* Latent frames of an aligned length, and back. */
gint h3_latent_frames (gint frames);
gint h3_frames_of_latent (gint latent_frames);
/* Audio latents of a length: round (5 F / 3). */
gint h3_audio_latents (gint frames);

/* FALSE with H3_ERROR_SETTINGS naming the nearest sizes unless both are
 * positive multiples of 32. */
gboolean h3_check_canvas (gint width, gint height, GError **error);
typedef struct {
  gint width, height, frames;        /* pixels, aligned frames */
  gint latent_t, latent_h, latent_w; /* T, lh, lw */
  gint patch_h, patch_w;             /* rows of a latent frame: ph * pw */
  gint audio_t;                      /* latents per channel */
  gint video_rows, audio_rows;       /* T * ph * pw, 2 * audio_t */
} H3Geometry;

/* @frames is aligned first. */
gboolean h3_geometry_init (H3Geometry *geometry, gint width, gint height,
    gint frames, GError **error);

G_END_DECLS
