/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Properties that are arrays of texts: references, loras. */
#pragma once

#include <gst/gst.h>

#include "model/checkpoint/checkpoint.h"

G_BEGIN_DECLS

/* Of a GST_TYPE_ARRAY of strings; NULL when it is empty. g_strfreev() it. */
gchar **gst_h3_strings_from_array (const GValue *array);
void gst_h3_strings_to_array (gchar **strings, GValue *array);

/**
 * gst_h3_loras_parse:
 * @strings: (nullable): "PATH" or "PATH:STRENGTH", the path or a file's URI; what
 *   follows the last colon is a strength when all of it is a number
 *
 * Returns: (element-type H3AdapterChoice): g_array_unref() it
 */
GArray *gst_h3_loras_parse (gchar **strings);

G_END_DECLS
