/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3fitting.h"

#include "gst/gsth3enums.h"
#include "model/denoise/condition.h"

#define DEFAULT_SIDE 0
#define DEFAULT_FRAMES 0
#define DEFAULT_CANVAS_EDGE 0
#define DEFAULT_REFERENCE_EDGE H3_REFERENCE_EDGE
#define DEFAULT_REFERENCE_RESIZE H3_REFERENCE_RESIZE_DIFFUSERS

#define MAX_SIDE 32768
#define MAX_EDGE 8192
#define MAX_FRAMES 100000
#define DEMO_EDGE 64

/* --- settings --- */

GType
gst_h3_reference_resize_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { H3_REFERENCE_RESIZE_DIFFUSERS,
        "The short side becomes \"reference-edge\", up or down: the release's",
        "diffusers" },
    { H3_REFERENCE_RESIZE_MAX, "A larger one comes down to \"reference-edge\"",
        "max" },
    { H3_REFERENCE_RESIZE_MATCH,
        "A larger one comes down to the clip's area, width times height: "
        "ComfyUI's, and what Ref2VA Turbo adapters want",
        "match" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3ReferenceResize", values);
}

void
gst_h3_fitting_install_properties (GObjectClass *klass, guint first)
{
  const GParamFlags flags =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_REFERENCE_RESIZE, 0);
  g_object_class_install_property (klass, first + GST_H3_FITTING_WIDTH,
      g_param_spec_int ("width", "Width",
          "Width of the clip in pixels, a multiple of 32; give height too. 0 = "
          "what suits the first keyframe.",
          0, MAX_SIDE, DEFAULT_SIDE, flags));
  g_object_class_install_property (klass, first + GST_H3_FITTING_HEIGHT,
      g_param_spec_int ("height", "Height",
          "Height of the clip in pixels, a multiple of 32; give width too. 0 = "
          "what suits the first keyframe.",
          0, MAX_SIDE, DEFAULT_SIDE, flags));
  g_object_class_install_property (klass, first + GST_H3_FITTING_FRAMES,
      g_param_spec_uint ("frames", "Frames",
          "Length of the clip to be made in frames at 24 a second, rounded up "
          "to 17 k + 5: a reference is cut to it. 0 = it is not cut, and may "
          "have 362 frames, 15.1 seconds, at most.",
          0, MAX_FRAMES, DEFAULT_FRAMES, flags));
  g_object_class_install_property (klass, first + GST_H3_FITTING_CANVAS_EDGE,
      g_param_spec_uint ("canvas-edge", "Canvas edge",
          "Short side, in pixels, of the size that a keyframe without width "
          "and height, or a reference clip, is brought to. 0 = 768, which H3 "
          "is trained on, or the demo checkpoint's 64.",
          0, MAX_EDGE, DEFAULT_CANVAS_EDGE, flags));
  g_object_class_install_property (klass, first + GST_H3_FITTING_REFERENCE_EDGE,
      g_param_spec_uint ("reference-edge", "Reference edge",
          "Short side, in pixels, of a reference picture; smaller is faster "
          "and takes less memory.",
          H3_CANVAS_MULTIPLE, MAX_EDGE, DEFAULT_REFERENCE_EDGE, flags));
  g_object_class_install_property (klass,
      first + GST_H3_FITTING_REFERENCE_RESIZE,
      g_param_spec_enum ("reference-resize", "Reference resize",
          "How the size of a reference picture is found.",
          GST_TYPE_H3_REFERENCE_RESIZE, DEFAULT_REFERENCE_RESIZE, flags));
}

void
gst_h3_fitting_init (GstH3Fitting *fitting)
{
  *fitting = (GstH3Fitting){
    .width = DEFAULT_SIDE,
    .height = DEFAULT_SIDE,
    .frames = DEFAULT_FRAMES,
    .canvas_edge = DEFAULT_CANVAS_EDGE,
    .reference_edge = DEFAULT_REFERENCE_EDGE,
    .reference_resize = DEFAULT_REFERENCE_RESIZE,
  };
}

gboolean
gst_h3_fitting_set (GstH3Fitting *f, guint id, const GValue *value)
{
  switch (id) {
    case GST_H3_FITTING_WIDTH:
      f->width = g_value_get_int (value);
      break;
    case GST_H3_FITTING_HEIGHT:
      f->height = g_value_get_int (value);
      break;
    case GST_H3_FITTING_FRAMES:
      f->frames = g_value_get_uint (value);
      break;
    case GST_H3_FITTING_CANVAS_EDGE:
      f->canvas_edge = g_value_get_uint (value);
      break;
    case GST_H3_FITTING_REFERENCE_EDGE:
      f->reference_edge = g_value_get_uint (value);
      break;
    case GST_H3_FITTING_REFERENCE_RESIZE:
      f->reference_resize = g_value_get_enum (value);
      break;
    default:
      return FALSE;
  }
  return TRUE;
}

gboolean
gst_h3_fitting_get (const GstH3Fitting *f, guint id, GValue *value)
{
  switch (id) {
    case GST_H3_FITTING_WIDTH:
      g_value_set_int (value, f->width);
      break;
    case GST_H3_FITTING_HEIGHT:
      g_value_set_int (value, f->height);
      break;
    case GST_H3_FITTING_FRAMES:
      g_value_set_uint (value, f->frames);
      break;
    case GST_H3_FITTING_CANVAS_EDGE:
      g_value_set_uint (value, f->canvas_edge);
      break;
    case GST_H3_FITTING_REFERENCE_EDGE:
      g_value_set_uint (value, f->reference_edge);
      break;
    case GST_H3_FITTING_REFERENCE_RESIZE:
      g_value_set_enum (value, f->reference_resize);
      break;
    default:
      return FALSE;
  }
  return TRUE;
}

/* --- canvases --- */

static gint
canvas_edge (const GstH3Fitting *f, gboolean demo)
{
  return f->canvas_edge > 0 ? (gint) f->canvas_edge
         : demo             ? DEMO_EDGE
                            : H3_CANVAS_EDGE;
}

gboolean
gst_h3_fitting_keyframe (const GstH3Fitting *f, gboolean demo, gint width,
    gint height, gint *canvas_width, gint *canvas_height, GError **error)
{
  if (f->width == 0 && f->height == 0)
    return gst_h3_fitting_clip (f, demo, width, height, canvas_width,
        canvas_height, error);
  *canvas_width = f->width;
  *canvas_height = f->height;
  return h3_check_canvas (f->width, f->height, error);
}

gboolean
gst_h3_fitting_clip (const GstH3Fitting *f, gboolean demo, gint width,
    gint height, gint *canvas_width, gint *canvas_height, GError **error)
{
  return h3_canvas_of_aspect (canvas_edge (f, demo), width, height,
      canvas_width, canvas_height, error);
}

gboolean
gst_h3_fitting_picture (const GstH3Fitting *f, gboolean demo, gint width,
    gint height, gint *canvas_width, gint *canvas_height, GError **error)
{
  gint clip_width = f->width, clip_height = f->height;

  if (f->reference_resize == H3_REFERENCE_RESIZE_MATCH &&
      (clip_width == 0 || clip_height == 0) &&
      !h3_canvas_of_aspect (canvas_edge (f, demo), 16, 9, &clip_width,
          &clip_height, error))
    return FALSE;
  return h3_reference_size (f->reference_resize, (gint) f->reference_edge,
      clip_width, clip_height, width, height, canvas_width, canvas_height,
      error);
}

gint
gst_h3_fitting_most_frames (const GstH3Fitting *f)
{
  return f->frames > 0 ? h3_align_frames ((gint) f->frames)
                       : H3_MAX_REFERENCE_FRAMES;
}

gboolean
gst_h3_fitting_check_length (const GstH3Fitting *f, gint64 frames,
    GError **error)
{
  if (f->frames > 0 || frames <= H3_MAX_REFERENCE_FRAMES)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "A reference clip has %" G_GINT64_FORMAT " frames or more at 24 a "
      "second, at most %d (%.1f s) can be used: set frames to those of the "
      "clip to be made, and it is cut to them",
      frames, H3_MAX_REFERENCE_FRAMES,
      H3_MAX_REFERENCE_FRAMES / (gdouble) H3_FPS);
  return FALSE;
}

/* --- frames --- */

void
gst_h3_frame_reader_reset (GstH3FrameReader *reader)
{
  gst_clear_buffer (&reader->held);
  reader->n = 0;
  reader->advances = FALSE;
}

static gboolean
changes (const GstVideoInfo *from, const GstVideoInfo *to)
{
  return to->width != from->width || to->height != from->height ||
         (gint64) to->fps_n * from->fps_d != (gint64) from->fps_n * to->fps_d;
}

gboolean
gst_h3_frame_reader_set_caps (GstH3FrameReader *reader, const GstCaps *caps,
    GError **error)
{
  GstVideoInfo info;

  if (gst_video_info_from_caps (&info, caps) &&
      GST_VIDEO_INFO_FORMAT (&info) == GST_VIDEO_FORMAT_RGB) {
    if (reader->held && changes (&reader->info, &info)) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "The frames change from %d x %d at %d/%d fps to %d x %d at %d/%d in "
          "the middle: a reference must keep its size and rate",
          reader->info.width, reader->info.height, reader->info.fps_n,
          reader->info.fps_d, info.width, info.height, info.fps_n, info.fps_d);
      return FALSE;
    }
    reader->info = info;
    reader->have_info = TRUE;
    return TRUE;
  }
  g_set_error_literal (error, H3_ERROR, H3_ERROR_FORMAT,
      "Frames must be video/x-raw, format=RGB: put videoconvert in front");
  return FALSE;
}

/* The time at which the frame held ends: the next one's, and the last lasts for
 * its duration, or without one as long as those before. NONE: unknown. */
static GstClockTime
end_time (const GstH3FrameReader *reader, GstBuffer *next)
{
  GstClockTime start = GST_BUFFER_PTS (reader->held);

  if (!GST_CLOCK_TIME_IS_VALID (reader->start))
    return GST_CLOCK_TIME_NONE;
  if (next)
    return GST_BUFFER_PTS (next);
  if (!GST_CLOCK_TIME_IS_VALID (start))
    return GST_CLOCK_TIME_NONE;
  if (GST_BUFFER_DURATION_IS_VALID (reader->held))
    return start + GST_BUFFER_DURATION (reader->held);
  return start + (start - reader->start) / MAX (reader->n - 1, 1);
}

/* Files of a varying rate give a mean one, and then only the timestamps tell; of
 * a steady rate they are rounded, and frames are better counted, as where they
 * stand still. */
static gboolean
is_steady (const GstH3FrameReader *reader, GstClockTime end)
{
  gint fps_n = GST_VIDEO_INFO_FPS_N (&reader->info);
  gint fps_d = GST_VIDEO_INFO_FPS_D (&reader->info);
  GstClockTime frame, counted;

  if (fps_n <= 0)
    return FALSE;
  if (!GST_CLOCK_TIME_IS_VALID (end) || end < reader->start ||
      !reader->advances)
    return TRUE;
  frame = gst_util_uint64_scale (GST_SECOND, fps_d, fps_n);
  counted = reader->start +
            gst_util_uint64_scale (reader->n, fps_d * GST_SECOND, fps_n);
  return (end > counted ? end - counted : counted - end) <= frame / 2;
}

/* The slot at which the frame held ends. */
static gint64
end_of_held (const GstH3FrameReader *reader, GstBuffer *next)
{
  GstClockTime end = end_time (reader, next);

  if (is_steady (reader, end))
    return h3_clip_slot_of_frame ((gint64) reader->n,
        GST_VIDEO_INFO_FPS_N (&reader->info),
        GST_VIDEO_INFO_FPS_D (&reader->info));
  return h3_clip_slot_of_time (end - reader->start);
}

static gboolean
check_time (GstH3FrameReader *reader, GstBuffer *buffer, GError **error)
{
  gboolean timed = GST_VIDEO_INFO_FPS_N (&reader->info) == 0;
  GstClockTime pts = GST_BUFFER_PTS (buffer);

  if (reader->n == 0)
    reader->start = GST_CLOCK_TIME_IS_VALID (pts) || !timed ? pts : 0;
  if (!timed || reader->n == 0 ||
      (GST_CLOCK_TIME_IS_VALID (pts) &&
          GST_BUFFER_PTS_IS_VALID (reader->held) &&
          pts > GST_BUFFER_PTS (reader->held)))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "Frame %" G_GUINT64_FORMAT " of a reference without a constant rate has "
      "no timestamp after the one before it",
      reader->n);
  return FALSE;
}

gboolean
gst_h3_frame_reader_next (GstH3FrameReader *reader, GstBuffer *buffer,
    GstVideoFrame *frame, gint64 *until, gboolean *have, GError **error)
{
  *have = FALSE;
  if (buffer && !reader->have_info) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_FORMAT,
        "Frames came without caps");
    return FALSE;
  }
  if (buffer && !check_time (reader, buffer, error))
    return FALSE;
  if (reader->held) {
    reader->advances |= buffer && GST_BUFFER_PTS_IS_VALID (buffer) &&
                        GST_BUFFER_PTS (buffer) > GST_BUFFER_PTS (reader->held);
    *until = end_of_held (reader, buffer);
    *have =
        gst_video_frame_map (frame, &reader->info, reader->held, GST_MAP_READ);
    gst_clear_buffer (&reader->held);
    if (!*have) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "Frame %" G_GUINT64_FORMAT " cannot be read as RGB of %d x %d",
          reader->n - 1, reader->info.width, reader->info.height);
      return FALSE;
    }
  }
  if (buffer) {
    reader->held = gst_buffer_ref (buffer);
    reader->n++;
  }
  return TRUE;
}
