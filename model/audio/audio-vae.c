/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The audio decoder's weights (audio-vae.md 4.3 to 4.6, 8), and what the
 * encoder's loader shares. */
#include <math.h>
#include <string.h>

#include "model/audio/audio-private.h"
#include "model/checkpoint/detect.h"

/* Tap n of 12, mirrored after the sixth. These are the bits PyTorch computes in
 * float32 and the release's files hold; the formula of 4.6 in double differs
 * from them by up to 2.6e-8. */
const gfloat *
h3_audio_default_filter (void)
{
  static const gfloat filter[H3_AUDIO_TAPS] = { 0x1.09f0c2p-9f, 0x1.33ac8cp-7f,
    -0x1.a28108p-6f, -0x1.d8544cp-5f, 0x1.07511p-3f, 0x1.c5d8cap-2f,
    0x1.c5d8cap-2f, 0x1.07511p-3f, -0x1.d8544cp-5f, -0x1.a28108p-6f,
    0x1.33ac8cp-7f, 0x1.09f0c2p-9f };

  return filter;
}

/* --- reading ------------------------------------------------------------ */

/* W[a] = v[a] (g[a] / ||v[a]||), a over the first dimension whatever it means
 * (4.3). NULL in the dry run. */
static gfloat *
read_weight_norm (H3Loader *loader, const gchar *name, const gchar *g_suffix,
    const gchar *v_suffix, const gint64 shape[3])
{
  const gint64 g_shape[3] = { shape[0], 1, 1 };
  g_autofree gchar *g_name = g_strconcat (name, g_suffix, NULL);
  g_autofree gchar *v_name = g_strconcat (name, v_suffix, NULL);
  g_autofree gfloat *g = h3_loader_read (loader, g_name, 3, g_shape);
  g_autofree gfloat *v = h3_loader_read (loader, v_name, 3, shape);
  gint64 n = shape[1] * shape[2];

  if (!g || !v)
    return NULL;
  for (gint64 a = 0; a < shape[0]; a++) {
    gfloat *row = v + a * n;
    gdouble sum = 0, scale;

    for (gint64 i = 0; i < n; i++)
      sum += (gdouble) row[i] * row[i];
    scale = g[a] / sqrt (sum);
    if (!isfinite (scale)) {
      h3_loader_problem (loader,
          "%s: row %" G_GINT64_FORMAT " has norm %g; "
          "needed: a norm that %s can be divided by",
          v_name, a, sqrt (sum), g_name);
      return NULL;
    }
    for (gint64 i = 0; i < n; i++)
      row[i] = row[i] * scale;
  }
  return g_steal_pointer (&v);
}

/* A weight-normed convolution in whichever of the three spellings (8.1). */
static gfloat *
read_conv_weight (H3Loader *loader, const gchar *name, const gint64 shape[3])
{
  static const gchar *const spellings[][2] = {
    { ".weight_g", ".weight_v" },
    { ".parametrizations.weight.original0",
        ".parametrizations.weight.original1" },
  };
  g_autofree gchar *folded = g_strconcat (name, ".weight", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (spellings); i++) {
    g_autofree gchar *v_name = g_strconcat (name, spellings[i][1], NULL);

    if (h3_loader_has (loader, v_name))
      return read_weight_norm (loader, name, spellings[i][0], spellings[i][1],
          shape);
  }
  if (h3_loader_has (loader, folded))
    return h3_loader_read (loader, folded, 3, shape);
  /* None: let the message name the official spelling. */
  return read_weight_norm (loader, name, spellings[0][0], spellings[0][1],
      shape);
}

void
h3_audio_read_conv (H3Loader *loader, H3AudioConv *conv, const gchar *name,
    gint64 d0, gint64 d1, gint64 k, gint64 n_bias)
{
  const gint64 shape[3] = { d0, d1, k };
  g_autofree gfloat *host = read_conv_weight (loader, name, shape);

  conv->weight = h3_loader_computed (loader, host, 3, shape);
  if (n_bias > 0) {
    g_autofree gchar *bias = g_strconcat (name, ".bias", NULL);

    conv->bias = h3_loader_vector1 (loader, bias, n_bias);
  }
}

/* exp (alpha) or 1 / (exp (beta) + 1e-9), in float32 (4.5). */
static H3Tensor *
read_snake (H3Loader *loader, const gchar *name, const gchar *suffix,
    gboolean inverse, gint64 channels)
{
  g_autofree gchar *full = g_strconcat (name, suffix, NULL);
  g_autofree gfloat *host = h3_loader_read (loader, full, 1, &channels);

  for (gint64 c = 0; host && c < channels; c++) {
    gfloat stored = host[c], e = exp (stored);

    host[c] = inverse ? 1.0f / (e + 1e-9f) : e;
    if (!isfinite (host[c])) {
      h3_loader_problem (loader,
          "%s[%" G_GINT64_FORMAT "] is %g; needed: a "
          "number whose exponential float32 can hold",
          full, c, stored);
      return NULL;
    }
  }
  return h3_loader_computed_vector (loader, host, channels);
}

/* A file may leave its filters out; then they are what all files have. */
static H3Tensor *
read_filter (H3Loader *loader, const gchar *name, const gchar *suffix)
{
  const gint64 shape[3] = { 1, 1, H3_AUDIO_TAPS };
  g_autofree gchar *full = g_strconcat (name, suffix, NULL);
  g_autofree gfloat *host = NULL;

  if (!h3_loader_has (loader, full))
    return h3_loader_computed_vector (loader,
        h3_loader_is_dry_run (loader) ? NULL : h3_audio_default_filter (),
        H3_AUDIO_TAPS);
  host = h3_loader_read (loader, full, 3, shape);
  return h3_loader_computed_vector (loader, host, H3_AUDIO_TAPS);
}

static void
read_activation (H3Loader *loader, H3AudioActivation *activation,
    const gchar *name, gint64 channels)
{
  activation->a = read_snake (loader, name, ".act.alpha", FALSE, channels);
  activation->inv_b = read_snake (loader, name, ".act.beta", TRUE, channels);
  activation->up_filter = read_filter (loader, name, ".upsample.filter");
  activation->down_filter =
      read_filter (loader, name, ".downsample.lowpass.filter");
}

/* decoder.resblocks.@n (5) */
static void
read_block (H3Loader *loader, H3AudioBlock *block,
    const H3AudioVaeConfig *config, gint n, gint64 channels)
{
  gint64 k = config->resblock_kernels[n % config->n_kernels];

  for (gint q = 0; q < config->n_dilations; q++) {
    g_autofree gchar *first =
        g_strdup_printf ("decoder.resblocks.%d.convs1.%d", n, q);
    g_autofree gchar *second =
        g_strdup_printf ("decoder.resblocks.%d.convs2.%d", n, q);

    h3_audio_read_conv (loader, &block->convs1[q], first, channels, channels, k,
        channels);
    h3_audio_read_conv (loader, &block->convs2[q], second, channels, channels,
        k, channels);
  }
  for (gint a = 0; a < 2 * config->n_dilations; a++) {
    g_autofree gchar *name =
        g_strdup_printf ("decoder.resblocks.%d.activations.%d", n, a);

    read_activation (loader, &block->activations[a], name, channels);
  }
}

/* The decoder's tensors (8.2), in both of the loader's runs. */
static void
read_weights (H3Loader *loader, H3AudioVae *vae)
{
  const H3AudioVaeConfig *config = &vae->config;
  const gint64 in_shape[3] = { config->latent_dim, config->channels, 1 };
  g_autofree gfloat *in = NULL;
  gint64 channels = config->decoder_dim;

  in = h3_loader_read (loader, "dec_in_proj.weight", 3, in_shape);
  vae->dec_in_proj.weight = h3_loader_computed (loader, in, 3, in_shape);
  vae->dec_in_proj.bias =
      h3_loader_vector1 (loader, "dec_in_proj.bias", config->latent_dim);
  h3_audio_read_conv (loader, &vae->conv_pre, "decoder.conv_pre", channels,
      config->latent_dim, H3_AUDIO_EDGE_KERNEL, channels);
  for (gint i = 0; i < config->n_stages; i++) {
    g_autofree gchar *name = g_strdup_printf ("decoder.ups.%d.0", i);

    h3_audio_read_conv (loader, &vae->ups[i], name, channels, channels / 2,
        config->kernels[i], channels / 2);
    channels /= 2;
    for (gint n = i * config->n_kernels; n < (i + 1) * config->n_kernels; n++)
      read_block (loader, &vae->blocks[n], config, n, channels);
  }
  read_activation (loader, &vae->activation_post, "decoder.activation_post",
      channels);
  h3_audio_read_conv (loader, &vae->conv_post, "decoder.conv_post", 1, channels,
      H3_AUDIO_EDGE_KERNEL, 0);
}

/* A file's own statistics go before the configuration's (D2). */
void
h3_audio_read_stats (H3Loader *loader, H3AudioVaeConfig *config,
    gboolean has_stats)
{
  const gint64 n = config->channels;
  gboolean in_file = h3_loader_has (loader, "latents_mean") ||
                     h3_loader_has (loader, "latents_std");

  if (in_file) {
    g_autofree gfloat *mean = h3_loader_read (loader, "latents_mean", 1, &n);
    g_autofree gfloat *std = h3_loader_read (loader, "latents_std", 1, &n);

    if (!mean || !std)
      return;
    memcpy (config->latents_mean, mean, n * sizeof (gfloat));
    memcpy (config->latents_std, std, n * sizeof (gfloat));
  } else if (!has_stats && !h3_audio_config_release_stats (config)) {
    h3_loader_problem (loader,
        "latents_mean and latents_std are neither in "
        "config.json nor in the file, and only 32 channels have known ones "
        "(this model has %d)",
        config->channels);
    return;
  }
  for (gint64 c = 0; c < n; c++) {
    if (!isfinite (config->latents_mean[c]) ||
        !isfinite (config->latents_std[c]) || config->latents_std[c] <= 0)
      h3_loader_problem (loader,
          "latent channel %" G_GINT64_FORMAT " has mean "
          "%g and std %g; needed: a number and a positive number",
          c, config->latents_mean[c], config->latents_std[c]);
  }
}

/* Takes the widths the configuration leaves open from the stored shapes. */
static gboolean
take_widths (H3Loader *loader, H3AudioVaeConfig *config)
{
  guint64 in[H3_STORED_MAX_RANK], pre[H3_STORED_MAX_RANK];
  guint in_rank, pre_rank;
  static const gchar *const spellings[] = {
    "decoder.conv_pre.weight_v",
    "decoder.conv_pre.parametrizations.weight.original1",
    "decoder.conv_pre.weight",
  };
  const gchar *name = spellings[0];

  for (guint i = 0; i < G_N_ELEMENTS (spellings); i++) {
    if (h3_loader_has (loader, spellings[i]))
      name = spellings[i];
  }
  if (!h3_loader_shape (loader, "dec_in_proj.weight", in, &in_rank) ||
      !h3_loader_shape (loader, name, pre, &pre_rank))
    return FALSE;
  if (config->channels == 0 && in_rank == 3)
    config->channels = MIN (in[1], G_MAXINT);
  if (config->latent_dim == 0 && in_rank == 3)
    config->latent_dim = MIN (in[0], G_MAXINT);
  if (config->decoder_dim == 0 && pre_rank == 3)
    config->decoder_dim = MIN (pre[0], G_MAXINT);
  return TRUE;
}

/* --- the component ------------------------------------------------------ */

/* Reads the configuration and makes the dry run. */
static gboolean
plan (H3Loader *loader, const gchar *path, H3AudioVae *vae, gboolean *has_stats,
    GError **error)
{
  /* The encoder's half. */
  static const gchar *const not_here[] = { "encoder.*", "pre_block.*",
    "mean_proj.*", "logs_proj.*" };

  if (!h3_audio_config_read (path, &vae->config, has_stats, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (not_here); i++)
    h3_loader_ignore (loader, not_here[i]);
  if (take_widths (loader, &vae->config)) {
    if (!h3_audio_config_complete (&vae->config, path, error))
      return FALSE;
    read_weights (loader, vae);
    h3_audio_read_stats (loader, &vae->config, *has_stats);
  } else {
    /* What is missing is the message, not all the names left unread. */
    h3_loader_ignore (loader, "*");
  }
  return h3_loader_finish (loader, error);
}

static H3AudioVae *
vae_new (void)
{
  H3AudioVae *vae = g_new0 (H3AudioVae, 1);

  g_atomic_ref_count_init (&vae->refcount);
  return vae;
}

gboolean
h3_audio_vae_plan (const H3Checkpoint *checkpoint, H3AudioVaeConfig *config,
    guint64 *weight_bytes, GError **error)
{
  g_autoptr (H3AudioVae) vae = vae_new ();
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (H3Loader) loader = NULL;
  const gchar *path;
  gboolean has_stats;

  path = h3_checkpoint_path (checkpoint, H3_COMPONENT_AUDIO_VAE, error);
  if (!path)
    return FALSE;
  set = h3_component_open (path, H3_COMPONENT_AUDIO_VAE, NULL, error);
  if (!set)
    return FALSE;
  loader = h3_loader_new (set, "MiniMax H3 audio autoencoder");
  if (!plan (loader, path, vae, &has_stats, error))
    return FALSE;
  *config = vae->config;
  *weight_bytes = h3_loader_bytes (loader);
  return TRUE;
}

H3AudioVae *
h3_audio_vae_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  g_autoptr (H3AudioVae) vae = vae_new ();
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (H3Loader) loader = NULL;
  const gchar *path;
  gboolean has_stats;

  path = h3_checkpoint_path (checkpoint, H3_COMPONENT_AUDIO_VAE, error);
  if (!path)
    return NULL;
  set = h3_component_open (path, H3_COMPONENT_AUDIO_VAE, NULL, error);
  if (!set)
    return NULL;
  loader = h3_loader_new (set, "MiniMax H3 audio autoencoder");
  if (!plan (loader, path, vae, &has_stats, error) ||
      !h3_loader_begin (loader, device, stop, progress, user_data, error))
    return NULL;
  read_weights (loader, vae);
  h3_audio_read_stats (loader, &vae->config, has_stats);
  if (!h3_loader_finish (loader, error))
    return NULL;
  return g_steal_pointer (&vae);
}

H3AudioVae *
h3_audio_vae_ref (H3AudioVae *vae)
{
  g_atomic_ref_count_inc (&vae->refcount);
  return vae;
}

static void
conv_clear (H3AudioConv *conv)
{
  g_clear_pointer (&conv->weight, h3_weight_unref);
  g_clear_pointer (&conv->bias, h3_tensor_unref);
}

static void
activation_clear (H3AudioActivation *activation)
{
  g_clear_pointer (&activation->a, h3_tensor_unref);
  g_clear_pointer (&activation->inv_b, h3_tensor_unref);
  g_clear_pointer (&activation->up_filter, h3_tensor_unref);
  g_clear_pointer (&activation->down_filter, h3_tensor_unref);
}

static void
block_clear (H3AudioBlock *block)
{
  for (gint q = 0; q < H3_AUDIO_MAX_STAGES; q++) {
    conv_clear (&block->convs1[q]);
    conv_clear (&block->convs2[q]);
  }
  for (gint a = 0; a < 2 * H3_AUDIO_MAX_STAGES; a++)
    activation_clear (&block->activations[a]);
}

void
h3_audio_vae_unref (H3AudioVae *vae)
{
  if (!g_atomic_ref_count_dec (&vae->refcount))
    return;
  conv_clear (&vae->dec_in_proj);
  conv_clear (&vae->conv_pre);
  conv_clear (&vae->conv_post);
  for (gint i = 0; i < H3_AUDIO_MAX_STAGES; i++)
    conv_clear (&vae->ups[i]);
  for (guint n = 0; n < G_N_ELEMENTS (vae->blocks); n++)
    block_clear (&vae->blocks[n]);
  activation_clear (&vae->activation_post);
  g_free (vae);
}

const H3AudioVaeConfig *
h3_audio_vae_config (const H3AudioVae *vae)
{
  return &vae->config;
}
