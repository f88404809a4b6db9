/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gst/gsth3decoder.h"

G_BEGIN_DECLS

#define GST_TYPE_H3_VIDEO_VAE (gst_h3_video_vae_get_type ())
G_DECLARE_FINAL_TYPE (GstH3VideoVae, gst_h3_video_vae, GST, H3_VIDEO_VAE,
    GstH3Decoder)

G_END_DECLS
