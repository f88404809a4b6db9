/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looking at and listening to a clip of the demo checkpoint: what does it show?
 * demo/README.md, "How the numbers are read off a clip", says how. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The words are those of the demo's language; "nothing" where a clip shows
 * none, "other" for a sound at none of the three pitches. */
typedef struct {
  const gchar *color;      /* "red" ... */
  const gchar *shape;      /* "circle", "square", "triangle" */
  const gchar *motion;     /* "right", "left", "up", "down", "still" */
  const gchar *background; /* "blue" ... */
  const gchar *tone;       /* "low", "mid", "high", "silence" */

  /* what the words come from */
  guint8 color_rgb[3], background_rgb[3];
  gdouble overlap[3]; /* with a circle, square, triangle; 0 to 1 */
  gdouble dx, dy;     /* pixels from the first to the last eighth */
  gdouble rms;
  gdouble frequency; /* Hz, of the spectrum's peak */
} H3Look;

/**
 * h3_look:
 * @rgb: @n_frames pictures of @width x @height, 3 bytes a pixel, no padding
 * @samples: @n_samples pairs of left and right, 32 kHz
 */
void h3_look (const guint8 *rgb, gint width, gint height, gint n_frames,
    const gfloat *samples, gint n_samples, H3Look *look);

/* "red circle right blue high". Free with g_free(). */
gchar *h3_look_words (const H3Look *look);

G_END_DECLS
