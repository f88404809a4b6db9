/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Small text files of a checkpoint, JSON most of them. */
#pragma once

#include <json-glib/json-glib.h>

#include "model/error.h"

G_BEGIN_DECLS

/**
 * h3_json_parse:
 * @name: the file, for messages
 * Returns: (transfer full): the root, an object; H3_ERROR_READ for anything
 *   that is no JSON object, H3_ERROR_NOT_FOUND and H3_ERROR_OPEN (h3_json_load)
 *   where there is no file to read
 */
JsonNode *h3_json_parse (const gchar *text, gsize length, const gchar *name,
    GError **error);
JsonNode *h3_json_load (const gchar *path, GError **error);

/**
 * h3_text_file_load:
 * @text: (out) (transfer full): the file's bytes, and a NUL
 *
 * Never waits for a writer, as a FIFO's reader would, and takes no more than
 * 64 MiB: names come from users and from downloads.
 *
 * Returns: FALSE with H3_ERROR_NOT_FOUND or H3_ERROR_OPEN
 */
gboolean h3_text_file_load (const gchar *path, gchar **text, gsize *length,
    GError **error);

G_END_DECLS
