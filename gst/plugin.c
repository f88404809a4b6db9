/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <gst/h3/h3.h>

#include "gst/gsth3common.h"
#include "gst/gsth3elements.h"
#include "gst/gsth3log.h"

static gboolean
plugin_init (GstPlugin *plugin)
{
  gboolean registered = FALSE;

  GST_DEBUG_CATEGORY_INIT (gst_h3_runtime_debug, "h3runtime", 0,
      "H3 devices, shared models and memory plans");
  gst_h3_log_init ();
  gst_h3_job_meta_init ();

  registered |= GST_ELEMENT_REGISTER (h3textenc, plugin);
  registered |= GST_ELEMENT_REGISTER (h3denoise, plugin);
  registered |= GST_ELEMENT_REGISTER (h3videovae, plugin);
  registered |= GST_ELEMENT_REGISTER (h3audiovae, plugin);
  registered |= GST_ELEMENT_REGISTER (h3videovaeenc, plugin);
  registered |= GST_ELEMENT_REGISTER (h3audiovaeenc, plugin);
  registered |= GST_ELEMENT_REGISTER (h3src, plugin);
  return registered;
}

GST_PLUGIN_DEFINE (GST_VERSION_MAJOR, GST_VERSION_MINOR, h3,
    "MiniMax H3: from a prompt to a clip of video and stereo sound",
    plugin_init, VERSION, "LGPL", PACKAGE, "Unknown package origin")
