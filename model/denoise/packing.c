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

/* A latent frame's size: what its rows' places on the axes depend on. */
typedef struct {
  gint h, w;
} Grid;

static gdouble
grid_h (const Grid *grid, gint i)
{
  return axis_value (grid->h, sqrt ((gdouble) grid->h * grid->w), i);
}

static gdouble
grid_w (const Grid *grid, gint j)
{
  return axis_value (grid->w, sqrt ((gdouble) grid->h * grid->w), j);
}

static gdouble
latent_span (gint t)
{
  return FRAME_TIME * frames_of_latent[t % G_N_ELEMENTS (frames_of_latent)];
}

/* packing.md 5.1: what @t latent frames last */
static gdouble
span (gint t)
{
  gdouble sum = 0;

  for (gint k = 0; k < t; k++)
    sum += latent_span (k);
  return sum;
}

/* Channel-major: all left latents at the first w of @grid, then all right ones
 * at the last. Returns the row after them. */
static gint
pack_audio (H3Packing *packing, gint row, gint audio_t, const Grid *grid,
    gdouble origin, H3Clock clock)
{
  for (gint channel = 0; channel < 2; channel++) {
    gdouble w = grid_w (grid, channel == 0 ? 0 : grid->w / 2 - 1);

    for (gint t = 0; t < audio_t; t++, row++) {
      packing->tag[row] = H3_TAG_AUDIO;
      packing->clock[row] = clock;
      set_position (packing, row, origin + t, 0, w);
    }
  }
  return row;
}

static gint
pack_video (H3Packing *packing, gint row, gint latent_t, const Grid *grid,
    gdouble origin, H3Clock clock)
{
  gdouble elapsed = 0; /* exclusive sum of the latents' spans */

  for (gint t = 0; t < latent_t; t++) {
    for (gint i = 0; i < grid->h / 2; i++) {
      gdouble h = grid_h (grid, i);

      for (gint j = 0; j < grid->w / 2; j++, row++) {
        packing->tag[row] = H3_TAG_VIDEO;
        packing->clock[row] = clock;
        set_position (packing, row, origin + elapsed, h, grid_w (grid, j));
      }
    }
    elapsed += latent_span (t);
  }
  return row;
}

/* packing.md 5.2, 5.3: rows of one condition, at @clock or, for a last frame,
 * at the time of the clip's last pixel frame. Advances both. */
static void
pack_condition (H3Packing *packing, const H3Condition *c,
    const H3Geometry *geometry, gint *row, gdouble *clock)
{
  const Grid own = { c->latent_h, c->latent_w };
  const Grid target = { geometry->latent_h, geometry->latent_w };

  switch (c->kind) {
    case H3_CONDITION_FIRST_FRAME:
      *row = pack_video (packing, *row, 1, &target, *clock,
          H3_CLOCK_VIDEO_CONDITION);
      return;
    case H3_CONDITION_LAST_FRAME:
      *row = pack_video (packing, *row, 1, &target,
          *clock + span (geometry->latent_t) - FRAME_TIME,
          H3_CLOCK_VIDEO_CONDITION);
      return;
    case H3_CONDITION_IMAGE:
      *row =
          pack_video (packing, *row, 1, &own, *clock, H3_CLOCK_VIDEO_CONDITION);
      *clock += 1;
      return;
    case H3_CONDITION_VIDEO:
      *row = pack_audio (packing, *row, c->audio_t, &own, *clock,
          H3_CLOCK_AUDIO_CONDITION);
      *row = pack_video (packing, *row, c->latent_t, &own, *clock,
          H3_CLOCK_VIDEO_CONDITION);
      *clock += MAX (c->audio_t, span (c->latent_t));
      return;
    case H3_CONDITION_AUDIO:
      *row = pack_audio (packing, *row, c->audio_t, &target, *clock,
          H3_CLOCK_AUDIO_CONDITION);
      *clock += c->audio_t;
      return;
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

/* How many rows of what kind, and where the targets begin. */
static gboolean
packing_measure (H3Packing *packing, const H3Geometry *geometry, gint n_text,
    const H3Condition *conditions, guint n_conditions, GError **error)
{
  gint64 video = 0, audio = 0, targets;

  if (n_text < 1) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_FORMAT,
        "the prompt has no tokens: at least one is needed");
    return FALSE;
  }
  for (guint i = 0; i < n_conditions; i++) {
    video += h3_condition_video_rows (&conditions[i]);
    audio += h3_condition_audio_rows (&conditions[i]);
  }
  targets = (gint64) geometry->audio_rows + geometry->video_rows;
  if (!packing_alloc (packing, n_text + video + audio + targets, error))
    return FALSE;
  packing->text_rows = n_text;
  packing->condition_video_rows = (gint) video;
  packing->condition_audio_rows = (gint) audio;
  packing->first_audio = n_text + (gint) (video + audio);
  packing->audio_rows = geometry->audio_rows;
  packing->first_video = packing->first_audio + geometry->audio_rows;
  packing->video_rows = geometry->video_rows;
  return TRUE;
}

gboolean
h3_packing_init (H3Packing *packing, const H3Geometry *geometry,
    const gint32 *text_tags, gint n_text, const H3Condition *conditions,
    guint n_conditions, GError **error)
{
  const Grid target = { geometry->latent_h, geometry->latent_w };
  gdouble clock = n_text;
  gint row = n_text;

  *packing = (H3Packing){ 0 };
  if (!h3_conditions_check (conditions, n_conditions, geometry, error))
    return FALSE;
  if (!packing_measure (packing, geometry, n_text, conditions, n_conditions,
          error) ||
      !pack_text (packing, text_tags, n_text, error)) {
    h3_packing_clear (packing);
    return FALSE;
  }
  for (guint i = 0; i < n_conditions; i++)
    pack_condition (packing, &conditions[i], geometry, &row, &clock);
  row = pack_audio (packing, row, geometry->audio_t, &target, clock,
      H3_CLOCK_AUDIO);
  pack_video (packing, row, geometry->latent_t, &target, clock, H3_CLOCK_VIDEO);
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
