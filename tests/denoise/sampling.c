/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Everything of denoising that needs neither a device nor weights. */
#include "test-denoise.h"

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  h3_test_add_geometry ();
  h3_test_add_noise ();
  h3_test_add_packing ();
  h3_test_add_schedule ();
  h3_test_add_solver ();
  return g_test_run ();
}
