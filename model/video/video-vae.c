/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The decoder's weights: names, shapes and row orders (video-vae.md 3.2). The
 * encoder's half of the file is video-encoder-model.c's. */
#include <string.h>

#include "model/checkpoint/detect.h"
#include "model/video/video-private.h"

/* Where a model's tensors come from. */
typedef struct {
  H3VideoVaeConfig config;
  gint ffn_mult;
  H3TensorSet *set;
  H3Loader *loader;
  H3Naming naming;
  H3DType narrow; /* of the products' weights; H3_DTYPE_F32: as stored */
} Source;

static void
source_clear (Source *source)
{
  g_clear_pointer (&source->loader, h3_loader_free);
  g_clear_pointer (&source->set, h3_tensor_set_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Source, source_clear)

/* The keys tell the scheme, whatever folder the file lies in. Without any of
 * them the official names are reported missing. */
H3Naming
h3_video_detect_naming (const H3TensorSet *set)
{
  static const gchar *const diffusers[] = { "decoder.proj_in.weight",
    "encoder.down_blocks.0.resnets.0.conv1.weight" };

  if (h3_tensor_set_has (set, "decoder.x_embedder.weight"))
    return H3_NAMING_OFFICIAL;
  for (guint i = 0; i < G_N_ELEMENTS (diffusers); i++)
    if (h3_tensor_set_has (set, diffusers[i]))
      return H3_NAMING_DIFFUSERS;
  return H3_NAMING_OFFICIAL;
}

static void
ignore_other_half (Source *source)
{
  static const gchar *const patterns[] = { "encoder.*", "quant_conv.*",
    "decoder.mask_token", "latents_mean", "latents_std" };

  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    h3_loader_ignore (source->loader, patterns[i]);
}

static gboolean
source_open (Source *source, const H3Checkpoint *checkpoint, GError **error)
{
  const gchar *path =
      h3_checkpoint_path (checkpoint, H3_COMPONENT_VIDEO_VAE, error);
  g_autofree gchar *tensors = NULL;

  if (!path || !h3_video_config_read (path, &source->config, &source->ffn_mult,
                   &tensors, error))
    return FALSE;
  source->set =
      h3_component_open (tensors, H3_COMPONENT_VIDEO_VAE, NULL, error);
  if (!source->set ||
      !h3_video_config_take_statistics (&source->config, source->set, error))
    return FALSE;
  source->loader = h3_loader_new (source->set, "MiniMax H3 video decoder");
  source->naming = h3_video_detect_naming (source->set);
  ignore_other_half (source);
  return TRUE;
}

/* Geometry */

/* The first dimensions of a stored tensor; FALSE, a problem the loader
 * remembers, when there are not that many or one is no int. */
static gboolean
stored_shape (Source *source, const gchar *name, guint n, gint *dimensions)
{
  guint64 shape[H3_STORED_MAX_RANK];
  guint rank, i;

  if (!h3_loader_shape (source->loader, name, shape, &rank))
    return FALSE;
  for (i = 0; i < n && i < rank && shape[i] > 0 && shape[i] <= G_MAXINT; i++)
    dimensions[i] = (gint) shape[i];
  if (i == n)
    return TRUE;
  h3_loader_problem (source->loader, "%s: dimension %u is needed to be 1 .. %d",
      name, i, G_MAXINT);
  return FALSE;
}

static gint
stored_layers (Source *source)
{
  gint n = 0;

  while (TRUE) {
    g_autofree gchar *name =
        g_strdup_printf ("decoder.transformer_blocks.%d.scale1", n);

    if (!h3_loader_has (source->loader, name))
      return n;
    n++;
  }
}

/* What the configuration leaves open the tensors decide; where both speak they
 * must agree. */
static gboolean
settle (Source *source, const gchar *what, gint *value, gint stored)
{
  if (*value == 0)
    *value = stored;
  if (*value == stored)
    return TRUE;
  h3_loader_problem (source->loader,
      "the configuration says %s %d, the tensors have %d", what, *value,
      stored);
  return FALSE;
}

/* FALSE when a problem here would only bring others after it. */
static gboolean
derive_geometry (Source *source)
{
  H3VideoVaeConfig *config = &source->config;
  gboolean official = source->naming == H3_NAMING_OFFICIAL;
  gint embed[2], registers[2], patch, gate_up, dim, configured_patch;

  if (!stored_shape (source,
          official ? "decoder.x_embedder.weight" : "decoder.proj_in.weight", 2,
          embed) ||
      !stored_shape (source, "decoder.register_tokens", 2, registers) ||
      !stored_shape (source, "decoder.proj_out.weight", 1, &patch) ||
      !stored_shape (source,
          official ? "decoder.transformer_blocks.0.ff.w1.weight"
                   : "decoder.transformer_blocks.0.ff.net.0.proj.weight",
          1, &gate_up))
    return FALSE;

  if (config->heads == 0)
    config->heads = embed[0] / config->head_dim;
  if (source->ffn_mult)
    config->ffn = (gint) MIN ((gint64) source->ffn_mult * embed[0], G_MAXINT);
  dim = h3_video_dim (config);
  configured_patch = h3_video_patch (config);
  return settle (source, "latent channels", &config->channels, embed[1]) &&
         settle (source, "layers", &config->layers, stored_layers (source)) &&
         settle (source, "register tokens", &config->registers, registers[1]) &&
         settle (source, "heads times channels a head", &dim, embed[0]) &&
         settle (source, "values a patch", &configured_patch, patch) &&
         settle (source, "feed-forward width", &config->ffn, gate_up / 2);
}

/* Tensors */

typedef const gchar *Modules[4]; /* NULL ends */

static gint
join_names (const gchar *base, const Modules modules, const gchar *suffix,
    gchar *names[3])
{
  gint n = 0;

  for (; n < 3 && modules[n]; n++)
    names[n] = g_strconcat (base, modules[n], suffix, NULL);
  return n;
}

static void
load_linear (Source *source, const gchar *base, const Modules modules,
    gint64 rows, gint64 cols, H3RowOrder order, H3VideoLinear *linear)
{
  gchar *names[3];
  guint heads = source->config.heads, head_dim = source->config.head_dim;
  gint n = join_names (base, modules, ".weight", names);

  linear->weight = h3_loader_weight (source->loader,
      (const gchar *const *) names, n, rows, cols, order, heads, head_dim);
  for (gint i = 0; i < n; i++)
    g_free (names[i]);

  n = join_names (base, modules, ".bias", names);
  linear->bias = h3_loader_vector (source->loader, (const gchar *const *) names,
      n, rows, order, heads, head_dim);
  for (gint i = 0; i < n; i++)
    g_free (names[i]);
}

static H3Tensor *
load_vector (Source *source, const gchar *base, const gchar *name, gint64 n)
{
  g_autofree gchar *full = g_strconcat (base, name, NULL);

  return h3_loader_vector1 (source->loader, full, n);
}

static void
load_block (Source *source, gint i, H3VideoBlock *block)
{
  static const Modules official[] = { { "attn.to_qkv" }, { "attn.to_out" },
    { "ff.w1" }, { "ff.w2" } };
  static const Modules diffusers[] = { { "attn.to_q", "attn.to_k",
                                           "attn.to_v" },
    { "attn.to_out.0" }, { "ff.net.0.proj" }, { "ff.net.2" } };
  gboolean grouped = source->naming == H3_NAMING_OFFICIAL;
  const Modules *names = grouped ? official : diffusers;
  gint64 dim = h3_video_dim (&source->config), ffn = source->config.ffn;
  g_autofree gchar *base =
      g_strdup_printf ("decoder.transformer_blocks.%d.", i);

  block->norm1 = load_vector (source, base, "norm1.weight", dim);
  load_linear (source, base, names[0], 3 * dim, dim,
      grouped ? H3_ROWS_GROUPED_QKV : H3_ROWS_AS_STORED, &block->qkv);
  load_linear (source, base, names[1], dim, dim, H3_ROWS_AS_STORED,
      &block->out);
  block->scale1 = load_vector (source, base, "scale1", dim);
  block->norm2 = load_vector (source, base, "norm2.weight", dim);
  load_linear (source, base, names[2], 2 * ffn, dim,
      grouped ? H3_ROWS_AS_STORED : H3_ROWS_SWAP_HALVES, &block->w1);
  load_linear (source, base, names[3], dim, ffn, H3_ROWS_AS_STORED, &block->w2);
  block->scale2 = load_vector (source, base, "scale2", dim);
}

/* Called in the dry run and in the real one. */
static void
load_tensors (Source *source, H3VideoVae *vae)
{
  const H3VideoVaeConfig *config = &source->config;
  gint64 dim = h3_video_dim (config);
  const Modules post_quant = { "post_quant_conv" };
  const Modules embed = { source->naming == H3_NAMING_OFFICIAL
                              ? "decoder.x_embedder"
                              : "decoder.proj_in" };
  const Modules proj_out = { "decoder.proj_out" };

  vae->latents_mean = h3_loader_computed_vector (source->loader,
      config->latents_mean, config->channels);
  vae->latents_std = h3_loader_computed_vector (source->loader,
      config->latents_std, config->channels);
  /* video-vae.md 7.1: these products have narrow operands, the rest have not */
  h3_loader_round_matrices (source->loader, source->narrow);
  load_linear (source, "", post_quant, config->channels, config->channels,
      H3_ROWS_AS_STORED, &vae->post_quant);
  for (gint i = 0; i < config->layers; i++)
    load_block (source, i, &vae->blocks[i]);
  h3_loader_round_matrices (source->loader, H3_DTYPE_F32);
  load_linear (source, "", embed, dim, config->channels, H3_ROWS_AS_STORED,
      &vae->x_embedder);
  vae->registers = load_vector (source, "", "decoder.register_tokens",
      config->registers * dim);
  vae->norm_out_weight =
      load_vector (source, "", "decoder.norm_out.weight", dim);
  vae->norm_out_bias = load_vector (source, "", "decoder.norm_out.bias", dim);
  load_linear (source, "", proj_out, h3_video_patch (config), dim,
      H3_ROWS_AS_STORED, &vae->proj_out);
}

static H3VideoVae *
vae_new (const H3VideoVaeConfig *config)
{
  H3VideoVae *vae = g_new0 (H3VideoVae, 1);

  g_atomic_ref_count_init (&vae->refcount);
  vae->config = *config;
  vae->blocks = g_new0 (H3VideoBlock, config->layers);
  return vae;
}

static gboolean
plan_source (Source *source, const H3Checkpoint *checkpoint,
    const H3Device *device, GError **error)
{
  g_autoptr (H3VideoVae) nothing = NULL;

  if (!source_open (source, checkpoint, error))
    return FALSE;
  h3_loader_plan_for (source->loader, device);
  if (derive_geometry (source)) {
    nothing = vae_new (&source->config);
    load_tensors (source, nothing);
    source->config.encoded = h3_loader_encoded_elements (source->loader);
  } else {
    /* the tensors not asked for are nobody's fault */
    h3_loader_ignore (source->loader, "*");
  }
  return h3_loader_finish (source->loader, error);
}

gboolean
h3_video_vae_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    H3VideoVaeConfig *config, guint64 *weight_bytes, GError **error)
{
  g_auto (Source)
      source = { .narrow = device ? device->vae_dtype : H3_DTYPE_F32 };

  if (!plan_source (&source, checkpoint, device, error))
    return FALSE;
  if (config)
    *config = source.config;
  if (weight_bytes)
    *weight_bytes = h3_loader_bytes (source.loader);
  return TRUE;
}

H3VideoVae *
h3_video_vae_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  g_auto (Source) source = { .narrow = device->vae_dtype };
  g_autoptr (H3VideoVae) vae = NULL;

  if (!plan_source (&source, checkpoint, device, error) ||
      !h3_loader_begin (source.loader, device, stop, progress, user_data,
          error))
    return NULL;
  vae = vae_new (&source.config);
  load_tensors (&source, vae);
  if (!h3_loader_finish (source.loader, error))
    return NULL;
  return g_steal_pointer (&vae);
}

H3VideoVae *
h3_video_vae_ref (H3VideoVae *vae)
{
  g_atomic_ref_count_inc (&vae->refcount);
  return vae;
}

static void
linear_clear (H3VideoLinear *linear)
{
  g_clear_pointer (&linear->weight, h3_weight_unref);
  g_clear_pointer (&linear->bias, h3_tensor_unref);
}

static void
block_clear (H3VideoBlock *block)
{
  g_clear_pointer (&block->norm1, h3_tensor_unref);
  g_clear_pointer (&block->norm2, h3_tensor_unref);
  g_clear_pointer (&block->scale1, h3_tensor_unref);
  g_clear_pointer (&block->scale2, h3_tensor_unref);
  linear_clear (&block->qkv);
  linear_clear (&block->out);
  linear_clear (&block->w1);
  linear_clear (&block->w2);
}

void
h3_video_vae_unref (H3VideoVae *vae)
{
  if (!g_atomic_ref_count_dec (&vae->refcount))
    return;
  for (gint i = 0; i < vae->config.layers; i++)
    block_clear (&vae->blocks[i]);
  g_free (vae->blocks);
  linear_clear (&vae->post_quant);
  linear_clear (&vae->x_embedder);
  linear_clear (&vae->proj_out);
  g_clear_pointer (&vae->latents_mean, h3_tensor_unref);
  g_clear_pointer (&vae->latents_std, h3_tensor_unref);
  g_clear_pointer (&vae->registers, h3_tensor_unref);
  g_clear_pointer (&vae->norm_out_weight, h3_tensor_unref);
  g_clear_pointer (&vae->norm_out_bias, h3_tensor_unref);
  g_free (vae);
}

const H3VideoVaeConfig *
h3_video_vae_config (const H3VideoVae *vae)
{
  return &vae->config;
}
