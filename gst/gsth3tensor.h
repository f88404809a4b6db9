/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* H3Tensor in a GstBuffer and back, without a copy where the device allows. */
#pragma once

#include <gst/h3/h3.h>

#include "model/ops.h"

G_BEGIN_DECLS

/**
 * gst_h3_tensor_to_buffer:
 * @stream: (nullable): what @tensor is computed on; NULL when that has finished
 *
 * A buffer with one GstH3Memory over @tensor's data, which it keeps alive. With
 * @stream nobody waits here: the memory's `ready` is an event behind the work,
 * and whoever reads the memory waits for that, on its own stream where it can.
 * What fails later than this call is the reader's failure, so a producer that
 * must not pass on a failure, or looks at the result itself, synchronises first.
 *
 * Returns: (nullable): NULL with the stream's failure
 */
GstBuffer *gst_h3_tensor_to_buffer (H3Tensor *tensor, H3Stream *stream,
    GError **error);

/**
 * gst_h3_tensor_from_buffer:
 * @stream: what will read the tensor; made to wait for the memory's `ready`
 *
 * A tensor of that shape over @buffer's bytes, on @stream's device: the very
 * tensor it was made from when that lives there; a copy from device to device
 * when the memory is somebody else's GstH3Memory, or another device's; else a
 * copy through the host. Copies have finished when this returns. A buffer of
 * another size, or one that cannot be read, is H3_ERROR_FORMAT naming @what.
 */
H3Tensor *gst_h3_tensor_from_buffer (GstBuffer *buffer, H3Stream *stream,
    H3DType dtype, guint rank, const gint64 *shape, const gchar *what,
    GError **error);

H3DType gst_h3_type_to_dtype (GstH3Type type);

G_END_DECLS
