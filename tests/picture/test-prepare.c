/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* packing.md 2.2 and 6: sizes, fitting to a canvas, the 24 fps grid. */
#include <math.h>
#include <string.h>

#include "h3-test.h"
#include "model/picture/prepare.h"
#include "model/picture/resize.h"
#include "tests/picture/picture-tests.h"

static void
test_canvas (void)
{
  static const gint table[][5] = { { 768, 21, 9, 1536, 672 },
    { 768, 16, 9, 1344, 768 }, { 768, 4, 3, 1024, 768 },
    { 768, 1, 1, 768, 768 }, { 768, 3, 4, 768, 1024 },
    { 768, 9, 16, 768, 1344 }, { 768, 4, 1, 2016, 512 },
    { 768, 1, 4, 512, 2016 }, { 768, 1920, 1080, 1344, 768 },
    { 64, 150, 90, 96, 64 }, { 64, 96, 64, 96, 64 }, { 16, 1, 1, 32, 32 } };
  static const gint bad[][2] = { { 401, 100 }, { 1, 5 }, { 0, 1 }, { 1, 0 },
    { -16, 9 }, { G_MAXINT, 1 }, { 1, G_MAXINT } };

  for (guint i = 0; i < G_N_ELEMENTS (table); i++) {
    g_autoptr (GError) error = NULL;
    gint width, height;

    h3_canvas_of_aspect (table[i][0], table[i][1], table[i][2], &width, &height,
        &error);
    g_assert_no_error (error);
    g_assert_cmpint (width, ==, table[i][3]);
    g_assert_cmpint (height, ==, table[i][4]);
  }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;
    gint width, height;

    g_assert_false (h3_canvas_of_aspect (768, bad[i][0], bad[i][1], &width,
        &height, &error));
    h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "1:4 to 4:1");
  }
}

static void
test_reference_size (void)
{
  static const struct {
    H3ReferenceResize resize;
    gint edge, w, h, used_w, used_h;
  } table[] = {
    { H3_REFERENCE_RESIZE_DIFFUSERS, 2048, 1024, 768, 2720, 2048 },
    { H3_REFERENCE_RESIZE_DIFFUSERS, 2048, 1920, 1080, 3648, 2048 },
    { H3_REFERENCE_RESIZE_DIFFUSERS, 2048, 4000, 1000, 8192, 2048 },
    { H3_REFERENCE_RESIZE_DIFFUSERS, 2048, 1000, 4000, 2048, 8192 },
    { H3_REFERENCE_RESIZE_DIFFUSERS, 2048, 5000, 5000, 2048, 2048 },
    { H3_REFERENCE_RESIZE_MAX, 2048, 1024, 768, 1024, 768 },
    { H3_REFERENCE_RESIZE_MAX, 2048, 5000, 5000, 2048, 2048 },
    { H3_REFERENCE_RESIZE_MAX, 2048, 20, 20, 32, 32 },
    { H3_REFERENCE_RESIZE_MATCH, 2048, 1024, 768, 1024, 768 },
    { H3_REFERENCE_RESIZE_MATCH, 2048, 4096, 3072, 1184, 864 },
  };
  GError *error = NULL;
  gint w, h;

  for (guint i = 0; i < G_N_ELEMENTS (table); i++) {
    h3_reference_size (table[i].resize, table[i].edge, 1344, 768, table[i].w,
        table[i].h, &w, &h, &error);
    g_assert_no_error (error);
    g_assert_cmpint (w, ==, table[i].used_w);
    g_assert_cmpint (h, ==, table[i].used_h);
  }
  g_assert_false (h3_reference_size (H3_REFERENCE_RESIZE_MAX, 2048, 1344, 768,
      401, 100, &w, &h, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "401 x 100", "1:4 and 4:1");
  g_clear_error (&error);
  g_assert_false (h3_reference_size (H3_REFERENCE_RESIZE_DIFFUSERS, 32768, 1344,
      768, 400, 100, &w, &h, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "131072 x 32768", "65536");
  g_clear_error (&error);
}

static guint8 *
random_picture (gint width, gint height)
{
  guint8 *pixels = g_malloc_n ((gsize) width * height, 3);
  g_autoptr (GRand) rand = g_rand_new_with_seed (width * 7919 + height);

  for (gsize i = 0; i < (gsize) width * height * 3; i++)
    pixels[i] = g_rand_int (rand);
  return pixels;
}

static void
check_fit (H3Fit fit, gint w, gint h, gint canvas_w, gint canvas_h,
    gint whole_w, gint whole_h)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *src = random_picture (w, h);
  g_autofree guint8 *whole = g_malloc_n ((gsize) whole_w * whole_h, 3);
  g_auto (H3Image) image = { 0 };
  gint left = (whole_w - canvas_w) / 2, top = (whole_h - canvas_h) / 2;

  h3_resize (H3_RESIZE_LANCZOS, whole, whole_w, whole_h, src, w, h, &error);
  g_assert_no_error (error);
  h3_image_fit (&image, fit, canvas_w, canvas_h, src, 3 * w, w, h, &error);
  g_assert_no_error (error);
  g_assert_cmpint (image.width, ==, canvas_w);
  g_assert_cmpint (image.height, ==, canvas_h);
  for (gint y = 0; y < canvas_h; y++)
    g_assert_cmpmem (image.pixels + 3 * y * canvas_w, 3 * canvas_w,
        whole + 3 * ((top + y) * whole_w + left), 3 * canvas_w);
}

static void
test_fit (void)
{
  check_fit (H3_FIT_STRETCH, 150, 90, 96, 64, 96, 64);
  check_fit (H3_FIT_STRETCH, 17, 230, 96, 64, 96, 64);
  check_fit (H3_FIT_STRETCH, 96, 64, 96, 64, 96, 64);
  check_fit (H3_FIT_COVER, 150, 90, 96, 64, 107, 64);
  check_fit (H3_FIT_COVER, 90, 150, 96, 64, 96, 160);
  check_fit (H3_FIT_COVER, 40, 30, 96, 64, 96, 72);
  check_fit (H3_FIT_COVER, 96, 64, 96, 64, 96, 64);
  check_fit (H3_FIT_COVER, 1, 1, 96, 64, 96, 96);
}

static void
test_fit_stride (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *src = random_picture (20, 10);
  g_autofree guint8 *padded = g_malloc0 (64 * 10);
  g_auto (H3Image) a = { 0 };
  g_auto (H3Image) b = { 0 };

  for (gint y = 0; y < 10; y++)
    memcpy (padded + 64 * y, src + 60 * y, 60);
  h3_image_fit (&a, H3_FIT_COVER, 32, 32, src, 60, 20, 10, &error);
  g_assert_no_error (error);
  h3_image_fit (&b, H3_FIT_COVER, 32, 32, padded, 64, 20, 10, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (a.pixels, 3 * 32 * 32, b.pixels, 3 * 32 * 32);
}

/* Picture after picture, as one at a time. */
static void
test_fitter (void)
{
  static const struct {
    H3Fit fit;
    gint w, h;
  } cases[] = { { H3_FIT_STRETCH, 150, 90 }, { H3_FIT_COVER, 150, 90 },
    { H3_FIT_COVER, 90, 150 }, { H3_FIT_STRETCH, 96, 64 },
    { H3_FIT_COVER, 96, 64 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const gint w = cases[i].w, h = cases[i].h;
    g_autoptr (H3Fitter) fitter =
        h3_fitter_new (cases[i].fit, 96, 64, w, h, NULL);
    g_autofree guint8 *src = random_picture (w, h);

    for (gint n = 0; n < 3; n++) {
      g_auto (H3Image) want = { 0 };
      gsize stride = 3 * w;
      const guint8 *got;

      src[n * 100] ^= 0xff;
      h3_image_fit (&want, cases[i].fit, 96, 64, src, 3 * w, w, h, NULL);
      got = h3_fitter_run (fitter, src, &stride);
      for (gint y = 0; y < 64; y++)
        g_assert_cmpmem (got + y * stride, 3 * 96, want.pixels + y * 3 * 96,
            3 * 96);
    }
  }
}

static void
test_bad_fit (void)
{
  static const guint8 pixel[3 * 40000];
  GError *error = NULL;
  H3Image image = { 0 };

  g_assert_false (
      h3_image_fit (&image, H3_FIT_COVER, 64, 64, pixel, 3, 1, 40000, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "1 x 40000", "65536");
  g_clear_error (&error);
  g_assert_false (
      h3_image_fit (&image, H3_FIT_STRETCH, 64, 64, pixel, 0, 0, 1, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_FORMAT);
  g_clear_error (&error);
  g_assert_false (h3_image_fit (&image, H3_FIT_COVER, 70000, 1, pixel, 0, 70000,
      1, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "width of 70000", "65536");
  g_clear_error (&error);
  g_assert_null (image.pixels);
}

/* The reference's own double arithmetic, and times like a demuxer's. */
static void
test_slots (void)
{
  static const gint rates[][2] = { { 24, 1 }, { 25, 1 }, { 30, 1 }, { 60, 1 },
    { 12, 1 }, { 48, 1 }, { 24000, 1001 }, { 30000, 1001 }, { 15, 2 },
    { 120, 1 }, { 1, 1 } };

  for (guint r = 0; r < G_N_ELEMENTS (rates); r++) {
    gint n = rates[r][0], d = rates[r][1];

    for (gint64 i = 0; i < 4000; i++) {
      gint64 slot = h3_clip_slot_of_frame (i, n, d);
      guint64 ns = i * G_GUINT64_CONSTANT (1000000000) * d / n;

      g_assert_cmpint (slot, ==,
          (gint64) floor (i * 24.0 / ((gdouble) n / d) + 0.5));
      /* 24000/1001 is no double: ties fall either way */
      if (2 * 24 * i * d % (2 * n) != n)
        g_assert_cmpint (slot, ==, h3_clip_slot_of_time (ns));
    }
  }
  /* 30 fps: of five frames one goes */
  g_assert_cmpint (h3_clip_slot_of_frame (30, 30, 1), ==, 24);
  g_assert_cmpint (h3_clip_slot_of_time (G_MAXUINT64 / 2), >, 0);
}

static void
test_lengths (void)
{
  static const gint table[][2] = { { 0, 0 }, { 4, 0 }, { 5, 5 }, { 21, 5 },
    { 22, 22 }, { 30, 22 }, { 38, 22 }, { 39, 39 }, { 362, 362 } };

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    g_assert_cmpint (h3_clip_encoded_frames (table[i][0]), ==, table[i][1]);
}

void
add_prepare_tests (void)
{
  g_test_add_func ("/picture/canvas", test_canvas);
  g_test_add_func ("/picture/reference-size", test_reference_size);
  g_test_add_func ("/picture/fit", test_fit);
  g_test_add_func ("/picture/fit-stride", test_fit_stride);
  g_test_add_func ("/picture/fitter", test_fitter);
  g_test_add_func ("/picture/fit-bad", test_bad_fit);
  g_test_add_func ("/picture/slots", test_slots);
  g_test_add_func ("/picture/lengths", test_lengths);
}
