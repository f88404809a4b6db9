/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GGUF's blocks as numbers (checkpoints.md 6.3). */
#pragma once

#include "model/tensor.h"

G_BEGIN_DECLS

/* Whether @encoding is one of them: h3_encoding_info() has a block's columns and
 * bytes. */
gboolean h3_encoding_is_block (H3Encoding encoding);

/**
 * h3_blocks_decode:
 * @encoding: one of the blocks
 * @bytes: @n whole blocks, of any alignment
 * @dst: [n * block] float32
 *
 * By the specification's formulas, a block's scales widened first. What a
 * scale's code makes NaN or Inf is that here.
 */
void h3_blocks_decode (H3Encoding encoding, gconstpointer bytes, gsize n,
    gfloat *dst);

G_END_DECLS
