/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Byte-pair encoding of one word (text-encoder.md 2.5, 2.6). */
#pragma once

#include "model/text/vocab.h"

G_BEGIN_DECLS

typedef struct _H3Bpe H3Bpe;

/**
 * h3_bpe_parse:
 * @merges: merges.txt: a pair a line, the first has the lowest rank
 * @vocab: gives the ids; every byte and every merge must be in it
 *
 * Immutable.
 */
H3Bpe *h3_bpe_parse (const gchar *merges, gsize size, const H3Vocab *vocab,
    GError **error);
void h3_bpe_free (H3Bpe *bpe);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Bpe, h3_bpe_free)

/* What encoding works in; grows to the longest word. */
typedef struct _H3BpeWork H3BpeWork;
H3BpeWork *h3_bpe_work_new (void);
void h3_bpe_work_free (H3BpeWork *work);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3BpeWork, h3_bpe_work_free)

/**
 * h3_bpe_encode:
 * @ids: (element-type gint32): the word's ids are appended
 *
 * O(n log n). Fails only for want of memory (H3_ERROR_NO_SPACE).
 */
gboolean h3_bpe_encode (const H3Bpe *bpe, H3BpeWork *work, const guint8 *word,
    gsize n, GArray *ids, GError **error);

G_END_DECLS
