/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Strict UTF-8 (text-encoder.md 2.8): g_utf8_validate() refuses NUL, which is
 * an ordinary character of a prompt. */
#include "model/text/tokenizer.h"
#include "model/text/unicode.h"

/* Bytes of the sequence at @p, its code point in @c; 0 when it is not valid:
 * stray or missing continuation, overlong, surrogate, above U+10FFFF. */
static gsize
decode_one (const guint8 *p, gsize left, gunichar *c)
{
  static const gunichar smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
  gsize length;

  if (p[0] < 0x80) {
    *c = p[0];
    return 1;
  }
  if (p[0] >= 0xc2 && p[0] <= 0xdf)
    length = 2;
  else if (p[0] >= 0xe0 && p[0] <= 0xef)
    length = 3;
  else if (p[0] >= 0xf0 && p[0] <= 0xf4)
    length = 4;
  else
    return 0;
  if (left < length)
    return 0;

  *c = p[0] & (0x7f >> length);
  for (gsize i = 1; i < length; i++) {
    if ((p[i] & 0xc0) != 0x80)
      return 0;
    *c = *c << 6 | (p[i] & 0x3f);
  }
  if (*c < smallest[length] || *c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff))
    return 0;
  return length;
}

gssize
h3_utf8_first_invalid (const gchar *text, gsize size)
{
  const guint8 *bytes = (const guint8 *) text;
  gunichar c;

  for (gsize i = 0; i < size;) {
    gsize length = decode_one (bytes + i, size - i, &c);

    if (length == 0)
      return i;
    i += length;
  }
  return -1;
}

gssize
h3_utf8_decode (const gchar *text, gsize size, GArray *chars)
{
  const guint8 *bytes = (const guint8 *) text;
  gunichar c;

  for (gsize i = 0; i < size;) {
    gsize length = decode_one (bytes + i, size - i, &c);

    if (length == 0)
      return i;
    g_array_append_val (chars, c);
    i += length;
  }
  return -1;
}
