/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3textconditions.h"

#include "gst/gsth3enums.h"

/* "<Picture 9>: " and the vision block's ends; "<12.5 seconds>" of a block */
#define LABEL_TOKENS 16

GType
gst_h3_task_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_TASK_AUTO,
        "Without request pads from text alone; with one or two image pads and "
        "nothing else fl2va; else ref2va",
        "auto" },
    { GST_H3_TASK_FL2VA,
        "The pictures are keyframes: the clip's first frame, its last, or both "
        "in this order",
        "fl2va" },
    { GST_H3_TASK_REF2VA, "They are references that the prompt speaks of",
        "ref2va" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Task", values);
}

/* --- from pads to conditions --- */

static gint
compare_pads (gconstpointer a, gconstpointer b)
{
  guint x = gst_h3_condition_pad_index ((GstH3ConditionPad *) a);
  guint y = gst_h3_condition_pad_index ((GstH3ConditionPad *) b);

  return x < y ? -1 : x > y;
}

static gboolean
any_flushed (GList *pads)
{
  gboolean any = FALSE;

  for (GList *l = pads; l; l = l->next)
    any |= gst_h3_condition_pad_was_flushed (l->data);
  return any;
}

static gboolean
all_at_eos (GList *pads)
{
  for (GList *l = pads; l; l = l->next)
    if (!gst_aggregator_pad_is_eos (l->data))
      return FALSE;
  return TRUE;
}

/* FALSE, of the pad that @error is about. */
static gboolean
fail_pad (GstPad *pad, GError **error)
{
  g_prefix_error (error, "Pad \"%s\": ", GST_PAD_NAME (pad));
  return FALSE;
}

static gboolean
finish_all (GList *pads, const GstH3Fitting *fitting, gboolean demo,
    GError **error)
{
  for (GList *l = pads; l; l = l->next)
    if (!gst_h3_condition_pad_finish (l->data, fitting, demo, error))
      return fail_pad (l->data, error);
  return TRUE;
}

static gboolean
check_linked (GList *pads, GError **error)
{
  for (GList *l = pads; l; l = l->next)
    if (gst_h3_condition_pad_was_cut_off (l->data)) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "Pad \"%s\" was unlinked before it had EOS: release a pad that is "
          "not used",
          GST_PAD_NAME (l->data));
      return FALSE;
    }
  return TRUE;
}

static gboolean
are_keyframes (GList *pads, GstH3Task task)
{
  guint n = 0;

  if (task != GST_H3_TASK_AUTO)
    return task == GST_H3_TASK_FL2VA;
  for (GList *l = pads; l; l = l->next) {
    if (gst_h3_condition_pad_media (l->data) != GST_H3_CONDITION_IMAGE)
      return FALSE;
    n++;
  }
  return n <= 2;
}

static gboolean
add (GstH3TextConditions *conditions, H3TextCondition *condition, GstPad *pad,
    GError **error)
{
  if (!condition)
    return fail_pad (pad, error);
  if (conditions->n == G_N_ELEMENTS (conditions->list)) {
    h3_text_condition_free (condition);
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "More than %d pictures, clips and sounds were given",
        (gint) G_N_ELEMENTS (conditions->list));
    return FALSE;
  }
  conditions->list[conditions->n++] = condition;
  return TRUE;
}

static gboolean
nothing_came (GstPad *pad, GError **error)
{
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "Pad \"%s\" had EOS before any frame", GST_PAD_NAME (pad));
  return FALSE;
}

/* packing.md 6.1: the first one's canvas is the clip's, and the second fills
 * it. */
static gboolean
add_keyframes (GstH3TextConditions *conditions, GList *pads,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  gint width, height, canvas_width = 0, canvas_height = 0;

  for (GList *l = pads; l; l = l->next) {
    GstH3ConditionPad *pad = l->data;
    gboolean first = conditions->n == 0;

    if (!gst_h3_condition_pad_is_there (pad))
      return nothing_came (l->data, error);
    if (!gst_h3_condition_pad_is_picture (pad)) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "Pad \"%s\" brings a clip or a sound: task=fl2va takes pictures on "
          "image pads",
          GST_PAD_NAME (pad));
      return FALSE;
    }
    gst_h3_condition_pad_size (pad, &width, &height);
    if (first && !gst_h3_fitting_keyframe (fitting, demo, width, height,
                     &canvas_width, &canvas_height, error))
      return fail_pad (l->data, error);
    if (!add (conditions,
            gst_h3_condition_pad_picture (pad,
                first ? H3_CONDITION_FIRST_FRAME : H3_CONDITION_LAST_FRAME,
                first ? H3_FIT_STRETCH : H3_FIT_COVER, canvas_width,
                canvas_height, error),
            l->data, error))
      return FALSE;
  }
  return TRUE;
}

/* The sound of a clip, which has the clip's number. */
static gboolean
has_sound (GList *pads, guint index)
{
  for (GList *l = pads; l; l = l->next)
    if (gst_h3_condition_pad_media (l->data) == GST_H3_CONDITION_AUDIO &&
        gst_h3_condition_pad_index (l->data) == index)
      return gst_h3_condition_pad_is_there (l->data);
  return FALSE;
}

static gboolean
has_pictures (GList *pads, guint index)
{
  for (GList *l = pads; l; l = l->next)
    if (gst_h3_condition_pad_media (l->data) != GST_H3_CONDITION_AUDIO &&
        gst_h3_condition_pad_index (l->data) == index)
      return TRUE;
  return FALSE;
}

static gboolean
add_picture (GstH3TextConditions *conditions, GstH3ConditionPad *pad,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  gint width, height;

  gst_h3_condition_pad_size (pad, &width, &height);
  if (!gst_h3_fitting_picture (fitting, demo, width, height, &width, &height,
          error))
    return fail_pad (GST_PAD_CAST (pad), error);
  return add (conditions,
      gst_h3_condition_pad_picture (pad, H3_CONDITION_IMAGE, H3_FIT_STRETCH,
          width, height, error),
      GST_PAD_CAST (pad), error);
}

static gboolean
add_references (GstH3TextConditions *conditions, GList *pads,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  for (GList *l = pads; l; l = l->next) {
    GstH3ConditionPad *pad = l->data;
    guint index = gst_h3_condition_pad_index (pad);
    gboolean good;

    if (gst_h3_condition_pad_media (pad) == GST_H3_CONDITION_AUDIO) {
      /* a clip's own, or none */
      if (has_pictures (pads, index))
        continue;
      if (!gst_h3_condition_pad_is_there (pad))
        return nothing_came (l->data, error);
      good = add (conditions, h3_text_condition_new_audio (), l->data, error);
    } else if (!gst_h3_condition_pad_is_there (pad)) {
      return nothing_came (l->data, error);
    } else if (gst_h3_condition_pad_is_picture (pad)) {
      good = add_picture (conditions, pad, fitting, demo, error);
    } else {
      good = add (conditions,
          gst_h3_condition_pad_clip (pad, has_sound (pads, index), error),
          l->data, error);
    }
    if (!good)
      return FALSE;
  }
  return TRUE;
}

static gboolean
collect (GstH3TextConditions *conditions, GList *pads, GstH3Task task,
    const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  g_autoptr (GList) sorted = g_list_sort (g_list_copy (pads), compare_pads);

  if (!check_linked (sorted, error) ||
      !finish_all (sorted, fitting, demo, error))
    return FALSE;
  if (are_keyframes (sorted, task)) {
    conditions->task = sorted ? "fl2va" : "t2va";
    return add_keyframes (conditions, sorted, fitting, demo, error);
  }
  if (!sorted) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "task=ref2va needs a reference and none is given; task=auto takes text "
        "alone");
    return FALSE;
  }
  conditions->task = "ref2va";
  return add_references (conditions, sorted, fitting, demo, error);
}

gboolean
gst_h3_text_conditions_collect (GstH3TextConditions *conditions, GList *pads,
    GstH3Task task, const GstH3Fitting *fitting, gboolean demo, GError **error)
{
  GError *failure = NULL;

  if (any_flushed (pads))
    gst_h3_text_conditions_clear (conditions);
  if (conditions->collected || !all_at_eos (pads))
    return TRUE;
  conditions->collected =
      collect (conditions, pads, task, fitting, demo, &failure);
  if (conditions->collected)
    return TRUE;
  gst_h3_text_conditions_clear (conditions);
  /* one that was flushed in between will bring another */
  if (any_flushed (pads)) {
    g_error_free (failure);
    return TRUE;
  }
  g_propagate_error (error, failure);
  return FALSE;
}

/* --- the vision tower --- */

static gboolean
vision_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    guint64 *weight_bytes, GError **error)
{
  H3VisionConfig config;

  return h3_vision_model_plan (checkpoint, device, &config, weight_bytes,
      error);
}

static gpointer
vision_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  return h3_vision_model_load (checkpoint, device, stop, progress, user_data,
      error);
}

static void
vision_unref (gpointer model)
{
  h3_vision_model_unref (model);
}

const GstH3ModelKind gst_h3_vision_kind = {
  .name = "vision tower",
  .passing = TRUE,
  .component = H3_COMPONENT_TEXT_ENCODER,
  .plan = vision_plan,
  .load = vision_load,
  .unref = vision_unref,
};

gboolean
gst_h3_vision_needs (GstH3Common *common, const GstH3Fitting *fitting,
    GstH3Request *request)
{
  H3TextCondition picture = { .kind = H3_CONDITION_IMAGE, .n_images = 1 };
  const H3TextCondition *list[] = { &picture };
  H3VisionConfig config;
  gint width, height;

  /* as for a clip of 16:9; whatever is wrong is said when there is a picture */
  if (!h3_vision_model_plan (common->checkpoint, common->device, &config,
          &request->weights, NULL) ||
      !gst_h3_fitting_keyframe (fitting, common->is_demo, 16, 9, &width,
          &height, NULL) ||
      !h3_vision_picture_size (&picture.size, width, height, NULL))
    return FALSE;
  request->workspace =
      h3_vision_model_workspace (&config, common->device, list, 1);
  return TRUE;
}

static gboolean
is_to_see (const GstH3TextConditions *conditions)
{
  for (guint i = 0; i < conditions->n; i++)
    if (conditions->list[i]->kind != H3_CONDITION_AUDIO)
      return TRUE;
  return FALSE;
}

gboolean
gst_h3_text_conditions_see (GstH3TextConditions *conditions,
    GstH3Common *common, H3Stream *stream, const H3Stop *stop, GError **error)
{
  const H3TextCondition *const *list =
      (const H3TextCondition *const *) conditions->list;
  GstH3Residency residency = GST_H3_RESIDENCY_PIPELINE;
  GstH3Request request = { .checkpoint = common->checkpoint, .stop = stop };
  H3VisionConfig config;
  GstH3Model *model;
  H3VisionModel *vision;

  if (conditions->seen || !is_to_see (conditions))
    return TRUE;
  if (!h3_vision_model_plan (common->checkpoint, common->device, &config,
          &request.weights, error))
    return FALSE;
  GST_OBJECT_LOCK (common->element);
  request.budget = common->memory_budget;
  if (common->residency == GST_H3_RESIDENCY_PROCESS)
    residency = GST_H3_RESIDENCY_PROCESS;
  GST_OBJECT_UNLOCK (common->element);
  request.workspace =
      h3_vision_model_workspace (&config, common->device, list, conditions->n);
  if (!gst_h3_common_plan_also (common, &request, error))
    return FALSE;

  model = gst_h3_model_hold (&gst_h3_vision_kind, common->checkpoint,
      common->device, residency, error);
  if (!model)
    return FALSE;
  vision = gst_h3_model_load (model, &request, error);
  if (vision) {
    h3_stream_set_stop (stream, stop);
    conditions->vision = h3_vision_model_encode (vision, stream, list,
        conditions->n, stop, NULL, error);
    h3_stream_set_stop (stream, NULL);
    gst_h3_model_settle (model, request.workspace);
  }
  gst_h3_model_release (model, residency);
  conditions->seen = conditions->vision != NULL;
  return conditions->seen;
}

gint64
gst_h3_text_conditions_tokens (const GstH3TextConditions *conditions)
{
  gint64 tokens = 0;

  for (guint i = 0; i < conditions->n; i++) {
    const H3TextCondition *c = conditions->list[i];

    tokens += LABEL_TOKENS;
    if (c->kind != H3_CONDITION_AUDIO)
      tokens +=
          h3_text_condition_tokens (c) + LABEL_TOKENS * (gint64) c->size.blocks;
  }
  return tokens;
}

void
gst_h3_text_conditions_clear (GstH3TextConditions *conditions)
{
  for (guint i = 0; i < conditions->n; i++)
    h3_text_condition_free (conditions->list[i]);
  g_clear_pointer (&conditions->vision, h3_vision_features_free);
  *conditions = (GstH3TextConditions){ 0 };
}
