/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3textenc and h3denoise together, in pipelines as people write them. */
#include <gst/gst.h>
#include <gst/h3/h3.h>

#include <glib/gstdio.h>
#include <unistd.h>

#include "h3-test-device.h"

#define TIMEOUT (60 * GST_SECOND)
#define CAPS "text/x-raw,format=utf8"
#ifdef __SANITIZE_ADDRESS__
#define CYCLES 20 /* they are slow there */
#else
#define CYCLES 100
#endif

typedef struct {
  gchar *dir, *prompt, *video, *audio, *frames, *samples;
} Files;

static Files *
files_new (const gchar *prompt)
{
  Files *files = g_new (Files, 1);

  files->dir = h3_test_temp_dir ();
  files->prompt = g_build_filename (files->dir, "prompt.txt", NULL);
  files->video = g_build_filename (files->dir, "video.f32", NULL);
  files->audio = g_build_filename (files->dir, "audio.f32", NULL);
  files->frames = g_build_filename (files->dir, "frames.rgb", NULL);
  files->samples = g_build_filename (files->dir, "samples.f32", NULL);
  h3_test_write_file (files->prompt, prompt, strlen (prompt));
  return files;
}

static void
files_free (Files *files)
{
  h3_test_remove_tree (files->dir);
  g_free (files->dir);
  g_free (files->prompt);
  g_free (files->video);
  g_free (files->audio);
  g_free (files->frames);
  g_free (files->samples);
  g_free (files);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Files, files_free)

static GstElement *
parse (const gchar *format, ...)
{
  va_list args;
  gchar *launch;
  GstElement *pipeline;
  GError *error = NULL;

  va_start (args, format);
  launch = g_strdup_vprintf (format, args);
  va_end (args);
  pipeline = gst_parse_launch (launch, &error);
  g_assert_no_error (error);
  gst_object_ref_sink (pipeline);
  g_free (launch);
  return pipeline;
}

static void
wait_eos (GstElement *pipeline)
{
  GstBus *bus = gst_element_get_bus (pipeline);
  GstMessage *message = gst_bus_timed_pop_filtered (bus, TIMEOUT,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);

  if (!message)
    g_error ("no EOS");
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    g_error ("%s",
        gst_structure_to_string (gst_message_get_structure (message)));
  gst_message_unref (message);
  gst_object_unref (bus);
}

static void
run (GstElement *pipeline)
{
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  wait_eos (pipeline);
  gst_element_set_state (pipeline, GST_STATE_NULL);
}

static void
assert_file (const gchar *path, const gchar *golden, const gchar *tensor,
    gdouble tolerance)
{
  gsize n, size;
  g_autofree gfloat *want = h3_test_golden (golden, tensor, &n);
  g_autofree gchar *got = NULL;

  g_assert_true (g_file_get_contents (path, &got, &size, NULL));
  g_assert_cmpuint (size, ==, n * sizeof (gfloat));
  h3_test_assert_close ((const gfloat *) got, want, n, tolerance);
}

static void
assert_frames (const gchar *path, const gchar *golden)
{
  gsize n, size;
  g_autofree gint32 *want = h3_test_golden_ints (golden, "video_u8", &n);
  g_autofree gchar *got = NULL;

  g_assert_true (g_file_get_contents (path, &got, &size, NULL));
  g_assert_cmpuint (size, ==, n);
  h3_test_assert_codes ((const guint8 *) got, want, n);
}

/* The golden sound is planar, ours is interleaved. */
static void
assert_samples (const gchar *path, const gchar *golden)
{
  gsize n, size;
  g_autofree gfloat *planar = h3_test_golden (golden, "audio", &n);
  g_autofree gfloat *want = g_new (gfloat, n);
  g_autofree gchar *got = NULL;

  for (gsize i = 0; i < n; i++)
    want[i] = planar[i % 2 * (n / 2) + i / 2];
  g_assert_true (g_file_get_contents (path, &got, &size, NULL));
  g_assert_cmpuint (size, ==, n * sizeof (gfloat));
  h3_test_assert_max_abs ((const gfloat *) got, want, n,
      H3_TEST_REQUEST_SAMPLES);
}

/* TINY_PRUNED: TINY_COMFY with a pruned transformer. */
typedef enum { DEMO, TINY, TINY_COMFY, TINY_PRUNED } Model;

/* The property for the element of the component whose single file is @file. */
static gchar *
model_path (Model model, const gchar *file)
{
  switch (model) {
    case TINY:
      return g_strdup_printf ("model-path=%s", h3_test_tiny_dir ());
    case TINY_COMFY:
    case TINY_PRUNED:
      return g_strdup_printf ("model-path=%s/%s.safetensors",
          model == TINY_PRUNED && g_str_has_prefix (file, "diffusion_models")
              ? h3_test_tiny_pruned_dir ()
              : h3_test_tiny_comfy_dir (),
          file);
    default:
      return g_strdup ("");
  }
}

/* From a prompt and a seed in files to raw latents, frames and samples in
 * files. */
static void
test_golden (void)
{
  static const struct {
    const gchar *golden, *prompt, *settings;
    Model model;
  } cases[] = {
    { "request_t2va.safetensors",
        "A brass-and-paper dragon flies above a rain-washed old city at blue "
        "hour.",
        "width=96 height=64 frames=22 steps=4 seed=440204", TINY_COMFY },
    { "request_t2va.safetensors",
        "A brass-and-paper dragon flies above a rain-washed old city at blue "
        "hour.",
        "width=96 height=64 frames=22 steps=4 seed=440204", TINY_PRUNED },
    { "request_t2va.safetensors",
        "A brass-and-paper dragon flies above a rain-washed old city at blue "
        "hour.",
        "width=96 height=64 frames=22 steps=4 seed=440204", TINY },
    { "request_t2va_39.safetensors",
        "一只红色的狐狸在雪地里奔跑。<d>[English]Hello</d>\n",
        "width=64 height=96 frames=39 steps=3 seed=7", TINY },
    { "demo/t2va_22.safetensors",
        "a red circle moves right on a blue background, high tone\n",
        "steps=8 seed=1", DEMO },
    { "demo/t2va_39.safetensors",
        "A yellow square moves down on a purple background. Low tone.",
        "frames=39 steps=8 seed=2", DEMO },
    { "demo/t2va_portrait.safetensors",
        "on a green background, a white triangle moves up, with a mid tone",
        "aspect-ratio=2/3 steps=8 seed=3", DEMO },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (Files) files = files_new (cases[i].prompt);
    const Model model = cases[i].model;
    g_autofree gchar *text =
        model_path (model, "text_encoders/qwen3vl_32b_minimax_h3_bf16");
    g_autofree gchar *transformer =
        model_path (model, "diffusion_models/minimax_h3_fl2va_bf16");
    g_autofree gchar *video =
        model_path (model, "vae/minimax_h3_video_vae_fp16");
    g_autofree gchar *audio =
        model_path (model, "vae/minimax_h3_audio_vae_fp32");
    gdouble latents = model == DEMO ? H3_TEST_DEMO_LATENTS : H3_TEST_LATENTS;
    GstElement *pipeline =
        parse ("filesrc location=%s ! " CAPS " ! h3textenc %s "
               "! h3denoise name=d %s %s d.video ! tee name=v v. ! queue ! "
               "filesink location=%s v. ! queue ! h3videovae %s ! "
               "video/x-raw,format=RGB ! filesink location=%s "
               "d.audio ! tee name=a a. ! queue ! filesink location=%s "
               "a. ! queue ! h3audiovae %s ! filesink location=%s",
            files->prompt, text, transformer, cases[i].settings, files->video,
            video, files->frames, files->audio, audio, files->samples);

    run (pipeline);
    gst_object_unref (pipeline);
    assert_file (files->video, cases[i].golden, "final_latents", latents);
    assert_file (files->audio, cases[i].golden, "final_audio_latents", latents);
    assert_frames (files->frames, cases[i].golden);
    assert_samples (files->samples, cases[i].golden);
  }
}

typedef struct {
  guint video, audio;
  GstClockTime video_end;
  guint64 frames;
  gboolean gap;
} Counts;

static void
count_video (GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer data)
{
  Counts *counts = data;

  counts->gap |= GST_BUFFER_PTS (buffer) != counts->video_end ||
                 GST_BUFFER_OFFSET (buffer) != counts->frames;
  counts->video_end = GST_BUFFER_PTS (buffer) + GST_BUFFER_DURATION (buffer);
  counts->frames = GST_BUFFER_OFFSET_END (buffer);
  counts->video++;
}

static void
count_audio (GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer data)
{
  ((Counts *) data)->audio++;
}

static void
count_buffers (GstElement *pipeline, Counts *counts)
{
  GstElement *video = gst_bin_get_by_name (GST_BIN (pipeline), "v");
  GstElement *audio = gst_bin_get_by_name (GST_BIN (pipeline), "a");

  memset (counts, 0, sizeof *counts);
  g_signal_connect (video, "handoff", G_CALLBACK (count_video), counts);
  g_signal_connect (audio, "handoff", G_CALLBACK (count_audio), counts);
  gst_object_unref (video);
  gst_object_unref (audio);
}

static void
push_prompt (GstElement *appsrc, const gchar *prompt)
{
  GstBuffer *buffer = gst_buffer_new_memdup (prompt, strlen (prompt));
  GstFlowReturn ret;

  g_signal_emit_by_name (appsrc, "push-buffer", buffer, &ret);
  g_assert_cmpint (ret, ==, GST_FLOW_OK);
  gst_buffer_unref (buffer);
}

/* Four prompts in one stream, with and without queues, into sinks that wait for
 * each other in preroll and keep time. */
static void
test_four_prompts (void)
{
  static const gchar *const queues[] = { "", "! queue " };

  for (guint i = 0; i < G_N_ELEMENTS (queues); i++) {
    GstElement *pipeline = parse (
        "appsrc name=p format=time caps=" CAPS " ! "
        "h3textenc ! h3denoise name=d steps=2 d.video %s! fakesink name=v "
        "sync=true signal-handoffs=true ts-offset=-10000000000 d.audio %s! "
        "fakesink name=a sync=true signal-handoffs=true ts-offset=-10000000000",
        queues[i], queues[i]);
    GstElement *appsrc = gst_bin_get_by_name (GST_BIN (pipeline), "p");
    GstFlowReturn ret;
    Counts counts;

    count_buffers (pipeline, &counts);
    gst_element_set_state (pipeline, GST_STATE_PLAYING);
    for (gint k = 0; k < 4; k++)
      push_prompt (appsrc, "a red circle moves right on a blue background");
    g_signal_emit_by_name (appsrc, "end-of-stream", &ret);
    wait_eos (pipeline);
    gst_element_set_state (pipeline, GST_STATE_NULL);
    g_assert_cmpuint (counts.video, ==, 4);
    g_assert_cmpuint (counts.audio, ==, 4);
    g_assert_cmpuint (counts.frames, ==, 88);
    g_assert_false (counts.gap);
    gst_object_unref (appsrc);
    gst_object_unref (pipeline);
  }
}

/* As gstreamer.md 8.5 wires keyframes: each picture to both encoders. */
static void
test_keyframes (void)
{
  const gchar *golden = "request_fl2va_both.safetensors";
  const gchar *model = h3_test_tiny_dir ();
  g_autoptr (Files) files =
      files_new ("A brass-and-paper dragon flies above a rain-washed old city "
                 "at blue hour.");
  g_autofree gchar *media = h3_test_golden_path ("tiny/golden/media/first.png");
  g_autofree gchar *media_dir = g_path_get_dirname (media);
  g_autoptr (GstElement) pipeline =
      parse ("filesrc location=%s ! " CAPS " ! h3textenc name=e model-path=%s "
             "width=96 height=64 ! h3denoise name=d model-path=%s frames=22 "
             "steps=3 seed=3 "
             "filesrc location=%s/first.png ! pngdec ! tee name=first "
             "first. ! queue ! e.image_0 "
             "first. ! queue ! h3videovaeenc model-path=%s width=96 height=64 "
             "role=first-frame ! d.first_frame "
             "filesrc location=%s/last.png ! pngdec ! tee name=last "
             "last. ! queue ! e.image_1 "
             "last. ! queue ! h3videovaeenc model-path=%s width=96 height=64 "
             "role=last-frame fit=cover ! d.last_frame "
             "d.video ! filesink location=%s d.audio ! filesink location=%s",
          files->prompt, model, model, media_dir, model, media_dir, model,
          files->video, files->audio);

  run (pipeline);
  assert_file (files->video, golden, "final_latents", H3_TEST_LATENTS);
  assert_file (files->audio, golden, "final_audio_latents", H3_TEST_LATENTS);
}

static void
test_no_prompt (void)
{
  GstElement *pipeline = parse (
      "filesrc location=/dev/null ! " CAPS " ! "
      "h3textenc ! h3denoise name=d d.video ! fakesink d.audio ! fakesink");

  run (pipeline);
  gst_object_unref (pipeline);
}

/* Text no prompt can be, from a file: what is said, and that the same pipeline
 * makes a clip of good text next. */
static void
test_bad_text (void)
{
  g_autofree gchar *megabyte = g_strnfill (1 << 20, 'a');
  const struct {
    const gchar *text;
    gsize size;
    const gchar *says; /* NULL: it is good */
  } cases[] = {
    { "\n", 1, "empty" },
    { "a red\xff", 6, "0xff at offset 5" },
    { megabyte, 1 << 20, "tokens" },
    { "a red\0circle", 12, NULL },
  };
  g_autoptr (Files) files = files_new ("");
  GstElement *pipeline =
      parse ("filesrc location=%s ! " CAPS " ! h3textenc ! h3denoise name=d "
             "steps=1 d.video ! h3videovae ! filesink location=%s "
             "d.audio ! h3audiovae ! filesink location=%s",
          files->prompt, files->frames, files->samples);
  GstBus *bus = gst_element_get_bus (pipeline);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    h3_test_write_file (files->prompt, cases[i].text, cases[i].size);
    if (cases[i].says) {
      GstMessage *message;
      GError *error;

      gst_element_set_state (pipeline, GST_STATE_PLAYING);
      message = gst_bus_timed_pop_filtered (bus, TIMEOUT,
          GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
      g_assert_nonnull (message);
      g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_ERROR);
      gst_message_parse_error (message, &error, NULL);
      g_assert_error (error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT);
      g_assert_nonnull (strstr (error->message, cases[i].says));
      g_error_free (error);
      gst_message_unref (message);
      gst_element_set_state (pipeline, GST_STATE_NULL);
      g_assert_cmpint (h3_test_file_size (files->frames), ==, 0);
      g_assert_cmpint (h3_test_file_size (files->samples), ==, 0);
      h3_test_write_file (files->prompt, "a red circle", 12);
    }
    run (pipeline);
    g_assert_cmpint (h3_test_file_size (files->frames), ==,
        22 * 96 * 64 * 3 / 2);
    g_assert_cmpint (h3_test_file_size (files->samples), ==, 37 * 800 * 8);
  }
  gst_object_unref (bus);
  gst_object_unref (pipeline);
}

/* Going down while a clip is made: at once. */
static void
test_stop_early (void)
{
  g_autoptr (Files) files = files_new ("a red circle moves right");
  GstElement *pipeline = parse ("filesrc location=%s ! " CAPS " ! h3textenc ! "
                                "h3denoise name=d steps=1000 frames=362 "
                                "d.video ! fakesink d.audio ! fakesink",
      files->prompt);
  gint64 start;

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  g_usleep (300000);
  start = g_get_monotonic_time ();
  gst_element_set_state (pipeline, GST_STATE_NULL);
  g_assert_cmpint (g_get_monotonic_time () - start, <, G_USEC_PER_SEC);
  gst_object_unref (pipeline);
}

/* Text encoder and transformer of different checkpoints do not fit. */
/* What follows both pads leads nowhere, and says so at different times: the first
 * pad's stream has ended by then. An error, and not silence for ever. */
static void
test_nowhere (void)
{
  g_autoptr (Files) files = files_new ("a red circle");
  GstElement *pipeline = parse ("filesrc location=%s ! " CAPS " ! h3textenc ! "
                                "h3denoise name=d steps=1 d.video ! identity "
                                "d.audio ! identity sleep-time=200000",
      files->prompt);
  GstBus *bus = gst_element_get_bus (pipeline);
  GstMessage *message;

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, TIMEOUT, GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  g_assert_cmpstr (GST_MESSAGE_SRC_NAME (message), ==, "d");
  gst_message_unref (message);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (bus);
  gst_object_unref (pipeline);
}

static void
test_mixed_checkpoints (void)
{
  g_autoptr (Files) files = files_new ("a red circle moves right");
  GstElement *pipeline = parse ("filesrc location=%s ! " CAPS " ! h3textenc ! "
                                "h3denoise name=d model-path=%s d.video ! "
                                "fakesink d.audio ! fakesink",
      files->prompt, h3_test_tiny_dir ());
  GstBus *bus = gst_element_get_bus (pipeline);
  GstMessage *message;
  GError *error;

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, TIMEOUT, GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  gst_message_parse_error (message, &error, NULL);
  g_assert_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION);
  g_assert_nonnull (strstr (error->message, "hidden"));
  g_error_free (error);
  gst_message_unref (message);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (bus);
  gst_object_unref (pipeline);
}

/* Latents cross gdppay and a file: caps hold all that is needed. */
static void
test_gdp (void)
{
  g_autoptr (Files) files = files_new ("a red circle moves right");
  GstElement *pipeline;
  GstCaps *caps;
  GstPad *pad;
  GstElement *sink;
  GstH3LatentInfo info;
  GError *error = NULL;

  if (!gst_registry_check_feature_version (gst_registry_get (), "gdppay", 1, 0,
          0)) {
    g_test_skip ("gdppay is not installed");
    return;
  }
  pipeline =
      parse ("filesrc location=%s ! " CAPS " ! h3textenc ! h3denoise "
             "name=d steps=2 d.video ! gdppay ! filesink location=%s d.audio ! "
             "fakesink",
          files->prompt, files->video);
  run (pipeline);
  gst_object_unref (pipeline);
  pipeline =
      parse ("filesrc location=%s ! gdpdepay ! fakesink name=v", files->video);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  wait_eos (pipeline);
  sink = gst_bin_get_by_name (GST_BIN (pipeline), "v");
  pad = gst_element_get_static_pad (sink, "sink");
  caps = gst_pad_get_current_caps (pad);
  g_assert_true (gst_h3_latent_info_from_caps (&info, caps, &error));
  g_assert_no_error (error);
  g_assert_cmpint (info.frames, ==, 7);
  gst_caps_unref (caps);
  gst_object_unref (pad);
  gst_object_unref (sink);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (pipeline);
}

static gsize
resident_bytes (void)
{
  g_autofree gchar *text = NULL;
  gsize size = 0, resident = 0;

  g_assert_true (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL));
  g_assert_cmpint (sscanf (text, "%zu %zu", &size, &resident), ==, 2);
  return resident * sysconf (_SC_PAGESIZE);
}

static GstTracer *
leaks_tracer (void)
{
  GList *tracers = gst_tracing_get_active_tracers ();
  GstTracer *found = NULL;

  for (GList *link = tracers; link; link = link->next) {
    if (g_str_equal (G_OBJECT_TYPE_NAME (link->data), "GstLeaksTracer"))
      found = gst_object_ref (link->data);
  }
  g_list_free_full (tracers, gst_object_unref);
  return found;
}

/* What was made and not freed since tracking began. */
static guint
count_leaks (GstTracer *tracer)
{
  GstStructure *checkpoint = NULL;
  const GValue *made, *freed;
  guint n;

  g_signal_emit_by_name (tracer, "activity-get-checkpoint", &checkpoint);
  g_assert_nonnull (checkpoint);
  made = gst_structure_get_value (checkpoint, "objects-created-list");
  freed = gst_structure_get_value (checkpoint, "objects-removed-list");
  g_assert_nonnull (made);
  g_assert_nonnull (freed);
  n = gst_value_list_get_size (made) - gst_value_list_get_size (freed);
  gst_structure_free (checkpoint);
  return n;
}

static void
cycle (const gchar *prompt, gboolean clip)
{
  GstElement *pipeline =
      parse ("filesrc location=%s ! " CAPS " ! h3textenc ! "
             "h3denoise name=d steps=1 d.video ! fakesink d.audio ! fakesink",
          prompt);

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  if (clip)
    wait_eos (pipeline);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (pipeline);
}

static void
cycle_often (const gchar *prompt, guint n)
{
  for (guint i = 0; i < n; i++)
    cycle (prompt, i % 2);
}

/* NULL to PLAYING and back, with a clip and in the middle of one. The tracker
 * of objects takes memory itself, so the two are looked at one after the
 * other. */
static void
test_cycles (void)
{
  g_autoptr (Files) files = files_new ("a red circle moves right");
  GstTracer *tracer = leaks_tracer ();
  gsize before, after;

  g_assert_nonnull (tracer);
  cycle_often (files->prompt, 20);
  before = resident_bytes ();
  cycle_often (files->prompt, CYCLES);
  after = resident_bytes ();
  g_test_message ("%zu bytes resident before, %zu after", before, after);
#ifndef __SANITIZE_ADDRESS__
  g_assert_cmpuint (after, <, before + 16 * 1024 * 1024);
#endif
  g_signal_emit_by_name (tracer, "activity-start-tracking");
  cycle_often (files->prompt, CYCLES);
  /* a bin's thread may just be giving up the last pipeline's state change */
  for (guint i = 0; i < 50 && count_leaks (tracer) > 0; i++)
    g_usleep (100 * 1000);
  g_assert_cmpuint (count_leaks (tracer), ==, 0);
  g_signal_emit_by_name (tracer, "activity-stop-tracking");
  gst_object_unref (tracer);
}

int
main (int argc, char **argv)
{
  g_setenv ("GST_TRACERS", "leaks", TRUE);
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  if (h3_test_skip_program ())
    return 0;
  g_test_add_func ("/pipeline/golden", test_golden);
  g_test_add_func ("/pipeline/four-prompts", test_four_prompts);
  g_test_add_func ("/pipeline/keyframes", test_keyframes);
  g_test_add_func ("/pipeline/no-prompt", test_no_prompt);
  g_test_add_func ("/pipeline/bad-text", test_bad_text);
  g_test_add_func ("/pipeline/stop-early", test_stop_early);
  g_test_add_func ("/pipeline/nowhere", test_nowhere);
  g_test_add_func ("/pipeline/mixed-checkpoints", test_mixed_checkpoints);
  g_test_add_func ("/pipeline/gdp", test_gdp);
  g_test_add_func ("/pipeline/cycles", test_cycles);
  return g_test_run ();
}
