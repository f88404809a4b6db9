/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The plugin's elements. */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

GST_ELEMENT_REGISTER_DECLARE (h3textenc)
GST_ELEMENT_REGISTER_DECLARE (h3denoise)
GST_ELEMENT_REGISTER_DECLARE (h3videovae)
GST_ELEMENT_REGISTER_DECLARE (h3audiovae)
GST_ELEMENT_REGISTER_DECLARE (h3videovaeenc)
GST_ELEMENT_REGISTER_DECLARE (h3audiovaeenc)
GST_ELEMENT_REGISTER_DECLARE (h3src)

G_END_DECLS
