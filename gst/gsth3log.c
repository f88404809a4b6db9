/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3log.h"

GST_DEBUG_CATEGORY_STATIC (gst_h3_cuda_debug);
GST_DEBUG_CATEGORY_STATIC (gst_h3_model_debug);

/* A device's failure becomes an element's error: here it is never more than a
 * warning. */
static GstDebugLevel
level_of (GLogLevelFlags flags)
{
  if (flags & (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_WARNING))
    return GST_LEVEL_WARNING;
  return flags & G_LOG_LEVEL_DEBUG ? GST_LEVEL_DEBUG : GST_LEVEL_INFO;
}

/* @user_data: the category */
static void
log_message (const gchar *domain, GLogLevelFlags flags, const gchar *message,
    gpointer user_data)
{
  gst_debug_log (user_data, level_of (flags), domain, "", 0, NULL, "%s",
      message);
}

void
gst_h3_log_init (void)
{
  if (gst_h3_cuda_debug)
    return;
  GST_DEBUG_CATEGORY_INIT (gst_h3_cuda_debug, "h3cuda", 0, "H3's CUDA device");
  GST_DEBUG_CATEGORY_INIT (gst_h3_model_debug, "h3model", 0,
      "H3's checkpoints and models");
  g_log_set_handler ("h3cuda", G_LOG_LEVEL_MASK | G_LOG_FLAG_FATAL, log_message,
      gst_h3_cuda_debug);
  g_log_set_handler ("h3", G_LOG_LEVEL_MASK | G_LOG_FLAG_FATAL, log_message,
      gst_h3_model_debug);
}
