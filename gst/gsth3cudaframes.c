/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3cudaframes.h"

#include <gmodule.h>

#include "cuda/h3-cuda.h"

GST_DEBUG_CATEGORY_EXTERN (gst_h3_runtime_debug);
#define GST_CAT_DEFAULT gst_h3_runtime_debug

static const GstH3CudaFrames *
load_module (void)
{
  g_autoptr (GPtrArray) paths =
      h3_cuda_module_paths (GST_H3_CUDA_FRAMES_MODULE, "gstcuda");

  for (guint i = 0; i < paths->len; i++) {
    const gchar *path = g_ptr_array_index (paths, i);
    const GstH3CudaFrames *frames;
    GModule *module;
    gpointer get;

    if (!g_file_test (path, G_FILE_TEST_EXISTS))
      continue;
    module = g_module_open (path, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
    if (!module || !g_module_symbol (module, GST_H3_CUDA_FRAMES_GET, &get)) {
      GST_INFO ("no frames in %s: %s", GST_H3_CUDA_MEMORY, g_module_error ());
      if (module)
        g_module_close (module);
      return NULL;
    }
    /* it has GTypes of libgstcuda in use */
    g_module_make_resident (module);
    frames = ((GstH3CudaFramesGet) get) ();
    if (!frames)
      GST_INFO ("no frames in %s: no NVIDIA driver", GST_H3_CUDA_MEMORY);
    return frames;
  }
  GST_DEBUG ("this build has no %s", GST_H3_CUDA_FRAMES_MODULE);
  return NULL;
}

const GstH3CudaFrames *
gst_h3_cuda_frames_load (void)
{
  static gsize once = 0;
  static const GstH3CudaFrames *frames;

  if (g_once_init_enter (&once)) {
    frames = load_module ();
    g_once_init_leave (&once, 1);
  }
  return frames;
}

const GstH3CudaFrames *
gst_h3_cuda_frames_for (H3Device *device)
{
  const GstH3CudaFrames *frames =
      device->host_memory ? NULL : gst_h3_cuda_frames_load ();

  return frames && frames->usable (device->ordinal) ? frames : NULL;
}
