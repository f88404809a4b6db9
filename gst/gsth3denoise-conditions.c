/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The request pads of h3denoise: latents of keyframes and references, kept for
 * every prompt until another one, a flush or READY. */
#include "gst/gsth3denoise-private.h"

#include <stdio.h>

#include "gst/gsth3tensor.h"

#define GST_CAT_DEFAULT gst_h3_denoise_debug

static GstStaticPadTemplate first_template =
    GST_STATIC_PAD_TEMPLATE ("first_frame", GST_PAD_SINK, GST_PAD_REQUEST,
        GST_STATIC_CAPS (GST_H3_VIDEO_LATENT_CAPS));

static GstStaticPadTemplate last_template =
    GST_STATIC_PAD_TEMPLATE ("last_frame", GST_PAD_SINK, GST_PAD_REQUEST,
        GST_STATIC_CAPS (GST_H3_VIDEO_LATENT_CAPS));

static GstStaticPadTemplate ref_template = GST_STATIC_PAD_TEMPLATE ("ref_%u",
    GST_PAD_SINK, GST_PAD_REQUEST, GST_STATIC_CAPS (GST_H3_VIDEO_LATENT_CAPS));

static GstStaticPadTemplate ref_audio_template =
    GST_STATIC_PAD_TEMPLATE ("ref_audio_%u", GST_PAD_SINK, GST_PAD_REQUEST,
        GST_STATIC_CAPS (GST_H3_AUDIO_LATENT_CAPS));

/* In the order in which they are packed; of one index the sound comes first. */
typedef enum {
  ROLE_FIRST_FRAME,
  ROLE_LAST_FRAME,
  ROLE_REF_AUDIO,
  ROLE_REF,
} Role;

/* @latent and what is below: under the element's lock */
typedef struct {
  GstPad *pad; /* not owned */
  Role role;
  guint index;
  GstH3LatentInfo caps; /* of the pad's streaming thread */
  gboolean have_caps;
  GstBuffer *latent;
  GstH3LatentInfo info;
  gboolean eos;
} Source;

static Source *
source_of (GstPad *pad)
{
  return gst_pad_get_element_private (pad);
}

static gboolean
is_keyframe (const Source *source)
{
  return source->role == ROLE_FIRST_FRAME || source->role == ROLE_LAST_FRAME;
}

static gint
compare_sources (gconstpointer a, gconstpointer b)
{
  const Source *x = a, *y = b;

  if (is_keyframe (x) || is_keyframe (y))
    return (gint) x->role - (gint) y->role;
  if (x->index != y->index)
    return x->index < y->index ? -1 : 1;
  return (gint) x->role - (gint) y->role;
}

/* With lock held. */
static void
forget_latent (GstH3Denoise *self, Source *source)
{
  gst_clear_buffer (&source->latent);
  source->eos = FALSE;
  g_cond_broadcast (&self->changed);
}

void
gst_h3_denoise_forget_conditions (GstH3Denoise *self)
{
  for (GList *l = self->conditions; l; l = l->next)
    forget_latent (self, l->data);
}

/* --- what comes in --- */

static GstFlowReturn
condition_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstH3Denoise *self = GST_H3_DENOISE (parent);
  Source *source = source_of (pad);

  if (!source->have_caps) {
    gst_buffer_unref (buffer);
    return GST_FLOW_NOT_NEGOTIATED;
  }
  if (gst_buffer_get_size (buffer) != gst_h3_latent_info_size (&source->caps)) {
    gst_h3_common_fail (&self->common,
        g_error_new (H3_ERROR, H3_ERROR_FORMAT,
            "The latent on pad \"%s\" has %" G_GSIZE_FORMAT
            " bytes; its caps need %" G_GSIZE_FORMAT,
            GST_PAD_NAME (pad), gst_buffer_get_size (buffer),
            gst_h3_latent_info_size (&source->caps)));
    gst_buffer_unref (buffer);
    return GST_FLOW_ERROR;
  }
  g_mutex_lock (&self->lock);
  forget_latent (self, source);
  source->latent = buffer;
  source->info = source->caps;
  g_mutex_unlock (&self->lock);
  return GST_FLOW_OK;
}

static gboolean
condition_set_caps (GstH3Denoise *self, Source *source, GstCaps *caps)
{
  gboolean audio = source->role == ROLE_REF_AUDIO;
  gint needed =
      audio ? self->config.audio_channels : self->config.video_channels;
  GError *error = NULL;

  source->have_caps =
      gst_h3_latent_info_from_caps (&source->caps, caps, &error);
  if (source->have_caps &&
      (source->caps.channels != needed ||
          (source->caps.modality == GST_H3_MODALITY_AUDIO) != audio)) {
    source->have_caps = FALSE;
    g_set_error (&error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "Pad \"%s\" takes %s latents of %d channels, not %s latents of %d: do "
        "autoencoder and transformer belong together?",
        GST_PAD_NAME (source->pad), audio ? "audio" : "video", needed,
        source->caps.modality == GST_H3_MODALITY_AUDIO ? "audio" : "video",
        source->caps.channels);
  }
  if (!source->have_caps)
    gst_h3_common_fail (&self->common, error);
  return source->have_caps;
}

static gboolean
condition_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  GstH3Denoise *self = GST_H3_DENOISE (parent);
  Source *source = source_of (pad);
  gboolean ret = TRUE;
  GstCaps *caps;

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_CAPS:
      gst_event_parse_caps (event, &caps);
      ret = condition_set_caps (self, source, caps);
      break;
    case GST_EVENT_EOS:
      g_mutex_lock (&self->lock);
      source->eos = TRUE;
      g_cond_broadcast (&self->changed);
      g_mutex_unlock (&self->lock);
      break;
    case GST_EVENT_FLUSH_STOP:
      g_mutex_lock (&self->lock);
      forget_latent (self, source);
      g_mutex_unlock (&self->lock);
      break;
    default:
      /* of the condition's stream, which the clip is no part of */
      break;
  }
  gst_event_unref (event);
  return ret;
}

/* --- pads --- */

/* Who waits for this pad waits for nothing. */
static void
condition_unlinked (GstH3Denoise *self)
{
  g_mutex_lock (&self->lock);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static GstPad *
add_pad (GstH3Denoise *self, GstPadTemplate *template, const gchar *name,
    Role role, guint index)
{
  Source *source = g_new0 (Source, 1);

  source->role = role;
  source->index = index;
  source->pad = gst_pad_new_from_template (template, name);
  gst_pad_set_element_private (source->pad, source);
  gst_pad_set_chain_function (source->pad, condition_chain);
  gst_pad_set_event_function (source->pad, condition_event);
  g_signal_connect_object (source->pad, "unlinked",
      G_CALLBACK (condition_unlinked), self, G_CONNECT_SWAPPED);

  g_mutex_lock (&self->lock);
  self->conditions =
      g_list_insert_sorted (self->conditions, source, compare_sources);
  g_mutex_unlock (&self->lock);
  /* the element may run already; a new pad in PAUSED must be active */
  if (GST_STATE (self) > GST_STATE_READY)
    gst_pad_set_active (source->pad, TRUE);
  if (gst_element_add_pad (GST_ELEMENT_CAST (self), source->pad))
    return source->pad;

  g_mutex_lock (&self->lock);
  self->conditions = g_list_remove (self->conditions, source);
  g_mutex_unlock (&self->lock);
  g_free (source);
  return NULL;
}

/* With lock held: the smallest number that no reference has. */
static guint
free_index (GstH3Denoise *self, Role role)
{
  guint index = 0;

  for (GList *l = self->conditions; l; l = l->next) {
    Source *source = l->data;

    if (source->role == role && source->index >= index)
      index = source->index + 1;
  }
  return index;
}

static GstPad *
request_new_pad (GstElement *element, GstPadTemplate *template,
    const gchar *name, const GstCaps *caps)
{
  static const struct {
    const gchar *template, *format;
    Role role;
  } kinds[] = {
    { "first_frame", NULL, ROLE_FIRST_FRAME },
    { "last_frame", NULL, ROLE_LAST_FRAME },
    { "ref_%u", "ref_%u", ROLE_REF },
    { "ref_audio_%u", "ref_audio_%u", ROLE_REF_AUDIO },
  };
  GstH3Denoise *self = GST_H3_DENOISE (element);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    g_autofree gchar *full = NULL;
    guint index = 0;

    if (g_strcmp0 (GST_PAD_TEMPLATE_NAME_TEMPLATE (template),
            kinds[i].template) != 0)
      continue;
    if (!kinds[i].format)
      return add_pad (self, template, kinds[i].template, kinds[i].role, 0);
    if (!name || sscanf (name, kinds[i].format, &index) != 1) {
      g_mutex_lock (&self->lock);
      index = free_index (self, kinds[i].role);
      g_mutex_unlock (&self->lock);
    }
    full = kinds[i].role == ROLE_REF ? g_strdup_printf ("ref_%u", index)
                                     : g_strdup_printf ("ref_audio_%u", index);
    return add_pad (self, template, full, kinds[i].role, index);
  }
  return NULL;
}

static void
release_pad (GstElement *element, GstPad *pad)
{
  GstH3Denoise *self = GST_H3_DENOISE (element);
  Source *source = source_of (pad);

  gst_pad_set_active (pad, FALSE);
  g_mutex_lock (&self->lock);
  self->conditions = g_list_remove (self->conditions, source);
  forget_latent (self, source);
  g_mutex_unlock (&self->lock);
  gst_pad_set_element_private (pad, NULL);
  g_free (source);
  gst_element_remove_pad (element, pad);
}

void
gst_h3_denoise_conditions_class_init (GstElementClass *klass)
{
  klass->request_new_pad = request_new_pad;
  klass->release_pad = release_pad;
  gst_element_class_add_static_pad_template (klass, &first_template);
  gst_element_class_add_static_pad_template (klass, &last_template);
  gst_element_class_add_static_pad_template (klass, &ref_template);
  gst_element_class_add_static_pad_template (klass, &ref_audio_template);
}

void
gst_h3_denoise_conditions_finalize (GstH3Denoise *self)
{
  gst_h3_denoise_forget_conditions (self);
  g_list_free_full (g_steal_pointer (&self->conditions), g_free);
}

gboolean
gst_h3_denoise_has_references (GstH3Denoise *self)
{
  gboolean any = FALSE;

  g_mutex_lock (&self->lock);
  for (GList *l = self->conditions; l && !any; l = l->next)
    any = !is_keyframe (l->data);
  g_mutex_unlock (&self->lock);
  return any;
}

gboolean
gst_h3_denoise_follow_keyframe (GstH3Denoise *self, GstH3Sampling *sampling)
{
  Source *first;
  gboolean known = TRUE;

  if (sampling->width != 0 || sampling->height != 0)
    return TRUE;
  g_mutex_lock (&self->lock);
  first = self->conditions ? self->conditions->data : NULL;
  if (first && is_keyframe (first)) {
    known = first->latent != NULL;
    if (known) {
      sampling->width = first->info.width * H3_LATENT_RATIO;
      sampling->height = first->info.height * H3_LATENT_RATIO;
    }
  }
  g_mutex_unlock (&self->lock);
  return known;
}

/* --- a job's conditions --- */

/* With lock held: has it brought what it will? */
static gboolean
is_settled (const Source *source)
{
  return source->latent || source->eos || !gst_pad_is_linked (source->pad);
}

static gboolean
all_settled (GstH3Denoise *self)
{
  for (GList *l = self->conditions; l; l = l->next)
    if (!is_settled (l->data))
      return FALSE;
  return TRUE;
}

/* A clip's sound on its way may have been none: EOS alone says so. */
static gboolean
may_be_absent (GstH3Denoise *self, const Source *source)
{
  for (GList *l = self->conditions; l; l = l->next) {
    const Source *other = l->data;

    if (other->role == ROLE_REF && other->index == source->index)
      return source->role == ROLE_REF_AUDIO && source->eos;
  }
  return FALSE;
}

/* With lock held: another condition, or the pictures to the sound before it. */
static void
add_condition (GstH3Conditions *conditions, const Source *source,
    const Source *previous)
{
  const GstH3LatentInfo *info = &source->info;
  gboolean joins = source->role == ROLE_REF && previous &&
                   previous->role == ROLE_REF_AUDIO &&
                   previous->index == source->index;
  guint i = joins ? conditions->n - 1 : conditions->n++;
  H3Condition *c = &conditions->list[i];

  if (source->role == ROLE_REF_AUDIO) {
    c->kind = H3_CONDITION_AUDIO;
    c->audio_t = info->frames;
    conditions->audio[i] = gst_buffer_ref (source->latent);
    return;
  }
  c->kind = source->role == ROLE_FIRST_FRAME  ? H3_CONDITION_FIRST_FRAME
            : source->role == ROLE_LAST_FRAME ? H3_CONDITION_LAST_FRAME
            : joins || info->frames > 1       ? H3_CONDITION_VIDEO
                                              : H3_CONDITION_IMAGE;
  c->latent_t = info->frames;
  c->latent_h = info->height;
  c->latent_w = info->width;
  conditions->video[i] = gst_buffer_ref (source->latent);
}

static gboolean
take_conditions (GstH3Denoise *self, GstH3Conditions *conditions,
    GError **error)
{
  const Source *previous = NULL;

  for (GList *l = self->conditions; l; l = l->next) {
    const Source *source = l->data;

    if (!source->latent && may_be_absent (self, source))
      continue;
    if (!source->latent) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "Pad \"%s\" %s: a requested pad must bring a latent",
          GST_PAD_NAME (source->pad),
          source->eos ? "had EOS before any latent" : "is not linked");
      return FALSE;
    }
    if (conditions->n == G_N_ELEMENTS (conditions->list)) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "More than %d keyframes and references were given",
          (gint) G_N_ELEMENTS (conditions->list));
      return FALSE;
    }
    add_condition (conditions, source, previous);
    previous = source;
  }
  return TRUE;
}

gboolean
gst_h3_denoise_wait_conditions (GstH3Denoise *self, GstH3Job *job,
    GstH3Conditions *conditions, GError **error)
{
  gboolean good;

  g_mutex_lock (&self->lock);
  while (!all_settled (self) && !g_atomic_int_get (&job->cancel))
    g_cond_wait (&self->changed, &self->lock);
  if (g_atomic_int_get (&job->cancel)) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_CANCELLED,
        "cancelled while waiting for keyframes or references");
    good = FALSE;
  } else {
    good = take_conditions (self, conditions, error);
  }
  g_mutex_unlock (&self->lock);
  return good;
}

/* The prompt was read with as many keyframes or references as there are. */
gboolean
gst_h3_conditions_match (const GstH3Conditions *conditions,
    const GstH3EmbedsInfo *info, GError **error)
{
  static const gchar *const tasks[] = { [H3_TASK_T2VA] = "t2va",
    [H3_TASK_FL2VA] = "fl2va",
    [H3_TASK_REF2VA] = "ref2va" };
  const gchar *task =
      tasks[h3_conditions_task (conditions->list, conditions->n)];

  if (g_str_equal (task, info->task) &&
      (guint) info->references == conditions->n)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "The prompt was read as %s with %d keyframes or references, and the pads "
      "first_frame, last_frame, ref_%%u and ref_audio_%%u bring %u (%s): "
      "h3textenc and h3denoise need the same ones",
      info->task, info->references, conditions->n, task);
  return FALSE;
}

static H3Tensor *
to_tensor (GstBuffer *buffer, H3Stream *stream, guint rank, const gint64 *shape,
    H3ConditionKind kind, GError **error)
{
  return gst_h3_tensor_from_buffer (buffer, stream, H3_DTYPE_F32, rank, shape,
      h3_condition_name (kind), error);
}

gboolean
gst_h3_conditions_to_device (GstH3Conditions *conditions, H3Stream *stream,
    const H3TransformerConfig *config, GError **error)
{
  for (guint i = 0; i < conditions->n; i++) {
    H3Condition *c = &conditions->list[i];
    const gint64 video[] = { config->video_channels, c->latent_t, c->latent_h,
      c->latent_w };
    const gint64 audio[] = { 2, config->audio_channels, c->audio_t };

    if (conditions->video[i] && !(c->video = to_tensor (conditions->video[i],
                                      stream, 4, video, c->kind, error)))
      return FALSE;
    if (conditions->audio[i] && !(c->audio = to_tensor (conditions->audio[i],
                                      stream, 3, audio, c->kind, error)))
      return FALSE;
  }
  return TRUE;
}

gint64
gst_h3_conditions_rows (const GstH3Conditions *conditions)
{
  gint64 rows = 0;

  for (guint i = 0; i < conditions->n; i++)
    rows += h3_condition_video_rows (&conditions->list[i]) +
            h3_condition_audio_rows (&conditions->list[i]);
  return rows;
}

void
gst_h3_conditions_clear (GstH3Conditions *conditions)
{
  for (guint i = 0; i < conditions->n; i++) {
    gst_clear_buffer (&conditions->video[i]);
    gst_clear_buffer (&conditions->audio[i]);
    if (conditions->list[i].video)
      h3_tensor_unref ((H3Tensor *) conditions->list[i].video);
    if (conditions->list[i].audio)
      h3_tensor_unref ((H3Tensor *) conditions->list[i].audio);
  }
  conditions->n = 0;
}
