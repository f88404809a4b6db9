/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The encoder's weights: names, shapes and their order (video-vae.md 3.1). */
#include <string.h>

#include "model/checkpoint/detect.h"
#include "model/video/video-private.h"

typedef struct {
  H3VideoEncoderConfig config;
  H3TensorSet *set;
  H3Loader *loader;
  H3Naming naming;
} Source;

static void
source_clear (Source *source)
{
  g_clear_pointer (&source->loader, h3_loader_free);
  g_clear_pointer (&source->set, h3_tensor_set_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Source, source_clear)

/* What only the decoder's tensors could complete. */
static void
forget_decoder (H3VideoVaeConfig *config)
{
  config->layers = config->heads = config->head_dim = 0;
  config->registers = config->ffn = 0;
}

static gboolean
source_open (Source *source, const H3Checkpoint *checkpoint, GError **error)
{
  static const gchar *const not_here[] = { "decoder.*", "post_quant_conv.*",
    "latents_mean", "latents_std" };
  const gchar *path =
      h3_checkpoint_path (checkpoint, H3_COMPONENT_VIDEO_VAE, error);
  g_autofree gchar *tensors = NULL;
  gint ffn_mult;

  if (!path ||
      !h3_video_config_read (path, &source->config.vae, &ffn_mult, &tensors,
          error) ||
      !h3_video_encoder_config_read (tensors, &source->config, error))
    return FALSE;
  forget_decoder (&source->config.vae);
  source->set =
      h3_component_open (tensors, H3_COMPONENT_VIDEO_VAE, NULL, error);
  if (!source->set || !h3_video_config_take_statistics (&source->config.vae,
                          source->set, error))
    return FALSE;
  source->loader = h3_loader_new (source->set, "MiniMax H3 video encoder");
  source->naming = h3_video_detect_naming (source->set);
  for (guint i = 0; i < G_N_ELEMENTS (not_here); i++)
    h3_loader_ignore (source->loader, not_here[i]);
  return TRUE;
}

/* Tensors */

/* [Ci, taps] to [taps, Ci] for each of @co output channels, in place. */
static void
channels_last (gfloat *w, gint64 co, gint64 ci, gint64 taps)
{
  g_autofree gfloat *row = g_new (gfloat, ci * taps);

  for (gint64 o = 0; o < co; o++, w += ci * taps) {
    memcpy (row, w, ci * taps * sizeof *row);
    for (gint64 c = 0; c < ci; c++)
      for (gint64 t = 0; t < taps; t++)
        w[t * ci + c] = row[c * taps + t];
  }
}

static void
load_conv (Source *source, const gchar *base, const gchar *name, gint64 co,
    gint64 ci, gint64 k, H3VideoConv *conv)
{
  const gint64 stored[] = { co, ci, k, k, k }, shape[] = { co, k, k, k, ci };
  g_autofree gchar *weight = g_strconcat (base, name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (base, name, ".bias", NULL);
  g_autofree gfloat *host = h3_loader_read (source->loader, weight, 5, stored);

  if (host && k > 1)
    channels_last (host, co, ci, k * k * k);
  conv->weight = h3_loader_computed (source->loader, host, 5, shape);
  conv->bias = h3_loader_vector1 (source->loader, bias, co);
}

static void
load_norm (Source *source, const gchar *base, const gchar *name, gint64 n,
    H3VideoNorm *norm)
{
  g_autofree gchar *weight = g_strconcat (base, name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (base, name, ".bias", NULL);

  norm->weight = h3_loader_vector1 (source->loader, weight, n);
  norm->bias = h3_loader_vector1 (source->loader, bias, n);
}

static void
load_level (Source *source, gint l, H3VideoLevel *level)
{
  const H3VideoEncoderConfig *config = &source->config;
  gboolean official = source->naming == H3_NAMING_OFFICIAL;
  g_autofree gchar *base =
      g_strdup_printf ("encoder.%s.%d.", official ? "down" : "down_blocks", l);
  gint64 in = h3_video_level_in (config, l), out = config->channels[l];

  for (gint b = 0; b < config->blocks; b++, in = out) {
    H3VideoResBlock *block = &level->blocks[b];
    g_autofree gchar *name =
        g_strdup_printf ("%s%s.%d.", base, official ? "block" : "resnets", b);

    load_norm (source, name, "norm1", in, &block->norm1);
    load_conv (source, name, "conv1", out, in, 3, &block->conv1);
    load_norm (source, name, "norm2", out, &block->norm2);
    load_conv (source, name, "conv2", out, out, 3, &block->conv2);
    if (in != out)
      load_conv (source, name, official ? "nin_shortcut" : "conv_shortcut", out,
          in, 1, &block->shortcut);
  }
  if (h3_video_level_shrinks (config, l))
    load_conv (source, base,
        official ? "downsample.conv" : "downsamplers.0.conv", out, out, 3,
        &level->down);
}

/* Called in the dry run and in the real one. */
static void
load_tensors (Source *source, H3VideoEncoderModel *model)
{
  const H3VideoEncoderConfig *config = &source->config;
  gint64 last = config->channels[config->levels - 1];
  gint64 moments = 2 * config->vae.channels;
  static const gchar base[] = "encoder.";

  load_conv (source, base, "conv_in", config->first, 3, 3, &model->conv_in);
  for (gint l = 0; l < config->levels; l++)
    load_level (source, l, &model->levels[l]);
  load_norm (source, base, "norm_out", last, &model->norm_out);
  load_conv (source, base, "conv_out", moments, last, 3, &model->conv_out);
  load_conv (source, "", "quant_conv", moments, moments, 1, &model->quant);
}

static H3VideoEncoderModel *
model_new (const H3VideoEncoderConfig *config)
{
  H3VideoEncoderModel *model = g_new0 (H3VideoEncoderModel, 1);

  g_atomic_ref_count_init (&model->refcount);
  model->config = *config;
  for (gint l = 0; l < config->levels; l++)
    model->levels[l].blocks = g_new0 (H3VideoResBlock, config->blocks);
  return model;
}

static gboolean
plan_source (Source *source, const H3Checkpoint *checkpoint,
    const H3Device *device, GError **error)
{
  g_autoptr (H3VideoEncoderModel) nothing = NULL;

  if (!source_open (source, checkpoint, error))
    return FALSE;
  h3_loader_plan_for (source->loader, device);
  nothing = model_new (&source->config);
  load_tensors (source, nothing);
  return h3_loader_finish (source->loader, error);
}

gboolean
h3_video_encoder_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    H3VideoEncoderConfig *config, guint64 *weight_bytes, GError **error)
{
  g_auto (Source) source = { 0 };

  if (!plan_source (&source, checkpoint, device, error))
    return FALSE;
  if (config)
    *config = source.config;
  if (weight_bytes)
    *weight_bytes = h3_loader_bytes (source.loader);
  return TRUE;
}

H3VideoEncoderModel *
h3_video_encoder_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  g_auto (Source) source = { 0 };
  g_autoptr (H3VideoEncoderModel) model = NULL;

  if (!plan_source (&source, checkpoint, device, error) ||
      !h3_loader_begin (source.loader, device, stop, progress, user_data,
          error))
    return NULL;
  model = model_new (&source.config);
  load_tensors (&source, model);
  if (!h3_loader_finish (source.loader, error))
    return NULL;
  return g_steal_pointer (&model);
}

H3VideoEncoderModel *
h3_video_encoder_model_ref (H3VideoEncoderModel *model)
{
  g_atomic_ref_count_inc (&model->refcount);
  return model;
}

static void
conv_clear (H3VideoConv *conv)
{
  g_clear_pointer (&conv->weight, h3_weight_unref);
  g_clear_pointer (&conv->bias, h3_tensor_unref);
}

static void
norm_clear (H3VideoNorm *norm)
{
  g_clear_pointer (&norm->weight, h3_tensor_unref);
  g_clear_pointer (&norm->bias, h3_tensor_unref);
}

static void
block_clear (H3VideoResBlock *block)
{
  norm_clear (&block->norm1);
  norm_clear (&block->norm2);
  conv_clear (&block->conv1);
  conv_clear (&block->conv2);
  conv_clear (&block->shortcut);
}

void
h3_video_encoder_model_unref (H3VideoEncoderModel *model)
{
  if (!g_atomic_ref_count_dec (&model->refcount))
    return;
  for (gint l = 0; l < model->config.levels; l++) {
    for (gint b = 0; b < model->config.blocks; b++)
      block_clear (&model->levels[l].blocks[b]);
    g_free (model->levels[l].blocks);
    conv_clear (&model->levels[l].down);
  }
  conv_clear (&model->conv_in);
  conv_clear (&model->conv_out);
  conv_clear (&model->quant);
  norm_clear (&model->norm_out);
  g_free (model);
}

const H3VideoEncoderConfig *
h3_video_encoder_config (const H3VideoEncoderModel *model)
{
  return &model->config;
}
