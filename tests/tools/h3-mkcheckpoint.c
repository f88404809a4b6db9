/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3-mkcheckpoint --like DIR --seed N --out DIR [--layout LAYOUT]
 *   [--encoding fp8|int8|nvfp4|mxfp8 [--markers FORM] [--decoded]]
 *   [--prefix PREFIX] [--rank R]
 *
 * DIR holds FL2VA/ and, where there is one, Ref2VA/: configuration, tokenizer
 * and index files in the official layout. Written is a complete checkpoint of
 * that geometry, with random weights by the recipe of tests/golden/README.md,
 * those that ComfyUI's files quantise in --encoding, or, with --decoded, as the
 * float32 numbers that the quantised ones stand for. A component is one file
 * then. LAYOUT: official, diffusers, comfy (ComfyUI's folders of single files);
 * comfy-pruned or diffusers-pruned: with AdaLN from a table of timesteps, R wide
 * in a basis of its own or, without --rank, the curve itself. ComfyUI's has F16
 * for AdaLN and the video autoencoder, diffusers' basis and mean. */
#include "mkcheckpoint.h"

#include <glib/gstdio.h>
#include <stdlib.h>

static gboolean
make_dir (const gchar *path, GError **error)
{
  if (g_mkdir_with_parents (path, 0777) == 0)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_OPEN, "%s: cannot make the folder",
      path);
  return FALSE;
}

/* Everything below @from but weights; index files when @with_index. */
static gboolean
copy_tree (const gchar *from, const gchar *to, gboolean with_index,
    GError **error)
{
  g_autoptr (GDir) dir = g_dir_open (from, 0, error);
  const gchar *name;

  if (!dir || !make_dir (to, error))
    return FALSE;
  while ((name = g_dir_read_name (dir))) {
    g_autofree gchar *source = g_build_filename (from, name, NULL);
    g_autofree gchar *target = g_build_filename (to, name, NULL);
    g_autofree gchar *text = NULL;
    gsize length;

    if (g_file_test (source, G_FILE_TEST_IS_DIR)) {
      if (!copy_tree (source, target, with_index, error))
        return FALSE;
      continue;
    }
    if (g_str_has_suffix (name, ".safetensors") ||
        (!with_index && g_str_has_suffix (name, ".safetensors.index.json")))
      continue;
    if (!g_file_get_contents (source, &text, &length, error) ||
        !g_file_set_contents (target, text, length, error))
      return FALSE;
  }
  return TRUE;
}

/* One component: where its configuration is, where it goes, what it is. */
typedef struct {
  const gchar *folder;    /* in the official layout */
  const gchar *recipe;    /* its name in the recipe */
  const gchar *weights;   /* the official file's folder, below @folder */
  const gchar *diffusers; /* folder in the diffusers layout */
  GPtrArray *(*tensors) (const gchar *dir, GError **error);
} Component;

static const Component fl2va[] = {
  { "transformer", "transformer", "", "transformer", mk_transformer_tensors },
  { "text_encoder", "text_encoder", "", "text_encoder",
      mk_text_encoder_tensors },
  { "video_vae", "video_vae", "source", "vae", mk_video_vae_tensors },
  { "audio_vae", "audio_vae", "", "audio_vae", mk_audio_vae_tensors },
};

static const Component ref2va[] = {
  { "transformer", "transformer_ref", "", "transformer_ref",
      mk_transformer_tensors },
};

static gboolean
write_official (const Component *c, const gchar *like, const gchar *out,
    const MkRecipe *recipe, GError **error)
{
  g_autofree gchar *dir = g_build_filename (like, c->folder, NULL);
  g_autofree gchar *index =
      g_build_filename (dir, "model.safetensors.index.json", NULL);
  g_autofree gchar *target =
      g_build_filename (out, c->folder, c->weights, NULL);
  g_autoptr (GPtrArray) tensors = NULL;
  g_autoptr (GPtrArray) stored = NULL;

  if (!g_file_test (dir, G_FILE_TEST_IS_DIR))
    return TRUE; /* a checkpoint may lack components */
  tensors = c->tensors (dir, error);
  if (!tensors)
    return FALSE;
  stored = mk_stored_official (tensors);
  if (recipe->encoding != MK_PLAIN || !g_file_test (index, G_FILE_TEST_EXISTS))
    mk_assign_single (stored, "model.safetensors");
  else if (!mk_assign_from_index (stored, index, error))
    return FALSE;
  return mk_write_weights (stored, target, c->recipe, recipe, error);
}

static gboolean
head_dim (const gchar *dir, const gchar *file, const gchar *key, gint *value,
    GError **error)
{
  g_autofree gchar *path = g_build_filename (dir, file, NULL);
  g_autoptr (H3Config) config = h3_config_open (path, error);

  return config && h3_config_get_int (config, key, 1, 1 << 16, value, error);
}

static gint
curve_rank (const GPtrArray *tensors, const MkRecipe *recipe)
{
  gint width =
      mk_tensor_find (tensors, "time_embedder.proj_out.weight")->shape[0];

  return recipe->rank > 0 ? MIN (recipe->rank, width) : width;
}

/* The configuration into @target; *stored, the tensors as diffusers has them.
 */
static gboolean
describe_diffusers (const Component *c, const gchar *dir,
    const GPtrArray *tensors, const gchar *target, const MkRecipe *recipe,
    GPtrArray **stored, GError **error)
{
  gint dim = 0;

  if (c->tensors == mk_transformer_tensors) {
    if (!mk_write_diffusers_transformer_config (dir, target,
            recipe->pruned ? curve_rank (tensors, recipe) : 0, error) ||
        !head_dim (dir, "config.json", "attention_head_dim", &dim, error))
      return FALSE;
    *stored = mk_stored_diffusers_transformer (tensors, dim);
    if (recipe->pruned) {
      g_autoptr (GPtrArray) full = *stored;

      *stored = mk_stored_prune (full, tensors, c->recipe, recipe, TRUE);
    }
    mk_assign_in_turn (*stored, "diffusion_pytorch_model", 2);
  } else if (c->tensors == mk_video_vae_tensors) {
    if (!mk_write_diffusers_video_vae_config (dir, target, error) ||
        !head_dim (dir, "source/config.json", "vit_decoder_kwargs.dim_head",
            &dim, error))
      return FALSE;
    *stored = mk_stored_diffusers_video_vae (tensors, dim);
    mk_assign_single (*stored, "diffusion_pytorch_model.safetensors");
  } else {
    if (!mk_write_diffusers_audio_vae_config (dir, target, error))
      return FALSE;
    *stored = mk_stored_official (tensors);
    mk_assign_single (*stored, "diffusion_pytorch_model.safetensors");
  }
  return TRUE;
}

static gboolean
write_diffusers (const Component *c, const gchar *like, const gchar *out,
    const MkRecipe *recipe, GError **error)
{
  g_autofree gchar *dir = g_build_filename (like, c->folder, NULL);
  g_autofree gchar *target = g_build_filename (out, c->diffusers, NULL);
  g_autofree gchar *index = g_build_filename (target,
      "diffusion_pytorch_model.safetensors.index.json", NULL);
  g_autoptr (GPtrArray) tensors = NULL;
  g_autoptr (GPtrArray) stored = NULL;
  gboolean plain = recipe->encoding == MK_PLAIN;

  if (!g_file_test (dir, G_FILE_TEST_IS_DIR))
    return TRUE;
  if (c->tensors == mk_text_encoder_tensors) /* the same in both layouts */
    return copy_tree (dir, target, plain, error) &&
           write_official (c, like, out, recipe, error);
  tensors = c->tensors (dir, error);
  if (!tensors || !make_dir (target, error) ||
      !describe_diffusers (c, dir, tensors, target, recipe, &stored, error))
    return FALSE;
  if (!plain) {
    for (guint i = 0; i < stored->len; i++)
      g_clear_pointer (&((MkStored *) stored->pdata[i])->shard, g_free);
    mk_assign_single (stored, "diffusion_pytorch_model.safetensors");
  }
  if (plain && c->tensors == mk_transformer_tensors &&
      !mk_write_index (stored, index, error))
    return FALSE;
  return mk_write_weights (stored, target, c->recipe, recipe, error);
}

static gboolean
make_official (const gchar *like, const gchar *partition,
    const Component *components, guint n, const gchar *out,
    const MkRecipe *recipe, GError **error)
{
  g_autofree gchar *from = g_build_filename (like, partition, NULL);
  g_autofree gchar *to = g_build_filename (out, partition, NULL);

  if (!copy_tree (from, to, recipe->encoding == MK_PLAIN, error))
    return FALSE;
  for (guint i = 0; i < n; i++) {
    if (!write_official (&components[i], from, to, recipe, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean
make_diffusers (const gchar *fl, const gchar *ref, const gchar *out,
    const MkRecipe *recipe, GError **error)
{
  static const gchar *const folders[] = { "tokenizer", "processor" };
  gboolean with_ref = g_file_test (ref, G_FILE_TEST_IS_DIR);

  if (!make_dir (out, error) ||
      !mk_write_diffusers_root (fl, with_ref, out, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (folders); i++) {
    g_autofree gchar *from = g_build_filename (fl, folders[i], NULL);
    g_autofree gchar *to = g_build_filename (out, folders[i], NULL);
    if (g_file_test (from, G_FILE_TEST_IS_DIR) &&
        !copy_tree (from, to, TRUE, error))
      return FALSE;
  }
  for (guint i = 0; i < G_N_ELEMENTS (fl2va); i++) {
    if (!write_diffusers (&fl2va[i], fl, out, recipe, error))
      return FALSE;
  }
  for (guint i = 0; with_ref && i < G_N_ELEMENTS (ref2va); i++) {
    if (!write_diffusers (&ref2va[i], ref, out, recipe, error))
      return FALSE;
  }
  return TRUE;
}

/* ComfyUI's folders */

typedef struct {
  const gchar *partition; /* whose folder the configuration is in */
  const Component *component;
  const gchar *folder, *file;
} ComfyFile;

static GPtrArray *
describe_comfy (const Component *c, const gchar *dir, const GPtrArray *tensors,
    const MkRecipe *recipe, GError **error)
{
  GPtrArray *stored;
  gint dim = 0;

  if (c->tensors == mk_text_encoder_tensors)
    return mk_stored_comfy_text_encoder (tensors);
  if (c->tensors == mk_video_vae_tensors)
    return mk_stored_comfy_video_vae (tensors, dir, recipe->pruned, error);
  if (c->tensors == mk_audio_vae_tensors)
    return mk_stored_comfy_audio_vae (tensors, dir, c->recipe, recipe->seed,
        error);
  if (!head_dim (dir, "config.json", "attention_head_dim", &dim, error))
    return NULL;
  stored = recipe->pruned
               ? mk_stored_pruned_transformer (tensors, dim, c->recipe, recipe)
               : mk_stored_comfy_transformer (tensors, dim);
  if (recipe->prefix)
    mk_stored_add_prefix (stored, recipe->prefix);
  return stored;
}

/* What the geometry of no released file needs: where values are that no tensor
 * shows. */
static gboolean
write_comfy_config (const Component *c, const gchar *dir, const gchar *target,
    GError **error)
{
  g_autofree gchar *from = g_build_filename (dir, "config.json", NULL);
  g_autofree gchar *to = g_build_filename (target, "config.json", NULL);
  g_autofree gchar *text = NULL;
  gsize length;

  if (c->tensors == mk_video_vae_tensors)
    return mk_write_diffusers_video_vae_config (dir, target, error);
  if (c->tensors != mk_text_encoder_tensors)
    return TRUE;
  return g_file_get_contents (from, &text, &length, error) &&
         g_file_set_contents (to, text, length, error);
}

static gboolean
make_comfy (const gchar *like, const gchar *out, const MkRecipe *recipe,
    GError **error)
{
  const ComfyFile files[] = {
    { "FL2VA", &fl2va[0], "diffusion_models",
        "minimax_h3_fl2va_bf16.safetensors" },
    { "Ref2VA", &ref2va[0], "diffusion_models",
        "minimax_h3_ref2va_bf16.safetensors" },
    { "FL2VA", &fl2va[1], "text_encoders",
        "qwen3vl_32b_minimax_h3_bf16.safetensors" },
    { "FL2VA", &fl2va[2], "vae", "minimax_h3_video_vae_fp16.safetensors" },
    { "FL2VA", &fl2va[3], "vae", "minimax_h3_audio_vae_fp32.safetensors" },
  };
  g_autofree gchar *from = g_build_filename (like, "FL2VA", "tokenizer", NULL);
  g_autofree gchar *to = g_build_filename (out, "tokenizer", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    const Component *c = files[i].component;
    g_autofree gchar *dir =
        g_build_filename (like, files[i].partition, c->folder, NULL);
    g_autofree gchar *target = g_build_filename (out, files[i].folder, NULL);
    g_autoptr (GPtrArray) tensors = NULL;
    g_autoptr (GPtrArray) stored = NULL;

    if (!g_file_test (dir, G_FILE_TEST_IS_DIR))
      continue;
    tensors = c->tensors (dir, error);
    stored = tensors ? describe_comfy (c, dir, tensors, recipe, error) : NULL;
    if (!stored || !make_dir (target, error) ||
        !write_comfy_config (c, dir, target, error))
      return FALSE;
    mk_assign_single (stored, files[i].file);
    if (!mk_write_weights (stored, target, c->recipe, recipe, error))
      return FALSE;
  }
  return !g_file_test (from, G_FILE_TEST_IS_DIR) ||
         copy_tree (from, to, TRUE, error);
}

static gboolean
make_checkpoint (const gchar *like, const gchar *layout, const gchar *out,
    const MkRecipe *recipe, GError **error)
{
  g_autofree gchar *fl = g_build_filename (like, "FL2VA", NULL);
  g_autofree gchar *ref = g_build_filename (like, "Ref2VA", NULL);

  if (g_str_has_prefix (layout, "diffusers"))
    return make_diffusers (fl, ref, out, recipe, error);
  if (g_str_has_prefix (layout, "comfy"))
    return make_comfy (like, out, recipe, error);
  if (!g_str_equal (layout, "official")) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "--layout %s: needed: official, diffusers, comfy, comfy-pruned or "
        "diffusers-pruned",
        layout);
    return FALSE;
  }
  return make_official (like, "FL2VA", fl2va, G_N_ELEMENTS (fl2va), out, recipe,
             error) &&
         (!g_file_test (ref, G_FILE_TEST_IS_DIR) ||
             make_official (like, "Ref2VA", ref2va, G_N_ELEMENTS (ref2va), out,
                 recipe, error));
}

static gboolean
make_adapter (const gchar *like, const gchar *layout, MkAdapterLayers layers,
    gint rank, const gchar *out, guint64 seed, GError **error)
{
  g_autofree gchar *dir = g_build_filename (like, "FL2VA", "transformer", NULL);
  g_autofree gchar *folder = g_path_get_dirname (out);
  g_autoptr (GPtrArray) tensors = mk_transformer_tensors (dir, error);
  gint dim = 0;

  return tensors &&
         head_dim (dir, "config.json", "attention_head_dim", &dim, error) &&
         make_dir (folder, error) &&
         mk_write_adapter (layout, layers, rank, tensors, dim, seed, out,
             error);
}

int
main (int argc, char **argv)
{
  g_autofree gchar *like = NULL, *out = NULL, *layout = NULL, *encoding = NULL;
  g_autofree gchar *markers = NULL, *prefix = NULL, *adapter = NULL;
  gboolean turbo = FALSE, adaln = FALSE, made;
  MkRecipe recipe = { 0 };
  gint64 seed = -1;
  const GOptionEntry entries[] = {
    { "like", 0, 0, G_OPTION_ARG_FILENAME, &like,
        "folder with FL2VA/ and Ref2VA/ configuration files", "DIR" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &seed, "of the weights", "N" },
    { "out", 0, 0, G_OPTION_ARG_FILENAME, &out, "folder to write", "DIR" },
    { "layout", 0, 0, G_OPTION_ARG_STRING, &layout,
        "official (default), diffusers, comfy; comfy-pruned or "
        "diffusers-pruned",
        "LAYOUT" },
    { "rank", 0, 0, G_OPTION_ARG_INT, &recipe.rank,
        "width of a pruned transformer's curve, or of an adapter", "R" },
    { "encoding", 0, 0, G_OPTION_ARG_STRING, &encoding,
        "plain (default), fp8, int8, nvfp4 or mxfp8", "ENCODING" },
    { "markers", 0, 0, G_OPTION_ARG_STRING, &markers,
        "tensors (default), metadata, oldest or none (both of fp8)", "FORM" },
    { "prefix", 0, 0, G_OPTION_ARG_STRING, &prefix,
        "before the names of ComfyUI's transformer", "PREFIX" },
    { "adapter", 0, 0, G_OPTION_ARG_STRING, &adapter,
        "a LoRA adapter of the transformer instead, --out a file: comfy, bare, "
        "kohya, diffsynth, diffusers, peft or wrapped",
        "LAYOUT" },
    { "turbo", 0, 0, G_OPTION_ARG_NONE, &turbo, "of attention and MLP alone",
        NULL },
    { "adaln", 0, 0, G_OPTION_ARG_NONE, &adaln,
        "of attention, MLP and AdaLN alone", NULL },
    { "decoded", 0, 0, G_OPTION_ARG_NONE, &recipe.decoded,
        "quantised weights as what they stand for", NULL },
    { NULL },
  };
  g_autoptr (GOptionContext) context =
      g_option_context_new ("- write a checkpoint of random weights");
  g_autoptr (GError) error = NULL;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error)) {
    g_printerr ("h3-mkcheckpoint: %s\n", error->message);
    return EXIT_FAILURE;
  }
  if (!like || !out || seed < 0) {
    g_printerr ("h3-mkcheckpoint: --like DIR, --seed N and --out DIR are "
                "needed\n");
    return EXIT_FAILURE;
  }
  if (encoding && !mk_encoding_from_name (encoding, &recipe.encoding)) {
    g_printerr ("h3-mkcheckpoint: --encoding %s is unknown\n", encoding);
    return EXIT_FAILURE;
  }
  if (markers && !mk_markers_from_name (markers, &recipe.markers)) {
    g_printerr ("h3-mkcheckpoint: --markers %s is unknown\n", markers);
    return EXIT_FAILURE;
  }
  if (recipe.markers >= MK_MARKERS_OLDEST && recipe.encoding != MK_FP8) {
    g_printerr ("h3-mkcheckpoint: --markers %s needs --encoding fp8\n",
        markers);
    return EXIT_FAILURE;
  }
  recipe.seed = seed;
  recipe.prefix = prefix;
  recipe.pruned = layout && g_str_has_suffix (layout, "-pruned");
  made = adapter ? make_adapter (like, adapter,
                       turbo   ? MK_ADAPTER_TURBO
                       : adaln ? MK_ADAPTER_ADALN
                               : MK_ADAPTER_ALL,
                       recipe.rank, out, seed, &error)
                 : make_checkpoint (like, layout ? layout : "official", out,
                       &recipe, &error);
  if (!made) {
    g_printerr ("h3-mkcheckpoint: %s\n", error->message);
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
