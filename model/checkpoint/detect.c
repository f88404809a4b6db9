/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/detect.h"
#include "model/checkpoint/gguf.h"
#include "model/checkpoint/quantised.h"

#include <string.h>

const gchar *
h3_layout_name (H3Layout layout)
{
  static const gchar *const names[] = { "official", "diffusers", "ComfyUI" };
  return names[layout];
}

const gchar *
h3_qkv_order_name (H3QkvOrder order)
{
  static const gchar *const names[] = { "unknown", "grouped per head",
    "contiguous", "apart" };
  return names[order];
}

const gchar *
h3_component_title (H3Component component)
{
  static const gchar *const titles[H3_N_COMPONENTS] = { "text encoder",
    "tokenizer", "transformer", "video autoencoder", "audio autoencoder" };
  return titles[component];
}

/* By name: what people have beside the components */

typedef struct {
  const gchar *part; /* of a name */
  const gchar *what;
} Foreign;

static gboolean
has_part (const H3TensorSet *set, const gchar *part)
{
  const GPtrArray *names = h3_tensor_set_names (set);

  for (guint i = 0; i < names->len; i++)
    if (strstr (names->pdata[i], part))
      return TRUE;
  return FALSE;
}

static const gchar *
find_foreign (const H3TensorSet *set)
{
  /* what is quantised first: SVDQuant's layers have low-rank parts, too */
  static const Foreign foreign[] = {
    { ".quant_state.bitsandbytes__", "quantised by bitsandbytes (NF4, FP4)" },
    { ".smooth_factor", "quantised by SVDQuant" },
    { ".wscales", "quantised by SVDQuant" },
    { ".qweight", "quantised in packed integers (SVDQuant, GPTQ or AWQ)" },
    { "h3_pdd.", "a PDD adapter (LoRA and a bank of output heads)" },
    { ".lora_A", "a LoRA adapter" },
    { ".lora_B", "a LoRA adapter" },
    { ".lora_up", "a LoRA adapter" },
    { ".lora_down", "a LoRA adapter" },
    { "control_proj_in.weight", "a ControlNet" },
    { "resizer.conv_in.weight", "a latent upscaler" },
    { "in_blocks.0.in_layers.2.weight", "a latent upscaler" },
    { "decoder.3.conv.0.weight", "a tiny autoencoder for previews (taeh3)" },
    { "decoder.mid.block_1.", "an autoencoder of images" },
    { "decoder.mid_block.resnets.", "an autoencoder of images" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (foreign); i++)
    if (has_part (set, foreign[i].part))
      return foreign[i].what;
  /* OrbitQuant and its like say in the metadata what they are */
  if (h3_tensor_set_metadata (set, "quantization_config"))
    return "quantised in a form of its own (its metadata have a "
           "quantization_config)";
  return NULL;
}

/* Components */

#define MAX_PREFIXES 6 /* of one component */

/* One of the keys tells, under one of the prefixes; @also must be there too. */
typedef struct {
  H3Component component;
  H3Layout layout;
  const gchar *key, *also;
} Sign;

static const Sign signs[] = {
  { H3_COMPONENT_TRANSFORMER, H3_LAYOUT_OFFICIAL, "video_patch_proj.weight",
      "audio_patch_proj.weight" },
  { H3_COMPONENT_TRANSFORMER, H3_LAYOUT_DIFFUSERS, "proj_in.weight",
      "audio_proj_in.weight" },
  { H3_COMPONENT_VIDEO_VAE, H3_LAYOUT_OFFICIAL, "decoder.x_embedder.weight",
      NULL },
  { H3_COMPONENT_VIDEO_VAE, H3_LAYOUT_DIFFUSERS, "decoder.proj_in.weight",
      NULL },
  { H3_COMPONENT_VIDEO_VAE, H3_LAYOUT_OFFICIAL,
      "encoder.down.0.block.0.conv1.weight", "quant_conv.weight" },
  { H3_COMPONENT_VIDEO_VAE, H3_LAYOUT_DIFFUSERS,
      "encoder.down_blocks.0.resnets.0.conv1.weight", "quant_conv.weight" },
  { H3_COMPONENT_AUDIO_VAE, H3_LAYOUT_OFFICIAL, "pre_block.attn.zero_k_bias",
      NULL },
  { H3_COMPONENT_AUDIO_VAE, H3_LAYOUT_OFFICIAL, "dec_in_proj.weight", NULL },
  { H3_COMPONENT_TEXT_ENCODER, H3_LAYOUT_OFFICIAL,
      "model.language_model.embed_tokens.weight", NULL },
  { H3_COMPONENT_TEXT_ENCODER, H3_LAYOUT_COMFY, "model.embed_tokens.weight",
      "visual.patch_embed.proj.weight" },
};

/* What writers put before the names (4.1). */
static const gchar *const *
prefixes_of (H3Component component)
{
  static const gchar *const none[MAX_PREFIXES + 1] = { "", NULL };
  static const gchar *const transformer[MAX_PREFIXES + 1] = { "",
    "model.diffusion_model.", "model.model.", "diffusion_model.", "net.",
    "model.", NULL };
  static const gchar *const video[MAX_PREFIXES + 1] = { "",
    "first_stage_model.", "vae.", NULL };

  if (component == H3_COMPONENT_TRANSFORMER)
    return transformer;
  return component == H3_COMPONENT_VIDEO_VAE ? video : none;
}

static gboolean
has (const H3TensorSet *set, const gchar *prefix, const gchar *key)
{
  g_autofree gchar *name = g_strconcat (prefix, key, NULL);

  return h3_tensor_set_has (set, name);
}

static gboolean
is_signed (const H3TensorSet *set, const Sign *sign, const gchar **prefix)
{
  const gchar *const *prefixes = prefixes_of (sign->component);

  for (guint i = 0; prefixes[i]; i++)
    if (has (set, prefixes[i], sign->key) &&
        (!sign->also || has (set, prefixes[i], sign->also))) {
      *prefix = prefixes[i];
      return TRUE;
    }
  return FALSE;
}

/* Whether the release's configuration is beside the file. */
static gboolean
is_in_release_folder (const gchar *file)
{
  g_autofree gchar *folder = g_path_get_dirname (file);
  g_autofree gchar *path = g_build_filename (folder, "config.json", NULL);
  g_autoptr (H3Config) config = h3_config_open (path, NULL);
  H3Component component;
  H3Naming naming;

  return config && h3_config_component (config, &component, &naming) &&
         component == H3_COMPONENT_TRANSFORMER && naming == H3_NAMING_OFFICIAL;
}

/* As the tools that wrote the release's shards name a file when one is enough. */
#define SAVED_AS_ONE "model.safetensors"

/* checkpoints.md 3.5: official shards are grouped, and with them all that was
 * made from them shard by shard; ComfyUI's files, always single, are not. Only
 * ComfyUI's have a prefix or a table of timesteps under these names. A single
 * file beside the release's configuration may be either. */
static void
detect_transformer (const H3TensorSet *set, H3Detection *found)
{
  const gchar *file = h3_tensor_set_file (set);
  g_autofree gchar *name = file ? g_path_get_basename (file) : NULL;
  gboolean comfy = file || *found->prefix;

  found->pruned = has (set, found->prefix, "adaln_t_table") ||
                  has (set, found->prefix, "time_embedder.table");
  if (found->layout == H3_LAYOUT_DIFFUSERS) {
    found->qkv = H3_QKV_APART;
    return;
  }
  if (file && !*found->prefix && !found->pruned && !h3_gguf_is (file))
    found->qkv_assumed = is_in_release_folder (file);
  if (found->qkv_assumed && g_str_equal (name, SAVED_AS_ONE))
    comfy = FALSE;
  if (comfy || found->pruned)
    found->layout = H3_LAYOUT_COMFY;
  found->qkv =
      found->layout == H3_LAYOUT_COMFY ? H3_QKV_CONTIGUOUS : H3_QKV_GROUPED;
}

/* ComfyUI's files of the autoencoders carry their statistics. */
static void
detect_vae (const H3TensorSet *set, H3Detection *found)
{
  found->folded = found->component == H3_COMPONENT_AUDIO_VAE &&
                  h3_tensor_set_has (set, "decoder.conv_pre.weight");
  if (found->layout == H3_LAYOUT_OFFICIAL &&
      has (set, found->prefix, "latents_mean"))
    found->layout = H3_LAYOUT_COMFY;
}

static void
detect_sign (const H3TensorSet *set, const Sign *sign, const gchar *prefix,
    H3Detection *found)
{
  *found = (H3Detection){
    .component = sign->component,
    .layout = sign->layout,
    .prefix = prefix,
  };
  if (sign->component == H3_COMPONENT_TRANSFORMER)
    detect_transformer (set, found);
  else if (sign->component != H3_COMPONENT_TEXT_ENCODER)
    detect_vae (set, found);
}

gboolean
h3_detect (const H3TensorSet *set, H3Detection *found)
{
  const gchar *prefix;

  *found = (H3Detection){ .refused = find_foreign (set), .prefix = "" };
  if (found->refused)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (signs); i++)
    if (is_signed (set, &signs[i], &prefix)) {
      detect_sign (set, &signs[i], prefix, found);
      return TRUE;
    }
  return FALSE;
}

gboolean
h3_detect_component (const H3TensorSet *set, H3Component component,
    H3Detection *found)
{
  const gchar *prefix;

  *found = (H3Detection){ .component = component, .prefix = "" };
  for (guint i = 0; i < G_N_ELEMENTS (signs); i++)
    if (signs[i].component == component &&
        is_signed (set, &signs[i], &prefix)) {
      detect_sign (set, &signs[i], prefix, found);
      return TRUE;
    }
  return FALSE;
}

/* Opening */

static void
normalise (H3TensorSet *set, const H3Detection *found)
{
  const H3TensorRename strip[] = { { found->prefix, "" },
    { H3_OLDEST_MARKER, H3_OLDEST_MARKER } };
  static const H3TensorRename text[] = {
    { H3_OLDEST_MARKER, H3_OLDEST_MARKER },
    { "model.", "model.language_model." },
    { "visual.", "model.visual." },
  };

  if (found->component == H3_COMPONENT_TEXT_ENCODER) {
    if (found->layout == H3_LAYOUT_COMFY)
      h3_tensor_set_rename (set, text, G_N_ELEMENTS (text));
  } else if (*found->prefix) {
    h3_tensor_set_rename (set, strip, G_N_ELEMENTS (strip));
  }
}

/* FALSE: it is something else. */
static gboolean
check_role (const H3TensorSet *set, H3Component component, GError **error)
{
  H3Detection other;

  if (!h3_detect (set, &other))
    return TRUE;
  if (other.refused)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is %s, which is not supported; needed: a MiniMax H3 %s",
        h3_tensor_set_path (set), other.refused,
        h3_component_title (component));
  else if (other.component != component)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a MiniMax H3 %s; needed: a %s", h3_tensor_set_path (set),
        h3_component_title (other.component), h3_component_title (component));
  else
    return TRUE;
  return FALSE;
}

H3TensorSet *
h3_component_open (const gchar *path, H3Component component,
    H3Detection *detection, GError **error)
{
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (path, error);
  H3Detection found;

  if (!set)
    return NULL;
  if (find_foreign (set) || !h3_detect_component (set, component, &found)) {
    if (!check_role (set, component, error))
      return NULL;
    h3_detect_component (set, component, &found);
  }
  normalise (set, &found);
  if (detection)
    *detection = found;
  return g_steal_pointer (&set);
}

gchar *
h3_detection_doubt (const H3TensorSet *set, const H3Detection *found)
{
  gboolean grouped = found->qkv == H3_QKV_GROUPED;

  if (!found->qkv_assumed)
    return NULL;
  return g_strdup_printf ("%s is one file beside the release's config.json, "
                          "and taken as %s: the "
                          "rows of q, k, v %s. Nothing in it shows their "
                          "order; if clips are noise, "
                          "set qkv-layout=%s",
      h3_tensor_set_file (set),
      grouped ? "the release saved in one file" : "ComfyUI's",
      h3_qkv_order_name (found->qkv),
      grouped ? "contiguous" : "grouped-per-head");
}

/* checkpoints.md 3.4: the islands, by their official and diffusers names. */
static gboolean
is_island (const gchar *name)
{
  static const gchar *const prefixes[] = { "video_patch_proj.",
    "audio_patch_proj.", "time_embedder.proj_", "final_layer.video_out.",
    "final_layer.audio_out.", "proj_in.", "audio_proj_in.",
    "time_embedder.linear_", "proj_out.", "audio_proj_out." };

  for (guint i = 0; i < G_N_ELEMENTS (prefixes); i++)
    if (g_str_has_prefix (name, prefixes[i]))
      return TRUE;
  return FALSE;
}

gchar *
h3_detection_narrowed (H3TensorSet *set, const H3Detection *found)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  const gchar *file = h3_tensor_set_file (set);
  const H3StoredTensor *first = NULL;
  guint n = 0;

  if (file && h3_gguf_is (file))
    return NULL;
  for (guint i = 0; i < names->len; i++) {
    const gchar *name = names->pdata[i];
    const H3StoredTensor *tensor;

    if (!g_str_has_prefix (name, found->prefix) ||
        !is_island (name + strlen (found->prefix)))
      continue;
    tensor = h3_tensor_set_get (set, name, NULL);
    if (!tensor)
      return NULL;
    if (tensor->type == H3_STORED_F16 || tensor->type == H3_STORED_BF16) {
      first = first ? first : tensor;
      n++;
    }
  }
  return n == 0 ? NULL
                : g_strdup_printf (
                      "%s has %u tensors narrower than the release, which has "
                      "them in float32, first: %s (%s). They are widened, and "
                      "clips may be less exact",
                      first->path, n, first->name,
                      h3_stored_type_name (first->type));
}

/* Configurations */

gboolean
h3_config_component (const H3Config *config, H3Component *component,
    H3Naming *naming)
{
  static const struct {
    const gchar *key, *value; /* value NULL: the key alone tells */
    H3Component component;
    H3Naming naming;
  } keys[] = {
    { "_class_name", "MiniMaxH3DiTModel", H3_COMPONENT_TRANSFORMER,
        H3_NAMING_OFFICIAL },
    { "_class_name", "MiniMaxH3Transformer3DModel", H3_COMPONENT_TRANSFORMER,
        H3_NAMING_DIFFUSERS },
    { "_class_name", H3_PRUNED_CLASS, H3_COMPONENT_TRANSFORMER,
        H3_NAMING_DIFFUSERS },
    { "_class_name", "AutoencoderKLMiniMaxH3", H3_COMPONENT_VIDEO_VAE,
        H3_NAMING_DIFFUSERS },
    { "_class_name", "AutoencoderKLMiniMaxH3Audio", H3_COMPONENT_AUDIO_VAE,
        H3_NAMING_DIFFUSERS },
    { "_class_name", "MiniMaxH3AudioVAE", H3_COMPONENT_AUDIO_VAE,
        H3_NAMING_OFFICIAL },
    { "vae_clip_length", NULL, H3_COMPONENT_VIDEO_VAE, H3_NAMING_OFFICIAL },
    { "model_type", "qwen3_vl", H3_COMPONENT_TEXT_ENCODER, H3_NAMING_OFFICIAL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++) {
    g_autofree gchar *value = NULL;

    if (!h3_config_has (config, keys[i].key))
      continue;
    if (keys[i].value &&
        (!h3_config_get_string (config, keys[i].key, &value, NULL) ||
            !g_str_equal (value, keys[i].value)))
      continue;
    *component = keys[i].component;
    *naming = keys[i].naming;
    return TRUE;
  }
  return FALSE;
}

H3Config *
h3_component_config (const gchar *path, H3Component component, GError **error)
{
  gboolean is_folder = g_file_test (path, G_FILE_TEST_IS_DIR);
  g_autofree gchar *folder =
      is_folder ? g_strdup (path) : g_path_get_dirname (path);
  g_autofree gchar *file = g_build_filename (folder, "config.json", NULL);
  g_autoptr (H3Config) config = NULL;
  H3Component found;
  H3Naming naming;

  if (!g_file_test (file, G_FILE_TEST_EXISTS))
    return NULL;
  config = h3_config_open (file, error);
  if (config && !is_folder &&
      !(h3_config_component (config, &found, &naming) && found == component))
    return NULL;
  return g_steal_pointer (&config);
}

static gboolean
hint_of_name (const gchar *path, H3Partition *partition)
{
  g_autofree gchar *base = g_path_get_basename (path);
  g_autofree gchar *name = g_ascii_strdown (base, -1);
  gboolean ref = strstr (name, "ref2v") || strstr (name, "transformer_ref");
  gboolean fl = strstr (name, "fl2v") || strstr (name, "t2va");

  if (ref == fl)
    return FALSE;
  *partition = ref ? H3_PARTITION_REF2VA : H3_PARTITION_FL2VA;
  return TRUE;
}

gboolean
h3_partition_hint (const gchar *path, H3Partition *partition)
{
  g_autofree gchar *folder = g_path_get_dirname (path);
  g_autofree gchar *base = g_path_get_basename (path);

  return hint_of_name (path, partition) ||
         (g_str_equal (base, "transformer") &&
             hint_of_name (folder, partition));
}
