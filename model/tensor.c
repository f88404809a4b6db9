/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/tensor.h"

#include "model/ops.h"

gsize
h3_dtype_size (H3DType dtype)
{
  switch (dtype) {
    case H3_DTYPE_F32:
    case H3_DTYPE_I32:
      return 4;
    case H3_DTYPE_F16:
    case H3_DTYPE_BF16:
      return 2;
    case H3_DTYPE_U8:
      return 1;
  }
  g_return_val_if_reached (1);
}

const gchar *
h3_dtype_name (H3DType dtype)
{
  switch (dtype) {
    case H3_DTYPE_F32:
      return "float32";
    case H3_DTYPE_F16:
      return "float16";
    case H3_DTYPE_BF16:
      return "bfloat16";
    case H3_DTYPE_I32:
      return "int32";
    case H3_DTYPE_U8:
      return "uint8";
  }
  g_return_val_if_reached ("unknown");
}

/* FALSE when the bytes of @shape do not fit into what can be addressed. */
static gboolean
shape_bytes (H3DType dtype, guint rank, const gint64 *shape, gsize *bytes)
{
  gsize n = h3_dtype_size (dtype);

  for (guint i = 0; i < rank; i++)
    if (shape[i] < 0 || !g_size_checked_mul (&n, n, shape[i]) || n > G_MAXSSIZE)
      return FALSE;
  *bytes = n;
  return TRUE;
}

static gchar *
shape_to_string (guint rank, const gint64 *shape)
{
  GString *s = g_string_new ("[");

  for (guint i = 0; i < rank; i++)
    g_string_append_printf (s, "%s%" G_GINT64_FORMAT, i ? ", " : "", shape[i]);
  return g_string_free (g_string_append_c (s, ']'), FALSE);
}

static H3Tensor *
tensor_alloc (H3Device *device, H3DType dtype, guint rank, const gint64 *shape,
    gsize bytes)
{
  H3Tensor *tensor = g_new0 (H3Tensor, 1);

  g_atomic_ref_count_init (&tensor->refcount);
  tensor->device = h3_device_ref (device);
  tensor->dtype = dtype;
  tensor->rank = rank;
  for (guint i = 0; i < rank; i++)
    tensor->shape[i] = shape[i];
  tensor->bytes = bytes;
  return tensor;
}

H3Tensor *
h3_tensor_new (H3Device *device, H3DType dtype, guint rank, const gint64 *shape,
    GError **error)
{
  H3Tensor *tensor;
  gpointer data;
  gsize bytes;

  g_return_val_if_fail (device != NULL, NULL);
  g_return_val_if_fail (rank <= H3_MAX_RANK, NULL);

  if (!shape_bytes (dtype, rank, shape, &bytes)) {
    g_autofree gchar *text = shape_to_string (rank, shape);
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "a %s tensor of shape %s is more than can be addressed",
        h3_dtype_name (dtype), text);
    return NULL;
  }
  /* Empty tensors have an address too, so nobody needs to ask. */
  data = device->ops->alloc (device, MAX (bytes, 1), error);
  if (!data)
    return NULL;
  tensor = tensor_alloc (device, dtype, rank, shape, bytes);
  tensor->data = data;
  return tensor;
}

H3Tensor *
h3_tensor_new_1d (H3Device *device, H3DType dtype, gint64 n, GError **error)
{
  return h3_tensor_new (device, dtype, 1, &n, error);
}

H3Tensor *
h3_tensor_new_2d (H3Device *device, H3DType dtype, gint64 rows, gint64 cols,
    GError **error)
{
  return h3_tensor_new (device, dtype, 2, (gint64[]){ rows, cols }, error);
}

H3Tensor *
h3_tensor_new_3d (H3Device *device, H3DType dtype, gint64 a, gint64 b, gint64 c,
    GError **error)
{
  return h3_tensor_new (device, dtype, 3, (gint64[]){ a, b, c }, error);
}

H3Tensor *
h3_tensor_new_from_host (H3Device *device, H3DType dtype, guint rank,
    const gint64 *shape, gconstpointer host, GError **error)
{
  g_autoptr (H3Tensor) tensor = NULL;
  g_autoptr (H3Stream) stream = NULL;

  tensor = h3_tensor_new (device, dtype, rank, shape, error);
  if (!tensor)
    return NULL;
  stream = h3_stream_new (device, error);
  if (!stream)
    return NULL;
  h3_upload (stream, tensor, host);
  if (!h3_stream_synchronize (stream, error))
    return NULL;
  return g_steal_pointer (&tensor);
}

H3Tensor *
h3_tensor_ref (H3Tensor *tensor)
{
  g_return_val_if_fail (tensor != NULL, NULL);
  g_atomic_ref_count_inc (&tensor->refcount);
  return tensor;
}

void
h3_tensor_unref (H3Tensor *tensor)
{
  g_return_if_fail (tensor != NULL);
  if (!g_atomic_ref_count_dec (&tensor->refcount))
    return;
  if (tensor->parent)
    h3_tensor_unref (tensor->parent);
  else if (tensor->data) /* not parked */
    tensor->device->ops->free (tensor->device, tensor->data,
        MAX (tensor->bytes, 1));
  h3_device_unref (tensor->device);
  g_free (tensor);
}

gint64
h3_tensor_size (const H3Tensor *tensor)
{
  return tensor->bytes / h3_dtype_size (tensor->dtype);
}

gint64
h3_tensor_rows (const H3Tensor *tensor)
{
  gint64 n = 1;

  for (guint i = 0; i + 1 < tensor->rank; i++)
    n *= tensor->shape[i];
  return n;
}

gint64
h3_tensor_cols (const H3Tensor *tensor)
{
  return tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
}

H3Tensor *
h3_tensor_view (H3Tensor *parent, gint64 offset, guint rank,
    const gint64 *shape)
{
  H3Tensor *view;
  gsize item, bytes;

  g_return_val_if_fail (parent != NULL, NULL);
  g_return_val_if_fail (rank <= H3_MAX_RANK, NULL);
  g_return_val_if_fail (shape_bytes (parent->dtype, rank, shape, &bytes), NULL);
  item = h3_dtype_size (parent->dtype);
  g_return_val_if_fail (offset >= 0 && offset <= h3_tensor_size (parent) &&
                            bytes <= parent->bytes - offset * item,
      NULL);

  view = tensor_alloc (parent->device, parent->dtype, rank, shape, bytes);
  view->parent = h3_tensor_ref (parent->parent ? parent->parent : parent);
  view->data = (guint8 *) parent->data + offset * item;
  return view;
}

H3Tensor *
h3_tensor_view_rows (H3Tensor *parent, gint64 first, gint64 n)
{
  gint64 cols;

  g_return_val_if_fail (parent != NULL, NULL);
  g_return_val_if_fail (first >= 0 && n >= 0, NULL);
  g_return_val_if_fail (first <= h3_tensor_rows (parent) &&
                            n <= h3_tensor_rows (parent) - first,
      NULL);
  cols = h3_tensor_cols (parent);
  return h3_tensor_view (parent, first * cols, 2, (gint64[]){ n, cols });
}
