/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3denoise's clips: numbers, caps, time, metadata. */
#include "denoise-test.h"

#include <math.h>

static void
check_golden (const gchar *request, const gchar *width, const gchar *height,
    const gchar *frames, const gchar *steps, const gchar *seed)
{
  g_autoptr (Denoiser) denoiser = denoiser_new (request, "width", width,
      "height", height, "frames", frames, "steps", steps, "seed", seed, NULL);
  g_autofree gchar *file = g_strdup_printf ("request_%s.safetensors", request);
  gsize n_video, n_audio;
  g_autofree gfloat *video = h3_test_golden (file, "final_latents", &n_video);
  g_autofree gfloat *audio =
      h3_test_golden (file, "final_audio_latents", &n_audio);
  GBytes *clip;
  const gfloat *got;
  gsize size;

  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  clip = denoiser_pull (denoiser, NULL, NULL);
  got = g_bytes_get_data (clip, &size);
  g_assert_cmpuint (size, ==, (n_video + n_audio) * sizeof (gfloat));
  h3_test_assert_close (got, video, n_video, H3_TEST_LATENTS);
  h3_test_assert_close (got + n_video, audio, n_audio, H3_TEST_LATENTS);
  g_bytes_unref (clip);
}

static void
test_golden (void)
{
  check_golden ("t2va", "96", "64", "22", "4", "440204");
  check_golden ("t2va_39", "64", "96", "39", "3", "7");
}

static GBytes *
clip_of (const gchar *form)
{
  g_autofree gchar *path =
      g_build_filename (g_getenv ("H3_QUANTISED_DIR"), form, NULL);
  g_autoptr (Denoiser) denoiser =
      denoiser_new ("t2va", "model-path", path, "steps", "2", NULL);

  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  return denoiser_pull (denoiser, NULL, NULL);
}

/* A quantised checkpoint, and the numbers that it stands for as float32. */
static void
test_quantised (void)
{
  static const gchar *const forms[] = { "fp8-official", "int8-diffusers",
    "nvfp4-official", "int8-comfy-pruned" };

  if (g_strcmp0 (g_getenv ("H3_BACKEND"), "cpu") != 0) {
    g_test_skip ("only the CPU takes quantised weights");
    return;
  }
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++) {
    g_autofree gchar *decoded = g_strconcat (forms[i], "-decoded", NULL);
    g_autoptr (GBytes) got = clip_of (forms[i]);
    g_autoptr (GBytes) want = clip_of (decoded);
    gsize n = g_bytes_get_size (want);

    g_assert_cmpuint (g_bytes_get_size (got), ==, n);
    h3_test_assert_close (g_bytes_get_data (got, NULL),
        g_bytes_get_data (want, NULL), n / sizeof (gfloat), 1e-5);
  }
}

static void
assert_caps (GstHarness *harness, const gchar *expected)
{
  GstCaps *caps = gst_pad_get_current_caps (harness->sinkpad);
  GstCaps *want = gst_caps_from_string (expected);
  g_autofree gchar *found = gst_caps_to_string (caps);

  if (!gst_caps_is_equal (caps, want))
    g_error ("caps are %s, not %s", found, expected);
  gst_caps_unref (want);
  gst_caps_unref (caps);
}

static guint
group_id_of (GstHarness *harness)
{
  GstEvent *event =
      gst_pad_get_sticky_event (harness->sinkpad, GST_EVENT_STREAM_START, 0);
  guint group_id = GST_GROUP_ID_INVALID;

  g_assert_nonnull (event);
  g_assert_true (gst_event_parse_group_id (event, &group_id));
  gst_event_unref (event);
  return group_id;
}

static void
assert_segment (GstHarness *harness)
{
  GstEvent *event =
      gst_pad_get_sticky_event (harness->sinkpad, GST_EVENT_SEGMENT, 0);
  const GstSegment *segment;

  gst_event_parse_segment (event, &segment);
  g_assert_cmpint (segment->format, ==, GST_FORMAT_TIME);
  g_assert_cmpuint (segment->start, ==, 0);
  g_assert_cmpuint (segment->base, ==, 0);
  gst_event_unref (event);
}

static void
test_caps (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
  assert_caps (denoiser->video,
      "application/x-h3-latent(memory:H3Device), modality=(string)video, "
      "type=(string)float32, channels=(int)4, frames=(int)7, height=(int)4, "
      "width=(int)6, framerate=(fraction)24/1");
  assert_caps (denoiser->audio,
      "application/x-h3-latent(memory:H3Device), modality=(string)audio, "
      "type=(string)float32, channels=(int)8, frames=(int)37, "
      "audio-channels=(int)2, rate=(int)32000");
  assert_segment (denoiser->video);
  assert_segment (denoiser->audio);
  g_assert_cmpuint (group_id_of (denoiser->video), ==,
      group_id_of (denoiser->audio));
}

/* A consumer that knows nothing of devices gets system memory. */
static void
test_system_memory (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  gst_harness_set_sink_caps_str (denoiser->video, "application/x-h3-latent");
  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
  assert_caps (denoiser->video,
      "application/x-h3-latent, modality=(string)video, type=(string)float32, "
      "channels=(int)4, frames=(int)7, height=(int)4, width=(int)6, "
      "framerate=(fraction)24/1");
}

static void
assert_clip_time (GstBuffer *video, GstBuffer *audio, guint64 first,
    guint64 frames)
{
  GstClockTime start = gst_util_uint64_scale (first, GST_SECOND, 24);
  guint64 samples = llround (frames / 24.0 * 40) * 800;

  g_assert_cmpuint (GST_BUFFER_PTS (video), ==, start);
  g_assert_cmpuint (GST_BUFFER_PTS (audio), ==, start);
  g_assert_false (GST_BUFFER_DTS_IS_VALID (video));
  g_assert_cmpuint (GST_BUFFER_DURATION (video), ==,
      gst_util_uint64_scale (first + frames, GST_SECOND, 24) - start);
  g_assert_cmpuint (GST_BUFFER_DURATION (audio), ==, samples * 31250);
  g_assert_cmpuint (GST_BUFFER_OFFSET (video), ==, first);
  g_assert_cmpuint (GST_BUFFER_OFFSET_END (video), ==, first + frames);
  g_assert_cmpuint (GST_BUFFER_OFFSET (audio), ==,
      llround (first * 4000 / 3.0));
  g_assert_cmpuint (GST_BUFFER_OFFSET_END (audio), ==,
      GST_BUFFER_OFFSET (audio) + samples);
  g_assert_cmpint (GST_BUFFER_FLAG_IS_SET (video, GST_BUFFER_FLAG_DISCONT), ==,
      first == 0);
}

static void
assert_job (GstBuffer *buffer, guint64 number, guint64 seed)
{
  const GstStructure *job = gst_h3_buffer_get_job (buffer);
  guint64 value;
  guint small;
  gint side;

  g_assert_nonnull (job);
  g_assert_true (gst_structure_get_uint64 (job, "job", &value));
  g_assert_cmpuint (value, ==, number);
  g_assert_true (gst_structure_get_uint64 (job, "seed", &value));
  g_assert_cmpuint (value, ==, seed);
  g_assert_true (gst_structure_get_uint (job, "steps", &small));
  g_assert_cmpuint (small, ==, 4);
  g_assert_true (gst_structure_get_uint (job, "frames", &small));
  g_assert_cmpuint (small, ==, 22);
  g_assert_true (gst_structure_get_int (job, "width", &side));
  g_assert_cmpint (side, ==, 96);
  g_assert_true (gst_structure_get_int (job, "height", &side));
  g_assert_cmpint (side, ==, 64);
  g_assert_cmpstr (gst_structure_get_string (job, "task"), ==, "t2va");
  g_assert_cmpstr (gst_structure_get_string (job, "prompt-sha256"), ==, "abcd");
  g_assert_nonnull (gst_structure_get_string (job, "model"));
  g_assert_false (gst_structure_has_field (job, "prompt"));
}

/* Four prompts: one timeline without a gap, one segment. */
static void
test_continuous (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  denoiser_set (denoiser, "max-queued-jobs", "4", NULL);
  for (gint i = 0; i < 4; i++)
    g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  for (gint i = 0; i < 4; i++) {
    GstBuffer *video, *audio;

    g_bytes_unref (denoiser_pull (denoiser, &video, &audio));
    assert_clip_time (video, audio, 22 * i, 22);
    assert_job (video, i, 440204);
    assert_job (audio, i, 440204);
    gst_buffer_unref (video);
    gst_buffer_unref (audio);
  }
  g_assert_cmpuint (element_stat (denoiser->element, "jobs-done"), ==, 4);
}

static void
test_seed (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GBytes *clips[5];
  GstBuffer *video = NULL, *audio = NULL;
  guint64 drawn;
  g_autofree gchar *seed = NULL;

  for (gint i = 0; i < 2; i++) {
    denoiser_push (denoiser);
    clips[i] = denoiser_pull (denoiser, NULL, NULL);
  }
  g_assert_true (g_bytes_equal (clips[0], clips[1]));
  denoiser_set (denoiser, "seed", "-1", NULL);
  denoiser_push (denoiser);
  clips[2] = denoiser_pull (denoiser, NULL, NULL);
  denoiser_push (denoiser);
  clips[3] = denoiser_pull (denoiser, &video, &audio);
  g_assert_false (g_bytes_equal (clips[0], clips[2]));
  g_assert_false (g_bytes_equal (clips[2], clips[3]));

  /* the seed that was drawn is reported, and makes the clip again */
  g_assert_true (
      gst_structure_get_uint64 (gst_h3_buffer_get_job (video), "seed", &drawn));
  seed = g_strdup_printf ("%" G_GUINT64_FORMAT, drawn);
  denoiser_set (denoiser, "seed", seed, NULL);
  denoiser_push (denoiser);
  clips[4] = denoiser_pull (denoiser, NULL, NULL);
  g_assert_true (g_bytes_equal (clips[3], clips[4]));

  gst_buffer_unref (video);
  gst_buffer_unref (audio);
  for (gint i = 0; i < 5; i++)
    g_bytes_unref (clips[i]);
}

/* The tags that came before the last buffer. */
static GstTagList *
pull_tags (GstHarness *harness)
{
  GstEvent *event =
      gst_pad_get_sticky_event (harness->sinkpad, GST_EVENT_TAG, 0);
  GstTagList *tags;

  g_assert_nonnull (event);
  gst_event_parse_tag (event, &tags);
  tags = gst_tag_list_copy (tags);
  gst_event_unref (event);
  return tags;
}

static void
test_tags (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  for (gint i = 0; i < 2; i++) {
    GstHarness *harnesses[2] = { denoiser->video, denoiser->audio };

    denoiser_set (denoiser, "tag-prompt", i ? "false" : "true", NULL);
    denoiser_push (denoiser);
    g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
    for (gint pad = 0; pad < 2; pad++) {
      GstTagList *tags = pull_tags (harnesses[pad]);
      gchar *text = NULL;

      g_assert_true (gst_tag_list_get_string (tags, GST_TAG_COMMENT, &text));
      g_assert_true (g_str_has_prefix (text, "seed=440204 steps=4 model="));
      g_clear_pointer (&text, g_free);
      g_assert_true (
          gst_tag_list_get_string (tags, GST_TAG_APPLICATION_NAME, &text));
      g_clear_pointer (&text, g_free);
      g_assert_cmpint (gst_tag_list_get_string (tags, GST_TAG_DESCRIPTION,
                           &text),
          ==, i == 0);
      if (i == 0)
        g_assert_cmpstr (text, ==, "a dragon");
      g_free (text);
      gst_tag_list_unref (tags);
    }
  }
}

/* The element's memory is what the CPU reads: no copy in between. */
static void
test_memory (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstBuffer *video, *audio;
  GstMapInfo map;
  GstMemory *memory;
  GstH3Memory *tensor;

  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, &video, &audio));
  g_assert_cmpuint (gst_buffer_n_memory (video), ==, 1);
  memory = gst_buffer_peek_memory (video, 0);
  g_assert_true (gst_is_h3_memory (memory));
  tensor = (GstH3Memory *) memory;
  g_assert_cmpuint (tensor->rank, ==, 4);
  g_assert_cmpint (tensor->dim[1], ==, 7);
  g_assert_true (gst_memory_map (memory, &map, GST_MAP_READ));
  /* what a GPU has comes as a copy */
  g_assert_cmpint (map.data == tensor->data, ==, !h3_test_on_gpu ());
  gst_memory_unmap (memory, &map);
  gst_buffer_unref (video);
  gst_buffer_unref (audio);
}

static void
assert_eos (GstHarness *harness)
{
  GstEvent *event;
  gboolean eos = FALSE;

  while (!eos) {
    event = gst_harness_pull_event (harness);
    g_assert_nonnull (event);
    eos = GST_EVENT_TYPE (event) == GST_EVENT_EOS;
    gst_event_unref (event);
  }
}

static void
test_eos_without_data (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  denoiser_send_header (denoiser);
  g_assert_true (
      gst_harness_push_event (denoiser->video, gst_event_new_eos ()));
  assert_eos (denoiser->video);
  assert_eos (denoiser->audio);
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->video), ==, 0);
}

/* EOS right behind the prompts: the clips come first. */
static void
test_eos_after_jobs (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  denoiser_push (denoiser);
  denoiser_push (denoiser);
  gst_harness_push_event (denoiser->video, gst_event_new_eos ());
  assert_eos (denoiser->video);
  assert_eos (denoiser->audio);
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->video), ==, 2);
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->audio), ==, 2);
}

/* A second stream after EOS begins again at 0. */
static void
test_stream_after_eos (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstBuffer *video, *audio;

  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
  gst_harness_push_event (denoiser->video, gst_event_new_eos ());
  assert_eos (denoiser->video);
  assert_eos (denoiser->audio);
  gst_harness_push_event (denoiser->video,
      gst_event_new_stream_start ("again"));
  denoiser_send_header (denoiser);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  g_bytes_unref (denoiser_pull (denoiser, &video, &audio));
  assert_clip_time (video, audio, 0, 22);
  gst_buffer_unref (video);
  gst_buffer_unref (audio);
}

static void
test_unlinked (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new_stopped ("t2va", NULL);

  denoiser_start (denoiser, FALSE);
  for (gint i = 0; i < 3; i++) {
    g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
    g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
  }
}

/* What a started job says, and what the pads say about it. */
static void
test_queries (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstPad *pad = gst_element_get_static_pad (denoiser->element, "video");
  GstQuery *query;
  gboolean live, seekable;
  GstClockTime min, max;
  gint64 value;
  GstCaps *caps;
  GstStructure *s;
  gint width;

  g_assert_false (gst_pad_query_position (pad, GST_FORMAT_TIME, &value));
  g_assert_false (gst_pad_query_duration (pad, GST_FORMAT_TIME, &value));
  query = gst_query_new_latency ();
  g_assert_true (gst_pad_query (pad, query));
  gst_query_parse_latency (query, &live, &min, &max);
  g_assert_false (live);
  g_assert_cmpuint (min, ==, 0);
  g_assert_false (GST_CLOCK_TIME_IS_VALID (max));
  gst_query_unref (query);
  query = gst_query_new_seeking (GST_FORMAT_TIME);
  g_assert_true (gst_pad_query (pad, query));
  gst_query_parse_seeking (query, NULL, &seekable, NULL, NULL);
  g_assert_false (seekable);
  gst_query_unref (query);
  g_assert_false (gst_pad_send_event (pad,
      gst_event_new_seek (1.0, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH,
          GST_SEEK_TYPE_SET, 0, GST_SEEK_TYPE_NONE, -1)));

  /* the present settings, before any job */
  denoiser_set (denoiser, "width", "128", NULL);
  caps = gst_pad_query_caps (pad, NULL);
  s = gst_caps_get_structure (caps, 0);
  g_assert_true (gst_structure_get_int (s, "width", &width));
  g_assert_cmpint (width, ==, 8);
  gst_caps_unref (caps);
  denoiser_set (denoiser, "width", "96", NULL);

  for (gint i = 0; i < 2; i++) {
    denoiser_push (denoiser);
    g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
  }
  g_assert_true (gst_pad_query_position (pad, GST_FORMAT_TIME, &value));
  g_assert_cmpint (value, ==, gst_util_uint64_scale (22, GST_SECOND, 24));
  g_assert_false (gst_pad_query_duration (pad, GST_FORMAT_TIME, &value));
  gst_harness_push_event (denoiser->video, gst_event_new_eos ());
  assert_eos (denoiser->video);
  g_assert_true (gst_pad_query_duration (pad, GST_FORMAT_TIME, &value));
  g_assert_cmpint (value, ==, gst_util_uint64_scale (44, GST_SECOND, 24));
  gst_object_unref (pad);
}

/* The sink pad takes what the transformer was made for, only. */
static void
test_sink_caps (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstPad *pad = gst_element_get_static_pad (denoiser->element, "sink");
  GstCaps *caps = gst_pad_query_caps (pad, NULL);
  gint hidden;

  g_assert_true (gst_structure_get_int (gst_caps_get_structure (caps, 0),
      "hidden", &hidden));
  g_assert_cmpint (hidden, ==, denoiser->info.hidden);
  gst_caps_unref (caps);
  gst_object_unref (pad);
}

static void
test_live (void)
{
  g_autoptr (Denoiser) denoiser =
      denoiser_new ("t2va", "timestamps", "live", "lead", "1000000000", NULL);
  GstBuffer *video, *audio;
  const GstClockTime length = gst_util_uint64_scale (22, GST_SECOND, 24);

  /* ready at 0: begins at lead */
  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, &video, &audio));
  g_assert_cmpuint (GST_BUFFER_PTS (video), ==, GST_SECOND);
  g_assert_cmpuint (GST_BUFFER_PTS (audio), ==, GST_SECOND);
  g_assert_cmpuint (GST_BUFFER_OFFSET (video), ==, 0);
  gst_buffer_unref (video);
  gst_buffer_unref (audio);

  /* in time: follows without a gap */
  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, &video, &audio));
  g_assert_cmpuint (GST_BUFFER_PTS (video), >=, GST_SECOND + length);
  g_assert_cmpuint (GST_BUFFER_PTS (video), <=,
      GST_SECOND + GST_BUFFER_DURATION (audio));
  gst_buffer_unref (video);
  gst_buffer_unref (audio);

  /* late: begins lead after it is ready */
  g_assert_true (gst_harness_set_time (denoiser->video, 60 * GST_SECOND));
  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, &video, &audio));
  g_assert_cmpuint (GST_BUFFER_PTS (video), ==, 61 * GST_SECOND);
  g_assert_true (GST_BUFFER_FLAG_IS_SET (video, GST_BUFFER_FLAG_DISCONT));
  g_assert_cmpuint (GST_BUFFER_OFFSET (video), ==, 44);
  gst_buffer_unref (video);
  gst_buffer_unref (audio);
}

/* While a live clip is being made downstream gets GAPs up to now. */
static void
test_live_gaps (void)
{
  /* long enough on a GPU, too, for a GAP to be due */
  const gchar *side = h3_test_on_gpu () ? "2048" : "96";
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", "timestamps", "live",
      "steps", "1000", "width", side, "height", side, NULL);
  GstClockTime start = GST_CLOCK_TIME_NONE, duration = 0;

  g_assert_true (gst_harness_set_time (denoiser->video, 5 * GST_SECOND));
  denoiser_push (denoiser);
  while (!GST_CLOCK_TIME_IS_VALID (start)) {
    GstEvent *event = gst_harness_pull_event (denoiser->audio);

    g_assert_nonnull (event);
    if (GST_EVENT_TYPE (event) == GST_EVENT_GAP)
      gst_event_parse_gap (event, &start, &duration);
    gst_event_unref (event);
  }
  g_assert_cmpuint (start, ==, 0);
  g_assert_cmpuint (duration, ==, 5 * GST_SECOND);
}

void
add_clip_tests (void)
{
  g_test_add_func ("/denoise/clip/golden", test_golden);
  g_test_add_func ("/denoise/clip/quantised", test_quantised);
  g_test_add_func ("/denoise/clip/caps", test_caps);
  g_test_add_func ("/denoise/clip/system-memory", test_system_memory);
  g_test_add_func ("/denoise/clip/continuous", test_continuous);
  g_test_add_func ("/denoise/clip/seed", test_seed);
  g_test_add_func ("/denoise/clip/tags", test_tags);
  g_test_add_func ("/denoise/clip/memory", test_memory);
  g_test_add_func ("/denoise/clip/eos-without-data", test_eos_without_data);
  g_test_add_func ("/denoise/clip/eos-after-jobs", test_eos_after_jobs);
  g_test_add_func ("/denoise/clip/stream-after-eos", test_stream_after_eos);
  g_test_add_func ("/denoise/clip/unlinked", test_unlinked);
  g_test_add_func ("/denoise/clip/queries", test_queries);
  g_test_add_func ("/denoise/clip/sink-caps", test_sink_caps);
  g_test_add_func ("/denoise/clip/live", test_live);
  g_test_add_func ("/denoise/clip/live-gaps", test_live_gaps);
}
