/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the model's errors to the bus (spec/gstreamer.md 11.3). */
#pragma once

#include <gst/gst.h>

#include "model/error.h"

G_BEGIN_DECLS

/**
 * gst_h3_element_error:
 * @error: of domain H3_ERROR, or a GStreamer domain, which passes unchanged
 * @debug: paths and numbers for the debug text, or NULL
 *
 * Posts one error message. H3_ERROR_CANCELLED posts nothing: somebody asked for
 * it. Call it without holding a lock.
 */
void gst_h3_element_error (GstElement *element, const GError *error,
    const gchar *debug);

G_END_DECLS
