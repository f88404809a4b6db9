/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3enums.h"

GType
gst_h3_enum_register (gsize *once, const gchar *name, const GEnumValue *values)
{
  if (g_once_init_enter (once))
    g_once_init_leave (once, g_enum_register_static (name, values));
  return *once;
}

GType
gst_h3_backend_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_BACKEND_AUTO,
        "A usable GPU if this build has CUDA, else the CPU; $H3_BACKEND "
        "overrides it",
        "auto" },
    { GST_H3_BACKEND_CUDA, "An NVIDIA GPU, or an error", "cuda" },
    { GST_H3_BACKEND_CPU, "The CPU, in float32", "cpu" }, { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Backend", values);
}

GType
gst_h3_residency_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_RESIDENCY_AUTO,
        "As pipeline while everything fits; else the models that take turns "
        "leave, the one longest unused first, when another needs the room",
        "auto" },
    { GST_H3_RESIDENCY_PIPELINE,
        "Free the model when the last element that uses it goes to NULL",
        "pipeline" },
    { GST_H3_RESIDENCY_PROCESS,
        "Keep the model until \"unload\" or the end of the process, so that "
        "the next pipeline starts at once",
        "process" },
    { GST_H3_RESIDENCY_STAGE, "The models that take turns leave after each job",
        "stage" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Residency", values);
}

GType
gst_h3_weight_type_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = { { GST_H3_WEIGHT_TYPE_AUTO,
                                           "As the files have them", "auto" },
    { GST_H3_WEIGHT_TYPE_FP8,
        "Floats become E4M3 with a scale for each row: half the memory of "
        "BF16, "
        "and faster where the GPU multiplies them",
        "fp8" },
    { 0 } };

  return gst_h3_enum_register (&type, "GstH3WeightType", values);
}

GParamSpec *
gst_h3_weight_type_spec (void)
{
  return g_param_spec_enum ("weight-type", "Weight type",
      "What the matrices of the model's layers become while they are loaded.",
      GST_TYPE_H3_WEIGHT_TYPE, GST_H3_DEFAULT_WEIGHT_TYPE,
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
}

GType
gst_h3_preload_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_PRELOAD_NONE, "Load when the first prompt needs it", "none" },
    { GST_H3_PRELOAD_READY, "Begin loading when going to READY", "ready" },
    { GST_H3_PRELOAD_PAUSED, "Begin loading when going to PAUSED", "paused" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Preload", values);
}

const gchar *
gst_h3_enum_nick (GType type, gint value)
{
  GEnumClass *klass = g_type_class_ref (type);
  GEnumValue *found = g_enum_get_value (klass, value);
  const gchar *nick = found ? found->value_nick : "unknown";

  g_type_class_unref (klass);
  return nick; /* static: the type stays registered */
}
