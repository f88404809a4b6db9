/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of the CUDA device share. Every one is skipped where there is
 * no GPU or no module. */
#pragma once

#include <math.h>
#include <string.h>

#include "cuda/h3-cuda.h"
#include "tests/ops/ops-test.h"

/* The GPU, one for the whole program; NULL: the test has been skipped. */
H3Device *cuda_test_device (void);

/* A random case on both devices. */
typedef struct {
  Ops ops; /* the CPU's side: random values, float32 */
  H3Stream *gpu;
  GPtrArray *all; /* Twin, owned */
} CudaTest;

typedef void (*CudaCase) (CudaTest *test);

void cuda_test_add (const gchar *path, CudaCase run);

/* The same values twice: on the CPU as float32, and on the GPU in the type that
 * is tested, inside memory whose other bytes have to stay as they are. Every
 * second one begins at an odd element. Lives as long as the case. */
typedef struct {
  H3Tensor *cpu, *gpu;
  H3Tensor *memory; /* what gpu is a view of */
  gint64 first;     /* element of memory where gpu begins */
} Twin;

/* Uniform in [-scale, scale), rounded to @dtype on both sides. */
Twin *twin_random (CudaTest *test, H3DType dtype, gdouble scale, guint rank,
    const gint64 *shape);
/* Values that are made already: float32, or int32 when that is @dtype. */
Twin *twin_of (CudaTest *test, H3DType dtype, gconstpointer values, guint rank,
    const gint64 *shape);
/* An output: NaN everywhere on the GPU. */
Twin *twin_out (CudaTest *test, H3DType dtype, guint rank, const gint64 *shape);
/* int32 in 0 .. limit - 1. */
Twin *twin_rows (CudaTest *test, gint64 n, gint limit);
/* Weights of the twin's two sides. Free both with h3_weight_unref(). */
H3Weight *twin_weight_cpu (const Twin *twin);
H3Weight *twin_weight_gpu (const Twin *twin);

/* The GPU's values as float. Free with g_free(). */
gfloat *twin_values (CudaTest *test, const Twin *twin);
/* Waits for both; the relative L2 error is at most @tolerance, no element is
 * further off than 20 times that of the root mean square, NaN is where the CPU
 * has NaN, and nothing was written beside the tensor. */
void twin_check (CudaTest *test, const gchar *what, const Twin *twin,
    gdouble tolerance);
/* What a rounding to @dtype, and sums in float32 before it, may cost. */
gdouble twin_tolerance (H3DType dtype);
