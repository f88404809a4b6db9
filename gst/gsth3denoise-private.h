/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3denoise's insides, in four files:
 *   gsth3denoise.c        properties, the sink pad, states
 *   gsth3denoise-job.c    the worker: from a prompt's embeddings to two latents
 *   gsth3denoise-output.c the source pads: a queue and a task each, time,
 * queries
 *   gsth3denoise-conditions.c  the request pads: keyframes and references
 *
 *   sink chain -> queue -> worker -> output.items -> a task per source pad
 *
 * Locks, in the order they may be taken: a pad's stream lock, `lock`, the
 * object lock. `lock` is never held while pushing, posting, emitting or
 * computing. Whoever changes what is under it broadcasts `changed`. */
#pragma once

#include "gst/gsth3common.h"
#include "gst/gsth3denoise.h"
#include "gst/gsth3sampling.h"

G_BEGIN_DECLS

GST_DEBUG_CATEGORY_EXTERN (gst_h3_denoise_debug);

/* One prompt on its way to be a clip. Belongs to the queue, then to the
 * worker. */
typedef struct {
  guint64 number;
  GstBuffer *embeds;
  GstH3EmbedsInfo info;
  gint cancel; /* atomic; set under `lock` */
} GstH3Job;

/* What waits in the queue: a job, or an event that follows the jobs before
 * it. */
typedef struct {
  GstH3Job *job;   /* or NULL */
  GstEvent *event; /* or NULL */
} GstH3Item;

/* A source pad. All under `lock` but @pad. */
typedef struct {
  GstPad *pad;           /* not owned */
  GQueue items;          /* GstEvent and GstBuffer, for the pad's task */
  guint n_buffers;       /* of those in items */
  gboolean flushing;     /* inactive, or between FLUSH_START and FLUSH_STOP */
  gboolean started;      /* STREAM_START was queued */
  gboolean segment;      /* SEGMENT was queued */
  GstFlowReturn flow;    /* of the last push */
  GstClockTime position; /* PTS of the last buffer pushed */
  GstClockTime end;      /* where the last buffer or gap ended */
} GstH3Output;

enum { GST_H3_OUTPUT_VIDEO, GST_H3_OUTPUT_AUDIO, GST_H3_N_OUTPUTS };

struct _GstH3Denoise {
  GstElement parent;

  GstH3Common common;
  GstPad *sinkpad;

  /* settings, under the object lock */
  GstH3Sampling sampling;
  guint max_queued_jobs;
  gboolean tag_prompt;
  GstH3Timestamps timestamps;
  GstClockTime lead;
  GstH3Partition partition;
  GstH3QkvLayout qkv_layout;
  gchar **loras; /* NULL: none */
  GstH3WeightType weight_type;

  /* from NULL→READY on */
  H3TransformerConfig config;
  GstH3SamplingDefaults defaults;
  H3Partition opened_partition;

  /* of the sink pad's streaming thread */
  GstH3EmbedsInfo info;
  gboolean have_info;

  GMutex lock;
  GCond changed;

  /* under lock */
  GQueue queue;        /* GstH3Item */
  guint n_waiting;     /* jobs in queue */
  guint64 next_job;    /* number of the next */
  GstH3Job *running;   /* the worker's, or NULL */
  gint running_frames; /* of the running job's clip */
  gboolean stop;       /* the worker must end */
  gboolean flushing;   /* the sink pad takes nothing */
  guint generation;    /* counts flushes: older things are dropped */
  GstFlowReturn flow;  /* what the sink pad answers */
  gboolean eos;        /* EOS came in */
  gboolean eos_out;    /* EOS was queued on the outputs */
  guint group_id;
  GstH3Output outputs[GST_H3_N_OUTPUTS];
  GList *conditions; /* of the request pads, in packed order */

  /* the timeline, under lock: the next clip begins at origin + frames / 24 s */
  guint64 frames;
  GstClockTime origin;
  gboolean discont;

  /* numbers, under the object lock */
  guint64 jobs_done, jobs_failed, jobs_cancelled;
  guint denoise_ms, step_us;
  guint64 workspace_bytes;

  GThread *worker;
  H3Stream *stream; /* of the worker */
};

/* --- gsth3denoise.c --- */

typedef enum {
  GST_H3_SIGNAL_JOB_STARTED,
  GST_H3_SIGNAL_JOB_STEP,
  GST_H3_SIGNAL_JOB_DONE,
  GST_H3_SIGNAL_CANCEL_JOB,
  GST_H3_N_SIGNALS
} GstH3DenoiseSignal;

extern guint gst_h3_denoise_signals[GST_H3_N_SIGNALS];

/* A copy of the settings as they are now; clear it. */
void gst_h3_denoise_get_sampling (GstH3Denoise *self, GstH3Sampling *sampling);

/* With lock held: ends the running job and drops those that wait; events that
 * wait stay. */
void gst_h3_denoise_cancel_all (GstH3Denoise *self);

void gst_h3_item_free (gpointer item);

/* --- gsth3denoise-job.c --- */

extern const GstH3CommonFuncs gst_h3_denoise_common_funcs;

/* The worker's function; @data is the element. */
gpointer gst_h3_denoise_work (gpointer data);

/* --- gsth3denoise-conditions.c --- */

/* A job's keyframes or references, and the buffers their tensors are made of.
 * Zeroed at first; clear it. */
typedef struct {
  guint n;
  H3Condition list[H3_MAX_REFERENCES + 2];
  GstBuffer *video[H3_MAX_REFERENCES + 2], *audio[H3_MAX_REFERENCES + 2];
} GstH3Conditions;

void gst_h3_denoise_conditions_class_init (GstElementClass *klass);
void gst_h3_denoise_conditions_finalize (GstH3Denoise *self);
/* With lock held: pads have brought nothing yet. */
void gst_h3_denoise_forget_conditions (GstH3Denoise *self);
/* Whether there is a pad for a reference. */
gboolean gst_h3_denoise_has_references (GstH3Denoise *self);
/* Makes the first keyframe's size the clip's where the settings have none. FALSE
 * when there will be a keyframe and it is not there yet. */
gboolean gst_h3_denoise_follow_keyframe (GstH3Denoise *self,
    GstH3Sampling *sampling);
/* Waits for every request pad to bring its latent, or for the job's end. A pad
 * that brings none is H3_ERROR_FORMAT with its name. */
gboolean gst_h3_denoise_wait_conditions (GstH3Denoise *self, GstH3Job *job,
    GstH3Conditions *conditions, GError **error);

/* H3_ERROR_FORMAT unless the prompt was read with the same. */
gboolean gst_h3_conditions_match (const GstH3Conditions *conditions,
    const GstH3EmbedsInfo *info, GError **error);
/* Tensors that @stream can read; see gst_h3_tensor_from_buffer(). */
gboolean gst_h3_conditions_to_device (GstH3Conditions *conditions,
    H3Stream *stream, const H3TransformerConfig *config, GError **error);
gint64 gst_h3_conditions_rows (const GstH3Conditions *conditions);
void gst_h3_conditions_clear (GstH3Conditions *conditions);

/* --- gsth3denoise-output.c --- */

/* Creates the two source pads. */
void gst_h3_denoise_outputs_init (GstH3Denoise *self,
    GstStaticPadTemplate *video, GstStaticPadTemplate *audio);

/* Caps in system memory of what @geometry gives on that pad. */
GstCaps *gst_h3_denoise_output_caps (GstH3Denoise *self, guint output,
    const H3Geometry *geometry);

/* Queues an event on every output, preceded by what the stream needs; a
 * STREAM_START begins a new stream there when the last one had its EOS.
 * Consumes
 * @event; drops it when a flush came since @generation. */
void gst_h3_denoise_queue_event (GstH3Denoise *self, GstEvent *event,
    guint generation);

/* A job's caps and tags, each consumed, before its buffers. */
void gst_h3_denoise_queue_header (GstH3Denoise *self, GstH3Job *job,
    GstCaps *caps[GST_H3_N_OUTPUTS], GstTagList *tags);

/* Puts both buffers (consumed) of a clip of @frames pictures on the timeline
 * and into the queues, once there is room. FALSE when the job was cancelled. */
gboolean gst_h3_denoise_queue_clip (GstH3Denoise *self, GstH3Job *job,
    GstBuffer *buffers[GST_H3_N_OUTPUTS], gint frames, gint audio_samples);

/* With lock held: forgets what is queued and the flow; @reset_time: the
 * timeline too. */
void gst_h3_denoise_outputs_reset (GstH3Denoise *self, gboolean reset_time);
/* With lock held: pads take nothing (and their tasks end), or take again. */
void gst_h3_denoise_outputs_set_flushing (GstH3Denoise *self,
    gboolean flushing);
/* Without lock: waits for the pads' tasks to pause; starts them again. */
void gst_h3_denoise_outputs_pause (GstH3Denoise *self);
void gst_h3_denoise_outputs_resume (GstH3Denoise *self);

G_END_DECLS
