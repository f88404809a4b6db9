/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adapters that are none, do not fit, or are hostile. */
#include "test-adapters.h"

#include <math.h>

#define FC2 "blocks.1.mlp.fc2"
/* of the tiny transformer's fc2 */
#define IN 80
#define OUT 48

/* A small file in a folder of its own, and what becomes of it. */
typedef struct {
  gchar *dir, *path;
  H3TestFile file;
} Made;

static void
made_init (Made *made)
{
  made->dir = h3_test_temp_dir ();
  made->path = g_build_filename (made->dir, "a.safetensors", NULL);
  h3_test_file_init (&made->file);
}

static void
made_clear (Made *made)
{
  h3_test_file_clear (&made->file);
  h3_test_remove_tree (made->dir);
  g_free (made->dir);
  g_free (made->path);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Made, made_clear)

static void
add (Made *made, const gchar *name, gint64 rows, gint64 cols)
{
  gfloat *values = g_new (gfloat, MAX (rows * MAX (cols, 1), 1));

  for (gint64 i = 0; i < rows * MAX (cols, 1); i++)
    values[i] = (gfloat) (i % 7) / 8 + 0.25f;
  h3_test_file_add (&made->file, name, rows, cols, values);
}

static void
add_pair (Made *made, const gchar *module, gint64 in, gint64 rank, gint64 out)
{
  g_autofree gchar *a = g_strconcat (module, ".lora_A.weight", NULL);
  g_autofree gchar *b = g_strconcat (module, ".lora_B.weight", NULL);

  add (made, a, rank, in);
  add (made, b, out, rank);
}

/* What planning, or then loading, with the adapter says. */
static GError *
failure_on (const gchar *checkpoint, const gchar *path, gdouble strength)
{
  const H3AdapterChoice choice = { (gchar *) path, strength };
  g_auto (H3TestSetup) s = { 0 };
  g_autoptr (H3Transformer) transformer = NULL;
  H3TransformerConfig config;
  guint64 bytes;
  GError *error = NULL;

  h3_test_setup_init (&s, checkpoint, H3_QKV_AUTO, &choice, 1);
  if (h3_transformer_plan (s.checkpoint, s.device, &config, &bytes, &error))
    transformer =
        h3_transformer_load (s.checkpoint, s.device, NULL, NULL, NULL, &error);
  g_assert_true ((transformer == NULL) == (error != NULL));
  return error;
}

static GError *
failure (Made *made)
{
  h3_test_file_write (&made->file, made->path);
  return failure_on (h3_test_tiny_dir (), made->path, 1);
}

#define assert_fails(made, code, ...)                                          \
  G_STMT_START                                                                 \
  {                                                                            \
    g_autoptr (GError) failed = failure (made);                                \
                                                                               \
    h3_test_assert_h3_error (failed, code, (made)->path, __VA_ARGS__);         \
  }                                                                            \
  G_STMT_END

static void
test_pairs (void)
{
  {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 3, OUT);
    add (&made, "blocks.0.mlp.fc2.lora_A.weight", 2, IN);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "lora_B", "blocks.0.mlp.fc2",
        "missing");
  }
  {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add (&made, FC2 ".lora_up.weight", OUT, 2);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "lora_A", FC2, "missing");
  }
  {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 3, OUT);
    add (&made, "blocks.0.mlp.fc2.alpha", 1, 0);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "blocks.0.mlp.fc2.alpha",
        "missing");
  }
  { /* one factor by two names */
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 3, OUT);
    add (&made, FC2 ".lora_down.weight", 3, IN);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, FC2 ".lora_A.weight",
        FC2 ".lora_down.weight", "the same");
  }
  { /* one layer by two names */
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 3, OUT);
    add_pair (&made, "diffusion_model." FC2, IN, 3, OUT);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, FC2, "the same layer");
  }
}

static void
test_shapes (void)
{
  static const struct {
    gint64 in, rank, up_rank, out;
    const gchar *what;
  } cases[] = {
    { IN - 1, 2, 2, OUT, "has 80 columns" },
    { IN, 2, 2, OUT + 1, "needs 48 rows" },
    { IN, 2, 3, OUT, "one rank" },
    { IN, 0, 1, OUT, "a matrix with rows and columns" },
    { IN, 2, 0, OUT, "a matrix with rows and columns" },
    { 0, 2, 2, OUT, "a matrix with rows and columns" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add (&made, FC2 ".lora_A.weight", cases[i].rank, cases[i].in);
    add (&made, FC2 ".lora_B.weight", cases[i].out, cases[i].up_rank);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, FC2, cases[i].what);
  }
  { /* no product of the two needs as much memory */
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, IN, OUT);
    g_assert_null (failure (&made));
    h3_test_file_clear (&made.file);
    h3_test_file_init (&made.file);
    add_pair (&made, FC2, IN, IN + 1, OUT);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, FC2, "rank 81", "48, 80");
  }
  { /* a third of q, k, v has as many rows as its head's */
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, "transformer.transformer_blocks.0.attn.to_k", 48, 2, 63);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "to_k", "needs 64 rows");
  }
}

static void
test_alpha (void)
{
  static const gfloat bad[] = { NAN, INFINITY, -INFINITY };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_auto (Made) made = { 0 };
    gfloat *alpha = g_new (gfloat, 1);

    made_init (&made);
    *alpha = bad[i];
    add_pair (&made, FC2, IN, 2, OUT);
    h3_test_file_add (&made.file, FC2 ".alpha", 1, 0, alpha);
    assert_fails (&made, H3_ERROR_NUMERIC, FC2 ".alpha", "finite");
  }
  {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 2, OUT);
    add (&made, FC2 ".alpha", 2, 0);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, FC2 ".alpha", "one number");
  }
  { /* no number: left out, with a warning */
    g_auto (Made) made = { 0 };
    g_autoptr (GError) error = NULL;
    g_autoptr (H3Adapters) adapters = NULL;

    made_init (&made);
    add_pair (&made, FC2, IN, 2, OUT);
    made.file.metadata = g_strdup ("{\"alpha\":\"much\"}");
    g_assert_null (failure (&made));
    adapters = h3_adapters_open (&(H3AdapterChoice){ made.path, 1 }, 1, &error);
    g_assert_no_error (error);
    g_assert_cmpuint (h3_adapters_info (adapters, 0)->warnings->len, ==, 1);
    g_assert_cmpstr (h3_adapters_info (adapters, 0)->alpha, ==,
        "none, scale 1");
  }
}

static void
test_keys (void)
{
  { /* all of no layer */
    g_auto (Made) made = { 0 };

    made_init (&made);
    for (gint i = 0; i < 7; i++) {
      g_autofree gchar *name = g_strdup_printf ("blocks.%d.attn.banana", i);

      add_pair (&made, name, IN, 2, OUT);
    }
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "7 keys", "blocks.0.attn.banana",
        "blocks.3.attn.banana", "...");
  }
  { /* in part */
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 2, OUT);
    add_pair (&made, "blocks.01.mlp.fc2", IN, 2, OUT);
    add (&made, "blocks.1.mlp.fc2.lora_mid.weight", 2, 2);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "2 keys", "blocks.01.mlp.fc2",
        "lora_mid");
  }
  { /* of a transformer with more layers */
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 2, OUT);
    add_pair (&made, "blocks.7.mlp.fc2", IN, 2, OUT);
    add_pair (&made, "lora_unet_blocks_3_attn_out_proj", 64, 2, 48);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "2 layers", "blocks.7.mlp.fc2",
        "lora_unet_blocks_3_attn_out_proj");
  }
  {
    static const gchar *const refused[] = { FC2 ".diff", FC2 ".diff_b",
      FC2 ".set_weight" };

    for (guint i = 0; i < G_N_ELEMENTS (refused); i++) {
      g_auto (Made) made = { 0 };

      made_init (&made);
      add_pair (&made, FC2, IN, 2, OUT);
      add (&made, refused[i], 2, 2);
      assert_fails (&made, H3_ERROR_WRONG_TYPE, refused[i], "not supported");
    }
  }
  {
    g_auto (Made) made = { 0 };
    g_autoptr (GError) error = NULL;
    g_autoptr (H3Adapters) adapters = NULL;

    made_init (&made);
    add_pair (&made, FC2, IN, 2, OUT);
    add (&made, FC2 ".dora_scale", OUT, 1);
    g_assert_null (failure (&made));
    adapters = h3_adapters_open (&(H3AdapterChoice){ made.path, 1 }, 1, &error);
    g_assert_no_error (error);
    g_assert_cmpuint (h3_adapters_info (adapters, 0)->warnings->len, ==, 1);
  }
  {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 2, OUT);
    add (&made, "h3_pdd.bank.video.weight", 2, 2);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "PDD");
  }
  {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add (&made, FC2 ".dora_scale", 2, 2);
    assert_fails (&made, H3_ERROR_WRONG_TYPE, "no lora_A");
  }
}

/* All that is left out is said once, however many layers have it. */
static void
test_warnings (void)
{
  static const gchar *const wanted[] = { ".dora_scale, of 3 layers",
    "5 bytes after", "alpha \"much\"" };
  g_auto (Made) made = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Adapters) adapters = NULL;
  g_autofree gchar *bytes = NULL;
  const GPtrArray *warnings;
  gsize n;

  made_init (&made);
  for (gint i = 0; i < 3; i++) {
    g_autofree gchar *module = g_strdup_printf ("blocks.%d.mlp.fc2", i);
    g_autofree gchar *dora = g_strconcat (module, ".dora_scale", NULL);

    add_pair (&made, module, IN, 2, OUT);
    add (&made, dora, OUT, 1);
  }
  made.file.metadata = g_strdup ("{\"alpha\":\"much\"}");
  h3_test_file_write (&made.file, made.path);
  g_assert_true (g_file_get_contents (made.path, &bytes, &n, NULL));
  bytes = g_realloc (bytes, n + 5);
  memset (bytes + n, 0, 5);
  h3_test_write_file (made.path, bytes, n + 5);
  adapters = h3_adapters_open (&(H3AdapterChoice){ made.path, 1 }, 1, &error);
  g_assert_no_error (error);
  warnings = h3_adapters_info (adapters, 0)->warnings;
  g_assert_cmpuint (warnings->len, ==, G_N_ELEMENTS (wanted));
  for (guint i = 0; i < warnings->len; i++)
    g_assert_nonnull (strstr (warnings->pdata[i], wanted[i]));
}

/* Found when they are read, not before. */
static void
test_numbers (void)
{
  {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 2, OUT);
    ((gfloat *) made.file.values->pdata[1])[5] = NAN;
    assert_fails (&made, H3_ERROR_NUMERIC, FC2 ".lora_B.weight", "element 5",
        "NaN");
  }
  {
    g_auto (Made) made = { 0 };

    made_init (&made);
    add_pair (&made, FC2, IN, 2, OUT);
    ((gfloat *) made.file.values->pdata[0])[5] = 3e38f;
    ((gfloat *) made.file.values->pdata[1])[0] = 3e38f;
    assert_fails (&made, H3_ERROR_NUMERIC, FC2, "too large");
  }
}

static void
test_files (void)
{
  static const gdouble strengths[] = { NAN, INFINITY, 1e308 };
  g_autofree gchar *comfy = h3_test_adapter ("comfy");
  g_autofree gchar *pruned = h3_test_quantised ("int8-comfy-pruned");
  g_autofree gchar *transformer =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "transformer", NULL);
  g_autofree gchar *vae =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "audio_vae", NULL);
  g_autoptr (GError) error = NULL;

  error = failure_on (h3_test_tiny_dir (), "/nowhere/a.safetensors", 1);
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, "/nowhere/a.safetensors");
  g_clear_error (&error);
  error = failure_on (h3_test_tiny_dir (), "", 1);
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "adapter has no path");
  g_clear_error (&error);
  error = failure_on (h3_test_tiny_dir (), transformer, 1);
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, transformer,
      "transformer", "needed: a LoRA adapter");
  g_clear_error (&error);
  error = failure_on (h3_test_tiny_dir (), vae, 1);
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, "audio autoencoder",
      "needed: a LoRA adapter");
  for (guint i = 0; i < G_N_ELEMENTS (strengths); i++) {
    g_clear_error (&error);
    error = failure_on (h3_test_tiny_dir (), comfy, strengths[i]);
    h3_test_assert_h3_error (error,
        i < 2 ? H3_ERROR_SETTINGS : H3_ERROR_NUMERIC, comfy, "finite");
  }
  g_clear_error (&error);
  error = failure_on (pruned, comfy, 1);
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, comfy, "adaln_proj",
      "columns", "pruned");
}

/* Where an activation follows, no low rank can be added. */
static void
test_activated (void)
{
  g_autofree gchar *transformer =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "transformer", NULL);
  g_auto (Made) base = { 0 }, made = { 0 };
  g_autoptr (GError) error = NULL;

  made_init (&base);
  h3_test_file_read (&base.file, transformer);
  base.file.fp8 = "time_embedder.proj_in.weight";
  h3_test_file_write (&base.file, base.path);
  made_init (&made);
  add_pair (&made, FC2, IN, 2, OUT);
  h3_test_file_write (&made.file, made.path);
  error = failure_on (base.path, made.path, 1);
  g_assert_no_error (error);
  add_pair (&made, "time_embedder.proj_in", 32, 2, 56);
  h3_test_file_write (&made.file, made.path);
  error = failure_on (base.path, made.path, 1);
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, made.path,
      "time_embedder.proj_in", "quantised");
}

/* Whatever is in a file, it ends with an adapter or an error. */
static void
test_hostile (void)
{
  g_autofree gchar *comfy = h3_test_adapter ("comfy");
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "a.safetensors", NULL);
  g_autofree gchar *bytes = NULL;
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  guint bad = 0, rounds = 300;
  gsize n, header;

  g_assert_true (g_file_get_contents (comfy, &bytes, &n, NULL));
  header = GUINT64_FROM_LE (*(guint64 *) bytes);
  for (guint i = 0; i < rounds; i++) {
    g_autofree gchar *changed = g_memdup2 (bytes, n);
    g_autoptr (GError) error = NULL;

    for (gint k = g_rand_int_range (rand, 1, 4); k > 0; k--)
      changed[8 + g_rand_int_range (rand, 0, (gint32) header)] =
          "0123456789.\"{}[],:_AB"[g_rand_int_range (rand, 0, 21)];
    h3_test_write_file (path, changed, n);
    error = failure_on (h3_test_tiny_dir (), path, 1);
    bad += error != NULL;
  }
  g_assert_cmpuint (bad, >, rounds / 2);
  h3_test_remove_tree (dir);
}

void
h3_test_add_errors (void)
{
  g_test_add_func ("/adapters/errors/pairs", test_pairs);
  g_test_add_func ("/adapters/errors/shapes", test_shapes);
  g_test_add_func ("/adapters/errors/alpha", test_alpha);
  g_test_add_func ("/adapters/errors/keys", test_keys);
  g_test_add_func ("/adapters/errors/warnings", test_warnings);
  g_test_add_func ("/adapters/errors/numbers", test_numbers);
  g_test_add_func ("/adapters/errors/files", test_files);
  g_test_add_func ("/adapters/errors/activated", test_activated);
  g_test_add_func ("/adapters/errors/hostile", test_hostile);
}
