/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-gpu.h"

#include "cpu/h3-cpu.h"

typedef struct {
  GMutex lock;
  GCond changed;
  gboolean reached;
} Event;

static H3FakeGpu gpu;
static const H3DeviceOps *cpu_ops;

H3FakeGpu *
h3_fake_gpu (void)
{
  return &gpu;
}

gpointer
h3_fake_event_new (void)
{
  Event *event = g_new0 (Event, 1);

  g_mutex_init (&event->lock);
  g_cond_init (&event->changed);
  g_atomic_int_inc (&gpu.events);
  return event;
}

void
h3_fake_event_reach (gpointer data)
{
  Event *event = data;

  g_mutex_lock (&event->lock);
  event->reached = TRUE;
  g_cond_broadcast (&event->changed);
  g_mutex_unlock (&event->lock);
}

void
h3_fake_event_free (gpointer data)
{
  Event *event = data;

  g_mutex_clear (&event->lock);
  g_cond_clear (&event->changed);
  g_free (event);
  g_atomic_int_add (&gpu.events, -1);
}

static gboolean
is_failing (H3Stream *stream)
{
  if (!g_atomic_int_get (&gpu.failing))
    return FALSE;
  h3_stream_fail (stream, H3_ERROR_DEVICE, "the fake GPU broke");
  return TRUE;
}

/* What a stream was given has run. */
static gpointer
event_new (H3Stream *stream)
{
  gpointer event;

  if (is_failing (stream))
    return NULL;
  event = h3_fake_event_new ();
  h3_fake_event_reach (event);
  return event;
}

static void
event_wait (H3Stream *stream, gpointer data)
{
  Event *event = data;

  g_atomic_int_inc (&gpu.waits);
  g_mutex_lock (&event->lock);
  while (!event->reached)
    g_cond_wait (&event->changed, &event->lock);
  g_mutex_unlock (&event->lock);
}

static void
event_free (H3Device *device, gpointer event)
{
  h3_fake_event_free (event);
}

static gboolean
stream_synchronize (H3Stream *stream, GError **error)
{
  is_failing (stream);
  return TRUE;
}

static void
download (H3Stream *stream, gpointer dst, const H3Tensor *src)
{
  if (src->bytes > sizeof (gint32))
    g_atomic_int_inc (&gpu.downloads);
  cpu_ops->download (stream, dst, src);
}

static void
copy (H3Stream *stream, H3Tensor *dst, const H3Tensor *src)
{
  if (dst->dtype == src->dtype)
    g_atomic_int_inc (&gpu.copies);
  cpu_ops->copy (stream, dst, src);
}

H3Device *
h3_cuda_device_new (gint ordinal, GError **error)
{
  static H3DeviceOps ops;
  H3Device *device = h3_cpu_device_new (0, error);

  if (!device)
    return NULL;
  cpu_ops = device->ops;
  ops = *cpu_ops;
  ops.event_new = event_new;
  ops.event_wait = event_wait;
  ops.event_free = event_free;
  ops.stream_synchronize = stream_synchronize;
  ops.download = download;
  ops.copy = copy;
  device->ops = &ops;
  device->ordinal = MAX (ordinal, 0);
  device->host_memory = FALSE;
  g_free (device->name);
  device->name = g_strdup_printf ("cuda:%d no GPU", device->ordinal);
  return device;
}
