/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Is the circle red, does it move right, is the tone high? Prompts of the demo's
 * little language through the whole pipeline, many in one stream, and each clip
 * looked at and listened to (tests/tools/look.h). */
#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <string.h>

#include "tests/tools/h3-test-device.h"
#include "tests/tools/look.h"

typedef struct {
  const gchar *prompt;
  const gchar *shown; /* colour, shape, motion, background, tone */
} Case;

/* Every template of demo/README.md, every colour, shape, background, motion and
 * tone. */
static const Case landscape[] = {
  { "a red circle moves right on a blue background, high tone",
      "red circle right blue high" },
  { "a green square moves left on a black background, low tone",
      "green square left black low" },
  { "a blue triangle moves up on a green background, mid tone",
      "blue triangle up green mid" },
  { "a yellow circle moves down on a gray background, silence",
      "yellow circle down gray silence" },
  { "A white square stays still on a purple background. High tone.",
      "white square still purple high" },
  { "A yellow triangle moves right on a black background. Silence.",
      "yellow triangle right black silence" },
  { "A red triangle moves left on a green background. Low tone.",
      "red triangle left green low" },
  { "A blue circle moves up on a black background. Mid tone.",
      "blue circle up black mid" },
  { "green circle, moving right on a purple background, low tone",
      "green circle right purple low" },
  { "white triangle, moving down on a blue background, mid tone",
      "white triangle down blue mid" },
  { "red square, standing still on a gray background, high tone",
      "red square still gray high" },
  { "yellow square, moving up on a blue background, silence",
      "yellow square up blue silence" },
  { "on a black background, a white circle moves left, with a high tone",
      "white circle left black high" },
  { "on a purple background, a blue square moves right, with a low tone",
      "blue square right purple low" },
  { "on a green background, a yellow triangle stays still, with silence",
      "yellow triangle still green silence" },
  { "on a blue background, a green triangle moves down, with a mid tone",
      "green triangle down blue mid" },
  { "high tone, gray background, red triangle moving up",
      "red triangle up gray high" },
  { "silence, black background, green square moving down",
      "green square down black silence" },
  { "low tone, blue background, white circle standing still",
      "white circle still blue low" },
  { "mid tone, purple background, yellow circle moving left",
      "yellow circle left purple mid" },
  { "a gray background and a blue triangle that moves right, low tone",
      "blue triangle right gray low" },
  { "a green background and a red square that moves down, high tone",
      "red square down green high" },
  { "a black background and a white triangle that stays still, silence",
      "white triangle still black silence" },
  { "a purple background and a green circle that moves up, mid tone",
      "green circle up purple mid" },
  { "a yellow square moves left on a green background",
      "yellow square left green silence" },
  { "a white circle moves down on a purple background",
      "white circle down purple silence" },
};

static const Case portrait[] = {
  { "on a green background, a white triangle moves up, with a mid tone",
      "white triangle up green mid" },
  { "a red circle moves down on a black background, high tone",
      "red circle down black high" },
  { "blue square, moving left on a gray background, low tone",
      "blue square left gray low" },
};

static const Case longer[] = {
  { "A yellow square moves down on a purple background. Low tone.",
      "yellow square down purple low" },
  { "a green triangle moves right on a black background, mid tone",
      "green triangle right black mid" },
  { "a white circle stays still on a blue background, high tone",
      "white circle still blue high" },
};

/* Pushes every prompt as a buffer of its own, one clip each. */
static void
push_prompts (GstElement *src, const Case *cases, guint n)
{
  for (guint i = 0; i < n; i++) {
    gsize size = strlen (cases[i].prompt);
    GstBuffer *buffer = gst_buffer_new_memdup (cases[i].prompt, size);

    g_assert_cmpint (gst_app_src_push_buffer (GST_APP_SRC (src), buffer), ==,
        GST_FLOW_OK);
  }
  g_assert_cmpint (gst_app_src_end_of_stream (GST_APP_SRC (src)), ==,
      GST_FLOW_OK);
}

static void
fail_on_error (GstElement *pipeline)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);
  g_autoptr (GstMessage) message =
      gst_bus_pop_filtered (bus, GST_MESSAGE_ERROR);
  g_autoptr (GError) error = NULL;

  if (!message)
    return;
  gst_message_parse_error (message, &error, NULL);
  g_error ("the pipeline failed: %s", error->message);
}

/* At least @bytes of what @sink has next; the rest stays in @pending. */
static void
pull_bytes (GstElement *pipeline, GstElement *sink, GByteArray *pending,
    gsize bytes)
{
  while (pending->len < bytes) {
    g_autoptr (GstSample) sample =
        gst_app_sink_try_pull_sample (GST_APP_SINK (sink), 60 * GST_SECOND);
    GstMapInfo map;

    fail_on_error (pipeline);
    if (!sample)
      g_error ("%s ended after %u of %" G_GSIZE_FORMAT " bytes of a clip",
          GST_OBJECT_NAME (sink), pending->len, bytes);
    g_assert_true (
        gst_buffer_map (gst_sample_get_buffer (sample), &map, GST_MAP_READ));
    g_byte_array_append (pending, map.data, map.size);
    gst_buffer_unmap (gst_sample_get_buffer (sample), &map);
  }
}

static void
check_clips (const Case *cases, guint n, gint width, gint height, gint frames)
{
  gint samples = (5 * frames + 1) / 3 * 800;
  gsize video_bytes = (gsize) width * height * 3 * frames;
  gsize audio_bytes = (gsize) samples * 2 * sizeof (gfloat);
  g_autoptr (GByteArray) video = g_byte_array_new ();
  g_autoptr (GByteArray) audio = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  g_autofree gchar *launch = g_strdup_printf (
      "appsrc name=src format=time caps=\"text/x-raw,format=utf8\" ! h3textenc "
      "! h3denoise name=d seed=7 steps=8 width=%d height=%d frames=%d "
      "max-queued-jobs=100 "
      "d.video ! h3videovae ! video/x-raw,format=RGB ! "
      "appsink name=v sync=false max-buffers=64 "
      "d.audio ! h3audiovae ! appsink name=a sync=false max-buffers=64",
      width, height, frames);
  g_autoptr (GstElement) pipeline = gst_parse_launch (launch, &error);
  g_autoptr (GstElement) src = NULL;
  g_autoptr (GstElement) v = NULL;
  g_autoptr (GstElement) a = NULL;

  g_assert_no_error (error);
  src = gst_bin_get_by_name (GST_BIN (pipeline), "src");
  v = gst_bin_get_by_name (GST_BIN (pipeline), "v");
  a = gst_bin_get_by_name (GST_BIN (pipeline), "a");
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  push_prompts (src, cases, n);

  for (guint i = 0; i < n; i++) {
    g_autofree gchar *words = NULL;
    H3Look look;

    pull_bytes (pipeline, v, video, video_bytes);
    pull_bytes (pipeline, a, audio, audio_bytes);
    h3_look (video->data, width, height, frames, (const gfloat *) audio->data,
        samples, &look);
    words = h3_look_words (&look);
    g_test_message ("\"%s\": %s", cases[i].prompt, words);
    if (!g_str_equal (words, cases[i].shown)) {
      g_test_message ("should be: %s", cases[i].shown);
      g_test_fail ();
    }
    g_byte_array_remove_range (video, 0, video_bytes);
    g_byte_array_remove_range (audio, 0, audio_bytes);
  }
  /* and not a frame or a sample more */
  g_assert_null (gst_app_sink_pull_sample (GST_APP_SINK (v)));
  g_assert_null (gst_app_sink_pull_sample (GST_APP_SINK (a)));
  g_assert_cmpuint (video->len, ==, 0);
  g_assert_cmpuint (audio->len, ==, 0);
  gst_element_set_state (pipeline, GST_STATE_NULL);
}

static void
test_landscape (void)
{
  check_clips (landscape, G_N_ELEMENTS (landscape), 96, 64, 22);
}

static void
test_portrait (void)
{
  check_clips (portrait, G_N_ELEMENTS (portrait), 64, 96, 22);
}

static void
test_longer (void)
{
  check_clips (longer, G_N_ELEMENTS (longer), 96, 64, 39);
}

/* The judge must be able to say no: another prompt's clip is not this one's. */
static void
test_judge_can_refuse (void)
{
  const Case wrong = { landscape[0].prompt, landscape[1].shown };

  if (g_test_subprocess ()) {
    check_clips (&wrong, 1, 96, 64, 22);
    return;
  }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
}

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  g_test_add_func ("/semantic/96x64x22", test_landscape);
  g_test_add_func ("/semantic/64x96x22", test_portrait);
  g_test_add_func ("/semantic/96x64x39", test_longer);
  g_test_add_func ("/semantic/judge-can-refuse", test_judge_can_refuse);
  return g_test_run ();
}
