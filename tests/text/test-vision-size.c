/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/text/text-tests.h"

void
add_vision_size_tests (void)
{
}
