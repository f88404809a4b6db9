/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/presentation.h"

#define TAG_TEXT 1

void
h3_presentation_clear (H3Presentation *presentation)
{
  g_clear_pointer (&presentation->ids, g_array_unref);
  g_clear_pointer (&presentation->tags, g_array_unref);
}

static gboolean
append_text (H3Presentation *presentation, const H3Tokenizer *tokenizer,
    const gchar *text, gsize size, GError **error)
{
  const gint32 tag = TAG_TEXT;

  if (!h3_tokenizer_encode (tokenizer, text, size, presentation->ids, error))
    return FALSE;
  while (presentation->tags->len < presentation->ids->len)
    g_array_append_val (presentation->tags, tag);
  return TRUE;
}

gboolean
h3_presentation_t2va (const H3Tokenizer *tokenizer, const gchar *prompt,
    gsize size, guint max_tokens, H3Presentation *out, GError **error)
{
  H3Presentation presentation;

  if (size == 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "the prompt is empty; describe the clip in at least one character");
    return FALSE;
  }

  presentation.ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  presentation.tags = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (!append_text (&presentation, tokenizer, prompt, size, error)) {
    h3_presentation_clear (&presentation);
    return FALSE;
  }
  if (presentation.ids->len > max_tokens) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "the prompt has %u tokens, at most %u are allowed; shorten it",
        presentation.ids->len, max_tokens);
    h3_presentation_clear (&presentation);
    return FALSE;
  }
  *out = presentation;
  return TRUE;
}
