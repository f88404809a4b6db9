/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/parking.h"

struct _H3Parking {
  H3Device *device;   /* owned; NULL when there are no tensors */
  GPtrArray *tensors; /* owned */
  gpointer *copies;   /* [n] host memory, NULL: not copied yet */
  guint64 bytes;
  gboolean parked;
};

H3Parking *
h3_parking_new (GPtrArray *tensors)
{
  H3Parking *parking = g_new0 (H3Parking, 1);

  parking->tensors = tensors;
  parking->copies = g_new0 (gpointer, MAX (tensors->len, 1));
  for (guint i = 0; i < tensors->len; i++) {
    H3Tensor *tensor = tensors->pdata[i];

    if (!parking->device)
      parking->device = h3_device_ref (tensor->device);
    parking->bytes += tensor->bytes;
  }
  return parking;
}

/* As much memory as h3_tensor_new() takes for it. */
static gsize
size_of (const H3Tensor *tensor)
{
  return MAX (tensor->bytes, 1);
}

void
h3_parking_free (H3Parking *parking)
{
  for (guint i = 0; i < parking->tensors->len; i++) {
    if (parking->copies[i])
      parking->device->ops->free_host (parking->device, parking->copies[i],
          size_of (parking->tensors->pdata[i]));
  }
  g_free (parking->copies);
  g_ptr_array_unref (parking->tensors);
  g_clear_pointer (&parking->device, h3_device_unref);
  g_free (parking);
}

guint64
h3_parking_bytes (const H3Parking *parking)
{
  return parking->bytes;
}

gboolean
h3_parking_is_parked (const H3Parking *parking)
{
  return parking->parked;
}

static gboolean
copy_to_host (H3Parking *parking, H3Stream *stream, guint i, GError **error)
{
  H3Device *device = parking->device;
  H3Tensor *tensor = parking->tensors->pdata[i];
  gpointer copy;

  if (parking->copies[i])
    return TRUE;
  copy = device->ops->alloc_host (device, size_of (tensor), error);
  if (!copy)
    return FALSE;
  h3_download (stream, copy, tensor);
  if (!h3_stream_synchronize (stream, error)) {
    device->ops->free_host (device, copy, size_of (tensor));
    return FALSE;
  }
  parking->copies[i] = copy;
  return TRUE;
}

static void
free_on_device (H3Parking *parking)
{
  H3Device *device = parking->device;

  for (guint i = 0; i < parking->tensors->len; i++) {
    H3Tensor *tensor = parking->tensors->pdata[i];

    if (tensor->data)
      device->ops->free (device, tensor->data, size_of (tensor));
    tensor->data = NULL;
  }
  parking->parked = TRUE;
}

gboolean
h3_parking_park (H3Parking *parking, const H3Stop *stop, GError **error)
{
  g_autoptr (H3Stream) stream = NULL;

  if (parking->parked || parking->tensors->len == 0)
    return TRUE;
  stream = h3_stream_new (parking->device, error);
  if (!stream)
    return FALSE;
  for (guint i = 0; i < parking->tensors->len; i++) {
    if (h3_stop_requested (stop, error) ||
        !copy_to_host (parking, stream, i, error))
      return FALSE;
  }
  free_on_device (parking);
  return TRUE;
}

static gboolean
copy_to_device (H3Parking *parking, H3Stream *stream, const H3Stop *stop,
    GError **error)
{
  H3Device *device = parking->device;

  for (guint i = 0; i < parking->tensors->len; i++) {
    H3Tensor *tensor = parking->tensors->pdata[i];

    if (h3_stop_requested (stop, error))
      return FALSE;
    tensor->data = device->ops->alloc (device, size_of (tensor), error);
    if (!tensor->data)
      return FALSE;
    h3_upload (stream, tensor, parking->copies[i]);
  }
  return TRUE;
}

gboolean
h3_parking_unpark (H3Parking *parking, const H3Stop *stop, GError **error)
{
  g_autoptr (H3Stream) stream = NULL;
  gboolean good;

  if (!parking->parked)
    return TRUE;
  stream = h3_stream_new (parking->device, error);
  if (!stream)
    return FALSE;
  good = copy_to_device (parking, stream, stop, error);
  /* before memory it writes to may go; a failure before has its own error */
  good = h3_stream_synchronize (stream, good ? error : NULL) && good;
  if (good)
    parking->parked = FALSE;
  else
    free_on_device (parking);
  return good;
}
