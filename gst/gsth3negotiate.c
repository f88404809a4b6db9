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
      "%dth of it)", width * H3_LATENT_RATIO, height * H3_LATENT_RATIO,
      H3_LATENT_RATIO);
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
