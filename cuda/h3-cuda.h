/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* NVIDIA GPUs as a device. Its code is in a module that is loaded when a GPU is
 * asked for, so that everything else loads where no CUDA is. */
#pragma once

#include "model/ops.h"

G_BEGIN_DECLS

/* H3Device.decoded of these devices: 10240 rows of 14336 bytes are less, too. */
#define H3_CUDA_DECODED ((gsize) 144 << 20)

/* What sizes on a GPU follow from, for plans where there is none, too. */
static inline void
h3_cuda_describe (H3Device *device)
{
  device->act_dtype = H3_DTYPE_BF16;
  device->vae_dtype = H3_DTYPE_F16;
  device->encodings = (1u << H3_N_ENCODINGS) - 1;
  device->decoded = H3_CUDA_DECODED;
}

/* The module's file name, and the name of the function of this type in it. */
#define H3_CUDA_MODULE "libh3cuda.so"
#define H3_CUDA_DEVICE_NEW "h3_cuda_device_new"
typedef H3Device *(*H3CudaDeviceNew) (gint ordinal, GError **error);

/* Where a module of that file name may be, in the order to look: beside the file
 * that this code is in, as installed and as built in @build_folder, then where it
 * was installed. (element-type filename) (transfer full) */
GPtrArray *h3_cuda_module_paths (const gchar *name, const gchar *build_folder);

/* Whether there is an NVIDIA driver. Cheap, where h3_cuda_open_device() loads
 * half a gigabyte of libraries to find out. */
gboolean h3_cuda_have_driver (void);

/**
 * h3_cuda_open_device:
 * @ordinal: among the visible devices; -1 the one with most free memory
 *
 * Loads the module, once, from $H3_CUDA_MODULE, or else from beside the file
 * that this code is in or from where it was installed, and makes a device.
 *
 * Errors: no module, no driver, no device, an ordinal out of range
 * H3_ERROR_NOT_FOUND; a device older than the kernels, or one that this build has
 * none for, H3_ERROR_SETTINGS; a library of CUDA's missing H3_ERROR_INIT; an
 * exclusive device in use H3_ERROR_BUSY.
 */
H3Device *h3_cuda_open_device (gint ordinal, GError **error);

/* In the module. */
H3Device *h3_cuda_device_new (gint ordinal, GError **error);

G_END_DECLS
