/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of models compute on: the CPU, or, with H3_TEST_BACKEND=cuda, a
 * GPU. Meson runs the same programs on both. */
#pragma once

#include "h3-test.h"
#include "model/ops.h"

G_BEGIN_DECLS

gboolean h3_test_on_gpu (void);
/* What a device's name begins with: "cpu" or "cuda". */
const gchar *h3_test_backend (void);
/* For main, before g_test_run(): TRUE, and said in TAP, when it is to be a GPU
 * and there is none. */
gboolean h3_test_skip_program (void);
/* @threads: of the CPU, 0 = all. Free with h3_device_unref(). */
H3Device *h3_test_device_new (guint threads);
/* The one that fits the device. */
gdouble h3_test_tolerance (gdouble cpu, gdouble gpu);
/* Of what whole elements make, to the golden numbers, which are float32's:
 * relative L2 of prompt embeddings and of latents (the demo's eight steps gather
 * more than the tiny checkpoint's four), and the largest difference of a sample, from golden latents and from a prompt. */
#define H3_TEST_EMBEDS h3_test_tolerance (1e-5, 3e-2)
#define H3_TEST_LATENTS h3_test_tolerance (1e-4, 8e-3)
#define H3_TEST_DEMO_LATENTS h3_test_tolerance (1e-4, 1.2e-2)
#define H3_TEST_SAMPLES h3_test_tolerance (1e-4, 3e-4)
#define H3_TEST_REQUEST_SAMPLES h3_test_tolerance (1e-4, 5e-3)
/* Fails unless @n 8-bit codes are the golden ones: on a CPU but for one in a
 * thousand that is off by one; on a GPU to 48 dB. */
#define h3_test_assert_codes(got, want, n)                                     \
  h3_test_check_codes (G_STRLOC, got, want, n)
void h3_test_check_codes (const gchar *where, const guint8 *got,
    const gint32 *want, gsize n);
/* Waits for @stream. The values as float, whatever float type they are stored
 * in. Free with g_free(). */
gfloat *h3_test_to_host (H3Stream *stream, const H3Tensor *tensor);

G_END_DECLS
