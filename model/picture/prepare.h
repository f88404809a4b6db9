/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From a user's picture, clip or sound to what the text encoder and the
 * autoencoders both see (packing.md 2.2, 6; text-encoder.md 4.1). */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

/* Short edges, in pixels, that the model was trained on. */
#define H3_CANVAS_EDGE 768
#define H3_REFERENCE_EDGE 2048

/* The canvas of an aspect ratio n:d, 1:4 .. 4:1: @edge pixels on its short side,
 * at most @edge² * 7/4 in all, both sides multiples of 32 (packing.md 2.2). */
gboolean h3_canvas_of_aspect (gint edge, gint n, gint d, gint *width,
    gint *height, GError **error);

typedef enum {
  H3_REFERENCE_RESIZE_DIFFUSERS, /* the short edge to @edge, up or down */
  H3_REFERENCE_RESIZE_MAX,       /* down to it */
  H3_REFERENCE_RESIZE_MATCH,     /* down to the clip's area */
} H3ReferenceResize;

/**
 * h3_reference_size:
 * @edge: H3_REFERENCE_EDGE
 * @clip_width, @clip_height: of the clip to be made, for H3_REFERENCE_RESIZE_MATCH
 *
 * The size at which a reference picture of @width x @height is used (packing.md
 * 6.2); H3_ERROR_FORMAT beyond 1:4 .. 4:1 or when a side would pass
 * H3_PICTURE_MAX_SIDE.
 */
gboolean h3_reference_size (H3ReferenceResize resize, gint edge,
    gint clip_width, gint clip_height, gint width, gint height,
    gint *used_width, gint *used_height, GError **error);

/* A picture: RGB, 8 bits, rows without gaps. Clear it. */
typedef struct {
  gint width, height;
  guint8 *pixels;
} H3Image;

void h3_image_clear (H3Image *image);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3Image, h3_image_clear)

typedef enum {
  H3_FIT_STRETCH, /* a lone or first keyframe, references, clips */
  H3_FIT_COVER,   /* the second keyframe: fills the canvas, centre kept */
} H3Fit;

/**
 * H3Fitter: pictures of one size to one canvas, by Lanczos; at that size already,
 * the same bytes
 *
 * Used by one thread at a time.
 */
typedef struct _H3Fitter H3Fitter;

/* H3_ERROR_FORMAT for sides that are not of a picture, H3_ERROR_NO_SPACE. */
H3Fitter *h3_fitter_new (H3Fit fit, gint canvas_width, gint canvas_height,
    gint width, gint height, GError **error);
void h3_fitter_free (H3Fitter *fitter);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Fitter, h3_fitter_free)
/**
 * h3_fitter_run:
 * @src: RGB rows of @stride bytes
 * @stride: (inout): of @src, then of the result
 *
 * Returns: (transfer none): the canvas, valid until the next run and as long as
 *   @src
 */
const guint8 *h3_fitter_run (H3Fitter *fitter, const guint8 *src,
    gsize *stride);

/**
 * h3_image_fit:
 * @src: RGB rows of @stride bytes
 * @image: (out): what H3Fitter makes of it
 *
 * One picture: a fitter made, run and freed.
 */
gboolean h3_image_fit (H3Image *image, H3Fit fit, gint canvas_width,
    gint canvas_height, const guint8 *src, gsize stride, gint width,
    gint height, GError **error);

/* The 24 fps slot at which a clip's frame @i of @fps_n / @fps_d begins:
 * floor (24 i / fps + 1/2). A frame fills the slots up to the next one's. */
gint64 h3_clip_slot_of_frame (gint64 i, gint fps_n, gint fps_d);
/* The same of a time, for clips without a constant rate. */
gint64 h3_clip_slot_of_time (guint64 nanoseconds);

/* How many of @frames 24 fps frames an autoencoder takes: the largest 17k + 5,
 * 0 when there are fewer than 5. */
gint h3_clip_encoded_frames (gint frames);

G_END_DECLS
