/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lifetimes of devices and streams, and what a stream remembers of failures. */
#include "model/ops.h"

H3Device *
h3_device_ref (H3Device *device)
{
  g_return_val_if_fail (device != NULL, NULL);
  g_atomic_ref_count_inc (&device->refcount);
  return device;
}

void
h3_device_unref (H3Device *device)
{
  g_return_if_fail (device != NULL);
  if (!g_atomic_ref_count_dec (&device->refcount))
    return;
  g_free (device->name);
  g_free (device->failure);
  device->ops->finalize (device);
}

guint64
h3_device_decode_bytes (const H3Device *device, guint64 elements)
{
  return MIN (device->decoded, elements * h3_dtype_size (device->act_dtype));
}

void
h3_device_fail (H3Device *device, const gchar *why)
{
  gchar *copy = g_strdup (why);

  if (!g_atomic_pointer_compare_and_exchange (&device->failure, NULL, copy))
    g_free (copy);
}

gboolean
h3_device_check (H3Device *device, GError **error)
{
  const gchar *why = g_atomic_pointer_get (&device->failure);

  if (!why)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_DEVICE,
      "%s failed and cannot be used again in this process: restart the "
      "process. The failure was: %s",
      device->name, why);
  return FALSE;
}

H3Stream *
h3_stream_new (H3Device *device, GError **error)
{
  H3Stream *stream;

  g_return_val_if_fail (device != NULL, NULL);
  stream = device->ops->stream_new (device, error);
  if (stream)
    stream->device = h3_device_ref (device);
  return stream;
}

void
h3_stream_free (H3Stream *stream)
{
  H3Device *device;

  g_return_if_fail (stream != NULL);
  device = stream->device;
  g_clear_error (&stream->error);
  g_clear_pointer (&stream->low, h3_tensor_unref);
  device->ops->stream_free (stream);
  h3_device_unref (device);
}

void
h3_stream_fail (H3Stream *stream, H3Error code, const gchar *format, ...)
{
  va_list args;

  if (stream->error)
    return;
  va_start (args, format);
  stream->error = g_error_new_valist (H3_ERROR, code, format, args);
  va_end (args);
}

gboolean
h3_stream_check (H3Stream *stream, GError **error)
{
  if (!stream->error)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&stream->error));
  return FALSE;
}

void
h3_stream_set_stop (H3Stream *stream, const H3Stop *stop)
{
  g_clear_error (&stream->error);
  stream->stop = stop;
}

gboolean
h3_stream_synchronize (H3Stream *stream, GError **error)
{
  GError *late = NULL;

  if (!stream->device->ops->stream_synchronize (stream, &late)) {
    if (stream->error)
      g_clear_error (&late);
    else
      stream->error = late;
  }
  return h3_stream_check (stream, error);
}

gboolean
h3_stream_reserve_low_rank (H3Stream *stream, gint64 elements, GError **error)
{
  if (elements == 0 ||
      (stream->low && h3_tensor_size (stream->low) >= elements))
    return TRUE;
  g_clear_pointer (&stream->low, h3_tensor_unref);
  stream->low = h3_tensor_new_1d (stream->device, stream->device->act_dtype,
      elements, error);
  return stream->low != NULL;
}

gboolean
h3_stream_record (H3Stream *stream, gpointer *event, GError **error)
{
  const H3DeviceOps *ops = stream->device->ops;

  *event = !stream->error && ops->event_new ? ops->event_new (stream) : NULL;
  return h3_stream_check (stream, error);
}

void
h3_stream_wait (H3Stream *stream, gpointer event)
{
  if (event && !stream->error && stream->device->ops->event_wait)
    stream->device->ops->event_wait (stream, event);
}

void
h3_event_free (H3Device *device, gpointer event)
{
  if (event && device->ops->event_free)
    device->ops->event_free (device, event);
}
