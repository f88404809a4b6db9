/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One lock guards the tables of this file. It is held for bookkeeping and while
 * a device starts, never while a model loads, and nothing else is locked under
 * it. */
#include "gst/gsth3runtime.h"

#include "cpu/h3-cpu.h"
#include "cuda/h3-cuda.h"

GST_DEBUG_CATEGORY (gst_h3_runtime_debug);
#define GST_CAT_DEFAULT gst_h3_runtime_debug

/* Waiting asks its H3Stop this often. */
#define POLL_US (20 * G_TIME_SPAN_MILLISECOND)
#define MAX_MARGIN (G_GUINT64_CONSTANT (1) << 30)

/* A device and whose turn it is to compute on it. */
typedef struct {
  GstH3Backend backend;
  gint ordinal;
  H3Device *device; /* owned */
  guint64 next_ticket, now_serving;
  GArray *given_up; /* tickets of those who stopped waiting */
} DeviceEntry;

struct _GstH3Model {
  const GstH3ModelKind *kind;
  gchar *key;
  H3Device *device; /* owned */
  gpointer model;   /* NULL: not loaded */
  gboolean loading; /* by somebody, without the lock */
  gboolean keep;    /* residency process */
  guint users;      /* holding or waiting */
  guint loads, load_ms;
};

static GMutex lock;
static GCond changed;
static GPtrArray *devices; /* DeviceEntry, lives as long as the process */
static GHashTable *models; /* key -> GstH3Model */

/* --- devices --- */

/* Makes "auto" what $H3_BACKEND says. */
static gboolean
choose_backend (GstH3Backend *backend, GError **error)
{
  const gchar *wanted = g_getenv ("H3_BACKEND");

  if (*backend == GST_H3_BACKEND_AUTO && wanted && *wanted) {
    if (g_str_equal (wanted, "cuda")) {
      *backend = GST_H3_BACKEND_CUDA;
    } else if (g_str_equal (wanted, "cpu")) {
      *backend = GST_H3_BACKEND_CPU;
    } else if (!g_str_equal (wanted, "auto")) {
      g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
          "$H3_BACKEND is \"%s\"; it must be auto, cuda or cpu", wanted);
      return FALSE;
    }
  }
  return TRUE;
}

/* With the lock held: the device of that backend, made when it is first asked
 * for. NULL with @error. */
static DeviceEntry *
device_of (GstH3Backend backend, gint ordinal, GError **error)
{
  DeviceEntry *entry;
  H3Device *device;

  for (guint i = 0; i < devices->len; i++) {
    entry = g_ptr_array_index (devices, i);
    if (entry->backend == backend && entry->ordinal == ordinal)
      return entry;
  }
  device = backend == GST_H3_BACKEND_CUDA ? h3_cuda_open_device (ordinal, error)
                                          : h3_cpu_device_new (0, error);
  if (!device)
    return NULL;
  entry = g_new0 (DeviceEntry, 1);
  entry->backend = backend;
  entry->ordinal = ordinal;
  entry->device = device;
  entry->given_up = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_ptr_array_add (devices, entry);
  GST_INFO ("computing on %s", device->name);
  return entry;
}

/* With the lock held: a usable GPU, else the CPU. */
static DeviceEntry *
best_device (gint ordinal, GError **error)
{
  g_autoptr (GError) reason = NULL;
  DeviceEntry *entry = NULL;

  if (h3_cuda_have_driver ())
    entry = device_of (GST_H3_BACKEND_CUDA, ordinal, &reason);
  if (entry)
    return entry;
  GST_INFO ("no GPU: %s", reason ? reason->message : "no NVIDIA driver");
  return device_of (GST_H3_BACKEND_CPU, ordinal, error);
}

H3Device *
gst_h3_runtime_get_device (GstH3Backend backend, gint ordinal, GError **error)
{
  DeviceEntry *entry;
  H3Device *device;

  if (!choose_backend (&backend, error))
    return NULL;

  g_mutex_lock (&lock);
  if (!devices)
    devices = g_ptr_array_new ();
  entry = backend == GST_H3_BACKEND_AUTO ? best_device (ordinal, error)
                                         : device_of (backend, ordinal, error);
  device = entry ? h3_device_ref (entry->device) : NULL;
  g_mutex_unlock (&lock);
  return device;
}

static DeviceEntry *
find_device (H3Device *device)
{
  for (guint i = 0; devices && i < devices->len; i++) {
    DeviceEntry *entry = g_ptr_array_index (devices, i);

    if (entry->device == device)
      return entry;
  }
  return NULL;
}

/* --- turns --- */

/* Serves the next ticket that somebody still waits for. */
static void
serve_next (DeviceEntry *entry)
{
  gboolean skip;

  do {
    entry->now_serving++;
    skip = FALSE;
    for (guint i = 0; i < entry->given_up->len && !skip; i++) {
      if (g_array_index (entry->given_up, guint64, i) == entry->now_serving) {
        g_array_remove_index_fast (entry->given_up, i);
        skip = TRUE;
      }
    }
  } while (skip);
  g_cond_broadcast (&changed);
}

/* With the lock held: waits for a change, for at most POLL_US. */
static void
wait_a_moment (void)
{
  g_cond_wait_until (&changed, &lock, g_get_monotonic_time () + POLL_US);
}

/* @stop is the caller's and may take its own locks: never asked under ours. */
static gboolean
stop_requested_unlocked (const H3Stop *stop, GError **error)
{
  gboolean requested;

  g_mutex_unlock (&lock);
  requested = h3_stop_requested (stop, error);
  g_mutex_lock (&lock);
  return requested;
}

gboolean
gst_h3_runtime_take_turn (H3Device *device, const H3Stop *stop, GError **error)
{
  DeviceEntry *entry;
  guint64 ticket;
  gboolean mine = TRUE;

  g_mutex_lock (&lock);
  entry = find_device (device);
  ticket = entry->next_ticket++;
  while (entry->now_serving != ticket && mine) {
    wait_a_moment ();
    if (entry->now_serving != ticket && stop_requested_unlocked (stop, error)) {
      mine = FALSE;
      /* the turn may have come while the lock was not held */
      if (entry->now_serving == ticket)
        serve_next (entry);
      else
        g_array_append_val (entry->given_up, ticket);
    }
  }
  g_mutex_unlock (&lock);
  return mine;
}

void
gst_h3_runtime_end_turn (H3Device *device)
{
  g_mutex_lock (&lock);
  serve_next (find_device (device));
  g_mutex_unlock (&lock);
}

/* --- memory --- */

gboolean
gst_h3_runtime_plan_memory (H3Device *device, const gchar *what, guint64 budget,
    guint64 weights, gboolean loaded, guint64 workspace, GError **error)
{
  guint64 free_bytes = 0, total = 0, margin, needed, limit;

  device->ops->memory_info (device, &free_bytes, &total);
  margin = MIN (total / 20, MAX_MARGIN);
  /* a budget is for all of it, free memory for what is still to come */
  if (budget > 0) {
    needed = weights + workspace;
    limit = budget;
  } else {
    needed = (loaded ? 0 : weights) + workspace;
    limit = free_bytes > margin ? free_bytes - margin : 0;
  }
  GST_INFO ("%s on %s: %" G_GUINT64_FORMAT
            " bytes of weights%s, %" G_GUINT64_FORMAT
            " of workspace; %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
            " free, budget %" G_GUINT64_FORMAT,
      what, device->name, weights, loaded ? " (loaded)" : "", workspace,
      free_bytes, total, budget);
  if (total == 0 && budget == 0)
    return TRUE; /* the device cannot tell */
  if (needed <= limit)
    return TRUE;
  if (budget > 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "The %s needs %" G_GUINT64_FORMAT " bytes (%" G_GUINT64_FORMAT
        " of weights, %" G_GUINT64_FORMAT " of workspace), and memory-budget "
        "allows %" G_GUINT64_FORMAT "; raise it or make a smaller clip",
        what, needed, weights, workspace, budget);
  } else {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "The %s needs %" G_GUINT64_FORMAT " bytes (%" G_GUINT64_FORMAT
        " of weights, %" G_GUINT64_FORMAT
        " of workspace), and %s has %" G_GUINT64_FORMAT
        " free, of which %" G_GUINT64_FORMAT
        " stay in reserve; make a smaller clip, or set memory-budget to try it",
        what, needed, loaded ? 0 : weights, workspace, device->name, free_bytes,
        margin);
  }
  return FALSE;
}

/* --- models --- */

/* Kind, device and the identities of all the files: what makes two models
 * one. */
static gchar *
model_key (const GstH3ModelKind *kind, const H3Checkpoint *checkpoint,
    H3Device *device, GError **error)
{
  GString *key = g_string_new (NULL);

  g_string_printf (key, "%s\n%p", kind->name, device);
  for (guint i = 0; i <= kind->n_also; i++) {
    gchar *identity = h3_checkpoint_identity (checkpoint,
        i == 0 ? kind->component : kind->also[i - 1], error);

    if (!identity) {
      g_string_free (key, TRUE);
      return NULL;
    }
    g_string_append_printf (key, "\n%s", identity);
    g_free (identity);
  }
  return g_string_free (key, FALSE);
}

gboolean
gst_h3_runtime_is_loaded (const GstH3ModelKind *kind,
    const H3Checkpoint *checkpoint, H3Device *device)
{
  gchar *key = model_key (kind, checkpoint, device, NULL);
  GstH3Model *model;
  gboolean loaded;

  g_mutex_lock (&lock);
  model = key && models ? g_hash_table_lookup (models, key) : NULL;
  loaded = model && model->model;
  g_mutex_unlock (&lock);
  g_free (key);
  return loaded;
}

/* With the lock held. Takes @key. */
static GstH3Model *
find_or_add (gchar *key, const GstH3ModelKind *kind, H3Device *device)
{
  GstH3Model *model;

  if (!models)
    models = g_hash_table_new (g_str_hash, g_str_equal);
  model = g_hash_table_lookup (models, key);
  if (model) {
    g_free (key);
    return model;
  }
  model = g_new0 (GstH3Model, 1);
  model->kind = kind;
  model->key = key;
  model->device = h3_device_ref (device);
  g_hash_table_insert (models, key, model);
  return model;
}

/* With the lock held: takes the entry out of the table when nobody needs it;
 * the caller frees it without the lock. */
static gboolean
drop_if_unused (GstH3Model *model)
{
  if (model->users > 0 || (model->model && model->keep))
    return FALSE;
  g_hash_table_remove (models, model->key);
  return TRUE;
}

static gpointer
load (GstH3Model *model, const H3Checkpoint *checkpoint, guint64 budget,
    guint64 weights, guint64 workspace, const H3Stop *stop,
    H3LoadProgress progress, gpointer user_data, guint *ms, GError **error)
{
  gint64 start = g_get_monotonic_time ();
  gpointer loaded;

  if (!gst_h3_runtime_plan_memory (model->device, model->kind->name, budget,
          weights, FALSE, workspace, error))
    return NULL;
  loaded = model->kind->load (checkpoint, model->device, stop, progress,
      user_data, error);
  *ms = (g_get_monotonic_time () - start) / 1000;
  if (loaded)
    GST_INFO ("loaded the %s in %u ms", model->kind->name, *ms);
  return loaded;
}

static void
model_free (GstH3Model *model)
{
  if (model->model)
    model->kind->unref (model->model);
  h3_device_unref (model->device);
  g_free (model->key);
  g_free (model);
}

GstH3Model *
gst_h3_model_acquire (const GstH3ModelKind *kind,
    const H3Checkpoint *checkpoint, H3Device *device, guint64 budget,
    guint64 weights, guint64 workspace, const H3Stop *stop,
    H3LoadProgress progress, gpointer user_data, GError **error)
{
  gchar *key = model_key (kind, checkpoint, device, error);
  GstH3Model *model;
  gboolean failed = FALSE, unused = FALSE;
  gpointer loaded;
  guint ms = 0;

  if (!key)
    return NULL;
  g_mutex_lock (&lock);
  model = find_or_add (key, kind, device);
  model->users++;
  while (!model->model && !failed) {
    if (model->loading) {
      wait_a_moment ();
      failed = model->loading && stop_requested_unlocked (stop, error);
      continue;
    }
    model->loading = TRUE;
    g_mutex_unlock (&lock);
    loaded = load (model, checkpoint, budget, weights, workspace, stop,
        progress, user_data, &ms, error);
    g_mutex_lock (&lock);
    model->loading = FALSE;
    model->model = loaded;
    failed = !loaded;
    if (loaded) {
      model->loads++;
      model->load_ms = ms;
    }
    g_cond_broadcast (&changed);
  }
  if (failed) {
    model->users--;
    unused = drop_if_unused (model);
  }
  g_mutex_unlock (&lock);
  if (unused)
    model_free (model);
  return failed ? NULL : model;
}

void
gst_h3_model_release (GstH3Model *model, GstH3Residency residency)
{
  gboolean unused;

  g_mutex_lock (&lock);
  model->users--;
  if (residency == GST_H3_RESIDENCY_PROCESS)
    model->keep = TRUE;
  unused = drop_if_unused (model);
  g_mutex_unlock (&lock);
  if (unused)
    model_free (model);
}

gpointer
gst_h3_model_get (const GstH3Model *model)
{
  return model->model;
}

guint
gst_h3_model_loads (const GstH3Model *model)
{
  guint loads;

  g_mutex_lock (&lock);
  loads = model->loads;
  g_mutex_unlock (&lock);
  return loads;
}

guint
gst_h3_model_load_ms (const GstH3Model *model)
{
  guint ms;

  g_mutex_lock (&lock);
  ms = model->load_ms;
  g_mutex_unlock (&lock);
  return ms;
}

guint
gst_h3_runtime_unload (void)
{
  GPtrArray *unused = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer value;
  guint n;

  g_mutex_lock (&lock);
  if (models) {
    g_hash_table_iter_init (&iter, models);
    while (g_hash_table_iter_next (&iter, NULL, &value)) {
      GstH3Model *model = value;

      if (model->users == 0) {
        g_hash_table_iter_remove (&iter);
        g_ptr_array_add (unused, model);
      }
    }
  }
  g_mutex_unlock (&lock);
  for (guint i = 0; i < unused->len; i++)
    model_free (g_ptr_array_index (unused, i));
  n = unused->len;
  g_ptr_array_unref (unused);
  return n;
}
