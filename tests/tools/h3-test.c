/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "h3-test.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const gchar *
need_env (const gchar *name)
{
  const gchar *value = g_getenv (name);

  if (!value)
    g_error ("%s is not set: run through meson test", name);
  return value;
}

const gchar *
h3_test_golden_dir (void)
{
  return need_env ("H3_GOLDEN_DIR");
}

const gchar *
h3_test_demo_dir (void)
{
  return need_env ("H3_DEMO_DIR");
}

const gchar *
h3_test_tiny_dir (void)
{
  return need_env ("H3_TINY_DIR");
}

const gchar *
h3_test_tiny_diffusers_dir (void)
{
  return need_env ("H3_TINY_DIFFUSERS_DIR");
}

const gchar *
h3_test_tiny_comfy_dir (void)
{
  return need_env ("H3_TINY_COMFY_DIR");
}

const gchar *
h3_test_tiny_pruned_dir (void)
{
  return need_env ("H3_TINY_PRUNED_DIR");
}

gchar *
h3_test_tiny_curve_dir (const gchar *form)
{
  return g_build_filename (need_env ("H3_TINY_CURVE_DIR"), form, NULL);
}

/* Golden numbers */

gchar *
h3_test_golden_path (const gchar *file)
{
  if (strchr (file, '/'))
    return g_build_filename (h3_test_golden_dir (), file, NULL);
  return g_build_filename (h3_test_golden_dir (), "tiny", "golden", file, NULL);
}

static H3SafeTensors *
open_golden (const gchar *file)
{
  g_autofree gchar *path = h3_test_golden_path (file);
  g_autoptr (GError) error = NULL;
  H3SafeTensors *opened = h3_safetensors_open (path, &error);

  if (!opened)
    g_error ("%s", error->message);
  return opened;
}

static const H3StoredTensor *
need_tensor (const H3SafeTensors *file, const gchar *name)
{
  const H3StoredTensor *tensor = h3_safetensors_lookup (file, name);

  if (!tensor)
    g_error ("%s: no tensor %s", h3_safetensors_nth (file, 0)->path, name);
  return tensor;
}

static gfloat
float_from_half (guint16 half)
{
  gint exponent = half >> 10 & 31, mantissa = half & 1023;
  gfloat value;

  if (exponent == 31)
    value = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    value = ldexpf (mantissa, -24);
  else
    value = ldexpf (1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -value : value;
}

static gdouble
element (H3StoredType type, const guint8 *bytes)
{
  union {
    gfloat f32;
    gdouble f64;
    guint16 u16;
    gint16 i16;
    gint32 i32;
    gint64 i64;
    guint32 u32;
  } v = { 0 };

  memcpy (&v, bytes, h3_stored_type_size (type));
  switch (type) {
    case H3_STORED_F32:
      return v.f32;
    case H3_STORED_F64:
      return v.f64;
    case H3_STORED_F16:
      return float_from_half (v.u16);
    case H3_STORED_BF16:
      v.u32 = (guint32) v.u16 << 16;
      return v.f32;
    case H3_STORED_U8:
      return *bytes;
    case H3_STORED_I8:
      return *(const gint8 *) bytes;
    case H3_STORED_I16:
      return v.i16;
    case H3_STORED_I32:
      return v.i32;
    case H3_STORED_I64:
      return v.i64;
    default:
      g_error ("%s is no type of a golden file", h3_stored_type_name (type));
  }
}

static guint8 *
read_bytes (const H3StoredTensor *tensor)
{
  g_autoptr (GError) error = NULL;
  guint8 *bytes = g_malloc (tensor->bytes + 1);

  if (!h3_stored_tensor_read (tensor, 0, tensor->bytes, bytes, &error))
    g_error ("%s", error->message);
  return bytes;
}

gfloat *
h3_test_stored_floats (const H3StoredTensor *tensor)
{
  g_autofree guint8 *bytes = read_bytes (tensor);
  gsize size = h3_stored_type_size (tensor->type);
  gsize n = tensor->bytes / size;
  gfloat *values = g_new (gfloat, n + 1);

  for (gsize i = 0; i < n; i++)
    values[i] = element (tensor->type, bytes + i * size);
  return values;
}

gfloat *
h3_test_golden (const gchar *file, const gchar *tensor, gsize *n)
{
  g_autoptr (H3SafeTensors) opened = open_golden (file);
  const H3StoredTensor *stored = need_tensor (opened, tensor);

  if (n)
    *n = stored->bytes / h3_stored_type_size (stored->type);
  return h3_test_stored_floats (stored);
}

gint32 *
h3_test_golden_ints (const gchar *file, const gchar *tensor, gsize *n)
{
  g_autoptr (H3SafeTensors) opened = open_golden (file);
  const H3StoredTensor *stored = need_tensor (opened, tensor);
  g_autofree guint8 *bytes = read_bytes (stored);
  gsize size = h3_stored_type_size (stored->type);
  gsize count = stored->bytes / size;
  gint32 *values = g_new (gint32, count + 1);

  for (gsize i = 0; i < count; i++)
    values[i] = element (stored->type, bytes + i * size);
  if (n)
    *n = count;
  return values;
}

guint
h3_test_golden_shape (const gchar *file, const gchar *tensor,
    gint64 shape[H3_STORED_MAX_RANK])
{
  g_autoptr (H3SafeTensors) opened = open_golden (file);
  const H3StoredTensor *stored = need_tensor (opened, tensor);

  for (guint i = 0; i < stored->rank; i++)
    shape[i] = stored->shape[i];
  return stored->rank;
}

gboolean
h3_test_golden_has (const gchar *file, const gchar *tensor)
{
  g_autoptr (H3SafeTensors) opened = open_golden (file);
  return h3_safetensors_lookup (opened, tensor) != NULL;
}

/* Comparing */

gdouble
h3_test_rel_l2 (const gfloat *got, const gfloat *want, gsize n)
{
  gdouble error = 0, norm = 0;

  for (gsize i = 0; i < n; i++) {
    gdouble d = (gdouble) got[i] - want[i];
    error += d * d;
    norm += (gdouble) want[i] * want[i];
  }
  if (norm == 0)
    return error == 0 ? 0 : INFINITY;
  return sqrt (error / norm);
}

gdouble
h3_test_max_abs (const gfloat *got, const gfloat *want, gsize n, gsize *index)
{
  gdouble worst = 0;

  if (index)
    *index = 0;
  for (gsize i = 0; i < n; i++) {
    gdouble d = fabs ((gdouble) got[i] - want[i]);
    if (isnan (d))
      d = INFINITY;
    if (d > worst) {
      worst = d;
      if (index)
        *index = i;
    }
  }
  return worst;
}

static void
check (const gchar *where, const gchar *what, const gchar *measure,
    gdouble found, gdouble tolerance, const gfloat *got, const gfloat *want,
    gsize n)
{
  gsize index;
  gdouble worst = h3_test_max_abs (got, want, n, &index);

  if (found <= tolerance) {
    g_test_message ("%s: %s %.3g of %.3g, largest difference %.3g", what,
        measure, found, tolerance, worst);
    return;
  }
  g_error ("%s: %s: %s %.6g is more than %.3g; worst of %" G_GSIZE_FORMAT
           " at %" G_GSIZE_FORMAT ": got %.9g, want %.9g",
      where, what, measure, found, tolerance, n, index, n ? got[index] : 0.0f,
      n ? want[index] : 0.0f);
}

void
h3_test_check_close (const gchar *where, const gchar *what, const gfloat *got,
    const gfloat *want, gsize n, gdouble tolerance)
{
  check (where, what, "relative L2", h3_test_rel_l2 (got, want, n), tolerance,
      got, want, n);
}

void
h3_test_check_max_abs (const gchar *where, const gchar *what, const gfloat *got,
    const gfloat *want, gsize n, gdouble tolerance)
{
  check (where, what, "largest difference",
      h3_test_max_abs (got, want, n, NULL), tolerance, got, want, n);
}

void
h3_test_check_h3_error (const gchar *where, const GError *error, gint code, ...)
{
  const gchar *needed;
  va_list args;

  if (!error)
    g_error ("%s: no error, H3Error %d wanted", where, code);
  g_test_message ("%s", error->message);
  if (error->domain != H3_ERROR || error->code != code)
    g_error ("%s: got %s %d (%s), H3Error %d wanted", where,
        g_quark_to_string (error->domain), error->code, error->message, code);
  va_start (args, code);
  while ((needed = va_arg (args, const gchar *))) {
    if (!strstr (error->message, needed))
      g_error ("%s: \"%s\" is not in: %s", where, needed, error->message);
  }
  va_end (args);
}

/* Files */

gchar *
h3_test_temp_dir (void)
{
  g_autoptr (GError) error = NULL;
  gchar *path = g_dir_make_tmp ("h3-test-XXXXXX", &error);

  if (!path)
    g_error ("%s", error->message);
  return path;
}

void
h3_test_remove_tree (const gchar *path)
{
  GStatBuf st;

  if (g_lstat (path, &st) == 0 && S_ISDIR (st.st_mode)) {
    g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
    const gchar *name;

    while (dir && (name = g_dir_read_name (dir))) {
      g_autofree gchar *child = g_build_filename (path, name, NULL);
      h3_test_remove_tree (child);
    }
  }
  if (g_remove (path) < 0)
    g_error ("%s: cannot remove (%s)", path, g_strerror (errno));
}

void
h3_test_copy_file (const gchar *from, const gchar *to)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *text = NULL;
  gsize length;

  if (!g_file_get_contents (from, &text, &length, &error))
    g_error ("%s", error->message);
  h3_test_write_file (to, text, length);
}

void
h3_test_copy_tree (const gchar *from, const gchar *to)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GDir) dir = g_dir_open (from, 0, &error);
  const gchar *name;

  if (!dir)
    g_error ("%s", error->message);
  if (g_mkdir_with_parents (to, 0777) < 0)
    g_error ("%s: cannot make the folder (%s)", to, g_strerror (errno));
  while ((name = g_dir_read_name (dir))) {
    g_autofree gchar *source = g_build_filename (from, name, NULL);
    g_autofree gchar *target = g_build_filename (to, name, NULL);

    if (g_file_test (source, G_FILE_TEST_IS_DIR))
      h3_test_copy_tree (source, target);
    else
      h3_test_copy_file (source, target);
  }
}

void
h3_test_write_file (const gchar *path, gconstpointer bytes, gsize n)
{
  g_autoptr (GError) error = NULL;

  if (!g_file_set_contents (path, bytes, n, &error))
    g_error ("%s", error->message);
}

void
h3_test_patch_file (const gchar *path, gint64 offset, gconstpointer bytes,
    gsize n)
{
  FILE *file = g_fopen (path, "r+b");

  if (!file || fseeko (file, offset, offset < 0 ? SEEK_END : SEEK_SET) < 0 ||
      fwrite (bytes, 1, n, file) != n || fclose (file) != 0)
    g_error ("%s: cannot change it (%s)", path, g_strerror (errno));
}

void
h3_test_truncate_file (const gchar *path, gint64 size)
{
  if (truncate (path, size) < 0)
    g_error ("%s: cannot truncate (%s)", path, g_strerror (errno));
}

gint64
h3_test_file_size (const gchar *path)
{
  GStatBuf st;

  if (g_stat (path, &st) < 0)
    g_error ("%s: %s", path, g_strerror (errno));
  return st.st_size;
}
