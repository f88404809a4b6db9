/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From a request to token ids, tags and positions (text-encoder.md 3, 6). */
#pragma once

#include "model/text/text-model.h"
#include "model/text/tokenizer.h"

G_BEGIN_DECLS

/**
 * H3Presentation:
 * @ids: gint32 [N]
 * @tags: gint32 [N]: 1 text, 0 a vision block, its start and end included
 * @positions: gint32 [N][3]: (t, h, w) of the language model's rotation
 * @pads: gint32: the rows that the vision tower's tokens take, in its order
 */
typedef struct {
  GArray *ids, *tags, *positions, *pads;
} H3Presentation;

/**
 * h3_presentation_init:
 * @conditions: (array length=n): finished, in the order of the request; none for
 *   t2va
 *
 * The labels of the conditions ("<Picture 1>: ", "<Audio 1>: ", "<Video 1>: ",
 * "<0.2 seconds>"), their vision blocks, and the prompt; each piece is encoded on
 * its own. H3_ERROR_FORMAT for conditions that do not go together
 * (h3_condition_kinds_check()), an empty prompt, a prompt with vision tokens of
 * its own beside pictures, and more than @max_tokens, which is counted before
 * anything is made.
 */
gboolean h3_presentation_init (H3Presentation *presentation,
    const H3Tokenizer *tokenizer, const H3TextCondition *const *conditions,
    guint n, const gchar *prompt, gsize size, guint max_tokens, GError **error);
void h3_presentation_clear (H3Presentation *presentation);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3Presentation, h3_presentation_clear)

/* For h3_text_model_encode(), while @presentation and @vision live; @vision is
 * NULL without pictures and clips. */
H3TextInput h3_presentation_input (const H3Presentation *presentation,
    const H3VisionFeatures *vision);

G_END_DECLS
