/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The source pads of h3denoise. Each has a queue and a task of its own, so that
 * a pipeline without any queue element cannot deadlock: what blocks one pad
 * never keeps data from the other. */
#include "gst/gsth3denoise-private.h"

#define GST_CAT_DEFAULT gst_h3_denoise_debug

/* Clips that may wait on a pad before the worker waits. */
#define MAX_PENDING 2
/* How often a GAP moves downstream along while a live clip is made. */
#define GAP_INTERVAL (500 * GST_MSECOND)

static GstH3Output *
output_of (GstH3Denoise *self, GstPad *pad)
{
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    if (self->outputs[i].pad == pad)
      return &self->outputs[i];
  }
  g_return_val_if_reached (NULL);
}

static GstClockTime
time_of_frames (guint64 frames)
{
  return gst_util_uint64_scale (frames, GST_SECOND, H3_FPS);
}

/* --- queueing, with lock held --- */

/* Returns whether it was queued. */
static gboolean
push_item (GstH3Denoise *self, GstH3Output *output, gpointer item)
{
  if (output->flushing || output->flow == GST_FLOW_EOS ||
      output->flow == GST_FLOW_FLUSHING ||
      output->flow <= GST_FLOW_NOT_NEGOTIATED) {
    gst_mini_object_unref (item);
    return FALSE;
  }
  if (GST_IS_BUFFER (item))
    output->n_buffers++;
  g_queue_push_tail (&output->items, item);
  g_cond_broadcast (&self->changed);
  return TRUE;
}

static void
push_stream_start (GstH3Denoise *self, GstH3Output *output)
{
  gchar *prompts, *id;
  GstEvent *event;

  if (output->started)
    return;
  /* gst_pad_create_stream_id() is for elements of one sink pad */
  prompts = gst_pad_get_stream_id (self->sinkpad);
  id = g_strdup_printf ("%s/%s", prompts ? prompts : GST_OBJECT_NAME (self),
      GST_PAD_NAME (output->pad));
  g_free (prompts);
  event = gst_event_new_stream_start (id);
  gst_event_set_group_id (event, self->group_id);
  output->started = push_item (self, output, event);
  g_free (id);
}

/* One TIME segment from 0 for the life of the stream. */
static void
push_segment (GstH3Denoise *self, GstH3Output *output)
{
  GstSegment segment;

  if (output->segment)
    return;
  gst_segment_init (&segment, GST_FORMAT_TIME);
  output->segment = push_item (self, output, gst_event_new_segment (&segment));
}

/* A STREAM_START or SEGMENT that never left the queue must come again. */
static void
clear_items (GstH3Output *output)
{
  gpointer item;

  while ((item = g_queue_pop_head (&output->items))) {
    if (GST_IS_EVENT (item)) {
      if (GST_EVENT_TYPE (item) == GST_EVENT_STREAM_START)
        output->started = FALSE;
      else if (GST_EVENT_TYPE (item) == GST_EVENT_SEGMENT)
        output->segment = FALSE;
    }
    gst_mini_object_unref (item);
  }
  output->n_buffers = 0;
}

void
gst_h3_denoise_outputs_reset (GstH3Denoise *self, gboolean reset_time)
{
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    GstH3Output *output = &self->outputs[i];

    clear_items (output);
    output->flow = GST_FLOW_OK;
    output->segment = FALSE;
    if (reset_time) {
      output->position = GST_CLOCK_TIME_NONE;
      output->end = 0;
    }
  }
  self->flow = GST_FLOW_OK;
  self->eos = FALSE;
  self->eos_out = FALSE;
  self->discont = TRUE;
  if (reset_time) {
    self->frames = 0;
    self->origin = 0;
  }
  g_cond_broadcast (&self->changed);
}

void
gst_h3_denoise_outputs_set_flushing (GstH3Denoise *self, gboolean flushing)
{
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    self->outputs[i].flushing = flushing;
    if (flushing)
      clear_items (&self->outputs[i]);
  }
  g_cond_broadcast (&self->changed);
}

/* --- queueing, from the worker --- */

/* With lock held: what follows an EOS begins again, at 0. */
static void
begin_stream (GstH3Denoise *self)
{
  if (!self->eos_out)
    return;
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    self->outputs[i].started = FALSE;
    self->outputs[i].segment = FALSE;
    self->outputs[i].end = 0;
  }
  self->eos_out = FALSE;
  self->discont = TRUE;
  self->frames = 0;
  self->origin = 0;
}

/* With lock held. */
static void
push_event (GstH3Denoise *self, GstEvent *event)
{
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    push_stream_start (self, &self->outputs[i]);
    push_segment (self, &self->outputs[i]);
    push_item (self, &self->outputs[i], gst_event_ref (event));
  }
  if (GST_EVENT_TYPE (event) == GST_EVENT_EOS)
    self->eos_out = TRUE;
}

void
gst_h3_denoise_queue_event (GstH3Denoise *self, GstEvent *event,
    guint generation)
{
  g_mutex_lock (&self->lock);
  if (generation == self->generation) {
    if (GST_EVENT_TYPE (event) == GST_EVENT_STREAM_START)
      begin_stream (self);
    else
      push_event (self, event);
  }
  g_mutex_unlock (&self->lock);
  gst_event_unref (event);
}

void
gst_h3_denoise_queue_header (GstH3Denoise *self, GstH3Job *job,
    GstCaps *caps[GST_H3_N_OUTPUTS], GstTagList *tags)
{
  g_mutex_lock (&self->lock);
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    GstH3Output *output = &self->outputs[i];

    if (!g_atomic_int_get (&job->cancel)) {
      push_stream_start (self, output);
      push_item (self, output, gst_event_new_caps (caps[i]));
      push_segment (self, output);
      push_item (self, output, gst_event_new_tag (gst_tag_list_ref (tags)));
    }
  }
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++)
    gst_caps_unref (caps[i]);
  gst_tag_list_unref (tags);
}

static gboolean
has_room (GstH3Denoise *self)
{
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    if (self->outputs[i].n_buffers >= MAX_PENDING)
      return FALSE;
  }
  return TRUE;
}

/* With lock held: a live clip begins no earlier than @earliest. */
static void
move_origin (GstH3Denoise *self, GstClockTime earliest)
{
  GstClockTime start = self->origin + time_of_frames (self->frames);

  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++)
    earliest = MAX (earliest, self->outputs[i].end);
  if (earliest > start) {
    self->origin += earliest - start;
    self->discont = TRUE;
  }
}

/* When a live clip can begin: now, and the lead that makes up for what
 * follows. */
static GstClockTime
live_start (GstH3Denoise *self)
{
  GstClockTime now =
      gst_element_get_current_running_time (GST_ELEMENT_CAST (self));
  GstClockTime start = 0;

  GST_OBJECT_LOCK (self);
  if (self->timestamps == GST_H3_TIMESTAMPS_LIVE &&
      GST_CLOCK_TIME_IS_VALID (now))
    start = now + self->lead;
  GST_OBJECT_UNLOCK (self);
  return start;
}

/* With lock held. Video counts frames, audio the samples of the same time. */
static void
stamp_clip (GstH3Denoise *self, GstBuffer *buffers[GST_H3_N_OUTPUTS],
    gint frames, gint audio_samples)
{
  GstBuffer *video = buffers[GST_H3_OUTPUT_VIDEO];
  GstBuffer *audio = buffers[GST_H3_OUTPUT_AUDIO];
  GstClockTime start = self->origin + time_of_frames (self->frames);

  GST_BUFFER_PTS (video) = GST_BUFFER_PTS (audio) = start;
  GST_BUFFER_DURATION (video) =
      self->origin + time_of_frames (self->frames + frames) - start;
  GST_BUFFER_DURATION (audio) =
      gst_util_uint64_scale (audio_samples, GST_SECOND, H3_AUDIO_RATE);
  GST_BUFFER_OFFSET (video) = self->frames;
  GST_BUFFER_OFFSET_END (video) = self->frames + frames;
  GST_BUFFER_OFFSET (audio) =
      gst_util_uint64_scale_round (self->frames, H3_AUDIO_RATE, H3_FPS);
  GST_BUFFER_OFFSET_END (audio) = GST_BUFFER_OFFSET (audio) + audio_samples;
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    if (self->discont)
      GST_BUFFER_FLAG_SET (buffers[i], GST_BUFFER_FLAG_DISCONT);
  }
  self->discont = FALSE;
  self->frames += frames;
  self->running_frames = 0;
}

gboolean
gst_h3_denoise_queue_clip (GstH3Denoise *self, GstH3Job *job,
    GstBuffer *buffers[GST_H3_N_OUTPUTS], gint frames, gint audio_samples)
{
  GstClockTime earliest;
  gboolean queued;

  g_mutex_lock (&self->lock);
  while (!has_room (self) && !g_atomic_int_get (&job->cancel))
    g_cond_wait (&self->changed, &self->lock);
  g_mutex_unlock (&self->lock);
  earliest = live_start (self);
  g_mutex_lock (&self->lock);
  queued = !g_atomic_int_get (&job->cancel);
  if (queued) {
    if (earliest > 0)
      move_origin (self, earliest);
    stamp_clip (self, buffers, frames, audio_samples);
    GST_OBJECT_LOCK (self);
    self->jobs_done++;
    GST_OBJECT_UNLOCK (self);
  }
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    if (queued)
      push_item (self, &self->outputs[i], buffers[i]);
    else
      gst_buffer_unref (buffers[i]);
  }
  g_mutex_unlock (&self->lock);
  return queued;
}

/* --- the pads' tasks --- */

/* With lock held: a GAP up to now, when a live clip is being made and
 * downstream has had nothing for a while. */
static GstEvent *
make_gap (GstH3Denoise *self, GstH3Output *output, GstClockTime now)
{
  GstClockTime start = output->end;

  if (!self->running || !output->segment || !GST_CLOCK_TIME_IS_VALID (now) ||
      now <= start)
    return NULL;
  output->end = now;
  return gst_event_new_gap (start, now - start);
}

static gboolean
is_live (GstH3Denoise *self)
{
  gboolean live;

  GST_OBJECT_LOCK (self);
  live = self->timestamps == GST_H3_TIMESTAMPS_LIVE;
  GST_OBJECT_UNLOCK (self);
  return live;
}

/* The next thing to push: waits. NULL when the pad is to stop. */
static gpointer
next_item (GstH3Denoise *self, GstH3Output *output)
{
  gpointer item = NULL;

  g_mutex_lock (&self->lock);
  while (!item && !output->flushing) {
    item = g_queue_pop_head (&output->items);
    if (item)
      break;
    if (!is_live (self)) {
      g_cond_wait (&self->changed, &self->lock);
    } else if (!g_cond_wait_until (&self->changed, &self->lock,
                   g_get_monotonic_time () + GAP_INTERVAL / GST_USECOND)) {
      GstClockTime now;

      g_mutex_unlock (&self->lock);
      now = gst_element_get_current_running_time (GST_ELEMENT_CAST (self));
      g_mutex_lock (&self->lock);
      if (g_queue_is_empty (&output->items) && !output->flushing)
        item = make_gap (self, output, now);
    }
  }
  if (item && GST_IS_BUFFER (item)) {
    output->n_buffers--;
    g_cond_broadcast (&self->changed);
  }
  g_mutex_unlock (&self->lock);
  return item;
}

/* With lock held: what the pads' answers mean together. GstFlowCombiner asks the
 * pads, whose last flow an EOS event overwrites. */
static GstFlowReturn
combine_flows (const GstH3Denoise *self)
{
  guint not_linked = 0, ended = 0;

  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    GstFlowReturn flow = self->outputs[i].flow;

    if (flow <= GST_FLOW_NOT_NEGOTIATED || flow == GST_FLOW_FLUSHING)
      return flow;
    not_linked += flow == GST_FLOW_NOT_LINKED;
    ended += flow == GST_FLOW_EOS;
  }
  if (not_linked == GST_H3_N_OUTPUTS)
    return GST_FLOW_NOT_LINKED;
  return not_linked + ended == GST_H3_N_OUTPUTS ? GST_FLOW_EOS : GST_FLOW_OK;
}

/* One pad's answer; together they decide what upstream is told. A pad that is
 * not linked drops what it gets. */
static void
take_flow (GstH3Denoise *self, GstH3Output *output, GstFlowReturn ret)
{
  GstFlowReturn combined;
  gboolean fatal = FALSE;

  g_mutex_lock (&self->lock);
  if (output->flushing) {
    /* our own doing */
    g_mutex_unlock (&self->lock);
    return;
  }
  output->flow = ret;
  combined = combine_flows (self);
  if (ret != GST_FLOW_OK && ret != GST_FLOW_NOT_LINKED)
    clear_items (output);
  if (combined != GST_FLOW_OK && self->flow == GST_FLOW_OK) {
    GST_INFO_OBJECT (self, "downstream says %s", gst_flow_get_name (combined));
    self->flow = combined;
    fatal = combined == GST_FLOW_NOT_LINKED || combined < GST_FLOW_EOS;
    gst_h3_denoise_cancel_all (self);
  }
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  if (fatal)
    GST_ELEMENT_FLOW_ERROR (self, combined);
}

static void
push_buffer (GstH3Denoise *self, GstH3Output *output, GstBuffer *buffer)
{
  GstClockTime pts = GST_BUFFER_PTS (buffer);
  GstClockTime end = pts + GST_BUFFER_DURATION (buffer);
  GstFlowReturn ret;

  GST_LOG_OBJECT (output->pad, "pushing %" GST_PTR_FORMAT, buffer);
  g_mutex_lock (&self->lock);
  output->position = pts;
  output->end = end;
  g_mutex_unlock (&self->lock);
  ret = gst_pad_push (output->pad, buffer);
  take_flow (self, output, ret);
  /* who has enough waits for the stream's end, as it gets from any source */
  if (ret == GST_FLOW_EOS)
    gst_pad_push_event (output->pad, gst_event_new_eos ());
}

static void
output_loop (gpointer data)
{
  GstPad *pad = data;
  GstH3Denoise *self = GST_H3_DENOISE (GST_PAD_PARENT (pad));
  GstH3Output *output = output_of (self, pad);
  gpointer item = next_item (self, output);

  if (!item) {
    GST_DEBUG_OBJECT (pad, "pausing");
    gst_pad_pause_task (pad);
  } else if (GST_IS_BUFFER (item)) {
    push_buffer (self, output, item);
  } else {
    GST_DEBUG_OBJECT (pad, "pushing %" GST_PTR_FORMAT, item);
    gst_pad_push_event (pad, item);
  }
}

void
gst_h3_denoise_outputs_pause (GstH3Denoise *self)
{
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++)
    gst_pad_pause_task (self->outputs[i].pad);
}

void
gst_h3_denoise_outputs_resume (GstH3Denoise *self)
{
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    GstPad *pad = self->outputs[i].pad;

    if (GST_PAD_IS_ACTIVE (pad))
      gst_pad_start_task (pad, output_loop, pad, NULL);
  }
}

static gboolean
gst_h3_denoise_src_activate_mode (GstPad *pad, GstObject *parent,
    GstPadMode mode, gboolean active)
{
  GstH3Denoise *self = GST_H3_DENOISE (parent);
  GstH3Output *output = output_of (self, pad);

  if (mode != GST_PAD_MODE_PUSH)
    return FALSE;
  g_mutex_lock (&self->lock);
  output->flushing = !active;
  if (!active)
    clear_items (output);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  if (active)
    return gst_pad_start_task (pad, output_loop, pad, NULL);
  return gst_pad_stop_task (pad);
}

/* --- events and queries of the source pads --- */

static gboolean
gst_h3_denoise_src_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  GstH3Denoise *self = GST_H3_DENOISE (parent);

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_SEEK:
      GST_DEBUG_OBJECT (pad, "generated clips cannot be seeked in");
      gst_event_unref (event);
      return FALSE;
    case GST_EVENT_QOS:
      /* a generated clip is never dropped for lateness */
      gst_event_unref (event);
      return TRUE;
    case GST_EVENT_FLUSH_START:
      g_mutex_lock (&self->lock);
      gst_h3_denoise_cancel_all (self);
      g_mutex_unlock (&self->lock);
      return gst_pad_event_default (pad, parent, event);
    default:
      return gst_pad_event_default (pad, parent, event);
  }
}

GstCaps *
gst_h3_denoise_output_caps (GstH3Denoise *self, guint output,
    const H3Geometry *geometry)
{
  GstH3LatentInfo info = { .type = GST_H3_TYPE_FLOAT32 };

  if (output == GST_H3_OUTPUT_VIDEO) {
    info.modality = GST_H3_MODALITY_VIDEO;
    info.channels = self->config.video_channels;
    info.frames = geometry->latent_t;
    info.height = geometry->latent_h;
    info.width = geometry->latent_w;
  } else {
    info.modality = GST_H3_MODALITY_AUDIO;
    info.channels = self->config.audio_channels;
    info.frames = geometry->audio_t;
    info.audio_channels = 2;
  }
  return gst_h3_latent_info_to_caps (&info, FALSE);
}

static gboolean
current_geometry (GstH3Denoise *self, H3Geometry *geometry)
{
  GstH3Sampling sampling;
  gint requested;
  gboolean good;

  gst_h3_denoise_get_sampling (self, &sampling);
  good = gst_h3_denoise_follow_keyframe (self, &sampling) &&
         gst_h3_sampling_geometry (&sampling, &self->defaults, geometry,
             &requested, NULL);
  gst_h3_sampling_clear (&sampling);
  return good;
}

/* What a clip with the present settings would be, so that what follows can
 * refuse an impossible size before minutes of work. */
static void
answer_caps (GstH3Denoise *self, GstPad *pad, GstQuery *query)
{
  H3Geometry geometry;
  GstCaps *filter, *caps;

  if (self->config.video_channels > 0 && current_geometry (self, &geometry)) {
    guint output = pad == self->outputs[GST_H3_OUTPUT_VIDEO].pad
                       ? GST_H3_OUTPUT_VIDEO
                       : GST_H3_OUTPUT_AUDIO;
    GstCaps *system = gst_h3_denoise_output_caps (self, output, &geometry);

    caps = gst_h3_caps_with_features (system);
    gst_caps_unref (system);
  } else {
    /* not open, or impossible: the job will say what is wrong */
    caps = gst_pad_get_pad_template_caps (pad);
  }
  gst_query_parse_caps (query, &filter);
  if (filter) {
    GstCaps *all = caps;

    caps = gst_caps_intersect_full (filter, all, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref (all);
  }
  gst_query_set_caps_result (query, caps);
  gst_caps_unref (caps);
}

static gboolean
answer_position (GstH3Denoise *self, GstH3Output *output, GstQuery *query)
{
  GstFormat format;
  GstClockTime position;

  gst_query_parse_position (query, &format, NULL);
  g_mutex_lock (&self->lock);
  position = output->position;
  g_mutex_unlock (&self->lock);
  if (format != GST_FORMAT_TIME || !GST_CLOCK_TIME_IS_VALID (position))
    return FALSE;
  gst_query_set_position (query, format, position);
  return TRUE;
}

/* Known once no more prompts come. */
static gboolean
answer_duration (GstH3Denoise *self, GstQuery *query)
{
  GstFormat format;
  H3Geometry geometry;
  gboolean known;
  guint64 frames;
  GstClockTime origin;
  gint each = current_geometry (self, &geometry) ? geometry.frames : 0;

  gst_query_parse_duration (query, &format, NULL);
  g_mutex_lock (&self->lock);
  known = self->eos && self->flow == GST_FLOW_OK;
  frames =
      self->frames + self->running_frames + (guint64) self->n_waiting * each;
  origin = self->origin;
  g_mutex_unlock (&self->lock);
  if (format != GST_FORMAT_TIME || !known)
    return FALSE;
  gst_query_set_duration (query, format, origin + time_of_frames (frames));
  return TRUE;
}

static gboolean
answer_seeking (GstQuery *query)
{
  GstFormat format;

  gst_query_parse_seeking (query, &format, NULL, NULL, NULL);
  gst_query_set_seeking (query, format, FALSE, 0, -1);
  return TRUE;
}

static gboolean
gst_h3_denoise_src_query (GstPad *pad, GstObject *parent, GstQuery *query)
{
  GstH3Denoise *self = GST_H3_DENOISE (parent);

  switch (GST_QUERY_TYPE (query)) {
    case GST_QUERY_CAPS:
      answer_caps (self, pad, query);
      return TRUE;
    case GST_QUERY_LATENCY:
      gst_query_set_latency (query, FALSE, 0, GST_CLOCK_TIME_NONE);
      return TRUE;
    case GST_QUERY_POSITION:
      return answer_position (self, output_of (self, pad), query);
    case GST_QUERY_DURATION:
      return answer_duration (self, query);
    case GST_QUERY_SEEKING:
      return answer_seeking (query);
    default:
      return gst_pad_query_default (pad, parent, query);
  }
}

static void
add_output (GstH3Denoise *self, guint n, GstStaticPadTemplate *template,
    const gchar *name)
{
  GstH3Output *output = &self->outputs[n];
  GstPad *pad = gst_pad_new_from_static_template (template, name);

  output->pad = pad;
  output->flushing = TRUE;
  output->position = GST_CLOCK_TIME_NONE;
  g_queue_init (&output->items);
  gst_pad_set_activatemode_function (pad, gst_h3_denoise_src_activate_mode);
  gst_pad_set_event_function (pad, gst_h3_denoise_src_event);
  gst_pad_set_query_function (pad, gst_h3_denoise_src_query);
  gst_element_add_pad (GST_ELEMENT_CAST (self), pad);
}

void
gst_h3_denoise_outputs_init (GstH3Denoise *self, GstStaticPadTemplate *video,
    GstStaticPadTemplate *audio)
{
  add_output (self, GST_H3_OUTPUT_VIDEO, video, "video");
  add_output (self, GST_H3_OUTPUT_AUDIO, audio, "audio");
}
