/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The resizer against float64, and against the reference's stored pixels. */
#include <math.h>

#include "model/picture/resize.h"
#include "tests/picture/picture-tests.h"
#include "tests/tools/h3-test-png.h"
#include "tests/tools/h3-test.h"

static guint8 *
random_pixels (GRand *rand, gint width, gint height)
{
  const gsize n = (gsize) width * height * 3;
  guint8 *pixels = g_malloc (n);

  /* Extremes too: they overshoot. */
  for (gsize i = 0; i < n; i++) {
    const gint kind = g_rand_int_range (rand, 0, 4);

    pixels[i] = kind == 0   ? 0
                : kind == 1 ? 255
                            : g_rand_int_range (rand, 0, 256);
  }
  return pixels;
}

/* --- float64 --- */

static gdouble
kernel (H3ResizeFilter filter, gdouble x)
{
  x = fabs (x);
  if (filter == H3_RESIZE_LANCZOS) {
    if (x == 0)
      return 1;
    return x < 3
               ? 3 * sin (G_PI * x) * sin (G_PI * x / 3) / (G_PI * G_PI * x * x)
               : 0;
  }
  if (x < 1)
    return 1.5 * x * x * x - 2.5 * x * x + 1;
  return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

/* dst [m][inner] from src [n][inner] along the first axis */
static gdouble *
resize_axis (H3ResizeFilter filter, const gdouble *src, gint n, gint m,
    gint inner)
{
  const gdouble scale = (gdouble) n / m, stretch = MAX (1, scale);
  gdouble *dst = g_new0 (gdouble, (gsize) m * inner);

  for (gint i = 0; i < m; i++) {
    gdouble sum = 0;

    for (gint j = 0; j < n; j++) {
      const gdouble w =
          n == m ? i == j
                 : kernel (filter, (j + 0.5 - (i + 0.5) * scale) / stretch);

      sum += w;
      for (gint k = 0; w != 0 && k < inner; k++)
        dst[(gsize) i * inner + k] += w * src[(gsize) j * inner + k];
    }
    for (gint k = 0; k < inner; k++)
      dst[(gsize) i * inner + k] /= sum;
  }
  return dst;
}

static gdouble *
transpose (const gdouble *src, gint rows, gint cols)
{
  gdouble *dst = g_new (gdouble, (gsize) rows * cols * 3);

  for (gint y = 0; y < rows; y++) {
    for (gint x = 0; x < cols; x++)
      memcpy (dst + ((gsize) x * rows + y) * 3,
          src + ((gsize) y * cols + x) * 3, 3 * sizeof *dst);
  }
  return dst;
}

static gdouble *
clamped (gdouble *values, gsize n)
{
  for (gsize i = 0; i < n; i++)
    values[i] = CLAMP (values[i], 0, 255);
  return values;
}

/* Clamped between the passes, as 8-bit resizers do; not rounded. */
static gdouble *
resize_float64 (H3ResizeFilter filter, const guint8 *src, gint src_width,
    gint src_height, gint width, gint height)
{
  const gsize n = (gsize) src_width * src_height * 3;
  g_autofree gdouble *wide = g_new (gdouble, n);
  g_autofree gdouble *turned = NULL, *across = NULL, *back = NULL;

  for (gsize i = 0; i < n; i++)
    wide[i] = src[i];
  turned = transpose (wide, src_height, src_width);
  across =
      clamped (resize_axis (filter, turned, src_width, width, 3 * src_height),
          (gsize) width * src_height * 3);
  back = transpose (across, width, src_height);
  return clamped (resize_axis (filter, back, src_height, height, 3 * width),
      (gsize) width * height * 3);
}

/* Waves with some grain: what pictures are like. */
static guint8 *
smooth_pixels (GRand *rand, gint width, gint height)
{
  guint8 *pixels = g_malloc ((gsize) width * height * 3);
  gdouble fx[3], fy[3];

  for (gint c = 0; c < 3; c++) {
    fx[c] = g_rand_double_range (rand, 0, 0.6);
    fy[c] = g_rand_double_range (rand, 0, 0.6);
  }
  for (gint i = 0; i < width * height * 3; i++) {
    const gint c = i % 3, x = i / 3 % width, y = i / 3 / width;

    pixels[i] = 128 + 110 * sin (fx[c] * x + fy[c] * y) +
                g_rand_double_range (rand, -12, 12);
  }
  return pixels;
}

static void
compare_float64 (H3ResizeFilter filter, const guint8 *src, gint src_width,
    gint src_height, gint width, gint height)
{
  const gsize n = (gsize) width * height * 3;
  g_autofree guint8 *got = g_malloc (n);
  g_autofree gdouble *want =
      resize_float64 (filter, src, src_width, src_height, width, height);
  g_autoptr (GError) error = NULL;
  gsize equal = 0;

  g_assert_true (h3_resize (filter, got, width, height, src, src_width,
      src_height, &error));
  g_assert_no_error (error);
  for (gsize i = 0; i < n; i++) {
    if (fabs (got[i] - round (want[i])) > 1)
      g_error ("filter %d, %d x %d to %d x %d: value %" G_GSIZE_FORMAT
               " is %d, float64 gives %g",
          filter, src_width, src_height, width, height, i, got[i], want[i]);
    equal += got[i] == round (want[i]);
  }
  if (n > 1000 && equal < 0.6 * n)
    g_error ("filter %d, %d x %d to %d x %d: only %" G_GSIZE_FORMAT
             " of %" G_GSIZE_FORMAT " values are float64's",
        filter, src_width, src_height, width, height, equal, n);
}

static void
compare_filters (GRand *rand, const gint size[4])
{
  g_autofree guint8 *noise = random_pixels (rand, size[0], size[1]);
  g_autofree guint8 *smooth = smooth_pixels (rand, size[0], size[1]);

  compare_float64 (H3_RESIZE_LANCZOS, noise, size[0], size[1], size[2],
      size[3]);
  compare_float64 (H3_RESIZE_LANCZOS, smooth, size[0], size[1], size[2],
      size[3]);
  compare_float64 (H3_RESIZE_BICUBIC, noise, size[0], size[1], size[2],
      size[3]);
  compare_float64 (H3_RESIZE_BICUBIC, smooth, size[0], size[1], size[2],
      size[3]);
}

static void
test_float64 (void)
{
  static const gint sizes[][4] = {
    { 150, 90, 96, 64 },
    { 96, 64, 320, 224 },
    { 320, 240, 64, 64 },
    { 64, 64, 64, 96 },
    { 64, 64, 96, 64 },
    { 1, 1, 32, 32 },
    { 2, 3, 64, 32 },
    { 5, 200, 64, 2 },
    { 401, 7, 3, 33 },
    { 300, 200, 1, 1 },
    { 33, 31, 32, 32 },
    { 32, 32, 33, 31 },
    { 4, 5, 5, 4 },
  };
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    compare_filters (rand, sizes[i]);
  for (guint i = 0; i < 20; i++) {
    gint size[4];

    for (guint k = 0; k < 4; k++)
      size[k] = g_rand_int_range (rand, 1, 80);
    compare_filters (rand, size);
  }
}

/* --- the reference's pixels --- */

/* Where the patches of the tower have pixel (y, x, c) of a still: 2 x 2 patches
 * of 16 x 16 together, a vector [3][2][16][16] (text-encoder.md 4.3). */
static gsize
patch_index (gint width, gint y, gint x, gint c)
{
  const gint across = width / 32;
  const gint patch =
      ((y / 32 * across + x / 32) * 2 + y / 16 % 2) * 2 + x / 16 % 2;

  return patch * 1536 + (c * 2) * 256 + y % 16 * 16 + x % 16;
}

/* From a picture to the vision tower's input: every value equal. @offset: where
 * the picture's patches begin. */
static void
compare_stored (const gchar *png, const gchar *request, gint canvas_width,
    gint canvas_height, gint width, gint height, gsize offset)
{
  g_autofree gchar *file = g_strdup_printf ("request_%s.safetensors", request);
  gint src_width, src_height;
  g_autofree guint8 *src = h3_test_png (png, &src_width, &src_height);
  g_autofree guint8 *canvas = g_malloc (canvas_width * canvas_height * 3);
  g_autofree guint8 *pixels = g_malloc (width * height * 3);
  g_autofree gint32 *stored =
      h3_test_golden_ints (file, "vision.pixel_values_u8", NULL);
  g_autoptr (GError) error = NULL;
  guint differ = 0;

  h3_resize (H3_RESIZE_LANCZOS, canvas, canvas_width, canvas_height, src,
      src_width, src_height, &error);
  g_assert_no_error (error);
  h3_resize (H3_RESIZE_BICUBIC, pixels, width, height, canvas, canvas_width,
      canvas_height, &error);
  g_assert_no_error (error);
  for (gint y = 0; y < height; y++) {
    for (gint x = 0; x < width; x++) {
      for (gint c = 0; c < 3; c++)
        differ += pixels[(y * width + x) * 3 + c] !=
                  stored[offset + patch_index (width, y, x, c)];
    }
  }
  g_test_message ("%s of %s: %u of %d values differ", png, request, differ,
      width * height * 3);
  g_assert_cmpuint (differ, ==, 0);
}

static void
test_stored (void)
{
  compare_stored ("tiny/golden/media/first.png", "fl2va_first", 96, 64, 320,
      224, 0);
  compare_stored ("tiny/golden/media/last.png", "fl2va_last", 96, 64, 320, 224,
      0);
  compare_stored ("tiny/golden/media/first.png", "fl2va_both", 96, 64, 320, 224,
      0);
  compare_stored ("tiny/golden/media/last.png", "fl2va_both", 96, 64, 320, 224,
      280 * 1536);
  compare_stored ("tiny/golden/media/image.png", "ref2va_image", 64, 96, 224,
      320, 0);
  compare_stored ("tiny/golden/media/image.png", "ref2va_mixed", 64, 96, 224,
      320, 0);
}

/* --- processors --- */

static guint8 *
resize_on (const gchar *isa, H3ResizeFilter filter, const guint8 *src,
    const gint size[4])
{
  guint8 *dst = g_malloc ((gsize) size[2] * size[3] * 3);
  g_autoptr (GError) error = NULL;

  g_setenv ("H3_CPU_ISA", isa, TRUE);
  h3_resize (filter, dst, size[2], size[3], src, size[0], size[1], &error);
  g_unsetenv ("H3_CPU_ISA");
  g_assert_no_error (error);
  return dst;
}

static void
compare_isas (GRand *rand, const gint size[4])
{
  g_autofree guint8 *src = random_pixels (rand, size[0], size[1]);

  for (gint filter = 0; filter < 2; filter++) {
    g_autofree guint8 *a = resize_on ("", filter, src, size);
    g_autofree guint8 *b = resize_on ("baseline", filter, src, size);
    const gsize n = (gsize) size[2] * size[3] * 3;

    if (memcmp (a, b, n) != 0)
      g_error ("filter %d, %d x %d to %d x %d: another processor, another "
               "picture",
          filter, size[0], size[1], size[2], size[3]);
  }
}

/* Every instruction set gives the same bytes, wherever its blocks end. */
static void
test_isas (void)
{
  static const gint sizes[][4] = { { 640, 360, 320, 192 },
    { 320, 180, 672, 384 }, { 1, 1, 47, 33 }, { 2000, 3, 7, 50 } };
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    compare_isas (rand, sizes[i]);
  for (guint i = 0; i < 100; i++) {
    gint size[4];

    for (guint k = 0; k < 4; k++)
      size[k] = g_rand_int_range (rand, 1, 70);
    compare_isas (rand, size);
  }
}

/* --- memory --- */

static void
test_strides (void)
{
  static const gint sizes[][4] = { { 10, 7, 23, 9 }, { 10, 7, 23, 7 },
    { 10, 7, 10, 9 }, { 10, 7, 10, 7 } };
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);

  for (guint k = 0; k < G_N_ELEMENTS (sizes); k++) {
    const gint sw = sizes[k][0], sh = sizes[k][1];
    const gint dw = sizes[k][2], dh = sizes[k][3];
    const gsize src_stride = sw * 3 + 5, dst_stride = dw * 3 + 11;
    g_autofree guint8 *src = random_pixels (rand, sw, sh);
    g_autofree guint8 *want = g_malloc (dw * dh * 3);
    g_autofree guint8 *wide = g_malloc0 (src_stride * sh);
    g_autofree guint8 *got = g_malloc (dst_stride * dh);
    g_autoptr (H3Resizer) resizer =
        h3_resizer_new (H3_RESIZE_LANCZOS, sw, sh, dw, dh, NULL);

    h3_resize (H3_RESIZE_LANCZOS, want, dw, dh, src, sw, sh, NULL);
    for (gint y = 0; y < sh; y++)
      memcpy (wide + y * src_stride, src + y * sw * 3, sw * 3);
    memset (got, 0xa5, dst_stride * dh);
    h3_resizer_run (resizer, got, dst_stride, wide, src_stride);
    for (gint y = 0; y < dh; y++) {
      g_assert_cmpmem (got + y * dst_stride, dw * 3, want + y * dw * 3, dw * 3);
      for (gsize i = dw * 3; i < dst_stride; i++)
        g_assert_cmpint (got[y * dst_stride + i], ==, 0xa5);
    }
    if (sw == dw && sh == dh)
      g_assert_cmpmem (want, dw * dh * 3, src, sw * sh * 3);
  }
}

static void
test_bad_sizes (void)
{
  static const struct {
    gint sizes[4];
    const gchar *says;
  } cases[] = {
    { { 0, 4, 4, 4 }, "width of 0" },
    { { 4, -1, 4, 4 }, "height of -1" },
    { { 4, 4, 65537, 4 }, "width of 65537" },
    { { 4, 4, 4, G_MAXINT }, "height of 2147483647" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const gint *s = cases[i].sizes;
    g_autoptr (GError) error = NULL;

    g_assert_null (
        h3_resizer_new (H3_RESIZE_BICUBIC, s[0], s[1], s[2], s[3], &error));
    h3_test_assert_h3_error (error, H3_ERROR_FORMAT, cases[i].says, "65536");
  }
}

void
add_resize_tests (void)
{
  g_test_add_func ("/picture/resize/float64", test_float64);
  g_test_add_func ("/picture/resize/stored", test_stored);
  g_test_add_func ("/picture/resize/processors", test_isas);
  g_test_add_func ("/picture/resize/strides", test_strides);
  g_test_add_func ("/picture/resize/bad-sizes", test_bad_sizes);
}
