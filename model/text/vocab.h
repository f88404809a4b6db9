/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tokens and their ids, one to one. */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

typedef struct _H3Vocab H3Vocab;

/**
 * h3_vocab_parse:
 * @json: vocab.json: one object, token to id
 */
H3Vocab *h3_vocab_parse (const gchar *json, gsize size, GError **error);
void h3_vocab_free (H3Vocab *vocab);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Vocab, h3_vocab_free)

/* The token's id, or -1. */
gint32 h3_vocab_lookup (const H3Vocab *vocab, const gchar *token);
/* The highest id in use, or -1. */
gint32 h3_vocab_highest (const H3Vocab *vocab);
/* FALSE when @id is out of range, or the token or the id is taken otherwise.
 * @file: for messages. */
gboolean h3_vocab_add (H3Vocab *vocab, const gchar *token, gint64 id,
    const gchar *file, GError **error);

G_END_DECLS
