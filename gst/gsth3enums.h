/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The enums of properties that several elements have. */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

typedef enum {
  GST_H3_BACKEND_AUTO,
  GST_H3_BACKEND_CUDA,
  GST_H3_BACKEND_CPU,
} GstH3Backend;

typedef enum {
  GST_H3_RESIDENCY_AUTO,
  GST_H3_RESIDENCY_PIPELINE,
  GST_H3_RESIDENCY_PROCESS,
  GST_H3_RESIDENCY_STAGE,
} GstH3Residency;

typedef enum {
  GST_H3_PRELOAD_NONE,
  GST_H3_PRELOAD_READY,
  GST_H3_PRELOAD_PAUSED,
} GstH3Preload;

#define GST_TYPE_H3_BACKEND (gst_h3_backend_get_type ())
typedef enum {
  GST_H3_WEIGHT_TYPE_AUTO,
  GST_H3_WEIGHT_TYPE_FP8,
} GstH3WeightType;

#define GST_H3_DEFAULT_WEIGHT_TYPE GST_H3_WEIGHT_TYPE_AUTO
#define GST_TYPE_H3_WEIGHT_TYPE (gst_h3_weight_type_get_type ())
#define GST_TYPE_H3_RESIDENCY (gst_h3_residency_get_type ())
#define GST_TYPE_H3_PRELOAD (gst_h3_preload_get_type ())
GType gst_h3_backend_get_type (void);
GType gst_h3_residency_get_type (void);
GType gst_h3_weight_type_get_type (void);
/* The property "weight-type". */
GParamSpec *gst_h3_weight_type_spec (void);
GType gst_h3_preload_get_type (void);

/* Registers an enum once; @values is static and ends with { 0 }. */
GType gst_h3_enum_register (gsize *once, const gchar *name,
    const GEnumValue *values);
/* "uniform": the nick of an enum's value. */
const gchar *gst_h3_enum_nick (GType type, gint value);

G_END_DECLS
