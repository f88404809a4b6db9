/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The JSON header of a safetensors file. Private to model/checkpoint. */
#pragma once

#include "model/checkpoint/safetensors.h"

G_BEGIN_DECLS

/* What one entry of the header says, before anything is made of it. */
typedef struct {
  const gchar *name;  /* inside the header's bytes */
  const gchar *dtype; /* likewise */
  guint rank;
  guint64 shape[H3_STORED_MAX_RANK];
  guint64 begin, end; /* data_offsets */
} H3HeaderEntry;

/**
 * h3_safetensors_header_parse:
 * @json: @length bytes, changed in place; the entries point into it
 * @path: for messages
 * @metadata: (element-type utf8 utf8): gets what __metadata__ says, inside @json
 * Returns: (element-type H3HeaderEntry): in file order, names unique
 */
GArray *h3_safetensors_header_parse (gchar *json, gsize length,
    const gchar *path, GHashTable *metadata, GError **error);

G_END_DECLS
