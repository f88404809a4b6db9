/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What h3denoise refuses: one message, its domain and code, and the next clip
 * works. */
#include "denoise-test.h"

#include <glib/gstdio.h>
#include <math.h>

/* Refused in the state change to PLAYING; then, with @name and @good,
 * accepted. */
#define assert_refused(denoiser, domain, code, text)                           \
  G_STMT_START                                                                 \
  {                                                                            \
    g_assert_cmpint (gst_element_set_state ((denoiser)->element,               \
                         GST_STATE_PLAYING),                                   \
        ==, GST_STATE_CHANGE_FAILURE);                                         \
    denoiser_assert_error (denoiser, domain, code, text);                      \
    gst_element_set_state ((denoiser)->element, GST_STATE_NULL);               \
  }                                                                            \
  G_STMT_END

static void
assert_works (Denoiser *denoiser)
{
  denoiser_start (denoiser, TRUE);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
}

/* Property values no clip can have. */
static void
test_settings (void)
{
  static const gchar *const cases[][5] = {
    { "width", "100", "height", "64", "96 or 128" },
    { "width", "0", "height", "64", "give both" },
    { "sigmas", "1, 0", "sigmas-audio", NULL, "schedule=explicit" },
    { "schedule", "explicit", "seed", "1", "sigmas" },
    { "schedule", "explicit", "sigmas", "1, x, 0", "\"x\"" },
    { "schedule", "explicit", "sigmas", "0.5, 0.7, 0", "" },
    { "schedule", "explicit", "sigmas", "1, 0.5", "" },
    { "schedule", "explicit", "sigmas", "", "" },
    { "schedule", "explicit", "sigmas", "1, nan, 0", "nan" },
    { "strict", "true", "frames", "22", "107" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (Denoiser) denoiser = denoiser_new_stopped ("t2va", cases[i][0],
        cases[i][1], cases[i][3] ? cases[i][2] : NULL, cases[i][3], NULL);

    assert_refused (denoiser, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
        cases[i][4]);
  }
}

static void
test_audio_sigmas (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new_stopped ("t2va", "schedule",
      "explicit", "sigmas", "1, 0.5, 0", "sigmas-audio", "1, 0", NULL);

  assert_refused (denoiser, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
      "as many");
  denoiser_set (denoiser, "sigmas-audio", "1, 0.25, 0", NULL);
  assert_works (denoiser);
}

/* The same, found only when the next job starts. */
static void
test_settings_while_playing (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstFlowReturn ret = GST_FLOW_OK;

  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
  denoiser_set (denoiser, "width", "97", NULL);
  denoiser_push (denoiser);
  denoiser_assert_error (denoiser, GST_LIBRARY_ERROR,
      GST_LIBRARY_ERROR_SETTINGS, "32");
  for (gint i = 0; i < 100 && ret == GST_FLOW_OK; i++)
    ret = denoiser_push (denoiser);
  g_assert_cmpint (ret, ==, GST_FLOW_ERROR);
  g_assert_cmpuint (element_stat (denoiser->element, "jobs-failed"), ==, 1);
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->video), ==, 1);

  /* after a flush, what is wrong again is said again */
  gst_harness_push_event (denoiser->video, gst_event_new_flush_start ());
  gst_harness_push_event (denoiser->video, gst_event_new_flush_stop (TRUE));
  denoiser_send_header (denoiser);
  denoiser_push (denoiser);
  denoiser_assert_error (denoiser, GST_LIBRARY_ERROR,
      GST_LIBRARY_ERROR_SETTINGS, "32");

  /* a flush makes it take prompts again */
  denoiser_set (denoiser, "width", "96", NULL);
  gst_harness_push_event (denoiser->video, gst_event_new_flush_start ());
  gst_harness_push_event (denoiser->video, gst_event_new_flush_stop (TRUE));
  denoiser_send_header (denoiser);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
}

static void
test_no_checkpoint (void)
{
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("t2va", "model-path", "/nowhere/at/all", NULL);

  assert_refused (denoiser, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
      "/nowhere/at/all");
  denoiser_set (denoiser, "model-path", h3_test_tiny_dir (), NULL);
  assert_works (denoiser);
}

static void
test_no_h3 (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("t2va", "model-path", dir, NULL);

  assert_refused (denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, dir);
  h3_test_remove_tree (dir);
}

/* The tiny checkpoint's transformer, to be damaged. */
static gchar *
copy_checkpoint (void)
{
  gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *to = g_build_filename (dir, "copy", NULL);

  h3_test_copy_tree (h3_test_tiny_dir (), to);
  return dir;
}

static gchar *
transformer_shard (const gchar *dir)
{
  return g_build_filename (dir, "copy", "FL2VA", "transformer",
      "model-00001-of-00003.safetensors", NULL);
}

static void
test_truncated (void)
{
  g_autofree gchar *dir = copy_checkpoint ();
  g_autofree gchar *shard = transformer_shard (dir);
  g_autofree gchar *path = g_build_filename (dir, "copy", NULL);
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("t2va", "model-path", path, NULL);

  h3_test_truncate_file (shard, h3_test_file_size (shard) - 8);
  assert_refused (denoiser, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ,
      "model-00001");
  h3_test_remove_tree (dir);
  denoiser_set (denoiser, "model-path", h3_test_tiny_dir (), NULL);
  assert_works (denoiser);
}

static void
test_missing_shard (void)
{
  g_autofree gchar *dir = copy_checkpoint ();
  g_autofree gchar *shard = transformer_shard (dir);
  g_autofree gchar *path = g_build_filename (dir, "copy", NULL);
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("t2va", "model-path", path, NULL);

  g_assert_cmpint (g_remove (shard), ==, 0);
  assert_refused (denoiser, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
      "model-00001");
  h3_test_remove_tree (dir);
}

static void
test_backend (void)
{
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("t2va", "backend", "cuda", NULL);

  if (!h3_test_on_gpu ())
    assert_refused (denoiser, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
        "use backend=auto");
  denoiser_set (denoiser, "backend", "cpu", NULL);
  assert_works (denoiser);
}

/* Refused before loading, with the numbers. */
static void
test_budget (void)
{
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("t2va", "memory-budget", "100000", NULL);

  assert_refused (denoiser, GST_RESOURCE_ERROR,
      GST_RESOURCE_ERROR_NO_SPACE_LEFT, "100000");
  denoiser_set (denoiser, "memory-budget", "1000000000", NULL);
  assert_works (denoiser);
}

/* More than any machine has: a clip's workspace is planned too. */
static void
test_no_space (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new_stopped ("t2va", "width", "8192",
      "height", "8192", "frames", "4096", "steps", "1000", NULL);

  g_assert_cmpint (gst_element_set_state (denoiser->element, GST_STATE_READY),
      ==, GST_STATE_CHANGE_FAILURE);
  denoiser_assert_error (denoiser, GST_RESOURCE_ERROR,
      GST_RESOURCE_ERROR_NO_SPACE_LEFT, "free");
}

static void
test_both_unlinked (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstPad *video = gst_element_get_static_pad (denoiser->element, "video");
  GstPad *audio = gst_element_get_static_pad (denoiser->element, "audio");

  gst_pad_unlink (video, denoiser->video->sinkpad);
  gst_pad_unlink (audio, denoiser->audio->sinkpad);
  denoiser_push (denoiser);
  denoiser_assert_error (denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
      "linked");
  gst_pad_link (video, denoiser->video->sinkpad);
  gst_pad_link (audio, denoiser->audio->sinkpad);
  gst_object_unref (video);
  gst_object_unref (audio);
}

/* Known before any work: what follows cannot take this size. */
static void
test_impossible_downstream (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  gst_harness_set_sink_caps_str (denoiser->video,
      "application/x-h3-latent, modality=video, width=(int)8");
  denoiser_push (denoiser);
  denoiser_assert_error (denoiser, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      "\"video\"");
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->audio), ==, 0);
}

static void
push_caps (Denoiser *denoiser, gint tokens, gint hidden)
{
  const GstH3EmbedsInfo info = { "t2va", GST_H3_TYPE_FLOAT32, tokens, hidden };

  gst_harness_set_src_caps (denoiser->video,
      gst_h3_embeds_info_to_caps (&info, FALSE));
}

static void
test_wrong_hidden (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  const GstH3EmbedsInfo info = { "t2va", GST_H3_TYPE_FLOAT32,
    denoiser->info.tokens, denoiser->info.hidden + 1 };
  GstPad *pad = gst_element_get_static_pad (denoiser->element, "sink");
  GstCaps *caps = gst_h3_embeds_info_to_caps (&info, FALSE);

  g_assert_false (gst_pad_query_accept_caps (pad, caps));
  gst_caps_unref (caps);
  gst_object_unref (pad);
}

static void
test_wrong_size (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  push_caps (denoiser, denoiser->info.tokens + 1, denoiser->info.hidden);
  g_assert_cmpint (gst_harness_push (denoiser->video,
                       denoiser_embeds_buffer (denoiser)),
      ==, GST_FLOW_ERROR);
  denoiser_assert_error (denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "bytes");
  /* the next, right one works */
  push_caps (denoiser, denoiser->info.tokens, denoiser->info.hidden);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
}

static void
test_no_caps (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstSegment segment;

  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_harness_push_event (denoiser->video, gst_event_new_stream_start ("s"));
  gst_harness_push_event (denoiser->video, gst_event_new_segment (&segment));
  g_assert_cmpint (gst_harness_push (denoiser->video,
                       denoiser_embeds_buffer (denoiser)),
      ==, GST_FLOW_NOT_NEGOTIATED);
}

/* No number in, no number out: an error, no buffer. */
static void
test_nan (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  gfloat first = denoiser->embeds[0];

  denoiser->embeds[0] = NAN;
  denoiser_push (denoiser);
  denoiser_assert_error (denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
      "");
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->video), ==, 0);
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->audio), ==, 0);

  denoiser->embeds[0] = first;
  gst_element_set_state (denoiser->element, GST_STATE_READY);
  gst_element_set_state (denoiser->element, GST_STATE_PLAYING);
  denoiser_send_header (denoiser);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
}

/* A fatal answer from downstream: one message, and upstream is told. */
static GstPadProbeReturn
answer_error (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  gst_buffer_unref (GST_PAD_PROBE_INFO_BUFFER (info));
  GST_PAD_PROBE_INFO_DATA (info) = NULL;
  GST_PAD_PROBE_INFO_FLOW_RETURN (info) = GST_FLOW_ERROR;
  return GST_PAD_PROBE_HANDLED;
}

static void
test_downstream_error (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstPad *pad = gst_element_get_static_pad (denoiser->element, "audio");
  GstFlowReturn ret = GST_FLOW_OK;

  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, answer_error, NULL, NULL);
  gst_object_unref (pad);
  for (gint i = 0; i < 50 && ret == GST_FLOW_OK; i++)
    ret = denoiser_push (denoiser);
  g_assert_cmpint (ret, ==, GST_FLOW_ERROR);
  denoiser_assert_error (denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
      "data stream");
}

void
add_error_tests (void)
{
  g_test_add_func ("/denoise/errors/settings", test_settings);
  g_test_add_func ("/denoise/errors/audio-sigmas", test_audio_sigmas);
  g_test_add_func ("/denoise/errors/settings-while-playing",
      test_settings_while_playing);
  g_test_add_func ("/denoise/errors/no-checkpoint", test_no_checkpoint);
  g_test_add_func ("/denoise/errors/no-h3", test_no_h3);
  g_test_add_func ("/denoise/errors/truncated", test_truncated);
  g_test_add_func ("/denoise/errors/missing-shard", test_missing_shard);
  g_test_add_func ("/denoise/errors/backend", test_backend);
  g_test_add_func ("/denoise/errors/budget", test_budget);
  g_test_add_func ("/denoise/errors/no-space", test_no_space);
  g_test_add_func ("/denoise/errors/both-unlinked", test_both_unlinked);
  g_test_add_func ("/denoise/errors/impossible-downstream",
      test_impossible_downstream);
  g_test_add_func ("/denoise/errors/wrong-hidden", test_wrong_hidden);
  g_test_add_func ("/denoise/errors/wrong-size", test_wrong_size);
  g_test_add_func ("/denoise/errors/no-caps", test_no_caps);
  g_test_add_func ("/denoise/errors/nan", test_nan);
  g_test_add_func ("/denoise/errors/downstream-error", test_downstream_error);
}
