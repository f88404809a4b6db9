/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every check of checkpoints.md 2.3, in memory and on disk. */
#include "test-checkpoint.h"

#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  const gchar *name;
  const gchar *header;
  gsize payload;
  gint code;               /* -1: the file is good */
  const gchar *needles[3]; /* the message has all of these */
} Case;

#define F32_2 "\"dtype\":\"F32\",\"shape\":[2]"
#define GOOD "\"a\":{" F32_2 ",\"data_offsets\":[0,8]}"

static const Case cases[] = {
  /* good ones */
  { "no-tensors", "{}", 0, -1, { NULL } },
  { "one", "{" GOOD "}", 8, -1, { NULL } },
  { "spaces-after", "{" GOOD "}     ", 8, -1, { NULL } },
  { "space-between",
      "{ \"a\" :\n{\t\"dtype\" : \"F32\" , \"shape\":[ 2 ],\r"
      "\"data_offsets\":[ 0 , 8 ] } }",
      8, -1, { NULL } },
  { "metadata", "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"}," GOOD "}", 8,
      -1, { NULL } },
  { "empty-metadata", "{\"__metadata__\":{}," GOOD "}", 8, -1, { NULL } },
  { "scalar", "{\"a\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]}}",
      1, -1, { NULL } },
  { "empty-tensor",
      "{\"e\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[0,0]}," GOOD
      ",\"f\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}}",
      8, -1, { NULL } },
  { "empty-with-huge-dims",
      "{\"e\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615,0,9],"
      "\"data_offsets\":[0,0]}}",
      0, -1, { NULL } },
  { "any-order", "{\"b\":{" F32_2 ",\"data_offsets\":[8,16]}," GOOD "}", 16, -1,
      { NULL } },
  { "trailing-bytes", "{" GOOD "}", 73, -1, { NULL } },

  /* no JSON object */
  { "array", "[1]", 0, H3_ERROR_WRONG_TYPE, { "header length 3" } },
  { "unfinished", "{\"a\":", 0, H3_ERROR_READ, { "not a JSON object" } },
  { "unfinished-string", "{\"a", 0, H3_ERROR_READ, { "end of a string" } },
  { "no-colon", "{\"a\" {}}", 0, H3_ERROR_READ, { "':'" } },
  { "trailing-comma", "{" GOOD ",}", 8, H3_ERROR_READ, { "tensor's name" } },
  { "two-objects", "{" GOOD "}{}", 8, H3_ERROR_READ, { "only spaces" } },
  { "newline-after", "{" GOOD "}\n", 8, H3_ERROR_READ, { "only spaces" } },
  { "value-is-number", "{\"a\":1}", 0, H3_ERROR_READ, { "'{'" } },
  { "value-is-null", "{\"a\":null}", 0, H3_ERROR_READ, { "'{'" } },
  { "bare-key", "{a:{}}", 0, H3_ERROR_READ, { "tensor's name" } },
  { "control-character", "{\"a\nb\":{}}", 0, H3_ERROR_READ, { "control" } },
  { "bad-escape", "{\"\\x\":{}}", 0, H3_ERROR_READ, { "escape" } },
  { "escape-at-end", "{\"\\", 0, H3_ERROR_READ, { "escape" } },
  { "nul-escape", "{\"\\u0000\":{}}", 0, H3_ERROR_READ, { "\\u escape" } },
  { "lone-surrogate", "{\"\\ud83d\":{}}", 0, H3_ERROR_READ, { "\\u escape" } },
  { "lone-low-surrogate", "{\"\\udc00\":{}}", 0, H3_ERROR_READ,
      { "\\u escape" } },
  { "surrogate-and-letter", "{\"\\ud83d\\u0041\":{}}", 0, H3_ERROR_READ,
      { "\\u escape" } },
  { "bad-utf8", "{\"\xff\xfe\":{}}", 0, H3_ERROR_READ, { "UTF-8", "byte 2" } },
  { "overlong-utf8", "{\"\xc0\xaf\":{}}", 0, H3_ERROR_READ, { "UTF-8" } },

  /* metadata */
  { "metadata-number", "{\"__metadata__\":{\"n\":1}," GOOD "}", 8,
      H3_ERROR_READ, { "metadata value n is not a string" } },
  { "metadata-object", "{\"__metadata__\":{\"n\":{}}}", 0, H3_ERROR_READ,
      { "metadata value n is not a string" } },
  { "metadata-null", "{\"__metadata__\":null}", 0, H3_ERROR_READ, { "'{'" } },
  { "metadata-twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0,
      H3_ERROR_READ, { "__metadata__ is there twice" } },
  { "metadata-key-twice", "{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0,
      H3_ERROR_READ, { "metadata key k is there twice" } },

  /* names */
  { "duplicate-name", "{" GOOD "," GOOD "}", 16, H3_ERROR_READ,
      { "tensor a is there twice" } },
  { "duplicate-name-escaped",
      "{" GOOD ",\"\\u0061\":{" F32_2 ",\"data_offsets\":[8,16]}}", 16,
      H3_ERROR_READ, { "tensor a is there twice" } },
  { "empty-name", "{\"\":{" F32_2 ",\"data_offsets\":[0,8]}}", 8, H3_ERROR_READ,
      { "name has 0 bytes" } },

  /* fields */
  { "no-fields", "{\"a\":{}}", 0, H3_ERROR_READ, { "dtype, shape" } },
  { "no-offsets", "{\"a\":{" F32_2 "}}", 0, H3_ERROR_READ,
      { "tensor a", "needs dtype, shape and data_offsets" } },
  { "no-dtype", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
      H3_ERROR_READ, { "tensor a", "needs dtype" } },
  { "no-shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8,
      H3_ERROR_READ, { "tensor a", "needs dtype" } },
  { "field-twice", "{\"a\":{" F32_2 ",\"shape\":[2],\"data_offsets\":[0,8]}}",
      8, H3_ERROR_READ, { "tensor a", "shape is there twice" } },
  { "unknown-field", "{\"a\":{" F32_2 ",\"data_offsets\":[0,8],\"x\":1}}", 8,
      H3_ERROR_READ, { "tensor a", "unknown field x" } },
  { "dtype-number",
      "{\"a\":{\"dtype\":32,\"shape\":[],\"data_offsets\":[0,8]}}", 8,
      H3_ERROR_READ, { "dtype's name" } },
  { "shape-string", "{\"a\":{\"dtype\":\"F32\",\"shape\":\"2\"}}", 8,
      H3_ERROR_READ, { "'['" } },
  { "nested-shape", "{\"a\":{\"dtype\":\"F32\",\"shape\":[[2]]}}", 8,
      H3_ERROR_READ, { "plain integer" } },
  { "one-offset", "{\"a\":{" F32_2 ",\"data_offsets\":[8]}}", 8, H3_ERROR_READ,
      { "two data_offsets" } },
  { "three-offsets", "{\"a\":{" F32_2 ",\"data_offsets\":[0,4,8]}}", 8,
      H3_ERROR_READ, { "tensor a", "data_offsets has more than 2" } },
  { "rank-9",
      "{\"a\":{\"dtype\":\"I8\",\"shape\":[1,1,1,1,1,1,1,1,1],"
      "\"data_offsets\":[0,1]}}",
      1, H3_ERROR_READ, { "tensor a", "shape has more than 8" } },

  /* numbers */
  { "negative", "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2]}}", 8, H3_ERROR_READ,
      { "plain integer" } },
  { "plus", "{\"a\":{\"dtype\":\"F32\",\"shape\":[+2]}}", 8, H3_ERROR_READ,
      { "plain integer" } },
  { "fraction", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0]}}", 8, H3_ERROR_READ,
      { "plain integer" } },
  { "exponent", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2e0]}}", 8, H3_ERROR_READ,
      { "plain integer" } },
  { "leading-zero", "{\"a\":{\"dtype\":\"F32\",\"shape\":[02]}}", 8,
      H3_ERROR_READ, { "plain integer" } },
  { "more-than-64-bits",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616]}}", 8,
      H3_ERROR_READ, { "plain integer" } },

  /* types */
  { "unknown-dtype",
      "{\"a\":{\"dtype\":\"Q4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1,
      H3_ERROR_WRONG_TYPE, { "dtype Q4 of tensor a is not supported" } },
  { "bool-dtype",
      "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
      H3_ERROR_WRONG_TYPE, { "dtype BOOL of tensor a is not supported" } },
  { "half-byte-dtype",
      "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
      H3_ERROR_WRONG_TYPE, { "dtype F4 of tensor a is not supported" } },
  { "lower-case-dtype",
      "{\"a\":{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
      H3_ERROR_WRONG_TYPE, { "dtype f32 of tensor a is not supported" } },

  /* sizes */
  { "shape-overflows",
      "{\"a\":{\"dtype\":\"I8\",\"shape\":[4294967296,4294967296],"
      "\"data_offsets\":[0,0]}}",
      0, H3_ERROR_READ, { "tensor a", "shape overflows" } },
  { "bits-overflow",
      "{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],"
      "\"data_offsets\":[0,0]}}",
      0, H3_ERROR_READ, { "tensor a", "shape overflows" } },
  { "offsets-reversed", "{\"a\":{" F32_2 ",\"data_offsets\":[8,0]}}", 8,
      H3_ERROR_READ, { "tensor a", "offsets reversed" } },
  { "offsets-too-short", "{\"a\":{" F32_2 ",\"data_offsets\":[0,4]}}", 8,
      H3_ERROR_READ, { "tensor a", "give 4 bytes", "needs 8" } },
  { "offsets-too-long", "{\"a\":{" F32_2 ",\"data_offsets\":[0,12]}}", 12,
      H3_ERROR_READ, { "tensor a", "give 12 bytes", "needs 8" } },

  /* layout */
  { "hole-at-start", "{\"a\":{" F32_2 ",\"data_offsets\":[4,12]}}", 12,
      H3_ERROR_READ, { "hole before a" } },
  { "hole", "{" GOOD ",\"b\":{" F32_2 ",\"data_offsets\":[9,17]}}", 17,
      H3_ERROR_READ, { "hole before b" } },
  { "overlap", "{" GOOD ",\"b\":{" F32_2 ",\"data_offsets\":[4,12]}}", 12,
      H3_ERROR_READ, { "b overlaps a" } },
  { "same-range", "{" GOOD ",\"b\":{" F32_2 ",\"data_offsets\":[0,8]}}", 8,
      H3_ERROR_READ, { "overlaps" } },
  { "truncated", "{" GOOD "}", 5, H3_ERROR_READ,
      { "truncated: tensors need 8 bytes, file has 5 (missing 3)" } },
  { "no-payload", "{" GOOD "}", 0, H3_ERROR_READ, { "truncated" } },
  { "absurd-offsets",
      "{\"a\":{" F32_2
      ",\"data_offsets\":[18446744073709551600,18446744073709551608]}}",
      8, H3_ERROR_READ, { "hole before a" } },
};

static void
test_header (gconstpointer data)
{
  const Case *c = data;
  gsize size;
  g_autofree guint8 *bytes = build_file (c->header, c->payload, &size);
  /* exactly as large as it claims, so that a sanitizer sees a byte too far */
  g_autofree guint8 *copy = g_memdup2 (bytes, size);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) file =
      h3_safetensors_parse (copy, size, "case.safetensors", &error);

  if (c->code < 0) {
    g_assert_no_error (error);
    g_assert_nonnull (file);
  } else {
    g_assert_null (file);
    h3_test_assert_h3_error (error, c->code, "case.safetensors", c->needles[0],
        c->needles[1], c->needles[2]);
  }
}

/* Every beginning of a good file is refused, and none crashes. */
static void
test_truncated_anywhere (void)
{
  gsize size;
  g_autofree guint8 *bytes =
      build_file ("{\"__metadata__\":{\"\\u00e9\\ud83d\\ude00\":\"x\"}," GOOD
                  ",\"b\":{\"dtype\":\"BF16\",\"shape\":[1,3],\"data_offsets\":"
                  "[8,14]}}",
          14, &size);

  for (gsize n = 0; n < size; n++) {
    g_autofree guint8 *copy = g_memdup2 (bytes, MAX (n, 1));
    g_autoptr (GError) error = NULL;

    g_assert_null (h3_safetensors_parse (copy, n, "cut", &error));
    h3_test_assert_h3_error (error, H3_ERROR_READ, "cut");
  }
}

static void
test_contents (void)
{
  gsize size;
  g_autofree guint8 *bytes = build_file (
      "{\"\\u00e9\\ud83d\\ude00\\n\":{\"dtype\":\"U8\",\"shape\":[3],"
      "\"data_offsets\":[0,3]},\"b\":{\"dtype\":\"BF16\",\"shape\":[1,2],"
      "\"data_offsets\":[3,7]}} ",
      9, &size);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) file = NULL;
  const H3StoredTensor *tensor;
  guint8 got[4];

  for (guint i = 0; i < 9; i++)
    bytes[size - 9 + i] = i + 1;
  file = h3_safetensors_parse (bytes, size, "f", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (h3_safetensors_n_tensors (file), ==, 2);
  g_assert_cmpuint (h3_safetensors_trailing (file), ==, 2);
  g_assert_null (h3_safetensors_lookup (file, "c"));
  g_assert_nonnull (h3_safetensors_lookup (file, "é😀\n"));

  tensor = h3_safetensors_lookup (file, "b");
  g_assert_true (tensor == h3_safetensors_nth (file, 1));
  g_assert_cmpstr (tensor->path, ==, "f");
  g_assert_cmpint (tensor->type, ==, H3_STORED_BF16);
  g_assert_cmpuint (tensor->rank, ==, 2);
  g_assert_cmpuint (tensor->shape[1], ==, 2);
  g_assert_cmpuint (tensor->bytes, ==, 4);
  g_assert_true (h3_stored_tensor_read (tensor, 1, 3, got, &error));
  g_assert_cmpmem (got, 3, ((guint8[]){ 5, 6, 7 }), 3);
}

/* Sizes of headers, and files that are something else. */
static void
test_other_files (void)
{
  static const struct {
    const gchar *bytes;
    gsize n;
    gint code;
    const gchar *needle;
  } others[] = {
    { "", 0, H3_ERROR_READ, "has 0 bytes" },
    { "1234567", 7, H3_ERROR_READ, "has 7 bytes" },
    { "\0\0\0\0\0\0\0\0", 8, H3_ERROR_WRONG_TYPE, "header length 0" },
    { "\1\0\0\0\0\0\0\0{", 9, H3_ERROR_WRONG_TYPE, "header length 1" },
    { "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, H3_ERROR_WRONG_TYPE,
        "header length 18446744073709551615" },
    { "\x01\xe1\xf5\x05\0\0\0\0{}", 10, H3_ERROR_WRONG_TYPE,
        "header length 100000001" },
    { "\x00\xe1\xf5\x05\0\0\0\0{}", 10, H3_ERROR_READ,
        "truncated: header length 100000000" },
    { "\3\0\0\0\0\0\0\0{}", 10, H3_ERROR_READ, "truncated: header length 3" },
    { "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 62,
        H3_ERROR_WRONG_TYPE, "Git-LFS pointer" },
    { "<!DOCTYPE html><html></html>", 28, H3_ERROR_WRONG_TYPE, "web page" },
    { "\n <html>", 8, H3_ERROR_WRONG_TYPE, "web page" },
    { "PK\3\4\0\0\0\0\0\0archive/data.pkl", 26, H3_ERROR_WRONG_TYPE,
        "PyTorch pickle" },
    { "\x80\2}q\1(X\5\0\0\0modelq\2", 17, H3_ERROR_WRONG_TYPE,
        "PyTorch pickle" },
    { "GGUF\3\0\0\0\1\0\0\0", 12, H3_ERROR_WRONG_TYPE, "GGUF" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (others); i++) {
    g_autofree guint8 *copy = g_memdup2 (others[i].bytes, others[i].n + 1);
    g_autoptr (GError) error = NULL;

    g_assert_null (
        h3_safetensors_parse (copy, others[i].n, "other.bin", &error));
    h3_test_assert_h3_error (error, others[i].code, "other.bin",
        others[i].needle);
  }
}

/* A header whose low length byte is that of a pickle is no pickle. */
static void
test_header_length_like_pickle (void)
{
  g_autofree gchar *header = g_strdup_printf ("{%126s}", "");
  gsize size;
  g_autofree guint8 *bytes = build_file (header, 0, &size);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) file =
      h3_safetensors_parse (bytes, size, "f", &error);

  g_assert_cmpuint (bytes[0], ==, 0x80);
  g_assert_no_error (error);
  g_assert_cmpuint (h3_safetensors_n_tensors (file), ==, 0);
}

static void
test_deep_nesting (void)
{
  g_autoptr (GString) header = g_string_new ("{\"a\":");
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *bytes = NULL;
  gsize size;

  for (guint i = 0; i < 1000000; i++)
    g_string_append (header, "{\"a\":[");
  bytes = build_file (header->str, 0, &size);
  g_assert_null (h3_safetensors_parse (bytes, size, "deep", &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, "deep");
}

static void
test_limits (void)
{
  g_autoptr (GString) header = g_string_new ("{");
  g_autofree gchar *long_name = g_strnfill (4097, 'n');
  g_autofree gchar *long_header =
      g_strdup_printf ("{\"%s\":{" F32_2 ",\"data_offsets\":[0,8]}}",
          long_name);
  g_autofree guint8 *many = NULL;
  g_autofree guint8 *longer = NULL;
  g_autoptr (GError) error = NULL;
  gsize size;

  for (guint i = 0; i <= 65536; i++)
    g_string_append_printf (header,
        "%s\"t%u\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}",
        i ? "," : "", i);
  g_string_append_c (header, '}');
  many = build_file (header->str, 0, &size);
  g_assert_null (h3_safetensors_parse (many, size, "many", &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, "many",
      "more than 65536 tensors");
  g_clear_error (&error);

  longer = build_file (long_header, 8, &size);
  g_assert_null (h3_safetensors_parse (longer, size, "long", &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, "long", "4097 bytes");
}

/* Paths that cannot be opened. */
static void
test_paths (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *absent = g_build_filename (dir, "absent", NULL);
  g_autofree gchar *below_file = NULL;
  g_autofree gchar *secret = g_build_filename (dir, "secret", NULL);
  g_autofree gchar *fifo = g_build_filename (dir, "fifo", NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (h3_safetensors_open (absent, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, absent, "cannot open");
  g_clear_error (&error);

  g_assert_null (h3_safetensors_open (dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_OPEN, dir, "no regular file");
  g_clear_error (&error);

  h3_test_write_file (secret, "x", 1);
  below_file = g_build_filename (secret, "x", NULL);
  g_assert_null (h3_safetensors_open (below_file, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, below_file);
  g_clear_error (&error);

  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);
  g_assert_null (h3_safetensors_open (fifo, &error)); /* and does not wait */
  h3_test_assert_h3_error (error, H3_ERROR_OPEN, fifo);
  g_clear_error (&error);

  g_assert_cmpint (g_chmod (secret, 0), ==, 0);
  if (g_access (secret, R_OK) != 0) { /* root may read everything */
    g_assert_null (h3_safetensors_open (secret, &error));
    h3_test_assert_h3_error (error, H3_ERROR_OPEN, secret, "cannot open");
  }
  h3_test_remove_tree (dir);
}

/* A payload at an odd address is read like any other. */
static void
test_misaligned (void)
{
  static const gfloat values[] = { 1.5f, -2.0f };
  static const gchar *const headers[] = { "{" GOOD "}", "{" GOOD "} ",
    "{" GOOD "}  ", "{" GOOD "}   ", "{" GOOD "}    ", "{" GOOD "}     ",
    "{" GOOD "}      ", "{" GOOD "}       " };
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "f.safetensors", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (headers); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (H3SafeTensors) file = NULL;
    g_autofree gfloat *got = NULL;

    write_safetensors (path, headers[i], values, sizeof values);
    file = h3_safetensors_open (path, &error);
    g_assert_no_error (error);
    got = h3_test_stored_floats (h3_safetensors_lookup (file, "a"));
    g_assert_cmpmem (got, sizeof values, values, sizeof values);
  }
  h3_test_remove_tree (dir);
}

/* A file that is cut after it was opened is an error, not a crash. */
static void
test_shrinks_while_open (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "f.safetensors", NULL);
  g_autofree guint8 *payload = g_malloc0 (1 << 20);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) file = NULL;

  write_safetensors (path,
      "{\"big\":{\"dtype\":\"U8\",\"shape\":[1048576],"
      "\"data_offsets\":[0,1048576]}}",
      payload, 1 << 20);
  file = h3_safetensors_open (path, &error);
  g_assert_no_error (error);
  h3_test_truncate_file (path, 4096);
  g_assert_false (h3_stored_tensor_read (h3_safetensors_nth (file, 0), 0,
      1 << 20, payload, &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, path, "tensor big", "shorter");
  h3_test_remove_tree (dir);
}

void
add_safetensors_tests (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *name =
        g_strconcat ("/safetensors/header/", cases[i].name, NULL);
    g_test_add_data_func (name, &cases[i], test_header);
  }
  g_test_add_func ("/safetensors/truncated-anywhere", test_truncated_anywhere);
  g_test_add_func ("/safetensors/contents", test_contents);
  g_test_add_func ("/safetensors/other-files", test_other_files);
  g_test_add_func ("/safetensors/header-length-like-pickle",
      test_header_length_like_pickle);
  g_test_add_func ("/safetensors/deep-nesting", test_deep_nesting);
  g_test_add_func ("/safetensors/limits", test_limits);
  g_test_add_func ("/safetensors/paths", test_paths);
  g_test_add_func ("/safetensors/misaligned", test_misaligned);
  g_test_add_func ("/safetensors/shrinks-while-open", test_shrinks_while_open);
}
