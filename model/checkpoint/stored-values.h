/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stored bytes as numbers. Private to model/checkpoint. */
#pragma once

#include "model/checkpoint/safetensors.h"

G_BEGIN_DECLS

/* @bytes may have any alignment. For F32, F16 and BF16 only. */

/* FALSE, with the first one's place in @index, when a value is NaN or Inf. */
gboolean h3_stored_values_finite (H3StoredType type, gconstpointer bytes,
    gsize n, gsize *index);
/* dst[i] = the value, exact in float32. @dst may be @bytes for F32. */
void h3_stored_values_widen (H3StoredType type, gconstpointer bytes, gsize n,
    gfloat *dst);

G_END_DECLS
