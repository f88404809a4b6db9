/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gsth3message.h"

gboolean
gst_h3_message_parse_progress (GstMessage *message, GstH3Progress *progress)
{
  const GstStructure *s;
  GstH3Progress found;

  if (GST_MESSAGE_TYPE (message) != GST_MESSAGE_ELEMENT)
    return FALSE;
  s = gst_message_get_structure (message);
  if (!s || !gst_structure_has_name (s, GST_H3_MESSAGE_PROGRESS))
    return FALSE;
  found.stage = gst_structure_get_string (s, "stage");
  if (!found.stage ||
      !gst_structure_get (s, "job", G_TYPE_UINT64, &found.job, "step",
          G_TYPE_UINT64, &found.step, "steps", G_TYPE_UINT64, &found.steps,
          "elapsed-ns", G_TYPE_UINT64, &found.elapsed, "remaining-ns",
          G_TYPE_UINT64, &found.remaining, "peak-bytes", G_TYPE_UINT64,
          &found.peak_bytes, NULL))
    return FALSE;
  *progress = found;
  return TRUE;
}

GstStructure *
gst_h3_progress_to_structure (const GstH3Progress *progress)
{
  return gst_structure_new (GST_H3_MESSAGE_PROGRESS, "job", G_TYPE_UINT64,
      progress->job, "stage", G_TYPE_STRING, progress->stage, "step",
      G_TYPE_UINT64, progress->step, "steps", G_TYPE_UINT64, progress->steps,
      "elapsed-ns", G_TYPE_UINT64, progress->elapsed, "remaining-ns",
      G_TYPE_UINT64, progress->remaining, "peak-bytes", G_TYPE_UINT64,
      progress->peak_bytes, NULL);
}
