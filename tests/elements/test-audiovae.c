/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3audiovae: golden samples, chunks, lengths, timeline, errors. */
#include <math.h>

#include "decoder-test.h"

#define T2VA "request_t2va.safetensors"       /* 22 frames, 37 latents */
#define T2VA_39 "request_t2va_39.safetensors" /* 39 frames, 65 latents */

#define RATE 32000
#define SAMPLE_BYTES 8

/* The first @frames latents of a golden clip, to be quick. */
static Latent *
latent_short (gint frames)
{
  Latent *latent = latent_audio (T2VA_39);
  const gint all = latent->info.frames, rows = 2 * latent->info.channels;

  g_assert_cmpint (frames, <=, all);
  for (gint i = 0; i < rows; i++)
    memmove (latent->data + i * frames, latent->data + i * all,
        frames * sizeof (gfloat));
  latent->info.frames = frames;
  latent->bytes = rows * frames * sizeof (gfloat);
  return latent;
}

static GBytes *
decode (Decoder *decoder, const Latent *latent)
{
  g_autoptr (GPtrArray) buffers = NULL;

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  buffers = decoder_pull_all (decoder);
  return buffers_bytes (buffers);
}

static GBytes *
decode_native (const Latent *latent)
{
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);

  return decode (decoder, latent);
}

static gsize
samples_of (GBytes *bytes)
{
  g_assert_cmpuint (g_bytes_get_size (bytes) % SAMPLE_BYTES, ==, 0);
  return g_bytes_get_size (bytes) / SAMPLE_BYTES;
}

/* A part of @bytes, in samples. */
static GBytes *
part (GBytes *bytes, gsize first, gsize n)
{
  return g_bytes_new_from_bytes (bytes, first * SAMPLE_BYTES, n * SAMPLE_BYTES);
}

static void
check_golden (const gchar *file, gsize samples)
{
  g_autoptr (Latent) latent = latent_audio (file);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);
  g_autoptr (GPtrArray) buffers = NULL;
  g_autoptr (GBytes) bytes = NULL;
  gsize n;
  g_autofree gfloat *planar = h3_test_golden (file, "audio", &n);
  g_autofree gfloat *want = g_new (gfloat, n);

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  buffers = decoder_pull_all (decoder);
  g_assert_cmpuint (buffers_check_timeline (buffers, 0, 0, RATE, SAMPLE_BYTES),
      ==, samples);
  bytes = buffers_bytes (buffers);
  g_assert_cmpuint (n, ==, 2 * samples);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, n * sizeof (gfloat));
  for (gsize i = 0; i < samples; i++) {
    want[2 * i] = planar[i];
    want[2 * i + 1] = planar[samples + i];
  }
  h3_test_assert_max_abs (g_bytes_get_data (bytes, NULL), want, n,
      H3_TEST_SAMPLES);
}

static void
test_golden (void)
{
  check_golden (T2VA, 29600);
  check_golden (T2VA_39, 52000);
}

static void
test_caps (void)
{
  g_autoptr (Latent) latent = latent_short (2);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);
  g_autoptr (GstCaps) got = NULL;
  g_autoptr (GstCaps) want = gst_caps_from_string (
      "audio/x-raw,format=F32LE,rate=32000,channels=2,layout=interleaved,"
      "channel-mask=(bitmask)0x3");

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  got = gst_pad_get_current_caps (decoder->harness->sinkpad);
  g_assert_true (gst_caps_is_equal (got, want));
}

/* The same bytes whatever the chunk, and a buffer a chunk. */
static void
test_chunks (void)
{
  static const gchar *const chunks[] = { "16", "17", "18" };
  static const guint n_buffers[] = { 2, 2, 1 };
  g_autoptr (Latent) latent = latent_short (18);
  g_autoptr (GBytes) want = decode_native (latent);

  for (guint i = 0; i < G_N_ELEMENTS (chunks); i++) {
    g_autoptr (Decoder) decoder =
        decoder_new ("h3audiovae", NULL, "chunk", chunks[i], NULL);
    g_autoptr (GPtrArray) buffers = NULL;
    g_autoptr (GBytes) got = NULL;

    g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
    buffers = decoder_pull_all (decoder);
    g_assert_cmpuint (buffers->len, ==, n_buffers[i]);
    buffers_check_timeline (buffers, 0, 0, RATE, SAMPLE_BYTES);
    got = buffers_bytes (buffers);
    g_assert_true (g_bytes_equal (got, want));
  }
}

static void
test_native_clips (void)
{
  g_autoptr (Latent) latent = latent_short (8);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);
  g_autoptr (GPtrArray) buffers = NULL;

  for (guint i = 0; i < 4; i++)
    g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  buffers = decoder_pull_all (decoder);
  g_assert_cmpuint (buffers_check_timeline (buffers, 0, 0, RATE, SAMPLE_BYTES),
      ==, 4 * 6400);
}

/* Clip k has round (4000 S_k+1 / 3) - round (4000 S_k / 3) samples: more than its
 * own 800 a latent, fewer, or as many. */
static void
test_video_length (void)
{
  static const struct {
    gint latents, frames;
    guint64 end;
  } clips[] = { { 3, 2, 2667 }, { 2, 1, 4000 }, { 5, 3, 8000 }, { 8, 5, 14667 },
    { 2, 1, 16000 }, { 2, 1, 17333 }, { 17, 10, 30667 } };
  g_autoptr (Decoder) decoder =
      decoder_new ("h3audiovae", NULL, "length", "video", "chunk", "16", NULL);
  guint64 unit = 0, frames = 0;

  for (guint i = 0; i < G_N_ELEMENTS (clips); i++) {
    g_autoptr (Latent) latent = latent_short (clips[i].latents);
    g_autoptr (GBytes) native = decode_native (latent);
    g_autoptr (GBytes) got = decode (decoder, latent);
    gsize common = MIN (samples_of (got), samples_of (native));
    const gfloat *samples = g_bytes_get_data (got, NULL);

    g_assert_cmpuint (samples_of (native), ==, 800 * clips[i].latents);
    frames += clips[i].frames;
    unit += samples_of (got);
    g_assert_cmpuint (unit, ==, clips[i].end);
    g_assert_cmpuint (unit, ==, (guint64) floor (4000.0 * frames / 3 + 0.5));
    g_assert_cmpmem (samples, common * SAMPLE_BYTES,
        g_bytes_get_data (native, NULL), common * SAMPLE_BYTES);
    for (gsize k = 2 * common; k < 2 * samples_of (got); k++)
      g_assert_cmpfloat (samples[k], ==, 0);
  }
}

/* A cut anywhere in the silence that length=video adds: 8 latents are 6400
 * samples, and their 5 frames 6667. */
static void
test_skip_in_padding (void)
{
  static const guint skips[] = { 6399, 6400, 6401, 6666, 6667 };
  gfloat data[2 * 8 * 8] = {
    0,
  };
  Latent latent = { .info = { .modality = GST_H3_MODALITY_AUDIO,
                        .channels = 8,
                        .audio_channels = 2,
                        .frames = 8 },
    .data = data,
    .bytes = sizeof data };

  for (guint i = 0; i < G_N_ELEMENTS (skips); i++) {
    g_autofree gchar *skip = g_strdup_printf ("%u", skips[i]);
    g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, "length",
        "video", "skip-samples", skip, NULL);
    g_autoptr (GBytes) got = decode (decoder, &latent);

    g_assert_cmpuint (samples_of (got), ==, 6667 - skips[i]);
  }
}

/* Off the front of the stream, not of every clip. */
static void
check_skip (const gchar *chunk, const gchar *skip_text, guint skip)
{
  g_autoptr (Latent) latent = latent_short (17);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, "chunk", chunk,
      "skip-samples", skip_text, NULL);
  g_autoptr (GBytes) native = decode_native (latent);
  g_autoptr (GPtrArray) buffers = NULL;
  g_autoptr (GBytes) got = NULL, first = NULL, second = NULL, rest = NULL;

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  buffers = decoder_pull_all (decoder);
  buffers_check_timeline (buffers, 0, 0, RATE, SAMPLE_BYTES);
  got = buffers_bytes (buffers);
  g_assert_cmpuint (samples_of (got), ==, 2 * 13600 - skip);
  first = part (got, 0, MAX (13600, skip) - skip);
  rest = part (native, MIN (skip, 13600), samples_of (first));
  g_assert_true (g_bytes_equal (first, rest));
  if (skip < 13600) {
    second = part (got, 13600 - skip, 13600);
    g_assert_true (g_bytes_equal (second, native));
  }
}

static void
test_skip (void)
{
  check_skip ("256", "1024", 1024);
  check_skip ("16", "12800", 12800); /* just the first chunk */
  check_skip ("16", "14000", 14000); /* more than a clip */
}

static void
test_flush (void)
{
  g_autoptr (Latent) latent = latent_short (17);
  g_autoptr (Decoder) decoder =
      decoder_new ("h3audiovae", NULL, "chunk", "16", NULL);
  g_autoptr (GBytes) want = decode_native (latent);

  decoder_check_flush (decoder, latent, 1, want);
  decoder_check_flush (decoder, latent, 2, want);
}

static void
test_device_memory (void)
{
  g_autoptr (Latent) latent = latent_short (8);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);
  g_autoptr (GBytes) want = decode_native (latent);
  g_autoptr (GPtrArray) buffers = NULL;
  g_autoptr (GBytes) got = NULL;

  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, TRUE));
  g_assert_cmpint (gst_harness_push (decoder->harness,
                       latent_device_buffer (latent)),
      ==, GST_FLOW_OK);
  buffers = decoder_pull_all (decoder);
  got = buffers_bytes (buffers);
  g_assert_true (g_bytes_equal (got, want));
}

static void
test_job (void)
{
  g_autoptr (Latent) latent = latent_short (17);
  g_autoptr (Decoder) decoder =
      decoder_new ("h3audiovae", NULL, "chunk", "16", NULL);
  g_autoptr (GstStructure) job =
      gst_structure_new ("job", "seed", G_TYPE_UINT64, (guint64) 7, NULL);
  g_autoptr (GPtrArray) buffers = NULL;
  GstBuffer *buffer = latent_buffer (latent);

  gst_h3_buffer_add_job (buffer, job);
  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, FALSE));
  g_assert_cmpint (gst_harness_push (decoder->harness, buffer), ==,
      GST_FLOW_OK);
  buffers = decoder_pull_all (decoder);
  g_assert_cmpuint (buffers->len, ==, 2);
  for (guint i = 0; i < buffers->len; i++)
    g_assert_nonnull (gst_h3_buffer_get_job (buffers->pdata[i]));
}

static void
test_properties (void)
{
  g_autoptr (GstElement) element =
      gst_element_factory_make ("h3audiovae", NULL);
  gint length, chunk;
  guint skip;

  gst_object_ref_sink (element);
  g_object_get (element, "length", &length, "skip-samples", &skip, "chunk",
      &chunk, NULL);
  g_assert_cmpint (length, ==, 0);
  g_assert_cmpuint (skip, ==, 0);
  g_assert_cmpint (chunk, ==, 256);
}

static void
test_cycles (void)
{
  decoder_check_cycles ("h3audiovae", 100);
}

static void
test_eos (void)
{
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);

  g_assert_true (
      gst_harness_push_event (decoder->harness, gst_event_new_eos ()));
  g_assert_cmpuint (decoder_count_messages (decoder,
                        GST_MESSAGE_ERROR | GST_MESSAGE_WARNING),
      ==, 0);
}

static void
test_unlinked (void)
{
  g_autoptr (Latent) latent = latent_short (2);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);
  GstPad *pad = gst_element_get_static_pad (decoder->element, "src");

  gst_pad_unlink (pad, decoder->harness->sinkpad);
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_NOT_LINKED);
  g_assert_cmpuint (decoder_count_messages (decoder, GST_MESSAGE_ERROR), ==, 0);
  gst_pad_link (pad, decoder->harness->sinkpad);
  gst_object_unref (pad);
}

static void
check_bad_caps (const gchar *sink_caps, const gchar *field, gint value,
    const gchar *text)
{
  g_autoptr (Latent) latent = latent_short (2);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", sink_caps, NULL);
  GstCaps *caps = latent_caps (latent, FALSE);

  if (field)
    gst_caps_set_simple (caps, field, G_TYPE_INT, value, NULL);
  gst_harness_set_src_caps (decoder->harness, caps);
  g_assert_cmpint (gst_harness_push (decoder->harness, latent_buffer (latent)),
      ==, GST_FLOW_NOT_NEGOTIATED);
  decoder_assert_error (decoder, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      text);
}

static void
test_bad_caps (void)
{
  check_bad_caps (NULL, "channels", 9, "channels=9");
  check_bad_caps (NULL, "audio-channels", 1, "audio-channels");
  check_bad_caps (NULL, "rate", 48000, "rate");
  check_bad_caps ("audio/x-raw,format=S16LE", NULL, 0, "S16LE");
}

static void
test_truncated (void)
{
  g_autoptr (Latent) latent = latent_short (2);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);
  g_autoptr (GBytes) want = decode_native (latent);
  g_autoptr (GBytes) got = NULL;

  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, FALSE));
  g_assert_cmpint (gst_harness_push (decoder->harness,
                       gst_buffer_new_memdup (latent->data, latent->bytes - 1)),
      ==, GST_FLOW_ERROR);
  decoder_assert_error (decoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "bytes");
  got = decode (decoder, latent);
  g_assert_true (g_bytes_equal (got, want));
}

static void
test_nan (void)
{
  g_autoptr (Latent) latent = latent_short (8);
  g_autoptr (Decoder) decoder = decoder_new ("h3audiovae", NULL, NULL);
  g_autoptr (GBytes) want = decode_native (latent);
  g_autoptr (GBytes) got = NULL;
  gfloat good = latent->data[100];

  latent->data[100] = NAN;
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_ERROR);
  decoder_assert_error (decoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, "");
  latent->data[100] = good;
  got = decode (decoder, latent);
  g_assert_true (g_bytes_equal (got, want));
}

static void
test_file (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "latent", NULL);
  g_autoptr (Latent) latent = latent_short (17);
  g_autoptr (GstCaps) fixed = latent_caps (latent, FALSE);
  g_autofree gchar *caps = gst_caps_to_string (fixed);
  g_autofree gchar *launch =
      g_strdup_printf ("filesrc location=%s blocksize=1000 ! %s ! h3audiovae "
                       "model-path=%s ! "
                       "fakesink name=sink sync=false",
          path, caps, h3_test_tiny_dir ());
  g_autoptr (GBytes) want = decode_native (latent);
  g_autoptr (GBytes) got = NULL;

  h3_test_write_file (path, latent->data, latent->bytes);
  got = pipeline_bytes (launch, NULL);
  g_assert_true (g_bytes_equal (got, want));
  h3_test_remove_tree (dir);
}

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  g_test_add_func ("/audiovae/golden", test_golden);
  g_test_add_func ("/audiovae/caps", test_caps);
  g_test_add_func ("/audiovae/chunks", test_chunks);
  g_test_add_func ("/audiovae/native-clips", test_native_clips);
  g_test_add_func ("/audiovae/video-length", test_video_length);
  g_test_add_func ("/audiovae/skip", test_skip);
  g_test_add_func ("/audiovae/skip-in-padding", test_skip_in_padding);
  g_test_add_func ("/audiovae/flush", test_flush);
  g_test_add_func ("/audiovae/device-memory", test_device_memory);
  g_test_add_func ("/audiovae/job", test_job);
  g_test_add_func ("/audiovae/properties", test_properties);
  g_test_add_func ("/audiovae/cycles", test_cycles);
  g_test_add_func ("/audiovae/eos", test_eos);
  g_test_add_func ("/audiovae/unlinked", test_unlinked);
  g_test_add_func ("/audiovae/bad-caps", test_bad_caps);
  g_test_add_func ("/audiovae/truncated", test_truncated);
  g_test_add_func ("/audiovae/nan", test_nan);
  g_test_add_func ("/audiovae/file", test_file);
  return g_test_run ();
}
