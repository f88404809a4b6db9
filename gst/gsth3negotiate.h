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

G_END_DECLS
