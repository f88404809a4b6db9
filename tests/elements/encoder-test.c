/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "encoder-test.h"

void
encoder_start (Decoder *encoder, const gchar *caps)
{
  gst_harness_play (encoder->harness);
  gst_harness_set_src_caps_str (encoder->harness, caps);
}

void
encoder_eos (Decoder *encoder)
{
  gst_harness_push_event (encoder->harness, gst_event_new_eos ());
}

void
encoder_flush (Decoder *encoder)
{
  GstSegment segment;

  gst_segment_init (&segment, GST_FORMAT_TIME);
  g_assert_true (
      gst_harness_push_event (encoder->harness, gst_event_new_flush_start ()));
  g_assert_true (gst_harness_push_event (encoder->harness,
      gst_event_new_flush_stop (TRUE)));
  g_assert_true (gst_harness_push_event (encoder->harness,
      gst_event_new_segment (&segment)));
}

GstBuffer *
encoder_pull (Decoder *encoder)
{
  GstBuffer *buffer = gst_harness_try_pull (encoder->harness);

  if (!buffer) {
    g_autoptr (GstMessage) message =
        gst_bus_pop_filtered (encoder->bus, GST_MESSAGE_ERROR);
    g_autoptr (GError) error = NULL;

    if (message)
      gst_message_parse_error (message, &error, NULL);
    g_error ("no latent: %s", error ? error->message : "and no error");
  }
  g_assert_null (gst_harness_try_pull (encoder->harness));
  g_assert_cmpuint (GST_BUFFER_PTS (buffer), ==, 0);
  return buffer;
}

GBytes *
encoder_pull_bytes (Decoder *encoder)
{
  g_autoptr (GPtrArray) buffers =
      g_ptr_array_new_with_free_func ((GDestroyNotify) gst_buffer_unref);

  g_ptr_array_add (buffers, encoder_pull (encoder));
  return buffers_bytes (buffers);
}

void
encoder_check_latent (Decoder *encoder, const gfloat *want, gsize n,
    gint frames, const gchar *role)
{
  g_autoptr (GBytes) bytes = encoder_pull_bytes (encoder);
  g_autoptr (GstCaps) caps =
      gst_pad_get_current_caps (encoder->harness->sinkpad);
  GstH3LatentInfo info;
  gsize size;

  g_assert_nonnull (caps);
  g_assert_true (gst_h3_latent_info_from_caps (&info, caps, NULL));
  g_assert_cmpint (info.frames, ==, frames);
  g_assert_cmpstr (gst_structure_get_string (gst_caps_get_structure (caps, 0),
                       "role"),
      ==, role);
  g_assert_cmpuint (gst_h3_latent_info_size (&info), ==, n * sizeof (gfloat));
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, n * sizeof (gfloat));
  h3_test_assert_close (g_bytes_get_data (bytes, &size), want, n, 1e-4);
  g_assert_null (gst_bus_pop_filtered (encoder->bus,
      GST_MESSAGE_ERROR | GST_MESSAGE_WARNING));
}

static gpointer
send_eos (gpointer data)
{
  encoder_eos (data);
  return NULL;
}

static void
wait_for_load (Decoder *encoder)
{
  guint loads = 0;

  while (loads == 0) {
    g_autoptr (GstStructure) stats = NULL;

    g_object_get (encoder->element, "stats", &stats, NULL);
    g_assert_true (gst_structure_get_uint (stats, "model-loads", &loads));
    g_usleep (1000);
  }
}

void
encoder_check_cancel (Decoder *encoder, gboolean ready)
{
  GThread *thread;
  gint64 start;

  wait_for_load (encoder);
  thread = g_thread_new ("eos", send_eos, encoder);
  /* in the midst of it: a GPU has done it by then */
  g_usleep (h3_test_on_gpu () ? 5000 : 200 * 1000);
  start = g_get_monotonic_time ();
  if (ready)
    gst_element_set_state (encoder->element, GST_STATE_READY);
  else
    gst_harness_push_event (encoder->harness, gst_event_new_flush_start ());
  g_thread_join (thread);
  g_assert_cmpint (g_get_monotonic_time () - start, <, G_USEC_PER_SEC);
  if (!ready)
    gst_harness_push_event (encoder->harness, gst_event_new_flush_stop (TRUE));
  g_assert_cmpuint (gst_harness_buffers_received (encoder->harness), ==, 0);
  g_assert_cmpuint (decoder_count_messages (encoder, GST_MESSAGE_ERROR), ==, 0);
}

void
encoder_limit_memory (Decoder *encoder, guint64 extra)
{
  g_autoptr (GstStructure) stats = NULL;
  guint64 weights;

  gst_element_set_state (encoder->element, GST_STATE_READY);
  g_object_get (encoder->element, "stats", &stats, NULL);
  g_assert_true (gst_structure_get_uint64 (stats, "weight-bytes", &weights));
  g_object_set (encoder->element, "memory-budget", weights + extra, NULL);
  gst_element_set_state (encoder->element, GST_STATE_NULL);
}
