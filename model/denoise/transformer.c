/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The transformer's tensors: names, shapes, orders (checkpoints.md 3.4, 3.5).
 */
#define G_LOG_DOMAIN "h3"

#include "model/denoise/transformer-private.h"

#include "model/checkpoint/detect.h"

typedef struct {
  H3Loader *loader;
  H3TransformerConfig *config;
  gboolean diffusers;
  H3QkvOrder qkv;
  H3DType narrow; /* of weights outside the islands; float32: as stored */
  H3WeightType blocks;
} Source;

/* The tensor's name in the naming the files have. */
static const gchar *
either (const Source *source, const gchar *official, const gchar *diffusers)
{
  return source->diffusers ? diffusers : official;
}

static H3Weight *
block_matrix (const Source *source, const gchar *prefix, const gchar *suffix,
    gint64 rows, gint64 cols)
{
  g_autofree gchar *name = g_strconcat (prefix, suffix, NULL);

  return h3_loader_matrix (source->loader, name, rows, cols);
}

static H3Tensor *
block_vector (const Source *source, const gchar *prefix, const gchar *suffix,
    gint64 n)
{
  g_autofree gchar *name = g_strconcat (prefix, suffix, NULL);

  return h3_loader_vector1 (source->loader, name, n);
}

static H3Weight *
block_qkv (const Source *source, const gchar *prefix)
{
  const H3TransformerConfig *c = source->config;
  g_autofree gchar *fused = g_strconcat (prefix, "attn.qkv_proj.weight", NULL);
  g_autofree gchar *q = g_strconcat (prefix, "attn.to_q.weight", NULL);
  g_autofree gchar *k = g_strconcat (prefix, "attn.to_k.weight", NULL);
  g_autofree gchar *v = g_strconcat (prefix, "attn.to_v.weight", NULL);
  const gchar *const split[] = { q, k, v };
  const gchar *const whole[] = { fused };

  if (source->diffusers)
    return h3_loader_weight (source->loader, split, 3,
        3 * (gint64) c->heads * c->head_dim, c->hidden, H3_ROWS_AS_STORED,
        c->heads, c->head_dim);
  return h3_loader_weight (source->loader, whole, 1,
      3 * (gint64) c->heads * c->head_dim, c->hidden,
      source->qkv == H3_QKV_GROUPED ? H3_ROWS_GROUPED_QKV : H3_ROWS_AS_STORED,
      c->heads, c->head_dim);
}

static H3Weight *
block_fc1 (const Source *source, const gchar *prefix)
{
  const H3TransformerConfig *c = source->config;
  g_autofree gchar *name = g_strconcat (prefix,
      either (source, "mlp.fc1.weight", "ff.net.0.proj.weight"), NULL);
  const gchar *const names[] = { name };

  return h3_loader_weight (source->loader, names, 1, 2 * (gint64) c->ffn,
      c->hidden, source->diffusers ? H3_ROWS_SWAP_HALVES : H3_ROWS_AS_STORED, 0,
      0);
}

static void
load_block (const Source *source, const gchar *prefix, H3Block *block)
{
  const H3TransformerConfig *c = source->config;
  gint64 inner = (gint64) c->heads * c->head_dim;

  block->norm1 = block_vector (source, prefix, "norm1.weight", c->hidden);
  block->norm2 = block_vector (source, prefix, "norm2.weight", c->hidden);
  block->q_norm = block_vector (source, prefix,
      either (source, "attn.q_norm.weight", "attn.norm_q.weight"), c->head_dim);
  block->k_norm = block_vector (source, prefix,
      either (source, "attn.k_norm.weight", "attn.norm_k.weight"), c->head_dim);
  block->qkv = block_qkv (source, prefix);
  block->out = block_matrix (source, prefix,
      either (source, "attn.out_proj.weight", "attn.to_out.0.weight"),
      c->hidden, inner);
  block->fc1 = block_fc1 (source, prefix);
  block->fc2 = block_matrix (source, prefix,
      either (source, "mlp.fc2.weight", "ff.net.2.weight"), c->hidden, c->ffn);
}

/* A linear with a bias: "@name.weight", "@name.bias". */
static void
load_linear (const Source *source, const gchar *official,
    const gchar *diffusers, gint64 rows, gint64 cols, H3Weight **weight,
    H3Tensor **bias)
{
  const gchar *name = either (source, official, diffusers);

  *weight = block_matrix (source, name, ".weight", rows, cols);
  *bias = block_vector (source, name, ".bias", rows);
}

/* What denoiser.md 3.8 computes in float32 on every device. */
static void
load_islands (const Source *source, H3Transformer *t)
{
  const H3TransformerConfig *c = source->config;

  load_linear (source, "video_patch_proj", "proj_in", c->hidden,
      4 * (gint64) c->video_channels, &t->video_in, &t->video_in_bias);
  load_linear (source, "audio_patch_proj", "audio_proj_in", c->hidden,
      c->audio_channels, &t->audio_in, &t->audio_in_bias);
  load_linear (source, "final_layer.video_out", "proj_out",
      4 * (gint64) c->video_channels, c->hidden, &t->video_out,
      &t->video_out_bias);
  load_linear (source, "final_layer.audio_out", "audio_proj_out",
      c->audio_channels, c->hidden, &t->audio_out, &t->audio_out_bias);
}

/* What makes AdaLN's input of timesteps: an island too. */
static void
load_time (const Source *source, H3Transformer *t)
{
  const H3TransformerConfig *c = source->config;

  if (c->curve_points > 0) {
    h3_curve_load (&t->curve, source->loader, c);
    h3_curve_project (&t->curve, source->loader);
    return;
  }
  load_linear (source, "time_embedder.proj_in", "time_embedder.linear_1",
      c->time_hidden, c->freq_dim, &t->time_in, &t->time_in_bias);
  load_linear (source, "time_embedder.proj_out", "time_embedder.linear_2",
      c->time_dim, c->time_hidden, &t->time_out, &t->time_out_bias);
}

static void
load_blocks (const Source *source, H3Transformer *t)
{
  const H3TransformerConfig *c = source->config;

  for (gint i = 0; i < c->refiner_layers; i++) {
    g_autofree gchar *prefix = g_strdup_printf ("token_refiner.%s.%d.",
        either (source, "blocks", "refiner_blocks"), i);

    load_block (source, prefix, &t->refiner[i]);
  }
  t->refiner_norm = h3_loader_vector1 (source->loader,
      "token_refiner.final_norm.weight", c->hidden);

  h3_loader_quantise_matrices (source->loader,
      source->blocks == H3_WEIGHTS_FP8);
  for (gint i = 0; i < c->layers; i++) {
    g_autofree gchar *prefix = g_strdup_printf ("%s.%d.",
        either (source, "blocks", "transformer_blocks"), i);

    load_block (source, prefix, &t->blocks[i]);
  }
  h3_loader_quantise_matrices (source->loader, FALSE);
}

static void
load_final_layer (const Source *source, H3Transformer *t)
{
  const H3TransformerConfig *c = source->config;

  gint64 rows = H3_N_FINAL_ADALN * (gint64) c->hidden;
  const gchar *adaln =
      either (source, "final_layer.adaln_proj.linear", "norm_out.linear");
  g_autofree gchar *weight = g_strconcat (adaln, ".weight", NULL);
  g_autofree gchar *bias = h3_adaln_bias_name (source->loader, c, adaln);

  t->final_norm = h3_loader_vector1 (source->loader,
      either (source, "final_layer.norm.weight", "norm_out.norm.weight"),
      c->hidden);
  t->final_adaln =
      h3_loader_matrix (source->loader, weight, rows, h3_adaln_width (c));
  t->final_adaln_bias = h3_loader_vector1 (source->loader, bias, rows);
  h3_loader_adapt_bias (source->loader, weight, t->final_adaln_bias);
}

/* Gates of sparse attention (VSA, checkpoints.md 4.6), which dense attention does
 * not have. */
#define GATE_SUFFIX ".attn.to_gate_compress.weight"

static void
note_gates (const H3TensorSet *set)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  guint n = 0;

  for (guint i = 0; i < names->len; i++)
    n += g_str_has_suffix (names->pdata[i], GATE_SUFFIX);
  if (n > 0)
    g_info ("%s: the gates of sparse attention (VSA) of %u blocks are ignored: "
            "attention is dense",
        h3_tensor_set_path (set), n);
}

/* Asks @loader for every tensor: in its dry run @t stays empty. */
static void
describe (const Source *source, H3Transformer *t)
{
  h3_loader_ignore (source->loader, "rope.inv_freq"); /* recomputed */
  h3_loader_ignore (source->loader, "*" GATE_SUFFIX);
  load_islands (source, t);
  load_time (source, t);
  h3_loader_round_matrices (source->loader, source->narrow);
  load_linear (source, "condition_proj", "context_embedder",
      source->config->hidden, source->config->text_dim, &t->condition,
      &t->condition_bias);
  load_blocks (source, t);
  if (source->config->curve_points > 0) /* an island, as the curve is */
    h3_loader_round_matrices (source->loader, H3_DTYPE_F32);
  load_final_layer (source, t);
}

static H3Transformer *
transformer_new (const H3TransformerConfig *config)
{
  H3Transformer *t = g_new0 (H3Transformer, 1);

  g_atomic_ref_count_init (&t->refcount);
  t->config = *config;
  t->refiner = g_new0 (H3Block, config->refiner_layers);
  t->blocks = g_new0 (H3Block, config->layers);
  h3_adaln_init (&t->adaln);
  return t;
}

/* The dry run: everything is there and has its shape. */
static gboolean
check (const Source *source, guint64 *weight_bytes, GError **error)
{
  g_autoptr (H3Transformer) nothing = transformer_new (source->config);

  describe (source, nothing);
  if (weight_bytes)
    *weight_bytes = h3_loader_bytes (source->loader);
  h3_adaln_check (source->loader, source->config, source->diffusers);
  source->config->encoded = h3_loader_encoded_elements (source->loader);
  source->config->low_rank = (gint) h3_loader_low_rank (source->loader);
  return h3_loader_finish (source->loader, error);
}

/* The tensors, and how their q, k, v are ordered: what the checkpoint's user
 * says goes before what the files' form says. */
static H3TensorSet *
open_tensors (const H3Checkpoint *checkpoint, H3QkvOrder *qkv, GError **error)
{
  const gchar *path =
      h3_checkpoint_path (checkpoint, H3_COMPONENT_TRANSFORMER, error);
  H3QkvOrder said = h3_checkpoint_qkv_order (checkpoint);
  H3Detection found = { 0 };
  H3TensorSet *set;

  if (!path)
    return NULL;
  set = h3_component_open (path, H3_COMPONENT_TRANSFORMER, &found, error);
  *qkv = said != H3_QKV_AUTO ? said : found.qkv;
  return set;
}

/* For a loader in its dry run, which has to end before they do. FALSE when they
 * are no adapters; NULL without an error when there are none. */
static gboolean
open_adapters (const H3Checkpoint *checkpoint, H3Loader *loader,
    H3Adapters **adapters, GError **error)
{
  guint n;
  const H3AdapterChoice *choices = h3_checkpoint_adapters (checkpoint, &n);

  if (n == 0)
    return TRUE;
  *adapters = h3_adapters_open (choices, n, error);
  h3_loader_set_adapters (loader, *adapters);
  return *adapters != NULL;
}

gboolean
h3_transformer_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    H3TransformerConfig *config, guint64 *weight_bytes, GError **error)
{
  Source source = { .config = config,
    .narrow = device ? device->act_dtype : H3_DTYPE_F32,
    .blocks = h3_checkpoint_weight_type (checkpoint) };
  g_autoptr (H3TensorSet) set = open_tensors (checkpoint, &source.qkv, error);
  g_autoptr (H3Adapters) adapters = NULL;
  g_autoptr (H3Loader) loader = NULL;

  if (!set ||
      !h3_transformer_config_read (config, set, &source.diffusers, error))
    return FALSE;
  loader = source.loader = h3_loader_new (set, H3_TRANSFORMER_WHAT);
  h3_loader_plan_for (loader, device);
  return open_adapters (checkpoint, loader, &adapters, error) &&
         check (&source, weight_bytes, error);
}

H3Transformer *
h3_transformer_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  H3TransformerConfig config;
  Source source = { .config = &config,
    .narrow = device->act_dtype,
    .blocks = h3_checkpoint_weight_type (checkpoint) };
  g_autoptr (H3TensorSet) set = open_tensors (checkpoint, &source.qkv, error);
  g_autoptr (H3Adapters) adapters = NULL;
  g_autoptr (H3Loader) loader = NULL;
  g_autoptr (H3Transformer) transformer = NULL;

  if (!set ||
      !h3_transformer_config_read (&config, set, &source.diffusers, error))
    return NULL;
  loader = source.loader = h3_loader_new (set, H3_TRANSFORMER_WHAT);
  h3_loader_plan_for (loader, device);
  if (!open_adapters (checkpoint, loader, &adapters, error) ||
      !check (&source, NULL, error) ||
      !h3_loader_begin (loader, device, stop, progress, user_data, error))
    return NULL;

  note_gates (set);
  transformer = transformer_new (&config);
  transformer->device = h3_device_ref (device);
  describe (&source, transformer);
  if (!h3_loader_finish (loader, error))
    return NULL;
  transformer->tensors = h3_loader_take_tensors (loader);
  transformer->adaln.set = g_steal_pointer (&set);
  transformer->adaln.adapters = g_steal_pointer (&adapters);
  transformer->adaln.diffusers = source.diffusers;
  return g_steal_pointer (&transformer);
}

H3Transformer *
h3_transformer_ref (H3Transformer *transformer)
{
  g_atomic_ref_count_inc (&transformer->refcount);
  return transformer;
}

static void
block_clear (H3Block *block)
{
  g_clear_pointer (&block->norm1, h3_tensor_unref);
  g_clear_pointer (&block->norm2, h3_tensor_unref);
  g_clear_pointer (&block->q_norm, h3_tensor_unref);
  g_clear_pointer (&block->k_norm, h3_tensor_unref);
  g_clear_pointer (&block->qkv, h3_weight_unref);
  g_clear_pointer (&block->out, h3_weight_unref);
  g_clear_pointer (&block->fc1, h3_weight_unref);
  g_clear_pointer (&block->fc2, h3_weight_unref);
}

static void
embeddings_clear (H3Transformer *t)
{
  g_clear_pointer (&t->video_in, h3_weight_unref);
  g_clear_pointer (&t->audio_in, h3_weight_unref);
  g_clear_pointer (&t->condition, h3_weight_unref);
  g_clear_pointer (&t->video_in_bias, h3_tensor_unref);
  g_clear_pointer (&t->audio_in_bias, h3_tensor_unref);
  g_clear_pointer (&t->condition_bias, h3_tensor_unref);
  g_clear_pointer (&t->time_in, h3_weight_unref);
  g_clear_pointer (&t->time_out, h3_weight_unref);
  g_clear_pointer (&t->time_in_bias, h3_tensor_unref);
  g_clear_pointer (&t->time_out_bias, h3_tensor_unref);
}

void
h3_transformer_unref (H3Transformer *t)
{
  if (!g_atomic_ref_count_dec (&t->refcount))
    return;

  embeddings_clear (t);
  for (gint i = 0; i < t->config.refiner_layers; i++)
    block_clear (&t->refiner[i]);
  g_free (t->refiner);
  g_clear_pointer (&t->refiner_norm, h3_tensor_unref);
  for (gint i = 0; i < t->config.layers; i++)
    block_clear (&t->blocks[i]);
  g_free (t->blocks);
  h3_adaln_clear (&t->adaln);
  h3_curve_clear (&t->curve);
  g_clear_pointer (&t->final_norm, h3_tensor_unref);
  g_clear_pointer (&t->final_adaln, h3_weight_unref);
  g_clear_pointer (&t->video_out, h3_weight_unref);
  g_clear_pointer (&t->audio_out, h3_weight_unref);
  g_clear_pointer (&t->final_adaln_bias, h3_tensor_unref);
  g_clear_pointer (&t->video_out_bias, h3_tensor_unref);
  g_clear_pointer (&t->audio_out_bias, h3_tensor_unref);
  g_clear_pointer (&t->tensors, g_ptr_array_unref);
  g_clear_pointer (&t->device, h3_device_unref);
  g_free (t);
}

GPtrArray *
h3_transformer_tensors (const H3Transformer *transformer)
{
  return g_ptr_array_ref (transformer->tensors);
}

const H3TransformerConfig *
h3_transformer_config (const H3Transformer *transformer)
{
  return &transformer->config;
}
