/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The text encoder: golden states, layouts, bad checkpoints. */
#include <json-glib/json-glib.h>
#include <math.h>

#include "model/text/presentation.h"
#include "model/text/text-model.h"
#include "tests/tools/h3-test-device.h"

/* golden/README.md: a float32 implementation at a module */

static H3Device *device;

static gchar *
tiny_partition (void)
{
  return g_build_filename (h3_test_tiny_dir (), "FL2VA", NULL);
}

static H3Checkpoint *
open_checkpoint (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  H3Checkpoint *checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error);

  g_assert_no_error (error);
  return checkpoint;
}

static H3TextModel *
load (const gchar *path)
{
  g_autoptr (H3Checkpoint) checkpoint = open_checkpoint (path);
  g_autoptr (GError) error = NULL;
  H3TextModel *model =
      h3_text_model_load (checkpoint, device, NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  return model;
}

static H3TextModel *
load_tiny (void)
{
  g_autofree gchar *path = tiny_partition ();

  return load (path);
}

static H3Stream *
new_stream (void)
{
  g_autoptr (GError) error = NULL;
  H3Stream *stream = h3_stream_new (device, &error);

  g_assert_no_error (error);
  return stream;
}

static gfloat *
to_host (H3Stream *stream, const H3Tensor *tensor)
{
  gfloat *host = g_new (gfloat, h3_tensor_size (tensor));
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (tensor->dtype, ==, H3_DTYPE_F32);
  h3_download (stream, host, tensor);
  h3_stream_synchronize (stream, &error);
  g_assert_no_error (error);
  return host;
}

/* The final state as floats; [n, hidden]. */
static gfloat *
encode (H3TextModel *model, const gint32 *ids, gint n)
{
  g_autoptr (H3Stream) stream = new_stream ();
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) state = h3_text_model_encode (model, stream,
      &(H3TextInput){ .ids = ids, .n = n }, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpint (state->rank, ==, 2);
  g_assert_cmpint (state->shape[0], ==, n);
  g_assert_cmpint (state->shape[1], ==, h3_text_model_config (model)->hidden);
  return to_host (stream, state);
}

/* --- golden --- */

typedef struct {
  H3Stream *stream;
  guint next; /* taps come in order, none is left out */
  guint compared;
} Taps;

static void
compare_tap (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  Taps *taps = user_data;
  g_autofree gchar *expected = g_strdup_printf ("hidden.%u", taps->next);
  g_autofree gchar *golden = g_strdup_printf ("hidden_%u", taps->next);
  g_autofree gfloat *got = NULL, *want = NULL;
  gsize n;

  g_assert_cmpstr (name, ==, expected);
  taps->next++;
  if (!h3_test_golden_has ("text_encoder.safetensors", golden))
    return;
  want = h3_test_golden ("text_encoder.safetensors", golden, &n);
  g_assert_cmpint (h3_tensor_size (value), ==, n);
  got = to_host (taps->stream, value);
  g_test_message ("%s", name);
  h3_test_assert_close (got, want, n, H3_TEST_EMBEDS);
  taps->compared++;
}

static void
test_hidden_states (void)
{
  g_autoptr (H3TextModel) model = load_tiny ();
  g_autoptr (H3Stream) stream = new_stream ();
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) state = NULL;
  g_autofree gint32 *ids = NULL;
  Taps taps = { .stream = stream };
  const H3Tap tap = { compare_tap, &taps };
  gsize n;

  ids = h3_test_golden_ints ("text_encoder.safetensors", "input_ids", &n);
  state = h3_text_model_encode (model, stream,
      &(H3TextInput){ .ids = ids, .n = n }, NULL, &tap, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (taps.next, ==, H3_TEXT_LAYERS + 1);
  g_assert_cmpuint (taps.compared, ==, 6);
}

static GArray *
present (const H3Checkpoint *checkpoint, const gchar *prompt)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tokenizer) tokenizer = NULL;
  g_auto (H3Presentation) presentation = { NULL };
  const gchar *dir =
      h3_checkpoint_path (checkpoint, H3_COMPONENT_TOKENIZER, &error);

  g_assert_no_error (error);
  tokenizer = h3_tokenizer_load (dir, &error);
  g_assert_no_error (error);
  h3_presentation_init (&presentation, tokenizer, NULL, 0, prompt,
      strlen (prompt), 4096, &error);
  g_assert_no_error (error);
  return g_steal_pointer (&presentation.ids);
}

static gchar *
request_prompt (const gchar *requests, const gchar *name)
{
  g_autofree gchar *path = h3_test_golden_path (requests);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;
  JsonObject *object;

  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  object = json_node_get_object (json_parser_get_root (parser));
  object = json_object_get_object_member (object, name);
  return g_strdup (json_object_get_string_member (object, "prompt"));
}

/* From the prompt of a golden request to its embeddings. */
static void
compare_request (const gchar *path, const gchar *requests, const gchar *name,
    const gchar *golden)
{
  g_autoptr (H3Checkpoint) checkpoint = open_checkpoint (path);
  g_autoptr (H3TextModel) model = load (path);
  g_autofree gchar *prompt = request_prompt (requests, name);
  g_autoptr (GArray) ids = present (checkpoint, prompt);
  g_autofree gint32 *want_ids = NULL;
  g_autofree gfloat *got = NULL, *want = NULL;
  gsize n;

  want_ids = h3_test_golden_ints (golden, "token_ids", &n);
  g_assert_cmpmem (ids->data, ids->len * sizeof (gint32), want_ids,
      n * sizeof (gint32));
  got = encode (model, want_ids, n);
  want = h3_test_golden (golden, "prompt_embeds", &n);
  g_test_message ("%s", golden);
  g_assert_cmpuint (n, ==, ids->len * h3_text_model_config (model)->hidden);
  h3_test_assert_close (got, want, n, H3_TEST_EMBEDS);
}

static void
test_tiny_requests (void)
{
  g_autofree gchar *path = tiny_partition ();

  compare_request (path, "requests.json", "t2va", "request_t2va.safetensors");
  compare_request (path, "requests.json", "t2va_39",
      "request_t2va_39.safetensors");
}

static void
test_demo_requests (void)
{
  static const gchar *const names[] = { "t2va_22", "t2va_39", "t2va_portrait" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree gchar *golden =
        g_strdup_printf ("demo/%s.safetensors", names[i]);

    compare_request (h3_test_demo_dir (), "demo/requests.json", names[i],
        golden);
  }
}

/* --- what must not change the numbers --- */

static const gint32 some_ids[] = { 32, 469, 436, 438, 479, 455, 13, 0, 527, 480,
  220 };
static const H3TextInput some_input = { .ids = some_ids,
  .n = G_N_ELEMENTS (some_ids) };

static void
test_diffusers_layout (void)
{
  g_autoptr (H3TextModel) official = load_tiny ();
  g_autoptr (H3TextModel) diffusers = load (h3_test_tiny_diffusers_dir ());
  const gint n = G_N_ELEMENTS (some_ids);
  g_autofree gfloat *a = encode (official, some_ids, n);
  g_autofree gfloat *b = encode (diffusers, some_ids, n);
  const gsize bytes =
      n * h3_text_model_config (official)->hidden * sizeof (gfloat);

  g_assert_cmpmem (a, bytes, b, bytes);
}

/* A row depends on the rows before it and on nothing else. */
static void
test_causal (void)
{
  g_autoptr (H3TextModel) model = load_tiny ();
  const gint n = G_N_ELEMENTS (some_ids), half = n / 2;
  const gint hidden = h3_text_model_config (model)->hidden;
  g_autofree gfloat *whole = encode (model, some_ids, n);
  g_autofree gfloat *part = encode (model, some_ids, half);

  h3_test_assert_close (part, whole, half * hidden, H3_TEST_EMBEDS);
}

/* One token over and over has one state in every row, also in the rows that
 * the MLP takes in its second turn. */
static void
test_many_rows (void)
{
  g_autoptr (H3TextModel) model = load (h3_test_demo_dir ());
  const gint n = 2100;
  const gint hidden = h3_text_model_config (model)->hidden;
  g_autofree gint32 *ids = g_new (gint32, n);
  g_autofree gfloat *state = NULL;
  gdouble worst = 0;

  for (gint i = 0; i < n; i++)
    ids[i] = 65;
  state = encode (model, ids, n);
  for (gint i = 1; i < n; i++) {
    gdouble difference =
        h3_test_rel_l2 (state + (gsize) i * hidden, state, hidden);

    g_assert_false (isnan (difference));
    worst = MAX (worst, difference);
  }
  g_test_message ("worst relative difference %.2e", worst);
  g_assert_cmpfloat (worst, <=, H3_TEST_EMBEDS);
}

/* --- stopping --- */

typedef struct {
  guint asked, allowed;
} Patience;

static gboolean
runs_out (gpointer user_data)
{
  Patience *patience = user_data;

  return patience->asked++ >= patience->allowed;
}

static void
count_taps (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  (*(guint *) user_data)++;
}

static void
test_cancel (void)
{
  g_autoptr (H3TextModel) model = load_tiny ();
  g_autoptr (H3Stream) stream = new_stream ();
  const gint n = G_N_ELEMENTS (some_ids);
  const gsize bytes =
      n * h3_text_model_config (model)->hidden * sizeof (gfloat);
  g_autofree gfloat *before = encode (model, some_ids, n);
  g_autofree gfloat *after = NULL;
  g_autoptr (GError) error = NULL;

  for (guint allowed = 0; allowed < 50; allowed += 7) {
    Patience patience = { 0, allowed };
    const H3Stop stop = { runs_out, &patience };
    guint taps = 0;
    const H3Tap tap = { count_taps, &taps };

    g_assert_null (
        h3_text_model_encode (model, stream, &some_input, &stop, &tap, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
    g_clear_error (&error);
    g_assert_cmpuint (taps, ==, allowed + 1); /* embeddings and layers */
  }
  after = encode (model, some_ids, n);
  g_assert_cmpmem (after, bytes, before, bytes);
}

static void
test_cancel_load (void)
{
  g_autofree gchar *path = tiny_partition ();
  g_autoptr (H3Checkpoint) checkpoint = open_checkpoint (path);
  Patience patience = { 0, 3 };
  const H3Stop stop = { runs_out, &patience };
  g_autoptr (GError) error = NULL;

  g_assert_null (
      h3_text_model_load (checkpoint, device, &stop, NULL, NULL, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
}

typedef struct {
  guint64 done, total;
} Progress;

static void
on_progress (guint64 done, guint64 total, gpointer user_data)
{
  Progress *progress = user_data;

  g_assert_cmpuint (done, >=, progress->done);
  g_assert_cmpuint (done, <=, total);
  progress->done = done;
  progress->total = total;
}

static void
test_plan (void)
{
  g_autofree gchar *path = tiny_partition ();
  g_autoptr (H3Checkpoint) checkpoint = open_checkpoint (path);
  g_autoptr (H3TextModel) model = NULL;
  g_autoptr (GError) error = NULL;
  Progress progress = { 0 };
  H3TextConfig config;
  guint64 bytes;
  const guint64 linears = (4 + 2 * 2) * 16 * 40 + 40 * 64 + 3 * 64 * 40;
  const guint64 norms = 2 * 40 + 2 * 16;

  g_assert_true (
      h3_text_model_plan (checkpoint, NULL, &config, &bytes, &error));
  g_assert_no_error (error);
  g_assert_cmpint (config.hidden, ==, 40);
  g_assert_cmpint (config.layers, ==, 52);
  g_assert_cmpint (config.heads, ==, 4);
  g_assert_cmpint (config.kv_heads, ==, 2);
  g_assert_cmpint (config.head_dim, ==, 16);
  g_assert_cmpint (config.ffn, ==, 64);
  g_assert_cmpint (config.vocab, ==, 528);
  g_assert_cmpint (config.max_positions, ==, 4096);
  g_assert_cmpint (config.mrope_section[0], ==, 4);
  /* bfloat16 as stored, norms widened; neither the vision tower, nor layers
   * 50 and 51, nor lm_head */
  g_assert_cmpuint (bytes, ==,
      528 * 40 * 2 + H3_TEXT_LAYERS * (linears * 2 + norms * 4));

  model = h3_text_model_load (checkpoint, device, NULL, on_progress, &progress,
      &error);
  g_assert_no_error (error);
  g_assert_cmpuint (progress.done, ==, progress.total);
  g_assert_cmpuint (progress.total, >, 0);
}

/* --- bad input --- */

static void
test_bad_ids (void)
{
  static const struct {
    gint32 ids[3];
    gint n;
    const gchar *says;
  } cases[] = {
    { { 1, 528, 2 }, 3, "token 1 has id 528" },
    { { 1, 2, -1 }, 3, "token 2 has id -1" },
    { { 1 }, 0, "0 tokens" },
    { { 1 }, -1, "-1 tokens" },
    { { 1 }, 4097, "4097 tokens" },
  };
  g_autoptr (H3TextModel) model = load_tiny ();
  g_autoptr (H3Stream) stream = new_stream ();

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (h3_text_model_encode (model, stream,
        &(H3TextInput){ .ids = cases[i].ids, .n = cases[i].n }, NULL, NULL,
        &error));
    h3_test_assert_h3_error (error, H3_ERROR_FORMAT, cases[i].says);
  }
}

/* A copy of the tiny text encoder to damage. */
static gchar *
copy_encoder (gchar **root)
{
  g_autofree gchar *from =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "text_encoder", NULL);
  gchar *to;

  *root = h3_test_temp_dir ();
  to = g_build_filename (*root, "text_encoder", NULL);
  h3_test_copy_tree (from, to);
  return to;
}

static void
replace_in_file (const gchar *dir, const gchar *name, const gchar *from,
    const gchar *to)
{
  g_autofree gchar *path = g_build_filename (dir, name, NULL);
  g_autofree gchar *contents = NULL;
  GString *text;

  g_assert_true (g_file_get_contents (path, &contents, NULL, NULL));
  text = g_string_new (contents);
  g_assert_cmpuint (g_string_replace (text, from, to, 0), >, 0);
  h3_test_write_file (path, text->str, text->len);
  g_string_free (text, TRUE);
}

static void
assert_plan_fails (const gchar *dir, H3Error code, const gchar *says,
    const gchar *and_says)
{
  g_autoptr (H3Checkpoint) checkpoint = open_checkpoint (dir);
  g_autoptr (GError) error = NULL;
  guint64 bytes;

  g_assert_false (h3_text_model_plan (checkpoint, NULL, NULL, &bytes, &error));
  h3_test_assert_h3_error (error, code, says, and_says);
}

static void
test_bad_config (void)
{
  static const struct {
    const gchar *from, *to, *says, *and_says;
  } cases[] = {
    { "\"num_attention_heads\": 4", "\"num_attention_heads\": 2",
        "num_attention_heads 2", "gives 4" },
    { "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4",
        "num_key_value_heads 4", "gives 2" },
    { "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3",
        "num_key_value_heads 3", "num_attention_heads 4" },
    { "\"hidden_size\": 40", "\"hidden_size\": 48", "hidden_size 48",
        "gives 40" },
    { "\"intermediate_size\": 64", "\"intermediate_size\": 32",
        "intermediate_size 32", "gives 64" },
    { "\"vocab_size\": 528", "\"vocab_size\": 600", "vocab_size 600",
        "gives 528" },
    { "\"head_dim\": 16", "\"head_dim\": 32", "mrope_section", "head_dim 32" },
    { "\"head_dim\": 16", "\"head_dim\": 15", "head_dim", "15" },
    { "\"head_dim\": 16", "\"head_dim\": 0", "head_dim", "0" },
    { "\"num_hidden_layers\": 52", "\"num_hidden_layers\": 49",
        "num_hidden_layers is 49", "50" },
    { "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "hidden_act",
        "gelu" },
    { "\"attention_bias\": false", "\"attention_bias\": true", "attention_bias",
        "true" },
    { "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 0", "rms_norm_eps", "0" },
    { "\"rope_theta\": 5000000", "\"rope_theta\": -1", "rope_theta", "-1" },
    { "\"mrope_interleaved\": true", "\"mrope_interleaved\": false",
        "mrope_interleaved", "false" },
    { "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", "rope_type",
        "yarn" },
    { "    4,\n    2,\n    2\n", "    4,\n    4\n", "mrope_section",
        "2 numbers" },
    { "    4,\n    2,\n    2\n", "    1,\n    4,\n    3\n", "mrope_section",
        "[1, 4, 3]" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *root = NULL;
    g_autofree gchar *dir = copy_encoder (&root);

    replace_in_file (dir, "config.json", cases[i].from, cases[i].to);
    assert_plan_fails (dir, H3_ERROR_WRONG_TYPE, cases[i].says,
        cases[i].and_says);
    h3_test_remove_tree (root);
  }
}

/* Absent keys take the released values, which are not this checkpoint's. */
static void
test_missing_config_keys (void)
{
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);

  replace_in_file (dir, "config.json", "\"vocab_size\"", "\"vocab_gone\"");
  assert_plan_fails (dir, H3_ERROR_WRONG_TYPE, "vocab_size 151936",
      "gives 528");
  h3_test_remove_tree (root);
}

#define INDEX "model.safetensors.index.json"

static void
test_too_few_layers (void)
{
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);

  replace_in_file (dir, INDEX, "layers.49.", "layers.99.");
  assert_plan_fails (dir, H3_ERROR_WRONG_TYPE, "49 layers", "50");
  h3_test_remove_tree (root);
}

static void
test_missing_tensor (void)
{
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);

  replace_in_file (dir, INDEX, "layers.7.mlp.up_proj", "layers.97.mlp.up_proj");
  assert_plan_fails (dir, H3_ERROR_WRONG_TYPE,
      "model.language_model.layers.7.mlp.up_proj.weight", "missing");
  h3_test_remove_tree (root);
}

static void
replace_bytes (gchar *bytes, gsize size, const gchar *from, const gchar *to)
{
  const gsize length = strlen (from);

  g_assert_cmpuint (strlen (to), ==, length);
  for (gsize i = 0; i + length <= size; i++) {
    if (memcmp (bytes + i, from, length) == 0)
      memcpy (bytes + i, to, length);
  }
}

/* Exchanges two names of the same length in all files. */
static void
swap_names (const gchar *dir, const gchar *a, const gchar *b)
{
  g_autoptr (GDir) files = g_dir_open (dir, 0, NULL);
  g_autofree gchar *other = g_strnfill (strlen (a), '~');
  const gchar *file;

  while ((file = g_dir_read_name (files))) {
    g_autofree gchar *path = g_build_filename (dir, file, NULL);
    g_autofree gchar *bytes = NULL;
    gsize size;

    g_assert_true (g_file_get_contents (path, &bytes, &size, NULL));
    replace_bytes (bytes, size, a, other);
    replace_bytes (bytes, size, b, a);
    replace_bytes (bytes, size, other, b);
    h3_test_write_file (path, bytes, size);
  }
}

/* Shapes that are wrong in one layer only, also where the sum of the rows is
 * right. */
static void
test_wrong_shapes (void)
{
  static const gchar *const pairs[][2] = {
    { "layers.7.self_attn.q_proj", "layers.7.self_attn.k_proj" },
    { "layers.7.self_attn.q_proj", "layers.7.self_attn.o_proj" },
    { "layers.7.mlp.gate_proj", "layers.7.mlp.down_proj" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++) {
    g_autofree gchar *root = NULL;
    g_autofree gchar *dir = copy_encoder (&root);

    swap_names (dir, pairs[i][0], pairs[i][1]);
    assert_plan_fails (dir, H3_ERROR_WRONG_TYPE, pairs[i][0], "expected");
    h3_test_remove_tree (root);
  }
}

static void
test_missing_config (void)
{
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);
  g_autofree gchar *config = g_build_filename (dir, "config.json", NULL);
  g_autoptr (H3Checkpoint) checkpoint = open_checkpoint (dir);
  g_autoptr (GError) error = NULL;
  guint64 bytes;

  h3_test_remove_tree (config);
  g_assert_false (h3_text_model_plan (checkpoint, NULL, NULL, &bytes, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, "config.json");
  h3_test_remove_tree (root);
}

/* Layers past 49, the final norm, lm_head and the vision tower may be absent,
 * and what they hold does not matter. */
static void
test_unused_tensors (void)
{
  static const gchar *const unused[] = { "model.language_model.layers.50.",
    "model.language_model.layers.51.", "model.language_model.norm.", "lm_head.",
    "model.visual." };
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);
  g_autofree gchar *path = g_build_filename (dir, INDEX, NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (GList) names = NULL;
  g_autoptr (H3TextModel) whole = load_tiny ();
  g_autoptr (H3TextModel) model = NULL;
  g_autofree gfloat *a = NULL, *b = NULL;
  const gint n = G_N_ELEMENTS (some_ids);
  const gsize bytes =
      n * h3_text_model_config (whole)->hidden * sizeof (gfloat);
  guint removed = 0;
  JsonObject *map;

  g_assert_true (json_parser_load_from_file (parser, path, NULL));
  map = json_object_get_object_member (json_node_get_object (
                                           json_parser_get_root (parser)),
      "weight_map");
  names = json_object_get_members (map);
  for (GList *l = names; l; l = l->next) {
    g_autofree gchar *name = g_strdup (l->data);

    for (guint i = 0; i < G_N_ELEMENTS (unused); i++) {
      if (!g_str_has_prefix (name, unused[i]))
        continue;
      json_object_remove_member (map, name);
      removed++;
      break;
    }
  }
  g_assert_cmpuint (removed, >, 2 * 11 + 2);
  json_generator_set_root (generator, json_parser_get_root (parser));
  g_assert_true (json_generator_to_file (generator, path, NULL));

  model = load (dir);
  a = encode (whole, some_ids, n);
  b = encode (model, some_ids, n);
  g_assert_cmpmem (a, bytes, b, bytes);
  h3_test_remove_tree (root);
}

static void
test_unexpected_tensor (void)
{
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);

  replace_in_file (dir, INDEX, "lm_head.weight", "lm_tail.weight");
  assert_plan_fails (dir, H3_ERROR_WRONG_TYPE, "lm_tail.weight", "unexpected");
  h3_test_remove_tree (root);
}

/* Rewrites every element of one tensor, wherever it is stored. */
static void
fill_tensor (const gchar *dir, const gchar *tensor, guint16 bf16)
{
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (dir, NULL);
  const H3StoredTensor *stored = h3_tensor_set_get (set, tensor, NULL);
  g_autofree guint16 *values = g_malloc (stored->bytes);

  for (gsize i = 0; i < stored->bytes / sizeof bf16; i++)
    values[i] = bf16;
  h3_test_patch_file (stored->path, stored->offset, values, stored->bytes);
}

/* Finite weights whose products are not: the message names the row. */
static void
test_not_finite (void)
{
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);
  g_autoptr (H3TextModel) model = NULL;
  g_autoptr (H3Stream) stream = new_stream ();
  g_autoptr (H3Tensor) state = NULL;
  g_autoptr (GError) error = NULL;

  fill_tensor (dir, "model.language_model.layers.30.mlp.down_proj.weight",
      0x7f7f); /* 3.4e38 */
  model = load (dir);
  state = h3_text_model_encode (model, stream, &some_input, NULL, NULL, &error);
  g_assert_null (state);
  h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, "row 0", "id 32");
  h3_test_remove_tree (root);
}

int
main (int argc, char **argv)
{
  gint result;

  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  device = h3_test_device_new (0);

  g_test_add_func ("/text-model/hidden-states", test_hidden_states);
  g_test_add_func ("/text-model/requests/tiny", test_tiny_requests);
  g_test_add_func ("/text-model/requests/demo", test_demo_requests);
  g_test_add_func ("/text-model/diffusers-layout", test_diffusers_layout);
  g_test_add_func ("/text-model/causal", test_causal);
  g_test_add_func ("/text-model/many-rows", test_many_rows);
  g_test_add_func ("/text-model/cancel", test_cancel);
  g_test_add_func ("/text-model/cancel-load", test_cancel_load);
  g_test_add_func ("/text-model/plan", test_plan);
  g_test_add_func ("/text-model/bad-ids", test_bad_ids);
  g_test_add_func ("/text-model/bad-config", test_bad_config);
  g_test_add_func ("/text-model/missing-keys", test_missing_config_keys);
  g_test_add_func ("/text-model/too-few-layers", test_too_few_layers);
  g_test_add_func ("/text-model/missing-tensor", test_missing_tensor);
  g_test_add_func ("/text-model/wrong-shapes", test_wrong_shapes);
  g_test_add_func ("/text-model/missing-config", test_missing_config);
  g_test_add_func ("/text-model/unused-tensors", test_unused_tensors);
  g_test_add_func ("/text-model/unexpected-tensor", test_unexpected_tensor);
  g_test_add_func ("/text-model/not-finite", test_not_finite);
  result = g_test_run ();
  h3_device_unref (device);
  return result;
}
