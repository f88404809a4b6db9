/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Characters and words: UTF-8, normal form C, Qwen2's word rule. */
#include <string.h>

#include "model/text/splitter.h"
#include "model/text/tokenizer.h"
#include "model/text/unicode.h"
#include "tests/text/text-tests.h"

/* text-encoder.md 2.8 */
static void
test_utf8 (void)
{
  static const struct {
    const gchar *bytes;
    gsize size;
    gssize offset;
  } vectors[] = {
    { "\x80", 1, 0 },
    { "a\xff", 2, 1 },
    { "\xc3", 1, 0 },
    { "\xe2\x82", 2, 0 },
    { "\xc0\xaf", 2, 0 },
    { "\xed\xa0\x80", 3, 0 },
    { "\xf4\x90\x80\x80", 4, 0 },
    { "a\xe2\x28\xa1", 4, 1 },
    { "\xe0\x9f\xbf", 3, 0 },     /* overlong U+07FF */
    { "\xf0\x8f\xbf\xbf", 4, 0 }, /* overlong U+FFFF */
    { "\xed\xbf\xbf", 3, 0 },     /* U+DFFF */
    { "\xc1\xbf", 2, 0 },
    { "\xf5\x80\x80\x80", 4, 0 },
    { "ab\xc3\xa9\xf0\x9f\x90", 7, 4 }, /* cut short after é */
    { "", 0, -1 },
    { "a\0b", 3, -1 },
    { "\xed\x9f\xbf\xee\x80\x80", 6, -1 }, /* either side of surrogates */
    { "\xef\xbb\xbf\xef\xbf\xbf\xf4\x8f\xbf\xbf", 10, -1 },
  };
  g_autoptr (GArray) chars = g_array_new (FALSE, FALSE, sizeof (gunichar));

  for (guint i = 0; i < G_N_ELEMENTS (vectors); i++) {
    g_array_set_size (chars, 0);
    g_assert_cmpint (h3_utf8_first_invalid (vectors[i].bytes, vectors[i].size),
        ==, vectors[i].offset);
    g_assert_cmpint (h3_utf8_decode (vectors[i].bytes, vectors[i].size, chars),
        ==, vectors[i].offset);
  }
}

/* Every code point there and back. */
static void
test_utf8_all (void)
{
  g_autoptr (GArray) chars = g_array_new (FALSE, FALSE, sizeof (gunichar));

  for (gunichar c = 0; c <= 0x10ffff; c++) {
    gchar bytes[6];
    gint size = g_unichar_to_utf8 (c, bytes);
    const gboolean surrogate = c >= 0xd800 && c <= 0xdfff;

    g_array_set_size (chars, 0);
    g_assert_cmpint (h3_utf8_decode (bytes, size, chars), ==,
        surrogate ? 0 : -1);
    if (!surrogate)
      g_assert_cmphex (g_array_index (chars, gunichar, 0), ==, c);
  }
}

/* NFC of UTF-8 with NULs, by h3_nfc. */
static gchar *
nfc (const gchar *text, gsize size, gsize *out_size)
{
  g_autoptr (GArray) chars = g_array_new (FALSE, FALSE, sizeof (gunichar));
  g_autoptr (GArray) composed = g_array_new (FALSE, FALSE, sizeof (gunichar));
  GString *out = g_string_new (NULL);

  g_assert_cmpint (h3_utf8_decode (text, size, chars), ==, -1);
  h3_nfc ((const gunichar *) (gpointer) chars->data, chars->len, composed);
  for (guint i = 0; i < composed->len; i++) {
    gchar bytes[6];
    gint n = g_unichar_to_utf8 (g_array_index (composed, gunichar, i), bytes);

    g_string_append_len (out, bytes, n); /* append_unichar drops NUL */
  }
  *out_size = out->len;
  return g_string_free (out, FALSE);
}

static void
assert_same_as_glib (const gchar *text)
{
  gsize size;
  g_autofree gchar *got = nfc (text, strlen (text), &size);
  g_autofree gchar *want =
      g_utf8_normalize (text, -1, G_NORMALIZE_DEFAULT_COMPOSE);

  g_assert_cmpmem (got, size, want, strlen (want));
}

/* Above plane 2 nothing decomposes and nothing is a mark. */
static void
test_nfc_every_character (void)
{
  for (gunichar c = 1; c <= 0x2ffff; c++) {
    gchar text[32] = { 0 };
    gsize n;

    if (c >= 0xd800 && c <= 0xdfff)
      continue;
    n = g_unichar_to_utf8 (c, text);
    assert_same_as_glib (text);
    /* and between a starter and marks of two classes */
    memmove (text + 1, text, n);
    text[0] = 'a';
    strcpy (text + 1 + n, "\xcc\x81\xcc\xa3");
    assert_same_as_glib (text);
  }
}

static void
test_nfc_random (void)
{
  static const gunichar pool[] = { 'a', 'e', 'x', ' ', 0x301, 0x302, 0x308,
    0x323, 0x327, 0x344, 0xe9, 0x1e69, 0x1100, 0x1112, 0x1161, 0x11a8, 0x11ab,
    0xac00, 0xd55c, 0xf73, 0xf71, 0xf72, 0x9c7, 0x9be, 0x212b, 0xf900, 0x958,
    0x1f82, 0x1d15e, 0x1d165, 0x16d6, 0x3099, 0x304b };
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);

  for (guint i = 0; i < 50000; i++) {
    g_autoptr (GString) text = g_string_new (NULL);
    gint n = g_rand_int_range (rand, 0, 12);

    while (n-- > 0)
      g_string_append_unichar (text,
          pool[g_rand_int_range (rand, 0, G_N_ELEMENTS (pool))]);
    assert_same_as_glib (text->str);
  }
}

static void
test_nfc_nul (void)
{
  static const gchar text[] = "e\xcc\x81\0\xcc\x81"
                              "e\xcc\x81";
  static const gchar want[] = "\xc3\xa9\0\xcc\x81\xc3\xa9";
  gsize size;
  g_autofree gchar *got = nfc (text, sizeof text - 1, &size);

  g_assert_cmpmem (got, size, want, sizeof want - 1);
}

/* The words, with '|' between them. */
static gchar *
split (const gchar *text)
{
  g_autoptr (GArray) chars = g_array_new (FALSE, FALSE, sizeof (gunichar));
  GString *out = g_string_new (NULL);
  const gunichar *s;

  g_assert_cmpint (h3_utf8_decode (text, strlen (text), chars), ==, -1);
  s = (const gunichar *) (gpointer) chars->data;
  for (gsize i = 0, end; i < chars->len; i = end) {
    end = h3_split_word (s, chars->len, i);
    g_assert_cmpuint (end, >, i);
    g_assert_cmpuint (end, <=, chars->len);
    if (i > 0)
      g_string_append_c (out, '|');
    for (gsize k = i; k < end; k++)
      g_string_append_unichar (out, s[k]);
  }
  return g_string_free (out, FALSE);
}

/* One line per row of the table in text-encoder.md 2.4, and what lies between
 * rows. The spaces of the expectation belong to the words. */
static void
test_split (void)
{
  static const gchar *const cases[][2] = {
    { "", "" },
    { "a", "a" },
    { "Hello world", "Hello| world" },
    /* 1, 1': contractions, folded; the long s; not at other letters */
    { "it's don't", "it|'s| don|'t" },
    { "I'M HE'D", "I|'M| HE|'D" },
    { "we're I've we'll", "we|'re| I|'ve| we|'ll" },
    { "WE'RE I'Ve We'lL", "WE|'RE| I|'Ve| We|'lL" },
    { "x'\xc5\xbft", "x|'\xc5\xbf|t" },
    { "'sup", "'s|up" },
    { "'twas", "'t|was" },
    { "'red", "'re|d" },
    { "'roll 'l 'v", "'roll| '|l| '|v" },
    { "'r", "'r" },
    { "'", "'" },
    { "''s", "''|s" },
    { "It\xe2\x80\x99s", "It|\xe2\x80\x99s" },
    /* 2: letters with one lead that is no letter, number or newline */
    { " \tword", " |\tword" },
    { "\"Yes", "\"Yes" },
    { "<d", "<d" },
    { "\xf0\x9f\x90\x89"
      "a",
        "\xf0\x9f\x90\x89"
        "a" },
    { "10\xc2\xa0km", "1|0|\xc2\xa0km" },
    { "\nword", "\n|word" },
    { "\rword", "\r|word" },
    { "x\xcc\x81y", "x|\xcc\x81y" },
    { "4K60fps", "4|K|6|0|fps" },
    /* 3: numbers one by one, of every kind */
    { "123", "1|2|3" },
    { " 12", " |1|2" },
    { "\xd9\xa3\xc2\xbd\xe2\x85\xab\xe2\x91\xa0",
        "\xd9\xa3|\xc2\xbd|\xe2\x85\xab|\xe2\x91\xa0" },
    /* 4: others with one space before and newlines after */
    { "wait...\n\n\"Yes.\"\n", "wait|...\n\n|\"Yes|.\"\n" },
    { " !!\r\n\nx", " !!\r\n\n|x" },
    { "  !", " | !" },
    { "\t!", "\t|!" },
    { "!\t\n", "!|\t\n" },
    { "a \xe2\x80\x8b", "a| \xe2\x80\x8b" }, /* U+200B is no white space */
    { "\xef\xbb\xbf", "\xef\xbb\xbf" },      /* nor is a BOM */
    { "\x1c\x01", "\x1c\x01" },
    /* 5: white space through its last newline */
    { "a \n b  \n\n  c", "a| \n| b|  \n\n| | c" },
    { "\r\n", "\r\n" },
    { "x\n\n\n", "x|\n\n\n" },
    { "x\n  ", "x|\n|  " },
    { "\n    indented", "\n|   | indented" },
    { " \n ", " \n| " },
    /* 6, 6', 7 */
    { "   ", "   " },
    { "x   ", "x|   " },
    { "   three", "  | three" },
    { "   3", "  | |3" },
    { " 3", " |3" },
    { "\t\t!", "\t|\t|!" },
    { "\xc2\xa0\xc2\xa0!", "\xc2\xa0|\xc2\xa0|!" },
    { "\xe3\x80\x80\xe2\x80\xa8\xc2\x85 ",
        "\xe3\x80\x80\xe2\x80\xa8\xc2\x85 " },
    { "\xe1\x9a\x80\xe2\x81\x9f"
      "1",
        "\xe1\x9a\x80|\xe2\x81\x9f|1" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *got = split (cases[i][0]);

    g_assert_cmpstr (got, ==, cases[i][1]);
  }
}

/* The released expression itself, through GLib, agrees on random text. */
static void
test_split_regex (void)
{
  static const gunichar pool[] = { 'a', 'S', 't', 'r', 'e', 'l', 'v', 'd', 'm',
    '\'', '\'', '1', ' ', ' ', '\n', '\r', '\t', '!', '-', 0xe9, 0x4e00, 0xbd,
    0x301, 0x1f600, 0x200b, 0x3000, 0xa0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GRegex) regex = g_regex_new (
      "(?i:'[s\\x{17f}]|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
      "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      0, 0, &error);
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);

  g_assert_no_error (error);
  for (guint i = 0; i < 20000; i++) {
    g_autoptr (GString) text = g_string_new (NULL);
    g_autoptr (GString) want = g_string_new (NULL);
    g_autoptr (GMatchInfo) match = NULL;
    g_autofree gchar *got = NULL;
    gint n = g_rand_int_range (rand, 1, 14);

    while (n-- > 0)
      g_string_append_unichar (text,
          pool[g_rand_int_range (rand, 0, G_N_ELEMENTS (pool))]);
    g_regex_match (regex, text->str, 0, &match);
    while (g_match_info_matches (match)) {
      g_autofree gchar *word = g_match_info_fetch (match, 0);

      if (want->len > 0)
        g_string_append_c (want, '|');
      g_string_append (want, word);
      g_match_info_next (match, NULL);
    }
    got = split (text->str);
    g_assert_cmpstr (got, ==, want->str);
  }
}

void
add_splitter_tests (void)
{
  g_test_add_func ("/text/utf8/offsets", test_utf8);
  g_test_add_func ("/text/utf8/all", test_utf8_all);
  g_test_add_func ("/text/nfc/every-character", test_nfc_every_character);
  g_test_add_func ("/text/nfc/random", test_nfc_random);
  g_test_add_func ("/text/nfc/nul", test_nfc_nul);
  g_test_add_func ("/text/splitter/table", test_split);
  g_test_add_func ("/text/splitter/expression", test_split_regex);
}
