/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/text/vision-test.h"

void
add_vision_model_tests (void)
{
}
