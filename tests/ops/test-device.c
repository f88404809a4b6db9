/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The device, its memory and threads, tensors, and the elementary functions
 * the operations are made of. */
#include <glib/gstdio.h>

#include "cpu/cpu.h"
#include "cpu/mathf.h"
#include "cpu/memory.h"
#include "cpu/pool.h"
#include "tests/ops/ops-test.h"

/* Each entry of the table is a function; none may be missing but the events, of
 * a device whose operations have run when they return. */
static void
test_complete (Ops *ops)
{
  gpointer entry[sizeof (H3DeviceOps) / sizeof (gpointer)];
  H3DeviceOps table = *ops->device->ops;

  g_assert_null (table.event_new);
  g_assert_null (table.event_wait);
  g_assert_null (table.event_free);
  table.event_new = (gpointer) test_complete;
  table.event_wait = (gpointer) test_complete;
  table.event_free = (gpointer) test_complete;
  memcpy (entry, &table, sizeof entry);
  g_assert_cmpint (sizeof entry, ==, sizeof (H3DeviceOps));
  for (guint i = 0; i < G_N_ELEMENTS (entry); i++)
    g_assert_nonnull (entry[i]);
}

static void
test_tensors (Ops *ops)
{
  g_autoptr (GError) error = NULL;
  static const gfloat host[6] = { 1, 2, 3, 4, 5, 6 };
  H3Tensor *t = h3_tensor_new_from_host (ops->device, H3_DTYPE_F32,
      DIMS (3, 1, 2), host, &error);
  H3Tensor *row, *again;
  gfloat back[2];

  g_assert_no_error (error);
  g_assert_cmpint (h3_tensor_size (t), ==, 6);
  g_assert_cmpint (h3_tensor_rows (t), ==, 3);
  g_assert_cmpint (h3_tensor_cols (t), ==, 2);
  g_assert_cmpint ((gsize) t->data % 64, ==, 0);
  row = h3_tensor_view_rows (t, 1, 2);
  h3_tensor_unref (t); /* views keep what they look at */
  again = h3_tensor_view_rows (row, 1, 1);
  h3_tensor_unref (row);
  h3_download (ops->stream, back, again);
  g_assert_cmpfloat (back[0], ==, 5);
  g_assert_cmpfloat (back[1], ==, 6);
  h3_tensor_unref (again);

  for (gint d = H3_DTYPE_F32; d <= H3_DTYPE_U8; d++) {
    t = h3_tensor_new_1d (ops->device, d, 5, &error);
    g_assert_cmpint (t->bytes, ==, 5 * h3_dtype_size (d));
    g_assert_nonnull (h3_dtype_name (d));
    h3_tensor_unref (t);
  }
}

static void
outside_views (void)
{
  g_autoptr (H3Device) device = h3_cpu_device_new (1, NULL);
  g_autoptr (H3Tensor) t = h3_tensor_new_2d (device, H3_DTYPE_F32, 4, 4, NULL);

  g_test_expect_message (NULL, G_LOG_LEVEL_CRITICAL, "*h3_tensor_view*");
  g_assert_null (h3_tensor_view_rows (t, 2, 3));
  g_test_assert_expected_messages ();
  g_test_expect_message (NULL, G_LOG_LEVEL_CRITICAL, "*h3_tensor_view*");
  g_assert_null (h3_tensor_view (t, 1, 1, (gint64[]){ 16 }));
  g_test_assert_expected_messages ();
  g_test_expect_message (NULL, G_LOG_LEVEL_CRITICAL, "*h3_tensor_view*");
  g_assert_null (h3_tensor_view (t, -1, 1, (gint64[]){ 1 }));
  g_test_assert_expected_messages ();
}

/* Sizes from a file may be anything; none may end the process. */
static void
test_no_space (Ops *ops)
{
  static const gint64 shapes[][3] = { { G_MAXINT64, 1, 1 },
    { G_MAXINT64, G_MAXINT64, 1 }, { 1 << 20, 1 << 20, 1 << 10 },
    { G_GINT64_CONSTANT (1) << 40, 4, 4 }, { 3, -1, 3 },
    { G_GINT64_CONSTANT (1) << 46, 1, 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (
        h3_tensor_new (ops->device, H3_DTYPE_F32, 3, shapes[i], &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_NO_SPACE);
  }
}

/* The stream keeps its first failure, does nothing more, and starts afresh. */
static void
test_first_failure (Ops *ops)
{
  g_autoptr (GError) error = NULL;
  H3Tensor *x = ops_random (ops, H3_DTYPE_F32, 1, DIMS (3));
  H3Tensor *y = ops_random (ops, H3_DTYPE_F32, 1, DIMS (3));
  H3Tensor *odd = ops_random (ops, H3_DTYPE_F32, 1, DIMS (4));
  gfloat before = *ops_f32 (y);

  h3_scale (ops->stream, y, odd, 2);
  h3_mean3 (ops->stream, y, odd, odd, odd);
  h3_scale (ops->stream, y, x, 2);
  g_assert_cmpfloat (*ops_f32 (y), ==, before);
  g_assert_false (h3_stream_check (ops->stream, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE);
  g_assert_true (g_str_has_prefix (error->message, "scale: y"));
  h3_scale (ops->stream, y, x, 2);
  g_assert_true (h3_stream_synchronize (ops->stream, NULL));
  g_assert_cmpfloat (*ops_f32 (y), ==, 2 * *ops_f32 (x));
}

static void
test_other_device (Ops *ops)
{
  g_autoptr (H3Device) other = h3_cpu_device_new (1, NULL);
  g_autoptr (H3Tensor) x = h3_tensor_new_1d (other, H3_DTYPE_F32, 3, NULL);
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (3));

  h3_scale (ops->stream, y, x, 2);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "lives on another device (cpu (1 ");
}

static void
settings (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *isa = g_strdup (g_getenv ("H3_CPU_ISA"));
  H3Device *device;

  g_setenv ("H3_CPU_ISA", "sse9", TRUE);
  g_assert_null (h3_cpu_device_new (1, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_SETTINGS);
  g_assert_nonnull (strstr (error->message, "sse9"));
  g_clear_error (&error);
  g_unsetenv ("H3_CPU_ISA");
  g_setenv ("H3_CPU_THREADS", "many", TRUE);
  g_assert_null (h3_cpu_device_new (0, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_SETTINGS);
  g_assert_nonnull (strstr (error->message, "many"));
  g_clear_error (&error);
  g_setenv ("H3_CPU_THREADS", "3", TRUE);
  device = h3_cpu_device_new (0, &error);
  g_assert_no_error (error);
  g_assert_true (g_str_has_prefix (device->name, "cpu (3 threads, "));
  h3_device_unref (device);
  g_unsetenv ("H3_CPU_THREADS");
  if (isa)
    g_setenv ("H3_CPU_ISA", isa, TRUE);
}

static void
write_file (const gchar *folder, const gchar *name, const gchar *text)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);
  g_autofree gchar *parent = g_path_get_dirname (path);

  g_assert_cmpint (g_mkdir_with_parents (parent, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

static void
remove_tree (const gchar *path)
{
  GDir *dir = g_dir_open (path, 0, NULL);
  const gchar *name;

  while (dir && (name = g_dir_read_name (dir))) {
    g_autofree gchar *child = g_build_filename (path, name, NULL);
    remove_tree (child);
  }
  g_clear_pointer (&dir, g_dir_close);
  g_remove (path);
}

static void
read_memory (const gchar *folder, guint64 *free_bytes, guint64 *total_bytes)
{
  g_autofree gchar *meminfo = g_build_filename (folder, "meminfo", NULL);
  g_autofree gchar *cgroup = g_build_filename (folder, "cgroup", NULL);

  h3_cpu_memory_read (meminfo, cgroup, folder, free_bytes, total_bytes);
}

static void
memory_info (void)
{
  g_autofree gchar *root = g_dir_make_tmp ("h3-memory-XXXXXX", NULL);
  guint64 free_bytes, total_bytes;

  read_memory (root, &free_bytes, &total_bytes);
  g_assert_cmpuint (free_bytes, ==, G_MAXUINT64);

  write_file (root, "meminfo",
      "MemTotal:    1000 kB\nMemFree:  1 kB\n"
      "MemAvailable:   600 kB\n");
  write_file (root, "cgroup", "0::/a/b\n");
  read_memory (root, &free_bytes, &total_bytes);
  g_assert_cmpuint (free_bytes, ==, 600 * 1024);
  g_assert_cmpuint (total_bytes, ==, 1000 * 1024);

  /* the group has no limit, its parent has */
  write_file (root, "a/b/memory.max", "max\n");
  write_file (root, "a/memory.max", "204800\n");
  write_file (root, "a/memory.current", "102400\n");
  write_file (root, "a/memory.stat", "anon 5\ninactive_file 2400\n");
  read_memory (root, &free_bytes, &total_bytes);
  g_assert_cmpuint (free_bytes, ==, 104800);
  g_assert_cmpuint (total_bytes, ==, 204800);

  /* more used than allowed */
  write_file (root, "a/memory.current", "999999\n");
  read_memory (root, &free_bytes, &total_bytes);
  g_assert_cmpuint (free_bytes, ==, 0);

  write_file (root, "cgroup", "5:cpu:/x\n7:memory:/x\n");
  write_file (root, "memory/x/memory.limit_in_bytes", "300000\n");
  write_file (root, "memory/x/memory.usage_in_bytes", "100000\n");
  read_memory (root, &free_bytes, &total_bytes);
  g_assert_cmpuint (free_bytes, ==, 200000);
  g_assert_cmpuint (total_bytes, ==, 300000);
  remove_tree (root);
}

static void
test_memory_info (Ops *ops)
{
  guint64 free_bytes, total_bytes;

  ops->device->ops->memory_info (ops->device, &free_bytes, &total_bytes);
  g_assert_cmpuint (free_bytes, >, 0);
  g_assert_cmpuint (free_bytes, <=, total_bytes);
}

#define CALLERS 5
#define ROUNDS 400

static void
count_task (gconstpointer data, gint64 index, gpointer scratch)
{
  memset (scratch, index, 100);
  g_atomic_int_inc (&((gint *) data)[index]);
}

static gpointer
call_pool (gpointer unused)
{
  H3CpuScratch scratch = { NULL, 0 };

  for (gint round = 0; round < ROUNDS; round++) {
    gint ran[37] = { 0 }, n = 1 + round % 37;

    g_assert_true (
        h3_cpu_pool_run (round % 4, n, 100, count_task, ran, &scratch));
    for (gint i = 0; i < 37; i++)
      g_assert_cmpint (ran[i], ==, i < n);
  }
  h3_cpu_scratch_clear (&scratch);
  return NULL;
}

/* Several callers at once, more than workers: each task runs once, nobody
 * waits forever. */
static void
pool (void)
{
  GThread *thread[CALLERS];

  for (gint round = 0; round < 3; round++) {
    g_assert_true (h3_cpu_pool_ref (2, NULL));
    for (gint i = 0; i < CALLERS; i++)
      thread[i] = g_thread_new ("caller", call_pool, NULL);
    for (gint i = 0; i < CALLERS; i++)
      g_thread_join (thread[i]);
    h3_cpu_pool_unref ();
  }
}

typedef struct {
  gint64 tasks; /* 0: ask to stop */
  gint ran;
} Stopping;

static gboolean
enough (gpointer data)
{
  return g_atomic_int_get (&((Stopping *) data)->ran) >=
         ((Stopping *) data)->tasks;
}

static void
counted_task (gconstpointer data, gint64 index, gpointer scratch)
{
  g_atomic_int_inc (&((Stopping *) data)->ran);
}

/* A stream's stop ends an operation between its tasks, and the stream works
 * again once another is set. */
static void
stop_inside (Ops *ops)
{
  g_autoptr (H3Stream) stream = h3_stream_new (ops->device, NULL);
  Stopping stopping = { 10, 0 };
  const H3Stop stop = { enough, &stopping };
  g_autoptr (GError) error = NULL;

  h3_stream_set_stop (stream, &stop);
  h3_cpu_for (stream, 100000, 0, counted_task, &stopping);
  /* threads that asked before the tenth ran may still run one each */
  g_assert_cmpint (stopping.ran, >=, 10);
  g_assert_cmpint (stopping.ran, <, 100);
  g_assert_false (h3_stream_synchronize (stream, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
  h3_cpu_for (stream, 100, 0, counted_task, &stopping);

  h3_stream_set_stop (stream, NULL);
  g_assert_true (h3_stream_check (stream, NULL));
  stopping.ran = 0;
  h3_cpu_for (stream, 100, 0, counted_task, &stopping);
  g_assert_cmpint (stopping.ran, ==, 100);
  g_assert_true (h3_stream_synchronize (stream, NULL));
}

/* Scratch that cannot be had is a failure, not an abort. */
static void
pool_no_space (void)
{
  H3CpuScratch scratch = { NULL, 0 };
  gint ran[1] = { 0 };

  g_assert_true (h3_cpu_pool_ref (1, NULL));
  g_assert_false (
      h3_cpu_pool_run (1, 4, G_MAXSIZE - 4096, count_task, ran, &scratch));
  g_assert_false (
      h3_cpu_pool_run (0, 1, (gsize) 1 << 60, count_task, ran, &scratch));
  g_assert_cmpint (ran[0], ==, 0);
  h3_cpu_pool_unref ();
}

/* Of @got against the true value, in units of its last place. */
static gdouble
ulps (gfloat got, gdouble want)
{
  gfloat near = fabs (want);
  gdouble unit = MAX ((gdouble) nextafterf (near, INFINITY) - near, 0x1p-149);

  return fabs (got - want) / unit;
}

static void
functions (void)
{
  gdouble worst_exp = 0, worst_sin = 0;

  /* a stride through all floats of the range */
  for (guint32 u = 0; u < 0x42b17217; u += 3001) {
    gfloat x = h3_bits_float (u);

    worst_exp = MAX (worst_exp, ulps (h3_expf (x), exp (x)));
    if (x < 87) /* the results stay normal numbers */
      worst_exp = MAX (worst_exp, ulps (h3_expf (-x), exp (-x)));
  }
  for (guint32 u = 0; u < 0x7f800000; u += 3001) {
    gfloat x = h3_bits_float (u);

    worst_sin = MAX (worst_sin, ulps (h3_sinf (x), sin (x)));
    g_assert_cmpfloat (h3_sinf (-x), ==, -h3_sinf (x));
  }
  g_test_message ("e^x %.2f ulp, sin x %.2f ulp", worst_exp, worst_sin);
  g_assert_cmpfloat (worst_exp, <, 2);
  g_assert_cmpfloat (worst_sin, <, 2);

  g_assert_cmpfloat (h3_expf (0), ==, 1);
  g_assert_true (isinf (h3_expf (88.8f)));
  g_assert_true (isinf (h3_expf (INFINITY)));
  g_assert_cmpfloat (h3_expf (-104.5f), ==, 0);
  g_assert_cmpfloat (h3_expf (-INFINITY), ==, 0);
  g_assert_cmpfloat (h3_expf (-100), >, 0);
  g_assert_true (isnan (h3_expf (NAN)));
  g_assert_true (isnan (h3_sinf (NAN)));
  g_assert_true (isnan (h3_sinf (INFINITY)));
  g_assert_true (isnan (h3_siluf (NAN)));
  g_assert_cmpfloat (h3_siluf (200), ==, 200);
  g_assert_cmpfloat (fabsf (h3_siluf (-200)), ==, 0);
  g_assert_cmpfloat (h3_gelu_tanhf (100), ==, 100);
  g_assert_cmpfloat (fabsf (h3_gelu_tanhf (-100)), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/device/complete", test_complete);
  ops_add ("/device/tensors", test_tensors);
  ops_add ("/device/no-space", test_no_space);
  ops_add ("/device/first-failure", test_first_failure);
  ops_add ("/device/other-device", test_other_device);
  ops_add ("/device/memory", test_memory_info);
  ops_add ("/device/stop-inside", stop_inside);
  g_test_add_func ("/device/memory/limits", memory_info);
  g_test_add_func ("/device/views-outside", outside_views);
  g_test_add_func ("/device/settings", settings);
  g_test_add_func ("/device/pool", pool);
  g_test_add_func ("/device/pool/no-space", pool_no_space);
  g_test_add_func ("/device/functions", functions);
  return g_test_run ();
}
