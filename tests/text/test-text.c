/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/text/text-tests.h"

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add_splitter_tests ();
  add_tokenizer_tests ();
  add_presentation_tests ();
  add_vision_size_tests ();
  return g_test_run ();
}
