/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A target on its corpus, without libFuzzer: fuzz-NAME-corpus FOLDER... Every
 * file is a test; what once was found stays found. */
#include "fuzz.h"

#include <string.h>

static void
run_file (gconstpointer path)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *bytes = NULL;
  g_autofree guint8 *exact = NULL;
  gsize size;

  g_file_get_contents (path, &bytes, &size, &error);
  g_assert_no_error (error);
  /* no NUL after the end, as g_file_get_contents() puts there */
  exact = g_malloc (MAX (size, 1));
  memcpy (exact, bytes, size);
  g_assert_cmpint (LLVMFuzzerTestOneInput (exact, size), ==, 0);
}

static guint
add_folder (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GDir) dir = g_dir_open (path, 0, &error);
  const gchar *name;
  guint n = 0;

  g_assert_no_error (error);
  while ((name = g_dir_read_name (dir))) {
    g_autofree gchar *test = g_strconcat ("/corpus/", name, NULL);
    g_test_add_data_func_full (test, g_build_filename (path, name, NULL),
        run_file, g_free);
    n++;
  }
  return n;
}

int
main (int argc, char **argv)
{
  guint n = 0;

  g_test_init (&argc, &argv, NULL);
  for (gint i = 1; i < argc; i++)
    n += add_folder (argv[i]);
  g_assert_cmpuint (n, >, 0);
  return g_test_run ();
}
