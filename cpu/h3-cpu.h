/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The CPU as a device: float32, OpenBLAS for products, a thread pool for the rest. */
#pragma once

#include "model/ops.h"

G_BEGIN_DECLS

/**
 * h3_cpu_device_new:
 * @threads: 0 = $H3_CPU_THREADS, else the processors this process may use
 *
 * H3_CPU_ISA=baseline|avx2 in the environment forces an instruction set; else
 * the best one of the processor is taken. H3_ERROR_SETTINGS when the environment
 * asks for what cannot be.
 *
 * The same bytes come out whatever the number of threads. Sets OpenBLAS to one
 * thread for the whole process: the device cuts products itself.
 */
H3Device *h3_cpu_device_new (guint threads, GError **error);

G_END_DECLS
