/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/pool.h"

#include <stdlib.h>

#include "cpu/memory.h"
#include "model/error.h"

/* One parallel for; lives on its caller's stack and is in the list while it has
 * tasks to give away. */
typedef struct _Job Job;
struct _Job {
  Job *next;
  H3CpuTask task;
  gconstpointer data;
  gint64 n;
  gsize scratch_bytes;
  gint64 taken; /* atomic: the next index to run */
  gint failed;  /* atomic */
  guint room;   /* pool.lock: workers that may still join */
  guint active; /* pool.lock: workers that run its tasks */
};

static struct {
  GMutex lock;
  GCond work;         /* a job was listed, or the pool closes */
  GCond left;         /* a worker left a job */
  Job *jobs;          /* lock; oldest first */
  guint users;        /* lock; devices */
  gboolean closing;   /* lock */
  GPtrArray *threads; /* lifecycle */
  GMutex lifecycle;   /* taken before lock; ref and unref */
} pool;

/* At least @bytes, 64-byte aligned, or NULL when there is no memory. */
static gpointer
scratch_get (H3CpuScratch *scratch, gsize bytes)
{
  if (bytes > scratch->size) {
    h3_cpu_scratch_clear (scratch);
    scratch->data = h3_cpu_memory_alloc (bytes);
    if (!scratch->data)
      return NULL;
    scratch->size = bytes;
  }
  return scratch->data;
}

void
h3_cpu_scratch_clear (H3CpuScratch *scratch)
{
  free (scratch->data);
  scratch->data = NULL;
  scratch->size = 0;
}

static void
work_on (Job *job, H3CpuScratch *scratch)
{
  gpointer memory = NULL;
  gint64 i;

  if (job->scratch_bytes &&
      !(memory = scratch_get (scratch, job->scratch_bytes))) {
    g_atomic_int_set (&job->failed, TRUE);
    return;
  }
  while (!g_atomic_int_get (&job->failed) &&
         (i = __atomic_fetch_add (&job->taken, 1, __ATOMIC_RELAXED)) < job->n)
    job->task (job->data, i, memory);
}

/* A listed job that a worker may join. */
static Job *
find_job (void)
{
  for (Job *job = pool.jobs; job; job = job->next)
    if (job->room > 0 &&
        __atomic_load_n (&job->taken, __ATOMIC_RELAXED) < job->n)
      return job;
  return NULL;
}

static gpointer
worker (gpointer unused)
{
  H3CpuScratch scratch = { NULL, 0 };
  Job *job;

  g_mutex_lock (&pool.lock);
  while (!pool.closing) {
    if (!(job = find_job ())) {
      g_cond_wait (&pool.work, &pool.lock);
      continue;
    }
    job->room--;
    job->active++;
    g_mutex_unlock (&pool.lock);
    work_on (job, &scratch);
    g_mutex_lock (&pool.lock);
    if (--job->active == 0)
      g_cond_broadcast (&pool.left);
  }
  g_mutex_unlock (&pool.lock);
  h3_cpu_scratch_clear (&scratch);
  return NULL;
}

static void
stop_workers (void)
{
  g_mutex_lock (&pool.lock);
  pool.closing = TRUE;
  g_cond_broadcast (&pool.work);
  g_mutex_unlock (&pool.lock);
  for (guint i = 0; i < pool.threads->len; i++)
    g_thread_join (pool.threads->pdata[i]);
  g_clear_pointer (&pool.threads, g_ptr_array_unref);
}

gboolean
h3_cpu_pool_ref (guint workers, GError **error)
{
  GError *local = NULL;

  g_mutex_lock (&pool.lifecycle);
  if (pool.users++ == 0) {
    pool.threads = g_ptr_array_new ();
    pool.closing = FALSE;
  }
  while (pool.threads->len < workers) {
    GThread *thread = g_thread_try_new ("h3-cpu", worker, NULL, &local);
    if (!thread)
      break;
    g_ptr_array_add (pool.threads, thread);
  }
  if (local && --pool.users == 0)
    stop_workers ();
  g_mutex_unlock (&pool.lifecycle);
  if (!local)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_INIT,
      "cannot start %u worker threads: %s", workers, local->message);
  g_error_free (local);
  return FALSE;
}

void
h3_cpu_pool_unref (void)
{
  g_mutex_lock (&pool.lifecycle);
  if (--pool.users == 0)
    stop_workers ();
  g_mutex_unlock (&pool.lifecycle);
}

static void
list_job (Job *job, guint helpers)
{
  Job **end = &pool.jobs;

  g_mutex_lock (&pool.lock);
  while (*end)
    end = &(*end)->next;
  *end = job;
  for (guint i = 0; i < helpers; i++)
    g_cond_signal (&pool.work);
  g_mutex_unlock (&pool.lock);
}

static void
finish_job (Job *job)
{
  Job **link = &pool.jobs;

  g_mutex_lock (&pool.lock);
  while (*link != job)
    link = &(*link)->next;
  *link = job->next;
  while (job->active > 0)
    g_cond_wait (&pool.left, &pool.lock);
  g_mutex_unlock (&pool.lock);
}

gboolean
h3_cpu_pool_run (guint workers, gint64 n, gsize scratch_bytes, H3CpuTask task,
    gconstpointer data, H3CpuScratch *own)
{
  Job job = { .task = task,
    .data = data,
    .n = n,
    .scratch_bytes = scratch_bytes,
    .room = workers };
  gboolean shared = workers > 0 && n > 1;

  if (n <= 0)
    return TRUE;
  if (shared)
    list_job (&job, MIN (workers, n - 1));
  work_on (&job, own);
  if (shared)
    finish_job (&job);
  return !job.failed;
}
