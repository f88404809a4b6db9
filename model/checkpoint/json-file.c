/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/json-file.h"

#include <glib/gstdio.h>
#include <sys/stat.h>

/* json-glib recurses into what it reads: a file of brackets would end the
 * process for want of stack. */
#define MAX_DEPTH 64
/* The largest there is, the text encoder's index, has 100 kB. */
#define MAX_BYTES (64 * 1024 * 1024)

static gboolean
nests_too_deep (const gchar *text, gsize length)
{
  gboolean in_string = FALSE;
  guint depth = 0;

  for (gsize i = 0; i < length; i++) {
    gchar c = text[i];
    if (in_string) {
      if (c == '\\')
        i++;
      else if (c == '"')
        in_string = FALSE;
    } else if (c == '"') {
      in_string = TRUE;
    } else if (c == '{' || c == '[') {
      if (++depth > MAX_DEPTH)
        return TRUE;
    } else if ((c == '}' || c == ']') && depth > 0) {
      depth--;
    }
  }
  return FALSE;
}

JsonNode *
h3_json_parse (const gchar *text, gsize length, const gchar *name,
    GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (GError) local = NULL;
  JsonNode *root;

  if (length > MAX_BYTES || nests_too_deep (text, length)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: too large or nested too deep for a configuration file", name);
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

JsonNode *
h3_json_load (const gchar *path, GError **error)
{
  g_autofree gchar *text = NULL;
  g_autoptr (GError) local = NULL;
  GStatBuf st;
  gsize length;

  if (g_stat (path, &st) == 0 &&
      (!S_ISREG (st.st_mode) || st.st_size > MAX_BYTES)) {
    g_set_error (error, H3_ERROR, H3_ERROR_OPEN,
        "%s: cannot open (no regular file, or larger than %d bytes)", path,
        MAX_BYTES);
    return NULL;
  }
  if (!g_file_get_contents (path, &text, &length, &local)) {
    gboolean absent =
        g_error_matches (local, G_FILE_ERROR, G_FILE_ERROR_NOENT) ||
        g_error_matches (local, G_FILE_ERROR, G_FILE_ERROR_NOTDIR);
    g_set_error (error, H3_ERROR, absent ? H3_ERROR_NOT_FOUND : H3_ERROR_OPEN,
        "%s: cannot open (%s)", path, local->message);
    return NULL;
  }
  return h3_json_parse (text, length, path, error);
}
