/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <glib.h>

#include "tests/picture/picture-tests.h"

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add_prepare_tests ();
  add_resize_tests ();
  return g_test_run ();
}
