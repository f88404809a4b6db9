/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tensor memory: the map protocol on the host and on a device that is none. */
#include <gst/check/gstcheck.h>
#include <gst/h3/h3.h>

#include <string.h>

#define N 6

/* A device whose memory the CPU cannot read: its bytes are stored inverted. */
typedef struct {
  gint allocated, downloads, uploads, copies;
  gboolean fail;
} Device;

static void
invert (guint8 *to, const guint8 *from, gsize size)
{
  for (gsize i = 0; i < size; i++)
    to[i] = ~from[i];
}

static gpointer
device_alloc (gsize size, gpointer user_data)
{
  Device *device = user_data;

  if (device->fail)
    return NULL;
  g_atomic_int_inc (&device->allocated);
  return g_malloc0 (size);
}

static void
device_free (gpointer data, gsize size, gpointer user_data)
{
  Device *device = user_data;

  g_atomic_int_add (&device->allocated, -1);
  g_free (data);
}

static gboolean
device_download (gpointer host, gconstpointer data, gsize size, gpointer ready,
    gpointer user_data)
{
  Device *device = user_data;

  if (device->fail)
    return FALSE;
  g_atomic_int_inc (&device->downloads);
  invert (host, data, size);
  return TRUE;
}

static gboolean
device_upload (gpointer data, gconstpointer host, gsize size,
    gpointer user_data)
{
  Device *device = user_data;

  if (device->fail)
    return FALSE;
  g_atomic_int_inc (&device->uploads);
  invert (data, host, size);
  return TRUE;
}

static gboolean
device_copy (gpointer dst, gconstpointer src, gsize size, gpointer ready,
    gpointer user_data)
{
  Device *device = user_data;

  g_atomic_int_inc (&device->copies);
  memcpy (dst, src, size);
  return TRUE;
}

static const GstH3DeviceFuncs device_funcs = { device_alloc, device_free,
  device_download, device_upload, device_copy };

static const gint64 shape[] = { 2, 3 };
static const guint8 bytes[N] = { 1, 2, 3, 4, 5, 6 };

static GstH3Allocator *
device_new (Device *device)
{
  memset (device, 0, sizeof *device);
  return gst_h3_allocator_new (0, &device_funcs, device, NULL);
}

static void
write_bytes (GstMemory *memory)
{
  GstMapInfo map;

  g_assert_true (gst_memory_map (memory, &map, GST_MAP_WRITE));
  g_assert_cmpuint (map.size, ==, N);
  memcpy (map.data, bytes, N);
  gst_memory_unmap (memory, &map);
}

static void
assert_bytes (GstMemory *memory, gsize first, gsize n)
{
  GstMapInfo map;

  g_assert_true (gst_memory_map (memory, &map, GST_MAP_READ));
  g_assert_cmpmem (map.data, map.size, bytes + first, n);
  gst_memory_unmap (memory, &map);
}

static void
assert_shape (GstMemory *memory)
{
  GstH3Memory *tensor = (GstH3Memory *) memory;

  g_assert_true (gst_is_h3_memory (memory));
  g_assert_true (gst_memory_is_type (memory, GST_H3_MEMORY_TYPE));
  g_assert_cmpint (tensor->type, ==, GST_H3_TYPE_UINT8);
  g_assert_cmpuint (tensor->rank, ==, 2);
  g_assert_cmpint (tensor->dim[0], ==, 2);
  g_assert_cmpint (tensor->dim[1], ==, 3);
}

static void
test_host (void)
{
  GstH3Allocator *host = gst_h3_allocator_get_host ();
  GstMemory *memory =
      gst_h3_allocator_alloc (host, GST_H3_TYPE_UINT8, 2, shape);
  GstMapInfo cpu, device;

  assert_shape (memory);
  g_assert_cmpint (((GstH3Memory *) memory)->device, ==, -1);
  g_assert_cmpuint (GPOINTER_TO_SIZE (((GstH3Memory *) memory)->data) % 256, ==,
      0);
  write_bytes (memory);
  g_assert_true (gst_memory_map (memory, &cpu, GST_MAP_READ));
  g_assert_true (
      gst_memory_map (memory, &device, GST_MAP_READ | GST_H3_MAP_DEVICE));
  g_assert_true (cpu.data == device.data);
  gst_memory_unmap (memory, &device);
  gst_memory_unmap (memory, &cpu);
  assert_bytes (memory, 0, N);
  gst_memory_unref (memory);
}

static void
count_free (gpointer data)
{
  ++*(gint *) data;
}

static void
test_wrap (void)
{
  GstH3Allocator *host = gst_h3_allocator_get_host ();
  guint8 data[N];
  gint freed = 0;
  GstMemory *memory, *range;

  memcpy (data, bytes, N);
  memory = gst_h3_allocator_wrap (host, GST_H3_TYPE_UINT8, 2, shape, data, NULL,
      &freed, count_free);
  g_assert_true (((GstH3Memory *) memory)->data == data);
  g_assert_true (
      gst_h3_memory_get_owner ((GstH3Memory *) memory, count_free) == &freed);
  g_assert_null (gst_h3_memory_get_owner ((GstH3Memory *) memory, g_free));
  assert_bytes (memory, 0, N);

  /* a range keeps the whole alive */
  range = gst_memory_share (memory, 2, 3);
  gst_memory_unref (memory);
  g_assert_cmpint (freed, ==, 0);
  assert_bytes (range, 2, 3);
  gst_memory_unref (range);
  g_assert_cmpint (freed, ==, 1);
}

static void
test_shapes (void)
{
  GstH3Allocator *host = gst_h3_allocator_get_host ();
  const gint64 zero[] = { 3, 0 }, negative[] = { -1 };
  const gint64 huge[] = { G_MAXINT64, 4 }, large[] = { G_MAXINT64 };
  guint8 data[4];
  gint freed = 0;

  g_assert_null (gst_h3_allocator_alloc (host, GST_H3_TYPE_FLOAT32, 2, zero));
  g_assert_null (gst_h3_allocator_alloc (host, GST_H3_TYPE_UINT8, 1, negative));
  g_assert_null (gst_h3_allocator_alloc (host, GST_H3_TYPE_UINT8, 2, huge));
  g_assert_null (gst_h3_allocator_alloc (host, GST_H3_TYPE_FLOAT32, 1, large));
  g_assert_null (gst_h3_allocator_alloc (host, GST_H3_TYPE_UINT8, 0, shape));
  g_assert_null (gst_h3_allocator_alloc (host, GST_H3_TYPE_UINT8,
      GST_H3_MAX_RANK + 1, shape));
  g_assert_null (gst_h3_allocator_wrap (host, GST_H3_TYPE_FLOAT32, 2, zero,
      data, NULL, &freed, count_free));
  g_assert_cmpint (freed, ==, 0);
}

/* gst_allocator_alloc() knows no shape: refused, not a crash. */
static void
test_no_plain_alloc (void)
{
  GstAllocator *host = GST_ALLOCATOR_CAST (gst_h3_allocator_get_host ());

  g_assert_true (
      GST_OBJECT_FLAG_IS_SET (host, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC));
  g_assert_null (gst_allocator_alloc (host, 16, NULL));
}

static void
test_copy (void)
{
  GstMemory *memory = gst_h3_allocator_alloc (gst_h3_allocator_get_host (),
      GST_H3_TYPE_UINT8, 2, shape);
  GstMemory *whole, *part;

  write_bytes (memory);
  whole = gst_memory_copy (memory, 0, -1);
  assert_shape (whole);
  assert_bytes (whole, 0, N);
  part = gst_memory_copy (memory, 1, 4);
  g_assert_cmpuint (((GstH3Memory *) part)->rank, ==, 1);
  assert_bytes (part, 1, 4);
  gst_memory_unref (part);
  gst_memory_unref (whole);
  gst_memory_unref (memory);
}

/* Two ranges next to each other are never taken for one memory. */
static void
test_no_span (void)
{
  GstMemory *memory = gst_h3_allocator_alloc (gst_h3_allocator_get_host (),
      GST_H3_TYPE_UINT8, 2, shape);
  GstMemory *first = gst_memory_share (memory, 0, 3);
  GstMemory *second = gst_memory_share (memory, 3, 3);
  gsize offset;

  g_assert_false (gst_memory_is_span (first, second, &offset));
  gst_memory_unref (first);
  gst_memory_unref (second);
  gst_memory_unref (memory);
}

static void
test_device_protocol (void)
{
  Device device;
  GstH3Allocator *allocator = device_new (&device);
  GstMemory *memory =
      gst_h3_allocator_alloc (allocator, GST_H3_TYPE_UINT8, 2, shape);
  GstMapInfo map;

  assert_shape (memory);
  g_assert_cmpint (((GstH3Memory *) memory)->device, ==, 0);
  write_bytes (memory); /* reads first: a writer may leave bytes alone */
  g_assert_cmpint (device.downloads, ==, 1);
  g_assert_cmpint (device.uploads, ==, 0);

  /* the device sees what the CPU wrote, once */
  for (gint i = 0; i < 2; i++) {
    g_assert_true (
        gst_memory_map (memory, &map, GST_MAP_READ | GST_H3_MAP_DEVICE));
    g_assert_true (map.data == ((GstH3Memory *) memory)->data);
    g_assert_cmpuint (map.data[0], ==, (guint8) ~bytes[0]);
    gst_memory_unmap (memory, &map);
    g_assert_cmpint (device.uploads, ==, 1);
  }
  assert_bytes (memory, 0, N);
  g_assert_cmpint (device.downloads, ==, 1);

  /* and the CPU what the device wrote */
  g_assert_true (
      gst_memory_map (memory, &map, GST_MAP_WRITE | GST_H3_MAP_DEVICE));
  map.data[0] = (guint8) ~9;
  gst_memory_unmap (memory, &map);
  g_assert_true (gst_memory_map (memory, &map, GST_MAP_READ));
  g_assert_cmpuint (map.data[0], ==, 9);
  gst_memory_unmap (memory, &map);
  g_assert_cmpint (device.downloads, ==, 2);

  gst_memory_unref (memory);
  g_assert_cmpint (device.allocated, ==, 0);
  gst_object_unref (allocator);
}

static void
test_device_copy_and_share (void)
{
  Device device;
  GstH3Allocator *allocator = device_new (&device);
  GstMemory *memory =
      gst_h3_allocator_alloc (allocator, GST_H3_TYPE_UINT8, 2, shape);
  GstMemory *copy, *range;

  write_bytes (memory);
  copy = gst_memory_copy (memory, 0, -1); /* uploads what the CPU wrote */
  g_assert_cmpint (device.uploads, ==, 1);
  g_assert_cmpint (device.copies, ==, 1);
  assert_shape (copy);
  assert_bytes (copy, 0, N);
  range = gst_memory_share (copy, 4, 2);
  assert_bytes (range, 4, 2);
  gst_memory_unref (range);
  gst_memory_unref (copy);
  gst_memory_unref (memory);
  g_assert_cmpint (device.allocated, ==, 0);
  gst_object_unref (allocator);
}

static void
test_device_fails (void)
{
  Device device;
  GstH3Allocator *allocator = device_new (&device);
  GstMemory *memory =
      gst_h3_allocator_alloc (allocator, GST_H3_TYPE_UINT8, 2, shape);
  GstMapInfo map;

  device.fail = TRUE;
  g_assert_null (
      gst_h3_allocator_alloc (allocator, GST_H3_TYPE_UINT8, 2, shape));
  g_assert_false (gst_memory_map (memory, &map, GST_MAP_READ));
  device.fail = FALSE;
  g_assert_true (gst_memory_map (memory, &map, GST_MAP_READ));
  gst_memory_unmap (memory, &map);
  gst_memory_unref (memory);
  gst_object_unref (allocator);
}

static gpointer
read_often (gpointer data)
{
  for (gint i = 0; i < 2000; i++)
    assert_bytes (data, 0, N);
  return NULL;
}

static void
map_from_two_threads (GstH3Allocator *allocator)
{
  GstMemory *memory =
      gst_h3_allocator_alloc (allocator, GST_H3_TYPE_UINT8, 2, shape);
  GThread *threads[2];

  write_bytes (memory);
  for (gint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("reader", read_often, memory);
  for (gint i = 0; i < 2000; i++) {
    GstMapInfo map;

    if (gst_memory_map (memory, &map, GST_MAP_READ | GST_H3_MAP_DEVICE))
      gst_memory_unmap (memory, &map);
  }
  for (gint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
  gst_memory_unref (memory);
}

static void
test_two_threads (void)
{
  Device device;
  GstH3Allocator *allocator = device_new (&device);

  map_from_two_threads (gst_h3_allocator_get_host ());
  map_from_two_threads (allocator);
  g_assert_cmpint (device.downloads, ==, 1);
  gst_object_unref (allocator);
}

/* What filesink and friends do: a buffer's bytes, whatever memory. */
static void
test_buffer (void)
{
  Device device;
  GstH3Allocator *allocator = device_new (&device);
  GstMemory *memory =
      gst_h3_allocator_alloc (allocator, GST_H3_TYPE_UINT8, 2, shape);
  GstBuffer *buffer = gst_buffer_new (), *copy;
  guint8 read[N];

  write_bytes (memory);
  gst_buffer_append_memory (buffer, memory);
  g_assert_cmpuint (gst_buffer_extract (buffer, 0, read, N), ==, N);
  g_assert_cmpmem (read, N, bytes, N);
  copy = gst_buffer_copy_deep (buffer);
  g_assert_cmpint (gst_buffer_memcmp (copy, 0, bytes, N), ==, 0);
  gst_buffer_unref (copy);
  gst_buffer_unref (buffer);
  g_assert_cmpint (device.allocated, ==, 0);
  gst_object_unref (allocator);
}

static void
test_types (void)
{
  GstH3Type type;

  for (gint i = GST_H3_TYPE_FLOAT32; i <= GST_H3_TYPE_UINT8; i++) {
    g_assert_true (gst_h3_type_from_name (gst_h3_type_name (i), &type));
    g_assert_cmpint (type, ==, i);
  }
  g_assert_cmpuint (gst_h3_type_size (GST_H3_TYPE_BFLOAT16), ==, 2);
  g_assert_false (gst_h3_type_from_name ("float64", &type));
  g_assert_false (gst_h3_type_from_name (NULL, &type));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  g_test_add_func ("/memory/types", test_types);
  g_test_add_func ("/memory/host", test_host);
  g_test_add_func ("/memory/wrap", test_wrap);
  g_test_add_func ("/memory/shapes", test_shapes);
  g_test_add_func ("/memory/no-plain-alloc", test_no_plain_alloc);
  g_test_add_func ("/memory/copy", test_copy);
  g_test_add_func ("/memory/no-span", test_no_span);
  g_test_add_func ("/memory/device/protocol", test_device_protocol);
  g_test_add_func ("/memory/device/copy-and-share", test_device_copy_and_share);
  g_test_add_func ("/memory/device/fails", test_device_fails);
  g_test_add_func ("/memory/two-threads", test_two_threads);
  g_test_add_func ("/memory/buffer", test_buffer);
  return g_test_run ();
}
