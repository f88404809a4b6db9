/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The CPU as a device: float32, OpenBLAS for products, a thread pool for the rest. */
#pragma once

#include "model/ops.h"

G_BEGIN_DECLS

/* What sizes on a CPU follow from, for plans alone, too. */
static inline void
h3_cpu_describe (H3Device *device)
{
  device->act_dtype = H3_DTYPE_F32;
  device->vae_dtype = H3_DTYPE_F32;
  device->encodings = (1u << H3_N_ENCODINGS) - 1;
  device->host_memory = TRUE;
}

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
