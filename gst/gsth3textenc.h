/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gst/base/gstaggregator.h>

G_BEGIN_DECLS

#define GST_TYPE_H3_TEXT_ENC (gst_h3_text_enc_get_type ())
G_DECLARE_FINAL_TYPE (GstH3TextEnc, gst_h3_text_enc, GST, H3_TEXT_ENC,
    GstAggregator)

/* Pictures or clips will come on pads that are requested only in PAUSED: the
 * vision tower is planned for from READY→PAUSED on. */
void gst_h3_text_enc_expect_pictures (GstH3TextEnc *self, gboolean expect);

G_END_DECLS
