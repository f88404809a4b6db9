/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A clip in your own program: progress as it comes, frames as bytes.
 *   cc embed.c -o embed $(pkg-config --cflags --libs gst-h3-1.0 \
 *     gstreamer-app-1.0)
 *   ./embed "a red circle moves right on a blue background" */
#include <gst/app/gstappsink.h>
#include <gst/gst.h>
#include <gst/h3/h3.h>

/* Called in a thread of the pipeline, for each frame as soon as it is made. */
static GstFlowReturn
take_frame (GstAppSink *sink, gpointer frames)
{
  g_autoptr (GstSample) sample = gst_app_sink_pull_sample (sink);
  GstMapInfo map;

  if (!sample)
    return GST_FLOW_EOS;
  if (!gst_buffer_map (gst_sample_get_buffer (sample), &map, GST_MAP_READ))
    return GST_FLOW_ERROR;
  /* map.data: width x height x 3 bytes of RGB */
  g_print ("frame %d: %" G_GSIZE_FORMAT " bytes\n", ++*(gint *) frames,
      map.size);
  gst_buffer_unmap (gst_sample_get_buffer (sample), &map);
  return GST_FLOW_OK;
}

/* Prints what @message says; TRUE at the end, good or bad. */
static gboolean
handle (GstMessage *message, gboolean *failed)
{
  g_autoptr (GError) error = NULL;
  GstH3Progress p;

  if (gst_h3_message_parse_progress (message, &p))
    g_print ("%s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT "\n", p.stage,
        p.step, p.steps);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR) {
    gst_message_parse_error (message, &error, NULL);
    g_printerr ("%s\n", error->message);
    *failed = TRUE;
  }
  return *failed || GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS;
}

int
main (int argc, char **argv)
{
  GstAppSinkCallbacks callbacks = { .new_sample = take_frame };
  g_autoptr (GError) error = NULL;
  gboolean done = FALSE, failed = FALSE;
  gint frames = 0;

  gst_init (&argc, &argv);
  /* sync=false: as fast as they come, not 24 a second */
  g_autoptr (GstElement) pipeline =
      gst_parse_launch ("h3src name=h3 h3.video ! video/x-raw,format=RGB ! "
                        "appsink name=frames "
                        "sync=false h3.audio ! fakesink",
          &error);
  if (!pipeline) {
    g_printerr ("%s\n", error->message);
    return 1;
  }
  g_autoptr (GstElement) h3 = gst_bin_get_by_name (GST_BIN (pipeline), "h3");
  g_autoptr (GstElement) sink =
      gst_bin_get_by_name (GST_BIN (pipeline), "frames");
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);

  g_object_set (h3, "prompt", argc > 1 ? argv[1] : "a red circle", NULL);
  gst_app_sink_set_callbacks (GST_APP_SINK (sink), &callbacks, &frames, NULL);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  while (!done) {
    g_autoptr (GstMessage) message =
        gst_bus_timed_pop (bus, GST_CLOCK_TIME_NONE);

    done = handle (message, &failed);
  }
  gst_element_set_state (pipeline, GST_STATE_NULL);
  return failed || frames == 0;
}
