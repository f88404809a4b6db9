/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The generated checkpoint against the golden manifest and configurations. */
#include "test-checkpoint.h"

#include <json-glib/json-glib.h>
#include <math.h>

static JsonNode *
load_json (const gchar *path)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;

  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  return json_parser_steal_root (parser);
}

/* The manifest's [dtype, shape, hash]. */
static void
check_tensor (const H3StoredTensor *tensor, JsonArray *expected)
{
  static const gchar *const
      names[] = { [H3_STORED_F32] = "float32", [H3_STORED_BF16] = "bfloat16" };
  JsonArray *shape = json_array_get_array_element (expected, 1);
  g_autofree guint8 *bytes = g_malloc (tensor->bytes);
  g_autofree gchar *hash = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_true (
      tensor->type == H3_STORED_F32 || tensor->type == H3_STORED_BF16);
  g_assert_cmpstr (names[tensor->type], ==,
      json_array_get_string_element (expected, 0));
  g_assert_cmpuint (tensor->rank, ==, json_array_get_length (shape));
  for (guint i = 0; i < tensor->rank; i++)
    g_assert_cmpuint (tensor->shape[i], ==,
        json_array_get_int_element (shape, i));

  h3_stored_tensor_read (tensor, 0, tensor->bytes, bytes, &error);
  g_assert_no_error (error);
  hash = g_compute_checksum_for_data (G_CHECKSUM_SHA256, bytes, tensor->bytes);
  hash[16] = '\0';
  if (!g_str_equal (hash, json_array_get_string_element (expected, 2)))
    g_error ("%s: %s has other bytes", tensor->path, tensor->name);
}

static guint
check_file (const gchar *name, JsonObject *expected)
{
  g_autofree gchar *path =
      g_str_has_prefix (name, "diffusers/")
          ? g_build_filename (h3_test_tiny_diffusers_dir (), name + 10, NULL)
          : g_build_filename (h3_test_tiny_dir (), name, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) file = h3_safetensors_open (path, &error);
  JsonObjectIter iter;
  const gchar *tensor_name;
  JsonNode *node;

  g_assert_no_error (error);
  g_assert_cmpuint (h3_safetensors_n_tensors (file), ==,
      json_object_get_size (expected));
  g_assert_cmpuint (h3_safetensors_trailing (file), ==, 0);
  json_object_iter_init (&iter, expected);
  while (json_object_iter_next (&iter, &tensor_name, &node)) {
    const H3StoredTensor *tensor = h3_safetensors_lookup (file, tensor_name);
    if (!tensor)
      g_error ("%s: no tensor %s", path, tensor_name);
    check_tensor (tensor, json_node_get_array (node));
  }
  return json_object_get_size (expected);
}

static void
test_manifest (void)
{
  g_autofree gchar *path = h3_test_golden_path ("manifest.json");
  g_autoptr (JsonNode) root = load_json (path);
  JsonObject *files = json_node_get_object (root);
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *node;
  guint n = 0;

  json_object_iter_init (&iter, files);
  while (json_object_iter_next (&iter, &name, &node))
    n += check_file (name, json_node_get_object (node));
  g_assert_cmpuint (n, ==, 3289);
}

/* Numbers are equal when they are the same double. */
static gboolean
same_json (JsonNode *a, JsonNode *b)
{
  if (JSON_NODE_HOLDS_ARRAY (a) && JSON_NODE_HOLDS_ARRAY (b)) {
    JsonArray *x = json_node_get_array (a), *y = json_node_get_array (b);
    gboolean same = json_array_get_length (x) == json_array_get_length (y);
    for (guint i = 0; same && i < json_array_get_length (x); i++)
      same = same_json (json_array_get_element (x, i),
          json_array_get_element (y, i));
    return same;
  }
  if (!JSON_NODE_HOLDS_VALUE (a) || !JSON_NODE_HOLDS_VALUE (b))
    return FALSE;
  if (json_node_get_value_type (a) == G_TYPE_STRING)
    return g_strcmp0 (json_node_get_string (a), json_node_get_string (b)) == 0;
  return json_node_get_double (a) == json_node_get_double (b);
}

/* The diffusers configurations say what the reference's say. */
static void
test_diffusers_configs (void)
{
  static const gchar *const files[] = { "transformer/config.json",
    "transformer_ref/config.json", "vae/config.json", "audio_vae/config.json",
    "scheduler/scheduler_config.json",
    "audio_scheduler/scheduler_config.json" };

  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autofree gchar *made =
        g_build_filename (h3_test_tiny_diffusers_dir (), files[i], NULL);
    g_autofree gchar *golden = g_build_filename (h3_test_golden_dir (), "tiny",
        "diffusers", files[i], NULL);
    g_autoptr (JsonNode) got = load_json (made);
    g_autoptr (JsonNode) want = load_json (golden);
    JsonObject *object = json_node_get_object (got);
    JsonObjectIter iter;
    const gchar *key;
    JsonNode *node;

    json_object_iter_init (&iter, json_node_get_object (want));
    while (json_object_iter_next (&iter, &key, &node)) {
      if (g_str_equal (key, "_use_default_values"))
        continue;
      if (!json_object_has_member (object, key) ||
          !same_json (json_object_get_member (object, key), node))
        g_error ("%s: %s differs", made, key);
    }
  }
}

/* Every folder the diffusers index names is there. */
static void
test_diffusers_root (void)
{
  g_autofree gchar *path = g_build_filename (h3_test_tiny_diffusers_dir (),
      "model_index.json", NULL);
  g_autoptr (JsonNode) root = load_json (path);
  static const gchar *const names[] = { "text_encoder", "tokenizer",
    "processor", "vae", "audio_vae", "transformer", "transformer_ref",
    "scheduler", "audio_scheduler" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree gchar *dir =
        g_build_filename (h3_test_tiny_diffusers_dir (), names[i], NULL);
    g_assert_true (
        json_object_has_member (json_node_get_object (root), names[i]));
    g_assert_true (g_file_test (dir, G_FILE_TEST_IS_DIR));
  }
}

/* The generator takes any geometry: names, types and shapes of the demo's. */
static void
compare_geometry (const gchar *made, const gchar *shipped)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) a = h3_safetensors_open (made, &error);
  g_autoptr (H3SafeTensors) b = NULL;

  g_assert_no_error (error);
  b = h3_safetensors_open (shipped, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (h3_safetensors_n_tensors (a), ==,
      h3_safetensors_n_tensors (b));
  for (guint i = 0; i < h3_safetensors_n_tensors (b); i++) {
    const H3StoredTensor *want = h3_safetensors_nth (b, i);
    const H3StoredTensor *got = h3_safetensors_lookup (a, want->name);

    if (!got || got->rank != want->rank ||
        memcmp (got->shape, want->shape, want->rank * sizeof *want->shape))
      g_error ("%s: %s is missing or has another shape", made, want->name);
  }
}

/* Runs the generator; @output: (optional): what it says on stderr. */
static gboolean
generate (const gchar *like, const gchar *seed, const gchar *out,
    const gchar *layout, gchar **output)
{
  const gchar *argv[] = { g_getenv ("H3_MKCHECKPOINT"), "--like", like,
    "--seed", seed, "--out", out, "--layout", layout, NULL };
  g_autoptr (GError) error = NULL;
  gint status;

  g_spawn_sync (NULL, (gchar **) argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, NULL,
      output, &status, &error);
  g_assert_no_error (error);
  return g_spawn_check_wait_status (status, NULL);
}

/* Another seed is another checkpoint; what cannot be made is said. */
static void
test_arguments (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *like =
      g_build_filename (h3_test_golden_dir (), "tiny", NULL);
  g_autofree gchar *broken = g_build_filename (dir, "like", NULL);
  g_autofree gchar *config =
      g_build_filename (broken, "FL2VA", "transformer", "config.json", NULL);
  g_autofree gchar *out = g_build_filename (dir, "out", NULL);
  g_autofree gchar *made =
      g_build_filename (out, "FL2VA", "audio_vae", "model.safetensors", NULL);
  g_autofree gchar *first = g_build_filename (h3_test_tiny_dir (), "FL2VA",
      "audio_vae", "model.safetensors", NULL);
  g_autofree gchar *a = NULL, *b = NULL;
  gsize n, m;
  const struct {
    const gchar *like, *seed, *layout, *needle;
  } bad[] = {
    { dir, "1", "official", "FL2VA" },
    { dir, "1", "diffusers", "model_index.json" },
    { like, "1", "other", "--layout other" },
    { like, "-1", "official", "needed" },
    { like, "x", "official", "seed" },
    { broken, "1", "official", "hidden_size is missing" },
  };

  h3_test_copy_tree (like, broken);
  h3_test_write_file (config, "{}", 2);
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autofree gchar *output = NULL;
    g_assert_false (
        generate (bad[i].like, bad[i].seed, out, bad[i].layout, &output));
    if (!strstr (output, bad[i].needle))
      g_error ("\"%s\" is not in: %s", bad[i].needle, output);
  }

  g_assert_true (generate (like, "2", out, "official", NULL));
  g_assert_true (g_file_get_contents (made, &a, &n, NULL));
  g_assert_true (g_file_get_contents (first, &b, &m, NULL));
  g_assert_cmpuint (n, ==, m);
  g_assert_cmpint (memcmp (a, b, n), !=, 0);
  h3_test_remove_tree (dir);
}

static void
test_demo_geometry (void)
{
  static const gchar *const files[] = {
    "transformer/model-00001-of-00002.safetensors",
    "transformer/model-00002-of-00002.safetensors",
    "text_encoder/model-00001-of-00002.safetensors",
    "text_encoder/model-00002-of-00002.safetensors",
    "video_vae/source/model.safetensors", "audio_vae/model.safetensors"
  };
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *like = g_path_get_dirname (h3_test_demo_dir ());
  g_autofree gchar *output = NULL;

  g_assert_true (generate (like, "1", dir, "official", &output));
  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autofree gchar *made = g_build_filename (dir, "FL2VA", files[i], NULL);
    g_autofree gchar *shipped =
        g_build_filename (h3_test_demo_dir (), files[i], NULL);
    compare_geometry (made, shipped);
  }
  h3_test_remove_tree (dir);
}

void
add_generator_tests (void)
{
  g_test_add_func ("/generator/manifest", test_manifest);
  g_test_add_func ("/generator/diffusers-configs", test_diffusers_configs);
  g_test_add_func ("/generator/diffusers-root", test_diffusers_root);
  g_test_add_func ("/generator/arguments", test_arguments);
  g_test_add_func ("/generator/demo-geometry", test_demo_geometry);
}
