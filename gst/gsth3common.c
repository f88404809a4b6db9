/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3common.h"

#include "model/printable.h"

#include <glib/gstdio.h>
#include <string.h>

#define GST_CAT_DEFAULT gst_h3_runtime_debug

/* --- properties --- */

/* Whose GstH3Common it is, for the action signal. */
static GQuark common_quark;

static gboolean
unload (GstElement *element)
{
  GstH3Common *common = g_object_get_qdata (G_OBJECT (element), common_quark);
  GstH3Model *model = NULL;

  /* in PAUSED and above a job may be using it; holding the state lock, nobody
   * can start one meanwhile */
  if (common && GST_STATE_TRYLOCK (element)) {
    if (GST_STATE (element) <= GST_STATE_READY &&
        GST_STATE_PENDING (element) == GST_STATE_VOID_PENDING) {
      g_mutex_lock (&common->lock);
      model = g_steal_pointer (&common->model);
      g_mutex_unlock (&common->lock);
    }
    GST_STATE_UNLOCK (element);
  }
  if (model)
    gst_h3_model_release (model, common->held_as);
  return gst_h3_runtime_unload () > 0 || model != NULL;
}

static void
install_signals (GstElementClass *klass)
{
  /**
   * unload:
   *
   * Returns: whether memory was given back
   */
  g_signal_new_class_handler ("unload", G_TYPE_FROM_CLASS (klass),
      G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION, G_CALLBACK (unload), NULL, NULL,
      NULL, G_TYPE_BOOLEAN, 0);
}

void
gst_h3_common_class_init (GstElementClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_BACKEND, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_RESIDENCY, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_PRELOAD, 0);

  g_object_class_install_property (object_class, GST_H3_PROP_MODEL_PATH,
      g_param_spec_string ("model-path", "Model path",
          "Folder of the H3 checkpoint, or one component's folder or file "
          "where that is enough. When unset, $H3_MODEL_PATH is used, and when "
          "that is unset too, the small demo checkpoint shipped with the "
          "plugin.",
          GST_H3_DEFAULT_MODEL_PATH, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_BACKEND,
      g_param_spec_enum ("backend", "Backend",
          "What computes. The element message \"h3-model\" says what was "
          "chosen.",
          GST_TYPE_H3_BACKEND, GST_H3_DEFAULT_BACKEND, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_CUDA_DEVICE_ID,
      g_param_spec_int ("cuda-device-id", "CUDA device id",
          "Which of the visible NVIDIA GPUs computes, as CUDA counts them; an "
          "error when it cannot be used, also with backend=auto. -1 = the one "
          "with the most free memory. The CPU takes no notice of it.",
          -1, G_MAXINT, GST_H3_DEFAULT_CUDA_DEVICE_ID, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_RESIDENCY,
      g_param_spec_enum ("residency", "Residency",
          "How long a loaded model stays in the device's memory. A model is "
          "shared by all elements of the process that use the same files on "
          "the same device, and leaves only when all of them let it. Only text "
          "encoder and transformer ever leave: to pinned host memory, and from "
          "the CPU, or when the host is short of memory, to be loaded again.",
          GST_TYPE_H3_RESIDENCY, GST_H3_DEFAULT_RESIDENCY, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_MEMORY_BUDGET,
      g_param_spec_uint64 ("memory-budget", "Memory budget",
          "How many bytes of the device's memory H3 may take: the models that "
          "this process has loaded there, and the working memory of its jobs "
          "and of this element. Where more would be needed, models that are "
          "not at work leave the device (see residency) until it is enough; "
          "what is still too much is an error with the numbers, before "
          "anything is loaded. 0 = as much as is free. Either way a twentieth "
          "of the device's memory, at most 1 GiB, is left free.",
          0, G_MAXUINT64, GST_H3_DEFAULT_MEMORY_BUDGET, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_PRELOAD,
      g_param_spec_enum ("preload", "Preload",
          "When to begin loading the model, in the background.",
          GST_TYPE_H3_PRELOAD, GST_H3_DEFAULT_PRELOAD, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_STATS,
      g_param_spec_boxed ("stats", "Statistics",
          "Numbers of the work so far: model-loads (how often the process "
          "loaded the model now held), model-load-ms (milliseconds the last "
          "load took), model-parks (how often it left the device for others), "
          "weight-bytes, and the element's own.",
          GST_TYPE_STRUCTURE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
  install_signals (klass);
}

void
gst_h3_common_init (GstH3Common *common, GstElement *element,
    const GstH3CommonFuncs *funcs)
{
  if (!common_quark)
    common_quark = g_quark_from_static_string ("gst-h3-common");
  common->element = element;
  common->funcs = funcs;
  common->model_path = g_strdup (GST_H3_DEFAULT_MODEL_PATH);
  common->backend = GST_H3_DEFAULT_BACKEND;
  common->cuda_device_id = GST_H3_DEFAULT_CUDA_DEVICE_ID;
  common->residency = GST_H3_DEFAULT_RESIDENCY;
  common->memory_budget = GST_H3_DEFAULT_MEMORY_BUDGET;
  common->preload = GST_H3_DEFAULT_PRELOAD;
  g_mutex_init (&common->lock);
  g_object_set_qdata (G_OBJECT (element), common_quark, common);
}

static GstStructure *
get_stats (GstH3Common *common)
{
  GstStructure *stats;
  guint loads, load_ms, parks;

  g_mutex_lock (&common->lock);
  if (common->model) {
    common->loads = gst_h3_model_loads (common->model);
    common->load_ms = gst_h3_model_load_ms (common->model);
    common->parks = gst_h3_model_parks (common->model);
  }
  loads = common->loads;
  load_ms = common->load_ms;
  parks = common->parks;
  g_mutex_unlock (&common->lock);
  stats = gst_structure_new ("application/x-h3-stats", "model-loads",
      G_TYPE_UINT, loads, "model-load-ms", G_TYPE_UINT, load_ms, "model-parks",
      G_TYPE_UINT, parks, "weight-bytes", G_TYPE_UINT64, common->weight_bytes,
      NULL);
  if (common->funcs->add_stats)
    common->funcs->add_stats (common->element, stats);
  return stats;
}

gboolean
gst_h3_common_set_property (GstH3Common *common, guint prop_id,
    const GValue *value)
{
  gboolean known = TRUE;

  GST_OBJECT_LOCK (common->element);
  switch (prop_id) {
    case GST_H3_PROP_MODEL_PATH:
      g_free (common->model_path);
      common->model_path = g_value_dup_string (value);
      break;
    case GST_H3_PROP_BACKEND:
      common->backend = g_value_get_enum (value);
      break;
    case GST_H3_PROP_CUDA_DEVICE_ID:
      common->cuda_device_id = g_value_get_int (value);
      break;
    case GST_H3_PROP_RESIDENCY:
      common->residency = g_value_get_enum (value);
      break;
    case GST_H3_PROP_MEMORY_BUDGET:
      common->memory_budget = g_value_get_uint64 (value);
      break;
    case GST_H3_PROP_PRELOAD:
      common->preload = g_value_get_enum (value);
      break;
    default:
      known = FALSE;
      break;
  }
  GST_OBJECT_UNLOCK (common->element);
  return known;
}

gboolean
gst_h3_common_get_property (GstH3Common *common, guint prop_id, GValue *value)
{
  gboolean known = TRUE;

  if (prop_id == GST_H3_PROP_STATS) {
    g_value_take_boxed (value, get_stats (common));
    return TRUE;
  }
  GST_OBJECT_LOCK (common->element);
  switch (prop_id) {
    case GST_H3_PROP_MODEL_PATH:
      g_value_set_string (value, common->model_path);
      break;
    case GST_H3_PROP_BACKEND:
      g_value_set_enum (value, common->backend);
      break;
    case GST_H3_PROP_CUDA_DEVICE_ID:
      g_value_set_int (value, common->cuda_device_id);
      break;
    case GST_H3_PROP_RESIDENCY:
      g_value_set_enum (value, common->residency);
      break;
    case GST_H3_PROP_MEMORY_BUDGET:
      g_value_set_uint64 (value, common->memory_budget);
      break;
    case GST_H3_PROP_PRELOAD:
      g_value_set_enum (value, common->preload);
      break;
    default:
      known = FALSE;
      break;
  }
  GST_OBJECT_UNLOCK (common->element);
  return known;
}

/* --- the checkpoint and the device --- */

/* Where the demo that came with the plugin is: installed, else in the source
 * tree. */
static const gchar *const demo_places[] = { H3_DEMO_INSTALLED, H3_DEMO_SOURCE };

static gchar *
demo_path (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (demo_places); i++) {
    if (g_file_test (demo_places[i], G_FILE_TEST_IS_DIR))
      return g_strdup (demo_places[i]);
  }
  return NULL;
}

static gboolean
same_folder (const gchar *a, const gchar *b)
{
  GStatBuf sa, sb;

  return g_stat (a, &sa) == 0 && g_stat (b, &sb) == 0 &&
         sa.st_ino == sb.st_ino && sa.st_dev == sb.st_dev;
}

/* Whether somebody names that demo by hand, perhaps without FL2VA. */
static gboolean
names_demo (const gchar *path)
{
  g_autofree gchar *below = g_build_filename (path, "FL2VA", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (demo_places); i++) {
    if (same_folder (path, demo_places[i]) ||
        same_folder (below, demo_places[i]))
      return TRUE;
  }
  return FALSE;
}

static gchar *
choose_path (GstH3Common *common, GError **error)
{
  gchar *path;

  common->is_demo = FALSE;
  GST_OBJECT_LOCK (common->element);
  path = g_strdup (common->model_path);
  GST_OBJECT_UNLOCK (common->element);
  if (!path)
    path = g_strdup (g_getenv ("H3_MODEL_PATH"));
  if (path && *path) {
    common->is_demo = names_demo (path);
    return path;
  }
  g_free (path);
  path = demo_path ();
  if (!path) {
    g_set_error (error, H3_ERROR, H3_ERROR_NOT_FOUND,
        "No checkpoint is named and the demo checkpoint is not in %s: set "
        "model-path or $H3_MODEL_PATH",
        H3_DEMO_INSTALLED);
    return NULL;
  }
  common->is_demo = TRUE;
  GST_INFO_OBJECT (common->element,
      "model-path and $H3_MODEL_PATH are unset: using the demo checkpoint %s",
      path);
  return path;
}

/* The last component of the path, and the one before where that is only a
 * partition's name. */
static gchar *
name_of_path (const gchar *path)
{
  gchar *canonical = g_canonicalize_filename (path, NULL);
  gchar *last = g_path_get_basename (canonical);

  if (g_str_equal (last, "FL2VA") || g_str_equal (last, "Ref2VA")) {
    gchar *dir = g_path_get_dirname (canonical);
    gchar *parent = g_path_get_basename (dir);
    gchar *name = g_build_filename (parent, last, NULL);

    g_free (parent);
    g_free (dir);
    g_free (last);
    last = name;
  }
  g_free (canonical);
  return last;
}

static void
post_model_message (GstH3Common *common)
{
  gst_element_post_message (common->element,
      gst_message_new_element (GST_OBJECT_CAST (common->element),
          gst_structure_new ("h3-model", "model-path", G_TYPE_STRING,
              common->path, "demo", G_TYPE_BOOLEAN, common->is_demo,
              "component", G_TYPE_STRING, common->funcs->kind->name, "device",
              G_TYPE_STRING, common->device->name, "weight-bytes",
              G_TYPE_UINT64, common->weight_bytes, NULL)));
}

static guint64
workspace (GstH3Common *common)
{
  return common->funcs->workspace ? common->funcs->workspace (common->element)
                                  : 0;
}

static GstH3Residency
get_residency (GstH3Common *common)
{
  GstH3Residency residency;

  GST_OBJECT_LOCK (common->element);
  residency = common->residency;
  GST_OBJECT_UNLOCK (common->element);
  return residency;
}

/* For the model, at the present settings. */
static void
init_request (GstH3Common *common, guint64 workspace, GstH3Request *request)
{
  *request = (GstH3Request){
    .checkpoint = common->checkpoint,
    .weights = common->weight_bytes,
    .workspace = workspace,
  };
  GST_OBJECT_LOCK (common->element);
  request->budget = common->memory_budget;
  GST_OBJECT_UNLOCK (common->element);
}

static gboolean
plan (GstH3Common *common, const GstH3ModelKind *kind, GstH3Plan **plan,
    const GstH3Request *request, GError **error)
{
  if (*plan)
    return gst_h3_plan_update (*plan, get_residency (common), request, error);
  *plan = gst_h3_plan_new (kind, common->device, get_residency (common),
      request, error);
  return *plan != NULL;
}

/* The element's part of the device's plan, at the present settings. */
static gboolean
make_plan (GstH3Common *common, GError **error)
{
  const GstH3CommonFuncs *funcs = common->funcs;
  GstH3Request request;

  init_request (common, 0, &request);
  if (!funcs->also || !funcs->also_needs (common->element, &request))
    g_clear_pointer (&common->also_plan, gst_h3_plan_free);
  else if (!plan (common, funcs->also, &common->also_plan, &request, error))
    return FALSE;
  init_request (common, workspace (common), &request);
  return plan (common, funcs->kind, &common->plan, &request, error);
}

gboolean
gst_h3_common_plan_also (GstH3Common *common, const GstH3Request *request,
    GError **error)
{
  if (!plan (common, common->funcs->also, &common->also_plan, request, error)) {
    /* nothing will come of it, and others need not make room */
    g_clear_pointer (&common->also_plan, gst_h3_plan_free);
    return FALSE;
  }
  gst_h3_plan_log (common->also_plan);
  return TRUE;
}

H3Device *
gst_h3_common_get_device (GstH3Common *common, GError **error)
{
  GstH3Backend backend;
  gint ordinal;

  GST_OBJECT_LOCK (common->element);
  backend = common->backend;
  ordinal = common->cuda_device_id;
  GST_OBJECT_UNLOCK (common->element);
  return gst_h3_runtime_get_device (backend, ordinal, error);
}

/* What was taken for granted about the files and may be wrong. */
static void
warn_of_doubts (GstH3Common *common, gboolean partition_said)
{
  g_autoptr (GPtrArray) doubts = h3_checkpoint_doubts (common->checkpoint,
      common->funcs->kind->component, partition_said);

  for (guint i = 0; i < doubts->len; i++) {
    g_autofree gchar *doubt = h3_printable (doubts->pdata[i]);

    GST_ELEMENT_WARNING (common->element, LIBRARY, SETTINGS, ("%s", doubt),
        ("checkpoint %s, %s", common->path, common->funcs->kind->name));
  }
}

static gboolean
open_checkpoint (GstH3Common *common, GError **error)
{
  const GstH3ModelKind *kind = common->funcs->kind;
  H3Partition partition = H3_PARTITION_FL2VA;
  gboolean said = FALSE;

  GST_OBJECT_LOCK (common->element);
  common->reopen = FALSE;
  GST_OBJECT_UNLOCK (common->element);

  common->path = choose_path (common, error);
  if (!common->path)
    return FALSE;
  common->model_name = name_of_path (common->path);
  common->device = gst_h3_common_get_device (common, error);
  if (!common->device)
    return FALSE;
  if (common->funcs->partition)
    partition = common->funcs->partition (common->element);
  common->checkpoint = h3_checkpoint_open (common->path, partition, error);
  if (!common->checkpoint)
    return FALSE;
  if (common->funcs->opening)
    said = common->funcs->opening (common->element, common->checkpoint);
  if (!kind->plan (common->checkpoint, common->device, &common->weight_bytes,
          error))
    return FALSE;
  if (common->funcs->opened &&
      !common->funcs->opened (common->element, common->checkpoint, error))
    return FALSE;
  if (!make_plan (common, error))
    return FALSE;
  warn_of_doubts (common, said);
  return TRUE;
}

static void
close_checkpoint (GstH3Common *common)
{
  GstH3Model *model;

  g_mutex_lock (&common->lock);
  model = g_steal_pointer (&common->model);
  g_mutex_unlock (&common->lock);
  if (model)
    gst_h3_model_release (model, common->held_as);
  g_clear_pointer (&common->plan, gst_h3_plan_free);
  g_clear_pointer (&common->also_plan, gst_h3_plan_free);
  g_clear_pointer (&common->checkpoint, h3_checkpoint_free);
  g_clear_pointer (&common->device, h3_device_unref);
  g_clear_pointer (&common->path, g_free);
  g_clear_pointer (&common->model_name, g_free);
}

void
gst_h3_common_clear (GstH3Common *common)
{
  close_checkpoint (common);
  g_object_set_qdata (G_OBJECT (common->element), common_quark, NULL);
  g_free (common->model_path);
  g_mutex_clear (&common->lock);
}

/* --- loading --- */

/* The job's wish to stop, and the element's. */
typedef struct {
  GstH3Common *common;
  const H3Stop *job;
} AcquireStop;

static gboolean
acquire_should_stop (gpointer data)
{
  AcquireStop *stop = data;

  return gst_h3_common_is_stopping (stop->common) ||
         (stop->job && stop->job->should_stop &&
             stop->job->should_stop (stop->job->user_data));
}

typedef struct {
  GstH3Common *common;
  GstH3ProgressReport report;
} LoadReport;

/* The first call, from whoever really loads, starts the report. */
static void
load_progress (guint64 done, guint64 total, gpointer user_data)
{
  LoadReport *load = user_data;
  GstH3Common *common = load->common;

  if (!load->report.started) {
    gchar *text = g_strdup_printf ("loading %s of %s, %.0f MB",
        common->funcs->kind->name, common->model_name, total / 1e6);

    gst_h3_progress_start (&load->report, common->element, "load", NULL, 0,
        total, common->weight_bytes, text);
    g_free (text);
  }
  gst_h3_progress_update (&load->report, done, total);
}

/* Refers to the model from its first use on. */
static GstH3Model *
hold_model (GstH3Common *common, GError **error)
{
  GstH3Residency residency = get_residency (common);
  GstH3Model *model, *spare = NULL;

  g_mutex_lock (&common->lock);
  model = common->model;
  g_mutex_unlock (&common->lock);
  if (model)
    return model;

  model = gst_h3_model_hold (common->funcs->kind, common->checkpoint,
      common->device, residency, error);
  if (!model)
    return NULL;
  g_mutex_lock (&common->lock);
  if (common->model) {
    spare = model; /* the preload took it at the same time */
  } else {
    common->model = model;
    common->held_as = residency;
  }
  model = common->model;
  g_mutex_unlock (&common->lock);
  if (spare)
    gst_h3_model_release (spare, residency);
  return model;
}

/* Calls @use with a request that reports loading and its failure. */
typedef gpointer (
    *UseModel) (GstH3Model *model, const GstH3Request *request, GError **error);

static gpointer
use_model (GstH3Common *common, UseModel use, guint64 workspace, guint64 held,
    const H3Stop *job, GError **error)
{
  AcquireStop acquire_stop = { common, job };
  const H3Stop stop = { acquire_should_stop, &acquire_stop };
  LoadReport load = { common, {
                                  0,
                              } };
  GstH3Request request;
  GError *local = NULL;
  GstH3Model *model = hold_model (common, &local);
  gpointer result = NULL;

  if (model) {
    init_request (common, workspace, &request);
    request.held = MIN (held, workspace);
    request.stop = &stop;
    request.progress = load_progress;
    request.user_data = &load;
    result = use (model, &request, &local);
  }
  if (local)
    gst_h3_common_fail (common, g_error_copy (local));
  gst_h3_progress_end (&load.report, local);
  if (local) {
    g_propagate_error (error, local);
    return NULL;
  }
  return result;
}

gpointer
gst_h3_common_acquire (GstH3Common *common, guint64 workspace, guint64 held,
    const H3Stop *stop, GError **error)
{
  gpointer model =
      use_model (common, gst_h3_model_load, workspace, held, stop, error);

  if (model) {
    common->promised = workspace - MIN (held, workspace);
    gst_h3_common_begin (common);
  }
  return model;
}

gpointer
gst_h3_common_begin_job (GstH3Common *common, guint64 workspace,
    const H3Stop *stop, GError **error)
{
  gpointer model =
      use_model (common, gst_h3_model_begin, workspace, 0, stop, error);

  if (model) {
    common->promised = workspace;
    gst_h3_common_begin (common);
  }
  return model;
}

void
gst_h3_common_settle (GstH3Common *common)
{
  if (common->promised > 0)
    gst_h3_model_settle (common->model, common->promised);
  common->promised = 0;
}

void
gst_h3_common_end_job (GstH3Common *common)
{
  gst_h3_model_end (common->model, common->held_as);
}

static gpointer
preload (GstH3Model *model, const GstH3Request *request, GError **error)
{
  return GINT_TO_POINTER (gst_h3_model_preload (model, request, error));
}

static gpointer
preload_thread (gpointer data)
{
  GstH3Common *common = data;
  GError *error = NULL;

  if (!use_model (common, preload, workspace (common), 0, NULL, &error)) {
    GST_INFO_OBJECT (common->element, "preload ended: %s", error->message);
    g_error_free (error);
  }
  return NULL;
}

static void
start_preload (GstH3Common *common, GstH3Preload when)
{
  GstH3Preload preload;

  GST_OBJECT_LOCK (common->element);
  preload = common->preload;
  GST_OBJECT_UNLOCK (common->element);
  g_atomic_int_set (&common->stopping, FALSE);
  if (preload == when && !common->loader)
    common->loader = g_thread_new ("h3-load", preload_thread, common);
}

static void
stop_preload (GstH3Common *common)
{
  g_atomic_int_set (&common->stopping, TRUE);
  g_clear_pointer (&common->loader, g_thread_join);
}

/* --- state changes and failures --- */

/* In READY, where nobody uses the model: what was set there counts. After a
 * failure the next try begins here again. */
static gboolean
reopen_when_set (GstH3Common *common, GError **error)
{
  gboolean wanted;

  GST_OBJECT_LOCK (common->element);
  wanted = common->reopen || !common->checkpoint;
  GST_OBJECT_UNLOCK (common->element);
  if (!wanted)
    return TRUE;
  stop_preload (common);
  close_checkpoint (common);
  if (!open_checkpoint (common, error)) {
    close_checkpoint (common);
    return FALSE;
  }
  post_model_message (common);
  return TRUE;
}

void
gst_h3_common_begin (GstH3Common *common)
{
  g_atomic_int_set (&common->reported, FALSE);
}

gboolean
gst_h3_common_is_stopping (GstH3Common *common)
{
  return g_atomic_int_get (&common->stopping);
}

void
gst_h3_common_fail (GstH3Common *common, GError *error)
{
  if (!g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED) &&
      g_atomic_int_compare_and_exchange (&common->reported, FALSE, TRUE)) {
    gchar *debug = g_strdup_printf ("checkpoint %s, %s, device %s",
        common->path ? common->path : "(none)", common->funcs->kind->name,
        common->device ? common->device->name : "(none)");

    gst_h3_element_error (common->element, error, debug);
    g_free (debug);
  }
  g_error_free (error);
}

gboolean
gst_h3_common_before_state_change (GstH3Common *common,
    GstStateChange transition)
{
  GError *error = NULL;

  switch (transition) {
    case GST_STATE_CHANGE_NULL_TO_READY:
      g_atomic_int_set (&common->reported, FALSE);
      if (!open_checkpoint (common, &error)) {
        gst_h3_common_fail (common, error);
        close_checkpoint (common);
        return FALSE;
      }
      post_model_message (common);
      start_preload (common, GST_H3_PRELOAD_READY);
      break;
    case GST_STATE_CHANGE_READY_TO_PAUSED:
      g_atomic_int_set (&common->reported, FALSE);
      /* settings may have changed since */
      if (!reopen_when_set (common, &error) || !make_plan (common, &error)) {
        gst_h3_common_fail (common, error);
        return FALSE;
      }
      gst_h3_plan_log (common->plan);
      start_preload (common, GST_H3_PRELOAD_PAUSED);
      break;
    case GST_STATE_CHANGE_PAUSED_TO_READY:
      g_atomic_int_set (&common->stopping, TRUE);
      break;
    default:
      break;
  }
  return TRUE;
}

void
gst_h3_common_after_state_change (GstH3Common *common,
    GstStateChange transition, GstStateChangeReturn ret)
{
  switch (transition) {
    case GST_STATE_CHANGE_READY_TO_PAUSED:
      if (ret == GST_STATE_CHANGE_FAILURE)
        stop_preload (common);
      break;
    case GST_STATE_CHANGE_NULL_TO_READY:
      if (ret == GST_STATE_CHANGE_FAILURE) {
        stop_preload (common);
        close_checkpoint (common);
      }
      break;
    case GST_STATE_CHANGE_PAUSED_TO_READY:
      stop_preload (common);
      break;
    case GST_STATE_CHANGE_READY_TO_NULL:
      stop_preload (common);
      close_checkpoint (common);
      break;
    default:
      break;
  }
}
