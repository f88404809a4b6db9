/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loader against files made by hand: row orders, types, and what it says
 * about files that do not fit. */
#include "test-checkpoint.h"
#include "test-device.h"

#include "model/checkpoint/loader.h"

#include <math.h>

#define WHAT "test component"

typedef struct {
  gchar *dir, *path;
  H3TensorSet *set;
  H3Loader *loader;
  TestDevice *device;
} Fixture;

/* The file's tensors; *@data: whether the device's memory is the host's. */
static void
open_file (Fixture *f, const gchar *header, gconstpointer payload, gsize n,
    gboolean host_memory)
{
  g_autoptr (GError) error = NULL;

  f->dir = h3_test_temp_dir ();
  f->path = g_build_filename (f->dir, "f.safetensors", NULL);
  write_safetensors (f->path, header, payload, n);
  f->set = h3_tensor_set_open (f->path, &error);
  g_assert_no_error (error);
  f->loader = h3_loader_new (f->set, WHAT);
  f->device = test_device_new (host_memory);
}

static void
close_file (Fixture *f)
{
  h3_loader_free (f->loader);
  h3_tensor_set_free (f->set);
  test_device_free (f->device);
  h3_test_remove_tree (f->dir);
  g_free (f->path);
  g_free (f->dir);
}

#define assert_finish_fails(f, code, ...)                                      \
  G_STMT_START                                                                 \
  {                                                                            \
    g_autoptr (GError) problem = NULL;                                         \
    g_assert_false (h3_loader_finish ((f)->loader, &problem));                 \
    h3_test_assert_h3_error (problem, code, __VA_ARGS__);                      \
  }                                                                            \
  G_STMT_END

/* A matrix of 12 rows of 2 whose elements are 0, 1, 2, ... */
#define MATRIX_HEADER                                                          \
  "{\"w\":{\"dtype\":\"F32\",\"shape\":[12,2],\"data_offsets\":[0,96]}}"

static void
iota (gfloat *values, gsize n)
{
  for (gsize i = 0; i < n; i++)
    values[i] = i;
}

/* Loads "w" in @order and checks that its rows are @rows of the stored ones. */
static void
check_order (H3RowOrder order, guint heads, guint head_dim, const gint *rows,
    gboolean host_memory, gboolean vector)
{
  const gchar *name = "w";
  gint64 n = vector ? 24 : 12;
  gfloat payload[24];
  g_autoptr (H3Weight) weight = NULL;
  g_autoptr (H3Tensor) tensor = NULL;
  const gfloat *got;
  Fixture f;

  iota (payload, 24);
  open_file (&f, MATRIX_HEADER, payload, sizeof payload, host_memory);
  for (guint run = 0; run < 2; run++) {
    if (vector)
      tensor = h3_loader_vector (f.loader, &name, 1, n, order, heads, head_dim);
    else
      weight =
          h3_loader_weight (f.loader, &name, 1, n, 2, order, heads, head_dim);
    g_assert_cmpuint (h3_loader_bytes (f.loader), ==, 96);
    if (run == 0) {
      g_assert_true (h3_loader_is_dry_run (f.loader));
      g_assert_true (!weight && !tensor);
      test_loader_begin (f.loader, f.device);
    }
  }
  test_loader_finish (f.loader);
  got = vector ? tensor->data : weight->tensor->data;
  if (!vector)
    g_assert_cmpint (weight->tensor->shape[1], ==, 2);
  for (gint i = 0; i < n; i++)
    g_assert_cmpfloat (got[i], ==, vector ? rows[i] : 2 * rows[i / 2] + i % 2);
  g_clear_pointer (&weight, h3_weight_unref);
  g_clear_pointer (&tensor, h3_tensor_unref);
  close_file (&f);
}

static void
test_row_orders (gconstpointer data)
{
  gboolean host = GPOINTER_TO_INT (data);
  /* 2 heads of 2: stored q0 q0 k0 k0 v0 v0 q1 q1 k1 k1 v1 v1 */
  static const gint grouped[] = { 0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11 };
  static const gint swapped[] = { 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5 };
  static const gint stored[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
  /* a vector of 24 with 2 heads of 4 */
  static const gint grouped24[] = { 0, 1, 2, 3, 12, 13, 14, 15, 4, 5, 6, 7, 16,
    17, 18, 19, 8, 9, 10, 11, 20, 21, 22, 23 };
  static const gint swapped24[] = { 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
    23, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };

  check_order (H3_ROWS_AS_STORED, 0, 0, stored, host, FALSE);
  check_order (H3_ROWS_GROUPED_QKV, 2, 2, grouped, host, FALSE);
  check_order (H3_ROWS_SWAP_HALVES, 0, 0, swapped, host, FALSE);
  check_order (H3_ROWS_GROUPED_QKV, 2, 4, grouped24, host, TRUE);
  check_order (H3_ROWS_SWAP_HALVES, 0, 0, swapped24, host, TRUE);
}

#define QKV_HEADER                                                             \
  "{\"q\":{\"dtype\":\"F32\",\"shape\":[4,2],\"data_offsets\":[0,32]},"        \
  "\"v\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[32,48]},"        \
  "\"k\":{\"dtype\":\"F32\",\"shape\":[2,1,2],\"data_offsets\":[48,64]}}"

static void
test_concatenation (gconstpointer data)
{
  static const gchar *const names[] = { "q", "k", "v" };
  static const gfloat want[] = { 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 8, 9,
    10, 11 };
  gfloat payload[16];
  g_autoptr (H3Weight) weight = NULL;
  Fixture f;

  iota (payload, 16);
  open_file (&f, QKV_HEADER, payload, sizeof payload, GPOINTER_TO_INT (data));
  h3_loader_weight (f.loader, names, 3, 8, 2, H3_ROWS_AS_STORED, 2, 2);
  test_loader_begin (f.loader, f.device);
  weight = h3_loader_weight (f.loader, names, 3, 8, 2, H3_ROWS_AS_STORED, 2, 2);
  test_loader_finish (f.loader);
  g_assert_cmpmem (weight->tensor->data, sizeof want, want, sizeof want);
  g_clear_pointer (&weight, h3_weight_unref);
  close_file (&f);
}

/* The sum is right and the parts are not. */
static void
test_concatenation_misfit (void)
{
  static const gchar *const names[] = { "k", "q" };
  static const gchar *const wrong_q[] = { "q", "k", "v" };
  gfloat payload[16] = { 0 };
  Fixture f;

  open_file (&f, QKV_HEADER, payload, sizeof payload, TRUE);
  h3_loader_ignore (f.loader, "*");
  h3_loader_weight (f.loader, names, 2, 6, 2, H3_ROWS_AS_STORED, 0, 0);
  assert_finish_fails (&f, H3_ERROR_WRONG_TYPE, f.path, WHAT, "tensor k",
      "[2, 1, 2]", "[6, 2] together with q");
  close_file (&f);

  open_file (&f, QKV_HEADER, payload, sizeof payload, TRUE);
  h3_loader_ignore (f.loader, "*");
  h3_loader_weight (f.loader, wrong_q, 3, 8, 2, H3_ROWS_AS_STORED, 3, 2);
  assert_finish_fails (&f, H3_ERROR_WRONG_TYPE, "tensor q", "[4, 2]");
  close_file (&f);
}

/* F16 and BF16: kept as they are in a matrix, widened in a vector. */
static void
test_types (gconstpointer data)
{
  /* 1, -2, 65504, 2^-24, -0, 2^-14 */
  static const guint16 half[] = { 0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000,
    0x0400 };
  static const guint16 brain[] = { 0x3f80, 0xc000, 0x7f7f, 0x0001, 0x8000,
    0x0080 };
  static const gfloat half_floats[] = { 1, -2, 65504, 0x1p-24f, -0.0f,
    0x1p-14f };
  guint16 payload[12];
  g_autoptr (H3Weight) matrix = NULL;
  g_autoptr (H3Tensor) h = NULL, b = NULL;
  g_autofree gfloat *floats = NULL;
  const gint64 shape[] = { 6 };
  guint32 bits[6];
  Fixture f;

  memcpy (payload, half, sizeof half);
  memcpy (payload + 6, brain, sizeof brain);
  open_file (&f,
      "{\"h\":{\"dtype\":\"F16\",\"shape\":[1,6],\"data_offsets\":[0,12]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[6],\"data_offsets\":[12,24]}} ",
      payload, sizeof payload, GPOINTER_TO_INT (data));
  h3_loader_ignore (f.loader, "*"); /* so that the dry run may ask for none */
  test_loader_begin (f.loader, f.device);
  matrix = h3_loader_matrix (f.loader, "h", 1, 6);
  h = h3_loader_vector1 (f.loader, "h", 6);
  b = h3_loader_vector1 (f.loader, "b", 6);
  floats = h3_loader_read (f.loader, "h", 1, shape);
  test_loader_finish (f.loader);

  g_assert_cmpint (matrix->tensor->dtype, ==, H3_DTYPE_F16);
  g_assert_cmpmem (matrix->tensor->data, 12, half, 12);
  g_assert_cmpint (h->dtype, ==, H3_DTYPE_F32);
  g_assert_cmpmem (h->data, 24, half_floats, 24);
  g_assert_cmpmem (floats, 24, half_floats, 24);
  for (guint i = 0; i < 6; i++)
    bits[i] = (guint32) brain[i] << 16;
  g_assert_cmpmem (b->data, 24, bits, 24);

  g_clear_pointer (&matrix, h3_weight_unref);
  g_clear_pointer (&h, h3_tensor_unref);
  g_clear_pointer (&b, h3_tensor_unref);
  close_file (&f);
}

static void
test_computed (gconstpointer data)
{
  static const gfloat host[] = { 1, 2, 3, 4, 5, 6 };
  const gint64 shape[] = { 1, 2, 3 };
  gfloat payload[24] = { 0 };
  g_autoptr (H3Weight) weight = NULL;
  g_autoptr (H3Tensor) vector = NULL;
  Fixture f;

  open_file (&f, MATRIX_HEADER, payload, sizeof payload,
      GPOINTER_TO_INT (data));
  h3_loader_ignore (f.loader, "w");
  g_assert_null (h3_loader_computed (f.loader, NULL, 3, shape));
  g_assert_null (h3_loader_computed_vector (f.loader, NULL, 6));
  g_assert_cmpuint (h3_loader_bytes (f.loader), ==, 48);
  test_loader_begin (f.loader, f.device);
  weight = h3_loader_computed (f.loader, host, 3, shape);
  vector = h3_loader_computed_vector (f.loader, host, 6);
  g_assert_cmpuint (h3_loader_bytes (f.loader), ==, 48);
  test_loader_finish (f.loader);
  g_assert_cmpuint (weight->tensor->rank, ==, 3);
  g_assert_cmpmem (weight->tensor->data, 24, host, 24);
  g_assert_cmpmem (vector->data, 24, host, 24);
  g_clear_pointer (&weight, h3_weight_unref);
  g_clear_pointer (&vector, h3_tensor_unref);
  close_file (&f);
}

/* Everything that is wrong comes in one message. */
static void
test_collected (void)
{
  gfloat payload[6] = { 0 };
  const gint64 shape[] = { 3, 1, 1 };
  guint64 found[H3_STORED_MAX_RANK];
  guint rank;
  Fixture f;

  open_file (&f,
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
      "\"stray\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[16,20]},"
      "\"known\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[20,24]}}",
      payload, sizeof payload, TRUE);
  h3_loader_ignore (f.loader, "know?");
  g_assert_true (h3_loader_has (f.loader, "a"));
  g_assert_false (h3_loader_has (f.loader, "b.0"));
  g_assert_true (h3_loader_shape (f.loader, "a", found, &rank));
  g_assert_cmpuint (rank, ==, 2);
  g_assert_cmpuint (found[1], ==, 2);
  h3_loader_matrix (f.loader, "a", 3, 2);
  h3_loader_matrix (f.loader, "a", 1, 3);
  h3_loader_read (f.loader, "a", 3, shape);
  for (guint i = 0; i < 6; i++) {
    g_autofree gchar *name = g_strdup_printf ("b.%u", i);
    h3_loader_vector1 (f.loader, name, 1);
  }
  h3_loader_problem (f.loader, "heads %d", 7);
  assert_finish_fails (&f, H3_ERROR_WRONG_TYPE, f.path, WHAT,
      "6 tensors missing, first: b.0, b.1, b.2, b.3, ...",
      "1 unexpected, first: stray",
      "4 wrong: ", "tensor a: shape [2, 2], expected [3, 2]",
      "tensor a: shape [2, 2], expected rows of 3",
      "tensor a: shape [2, 2], expected [3, 1, 1]", "heads 7");
  close_file (&f);

  /* a missing shape is remembered too */
  open_file (&f, "{}", NULL, 0, TRUE);
  g_assert_false (h3_loader_shape (f.loader, "b", found, &rank));
  assert_finish_fails (&f, H3_ERROR_WRONG_TYPE, "1 tensors missing, first: b");
  close_file (&f);
}

static void
test_wrong_types (void)
{
  static const gchar *const types[] = { "F64", "F8_E4M3", "F8_E5M2", "F8_E8M0",
    "I8", "U8", "I16", "I32", "I64" };
  static const guint sizes[] = { 8, 1, 1, 1, 1, 1, 2, 4, 8 };
  static const gchar *const both[] = { "h", "b" };
  guint8 payload[12] = { 0 };
  Fixture f;

  for (guint i = 0; i < G_N_ELEMENTS (types); i++) {
    g_autofree gchar *header =
        g_strdup_printf ("{\"w\":{\"dtype\":\"%s\","
                         "\"shape\":[1],\"data_offsets\":[0,%u]}}",
            types[i], sizes[i]);
    g_autofree gchar *text =
        g_strdup_printf ("tensor w: dtype %s is not supported", types[i]);

    open_file (&f, header, payload, sizes[i], TRUE);
    h3_loader_vector1 (f.loader, "w", 1);
    assert_finish_fails (&f, H3_ERROR_WRONG_TYPE, f.path, text,
        "F32, F16, BF16");
    close_file (&f);
  }

  open_file (&f,
      "{\"h\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[0,6]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[6,12]}}",
      payload, 12, TRUE);
  h3_loader_vector (f.loader, both, 2, 6, H3_ROWS_AS_STORED, 0, 0);
  assert_finish_fails (&f, H3_ERROR_WRONG_TYPE, "tensor b is BF16", "h is F16");
  close_file (&f);
}

/* NaN and Inf anywhere, in every type, are named by tensor and element. */
static void
test_not_finite (gconstpointer data)
{
  static const struct {
    const gchar *type;
    guint size;
    guint32 bits;
    const gchar *what;
  } bad[] = {
    { "F32", 4, 0x7fc00000, "NaN" },
    { "F32", 4, 0xff800001, "NaN" },
    { "F32", 4, 0x7f800000, "Inf" },
    { "F16", 2, 0x7e00, "NaN" },
    { "F16", 2, 0xfc00, "Inf" },
    { "BF16", 2, 0x7fc0, "NaN" },
    { "BF16", 2, 0xff80, "Inf" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    for (guint at = 0; at < 100; at += 33) {
      g_autofree gchar *header =
          g_strdup_printf ("{\"w\":{\"dtype\":\"%s\","
                           "\"shape\":[50,2],\"data_offsets\":[0,%u]}}",
              bad[i].type, bad[i].size * 100);
      g_autofree gchar *text =
          g_strdup_printf ("tensor w: element %u is %s", at, bad[i].what);
      guint8 payload[400] = { 0 };
      guint32 bits = GUINT32_TO_LE (bad[i].bits);
      Fixture f;

      memcpy (payload + at * bad[i].size, &bits, bad[i].size);
      open_file (&f, header, payload, bad[i].size * 100,
          GPOINTER_TO_INT (data));
      h3_loader_matrix (f.loader, "w", 50, 2);
      test_loader_begin (f.loader, f.device); /* the dry run reads no values */
      g_assert_null (h3_loader_matrix (f.loader, "w", 50, 2));
      /* and nothing after the first failure */
      g_assert_null (h3_loader_vector1 (f.loader, "w", 100));
      assert_finish_fails (&f, H3_ERROR_NUMERIC, f.path, text);
      close_file (&f);
    }
  }
}

/* The element named is the stored one, whatever order the rows are put in. */
static void
test_not_finite_in_order (void)
{
  const gchar *name = "w";
  gfloat payload[24];
  Fixture f;

  iota (payload, 24);
  payload[13] = G_MAXFLOAT * 2;
  open_file (&f, MATRIX_HEADER, payload, sizeof payload, FALSE);
  h3_loader_weight (f.loader, &name, 1, 12, 2, H3_ROWS_GROUPED_QKV, 2, 2);
  test_loader_begin (f.loader, f.device);
  g_assert_null (
      h3_loader_weight (f.loader, &name, 1, 12, 2, H3_ROWS_GROUPED_QKV, 2, 2));
  assert_finish_fails (&f, H3_ERROR_NUMERIC, "tensor w: element 13 is Inf");
  close_file (&f);
}

/* Pieces of a matrix one after the other, in one memory; not counted. */
static void
test_piece (gconstpointer data)
{
  gfloat payload[24];
  g_autoptr (H3Weight) piece = NULL;
  Fixture f;

  iota (payload, 24);
  open_file (&f, MATRIX_HEADER, payload, sizeof payload,
      GPOINTER_TO_INT (data));
  g_assert_true (h3_loader_piece (f.loader, "w", 12, 2, 0, 5, &piece));
  g_assert_null (piece);
  test_loader_begin (f.loader, f.device);
  for (gint first = 0; first <= 7; first++) {
    gsize before = f.device->in_use;

    g_assert_true (h3_loader_piece (f.loader, "w", 12, 2, first, 5, &piece));
    g_assert_cmpint (piece->tensor->shape[0], ==, 5);
    g_assert_cmpint (piece->tensor->shape[1], ==, 2);
    g_assert_cmpmem (piece->tensor->data, piece->tensor->bytes,
        payload + 2 * first, 40);
    if (first > 0)
      g_assert_cmpuint (f.device->in_use, ==, before);
  }
  g_assert_true (h3_loader_piece (f.loader, "w", 12, 2, 11, 1, &piece));
  g_assert_cmpmem (piece->tensor->data, piece->tensor->bytes, payload + 22, 8);
  g_assert_cmpuint (h3_loader_bytes (f.loader), ==, 0);

  payload[22] = NAN;
  h3_test_patch_file (f.path, h3_test_file_size (f.path) - 8, payload + 22, 4);
  g_assert_true (h3_loader_piece (f.loader, "w", 12, 2, 10, 1, &piece));
  g_assert_false (h3_loader_piece (f.loader, "w", 12, 2, 11, 1, &piece));
  assert_finish_fails (&f, H3_ERROR_NUMERIC, f.path, "element 22 is NaN");
  g_clear_pointer (&piece, h3_weight_unref);
  close_file (&f);
}

static void
test_piece_misfit (void)
{
  gfloat payload[24] = { 0 };
  g_autoptr (H3Weight) piece = NULL;
  Fixture f;

  open_file (&f, MATRIX_HEADER, payload, sizeof payload, TRUE);
  g_assert_false (h3_loader_piece (f.loader, "w", 11, 2, 0, 5, &piece));
  assert_finish_fails (&f, H3_ERROR_WRONG_TYPE, "tensor w", "[11, 2]");
  close_file (&f);
}

/* Cut between the dry run and the real one. */
static void
test_cut_while_loading (gconstpointer data)
{
  gfloat payload[24] = { 0 };
  Fixture f;

  open_file (&f, MATRIX_HEADER, payload, sizeof payload,
      GPOINTER_TO_INT (data));
  h3_loader_matrix (f.loader, "w", 12, 2);
  test_loader_begin (f.loader, f.device);
  h3_test_truncate_file (f.path, h3_test_file_size (f.path) - 1);
  g_assert_null (h3_loader_matrix (f.loader, "w", 12, 2));
  assert_finish_fails (&f, H3_ERROR_READ, f.path, "tensor w", "shorter");
  close_file (&f);
}

static void
test_no_space (void)
{
  gfloat payload[24] = { 0 };
  Fixture f;

  open_file (&f, MATRIX_HEADER, payload, sizeof payload, TRUE);
  f.device->capacity = 95;
  h3_loader_matrix (f.loader, "w", 12, 2);
  test_loader_begin (f.loader, f.device);
  g_assert_null (h3_loader_matrix (f.loader, "w", 12, 2));
  assert_finish_fails (&f, H3_ERROR_NO_SPACE, WHAT, "96 bytes wanted");
  close_file (&f);
}

typedef struct {
  guint calls;
  guint64 done, total;
  gboolean stop;
} Watch;

static void
on_progress (guint64 done, guint64 total, gpointer data)
{
  Watch *watch = data;

  g_assert_cmpuint (done, >, watch->done);
  watch->calls++;
  watch->done = done;
  watch->total = total;
}

static gboolean
on_stop (gpointer data)
{
  return ((Watch *) data)->stop;
}

static void
test_progress_and_stop (void)
{
  gfloat payload[24] = { 0 };
  Watch watch = { 0 };
  const H3Stop stop = { on_stop, &watch };
  g_autoptr (H3Weight) weight = NULL;
  g_autoptr (GError) error = NULL;
  Fixture f;

  open_file (&f, MATRIX_HEADER, payload, sizeof payload, TRUE);
  h3_loader_matrix (f.loader, "w", 12, 2);
  h3_loader_vector1 (f.loader, "w", 24);
  g_assert_true (h3_loader_finish (f.loader, &error));
  g_assert_true (h3_loader_begin (f.loader, &f.device->device, &stop,
      on_progress, &watch, &error));
  weight = h3_loader_matrix (f.loader, "w", 12, 2);
  g_assert_nonnull (weight);
  g_assert_cmpuint (watch.calls, ==, 1);
  g_assert_cmpuint (watch.done, ==, 96);
  g_assert_cmpuint (watch.total, ==, 192);
  watch.stop = TRUE;
  g_assert_null (h3_loader_vector1 (f.loader, "w", 24));
  g_assert_cmpuint (watch.calls, ==, 1);
  assert_finish_fails (&f, H3_ERROR_CANCELLED, "");
  g_clear_pointer (&weight, h3_weight_unref);
  close_file (&f);
}

void
add_loader_tests (void)
{
  static const struct {
    const gchar *name;
    GTestDataFunc func;
  } both[] = {
    { "row-orders", test_row_orders },
    { "concatenation", test_concatenation },
    { "types", test_types },
    { "computed", test_computed },
    { "not-finite", test_not_finite },
    { "piece", test_piece },
    { "cut-while-loading", test_cut_while_loading },
  };

  for (guint i = 0; i < G_N_ELEMENTS (both); i++) {
    for (gint host = 0; host < 2; host++) {
      g_autofree gchar *name = g_strdup_printf ("/loader/%s/%s", both[i].name,
          host ? "host-memory" : "staged");
      g_test_add_data_func (name, GINT_TO_POINTER (host), both[i].func);
    }
  }
  g_test_add_func ("/loader/concatenation-misfit", test_concatenation_misfit);
  g_test_add_func ("/loader/piece-misfit", test_piece_misfit);
  g_test_add_func ("/loader/collected", test_collected);
  g_test_add_func ("/loader/wrong-types", test_wrong_types);
  g_test_add_func ("/loader/not-finite-in-order", test_not_finite_in_order);
  g_test_add_func ("/loader/no-space", test_no_space);
  g_test_add_func ("/loader/progress-and-stop", test_progress_and_stop);
}
