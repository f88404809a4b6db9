/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "denoise-test.h"

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  if (h3_test_skip_program ())
    return 0;
  add_clip_tests ();
  add_condition_tests ();
  add_cancel_tests ();
  add_setting_tests ();
  add_error_tests ();
  add_lora_tests ();
  return g_test_run ();
}
