/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Caps to facts and back (spec/gstreamer.md 4). A reader takes nothing on
 * trust: caps cross files and networks. */
#include "gsth3caps.h"

#include <string.h>

#define MAX_CHANNELS 128
#define MAX_HIDDEN 65536
#define MAX_TOKENS 1048576
#define MAX_VIDEO_FRAMES 65536
#define MAX_AUDIO_FRAMES 1048576
#define MAX_SIDE 2048
#define MAX_REFERENCES 12

static gboolean
bad_field (GError **error, const GstStructure *structure, const gchar *field,
    const gchar *needed)
{
  const GValue *value = gst_structure_get_value (structure, field);
  gchar *found = value ? gst_value_serialize (value) : NULL;

  if (value && !found)
    found = g_strdup (G_VALUE_TYPE_NAME (value));
  g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      "The caps field \"%s\" of %s is %s; it must be %s", field,
      gst_structure_get_name (structure), found ? found : "missing", needed);
  g_free (found);
  return FALSE;
}

static gboolean
get_int (const GstStructure *structure, const gchar *field, gint min, gint max,
    gint *value, GError **error)
{
  if (!gst_structure_get_int (structure, field, value) || *value < min ||
      *value > max) {
    gchar *needed = g_strdup_printf ("an integer from %d to %d", min, max);

    bad_field (error, structure, field, needed);
    g_free (needed);
    return FALSE;
  }
  return TRUE;
}

static gboolean
get_type (const GstStructure *structure, GstH3Type *type, GError **error)
{
  const gchar *name = gst_structure_get_string (structure, "type");

  if (!gst_h3_type_from_name (name, type) || *type != GST_H3_TYPE_FLOAT32)
    return bad_field (error, structure, "type", "float32");
  return TRUE;
}

/* The one structure of fixed caps of that media type. */
static const GstStructure *
get_structure (const GstCaps *caps, const gchar *media_type, GError **error)
{
  const GstStructure *structure;

  if (!caps || gst_caps_is_any (caps) || gst_caps_get_size (caps) != 1) {
    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "The caps must be one structure %s", media_type);
    return NULL;
  }
  structure = gst_caps_get_structure (caps, 0);
  if (!gst_structure_has_name (structure, media_type)) {
    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "The caps are %s; %s is needed", gst_structure_get_name (structure),
        media_type);
    return NULL;
  }
  return structure;
}

static const gchar *
known_task (const gchar *task)
{
  static const gchar *const tasks[] = { "t2va", "fl2va", "ref2va" };

  for (guint i = 0; i < G_N_ELEMENTS (tasks); i++)
    if (g_strcmp0 (task, tasks[i]) == 0)
      return tasks[i];
  return NULL;
}

static gboolean
get_references (const GstStructure *s, GstH3EmbedsInfo *info, GError **error)
{
  if (g_str_equal (info->task, "t2va") &&
      !gst_structure_has_field (s, "references"))
    return TRUE;
  return get_int (s, "references", g_str_equal (info->task, "t2va") ? 0 : 1,
      g_str_equal (info->task, "t2va") ? 0 : MAX_REFERENCES, &info->references,
      error);
}

/* Pairs of first row and number, each after the one before. */
static gboolean
get_vision (const GstStructure *s, GstH3EmbedsInfo *info, GError **error)
{
  const GValue *array = gst_structure_get_value (s, "vision");
  gint end = 0;
  guint n;

  if (!array)
    return TRUE;
  n = GST_VALUE_HOLDS_ARRAY (array) ? gst_value_array_get_size (array) : 1;
  if (n % 2 != 0 || n / 2 > GST_H3_MAX_VISION_BLOCKS)
    return bad_field (error, s, "vision",
        "an array of at most 64 pairs of integers");
  for (guint i = 0; i < n; i++) {
    const GValue *value = gst_value_array_get_value (array, i);
    gint x = G_VALUE_HOLDS_INT (value) ? g_value_get_int (value) : -1;

    if (i % 2 == 0 ? x < end : x < 1 || x > info->tokens - end)
      return bad_field (error, s, "vision",
          "pairs of a first row and a number of rows, ascending, within "
          "tokens");
    if (i % 2 == 0)
      info->vision[i / 2].first = x;
    else
      info->vision[i / 2].n = x;
    end = i % 2 == 0 ? x : end + x;
  }
  info->n_vision = n / 2;
  return TRUE;
}

gboolean
gst_h3_embeds_info_from_caps (GstH3EmbedsInfo *info, const GstCaps *caps,
    GError **error)
{
  const GstStructure *s = get_structure (caps, GST_H3_EMBEDS_MEDIA_TYPE, error);
  GstH3EmbedsInfo found = {
    0,
  };

  if (!s)
    return FALSE;
  found.task = known_task (gst_structure_get_string (s, "task"));
  if (!found.task)
    return bad_field (error, s, "task", "t2va, fl2va or ref2va");
  if (!get_type (s, &found.type, error) ||
      !get_int (s, "tokens", 1, MAX_TOKENS, &found.tokens, error) ||
      !get_int (s, "hidden", 1, MAX_HIDDEN, &found.hidden, error) ||
      !get_references (s, &found, error) || !get_vision (s, &found, error))
    return FALSE;
  *info = found;
  return TRUE;
}

static gboolean
get_video (const GstStructure *s, GstH3LatentInfo *info, GError **error)
{
  gint n, d;

  if (!get_int (s, "frames", 1, MAX_VIDEO_FRAMES, &info->frames, error) ||
      !get_int (s, "height", 2, MAX_SIDE, &info->height, error) ||
      !get_int (s, "width", 2, MAX_SIDE, &info->width, error))
    return FALSE;
  if (!gst_structure_get_fraction (s, "framerate", &n, &d) || n != 24 || d != 1)
    return bad_field (error, s, "framerate", "24/1");
  return TRUE;
}

static gboolean
get_audio (const GstStructure *s, GstH3LatentInfo *info, GError **error)
{
  gint rate;

  return get_int (s, "frames", 1, MAX_AUDIO_FRAMES, &info->frames, error) &&
         get_int (s, "audio-channels", 2, 2, &info->audio_channels, error) &&
         get_int (s, "rate", 32000, 32000, &rate, error);
}

gboolean
gst_h3_latent_info_from_caps (GstH3LatentInfo *info, const GstCaps *caps,
    GError **error)
{
  const GstStructure *s = get_structure (caps, GST_H3_LATENT_MEDIA_TYPE, error);
  GstH3LatentInfo found = {
    0,
  };
  const gchar *modality;

  if (!s)
    return FALSE;
  modality = gst_structure_get_string (s, "modality");
  if (g_strcmp0 (modality, "video") == 0)
    found.modality = GST_H3_MODALITY_VIDEO;
  else if (g_strcmp0 (modality, "audio") == 0)
    found.modality = GST_H3_MODALITY_AUDIO;
  else
    return bad_field (error, s, "modality", "video or audio");
  if (!get_type (s, &found.type, error) ||
      !get_int (s, "channels", 1, MAX_CHANNELS, &found.channels, error))
    return FALSE;
  if (found.modality == GST_H3_MODALITY_VIDEO ? !get_video (s, &found, error)
                                              : !get_audio (s, &found, error))
    return FALSE;
  *info = found;
  return TRUE;
}

static void
set_device_feature (GstCaps *caps, gboolean device)
{
  if (device) {
    gst_caps_set_features_simple (caps,
        gst_caps_features_new (GST_CAPS_FEATURE_MEMORY_H3_DEVICE, NULL));
  }
}

static void
append_int (GValue *array, gint x)
{
  GValue value = G_VALUE_INIT;

  g_value_init (&value, G_TYPE_INT);
  g_value_set_int (&value, x);
  gst_value_array_append_and_take_value (array, &value);
}

static void
set_vision (GstCaps *caps, const GstH3EmbedsInfo *info)
{
  GValue array = G_VALUE_INIT;

  g_value_init (&array, GST_TYPE_ARRAY);
  for (guint i = 0; i < info->n_vision; i++) {
    append_int (&array, info->vision[i].first);
    append_int (&array, info->vision[i].n);
  }
  gst_caps_set_value (caps, "vision", &array);
  g_value_unset (&array);
}

GstCaps *
gst_h3_embeds_info_to_caps (const GstH3EmbedsInfo *info, gboolean device)
{
  GstCaps *caps = gst_caps_new_simple (GST_H3_EMBEDS_MEDIA_TYPE, "task",
      G_TYPE_STRING, info->task ? info->task : "t2va", "type", G_TYPE_STRING,
      gst_h3_type_name (info->type), "tokens", G_TYPE_INT, info->tokens,
      "hidden", G_TYPE_INT, info->hidden, NULL);

  if (info->references > 0)
    gst_caps_set_simple (caps, "references", G_TYPE_INT, info->references,
        NULL);
  if (info->n_vision > 0)
    set_vision (caps, info);
  set_device_feature (caps, device);
  return caps;
}

GstCaps *
gst_h3_latent_info_to_caps (const GstH3LatentInfo *info, gboolean device)
{
  gboolean video = info->modality == GST_H3_MODALITY_VIDEO;
  GstCaps *caps = gst_caps_new_simple (GST_H3_LATENT_MEDIA_TYPE, "modality",
      G_TYPE_STRING, video ? "video" : "audio", "type", G_TYPE_STRING,
      gst_h3_type_name (info->type), "channels", G_TYPE_INT, info->channels,
      "frames", G_TYPE_INT, info->frames, NULL);

  if (video) {
    gst_caps_set_simple (caps, "height", G_TYPE_INT, info->height, "width",
        G_TYPE_INT, info->width, "framerate", GST_TYPE_FRACTION, 24, 1, NULL);
  } else {
    gst_caps_set_simple (caps, "audio-channels", G_TYPE_INT,
        info->audio_channels, "rate", G_TYPE_INT, 32000, NULL);
  }
  set_device_feature (caps, device);
  return caps;
}

gsize
gst_h3_embeds_info_size (const GstH3EmbedsInfo *info)
{
  return (gsize) info->tokens * info->hidden * gst_h3_type_size (info->type);
}

guint
gst_h3_latent_info_shape (const GstH3LatentInfo *info,
    gint64 dim[GST_H3_MAX_RANK])
{
  if (info->modality == GST_H3_MODALITY_VIDEO) {
    dim[0] = info->channels;
    dim[1] = info->frames;
    dim[2] = info->height;
    dim[3] = info->width;
    return 4;
  }
  dim[0] = info->audio_channels;
  dim[1] = info->channels;
  dim[2] = info->frames;
  return 3;
}

/* The limits above keep the product far from overflowing 64 bits. */
gsize
gst_h3_latent_info_size (const GstH3LatentInfo *info)
{
  gint64 dim[GST_H3_MAX_RANK];
  guint rank = gst_h3_latent_info_shape (info, dim);
  gsize size = gst_h3_type_size (info->type);

  for (guint i = 0; i < rank; i++)
    size *= dim[i];
  return size;
}

GstCaps *
gst_h3_caps_with_features (const GstCaps *caps)
{
  GstCaps *system = gst_caps_copy (caps);
  GstCaps *device;

  gst_caps_set_features_simple (system,
      gst_caps_features_new (GST_CAPS_FEATURE_MEMORY_SYSTEM_MEMORY, NULL));
  device = gst_caps_copy (system);
  set_device_feature (device, TRUE);
  gst_caps_append (device, system);
  return device;
}
