/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The worker of h3denoise: takes jobs in order and makes each a clip. */
#include "gst/gsth3denoise-private.h"

#include "gst/gsth3enums.h"
#include "gst/gsth3negotiate.h"
#include "gst/gsth3strings.h"
#include "gst/gsth3tensor.h"
#include "model/checkpoint/adapter.h"
#include "model/printable.h"

#define GST_CAT_DEFAULT gst_h3_denoise_debug

/* Rows of text to plan memory for, before the prompt is known. */
#define TYPICAL_TOKENS 512

/* Reading weights for this long is worth a message. */
#define SHOW_AFTER (G_USEC_PER_SEC / 2)

/* What a job needs while it runs; lives on the worker's stack. */
typedef struct {
  GstH3Denoise *self;
  GstH3Job *job;
  GstH3Clip clip;
  GstH3Conditions conditions;
  H3Transformer *transformer; /* the element's */
  GstStructure *settings; /* what the clip is: signals, messages, metadata */
  GstH3ProgressReport report;
  GstH3ProgressReport tables; /* begins when it takes long enough to see */
  gint64 tables_began;
} Run;

/* --- the model --- */

static gboolean
transformer_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    guint64 *weight_bytes, GError **error)
{
  H3TransformerConfig config;

  return h3_transformer_plan (checkpoint, device, &config, weight_bytes, error);
}

static gpointer
transformer_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  return h3_transformer_load (checkpoint, device, stop, progress, user_data,
      error);
}

static void
transformer_unref (gpointer model)
{
  h3_transformer_unref (model);
}

static GPtrArray *
transformer_tensors (gpointer model)
{
  return h3_transformer_tensors (model);
}

static const GstH3ModelKind transformer_kind = {
  .name = "transformer",
  .stage = 2,
  .component = H3_COMPONENT_TRANSFORMER,
  .plan = transformer_plan,
  .load = transformer_load,
  .tensors = transformer_tensors,
  .unref = transformer_unref,
};

static H3Partition
denoise_partition (GstElement *element)
{
  GstH3Denoise *self = GST_H3_DENOISE (element);
  GstH3Partition partition;

  GST_OBJECT_LOCK (self);
  partition = self->partition;
  GST_OBJECT_UNLOCK (self);
  if (partition == GST_H3_PARTITION_AUTO &&
      gst_h3_denoise_has_references (self))
    partition = GST_H3_PARTITION_REF2VA;
  self->opened_partition = partition == GST_H3_PARTITION_REF2VA
                               ? H3_PARTITION_REF2VA
                               : H3_PARTITION_FL2VA;
  return self->opened_partition;
}

static gboolean
denoise_opening (GstElement *element, H3Checkpoint *checkpoint)
{
  static const H3QkvOrder orders[] = {
    [GST_H3_QKV_LAYOUT_AUTO] = H3_QKV_AUTO,
    [GST_H3_QKV_LAYOUT_GROUPED_PER_HEAD] = H3_QKV_GROUPED,
    [GST_H3_QKV_LAYOUT_CONTIGUOUS] = H3_QKV_CONTIGUOUS,
  };
  GstH3Denoise *self = GST_H3_DENOISE (element);
  GstH3QkvLayout layout;
  g_autoptr (GArray) loras = NULL;
  gboolean said, fp8;

  GST_OBJECT_LOCK (self);
  layout = self->qkv_layout;
  fp8 = self->weight_type == GST_H3_WEIGHT_TYPE_FP8;
  loras = gst_h3_loras_parse (self->loras);
  said = self->partition != GST_H3_PARTITION_AUTO;
  GST_OBJECT_UNLOCK (self);
  h3_checkpoint_set_qkv_order (checkpoint, orders[layout]);
  h3_checkpoint_set_adapters (checkpoint, (const H3AdapterChoice *) loras->data,
      loras->len);
  h3_checkpoint_set_weight_type (checkpoint,
      fp8 ? H3_WEIGHTS_FP8 : H3_WEIGHTS_AS_STORED);
  return said;
}

/* What of them is left out. */
static void
warn_of_adapters (GstH3Denoise *self, const H3Checkpoint *checkpoint)
{
  guint n;
  const H3AdapterChoice *choices = h3_checkpoint_adapters (checkpoint, &n);
  g_autoptr (H3Adapters) adapters =
      n > 0 ? h3_adapters_open (choices, n, NULL) : NULL;

  for (guint i = 0; adapters && i < n; i++) {
    const H3AdapterInfo *info = h3_adapters_info (adapters, i);

    for (guint k = 0; k < info->warnings->len; k++) {
      g_autofree gchar *warning = h3_printable (info->warnings->pdata[k]);

      GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS,
          ("%s: %s", info->path, warning), ("one of loras"));
    }
  }
}

static gboolean
denoise_opened (GstElement *element, const H3Checkpoint *checkpoint,
    GError **error)
{
  GstH3Denoise *self = GST_H3_DENOISE (element);
  guint64 bytes;

  if (!h3_transformer_plan (checkpoint, NULL, &self->config, &bytes, error))
    return FALSE;
  h3_checkpoint_shifts (checkpoint, &self->defaults.shift_video,
      &self->defaults.shift_audio);
  self->defaults.demo = self->common.is_demo;
  warn_of_adapters (self, checkpoint);
  return TRUE;
}

/* @others: rows of text and conditions */
static guint64
job_workspace (GstH3Denoise *self, const GstH3Clip *clip, gint64 others)
{
  const H3Geometry *g = &clip->request.geometry;

  return h3_transformer_workspace (&self->config, self->common.device,
      (gint) MIN (g->video_rows + g->audio_rows + others, G_MAXINT),
      clip->schedule->steps);
}

/* At the present settings; impossible ones are reported when a job starts. */
static guint64
denoise_workspace (GstElement *element)
{
  GstH3Denoise *self = GST_H3_DENOISE (element);
  GstH3Sampling sampling;
  GstH3Clip clip;
  guint64 bytes = 0;

  gst_h3_denoise_get_sampling (self, &sampling);
  if (gst_h3_sampling_resolve (&sampling, &self->defaults, &clip, NULL))
    bytes = job_workspace (self, &clip, TYPICAL_TOKENS);
  gst_h3_clip_clear (&clip);
  gst_h3_sampling_clear (&sampling);
  return bytes;
}

static void
denoise_add_stats (GstElement *element, GstStructure *stats)
{
  GstH3Denoise *self = GST_H3_DENOISE (element);

  GST_OBJECT_LOCK (self);
  gst_structure_set (stats, "jobs-done", G_TYPE_UINT64, self->jobs_done,
      "jobs-failed", G_TYPE_UINT64, self->jobs_failed, "jobs-cancelled",
      G_TYPE_UINT64, self->jobs_cancelled, "denoise-ms", G_TYPE_UINT,
      self->denoise_ms, "step-us", G_TYPE_UINT, self->step_us,
      "workspace-bytes", G_TYPE_UINT64, self->workspace_bytes, NULL);
  GST_OBJECT_UNLOCK (self);
}

const GstH3CommonFuncs gst_h3_denoise_common_funcs = {
  .kind = &transformer_kind,
  .partition = denoise_partition,
  .opening = denoise_opening,
  .opened = denoise_opened,
  .workspace = denoise_workspace,
  .add_stats = denoise_add_stats,
};

/* --- what a job says about itself --- */

/* Fields that h3textenc put there travel on, but for the prompt's text. */
static void
copy_prompt_fields (GstStructure *settings, GstBuffer *embeds)
{
  static const gchar *const fields[] = { "task", "tokens", "prompt-sha256" };
  const GstStructure *from = gst_h3_buffer_get_job (embeds);

  for (guint i = 0; from && i < G_N_ELEMENTS (fields); i++) {
    const GValue *value = gst_structure_get_value (from, fields[i]);

    if (value)
      gst_structure_set_value (settings, fields[i], value);
  }
}

static GstStructure *
describe_settings (Run *run)
{
  const H3DenoiseRequest *r = &run->clip.request;
  GstStructure *settings = gst_structure_new ("h3-job", "job", G_TYPE_UINT64,
      run->job->number, "seed", G_TYPE_UINT64, r->seed, "steps", G_TYPE_UINT,
      (guint) r->schedule->steps, "frames", G_TYPE_UINT,
      (guint) r->geometry.frames, "requested-frames", G_TYPE_UINT,
      (guint) run->clip.requested_frames, "width", G_TYPE_INT,
      r->geometry.width, "height", G_TYPE_INT, r->geometry.height, "schedule",
      G_TYPE_STRING,
      gst_h3_enum_nick (GST_TYPE_H3_SCHEDULE, run->clip.schedule_kind),
      "solver", G_TYPE_STRING, gst_h3_enum_nick (GST_TYPE_H3_SOLVER, r->solver),
      "noise-mode", G_TYPE_STRING,
      gst_h3_enum_nick (GST_TYPE_H3_NOISE_MODE, r->noise_mode), "shift-video",
      G_TYPE_DOUBLE, r->shift_v, "shift-audio", G_TYPE_DOUBLE, r->shift_a,
      "model", G_TYPE_STRING, run->self->common.model_name, NULL);

  copy_prompt_fields (settings, run->job->embeds);
  return settings;
}

/* The fields of GstH3JobMeta: what the clip is, not how it was asked for. */
static void
add_job_meta (GstBuffer *buffer, const GstStructure *settings)
{
  static const gchar *const left_out[] = { "requested-frames", "schedule",
    "solver", "noise-mode", "shift-video", "shift-audio" };
  GstStructure *job = gst_structure_copy (settings);

  for (guint i = 0; i < G_N_ELEMENTS (left_out); i++)
    gst_structure_remove_field (job, left_out[i]);
  gst_h3_buffer_add_job (buffer, job);
  gst_structure_free (job);
}

static GstTagList *
make_tags (Run *run)
{
  const H3DenoiseRequest *r = &run->clip.request;
  const GstStructure *from = gst_h3_buffer_get_job (run->job->embeds);
  const gchar *prompt = from ? gst_structure_get_string (from, "prompt") : NULL;
  gchar *comment = g_strdup_printf ("seed=%" G_GUINT64_FORMAT " steps=%d "
                                    "model=%s",
      r->seed, r->schedule->steps, run->self->common.model_name);
  GstTagList *tags = gst_tag_list_new (GST_TAG_COMMENT, comment,
      GST_TAG_APPLICATION_NAME, PACKAGE " " VERSION, NULL);
  gboolean tag_prompt;

  GST_OBJECT_LOCK (run->self);
  tag_prompt = run->self->tag_prompt;
  GST_OBJECT_UNLOCK (run->self);
  if (tag_prompt && prompt && *prompt) {
    gst_tag_list_add (tags, GST_TAG_MERGE_REPLACE, GST_TAG_DESCRIPTION, prompt,
        NULL);
  }
  g_free (comment);
  return tags;
}

/* Says what the clip will be: to programs always, to people when it is not what
 * they asked for. */
static void
report_length (Run *run)
{
  GstH3Denoise *self = run->self;
  gint frames = run->clip.request.geometry.frames;
  gint requested = run->clip.requested_frames;

  gst_element_post_message (GST_ELEMENT_CAST (self),
      gst_message_new_element (GST_OBJECT_CAST (self),
          gst_structure_copy (run->settings)));
  if (frames != requested) {
    GST_ELEMENT_INFO (self, LIBRARY, SETTINGS,
        ("%d frames were asked for; H3 makes 17 k + 5, so the clip has %d "
         "(%.3f s)",
            requested, frames, frames / (gdouble) H3_FPS),
        (NULL));
  }
  if (run->clip.untrained_length) {
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS,
        ("A clip of %d frames is outside the 107 to 362 frames H3 is trained "
         "on; set frames or duration for better ones",
            frames),
        (NULL));
  }
}

/* --- computing --- */

static gboolean
should_stop (gpointer data)
{
  GstH3Job *job = data;

  return g_atomic_int_get (&job->cancel);
}

static void
step_done (gint step, gint steps, gpointer data)
{
  Run *run = data;

  GST_DEBUG_OBJECT (run->self, "job %" G_GUINT64_FORMAT ": step %d/%d",
      run->job->number, step, steps);
  /* all of its memory is allocated */
  gst_h3_common_settle (&run->self->common);
  gst_h3_progress_update (&run->report, step, steps);
  g_signal_emit (run->self, gst_h3_denoise_signals[GST_H3_SIGNAL_JOB_STEP], 0,
      run->job->number, (guint) step, (guint) steps);
}

/* The released model reads 26 GB before the first clip of a schedule. */
static void
tables_progress (guint64 done, guint64 total, gpointer data)
{
  Run *run = data;
  gint64 now = g_get_monotonic_time ();

  if (run->tables_began == 0)
    run->tables_began = now;
  if (!run->tables.started && now - run->tables_began >= SHOW_AFTER) {
    gst_h3_progress_start (&run->tables, GST_ELEMENT_CAST (run->self), "load",
        NULL, run->job->number, total, run->report.peak_bytes,
        "reading the modulation weights for this schedule");
  }
  gst_h3_progress_update (&run->tables, done, total);
  if (done == total)
    gst_h3_progress_end (&run->tables, NULL);
}

static gboolean
check_linked (GstH3Denoise *self, GError **error)
{
  for (guint i = 0; i < GST_H3_N_OUTPUTS; i++) {
    if (gst_pad_is_linked (self->outputs[i].pad))
      return TRUE;
  }
  g_set_error_literal (error, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
      "Neither pad \"video\" nor pad \"audio\" is linked to anything: link at "
      "least one");
  return FALSE;
}

/* Asks downstream before the work, and announces what comes. */
static gboolean
negotiate (Run *run, GError **error)
{
  GstH3Denoise *self = run->self;
  GstCaps *caps[GST_H3_N_OUTPUTS] = {
    NULL,
  };
  gboolean good = check_linked (self, error);

  for (guint i = 0; i < GST_H3_N_OUTPUTS && good; i++) {
    caps[i] = gst_h3_choose_caps (self->outputs[i].pad,
        gst_h3_denoise_output_caps (self, i, &run->clip.request.geometry),
        error);
    good = caps[i] != NULL;
  }
  if (good) {
    gst_h3_denoise_queue_header (self, run->job, caps, make_tags (run));
  } else {
    for (guint i = 0; i < GST_H3_N_OUTPUTS; i++)
      gst_clear_caps (&caps[i]);
  }
  return good;
}

/* int32 [tokens]: what is seen is tagged as video (packing.md 4.1). NULL when
 * all is text. */
static gint32 *
text_tags (const GstH3EmbedsInfo *info)
{
  gint32 *tags;

  if (info->n_vision == 0)
    return NULL;
  tags = g_new (gint32, info->tokens);
  for (gint i = 0; i < info->tokens; i++)
    tags[i] = H3_TAG_TEXT;
  for (guint k = 0; k < info->n_vision; k++)
    for (gint i = 0; i < info->vision[k].n; i++)
      tags[info->vision[k].first + i] = H3_TAG_VIDEO;
  return tags;
}

/* With the device's turn. */
static gboolean
compute (Run *run, const H3Stop *stop, H3Tensor **video, H3Tensor **audio,
    GError **error)
{
  GstH3Denoise *self = run->self;
  const GstH3EmbedsInfo *info = &run->job->info;
  const gint64 shape[] = { info->tokens, info->hidden };
  g_autofree gint32 *tags = text_tags (info);
  H3Tensor *embeds;
  gboolean good;

  if (!self->stream &&
      !(self->stream = h3_stream_new (self->common.device, error)))
    return FALSE;
  embeds = gst_h3_tensor_from_buffer (run->job->embeds, self->stream,
      gst_h3_type_to_dtype (info->type), 2, shape, "prompt embeddings", error);
  if (!embeds)
    return FALSE;
  good = gst_h3_conditions_to_device (&run->conditions, self->stream,
      &self->config, error);
  if (good) {
    run->clip.request.conditions = run->conditions.list;
    run->clip.request.n_conditions = run->conditions.n;
    h3_stream_set_stop (self->stream, stop);
    good = h3_denoise (run->transformer, self->stream, &run->clip.request,
        embeds, tags, step_done, tables_progress, run, stop, NULL, video, audio,
        error);
    h3_stream_set_stop (self->stream, NULL);
  }
  h3_tensor_unref (embeds);
  return good;
}

/* TRUE: the device's turn is the job's, to be ended by
 * gst_h3_common_end_job(). */
static gboolean
prepare (Run *run, const H3Stop *stop, GError **error)
{
  GstH3Denoise *self = run->self;
  guint64 workspace = job_workspace (self, &run->clip,
      run->job->info.tokens + gst_h3_conditions_rows (&run->conditions));

  GST_OBJECT_LOCK (self);
  self->workspace_bytes = workspace;
  GST_OBJECT_UNLOCK (self);
  if (!negotiate (run, error))
    return FALSE;
  run->transformer =
      gst_h3_common_begin_job (&self->common, workspace, stop, error);
  return run->transformer != NULL;
}

static GstBuffer *
take_latent (H3Tensor *latent, const GstStructure *settings)
{
  GstBuffer *buffer = gst_h3_tensor_to_buffer (latent, NULL, NULL);

  add_job_meta (buffer, settings);
  h3_tensor_unref (latent);
  return buffer;
}

/* Both latents go out, or nothing. */
static gboolean
deliver (Run *run, H3Tensor *video, H3Tensor *audio, GError **error)
{
  const H3Geometry *g = &run->clip.request.geometry;
  GstBuffer *buffers[GST_H3_N_OUTPUTS];

  buffers[GST_H3_OUTPUT_VIDEO] = take_latent (video, run->settings);
  buffers[GST_H3_OUTPUT_AUDIO] = take_latent (audio, run->settings);
  /* before waiting for room: a player may hold the sinks, and so the room,
   * until the progress it saw has ended */
  gst_h3_progress_end (&run->report, NULL);
  if (gst_h3_denoise_queue_clip (run->self, run->job, buffers, g->frames,
          g->audio_t * H3_AUDIO_HOP))
    return TRUE;
  g_set_error_literal (error, H3_ERROR, H3_ERROR_CANCELLED,
      "cancelled after its last step");
  return FALSE;
}

static void
begin_report (Run *run)
{
  const H3DenoiseRequest *r = &run->clip.request;
  gchar *text =
      g_strdup_printf ("clip %" G_GUINT64_FORMAT ": %dx%d, %d frames, "
                       "%d steps, seed %" G_GUINT64_FORMAT,
          run->job->number, r->geometry.width, r->geometry.height,
          r->geometry.frames, r->schedule->steps, r->seed);

  GST_INFO_OBJECT (run->self, "%s: %" GST_PTR_FORMAT, text, run->settings);
  gst_h3_progress_start (&run->report, GST_ELEMENT_CAST (run->self), "denoise",
      "step", run->job->number, r->schedule->steps,
      run->self->common.weight_bytes + run->self->workspace_bytes, text);
  g_free (text);
}

/* The keyframes or references, once they are there, must be the prompt's and the
 * transformer's. */
static gboolean
check_conditions (Run *run, GError **error)
{
  GstH3Denoise *self = run->self;
  gboolean references = h3_conditions_task (run->conditions.list,
                            run->conditions.n) == H3_TASK_REF2VA;

  if (!gst_h3_conditions_match (&run->conditions, &run->job->info, error))
    return FALSE;
  if (references == (self->opened_partition == H3_PARTITION_REF2VA))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
      "A prompt %s references came, and the transformer of partition %s is "
      "open: set partition=%s, or request the pads ref_%%u before the element "
      "goes to READY",
      references ? "with" : "without", references ? "fl2va" : "ref2va",
      references ? "ref2va" : "fl2va");
  return FALSE;
}

/* What is longer than the release allows is used all the same, as other
 * implementations do. */
static gboolean
check_lengths (Run *run, gboolean strict, GError **error)
{
  g_autoptr (GError) reason = NULL;

  if (h3_conditions_check_lengths (run->conditions.list, run->conditions.n,
          &reason))
    return TRUE;
  if (strict) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "%s, and strict=true refuses more", reason->message);
    return FALSE;
  }
  GST_ELEMENT_WARNING (run->self, LIBRARY, SETTINGS, ("%s", reason->message),
      (NULL));
  return TRUE;
}

/* The settings as they are now become the clip. */
static gboolean
start (Run *run, GError **error)
{
  GstH3Denoise *self = run->self;
  GstH3Sampling sampling;
  gboolean good, strict;

  gst_h3_denoise_get_sampling (self, &sampling);
  gst_h3_denoise_follow_keyframe (self, &sampling);
  good =
      gst_h3_sampling_resolve (&sampling, &self->defaults, &run->clip, error);
  strict = sampling.strict;
  gst_h3_sampling_clear (&sampling);
  if (!good ||
      !h3_conditions_check (run->conditions.list, run->conditions.n,
          &run->clip.request.geometry, error) ||
      !check_lengths (run, strict, error))
    return FALSE;
  run->settings = describe_settings (run);
  g_mutex_lock (&self->lock);
  self->running_frames = run->clip.request.geometry.frames;
  g_mutex_unlock (&self->lock);
  report_length (run);
  g_signal_emit (self, gst_h3_denoise_signals[GST_H3_SIGNAL_JOB_STARTED], 0,
      run->job->number, run->settings);
  return TRUE;
}

static void
take_time (Run *run, gint64 us)
{
  GstH3Denoise *self = run->self;

  GST_OBJECT_LOCK (self);
  self->denoise_ms = us / 1000;
  self->step_us = us / run->clip.schedule->steps;
  GST_OBJECT_UNLOCK (self);
}

static gboolean
make_clip (Run *run, GError **error)
{
  const H3Stop stop = { should_stop, run->job };
  H3Tensor *video = NULL, *audio = NULL;
  gboolean good;
  gint64 begin;

  if (!gst_h3_denoise_wait_conditions (run->self, run->job, &run->conditions,
          error) ||
      !check_conditions (run, error) || !start (run, error) ||
      !prepare (run, &stop, error))
    return FALSE;
  begin_report (run);
  begin = g_get_monotonic_time ();
  good = compute (run, &stop, &video, &audio, error);
  gst_h3_common_end_job (&run->self->common);
  if (!good)
    return FALSE;
  take_time (run, g_get_monotonic_time () - begin);
  return deliver (run, video, audio, error);
}

/* --- ending a job --- */

/* Returns: "done", "cancelled" or "failed". A clip that is done was counted
 * when it was queued, so that who has it finds it counted. */
static const gchar *
count_result (GstH3Denoise *self, const GError *error)
{
  gboolean cancelled = g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED);

  if (!error)
    return "done";
  GST_OBJECT_LOCK (self);
  if (cancelled)
    self->jobs_cancelled++;
  else
    self->jobs_failed++;
  GST_OBJECT_UNLOCK (self);
  return cancelled ? "cancelled" : "failed";
}

/* After a failure upstream is told, what waits is dropped, and downstream gets
 * EOS, so that a file with earlier clips is whole. */
static void
fail (Run *run, GError *error, guint generation)
{
  GstH3Denoise *self = run->self;

  g_mutex_lock (&self->lock);
  /* what came after a flush has nothing to do with this job */
  if (self->generation == generation) {
    if (self->flow == GST_FLOW_OK) {
      self->flow = error->domain == GST_CORE_ERROR ? GST_FLOW_NOT_NEGOTIATED
                                                   : GST_FLOW_ERROR;
    }
    gst_h3_denoise_cancel_all (self);
  }
  g_mutex_unlock (&self->lock);
  gst_h3_common_fail (&self->common, g_error_copy (error));
  gst_h3_denoise_queue_event (self, gst_event_new_eos (), generation);
}

static void
run_job (GstH3Denoise *self, GstH3Job *job, guint generation)
{
  Run run = { .self = self, .job = job };
  GError *error = NULL;
  const gchar *result;

  make_clip (&run, &error);
  result = count_result (self, error);
  if (error && !g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED))
    fail (&run, error, generation);
  gst_h3_progress_end (&run.tables, error);
  gst_h3_progress_end (&run.report, error);
  GST_INFO_OBJECT (self, "clip %" G_GUINT64_FORMAT " %s%s%s", job->number,
      result, error ? ": " : "", error ? error->message : "");
  if (run.settings) {
    GstStructure *stats;

    g_object_get (self, "stats", &stats, NULL);
    gst_structure_set (stats, "result", G_TYPE_STRING, result, NULL);
    g_signal_emit (self, gst_h3_denoise_signals[GST_H3_SIGNAL_JOB_DONE], 0,
        job->number, stats);
    gst_structure_free (stats);
    gst_structure_free (run.settings);
  }
  gst_h3_clip_clear (&run.clip);
  gst_h3_conditions_clear (&run.conditions);
  g_clear_error (&error);
}

/* With lock held: the next item, waited for. NULL when the worker must end. */
static GstH3Item *
next_item (GstH3Denoise *self)
{
  GstH3Item *item;

  while (!self->stop && g_queue_is_empty (&self->queue))
    g_cond_wait (&self->changed, &self->lock);
  if (self->stop)
    return NULL;
  item = g_queue_pop_head (&self->queue);
  if (item->job) {
    self->n_waiting--;
    self->running = item->job;
    g_cond_broadcast (&self->changed);
  }
  return item;
}

gpointer
gst_h3_denoise_work (gpointer data)
{
  GstH3Denoise *self = data;
  GstH3Item *item;

  g_mutex_lock (&self->lock);
  while ((item = next_item (self))) {
    guint generation = self->generation;

    g_mutex_unlock (&self->lock);
    if (item->job)
      run_job (self, item->job, generation);
    else
      gst_h3_denoise_queue_event (self, g_steal_pointer (&item->event),
          generation);
    g_mutex_lock (&self->lock);
    self->running = NULL;
    self->running_frames = 0;
    g_cond_broadcast (&self->changed);
    gst_h3_item_free (item);
  }
  g_mutex_unlock (&self->lock);
  g_clear_pointer (&self->stream, h3_stream_free);
  return NULL;
}
