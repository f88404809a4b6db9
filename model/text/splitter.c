/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The released rule, alternatives tried from left to right:
 *
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|
 *    ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * written as the table of text-encoder.md 2.4; numbers are its rows. */
#include "model/text/splitter.h"

typedef enum {
  CLASS_LETTER,  /* L */
  CLASS_NUMBER,  /* N */
  CLASS_NEWLINE, /* NL: CR, LF, white space too */
  CLASS_SPACE,   /* S without NL */
  CLASS_OTHER,   /* O */
} CharClass;

/* White_Space without CR and LF; g_unichar_isspace() lacks some. */
static gboolean
is_space (gunichar c)
{
  return c == 0x09 || c == 0x0b || c == 0x0c || c == 0x20 || c == 0x85 ||
         c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

static CharClass
char_class (gunichar c)
{
  if (c == '\r' || c == '\n')
    return CLASS_NEWLINE;
  if (is_space (c))
    return CLASS_SPACE;
  switch (g_unichar_type (c)) {
    case G_UNICODE_UPPERCASE_LETTER:
    case G_UNICODE_LOWERCASE_LETTER:
    case G_UNICODE_TITLECASE_LETTER:
    case G_UNICODE_MODIFIER_LETTER:
    case G_UNICODE_OTHER_LETTER:
      return CLASS_LETTER;
    case G_UNICODE_DECIMAL_NUMBER:
    case G_UNICODE_LETTER_NUMBER:
    case G_UNICODE_OTHER_NUMBER:
      return CLASS_NUMBER;
    default:
      return CLASS_OTHER;
  }
}

static gsize
skip_class (const gunichar *s, gsize n, gsize i, CharClass class)
{
  while (i < n && char_class (s[i]) == class)
    i++;
  return i;
}

/* Only what the contractions need; U+017F, the long s, folds to s. */
static gunichar
fold (gunichar c)
{
  if (c >= 'A' && c <= 'Z')
    return c - 'A' + 'a';
  return c == 0x17f ? 's' : c;
}

/* Rows 1 and 1': characters of the contraction at @i, 0 when there is none. */
static gsize
contraction_length (const gunichar *s, gsize n, gsize i)
{
  gunichar a, b;

  if (s[i] != '\'' || i + 1 >= n)
    return 0;
  a = fold (s[i + 1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd')
    return 2;
  if (i + 2 >= n)
    return 0;
  b = fold (s[i + 2]);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') ||
      (a == 'l' && b == 'l'))
    return 3;
  return 0;
}

/* Rows 5 to 7: the end of the word at @i, which is white space that nothing
 * after it takes as its lead. */
static gsize
split_space (const gunichar *s, gsize n, gsize i)
{
  gsize end = i, after_newline = i;

  for (; end < n; end++) {
    CharClass class = char_class (s[end]);

    if (class == CLASS_NEWLINE)
      after_newline = end + 1;
    else if (class != CLASS_SPACE)
      break;
  }
  if (after_newline > i)
    return after_newline; /* 5 */
  if (end == n)
    return end; /* 6 */
  if (end - i >= 2)
    return end - 1; /* 6' */
  return end;       /* 7 */
}

gsize
h3_split_word (const gunichar *s, gsize n, gsize i)
{
  gsize length = contraction_length (s, n, i);
  CharClass class = char_class (s[i]);
  gsize j;

  if (length > 0)
    return i + length; /* 1, 1' */

  if (class == CLASS_LETTER)
    return skip_class (s, n, i, CLASS_LETTER); /* 2 */
  if (class == CLASS_NUMBER)
    return i + 1; /* 3 */
  if (class != CLASS_NEWLINE && i + 1 < n &&
      char_class (s[i + 1]) == CLASS_LETTER)
    return skip_class (s, n, i + 1, CLASS_LETTER); /* 2 */

  j = s[i] == ' ' ? i + 1 : i;
  if (j < n && char_class (s[j]) == CLASS_OTHER) {
    j = skip_class (s, n, j, CLASS_OTHER);
    return skip_class (s, n, j, CLASS_NEWLINE); /* 4 */
  }
  return split_space (s, n, i);
}
