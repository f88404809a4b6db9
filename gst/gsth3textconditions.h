/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a prompt of h3textenc is read with: from request pads to what the vision
 * tower makes of them. */
#pragma once

#include "gst/gsth3common.h"
#include "gst/gsth3conditionpad.h"
#include "model/text/vision-model.h"

G_BEGIN_DECLS

typedef enum {
  GST_H3_TASK_AUTO,
  GST_H3_TASK_FL2VA,
  GST_H3_TASK_REF2VA,
} GstH3Task;

#define GST_TYPE_H3_TASK (gst_h3_task_get_type ())
GType gst_h3_task_get_type (void);

/* Zeroed at first; clear it. */
typedef struct {
  gboolean collected;
  const gchar *task; /* of caps: "t2va" without any */
  guint n;
  H3TextCondition *list[H3_MAX_REFERENCES + 2];
  H3VisionFeatures *vision; /* once seen; NULL when there is nothing to see */
  gboolean seen;
} GstH3TextConditions;

/**
 * gst_h3_text_conditions_collect:
 * @pads: (element-type GstH3ConditionPad): in any order
 *
 * Once every pad is at EOS, @conditions are collected from what they brought,
 * and stay so until one is flushed or they are cleared. Then each pad has to
 * bring its own again.
 */
gboolean gst_h3_text_conditions_collect (GstH3TextConditions *conditions,
    GList *pads, GstH3Task task, const GstH3Fitting *fitting, gboolean demo,
    GError **error);
extern const GstH3ModelKind gst_h3_vision_kind;
/* Fills in weights and workspace of the vision tower for pictures of which
 * nothing is known but the settings; FALSE where there is no tower. */
gboolean gst_h3_vision_needs (GstH3Common *common, const GstH3Fitting *fitting,
    GstH3Request *request);
/* Runs the vision tower, which is loaded for that alone, unless it ran. */
gboolean gst_h3_text_conditions_see (GstH3TextConditions *conditions,
    GstH3Common *common, H3Stream *stream, const H3Stop *stop, GError **error);
/* At most so many tokens beside the prompt's own. */
gint64 gst_h3_text_conditions_tokens (const GstH3TextConditions *conditions);
void gst_h3_text_conditions_clear (GstH3TextConditions *conditions);

G_END_DECLS
