/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* NVFP4 weights in FP4 products (checkpoints.md 5.2), where tensor cores have
 * them: rows of x are taken to FP4 with a scale a row and one for each 16
 * columns, and the row's and the weight's scales multiply the sums. */
#include "cuda/device.h"

/* Rows at a time that pass through scratch; and what a part of it is a multiple
 * of. */
#define STEP 8192
#define ALIGNMENT 256
/* Rows of x are filled up to a multiple of it. */
#define ROW_UNIT 16

typedef struct {
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t a, b, d;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found;
} Product;

static void
product_clear (Product *p)
{
  if (p->preference)
    cublasLtMatmulPreferenceDestroy (p->preference);
  if (p->d)
    cublasLtMatrixLayoutDestroy (p->d);
  if (p->b)
    cublasLtMatrixLayoutDestroy (p->b);
  if (p->a)
    cublasLtMatrixLayoutDestroy (p->a);
  if (p->op)
    cublasLtMatmulDescDestroy (p->op);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Product, product_clear)

#define TRY(call)                                                              \
  if ((status = (call)) != CUBLAS_STATUS_SUCCESS)                              \
  return status

#define SET_OP(attribute, value)                                               \
  TRY (cublasLtMatmulDescSetAttribute (p->op,                                  \
      CUBLASLT_MATMUL_DESC_##attribute, &value, sizeof value))

/* Column-major, the library sees sumsᵀ [n, m] = w [n, k] xᵀ [k, m]. Finds how
 * to compute it, too. */
static cublasStatus_t
product_init (Product *p, cublasLtHandle_t handle, gint64 m, gint64 n, gint64 k,
    gconstpointer x_scale, gconstpointer w_scale)
{
  cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
  gsize workspace = H3_CUBLAS_WORKSPACE;
  guint32 no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
  cublasStatus_t status;
  int n_found = 0;

  TRY (cublasLtMatmulDescCreate (&p->op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  SET_OP (TRANSA, transposed);
  SET_OP (A_SCALE_MODE, mode);
  SET_OP (B_SCALE_MODE, mode);
  SET_OP (A_SCALE_POINTER, w_scale);
  SET_OP (B_SCALE_POINTER, x_scale);
  TRY (cublasLtMatrixLayoutCreate (&p->a, CUDA_R_4F_E2M1, k, n, k));
  TRY (cublasLtMatrixLayoutCreate (&p->b, CUDA_R_4F_E2M1, k, m, k));
  TRY (cublasLtMatrixLayoutCreate (&p->d, CUDA_R_32F, n, m, n));
  TRY (cublasLtMatmulPreferenceCreate (&p->preference));
  TRY (cublasLtMatmulPreferenceSetAttribute (p->preference,
      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
  TRY (cublasLtMatmulPreferenceSetAttribute (p->preference,
      CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_split, sizeof no_split));
  TRY (cublasLtMatmulAlgoGetHeuristic (handle, p->op, p->a, p->b, p->d, p->d,
      p->preference, 1, &p->found, &n_found));
  return n_found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static gsize
round_up (gsize n, gsize unit)
{
  return (n + unit - 1) / unit * unit;
}

/* Some rows of x in FP4, in scratch. */
typedef struct {
  guint8 *q, *scales;
  gfloat *row_scale;
} Rows;

static gboolean
rows_init (H3Stream *stream, Rows *r, gint64 rows, gint64 cols)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  gint64 filled = round_up (rows, ROW_UNIT);
  gsize q = round_up (filled * cols / 2, ALIGNMENT);
  gsize scales = round_up (h3_cuda_fp4_scale_bytes (filled, cols), ALIGNMENT);

  r->q = h3_cuda_scratch (stream, &cuda->scratch[0],
      q + scales + filled * sizeof (gfloat));
  if (!r->q)
    return FALSE;
  r->scales = r->q + q;
  r->row_scale = (gfloat *) (r->scales + scales);
  /* what fills up is any code, by scales of 0 */
  return TRUE;
}

/* Rows [first, first + n) of x, columns from @col on of y. FALSE when the stream
 * failed, or, with nothing done, @supported is FALSE. */
static gboolean
run_rows (H3Stream *stream, const H3LinearArgs *args, const H3Weight *w,
    gint64 col, gint64 first, gint64 n, gconstpointer w_scale,
    gboolean *supported)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  cublasLtHandle_t handle =
      h3_cuda_products_handle (h3_cuda_device (stream)->products);
  const H3Tensor *x = args->x, *y = args->y;
  gint64 filled = round_up (n, ROW_UNIT), y_cols = h3_tensor_cols (y);
  g_auto (Product) p = { 0 };
  gfloat one = 1, zero = 0, *sums;
  Rows r;

  sums = h3_cuda_scratch (stream, &cuda->scratch[1],
      filled * w->rows * sizeof *sums);
  if (!sums || !rows_init (stream, &r, n, w->cols) ||
      !h3_cuda_scratch (stream, &cuda->workspace, H3_CUBLAS_WORKSPACE))
    return FALSE;
  *supported = product_init (&p, handle, filled, w->rows, w->cols, r.scales,
                   w_scale) == CUBLAS_STATUS_SUCCESS;
  if (!*supported)
    return FALSE;
  if (!h3_cuda_ok (stream, "rows in FP4",
          h3_cuda_fp4_quantise (cuda->handle, r.q, r.scales, r.row_scale,
              x->dtype,
              (const guint8 *) x->data +
                  first * w->cols * h3_dtype_size (x->dtype),
              n, w->cols, w->column_scale ? w->column_scale->data : NULL,
              w->input_scale)))
    return FALSE;
  if (cublasLtMatmul (handle, p.op, &one, w->tensor->data, p.a, r.q, p.b, &zero,
          sums, p.d, sums, p.d, &p.found.algo, cuda->workspace.data,
          cuda->workspace.bytes, cuda->handle) != CUBLAS_STATUS_SUCCESS) {
    h3_stream_fail (stream, H3_ERROR_DEVICE,
        "linear of [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
        "] by [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
        "] in FP4 on %s: cuBLASLt failed",
        filled, w->cols, w->rows, w->cols, stream->device->name);
    return FALSE;
  }
  if (!h3_cuda_ok (stream, "linear",
          h3_cuda_fp4_finish (cuda->handle, y->dtype,
              (guint8 *) y->data +
                  (first * y_cols + col) * h3_dtype_size (y->dtype),
              y_cols, sums, r.row_scale, w->scale->data,
              args->bias ? (const gfloat *) args->bias->data + col : NULL, n,
              w->rows, args->accumulate)))
    return FALSE;
  h3_cuda_pace (stream, 0.5 * n * w->rows * w->cols);
  return stream->error == NULL;
}

static gboolean
is_for_fp4 (const H3LinearArgs *args, const H3Weight *w)
{
  return w->encoding == H3_ENCODING_NVFP4 && !w->full_precision &&
         args->activation == H3_ACTIVATION_NONE && w->cols % 32 == 0 &&
         w->rows % 8 == 0 && w->rows > 0 && ((gsize) w->tensor->data & 15) == 0;
}

gboolean
h3_cuda_linear_fp4 (H3Stream *stream, const H3LinearArgs *args,
    const H3Weight *w, gint64 col)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  gint64 rows = h3_tensor_rows (args->x);
  gboolean supported = TRUE;
  guint8 *tiled;

  if (!is_for_fp4 (args, w) || !h3_cuda_has_fp4 ())
    return FALSE;
  tiled = h3_cuda_scratch (stream, &cuda->scratch[3],
      h3_cuda_fp4_scale_bytes (w->rows, w->cols));
  if (!tiled || !h3_cuda_ok (stream, "a weight's scales",
                    h3_cuda_fp4_tile (cuda->handle, tiled, w->block_scale->data,
                        w->rows, w->cols)))
    return TRUE;
  for (gint64 first = 0; first < rows; first += STEP)
    if (!run_rows (stream, args, w, col, first, MIN (STEP, rows - first), tiled,
            &supported))
      break;
  return supported;
}
