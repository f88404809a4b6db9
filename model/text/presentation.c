/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/presentation.h"

#define TAG_TEXT 1
#define TAG_VISION 0

/* A block's time as it is printed, and "<0.2 seconds>" around it. */
#define TIME_SIZE 32

typedef enum {
  VISION_START,
  VISION_END,
  IMAGE_PAD,
  VIDEO_PAD,
  VISION_PAD, /* only to be refused in a prompt */
  N_CONTROLS,
} Control;

static const gchar *const control_names[] = {
  [VISION_START] = "<|vision_start|>",
  [VISION_END] = "<|vision_end|>",
  [IMAGE_PAD] = "<|image_pad|>",
  [VIDEO_PAD] = "<|video_pad|>",
  [VISION_PAD] = "<|vision_pad|>",
};

typedef struct {
  H3Presentation *out;
  const H3Tokenizer *tokenizer;
  gint32 controls[N_CONTROLS];
  guint pictures, clips, sounds; /* labelled so far */
  gint32 position;               /* of the next token */
} Writer;

void
h3_presentation_clear (H3Presentation *presentation)
{
  g_clear_pointer (&presentation->ids, g_array_unref);
  g_clear_pointer (&presentation->tags, g_array_unref);
  g_clear_pointer (&presentation->positions, g_array_unref);
  g_clear_pointer (&presentation->pads, g_array_unref);
}

static void
append_place (Writer *w, gint32 tag, gint32 t, gint32 row, gint32 column)
{
  const gint32 position[] = { t, t + row, t + column };

  g_array_append_val (w->out->tags, tag);
  g_array_append_vals (w->out->positions, position, 3);
}

static gboolean
append_text (Writer *w, const gchar *text, gsize size, GError **error)
{
  if (!h3_tokenizer_encode (w->tokenizer, text, size, w->out->ids, error))
    return FALSE;
  while (w->out->tags->len < w->out->ids->len)
    append_place (w, TAG_TEXT, w->position++, 0, 0);
  return TRUE;
}

static gboolean append_label (Writer *w, GError **error, const gchar *format,
    ...) G_GNUC_PRINTF (3, 4);

static gboolean
append_label (Writer *w, GError **error, const gchar *format, ...)
{
  g_autofree gchar *label = NULL;
  va_list args;

  va_start (args, format);
  label = g_strdup_vprintf (format, args);
  va_end (args);
  return append_text (w, label, strlen (label), error);
}

static void
append_control (Writer *w, Control control)
{
  g_array_append_val (w->out->ids, w->controls[control]);
  append_place (w, TAG_VISION, w->position++, 0, 0);
}

/* Start, a token per 2 x 2 patches, end. The tokens share a time; the next token
 * comes after the longer side. */
static void
append_block (Writer *w, Control pad, const H3VisionSize *size)
{
  const gint32 rows = size->grid_h / H3_VISION_MERGE;
  const gint32 columns = size->grid_w / H3_VISION_MERGE;

  append_control (w, VISION_START);
  for (gint32 r = 0; r < rows; r++) {
    for (gint32 c = 0; c < columns; c++) {
      const gint32 at = w->out->ids->len;

      g_array_append_val (w->out->pads, at);
      g_array_append_val (w->out->ids, w->controls[pad]);
      append_place (w, TAG_VISION, w->position, r, c);
    }
  }
  w->position += MAX (rows, columns);
  append_control (w, VISION_END);
}

/* Samples 2 b and 2 b + 1, at b and b + 1/2 seconds; the last one alone is its
 * own pair. */
static gdouble
block_time (const H3TextCondition *clip, gint b)
{
  const gint last = clip->n_images - 1;

  return (2 * b + MIN (2 * b + 1, last)) / 2.0 / 2.0;
}

static gboolean
append_clip (Writer *w, const H3TextCondition *clip, GError **error)
{
  if (!append_label (w, error, "<Video %u>: ", ++w->clips))
    return FALSE;
  for (gint b = 0; b < clip->size.blocks; b++) {
    gchar time[TIME_SIZE];

    g_ascii_formatd (time, sizeof time, "%.1f", block_time (clip, b));
    if (!append_label (w, error, "<%s seconds>", time))
      return FALSE;
    append_block (w, VIDEO_PAD, &clip->size);
  }
  return TRUE;
}

static gboolean
append_condition (Writer *w, const H3TextCondition *condition, GError **error)
{
  if (condition->has_sound &&
      !append_label (w, error, "<Audio %u>: ", ++w->sounds))
    return FALSE;
  switch (condition->kind) {
    case H3_CONDITION_AUDIO:
      return TRUE;
    case H3_CONDITION_VIDEO:
      return append_clip (w, condition, error);
    default:
      if (!append_label (w, error, "<Picture %u>: ", ++w->pictures))
        return FALSE;
      append_block (w, IMAGE_PAD, &condition->size);
      return TRUE;
  }
}

static gboolean
check_conditions (const H3TextCondition *const *conditions, guint n,
    GError **error)
{
  g_autofree H3ConditionKind *kinds = g_new (H3ConditionKind, n);

  for (guint i = 0; i < n; i++) {
    kinds[i] = conditions[i]->kind;
    if (!conditions[i]->finished) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "reference %u, a clip, was not finished", i + 1);
      return FALSE;
    }
  }
  return h3_condition_kinds_check (kinds, n, error);
}

static gboolean
find_controls (Writer *w, GError **error)
{
  for (guint i = 0; i < N_CONTROLS; i++) {
    w->controls[i] = h3_tokenizer_control (w->tokenizer, control_names[i]);
    if (w->controls[i] < 0) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "the tokenizer has no %s, which pictures and clips need",
          control_names[i]);
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean
check_length (guint64 all, guint64 of_references, guint max_tokens,
    GError **error)
{
  if (all <= max_tokens)
    return TRUE;
  if (of_references == 0)
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "the prompt has %" G_GUINT64_FORMAT
        " tokens, at most %u are allowed; shorten it",
        all, max_tokens);
  else
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "the request has %" G_GUINT64_FORMAT " tokens, %" G_GUINT64_FORMAT
        " of them for its pictures and clips; at most %u are allowed: use "
        "fewer "
        "or smaller ones",
        all, of_references, max_tokens);
  return FALSE;
}

/* With start and end of each block. */
static guint64
count_vision (const H3TextCondition *const *conditions, guint n)
{
  guint64 sum = 0;

  for (guint i = 0; i < n; i++)
    sum += h3_text_condition_tokens (conditions[i]) +
           2 * (guint64) conditions[i]->size.blocks;
  return sum;
}

/* They would be taken for the request's own blocks. */
static gboolean
check_prompt (const Writer *w, guint first, GError **error)
{
  for (guint i = first; i < w->out->ids->len; i++) {
    const gint32 id = g_array_index (w->out->ids, gint32, i);

    for (guint k = 0; k < N_CONTROLS; k++) {
      if (id != w->controls[k])
        continue;
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "the prompt contains %s, which stands for a picture or a clip and "
          "cannot be written beside them",
          control_names[k]);
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean
write_request (Writer *w, const H3TextCondition *const *conditions, guint n,
    const gchar *prompt, gsize size, guint max_tokens, GError **error)
{
  const guint64 vision = count_vision (conditions, n);
  guint first;

  if (!check_length (vision, vision, max_tokens, error) ||
      (vision > 0 && !find_controls (w, error)))
    return FALSE;
  for (guint i = 0; i < n; i++) {
    if (!append_condition (w, conditions[i], error))
      return FALSE;
  }
  first = w->out->ids->len;
  return append_text (w, prompt, size, error) &&
         (vision == 0 || check_prompt (w, first, error)) &&
         check_length (w->out->ids->len, vision, max_tokens, error);
}

gboolean
h3_presentation_init (H3Presentation *presentation,
    const H3Tokenizer *tokenizer, const H3TextCondition *const *conditions,
    guint n, const gchar *prompt, gsize size, guint max_tokens, GError **error)
{
  Writer writer = { .out = presentation, .tokenizer = tokenizer };

  *presentation = (H3Presentation){ NULL };
  if (size == 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "the prompt is empty; describe the clip in at least one character");
    return FALSE;
  }
  if (!check_conditions (conditions, n, error))
    return FALSE;
  presentation->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  presentation->tags = g_array_new (FALSE, FALSE, sizeof (gint32));
  presentation->positions = g_array_new (FALSE, FALSE, sizeof (gint32));
  presentation->pads = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (write_request (&writer, conditions, n, prompt, size, max_tokens, error))
    return TRUE;
  h3_presentation_clear (presentation);
  return FALSE;
}

H3TextInput
h3_presentation_input (const H3Presentation *presentation,
    const H3VisionFeatures *vision)
{
  return (H3TextInput){
    .ids = (const gint32 *) presentation->ids->data,
    .n = presentation->ids->len,
    .positions = (const gint32 *) presentation->positions->data,
    .vision = vision,
    .pads = (const gint32 *) presentation->pads->data,
    .n_pads = presentation->pads->len,
  };
}
