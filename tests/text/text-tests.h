/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of test-text. */
#pragma once

#include <glib.h>

void add_splitter_tests (void);
void add_presentation_tests (void);
void add_tokenizer_tests (void);
void add_vision_size_tests (void);
