/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3videovaeenc: keyframes, reference pictures and clips, and none. */
#include "encoder-test.h"
#include "media.h"

#define FACTORY "h3videovaeenc"

static Decoder *
encoder_new (const gchar *role, const gchar *property, const gchar *value)
{
  return decoder_new (FACTORY, NULL, "role", role, "canvas-edge", "64",
      "reference-edge", "64", property, value, NULL);
}

/* A keyframe of the golden clip. */
static Decoder *
keyframe_new (const gchar *role, const gchar *fit)
{
  Decoder *encoder = encoder_new (role, "fit", fit);

  g_object_set (encoder->element, "width", 96, "height", 64, NULL);
  return encoder;
}

static void
start (Decoder *encoder, const Media *media, const gchar *framerate)
{
  g_autofree gchar *caps = media_caps (media, framerate);

  encoder_start (encoder, caps);
}

static GstFlowReturn
push (Decoder *encoder, const Media *media, guint n)
{
  GstFlowReturn ret = GST_FLOW_OK;

  for (guint i = 0; i < n && ret == GST_FLOW_OK; i++)
    ret = gst_harness_push (encoder->harness, media_buffer (media, i));
  return ret;
}

static void
check_golden (Decoder *encoder, const gchar *request, const gchar *tensor,
    gint frames, const gchar *role)
{
  g_autofree gchar *file = g_strdup_printf ("request_%s.safetensors", request);
  gsize n;
  g_autofree gfloat *want = h3_test_golden (file, tensor, &n);

  encoder_check_latent (encoder, want, n, frames, role);
}

/* A keyframe's latent goes at once, and no second picture is wanted. */
static void
test_keyframes (void)
{
  static const struct {
    const gchar *picture, *role, *fit, *request, *tensor;
  } cases[] = {
    { "first", "first-frame", "stretch", "fl2va_first", "condition_latents_0" },
    { "last", "last-frame", "stretch", "fl2va_last", "condition_latents_0" },
    { "first", "first-frame", "stretch", "fl2va_both", "condition_latents_0" },
    { "last", "last-frame", "cover", "fl2va_both", "condition_latents_1" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (Media) picture = media_picture (cases[i].picture);
    g_autoptr (Decoder) encoder = keyframe_new (cases[i].role, cases[i].fit);

    start (encoder, picture, "0/1");
    g_assert_cmpint (push (encoder, picture, 1), ==, GST_FLOW_OK);
    check_golden (encoder, cases[i].request, cases[i].tensor, 1, cases[i].role);
    g_assert_cmpint (push (encoder, picture, 1), ==, GST_FLOW_EOS);
    encoder_eos (encoder);
    g_assert_null (gst_harness_try_pull (encoder->harness));
  }
}

/* Without a size it has the picture's own. */
static void
test_follow (void)
{
  g_autoptr (Media) picture = media_pattern (120, 80, 1);
  g_autoptr (Decoder) encoder = encoder_new ("first-frame", "width", "0");
  g_autoptr (GstCaps) caps = NULL;
  GstH3LatentInfo info;

  start (encoder, picture, "0/1");
  push (encoder, picture, 1);
  gst_buffer_unref (encoder_pull (encoder));
  caps = gst_pad_get_current_caps (encoder->harness->sinkpad);
  g_assert_true (gst_h3_latent_info_from_caps (&info, caps, NULL));
  g_assert_cmpint (info.width, ==, 6);
  g_assert_cmpint (info.height, ==, 4);
}

static void
test_references (void)
{
  g_autoptr (Media) image = media_picture ("image");
  g_autoptr (Media) clip = media_clip ();
  g_autoptr (Decoder) picture = encoder_new ("reference", "frames", "56");
  g_autoptr (Decoder) video = encoder_new ("reference", "frames", "56");

  start (picture, image, "24/1");
  g_assert_cmpint (push (picture, image, 1), ==, GST_FLOW_OK);
  g_assert_null (gst_harness_try_pull (picture->harness));
  encoder_eos (picture);
  check_golden (picture, "ref2va_image", "condition_latents_0", 1, "reference");

  start (video, clip, "24/1");
  g_assert_cmpint (push (video, clip, clip->n), ==, GST_FLOW_OK);
  encoder_eos (video);
  check_golden (video, "ref2va_mixed", "condition_latents_0", 7, "reference");
}

/* --- how frames come --- */

static GBytes *
encode (const Media *clip, guint n, const gchar *framerate, GstClockTime step,
    const gchar *property, const gchar *value)
{
  g_autoptr (Decoder) encoder = encoder_new ("reference", property, value);

  start (encoder, clip, framerate);
  for (guint i = 0; i < n; i++) {
    GstBuffer *buffer = media_buffer (clip, i % clip->n);

    if (step > 0)
      GST_BUFFER_PTS (buffer) = GST_SECOND + i * step;
    g_assert_cmpint (gst_harness_push (encoder->harness, buffer), ==,
        GST_FLOW_OK);
  }
  encoder_eos (encoder);
  return encoder_pull_bytes (encoder);
}

static gsize
latents_of (GBytes *latent)
{
  return g_bytes_get_size (latent) / (4 * 4 * 6 * sizeof (gfloat));
}

static void
test_rate (void)
{
  g_autoptr (Media) clip = media_clip ();
  g_autoptr (GBytes) number = encode (clip, 30, "24/1", 0, "frames", "0");
  g_autoptr (GBytes) time =
      encode (clip, 30, "0/1", GST_SECOND / 24, "frames", "0");
  g_autoptr (GBytes) half = encode (clip, 12, "12/1", 0, "frames", "0");
  g_autoptr (GBytes) slow =
      encode (clip, 12, "0/1", GST_SECOND / 12, "frames", "0");

  g_assert_cmpuint (latents_of (number), ==, 7);
  g_assert_true (g_bytes_equal (number, time));
  g_assert_cmpuint (latents_of (half), ==, 7);
  g_assert_true (g_bytes_equal (half, slow));
  g_assert_false (g_bytes_equal (number, half));
}

static void
test_frames (void)
{
  g_autoptr (Media) clip = media_clip ();
  g_autoptr (GBytes) cut = encode (clip, 30, "24/1", 0, "frames", "5");
  g_autoptr (GBytes) five = encode (clip, 5, "24/1", 0, "frames", "0");
  g_autoptr (GBytes) up = encode (clip, 60, "24/1", 0, "frames", "23");
  g_autoptr (GBytes) same = encode (clip, 39, "24/1", 0, "frames", "0");

  g_assert_cmpuint (latents_of (cut), ==, 2);
  g_assert_true (g_bytes_equal (cut, five));
  g_assert_cmpuint (latents_of (up), ==, 12);
  g_assert_true (g_bytes_equal (up, same));
}

/* The mean is another latent than the sample; covering than stretching. */
static void
test_settings (void)
{
  g_autoptr (Media) picture = media_pattern (150, 64, 1);
  g_autoptr (GBytes) sample =
      encode (picture, 1, "24/1", 0, "condition-encode", "sample");
  g_autoptr (GBytes) mean =
      encode (picture, 1, "24/1", 0, "condition-encode", "mean");
  GBytes *fitted[2];

  g_assert_cmpuint (g_bytes_get_size (sample), ==, g_bytes_get_size (mean));
  g_assert_false (g_bytes_equal (sample, mean));
  for (guint i = 0; i < 2; i++) {
    g_autoptr (Decoder) encoder =
        keyframe_new ("last-frame", i ? "cover" : "stretch");

    start (encoder, picture, "0/1");
    push (encoder, picture, 1);
    fitted[i] = encoder_pull_bytes (encoder);
  }
  g_assert_cmpuint (g_bytes_get_size (fitted[0]), ==,
      g_bytes_get_size (fitted[1]));
  g_assert_false (g_bytes_equal (fitted[0], fitted[1]));
  g_bytes_unref (fitted[0]);
  g_bytes_unref (fitted[1]);
}

/* --- flushes and states --- */

static void
test_flush (void)
{
  g_autoptr (Media) other = media_pattern (64, 96, 25);
  g_autoptr (Media) clip = media_clip ();
  g_autoptr (Decoder) encoder = encoder_new ("reference", "frames", "56");
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Decoder) keyframe = keyframe_new ("first-frame", "stretch");

  /* in the middle of a clip of another size, and again after the end */
  start (encoder, other, "24/1");
  g_assert_cmpint (push (encoder, other, other->n), ==, GST_FLOW_OK);
  for (guint i = 0; i < 2; i++) {
    encoder_flush (encoder);
    start (encoder, clip, "24/1");
    g_assert_cmpint (push (encoder, clip, clip->n), ==, GST_FLOW_OK);
    encoder_eos (encoder);
    check_golden (encoder, "ref2va_mixed", "condition_latents_0", 7,
        "reference");
  }
  start (keyframe, first, "0/1");
  for (guint i = 0; i < 2; i++) {
    g_assert_cmpint (push (keyframe, first, 1), ==, GST_FLOW_OK);
    check_golden (keyframe, "fl2va_first", "condition_latents_0", 1,
        "first-frame");
    encoder_flush (keyframe);
  }
}

/* Another stream on the same pad has another latent. */
static void
test_next_stream (void)
{
  g_autoptr (Media) other = media_pattern (96, 64, 6);
  g_autoptr (Media) clip = media_clip ();
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Decoder) encoder = encoder_new ("reference", "frames", "56");
  g_autoptr (Decoder) keyframe = keyframe_new ("first-frame", "stretch");
  GstSegment segment;

  gst_segment_init (&segment, GST_FORMAT_TIME);
  start (encoder, other, "24/1");
  g_assert_cmpint (push (encoder, other, other->n), ==, GST_FLOW_OK);
  encoder_eos (encoder);
  gst_buffer_unref (encoder_pull (encoder));
  gst_harness_push_event (encoder->harness, gst_event_new_stream_start ("2"));
  gst_harness_push_event (encoder->harness, gst_event_new_segment (&segment));
  g_assert_cmpint (push (encoder, clip, clip->n), ==, GST_FLOW_OK);
  encoder_eos (encoder);
  check_golden (encoder, "ref2va_mixed", "condition_latents_0", 7, "reference");

  start (keyframe, first, "0/1");
  for (guint i = 0; i < 2; i++) {
    g_assert_cmpint (push (keyframe, first, 1), ==, GST_FLOW_OK);
    check_golden (keyframe, "fl2va_first", "condition_latents_0", 1,
        "first-frame");
    gst_harness_push_event (keyframe->harness,
        gst_event_new_stream_start ("next"));
    gst_harness_push_event (keyframe->harness,
        gst_event_new_segment (&segment));
  }
}

/* A large picture takes a while. */
static void
test_cancel (void)
{
  g_autoptr (Media) picture = media_pattern (64, 64, 1);

  for (gint ready = 0; ready < 2; ready++) {
    g_autoptr (Decoder) encoder =
        encoder_new ("reference", "reference-edge", "2048");

    start (encoder, picture, "24/1");
    push (encoder, picture, 1);
    encoder_check_cancel (encoder, ready);
  }
}

static void
test_cycles (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Decoder) encoder = keyframe_new ("first-frame", "stretch");

  for (guint i = 0; i < 3; i++) {
    start (encoder, first, "0/1");
    g_assert_cmpint (push (encoder, first, 1), ==, GST_FLOW_OK);
    check_golden (encoder, "fl2va_first", "condition_latents_0", 1,
        "first-frame");
    gst_element_set_state (encoder->element,
        i == 0 ? GST_STATE_READY : GST_STATE_NULL);
    gst_harness_push_event (encoder->harness, gst_event_new_stream_start ("x"));
  }
  decoder_check_cycles (FACTORY, 20);
}

/* --- what is refused --- */

static void
test_nothing (void)
{
  static const gchar *const roles[] = { "first-frame", "last-frame",
    "reference" };
  g_autoptr (Media) picture = media_pattern (64, 64, 1);

  for (guint i = 0; i < G_N_ELEMENTS (roles); i++) {
    g_autoptr (Decoder) encoder = encoder_new (roles[i], "frames", "0");
    g_autoptr (GstEvent) eos = NULL;

    start (encoder, picture, "24/1");
    encoder_eos (encoder);
    g_assert_cmpuint (gst_harness_buffers_received (encoder->harness), ==, 0);
    g_assert_cmpuint (decoder_count_messages (encoder, GST_MESSAGE_ERROR), ==,
        0);
    eos =
        gst_pad_get_sticky_event (encoder->harness->sinkpad, GST_EVENT_EOS, 0);
    g_assert_nonnull (eos);
  }
}

/* Frames are @says, as STREAM FORMAT; and a flush begins anew. */
static void
check_refused (Decoder *encoder, const gchar *says)
{
  g_autoptr (Media) good = media_pattern (96, 64, 5);

  decoder_assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      says);
  g_assert_cmpint (push (encoder, good, 1), !=, GST_FLOW_OK);
  g_assert_cmpuint (decoder_count_messages (encoder, GST_MESSAGE_ERROR), ==, 0);
  encoder_flush (encoder);
  start (encoder, good, "24/1");
  g_assert_cmpint (push (encoder, good, 5), ==, GST_FLOW_OK);
  encoder_eos (encoder);
  gst_buffer_unref (encoder_pull (encoder));
}

static void
push_with_time (Decoder *encoder, const Media *media, GstClockTime pts)
{
  GstBuffer *buffer = media_buffer (media, 0);

  GST_BUFFER_PTS (buffer) = pts;
  gst_harness_push (encoder->harness, buffer);
}

static void
test_bad_frames (void)
{
  static const GstClockTime times[] = { GST_SECOND / 2, GST_SECOND,
    GST_CLOCK_TIME_NONE };
  g_autoptr (Media) small = media_pattern (64, 64, 20);
  g_autoptr (Media) larger = media_pattern (96, 64, 1);
  g_autoptr (Media) thin = media_pattern (64, 320, 1);

  for (guint i = 0; i < G_N_ELEMENTS (times); i++) {
    g_autoptr (Decoder) time = encoder_new ("reference", "frames", "0");

    start (time, small, "0/1");
    push_with_time (time, small, GST_SECOND);
    push_with_time (time, small, times[i]);
    check_refused (time, "Frame 1 of a reference without a constant rate");
  }
  {
    g_autoptr (Decoder) size = encoder_new ("reference", "frames", "0");

    start (size, small, "24/1");
    push (size, small, 3);
    start (size, larger, "24/1");
    check_refused (size, "from 64 x 64 at 24/1 fps to 96 x 64 at 24/1");
  }
  {
    g_autoptr (Decoder) rate = encoder_new ("reference", "frames", "0");

    start (rate, small, "24/1");
    push (rate, small, 3);
    start (rate, small, "30/1");
    check_refused (rate, "from 64 x 64 at 24/1 fps to 64 x 64 at 30/1");
  }
  {
    g_autoptr (Decoder) bytes = encoder_new ("reference", "frames", "0");

    start (bytes, small, "24/1");
    push (bytes, small, 2);
    gst_harness_push (bytes->harness, gst_buffer_new_allocate (NULL, 9, NULL));
    push (bytes, small, 1);
    check_refused (bytes, "Frame 2 cannot be read as RGB of 64 x 64");
  }
  {
    g_autoptr (Decoder) aspect = encoder_new ("reference", "frames", "0");

    start (aspect, thin, "24/1");
    push (aspect, thin, 1);
    encoder_eos (aspect);
    check_refused (aspect, "64");
  }
  {
    g_autoptr (Decoder) few = encoder_new ("reference", "frames", "0");

    start (few, small, "24/1");
    push (few, small, 4);
    encoder_eos (few);
    check_refused (few, "has 4 frames at 24 a second; at least 5");
  }
  {
    g_autoptr (Decoder) caps = encoder_new ("reference", "frames", "0");

    encoder_start (caps,
        "video/x-raw, format=NV12, width=64, height=64, framerate=24/1");
    g_assert_cmpint (gst_harness_push (caps->harness, gst_buffer_new ()), ==,
        GST_FLOW_NOT_NEGOTIATED);
  }
}

/* Without "frames" nothing says where to cut a clip of more than 362. */
static void
test_too_long (void)
{
  g_autoptr (Media) clip = media_pattern (64, 64, 2);
  g_autoptr (GBytes) cut = encode (clip, 2, "24/363", 0, "frames", "5");
  g_autoptr (Decoder) longer = encoder_new ("reference", "frames", "0");

  g_assert_cmpuint (g_bytes_get_size (cut), ==, 2 * 4 * 4 * 4 * 4);
  start (longer, clip, "24/363");
  g_assert_cmpint (push (longer, clip, 2), ==, GST_FLOW_ERROR);
  check_refused (longer, "has 363 frames or more at 24 a second, at most 362");
}

static void
test_canvas (void)
{
  static const gint sizes[][2] = { { 96, 0 }, { 100, 64 } };
  g_autoptr (Media) picture = media_pattern (96, 64, 1);

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    g_autoptr (Decoder) encoder = encoder_new ("first-frame", "frames", "0");
    g_autofree gchar *says =
        g_strdup_printf ("%d", i == 0 ? sizes[i][1] : sizes[i][0]);

    g_object_set (encoder->element, "width", sizes[i][0], "height", sizes[i][1],
        NULL);
    start (encoder, picture, "0/1");
    g_assert_cmpint (push (encoder, picture, 1), ==, GST_FLOW_ERROR);
    decoder_assert_error (encoder, GST_LIBRARY_ERROR,
        GST_LIBRARY_ERROR_SETTINGS, says);
  }
}

static void
test_output (void)
{
  g_autoptr (Media) picture = media_pattern (64, 64, 1);
  static const gchar *const roles[] = { "first-frame", "reference" };

  for (guint i = 0; i < G_N_ELEMENTS (roles); i++) {
    g_autoptr (Decoder) encoder = encoder_new (roles[i], "frames", "0");
    g_autoptr (GstPad) pad =
        gst_element_get_static_pad (encoder->element, "src");
    GstFlowReturn ret;

    gst_pad_unlink (pad, encoder->harness->sinkpad);
    start (encoder, picture, "0/1");
    ret = push (encoder, picture, 1);
    encoder_eos (encoder);
    if (i == 0) {
      /* the source hears of it */
      g_assert_cmpint (ret, ==, GST_FLOW_NOT_LINKED);
      g_assert_cmpuint (decoder_count_messages (encoder, GST_MESSAGE_ERROR), ==,
          0);
    } else {
      decoder_assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
          "not-linked");
    }
  }
  {
    g_autoptr (Decoder) other = decoder_new (FACTORY,
        "application/x-h3-latent, modality=video, channels=5", "role",
        "first-frame", "canvas-edge", "64", NULL);

    start (other, picture, "0/1");
    g_assert_cmpint (push (other, picture, 1), ==, GST_FLOW_NOT_NEGOTIATED);
    decoder_assert_error (other, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "channels");
  }
}

/* The refusal says how much is needed and how much there may be. */
static void
test_budget (void)
{
  g_autoptr (Media) picture = media_pattern (64, 64, 1);
  g_autoptr (Decoder) encoder =
      encoder_new ("reference", "reference-edge", "1024");

  encoder_limit_memory (encoder, 10000);
  start (encoder, picture, "24/1");
  push (encoder, picture, 1);
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
  g_test_add_func ("/videovaeenc/keyframes", test_keyframes);
  g_test_add_func ("/videovaeenc/follow", test_follow);
  g_test_add_func ("/videovaeenc/references", test_references);
  g_test_add_func ("/videovaeenc/rate", test_rate);
  g_test_add_func ("/videovaeenc/frames", test_frames);
  g_test_add_func ("/videovaeenc/settings", test_settings);
  g_test_add_func ("/videovaeenc/flush", test_flush);
  g_test_add_func ("/videovaeenc/next-stream", test_next_stream);
  g_test_add_func ("/videovaeenc/cancel", test_cancel);
  g_test_add_func ("/videovaeenc/cycles", test_cycles);
  g_test_add_func ("/videovaeenc/nothing", test_nothing);
  g_test_add_func ("/videovaeenc/bad-frames", test_bad_frames);
  g_test_add_func ("/videovaeenc/too-long", test_too_long);
  g_test_add_func ("/videovaeenc/canvas", test_canvas);
  g_test_add_func ("/videovaeenc/output", test_output);
  g_test_add_func ("/videovaeenc/budget", test_budget);
  return g_test_run ();
}
