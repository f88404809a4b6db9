/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the host files of the CUDA device share. */
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "cuda/h3-cuda.h"
#include "cuda/kernels.h"

G_BEGIN_DECLS

/* Pieces of work (pace.c) that the host enqueues ahead at most. */
#define H3_CUDA_AHEAD 2

#define H3_CUBLAS_WORKSPACE ((gsize) 64 << 20)

typedef struct _H3CudaProducts H3CudaProducts; /* linear.c */
typedef struct _H3CudaSdpa H3CudaSdpa;         /* sdpa.c */

typedef struct {
  H3Device device;
  gint capability; /* 90: compute capability 9.0 */
  cudaMemPool_t pool;
  cudaStream_t memory; /* where allocations and frees are ordered */
  H3CudaProducts *products;
  H3CudaSdpa *sdpa; /* NULL: cuDNN is absent */
  GMutex lock;
  GPtrArray *streams; /* (element-type H3CudaStream), under the lock */
} H3CudaDevice;

/* Memory that only grows, ordered with one stream. */
typedef struct {
  gpointer data;
  gsize bytes;
} H3CudaScratch;

typedef struct {
  H3Stream stream;
  cudaStream_t handle;
  H3CudaScratch workspace;  /* of cuBLASLt */
  H3CudaScratch scratch[4]; /* a product's operand, result, bias, weight */
  H3CudaScratch picture;    /* a frame on its way to the host */
  H3CudaScratch sdpa;       /* cuDNN's workspace */
  H3CudaScratch sums;       /* of group norms */
  H3CudaScratch conv3d;     /* of a convolution's operands */
  H3CudaScratch bad_row;    /* gint32: a row number was outside */
  H3CudaScratch decoded;    /* rows of an encoded weight, or x as bytes */
  cudaEvent_t pieces[H3_CUDA_AHEAD]; /* behind the last ones */
  guint n_pieces;
  gdouble piece_flop; /* so far in the one that is being enqueued */
} H3CudaStream;

static inline H3CudaDevice *
h3_cuda_device (H3Stream *stream)
{
  return (H3CudaDevice *) stream->device;
}

/* FALSE, and the stream fails with the operation's and the error's name. */
gboolean h3_cuda_ok (H3Stream *stream, const gchar *what, cudaError_t err);
/* Makes the device current in this thread; every entry point begins so. */
gboolean h3_cuda_enter (H3Stream *stream);
/* At least @bytes of scratch, or NULL and the stream fails. */
gpointer h3_cuda_scratch (H3Stream *stream, H3CudaScratch *scratch,
    gsize bytes);

gconstpointer h3_cuda_as_type (H3Stream *stream, H3CudaScratch *scratch,
    H3DType to, H3DType from, gconstpointer data, gint64 n);

/* Behind an operation of so much arithmetic: may wait for the device, and fails
 * the stream when h3_stream_set_stop()'s asks to stop. */
void h3_cuda_pace (H3Stream *stream, gdouble flop);
void h3_cuda_pace_clear (H3CudaStream *cuda);

H3CudaProducts *h3_cuda_products_new (GError **error);
void h3_cuda_products_free (H3CudaProducts *products);
cublasLtHandle_t h3_cuda_products_handle (H3CudaProducts *products);
void h3_cuda_linear (H3Stream *stream, const H3LinearArgs *args);

/* Rows of a weight as plain numbers, [n, K]: rows @first on, @n of them. */
typedef struct {
  gint64 first, n;
  H3DType dtype;
  gconstpointer data;
} H3CudaRows;

/* Columns [w->first, w->first + w->n) of args->y; args->weight is not looked at.
 * FALSE when the stream failed. */
gboolean h3_cuda_linear_rows (H3Stream *stream, const H3LinearArgs *args,
    const H3CudaRows *w);
/* By @w in FP4 (linear-fp4.c): columns [col, col + w->rows) of args->y. FALSE, and
 * nothing was done, when the weight or the device is not made for that. */
gboolean h3_cuda_linear_fp4 (H3Stream *stream, const H3LinearArgs *args,
    const H3Weight *w, gint64 col);
/* In the arithmetic of the weight's bytes (linear-bytes.c). FALSE, and nothing was
 * done, when the weight or the device is not made for that.
 * @swiglu: y = silu (g) * u, [g, u] = x Wᵀ + b */
gboolean h3_cuda_linear_bytes (H3Stream *stream, const H3LinearArgs *args,
    gboolean swiglu);
/* sums: [rows, cols], of args->x by args->w: int32 of integers, else float32.
 * FALSE when the stream failed. */
gboolean h3_cuda_sum_bytes (H3Stream *stream, const H3CudaBytes *args,
    gpointer sums);
/* Of a weight that is not plain (linear-encoded.c). */
void h3_cuda_linear_encoded (H3Stream *stream, const H3LinearArgs *args);
void h3_cuda_embedding_encoded (H3Stream *stream, H3Tensor *y,
    const H3Weight *weight, const H3Tensor *ids, gint32 *bad_row);

/* NULL when cuDNN is not there. */
H3CudaSdpa *h3_cuda_sdpa_new (void);
void h3_cuda_sdpa_free (H3CudaSdpa *sdpa);
/* FALSE when cuDNN has no engine for it; the stream has not failed then. */
gboolean h3_cuda_sdpa_run (H3Stream *stream, const H3AttentionArgs *args);

void h3_cuda_conv3d (H3Stream *stream, const H3Conv3dArgs *args);

extern const H3DeviceOps h3_cuda_ops;

G_END_DECLS
