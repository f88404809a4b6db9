/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The device itself: finding it, its memory, its streams. */
#include "model/parking.h"
#include "tests/cuda/test-cuda.h"

static void
test_ordinal (void)
{
  g_autoptr (GError) error = NULL;

  if (!cuda_test_device ())
    return;
  g_assert_null (h3_cuda_open_device (1000, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, "GPU 1000"));
}

static void
test_facts (void)
{
  H3Device *device = cuda_test_device ();

  if (!device)
    return;
  g_test_message ("%s", device->name);
  g_assert_true (g_str_has_prefix (device->name, "cuda:"));
  g_assert_cmpint (device->ordinal, >=, 0);
  g_assert_cmpint (device->act_dtype, ==, H3_DTYPE_BF16);
  g_assert_cmpint (device->vae_dtype, ==, H3_DTYPE_F16);
  g_assert_false (device->host_memory);
}

/* Refused with the numbers, and everything works afterwards. */
static void
test_no_space (CudaTest *t)
{
  H3Device *device = t->gpu->device;
  g_autoptr (GError) error = NULL;
  guint64 free_bytes, total;
  Twin *x, *y;

  g_assert_null (h3_tensor_new_1d (device, H3_DTYPE_U8,
      G_GINT64_CONSTANT (1) << 45, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NO_SPACE);
  g_assert_nonnull (strstr (error->message, "35184372088832"));
  device->ops->memory_info (device, &free_bytes, &total);
  g_assert_cmpuint (total, >, 0);
  g_assert_cmpuint (free_bytes, <=, total);
  x = twin_random (t, H3_DTYPE_BF16, 1, DIMS (100));
  y = twin_out (t, H3_DTYPE_F32, DIMS (100));
  h3_copy (t->ops.stream, y->cpu, x->cpu);
  h3_copy (t->gpu, y->gpu, x->gpu);
  twin_check (t, "after a refused allocation", y, 0);
}

/* Memory comes back: many tensors in turn need no more than a few at once. */
static void
test_memory_returns (CudaTest *t)
{
  H3Device *device = t->gpu->device;
  guint64 before, after, total;
  g_autofree guint8 *host = g_malloc0 (1 << 20);

  device->ops->memory_info (device, &before, &total);
  for (gint i = 0; i < 300; i++) {
    g_autoptr (GError) error = NULL;
    H3Tensor *tensor =
        h3_tensor_new_1d (device, H3_DTYPE_U8, (1 << 28) + i, &error);
    H3Tensor *view = h3_tensor_view_rows (tensor, 0, 1);

    g_assert_no_error (error);
    h3_tensor_unref (tensor);
    h3_tensor_unref (view);
  }
  device->ops->memory_info (device, &after, &total);
  g_assert_cmpuint (after + ((guint64) 1 << 29), >=, before);
}

/* A tensor that is freed while a stream still reads it is read whole. */
static void
test_free_in_use (CudaTest *t)
{
  gint64 n = 1 << 24;
  g_autofree gfloat *ones = g_new (gfloat, n);
  g_autofree gfloat *got = g_new (gfloat, n);
  g_autoptr (H3Tensor) y =
      h3_tensor_new_1d (t->gpu->device, H3_DTYPE_F32, n, NULL);

  for (gint64 i = 0; i < n; i++)
    ones[i] = 1;
  for (gint i = 0; i < 8; i++) {
    H3Tensor *x = h3_tensor_new_from_host (t->gpu->device, H3_DTYPE_F32, 1, &n,
        ones, NULL);
    g_autoptr (H3Tensor) other = NULL;
    g_autofree gfloat *zeros = g_new0 (gfloat, n);

    for (gint k = 0; k < 20; k++)
      h3_scale (t->gpu, y, x, 1 + i);
    h3_tensor_unref (x);
    other = h3_tensor_new_from_host (t->gpu->device, H3_DTYPE_F32, 1, &n, zeros,
        NULL);
    h3_download (t->gpu, got, y);
    g_assert_true (h3_stream_synchronize (t->gpu, NULL));
    for (gint64 k = 0; k < n; k++)
      g_assert_cmpfloat (got[k], ==, 1 + i);
  }
}

/* A refused operation stays with its stream and is reported once. */
static void
test_errors (CudaTest *t)
{
  Twin *x = twin_random (t, H3_DTYPE_BF16, 1, DIMS (4, 6));
  Twin *w = twin_random (t, H3_DTYPE_F32, 1, DIMS (5));
  g_autoptr (GError) error = NULL;

  h3_rms_norm (t->gpu, &(H3RmsNormArgs){ x->gpu, x->gpu, w->gpu });
  h3_scale (t->gpu, w->gpu, w->gpu, 2); /* not done */
  g_assert_false (h3_stream_synchronize (t->gpu, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE);
  twin_check (t, "after a refused operation", w, 0);
  g_clear_error (&error);
  /* what the device itself refuses */
  h3_swiglu (t->gpu, twin_out (t, H3_DTYPE_F32, DIMS (4, 3))->gpu, x->gpu);
  g_assert_false (h3_stream_check (t->gpu, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
  g_assert_true (h3_stream_synchronize (t->gpu, NULL));
}

/* A kernel reads where nothing is: the context is lost, the process is not. */
static void
lose_the_context (void)
{
  H3Device *device = cuda_test_device ();
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Stream) stream = h3_stream_new (device, NULL);
  g_autoptr (H3Tensor) x = h3_tensor_new_1d (device, H3_DTYPE_F32, 100, NULL);
  g_autoptr (H3Tensor) y = h3_tensor_new_1d (device, H3_DTYPE_F32, 100, NULL);
  gpointer data = x->data;

  g_assert_true (h3_device_check (device, NULL));
  x->data = GSIZE_TO_POINTER (4096);
  h3_scale (stream, y, x, 2);
  g_assert_false (h3_stream_synchronize (stream, &error));
  x->data = data;
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
  g_clear_error (&error);
  g_assert_false (h3_device_check (device, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
  g_assert_nonnull (strstr (error->message, "restart"));
  g_clear_error (&error);
  g_assert_null (h3_tensor_new_1d (device, H3_DTYPE_F32, 100, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
}

static void
test_lost_context (void)
{
  if (!cuda_test_device ())
    return;
  if (g_test_subprocess ()) {
    lose_the_context ();
    return;
  }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_passed ();
}

/* Pinned memory, which is the host's. */
static void
test_host_memory (CudaTest *t)
{
  H3Device *device = t->gpu->device;
  g_autoptr (GError) error = NULL;
  guint8 *data = device->ops->alloc_host (device, 1 << 20, &error);

  g_assert_no_error (error);
  memset (data, 1, 1 << 20);
  device->ops->free_host (device, data, 1 << 20);
  g_assert_null (device->ops->alloc_host (device, (gsize) 1 << 50, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NO_SPACE);
  g_assert_true (h3_device_check (device, NULL));
}

/* Weights that were parked, and had their place taken meanwhile, are the same
 * at another address. */
static void
test_parking (CudaTest *t)
{
  H3Device *device = t->gpu->device;
  GPtrArray *tensors =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_unref);
  g_autoptr (H3Parking) parking = NULL;
  g_autoptr (GError) error = NULL;
  Twin *x = twin_random (t, H3_DTYPE_BF16, 1, DIMS (1000, 77));
  Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (1000, 77));
  /* pinned host memory takes pages of the GPU's tables */
  const guint64 most = (1 << 30) - (16 << 20);
  guint64 before, parked, total;

  g_ptr_array_add (tensors, h3_tensor_ref (x->gpu));
  g_ptr_array_add (tensors,
      h3_tensor_new_1d (device, H3_DTYPE_U8, 1 << 30, &error));
  g_assert_no_error (error);
  parking = h3_parking_new (tensors);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (H3Tensor) taken = NULL;

    device->ops->memory_info (device, &before, &total);
    h3_parking_park (parking, NULL, &error);
    g_assert_no_error (error);
    device->ops->memory_info (device, &parked, &total);
    g_assert_cmpuint (parked, >=, before + most);
    taken = h3_tensor_new_1d (device, H3_DTYPE_U8, 1 << 29, &error);
    g_assert_no_error (error);
    h3_parking_unpark (parking, NULL, &error);
    g_assert_no_error (error);
    h3_copy (t->ops.stream, y->cpu, x->cpu);
    h3_copy (t->gpu, y->gpu, x->gpu);
    twin_check (t, "after parking", y, 0);
  }
}

void
add_device_tests (void)
{
  g_test_add_func ("/cuda/device/facts", test_facts);
  g_test_add_func ("/cuda/device/ordinal", test_ordinal);
  cuda_test_add ("/cuda/device/no-space", test_no_space);
  cuda_test_add ("/cuda/device/memory-returns", test_memory_returns);
  cuda_test_add ("/cuda/device/free-in-use", test_free_in_use);
  cuda_test_add ("/cuda/device/errors", test_errors);
  cuda_test_add ("/cuda/device/host-memory", test_host_memory);
  cuda_test_add ("/cuda/device/parking", test_parking);
  g_test_add_func ("/cuda/device/lost-context", test_lost_context);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add_device_tests ();
  add_rows_tests ();
  add_matrix_tests ();
  add_media_tests ();
  add_encode_tests ();
  add_vision_tests ();
  add_encoded_tests ();
  add_bytes_tests ();
  add_nan_tests ();
  add_released_tests ();
  return g_test_run ();
}
