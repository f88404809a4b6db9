/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/quantised-layers.h"
#include "model/checkpoint/json-file.h"

#include <string.h>

#define WEIGHT ".weight"
/* What layers' names lack: one thing in a component, so few in a file. */
#define MAX_PREFIXES 8
/* A layer takes about a hundred bytes. */
#define MAX_TEXT (4 << 20)

typedef struct {
  const gchar *path;
  const GPtrArray *names;
  GHashTable *modules; /* of the file: names without ".weight" */
  GPtrArray *prefixes; /* found so far; owned */
} File;

static void
file_init (File *file, const GPtrArray *names, const gchar *path)
{
  file->path = path;
  file->names = names;
  file->prefixes = g_ptr_array_new_with_free_func (g_free);
  file->modules = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < names->len; i++) {
    const gchar *name = names->pdata[i];

    if (g_str_has_suffix (name, WEIGHT))
      g_hash_table_add (file->modules,
          g_strndup (name, strlen (name) - strlen (WEIGHT)));
  }
}

static void
file_clear (File *file)
{
  g_hash_table_unref (file->modules);
  g_ptr_array_unref (file->prefixes);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (File, file_clear)

static gboolean refuse (const File *file, GError **error, const gchar *format,
    ...) G_GNUC_PRINTF (3, 4);

static gboolean
refuse (const File *file, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s: " H3_QUANTISATION_METADATA " %s", file->path, text);
  return FALSE;
}

static gchar *
find_with (const File *file, const gchar *prefix, const gchar *layer)
{
  g_autofree gchar *module = g_strconcat (prefix, layer, NULL);

  return g_hash_table_contains (file->modules, module)
             ? g_steal_pointer (&module)
             : NULL;
}

/* Learns what the file's names have before @layer's. */
static void
learn_prefix (File *file, const gchar *layer)
{
  g_autofree gchar *end = g_strconcat (".", layer, WEIGHT, NULL);

  for (guint i = 0; i < file->names->len; i++) {
    const gchar *name = file->names->pdata[i];

    if (g_str_has_suffix (name, end)) {
      g_ptr_array_add (file->prefixes,
          g_strndup (name, strlen (name) - strlen (end) + 1));
      return;
    }
  }
}

/* The layer's name in the file, or NULL. Free with g_free(). */
static gchar *
find_module (File *file, const gchar *layer)
{
  gchar *module = find_with (file, "", layer);
  guint known = file->prefixes->len;

  for (guint i = 0; !module && i < known; i++)
    module = find_with (file, file->prefixes->pdata[i], layer);
  if (module || known == MAX_PREFIXES)
    return module;
  learn_prefix (file, layer);
  return file->prefixes->len > known
             ? find_with (file, file->prefixes->pdata[known], layer)
             : NULL;
}

/* A marker's object of a layer's value, or NULL. */
static JsonNode *
marker_of (JsonNode *value)
{
  g_autoptr (JsonObject) object = NULL;
  JsonNode *marker;

  if (JSON_NODE_HOLDS_OBJECT (value))
    return json_node_copy (value);
  if (!JSON_NODE_HOLDS_VALUE (value) ||
      json_node_get_value_type (value) != G_TYPE_STRING)
    return NULL;
  object = json_object_new ();
  json_object_set_string_member (object, "format",
      json_node_get_string (value));
  marker = json_node_alloc ();
  return json_node_init_object (marker, object);
}

static gboolean
add_layer (File *file, const gchar *layer, JsonNode *value, GHashTable *layers,
    GError **error)
{
  g_autofree gchar *module = find_module (file, layer);
  JsonNode *marker;

  if (!module)
    return refuse (file, error,
        "has layer %s, but there is no tensor %s" WEIGHT, layer, layer);
  marker = marker_of (value);
  if (!marker)
    return refuse (file, error, "has neither a format nor an object for %s",
        layer);
  g_hash_table_insert (layers, g_steal_pointer (&module), marker);
  return TRUE;
}

GHashTable *
h3_quantised_layers_parse (const gchar *text, const GPtrArray *names,
    const gchar *path, GError **error)
{
  g_autoptr (GHashTable) layers = g_hash_table_new_full (g_str_hash,
      g_str_equal, g_free, (GDestroyNotify) json_node_unref);
  gsize length = strlen (text);
  g_autoptr (JsonNode) root =
      length <= MAX_TEXT ? h3_json_parse (text, length, path, NULL) : NULL;
  g_auto (File) file = { 0 };
  JsonNode *list;
  JsonObjectIter iter;
  const gchar *layer;
  JsonNode *value;

  file_init (&file, names, path);
  list = root ? json_object_get_member (json_node_get_object (root), "layers")
              : NULL;
  if (!list || !JSON_NODE_HOLDS_OBJECT (list)) {
    refuse (&file, error, "is no JSON object with the object \"layers\"");
    return NULL;
  }
  json_object_iter_init (&iter, json_node_get_object (list));
  while (json_object_iter_next (&iter, &layer, &value))
    if (!add_layer (&file, layer, value, layers, error))
      return NULL;
  return g_steal_pointer (&layers);
}
