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
 * H3Encoding: how a weight's bytes stand for numbers, w[n, k] of row n
 *
 * #H3_ENCODING_PLAIN: a float of the tensor's dtype per element. The others are
 * rows of bytes, uint8 [rows, h3_encoding_row_bytes()], and only linear and
 * embedding take them (checkpoints.md 4.2, 5):
 *
 * #H3_ENCODING_E4M3, #H3_ENCODING_E5M2: F8 (q[n, k]) * scale[n]
 * #H3_ENCODING_INT8: q is signed, H_G the regular Hadamard matrix of order G =
 *   @rotation (G = 1: no rotation), on each run of G columns:
 *   w[n, g G + j] = scale[n] * sum_i q[n, g G + i] H_G[i, j]
 * #H3_ENCODING_NVFP4: two codes a byte, the even column in the high nibble:
 *   E2M1 (q[n, k]) * E4M3 (block_scale[n, k / 16]) * scale[n]
 * #H3_ENCODING_MXFP8: E4M3 (q[n, k]) * 2^(block_scale[n, k / 32] - 127), and 0
 *   where block_scale is 0
 *
 * From #H3_ENCODING_Q4_0 on: GGUF's blocks, which have all in their bytes
 * (checkpoints.md 6.3, model/blocks.h)
 *
 * #H3_ENCODING_STACKED: two or three weights of as many columns, plain matrices or
 * encoded, whose rows follow each other
 */
typedef enum {
  H3_ENCODING_PLAIN,
  H3_ENCODING_E4M3,
  H3_ENCODING_E5M2,
  H3_ENCODING_INT8,
  H3_ENCODING_NVFP4,
  H3_ENCODING_MXFP8,
  H3_ENCODING_Q4_0,
  H3_ENCODING_Q4_1,
  H3_ENCODING_Q5_0,
  H3_ENCODING_Q5_1,
  H3_ENCODING_Q8_0,
  H3_ENCODING_Q2_K,
  H3_ENCODING_Q3_K,
  H3_ENCODING_Q4_K,
  H3_ENCODING_Q5_K,
  H3_ENCODING_Q6_K,
  H3_ENCODING_IQ4_NL,
  H3_ENCODING_IQ4_XS,
  H3_ENCODING_MXFP4,
  H3_ENCODING_GGUF_NVFP4,
  H3_ENCODING_STACKED,
} H3Encoding;

/**
 * H3EncodingInfo:
 * @block, @block_bytes: so many columns of a row take so many bytes; a row's last
 *   block is whole
 * @scale: the weight has a scale for each row
 * @scale_block: the weight has a block_scale for as many columns; 0: none
 */
typedef struct {
  const gchar *name; /* as ComfyUI's markers say it where they do */
  guint block, block_bytes;
  gboolean scale;
  guint scale_block;
} H3EncodingInfo;

const H3EncodingInfo *h3_encoding_info (H3Encoding encoding);
/* The last of them and one. */
#define H3_N_ENCODINGS (H3_ENCODING_STACKED + 1)

/**
 * H3Weight:
 * @rows, @cols: of the numbers, [out, in] for linear and embedding
 * @tensor: #H3_ENCODING_PLAIN: the numbers, [out, in] for linear and embedding,
 *   any shape for the rest; else their bytes
 * @scale: float32 [rows], or NULL where the encoding has none
 * @block_scale: uint8 [rows, ceil (cols / scale_block)] or NULL
 * @column_scale: (nullable): float32 [cols]: w[n, k] is multiplied by
 *   column_scale[k] (pre_quant_scale); not of plain weights
 * @input_scale: of the layer's inputs, as the file has it, for devices that round
 *   these, too (x is about input_scale times a number of the format); of parts
 *   the largest; 0: the file has none
 * @full_precision: inputs are not to be rounded to the weight's format
 *   (full_precision_matrix_mult): the product is that of the decoded numbers
 * @down, @up: (nullable): [rank, cols] and [rows, rank], together: what linear
 *   adds to the numbers above, x downᵀ upᵀ (denoiser.md 8.1), in any encoding
 * @parts: (nullable): of #H3_ENCODING_STACKED, which has nothing else
 * @rotation: a power of 4 that divides cols, at most #H3_MAX_ROTATION; 1: none
 */
struct _H3Weight {
  gatomicrefcount refcount;
  H3Encoding encoding;
  gint64 rows, cols;
  H3Tensor *tensor;       /* owned */
  H3Tensor *scale;        /* owned */
  H3Tensor *block_scale;  /* owned */
  H3Tensor *column_scale; /* owned */
  H3Weight *down, *up;    /* owned; plain */
  H3Weight *parts[3];     /* owned; NULL after the last */
  guint rotation;
  gfloat input_scale;
  gboolean full_precision;
};

#define H3_MAX_ROTATION 1024

/* Takes @tensor's reference. */
H3Weight *h3_weight_new_plain (H3Tensor *tensor);
/* [@rows, @cols] in @encoding, without tensors: to be given before anybody else
 * has it. */
H3Weight *h3_weight_new_encoded (H3Encoding encoding, gint64 rows, gint64 cols);
/* Takes @parts' references: matrices, none of them stacked. */
H3Weight *h3_weight_new_stacked (H3Weight *const *parts, guint n);
/* Bytes of a row of @cols columns; not for #H3_ENCODING_PLAIN. */
gint64 h3_encoding_row_bytes (H3Encoding encoding, gint64 cols);
H3Weight *h3_weight_ref (H3Weight *weight);
void h3_weight_unref (H3Weight *weight);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Weight, h3_weight_unref)

G_END_DECLS
