/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A strict reader for the one JSON shape a safetensors header may have.
 *
 * Not json-glib: that keeps the last of duplicate keys without a word, turns
 * large integers into doubles, recurses into whatever a hostile file nests, and
 * builds a tree of a million nodes for a file of 60 000 tensors. */
#include "model/checkpoint/safetensors-header.h"

#include <string.h>

typedef struct {
  gchar *begin, *at, *end;
  const gchar *path;
  GHashTable *metadata; /* not owned */
} Scanner;

static gboolean
fail (const Scanner *s, GError **error, const gchar *expected)
{
  g_set_error (error, H3_ERROR, H3_ERROR_READ,
      "%s: header is not a JSON object as safetensors needs it: "
      "expected %s at header byte %" G_GSIZE_FORMAT "%s",
      s->path, expected, (gsize) (s->at - s->begin),
      s->at >= s->end ? " (the header ends there)" : "");
  return FALSE;
}

static void
skip_space (Scanner *s)
{
  while (s->at < s->end &&
         (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
    s->at++;
}

/* Takes @c, after white space, when it is next. */
static gboolean
accept (Scanner *s, gchar c)
{
  skip_space (s);
  if (s->at >= s->end || *s->at != c)
    return FALSE;
  s->at++;
  return TRUE;
}

static gboolean
expect (Scanner *s, gchar c, const gchar *expected, GError **error)
{
  return accept (s, c) || fail (s, error, expected);
}

static gint
scan_hex4 (Scanner *s)
{
  gint value = 0;

  if (s->end - s->at < 4)
    return -1;
  for (guint i = 0; i < 4; i++) {
    gint digit = g_ascii_xdigit_value (s->at[i]);
    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  s->at += 4;
  return value;
}

/* The XXXX of \uXXXX, with the low half of a surrogate pair. NUL and halves
 * that stand alone are refused: no name can hold them. */
static gboolean
scan_unicode_escape (Scanner *s, gchar **out, GError **error)
{
  gint code = scan_hex4 (s);

  if (code >= 0xd800 && code < 0xdc00) {
    gint low = -1;
    if (s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u') {
      s->at += 2;
      low = scan_hex4 (s);
    }
    code = low >= 0xdc00 && low < 0xe000
               ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00)
               : -1;
  } else if (code >= 0xdc00 && code < 0xe000) {
    code = -1;
  }
  if (code <= 0)
    return fail (s, error, "a \\u escape of a character");
  *out += g_unichar_to_utf8 (code, *out);
  return TRUE;
}

static gboolean
scan_escape (Scanner *s, gchar **out, GError **error)
{
  static const gchar from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  const gchar *found;

  if (s->at >= s->end)
    return fail (s, error, "the rest of an escape");
  if (*s->at == 'u') {
    s->at++;
    return scan_unicode_escape (s, out, error);
  }
  found = *s->at ? strchr (from, *s->at) : NULL;
  if (!found)
    return fail (s, error, "a JSON escape");
  *(*out)++ = to[found - from];
  s->at++;
  return TRUE;
}

/* Decoded in place and ended with a NUL: an escape is never shorter than what
 * it stands for, and the closing quote makes room for the NUL. */
static gboolean
scan_string (Scanner *s, const gchar *expected, gchar **string, GError **error)
{
  gchar *out;

  if (!expect (s, '"', expected, error))
    return FALSE;
  *string = out = s->at;
  for (;;) {
    gchar c;

    if (s->at >= s->end)
      return fail (s, error, "the end of a string");
    c = *s->at++;
    if (c == '"')
      break;
    if ((guchar) c < 0x20) {
      s->at--;
      return fail (s, error, "no control character in a string");
    }
    if (c != '\\')
      *out++ = c;
    else if (!scan_escape (s, &out, error))
      return FALSE;
  }
  *out = '\0';
  return TRUE;
}

/* Digits only: no sign, fraction, exponent or leading zero. */
static gboolean
scan_u64 (Scanner *s, guint64 *value, GError **error)
{
  static const gchar expected[] = "a plain integer that fits 64 bits";
  gchar *first;

  skip_space (s);
  first = s->at;
  *value = 0;
  while (s->at < s->end && g_ascii_isdigit (*s->at)) {
    guint64 digit = *s->at - '0';
    if (*value > (G_MAXUINT64 - digit) / 10)
      return fail (s, error, expected);
    *value = *value * 10 + digit;
    s->at++;
  }
  if (s->at == first || (*first == '0' && s->at - first > 1) ||
      (s->at < s->end && strchr (".eE+-", *s->at) && *s->at))
    return fail (s, error, expected);
  return TRUE;
}

static gboolean
scan_u64_array (Scanner *s, guint64 *values, guint max, guint *n,
    const gchar *tensor, const gchar *field, GError **error)
{
  *n = 0;
  if (!expect (s, '[', "'['", error))
    return FALSE;
  if (accept (s, ']'))
    return TRUE;
  do {
    if (*n == max) {
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: tensor %s: %s has more than %u numbers", s->path, tensor, field,
          max);
      return FALSE;
    }
    if (!scan_u64 (s, &values[(*n)++], error))
      return FALSE;
  } while (accept (s, ','));
  return expect (s, ']', "',' or ']'", error);
}

static gboolean
duplicate (const Scanner *s, const gchar *what, const gchar *key,
    GError **error)
{
  g_set_error (error, H3_ERROR, H3_ERROR_READ, "%s: %s %s is there twice",
      s->path, what, key);
  return FALSE;
}

/* {"format": "pt", ...} */
static gboolean
scan_metadata (Scanner *s, GError **error)
{
  if (!expect (s, '{', "'{'", error))
    return FALSE;
  if (accept (s, '}'))
    return TRUE;
  do {
    gchar *key, *value;

    if (!scan_string (s, "a metadata key", &key, error) ||
        !expect (s, ':', "':'", error))
      return FALSE;
    skip_space (s);
    if (s->at < s->end && *s->at != '"') {
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: metadata value %s is not a string", s->path, key);
      return FALSE;
    }
    if (!scan_string (s, "a string", &value, error))
      return FALSE;
    if (!g_hash_table_insert (s->metadata, key, value))
      return duplicate (s, "metadata key", key, error);
  } while (accept (s, ','));
  return expect (s, '}', "',' or '}'", error);
}

enum {
  FIELD_DTYPE = 1 << 0,
  FIELD_SHAPE = 1 << 1,
  FIELD_OFFSETS = 1 << 2,
  FIELD_ALL = FIELD_DTYPE | FIELD_SHAPE | FIELD_OFFSETS
};

static gboolean
scan_field (Scanner *s, H3HeaderEntry *entry, const gchar *key, guint *seen,
    GError **error)
{
  guint64 offsets[2];
  guint field, n;
  gchar *dtype;

  if (g_str_equal (key, "dtype"))
    field = FIELD_DTYPE;
  else if (g_str_equal (key, "shape"))
    field = FIELD_SHAPE;
  else if (g_str_equal (key, "data_offsets"))
    field = FIELD_OFFSETS;
  else {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: unknown field %s; needed: dtype, shape, data_offsets",
        s->path, entry->name, key);
    return FALSE;
  }
  if (*seen & field) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: field %s is there twice", s->path, entry->name, key);
    return FALSE;
  }
  *seen |= field;

  switch (field) {
    case FIELD_DTYPE:
      if (!scan_string (s, "the dtype's name", &dtype, error))
        return FALSE;
      entry->dtype = dtype;
      return TRUE;
    case FIELD_SHAPE:
      return scan_u64_array (s, entry->shape, H3_STORED_MAX_RANK, &entry->rank,
          entry->name, key, error);
    default:
      if (!scan_u64_array (s, offsets, 2, &n, entry->name, key, error))
        return FALSE;
      if (n != 2)
        return fail (s, error, "two data_offsets");
      entry->begin = offsets[0];
      entry->end = offsets[1];
      return TRUE;
  }
}

static gboolean
scan_entry (Scanner *s, H3HeaderEntry *entry, GError **error)
{
  guint seen = 0;

  if (!expect (s, '{', "'{'", error))
    return FALSE;
  do {
    gchar *key;

    if (!scan_string (s, "dtype, shape or data_offsets", &key, error) ||
        !expect (s, ':', "':'", error) ||
        !scan_field (s, entry, key, &seen, error))
      return FALSE;
  } while (accept (s, ','));
  if (!expect (s, '}', "',' or '}'", error))
    return FALSE;
  if (seen != FIELD_ALL) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: needs dtype, shape and data_offsets", s->path,
        entry->name);
    return FALSE;
  }
  return TRUE;
}

static gboolean
check_name (const Scanner *s, const gchar *name, const GArray *entries,
    GError **error)
{
  gsize length = strlen (name);

  if (length == 0 || length > H3_STORED_MAX_NAME) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: a tensor's name has %" G_GSIZE_FORMAT " bytes; needed: 1 to %d",
        s->path, length, H3_STORED_MAX_NAME);
    return FALSE;
  }
  if (entries->len == H3_STORED_MAX_TENSORS) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ, "%s: more than %d tensors",
        s->path, H3_STORED_MAX_TENSORS);
    return FALSE;
  }
  return TRUE;
}

static gboolean
scan_members (Scanner *s, GArray *entries, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  do {
    H3HeaderEntry entry = { NULL };
    gchar *name;

    if (!scan_string (s, "a tensor's name", &name, error) ||
        !expect (s, ':', "':'", error))
      return FALSE;
    if (!g_hash_table_add (seen, name))
      return duplicate (s, "tensor", name, error);
    if (g_str_equal (name, "__metadata__")) {
      if (!scan_metadata (s, error))
        return FALSE;
      continue;
    }
    entry.name = name;
    if (!check_name (s, name, entries, error) || !scan_entry (s, &entry, error))
      return FALSE;
    g_array_append_val (entries, entry);
  } while (accept (s, ','));
  return TRUE;
}

GArray *
h3_safetensors_header_parse (gchar *json, gsize length, const gchar *path,
    GHashTable *metadata, GError **error)
{
  g_autoptr (GArray) entries =
      g_array_new (FALSE, FALSE, sizeof (H3HeaderEntry));
  Scanner s = { json, json, json + length, path, metadata };
  const gchar *invalid;

  if (!g_utf8_validate_len (json, length, &invalid)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: header is not a JSON object: header byte %" G_GSIZE_FORMAT
        " is not valid UTF-8",
        path, (gsize) (invalid - json));
    return NULL;
  }
  if (length == 0 || *s.at != '{') {
    fail (&s, error, "'{'");
    return NULL;
  }
  s.at++;
  if (!accept (&s, '}')) {
    if (!scan_members (&s, entries, error) ||
        !expect (&s, '}', "',' or '}'", error))
      return NULL;
  }
  while (s.at < s.end && *s.at == ' ')
    s.at++;
  if (s.at < s.end) {
    fail (&s, error, "only spaces after the object");
    return NULL;
  }
  return g_steal_pointer (&entries);
}
