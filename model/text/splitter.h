/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Words of a text: Qwen2's pre-tokenizer (text-encoder.md 2.4). */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * h3_split_word:
 * @s: one piece of text, between two control tokens, in normal form C
 * @i: where the word begins, below @n
 *
 * Returns: where it ends: above @i, at most @n
 */
gsize h3_split_word (const gunichar *s, gsize n, gsize i);

G_END_DECLS
