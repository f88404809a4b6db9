/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What goes into an FP4 product and comes out of it, on any GPU: the product
 * itself takes Blackwell's tensor cores. Linked with the kernels, for no
 * operation shows these. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "cuda/kernels.h"

static void
ok (cudaError_t err)
{
  g_assert_cmpstr (cudaGetErrorName (err), ==, "cudaSuccess");
}

static gpointer
on_gpu (gconstpointer host, gsize bytes)
{
  gpointer data;

  ok (cudaMalloc (&data, bytes));
  if (host)
    ok (cudaMemcpy (data, host, bytes, cudaMemcpyHostToDevice));
  else
    ok (cudaMemset (data, 0xee, bytes));
  return data;
}

/* Frees the device's. */
static gpointer
on_host (gpointer data, gsize bytes)
{
  gpointer host = g_malloc (bytes);

  ok (cudaMemcpy (host, data, bytes, cudaMemcpyDeviceToHost));
  ok (cudaFree (data));
  return host;
}

static gdouble
e4m3 (guint8 code)
{
  gint e = code >> 3 & 15, m = code & 7;

  return e ? ldexp (8 + m, e - 10) : ldexp (m, -9);
}

static gdouble
e2m1 (gint code)
{
  static const gdouble values[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };

  return code & 8 ? -values[code & 7] : values[code & 7];
}

/* The row and block that a place belongs to: the inverse (checkpoints.md 5.2). */
static void
place_of (gint64 off, gint64 C, gint64 *r, gint64 *c)
{
  gint64 in_tile = off / 512, m = off % 512;

  *r = in_tile / (C / 4) * 128 + m % 16 / 4 * 32 + m / 16;
  *c = in_tile % (C / 4) * 4 + m % 4;
}

typedef struct {
  gint64 rows, cols;
  guint8 *q, *scales;
  gfloat *row_scale;
} Rows;

static void
quantise (Rows *r, const gfloat *x, const gfloat *factor, gfloat input_scale)
{
  gsize scale_bytes = h3_cuda_fp4_scale_bytes (r->rows, r->cols);
  gpointer gpu_x = on_gpu (x, r->rows * r->cols * sizeof *x);
  gpointer gpu_factor = factor ? on_gpu (factor, r->cols * sizeof *x) : NULL;
  gpointer q = on_gpu (NULL, r->rows * r->cols / 2);
  gpointer scales = on_gpu (NULL, scale_bytes);
  gpointer row_scale = on_gpu (NULL, r->rows * sizeof (gfloat));

  ok (h3_cuda_fp4_quantise (NULL, q, scales, row_scale, H3_DTYPE_F32, gpu_x,
      r->rows, r->cols, gpu_factor, input_scale));
  ok (cudaDeviceSynchronize ());
  ok (cudaFree (gpu_x));
  ok (cudaFree (gpu_factor));
  r->q = on_host (q, r->rows * r->cols / 2);
  r->scales = on_host (scales, scale_bytes);
  r->row_scale = on_host (row_scale, r->rows * sizeof (gfloat));
}

static void
rows_clear (Rows *r)
{
  g_free (r->q);
  g_free (r->scales);
  g_free (r->row_scale);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rows, rows_clear)

/* The worked block, and zeros. */
static void
test_worked (void)
{
  static const gfloat x[32] = { 0, -0.0f, .25f, -.75f, 1, -1.25f, 1.75f, -2.5f,
    3.5f, -5, .1f, .3f, -3, 2.25f, 6.5f, -8 };
  static const guint8 q[] = { 0x08, 0x09, 0x1a, 0x3c, 0x5e, 0x00, 0xc3, 0x6f, 0,
    0, 0, 0, 0, 0, 0, 0 };
  g_auto (Rows) r = { 1, 32 };

  quantise (&r, x, NULL, 0.015625f);
  g_assert_cmpmem (r.q, 16, q, 16);
  g_assert_cmphex (r.scales[0], ==, 0x6b);
  for (gint i = 1; i < 512; i++)
    g_assert_cmphex (r.scales[i], ==, 0);
  g_assert_cmpfloat (r.row_scale[0], ==, 0.015625f);
}

/* No number is further off than half of the largest step, of which a scale that
 * was rounded down makes a little more. */
static void
test_rows (void)
{
  const gint64 rows = 131, cols = 4128, C = h3_cuda_fp4_scale_cols (cols);
  g_autofree gfloat *x = g_new (gfloat, rows * cols);
  g_autofree gfloat *factor = g_new (gfloat, cols);
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  g_auto (Rows) r = { rows, cols };
  gdouble error2 = 0, norm2 = 0;
  gint64 n = 0;

  for (gint64 i = 0; i < rows * cols; i++)
    x[i] = ldexp (g_rand_double_range (rand, -1, 1), i / cols % 40 - 20);
  for (gint64 k = 0; k < cols; k++)
    factor[k] = g_rand_double_range (rand, 0.5, 2);
  x[3 * cols + 77] = NAN;
  x[4 * cols + 78] = INFINITY;
  quantise (&r, x, factor, 0);
  for (gint64 off = 0; off < h3_cuda_fp4_scale_bytes (rows, cols); off++) {
    gint64 row, c;

    place_of (off, C, &row, &c);
    if (row >= rows || c >= cols / 16) {
      g_assert_cmphex (r.scales[off], ==, 0);
      continue;
    }
    n++;
    if (row == 3 || row == 4) {
      g_assert_false (isfinite (r.row_scale[row]));
      continue;
    }
    for (gint64 k = 16 * c; k < 16 * c + 16; k++) {
      guint8 byte = r.q[row * cols / 2 + k / 2];
      gdouble unit = r.row_scale[row] * e4m3 (r.scales[off]);
      gdouble want = (gdouble) x[row * cols + k] * factor[k];
      gdouble d = unit * e2m1 (k % 2 ? byte & 15 : byte >> 4) - want;

      g_assert_cmpfloat (fabs (d), <=, unit * 1.01);
      error2 += d * d / (r.row_scale[row] * r.row_scale[row]);
      norm2 += want * want / (r.row_scale[row] * r.row_scale[row]);
    }
  }
  g_assert_cmpint (n, ==, rows * cols / 16);
  g_test_message ("relative L2 %.4f", sqrt (error2 / norm2));
  g_assert_cmpfloat (sqrt (error2 / norm2), <, 0.1);
}

static void
test_tile (void)
{
  const gint64 rows = 21504, cols = 5376, C = 336;
  gsize bytes = h3_cuda_fp4_scale_bytes (rows, cols);
  g_autofree guint8 *scales = g_malloc (rows * C);
  g_autofree guint8 *tiled = NULL;
  gpointer gpu, to = on_gpu (NULL, bytes);

  for (gint64 i = 0; i < rows * C; i++)
    scales[i] = i * 2654435761u >> 24;
  gpu = on_gpu (scales, rows * C);
  ok (h3_cuda_fp4_tile (NULL, to, gpu, rows, cols));
  ok (cudaDeviceSynchronize ());
  ok (cudaFree (gpu));
  tiled = on_host (to, bytes);
  g_assert_cmpuint (bytes, ==, rows * C);
  g_assert_cmphex (tiled[597], ==, scales[37 * C + 5]);
  g_assert_cmphex (tiled[43008], ==, scales[128 * C]);
  g_assert_cmphex (tiled[7225343], ==, scales[21503 * C + 335]);
  for (gint64 off = 0; off < (gint64) bytes; off++) {
    gint64 r, c;

    place_of (off, C, &r, &c);
    g_assert_cmphex (tiled[off], ==, scales[r * C + c]);
  }
}

static void
test_finish (void)
{
  const gfloat sums[] = { 1, 2, 3, 4, 5, 6 }, x[] = { 0.5f, 2 };
  const gfloat w[] = { 1, 10, 100 }, bias[] = { 1, 2, 3 };
  const gfloat before[] = { 7, 1, 1, 1, 7, 1, 1, 1 };
  const gfloat want[] = { 7, 2.5f, 13, 154, 7, 10, 103, 1204 };
  gpointer y = on_gpu (before, sizeof before), s = on_gpu (sums, sizeof sums);
  gpointer xs = on_gpu (x, sizeof x), ws = on_gpu (w, sizeof w);
  gpointer b = on_gpu (bias, sizeof bias);
  g_autofree gfloat *got = NULL;

  ok (h3_cuda_fp4_finish (NULL, H3_DTYPE_F32, (gfloat *) y + 1, 4, s, xs, ws, b,
      2, 3, TRUE));
  ok (cudaDeviceSynchronize ());
  got = on_host (y, sizeof before);
  for (gint i = 0; i < 8; i++)
    g_assert_cmpfloat (got[i], ==, want[i]);
  ok (cudaFree (s));
  ok (cudaFree (xs));
  ok (cudaFree (ws));
  ok (cudaFree (b));
}

int
main (int argc, char **argv)
{
  int n = 0;

  if (cudaGetDeviceCount (&n) != cudaSuccess || n == 0) {
    g_print ("1..0 # SKIP no GPU\n");
    return 0;
  }
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/fp4/worked", test_worked);
  g_test_add_func ("/cuda/fp4/rows", test_rows);
  g_test_add_func ("/cuda/fp4/tile", test_tile);
  g_test_add_func ("/cuda/fp4/finish", test_finish);
  return g_test_run ();
}
