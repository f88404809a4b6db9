/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What h3src reads beside its prompt: keyframes and references, decoded by
 * GStreamer's own elements and told apart by what is in them.
 *
 *   uridecodebin ─ chain ─┬ tee ─ queue ─ h3textenc.image_N or video_N
 *     (to raw, upright)   │     └ queue ─ h3videovaeenc ─ h3denoise.ref_N, …
 *                         └ h3audiovaeenc ─ h3denoise.ref_audio_N
 *
 * Every stream is held at its first buffer until all inputs have shown what they
 * hold, and the prompt is held with them: h3textenc and h3denoise begin when
 * their pads have what they ask for, so all pads must be there first. */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

typedef struct _GstH3SrcInputs GstH3SrcInputs;

/* @bin's children; none is owned. */
GstH3SrcInputs *gst_h3_src_inputs_new (GstBin *bin, GstElement *prompt,
    GstElement *text_enc, GstElement *denoise);
/* Of closed inputs. */
void gst_h3_src_inputs_free (GstH3SrcInputs *inputs);

/**
 * gst_h3_src_inputs_open:
 * @first, @last: (nullable), @references: (nullable): paths or URIs
 * @timeout: the longest time, in ns, in which nothing comes of an input that is
 *   waited for; 0: it is waited for good
 *
 * READY→PAUSED, before the children: adds what decodes them. Errors after that
 * are posted. Nothing is added without any.
 *
 * Returns: FALSE with H3_ERROR_SETTINGS, or GST_CORE_ERROR when an element is
 * missing; there is nothing to close then
 */
gboolean gst_h3_src_inputs_open (GstH3SrcInputs *inputs, const gchar *first,
    const gchar *last, const gchar *const *references, GstClockTime timeout,
    GError **error);
/* READY→PAUSED, after the children: from now on what does not come is missed. */
void gst_h3_src_inputs_started (GstH3SrcInputs *inputs);
/* After PAUSED→READY, and after READY→NULL: takes all of it out again. */
void gst_h3_src_inputs_close (GstH3SrcInputs *inputs);

/* With the bin's state lock: what is decoded is given up, and the prompt is not
 * read; its EOS passes. Does nothing when the prompt is on its way already. */
void gst_h3_src_inputs_cancel (GstH3SrcInputs *inputs);
/* Takes a child's ERROR message and returns it: the same when it is about none
 * of the inputs, else one that begins with its name; NULL after an input's first
 * error, what comes then follows from it. */
GstMessage *gst_h3_src_inputs_take_error (GstH3SrcInputs *inputs,
    GstMessage *message);

G_END_DECLS
