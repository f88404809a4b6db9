/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The CPU device itself: its threads, memory, streams and instruction set.
 * A stream runs every operation at once, in the calling thread and its helpers,
 * so synchronising has nothing to wait for. */
#include "cpu/h3-cpu.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/memory.h"

gpointer
h3_cpu_alloc (H3Device *device, gsize bytes, GError **error)
{
  gpointer data = h3_cpu_memory_alloc (bytes);
  guint64 free_bytes, total_bytes;

  if (!data) {
    h3_cpu_memory_info (&free_bytes, &total_bytes);
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for a tensor of %" G_GSIZE_FORMAT
        " bytes: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bytes are free",
        bytes, free_bytes, total_bytes);
  }
  return data;
}

void
h3_cpu_free (H3Device *device, gpointer data, gsize bytes)
{
  free (data);
}

void
h3_cpu_device_memory_info (H3Device *device, guint64 *free_bytes,
    guint64 *total_bytes)
{
  h3_cpu_memory_info (free_bytes, total_bytes);
}

H3Stream *
h3_cpu_stream_new (H3Device *device, GError **error)
{
  H3CpuStream *stream = g_new0 (H3CpuStream, 1);

  return &stream->stream;
}

void
h3_cpu_stream_free (H3Stream *stream)
{
  h3_cpu_scratch_clear (&((H3CpuStream *) stream)->scratch);
  g_free (stream);
}

gboolean
h3_cpu_stream_synchronize (H3Stream *stream, GError **error)
{
  return TRUE;
}

void
h3_cpu_upload (H3Stream *stream, H3Tensor *dst, gconstpointer src)
{
  if (dst->bytes)
    memcpy (dst->data, src, dst->bytes);
}

void
h3_cpu_download (H3Stream *stream, gpointer dst, const H3Tensor *src)
{
  if (src->bytes)
    memcpy (dst, src->data, src->bytes);
}

void
h3_cpu_finalize (H3Device *device)
{
  h3_cpu_pool_unref ();
  g_free (device);
}

/* Tasks that are skipped once the stream is to stop. */
typedef struct {
  const H3Stop *stop;
  H3CpuTask task;
  gconstpointer data;
  gint *stopped; /* atomic */
} Stoppable;

static void
stoppable_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const Stoppable *s = data;

  if (g_atomic_int_get (s->stopped))
    return;
  if (h3_stop_requested (s->stop, NULL))
    g_atomic_int_set (s->stopped, TRUE);
  else
    s->task (s->data, index, scratch);
}

void
h3_cpu_for (H3Stream *stream, gint64 n, gsize scratch_bytes, H3CpuTask task,
    gconstpointer data)
{
  guint workers = ((H3CpuDevice *) stream->device)->workers;
  gint stopped = FALSE;
  const Stoppable stoppable = { stream->stop, task, data, &stopped };
  gboolean ran;

  ran = h3_cpu_pool_run (workers, n, scratch_bytes,
      stream->stop ? stoppable_task : task, stream->stop ? &stoppable : data,
      &((H3CpuStream *) stream)->scratch);
  if (stopped)
    h3_stream_fail (stream, H3_ERROR_CANCELLED, "stopped");
  if (!ran)
    h3_stream_fail (stream, H3_ERROR_NO_SPACE,
        "no memory for %" G_GSIZE_FORMAT " bytes of scratch", scratch_bytes);
}

gboolean
h3_cpu_rows_inside (H3Stream *stream, const gchar *op, const H3Tensor *rows,
    gint64 limit)
{
  const gint32 *row = rows->data;

  for (gint64 i = 0; i < h3_tensor_size (rows); i++)
    if (row[i] < 0 || row[i] >= limit) {
      h3_stream_fail (stream, H3_ERROR_WRONG_TYPE,
          "%s: row %" G_GINT64_FORMAT
          " names row %d, needs to be in 0 .. %" G_GINT64_FORMAT,
          op, i, row[i], limit - 1);
      return FALSE;
    }
  return TRUE;
}

/* The best instruction set this processor has, or $H3_CPU_ISA's. */
static const H3DeviceOps *
choose_ops (const gchar **name, GError **error)
{
  const gchar *forced = g_getenv ("H3_CPU_ISA");
  gboolean avx2 = FALSE;

#ifdef H3_CPU_HAS_AVX2
  __builtin_cpu_init ();
  avx2 = __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma") &&
         __builtin_cpu_supports ("f16c");
#endif
  if (!forced || !*forced)
    forced = avx2 ? "avx2" : "baseline";
#ifdef H3_CPU_HAS_AVX2
  if (avx2 && !strcmp (forced, "avx2")) {
    *name = "avx2";
    return &h3_cpu_ops_avx2;
  }
#endif
  if (!strcmp (forced, "baseline")) {
    *name = "baseline";
    return &h3_cpu_ops_baseline;
  }
  g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
      "H3_CPU_ISA is \"%s\", "
      "this machine can do baseline%s",
      forced, avx2 ? " or avx2" : "");
  return NULL;
}

static gboolean
choose_threads (guint *threads, GError **error)
{
  const gchar *text = g_getenv ("H3_CPU_THREADS");
  guint64 n;

  if (*threads == 0 && text && *text) {
    g_autoptr (GError) local = NULL;

    if (!g_ascii_string_to_unsigned (text, 10, 1, 1024, &n, &local)) {
      g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
          "H3_CPU_THREADS is \"%s\", needs a number in 1 .. 1024", text);
      return FALSE;
    }
    *threads = n;
  }
  if (*threads == 0)
    *threads = g_get_num_processors ();
  return TRUE;
}

H3Device *
h3_cpu_device_new (guint threads, GError **error)
{
  const H3DeviceOps *ops;
  const gchar *isa;
  H3CpuDevice *cpu;

  if (!choose_threads (&threads, error) || !(ops = choose_ops (&isa, error)) ||
      !h3_cpu_pool_ref (threads - 1, error))
    return NULL;
  openblas_set_num_threads (1);

  cpu = g_new0 (H3CpuDevice, 1);
  cpu->workers = threads - 1;
  g_atomic_ref_count_init (&cpu->device.refcount);
  cpu->device.ops = ops;
  cpu->device.name = g_strdup_printf ("cpu (%u thread%s, %s)", threads,
      threads == 1 ? "" : "s", isa);
  cpu->device.ordinal = -1;
  h3_cpu_describe (&cpu->device);
  return &cpu->device;
}
