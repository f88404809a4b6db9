/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/cuda/cuda-test.h"

#define GUARD 16 /* elements after a tensor that must stay as they are */

H3Device *
cuda_test_device (void)
{
  static H3Device *device;
  g_autoptr (GError) error = NULL;

  if (!device)
    device = h3_cuda_open_device (-1, &error);
  if (!device) {
    /* a machine without a GPU, or a build without the module */
    g_assert_true (g_error_matches (error, H3_ERROR, H3_ERROR_NOT_FOUND) ||
                   g_error_matches (error, H3_ERROR, H3_ERROR_INIT));
    g_test_skip (error->message);
  }
  return device;
}

static void
twin_free (gpointer data)
{
  Twin *twin = data;

  h3_tensor_unref (twin->cpu);
  h3_tensor_unref (twin->gpu);
  h3_tensor_unref (twin->memory);
  g_free (twin);
}

static void
run_case (gconstpointer data)
{
  CudaCase run = *(CudaCase *) data;
  H3Device *device = cuda_test_device ();
  g_autoptr (GError) error = NULL;
  CudaTest test = { 0 };

  if (!device)
    return;
  ops_init (&test.ops, 0);
  test.gpu = h3_stream_new (device, &error);
  g_assert_no_error (error);
  test.all = g_ptr_array_new_with_free_func (twin_free);

  run (&test);
  h3_stream_synchronize (test.gpu, &error);
  g_assert_no_error (error);

  g_ptr_array_unref (test.all);
  h3_stream_free (test.gpu);
  ops_clear (&test.ops);
}

void
cuda_test_add (const gchar *path, CudaCase run)
{
  g_test_add_data_func_full (path, g_memdup2 (&run, sizeof run), run_case,
      g_free);
}

/* Memory of 0xff bytes, which are NaN in every float type, and a view of it. */
static Twin *
twin_new (CudaTest *test, H3DType dtype, guint rank, const gint64 *shape)
{
  g_autoptr (GError) error = NULL;
  Twin *twin = g_new0 (Twin, 1);
  gint64 n = 1;
  g_autofree guint8 *poison = NULL;

  for (guint i = 0; i < rank; i++)
    n *= shape[i];
  twin->first = ops_pick (&test->ops, -7, 7);
  if (twin->first < 0)
    twin->first = 0;
  twin->cpu = h3_tensor_new (test->ops.device,
      dtype == H3_DTYPE_I32 ? dtype : H3_DTYPE_F32, rank, shape, &error);
  g_assert_no_error (error);
  twin->memory = h3_tensor_new_1d (test->gpu->device, dtype,
      twin->first + n + GUARD, &error);
  g_assert_no_error (error);
  twin->gpu = h3_tensor_view (twin->memory, twin->first, rank, shape);
  g_ptr_array_add (test->all, twin);

  poison = g_malloc (twin->memory->bytes);
  memset (poison, 0xff, twin->memory->bytes);
  h3_upload (test->gpu, twin->memory, poison);
  h3_stream_synchronize (test->gpu, &error);
  g_assert_no_error (error);
  return twin;
}

/* The CPU's values, rounded on both sides. */
static void
twin_share (CudaTest *test, Twin *twin)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) narrow = NULL;
  const H3Tensor *from = twin->cpu;

  if (twin->gpu->dtype != twin->cpu->dtype) {
    narrow = h3_tensor_new (test->ops.device, twin->gpu->dtype, twin->cpu->rank,
        twin->cpu->shape, &error);
    g_assert_no_error (error);
    h3_copy (test->ops.stream, narrow, twin->cpu);
    h3_copy (test->ops.stream, twin->cpu, narrow);
    from = narrow;
  }
  h3_stream_synchronize (test->ops.stream, &error);
  g_assert_no_error (error);
  h3_upload (test->gpu, twin->gpu, from->data);
  h3_stream_synchronize (test->gpu, &error);
  g_assert_no_error (error);
}

Twin *
twin_random (CudaTest *test, H3DType dtype, gdouble scale, guint rank,
    const gint64 *shape)
{
  Twin *twin = twin_new (test, dtype, rank, shape);
  guint64 x =
      g_rand_int (test->ops.rand) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) + 1;
  gfloat *to = ops_f32 (twin->cpu);

  /* xorshift: the largest cases have 10^8 values */
  for (gint64 i = 0; i < h3_tensor_size (twin->cpu); i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    to[i] = scale * ((gfloat) (x >> 40) * 0x1p-23f - 1);
  }
  twin_share (test, twin);
  return twin;
}

Twin *
twin_of (CudaTest *test, H3DType dtype, gconstpointer values, guint rank,
    const gint64 *shape)
{
  Twin *twin = twin_new (test, dtype, rank, shape);

  memcpy (twin->cpu->data, values, twin->cpu->bytes);
  twin_share (test, twin);
  return twin;
}

Twin *
twin_out (CudaTest *test, H3DType dtype, guint rank, const gint64 *shape)
{
  return twin_new (test, dtype, rank, shape);
}

Twin *
twin_rows (CudaTest *test, gint64 n, gint limit)
{
  g_autofree gint32 *rows = g_new (gint32, MAX (n, 1));

  for (gint64 i = 0; i < n; i++)
    rows[i] = ops_pick (&test->ops, 0, limit - 1);
  return twin_of (test, H3_DTYPE_I32, rows, DIMS (n));
}

H3Weight *
twin_weight_cpu (const Twin *twin)
{
  return h3_weight_new_plain (h3_tensor_ref (twin->cpu));
}

H3Weight *
twin_weight_gpu (const Twin *twin)
{
  return h3_weight_new_plain (h3_tensor_ref (twin->gpu));
}

static void
check_guards (CudaTest *test, const gchar *what, const Twin *twin)
{
  g_autofree guint8 *bytes = g_malloc (twin->memory->bytes);
  gsize size = h3_dtype_size (twin->memory->dtype);
  gsize first = twin->first * size, end = first + twin->gpu->bytes;

  h3_download (test->gpu, bytes, twin->memory);
  g_assert_true (h3_stream_synchronize (test->gpu, NULL));
  for (gsize i = 0; i < twin->memory->bytes; i++)
    if ((i < first || i >= end) && bytes[i] != 0xff)
      g_error ("%s: wrote outside its tensor, %" G_GSSIZE_FORMAT
               " bytes after its beginning",
          what, (gssize) i - (gssize) first);
}

gfloat *
twin_values (CudaTest *test, const Twin *twin)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) stored = h3_tensor_new (test->ops.device,
      twin->gpu->dtype, twin->gpu->rank, twin->gpu->shape, &error);
  gint64 n = h3_tensor_size (twin->gpu);
  gfloat *values;

  g_assert_no_error (error);
  h3_download (test->gpu, stored->data, twin->gpu);
  h3_stream_synchronize (test->gpu, &error);
  g_assert_no_error (error);
  values = g_new (gfloat, MAX (n, 1));
  for (gint64 i = 0; i < n; i++)
    values[i] = ops_at (stored, i);
  return values;
}

void
twin_check (CudaTest *test, const gchar *what, const Twin *twin,
    gdouble tolerance)
{
  g_autoptr (GError) error = NULL;
  g_autofree gfloat *got = twin_values (test, twin);
  gint64 n = h3_tensor_size (twin->gpu), worst = 0, wrong_nan = -1;
  gdouble error2 = 0, norm2 = 0, most = 0, rms, rel;

  h3_stream_synchronize (test->ops.stream, &error);
  g_assert_no_error (error);
  for (gint64 i = 0; i < n; i++) {
    gdouble want = ops_at (twin->cpu, i), d;

    if (isnan (want) != isnan (got[i]))
      wrong_nan = i;
    if (isnan (want) || got[i] == want)
      continue;
    d = fabs (got[i] - want);
    error2 += d * d;
    if (d > most) {
      most = d;
      worst = i;
    }
  }
  for (gint64 i = 0; i < n; i++) {
    gdouble want = ops_at (twin->cpu, i);

    if (isfinite (want))
      norm2 += want * want;
  }
  rms = sqrt (norm2 / MAX (n, 1));
  rel = sqrt (error2) / (sqrt (norm2) + 1e-30);
  if (wrong_nan >= 0)
    g_error ("%s: element %" G_GINT64_FORMAT " is %g, needs %g", what,
        wrong_nan, got[wrong_nan], ops_at (twin->cpu, wrong_nan));
  if (!(rel <= tolerance))
    g_error ("%s: relative L2 error %.3g, at most %.3g; element "
             "%" G_GINT64_FORMAT " is %g, needs %g",
        what, rel, tolerance, worst, got[worst], ops_at (twin->cpu, worst));
  if (!(most <= 20 * tolerance * (rms + fabs (ops_at (twin->cpu, worst)))))
    g_error ("%s: element %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
             " is %g, needs %g",
        what, worst, n, got[worst], ops_at (twin->cpu, worst));
  check_guards (test, what, twin);
}

gdouble
twin_tolerance (H3DType dtype)
{
  return dtype == H3_DTYPE_F32 ? 2e-6 : dtype == H3_DTYPE_F16 ? 5.5e-4 : 4.4e-3;
}
