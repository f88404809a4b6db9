/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Small JSON files: values by path, and files that are none. */
#include "test-checkpoint.h"

#include "model/checkpoint/config.h"

static H3Config *
parse (const gchar *text, GError **error)
{
  return h3_config_parse (text, strlen (text), "c.json", error);
}

static void
test_values (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Config) config =
      parse ("{\"i\":7,\"d\":0.5,\"b\":true,\"s\":\"x\",\"null\":null,"
             "\"o\":{\"p\":{\"list\":[4,2,2],\"f\":[1,0.25]}}}",
          &error);
  gint i = 1, list[3] = { 0 };
  gdouble d = 0;
  gboolean b = FALSE;
  g_autofree gchar *s = NULL;
  gfloat f[2] = { 0 };
  guint n = 3, m = 2;

  g_assert_no_error (error);
  g_assert_cmpstr (h3_config_path (config), ==, "c.json");
  g_assert_true (h3_config_has (config, "o.p.list"));
  g_assert_false (h3_config_has (config, "o.p.list.x"));
  g_assert_false (h3_config_has (config, "null"));
  g_assert_true (h3_config_get_int (config, "i", 0, 7, &i, &error));
  g_assert_cmpint (i, ==, 7);
  g_assert_true (h3_config_get_double (config, "i", &d, &error));
  g_assert_cmpfloat (d, ==, 7);
  g_assert_true (h3_config_get_double (config, "d", &d, &error));
  g_assert_cmpfloat (d, ==, 0.5);
  g_assert_true (h3_config_get_bool (config, "b", &b, &error));
  g_assert_true (b);
  g_assert_true (h3_config_get_string (config, "s", &s, &error));
  g_assert_cmpstr (s, ==, "x");
  g_assert_true (
      h3_config_get_ints (config, "o.p.list", 0, 9, list, &n, &error));
  g_assert_cmpuint (n, ==, 3);
  g_assert_cmpint (list[0], ==, 4);
  g_assert_true (h3_config_get_floats (config, "o.p.f", f, &m, &error));
  g_assert_cmpfloat (f[1], ==, 0.25f);
}

/* What is absent, or null, leaves the default. */
static void
test_defaults (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Config) config = parse ("{\"null\":null,\"o\":{}}", &error);
  static const gchar *const keys[] = { "null", "x", "o.x", "null.x" };

  for (guint k = 0; k < G_N_ELEMENTS (keys); k++) {
    gint i = 3;
    guint n = 1;
    gdouble d = 4;
    g_assert_true (h3_config_get_int (config, keys[k], 0, 1, &i, &error));
    g_assert_true (h3_config_get_double (config, keys[k], &d, &error));
    g_assert_true (h3_config_get_ints (config, keys[k], 0, 1, &i, &n, &error));
    g_assert_cmpint (i, ==, 3);
    g_assert_cmpfloat (d, ==, 4);
    g_assert_cmpuint (n, ==, 1);
  }
}

static void
test_wrong_values (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Config) config =
      parse ("{\"i\":7,\"d\":0.5,\"s\":\"x\",\"big\":99999999999,\"list\":[1,2,"
             "3],"
             "\"mixed\":[1,\"a\"],\"o\":{\"n\":true}}",
          &error);
  gint i = 0, list[2];
  gdouble d;
  gboolean b;
  gfloat f[3];
  guint n;
  g_autofree gchar *s = NULL;

#define REFUSED(call, ...)                                                     \
  G_STMT_START                                                                 \
  {                                                                            \
    g_assert_false (call);                                                     \
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, "c.json",             \
        __VA_ARGS__);                                                          \
    g_clear_error (&error);                                                    \
  }                                                                            \
  G_STMT_END
  REFUSED (h3_config_get_int (config, "i", 8, 9, &i, &error), "i is 7",
      "from 8 to 9");
  REFUSED (h3_config_get_int (config, "d", 0, 9, &i, &error), "d is 0.5");
  REFUSED (h3_config_get_int (config, "big", 0, G_MAXINT64, &i, &error),
      "big is 99999999999");
  REFUSED (h3_config_get_int (config, "s", 0, 9, &i, &error), "s is \"x\"",
      "an integer");
  REFUSED (h3_config_get_int (config, "list", 0, 9, &i, &error), "list is [1");
  REFUSED (h3_config_get_double (config, "s", &d, &error), "a number");
  REFUSED (h3_config_get_double (config, "o.n", &d, &error), "o.n is true");
  REFUSED (h3_config_get_bool (config, "i", &b, &error), "true or false");
  REFUSED (h3_config_get_string (config, "i", &s, &error), "a string");
  n = 2;
  REFUSED (h3_config_get_ints (config, "list", 0, 9, list, &n, &error),
      "at most 2 numbers");
  n = 2;
  REFUSED (h3_config_get_ints (config, "mixed", 0, 9, list, &n, &error),
      "mixed is \"a\"");
  n = 2;
  REFUSED (h3_config_get_ints (config, "i", 0, 9, list, &n, &error), "a list");
  n = 3;
  REFUSED (h3_config_get_floats (config, "mixed", f, &n, &error), "numbers");
#undef REFUSED
  g_assert_cmpint (i, ==, 0);
}

static void
test_no_json (void)
{
  static const gchar *const texts[] = {
    "",
    "[]",
    "7",
    "{",
    "{\"a\":}",
    "null",
    "{\"a\":\"\xff\"}",
    "{\"a\":\"\\377\"}",
    "{\"a\":\"\\x\"}",
    "{\"a\":\"\\u12g4\"}",
    "{\"a\":\"\\u0000\"}",
    "{\"a\":\"\\ud800\"}",
    "{\"a\":\"\\ud800\\u0041\"}",
    "{\"a\":\"\\udc00\"}",
    "{\"a\":\"\\",
    "{\"a\":\"",
    "{\"a\":1} // comment",
    "{\"a\":/* \" */1}",
    "version https://git-lfs.github.com/spec/v1\n",
  };
  g_autofree gchar *deep = g_strnfill (100000, '[');

  for (guint i = 0; i <= G_N_ELEMENTS (texts); i++) {
    g_autoptr (GError) error = NULL;
    g_assert_null (parse (i < G_N_ELEMENTS (texts) ? texts[i] : deep, &error));
    h3_test_assert_h3_error (error, H3_ERROR_READ, "c.json");
  }
}

static void
test_no_file (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *absent = g_build_filename (dir, "config.json", NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (h3_config_open (absent, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, absent);
  g_clear_error (&error);
  g_assert_null (h3_config_open (dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_OPEN, dir);
  h3_test_remove_tree (dir);
}

void
add_config_tests (void)
{
  g_test_add_func ("/config/values", test_values);
  g_test_add_func ("/config/defaults", test_defaults);
  g_test_add_func ("/config/wrong-values", test_wrong_values);
  g_test_add_func ("/config/no-json", test_no_json);
  g_test_add_func ("/config/no-file", test_no_file);
}
