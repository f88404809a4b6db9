/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * SECTION:element-h3denoise
 * @title: h3denoise
 * @short_description: Makes the latents of a clip and its sound from a prompt
 *
 * Prompt embeddings from h3textenc come in; for each, MiniMax H3's transformer
 * turns noise into one clip: a video latent on the pad `video` and the latent
 * of its stereo sound on the pad `audio`. h3videovae and h3audiovae make frames
 * and samples of them. Latents are normalised float32, [channels, frames,
 * height, width] and [2, channels, frames]; written with filesink they are
 * those bytes.
 *
 * Clips follow each other on one timeline that begins at 0 and has no gap
 * (`timestamps=continuous`). The properties are read when a clip begins: a
 * change affects the next one. The size and the length that a clip will have
 * are in the element message `h3-job`, posted when it begins, and in the signal
 * `job-started`; a length that had to be rounded is also reported as an INFO
 * message.
 *
 * Keyframes come in on the request pads `first_frame` and `last_frame`,
 * references on `ref_%u` (a picture or a clip) and `ref_audio_%u` (a sound, or
 * the sound of the clip of the same number), as latents of h3videovaeenc and
 * h3audiovaeenc. Each is kept for all prompts that follow, until another one
 * comes, its pad is flushed, or READY. A clip starts when every requested pad
 * has brought its latent. With a keyframe and no width and height the clip has
 * the keyframe's size. References need the release's other transformer, see
 * `partition`.
 *
 * `loras` names LoRA and Turbo adapters for the transformer, and the presets
 * `turbo-4`, `turbo-4-768p` and `turbo-8` what goes with the latter: steps and
 * shifts.
 *
 * The CAPS query is answered with what the present settings give, so that what
 * follows can refuse a size before minutes of work. A pad that is not linked is
 * fine; both not linked is an error.
 *
 * Going to READY, flushing, the action signal `cancel-job` and downstream EOS
 * end a clip within one transformer block; nothing of it is pushed. After an
 * error the element takes prompts again once it was flushed or went through
 * READY.
 *
 * Progress comes as PROGRESS messages of code `h3-load` and `h3-denoise`, and
 * as element messages `h3-progress` for programs.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 -e filesrc location=prompt.txt ! text/x-raw,format=utf8 ! h3textenc ! h3denoise name=d seed=1 d.video ! h3videovae ! x264enc ! h264parse ! mp4mux name=m ! filesink location=clip.mp4 d.audio ! h3audiovae ! audioconvert ! avenc_aac ! m.
 * ]|
 *
 * Since: 0.1
 */
#include "gst/gsth3denoise-private.h"

#include "gst/gsth3elements.h"
#include "gst/gsth3strings.h"

GST_DEBUG_CATEGORY (gst_h3_denoise_debug);
#define GST_CAT_DEFAULT gst_h3_denoise_debug

#define DEFAULT_MAX_QUEUED_JOBS 1
#define DEFAULT_TAG_PROMPT TRUE
#define DEFAULT_TIMESTAMPS GST_H3_TIMESTAMPS_CONTINUOUS
#define DEFAULT_LEAD (500 * GST_MSECOND)
#define DEFAULT_PARTITION GST_H3_PARTITION_AUTO
#define DEFAULT_QKV_LAYOUT GST_H3_QKV_LAYOUT_AUTO

enum {
  PROP_SAMPLING = GST_H3_N_COMMON_PROPS,
  PROP_MAX_QUEUED_JOBS = PROP_SAMPLING + GST_H3_N_SAMPLING_PROPS,
  PROP_TAG_PROMPT,
  PROP_TIMESTAMPS,
  PROP_LEAD,
  PROP_PARTITION,
  PROP_QKV_LAYOUT,
  PROP_LORAS,
  PROP_WEIGHT_TYPE,
};

guint gst_h3_denoise_signals[GST_H3_N_SIGNALS];

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE ("sink",
    GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_EMBEDS_CAPS));

static GstStaticPadTemplate video_template = GST_STATIC_PAD_TEMPLATE ("video",
    GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_VIDEO_LATENT_CAPS));

static GstStaticPadTemplate audio_template = GST_STATIC_PAD_TEMPLATE ("audio",
    GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_AUDIO_LATENT_CAPS));

GType
gst_h3_timestamps_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_TIMESTAMPS_CONTINUOUS,
        "Each clip begins where the one before ended: for files",
        "continuous" },
    { GST_H3_TIMESTAMPS_LIVE,
        "A clip begins no earlier than the running time at which it is ready "
        "plus \"lead\"; GAP events in between: for real-time streams",
        "live" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Timestamps", values);
}

GType
gst_h3_partition_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_PARTITION_AUTO,
        "ref2va with a reference pad when the element goes to READY, else "
        "fl2va",
        "auto" },
    { GST_H3_PARTITION_FL2VA, "From text alone, and with keyframes", "fl2va" },
    { GST_H3_PARTITION_REF2VA, "With references", "ref2va" }, { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Partition", values);
}

GType
gst_h3_qkv_layout_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_QKV_LAYOUT_AUTO,
        "By the files' form: the release's shards are grouped per head, single "
        "files and GGUF contiguous",
        "auto" },
    { GST_H3_QKV_LAYOUT_GROUPED_PER_HEAD,
        "Each head's rows of q, k and v follow each other",
        "grouped-per-head" },
    { GST_H3_QKV_LAYOUT_CONTIGUOUS, "All rows of q, then of k, then of v",
        "contiguous" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3QkvLayout", values);
}

G_DEFINE_TYPE_WITH_CODE (GstH3Denoise, gst_h3_denoise, GST_TYPE_ELEMENT,
    G_IMPLEMENT_INTERFACE (GST_TYPE_PRESET, NULL))
GST_ELEMENT_REGISTER_DEFINE_WITH_CODE (h3denoise, "h3denoise", GST_RANK_NONE,
    GST_TYPE_H3_DENOISE,
    GST_DEBUG_CATEGORY_INIT (gst_h3_denoise_debug, "h3denoise", 0,
        "H3 denoiser"))

/* --- jobs --- */

static GstH3Job *
job_new (GstH3Denoise *self, GstBuffer *embeds)
{
  GstH3Job *job = g_new0 (GstH3Job, 1);

  job->embeds = embeds;
  job->info = self->info;
  return job;
}

void
gst_h3_item_free (gpointer data)
{
  GstH3Item *item = data;

  if (item->job) {
    gst_buffer_unref (item->job->embeds);
    g_free (item->job);
  }
  if (item->event)
    gst_event_unref (item->event);
  g_free (item);
}

static void
cancel_running (GstH3Denoise *self)
{
  if (self->running)
    g_atomic_int_set (&self->running->cancel, TRUE);
}

/* With lock held. */
static void
drop_waiting (GstH3Denoise *self, gboolean events_too)
{
  GList *link = self->queue.head;

  while (link) {
    GList *next = link->next;
    GstH3Item *item = link->data;

    if (item->job || events_too) {
      g_queue_delete_link (&self->queue, link);
      gst_h3_item_free (item);
    }
    link = next;
  }
  self->n_waiting = 0;
}

void
gst_h3_denoise_cancel_all (GstH3Denoise *self)
{
  cancel_running (self);
  drop_waiting (self, FALSE);
  g_cond_broadcast (&self->changed);
}

static gboolean
gst_h3_denoise_cancel_job (GstH3Denoise *self, guint64 number)
{
  gboolean found = FALSE;

  g_mutex_lock (&self->lock);
  if (self->running && self->running->number == number) {
    cancel_running (self);
    found = TRUE;
  }
  for (GList *link = self->queue.head; link && !found; link = link->next) {
    GstH3Item *item = link->data;

    if (item->job && item->job->number == number) {
      g_queue_delete_link (&self->queue, link);
      gst_h3_item_free (item);
      self->n_waiting--;
      found = TRUE;
      break;
    }
  }
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  return found;
}

void
gst_h3_denoise_get_sampling (GstH3Denoise *self, GstH3Sampling *sampling)
{
  GST_OBJECT_LOCK (self);
  gst_h3_sampling_copy (sampling, &self->sampling);
  GST_OBJECT_UNLOCK (self);
}

gboolean
gst_h3_denoise_get_size (GstH3Denoise *self, gint *width, gint *height,
    gint *frames)
{
  GstH3Sampling sampling;
  H3Geometry geometry;
  gint requested;
  gboolean good;

  gst_h3_denoise_get_sampling (self, &sampling);
  good = gst_h3_sampling_geometry (&sampling, &self->defaults, &geometry,
      &requested, NULL);
  gst_h3_sampling_clear (&sampling);
  if (good) {
    *width = geometry.width;
    *height = geometry.height;
    *frames = geometry.frames;
  }
  return good;
}

/* --- the sink pad --- */

static gboolean
queue_is_full (GstH3Denoise *self)
{
  guint max;

  GST_OBJECT_LOCK (self);
  max = self->max_queued_jobs;
  GST_OBJECT_UNLOCK (self);
  return self->n_waiting >= max;
}

/* Waits for a place, or for a reason not to want one. */
static GstFlowReturn
enqueue_job (GstH3Denoise *self, GstH3Item *item)
{
  GstFlowReturn ret;

  g_mutex_lock (&self->lock);
  while (!self->flushing && self->flow == GST_FLOW_OK && queue_is_full (self))
    g_cond_wait (&self->changed, &self->lock);
  ret = self->flushing ? GST_FLOW_FLUSHING : self->flow;
  if (ret == GST_FLOW_OK) {
    item->job->number = self->next_job++;
    g_queue_push_tail (&self->queue, item);
    self->n_waiting++;
    g_cond_broadcast (&self->changed);
  }
  g_mutex_unlock (&self->lock);
  if (ret != GST_FLOW_OK)
    gst_h3_item_free (item);
  return ret;
}

static GstFlowReturn
gst_h3_denoise_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstH3Denoise *self = GST_H3_DENOISE (parent);
  GstH3Item *item;

  if (!self->have_info) {
    gst_buffer_unref (buffer);
    return GST_FLOW_NOT_NEGOTIATED;
  }
  if (gst_buffer_get_size (buffer) != gst_h3_embeds_info_size (&self->info)) {
    gst_h3_common_fail (&self->common,
        g_error_new (H3_ERROR, H3_ERROR_FORMAT,
            "The prompt embeddings have %" G_GSIZE_FORMAT " bytes; their caps "
            "(%d tokens of %d float32) need %" G_GSIZE_FORMAT,
            gst_buffer_get_size (buffer), self->info.tokens, self->info.hidden,
            gst_h3_embeds_info_size (&self->info)));
    gst_buffer_unref (buffer);
    return GST_FLOW_ERROR;
  }
  item = g_new0 (GstH3Item, 1);
  item->job = job_new (self, buffer);
  return enqueue_job (self, item);
}

static gboolean
set_caps (GstH3Denoise *self, GstCaps *caps)
{
  GError *error = NULL;

  self->have_info = gst_h3_embeds_info_from_caps (&self->info, caps, &error);
  if (self->have_info && self->info.hidden != self->config.text_dim) {
    self->have_info = FALSE;
    g_set_error (&error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "The prompt embeddings have hidden=%d, and this transformer takes "
        "hidden=%d: text encoder and transformer are of different checkpoints",
        self->info.hidden, self->config.text_dim);
  }
  if (!self->have_info)
    gst_h3_common_fail (&self->common, error);
  return self->have_info;
}

/* Keeps an event in its place after the jobs before it. */
static gboolean
enqueue_event (GstH3Denoise *self, GstEvent *event)
{
  gboolean queued;

  g_mutex_lock (&self->lock);
  queued = !self->flushing;
  if (queued) {
    GstH3Item *item = g_new0 (GstH3Item, 1);

    if (GST_EVENT_TYPE (event) == GST_EVENT_EOS)
      self->eos = TRUE;
    item->event = event;
    g_queue_push_tail (&self->queue, item);
    g_cond_broadcast (&self->changed);
  }
  g_mutex_unlock (&self->lock);
  if (!queued)
    gst_event_unref (event);
  return queued;
}

static gboolean
flush_start (GstH3Denoise *self, GstEvent *event)
{
  g_mutex_lock (&self->lock);
  self->flushing = TRUE;
  self->generation++;
  gst_h3_denoise_cancel_all (self);
  drop_waiting (self, TRUE);
  gst_h3_denoise_outputs_set_flushing (self, TRUE);
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++)
    gst_pad_push_event (self->outputs[i].pad, gst_event_ref (event));
  gst_event_unref (event);
  gst_h3_denoise_outputs_pause (self);
  return TRUE;
}

static gboolean
flush_stop (GstH3Denoise *self, GstEvent *event)
{
  gboolean reset_time;

  gst_event_parse_flush_stop (event, &reset_time);
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++)
    gst_pad_push_event (self->outputs[i].pad, gst_event_ref (event));
  gst_event_unref (event);
  gst_h3_common_begin (&self->common);
  g_mutex_lock (&self->lock);
  /* going to READY, nobody would work off what came in now */
  if (!self->stop) {
    self->flushing = FALSE;
    gst_h3_denoise_outputs_reset (self, reset_time);
    gst_h3_denoise_outputs_set_flushing (self, FALSE);
  }
  g_mutex_unlock (&self->lock);
  gst_h3_denoise_outputs_resume (self);
  return TRUE;
}

static void
take_stream_start (GstH3Denoise *self, GstEvent *event)
{
  guint group_id;

  g_mutex_lock (&self->lock);
  self->eos = FALSE;
  if (gst_event_parse_group_id (event, &group_id))
    self->group_id = group_id;
  else if (self->group_id == GST_GROUP_ID_INVALID)
    self->group_id = gst_util_group_id_next ();
  g_mutex_unlock (&self->lock);
}

static gboolean
gst_h3_denoise_sink_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  GstH3Denoise *self = GST_H3_DENOISE (parent);
  gboolean ret = TRUE;
  GstCaps *caps;

  GST_DEBUG_OBJECT (pad, "%" GST_PTR_FORMAT, event);
  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_FLUSH_START:
      return flush_start (self, event);
    case GST_EVENT_FLUSH_STOP:
      return flush_stop (self, event);
    case GST_EVENT_CAPS:
      gst_event_parse_caps (event, &caps);
      ret = set_caps (self, caps);
      gst_event_unref (event);
      return ret;
    case GST_EVENT_STREAM_START:
      take_stream_start (self, event);
      return enqueue_event (self, event);
    case GST_EVENT_SEGMENT:
    case GST_EVENT_TAG:
    case GST_EVENT_GAP:
    case GST_EVENT_TOC:
      /* of the prompts' stream; the clips have their own */
      gst_event_unref (event);
      return TRUE;
    default:
      if (GST_EVENT_IS_SERIALIZED (event))
        return enqueue_event (self, event);
      return gst_pad_event_default (pad, parent, event);
  }
}

static gboolean
gst_h3_denoise_sink_query (GstPad *pad, GstObject *parent, GstQuery *query)
{
  GstH3Denoise *self = GST_H3_DENOISE (parent);
  GstCaps *filter, *caps;

  if (GST_QUERY_TYPE (query) != GST_QUERY_CAPS)
    return gst_pad_query_default (pad, parent, query);
  caps = gst_pad_get_pad_template_caps (pad);
  if (self->config.text_dim > 0) {
    caps = gst_caps_make_writable (caps);
    gst_caps_set_simple (caps, "hidden", G_TYPE_INT, self->config.text_dim,
        NULL);
  }
  gst_query_parse_caps (query, &filter);
  if (filter) {
    GstCaps *all = caps;

    caps = gst_caps_intersect_full (filter, all, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref (all);
  }
  gst_query_set_caps_result (query, caps);
  gst_caps_unref (caps);
  return TRUE;
}

/* --- states --- */

/* Settings that no clip can have are refused here, not after loading. */
static gboolean
check_settings (GstH3Denoise *self)
{
  GstH3Sampling sampling;
  GstH3Clip clip;
  GError *error = NULL;
  gboolean good;

  gst_h3_denoise_get_sampling (self, &sampling);
  good = gst_h3_sampling_resolve (&sampling, &self->defaults, &clip, &error);
  gst_h3_clip_clear (&clip);
  gst_h3_sampling_clear (&sampling);
  if (!good)
    gst_h3_common_fail (&self->common, error);
  return good;
}

static void
start_worker (GstH3Denoise *self)
{
  g_mutex_lock (&self->lock);
  self->stop = FALSE;
  self->flushing = FALSE;
  self->next_job = 0;
  gst_h3_denoise_outputs_reset (self, TRUE);
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++)
    self->outputs[i].started = FALSE;
  self->group_id = GST_GROUP_ID_INVALID;
  gst_h3_denoise_forget_conditions (self);
  g_mutex_unlock (&self->lock);
  self->have_info = FALSE;
  self->worker = g_thread_new ("h3-denoise", gst_h3_denoise_work, self);
}

/* Before the pads are deactivated: nobody may be left waiting. */
static void
tell_worker_to_stop (GstH3Denoise *self)
{
  g_mutex_lock (&self->lock);
  self->stop = TRUE;
  self->flushing = TRUE;
  self->generation++;
  gst_h3_denoise_cancel_all (self);
  drop_waiting (self, TRUE);
  gst_h3_denoise_outputs_set_flushing (self, TRUE);
  g_mutex_unlock (&self->lock);
}

static void
join_worker (GstH3Denoise *self)
{
  if (!self->worker)
    return;
  tell_worker_to_stop (self);
  g_clear_pointer (&self->worker, g_thread_join);
}

static GstStateChangeReturn
gst_h3_denoise_change_state (GstElement *element, GstStateChange transition)
{
  GstH3Denoise *self = GST_H3_DENOISE (element);
  GstStateChangeReturn ret;

  if (!gst_h3_common_before_state_change (&self->common, transition))
    return GST_STATE_CHANGE_FAILURE;
  switch (transition) {
    case GST_STATE_CHANGE_READY_TO_PAUSED:
      if (!check_settings (self)) {
        gst_h3_common_after_state_change (&self->common, transition,
            GST_STATE_CHANGE_FAILURE);
        return GST_STATE_CHANGE_FAILURE;
      }
      start_worker (self);
      break;
    case GST_STATE_CHANGE_PAUSED_TO_READY:
      tell_worker_to_stop (self);
      break;
    default:
      break;
  }
  ret = GST_ELEMENT_CLASS (gst_h3_denoise_parent_class)
            ->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY ||
      (transition == GST_STATE_CHANGE_READY_TO_PAUSED &&
          ret == GST_STATE_CHANGE_FAILURE))
    join_worker (self);
  gst_h3_common_after_state_change (&self->common, transition, ret);
  return ret;
}

/* --- properties --- */

static void
gst_h3_denoise_set_property (GObject *object, guint prop_id,
    const GValue *value, GParamSpec *pspec)
{
  GstH3Denoise *self = GST_H3_DENOISE (object);

  if (gst_h3_common_set_property (&self->common, prop_id, value))
    return;
  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_MAX_QUEUED_JOBS:
      self->max_queued_jobs = g_value_get_uint (value);
      break;
    case PROP_TAG_PROMPT:
      self->tag_prompt = g_value_get_boolean (value);
      break;
    case PROP_TIMESTAMPS:
      self->timestamps = g_value_get_enum (value);
      break;
    case PROP_LEAD:
      self->lead = g_value_get_uint64 (value);
      break;
    case PROP_PARTITION:
      self->partition = g_value_get_enum (value);
      break;
    case PROP_LORAS:
      g_strfreev (self->loras);
      self->loras = gst_h3_strings_from_array (value);
      self->common.reopen = TRUE;
      break;
    case PROP_QKV_LAYOUT:
      self->qkv_layout = g_value_get_enum (value);
      self->common.reopen = TRUE;
      break;
    case PROP_WEIGHT_TYPE:
      self->weight_type = g_value_get_enum (value);
      self->common.reopen = TRUE;
      break;
    default:
      if (!gst_h3_sampling_set (&self->sampling, prop_id - PROP_SAMPLING,
              value))
        G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);

  /* who waits for a place in the queue, or for a gap, looks again */
  g_mutex_lock (&self->lock);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static void
gst_h3_denoise_get_property (GObject *object, guint prop_id, GValue *value,
    GParamSpec *pspec)
{
  GstH3Denoise *self = GST_H3_DENOISE (object);

  if (gst_h3_common_get_property (&self->common, prop_id, value))
    return;
  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_MAX_QUEUED_JOBS:
      g_value_set_uint (value, self->max_queued_jobs);
      break;
    case PROP_TAG_PROMPT:
      g_value_set_boolean (value, self->tag_prompt);
      break;
    case PROP_TIMESTAMPS:
      g_value_set_enum (value, self->timestamps);
      break;
    case PROP_LEAD:
      g_value_set_uint64 (value, self->lead);
      break;
    case PROP_PARTITION:
      g_value_set_enum (value, self->partition);
      break;
    case PROP_LORAS:
      gst_h3_strings_to_array (self->loras, value);
      break;
    case PROP_QKV_LAYOUT:
      g_value_set_enum (value, self->qkv_layout);
      break;
    case PROP_WEIGHT_TYPE:
      g_value_set_enum (value, self->weight_type);
      break;
    default:
      if (!gst_h3_sampling_get (&self->sampling, prop_id - PROP_SAMPLING,
              value))
        G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_h3_denoise_finalize (GObject *object)
{
  GstH3Denoise *self = GST_H3_DENOISE (object);

  gst_h3_common_clear (&self->common);
  gst_h3_sampling_clear (&self->sampling);
  g_strfreev (self->loras);
  gst_h3_denoise_conditions_finalize (self);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  G_OBJECT_CLASS (gst_h3_denoise_parent_class)->finalize (object);
}

static void
install_properties (GObjectClass *klass)
{
  const GParamFlags flags =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_TIMESTAMPS, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_PARTITION, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_QKV_LAYOUT, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_WEIGHT_TYPE, 0);
  gst_h3_sampling_install_properties (klass, PROP_SAMPLING);
  g_object_class_install_property (klass, PROP_MAX_QUEUED_JOBS,
      g_param_spec_uint ("max-queued-jobs", "Maximum queued jobs",
          "Prompts that may wait behind the one being worked on; more block "
          "upstream.",
          1, G_MAXINT, DEFAULT_MAX_QUEUED_JOBS, flags));
  g_object_class_install_property (klass, PROP_TAG_PROMPT,
      g_param_spec_boolean ("tag-prompt", "Tag prompt",
          "Put the prompt into the clip's description tag, where muxers write "
          "it into the file.",
          DEFAULT_TAG_PROMPT, flags));
  g_object_class_install_property (klass, PROP_TIMESTAMPS,
      g_param_spec_enum ("timestamps", "Timestamps",
          "Where on the timeline a clip begins.", GST_TYPE_H3_TIMESTAMPS,
          DEFAULT_TIMESTAMPS, flags));
  g_object_class_install_property (klass, PROP_LEAD,
      g_param_spec_uint64 ("lead", "Lead",
          "With timestamps=live: nanoseconds from the moment a clip's latents "
          "are ready to the moment it begins, time for decoding and encoding.",
          0, G_MAXINT64, DEFAULT_LEAD, flags));
  g_object_class_install_property (klass, PROP_PARTITION,
      g_param_spec_enum ("partition", "Partition",
          "Which of the release's two transformers to use.",
          GST_TYPE_H3_PARTITION, DEFAULT_PARTITION,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_READY));
  g_object_class_install_property (klass, PROP_QKV_LAYOUT,
      g_param_spec_enum ("qkv-layout", "q, k, v layout",
          "The order of the rows of the transformer's fused q, k, v, for files "
          "whose maker kept another than their form says.",
          GST_TYPE_H3_QKV_LAYOUT, DEFAULT_QKV_LAYOUT,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_READY));
  /**
   * GstH3Denoise:loras:
   *
   * <turbo.safetensors, style.safetensors:0.8>
   *
   * Since: 0.1
   */
  g_object_class_install_property (klass, PROP_LORAS,
      gst_param_spec_array ("loras", "LoRA adapters",
          "Paths or URIs of LoRA and Turbo adapters for the transformer, which "
          "add up; each may have a colon and its strength behind it, else 1: "
          "<turbo.safetensors, style.safetensors:0.8>.",
          g_param_spec_string ("lora", "LoRA adapter",
              "Path or URI, or that, a colon and a strength", NULL,
              G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS),
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_READY));
  g_object_class_install_property (klass, PROP_WEIGHT_TYPE,
      gst_h3_weight_type_spec ());
}

static void
install_signals (GType type)
{
  /**
   * GstH3Denoise::job-started:
   * @job: the clip's number, from 0
   * @settings: what the clip will be: seed, steps, frames, requested-frames,
   *   width, height, schedule, solver, noise-mode, shift-video, shift-audio,
   * model
   *
   * From the worker thread: do not block.
   */
  gst_h3_denoise_signals[GST_H3_SIGNAL_JOB_STARTED] =
      g_signal_new ("job-started", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
          G_TYPE_NONE, 2, G_TYPE_UINT64,
          GST_TYPE_STRUCTURE | G_SIGNAL_TYPE_STATIC_SCOPE);
  /**
   * GstH3Denoise::job-step:
   * @job: the clip's number
   * @step: steps done
   * @total: steps in all
   *
   * From the worker thread: do not block.
   */
  gst_h3_denoise_signals[GST_H3_SIGNAL_JOB_STEP] =
      g_signal_new ("job-step", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
          G_TYPE_NONE, 3, G_TYPE_UINT64, G_TYPE_UINT, G_TYPE_UINT);
  /**
   * GstH3Denoise::job-done:
   * @job: the clip's number
   * @stats: as the property `stats`, and `result`: done, cancelled or failed
   *
   * Once for each job-started. From the worker thread: do not block.
   */
  gst_h3_denoise_signals[GST_H3_SIGNAL_JOB_DONE] = g_signal_new ("job-done",
      type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 2,
      G_TYPE_UINT64, GST_TYPE_STRUCTURE | G_SIGNAL_TYPE_STATIC_SCOPE);
  /**
   * GstH3Denoise::cancel-job:
   * @job: the number of a clip that runs or waits
   *
   * Ends it within one transformer block; the clips after it go on.
   *
   * Returns: whether there was such a job
   */
  gst_h3_denoise_signals[GST_H3_SIGNAL_CANCEL_JOB] =
      g_signal_new_class_handler ("cancel-job", type,
          G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
          G_CALLBACK (gst_h3_denoise_cancel_job), NULL, NULL, NULL,
          G_TYPE_BOOLEAN, 1, G_TYPE_UINT64);
}

static void
gst_h3_denoise_class_init (GstH3DenoiseClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);

  object_class->set_property = gst_h3_denoise_set_property;
  object_class->get_property = gst_h3_denoise_get_property;
  object_class->finalize = gst_h3_denoise_finalize;
  element_class->change_state = gst_h3_denoise_change_state;

  gst_h3_common_class_init (element_class);
  install_properties (object_class);
  install_signals (G_TYPE_FROM_CLASS (klass));

  gst_element_class_add_static_pad_template (element_class, &sink_template);
  gst_element_class_add_static_pad_template (element_class, &video_template);
  gst_element_class_add_static_pad_template (element_class, &audio_template);
  gst_h3_denoise_conditions_class_init (element_class);
  gst_element_class_set_static_metadata (element_class, "MiniMax H3 denoiser",
      "Filter/Generator/Audio/Video",
      "Makes a clip from each prompt's embeddings with the transformer of "
      "MiniMax H3: a latent of video (24 frames a second) on pad \"video\" and "
      "the latent of its stereo sound (32 kHz) on pad \"audio\"",
      "The gst-h3 developers");
}

static void
gst_h3_denoise_init (GstH3Denoise *self)
{
  gst_h3_common_init (&self->common, GST_ELEMENT_CAST (self),
      &gst_h3_denoise_common_funcs);
  gst_h3_sampling_init (&self->sampling);
  self->max_queued_jobs = DEFAULT_MAX_QUEUED_JOBS;
  self->tag_prompt = DEFAULT_TAG_PROMPT;
  self->timestamps = DEFAULT_TIMESTAMPS;
  self->lead = DEFAULT_LEAD;
  self->partition = DEFAULT_PARTITION;
  self->qkv_layout = DEFAULT_QKV_LAYOUT;
  self->weight_type = GST_H3_DEFAULT_WEIGHT_TYPE;
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  g_queue_init (&self->queue);

  self->sinkpad = gst_pad_new_from_static_template (&sink_template, "sink");
  gst_pad_set_chain_function (self->sinkpad, gst_h3_denoise_chain);
  gst_pad_set_event_function (self->sinkpad, gst_h3_denoise_sink_event);
  gst_pad_set_query_function (self->sinkpad, gst_h3_denoise_sink_query);
  gst_element_add_pad (GST_ELEMENT_CAST (self), self->sinkpad);
  gst_h3_denoise_outputs_init (self, &video_template, &audio_template);
}
