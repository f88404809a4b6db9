/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3common.h"

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
    gst_h3_model_release (model, GST_H3_RESIDENCY_PIPELINE);
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
  g_object_class_install_property (object_class, GST_H3_PROP_RESIDENCY,
      g_param_spec_enum ("residency", "Residency",
          "How long a loaded model stays in memory. A model is shared by all "
          "elements of the process that use the same files on the same device.",
          GST_TYPE_H3_RESIDENCY, GST_H3_DEFAULT_RESIDENCY, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_MEMORY_BUDGET,
      g_param_spec_uint64 ("memory-budget", "Memory budget",
          "Bytes this element's weights and workspace may take; more is "
          "refused before loading. 0 = what the device has free, minus a "
          "margin of a twentieth of its memory (at most 1 GiB).",
          0, G_MAXUINT64, GST_H3_DEFAULT_MEMORY_BUDGET, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_PRELOAD,
      g_param_spec_enum ("preload", "Preload",
          "When to begin loading the model, in the background.",
          GST_TYPE_H3_PRELOAD, GST_H3_DEFAULT_PRELOAD, flags));
  g_object_class_install_property (object_class, GST_H3_PROP_STATS,
      g_param_spec_boxed ("stats", "Statistics",
          "Numbers of the work so far: model-loads (how often the process "
          "loaded the model now held), model-load-ms (milliseconds the last "
          "load took), weight-bytes, and the element's own.",
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
  guint loads, load_ms;

  g_mutex_lock (&common->lock);
  if (common->model) {
    common->loads = gst_h3_model_loads (common->model);
    common->load_ms = gst_h3_model_load_ms (common->model);
  }
  loads = common->loads;
  load_ms = common->load_ms;
  g_mutex_unlock (&common->lock);
  stats = gst_structure_new ("application/x-h3-stats", "model-loads",
      G_TYPE_UINT, loads, "model-load-ms", G_TYPE_UINT, load_ms, "weight-bytes",
      G_TYPE_UINT64, common->weight_bytes, NULL);
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

static guint64
get_budget (GstH3Common *common)
{
  guint64 budget;

  GST_OBJECT_LOCK (common->element);
  budget = common->memory_budget;
  GST_OBJECT_UNLOCK (common->element);
  return budget;
}

gboolean
gst_h3_common_check_workspace (GstH3Common *common, guint64 bytes,
    GError **error)
{
  const GstH3ModelKind *kind = common->funcs->kind;

  return gst_h3_runtime_plan_memory (common->device, kind->name,
      get_budget (common), common->weight_bytes,
      gst_h3_runtime_is_loaded (kind, common->checkpoint, common->device),
      bytes, error);
}

H3Device *
gst_h3_common_get_device (GstH3Common *common, GError **error)
{
  GstH3Backend backend;

  GST_OBJECT_LOCK (common->element);
  backend = common->backend;
  GST_OBJECT_UNLOCK (common->element);
  return gst_h3_runtime_get_device (backend, -1, error);
}

static gboolean
open_checkpoint (GstH3Common *common, GError **error)
{
  const GstH3ModelKind *kind = common->funcs->kind;
  H3Partition partition = H3_PARTITION_FL2VA;

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
  if (!kind->plan (common->checkpoint, &common->weight_bytes, error))
    return FALSE;
  if (common->funcs->opened &&
      !common->funcs->opened (common->element, common->checkpoint, error))
    return FALSE;
  return gst_h3_common_check_workspace (common, workspace (common), error);
}

static void
close_checkpoint (GstH3Common *common)
{
  GstH3Model *model;
  GstH3Residency residency;

  GST_OBJECT_LOCK (common->element);
  residency = common->residency;
  GST_OBJECT_UNLOCK (common->element);
  g_mutex_lock (&common->lock);
  model = common->model;
  common->model = NULL;
  g_mutex_unlock (&common->lock);
  if (model)
    gst_h3_model_release (model, residency);
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

static GstH3Model *
acquire_model (GstH3Common *common, const H3Stop *stop, GError **error)
{
  LoadReport load = { common, {
                                  0,
                              } };
  GError *local = NULL;
  GstH3Model *model =
      gst_h3_model_acquire (common->funcs->kind, common->checkpoint,
          common->device, get_budget (common), common->weight_bytes,
          workspace (common), stop, load_progress, &load, &local);

  if (local)
    gst_h3_common_fail (common, g_error_copy (local));
  gst_h3_progress_end (&load.report, local);
  if (local)
    g_propagate_error (error, local);
  return model;
}

gpointer
gst_h3_common_acquire (GstH3Common *common, const H3Stop *job, GError **error)
{
  AcquireStop acquire_stop = { common, job };
  const H3Stop stop = { acquire_should_stop, &acquire_stop };
  GstH3Model *model, *spare = NULL;
  gpointer loaded;

  g_mutex_lock (&common->lock);
  loaded = common->model ? gst_h3_model_get (common->model) : NULL;
  g_mutex_unlock (&common->lock);
  if (loaded) {
    gst_h3_common_begin (common);
    return loaded;
  }

  model = acquire_model (common, &stop, error);
  if (!model)
    return NULL;
  g_mutex_lock (&common->lock);
  if (common->model)
    spare = model; /* the preload got it at the same time */
  else
    common->model = model;
  loaded = gst_h3_model_get (common->model);
  g_mutex_unlock (&common->lock);
  if (spare)
    gst_h3_model_release (spare, GST_H3_RESIDENCY_PIPELINE);
  gst_h3_common_begin (common);
  return loaded;
}

static gpointer
preload_thread (gpointer data)
{
  GstH3Common *common = data;
  GError *error = NULL;

  if (!gst_h3_common_acquire (common, NULL, &error)) {
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
