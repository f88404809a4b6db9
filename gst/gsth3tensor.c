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

static gboolean
link_download (gpointer host, gconstpointer data, gsize size, gpointer ready,
    gpointer user_data)
{
  Link *link = user_data;
  H3Tensor from = bytes_at (link, data, size);
  gboolean done = FALSE;

  g_mutex_lock (&link->lock);
  if (link_begin (link)) {
    h3_stream_wait (link->stream, ready);
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
    h3_stream_wait (link->stream, ready);
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

/* What a memory of ours keeps alive. */
typedef struct {
  H3Tensor *tensor;
  gpointer ready; /* event of the tensor's device, or NULL */
} Owner;

static void
owner_free (gpointer data)
{
  Owner *owner = data;

  h3_event_free (owner->tensor->device, owner->ready);
  h3_tensor_unref (owner->tensor);
  g_free (owner);
}

GstBuffer *
gst_h3_tensor_to_buffer (H3Tensor *tensor, H3Stream *stream, GError **error)
{
  gpointer ready = NULL;
  GstBuffer *buffer;
  Owner *owner;

  if (stream && !h3_stream_record (stream, &ready, error))
    return NULL;
  owner = g_new (Owner, 1);
  *owner = (Owner){ h3_tensor_ref (tensor), ready };
  buffer = gst_buffer_new ();
  gst_buffer_append_memory (buffer,
      gst_h3_allocator_wrap (device_allocator (tensor->device),
          type_of_dtype (tensor->dtype), tensor->rank, tensor->shape,
          tensor->data, ready, owner, owner_free));
  return buffer;
}

/* What is wanted of a buffer. */
typedef struct {
  H3Stream *stream;
  H3DType dtype;
  guint rank;
  const gint64 *shape;
  gsize bytes;
} Wanted;

/* The tensor that @memory was made from, when it is exactly what is wanted; NULL
 * without @error when it is not. */
static H3Tensor *
find_tensor (GstH3Memory *memory, const Wanted *wanted, GError **error)
{
  Owner *owner = gst_h3_memory_get_owner (memory, owner_free);
  H3Tensor *tensor = owner ? owner->tensor : NULL;

  if (!tensor || tensor->device != wanted->stream->device ||
      tensor->dtype != wanted->dtype || tensor->rank != wanted->rank ||
      memcmp (tensor->shape, wanted->shape,
          wanted->rank * sizeof *wanted->shape) != 0)
    return NULL;
  h3_stream_wait (wanted->stream, memory->ready);
  return h3_stream_check (wanted->stream, error) ? h3_tensor_ref (tensor)
                                                 : NULL;
}

/* Waits, so that @data's memory may go when this returns. */
static H3Tensor *
copy_on_device (GstH3Memory *memory, gconstpointer data, const Wanted *wanted,
    GError **error)
{
  H3Device *device = wanted->stream->device;
  g_autoptr (H3Tensor) tensor =
      h3_tensor_new (device, wanted->dtype, wanted->rank, wanted->shape, error);
  H3Tensor from;

  if (!tensor)
    return NULL;
  if (memory->device != device->ordinal)
    GST_INFO ("copying %" G_GSIZE_FORMAT " bytes from GPU %d to %s",
        wanted->bytes, memory->device, device->name);
  from = *tensor;
  from.data = (gpointer) data;
  h3_stream_wait (wanted->stream, memory->ready);
  h3_copy (wanted->stream, tensor, &from);
  if (!h3_stream_synchronize (wanted->stream, error))
    return NULL;
  return g_steal_pointer (&tensor);
}

/* What can be had without the host: NULL, without @error, when that is not
 * possible. */
static H3Tensor *
take_device_memory (GstBuffer *buffer, const Wanted *wanted, GError **error)
{
  H3Device *device = wanted->stream->device;
  GstMemory *mem;
  GstH3Memory *memory;
  GstMapInfo map;
  H3Tensor *tensor = NULL;
  GError *failure = NULL;

  if (gst_buffer_n_memory (buffer) != 1)
    return NULL;
  mem = gst_buffer_peek_memory (buffer, 0);
  if (!gst_is_h3_memory (mem))
    return NULL;
  memory = (GstH3Memory *) mem;
  if (mem->size != wanted->bytes || (memory->device < 0) != device->host_memory)
    return NULL;
  /* lets the device see what the CPU wrote, if it did */
  if (!gst_memory_map (mem, &map, GST_MAP_READ | GST_H3_MAP_DEVICE))
    return NULL;
  if (mem->offset == 0 && !mem->parent)
    tensor = find_tensor (memory, wanted, &failure);
  if (!tensor && !failure && !device->host_memory)
    tensor = copy_on_device (memory, map.data, wanted, &failure);
  gst_memory_unmap (mem, &map);
  if (failure)
    g_propagate_error (error, failure);
  return tensor;
}

H3Tensor *
gst_h3_tensor_from_buffer (GstBuffer *buffer, H3Stream *stream, H3DType dtype,
    guint rank, const gint64 *shape, const gchar *what, GError **error)
{
  Wanted wanted = { stream, dtype, rank, shape, h3_dtype_size (dtype) };
  GError *failure = NULL;
  H3Tensor *tensor;
  GstMapInfo map;

  for (guint i = 0; i < rank; i++)
    wanted.bytes *= shape[i];
  tensor = take_device_memory (buffer, &wanted, &failure);
  if (failure)
    g_propagate_error (error, failure);
  if (tensor || failure)
    return tensor;
  if (!gst_buffer_map (buffer, &map, GST_MAP_READ)) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "The %s buffer cannot be read by the CPU", what);
    return NULL;
  }
  if (map.size == wanted.bytes) {
    tensor = h3_tensor_new_from_host (stream->device, dtype, rank, shape,
        map.data, error);
  } else {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "The %s buffer has %" G_GSIZE_FORMAT
        " bytes; its caps need %" G_GSIZE_FORMAT,
        what, map.size, wanted.bytes);
  }
  gst_buffer_unmap (buffer, &map);
  return tensor;
}
