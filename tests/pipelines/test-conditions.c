/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3src with keyframes and references: the golden requests from files to final
 * latents, clip after clip, a clip made of a clip, and being stopped. */
#include "condition-clip.h"

/* --- golden requests --- */

static void
assert_golden (Clip *clip, const gchar *name)
{
  static const gchar *const tensors[] = { "final_latents",
    "final_audio_latents" };
  g_autofree gchar *file = g_strdup_printf ("request_%s.safetensors", name);

  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++) {
    gsize n;
    g_autofree gfloat *want = h3_test_golden (file, tensors[i], &n);

    g_assert_cmpuint (clip->latents[i]->len, ==, n * sizeof (gfloat));
    h3_test_assert_close ((const gfloat *) clip->latents[i]->data, want, n,
        H3_TEST_LATENTS);
  }
}

#define DRAGON                                                                 \
  "prompt=\"A brass-and-paper dragon flies above a rain-washed old city at "   \
  "blue hour.\" steps=3 "

typedef struct {
  const gchar *name, *settings, *first, *last, *reference;
} Request;

static const Request requests[] = {
  { "fl2va_first", DRAGON "seed=1", "first.png", NULL, NULL },
  { "fl2va_last", DRAGON "seed=2", NULL, "last.png", NULL },
  { "fl2va_both", DRAGON "seed=3", "first.png", "last.png", NULL },
  { "ref2va_image", "prompt=\"Use the cat from <Picture 1>.\" steps=2 seed=4",
      NULL, NULL, "image.png" },
};

static void
set_request (Clip *clip, const Request *request)
{
  g_autofree gchar *first =
      request->first ? golden_picture (request->first) : NULL;
  g_autofree gchar *last =
      request->last ? golden_picture (request->last) : NULL;
  g_autofree gchar *reference =
      request->reference ? golden_picture (request->reference) : NULL;

  clip_set_file (clip, "first-frame", first);
  clip_set_file (clip, "last-frame", last);
  clip_set_references (clip, reference, NULL);
}

static void
test_golden (gconstpointer data)
{
  const Request *request = data;
  g_autoptr (Clip) clip = clip_new (request->settings);

  set_request (clip, request);
  clip_run (clip);
  assert_golden (clip, request->name);
}

/* The stored frames and sounds as lossless files. */
static void
write_golden_sound (const gchar *name, const gchar *tensor)
{
  gsize n;
  g_autofree gfloat *planar = h3_test_golden ("media.safetensors", tensor, &n);
  g_autofree gfloat *pairs = g_new (gfloat, n);

  for (gsize i = 0; i < n / 2; i++) {
    pairs[2 * i] = planar[i];
    pairs[2 * i + 1] = planar[n / 2 + i];
  }
  write_file (name, pairs, n * sizeof (gfloat));
}

#define RAW_SOUND                                                              \
  "rawaudioparse use-sink-caps=false pcm-format=f32le sample-rate=32000 "      \
  "num-channels=2"

static void
write_golden_media (void)
{
  gsize n;
  g_autofree gint32 *frames =
      h3_test_golden_ints ("media.safetensors", "video_frames", &n);
  g_autofree guint8 *pixels = g_new (guint8, n);

  for (gsize i = 0; i < n; i++)
    pixels[i] = frames[i];
  write_file ("golden.rgb", pixels, n);
  write_golden_sound ("golden.f32", "video_audio");
  write_golden_sound ("voice.f32", "audio");
  make_file ("filesrc location=%s/voice.f32 ! " RAW_SOUND
             " ! wavenc ! filesink location=%s/voice.wav",
      test_dir, test_dir);
  make_file ("filesrc location=%s/golden.rgb ! rawvideoparse format=rgb "
             "width=96 height=64 framerate=24/1 ! queue ! mux. "
             "filesrc location=%s/golden.f32 ! " RAW_SOUND
             " ! queue ! mux. matroskamux name=mux ! "
             "filesink location=%s/golden.mkv",
      test_dir, test_dir, test_dir);
}

static void
test_golden_mixed (void)
{
  g_autoptr (Clip) clip =
      clip_new ("prompt=\"<Picture 1> speaks like <Audio 1>, moving like "
                "<Video 1>.\" steps=2 seed=5 frames=56");
  g_autofree gchar *image = golden_picture ("image.png");

  write_golden_media ();
  clip_set_references (clip, "voice.wav", "golden.mkv", image, NULL);
  clip_run (clip);
  assert_golden (clip, "ref2va_mixed");
}

static gint
partition_of (Clip *clip)
{
  gint partition;

  gst_child_proxy_get (GST_CHILD_PROXY (clip->h3), "denoise::partition",
      &partition, NULL);
  return partition;
}

/* One element, clip after clip, with other files each time: READY is enough
 * between them, also where the other transformer is needed. */
static void
test_one_after_another (void)
{
  static const gint order[] = { 0, 3, 1, 3, 2, 0 };
  g_autoptr (Clip) clip = clip_new (requests[0].settings);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (order); i++) {
    const Request *request = &requests[order[i]];
    g_autofree gchar *description =
        g_strdup_printf ("h3src %s", request->settings);
    g_autoptr (GstElement) other = gst_parse_launch (description, &error);
    g_autofree gchar *prompt = NULL;
    gint64 seed;
    guint steps;

    g_assert_no_error (error);
    g_object_get (other, "prompt", &prompt, "seed", &seed, "steps", &steps,
        NULL);
    g_object_set (clip->h3, "prompt", prompt, "seed", seed, "steps", steps,
        NULL);
    set_request (clip, request);
    clip_run (clip);
    assert_golden (clip, request->name);
    gst_element_set_state (clip->pipeline,
        i % 3 == 2 ? GST_STATE_NULL : GST_STATE_READY);
  }
  gst_element_set_state (clip->pipeline, GST_STATE_NULL);
  g_assert_cmpint (partition_of (clip), ==, 0); /* auto, as it was left */
}

/* Another partition that was asked for stays. */
static void
test_partition_stays (void)
{
  g_autoptr (Clip) clip = clip_new ("partition=fl2va");

  set_request (clip, &requests[3]);
  g_assert_cmpint (partition_of (clip), ==, 1);
  {
    g_autoptr (GError) error = clip_try (clip);
    g_assert_error (error, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS);
  }
  gst_element_set_state (clip->pipeline, GST_STATE_NULL);
  g_assert_cmpint (partition_of (clip), ==, 1);
  g_object_set (clip->h3, "partition", 2, NULL);
  clip_run (clip);
  gst_element_set_state (clip->pipeline, GST_STATE_NULL);
  g_assert_cmpint (partition_of (clip), ==, 2);
}

/* What is set is what can be asked for. */
static void
test_properties (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GstElement) h3 =
      gst_parse_launch ("h3src first-frame=a.png last-frame=\"b c.png\" "
                        "references=\"<file:///x.mp4, \\\"y z.wav\\\">\" "
                        "condition-encode=mean",
          &error);
  g_autofree gchar *first = NULL, *last = NULL;
  GValue references = G_VALUE_INIT;
  gint encode;

  g_assert_no_error (error);
  g_object_get (h3, "first-frame", &first, "last-frame", &last,
      "condition-encode", &encode, NULL);
  g_assert_cmpstr (first, ==, "a.png");
  g_assert_cmpstr (last, ==, "b c.png");
  g_assert_cmpint (encode, ==, 1);
  g_value_init (&references, GST_TYPE_ARRAY);
  g_object_get_property (G_OBJECT (h3), "references", &references);
  g_assert_cmpuint (gst_value_array_get_size (&references), ==, 2);
  g_assert_cmpstr (g_value_get_string (
                       gst_value_array_get_value (&references, 0)),
      ==, "file:///x.mp4");
  g_assert_cmpstr (g_value_get_string (
                       gst_value_array_get_value (&references, 1)),
      ==, "y z.wav");
  g_value_unset (&references);
}

/* --- a clip made of a clip --- */

#define SMALL "width=96 height=64 frames=22 steps=1 seed=1 model-path=%s "

static void
make_clip (void)
{
  make_file ("h3src name=h3 prompt=x " SMALL
             "h3.video ! video/x-raw,format=RGB ! queue ! mux. "
             "h3.audio ! queue ! mux. matroskamux name=mux ! "
             "filesink location=%s/made.mkv",
      h3_test_tiny_dir (), test_dir);
}

/* Over a file that loses nothing. */
static void
test_from_file (void)
{
  g_autoptr (Clip) clip = clip_new ("prompt=\"<Video 1> goes on\"");

  make_clip ();
  clip_set_references (clip, "made.mkv", NULL);
  clip_run (clip);
}

/* And in one pipeline, from decoder to encoder: the same clip. */
static void
test_from_pipeline (void)
{
  g_autoptr (Clip) clip = clip_new ("prompt=\"<Video 1> goes on\"");
  const gchar *tiny = h3_test_tiny_dir ();
  g_autofree gchar *path = test_path ("second.latent");
  g_autofree gchar *sound_path = test_path ("second-sound.latent");
  g_autofree gchar *video = NULL, *audio = NULL;
  gsize n, n_audio;

  make_clip ();
  make_file ("h3src name=h3 prompt=x " SMALL
             "h3.video ! video/x-raw,format=RGB ! tee name=v "
             "h3.audio ! tee name=a "
             "v. ! queue ! t.video_0 a. ! queue ! t.audio_0 "
             "v. ! queue ! h3videovaeenc model-path=%s frames=22 "
             "canvas-edge=64 ! d.ref_0 "
             "a. ! queue ! h3audiovaeenc model-path=%s frames=22 ! "
             "d.ref_audio_0 "
             "filesrc location=%s/goes-on.txt ! text/x-raw,format=utf8 ! "
             "h3textenc name=t model-path=%s frames=22 canvas-edge=64 ! "
             "h3denoise name=d width=96 height=64 frames=22 steps=1 seed=1 "
             "model-path=%s d.video ! filesink location=%s "
             "d.audio ! filesink location=%s",
      tiny, tiny, tiny, test_dir, tiny, tiny, path, sound_path);
  clip_set_references (clip, "made.mkv", NULL);
  clip_run (clip);
  g_assert_true (g_file_get_contents (path, &video, &n, NULL));
  g_assert_true (g_file_get_contents (sound_path, &audio, &n_audio, NULL));
  g_assert_cmpmem (video, n, clip->latents[0]->data, clip->latents[0]->len);
  g_assert_cmpmem (audio, n_audio, clip->latents[1]->data,
      clip->latents[1]->len);
}

int
main (int argc, char **argv)
{
  if (h3_test_skip_program ())
    return 0;
  test_begin (&argc, &argv);
  for (guint i = 0; i < G_N_ELEMENTS (requests); i++) {
    g_autofree gchar *path =
        g_strconcat ("/conditions/golden/", requests[i].name, NULL);
    g_test_add_data_func (path, &requests[i], test_golden);
  }
  g_test_add_func ("/conditions/golden/ref2va_mixed", test_golden_mixed);
  g_test_add_func ("/conditions/one-after-another", test_one_after_another);
  g_test_add_func ("/conditions/partition-stays", test_partition_stays);
  g_test_add_func ("/conditions/properties", test_properties);
  write_file ("goes-on.txt", "<Video 1> goes on", 17);
  g_test_add_func ("/conditions/from-file", test_from_file);
  g_test_add_func ("/conditions/from-pipeline", test_from_pipeline);
  add_condition_media_tests ();
  add_condition_error_tests ();
  add_condition_wait_tests ();
  add_condition_odd_tests ();
  add_condition_input_tests ();
  return test_end ();
}
