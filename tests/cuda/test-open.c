/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finding the CUDA module: what is said when it is not there, or not one. Runs
 * everywhere, no GPU is needed. */
#include "cuda/h3-cuda.h"
#include "tests/tools/h3-test.h"

static void
expect (const gchar *module, gint code, const gchar *text)
{
  g_autoptr (GError) error = NULL;

  g_setenv ("H3_CUDA_MODULE", module, TRUE);
  g_assert_null (h3_cuda_open_device (-1, &error));
  h3_test_assert_h3_error (error, code, text);
}

static void
test_absent (void)
{
  expect ("/nowhere/libh3cuda.so", H3_ERROR_NOT_FOUND, "/nowhere/libh3cuda.so");
}

static void
test_damaged (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "libh3cuda.so", NULL);

  h3_test_write_file (path, "no library", 10);
  expect (path, H3_ERROR_INIT, path);
  h3_test_remove_tree (dir);
}

/* A library, but another one. */
static void
test_another (void)
{
  expect (H3_TEST_LIBRARY, H3_ERROR_INIT, "is no CUDA module");
}

/* Without $H3_CUDA_MODULE it is looked for beside the program. */
static void
test_default (void)
{
  g_autoptr (GError) error = NULL;
  H3Device *device;

  g_setenv ("H3_CUDA_MODULE", "", TRUE);
  device = h3_cuda_open_device (-1, &error);
  if (device)
    h3_device_unref (device); /* an installed module, and a GPU */
  else
    g_assert_true (error->domain == H3_ERROR);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/open/absent", test_absent);
  g_test_add_func ("/cuda/open/damaged", test_damaged);
  g_test_add_func ("/cuda/open/another", test_another);
  g_test_add_func ("/cuda/open/default", test_default);
  return g_test_run ();
}
