/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tiles and windows against the tables of video-vae.md 8.1, 9.2 and 14. */
#include "model/video/tiling.h"
#include "test-video.h"

typedef struct {
  gint length, n;
  gint start[7], overlap[6];
} TilingRow;

static const TilingRow tiling_table[] = {
  { 16, 1, { 0 }, { 0 } },
  { 240, 1, { 0 }, { 0 } },
  { 256, 1, { 0 }, { 0 } },
  { 320, 2, { 0, 64 }, { 192 } },
  { 448, 2, { 0, 192 }, { 64 } },
  { 480, 3, { 0, 112, 224 }, { 144, 144 } },
  { 512, 3, { 0, 128, 256 }, { 128, 128 } },
  { 544, 3, { 0, 144, 288 }, { 112, 112 } },
  { 640, 3, { 0, 192, 384 }, { 64, 64 } },
  { 704, 4, { 0, 144, 288, 448 }, { 112, 112, 96 } },
  { 768, 4, { 0, 160, 336, 512 }, { 96, 80, 80 } },
  { 864, 5, { 0, 144, 288, 448, 608 }, { 112, 112, 96, 96 } },
  { 960, 5, { 0, 176, 352, 528, 704 }, { 80, 80, 80, 80 } },
  { 1280, 7, { 0, 160, 320, 496, 672, 848, 1024 }, { 96, 96, 80, 80, 80, 80 } },
  { 1344, 7, { 0, 176, 352, 528, 704, 896, 1088 }, { 80, 80, 80, 80, 64, 64 } },
};

static void
test_table (void)
{
  for (guint r = 0; r < G_N_ELEMENTS (tiling_table); r++) {
    const TilingRow *row = &tiling_table[r];
    g_autoptr (GError) error = NULL;
    H3TileAxis axis;

    h3_tile_axis_init (&axis, row->length, 256, 64, 16, &error);
    g_assert_no_error (error);
    g_assert_cmpint (axis.length, ==, row->length);
    g_assert_cmpint (axis.tile, ==, MIN (row->length, 256));
    g_assert_cmpint (axis.n, ==, row->n);
    for (gint k = 0; k < row->n; k++)
      g_assert_cmpint (axis.start[k], ==, row->start[k]);
    for (gint k = 0; k < row->n - 1; k++)
      g_assert_cmpint (axis.overlap[k], ==, row->overlap[k]);
  }
}

/* The small axes of the specification's model A (section 15). */
static void
test_small_tiles (void)
{
  H3TileAxis axis;

  g_assert_true (h3_tile_axis_init (&axis, 40, 32, 8, 4, NULL));
  g_assert_cmpint (axis.n, ==, 2);
  g_assert_cmpint (axis.start[1], ==, 8);
  g_assert_cmpint (axis.overlap[0], ==, 24);
  g_assert_true (h3_tile_axis_init (&axis, 72, 32, 8, 4, NULL));
  g_assert_cmpint (axis.n, ==, 3);
  g_assert_cmpint (axis.start[1], ==, 20);
  g_assert_cmpint (axis.start[2], ==, 40);
  g_assert_cmpint (axis.overlap[0], ==, 12);
  g_assert_cmpint (axis.overlap[1], ==, 12);
}

static void
assert_covers (const H3TileAxis *axis, gint length)
{
  gint least = G_MAXINT, most = 0;

  g_assert_cmpint (axis->start[0], ==, 0);
  g_assert_cmpint (axis->start[axis->n - 1] + axis->tile, ==, length);
  for (gint k = 0; k < axis->n - 1; k++) {
    gint end = axis->start[k] + axis->tile;

    g_assert_cmpint (axis->overlap[k], >=, 64);
    g_assert_cmpint (axis->overlap[k], <, axis->tile);
    g_assert_cmpint (axis->start[k + 1] % 16, ==, 0);
    g_assert_cmpint (end - axis->start[k + 1], ==, axis->overlap[k]);
    least = MIN (least, axis->overlap[k]);
    most = MAX (most, axis->overlap[k]);
    if (k > 0)
      g_assert_cmpint (axis->overlap[k], <=, axis->overlap[k - 1]);
  }
  if (axis->n > 1)
    g_assert_cmpint (most - least, <=, 16);
  /* one tile fewer would not do */
  if (axis->n > 1)
    g_assert_cmpint (256 * (axis->n - 1) - 64 * (axis->n - 2), <, length);
}

static void
test_every_length (void)
{
  for (gint length = 16; length <= 4096; length += 16) {
    g_autoptr (GError) error = NULL;
    H3TileAxis axis;

    h3_tile_axis_init (&axis, length, 256, 64, 16, &error);
    g_assert_no_error (error);
    assert_covers (&axis, length);
  }
}

static void
test_impossible_axes (void)
{
  static const gint bad[][4] = {
    { 0, 256, 64, 16 },
    { -16, 256, 64, 16 },
    { 100, 256, 64, 16 },
    { 512, 256, 256, 16 },
    { 512, 256, 248, 16 },
    { 512, 250, 64, 16 },
    { 512, 0, 0, 16 },
    { 512, 256, -16, 16 },
    { 512, 256, 64, 0 },
    { 1 << 20, 256, 64, 16 },
    { G_MAXINT / 16 * 16, 256, 240, 16 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;
    H3TileAxis axis;

    g_assert_false (h3_tile_axis_init (&axis, bad[i][0], bad[i][1], bad[i][2],
        bad[i][3], &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_SETTINGS);
  }
}

/* The most tiles that fit, and one more. */
static void
test_most_tiles (void)
{
  gint longest = H3_MAX_TILES * 256 - (H3_MAX_TILES - 1) * 64;
  g_autoptr (GError) error = NULL;
  H3TileAxis axis;

  g_assert_true (h3_tile_axis_init (&axis, longest, 256, 64, 16, NULL));
  g_assert_cmpint (axis.n, ==, H3_MAX_TILES);
  assert_covers (&axis, longest);
  g_assert_false (h3_tile_axis_init (&axis, longest + 16, 256, 64, 16, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_SETTINGS);
}

static void
test_windows (void)
{
  static const gint table[][3] = { /* T', windows, frames */
    { 0, 0, 0 }, { 1, 1, 1 }, { 2, 1, 5 }, { 3, 1, 9 }, { 4, 1, 13 },
    { 5, 1, 17 }, { 6, 1, 18 }, { 7, 1, 22 }, { 8, 2, 26 }, { 12, 2, 39 },
    { 17, 3, 56 }, { 22, 4, 73 }, { 37, 7, 124 }, { 42, 8, 141 },
    { 107, 21, 362 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (table); i++) {
    g_assert_cmpint (h3_video_windows (table[i][0]), ==, table[i][1]);
    g_assert_cmpint (h3_video_frames (table[i][0]), ==, table[i][2]);
  }
  g_assert_cmpint (h3_video_windows (-1), ==, 0);
  g_assert_cmpint (h3_video_frames (H3_VIDEO_MAX_LATENTS), >, 0);
}

/* Windows give at least the frames of the clip, and none is for nothing. */
static void
test_windows_cover_clip (void)
{
  for (gint t = 2; t < 500; t++) {
    gint windows = h3_video_windows (t), frames = h3_video_frames (t);

    g_assert_cmpint (17 * windows + 5, >=, frames);
    g_assert_cmpint (17 * (windows - 1), <, frames);
    g_assert_cmpint (frames, >, h3_video_frames (t - 1));
  }
}

void
add_tiling_tests (void)
{
  g_test_add_func ("/video/tiling/table", test_table);
  g_test_add_func ("/video/tiling/small-tiles", test_small_tiles);
  g_test_add_func ("/video/tiling/every-length", test_every_length);
  g_test_add_func ("/video/tiling/impossible", test_impossible_axes);
  g_test_add_func ("/video/tiling/most-tiles", test_most_tiles);
  g_test_add_func ("/video/windows/table", test_windows);
  g_test_add_func ("/video/windows/cover", test_windows_cover_clip);
}
