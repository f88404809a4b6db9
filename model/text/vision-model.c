/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which tensors the vision tower is made of (text-encoder.md 8.1). */
#include "model/text/vision-model.h"

#include "model/text/text-config.h"
#include "model/text/vision-config.h"
#include "model/text/vision-layers.h"

static const gchar what[] = "MiniMax H3 vision tower";

static void
clear_linear (H3VisionLinear *linear)
{
  g_clear_pointer (&linear->weight, h3_weight_unref);
  g_clear_pointer (&linear->bias, h3_tensor_unref);
}

static void
clear_norm (H3VisionNorm *norm)
{
  g_clear_pointer (&norm->weight, h3_tensor_unref);
  g_clear_pointer (&norm->bias, h3_tensor_unref);
}

static void
clear_block (H3VisionBlock *block)
{
  clear_norm (&block->norm1);
  clear_norm (&block->norm2);
  clear_linear (&block->qkv);
  clear_linear (&block->proj);
  clear_linear (&block->fc1);
  clear_linear (&block->fc2);
}

static void
clear_merger (H3VisionMerger *merger)
{
  clear_norm (&merger->norm);
  clear_linear (&merger->fc1);
  clear_linear (&merger->fc2);
}

static H3VisionModel *
vision_model_new (void)
{
  H3VisionModel *model = g_new0 (H3VisionModel, 1);

  g_atomic_ref_count_init (&model->refcount);
  return model;
}

H3VisionModel *
h3_vision_model_ref (H3VisionModel *model)
{
  g_atomic_ref_count_inc (&model->refcount);
  return model;
}

void
h3_vision_model_unref (H3VisionModel *model)
{
  if (!g_atomic_ref_count_dec (&model->refcount))
    return;
  clear_linear (&model->patch_embed);
  g_clear_pointer (&model->pos_embed, h3_weight_unref);
  for (gint i = 0; model->blocks && i < model->config.depth; i++)
    clear_block (&model->blocks[i]);
  g_free (model->blocks);
  clear_merger (&model->merger);
  for (guint i = 0; i < H3_VISION_MAX_DEEPSTACK; i++)
    clear_merger (&model->deepstack[i]);
  g_clear_pointer (&model->tensors, g_ptr_array_unref);
  g_free (model);
}

const H3VisionConfig *
h3_vision_model_config (const H3VisionModel *model)
{
  return &model->config;
}

GPtrArray *
h3_vision_model_tensors (const H3VisionModel *model)
{
  return g_ptr_array_ref (model->tensors);
}

static void
read_linear (H3Loader *loader, const gchar *prefix, const gchar *name,
    gint64 out, gint64 in, H3VisionLinear *linear)
{
  g_autofree gchar *weight = g_strconcat (prefix, name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (prefix, name, ".bias", NULL);

  linear->weight = h3_loader_matrix (loader, weight, out, in);
  linear->bias = h3_loader_vector1 (loader, bias, out);
}

static void
read_norm (H3Loader *loader, const gchar *prefix, const gchar *name, gint64 n,
    H3VisionNorm *norm)
{
  g_autofree gchar *weight = g_strconcat (prefix, name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (prefix, name, ".bias", NULL);

  norm->weight = h3_loader_vector1 (loader, weight, n);
  norm->bias = h3_loader_vector1 (loader, bias, n);
}

static void
read_block (H3Loader *loader, const H3VisionConfig *config, gint i,
    H3VisionBlock *block)
{
  g_autofree gchar *p = g_strdup_printf (H3_VISION_PREFIX "blocks.%d.", i);
  const gint64 hidden = config->hidden, ffn = config->ffn;

  read_norm (loader, p, "norm1", hidden, &block->norm1);
  read_norm (loader, p, "norm2", hidden, &block->norm2);
  read_linear (loader, p, "attn.qkv", 3 * hidden, hidden, &block->qkv);
  read_linear (loader, p, "attn.proj", hidden, hidden, &block->proj);
  read_linear (loader, p, "mlp.linear_fc1", ffn, hidden, &block->fc1);
  read_linear (loader, p, "mlp.linear_fc2", hidden, ffn, &block->fc2);
}

/* @norm: the main merger norms each patch, the others the four together. */
static void
read_merger (H3Loader *loader, const H3VisionConfig *config, const gchar *p,
    gint64 norm, H3VisionMerger *merger)
{
  const gint64 merged =
      (gint64) H3_VISION_MERGE * H3_VISION_MERGE * config->hidden;

  read_norm (loader, p, "norm", norm, &merger->norm);
  read_linear (loader, p, "linear_fc1", merged, merged, &merger->fc1);
  read_linear (loader, p, "linear_fc2", config->out_hidden, merged,
      &merger->fc2);
}

/* Both runs of the loader. */
static gboolean
read_tensors (H3Loader *loader, H3VisionModel *model, GError **error)
{
  const H3VisionConfig *config = &model->config;
  const gint64 hidden = config->hidden;
  const gint64 patch =
      3 * H3_VISION_TEMPORAL * H3_VISION_PATCH * H3_VISION_PATCH;

  h3_loader_ignore (loader, H3_TEXT_PREFIX "*");
  h3_loader_ignore (loader, "lm_head.weight");
  read_linear (loader, H3_VISION_PREFIX, "patch_embed.proj", hidden, patch,
      &model->patch_embed);
  model->pos_embed = h3_loader_plain_matrix (loader,
      H3_VISION_PREFIX "pos_embed.weight", config->positions, hidden);
  for (gint i = 0; i < config->depth; i++)
    read_block (loader, config, i, &model->blocks[i]);
  read_merger (loader, config, H3_VISION_PREFIX "merger.", hidden,
      &model->merger);
  for (guint i = 0; i < config->n_deepstack; i++) {
    g_autofree gchar *p =
        g_strdup_printf (H3_VISION_PREFIX "deepstack_merger_list.%u.", i);

    read_merger (loader, config, p, H3_VISION_MERGE * H3_VISION_MERGE * hidden,
        &model->deepstack[i]);
  }
  return h3_loader_finish (loader, error);
}

/* Opens the component and makes the dry run; the loader is ready to begin. */
static H3Loader *
plan (const H3Checkpoint *checkpoint, H3VisionModel *model,
    const H3Device *device, H3TensorSet **set, GError **error)
{
  g_autoptr (H3Config) file = NULL;
  g_autoptr (H3Loader) loader = NULL;

  if (!h3_text_open (checkpoint, &file, set, error) ||
      !h3_vision_config_read (file, &model->config, error))
    return NULL;

  model->blocks = g_new0 (H3VisionBlock, model->config.depth);
  loader = h3_loader_new (*set, what);
  h3_loader_plan_for (loader, device);
  h3_vision_config_check_shapes (loader, file, &model->config);
  if (!read_tensors (loader, model, error))
    return NULL;
  model->config.encoded = h3_loader_encoded_elements (loader);
  return g_steal_pointer (&loader);
}

gboolean
h3_vision_model_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    H3VisionConfig *config, guint64 *weight_bytes, GError **error)
{
  g_autoptr (H3VisionModel) model = vision_model_new ();
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

H3VisionModel *
h3_vision_model_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  g_autoptr (H3VisionModel) model = vision_model_new ();
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (H3Loader) loader = plan (checkpoint, model, device, &set, error);

  if (!loader ||
      !h3_loader_begin (loader, device, stop, progress, user_data, error) ||
      !read_tensors (loader, model, error))
    return NULL;
  model->tensors = h3_loader_take_tensors (loader);
  return g_steal_pointer (&model);
}
