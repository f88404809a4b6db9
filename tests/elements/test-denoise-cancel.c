/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every way to end a clip early: soon, nothing of it comes out, and the next
 * clip is bit-equal to one from an element that was never cancelled. */
#include "denoise-test.h"

/* Time to notice: a transformer block, and a loaded machine. */
#define SOON (G_USEC_PER_SEC)
#define LONG_STEPS "1000"

static GBytes *
reference_clip (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  denoiser_push (denoiser);
  return denoiser_pull (denoiser, NULL, NULL);
}

/* A clip that takes long, in its loop. */
static void
start_long (Denoiser *denoiser)
{
  denoiser_set (denoiser, "steps", LONG_STEPS, NULL);
  denoiser_drop_messages (denoiser);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  denoiser_wait_running (denoiser);
  denoiser_set (denoiser, "steps", "4", NULL);
}

static void
wait_canceled (Denoiser *denoiser)
{
  gboolean canceled = FALSE;

  while (!canceled) {
    GstMessage *message = denoiser_wait (denoiser, GST_MESSAGE_PROGRESS, NULL);
    g_autofree gchar *code = NULL;
    GstProgressType type;

    gst_message_parse_progress (message, &type, &code, NULL);
    gst_message_unref (message);
    /* loading may report its end only now */
    if (g_str_equal (code, "h3-denoise")) {
      g_assert_cmpint (type, !=, GST_PROGRESS_TYPE_COMPLETE);
      canceled = type == GST_PROGRESS_TYPE_CANCELED;
    }
  }
}

static void
assert_next_clip_equals (Denoiser *denoiser, GBytes *want)
{
  GstBuffer *video, *audio;
  GBytes *clip;

  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  clip = denoiser_pull (denoiser, &video, &audio);
  g_assert_true (g_bytes_equal (clip, want));
  g_assert_cmpuint (GST_BUFFER_PTS (video), ==, 0);
  g_assert_cmpuint (GST_BUFFER_PTS (audio), ==, 0);
  gst_buffer_unref (video);
  gst_buffer_unref (audio);
  g_bytes_unref (clip);
}

static void
cancel_job (Denoiser *denoiser, guint64 job, gboolean found)
{
  gboolean answer;

  g_signal_emit_by_name (denoiser->element, "cancel-job", job, &answer);
  g_assert_cmpint (answer, ==, found);
}

/* Twice in a row, then a clip. */
static void
test_action (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GBytes *want = reference_clip ();

  for (guint64 job = 0; job < 2; job++) {
    gint64 start;

    start_long (denoiser);
    cancel_job (denoiser, job + 1, FALSE);
    start = g_get_monotonic_time ();
    cancel_job (denoiser, job, TRUE);
    wait_canceled (denoiser);
    g_assert_cmpint (g_get_monotonic_time () - start, <, SOON);
  }
  assert_next_clip_equals (denoiser, want);
  g_assert_cmpuint (element_stat (denoiser->element, "jobs-cancelled"), ==, 2);
  g_assert_cmpuint (element_stat (denoiser->element, "jobs-done"), ==, 1);
  g_assert_cmpuint (element_stat (denoiser->element, "jobs-failed"), ==, 0);
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->video), ==, 1);
  g_bytes_unref (want);
}

/* One that waits is dropped; the one that runs goes on. */
static void
test_action_waiting (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  start_long (denoiser);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  cancel_job (denoiser, 1, TRUE);
  cancel_job (denoiser, 1, FALSE);
  cancel_job (denoiser, 0, TRUE);
  wait_canceled (denoiser);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->video), ==, 1);
}

static void
test_flush (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GBytes *want = reference_clip ();

  for (gint i = 0; i < 2; i++) {
    gint64 start;

    start_long (denoiser);
    g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK); /* waits */
    start = g_get_monotonic_time ();
    gst_harness_push_event (denoiser->video, gst_event_new_flush_start ());
    g_assert_cmpint (g_get_monotonic_time () - start, <, SOON);
    gst_harness_push_event (denoiser->video, gst_event_new_flush_stop (TRUE));
    denoiser_send_header (denoiser);
    assert_next_clip_equals (denoiser, want);
  }
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->video), ==, 2);
  g_assert_cmpuint (gst_harness_buffers_received (denoiser->audio), ==, 2);
  g_bytes_unref (want);
}

static gpointer
push_and_return (gpointer data)
{
  return GINT_TO_POINTER (denoiser_push (data));
}

/* Upstream blocked in the full queue is let go. */
static void
test_flush_while_blocked (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GThread *thread;

  start_long (denoiser);
  denoiser_push (denoiser);
  thread = g_thread_new ("pusher", push_and_return, denoiser);
  g_usleep (50000); /* it blocks: the queue holds one */
  gst_harness_push_event (denoiser->video, gst_event_new_flush_start ());
  g_assert_cmpint (GPOINTER_TO_INT (g_thread_join (thread)), ==,
      GST_FLOW_FLUSHING);
  gst_harness_push_event (denoiser->video, gst_event_new_flush_stop (TRUE));
  denoiser_send_header (denoiser);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
}

static void
test_ready (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GBytes *want = reference_clip ();

  for (gint i = 0; i < 2; i++) {
    gint64 start;

    start_long (denoiser);
    start = g_get_monotonic_time ();
    g_assert_cmpint (gst_element_set_state (denoiser->element, GST_STATE_READY),
        ==, GST_STATE_CHANGE_SUCCESS);
    g_assert_cmpint (g_get_monotonic_time () - start, <, SOON);
    g_assert_cmpint (gst_element_set_state (denoiser->element,
                         GST_STATE_PLAYING),
        ==, GST_STATE_CHANGE_SUCCESS);
    denoiser_send_header (denoiser);
    assert_next_clip_equals (denoiser, want);
  }
  g_bytes_unref (want);
}

/* A picture so large that one transformer block takes very long; a GPU needs
 * many steps to be at it still when the wish to stop comes. */
static void
test_inside_a_block (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", "width", "2048",
      "height", "2048", "steps", h3_test_on_gpu () ? LONG_STEPS : "4", NULL);
  GBytes *want = reference_clip ();
  GBytes *clip;
  gint64 start;

  denoiser_drop_messages (denoiser);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  denoiser_wait_running (denoiser);
  g_usleep (2 * G_USEC_PER_SEC);
  denoiser_set (denoiser, "width", "96", "height", "64", "steps", "4", NULL);
  start = g_get_monotonic_time ();
  cancel_job (denoiser, 0, TRUE);
  wait_canceled (denoiser);
  g_assert_cmpint (g_get_monotonic_time () - start, <, 3 * SOON);
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  clip = denoiser_pull (denoiser, NULL, NULL);
  g_assert_true (g_bytes_equal (clip, want));
  g_bytes_unref (clip);
  g_bytes_unref (want);
}

static GstPadProbeReturn
answer_eos (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  gst_buffer_unref (GST_PAD_PROBE_INFO_BUFFER (info));
  GST_PAD_PROBE_INFO_DATA (info) = NULL;
  GST_PAD_PROBE_INFO_FLOW_RETURN (info) = GST_FLOW_EOS;
  return GST_PAD_PROBE_HANDLED;
}

static void
answer_eos_on (Denoiser *denoiser, const gchar *name)
{
  GstPad *pad = gst_element_get_static_pad (denoiser->element, name);

  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, answer_eos, NULL, NULL);
  gst_object_unref (pad);
}

static GstFlowReturn
push_until_refused (Denoiser *denoiser)
{
  GstFlowReturn ret = GST_FLOW_OK;

  for (gint i = 0; i < 50 && ret == GST_FLOW_OK; i++)
    ret = denoiser_push (denoiser);
  return ret;
}

/* Downstream has enough, on both pads: so has upstream, and no error. */
static void
assert_eos_event (GstHarness *harness)
{
  gboolean eos = FALSE;

  while (!eos) {
    GstEvent *event = gst_harness_pull_event (harness);

    g_assert_nonnull (event);
    eos = GST_EVENT_TYPE (event) == GST_EVENT_EOS;
    gst_event_unref (event);
  }
}

static void
test_downstream_eos (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  answer_eos_on (denoiser, "video");
  answer_eos_on (denoiser, "audio");
  g_assert_cmpint (push_until_refused (denoiser), ==, GST_FLOW_EOS);
  assert_eos_event (denoiser->video);
  assert_eos_event (denoiser->audio);
  g_assert_null (gst_bus_pop_filtered (denoiser->bus, GST_MESSAGE_ERROR));
}

/* On one pad: the other goes on. */
static void
test_downstream_eos_on_one (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  answer_eos_on (denoiser, "audio");
  for (gint i = 0; i < 3; i++) {
    g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
    gst_buffer_unref (gst_harness_pull (denoiser->video));
  }
  assert_eos_event (denoiser->audio);
}

static void
count_steps (GstElement *element, guint64 job, guint step, guint total,
    gpointer data)
{
  g_assert_cmpuint (step, ==, ++*(guint *) data);
  g_assert_cmpuint (total, ==, 4);
}

static void
take_settings (GstElement *element, guint64 job, GstStructure *settings,
    gpointer data)
{
  *(GstStructure **) data = gst_structure_copy (settings);
}

/* One job-done for each job-started, and its result. */
static void
test_signals (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstStructure *settings = NULL, *stats = NULL;
  guint steps = 0, frames;
  gint64 deadline;

  g_signal_connect (denoiser->element, "job-started",
      G_CALLBACK (take_settings), &settings);
  g_signal_connect (denoiser->element, "job-done", G_CALLBACK (take_settings),
      &stats);
  g_signal_connect (denoiser->element, "job-step", G_CALLBACK (count_steps),
      &steps);
  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
  gst_harness_push_event (denoiser->video, gst_event_new_eos ());
  deadline = g_get_monotonic_time () + 10 * G_USEC_PER_SEC;
  while (!g_atomic_pointer_get (&stats) && g_get_monotonic_time () < deadline)
    g_usleep (1000);
  g_assert_nonnull (settings);
  g_assert_nonnull (stats);
  g_assert_cmpuint (steps, ==, 4);
  g_assert_true (gst_structure_get_uint (settings, "frames", &frames));
  g_assert_cmpuint (frames, ==, 22);
  g_assert_cmpstr (gst_structure_get_string (stats, "result"), ==, "done");
  gst_structure_free (settings);
  gst_structure_free (stats);
}

void
add_cancel_tests (void)
{
  g_test_add_func ("/denoise/cancel/action", test_action);
  g_test_add_func ("/denoise/cancel/action-waiting", test_action_waiting);
  g_test_add_func ("/denoise/cancel/flush", test_flush);
  g_test_add_func ("/denoise/cancel/flush-while-blocked",
      test_flush_while_blocked);
  g_test_add_func ("/denoise/cancel/ready", test_ready);
  g_test_add_func ("/denoise/cancel/inside-a-block", test_inside_a_block);
  g_test_add_func ("/denoise/cancel/downstream-eos", test_downstream_eos);
  g_test_add_func ("/denoise/cancel/downstream-eos-on-one",
      test_downstream_eos_on_one);
  g_test_add_func ("/denoise/cancel/signals", test_signals);
}
