/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gst/gsth3decoder.h"

G_BEGIN_DECLS

#define GST_TYPE_H3_AUDIO_VAE (gst_h3_audio_vae_get_type ())
G_DECLARE_FINAL_TYPE (GstH3AudioVae, gst_h3_audio_vae, GST, H3_AUDIO_VAE,
    GstH3Decoder)

G_END_DECLS
