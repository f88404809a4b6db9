/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A real component whose files are damaged one way each: what loading says. */
#include "test-checkpoint.h"
#include "test-device.h"

#include "model/denoise/transformer.h"

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>

#define SHARD "model-00002-of-00003.safetensors"

/* A copy of the tiny transformer, alone. */
static gchar *
copy_transformer (void)
{
  g_autofree gchar *source =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "transformer", NULL);
  gchar *dir = h3_test_temp_dir ();

  h3_test_copy_tree (source, dir);
  return dir;
}

static GError *
load_and_fail (const gchar *dir)
{
  g_autoptr (TestDevice) device = test_device_new (TRUE);
  GError *error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (dir, H3_PARTITION_FL2VA, &error);

  g_assert_no_error (error);
  g_assert_null (h3_transformer_load (checkpoint, &device->device, NULL, NULL,
      NULL, &error));
  return error;
}

static void
test_gap_in_blocks (void)
{
  g_autofree gchar *dir = copy_transformer ();
  g_autofree gchar *index =
      g_build_filename (dir, "model.safetensors.index.json", NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (GList) names = NULL;
  g_autoptr (GError) error = NULL;
  JsonObject *map;

  json_parser_load_from_file (parser, index, &error);
  g_assert_no_error (error);
  map = json_object_get_object_member (json_node_get_object (
                                           json_parser_get_root (parser)),
      "weight_map");
  names = json_object_get_members (map);
  for (GList *l = names; l; l = l->next) {
    if (g_str_has_prefix (l->data, "blocks.1."))
      json_object_remove_member (map, l->data);
  }
  json_generator_set_root (generator, json_parser_get_root (parser));
  json_generator_to_file (generator, index, &error);
  g_assert_no_error (error);

  error = load_and_fail (dir);
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, dir, "blocks.1");
  h3_test_remove_tree (dir);
}

/* The file offset of a tensor's first byte. */
static guint64
offset_of (const gchar *path, const gchar *name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) file = h3_safetensors_open (path, &error);

  g_assert_no_error (error);
  return h3_safetensors_lookup (file, name)->offset;
}

static void
test_nan (void)
{
  static const guint8 nan[] = { 0xc0, 0x7f };
  static const gchar tensor[] = "blocks.0.norm1.weight";
  g_autofree gchar *dir = copy_transformer ();
  g_autofree gchar *shard = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (dir, &error);

  g_assert_no_error (error);
  shard = g_strdup (h3_tensor_set_get (set, tensor, &error)->path);
  h3_test_patch_file (shard, offset_of (shard, tensor) + 2 * 5, nan, 2);
  error = load_and_fail (dir);
  h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, shard, tensor,
      "element 5 is NaN");
  h3_test_remove_tree (dir);
}

static void
test_truncated (void)
{
  g_autofree gchar *dir = copy_transformer ();
  g_autofree gchar *shard = g_build_filename (dir, SHARD, NULL);
  gint64 size = h3_test_file_size (shard);
  const gint64 sizes[] = { size - 1, size / 2, 9, 8, 7, 0 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    g_autoptr (GError) error = NULL;

    h3_test_truncate_file (shard, sizes[i]);
    error = load_and_fail (dir);
    h3_test_assert_h3_error (error, H3_ERROR_READ, shard);
  }
  h3_test_remove_tree (dir);
}

static void
test_missing_shard (void)
{
  g_autofree gchar *dir = copy_transformer ();
  g_autofree gchar *shard = g_build_filename (dir, SHARD, NULL);
  g_autoptr (GError) error = NULL;

  g_remove (shard);
  error = load_and_fail (dir);
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND,
      SHARD " which is missing (holds 22 tensors)");
  h3_test_remove_tree (dir);
}

static void
test_swapped_shards (void)
{
  g_autofree gchar *dir = copy_transformer ();
  g_autofree gchar *shard = g_build_filename (dir, SHARD, NULL);
  g_autofree gchar *other =
      g_build_filename (dir, "model-00001-of-00003.safetensors", NULL);
  g_autofree gchar *bytes = NULL;
  g_autoptr (GError) error = NULL;
  gsize n;

  g_file_get_contents (other, &bytes, &n, &error);
  g_assert_no_error (error);
  h3_test_write_file (shard, bytes, n);
  error = load_and_fail (dir);
  h3_test_assert_h3_error (error, H3_ERROR_READ, shard, "is listed in",
      "does not contain it");
  h3_test_remove_tree (dir);
}

void
add_damaged_tests (void)
{
  g_test_add_func ("/damaged/gap-in-blocks", test_gap_in_blocks);
  g_test_add_func ("/damaged/nan", test_nan);
  g_test_add_func ("/damaged/truncated", test_truncated);
  g_test_add_func ("/damaged/missing-shard", test_missing_shard);
  g_test_add_func ("/damaged/swapped-shards", test_swapped_shards);
}
