/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/denoise/packing.h"

#include <math.h>

/* Positions use one unit per audio latent (1/40 s); a video frame is 5/3 of
 * that, and 32 is what a square canvas spans (packing.md 1). */
#define FRAME_TIME (5.0 / 3.0)
#define SPATIAL_SCALE 32.0

static const gint frames_of_latent[] = { 1, 4, 4, 4, 4 };

/* packing.md 5.1: n = dim / 2 centres of an axis of @dim latents on a canvas
 * whose geometric mean side is @mean, right end excluded. In numpy's linspace
 * form, start + i * ((stop - start) / n), so that every bit agrees. */
static gdouble
axis_value (gint dim, gdouble mean, gint i)
{
  gdouble ratio = dim / mean;
  gdouble left = (1.0 - ratio) / 2.0;
  gdouble right = left + ratio;
  gdouble step = (right - left) / (dim / 2);

  return (left + i * step) * SPATIAL_SCALE;
}

static void
set_position (H3Packing *packing, gint row, gdouble t, gdouble h, gdouble w)
{
  packing->position[3 * row + 0] = t;
  packing->position[3 * row + 1] = h;
  packing->position[3 * row + 2] = w;
}

static gboolean
pack_text (H3Packing *packing, const gint32 *tags, gint n, GError **error)
{
  for (gint i = 0; i < n; i++) {
    gint32 tag = tags ? tags[i] : H3_TAG_TEXT;

    if (tag != H3_TAG_TEXT && tag != H3_TAG_VIDEO) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "text tag %d of row %d is neither %d (text) nor %d (vision)", tag, i,
          H3_TAG_TEXT, H3_TAG_VIDEO);
      return FALSE;
    }
    packing->tag[i] = (guint8) tag;
    packing->clock[i] = H3_CLOCK_VIDEO;
    set_position (packing, i, i, 0, 0);
  }
  return TRUE;
}

/* Channel-major: all left latents at the first w of the canvas, then all right
 * ones at the last. */
static void
pack_target_audio (H3Packing *packing, const H3Geometry *geometry,
    gdouble origin)
{
  gdouble mean = sqrt ((gdouble) geometry->latent_h * geometry->latent_w);
  gint row = packing->first_audio;

  for (gint channel = 0; channel < 2; channel++) {
    gdouble w = axis_value (geometry->latent_w, mean,
        channel == 0 ? 0 : geometry->patch_w - 1);

    for (gint t = 0; t < geometry->audio_t; t++, row++) {
      packing->tag[row] = H3_TAG_AUDIO;
      packing->clock[row] = H3_CLOCK_AUDIO;
      set_position (packing, row, origin + t, 0, w);
    }
  }
}

static void
pack_target_video (H3Packing *packing, const H3Geometry *geometry,
    gdouble origin)
{
  gdouble mean = sqrt ((gdouble) geometry->latent_h * geometry->latent_w);
  gint row = packing->first_video;
  gdouble elapsed = 0; /* exclusive sum of the latents' spans */

  for (gint t = 0; t < geometry->latent_t; t++) {
    for (gint i = 0; i < geometry->patch_h; i++) {
      gdouble h = axis_value (geometry->latent_h, mean, i);

      for (gint j = 0; j < geometry->patch_w; j++, row++) {
        packing->tag[row] = H3_TAG_VIDEO;
        packing->clock[row] = H3_CLOCK_VIDEO;
        set_position (packing, row, origin + elapsed, h,
            axis_value (geometry->latent_w, mean, j));
      }
    }
    elapsed +=
        FRAME_TIME * frames_of_latent[t % G_N_ELEMENTS (frames_of_latent)];
  }
}

static gboolean
packing_alloc (H3Packing *packing, gint64 rows, GError **error)
{
  if (rows > G_MAXINT) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "%" G_GINT64_FORMAT " packed rows are more than this program can "
        "count (%d)",
        rows, G_MAXINT);
    return FALSE;
  }
  packing->rows = (gint) rows;
  packing->tag = g_try_new (guint8, rows);
  packing->clock = g_try_new (guint8, rows);
  packing->position = g_try_new (gdouble, 3 * rows);
  if (!packing->tag || !packing->clock || !packing->position) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for the positions of %d packed rows", packing->rows);
    return FALSE;
  }
  return TRUE;
}

gboolean
h3_packing_t2va (H3Packing *packing, const H3Geometry *geometry,
    const gint32 *text_tags, gint n_text, GError **error)
{
  *packing = (H3Packing){ 0 };
  if (n_text < 1) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_FORMAT,
        "the prompt has no tokens: at least one is needed");
    return FALSE;
  }
  if (!packing_alloc (packing,
          (gint64) n_text + geometry->audio_rows + geometry->video_rows,
          error)) {
    h3_packing_clear (packing);
    return FALSE;
  }
  packing->text_rows = n_text;
  packing->first_audio = n_text;
  packing->audio_rows = geometry->audio_rows;
  packing->first_video = n_text + geometry->audio_rows;
  packing->video_rows = geometry->video_rows;

  if (!pack_text (packing, text_tags, n_text, error)) {
    h3_packing_clear (packing);
    return FALSE;
  }
  pack_target_audio (packing, geometry, n_text);
  pack_target_video (packing, geometry, n_text);
  return TRUE;
}

void
h3_packing_clear (H3Packing *packing)
{
  g_clear_pointer (&packing->tag, g_free);
  g_clear_pointer (&packing->clock, g_free);
  g_clear_pointer (&packing->position, g_free);
}

void
h3_patchify (gfloat *rows, const gfloat *latent, gint c, gint t, gint h, gint w)
{
  gint ph = h / 2, pw = w / 2;
  gsize cols = 4 * (gsize) c;

  for (gint channel = 0; channel < c; channel++)
    for (gint frame = 0; frame < t; frame++)
      for (gint y = 0; y < h; y++)
        for (gint x = 0; x < w; x++) {
          gsize row = ((gsize) frame * ph + y / 2) * pw + x / 2;
          gsize col = 4 * (gsize) channel + 2 * (y % 2) + x % 2;

          rows[row * cols + col] = *latent++;
        }
}
