/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3textenc: prompts in every shape, and none. */
#include <gst/check/gstharness.h>
#include <gst/h3/h3.h>

#include <glib/gstdio.h>

#include "h3-test-device.h"

#define TIMEOUT (30 * GST_SECOND)
#define PROMPT                                                                 \
  "A brass-and-paper dragon flies above a rain-washed old city "               \
  "at blue hour."
#define CAPS "text/x-raw, format=(string)utf8"

typedef struct {
  GstHarness *harness;
  GstElement *element;
  GstBus *bus;
} Encoder;

static Encoder *
encoder_new (GstFormat format)
{
  Encoder *encoder = g_new0 (Encoder, 1);
  GstSegment segment;

  encoder->element = gst_element_factory_make ("h3textenc", NULL);
  g_assert_nonnull (encoder->element);
  gst_object_ref_sink (encoder->element);
  g_object_set (encoder->element, "model-path", h3_test_tiny_dir (), NULL);
  encoder->bus = gst_bus_new ();
  gst_element_set_bus (encoder->element, encoder->bus);
  encoder->harness =
      gst_harness_new_with_element (encoder->element, "sink", "src");
  gst_harness_play (encoder->harness);
  gst_segment_init (&segment, format);
  gst_harness_push_event (encoder->harness,
      gst_event_new_stream_start ("prompts"));
  gst_harness_push_event (encoder->harness,
      gst_event_new_caps (gst_caps_from_string (CAPS)));
  gst_harness_push_event (encoder->harness, gst_event_new_segment (&segment));
  return encoder;
}

static void
encoder_free (Encoder *encoder)
{
  gst_element_set_state (encoder->element, GST_STATE_NULL);
  gst_harness_teardown (encoder->harness);
  gst_element_set_bus (encoder->element, NULL);
  gst_bus_set_flushing (encoder->bus, TRUE);
  gst_object_unref (encoder->bus);
  gst_object_unref (encoder->element);
  g_free (encoder);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Encoder, encoder_free)

static GstFlowReturn
push (Encoder *encoder, const gchar *text, gsize size)
{
  return gst_harness_push (encoder->harness,
      size ? gst_buffer_new_memdup (text, size) : gst_buffer_new ());
}

static void
push_eos (Encoder *encoder)
{
  gst_harness_push_event (encoder->harness, gst_event_new_eos ());
}

static void
assert_eos (Encoder *encoder)
{
  gboolean eos = FALSE;

  while (!eos) {
    GstEvent *event = gst_harness_pull_event (encoder->harness);

    g_assert_nonnull (event);
    eos = GST_EVENT_TYPE (event) == GST_EVENT_EOS;
    gst_event_unref (event);
  }
}

static void
assert_error (Encoder *encoder, GQuark domain, gint code, const gchar *text)
{
  GstMessage *message =
      gst_bus_timed_pop_filtered (encoder->bus, TIMEOUT, GST_MESSAGE_ERROR);
  GError *error;

  g_assert_nonnull (message);
  gst_message_parse_error (message, &error, NULL);
  if (!g_error_matches (error, domain, code) || !strstr (error->message, text))
    g_error ("%s %d \"%s\" is not %s %d with \"%s\"",
        g_quark_to_string (error->domain), error->code, error->message,
        g_quark_to_string (domain), code, text);
  g_error_free (error);
  gst_message_unref (message);
  g_assert_null (gst_bus_pop_filtered (encoder->bus, GST_MESSAGE_ERROR));
}

/* The golden embeddings of PROMPT. */
static void
assert_golden (Encoder *encoder, GstBuffer *buffer)
{
  gsize n;
  g_autofree gfloat *want =
      h3_test_golden ("request_t2va.safetensors", "prompt_embeds", &n);
  GstCaps *caps = gst_pad_get_current_caps (encoder->harness->sinkpad);
  GstH3EmbedsInfo info;
  GstMapInfo map;

  g_assert_nonnull (buffer);
  g_assert_true (gst_h3_embeds_info_from_caps (&info, caps, NULL));
  g_assert_cmpuint ((gsize) info.tokens * info.hidden, ==, n);
  g_assert_true (gst_caps_features_contains (gst_caps_get_features (caps, 0),
      GST_CAPS_FEATURE_MEMORY_H3_DEVICE));
  g_assert_true (gst_buffer_map (buffer, &map, GST_MAP_READ));
  g_assert_cmpuint (map.size, ==, n * sizeof (gfloat));
  h3_test_assert_close ((const gfloat *) map.data, want, n, H3_TEST_EMBEDS);
  gst_buffer_unmap (buffer, &map);
  gst_caps_unref (caps);
}

static void
assert_job (GstBuffer *buffer, const gchar *prompt, gsize size)
{
  const GstStructure *job = gst_h3_buffer_get_job (buffer);
  g_autofree gchar *sha256 = g_compute_checksum_for_data (G_CHECKSUM_SHA256,
      (const guchar *) prompt, size);
  guint tokens;

  g_assert_nonnull (job);
  g_assert_cmpstr (gst_structure_get_string (job, "task"), ==, "t2va");
  g_assert_cmpstr (gst_structure_get_string (job, "prompt-sha256"), ==, sha256);
  g_assert_true (gst_structure_get_uint (job, "tokens", &tokens));
  g_assert_cmpuint (tokens * 40 * sizeof (gfloat), ==,
      gst_buffer_get_size (buffer));
}

static guint
tokens_of (GstBuffer *buffer)
{
  guint tokens = 0;

  g_assert_nonnull (buffer);
  gst_structure_get_uint (gst_h3_buffer_get_job (buffer), "tokens", &tokens);
  gst_buffer_unref (buffer);
  return tokens;
}

/* However a BYTES stream is cut it is one prompt; its last newline is not. */
static void
test_bytes (void)
{
  static const gsize cuts[] = { 1, 5, 1000 };

  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++) {
    g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_BYTES);
    const gchar *text = PROMPT "\n";
    gsize size = strlen (text);
    GstBuffer *buffer;

    for (gsize at = 0; at < size; at += cuts[i]) {
      g_assert_cmpint (push (encoder, text + at, MIN (cuts[i], size - at)), ==,
          GST_FLOW_OK);
    }
    push_eos (encoder);
    buffer = gst_harness_pull (encoder->harness);
    assert_golden (encoder, buffer);
    assert_job (buffer, PROMPT, strlen (PROMPT));
    gst_buffer_unref (buffer);
    assert_eos (encoder);
    g_assert_cmpuint (gst_harness_buffers_received (encoder->harness), ==, 1);
  }
}

/* Each buffer of a TIME stream is a prompt; its newline is part of it. */
static void
test_time (void)
{
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);
  GstBuffer *buffer = gst_buffer_new_memdup (PROMPT, strlen (PROMPT));
  guint plain;

  GST_BUFFER_PTS (buffer) = 3 * GST_SECOND;
  gst_harness_push (encoder->harness, buffer);
  buffer = gst_harness_pull (encoder->harness);
  assert_golden (encoder, buffer);
  g_assert_cmpuint (GST_BUFFER_PTS (buffer), ==, 3 * GST_SECOND);
  gst_buffer_unref (buffer);

  push (encoder, "fox", 3);
  plain = tokens_of (gst_harness_pull (encoder->harness));
  push (encoder, "fox\n", 4);
  g_assert_cmpuint (tokens_of (gst_harness_pull (encoder->harness)), >, plain);
  push (encoder, PROMPT, strlen (PROMPT));
  buffer = gst_harness_pull (encoder->harness);
  assert_golden (encoder, buffer);
  gst_buffer_unref (buffer);
  push_eos (encoder);
  assert_eos (encoder);
  g_assert_cmpuint (gst_harness_buffers_received (encoder->harness), ==, 4);
}

static void
test_gap (void)
{
  GstFormat formats[] = { GST_FORMAT_BYTES, GST_FORMAT_TIME };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++) {
    g_autoptr (Encoder) encoder = encoder_new (formats[i]);

    gst_harness_push_event (encoder->harness,
        gst_event_new_gap (0, GST_SECOND));
    push (encoder, "fox", 3);
    push_eos (encoder);
    gst_buffer_unref (gst_harness_pull (encoder->harness));
    assert_eos (encoder);
    g_assert_cmpuint (gst_harness_buffers_received (encoder->harness), ==, 1);
  }
}

/* The error that needs no model is said again after a flush, too. */
static void
test_error_again (void)
{
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);
  GstSegment segment;

  gst_segment_init (&segment, GST_FORMAT_TIME);
  for (guint i = 0; i < 2; i++) {
    GstBuffer *huge = gst_buffer_new_allocate (NULL, 9 << 20, NULL);

    gst_buffer_memset (huge, 0, 'x', 9 << 20);
    gst_harness_push (encoder->harness, huge);
    assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "8 MiB");
    gst_harness_push_event (encoder->harness, gst_event_new_flush_start ());
    gst_harness_push_event (encoder->harness, gst_event_new_flush_stop (TRUE));
    gst_harness_push_event (encoder->harness, gst_event_new_segment (&segment));
  }
  push (encoder, "fox", 3);
  gst_buffer_unref (gst_harness_pull (encoder->harness));
}

static void
test_no_prompt (void)
{
  GstFormat formats[] = { GST_FORMAT_BYTES, GST_FORMAT_TIME };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++) {
    g_autoptr (Encoder) encoder = encoder_new (formats[i]);

    push_eos (encoder);
    assert_eos (encoder);
    g_assert_cmpuint (gst_harness_buffers_received (encoder->harness), ==, 0);
    g_assert_null (gst_bus_pop_filtered (encoder->bus, GST_MESSAGE_ERROR));
  }
}

/* A NUL is an ordinary character. */
static void
test_nul (void)
{
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);
  GstBuffer *buffer;
  guint without;

  push (encoder, "ab", 2);
  without = tokens_of (gst_harness_pull (encoder->harness));
  push (encoder, "a\0b", 3);
  buffer = gst_harness_pull (encoder->harness);
  assert_job (buffer, "a\0b", 3);
  g_assert_cmpstr (gst_structure_get_string (gst_h3_buffer_get_job (buffer),
                       "prompt"),
      ==, "a b");
  g_assert_cmpuint (tokens_of (buffer), >, without);
}

/* @text is refused with STREAM FORMAT that says @says; after a flush a good
 * prompt works. */
static void
check_refused (GstFormat format, const gchar *text, gsize size,
    const gchar *says)
{
  g_autoptr (Encoder) encoder = encoder_new (format);
  GstSegment segment;
  GstBuffer *buffer;

  push (encoder, text, size);
  if (format == GST_FORMAT_BYTES)
    push_eos (encoder);
  assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, says);
  g_assert_cmpuint (gst_harness_buffers_received (encoder->harness), ==, 0);

  gst_harness_push_event (encoder->harness, gst_event_new_flush_start ());
  gst_harness_push_event (encoder->harness, gst_event_new_flush_stop (TRUE));
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_harness_push_event (encoder->harness, gst_event_new_segment (&segment));
  push (encoder, PROMPT, strlen (PROMPT));
  buffer = gst_harness_pull (encoder->harness);
  assert_golden (encoder, buffer);
  gst_buffer_unref (buffer);
}

static void
test_empty (void)
{
  check_refused (GST_FORMAT_TIME, "", 0, "empty");
  check_refused (GST_FORMAT_BYTES, "\n", 1, "empty");
  check_refused (GST_FORMAT_BYTES, "", 0, "empty");
}

/* text-encoder.md 2.8's vectors: the offset of the first bad byte. */
static void
test_invalid_utf8 (void)
{
  static const struct {
    const gchar *text, *offset;
  } cases[] = {
    { "\x80", "0" },
    { "a\xff", "1" },
    { "\xc3", "0" },
    { "\xe2\x82", "0" },
    { "\xc0\xaf", "0" },
    { "\xed\xa0\x80", "0" },
    { "\xf4\x90\x80\x80", "0" },
    { "a\xe2(\xa1", "1" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    check_refused (GST_FORMAT_TIME, cases[i].text, strlen (cases[i].text),
        cases[i].offset);
  }
  check_refused (GST_FORMAT_BYTES, "a\xff", 2, "UTF-8");
}

static void
test_megabyte (void)
{
  g_autofree gchar *text = g_malloc (1 << 20);
  g_autofree gchar *huge = g_malloc0 (9 << 20);

  for (gsize i = 0; i < 1 << 20; i++)
    text[i] = "a fox runs "[i % 11];
  check_refused (GST_FORMAT_BYTES, text, 1 << 20, "tokens");
  check_refused (GST_FORMAT_TIME, text, 1 << 20, "tokens");
  check_refused (GST_FORMAT_BYTES, huge, 9 << 20, "8 MiB");
}

static void
test_max_tokens (void)
{
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);
  guint tokens, max;

  push (encoder, PROMPT, strlen (PROMPT));
  tokens = tokens_of (gst_harness_pull (encoder->harness));
  g_object_set (encoder->element, "max-tokens", tokens, NULL);
  g_object_get (encoder->element, "max-tokens", &max, NULL);
  g_assert_cmpuint (max, ==, tokens);
  push (encoder, PROMPT, strlen (PROMPT));
  g_assert_cmpuint (tokens_of (gst_harness_pull (encoder->harness)), ==,
      tokens);
  g_object_set (encoder->element, "max-tokens", tokens - 1, NULL);
  push (encoder, PROMPT, strlen (PROMPT));
  assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "tokens");
}

/* What was collected before a flush is forgotten. */
static void
test_flush (void)
{
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_BYTES);
  GstSegment segment;
  GstBuffer *buffer;

  push (encoder, "nobody reads this ", 18);
  gst_harness_push_event (encoder->harness, gst_event_new_flush_start ());
  gst_harness_push_event (encoder->harness, gst_event_new_flush_stop (TRUE));
  gst_segment_init (&segment, GST_FORMAT_BYTES);
  gst_harness_push_event (encoder->harness, gst_event_new_segment (&segment));
  push (encoder, PROMPT, strlen (PROMPT));
  push_eos (encoder);
  buffer = gst_harness_pull (encoder->harness);
  assert_golden (encoder, buffer);
  gst_buffer_unref (buffer);
}

/* As many tokens as the tiny model takes, at most: takes a while. */
static void
push_long (Encoder *encoder)
{
  gchar text[4000];

  for (gsize i = 0; i < sizeof text; i++)
    text[i] = "a fox runs "[i % 11];
  push (encoder, text, sizeof text);
}

/* A prompt being encoded is ended by a flush and by READY. */
static void
test_cancel (void)
{
  for (gint ready = 0; ready < 2; ready++) {
    g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);
    GstMessage *message;
    gint64 start;
    gboolean encoding = FALSE;

    push_long (encoder);
    while (!encoding) {
      g_autofree gchar *code = NULL;

      message = gst_bus_timed_pop_filtered (encoder->bus, TIMEOUT,
          GST_MESSAGE_PROGRESS);
      g_assert_nonnull (message);
      gst_message_parse_progress (message, NULL, &code, NULL);
      encoding = g_str_equal (code, "h3-encode");
      gst_message_unref (message);
    }
    start = g_get_monotonic_time ();
    if (ready)
      gst_element_set_state (encoder->element, GST_STATE_READY);
    else
      gst_harness_push_event (encoder->harness, gst_event_new_flush_start ());
    g_assert_cmpint (g_get_monotonic_time () - start, <, G_USEC_PER_SEC);
    if (!ready)
      gst_harness_push_event (encoder->harness,
          gst_event_new_flush_stop (TRUE));
    g_assert_null (gst_bus_pop_filtered (encoder->bus, GST_MESSAGE_ERROR));
  }
}

/* filesrc cuts at 4096 bytes: still one prompt, the same as in one buffer. */
static void
test_filesrc (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "prompt.txt", NULL);
  g_autofree gchar *out = g_build_filename (dir, "embeds.f32", NULL);
  g_autofree gchar *launch =
      g_strdup_printf ("filesrc location=%s ! " CAPS
                       " ! h3textenc model-path=%s ! filesink location=%s",
          path, h3_test_tiny_dir (), out);
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);
  GstElement *pipeline;
  GstMessage *message;
  GstBuffer *buffer;
  GstBus *bus;
  g_autofree gchar *embeds = NULL;
  gsize size;
  GString *prompt = g_string_new (NULL);

  /* three buffers; one token each, or it were too many for the tiny model */
  while (prompt->len < 12000)
    g_string_append (prompt, " crunching");
  h3_test_write_file (path, prompt->str, prompt->len);
  pipeline = gst_parse_launch (launch, NULL);
  g_assert_nonnull (pipeline);
  bus = gst_element_get_bus (pipeline);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, TIMEOUT,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  gst_message_unref (message);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (bus);
  gst_object_unref (pipeline);

  push (encoder, prompt->str, prompt->len);
  buffer = gst_harness_pull (encoder->harness);
  g_assert_true (g_file_get_contents (out, &embeds, &size, NULL));
  g_assert_cmpuint (size, ==, gst_buffer_get_size (buffer));
  g_assert_cmpint (gst_buffer_memcmp (buffer, 0, embeds, size), ==, 0);
  gst_buffer_unref (buffer);
  g_string_free (prompt, TRUE);
  h3_test_remove_tree (dir);
}

/* Downstream that takes something else: an error before anything is pushed. */
static void
test_impossible_downstream (void)
{
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);

  gst_harness_set_sink_caps_str (encoder->harness,
      "application/x-h3-embeds, hidden=(int)41");
  push (encoder, "fox", 3);
  assert_error (encoder, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "hidden");
}

static void
test_system_memory (void)
{
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);
  GstCaps *caps;

  gst_harness_set_sink_caps_str (encoder->harness, "application/x-h3-embeds");
  push (encoder, "fox", 3);
  gst_buffer_unref (gst_harness_pull (encoder->harness));
  caps = gst_pad_get_current_caps (encoder->harness->sinkpad);
  g_assert_false (gst_caps_features_contains (gst_caps_get_features (caps, 0),
      GST_CAPS_FEATURE_MEMORY_H3_DEVICE));
  gst_caps_unref (caps);
}

/* The component's own folder is no checkpoint for the tokenizer: named. */
static void
test_no_tokenizer (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *copy = g_build_filename (dir, "copy", NULL);
  g_autofree gchar *merges =
      g_build_filename (copy, "FL2VA", "tokenizer", "merges.txt", NULL);
  GstElement *element = gst_element_factory_make ("h3textenc", NULL);
  Encoder encoder = { NULL, element, gst_bus_new () };

  h3_test_copy_tree (h3_test_tiny_dir (), copy);
  g_assert_cmpint (g_remove (merges), ==, 0);
  gst_element_set_bus (element, encoder.bus);
  g_object_set (element, "model-path", copy, NULL);
  gst_element_set_state (element, GST_STATE_PAUSED);
  assert_error (&encoder, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
      "merges.txt");
  gst_element_set_state (element, GST_STATE_NULL);
  gst_element_set_bus (element, NULL);
  gst_object_unref (encoder.bus);
  gst_object_unref (element);
  h3_test_remove_tree (dir);
}

static void
test_stats (void)
{
  g_autoptr (Encoder) encoder = encoder_new (GST_FORMAT_TIME);
  GstStructure *stats;
  guint64 prompts;

  push (encoder, "fox", 3);
  gst_buffer_unref (gst_harness_pull (encoder->harness));
  g_object_get (encoder->element, "stats", &stats, NULL);
  g_assert_true (gst_structure_get_uint64 (stats, "prompts", &prompts));
  g_assert_cmpuint (prompts, ==, 1);
  gst_structure_free (stats);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  if (h3_test_skip_program ())
    return 0;
  g_test_add_func ("/textenc/bytes", test_bytes);
  g_test_add_func ("/textenc/time", test_time);
  g_test_add_func ("/textenc/gap", test_gap);
  g_test_add_func ("/textenc/error-again", test_error_again);
  g_test_add_func ("/textenc/no-prompt", test_no_prompt);
  g_test_add_func ("/textenc/nul", test_nul);
  g_test_add_func ("/textenc/empty", test_empty);
  g_test_add_func ("/textenc/invalid-utf8", test_invalid_utf8);
  g_test_add_func ("/textenc/megabyte", test_megabyte);
  g_test_add_func ("/textenc/max-tokens", test_max_tokens);
  g_test_add_func ("/textenc/flush", test_flush);
  g_test_add_func ("/textenc/cancel", test_cancel);
  g_test_add_func ("/textenc/filesrc", test_filesrc);
  g_test_add_func ("/textenc/impossible-downstream",
      test_impossible_downstream);
  g_test_add_func ("/textenc/system-memory", test_system_memory);
  g_test_add_func ("/textenc/no-tokenizer", test_no_tokenizer);
  g_test_add_func ("/textenc/stats", test_stats);
  return g_test_run ();
}
