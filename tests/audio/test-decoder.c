/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chunks, clips one after the other, stopping, and bad latents. */
#include <math.h>

#include "tests/audio/audio-test.h"

/* Same bytes, however the clip is cut (10.2). */
static void
check_chunks (H3AudioVae *vae, gint length, const gint *chunks, guint n)
{
  gint channels = h3_audio_vae_config (vae)->channels;
  g_autofree gfloat *z = audio_test_noise (channels, length, 11);
  g_autoptr (AudioClip) whole =
      audio_test_decode (vae, z, length, length, NULL);

  for (guint i = 0; i < n; i++) {
    g_autoptr (AudioClip) clip =
        audio_test_decode (vae, z, length, chunks[i], NULL);

    g_test_message ("chunk %d", chunks[i]);
    audio_test_assert_equal (whole, clip);
  }
}

static void
test_chunks_tiny (void)
{
  static const gint chunks[] = { 1, 5, 20, 64, 256 };
  g_autoptr (H3AudioVae) vae = audio_test_load_tiny (SPELLING_GV);

  check_chunks (vae, 100, chunks, G_N_ELEMENTS (chunks));
}

/* The release's rates, and with them its halo. */
static void
test_chunks_demo (void)
{
  static const gint chunks[] = { 20, 64 };
  g_autoptr (H3AudioVae) vae = audio_test_load (h3_test_demo_dir ());

  g_assert_cmpint (h3_audio_vae_config (vae)->halo, ==, 29);
  g_assert_cmpint (h3_audio_vae_config (vae)->hop, ==, 800);
  check_chunks (vae, 70, chunks, G_N_ELEMENTS (chunks));
}

/* The pieces of the smallest chunks, in a clip shorter than the halo. */
static void
test_chunks_demo_small (void)
{
  static const gint chunks[] = { 1, 5 };
  g_autoptr (H3AudioVae) vae = audio_test_load (h3_test_demo_dir ());

  check_chunks (vae, 8, chunks, G_N_ELEMENTS (chunks));
}

static void
test_threads (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Device) one = h3_test_device_new (1);
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (h3_test_demo_dir (), H3_PARTITION_FL2VA, &error);
  g_autoptr (H3AudioVae) alone =
      h3_audio_vae_load (checkpoint, one, NULL, NULL, NULL, &error);
  g_autoptr (H3AudioVae) shared = audio_test_load (h3_test_demo_dir ());
  g_autoptr (H3Stream) stream = h3_stream_new (one, &error);
  g_autoptr (H3AudioDecoder) decoder =
      h3_audio_decoder_new (alone, stream, 64, &error);
  const H3AudioVaeConfig *config = h3_audio_vae_config (alone);
  g_autofree gfloat *z = audio_test_noise (config->channels, 10, 5);
  g_autoptr (AudioClip) a = NULL;
  g_autoptr (AudioClip) b = NULL;

  g_assert_no_error (error);
  a = audio_test_decode_with (decoder, config, stream, z, 10, NULL);
  b = audio_test_decode (shared, z, 10, 64, NULL);
  audio_test_assert_equal (a, b);
}

static void
test_one_latent (void)
{
  g_autoptr (H3AudioVae) vae = audio_test_load (h3_test_demo_dir ());
  g_autofree gfloat *z =
      audio_test_noise (h3_audio_vae_config (vae)->channels, 1, 1);
  g_autoptr (AudioClip) a = audio_test_decode (vae, z, 1, 1, NULL);
  g_autoptr (AudioClip) b = audio_test_decode (vae, z, 1, 256, NULL);

  g_assert_cmpint (a->n, ==, 800);
  audio_test_assert_equal (a, b);
}

/* --- one decoder, several clips ----------------------------------------- */

typedef struct {
  H3AudioVae *vae;
  H3Stream *stream;
  H3AudioDecoder *decoder;
  const H3AudioVaeConfig *config;
} Fixture;

static void
setup (Fixture *fixture, gconstpointer chunk)
{
  g_autoptr (GError) error = NULL;

  fixture->vae = audio_test_load_tiny (SPELLING_GV);
  fixture->config = h3_audio_vae_config (fixture->vae);
  fixture->stream = h3_stream_new (audio_test_device (), &error);
  g_assert_no_error (error);
  fixture->decoder = h3_audio_decoder_new (fixture->vae, fixture->stream,
      GPOINTER_TO_INT (chunk), &error);
  g_assert_no_error (error);
}

static void
teardown (Fixture *fixture, gconstpointer chunk)
{
  h3_audio_decoder_free (fixture->decoder);
  h3_stream_free (fixture->stream);
  h3_audio_vae_unref (fixture->vae);
}

static AudioClip *
decode (Fixture *fixture, const gfloat *z, gint length)
{
  return audio_test_decode_with (fixture->decoder, fixture->config,
      fixture->stream, z, length, NULL);
}

static void
test_two_clips (Fixture *fixture, gconstpointer chunk)
{
  g_autofree gfloat *z1 = audio_test_noise (TINY_CHANNELS, 50, 1);
  g_autofree gfloat *z2 = audio_test_noise (TINY_CHANNELS, 7, 2);
  g_autoptr (AudioClip) alone =
      audio_test_decode (fixture->vae, z2, 7, 256, NULL);
  g_autoptr (AudioClip) first = decode (fixture, z1, 50);
  g_autoptr (AudioClip) second = decode (fixture, z2, 7);
  g_autoptr (AudioClip) again = decode (fixture, z1, 50);

  audio_test_assert_equal (second, alone);
  audio_test_assert_equal (first, again);
}

/* Before start, and after the end, there is nothing, as often as one asks. */
static void
test_end (Fixture *fixture, gconstpointer chunk)
{
  g_autofree gfloat *z = audio_test_noise (TINY_CHANNELS, 3, 1);
  g_autoptr (AudioClip) clip = NULL;
  g_autoptr (GError) error = NULL;
  H3Tensor *samples;
  gint first, n;

  g_assert_true (h3_audio_decoder_next (fixture->decoder, NULL, NULL, &samples,
      &first, &n, &error));
  g_assert_cmpint (n, ==, 0);
  clip = decode (fixture, z, 3);
  g_assert_true (h3_audio_decoder_next (fixture->decoder, NULL, NULL, &samples,
      &first, &n, &error));
  g_assert_cmpint (n, ==, 0);
  g_assert_null (samples);
}

/* --- stopping ----------------------------------------------------------- */

static gboolean
stop_after (gpointer user_data)
{
  gint *left = user_data;

  return (*left)-- <= 0;
}

/* Stopped anywhere, the next clip is as if nothing had been. */
static void
test_cancel (Fixture *fixture, gconstpointer chunk)
{
  g_autofree gfloat *z = audio_test_noise (TINY_CHANNELS, 60, 1);
  g_autoptr (H3Tensor) latent =
      audio_test_latent (audio_test_device (), z, TINY_CHANNELS, 60);
  g_autoptr (AudioClip) before = decode (fixture, z, 60);

  for (gint asked = 0; asked < 5; asked++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (AudioClip) after = NULL;
    gint left = asked, first, n = 1;
    H3Stop stop = { stop_after, &left };
    H3Tensor *samples;

    h3_audio_decoder_start (fixture->decoder, latent, &error);
    g_assert_no_error (error);
    g_assert_false (h3_audio_decoder_next (fixture->decoder, &stop, NULL,
        &samples, &first, &n, &error));
    h3_test_assert_h3_error (error, H3_ERROR_CANCELLED, "");
    g_assert_null (samples);
    after = decode (fixture, z, 60);
    audio_test_assert_equal (before, after);
  }
}

/* Stopped between two blocks of one stage: 5 questions in a chunk here (one
 * before it and one before each of 4 blocks). */
static void
test_stop_points (Fixture *fixture, gconstpointer chunk)
{
  g_autofree gfloat *z = audio_test_noise (TINY_CHANNELS, 3, 1);
  g_autoptr (H3Tensor) latent =
      audio_test_latent (audio_test_device (), z, TINY_CHANNELS, 3);
  g_autoptr (GError) error = NULL;
  gint left = 1000, first, n;
  H3Stop stop = { stop_after, &left };
  H3Tensor *samples;

  h3_audio_decoder_start (fixture->decoder, latent, &error);
  h3_audio_decoder_next (fixture->decoder, &stop, NULL, &samples, &first, &n,
      &error);
  g_assert_no_error (error);
  g_assert_cmpint (1000 - left, ==, 5);
}

static void
test_cancel_load (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (h3_test_demo_dir (), H3_PARTITION_FL2VA, &error);
  gint left = 20;
  H3Stop stop = { stop_after, &left };

  g_assert_no_error (error);
  g_assert_null (h3_audio_vae_load (checkpoint, audio_test_device (), &stop,
      NULL, NULL, &error));
  h3_test_assert_h3_error (error, H3_ERROR_CANCELLED, "");
}

/* --- bad input ---------------------------------------------------------- */

/* The message says where, and the decoder takes the next clip. */
static void
test_bad_latent (Fixture *fixture, gconstpointer chunk)
{
  static const gfloat values[] = { NAN, INFINITY, -INFINITY };

  for (guint i = 0; i < G_N_ELEMENTS (values); i++) {
    g_autofree gfloat *z = audio_test_noise (TINY_CHANNELS, 20, 1);
    gint where = (TINY_CHANNELS + 3) * 20 + 17;
    gfloat good = z[where];
    g_autoptr (H3Tensor) latent = NULL;
    g_autoptr (GError) error = NULL;
    g_autoptr (AudioClip) clip = NULL;

    z[where] = values[i];
    latent = audio_test_latent (audio_test_device (), z, TINY_CHANNELS, 20);
    g_assert_false (h3_audio_decoder_start (fixture->decoder, latent, &error));
    h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, "right", "channel 3",
        "latent 17");
    z[where] = good;
    clip = decode (fixture, z, 20);
  }
}

static void
refuse (Fixture *fixture, H3DType dtype, guint rank, const gint64 *shape,
    const gchar *found)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) latent =
      h3_tensor_new (audio_test_device (), dtype, rank, shape, &error);

  g_assert_no_error (error);
  g_assert_false (h3_audio_decoder_start (fixture->decoder, latent, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, found, "[2, 8, T]");
}

static void
test_bad_shape (Fixture *fixture, gconstpointer chunk)
{
  refuse (fixture, H3_DTYPE_F32, 3, (gint64[]){ 2, 7, 5 }, "[2, 7, 5]");
  refuse (fixture, H3_DTYPE_F32, 3, (gint64[]){ 1, 8, 5 }, "[1, 8, 5]");
  refuse (fixture, H3_DTYPE_F32, 2, (gint64[]){ 16, 5 }, "[16, 5]");
  refuse (fixture, H3_DTYPE_F16, 3, (gint64[]){ 2, 8, 5 }, "float16");
}

static void
test_bad_chunk (Fixture *fixture, gconstpointer chunk)
{
  static const gint chunks[] = { 0, -1, G_MININT, G_MAXINT };

  for (guint i = 0; i < G_N_ELEMENTS (chunks); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (h3_audio_decoder_new (fixture->vae, fixture->stream,
        chunks[i], &error));
    h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "chunk");
  }
}

/* Weights that blow up: the sample is named, before the clamp can hide an
 * infinity. */
static void
test_bad_sample (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *config_json = tiny_model_config (TRUE);
  g_autoptr (TinyModel) model = tiny_model_new (SPELLING_GV);
  TinyTensor *bias = tiny_model_find (model, "decoder.conv_pre.bias");
  g_autoptr (H3AudioVae) vae = NULL;
  g_autoptr (H3AudioDecoder) decoder = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Stream) stream = h3_stream_new (audio_test_device (), &error);
  g_autofree gfloat *z = tiny_latent ();
  g_autoptr (H3Tensor) latent =
      audio_test_latent (audio_test_device (), z, TINY_CHANNELS, TINY_LENGTH);
  H3Tensor *samples;
  gint first, n;

  for (gsize i = 0; i < bias->n; i++)
    bias->values[i] = 3e38;
  tiny_model_write (model, dir, config_json);
  vae = audio_test_load (dir);
  h3_test_remove_tree (dir);
  decoder = h3_audio_decoder_new (vae, stream, 256, &error);
  g_assert_no_error (error);
  g_assert_true (h3_audio_decoder_start (decoder, latent, &error));
  g_assert_false (h3_audio_decoder_next (decoder, NULL, NULL, &samples, &first,
      &n, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, "left sample 0");
}

/* What the decoder says it needs is what it takes. */
static void
test_workspace (void)
{
  g_autoptr (H3AudioVae) vae = audio_test_load_tiny (SPELLING_GV);
  const H3AudioVaeConfig *config = h3_audio_vae_config (vae);
  guint64 one = h3_audio_decoder_workspace (config, audio_test_device (), 1);
  guint64 many = h3_audio_decoder_workspace (config, audio_test_device (), 257);

  /* 8 latent values, 10 samples, and 5 buffers of 40 values (stage 0's 8
   * channels at 5 samples a latent), both sides, 4 bytes each */
  g_assert_cmpuint (many - one, ==, 256 * 2 * 4 * (8 + 10 + 5 * 40));
}

#define ADD(name, chunk, func)                                                 \
  g_test_add ("/audio/decoder/" name, Fixture, GINT_TO_POINTER (chunk), setup, \
      func, teardown)

void
audio_add_decoder_tests (void)
{
  g_test_add_func ("/audio/decoder/chunks/tiny", test_chunks_tiny);
  g_test_add_func ("/audio/decoder/chunks/demo", test_chunks_demo);
  g_test_add_func ("/audio/decoder/chunks/demo-small", test_chunks_demo_small);
  g_test_add_func ("/audio/decoder/threads", test_threads);
  g_test_add_func ("/audio/decoder/one-latent", test_one_latent);
  g_test_add_func ("/audio/decoder/bad-sample", test_bad_sample);
  g_test_add_func ("/audio/decoder/workspace", test_workspace);
  g_test_add_func ("/audio/decoder/cancel-load", test_cancel_load);
  ADD ("two-clips", 6, test_two_clips);
  ADD ("end", 6, test_end);
  ADD ("cancel", 6, test_cancel);
  ADD ("stop-points", 6, test_stop_points);
  ADD ("bad-latent", 6, test_bad_latent);
  ADD ("bad-shape", 6, test_bad_shape);
  ADD ("bad-chunk", 6, test_bad_chunk);
}
