/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sizes of text-encoder.md 4.2, and which of a clip's frames are read. */
#include "model/text/text-condition.h"
#include "tests/text/text-tests.h"
#include "tests/tools/h3-test.h"

static void
test_pictures (void)
{
  static const gint cases[][4] = {
    /* canvas, what is read */
    { 1344, 768, 1344, 768 },
    { 768, 1344, 768, 1344 },
    { 2016, 512, 2016, 512 },
    { 320, 192, 352, 224 }, /* below 65536 pixels */
    { 96, 64, 320, 224 },
    { 256, 256, 256, 256 },
    { 8192, 2048, 8192, 2048 }, /* exactly 16777216 */
    { 8192, 2080, 8128, 2048 },
    { 3648, 2048, 3648, 2048 },
    { 272, 240, 256, 256 }, /* 8.5 and 7.5: ties to even */
    { 304, 336, 320, 320 },
    { 32, 6400, 32, 6400 },
  };
  H3VisionSize size;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_assert_true (
        h3_vision_picture_size (&size, cases[i][0], cases[i][1], &error));
    g_assert_no_error (error);
    g_test_message ("%d x %d: %d x %d", cases[i][0], cases[i][1], size.width,
        size.height);
    g_assert_cmpint (size.width, ==, cases[i][2]);
    g_assert_cmpint (size.height, ==, cases[i][3]);
    g_assert_cmpint (size.blocks, ==, 1);
    g_assert_cmpint (size.grid_w, ==, cases[i][2] / 16);
    g_assert_cmpint (size.grid_h, ==, cases[i][3] / 16);
    g_assert_cmpint (size.tokens, ==, cases[i][2] / 32 * (cases[i][3] / 32));
  }
}

static void
test_clips (void)
{
  static const gint cases[][6] = {
    /* frames, canvas, tokens of a block, size */
    { 13, 1344, 768, 1008, 1344, 768 }, { 300, 1344, 768, 1008, 1344, 768 },
    { 301, 1344, 768, 920, 1280, 736 }, { 312, 1344, 768, 920, 1280, 736 },
    { 328, 1344, 768, 858, 1248, 704 }, { 345, 1344, 768, 836, 1216, 704 },
    { 362, 1344, 768, 777, 1184, 672 }, { 362, 1024, 768, 768, 1024, 768 },
    { 30, 96, 64, 6, 96, 64 }, { 13, 16, 32, 2, 32, 64 }, /* a side below 32 */
    { 13, 32, 32, 4, 64, 64 }, /* below 4096 pixels in all */
  };
  H3VisionSize size;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const gint samples = (cases[i][0] + 11) / 12;

    g_assert_true (
        h3_vision_clip_size (&size, samples, cases[i][1], cases[i][2], &error));
    g_assert_no_error (error);
    g_test_message ("%d frames of %d x %d: %d x %d", cases[i][0], cases[i][1],
        cases[i][2], size.width, size.height);
    g_assert_cmpint (size.width, ==, cases[i][4]);
    g_assert_cmpint (size.height, ==, cases[i][5]);
    g_assert_cmpint (size.tokens, ==, cases[i][3]);
    g_assert_cmpint (size.blocks, ==, (samples + 1) / 2);
  }
}

static void
test_bad_sizes (void)
{
  static const struct {
    gint width, height;
    const gchar *says;
  } cases[] = {
    { 0, 64, "0 x 64" },
    { 64, -1, "64 x -1" },
    { 65537, 1024, "65537 x 1024" },
    { 6464, 32, "aspect ratio of at most 200" },
    { 32, 6464, "32 x 6464" },
    { G_MAXINT, G_MAXINT, "65536" },
  };
  H3VisionSize size;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_false (h3_vision_picture_size (&size, cases[i].width,
        cases[i].height, &error));
    h3_test_assert_h3_error (error, H3_ERROR_FORMAT, cases[i].says);
    g_clear_error (&error);
    g_assert_false (h3_vision_clip_size (&size, 2, cases[i].width,
        cases[i].height, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_FORMAT);
  }
}

/* --- clips --- */

#define SIDE 32

static H3TextCondition *
new_clip (gint most_frames)
{
  g_autoptr (GError) error = NULL;
  H3TextCondition *clip =
      h3_text_condition_new_clip (SIDE, SIDE, most_frames, FALSE, &error);

  g_assert_no_error (error);
  return clip;
}

/* A frame that is all @value and stays until slot @until. */
static void
push (H3TextCondition *clip, guint8 value, gint64 until)
{
  guint8 frame[SIDE * SIDE * 3];
  g_autoptr (GError) error = NULL;

  memset (frame, value, sizeof frame);
  g_assert_true (h3_text_condition_push (clip, until, frame, SIDE * 3, SIDE,
      SIDE, &error));
  g_assert_no_error (error);
}

static void
assert_samples (const H3TextCondition *clip, const guint8 *values, guint n)
{
  g_assert_cmpuint (clip->n_images, ==, n);
  for (guint i = 0; i < n; i++) {
    g_assert_cmpint (clip->images[i].pixels[0], ==, values[i]);
    g_assert_cmpint (clip->images[i].width, ==, SIDE);
  }
}

/* Frames 0, 12, 24 ... of the 24 fps grid, whatever the rate. */
static void
test_sampling (void)
{
  static const struct {
    gint n, fps_n, fps_d, most, frames;
    guint8 samples[5];
    guint n_samples;
  } cases[] = {
    { 30, 24, 1, 100, 30, { 0, 12, 24 }, 3 },
    { 30, 24, 1, 24, 24, { 0, 12 }, 2 },
    { 30, 24, 1, 25, 25, { 0, 12, 24 }, 3 },
    /* at 60 fps frames 0 and 1 begin in slot 0, which is the last one's */
    { 90, 60, 1, 100, 36, { 1, 31, 61 }, 3 },
    { 15, 12, 1, 100, 30, { 0, 6, 12 }, 3 },
    /* each frame stands for a second */
    { 2, 1, 1, 100, 48, { 0, 0, 1, 1 }, 4 },
    { 31, 24000, 1001, 100, 31, { 0, 12, 24 }, 3 },
    { 50, 50, 1, 100, 24, { 1, 26 }, 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (H3TextCondition) clip = new_clip (cases[i].most);
    g_autoptr (GError) error = NULL;

    g_test_message ("case %u", i);
    for (gint k = 0; k < cases[i].n; k++)
      push (clip, k,
          h3_clip_slot_of_frame (k + 1, cases[i].fps_n, cases[i].fps_d));
    g_assert_true (h3_text_condition_finish (clip, &error));
    g_assert_no_error (error);
    g_assert_cmpint (clip->frames, ==, cases[i].frames);
    assert_samples (clip, cases[i].samples, cases[i].n_samples);
    g_assert_true (
        h3_text_condition_is_full (clip) == (cases[i].frames == cases[i].most));
    g_assert_cmpint (h3_text_condition_tokens (clip), ==,
        clip->size.blocks * clip->size.tokens);
  }
}

/* Times that go back, and frames of no length, add nothing. */
static void
test_odd_times (void)
{
  static const guint8 samples[] = { 1, 5 };
  g_autoptr (H3TextCondition) clip = new_clip (100);
  g_autoptr (GError) error = NULL;

  push (clip, 9, 0);
  push (clip, 1, 5);
  push (clip, 2, 3);
  push (clip, 3, 5);
  push (clip, 4, G_MININT64);
  push (clip, 4, 12);
  push (clip, 5, 13);
  g_assert_true (h3_text_condition_finish (clip, &error));
  assert_samples (clip, samples, 2);
  push (clip, 6, G_MAXINT64);
  g_assert_cmpint (clip->frames, ==, 100);
}

static void
test_bad_clips (void)
{
  static const gint bad[][3] = { { 0, 32, 10 }, { 32, -5, 10 }, { 32, 32, 0 },
    { 65537, 32, 10 } };
  guint8 pixel[3] = { 0 };
  g_autoptr (H3TextCondition) clip = new_clip (362);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) refused = NULL;

    g_assert_null (h3_text_condition_new_clip (bad[i][0], bad[i][1], bad[i][2],
        FALSE, &refused));
    h3_test_assert_h3_error (refused, H3_ERROR_FORMAT, "reference clip");
  }

  g_assert_false (h3_text_condition_finish (clip, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "0 frames at 24 fps",
      "at least 13");
  g_clear_error (&error);
  push (clip, 0, 12);
  g_assert_false (h3_text_condition_finish (clip, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "12 frames at 24 fps");
  g_clear_error (&error);
  g_assert_false (h3_text_condition_push (clip, 13, pixel, 3, 0, 1, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "width of 0");
}

static void
test_bad_picture (void)
{
  H3Image image = { 6464, 32, g_malloc0 (6464 * 32 * 3) };
  g_autoptr (GError) error = NULL;

  g_assert_null (
      h3_text_condition_new_picture (H3_CONDITION_IMAGE, &image, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "6464 x 32");
  g_assert_null (image.pixels);
}

void
add_vision_size_tests (void)
{
  g_test_add_func ("/text/vision-size/pictures", test_pictures);
  g_test_add_func ("/text/vision-size/clips", test_clips);
  g_test_add_func ("/text/vision-size/bad", test_bad_sizes);
  g_test_add_func ("/text/condition/sampling", test_sampling);
  g_test_add_func ("/text/condition/odd-times", test_odd_times);
  g_test_add_func ("/text/condition/bad-clips", test_bad_clips);
  g_test_add_func ("/text/condition/bad-picture", test_bad_picture);
}
