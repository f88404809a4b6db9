/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every H3 element that runs a model has: the properties, the checkpoint,
 * the device, the shared model, loading in the background.
 *
 * An element embeds a GstH3Common and calls, in this order of its life:
 *   class_init     gst_h3_common_class_init()
 *   init           gst_h3_common_init()
 *   set/get        gst_h3_common_set_property(), _get_property()
 *   change_state   gst_h3_common_before_state_change(), chain up,
 *                  gst_h3_common_after_state_change()
 *   working thread gst_h3_common_acquire() or _begin_job(), _fail()
 *   finalize       gst_h3_common_clear()
 */
#pragma once

#include "gst/gsth3error.h"
#include "gst/gsth3progress.h"
#include "gst/gsth3runtime.h"

G_BEGIN_DECLS

GST_DEBUG_CATEGORY_EXTERN (gst_h3_runtime_debug);

/* The shared properties' numbers, beginning with 1; an element's own begin at
 * GST_H3_N_COMMON_PROPS. */
enum {
  GST_H3_PROP_MODEL_PATH = 1,
  GST_H3_PROP_BACKEND,
  GST_H3_PROP_CUDA_DEVICE_ID,
  GST_H3_PROP_RESIDENCY,
  GST_H3_PROP_MEMORY_BUDGET,
  GST_H3_PROP_PRELOAD,
  GST_H3_PROP_STATS,
  GST_H3_N_COMMON_PROPS
};

#define GST_H3_DEFAULT_MODEL_PATH NULL
#define GST_H3_DEFAULT_BACKEND GST_H3_BACKEND_AUTO
#define GST_H3_DEFAULT_CUDA_DEVICE_ID -1
#define GST_H3_DEFAULT_RESIDENCY GST_H3_RESIDENCY_AUTO
#define GST_H3_DEFAULT_MEMORY_BUDGET 0
#define GST_H3_DEFAULT_PRELOAD GST_H3_PRELOAD_PAUSED

typedef struct _GstH3Common GstH3Common;

/**
 * GstH3CommonFuncs: what differs between elements; all may be NULL but @kind
 * @partition: which of the release's two; NULL: H3_PARTITION_FL2VA, whose other
 *   components are the same
 * @opening: in NULL→READY, before anything is planned: what the user says of the
 *   files. TRUE when that is whose transformer it is
 * @opened: in NULL→READY, once the checkpoint is open: read the component's
 *   configuration. FALSE with an error refuses the state change
 * @workspace: bytes needed beside the weights at the present settings
 * @also: another model that the element needs at times; in the plan while
 *   @also_needs, which fills in weights and workspace at the present settings,
 *   says that it will be
 * @add_stats: put the element's own numbers into the `stats` structure
 */
typedef struct {
  const GstH3ModelKind *kind;
  H3Partition (*partition) (GstElement *element);
  gboolean (*opening) (GstElement *element, H3Checkpoint *checkpoint);
  gboolean (*opened) (GstElement *element, const H3Checkpoint *checkpoint,
      GError **error);
  guint64 (*workspace) (GstElement *element);
  const GstH3ModelKind *also;
  gboolean (*also_needs) (GstElement *element, GstH3Request *request);
  void (*add_stats) (GstElement *element, GstStructure *stats);
} GstH3CommonFuncs;

struct _GstH3Common {
  GstElement *element; /* not owned */
  const GstH3CommonFuncs *funcs;

  /* settings, under the element's object lock */
  gchar *model_path;
  GstH3Backend backend;
  gint cuda_device_id;
  GstH3Residency residency;
  guint64 memory_budget;
  GstH3Preload preload;
  gboolean reopen; /* what decides the checkpoint was set since it was opened */

  /* from NULL→READY to READY→NULL; written by the state change alone */
  H3Checkpoint *checkpoint;
  H3Device *device;
  guint64 weight_bytes;
  GstH3Plan *plan;
  GstH3Plan *also_plan; /* of the other model, also of the working thread */
  gboolean is_demo;     /* the checkpoint shipped with us, named or not */
  gchar *path;          /* where the checkpoint is */
  gchar *model_name;    /* for people and metadata: its last path components */

  /* loading, under lock; lock is taken after no other and held over nothing */
  GMutex lock;
  GstH3Model *model;
  GstH3Residency held_as; /* @model */
  GThread *loader;
  guint loads, load_ms, parks; /* of the model last held */
  gint stopping; /* atomic: the element goes down, loading must end */
  gint reported; /* atomic: this failure has its error message; the next
                     acquire that works begins anew */

  guint64 promised; /* workspace kept for the working thread */
};

/* Installs the shared properties and the action signal `unload`. */
void gst_h3_common_class_init (GstElementClass *klass);
void gst_h3_common_init (GstH3Common *common, GstElement *element,
    const GstH3CommonFuncs *funcs);
void gst_h3_common_clear (GstH3Common *common);

/* TRUE when @prop_id is one of the shared ones. */
gboolean gst_h3_common_set_property (GstH3Common *common, guint prop_id,
    const GValue *value);
gboolean gst_h3_common_get_property (GstH3Common *common, guint prop_id,
    GValue *value);

/* Before chaining up: NULL→READY opens the checkpoint and checks everything
 * that can be checked without reading weights; the preload starts; PAUSED→READY
 * tells loading to stop. FALSE: an error was posted, return
 * GST_STATE_CHANGE_FAILURE. */
gboolean gst_h3_common_before_state_change (GstH3Common *common,
    GstStateChange transition);
/* After chaining up: gives back what the new state does not need. Calls it also
 * when chaining up failed; @ret decides nothing on the way down. */
void gst_h3_common_after_state_change (GstH3Common *common,
    GstStateChange transition, GstStateChangeReturn ret);

/**
 * gst_h3_common_acquire: for a kind without a stage
 * @workspace: bytes the job needs; @held: those the element has from earlier
 * @stop: of the job; going to READY stops it as well
 *
 * The loaded model for a job, and room for its workspace until
 * gst_h3_common_settle(), from the working thread. Belongs to @common, valid
 * until READY→NULL or, when the element is in READY, `unload`. Call it for every
 * job. A failure has been posted.
 */
gpointer gst_h3_common_acquire (GstH3Common *common, guint64 workspace,
    guint64 held, const H3Stop *stop, GError **error);

/**
 * gst_h3_common_begin_job: for a kind with a stage
 *
 * The same, with the device's turn: it and the model are the job's until
 * gst_h3_common_end_job(), and no longer.
 */
gpointer gst_h3_common_begin_job (GstH3Common *common, guint64 workspace,
    const H3Stop *stop, GError **error);
void gst_h3_common_end_job (GstH3Common *common);

/* The workspace is allocated, or will not be; nothing where acquiring failed. */
void gst_h3_common_settle (GstH3Common *common);

/* From the working thread, before it loads the other model: what that needs now
 * that it is known goes into the device's plan. */
gboolean gst_h3_common_plan_also (GstH3Common *common,
    const GstH3Request *request, GError **error);

/* What `backend` and `cuda-device-id` choose, in any state; in READY and above
 * the element's own @device. (transfer full) */
H3Device *gst_h3_common_get_device (GstH3Common *common, GError **error);

/* After a flush: the next failure is a new one, and says so. */
void gst_h3_common_begin (GstH3Common *common);

/* TRUE from PAUSED→READY on until the next READY→PAUSED. */
gboolean gst_h3_common_is_stopping (GstH3Common *common);

/* Posts @error (consumed) once per failure, with the checkpoint and device in
 * the debug text; a cancelled one posts nothing. */
void gst_h3_common_fail (GstH3Common *common, GError *error);

G_END_DECLS
