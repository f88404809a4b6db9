/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the CPU device share. Every operation's file is compiled
 * once per instruction set; names get the set's suffix. */
#pragma once

#include "cpu/pool.h"
#include "model/ops.h"

G_BEGIN_DECLS

#ifdef H3_ISA_SUFFIX
#define H3_ISA_JOIN_(name, suffix) name##_##suffix
#define H3_ISA_JOIN(name, suffix) H3_ISA_JOIN_ (name, suffix)
#define H3_ISA(name) H3_ISA_JOIN (name, H3_ISA_SUFFIX)
#endif

typedef struct {
  H3Device device;
  guint workers; /* threads beside the caller's */
} H3CpuDevice;

typedef struct {
  H3Stream stream;
  H3CpuScratch scratch; /* of the thread that uses the stream */
} H3CpuStream;

/* The whole tables, one per instruction set (table.c). */
extern const H3DeviceOps h3_cpu_ops_baseline;
extern const H3DeviceOps h3_cpu_ops_avx2;

/* Memory and streams (device.c), the same for every instruction set. */
gpointer h3_cpu_alloc (H3Device *device, gsize bytes, GError **error);
void h3_cpu_free (H3Device *device, gpointer data, gsize bytes);
void h3_cpu_device_memory_info (H3Device *device, guint64 *free_bytes,
    guint64 *total_bytes);
H3Stream *h3_cpu_stream_new (H3Device *device, GError **error);
void h3_cpu_stream_free (H3Stream *stream);
gboolean h3_cpu_stream_synchronize (H3Stream *stream, GError **error);
void h3_cpu_upload (H3Stream *stream, H3Tensor *dst, gconstpointer src);
void h3_cpu_download (H3Stream *stream, gpointer dst, const H3Tensor *src);
void h3_cpu_finalize (H3Device *device);

/* The parallel for of operations. The cut into tasks must not depend on the
 * number of threads; no memory for scratch is the stream's failure. */
void h3_cpu_for (H3Stream *stream, gint64 n, gsize scratch_bytes,
    H3CpuTask task, gconstpointer data);
/* FALSE, and the stream fails, when one of @rows is not in 0 .. @limit - 1. */
gboolean h3_cpu_rows_inside (H3Stream *stream, const gchar *op,
    const H3Tensor *rows, gint64 limit);

/* Elements a task should have at least, so that waking a thread pays. */
#define H3_CPU_GRAIN 16384

/* Rows per task for rows of @cols elements. */
static inline gint64
h3_cpu_row_grain (gint64 cols)
{
  return MAX (1, H3_CPU_GRAIN / MAX (cols, 1));
}

static inline gint64
h3_cpu_ceil_div (gint64 a, gint64 b)
{
  return a / b + (a % b != 0);
}

#ifdef H3_ISA_SUFFIX
void H3_ISA (h3_cpu_copy) (H3Stream *, H3Tensor *, const H3Tensor *);
void H3_ISA (h3_cpu_scale) (H3Stream *, H3Tensor *, const H3Tensor *, gfloat);
void H3_ISA (h3_cpu_linear) (H3Stream *, const H3LinearArgs *);
void H3_ISA (h3_cpu_linear_swiglu) (H3Stream *, const H3LinearSwigluArgs *);
void H3_ISA (h3_cpu_embedding) (H3Stream *, H3Tensor *, const H3Weight *,
    const H3Tensor *);
void H3_ISA (h3_cpu_quantise_rows) (H3Stream *, H3Tensor *, H3Tensor *,
    const H3Tensor *);
void H3_ISA (h3_cpu_scatter_rows) (H3Stream *, H3Tensor *, const H3Tensor *,
    const H3Tensor *);
void H3_ISA (h3_cpu_add_rows) (H3Stream *, H3Tensor *, const H3Tensor *,
    const H3Tensor *);
void H3_ISA (h3_cpu_mix_rows) (H3Stream *, const H3MixRowsArgs *);
void H3_ISA (h3_cpu_picture_patches) (H3Stream *, const H3PicturePatchesArgs *);
void H3_ISA (h3_cpu_rms_norm) (H3Stream *, const H3RmsNormArgs *);
void H3_ISA (h3_cpu_residual_norm) (H3Stream *, const H3ResidualNormArgs *);
void H3_ISA (h3_cpu_layer_norm) (H3Stream *, const H3LayerNormArgs *);
void H3_ISA (h3_cpu_qk_norm_rope) (H3Stream *, const H3QkNormRopeArgs *);
void H3_ISA (h3_cpu_attention) (H3Stream *, const H3AttentionArgs *);
void H3_ISA (h3_cpu_swiglu) (H3Stream *, H3Tensor *, const H3Tensor *);
void H3_ISA (h3_cpu_scaled_residual) (H3Stream *, H3Tensor *, const H3Tensor *,
    const H3Tensor *);
void H3_ISA (h3_cpu_gated_residual) (H3Stream *, H3Tensor *, const H3Tensor *,
    const H3Tensor *, const H3Tensor *, guint);
void H3_ISA (h3_cpu_solver_step) (H3Stream *, const H3SolverArgs *);
void H3_ISA (h3_cpu_latent_tile) (H3Stream *, const H3LatentTileArgs *);
void H3_ISA (h3_cpu_compose_tiles) (H3Stream *, const H3ComposeTilesArgs *);
void H3_ISA (h3_cpu_blend_frames) (H3Stream *, const H3BlendFramesArgs *);
void H3_ISA (h3_cpu_emit_picture) (H3Stream *, const H3EmitPictureArgs *);
void H3_ISA (h3_cpu_conv1d) (H3Stream *, const H3Conv1dArgs *);
void H3_ISA (
    h3_cpu_conv_transpose1d) (H3Stream *, const H3ConvTranspose1dArgs *);
void H3_ISA (h3_cpu_snake_beta) (H3Stream *, const H3SnakeBetaArgs *);
void H3_ISA (h3_cpu_snake) (H3Stream *, const H3SnakeArgs *);
void H3_ISA (h3_cpu_multiply) (H3Stream *, H3Tensor *, const H3Tensor *);
void H3_ISA (h3_cpu_network_pixels) (H3Stream *, const H3NetworkPixelsArgs *);
void H3_ISA (h3_cpu_conv3d) (H3Stream *, const H3Conv3dArgs *);
void H3_ISA (h3_cpu_group_norm_silu) (H3Stream *, const H3GroupNormArgs *);
void H3_ISA (h3_cpu_mean3) (H3Stream *, H3Tensor *, const H3Tensor *,
    const H3Tensor *, const H3Tensor *);
void H3_ISA (
    h3_cpu_interleave_clamp) (H3Stream *, H3Tensor *, const H3Tensor *);
void H3_ISA (
    h3_cpu_video_rows_to_latent) (H3Stream *, H3Tensor *, const H3Tensor *);
void H3_ISA (
    h3_cpu_audio_rows_to_latent) (H3Stream *, H3Tensor *, const H3Tensor *);
void H3_ISA (h3_cpu_count_nonfinite) (H3Stream *, H3Tensor *, const H3Tensor *);
#endif

G_END_DECLS
