/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Geometry in all dialects, and files that do not fit it. */
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "model/audio/audio-private.h"
#include "tests/audio/audio-test.h"

static gboolean
plan (const gchar *path, H3AudioVaeConfig *config, guint64 *bytes,
    GError **error)
{
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, error);

  return checkpoint && h3_audio_vae_plan (checkpoint, config, bytes, error);
}

/* Replaces @from, which must be there, by @to. */
static gchar *
edit (const gchar *text, const gchar *from, const gchar *to)
{
  g_auto (GStrv) parts = g_strsplit (text, from, 2);

  if (!parts[1])
    g_error ("no \"%s\" in %s", from, text);
  return g_strjoinv (to, parts);
}

/* Tries the model with that config.json (NULL: none). */
static H3AudioVae *
try_model (const TinyModel *model, const gchar *config, GError **error)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  H3AudioVae *vae;

  tiny_model_write (model, dir, config);
  vae = audio_test_try_load (dir, error);
  h3_test_remove_tree (dir);
  return vae;
}

/* --- good --------------------------------------------------------------- */

static void
test_official (void)
{
  static const gint rates[] = { 5, 5, 2, 2, 2, 2, 2 };
  static const gint kernels[] = { 9, 9, 4, 4, 4, 4, 4 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3AudioVae) vae = NULL;
  H3AudioVaeConfig config;
  guint64 bytes;

  g_assert_true (plan (h3_test_demo_dir (), &config, &bytes, &error));
  g_assert_no_error (error);
  g_assert_cmpint (config.channels, ==, 8);
  g_assert_cmpint (config.latent_dim, ==, 64);
  g_assert_cmpint (config.decoder_dim, ==, 128);
  g_assert_cmpint (config.n_stages, ==, 7);
  g_assert_cmpmem (config.rates, sizeof (rates), rates, sizeof (rates));
  g_assert_cmpmem (config.kernels, sizeof (kernels), kernels, sizeof (kernels));
  g_assert_cmpint (config.n_kernels, ==, 3);
  g_assert_cmpint (config.resblock_kernels[2], ==, 11);
  g_assert_cmpint (config.n_dilations, ==, 3);
  g_assert_cmpint (config.dilations[2][2], ==, 5);
  g_assert_cmpint (config.rate, ==, 32000);
  g_assert_cmpint (config.hop, ==, 800);
  g_assert_cmpint (config.halo, ==, 29);
  g_assert_cmpfloat (config.latents_mean[0], ==, -0.31842f);
  g_assert_cmpfloat (config.latents_std[7], ==, 0.33165f);
  g_assert_cmpuint (bytes, >, 1000000);

  vae = audio_test_load (h3_test_demo_dir ());
  g_assert_cmpmem (h3_audio_vae_config (vae), sizeof (config), &config,
      sizeof (config));
}

/* The release's own geometry from nothing but the tensors' widths. */
static void
test_no_config (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *component = g_build_filename (dir, "audio_vae", NULL);
  g_autofree gchar *from = g_build_filename (h3_test_demo_dir (), "audio_vae",
      "model.safetensors", NULL);
  g_autofree gchar *to =
      g_build_filename (component, "model.safetensors", NULL);
  g_autofree gchar *bytes = NULL;
  g_autoptr (GError) error = NULL;
  H3AudioVaeConfig config;
  guint64 weight_bytes;
  gsize n;

  /* All is known but the statistics of 8 channels. */
  g_assert_true (g_file_get_contents (from, &bytes, &n, NULL));
  g_assert_cmpint (g_mkdir (component, 0700), ==, 0);
  h3_test_write_file (to, bytes, n);
  g_assert_false (plan (dir, &config, &weight_bytes, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, "latents_mean",
      "32 channels");
  h3_test_remove_tree (dir);
}

/* The table of 8.4 against its checksums. */
static void
test_release_stats (void)
{
  H3AudioVaeConfig config = { .channels = 32 };
  gdouble mean = 0, std = 0;

  g_assert_true (h3_audio_config_release_stats (&config));
  for (gint c = 0; c < 32; c++) {
    mean += config.latents_mean[c];
    std += config.latents_std[c];
  }
  g_assert_cmpfloat_with_epsilon (mean, -0.46407355705705, 1e-6);
  g_assert_cmpfloat_with_epsilon (std, 60.7463110177268, 1e-5);
  config.channels = 8;
  g_assert_false (h3_audio_config_release_stats (&config));
}

static void
test_diffusers (void)
{
  g_autoptr (H3AudioVae) vae = audio_test_load_tiny (SPELLING_GV);
  const H3AudioVaeConfig *config = h3_audio_vae_config (vae);

  g_assert_cmpint (config->n_stages, ==, 2);
  g_assert_cmpint (config->n_kernels, ==, 2);
  g_assert_cmpint (config->resblock_kernels[1], ==, 7);
  g_assert_cmpint (config->n_dilations, ==, 2);
  g_assert_cmpint (config->dilations[1][1], ==, 3);
  g_assert_cmpint (config->hop, ==, 10);
  g_assert_cmpint (config->halo, ==, 16);
}

/* Kernels follow from the rates, widths from the tensors. */
static void
test_fields_left_out (void)
{
  static const gchar *const fields[] = {
    "\"decoder_kernel_sizes\": [9, 4], ",
    "\"latent_dim\": 32, ",
    "\"latent_channels\": 8, ",
    "\"decoder_dim\": 16, ",
    ", \"sampling_rate\": 32000",
  };
  g_autoptr (TinyModel) model = tiny_model_new (SPELLING_GV);
  g_autoptr (H3AudioVae) whole = audio_test_load_tiny (SPELLING_GV);

  for (guint i = 0; i < G_N_ELEMENTS (fields); i++) {
    g_autofree gchar *config = tiny_model_config (TRUE);
    g_autofree gchar *without = edit (config, fields[i], "");
    g_autoptr (GError) error = NULL;
    g_autoptr (H3AudioVae) vae = try_model (model, without, &error);

    g_assert_no_error (error);
    g_assert_cmpmem (h3_audio_vae_config (vae), sizeof (H3AudioVaeConfig),
        h3_audio_vae_config (whole), sizeof (H3AudioVaeConfig));
  }
}

/* The file's statistics go before the configuration's. */
static void
test_stats_in_file (void)
{
  g_autofree gchar *config = tiny_model_config (TRUE);
  g_autoptr (TinyModel) model = tiny_model_new (SPELLING_FOLDED);
  TinyTensor *mean = tiny_model_find (model, "latents_mean");
  g_autoptr (GError) error = NULL;
  g_autoptr (H3AudioVae) vae = NULL;

  mean->values[3] = 42;
  vae = try_model (model, config, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (h3_audio_vae_config (vae)->latents_mean[3], ==, 42);
}

/* --- bad configurations ------------------------------------------------- */

static void
test_bad_config (void)
{
  static const struct {
    const gchar *from, *to, *says;
  } cases[] = {
    { "[5, 2]", "[5, 1]", "decoder_rates" },
    { "[5, 2]", "[5, 200]", "decoder_rates" },
    { "[5, 2]", "[]", "decoder_rates" },
    { "[5, 2]", "[5]", "decoder_kernel_sizes" },
    { "[5, 2]", "\"5\"", "decoder_rates" },
    { "[9, 4]", "[9, 5]", "decoder kernel 1 is 5 for rate 2" },
    { "[9, 4]", "[3, 4]", "decoder kernel 0 is 3 for rate 5" },
    { "[9, 4]", "[9]", "decoder_kernel_sizes" },
    { "[3, 7]", "[3, 6]", "resblock kernel 1 is 6" },
    { "[3, 7]", "[]", "resblock_kernel_sizes" },
    { "[3, 7]", "[3, 7, 11, 13]", "resblock_kernel_sizes" },
    { "[3, 7]", "[3]", "resblock_dilation_sizes" },
    { "[[1, 3], [1, 3]]", "[[1, 3], [1]]", "resblock_dilation_sizes" },
    { "[[1, 3], [1, 3]]", "[[1, 3]]", "resblock_dilation_sizes" },
    { "[[1, 3], [1, 3]]", "[[1, 0], [1, 3]]", "resblock_dilation_sizes" },
    { "[[1, 3], [1, 3]]", "7", "resblock_dilation_sizes" },
    { "\"decoder_dim\": 16", "\"decoder_dim\": 18", "multiple of 4" },
    { "\"decoder_dim\": 16", "\"decoder_dim\": -4", "decoder_dim" },
    { "\"decoder_dim\": 16", "\"decoder_dim\": 1e99", "decoder_dim" },
    { "\"latent_channels\": 8", "\"latent_channels\": 500", "latent_channels" },
    { "\"latent_channels\": 8", "\"latent_channels\": 7", "latents_mean" },
    { "\"latents_std\"", "\"latents_sdt\"", "latents_std" },
    { "\"latents_mean\"", "\"latents_maen\"", "latents_mean" },
    { "\"latents_std\": [", "\"latents_std\": [1, ", "latents_std" },
    { "\"latents_std\": [", "\"latents_std\": [\"1\", ", "latents_std" },
    { "{", "{ \"decoder_type\": \"hifigan\", ", "bigvgan" },
    { "{", "{ \"output_channel\": 1, ", "output_channel" },
  };
  g_autoptr (TinyModel) model = tiny_model_new (SPELLING_GV);
  g_autofree gchar *good = tiny_model_config (TRUE);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *config = edit (good, cases[i].from, cases[i].to);
    g_autoptr (GError) error = NULL;

    g_test_message ("%s -> %s", cases[i].from, cases[i].to);
    g_assert_null (try_model (model, config, &error));
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, cases[i].says);
  }
}

/* Configuration and tensors disagree: the tensor is named, with both shapes. */
static void
test_config_against_shapes (void)
{
  static const struct {
    const gchar *from, *to, *tensor;
  } cases[] = {
    { "\"decoder_dim\": 16", "\"decoder_dim\": 32", "decoder.conv_pre" },
    { "\"latent_dim\": 32", "\"latent_dim\": 64", "dec_in_proj.weight" },
    { "[9, 4]", "[9, 6]", "decoder.ups.1.0.weight_v" },
    { "[3, 7]", "[3, 9]", "decoder.resblocks.1.convs1.0.weight_v" },
    { "[[1, 3], [1, 3]]", "[[1, 3, 5], [1, 3, 5]]",
        "decoder.resblocks.0.convs1.2.weight_v" },
    { "[5, 2]", "[5, 2, 2]", "decoder_kernel_sizes" },
    { "[[1, 3], [1, 3]]", "[[1], [1]]", "resblocks.0.activations.2" },
  };
  g_autoptr (TinyModel) model = tiny_model_new (SPELLING_GV);
  g_autofree gchar *good = tiny_model_config (TRUE);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *config = edit (good, cases[i].from, cases[i].to);
    g_autoptr (GError) error = NULL;

    g_test_message ("%s -> %s", cases[i].from, cases[i].to);
    g_assert_null (try_model (model, config, &error));
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, cases[i].tensor);
  }
}

/* --- bad files ---------------------------------------------------------- */

static void
remove_bias (TinyModel *model)
{
  tiny_model_remove (model, "decoder.ups.1.0.bias");
}

static void
remove_conv (TinyModel *model)
{
  tiny_model_remove (model, "decoder.conv_pre.weight_g");
  tiny_model_remove (model, "decoder.conv_pre.weight_v");
}

static void
remove_projection (TinyModel *model)
{
  tiny_model_remove (model, "dec_in_proj.weight");
}

static void
remove_std (TinyModel *model)
{
  tiny_model_add (model, "latents_mean", TINY_CHANNELS);
}

static void
wrong_g (TinyModel *model)
{
  /* Of the outputs, where an upsampler's norm runs over its inputs. */
  tiny_model_find (model, "decoder.ups.0.0.weight_g")->shape[0] = 8;
  tiny_model_find (model, "decoder.ups.0.0.weight_g")->n = 8;
}

static void
wrong_alpha (TinyModel *model)
{
  tiny_model_find (model, "decoder.activation_post.act.alpha")->shape[0] = 3;
  tiny_model_find (model, "decoder.activation_post.act.alpha")->n = 3;
}

static void
wrong_filter (TinyModel *model)
{
  TinyTensor *filter =
      tiny_model_find (model, "decoder.activation_post.upsample.filter");

  filter->shape[2] = filter->n = 11;
}

static void
extra_tensor (TinyModel *model)
{
  tiny_model_add (model, "decoder.conv_post.bias", 1);
}

static void
zero_norm (TinyModel *model)
{
  TinyTensor *v = tiny_model_find (model, "decoder.ups.0.0.weight_v");
  gsize n = v->n / v->shape[0];

  memset (v->values + 5 * n, 0, n * sizeof (gfloat));
}

static void
nan_weight (TinyModel *model)
{
  tiny_model_find (model, "decoder.conv_pre.weight_v")->values[100] = NAN;
}

static void
nan_bias (TinyModel *model)
{
  tiny_model_find (model, "decoder.conv_pre.bias")->values[3] = NAN;
}

static void
huge_alpha (TinyModel *model)
{
  tiny_model_find (model, "decoder.resblocks.0.activations.0.act.alpha")
      ->values[1] = 100;
}

static void
zero_std (TinyModel *model)
{
  tiny_model_add (model, "latents_mean", TINY_CHANNELS);
  tiny_model_add (model, "latents_std", TINY_CHANNELS);
}

static void
test_bad_file (void)
{
  static const struct {
    void (*damage) (TinyModel *model);
    const gchar *says;
  } cases[] = {
    { remove_bias, "decoder.ups.1.0.bias" },
    { remove_conv, "decoder.conv_pre.weight_v" },
    { remove_projection, "dec_in_proj.weight" },
    { remove_std, "latents_std" },
    { wrong_g, "decoder.ups.0.0.weight_g" },
    { wrong_alpha, "decoder.activation_post.act.alpha" },
    { wrong_filter, "decoder.activation_post.upsample.filter" },
    { extra_tensor, "decoder.conv_post.bias" },
    { zero_norm, "decoder.ups.0.0.weight_v: row 5" },
    { nan_weight, "decoder.conv_pre.weight_v" },
    { nan_bias, "decoder.conv_pre.bias" },
    { huge_alpha, "decoder.resblocks.0.activations.0.act.alpha[1]" },
    { zero_std, "latent channel 0" },
  };
  g_autofree gchar *config = tiny_model_config (TRUE);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (TinyModel) model = tiny_model_new (SPELLING_GV);
    g_autoptr (GError) error = NULL;

    g_test_message ("%s", cases[i].says);
    cases[i].damage (model);
    g_assert_null (try_model (model, config, &error));
    g_assert_true (error->domain == H3_ERROR);
    g_test_message ("%s", error->message);
    g_assert_true (g_error_matches (error, H3_ERROR, H3_ERROR_WRONG_TYPE) ||
                   g_error_matches (error, H3_ERROR, H3_ERROR_NUMERIC));
    g_assert_nonnull (strstr (error->message, cases[i].says));
    if (cases[i].damage == remove_projection)
      g_assert_null (strstr (error->message, "unexpected"));
  }
}

static void
test_bad_json (void)
{
  g_autoptr (TinyModel) model = tiny_model_new (SPELLING_GV);
  g_autoptr (GError) error = NULL;

  g_assert_null (try_model (model, "{ \"_class_name\": ", &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, "config.json");
}

void
audio_add_config_tests (void)
{
  g_test_add_func ("/audio/config/official", test_official);
  g_test_add_func ("/audio/config/none", test_no_config);
  g_test_add_func ("/audio/config/release-stats", test_release_stats);
  g_test_add_func ("/audio/config/diffusers", test_diffusers);
  g_test_add_func ("/audio/config/fields-left-out", test_fields_left_out);
  g_test_add_func ("/audio/config/stats-in-file", test_stats_in_file);
  g_test_add_func ("/audio/config/bad", test_bad_config);
  g_test_add_func ("/audio/config/against-shapes", test_config_against_shapes);
  g_test_add_func ("/audio/file/bad", test_bad_file);
  g_test_add_func ("/audio/file/bad-json", test_bad_json);
}
