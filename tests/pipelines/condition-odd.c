/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files at the edges of what is a clip, a picture or a sound, and h3src used as
 * one would not: each is the right clip, or one error that names the file. */
#include <glib/gstdio.h>
#include <gst/tag/tag.h>

#include "condition-clip.h"

static void
write_frames (const gchar *name, gint n, gint fps)
{
  make_file ("videotestsrc num-buffers=%d ! "
             "video/x-raw,width=96,height=64,framerate=%d/1 ! matroskamux ! "
             "filesink location=%s/%s",
      n, fps, test_dir, name);
}

static void
write_sound (const gchar *name)
{
  make_file ("audiotestsrc num-buffers=40 ! wavenc ! filesink location=%s/%s",
      test_dir, name);
}

static void
assert_equal (const GByteArray *a, const GByteArray *b)
{
  g_assert_cmpmem (a->data, a->len, b->data, b->len);
}

static Clip *
clip_with (const gchar *a, const gchar *b)
{
  Clip *clip = clip_new ("");

  clip_set_references (clip, a, b, NULL);
  clip_run (clip);
  return clip;
}

/* --- in the middle of things --- */

/* The thread of a sound's stream, which comes to where the stream is held just
 * when the encoder has been linked there. */
typedef struct {
  GMutex lock;
  GCond changed;
  gboolean linked;
  guint held;
} Late;

static GstPadProbeReturn
wait_for_link (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  gint64 end = g_get_monotonic_time () + 20 * G_USEC_PER_SEC;
  Late *late = data;

  g_mutex_lock (&late->lock);
  late->held++;
  while (
      !late->linked && g_cond_wait_until (&late->changed, &late->lock, end)) {
  }
  g_mutex_unlock (&late->lock);
  return GST_PAD_PROBE_REMOVE;
}

/* In the thread that links: the other one goes on first. */
static void
encoder_linked (GstPad *pad, GstPad *peer, gpointer data)
{
  Late *late = data;

  g_mutex_lock (&late->lock);
  late->linked = TRUE;
  g_cond_broadcast (&late->changed);
  g_mutex_unlock (&late->lock);
  g_usleep (G_USEC_PER_SEC / 5);
}

static void
part_added (GstBin *bin, GstElement *element, gpointer late)
{
  g_autofree gchar *name = gst_object_get_name (GST_OBJECT (element));
  g_autoptr (GstElement) queue =
      GST_IS_BIN (element) ? gst_bin_get_by_name (GST_BIN (element), "hold")
                           : NULL;
  g_autoptr (GstPad) pad = NULL;

  if (g_str_has_prefix (name, "h3audiovaeenc")) {
    pad = gst_element_get_static_pad (element, "sink");
    g_signal_connect (pad, "linked", G_CALLBACK (encoder_linked), late);
  } else if (queue) {
    guint64 most;

    g_object_get (queue, "max-size-time", &most, NULL);
    if (most == 0)
      return; /* of pictures */
    pad = gst_element_get_static_pad (queue, "src");
    gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, wait_for_link, late,
        NULL);
  }
}

static void
test_late_thread (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *image = golden_picture ("image.png");
  Late late = { 0 };

  g_mutex_init (&late.lock);
  g_cond_init (&late.changed);
  write_sound ("late.wav");
  clip_set_references (clip, "late.wav", image, NULL);
  g_signal_connect (clip->h3, "element-added", G_CALLBACK (part_added), &late);
  clip_run (clip);
  g_assert_cmpuint (late.held, ==, 1);
  g_assert_true (late.linked);
  gst_element_set_state (clip->pipeline, GST_STATE_NULL);
  g_cond_clear (&late.changed);
  g_mutex_clear (&late.lock);
}

/* --- lengths and rates --- */

/* 17 k + 5 frames are encoded: of 13 and 21 the same, of 22 and 23. */
static void
test_lengths (void)
{
  static const gint lengths[] = { 13, 21, 22, 23 };
  Clip *clips[G_N_ELEMENTS (lengths)];

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++) {
    g_autofree gchar *name = g_strdup_printf ("%d.mkv", lengths[i]);

    write_frames (name, lengths[i], 24);
    clips[i] = clip_with (name, NULL);
  }
  assert_equal (clips[0]->latents[2], clips[1]->latents[2]);
  assert_equal (clips[2]->latents[2], clips[3]->latents[2]);
  g_assert_cmpuint (clips[1]->latents[2]->len, <, clips[2]->latents[2]->len);
  assert_equal (clips[2]->latents[0], clips[3]->latents[0]);
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    clip_free (clips[i]);
}

/* At one frame a second the first is the whole clip; at 1000 one in 42 is
 * seen. */
static void
test_slow_and_fast (void)
{
  g_autoptr (Clip) fast = NULL;
  g_autoptr (Clip) slow = NULL;
  g_autoptr (Clip) still = NULL;

  write_steady ("slow.mkv", 2, 240, 1, 1, 1, "matroskamux");
  write_steady ("still.mkv", 24, 10, 100, 24, 1, "matroskamux");
  write_frames ("fast.mkv", 1000, 1000);
  fast = clip_with ("fast.mkv", NULL);
  slow = clip_with ("slow.mkv", NULL);
  still = clip_with ("still.mkv", NULL);
  for (guint i = 0; i < G_N_ELEMENTS (slow->latents); i++)
    assert_equal (slow->latents[i], still->latents[i]);
  g_assert_cmpuint (fast->latents[2]->len, ==, still->latents[2]->len);
}

/* --- covers --- */

static GstSample *
read_picture (void)
{
  g_autofree gchar *path = golden_picture ("image.png");
  g_autofree gchar *bytes = NULL;
  gsize n;

  g_assert_true (g_file_get_contents (path, &bytes, &n, NULL));
  return gst_tag_image_data_to_image_sample ((guint8 *) bytes, n,
      GST_TAG_IMAGE_TYPE_FRONT_COVER);
}

/* A sound, with the picture where its format keeps it. @encode: with an element
 * "tags" that writes it */
static void
write_tagged (const gchar *name, const gchar *encode, GstSample *picture)
{
  g_autofree gchar *text =
      g_strdup_printf ("audiotestsrc num-buffers=40 ! %s ! "
                       "filesink location=%s/%s",
          encode, test_dir, name);
  g_autoptr (GstElement) pipeline = gst_parse_launch (text, NULL);
  g_autoptr (GstElement) tags =
      gst_bin_get_by_name (GST_BIN (pipeline), "tags");
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);
  g_autoptr (GstMessage) message = NULL;

  if (picture)
    gst_tag_setter_add_tags (GST_TAG_SETTER (tags), GST_TAG_MERGE_REPLACE,
        GST_TAG_IMAGE, picture, NULL);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  gst_element_set_state (pipeline, GST_STATE_NULL);
}

/* The sound is the same with its cover and without. */
static void
check_cover (const gchar *plain, const gchar *covered)
{
  g_autofree gchar *image = golden_picture ("image.png");
  g_autoptr (Clip) a = clip_with (plain, image);
  g_autoptr (Clip) b = clip_with (covered, image);

  for (guint i = 0; i < 2; i++)
    assert_equal (a->latents[i], b->latents[i]);
}

static void
test_tagged (void)
{
  static const gchar *const formats[][3] = {
    { "mp3", "lamemp3enc ! id3v2mux name=tags", "lamemp3enc id3v2mux" },
    { "m4a", "avenc_aac ! aacparse ! mp4mux name=tags", "avenc_aac mp4mux" },
    { "ogg", "vorbisenc ! vorbistag name=tags ! oggmux",
        "vorbisenc vorbistag oggmux" },
    { "flac", "flacenc ! flactag name=tags", "flacenc flactag" },
  };
  g_autoptr (GstSample) picture = read_picture ();

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++) {
    g_autofree gchar *plain = g_strconcat ("plain.", formats[i][0], NULL);
    g_autofree gchar *covered = g_strconcat ("covered.", formats[i][0], NULL);

    if (test_lacks (formats[i][2]))
      return;
    write_tagged (plain, formats[i][1], NULL);
    write_tagged (covered, formats[i][1], picture);
    check_cover (plain, covered);
  }
}

/* A cover that is a stream of one picture, which may be there long before the
 * sound has ended. */
static void
test_cover_stream (void)
{
  write_sound ("plain.wav");
  for (gint i = 0; i < 2; i++) {
    make_file ("videotestsrc num-buffers=1 ! video/x-raw,width=96,height=64,"
               "framerate=1/1 ! queue ! mux. "
               "filesrc location=%s/plain.wav ! wavparse ! queue ! mux. "
               "%s name=mux ! filesink location=%s/covered",
        test_dir, i ? "avimux" : "matroskamux", test_dir);
    check_cover ("plain.wav", "covered");
  }
}

/* --- damaged and random files --- */

/* At the end, or with one error that begins with @name. */
static void
check_ends (Clip *clip, const gchar *name)
{
  g_autoptr (GError) error = clip_try (clip);

  if (error && !g_str_has_prefix (error->message, name))
    g_error ("\"%s\" does not begin with \"%s\"", error->message, name);
  clip_stop (clip);
}

/* The file as each kind of input. */
static void
try_each (Clip *clip, const gchar *file)
{
  g_autofree gchar *image = golden_picture ("image.png");

  clip_set_references (clip, NULL);
  clip_set_file (clip, "first-frame", file);
  check_ends (clip, "The first frame (file://");
  clip_set_file (clip, "first-frame", NULL);
  clip_set_file (clip, "last-frame", file);
  check_ends (clip, "The last frame (file://");
  clip_set_file (clip, "last-frame", NULL);
  clip_set_references (clip, image, file, NULL);
  check_ends (clip, "Reference 2 (file://");
}

static void
test_random (void)
{
  g_autoptr (Clip) clip = clip_new ("input-timeout=2000000000");
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  guint8 bytes[6000];

  for (gint i = 0; i < 3; i++) {
    for (guint k = 0; k < sizeof (bytes); k++)
      bytes[k] = g_rand_int (random);
    write_file ("random", bytes, i == 0 ? 1 : sizeof (bytes));
    try_each (clip, "random");
  }
  write_file ("nothing", "", 0);
  try_each (clip, "nothing");
}

static void
test_directory (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *path = test_path ("folder");
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
  clip_set_references (clip, "folder", NULL);
  error = clip_try (clip);
  g_assert_error (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_READ);
  g_assert_true (g_str_has_prefix (error->message, "Reference 1 (file://"));
  clip_stop (clip);
  try_each (clip, "folder");
}

/* Good files with bytes changed all over them, and cut off. */
static void
check_damaged (Clip *clip, const gchar *name, guint seed)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (seed);
  g_autofree gchar *path =
      g_path_is_absolute (name) ? g_strdup (name) : test_path (name);
  g_autofree gchar *bytes = NULL;
  gsize n;

  g_assert_true (g_file_get_contents (path, &bytes, &n, NULL));
  for (gint i = 0; i < 20; i++)
    bytes[g_rand_int_range (random, 0, n)] = g_rand_int (random);
  write_file ("damaged", bytes, n / (1 + seed % 2));
  g_test_message ("%s, seed %u", name, seed);
  try_each (clip, "damaged");
}

static void
test_damaged_files (void)
{
  g_autoptr (Clip) clip = clip_new ("input-timeout=2000000000");
  g_autofree gchar *picture = golden_picture ("image.png");

  write_frames ("sound.mkv", 24, 24);
  write_sound ("sound.wav");
  for (guint seed = 0; seed < 2; seed++) {
    check_damaged (clip, picture, seed);
    check_damaged (clip, "sound.mkv", seed);
    check_damaged (clip, "sound.wav", seed);
  }
}

/* --- several at once --- */

/* A file that is named twice is two references, and the same ones. */
static void
test_twice (void)
{
  g_autoptr (Clip) once = NULL;
  g_autoptr (Clip) twice = NULL;
  GByteArray *two;

  write_frames ("a.mkv", 24, 24);
  once = clip_with ("a.mkv", NULL);
  twice = clip_with ("a.mkv", "a.mkv");
  two = twice->latents[2];
  g_assert_cmpmem (two->data, two->len / 2, once->latents[2]->data,
      once->latents[2]->len);
  g_assert_cmpmem (two->data + two->len / 2, two->len / 2,
      once->latents[2]->data, once->latents[2]->len);
}

/* An h3src with references, its frames and samples into files of that name. */
static gchar *
h3src_to (const gchar *name, const gchar *prompt, const gchar *reference)
{
  g_autofree gchar *image = golden_picture ("image.png");

  return g_strdup_printf (
      "h3src name=%s prompt=%s width=96 height=64 frames=22 steps=1 seed=1 "
      "canvas-edge=64 reference-edge=64 model-path=%s "
      "references=\"<%s/%s, %s>\" "
      "%s.video ! video/x-raw,format=RGB ! filesink location=%s/%s.rgb "
      "%s.audio ! filesink location=%s/%s.f32 ",
      name, prompt, h3_test_tiny_dir (), test_dir, reference, image, name,
      test_dir, name, name, test_dir, name);
}

static void
assert_same_files (const gchar *a, const gchar *b)
{
  g_autofree gchar *path_a = test_path (a), *path_b = test_path (b);
  g_autofree gchar *bytes_a = NULL, *bytes_b = NULL;
  gsize n_a, n_b;

  g_assert_true (g_file_get_contents (path_a, &bytes_a, &n_a, NULL));
  g_assert_true (g_file_get_contents (path_b, &bytes_b, &n_b, NULL));
  g_assert_cmpuint (n_a, >, 0);
  g_assert_cmpmem (bytes_a, n_a, bytes_b, n_b);
}

/* Two in one pipeline make what each makes alone. */
static void
test_two_at_once (void)
{
  g_autofree gchar *one = h3src_to ("one", "fox", "clip.mkv");
  g_autofree gchar *two = h3src_to ("two", "owl", "voice.wav");
  g_autofree gchar *one_of_two = h3src_to ("onetoo", "fox", "clip.mkv");
  g_autofree gchar *two_of_two = h3src_to ("twotoo", "owl", "voice.wav");

  write_frames ("clip.mkv", 24, 24);
  write_sound ("voice.wav");
  make_file ("%s", one);
  make_file ("%s", two);
  make_file ("%s %s", one_of_two, two_of_two);
  assert_same_files ("one.rgb", "onetoo.rgb");
  assert_same_files ("one.f32", "onetoo.f32");
  assert_same_files ("two.rgb", "twotoo.rgb");
  assert_same_files ("two.f32", "twotoo.f32");
}

/* A clip that is seen and spoken of at once, with no queue behind the tees: the
 * elements take what comes, whichever pad it comes on. Of sinks that preroll the
 * first would stop all, as behind any tee. */
static void
test_tee_without_queue (void)
{
  const gchar *tiny = h3_test_tiny_dir ();

  write_file ("goes-on.txt", "<Video 1> goes on", 17);
  make_file ("h3src name=h3 prompt=x width=96 height=64 frames=22 steps=1 "
             "seed=1 model-path=%s "
             "h3.video ! video/x-raw,format=RGB ! tee name=v "
             "h3.audio ! tee name=a "
             "v. ! t.video_0 v. ! h3videovaeenc model-path=%s frames=22 "
             "canvas-edge=64 ! d.ref_0 "
             "v. ! filesink async=false location=%s/shown.rgb "
             "a. ! t.audio_0 a. ! h3audiovaeenc model-path=%s frames=22 ! "
             "d.ref_audio_0 a. ! filesink async=false location=%s/heard.f32 "
             "filesrc location=%s/goes-on.txt ! text/x-raw,format=utf8 ! "
             "h3textenc name=t model-path=%s frames=22 canvas-edge=64 ! "
             "h3denoise name=d width=96 height=64 frames=22 steps=1 seed=1 "
             "model-path=%s d.video ! filesink async=false "
             "location=%s/next.latent "
             "d.audio ! filesink async=false location=%s/next-sound.latent",
      tiny, tiny, test_dir, tiny, test_dir, test_dir, tiny, tiny, test_dir,
      test_dir);
  assert_same_files ("next.latent", "next.latent"); /* there is something */
  assert_same_files ("shown.rgb", "shown.rgb");
  assert_same_files ("heard.f32", "heard.f32");
}

/* --- interrupts --- */

static gint alive;

static void
is_gone (gpointer data, GObject *object)
{
  g_atomic_int_add (&alive, -1);
}

static void
count_alive (GstBin *bin, GstBin *parent, GstElement *element, gpointer data)
{
  g_atomic_int_inc (&alive);
  g_object_weak_ref (G_OBJECT (element), is_gone, NULL);
}

/* NULL while inputs of every kind are read: at once, and nothing is left. */
static void
test_interrupts (void)
{
#ifdef __SANITIZE_ADDRESS__
  const gint n = 6;
#else
  const gint n = 20;
#endif
  g_autoptr (Clip) clip = clip_new ("");
  g_autoptr (GRand) random = g_rand_new_with_seed (7);
  g_autofree gchar *image = golden_picture ("image.png");

  write_sound ("voice.wav");
  make_file ("videotestsrc num-buffers=24 ! video/x-raw,width=96,height=64,"
             "framerate=24/1 ! queue ! mux. audiotestsrc num-buffers=40 ! "
             "queue ! mux. matroskamux name=mux ! "
             "filesink location=%s/clip.mkv",
      test_dir);
  g_signal_connect (clip->h3, "deep-element-added", G_CALLBACK (count_alive),
      NULL);
  for (gint i = 0; i < n; i++) {
    gint64 begin;

    clip_set_references (clip, "clip.mkv", image, "voice.wav", NULL);
    gst_element_set_state (clip->pipeline, GST_STATE_PLAYING);
    g_usleep (g_rand_int_range (random, 0, 100 * 1000));
    begin = g_get_monotonic_time ();
    g_assert_cmpint (gst_element_set_state (clip->pipeline, GST_STATE_NULL), ==,
        GST_STATE_CHANGE_SUCCESS);
    g_assert_cmpint (g_get_monotonic_time () - begin, <, 5 * G_USEC_PER_SEC);
    /* a thread that was just told to end may be about to drop its element */
    for (gint k = 0; k < 100 && g_atomic_int_get (&alive) > 0; k++)
      g_usleep (10 * 1000);
    g_assert_cmpint (g_atomic_int_get (&alive), ==, 0);
  }
  clip_run (clip);
}

void
add_condition_odd_tests (void)
{
  g_test_add_func ("/conditions/clips/lengths", test_lengths);
  g_test_add_func ("/conditions/clips/slow-and-fast", test_slow_and_fast);
  g_test_add_func ("/conditions/clips/cover-tag", test_tagged);
  g_test_add_func ("/conditions/clips/cover-stream", test_cover_stream);
  g_test_add_func ("/conditions/odd/random", test_random);
  g_test_add_func ("/conditions/odd/directory", test_directory);
  g_test_add_func ("/conditions/odd/damaged", test_damaged_files);
  g_test_add_func ("/conditions/clips/twice", test_twice);
  g_test_add_func ("/conditions/odd/two-at-once", test_two_at_once);
  g_test_add_func ("/conditions/odd/tee-without-queue", test_tee_without_queue);
  g_test_add_func ("/conditions/odd/interrupts", test_interrupts);
  g_test_add_func ("/conditions/odd/late-thread", test_late_thread);
}
