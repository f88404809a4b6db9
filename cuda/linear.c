/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matrix products by cuBLASLt. An algorithm is chosen once per shape by timing,
 * but only among those whose result has the same bytes as the library's first
 * choice: speed may depend on the day, bytes may not. */
#include "cuda/device.h"

#include <string.h>

#define CANDIDATES 16
/* Products of less work take the library's first choice untimed. */
#define TIMED_FLOP 2e9
/* Large products of float32 are taken to pieces for the tensor cores: three
 * times as fast as the plain cores, with 2e-6 of relative error for 8e-7. */
#define SPLIT_FLOP 1e11
/* Rows at a time that pass through scratch. */
#define OWN_ROWS 8192

typedef struct {
  gint64 m, n, k;
  gint64 y_stride;          /* elements from row to row of y, at least n */
  guint8 in_type, out_type; /* H3DType */
  guint8 bias, accumulate;
  guint8 x_align, y_align, w_align; /* log2 of the address, at most 8 */
  guint8 encoding;                  /* H3Encoding of bytes, or PLAIN */
} Key;

G_STATIC_ASSERT (sizeof (Key) == 40);

typedef struct {
  Key key;
  cublasLtMatmulAlgo_t algo;
} Choice;

struct _H3CudaProducts {
  cublasLtHandle_t handle;
  GMutex lock;
  GHashTable *choices; /* Choice, by its key; under the lock */
};

static guint
key_hash (gconstpointer data)
{
  const guint8 *p = data;
  guint h = 2166136261u;

  for (gsize i = 0; i < sizeof (Key); i++)
    h = (h ^ p[i]) * 16777619u;
  return h;
}

static gboolean
key_equal (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (Key)) == 0;
}

H3CudaProducts *
h3_cuda_products_new (GError **error)
{
  H3CudaProducts *p = g_new0 (H3CudaProducts, 1);
  cublasStatus_t status = cublasLtCreate (&p->handle);

  g_mutex_init (&p->lock);
  p->choices = g_hash_table_new_full (key_hash, key_equal, NULL, g_free);
  if (status == CUBLAS_STATUS_SUCCESS)
    return p;
  g_set_error (error, H3_ERROR, H3_ERROR_INIT, "cuBLASLt could not start: %s",
      cublasLtGetStatusName (status));
  p->handle = NULL;
  h3_cuda_products_free (p);
  return NULL;
}

void
h3_cuda_products_free (H3CudaProducts *p)
{
  if (!p)
    return;
  if (p->handle)
    cublasLtDestroy (p->handle);
  g_hash_table_destroy (p->choices);
  g_mutex_clear (&p->lock);
  g_free (p);
}

cublasLtHandle_t
h3_cuda_products_handle (H3CudaProducts *p)
{
  return p->handle;
}

/* One product: y (+)= x wᵀ + bias, all of types the library takes. */
typedef struct {
  Key key;
  const void *x, *w, *bias;
  void *y;
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t a, b, d;
  cublasLtMatmulPreference_t preference;
} Product;

static cudaDataType_t
data_type (H3DType dtype)
{
  return dtype == H3_DTYPE_F32   ? CUDA_R_32F
         : dtype == H3_DTYPE_F16 ? CUDA_R_16F
         : dtype == H3_DTYPE_I32 ? CUDA_R_32I
                                 : CUDA_R_16BF;
}

static cudaDataType_t
operand_type (const Key *key)
{
  switch (key->encoding) {
    case H3_ENCODING_E4M3:
      return CUDA_R_8F_E4M3;
    case H3_ENCODING_INT8:
      return CUDA_R_8I;
    default:
      return data_type (key->in_type);
  }
}

static guint8
alignment_of (gconstpointer p)
{
  guint8 bits = 0;

  while (bits < 8 && !((gsize) p >> bits & 1))
    bits++;
  return bits;
}

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

#define TRY(call)                                                              \
  if ((status = (call)) != CUBLAS_STATUS_SUCCESS)                              \
  return status

#define SET_OP(attribute, value)                                               \
  TRY (cublasLtMatmulDescSetAttribute (p->op,                                  \
      CUBLASLT_MATMUL_DESC_##attribute, &value, sizeof value))

#define SET_PREFERENCE(attribute, value)                                       \
  TRY (cublasLtMatmulPreferenceSetAttribute (p->preference,                    \
      CUBLASLT_MATMUL_PREF_##attribute, &value, sizeof value))

/* The library is column-major: it sees yᵀ [n, m] = w [n, k] xᵀ [k, m]. */
static cublasStatus_t
product_describe (Product *p)
{
  const Key *key = &p->key;
  cudaDataType_t in = operand_type (key), out = data_type (key->out_type);
  gboolean integers = key->out_type == H3_DTYPE_I32;
  cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  gsize workspace = H3_CUBLAS_WORKSPACE;
  gint8 fast = 1; /* as our own kernel adds */
  guint32 no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
  guint32 x_align = 1u << key->x_align, y_align = 1u << key->y_align;
  guint32 w_align = 1u << key->w_align;
  cublasStatus_t status;

  TRY (cublasLtMatmulDescCreate (&p->op,
      integers ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
      integers ? CUDA_R_32I : CUDA_R_32F));
  SET_OP (TRANSA, transposed);
  if (key->encoding == H3_ENCODING_E4M3)
    SET_OP (FAST_ACCUM, fast);
  if (p->bias) {
    SET_OP (EPILOGUE, epilogue);
    SET_OP (BIAS_POINTER, p->bias);
    SET_OP (BIAS_DATA_TYPE, out);
  }
  TRY (cublasLtMatrixLayoutCreate (&p->a, in, key->k, key->n, key->k));
  TRY (cublasLtMatrixLayoutCreate (&p->b, in, key->k, key->m, key->k));
  TRY (cublasLtMatrixLayoutCreate (&p->d, out, key->n, key->m, key->y_stride));
  TRY (cublasLtMatmulPreferenceCreate (&p->preference));
  SET_PREFERENCE (MAX_WORKSPACE_BYTES, workspace);
  SET_PREFERENCE (REDUCTION_SCHEME_MASK, no_split);
  SET_PREFERENCE (MIN_ALIGNMENT_A_BYTES, w_align);
  SET_PREFERENCE (MIN_ALIGNMENT_B_BYTES, x_align);
  SET_PREFERENCE (MIN_ALIGNMENT_C_BYTES, y_align);
  SET_PREFERENCE (MIN_ALIGNMENT_D_BYTES, y_align);
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
product_run (const Product *p, H3CudaStream *stream, cublasLtHandle_t handle,
    const cublasLtMatmulAlgo_t *algo, void *y)
{
  /* of integers both are integers */
  gint32 one = 1, none = 0;
  float one_f = 1, beta = p->key.accumulate;
  gboolean integers = p->key.out_type == H3_DTYPE_I32;

  return cublasLtMatmul (handle, p->op,
      integers ? (const void *) &one : (const void *) &one_f, p->w, p->a, p->x,
      p->b, integers ? (const void *) &none : (const void *) &beta, y, p->d, y,
      p->d, algo, stream->workspace.data, stream->workspace.bytes,
      stream->handle);
}

/* The best of three, but one that is far from @to_beat runs once. */
static float
time_of (const Product *p, H3CudaStream *stream, cublasLtHandle_t handle,
    const cublasLtMatmulAlgo_t *algo, void *y, cudaEvent_t event[2],
    float to_beat)
{
  float best = G_MAXFLOAT, ms;

  for (gint i = 0; i < 3 && (i == 0 || best < 1.2f * to_beat); i++) {
    cudaEventRecord (event[0], stream->handle);
    if (product_run (p, stream, handle, algo, y) != CUBLAS_STATUS_SUCCESS)
      return G_MAXFLOAT;
    cudaEventRecord (event[1], stream->handle);
    if (cudaEventSynchronize (event[1]) != cudaSuccess ||
        cudaEventElapsedTime (&ms, event[0], event[1]) != cudaSuccess)
      return G_MAXFLOAT;
    best = MIN (best, ms);
  }
  return best;
}

/* Host copies of a result's start, to compare bytes. */
#define COMPARED ((gsize) 1 << 20)

static gboolean
same_bytes (const Product *p, H3CudaStream *stream, cublasLtHandle_t handle,
    const cublasLtMatmulAlgo_t *algo, void *y, gsize bytes, guint8 *result,
    const guint8 *wanted)
{
  return cudaMemsetAsync (y, 0, bytes, stream->handle) == cudaSuccess &&
         product_run (p, stream, handle, algo, y) == CUBLAS_STATUS_SUCCESS &&
         cudaMemcpyAsync (result, y, MIN (bytes, COMPARED),
             cudaMemcpyDeviceToHost, stream->handle) == cudaSuccess &&
         cudaStreamSynchronize (stream->handle) == cudaSuccess &&
         (!wanted || memcmp (result, wanted, MIN (bytes, COMPARED)) == 0);
}

/* Runs into scratch, never into the caller's y. */
static void
choose_by_time (Product *p, H3Stream *base, cublasLtHandle_t handle,
    const cublasLtMatmulHeuristicResult_t *found, int n,
    cublasLtMatmulAlgo_t *chosen)
{
  H3CudaStream *stream = (H3CudaStream *) base;
  gsize bytes = ((p->key.m - 1) * p->key.y_stride + p->key.n) *
                h3_dtype_size (p->key.out_type);
  g_autofree guint8 *wanted = g_malloc (MIN (bytes, COMPARED));
  g_autofree guint8 *result = g_malloc (MIN (bytes, COMPARED));
  float best = G_MAXFLOAT;
  cudaEvent_t event[2] = { NULL, NULL };
  gpointer y = NULL;

  *chosen = found[0].algo;
  if (n < 2 || cudaMallocFromPoolAsync (&y, bytes, h3_cuda_device (base)->pool,
                   stream->handle) != cudaSuccess) {
    cudaGetLastError ();
    return;
  }
  cudaEventCreate (&event[0]);
  cudaEventCreate (&event[1]);
  if (same_bytes (p, stream, handle, &found[0].algo, y, bytes, wanted, NULL))
    for (int i = 0; i < n; i++) {
      float ms;

      if (i > 0 && !same_bytes (p, stream, handle, &found[i].algo, y, bytes,
                       result, wanted))
        continue;
      ms = time_of (p, stream, handle, &found[i].algo, y, event, best);
      if (ms < best * 0.99f) {
        best = ms;
        *chosen = found[i].algo;
      }
    }
  cudaEventDestroy (event[0]);
  cudaEventDestroy (event[1]);
  cudaGetLastError (); /* no timing is no failure of the product */
  cudaFreeAsync (y, stream->handle);
}

static cublasStatus_t
choose (Product *p, H3Stream *stream, H3CudaProducts *products,
    cublasLtMatmulAlgo_t *algo)
{
  cublasLtMatmulHeuristicResult_t found[CANDIDATES];
  double flop = 2.0 * p->key.m * p->key.n * p->key.k;
  Choice *choice;
  int n = 0;
  cublasStatus_t status;

  g_mutex_lock (&products->lock);
  choice = g_hash_table_lookup (products->choices, &p->key);
  if (choice) {
    *algo = choice->algo;
    g_mutex_unlock (&products->lock);
    return CUBLAS_STATUS_SUCCESS;
  }
  status = cublasLtMatmulAlgoGetHeuristic (products->handle, p->op, p->a, p->b,
      p->d, p->d, p->preference, flop < TIMED_FLOP ? 1 : CANDIDATES, found, &n);
  if (status == CUBLAS_STATUS_SUCCESS && n == 0)
    status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (status == CUBLAS_STATUS_SUCCESS) {
    choose_by_time (p, stream, products->handle, found, n, algo);
    choice = g_new0 (Choice, 1);
    choice->key = p->key;
    choice->algo = *algo;
    g_hash_table_insert (products->choices, &choice->key, choice);
  }
  g_mutex_unlock (&products->lock);
  return status;
}

static gboolean
run_product (H3Stream *stream, Product *p)
{
  H3CudaProducts *products = h3_cuda_device (stream)->products;
  cublasLtMatmulAlgo_t algo;
  cublasStatus_t status;

  if (!h3_cuda_scratch (stream, &((H3CudaStream *) stream)->workspace,
          H3_CUBLAS_WORKSPACE))
    return FALSE;
  status = product_describe (p);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = choose (p, stream, products, &algo);
  if (status == CUBLAS_STATUS_SUCCESS)
    status =
        product_run (p, (H3CudaStream *) stream, products->handle, &algo, p->y);
  product_clear (p);
  if (status == CUBLAS_STATUS_SUCCESS)
    return TRUE;
  h3_stream_fail (stream, H3_ERROR_DEVICE,
      "linear of [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
      "] by [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
      "] on %s: cuBLASLt says %s",
      p->key.m, p->key.k, p->key.n, p->key.k, stream->device->name,
      cublasLtGetStatusName (status));
  return FALSE;
}

gboolean
h3_cuda_sum_bytes (H3Stream *stream, const H3CudaBytes *args, gpointer sums)
{
  Product p = { .key = { .m = args->rows,
                    .n = args->cols,
                    .k = args->depth,
                    .y_stride = args->cols,
                    .out_type = args->encoding == H3_ENCODING_INT8
                                    ? H3_DTYPE_I32
                                    : H3_DTYPE_F32,
                    .encoding = args->encoding,
                    .x_align = alignment_of (args->x),
                    .y_align = alignment_of (sums),
                    .w_align = alignment_of (args->w) },
    .x = args->x,
    .w = args->w,
    .y = sums };

  return run_product (stream, &p);
}

/* The address of an element of a matrix. */
static gpointer
element_at (const H3Tensor *t, gint64 row, gint64 col)
{
  return (guint8 *) t->data +
         (row * h3_tensor_cols (t) + col) * h3_dtype_size (t->dtype);
}

/* @data itself, or, when it has another type, a copy in scratch. NULL when the
 * stream failed. */
gconstpointer
h3_cuda_as_type (H3Stream *stream, H3CudaScratch *scratch, H3DType to,
    H3DType from, gconstpointer data, gint64 n)
{
  gpointer copy;

  if (to == from)
    return data;
  copy = h3_cuda_scratch (stream, scratch, n * h3_dtype_size (to));
  if (!copy || !h3_cuda_ok (stream, "converting an operand",
                   h3_cuda_convert (((H3CudaStream *) stream)->handle, to, copy,
                       from, data, n, 1)))
    return NULL;
  return copy;
}

/* What of a product does not change from row to row. */
typedef struct {
  const H3LinearArgs *args;
  gint64 col, n; /* of y: first column, columns */
  H3DType in;
  gboolean own_pass; /* bias and activation, or the result's type, are ours */
  gboolean split;    /* float32, in pieces */
  gconstpointer w, bias;
} Linear;

/* NULL when the stream failed. */
static gconstpointer
pieces_of (H3Stream *stream, H3CudaScratch *scratch, gconstpointer data,
    gint64 rows, gint64 cols, gboolean weight)
{
  gpointer pieces = h3_cuda_scratch (stream, scratch,
      rows * cols * H3_CUDA_PIECES * h3_dtype_size (H3_DTYPE_BF16));

  if (!pieces || !h3_cuda_ok (stream, "taking an operand to pieces",
                     h3_cuda_split (((H3CudaStream *) stream)->handle, pieces,
                         data, rows, cols, weight)))
    return NULL;
  return pieces;
}

/* Whether a product goes by pieces. */
static gboolean
can_split (const H3LinearArgs *args, H3DType in, const H3CudaRows *w)
{
  const H3Tensor *x = args->x;
  double n = w->n, k = h3_tensor_cols (x);

  return in == H3_DTYPE_F32 && args->y->dtype == H3_DTYPE_F32 &&
         x->dtype == in && w->dtype == in &&
         args->activation == H3_ACTIVATION_NONE &&
         2 * h3_tensor_rows (x) * n * k >= SPLIT_FLOP &&
         h3_tensor_cols (x) % 8 == 0 && alignment_of (x->data) >= 4 &&
         alignment_of (w->data) >= 4;
}

static gboolean
run_rows (H3Stream *stream, const Linear *l, gint64 first, gint64 n)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  const H3LinearArgs *args = l->args;
  const H3Tensor *x = args->x, *y = args->y;
  Product p = { .key = { .m = n,
                    .n = l->n,
                    .k = h3_tensor_cols (x) * (l->split ? H3_CUDA_PIECES : 1),
                    .y_stride = l->own_pass ? l->n : h3_tensor_cols (y),
                    .in_type = l->split ? H3_DTYPE_BF16 : l->in,
                    .out_type = l->own_pass ? H3_DTYPE_F32 : y->dtype,
                    .accumulate = args->accumulate } };

  p.w = l->w;
  p.bias = l->bias;
  p.x = l->split ? pieces_of (stream, &cuda->scratch[0],
                       element_at (x, first, 0), n, h3_tensor_cols (x), FALSE)
                 : h3_cuda_as_type (stream, &cuda->scratch[0], l->in, x->dtype,
                       element_at (x, first, 0), n * p.key.k);
  p.y = l->own_pass ? h3_cuda_scratch (stream, &cuda->scratch[1],
                          n * p.key.n * sizeof (gfloat))
                    : element_at (y, first, l->col);
  if (!p.x || !p.y)
    return FALSE;
  p.key.bias = p.bias != NULL;
  p.key.x_align = alignment_of (p.x);
  p.key.y_align = alignment_of (p.y);
  p.key.w_align = alignment_of (p.w);
  if (!run_product (stream, &p))
    return FALSE;
  if (l->own_pass &&
      !h3_cuda_ok (stream, "linear",
          h3_cuda_bias_act (cuda->handle, y->dtype,
              element_at (y, first, l->col), h3_tensor_cols (y), H3_DTYPE_F32,
              p.y,
              args->bias ? (const gfloat *) args->bias->data + l->col : NULL, n,
              p.key.n, args->activation)))
    return FALSE;
  h3_cuda_pace (stream, 2.0 * n * p.key.n * p.key.k);
  return stream->error == NULL;
}

/* Operands of one type meet in it, of two in float32. The product's own
 * epilogue adds a bias; an activation, or a result type that the library does
 * not make of these operands, takes a pass of ours, some rows at a time. */
gboolean
h3_cuda_linear_rows (H3Stream *stream, const H3LinearArgs *args,
    const H3CudaRows *w)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  const H3Tensor *x = args->x;
  H3DType in = x->dtype == w->dtype ? x->dtype : H3_DTYPE_F32;
  H3DType out = args->y->dtype;
  gint64 rows = h3_tensor_rows (x), cols = h3_tensor_cols (x), step = rows;
  Linear l = { .args = args, .col = w->first, .n = w->n, .in = in };

  if (rows == 0 || w->n == 0)
    return TRUE;
  l.own_pass = (out != in && out != H3_DTYPE_F32) ||
               args->activation != H3_ACTIVATION_NONE;
  if (l.own_pass && args->accumulate) {
    h3_stream_fail (stream, H3_ERROR_WRONG_TYPE,
        "linear: cannot add to %s "
        "out of %s by %s",
        h3_dtype_name (out), h3_dtype_name (x->dtype),
        h3_dtype_name (w->dtype));
    return FALSE;
  }
  l.split = can_split (args, in, w);
  l.w = l.split
            ? pieces_of (stream, &cuda->scratch[3], w->data, w->n, cols, TRUE)
            : h3_cuda_as_type (stream, &cuda->scratch[3], in, w->dtype, w->data,
                  w->n * cols);
  if (args->bias && !l.own_pass)
    l.bias = h3_cuda_as_type (stream, &cuda->scratch[2], out, args->bias->dtype,
        element_at (args->bias, 0, w->first), w->n);
  if (!l.w || (args->bias && !l.own_pass && !l.bias))
    return FALSE;
  if (l.own_pass || l.split || x->dtype != in)
    step = OWN_ROWS;
  for (gint64 first = 0; first < rows; first += step)
    if (!run_rows (stream, &l, first, MIN (step, rows - first)))
      return FALSE;
  return TRUE;
}

void
h3_cuda_linear (H3Stream *stream, const H3LinearArgs *args)
{
  const H3Weight *weight = args->weight;

  if (!h3_cuda_enter (stream))
    return;
  if (weight->encoding == H3_ENCODING_PLAIN)
    h3_cuda_linear_rows (stream, args,
        &(H3CudaRows){ 0, weight->rows, weight->tensor->dtype,
            weight->tensor->data });
  else
    h3_cuda_linear_encoded (stream, args);
}
