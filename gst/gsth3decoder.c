/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A GstBaseTransform that is 1:N through submit_input_buffer() and
 * generate_output(): the base class pushes what generate_output() returns until
 * it returns nothing, so each window of a clip leaves as soon as it is decoded
 * (spec/gstreamer.md 8.3). */
#include "gst/gsth3decoder.h"

#define GST_CAT_DEFAULT gst_h3_runtime_debug

G_DEFINE_ABSTRACT_TYPE (GstH3Decoder, gst_h3_decoder, GST_TYPE_BASE_TRANSFORM)
#define parent_class gst_h3_decoder_parent_class

static gboolean
gst_h3_decoder_should_stop (gpointer user_data)
{
  GstH3Decoder *self = user_data;

  /* the end of a flush may take back what going to READY had set */
  return g_atomic_int_get (&self->cancel) ||
         gst_h3_common_is_stopping (&self->common) ||
         (g_atomic_int_get (&self->ending) && self->next_unit > 0);
}

void
gst_h3_decoder_end (GstH3Decoder *self)
{
  g_atomic_int_set (&self->ending, TRUE);
}

/* Timeline */

static GstClockTime
gst_h3_decoder_time_of (GstH3Decoder *self, guint64 unit)
{
  guint rate = GST_H3_DECODER_GET_CLASS (self)->rate;

  return self->base_time +
         gst_util_uint64_scale (unit - self->base_unit, GST_SECOND, rate);
}

void
gst_h3_decoder_stamp (GstH3Decoder *self, GstBuffer *buffer, guint64 units)
{
  guint64 end = self->next_unit + units;

  GST_BUFFER_PTS (buffer) = gst_h3_decoder_time_of (self, self->next_unit);
  GST_BUFFER_DTS (buffer) = GST_CLOCK_TIME_NONE;
  GST_BUFFER_DURATION (buffer) =
      gst_h3_decoder_time_of (self, end) - GST_BUFFER_PTS (buffer);
  GST_BUFFER_OFFSET (buffer) = self->next_unit;
  GST_BUFFER_OFFSET_END (buffer) = end;
  /* copied from the latent's buffer, where they meant the whole clip */
  GST_BUFFER_FLAG_UNSET (buffer,
      GST_BUFFER_FLAG_DISCONT | GST_BUFFER_FLAG_RESYNC |
          GST_BUFFER_FLAG_MARKER | GST_BUFFER_FLAG_HEADER);
  if (self->discont)
    GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  self->discont = FALSE;

  self->next_unit = end;
  self->units += units;
}

/* Clips follow each other without a gap by counting units. The latent's own
 * timestamp counts only where the timeline begins or jumps, so that rounding
 * and sound that is 8 ms longer than its picture never make a gap. */
static void
gst_h3_decoder_place_clip (GstH3Decoder *self, GstBuffer *clip)
{
  GstH3DecoderClass *klass = GST_H3_DECODER_GET_CLASS (self);
  GstClockTime pts = GST_BUFFER_PTS (clip);
  gboolean jumps = GST_CLOCK_TIME_IS_VALID (pts) &&
                   (self->new_segment || GST_BUFFER_IS_DISCONT (clip));

  self->new_segment = FALSE;
  if (self->has_timeline && !jumps)
    return;
  if (klass->restart)
    klass->restart (self);
  self->base_unit = self->next_unit;
  self->base_time = GST_CLOCK_TIME_IS_VALID (pts) ? pts : 0;
  self->has_timeline = TRUE;
  self->discont = TRUE;
}

static void
gst_h3_decoder_forget_timeline (GstH3Decoder *self)
{
  self->next_unit = 0;
  self->has_timeline = self->new_segment = FALSE;
}

/* Clips */

/* Ends the clip being decoded; consumes @error, and posts it first, because the
 * progress ERROR follows the error message. */
static GstFlowReturn
gst_h3_decoder_end_clip (GstH3Decoder *self, GError *error)
{
  GstFlowReturn ret = GST_FLOW_OK;
  GError *reason = error ? g_error_copy (error) : NULL;

  if (error) {
    if (!g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED))
      ret = GST_FLOW_ERROR;
    else if (g_atomic_int_get (&self->cancel))
      ret = GST_FLOW_FLUSHING;
    gst_h3_common_fail (&self->common, error);
  } else {
    GST_OBJECT_LOCK (self);
    self->clips++;
    self->units_out += self->units;
    self->last_clip_us = self->decode_us;
    GST_OBJECT_UNLOCK (self);
    GST_INFO_OBJECT (self,
        "clip done: %" G_GUINT64_FORMAT " %ss in %" G_GINT64_FORMAT " ms",
        self->units, GST_H3_DECODER_GET_CLASS (self)->unit,
        self->decode_us / 1000);
  }
  gst_h3_progress_end (&self->progress, reason);
  g_clear_error (&reason);
  gst_clear_buffer (&self->input);
  return ret;
}

/* A clip that nobody wants any more: flushed, or refused downstream. */
static void
gst_h3_decoder_drop_clip (GstH3Decoder *self)
{
  GError *error = NULL;

  gst_clear_buffer (&self->pending);
  gst_adapter_clear (self->adapter);
  if (!self->input)
    return;
  g_set_error_literal (&error, H3_ERROR, H3_ERROR_CANCELLED, "clip dropped");
  gst_h3_decoder_end_clip (self, error);
}

static GstBuffer *
gst_h3_decoder_take_clip (GstH3Decoder *self)
{
  gsize size = gst_h3_latent_info_size (&self->info);

  if (!self->byte_stream)
    return g_steal_pointer (&self->pending);
  if (gst_adapter_available (self->adapter) < size)
    return NULL;
  return gst_adapter_take_buffer (self->adapter, size);
}

static gboolean
gst_h3_decoder_open_clip (GstH3Decoder *self, GError **error)
{
  GstH3DecoderClass *klass = GST_H3_DECODER_GET_CLASS (self);
  const GstStructure *job = gst_h3_buffer_get_job (self->input);
  gint64 dim[GST_H3_MAX_RANK];
  guint64 number = self->clips, workspace;
  guint rank = gst_h3_latent_info_shape (&self->info, dim);
  gpointer model;
  gboolean begun;
  g_autofree gchar *text = NULL;
  g_autoptr (H3Tensor) latent = NULL;

  if (!self->stream &&
      !(self->stream = h3_stream_new (self->common.device, error)))
    return FALSE;
  h3_stream_set_stop (self->stream, &self->stop);
  latent = gst_h3_tensor_from_buffer (self->input, self->stream, H3_DTYPE_F32,
      rank, dim, "latent", error);
  if (!latent)
    return FALSE;
  workspace = klass->workspace (self, &self->info);
  model = gst_h3_common_acquire (&self->common, workspace, self->held,
      &self->stop, error);
  if (!model)
    return FALSE;
  gst_h3_decoder_place_clip (self, self->input);
  begun = klass->begin (self, model, latent, &self->total_units, error);
  gst_h3_common_settle (&self->common);
  self->held = begun ? workspace : 0;
  if (!begun)
    return FALSE;

  GST_OBJECT_LOCK (self);
  self->peak_bytes =
      MAX (self->peak_bytes, self->common.weight_bytes + workspace);
  GST_OBJECT_UNLOCK (self);
  if (job)
    gst_structure_get_uint64 (job, "job", &number);
  text = g_strdup_printf ("decoding %" G_GUINT64_FORMAT " %ss",
      self->total_units, klass->unit);
  gst_h3_progress_start_streaming (&self->progress, GST_ELEMENT (self),
      "decode", klass->unit, number, self->total_units, self->peak_bytes, text);
  return TRUE;
}

static gboolean
gst_h3_decoder_begin_clip (GstH3Decoder *self, GError **error)
{
  gint64 start = g_get_monotonic_time ();
  gboolean ok;

  self->units = self->total_units = 0;
  ok = gst_h3_decoder_open_clip (self, error);
  self->decode_us = g_get_monotonic_time () - start;
  return ok;
}

static gboolean
gst_h3_decoder_continue_clip (GstH3Decoder *self, GstBuffer **buffer,
    GError **error)
{
  GstH3DecoderClass *klass = GST_H3_DECODER_GET_CLASS (self);
  gint64 start = g_get_monotonic_time ();
  gboolean ok = !h3_stop_requested (&self->stop, error) &&
                klass->next (self, buffer, error);

  self->decode_us += g_get_monotonic_time () - start;
  if (ok && *buffer)
    gst_h3_progress_update (&self->progress, self->units, self->total_units);
  return ok;
}

/* Never called: generate_output() makes the buffers. But a class without it is
 * taken for one that works in place, and gets no buffer pool from downstream.
 */
static GstFlowReturn
gst_h3_decoder_transform (GstBaseTransform *trans, GstBuffer *in,
    GstBuffer *out)
{
  return GST_FLOW_NOT_SUPPORTED;
}

static GstFlowReturn
gst_h3_decoder_generate_output (GstBaseTransform *trans, GstBuffer **out)
{
  GstH3Decoder *self = GST_H3_DECODER (trans);
  GError *error = NULL;

  *out = NULL;
  while (!*out) {
    if (!self->input) {
      self->input = gst_h3_decoder_take_clip (self);
      if (!self->input)
        return GST_FLOW_OK;
      if (!gst_h3_decoder_begin_clip (self, &error))
        return gst_h3_decoder_end_clip (self, error);
    }
    if (!gst_h3_decoder_continue_clip (self, out, &error))
      return gst_h3_decoder_end_clip (self, error);
    if (!*out)
      gst_h3_decoder_end_clip (self, NULL);
  }
  return GST_FLOW_OK;
}

/* Caps */

/* Says what is wrong, because upstream only learns that something is. Once:
 * refused caps come again with every buffer. */
static void
gst_h3_decoder_post_caps_error (GstH3Decoder *self, const GstCaps *caps)
{
  GstBaseTransform *trans = GST_BASE_TRANSFORM (self);
  GstH3LatentInfo info;
  g_autoptr (GstCaps) peer = NULL;
  g_autofree gchar *made = NULL, *wanted = NULL;

  if (GST_PAD_IS_FLUSHING (trans->sinkpad) ||
      GST_PAD_IS_FLUSHING (trans->srcpad) ||
      (self->refused && gst_caps_is_equal (self->refused, caps)))
    return;
  gst_caps_replace (&self->refused, (GstCaps *) caps);
  /* outside the template, set_caps() was not asked */
  if (self->caps_error ||
      !gst_h3_latent_info_from_caps (&info, caps, &self->caps_error)) {
    gst_h3_common_fail (&self->common, g_steal_pointer (&self->caps_error));
    return;
  }
  {
    g_autoptr (GstCaps) out =
        GST_BASE_TRANSFORM_GET_CLASS (self)->transform_caps (trans,
            GST_PAD_SINK, (GstCaps *) caps, NULL);
    made = gst_caps_to_string (out);
  }
  peer = gst_pad_peer_query_caps (trans->srcpad, NULL);
  wanted = gst_caps_to_string (peer);
  GST_ELEMENT_ERROR (self, CORE, NEGOTIATION,
      ("The elements after %s do not take what this clip decodes to.",
          GST_OBJECT_NAME (self)),
      ("it decodes to %s; they take %s", made, wanted));
}

static gboolean
gst_h3_decoder_set_caps (GstBaseTransform *trans, GstCaps *in, GstCaps *out)
{
  GstH3Decoder *self = GST_H3_DECODER (trans);
  GstH3LatentInfo info;

  g_clear_error (&self->caps_error);
  if (!gst_h3_latent_info_from_caps (&info, in, &self->caps_error) ||
      !GST_H3_DECODER_GET_CLASS (self)->set_caps (self, &info, out,
          &self->caps_error))
    return FALSE;
  if (gst_adapter_available (self->adapter) > 0 &&
      memcmp (&info, &self->info, sizeof info)) {
    GST_WARNING_OBJECT (self,
        "%" G_GSIZE_FORMAT " bytes of an unfinished clip dropped: the caps "
        "changed",
        gst_adapter_available (self->adapter));
    gst_adapter_clear (self->adapter);
  }
  self->info = info;
  gst_clear_caps (&self->refused);
  GST_DEBUG_OBJECT (self, "%" GST_PTR_FORMAT " -> %" GST_PTR_FORMAT, in, out);
  return TRUE;
}

/* Any latent may come as far as set_caps(), where a wrong one gets an error
 * that names the field; refusing it here would leave only "not-negotiated". */
static gboolean
gst_h3_decoder_accept_caps (GstBaseTransform *trans, GstPadDirection direction,
    GstCaps *caps)
{
  if (direction == GST_PAD_SINK)
    return gst_caps_is_fixed (caps) &&
           gst_structure_has_name (gst_caps_get_structure (caps, 0),
               GST_H3_LATENT_MEDIA_TYPE);
  return GST_BASE_TRANSFORM_CLASS (parent_class)
      ->accept_caps (trans, direction, caps);
}

/* Our order of formats, not the peer's: an encoder that lists Y444 first would
 * get what few players can show. With no peer @others is @caps itself. */
static GstCaps *
gst_h3_decoder_fixate_caps (GstBaseTransform *trans, GstPadDirection direction,
    GstCaps *caps, GstCaps *others)
{
  GstH3DecoderClass *klass = GST_H3_DECODER_GET_CLASS (trans);
  GstPad *pad = direction == GST_PAD_SINK ? trans->srcpad : trans->sinkpad;
  GstCaps *best = GST_BASE_TRANSFORM_GET_CLASS (trans)->transform_caps (trans,
      direction, caps, NULL);

  if (gst_pad_is_linked (pad)) {
    GstCaps *common =
        gst_caps_intersect_full (best, others, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref (best);
    best = common;
  }
  gst_caps_unref (others);
  if (klass->choose && direction == GST_PAD_SINK && !gst_caps_is_empty (best))
    best = klass->choose (GST_H3_DECODER (trans), best);
  return gst_caps_fixate (best);
}

/* Data and events */

static GstFlowReturn
gst_h3_decoder_submit_input (GstBaseTransform *trans, gboolean is_discont,
    GstBuffer *input)
{
  GstH3Decoder *self = GST_H3_DECODER (trans);
  GstFlowReturn ret = GST_BASE_TRANSFORM_CLASS (parent_class)
                          ->submit_input_buffer (trans, is_discont, input);

  if (ret == GST_FLOW_NOT_NEGOTIATED &&
      gst_pad_has_current_caps (trans->sinkpad)) {
    g_autoptr (GstCaps) caps = gst_pad_get_current_caps (trans->sinkpad);
    gst_h3_decoder_post_caps_error (self, caps);
  }
  if (ret != GST_FLOW_OK)
    return ret;
  input = g_steal_pointer (&trans->queued_buf);
  if (!input)
    return GST_FLOW_OK;
  /* left over when a buffer of the last clip was refused downstream */
  if (self->input) {
    GError *error = NULL;
    g_set_error_literal (&error, H3_ERROR, H3_ERROR_CANCELLED, "not wanted");
    gst_h3_decoder_end_clip (self, error);
  }
  if (self->byte_stream)
    gst_adapter_push (self->adapter, input);
  else
    self->pending = input;
  return GST_FLOW_OK;
}

static gboolean
gst_h3_decoder_segment (GstH3Decoder *self, GstEvent *event)
{
  const GstSegment *segment;
  GstSegment time;
  GstEvent *forward;

  gst_event_parse_segment (event, &segment);
  self->byte_stream = segment->format != GST_FORMAT_TIME;
  self->new_segment = TRUE;
  if (!self->byte_stream)
    return GST_BASE_TRANSFORM_CLASS (parent_class)
        ->sink_event (GST_BASE_TRANSFORM (self), event);

  gst_segment_init (&time, GST_FORMAT_TIME);
  forward = gst_event_new_segment (&time);
  gst_event_set_seqnum (forward, gst_event_get_seqnum (event));
  gst_event_unref (event);
  return GST_BASE_TRANSFORM_CLASS (parent_class)
      ->sink_event (GST_BASE_TRANSFORM (self), forward);
}

static void
gst_h3_decoder_check_drained (GstH3Decoder *self)
{
  gsize left = gst_adapter_available (self->adapter);
  GError *error;

  if (!left)
    return;
  error = g_error_new (H3_ERROR, H3_ERROR_FORMAT,
      "The latent is cut short: %" G_GSIZE_FORMAT " bytes came, its caps make "
      "it %" G_GSIZE_FORMAT ".",
      left, gst_h3_latent_info_size (&self->info));
  gst_adapter_clear (self->adapter);
  gst_h3_common_fail (&self->common, error);
}

/* The next clip decodes to what the last one did: nothing is to be negotiated.
 * GstBaseTransform would ask about allocation again, a query that waits until a
 * queue behind us is empty, which may wait for a clip that waits for us. */
static gboolean
gst_h3_decoder_same_output (GstBaseTransform *trans, GstCaps *caps)
{
  g_autoptr (GstCaps) current = gst_pad_get_current_caps (trans->srcpad);
  g_autoptr (GstCaps) made = NULL;

  if (!current || gst_pad_needs_reconfigure (trans->srcpad))
    return FALSE;
  made = GST_BASE_TRANSFORM_GET_CLASS (trans)->transform_caps (trans,
      GST_PAD_SINK, caps, NULL);
  return gst_caps_is_subset (current, made) &&
         gst_h3_decoder_set_caps (trans, caps, current);
}

static gboolean
gst_h3_decoder_sink_event (GstBaseTransform *trans, GstEvent *event)
{
  GstH3Decoder *self = GST_H3_DECODER (trans);
  GstEventType type = GST_EVENT_TYPE (event);
  g_autoptr (GstCaps) caps = NULL;
  gboolean ret;

  switch (type) {
    case GST_EVENT_SEGMENT:
      return gst_h3_decoder_segment (self, event);
    case GST_EVENT_CAPS: {
      GstCaps *parsed;

      gst_event_parse_caps (event, &parsed);
      if (gst_h3_decoder_same_output (trans, parsed)) {
        gst_event_unref (event);
        return TRUE;
      }
      caps = gst_caps_ref (parsed);
      break;
    }
    case GST_EVENT_FLUSH_START:
      g_atomic_int_set (&self->cancel, TRUE);
      break;
    case GST_EVENT_EOS:
      gst_h3_decoder_check_drained (self);
      break;
    default:
      break;
  }

  ret = GST_BASE_TRANSFORM_CLASS (parent_class)->sink_event (trans, event);

  if (caps && !ret)
    gst_h3_decoder_post_caps_error (self, caps);
  if (type == GST_EVENT_FLUSH_STOP) {
    gst_h3_decoder_drop_clip (self);
    gst_h3_decoder_forget_timeline (self);
    gst_h3_common_begin (&self->common);
    g_atomic_int_set (&self->cancel, FALSE);
  }
  return ret;
}

/* State */

static gboolean
gst_h3_decoder_stop (GstBaseTransform *trans)
{
  GstH3Decoder *self = GST_H3_DECODER (trans);

  gst_h3_decoder_drop_clip (self);
  GST_H3_DECODER_GET_CLASS (self)->release (self);
  self->held = 0;
  self->info = (GstH3LatentInfo){ 0 }; /* the next stream may be another */
  g_clear_pointer (&self->stream, h3_stream_free);
  g_clear_error (&self->caps_error);
  gst_clear_caps (&self->refused);
  gst_h3_decoder_forget_timeline (self);
  self->byte_stream = FALSE;
  return TRUE;
}

static GstStateChangeReturn
gst_h3_decoder_change_state (GstElement *element, GstStateChange transition)
{
  GstH3Decoder *self = GST_H3_DECODER (element);
  GstStateChangeReturn ret;

  /* before the pads are deactivated, which waits for the streaming thread */
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY)
    g_atomic_int_set (&self->cancel, TRUE);
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED) {
    g_atomic_int_set (&self->cancel, FALSE);
    g_atomic_int_set (&self->ending, FALSE);
  }

  if (!gst_h3_common_before_state_change (&self->common, transition))
    return GST_STATE_CHANGE_FAILURE;
  ret = GST_ELEMENT_CLASS (parent_class)->change_state (element, transition);
  gst_h3_common_after_state_change (&self->common, transition, ret);
  return ret;
}

/* Before there are caps h3denoise says what it will make by its settings. FALSE
 * where nobody does: what the clip needs is checked when it begins. */
static gboolean
gst_h3_decoder_foresee (GstH3Decoder *self, GstH3LatentInfo *info)
{
  g_autoptr (GstCaps) caps =
      gst_pad_peer_query_caps (GST_BASE_TRANSFORM_SINK_PAD (self), NULL);

  if (!caps || gst_caps_is_any (caps) || gst_caps_is_empty (caps))
    return FALSE;
  caps = gst_caps_truncate (g_steal_pointer (&caps));
  return gst_caps_is_fixed (caps) &&
         gst_h3_latent_info_from_caps (info, caps, NULL);
}

guint64
gst_h3_decoder_workspace (GstElement *element)
{
  GstH3Decoder *self = GST_H3_DECODER (element);
  GstH3LatentInfo info = self->info;

  if (info.channels == 0 && !gst_h3_decoder_foresee (self, &info))
    return 0;
  return GST_H3_DECODER_GET_CLASS (self)->workspace (self, &info);
}

void
gst_h3_decoder_add_stats (GstElement *element, GstStructure *stats)
{
  GstH3Decoder *self = GST_H3_DECODER (element);
  g_autofree gchar *units =
      g_strconcat (GST_H3_DECODER_GET_CLASS (self)->unit, "s", NULL);

  GST_OBJECT_LOCK (self);
  gst_structure_set (stats, "clips", G_TYPE_UINT64, self->clips, units,
      G_TYPE_UINT64, self->units_out, "decode-ms", G_TYPE_UINT64,
      self->last_clip_us / 1000, "peak-bytes", G_TYPE_UINT64, self->peak_bytes,
      NULL);
  GST_OBJECT_UNLOCK (self);
}

/* Object */

static void
gst_h3_decoder_set_property (GObject *object, guint prop_id,
    const GValue *value, GParamSpec *pspec)
{
  if (!gst_h3_common_set_property (&GST_H3_DECODER (object)->common, prop_id,
          value))
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
}

static void
gst_h3_decoder_get_property (GObject *object, guint prop_id, GValue *value,
    GParamSpec *pspec)
{
  if (!gst_h3_common_get_property (&GST_H3_DECODER (object)->common, prop_id,
          value))
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
}

static void
gst_h3_decoder_finalize (GObject *object)
{
  GstH3Decoder *self = GST_H3_DECODER (object);

  g_clear_object (&self->adapter);
  g_clear_error (&self->caps_error);
  gst_clear_caps (&self->refused);
  gst_h3_common_clear (&self->common);
  G_OBJECT_CLASS (parent_class)->finalize (object);
}

void
gst_h3_decoder_setup (GstH3Decoder *self, const GstH3CommonFuncs *funcs)
{
  gst_h3_common_init (&self->common, GST_ELEMENT (self), funcs);
}

static void
gst_h3_decoder_init (GstH3Decoder *self)
{
  GstBaseTransform *trans = GST_BASE_TRANSFORM (self);

  /* a generated frame is never dropped for being late */
  gst_base_transform_set_qos_enabled (trans, FALSE);

  self->adapter = gst_adapter_new ();
  self->stop.should_stop = gst_h3_decoder_should_stop;
  self->stop.user_data = self;
  gst_h3_decoder_forget_timeline (self);
}

static void
gst_h3_decoder_class_init (GstH3DecoderClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);
  GstBaseTransformClass *trans_class = GST_BASE_TRANSFORM_CLASS (klass);

  object_class->set_property = gst_h3_decoder_set_property;
  object_class->get_property = gst_h3_decoder_get_property;
  object_class->finalize = gst_h3_decoder_finalize;
  element_class->change_state = gst_h3_decoder_change_state;
  gst_h3_common_class_init (element_class);

  trans_class->passthrough_on_same_caps = FALSE;
  trans_class->set_caps = gst_h3_decoder_set_caps;
  trans_class->fixate_caps = gst_h3_decoder_fixate_caps;
  trans_class->accept_caps = gst_h3_decoder_accept_caps;
  trans_class->submit_input_buffer = gst_h3_decoder_submit_input;
  trans_class->transform = gst_h3_decoder_transform;
  trans_class->generate_output = gst_h3_decoder_generate_output;
  trans_class->sink_event = gst_h3_decoder_sink_event;
  trans_class->stop = gst_h3_decoder_stop;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_DECODER, 0);
}
