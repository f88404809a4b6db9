/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3encoder.h"

#include "gst/gsth3enums.h"
#include "gst/gsth3negotiate.h"
#include "gst/gsth3tensor.h"

GST_DEBUG_CATEGORY_STATIC (gst_h3_encoder_debug);
#define GST_CAT_DEFAULT gst_h3_encoder_debug

#define DEFAULT_ROLE GST_H3_ROLE_REFERENCE

enum { PROP_ROLE = GST_H3_N_COMMON_PROPS };

typedef struct {
  GstH3Common common;
  GstPad *sinkpad, *srcpad;
  GstH3Role role; /* under the object lock */
  gint cancel;    /* atomic */

  /* of the streaming thread, and of state changes while it does not run */
  H3Stream *stream;
  H3Stop stop;   /* of what is computed on it */
  gboolean any;  /* a buffer came */
  gboolean sent; /* the latent went out */
  GstFlowReturn flow;
} GstH3EncoderPrivate;

G_DEFINE_ABSTRACT_TYPE_WITH_CODE (GstH3Encoder, gst_h3_encoder,
    GST_TYPE_ELEMENT,
    G_ADD_PRIVATE (GstH3Encoder) GST_DEBUG_CATEGORY_INIT (gst_h3_encoder_debug,
        "h3encoder", 0, "H3 encoders"))
#define PRIV(self)                                                             \
  ((GstH3EncoderPrivate *) gst_h3_encoder_get_instance_private (self))

GType
gst_h3_role_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_ROLE_FIRST_FRAME, "The clip begins with it", "first-frame" },
    { GST_H3_ROLE_LAST_FRAME, "The clip ends with it", "last-frame" },
    { GST_H3_ROLE_REFERENCE, "The prompt speaks of it", "reference" }, { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Role", values);
}

GstH3Common *
gst_h3_encoder_common (GstH3Encoder *self)
{
  return &PRIV (self)->common;
}

GstH3Role
gst_h3_encoder_role (GstH3Encoder *self)
{
  GstH3Role role;

  GST_OBJECT_LOCK (self);
  role = PRIV (self)->role;
  GST_OBJECT_UNLOCK (self);
  return role;
}

H3Stream *
gst_h3_encoder_stream (GstH3Encoder *self, GError **error)
{
  GstH3EncoderPrivate *priv = PRIV (self);

  if (!priv->stream) {
    priv->stream = h3_stream_new (priv->common.device, error);
    if (priv->stream)
      h3_stream_set_stop (priv->stream, &priv->stop);
  }
  return priv->stream;
}

/* --- one stream --- */

static gboolean
should_stop (gpointer data)
{
  GstH3EncoderPrivate *priv = PRIV (data);

  return g_atomic_int_get (&priv->cancel) ||
         gst_h3_common_is_stopping (&priv->common);
}

static void
reset (GstH3Encoder *self)
{
  GstH3EncoderPrivate *priv = PRIV (self);

  GST_H3_ENCODER_GET_CLASS (self)->reset (self);
  g_clear_pointer (&priv->stream, h3_stream_free);
  priv->any = priv->sent = FALSE;
  priv->flow = GST_FLOW_OK;
}

/* Takes @error. */
static GstFlowReturn
fail (GstH3Encoder *self, GError *error)
{
  GstH3EncoderPrivate *priv = PRIV (self);

  priv->flow = g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED)
                   ? GST_FLOW_FLUSHING
               : error->domain == GST_CORE_ERROR ? GST_FLOW_NOT_NEGOTIATED
                                                 : GST_FLOW_ERROR;
  gst_h3_common_fail (&priv->common, error);
  return priv->flow;
}

static GstCaps *
latent_caps (GstH3Encoder *self, const GstH3LatentInfo *info, GError **error)
{
  GstH3EncoderPrivate *priv = PRIV (self);
  GstCaps *caps = gst_h3_latent_info_to_caps (info, FALSE);

  gst_caps_set_simple (caps, "role", G_TYPE_STRING,
      gst_h3_enum_nick (GST_TYPE_H3_ROLE, gst_h3_encoder_role (self)), NULL);
  return gst_h3_choose_caps (priv->srcpad, caps, error);
}

static GstFlowReturn
send_latent (GstH3Encoder *self, H3Tensor *latent, const GstH3LatentInfo *info,
    GError **error)
{
  GstH3EncoderPrivate *priv = PRIV (self);
  GstCaps *caps = latent_caps (self, info, error);
  GstBuffer *buffer;
  GstSegment segment;

  if (!caps)
    return GST_FLOW_NOT_NEGOTIATED;
  /* It is there: the encoders wait for their results, the picture's to sample
   * from the distribution on the host, both to find what is no number before it
   * goes out. */
  buffer = gst_h3_tensor_to_buffer (latent, NULL, error);
  if (!buffer) {
    gst_caps_unref (caps);
    return GST_FLOW_ERROR;
  }
  gst_pad_push_event (priv->srcpad, gst_event_new_caps (caps));
  gst_caps_unref (caps);
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_pad_push_event (priv->srcpad, gst_event_new_segment (&segment));
  GST_BUFFER_PTS (buffer) = 0;
  return gst_pad_push (priv->srcpad, buffer);
}

/* The latent of what came in goes out. */
static GstFlowReturn
finish (GstH3Encoder *self)
{
  GstH3EncoderPrivate *priv = PRIV (self);
  GstH3LatentInfo info = { .type = GST_H3_TYPE_FLOAT32 };
  gint64 begin = g_get_monotonic_time ();
  GError *error = NULL;
  H3Tensor *latent = GST_H3_ENCODER_GET_CLASS (self)->finish (self, &priv->stop,
      &info, &error);

  priv->sent = TRUE;
  if (!latent)
    return fail (self, error);
  GST_INFO_OBJECT (self, "the last of it took %" G_GINT64_FORMAT " ms",
      (g_get_monotonic_time () - begin) / 1000);
  priv->flow = send_latent (self, latent, &info, &error);
  h3_tensor_unref (latent);
  if (error)
    return fail (self, error);
  return priv->flow;
}

static GstFlowReturn
gst_h3_encoder_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstH3Encoder *self = GST_H3_ENCODER (parent);
  GstH3EncoderPrivate *priv = PRIV (self);
  GstH3EncoderClass *klass = GST_H3_ENCODER_GET_CLASS (self);
  GstFlowReturn ret = priv->flow;
  GError *error = NULL;

  if (ret == GST_FLOW_OK && priv->sent)
    ret = GST_FLOW_EOS; /* a keyframe needs no second picture */
  if (ret == GST_FLOW_OK) {
    priv->any = TRUE;
    if (!klass->take (self, buffer, &priv->stop, &error))
      ret = fail (self, error);
    else if (klass->complete (self))
      ret = finish (self);
  }
  gst_buffer_unref (buffer);
  return ret;
}

static void
take_eos (GstH3Encoder *self)
{
  GstH3EncoderPrivate *priv = PRIV (self);

  if (priv->flow != GST_FLOW_OK || !priv->any || priv->sent)
    return;
  finish (self);
  /* nobody else would hear of it; an error of ours has been told, and is not
   * again */
  if (priv->flow == GST_FLOW_NOT_LINKED || priv->flow < GST_FLOW_EOS)
    gst_h3_common_fail (&priv->common,
        g_error_new (GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
            "The latent cannot go out of pad \"src\": %s",
            gst_flow_get_name (priv->flow)));
}

static void
send_stream_start (GstH3Encoder *self, GstEvent *event)
{
  GstH3EncoderPrivate *priv = PRIV (self);
  gchar *id = gst_pad_create_stream_id (priv->srcpad, GST_ELEMENT_CAST (self),
      "latent");
  GstEvent *start = gst_event_new_stream_start (id);
  guint group_id;

  if (gst_event_parse_group_id (event, &group_id))
    gst_event_set_group_id (start, group_id);
  gst_pad_push_event (priv->srcpad, start);
  gst_event_unref (event);
  g_free (id);
}

static gboolean
take_caps (GstH3Encoder *self, GstEvent *event)
{
  GError *error = NULL;
  GstCaps *caps;
  gboolean good;

  gst_event_parse_caps (event, &caps);
  /* what was refused comes again with the next buffer */
  good = PRIV (self)->flow == GST_FLOW_OK &&
         GST_H3_ENCODER_GET_CLASS (self)->set_caps (self, caps, &error);
  if (error)
    fail (self, error);
  gst_event_unref (event);
  return good;
}

static gboolean
gst_h3_encoder_sink_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  GstH3Encoder *self = GST_H3_ENCODER (parent);
  GstH3EncoderPrivate *priv = PRIV (self);

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_STREAM_START:
      /* after the last one's latent another may follow */
      if (priv->flow == GST_FLOW_OK && priv->sent)
        reset (self);
      send_stream_start (self, event);
      return TRUE;
    case GST_EVENT_CAPS:
      return take_caps (self, event);
    case GST_EVENT_EOS:
      take_eos (self);
      break;
    case GST_EVENT_FLUSH_START:
      g_atomic_int_set (&priv->cancel, TRUE);
      break;
    case GST_EVENT_FLUSH_STOP:
      reset (self);
      gst_h3_common_begin (&priv->common);
      g_atomic_int_set (&priv->cancel, FALSE);
      break;
    case GST_EVENT_SEGMENT:
    case GST_EVENT_TAG:
    case GST_EVENT_TOC:
    case GST_EVENT_GAP:
      /* of what comes in; a latent has its own */
      gst_event_unref (event);
      return TRUE;
    default:
      break;
  }
  return gst_pad_event_default (pad, parent, event);
}

/* --- element --- */

static GstStateChangeReturn
gst_h3_encoder_change_state (GstElement *element, GstStateChange transition)
{
  GstH3Encoder *self = GST_H3_ENCODER (element);
  GstH3EncoderPrivate *priv = PRIV (self);
  GstStateChangeReturn ret;

  if (!gst_h3_common_before_state_change (&priv->common, transition))
    return GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED)
    g_atomic_int_set (&priv->cancel, FALSE);
  else if (transition == GST_STATE_CHANGE_PAUSED_TO_READY)
    g_atomic_int_set (&priv->cancel, TRUE);
  ret = GST_ELEMENT_CLASS (gst_h3_encoder_parent_class)
            ->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY)
    reset (self);
  gst_h3_common_after_state_change (&priv->common, transition, ret);
  return ret;
}

static void
gst_h3_encoder_set_property (GObject *object, guint prop_id,
    const GValue *value, GParamSpec *pspec)
{
  GstH3EncoderPrivate *priv = PRIV (GST_H3_ENCODER (object));

  if (gst_h3_common_set_property (&priv->common, prop_id, value))
    return;
  if (prop_id != PROP_ROLE) {
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
    return;
  }
  GST_OBJECT_LOCK (object);
  priv->role = g_value_get_enum (value);
  GST_OBJECT_UNLOCK (object);
}

static void
gst_h3_encoder_get_property (GObject *object, guint prop_id, GValue *value,
    GParamSpec *pspec)
{
  GstH3Encoder *self = GST_H3_ENCODER (object);

  if (gst_h3_common_get_property (&PRIV (self)->common, prop_id, value))
    return;
  if (prop_id == PROP_ROLE)
    g_value_set_enum (value, gst_h3_encoder_role (self));
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
}

static void
gst_h3_encoder_finalize (GObject *object)
{
  gst_h3_common_clear (&PRIV (GST_H3_ENCODER (object))->common);
  G_OBJECT_CLASS (gst_h3_encoder_parent_class)->finalize (object);
}

void
gst_h3_encoder_setup (GstH3Encoder *self, const GstH3CommonFuncs *funcs)
{
  GstElementClass *klass = GST_ELEMENT_GET_CLASS (self);
  GstH3EncoderPrivate *priv = PRIV (self);

  gst_h3_common_init (&priv->common, GST_ELEMENT_CAST (self), funcs);
  priv->sinkpad =
      gst_pad_new_from_template (gst_element_class_get_pad_template (klass,
                                     "sink"),
          "sink");
  gst_pad_set_chain_function (priv->sinkpad, gst_h3_encoder_chain);
  gst_pad_set_event_function (priv->sinkpad, gst_h3_encoder_sink_event);
  gst_element_add_pad (GST_ELEMENT_CAST (self), priv->sinkpad);
  priv->srcpad =
      gst_pad_new_from_template (gst_element_class_get_pad_template (klass,
                                     "src"),
          "src");
  gst_pad_use_fixed_caps (priv->srcpad);
  gst_element_add_pad (GST_ELEMENT_CAST (self), priv->srcpad);
}

static void
gst_h3_encoder_init (GstH3Encoder *self)
{
  PRIV (self)->role = DEFAULT_ROLE;
  PRIV (self)->stop = (H3Stop){ should_stop, self };
}

static void
gst_h3_encoder_class_init (GstH3EncoderClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);

  object_class->set_property = gst_h3_encoder_set_property;
  object_class->get_property = gst_h3_encoder_get_property;
  object_class->finalize = gst_h3_encoder_finalize;
  element_class->change_state = gst_h3_encoder_change_state;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_ENCODER, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_ROLE, 0);
  gst_h3_common_class_init (element_class);
  g_object_class_install_property (object_class, PROP_ROLE,
      g_param_spec_enum ("role", "Role", "What it is for in the clip.",
          GST_TYPE_H3_ROLE, DEFAULT_ROLE,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_READY));
}
