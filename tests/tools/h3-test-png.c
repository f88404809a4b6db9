/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "h3-test-png.h"

#include <gio/gio.h>
#include <string.h>

#include "h3-test.h"

#define SIGNATURE "\x89PNG\r\n\x1a\n"
#define PIXEL 3

static guint32
big_endian (const guint8 *bytes)
{
  guint32 value;

  memcpy (&value, bytes, sizeof value);
  return GUINT32_FROM_BE (value);
}

/* All IDAT chunks, one after the other; the header's sizes. */
static GByteArray *
read_chunks (const guint8 *png, gsize size, gint *width, gint *height)
{
  static const guint8 rgb8[] = { 8, 2, 0, 0, 0 };
  GByteArray *data = g_byte_array_new ();
  gsize at = strlen (SIGNATURE), n;

  g_assert_true (size > at && memcmp (png, SIGNATURE, at) == 0);
  for (; at + 12 <= size; at += n + 12) {
    const guint8 *type = png + at + 4, *body = type + 4;

    n = big_endian (png + at);
    g_assert_cmpuint (n, <=, size - at - 12);
    if (memcmp (type, "IHDR", 4) == 0) {
      g_assert_cmpmem (body + 8, n - 8, rgb8, sizeof rgb8);
      *width = big_endian (body);
      *height = big_endian (body + 4);
    } else if (memcmp (type, "IDAT", 4) == 0) {
      g_byte_array_append (data, body, n);
    }
  }
  return data;
}

static guint8 *
inflate (const GByteArray *data, gsize size)
{
  g_autoptr (GZlibDecompressor) zlib =
      g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_ZLIB);
  guint8 *out = g_malloc (size);
  g_autoptr (GError) error = NULL;
  gsize used, written;

  g_converter_convert (G_CONVERTER (zlib), data->data, data->len, out, size,
      G_CONVERTER_INPUT_AT_END, &used, &written, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (written, ==, size);
  return out;
}

static guint8
paeth (gint left, gint up, gint corner)
{
  const gint p = left + up - corner;
  const gint dl = ABS (p - left), du = ABS (p - up), dc = ABS (p - corner);

  return dl <= du && dl <= dc ? left : du <= dc ? up : corner;
}

static guint8
predict (guint8 filter, guint8 left, guint8 up, guint8 corner)
{
  switch (filter) {
    case 1:
      return left;
    case 2:
      return up;
    case 3:
      return (left + up) / 2;
    case 4:
      return paeth (left, up, corner);
    default:
      g_assert_cmpint (filter, ==, 0);
      return 0;
  }
}

guint8 *
h3_test_png (const gchar *file, gint *width, gint *height)
{
  g_autofree gchar *path = h3_test_golden_path (file);
  g_autofree gchar *png = NULL;
  g_autofree guint8 *rows = NULL;
  g_autoptr (GByteArray) data = NULL;
  g_autoptr (GError) error = NULL;
  guint8 *pixels;
  gsize size, row;

  g_file_get_contents (path, &png, &size, &error);
  g_assert_no_error (error);
  data = read_chunks ((const guint8 *) png, size, width, height);
  row = (gsize) *width * PIXEL;
  rows = inflate (data, *height * (row + 1));
  pixels = g_malloc (*height * row);
  for (gint y = 0; y < *height; y++) {
    const guint8 *from = rows + y * (row + 1);
    guint8 *to = pixels + y * row;

    for (gsize i = 0; i < row; i++) {
      const guint8 left = i < PIXEL ? 0 : to[i - PIXEL];
      const guint8 up = y == 0 ? 0 : (to - row)[i];
      const guint8 corner = i < PIXEL || y == 0 ? 0 : (to - row)[i - PIXEL];

      to[i] = from[1 + i] + predict (from[0], left, up, corner);
    }
  }
  return pixels;
}
