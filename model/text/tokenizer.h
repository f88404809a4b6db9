/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The Qwen tokenizer: text to ids (text-encoder.md 2). */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

typedef struct _H3Tokenizer H3Tokenizer;

/**
 * h3_tokenizer_load:
 * @dir: holds merges.txt, vocab.json and tokenizer_config.json
 *
 * Immutable once loaded; usable from several threads.
 */
H3Tokenizer *h3_tokenizer_load (const gchar *dir, GError **error);
/* The same from memory, for the fuzzer: any of the three may be hostile. */
H3Tokenizer *h3_tokenizer_parse (const gchar *merges, gsize merges_size,
    const gchar *vocab_json, gsize vocab_size, const gchar *config_json,
    gsize config_size, GError **error);
void h3_tokenizer_free (H3Tokenizer *tokenizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Tokenizer, h3_tokenizer_free)

/**
 * h3_tokenizer_encode:
 * @text: @size bytes, NUL is an ordinary character
 * @ids: (element-type gint32): ids are appended
 *
 * One segment. Invalid UTF-8 is H3_ERROR_FORMAT naming the byte's offset.
 */
gboolean h3_tokenizer_encode (const H3Tokenizer *tokenizer, const gchar *text,
    gsize size, GArray *ids, GError **error);
/* The id of a control token such as "<|vision_start|>", or -1. */
gint32 h3_tokenizer_control (const H3Tokenizer *tokenizer, const gchar *token);

/* Offset of the first byte that is not valid UTF-8 (text-encoder.md 2.8), or
 * -1. */
gssize h3_utf8_first_invalid (const gchar *text, gsize size);

G_END_DECLS
