/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loader with files large enough for its reading threads, and the
 * conversions on the way. */
#include "test-checkpoint.h"
#include "test-device.h"

#include <math.h>

#include "model/checkpoint/loader.h"
#include "model/checkpoint/stored-values.h"

#define HEADS 4
#define HEAD_DIM 64
#define ROWS (3 * HEADS * HEAD_DIM)
#define COLS 22528
#define N_W ((gsize) ROWS * COLS)
#define F_ROWS 128
#define F_COLS 16896
#define N_F ((gsize) F_ROWS * F_COLS)
#define N_V 4099
/* of the payload */
#define F_AT (2 * N_W)
#define V_AT (F_AT + 4 * N_F)
#define FILE_BYTES (V_AT + 2 * N_V)

typedef struct {
  gchar *dir, *path;
  guint8 *payload;
  H3TensorSet *set;
  H3Loader *loader;
  TestDevice *device;
  H3RowOrder order;
  H3DType round_to; /* of "f" */
  H3Weight *w, *f;
  H3Tensor *v;
  guint64 done, total; /* of progress */
  guint64 stop_at;     /* bytes; 0: never */
  gint64 stopped;      /* when */
} Fixture;

static guint
count_threads (void)
{
  g_autoptr (GDir) dir = g_dir_open ("/proc/self/task", 0, NULL);
  guint n = 0;

  while (dir && g_dir_read_name (dir))
    n++;
  return n;
}

/* Finite bfloat16s, and small floats, that differ. */
static guint8 *
make_payload (void)
{
  guint8 *payload = g_malloc (FILE_BYTES);
  guint16 *w = (guint16 *) payload, *v = (guint16 *) (payload + V_AT);
  gfloat *f = (gfloat *) (payload + F_AT);

  for (gsize i = 0; i < N_W; i++)
    w[i] = ((guint32) i * 2654435761u >> 11) & 0xbfff;
  for (gsize i = 0; i < N_F; i++)
    f[i] = ((gint32) ((guint32) i * 2654435761u)) * 0x1p-20f;
  for (gsize i = 0; i < N_V; i++)
    v[i] = i & 0xbfff;
  return payload;
}

/* @payload: taken; NULL for a file of zeros, which is quickly made. */
static void
setup (Fixture *f, gboolean host_memory, guint8 *payload)
{
  g_autofree gchar *header = g_strdup_printf (
      "{\"w\":{\"dtype\":\"BF16\",\"shape\":[%d,%d],\"data_offsets\":[0,%zu]},"
      "\"f\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]},"
      "\"v\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}}",
      ROWS, COLS, F_AT, F_ROWS, F_COLS, F_AT, V_AT, N_V, V_AT, FILE_BYTES);
  g_autoptr (GError) error = NULL;

  memset (f, 0, sizeof *f);
  f->payload = payload;
  f->dir = h3_test_temp_dir ();
  f->path = g_build_filename (f->dir, "f.safetensors", NULL);
  write_safetensors (f->path, header, payload, payload ? FILE_BYTES : 0);
  if (!payload)
    h3_test_truncate_file (f->path, h3_test_file_size (f->path) + FILE_BYTES);
  f->set = h3_tensor_set_open (f->path, &error);
  g_assert_no_error (error);
  f->loader = h3_loader_new (f->set, "test component");
  f->device = test_device_new (host_memory);
  f->device->unhashed = TRUE;
}

static void
teardown (Fixture *f)
{
  g_clear_pointer (&f->w, h3_weight_unref);
  g_clear_pointer (&f->f, h3_weight_unref);
  g_clear_pointer (&f->v, h3_tensor_unref);
  h3_loader_free (f->loader);
  h3_tensor_set_free (f->set);
  test_device_free (f->device);
  h3_test_remove_tree (f->dir);
  g_free (f->path);
  g_free (f->dir);
  g_free (f->payload);
}

static void
ask_for_all (Fixture *f)
{
  const gchar *name = "w";

  f->w = h3_loader_weight (f->loader, &name, 1, ROWS, COLS, f->order, HEADS,
      HEAD_DIM);
  h3_loader_round_matrices (f->loader, f->round_to);
  f->f = h3_loader_matrix (f->loader, "f", F_ROWS, F_COLS);
  h3_loader_round_matrices (f->loader, H3_DTYPE_F32);
  f->v = h3_loader_vector1 (f->loader, "v", N_V);
}

static void
on_progress (guint64 done, guint64 total, gpointer user_data)
{
  Fixture *f = user_data;

  g_assert_cmpuint (done, >, f->done);
  g_assert_cmpuint (done, <=, total);
  f->done = done;
  f->total = total;
}

static gboolean
on_stop (gpointer user_data)
{
  Fixture *f = user_data;

  if (f->stop_at == 0 || f->done < f->stop_at)
    return FALSE;
  if (!f->stopped)
    f->stopped = g_get_monotonic_time ();
  return TRUE;
}

/* Up to the real run. */
static void
begin (Fixture *f, const H3Stop *stop)
{
  g_autoptr (GError) error = NULL;

  ask_for_all (f);
  g_assert_true (h3_loader_finish (f->loader, &error));
  g_assert_no_error (error);
  g_assert_true (h3_loader_begin (f->loader, &f->device->device, stop,
      on_progress, f, &error));
}

/* All of the real run, which is to fail: its error. */
static GError *
load_and_fail (Fixture *f)
{
  const H3Stop stop = { on_stop, f };
  guint n_threads = count_threads ();
  GError *error = NULL;

  begin (f, &stop);
  ask_for_all (f);
  g_assert_false (h3_loader_finish (f->loader, &error));
  g_assert_cmpuint (count_threads (), ==, n_threads);
  g_assert_cmpint (f->device->n_host, ==, 0);
  return error;
}

/* Which stored row is row @i in memory. */
static gint
stored_row (H3RowOrder order, gint i)
{
  gint part = i / (HEADS * HEAD_DIM), head = i / HEAD_DIM % HEADS;

  if (order == H3_ROWS_GROUPED_QKV)
    return (head * 3 + part) * HEAD_DIM + i % HEAD_DIM;
  return order == H3_ROWS_SWAP_HALVES ? (i + ROWS / 2) % ROWS : i;
}

static void
check_values (const Fixture *f)
{
  const guint16 *w = f->w->tensor->data;
  const gfloat *floats = (const gfloat *) (f->payload + F_AT);
  const gfloat *v = f->v->data;

  for (gint i = 0; i < ROWS; i++)
    g_assert_cmpmem (w + (gsize) i * COLS, 2 * COLS,
        f->payload + 2 * (gsize) stored_row (f->order, i) * COLS, 2 * COLS);
  if (f->round_to == H3_DTYPE_F32) {
    g_assert_cmpmem (f->f->tensor->data, 4 * N_F, floats, 4 * N_F);
  } else {
    g_autofree gfloat *got = g_new (gfloat, N_F);

    g_assert_cmpint (f->f->tensor->dtype, ==, H3_DTYPE_F16);
    h3_stored_values_widen (H3_STORED_F16, f->f->tensor->data, N_F, got);
    for (gsize i = 0; i < N_F; i++)
      g_assert_cmpfloat (fabsf (got[i] - floats[i]), <=,
          MAX (fabsf (floats[i]) * 0x1p-11f, 0x1p-25f));
  }
  for (guint i = 0; i < N_V; i++) {
    guint32 bits = (guint32) (i & 0xbfff) << 16;
    g_assert_cmpmem (&v[i], 4, &bits, 4);
  }
}

static void
test_load (gconstpointer data)
{
  gboolean host = GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;

  for (gint order = H3_ROWS_AS_STORED; order <= H3_ROWS_SWAP_HALVES; order++) {
    guint n_threads = count_threads ();
    Fixture f;

    setup (&f, host, make_payload ());
    f.order = order;
    f.round_to = order == H3_ROWS_AS_STORED ? H3_DTYPE_F32 : H3_DTYPE_F16;
    begin (&f, NULL);
    ask_for_all (&f);
    g_assert_true (h3_loader_finish (f.loader, &error));
    g_assert_no_error (error);
    g_assert_cmpuint (f.done, ==, h3_loader_bytes (f.loader));
    g_assert_cmpuint (f.total, ==, f.done);
    g_assert_cmpuint (count_threads (), ==, n_threads);
    check_values (&f);
    teardown (&f);
  }
}

/* The last number of the last matrix; and of two bad ones always the first,
 * whichever thread is faster. */
static void
test_not_finite (gconstpointer data)
{
  const guint16 nan = 0x7fc0;
  const gfloat inf = INFINITY;
  Fixture f;

  setup (&f, GPOINTER_TO_INT (data), NULL);
  h3_test_patch_file (f.path, -2 * N_V - 4, &inf, 4);
  {
    g_autoptr (GError) error = load_and_fail (&f);
    g_autofree gchar *text =
        g_strdup_printf ("tensor f: element %zu is Inf", N_F - 1);
    h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, f.path, text);
  }
  teardown (&f);

  for (gint i = 0; i < 3; i++) {
    g_autoptr (GError) error = NULL;
    gint64 begin_w = -(gint64) FILE_BYTES;

    setup (&f, GPOINTER_TO_INT (data), NULL);
    /* the end of one piece, and the beginning of the next */
    h3_test_patch_file (f.path, begin_w + (12 << 20) - 2, &nan, 2);
    h3_test_patch_file (f.path, begin_w + (12 << 20), &nan, 2);
    error = load_and_fail (&f);
    h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, f.path,
        "tensor w: element 6291455 is NaN");
    teardown (&f);
  }
}

/* Cut between the dry run and the real one. */
static void
test_cut (gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Fixture f;

  setup (&f, GPOINTER_TO_INT (data), NULL);
  h3_test_truncate_file (f.path, h3_test_file_size (f.path) - 2 * N_V - 100);
  error = load_and_fail (&f);
  h3_test_assert_h3_error (error, H3_ERROR_READ, f.path, "tensor f", "shorter");
  teardown (&f);
}

static void
test_stop (gconstpointer data)
{
  for (guint64 at = 1; at < 30000000; at += 9000000) {
    g_autoptr (GError) error = NULL;
    Fixture f;

    setup (&f, GPOINTER_TO_INT (data), NULL);
    f.stop_at = at;
    error = load_and_fail (&f);
    h3_test_assert_h3_error (error, H3_ERROR_CANCELLED, "");
    g_test_message ("stopped within %.1f ms",
        (g_get_monotonic_time () - f.stopped) / 1e3);
    g_assert_cmpuint (f.done, <, FILE_BYTES);
    teardown (&f);
  }
}

static void
test_no_host_memory (void)
{
  g_autoptr (GError) error = NULL;
  Fixture f;

  setup (&f, FALSE, NULL);
  f.device->no_host_memory = TRUE;
  error = load_and_fail (&f);
  h3_test_assert_h3_error (error, H3_ERROR_NO_SPACE,
      "bytes of host memory wanted");
  teardown (&f);
}

static void
test_no_upload (void)
{
  g_autoptr (GError) error = NULL;
  Fixture f;

  setup (&f, FALSE, NULL);
  f.device->fail_uploads = TRUE;
  error = load_and_fail (&f);
  h3_test_assert_h3_error (error, H3_ERROR_DEVICE, f.path, "tensor w",
      "no upload in this test");
  teardown (&f);
}

static void
test_no_space (gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Fixture f;

  setup (&f, GPOINTER_TO_INT (data), NULL);
  f.device->capacity = 2 * N_W + 4 * N_F;
  error = load_and_fail (&f);
  h3_test_assert_h3_error (error, H3_ERROR_NO_SPACE, "test component",
      "bytes wanted");
  teardown (&f);
}

/* Given up in the middle, and what was loaded before the loader. */
static void
test_abandoned (gconstpointer data)
{
  guint n_threads = count_threads ();
  Fixture f;

  setup (&f, GPOINTER_TO_INT (data), NULL);
  begin (&f, NULL);
  ask_for_all (&f);
  g_clear_pointer (&f.w, h3_weight_unref);
  g_clear_pointer (&f.loader, h3_loader_free);
  g_assert_cmpuint (count_threads (), ==, n_threads);
  teardown (&f);
}

/* The nearest number of @bits bits of mantissa and at least the exponent
 * @least, ties to even. */
static gdouble
nearest (gfloat x, gint bits, gint least)
{
  gint exponent;

  frexp (x, &exponent);
  exponent = MAX (exponent - 1, least) - bits;
  return ldexp (nearbyint (ldexp (x, -exponent)), exponent);
}

static void
test_convert (void)
{
  const gsize n = 3000;
  g_autofree gfloat *values = g_new (gfloat, n), *back = g_new (gfloat, n);
  g_autofree guint16 *narrow = g_new (guint16, n);
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  static const gfloat edges[] = { 0, -0.0f, 65504, 65519.99f, 65520, -65536,
    0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1.ffcp-15f, 0x1.ffep-15f, 0x1p-14f, 2049,
    2050, 2051, 1e-40f, 3.4e38f, 0x1.ffp127f };

  for (gint round = 0; round < 20; round++) {
    for (gsize i = 0; i < n; i++) {
      guint32 bits = g_rand_int (rand);
      gfloat value;

      memcpy (&value, &bits, 4);
      values[i] = i < G_N_ELEMENTS (edges) ? edges[i]
                  : !isfinite (value)      ? 1
                  : i % 2 ? ldexpf (frexpf (value, &(gint){ 0 }),
                                (gint) (bits % 45) - 27)
                          : value;
    }
    for (gint type = H3_STORED_F16; type <= H3_STORED_BF16; type++) {
      gdouble beyond = type == H3_STORED_F16 ? 65520 : 0x1.ffp127;
      g_autofree gfloat *place = g_memdup2 (values, n * 4);
      gsize index, unused;

      h3_stored_values_convert (H3_STORED_F32, values, n, type, narrow);
      h3_stored_values_widen (type, narrow, n, back);
      for (index = 0; index < n; index++) {
        gfloat want = type == H3_STORED_F16 ? nearest (values[index], 10, -14)
                                            : nearest (values[index], 7, -126);
        if (fabs (values[index]) >= beyond)
          want = copysignf (INFINITY, values[index]);
        g_assert_cmpfloat (back[index], ==, want);
        g_assert_cmpint (!signbit (back[index]), ==, !signbit (values[index]));
      }
      g_assert_false (h3_stored_values_finite (type, narrow, n, &unused));

      /* in place, either way */
      h3_stored_values_convert (H3_STORED_F32, place, n, type, place);
      g_assert_cmpmem (place, 2 * n, narrow, 2 * n);
      memmove ((guint16 *) place + n, place, 2 * n);
      h3_stored_values_convert (type, (guint16 *) place + n, n, H3_STORED_F32,
          place);
      g_assert_cmpmem (place, 4 * n, back, 4 * n);
    }
  }
}

void
add_reader_tests (void)
{
  static const struct {
    const gchar *name;
    GTestDataFunc func;
  } both[] = {
    { "load", test_load },
    { "not-finite", test_not_finite },
    { "cut", test_cut },
    { "stop", test_stop },
    { "no-space", test_no_space },
    { "abandoned", test_abandoned },
  };

  for (guint i = 0; i < G_N_ELEMENTS (both); i++) {
    for (gint host = 0; host < 2; host++) {
      g_autofree gchar *name = g_strdup_printf ("/reader/%s/%s", both[i].name,
          host ? "host-memory" : "staged");
      g_test_add_data_func (name, GINT_TO_POINTER (host), both[i].func);
    }
  }
  g_test_add_func ("/reader/no-host-memory", test_no_host_memory);
  g_test_add_func ("/reader/no-upload", test_no_upload);
  g_test_add_func ("/reader/convert", test_convert);
}
