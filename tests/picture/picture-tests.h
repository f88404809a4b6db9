/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

void add_prepare_tests (void);
void add_resize_tests (void);
