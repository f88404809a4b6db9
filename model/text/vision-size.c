/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/vision-size.h"

#include <math.h>

#include "model/picture/resize.h"

#define UNIT (H3_VISION_PATCH * H3_VISION_MERGE)
#define MAX_ASPECT 200

/* processor/preprocessor_config.json and video_preprocessor_config.json: their
 * "edges" are numbers of pixels. */
typedef struct {
  gdouble least, most;
} Budget;

static const Budget picture_budget = { 65536, 16777216 };
static const Budget clip_budget = { 4096, 25165824 };

static gint
grow (gdouble side)
{
  return (gint) ceil (side / UNIT) * UNIT;
}

static gint
shrink (gdouble side)
{
  return MAX (UNIT, (gint) floor (side / UNIT) * UNIT);
}

/* @counted: the frames the rounded size is counted with; @frames: those of the
 * size that is scaled. */
static gboolean
choose_size (H3VisionSize *size, const Budget *budget, gdouble counted,
    gdouble frames, gint width, gint height, GError **error)
{
  gdouble pixels, scale;

  if (width < 1 || height < 1 || width > H3_PICTURE_MAX_SIDE ||
      height > H3_PICTURE_MAX_SIDE ||
      MAX (width, height) > (gint64) MAX_ASPECT * MIN (width, height)) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a picture of %d x %d pixels: sides of 1 to %d and an aspect ratio of "
        "at "
        "most %d can be read",
        width, height, H3_PICTURE_MAX_SIDE, MAX_ASPECT);
    return FALSE;
  }
  size->width = (gint) rint ((gdouble) width / UNIT) * UNIT;
  size->height = (gint) rint ((gdouble) height / UNIT) * UNIT;
  pixels = counted * size->width * size->height;
  if (pixels > budget->most) {
    scale = sqrt (frames * width * height / budget->most);
    size->width = shrink (width / scale);
    size->height = shrink (height / scale);
  } else if (pixels < budget->least) {
    scale = sqrt (budget->least / (frames * width * height));
    size->width = grow (width * scale);
    size->height = grow (height * scale);
  }
  size->grid_w = size->width / H3_VISION_PATCH;
  size->grid_h = size->height / H3_VISION_PATCH;
  size->tokens =
      size->grid_w * size->grid_h / (H3_VISION_MERGE * H3_VISION_MERGE);
  return TRUE;
}

gboolean
h3_vision_picture_size (H3VisionSize *size, gint width, gint height,
    GError **error)
{
  size->blocks = 1;
  return choose_size (size, &picture_budget, 1, 1, width, height, error);
}

gboolean
h3_vision_clip_size (H3VisionSize *size, gint samples, gint width, gint height,
    GError **error)
{
  const gdouble counted =
      rint ((gdouble) samples / H3_VISION_TEMPORAL) * H3_VISION_TEMPORAL;

  /* a side below a token's first grows to one */
  if (width >= 1 && height >= 1 && MIN (width, height) < UNIT) {
    const gdouble scale = MAX ((gdouble) UNIT / height, (gdouble) UNIT / width);

    width = MIN (width * scale, G_MAXINT);
    height = MIN (height * scale, G_MAXINT);
  }
  size->blocks = (samples + H3_VISION_TEMPORAL - 1) / H3_VISION_TEMPORAL;
  return choose_size (size, &clip_budget, counted, samples, width, height,
      error);
}
