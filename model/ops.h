/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a device does for H3: memory, streams, and the operations.
 *
 * An operation is put on a stream and may run later; operations of one stream
 * run in order. None allocates device memory that outlives it except for the
 * stream's own scratch, which only grows. None waits for its own result; a device
 * may hold the caller back so far that little is enqueued ahead, for cancelling.
 * They return nothing: the first failure (a shape that does not fit, a launch that
 * failed) stays with the stream, later operations on it do nothing, and
 * h3_stream_check() or h3_stream_synchronize() report it.
 *
 * The shapes named here are checked by the wrappers in ops.c, so a device may
 * rely on them. [S, H] is a matrix of S rows; "rows" of a tensor of higher rank
 * are all its leading dimensions. Unless said otherwise, output and input may
 * not overlap. Arithmetic is float32 inside every operation; results are
 * rounded once to the output's dtype. */
#pragma once

#include "model/error.h"
#include "model/tensor.h"

G_BEGIN_DECLS

typedef enum {
  H3_ACTIVATION_NONE,
  H3_ACTIVATION_SILU,      /* x / (1 + e^-x) */
  H3_ACTIVATION_GELU_TANH, /* 0.5 x (1 + tanh (sqrt (2/pi) (x + 0.044715 x^3))) */
  H3_ACTIVATION_GELU_ERF, /* 0.5 x (1 + erf (x / sqrt 2)) */
} H3Activation;

/**
 * H3LinearArgs: y = act (x Wᵀ + b), or y += x Wᵀ + b when @accumulate
 * @y: [M, N]
 * @x: [M, K], may be a view
 * @weight: [N, K], in any encoding the device has. One with a low rank added
 *   (H3Weight.down, up) takes three products, and is rounded to y's type after
 *   the first and the last
 * @bias: [N] or NULL
 * @activation: not together with @accumulate, nor with a low rank
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Weight *weight;
  const H3Tensor *bias;
  H3Activation activation;
  gboolean accumulate;
} H3LinearArgs;

/**
 * H3RmsNormArgs: y = x / sqrt (mean (x²) + eps) * w, then, with a table,
 * y = y * (1 + table[rows[s], scale]) + table[rows[s], shift]
 * @y, @x: [S, H]
 * @weight: [H]
 * @table: NULL, or [R, P * H]: R rows of P parameters of H channels
 * @rows: int32 [S], which table row modulates row s
 * @shift, @scale: parameter numbers, 0 .. P-1 (denoiser.md 3.4: order shift_msa,
 *   scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp)
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Tensor *weight;
  gfloat eps;
  const H3Tensor *table;
  const H3Tensor *rows;
  guint shift, scale;
} H3RmsNormArgs;

/**
 * H3LinearSwigluArgs: h3_linear() and h3_swiglu() in one, rounded where they are:
 *   y = silu (g) * u, [g, u] = x Wᵀ + b
 * @y: [M, F]
 * @x: [M, K]
 * @weight: [2 F, K], in any encoding the device has
 * @bias: [2 F] or NULL
 * @gate_up: [M, 2 F], for devices that do it in two; undefined afterwards
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Weight *weight;
  const H3Tensor *bias;
  H3Tensor *gate_up;
} H3LinearSwigluArgs;

/**
 * H3ResidualNormArgs: h3_scaled_residual() and h3_rms_norm() in one, to the bit:
 *   x = x + branch * scale, then y = x / sqrt (mean (x²) + eps) * w
 * @x, @branch, @y: [S, H]; @y may be @branch
 * @scale, @weight: [H]
 */
typedef struct {
  H3Tensor *x;
  const H3Tensor *branch;
  const H3Tensor *scale;
  H3Tensor *y;
  const H3Tensor *weight;
  gfloat eps;
} H3ResidualNormArgs;

/**
 * H3LayerNormArgs: y = (x - mean) / sqrt (var + eps) * w + b, biased variance
 * @y, @x: [S, H]; @weight, @bias: [H]
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Tensor *weight;
  const H3Tensor *bias;
  gfloat eps;
} H3LayerNormArgs;

/**
 * H3QkNormRopeArgs: in place on the q and k heads of fused rows:
 *   norm:  x = x / sqrt (mean (x²) + eps) * w   over head_dim, w may be NULL (1)
 *   rope:  for i < rot:  (x_i, x_{i+rot}) <- (x_i c_i - x_{i+rot} s_i,
 *                                             x_{i+rot} c_i + x_i s_i)
 * @qkv: [S, (heads + 2 kv_heads) * head_dim]: all q heads, all k, all v
 * @q_norm, @k_norm: [head_dim] or both NULL: the norm without gain
 * @cos, @sin: [P, rot] float32 or both NULL (no rotation); row s takes table
 *   row s mod P, so one table serves a batch of equal sequences. 2 rot <= head_dim
 * @no_norm: rotate only; q_norm and k_norm NULL
 */
typedef struct {
  H3Tensor *qkv;
  guint heads, kv_heads, head_dim;
  const H3Tensor *q_norm, *k_norm;
  gfloat eps;
  const H3Tensor *cos, *sin;
  gboolean no_norm;
} H3QkNormRopeArgs;

/**
 * H3AttentionArgs: per sequence and head, y = softmax (q kᵀ scale) v
 * @y: [S, heads * head_dim]
 * @qkv: as above; q head h reads kv head h / (heads / kv_heads)
 * @n_sequences: S is cut into that many equal, independent sequences
 * @causal: row i sees rows 0 .. i of its sequence
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *qkv;
  guint heads, kv_heads, head_dim;
  guint n_sequences;
  gboolean causal;
  gfloat scale;
} H3AttentionArgs;

/**
 * H3SolverArgs: one step of one stream, all float32, every product and sum
 * rounded on its own (sampling.md 6): with x_in = in_scale * x, the rows the model saw,
 *   D = (x_in + sigma_t * v) * d_scale
 *   x = a * x + b * D + c * D_prev          (c = 0: the last term is left out)
 *   D_prev = D
 * @x: [S, C] the state; @v: [S, C] the velocity; @d_prev: [S, C] or NULL when c = 0
 *   in every step
 */
typedef struct {
  H3Tensor *x;
  const H3Tensor *v;
  H3Tensor *d_prev;
  gfloat in_scale, sigma_t, d_scale, a, b, c;
} H3SolverArgs;

/**
 * H3LatentTileArgs: cut one tile out of a latent as tokens and undo the
 * normalisation: for n = (t * h + i) * w + j
 *   y[n, c] = latent[c, min (t0 + t, T - 1), y0 + i, x0 + j] * std[c] + mean[c]
 * @y: [t * h * w, C]
 * @latent: [C, T, H, W] float32, normalised
 * @mean, @std: [C] float32
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *latent;
  const H3Tensor *mean, *std;
  gint t0, y0, x0, t, h, w;
} H3LatentTileArgs;

/* One axis of the tiling of video-vae.md 8.1, in pixels. */
#define H3_MAX_TILES 512
typedef struct {
  gint length; /* of the whole axis */
  gint tile;   /* of every tile: 256, or length when that is smaller */
  gint n;
  gint start[H3_MAX_TILES];
  gint overlap[H3_MAX_TILES]; /* between tile k and k + 1 */
} H3TileAxis;

typedef enum {
  H3_COMPOSITION_RAW,        /* video-vae.md 8.3, the release's */
  H3_COMPOSITION_COMPOSITED, /* video-vae.md 8.4 */
} H3Composition;

/**
 * H3ComposeTilesArgs: network pixels of one window out of its tiles, or a clip's
 * moments out of the encoder's (C of them, in patches of 1)
 * @y: [C, n_frames, H, W] float32
 * @tiles: [y.n * x.n, S, C * pt * ph * pw] tile-major (y outer), S >= tokens of a
 *   tile; token (t, h, w) holds pixel (c, t * pt + dt, h * ph + dy, w * pw + dx)
 *   at column ((c * pt + dt) * ph + dy) * pw + dx
 * @first_frame: y holds frames first_frame .. of the window
 * @patch_t, @patch: pt, and ph = pw
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *tiles;
  const H3TileAxis *axis_y, *axis_x;
  gint first_frame;
  gint patch_t, patch;
  H3Composition composition;
} H3ComposeTilesArgs;

/**
 * H3BlendFramesArgs: the temporal join of video-vae.md 9.2, for k < n frames
 *   y[:, k] = previous[:, k] * (1 - k / n) + y[:, k] * (k / n)
 * @y: [3, F, H, W]; @previous: [3, n, H, W]
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *previous;
} H3BlendFramesArgs;

/**
 * H3NetworkPixelsArgs: a tile of frames as the encoder sees it, channels last
 * (video-vae.md 4.1), every operation rounded on its own:
 *   y[f, i, j, c] = (rgb[f, y0 + i, x0 + j, c] / 255 - mean[c]) / std[c]
 * @y: [F, h, w, 3] float32
 * @rgb: [F', H, W, 3] uint8, F' >= F
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *rgb;
  gint y0, x0;
  gfloat mean[3], std[3];
} H3NetworkPixelsArgs;

/**
 * H3Conv3dArgs: causal in time, mirrored in space (video-vae.md 5), channels last
 *   y[b, t, i, j, o] = bias[o] + sum_{dt, dy, dx, c} W[o, dt, dy, dx, c]
 *     x[b, t stride_t + dt - (Kt - 1), m (i stride + dy - pad),
 *       m (j stride + dx - pad), c]
 * then y += residual when there is one (may be @y itself). Frames before the
 * first are zero; m mirrors beyond the edges without repeating them: -1 is 1, H
 * is H - 2.
 * @y: [B, (T - 1) / stride_t + 1, H / stride, W / stride, Co]
 * @x: [B, T, H, W, Ci], H and W multiples of @stride
 * @weight: [Co, Kt, K, K, Ci] float32; @bias: [Co]
 * @pad: rows above and columns left of the first; as many follow the last as the
 *   kernel reaches
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Weight *weight;
  const H3Tensor *bias;
  const H3Tensor *residual;
  gint stride_t, stride, pad;
} H3Conv3dArgs;

/**
 * H3GroupNormArgs: y = silu (g), of each frame for itself
 *   g = (x - mean) / sqrt (var + eps) * w[c] + b[c]
 * mean and biased variance over the pixels and the C / groups channels of c's
 * group
 * @y, @x: [..., H, W, C]; @weight, @bias: [C]
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Tensor *weight;
  const H3Tensor *bias;
  gint groups;
  gfloat eps;
} H3GroupNormArgs;

typedef enum {
  /* BT.709 limited range, chroma sited as "mpeg2": on the even columns, midway
   * between two rows */
  H3_PICTURE_NV12,
  H3_PICTURE_I420,
  H3_PICTURE_Y444,
  H3_PICTURE_RGB, /* full range */
  H3_PICTURE_RGBA,
} H3PictureFormat;

typedef enum {
  H3_QUANTIZE_ROUND, /* rint (255 v), ties to even */
  H3_QUANTIZE_TRUNC, /* trunc (255 v) */
} H3Quantize;

/**
 * H3Picture: where a frame goes
 * @plane, @stride: as GstVideoFrame's; host memory unless @on_device
 */
typedef struct {
  H3PictureFormat format;
  gint width, height;
  gpointer plane[3];
  gint stride[3];
  gboolean on_device;
} H3Picture;

/**
 * H3EmitPictureArgs: network pixels to a picture (video-vae.md 4.1, 11):
 *   v = clamp (p * std[c] + mean[c], 0, 1), NaN = 0, then the format's codes.
 * RGB quantises 255 v directly. The YUV formats compute
 *   Y  = 16 + 219 L, L = 0.2126 R + 0.7152 G + 0.0722 B
 *   Cb = 128 + 224 (B - L) / 1.8556,  Cr = 128 + 224 (R - L) / 1.5748
 * in float and quantise that. For 4:2:0, Cb and Cr are filtered before they are
 * quantised: horizontally (1, 2, 1) / 4 about the even column, vertically the
 * mean of the two rows; columns and rows beyond the edge repeat it. An odd
 * width or height rounds the chroma's up.
 * @pixels: [3, F, H, W]; @frame: which of F
 * @mean, @std: of R, G, B
 *
 * A host picture is filled when the stream has been synchronised.
 */
typedef struct {
  H3Picture picture;
  const H3Tensor *pixels;
  gint frame;
  gfloat mean[3], std[3];
  H3Quantize quantize;
} H3EmitPictureArgs;

/**
 * H3Conv1dArgs: (audio-vae.md 4.1)
 *   y[b, o, n] = bias[o] + sum_{c, k} W[o, c, k] x[b, c, n stride - pad + k dilation]
 * zero outside x; then y += residual[b, o, n] when there is one (may be @y itself
 * for y += conv).
 * @y: [B, Co, Lo], Lo = (L + 2 pad - dilation (K - 1) - 1) / stride + 1
 * @x: [B, Ci, L]; @weight: [Co, Ci, K]; @bias: [Co] or NULL
 * Every output element is summed in the same order whatever L and B are.
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Weight *weight;
  const H3Tensor *bias;
  const H3Tensor *residual;
  gint stride, dilation, pad;
} H3Conv1dArgs;

/**
 * H3ConvTranspose1dArgs: (audio-vae.md 4.2) K - stride even, pad = (K - stride) / 2
 *   y[b, o, i stride - pad + k] += W[c, o, k] x[b, c, i]
 * @y: [B, Co, stride * L]; @x: [B, Ci, L]; @weight: [Ci, Co, K]; @bias: [Co]
 * Same promise about the order of sums.
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Weight *weight;
  const H3Tensor *bias;
  gint stride;
} H3ConvTranspose1dArgs;

/**
 * H3SnakeBetaArgs: y = Down (SnakeBeta (Up (x))), audio-vae.md 4.7 to 4.9
 *   s = u + inv_b[c] * sin (a[c] * u)²
 * @y, @x: [B, C, L]
 * @a, @inv_b: [C] float32: exp (alpha), 1 / (exp (beta) + 1e-9)
 * @up_filter, @down_filter: [12] float32
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Tensor *a, *inv_b;
  const H3Tensor *up_filter, *down_filter;
} H3SnakeBetaArgs;

/**
 * H3MixRowsArgs: y[n] += sum_k mix[n, k] * weight[ids[n, k]], the sum in the
 * order of k, then added
 * @y: [N, H]; @weight: [R, H]
 * @ids: int32 [N, K]; @mix: float32 [N, K]
 */
typedef struct {
  H3Tensor *y;
  const H3Weight *weight;
  const H3Tensor *ids, *mix;
} H3MixRowsArgs;

/**
 * H3PicturePatchesArgs: frames as the vision tower reads them
 * (text-encoder.md 4.3): with f = 2 b + s, or the last frame where that is past
 * the end, patches (Y, X) in groups of 2 x 2,
 *   y[b, Y / 2, X / 2, Y mod 2, X mod 2][c, s, i, j] =
 *     (pixels[f, Y patch + i, X patch + j, c] - 127.5) / 127.5
 * @y: [ceil (F / 2) * (H / patch) * (W / patch), 3 * 2 * patch * patch]
 * @pixels: uint8 [F, H, W, 3], H and W multiples of 2 patch
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *pixels;
  gint patch;
} H3PicturePatchesArgs;

/**
 * H3SnakeArgs: y = x + inv_a[c] * sin (a[c] * x)², audio-vae.md 4.4
 * @y, @x: [B, C, L]; may be the same
 * @a, @inv_a: [C] float32: alpha, 1 / (alpha + 1e-9)
 */
typedef struct {
  H3Tensor *y;
  const H3Tensor *x;
  const H3Tensor *a, *inv_a;
} H3SnakeArgs;

/* The device's table. The wrappers below are what the model calls. */
typedef struct {
  /* memory; copies are ordered with the stream and may return before they ran,
   * host memory must stay until the stream was synchronised */
  gpointer (*alloc) (H3Device *device, gsize bytes, GError **error);
  void (*free) (H3Device *device, gpointer data, gsize bytes);
  void (*memory_info) (H3Device *device, guint64 *free_bytes,
      guint64 *total_bytes);
  /* host memory that copies to and from the device run fastest with; only for
   * that, and the host's own when the device has none to offer */
  gpointer (*alloc_host) (H3Device *device, gsize bytes, GError **error);
  void (*free_host) (H3Device *device, gpointer data, gsize bytes);
  H3Stream *(*stream_new) (H3Device *device, GError **error);
  void (*stream_free) (H3Stream *stream);
  gboolean (*stream_synchronize) (H3Stream *stream, GError **error);
  void (*upload) (H3Stream *stream, H3Tensor *dst, gconstpointer src);
  void (*download) (H3Stream *stream, gpointer dst, const H3Tensor *src);
  /* a point of a stream's work that other streams can wait for; all three NULL
   * where an operation has run when its call returns. event_new() gives NULL when
   * it failed, and the stream with it */
  gpointer (*event_new) (H3Stream *stream);
  void (*event_wait) (H3Stream *stream, gpointer event);
  void (*event_free) (H3Device *device, gpointer event);
  void (*finalize) (H3Device *device);

  void (*copy) (H3Stream *, H3Tensor *dst, const H3Tensor *src);
  void (*scale) (H3Stream *, H3Tensor *y, const H3Tensor *x, gfloat factor);
  void (*linear) (H3Stream *, const H3LinearArgs *);
  void (*linear_swiglu) (H3Stream *, const H3LinearSwigluArgs *);
  void (*embedding) (H3Stream *, H3Tensor *y, const H3Weight *weight,
      const H3Tensor *ids);
  void (*quantise_rows) (H3Stream *, H3Tensor *q, H3Tensor *scale,
      const H3Tensor *x);
  void (*scatter_rows) (H3Stream *, H3Tensor *y, const H3Tensor *x,
      const H3Tensor *rows);
  void (*add_rows) (H3Stream *, H3Tensor *y, const H3Tensor *x,
      const H3Tensor *rows);
  void (*mix_rows) (H3Stream *, const H3MixRowsArgs *);
  void (*picture_patches) (H3Stream *, const H3PicturePatchesArgs *);
  void (*rms_norm) (H3Stream *, const H3RmsNormArgs *);
  void (*residual_norm) (H3Stream *, const H3ResidualNormArgs *);
  void (*layer_norm) (H3Stream *, const H3LayerNormArgs *);
  void (*qk_norm_rope) (H3Stream *, const H3QkNormRopeArgs *);
  void (*attention) (H3Stream *, const H3AttentionArgs *);
  void (*swiglu) (H3Stream *, H3Tensor *y, const H3Tensor *gate_up);
  void (*scaled_residual) (H3Stream *, H3Tensor *x, const H3Tensor *branch,
      const H3Tensor *scale);
  void (*gated_residual) (H3Stream *, H3Tensor *x, const H3Tensor *branch,
      const H3Tensor *table, const H3Tensor *rows, guint gate);
  void (*solver_step) (H3Stream *, const H3SolverArgs *);
  void (*latent_tile) (H3Stream *, const H3LatentTileArgs *);
  void (*compose_tiles) (H3Stream *, const H3ComposeTilesArgs *);
  void (*blend_frames) (H3Stream *, const H3BlendFramesArgs *);
  void (*emit_picture) (H3Stream *, const H3EmitPictureArgs *);
  void (*conv1d) (H3Stream *, const H3Conv1dArgs *);
  void (*conv_transpose1d) (H3Stream *, const H3ConvTranspose1dArgs *);
  void (*snake_beta) (H3Stream *, const H3SnakeBetaArgs *);
  void (*snake) (H3Stream *, const H3SnakeArgs *);
  void (*multiply) (H3Stream *, H3Tensor *y, const H3Tensor *x);
  void (*network_pixels) (H3Stream *, const H3NetworkPixelsArgs *);
  void (*conv3d) (H3Stream *, const H3Conv3dArgs *);
  void (*group_norm_silu) (H3Stream *, const H3GroupNormArgs *);
  void (*mean3) (H3Stream *, H3Tensor *y, const H3Tensor *a, const H3Tensor *b,
      const H3Tensor *c);
  void (*interleave_clamp) (H3Stream *, H3Tensor *y, const H3Tensor *x);
  /* patchify.c's four layouts: packing.md 3 */
  void (*video_rows_to_latent) (H3Stream *, H3Tensor *latent,
      const H3Tensor *rows);
  void (*audio_rows_to_latent) (H3Stream *, H3Tensor *latent,
      const H3Tensor *rows);
  void (*count_nonfinite) (H3Stream *, H3Tensor *count, const H3Tensor *x);
} H3DeviceOps;

/**
 * H3Device:
 * @act_dtype: what activations of the text encoder and transformer are stored
 *   in (CPU float32, CUDA bfloat16)
 * @vae_dtype: operands of the video decoder's products (CPU float32, CUDA
 *   float16); its residual stream is float32 everywhere
 * @host_memory: tensor data can be read by the CPU as it is
 * @encodings: of weights that linear and embedding take beside plain ones, a bit
 *   1 << #H3Encoding for each
 * @decoded: bytes, at most, of an encoded weight's numbers that a stream has in
 *   memory; 0: none, it reads them where it multiplies
 * @failure: (nullable): why it can compute nothing more, set once, atomically;
 *   see h3_device_check()
 */
struct _H3Device {
  gatomicrefcount refcount;
  const H3DeviceOps *ops;
  gchar *name;  /* "cpu (2 threads, avx2)", "cuda:0 NVIDIA H200" */
  gint ordinal; /* -1: host */
  H3DType act_dtype, vae_dtype;
  gboolean host_memory;
  guint encodings;
  gsize decoded;
  gchar *failure;
};

/* What every device's stream begins with. */
struct _H3Stream {
  H3Device *device;   /* owned */
  GError *error;      /* the first failure, or NULL; owned */
  const H3Stop *stop; /* h3_stream_set_stop() */
  H3Tensor *low;      /* h3_stream_reserve_low_rank(); owned */
};

H3Device *h3_device_ref (H3Device *device);
void h3_device_unref (H3Device *device);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Device, h3_device_unref)
/* What products with encoded weights of up to @elements take, in a stream's
 * scratch. */
guint64 h3_device_decode_bytes (const H3Device *device, guint64 elements);
/* For devices: after @why nothing works on it until the process ends. */
void h3_device_fail (H3Device *device, const gchar *why);
/* FALSE with H3_ERROR_DEVICE, which says to restart the process, when it has
 * failed for good. Jobs ask before they begin. */
gboolean h3_device_check (H3Device *device, GError **error);

/* A stream is used by one thread at a time. */
H3Stream *h3_stream_new (H3Device *device, GError **error);
void h3_stream_free (H3Stream *stream);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Stream, h3_stream_free)
/* Waits for everything on the stream. FALSE with the first failure; the stream
 * is then usable again. */
gboolean h3_stream_synchronize (H3Stream *stream, GError **error);
/* The same without waiting: failures known so far, and usable again too. */
gboolean h3_stream_check (H3Stream *stream, GError **error);
/**
 * h3_stream_set_stop:
 * @stop: (nullable): stays the caller's, and valid until another one is set
 *
 * Lets a device end in the middle of an operation, which takes minutes for a
 * large clip on a CPU: once @stop asks, what is left of the work on the stream
 * may be skipped, and the stream fails with H3_ERROR_CANCELLED. @stop is then
 * asked from any thread, and once it asked to stop must do so until another is
 * set. Forgets an earlier failure.
 */
void h3_stream_set_stop (H3Stream *stream, const H3Stop *stop);
/**
 * h3_stream_reserve_low_rank:
 * @elements: of the device's activation type
 *
 * Memory of the stream's for x downᵀ of weights with a low rank, which linear
 * allocates itself where it has less: at most rows of x * rank. FALSE with
 * H3_ERROR_NO_SPACE.
 */
gboolean h3_stream_reserve_low_rank (H3Stream *stream, gint64 elements,
    GError **error);
/**
 * h3_stream_record:
 * @event: what marks the end of the work put on @stream so far, for
 *   h3_stream_wait(); NULL when that has run. Free with h3_event_free().
 *
 * FALSE with the stream's failure when there is one.
 */
gboolean h3_stream_record (H3Stream *stream, gpointer *event, GError **error);
/* What is put on @stream from now on runs after @event, which may be another
 * stream's, and NULL. The host does not wait. */
void h3_stream_wait (H3Stream *stream, gpointer event);
void h3_event_free (H3Device *device, gpointer event);
/* For devices and wrappers: keep @code and the message when it is the first. */
void h3_stream_fail (H3Stream *stream, H3Error code, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* dst's bytes <- src; src <- dst. Host memory must stay until synchronised. */
void h3_upload (H3Stream *stream, H3Tensor *dst, gconstpointer src);
void h3_download (H3Stream *stream, gpointer dst, const H3Tensor *src);
/* dst = src, same shape; dtypes may differ (converts). */
void h3_copy (H3Stream *stream, H3Tensor *dst, const H3Tensor *src);
/* y = factor * x, float32. y may be x. */
void h3_scale (H3Stream *stream, H3Tensor *y, const H3Tensor *x, gfloat factor);
void h3_linear (H3Stream *stream, const H3LinearArgs *args);
void h3_linear_swiglu (H3Stream *stream, const H3LinearSwigluArgs *args);
/**
 * h3_quantise_rows:
 * @q: uint8 [N, K], E4M3 codes
 * @scale: float32 [N]
 * @x: [N, K]
 *
 * Floats as what #H3_ENCODING_E4M3 makes of them: for each row a = the largest
 * |x|, at least #H3_QUANTISED_LEAST, scale = a / 448, q = E4M3 (x * (448 / a)),
 * each operation rounded once, q to nearest, ties to even, and to 448 at most. A
 * row with NaN or Inf gets a scale that is NaN or Inf.
 */
#define H3_QUANTISED_LEAST 1e-30f
void h3_quantise_rows (H3Stream *stream, H3Tensor *q, H3Tensor *scale,
    const H3Tensor *x);
/* y [N, H] = weight[ids[n]], in any encoding the device has; ids int32 [N] */
void h3_embedding (H3Stream *stream, H3Tensor *y, const H3Weight *weight,
    const H3Tensor *ids);
/* y[rows[i]] = x[i]; rows int32 */
void h3_scatter_rows (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows);
/* y[rows[i]] += x[i]; rows int32, no two the same */
void h3_add_rows (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows);
void h3_mix_rows (H3Stream *stream, const H3MixRowsArgs *args);
void h3_picture_patches (H3Stream *stream, const H3PicturePatchesArgs *args);
void h3_rms_norm (H3Stream *stream, const H3RmsNormArgs *args);
void h3_residual_norm (H3Stream *stream, const H3ResidualNormArgs *args);
void h3_layer_norm (H3Stream *stream, const H3LayerNormArgs *args);
void h3_qk_norm_rope (H3Stream *stream, const H3QkNormRopeArgs *args);
void h3_attention (H3Stream *stream, const H3AttentionArgs *args);
/* gate_up [S, 2F] = [gate, up]; y [S, F] = silu (gate) * up */
void h3_swiglu (H3Stream *stream, H3Tensor *y, const H3Tensor *gate_up);
/* x [S, H] += branch * scale[H] */
void h3_scaled_residual (H3Stream *stream, H3Tensor *x, const H3Tensor *branch,
    const H3Tensor *scale);
/* x [S, H] += table[rows[s], gate] * branch; table [R, P * H] as in rms_norm */
void h3_gated_residual (H3Stream *stream, H3Tensor *x, const H3Tensor *branch,
    const H3Tensor *table, const H3Tensor *rows, guint gate);
void h3_solver_step (H3Stream *stream, const H3SolverArgs *args);
void h3_latent_tile (H3Stream *stream, const H3LatentTileArgs *args);
void h3_compose_tiles (H3Stream *stream, const H3ComposeTilesArgs *args);
void h3_blend_frames (H3Stream *stream, const H3BlendFramesArgs *args);
void h3_emit_picture (H3Stream *stream, const H3EmitPictureArgs *args);
void h3_conv1d (H3Stream *stream, const H3Conv1dArgs *args);
void h3_conv_transpose1d (H3Stream *stream, const H3ConvTranspose1dArgs *args);
void h3_snake_beta (H3Stream *stream, const H3SnakeBetaArgs *args);
/* The encoders' (ops-encode.c). */
void h3_snake (H3Stream *stream, const H3SnakeArgs *args);
/* y *= x, float32 */
void h3_multiply (H3Stream *stream, H3Tensor *y, const H3Tensor *x);
void h3_network_pixels (H3Stream *stream, const H3NetworkPixelsArgs *args);
void h3_conv3d (H3Stream *stream, const H3Conv3dArgs *args);
void h3_group_norm_silu (H3Stream *stream, const H3GroupNormArgs *args);
/* y = ((a + b) + c) / 3, or (a + b) / 2 when c is NULL; y may be a, b or c */
void h3_mean3 (H3Stream *stream, H3Tensor *y, const H3Tensor *a,
    const H3Tensor *b, const H3Tensor *c);
/* y [L, B] = clamp (x [B, 1, L], -1, 1) interleaved; NaN stays NaN */
void h3_interleave_clamp (H3Stream *stream, H3Tensor *y, const H3Tensor *x);
/* latent [C, T, h, w] float32 <- rows [T h/2 w/2, 4 C]: column c 4 + dy 2 + dx */
void h3_video_rows_to_latent (H3Stream *stream, H3Tensor *latent,
    const H3Tensor *rows);
/* latent [2, C, T] <- rows [2 T, C], channel-major */
void h3_audio_rows_to_latent (H3Stream *stream, H3Tensor *latent,
    const H3Tensor *rows);
/* count int32 [1] <- how many elements of x are NaN or Inf */
void h3_count_nonfinite (H3Stream *stream, H3Tensor *count, const H3Tensor *x);

G_END_DECLS
