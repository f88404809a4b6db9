/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "decoder-test.h"

#include <stdio.h>
#include <unistd.h>

Decoder *
decoder_new (const gchar *factory, const gchar *sink_caps, ...)
{
  Decoder *decoder = g_new0 (Decoder, 1);
  const gchar *name;
  va_list args;

  decoder->element = gst_element_factory_make (factory, NULL);
  g_assert_nonnull (decoder->element);
  gst_object_ref_sink (decoder->element);
  decoder->bus = gst_bus_new ();
  gst_element_set_bus (decoder->element, decoder->bus);
  g_object_set (decoder->element, "model-path", h3_test_tiny_dir (), NULL);
  va_start (args, sink_caps);
  while ((name = va_arg (args, const gchar *)))
    gst_util_set_object_arg (G_OBJECT (decoder->element), name,
        va_arg (args, const gchar *));
  va_end (args);
  decoder->harness =
      gst_harness_new_with_element (decoder->element, "sink", "src");
  if (sink_caps)
    gst_harness_set_sink_caps_str (decoder->harness, sink_caps);
  return decoder;
}

void
decoder_free (Decoder *decoder)
{
  gst_harness_teardown (decoder->harness);
  gst_element_set_state (decoder->element, GST_STATE_NULL);
  gst_element_set_bus (decoder->element, NULL);
  gst_object_unref (decoder->element);
  gst_object_unref (decoder->bus);
  g_free (decoder);
}

static Latent *
latent_new (const gchar *file, const gchar *tensor)
{
  Latent *latent = g_new0 (Latent, 1);
  gsize n;

  latent->data = h3_test_golden (file, tensor, &n);
  latent->bytes = n * sizeof (gfloat);
  latent->info.type = GST_H3_TYPE_FLOAT32;
  return latent;
}

Latent *
latent_video (const gchar *file)
{
  Latent *latent = latent_new (file, "final_latents");
  gint64 shape[H3_STORED_MAX_RANK];

  /* [1, C, T, h, w] */
  g_assert_cmpuint (h3_test_golden_shape (file, "final_latents", shape), ==, 5);
  latent->info.modality = GST_H3_MODALITY_VIDEO;
  latent->info.channels = shape[1];
  latent->info.frames = shape[2];
  latent->info.height = shape[3];
  latent->info.width = shape[4];
  return latent;
}

Latent *
latent_audio (const gchar *file)
{
  Latent *latent = latent_new (file, "final_audio_latents");
  gint64 shape[H3_STORED_MAX_RANK];

  /* [2, C, T] */
  g_assert_cmpuint (h3_test_golden_shape (file, "final_audio_latents", shape),
      ==, 3);
  latent->info.modality = GST_H3_MODALITY_AUDIO;
  latent->info.audio_channels = shape[0];
  latent->info.channels = shape[1];
  latent->info.frames = shape[2];
  return latent;
}

void
latent_free (Latent *latent)
{
  g_free (latent->data);
  g_free (latent);
}

GstBuffer *
latent_buffer (const Latent *latent)
{
  return gst_buffer_new_memdup (latent->data, latent->bytes);
}

GstBuffer *
latent_device_buffer (const Latent *latent)
{
  gint64 dim[GST_H3_MAX_RANK];
  guint rank = gst_h3_latent_info_shape (&latent->info, dim);
  GstMemory *memory = gst_h3_allocator_alloc (gst_h3_allocator_get_host (),
      latent->info.type, rank, dim);
  GstBuffer *buffer = gst_buffer_new ();

  g_assert_nonnull (memory);
  gst_buffer_append_memory (buffer, memory);
  g_assert_cmpuint (gst_buffer_fill (buffer, 0, latent->data, latent->bytes),
      ==, latent->bytes);
  return buffer;
}

GstCaps *
latent_caps (const Latent *latent, gboolean device)
{
  return gst_h3_latent_info_to_caps (&latent->info, device);
}

GstFlowReturn
decoder_push (Decoder *decoder, const Latent *latent)
{
  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, FALSE));
  return gst_harness_push (decoder->harness, latent_buffer (latent));
}

GPtrArray *
decoder_pull_all (Decoder *decoder)
{
  GPtrArray *buffers =
      g_ptr_array_new_with_free_func ((GDestroyNotify) gst_buffer_unref);
  GstBuffer *buffer;

  while ((buffer = gst_harness_try_pull (decoder->harness)))
    g_ptr_array_add (buffers, buffer);
  return buffers;
}

static void
append_buffer (GByteArray *bytes, GstBuffer *buffer)
{
  GstMapInfo map;

  g_assert_true (gst_buffer_map (buffer, &map, GST_MAP_READ));
  g_byte_array_append (bytes, map.data, map.size);
  gst_buffer_unmap (buffer, &map);
}

GBytes *
buffers_bytes (GPtrArray *buffers)
{
  GByteArray *bytes = g_byte_array_new ();

  for (guint i = 0; i < buffers->len; i++)
    append_buffer (bytes, g_ptr_array_index (buffers, i));
  return g_byte_array_free_to_bytes (bytes);
}

GstMessage *
decoder_pop (Decoder *decoder, GstMessageType type)
{
  GstMessage *message = gst_bus_pop_filtered (decoder->bus, type);

  g_assert_nonnull (message);
  return message;
}

guint
decoder_count_messages (Decoder *decoder, GstMessageType type)
{
  GstMessage *message;
  guint n = 0;

  while ((message = gst_bus_pop (decoder->bus))) {
    n += (GST_MESSAGE_TYPE (message) & type) != 0;
    gst_message_unref (message);
  }
  return n;
}

void
decoder_check_error (const gchar *where, Decoder *decoder, GQuark domain,
    gint code, const gchar *text)
{
  g_autoptr (GstMessage) message =
      gst_bus_pop_filtered (decoder->bus, GST_MESSAGE_ERROR);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *debug = NULL, *all = NULL;

  if (!message) {
    g_test_message ("%s: no error message", where);
    g_test_fail ();
    return;
  }
  gst_message_parse_error (message, &error, &debug);
  all = g_strdup_printf ("%s\n%s", error->message, debug);
  g_test_message ("%s: %s", where, all);
  if (error->domain != domain || error->code != code || !strstr (all, text)) {
    g_test_message ("%s: got %s %d; want %s %d and \"%s\"", where,
        g_quark_to_string (error->domain), error->code,
        g_quark_to_string (domain), code, text);
    g_test_fail ();
  }
  /* once per failure */
  g_assert_cmpuint (decoder_count_messages (decoder, GST_MESSAGE_ERROR), ==, 0);
}

guint64
buffers_check_timeline (GPtrArray *buffers, guint64 first, GstClockTime base,
    guint rate, gsize unit_bytes)
{
  guint64 unit = first;

  for (guint i = 0; i < buffers->len; i++) {
    GstBuffer *buffer = g_ptr_array_index (buffers, i);
    guint64 next =
        unit + (unit_bytes ? gst_buffer_get_size (buffer) / unit_bytes : 1);
    GstClockTime begin =
        base + gst_util_uint64_scale (unit - first, GST_SECOND, rate);
    GstClockTime end =
        base + gst_util_uint64_scale (next - first, GST_SECOND, rate);

    g_assert_cmpuint (GST_BUFFER_PTS (buffer), ==, begin);
    g_assert_cmpuint (GST_BUFFER_DURATION (buffer), ==, end - begin);
    g_assert_false (GST_BUFFER_DTS_IS_VALID (buffer));
    g_assert_cmpuint (GST_BUFFER_OFFSET (buffer), ==, unit);
    g_assert_cmpuint (GST_BUFFER_OFFSET_END (buffer), ==, next);
    unit = next;
  }
  return unit;
}

/* Flushing */

typedef struct {
  Decoder *decoder;
  const Latent *latent;
  guint nth, seen;
  GMutex lock;
  GCond cond;
  gboolean reached, go_on;
  GstFlowReturn ret;
} FlushTest;

static GstPadProbeReturn
hold_nth_buffer (GstPad *pad, GstPadProbeInfo *info, gpointer user_data)
{
  FlushTest *test = user_data;

  if (++test->seen != test->nth)
    return GST_PAD_PROBE_OK;
  g_mutex_lock (&test->lock);
  test->reached = TRUE;
  g_cond_signal (&test->cond);
  while (!test->go_on)
    g_cond_wait (&test->cond, &test->lock);
  g_mutex_unlock (&test->lock);
  return GST_PAD_PROBE_OK;
}

static gpointer
push_in_thread (gpointer user_data)
{
  FlushTest *test = user_data;

  test->ret = decoder_push (test->decoder, test->latent);
  return NULL;
}

void
decoder_check_flush (Decoder *decoder, const Latent *latent, guint nth,
    GBytes *want)
{
  FlushTest test = { .decoder = decoder, .latent = latent, .nth = nth };
  GstPad *pad = gst_element_get_static_pad (decoder->element, "src");
  GstSegment segment;
  GThread *thread;
  gulong probe;
  g_autoptr (GPtrArray) buffers = NULL;
  g_autoptr (GBytes) bytes = NULL;

  probe = gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, hold_nth_buffer,
      &test, NULL);
  thread = g_thread_new ("push", push_in_thread, &test);
  g_mutex_lock (&test.lock);
  while (!test.reached)
    g_cond_wait (&test.cond, &test.lock);
  g_mutex_unlock (&test.lock);

  g_assert_true (
      gst_harness_push_event (decoder->harness, gst_event_new_flush_start ()));
  g_mutex_lock (&test.lock);
  test.go_on = TRUE;
  g_cond_signal (&test.cond);
  g_mutex_unlock (&test.lock);
  g_thread_join (thread);
  g_assert_cmpint (test.ret, ==, GST_FLOW_FLUSHING);
  g_assert_true (gst_harness_push_event (decoder->harness,
      gst_event_new_flush_stop (TRUE)));
  gst_pad_remove_probe (pad, probe);
  gst_object_unref (pad);
  buffers = decoder_pull_all (decoder);
  g_assert_cmpuint (buffers->len, <, nth + 1);
  g_clear_pointer (&buffers, g_ptr_array_unref);

  gst_segment_init (&segment, GST_FORMAT_TIME);
  g_assert_true (gst_harness_push_event (decoder->harness,
      gst_event_new_segment (&segment)));
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  buffers = decoder_pull_all (decoder);
  g_assert_cmpuint (GST_BUFFER_PTS (g_ptr_array_index (buffers, 0)), ==, 0);
  bytes = buffers_bytes (buffers);
  g_assert_true (g_bytes_equal (bytes, want));
  g_assert_cmpuint (decoder_count_messages (decoder,
                        GST_MESSAGE_ERROR | GST_MESSAGE_WARNING),
      ==, 0);
}

/* Growth */

static gsize
resident_bytes (void)
{
  g_autofree gchar *text = NULL;
  gsize size, resident;

  g_assert_true (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL));
  g_assert_cmpint (sscanf (text, "%zu %zu", &size, &resident), ==, 2);
  return resident * sysconf (_SC_PAGESIZE);
}

void
decoder_check_cycles (const gchar *factory, guint n)
{
  g_autoptr (GstElement) element = gst_element_factory_make (factory, NULL);
  gsize before = 0;

#ifdef __SANITIZE_ADDRESS__ /* slow, and it finds a leak in the first */
  n /= 5;
#endif
  gst_object_ref_sink (element);
  g_object_set (element, "model-path", h3_test_tiny_dir (), NULL);
  for (guint i = 0; i < n; i++) {
    if (i == n / 4)
      before = resident_bytes ();
    g_assert_cmpint (gst_element_set_state (element, GST_STATE_PLAYING), ==,
        GST_STATE_CHANGE_SUCCESS);
    g_assert_cmpint (gst_element_set_state (element, GST_STATE_NULL), ==,
        GST_STATE_CHANGE_SUCCESS);
  }
#ifdef __SANITIZE_ADDRESS__ /* which keeps freed memory on purpose */
  g_test_message ("resident before: %zu", before);
#else
  g_assert_cmpuint (resident_bytes (), <, before + (8 << 20));
#endif
}

/* Pipelines */

static void
handoff (GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer bytes)
{
  append_buffer (bytes, buffer);
}

GBytes *
pipeline_bytes (const gchar *launch, GError **error)
{
  g_autoptr (GError) parse_error = NULL;
  g_autoptr (GstElement) pipeline = gst_parse_launch (launch, &parse_error);
  g_autoptr (GstElement) sink = NULL;
  g_autoptr (GstBus) bus = NULL;
  g_autoptr (GstMessage) message = NULL;
  GByteArray *bytes = g_byte_array_new ();

  g_assert_no_error (parse_error);
  sink = gst_bin_get_by_name (GST_BIN (pipeline), "sink");
  g_object_set (sink, "signal-handoffs", TRUE, NULL);
  g_signal_connect (sink, "handoff", G_CALLBACK (handoff), bytes);
  bus = gst_element_get_bus (pipeline);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR) {
    g_autoptr (GError) failure = NULL;
    g_autofree gchar *debug = NULL;
    gst_message_parse_error (message, &failure, &debug);
    g_test_message ("%s\n%s", failure->message, debug);
    g_assert_nonnull (error);
    g_propagate_error (error, g_steal_pointer (&failure));
  }
  return g_byte_array_free_to_bytes (bytes);
}
