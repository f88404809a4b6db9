/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3strings.h"

#include <string.h>

gchar **
gst_h3_strings_from_array (const GValue *array)
{
  guint n = gst_value_array_get_size (array);
  gchar **strings = n > 0 ? g_new0 (gchar *, n + 1) : NULL;

  for (guint i = 0; i < n; i++) {
    const gchar *text =
        g_value_get_string (gst_value_array_get_value (array, i));
    strings[i] = g_strdup (text ? text : "");
  }
  return strings;
}

void
gst_h3_strings_to_array (gchar **strings, GValue *array)
{
  for (; strings && *strings; strings++) {
    GValue value = G_VALUE_INIT;

    g_value_init (&value, G_TYPE_STRING);
    g_value_set_string (&value, *strings);
    gst_value_array_append_and_take_value (array, &value);
  }
}

static void
lora_clear (gpointer data)
{
  H3AdapterChoice *choice = data;

  g_free (choice->path);
}

static H3AdapterChoice
parse_lora (const gchar *text)
{
  const gchar *colon = strrchr (text, ':');
  g_autofree gchar *name = NULL;
  gchar *end = NULL, *path;
  gdouble strength = 1;

  if (colon && colon > text && colon[1]) {
    strength = g_ascii_strtod (colon + 1, &end);
    if (*end) {
      strength = 1;
      colon = NULL;
    }
  } else {
    colon = NULL;
  }
  name = colon ? g_strndup (text, colon - text) : g_strdup (text);
  path = g_str_has_prefix (name, "file://")
             ? g_filename_from_uri (name, NULL, NULL)
             : NULL;
  return (H3AdapterChoice){ path ? path : g_steal_pointer (&name), strength };
}

GArray *
gst_h3_loras_parse (gchar **strings)
{
  GArray *loras = g_array_new (FALSE, FALSE, sizeof (H3AdapterChoice));

  g_array_set_clear_func (loras, lora_clear);
  for (; strings && *strings; strings++) {
    H3AdapterChoice choice = parse_lora (*strings);

    g_array_append_val (loras, choice);
  }
  return loras;
}
