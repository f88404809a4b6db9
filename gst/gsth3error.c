/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3error.h"

#include "model/printable.h"

typedef struct {
  GQuark (*domain) (void);
  gint code;
} GstCode;

static const GstCode codes[] = {
  [H3_ERROR_NOT_FOUND] = { gst_resource_error_quark,
      GST_RESOURCE_ERROR_NOT_FOUND },
  [H3_ERROR_OPEN] = { gst_resource_error_quark, GST_RESOURCE_ERROR_OPEN_READ },
  [H3_ERROR_READ] = { gst_resource_error_quark, GST_RESOURCE_ERROR_READ },
  [H3_ERROR_WRONG_TYPE] = { gst_stream_error_quark,
      GST_STREAM_ERROR_WRONG_TYPE },
  [H3_ERROR_SETTINGS] = { gst_library_error_quark, GST_LIBRARY_ERROR_SETTINGS },
  [H3_ERROR_FORMAT] = { gst_stream_error_quark, GST_STREAM_ERROR_FORMAT },
  [H3_ERROR_NO_SPACE] = { gst_resource_error_quark,
      GST_RESOURCE_ERROR_NO_SPACE_LEFT },
  [H3_ERROR_INIT] = { gst_library_error_quark, GST_LIBRARY_ERROR_INIT },
  [H3_ERROR_BUSY] = { gst_resource_error_quark, GST_RESOURCE_ERROR_BUSY },
  [H3_ERROR_DEVICE] = { gst_library_error_quark, GST_LIBRARY_ERROR_FAILED },
  [H3_ERROR_NUMERIC] = { gst_stream_error_quark, GST_STREAM_ERROR_FAILED },
  [H3_ERROR_CANCELLED] = { gst_library_error_quark, GST_LIBRARY_ERROR_FAILED },
};

/* What @error becomes: a GStreamer domain and its code. */
static void
error_to_gst (const GError *error, GQuark *domain, gint *code)
{
  if (error->domain == H3_ERROR && error->code >= 0 &&
      error->code < G_N_ELEMENTS (codes)) {
    *domain = codes[error->code].domain ();
    *code = codes[error->code].code;
  } else if (error->domain == GST_CORE_ERROR ||
             error->domain == GST_LIBRARY_ERROR ||
             error->domain == GST_RESOURCE_ERROR ||
             error->domain == GST_STREAM_ERROR) {
    *domain = error->domain;
    *code = error->code;
  } else {
    *domain = GST_LIBRARY_ERROR;
    *code = GST_LIBRARY_ERROR_FAILED;
  }
}

void
gst_h3_element_error (GstElement *element, const GError *error,
    const gchar *debug)
{
  GQuark domain;
  gint code;

  if (g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED))
    return;
  error_to_gst (error, &domain, &code);
  gst_element_message_full (element, GST_MESSAGE_ERROR, domain, code,
      h3_printable (error->message), g_strdup (debug), __FILE__, GST_FUNCTION,
      __LINE__);
}
