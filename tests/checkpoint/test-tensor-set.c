/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shards and their index: checkpoints.md 3.3. */
#include "test-checkpoint.h"

#include "model/checkpoint/tensor-set.h"

#include <glib/gstdio.h>

#define INDEX "model.safetensors.index.json"

typedef struct {
  gchar *dir;
  gchar *index;
  gchar *shard[2];
} Fixture;

/* Two shards: a and b in the first, c in the second. */
static void
setup (Fixture *f, gconstpointer data)
{
  static const guint8 payload[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  static const gchar index[] =
      "{\"metadata\":{\"total_size\":999},\"weight_map\":{\"c\":\"two."
      "safetensors\",\"a\":\"one.safetensors\",\"b\":\"one.safetensors\"}}";

  f->dir = h3_test_temp_dir ();
  f->index = g_build_filename (f->dir, INDEX, NULL);
  f->shard[0] = g_build_filename (f->dir, "one.safetensors", NULL);
  f->shard[1] = g_build_filename (f->dir, "two.safetensors", NULL);
  h3_test_write_file (f->index, index, sizeof index - 1);
  write_safetensors (f->shard[0],
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]},"
      "\"extra\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}}",
      payload, 5);
  write_safetensors (f->shard[1],
      "{\"c\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
      payload, 2);
}

static void
teardown (Fixture *f, gconstpointer data)
{
  h3_test_remove_tree (f->dir);
  g_free (f->shard[0]);
  g_free (f->shard[1]);
  g_free (f->index);
  g_free (f->dir);
}

static H3TensorSet *
open_good (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  H3TensorSet *set = h3_tensor_set_open (path, &error);

  g_assert_no_error (error);
  return set;
}

static void
test_sharded (Fixture *f, gconstpointer data)
{
  g_autoptr (H3TensorSet) set = open_good (f->dir);
  g_autoptr (GError) error = NULL;
  const GPtrArray *names = h3_tensor_set_names (set);
  const H3StoredTensor *tensor;

  g_assert_cmpstr (h3_tensor_set_path (set), ==, f->dir);
  g_assert_cmpuint (names->len, ==, 3);
  g_assert_cmpstr (names->pdata[0], ==, "a");
  g_assert_cmpstr (names->pdata[2], ==, "c");
  g_assert_true (h3_tensor_set_has (set, "b"));
  /* in a shard, but the index does not list it */
  g_assert_false (h3_tensor_set_has (set, "extra"));

  tensor = h3_tensor_set_get (set, "c", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tensor->bytes, ==, 2);
  g_assert_cmpstr (tensor->path, ==, f->shard[1]);
  g_assert_null (h3_tensor_set_get (set, "extra", &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, f->dir, "extra");
}

/* A shard that nobody reads is not opened. */
static void
test_lazy (Fixture *f, gconstpointer data)
{
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (GError) error = NULL;

  h3_test_truncate_file (f->shard[1], 3);
  set = open_good (f->dir);
  g_assert_nonnull (h3_tensor_set_get (set, "a", &error));
  g_assert_null (h3_tensor_set_get (set, "c", &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, f->shard[1]);
}

static void
test_missing_from_shard (Fixture *f, gconstpointer data)
{
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (GError) error = NULL;

  write_safetensors (f->shard[1], "{}", NULL, 0);
  set = open_good (f->dir);
  g_assert_true (h3_tensor_set_has (set, "c"));
  g_assert_null (h3_tensor_set_get (set, "c", &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, "tensor c is listed in",
      f->shard[1], "does not contain it");
}

static void
test_missing_shards (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  g_remove (f->shard[0]);
  g_assert_null (h3_tensor_set_open (f->dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, f->index,
      "shard one.safetensors which is missing (holds 2 tensors)");
  g_clear_error (&error);
  g_remove (f->shard[1]);
  g_assert_null (h3_tensor_set_open (f->dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND,
      "shard one.safetensors which is missing (holds 2 tensors)",
      "shard two.safetensors which is missing (holds 1 tensors)");
}

static void
test_lfs_shard (Fixture *f, gconstpointer data)
{
  static const gchar pointer[] =
      "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n";
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (GError) error = NULL;

  h3_test_write_file (f->shard[0], pointer, sizeof pointer - 1);
  set = open_good (f->dir);
  g_assert_null (h3_tensor_set_get (set, "a", &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, f->shard[0],
      "Git-LFS pointer");
}

static void
test_bad_index (Fixture *f, gconstpointer data)
{
  static const struct {
    const gchar *text, *needle;
  } bad[] = {
    { "", "JSON" },
    { "[]", "not a JSON object" },
    { "{}", "weight_map" },
    { "{\"weight_map\":[]}", "weight_map" },
    { "{\"weight_map\":{}}", "lists 0 tensors" },
    { "{\"weight_map\":{\"a\":1}}", "tensor a" },
    { "{\"weight_map\":{\"a\":null}}", "tensor a" },
    { "{\"weight_map\":{\"\":\"one.safetensors\"}}", "name has 0 bytes" },
    { "{\"weight_map\":{\"a\":\"\"}}", "tensor a" },
    { "{\"weight_map\":{\"a\":\"../one.safetensors\"}}",
        "\"../one.safetensors\" is not the name of a file" },
    { "{\"weight_map\":{\"a\":\"..\"}}", "tensor a" },
    { "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "tensor a" },
    { "{\"weight_map\":{\"a\":\"x/one.safetensors\"}}", "tensor a" },
    { "{\"weight_map\":{\"a\":\"..\\\\one.safetensors\"}}", "tensor a" },
    { "version https://git-lfs.github.com/spec/v1\n", "JSON" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;

    h3_test_write_file (f->index, bad[i].text, strlen (bad[i].text));
    g_assert_null (h3_tensor_set_open (f->dir, &error));
    h3_test_assert_h3_error (error, H3_ERROR_READ, f->index, bad[i].needle);
  }
}

static void
test_single_file (Fixture *f, gconstpointer data)
{
  g_autoptr (H3TensorSet) by_file = open_good (f->shard[0]);
  g_autoptr (H3TensorSet) by_folder = NULL;

  g_assert_cmpuint (h3_tensor_set_names (by_file)->len, ==, 3);
  g_remove (f->index);
  g_remove (f->shard[1]);
  by_folder = open_good (f->dir);
  g_assert_true (h3_tensor_set_has (by_folder, "extra"));
}

static void
test_no_index (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  g_remove (f->index);
  g_assert_null (h3_tensor_set_open (f->dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, f->dir, "2 files",
      "one.safetensors", "an index");
  g_clear_error (&error);
  g_remove (f->shard[0]);
  g_remove (f->shard[1]);
  g_assert_null (h3_tensor_set_open (f->dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, f->dir, "no weights");
  g_clear_error (&error);
  g_assert_null (h3_tensor_set_open (f->shard[0], &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, f->shard[0]);
}

static void
test_two_indexes (Fixture *f, gconstpointer data)
{
  g_autofree gchar *other =
      g_build_filename (f->dir, "other.safetensors.index.json", NULL);
  g_autoptr (GError) error = NULL;

  h3_test_write_file (other, "{}", 2);
  g_assert_null (h3_tensor_set_open (f->dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, f->dir, INDEX,
      "other.safetensors.index.json");
}

void
add_tensor_set_tests (void)
{
#define ADD(name, func)                                                        \
  g_test_add ("/tensor-set/" name, Fixture, NULL, setup, func, teardown)
  ADD ("sharded", test_sharded);
  ADD ("lazy", test_lazy);
  ADD ("missing-from-shard", test_missing_from_shard);
  ADD ("missing-shards", test_missing_shards);
  ADD ("lfs-shard", test_lfs_shard);
  ADD ("bad-index", test_bad_index);
  ADD ("single-file", test_single_file);
  ADD ("no-index", test_no_index);
  ADD ("two-indexes", test_two_indexes);
#undef ADD
}
