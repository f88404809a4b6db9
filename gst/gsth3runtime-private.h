/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the runtime's files share:
 *   gsth3runtime.c    devices, turns, the table of models
 *   gsth3residency.c  which models are on a device, and its plan
 *
 * One lock guards it all. It is held for bookkeeping, while a device starts and
 * while it says how much memory is free; never while a model loads, is parked
 * or computes, and nothing else is locked under it. */
#pragma once

#include "gst/gsth3runtime.h"
#include "model/parking.h"

G_BEGIN_DECLS

#define GST_H3_N_RESIDENCIES (GST_H3_RESIDENCY_STAGE + 1)

/* A device, whose turn it is to compute on it, and what is on it. */
typedef struct {
  GstH3Backend backend;
  H3Device *device; /* owned */
  guint64 next_ticket, now_serving;
  GArray *given_up; /* tickets of those who stopped waiting */
  GPtrArray *plans; /* (element-type GstH3Plan), not owned */
  gboolean plan_changed;
  guint64 loading;  /* bytes that models on their way still need */
  guint64 promised; /* workspace that is kept and perhaps not allocated yet */
  guint64 taken;    /* workspace that jobs have allocated */
  guint64 leaving;  /* weights of models that are being freed */
} GstH3DeviceEntry;

struct _GstH3Model {
  const GstH3ModelKind *kind;
  gchar *key;
  GstH3DeviceEntry *entry;
  gpointer model;     /* NULL: not loaded */
  H3Parking *parking; /* of the loaded model, or NULL: it is freed instead */
  gboolean moving;    /* loaded, parked or brought back, without the lock */
  gboolean busy;      /* a job has begun */
  gboolean keep;      /* residency process */
  guint users;        /* holding or moving */
  guint holders[GST_H3_N_RESIDENCIES];
  guint64 weights;             /* bytes on the device */
  guint64 loading;             /* of those, the ones still to come */
  guint64 promised, taken;     /* workspace of the job that has begun */
  guint64 last_used;           /* counts uses */
  guint loads, load_ms, parks; /* for statistics */
};

extern GMutex gst_h3_runtime_lock;
extern GCond gst_h3_runtime_changed;

/* All with the lock held. */

GstH3DeviceEntry *gst_h3_runtime_find_device (H3Device *device);
/* key -> GstH3Model; may be NULL */
GHashTable *gst_h3_runtime_models (void);
/* Waits a moment for a change, then asks @stop, the caller's, which may take
 * its own locks, without ours. FALSE when it asks to end. */
gboolean gst_h3_runtime_wait (const H3Stop *stop, GError **error);
/* Takes the model out of the table and frees it when nobody needs it. */
void gst_h3_runtime_drop_if_unused (GstH3Model *model);

/* Without it: kind, device and the identities of all the files, which is what
 * makes two models one. */
gchar *gst_h3_runtime_model_key (const GstH3ModelKind *kind,
    const H3Checkpoint *checkpoint, H3Device *device, GError **error);

G_END_DECLS
