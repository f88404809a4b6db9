/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the process shares: devices, loaded models, turns (spec/gstreamer.md
 * 12). Everything here is thread-safe. */
#pragma once

#include <gst/gst.h>

#include "gst/gsth3enums.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/ops.h"

G_BEGIN_DECLS

/**
 * gst_h3_runtime_get_device:
 *
 * The process's one device of that backend and ordinal (-1 = the first usable).
 * GST_H3_BACKEND_AUTO obeys $H3_BACKEND ("cuda", "cpu"), else takes a usable
 * GPU when this build has one, else the CPU. Free with h3_device_unref().
 */
H3Device *gst_h3_runtime_get_device (GstH3Backend backend, gint ordinal,
    GError **error);

/**
 * GstH3ModelKind: a component as the table of shared models sees it; static
 * @name: for messages: "transformer"
 * @component: whose files it is read from
 * @also: (array length=n_also): other components it reads, so that a change of
 *   their files makes another model; NULL = none
 * @plan: checks names and shapes, allocates nothing
 * @load: returns the model
 */
typedef struct {
  const gchar *name;
  H3Component component;
  const H3Component *also;
  guint n_also;
  gboolean (*plan) (const H3Checkpoint *checkpoint, guint64 *weight_bytes,
      GError **error);
  gpointer (*load) (const H3Checkpoint *checkpoint, H3Device *device,
      const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
      GError **error);
  void (*unref) (gpointer model);
} GstH3ModelKind;

/* A user's reference to a shared model. */
typedef struct _GstH3Model GstH3Model;

/**
 * gst_h3_runtime_plan_memory:
 * @what: for the message: "transformer"
 * @budget: bytes this user may take, 0 = what the device has free minus a
 *   margin of a twentieth of its memory, at most 1 GiB
 * @weights: bytes of weights; @loaded: whether they are in memory already
 * @workspace: bytes needed beside the weights
 *
 * FALSE with H3_ERROR_NO_SPACE and the numbers. Logs the plan at INFO.
 */
gboolean gst_h3_runtime_plan_memory (H3Device *device, const gchar *what,
    guint64 budget, guint64 weights, gboolean loaded, guint64 workspace,
    GError **error);

/* Whether somebody has that model loaded now. */
gboolean gst_h3_runtime_is_loaded (const GstH3ModelKind *kind,
    const H3Checkpoint *checkpoint, H3Device *device);

/**
 * gst_h3_model_acquire:
 * @stop: asked while loading and while waiting for another user's loading
 *
 * The model, loaded by this call or shared. When the loading user is cancelled,
 * one of those waiting loads. Memory is planned before loading.
 */
GstH3Model *gst_h3_model_acquire (const GstH3ModelKind *kind,
    const H3Checkpoint *checkpoint, H3Device *device, guint64 budget,
    guint64 weights, guint64 workspace, const H3Stop *stop,
    H3LoadProgress progress, gpointer user_data, GError **error);
/* Gives it back. The last user's release frees it unless @residency, or that of
 * a user before, was process. */
void gst_h3_model_release (GstH3Model *model, GstH3Residency residency);
/* What GstH3ModelKind.load returned; valid while held. */
gpointer gst_h3_model_get (const GstH3Model *model);
/* How often the process has loaded it, and how long the last time took. */
guint gst_h3_model_loads (const GstH3Model *model);
guint gst_h3_model_load_ms (const GstH3Model *model);

/* Frees the models nobody holds now; returns how many. */
guint gst_h3_runtime_unload (void);

/* Jobs of one device take turns, first come first served. FALSE, and no turn,
 * when @stop asks to end. */
gboolean gst_h3_runtime_take_turn (H3Device *device, const H3Stop *stop,
    GError **error);
void gst_h3_runtime_end_turn (H3Device *device);

G_END_DECLS
