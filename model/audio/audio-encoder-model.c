/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The audio encoder's geometry and weights (audio-vae.md 6.1, 8). */
#include <math.h>

#include "model/audio/audio-private.h"
#include "model/checkpoint/detect.h"

#define MAX_WIDTH 65536
#define MAX_HOP 65536

/* --- configuration ------------------------------------------------------ */

static gboolean
read_fields (const H3Config *file, const gchar *prefix,
    H3AudioEncoderConfig *config, GError **error)
{
  g_autofree gchar *dim = g_strconcat (prefix, "encoder_dim", NULL);
  g_autofree gchar *heads = g_strconcat (prefix, "num_attention_heads", NULL);
  g_autofree gchar *rates = g_strconcat (prefix, "encoder_rates", NULL);
  guint n = H3_AUDIO_MAX_STAGES;

  if (!h3_config_get_int (file, dim, 1, MAX_WIDTH, &config->dim, error) ||
      !h3_config_get_int (file, heads, 1, 1024, &config->heads, error))
    return FALSE;
  if (!h3_config_has (file, rates))
    return TRUE;
  if (!h3_config_get_ints (file, rates, 2, 64, config->rates, &n, error))
    return FALSE;
  if (n == 0)
    return h3_config_refuse (file, error,
        "encoder_rates is empty; needed: at least one");
  config->n_stages = n;
  return TRUE;
}

static gboolean
read_config (const gchar *path, H3AudioEncoderConfig *config,
    gboolean *has_stats, GError **error)
{
  static const gint rates[] = { 2, 4, 4, 5, 5 };
  g_autoptr (H3Config) file = NULL;
  g_autoptr (H3Config) metadata = NULL;

  if (!h3_audio_config_read (path, &config->vae, has_stats, error) ||
      !h3_audio_config_open (path, &file, &metadata, error))
    return FALSE;
  config->heads = 8;
  config->n_stages = G_N_ELEMENTS (rates);
  memcpy (config->rates, rates, sizeof rates);
  return (!metadata ||
             read_fields (metadata, "metadata.kwargs.", config, error)) &&
         (!file || read_fields (file, "", config, error));
}

/* The first dimension of a stored tensor, or 0, a problem remembered. */
static gint
stored_width (H3Loader *loader, const gchar *name)
{
  guint64 shape[H3_STORED_MAX_RANK];
  guint rank;

  if (!h3_loader_shape (loader, name, shape, &rank) || rank == 0)
    return 0;
  return MIN (shape[0], G_MAXINT);
}

/* Widths that no file names are the tensors' to say. */
static gboolean
take_widths (H3Loader *loader, H3AudioEncoderConfig *config)
{
  if (config->vae.channels == 0)
    config->vae.channels = stored_width (loader, "mean_proj.bias");
  if (config->vae.latent_dim == 0)
    config->vae.latent_dim = stored_width (loader, "pre_block.norm1.weight");
  if (config->dim == 0)
    config->dim = stored_width (loader, "encoder.block.0.bias");
  return config->vae.channels && config->vae.latent_dim && config->dim;
}

/* Followed from latent 0 back through the network (10.1). */
static gint
halo (const H3AudioEncoderConfig *config)
{
  gint64 lo = -1, hi = 1; /* the last convolution, in latents */

  for (gint i = config->n_stages - 1; i >= 0; i--) {
    gint64 s = config->rates[i], pad = (s + 1) / 2;
    gint64 units = 3 * (1 + 3 + 9);

    lo = lo * s - pad - units;
    hi = hi * s - pad + 2 * s - 1 + units;
  }
  lo -= 3;
  hi += 3;
  return (gint) MAX ((-lo + config->vae.hop - 1) / config->vae.hop,
      hi / config->vae.hop);
}

static gboolean
complete (H3AudioEncoderConfig *config, const gchar *path, GError **error)
{
  H3AudioVaeConfig *vae = &config->vae;
  gint64 decoder_hop = 1, hop = 1;
  g_autofree gchar *what = NULL;

  for (gint i = 0; i < vae->n_stages && decoder_hop <= MAX_HOP; i++)
    decoder_hop *= vae->rates[i];
  for (gint i = 0; i < config->n_stages && hop <= MAX_HOP; i++)
    hop *= config->rates[i];
  if (hop > MAX_HOP || hop != decoder_hop)
    what = g_strdup_printf ("encoder_rates make %" G_GINT64_FORMAT
                            " samples a latent, decoder_rates %" G_GINT64_FORMAT
                            "; needed: the same, at most %d",
        hop, decoder_hop, MAX_HOP);
  else if (vae->channels > H3_AUDIO_MAX_CHANNELS)
    what = g_strdup_printf ("%d latent channels; needed: 1 to %d",
        vae->channels, H3_AUDIO_MAX_CHANNELS);
  else if (vae->latent_dim > MAX_WIDTH ||
           (gint64) config->dim << config->n_stages > MAX_WIDTH)
    what = g_strdup_printf ("latent_dim is %d and encoder_dim %d, doubled %d "
                            "times; needed: widths of at most %d",
        vae->latent_dim, config->dim, config->n_stages, MAX_WIDTH);
  else if (vae->latent_dim % config->heads)
    what = g_strdup_printf ("latent_dim is %d; needed: a multiple of %d "
                            "attention heads",
        vae->latent_dim, config->heads);
  if (what) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s", path, what);
    return FALSE;
  }
  vae->hop = (gint) hop;
  config->halo = halo (config);
  return TRUE;
}

/* --- weights ------------------------------------------------------------ */

/* alpha is stored as it is (4.4). */
static void
read_snake (H3Loader *loader, H3AudioSnake *snake, const gchar *base,
    const gchar *suffix, gint64 channels)
{
  g_autofree gchar *name = g_strconcat (base, suffix, ".alpha", NULL);
  g_autofree gfloat *a = h3_loader_read (loader, name, 1, &channels);
  g_autofree gfloat *inv = a ? g_new (gfloat, channels) : NULL;

  for (gint64 c = 0; a && c < channels; c++) {
    inv[c] = 1.0f / (a[c] + 1e-9f);
    if (!isfinite (inv[c])) {
      h3_loader_problem (loader,
          "%s[%" G_GINT64_FORMAT "] is %g; needed: a number that 1 can be "
          "divided by",
          name, c, a[c]);
      return;
    }
  }
  snake->a = h3_loader_computed_vector (loader, a, channels);
  snake->inv_a = h3_loader_computed_vector (loader, inv, channels);
}

/* encoder.block.@n, of @c channels (6.1) */
static void
read_stage (H3Loader *loader, H3AudioStage *stage, gint n, gint64 c, gint rate)
{
  g_autofree gchar *base = g_strdup_printf ("encoder.block.%d.block.", n);
  g_autofree gchar *down = g_strconcat (base, "4", NULL);

  for (gint r = 0; r < H3_AUDIO_UNITS; r++) {
    g_autofree gchar *unit = g_strdup_printf ("%s%d.block.", base, r);
    g_autofree gchar *first = g_strconcat (unit, "1", NULL);
    g_autofree gchar *second = g_strconcat (unit, "3", NULL);

    read_snake (loader, &stage->units[r].snake1, unit, "0", c);
    h3_audio_read_conv (loader, &stage->units[r].conv1, first, c, c, 7, c);
    read_snake (loader, &stage->units[r].snake2, unit, "2", c);
    h3_audio_read_conv (loader, &stage->units[r].conv2, second, c, c, 1, c);
  }
  read_snake (loader, &stage->snake, base, "3", c);
  h3_audio_read_conv (loader, &stage->down, down, 2 * c, c, 2 * rate, 2 * c);
}

static void
read_norm (H3Loader *loader, H3AudioNorm *norm, const gchar *name, gint64 n)
{
  g_autofree gchar *weight = g_strconcat (name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (name, ".bias", NULL);

  norm->weight = h3_loader_vector1 (loader, weight, n);
  norm->bias = h3_loader_vector1 (loader, bias, n);
}

/* A matrix in float32, whatever it is stored in (7). */
static void
read_linear (H3Loader *loader, H3AudioConv *linear, const gchar *name,
    gint64 rows, gint64 cols)
{
  const gint64 shape[2] = { rows, cols };
  g_autofree gchar *weight = g_strconcat (name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (name, ".bias", NULL);
  g_autofree gfloat *host = h3_loader_read (loader, weight, 2, shape);

  linear->weight = h3_loader_computed (loader, host, 2, shape);
  linear->bias = h3_loader_vector1 (loader, bias, rows);
}

static void
read_qkv (H3Loader *loader, H3AudioConv *qkv, gint64 dim)
{
  static const gchar *const biases[] = { "pre_block.attn.q_bias",
    "pre_block.attn.zero_k_bias", "pre_block.attn.v_bias" };
  const gint64 shape[2] = { 3 * dim, dim };
  g_autofree gfloat *host =
      h3_loader_read (loader, "pre_block.attn.qkv.weight", 2, shape);

  qkv->weight = h3_loader_computed (loader, host, 2, shape);
  qkv->bias = h3_loader_vector (loader, biases, G_N_ELEMENTS (biases), 3 * dim,
      H3_ROWS_AS_STORED, 0, 0);
}

/* What follows the heads is linear, so it is one matrix: their mean, the mean
 * over bin j of their channels (an adaptive pool, D to C), attn.proj. */
static void
read_attention_output (H3Loader *loader, H3AudioConv *attn,
    const H3AudioEncoderConfig *config)
{
  const gint64 c = config->vae.channels, heads = config->heads;
  const gint64 dim = config->vae.latent_dim, d = dim / heads;
  const gint64 stored[2] = { c, c }, shape[2] = { c, dim };
  g_autofree gfloat *proj =
      h3_loader_read (loader, "pre_block.attn.proj.weight", 2, stored);
  g_autofree gfloat *host = proj ? g_new (gfloat, c * dim) : NULL;
  g_autofree gdouble *row = g_new (gdouble, d);

  for (gint64 o = 0; proj && o < c; o++) {
    memset (row, 0, d * sizeof *row);
    for (gint64 j = 0; j < c; j++) {
      gint64 first = j * d / c, end = ((j + 1) * d + c - 1) / c;

      for (gint64 e = first; e < end; e++)
        row[e] += (gdouble) proj[o * c + j] / (end - first) / heads;
    }
    for (gint64 i = 0; i < dim; i++)
      host[o * dim + i] = (gfloat) row[i % d];
  }
  attn->weight = h3_loader_computed (loader, host, 2, shape);
  attn->bias = h3_loader_vector1 (loader, "pre_block.attn.proj.bias", c);
}

/* In both of the loader's runs. */
static void
read_weights (H3Loader *loader, H3AudioEncoderModel *model)
{
  const H3AudioEncoderConfig *config = &model->config;
  gint64 c = config->vae.channels, dim = config->vae.latent_dim;
  gint64 width = config->dim;
  g_autofree gchar *snake =
      g_strdup_printf ("encoder.block.%d", config->n_stages + 1);
  g_autofree gchar *last =
      g_strdup_printf ("encoder.block.%d", config->n_stages + 2);

  h3_audio_read_conv (loader, &model->conv_in, "encoder.block.0", width, 1, 7,
      width);
  for (gint i = 0; i < config->n_stages; i++, width *= 2)
    read_stage (loader, &model->stages[i], i + 1, width, config->rates[i]);
  read_snake (loader, &model->snake_out, snake, "", width);
  h3_audio_read_conv (loader, &model->conv_out, last, dim, width, 3, dim);
  read_norm (loader, &model->norm1, "pre_block.norm1", dim);
  read_norm (loader, &model->norm2, "pre_block.norm2", c);
  read_norm (loader, &model->norm3, "pre_block.norm3", dim);
  read_norm (loader, &model->mlp_norm, "pre_block.mlp.norm", c);
  read_qkv (loader, &model->qkv, dim);
  read_attention_output (loader, &model->attn, config);
  read_linear (loader, &model->proj, "pre_block.proj", c, dim);
  read_linear (loader, &model->w0, "pre_block.mlp.w0", 2 * c, c);
  read_linear (loader, &model->w1, "pre_block.mlp.w1", 2 * c, c);
  read_linear (loader, &model->w2, "pre_block.mlp.w2", c, 2 * c);
  read_linear (loader, &model->mean_proj, "mean_proj", c, c);
}

/* --- the component ------------------------------------------------------ */

/* Reads the configuration and makes the dry run. */
static gboolean
plan (H3Loader *loader, const gchar *path, H3AudioEncoderModel *model,
    gboolean *has_stats, GError **error)
{
  /* The decoder's half, and a head that nothing uses (2.3). */
  static const gchar *const not_here[] = { "decoder.*", "dec_in_proj.*",
    "logs_proj.*" };

  if (!read_config (path, &model->config, has_stats, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (not_here); i++)
    h3_loader_ignore (loader, not_here[i]);
  if (take_widths (loader, &model->config)) {
    if (!complete (&model->config, path, error))
      return FALSE;
    read_weights (loader, model);
    h3_audio_read_stats (loader, &model->config.vae, *has_stats);
  } else {
    /* What is missing is the message, not all the names left unread. */
    h3_loader_ignore (loader, "*");
  }
  return h3_loader_finish (loader, error);
}

static H3AudioEncoderModel *
model_new (void)
{
  H3AudioEncoderModel *model = g_new0 (H3AudioEncoderModel, 1);

  g_atomic_ref_count_init (&model->refcount);
  return model;
}

/* NULL @device: the dry run only, whose model has no weights. */
static H3AudioEncoderModel *
open_model (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    guint64 *weight_bytes, GError **error)
{
  g_autoptr (H3AudioEncoderModel) model = model_new ();
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (H3Loader) loader = NULL;
  const gchar *path =
      h3_checkpoint_path (checkpoint, H3_COMPONENT_AUDIO_VAE, error);
  gboolean has_stats;

  if (!path)
    return NULL;
  set = h3_component_open (path, H3_COMPONENT_AUDIO_VAE, NULL, error);
  if (!set)
    return NULL;
  loader = h3_loader_new (set, "MiniMax H3 audio encoder");
  if (!plan (loader, path, model, &has_stats, error))
    return NULL;
  if (weight_bytes)
    *weight_bytes = h3_loader_bytes (loader);
  if (!device)
    return g_steal_pointer (&model);
  if (!h3_loader_begin (loader, device, stop, progress, user_data, error))
    return NULL;
  read_weights (loader, model);
  h3_audio_read_stats (loader, &model->config.vae, has_stats);
  if (!h3_loader_finish (loader, error))
    return NULL;
  return g_steal_pointer (&model);
}

gboolean
h3_audio_encoder_plan (const H3Checkpoint *checkpoint,
    H3AudioEncoderConfig *config, guint64 *weight_bytes, GError **error)
{
  g_autoptr (H3AudioEncoderModel) model =
      open_model (checkpoint, NULL, NULL, NULL, NULL, weight_bytes, error);

  if (model && config)
    *config = model->config;
  return model != NULL;
}

H3AudioEncoderModel *
h3_audio_encoder_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  return open_model (checkpoint, device, stop, progress, user_data, NULL,
      error);
}

H3AudioEncoderModel *
h3_audio_encoder_model_ref (H3AudioEncoderModel *model)
{
  g_atomic_ref_count_inc (&model->refcount);
  return model;
}

static void
conv_clear (H3AudioConv *conv)
{
  g_clear_pointer (&conv->weight, h3_weight_unref);
  g_clear_pointer (&conv->bias, h3_tensor_unref);
}

static void
snake_clear (H3AudioSnake *snake)
{
  g_clear_pointer (&snake->a, h3_tensor_unref);
  g_clear_pointer (&snake->inv_a, h3_tensor_unref);
}

static void
norm_clear (H3AudioNorm *norm)
{
  g_clear_pointer (&norm->weight, h3_tensor_unref);
  g_clear_pointer (&norm->bias, h3_tensor_unref);
}

static void
stage_clear (H3AudioStage *stage)
{
  for (gint r = 0; r < H3_AUDIO_UNITS; r++) {
    snake_clear (&stage->units[r].snake1);
    snake_clear (&stage->units[r].snake2);
    conv_clear (&stage->units[r].conv1);
    conv_clear (&stage->units[r].conv2);
  }
  snake_clear (&stage->snake);
  conv_clear (&stage->down);
}

void
h3_audio_encoder_model_unref (H3AudioEncoderModel *model)
{
  H3AudioConv *convs[] = { &model->conv_in, &model->conv_out, &model->qkv,
    &model->attn, &model->proj, &model->w0, &model->w1, &model->w2,
    &model->mean_proj };
  H3AudioNorm *norms[] = { &model->norm1, &model->norm2, &model->norm3,
    &model->mlp_norm };

  if (!g_atomic_ref_count_dec (&model->refcount))
    return;
  for (gint i = 0; i < H3_AUDIO_MAX_STAGES; i++)
    stage_clear (&model->stages[i]);
  snake_clear (&model->snake_out);
  for (guint i = 0; i < G_N_ELEMENTS (convs); i++)
    conv_clear (convs[i]);
  for (guint i = 0; i < G_N_ELEMENTS (norms); i++)
    norm_clear (norms[i]);
  g_free (model);
}

const H3AudioEncoderConfig *
h3_audio_encoder_config (const H3AudioEncoderModel *model)
{
  return &model->config;
}
