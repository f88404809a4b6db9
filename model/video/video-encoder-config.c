/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The encoder's part of the configuration, in both dialects (video-vae.md 2). */
#include <string.h>

#include "model/checkpoint/detect.h"
#include "model/video/video-private.h"

#define MAX_WIDTH 65536
#define MAX_BLOCKS 64

static void
set_release_values (H3VideoEncoderConfig *config)
{
  static const gint channels[] = { 128, 256, 256, 512, 512, 1024 };
  static const gint space[] = { 2, 2, 2, 2, 1, 1 };
  static const gint time[] = { 1, 2, 2, 1, 1, 1 };

  config->levels = G_N_ELEMENTS (channels);
  config->blocks = 2;
  config->first = channels[0];
  memcpy (config->channels, channels, sizeof channels);
  memcpy (config->space, space, sizeof space);
  memcpy (config->time, time, sizeof time);
  config->groups = 32;
  config->eps = 1e-6;
}

/* This encoder is one architecture: what the file may say of the rest. */
static gboolean
check_architecture (const H3Config *file, GError **error)
{
  static const gchar *const strings[][2] = { { "padding_mode", "reflect" },
    { "spatial_padding_mode", "reflect" }, { "padding_mode_t", "zeros" } };
  static const gchar *const flags[] = { "use_t_isolated_gn", "causal_encoder",
    "use_3d_conv" };
  gint channels = 3;

  for (guint i = 0; i < G_N_ELEMENTS (strings); i++) {
    g_autofree gchar *found = NULL;

    if (!h3_config_get_string (file, strings[i][0], &found, error))
      return FALSE;
    if (found && !g_str_equal (found, strings[i][1]))
      return h3_config_refuse (file, error,
          "\"%s\" is \"%s\", only \"%s\" is supported", strings[i][0], found,
          strings[i][1]);
  }
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++) {
    gboolean found = TRUE;

    if (!h3_config_get_bool (file, flags[i], &found, error))
      return FALSE;
    if (!found)
      return h3_config_refuse (file, error,
          "\"%s\" is false, only true is supported", flags[i]);
  }
  return h3_config_get_int (file, "in_channels", 3, 3, &channels, error);
}

/* @values keeps the release's where the key is absent; @n says how many there
 * are in the end. */
static gboolean
read_list (const H3Config *file, const gchar *key, gint64 max, gint *values,
    guint *n, GError **error)
{
  guint found = H3_VIDEO_MAX_LEVELS;

  if (!h3_config_has (file, key))
    return TRUE;
  if (!h3_config_get_ints (file, key, 1, max, values, &found, error))
    return FALSE;
  *n = found;
  return TRUE;
}

/* ch times ch_mult, or block_out_channels. */
static gboolean
read_widths (const H3Config *file, H3VideoEncoderConfig *config, guint *n,
    GError **error)
{
  gint mult[H3_VIDEO_MAX_LEVELS] = { 1, 2, 2, 4, 4, 8 };

  if (h3_config_has (file, "block_out_channels")) {
    if (!read_list (file, "block_out_channels", MAX_WIDTH, config->channels, n,
            error))
      return FALSE;
    config->first = config->channels[0];
    return TRUE;
  }
  if (!h3_config_get_int (file, "ch", 1, MAX_WIDTH, &config->first, error) ||
      !read_list (file, "ch_mult", 1024, mult, n, error))
    return FALSE;
  for (guint i = 0; i < *n; i++)
    config->channels[i] = config->first * mult[i];
  return TRUE;
}

static gboolean
check_levels (const H3Config *file, const H3VideoEncoderConfig *config,
    GError **error)
{
  gint space = 1, time = 1;

  if (config->first % config->groups)
    return h3_config_refuse (file, error, "%d channels are not %d equal groups",
        config->first, config->groups);
  for (gint i = 0; i < config->levels; i++) {
    if (config->channels[i] % config->groups)
      return h3_config_refuse (file, error,
          "%d channels of level %d are not %d equal groups",
          config->channels[i], i, config->groups);
    if (config->space[i] == 1 && config->time[i] > 1)
      return h3_config_refuse (file, error,
          "level %d halves time and not space, which is not supported", i);
    space *= config->space[i];
    time *= config->time[i];
  }
  if (space != config->vae.ratio || time != config->vae.ratio_t)
    return h3_config_refuse (file, error,
        "the encoder's levels make %d pixels and %d frames of a latent, the "
        "decoder %d and %d",
        space, time, config->vae.ratio, config->vae.ratio_t);
  return TRUE;
}

static gboolean
read_file (const H3Config *file, H3VideoEncoderConfig *config, GError **error)
{
  guint widths = config->levels, space = widths, time = widths;

  if (!check_architecture (file, error) ||
      !read_widths (file, config, &widths, error) ||
      !read_list (file, "space_down", 2, config->space, &space, error) ||
      !read_list (file, "spatial_downsample_factors", 2, config->space, &space,
          error) ||
      !read_list (file, "time_down", 2, config->time, &time, error) ||
      !read_list (file, "temporal_downsample_factors", 2, config->time, &time,
          error) ||
      !h3_config_get_int (file, "num_res_blocks", 1, MAX_BLOCKS,
          &config->blocks, error) ||
      !h3_config_get_int (file, "layers_per_block", 1, MAX_BLOCKS,
          &config->blocks, error) ||
      !h3_config_get_int (file, "norm_num_groups", 1, MAX_WIDTH,
          &config->groups, error) ||
      !h3_config_get_double (file, "norm_eps", &config->eps, error))
    return FALSE;
  if (widths == 0 || widths != space || widths != time)
    return h3_config_refuse (file, error,
        "%u widths, %u factors in space and %u in time: as many are needed, "
        "from 1 to %d",
        widths, space, time, H3_VIDEO_MAX_LEVELS);
  if (!(config->eps > 0))
    return h3_config_refuse (file, error, "norm eps %g must be positive",
        config->eps);
  config->levels = widths;
  for (gint l = widths; l < H3_VIDEO_MAX_LEVELS; l++)
    config->channels[l] = config->space[l] = config->time[l] = 0;
  return check_levels (file, config, error);
}

gboolean
h3_video_encoder_config_read (const gchar *tensors,
    H3VideoEncoderConfig *config, GError **error)
{
  gboolean is_folder = g_file_test (tensors, G_FILE_TEST_IS_DIR);
  g_autofree gchar *folder =
      is_folder ? g_strdup (tensors) : g_path_get_dirname (tensors);
  g_autofree gchar *path = g_build_filename (folder, "config.json", NULL);
  g_autoptr (H3Config) file = NULL;
  H3Component component;
  H3Naming naming;

  set_release_values (config);
  if (!g_file_test (path, G_FILE_TEST_EXISTS) && !is_folder)
    return TRUE;
  file = h3_config_open (path, error);
  if (!file)
    return FALSE;
  /* beside a single file it may be another component's */
  if (!is_folder && !h3_config_has (file, "ch_mult") &&
      !(h3_config_component (file, &component, &naming) &&
          component == H3_COMPONENT_VIDEO_VAE))
    return TRUE;
  return read_file (file, config, error);
}
