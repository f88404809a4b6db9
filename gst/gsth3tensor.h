/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* H3Tensor in a GstBuffer and back, without a copy where the device allows. */
#pragma once

#include <gst/h3/h3.h>

#include "model/ops.h"

G_BEGIN_DECLS

/* A buffer with one GstH3Memory over @tensor's data, which it keeps alive. What
 * computes @tensor must have finished. */
GstBuffer *gst_h3_tensor_to_buffer (H3Tensor *tensor);

/**
 * gst_h3_tensor_from_buffer:
 *
 * A tensor of that shape over @buffer's bytes: the very tensor it was made from
 * when it lives on @device, else a copy. A buffer of another size, or one that
 * cannot be read, is H3_ERROR_FORMAT naming @what.
 */
H3Tensor *gst_h3_tensor_from_buffer (GstBuffer *buffer, H3Device *device,
    H3DType dtype, guint rank, const gint64 *shape, const gchar *what,
    GError **error);

H3DType gst_h3_type_to_dtype (GstH3Type type);

G_END_DECLS
