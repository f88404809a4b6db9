/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Weights leave the device and come back as they were; and a device that has
 * failed for good says so. */
#include "model/parking.h"
#include "tests/ops/ops-test.h"

#define N 5

/* The CPU with a limit, which forgets what it is given back. */
static struct {
  const H3DeviceOps *cpu;
  H3DeviceOps ops;
  gsize used, capacity, host, host_capacity;
  guint downloads, uploads;
  gboolean broken; /* copies to it fail */
} fake;

static gpointer
limited_alloc (H3Device *device, gsize bytes, GError **error)
{
  if (fake.used + bytes > fake.capacity) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE, "the card is full");
    return NULL;
  }
  fake.used += bytes;
  return fake.cpu->alloc (device, bytes, error);
}

static void
limited_free (H3Device *device, gpointer data, gsize bytes)
{
  memset (data, 0xee, bytes);
  fake.used -= bytes;
  fake.cpu->free (device, data, bytes);
}

static gpointer
limited_alloc_host (H3Device *device, gsize bytes, GError **error)
{
  if (fake.host + bytes > fake.host_capacity) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE, "the host is full");
    return NULL;
  }
  fake.host += bytes;
  return fake.cpu->alloc_host (device, bytes, error);
}

static void
limited_free_host (H3Device *device, gpointer data, gsize bytes)
{
  fake.host -= bytes;
  fake.cpu->free_host (device, data, bytes);
}

static void
limited_upload (H3Stream *stream, H3Tensor *dst, gconstpointer src)
{
  fake.uploads++;
  if (fake.broken)
    h3_stream_fail (stream, H3_ERROR_DEVICE, "the card is broken");
  else
    fake.cpu->upload (stream, dst, src);
}

static void
limited_download (H3Stream *stream, gpointer dst, const H3Tensor *src)
{
  fake.downloads++;
  fake.cpu->download (stream, dst, src);
}

static H3Device *
limited_device (void)
{
  H3Device *device = h3_cpu_device_new (1, NULL);

  memset (&fake, 0, sizeof fake);
  fake.cpu = device->ops;
  fake.capacity = fake.host_capacity = G_MAXSIZE;
  fake.ops = *device->ops;
  fake.ops.alloc = limited_alloc;
  fake.ops.free = limited_free;
  fake.ops.alloc_host = limited_alloc_host;
  fake.ops.free_host = limited_free_host;
  fake.ops.upload = limited_upload;
  fake.ops.download = limited_download;
  device->ops = &fake.ops;
  device->host_memory = FALSE;
  return device;
}

typedef struct {
  H3Device *device;
  H3Tensor *tensors[N]; /* one of them empty */
  gfloat values[N][7];
  H3Parking *parking;
} Model;

static void
model_init (Model *m)
{
  GPtrArray *array =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_unref);

  m->device = limited_device ();
  for (gint i = 0; i < N; i++) {
    const gint64 shape = i == 2 ? 0 : 3 + i;

    for (gint k = 0; k < 7; k++)
      m->values[i][k] = 10 * i + k;
    m->tensors[i] = h3_tensor_new_from_host (m->device, H3_DTYPE_F32, 1, &shape,
        m->values[i], NULL);
    g_ptr_array_add (array, h3_tensor_ref (m->tensors[i]));
  }
  m->parking = h3_parking_new (array);
}

static void
model_clear (Model *m)
{
  h3_parking_free (m->parking);
  for (gint i = 0; i < N; i++)
    h3_tensor_unref (m->tensors[i]);
  h3_device_unref (m->device);
  g_assert_cmpuint (fake.used, ==, 0);
  g_assert_cmpuint (fake.host, ==, 0);
}

static void
assert_intact (const Model *m)
{
  g_autoptr (H3Stream) stream = h3_stream_new (m->device, NULL);

  g_assert_false (h3_parking_is_parked (m->parking));
  for (gint i = 0; i < N; i++) {
    gfloat back[7] = { 0 };

    h3_download (stream, back, m->tensors[i]);
    g_assert_true (h3_stream_synchronize (stream, NULL));
    g_assert_cmpmem (back, m->tensors[i]->bytes, m->values[i],
        m->tensors[i]->bytes);
  }
}

static void
test_back_and_forth (void)
{
  g_autoptr (GError) error = NULL;
  Model m;
  gsize all;
  guint downloads = 0;

  model_init (&m);
  all = fake.used;
  g_assert_cmpuint (h3_parking_bytes (m.parking), ==, (3 + 4 + 6 + 7) * 4);
  for (gint i = 0; i < 3; i++) {
    g_assert_true (h3_parking_park (m.parking, NULL, &error));
    g_assert_true (h3_parking_is_parked (m.parking));
    g_assert_cmpuint (fake.used, ==, 0);
    g_assert_true (h3_parking_park (m.parking, NULL, &error));
    /* weights never change: they are copied out once */
    if (i == 0)
      downloads = fake.downloads;
    g_assert_cmpuint (fake.downloads, ==, downloads);
    g_assert_true (h3_parking_unpark (m.parking, NULL, &error));
    g_assert_true (h3_parking_unpark (m.parking, NULL, &error));
    g_assert_cmpuint (fake.used, ==, all);
    assert_intact (&m);
    downloads = fake.downloads;
  }
  g_assert_no_error (error);
  model_clear (&m);
}

static void
test_freed_parked (void)
{
  Model m;

  model_init (&m);
  g_assert_true (h3_parking_park (m.parking, NULL, NULL));
  model_clear (&m);
}

/* Half a model neither stays nor comes. */
static void
test_no_room (void)
{
  g_autoptr (GError) error = NULL;
  Model m;
  gsize all;

  model_init (&m);
  all = fake.used;
  fake.host_capacity = all / 2;
  g_assert_false (h3_parking_park (m.parking, NULL, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NO_SPACE);
  g_clear_error (&error);
  assert_intact (&m);

  fake.host_capacity = all;
  g_assert_true (h3_parking_park (m.parking, NULL, &error));
  fake.capacity = all - 1;
  g_assert_false (h3_parking_unpark (m.parking, NULL, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NO_SPACE);
  g_clear_error (&error);
  g_assert_true (h3_parking_is_parked (m.parking));
  g_assert_cmpuint (fake.used, ==, 0);

  fake.capacity = all;
  g_assert_true (h3_parking_unpark (m.parking, NULL, &error));
  g_assert_no_error (error);
  assert_intact (&m);
  model_clear (&m);
}

static void
test_broken (void)
{
  g_autoptr (GError) error = NULL;
  Model m;

  model_init (&m);
  g_assert_true (h3_parking_park (m.parking, NULL, &error));
  fake.broken = TRUE;
  g_assert_false (h3_parking_unpark (m.parking, NULL, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
  g_assert_cmpuint (fake.used, ==, 0);
  model_clear (&m);
}

static gboolean
at_third (gpointer data)
{
  return ++*(gint *) data > 2;
}

static void
test_stopped (void)
{
  g_autoptr (GError) error = NULL;
  gint asked = 0;
  const H3Stop stop = { at_third, &asked };
  Model m;

  model_init (&m);
  g_assert_false (h3_parking_park (m.parking, &stop, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_cmpuint (fake.downloads, ==, 2);
  assert_intact (&m);
  g_assert_true (h3_parking_park (m.parking, NULL, &error));
  asked = 0;
  g_assert_false (h3_parking_unpark (m.parking, &stop, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
  g_assert_true (h3_parking_is_parked (m.parking));
  g_assert_cmpuint (fake.used, ==, 0);
  g_assert_true (h3_parking_unpark (m.parking, NULL, NULL));
  assert_intact (&m);
  model_clear (&m);
}

static void
test_nothing (void)
{
  H3Parking *parking = h3_parking_new (g_ptr_array_new ());

  g_assert_true (h3_parking_park (parking, NULL, NULL));
  g_assert_true (h3_parking_unpark (parking, NULL, NULL));
  g_assert_cmpuint (h3_parking_bytes (parking), ==, 0);
  h3_parking_free (parking);
}

static void
test_failed_device (void)
{
  g_autoptr (H3Device) device = h3_cpu_device_new (1, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_true (h3_device_check (device, &error));
  h3_device_fail (device, "an illegal address");
  h3_device_fail (device, "what came of it");
  g_assert_false (h3_device_check (device, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
  g_assert_nonnull (strstr (error->message, "an illegal address"));
  g_assert_nonnull (strstr (error->message, "restart"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/parking/back-and-forth", test_back_and_forth);
  g_test_add_func ("/parking/freed-parked", test_freed_parked);
  g_test_add_func ("/parking/no-room", test_no_room);
  g_test_add_func ("/parking/broken", test_broken);
  g_test_add_func ("/parking/stopped", test_stopped);
  g_test_add_func ("/parking/nothing", test_nothing);
  g_test_add_func ("/device/failed", test_failed_device);
  return g_test_run ();
}
