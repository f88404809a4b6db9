/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every check of checkpoints.md 6.1 and 6.2, in memory and on disk. */
#include "test-checkpoint.h"

#include "model/checkpoint/gguf.h"
#include "model/checkpoint/tensor-set.h"

#include <glib/gstdio.h>
#include <unistd.h>

/* A file from words: G magic, H version 3, u8:N u32:N u64:N i64:N numbers, s:TEXT
 * a string with its length, x:TEXT without, p:N zeros up to a multiple of N, z:N
 * so many zeros. */
static GByteArray *
build (const gchar *words)
{
  GByteArray *bytes = g_byte_array_new ();
  g_auto (GStrv) split = g_strsplit (words, " ", -1);

  for (guint i = 0; split[i]; i++) {
    const gchar *colon = strchr (split[i], ':');
    const gchar *text = colon ? colon + 1 : "";
    guint64 n = g_ascii_strtoull (text, NULL, 0);
    guint64 le = GUINT64_TO_LE (n);
    guint zeros = 0;

    if (split[i][0] == 'G')
      g_byte_array_append (bytes, (const guint8 *) "GGUF", 4);
    else if (split[i][0] == 'H')
      g_byte_array_append (bytes, (const guint8 *) "GGUF\3\0\0\0", 8);
    else if (g_str_has_prefix (split[i], "u8:"))
      g_byte_array_append (bytes, (const guint8 *) &le, 1);
    else if (g_str_has_prefix (split[i], "u16:"))
      g_byte_array_append (bytes, (const guint8 *) &le, 2);
    else if (g_str_has_prefix (split[i], "u32:"))
      g_byte_array_append (bytes, (const guint8 *) &le, 4);
    else if (g_str_has_prefix (split[i], "u64:"))
      g_byte_array_append (bytes, (const guint8 *) &le, 8);
    else if (split[i][0] == 's') {
      le = GUINT64_TO_LE ((guint64) strlen (text));
      g_byte_array_append (bytes, (const guint8 *) &le, 8);
      g_byte_array_append (bytes, (const guint8 *) text, strlen (text));
    } else if (split[i][0] == 'x')
      g_byte_array_append (bytes, (const guint8 *) text, strlen (text));
    else if (split[i][0] == 'p')
      zeros = -bytes->len % n;
    else if (split[i][0] == 'z')
      zeros = n;
    else
      g_assert_cmpstr (split[i], ==, "");
    for (guint j = 0; j < zeros; j++)
      g_byte_array_append (bytes, (const guint8 *) "", 1);
  }
  return bytes;
}

typedef struct {
  const gchar *name;
  const gchar *words;
  gint code;               /* -1: the file is good */
  const gchar *needles[3]; /* the message has all of these */
} Case;

/* One tensor and no keys; the tensor a of 32 numbers in Q8_0. */
#define ONE "H u64:1 u64:0 "
#define A "s:a u32:1 u64:32 u32:8 u64:0 "
#define KEYS(n) "H u64:1 u64:" #n " "
#define GOOD A "p:32 z:34"

static const Case cases[] = {
  /* good ones */
  { "nothing", "H u64:0 u64:0", -1, { NULL } },
  { "one", ONE GOOD, -1, { NULL } },
  { "version-2", "G u32:2 u64:1 u64:0 " GOOD, -1, { NULL } },
  { "padded-end", ONE GOOD " p:32", -1, { NULL } },
  { "scalar", ONE "s:a u32:0 u32:0 u64:0 p:32 z:4", -1, { NULL } },
  { "every-key-type",
      KEYS (13) "s:a u32:0 u8:1 s:b u32:1 u8:1 s:c u32:2 u8:1 u8:0 "
                "s:d u32:3 u8:1 u8:0 s:e u32:4 u32:1 s:f u32:5 u32:1 "
                "s:g u32:6 u32:1 s:h u32:7 u8:1 s:i u32:8 s:text "
                "s:j u32:9 u32:8 u64:2 s:one s: s:k u32:10 u64:1 "
                "s:l u32:11 u64:1 s:m u32:12 u64:1 " GOOD,
      -1, { NULL } },
  { "empty-array", KEYS (1) "s:a u32:9 u32:8 u64:0 " GOOD, -1, { NULL } },
  { "alignment-64", KEYS (1) "s:general.alignment u32:4 u32:64 " A "p:64 z:34",
      -1, { NULL } },
  { "hole-between",
      "H u64:2 u64:0 " A "s:b u32:1 u64:1 u32:0 u64:128 p:32 z:132", -1,
      { NULL } },
  { "any-order", "H u64:2 u64:0 s:b u32:1 u64:1 u32:0 u64:64 " A "p:32 z:68",
      -1, { NULL } },

  /* what it is */
  { "empty", "x:", H3_ERROR_WRONG_TYPE, { "not a GGUF file" } },
  { "short-magic", "x:GGU", H3_ERROR_WRONG_TYPE, { "not a GGUF file" } },
  { "other-magic", "x:ggjt z:64", H3_ERROR_WRONG_TYPE, { "not a GGUF file" } },
  { "lfs", "x:version x:https://git-lfs", H3_ERROR_WRONG_TYPE,
      { "not a GGUF file" } },
  { "web-page", "x:<html>", H3_ERROR_WRONG_TYPE, { "web page" } },
  { "magic-alone", "G", H3_ERROR_READ, { "truncated" } },
  { "version-0", "G u32:0 u64:0 u64:0", H3_ERROR_WRONG_TYPE,
      { "GGUF version 0 is not supported" } },
  { "version-1", "G u32:1 u64:0 u64:0", H3_ERROR_WRONG_TYPE,
      { "GGUF version 1 is not supported" } },
  { "version-4", "G u32:4 u64:0 u64:0", H3_ERROR_WRONG_TYPE,
      { "GGUF version 4 is not supported" } },
  { "big-endian", "G u32:0x03000000 u64:0 u64:0", H3_ERROR_WRONG_TYPE,
      { "big-endian" } },

  /* counts */
  { "negative-tensors", "H u64:0xffffffffffffffff u64:0", H3_ERROR_READ,
      { "-1 tensors" } },
  { "negative-keys", "H u64:0 u64:0x8000000000000000", H3_ERROR_READ,
      { "keys", "no more than fit" } },
  { "tensors-beyond-file", "H u64:3 u64:0 " GOOD, H3_ERROR_READ,
      { "a tensor's name", "0 bytes" } },
  { "more-tensors-than-bytes", "H u64:60000 u64:0 " GOOD, H3_ERROR_READ,
      { "60000 tensors" } },
  { "keys-beyond-file", "H u64:0 u64:2 s:a u32:0 u8:1 z:20", H3_ERROR_READ,
      { "a key", "0 bytes" } },

  /* keys */
  { "key-twice", KEYS (2) "s:k u32:0 u8:1 s:k u32:0 u8:1 " GOOD, H3_ERROR_READ,
      { "key k is there twice" } },
  { "key-empty", KEYS (1) "s: u32:0 u8:1 " GOOD, H3_ERROR_READ,
      { "a key", "0 bytes" } },
  { "key-not-utf8", KEYS (1) "s:\xff u32:0 u8:1 " GOOD, H3_ERROR_READ,
      { "a key", "UTF-8" } },
  { "key-length", KEYS (1) "u64:0xffffffffffffffff x:k " GOOD, H3_ERROR_READ,
      { "truncated", "a key" } },
  { "key-type-13", KEYS (1) "s:k u32:13 u8:1 " GOOD, H3_ERROR_READ,
      { "key k", "type is 13" } },
  { "array-of-arrays", KEYS (1) "s:k u32:9 u32:9 u64:1 " GOOD, H3_ERROR_READ,
      { "key k", "not of arrays" } },
  { "array-type", KEYS (1) "s:k u32:9 u32:77 u64:1 " GOOD, H3_ERROR_READ,
      { "key k", "type is 77" } },
  { "array-length", KEYS (1) "s:k u32:9 u32:4 u64:1000 " GOOD, H3_ERROR_READ,
      { "truncated", "k at byte", "4000 bytes" } },
  { "array-length-wraps",
      KEYS (1) "s:k u32:9 u32:4 u64:0x4000000000000001 " GOOD, H3_ERROR_READ,
      { "truncated", "k at byte" } },
  { "array-of-strings-length",
      KEYS (1) "s:k u32:9 u32:8 u64:0x2000000000000001 " GOOD, H3_ERROR_READ,
      { "truncated", "k at byte" } },
  { "string-length", KEYS (1) "s:k u32:8 u64:5000 x:a " GOOD, H3_ERROR_READ,
      { "truncated", "k at byte", "5000 bytes" } },
  { "split-1", KEYS (1) "s:split.count u32:2 u16:1 " GOOD, -1, { NULL } },
  { "split-3", KEYS (1) "s:split.count u32:2 u16:3 " GOOD, H3_ERROR_WRONG_TYPE,
      { "one of 3 parts", "gguf-split --merge" } },
  { "split-cut", KEYS (1) "s:split.count u32:2 u8:3", H3_ERROR_READ,
      { "split.count" } },
  { "alignment-0", KEYS (1) "s:general.alignment u32:4 u32:0 " GOOD,
      H3_ERROR_READ, { "general.alignment is 0", "power of two" } },
  { "alignment-48", KEYS (1) "s:general.alignment u32:4 u32:48 " GOOD,
      H3_ERROR_READ, { "general.alignment is 48", "power of two" } },
  { "alignment-u64", KEYS (1) "s:general.alignment u32:10 u64:32 " GOOD,
      H3_ERROR_READ, { "general.alignment", "type 10" } },

  /* tensors */
  { "tensor-twice", "H u64:2 u64:0 " A A "p:32 z:34", H3_ERROR_READ,
      { "tensor a is there twice" } },
  { "name-empty", ONE "s: u32:1 u64:1 u32:0 u64:0 p:32 z:32", H3_ERROR_READ,
      { "tensor's name", "0 bytes" } },
  { "name-not-utf8", ONE "s:\xc3 u32:1 u64:1 u32:0 u64:0 p:32 z:32",
      H3_ERROR_READ, { "tensor's name", "UTF-8" } },
  { "rank-5", ONE "s:a u32:5 u64:1 u64:1 u64:1 u64:1 u64:1 u32:0 u64:0 z:99",
      H3_ERROR_READ, { "tensor a", "5 dimensions" } },
  { "dimension-0", ONE "s:a u32:2 u64:32 u64:0 u32:0 u64:0 z:99", H3_ERROR_READ,
      { "tensor a", "dimension 1 of 2 is 0" } },
  { "dimension-negative",
      ONE "s:a u32:1 u64:0xffffffffffffffff u32:0 u64:0 z:9", H3_ERROR_READ,
      { "tensor a", "shape overflows", "-1" } },
  { "shape-overflows",
      ONE "s:a u32:2 u64:0x40000000 u64:0x40000000 u32:0 u64:0 z:9",
      H3_ERROR_READ, { "tensor a", "shape overflows" } },
  { "type-21", ONE "s:t u32:1 u64:256 u32:21 u64:0 p:32 z:999",
      H3_ERROR_WRONG_TYPE,
      { "tensor t: ggml type 21 (IQ3_S) is not supported" } },
  { "type-4", ONE "s:t u32:1 u64:256 u32:4 u64:0 p:32 z:999",
      H3_ERROR_WRONG_TYPE, { "tensor t: ggml type 4 (unknown)" } },
  { "type-huge", ONE "s:t u32:1 u64:256 u32:0xffffffff u64:0 p:32 z:999",
      H3_ERROR_WRONG_TYPE, { "tensor t: ggml type 4294967295 (unknown)" } },
  { "row-length", ONE "s:t u32:2 u64:1152 u64:2 u32:12 u64:0 p:32 z:2592",
      H3_ERROR_READ,
      { "tensor t",
          "row length 1152 is not a multiple of the block size 256" } },
  { "row-length-of-all", ONE "s:t u32:2 u64:16 u64:2 u32:8 u64:0 p:32 z:34",
      H3_ERROR_READ, { "row length 16", "block size 32" } },
  { "scalar-in-blocks", ONE "s:t u32:0 u32:8 u64:0 p:32 z:34", H3_ERROR_READ,
      { "row length 1 " } },
  { "offset-unaligned", ONE "s:a u32:1 u64:32 u32:8 u64:8 p:32 z:99",
      H3_ERROR_READ, { "tensor a", "offset 8", "alignment 32" } },
  { "offset-beyond", ONE "s:a u32:1 u64:32 u32:8 u64:64 p:32 z:97",
      H3_ERROR_READ, { "truncated", "tensor a needs 34 bytes at 64" } },
  { "offset-wraps",
      ONE "s:a u32:1 u64:32 u32:8 u64:0xffffffffffffffe0 p:32 z:99",
      H3_ERROR_READ, { "truncated", "tensor a" } },
  { "truncated", ONE A "p:32 z:33", H3_ERROR_READ,
      { "truncated", "tensor a" } },
  { "no-padding", ONE A, H3_ERROR_READ, { "truncated", "tensor a" } },
  { "alignment-beyond-file",
      KEYS (1) "s:general.alignment u32:4 u32:0x80000000 " A "z:99",
      H3_ERROR_READ, { "truncated", "tensor a" } },
  { "overlap", "H u64:2 u64:0 " A "s:b u32:1 u64:1 u32:0 u64:32 p:32 z:64",
      H3_ERROR_READ, { "b overlaps a" } },
  { "same-place", "H u64:2 u64:0 " A "s:b u32:1 u64:1 u32:0 u64:0 p:32 z:64",
      H3_ERROR_READ, { "overlaps" } },

/* comfy.gguf.orig_shape */
#define SHAPE "s:comfy.gguf.orig_shape.a "
  { "orig-shape", KEYS (1) SHAPE "u32:9 u32:5 u64:2 u32:8 u32:4 " GOOD, -1,
      { NULL } },
  { "orig-shape-of-nothing",
      KEYS (1) "s:comfy.gguf.orig_shape.b u32:9 u32:5 u64:1 u32:8 " GOOD, -1,
      { NULL } },
  { "orig-shape-product", KEYS (1) SHAPE "u32:9 u32:5 u64:2 u32:8 u32:5 " GOOD,
      H3_ERROR_READ, { "orig_shape.a is [8, 5]", "32 elements" } },
  { "orig-shape-part", KEYS (1) SHAPE "u32:9 u32:5 u64:1 u32:16 " GOOD,
      H3_ERROR_READ, { "orig_shape.a is [16]" } },
  { "orig-shape-negative",
      KEYS (1) SHAPE "u32:9 u32:5 u64:2 u32:0xfffffff8 u32:0xfffffffc " GOOD,
      H3_ERROR_READ, { "orig_shape.a", "-8" } },
  { "orig-shape-zero", KEYS (1) SHAPE "u32:9 u32:5 u64:2 u32:0 u32:4 " GOOD,
      H3_ERROR_READ, { "orig_shape.a", "a dimension is 0" } },
  { "orig-shape-empty", KEYS (1) SHAPE "u32:9 u32:5 u64:0 " GOOD, H3_ERROR_READ,
      { "orig_shape.a", "0 values" } },
  { "orig-shape-long", KEYS (1) SHAPE "u32:9 u32:5 u64:9 z:36 " GOOD,
      H3_ERROR_READ, { "orig_shape.a", "9 values" } },
  { "orig-shape-floats", KEYS (1) SHAPE "u32:9 u32:6 u64:2 z:8 " GOOD,
      H3_ERROR_READ, { "orig_shape.a", "type 6" } },
  { "orig-shape-string", KEYS (1) SHAPE "u32:8 s:8,4 " GOOD, H3_ERROR_READ,
      { "orig_shape.a", "type 8" } },
};

static void
test_case (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (GByteArray) bytes = build (c->words);
  /* exactly as large as it is, so that a sanitizer sees a byte too far */
  g_autofree guint8 *copy = g_memdup2 (bytes->data, MAX (bytes->len, 1));
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Gguf) gguf =
      h3_gguf_parse (copy, bytes->len, "case.gguf", &error);

  if (c->code < 0) {
    g_assert_no_error (error);
    g_assert_nonnull (gguf);
    g_assert_cmpuint (h3_gguf_trailing (gguf), ==, 0);
  } else {
    g_assert_null (gguf);
    h3_test_assert_h3_error (error, c->code, "case.gguf", c->needles[0],
        c->needles[1], c->needles[2]);
  }
}

#define LONG                                                                   \
  "H u64:2 u64:3 s:general.architecture u32:8 s:minimax_h3 "                   \
  "s:tokens u32:9 u32:8 u64:3 s:a s: s:c "                                     \
  "s:comfy.gguf.orig_shape.q u32:9 u32:5 u64:3 u32:2 u32:4 u32:8 "             \
  "s:f u32:2 u64:3 u64:2 u32:1 u64:0 s:q u32:2 u64:32 u64:2 u32:2 u64:32 "     \
  "p:32 z:68"

static void
test_contents (void)
{
  g_autoptr (GByteArray) bytes = build (LONG " x:!!");
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Gguf) gguf =
      h3_gguf_parse (bytes->data, bytes->len, "f", &error);
  const H3StoredTensor *tensor;
  guint8 got[2];

  g_assert_no_error (error);
  g_assert_cmpuint (h3_gguf_n_tensors (gguf), ==, 2);
  g_assert_null (h3_gguf_lookup (gguf, "g"));
  tensor = h3_gguf_lookup (gguf, "f");
  g_assert_true (tensor == h3_gguf_nth (gguf, 0));
  g_assert_cmpstr (tensor->path, ==, "f");
  g_assert_cmpint (tensor->type, ==, H3_STORED_F16);
  g_assert_cmpuint (tensor->rank, ==, 2);
  /* the innermost dimension is the first in the file */
  g_assert_cmpuint (tensor->shape[0], ==, 2);
  g_assert_cmpuint (tensor->shape[1], ==, 3);
  g_assert_cmpuint (tensor->bytes, ==, 12);
  g_assert_cmpuint (tensor->offset % 32, ==, 0);

  tensor = h3_gguf_lookup (gguf, "q");
  g_assert_cmpint (tensor->type, ==, H3_STORED_Q4_0);
  g_assert_cmpuint (tensor->rank, ==, 3);
  g_assert_cmpuint (tensor->shape[0], ==, 2);
  g_assert_cmpuint (tensor->shape[1], ==, 4);
  g_assert_cmpuint (tensor->shape[2], ==, 8);
  g_assert_cmpuint (tensor->bytes, ==, 36);
  g_assert_cmpuint (tensor->offset, ==, h3_gguf_nth (gguf, 0)->offset + 32);
  /* "!!" are within the padding of 28 bytes */
  g_assert_cmpuint (h3_gguf_trailing (gguf), ==, 0);
  bytes->data[tensor->offset + 35] = 7;
  g_assert_true (h3_stored_tensor_read (tensor, 34, 2, got, &error));
  g_assert_cmpmem (got, 2, ((guint8[]){ 0, 7 }), 2);
}

static void
test_trailing (void)
{
  g_autoptr (GByteArray) bytes = build (ONE GOOD " p:32 z:65");
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Gguf) gguf =
      h3_gguf_parse (bytes->data, bytes->len, "f", &error);

  g_assert_no_error (error);
  g_assert_cmpuint (h3_gguf_trailing (gguf), ==, 65);
}

/* Every beginning of a good file is refused, and none crashes. */
static void
test_truncated_anywhere (void)
{
  g_autoptr (GByteArray) bytes = build (LONG);

  for (gsize n = 4; n < bytes->len; n++) {
    g_autofree guint8 *copy = g_memdup2 (bytes->data, n);
    g_autoptr (GError) error = NULL;

    g_assert_null (h3_gguf_parse (copy, n, "cut", &error));
    h3_test_assert_h3_error (error, H3_ERROR_READ, "cut");
  }
}

static void
test_limits (void)
{
  g_autofree gchar *name = g_strnfill (4097, 'n');
  g_autofree gchar *words =
      g_strdup_printf (ONE "s:%s u32:1 u64:1 u32:0 u64:0 p:32 z:4", name);
  g_autoptr (GByteArray) longer = build (words);
  g_autoptr (GByteArray) many = build ("H u64:65537 u64:0 z:1700000");
  g_autoptr (GError) error = NULL;

  g_assert_null (h3_gguf_parse (longer->data, longer->len, "long", &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, "long", "4097 bytes");
  g_clear_error (&error);
  g_assert_null (h3_gguf_parse (many->data, many->len, "many", &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, "many", "65537 tensors");
}

/* A header that claims most of a huge file is not read to its end, and nothing
 * is allocated for it. */
static void
test_huge (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "huge.gguf", NULL);
  g_autoptr (GByteArray) bytes =
      build (KEYS (1) "s:k u32:9 u32:0 u64:60000000000 u8:1");
  g_autoptr (GError) error = NULL;
  gint64 start = g_get_monotonic_time ();

  h3_test_write_file (path, bytes->data, bytes->len);
  g_assert_cmpint (truncate (path, (off_t) 66 << 30), ==, 0);
  g_assert_null (h3_gguf_open (path, &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, path, "k at byte",
      "60000000000 bytes", "a header of more than");
  g_assert_cmpint (g_get_monotonic_time () - start, <, G_USEC_PER_SEC);
  h3_test_remove_tree (dir);
}

static void
test_files (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "f.gguf", NULL);
  g_autofree gchar *absent = g_build_filename (dir, "absent", NULL);
  g_autoptr (GByteArray) bytes = build (LONG);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (H3TensorSet) folder = NULL;
  g_autoptr (H3Gguf) gguf = NULL;
  guint8 got[36];

  g_assert_null (h3_gguf_open (absent, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, absent, "cannot open");
  g_clear_error (&error);
  g_assert_null (h3_gguf_open (dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_OPEN, dir, "no regular file");
  g_clear_error (&error);
  g_assert_false (h3_gguf_is (absent));
  g_assert_false (h3_gguf_is (dir));

  bytes->data[bytes->len - 1] = 9;
  h3_test_write_file (path, bytes->data, bytes->len);
  g_assert_true (h3_gguf_is (path));
  set = h3_tensor_set_open (path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (h3_tensor_set_names (set)->len, ==, 2);
  g_assert_true (h3_stored_tensor_read (h3_tensor_set_get (set, "q", &error), 0,
      36, got, &error));
  g_assert_cmpuint (got[35], ==, 9);

  /* the only one of its folder */
  folder = h3_tensor_set_open (dir, &error);
  g_assert_no_error (error);
  g_assert_true (h3_tensor_set_has (folder, "q"));

  gguf = h3_gguf_open (path, &error);
  h3_test_truncate_file (path, 64);
  g_assert_false (
      h3_stored_tensor_read (h3_gguf_lookup (gguf, "q"), 0, 36, got, &error));
  h3_test_assert_h3_error (error, H3_ERROR_READ, path, "tensor q", "shorter");
  h3_test_remove_tree (dir);
}

/* Another program's names for the same model. */
static void
test_llama_names (void)
{
  static const gchar *const names[] = { "blk.0.attn_q.weight",
    "v.blk.0.ln1.weight" };
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "f.gguf", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree gchar *words =
        g_strdup_printf (ONE "s:%s u32:1 u64:32 u32:8 u64:0 p:32 z:34",
            names[i]);
    g_autoptr (GByteArray) bytes = build (words);
    g_autoptr (GError) error = NULL;

    h3_test_write_file (path, bytes->data, bytes->len);
    g_assert_null (h3_tensor_set_open (path, &error));
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, path, "llama.cpp",
        names[i]);
  }
  h3_test_remove_tree (dir);
}

void
add_gguf_tests (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *name = g_strconcat ("/gguf/header/", cases[i].name, NULL);
    g_test_add_data_func (name, &cases[i], test_case);
  }
  g_test_add_func ("/gguf/contents", test_contents);
  g_test_add_func ("/gguf/trailing", test_trailing);
  g_test_add_func ("/gguf/truncated-anywhere", test_truncated_anywhere);
  g_test_add_func ("/gguf/limits", test_limits);
  g_test_add_func ("/gguf/huge", test_huge);
  g_test_add_func ("/gguf/files", test_files);
  g_test_add_func ("/gguf/llama-names", test_llama_names);
}
