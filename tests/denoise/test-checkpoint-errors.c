/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checkpoints that are not what they say: each is refused before a weight is
 * loaded, with a message that names what is wrong. */
#include "test-denoise.h"

#include <math.h>

/* What is different about one tensor in a rewritten checkpoint. */
typedef struct {
  const gchar *name;
  const gchar *rename; /* "": left out */
  gint64 shape[2];     /* of a matrix or, with [1] 0, a vector; zeros then */
  const gchar *dtype;  /* its bytes are kept when it is as wide */
  gfloat first;        /* written over the first element when not 0 */
} Edit;

typedef struct {
  gchar *dir;
  const Edit *edits;
  guint n_edits;
  const gchar *key, *value; /* another value in config.json */
  gboolean no_config, diffusers, pruned;
} Damage;

static const Edit *
edit_of (const Damage *damage, const gchar *name)
{
  for (guint i = 0; i < damage->n_edits; i++)
    if (g_str_equal (damage->edits[i].name, name))
      return &damage->edits[i];
  return NULL;
}

static gchar *
source_dir (const Damage *damage)
{
  if (damage->pruned) {
    g_autofree gchar *root = h3_test_tiny_curve_dir ("diffusers-pruned-2");

    return g_build_filename (root, "transformer", NULL);
  }
  if (damage->diffusers)
    return g_build_filename (h3_test_tiny_diffusers_dir (), "transformer",
        NULL);
  return g_build_filename (h3_test_tiny_dir (), "FL2VA", "transformer", NULL);
}

/* Appends one tensor's header entry and bytes. */
static void
append_tensor (GString *header, GByteArray *data, const H3StoredTensor *tensor,
    const Edit *edit)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) shape = g_string_new (NULL);
  gsize begin = data->len, bytes = tensor->bytes;
  gsize width = h3_stored_type_size (tensor->type);

  if (edit && edit->shape[0] > 0) {
    bytes = width * edit->shape[0] * MAX (1, edit->shape[1]);
    g_string_printf (shape, edit->shape[1] > 0 ? "%d,%d" : "%d",
        (gint) edit->shape[0], (gint) edit->shape[1]);
    g_byte_array_set_size (data, begin + bytes);
    memset (data->data + begin, 0, bytes);
  } else {
    for (guint i = 0; i < tensor->rank; i++)
      g_string_append_printf (shape, "%s%d", i ? "," : "",
          (gint) tensor->shape[i]);
    g_byte_array_set_size (data, begin + bytes);
    h3_stored_tensor_read (tensor, 0, bytes, data->data + begin, &error);
    g_assert_no_error (error);
  }
  if (edit && edit->first != 0) {
    guint32 bits;

    memcpy (&bits, &edit->first, sizeof bits);
    if (width == 2)
      bits >>= 16; /* bfloat16 */
    memcpy (data->data + begin, &bits, width);
  }
  g_string_append_printf (header,
      "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}",
      header->len > 1 ? "," : "",
      edit && edit->rename ? edit->rename : tensor->name,
      edit && edit->dtype ? edit->dtype : h3_stored_type_name (tensor->type),
      shape->str, (gint) begin, (gint) data->len);
}

static void
write_weights (const Damage *damage, const gchar *from, const gchar *to)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (from, &error);
  g_autoptr (GString) header = g_string_new ("{");
  g_autoptr (GByteArray) data = g_byte_array_new ();
  g_autoptr (GByteArray) file = g_byte_array_new ();
  g_autofree gchar *path = g_build_filename (to, "model.safetensors", NULL);
  const GPtrArray *names;
  guint64 size;

  g_assert_no_error (error);
  names = h3_tensor_set_names (set);
  for (guint i = 0; i < names->len; i++) {
    const gchar *name = g_ptr_array_index (names, i);
    const Edit *edit = edit_of (damage, name);
    const H3StoredTensor *tensor;

    if (edit && edit->rename && !*edit->rename)
      continue;
    tensor = h3_tensor_set_get (set, name, &error);
    g_assert_no_error (error);
    append_tensor (header, data, tensor, edit);
  }
  g_string_append_c (header, '}');
  size = GUINT64_TO_LE (header->len);
  g_byte_array_append (file, (const guint8 *) &size, sizeof size);
  g_byte_array_append (file, (const guint8 *) header->str, header->len);
  g_byte_array_append (file, data->data, data->len);
  h3_test_write_file (path, file->data, file->len);
}

static void
write_config (const Damage *damage, const gchar *from, const gchar *to)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *source = g_build_filename (from, "config.json", NULL);
  g_autofree gchar *path = g_build_filename (to, "config.json", NULL);
  g_autofree gchar *text = NULL;

  g_file_get_contents (source, &text, NULL, &error);
  g_assert_no_error (error);
  if (damage->key) {
    g_autofree gchar *pattern =
        g_strdup_printf ("\"%s\"\\s*:\\s*(\\[[^]]*\\]|[^],}\\s]+)",
            damage->key);
    g_autofree gchar *entry =
        g_strdup_printf ("\"%s\": %s", damage->key, damage->value);
    g_autoptr (GRegex) regex = g_regex_new (pattern, 0, 0, &error);
    gchar *edited;

    g_assert_no_error (error);
    g_assert_true (g_regex_match (regex, text, 0, NULL));
    edited = g_regex_replace_literal (regex, text, -1, 0, entry, 0, &error);
    g_assert_no_error (error);
    g_free (text);
    text = edited;
  }
  h3_test_write_file (path, text, strlen (text));
}

/* A partition's folder with a transformer in it. */
static void
damage_write (Damage *damage)
{
  g_autofree gchar *from = source_dir (damage);
  g_autofree gchar *to = NULL;

  damage->dir = h3_test_temp_dir ();
  to = g_build_filename (damage->dir, "transformer", NULL);
  g_assert_cmpint (g_mkdir_with_parents (to, 0700), ==, 0);
  if (!damage->no_config)
    write_config (damage, from, to);
  write_weights (damage, from, to);
}

static void
damage_clear (Damage *damage)
{
  h3_test_remove_tree (damage->dir);
  g_clear_pointer (&damage->dir, g_free);
}

static H3Transformer *
load (const Damage *damage, const H3TestDevice *d, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (damage->dir, H3_PARTITION_FL2VA, &local);

  g_assert_no_error (local);
  return h3_transformer_load (checkpoint, d->device, NULL, NULL, NULL, error);
}

static void
check (Damage damage, H3Error code, const gchar *first, const gchar *second)
{
  g_autoptr (GError) error = NULL;
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (H3Transformer) transformer = NULL;

  h3_test_device_init (&d, 1);
  damage_write (&damage);
  transformer = load (&damage, &d, &error);
  g_assert_null (transformer);
  h3_test_assert_h3_error (error, code, first, second);
  damage_clear (&damage);
}

/* The rewriting itself, which makes one file of the shards, breaks nothing;
 * and without config.json the shapes say enough. */
static void
test_intact (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  Damage kinds[] = { { 0 }, { .diffusers = TRUE }, { .no_config = TRUE },
    { .pruned = TRUE } };

  h3_test_device_init (&d, 1);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (H3Transformer) transformer = NULL;

    damage_write (&kinds[i]);
    transformer = load (&kinds[i], &d, &error);
    g_assert_no_error (error);
    g_assert_cmpint (h3_transformer_config (transformer)->layers, ==, 3);
    damage_clear (&kinds[i]);
  }
}

static void
check_keys (const gchar *const keys[][2], guint n, gboolean diffusers)
{
  for (guint i = 0; i < n; i++) {
    Damage damage = { .diffusers = diffusers,
      .key = keys[i][0],
      .value = keys[i][1] };

    check (damage, H3_ERROR_WRONG_TYPE, "config.json", keys[i][0]);
  }
}

static void
test_config (void)
{
  static const gchar *const official[][2] = { { "hidden_size", "64" },
    { "num_layers", "50" }, { "token_refiner_num_layers", "1" },
    { "num_attention_heads", "4" }, { "attention_head_dim", "16" },
    { "ffn_hidden_size", "160" }, { "audio_latents_dim", "32" },
    { "latents_dim", "24" }, { "text_dim", "5120" },
    { "timestep_input_dim", "256" }, { "time_embed_hidden_size", "48" },
    { "time_embed_dim", "2688" }, { "adaln_out_features", "863" },
    { "final_adaln_out_features", "1" }, { "rope_inv_freq_len", "5" },
    { "hidden_size", "\"wide\"" }, { "hidden_size", "48.5" },
    { "final_norm_eps", "-1" }, { "norm_eps", "\"small\"" },
    { "patch_size", "[2, 2, 2]" }, { "patch_size", "[1, 2]" },
    { "patch_size", "[1, 2, 2, 1]" } };
  static const gchar *const diffusers[][2] = { { "num_refiner_layers", "3" },
    { "ffn_dim", "40" }, { "in_channels", "5" }, { "audio_in_channels", "9" },
    { "freq_dim", "31" }, { "time_embed_hidden_dim", "57" },
    { "rope_theta", "0" }, { "rope_freq_dim", "0" }, { "qk_norm_eps", "-1" } };

  check_keys (official, G_N_ELEMENTS (official), FALSE);
  check_keys (diffusers, G_N_ELEMENTS (diffusers), TRUE);
}

/* More rotating dimensions than a head has. */
static void
test_config_rope (void)
{
  Damage damage = { .diffusers = TRUE, .key = "rope_freq_dim", .value = "6" };

  check (damage, H3_ERROR_WRONG_TYPE, "rotary", "36");
}

static void
check_edit (Edit edit, gboolean diffusers, H3Error code, const gchar *first,
    const gchar *second)
{
  Damage damage = { .edits = &edit, .n_edits = 1, .diffusers = diffusers };

  check (damage, code, first, second);
}

static void
test_missing (void)
{
  static const gchar *const official[] = { "blocks.2.norm1.weight",
    "blocks.1.attn.qkv_proj.weight", "blocks.0.mlp.fc2.weight",
    "blocks.1.adaln_proj.linear.bias", "token_refiner.final_norm.weight",
    "token_refiner.blocks.1.attn.k_norm.weight", "condition_proj.bias",
    "audio_patch_proj.weight", "time_embedder.proj_in.weight",
    "final_layer.norm.weight", "final_layer.adaln_proj.linear.weight",
    "final_layer.video_out.weight", "final_layer.audio_out.bias" };
  static const gchar *const diffusers[] = {
    "transformer_blocks.1.attn.to_k.weight",
    "transformer_blocks.2.ff.net.0.proj.weight",
    "token_refiner.refiner_blocks.0.attn.to_out.0.weight",
    "time_embedder.linear_2.bias", "norm_out.linear.weight",
    "audio_proj_out.weight"
  };

  for (guint i = 0; i < G_N_ELEMENTS (official); i++)
    check_edit ((Edit){ official[i], "" }, FALSE, H3_ERROR_WRONG_TYPE,
        official[i], "transformer");
  for (guint i = 0; i < G_N_ELEMENTS (diffusers); i++)
    check_edit ((Edit){ diffusers[i], "" }, TRUE, H3_ERROR_WRONG_TYPE,
        diffusers[i], "transformer");
}

/* All of block 1, or of the last, or of another component. */
static void
test_missing_block (void)
{
  static const gchar *const suffixes[] = { "norm1.weight", "norm2.weight",
    "attn.qkv_proj.weight", "attn.q_norm.weight", "attn.k_norm.weight",
    "attn.out_proj.weight", "mlp.fc1.weight", "mlp.fc2.weight",
    "adaln_proj.linear.weight", "adaln_proj.linear.bias" };
  Edit edits[G_N_ELEMENTS (suffixes)] = { 0 };
  gchar *names[G_N_ELEMENTS (suffixes)];
  Damage damage = { .edits = edits, .n_edits = G_N_ELEMENTS (edits) };

  for (gint block = 1; block <= 2; block++) {
    for (guint i = 0; i < G_N_ELEMENTS (suffixes); i++) {
      names[i] = g_strdup_printf ("blocks.%d.%s", block, suffixes[i]);
      edits[i] = (Edit){ names[i], "" };
    }
    if (block == 1)
      check (damage, H3_ERROR_WRONG_TYPE, "not contiguous", "blocks.1");
    else
      check (damage, H3_ERROR_WRONG_TYPE, "num_layers = 3", "give 2");
    for (guint i = 0; i < G_N_ELEMENTS (suffixes); i++)
      g_free (names[i]);
  }
  check_edit ((Edit){ "video_patch_proj.weight", "" }, FALSE,
      H3_ERROR_WRONG_TYPE, "not a MiniMax H3 transformer",
      "video_patch_proj.weight");
}

static void
test_unexpected (void)
{
  check_edit ((Edit){ "blocks.1.norm1.weight", "blocks.1.norm3.weight" }, FALSE,
      H3_ERROR_WRONG_TYPE, "blocks.1.norm1.weight", "blocks.1.norm3.weight");
}

static void
test_shapes (void)
{
  static const Edit edits[] = {
    { "blocks.0.adaln_proj.linear.weight", NULL, { 863, 36 } },
    { "blocks.2.adaln_proj.linear.weight", NULL, { 864, 35 } },
    { "blocks.1.adaln_proj.linear.bias", NULL, { 288, 0 } },
    { "final_layer.adaln_proj.linear.weight", NULL, { 95, 36 } },
    { "blocks.1.attn.qkv_proj.weight", NULL, { 191, 48 } },
    { "blocks.1.attn.out_proj.weight", NULL, { 64, 48 } },
    { "blocks.1.mlp.fc1.weight", NULL, { 80, 48 } },
    { "blocks.2.norm2.weight", NULL, { 47, 0 } },
    { "token_refiner.blocks.0.attn.q_norm.weight", NULL, { 31, 0 } },
    { "time_embedder.proj_in.bias", NULL, { 36, 0 } },
    { "final_layer.video_out.bias", NULL, { 4, 0 } },
    { "final_layer.video_out.weight", NULL, { 15, 48 } },
    { "audio_patch_proj.weight", NULL, { 47, 8 } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (edits); i++)
    check_edit (edits[i], FALSE, H3_ERROR_WRONG_TYPE, edits[i].name,
        "expected");
}

/* Shapes the geometry itself is read from. */
static void
test_geometry (void)
{
  check_edit ((Edit){ "video_patch_proj.weight", NULL, { 48, 15 } }, FALSE,
      H3_ERROR_WRONG_TYPE, "video_patch_proj.weight", "multiple of 4");
  check_edit ((Edit){ "video_patch_proj.weight", NULL, { 768, 0 } }, FALSE,
      H3_ERROR_WRONG_TYPE, "video_patch_proj.weight", "1 dimensions");
  check_edit ((Edit){ "blocks.0.attn.qkv_proj.weight", NULL, { 191, 48 } },
      FALSE, H3_ERROR_WRONG_TYPE, "blocks.0.attn.qkv_proj.weight",
      "attention heads");
  check_edit ((Edit){ "blocks.0.mlp.fc1.weight", NULL, { 161, 48 } }, FALSE,
      H3_ERROR_WRONG_TYPE, "blocks.0.mlp.fc1.weight", "gate and value");
  check_edit ((Edit){ "time_embedder.proj_in.weight", NULL, { 56, 31 } }, FALSE,
      H3_ERROR_WRONG_TYPE, "timestep", "pairs");
  check_edit ((Edit){ "blocks.1.norm1.weight", "blocks.99999.norm1.weight" },
      FALSE, H3_ERROR_WRONG_TYPE, "blocks.99999", "past");
  check_edit ((Edit){ "blocks.1.norm1.weight",
                  "blocks.99999999999999999999999.norm1.weight" },
      FALSE, H3_ERROR_WRONG_TYPE, "blocks.99999", "past");
  check_edit ((Edit){ "transformer_blocks.0.attn.to_q.weight", NULL,
                  { 63, 48 } },
      TRUE, H3_ERROR_WRONG_TYPE, "transformer_blocks.0.attn.to_q.weight",
      "attention heads");
  check_edit ((Edit){ "transformer_blocks.1.attn.to_v.weight", NULL,
                  { 32, 48 } },
      TRUE, H3_ERROR_WRONG_TYPE, "transformer_blocks.1.attn.to_", "expected");
}

static void
test_variants (void)
{
  check_edit ((Edit){ "blocks.1.norm1.weight", "adaln_t_table" }, FALSE,
      H3_ERROR_WRONG_TYPE, "pruned", "full");
  check_edit ((Edit){ "transformer_blocks.1.norm1.weight",
                  "time_embedder.table" },
      TRUE, H3_ERROR_WRONG_TYPE, "pruned", "full");
  check_edit ((Edit){ "condition_proj.weight", "control_proj_in.weight" },
      FALSE, H3_ERROR_WRONG_TYPE, "ControlNet", "transformer");
  check_edit ((Edit){ "final_layer.video_out.weight", NULL, { 512, 48 } },
      FALSE, H3_ERROR_WRONG_TYPE, "bank of 32 output heads", "PDD");
  check_edit ((Edit){ "final_layer.audio_out.weight", NULL, { 256, 48 } },
      FALSE, H3_ERROR_WRONG_TYPE, "bank of 32 output heads", "PDD");
}

/* A curve says in other words what a full file says, and some things more. */
static void
test_curve (void)
{
  static const gchar table[] = "time_embedder.table";
  static const gchar mean[] = "adaln_mean", basis[] = "adaln_basis";
  static const gchar bias[] = "transformer_blocks.1.adaln_proj.folded_bias";
  static const struct {
    Edit edit;
    H3Error code;
    const gchar *first, *second;
  } cases[] = {
    { { table, "" }, H3_ERROR_WRONG_TYPE, "time_embedder.linear_1.weight" },
    { { table, NULL, { 1, 2 } }, H3_ERROR_WRONG_TYPE, table, "1 row" },
    { { table, NULL, { 1025, 0 } }, H3_ERROR_WRONG_TYPE, table,
        "1 dimensions" },
    { { table, NULL, { 1025, 3 } }, H3_ERROR_WRONG_TYPE, "config.json",
        "adaln_rank = 2" },
    { { "norm_out.linear.weight", NULL, { 96, 3 } }, H3_ERROR_WRONG_TYPE,
        "norm_out.linear.weight", "rows of 2" },
    { { "transformer_blocks.2.adaln_proj.linear.weight", NULL, { 863, 2 } },
        H3_ERROR_WRONG_TYPE, "transformer_blocks.2.adaln_proj.linear.weight",
        "expected [864, 2]" },
    { { table, .dtype = "I32" }, H3_ERROR_WRONG_TYPE, table, "I32" },
    { { table, .first = NAN }, H3_ERROR_NUMERIC, table, "finite" },
    { { basis, "" }, H3_ERROR_WRONG_TYPE, "unexpected", mean },
    { { mean, "" }, H3_ERROR_WRONG_TYPE, "missing", mean },
    { { mean, NULL, { 35, 0 } }, H3_ERROR_WRONG_TYPE, mean, "expected [36]" },
    { { basis, NULL, { 3, 36 } }, H3_ERROR_WRONG_TYPE, basis,
        "expected [2, 36]" },
    { { basis, .first = INFINITY }, H3_ERROR_NUMERIC, basis, "finite" },
    { { bias, "" }, H3_ERROR_WRONG_TYPE, "missing",
        "transformer_blocks.1.adaln_proj" },
    { { bias, "transformer_blocks.1.adaln_proj.bias" }, H3_ERROR_WRONG_TYPE,
        "unexpected", "transformer_blocks.1.adaln_proj.bias" },
    { { "norm_out.folded_bias", NULL, { 95, 0 } }, H3_ERROR_WRONG_TYPE,
        "norm_out.folded_bias", "expected" },
    { { "proj_out.weight", NULL, { 512, 48 } }, H3_ERROR_WRONG_TYPE,
        "bank of 32 output heads", "PDD" },
  };
  static const gchar *const keys[][2] = { { "adaln_rank", "8" },
    { "time_table_size", "1001" }, { "time_embed_dim", "2688" },
    { "hidden_size", "64" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check ((Damage){ .edits = &cases[i].edit, .n_edits = 1, .pruned = TRUE },
        cases[i].code, cases[i].first,
        cases[i].second ? cases[i].second : "transformer");
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    check ((Damage){ .pruned = TRUE, .key = keys[i][0], .value = keys[i][1] },
        H3_ERROR_WRONG_TYPE, "config.json", keys[i][0]);
  check ((Damage){ .diffusers = TRUE,
             .key = "_class_name",
             .value = "\"MiniMaxH3PrunedTransformer3DModel\"" },
      H3_ERROR_WRONG_TYPE, "config.json", "no table");
}

/* Each tensor has either spelling for itself; and the basis may be absent. */
static void
test_curve_spelling (void)
{
  static const Edit edits[] = {
    { "time_embedder.table", "adaln_t_table" },
    { "transformer_blocks.1.adaln_proj.folded_bias",
        "transformer_blocks.1.adaln_proj.linear.bias" },
    { "norm_out.folded_bias", "norm_out.linear.bias" },
    { "adaln_basis", "" },
    { "adaln_mean", "" },
  };
  Damage damage = { .pruned = TRUE,
    .edits = edits,
    .n_edits = G_N_ELEMENTS (edits) };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Transformer) transformer = NULL;

  h3_test_device_init (&d, 1);
  damage_write (&damage);
  transformer = load (&damage, &d, &error);
  g_assert_no_error (error);
  g_assert_cmpint (h3_transformer_config (transformer)->curve_width, ==, 2);
  g_assert_cmpint (h3_transformer_config (transformer)->time_dim, ==, 0);
  damage_clear (&damage);
}

static void
keep_log (const gchar *domain, GLogLevelFlags level, const gchar *text,
    gpointer kept)
{
  g_string_append (kept, text);
}

/* Gates of sparse attention are left out, and the log says so. */
static void
test_gates (void)
{
  static const Edit edit = { "rope.inv_freq",
    "blocks.1.attn.to_gate_compress.weight" };
  Damage damage = { .edits = &edit, .n_edits = 1 };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Transformer) transformer = NULL;
  g_autoptr (GString) log = g_string_new (NULL);
  guint handler = g_log_set_handler ("h3", G_LOG_LEVEL_INFO, keep_log, log);

  h3_test_device_init (&d, 1);
  damage_write (&damage);
  transformer = load (&damage, &d, &error);
  g_assert_no_error (error);
  g_assert_nonnull (strstr (log->str, "VSA"));
  g_assert_nonnull (strstr (log->str, "of 1 block"));
  g_log_remove_handler ("h3", handler);
  damage_clear (&damage);
}

static void
test_values (void)
{
  static const Edit edits[] = {
    { "blocks.2.mlp.fc1.weight", .first = NAN },
    { "blocks.0.attn.qkv_proj.weight", .first = INFINITY },
    { "final_layer.audio_out.bias", .first = NAN },
    { "token_refiner.final_norm.weight", .first = -INFINITY },
  };

  for (guint i = 0; i < G_N_ELEMENTS (edits); i++)
    check_edit (edits[i], FALSE, H3_ERROR_NUMERIC, edits[i].name, "finite");
}

static void
test_types (void)
{
  check_edit ((Edit){ "blocks.1.mlp.fc2.weight", .dtype = "I16" }, FALSE,
      H3_ERROR_WRONG_TYPE, "blocks.1.mlp.fc2.weight", "I16");
  check_edit ((Edit){ "video_patch_proj.bias", .dtype = "I32" }, FALSE,
      H3_ERROR_WRONG_TYPE, "video_patch_proj.bias", "I32");
}

/* A stop asked for while loading. */
static void
test_stop (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };

  h3_test_device_init (&d, 1);
  for (gint at = 0; at < 60; at += 7) {
    g_autoptr (GError) error = NULL;
    g_autoptr (H3Checkpoint) checkpoint =
        h3_checkpoint_open (h3_test_tiny_dir (), H3_PARTITION_FL2VA, &error);
    H3TestStop stop;

    g_assert_no_error (error);
    h3_test_stop_init (&stop, at);
    g_assert_null (h3_transformer_load (checkpoint, d.device, &stop.stop, NULL,
        NULL, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
  }
}

void
h3_test_add_checkpoint_errors (void)
{
  g_test_add_func ("/checkpoint/intact", test_intact);
  g_test_add_func ("/checkpoint/config", test_config);
  g_test_add_func ("/checkpoint/config-rope", test_config_rope);
  g_test_add_func ("/checkpoint/missing", test_missing);
  g_test_add_func ("/checkpoint/missing-block", test_missing_block);
  g_test_add_func ("/checkpoint/unexpected", test_unexpected);
  g_test_add_func ("/checkpoint/shapes", test_shapes);
  g_test_add_func ("/checkpoint/geometry", test_geometry);
  g_test_add_func ("/checkpoint/variants", test_variants);
  g_test_add_func ("/checkpoint/curve", test_curve);
  g_test_add_func ("/checkpoint/curve-spelling", test_curve_spelling);
  g_test_add_func ("/checkpoint/gates", test_gates);
  g_test_add_func ("/checkpoint/values", test_values);
  g_test_add_func ("/checkpoint/types", test_types);
  g_test_add_func ("/checkpoint/stop", test_stop);
}
