/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of the program test-cuda-ops. */
#pragma once

#include "tests/cuda/cuda-test.h"

void add_rows_tests (void);
void add_matrix_tests (void);
void add_media_tests (void);
void add_encode_tests (void);
void add_encoded_tests (void);
void add_nan_tests (void);
void add_released_tests (void);
void add_device_tests (void);
void add_vision_tests (void);
void add_bytes_tests (void);
