/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks through the loader: kept where rows are whole blocks, floats where not,
 * and what it says about those that are wrong. */
#include "gguf-file.h"
#include "test-checkpoint.h"
#include "test-device.h"

#include "model/blocks.h"
#include "model/checkpoint/loader.h"

#include <math.h>

#define ROWS 6
#define COLS 64
#define N (ROWS * COLS)

typedef struct {
  gchar *dir, *path;
  GgufFile *file;
  H3TensorSet *set;
  H3Loader *loader;
  TestDevice *device;
  gfloat values[N]; /* what went into every tensor */
} Fixture;

static void
setup (Fixture *f, gconstpointer host_memory)
{
  f->dir = h3_test_temp_dir ();
  f->path = g_build_filename (f->dir, "f.gguf", NULL);
  f->file = gguf_file_new ();
  f->device = test_device_new (GPOINTER_TO_INT (host_memory));
  f->device->device.encodings = (1u << H3_N_ENCODINGS) - 1;
  for (guint i = 0; i < N; i++)
    f->values[i] = (i * 37 % 101 - 50.0f) / 64;
}

static void
teardown (Fixture *f, gconstpointer data)
{
  g_clear_pointer (&f->loader, h3_loader_free);
  g_clear_pointer (&f->set, h3_tensor_set_free);
  test_device_free (f->device);
  gguf_file_free (f->file);
  h3_test_remove_tree (f->dir);
  g_free (f->path);
  g_free (f->dir);
}

/* The values, or, where @bytes is, what it has, as [ROWS, COLS]. */
static void
add (Fixture *f, const gchar *name, H3StoredType type, guint64 flat,
    const guint8 *bytes)
{
  const guint64 shape[] = { ROWS, COLS };
  guint8 made[N * sizeof (gfloat)];
  gsize size = N / h3_stored_type_block (type) * h3_stored_type_size (type);

  if (!bytes)
    gguf_quantise (type, f->values, N, made);
  gguf_file_add (f->file, name, type, 2, shape, flat, bytes ? bytes : made,
      size);
}

static void
open_set (Fixture *f)
{
  g_autoptr (GError) error = NULL;

  gguf_file_write (f->file, f->path, &error);
  g_assert_no_error (error);
  f->set = h3_tensor_set_open (f->path, &error);
  g_assert_no_error (error);
  f->loader = h3_loader_new (f->set, "test");
}

#define assert_finish_fails(f, code, ...)                                      \
  G_STMT_START                                                                 \
  {                                                                            \
    g_autoptr (GError) problem = NULL;                                         \
    g_assert_false (h3_loader_finish ((f)->loader, &problem));                 \
    h3_test_assert_h3_error (problem, code, (f)->path, __VA_ARGS__);           \
  }                                                                            \
  G_STMT_END

/* What @n values become in @type. */
static void
expect (H3StoredType type, const gfloat *values, gsize n, gfloat *want)
{
  guint8 bytes[N * sizeof (gfloat)];

  gguf_quantise (type, values, n, bytes);
  gguf_decode (type, bytes, n, want);
}

/* Rows are bytes of whole blocks. */
static void
test_kept (Fixture *f, gconstpointer data)
{
  const gchar *names[] = { "a.weight", "b.weight" };
  g_autoptr (H3Weight) weight = NULL;
  gfloat want[2 * N], got[2 * N];

  add (f, names[0], H3_STORED_Q5_1, 0, NULL);
  add (f, names[1], H3_STORED_Q5_1, 0, NULL);
  open_set (f);
  g_assert_null (h3_loader_weight (f->loader, names, 2, 2 * ROWS, COLS,
      H3_ROWS_SWAP_HALVES, 0, 0));
  g_assert_cmpuint (h3_loader_bytes (f->loader), ==, 2 * ROWS * 48);
  test_loader_begin (f->loader, f->device);
  weight = h3_loader_weight (f->loader, names, 2, 2 * ROWS, COLS,
      H3_ROWS_SWAP_HALVES, 0, 0);
  test_loader_finish (f->loader);
  g_assert_cmpint (weight->encoding, ==, H3_ENCODING_Q5_1);
  g_assert_cmpint (weight->rows, ==, 2 * ROWS);
  g_assert_cmpint (weight->cols, ==, COLS);
  g_assert_cmpint (weight->tensor->dtype, ==, H3_DTYPE_U8);
  g_assert_cmpint (weight->tensor->shape[1], ==, 48);
  h3_blocks_decode (weight->encoding, weight->tensor->data, 2 * N / 32, got);
  expect (H3_STORED_Q5_1, f->values, N, want);
  memcpy (want + N, want, N * sizeof *want);
  g_assert_cmpmem (got, sizeof got, want, sizeof want);
}

/* Rows that begin in the middle of a block. */
static void
test_flat (Fixture *f, gconstpointer data)
{
  const guint64 shape[] = { 2 * ROWS, COLS / 2 }, odd[] = { 8, 48 };
  const gchar *name = "odd.weight";
  g_autoptr (H3Weight) weight = NULL;
  g_autoptr (H3Weight) whole = NULL;
  H3Weight *piece = NULL;
  guint8 bytes[N * 2];
  gfloat want[N];

  gguf_quantise (H3_STORED_Q8_0, f->values, N, bytes);
  gguf_file_add (f->file, "whole.weight", H3_STORED_Q8_0, 2, shape, 64, bytes,
      N / 32 * 34);
  gguf_file_add (f->file, name, H3_STORED_Q8_0, 2, odd, 64, bytes, N / 32 * 34);
  open_set (f);
  h3_loader_matrix (f->loader, "whole.weight", 2 * ROWS, COLS / 2);
  h3_loader_matrix (f->loader, name, 8, 48);
  g_assert_true (h3_loader_piece (f->loader, name, 8, 48, 3, 4, &piece));
  g_assert_cmpuint (h3_loader_bytes (f->loader), ==,
      N / 32 * 34 + N * sizeof (gfloat));
  test_loader_begin (f->loader, f->device);
  whole = h3_loader_matrix (f->loader, "whole.weight", 2 * ROWS, COLS / 2);
  weight = h3_loader_matrix (f->loader, name, 8, 48);
  g_assert_true (h3_loader_piece (f->loader, name, 8, 48, 3, 4, &piece));
  test_loader_finish (f->loader);
  g_assert_cmpint (whole->encoding, ==, H3_ENCODING_Q8_0);
  g_assert_cmpint (weight->encoding, ==, H3_ENCODING_PLAIN);
  expect (H3_STORED_Q8_0, f->values, N, want);
  g_assert_cmpmem (weight->tensor->data, weight->tensor->bytes, want,
      sizeof want);
  g_assert_cmpmem (piece->tensor->data, piece->tensor->bytes, want + 3 * 48,
      4 * 48 * sizeof *want);
  h3_weight_unref (piece);
}

/* q, k and v each in their own type, floats rounded where the others of their
 * kind are; halves that change places become floats. */
static void
test_mixed (Fixture *f, gconstpointer data)
{
  const gchar *names[] = { "q.weight", "k.weight", "v.weight" };
  const H3StoredType types[] = { H3_STORED_Q4_0, H3_STORED_Q8_0,
    H3_STORED_BF16 };
  g_autoptr (H3Weight) weight = NULL;
  g_autoptr (H3Weight) rounded = NULL;
  g_autoptr (H3Weight) swapped = NULL;

  for (guint i = 0; i < 3; i++)
    add (f, names[i], types[i], 0, NULL);
  open_set (f);
  h3_loader_weight (f->loader, names, 3, 3 * ROWS, COLS, H3_ROWS_AS_STORED, 0,
      0);
  g_assert_cmpuint (h3_loader_bytes (f->loader), ==,
      N / 32 * (18 + 34) + 2 * N);
  h3_loader_weight (f->loader, names, 2, 2 * ROWS, COLS, H3_ROWS_SWAP_HALVES, 0,
      0);
  test_loader_begin (f->loader, f->device);
  weight = h3_loader_weight (f->loader, names, 3, 3 * ROWS, COLS,
      H3_ROWS_AS_STORED, 0, 0);
  swapped = h3_loader_weight (f->loader, names, 2, 2 * ROWS, COLS,
      H3_ROWS_SWAP_HALVES, 0, 0);
  h3_loader_round_matrices (f->loader, H3_DTYPE_F16);
  rounded = h3_loader_weight (f->loader, names, 3, 3 * ROWS, COLS,
      H3_ROWS_AS_STORED, 0, 0);
  test_loader_finish (f->loader);
  g_assert_cmpint (weight->encoding, ==, H3_ENCODING_STACKED);
  g_assert_cmpint (weight->rows, ==, 3 * ROWS);
  g_assert_cmpint (weight->cols, ==, COLS);
  g_assert_cmpint (weight->parts[0]->encoding, ==, H3_ENCODING_Q4_0);
  g_assert_cmpint (weight->parts[1]->encoding, ==, H3_ENCODING_Q8_0);
  g_assert_cmpint (weight->parts[2]->tensor->dtype, ==, H3_DTYPE_BF16);
  g_assert_cmpint (rounded->parts[1]->encoding, ==, H3_ENCODING_Q8_0);
  g_assert_cmpint (rounded->parts[2]->tensor->dtype, ==, H3_DTYPE_F16);
  g_assert_cmpint (swapped->encoding, ==, H3_ENCODING_PLAIN);
  for (guint i = 0; i < 2; i++) {
    gfloat want[N];

    expect (types[i], f->values, N, want);
    g_assert_cmpmem ((gfloat *) swapped->tensor->data + (1 - i) * N,
        sizeof want, want, sizeof want);
  }
}

static void
test_shape (Fixture *f, gconstpointer data)
{
  add (f, "w.weight", H3_STORED_Q8_0, 0, NULL);
  open_set (f);
  h3_loader_matrix (f->loader, "w.weight", ROWS, 32);
  h3_loader_vector1 (f->loader, "w.weight", N);
  assert_finish_fails (f, H3_ERROR_WRONG_TYPE, "tensor w.weight: shape [6, 64]",
      "expected rows of 32", "dtype Q8_0 is not supported here");
}

/* A device that has none of them says so before anything is read. */
static void
test_device_without (Fixture *f, gconstpointer data)
{
  add (f, "w.weight", H3_STORED_Q4_0, 0, NULL);
  open_set (f);
  h3_loader_matrix (f->loader, "w.weight", ROWS, COLS);
  f->device->device.encodings = 0;
  test_loader_begin (f->loader, f->device);
  g_assert_null (h3_loader_matrix (f->loader, "w.weight", ROWS, COLS));
  assert_finish_fails (f, H3_ERROR_WRONG_TYPE, "tensor w.weight",
      "does not take weights in GGUF Q4_0");
}

/* A scale that is Inf, in the last block: in weights, and in what becomes
 * floats. */
static void
test_not_finite (Fixture *f, gconstpointer data)
{
  const gchar *names[] = { "a.weight", "b.weight" };
  guint8 bytes[N / 32 * 34];

  gguf_quantise (H3_STORED_Q8_0, f->values, N, bytes);
  bytes[sizeof bytes - 33] = 0x7c;
  bytes[sizeof bytes - 34] = 0;
  add (f, names[0], H3_STORED_Q8_0, 0, bytes);
  add (f, names[1], H3_STORED_Q4_0, 0, NULL);
  open_set (f);
  h3_loader_matrix (f->loader, names[0], ROWS, COLS);
  h3_loader_ignore (f->loader, names[1]);
  test_loader_begin (f->loader, f->device);
  {
    g_autoptr (H3Weight) w = h3_loader_matrix (f->loader, names[0], ROWS, COLS);

    assert_finish_fails (f, H3_ERROR_NUMERIC, "tensor a.weight: element 352",
        "scale is NaN or Inf");
  }
  g_clear_pointer (&f->loader, h3_loader_free);
  f->loader = h3_loader_new (f->set, "test");
  h3_loader_weight (f->loader, names, 2, 2 * ROWS, COLS, H3_ROWS_AS_STORED, 0,
      0);
  test_loader_begin (f->loader, f->device);
  g_assert_null (h3_loader_weight (f->loader, names, 2, 2 * ROWS, COLS,
      H3_ROWS_AS_STORED, 0, 0));
  assert_finish_fails (f, H3_ERROR_NUMERIC, "tensor a.weight: element",
      "NaN or Inf");
}

static void
test_shrinks (Fixture *f, gconstpointer data)
{
  g_autoptr (H3Weight) w = NULL;

  add (f, "w.weight", H3_STORED_Q8_0, 0, NULL);
  open_set (f);
  h3_loader_matrix (f->loader, "w.weight", ROWS, COLS);
  test_loader_begin (f->loader, f->device);
  h3_test_truncate_file (f->path, 128);
  w = h3_loader_matrix (f->loader, "w.weight", ROWS, COLS);
  assert_finish_fails (f, H3_ERROR_READ, "tensor w.weight", "shorter");
}

/* Every type comes back about as near as its bits allow. */
static void
test_quantise (void)
{
  static const gdouble tolerance[H3_N_STORED_TYPES] = {
    [H3_STORED_Q4_0] = 0.1,
    [H3_STORED_Q4_1] = 0.1,
    [H3_STORED_Q5_0] = 0.05,
    [H3_STORED_Q5_1] = 0.05,
    [H3_STORED_Q8_0] = 0.006,
    [H3_STORED_Q2_K] = 0.35,
    [H3_STORED_Q3_K] = 0.2,
    [H3_STORED_Q4_K] = 0.09,
    [H3_STORED_Q5_K] = 0.045,
    [H3_STORED_Q6_K] = 0.03,
    [H3_STORED_IQ4_NL] = 0.11,
    [H3_STORED_IQ4_XS] = 0.11,
    [H3_STORED_MXFP4] = 0.17,
    [H3_STORED_NVFP4] = 0.13,
  };
  gfloat values[1024], got[1024];
  guint8 bytes[4096];

  for (guint i = 0; i < 1024; i++)
    values[i] = sinf (i * i) * (1 + i / 512);
  for (H3StoredType t = H3_STORED_Q4_0; t < H3_N_STORED_TYPES; t++) {
    const H3EncodingInfo *info =
        h3_encoding_info (t - H3_STORED_Q4_0 + H3_ENCODING_Q4_0);

    g_assert_cmpuint (info->block, ==, h3_stored_type_block (t));
    g_assert_cmpuint (info->block_bytes, ==, h3_stored_type_size (t));
    g_assert_true (g_str_has_suffix (info->name, h3_stored_type_name (t)));
    gguf_quantise (t, values, 1024, bytes);
    gguf_decode (t, bytes, 1024, got);
    g_test_message ("%s", h3_stored_type_name (t));
    h3_test_assert_close (got, values, 1024, tolerance[t]);
  }
}

void
add_gguf_load_tests (void)
{
#define ADD(name, function)                                                    \
  g_test_add ("/gguf/load/" name, Fixture, GINT_TO_POINTER (FALSE), setup,     \
      function, teardown);                                                     \
  g_test_add ("/gguf/load/" name "-host", Fixture, GINT_TO_POINTER (TRUE),     \
      setup, function, teardown)

  ADD ("kept", test_kept);
  ADD ("flat", test_flat);
  ADD ("mixed", test_mixed);
  ADD ("shape", test_shape);
  ADD ("device-without", test_device_without);
  ADD ("not-finite", test_not_finite);
  ADD ("shrinks", test_shrinks);
  g_test_add_func ("/gguf/quantise", test_quantise);
}
