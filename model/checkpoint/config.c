/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/config.h"
#include "model/checkpoint/json-file.h"

#include <math.h>

struct _H3Config {
  gchar *path;
  JsonNode *root;
};

static H3Config *
config_new (const gchar *path, JsonNode *root)
{
  H3Config *config;

  if (!root)
    return NULL;
  config = g_new0 (H3Config, 1);
  config->path = g_strdup (path);
  config->root = root;
  return config;
}

H3Config *
h3_config_open (const gchar *path, GError **error)
{
  return config_new (path, h3_json_load (path, error));
}

H3Config *
h3_config_parse (const gchar *text, gsize length, const gchar *name,
    GError **error)
{
  return config_new (name, h3_json_parse (text, length, name, error));
}

void
h3_config_free (H3Config *config)
{
  if (!config)
    return;
  json_node_unref (config->root);
  g_free (config->path);
  g_free (config);
}

const gchar *
h3_config_path (const H3Config *config)
{
  return config->path;
}

/* A member of an object, or an element of an array ("2"); NULL for neither. */
static JsonNode *
child (JsonNode *node, const gchar *name)
{
  guint64 n;

  if (JSON_NODE_HOLDS_OBJECT (node))
    return json_object_get_member (json_node_get_object (node), name);
  if (!JSON_NODE_HOLDS_ARRAY (node) ||
      !g_ascii_string_to_unsigned (name, 10, 0, G_MAXUINT, &n, NULL) ||
      n >= json_array_get_length (json_node_get_array (node)))
    return NULL;
  return json_array_get_element (json_node_get_array (node), n);
}

/* The value at a dotted path, or NULL. */
static JsonNode *
find (const H3Config *config, const gchar *key)
{
  g_auto (GStrv) parts = g_strsplit (key, ".", -1);
  JsonNode *node = config->root;

  for (guint i = 0; parts[i] && node; i++)
    node = child (node, parts[i]);
  return node && !JSON_NODE_HOLDS_NULL (node) ? node : NULL;
}

gboolean
h3_config_has (const H3Config *config, const gchar *key)
{
  return find (config, key) != NULL;
}

static gboolean
wrong (const H3Config *config, const gchar *key, JsonNode *node,
    const gchar *needed, GError **error)
{
  g_autofree gchar *found = json_to_string (node, FALSE);

  if (g_utf8_strlen (found, -1) > 80)
    *g_utf8_offset_to_pointer (found, 80) = '\0';
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s is %s; needed: %s",
      config->path, key, found, needed);
  return FALSE;
}

static gboolean
node_to_int (JsonNode *node, gint64 min, gint64 max, gint *value)
{
  gint64 v;

  if (!JSON_NODE_HOLDS_VALUE (node) ||
      json_node_get_value_type (node) != G_TYPE_INT64)
    return FALSE;
  v = json_node_get_int (node);
  if (v < MAX (min, G_MININT) || v > MIN (max, G_MAXINT))
    return FALSE;
  *value = v;
  return TRUE;
}

static gboolean
node_to_double (JsonNode *node, gdouble *value)
{
  GType type;

  if (!JSON_NODE_HOLDS_VALUE (node))
    return FALSE;
  type = json_node_get_value_type (node);
  if (type != G_TYPE_INT64 && type != G_TYPE_DOUBLE)
    return FALSE;
  *value = json_node_get_double (node);
  return isfinite (*value);
}

gboolean
h3_config_get_int (const H3Config *config, const gchar *key, gint64 min,
    gint64 max, gint *value, GError **error)
{
  JsonNode *node = find (config, key);
  g_autofree gchar *needed = NULL;

  if (!node || node_to_int (node, min, max, value))
    return TRUE;
  needed = g_strdup_printf ("an integer from %" G_GINT64_FORMAT
                            " to %" G_GINT64_FORMAT,
      min, max);
  return wrong (config, key, node, needed, error);
}

gboolean
h3_config_get_double (const H3Config *config, const gchar *key, gdouble *value,
    GError **error)
{
  JsonNode *node = find (config, key);

  return !node || node_to_double (node, value) ||
         wrong (config, key, node, "a number", error);
}

gboolean
h3_config_get_bool (const H3Config *config, const gchar *key, gboolean *value,
    GError **error)
{
  JsonNode *node = find (config, key);

  if (!node)
    return TRUE;
  if (!JSON_NODE_HOLDS_VALUE (node) ||
      json_node_get_value_type (node) != G_TYPE_BOOLEAN)
    return wrong (config, key, node, "true or false", error);
  *value = json_node_get_boolean (node);
  return TRUE;
}

gboolean
h3_config_get_string (const H3Config *config, const gchar *key, gchar **value,
    GError **error)
{
  JsonNode *node = find (config, key);

  if (!node)
    return TRUE;
  if (!JSON_NODE_HOLDS_VALUE (node) ||
      json_node_get_value_type (node) != G_TYPE_STRING)
    return wrong (config, key, node, "a string", error);
  g_free (*value);
  *value = json_node_dup_string (node);
  return TRUE;
}

/* The list at @key, no longer than @room. FALSE, with @error set, when there is
 * something else; *list NULL when there is nothing. */
static gboolean
find_list (const H3Config *config, const gchar *key, guint room,
    JsonArray **list, GError **error)
{
  JsonNode *node = find (config, key);

  *list = NULL;
  if (!node)
    return TRUE;
  if (!JSON_NODE_HOLDS_ARRAY (node) ||
      json_array_get_length (json_node_get_array (node)) > room) {
    g_autofree gchar *needed =
        g_strdup_printf ("a list of at most %u numbers", room);
    return wrong (config, key, node, needed, error);
  }
  *list = json_node_get_array (node);
  return TRUE;
}

gboolean
h3_config_get_ints (const H3Config *config, const gchar *key, gint64 min,
    gint64 max, gint *values, guint *n, GError **error)
{
  JsonArray *list;

  if (!find_list (config, key, *n, &list, error))
    return FALSE;
  if (!list)
    return TRUE;
  *n = json_array_get_length (list);
  for (guint i = 0; i < *n; i++) {
    JsonNode *node = json_array_get_element (list, i);
    if (!node_to_int (node, min, max, &values[i])) {
      g_autofree gchar *needed =
          g_strdup_printf ("integers from "
                           "%" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
              min, max);
      return wrong (config, key, node, needed, error);
    }
  }
  return TRUE;
}

gboolean
h3_config_get_floats (const H3Config *config, const gchar *key, gfloat *values,
    guint *n, GError **error)
{
  JsonArray *list;

  if (!find_list (config, key, *n, &list, error))
    return FALSE;
  if (!list)
    return TRUE;
  *n = json_array_get_length (list);
  for (guint i = 0; i < *n; i++) {
    JsonNode *node = json_array_get_element (list, i);
    gdouble value;
    if (!node_to_double (node, &value) || !isfinite ((gfloat) value))
      return wrong (config, key, node, "numbers", error);
    values[i] = value;
  }
  return TRUE;
}

gboolean
h3_config_refuse (const H3Config *config, GError **error, const gchar *format,
    ...)
{
  g_autofree gchar *what = NULL;
  va_list args;

  va_start (args, format);
  what = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s",
      h3_config_path (config), what);
  return FALSE;
}
