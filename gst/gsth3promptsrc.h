/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The head of h3src: one prompt, then EOS. Private to the plugin. */
#pragma once

#include <gst/base/gstpushsrc.h>

G_BEGIN_DECLS

#define GST_TYPE_H3_PROMPT_SRC (gst_h3_prompt_src_get_type ())
G_DECLARE_FINAL_TYPE (GstH3PromptSrc, gst_h3_prompt_src, GST, H3_PROMPT_SRC,
    GstPushSrc)

/* From the next start on. */
void gst_h3_prompt_src_set_prompt (GstH3PromptSrc *src, const gchar *prompt);

G_END_DECLS
