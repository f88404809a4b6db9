/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3textenc's request pads: what a prompt is read with. */
#include <gst/check/gstharness.h>
#include <gst/h3/h3.h>

#include "h3-test-device.h"
#include "media.h"

#define TIMEOUT (30 * GST_SECOND)
#define KEYFRAME_PROMPT                                                        \
  "A brass-and-paper dragon flies above a rain-washed old city "               \
  "at blue hour."
#define SOUND                                                                  \
  "audio/x-raw, format=F32LE, layout=interleaved, rate=32000, channels=2"
#define MAX_PADS 16

typedef struct {
  GstElement *element;
  GstBus *bus;
  GstHarness *text;
  guint n;
  GstHarness *pads[MAX_PADS];
} Encoder;

static void
encoder_free (Encoder *encoder)
{
  gst_element_set_state (encoder->element, GST_STATE_NULL);
  for (guint i = 0; i < encoder->n; i++)
    gst_harness_teardown (encoder->pads[i]);
  gst_harness_teardown (encoder->text);
  gst_element_set_bus (encoder->element, NULL);
  gst_object_unref (encoder->bus);
  gst_object_unref (encoder->element);
  g_free (encoder);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Encoder, encoder_free)

static void
begin_text (Encoder *encoder)
{
  GstSegment segment;

  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_harness_push_event (encoder->text, gst_event_new_stream_start ("text"));
  gst_harness_push_event (encoder->text,
      gst_event_new_caps (
          gst_caps_from_string ("text/x-raw, format=(string)utf8")));
  gst_harness_push_event (encoder->text, gst_event_new_segment (&segment));
}

static guint
add_pad (Encoder *encoder, const gchar *name)
{
  encoder->pads[encoder->n] =
      gst_harness_new_with_element (encoder->element, name, NULL);
  return encoder->n++;
}

/* On the tiny checkpoint, for a clip of 96x64 whose references are at the golden
 * ones' size; with request pads, all named up to NULL. */
static Encoder *
encoder_new (const gchar *task, ...)
{
  Encoder *encoder = g_new0 (Encoder, 1);
  const gchar *name;
  va_list args;

  encoder->element = gst_element_factory_make ("h3textenc", NULL);
  g_assert_nonnull (encoder->element);
  gst_object_ref_sink (encoder->element);
  g_object_set (encoder->element, "model-path", h3_test_tiny_dir (), "width",
      96, "height", 64, "canvas-edge", 64, "reference-edge", 64, NULL);
  gst_util_set_object_arg (G_OBJECT (encoder->element), "task", task);
  encoder->bus = gst_bus_new ();
  gst_element_set_bus (encoder->element, encoder->bus);
  va_start (args, task);
  while ((name = va_arg (args, const gchar *)))
    add_pad (encoder, name);
  va_end (args);
  encoder->text =
      gst_harness_new_with_element (encoder->element, "sink", "src");
  gst_harness_play (encoder->text);
  begin_text (encoder);
  return encoder;
}

static GstFlowReturn
push_text (Encoder *encoder, const gchar *text)
{
  return gst_harness_push (encoder->text,
      gst_buffer_new_memdup (text, strlen (text)));
}

static void
push_eos (Encoder *encoder, guint pad)
{
  gst_harness_push_event (encoder->pads[pad], gst_event_new_eos ());
}

/* All frames; no EOS. */
static GstFlowReturn
push_media (Encoder *encoder, guint pad, const Media *media)
{
  g_autofree gchar *caps = media_caps (media, "24/1");
  GstFlowReturn ret = GST_FLOW_OK;

  gst_harness_set_src_caps_str (encoder->pads[pad], caps);
  for (guint i = 0; i < media->n && ret == GST_FLOW_OK; i++)
    ret = gst_harness_push (encoder->pads[pad], media_buffer (media, i));
  return ret;
}

static void
push_whole (Encoder *encoder, guint pad, const Media *media)
{
  g_assert_cmpint (push_media (encoder, pad, media), ==, GST_FLOW_OK);
  push_eos (encoder, pad);
}

static void
push_sound (Encoder *encoder, guint pad)
{
  gst_harness_set_src_caps_str (encoder->pads[pad], SOUND);
  for (guint i = 0; i < 100; i++)
    g_assert_cmpint (gst_harness_push (encoder->pads[pad],
                         gst_buffer_new_allocate (NULL, 800, NULL)),
        ==, GST_FLOW_OK);
  push_eos (encoder, pad);
}

static GBytes *
pull (Encoder *encoder)
{
  GstBuffer *buffer = gst_harness_pull (encoder->text);
  GstMapInfo map;
  GBytes *bytes;

  if (!buffer) {
    g_autoptr (GstMessage) message =
        gst_bus_pop_filtered (encoder->bus, GST_MESSAGE_ERROR);
    g_autoptr (GError) error = NULL;

    if (message)
      gst_message_parse_error (message, &error, NULL);
    g_error ("no embeddings: %s", error ? error->message : "and no error");
  }
  g_assert_true (gst_buffer_map (buffer, &map, GST_MAP_READ));
  bytes = g_bytes_new (map.data, map.size);
  gst_buffer_unmap (buffer, &map);
  gst_buffer_unref (buffer);
  return bytes;
}

static GBytes *
embed (Encoder *encoder, const gchar *text)
{
  g_assert_cmpint (push_text (encoder, text), ==, GST_FLOW_OK);
  return pull (encoder);
}

static void
assert_no_error (Encoder *encoder)
{
  g_autoptr (GstMessage) message =
      gst_bus_pop_filtered (encoder->bus, GST_MESSAGE_ERROR);

  if (message)
    g_error ("%s",
        gst_structure_to_string (gst_message_get_structure (message)));
}

#define assert_error(encoder, domain, code, text)                              \
  check_error (G_STRLOC, encoder, domain, code, text)
static void
check_error (const gchar *where, Encoder *encoder, GQuark domain, gint code,
    const gchar *text)
{
  g_autoptr (GstMessage) message =
      gst_bus_timed_pop_filtered (encoder->bus, TIMEOUT, GST_MESSAGE_ERROR);
  g_autoptr (GError) error = NULL;

  if (!message)
    g_error ("%s: no error with \"%s\"", where, text);
  gst_message_parse_error (message, &error, NULL);
  if (!g_error_matches (error, domain, code) || !strstr (error->message, text))
    g_error ("%s: %s %d \"%s\" is not %s %d with \"%s\"", where,
        g_quark_to_string (error->domain), error->code, error->message,
        g_quark_to_string (domain), code, text);
  assert_no_error (encoder);
}

/* The same flush on pads @first to the last one, and on the text's. */
static void
flush (Encoder *encoder, gboolean text, guint first, guint last)
{
  g_autoptr (GstEvent) start = gst_event_new_flush_start ();
  g_autoptr (GstEvent) stop = gst_event_new_flush_stop (TRUE);
  GstSegment segment;

  gst_event_set_seqnum (stop, gst_event_get_seqnum (start));
  gst_segment_init (&segment, GST_FORMAT_TIME);
  if (text)
    gst_harness_push_event (encoder->text, gst_event_ref (start));
  for (guint i = first; i < last; i++)
    gst_harness_push_event (encoder->pads[i], gst_event_ref (start));
  if (text)
    gst_harness_push_event (encoder->text, gst_event_ref (stop));
  for (guint i = first; i < last; i++) {
    gst_harness_push_event (encoder->pads[i], gst_event_ref (stop));
    gst_harness_push_event (encoder->pads[i], gst_event_new_segment (&segment));
  }
  if (text)
    gst_harness_push_event (encoder->text, gst_event_new_segment (&segment));
}

/* --- goldens --- */

static void
assert_vision_rows (const GstH3EmbedsInfo *info, const gchar *file)
{
  gsize n;
  g_autofree gint32 *tags = h3_test_golden_ints (file, "text_token_tags", &n);
  g_autofree gboolean *seen = g_new0 (gboolean, n);

  g_assert_cmpuint (n, ==, info->tokens);
  for (guint i = 0; i < info->n_vision; i++)
    for (gint row = 0; row < info->vision[i].n; row++)
      seen[info->vision[i].first + row] = TRUE;
  for (gsize i = 0; i < n; i++)
    g_assert_cmpint (seen[i], ==, tags[i] == 0);
}

/* A prompt's embeddings, and the same for the next one. */
static void
check_golden (Encoder *encoder, const gchar *request, const gchar *prompt,
    const gchar *task, gint references)
{
  g_autofree gchar *file = g_strdup_printf ("request_%s.safetensors", request);
  gsize n, size;
  g_autofree gfloat *want = h3_test_golden (file, "prompt_embeds", &n);
  g_autoptr (GBytes) got = embed (encoder, prompt);
  g_autoptr (GBytes) other = embed (encoder, "fox");
  g_autoptr (GBytes) again = embed (encoder, prompt);
  g_autoptr (GstCaps) caps = gst_pad_get_current_caps (encoder->text->sinkpad);
  GstH3EmbedsInfo info;

  g_assert_true (gst_h3_embeds_info_from_caps (&info, caps, NULL));
  g_assert_cmpstr (info.task, ==, task);
  g_assert_cmpint (info.references, ==, references);
  assert_vision_rows (&info, file);
  g_assert_cmpuint (g_bytes_get_size (got), ==, n * sizeof (gfloat));
  h3_test_assert_close (g_bytes_get_data (got, &size), want, n, H3_TEST_EMBEDS);
  g_assert_true (g_bytes_equal (got, again));
  g_assert_false (g_bytes_equal (got, other));
  assert_no_error (encoder);
}

static void
test_keyframes (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Media) last = media_picture ("last");
  g_autoptr (Encoder) one = encoder_new ("auto", "image_0", NULL);
  g_autoptr (Encoder) two = encoder_new ("auto", "image_0", "image_1", NULL);
  g_autoptr (Encoder) lone = encoder_new ("fl2va", "image_3", NULL);

  push_whole (one, 0, first);
  check_golden (one, "fl2va_first", KEYFRAME_PROMPT, "fl2va", 1);
  push_whole (two, 1, last);
  push_whole (two, 0, first);
  check_golden (two, "fl2va_both", KEYFRAME_PROMPT, "fl2va", 2);
  push_whole (lone, 0, last);
  check_golden (lone, "fl2va_last", KEYFRAME_PROMPT, "fl2va", 1);
}

static void
test_references (void)
{
  g_autoptr (Media) image = media_picture ("image");
  g_autoptr (Media) clip = media_clip ();
  g_autoptr (Encoder) one = encoder_new ("ref2va", "image_0", NULL);
  g_autoptr (Encoder) mixed =
      encoder_new ("auto", "image_2", "video_1", "audio_1", "audio_0", NULL);

  push_whole (one, 0, image);
  check_golden (one, "ref2va_image", "Use the cat from <Picture 1>.", "ref2va",
      1);
  /* one after the other: none waits for another's */
  push_whole (mixed, 1, clip);
  push_sound (mixed, 2);
  push_sound (mixed, 3);
  push_whole (mixed, 0, image);
  check_golden (mixed, "ref2va_mixed",
      "<Picture 1> speaks like <Audio 1>, moving like <Video 1>.", "ref2va", 3);
}

/* --- how frames come --- */

/* @step: between timestamps; 0: they stand still; NONE: there are none */
static GBytes *
embed_clip (const Media *clip, const gchar *framerate, GstClockTime step,
    guint repeat)
{
  g_autoptr (Encoder) encoder = encoder_new ("auto", "video_0", NULL);
  g_autofree gchar *caps = media_caps (clip, framerate);

  gst_harness_set_src_caps_str (encoder->pads[0], caps);
  for (guint i = 0; i < clip->n * repeat; i++) {
    GstBuffer *buffer = media_buffer (clip, i / repeat);

    if (GST_CLOCK_TIME_IS_VALID (step))
      GST_BUFFER_PTS (buffer) = GST_SECOND + i * step;
    g_assert_cmpint (gst_harness_push (encoder->pads[0], buffer), ==,
        GST_FLOW_OK);
  }
  push_eos (encoder, 0);
  return embed (encoder, "Like <Video 1>.");
}

/* By number where there is a rate, by time where there is none. */
static void
test_rate (void)
{
  const GstClockTime none = GST_CLOCK_TIME_NONE;
  g_autoptr (Media) clip = media_clip ();
  g_autoptr (GBytes) by_number = embed_clip (clip, "24/1", none, 1);
  g_autoptr (GBytes) twice = embed_clip (clip, "48/1", none, 2);
  g_autoptr (GBytes) still = embed_clip (clip, "24/1", 0, 1);
  g_autoptr (GBytes) by_time = embed_clip (clip, "0/1", GST_SECOND / 24, 1);
  g_autoptr (GBytes) slower = embed_clip (clip, "12/1", none, 1);

  g_assert_true (g_bytes_equal (by_number, twice));
  g_assert_true (g_bytes_equal (by_number, still));
  g_assert_true (g_bytes_equal (by_number, by_time));
  g_assert_cmpuint (g_bytes_get_size (slower), >, g_bytes_get_size (by_number));
}

/* One frame on a video pad is a picture. */
static void
test_one_frame (void)
{
  g_autoptr (Media) image = media_picture ("image");
  g_autoptr (Encoder) video = encoder_new ("auto", "video_0", NULL);

  push_whole (video, 0, image);
  check_golden (video, "ref2va_image", "Use the cat from <Picture 1>.",
      "ref2va", 1);
}

/* An image pad has enough after one frame, without EOS; a second is refused,
 * and does not change what the first one is. */
static void
test_no_eos (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Media) other = media_pattern (150, 90, 1);
  g_autoptr (Encoder) encoder = encoder_new ("auto", "image_0", NULL);

  g_assert_cmpint (push_media (encoder, 0, first), ==, GST_FLOW_OK);
  g_assert_cmpint (push_media (encoder, 0, other), ==, GST_FLOW_EOS);
  gst_harness_push_event (encoder->pads[0], gst_event_new_stream_start ("2"));
  push_media (encoder, 0, other);
  check_golden (encoder, "fl2va_first", KEYFRAME_PROMPT, "fl2va", 1);
}

/* The prompt waits. */
static void
test_prompt_first (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Encoder) encoder = encoder_new ("auto", "image_0", NULL);
  g_autoptr (GBytes) early = NULL, late = NULL;

  push_text (encoder, "fox");
  g_usleep (50 * 1000);
  g_assert_cmpuint (gst_harness_buffers_received (encoder->text), ==, 0);
  push_whole (encoder, 0, first);
  early = pull (encoder);
  late = embed (encoder, "fox");
  g_assert_true (g_bytes_equal (early, late));
}

/* Pads that come or go later change nothing, and nothing dangles. */
static void
test_late_pads (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Media) other = media_pattern (90, 150, 1);
  g_autoptr (Encoder) encoder = encoder_new ("auto", "image_0", NULL);
  g_autoptr (GBytes) before = NULL, with = NULL, without = NULL;
  GstPad *pad;

  push_whole (encoder, 0, first);
  before = embed (encoder, "fox");
  push_whole (encoder, add_pad (encoder, "image_1"), other);
  with = embed (encoder, "fox");
  pad = gst_element_get_static_pad (encoder->element, "image_0");
  gst_element_release_request_pad (encoder->element, pad);
  gst_object_unref (pad);
  without = embed (encoder, "fox");
  g_assert_true (g_bytes_equal (before, with));
  g_assert_true (g_bytes_equal (before, without));
}

static void
release (Encoder *encoder, const gchar *name)
{
  g_autoptr (GstPad) pad = gst_element_get_static_pad (encoder->element, name);

  gst_element_release_request_pad (encoder->element, pad);
}

static void
unlink_pad (Encoder *encoder, guint i)
{
  g_autoptr (GstPad) pad = gst_pad_get_peer (encoder->pads[i]->srcpad);

  gst_pad_unlink (encoder->pads[i]->srcpad, pad);
}

/* Who waits for a pad that goes waits for the others. */
static void
test_released_waiting (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Encoder) encoder =
      encoder_new ("auto", "image_0", "image_1", "video_2", NULL);
  g_autoptr (GBytes) early = NULL, late = NULL;

  push_text (encoder, "fox");
  push_whole (encoder, 0, first);
  push_media (encoder, 2, first);
  g_usleep (20 * 1000);
  release (encoder, "image_1");
  g_assert_cmpuint (gst_harness_buffers_received (encoder->text), ==, 0);
  release (encoder, "video_2");
  early = pull (encoder);
  late = embed (encoder, "fox");
  g_assert_true (g_bytes_equal (early, late));
  check_golden (encoder, "fl2va_first", KEYFRAME_PROMPT, "fl2va", 1);
}

/* What is cut off is not taken for whole. */
static void
test_unlinked_waiting (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Media) clip = media_clip ();
  g_autoptr (Encoder) encoder =
      encoder_new ("auto", "image_0", "video_1", NULL);

  push_text (encoder, "fox");
  push_whole (encoder, 0, first);
  push_media (encoder, 1, clip);
  g_usleep (20 * 1000);
  g_assert_cmpuint (gst_harness_buffers_received (encoder->text), ==, 0);
  unlink_pad (encoder, 1);
  assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "\"video_1\" was unlinked");
}

/* After EOS it has brought what it will, and before READY nothing is running. */
static void
test_unlinked_after (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Encoder) encoder = encoder_new ("auto", "image_0", NULL);
  GstPad *pad = gst_element_get_static_pad (encoder->element, "image_0");

  gst_element_set_state (encoder->element, GST_STATE_READY);
  unlink_pad (encoder, 0);
  g_assert_cmpint (gst_pad_link (encoder->pads[0]->srcpad, pad), ==,
      GST_PAD_LINK_OK);
  gst_object_unref (pad);
  gst_element_set_state (encoder->element, GST_STATE_PLAYING);
  begin_text (encoder);
  push_whole (encoder, 0, first);
  unlink_pad (encoder, 0);
  check_golden (encoder, "fl2va_first", KEYFRAME_PROMPT, "fl2va", 1);
}

/* --- flushes and states --- */

static void
test_flush_all (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Media) other = media_pattern (90, 150, 1);
  g_autoptr (Encoder) encoder = encoder_new ("auto", "image_0", NULL);
  g_autoptr (GBytes) before = NULL, after = NULL;

  for (guint i = 0; i < 3; i++) {
    push_whole (encoder, 0, i == 1 ? first : other);
    if (i == 1) {
      check_golden (encoder, "fl2va_first", KEYFRAME_PROMPT, "fl2va", 1);
    } else {
      g_autoptr (GBytes) embeds = embed (encoder, "fox");

      if (before)
        g_assert_true (g_bytes_equal (before, embeds));
      else
        before = g_bytes_ref (embeds);
    }
    flush (encoder, TRUE, 0, 1);
  }
}

/* One picture is exchanged. */
static void
test_flush_one (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Media) other = media_pattern (90, 150, 1);
  g_autoptr (Encoder) encoder = encoder_new ("auto", "image_0", NULL);
  g_autoptr (Encoder) both = encoder_new ("auto", "image_0", "image_1", NULL);

  push_whole (encoder, 0, other);
  g_bytes_unref (embed (encoder, "fox"));
  flush (encoder, FALSE, 0, 1);
  push_text (encoder, "fox");
  push_whole (encoder, 0, first);
  g_bytes_unref (pull (encoder));
  check_golden (encoder, "fl2va_first", KEYFRAME_PROMPT, "fl2va", 1);

  push_whole (both, 0, other);
  push_whole (both, 1, other);
  g_bytes_unref (embed (both, "fox"));
  flush (both, FALSE, 0, 1);
  push_whole (both, 0, first);
  push_text (both, "fox");
  assert_error (both, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "\"image_1\" had EOS before any frame");
}

static void
wait_encoding (Encoder *encoder)
{
  for (;;) {
    g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (encoder->bus,
        TIMEOUT, GST_MESSAGE_PROGRESS);
    g_autofree gchar *code = NULL;

    g_assert_nonnull (message);
    gst_message_parse_progress (message, NULL, &code, NULL);
    if (g_str_equal (code, "h3-encode"))
      return;
  }
}

/* The text alone is flushed while it is encoded: it ends, and the next prompt is
 * read with the pictures that are there. */
static void
test_flush_text (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Encoder) encoder = encoder_new ("auto", "image_0", NULL);
  g_autofree gchar *longest = g_strnfill (3000, 'x');

  push_whole (encoder, 0, first);
  for (gsize i = 0; i < 3000; i++)
    longest[i] = "a fox runs "[i % 11];
  push_text (encoder, longest);
  wait_encoding (encoder);
  flush (encoder, TRUE, 0, 0);
  check_golden (encoder, "fl2va_first", KEYFRAME_PROMPT, "fl2va", 1);
}

/* Nothing of before READY is there after it. */
static void
test_cycles (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autoptr (Media) other = media_pattern (90, 150, 1);
  g_autoptr (Encoder) encoder = encoder_new ("auto", "image_0", NULL);
  static const GstState downs[] = { GST_STATE_READY, GST_STATE_NULL,
    GST_STATE_READY };

  push_media (encoder, 0, other);
  for (guint i = 0; i < G_N_ELEMENTS (downs); i++) {
    gst_element_set_state (encoder->element, downs[i]);
    gst_element_set_state (encoder->element, GST_STATE_PLAYING);
    begin_text (encoder);
    gst_harness_push_event (encoder->pads[0],
        gst_event_new_stream_start ("again"));
    push_whole (encoder, 0, i == 1 ? other : first);
    if (i == 1)
      g_bytes_unref (embed (encoder, "fox"));
    else
      check_golden (encoder, "fl2va_first", KEYFRAME_PROMPT, "fl2va", 1);
  }
}

/* --- what is refused --- */

static void
test_no_pads (void)
{
  g_autoptr (Encoder) encoder = encoder_new ("ref2va", NULL);

  push_text (encoder, "fox");
  assert_error (encoder, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
      "task=ref2va needs a reference");
}

static void
test_nothing (void)
{
  static const gchar *const names[] = { "image_0", "video_0", "audio_0" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autoptr (Encoder) encoder = encoder_new ("auto", names[i], NULL);
    g_autofree gchar *says =
        g_strdup_printf ("\"%s\" had EOS before any", names[i]);

    gst_harness_push_event (encoder->pads[0],
        gst_event_new_stream_start ("none"));
    push_eos (encoder, 0);
    push_text (encoder, "fox");
    assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, says);
    /* the failure after a flush is told, too */
    flush (encoder, TRUE, 0, 1);
    push_eos (encoder, 0);
    push_text (encoder, "fox");
    assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, says);
  }
}

/* A sound alone, too many pictures, a clip as a keyframe. */
static void
test_mixtures (void)
{
  g_autoptr (Media) clip = media_pattern (64, 64, 20);
  g_autoptr (Media) small = media_pattern (64, 64, 1);
  g_autoptr (Encoder) sound = encoder_new ("auto", "audio_0", NULL);
  g_autoptr (Encoder) many = encoder_new ("auto", NULL);
  g_autoptr (Encoder) keyframe = encoder_new ("fl2va", "video_4", NULL);
  g_autoptr (Encoder) three =
      encoder_new ("fl2va", "image_0", "image_1", "image_2", NULL);

  push_sound (sound, 0);
  push_text (sound, "fox");
  assert_error (sound, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "nothing to see");
  for (guint i = 0; i < 10; i++)
    push_whole (many, add_pad (many, "image_%u"), small);
  push_text (many, "fox");
  assert_error (many, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "10 reference pictures were given, at most 9");
  push_whole (keyframe, 0, clip);
  push_text (keyframe, "fox");
  assert_error (keyframe, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "\"video_4\" brings a clip");
  for (guint i = 0; i < 3; i++)
    push_whole (three, i, small);
  push_text (three, "fox");
  assert_error (three, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "2 last frames were given, at most 1");
}

static void
push_with_time (Encoder *encoder, const Media *media, GstClockTime pts)
{
  GstBuffer *buffer = media_buffer (media, 0);

  GST_BUFFER_PTS (buffer) = pts;
  gst_harness_push (encoder->pads[0], buffer);
}

static void
test_bad_frames (void)
{
  g_autoptr (Media) small = media_pattern (64, 64, 1);
  g_autoptr (Media) larger = media_pattern (96, 64, 1);
  g_autoptr (Media) thin = media_pattern (64, 320, 1);
  g_autoptr (Encoder) size = encoder_new ("auto", "video_0", NULL);
  g_autoptr (Encoder) time = encoder_new ("auto", "video_0", NULL);
  g_autoptr (Encoder) bytes = encoder_new ("auto", "image_0", NULL);
  g_autoptr (Encoder) aspect = encoder_new ("ref2va", "image_0", NULL);
  g_autoptr (Encoder) caps = encoder_new ("auto", "image_0", NULL);
  g_autofree gchar *free_rate = media_caps (small, "0/1");
  g_autofree gchar *fixed_rate = media_caps (small, "24/1");

  push_media (size, 0, small);
  push_media (size, 0, larger);
  assert_error (size, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "Pad \"video_0\": The frames change from 64 x 64 at 24/1 fps to 96 x 64");

  gst_harness_set_src_caps_str (time->pads[0], free_rate);
  push_with_time (time, small, GST_SECOND);
  push_with_time (time, small, GST_SECOND);
  assert_error (time, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "Pad \"video_0\": Frame 1 of a reference without a constant rate");

  gst_harness_set_src_caps_str (bytes->pads[0], fixed_rate);
  gst_harness_push (bytes->pads[0], gst_buffer_new_allocate (NULL, 100, NULL));
  push_text (bytes, "fox");
  assert_error (bytes, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "Pad \"image_0\": Frame 0 cannot be read as RGB of 64 x 64");

  push_whole (aspect, 0, thin);
  push_text (aspect, "fox");
  assert_error (aspect, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "64");

  gst_harness_set_src_caps_str (caps->pads[0],
      "video/x-raw, format=NV12, width=64, height=64, framerate=24/1");
  g_assert_cmpint (gst_harness_push (caps->pads[0], gst_buffer_new ()), ==,
      GST_FLOW_NOT_NEGOTIATED);
}

static void
test_short_clip (void)
{
  g_autoptr (Media) clip = media_pattern (64, 64, 3);
  g_autoptr (Encoder) encoder = encoder_new ("auto", "video_7", NULL);

  push_whole (encoder, 0, clip);
  push_text (encoder, "fox");
  assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "\"video_7\"");
}

/* The same lengths as h3videovaeenc. */
static void
test_long_clip (void)
{
  static const struct {
    const gchar *framerate;
    guint frames;
    const gchar *says;
  } cases[] = { { "24/181", 0, NULL }, { "24/182", 30, NULL },
    { "24/182", 0, "has 364 frames or more" },
    { "24/363", 0, "has 363 frames or more" } };
  g_autoptr (Media) clip = media_pattern (64, 64, 2);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (Encoder) encoder = encoder_new ("auto", "video_7", NULL);
    g_autofree gchar *caps = media_caps (clip, cases[i].framerate);

    g_object_set (encoder->element, "frames", cases[i].frames, NULL);
    gst_harness_set_src_caps_str (encoder->pads[0], caps);
    for (guint k = 0; k < clip->n; k++)
      gst_harness_push (encoder->pads[0], media_buffer (clip, k));
    push_eos (encoder, 0);
    push_text (encoder, "fox");
    if (cases[i].says)
      assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
          cases[i].says);
    else
      g_bytes_unref (pull (encoder));
  }
}

/* Renames the vision tower's configuration. */
static void
hide_vision (const gchar *path)
{
  g_autofree gchar *text = NULL;
  gchar *at;
  gsize n;

  g_assert_true (g_file_get_contents (path, &text, &n, NULL));
  at = strstr (text, "vision_config");
  g_assert_nonnull (at);
  memcpy (at, "hidden", 6);
  h3_test_write_file (path, text, n);
}

/* Without pictures the tower is not asked for; with one it is, by name. */
static void
test_no_vision (void)
{
  g_autoptr (Media) first = media_picture ("first");
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *copy = g_build_filename (dir, "copy", NULL);
  g_autofree gchar *config =
      g_build_filename (copy, "FL2VA", "text_encoder", "config.json", NULL);

  h3_test_copy_tree (h3_test_tiny_dir (), copy);
  hide_vision (config);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (Encoder) encoder =
        encoder_new ("auto", i ? "image_0" : NULL, NULL);
    g_autoptr (GBytes) embeds = NULL;

    gst_element_set_state (encoder->element, GST_STATE_NULL);
    g_object_set (encoder->element, "model-path", copy, NULL);
    gst_element_set_state (encoder->element, GST_STATE_PLAYING);
    assert_no_error (encoder);
    begin_text (encoder);
    if (i == 0) {
      embeds = embed (encoder, "fox");
      continue;
    }
    push_whole (encoder, 0, first);
    push_text (encoder, "fox");
    assert_error (encoder, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE,
        "vision_config");
  }
  h3_test_remove_tree (dir);
}

static void
test_names (void)
{
  static const gchar *const asked[] = { "image_%u", "video_%u", "audio_5",
    "image_%u" };
  static const gchar *const got[] = { "image_0", "video_1", "audio_5",
    "image_6" };
  GstElement *element = gst_element_factory_make ("h3textenc", NULL);

  gst_object_ref_sink (element);
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++) {
    GstPad *pad = gst_element_request_pad_simple (element, asked[i]);

    g_assert_nonnull (pad);
    g_assert_cmpstr (GST_PAD_NAME (pad), ==, got[i]);
    gst_object_unref (pad);
  }
  gst_object_unref (element);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  if (h3_test_skip_program ())
    return 0;
  g_test_add_func ("/textconditions/keyframes", test_keyframes);
  g_test_add_func ("/textconditions/references", test_references);
  g_test_add_func ("/textconditions/rate", test_rate);
  g_test_add_func ("/textconditions/one-frame", test_one_frame);
  g_test_add_func ("/textconditions/no-eos", test_no_eos);
  g_test_add_func ("/textconditions/prompt-first", test_prompt_first);
  g_test_add_func ("/textconditions/late-pads", test_late_pads);
  g_test_add_func ("/textconditions/released-waiting", test_released_waiting);
  g_test_add_func ("/textconditions/unlinked-waiting", test_unlinked_waiting);
  g_test_add_func ("/textconditions/unlinked-after", test_unlinked_after);
  g_test_add_func ("/textconditions/flush-all", test_flush_all);
  g_test_add_func ("/textconditions/flush-one", test_flush_one);
  g_test_add_func ("/textconditions/flush-text", test_flush_text);
  g_test_add_func ("/textconditions/cycles", test_cycles);
  g_test_add_func ("/textconditions/no-pads", test_no_pads);
  g_test_add_func ("/textconditions/nothing", test_nothing);
  g_test_add_func ("/textconditions/mixtures", test_mixtures);
  g_test_add_func ("/textconditions/bad-frames", test_bad_frames);
  g_test_add_func ("/textconditions/short-clip", test_short_clip);
  g_test_add_func ("/textconditions/long-clip", test_long_clip);
  g_test_add_func ("/textconditions/no-vision", test_no_vision);
  g_test_add_func ("/textconditions/names", test_names);
  return g_test_run ();
}
