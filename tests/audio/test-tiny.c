/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The second oracle: the table of audio-vae.md 11. */
#include <math.h>
#include <string.h>

#include "model/audio/audio-private.h"
#include "tests/audio/audio-test.h"

#define TOLERANCE h3_test_tolerance (5e-6, 2e-5)
/* Sums add up to 720 values, whose errors mostly cancel. */
#define SUM_TOLERANCE 1e-4

typedef struct {
  const gchar *tap;
  gint channels, length;
  gdouble sum, sum_abs, first, last;
} Row;

static const Row rows[] = {
  { "latents", 8, 6, -1.521265498, 85.263536474, 1.322080461, 0.002955881 },
  { "dec_in_proj", 32, 6, 5.254917642, 322.333008340, 0.161934373,
      0.550428713 },
  { "decoder.conv_pre", 16, 6, 4.162763138, 139.200461836, -1.291941749,
      1.394200679 },
  { "decoder.ups.0", 8, 30, -7.395580098, 196.607996990, -0.961709103,
      -0.297445979 },
  { "decoder.resblocks.0.activations.0", 8, 30, 89.671606892, 177.703917644,
      -0.624848484, -0.233092533 },
  { "decoder.resblocks.0", 8, 30, 105.587013438, 375.591743497, -1.066682133,
      0.039713225 },
  { "decoder.resblocks.1", 8, 30, 11.781420454, 336.041034600, -0.011803909,
      -0.488542775 },
  { "decoder.stages.0", 8, 30, 58.684216946, 280.492736064, -0.539243021,
      -0.224414775 },
  { "decoder.ups.1", 4, 60, 31.424377371, 228.287273139, -0.271530382,
      0.371522963 },
  { "decoder.stages.1", 4, 60, 7.034965757, 341.550583920, 0.048162737,
      0.304907231 },
  { "decoder.activation_post", 4, 60, 169.862796277, 312.159864483, 0.067525062,
      0.310957774 },
  { "decoder.conv_post", 1, 60, 16.030258902, 38.643091178, -0.156570911,
      -0.197726393 },
};

static const gdouble left[10] = { -0.1565709, -0.1477758, 0.2645230, 0.5401351,
  -0.7330055, 0.2189315, 1.0000000, 0.0739526, -0.1778503, 0.6488869 };
static const gdouble right_end[10] = { 0.0863642, 0.4678324, 0.4327725,
  0.5304616, 0.5622956, -0.0901980, 0.0897896, 0.2670915, 0.2437102,
  -0.1977264 };

typedef struct {
  H3Stream *stream;
  guint seen;
  gdouble worst, worst_sum;
} Check;

static void
compare (const gchar *what, gdouble got, gdouble want, gdouble tolerance,
    gdouble *worst)
{
  gdouble error = fabs (got - want);

  *worst = MAX (*worst, error);
  if (!(error <= tolerance))
    g_error ("%s is %.9g, needed is %.9g within %g", what, got, want,
        tolerance);
}

static void
check_row (Check *check, const Row *row, const gfloat *values, gsize n)
{
  gdouble sum = 0, sum_abs = 0;

  for (gsize i = 0; i < n; i++) {
    sum += values[i];
    sum_abs += fabs (values[i]);
  }
  compare (row->tap, values[0], row->first, TOLERANCE, &check->worst);
  compare (row->tap, values[n - 1], row->last, TOLERANCE, &check->worst);
  compare (row->tap, sum, row->sum, SUM_TOLERANCE, &check->worst_sum);
  compare (row->tap, sum_abs, row->sum_abs, SUM_TOLERANCE, &check->worst_sum);
}

/* Every row of the table in the order of the network. */
static void
check_tap (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  Check *check = user_data;
  const Row *row = &rows[check->seen];
  g_autofree gfloat *host = NULL;

  if (check->seen == G_N_ELEMENTS (rows) || strcmp (name, row->tap) != 0)
    return;
  g_assert_cmpint (value->rank, ==, 3);
  g_assert_cmpint (value->shape[0], ==, 2);
  g_assert_cmpint (value->shape[1], ==, row->channels);
  g_assert_cmpint (value->shape[2], ==, row->length);
  host = g_malloc (value->bytes);
  h3_download (check->stream, host, value);
  g_assert_true (h3_stream_synchronize (check->stream, NULL));
  check_row (check, row, host, value->bytes / sizeof (gfloat));
  check->seen++;
}

static void
check_waveform (const AudioClip *clip, Check *check)
{
  gdouble sum = 0, sum_abs = 0;
  gint clipped = 0;

  g_assert_cmpint (clip->n, ==, 60);
  for (gint i = 0; i < 2 * clip->n; i++) {
    sum += clip->samples[i];
    sum_abs += fabs (clip->samples[i]);
    clipped += fabs (clip->samples[i]) == 1;
  }
  compare ("waveform", sum, 15.092414874, SUM_TOLERANCE, &check->worst_sum);
  compare ("waveform", sum_abs, 37.705247150, SUM_TOLERANCE, &check->worst_sum);
  g_assert_cmpint (clipped, ==, 5);
  for (gint i = 0; i < 10; i++) {
    compare ("left", clip->samples[2 * i], left[i], TOLERANCE, &check->worst);
    compare ("right", clip->samples[2 * (50 + i) + 1], right_end[i], TOLERANCE,
        &check->worst);
  }
}

static void
test_table (gconstpointer data)
{
  Spelling spelling = GPOINTER_TO_INT (data);
  g_autoptr (H3AudioVae) vae = audio_test_load_tiny (spelling);
  const H3AudioVaeConfig *config = h3_audio_vae_config (vae);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Stream) stream = h3_stream_new (audio_test_device (), &error);
  g_autoptr (H3AudioDecoder) decoder =
      h3_audio_decoder_new (vae, stream, 256, &error);
  Check check = { stream };
  H3Tap tap = { check_tap, &check };
  g_autofree gfloat *z = tiny_latent ();
  g_autoptr (AudioClip) clip = NULL;

  g_assert_no_error (error);
  g_assert_cmpint (config->hop, ==, TINY_HOP);
  clip = audio_test_decode_with (decoder, config, stream, z, TINY_LENGTH, &tap);
  g_assert_cmpint (check.seen, ==, G_N_ELEMENTS (rows));
  check_waveform (clip, &check);
  g_test_message ("worst value off by %.2g, worst sum by %.2g", check.worst,
      check.worst_sum);
}

/* The check of the specification for the generator itself. */
static void
test_recipe (void)
{
  g_assert_cmpfloat_with_epsilon (tiny_random ("input.z", 0), 0.67585929, 1e-8);
  g_assert_cmpfloat_with_epsilon (tiny_random ("input.z", 1), -0.40149178,
      1e-8);
  g_assert_cmpfloat_with_epsilon (tiny_random ("input.z", 2), -0.98472712,
      1e-8);
  g_assert_cmpfloat_with_epsilon (tiny_random ("decoder.conv_pre.weight_v", 0),
      0.82003632, 1e-8);
}

/* One spelling or another, the bytes are the same. */
static void
test_spellings (void)
{
  g_autofree gfloat *z = tiny_latent ();
  g_autoptr (H3AudioVae) gv = audio_test_load_tiny (SPELLING_GV);
  g_autoptr (AudioClip) want =
      audio_test_decode (gv, z, TINY_LENGTH, 256, NULL);

  for (gint s = SPELLING_PARAMETRIZED; s <= SPELLING_FOLDED; s++) {
    g_autoptr (H3AudioVae) vae = audio_test_load_tiny (s);
    g_autoptr (AudioClip) clip =
        audio_test_decode (vae, z, TINY_LENGTH, 256, NULL);

    audio_test_assert_equal (want, clip);
  }
}

/* Left and right know nothing of each other. */
static void
test_stereo (void)
{
  g_autoptr (H3AudioVae) vae = audio_test_load_tiny (SPELLING_GV);
  gint half = TINY_CHANNELS * TINY_LENGTH;
  g_autofree gfloat *z = tiny_latent ();
  g_autofree gfloat *swapped = g_new (gfloat, 2 * half);
  g_autoptr (AudioClip) a = NULL;
  g_autoptr (AudioClip) b = NULL;

  memcpy (swapped, z + half, half * sizeof (gfloat));
  memcpy (swapped + half, z, half * sizeof (gfloat));
  a = audio_test_decode (vae, z, TINY_LENGTH, 256, NULL);
  b = audio_test_decode (vae, swapped, TINY_LENGTH, 256, NULL);
  for (gint i = 0; i < a->n; i++) {
    g_assert_cmpfloat (a->samples[2 * i], ==, b->samples[2 * i + 1]);
    g_assert_cmpfloat (a->samples[2 * i + 1], ==, b->samples[2 * i]);
  }
}

/* --- filters ------------------------------------------------------------ */

/* I0, the modified Bessel function of order 0, by its series. */
static gdouble
bessel (gdouble x)
{
  gdouble term = 1, sum = 1;

  for (gint k = 1; k < 60; k++) {
    term *= x / 2 / k * (x / 2 / k);
    sum += term;
  }
  return sum;
}

/* The bits that 4.6 lists, and its formula, which they round. */
static void
test_filter_bits (void)
{
  static const guint32 bits[6] = { 0x3B04F861, 0x3C19D646, 0xBCD14084,
    0xBD6C2A26, 0x3E03A888, 0x3EE2EC65 };
  const gfloat *filter = h3_audio_default_filter ();
  gdouble a = 2.285 * 5 * G_PI * 4 * 0.3 + 7.95, beta = 0.1102 * (a - 8.7);
  gdouble h[12], sum = 0;

  for (gint n = 0; n < 12; n++) {
    gdouble x = (n - 5.5) / 5.5, t = n - 6 + 0.5;

    h[n] = 0.5 * bessel (beta * sqrt (1 - x * x)) / bessel (beta) *
           sin (G_PI * 0.5 * t) / (G_PI * 0.5 * t);
    sum += h[n];
  }
  for (gint n = 0; n < 12; n++) {
    guint32 found;

    memcpy (&found, &filter[n], sizeof (found));
    g_assert_cmphex (found, ==, bits[MIN (n, 11 - n)]);
    g_assert_cmpfloat_with_epsilon (filter[n], h[n] / sum, 2.6e-8);
  }
}

static H3AudioVae *
load_model (const TinyModel *model)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *config = tiny_model_config (TRUE);
  H3AudioVae *vae;

  tiny_model_write (model, dir, config);
  vae = audio_test_load (dir);
  h3_test_remove_tree (dir);
  return vae;
}

/* A file without filters means the filters all files have. */
static void
test_filters_missing (void)
{
  g_autoptr (H3AudioVae) with = audio_test_load_tiny (SPELLING_GV);
  g_autoptr (TinyModel) model = tiny_model_new (SPELLING_GV);
  g_autoptr (H3AudioVae) without = NULL;
  g_autofree gfloat *z = tiny_latent ();
  g_autoptr (AudioClip) a = NULL;
  g_autoptr (AudioClip) b = NULL;

  tiny_model_remove_all (model, ".filter");
  without = load_model (model);
  a = audio_test_decode (with, z, TINY_LENGTH, 256, NULL);
  b = audio_test_decode (without, z, TINY_LENGTH, 256, NULL);
  audio_test_assert_equal (a, b);
}

typedef struct {
  H3Stream *stream;
  gdouble sums[2]; /* of activations 0 of blocks 0 and 1 */
} Activations;

static void
sum_tap (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  Activations *activations = user_data;
  g_autofree gfloat *host = NULL;
  gint block;

  if (strcmp (name, "decoder.resblocks.0.activations.0") == 0)
    block = 0;
  else if (strcmp (name, "decoder.resblocks.1.activations.0") == 0)
    block = 1;
  else
    return;
  host = g_malloc (value->bytes);
  h3_download (activations->stream, host, value);
  g_assert_true (h3_stream_synchronize (activations->stream, NULL));
  for (gsize i = 0; i < value->bytes / sizeof (gfloat); i++)
    activations->sums[block] += host[i];
}

static void
activation_sums (H3AudioVae *vae, gdouble sums[2])
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Stream) stream = h3_stream_new (audio_test_device (), &error);
  g_autoptr (H3AudioDecoder) decoder =
      h3_audio_decoder_new (vae, stream, 256, &error);
  Activations activations = { stream };
  H3Tap tap = { sum_tap, &activations };
  g_autofree gfloat *z = tiny_latent ();
  g_autoptr (AudioClip) clip = NULL;

  g_assert_no_error (error);
  clip = audio_test_decode_with (decoder, h3_audio_vae_config (vae), stream, z,
      TINY_LENGTH, &tap);
  memcpy (sums, activations.sums, sizeof (activations.sums));
}

/* One activation's own filter is that activation's, and no other's. */
static void
test_filters_differ (void)
{
  g_autoptr (H3AudioVae) same = audio_test_load_tiny (SPELLING_GV);
  g_autoptr (TinyModel) model = tiny_model_new (SPELLING_GV);
  g_autoptr (H3AudioVae) other = NULL;
  TinyTensor *filter = tiny_model_find (model,
      "decoder.resblocks.0.activations.0.downsample.lowpass.filter");
  gdouble before[2], after[2];

  for (gsize i = 0; i < filter->n; i++)
    filter->values[i] *= 2;
  other = load_model (model);
  activation_sums (same, before);
  activation_sums (other, after);
  g_assert_cmpfloat (after[0], ==, 2 * before[0]);
  g_assert_cmpfloat (after[1], ==, before[1]);
}

void
audio_add_tiny_tests (void)
{
  g_test_add_func ("/audio/tiny/recipe", test_recipe);
  g_test_add_data_func ("/audio/tiny/table/gv", GINT_TO_POINTER (SPELLING_GV),
      test_table);
  g_test_add_data_func ("/audio/tiny/table/parametrized",
      GINT_TO_POINTER (SPELLING_PARAMETRIZED), test_table);
  g_test_add_data_func ("/audio/tiny/table/folded",
      GINT_TO_POINTER (SPELLING_FOLDED), test_table);
  g_test_add_func ("/audio/tiny/spellings", test_spellings);
  g_test_add_func ("/audio/tiny/stereo", test_stereo);
  g_test_add_func ("/audio/filter/bits", test_filter_bits);
  g_test_add_func ("/audio/filter/missing", test_filters_missing);
  g_test_add_func ("/audio/filter/differ", test_filters_differ);
}
