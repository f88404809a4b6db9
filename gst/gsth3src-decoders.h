/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What GStreamer's decoders must be told so that pictures come out right. */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

/* Of a uridecodebin that has not begun. */
void gst_h3_src_set_up_decoders (GstElement *decode);

G_END_DECLS
