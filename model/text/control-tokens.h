/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tokens that are cut out of the raw text (text-encoder.md 2.2). */
#pragma once

#include "model/text/vocab.h"

G_BEGIN_DECLS

typedef struct {
  gchar *text;
  gsize size;
  gint32 id;
} H3ControlToken;

typedef struct _H3ControlTokens H3ControlTokens;

/**
 * h3_control_tokens_parse:
 * @config_json: tokenizer_config.json
 * @vocab: the tokens are added to it: those of added_tokens_decoder under their
 *   ids, then those of additional_special_tokens without one, in their order,
 *   after the highest id
 *
 * Settings that would change the ids in a way this tokenizer does not know
 * (a BOS token, a prefix space, stripping tokens) are H3_ERROR_WRONG_TYPE.
 */
H3ControlTokens *h3_control_tokens_parse (const gchar *config_json, gsize size,
    H3Vocab *vocab, GError **error);
void h3_control_tokens_free (H3ControlTokens *tokens);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3ControlTokens, h3_control_tokens_free)

/* The first token at or after @from, the longest where several begin there, and
 * where it begins; NULL when there is none. */
const H3ControlToken *h3_control_tokens_find (const H3ControlTokens *tokens,
    const gchar *text, gsize size, gsize from, gsize *start);
/* The token spelled @text, or NULL. */
const H3ControlToken *h3_control_tokens_lookup (const H3ControlTokens *tokens,
    const gchar *text);

G_END_DECLS
