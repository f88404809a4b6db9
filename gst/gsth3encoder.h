/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What h3videovaeenc and h3audiovaeenc share: a stream in, one latent out. */
#pragma once

#include <gst/h3/h3.h>

#include "gst/gsth3common.h"

G_BEGIN_DECLS

typedef enum {
  GST_H3_ROLE_FIRST_FRAME,
  GST_H3_ROLE_LAST_FRAME,
  GST_H3_ROLE_REFERENCE,
} GstH3Role;

#define GST_TYPE_H3_ROLE (gst_h3_role_get_type ())
GType gst_h3_role_get_type (void);

#define GST_TYPE_H3_ENCODER (gst_h3_encoder_get_type ())
G_DECLARE_DERIVABLE_TYPE (GstH3Encoder, gst_h3_encoder, GST, H3_ENCODER,
    GstElement)

/**
 * GstH3EncoderClass: all run in the sink pad's streaming thread; the model is
 * that of gst_h3_common_acquire()
 * @set_caps: of the stream
 * @take: one buffer of it
 * @complete: whether the latent can be made before EOS
 * @finish: the latent of what came in, and its caps' facts; NULL with an error
 * @reset: forgets what came in; the device's stream is about to go
 */
struct _GstH3EncoderClass {
  GstElementClass parent_class;

  gboolean (*set_caps) (GstH3Encoder *self, GstCaps *caps, GError **error);
  gboolean (*take) (GstH3Encoder *self, GstBuffer *buffer, const H3Stop *stop,
      GError **error);
  gboolean (*complete) (GstH3Encoder *self);
  H3Tensor *(*finish) (GstH3Encoder *self, const H3Stop *stop,
      GstH3LatentInfo *info, GError **error);
  void (*reset) (GstH3Encoder *self);
};

/* From the subclass' init: the element's model and its sink template. */
void gst_h3_encoder_setup (GstH3Encoder *self, const GstH3CommonFuncs *funcs);
GstH3Common *gst_h3_encoder_common (GstH3Encoder *self);
GstH3Role gst_h3_encoder_role (GstH3Encoder *self);
/* The stream to compute on; NULL with an error. */
H3Stream *gst_h3_encoder_stream (GstH3Encoder *self, GError **error);

G_END_DECLS
