/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What must hold of pipelines typed at a prompt: golden latents in files, exact
 * MP4, one timeline, no deadlock, interrupts, no leak. */
#include "pipeline-test.h"

#define PROMPT "a red circle moves right on a blue background, high tone"
#define CLIP "width=96 height=64 frames=22 steps=2 seed=1"
#define SRC "h3src name=h3 prompt='" PROMPT "' " CLIP " "

static GBytes *
contents (const gchar *path)
{
  gchar *data;
  gsize n;
  GError *error = NULL;

  g_file_get_contents (path, &data, &n, &error);
  g_assert_no_error (error);
  return g_bytes_new_take (data, n);
}

/* gst-launch-1.0 with a printf format; must end well. */
static void launch_ok (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

static void
launch_ok (const gchar *format, ...)
{
  va_list args;
  g_autofree gchar *pipeline = NULL;
  g_autoptr (Result) result = NULL;

  va_start (args, format);
  pipeline = g_strdup_vprintf (format, args);
  va_end (args);
  result = launch (pipeline);
  if (result->status != 0)
    g_test_message ("%s", pipeline);
  assert_ok (result);
}

/* Latents */

static void
check_latent (const gchar *path, const gchar *file, const gchar *tensor)
{
  g_autoptr (GBytes) bytes = contents (path);
  gsize n;
  g_autofree gfloat *want = h3_test_golden (file, tensor, &n);

  g_assert_cmpuint (g_bytes_get_size (bytes), ==, n * sizeof (gfloat));
  h3_test_assert_close (g_bytes_get_data (bytes, NULL), want, n,
      H3_TEST_LATENTS);
}

static void
check_golden (const gchar *file, const gchar *prompt, const gchar *clip)
{
  g_autofree gchar *text = test_path ("prompt.txt");
  g_autofree gchar *video = test_path ("video");
  g_autofree gchar *audio = test_path ("audio");

  h3_test_write_file (text, prompt, strlen (prompt));
  launch_ok ("filesrc location=%s ! text/x-raw,format=utf8 ! h3textenc "
             "model-path=%s ! h3denoise name=d model-path=%s %s "
             "d.video ! filesink location=%s d.audio ! filesink location=%s",
      text, h3_test_tiny_dir (), h3_test_tiny_dir (), clip, video, audio);
  check_latent (video, file, "final_latents");
  check_latent (audio, file, "final_audio_latents");
}

static void
test_golden (void)
{
  check_golden ("request_t2va.safetensors",
      "A brass-and-paper dragon flies above a rain-washed old city at blue "
      "hour.",
      "width=96 height=64 frames=22 steps=4 seed=440204");
  check_golden ("request_t2va_39.safetensors",
      "一只红色的狐狸在雪地里奔跑。<d>[English]Hello</d>",
      "width=64 height=96 frames=39 steps=3 seed=7");
}

/* The MP4 */

static void
test_mp4 (void)
{
  g_autofree gchar *mp4 = test_path ("clip.mp4");
  g_autofree gchar *samples = test_path ("clip.f32");
  g_autoptr (Media) media = NULL;

  if (test_lacks (H264 AAC))
    return;
  launch_ok (SRC "h3.video ! queue ! x264enc ! h264parse ! mux.video_0 "
                 "h3.audio ! tee name=t t. ! queue ! avenc_aac ! aacparse ! "
                 "mux.audio_0 t. ! queue ! filesink location=%s "
                 "mp4mux name=mux ! filesink location=%s",
      samples, mp4);
  /* round (22 / 24 * 40) * 800 */
  g_assert_cmpint (h3_test_file_size (samples), ==, 37 * 800 * 8);
  media = media_read (mp4);
  g_assert_cmpstr (media->container, ==, "video/quicktime");
  g_assert_cmpstr (media->video_codec, ==, "video/x-h264");
  g_assert_cmpstr (media->audio_codec, ==, "audio/mpeg");
  g_assert_cmpuint (media->frames, ==, 22);
  g_assert_cmpint (media->fps_n, ==, 24);
  g_assert_cmpint (media->fps_d, ==, 1);
  g_assert_cmpstr (media->colorimetry, ==, "bt709");
  g_assert_cmpint (media->first_video, ==, 0);
  g_assert_cmpint (media->first_audio, ==, 0);
  g_assert_cmpint (media->rate, ==, 32000);
  g_assert_cmpint (media->channels, ==, 2);
  g_assert_cmpuint (media->samples, >=, 29600);
  g_assert_cmpuint (media->samples, <=, 29600 + 2048);
}

/* Deadlocks: with sinks that hold data in PAUSED, muxers that wait for both
 * streams, and any or no queue between. */

static const struct {
  const gchar *needs, *pipeline;
} no_deadlock[] = {
  { "", SRC "h3.video ! fakesink sync=true h3.audio ! fakesink sync=true" },
  { "", SRC
      "h3.video ! queue ! fakesink sync=true h3.audio ! fakesink sync=true" },
  { "", SRC "h3.video ! queue ! fakesink sync=true "
            "h3.audio ! queue ! fakesink sync=true" },
  { "", SRC "h3.video ! queue max-size-buffers=1 ! fakesink sync=true "
            "h3.audio ! queue max-size-buffers=1 ! fakesink sync=true" },
  { "", SRC "h3.video ! fakesink async=false h3.audio ! fakesink async=false" },
  { "vp8enc flacenc", SRC
      "h3.video ! vp8enc deadline=1 ! mux. h3.audio ! audioconvert ! flacenc ! "
      "mux. matroskamux name=mux ! fakesink sync=true" },
  { "x264enc avenc_aac",
      SRC "h3.video ! x264enc ! mux. h3.audio ! avenc_aac ! mux. "
          "mp4mux name=mux ! fakesink" },
  /* one of the pads alone */
  { "", SRC "h3.video ! fakesink sync=true" },
  { "", SRC "h3.audio ! queue ! fakesink sync=true" },
};

static void
test_no_deadlock (gconstpointer data)
{
  guint i = GPOINTER_TO_UINT (data);

  if (!test_lacks (no_deadlock[i].needs))
    launch_ok ("%s", no_deadlock[i].pipeline);
}

/* Several prompts */

#define FOUR                                                                   \
  "filesrc location=%s ! subparse ! text/x-raw,format=utf8 ! h3textenc ! "     \
  "h3denoise name=d " CLIP " "

static gchar *
four_prompts (void)
{
  static const gchar text[] =
      "[00:00.00]" PROMPT "\n[00:01.00]a yellow square moves down\n"
      "[00:02.00]a white triangle moves up\n[00:03.00]" PROMPT "\n";
  gchar *path = test_path ("four.lrc");

  h3_test_write_file (path, text, strlen (text));
  return path;
}

/* Frames and samples are those of the single clips, one after the other. */
static void
test_four_prompts (void)
{
  const gsize frames = 22 * 96 * 64 * 3 / 2;
  g_autofree gchar *prompts = four_prompts ();
  g_autofree gchar *video = test_path ("four.nv12");
  g_autofree gchar *audio = test_path ("four.f32");
  g_autofree gchar *one_video = test_path ("one.nv12");
  g_autofree gchar *one_audio = test_path ("one.f32");
  g_autoptr (GBytes) v = NULL, a = NULL, v1 = NULL, a1 = NULL;
  const guint8 *p, *q;

  if (test_lacks ("subparse"))
    return;
  launch_ok (FOUR "d.video ! h3videovae ! filesink location=%s "
                  "d.audio ! h3audiovae length=video ! filesink location=%s",
      prompts, video, audio);
  launch_ok (SRC "h3.video ! filesink location=%s "
                 "h3.audio ! filesink location=%s",
      one_video, one_audio);
  v = contents (video);
  a = contents (audio);
  v1 = contents (one_video);
  a1 = contents (one_audio);
  g_assert_cmpuint (g_bytes_get_size (v), ==, 4 * frames);
  g_assert_cmpuint (g_bytes_get_size (a), ==, 117333 * 8);
  g_assert_cmpuint (g_bytes_get_size (v1), ==, frames);
  g_assert_cmpuint (g_bytes_get_size (a1), ==, 29600 * 8);
  p = g_bytes_get_data (v, NULL);
  q = g_bytes_get_data (v1, NULL);
  g_assert_cmpmem (p, frames, q, frames);
  g_assert_cmpmem (p + 3 * frames, frames, q, frames);
  p = g_bytes_get_data (a, NULL);
  q = g_bytes_get_data (a1, NULL);
  g_assert_cmpmem (p, 29333 * 8, q, 29333 * 8);
  g_assert_cmpmem (p + 88000 * 8, 29333 * 8, q, 29333 * 8);
}

/* The same in Matroska, whose timestamps would show a gap. */
typedef struct {
  GstClockTime end;
  guint64 buffers;
  gboolean gap;
} Timeline;

static GstPadProbeReturn
check_gap (GstPad *pad, GstPadProbeInfo *info, gpointer user_data)
{
  GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER (info);
  Timeline *timeline = user_data;

  if (GST_BUFFER_PTS (buffer) != timeline->end)
    timeline->gap = TRUE;
  timeline->end = GST_BUFFER_PTS (buffer) + GST_BUFFER_DURATION (buffer);
  timeline->buffers++;
  return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn
count_segments (GstPad *pad, GstPadProbeInfo *info, gpointer n)
{
  *(gint *) n +=
      GST_EVENT_TYPE (GST_PAD_PROBE_INFO_EVENT (info)) == GST_EVENT_SEGMENT;
  return GST_PAD_PROBE_OK;
}

static void
watch (GstElement *pipeline, const gchar *name, Timeline *timeline,
    gint *segments)
{
  GstElement *element = gst_bin_get_by_name (GST_BIN (pipeline), name);
  GstPad *pad = gst_element_get_static_pad (element, "src");

  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, check_gap, timeline, NULL);
  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, count_segments,
      segments, NULL);
  gst_object_unref (pad);
  gst_object_unref (element);
}

static void
test_one_timeline (void)
{
  g_autofree gchar *prompts = four_prompts ();
  g_autofree gchar *text = g_strdup_printf (FOUR
      "d.video ! h3videovae name=v ! fakesink sync=true "
      "d.audio ! h3audiovae name=a length=video ! fakesink sync=true",
      prompts);
  g_autoptr (GstElement) pipeline = NULL;
  g_autoptr (GstBus) bus = NULL;
  g_autoptr (GstMessage) message = NULL;
  Timeline video = { 0 }, audio = { 0 };
  gint video_segments = 0, audio_segments = 0;

  if (test_lacks ("subparse"))
    return;
  pipeline = gst_parse_launch (text, NULL);
  bus = gst_element_get_bus (pipeline);
  watch (pipeline, "v", &video, &video_segments);
  watch (pipeline, "a", &audio, &audio_segments);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  g_assert_nonnull (message);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  g_assert_cmpuint (video.buffers, ==, 88);
  g_assert_cmpuint (video.end, ==, gst_util_uint64_scale (88, GST_SECOND, 24));
  g_assert_false (video.gap);
  g_assert_cmpint (video_segments, ==, 1);
  g_assert_cmpuint (audio.end, ==, 117333 * G_GUINT64_CONSTANT (31250));
  g_assert_false (audio.gap);
  g_assert_cmpint (audio_segments, ==, 1);
}

/* Interrupts */

static Result *
interrupted (const gchar *const *argv, const gchar *at)
{
  Result *result = run (argv, NULL, at);

  assert_ok (result);
  g_assert_nonnull (strstr (result->output, "handling interrupt"));
  return result;
}

static void
test_interrupt_denoising (void)
{
  g_autofree gchar *location = g_strdup_printf ("location=%s/i.mp4", test_dir);
  const gchar *argv[] = { "gst-launch-1.0", "-e", "h3src", "prompt=" PROMPT,
    "steps=1000", "width=96", "height=64", "frames=124", "name=h3", "h3.video",
    "!", "x264enc", "!", "mp4mux", "!", "filesink", location, NULL };
  g_autoptr (Result) result = NULL;

  if (test_lacks ("x264enc"))
    return;
  result = interrupted (argv, "(h3-denoise) clip");
  /* the file is empty, and closed */
  g_assert_cmpfloat (result->seconds, <, 5);
}

/* The frames that came are in the file. */
static void
test_interrupt_decoding (void)
{
  g_autofree gchar *path = test_path ("cut.mp4");
  g_autofree gchar *location = g_strdup_printf ("location=%s", path);
  const gchar *argv[] = { "gst-launch-1.0", "-e", "h3src", "prompt=" PROMPT,
    "steps=1", "width=96", "height=64", "frames=124", "chunk=16", "name=h3",
    "h3.video", "!", "clocksync", "!", "progressreport", "update-freq=1", "!",
    "x264enc", "tune=zerolatency", "!", "mux.video_0", "h3.audio", "!", "queue",
    "!", "avenc_aac", "!", "mux.audio_0", "mp4mux", "name=mux", "!", "filesink",
    location, NULL };
  g_autoptr (Result) result = NULL;
  g_autoptr (Media) media = NULL;

  if (test_lacks (H264 AAC "progressreport"))
    return;
  /* printed when frames have come for a second */
  result = interrupted (argv, "progressreport0 (");
  g_assert_cmpfloat (result->seconds, <, 5);
  media = media_read (path);
  g_test_message ("%u frames", media->frames);
  g_assert_cmpuint (media->frames, >, 0);
  g_assert_cmpuint (media->frames, <, 124);
  g_assert_cmpint (media->first_video, ==, 0);
}

/* Leaks */

static void
test_leaks (void)
{
  const gchar *argv[] = { "gst-launch-1.0", "h3src", "prompt=" PROMPT,
    "width=96", "height=64", "frames=22", "steps=2", "name=h3", "h3.video", "!",
    "queue", "!", "fakesink", "h3.audio", "!", "fakesink", NULL };
  static const gchar *const env[] = { "GST_TRACERS=leaks",
    "GST_DEBUG=GST_TRACER:7", "GST_DEBUG_NO_COLOR=1", NULL };
  g_autoptr (GstPluginFeature) tracer =
      gst_registry_find_feature (gst_registry_get (), "leaks",
          GST_TYPE_TRACER_FACTORY);
  g_autoptr (Result) result = NULL;

  if (!tracer) {
    g_test_skip ("there is no tracer \"leaks\"");
    return;
  }
  result = run (argv, env, NULL);
  assert_ok (result);
  /* the tracer works: it said what its records look like */
  g_assert_nonnull (strstr (result->output, "object-alive.class"));
  if (g_regex_match_simple ("object-alive, type-name=\\(string\\)[^%]",
          result->output, 0, 0)) {
    g_test_message ("%s", result->output);
    g_test_fail ();
  }
}

int
main (int argc, char **argv)
{
  if (h3_test_skip_program ())
    return 0;
  test_begin (&argc, &argv);
  g_test_add_func ("/launch/golden", test_golden);
  g_test_add_func ("/launch/mp4", test_mp4);
  for (guint i = 0; i < G_N_ELEMENTS (no_deadlock); i++) {
    g_autofree gchar *name = g_strdup_printf ("/launch/no-deadlock/%u", i);
    g_test_add_data_func (name, GUINT_TO_POINTER (i), test_no_deadlock);
  }
  g_test_add_func ("/launch/four-prompts", test_four_prompts);
  g_test_add_func ("/launch/one-timeline", test_one_timeline);
  g_test_add_func ("/launch/interrupt/denoising", test_interrupt_denoising);
  g_test_add_func ("/launch/interrupt/decoding", test_interrupt_decoding);
  g_test_add_func ("/launch/leaks", test_leaks);
  return test_end ();
}
