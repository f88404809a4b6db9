/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3negotiate.h"

#include "model/denoise/geometry.h"

/* The picture that a video latent becomes, in the user's unit; "" for others. */
static gchar *
picture_of (const GstCaps *caps)
{
  const GstStructure *s = gst_caps_get_structure (caps, 0);
  gint width, height;

  if (g_strcmp0 (gst_structure_get_string (s, "modality"), "video") != 0 ||
      !gst_structure_get_int (s, "width", &width) ||
      !gst_structure_get_int (s, "height", &height))
    return g_strdup ("");
  return g_strdup_printf (" (a picture of %dx%d pixels; a latent's size is a "
                          "%dth of it)",
      width * H3_LATENT_RATIO, height * H3_LATENT_RATIO, H3_LATENT_RATIO);
}

GstCaps *
gst_h3_choose_caps (GstPad *src, GstCaps *system, GError **error)
{
  GstCaps *offer = gst_h3_caps_with_features (system);
  GstCaps *accepted = gst_pad_peer_query_caps (src, offer);
  GstCaps *caps = NULL;

  if (gst_caps_is_empty (accepted)) {
    GstCaps *wanted = gst_pad_peer_query_caps (src, NULL);
    gchar *offered = gst_caps_to_string (system);
    gchar *taken = gst_caps_to_string (wanted);
    gchar *picture = picture_of (system);

    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "What is linked to pad \"%s\" does not take what this clip would be%s: "
        "it is offered %s and takes %s",
        GST_PAD_NAME (src), picture, offered, taken);
    g_free (picture);
    g_free (taken);
    g_free (offered);
    gst_caps_unref (wanted);
  } else {
    caps = gst_caps_fixate (gst_caps_copy (accepted));
  }
  gst_caps_unref (accepted);
  gst_caps_unref (offer);
  gst_caps_unref (system);
  return caps;
}

/* @value times @ratio, or @up FALSE divided by it; FALSE when nothing is left. */
static gboolean
scale_size (const GValue *value, gint ratio, gboolean up, GValue *out)
{
  gint low, high, largest = up ? G_MAXINT / ratio : G_MAXINT;

  if (G_VALUE_HOLDS_INT (value)) {
    low = g_value_get_int (value);
    if (low > largest)
      return FALSE;
    g_value_init (out, G_TYPE_INT);
    g_value_set_int (out, up ? low * ratio : low / ratio);
    return up || low % ratio == 0;
  }
  if (GST_VALUE_HOLDS_INT_RANGE (value)) {
    low = gst_value_get_int_range_min (value);
    high = MIN (gst_value_get_int_range_max (value), largest);
    if (low >= high)
      return FALSE;
    g_value_init (out, GST_TYPE_INT_RANGE);
    if (up) {
      gst_value_set_int_range_step (out, low * ratio, high * ratio, ratio);
      return TRUE;
    }
    low = (low + ratio - 1) / ratio;
    high /= ratio;
    if (low < high) {
      gst_value_set_int_range (out, low, high);
    } else {
      g_value_unset (out);
      g_value_init (out, G_TYPE_INT);
      g_value_set_int (out, low);
    }
    return low <= high;
  }
  if (GST_VALUE_HOLDS_LIST (value)) {
    g_value_init (out, GST_TYPE_LIST);
    for (guint i = 0; i < gst_value_list_get_size (value); i++) {
      GValue one = G_VALUE_INIT;
      if (scale_size (gst_value_list_get_value (value, i), ratio, up, &one))
        gst_value_list_append_and_take_value (out, &one);
      else if (G_IS_VALUE (&one))
        g_value_unset (&one);
    }
    return gst_value_list_get_size (out) > 0;
  }
  return FALSE;
}

gboolean
gst_h3_limit_sizes (GstCaps *caps, const GstStructure *structure, gint ratio,
    gboolean up)
{
  static const gchar *const fields[] = { "width", "height" };

  for (guint i = 0; i < G_N_ELEMENTS (fields); i++) {
    const GValue *value = gst_structure_get_value (structure, fields[i]);
    GValue scaled = G_VALUE_INIT;
    gboolean ok = TRUE;

    if (!value)
      continue;
    ok = scale_size (value, ratio, up, &scaled);
    if (ok)
      gst_caps_set_value (caps, fields[i], &scaled);
    if (G_IS_VALUE (&scaled))
      g_value_unset (&scaled);
    if (!ok)
      return FALSE;
  }
  return TRUE;
}
