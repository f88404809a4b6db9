/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A parallel for over the process's worker threads. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Memory of one thread that only grows: no allocation once it is warm. */
typedef struct {
  gpointer data;
  gsize size;
} H3CpuScratch;

void h3_cpu_scratch_clear (H3CpuScratch *scratch);

/* @scratch: as many bytes as were asked for, not initialised */
typedef void (*H3CpuTask) (gconstpointer data, gint64 index, gpointer scratch);

/* The workers are shared by all devices and streams of the process. A device
 * holds them between ref and unref; @workers more threads beside the callers. */
gboolean h3_cpu_pool_ref (guint workers, GError **error);
void h3_cpu_pool_unref (void);

/**
 * h3_cpu_pool_run:
 * @workers: at most that many help the calling thread
 * @own: the calling thread's scratch
 *
 * Runs @task for 0 .. @n - 1 in any order and returns when all have run. The
 * calling thread works too and finishes alone when the workers are busy, so
 * callers cannot wait for each other. FALSE when a thread found no memory for
 * its scratch; then some tasks did not run.
 */
gboolean h3_cpu_pool_run (guint workers, gint64 n, gsize scratch_bytes,
    H3CpuTask task, gconstpointer data, H3CpuScratch *own);

G_END_DECLS
