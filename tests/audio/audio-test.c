/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/audio/audio-test.h"

H3Device *
audio_test_device (void)
{
  static H3Device *device;

  if (!device)
    device = h3_test_device_new (0);
  return device;
}

H3AudioVae *
audio_test_try_load (const gchar *path, GError **error)
{
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, error);

  if (!checkpoint)
    return NULL;
  return h3_audio_vae_load (checkpoint, audio_test_device (), NULL, NULL, NULL,
      error);
}

H3AudioVae *
audio_test_load (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  H3AudioVae *vae = audio_test_try_load (path, &error);

  g_assert_no_error (error);
  g_assert_nonnull (vae);
  return vae;
}

H3AudioVae *
audio_test_load_tiny (Spelling spelling)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *config = tiny_model_config (spelling != SPELLING_FOLDED);
  g_autoptr (TinyModel) model = tiny_model_new (spelling);
  H3AudioVae *vae;

  tiny_model_write (model, dir, config);
  vae = audio_test_load (dir);
  h3_test_remove_tree (dir);
  return vae;
}

void
audio_clip_free (AudioClip *clip)
{
  g_free (clip->samples);
  g_free (clip);
}

H3Tensor *
audio_test_latent (H3Device *device, const gfloat *values, gint channels,
    gint length)
{
  const gint64 shape[3] = { 2, channels, length };
  g_autoptr (GError) error = NULL;
  H3Tensor *latent =
      h3_tensor_new_from_host (device, H3_DTYPE_F32, 3, shape, values, &error);

  g_assert_no_error (error);
  return latent;
}

AudioClip *
audio_test_decode_with (H3AudioDecoder *decoder, const H3AudioVaeConfig *config,
    H3Stream *stream, const gfloat *values, gint length, const H3Tap *tap)
{
  g_autoptr (H3Tensor) latent =
      audio_test_latent (stream->device, values, config->channels, length);
  g_autoptr (GError) error = NULL;
  AudioClip *clip = g_new0 (AudioClip, 1);
  H3Tensor *samples;
  gint first, n;

  clip->samples = g_new (gfloat, 2 * length * config->hop);
  h3_audio_decoder_start (decoder, latent, &error);
  g_assert_no_error (error);
  for (;;) {
    h3_audio_decoder_next (decoder, NULL, tap, &samples, &first, &n, &error);
    g_assert_no_error (error);
    if (n == 0)
      break;
    g_assert_cmpint (first, ==, clip->n);
    g_assert_cmpint (clip->n + n, <=, length * config->hop);
    g_assert_cmpint (samples->shape[0], ==, n);
    g_assert_cmpint (samples->shape[1], ==, 2);
    h3_download (stream, clip->samples + 2 * first, samples);
    h3_stream_synchronize (stream, &error);
    g_assert_no_error (error);
    clip->n += n;
  }
  g_assert_cmpint (clip->n, ==, length * config->hop);
  return clip;
}

AudioClip *
audio_test_decode (H3AudioVae *vae, const gfloat *values, gint length,
    gint chunk, const H3Tap *tap)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Stream) stream = h3_stream_new (audio_test_device (), &error);
  g_autoptr (H3AudioDecoder) decoder = NULL;

  g_assert_no_error (error);
  decoder = h3_audio_decoder_new (vae, stream, chunk, &error);
  g_assert_no_error (error);
  return audio_test_decode_with (decoder, h3_audio_vae_config (vae), stream,
      values, length, tap);
}

void
audio_test_assert_equal (const AudioClip *a, const AudioClip *b)
{
  g_assert_cmpint (a->n, ==, b->n);
  g_assert_cmpmem (a->samples, 2 * a->n * sizeof (gfloat), b->samples,
      2 * b->n * sizeof (gfloat));
}

gfloat *
audio_clip_planar (const AudioClip *clip)
{
  gfloat *planar = g_new (gfloat, 2 * clip->n);

  for (gint i = 0; i < clip->n; i++) {
    planar[i] = clip->samples[2 * i];
    planar[clip->n + i] = clip->samples[2 * i + 1];
  }
  return planar;
}

gfloat *
audio_test_noise (gint channels, gint length, guint32 seed)
{
  gint n = 2 * channels * length;
  gfloat *values = g_new (gfloat, n);
  GRand *rand = g_rand_new_with_seed (seed);

  for (gint i = 0; i < n; i++)
    values[i] = g_rand_double_range (rand, -1.7, 1.7);
  g_rand_free (rand);
  return values;
}

int
main (int argc, char **argv)
{
  gint status;

  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  audio_add_golden_tests ();
  audio_add_tiny_tests ();
  audio_add_decoder_tests ();
  audio_add_config_tests ();
  audio_add_encoder_tests ();
  audio_add_resample_tests ();
  status = g_test_run ();
  h3_device_unref (audio_test_device ());
  return status;
}
