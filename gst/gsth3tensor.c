/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3tensor.h"

#include <string.h>

GST_DEBUG_CATEGORY_EXTERN (gst_h3_runtime_debug);
#define GST_CAT_DEFAULT gst_h3_runtime_debug

static GstH3Type
type_of_dtype (H3DType dtype)
{
  switch (dtype) {
    case H3_DTYPE_F16:
      return GST_H3_TYPE_FLOAT16;
    case H3_DTYPE_BF16:
      return GST_H3_TYPE_BFLOAT16;
    case H3_DTYPE_I32:
      return GST_H3_TYPE_INT32;
    case H3_DTYPE_U8:
      return GST_H3_TYPE_UINT8;
    case H3_DTYPE_F32:
    default:
      return GST_H3_TYPE_FLOAT32;
  }
}

H3DType
gst_h3_type_to_dtype (GstH3Type type)
{
  switch (type) {
    case GST_H3_TYPE_FLOAT16:
      return H3_DTYPE_F16;
    case GST_H3_TYPE_BFLOAT16:
      return H3_DTYPE_BF16;
    case GST_H3_TYPE_INT32:
      return H3_DTYPE_I32;
    case GST_H3_TYPE_UINT8:
      return H3_DTYPE_U8;
    case GST_H3_TYPE_FLOAT32:
    default:
      return H3_DTYPE_F32;
  }
}

/* --- memory of a device that is not the host --- */

/* What the allocator of such a device works with. */
typedef struct {
  H3Device *device; /* owned */
  GMutex lock;
  H3Stream *stream; /* of the copies below; under the lock */
} Link;

static gpointer
link_alloc (gsize size, gpointer user_data)
{
  Link *link = user_data;

  return link->device->ops->alloc (link->device, size, NULL);
}

static void
link_free (gpointer data, gsize size, gpointer user_data)
{
  Link *link = user_data;

  link->device->ops->free (link->device, data, size);
}

/* @size bytes at @data as a tensor that nobody owns. */
static H3Tensor
bytes_at (const Link *link, gconstpointer data, gsize size)
{
  return (H3Tensor){ .device = link->device,
    .dtype = H3_DTYPE_U8,
    .rank = 1,
    .shape = { size },
    .data = (gpointer) data,
    .bytes = size };
}

/* With the lock held: waits for the copy that was just put on the stream. */
static gboolean
link_finish (Link *link)
{
  g_autoptr (GError) error = NULL;

  if (h3_stream_synchronize (link->stream, &error))
    return TRUE;
  GST_ERROR ("%s", error->message);
  return FALSE;
}

/* With the lock held. */
static gboolean
link_begin (Link *link)
{
  g_autoptr (GError) error = NULL;

  if (!link->stream)
    link->stream = h3_stream_new (link->device, &error);
  if (!link->stream)
    GST_ERROR ("%s", error->message);
  return link->stream != NULL;
}

/* @ready: no producer of ours has any, they finish before they push. */
static gboolean
link_download (gpointer host, gconstpointer data, gsize size, gpointer ready,
    gpointer user_data)
{
  Link *link = user_data;
  H3Tensor from = bytes_at (link, data, size);
  gboolean done = FALSE;

  g_mutex_lock (&link->lock);
  if (link_begin (link)) {
    h3_download (link->stream, host, &from);
    done = link_finish (link);
  }
  g_mutex_unlock (&link->lock);
  return done;
}

static gboolean
link_upload (gpointer data, gconstpointer host, gsize size, gpointer user_data)
{
  Link *link = user_data;
  H3Tensor to = bytes_at (link, data, size);
  gboolean done = FALSE;

  g_mutex_lock (&link->lock);
  if (link_begin (link)) {
    h3_upload (link->stream, &to, host);
    done = link_finish (link);
  }
  g_mutex_unlock (&link->lock);
  return done;
}

static gboolean
link_copy (gpointer dst, gconstpointer src, gsize size, gpointer ready,
    gpointer user_data)
{
  Link *link = user_data;
  H3Tensor to = bytes_at (link, dst, size), from = bytes_at (link, src, size);
  gboolean done = FALSE;

  g_mutex_lock (&link->lock);
  if (link_begin (link)) {
    h3_copy (link->stream, &to, &from);
    done = link_finish (link);
  }
  g_mutex_unlock (&link->lock);
  return done;
}

/* The process's one allocator of @device; it is never freed, as devices are
 * not. */
static GstH3Allocator *
device_allocator (H3Device *device)
{
  static const GstH3DeviceFuncs funcs = { link_alloc, link_free, link_download,
    link_upload, link_copy };
  static GMutex lock;
  static GHashTable *allocators; /* H3Device -> GstH3Allocator */
  GstH3Allocator *allocator;

  if (device->host_memory)
    return gst_h3_allocator_get_host ();
  g_mutex_lock (&lock);
  if (!allocators)
    allocators = g_hash_table_new (NULL, NULL);
  allocator = g_hash_table_lookup (allocators, device);
  if (!allocator) {
    Link *link = g_new0 (Link, 1);

    g_mutex_init (&link->lock);
    link->device = h3_device_ref (device);
    allocator = gst_h3_allocator_new (device->ordinal, &funcs, link, NULL);
    GST_OBJECT_FLAG_SET (allocator, GST_OBJECT_FLAG_MAY_BE_LEAKED);
    g_hash_table_insert (allocators, device, allocator);
  }
  g_mutex_unlock (&lock);
  return allocator;
}

static void
release_tensor (gpointer tensor)
{
  h3_tensor_unref (tensor);
}

GstBuffer *
gst_h3_tensor_to_buffer (H3Tensor *tensor)
{
  GstBuffer *buffer = gst_buffer_new ();

  gst_buffer_append_memory (buffer,
      gst_h3_allocator_wrap (device_allocator (tensor->device),
          type_of_dtype (tensor->dtype), tensor->rank, tensor->shape,
          tensor->data, NULL, h3_tensor_ref (tensor), release_tensor));
  return buffer;
}

/* The tensor @buffer was made from, when it is exactly what is wanted. */
static H3Tensor *
find_tensor (GstBuffer *buffer, H3Device *device, H3DType dtype, guint rank,
    const gint64 *shape)
{
  GstMemory *memory;
  H3Tensor *tensor;

  if (gst_buffer_n_memory (buffer) != 1)
    return NULL;
  memory = gst_buffer_peek_memory (buffer, 0);
  if (!gst_is_h3_memory (memory))
    return NULL;
  tensor = gst_h3_memory_get_owner ((GstH3Memory *) memory, release_tensor);
  if (!tensor || tensor->device != device || tensor->dtype != dtype ||
      tensor->rank != rank || memory->offset != 0 ||
      memory->size != tensor->bytes ||
      memcmp (tensor->shape, shape, rank * sizeof *shape) != 0)
    return NULL;
  return h3_tensor_ref (tensor);
}

H3Tensor *
gst_h3_tensor_from_buffer (GstBuffer *buffer, H3Device *device, H3DType dtype,
    guint rank, const gint64 *shape, const gchar *what, GError **error)
{
  H3Tensor *tensor = find_tensor (buffer, device, dtype, rank, shape);
  gsize needed = h3_dtype_size (dtype);
  GstMapInfo map;

  if (tensor)
    return tensor;
  for (guint i = 0; i < rank; i++)
    needed *= shape[i];
  if (!gst_buffer_map (buffer, &map, GST_MAP_READ)) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "The %s buffer cannot be read by the CPU", what);
    return NULL;
  }
  if (map.size == needed) {
    tensor =
        h3_tensor_new_from_host (device, dtype, rank, shape, map.data, error);
  } else {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "The %s buffer has %" G_GSIZE_FORMAT
        " bytes; its caps need %" G_GSIZE_FORMAT,
        what, map.size, needed);
  }
  gst_buffer_unmap (buffer, &map);
  return tensor;
}
