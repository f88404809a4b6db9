/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What h3src says of files that it cannot use, and how it is stopped. */
#include "condition-clip.h"

static void
write_clip_of (const gchar *name, gint frames)
{
  make_file ("videotestsrc num-buffers=%d ! "
             "video/x-raw,width=96,height=64,framerate=24/1 ! matroskamux ! "
             "filesink location=%s/%s",
      frames, test_dir, name);
}

static void
write_sound (const gchar *name)
{
  make_file ("audiotestsrc num-buffers=20 ! wavenc ! "
             "filesink location=%s/%s",
      test_dir, name);
}

/* --- errors --- */

/* The error's first words name the input. */
static void
check_error (Clip *clip, GQuark domain, gint code, const gchar *name,
    const gchar *text)
{
  g_autoptr (GError) error = clip_try (clip);

  g_test_message ("%s", error ? error->message : "no error");
  g_assert_error (error, domain, code);
  g_assert_true (g_str_has_prefix (error->message, name));
  g_assert_nonnull (strstr (error->message, text));
  clip_stop (clip);
  g_assert_cmpint (gst_element_set_state (clip->pipeline, GST_STATE_NULL), ==,
      GST_STATE_CHANGE_SUCCESS);
}

static void
check_keyframe (const gchar *file, GQuark domain, gint code, const gchar *text)
{
  g_autoptr (Clip) clip = clip_new ("");

  clip_set_file (clip, "first-frame", file);
  check_error (clip, domain, code, "The first frame (file:///", text);
  clip_set_file (clip, "first-frame", NULL);
  clip_set_file (clip, "last-frame", file);
  check_error (clip, domain, code, "The last frame (file:///", text);
}

static void
check_reference (const gchar *file, GQuark domain, gint code, const gchar *text)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *image = golden_picture ("image.png");

  clip_set_references (clip, image, file, NULL);
  check_error (clip, domain, code, "Reference 2 (file:///", text);
}

/* Half a picture: decodebin tells its parser's error, or, when that comes while
 * it changes state, that nothing came out. */
static void
check_half (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autoptr (GError) error = NULL;

  clip_set_references (clip, "short.png", NULL);
  error = clip_try (clip);
  clip_stop (clip);
  g_assert_nonnull (error);
  g_test_message ("%s", error->message);
  g_assert_true (
      g_error_matches (error, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE) ||
      g_error_matches (error, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED));
  g_assert_true (g_str_has_prefix (error->message, "Reference 1 (file:///"));
  g_assert_nonnull (strstr (error->message, "short.png"));
}

static void
test_unreadable (void)
{
  g_autofree gchar *picture = golden_picture ("image.png");
  g_autofree gchar *bytes = NULL;
  gsize n;

  g_assert_true (g_file_get_contents (picture, &bytes, &n, NULL));
  write_file ("short.png", bytes, n / 2);
  write_file ("text.txt", "a text, and nothing to see\n", 27);
  write_file ("empty.png", "", 0);

  check_keyframe ("missing.png", GST_RESOURCE_ERROR,
      GST_RESOURCE_ERROR_NOT_FOUND, "missing.png");
  check_reference ("missing.png", GST_RESOURCE_ERROR,
      GST_RESOURCE_ERROR_NOT_FOUND, "missing.png");
  check_keyframe ("text.txt", GST_STREAM_ERROR, GST_STREAM_ERROR_TYPE_NOT_FOUND,
      "text.txt");
  check_reference ("text.txt", GST_STREAM_ERROR,
      GST_STREAM_ERROR_TYPE_NOT_FOUND, "text.txt");
  check_reference ("empty.png", GST_STREAM_ERROR,
      GST_STREAM_ERROR_TYPE_NOT_FOUND, "empty.png");
  check_half ();
}

/* A library may read a damaged picture as far as it goes, or refuse; either way
 * there is an end, and an error has the name. */
static void
test_damaged (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autoptr (GError) error = NULL;
  g_autofree gchar *picture = golden_picture ("image.png");
  g_autofree gchar *bytes = NULL;
  gsize n;

  g_assert_true (g_file_get_contents (picture, &bytes, &n, NULL));
  memset (bytes + n / 3, 0x55, n / 3);
  write_file ("broken.png", bytes, n);
  clip_set_file (clip, "first-frame", "broken.png");
  error = clip_try (clip);
  if (error)
    g_assert_true (g_str_has_prefix (error->message, "The first frame ("));
}

static void
test_no_picture (void)
{
  write_sound ("only.wav");
  check_keyframe ("only.wav", GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "no picture");
}

static void
test_no_handler (void)
{
  g_autoptr (Clip) clip = clip_new ("");

  clip_set_file (clip, "first-frame", "nothing://reads.this/x.png");
  check_error (clip, GST_CORE_ERROR, GST_CORE_ERROR_MISSING_PLUGIN,
      "The first frame (nothing://", "nothing");
}

/* Whichever element looks at it first. */
static void
test_shapes (void)
{
  g_autoptr (Clip) clip = clip_new ("width=0 height=0");

  make_file ("videotestsrc num-buffers=1 ! video/x-raw,width=400,height=2 ! "
             "pngenc ! filesink location=%s/flat.png",
      test_dir);
  for (gint i = 0; i < 4; i++)
    check_reference ("flat.png", GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
        "400 x 2");
  clip_set_file (clip, "first-frame", "flat.png");
  check_error (clip, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
      "The first frame (file:///", "400:2");
}

static void
test_short_clips (void)
{
  write_clip_of ("four.mkv", 4);
  write_clip_of ("five.mkv", 5);
  write_clip_of ("twelve.mkv", 12);
  check_reference ("four.mkv", GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "frames");
  check_reference ("five.mkv", GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "5 frames");
  check_reference ("twelve.mkv", GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "12 frames");
}

/* --- settings --- */

static void
check_refused (Clip *clip, GQuark domain, gint code, const gchar *one,
    const gchar *two)
{
  g_autoptr (GError) error = clip_try (clip);

  g_test_message ("%s", error ? error->message : "no error");
  g_assert_error (error, domain, code);
  g_assert_nonnull (strstr (error->message, one));
  g_assert_nonnull (strstr (error->message, two));
  clip_stop (clip);
}

/* Before anything is opened: the files need not even be there. */
static void
test_both_kinds (void)
{
  g_autoptr (Clip) clip = clip_new ("");

  clip_set_references (clip, "a", NULL);
  clip_set_file (clip, "first-frame", "b");
  check_refused (clip, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
      "first-frame", "references");
  gst_element_set_state (clip->pipeline, GST_STATE_NULL);
  clip_set_file (clip, "first-frame", NULL);
  clip_set_file (clip, "last-frame", "b");
  check_refused (clip, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
      "last-frame", "references");
}

static void
test_empty_path (void)
{
  g_autoptr (Clip) clip = clip_new ("first-frame=\"\"");

  check_refused (clip, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
      "first-frame", "empty");
}

static void
test_too_many (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *i = golden_picture ("image.png");

  clip_set_references (clip, i, i, i, i, i, i, i, i, i, i, NULL);
  check_refused (clip, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "10", "9");
  gst_element_set_state (clip->pipeline, GST_STATE_NULL);
  clip_set_references (clip, i, i, i, i, i, i, i, i, i, i, i, i, i, NULL);
  check_refused (clip, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, "13",
      "12");
}

static void
test_too_many_clips (void)
{
  g_autoptr (Clip) clip = clip_new ("");

  write_clip_of ("second.mkv", 24);
  clip_set_references (clip, "second.mkv", "second.mkv", "second.mkv",
      "second.mkv", NULL);
  check_refused (clip, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "4", "3");
}

static void
test_sound_alone (void)
{
  g_autoptr (Clip) clip = clip_new ("");

  write_sound ("only.wav");
  clip_set_references (clip, "only.wav", NULL);
  check_refused (clip, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "1",
      "nothing to see");
}

/* What was added to the element to read files. */
static guint
count_children (Clip *clip)
{
  return GST_BIN (clip->h3)->numchildren;
}

/* After an error the same element makes a clip, and keeps nothing. */
static void
test_after_error (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *image = golden_picture ("image.png");
  static const gchar *const bad[] = { "four.mkv", "missing.png", "text.txt" };
  guint children = count_children (clip);

  write_clip_of ("four.mkv", 4);
  write_file ("text.txt", "a text, and nothing to see\n", 27);
  for (guint i = 0; i < 2 * G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;

    clip_set_references (clip, image, bad[i / 2], NULL);
    error = clip_try (clip);
    g_assert_nonnull (error);
    gst_element_set_state (clip->pipeline,
        i % 2 ? GST_STATE_READY : GST_STATE_NULL);
    if (i % 2 == 0)
      g_assert_cmpuint (count_children (clip), ==, children);
    clip_set_references (clip, image, NULL);
    clip_run (clip);
    gst_element_set_state (clip->pipeline, GST_STATE_NULL);
    g_assert_cmpuint (count_children (clip), ==, children);
  }
}

/* --- being stopped --- */

/* Nothing ever comes from an appsrc that nobody feeds: the picture beside it
 * waits, and the prompt. */
static Clip *
waiting_clip (void)
{
  g_autofree gchar *image = golden_picture ("image.png");
  Clip *clip = clip_new ("");

  clip_set_references (clip, image, "appsrc://", NULL);
  gst_element_set_state (clip->pipeline, GST_STATE_PLAYING);
  g_usleep (G_USEC_PER_SEC / 5);
  return clip;
}

static void
test_eos_while_waiting (void)
{
  g_autoptr (Clip) clip = waiting_clip ();
  g_autoptr (GError) error = NULL;
  gint64 start = g_get_monotonic_time ();

  g_assert_true (gst_element_send_event (clip->pipeline, gst_event_new_eos ()));
  error = clip_wait (clip);
  g_assert_no_error (error);
  g_assert_cmpint (g_get_monotonic_time () - start, <, 2 * G_USEC_PER_SEC);
  g_assert_cmpuint (clip->latents[0]->len, ==, 0);
  gst_element_set_state (clip->pipeline, GST_STATE_READY);
  {
    g_autofree gchar *image = golden_picture ("image.png");
    clip_set_references (clip, image, NULL);
  }
  clip_run (clip);
}

static void
test_ready_while_waiting (void)
{
  g_autoptr (Clip) clip = waiting_clip ();

  for (gint i = 0; i < 3; i++) {
    gint64 start = g_get_monotonic_time ();

    g_assert_cmpint (gst_element_set_state (clip->pipeline, GST_STATE_READY),
        ==, GST_STATE_CHANGE_SUCCESS);
    g_assert_cmpint (g_get_monotonic_time () - start, <, G_USEC_PER_SEC);
    gst_element_set_state (clip->pipeline, GST_STATE_PLAYING);
    g_usleep (G_USEC_PER_SEC / 20);
  }
}

/* Wherever it is: opening, decoding, linking, encoding. */
static void
test_stop_anywhere (void)
{
#ifdef __SANITIZE_ADDRESS__
  const gint n = 20;
#else
  const gint n = 60;
#endif
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *image = golden_picture ("image.png");

  write_clip_of ("second.mkv", 24);
  clip_set_references (clip, image, "second.mkv", image, NULL);
  for (gint i = 0; i < n; i++) {
    gst_element_set_state (clip->pipeline, GST_STATE_PLAYING);
    g_usleep (i * 60000 / n * 4);
    if (i % 3 == 0)
      gst_element_send_event (clip->pipeline, gst_event_new_eos ());
    g_assert_cmpint (gst_element_set_state (clip->pipeline,
                         i % 2 ? GST_STATE_READY : GST_STATE_NULL),
        ==, GST_STATE_CHANGE_SUCCESS);
  }
  gst_element_set_state (clip->pipeline, GST_STATE_NULL);
  clip_run (clip);
}

void
add_condition_error_tests (void)
{
  g_test_add_func ("/conditions/errors/unreadable", test_unreadable);
  g_test_add_func ("/conditions/errors/damaged", test_damaged);
  g_test_add_func ("/conditions/errors/no-picture", test_no_picture);
  g_test_add_func ("/conditions/errors/no-handler", test_no_handler);
  g_test_add_func ("/conditions/errors/shapes", test_shapes);
  g_test_add_func ("/conditions/errors/short-clips", test_short_clips);
  g_test_add_func ("/conditions/errors/both-kinds", test_both_kinds);
  g_test_add_func ("/conditions/errors/empty-path", test_empty_path);
  g_test_add_func ("/conditions/errors/too-many", test_too_many);
  g_test_add_func ("/conditions/errors/too-many-clips", test_too_many_clips);
  g_test_add_func ("/conditions/errors/sound-alone", test_sound_alone);
  g_test_add_func ("/conditions/errors/after", test_after_error);
  g_test_add_func ("/conditions/stop/eos-while-waiting",
      test_eos_while_waiting);
  g_test_add_func ("/conditions/stop/ready-while-waiting",
      test_ready_while_waiting);
  g_test_add_func ("/conditions/stop/anywhere", test_stop_anywhere);
}
