/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as a file of quantised matrices: each is refused with an error, or
 * loaded whole, with scales for every row, block and column. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include "model/checkpoint/loader.h"
#include "tests/checkpoint/test-device.h"

#include <sys/mman.h>
#include <unistd.h>

/* So that no input takes long. */
#define MAX_DIMENSION 512

static H3TensorSet *
open_bytes (gint fd, const guint8 *data, gsize size, GError **error)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/self/fd/%d", fd);

  g_assert_cmpint (ftruncate (fd, 0), ==, 0);
  g_assert_cmpint (pwrite (fd, data, size, 0), ==, (gssize) size);
  return h3_tensor_set_open (path, error);
}

static void
check_weight (const H3Weight *w, gint64 rows, gint64 cols)
{
  const H3EncodingInfo *info = h3_encoding_info (w->encoding);

  g_assert_cmpint (w->rows, ==, rows);
  g_assert_cmpint (w->cols, ==, cols);
  if (w->encoding == H3_ENCODING_PLAIN)
    return;
  g_assert_cmpint (w->tensor->bytes, ==,
      rows * h3_encoding_row_bytes (w->encoding, cols));
  g_assert_true (info->scale == (w->scale != NULL));
  if (w->scale)
    g_assert_cmpint (h3_tensor_size (w->scale), ==, rows);
  for (gint64 i = 0; w->scale && i < rows; i++)
    g_assert_true (((gfloat *) w->scale->data)[i] > 0);
  if (info->scale_block)
    g_assert_cmpint (h3_tensor_size (w->block_scale), ==,
        rows * ((cols + info->scale_block - 1) / info->scale_block));
  if (w->column_scale)
    g_assert_cmpint (h3_tensor_size (w->column_scale), ==, cols);
  g_assert_cmpint (cols % w->rotation, ==, 0);
}

static void
check_error (const GError *error)
{
  g_assert_true (error->domain == H3_ERROR);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
}

static void
load (H3TensorSet *set, TestDevice *device, const gchar *name, gint64 rows,
    gint64 cols)
{
  g_autoptr (H3Loader) loader = h3_loader_new (set, "fuzz");
  g_autoptr (H3Weight) w = NULL;
  g_autoptr (GError) error = NULL;

  h3_loader_ignore (loader, "*");
  h3_loader_matrix (loader, name, rows, cols);
  if (!h3_loader_finish (loader, &error)) {
    check_error (error);
    return;
  }
  if (!h3_loader_begin (loader, &device->device, NULL, NULL, NULL, &error))
    g_error ("%s", error->message);
  w = h3_loader_matrix (loader, name, rows, cols);
  if (h3_loader_finish (loader, &error))
    check_weight (w, rows, cols);
  else
    check_error (error);
}

/* The stored shape as it is, with two codes a byte, and with padding. */
static void
load_shapes (H3TensorSet *set, TestDevice *device, const gchar *name)
{
  const H3StoredTensor *tensor = h3_tensor_set_get (set, name, NULL);
  gint64 rows, cols;

  if (!tensor || tensor->rank < 1 || tensor->shape[0] > MAX_DIMENSION ||
      tensor->shape[tensor->rank - 1] > MAX_DIMENSION)
    return;
  rows = tensor->shape[0];
  cols = tensor->shape[tensor->rank - 1];
  load (set, device, name, rows, cols);
  load (set, device, name, rows, 2 * cols);
  if (rows > 1 && cols > 1)
    load (set, device, name, rows - 1, 2 * cols - 1);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static gint fd = -1;
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (TestDevice) device = NULL;
  g_autoptr (GError) error = NULL;
  const GPtrArray *names;

  if (fd < 0)
    fd = memfd_create ("fuzz", 0);
  g_assert_cmpint (fd, >=, 0);
  set = open_bytes (fd, data, size, &error);
  if (!set) {
    check_error (error);
    return 0;
  }
  device = test_device_new (TRUE);
  device->device.encodings = (1u << H3_N_ENCODINGS) - 1;
  names = h3_tensor_set_names (set);
  for (guint i = 0; i < MIN (names->len, 8); i++)
    if (g_str_has_suffix (names->pdata[i], ".weight"))
      load_shapes (set, device, names->pdata[i]);
  return 0;
}
