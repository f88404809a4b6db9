/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The older place of quantisation markers: one JSON text in a file's metadata
 * (checkpoints.md 4.2). Private to model/checkpoint. */
#pragma once

#include <json-glib/json-glib.h>

#include "model/error.h"

G_BEGIN_DECLS

#define H3_QUANTISATION_METADATA "_quantization_metadata"

/**
 * h3_quantised_layers_parse:
 * @text: the metadata's
 * @names: (element-type utf8): of the file's tensors
 * @path: for messages
 *
 * A layer is an object as in a marker, or the format's name alone. Its name may
 * lack what the file's names begin with.
 *
 * Returns: (transfer full) (element-type utf8 JsonNode): a marker's object by the
 *   layer's name in the file; NULL with H3_ERROR_WRONG_TYPE for a text that is no
 *   such thing or a layer that has no weight in the file
 */
GHashTable *h3_quantised_layers_parse (const gchar *text,
    const GPtrArray *names, const gchar *path, GError **error);

G_END_DECLS
