/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reading the element message "h3-progress". */
#pragma once

#include <gst/h3/gsth3prelude.h>

G_BEGIN_DECLS

#define GST_H3_MESSAGE_PROGRESS "h3-progress"

/**
 * GstH3Progress:
 * @job: the clip's number, from 0; 0 while loading
 * @stage: "load", "encode", "denoise" or "decode"; owned by the message
 * @step, @steps: done and in all, in the stage's own unit (load: bytes)
 * @elapsed, @remaining: nanoseconds; @remaining is GST_CLOCK_TIME_NONE before
 *   there is anything to estimate it from
 * @peak_bytes: planned memory of the stage: weights and workspace
 */
typedef struct {
  guint64 job;
  const gchar *stage;
  guint64 step, steps;
  GstClockTime elapsed, remaining;
  guint64 peak_bytes;
} GstH3Progress;

/* FALSE when @message is another one. */
GST_H3_API
gboolean gst_h3_message_parse_progress (GstMessage *message,
    GstH3Progress *progress);

/* The message's structure. (transfer full) */
GST_H3_API
GstStructure *gst_h3_progress_to_structure (const GstH3Progress *progress);

G_END_DECLS
