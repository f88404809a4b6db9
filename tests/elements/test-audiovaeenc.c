/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3audiovaeenc: sounds in every format and length, and none. */
#include <math.h>

#include "encoder-test.h"

#define FACTORY "h3audiovaeenc"
#define CAPS                                                                   \
  "audio/x-raw, format=F32LE, layout=interleaved, rate=%d, channels=%d"
#define REQUEST "request_ref2va_mixed.safetensors"
#define CHANNELS 8 /* of the tiny latent */

static void
start (Decoder *encoder, gint rate, gint channels)
{
  g_autofree gchar *caps = g_strdup_printf (CAPS, rate, channels);

  encoder_start (encoder, caps);
}

/* A golden sound, interleaved. */
static gfloat *
golden_sound (const gchar *tensor, gsize *n)
{
  gsize total;
  g_autofree gfloat *planes =
      h3_test_golden ("media.safetensors", tensor, &total);
  gfloat *sound = g_new (gfloat, total);

  *n = total / 2;
  for (gsize i = 0; i < *n; i++)
    for (gsize side = 0; side < 2; side++)
      sound[2 * i + side] = planes[side * *n + i];
  return sound;
}

/* A golden latent, in the element's order: [2, C, T] of [2 T, C]. */
static gfloat *
golden_latent (const gchar *tensor, gint *t, gsize *n)
{
  g_autofree gfloat *rows = h3_test_golden (REQUEST, tensor, n);
  gfloat *latent = g_new (gfloat, *n);

  *t = *n / (2 * CHANNELS);
  for (gint row = 0; row < 2 * *t; row++)
    for (gint k = 0; k < CHANNELS; k++)
      latent[(row / *t * CHANNELS + k) * *t + row % *t] =
          rows[row * CHANNELS + k];
  return latent;
}

/* In buffers of @cut samples. */
static GstFlowReturn
push (Decoder *encoder, const gfloat *sound, gsize n, gint channels, gsize cut)
{
  GstFlowReturn ret = GST_FLOW_OK;

  for (gsize at = 0; at < n && ret == GST_FLOW_OK; at += cut)
    ret = gst_harness_push (encoder->harness,
        gst_buffer_new_memdup (sound + at * channels,
            MIN (cut, n - at) * channels * sizeof (gfloat)));
  return ret;
}

static gfloat *
make_tone (gsize n, gint channels)
{
  gfloat *sound = g_new (gfloat, n * channels);

  for (gsize i = 0; i < n * channels; i++)
    sound[i] = 0.5f * (gfloat) sin (0.03 * (gdouble) i);
  return sound;
}

static void
test_golden (void)
{
  static const gchar *const names[][2] = {
    { "audio", "audio_condition_latents_0" },
    { "video_audio", "audio_condition_latents_1" },
  };
  static const gsize cuts[] = { 1024, 777 };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autoptr (Decoder) encoder =
        decoder_new (FACTORY, NULL, "frames", "56", NULL);
    gsize n, n_want;
    gint t;
    g_autofree gfloat *sound = golden_sound (names[i][0], &n);
    g_autofree gfloat *want = golden_latent (names[i][1], &t, &n_want);

    start (encoder, 32000, 2);
    g_assert_cmpint (push (encoder, sound, n, 2, cuts[i]), ==, GST_FLOW_OK);
    g_assert_null (gst_harness_try_pull (encoder->harness));
    encoder_eos (encoder);
    encoder_check_latent (encoder, want, n_want, t, "reference");
  }
}

/* What comes out of @n samples, with properties. */
static GBytes *
encode (const gfloat *sound, gsize n, gint channels, gint rate,
    const gchar *property, const gchar *value)
{
  g_autoptr (Decoder) encoder =
      decoder_new (FACTORY, NULL, property, value, NULL);

  start (encoder, rate, channels);
  g_assert_cmpint (push (encoder, sound, n, channels, 4096), ==, GST_FLOW_OK);
  encoder_eos (encoder);
  return encoder_pull_bytes (encoder);
}

static gsize
latents_of (GBytes *latent)
{
  return g_bytes_get_size (latent) / (2 * CHANNELS * sizeof (gfloat));
}

static void
test_chunk (void)
{
  gsize n;
  g_autofree gfloat *sound = golden_sound ("audio", &n);
  g_autoptr (GBytes) whole = encode (sound, n, 2, 32000, "chunk", "64");
  g_autoptr (GBytes) chunks = encode (sound, n, 2, 32000, "chunk", "3");

  g_assert_true (g_bytes_equal (whole, chunks));
}

/* 22 frames at 24 a second, before the rate is changed. */
static void
test_frames (void)
{
  g_autofree gfloat *sound = make_tone (60000, 2);
  g_autoptr (GBytes) cut = encode (sound, 60000, 2, 32000, "frames", "20");
  g_autoptr (GBytes) same = encode (sound, 29333, 2, 32000, "frames", "0");
  g_autoptr (GBytes) slow = encode (sound, 60000, 2, 8000, "frames", "22");
  g_autoptr (GBytes) slow_same = encode (sound, 7333, 2, 8000, "frames", "0");
  g_autoptr (GBytes) enough = encode (sound, 20000, 2, 32000, "frames", "22");

  g_assert_cmpuint (latents_of (cut), ==, 37);
  g_assert_true (g_bytes_equal (cut, same));
  g_assert_true (g_bytes_equal (slow, slow_same));
  g_assert_cmpuint (latents_of (enough), ==, 25);
}

static void
test_mono (void)
{
  g_autofree gfloat *mono = make_tone (10000, 1);
  g_autofree gfloat *stereo = g_new (gfloat, 20000);
  g_autoptr (GBytes) a = encode (mono, 10000, 1, 44100, "frames", "0");
  g_autoptr (GBytes) b = NULL;

  for (gsize i = 0; i < 20000; i++)
    stereo[i] = mono[i / 2];
  b = encode (stereo, 10000, 2, 44100, "frames", "0");
  g_assert_cmpuint (latents_of (a), ==, 10);
  g_assert_true (g_bytes_equal (a, b));
}

static void
test_rates (void)
{
  static const gint rates[] = { 1000, 8000, 192000, 384000 };

  for (guint i = 0; i < G_N_ELEMENTS (rates); i++) {
    g_autofree gfloat *sound = make_tone (rates[i], 1);
    g_autoptr (GBytes) latent =
        encode (sound, rates[i], 1, rates[i], "frames", "0");

    g_assert_cmpuint (latents_of (latent), ==, 40);
  }
}

/* @sound is refused, as it comes or at its end. */
static void
check_refused (const gfloat *sound, gsize n, gint rate, GQuark domain,
    gint code, const gchar *says)
{
  g_autoptr (Decoder) encoder = decoder_new (FACTORY, NULL, NULL);
  gsize good;
  g_autofree gfloat *other = golden_sound ("audio", &good);

  start (encoder, rate, 1);
  push (encoder, sound, n, 1, 100000);
  encoder_eos (encoder);
  decoder_assert_error (encoder, domain, code, says);
  g_assert_cmpint (push (encoder, sound, 1, 1, 1), !=, GST_FLOW_OK);

  /* a flush begins anew, and a failure again is told again */
  encoder_flush (encoder);
  push (encoder, sound, n, 1, 100000);
  encoder_eos (encoder);
  decoder_assert_error (encoder, domain, code, says);
  encoder_flush (encoder);
  g_assert_cmpint (push (encoder, other, good / 2, 1, 5000), ==, GST_FLOW_OK);
  encoder_eos (encoder);
  gst_buffer_unref (encoder_pull (encoder));
}

static void
test_too_long (void)
{
  g_autofree gfloat *sound = make_tone (121600, 1);
  g_autoptr (GBytes) most = encode (sound, 120800, 1, 8000, "frames", "0");
  g_autoptr (GBytes) cut = encode (sound, 121600, 1, 8000, "frames", "124");

  g_assert_cmpuint (latents_of (most), ==, 604);
  g_assert_cmpuint (latents_of (cut), ==, 207);
  check_refused (sound, 121600, 8000, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "has 15.2 s or more, at most 15.1 s");
}

static void
test_not_a_number (void)
{
  g_autofree gfloat *sound = make_tone (4000, 1);

  sound[1234] = NAN;
  check_refused (sound, 4000, 32000, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
      "left sample 1234 of a reference sound is nan");
  sound[1234] = -INFINITY;
  check_refused (sound, 4000, 16000, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
      "of a reference sound is");
}

static void
test_short_buffer (void)
{
  g_autoptr (Decoder) encoder = decoder_new (FACTORY, NULL, NULL);

  start (encoder, 32000, 2);
  g_assert_cmpint (gst_harness_push (encoder->harness,
                       gst_buffer_new_allocate (NULL, 12, NULL)),
      ==, GST_FLOW_ERROR);
  decoder_assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "12 bytes; a multiple of 8");
}

static void
test_nothing (void)
{
  g_autoptr (Decoder) none = decoder_new (FACTORY, NULL, NULL);
  g_autoptr (Decoder) empty = decoder_new (FACTORY, NULL, NULL);
  g_autoptr (GstEvent) eos = NULL;

  start (none, 32000, 2);
  encoder_eos (none);
  g_assert_cmpuint (gst_harness_buffers_received (none->harness), ==, 0);
  g_assert_cmpuint (decoder_count_messages (none, GST_MESSAGE_ERROR), ==, 0);
  eos = gst_pad_get_sticky_event (none->harness->sinkpad, GST_EVENT_EOS, 0);
  g_assert_nonnull (eos);

  start (empty, 32000, 2);
  gst_harness_push (empty->harness, gst_buffer_new ());
  encoder_eos (empty);
  decoder_assert_error (empty, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "a reference sound of 0 samples");
}

static void
test_caps (void)
{
  static const gchar *const wrong[] = {
    "audio/x-raw, format=S16LE, layout=interleaved, rate=32000, channels=2",
    "audio/x-raw, format=F32LE, layout=interleaved, rate=32000, channels=6, "
    "channel-mask=(bitmask)0x3f",
    "audio/x-raw, format=F32LE, layout=non-interleaved, rate=32000, channels=2",
    "audio/x-raw, format=F32LE, layout=interleaved, rate=999, channels=2",
  };
  g_autoptr (Decoder) changing = decoder_new (FACTORY, NULL, NULL);
  g_autoptr (Decoder) role =
      decoder_new (FACTORY, NULL, "role", "last-frame", NULL);
  g_autofree gfloat *sound = make_tone (1000, 2);

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
    g_autoptr (Decoder) encoder = decoder_new (FACTORY, NULL, NULL);

    encoder_start (encoder, wrong[i]);
    g_assert_cmpint (gst_harness_push (encoder->harness,
                         gst_buffer_new_allocate (NULL, 24, NULL)),
        ==, GST_FLOW_NOT_NEGOTIATED);
  }
  start (changing, 32000, 2);
  push (changing, sound, 1000, 2, 100);
  start (changing, 32000, 2); /* the same again */
  push (changing, sound, 1000, 2, 100);
  start (changing, 44100, 2);
  decoder_assert_error (changing, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "from 2 channels at 32000 Hz to 2 at 44100 Hz");
  start (role, 32000, 2);
  decoder_assert_error (role, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
      "role=reference");
}

static void
test_flush (void)
{
  g_autoptr (Decoder) encoder = decoder_new (FACTORY, NULL, NULL);
  g_autofree gfloat *noise = make_tone (5000, 2);
  gsize n, n_want;
  gint t;
  g_autofree gfloat *sound = golden_sound ("audio", &n);
  g_autofree gfloat *want =
      golden_latent ("audio_condition_latents_0", &t, &n_want);

  start (encoder, 32000, 2);
  push (encoder, noise, 5000, 2, 1000);
  for (guint i = 0; i < 2; i++) {
    encoder_flush (encoder);
    push (encoder, sound, n, 2, 5000);
    encoder_eos (encoder);
    encoder_check_latent (encoder, want, n_want, t, "reference");
  }
}

/* A minute of sound, latent by latent, takes a while. */
static void
test_cancel (void)
{
  g_autofree gfloat *sound = make_tone (60000, 1);

  for (gint ready = 0; ready < 2; ready++) {
    g_autoptr (Decoder) encoder =
        decoder_new (FACTORY, NULL, "frames", "1440", "chunk", "1", NULL);

    start (encoder, 1000, 1);
    push (encoder, sound, 60000, 1, 60000);
    encoder_check_cancel (encoder, ready);
  }
}

static void
test_cycles (void)
{
  g_autoptr (Decoder) encoder = decoder_new (FACTORY, NULL, NULL);
  g_autofree gfloat *sound = make_tone (3000, 2);
  g_autoptr (GBytes) first = NULL;

  for (guint i = 0; i < 3; i++) {
    g_autoptr (GBytes) latent = NULL;

    start (encoder, 32000, 2);
    push (encoder, sound, 3000, 2, 1000);
    encoder_eos (encoder);
    latent = encoder_pull_bytes (encoder);
    if (!first)
      first = g_bytes_ref (latent);
    g_assert_true (g_bytes_equal (first, latent));
    gst_element_set_state (encoder->element,
        i == 0 ? GST_STATE_READY : GST_STATE_NULL);
    gst_harness_push_event (encoder->harness, gst_event_new_stream_start ("x"));
  }
  decoder_check_cycles (FACTORY, 20);
}

/* Nobody takes the latent, or only another one: said, as EOS cannot. */
static void
test_output (void)
{
  g_autoptr (Decoder) encoder = decoder_new (FACTORY, NULL, NULL);
  g_autoptr (Decoder) other = decoder_new (FACTORY,
      "application/x-h3-latent, modality=audio, channels=9", NULL);
  g_autofree gfloat *sound = make_tone (1000, 2);
  g_autoptr (GstPad) pad = gst_element_get_static_pad (encoder->element, "src");

  gst_pad_unlink (pad, encoder->harness->sinkpad);
  start (encoder, 32000, 2);
  push (encoder, sound, 1000, 2, 1000);
  encoder_eos (encoder);
  decoder_assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
      "not-linked");

  start (other, 32000, 2);
  push (other, sound, 1000, 2, 1000);
  encoder_eos (other);
  decoder_assert_error (other, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      "channels");
}

static void
test_budget (void)
{
  g_autoptr (Decoder) encoder = decoder_new (FACTORY, NULL, NULL);
  g_autofree gfloat *sound = make_tone (32000, 2);

  encoder_limit_memory (encoder, 1000);
  start (encoder, 32000, 2);
  push (encoder, sound, 32000, 2, 32000);
  encoder_eos (encoder);
  decoder_assert_error (encoder, GST_RESOURCE_ERROR,
      GST_RESOURCE_ERROR_NO_SPACE_LEFT, "memory-budget allows");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  if (h3_test_skip_program ())
    return 0;
  g_test_add_func ("/audiovaeenc/golden", test_golden);
  g_test_add_func ("/audiovaeenc/chunk", test_chunk);
  g_test_add_func ("/audiovaeenc/frames", test_frames);
  g_test_add_func ("/audiovaeenc/mono", test_mono);
  g_test_add_func ("/audiovaeenc/rates", test_rates);
  g_test_add_func ("/audiovaeenc/too-long", test_too_long);
  g_test_add_func ("/audiovaeenc/not-a-number", test_not_a_number);
  g_test_add_func ("/audiovaeenc/short-buffer", test_short_buffer);
  g_test_add_func ("/audiovaeenc/nothing", test_nothing);
  g_test_add_func ("/audiovaeenc/caps", test_caps);
  g_test_add_func ("/audiovaeenc/flush", test_flush);
  g_test_add_func ("/audiovaeenc/cancel", test_cancel);
  g_test_add_func ("/audiovaeenc/cycles", test_cycles);
  g_test_add_func ("/audiovaeenc/output", test_output);
  g_test_add_func ("/audiovaeenc/budget", test_budget);
  return g_test_run ();
}
