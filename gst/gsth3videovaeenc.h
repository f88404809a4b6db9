/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gst/gsth3encoder.h"

G_BEGIN_DECLS

typedef enum {
  GST_H3_FIT_STRETCH,
  GST_H3_FIT_COVER,
} GstH3Fit;

#define GST_TYPE_H3_FIT (gst_h3_fit_get_type ())
#define GST_TYPE_H3_POSTERIOR (gst_h3_posterior_get_type ())
GType gst_h3_fit_get_type (void);
GType gst_h3_posterior_get_type (void);

#define GST_TYPE_H3_VIDEO_VAE_ENC (gst_h3_video_vae_enc_get_type ())
G_DECLARE_FINAL_TYPE (GstH3VideoVaeEnc, gst_h3_video_vae_enc, GST,
    H3_VIDEO_VAE_ENC, GstH3Encoder)

/* The canvas of a first keyframe of @width x @height, by the element's settings;
 * from READY on. */
gboolean gst_h3_video_vae_enc_canvas (GstH3VideoVaeEnc *self, gint width,
    gint height, gint *canvas_width, gint *canvas_height, GError **error);

G_END_DECLS
