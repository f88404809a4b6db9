/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The configuration in its two dialects (video-vae.md 2). */
#include <math.h>
#include <string.h>

#include "model/checkpoint/detect.h"
#include "model/checkpoint/stored-values.h"
#include "model/video/video-private.h"

#define MAX_LEVELS 16
#define MAX_TILE 4096
#define MAX_COUNT 65536 /* of layers, heads ...: keeps products in 64 bits */

/* The release's (video-vae.md 4.2), for files that do not say. */
#define RELEASE_CHANNELS 24
static const gfloat release_mean[RELEASE_CHANNELS] = { 0.858090341091156f,
  -0.9606591463088989f, 1.0661640167236328f, -0.5090325474739075f,
  -0.2727581858634949f, -1.3675414323806763f, -0.2553254961967468f,
  -0.26907554268836975f, -0.5376840829849243f, -0.0464097298681736f,
  0.6657370328903198f, 0.19690127670764923f, -0.5460608005523682f,
  -0.4035342037677765f, -0.23683024942874908f, 0.25928452610969543f,
  -0.30133944749832153f, 0.211341992020607f, -1.1206848621368408f,
  0.3581933379173279f, -0.04225143790245056f, 0.2604829967021942f,
  0.22864092886447906f, 0.7056031823158264f };
static const gfloat release_std[RELEASE_CHANNELS] = { 1.2223774194717407f,
  1.2767263650894165f, 1.6831774711608887f, 1.7549455165863037f,
  1.5636216402053833f, 2.194143533706665f, 0.9653137922286987f,
  1.0569885969161987f, 0.841948926448822f, 0.7729952931404114f,
  1.8955937623977661f, 0.946841835975647f, 0.7996809482574463f,
  0.44988900423049927f, 0.7197399735450745f, 0.6936293244361877f,
  2.961095094680786f, 2.7694199085235596f, 3.0496184825897217f,
  2.1088054180145264f, 3.276226282119751f, 3.1627357006073f,
  2.2816812992095947f, 2.6127843856811523f };

static void
set_release_values (H3VideoVaeConfig *config)
{
  static const gfloat pixel_mean[3] = { 0.485f, 0.456f, 0.406f };
  static const gfloat pixel_std[3] = { 0.229f, 0.224f, 0.225f };

  memset (config, 0, sizeof *config);
  config->head_dim = 64;
  config->ratio = 16;
  config->ratio_t = H3_VIDEO_RATIO_T;
  config->clip_length = H3_VIDEO_CLIP_LENGTH;
  config->token_drop = H3_VIDEO_TOKEN_DROP;
  config->tile = 256;
  config->min_overlap = 64;
  config->rope_theta = 100.0;
  config->rope_ratio = 0.75;
  config->eps = 1e-5;
  memcpy (config->latents_mean, release_mean, sizeof release_mean);
  memcpy (config->latents_std, release_std, sizeof release_std);
  memcpy (config->pixel_mean, pixel_mean, sizeof pixel_mean);
  memcpy (config->pixel_std, pixel_std, sizeof pixel_std);
}

/* This decoder is one architecture: what the file may say of the rest. */
static gboolean
check_string (const H3Config *file, const gchar *key, const gchar *needed,
    GError **error)
{
  g_autofree gchar *found = NULL;

  if (!h3_config_has (file, key))
    return TRUE;
  if (!h3_config_get_string (file, key, &found, error))
    return FALSE;
  if (g_strcmp0 (found, needed) == 0)
    return TRUE;
  return h3_config_refuse (file, error,
      "\"%s\" is \"%s\", only \"%s\" is supported", key, found, needed);
}

static gboolean
check_bool (const H3Config *file, const gchar *key, gboolean needed,
    GError **error)
{
  gboolean found = needed;

  if (!h3_config_get_bool (file, key, &found, error))
    return FALSE;
  if (!found == !needed)
    return TRUE;
  return h3_config_refuse (file, error, "\"%s\" is %s, only %s is supported",
      key, found ? "true" : "false", needed ? "true" : "false");
}

static gboolean
check_int (const H3Config *file, const gchar *key, gint needed, GError **error)
{
  gint found = needed;

  return h3_config_get_int (file, key, needed, needed, &found, error);
}

static gboolean
read_product (const H3Config *file, const gchar *key, gint *product,
    GError **error)
{
  gint factors[MAX_LEVELS];
  guint n = MAX_LEVELS;
  gint64 result = 1;

  if (!h3_config_has (file, key))
    return TRUE;
  if (!h3_config_get_ints (file, key, 1, 64, factors, &n, error))
    return FALSE;
  for (guint i = 0; i < n && result <= 256; i++)
    result *= factors[i];
  if (result > 256)
    return h3_config_refuse (file, error, "the product of \"%s\" is above 256",
        key);
  *product = (gint) result;
  return TRUE;
}

static gboolean
read_statistics (const H3Config *file, const gchar *key, gfloat *values,
    gint channels, GError **error)
{
  guint n = H3_VIDEO_MAX_CHANNELS;

  if (!h3_config_has (file, key)) {
    if (channels == RELEASE_CHANNELS)
      return TRUE;
    return h3_config_refuse (file, error,
        "\"%s\" is missing: the release's are for %d "
        "latent channels, this model has %d",
        key, RELEASE_CHANNELS, channels);
  }
  if (!h3_config_get_floats (file, key, values, &n, error))
    return FALSE;
  if ((gint) n != channels)
    return h3_config_refuse (file, error,
        "\"%s\" has %u values, \"latent_channels\" is %d", key, n, channels);
  return TRUE;
}

static gboolean
check_ratio_t (const H3Config *file, gint ratio_t, GError **error)
{
  if (ratio_t == H3_VIDEO_RATIO_T)
    return TRUE;
  return h3_config_refuse (file, error,
      "the product of \"temporal_downsample_factors\" is %d, only %d is "
      "supported",
      ratio_t, H3_VIDEO_RATIO_T);
}

static gboolean
check_tiles (const H3Config *file, const H3VideoVaeConfig *config,
    GError **error)
{
  if (config->tile % config->ratio == 0 &&
      config->min_overlap % config->ratio == 0 &&
      config->min_overlap <= config->tile - config->ratio)
    return TRUE;
  return h3_config_refuse (file, error,
      "tiles of %d pixels that overlap by %d: both must be multiples of %d, "
      "the overlap at most the tile less %d",
      config->tile, config->min_overlap, config->ratio, config->ratio);
}

static gboolean
check_statistics (const H3Config *file, const H3VideoVaeConfig *config,
    GError **error)
{
  for (gint c = 0; c < config->channels; c++)
    if (!isfinite (config->latents_mean[c]) ||
        !isfinite (config->latents_std[c]) || config->latents_std[c] <= 0)
      return h3_config_refuse (file, error,
          "latent channel %d has mean %g and standard deviation %g: finite, "
          "and positive, is needed",
          c, config->latents_mean[c], config->latents_std[c]);
  return TRUE;
}

static gboolean
check_rope (const H3Config *file, const H3VideoVaeConfig *config,
    GError **error)
{
  gint rotated;

  if (!(config->rope_ratio > 0 && config->rope_ratio <= 1))
    return h3_config_refuse (file, error,
        "rope_dim_ratio is %g: above 0 and at most 1 is "
        "needed",
        config->rope_ratio);
  rotated = (gint) (config->head_dim * config->rope_ratio);
  if (rotated < 6 || rotated % 6)
    return h3_config_refuse (file, error,
        "rope_dim_ratio %g of %d channels a head is %d: "
        "a positive multiple of 6 is needed",
        config->rope_ratio, config->head_dim, rotated);
  if (!(config->rope_theta > 0) || !(config->eps > 0))
    return h3_config_refuse (file, error,
        "rope theta %g and norm eps %g must be positive", config->rope_theta,
        config->eps);
  return TRUE;
}

static gboolean
read_latents (const H3Config *file, H3VideoVaeConfig *config, GError **error)
{
  config->channels = RELEASE_CHANNELS;
  return h3_config_get_int (file, "latent_channels", 1, H3_VIDEO_MAX_CHANNELS,
             &config->channels, error) &&
         read_statistics (file, "latents_mean", config->latents_mean,
             config->channels, error) &&
         read_statistics (file, "latents_std", config->latents_std,
             config->channels, error) &&
         check_statistics (file, config, error);
}

/* config.json of the official folder: latents and tiling. */
static gboolean
read_wrapper (const H3Config *file, H3VideoVaeConfig *config, GError **error)
{
  return read_latents (file, config, error) &&
         check_int (file, "vae_clip_length", H3_VIDEO_CLIP_LENGTH, error) &&
         check_int (file, "vae_token_drop", H3_VIDEO_TOKEN_DROP, error) &&
         h3_config_get_int (file, "vae_tile_size", 1, MAX_TILE, &config->tile,
             error) &&
         h3_config_get_int (file, "vae_tile_overlap_min", 0, MAX_TILE,
             &config->min_overlap, error) &&
         check_int (file, "vae_decoder_tiling", 1, error);
}

/* source/config.json: the network. */
static gboolean
read_network (const H3Config *file, H3VideoVaeConfig *config, GError **error)
{
  return check_int (file, "z_channels", config->channels, error) &&
         h3_config_get_int (file, "vae_ratio", 1, 256, &config->ratio, error) &&
         check_int (file, "vae_ratio_t", H3_VIDEO_RATIO_T, error) &&
         check_string (file, "pixel_norm_type", "imagenet", error) &&
         check_bool (file, "use_vit_decoder", TRUE, error) &&
         check_bool (file, "causal_decoder", FALSE, error);
}

static gboolean
read_vit (const H3Config *file, H3VideoVaeConfig *config, GError **error)
{
#define KEY(name) "vit_decoder_kwargs." name
  return h3_config_get_int (file, KEY ("num_layers"), 1, MAX_COUNT,
             &config->layers, error) &&
         h3_config_get_int (file, KEY ("heads"), 1, MAX_COUNT, &config->heads,
             error) &&
         h3_config_get_int (file, KEY ("dim_head"), 1, 1024, &config->head_dim,
             error) &&
         h3_config_get_int (file, KEY ("num_register_tokens"), 1, MAX_COUNT,
             &config->registers, error) &&
         h3_config_get_double (file, KEY ("rope_theta"), &config->rope_theta,
             error) &&
         h3_config_get_double (file, KEY ("rope_dim_ratio"),
             &config->rope_ratio, error) &&
         check_string (file, KEY ("norm_type"), "rms_norm", error) &&
         check_bool (file, KEY ("norm_affine"), TRUE, error) &&
         check_string (file, KEY ("qk_norm_type"), "rms_norm", error) &&
         check_bool (file, KEY ("qk_norm_affine"), FALSE, error) &&
         check_string (file, KEY ("ffn_activation_fn"), "silu", error) &&
         check_bool (file, KEY ("ffn_use_gated"), TRUE, error);
#undef KEY
}

/* A name in the folder, never a way out of it. */
static gboolean
read_file_name (const H3Config *file, const gchar *key, gchar **name,
    GError **error)
{
  if (!h3_config_has (file, key))
    return TRUE;
  g_clear_pointer (name, g_free);
  if (!h3_config_get_string (file, key, name, error))
    return FALSE;
  if (**name && !strpbrk (*name, "/\\") && !g_str_equal (*name, "..") &&
      !g_str_equal (*name, "."))
    return TRUE;
  return h3_config_refuse (file, error,
      "\"%s\" is \"%s\": a plain file name is needed", key, *name);
}

static gboolean
read_official (const gchar *folder, const H3Config *wrapper,
    H3VideoVaeConfig *config, gchar **tensors, GError **error)
{
  g_autofree gchar *source = g_strdup ("source");
  g_autofree gchar *file = NULL;
  g_autofree gchar *path = NULL;
  g_autoptr (H3Config) network = NULL;

  if (!read_wrapper (wrapper, config, error) ||
      !read_file_name (wrapper, "source_path", &source, error) ||
      !read_file_name (wrapper, "source_safetensors_path", &file, error))
    return FALSE;

  path = g_build_filename (folder, source, "config.json", NULL);
  network = h3_config_open (path, error);
  if (!network || !read_network (network, config, error) ||
      !read_vit (network, config, error) ||
      !check_rope (network, config, error) ||
      !check_tiles (wrapper, config, error))
    return FALSE;
  /* without a file name, whatever tensors the folder holds */
  *tensors = g_build_filename (folder, source, file, NULL);
  return TRUE;
}

static gboolean
read_diffusers (const gchar *folder, const H3Config *file,
    H3VideoVaeConfig *config, gint *ffn_mult, gchar **tensors, GError **error)
{
  gint ratio_t = H3_VIDEO_RATIO_T;

  if (!read_latents (file, config, error) ||
      !check_string (file, "_class_name", "AutoencoderKLMiniMaxH3", error) ||
      !read_product (file, "spatial_downsample_factors", &config->ratio,
          error) ||
      !read_product (file, "temporal_downsample_factors", &ratio_t, error) ||
      !check_ratio_t (file, ratio_t, error) ||
      !h3_config_get_int (file, "decoder_num_layers", 1, MAX_COUNT,
          &config->layers, error) ||
      !h3_config_get_int (file, "decoder_num_attention_heads", 1, MAX_COUNT,
          &config->heads, error) ||
      !h3_config_get_int (file, "decoder_attention_head_dim", 1, 1024,
          &config->head_dim, error) ||
      !h3_config_get_int (file, "decoder_num_register_tokens", 1, MAX_COUNT,
          &config->registers, error) ||
      !h3_config_get_int (file, "decoder_ffn_mult", 1, 256, ffn_mult, error) ||
      !h3_config_get_double (file, "decoder_rope_theta", &config->rope_theta,
          error) ||
      !h3_config_get_double (file, "decoder_rope_dim_ratio",
          &config->rope_ratio, error) ||
      !h3_config_get_double (file, "decoder_norm_eps", &config->eps, error) ||
      !check_int (file, "clip_length", H3_VIDEO_CLIP_LENGTH, error) ||
      !check_int (file, "token_drop", H3_VIDEO_TOKEN_DROP, error) ||
      !check_rope (file, config, error) || !check_tiles (file, config, error))
    return FALSE;
  *tensors = g_strdup (folder);
  return TRUE;
}

/* Of a folder it is needed. */
static H3Config *
open_config (const gchar *path, GError **error)
{
  g_autofree gchar *file = NULL;

  if (!g_file_test (path, G_FILE_TEST_IS_DIR))
    return h3_component_config (path, H3_COMPONENT_VIDEO_VAE, error);
  file = g_build_filename (path, "config.json", NULL);
  return h3_config_open (file, error);
}

gboolean
h3_video_config_read (const gchar *path, H3VideoVaeConfig *config,
    gint *ffn_mult, gchar **tensors, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autofree gchar *found = NULL;
  g_autoptr (H3Config) file = NULL;
  gboolean ok;

  set_release_values (config);
  *ffn_mult = 0;
  *tensors = NULL;

  file = open_config (path, &local);
  if (local) {
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  if (!file) {
    *tensors = g_strdup (path);
    return TRUE;
  }
  if (h3_config_has (file, "_class_name"))
    ok = read_diffusers (path, file, config, ffn_mult, &found, error);
  else
    ok = read_official (path, file, config, &found, error);
  if (ok)
    *tensors = g_file_test (path, G_FILE_TEST_IS_DIR) ? g_steal_pointer (&found)
                                                      : g_strdup (path);
  return ok;
}

/* @n of them, which the file may have in a narrower type. */
static gboolean
read_floats (H3TensorSet *set, const gchar *name, gfloat *values, gint *n,
    GError **error)
{
  const H3StoredTensor *tensor = h3_tensor_set_get (set, name, error);
  guint8 bytes[H3_VIDEO_MAX_CHANNELS * sizeof (gfloat)];

  if (!tensor)
    return FALSE;
  if (tensor->rank != 1 || tensor->shape[0] < 1 ||
      tensor->shape[0] > H3_VIDEO_MAX_CHANNELS ||
      (tensor->type != H3_STORED_F32 && tensor->type != H3_STORED_F16 &&
          tensor->type != H3_STORED_BF16)) {
    g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);

    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: tensor %s is %s of %s, expected 1 to %d of F32, F16 or BF16",
        tensor->path, name, shape, h3_stored_type_name (tensor->type),
        H3_VIDEO_MAX_CHANNELS);
    return FALSE;
  }
  *n = tensor->shape[0];
  if (!h3_stored_tensor_read (tensor, 0, tensor->bytes, bytes, error))
    return FALSE;
  h3_stored_values_widen (tensor->type, bytes, *n, values);
  return TRUE;
}

static gboolean
are_rounded (const gfloat *stored, const gfloat *release)
{
  for (guint i = 0; i < RELEASE_CHANNELS; i++)
    if (!(fabsf (stored[i] - release[i]) <= 0x1p-8f * fabsf (release[i])))
      return FALSE;
  return TRUE;
}

gboolean
h3_video_config_take_statistics (H3VideoVaeConfig *config, H3TensorSet *set,
    GError **error)
{
  gfloat mean[H3_VIDEO_MAX_CHANNELS], std[H3_VIDEO_MAX_CHANNELS];
  gint n, n_std;

  if (config->channels > 0)
    return TRUE;
  config->channels = RELEASE_CHANNELS;
  if (!h3_tensor_set_has (set, "latents_mean"))
    return TRUE;
  if (!read_floats (set, "latents_mean", mean, &n, error) ||
      !read_floats (set, "latents_std", std, &n_std, error))
    return FALSE;
  for (gint i = 0; i < n; i++)
    if (n != n_std || !isfinite (mean[i]) || !(std[i] > 0) ||
        !isfinite (std[i])) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s: tensors latents_mean and latents_std are %d and %d numbers, of "
          "channel %d %g and %g; needed: as many, finite, and positive ones",
          h3_tensor_set_path (set), n, n_std, i, mean[i],
          i < n_std ? std[i] : 0);
      return FALSE;
    }
  config->channels = n;
  if (n == RELEASE_CHANNELS && are_rounded (mean, release_mean) &&
      are_rounded (std, release_std))
    return TRUE;
  memcpy (config->latents_mean, mean, n * sizeof *mean);
  memcpy (config->latents_std, std, n * sizeof *std);
  return TRUE;
}
