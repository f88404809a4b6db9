/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A request pad of h3textenc: a picture, a clip or a sound that the prompt is
 * read with. */
#pragma once

#include <gst/base/gstaggregator.h>

#include "gst/gsth3fitting.h"
#include "model/text/text-condition.h"

G_BEGIN_DECLS

typedef enum {
  GST_H3_CONDITION_IMAGE, /* one frame, after which it is at EOS */
  GST_H3_CONDITION_VIDEO, /* all frames; one alone is a picture */
  GST_H3_CONDITION_AUDIO, /* that there is a sound */
} GstH3ConditionMedia;

#define GST_TYPE_H3_CONDITION_PAD (gst_h3_condition_pad_get_type ())
G_DECLARE_FINAL_TYPE (GstH3ConditionPad, gst_h3_condition_pad, GST,
    H3_CONDITION_PAD, GstAggregatorPad)

GstH3ConditionPad *gst_h3_condition_pad_new (GstPadTemplate *template,
    const gchar *name, GstH3ConditionMedia media, guint index);
GstH3ConditionMedia gst_h3_condition_pad_media (GstH3ConditionPad *pad);
guint gst_h3_condition_pad_index (GstH3ConditionPad *pad);

/* The next frame, in the pad's streaming thread: of a clip onto its canvas. It
 * does not wait for the other pads, whose frames may come out of the same
 * demuxer behind this one's; so the pad never has a buffer, only EOS. */
gboolean gst_h3_condition_pad_take (GstH3ConditionPad *pad, GstBuffer *buffer,
    const GstH3Fitting *fitting, gboolean demo, GError **error);
/* Before it is released: that it is unlinked then means nothing. */
void gst_h3_condition_pad_dismiss (GstH3ConditionPad *pad);
/* Drops what came. */
void gst_h3_condition_pad_forget (GstH3ConditionPad *pad);

/* What follows is of the aggregator's task, once the pad is at EOS. A flush in
 * the middle makes it H3_ERROR_CANCELLED, or nothing there. */

/* Whether it was flushed since this was asked last. */
gboolean gst_h3_condition_pad_was_flushed (GstH3ConditionPad *pad);
/* Whether it was unlinked before its EOS, which it has then had instead. */
gboolean gst_h3_condition_pad_was_cut_off (GstH3ConditionPad *pad);
/* A clip's last frame has ended, too. */
gboolean gst_h3_condition_pad_finish (GstH3ConditionPad *pad,
    const GstH3Fitting *fitting, gboolean demo, GError **error);
/* Whether anything came; of a sound, whether there is one. */
gboolean gst_h3_condition_pad_is_there (GstH3ConditionPad *pad);
/* Whether it brought one picture. */
gboolean gst_h3_condition_pad_is_picture (GstH3ConditionPad *pad);
/* The size of that picture. */
void gst_h3_condition_pad_size (GstH3ConditionPad *pad, gint *width,
    gint *height);

/* The picture on its canvas, or the clip's frames. The pad keeps nothing of it. */
H3TextCondition *gst_h3_condition_pad_picture (GstH3ConditionPad *pad,
    H3ConditionKind kind, H3Fit fit, gint canvas_width, gint canvas_height,
    GError **error);
H3TextCondition *gst_h3_condition_pad_clip (GstH3ConditionPad *pad,
    gboolean has_sound, GError **error);

G_END_DECLS
