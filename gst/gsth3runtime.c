/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3runtime-private.h"

#include "cpu/h3-cpu.h"
#include "cuda/h3-cuda.h"

GST_DEBUG_CATEGORY (gst_h3_runtime_debug);
#define GST_CAT_DEFAULT gst_h3_runtime_debug

/* Waiting asks its H3Stop this often. */
#define POLL_US (20 * G_TIME_SPAN_MILLISECOND)

#define lock gst_h3_runtime_lock
#define changed gst_h3_runtime_changed
GMutex lock;
GCond changed;
static GPtrArray *devices; /* GstH3DeviceEntry, live as long as the process */
static GHashTable *models; /* key -> GstH3Model */
static GstH3OpenDevice open_device;
/* whom -1 stands for, once somebody has asked */
static GstH3DeviceEntry *chosen;

/* --- devices --- */

void
gst_h3_runtime_set_open_device (GstH3OpenDevice open)
{
  g_mutex_lock (&lock);
  open_device = open;
  g_mutex_unlock (&lock);
}

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

/* With the lock held, as the next ones. */
static GstH3DeviceEntry *
find_opened (GstH3Backend backend, gint ordinal)
{
  for (guint i = 0; i < devices->len; i++) {
    GstH3DeviceEntry *entry = g_ptr_array_index (devices, i);

    if (entry->backend == backend && entry->device->ordinal == ordinal)
      return entry;
  }
  return NULL;
}

/* Takes @device. */
static GstH3DeviceEntry *
add_device (GstH3Backend backend, H3Device *device)
{
  GstH3DeviceEntry *entry = find_opened (backend, device->ordinal);

  if (entry) { /* -1 was one that is open */
    h3_device_unref (device);
    return entry;
  }
  entry = g_new0 (GstH3DeviceEntry, 1);
  entry->backend = backend;
  entry->device = device;
  entry->given_up = g_array_new (FALSE, FALSE, sizeof (guint64));
  entry->plans = g_ptr_array_new ();
  g_ptr_array_add (devices, entry);
  GST_INFO ("computing on %s", device->name);
  return entry;
}

static GstH3DeviceEntry *
cpu (GError **error)
{
  GstH3DeviceEntry *entry = find_opened (GST_H3_BACKEND_CPU, -1);
  H3Device *device = entry ? NULL : h3_cpu_device_new (0, error);

  return device ? add_device (GST_H3_BACKEND_CPU, device) : entry;
}

static GstH3DeviceEntry *
gpu (gint ordinal, GError **error)
{
  GstH3DeviceEntry *entry =
      ordinal < 0 ? chosen : find_opened (GST_H3_BACKEND_CUDA, ordinal);
  H3Device *device;

  if (entry)
    return entry;
  device = open_device ? open_device (ordinal, error)
                       : h3_cuda_open_device (ordinal, error);
  if (!device)
    return NULL;
  entry = add_device (GST_H3_BACKEND_CUDA, device);
  if (ordinal < 0)
    chosen = entry;
  return entry;
}

/* A usable GPU, else the CPU; but the GPU that was asked for, or none. */
static GstH3DeviceEntry *
best_device (gint ordinal, GError **error)
{
  g_autoptr (GError) reason = NULL;
  GstH3DeviceEntry *entry = NULL;

  if (ordinal >= 0)
    return gpu (ordinal, error);
  if (open_device || h3_cuda_have_driver ())
    entry = gpu (ordinal, &reason);
  if (entry)
    return entry;
  GST_INFO ("no GPU: %s", reason ? reason->message : "no NVIDIA driver");
  return cpu (error);
}

H3Device *
gst_h3_runtime_get_device (GstH3Backend backend, gint ordinal, GError **error)
{
  GstH3DeviceEntry *entry;
  H3Device *device = NULL;

  if (!choose_backend (&backend, error))
    return NULL;

  g_mutex_lock (&lock);
  if (!devices)
    devices = g_ptr_array_new ();
  entry = backend == GST_H3_BACKEND_AUTO   ? best_device (ordinal, error)
          : backend == GST_H3_BACKEND_CUDA ? gpu (ordinal, error)
                                           : cpu (error);
  if (entry && h3_device_check (entry->device, error))
    device = h3_device_ref (entry->device);
  g_mutex_unlock (&lock);
  return device;
}

GstH3DeviceEntry *
gst_h3_runtime_find_device (H3Device *device)
{
  for (guint i = 0; devices && i < devices->len; i++) {
    GstH3DeviceEntry *entry = g_ptr_array_index (devices, i);

    if (entry->device == device)
      return entry;
  }
  return NULL;
}

/* --- waiting and turns --- */

gboolean
gst_h3_runtime_wait (const H3Stop *stop, GError **error)
{
  gboolean requested;

  g_cond_wait_until (&changed, &lock, g_get_monotonic_time () + POLL_US);
  g_mutex_unlock (&lock);
  requested = h3_stop_requested (stop, error);
  g_mutex_lock (&lock);
  return !requested;
}

/* Serves the next ticket that somebody still waits for. */
static void
serve_next (GstH3DeviceEntry *entry)
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

gboolean
gst_h3_runtime_take_turn (H3Device *device, const H3Stop *stop, GError **error)
{
  GstH3DeviceEntry *entry;
  guint64 ticket;
  gboolean mine = TRUE;

  g_mutex_lock (&lock);
  entry = gst_h3_runtime_find_device (device);
  ticket = entry->next_ticket++;
  while (entry->now_serving != ticket && mine) {
    mine = gst_h3_runtime_wait (stop, error);
    if (!mine) {
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
  serve_next (gst_h3_runtime_find_device (device));
  g_mutex_unlock (&lock);
}

/* --- models --- */

GHashTable *
gst_h3_runtime_models (void)
{
  return models;
}

gchar *
gst_h3_runtime_model_key (const GstH3ModelKind *kind,
    const H3Checkpoint *checkpoint, H3Device *device, GError **error)
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
  model->entry = gst_h3_runtime_find_device (device);
  g_hash_table_insert (models, key, model);
  return model;
}

static void
model_free (GstH3Model *model)
{
  if (model->model)
    model->kind->unref (model->model);
  g_clear_pointer (&model->parking, h3_parking_free);
  g_free (model->key);
  g_free (model);
}

/* With the lock held, in which it is free meanwhile. Nobody finds the model any
 * more, but its memory is not free yet. */
static void
let_go (GstH3Model *model)
{
  GstH3DeviceEntry *entry = model->entry;
  guint64 bytes = model->model ? model->weights : 0;

  entry->leaving += bytes;
  g_mutex_unlock (&lock);
  model_free (model);
  g_mutex_lock (&lock);
  entry->leaving -= bytes;
  g_cond_broadcast (&changed); /* there is room now */
}

void
gst_h3_runtime_drop_if_unused (GstH3Model *model)
{
  if (model->users > 0 || (model->model && model->keep))
    return;
  g_hash_table_remove (models, model->key);
  let_go (model);
}

GstH3Model *
gst_h3_model_hold (const GstH3ModelKind *kind, const H3Checkpoint *checkpoint,
    H3Device *device, GstH3Residency residency, GError **error)
{
  gchar *key = gst_h3_runtime_model_key (kind, checkpoint, device, error);
  GstH3Model *model;

  if (!key)
    return NULL;
  g_mutex_lock (&lock);
  model = find_or_add (key, kind, device);
  model->users++;
  model->holders[residency]++;
  g_mutex_unlock (&lock);
  return model;
}

void
gst_h3_model_release (GstH3Model *model, GstH3Residency residency)
{
  g_mutex_lock (&lock);
  model->users--;
  model->holders[residency]--;
  if (residency == GST_H3_RESIDENCY_PROCESS)
    model->keep = TRUE;
  gst_h3_runtime_drop_if_unused (model);
  g_mutex_unlock (&lock);
}

static guint
get_locked (const guint *value)
{
  guint copy;

  g_mutex_lock (&lock);
  copy = *value;
  g_mutex_unlock (&lock);
  return copy;
}

guint
gst_h3_model_loads (const GstH3Model *model)
{
  return get_locked (&model->loads);
}

guint
gst_h3_model_load_ms (const GstH3Model *model)
{
  return get_locked (&model->load_ms);
}

guint
gst_h3_model_parks (const GstH3Model *model)
{
  return get_locked (&model->parks);
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
  for (guint i = 0; i < unused->len; i++)
    let_go (g_ptr_array_index (unused, i));
  g_mutex_unlock (&lock);
  n = unused->len;
  g_ptr_array_unref (unused);
  return n;
}
