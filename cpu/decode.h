/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A weight's numbers, piece by piece, as float32. */
#pragma once

#include "cpu/cpu.h"

/* Pieces begin at multiples of it: every block and every rotation ends there. */
#define H3_DECODE_COLS 1024

G_STATIC_ASSERT (H3_DECODE_COLS % H3_MAX_ROTATION == 0);

/**
 * h3_cpu_decode:
 * @weight: in any encoding, plain too
 * @first: a multiple of #H3_DECODE_COLS
 * @n: columns, a multiple of #H3_DECODE_COLS or all to the end of the row
 * @dst: [n], w[row, first .. first + n)
 */
void H3_ISA (h3_cpu_decode) (const H3Weight *weight, gint64 row, gint64 first,
    gint64 n, gfloat *dst);
