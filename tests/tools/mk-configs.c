/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The diffusers layout's configuration files, from the official ones. */
#include "mkcheckpoint.h"

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>

/* The file's root object; *parser keeps it. */
static JsonObject *
load (JsonParser *parser, const gchar *dir, const gchar *file, GError **error)
{
  g_autofree gchar *path = g_build_filename (dir, file, NULL);
  JsonNode *root;

  if (!json_parser_load_from_file (parser, path, error)) {
    g_prefix_error (error, "%s: ", path);
    return NULL;
  }
  root = json_parser_get_root (parser);
  if (!root || !JSON_NODE_HOLDS_OBJECT (root)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ, "%s: not a JSON object", path);
    return NULL;
  }
  return json_node_get_object (root);
}

static gboolean
save (JsonObject *object, const gchar *dir, const gchar *file, GError **error)
{
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = json_node_new (JSON_NODE_OBJECT);
  g_autofree gchar *path = g_build_filename (dir, file, NULL);

  json_node_set_object (root, object);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  return json_generator_to_file (generator, path, error);
}

typedef struct {
  const gchar *from, *to;
} Key;

/* Values that only change their name; one that is absent stays absent. */
static void
copy_keys (JsonObject *to, JsonObject *from, const Key *keys, guint n)
{
  for (guint i = 0; i < n; i++) {
    JsonNode *node = json_object_get_member (from, keys[i].from);
    if (node)
      json_object_set_member (to, keys[i].to, json_node_copy (node));
  }
}

gboolean
mk_write_diffusers_transformer_config (const gchar *dir, const gchar *out,
    gint rank, GError **error)
{
  static const Key keys[] = {
    { "num_attention_heads", "num_attention_heads" },
    { "attention_head_dim", "attention_head_dim" },
    { "hidden_size", "hidden_size" },
    { "num_layers", "num_layers" },
    { "token_refiner_num_layers", "num_refiner_layers" },
    { "ffn_hidden_size", "ffn_dim" },
    { "latents_dim", "in_channels" },
    { "audio_latents_dim", "audio_in_channels" },
    { "patch_size", "patch_size" },
    { "text_dim", "text_dim" },
    { "timestep_input_dim", "freq_dim" },
    { "time_embed_hidden_size", "time_embed_hidden_dim" },
    { "time_embed_dim", "time_embed_dim" },
    { "rope_inv_freq_len", "rope_freq_dim" },
    { "norm_eps", "norm_eps" },
    { "qk_norm_eps", "qk_norm_eps" },
    { "final_norm_eps", "final_norm_eps" },
  };
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *from = load (parser, dir, "config.json", error);
  g_autoptr (JsonObject) to = json_object_new ();

  if (!from)
    return FALSE;
  json_object_set_string_member (to, "_class_name",
      rank > 0 ? "MiniMaxH3PrunedTransformer3DModel"
               : "MiniMaxH3Transformer3DModel");
  copy_keys (to, from, keys, G_N_ELEMENTS (keys));
  if (rank > 0) {
    json_object_set_int_member (to, "adaln_rank", rank);
    json_object_set_int_member (to, "time_table_size", MK_CURVE_POINTS);
  }
  json_object_set_double_member (to, "rope_theta", 10000.0);
  return save (to, out, "config.json", error);
}

static JsonArray *
int_array (const gint *values, guint n)
{
  JsonArray *array = json_array_new ();

  for (guint i = 0; i < n; i++)
    json_array_add_int_element (array, values[i]);
  return array;
}

/* Widths of the encoder's levels. */
static JsonArray *
block_channels (JsonObject *source)
{
  JsonArray *mult = json_object_get_array_member (source, "ch_mult");
  gint64 ch = json_object_get_int_member (source, "ch");
  JsonArray *channels = json_array_new ();

  for (guint i = 0; i < json_array_get_length (mult); i++)
    json_array_add_int_element (channels,
        ch * json_array_get_int_element (mult, i));
  return channels;
}

gboolean
mk_write_diffusers_video_vae_config (const gchar *dir, const gchar *out,
    GError **error)
{
  static const Key wrapper_keys[] = {
    { "latent_channels", "latent_channels" },
    { "vae_clip_length", "clip_length" },
    { "vae_token_drop", "token_drop" },
    { "latents_mean", "latents_mean" },
    { "latents_std", "latents_std" },
  };
  static const Key source_keys[] = {
    { "in_channels", "in_channels" },
    { "out_ch", "out_channels" },
    { "num_res_blocks", "layers_per_block" },
    { "space_down", "spatial_downsample_factors" },
    { "time_down", "temporal_downsample_factors" },
    { "padding_mode", "spatial_padding_mode" },
  };
  static const Key decoder_keys[] = {
    { "num_layers", "decoder_num_layers" },
    { "heads", "decoder_num_attention_heads" },
    { "dim_head", "decoder_attention_head_dim" },
    { "rope_theta", "decoder_rope_theta" },
    { "rope_dim_ratio", "decoder_rope_dim_ratio" },
  };
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (JsonParser) source_parser = json_parser_new ();
  JsonObject *wrapper = load (parser, dir, "config.json", error);
  JsonObject *source =
      wrapper ? load (source_parser, dir, "source/config.json", error) : NULL;
  g_autoptr (JsonObject) to = json_object_new ();

  if (!source)
    return FALSE;
  json_object_set_string_member (to, "_class_name", "AutoencoderKLMiniMaxH3");
  copy_keys (to, source, source_keys, G_N_ELEMENTS (source_keys));
  copy_keys (to, wrapper, wrapper_keys, G_N_ELEMENTS (wrapper_keys));
  copy_keys (to, json_object_get_object_member (source, "vit_decoder_kwargs"),
      decoder_keys, G_N_ELEMENTS (decoder_keys));
  json_object_set_array_member (to, "block_out_channels",
      block_channels (source));
  json_object_set_int_member (to, "norm_num_groups", 32);
  json_object_set_double_member (to, "norm_eps", 1e-6);
  json_object_set_int_member (to, "decoder_num_register_tokens", 4);
  json_object_set_int_member (to, "decoder_ffn_mult", 4);
  json_object_set_double_member (to, "decoder_norm_eps", 1e-5);
  return save (to, out, "config.json", error);
}

/* k = 2 u - u mod 2 for every upsampling rate u */
static JsonArray *
kernel_sizes (JsonArray *rates)
{
  JsonArray *kernels = json_array_new ();

  for (guint i = 0; i < json_array_get_length (rates); i++) {
    gint64 u = json_array_get_int_element (rates, i);
    json_array_add_int_element (kernels, 2 * u - u % 2);
  }
  return kernels;
}

gboolean
mk_write_diffusers_audio_vae_config (const gchar *dir, const gchar *out,
    GError **error)
{
  static const Key keys[] = {
    { "encoder_dim", "encoder_dim" },
    { "encoder_rates", "encoder_rates" },
    { "latent_dim", "latent_dim" },
    { "vae_latent_channels", "latent_channels" },
    { "decoder_dim", "decoder_dim" },
    { "decoder_rates", "decoder_rates" },
    { "sample_rate", "sampling_rate" },
  };
  static const Key wrapper_keys[] = {
    { "latents_mean", "latents_mean" },
    { "latents_std", "latents_std" },
  };
  static const gint kernels[] = { 3, 7, 11 }, dilations[] = { 1, 3, 5 };
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (JsonParser) wrapper_parser = json_parser_new ();
  JsonObject *metadata = load (parser, dir, "metadata.json", error);
  JsonObject *wrapper =
      metadata ? load (wrapper_parser, dir, "config.json", error) : NULL;
  g_autoptr (JsonObject) to = json_object_new ();
  JsonArray *all_dilations = json_array_new ();
  JsonObject *kwargs;

  for (guint i = 0; i < G_N_ELEMENTS (kernels); i++)
    json_array_add_array_element (all_dilations,
        int_array (dilations, G_N_ELEMENTS (dilations)));
  json_object_set_array_member (to, "resblock_dilation_sizes", all_dilations);
  if (!wrapper)
    return FALSE;
  kwargs =
      json_object_get_object_member (json_object_get_object_member (metadata,
                                         "metadata"),
          "kwargs");
  json_object_set_string_member (to, "_class_name",
      "AutoencoderKLMiniMaxH3Audio");
  copy_keys (to, kwargs, keys, G_N_ELEMENTS (keys));
  copy_keys (to, wrapper, wrapper_keys, G_N_ELEMENTS (wrapper_keys));
  json_object_set_int_member (to, "num_attention_heads", 8);
  json_object_set_array_member (to, "decoder_kernel_sizes",
      kernel_sizes (json_object_get_array_member (kwargs, "decoder_rates")));
  json_object_set_array_member (to, "resblock_kernel_sizes",
      int_array (kernels, G_N_ELEMENTS (kernels)));
  return save (to, out, "config.json", error);
}

static void
add_component (JsonObject *index, const gchar *name, const gchar *library,
    const gchar *class_name)
{
  JsonArray *entry = json_array_new ();
  JsonArray *hint = json_array_new ();
  JsonObject *where = json_object_new ();

  json_array_add_string_element (hint, library);
  json_array_add_string_element (hint, class_name);
  json_object_set_array_member (where, "type_hint", hint);
  json_object_set_null_member (where, "pretrained_model_name_or_path");
  json_object_set_string_member (where, "subfolder", name);
  json_object_set_null_member (where, "variant");
  json_object_set_null_member (where, "revision");
  json_array_add_string_element (entry, library);
  json_array_add_string_element (entry, class_name);
  json_array_add_object_element (entry, where);
  json_object_set_array_member (index, name, entry);
}

static gboolean
write_scheduler (const gchar *out, const gchar *name, gdouble shift,
    GError **error)
{
  g_autofree gchar *dir = g_build_filename (out, name, NULL);
  g_autoptr (JsonObject) config = json_object_new ();

  g_mkdir_with_parents (dir, 0777);
  json_object_set_string_member (config, "_class_name", "MiniMaxH3Scheduler");
  json_object_set_double_member (config, "shift", shift);
  return save (config, dir, "scheduler_config.json", error);
}

gboolean
mk_write_diffusers_root (const gchar *like, gboolean with_ref, const gchar *out,
    GError **error)
{
  static const gchar *const components[][3] = {
    { "text_encoder", "transformers", "Qwen3VLForConditionalGeneration" },
    { "tokenizer", "transformers", "Qwen2TokenizerFast" },
    { "processor", "transformers", "Qwen3VLProcessor" },
    { "vae", "diffusers", "AutoencoderKLMiniMaxH3" },
    { "audio_vae", "diffusers", "AutoencoderKLMiniMaxH3Audio" },
    { "transformer", "diffusers", "MiniMaxH3Transformer3DModel" },
    { "scheduler", "diffusers", "MiniMaxH3Scheduler" },
    { "audio_scheduler", "diffusers", "MiniMaxH3Scheduler" },
  };
  g_autofree gchar *path = g_build_filename (like, "model_index.json", NULL);
  g_autoptr (H3Config) official = h3_config_open (path, error);
  g_autoptr (JsonObject) index = json_object_new ();
  gdouble video = 12.0, audio = 3.0;

  if (!official ||
      !h3_config_get_double (official, "_minimax_h3.sigma_shift_scales.video",
          &video, error) ||
      !h3_config_get_double (official, "_minimax_h3.sigma_shift_scales.audio",
          &audio, error))
    return FALSE;
  json_object_set_string_member (index, "_class_name",
      "MiniMaxH3ModularPipeline");
  json_object_set_string_member (index, "_blocks_class_name",
      "MiniMaxH3Blocks");
  for (guint i = 0; i < G_N_ELEMENTS (components); i++)
    add_component (index, components[i][0], components[i][1], components[i][2]);
  if (with_ref)
    add_component (index, "transformer_ref", "diffusers",
        "MiniMaxH3Transformer3DModel");
  return save (index, out, "model_index.json", error) &&
         write_scheduler (out, "scheduler", video, error) &&
         write_scheduler (out, "audio_scheduler", audio, error);
}
