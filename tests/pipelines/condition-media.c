/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What files people have: each is read as what it shows and sounds like. */
#include <gst/app/gstappsrc.h>

#include "condition-clip.h"

#define WIDTH 75
#define HEIGHT 51

/* --- pictures --- */

/* A picture that is no mirror image of itself, gray where @gray. */
static guint8
level (gint x, gint y, gint channel, gboolean gray)
{
  return gray ? 3 * x + y : (x * 2 + y * (channel + 1) + 60 * channel) % 256;
}

/* Raw pixels of @bytes a channel, gray or RGB or RGBA, to a picture file.
 * @encode: what makes the file of them */
static void
write_picture (const gchar *name, const gchar *format, gint channels,
    gint bytes, gboolean gray, const gchar *encode)
{
  /* rows are padded to four bytes, as GStreamer has them */
  gint stride = GST_ROUND_UP_4 (WIDTH * channels * bytes);
  g_autofree guint8 *raw = g_malloc0 (stride * HEIGHT);
  g_autofree gchar *raw_name = g_strconcat (name, ".raw", NULL);

  for (gint y = 0; y < HEIGHT; y++)
    for (gint x = 0; x < WIDTH; x++)
      for (gint c = 0; c < channels; c++)
        for (gint b = 0; b < bytes; b++)
          raw[y * stride + (x * channels + c) * bytes + b] =
              c == 3 ? 17 * (x % 16) : level (x, y, c, gray);
  write_file (raw_name, raw, stride * HEIGHT);
  make_file ("filesrc location=%s/%s ! rawvideoparse format=%s width=%d "
             "height=%d framerate=1/1 ! %s ! filesink location=%s/%s",
      test_dir, raw_name, format, WIDTH, HEIGHT, encode, test_dir, name);
}

/* Gray, alpha and 16 bits are the colours they stand for: PNG loses none. */
static void
test_picture_formats (void)
{
  write_picture ("gray-as-rgb.png", "rgb", 3, 1, TRUE, "pngenc");
  write_picture ("gray.png", "gray8", 1, 1, TRUE, "pngenc");
  write_picture ("gray16.png", "gray16-be", 1, 2, TRUE, "pngenc");
  write_picture ("rgb.png", "rgb", 3, 1, FALSE, "pngenc");
  write_picture ("rgba.png", "rgba", 4, 1, FALSE, "pngenc");
  assert_same_clips ("first-frame", "gray-as-rgb.png", "gray.png", 0);
  /* rounding may differ */
  assert_same_clips ("first-frame", "gray-as-rgb.png", "gray16.png", 0.01);
  assert_same_clips ("first-frame", "rgb.png", "rgba.png", 0);
  assert_same_clips ("references", "rgb.png", "rgba.png", 0);
}

static void
test_jpeg (void)
{
  write_picture ("a.png", "rgb", 3, 1, TRUE, "pngenc");
  write_picture ("a.jpg", "rgb", 3, 1, TRUE,
      "videoconvert ! jpegenc quality=100");
  assert_same_clips ("first-frame", "a.png", "a.jpg", 0.1);
  assert_same_clips ("references", "a.png", "a.jpg", 0.1);
}

/* A camera held sideways: EXIF says how to turn the picture. */
static void
test_orientation (void)
{
  write_picture ("upright.png", "rgb", 3, 1, TRUE,
      "videoflip video-direction=90r ! pngenc");
  write_picture ("turned.jpg", "rgb", 3, 1, TRUE,
      "videoconvert ! jpegenc quality=100 ! "
      "taginject tags=\"image-orientation=rotate-90\" ! jifmux");
  write_picture ("flat.png", "rgb", 3, 1, TRUE, "pngenc");
  assert_same_clips ("references", "upright.png", "turned.jpg", 0.1);
  {
    g_autoptr (Clip) upright = clip_new ("");
    g_autoptr (Clip) flat = clip_new ("");

    clip_set_references (upright, "upright.png", NULL);
    clip_set_references (flat, "flat.png", NULL);
    clip_run (upright);
    clip_run (flat);
    /* the test above could fail */
    g_assert_cmpuint (upright->latents[2]->len, ==, flat->latents[2]->len);
    g_assert_cmpfloat (h3_test_rel_l2 ((gfloat *) upright->latents[2]->data,
                           (gfloat *) flat->latents[2]->data,
                           upright->latents[2]->len / sizeof (gfloat)),
        >, 0.2);
  }
}

/* --- clips --- */

/* A lossless clip: frame i shows shades[i] and lasts until ends[i], in 1/240 s;
 * @fps_n 0: only the timestamps say so. @mux: what makes a file of it */
static void
write_clip (const gchar *name, const gint *shades, const gint *ends, guint n,
    gint fps_n, gint fps_d, const gchar *mux)
{
  const gint width = 96, height = 64;
  g_autofree gchar *text = g_strdup_printf (
      "appsrc name=a format=time caps=\"video/x-raw,format=RGB,width=%d,"
      "height=%d,framerate=%d/%d\" ! %s ! filesink location=%s/%s",
      width, height, fps_n, fps_d, mux, test_dir, name);
  g_autoptr (GError) error = NULL;
  g_autoptr (GstElement) pipeline = gst_parse_launch (text, &error);
  g_autoptr (GstElement) source = NULL;
  g_autoptr (GstBus) bus = NULL;
  g_autoptr (GstMessage) message = NULL;

  g_assert_no_error (error);
  source = gst_bin_get_by_name (GST_BIN (pipeline), "a");
  bus = gst_element_get_bus (pipeline);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  for (guint i = 0; i < n; i++) {
    gsize size = width * height * 3;
    GstBuffer *buffer = gst_buffer_new_allocate (NULL, size, NULL);
    gint start = i ? ends[i - 1] : 0;

    gst_buffer_memset (buffer, 0, shades[i], size);
    /* and a mark, so that it is not all one shade */
    gst_buffer_memset (buffer, 300 * (shades[i] % 16), 255, 2000);
    GST_BUFFER_PTS (buffer) = gst_util_uint64_scale (start, GST_SECOND, 240);
    GST_BUFFER_DURATION (buffer) =
        gst_util_uint64_scale (ends[i] - start, GST_SECOND, 240);
    gst_app_src_push_buffer (GST_APP_SRC (source), buffer);
  }
  gst_app_src_end_of_stream (GST_APP_SRC (source));
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  gst_element_set_state (pipeline, GST_STATE_NULL);
}

void
write_steady (const gchar *name, guint n, gint hold, gint every, gint fps_n,
    gint fps_d, const gchar *mux)
{
  g_autofree gint *shades = g_new (gint, n);
  g_autofree gint *ends = g_new (gint, n);

  for (guint i = 0; i < n; i++) {
    shades[i] = 5 * (i / every) + 20;
    ends[i] = hold * (i + 1);
  }
  write_clip (name, shades, ends, n, fps_n, fps_d, mux);
}

static void
write_24 (void)
{
  write_steady ("24.mkv", 30, 10, 1, 24, 1, "matroskamux");
}

/* Every picture twice at 48 fps is the clip at 24. */
static void
test_rates (void)
{
  write_24 ();
  write_steady ("48.mkv", 60, 5, 2, 48, 1, "matroskamux");
  assert_same_clips ("references", "24.mkv", "48.mkv", 0);
}

/* Of 23.976 fps every frame is used once, at 60 fps two in five. */
static void
test_odd_rates (void)
{
  write_24 ();
  write_steady ("film.mkv", 30, 10, 1, 24000, 1001, "matroskamux");
  assert_same_clips ("references", "24.mkv", "film.mkv", 0);
  write_steady ("60.mkv", 75, 4, 1, 60, 1, "matroskamux");
  {
    gint shades[30], ends[30];

    /* which of the 60 fps frames is shown last in a slot: frame i takes the
     * slots from floor (0.4 i + 0.5) on */
    for (gint slot = 0; slot < 30; slot++) {
      gint frame = 0;

      for (gint i = 0; i < 75; i++)
        if ((4 * i + 5) / 10 <= slot)
          frame = i;
      shades[slot] = 5 * frame + 20;
      ends[slot] = 10 * (slot + 1);
    }
    write_clip ("60-as-24.mkv", shades, ends, 30, 24, 1, "matroskamux");
  }
  assert_same_clips ("references", "60.mkv", "60-as-24.mkv", 0);
}

#define LOSSLESS_MP4                                                           \
  "videoconvert ! video/x-raw,format=Y444 ! "                                  \
  "x264enc pass=quant quantizer=0 bframes=0 ! h264parse ! mp4mux"

/* Frames of unequal length count for as long as they last, whether the file says
 * that there is no rate or gives a mean one. */
static void
check_variable (const gchar *suffix, const gchar *mux, gint fps)
{
  static const gint lasts[] = { 1, 4, 1, 1, 6, 2, 1, 5, 1, 8 };
  gint shades[10], ends[10], steady_shades[30], steady_ends[30], n = 0;
  g_autofree gchar *variable = g_strconcat ("variable", suffix, NULL);
  g_autofree gchar *steady = g_strconcat ("steady", suffix, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (lasts); i++) {
    shades[i] = 23 * i + 20;
    for (gint k = 0; k < lasts[i]; k++, n++) {
      steady_shades[n] = shades[i];
      steady_ends[n] = 10 * (n + 1);
    }
    ends[i] = 10 * n;
  }
  g_assert_cmpint (n, ==, 30);
  write_clip (variable, shades, ends, 10, fps, 1, mux);
  write_clip (steady, steady_shades, steady_ends, 30, 24, 1, mux);
  assert_same_clips ("references", variable, steady, 0);
}

static void
test_variable_rate (void)
{
  check_variable (".mkv", "matroskamux", 0);
  check_variable (".mp4", LOSSLESS_MP4, 24);
}

/* Longer than the clip to be made: what is beyond does not matter. */
static void
write_long (void)
{
  write_steady ("long.mkv", 200, 10, 1, 24, 1, "matroskamux");
}

static void
test_long (void)
{
  write_24 ();
  write_long ();
  assert_same_clips ("references", "24.mkv", "long.mkv", 0);
}

/* A clip as keyframe gives its first frame. */
static void
test_clip_as_keyframe (void)
{
  write_24 ();
  write_long ();
  write_steady ("one.png", 1, 10, 1, 24, 1, "pngenc");
  assert_same_clips ("first-frame", "24.mkv", "one.png", 0);
  assert_same_clips ("last-frame", "long.mkv", "one.png", 0);
}

/* --- sounds --- */

static void
check_sound (const gchar *name)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *image = golden_picture ("image.png");

  clip_set_references (clip, name, image, NULL);
  clip_run (clip);
}

static void
test_sounds (void)
{
  static const gint rates[] = { 8000, 11025, 22050, 44100, 48000, 96000,
    192000 };

  for (guint i = 0; i < G_N_ELEMENTS (rates); i++) {
    make_file ("audiotestsrc samplesperbuffer=%d num-buffers=1 ! "
               "audio/x-raw,rate=%d,channels=%d ! wavenc ! "
               "filesink location=%s/sound.wav",
        rates[i], rates[i], i % 2 + 1, test_dir);
    check_sound ("sound.wav");
  }
  make_file ("audiotestsrc samplesperbuffer=48000 num-buffers=1 ! "
             "audio/x-raw,rate=48000,channels=6,channel-mask=(bitmask)0x3f ! "
             "wavenc ! filesink location=%s/surround.wav",
      test_dir);
  check_sound ("surround.wav");
}

/* A clip with its sound, as cameras write it, and as part of many. */
static void
test_mp4 (void)
{
  g_autoptr (Clip) clip = clip_new ("prompt=\"<Video 1> and <Picture 1>\"");
  g_autofree gchar *image = golden_picture ("image.png");

  make_file ("videotestsrc num-buffers=45 pattern=ball ! "
             "video/x-raw,width=322,height=182,framerate=30/1 ! x264enc ! "
             "h264parse ! mux. audiotestsrc num-buffers=66 ! "
             "audio/x-raw,rate=44100,channels=2 ! avenc_aac ! aacparse ! mux. "
             "mp4mux name=mux ! filesink location=%s/camera.mp4",
      test_dir);
  clip_set_references (clip, "camera.mp4", image, "camera.mp4", NULL);
  clip_run (clip);
  gst_element_set_state (clip->pipeline, GST_STATE_READY);
  clip_set_references (clip, image, "camera.mp4", NULL);
  clip_run (clip);
}

static void
test_nine_pictures (void)
{
  g_autoptr (Clip) clip = clip_new ("");
  g_autofree gchar *i = golden_picture ("image.png");

  clip_set_references (clip, i, i, i, i, i, i, i, i, i, NULL);
  clip_run (clip);
}

void
add_condition_media_tests (void)
{
  g_test_add_func ("/conditions/pictures/formats", test_picture_formats);
  g_test_add_func ("/conditions/pictures/jpeg", test_jpeg);
  g_test_add_func ("/conditions/pictures/orientation", test_orientation);
  g_test_add_func ("/conditions/pictures/nine", test_nine_pictures);
  g_test_add_func ("/conditions/clips/rates", test_rates);
  g_test_add_func ("/conditions/clips/odd-rates", test_odd_rates);
  g_test_add_func ("/conditions/clips/variable-rate", test_variable_rate);
  g_test_add_func ("/conditions/clips/long", test_long);
  g_test_add_func ("/conditions/clips/as-keyframe", test_clip_as_keyframe);
  g_test_add_func ("/conditions/clips/mp4", test_mp4);
  g_test_add_func ("/conditions/sounds", test_sounds);
}
