/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gst/gsth3encoder.h"

G_BEGIN_DECLS

#define GST_TYPE_H3_AUDIO_VAE_ENC (gst_h3_audio_vae_enc_get_type ())
G_DECLARE_FINAL_TYPE (GstH3AudioVaeEnc, gst_h3_audio_vae_enc, GST,
    H3_AUDIO_VAE_ENC, GstH3Encoder)

G_END_DECLS
