/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* packing.md 2: its tables, and what it refuses. */
#include "test-denoise.h"

#include "model/denoise/geometry.h"

#define SECOND G_GUINT64_CONSTANT (1000000000)

static void
test_lengths (void)
{
  /* aligned frames, latent frames, audio latents: the whole table */
  static const gint table[][3] = {
    { 5, 2, 8 },
    { 22, 7, 37 },
    { 39, 12, 65 },
    { 56, 17, 93 },
    { 73, 22, 122 },
    { 90, 27, 150 },
    { 107, 32, 178 },
    { 124, 37, 207 },
    { 141, 42, 235 },
    { 158, 47, 263 },
    { 175, 52, 292 },
    { 192, 57, 320 },
    { 209, 62, 348 },
    { 226, 67, 377 },
    { 243, 72, 405 },
    { 260, 77, 433 },
    { 277, 82, 462 },
    { 294, 87, 490 },
    { 311, 92, 518 },
    { 328, 97, 547 },
    { 345, 102, 575 },
    { 362, 107, 603 },
  };

  for (guint k = 0; k < G_N_ELEMENTS (table); k++) {
    gint frames = table[k][0];

    g_assert_cmpint (h3_align_frames (frames), ==, frames);
    g_assert_cmpint (h3_align_frames (frames - 16), ==, frames);
    g_assert_cmpint (h3_align_frames (frames + 1), ==, frames + 17);
    g_assert_cmpint (h3_latent_frames (frames), ==, table[k][1]);
    g_assert_cmpint (h3_frames_of_latent (table[k][1]), ==, frames);
    g_assert_cmpint (h3_audio_latents (frames), ==, table[k][2]);
  }
}

static void
test_requested_lengths (void)
{
  static const gint frames[][2] = { { 1, 5 }, { 4, 5 }, { 5, 5 }, { 6, 22 },
    { 22, 22 }, { 96, 107 }, { 120, 124 }, { 124, 124 }, { 125, 141 } };
  static const gint seconds[][2] = { { 5, 124 }, { 6, 158 }, { 10, 243 },
    { 15, 362 } };

  for (guint i = 0; i < G_N_ELEMENTS (frames); i++)
    g_assert_cmpint (h3_align_frames (frames[i][0]), ==, frames[i][1]);
  for (guint i = 0; i < G_N_ELEMENTS (seconds); i++)
    g_assert_cmpint (h3_align_frames (
                         h3_frames_of_duration (seconds[i][0] * SECOND)),
        ==, seconds[i][1]);
}

static void
test_durations (void)
{
  g_assert_cmpint (h3_frames_of_duration (0), ==, 0);
  g_assert_cmpint (h3_frames_of_duration (SECOND), ==, 24);
  /* 1/16 s is 1.5 frames and 5/48 s 2.5: ties go to the even count */
  g_assert_cmpint (h3_frames_of_duration (SECOND / 16), ==, 2);
  g_assert_cmpint (h3_frames_of_duration (SECOND * 3 / 16), ==, 4);
  g_assert_cmpint (h3_frames_of_duration (SECOND * 5 / 16), ==, 8);
  g_assert_cmpint (h3_frames_of_duration (SECOND / 16 - 1), ==, 1);
  /* no overflow, whatever comes */
  g_assert_cmpint (h3_frames_of_duration (G_MAXUINT64), >, 1000000);
  g_assert_cmpint (h3_align_frames (G_MAXINT), >, 1000000);
}

static void
check_canvas (gint width, gint height, const gchar *first, const gchar *second)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (h3_check_canvas (width, height, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, first, second);
}

static void
test_canvas (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (h3_check_canvas (96, 64, &error));
  g_assert_no_error (error);
  g_assert_true (h3_check_canvas (1344, 768, &error));
  g_assert_no_error (error);

  check_canvas (100, 64, "width 100", "nearest: 96 or 128");
  check_canvas (96, 65, "height 65", "nearest: 64 or 96");
  check_canvas (33, 95, "width 33 (nearest: 32 or 64)",
      "height 95 (nearest: 64 or 96)");
  check_canvas (0, 64, "width 0", "nearest: 32");
  check_canvas (96, -32, "height -32", "nearest: 32");
  check_canvas (16, 64, "width 16", "nearest: 32");
  check_canvas (G_MAXINT, 64, "width", "largest");
  check_canvas (G_MININT, G_MININT, "width", "height");
}

static void
test_geometry (void)
{
  g_autoptr (GError) error = NULL;
  H3Geometry g;

  h3_geometry_init (&g, 320, 192, 20, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g.frames, ==, 22);
  g_assert_cmpint (g.latent_t, ==, 7);
  g_assert_cmpint (g.latent_h, ==, 12);
  g_assert_cmpint (g.latent_w, ==, 20);
  g_assert_cmpint (g.patch_h, ==, 6);
  g_assert_cmpint (g.patch_w, ==, 10);
  g_assert_cmpint (g.video_rows, ==, 420);
  g_assert_cmpint (g.audio_t, ==, 37);
  g_assert_cmpint (g.audio_rows, ==, 74);

  h3_geometry_init (&g, 1344, 768, 124, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g.video_rows, ==, 37296);
  g_assert_cmpint (g.audio_rows, ==, 414);
}

static void
test_bad_geometry (void)
{
  H3Geometry g;
  GError *error = NULL;

  g_assert_false (h3_geometry_init (&g, 320, 190, 22, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "192");
  g_clear_error (&error);
  g_assert_false (h3_geometry_init (&g, 320, 192, 0, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "frames");
  g_clear_error (&error);
  g_assert_false (h3_geometry_init (&g, 320, 192, G_MININT, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "frames");
  g_clear_error (&error);
  g_assert_false (h3_geometry_init (&g, 65536, 65536, 1 << 24, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "rows");
  g_clear_error (&error);
}

void
h3_test_add_geometry (void)
{
  g_test_add_func ("/geometry/lengths", test_lengths);
  g_test_add_func ("/geometry/requested-lengths", test_requested_lengths);
  g_test_add_func ("/geometry/durations", test_durations);
  g_test_add_func ("/geometry/canvas", test_canvas);
  g_test_add_func ("/geometry/sizes", test_geometry);
  g_test_add_func ("/geometry/bad", test_bad_geometry);
}
