/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The launchers of the kernels, for the host code in C. Each puts one operation
 * of model/ops.h on a stream; shapes are checked already (model/ops.c). They
 * return what the launch returned. */
#pragma once

#include <cuda_runtime_api.h>

#include "model/ops.h"

G_BEGIN_DECLS

typedef struct CUstream_st *H3CudaStreamHandle;

/* FALSE when this build has no kernels for the current device (-Dgpu_archs). */
gboolean h3_cuda_has_kernels (void);
/* dst[i] = src[i] in dst's type; scale: times @factor */
cudaError_t h3_cuda_convert (H3CudaStreamHandle stream, H3DType dst_type,
    gpointer dst, H3DType src_type, gconstpointer src, gint64 n, gfloat factor);
/* The pieces of float32 rows whose product is theirs (elementwise.cu):
 * @pieces: bfloat16 [rows, H3_CUDA_PIECES * cols] */
#define H3_CUDA_PIECES 6
cudaError_t h3_cuda_split (H3CudaStreamHandle stream, gpointer pieces,
    gconstpointer x, gint64 rows, gint64 cols, gboolean weight);
cudaError_t h3_cuda_embedding (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *weight, const H3Tensor *ids, gint32 *bad_row);
cudaError_t h3_cuda_scatter_rows (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *x, const H3Tensor *rows, gint32 *bad_row);
cudaError_t h3_cuda_add_rows (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *x, const H3Tensor *rows, gint32 *bad_row);
cudaError_t h3_cuda_mix_rows (H3CudaStreamHandle stream,
    const H3MixRowsArgs *args, gint32 *bad_row);
cudaError_t h3_cuda_picture_patches (H3CudaStreamHandle stream,
    const H3PicturePatchesArgs *args);
cudaError_t h3_cuda_rms_norm (H3CudaStreamHandle stream,
    const H3RmsNormArgs *args);
cudaError_t h3_cuda_residual_norm (H3CudaStreamHandle stream,
    const H3ResidualNormArgs *args);
cudaError_t h3_cuda_layer_norm (H3CudaStreamHandle stream,
    const H3LayerNormArgs *args);
cudaError_t h3_cuda_qk_norm_rope (H3CudaStreamHandle stream,
    const H3QkNormRopeArgs *args);
/* 16-bit types, heads of 16, 32, 64, 72 or 128; cudaErrorNotSupported
 * otherwise. */
cudaError_t h3_cuda_attention_mma (H3CudaStreamHandle stream,
    const H3AttentionArgs *args);
/* Hopper only: 16-bit types, heads of 64 or 128; cudaErrorNotSupported
 * otherwise. */
cudaError_t h3_cuda_attention_sm90 (H3CudaStreamHandle stream,
    const H3AttentionArgs *args);
/* Any head size up to 256 and type, slowly. */
cudaError_t h3_cuda_attention_any (H3CudaStreamHandle stream,
    const H3AttentionArgs *args);
/* Hopper only: 16-bit types, enough rows to fill tiles; cudaErrorNotSupported
 * otherwise. */
cudaError_t h3_cuda_linear_swiglu_sm90 (H3CudaStreamHandle stream,
    const H3LinearSwigluArgs *args);

/**
 * H3CudaBytes: a product of bytes, with a scale for each row of x and of w:
 *   y[m, n] (+)= sum_k (x[m, k] w[n, k]) * (x_scale[m] * w_scale[n]) + bias[n]
 * @encoding: of x and w: #H3_ENCODING_E4M3 or #H3_ENCODING_INT8
 * @x: [rows, depth]; @w: [cols, depth], with @swiglu [2 cols, depth]
 * @x_scale: [rows]; @w_scale, @bias: as many as w has rows; bias may be NULL
 * @y: [rows, cols] of @y_type, bfloat16 or float32
 * @swiglu: y = silu (g) * u, of the first cols columns and the others
 */
typedef struct {
  H3Encoding encoding;
  gint64 rows, cols, depth;
  const guint8 *x, *w;
  const gfloat *x_scale, *w_scale, *bias;
  gpointer y;
  H3DType y_type;
  gboolean accumulate, swiglu;
} H3CudaBytes;

/* Hopper only: cols a multiple of 8, depth of 16; cudaErrorNotSupported
 * otherwise. */
cudaError_t h3_cuda_linear_bytes_sm90 (H3CudaStreamHandle stream,
    const H3CudaBytes *args);
/* The same question, whatever x is. */
gboolean h3_cuda_can_linear_bytes_sm90 (const H3CudaBytes *args);
/* y of @sums, int32 or float32 [rows, cols], any float type, without swiglu. */
cudaError_t h3_cuda_scale_sums (H3CudaStreamHandle stream,
    const H3CudaBytes *args, gconstpointer sums);
/* The most of columns, a multiple of 8, and of rotation. */
#define H3_CUDA_QUANTISED_COLS 32768
#define H3_CUDA_ROTATED_COLS 256
/**
 * h3_cuda_quantise:
 * @x: [rows, cols], floats; times @factor [cols], which may be NULL, and each
 *   run of @rotation columns rotated, then taken to bytes of @encoding:
 *   h3_quantise_rows()
 *
 * A row with NaN or Inf gets a scale that is NaN or Inf.
 */
cudaError_t h3_cuda_quantise (H3CudaStreamHandle stream, H3Encoding encoding,
    guint8 *q, gfloat *scale, H3DType x_type, gconstpointer x, gint64 rows,
    gint64 cols, const gfloat *factor, guint rotation);
cudaError_t h3_cuda_swiglu (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *gate_up);
cudaError_t h3_cuda_scaled_residual (H3CudaStreamHandle stream, H3Tensor *x,
    const H3Tensor *branch, const H3Tensor *scale);
cudaError_t h3_cuda_gated_residual (H3CudaStreamHandle stream, H3Tensor *x,
    const H3Tensor *branch, const H3Tensor *table, const H3Tensor *rows,
    guint gate);
/* y = act (x + bias), for products whose library epilogue cannot
 * @y_stride: elements from row to row of y
 * @bias: [cols] or NULL */
cudaError_t h3_cuda_bias_act (H3CudaStreamHandle stream, H3DType y_type,
    gpointer y, gint64 y_stride, H3DType x_type, gconstpointer x,
    const gfloat *bias, gint64 rows, gint64 cols, H3Activation activation);
/* Rows of an encoded or plain weight, not of a stacked one (decode.cu):
 * @y: [n, weight->cols] of @y_type
 * @first: row i of y is the weight's row first + i, where @ids is NULL
 * @ids: int32 [n] or NULL: row i of y is row ids[i] - first; rows that the
 *   weight does not have are left alone */
cudaError_t h3_cuda_decode (H3CudaStreamHandle stream, H3DType y_type,
    gpointer y, const H3Weight *weight, gint64 first, const gint32 *ids,
    gint64 n);
/* Whether tensor cores multiply FP4. */
gboolean h3_cuda_has_fp4 (void);
/* Scales of rows of @cols columns, 16 to a scale, where tensor cores look for
 * them: tiles of 128 rows by 4 (checkpoints.md 5.2), filled up with 0. */
static inline gint64
h3_cuda_fp4_scale_cols (gint64 cols)
{
  return (cols / 16 + 3) / 4 * 4;
}
static inline gsize
h3_cuda_fp4_scale_bytes (gint64 rows, gint64 cols)
{
  return (rows + 127) / 128 * 128 * h3_cuda_fp4_scale_cols (cols);
}
/**
 * h3_cuda_fp4_quantise:
 * @q: [rows, cols / 2], the even column in the high nibble; @scales: tiled
 * @row_scale: [rows]: x = row_scale * scale * code
 * @x: [rows, cols], cols a multiple of 32; times @factor [cols], which may be
 *   NULL
 * @input_scale: the row's scale; 0: the row's largest / 2688
 */
cudaError_t h3_cuda_fp4_quantise (H3CudaStreamHandle stream, guint8 *q,
    guint8 *scales, gfloat *row_scale, H3DType x_type, gconstpointer x,
    gint64 rows, gint64 cols, const gfloat *factor, gfloat input_scale);
/* @tiled from @scales [rows, cols / 16] */
cudaError_t h3_cuda_fp4_tile (H3CudaStreamHandle stream, guint8 *tiled,
    const guint8 *scales, gint64 rows, gint64 cols);
/* y[m, n] (+)= sums[m, n] * x_scale[m] * w_scale[n] + bias[n] */
cudaError_t h3_cuda_fp4_finish (H3CudaStreamHandle stream, H3DType y_type,
    gpointer y, gint64 y_stride, const gfloat *sums, const gfloat *x_scale,
    const gfloat *w_scale, const gfloat *bias, gint64 rows, gint64 cols,
    gboolean add);
/* Raises @bad_row when one of @n numbers is not in 0 .. rows - 1. */
cudaError_t h3_cuda_check_rows (H3CudaStreamHandle stream, const gint32 *ids,
    gint64 n, gint64 rows, gint32 *bad_row);
cudaError_t h3_cuda_solver_step (H3CudaStreamHandle stream,
    const H3SolverArgs *args);
cudaError_t h3_cuda_latent_tile (H3CudaStreamHandle stream,
    const H3LatentTileArgs *args);
cudaError_t h3_cuda_compose_tiles (H3CudaStreamHandle stream,
    const H3ComposeTilesArgs *args);
cudaError_t h3_cuda_blend_frames (H3CudaStreamHandle stream,
    const H3BlendFramesArgs *args);
/* @plane: device addresses, strides as in args->picture */
cudaError_t h3_cuda_emit_picture (H3CudaStreamHandle stream,
    const H3EmitPictureArgs *args, guint8 *const plane[3],
    const gint stride[3]);
/* @weight: float32 of args->weight's shape */
cudaError_t h3_cuda_conv1d (H3CudaStreamHandle stream, const H3Conv1dArgs *args,
    const gfloat *weight);
cudaError_t h3_cuda_conv_transpose1d (H3CudaStreamHandle stream,
    const H3ConvTranspose1dArgs *args, const gfloat *weight);
cudaError_t h3_cuda_snake_beta (H3CudaStreamHandle stream,
    const H3SnakeBetaArgs *args);
cudaError_t h3_cuda_snake (H3CudaStreamHandle stream, const H3SnakeArgs *args);
cudaError_t h3_cuda_multiply (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *x);
cudaError_t h3_cuda_network_pixels (H3CudaStreamHandle stream,
    const H3NetworkPixelsArgs *args);
/* Hopper only: 48 channels and more; cudaErrorNotSupported otherwise.
 * @scratch: as many bytes as the former says, 0 when it is not for this kernel */
gsize h3_cuda_conv3d_sm90_scratch (const H3Conv3dArgs *args);
cudaError_t h3_cuda_conv3d_sm90 (H3CudaStreamHandle stream,
    const H3Conv3dArgs *args, gpointer scratch);
/* Any convolution; TF32's tensor cores where channels come in 32s. */
cudaError_t h3_cuda_conv3d_any (H3CudaStreamHandle stream,
    const H3Conv3dArgs *args);
/* @scratch: as many bytes as the former says */
gsize h3_cuda_group_norm_scratch (const H3GroupNormArgs *args);
cudaError_t h3_cuda_group_norm_silu (H3CudaStreamHandle stream,
    const H3GroupNormArgs *args, gpointer scratch);
cudaError_t h3_cuda_mean (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *a, const H3Tensor *b, const H3Tensor *c);
cudaError_t h3_cuda_interleave_clamp (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *x);
cudaError_t h3_cuda_video_rows_to_latent (H3CudaStreamHandle stream,
    H3Tensor *latent, const H3Tensor *rows);
cudaError_t h3_cuda_audio_rows_to_latent (H3CudaStreamHandle stream,
    H3Tensor *latent, const H3Tensor *rows);
cudaError_t h3_cuda_count_nonfinite (H3CudaStreamHandle stream, H3Tensor *count,
    const H3Tensor *x);

G_END_DECLS
