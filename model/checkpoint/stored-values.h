/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stored bytes as numbers. Private to model/checkpoint. */
#pragma once

#include "model/checkpoint/stored-tensor.h"

G_BEGIN_DECLS

/* @bytes may have any alignment. For F32, F16 and BF16 only. */

/* FALSE, with the first one's place in @index, when a value is NaN or Inf. Also
 * for F8_E4M3, F8_E5M2, I8 and U8, and for blocks, @n and @index counting those:
 * when a scale is. */
gboolean h3_stored_values_finite (H3StoredType type, gconstpointer bytes,
    gsize n, gsize *index);
/* dst[i] = the value, exact in float32. */
void h3_stored_values_widen (H3StoredType type, gconstpointer bytes, gsize n,
    gfloat *dst);
/**
 * h3_stored_values_convert:
 * @to: F32, F16 or BF16
 * @dst: any alignment. It may overlap @bytes where it begins before them and
 *   does not end behind them, or begins with them and has no wider type
 *
 * Rounds to nearest, ties to even. What is too large becomes Inf.
 */
void h3_stored_values_convert (H3StoredType type, gconstpointer bytes, gsize n,
    H3StoredType to, gpointer dst);

G_END_DECLS
