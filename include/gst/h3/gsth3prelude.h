/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gst/gst.h>

#ifdef BUILDING_GST_H3
#define GST_H3_API GST_API_EXPORT
#else
#define GST_H3_API GST_API_IMPORT
#endif

G_BEGIN_DECLS

/**
 * GstH3Type:
 *
 * What one element of a tensor is stored in. The names are the `type` field's
 * values in caps.
 */
typedef enum {
  GST_H3_TYPE_FLOAT32,
  GST_H3_TYPE_FLOAT16,
  GST_H3_TYPE_BFLOAT16,
  GST_H3_TYPE_INT32,
  GST_H3_TYPE_UINT8,
} GstH3Type;

/* Bytes of one element; "float32" and so on. */
GST_H3_API
gsize gst_h3_type_size (GstH3Type type);
GST_H3_API
const gchar *gst_h3_type_name (GstH3Type type);
GST_H3_API
gboolean gst_h3_type_from_name (const gchar *name, GstH3Type *type);

G_END_DECLS
