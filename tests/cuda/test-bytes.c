/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Products in the arithmetic of E4M3 and of integers: the rows of x taken to bytes
 * here as the specification says (checkpoints.md 5.3, 5.5), the products exact.
 * What is left are the sums: E4M3's keep 14 bits or so on Hopper, integers' are
 * exact. */
#include "tests/cuda/test-cuda.h"

#define SUMS 5e-3 /* of 25600 E4M3 products: 4.1e-3 was measured */

/* --- the arithmetic in double --- */

static gdouble
e4m3_value (guint8 code)
{
  gint e = code >> 3 & 15, m = code & 7;
  gdouble v = e ? ldexp (8 + m, e - 10) : ldexp (m, -9);

  if ((code & 127) == 127)
    return NAN;
  return code & 128 ? -v : v;
}

/* The nearest number of three bits after the first, the even one of two, or of
 * so many 2^-9. */
static gdouble
e4m3_round (gdouble v)
{
  gdouble a = MIN (fabs (v), 448), unit;
  gint e;

  if (isnan (v))
    return NAN;
  frexp (a, &e);
  unit = ldexp (1, MAX (e - 4, -9));
  return copysign (MIN (nearbyint (a / unit) * unit, 448), v);
}

static gdouble
hadamard (guint g, guint i, guint k)
{
  gdouble v = 1;

  for (; g > 1; g /= 4, i /= 4, k /= 4)
    v *= i % 4 + k % 4 == 3 ? -0.5 : 0.5;
  return v;
}

/* A row as multiples of the result. */
static gfloat
quantise (H3Encoding encoding, gdouble *x, gint64 n, const gfloat *factor,
    guint rotation)
{
  gfloat most = 1e-30f, top = encoding == H3_ENCODING_E4M3 ? 448 : 127, per;
  gdouble run[H3_MAX_ROTATION];

  for (gint64 k = 0; factor && k < n; k++)
    x[k] = (gfloat) x[k] * factor[k];
  for (gint64 k = 0; rotation > 1 && k < n; k += rotation) {
    for (guint j = 0; j < rotation; j++) {
      run[j] = 0;
      for (guint i = 0; i < rotation; i++)
        run[j] += x[k + i] * hadamard (rotation, i, j);
    }
    memcpy (x + k, run, rotation * sizeof *run);
  }
  for (gint64 k = 0; k < n; k++)
    most = MAX (most, (gfloat) fabs (x[k]));
  per = top / most;
  for (gint64 k = 0; k < n; k++) {
    gfloat v = (gfloat) x[k] * per;

    x[k] = encoding == H3_ENCODING_E4M3 ? e4m3_round (v) : nearbyint (v);
  }
  return most / top;
}

/* --- weights --- */

static H3Tensor *
on_gpu (CudaTest *t, const H3Tensor *from)
{
  g_autoptr (GError) error = NULL;
  H3Tensor *gpu = h3_tensor_new_from_host (t->gpu->device, from->dtype,
      from->rank, from->shape, from->data, &error);

  g_assert_no_error (error);
  return gpu;
}

/* On the CPU: codes that are numbers, scales that make rows of about 1. */
static H3Weight *
random_weight (CudaTest *t, H3Encoding encoding, gint64 rows, gint64 cols,
    guint rotation, gboolean columns)
{
  H3Weight *w = h3_weight_new_encoded (encoding, rows, cols);
  gdouble size = encoding == H3_ENCODING_E4M3 ? 2 : 74;
  guint8 *q;

  w->rotation = rotation;
  w->tensor = h3_tensor_ref (ops_new (&t->ops, H3_DTYPE_U8, DIMS (rows, cols)));
  w->scale = h3_tensor_ref (ops_new (&t->ops, H3_DTYPE_F32, DIMS (rows)));
  q = w->tensor->data;
  for (gint64 i = 0; i < rows * cols; i++)
    q[i] = encoding == H3_ENCODING_E4M3
               ? (g_rand_int (t->ops.rand) & 0x87) |
                     g_rand_int_range (t->ops.rand, 1, 8) << 3
               : g_rand_int (t->ops.rand);
  for (gint64 i = 0; i < rows; i++)
    ops_f32 (w->scale)[i] =
        g_rand_double_range (t->ops.rand, 0.5, 2) / (size * sqrt (cols));
  if (columns)
    w->column_scale =
        h3_tensor_ref (ops_random (&t->ops, H3_DTYPE_F32, 1, DIMS (cols)));
  return w;
}

static H3Weight *
weight_on_gpu (CudaTest *t, const H3Weight *w)
{
  H3Weight *gpu = h3_weight_new_encoded (w->encoding, w->rows, w->cols);

  gpu->rotation = w->rotation;
  gpu->full_precision = w->full_precision;
  gpu->tensor = on_gpu (t, w->tensor);
  gpu->scale = on_gpu (t, w->scale);
  if (w->column_scale)
    gpu->column_scale = on_gpu (t, w->column_scale);
  return gpu;
}

static gdouble
code_value (const H3Weight *w, gint64 i)
{
  guint8 code = ((const guint8 *) w->tensor->data)[i];

  return w->encoding == H3_ENCODING_E4M3 ? e4m3_value (code) : (gint8) code;
}

/* --- linear --- */

/* y (+)= ... into the twin's CPU side, float32. */
static void
want_linear (const H3Weight *w, const Twin *x, const Twin *bias, Twin *y,
    gboolean accumulate)
{
  gint64 m = h3_tensor_rows (x->cpu), k = w->cols;
  g_autofree gdouble *row = g_new (gdouble, k);
  g_autofree gfloat *codes = g_new (gfloat, w->rows * k);

  for (gint64 i = 0; i < w->rows * k; i++)
    codes[i] = code_value (w, i);
  for (gint64 i = 0; i < m; i++) {
    gfloat scale;

    for (gint64 j = 0; j < k; j++)
      row[j] = ops_at (x->cpu, i * k + j);
    scale = quantise (w->encoding, row, k,
        w->column_scale ? ops_f32 (w->column_scale) : NULL, w->rotation);
    for (gint64 n = 0; n < w->rows; n++) {
      gfloat *to = ops_f32 (y->cpu) + i * w->rows + n;
      gdouble sum = 0;

      for (gint64 j = 0; j < k; j++)
        sum += row[j] * codes[n * k + j];
      sum *= (gdouble) scale * ops_f32 (w->scale)[n];
      if (bias)
        sum += ops_f32 (bias->cpu)[n];
      *to = accumulate ? *to + sum : sum;
    }
  }
}

typedef struct {
  gint m, n, k;
  guint rotation;
} Size;

static void
try_linear (CudaTest *t, H3Encoding encoding, const Size *s, H3DType tx,
    H3DType ty, gboolean bias, gboolean accumulate, gboolean columns)
{
  g_autoptr (H3Weight) w =
      random_weight (t, encoding, s->n, s->k, s->rotation, columns);
  g_autoptr (H3Weight) gpu = weight_on_gpu (t, w);
  Twin *x = twin_random (t, tx, 2, DIMS (s->m, s->k));
  Twin *b = bias ? twin_random (t, H3_DTYPE_F32, 1, DIMS (s->n)) : NULL;
  Twin *y = accumulate ? twin_random (t, ty, 1, DIMS (s->m, s->n))
                       : twin_out (t, ty, DIMS (s->m, s->n));
  g_autofree gchar *what = g_strdup_printf ("linear %s by %s to %s, %d x %d x "
                                            "%d, rotation %u, bias %d, "
                                            "accumulate %d, column scale %d",
      h3_dtype_name (tx), h3_encoding_info (encoding)->name, h3_dtype_name (ty),
      s->m, s->n, s->k, s->rotation, bias, accumulate, columns);

  if (s->n % 16 && ((gsize) y->gpu->data % 16 || ty == H3_DTYPE_F16 ||
                       (b && (gsize) b->gpu->data % 16)))
    return; /* no kernel puts them there: decoded */
  want_linear (w, x, b, y, accumulate);
  h3_linear (t->gpu, &(H3LinearArgs){ .y = y->gpu,
                         .x = x->gpu,
                         .weight = gpu,
                         .bias = b ? b->gpu : NULL,
                         .accumulate = accumulate });
  /* A number halfway between two codes may fall to either side where it was
   * rotated or scaled first. */
  twin_check (t, what, y,
      twin_tolerance (ty) + (encoding == H3_ENCODING_E4M3 ? SUMS : 0) +
          (s->rotation > 1 || columns ? 4e-3 : 0));
}

static void
test_linear (CudaTest *t)
{
  /* tiles of 256 by 256 that are full and that are not; both of the kernels */
  static const Size sizes[] = { { 17, 16, 16, 1 }, { 31, 272, 144, 1 },
    { 300, 528, 272, 1 }, { 256, 256, 128, 1 }, { 250, 264, 400, 1 },
    { 510, 528, 1040, 1 }, { 2560, 72, 48, 1 }, { 40, 32, 5376, 1 } };
  static const H3DType types[] = { H3_DTYPE_BF16, H3_DTYPE_BF16, H3_DTYPE_F32,
    H3_DTYPE_F16 };

  for (guint i = 0; i < 8 * G_N_ELEMENTS (sizes); i++)
    for (guint e = 0; e < 2; e++) {
      H3DType ty = types[i % 4], tx = i % 3 ? H3_DTYPE_BF16 : ty;

      try_linear (t, e ? H3_ENCODING_INT8 : H3_ENCODING_E4M3, &sizes[i / 8], tx,
          ty, i / 2 % 2, i % 8 >= 5, i % 8 == 3);
    }
}

static void
test_rotation (CudaTest *t)
{
  static const Size sizes[] = { { 25, 16, 16, 4 }, { 256, 48, 1040, 16 },
    { 30, 64, 2112, 64 }, { 256, 264, 1792, 256 }, { 23, 16, 256, 256 } };

  for (guint i = 0; i < 2 * G_N_ELEMENTS (sizes); i++)
    try_linear (t, H3_ENCODING_INT8, &sizes[i / 2], H3_DTYPE_BF16,
        i % 2 ? H3_DTYPE_F32 : H3_DTYPE_BF16, FALSE, FALSE, i % 2);
}

/* checkpoints.md 5.3 and 5.5, after twelve columns of nothing */
static void
test_worked (CudaTest *t)
{
  static const guint8 int8[] = { 0xca, 0x7f, 0x5b, 0x12 };
  static const guint8 e4m3[] = { 0x60, 0xe8, 0x75, 0xfe };
  static const gfloat x8[] = { 1, 2, 3, -1 }, xf[] = { 448, -19, 17, 0.0078f };

  for (gint e = 0; e < 2; e++) {
    g_autoptr (H3Weight) w = random_weight (t,
        e ? H3_ENCODING_INT8 : H3_ENCODING_E4M3, 16, 16, e ? 4 : 1, FALSE);
    g_autoptr (H3Weight) gpu = NULL;
    g_autofree gfloat *got = NULL;
    gfloat values[17 * 16] = { 0 };
    Twin *x, *y = twin_out (t, H3_DTYPE_F32, DIMS (17, 16));

    memset (w->tensor->data, 0, 256);
    memcpy ((guint8 *) w->tensor->data + 12, e ? int8 : e4m3, 4);
    memcpy (values + 12, e ? x8 : xf, sizeof x8);
    ops_f32 (w->scale)[0] = e ? 0.027559055f : 0.015625f;
    gpu = weight_on_gpu (t, w);
    x = twin_of (t, H3_DTYPE_F32, values, DIMS (17, 16));
    h3_linear (t->gpu, &(H3LinearArgs){ y->gpu, x->gpu, gpu });
    got = twin_values (t, y);
    /* -19 becomes -20, 17 becomes 16, 0.0078 2^-7: 0.5 448 + 20 + 3.25 16 - 7 2^-7
     */
    g_assert_cmpfloat_with_epsilon (got[0], e ? -4.96258 : 295.9453, 2e-2);
    if (e)
      g_assert_cmpfloat_with_epsilon (got[0], -4.96258, 2e-5);
    for (gint i = 1; i < 17 * 16; i++)
      g_assert_cmpfloat (got[i], ==, 0);
  }
}

/* Asked for full precision, it has it; and as many columns as no tensor core
 * takes are decoded, and weights for a few rows. */
static void
test_full_precision (CudaTest *t)
{
  for (guint i = 0; i < 8; i++) {
    gint k = i / 2 % 2 ? 100 : 256, m = i < 4 ? 20 : i == 4 ? 1 : 2 * i + 1;
    g_autoptr (H3Weight) w = random_weight (t,
        i % 2 ? H3_ENCODING_INT8 : H3_ENCODING_E4M3, 48, k, 1, FALSE);
    g_autoptr (H3Weight) gpu = NULL;
    Twin *x = twin_random (t, H3_DTYPE_F32, 1, DIMS (m, k));
    Twin *y = twin_out (t, H3_DTYPE_F32, DIMS (m, 48));

    w->full_precision = i < 2;
    gpu = weight_on_gpu (t, w);
    h3_linear (t->ops.stream, &(H3LinearArgs){ y->cpu, x->cpu, w });
    h3_linear (t->gpu, &(H3LinearArgs){ y->gpu, x->gpu, gpu });
    twin_check (t, "linear in full precision", y, 1e-5);
  }
}

static gdouble
silu (gdouble g)
{
  return g / (1 + exp (-g));
}

static void
try_swiglu (CudaTest *t, H3Encoding encoding, const Size *s, gboolean bias)
{
  const gint f = s->n;
  g_autoptr (H3Weight) w =
      random_weight (t, encoding, 2 * f, s->k, s->rotation, FALSE);
  g_autoptr (H3Weight) gpu = weight_on_gpu (t, w);
  Twin *x = twin_random (t, H3_DTYPE_BF16, 4, DIMS (s->m, s->k));
  Twin *b = bias ? twin_random (t, H3_DTYPE_F32, 1, DIMS (2 * f)) : NULL;
  Twin *y = twin_out (t, H3_DTYPE_BF16, DIMS (s->m, f));
  Twin *both = twin_out (t, H3_DTYPE_BF16, DIMS (s->m, 2 * f));
  g_autofree gchar *what = g_strdup_printf ("linear_swiglu by %s, %d x %d x "
                                            "%d, rotation %u, bias %d",
      h3_encoding_info (encoding)->name, s->m, f, s->k, s->rotation, bias);
  g_autofree gfloat *first = NULL;

  want_linear (w, x, b, both, FALSE);
  for (gint64 i = 0; i < (gint64) s->m * f; i++) {
    const gfloat *g = ops_f32 (both->cpu) + i / f * 2 * f + i % f;

    ops_f32 (y->cpu)[i] = silu (g[0]) * g[f];
  }
  for (gint i = 0; i < 3; i++) {
    g_autofree gfloat *values = NULL;

    h3_linear_swiglu (t->gpu, &(H3LinearSwigluArgs){ y->gpu, x->gpu, gpu,
                                  b ? b->gpu : NULL, both->gpu });
    twin_check (t, what, y,
        3 * twin_tolerance (H3_DTYPE_BF16) +
            (encoding == H3_ENCODING_E4M3 ? 2 * SUMS : 0) +
            (s->rotation > 1 ? 8e-3 : 0));
    values = twin_values (t, y);
    if (!first)
      first = g_steal_pointer (&values);
    else
      g_assert_cmpmem (first, 4 * s->m * f, values, 4 * s->m * f);
  }
}

static void
test_swiglu (CudaTest *t)
{
  static const Size sizes[] = { { 20, 16, 16, 1 }, { 256, 128, 128, 1 },
    { 300, 144, 272, 1 }, { 500, 264, 1040, 1 }, { 2010, 136, 256, 1 },
    { 256, 8, 512, 256 } };

  for (guint i = 0; i < 4 * G_N_ELEMENTS (sizes); i++)
    try_swiglu (t,
        i % 2 || sizes[i / 4].rotation > 1 ? H3_ENCODING_INT8
                                           : H3_ENCODING_E4M3,
        &sizes[i / 4], i / 2 % 2);
}

/* As long as a released sequence, and as deep. */
static void
test_released (CudaTest *t)
{
  static const Size sizes[] = { { 38010, 32, 528, 1 }, { 300, 64, 25600, 1 },
    { 250, 32, 14336, 256 } };

  if (!g_test_slow ()) {
    g_test_skip ("only with -m slow");
    return;
  }
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint e = sizes[i].rotation > 1; e < 2; e++)
      try_linear (t, e ? H3_ENCODING_INT8 : H3_ENCODING_E4M3, &sizes[i],
          H3_DTYPE_BF16, H3_DTYPE_BF16, FALSE, FALSE, FALSE);
}

/* NaN and Inf spoil their row, whichever kernel it goes through, and no other. */
static void
test_nan (CudaTest *t)
{
  static const gfloat bad[] = { NAN, INFINITY, -INFINITY };
  const gint k = 256, n = 64;

  for (guint i = 0; i < 24; i++) {
    gint m = i % 2 ? 256 : 30, rotation = i / 2 % 2 ? 64 : 1;
    H3Encoding encoding =
        i / 4 % 2 || rotation > 1 ? H3_ENCODING_INT8 : H3_ENCODING_E4M3;
    g_autoptr (H3Weight) w = random_weight (t, encoding, n, k, rotation, FALSE);
    g_autoptr (H3Weight) gpu = weight_on_gpu (t, w);
    g_autofree gfloat *values = g_new (gfloat, m * k);
    g_autofree gfloat *got = NULL;
    Twin *x, *y = twin_out (t, H3_DTYPE_BF16, DIMS (m, n));

    for (gint j = 0; j < m * k; j++)
      values[j] = g_rand_double_range (t->ops.rand, -1, 1);
    values[13 * k + i * 7] = bad[i / 8];
    x = twin_of (t, H3_DTYPE_BF16, values, DIMS (m, k));
    h3_linear (t->gpu, &(H3LinearArgs){ y->gpu, x->gpu, gpu });
    got = twin_values (t, y);
    for (gint j = 0; j < m * n; j++)
      if (isfinite (got[j]) != (j / n != 13))
        g_error ("%s, %d rows, rotation %d, %g in row 13: row %d is %g",
            h3_encoding_info (encoding)->name, m, rotation, bad[i / 8], j / n,
            got[j]);
  }
}

/* --- quantise_rows --- */

/* The same bytes as on the CPU, whose own test has the arithmetic. */
static void
test_quantise_rows (CudaTest *t)
{
  static const gint sizes[][2] = { { 1, 8 }, { 7, 5 }, { 3, 264 }, { 20, 4096 },
    { 5, 5376 }, { 4, 14336 }, { 2, 32768 }, { 2, 33000 }, { 9, 1031 } };
  static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

  for (guint i = 0; i < 6 * G_N_ELEMENTS (sizes); i++) {
    gint64 m = sizes[i / 6][0], k = sizes[i / 6][1];
    H3DType type = types[i % 3];
    g_autofree gfloat *values = g_new (gfloat, m * k);
    g_autoptr (GError) error = NULL;
    Twin *x, *scale = twin_out (t, H3_DTYPE_F32, DIMS (m));
    H3Tensor *q = ops_new (&t->ops, H3_DTYPE_U8, DIMS (m, k));
    g_autoptr (H3Tensor) gpu_q =
        h3_tensor_new_2d (t->gpu->device, H3_DTYPE_U8, m, k, &error);
    g_autofree guint8 *got = g_malloc (m * k);

    g_assert_no_error (error);
    for (gint64 j = 0; j < m * k; j++)
      values[j] = ldexp (g_rand_double_range (t->ops.rand, -1, 1),
          g_rand_int_range (t->ops.rand, -12, 3));
    for (gint64 j = 0; i % 2 && j < k; j++) /* a row of zeros */
      values[(m - 1) * k + j] = j % 2 ? -0.0f : 0;
    x = twin_of (t, type, values, DIMS (m, k));
    h3_quantise_rows (t->ops.stream, q, scale->cpu, x->cpu);
    h3_quantise_rows (t->gpu, gpu_q, scale->gpu, x->gpu);
    twin_check (t, "the scales of quantised rows", scale, 0);
    h3_download (t->gpu, got, gpu_q);
    h3_stream_synchronize (t->gpu, &error);
    g_assert_no_error (error);
    g_assert_cmpmem (got, m * k, q->data, m * k);
  }
}

void
add_bytes_tests (void)
{
  cuda_test_add ("/cuda/bytes/linear", test_linear);
  cuda_test_add ("/cuda/bytes/rotation", test_rotation);
  cuda_test_add ("/cuda/bytes/worked", test_worked);
  cuda_test_add ("/cuda/bytes/full-precision", test_full_precision);
  cuda_test_add ("/cuda/bytes/swiglu", test_swiglu);
  cuda_test_add ("/cuda/bytes/released", test_released);
  cuda_test_add ("/cuda/bytes/nan", test_nan);
  cuda_test_add ("/cuda/bytes/quantise-rows", test_quantise_rows);
}
