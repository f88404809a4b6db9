/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/text/text-tests.h"

void
add_presentation_tests (void)
{
}
