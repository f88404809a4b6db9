/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3progress.h"

#include "model/error.h"
#include "model/printable.h"

/* At most two messages a second of one operation. */
#define MIN_INTERVAL (G_USEC_PER_SEC / 2)

static gint64
remaining_us (const GstH3ProgressReport *report, gint64 elapsed)
{
  if (report->done == 0 || report->total < report->done)
    return -1;
  return (gdouble) elapsed / report->done * (report->total - report->done);
}

/* "about 2 min left", for people */
static void
append_remaining (GString *text, gint64 us)
{
  gint64 seconds = (us + G_USEC_PER_SEC / 2) / G_USEC_PER_SEC;

  if (us < 0)
    return;
  if (seconds < 90)
    g_string_append_printf (text, ", about %" G_GINT64_FORMAT " s left",
        seconds);
  else
    g_string_append_printf (text, ", about %" G_GINT64_FORMAT " min left",
        (seconds + 30) / 60);
}

static gchar *
describe (const GstH3ProgressReport *report, gint64 elapsed)
{
  GString *text = g_string_new (NULL);

  if (!report->unit) {
    g_string_append_printf (text, "%.0f of %.0f MB", report->done / 1e6,
        report->total / 1e6);
  } else if (report->total > 0) {
    g_string_append_printf (text, "%s %" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT,
        report->unit, report->done, report->total);
    if (report->done > 0) {
      gdouble each = (gdouble) elapsed / G_USEC_PER_SEC / report->done;

      if (each >= 0.1)
        g_string_append_printf (text, ", %.1f s/%s", each, report->unit);
      else
        g_string_append_printf (text, ", %.1f ms/%s", each * 1000,
            report->unit);
    }
  }
  append_remaining (text, remaining_us (report, elapsed));
  return g_string_free (text, FALSE);
}

/* A player holds the pipeline in PAUSED until every progress it saw has ended:
 * gst-launch-1.0 does. What streams cannot end there, because sinks hold it, so
 * it is not shown before PLAYING, where its first message is the START. */
static gboolean
show (GstH3ProgressReport *report, GstProgressType *type)
{
  gboolean ends =
      *type != GST_PROGRESS_TYPE_START && *type != GST_PROGRESS_TYPE_CONTINUE;

  if (report->shown)
    return TRUE;
  if (ends ||
      (report->streams && GST_STATE (report->element) != GST_STATE_PLAYING))
    return FALSE;
  *type = GST_PROGRESS_TYPE_START;
  report->shown = TRUE;
  return TRUE;
}

static void
post_shown (GstH3ProgressReport *report, GstProgressType type,
    const gchar *text, gint percent)
{
  gchar *code = g_strconcat ("h3-", report->stage, NULL);
  GstMessage *message =
      gst_message_new_progress (GST_OBJECT_CAST (report->element), type, code,
          text);

  /* the constructor knows 0 and 100 only */
  gst_structure_set (gst_message_writable_structure (message), "percent",
      G_TYPE_INT, percent, NULL);
  gst_element_post_message (report->element, message);
  g_free (code);
}

static void
post (GstH3ProgressReport *report, GstProgressType type, const gchar *text,
    gint percent)
{
  gint64 now = g_get_monotonic_time ();
  gint64 elapsed = now - report->started;
  gint64 remaining = remaining_us (report, elapsed);
  GstH3Progress progress = {
    .job = report->job,
    .stage = report->stage,
    .step = report->done,
    .steps = report->total,
    .elapsed = elapsed * GST_USECOND,
    .remaining = remaining < 0 ? GST_CLOCK_TIME_NONE : remaining * GST_USECOND,
    .peak_bytes = report->peak_bytes,
  };

  if (show (report, &type))
    post_shown (report, type, text, percent);
  gst_element_post_message (report->element,
      gst_message_new_element (GST_OBJECT_CAST (report->element),
          gst_h3_progress_to_structure (&progress)));
  report->posted = now;
}

static gint
percent (const GstH3ProgressReport *report)
{
  if (report->total == 0)
    return 0;
  return MIN (100, report->done * 100.0 / report->total);
}

static void
start (GstH3ProgressReport *report, gboolean streams, GstElement *element,
    const gchar *stage, const gchar *unit, guint64 job, guint64 total,
    guint64 peak_bytes, const gchar *text)
{
  *report = (GstH3ProgressReport){
    .element = element,
    .stage = stage,
    .unit = unit,
    .job = job,
    .total = total,
    .peak_bytes = peak_bytes,
    .started = g_get_monotonic_time (),
    .streams = streams,
  };
  post (report, GST_PROGRESS_TYPE_START, text, 0);
}

void
gst_h3_progress_start (GstH3ProgressReport *report, GstElement *element,
    const gchar *stage, const gchar *unit, guint64 job, guint64 total,
    guint64 peak_bytes, const gchar *text)
{
  start (report, FALSE, element, stage, unit, job, total, peak_bytes, text);
}

void
gst_h3_progress_start_streaming (GstH3ProgressReport *report,
    GstElement *element, const gchar *stage, const gchar *unit, guint64 job,
    guint64 total, guint64 peak_bytes, const gchar *text)
{
  start (report, TRUE, element, stage, unit, job, total, peak_bytes, text);
}

void
gst_h3_progress_update (GstH3ProgressReport *report, guint64 done,
    guint64 total)
{
  gint64 now = g_get_monotonic_time ();
  gchar *text;

  if (!report->started)
    return;
  report->done = done;
  report->total = total;
  if (now - report->posted < MIN_INTERVAL || done >= total)
    return;
  text = describe (report, now - report->started);
  post (report, GST_PROGRESS_TYPE_CONTINUE, text, percent (report));
  g_free (text);
}

void
gst_h3_progress_end (GstH3ProgressReport *report, const GError *error)
{
  gchar *text;

  if (!report->started)
    return;
  if (g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED)) {
    post (report, GST_PROGRESS_TYPE_CANCELED, "canceled", percent (report));
  } else if (error) {
    text = h3_printable (error->message);
    post (report, GST_PROGRESS_TYPE_ERROR, text, percent (report));
    g_free (text);
  } else {
    report->done = report->total;
    text = g_strdup_printf ("done in %.1f s",
        (g_get_monotonic_time () - report->started) / (gdouble) G_USEC_PER_SEC);
    post (report, GST_PROGRESS_TYPE_COMPLETE, text, 100);
    g_free (text);
  }
  report->started = 0;
}
