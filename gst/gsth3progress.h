/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Progress of one operation on the bus (spec/gstreamer.md 11.2): a PROGRESS
 * message for people, an element message "h3-progress" for programs. */
#pragma once

#include <gst/gst.h>
#include <gst/h3/h3.h>

G_BEGIN_DECLS

/* One operation, used by one thread; lives on the stack. */
typedef struct {
  GstElement *element; /* not owned */
  const gchar *stage;  /* "load", "encode", "denoise", "decode" */
  const gchar *unit;   /* "step", "token", "frame"; NULL: bytes */
  guint64 job;
  guint64 peak_bytes;
  guint64 done, total;
  gint64 started, posted; /* monotonic us; 0 = not yet */
  gboolean streams;       /* cannot end before PLAYING */
  gboolean shown;         /* its PROGRESS START was posted */
} GstH3ProgressReport;

/* Posts START with @text. @total 0: not known yet. */
void gst_h3_progress_start (GstH3ProgressReport *report, GstElement *element,
    const gchar *stage, const gchar *unit, guint64 job, guint64 total,
    guint64 peak_bytes, const gchar *text);
/* The same for an operation that pushes data and so cannot end in PAUSED: its
 * PROGRESS messages begin in PLAYING, the element messages at once. */
void gst_h3_progress_start_streaming (GstH3ProgressReport *report,
    GstElement *element, const gchar *stage, const gchar *unit, guint64 job,
    guint64 total, guint64 peak_bytes, const gchar *text);
/* Posts CONTINUE, at most twice a second; the last step always goes out as
 * COMPLETE's 100 %. */
void gst_h3_progress_update (GstH3ProgressReport *report, guint64 done,
    guint64 total);
/* Ends it: COMPLETE when @error is NULL, CANCELED for H3_ERROR_CANCELLED, else
 * ERROR (call it after the error message). Does nothing when not started. */
void gst_h3_progress_end (GstH3ProgressReport *report, const GError *error);

G_END_DECLS
