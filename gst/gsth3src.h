/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_H3_SRC (gst_h3_src_get_type ())
G_DECLARE_FINAL_TYPE (GstH3Src, gst_h3_src, GST, H3_SRC, GstBin)

G_END_DECLS
