/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whole pipelines on cards that are too small, that fail and that are not
 * there. On the demo checkpoint. */
#include "card.h"

#include <gst/h3/h3.h>
#include <stdio.h>

#include "gst/gsth3common.h"
#include "gst/gsth3elements.h"
#include "gst/gsth3log.h"
#include "h3-test.h"

#define PROMPT "a red circle moves right on a blue background, high tone"
#define SETTINGS "width=96 height=64 frames=22 steps=2 seed=1"

/* What each test's card is called; one that has failed stays so. */
enum { ROOMY, TIGHT, BROKEN, NAMED, REFUSED, SMALL };

typedef struct {
  GstElement *pipeline;
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

  g_signal_connect (sink, "handoff", G_CALLBACK (keep), bytes);
  gst_object_unref (sink);
  return bytes;
}

#define SINKS                                                                  \
  "video/x-raw,format=RGB ! fakesink name=video sync=false "                   \
  "signal-handoffs=true "

G_GNUC_PRINTF (1, 2)
static Run *
run_new (const gchar *format, ...)
{
  Run *run = g_new0 (Run, 1);
  g_autofree gchar *launch = NULL;
  GError *error = NULL;
  va_list args;

  va_start (args, format);
  launch = g_strdup_vprintf (format, args);
  va_end (args);
  run->pipeline = gst_parse_launch (launch, &error);
  g_assert_no_error (error);
  run->bus = gst_element_get_bus (run->pipeline);
  run->video = keep_from (run, "video");
  run->audio = keep_from (run, "audio");
  return run;
}

/* h3src with @settings. */
static Run *
clip_new (guint card, const gchar *settings)
{
  return run_new ("h3src name=h3 model-path=%s prompt=\"" PROMPT "\" " SETTINGS
                  " backend=cuda cuda-device-id=%u %s h3.video ! " SINKS
                  "h3.audio ! fakesink name=audio sync=false "
                  "signal-handoffs=true",
      h3_test_demo_dir (), card, settings);
}

static void
run_free (Run *run)
{
  gst_element_set_state (run->pipeline, GST_STATE_NULL);
  gst_object_unref (run->bus);
  gst_object_unref (run->pipeline);
  g_byte_array_unref (run->video);
  g_byte_array_unref (run->audio);
  g_free (run);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Run, run_free)

/* To EOS or the first error, and back to READY. */
static GError *
run_to_end (Run *run)
{
  g_autoptr (GstMessage) message = NULL;
  GError *error = NULL;

  g_byte_array_set_size (run->video, 0);
  g_byte_array_set_size (run->audio, 0);
  gst_element_set_state (run->pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (run->bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    gst_message_parse_error (message, &error, NULL);
  gst_element_set_state (run->pipeline, GST_STATE_READY);
  gst_bus_set_flushing (run->bus, TRUE);
  gst_bus_set_flushing (run->bus, FALSE);
  return error;
}

static void
assert_ends (Run *run)
{
  g_autoptr (GError) error = run_to_end (run);

  g_assert_no_error (error);
  g_assert_cmpuint (run->video->len, >, 0);
  g_assert_cmpuint (run->audio->len, >, 0);
}

static void
assert_fails (Run *run, GQuark domain, gint code, const gchar *says)
{
  g_autoptr (GError) error = run_to_end (run);

  g_assert_error (error, domain, code);
  if (!strstr (error->message, says))
    g_error ("\"%s\" does not say \"%s\"", error->message, says);
}

static guint64
stat_of (Run *run, const gchar *child, const gchar *name)
{
  GstElement *h3 = gst_bin_get_by_name (GST_BIN (run->pipeline), "h3");
  GstStructure *stats = NULL, *inner = NULL;
  const GValue *value;
  guint64 number;

  g_object_get (h3, "stats", &stats, NULL);
  gst_object_unref (h3);
  g_assert_true (
      gst_structure_get (stats, child, GST_TYPE_STRUCTURE, &inner, NULL));
  value = gst_structure_get_value (inner, name);
  number = G_VALUE_HOLDS_UINT64 (value) ? g_value_get_uint64 (value)
                                        : g_value_get_uint (value);
  gst_structure_free (inner);
  gst_structure_free (stats);
  return number;
}

static void
assert_same (const Run *a, const Run *b)
{
  g_assert_cmpmem (a->video->data, a->video->len, b->video->data,
      b->video->len);
  g_assert_cmpmem (a->audio->data, a->audio->len, b->audio->data,
      b->audio->len);
}

/* --- prompts --- */

static void
push_prompts (GstElement *source, guint n)
{
  for (guint i = 0; i < n; i++) {
    GstBuffer *buffer =
        gst_buffer_new_wrapped (g_strdup (PROMPT), strlen (PROMPT));
    GstFlowReturn ret;

    GST_BUFFER_PTS (buffer) = i;
    g_signal_emit_by_name (source, "push-buffer", buffer, &ret);
    gst_buffer_unref (buffer);
  }
}

/* --- residency --- */

/* Text encoder and transformer take turns, and the clip is the same. */
static void
test_too_small_for_all (void)
{
  g_autoptr (Run) roomy = clip_new (ROOMY, "");
  g_autoptr (Run) tight = clip_new (TIGHT, "");
  gsize smaller;

  assert_ends (roomy);
  g_assert_cmpuint (stat_of (roomy, "textenc", "model-parks"), ==, 0);
  g_assert_cmpuint (stat_of (roomy, "denoise", "model-parks"), ==, 0);
  smaller = MIN (stat_of (roomy, "textenc", "weight-bytes"),
      stat_of (roomy, "denoise", "weight-bytes"));
  card_reset (&cards[TIGHT], (cards[ROOMY].peak - smaller / 2) / 0.95);

  for (guint i = 1; i <= 3; i++) {
    assert_ends (tight);
    assert_same (roomy, tight);
    g_assert_cmpuint (stat_of (tight, "textenc", "model-parks"), >=, i);
  }
  g_assert_cmpuint (stat_of (tight, "textenc", "model-loads"), ==, 1);
  g_assert_cmpuint (stat_of (tight, "denoise", "model-loads"), ==, 1);
  g_assert_cmpuint (cards[TIGHT].peak, <=, cards[TIGHT].capacity);
  gst_element_set_state (tight->pipeline, GST_STATE_NULL);
  g_assert_cmpuint (cards[TIGHT].used, ==, 0);
  g_assert_cmpuint (cards[TIGHT].host_used, ==, 0);
}

static void
test_stage (void)
{
  g_autoptr (Run) roomy = clip_new (ROOMY, "");
  g_autoptr (Run) staged = clip_new (ROOMY, "residency=stage");

  assert_ends (roomy);
  gst_element_set_state (roomy->pipeline, GST_STATE_NULL);
  for (guint i = 1; i <= 2; i++) {
    assert_ends (staged);
    assert_same (roomy, staged);
    g_assert_cmpuint (stat_of (staged, "textenc", "model-parks"), ==, i);
    g_assert_cmpuint (stat_of (staged, "denoise", "model-parks"), ==, i);
  }
  /* besides the decoders, what the transformer keeps from its schedule */
  g_assert_cmpuint (cards[ROOMY].used, <=,
      stat_of (staged, "videovae", "weight-bytes") +
          stat_of (staged, "audiovae", "weight-bytes") +
          stat_of (staged, "denoise", "workspace-bytes"));
}

static void
test_pipeline_residency (void)
{
  g_autoptr (Run) tight = clip_new (TIGHT, "residency=pipeline");

  assert_fails (tight, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
      "set residency=auto");
}

/* --- the plan --- */

/* What it says of the vision tower; "": nothing. */
static void
keep_plan (GstDebugCategory *category, GstDebugLevel level, const gchar *file,
    const gchar *function, gint line, GObject *object, GstDebugMessage *message,
    gpointer kept)
{
  const gchar *text = gst_debug_message_get (message);

  if (!g_str_has_prefix (text, "plan for card:"))
    return;
  text = strstr (text, "vision tower");
  g_free (*(gchar **) kept);
  *(gchar **) kept =
      text ? g_strndup (text, strcspn (text, ";:")) : g_strdup ("");
}

static guint64
workspace_of (const gchar *plan)
{
  guint64 weights, workspace;

  g_assert_cmpint (sscanf (plan,
                       "vision tower %" G_GUINT64_FORMAT
                       " bytes of weights, %" G_GUINT64_FORMAT " of workspace",
                       &weights, &workspace),
      ==, 2);
  g_assert_cmpuint (weights, >, 0);
  return workspace;
}

static GstElement *
text_encoder_new (const gchar *pad)
{
  GstElement *element = gst_element_factory_make ("h3textenc", NULL);

  gst_object_ref_sink (element);
  g_object_set (element, "model-path", h3_test_tiny_dir (), NULL);
  gst_util_set_object_arg (G_OBJECT (element), "backend", "cuda");
  gst_util_set_object_arg (G_OBJECT (element), "residency", "pipeline");
  if (pad)
    gst_object_unref (gst_element_request_pad_simple (element, pad));
  return element;
}

static void
text_encoder_free (GstElement *element)
{
  gst_element_set_state (element, GST_STATE_NULL);
  gst_object_unref (element);
}

/* A prompt with a clip on video_0, to EOS. */
static void
run_with_clip (gint width, gint height)
{
  g_autofree gchar *launch = g_strdup_printf (
      "appsrc name=prompt format=time caps=text/x-raw,format=utf8 ! "
      "h3textenc name=text model-path=%s backend=cuda canvas-edge=64 ! "
      "fakesink sync=false appsrc name=clip format=time "
      "caps=video/x-raw,format=RGB,width=%d,height=%d,framerate=24/1 ! "
      "text.video_0",
      h3_test_tiny_dir (), width, height);
  g_autoptr (GstElement) pipeline = gst_parse_launch (launch, NULL);
  g_autoptr (GstElement) prompt =
      gst_bin_get_by_name (GST_BIN (pipeline), "prompt");
  g_autoptr (GstElement) clip =
      gst_bin_get_by_name (GST_BIN (pipeline), "clip");
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);
  g_autoptr (GstMessage) message = NULL;
  GstFlowReturn ret;

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  push_prompts (prompt, 1);
  g_signal_emit_by_name (prompt, "end-of-stream", &ret);
  for (guint i = 0; i < 25; i++) {
    gsize size = GST_ROUND_UP_4 (3 * width) * height;
    g_autoptr (GstBuffer) frame = gst_buffer_new_allocate (NULL, size, NULL);

    gst_buffer_memset (frame, 0, 7 * i, size);
    g_signal_emit_by_name (clip, "push-buffer", frame, &ret);
  }
  g_signal_emit_by_name (clip, "end-of-stream", &ret);
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  gst_element_set_state (pipeline, GST_STATE_NULL);
}

/* Where something to see will come the vision tower is in the plan, at first for
 * one picture, then for what came. */
static void
test_vision_plan (void)
{
  g_autofree gchar *plan = g_strdup ("");
  GstElement *none = text_encoder_new (NULL);
  GstElement *sound = text_encoder_new ("audio_3");
  GstElement *clip = text_encoder_new ("video_3");
  g_autoptr (GstStructure) stats = NULL;
  guint64 one, weights;

  card_reset (&cards[ROOMY], 0);
  gst_debug_set_threshold_for_name ("h3runtime", GST_LEVEL_INFO);
  gst_debug_remove_log_function (gst_debug_log_default);
  gst_debug_add_log_function (keep_plan, &plan, NULL);

  gst_element_set_state (none, GST_STATE_PAUSED);
  g_assert_cmpstr (plan, ==, "");
  text_encoder_free (none);
  gst_element_set_state (sound, GST_STATE_PAUSED);
  g_assert_cmpstr (plan, ==, "");
  text_encoder_free (sound);
  gst_element_set_state (clip, GST_STATE_PAUSED);
  one = workspace_of (plan);
  g_object_get (clip, "stats", &stats, NULL);
  gst_structure_get_uint64 (stats, "weight-bytes", &weights);
  gst_element_set_state (clip, GST_STATE_READY);
  /* language model and tower are needed at the same time */
  g_object_set (clip, "memory-budget", weights + one, NULL);
  g_assert_cmpint (gst_element_set_state (clip, GST_STATE_PAUSED), ==,
      GST_STATE_CHANGE_FAILURE);
  g_object_set (clip, "memory-budget", (guint64) 0, NULL);
  g_assert_cmpint (gst_element_set_state (clip, GST_STATE_PAUSED), ==,
      GST_STATE_CHANGE_SUCCESS);
  text_encoder_free (clip);

  run_with_clip (64, 64);
  g_assert_cmpuint (workspace_of (plan), >, 0);
  g_assert_cmpuint (workspace_of (plan), !=, one);
  gst_debug_remove_log_function_by_data (&plan);
  gst_debug_add_log_function (gst_debug_log_default, NULL, NULL);
  gst_debug_unset_threshold_for_name ("h3runtime");
}

/* --- errors --- */

static void
test_large_clip (void)
{
  g_autoptr (Run) tight = clip_new (TIGHT, "");
  GstElement *h3 = gst_bin_get_by_name (GST_BIN (tight->pipeline), "h3");

  g_object_set (h3, "width", 1024, "height", 1024, NULL);
  assert_fails (tight, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
      "make a smaller clip");
  gst_element_set_state (tight->pipeline, GST_STATE_NULL);
  g_object_set (h3, "width", 96, "height", 64, NULL);
  assert_ends (tight);
  gst_object_unref (h3);
}

/* What cannot fit is said before the first byte goes to the card, of encoded
 * weights as of plain ones. */
static void
test_nothing_uploaded (void)
{
  g_autofree gchar *encoded =
      g_build_filename (g_getenv ("H3_QUANTISED_DIR"), "int8-metadata", NULL);
  const gchar *const checkpoints[] = { h3_test_demo_dir (), encoded };

  for (guint i = 0; i < G_N_ELEMENTS (checkpoints); i++) {
    g_autoptr (Run) run = clip_new (SMALL, "");
    GstElement *h3 = gst_bin_get_by_name (GST_BIN (run->pipeline), "h3");

    g_object_set (h3, "model-path", checkpoints[i], "partition", 1, NULL);
    card_reset (&cards[SMALL], 1000000);
    assert_fails (run, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
        "bytes are needed at a time on");
    g_assert_cmpuint (cards[SMALL].uploads, ==, 0);
    g_assert_cmpuint (cards[SMALL].peak, ==, 0);
    gst_object_unref (h3);
  }
}

/* That a clip cannot be decoded is known before it is denoised. */
static void
test_decoding_foreseen (void)
{
  g_autoptr (Run) run = clip_new (SMALL, "");
  GstElement *h3 = gst_bin_get_by_name (GST_BIN (run->pipeline), "h3");

  card_reset (&cards[SMALL], 300000000);
  g_object_set (h3, "width", 512, "height", 512, NULL);
  assert_fails (run, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
      "bytes are needed at a time on");
  g_assert_cmpuint (cards[SMALL].uploads, ==, 0);
  gst_element_set_state (run->pipeline, GST_STATE_NULL);
  g_object_set (h3, "width", 96, "height", 64, NULL);
  assert_ends (run);
  gst_object_unref (h3);
}

/* Memory that was free when it was asked for, and is not any more. */
static void
test_refused (void)
{
  g_autoptr (Run) run = clip_new (ROOMY, "");

  g_atomic_int_set (&cards[ROOMY].refuse, TRUE);
  assert_fails (run, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
      "on a card");
  g_atomic_int_set (&cards[ROOMY].refuse, FALSE);
  assert_ends (run);
}

/* A failure for good: the process lives, later jobs fail at once, and other
 * cards work. */
static void
test_broken (void)
{
  g_autoptr (Run) run = clip_new (BROKEN, "");
  g_autoptr (Run) next = clip_new (BROKEN, "");
  g_autoptr (Run) other = clip_new (ROOMY, "");
  guint products;

  assert_ends (run);
  products = cards[BROKEN].products;
  cards[BROKEN].products = 0;
  cards[BROKEN].break_after = products / 2;
  assert_fails (run, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_FAILED,
      "an illegal memory access");
  assert_fails (run, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_FAILED,
      "restart the process");
  assert_fails (next, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_FAILED,
      "restart the process");
  assert_ends (other);
  assert_ends (other);
}

/* --- stopping --- */

static void
flush_pad (gpointer pad)
{
  gst_pad_send_event (pad, gst_event_new_flush_start ());
}

/* A flush that comes in the middle of an operation ends it, not only what
 * follows. @frames: of @caps, @size bytes each */
static void
check_flush (const gchar *encoder, const gchar *caps, gsize size, guint frames)
{
  Card *card = &cards[ROOMY];
  g_autofree gchar *launch =
      g_strdup_printf ("appsrc name=source format=time caps=\"%s\" ! %s "
                       "name=encoder "
                       "model-path=%s backend=cuda ! fakesink name=video "
                       "signal-handoffs=true sync=false "
                       "fakesink name=audio signal-handoffs=true",
          caps, encoder, h3_test_tiny_dir ());
  g_autoptr (Run) run = run_new ("%s", launch);
  GstElement *source = gst_bin_get_by_name (GST_BIN (run->pipeline), "source");
  GstElement *element =
      gst_bin_get_by_name (GST_BIN (run->pipeline), "encoder");
  g_autoptr (GstPad) pad = gst_element_get_static_pad (element, "sink");
  GstFlowReturn ret;
  guint ms;

  card_reset (card, 0);
  card->begins = flush_pad;
  card->user_data = pad;
  gst_element_set_state (run->pipeline, GST_STATE_PLAYING);
  for (guint i = 0; i < frames; i++) {
    g_autoptr (GstBuffer) buffer = gst_buffer_new_allocate (NULL, size, NULL);

    gst_buffer_memset (buffer, 0, 0, size);
    g_signal_emit_by_name (source, "push-buffer", buffer, &ret);
  }
  g_signal_emit_by_name (source, "end-of-stream", &ret);
  for (ms = 0; ms < 30000 && !g_atomic_int_get (&card->cancelled); ms++)
    g_usleep (1000);
  g_assert_cmpint (g_atomic_int_get (&card->cancelled), >, 0);
  gst_element_set_state (run->pipeline, GST_STATE_NULL);
  g_assert_cmpuint (run->video->len, ==, 0);
  card_reset (card, 0);
  gst_object_unref (source);
  gst_object_unref (element);
}

static void
test_flush_encoders (void)
{
  check_flush ("h3audiovaeenc",
      "audio/x-raw,format=F32LE,layout=interleaved,rate=32000,channels=2",
      64000, 1);
  check_flush ("h3videovaeenc role=first-frame width=64 height=64",
      "video/x-raw,format=RGB,width=64,height=64,framerate=24/1", 64 * 64 * 3,
      1);
}

/* --- choosing a card --- */

static void
test_no_such_card (void)
{
  static const gchar *const backends[] = { "backend=cuda", "backend=auto" };

  for (guint i = 0; i < G_N_ELEMENTS (backends); i++) {
    g_autoptr (Run) run = clip_new (99, backends[i]);

    assert_fails (run, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
        "there are 8 visible");
  }
}

static void
test_named_card (void)
{
  static const gchar *const elements[] = { "h3textenc", "h3denoise",
    "h3videovae", "h3audiovae", "h3src" };
  g_autoptr (Run) run = clip_new (NAMED, "backend=auto");
  gint id;

  assert_ends (run);
  g_assert_cmpuint (cards[NAMED].products, >, 0);
  for (guint i = 0; i < G_N_ELEMENTS (elements); i++) {
    GstElement *element = gst_element_factory_make (elements[i], NULL);

    g_object_get (element, "cuda-device-id", &id, NULL);
    g_assert_cmpint (id, ==, -1);
    g_object_set (element, "cuda-device-id", 3, NULL);
    g_object_get (element, "cuda-device-id", &id, NULL);
    g_assert_cmpint (id, ==, 3);
    gst_object_unref (element);
  }
}

/* What opening a device can say, and what it becomes (gstreamer.md 11.3). */
static gint open_code;

static H3Device *
refuse (gint ordinal, GError **error)
{
  g_set_error (error, H3_ERROR, open_code, "refused with %d", open_code);
  return NULL;
}

static void
test_refused_device (void)
{
  const struct {
    H3Error code;
    GQuark domain;
    gint gst;
  } table[] = {
    { H3_ERROR_NOT_FOUND, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND },
    { H3_ERROR_SETTINGS, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS },
    { H3_ERROR_INIT, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT },
    { H3_ERROR_NO_SPACE, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT },
    { H3_ERROR_BUSY, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_BUSY },
    { H3_ERROR_DEVICE, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_FAILED },
  };

  gst_h3_runtime_set_open_device (refuse);
  for (guint i = 0; i < G_N_ELEMENTS (table); i++) {
    g_autoptr (Run) run = clip_new (REFUSED, "");

    open_code = table[i].code;
    assert_fails (run, table[i].domain, table[i].gst, "refused with");
  }
  cards_insert ();
}

/* --- logging --- */

typedef struct {
  const gchar *category;
  GstDebugLevel level;
} Said;

static void
look_for (GstDebugCategory *category, GstDebugLevel level, const gchar *file,
    const gchar *function, gint line, GObject *object, GstDebugMessage *message,
    gpointer user_data)
{
  Said *said = user_data;

  if (g_str_equal (gst_debug_category_get_name (category), said->category) &&
      g_str_equal (gst_debug_message_get (message), "a card says 7"))
    said->level = level;
}

static void
assert_logs (const gchar *domain, const gchar *category)
{
  Said said = { category, GST_LEVEL_NONE };

  gst_debug_set_threshold_for_name (category, GST_LEVEL_DEBUG);
  gst_debug_add_log_function (look_for, &said, NULL);
  g_log (domain, G_LOG_LEVEL_INFO, "a card says %d", 7);
  g_assert_cmpint (said.level, ==, GST_LEVEL_INFO);
  g_log (domain, G_LOG_LEVEL_DEBUG, "a card says %d", 7);
  g_assert_cmpint (said.level, ==, GST_LEVEL_DEBUG);
  gst_debug_remove_log_function_by_data (&said);
  gst_debug_unset_threshold_for_name (category);
}

static void
test_log (void)
{
  assert_logs ("h3cuda", "h3cuda");
  assert_logs ("h3", "h3model");
}

/* --- ten clips --- */

static gsize
peak_of_clips (guint n)
{
  g_autoptr (Run) run =
      run_new ("appsrc name=source format=time caps=text/x-raw,format=utf8 "
               "max-bytes=1000000 ! h3textenc model-path=%s backend=cuda ! "
               "h3denoise name=h3 model-path=%s backend=cuda " SETTINGS
               " h3.video ! h3videovae model-path=%s backend=cuda ! " SINKS
               "h3.audio ! h3audiovae model-path=%s backend=cuda ! "
               "fakesink name=audio sync=false signal-handoffs=true",
          h3_test_demo_dir (), h3_test_demo_dir (), h3_test_demo_dir (),
          h3_test_demo_dir ());
  GstElement *source = gst_bin_get_by_name (GST_BIN (run->pipeline), "source");
  GstFlowReturn ret;

  cards[ROOMY].peak = cards[ROOMY].used;
  gst_element_set_state (run->pipeline, GST_STATE_PAUSED);
  push_prompts (source, n);
  g_signal_emit_by_name (source, "end-of-stream", &ret);
  assert_ends (run);
  g_assert_cmpuint (run->video->len, ==, n * 22 * 96 * 64 * 3);
  gst_object_unref (source);
  return cards[ROOMY].peak;
}

static void
test_ten_clips (void)
{
  /* with three, all of them are on their way at once */
  gsize three = peak_of_clips (3), ten = peak_of_clips (10);

  g_assert_cmpuint (cards[ROOMY].used, ==, 0);
  g_assert_cmpuint (ten, <=, three + three / 50);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  GST_DEBUG_CATEGORY_INIT (gst_h3_runtime_debug, "h3runtime", 0, "H3");
  gst_h3_log_init ();
  gst_h3_job_meta_init ();
  GST_ELEMENT_REGISTER (h3textenc, NULL);
  GST_ELEMENT_REGISTER (h3denoise, NULL);
  GST_ELEMENT_REGISTER (h3videovae, NULL);
  GST_ELEMENT_REGISTER (h3audiovae, NULL);
  GST_ELEMENT_REGISTER (h3videovaeenc, NULL);
  GST_ELEMENT_REGISTER (h3audiovaeenc, NULL);
  GST_ELEMENT_REGISTER (h3src, NULL);
  cards_insert ();
  g_test_add_func ("/cards/too-small-for-all", test_too_small_for_all);
  g_test_add_func ("/cards/stage", test_stage);
  g_test_add_func ("/cards/pipeline-residency", test_pipeline_residency);
  g_test_add_func ("/cards/vision-plan", test_vision_plan);
  g_test_add_func ("/cards/large-clip", test_large_clip);
  g_test_add_func ("/cards/nothing-uploaded", test_nothing_uploaded);
  g_test_add_func ("/cards/decoding-foreseen", test_decoding_foreseen);
  g_test_add_func ("/cards/refused", test_refused);
  g_test_add_func ("/cards/broken", test_broken);
  g_test_add_func ("/cards/flush-encoders", test_flush_encoders);
  g_test_add_func ("/cards/no-such-card", test_no_such_card);
  g_test_add_func ("/cards/named-card", test_named_card);
  g_test_add_func ("/cards/refused-device", test_refused_device);
  g_test_add_func ("/cards/log", test_log);
  g_test_add_func ("/cards/ten-clips", test_ten_clips);
  return g_test_run ();
}
