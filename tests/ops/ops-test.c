/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/ops/ops-test.h"

void
ops_init (Ops *ops, guint threads)
{
  GError *error = NULL;

  ops->device = h3_cpu_device_new (threads, &error);
  g_assert_no_error (error);
  ops->stream = h3_stream_new (ops->device, &error);
  g_assert_no_error (error);
  ops->rand = g_rand_new_with_seed (20260801);
  ops->tensors =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_unref);
}

void
ops_clear (Ops *ops)
{
  g_ptr_array_unref (ops->tensors);
  g_rand_free (ops->rand);
  h3_stream_free (ops->stream);
  h3_device_unref (ops->device);
}

static void
run_once (OpsCase run, guint threads, GByteArray *out)
{
  GError *error = NULL;
  Ops ops = { .out = out };

  ops_init (&ops, threads);
  run (&ops);
  g_assert_true (h3_stream_synchronize (ops.stream, &error));
  g_assert_no_error (error);
  ops_clear (&ops);
}

/* H3_CPU_ISA names an instruction set this machine lacks. */
static gboolean
skip (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Device) device = h3_cpu_device_new (1, &error);

  if (device)
    return FALSE;
  g_assert_error (error, H3_ERROR, H3_ERROR_SETTINGS);
  g_test_skip (error->message);
  return TRUE;
}

static void
run_everywhere (gconstpointer data)
{
  OpsCase run = *(OpsCase *) data;
  g_autoptr (GByteArray) first = g_byte_array_new ();

  if (skip ())
    return;
  run_once (run, 1, first);
  for (guint threads = 2; threads <= 3; threads++) {
    g_autoptr (GByteArray) out = g_byte_array_new ();

    run_once (run, threads, out);
    g_assert_cmpmem (out->data, out->len, first->data, first->len);
  }
}

void
ops_add (const gchar *path, OpsCase run)
{
  g_test_add_data_func_full (path, g_memdup2 (&run, sizeof run), run_everywhere,
      g_free);
}

gint
ops_pick (Ops *ops, gint first, gint last)
{
  return g_rand_int_range (ops->rand, first, last + 1);
}

H3Tensor *
ops_new (Ops *ops, H3DType dtype, guint rank, const gint64 *shape)
{
  GError *error = NULL;
  H3Tensor *parent, *tensor;
  gint64 n = 1, offset = ops_pick (ops, -7, 7);

  for (guint i = 0; i < rank; i++)
    n *= shape[i];
  if (offset < 0)
    offset = 0;
  parent = h3_tensor_new_1d (ops->device, dtype, n + offset, &error);
  g_assert_no_error (error);
  tensor = h3_tensor_view (parent, offset, rank, shape);
  h3_tensor_unref (parent);
  g_ptr_array_add (ops->tensors, tensor);
  return tensor;
}

H3Tensor *
ops_random (Ops *ops, H3DType dtype, gdouble scale, guint rank,
    const gint64 *shape)
{
  H3Tensor *tensor = ops_new (ops, dtype, rank, shape);

  if (dtype != H3_DTYPE_F32) {
    H3Tensor *wide = ops_random (ops, H3_DTYPE_F32, scale, rank, shape);
    h3_copy (ops->stream, tensor, wide);
    return tensor;
  }
  for (gint64 i = 0, n = h3_tensor_size (tensor); i < n; i++)
    ((gfloat *) tensor->data)[i] =
        g_rand_int (ops->rand) * (scale * 0x1p-31) - scale;
  return tensor;
}

H3Tensor *
ops_rows (Ops *ops, gint64 n, gint limit)
{
  H3Tensor *rows = ops_new (ops, H3_DTYPE_I32, 1, &n);

  for (gint64 i = 0; i < n; i++)
    ((gint32 *) rows->data)[i] = ops_pick (ops, 0, limit - 1);
  return rows;
}

H3Weight *
ops_weight (Ops *ops, H3DType dtype, gdouble scale, guint rank,
    const gint64 *shape)
{
  return h3_weight_new_plain (
      h3_tensor_ref (ops_random (ops, dtype, scale, rank, shape)));
}

/* Written apart from cpu/mathf.h's conversions, to judge them. */
static gdouble
half_at (H3DType dtype, guint16 h)
{
  gint exponent_bits = dtype == H3_DTYPE_F16 ? 5 : 8;
  gint mantissa_bits = 15 - exponent_bits;
  gint bias = (1 << (exponent_bits - 1)) - 1;
  gint exponent = (h >> mantissa_bits) & ((1 << exponent_bits) - 1);
  gint mantissa = h & ((1 << mantissa_bits) - 1);
  gdouble value;

  if (exponent == (1 << exponent_bits) - 1)
    value = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    value = ldexp (mantissa, 1 - bias - mantissa_bits);
  else
    value = ldexp (mantissa + (1 << mantissa_bits),
        exponent - bias - mantissa_bits);
  return h & 0x8000 ? -value : value;
}

gdouble
ops_at (const H3Tensor *tensor, gint64 i)
{
  switch (tensor->dtype) {
    case H3_DTYPE_F32:
      return ((const gfloat *) tensor->data)[i];
    case H3_DTYPE_I32:
      return ((const gint32 *) tensor->data)[i];
    case H3_DTYPE_U8:
      return ((const guint8 *) tensor->data)[i];
    default:
      return half_at (tensor->dtype, ((const guint16 *) tensor->data)[i]);
  }
}

gfloat *
ops_f32 (const H3Tensor *tensor)
{
  g_assert_cmpint (tensor->dtype, ==, H3_DTYPE_F32);
  return tensor->data;
}

void
ops_check (Ops *ops, const H3Tensor *y, gdouble *want, gdouble tolerance)
{
  GError *error = NULL;

  h3_stream_synchronize (ops->stream, &error);
  g_assert_no_error (error);
  for (gint64 i = 0; i < h3_tensor_size (y); i++) {
    gdouble got = ops_at (y, i);

    gboolean same = isnan (want[i]) ? isnan (got) : got == want[i];

    if (!same && !(fabs (got - want[i]) <= tolerance * (1 + fabs (want[i]))))
      g_error ("%s: element %" G_GINT64_FORMAT " is %.9g, needs %.9g",
          ops->device->name, i, got, want[i]);
  }
  g_byte_array_append (ops->out, y->data, y->bytes);
  g_free (want);
}

void
ops_fails (Ops *ops, H3Error code, const gchar *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (h3_stream_synchronize (ops->stream, &error));
  g_assert_error (error, H3_ERROR, (gint) code);
  if (!strstr (error->message, text))
    g_error ("\"%s\" does not say \"%s\"", error->message, text);
  g_assert_true (h3_stream_synchronize (ops->stream, NULL));
}
