/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sound to latents: against the golden data, the table of audio-vae.md 11, and
 * itself in chunks. */
#include <math.h>
#include <string.h>

#include "model/audio/audio-encoder.h"
#include "model/audio/resample.h"
#include "tests/audio/audio-test.h"

static H3AudioEncoderModel *
try_load (const gchar *path, GError **error)
{
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, error);

  if (!checkpoint)
    return NULL;
  return h3_audio_encoder_load (checkpoint, audio_test_device (), NULL, NULL,
      NULL, error);
}

static H3AudioEncoderModel *
load (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  H3AudioEncoderModel *model = try_load (path, &error);

  g_assert_no_error (error);
  return model;
}

/* @model through a file. NULL with @error. */
static H3AudioEncoderModel *
try_tiny (const TinyModel *tiny, const gchar *config, GError **error)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *plain = tiny_model_config (TRUE);
  H3AudioEncoderModel *model;

  tiny_model_write (tiny, dir, config ? config : plain);
  model = try_load (dir, error);
  h3_test_remove_tree (dir);
  return model;
}

static H3AudioEncoderModel *
load_tiny (Spelling spelling)
{
  g_autoptr (TinyModel) tiny = tiny_model_new (spelling);
  g_autoptr (GError) error = NULL;
  H3AudioEncoderModel *model = try_tiny (tiny, NULL, &error);

  g_assert_no_error (error);
  return model;
}

/* [2, C, T] of [2, @n] samples. */
static gfloat *
encode_with (H3AudioEncoderModel *model, H3Stream *stream,
    const gfloat *samples, gsize n, gint chunk, const H3Tap *tap, gsize *n_out)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3AudioEncoder) encoder =
      h3_audio_encoder_new (model, stream, chunk, &error);
  g_autoptr (H3Tensor) latent = NULL;

  g_assert_no_error (error);
  h3_audio_encoder_encode (encoder, samples, n, NULL, tap, &latent, &error);
  g_assert_no_error (error);
  g_assert_cmpint (latent->shape[2], ==,
      h3_audio_encoded_latents (h3_audio_encoder_config (model), n));
  *n_out = h3_tensor_size (latent);
  return h3_test_to_host (stream, latent);
}

static gfloat *
encode (H3AudioEncoderModel *model, const gfloat *samples, gsize n, gint chunk,
    gsize *n_out)
{
  g_autoptr (H3Stream) stream = h3_stream_new (audio_test_device (), NULL);

  return encode_with (model, stream, samples, n, chunk, NULL, n_out);
}

static void
test_module (void)
{
  g_autoptr (H3AudioEncoderModel) model = load (h3_test_tiny_dir ());
  const H3AudioEncoderConfig *config = h3_audio_encoder_config (model);
  gsize n, n_want, n_got;
  g_autofree gfloat *x =
      h3_test_golden ("audio_vae.safetensors", "encode_in", &n);
  g_autofree gfloat *want =
      h3_test_golden ("audio_vae.safetensors", "encode_mean", &n_want);
  g_autofree gfloat *got = encode (model, x, n / 2, 256, &n_got);

  g_assert_cmpint (config->halo, ==, 12);
  g_assert_cmpint (config->vae.hop, ==, 800);
  g_assert_cmpuint (n_got, ==, n_want);
  for (gsize i = 0; i < n_got; i++) {
    gint c = i / (n_got / 2 / config->vae.channels) % config->vae.channels;

    got[i] = got[i] * config->vae.latents_std[c] + config->vae.latents_mean[c];
  }
  h3_test_assert_close (got, want, n_got, h3_test_tolerance (1e-5, 3e-5));
}

/* What a request was conditioned with, rows [2 T, C], from its sound. */
static void
check_condition (H3AudioEncoderModel *model, const gchar *sound,
    const gchar *condition)
{
  gint channels = h3_audio_encoder_config (model)->vae.channels;
  gsize n, n_want, n_got, n_sound, t;
  g_autofree gfloat *planar = h3_test_golden ("media.safetensors", sound, &n);
  g_autofree gfloat *x = g_new (gfloat, n);
  g_autofree gfloat *want =
      h3_test_golden ("request_ref2va_mixed.safetensors", condition, &n_want);
  g_autofree gfloat *reference = NULL, *got = NULL;
  g_autofree gfloat *rows = g_new (gfloat, n_want);

  for (gsize i = 0; i < n; i++)
    x[i] = planar[i % 2 * (n / 2) + i / 2];
  reference =
      h3_audio_reference_sound (x, n / 2, 2, 32000, 0, 32000, &n_sound, NULL);
  got = encode (model, reference, n_sound, 256, &n_got);
  g_assert_cmpuint (n_got, ==, n_want);
  t = n_got / 2 / channels;
  for (gsize i = 0; i < n_got; i++)
    rows[(i / (channels * t) * t + i % t) * channels + i / t % channels] =
        got[i];
  h3_test_assert_close (rows, want, n_want, h3_test_tolerance (1e-5, 1e-4));
}

static void
test_conditions (void)
{
  g_autoptr (H3AudioEncoderModel) model = load (h3_test_tiny_dir ());

  check_condition (model, "audio", "audio_condition_latents_0");
  check_condition (model, "video_audio", "audio_condition_latents_1");
}

static void
test_layouts (void)
{
  g_autoptr (H3AudioEncoderModel) official = load (h3_test_tiny_dir ());
  g_autoptr (H3AudioEncoderModel) diffusers =
      load (h3_test_tiny_diffusers_dir ());
  g_autoptr (H3AudioEncoderModel) demo = load (h3_test_demo_dir ());
  g_autofree gfloat *x = audio_test_noise (1, 3000, 5);
  gsize n, m;
  g_autofree gfloat *a = encode (official, x, 3000, 8, &n);
  g_autofree gfloat *b = encode (diffusers, x, 3000, 8, &m);
  g_autofree gfloat *c = encode (demo, x, 3000, 8, &n);

  g_assert_cmpmem (h3_audio_encoder_config (official),
      sizeof (H3AudioEncoderConfig), h3_audio_encoder_config (diffusers),
      sizeof (H3AudioEncoderConfig));
  g_assert_cmpmem (a, m * sizeof (gfloat), b, m * sizeof (gfloat));
  g_assert_cmpuint (n, ==, m);
}

/* The table of audio-vae.md 11. */
typedef struct {
  const gchar *tap;
  gsize n;
  gdouble sum, sum_abs, first, last;
} Row;

static const Row rows[] = {
  { "encoder.block.0", 2 * 4 * 60, -0.841470158, 157.662611973, 0.034443980,
      -0.139181618 },
  { "encoder.block.1.units", 2 * 4 * 60, 347.551931105, 541.341269126,
      0.389476683, 1.977138357 },
  { "encoder.block.1", 2 * 8 * 30, 145.699998226, 680.160658520, 1.614111263,
      0.660023639 },
  { "encoder.block.2", 2 * 16 * 6, 201.880747139, 511.627319051, -1.862124655,
      -2.843065754 },
  { "encoder.block.4", 2 * 32 * 6, -252.054430062, 895.981047156, -0.358913525,
      1.221093460 },
  { "pre_block.attn.heads", 2 * 2 * 6 * 16, 68.056714196, 282.404119358,
      -0.787000641, -0.397339708 },
  { "pre_block.attn", 2 * 6 * 8, 32.121858251, 42.478606735, 0.047071378,
      0.143844759 },
  { "pre_block.attention", 2 * 6 * 8, 5.558465545, 68.209927827, 0.020065481,
      0.023543178 },
  { "pre_block", 2 * 6 * 8, 7.987676789, 79.742394693, 0.691633824,
      0.291849764 },
  { "mean", 2 * 8 * 6, 12.992486171, 63.173875765, -0.864194861, 1.075372307 },
};

typedef struct {
  H3Stream *stream;
  guint seen;
} Check;

static void
check_values (const Row *row, const gfloat *values, gsize n)
{
  gdouble sum = 0, sum_abs = 0, loose = h3_test_tolerance (1, 4);

  g_assert_cmpuint (n, ==, row->n);
  for (gsize i = 0; i < n; i++) {
    sum += values[i];
    sum_abs += fabs (values[i]);
  }
  g_assert_cmpfloat_with_epsilon (values[0], row->first, 2e-5 * loose);
  g_assert_cmpfloat_with_epsilon (values[n - 1], row->last, 2e-5 * loose);
  g_assert_cmpfloat_with_epsilon (sum, row->sum, 2e-4 * loose);
  g_assert_cmpfloat_with_epsilon (sum_abs, row->sum_abs, 2e-4 * loose);
}

static void
check_tap (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  Check *check = user_data;
  const Row *row = &rows[check->seen];
  g_autofree gfloat *host = NULL;

  if (check->seen == G_N_ELEMENTS (rows) || strcmp (name, row->tap) != 0)
    return;
  host = h3_test_to_host (check->stream, value);
  check_values (row, host, h3_tensor_size (value));
  check->seen++;
}

static void
test_table (gconstpointer data)
{
  static const Row latents = { "latents", 2 * 8 * 6, 10.789783119, 55.798493262,
    -0.451764140, 0.674944211 };
  static const gdouble left[] = { -0.4517641, -0.1335020, 1.0026620, 0.1075295,
    0.3178985, 0.1071402 };
  g_autoptr (H3AudioEncoderModel) model = load_tiny (GPOINTER_TO_INT (data));
  g_autoptr (H3Stream) stream = h3_stream_new (audio_test_device (), NULL);
  Check check = { stream };
  H3Tap tap = { check_tap, &check };
  g_autofree gfloat *x = tiny_waveform ();
  gsize n;
  g_autofree gfloat *z =
      encode_with (model, stream, x, TINY_SAMPLES, 256, &tap, &n);

  g_assert_cmpuint (check.seen, ==, G_N_ELEMENTS (rows));
  check_values (&latents, z, n);
  for (guint i = 0; i < G_N_ELEMENTS (left); i++)
    g_assert_cmpfloat_with_epsilon (z[i], left[i],
        h3_test_tolerance (2e-5, 1e-4));
}

/* Whatever the chunk, the same bytes, with the release's strides. */
static void
test_chunks (void)
{
  g_autoptr (H3AudioEncoderModel) model = load (h3_test_tiny_dir ());
  gint length = 43 * 800 + 7;
  g_autofree gfloat *x = audio_test_noise (1, length, 11);
  gsize n, m;
  g_autofree gfloat *whole = encode (model, x, length, 100, &n);
  static const gint chunks[] = { 43, 20, 13, 1 };

  for (guint i = 0; i < G_N_ELEMENTS (chunks); i++) {
    g_autofree gfloat *z = encode (model, x, length, chunks[i], &m);

    g_assert_cmpmem (z, m * sizeof *z, whole, n * sizeof *whole);
  }
}

/* The last hop is filled with silence. */
static void
test_lengths (void)
{
  g_autoptr (H3AudioEncoderModel) model = load_tiny (SPELLING_GV);
  static const gint lengths[] = { 1, 9, 10, 11 };

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++) {
    gint length = lengths[i], t = (length + 9) / 10;
    g_autofree gfloat *x = audio_test_noise (1, length, 3 + i);
    g_autofree gfloat *full = g_new0 (gfloat, 2 * t * 10);
    gsize n, m;
    g_autofree gfloat *a = encode (model, x, length, 4, &n);
    g_autofree gfloat *b = NULL;

    memcpy (full, x, length * sizeof *x);
    memcpy (full + t * 10, x + length, length * sizeof *x);
    b = encode (model, full, t * 10, 4, &m);
    g_assert_cmpuint (n, ==, 2 * 8 * t);
    g_assert_cmpmem (a, n * sizeof *a, b, m * sizeof *b);
  }
}

static gboolean
always (gpointer user_data)
{
  return TRUE;
}

static gboolean
after_some (gpointer user_data)
{
  return ++*(gint *) user_data > 4;
}

static void
assert_encode_fails (H3AudioEncoder *encoder, const gfloat *x, gsize n,
    const H3Stop *stop, H3Error code, const gchar *text)
{
  g_autoptr (GError) error = NULL;
  H3Tensor *latent;

  g_assert_false (
      h3_audio_encoder_encode (encoder, x, n, stop, NULL, &latent, &error));
  g_assert_null (latent);
  h3_test_assert_h3_error (error, code, text);
}

static void
test_refused (void)
{
  g_autoptr (H3AudioEncoderModel) model = load_tiny (SPELLING_GV);
  g_autoptr (H3Stream) stream = h3_stream_new (audio_test_device (), NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3AudioEncoder) encoder =
      h3_audio_encoder_new (model, stream, 4, &error);
  g_autofree gfloat *x = audio_test_noise (1, 100, 3);
  gint calls = 0;
  H3Stop now = { always }, later = { after_some, &calls };
  g_autoptr (H3Tensor) latent = NULL;

  g_assert_no_error (error);
  g_assert_null (h3_audio_encoder_new (model, stream, 0, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "a chunk of 0 latents");
  g_clear_error (&error);
  g_assert_null (h3_audio_encoder_new (model, stream, G_MAXINT, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "needed: 1 to");
  g_clear_error (&error);

  assert_encode_fails (encoder, x, 0, NULL, H3_ERROR_FORMAT, "0 samples");
  assert_encode_fails (encoder, x, 100, &now, H3_ERROR_CANCELLED, "");
  assert_encode_fails (encoder, x, 100, &later, H3_ERROR_CANCELLED, "");
  x[103] = NAN;
  assert_encode_fails (encoder, x, 100, NULL, H3_ERROR_NUMERIC,
      "right sample 3");
  x[103] = 0;
  g_assert_true (
      h3_audio_encoder_encode (encoder, x, 100, NULL, NULL, &latent, &error));
}

static void
assert_file_refused (const TinyModel *tiny, const gchar *config,
    const gchar *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (try_tiny (tiny, config, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, text);
}

/* config.json with @from replaced. */
static gchar *
changed_config (const gchar *from, const gchar *to)
{
  g_autofree gchar *config = tiny_model_config (TRUE);
  g_auto (GStrv) parts = g_strsplit (config, from, 2);

  g_assert_cmpuint (g_strv_length (parts), ==, 2);
  return g_strjoinv (to, parts);
}

static void
test_damaged (void)
{
  static const struct {
    const gchar *from, *to, *text;
  } configs[] = {
    { "\"encoder_rates\": [2, 5]", "\"encoder_rates\": [2, 4]",
        "encoder_rates make 8 samples a latent, decoder_rates 10" },
    { "\"encoder_rates\": [2, 5]", "\"encoder_rates\": []", "is empty" },
    { "\"encoder_rates\": [2, 5]", "\"encoder_rates\": [10, 1]",
        "encoder_rates" },
    { "\"encoder_dim\": 4", "\"encoder_dim\": 60000", "encoder_dim 60000" },
    { "\"encoder_dim\": 4", "\"encoder_dim\": 5", "encoder.block.0.weight" },
    { "\"num_attention_heads\": 2", "\"num_attention_heads\": 5",
        "a multiple of 5" },
    { "\"num_attention_heads\": 2", "\"num_attention_heads\": 0",
        "num_attention_heads" },
  };
  static const gchar *const missing[] = { "pre_block.attn.qkv.weight",
    "encoder.block.2.block.1.block.2.alpha", "pre_block.mlp.w1.bias",
    "mean_proj.weight", "encoder.block.4.bias" };

  for (guint i = 0; i < G_N_ELEMENTS (configs); i++) {
    g_autoptr (TinyModel) tiny = tiny_model_new (SPELLING_GV);
    g_autofree gchar *config = changed_config (configs[i].from, configs[i].to);

    assert_file_refused (tiny, config, configs[i].text);
  }
  for (guint i = 0; i < G_N_ELEMENTS (missing); i++) {
    g_autoptr (TinyModel) tiny = tiny_model_new (SPELLING_GV);

    tiny_model_remove (tiny, missing[i]);
    assert_file_refused (tiny, NULL, missing[i]);
  }
  {
    g_autoptr (TinyModel) tiny = tiny_model_new (SPELLING_GV);

    tiny_model_find (tiny, "encoder.block.3.alpha")->values[7] = -1e-9f;
    assert_file_refused (tiny, NULL, "encoder.block.3.alpha[7]");
  }
}

/* Only what an encoder needs is counted, and loaded. */
static void
test_plan (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (h3_test_tiny_dir (), H3_PARTITION_FL2VA, &error);
  H3AudioEncoderConfig config;
  guint64 bytes, small, large;

  g_assert_no_error (error);
  g_assert_true (h3_audio_encoder_plan (checkpoint, &config, &bytes, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (bytes, >, 100000);
  g_assert_cmpint (config.dim, ==, 4);
  g_assert_cmpint (config.heads, ==, 8);
  small = h3_audio_encoder_workspace (&config, audio_test_device (), 64, 0);
  large = h3_audio_encoder_workspace (&config, audio_test_device (), 64, 100);
  g_assert_cmpuint (small, ==,
      2 * 4 * (800 + 3 * 4 * 800) * (guint64) (64 + 24));
  g_assert_cmpuint (large - small, ==,
      2 * 4 * 100 *
          (5 * config.vae.latent_dim + 7 * (guint64) config.vae.channels));
}

void
audio_add_encoder_tests (void)
{
  g_test_add_func ("/audio/encoder/golden/module", test_module);
  g_test_add_func ("/audio/encoder/golden/conditions", test_conditions);
  g_test_add_func ("/audio/encoder/layouts", test_layouts);
  g_test_add_data_func ("/audio/encoder/table/weight-norm",
      GINT_TO_POINTER (SPELLING_GV), test_table);
  g_test_add_data_func ("/audio/encoder/table/parametrized",
      GINT_TO_POINTER (SPELLING_PARAMETRIZED), test_table);
  g_test_add_data_func ("/audio/encoder/table/folded",
      GINT_TO_POINTER (SPELLING_FOLDED), test_table);
  g_test_add_func ("/audio/encoder/chunks", test_chunks);
  g_test_add_func ("/audio/encoder/lengths", test_lengths);
  g_test_add_func ("/audio/encoder/refused", test_refused);
  g_test_add_func ("/audio/encoder/damaged", test_damaged);
  g_test_add_func ("/audio/encoder/plan", test_plan);
}
