/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long h3src waits for what it reads: files whose end is never found, FIFOs,
 * servers that stall; and when it does not count the time. */
#include <fcntl.h>
#include <gio/gio.h>
#include <gst/app/gstappsrc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "condition-clip.h"

#define SHORT (300 * GST_MSECOND)
/* Where it must not pass on a busy machine. */
#define LONG (2500 * GST_MSECOND)

static Clip *
short_clip (void)
{
  Clip *clip = clip_new ("");

  g_object_set (clip->h3, "input-timeout", SHORT, NULL);
  return clip;
}

/* The time is up: an error that begins with @name and says @awaited. */
static void
check_late (Clip *clip, const gchar *name, const gchar *awaited)
{
  gint64 begin = g_get_monotonic_time ();
  g_autoptr (GError) error = clip_try (clip);
  gint64 took = g_get_monotonic_time () - begin;

  g_test_message ("%s", error ? error->message : "no error");
  g_assert_error (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ);
  g_assert_true (g_str_has_prefix (error->message, name));
  g_assert_nonnull (strstr (error->message, awaited));
  g_assert_nonnull (strstr (error->message, "input-timeout"));
  g_assert_cmpint (took, >=, 250 * 1000); /* it looks from time to time */
  clip_stop (clip);
}

/* Nothing is said for twice the time. */
static void
check_silence (Clip *clip)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (clip->pipeline);
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (bus, 2 * SHORT,
      GST_MESSAGE_ERROR | GST_MESSAGE_EOS);

  if (message)
    g_error ("%s",
        gst_structure_to_string (gst_message_get_structure (message)));
}

/* Called with each element in h3src whose name begins so. */
typedef struct {
  const gchar *name;
  void (*call) (GstElement *element);
} Hook;

static void
on_added (GstBin *bin, GstBin *parent, GstElement *element, gpointer data)
{
  const Hook *hook = data;

  if (g_str_has_prefix (GST_OBJECT_NAME (element), hook->name))
    hook->call (element);
}

static void
set_hook (Clip *clip, const Hook *hook)
{
  g_signal_connect (clip->h3, "deep-element-added", G_CALLBACK (on_added),
      (gpointer) hook);
}

/* --- what never comes --- */

static void
test_silent (void)
{
  g_autoptr (Clip) clip = short_clip ();
  g_autofree gchar *image = golden_picture ("image.png");

  clip_set_references (clip, "appsrc://", NULL);
  check_late (clip, "Reference 1 (appsrc://)", "not known");
  clip_set_references (clip, NULL);
  clip_set_file (clip, "last-frame", "appsrc://");
  check_late (clip, "The last frame (appsrc://)", "not known");
  g_object_set (clip->h3, "input-timeout", 30 * GST_SECOND, NULL);
  clip_set_file (clip, "last-frame", image);
  clip_run (clip);
}

/* Opening one does not stop the program, and is not reading it. */
static void
test_fifo (void)
{
  g_autoptr (Clip) clip = short_clip ();
  g_autofree gchar *path = test_path ("fifo");
  g_autofree gchar *uri = g_strconcat ("file://", path, NULL);
  gint writer;

  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  clip_set_file (clip, "first-frame", "fifo");
  check_late (clip, "The first frame (file://", "fifo");
  clip_set_file (clip, "first-frame", NULL);
  clip_set_references (clip, uri, NULL);
  check_late (clip, "Reference 1 (file://", "fifo");
  /* somebody is there, and silent */
  writer = open (path, O_RDWR);
  g_assert_cmpint (writer, >=, 0);
  check_late (clip, "Reference 1 (file://", "fifo");
  close (writer);
}

static gpointer
write_to (gpointer path)
{
  g_autofree gchar *picture = golden_picture ("image.png");
  g_autofree gchar *bytes = NULL;
  gint fd = open (path, O_WRONLY);
  gsize n;

  g_assert_true (g_file_get_contents (picture, &bytes, &n, NULL));
  g_usleep (G_USEC_PER_SEC / 20);
  for (gsize i = 0; i < n; i += 1000)
    g_assert_cmpint (write (fd, bytes + i, MIN (1000, n - i)), >, 0);
  close (fd);
  return NULL;
}

/* What is written to one is read like a file. */
static void
test_fifo_written (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autoptr (Clip) file = clip_new ("");
  g_autofree gchar *path = test_path ("written");
  g_autofree gchar *picture = golden_picture ("image.png");
  GThread *writer;

  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  writer = g_thread_new ("writer", write_to, path);
  clip_set_references (clip, "written", NULL);
  clip_run (clip);
  g_thread_join (writer);
  clip_set_references (file, picture, NULL);
  clip_run (file);
  for (guint i = 0; i < G_N_ELEMENTS (clip->latents); i++)
    g_assert_cmpmem (clip->latents[i]->data, clip->latents[i]->len,
        file->latents[i]->data, file->latents[i]->len);
}

static void
put (GByteArray *file, const gchar *bytes, guint n)
{
  g_byte_array_append (file, (const guint8 *) bytes, n);
}

/* One picture of 64x64 in codes of 8 bits, which are kept from growing. */
static void
put_picture (GByteArray *file, guint8 shade)
{
  static const gchar control[] =
      "\x21\xf9\x04\x04\x04\x00\x00\x00"; /* 0.04 s */
  static const gchar frame[] = "\x2c\0\0\0\0\x40\0\x40\0\0\x07";
  guint8 row[65];

  put (file, control, 8);
  put (file, frame, 11);
  row[0] = 64;
  for (gint y = 0; y < 64; y++) {
    guint8 clear[] = { 1, 128 };

    for (gint x = 0; x < 64; x++)
      row[1 + x] = (x * y / 16 + shade) % 128;
    g_byte_array_append (file, clear, sizeof (clear));
    g_byte_array_append (file, row, sizeof (row));
  }
  put (file, "\x01\x81\0", 3);
}

static void
write_gif (const gchar *name, guint n)
{
  g_autoptr (GByteArray) file = g_byte_array_new ();

  put (file, "GIF89a\x40\0\x40\0\xf6\0\0", 13);
  for (guint i = 0; i < 128; i++) {
    guint8 gray[] = { 2 * i, 2 * i, 2 * i };
    g_byte_array_append (file, gray, 3);
  }
  for (guint i = 0; i < n; i++)
    put_picture (file, 3 * i);
  put (file, ";", 1);
  write_file (name, file->data, file->len);
}

/* Up to GStreamer 1.22 the demuxer of these does not find their end, and all
 * pictures have time 0: enough of them are counted, fewer are waited for. */
static void
test_gif (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autoptr (GError) error = NULL;

  if (test_lacks ("avdemux_gif avdec_gif"))
    return;
  write_gif ("few.gif", 8);
  clip_set_file (clip, "first-frame", "few.gif");
  clip_run (clip);
  clip_stop (clip);
  write_gif ("many.gif", 90);
  clip_set_file (clip, "first-frame", NULL);
  clip_set_references (clip, "many.gif", NULL);
  clip_run (clip);
  clip_stop (clip);
  clip_set_references (clip, "few.gif", NULL);
  g_object_set (clip->h3, "input-timeout", SHORT, NULL);
  error = clip_try (clip);
  g_test_message ("%s", error ? error->message : "no error");
  /* where its end is found, the clip is too short */
  g_assert_nonnull (error);
  g_assert_true (g_str_has_prefix (error->message, "Reference 1 (file://"));
  clip_stop (clip);
}

/* --- a server --- */

/* The begin of a picture, and then nothing. */
static gboolean
stall (GThreadedSocketService *service, GSocketConnection *connection,
    GObject *source, gpointer data)
{
  static const gchar answer[] = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"
                                "Content-Length: 100000\r\n\r\n\x89PNG\r\n";
  GOutputStream *out = g_io_stream_get_output_stream (G_IO_STREAM (connection));
  gchar buffer[4096];

  g_input_stream_read (g_io_stream_get_input_stream (G_IO_STREAM (connection)),
      buffer, sizeof (buffer), NULL, NULL);
  g_output_stream_write_all (out, answer, sizeof (answer) - 1, NULL, NULL,
      NULL);
  /* until who asked is gone */
  g_input_stream_read (g_io_stream_get_input_stream (G_IO_STREAM (connection)),
      buffer, sizeof (buffer), NULL, NULL);
  return TRUE;
}

static void
test_server (void)
{
  g_autoptr (GSocketService) service = g_threaded_socket_service_new (4);
  g_autoptr (Clip) clip = short_clip ();
  g_autoptr (GSocketAddress) asked =
      g_inet_socket_address_new_from_string ("127.0.0.1", 0);
  g_autoptr (GSocketAddress) given = NULL;
  g_autofree gchar *url = NULL;

  if (test_lacks ("souphttpsrc"))
    return;
  g_assert_true (g_socket_listener_add_address (G_SOCKET_LISTENER (service),
      asked, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_TCP, NULL, &given, NULL));
  g_signal_connect (service, "run", G_CALLBACK (stall), NULL);
  url = g_strdup_printf ("http://127.0.0.1:%u/a.png",
      g_inet_socket_address_get_port (G_INET_SOCKET_ADDRESS (given)));
  clip_set_file (clip, "first-frame", url);
  check_late (clip, "The first frame (http://127.0.0.1:", "not known");
  g_socket_service_stop (service);
}

/* --- when time does not count --- */

static gint slept;

/* As a model would that computes for a while. */
static GstPadProbeReturn
sleep_once (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  g_usleep (3 * G_USEC_PER_SEC);
  g_atomic_int_inc (&slept);
  return GST_PAD_PROBE_REMOVE;
}

static void
slow_down (GstElement *encoder)
{
  g_autoptr (GstPad) sink = gst_element_get_static_pad (encoder, "sink");

  gst_pad_add_probe (sink, GST_PAD_PROBE_TYPE_BUFFER, sleep_once, NULL, NULL);
}

static const Hook slow = { "h3audiovaeenc", slow_down };

static void
wait_preroll (Clip *clip)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (clip->pipeline);
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (bus,
      60 * GST_SECOND, GST_MESSAGE_ERROR | GST_MESSAGE_ASYNC_DONE);
  g_autoptr (GError) error = NULL;

  g_assert_nonnull (message);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    gst_message_parse_error (message, &error, NULL);
  g_assert_no_error (error);
}

/* In PAUSED, where a clip is made up to its first frame, as in PLAYING. */
static void
test_while_computing (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *image = golden_picture ("image.png");
  g_autoptr (GError) error = NULL;

  make_file ("audiotestsrc num-buffers=100 ! wavenc ! "
             "filesink location=%s/long.wav",
      test_dir);
  clip_set_references (clip, "long.wav", image, NULL);
  clip_run (clip); /* what must be loaded first is, then */
  clip_stop (clip);
  g_object_set (clip->h3, "input-timeout", LONG, NULL);
  set_hook (clip, &slow);
  g_atomic_int_set (&slept, 0);
  gst_element_set_state (clip->pipeline, GST_STATE_PAUSED);
  wait_preroll (clip);
  g_assert_cmpint (g_atomic_int_get (&slept), ==, 1);
  gst_element_set_state (clip->pipeline, GST_STATE_PLAYING);
  error = clip_wait (clip);
  g_assert_no_error (error);
}

static void
make_live (GstElement *source)
{
  if (GST_IS_APP_SRC (source))
    g_object_set (source, "is-live", TRUE, NULL);
}

static const Hook live = { "source", make_live };

/* A live source gives nothing before PLAYING. */
static void
test_live (void)
{
  g_autoptr (Clip) clip = short_clip ();

  set_hook (clip, &live);
  clip_set_references (clip, "appsrc://", NULL);
  gst_element_set_state (clip->pipeline, GST_STATE_PAUSED);
  check_silence (clip);
  check_late (clip, "Reference 1 (appsrc://)", "not known");
}

static void
test_no_limit (void)
{
  g_autoptr (Clip) clip = clip_new ("input-timeout=0");
  guint64 timeout;

  clip_set_references (clip, "appsrc://", NULL);
  gst_element_set_state (clip->pipeline, GST_STATE_PLAYING);
  check_silence (clip);
  g_object_get (clip->h3, "input-timeout", &timeout, NULL);
  g_assert_cmpuint (timeout, ==, 0);
}

void
add_condition_wait_tests (void)
{
  g_test_add_func ("/conditions/waits/silent", test_silent);
  g_test_add_func ("/conditions/waits/fifo", test_fifo);
  g_test_add_func ("/conditions/waits/fifo-written", test_fifo_written);
  g_test_add_func ("/conditions/waits/gif", test_gif);
  g_test_add_func ("/conditions/waits/server", test_server);
  g_test_add_func ("/conditions/waits/while-computing", test_while_computing);
  g_test_add_func ("/conditions/waits/live", test_live);
  g_test_add_func ("/conditions/waits/no-limit", test_no_limit);
}
