/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tokenizer, against golden ids and bad input. */
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/text/tokenizer.h"
#include "tests/text/text-tests.h"
#include "tests/tools/h3-test.h"

#define MEGABYTE (1 << 20)

static H3Tokenizer *
load (const gchar *checkpoint)
{
  g_autofree gchar *dir =
      g_build_filename (h3_test_golden_dir (), checkpoint, "tokenizer", NULL);
  g_autoptr (GError) error = NULL;
  H3Tokenizer *tokenizer = h3_tokenizer_load (dir, &error);

  g_assert_no_error (error);
  return tokenizer;
}

static H3Tokenizer *
load_tiny (void)
{
  return load ("tiny/FL2VA");
}

static GArray *
encode (const H3Tokenizer *tokenizer, const gchar *text, gsize size)
{
  GArray *ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GError) error = NULL;

  g_assert_true (h3_tokenizer_encode (tokenizer, text, size, ids, &error));
  g_assert_no_error (error);
  return ids;
}

static gchar *
ids_to_string (const GArray *ids)
{
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < ids->len; i++)
    g_string_append_printf (out, "%s%d", i > 0 ? " " : "",
        g_array_index (ids, gint32, i));
  return g_string_free (out, FALSE);
}

static void
assert_ids (const H3Tokenizer *tokenizer, const gchar *text, gsize size,
    const gchar *want)
{
  g_autoptr (GArray) ids = encode (tokenizer, text, size);
  g_autofree gchar *got = ids_to_string (ids);

  g_assert_cmpstr (got, ==, want);
}

/* "\u0000" ends json-glib's strings: the text of a case, NULs and all, is
 * taken from a member "text" that has U+0000 written as U+FDD0. */
static gchar *
read_cases (const gchar *name)
{
  g_autofree gchar *path = g_build_filename (h3_test_golden_dir (), name, NULL);
  g_autofree gchar *contents = NULL;
  g_autoptr (GString) text = NULL;
  g_autoptr (GError) error = NULL;

  g_file_get_contents (path, &contents, NULL, &error);
  g_assert_no_error (error);
  text = g_string_new (contents);
  g_string_replace (text, "\\u0000", "\\ufdd0", 0);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static GString *
restore_nuls (const gchar *text)
{
  GString *out = g_string_new (NULL);

  for (; *text; text = g_utf8_next_char (text)) {
    if (g_utf8_get_char (text) == 0xfdd0)
      g_string_append_c (out, '\0');
    else
      g_string_append_len (out, text, g_utf8_next_char (text) - text);
  }
  return out;
}

static void
run_cases (const H3Tokenizer *tokenizer, const gchar *name, guint n_cases)
{
  g_autofree gchar *json = read_cases (name);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;
  JsonArray *cases;

  json_parser_load_from_data (parser, json, -1, &error);
  g_assert_no_error (error);
  cases = json_node_get_array (json_parser_get_root (parser));
  g_assert_cmpuint (json_array_get_length (cases), ==, n_cases);

  for (guint i = 0; i < n_cases; i++) {
    JsonObject *object = json_array_get_object_element (cases, i);
    JsonArray *want = json_object_get_array_member (object, "ids");
    g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
    g_autofree gchar *want_string = NULL;
    GString *text =
        restore_nuls (json_object_get_string_member (object, "text"));

    for (guint k = 0; k < json_array_get_length (want); k++) {
      gint32 id = json_array_get_int_element (want, k);

      g_array_append_val (ids, id);
    }
    want_string = ids_to_string (ids);
    assert_ids (tokenizer, text->str, text->len, want_string);
    g_string_free (text, TRUE);
  }
}

static void
test_golden_tiny (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();

  run_cases (tokenizer, "tiny/golden/tokenizer_tiny.json", 22);
}

static void
test_golden_released (void)
{
  const gchar *dir = g_getenv ("H3_TOKENIZER_DIR");
  g_autoptr (H3Tokenizer) tokenizer = NULL;
  g_autoptr (GError) error = NULL;

  if (!dir || !*dir) {
    g_test_skip ("H3_TOKENIZER_DIR does not name the released tokenizer");
    return;
  }
  tokenizer = h3_tokenizer_load (dir, &error);
  g_assert_no_error (error);
  run_cases (tokenizer, "tokenizer_cases.json", 100);
  g_assert_cmpint (h3_tokenizer_control (tokenizer, "<|vision_start|>"), ==,
      151652);
  g_assert_cmpint (h3_tokenizer_control (tokenizer, "<|caption_end|>"), ==,
      151675);
}

/* Ids come from the files: the listed ones, then the unlisted in order. */
static void
test_control_tokens (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();

  g_assert_cmpint (h3_tokenizer_control (tokenizer, "<|endoftext|>"), ==, 480);
  g_assert_cmpint (h3_tokenizer_control (tokenizer, "</think>"), ==, 505);
  g_assert_cmpint (h3_tokenizer_control (tokenizer, "<d>"), ==, 506);
  g_assert_cmpint (h3_tokenizer_control (tokenizer, "</d>"), ==, 507);
  g_assert_cmpint (h3_tokenizer_control (tokenizer, "<|caption_end|>"), ==,
      512);
  g_assert_cmpint (h3_tokenizer_control (tokenizer, "<D>"), ==, -1);
  g_assert_cmpint (h3_tokenizer_control (tokenizer, "a"), ==, -1);

  assert_ids (tokenizer, "a<d>a", 5, "64 506 64");
  assert_ids (tokenizer, "<<d>>", 5, "27 506 29");
  assert_ids (tokenizer, "<d></d><|cutoff|>", 17, "506 507 508");
  assert_ids (tokenizer, "<D>", 3, "27 35 29");
  assert_ids (tokenizer, "<|cutoff|", 9, "27 91 66 84 83 78 69 69 91");
  /* a mark after a control token has nothing to compose with */
  assert_ids (tokenizer, "e</d>\xcc\x81", 7, "68 507 136 223");
  /* a piece ends where the control token begins: trailing white space */
  assert_ids (tokenizer, "a  <d>", 6, "64 220 220 506");
}

static void
test_nul (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();

  assert_ids (tokenizer, "a\0b", 3, "64 188 65");
  assert_ids (tokenizer, "\0", 1, "188");
  assert_ids (tokenizer, "", 0, "");
  assert_ids (tokenizer, "<d>\0<d>", 7, "506 188 506");
}

static void
test_invalid_utf8 (void)
{
  static const struct {
    const gchar *text;
    const gchar *offset;
  } cases[] = {
    { "\x80", "offset 0" },
    { "a\xff", "offset 1" },
    { "abc \xed\xa0\x80", "offset 4" },
    { "<d>\xc3", "offset 3" },
  };
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  g_autoptr (GArray) ids = encode (tokenizer, "a", 1);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_false (h3_tokenizer_encode (tokenizer, cases[i].text,
        strlen (cases[i].text), ids, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_FORMAT);
    g_assert_nonnull (strstr (error->message, cases[i].offset));
    g_assert_cmpuint (ids->len, ==, 1); /* nothing appended */
  }
}

static GString *
repeat (const gchar *unit, gsize size)
{
  GString *text = g_string_sized_new (size + 16);

  while (text->len + strlen (unit) <= size)
    g_string_append (text, unit);
  return text;
}

/* Anything quadratic here takes minutes. */
static void
test_megabyte (void)
{
  static const gchar *const units[] = { "=", " ", "\n", "a", "ab ", "<", "<|",
    "<d>", "'", "'s", "\xc3\xa9", "e\xcc\x81", "\xcc\x81", "\xe0\xbd\xb3",
    "\xed\x95\x9c", "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab",
    "\xf0\x9f\x91\xa9\xe2\x80\x8d", " \n", "! ", "1" };
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  GString *marks;

  for (guint i = 0; i < G_N_ELEMENTS (units); i++) {
    GString *text = repeat (units[i], MEGABYTE);
    g_autofree gchar *unit = g_strescape (units[i], NULL);
    g_autoptr (GArray) ids = NULL;

    g_test_timer_start ();
    ids = encode (tokenizer, text->str, text->len);
    g_test_message ("1 MB of \"%s\": %u ids, %.3f s", unit, ids->len,
        g_test_timer_elapsed ());
    g_assert_cmpuint (ids->len, >, 0);
    g_string_free (text, TRUE);
  }

  /* marks in the wrong order, as many as there can be */
  marks = repeat ("\xcc\x81", MEGABYTE / 2);
  for (guint i = 0; i < MEGABYTE / 4; i++)
    g_string_append (marks, "\xcc\xa3");
  {
    g_autoptr (GArray) ids = encode (tokenizer, marks->str, marks->len);

    g_assert_cmpuint (ids->len, ==, MEGABYTE);
  }
  g_string_free (marks, TRUE);
}

/* A vocabulary in which "=" merges to 2, 4, 8 ... 64 bytes. */
static void
make_doubling (GString **merges, GString **vocab, const gchar **config)
{
  gunichar other = 0x100;

  *merges = g_string_new (NULL);
  *vocab = g_string_new ("{");
  *config = "{}";
  for (guint byte = 0; byte < 256; byte++) {
    const gboolean self = (byte >= 0x21 && byte <= 0x7e) ||
                          (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    gchar text[7] = { 0 };

    g_unichar_to_utf8 (self ? byte : other++, text);
    g_string_append_printf (*vocab, "%s\"%s%s\":%u", byte ? "," : "",
        byte == '"' || byte == '\\' ? "\\" : "", text, byte);
  }
  for (guint n = 2; n <= 64; n *= 2) {
    g_autofree gchar *half = g_strnfill (n / 2, '=');

    g_string_append_printf (*merges, "%s %s\n", half, half);
    g_string_append_printf (*vocab, ",\"%s%s\":%u", half, half, 1000 + n);
  }
  g_string_append_c (*vocab, '}');
}

static H3Tokenizer *
parse (const gchar *merges, const gchar *vocab, const gchar *config,
    GError **error)
{
  return h3_tokenizer_parse (merges, strlen (merges), vocab, strlen (vocab),
      config, strlen (config), error);
}

static void
test_long_merges (void)
{
  GString *merges, *vocab, *text;
  const gchar *config;
  g_autoptr (H3Tokenizer) tokenizer = NULL;
  g_autoptr (GArray) ids = NULL;
  g_autoptr (GError) error = NULL;

  make_doubling (&merges, &vocab, &config);
  tokenizer = parse (merges->str, vocab->str, config, &error);
  g_assert_no_error (error);

  assert_ids (tokenizer, "===", 3, "1002 61"); /* leftmost first */
  assert_ids (tokenizer, "=======", 7, "1004 1002 61");
  text = repeat ("=", MEGABYTE + 3);
  g_test_timer_start ();
  ids = encode (tokenizer, text->str, text->len);
  g_test_message ("1 MB of \"=\" with merges: %.3f s", g_test_timer_elapsed ());
  g_assert_cmpuint (ids->len, ==, MEGABYTE / 64 + 2);
  g_assert_cmpint (g_array_index (ids, gint32, 0), ==, 1064);
  g_assert_cmpint (g_array_index (ids, gint32, ids->len - 1), ==, 61);

  g_string_free (text, TRUE);
  g_string_free (merges, TRUE);
  g_string_free (vocab, TRUE);
}

/* Lowest rank first, whatever the position: "abc" with "b c" before "a b". */
static void
test_rank_order (void)
{
  GString *merges, *vocab;
  const gchar *config;
  g_autoptr (H3Tokenizer) tokenizer = NULL;
  g_autoptr (GError) error = NULL;

  make_doubling (&merges, &vocab, &config);
  g_string_assign (merges, "#version: 0.2\nb c\n\na b\nab c\n");
  g_string_truncate (vocab, vocab->len - 1);
  g_string_append (vocab, ",\"bc\":300,\"ab\":301,\"abc\":302}");
  tokenizer = parse (merges->str, vocab->str, config, &error);
  g_assert_no_error (error);

  assert_ids (tokenizer, "abc", 3, "97 300");
  assert_ids (tokenizer, "abab", 4, "301 301");
  assert_ids (tokenizer, "abcab", 5, "97 300 301");

  g_string_free (merges, TRUE);
  g_string_free (vocab, TRUE);
}

static void
test_too_long (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GError) error = NULL;
  GString *text = repeat ("=", 4 * MEGABYTE + 1);

  g_assert_false (
      h3_tokenizer_encode (tokenizer, text->str, text->len, ids, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_FORMAT);
  g_assert_nonnull (strstr (error->message, "4194305"));
  g_assert_nonnull (strstr (error->message, "4194304"));
  g_string_free (text, TRUE);
}

static gpointer
encode_often (gpointer data)
{
  for (guint i = 0; i < 200; i++)
    assert_ids (data, "A brass-and-paper dragon flies.", 31,
        "32 469 436 438 479 455 13");
  return NULL;
}

static void
test_threads (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  GThread *threads[4];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("encode", encode_often, tokenizer);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

/* Each of the three files damaged in turn: what is said, and nothing leaks. */
static void
test_bad_files (void)
{
  static const struct {
    const gchar *merges; /* NULL: a good one */
    const gchar *vocab;  /* NULL: a good one; "+...": that added to it */
    const gchar *config; /* NULL: a good one */
    H3Error code;
    const gchar *says;
  } cases[] = {
    { "ab\n", NULL, NULL, H3_ERROR_WRONG_TYPE, "merges.txt line 1" },
    { "= =\na  b\n", NULL, NULL, H3_ERROR_WRONG_TYPE, "merges.txt line 2" },
    { " b\n", NULL, NULL, H3_ERROR_WRONG_TYPE, "merges.txt line 1" },
    { "a \n", NULL, NULL, H3_ERROR_WRONG_TYPE, "merges.txt line 1" },
    { "a b c\n", NULL, NULL, H3_ERROR_WRONG_TYPE, "merges.txt line 1" },
    { "= =\r\n", NULL, NULL, H3_ERROR_WRONG_TYPE, "stands for no byte" },
    { "= \xe4\xb8\x80\n", NULL, NULL, H3_ERROR_WRONG_TYPE,
        "stands for no byte" },
    { "= \xff\n", NULL, NULL, H3_ERROR_WRONG_TYPE, "not UTF-8" },
    { "= =\n== ==\n= =\n", NULL, NULL, H3_ERROR_WRONG_TYPE, "same pair" },
    { "a b\n", NULL, NULL, H3_ERROR_WRONG_TYPE, "\"ab\"" },
    { NULL, "", NULL, H3_ERROR_READ, "vocab.json" },
    { NULL, "[]", NULL, H3_ERROR_READ, "vocab.json" },
    { NULL, "{\"a\":", NULL, H3_ERROR_READ, "vocab.json" },
    { NULL, "{}", NULL, H3_ERROR_WRONG_TYPE, "byte 0x00" },
    { NULL, "+\"q2\":\"7\"", NULL, H3_ERROR_WRONG_TYPE, "\"q2\"" },
    { NULL, "+\"q2\":[7]", NULL, H3_ERROR_WRONG_TYPE, "\"q2\"" },
    { NULL, "+\"q2\":null", NULL, H3_ERROR_WRONG_TYPE, "\"q2\"" },
    { NULL, "+\"q2\":1.5", NULL, H3_ERROR_WRONG_TYPE, "\"q2\"" },
    { NULL, "+\"q2\":-1", NULL, H3_ERROR_WRONG_TYPE, "\"q2\"" },
    { NULL, "+\"q2\":4000000000", NULL, H3_ERROR_WRONG_TYPE, "\"q2\"" },
    { NULL, "+\"q2\":97", NULL, H3_ERROR_WRONG_TYPE, "same id 97" },
    { NULL, NULL, "", H3_ERROR_READ, "tokenizer_config.json" },
    { NULL, NULL, "7", H3_ERROR_READ, "tokenizer_config.json" },
    { NULL, NULL, "{\"add_bos_token\":true}", H3_ERROR_WRONG_TYPE,
        "add_bos_token" },
    { NULL, NULL, "{\"add_prefix_space\":true}", H3_ERROR_WRONG_TYPE,
        "add_prefix_space" },
    { NULL, NULL, "{\"split_special_tokens\":1}", H3_ERROR_WRONG_TYPE,
        "split_special_tokens" },
    { NULL, NULL, "{\"added_tokens_decoder\":[]}", H3_ERROR_WRONG_TYPE,
        "added_tokens_decoder" },
    { NULL, NULL, "{\"added_tokens_decoder\":{\"x\":{\"content\":\"<x>\"}}}",
        H3_ERROR_WRONG_TYPE, "added_tokens_decoder.x" },
    { NULL, NULL, "{\"added_tokens_decoder\":{\"2000\":{}}}",
        H3_ERROR_WRONG_TYPE, "added_tokens_decoder.2000" },
    { NULL, NULL, "{\"added_tokens_decoder\":{\"2000\":null}}",
        H3_ERROR_WRONG_TYPE, "added_tokens_decoder.2000" },
    { NULL, NULL, "{\"added_tokens_decoder\":{\"2000\":{\"content\":[1]}}}",
        H3_ERROR_WRONG_TYPE, "added_tokens_decoder.2000" },
    { NULL, NULL, "{\"added_tokens_decoder\":{\"2000\":{\"content\":\"\"}}}",
        H3_ERROR_WRONG_TYPE, "0 bytes" },
    { NULL, NULL,
        "{\"added_tokens_decoder\":{\"2000\":{\"content\":\"<x>\","
        "\"lstrip\":true}}}",
        H3_ERROR_WRONG_TYPE, "lstrip" },
    { NULL, NULL, "{\"added_tokens_decoder\":{\"97\":{\"content\":\"<x>\"}}}",
        H3_ERROR_WRONG_TYPE, "same id 97" },
    { NULL, NULL,
        "{\"added_tokens_decoder\":{\"2000\":{\"content\":\"<x>\"},"
        "\"2001\":{\"content\":\"<x>\"}}}",
        H3_ERROR_WRONG_TYPE, "\"<x>\"" },
    { NULL, NULL, "{\"additional_special_tokens\":{}}", H3_ERROR_WRONG_TYPE,
        "additional_special_tokens" },
    { NULL, NULL, "{\"additional_special_tokens\":[7]}", H3_ERROR_WRONG_TYPE,
        "additional_special_tokens" },
  };
  GString *merges, *vocab;
  const gchar *config;

  make_doubling (&merges, &vocab, &config);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const gchar *v = cases[i].vocab ? cases[i].vocab : vocab->str;
    g_autofree gchar *longer = NULL;
    g_autoptr (GError) error = NULL;

    if (*v == '+') {
      longer = g_strdup_printf ("%.*s,%s}", (gint) vocab->len - 1, vocab->str,
          v + 1);
      v = longer;
    }
    g_assert_null (parse (cases[i].merges ? cases[i].merges : merges->str, v,
        cases[i].config ? cases[i].config : config, &error));
    g_assert_error (error, H3_ERROR, (gint) cases[i].code);
    if (!strstr (error->message, cases[i].says))
      g_error ("\"%s\" does not say \"%s\"", error->message, cases[i].says);
  }
  g_string_free (merges, TRUE);
  g_string_free (vocab, TRUE);
}

/* json-glib calls itself for every bracket, and knows comments. */
static void
test_deep_json (void)
{
  static const gchar *const starts[] = { "", "{\"a\":", "{\"a\":/*\"*/",
    "//\"\n", "#\"\n", "{\"a\":'\"'" };
  g_autofree gchar *brackets = g_strnfill (MEGABYTE, '[');
  GString *merges, *vocab;
  const gchar *config;

  make_doubling (&merges, &vocab, &config);
  for (guint i = 0; i < G_N_ELEMENTS (starts); i++) {
    g_autofree gchar *deep = g_strconcat (starts[i], brackets, NULL);
    g_autoptr (GError) error = NULL;

    g_assert_null (parse (merges->str, deep, config, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_READ);
    g_clear_error (&error);
    g_assert_null (parse (merges->str, vocab->str, deep, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_READ);
  }
  g_string_free (merges, TRUE);
  g_string_free (vocab, TRUE);
}

/* Good files cut short or with bytes changed: an error, or a tokenizer. */
static void
test_mutations (void)
{
  static const gchar *const names[] = { "merges.txt", "vocab.json",
    "tokenizer_config.json" };
  gchar *good[3];
  gsize sizes[3];
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);

  for (guint i = 0; i < 3; i++) {
    g_autofree gchar *path = g_build_filename (h3_test_golden_dir (),
        "tiny/FL2VA/tokenizer", names[i], NULL);

    g_assert_true (g_file_get_contents (path, &good[i], &sizes[i], NULL));
  }
  for (guint round = 0; round < 1500; round++) {
    const guint f = round % 3;
    gchar *bad[3] = { good[0], good[1], good[2] };
    gsize bad_sizes[3] = { sizes[0], sizes[1], sizes[2] };
    g_autofree gchar *copy = g_memdup2 (good[f], sizes[f]);
    g_autoptr (H3Tokenizer) tokenizer = NULL;
    g_autoptr (GError) error = NULL;

    if (round % 2)
      bad_sizes[f] = g_rand_int_range (rand, 0, sizes[f]);
    for (gint n = g_rand_int_range (rand, 0, 4); n > 0; n--)
      copy[g_rand_int_range (rand, 0, sizes[f])] =
          g_rand_int_range (rand, 0, 256);
    bad[f] = copy;
    tokenizer = h3_tokenizer_parse (bad[0], bad_sizes[0], bad[1], bad_sizes[1],
        bad[2], bad_sizes[2], &error);
    g_assert_true ((tokenizer == NULL) == (error != NULL));
    if (tokenizer) {
      g_autoptr (GArray) ids = encode (tokenizer, "a<d> dragon", 11);

      g_assert_cmpuint (ids->len, >, 0);
    } else {
      g_assert_true (error->domain == H3_ERROR);
    }
  }
  for (guint i = 0; i < 3; i++)
    g_free (good[i]);
}

static void
test_missing_files (void)
{
  g_autofree gchar *dir = g_dir_make_tmp ("h3-text-XXXXXX", NULL);
  g_autofree gchar *merges = g_build_filename (dir, "merges.txt", NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (h3_tokenizer_load (dir, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, merges));
  g_clear_error (&error);

  g_assert_true (g_file_set_contents (merges, "= =\n", -1, NULL));
  g_assert_null (h3_tokenizer_load (dir, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, "vocab.json"));
  g_clear_error (&error);

  /* a FIFO has no writer to wait for */
  g_assert_cmpint (g_remove (merges), ==, 0);
  g_assert_cmpint (mkfifo (merges, 0600), ==, 0);
  g_assert_null (h3_tokenizer_load (dir, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_OPEN);
  g_assert_nonnull (strstr (error->message, merges));

  g_assert_cmpint (g_remove (merges), ==, 0);
  g_assert_cmpint (g_rmdir (dir), ==, 0);
}

void
add_tokenizer_tests (void)
{
  g_test_add_func ("/text/tokenizer/golden-tiny", test_golden_tiny);
  g_test_add_func ("/text/tokenizer/golden-released", test_golden_released);
  g_test_add_func ("/text/tokenizer/control-tokens", test_control_tokens);
  g_test_add_func ("/text/tokenizer/nul", test_nul);
  g_test_add_func ("/text/tokenizer/invalid-utf8", test_invalid_utf8);
  g_test_add_func ("/text/tokenizer/megabyte", test_megabyte);
  g_test_add_func ("/text/tokenizer/long-merges", test_long_merges);
  g_test_add_func ("/text/tokenizer/rank-order", test_rank_order);
  g_test_add_func ("/text/tokenizer/too-long", test_too_long);
  g_test_add_func ("/text/tokenizer/threads", test_threads);
  g_test_add_func ("/text/tokenizer/bad-files", test_bad_files);
  g_test_add_func ("/text/tokenizer/deep-json", test_deep_json);
  g_test_add_func ("/text/tokenizer/mutations", test_mutations);
  g_test_add_func ("/text/tokenizer/missing-files", test_missing_files);
}
