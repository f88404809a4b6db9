/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/picture/prepare.h"

#include <math.h>
#include <string.h>

#include "model/denoise/geometry.h"
#include "model/picture/resize.h"

#define MAX_ASPECT 4
#define AREA_OF_EDGE 1.75 /* 768 x 1344 of 768 x 768 */

/* To the nearest multiple of 32, ties to even, at least 32. */
static gdouble
round_side (gdouble side)
{
  return MAX (H3_CANVAS_MULTIPLE,
      rint (side / H3_CANVAS_MULTIPLE) * H3_CANVAS_MULTIPLE);
}

static gboolean
aspect_is_good (gint n, gint d)
{
  return n >= 1 && d >= 1 && (gint64) n <= (gint64) MAX_ASPECT * d &&
         (gint64) d <= (gint64) MAX_ASPECT * n;
}

gboolean
h3_canvas_of_aspect (gint edge, gint n, gint d, gint *width, gint *height,
    GError **error)
{
  gdouble ratio, w, h, max_area = AREA_OF_EDGE * edge * edge;

  if (!aspect_is_good (n, d)) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "aspect ratio %d:%d is outside 1:%d to %d:1", n, d, MAX_ASPECT,
        MAX_ASPECT);
    return FALSE;
  }
  ratio = (gdouble) n / d;
  w = ratio >= 1 ? edge * ratio : edge;
  h = ratio >= 1 ? edge : edge / ratio;
  if (w * h > max_area) {
    gdouble scale = sqrt (max_area / (w * h));
    w *= scale;
    h *= scale;
  }
  *width = (gint) round_side (w);
  *height = (gint) round_side (h);
  return TRUE;
}

gboolean
h3_reference_size (H3ReferenceResize resize, gint edge, gint clip_width,
    gint clip_height, gint width, gint height, gint *used_width,
    gint *used_height, GError **error)
{
  gdouble scale, w, h;

  if (!aspect_is_good (width, height)) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a reference picture has %d x %d pixels: its aspect ratio must be "
        "within 1:%d and %d:1",
        width, height, MAX_ASPECT, MAX_ASPECT);
    return FALSE;
  }
  scale = (gdouble) edge / MIN (width, height);
  if (resize == H3_REFERENCE_RESIZE_MATCH)
    scale = sqrt (
        ((gdouble) clip_width * clip_height) / ((gdouble) width * height));
  if (resize != H3_REFERENCE_RESIZE_DIFFUSERS)
    scale = MIN (1, scale);

  w = round_side (width * scale);
  h = round_side (height * scale);
  if (MAX (w, h) > H3_PICTURE_MAX_SIDE) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a reference picture of %d x %d pixels would be used at %.0f x %.0f, "
        "more than %d",
        width, height, w, h, H3_PICTURE_MAX_SIDE);
    return FALSE;
  }
  *used_width = (gint) w;
  *used_height = (gint) h;
  return TRUE;
}

/* Pictures */

void
h3_image_clear (H3Image *image)
{
  g_clear_pointer (&image->pixels, g_free);
}

static gboolean
image_init (H3Image *image, gint width, gint height, GError **error)
{
  *image =
      (H3Image){ width, height, g_try_malloc_n ((gsize) width * height, 3) };
  if (image->pixels)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
      "no memory for a picture of %d x %d", width, height);
  return FALSE;
}

/* Fitting */

struct _H3Fitter {
  H3Resizer *resizer;
  guint8 *pixels; /* the resized picture; NULL: it is as the canvas */
  gsize stride;   /* of its rows */
  gsize offset;   /* of the canvas in it */
};

/* packing.md 6.1: scale = max (W / w, H / h); what is too much is cut off
 * equally on both sides. */
static gboolean
cover_size (gint canvas_width, gint canvas_height, gint width, gint height,
    gint *whole_width, gint *whole_height, GError **error)
{
  gdouble scale =
      MAX ((gdouble) canvas_width / width, (gdouble) canvas_height / height);
  gdouble w = MAX (canvas_width, rint (width * scale));
  gdouble h = MAX (canvas_height, rint (height * scale));

  if (MAX (w, h) > H3_PICTURE_MAX_SIDE) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a picture of %d x %d cannot fill %d x %d: it would have to be %.0f x "
        "%.0f, more than %d",
        width, height, canvas_width, canvas_height, w, h, H3_PICTURE_MAX_SIDE);
    return FALSE;
  }
  *whole_width = (gint) w;
  *whole_height = (gint) h;
  return TRUE;
}

H3Fitter *
h3_fitter_new (H3Fit fit, gint canvas_width, gint canvas_height, gint width,
    gint height, GError **error)
{
  const gboolean same = width == canvas_width && height == canvas_height;
  g_autoptr (H3Fitter) fitter = g_new0 (H3Fitter, 1);
  gint w = canvas_width, h = canvas_height;
  H3Image whole;

  if (fit == H3_FIT_COVER && !same &&
      !cover_size (canvas_width, canvas_height, width, height, &w, &h, error))
    return NULL;
  fitter->resizer =
      h3_resizer_new (H3_RESIZE_LANCZOS, width, height, w, h, error);
  if (!fitter->resizer)
    return NULL;
  if (same)
    return g_steal_pointer (&fitter);
  if (!image_init (&whole, w, h, error))
    return NULL;
  fitter->pixels = whole.pixels;
  fitter->stride = 3 * (gsize) w;
  fitter->offset = (gsize) ((h - canvas_height) / 2) * fitter->stride +
                   3 * (gsize) ((w - canvas_width) / 2);
  return g_steal_pointer (&fitter);
}

void
h3_fitter_free (H3Fitter *fitter)
{
  g_clear_pointer (&fitter->resizer, h3_resizer_free);
  g_free (fitter->pixels);
  g_free (fitter);
}

const guint8 *
h3_fitter_run (H3Fitter *fitter, const guint8 *src, gsize *stride)
{
  if (!fitter->pixels)
    return src;
  h3_resizer_run (fitter->resizer, fitter->pixels, fitter->stride, src,
      *stride);
  *stride = fitter->stride;
  return fitter->pixels + fitter->offset;
}

gboolean
h3_image_fit (H3Image *image, H3Fit fit, gint canvas_width, gint canvas_height,
    const guint8 *src, gsize stride, gint width, gint height, GError **error)
{
  g_autoptr (H3Fitter) fitter =
      h3_fitter_new (fit, canvas_width, canvas_height, width, height, error);
  const guint8 *canvas;
  gsize row = 3 * (gsize) canvas_width;

  if (!fitter || !image_init (image, canvas_width, canvas_height, error))
    return FALSE;
  canvas = h3_fitter_run (fitter, src, &stride);
  for (gint y = 0; y < canvas_height; y++)
    memcpy (image->pixels + y * row, canvas + y * stride, row);
  return TRUE;
}

/* Clips */

gint64
h3_clip_slot_of_frame (gint64 i, gint fps_n, gint fps_d)
{
  /* in double, as the reference: what it rounds decides a tie */
  return (gint64) floor (
      i * (gdouble) H3_FPS / ((gdouble) fps_n / fps_d) + 0.5);
}

gint64
h3_clip_slot_of_time (guint64 nanoseconds)
{
  const guint64 second = G_GUINT64_CONSTANT (1000000000);

  /* a time that was rounded down still counts as the slot it means */
  nanoseconds++;
  return nanoseconds / second * H3_FPS +
         (2 * H3_FPS * (nanoseconds % second) + second) / (2 * second);
}

gint
h3_clip_encoded_frames (gint frames)
{
  return frames < 5 ? 0 : (frames - 5) / 17 * 17 + 5;
}
