/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3negotiate.h"

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

    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "What is linked to pad \"%s\" does not take what this clip would be: "
        "it is offered %s and takes %s",
        GST_PAD_NAME (src), offered, taken);
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
