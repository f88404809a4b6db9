/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How fast a checkpoint gets from a file to a device.
 *   bench-load [--file PATH] [--gib N] [--reps N] [--cpu] [--check]
 *     [--allocate-first] [--only-cached]
 * Takes a safetensors file, or makes one where there is none, of matrices of the
 * transformer's size and small vectors between them. Prints GB/s when the file is in the page cache
 * and when it is not, and what bounds it: a copy from page-locked memory, and
 * one thread that reads a tensor and then copies it from memory that is not. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu/h3-cpu.h"
#include "cuda/h3-cuda.h"
#include "model/checkpoint/loader.h"
#include "model/checkpoint/stored-values.h"

#define MATRIX_ROWS 21504
#define MATRIX_COLS 5376
#define VECTOR 5376

static gchar *file_name;
static gdouble gib = 10;
static gint reps = 3;
static gboolean on_cpu, check, allocate_first, only_cached;

static const GOptionEntry options[] = {
  { "file", 'f', 0, G_OPTION_ARG_FILENAME, &file_name,
      "to load; is made, and kept, where it is not", "PATH" },
  { "gib", 'g', 0, G_OPTION_ARG_DOUBLE, &gib, "size of the file to make", "N" },
  { "reps", 'r', 0, G_OPTION_ARG_INT, &reps, "timed runs", "N" },
  { "cpu", 'c', 0, G_OPTION_ARG_NONE, &on_cpu, "load to the CPU", NULL },
  { "check", 'k', 0, G_OPTION_ARG_NONE, &check,
      "that the device gets the file's bytes", NULL },
  { "allocate-first", 'a', 0, G_OPTION_ARG_NONE, &allocate_first,
      "take the memory before, and say how long that takes", NULL },
  { "only-cached", 'o', 0, G_OPTION_ARG_NONE, &only_cached,
      "leave the file in the page cache", NULL },
  { NULL }
};

/* TRUE, or ends the program. */
static void
must (gboolean ok, const GError *error, const gchar *what)
{
  if (ok)
    return;
  fprintf (stderr, "bench-load: %s\n", error ? error->message : what);
  exit (1);
}

static void
write_all (gint fd, gconstpointer bytes, gsize n)
{
  const guint8 *from = bytes;

  while (n > 0) {
    gssize wrote = write (fd, from, n);

    must (wrote > 0, NULL, "cannot write the file");
    from += wrote;
    n -= wrote;
  }
}

/* Pairs of a matrix and a vector, bfloat16, random and finite. */
static void
make_file (const gchar *path)
{
  const gsize matrix = 2 * (gsize) MATRIX_ROWS * MATRIX_COLS;
  const gsize pair = matrix + 2 * VECTOR, block = (gsize) 64 << 20;
  guint n = MAX (1, gib * (1 << 30) / pair);
  g_autoptr (GString) header = g_string_new ("{");
  g_autofree guint16 *values = g_malloc (block);
  gint fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  guint64 length;

  must (fd >= 0, NULL, "cannot make the file");
  for (guint i = 0; i < n; i++)
    g_string_append_printf (header,
        "%s\"w.%u\":{\"dtype\":\"BF16\",\"shape\":[%d,%d],"
        "\"data_offsets\":[%zu,%zu]},\"v.%u\":{\"dtype\":\"BF16\","
        "\"shape\":[%d],\"data_offsets\":[%zu,%zu]}",
        i ? "," : "", i, MATRIX_ROWS, MATRIX_COLS, i * pair, i * pair + matrix,
        i, VECTOR, i * pair + matrix, (i + 1) * pair);
  g_string_append_c (header, '}');
  for (gsize i = 0; i < block / 2; i++)
    values[i] = ((guint32) i * 2654435761u >> 11) & 0xbfff;

  length = GUINT64_TO_LE (header->len);
  write_all (fd, &length, sizeof length);
  write_all (fd, header->str, header->len);
  for (gsize left = n * pair; left > 0; left -= MIN (left, block))
    write_all (fd, values, MIN (left, block));
  must (fsync (fd) == 0, NULL, "cannot write the file");
  close (fd);
}

static void
drop_from_cache (const gchar *path)
{
  gint fd = open (path, O_RDONLY);

  if (fd >= 0) {
    fdatasync (fd);
    posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
    close (fd);
  }
}

static void
ask_for_all (H3Loader *loader, H3TensorSet *set, GPtrArray *weights)
{
  const GPtrArray *names = h3_tensor_set_names (set);

  for (guint i = 0; i < names->len; i++) {
    const H3StoredTensor *tensor =
        h3_tensor_set_get (set, names->pdata[i], NULL);
    gint64 cols = tensor ? tensor->shape[tensor->rank - 1] : 1;
    gint64 n = tensor->bytes / h3_stored_type_size (tensor->type);
    H3Weight *weight = NULL;
    H3Tensor *vector = NULL;

    if (tensor->rank > 1)
      weight = h3_loader_matrix (loader, tensor->name, n / cols, cols);
    else
      vector = h3_loader_vector1 (loader, tensor->name, n);
    if (vector)
      weight = h3_weight_new_plain (vector);
    if (weight)
      g_ptr_array_add (weights, weight);
  }
}

/* That the device has the file's bytes. Of matrices: vectors are widened. */
static void
compare_all (H3TensorSet *set, H3Device *device, const GPtrArray *weights)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  g_autoptr (H3Stream) stream = NULL;
  GError *error = NULL;

  stream = h3_stream_new (device, &error);
  must (stream != NULL, error, NULL);
  must (weights->len == names->len, NULL, "a tensor is missing");
  for (guint i = 0; i < names->len; i++) {
    const H3StoredTensor *stored =
        h3_tensor_set_get (set, names->pdata[i], NULL);
    const H3Weight *weight = weights->pdata[i];
    g_autofree gpointer want = NULL, got = NULL;

    if (stored->rank < 2)
      continue;
    want = g_malloc (stored->bytes);
    got = g_malloc (stored->bytes);
    must (h3_stored_tensor_read (stored, 0, stored->bytes, want, &error), error,
        NULL);
    h3_download (stream, got, weight->tensor);
    must (h3_stream_synchronize (stream, &error), error, NULL);
    must (memcmp (want, got, stored->bytes) == 0, NULL, stored->name);
  }
}

/* Seconds from the first request to the last byte. */
static gdouble
load (H3TensorSet *set, H3Device *device, gboolean compare)
{
  g_autoptr (H3Loader) loader = h3_loader_new (set, "benchmark");
  g_autoptr (GPtrArray) weights =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_weight_unref);
  GError *error = NULL;
  gdouble seconds;
  gint64 start;

  ask_for_all (loader, set, weights);
  must (h3_loader_finish (loader, &error), error, NULL);
  start = g_get_monotonic_time ();
  must (h3_loader_begin (loader, device, NULL, NULL, NULL, &error), error,
      NULL);
  ask_for_all (loader, set, weights);
  must (h3_loader_finish (loader, &error), error, NULL);
  seconds = (g_get_monotonic_time () - start) / 1e6;
  if (compare)
    compare_all (set, device, weights);
  return seconds;
}

static gdouble
load_by_one_thread (H3TensorSet *set, H3Device *device)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  g_autoptr (GPtrArray) tensors =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_unref);
  g_autoptr (H3Stream) stream = NULL;
  g_autofree gpointer staging = NULL;
  gsize size = 0;
  GError *error = NULL;
  gint64 start = g_get_monotonic_time ();

  stream = h3_stream_new (device, &error);
  must (stream != NULL, error, NULL);
  for (guint i = 0; i < names->len; i++) {
    const H3StoredTensor *stored =
        h3_tensor_set_get (set, names->pdata[i], NULL);
    H3Tensor *tensor =
        h3_tensor_new_1d (device, H3_DTYPE_U8, stored->bytes, &error);

    must (tensor != NULL, error, NULL);
    g_ptr_array_add (tensors, tensor);
    if (stored->bytes > size) {
      g_free (staging);
      staging = g_malloc (size = stored->bytes);
    }
    must (h3_stored_tensor_read (stored, 0, stored->bytes, staging, &error),
        error, NULL);
    h3_upload (stream, tensor, staging);
    must (h3_stream_synchronize (stream, &error), error, NULL);
  }
  return (g_get_monotonic_time () - start) / 1e6;
}

static guint64
payload_of (H3TensorSet *set)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  guint64 bytes = 0;

  for (guint i = 0; i < names->len; i++)
    bytes += h3_tensor_set_get (set, names->pdata[i], NULL)->bytes;
  return bytes;
}

static void
print_rate (const gchar *what, guint64 bytes, const gdouble *seconds, gint n)
{
  printf ("%-44s", what);
  for (gint i = 0; i < n; i++)
    printf (" %7.2f", bytes / seconds[i] / 1e9);
  printf (" GB/s\n");
  fflush (stdout);
}

/* Taking the device's memory, which loading does meanwhile. Only the first time
 * in a process: the pool keeps it. */
static void
measure_allocation (H3TensorSet *set, H3Device *device)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  g_autoptr (GPtrArray) tensors =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_unref);
  gint64 start = g_get_monotonic_time ();
  gdouble seconds;
  GError *error = NULL;

  for (guint i = 0; i < names->len; i++) {
    const H3StoredTensor *stored =
        h3_tensor_set_get (set, names->pdata[i], NULL);
    H3Tensor *tensor =
        h3_tensor_new_1d (device, H3_DTYPE_U8, stored->bytes, &error);

    must (tensor != NULL, error, NULL);
    g_ptr_array_add (tensors, tensor);
  }
  seconds = (g_get_monotonic_time () - start) / 1e6;
  print_rate ("allocating alone, the first time", payload_of (set), &seconds,
      1);
}

/* Copies of page-locked memory, one after the other. */
static void
measure_copies (H3Device *device)
{
  const gsize bytes = (gsize) 256 << 20;
  g_autoptr (H3Tensor) tensor = NULL;
  g_autoptr (H3Stream) stream = NULL;
  g_autofree gdouble *seconds = g_new (gdouble, reps);
  GError *error = NULL;
  gpointer host;

  tensor = h3_tensor_new_1d (device, H3_DTYPE_U8, bytes, &error);
  must (tensor != NULL, error, NULL);
  stream = h3_stream_new (device, &error);
  must (stream != NULL, error, NULL);
  host = device->ops->alloc_host (device, bytes, &error);
  must (host != NULL, error, NULL);
  memset (host, 1, bytes);
  for (gint i = 0; i < reps; i++) {
    gint64 start = g_get_monotonic_time ();

    for (gint k = 0; k < 8; k++)
      h3_upload (stream, tensor, host);
    must (h3_stream_synchronize (stream, &error), error, NULL);
    seconds[i] = (g_get_monotonic_time () - start) / 1e6;
  }
  print_rate ("copies of page-locked memory", 8 * bytes, seconds, reps);
  device->ops->free_host (device, host, bytes);
}

static gdouble
thread_seconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

/* What one thread does to the numbers, in its cache; of stored bytes. */
static void
measure_checks (void)
{
  const gsize n = 128 << 10;
  const gint times = 2000;
  g_autofree gfloat *values = g_new (gfloat, n);
  g_autofree guint16 *narrow = g_new (guint16, n);
  gdouble seconds[3], start;
  gsize index;

  for (gsize i = 0; i < n; i++)
    values[i] = 1.0f / (i + 1);
  h3_stored_values_convert (H3_STORED_F32, values, n, H3_STORED_BF16, narrow);
  start = thread_seconds ();
  for (gint i = 0; i < times; i++)
    must (h3_stored_values_finite (H3_STORED_BF16, narrow, n, &index), NULL,
        "not finite");
  seconds[0] = thread_seconds () - start;
  start = thread_seconds ();
  for (gint i = 0; i < times; i++)
    h3_stored_values_convert (H3_STORED_F32, values, n, H3_STORED_BF16, narrow);
  seconds[1] = thread_seconds () - start;
  start = thread_seconds ();
  for (gint i = 0; i < times; i++)
    h3_stored_values_convert (H3_STORED_F32, values, n, H3_STORED_F16, narrow);
  seconds[2] = thread_seconds () - start;
  print_rate ("one thread checks bfloat16", times * 2 * n, &seconds[0], 1);
  print_rate ("one thread rounds float32 to bfloat16", times * 4 * n,
      &seconds[1], 1);
  print_rate ("one thread rounds float32 to float16", times * 4 * n,
      &seconds[2], 1);
}

static void
measure (const gchar *path, H3Device *device)
{
  g_autofree gdouble *seconds = g_new (gdouble, reps);
  g_autoptr (H3TensorSet) set = NULL;
  GError *error = NULL;
  guint64 bytes;

  set = h3_tensor_set_open (path, &error);
  must (set != NULL, error, NULL);
  bytes = payload_of (set);
  printf ("%s, %.2f GB, to %s, %u processors\n", path, bytes / 1e9,
      device->name, g_get_num_processors ());
  if (allocate_first)
    measure_allocation (set, device);
  for (gint i = 0; i < reps && !only_cached; i++) {
    drop_from_cache (path);
    seconds[i] = load (set, device, FALSE);
  }
  if (!only_cached)
    print_rate ("from disk", bytes, seconds, reps);
  for (gint i = 0; i < reps; i++)
    seconds[i] = load (set, device, check && i == 0);
  print_rate ("from the page cache", bytes, seconds, reps);
  seconds[0] = load_by_one_thread (set, device);
  print_rate ("from the page cache, one thread, unchecked", bytes, seconds, 1);
  measure_copies (device);
  measure_checks ();
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (H3Device) device = NULL;
  g_autofree gchar *made = NULL;
  GError *error = NULL;

  g_option_context_add_main_entries (context, options, NULL);
  must (g_option_context_parse (context, &argc, &argv, &error), error, NULL);
  must (reps > 0, NULL, "--reps needs to be 1 or more");
  device =
      on_cpu ? h3_cpu_device_new (0, &error) : h3_cuda_open_device (-1, &error);
  must (device != NULL, error, NULL);
  if (!file_name)
    file_name = made =
        g_strdup_printf ("/tmp/bench-load-%d.safetensors", (gint) getpid ());
  if (!g_file_test (file_name, G_FILE_TEST_EXISTS))
    make_file (file_name);
  measure (file_name, device);
  if (made)
    unlink (made);
  return 0;
}
