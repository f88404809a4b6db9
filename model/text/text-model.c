/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which tensors the language model is made of (text-encoder.md 8.1). */
#include "model/text/text-model.h"

#include "model/text/text-config.h"
#include "model/text/text-layers.h"

static const gchar what[] = "MiniMax H3 text encoder";

static void
clear_layer (H3TextLayer *layer)
{
  g_clear_pointer (&layer->input_norm, h3_tensor_unref);
  g_clear_pointer (&layer->qkv, h3_weight_unref);
  g_clear_pointer (&layer->q_norm, h3_tensor_unref);
  g_clear_pointer (&layer->k_norm, h3_tensor_unref);
  g_clear_pointer (&layer->o, h3_weight_unref);
  g_clear_pointer (&layer->post_norm, h3_tensor_unref);
  g_clear_pointer (&layer->gate_up, h3_weight_unref);
  g_clear_pointer (&layer->down, h3_weight_unref);
}

static H3TextModel *
text_model_new (void)
{
  H3TextModel *model = g_new0 (H3TextModel, 1);

  g_atomic_ref_count_init (&model->refcount);
  return model;
}

H3TextModel *
h3_text_model_ref (H3TextModel *model)
{
  g_atomic_ref_count_inc (&model->refcount);
  return model;
}

void
h3_text_model_unref (H3TextModel *model)
{
  if (!g_atomic_ref_count_dec (&model->refcount))
    return;
  g_clear_pointer (&model->embed_tokens, h3_weight_unref);
  for (guint i = 0; i < H3_TEXT_LAYERS; i++)
    clear_layer (&model->layers[i]);
  g_clear_pointer (&model->tensors, g_ptr_array_unref);
  g_free (model);
}

const H3TextConfig *
h3_text_model_config (const H3TextModel *model)
{
  return &model->config;
}

GPtrArray *
h3_text_model_tensors (const H3TextModel *model)
{
  return g_ptr_array_ref (model->tensors);
}

static H3Tensor *
layer_vector (H3Loader *loader, guint layer, const gchar *name, gint64 n)
{
  g_autofree gchar *full =
      g_strdup_printf (H3_TEXT_PREFIX "layers.%u.%s.weight", layer, name);

  return h3_loader_vector1 (loader, full, n);
}

static H3Weight *
layer_matrix (H3Loader *loader, guint layer, const gchar *name, gint64 rows,
    gint64 cols)
{
  g_autofree gchar *full =
      g_strdup_printf (H3_TEXT_PREFIX "layers.%u.%s.weight", layer, name);

  return h3_loader_matrix (loader, full, rows, cols);
}

/* Up to three matrices, the rows of one after those of the other; @heads and
 * @head_dim say how many rows q has of q, k, v. */
static H3Weight *
layer_rows (H3Loader *loader, guint layer, const gchar *const *names,
    guint n_names, gint64 rows, gint64 cols, guint heads, guint head_dim)
{
  gchar *full[3] = { NULL };
  H3Weight *weight;

  for (guint i = 0; i < n_names; i++)
    full[i] =
        g_strdup_printf (H3_TEXT_PREFIX "layers.%u.%s.weight", layer, names[i]);
  weight = h3_loader_weight (loader, (const gchar *const *) full, n_names, rows,
      cols, H3_ROWS_AS_STORED, heads, head_dim);
  for (guint i = 0; i < n_names; i++)
    g_free (full[i]);
  return weight;
}

static void
read_layer (H3Loader *loader, const H3TextConfig *config, guint l,
    H3TextLayer *layer)
{
  static const gchar *const qkv[] = { "self_attn.q_proj", "self_attn.k_proj",
    "self_attn.v_proj" };
  static const gchar *const gate_up[] = { "mlp.gate_proj", "mlp.up_proj" };
  const gint64 hidden = config->hidden, ffn = config->ffn;
  const gint64 head_dim = config->head_dim;
  const gint64 q_width = config->heads * head_dim;
  const gint64 kv_width = config->kv_heads * head_dim;

  layer->input_norm = layer_vector (loader, l, "input_layernorm", hidden);
  layer->qkv = layer_rows (loader, l, qkv, 3, q_width + 2 * kv_width, hidden,
      config->heads, head_dim);
  layer->q_norm = layer_vector (loader, l, "self_attn.q_norm", head_dim);
  layer->k_norm = layer_vector (loader, l, "self_attn.k_norm", head_dim);
  layer->o = layer_matrix (loader, l, "self_attn.o_proj", hidden, q_width);
  layer->post_norm =
      layer_vector (loader, l, "post_attention_layernorm", hidden);
  layer->gate_up = layer_rows (loader, l, gate_up, 2, 2 * ffn, hidden, 0, 0);
  layer->down = layer_matrix (loader, l, "mlp.down_proj", hidden, ffn);
}

/* What the released files have beyond layer 50, and the vision tower. */
static void
ignore_the_rest (H3Loader *loader)
{
  static const gchar *const patterns[] = {
    H3_TEXT_PREFIX "layers.5?.*",
    H3_TEXT_PREFIX "layers.6?.*",
    H3_TEXT_PREFIX "layers.7?.*",
    H3_TEXT_PREFIX "layers.8?.*",
    H3_TEXT_PREFIX "layers.9?.*",
    H3_TEXT_PREFIX "layers.???.*",
    H3_TEXT_PREFIX "norm.weight",
    "lm_head.weight",
    "model.visual.*",
  };

  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    h3_loader_ignore (loader, patterns[i]);
}

/* Layers from the first without a gap; a problem when they are too few. */
static void
count_layers (H3Loader *loader)
{
  guint n;

  for (n = 0; n < H3_TEXT_LAYERS; n++) {
    g_autofree gchar *name =
        g_strdup_printf (H3_TEXT_PREFIX "layers.%u.input_layernorm.weight", n);

    if (!h3_loader_has (loader, name))
      break;
  }
  if (n < H3_TEXT_LAYERS)
    h3_loader_problem (loader,
        "the language model has %u layers, %d are needed", n, H3_TEXT_LAYERS);
}

/* Both runs of the loader. @narrow: what products compute in; float32: the type
 * that the files have. */
static gboolean
read_tensors (H3Loader *loader, H3TextModel *model, H3WeightType layers,
    H3DType narrow, GError **error)
{
  const H3TextConfig *config = &model->config;

  ignore_the_rest (loader);
  h3_loader_round_matrices (loader, narrow);
  model->embed_tokens = h3_loader_matrix (loader,
      H3_TEXT_PREFIX "embed_tokens.weight", config->vocab, config->hidden);
  h3_loader_quantise_matrices (loader, layers == H3_WEIGHTS_FP8);
  for (guint i = 0; i < H3_TEXT_LAYERS; i++)
    read_layer (loader, config, i, &model->layers[i]);
  return h3_loader_finish (loader, error);
}

/* Opens the component and makes the dry run; the loader is ready to begin. */
static H3Loader *
plan (const H3Checkpoint *checkpoint, H3TextModel *model,
    const H3Device *device, H3TensorSet **set, GError **error)
{
  g_autoptr (H3Config) file = NULL;
  g_autoptr (H3Loader) loader = NULL;

  if (!h3_text_open (checkpoint, &file, set, error) ||
      !h3_text_config_read (file, &model->config, error))
    return NULL;

  loader = h3_loader_new (*set, what);
  h3_loader_plan_for (loader, device);
  count_layers (loader);
  h3_text_config_check_shapes (loader, file, &model->config);
  if (!read_tensors (loader, model, h3_checkpoint_weight_type (checkpoint),
          device ? device->act_dtype : H3_DTYPE_F32, error))
    return NULL;
  model->config.encoded = h3_loader_encoded_elements (loader);
  return g_steal_pointer (&loader);
}

gboolean
h3_text_model_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    H3TextConfig *config, guint64 *weight_bytes, GError **error)
{
  g_autoptr (H3TextModel) model = text_model_new ();
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (H3Loader) loader = plan (checkpoint, model, device, &set, error);

  if (!loader)
    return FALSE;
  if (config)
    *config = model->config;
  if (weight_bytes)
    *weight_bytes = h3_loader_bytes (loader);
  return TRUE;
}

H3TextModel *
h3_text_model_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  g_autoptr (H3TextModel) model = text_model_new ();
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (H3Loader) loader = plan (checkpoint, model, device, &set, error);

  if (!loader ||
      !h3_loader_begin (loader, device, stop, progress, user_data, error) ||
      !read_tensors (loader, model, h3_checkpoint_weight_type (checkpoint),
          device->act_dtype, error))
    return NULL;
  model->tensors = h3_loader_take_tensors (loader);
  return g_steal_pointer (&model);
}
