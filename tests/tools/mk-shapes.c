/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Official names and shapes of every tensor, from the configuration files
 * (checkpoints.md 3.4 to 3.8). */
#include "mkcheckpoint.h"

#include <stdarg.h>

void
mk_tensor_free (MkTensor *tensor)
{
  g_free (tensor->name);
  g_free (tensor);
}

gint64
mk_tensor_size (const MkTensor *tensor)
{
  gint64 n = 1;

  for (guint i = 0; i < tensor->rank; i++)
    n *= tensor->shape[i];
  return n;
}

/* What is being listed: tensors get the type @bf16 says. */
typedef struct {
  GPtrArray *tensors;
  gboolean bf16;
} List;

static List
list_new (gboolean bf16)
{
  List list = {
    g_ptr_array_new_with_free_func ((GDestroyNotify) mk_tensor_free), bf16
  };
  return list;
}

/* Dimensions, ended by a 0. */
#define SHAPE(...) ((const gint64[]){ __VA_ARGS__, 0 })

static void add (List *list, const gint64 *shape, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

static void
add (List *list, const gint64 *shape, const gchar *format, ...)
{
  MkTensor *tensor = g_new0 (MkTensor, 1);
  va_list args;

  va_start (args, format);
  tensor->name = g_strdup_vprintf (format, args);
  va_end (args);
  while (shape[tensor->rank]) {
    tensor->shape[tensor->rank] = shape[tensor->rank];
    tensor->rank++;
  }
  tensor->bf16 = list->bf16;
  g_ptr_array_add (list->tensors, tensor);
}

/* <prefix>.weight [out, in] and <prefix>.bias [out] */
static void
add_linear (List *list, gint64 out, gint64 in, const gchar *prefix)
{
  add (list, SHAPE (out, in), "%s.weight", prefix);
  add (list, SHAPE (out), "%s.bias", prefix);
}

static void
add_norm (List *list, gint64 n, const gchar *prefix)
{
  add (list, SHAPE (n), "%s.weight", prefix);
  add (list, SHAPE (n), "%s.bias", prefix);
}

/* Integers a configuration must have. */
typedef struct {
  const gchar *key;
  gint *value;
} Need;

static gboolean
need_ints (const H3Config *config, const Need *needs, guint n, GError **error)
{
  for (guint i = 0; i < n; i++) {
    if (!h3_config_has (config, needs[i].key)) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s is missing",
          h3_config_path (config), needs[i].key);
      return FALSE;
    }
    if (!h3_config_get_int (config, needs[i].key, 1, 1 << 24, needs[i].value,
            error))
      return FALSE;
  }
  return TRUE;
}

static H3Config *
open_config (const gchar *dir, const gchar *file, GError **error)
{
  g_autofree gchar *path = g_build_filename (dir, file, NULL);
  return h3_config_open (path, error);
}

/* Transformer (3.4) */

typedef struct {
  gint hidden, layers, refiners, heads, head_dim, ffn, latents, audio, text;
  gint time_in, time_hidden, time_out, adaln, final_adaln, freqs;
  gint patch[3];
} Transformer;

static gboolean
read_transformer (const gchar *dir, Transformer *t, GError **error)
{
  g_autoptr (H3Config) config = open_config (dir, "config.json", error);
  const Need needs[] = {
    { "hidden_size", &t->hidden },
    { "num_layers", &t->layers },
    { "token_refiner_num_layers", &t->refiners },
    { "num_attention_heads", &t->heads },
    { "attention_head_dim", &t->head_dim },
    { "ffn_hidden_size", &t->ffn },
    { "latents_dim", &t->latents },
    { "audio_latents_dim", &t->audio },
    { "text_dim", &t->text },
    { "timestep_input_dim", &t->time_in },
    { "time_embed_hidden_size", &t->time_hidden },
    { "time_embed_dim", &t->time_out },
    { "adaln_out_features", &t->adaln },
    { "final_adaln_out_features", &t->final_adaln },
    { "rope_inv_freq_len", &t->freqs },
  };
  guint n = G_N_ELEMENTS (t->patch);

  if (!config || !need_ints (config, needs, G_N_ELEMENTS (needs), error))
    return FALSE;
  t->patch[0] = 1;
  t->patch[1] = t->patch[2] = 2;
  return h3_config_get_ints (config, "patch_size", 1, 64, t->patch, &n, error);
}

static void
add_transformer_block (List *list, const Transformer *t, const gchar *prefix)
{
  gint64 inner = (gint64) t->heads * t->head_dim;

  add (list, SHAPE (t->hidden), "%s.norm1.weight", prefix);
  add (list, SHAPE (t->hidden), "%s.norm2.weight", prefix);
  add (list, SHAPE (3 * inner, t->hidden), "%s.attn.qkv_proj.weight", prefix);
  add (list, SHAPE (t->head_dim), "%s.attn.q_norm.weight", prefix);
  add (list, SHAPE (t->head_dim), "%s.attn.k_norm.weight", prefix);
  add (list, SHAPE (t->hidden, inner), "%s.attn.out_proj.weight", prefix);
  add (list, SHAPE (2 * t->ffn, t->hidden), "%s.mlp.fc1.weight", prefix);
  add (list, SHAPE (t->hidden, t->ffn), "%s.mlp.fc2.weight", prefix);
}

GPtrArray *
mk_transformer_tensors (const gchar *dir, GError **error)
{
  Transformer t;
  List list = list_new (TRUE), islands = { list.tensors, FALSE };
  gint64 columns;

  if (!read_transformer (dir, &t, error)) {
    g_ptr_array_unref (list.tensors);
    return NULL;
  }
  columns = (gint64) t.latents * t.patch[0] * t.patch[1] * t.patch[2];
  add_linear (&islands, t.hidden, columns, "video_patch_proj");
  add_linear (&islands, t.hidden, t.audio, "audio_patch_proj");
  add_linear (&islands, t.time_hidden, t.time_in, "time_embedder.proj_in");
  add_linear (&islands, t.time_out, t.time_hidden, "time_embedder.proj_out");
  add_linear (&islands, columns, t.hidden, "final_layer.video_out");
  add_linear (&islands, t.audio, t.hidden, "final_layer.audio_out");
  add (&islands, SHAPE (t.freqs), "rope.inv_freq");
  add_linear (&list, t.hidden, t.text, "condition_proj");
  add (&list, SHAPE (t.hidden), "token_refiner.final_norm.weight");
  add (&list, SHAPE (t.hidden), "final_layer.norm.weight");
  add_linear (&list, t.final_adaln, t.time_out,
      "final_layer.adaln_proj.linear");
  for (gint i = 0; i < t.refiners; i++) {
    g_autofree gchar *prefix = g_strdup_printf ("token_refiner.blocks.%d", i);
    add_transformer_block (&list, &t, prefix);
  }
  for (gint i = 0; i < t.layers; i++) {
    g_autofree gchar *prefix = g_strdup_printf ("blocks.%d", i);
    g_autofree gchar *adaln = g_strconcat (prefix, ".adaln_proj.linear", NULL);
    add_transformer_block (&list, &t, prefix);
    add_linear (&list, t.adaln, t.time_out, adaln);
  }
  return list.tensors;
}

/* Text encoder (3.8) */

typedef struct {
  gint vocab, hidden, layers, heads, kv_heads, head_dim, ffn;
  gint v_hidden, v_depth, v_ffn, v_in, v_out, v_positions;
  gint patch, temporal, merge;
  gint deepstack[16];
  guint n_deepstack;
} TextEncoder;

static gboolean
read_text_encoder (const gchar *dir, TextEncoder *t, GError **error)
{
  g_autoptr (H3Config) config = open_config (dir, "config.json", error);
  const Need needs[] = {
    { "text_config.vocab_size", &t->vocab },
    { "text_config.hidden_size", &t->hidden },
    { "text_config.num_hidden_layers", &t->layers },
    { "text_config.num_attention_heads", &t->heads },
    { "text_config.num_key_value_heads", &t->kv_heads },
    { "text_config.head_dim", &t->head_dim },
    { "text_config.intermediate_size", &t->ffn },
    { "vision_config.hidden_size", &t->v_hidden },
    { "vision_config.depth", &t->v_depth },
    { "vision_config.intermediate_size", &t->v_ffn },
    { "vision_config.in_channels", &t->v_in },
    { "vision_config.out_hidden_size", &t->v_out },
    { "vision_config.num_position_embeddings", &t->v_positions },
    { "vision_config.patch_size", &t->patch },
    { "vision_config.temporal_patch_size", &t->temporal },
    { "vision_config.spatial_merge_size", &t->merge },
  };

  t->n_deepstack = G_N_ELEMENTS (t->deepstack);
  if (!config || !need_ints (config, needs, G_N_ELEMENTS (needs), error))
    return FALSE;
  if (!h3_config_has (config, "vision_config.deepstack_visual_indexes"))
    t->n_deepstack = 0;
  return h3_config_get_ints (config, "vision_config.deepstack_visual_indexes",
      0, 1 << 16, t->deepstack, &t->n_deepstack, error);
}

static void
add_language_layer (List *list, const TextEncoder *t, gint n)
{
  g_autofree gchar *p = g_strdup_printf ("model.language_model.layers.%d", n);
  gint64 q = (gint64) t->heads * t->head_dim;
  gint64 kv = (gint64) t->kv_heads * t->head_dim;

  add (list, SHAPE (t->hidden), "%s.input_layernorm.weight", p);
  add (list, SHAPE (t->hidden), "%s.post_attention_layernorm.weight", p);
  add (list, SHAPE (q, t->hidden), "%s.self_attn.q_proj.weight", p);
  add (list, SHAPE (kv, t->hidden), "%s.self_attn.k_proj.weight", p);
  add (list, SHAPE (kv, t->hidden), "%s.self_attn.v_proj.weight", p);
  add (list, SHAPE (t->hidden, q), "%s.self_attn.o_proj.weight", p);
  add (list, SHAPE (t->head_dim), "%s.self_attn.q_norm.weight", p);
  add (list, SHAPE (t->head_dim), "%s.self_attn.k_norm.weight", p);
  add (list, SHAPE (t->ffn, t->hidden), "%s.mlp.gate_proj.weight", p);
  add (list, SHAPE (t->ffn, t->hidden), "%s.mlp.up_proj.weight", p);
  add (list, SHAPE (t->hidden, t->ffn), "%s.mlp.down_proj.weight", p);
}

static void
add_prefixed_linear (List *list, gint64 out, gint64 in, const gchar *prefix,
    const gchar *suffix)
{
  g_autofree gchar *name = g_strconcat (prefix, suffix, NULL);
  add_linear (list, out, in, name);
}

static void
add_prefixed_norm (List *list, gint64 n, const gchar *prefix,
    const gchar *suffix)
{
  g_autofree gchar *name = g_strconcat (prefix, suffix, NULL);
  add_norm (list, n, name);
}

static void
add_vision_block (List *list, const TextEncoder *t, gint n)
{
  g_autofree gchar *p = g_strdup_printf ("model.visual.blocks.%d", n);

  add_prefixed_norm (list, t->v_hidden, p, ".norm1");
  add_prefixed_norm (list, t->v_hidden, p, ".norm2");
  add_prefixed_linear (list, 3 * t->v_hidden, t->v_hidden, p, ".attn.qkv");
  add_prefixed_linear (list, t->v_hidden, t->v_hidden, p, ".attn.proj");
  add_prefixed_linear (list, t->v_ffn, t->v_hidden, p, ".mlp.linear_fc1");
  add_prefixed_linear (list, t->v_hidden, t->v_ffn, p, ".mlp.linear_fc2");
}

static void
add_merger (List *list, const TextEncoder *t, const gchar *p, gint64 norm)
{
  gint64 merged = (gint64) t->v_hidden * t->merge * t->merge;

  add_prefixed_norm (list, norm, p, ".norm");
  add_prefixed_linear (list, merged, merged, p, ".linear_fc1");
  add_prefixed_linear (list, t->v_out, merged, p, ".linear_fc2");
}

GPtrArray *
mk_text_encoder_tensors (const gchar *dir, GError **error)
{
  TextEncoder t;
  List list = list_new (TRUE);

  if (!read_text_encoder (dir, &t, error)) {
    g_ptr_array_unref (list.tensors);
    return NULL;
  }
  add (&list, SHAPE (t.vocab, t.hidden),
      "model.language_model.embed_tokens.weight");
  for (gint n = 0; n < t.layers; n++)
    add_language_layer (&list, &t, n);
  add (&list, SHAPE (t.hidden), "model.language_model.norm.weight");
  add (&list, SHAPE (t.vocab, t.hidden), "lm_head.weight");

  add (&list, SHAPE (t.v_hidden, t.v_in, t.temporal, t.patch, t.patch),
      "model.visual.patch_embed.proj.weight");
  add (&list, SHAPE (t.v_hidden), "model.visual.patch_embed.proj.bias");
  add (&list, SHAPE (t.v_positions, t.v_hidden),
      "model.visual.pos_embed.weight");
  for (gint n = 0; n < t.v_depth; n++)
    add_vision_block (&list, &t, n);
  add_merger (&list, &t, "model.visual.merger", t.v_hidden);
  for (guint n = 0; n < t.n_deepstack; n++) {
    g_autofree gchar *p =
        g_strdup_printf ("model.visual.deepstack_merger_list.%u", n);
    add_merger (&list, &t, p, (gint64) t.v_hidden * t.merge * t.merge);
  }
  return list.tensors;
}

/* Video VAE (3.6) */

#define MAX_LEVELS 16
#define REGISTER_TOKENS 4
#define FFN_MULT 4

typedef struct {
  gint ch, embed, z, in, out, res_blocks, ratio, ratio_t, heads, dim_head;
  gint layers;
  gint mult[MAX_LEVELS], space[MAX_LEVELS], time[MAX_LEVELS];
  guint levels;
} VideoVae;

static gboolean
read_video_vae (const gchar *dir, VideoVae *v, GError **error)
{
  g_autoptr (H3Config) config = open_config (dir, "source/config.json", error);
  guint n_space = MAX_LEVELS, n_time = MAX_LEVELS;
  const Need needs[] = {
    { "ch", &v->ch },
    { "embed_dim", &v->embed },
    { "z_channels", &v->z },
    { "in_channels", &v->in },
    { "out_ch", &v->out },
    { "num_res_blocks", &v->res_blocks },
    { "vae_ratio", &v->ratio },
    { "vae_ratio_t", &v->ratio_t },
    { "vit_decoder_kwargs.heads", &v->heads },
    { "vit_decoder_kwargs.dim_head", &v->dim_head },
    { "vit_decoder_kwargs.num_layers", &v->layers },
  };

  v->levels = MAX_LEVELS;
  if (!config || !need_ints (config, needs, G_N_ELEMENTS (needs), error) ||
      !h3_config_get_ints (config, "ch_mult", 1, 64, v->mult, &v->levels,
          error) ||
      !h3_config_get_ints (config, "space_down", 1, 2, v->space, &n_space,
          error) ||
      !h3_config_get_ints (config, "time_down", 1, 2, v->time, &n_time, error))
    return FALSE;
  if (n_space != v->levels || n_time != v->levels) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: ch_mult, space_down and time_down have different lengths",
        h3_config_path (config));
    return FALSE;
  }
  return TRUE;
}

static void
add_conv3d (List *list, gint64 out, gint64 in, gint64 k, const gchar *prefix,
    const gchar *suffix)
{
  add (list, SHAPE (out, in, k, k, k), "%s%s.weight", prefix, suffix);
  add (list, SHAPE (out), "%s%s.bias", prefix, suffix);
}

static gint64
add_encoder_level (List *list, const VideoVae *v, guint level, gint64 in)
{
  gint64 out = (gint64) v->ch * v->mult[level];

  for (gint j = 0; j < v->res_blocks; j++) {
    g_autofree gchar *p =
        g_strdup_printf ("encoder.down.%u.block.%d", level, j);
    add_prefixed_norm (list, in, p, ".norm1");
    add_prefixed_norm (list, out, p, ".norm2");
    add_conv3d (list, out, in, 3, p, ".conv1");
    add_conv3d (list, out, out, 3, p, ".conv2");
    if (in != out)
      add_conv3d (list, out, in, 1, p, ".nin_shortcut");
    in = out;
  }
  if (v->space[level] > 1 || v->time[level] > 1) {
    g_autofree gchar *p = g_strdup_printf ("encoder.down.%u.downsample", level);
    add_conv3d (list, out, out, 3, p, ".conv");
  }
  return out;
}

static void
add_decoder_block (List *list, gint64 dim, gint n)
{
  g_autofree gchar *p = g_strdup_printf ("decoder.transformer_blocks.%d", n);

  add (list, SHAPE (dim), "%s.norm1.weight", p);
  add (list, SHAPE (dim), "%s.norm2.weight", p);
  add (list, SHAPE (dim), "%s.scale1", p);
  add (list, SHAPE (dim), "%s.scale2", p);
  add_prefixed_linear (list, 3 * dim, dim, p, ".attn.to_qkv");
  add_prefixed_linear (list, dim, dim, p, ".attn.to_out");
  add_prefixed_linear (list, 2 * FFN_MULT * dim, dim, p, ".ff.w1");
  add_prefixed_linear (list, dim, FFN_MULT * dim, p, ".ff.w2");
}

GPtrArray *
mk_video_vae_tensors (const gchar *dir, GError **error)
{
  VideoVae v;
  List list = list_new (FALSE);
  gint64 dim, width;

  if (!read_video_vae (dir, &v, error)) {
    g_ptr_array_unref (list.tensors);
    return NULL;
  }
  width = v.ch;
  add_conv3d (&list, width, v.in, 3, "encoder", ".conv_in");
  for (guint level = 0; level < v.levels; level++)
    width = add_encoder_level (&list, &v, level, width);
  add_norm (&list, width, "encoder.norm_out");
  add_conv3d (&list, 2 * v.z, width, 3, "encoder", ".conv_out");
  add_conv3d (&list, 2 * v.embed, 2 * v.z, 1, "quant_conv", "");
  add_conv3d (&list, v.z, v.embed, 1, "post_quant_conv", "");

  dim = (gint64) v.heads * v.dim_head;
  add_linear (&list, dim, v.z, "decoder.x_embedder");
  add (&list, SHAPE (1, REGISTER_TOKENS, dim), "decoder.register_tokens");
  add (&list, SHAPE (1, 1, dim), "decoder.mask_token");
  add_norm (&list, dim, "decoder.norm_out");
  add_linear (&list, (gint64) v.out * v.ratio_t * v.ratio * v.ratio, dim,
      "decoder.proj_out");
  for (gint n = 0; n < v.layers; n++)
    add_decoder_block (&list, dim, n);
  return list.tensors;
}

/* Audio VAE (3.7) */

#define MAX_RATES 16
#define FILTER_TAPS 12

typedef struct {
  gint encoder_dim, latent_dim, channels, decoder_dim;
  gint encoder_rates[MAX_RATES], decoder_rates[MAX_RATES];
  guint n_encoder, n_decoder;
} AudioVae;

static gboolean
read_audio_vae (const gchar *dir, AudioVae *a, GError **error)
{
  g_autoptr (H3Config) config = open_config (dir, "metadata.json", error);
  const Need needs[] = {
    { "metadata.kwargs.encoder_dim", &a->encoder_dim },
    { "metadata.kwargs.latent_dim", &a->latent_dim },
    { "metadata.kwargs.vae_latent_channels", &a->channels },
    { "metadata.kwargs.decoder_dim", &a->decoder_dim },
  };

  a->n_encoder = a->n_decoder = MAX_RATES;
  return config && need_ints (config, needs, G_N_ELEMENTS (needs), error) &&
         h3_config_get_ints (config, "metadata.kwargs.encoder_rates", 1, 64,
             a->encoder_rates, &a->n_encoder, error) &&
         h3_config_get_ints (config, "metadata.kwargs.decoder_rates", 1, 64,
             a->decoder_rates, &a->n_decoder, error);
}

/* A convolution with weight norm: a gain per row of dimension 0. */
static void
add_normed (List *list, gint64 dim0, gint64 dim1, gint64 k, gint64 bias,
    const gchar *prefix)
{
  add (list, SHAPE (dim0, 1, 1), "%s.weight_g", prefix);
  add (list, SHAPE (dim0, dim1, k), "%s.weight_v", prefix);
  if (bias)
    add (list, SHAPE (bias), "%s.bias", prefix);
}

static void
add_encoder_stage (List *list, guint n, gint64 c, gint rate)
{
  g_autofree gchar *stage = g_strdup_printf ("encoder.block.%u.block", n);
  g_autofree gchar *down = g_strconcat (stage, ".4", NULL);

  for (guint r = 0; r < 3; r++) {
    g_autofree gchar *p = g_strdup_printf ("%s.%u.block", stage, r);
    g_autofree gchar *wide = g_strconcat (p, ".1", NULL);
    g_autofree gchar *point = g_strconcat (p, ".3", NULL);
    add (list, SHAPE (1, c, 1), "%s.0.alpha", p);
    add (list, SHAPE (1, c, 1), "%s.2.alpha", p);
    add_normed (list, c, c, 7, c, wide);
    add_normed (list, c, c, 1, c, point);
  }
  add (list, SHAPE (1, c, 1), "%s.3.alpha", stage);
  add_normed (list, 2 * c, c, 2 * rate, 2 * c, down);
}

static void
add_plain_conv1d (List *list, gint64 out, gint64 in, const gchar *prefix)
{
  add (list, SHAPE (out, in, 1), "%s.weight", prefix);
  add (list, SHAPE (out), "%s.bias", prefix);
}

static void
add_pre_block (List *list, gint64 d, gint64 c)
{
  add_norm (list, d, "pre_block.norm1");
  add_norm (list, c, "pre_block.norm2");
  add_norm (list, d, "pre_block.norm3");
  add (list, SHAPE (3 * d, d), "pre_block.attn.qkv.weight");
  add (list, SHAPE (d), "pre_block.attn.q_bias");
  add (list, SHAPE (d), "pre_block.attn.v_bias");
  add (list, SHAPE (d), "pre_block.attn.zero_k_bias");
  add_linear (list, c, c, "pre_block.attn.proj");
  add_linear (list, c, d, "pre_block.proj");
  add_norm (list, c, "pre_block.mlp.norm");
  add_linear (list, 2 * c, c, "pre_block.mlp.w0");
  add_linear (list, 2 * c, c, "pre_block.mlp.w1");
  add_linear (list, c, 2 * c, "pre_block.mlp.w2");
}

static void
add_activation (List *list, gint64 c, const gchar *prefix)
{
  add (list, SHAPE (c), "%s.act.alpha", prefix);
  add (list, SHAPE (c), "%s.act.beta", prefix);
  add (list, SHAPE (1, 1, FILTER_TAPS), "%s.upsample.filter", prefix);
  add (list, SHAPE (1, 1, FILTER_TAPS), "%s.downsample.lowpass.filter", prefix);
}

static void
add_res_block (List *list, guint n, gint64 c, gint64 k)
{
  for (guint m = 0; m < 3; m++) {
    for (guint j = 1; j <= 2; j++) {
      g_autofree gchar *p =
          g_strdup_printf ("decoder.resblocks.%u.convs%u.%u", n, j, m);
      add_normed (list, c, c, k, c, p);
    }
  }
  for (guint a = 0; a < 6; a++) {
    g_autofree gchar *p =
        g_strdup_printf ("decoder.resblocks.%u.activations.%u", n, a);
    add_activation (list, c, p);
  }
}

static void
add_audio_decoder (List *list, const AudioVae *a)
{
  static const gint kernels[3] = { 3, 7, 11 };
  gint64 c = a->decoder_dim;

  add_plain_conv1d (list, a->latent_dim, a->channels, "dec_in_proj");
  add_normed (list, c, a->latent_dim, 7, c, "decoder.conv_pre");
  for (guint i = 0; i < a->n_decoder; i++) {
    g_autofree gchar *up = g_strdup_printf ("decoder.ups.%u.0", i);
    gint u = a->decoder_rates[i];

    add_normed (list, c, c / 2, 2 * u - u % 2, c / 2, up);
    c /= 2;
    for (guint j = 0; j < 3; j++)
      add_res_block (list, 3 * i + j, c, kernels[j]);
  }
  add_activation (list, c, "decoder.activation_post");
  add_normed (list, 1, c, 7, 0, "decoder.conv_post");
}

GPtrArray *
mk_audio_vae_tensors (const gchar *dir, GError **error)
{
  AudioVae a;
  List list = list_new (FALSE);
  gint64 c;
  guint n;
  g_autofree gchar *last = NULL;

  if (!read_audio_vae (dir, &a, error)) {
    g_ptr_array_unref (list.tensors);
    return NULL;
  }
  c = a.encoder_dim;
  add_normed (&list, c, 1, 7, c, "encoder.block.0");
  for (n = 1; n <= a.n_encoder; n++, c *= 2)
    add_encoder_stage (&list, n, c, a.encoder_rates[n - 1]);
  add (&list, SHAPE (1, c, 1), "encoder.block.%u.alpha", n);
  last = g_strdup_printf ("encoder.block.%u", n + 1);
  add_normed (&list, a.latent_dim, c, 3, a.latent_dim, last);

  add_pre_block (&list, a.latent_dim, a.channels);
  add_plain_conv1d (&list, a.channels, a.channels, "mean_proj");
  add_plain_conv1d (&list, a.channels, a.channels, "logs_proj");
  add_audio_decoder (&list, &a);
  return list.tensors;
}
