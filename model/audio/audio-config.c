/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The audio autoencoder's geometry from its configuration (audio-vae.md 8.3). */
#include "model/audio/audio-private.h"

#include <string.h>

#include "model/checkpoint/detect.h"

#define MAX_WIDTH 65536
#define MAX_HOP 65536

static const gfloat release_mean[32] = { -0.020211687488382354,
  0.3876466479950502, -0.04398279799186767, -0.28591514936373,
  0.08179686214561671, -0.35782641352446604, 0.040623809960919084,
  -0.01552534501956604, -0.223362481667332, 0.1821006842509091,
  0.2941778783780663, -0.07901167601970885, -0.056815072777201,
  -0.3699028221860095, -0.31616315591624855, 0.5905951377425391,
  -0.052139568068853864, 0.013673160263486295, -0.03691647864630577,
  0.09732660653298163, -0.3394662328788498, -0.30685677538541667,
  -0.24504598907458763, -0.034698524462007344, 0.02868032184767538,
  -0.21217779266454084, -0.1678263169941987, 0.3221287889040614,
  -0.1223055851554907, 0.4356604928128464, -0.0502599202236253,
  0.3979258376211797 };

static const gfloat release_std[32] = { 1.6895524230479284, 2.76263727217653,
  1.7945344281264435, 1.6801681847309828, 1.6390226546605453,
  2.7788298348882177, 1.7659090095747236, 1.6199757612137327,
  2.6336525640336896, 1.8539356672817833, 2.5056497896915633, 1.811019237886178,
  1.9579657790720237, 1.6685498243529284, 1.4922469314453364, 3.298670198067373,
  1.9491804496832168, 1.8720003270431442, 1.8334080103291832,
  1.6488070416529093, 1.6176957696319716, 1.9131449234774398,
  1.5695245398428617, 1.6943659940415912, 1.8318420762504692,
  1.5540637421583379, 1.9344930328968526, 1.599198216109855, 1.718045989838149,
  1.6307219190837705, 1.8661226051202384, 1.5613768203168363 };

gboolean
h3_audio_config_release_stats (H3AudioVaeConfig *config)
{
  if (config->channels != G_N_ELEMENTS (release_mean))
    return FALSE;
  memcpy (config->latents_mean, release_mean, sizeof (release_mean));
  memcpy (config->latents_std, release_std, sizeof (release_std));
  return TRUE;
}

/* --- one file ----------------------------------------------------------- */

static gboolean
get_int (const H3Config *file, const gchar *prefix, const gchar *key,
    gint64 min, gint64 max, gint *value, GError **error)
{
  g_autofree gchar *path = g_strconcat (prefix, key, NULL);

  return h3_config_get_int (file, path, min, max, value, error);
}

/* @n keeps its value where the key is absent. */
static gboolean
get_ints (const H3Config *file, const gchar *prefix, const gchar *key,
    gint64 min, gint64 max, gint *values, gint *n, GError **error)
{
  g_autofree gchar *path = g_strconcat (prefix, key, NULL);
  guint found = H3_AUDIO_MAX_STAGES;

  if (!h3_config_has (file, path))
    return TRUE;
  if (!h3_config_get_ints (file, path, min, max, values, &found, error))
    return FALSE;
  *n = found;
  return TRUE;
}

/* resblock_dilation_sizes: a list for each resblock kernel, equally long. */
static gboolean
get_dilations (const H3Config *file, const gchar *prefix,
    H3AudioVaeConfig *config, GError **error)
{
  g_autofree gchar *whole =
      g_strconcat (prefix, "resblock_dilation_sizes", NULL);
  g_autofree gchar *key = NULL;

  if (!h3_config_has (file, whole))
    return TRUE;
  for (gint j = 0; j < config->n_kernels; j++) {
    g_autofree gchar *list = g_strdup_printf ("resblock_dilation_sizes.%d", j);
    gint n = 0;

    if (!get_ints (file, prefix, list, 1, 64, config->dilations[j], &n, error))
      return FALSE;
    if (n == 0 || (j > 0 && n != config->n_dilations))
      return h3_config_refuse (file, error,
          "resblock_dilation_sizes has %d entries for "
          "resblock kernel %d; needed: %s",
          n, j, j > 0 ? "as many as for the first" : "1 or more");
    config->n_dilations = n;
  }
  key = g_strdup_printf ("%s.%d", whole, config->n_kernels);
  if (h3_config_has (file, key))
    return h3_config_refuse (file, error,
        "resblock_dilation_sizes has lists for more "
        "than %d resblock_kernel_sizes",
        config->n_kernels);
  return TRUE;
}

/* The official configuration names no kernels: they follow from the rates. */
static void
set_kernels (H3AudioVaeConfig *c)
{
  for (gint i = 0; i < c->n_stages; i++)
    c->kernels[i] = 2 * c->rates[i] - c->rates[i] % 2;
}

static gboolean
get_rates (const H3Config *file, const gchar *prefix, H3AudioVaeConfig *c,
    GError **error)
{
  g_autofree gchar *key = g_strconcat (prefix, "decoder_rates", NULL);

  if (!h3_config_has (file, key))
    return TRUE;
  if (!get_ints (file, prefix, "decoder_rates", 2, 64, c->rates, &c->n_stages,
          error))
    return FALSE;
  set_kernels (c);
  return TRUE;
}

/* The fields of all dialects; each file has some of them. */
static gboolean
read_fields (const H3Config *file, const gchar *prefix, H3AudioVaeConfig *c,
    GError **error)
{
  g_autofree gchar *decoder_key = g_strconcat (prefix, "decoder_type", NULL);
  g_autofree gchar *decoder = NULL;
  gint outputs = 2, n_kernels;

  if (!h3_config_get_string (file, decoder_key, &decoder, error))
    return FALSE;
  if (decoder && strcmp (decoder, "bigvgan") != 0)
    return h3_config_refuse (file, error,
        "decoder_type is \"%s\"; needed: \"bigvgan\"", decoder);
  if (!get_int (file, prefix, "output_channel", 2, 2, &outputs, error) ||
      !get_int (file, prefix, "vae_latent_channels", 1, H3_AUDIO_MAX_CHANNELS,
          &c->channels, error) ||
      !get_int (file, prefix, "latent_channels", 1, H3_AUDIO_MAX_CHANNELS,
          &c->channels, error) ||
      !get_int (file, prefix, "latent_dim", 1, MAX_WIDTH, &c->latent_dim,
          error) ||
      !get_int (file, prefix, "decoder_dim", 1, MAX_WIDTH, &c->decoder_dim,
          error) ||
      !get_int (file, prefix, "sample_rate", 1, 768000, &c->rate, error) ||
      !get_int (file, prefix, "sampling_rate", 1, 768000, &c->rate, error) ||
      !get_rates (file, prefix, c, error))
    return FALSE;

  n_kernels = c->n_stages;
  if (!get_ints (file, prefix, "decoder_kernel_sizes", 1, 255, c->kernels,
          &n_kernels, error))
    return FALSE;
  if (n_kernels != c->n_stages || c->n_stages == 0)
    return h3_config_refuse (file, error,
        "%d decoder_kernel_sizes for %d decoder_rates; needed: as many, "
        "at least one",
        n_kernels, c->n_stages);

  if (!get_ints (file, prefix, "resblock_kernel_sizes", 1, 63,
          c->resblock_kernels, &c->n_kernels, error))
    return FALSE;
  if (c->n_kernels < 1 || c->n_kernels > H3_AUDIO_MAX_KERNELS)
    return h3_config_refuse (file, error,
        "%d resblock_kernel_sizes; needed: 1 to %d", c->n_kernels,
        H3_AUDIO_MAX_KERNELS);
  return get_dilations (file, prefix, c, error);
}

/* *has_stats becomes TRUE when @file names both lists. */
static gboolean
read_stats (const H3Config *file, H3AudioVaeConfig *c, gboolean *has_stats,
    GError **error)
{
  guint n_mean = H3_AUDIO_MAX_CHANNELS, n_std = H3_AUDIO_MAX_CHANNELS;

  if (!h3_config_has (file, "latents_mean") &&
      !h3_config_has (file, "latents_std"))
    return TRUE;
  if (!h3_config_has (file, "latents_mean") ||
      !h3_config_has (file, "latents_std"))
    return h3_config_refuse (file, error,
        "latents_mean and latents_std belong together, "
        "one is missing");
  if (!h3_config_get_floats (file, "latents_mean", c->latents_mean, &n_mean,
          error) ||
      !h3_config_get_floats (file, "latents_std", c->latents_std, &n_std,
          error))
    return FALSE;
  if (n_mean != n_std)
    return h3_config_refuse (file, error, "%u latents_mean but %u latents_std",
        n_mean, n_std);
  if (c->channels == 0)
    c->channels = n_mean;
  if (n_mean != (guint) c->channels)
    return h3_config_refuse (file, error,
        "%u latents_mean for %d latent channels", n_mean, c->channels);
  *has_stats = TRUE;
  return TRUE;
}

/* --- the component ------------------------------------------------------ */

static void
set_release (H3AudioVaeConfig *config)
{
  static const gint rates[] = { 5, 5, 2, 2, 2, 2, 2 };
  static const gint resblock_kernels[] = { 3, 7, 11 };
  static const gint dilations[] = { 1, 3, 5 };

  memset (config, 0, sizeof (*config));
  config->rate = 32000;
  config->n_stages = G_N_ELEMENTS (rates);
  memcpy (config->rates, rates, sizeof (rates));
  set_kernels (config);
  config->n_kernels = G_N_ELEMENTS (resblock_kernels);
  config->n_dilations = G_N_ELEMENTS (dilations);
  memcpy (config->resblock_kernels, resblock_kernels,
      sizeof (resblock_kernels));
  for (gint j = 0; j < H3_AUDIO_MAX_STAGES; j++)
    memcpy (config->dilations[j], dilations, sizeof (dilations));
}

gboolean
h3_audio_config_open (const gchar *path, H3Config **config, H3Config **metadata,
    GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autofree gchar *dir = g_file_test (path, G_FILE_TEST_IS_DIR)
                              ? g_strdup (path)
                              : g_path_get_dirname (path);
  g_autofree gchar *metadata_path =
      g_build_filename (dir, "metadata.json", NULL);

  *config = h3_component_config (path, H3_COMPONENT_AUDIO_VAE, &local);
  if (*config && g_file_test (metadata_path, G_FILE_TEST_EXISTS))
    *metadata = h3_config_open (metadata_path, &local);
  if (!local)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

gboolean
h3_audio_config_read (const gchar *path, H3AudioVaeConfig *config,
    gboolean *has_stats, GError **error)
{
  g_autoptr (H3Config) main_file = NULL;
  g_autoptr (H3Config) metadata = NULL;

  set_release (config);
  *has_stats = FALSE;
  if (!h3_audio_config_open (path, &main_file, &metadata, error))
    return FALSE;
  if (metadata && !read_fields (metadata, "metadata.kwargs.", config, error))
    return FALSE;
  return !main_file || (read_fields (main_file, "", config, error) &&
                           read_stats (main_file, config, has_stats, error));
}

/* --- geometry ----------------------------------------------------------- */

static gint64
floor_div (gint64 a, gint64 b)
{
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* How far one AMP block reaches, in samples of its stage. */
static gint64
block_radius (const H3AudioVaeConfig *config, gint j)
{
  gint64 half = (config->resblock_kernels[j] - 1) / 2;
  gint64 radius = 0;

  for (gint q = 0; q < config->n_dilations; q++)
    radius += 5 + half * config->dilations[j][q] + 5 + half;
  return radius;
}

/* Latents each side that can reach a latent's samples (10.1), followed from the
 * samples [lo, hi] of latent 0 back through the network. */
static gint
halo (const H3AudioVaeConfig *config)
{
  gint64 edge = (H3_AUDIO_EDGE_KERNEL - 1) / 2;
  gint64 lo = -(5 + edge), hi = config->hop - 1 + 5 + edge;

  for (gint i = config->n_stages - 1; i >= 0; i--) {
    gint64 u = config->rates[i], k = config->kernels[i], pad = (k - u) / 2;
    gint64 radius = 0;

    for (gint j = 0; j < config->n_kernels; j++)
      radius = MAX (radius, block_radius (config, j));
    lo -= radius;
    hi += radius;
    lo = floor_div (lo + pad - k + u, u); /* ceil ((lo + pad - k + 1) / u) */
    hi = floor_div (hi + pad, u);
  }
  lo -= edge;
  hi += edge;
  return MAX (-lo, hi);
}

gboolean
h3_audio_config_complete (H3AudioVaeConfig *config, const gchar *path,
    GError **error)
{
  gint64 hop = 1;

#define REFUSE(...)                                                            \
  G_STMT_START                                                                 \
  {                                                                            \
    g_autofree gchar *what_ = g_strdup_printf (__VA_ARGS__);                   \
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s", path, what_); \
    return FALSE;                                                              \
  }                                                                            \
  G_STMT_END

  if (config->channels < 1 || config->channels > H3_AUDIO_MAX_CHANNELS)
    REFUSE ("%d latent channels; needed: 1 to %d", config->channels,
        H3_AUDIO_MAX_CHANNELS);
  if (config->latent_dim < 1 || config->latent_dim > MAX_WIDTH ||
      config->decoder_dim < 1 || config->decoder_dim > MAX_WIDTH)
    REFUSE ("latent_dim is %d and decoder_dim %d; needed: 1 to %d",
        config->latent_dim, config->decoder_dim, MAX_WIDTH);
  if (config->decoder_dim % (1 << config->n_stages) != 0)
    REFUSE ("decoder_dim is %d; needed: a multiple of %d: it is halved by "
            "each of %d decoder_rates",
        config->decoder_dim, 1 << config->n_stages, config->n_stages);
  for (gint i = 0; i < config->n_stages; i++) {
    gint excess = config->kernels[i] - config->rates[i];

    if (excess < 0 || excess % 2 != 0)
      REFUSE ("decoder kernel %d is %d for rate %d; needed: the rate plus an "
              "even number",
          i, config->kernels[i], config->rates[i]);
    hop *= config->rates[i];
    if (hop > MAX_HOP)
      REFUSE ("decoder_rates make more than %d samples of one latent", MAX_HOP);
  }
  for (gint j = 0; j < config->n_kernels; j++) {
    if (config->resblock_kernels[j] % 2 == 0)
      REFUSE ("resblock kernel %d is %d; needed: an odd number", j,
          config->resblock_kernels[j]);
  }
#undef REFUSE
  config->hop = hop;
  config->halo = halo (config);
  return TRUE;
}
