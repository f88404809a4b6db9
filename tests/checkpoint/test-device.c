/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-device.h"

#include <string.h>

static gpointer
device_alloc (H3Device *device, gsize bytes, GError **error)
{
  TestDevice *self = (TestDevice *) device;

  if (self->capacity && self->in_use + bytes > self->capacity) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "%" G_GSIZE_FORMAT " bytes wanted, %" G_GSIZE_FORMAT " free", bytes,
        self->capacity - self->in_use);
    return NULL;
  }
  self->in_use += bytes;
  g_checksum_update (self->uploaded, (const guchar *) &bytes, sizeof bytes);
  return g_malloc (bytes);
}

static void
device_dealloc (H3Device *device, gpointer data, gsize bytes)
{
  ((TestDevice *) device)->in_use -= bytes;
  g_free (data);
}

/* From the threads of a reader, too. */
static gpointer
device_alloc_host (H3Device *device, gsize bytes, GError **error)
{
  TestDevice *self = (TestDevice *) device;

  if (g_atomic_int_get (&self->no_host_memory)) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "%" G_GSIZE_FORMAT " bytes of host memory wanted", bytes);
    return NULL;
  }
  g_atomic_int_inc (&self->n_host);
  return g_malloc (bytes);
}

static void
device_free_host (H3Device *device, gpointer data, gsize bytes)
{
  g_atomic_int_add (&((TestDevice *) device)->n_host, -1);
  g_free (data);
}

static H3Stream *
device_stream_new (H3Device *device, GError **error)
{
  return g_new0 (H3Stream, 1);
}

static void
device_stream_free (H3Stream *stream)
{
  g_free (stream);
}

static gboolean
device_stream_synchronize (H3Stream *stream, GError **error)
{
  return TRUE;
}

static void
device_upload (H3Stream *stream, H3Tensor *dst, gconstpointer src)
{
  TestDevice *self = (TestDevice *) stream->device;

  if (g_atomic_int_get (&self->fail_uploads)) {
    h3_stream_fail (stream, H3_ERROR_DEVICE, "no upload in this test");
    return;
  }
  memcpy (dst->data, src, dst->bytes);
  g_mutex_lock (&self->lock);
  self->n_uploads++;
  if (!self->unhashed)
    g_checksum_update (self->uploaded, src, dst->bytes);
  g_mutex_unlock (&self->lock);
}

static void
device_download (H3Stream *stream, gpointer dst, const H3Tensor *src)
{
  memcpy (dst, src->data, src->bytes);
}

/* Its owner frees it. */
static void
device_finalize (H3Device *device)
{
}

static const H3DeviceOps test_ops = {
  .alloc = device_alloc,
  .free = device_dealloc,
  .alloc_host = device_alloc_host,
  .free_host = device_free_host,
  .stream_new = device_stream_new,
  .stream_free = device_stream_free,
  .stream_synchronize = device_stream_synchronize,
  .upload = device_upload,
  .download = device_download,
  .finalize = device_finalize,
};

TestDevice *
test_device_new (gboolean host_memory)
{
  TestDevice *self = g_new0 (TestDevice, 1);

  g_atomic_ref_count_init (&self->device.refcount);
  self->device.ops = &test_ops;
  self->device.name = g_strdup ("test");
  self->device.ordinal = -1;
  self->device.act_dtype = self->device.vae_dtype = H3_DTYPE_F32;
  self->device.host_memory = host_memory;
  self->uploaded = g_checksum_new (G_CHECKSUM_SHA256);
  g_mutex_init (&self->lock);
  return self;
}

void
test_device_free (TestDevice *self)
{
  g_assert_cmpuint (self->in_use, ==, 0);
  g_assert_cmpint (self->n_host, ==, 0);
  g_assert_true (g_atomic_ref_count_compare (&self->device.refcount, 1));
  h3_device_unref (&self->device);
  g_checksum_free (self->uploaded);
  g_mutex_clear (&self->lock);
  g_free (self);
}

void
test_loader_begin (H3Loader *loader, TestDevice *device)
{
  g_autoptr (GError) error = NULL;
  gboolean begun;

  test_loader_finish (loader);
  begun = h3_loader_begin (loader, &device->device, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (begun);
}

void
test_loader_finish (H3Loader *loader)
{
  g_autoptr (GError) error = NULL;
  gboolean finished = h3_loader_finish (loader, &error);

  g_assert_no_error (error);
  g_assert_true (finished);
}
