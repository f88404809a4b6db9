/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tensors in buffers and back: who waits for what. */
#include <gst/gst.h>

#include "fake-gpu.h"
#include "gst/gsth3tensor.h"

GST_DEBUG_CATEGORY (gst_h3_runtime_debug);

static const gint64 shape[] = { 2, 3 };
static const gfloat values[] = { 1, 2, 3, 4, 5, 6 };

typedef struct {
  H3Device *device;
  H3Stream *producer, *consumer;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->device = h3_cuda_device_new (0, NULL);
  f->producer = h3_stream_new (f->device, NULL);
  f->consumer = h3_stream_new (f->device, NULL);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  g_atomic_int_set (&h3_fake_gpu ()->failing, FALSE);
  h3_stream_free (f->producer);
  h3_stream_free (f->consumer);
  h3_device_unref (f->device);
}

static H3Tensor *
make_tensor (Fixture *f)
{
  GError *error = NULL;
  H3Tensor *tensor = h3_tensor_new_from_host (f->device, H3_DTYPE_F32, 2, shape,
      values, &error);

  g_assert_no_error (error);
  return tensor;
}

static H3Tensor *
read_buffer (Fixture *f, GstBuffer *buffer, GError **error)
{
  return gst_h3_tensor_from_buffer (buffer, f->consumer, H3_DTYPE_F32, 2, shape,
      "test", error);
}

/* The consumer's stream waits for the producer's event; the tensor is the same,
 * and the event goes with the buffer. */
static void
test_event (Fixture *f, gconstpointer data)
{
  H3FakeGpu *gpu = h3_fake_gpu ();
  gint events = g_atomic_int_get (&gpu->events);
  gint waits = g_atomic_int_get (&gpu->waits);
  gint downloads = g_atomic_int_get (&gpu->downloads);
  g_autoptr (H3Tensor) tensor = make_tensor (f);
  g_autoptr (H3Tensor) read = NULL;
  GError *error = NULL;
  GstBuffer *buffer = gst_h3_tensor_to_buffer (tensor, f->producer, &error);
  gfloat got[G_N_ELEMENTS (values)];

  g_assert_no_error (error);
  g_assert_cmpint (g_atomic_int_get (&gpu->events), ==, events + 1);
  g_assert_nonnull (
      ((GstH3Memory *) gst_buffer_peek_memory (buffer, 0))->ready);
  read = read_buffer (f, buffer, &error);
  g_assert_no_error (error);
  g_assert_true (read == tensor);
  g_assert_cmpint (g_atomic_int_get (&gpu->waits), ==, waits + 1);
  g_assert_cmpint (g_atomic_int_get (&gpu->downloads), ==, downloads);

  /* so does the host, when it looks */
  g_assert_cmpuint (gst_buffer_extract (buffer, 0, got, sizeof got), ==,
      sizeof got);
  g_assert_cmpmem (got, sizeof got, values, sizeof values);
  g_assert_cmpint (g_atomic_int_get (&gpu->waits), ==, waits + 2);
  g_assert_cmpint (g_atomic_int_get (&gpu->downloads), ==, downloads + 1);

  gst_buffer_unref (buffer);
  g_assert_cmpint (g_atomic_int_get (&gpu->events), ==, events);
}

/* What has finished has no event. */
static void
test_finished (Fixture *f, gconstpointer data)
{
  gint waits = g_atomic_int_get (&h3_fake_gpu ()->waits);
  g_autoptr (H3Tensor) tensor = make_tensor (f);
  g_autoptr (GstBuffer) buffer = gst_h3_tensor_to_buffer (tensor, NULL, NULL);
  g_autoptr (H3Tensor) read = read_buffer (f, buffer, NULL);

  g_assert_null (((GstH3Memory *) gst_buffer_peek_memory (buffer, 0))->ready);
  g_assert_true (read == tensor);
  g_assert_cmpint (g_atomic_int_get (&h3_fake_gpu ()->waits), ==, waits);
}

/* A failed producer makes no buffer; a failed consumer gets no tensor. */
static void
test_failures (Fixture *f, gconstpointer data)
{
  g_autoptr (H3Tensor) tensor = make_tensor (f);
  g_autoptr (GstBuffer) buffer =
      gst_h3_tensor_to_buffer (tensor, f->producer, NULL);
  g_autoptr (GError) error = NULL;

  h3_stream_fail (f->producer, H3_ERROR_NUMERIC, "before");
  g_assert_null (gst_h3_tensor_to_buffer (tensor, f->producer, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NUMERIC);
  g_clear_error (&error);

  g_atomic_int_set (&h3_fake_gpu ()->failing, TRUE);
  g_assert_null (gst_h3_tensor_to_buffer (tensor, f->producer, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
  g_clear_error (&error);
  g_atomic_int_set (&h3_fake_gpu ()->failing, FALSE);

  h3_stream_fail (f->consumer, H3_ERROR_DEVICE, "before");
  g_assert_null (read_buffer (f, buffer, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
}

/* Another size is refused by name wherever the bytes are. */
static void
test_wrong_size (Fixture *f, gconstpointer data)
{
  static const gint64 larger[] = { 2, 4 };
  g_autoptr (H3Tensor) tensor = make_tensor (f);
  g_autoptr (GstBuffer) buffer = gst_h3_tensor_to_buffer (tensor, NULL, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (gst_h3_tensor_from_buffer (buffer, f->consumer, H3_DTYPE_F32,
      2, larger, "test", &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_FORMAT);
  g_assert_nonnull (strstr (error->message, "test"));
  g_assert_nonnull (strstr (error->message, "24 bytes"));
}

/* The same bytes as another shape, and a part of a larger memory. */
static void
test_other_shape_and_part (Fixture *f, gconstpointer data)
{
  static const gint64 row[] = { 3 };
  H3FakeGpu *gpu = h3_fake_gpu ();
  gint downloads = g_atomic_int_get (&gpu->downloads);
  g_autoptr (H3Tensor) tensor = make_tensor (f);
  g_autoptr (GstBuffer) buffer = gst_h3_tensor_to_buffer (tensor, NULL, NULL);
  g_autoptr (GstBuffer) part = gst_buffer_copy_region (buffer,
      GST_BUFFER_COPY_MEMORY, 3 * sizeof (gfloat), 3 * sizeof (gfloat));
  GError *error = NULL;
  g_autoptr (H3Tensor) read = gst_h3_tensor_from_buffer (part, f->consumer,
      H3_DTYPE_F32, 1, row, "test", &error);
  gfloat got[3];

  g_assert_no_error (error);
  g_assert_cmpint (g_atomic_int_get (&gpu->downloads), ==, downloads);
  h3_download (f->consumer, got, read);
  g_assert_true (h3_stream_synchronize (f->consumer, NULL));
  g_assert_cmpmem (got, sizeof got, values + 3, sizeof got);
}

#define ADD(name, test)                                                        \
  g_test_add ("/tensor/" name, Fixture, NULL, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  GST_DEBUG_CATEGORY_INIT (gst_h3_runtime_debug, "h3runtime", 0, "");
  ADD ("event", test_event);
  ADD ("finished", test_finished);
  ADD ("failures", test_failures);
  ADD ("wrong-size", test_wrong_size);
  ADD ("other-shape-and-part", test_other_shape_and_part);
  return g_test_run ();
}
