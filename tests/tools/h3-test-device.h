/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of models compute on: the CPU, or, with H3_TEST_BACKEND=cuda, a
 * GPU. Meson runs the same programs on both. */
#pragma once

#include "h3-test.h"
#include "model/ops.h"

G_BEGIN_DECLS

gboolean h3_test_on_gpu (void);
/* For main, before g_test_run(): TRUE, and said in TAP, when it is to be a GPU
 * and there is none. */
gboolean h3_test_skip_program (void);
/* @threads: of the CPU, 0 = all. Free with h3_device_unref(). */
H3Device *h3_test_device_new (guint threads);
/* The one that fits the device. */
gdouble h3_test_tolerance (gdouble cpu, gdouble gpu);
/* Waits for @stream. The values as float, whatever float type they are stored
 * in. Free with g_free(). */
gfloat *h3_test_to_host (H3Stream *stream, const H3Tensor *tensor);

G_END_DECLS
