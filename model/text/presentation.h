/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From a request to token ids and tags (text-encoder.md 3). */
#pragma once

#include "model/text/tokenizer.h"

G_BEGIN_DECLS

typedef struct {
  GArray *ids;  /* gint32 [N] */
  GArray *tags; /* gint32 [N]: 1 text, 0 vision block */
} H3Presentation;

/* t2va: the prompt alone. Empty text, and more than @max_tokens, are
 * H3_ERROR_FORMAT. */
gboolean h3_presentation_t2va (const H3Tokenizer *tokenizer,
    const gchar *prompt, gsize size, guint max_tokens, H3Presentation *out,
    GError **error);
void h3_presentation_clear (H3Presentation *presentation);

G_END_DECLS
