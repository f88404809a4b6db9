/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of operations share: a case runs with 1, 2 and 3 threads, compares
 * its results with a plain double-precision loop, and gives the same bytes
 * whatever the threads. meson runs each program once per instruction set
 * (H3_CPU_ISA); what the machine lacks is skipped. */
#pragma once

#include <math.h>
#include <string.h>

#include "cpu/h3-cpu.h"

typedef struct {
  H3Device *device;
  H3Stream *stream;
  GRand *rand;     /* the same sequence in every run of a case */
  GByteArray *out; /* results, compared between thread counts */
  GPtrArray *tensors;
} Ops;

typedef void (*OpsCase) (Ops *ops);

/* A g_test that runs @run with each number of threads. */
void ops_add (const gchar *path, OpsCase run);

/* A case's surroundings, for programs that run cases in their own way; @threads
 * 0: as many as there are processors. */
void ops_init (Ops *ops, guint threads);
void ops_clear (Ops *ops);

/* Tensors that the case need not free. Half of them are views that start at an
 * odd place. Random values lie in [-scale, scale). */
H3Tensor *ops_new (Ops *ops, H3DType dtype, guint rank, const gint64 *shape);
H3Tensor *ops_random (Ops *ops, H3DType dtype, gdouble scale, guint rank,
    const gint64 *shape);
/* Random rows in 0 .. limit - 1. */
H3Tensor *ops_rows (Ops *ops, gint64 n, gint limit);
H3Weight *ops_weight (Ops *ops, H3DType dtype, gdouble scale, guint rank,
    const gint64 *shape);
#define DIMS(...)                                                              \
  G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ })), (gint64[])                       \
  {                                                                            \
    __VA_ARGS__                                                                \
  }

/* Random bytes, and scales near 1, for what @encoding needs; without rotation
 * and column scale. Free with h3_weight_unref(). */
H3Weight *ops_encoded (Ops *ops, H3Encoding encoding, gint64 rows, gint64 cols);

gint ops_pick (Ops *ops, gint first, gint last);
/* Element @i as double, and float32 data. */
gdouble ops_at (const H3Tensor *tensor, gint64 i);
gfloat *ops_f32 (const H3Tensor *tensor);

/* The stream has no error; @y's bytes are kept and each element is within
 * @tolerance * (1 + |want|) of @want, which is freed. */
void ops_check (Ops *ops, const H3Tensor *y, gdouble *want, gdouble tolerance);
/* The stream failed with @code and a message that has @text; it is usable
 * again. */
void ops_fails (Ops *ops, H3Error code, const gchar *text);
