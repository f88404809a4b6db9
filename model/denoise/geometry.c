/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/denoise/geometry.h"

/* Latents come in groups: 17 frames are 5 latents, and a clip has 5 frames
 * (2 latents) more. */
#define FRAME_GROUP 17
#define FRAME_EXTRA 5
#define LATENT_GROUP 5
#define LATENT_EXTRA 2

#define PATCH 2

/* More than any clip that fits a machine, and small enough that products of
 * sizes stay inside 64 bits. */
#define MAX_SIDE 65536
#define MAX_FRAMES (1 << 24)

gint
h3_align_frames (gint frames)
{
  if (frames > MAX_FRAMES)
    frames = MAX_FRAMES;
  if (frames < FRAME_EXTRA)
    return FRAME_EXTRA;
  return frames +
         (FRAME_EXTRA - frames % FRAME_GROUP + FRAME_GROUP) % FRAME_GROUP;
}

gint
h3_frames_of_duration (guint64 nanoseconds)
{
  const guint64 second = G_GUINT64_CONSTANT (1000000000);
  guint64 whole = nanoseconds / second;
  guint64 part = nanoseconds % second * H3_FPS;
  guint64 frames, rest;

  if (whole > MAX_FRAMES / H3_FPS)
    return MAX_FRAMES;
  frames = whole * H3_FPS + part / second;
  rest = part % second;
  if (2 * rest > second || (2 * rest == second && frames % 2 == 1))
    frames++;
  return (gint) frames;
}

gint
h3_latent_frames (gint frames)
{
  if (frames <= FRAME_EXTRA)
    return LATENT_EXTRA;
  return (frames - FRAME_EXTRA) / FRAME_GROUP * LATENT_GROUP + LATENT_EXTRA;
}

gint
h3_frames_of_latent (gint latent_frames)
{
  return (latent_frames - LATENT_EXTRA) / LATENT_GROUP * FRAME_GROUP +
         FRAME_EXTRA;
}

gint
h3_audio_latents (gint frames)
{
  /* F / 24 seconds at 40 latents a second; 5 F / 3 is never a half. */
  return (gint) ((G_GINT64_CONSTANT (10) * frames + 3) / 6);
}

/* "width 100 (nearest: 96 or 128)" */
static void
append_bad_side (GString *text, const gchar *name, gint side)
{
  gint below = side / H3_CANVAS_MULTIPLE * H3_CANVAS_MULTIPLE;

  if (text->len > 0)
    g_string_append (text, ", ");
  if (side < H3_CANVAS_MULTIPLE)
    g_string_append_printf (text, "%s %d (nearest: %d)", name, side,
        H3_CANVAS_MULTIPLE);
  else if (side > MAX_SIDE)
    g_string_append_printf (text, "%s %d (largest: %d)", name, side, MAX_SIDE);
  else
    g_string_append_printf (text, "%s %d (nearest: %d or %d)", name, side,
        below, below + H3_CANVAS_MULTIPLE);
}

static gboolean
side_is_good (gint side)
{
  return side > 0 && side <= MAX_SIDE && side % H3_CANVAS_MULTIPLE == 0;
}

gboolean
h3_check_canvas (gint width, gint height, GError **error)
{
  g_autoptr (GString) bad = NULL;

  if (side_is_good (width) && side_is_good (height))
    return TRUE;

  bad = g_string_new (NULL);
  if (!side_is_good (width))
    append_bad_side (bad, "width", width);
  if (!side_is_good (height))
    append_bad_side (bad, "height", height);
  g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
      "width and height must be positive multiples of %d, got %dx%d: %s",
      H3_CANVAS_MULTIPLE, width, height, bad->str);
  return FALSE;
}

gboolean
h3_geometry_init (H3Geometry *geometry, gint width, gint height, gint frames,
    GError **error)
{
  gint64 video_rows;

  if (!h3_check_canvas (width, height, error))
    return FALSE;
  if (frames < 1 || frames > MAX_FRAMES) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "frames must be 1 to %d, got %d", MAX_FRAMES, frames);
    return FALSE;
  }

  frames = h3_align_frames (frames);
  geometry->width = width;
  geometry->height = height;
  geometry->frames = frames;
  geometry->latent_t = h3_latent_frames (frames);
  geometry->latent_h = height / H3_LATENT_RATIO;
  geometry->latent_w = width / H3_LATENT_RATIO;
  geometry->patch_h = geometry->latent_h / PATCH;
  geometry->patch_w = geometry->latent_w / PATCH;
  geometry->audio_t = h3_audio_latents (frames);
  geometry->audio_rows = 2 * geometry->audio_t;

  video_rows =
      (gint64) geometry->latent_t * geometry->patch_h * geometry->patch_w;
  if (video_rows > G_MAXINT / 4) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "%dx%d with %d frames is %" G_GINT64_FORMAT
        " rows, more than this program can count (%d): use a smaller size or "
        "fewer frames",
        width, height, frames, video_rows, G_MAXINT / 4);
    return FALSE;
  }
  geometry->video_rows = (gint) video_rows;
  return TRUE;
}
