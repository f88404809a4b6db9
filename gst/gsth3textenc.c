/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * SECTION:element-h3textenc
 * @title: h3textenc
 * @short_description: Turns prompts into the embeddings that h3denoise wants
 *
 * Text comes in, prompt embeddings go out: H3's tokenizer and the language
 * model up to the state after layer 50.
 *
 * In a BYTES segment (filesrc, fdsrc) everything until EOS is one prompt,
 * however the source cuts it; one newline at the end is dropped. In a TIME
 * segment (appsrc) every buffer is one prompt. The text is taken as it is: no
 * trimming, no templates; a NUL is an ordinary character.
 *
 * An empty prompt, invalid UTF-8, and more than `max-tokens` tokens are an
 * error message STREAM FORMAT that says where; nothing is truncated or
 * replaced. EOS without any prompt passes as EOS.
 *
 * Pictures, clips and sounds that the prompt is read with come in on request
 * pads: `image_%u` takes the first frame, `video_%u` a clip or, of one frame, a
 * picture; `audio_%u` says that there is a sound, of the clip with the same
 * number if there is one. Their numbers are their order. They are keyframes or
 * references, see `task`. The first prompt waits until all of them are at EOS,
 * and what they brought stays for all prompts, pads requested or released later
 * notwithstanding, until one of these pads is flushed: then each has to bring
 * its own again, so flush them together. A pad that is unlinked before its EOS is
 * an error; one that is released is not waited for. Frames must come at their own
 * size and rate; give h3videovaeenc the same ones, by a tee.
 *
 * Each prompt leaves as one buffer of float32 [tokens, hidden], with the
 * custom meta `GstH3JobMeta` (task, tokens, prompt, prompt-sha256).
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 filesrc location=prompt.txt ! text/x-raw,format=utf8 ! h3textenc ! filesink location=embeds.f32
 * ]|
 *
 * Since: 0.1
 */
#include "gst/gsth3textenc.h"

#include <stdio.h>
#include <string.h>

#include "gst/gsth3common.h"
#include "gst/gsth3elements.h"
#include "gst/gsth3negotiate.h"
#include "gst/gsth3tensor.h"
#include "gst/gsth3textconditions.h"
#include "model/text/presentation.h"
#include "model/text/text-model.h"

GST_DEBUG_CATEGORY_STATIC (gst_h3_text_enc_debug);
#define GST_CAT_DEFAULT gst_h3_text_enc_debug

#define DEFAULT_MAX_TOKENS 0
/* Tokens to plan memory for, before there is a prompt. */
#define TYPICAL_TOKENS 512
/* At most so many are around a prompt. */
#define TEMPLATE_TOKENS 64

/* 262144 tokens, the most that H3 takes, are about 1 MiB of text. */
#define MAX_PROMPT_BYTES (8 * 1024 * 1024)

#define DEFAULT_TASK GST_H3_TASK_AUTO

enum {
  PROP_MAX_TOKENS = GST_H3_N_COMMON_PROPS,
  PROP_TASK,
  PROP_WEIGHT_TYPE,
  PROP_FITTING,
};

static GstStaticPadTemplate sink_template =
    GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS,
        GST_STATIC_CAPS ("text/x-raw, format = (string) utf8"));

static GstStaticPadTemplate image_template =
    GST_STATIC_PAD_TEMPLATE ("image_%u", GST_PAD_SINK, GST_PAD_REQUEST,
        GST_STATIC_CAPS (GST_H3_RGB_CAPS));

static GstStaticPadTemplate video_template =
    GST_STATIC_PAD_TEMPLATE ("video_%u", GST_PAD_SINK, GST_PAD_REQUEST,
        GST_STATIC_CAPS (GST_H3_RGB_CAPS));

static GstStaticPadTemplate audio_template =
    GST_STATIC_PAD_TEMPLATE ("audio_%u", GST_PAD_SINK, GST_PAD_REQUEST,
        GST_STATIC_CAPS ("audio/x-raw"));

static GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE ("src",
    GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_EMBEDS_CAPS));

struct _GstH3TextEnc {
  GstAggregator parent;

  GstH3Common common;
  GstAggregatorPad *sinkpad; /* owned by the element */

  /* settings, under the object lock */
  guint max_tokens;
  GstH3Task task;
  GstH3WeightType weight_type;
  GstH3Fitting fitting;
  gboolean expect_pictures;

  /* from NULL→READY on */
  H3TextConfig config;

  /* of the source pad's task */
  GString *collected; /* of a BYTES segment, until EOS */
  GstH3TextConditions conditions;
  H3Stream *stream;
  guint epoch; /* of @flushes: what is older was flushed */

  guint flushes; /* atomic: begun and ended, of the text's pad */

  /* numbers, under the object lock */
  guint64 prompts, tokens;
  guint encode_ms;
};

/* --- the model: tokenizer and language model, shared as one --- */

typedef struct {
  H3Tokenizer *tokenizer;
  H3TextModel *text;
} TextModels;

static void
text_models_free (gpointer data)
{
  TextModels *models = data;

  g_clear_pointer (&models->tokenizer, h3_tokenizer_free);
  g_clear_pointer (&models->text, h3_text_model_unref);
  g_free (models);
}

static gpointer
text_models_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  TextModels *models = g_new0 (TextModels, 1);
  const gchar *dir =
      h3_checkpoint_path (checkpoint, H3_COMPONENT_TOKENIZER, error);

  if (dir)
    models->tokenizer = h3_tokenizer_load (dir, error);
  if (models->tokenizer) {
    models->text = h3_text_model_load (checkpoint, device, stop, progress,
        user_data, error);
  }
  if (!models->text) {
    text_models_free (models);
    return NULL;
  }
  return models;
}

static gboolean
text_models_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    guint64 *weight_bytes, GError **error)
{
  H3TextConfig config;

  return h3_checkpoint_path (checkpoint, H3_COMPONENT_TOKENIZER, error) &&
         h3_text_model_plan (checkpoint, device, &config, weight_bytes, error);
}

static const H3Component tokenizer_too[] = { H3_COMPONENT_TOKENIZER };

static GPtrArray *
text_models_tensors (gpointer models)
{
  return h3_text_model_tensors (((TextModels *) models)->text);
}

static const GstH3ModelKind text_kind = {
  .name = "text encoder",
  .stage = 1,
  .component = H3_COMPONENT_TEXT_ENCODER,
  .also = tokenizer_too,
  .n_also = G_N_ELEMENTS (tokenizer_too),
  .plan = text_models_plan,
  .load = text_models_load,
  .tensors = text_models_tensors,
  .unref = text_models_free,
};

static gboolean
text_enc_opening (GstElement *element, H3Checkpoint *checkpoint)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (element);
  gboolean fp8;

  GST_OBJECT_LOCK (self);
  fp8 = self->weight_type == GST_H3_WEIGHT_TYPE_FP8;
  GST_OBJECT_UNLOCK (self);
  h3_checkpoint_set_weight_type (checkpoint,
      fp8 ? H3_WEIGHTS_FP8 : H3_WEIGHTS_AS_STORED);
  return TRUE;
}

static gboolean
text_enc_opened (GstElement *element, const H3Checkpoint *checkpoint,
    GError **error)
{
  guint64 bytes;

  return h3_text_model_plan (checkpoint, NULL,
      &GST_H3_TEXT_ENC (element)->config, &bytes, error);
}

static void
text_enc_add_stats (GstElement *element, GstStructure *stats)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (element);

  GST_OBJECT_LOCK (self);
  gst_structure_set (stats, "prompts", G_TYPE_UINT64, self->prompts, "tokens",
      G_TYPE_UINT64, self->tokens, "encode-ms", G_TYPE_UINT, self->encode_ms,
      NULL);
  GST_OBJECT_UNLOCK (self);
}

static guint64
text_enc_workspace (GstElement *element)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (element);

  return h3_text_model_workspace (&self->config, self->common.device,
      TYPICAL_TOKENS);
}

/* With a pad for something to see the vision tower will run. */
static gboolean
text_enc_also_needs (GstElement *element, GstH3Request *request)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (element);
  GstH3Fitting fitting;
  gboolean any;

  GST_OBJECT_LOCK (self);
  fitting = self->fitting;
  any = self->expect_pictures;
  for (GList *l = element->sinkpads; l; l = l->next)
    any |= GST_IS_H3_CONDITION_PAD (l->data) &&
           gst_h3_condition_pad_media (l->data) != GST_H3_CONDITION_AUDIO;
  GST_OBJECT_UNLOCK (self);
  return any && gst_h3_vision_needs (&self->common, &fitting, request);
}

void
gst_h3_text_enc_expect_pictures (GstH3TextEnc *self, gboolean expect)
{
  GST_OBJECT_LOCK (self);
  self->expect_pictures = expect;
  GST_OBJECT_UNLOCK (self);
}

static const GstH3CommonFuncs common_funcs = {
  .kind = &text_kind,
  .opening = text_enc_opening,
  .opened = text_enc_opened,
  .workspace = text_enc_workspace,
  .also = &gst_h3_vision_kind,
  .also_needs = text_enc_also_needs,
  .add_stats = text_enc_add_stats,
};

G_DEFINE_TYPE (GstH3TextEnc, gst_h3_text_enc, GST_TYPE_AGGREGATOR)
GST_ELEMENT_REGISTER_DEFINE_WITH_CODE (h3textenc, "h3textenc", GST_RANK_NONE,
    GST_TYPE_H3_TEXT_ENC,
    GST_DEBUG_CATEGORY_INIT (gst_h3_text_enc_debug, "h3textenc", 0,
        "H3 text encoder"))

/* --- one prompt --- */

/* Whether the text being worked on was flushed: the base class stops the task
 * only when all pads are. */
static gboolean
is_flushed (GstH3TextEnc *self)
{
  return GST_PAD_IS_FLUSHING (GST_PAD_CAST (self->sinkpad)) ||
         (guint) g_atomic_int_get (&self->flushes) != self->epoch;
}

static gboolean
should_stop (gpointer data)
{
  GstH3TextEnc *self = data;

  return is_flushed (self) || gst_h3_common_is_stopping (&self->common);
}

static guint
max_tokens (GstH3TextEnc *self)
{
  guint limit;

  GST_OBJECT_LOCK (self);
  limit = self->max_tokens;
  GST_OBJECT_UNLOCK (self);
  return limit ? MIN (limit, (guint) self->config.max_positions)
               : (guint) self->config.max_positions;
}

/* A token is a byte at least. */
static guint64
prompt_workspace (GstH3TextEnc *self, gsize size)
{
  return h3_text_model_workspace (&self->config, self->common.device,
      MIN (size + TEMPLATE_TOKENS +
               gst_h3_text_conditions_tokens (&self->conditions),
          max_tokens (self)));
}

/* What the caps say of the rows. */
static void
describe (GstH3EmbedsInfo *info, const GstH3TextConditions *conditions,
    const H3Presentation *presentation)
{
  const gint32 *tags = (const gint32 *) presentation->tags->data;
  gint n = (gint) presentation->tags->len;

  *info = (GstH3EmbedsInfo){ .task = conditions->task,
    .type = GST_H3_TYPE_FLOAT32,
    .references = (gint) conditions->n };
  for (gint i = 0; i < n; i++) {
    gboolean begins = tags[i] == 0 && (i == 0 || tags[i - 1] != 0);

    if (begins && info->n_vision < GST_H3_MAX_VISION_BLOCKS)
      info->vision[info->n_vision++].first = i;
    if (tags[i] == 0 && info->n_vision > 0)
      info->vision[info->n_vision - 1].n++;
  }
}

/* With the device's turn. */
static H3Tensor *
encode (GstH3TextEnc *self, TextModels *models, const gchar *text, gsize size,
    const H3Stop *stop, GstH3EmbedsInfo *info, GError **error)
{
  g_auto (H3Presentation) presentation = {
    NULL,
  };
  const GstH3TextConditions *conditions = &self->conditions;
  H3TextInput input;
  H3Tensor *embeds = NULL;

  if (!h3_presentation_init (&presentation, models->tokenizer,
          (const H3TextCondition *const *) conditions->list, conditions->n,
          text, size, max_tokens (self), error))
    return NULL;
  describe (info, conditions, &presentation);
  input = h3_presentation_input (&presentation, conditions->vision);
  h3_stream_set_stop (self->stream, stop);
  embeds = h3_text_model_encode (models->text, self->stream, &input, stop, NULL,
      error);
  h3_stream_set_stop (self->stream, NULL);
  return embeds;
}

/* The prompt as a string field, which cannot hold a NUL. */
static gchar *
displayable (const gchar *text, gsize size)
{
  gchar *copy = g_malloc (size + 1);

  for (gsize i = 0; i < size; i++)
    copy[i] = text[i] ? text[i] : ' ';
  copy[size] = '\0';
  return copy;
}

static GstBuffer *
make_buffer (H3Tensor *embeds, const gchar *task, const gchar *text, gsize size)
{
  GstBuffer *buffer = gst_h3_tensor_to_buffer (embeds, NULL, NULL);
  gchar *prompt = displayable (text, size);
  gchar *sha256 = g_compute_checksum_for_data (G_CHECKSUM_SHA256,
      (const guchar *) text, size);
  GstStructure *job =
      gst_structure_new (GST_H3_JOB_META_NAME, "task", G_TYPE_STRING, task,
          "tokens", G_TYPE_UINT, (guint) embeds->shape[0], "prompt",
          G_TYPE_STRING, prompt, "prompt-sha256", G_TYPE_STRING, sha256, NULL);

  gst_h3_buffer_add_job (buffer, job);
  gst_structure_free (job);
  g_free (sha256);
  g_free (prompt);
  return buffer;
}

static void
count (GstH3TextEnc *self, gint64 tokens, gint64 start)
{
  guint ms = (g_get_monotonic_time () - start) / 1000;

  GST_OBJECT_LOCK (self);
  self->prompts++;
  self->tokens += tokens;
  self->encode_ms = ms;
  GST_OBJECT_UNLOCK (self);
  GST_INFO_OBJECT (self, "encoded %" G_GINT64_FORMAT " tokens in %u ms", tokens,
      ms);
}

static GstBuffer *
encode_to_buffer (GstH3TextEnc *self, const gchar *text, gsize size,
    GError **error)
{
  const H3Stop stop = { should_stop, self };
  gint64 start = g_get_monotonic_time ();
  TextModels *models;
  H3Tensor *embeds;
  GstH3EmbedsInfo info;
  GstBuffer *buffer = NULL;
  GstCaps *caps;

  if (!self->stream &&
      !(self->stream = h3_stream_new (self->common.device, error)))
    return NULL;
  if (!gst_h3_text_conditions_see (&self->conditions, &self->common,
          self->stream, &stop, error))
    return NULL;
  models = gst_h3_common_begin_job (&self->common,
      prompt_workspace (self, size), &stop, error);
  if (!models)
    return NULL;
  embeds = encode (self, models, text, size, &stop, &info, error);
  gst_h3_common_end_job (&self->common);
  if (!embeds)
    return NULL;
  info.tokens = (gint) embeds->shape[0];
  info.hidden = (gint) embeds->shape[1];
  caps = gst_h3_choose_caps (GST_AGGREGATOR_SRC_PAD (self),
      gst_h3_embeds_info_to_caps (&info, FALSE), error);
  if (caps) {
    gst_aggregator_set_src_caps (GST_AGGREGATOR (self), caps);
    gst_caps_unref (caps);
    buffer = make_buffer (embeds, info.task, text, size);
    count (self, info.tokens, start);
  }
  h3_tensor_unref (embeds);
  return buffer;
}

/* Encodes one prompt and pushes it. @time: of the buffer it came in, or NULL */
static GstFlowReturn
process_prompt (GstH3TextEnc *self, const gchar *text, gsize size,
    GstBuffer *time)
{
  GstH3ProgressReport report = {
    NULL,
  };
  GError *error = NULL;
  GstBuffer *buffer;

  gst_h3_progress_start (&report, GST_ELEMENT_CAST (self), "encode", "prompt",
      self->prompts, 1, self->common.weight_bytes, "encoding the prompt");
  buffer = encode_to_buffer (self, text, size, &error);
  if (!buffer) {
    gboolean cancelled = g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED);
    gboolean negotiation =
        g_error_matches (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION);

    gst_h3_common_fail (&self->common, g_error_copy (error));
    gst_h3_progress_end (&report, error);
    g_error_free (error);
    return cancelled     ? GST_FLOW_FLUSHING
           : negotiation ? GST_FLOW_NOT_NEGOTIATED
                         : GST_FLOW_ERROR;
  }
  gst_h3_progress_end (&report, NULL);
  if (time) {
    GST_BUFFER_PTS (buffer) = GST_BUFFER_PTS (time);
    GST_BUFFER_DURATION (buffer) = GST_BUFFER_DURATION (time);
  }
  return gst_aggregator_finish_buffer (GST_AGGREGATOR (self), buffer);
}

/* --- collecting --- */

static gboolean
is_bytes (GstH3TextEnc *self)
{
  gboolean bytes;

  GST_OBJECT_LOCK (self->sinkpad);
  bytes = self->sinkpad->segment.format == GST_FORMAT_BYTES;
  GST_OBJECT_UNLOCK (self->sinkpad);
  return bytes;
}

static GstFlowReturn
fail_format (GstH3TextEnc *self, const gchar *message)
{
  gst_h3_common_fail (&self->common,
      g_error_new_literal (H3_ERROR, H3_ERROR_FORMAT, message));
  return GST_FLOW_ERROR;
}

static GstFlowReturn
take_buffer (GstH3TextEnc *self, GstBuffer *buffer)
{
  GstMapInfo map;
  GstFlowReturn ret = GST_FLOW_OK;
  gsize pending = self->collected ? self->collected->len : 0;

  if (gst_buffer_get_size (buffer) > MAX_PROMPT_BYTES - pending) {
    return fail_format (self, "The prompt is larger than 8 MiB, far beyond "
                              "what the model can read");
  }
  if (!gst_buffer_map (buffer, &map, GST_MAP_READ))
    return fail_format (self, "The prompt's buffer cannot be read");
  if (is_bytes (self)) {
    if (!self->collected)
      self->collected = g_string_new (NULL);
    g_string_append_len (self->collected, (const gchar *) map.data, map.size);
  } else {
    ret = process_prompt (self, (const gchar *) map.data, map.size, buffer);
  }
  gst_buffer_unmap (buffer, &map);
  return ret;
}

/* EOS: what a BYTES segment brought is one prompt, without the newline that
 * editors and echo put at the end. */
static GstFlowReturn
take_eos (GstH3TextEnc *self)
{
  GString *text = g_steal_pointer (&self->collected);
  GstFlowReturn ret;

  if (!text)
    return GST_FLOW_EOS;
  if (text->len > 0 && text->str[text->len - 1] == '\n')
    g_string_truncate (text, text->len - 1);
  ret = process_prompt (self, text->str, text->len, NULL);
  g_string_free (text, TRUE);
  return ret == GST_FLOW_OK ? GST_FLOW_EOS : ret;
}

/* Pads of pictures, clips and sounds; unref each. */
static GList *
condition_pads (GstH3TextEnc *self)
{
  GList *pads = NULL;

  GST_OBJECT_LOCK (self);
  for (GList *l = GST_ELEMENT_CAST (self)->sinkpads; l; l = l->next)
    if (GST_IS_H3_CONDITION_PAD (l->data))
      pads = g_list_prepend (pads, gst_object_ref (l->data));
  GST_OBJECT_UNLOCK (self);
  return pads;
}

/* FALSE when one of them cannot be used; an error was posted. */
static gboolean
collect_conditions (GstH3TextEnc *self)
{
  GList *pads = condition_pads (self);
  GError *error = NULL;
  GstH3Fitting fitting;
  GstH3Task task;
  gboolean good;

  GST_OBJECT_LOCK (self);
  fitting = self->fitting;
  task = self->task;
  GST_OBJECT_UNLOCK (self);
  good = gst_h3_text_conditions_collect (&self->conditions, pads, task,
      &fitting, self->common.is_demo, &error);
  if (!good)
    gst_h3_common_fail (&self->common, error);
  g_list_free_full (pads, gst_object_unref);
  return good;
}

static void
forget (GstH3TextEnc *self)
{
  if (self->collected)
    g_string_free (g_steal_pointer (&self->collected), TRUE);
}

/* Text before this was flushed. */
static void
begin_epoch (GstH3TextEnc *self)
{
  guint epoch = (guint) g_atomic_int_get (&self->flushes);

  if (epoch != self->epoch)
    forget (self);
  self->epoch = epoch;
}

static GstFlowReturn
aggregate (GstH3TextEnc *self)
{
  GstBuffer *buffer;
  GstFlowReturn ret;

  begin_epoch (self);
  if (!collect_conditions (self))
    return GST_FLOW_ERROR;
  /* the prompt stays on its pad meanwhile */
  if (!self->conditions.collected)
    return GST_AGGREGATOR_FLOW_NEED_DATA;
  buffer = gst_aggregator_pad_pop_buffer (self->sinkpad);
  if (!buffer) {
    return gst_aggregator_pad_is_eos (self->sinkpad)
               ? take_eos (self)
               : GST_AGGREGATOR_FLOW_NEED_DATA;
  }
  ret = take_buffer (self, buffer);
  gst_buffer_unref (buffer);
  return ret;
}

static GstFlowReturn
gst_h3_text_enc_aggregate (GstAggregator *aggregator, gboolean timeout)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (aggregator);
  GstFlowReturn ret = aggregate (self);

  /* the next text is as good as any */
  return ret == GST_FLOW_FLUSHING && is_flushed (self)
             ? GST_AGGREGATOR_FLOW_NEED_DATA
             : ret;
}

/* --- pads --- */

static GstFlowReturn
condition_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (parent);
  GstH3ConditionPad *condition = GST_H3_CONDITION_PAD (pad);
  GError *error = NULL;
  GstH3Fitting fitting;
  gboolean good;

  GST_OBJECT_LOCK (self);
  fitting = self->fitting;
  GST_OBJECT_UNLOCK (self);
  good = gst_h3_condition_pad_take (condition, buffer, &fitting,
      self->common.is_demo, &error);
  gst_buffer_unref (buffer);
  if (!good) {
    g_prefix_error (&error, "Pad \"%s\": ", GST_PAD_NAME (pad));
    gst_h3_common_fail (&self->common, error);
    return GST_FLOW_ERROR;
  }
  /* one picture is all, whether or not its source knows; another is refused */
  if (gst_h3_condition_pad_media (condition) == GST_H3_CONDITION_IMAGE)
    gst_pad_send_event (pad, gst_event_new_eos ());
  return GST_FLOW_OK;
}

static GstAggregatorPad *
gst_h3_text_enc_create_new_pad (GstAggregator *aggregator,
    GstPadTemplate *template, const gchar *name, const GstCaps *caps)
{
  static const gchar *const formats[] = {
    [GST_H3_CONDITION_IMAGE] = "image_%u",
    [GST_H3_CONDITION_VIDEO] = "video_%u",
    [GST_H3_CONDITION_AUDIO] = "audio_%u",
  };
  GList *pads = condition_pads (GST_H3_TEXT_ENC (aggregator));
  GstH3ConditionPad *pad = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++) {
    g_autofree gchar *full = NULL;
    guint index = 0;

    if (g_strcmp0 (GST_PAD_TEMPLATE_NAME_TEMPLATE (template), formats[i]) != 0)
      continue;
    /* without a number it comes after all that have one */
    if (!name || sscanf (name, formats[i], &index) != 1)
      for (GList *l = pads; l; l = l->next)
        index = MAX (index, gst_h3_condition_pad_index (l->data) + 1);
    full = i == GST_H3_CONDITION_IMAGE   ? g_strdup_printf ("image_%u", index)
           : i == GST_H3_CONDITION_VIDEO ? g_strdup_printf ("video_%u", index)
                                         : g_strdup_printf ("audio_%u", index);
    pad = gst_h3_condition_pad_new (template, full, i, index);
    gst_pad_set_chain_function (GST_PAD_CAST (pad), condition_chain);
  }
  g_list_free_full (pads, gst_object_unref);
  return pad ? GST_AGGREGATOR_PAD (pad) : NULL;
}

static void
gst_h3_text_enc_release_pad (GstElement *element, GstPad *pad)
{
  if (GST_IS_H3_CONDITION_PAD (pad))
    gst_h3_condition_pad_dismiss (GST_H3_CONDITION_PAD (pad));
  GST_ELEMENT_CLASS (gst_h3_text_enc_parent_class)->release_pad (element, pad);
}

/* Caps are known with each prompt's length and set then. */
static gboolean
gst_h3_text_enc_negotiate (GstAggregator *aggregator)
{
  return TRUE;
}

static gboolean
gst_h3_text_enc_sink_event (GstAggregator *aggregator, GstAggregatorPad *pad,
    GstEvent *event)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (aggregator);

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_FLUSH_START:
    case GST_EVENT_FLUSH_STOP:
      /* before the base class waits for the task that may be encoding; and
       * again, should the task have taken text between the two */
      if (pad == self->sinkpad)
        g_atomic_int_inc (&self->flushes);
      gst_h3_common_begin (&self->common);
      break;
    case GST_EVENT_TAG:
    case GST_EVENT_GAP:
      /* of the text's source, not of the clip; and a gap is no prompt, nor can
       * GstAggregator take one in a BYTES segment */
      gst_event_unref (event);
      return TRUE;
    case GST_EVENT_STREAM_START:
    case GST_EVENT_CAPS:
    case GST_EVENT_SEGMENT:
    case GST_EVENT_EOS:
      break;
    default:
      /* what else a decoder has to say of a picture is nothing for the clip's
       * stream, which may not even have begun */
      if (GST_IS_H3_CONDITION_PAD (pad) && GST_EVENT_IS_SERIALIZED (event) &&
          GST_EVENT_TYPE (event) != GST_EVENT_FLUSH_STOP) {
        gst_event_unref (event);
        return TRUE;
      }
      break;
  }
  return GST_AGGREGATOR_CLASS (gst_h3_text_enc_parent_class)
      ->sink_event (aggregator, pad, event);
}

static GstFlowReturn
gst_h3_text_enc_flush (GstAggregator *aggregator)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (aggregator);

  forget (self);
  gst_h3_text_conditions_clear (&self->conditions);
  return GST_FLOW_OK;
}

static gboolean
gst_h3_text_enc_stop (GstAggregator *aggregator)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (aggregator);
  GList *pads = condition_pads (self);

  for (GList *l = pads; l; l = l->next)
    gst_h3_condition_pad_forget (l->data);
  g_list_free_full (pads, gst_object_unref);
  forget (self);
  gst_h3_text_conditions_clear (&self->conditions);
  g_clear_pointer (&self->stream, h3_stream_free);
  return TRUE;
}

static GstStateChangeReturn
gst_h3_text_enc_change_state (GstElement *element, GstStateChange transition)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (element);
  GstStateChangeReturn ret;

  if (!gst_h3_common_before_state_change (&self->common, transition))
    return GST_STATE_CHANGE_FAILURE;
  ret = GST_ELEMENT_CLASS (gst_h3_text_enc_parent_class)
            ->change_state (element, transition);
  gst_h3_common_after_state_change (&self->common, transition, ret);
  return ret;
}

static void
gst_h3_text_enc_set_property (GObject *object, guint prop_id,
    const GValue *value, GParamSpec *pspec)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (object);
  gboolean known;

  if (gst_h3_common_set_property (&self->common, prop_id, value))
    return;
  switch (prop_id) {
    case PROP_MAX_TOKENS:
      GST_OBJECT_LOCK (self);
      self->max_tokens = g_value_get_uint (value);
      GST_OBJECT_UNLOCK (self);
      break;
    case PROP_TASK:
      GST_OBJECT_LOCK (self);
      self->task = g_value_get_enum (value);
      GST_OBJECT_UNLOCK (self);
      break;
    case PROP_WEIGHT_TYPE:
      GST_OBJECT_LOCK (self);
      self->weight_type = g_value_get_enum (value);
      self->common.reopen = TRUE;
      GST_OBJECT_UNLOCK (self);
      break;
    default:
      GST_OBJECT_LOCK (self);
      known =
          gst_h3_fitting_set (&self->fitting, prop_id - PROP_FITTING, value);
      GST_OBJECT_UNLOCK (self);
      if (!known)
        G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
  }
}

static void
gst_h3_text_enc_get_property (GObject *object, guint prop_id, GValue *value,
    GParamSpec *pspec)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (object);
  gboolean known;

  if (gst_h3_common_get_property (&self->common, prop_id, value))
    return;
  switch (prop_id) {
    case PROP_MAX_TOKENS:
      GST_OBJECT_LOCK (self);
      g_value_set_uint (value, self->max_tokens);
      GST_OBJECT_UNLOCK (self);
      break;
    case PROP_TASK:
      GST_OBJECT_LOCK (self);
      g_value_set_enum (value, self->task);
      GST_OBJECT_UNLOCK (self);
      break;
    case PROP_WEIGHT_TYPE:
      GST_OBJECT_LOCK (self);
      g_value_set_enum (value, self->weight_type);
      GST_OBJECT_UNLOCK (self);
      break;
    default:
      GST_OBJECT_LOCK (self);
      known =
          gst_h3_fitting_get (&self->fitting, prop_id - PROP_FITTING, value);
      GST_OBJECT_UNLOCK (self);
      if (!known)
        G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
  }
}

static void
gst_h3_text_enc_finalize (GObject *object)
{
  GstH3TextEnc *self = GST_H3_TEXT_ENC (object);

  gst_h3_common_clear (&self->common);
  G_OBJECT_CLASS (gst_h3_text_enc_parent_class)->finalize (object);
}

static void
gst_h3_text_enc_class_init (GstH3TextEncClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);
  GstAggregatorClass *aggregator_class = GST_AGGREGATOR_CLASS (klass);

  object_class->set_property = gst_h3_text_enc_set_property;
  object_class->get_property = gst_h3_text_enc_get_property;
  object_class->finalize = gst_h3_text_enc_finalize;
  element_class->change_state = gst_h3_text_enc_change_state;
  element_class->release_pad = gst_h3_text_enc_release_pad;
  aggregator_class->create_new_pad = gst_h3_text_enc_create_new_pad;
  aggregator_class->aggregate = gst_h3_text_enc_aggregate;
  aggregator_class->negotiate = gst_h3_text_enc_negotiate;
  aggregator_class->sink_event = gst_h3_text_enc_sink_event;
  aggregator_class->flush = gst_h3_text_enc_flush;
  aggregator_class->stop = gst_h3_text_enc_stop;

  gst_h3_common_class_init (element_class);
  g_object_class_install_property (object_class, PROP_MAX_TOKENS,
      g_param_spec_uint ("max-tokens", "Maximum tokens",
          "Tokens a prompt may have; a longer prompt is an error, nothing is "
          "truncated. 0 = as many as the model has positions (262144).",
          0, G_MAXINT, DEFAULT_MAX_TOKENS,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_PLAYING));

  gst_type_mark_as_plugin_api (GST_TYPE_H3_TASK, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_CONDITION_PAD, 0);
  g_object_class_install_property (object_class, PROP_TASK,
      g_param_spec_enum ("task", "Task",
          "What the pictures, clips and sounds of the request pads are.",
          GST_TYPE_H3_TASK, DEFAULT_TASK,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_READY));
  gst_type_mark_as_plugin_api (GST_TYPE_H3_WEIGHT_TYPE, 0);
  g_object_class_install_property (object_class, PROP_WEIGHT_TYPE,
      gst_h3_weight_type_spec ());
  gst_h3_fitting_install_properties (object_class, PROP_FITTING);

  gst_element_class_add_static_pad_template_with_gtype (element_class,
      &sink_template, GST_TYPE_AGGREGATOR_PAD);
  gst_element_class_add_static_pad_template_with_gtype (element_class,
      &image_template, GST_TYPE_H3_CONDITION_PAD);
  gst_element_class_add_static_pad_template_with_gtype (element_class,
      &video_template, GST_TYPE_H3_CONDITION_PAD);
  gst_element_class_add_static_pad_template_with_gtype (element_class,
      &audio_template, GST_TYPE_H3_CONDITION_PAD);
  gst_element_class_add_static_pad_template_with_gtype (element_class,
      &src_template, GST_TYPE_AGGREGATOR_PAD);
  gst_element_class_set_static_metadata (element_class,
      "MiniMax H3 text encoder", "Filter/Converter/Text",
      "Turns text prompts into the prompt embeddings of MiniMax H3, one buffer "
      "a prompt: all text of a BYTES stream is one prompt, each buffer of a "
      "TIME stream is one",
      "The gst-h3 developers");
}

static void
gst_h3_text_enc_init (GstH3TextEnc *self)
{
  GstPadTemplate *template =
      gst_element_class_get_pad_template (GST_ELEMENT_GET_CLASS (self), "sink");

  gst_h3_common_init (&self->common, GST_ELEMENT_CAST (self), &common_funcs);
  self->max_tokens = DEFAULT_MAX_TOKENS;
  self->task = DEFAULT_TASK;
  self->weight_type = GST_H3_DEFAULT_WEIGHT_TYPE;
  gst_h3_fitting_init (&self->fitting);
  self->sinkpad = g_object_new (GST_TYPE_AGGREGATOR_PAD, "name", "sink",
      "direction", GST_PAD_SINK, "template", template, NULL);
  gst_element_add_pad (GST_ELEMENT_CAST (self), GST_PAD_CAST (self->sinkpad));
  /* a live source of prompts is silent most of the time */
  gst_aggregator_set_ignore_inactive_pads (GST_AGGREGATOR (self), TRUE);
}
