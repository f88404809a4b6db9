/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

/* Makes what the CUDA device says (GLib's log domain "h3cuda") the debug
 * category h3cuda, and what checkpoints and models say ("h3") the category
 * h3model (spec/gstreamer.md 11.4). Once per process. */
void gst_h3_log_init (void);

G_END_DECLS
