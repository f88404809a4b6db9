/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Device memory with a type and a shape, and weights in their encoding. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _H3Device H3Device;
typedef struct _H3Stream H3Stream;
typedef struct _H3Tensor H3Tensor;
typedef struct _H3Weight H3Weight;

typedef enum {
  H3_DTYPE_F32,
  H3_DTYPE_F16,
  H3_DTYPE_BF16,
  H3_DTYPE_I32,
  H3_DTYPE_U8,
} H3DType;

#define H3_MAX_RANK 6

/* Bytes of one element. */
gsize h3_dtype_size (H3DType dtype);
/* "float32", "float16", "bfloat16", "int32", "uint8": the caps' spelling. */
const gchar *h3_dtype_name (H3DType dtype);

/**
 * H3Tensor:
 * @data: a device address; only the device that owns it may read it, except on
 *   devices whose memory is the host's (the CPU)
 * @shape: row-major and contiguous; a view may start inside its parent
 *
 * Reference counted, thread-safe counts. Shape and type never change.
 */
struct _H3Tensor {
  gatomicrefcount refcount;
  H3Device *device; /* owned reference */
  H3Tensor *parent; /* owned reference: what a view keeps alive, or NULL */
  H3DType dtype;
  guint rank;
  gint64 shape[H3_MAX_RANK];
  gpointer data;
  gsize bytes;
};

/* New memory, not initialised. NULL and H3_ERROR_NO_SPACE (with the bytes asked
 * for and free) when there is none. 64-byte (CUDA: 256-byte) aligned. */
H3Tensor *h3_tensor_new (H3Device *device, H3DType dtype, guint rank,
    const gint64 *shape, GError **error);
/* The same with the shape as arguments: h3_tensor_new_2d (d, F32, rows, cols). */
H3Tensor *h3_tensor_new_1d (H3Device *device, H3DType dtype, gint64 n,
    GError **error);
H3Tensor *h3_tensor_new_2d (H3Device *device, H3DType dtype, gint64 rows,
    gint64 cols, GError **error);
H3Tensor *h3_tensor_new_3d (H3Device *device, H3DType dtype, gint64 a, gint64 b,
    gint64 c, GError **error);
/* New memory holding @host's bytes, ready when this returns. */
H3Tensor *h3_tensor_new_from_host (H3Device *device, H3DType dtype, guint rank,
    const gint64 *shape, gconstpointer host, GError **error);
H3Tensor *h3_tensor_ref (H3Tensor *tensor);
void h3_tensor_unref (H3Tensor *tensor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Tensor, h3_tensor_unref)

/* Elements. */
gint64 h3_tensor_size (const H3Tensor *tensor);
/* Product of all dimensions but the last; the last dimension. */
gint64 h3_tensor_rows (const H3Tensor *tensor);
gint64 h3_tensor_cols (const H3Tensor *tensor);

/* A tensor of another shape over @parent's memory, @offset elements in. Never
 * fails: asking for memory outside the parent is a programming error. Views of
 * rows are made before a loop, not in it. */
H3Tensor *h3_tensor_view (H3Tensor *parent, gint64 offset, guint rank,
    const gint64 *shape);
/* Rows [first, first + n) of a matrix (all leading dimensions flattened). */
H3Tensor *h3_tensor_view_rows (H3Tensor *parent, gint64 first, gint64 n);

/**
 * H3Encoding:
 *
 * How a weight's bytes stand for numbers. #H3_ENCODING_PLAIN: a float of the
 * tensor's dtype per element. Quantised encodings come with their sidecars;
 * only linear and embedding see them.
 */
typedef enum {
  H3_ENCODING_PLAIN,
} H3Encoding;

/**
 * H3Weight:
 * @tensor: [out, in] for linear and embedding, any shape for the rest
 */
struct _H3Weight {
  gatomicrefcount refcount;
  H3Encoding encoding;
  H3Tensor *tensor; /* owned */
};

/* Takes @tensor's reference. */
H3Weight *h3_weight_new_plain (H3Tensor *tensor);
H3Weight *h3_weight_ref (H3Weight *weight);
void h3_weight_unref (H3Weight *weight);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Weight, h3_weight_unref)

G_END_DECLS
