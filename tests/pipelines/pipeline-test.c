/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pipeline-test.h"

#include <gst/pbutils/pbutils.h>
#include <gst/video/video.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_SECONDS 60

gchar *test_dir;

gchar *
test_path (const gchar *name)
{
  return g_build_filename (test_dir, name, NULL);
}

void
test_begin (int *argc, char ***argv)
{
  gst_init (argc, argv);
  g_test_init (argc, argv, NULL);
  test_dir = h3_test_temp_dir ();
}

int
test_end (void)
{
  int status = g_test_run ();

  h3_test_remove_tree (test_dir);
  g_free (test_dir);
  return status;
}

gboolean
test_lacks (const gchar *elements)
{
  g_auto (GStrv) names = g_strsplit (elements, " ", -1);

  for (guint i = 0; names[i]; i++) {
    GstElementFactory *factory =
        *names[i] ? gst_element_factory_find (names[i]) : NULL;
    g_autofree gchar *reason = NULL;

    if (factory || !*names[i]) {
      g_clear_pointer (&factory, gst_object_unref);
      continue;
    }
    reason = g_strdup_printf ("there is no element \"%s\"", names[i]);
    g_test_skip (reason);
    return TRUE;
  }
  return FALSE;
}

/* Programs */

typedef struct {
  GMainLoop *loop;
  GPid pid;
  const gchar *log, *interrupt_at;
  gint64 start;
  gboolean timed_out;
  int status;
} Child;

static void
child_ended (GPid pid, gint status, gpointer user_data)
{
  Child *child = user_data;

  child->status = status;
  g_main_loop_quit (child->loop);
}

static gboolean
interrupt_child (gpointer user_data)
{
  Child *child = user_data;
  g_autofree gchar *output = NULL;

  g_file_get_contents (child->log, &output, NULL, NULL);
  if (!strstr (output, child->interrupt_at))
    return G_SOURCE_CONTINUE;
  g_usleep (G_USEC_PER_SEC / 2);
  child->start = g_get_monotonic_time ();
  kill (child->pid, SIGINT);
  return G_SOURCE_REMOVE;
}

static gboolean
kill_child (gpointer user_data)
{
  Child *child = user_data;

  child->timed_out = TRUE;
  /* its group: a shell's children too */
  kill (-child->pid, SIGKILL);
  return G_SOURCE_REMOVE;
}

static void
own_group (gpointer user_data)
{
  setpgid (0, 0);
}

static gchar **
child_environment (const gchar *const *env)
{
  gchar **all = g_get_environ ();
  const gchar *preload = g_getenv ("H3_TEST_PRELOAD");

  for (; env && *env; env++) {
    g_auto (GStrv) pair = g_strsplit (*env, "=", 2);
    all = g_environ_setenv (all, pair[0], pair[1], TRUE);
  }
  /* a sanitised plugin in a program that is not */
  if (preload && *preload)
    all = g_environ_setenv (all, "LD_PRELOAD", preload, TRUE);
  return all;
}

static void
add_timeout (GMainContext *context, gdouble seconds, GSourceFunc func,
    Child *child)
{
  GSource *source = g_timeout_source_new (seconds * 1000);

  g_source_set_callback (source, func, child, NULL);
  g_source_attach (source, context);
  g_source_unref (source);
}

Result *
run (const gchar *const *argv, const gchar *const *env,
    const gchar *interrupt_at)
{
  Result *result = g_new0 (Result, 1);
  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autofree gchar *log = test_path ("log");
  g_auto (GStrv) environment = child_environment (env);
  Child child = { .loop = g_main_loop_new (context, FALSE),
    .log = log,
    .interrupt_at = interrupt_at,
    .start = g_get_monotonic_time () };
  FILE *out = fopen (log, "w");
  GSource *watch;
  GError *error = NULL;

  g_assert_nonnull (out);
  g_spawn_async_with_fds (test_dir, (gchar **) argv, environment,
      G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD, own_group, NULL,
      &child.pid, -1, fileno (out), fileno (out), &error);
  g_assert_no_error (error);
  fclose (out);

  watch = g_child_watch_source_new (child.pid);
  g_source_set_callback (watch, G_SOURCE_FUNC (child_ended), &child, NULL);
  g_source_attach (watch, context);
  g_source_unref (watch);
  add_timeout (context, TIMEOUT_SECONDS, kill_child, &child);
  if (interrupt_at)
    add_timeout (context, 0.1, interrupt_child, &child);
  g_main_loop_run (child.loop);
  g_main_loop_unref (child.loop);

  result->seconds =
      (g_get_monotonic_time () - child.start) / (gdouble) G_USEC_PER_SEC;
  result->status = WIFEXITED (child.status) ? WEXITSTATUS (child.status)
                                            : 128 + WTERMSIG (child.status);
  g_file_get_contents (log, &result->output, NULL, NULL);
  if (child.timed_out)
    g_test_message ("killed after %d s", TIMEOUT_SECONDS);
  return result;
}

Result *
launch (const gchar *pipeline)
{
  g_auto (GStrv) words = NULL;
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (g_shell_parse_argv (pipeline, NULL, &words, &error));
  g_ptr_array_add (argv, "gst-launch-1.0");
  g_ptr_array_add (argv, "-e");
  for (guint i = 0; words[i]; i++)
    g_ptr_array_add (argv, words[i]);
  g_ptr_array_add (argv, NULL);
  return run ((const gchar *const *) argv->pdata, NULL, NULL);
}

void
result_check (const gchar *where, const Result *result)
{
  if (result->status == 0 && !strstr (result->output, "CRITICAL"))
    return;
  g_test_message ("%s: exit status %d\n%s", where, result->status,
      result->output);
  g_test_fail ();
}

void
result_free (Result *result)
{
  g_free (result->output);
  g_free (result);
}

/* Files */

static gchar *
caps_name (GstDiscovererStreamInfo *info)
{
  g_autoptr (GstCaps) caps =
      info ? gst_discoverer_stream_info_get_caps (info) : NULL;

  if (!caps)
    return NULL;
  return g_strdup (gst_structure_get_name (gst_caps_get_structure (caps, 0)));
}

static gchar *
first_codec (GList *streams)
{
  gchar *name = streams ? caps_name (streams->data) : NULL;

  gst_discoverer_stream_info_list_free (streams);
  return name;
}

static void
read_codecs (Media *media, const gchar *path)
{
  g_autofree gchar *uri = gst_filename_to_uri (path, NULL);
  g_autoptr (GError) error = NULL;
  GstDiscoverer *discoverer = gst_discoverer_new (30 * GST_SECOND, NULL);
  GstDiscovererInfo *info =
      gst_discoverer_discover_uri (discoverer, uri, &error);
  GstDiscovererStreamInfo *stream;

  g_assert_no_error (error);
  g_assert_nonnull (info);
  stream = gst_discoverer_info_get_stream_info (info);
  media->container = caps_name (stream);
  media->video_codec =
      first_codec (gst_discoverer_info_get_video_streams (info));
  media->audio_codec =
      first_codec (gst_discoverer_info_get_audio_streams (info));
  gst_discoverer_stream_info_unref (stream);
  gst_discoverer_info_unref (info);
  g_object_unref (discoverer);
}

static GstClockTime
running_time (GstPad *pad, GstBuffer *buffer)
{
  g_autoptr (GstEvent) event =
      gst_pad_get_sticky_event (pad, GST_EVENT_SEGMENT, 0);
  const GstSegment *segment;

  gst_event_parse_segment (event, &segment);
  return gst_segment_to_running_time (segment, GST_FORMAT_TIME,
      GST_BUFFER_PTS (buffer));
}

static void
count_frame (GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer data)
{
  Media *media = data;
  g_autoptr (GstCaps) caps = gst_pad_get_current_caps (pad);
  GstVideoInfo info;

  if (media->frames++ > 0)
    return;
  g_assert_true (gst_video_info_from_caps (&info, caps));
  media->width = info.width;
  media->height = info.height;
  media->fps_n = info.fps_n;
  media->fps_d = info.fps_d;
  media->colorimetry = gst_video_colorimetry_to_string (&info.colorimetry);
  media->first_video = running_time (pad, buffer);
}

static void
count_samples (GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer data)
{
  Media *media = data;

  if (media->samples == 0) {
    g_autoptr (GstCaps) caps = gst_pad_get_current_caps (pad);
    GstStructure *s = gst_caps_get_structure (caps, 0);
    g_assert_true (gst_structure_get_int (s, "rate", &media->rate));
    g_assert_true (gst_structure_get_int (s, "channels", &media->channels));
    media->first_audio = running_time (pad, buffer);
  }
  media->samples +=
      gst_buffer_get_size (buffer) / (sizeof (gfloat) * media->channels);
}

/* Each kind of stream gets its counting sink. */
static void
link_pad (GstElement *decoder, GstPad *pad, gpointer data)
{
  Media *media = data;
  g_autoptr (GstCaps) caps = gst_pad_query_caps (pad, NULL);
  const gchar *name = gst_structure_get_name (gst_caps_get_structure (caps, 0));
  gboolean video = g_str_has_prefix (name, "video/");
  g_autoptr (GstElement) bin =
      GST_ELEMENT (gst_object_get_parent (GST_OBJECT (decoder)));
  g_autoptr (GstElement) branch = gst_parse_bin_from_description (
      video ? "queue max-size-time=0 ! fakesink name=s sync=false "
              "signal-handoffs=true"
            : "queue max-size-time=0 ! audioconvert ! "
              "audio/x-raw,format=F32LE,layout=interleaved ! "
              "fakesink name=s sync=false signal-handoffs=true",
      TRUE, NULL);
  g_autoptr (GstElement) sink = gst_bin_get_by_name (GST_BIN (branch), "s");
  GstPad *target = gst_element_get_static_pad (branch, "sink");

  g_signal_connect (sink, "handoff",
      video ? G_CALLBACK (count_frame) : G_CALLBACK (count_samples), media);
  gst_bin_add (GST_BIN (bin), gst_object_ref (branch));
  gst_element_sync_state_with_parent (branch);
  gst_pad_link (pad, target);
  gst_object_unref (target);
}

static void
count (Media *media, const gchar *path)
{
  g_autoptr (GstElement) pipeline =
      gst_parse_launch ("filesrc name=f ! decodebin name=d", NULL);
  GstElement *source = gst_bin_get_by_name (GST_BIN (pipeline), "f");
  GstElement *decoder = gst_bin_get_by_name (GST_BIN (pipeline), "d");
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);
  g_autoptr (GstMessage) message = NULL;

  g_object_set (source, "location", path, NULL);
  g_signal_connect (decoder, "pad-added", G_CALLBACK (link_pad), media);
  gst_object_unref (source);
  gst_object_unref (decoder);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, 30 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR) {
    g_autoptr (GError) error = NULL;
    gst_message_parse_error (message, &error, NULL);
    g_assert_no_error (error);
  }
  gst_element_set_state (pipeline, GST_STATE_NULL);
}

Media *
media_read (const gchar *path)
{
  Media *media = g_new0 (Media, 1);

  media->first_video = media->first_audio = -1;
  read_codecs (media, path);
  count (media, path);
  return media;
}

void
media_free (Media *media)
{
  g_free (media->container);
  g_free (media->video_codec);
  g_free (media->audio_codec);
  g_free (media->colorimetry);
  g_free (media);
}
