/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as a config.json, and every way to read a value out of it. */
#include "fuzz.h"

#include "model/checkpoint/config.h"

/* Getters fail with an error or not at all. */
static void
check (gboolean ok, GError **error)
{
  g_assert_true (ok == (*error == NULL));
  if (!ok) {
    g_assert_true ((*error)->domain == H3_ERROR);
    g_assert_true (g_utf8_validate ((*error)->message, -1, NULL));
  }
  g_clear_error (error);
}

static void
read_all (const H3Config *config, const gchar *key)
{
  g_autofree gchar *s = NULL;
  g_autoptr (GError) error = NULL;
  gint i = 0, ints[3];
  gdouble d = 0;
  gboolean b = FALSE;
  gfloat floats[3];
  guint n;

  h3_config_has (config, key);
  check (h3_config_get_int (config, key, 1, 100, &i, &error), &error);
  check (h3_config_get_double (config, key, &d, &error), &error);
  check (h3_config_get_bool (config, key, &b, &error), &error);
  check (h3_config_get_string (config, key, &s, &error), &error);
  n = G_N_ELEMENTS (ints);
  check (h3_config_get_ints (config, key, -9, 9, ints, &n, &error), &error);
  n = G_N_ELEMENTS (floats);
  check (h3_config_get_floats (config, key, floats, &n, &error), &error);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static const gchar *const keys[] = { "a", "a.b", "a.0", "a.b.c.1",
    "hidden_size", "text_config.rope_scaling.mrope_section", "patch_size",
    "_class_name" };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Config) config =
      h3_config_parse ((const gchar *) data, size, "fuzz", &error);

  g_assert_true ((config == NULL) == (error != NULL));
  for (guint i = 0; config && i < G_N_ELEMENTS (keys); i++)
    read_all (config, keys[i]);
  return 0;
}
