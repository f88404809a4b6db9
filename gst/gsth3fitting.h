/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How keyframes and references come onto their canvas: the settings that
 * h3textenc and h3videovaeenc share, so that both see the same pixels
 * (packing.md 6). */
#pragma once

#include <gst/video/video.h>

#include "model/picture/prepare.h"

G_BEGIN_DECLS

/* Property numbers, relative to the first. */
enum {
  GST_H3_FITTING_WIDTH,
  GST_H3_FITTING_HEIGHT,
  GST_H3_FITTING_FRAMES,
  GST_H3_FITTING_CANVAS_EDGE,
  GST_H3_FITTING_REFERENCE_EDGE,
  GST_H3_FITTING_REFERENCE_RESIZE,
  GST_H3_N_FITTING_PROPS
};

#define GST_TYPE_H3_REFERENCE_RESIZE (gst_h3_reference_resize_get_type ())
GType gst_h3_reference_resize_get_type (void);

typedef struct {
  gint width, height; /* of the clip; 0: from the keyframe */
  guint frames;       /* of the clip; 0: references are not cut */
  guint canvas_edge;  /* 0: H3_CANVAS_EDGE, or the demo's */
  guint reference_edge;
  H3ReferenceResize reference_resize;
} GstH3Fitting;

void gst_h3_fitting_install_properties (GObjectClass *klass, guint first);
void gst_h3_fitting_init (GstH3Fitting *fitting);
/* @id is relative to the first; FALSE when it is none of these. The caller holds
 * what guards @fitting. */
gboolean gst_h3_fitting_set (GstH3Fitting *fitting, guint id,
    const GValue *value);
gboolean gst_h3_fitting_get (const GstH3Fitting *fitting, guint id,
    GValue *value);

/* The canvas of a first keyframe or of a reference clip of @width x @height, of a
 * reference picture. @demo: the checkpoint is the shipped toy. */
gboolean gst_h3_fitting_keyframe (const GstH3Fitting *fitting, gboolean demo,
    gint width, gint height, gint *canvas_width, gint *canvas_height,
    GError **error);
gboolean gst_h3_fitting_clip (const GstH3Fitting *fitting, gboolean demo,
    gint width, gint height, gint *canvas_width, gint *canvas_height,
    GError **error);
gboolean gst_h3_fitting_picture (const GstH3Fitting *fitting, gboolean demo,
    gint width, gint height, gint *canvas_width, gint *canvas_height,
    GError **error);
/* 24 fps frames of a reference that are used. */
gint gst_h3_fitting_most_frames (const GstH3Fitting *fitting);
/* A clip of @frames or more, at 24 fps: H3_ERROR_FORMAT when it is longer than a
 * reference may be (packing.md 6.2) and nothing says where to cut it. */
gboolean gst_h3_fitting_check_length (const GstH3Fitting *fitting,
    gint64 frames, GError **error);

/* What RGB frames a pad takes. */
#define GST_H3_RGB_CAPS GST_VIDEO_CAPS_MAKE ("RGB")

/**
 * GstH3FrameReader: frames of one stream and the 24 fps slots they fill
 *
 * A frame is given back when the next one, or the end, says how long it lasts.
 * With a constant rate in the caps frames are counted, as long as their
 * timestamps agree within half a frame or stand still; otherwise those decide.
 */
typedef struct {
  GstVideoInfo info;
  gboolean have_info;
  guint64 n; /* frames that came in */
  GstBuffer *held;
  GstClockTime start; /* of the first frame */
  gboolean advances;  /* a timestamp came after the one before it */
} GstH3FrameReader;

void gst_h3_frame_reader_reset (GstH3FrameReader *reader);
/* H3_ERROR_FORMAT for caps that are not RGB frames. */
gboolean gst_h3_frame_reader_set_caps (GstH3FrameReader *reader,
    const GstCaps *caps, GError **error);
/**
 * gst_h3_frame_reader_next:
 * @buffer: (nullable) (transfer none): NULL at the end
 * @frame: (out): the frame before, mapped; unmap it
 * @until: (out): the slot at which it ends
 * @have: (out): whether there is one
 */
gboolean gst_h3_frame_reader_next (GstH3FrameReader *reader, GstBuffer *buffer,
    GstVideoFrame *frame, gint64 *until, gboolean *have, GError **error);

G_END_DECLS
