/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3conditionpad.h"

struct _GstH3ConditionPad {
  GstAggregatorPad parent;

  GstH3ConditionMedia media;
  guint index;

  GstH3FrameReader reader; /* holds the last frame, or the picture */
  H3TextCondition *clip;
  gboolean sound; /* caps came: there is one */
};

G_DEFINE_FINAL_TYPE (GstH3ConditionPad, gst_h3_condition_pad,
    GST_TYPE_AGGREGATOR_PAD)

static void
forget (GstH3ConditionPad *self)
{
  gst_h3_frame_reader_reset (&self->reader);
  g_clear_pointer (&self->clip, h3_text_condition_free);
  self->sound = FALSE;
}

static GstFlowReturn
gst_h3_condition_pad_flush (GstAggregatorPad *pad, GstAggregator *aggregator)
{
  forget (GST_H3_CONDITION_PAD (pad));
  return GST_FLOW_OK;
}

static void
gst_h3_condition_pad_finalize (GObject *object)
{
  forget (GST_H3_CONDITION_PAD (object));
  G_OBJECT_CLASS (gst_h3_condition_pad_parent_class)->finalize (object);
}

static void
gst_h3_condition_pad_class_init (GstH3ConditionPadClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = gst_h3_condition_pad_finalize;
  GST_AGGREGATOR_PAD_CLASS (klass)->flush = gst_h3_condition_pad_flush;
}

static void
gst_h3_condition_pad_init (GstH3ConditionPad *self)
{
}

GstH3ConditionPad *
gst_h3_condition_pad_new (GstPadTemplate *template, const gchar *name,
    GstH3ConditionMedia media, guint index)
{
  GstH3ConditionPad *self = g_object_new (GST_TYPE_H3_CONDITION_PAD, "name",
      name, "direction", GST_PAD_SINK, "template", template, NULL);

  self->media = media;
  self->index = index;
  return self;
}

GstH3ConditionMedia
gst_h3_condition_pad_media (GstH3ConditionPad *self)
{
  return self->media;
}

guint
gst_h3_condition_pad_index (GstH3ConditionPad *self)
{
  return self->index;
}

/* --- what comes in --- */

static gboolean
push_frame (GstH3ConditionPad *self, const GstVideoFrame *frame, gint64 until,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  gint width = GST_VIDEO_FRAME_WIDTH (frame);
  gint height = GST_VIDEO_FRAME_HEIGHT (frame);
  gint canvas_width, canvas_height;

  if (!self->clip) {
    if (!gst_h3_fitting_clip (fitting, demo, width, height, &canvas_width,
            &canvas_height, error))
      return FALSE;
    self->clip = h3_text_condition_new_clip (canvas_width, canvas_height,
        gst_h3_fitting_most_frames (fitting), FALSE, error);
    if (!self->clip)
      return FALSE;
  }
  return h3_text_condition_push (self->clip, until,
      GST_VIDEO_FRAME_PLANE_DATA (frame, 0),
      GST_VIDEO_FRAME_PLANE_STRIDE (frame, 0), width, height, error);
}

/* @buffer NULL: the end, after which a clip's last frame goes, too. */
static gboolean
take_frame (GstH3ConditionPad *self, GstBuffer *buffer,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  GstVideoFrame frame;
  gint64 until;
  gboolean have, good;

  if (!gst_h3_frame_reader_next (&self->reader, buffer, &frame, &until, &have,
          error))
    return FALSE;
  if (!have)
    return TRUE;
  good = push_frame (self, &frame, until, fitting, demo, error);
  gst_video_frame_unmap (&frame);
  return good;
}

static gboolean
set_caps (GstH3ConditionPad *self, GError **error)
{
  g_autoptr (GstCaps) caps = gst_pad_get_current_caps (GST_PAD_CAST (self));

  return !caps || gst_h3_frame_reader_set_caps (&self->reader, caps, error);
}

static gboolean
take_buffer (GstH3ConditionPad *self, GstBuffer *buffer,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  if (self->media == GST_H3_CONDITION_AUDIO)
    return TRUE;
  if (self->media == GST_H3_CONDITION_IMAGE && self->reader.n > 0)
    return TRUE;
  return set_caps (self, error) &&
         take_frame (self, buffer, fitting, demo, error);
}

gboolean
gst_h3_condition_pad_take (GstH3ConditionPad *self, const GstH3Fitting *fitting,
    gboolean demo, gboolean *settled, GError **error)
{
  GstAggregatorPad *pad = GST_AGGREGATOR_PAD (self);
  GstBuffer *buffer;
  gboolean good = TRUE;

  while (good && (buffer = gst_aggregator_pad_pop_buffer (pad))) {
    good = take_buffer (self, buffer, fitting, demo, error);
    gst_buffer_unref (buffer);
  }
  if (self->media == GST_H3_CONDITION_AUDIO)
    self->sound |= gst_pad_has_current_caps (GST_PAD_CAST (self));
  *settled = gst_aggregator_pad_is_eos (pad) ||
             (self->media == GST_H3_CONDITION_IMAGE && self->reader.n > 0) ||
             (self->media == GST_H3_CONDITION_AUDIO && self->sound);
  if (good && *settled && self->reader.n > 1)
    good = take_frame (self, NULL, fitting, demo, error);
  return good;
}

/* --- what came --- */

gboolean
gst_h3_condition_pad_is_there (GstH3ConditionPad *self)
{
  return self->media == GST_H3_CONDITION_AUDIO ? self->sound
                                               : self->reader.n > 0;
}

gboolean
gst_h3_condition_pad_is_picture (GstH3ConditionPad *self)
{
  return self->media != GST_H3_CONDITION_AUDIO && self->reader.n == 1;
}

void
gst_h3_condition_pad_size (GstH3ConditionPad *self, gint *width, gint *height)
{
  *width = self->reader.info.width;
  *height = self->reader.info.height;
}

H3TextCondition *
gst_h3_condition_pad_picture (GstH3ConditionPad *self, H3ConditionKind kind,
    H3Fit fit, gint canvas_width, gint canvas_height, GError **error)
{
  GstVideoFrame frame;
  gint64 until;
  gboolean have;
  g_auto (H3Image) image = { 0 };
  gboolean good;

  if (!gst_h3_frame_reader_next (&self->reader, NULL, &frame, &until, &have,
          error) ||
      !have)
    return NULL;
  good = h3_image_fit (&image, fit, canvas_width, canvas_height,
      GST_VIDEO_FRAME_PLANE_DATA (&frame, 0),
      GST_VIDEO_FRAME_PLANE_STRIDE (&frame, 0), GST_VIDEO_FRAME_WIDTH (&frame),
      GST_VIDEO_FRAME_HEIGHT (&frame), error);
  gst_video_frame_unmap (&frame);
  return good ? h3_text_condition_new_picture (kind, &image, error) : NULL;
}

H3TextCondition *
gst_h3_condition_pad_clip (GstH3ConditionPad *self, gboolean has_sound,
    GError **error)
{
  /* which is known once the clip's other pad has had its say */
  self->clip->has_sound = has_sound;
  return h3_text_condition_finish (self->clip, error)
             ? g_steal_pointer (&self->clip)
             : NULL;
}
