/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3tensor.h"

#include <string.h>

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

static void
release_tensor (gpointer tensor)
{
  h3_tensor_unref (tensor);
}

GstBuffer *
gst_h3_tensor_to_buffer (H3Tensor *tensor)
{
  GstBuffer *buffer;

  g_return_val_if_fail (tensor->device->host_memory, NULL);

  buffer = gst_buffer_new ();
  gst_buffer_append_memory (buffer,
      gst_h3_allocator_wrap (gst_h3_allocator_get_host (),
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
