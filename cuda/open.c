/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finding and loading the CUDA module. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <gmodule.h>

#include "cuda/h3-cuda.h"

GPtrArray *
h3_cuda_module_paths (const gchar *name, const gchar *build_folder)
{
  GPtrArray *paths = g_ptr_array_new_with_free_func (g_free);
  Dl_info info;

  if (dladdr (h3_cuda_open_device, &info) && info.dli_fname) {
    g_autofree gchar *dir = g_path_get_dirname (info.dli_fname);

    /* from lib/gstreamer-1.0, and from the build's gst */
    g_ptr_array_add (paths,
        g_build_filename (dir, "..", "gst-h3", name, NULL));
    g_ptr_array_add (paths,
        g_build_filename (dir, "..", build_folder, name, NULL));
  }
  g_ptr_array_add (paths, g_build_filename (H3_CUDA_INSTALLED, name, NULL));
  return paths;
}

/* Where the module may be, in this order. */
static GPtrArray *
candidates (void)
{
  const gchar *wanted = g_getenv ("H3_CUDA_MODULE");
  GPtrArray *paths;

  if (!wanted || !*wanted)
    return h3_cuda_module_paths (H3_CUDA_MODULE, "cuda");
  paths = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (paths, g_strdup (wanted));
  return paths;
}

static GModule *
open_module (GError **error)
{
  g_autoptr (GPtrArray) paths = candidates ();

  for (guint i = 0; i < paths->len; i++) {
    const gchar *path = g_ptr_array_index (paths, i);
    GModule *module;

    if (!g_file_test (path, G_FILE_TEST_EXISTS))
      continue;
    module = g_module_open (path, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
    if (!module)
      g_set_error (error, H3_ERROR, H3_ERROR_INIT,
          "the CUDA module cannot be "
          "loaded: %s; needed are CUDA's libraries cuBLASLt and, for the GPU, "
          "its driver",
          g_module_error ());
    return module;
  }
  g_set_error (error, H3_ERROR, H3_ERROR_NOT_FOUND,
      "no CUDA module at %s: "
      "this build has no CUDA device; use backend=auto or backend=cpu",
      (const gchar *) g_ptr_array_index (paths, 0));
  return NULL;
}

static H3CudaDeviceNew
find_function (GError **error)
{
  GModule *module = open_module (error);
  gpointer function;

  if (!module)
    return NULL;
  if (!g_module_symbol (module, H3_CUDA_DEVICE_NEW, &function)) {
    g_set_error (error, H3_ERROR, H3_ERROR_INIT, "%s is no CUDA module: %s",
        g_module_name (module), g_module_error ());
    g_module_close (module);
    return NULL;
  }
  /* CUDA's libraries leave threads behind that do not survive an unload */
  g_module_make_resident (module);
  return (H3CudaDeviceNew) function;
}

gboolean
h3_cuda_have_driver (void)
{
  gpointer driver = dlopen ("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

  if (!driver)
    return FALSE;
  dlclose (driver);
  return TRUE;
}

H3Device *
h3_cuda_open_device (gint ordinal, GError **error)
{
  static GMutex lock;
  static H3CudaDeviceNew device_new;

  g_mutex_lock (&lock);
  if (!device_new)
    device_new = find_function (error);
  g_mutex_unlock (&lock);
  return device_new ? device_new (ordinal, error) : NULL;
}
