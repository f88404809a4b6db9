/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3conditionpad.h"

struct _GstH3ConditionPad {
  GstAggregatorPad parent;

  GstH3ConditionMedia media;
  guint index;

  gint flushed, cut_off, dismissed; /* atomic */

  /* under lock, which is held over a frame's way onto its canvas; nothing is
   * taken after it but the pad's object lock */
  GMutex lock;
  GstH3FrameReader reader; /* holds the last frame, or the picture */
  H3TextCondition *clip;
};

G_DEFINE_FINAL_TYPE (GstH3ConditionPad, gst_h3_condition_pad,
    GST_TYPE_AGGREGATOR_PAD)

/* With the lock held. */
static void
forget (GstH3ConditionPad *self)
{
  gst_h3_frame_reader_reset (&self->reader);
  g_clear_pointer (&self->clip, h3_text_condition_free);
}

void
gst_h3_condition_pad_forget (GstH3ConditionPad *self)
{
  g_atomic_int_set (&self->cut_off, FALSE);
  g_mutex_lock (&self->lock);
  forget (self);
  g_mutex_unlock (&self->lock);
}

/* In the thread that flushes, while the element's task may go on. */
static GstFlowReturn
gst_h3_condition_pad_flush (GstAggregatorPad *pad, GstAggregator *aggregator)
{
  GstH3ConditionPad *self = GST_H3_CONDITION_PAD (pad);

  gst_h3_condition_pad_forget (self);
  g_atomic_int_set (&self->flushed, TRUE);
  return GST_FLOW_OK;
}

void
gst_h3_condition_pad_dismiss (GstH3ConditionPad *self)
{
  g_atomic_int_set (&self->dismissed, TRUE);
}

/* In the thread that unlinks. The element's task waits for EOS; not of a pad that
 * is being released, with a lock held that EOS takes. */
static void
gst_h3_condition_pad_unlinked (GstPad *pad, GstPad *peer)
{
  GstH3ConditionPad *self = GST_H3_CONDITION_PAD (pad);

  if (GST_PAD_IS_EOS (pad) || g_atomic_int_get (&self->dismissed))
    return;
  g_atomic_int_set (&self->cut_off, TRUE);
  if (!gst_pad_send_event (pad, gst_event_new_eos ()))
    g_atomic_int_set (&self->cut_off, FALSE); /* not running */
}

static void
gst_h3_condition_pad_finalize (GObject *object)
{
  GstH3ConditionPad *self = GST_H3_CONDITION_PAD (object);

  forget (self);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (gst_h3_condition_pad_parent_class)->finalize (object);
}

static void
gst_h3_condition_pad_class_init (GstH3ConditionPadClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = gst_h3_condition_pad_finalize;
  GST_PAD_CLASS (klass)->unlinked = gst_h3_condition_pad_unlinked;
  GST_AGGREGATOR_PAD_CLASS (klass)->flush = gst_h3_condition_pad_flush;
}

static void
gst_h3_condition_pad_init (GstH3ConditionPad *self)
{
  g_mutex_init (&self->lock);
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

gboolean
gst_h3_condition_pad_was_flushed (GstH3ConditionPad *self)
{
  return g_atomic_int_compare_and_exchange (&self->flushed, TRUE, FALSE);
}

gboolean
gst_h3_condition_pad_was_cut_off (GstH3ConditionPad *self)
{
  return g_atomic_int_get (&self->cut_off);
}

/* --- what comes in --- */

static gboolean
push_frame (GstH3ConditionPad *self, const GstVideoFrame *frame, gint64 until,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  gint width = GST_VIDEO_FRAME_WIDTH (frame);
  gint height = GST_VIDEO_FRAME_HEIGHT (frame);
  gint canvas_width, canvas_height;

  if (!gst_h3_fitting_check_length (fitting, until, error))
    return FALSE;
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

/* With the lock held. @buffer NULL: the end, at which a clip's last frame goes,
 * too. */
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

gboolean
gst_h3_condition_pad_take (GstH3ConditionPad *self, GstBuffer *buffer,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  gboolean enough, good;

  if (self->media == GST_H3_CONDITION_AUDIO)
    return TRUE;
  g_mutex_lock (&self->lock);
  enough = self->media == GST_H3_CONDITION_IMAGE && self->reader.n > 0;
  good = enough || (set_caps (self, error) &&
                       take_frame (self, buffer, fitting, demo, error));
  g_mutex_unlock (&self->lock);
  return good;
}

gboolean
gst_h3_condition_pad_finish (GstH3ConditionPad *self,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  gboolean good = TRUE;

  g_mutex_lock (&self->lock);
  if (self->reader.n > 1)
    good = take_frame (self, NULL, fitting, demo, error);
  g_mutex_unlock (&self->lock);
  return good;
}

/* --- what came --- */

static guint64
count_frames (GstH3ConditionPad *self)
{
  guint64 n;

  g_mutex_lock (&self->lock);
  n = self->reader.n;
  g_mutex_unlock (&self->lock);
  return n;
}

gboolean
gst_h3_condition_pad_is_there (GstH3ConditionPad *self)
{
  return self->media == GST_H3_CONDITION_AUDIO
             ? gst_pad_has_current_caps (GST_PAD_CAST (self))
             : count_frames (self) > 0;
}

gboolean
gst_h3_condition_pad_is_picture (GstH3ConditionPad *self)
{
  return self->media != GST_H3_CONDITION_AUDIO && count_frames (self) == 1;
}

void
gst_h3_condition_pad_size (GstH3ConditionPad *self, gint *width, gint *height)
{
  g_mutex_lock (&self->lock);
  *width = self->reader.info.width;
  *height = self->reader.info.height;
  g_mutex_unlock (&self->lock);
}

static gboolean
gone (GError **error)
{
  g_set_error_literal (error, H3_ERROR, H3_ERROR_CANCELLED,
      "flushed meanwhile");
  return FALSE;
}

/* With the lock held. */
static gboolean
fit_picture (GstH3ConditionPad *self, H3Image *image, H3Fit fit,
    gint canvas_width, gint canvas_height, GError **error)
{
  GstVideoFrame frame;
  gint64 until;
  gboolean have, good;

  if (!gst_h3_frame_reader_next (&self->reader, NULL, &frame, &until, &have,
          error))
    return FALSE;
  if (!have)
    return gone (error);
  good = h3_image_fit (image, fit, canvas_width, canvas_height,
      GST_VIDEO_FRAME_PLANE_DATA (&frame, 0),
      GST_VIDEO_FRAME_PLANE_STRIDE (&frame, 0), GST_VIDEO_FRAME_WIDTH (&frame),
      GST_VIDEO_FRAME_HEIGHT (&frame), error);
  gst_video_frame_unmap (&frame);
  return good;
}

H3TextCondition *
gst_h3_condition_pad_picture (GstH3ConditionPad *self, H3ConditionKind kind,
    H3Fit fit, gint canvas_width, gint canvas_height, GError **error)
{
  g_auto (H3Image) image = { 0 };
  gboolean good;

  g_mutex_lock (&self->lock);
  good = fit_picture (self, &image, fit, canvas_width, canvas_height, error);
  forget (self);
  g_mutex_unlock (&self->lock);
  return good ? h3_text_condition_new_picture (kind, &image, error) : NULL;
}

H3TextCondition *
gst_h3_condition_pad_clip (GstH3ConditionPad *self, gboolean has_sound,
    GError **error)
{
  g_autoptr (H3TextCondition) clip = NULL;

  g_mutex_lock (&self->lock);
  clip = g_steal_pointer (&self->clip);
  forget (self);
  g_mutex_unlock (&self->lock);
  if (!clip) {
    gone (error);
    return NULL;
  }
  /* which is known once the clip's other pad has had its say */
  clip->has_sound = has_sound;
  return h3_text_condition_finish (clip, error) ? g_steal_pointer (&clip)
                                                : NULL;
}
