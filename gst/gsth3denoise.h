/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_H3_DENOISE (gst_h3_denoise_get_type ())
G_DECLARE_FINAL_TYPE (GstH3Denoise, gst_h3_denoise, GST, H3_DENOISE, GstElement)

typedef enum {
  GST_H3_TIMESTAMPS_CONTINUOUS,
  GST_H3_TIMESTAMPS_LIVE,
} GstH3Timestamps;

typedef enum {
  GST_H3_PARTITION_AUTO,
  GST_H3_PARTITION_FL2VA,
  GST_H3_PARTITION_REF2VA,
} GstH3Partition;

/* The order of the rows of the transformer's q, k, v. */
typedef enum {
  GST_H3_QKV_LAYOUT_AUTO,
  GST_H3_QKV_LAYOUT_GROUPED_PER_HEAD,
  GST_H3_QKV_LAYOUT_CONTIGUOUS,
} GstH3QkvLayout;

#define GST_TYPE_H3_TIMESTAMPS (gst_h3_timestamps_get_type ())
#define GST_TYPE_H3_PARTITION (gst_h3_partition_get_type ())
#define GST_TYPE_H3_QKV_LAYOUT (gst_h3_qkv_layout_get_type ())
GType gst_h3_timestamps_get_type (void);
GType gst_h3_partition_get_type (void);
GType gst_h3_qkv_layout_get_type (void);

/* The size in pixels and the aligned length that a clip without keyframes has by
 * the present settings; from READY on. FALSE when they give none. */
gboolean gst_h3_denoise_get_size (GstH3Denoise *denoise, gint *width,
    gint *height, gint *frames);

G_END_DECLS
