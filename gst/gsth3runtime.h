/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the process shares: devices, loaded models, turns and the room on a
 * device (spec/gstreamer.md 12). Everything here is thread-safe. */
#pragma once

#include <gst/gst.h>

#include "gst/gsth3enums.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/ops.h"

G_BEGIN_DECLS

/* --- devices --- */

/**
 * gst_h3_runtime_get_device:
 * @ordinal: of a GPU, -1 = the one with the most free memory; the CPU has none
 *
 * The process's one device of that backend and ordinal. GST_H3_BACKEND_AUTO
 * obeys $H3_BACKEND ("cuda", "cpu"), else takes a usable GPU when this build
 * has one, else, when no @ordinal was named, the CPU. Free with
 * h3_device_unref().
 *
 * Errors: those of h3_cuda_open_device(), and H3_ERROR_DEVICE for a device that
 * failed for good.
 */
H3Device *gst_h3_runtime_get_device (GstH3Backend backend, gint ordinal,
    GError **error);

/* For tests: what opens GPUs from now on, in place of h3_cuda_open_device();
 * NULL: that again. Devices that are open stay. */
typedef H3Device *(*GstH3OpenDevice) (gint ordinal, GError **error);
void gst_h3_runtime_set_open_device (GstH3OpenDevice open);

/* Jobs of one device take turns, first come first served. FALSE, and no turn,
 * when @stop asks to end. */
gboolean gst_h3_runtime_take_turn (H3Device *device, const H3Stop *stop,
    GError **error);
void gst_h3_runtime_end_turn (H3Device *device);

/* --- models --- */

/**
 * GstH3ModelKind: a component as the table of shared models sees it; static
 * @name: for messages: "transformer"
 * @component: whose files it is read from
 * @also: (array length=n_also): other components it reads, so that a change of
 *   their files makes another model; NULL = none
 * @stage: 0: computes without a turn and is never parked; else the order in
 *   which a clip needs the models that take turns, from 1
 * @passing: held for a job alone, so that it goes after each unless its
 *   residency is process; without a @stage
 * @plan: checks names, shapes and that the device takes it, allocates nothing
 * @load: returns the model
 * @tensors: with a @stage: its weights (h3_parking_new()), transfer full
 */
typedef struct {
  const gchar *name;
  H3Component component;
  const H3Component *also;
  guint n_also;
  guint stage;
  gboolean passing;
  gboolean (*plan) (const H3Checkpoint *checkpoint, const H3Device *device,
      guint64 *weight_bytes, GError **error);
  gpointer (*load) (const H3Checkpoint *checkpoint, H3Device *device,
      const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
      GError **error);
  GPtrArray *(*tensors) (gpointer model);
  void (*unref) (gpointer model);
} GstH3ModelKind;

/**
 * GstH3Request: what a user wants of a model
 * @weights: bytes of weights, as planned
 * @workspace: bytes needed beside them; @held: those of them that the user has
 *   already
 * @budget: what the process's models and jobs may take on the device, 0 = what
 *   it has. See the property memory-budget
 * @stop: (nullable): asked while loading, parking and waiting
 * @progress: (nullable): of loading
 */
typedef struct {
  const H3Checkpoint *checkpoint;
  guint64 weights, workspace, held, budget;
  const H3Stop *stop;
  H3LoadProgress progress;
  gpointer user_data;
} GstH3Request;

/* An element's entry in its device's plan. */
typedef struct _GstH3Plan GstH3Plan;

/**
 * gst_h3_plan_new:
 *
 * Adds to the plan of @device what an element will need, before anything is
 * loaded. NULL with H3_ERROR_NO_SPACE and the numbers when it can never fit
 * together with what is planned already.
 */
GstH3Plan *gst_h3_plan_new (const GstH3ModelKind *kind, H3Device *device,
    GstH3Residency residency, const GstH3Request *request, GError **error);
void gst_h3_plan_free (GstH3Plan *plan);
/* After settings changed; FALSE as above. */
gboolean gst_h3_plan_update (GstH3Plan *plan, GstH3Residency residency,
    const GstH3Request *request, GError **error);
/* Logs the device's plan at INFO when it has changed. */
void gst_h3_plan_log (const GstH3Plan *plan);

/* A user's reference to a shared model. */
typedef struct _GstH3Model GstH3Model;

/* Refers to the model of these files on that device; loads nothing. */
GstH3Model *gst_h3_model_hold (const GstH3ModelKind *kind,
    const H3Checkpoint *checkpoint, H3Device *device, GstH3Residency residency,
    GError **error);
/* Gives it back, with the @residency it was held with. The last user's release
 * frees it unless somebody's was process. */
void gst_h3_model_release (GstH3Model *model, GstH3Residency residency);

/**
 * gst_h3_model_preload:
 *
 * Loads it if that leaves room for what is planned and needed earlier; parks
 * and waits for nothing. TRUE also when it was left for its first job.
 */
gboolean gst_h3_model_preload (GstH3Model *model, const GstH3Request *request,
    GError **error);

/**
 * gst_h3_model_load: for a kind without a stage
 *
 * The model, loaded by this call or shared, and room for the workspace, which
 * is kept for the caller until gst_h3_model_settle(). Idle models are parked
 * for it, and one that computes is waited for. When a loading user is cancelled,
 * one of those waiting loads. Valid while held.
 */
gpointer gst_h3_model_load (GstH3Model *model, const GstH3Request *request,
    GError **error);

/**
 * gst_h3_model_begin: for a kind with a stage
 *
 * Waits for the device's turn, then as gst_h3_model_load(), but waits for
 * nobody who computes. The model is valid, and the turn the caller's, until
 * gst_h3_model_end().
 */
gpointer gst_h3_model_begin (GstH3Model *model, const GstH3Request *request,
    GError **error);
/* Parks the model when @residency is stage, and passes the turn on. */
void gst_h3_model_end (GstH3Model *model, GstH3Residency residency);

/* The workspace is allocated now: free memory no longer has it. May be called
 * again, and by gst_h3_model_end() is. Of one job at a time per model with a
 * stage; others say how many @bytes, workspace less held. */
void gst_h3_model_settle (GstH3Model *model, guint64 bytes);

/* How often the process has loaded it, how long the last time took, and how
 * often it was parked. */
guint gst_h3_model_loads (const GstH3Model *model);
guint gst_h3_model_load_ms (const GstH3Model *model);
guint gst_h3_model_parks (const GstH3Model *model);

/* Frees the models nobody holds now; returns how many. */
guint gst_h3_runtime_unload (void);

G_END_DECLS
