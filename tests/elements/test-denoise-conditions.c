/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3denoise's request pads: keyframes and references. */
#include "denoise-test.h"

#define MAX_PADS 4

/* What a golden file keeps for a pad. */
typedef struct {
  const gchar *pad, *tensor;
  gint frames, height, width; /* 0 height: sound */
} Latent;

typedef struct {
  const gchar *request, *width, *height, *frames, *steps, *seed;
  gint references;
  Latent pads[MAX_PADS];
} Case;

static const Case first = { "fl2va_first", "0", "0", "22", "3", "1", 1,
  { { "first_frame", "condition_latents_0", 1, 4, 6 } } };
static const Case last = { "fl2va_last", "96", "64", "22", "3", "2", 1,
  { { "last_frame", "condition_latents_0", 1, 4, 6 } } };
static const Case both = { "fl2va_both", "0", "0", "22", "3", "3", 2,
  { { "first_frame", "condition_latents_0", 1, 4, 6 },
      { "last_frame", "condition_latents_1", 1, 4, 6 } } };
static const Case image = { "ref2va_image", "96", "64", "22", "2", "4", 1,
  { { "ref_0", "condition_latents_0", 1, 6, 4 } } };
static const Case mixed = { "ref2va_mixed", "96", "64", "56", "2", "5", 3,
  { { "ref_2", "condition_latents_1", 1, 6, 4 },
      { "ref_1", "condition_latents_0", 7, 4, 6 },
      { "ref_audio_1", "audio_condition_latents_1", 50 },
      { "ref_audio_0", "audio_condition_latents_0", 40 } } };

typedef struct {
  Denoiser *denoiser;
  GstHarness *pads[MAX_PADS];
} Conditioned;

static void
conditioned_clear (Conditioned *c)
{
  for (guint i = 0; i < MAX_PADS; i++)
    if (c->pads[i])
      gst_harness_teardown (c->pads[i]);
  denoiser_free (c->denoiser);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Conditioned, conditioned_clear)

static void
conditioned_init (Conditioned *c, const Case *kase)
{
  c->denoiser = denoiser_new_stopped (kase->request, "width", kase->width,
      "height", kase->height, "frames", kase->frames, "steps", kase->steps,
      "seed", kase->seed, NULL);
  c->denoiser->info.references = kase->references;
  for (guint i = 0; i < MAX_PADS && kase->pads[i].pad; i++)
    c->pads[i] = gst_harness_new_with_element (c->denoiser->element,
        kase->pads[i].pad, NULL);
  denoiser_start (c->denoiser, TRUE);
}

/* Golden sound is in rows [2 T, C], the element's in [2, C, T]. */
static gfloat *
unpack_audio (gfloat *rows, gsize n, gint t)
{
  gfloat *latent = g_new (gfloat, n);
  gint channels = n / (2 * t);

  for (gint row = 0; row < 2 * t; row++)
    for (gint k = 0; k < channels; k++)
      latent[(row / t * channels + k) * t + row % t] = rows[row * channels + k];
  g_free (rows);
  return latent;
}

static GstFlowReturn
send_latent (GstHarness *harness, const Case *kase, const Latent *latent)
{
  g_autofree gchar *file =
      g_strdup_printf ("request_%s.safetensors", kase->request);
  GstH3LatentInfo info = { .type = GST_H3_TYPE_FLOAT32,
    .frames = latent->frames };
  gsize n;
  gfloat *data = h3_test_golden (file, latent->tensor, &n);

  if (latent->height > 0) {
    info.modality = GST_H3_MODALITY_VIDEO;
    info.height = latent->height;
    info.width = latent->width;
    info.channels = n / (latent->frames * latent->height * latent->width);
  } else {
    info.modality = GST_H3_MODALITY_AUDIO;
    info.audio_channels = 2;
    info.channels = n / (2 * latent->frames);
    data = unpack_audio (data, n, latent->frames);
  }
  gst_harness_set_src_caps (harness, gst_h3_latent_info_to_caps (&info, FALSE));
  return gst_harness_push (harness,
      gst_buffer_new_wrapped (data, n * sizeof (gfloat)));
}

static void
send_all (Conditioned *c, const Case *kase)
{
  for (guint i = 0; i < MAX_PADS && kase->pads[i].pad; i++)
    g_assert_cmpint (send_latent (c->pads[i], kase, &kase->pads[i]), ==,
        GST_FLOW_OK);
}

static void
check_clip (Conditioned *c, const Case *kase)
{
  g_autofree gchar *file =
      g_strdup_printf ("request_%s.safetensors", kase->request);
  gsize n_video, n_audio, size;
  g_autofree gfloat *video = h3_test_golden (file, "final_latents", &n_video);
  g_autofree gfloat *audio =
      h3_test_golden (file, "final_audio_latents", &n_audio);
  g_autoptr (GBytes) clip = denoiser_pull (c->denoiser, NULL, NULL);
  const gfloat *got = g_bytes_get_data (clip, &size);

  g_assert_cmpuint (size, ==, (n_video + n_audio) * sizeof (gfloat));
  h3_test_assert_close (got, video, n_video, H3_TEST_LATENTS);
  h3_test_assert_close (got + n_video, audio, n_audio, H3_TEST_LATENTS);
}

/* The pads before the prompt, or after it; and the latents serve the next
 * prompt, too. */
static void
check_golden (const Case *kase, gboolean prompt_first)
{
  g_auto (Conditioned) c = { NULL };

  conditioned_init (&c, kase);
  if (!prompt_first)
    send_all (&c, kase);
  g_assert_cmpint (denoiser_push (c.denoiser), ==, GST_FLOW_OK);
  if (prompt_first)
    send_all (&c, kase);
  check_clip (&c, kase);
  g_assert_cmpint (denoiser_push (c.denoiser), ==, GST_FLOW_OK);
  check_clip (&c, kase);
}

static void
test_keyframes (void)
{
  check_golden (&first, FALSE);
  check_golden (&last, TRUE);
  check_golden (&both, FALSE);
}

static void
test_references (void)
{
  check_golden (&image, TRUE);
  check_golden (&mixed, FALSE);
}

/* EOS instead of a soundtrack: the clip has none, which is another clip. */
static void
test_silent_clip (void)
{
  static const Case silent = { "ref2va_mixed", "96", "64", "56", "2", "5", 1,
    { { "ref_1", "condition_latents_0", 7, 4, 6 },
        { "ref_audio_1", NULL, 0 } } };
  g_auto (Conditioned) c = { NULL };

  conditioned_init (&c, &silent);
  send_latent (c.pads[0], &silent, &silent.pads[0]);
  gst_harness_push_event (c.pads[1], gst_event_new_eos ());
  g_assert_cmpint (denoiser_push (c.denoiser), ==, GST_FLOW_OK);
  g_bytes_unref (denoiser_pull (c.denoiser, NULL, NULL));
}

static void
test_flush (void)
{
  g_auto (Conditioned) c = { NULL };

  conditioned_init (&c, &first);
  send_all (&c, &first);
  gst_harness_push_event (c.pads[0], gst_event_new_flush_start ());
  gst_harness_push_event (c.pads[0], gst_event_new_flush_stop (TRUE));
  gst_harness_push_event (c.pads[0], gst_event_new_eos ());
  denoiser_push (c.denoiser);
  denoiser_assert_error (c.denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "\"first_frame\" had EOS before any latent");
}

/* Going to READY, or flushing the prompts, ends the wait. */
static void
test_cancel_waiting (void)
{
  g_auto (Conditioned) c = { NULL };

  conditioned_init (&c, &first);
  denoiser_push (c.denoiser);
  gst_harness_push_event (c.denoiser->video, gst_event_new_flush_start ());
  gst_harness_push_event (c.denoiser->video, gst_event_new_flush_stop (TRUE));
  send_all (&c, &first);
  gst_harness_push_event (c.denoiser->video,
      gst_event_new_stream_start ("again"));
  denoiser_send_header (c.denoiser);
  {
    GstSegment segment;

    gst_segment_init (&segment, GST_FORMAT_TIME);
    gst_harness_push_event (c.denoiser->video,
        gst_event_new_segment (&segment));
  }
  g_assert_cmpint (denoiser_push (c.denoiser), ==, GST_FLOW_OK);
  check_clip (&c, &first);
}

static void
check_error (const Case *kase, gint references, const gchar *text)
{
  g_auto (Conditioned) c = { NULL };

  conditioned_init (&c, kase);
  c.denoiser->info.references = references;
  send_all (&c, kase);
  denoiser_push (c.denoiser);
  denoiser_assert_error (c.denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      text);
}

static void
test_mismatch (void)
{
  static const Case wrong_size = { "fl2va_first", "64", "96", "22", "3", "1", 1,
    { { "first_frame", "condition_latents_0", 1, 4, 6 } } };
  static const Case no_pad = { "fl2va_first", "96", "64", "22", "3", "1", 1 };
  static const Case moving = { "ref2va_mixed", "96", "64", "56", "2", "5", 1,
    { { "first_frame", "condition_latents_0", 7, 4, 6 } } };
  static const Case sound_alone = { "ref2va_mixed", "96", "64", "56", "2", "5",
    1, { { "ref_audio_0", "audio_condition_latents_0", 40 } } };

  check_error (&first, 2, "with 2 keyframes or references");
  check_error (&no_pad, 1, "bring 0 (t2va)");
  check_error (&wrong_size, 1, "encoded at 96 x 64, the clip has 64 x 96");
  check_error (&moving, 1, "ref2va");
  check_error (&sound_alone, 1, "a sound needs");
}

/* Nothing of @frames latents, 2 x 2 or of sound, on a pad of its own. */
static void
send_silence (Conditioned *c, guint i, const gchar *pad, gint frames)
{
  gboolean audio = g_str_has_prefix (pad, "ref_audio");
  GstH3LatentInfo info = { .type = GST_H3_TYPE_FLOAT32,
    .modality = audio ? GST_H3_MODALITY_AUDIO : GST_H3_MODALITY_VIDEO,
    .channels = audio ? 8 : 4,
    .frames = frames,
    .width = 2,
    .height = 2,
    .audio_channels = 2 };

  gst_harness_set_src_caps (c->pads[i],
      gst_h3_latent_info_to_caps (&info, FALSE));
  g_assert_cmpint (gst_harness_push (c->pads[i],
                       gst_buffer_new_wrapped (g_malloc0 (
                                                   gst_h3_latent_info_size (
                                                       &info)),
                           gst_h3_latent_info_size (&info))),
      ==, GST_FLOW_OK);
}

/* Two references of @kind, with @frames latents each. */
static void
check_lengths (const gchar *kind, gint frames, gboolean strict,
    const gchar *says)
{
  g_auto (Conditioned) c = { NULL };
  g_autoptr (GError) warning = NULL;
  g_autoptr (GstMessage) message = NULL;
  const guint n = 3;

  c.denoiser = denoiser_new_stopped ("ref2va_mixed", "width", "32", "height",
      "32", "frames", strict ? "107" : "22", "steps", "1", "strict",
      strict ? "true" : "false", NULL);
  c.denoiser->info.references = n;
  for (guint i = 0; i < n; i++) {
    g_autofree gchar *pad =
        i < 2 ? g_strdup_printf ("%s_%u", kind, i) : g_strdup ("ref_2");

    c.pads[i] = gst_harness_new_with_element (c.denoiser->element, pad, NULL);
  }
  denoiser_start (c.denoiser, TRUE);
  send_silence (&c, 0, kind, frames);
  send_silence (&c, 1, kind, frames);
  send_silence (&c, 2, "ref_2", 1);
  denoiser_push (c.denoiser);
  if (strict) {
    denoiser_assert_error (c.denoiser, GST_LIBRARY_ERROR,
        GST_LIBRARY_ERROR_SETTINGS, says);
    return;
  }
  g_bytes_unref (denoiser_pull (c.denoiser, NULL, NULL));
  while (
      (message = gst_bus_pop_filtered (c.denoiser->bus, GST_MESSAGE_WARNING))) {
    g_clear_error (&warning);
    gst_message_parse_warning (message, &warning, NULL);
    if (strstr (warning->message, "together"))
      break;
    g_clear_pointer (&message, gst_message_unref);
  }
  g_assert_cmpint (message != NULL, ==, says != NULL);
  if (says)
    g_assert_nonnull (strstr (warning->message, says));
}

/* 15 s of clips, and of sounds, are what the release takes. */
static void
test_lengths (void)
{
  for (gint strict = 0; strict < 2; strict++) {
    check_lengths ("ref", 57, strict,
        "clips have 384 frames (16.0 s) together; H3 is made for at most 362 "
        "(15.1 s)");
    check_lengths ("ref_audio", 303, strict,
        "sounds have 15.2 s together; H3 is made for at most 15.1 s");
  }
  check_lengths ("ref", 52, FALSE, NULL);
  check_lengths ("ref_audio", 302, FALSE, NULL);
}

static void
test_unlinked (void)
{
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("fl2va_first", "steps", "3", NULL);
  GstPad *pad =
      gst_element_request_pad_simple (denoiser->element, "first_frame");

  denoiser->info.references = 1;
  denoiser_start (denoiser, TRUE);
  denoiser_push (denoiser);
  denoiser_assert_error (denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "\"first_frame\" is not linked");
  gst_element_release_request_pad (denoiser->element, pad);
  gst_object_unref (pad);
}

/* A pad that is unlinked while a job waits for it is not waited for. */
static void
test_unlinked_waiting (void)
{
  g_auto (Conditioned) c = { NULL };
  g_autoptr (GstPad) pad = NULL;

  conditioned_init (&c, &first);
  denoiser_push (c.denoiser);
  g_usleep (20 * 1000);
  pad = gst_element_get_static_pad (c.denoiser->element, "first_frame");
  gst_pad_unlink (c.pads[0]->srcpad, pad);
  denoiser_assert_error (c.denoiser, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "\"first_frame\" is not linked");
}

/* Nor is one that is released. */
static void
test_released_waiting (void)
{
  static const Case too_many = { "fl2va_first", "0", "0", "22", "3", "1", 1,
    { { "first_frame", "condition_latents_0", 1, 4, 6 },
        { "last_frame", "condition_latents_0", 1, 4, 6 } } };
  g_auto (Conditioned) c = { NULL };
  g_autoptr (GstPad) pad = NULL;

  conditioned_init (&c, &too_many);
  send_latent (c.pads[0], &too_many, &too_many.pads[0]);
  denoiser_push (c.denoiser);
  g_usleep (20 * 1000);
  pad = gst_element_get_static_pad (c.denoiser->element, "last_frame");
  gst_element_release_request_pad (c.denoiser->element, pad);
  check_clip (&c, &first);
}

/* The other partition's transformer is open. */
static void
test_partition (void)
{
  g_auto (Conditioned) c = { NULL };

  c.denoiser = denoiser_new_stopped ("ref2va_image", "steps", "2", "partition",
      "fl2va", NULL);
  c.denoiser->info.references = 1;
  c.pads[0] = gst_harness_new_with_element (c.denoiser->element, "ref_0", NULL);
  denoiser_start (c.denoiser, TRUE);
  send_latent (c.pads[0], &image, &image.pads[0]);
  denoiser_push (c.denoiser);
  denoiser_assert_error (c.denoiser, GST_LIBRARY_ERROR,
      GST_LIBRARY_ERROR_SETTINGS, "set partition=ref2va");
}

static void
test_bad_latents (void)
{
  static const gchar *const bad[] = {
    "application/x-h3-latent, modality=audio, type=float32, channels=8, "
    "frames=40, audio-channels=2, rate=32000",
    "application/x-h3-latent, modality=video, type=float32, channels=16, "
    "frames=1, height=4, width=6, framerate=24/1",
  };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_auto (Conditioned) c = { NULL };

    conditioned_init (&c, &first);
    gst_harness_set_src_caps (c.pads[0], gst_caps_from_string (bad[i]));
    g_assert_cmpint (gst_harness_push (c.pads[0], gst_buffer_new ()), ==,
        GST_FLOW_NOT_NEGOTIATED);
  }
  {
    g_auto (Conditioned) c = { NULL };

    conditioned_init (&c, &first);
    gst_harness_set_src_caps_str (c.pads[0],
        "application/x-h3-latent, modality=video, type=float32, channels=4, "
        "frames=1, height=4, width=6, framerate=24/1");
    g_assert_cmpint (gst_harness_push (c.pads[0],
                         gst_buffer_new_allocate (NULL, 5, NULL)),
        ==, GST_FLOW_ERROR);
    denoiser_assert_error (c.denoiser, GST_STREAM_ERROR,
        GST_STREAM_ERROR_FORMAT, "\"first_frame\" has 5 bytes");
  }
}

static void
test_pads (void)
{
  GstElement *element = gst_element_factory_make ("h3denoise", NULL);
  static const gchar *const asked[] = { "ref_%u", "ref_%u", "ref_7", "ref_%u",
    "ref_audio_%u", "first_frame", "last_frame" };
  static const gchar *const got[] = { "ref_0", "ref_1", "ref_7", "ref_8",
    "ref_audio_0", "first_frame", "last_frame" };

  gst_object_ref_sink (element);
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++) {
    GstPad *pad = gst_element_request_pad_simple (element, asked[i]);

    g_assert_nonnull (pad);
    g_assert_cmpstr (GST_PAD_NAME (pad), ==, got[i]);
    gst_object_unref (pad);
  }
  gst_object_unref (element);
}

void
add_condition_tests (void)
{
  g_test_add_func ("/denoise/conditions/keyframes", test_keyframes);
  g_test_add_func ("/denoise/conditions/references", test_references);
  g_test_add_func ("/denoise/conditions/silent-clip", test_silent_clip);
  g_test_add_func ("/denoise/conditions/flush", test_flush);
  g_test_add_func ("/denoise/conditions/cancel-waiting", test_cancel_waiting);
  g_test_add_func ("/denoise/conditions/mismatch", test_mismatch);
  g_test_add_func ("/denoise/conditions/lengths", test_lengths);
  g_test_add_func ("/denoise/conditions/unlinked", test_unlinked);
  g_test_add_func ("/denoise/conditions/unlinked-waiting",
      test_unlinked_waiting);
  g_test_add_func ("/denoise/conditions/released-waiting",
      test_released_waiting);
  g_test_add_func ("/denoise/conditions/partition", test_partition);
  g_test_add_func ("/denoise/conditions/bad-latents", test_bad_latents);
  g_test_add_func ("/denoise/conditions/pads", test_pads);
}
