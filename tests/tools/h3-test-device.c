/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "h3-test-device.h"

#include <math.h>

#include "cpu/h3-cpu.h"
#include "cuda/h3-cuda.h"
#include "model/checkpoint/stored-values.h"

gboolean
h3_test_on_gpu (void)
{
  return g_strcmp0 (g_getenv ("H3_TEST_BACKEND"), "cuda") == 0;
}

const gchar *
h3_test_backend (void)
{
  return h3_test_on_gpu () ? "cuda" : "cpu";
}

/* One for the whole program: making it takes half a second. */
static H3Device *
gpu (GError **error)
{
  static H3Device *device;

  if (!device)
    device = h3_cuda_open_device (-1, error);
  return device;
}

gboolean
h3_test_skip_program (void)
{
  g_autoptr (GError) error = NULL;

  if (!h3_test_on_gpu () || gpu (&error))
    return FALSE;
  g_print ("1..0 # SKIP %s\n", error->message);
  return TRUE;
}

H3Device *
h3_test_device_new (guint threads)
{
  g_autoptr (GError) error = NULL;
  H3Device *device = h3_test_on_gpu () ? gpu (&error) : NULL;

  if (device)
    return h3_device_ref (device);
  g_assert_no_error (error);
  device = h3_cpu_device_new (threads, &error);
  g_assert_no_error (error);
  return device;
}

gdouble
h3_test_tolerance (gdouble on_cpu, gdouble on_gpu)
{
  return h3_test_on_gpu () ? on_gpu : on_cpu;
}

void
h3_test_check_codes (const gchar *where, const guint8 *got, const gint32 *want,
    gsize n)
{
  gdouble squares = 0, psnr;
  gsize different = 0;
  gint most = 0;

  for (gsize i = 0; i < n; i++) {
    gint error = ABS (got[i] - want[i]);

    squares += (gdouble) error * error;
    different += error != 0;
    most = MAX (most, error);
  }
  psnr = 10 * log10 (255.0 * 255.0 * n / MAX (squares, 1e-9));
  g_test_message ("%s: %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT
                  " codes differ, by %d at most: %.1f dB",
      where, different, n, most, psnr);
  if (h3_test_on_gpu () ? psnr < 48 : most > 1 || different > n / 1000)
    g_error ("%s: the picture is not the golden one", where);
}

gfloat *
h3_test_to_host (H3Stream *stream, const H3Tensor *tensor)
{
  g_autoptr (GError) error = NULL;
  gint64 n = h3_tensor_size (tensor);
  g_autofree gpointer stored = g_malloc (MAX (tensor->bytes, 1));
  gfloat *values;

  h3_download (stream, stored, tensor);
  h3_stream_synchronize (stream, &error);
  g_assert_no_error (error);
  if (tensor->dtype == H3_DTYPE_F32)
    return g_steal_pointer (&stored);
  g_assert_true (
      tensor->dtype == H3_DTYPE_BF16 || tensor->dtype == H3_DTYPE_F16);
  values = g_new (gfloat, MAX (n, 1));
  h3_stored_values_widen (tensor->dtype == H3_DTYPE_F16 ? H3_STORED_F16
                                                        : H3_STORED_BF16,
      stored, n, values);
  return values;
}
