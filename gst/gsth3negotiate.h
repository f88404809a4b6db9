/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gst/h3/h3.h>

G_BEGIN_DECLS

/**
 * gst_h3_choose_caps:
 * @system: fixed caps in system memory, consumed
 *
 * Those caps in the memory that what is linked to @src takes, device memory
 * first. NULL with GST_CORE_ERROR_NEGOTIATION, saying what is offered and what
 * is taken, when it takes neither. (transfer full)
 */
GstCaps *gst_h3_choose_caps (GstPad *src, GstCaps *system, GError **error);

/* Gives @caps the width and height of @structure, where it has them: numbers,
 * ranges or lists, times @ratio, or, when @up is FALSE, divided by it. FALSE when
 * none of them can be. */
gboolean gst_h3_limit_sizes (GstCaps *caps, const GstStructure *structure,
    gint ratio, gboolean up);

G_END_DECLS
