/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3src: the properties of its parts, runs, ends, errors. On the demo checkpoint,
 * whose first golden clip it must make from the prompt and the seed. */
#include <gst/gst.h>

#include "h3-test-device.h"

#define GOLDEN "demo/t2va_22.safetensors"
#define TINY_GOLDEN "request_t2va.safetensors"
#define TINY_PROMPT                                                            \
  "A brass-and-paper dragon flies above a rain-washed old city at blue hour."
#define PROMPT "a red circle moves right on a blue background, high tone"

/* A pipeline with an h3src called "h3" and sinks that keep what comes. */
typedef struct {
  GstElement *pipeline, *h3;
  GstBus *bus;
  GByteArray *video, *audio;
} Run;

static void
keep (GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer bytes)
{
  GstMapInfo map;

  g_assert_true (gst_buffer_map (buffer, &map, GST_MAP_READ));
  g_byte_array_append (bytes, map.data, map.size);
  gst_buffer_unmap (buffer, &map);
}

static GByteArray *
keep_from (Run *run, const gchar *name)
{
  GByteArray *bytes = g_byte_array_new ();
  GstElement *sink = gst_bin_get_by_name (GST_BIN (run->pipeline), name);

  if (sink) {
    g_object_set (sink, "signal-handoffs", TRUE, NULL);
    g_signal_connect (sink, "handoff", G_CALLBACK (keep), bytes);
    gst_object_unref (sink);
  }
  return bytes;
}

/* @settings: of h3src; @branches: what its pads go to */
static Run *
run_new (const gchar *settings, const gchar *branches)
{
  Run *run = g_new0 (Run, 1);
  g_autofree gchar *launch =
      g_strdup_printf ("h3src name=h3 width=96 height=64 frames=22 steps=8 "
                       "seed=1 %s %s",
          settings, branches);
  GError *error = NULL;

  run->pipeline = gst_parse_launch (launch, &error);
  g_assert_no_error (error);
  run->h3 = gst_bin_get_by_name (GST_BIN (run->pipeline), "h3");
  g_object_set (run->h3, "model-path", h3_test_demo_dir (), NULL);
  run->bus = gst_element_get_bus (run->pipeline);
  run->video = keep_from (run, "video");
  run->audio = keep_from (run, "audio");
  return run;
}

#define BOTH                                                                   \
  "h3.video ! video/x-raw,format=RGB ! fakesink name=video sync=false "        \
  "h3.audio ! fakesink name=audio sync=false"

static void
run_free (Run *run)
{
  gst_element_set_state (run->pipeline, GST_STATE_NULL);
  gst_object_unref (run->h3);
  gst_object_unref (run->bus);
  gst_object_unref (run->pipeline);
  g_byte_array_unref (run->video);
  g_byte_array_unref (run->audio);
  g_free (run);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Run, run_free)

/* To EOS; the error when there is one. */
static GError *
run_wait (Run *run)
{
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (run->bus,
      60 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  GError *error = NULL;

  g_assert_nonnull (message);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    gst_message_parse_error (message, &error, NULL);
  return error;
}

static void
run_to_end (Run *run)
{
  g_autoptr (GError) error = NULL;

  g_byte_array_set_size (run->video, 0);
  g_byte_array_set_size (run->audio, 0);
  gst_element_set_state (run->pipeline, GST_STATE_PLAYING);
  error = run_wait (run);
  g_assert_no_error (error);
}

static void
assert_samples (const Run *run, const gchar *golden)
{
  gsize n;
  g_autofree gfloat *planar = h3_test_golden (golden, "audio", &n);
  g_autofree gfloat *interleaved = g_new (gfloat, n);

  g_assert_cmpuint (run->audio->len, ==, n * sizeof (gfloat));
  for (gsize i = 0; i < n / 2; i++) {
    interleaved[2 * i] = planar[i];
    interleaved[2 * i + 1] = planar[n / 2 + i];
  }
  h3_test_assert_max_abs ((const gfloat *) run->audio->data, interleaved, n,
      H3_TEST_REQUEST_SAMPLES);
}

static void
assert_golden (const Run *run)
{
  gsize n;
  g_autofree gint32 *want = h3_test_golden_ints (GOLDEN, "video_u8", &n);

  g_assert_cmpuint (run->video->len, ==, n);
  h3_test_assert_codes (run->video->data, want, n);
  assert_samples (run, GOLDEN);
}

static void
test_golden (void)
{
  g_autoptr (Run) run = run_new ("prompt=\"" PROMPT "\"", BOTH);

  run_to_end (run);
  assert_golden (run);
}

/* Half precision in the video autoencoder's weights: 64 dB. */
static void
assert_near (const Run *run, const gchar *golden)
{
  gsize n;
  g_autofree gint32 *want = h3_test_golden_ints (golden, "video_u8", &n);
  gdouble squares = 0;

  g_assert_cmpuint (run->video->len, ==, n);
  for (gsize i = 0; i < n; i++) {
    gint error = run->video->data[i] - want[i];

    squares += (gdouble) error * error;
  }
  g_assert_cmpfloat (squares / n, <, h3_test_tolerance (0.05, 1));
  assert_samples (run, golden);
}

/* ComfyUI's folder of single files with a pruned transformer; its models all at
 * once, and in turns. */
static void
test_pruned (void)
{
  static const gchar *const settings[] = { "steps=4 seed=440204",
    "steps=4 seed=440204 residency=stage" };

  for (guint i = 0; i < G_N_ELEMENTS (settings); i++) {
    g_autoptr (Run) run = run_new (settings[i], BOTH);

    g_object_set (run->h3, "model-path", h3_test_tiny_pruned_dir (), "prompt",
        TINY_PROMPT, NULL);
    run_to_end (run);
    assert_near (run, TINY_GOLDEN);
  }
}

/* As on a command line: a Turbo adapter and what goes with it. */
static void
test_turbo (void)
{
  g_autofree gchar *lora =
      g_strdup_printf ("loras=\"<%s/turbo.safetensors:0.5>\"",
          g_getenv ("H3_ADAPTERS_DIR"));
  g_autofree gchar *all = g_strconcat ("@preset=turbo-4-768p ", lora, NULL);
  g_autofree gchar *mine =
      g_strconcat ("shift-video=6 shift-audio=3 schedule=uniform solver=euler ",
          lora, NULL);
  const gchar *const settings[] = { "", mine, all };
  Run *runs[G_N_ELEMENTS (settings)];
  guint steps;

  for (guint i = 0; i < G_N_ELEMENTS (settings); i++) {
    runs[i] = run_new (settings[i], BOTH);
    g_object_set (runs[i]->h3, "model-path", h3_test_tiny_dir (), "prompt",
        TINY_PROMPT, NULL);
    if (i < 2)
      g_object_set (runs[i]->h3, "steps", 4, NULL);
    g_object_get (runs[i]->h3, "steps", &steps, NULL);
    g_assert_cmpuint (steps, ==, 4);
    run_to_end (runs[i]);
  }
  g_assert_cmpmem (runs[1]->audio->data, runs[1]->audio->len,
      runs[2]->audio->data, runs[2]->audio->len);
  g_assert_cmpuint (runs[0]->audio->len, ==, runs[1]->audio->len);
  g_assert_cmpint (memcmp (runs[0]->audio->data, runs[1]->audio->data,
                       runs[0]->audio->len),
      !=, 0);
  for (guint i = 0; i < G_N_ELEMENTS (settings); i++)
    run_free (runs[i]);
}

/* Another prompt in READY, and back: bit-equal. */
static void
test_next_prompt (void)
{
  g_autoptr (Run) run = run_new ("prompt=\"" PROMPT "\"", BOTH);
  g_autoptr (GBytes) first = NULL, second = NULL;

  run_to_end (run);
  first = g_bytes_new (run->video->data, run->video->len);
  gst_element_set_state (run->pipeline, GST_STATE_READY);
  g_object_set (run->h3, "prompt", "a blue square moves up", NULL);
  run_to_end (run);
  second = g_bytes_new (run->video->data, run->video->len);
  g_assert_false (g_bytes_equal (first, second));
  gst_element_set_state (run->pipeline, GST_STATE_READY);
  g_object_set (run->h3, "prompt", PROMPT, NULL);
  run_to_end (run);
  assert_golden (run);
  g_assert_cmpmem (run->video->data, run->video->len,
      g_bytes_get_data (first, NULL), g_bytes_get_size (first));
}

static void
test_unlinked (void)
{
  g_autoptr (Run) no_audio = run_new ("prompt=\"" PROMPT "\"",
      "h3.video ! video/x-raw,format=RGB ! fakesink name=video sync=false");
  g_autoptr (Run) no_video = run_new ("prompt=\"" PROMPT "\"",
      "h3.audio ! fakesink name=audio sync=false");

  run_to_end (no_audio);
  g_assert_cmpuint (no_audio->video->len, ==, 22 * 96 * 64 * 3);
  run_to_end (no_video);
  g_assert_cmpuint (no_video->audio->len, ==, 29600 * 8);
}

/* Properties */

static void
check_same (GstElement *h3, const gchar *child_name)
{
  g_autoptr (GstElement) child = gst_bin_get_by_name (GST_BIN (h3), child_name);
  g_autoptr (GstElement) denoise =
      gst_bin_get_by_name (GST_BIN (h3), "denoise");
  guint n, checked = 0;
  g_autofree GParamSpec **specs = NULL;

  g_assert_nonnull (child);
  specs = g_object_class_list_properties (G_OBJECT_GET_CLASS (child), &n);
  for (guint i = 0; i < n; i++) {
    GParamSpec *mine;

    if (!g_str_has_prefix (g_type_name (specs[i]->owner_type), "GstH3") ||
        !(specs[i]->flags & G_PARAM_WRITABLE))
      continue;
    /* where both have one, the denoiser's is shown */
    if (child != denoise &&
        g_object_class_find_property (G_OBJECT_GET_CLASS (denoise),
            specs[i]->name))
      continue;
    mine =
        g_object_class_find_property (G_OBJECT_GET_CLASS (h3), specs[i]->name);
    g_assert_nonnull (mine);
    g_assert_true (mine->value_type == specs[i]->value_type);
    g_assert_cmpint (mine->flags, ==, specs[i]->flags);
    g_assert_cmpstr (g_param_spec_get_blurb (mine), ==,
        g_param_spec_get_blurb (specs[i]));
    g_assert_cmpint (g_param_values_cmp (mine,
                         g_param_spec_get_default_value (mine),
                         g_param_spec_get_default_value (specs[i])),
        ==, 0);
    checked++;
  }
  g_assert_cmpuint (checked, >=, 2);
}

static void
test_properties (void)
{
  g_autoptr (GstElement) h3 = gst_element_factory_make ("h3src", NULL);
  static const gchar *const children[] = { "textenc", "denoise", "videovae",
    "audiovae" };
  g_autofree gchar *path = NULL;
  guint steps, skip;
  guint64 budget;

  gst_object_ref_sink (h3);
  for (guint i = 0; i < G_N_ELEMENTS (children); i++)
    check_same (h3, children[i]);

  g_object_set (h3, "steps", 33, "model-path", "/x", "skip-samples", 1024,
      NULL);
  gst_child_proxy_get (GST_CHILD_PROXY (h3), "denoise::steps", &steps,
      "audiovae::skip-samples", &skip, NULL);
  g_assert_cmpuint (steps, ==, 33);
  g_assert_cmpuint (skip, ==, 1024);
  for (guint i = 0; i < G_N_ELEMENTS (children); i++) {
    g_autofree gchar *name = g_strconcat (children[i], "::model-path", NULL);
    g_autofree gchar *got = NULL;
    gst_child_proxy_get (GST_CHILD_PROXY (h3), name, &got, NULL);
    g_assert_cmpstr (got, ==, "/x");
  }
  g_object_get (h3, "steps", &steps, "model-path", &path, NULL);
  g_assert_cmpuint (steps, ==, 33);
  g_assert_cmpstr (path, ==, "/x");

  gst_child_proxy_set (GST_CHILD_PROXY (h3), "textenc::memory-budget",
      (guint64) 1 << 30, NULL);
  gst_child_proxy_get (GST_CHILD_PROXY (h3), "textenc::memory-budget", &budget,
      NULL);
  g_assert_cmpuint (budget, ==, 1 << 30);
  gst_child_proxy_get (GST_CHILD_PROXY (h3), "denoise::memory-budget", &budget,
      NULL);
  g_assert_cmpuint (budget, ==, 0);
}

static void
test_stats (void)
{
  g_autoptr (Run) run = run_new ("prompt=\"" PROMPT "\"", BOTH);
  g_autoptr (GstStructure) stats = NULL;
  static const gchar *const children[] = { "textenc", "denoise", "videovae",
    "audiovae" };
  guint64 frames;

  run_to_end (run);
  g_object_get (run->h3, "stats", &stats, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (children); i++)
    g_assert_true (
        gst_structure_has_field_typed (stats, children[i], GST_TYPE_STRUCTURE));
  g_assert_true (gst_structure_get_uint64 (gst_value_get_structure (
                                               gst_structure_get_value (stats,
                                                   "videovae")),
      "frames", &frames));
  g_assert_cmpuint (frames, ==, 22);
}

/* What a sink holds in PAUSED must not keep a player waiting for progress. */
static void
test_progress_ends (void)
{
  g_autoptr (Run) run = run_new ("prompt=\"" PROMPT "\"", BOTH);
  GstMessage *message;
  gint running = 0;

  gst_element_set_state (run->pipeline, GST_STATE_PAUSED);
  g_assert_cmpint (gst_element_get_state (run->pipeline, NULL, NULL,
                       60 * GST_SECOND),
      ==, GST_STATE_CHANGE_SUCCESS);
  g_usleep (G_USEC_PER_SEC / 2);
  while ((message = gst_bus_pop_filtered (run->bus, GST_MESSAGE_PROGRESS))) {
    GstProgressType type;

    gst_message_parse_progress (message, &type, NULL, NULL);
    running += type == GST_PROGRESS_TYPE_START;
    running -= type == GST_PROGRESS_TYPE_COMPLETE;
    gst_message_unref (message);
  }
  g_assert_cmpint (running, ==, 0);
}

/* Ends */

static void
wait_for_step (Run *run)
{
  while (TRUE) {
    g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (run->bus,
        60 * GST_SECOND, GST_MESSAGE_ELEMENT | GST_MESSAGE_ERROR);
    const GstStructure *s;

    g_assert_nonnull (message);
    g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_ELEMENT);
    s = gst_message_get_structure (message);
    if (gst_structure_has_name (s, "h3-progress") &&
        !g_strcmp0 (gst_structure_get_string (s, "stage"), "denoise"))
      return;
  }
}

/* EOS sent while a long clip is denoised: the stream ends at once, and the
 * next clip is the golden one. */
static void
test_eos_cancels (void)
{
  g_autoptr (Run) run = run_new ("prompt=\"" PROMPT "\" steps=1000", BOTH);
  g_autoptr (GError) error = NULL;
  gint64 start;

  gst_element_set_state (run->pipeline, GST_STATE_PLAYING);
  wait_for_step (run);
  start = g_get_monotonic_time ();
  g_assert_true (gst_element_send_event (run->pipeline, gst_event_new_eos ()));
  error = run_wait (run);
  g_assert_no_error (error);
  g_assert_cmpint (g_get_monotonic_time () - start, <, 2 * G_USEC_PER_SEC);
  g_assert_cmpuint (run->video->len, ==, 0);

  gst_element_set_state (run->pipeline, GST_STATE_READY);
  g_object_set (run->h3, "steps", 8, NULL);
  run_to_end (run);
  assert_golden (run);
}

static GstPadProbeReturn
count_and_hold (GstPad *pad, GstPadProbeInfo *info, gpointer seen)
{
  if (g_atomic_int_add ((gint *) seen, 1) < 40)
    g_usleep (20000);
  return GST_PAD_PROBE_OK;
}

/* EOS sent while frames come: those that came stay, the rest does not. */
static void
test_eos_cuts (void)
{
  g_autoptr (Run) run =
      run_new ("prompt=\"" PROMPT "\" steps=1 frames=124 chunk=16", BOTH);
  g_autoptr (GError) error = NULL;
  GstPad *pad = gst_element_get_static_pad (run->h3, "video");
  gint seen = 0;

  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, count_and_hold, &seen,
      NULL);
  gst_object_unref (pad);
  gst_element_set_state (run->pipeline, GST_STATE_PLAYING);
  while (g_atomic_int_get (&seen) < 5)
    g_usleep (1000);
  g_assert_true (gst_element_send_event (run->pipeline, gst_event_new_eos ()));
  error = run_wait (run);
  g_assert_no_error (error);
  g_assert_cmpuint (run->video->len, >=, 4 * 96 * 64 * 3);
  g_assert_cmpuint (run->video->len, <, 40 * 96 * 64 * 3);
}

/* To READY in the middle, twice, and then the golden clip. */
static void
test_stop_in_the_middle (void)
{
  g_autoptr (Run) run = run_new ("prompt=\"" PROMPT "\" steps=1000", BOTH);

  for (gint i = 0; i < 2; i++) {
    gint64 start;
    gst_element_set_state (run->pipeline, GST_STATE_PLAYING);
    wait_for_step (run);
    start = g_get_monotonic_time ();
    gst_element_set_state (run->pipeline, GST_STATE_READY);
    g_assert_cmpint (g_get_monotonic_time () - start, <, G_USEC_PER_SEC);
  }
  g_object_set (run->h3, "steps", 8, NULL);
  run_to_end (run);
  assert_golden (run);
}

static void
test_cycles (void)
{
  g_autoptr (Run) run = run_new ("prompt=x preload=none", BOTH);
#ifdef __SANITIZE_ADDRESS__ /* slow, and it finds a leak in the first */
  const gint n = 20;
#else
  const gint n = 100;
#endif

  for (gint i = 0; i < n; i++) {
    g_assert_cmpint (gst_element_set_state (run->pipeline, GST_STATE_PLAYING),
        !=, GST_STATE_CHANGE_FAILURE);
    g_assert_cmpint (gst_element_set_state (run->pipeline, GST_STATE_NULL), ==,
        GST_STATE_CHANGE_SUCCESS);
  }
}

/* Errors */

static void
check_error (const gchar *settings, const gchar *branches, GQuark domain,
    gint code)
{
  g_autoptr (Run) run = run_new (settings, branches);
  g_autoptr (GError) error = NULL;

  gst_element_set_state (run->pipeline, GST_STATE_PLAYING);
  error = run_wait (run);
  g_test_message ("%s", error ? error->message : "no error");
  g_assert_error (error, domain, code);
}

static void
test_errors (void)
{
  check_error ("", BOTH, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS);
  check_error ("prompt=\"\"", BOTH, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT);
  check_error ("prompt=x width=100", BOTH, GST_LIBRARY_ERROR,
      GST_LIBRARY_ERROR_SETTINGS);
  /* before an hour's work */
  check_error ("prompt=x steps=1000",
      "h3.video ! video/x-raw,width=128 ! fakesink name=video "
      "h3.audio ! fakesink name=audio",
      GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION);
}

static void
test_no_checkpoint (void)
{
  g_autoptr (Run) run = run_new ("prompt=x", BOTH);
  g_autoptr (GError) error = NULL;

  g_object_set (run->h3, "model-path", "/nonexistent", NULL);
  g_assert_cmpint (gst_element_set_state (run->pipeline, GST_STATE_PLAYING), ==,
      GST_STATE_CHANGE_FAILURE);
  error = run_wait (run);
  g_assert_error (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND);
}

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  g_test_add_func ("/src/golden", test_golden);
  g_test_add_func ("/src/pruned", test_pruned);
  g_test_add_func ("/src/turbo", test_turbo);
  g_test_add_func ("/src/next-prompt", test_next_prompt);
  g_test_add_func ("/src/unlinked", test_unlinked);
  g_test_add_func ("/src/properties", test_properties);
  g_test_add_func ("/src/stats", test_stats);
  g_test_add_func ("/src/progress-ends", test_progress_ends);
  g_test_add_func ("/src/eos-cancels", test_eos_cancels);
  g_test_add_func ("/src/eos-cuts", test_eos_cuts);
  g_test_add_func ("/src/stop-in-the-middle", test_stop_in_the_middle);
  g_test_add_func ("/src/cycles", test_cycles);
  g_test_add_func ("/src/errors", test_errors);
  g_test_add_func ("/src/no-checkpoint", test_no_checkpoint);
  return g_test_run ();
}
