/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/json-file.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

/* json-glib recurses into what it reads: a file of brackets would end the
 * process for want of stack. */
#define MAX_DEPTH 64
/* The largest there is, the text encoder's index, has 100 kB. */
#define MAX_BYTES (64 * 1024 * 1024)

/* XXXX of \uXXXX at @text; -1 when it is not there. */
static gint
hex4 (const gchar *text, gsize length)
{
  gint value = 0;

  if (length < 4)
    return -1;
  for (guint i = 0; i < 4; i++) {
    gint digit = g_ascii_xdigit_value (text[i]);
    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* Bytes of the escape at @text, 0 when it is none of JSON's. json-glib takes C's
 * octal ones too, which make invalid UTF-8, a NUL that ends the string early,
 * and aborts on half a surrogate pair. */
static gsize
escape_length (const gchar *text, gsize length)
{
  gint code;

  if (length < 2 || !memchr ("\"\\/bfnrtu", text[1], 9))
    return 0;
  if (text[1] != 'u')
    return 2;
  code = hex4 (text + 2, length - 2);
  if (code >= 0xd800 && code < 0xdc00) {
    gint low = length >= 12 && text[6] == '\\' && text[7] == 'u'
                   ? hex4 (text + 8, length - 8)
                   : -1;
    return low >= 0xdc00 && low < 0xe000 ? 12 : 0;
  }
  return code > 0 && (code < 0xdc00 || code >= 0xe000) ? 6 : 0;
}

/* Bytes of the string at @text, with its quotes; 0 when it has no end or an
 * escape that is none. */
static gsize
string_length (const gchar *text, gsize length)
{
  gsize i = 1;

  while (i < length && text[i] != '"') {
    gsize n = text[i] == '\\' ? escape_length (text + i, length - i) : 1;
    if (n == 0)
      return 0;
    i += n;
  }
  return i < length ? i + 1 : 0;
}

/* What is wrong before json-glib sees the text, or NULL. Bytes that no JSON has
 * outside of strings are refused here: in comments, which json-glib would skip,
 * quotes would not mean what they are counted as. */
static const gchar *
find_hazard (const gchar *text, gsize length)
{
  guint depth = 0;

  for (gsize i = 0; i < length; i++) {
    gchar c = text[i];
    if (c == '"') {
      gsize n = string_length (text + i, length - i);
      if (n == 0)
        return "not valid JSON: a string without an end or a bad escape";
      i += n - 1;
    } else if (c == '{' || c == '[') {
      if (++depth > MAX_DEPTH)
        return "nested too deep for a configuration file";
    } else if (c == '}' || c == ']') {
      depth -= depth > 0;
    } else if (!g_ascii_isalnum (c) && !memchr (" \t\r\n,:+-.", c, 9)) {
      return "not valid JSON: a stray character outside of strings";
    }
  }
  return NULL;
}

JsonNode *
h3_json_parse (const gchar *text, gsize length, const gchar *name,
    GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (GError) local = NULL;
  const gchar *hazard;
  JsonNode *root;

  hazard = length > MAX_BYTES ? "too large for a configuration file"
                              : find_hazard (text, length);
  if (hazard) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ, "%s: %s", name, hazard);
    return NULL;
  }
  if (!g_utf8_validate_len (text, length, NULL)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ, "%s: not valid UTF-8", name);
    return NULL;
  }
  if (!json_parser_load_from_data (parser, text, length, &local)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ, "%s: not valid JSON: %s", name,
        local->message);
    return NULL;
  }
  root = json_parser_get_root (parser);
  if (!root || !JSON_NODE_HOLDS_OBJECT (root)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ, "%s: not a JSON object", name);
    return NULL;
  }
  return json_node_ref (root);
}

gboolean
h3_text_file_load (const gchar *path, gchar **text, gsize *length,
    GError **error)
{
  g_autoptr (GError) local = NULL;
  gboolean absent;
  GStatBuf st;

  if (g_stat (path, &st) == 0 &&
      (!S_ISREG (st.st_mode) || st.st_size > MAX_BYTES)) {
    g_set_error (error, H3_ERROR, H3_ERROR_OPEN,
        "%s: cannot open (no regular file, or larger than %d bytes)", path,
        MAX_BYTES);
    return FALSE;
  }
  if (g_file_get_contents (path, text, length, &local))
    return TRUE;
  absent = g_error_matches (local, G_FILE_ERROR, G_FILE_ERROR_NOENT) ||
           g_error_matches (local, G_FILE_ERROR, G_FILE_ERROR_NOTDIR);
  g_set_error (error, H3_ERROR, absent ? H3_ERROR_NOT_FOUND : H3_ERROR_OPEN,
      "%s: cannot open (%s)", path, local->message);
  return FALSE;
}

JsonNode *
h3_json_load (const gchar *path, GError **error)
{
  g_autofree gchar *text = NULL;
  gsize length;

  if (!h3_text_file_load (path, &text, &length, error))
    return NULL;
  return h3_json_parse (text, length, path, error);
}
