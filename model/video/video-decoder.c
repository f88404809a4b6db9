/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Decoding a clip window by window, a window tile by tile (video-vae.md 6 to
 * 9, 12).
 *
 * A clip's tiles all have the same size, so a batch of them runs through the
 * network as equal sequences of S = N + 5 rows: N patches, then the registers
 * and the zero token. The patches' two input projections run over all rows of
 * the batch at once, suffix included, and one scatter then puts the suffix
 * where it belongs: the few wasted rows cost less than a product per tile
 * would, and a batch is the same few launches whatever it holds. The output
 * projection likewise runs over all rows, into the place compose_tiles
 * gathers from.
 *
 * A window of many tiles is several batches. Where one has too few to fill a
 * GPU, a group of consecutive windows is one batch: the first window of a group
 * runs the network for all of them, then each is composed when it is asked for.
 * So a large canvas' one batch bounds a small canvas' memory and its wait for
 * the first frames. */
#include <math.h>

#include "model/video/video-private.h"

/* Rows of the matrix products of a batch at most: 14 tiles of the release's
 * size, 3 % faster on an H200 than 7, and as fast as 28. A tile costs 0.17 GiB. */
#define BATCH_ROWS 26624
/* Windows of a group at most, 136 frames: more of one tile gain little, and a
 * clip seldom has them, but each would cost its memory. */
#define GROUP_WINDOWS 8

/* The workspace, or prefix views of it, for some number of tiles. */
typedef struct {
  gint n_tiles;
  H3Tensor *tokens, *quant;
  H3Tensor *x;
  H3Tensor *suffix, *suffix_rows;
  H3Tensor *normed, *attention;
  H3Tensor *qkv, *gate_up, *gated;
  H3Tensor *last;
} Batch;

struct _H3VideoDecoder {
  H3VideoVae *vae;
  H3Stream *stream; /* not owned */
  gint latent_h, latent_w;
  H3Composition composition;
  H3TileAxis axis_y, axis_x;
  gint tile_h, tile_w;    /* in latents */
  gint n_patches, n_rows; /* of a tile: N, S */
  gint n_tiles;           /* of a window */
  gint max_group;         /* windows */
  gint max_batch;         /* tiles */

  /* the workspace */
  Batch full;             /* of max_batch tiles */
  H3Tensor **tile_tokens; /* [max_batch] views of the patches of tokens */
  H3Tensor *wide;         /* qkv, then gate_up */
  H3Tensor *cos, *sin;    /* [S, rot] */
  H3Tensor *tiles;        /* [max_group * n_tiles, S, patch] */
  H3Tensor *frames;       /* [3, 17, H, W] */
  H3Tensor *overlap;      /* [3, 5, H, W] */

  /* the clip */
  H3Tensor *latent;
  gint n_windows, n_frames;
  gint window, emitted;
  gint group;             /* windows whose tiles are decoded together */
  Batch batch[2];         /* a whole batch, and the rest in a group's last */
  H3Tensor *last_frames;  /* views for the last window, which may be shorter */
  H3Tensor *last_overlap; /* NULL: nothing left of it */
};

/* Workspace */

/* One walk over the workspace serves two: it counts, or it allocates. */
typedef struct {
  H3Device *device;
  guint64 bytes;
  gboolean counting;
  GError *error;
} Layout;

static H3Tensor *
layout_add (Layout *layout, H3DType dtype, guint rank, const gint64 *shape)
{
  guint64 bytes = h3_dtype_size (dtype);

  for (guint i = 0; i < rank; i++)
    bytes *= shape[i];
  layout->bytes += bytes;
  if (layout->counting || layout->error)
    return NULL;
  return h3_tensor_new (layout->device, dtype, rank, shape, &layout->error);
}

static H3Tensor *
layout_matrix (Layout *layout, H3DType dtype, gint64 rows, gint64 cols)
{
  return layout_add (layout, dtype, 2, (const gint64[]){ rows, cols });
}

static void
layout_workspace (Layout *layout, const H3VideoVaeConfig *config,
    H3VideoDecoder *decoder)
{
  H3DType dtype = layout->device->vae_dtype;
  gint64 dim = h3_video_dim (config), ffn = config->ffn;
  gint64 rows = (gint64) decoder->max_batch * decoder->n_rows;
  gint64 suffix = (gint64) decoder->max_batch * (config->registers + 1);
  gint64 height = decoder->axis_y.length, width = decoder->axis_x.length;
  Batch *full = &decoder->full;

  full->tokens = layout_matrix (layout, dtype, rows, config->channels);
  full->quant = layout_matrix (layout, dtype, rows, config->channels);
  full->x = layout_matrix (layout, H3_DTYPE_F32, rows, dim);
  full->suffix = layout_matrix (layout, H3_DTYPE_F32, suffix, dim);
  full->suffix_rows =
      layout_add (layout, H3_DTYPE_I32, 1, (const gint64[]){ suffix });
  full->normed = layout_matrix (layout, dtype, rows, dim);
  full->attention = layout_matrix (layout, dtype, rows, dim);
  decoder->wide = layout_matrix (layout, dtype, rows, MAX (3 * dim, 2 * ffn));
  full->gated = layout_matrix (layout, dtype, rows, ffn);
  full->last = layout_matrix (layout, H3_DTYPE_F32, rows, dim);
  decoder->cos = layout_matrix (layout, H3_DTYPE_F32, decoder->n_rows,
      h3_video_rot (config));
  decoder->sin = layout_matrix (layout, H3_DTYPE_F32, decoder->n_rows,
      h3_video_rot (config));
  decoder->tiles = layout_add (layout, H3_DTYPE_F32, 3,
      (const gint64[]){ (gint64) decoder->max_group * decoder->n_tiles,
          decoder->n_rows, h3_video_patch (config) });
  decoder->frames = layout_add (layout, H3_DTYPE_F32, 4,
      (const gint64[]){ 3, H3_VIDEO_WINDOW_FRAMES, height, width });
  decoder->overlap = layout_add (layout, H3_DTYPE_F32, 4,
      (const gint64[]){ 3, H3_VIDEO_OVERLAP, height, width });
}

/* What fits into a batch, windows first: no less than one, of several batches
 * as even as can be (28 tiles are twice 14). */
static void
decoder_cut_batches (H3VideoDecoder *decoder, gint max_group)
{
  gint at_most = MAX (BATCH_ROWS / decoder->n_rows, 1);
  gint tiles, batches;

  decoder->max_group = CLAMP (at_most / decoder->n_tiles, 1, max_group);
  tiles = decoder->max_group * decoder->n_tiles;
  batches = (tiles + at_most - 1) / at_most;
  decoder->max_batch = (tiles + batches - 1) / batches;
}

/* How the frame is cut, and how many tiles run at once. */
static gboolean
decoder_cut (H3VideoDecoder *decoder, const H3VideoVaeConfig *config,
    gint latent_h, gint latent_w, gint max_group, GError **error)
{
  gint ratio = config->ratio;

  if (latent_h < 1 || latent_w < 1 || latent_h > G_MAXINT / ratio ||
      latent_w > G_MAXINT / ratio) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "no video decoder for latents of %d x %d (width x height)", latent_w,
        latent_h);
    return FALSE;
  }
  if (!h3_tile_axis_init (&decoder->axis_y, latent_h * ratio, config->tile,
          config->min_overlap, ratio, error) ||
      !h3_tile_axis_init (&decoder->axis_x, latent_w * ratio, config->tile,
          config->min_overlap, ratio, error))
    return FALSE;

  decoder->latent_h = latent_h;
  decoder->latent_w = latent_w;
  decoder->tile_h = decoder->axis_y.tile / ratio;
  decoder->tile_w = decoder->axis_x.tile / ratio;
  decoder->n_patches = H3_VIDEO_WINDOW * decoder->tile_h * decoder->tile_w;
  decoder->n_rows = decoder->n_patches + config->registers + 1;
  decoder->n_tiles = decoder->axis_y.n * decoder->axis_x.n;
  decoder_cut_batches (decoder, max_group);
  return TRUE;
}

/* One tile keeps a CPU busy, and more only leave its caches. */
static gint
device_max_group (const H3Device *device)
{
  return device->host_memory ? 1 : GROUP_WINDOWS;
}

guint64
h3_video_decoder_workspace (const H3VideoVaeConfig *config,
    const H3Device *device, gint latent_h, gint latent_w)
{
  Layout layout = { (H3Device *) device, .counting = TRUE };
  H3VideoDecoder decoder = { 0 };

  if (!decoder_cut (&decoder, config, latent_h, latent_w,
          device_max_group (device), NULL))
    return 0;
  layout_workspace (&layout, config, &decoder);
  return layout.bytes + h3_device_decode_bytes (device, config->encoded);
}

/* Tables */

/* As a float16 has it, when that is what the device computes in. */
static gdouble
narrow (H3DType dtype, gdouble x)
{
  gdouble step;

  if (dtype != H3_DTYPE_F16 || x == 0)
    return x;
  step = ldexp (1, MAX (ilogb (x), -14) - 10);
  return rint (x / step) * step;
}

/* video-vae.md 6: positions -1 .. 1 in the tile, whatever its place in the
 * frame; the suffix sits at 0. In float16 every step but the product with the
 * frequency is rounded (7.1). */
static gdouble
rope_position (H3DType dtype, gint i, gint n)
{
  return narrow (dtype, narrow (dtype, 2 * narrow (dtype, (i + 0.5) / n)) - 1);
}

static void
fill_rope_row (const H3VideoVaeConfig *config, H3DType dtype,
    const gdouble p[3], gfloat *cos_, gfloat *sin_)
{
  gint n_freqs = h3_video_rot (config) / 3;

  for (gint axis = 0; axis < 3; axis++) {
    gdouble turn = narrow (dtype, 2 * G_PI * p[axis]);

    for (gint k = 0; k < n_freqs; k++) {
      gdouble f = pow (config->rope_theta, -(gdouble) k / n_freqs);

      *cos_++ = (gfloat) narrow (dtype, cos (turn * f));
      *sin_++ = (gfloat) narrow (dtype, sin (turn * f));
    }
  }
}

static void
upload_rope (H3VideoDecoder *decoder, gfloat **host_cos, gfloat **host_sin)
{
  const H3VideoVaeConfig *config = &decoder->vae->config;
  gint rot = h3_video_rot (config), h = decoder->tile_h, w = decoder->tile_w;
  H3DType dtype = decoder->stream->device->vae_dtype;

  *host_cos = g_new (gfloat, (gsize) decoder->n_rows * rot);
  *host_sin = g_new (gfloat, (gsize) decoder->n_rows * rot);
  for (gint n = 0; n < decoder->n_rows; n++) {
    gdouble p[3] = { 0, 0, 0 };

    if (n < decoder->n_patches) {
      p[0] = rope_position (dtype, n / (h * w), H3_VIDEO_WINDOW);
      p[1] = rope_position (dtype, n / w % h, h);
      p[2] = rope_position (dtype, n % w, w);
    }
    fill_rope_row (config, dtype, p, *host_cos + (gsize) n * rot,
        *host_sin + (gsize) n * rot);
  }
  h3_upload (decoder->stream, decoder->cos, *host_cos);
  h3_upload (decoder->stream, decoder->sin, *host_sin);
}

/* Registers, then the zero token, for each tile of a batch; and the rows of x
 * they belong in. */
static void
upload_suffix (H3VideoDecoder *decoder, gfloat **host, gint32 **host_rows)
{
  const H3VideoVaeConfig *config = &decoder->vae->config;
  Batch *full = &decoder->full;
  gint n = config->registers + 1;
  gint64 dim = h3_video_dim (config);

  *host = g_new0 (gfloat, h3_tensor_size (full->suffix));
  *host_rows = g_new (gint32, h3_tensor_size (full->suffix_rows));
  for (gint b = 0; b < decoder->max_batch; b++)
    for (gint i = 0; i < n; i++)
      (*host_rows)[b * n + i] = b * decoder->n_rows + decoder->n_patches + i;
  h3_upload (decoder->stream, full->suffix, *host);
  h3_upload (decoder->stream, full->suffix_rows, *host_rows);

  for (gint b = 0; b < decoder->max_batch; b++) {
    const gint64 shape[] = { config->registers * dim };
    g_autoptr (H3Tensor) registers =
        h3_tensor_view (full->suffix, b * n * dim, 1, shape);

    h3_copy (decoder->stream, registers, decoder->vae->registers);
  }
}

/* The suffix' rows of tokens are computed and thrown away, but computed. */
static gpointer
upload_zero_tokens (H3VideoDecoder *decoder)
{
  gpointer zeros = g_malloc0 (decoder->full.tokens->bytes);

  h3_upload (decoder->stream, decoder->full.tokens, zeros);
  return zeros;
}

static gboolean
upload_tables (H3VideoDecoder *decoder, GError **error)
{
  g_autofree gfloat *host_cos = NULL;
  g_autofree gfloat *host_sin = NULL;
  g_autofree gfloat *suffix = NULL;
  g_autofree gint32 *suffix_rows = NULL;
  g_autofree gpointer zeros = NULL;

  upload_rope (decoder, &host_cos, &host_sin);
  upload_suffix (decoder, &suffix, &suffix_rows);
  zeros = upload_zero_tokens (decoder);
  return h3_stream_synchronize (decoder->stream, error);
}

/* Views */

static H3Tensor *
view_matrix (H3Tensor *parent, gint64 rows, gint64 cols)
{
  return h3_tensor_view (parent, 0, 2, (const gint64[]){ rows, cols });
}

static void
batch_view (H3VideoDecoder *decoder, gint n_tiles, Batch *batch)
{
  const H3VideoVaeConfig *config = &decoder->vae->config;
  const Batch *full = &decoder->full;
  gint64 rows = (gint64) n_tiles * decoder->n_rows;
  gint64 suffix = (gint64) n_tiles * (config->registers + 1);

  batch->n_tiles = n_tiles;
  batch->tokens = h3_tensor_view_rows (full->tokens, 0, rows);
  batch->quant = h3_tensor_view_rows (full->quant, 0, rows);
  batch->x = h3_tensor_view_rows (full->x, 0, rows);
  batch->suffix = h3_tensor_view_rows (full->suffix, 0, suffix);
  batch->suffix_rows = h3_tensor_view (full->suffix_rows, 0, 1, &suffix);
  batch->normed = h3_tensor_view_rows (full->normed, 0, rows);
  batch->attention = h3_tensor_view_rows (full->attention, 0, rows);
  batch->gated = h3_tensor_view_rows (full->gated, 0, rows);
  batch->last = h3_tensor_view_rows (full->last, 0, rows);
  batch->qkv = view_matrix (decoder->wide, rows, 3 * h3_video_dim (config));
  batch->gate_up = view_matrix (decoder->wide, rows, 2 * config->ffn);
}

static void
make_tile_views (H3VideoDecoder *decoder)
{
  decoder->tile_tokens = g_new0 (H3Tensor *, decoder->max_batch + 1);
  for (gint b = 0; b < decoder->max_batch; b++)
    decoder->tile_tokens[b] = h3_tensor_view_rows (decoder->full.tokens,
        (gint64) b * decoder->n_rows, decoder->n_patches);
}

/* Groups as even as can be: the first frames wait for no more than they must. A
 * group of several windows is one batch, so there is a rest either in every
 * window or in the last group. */
static void
make_clip_batches (H3VideoDecoder *decoder)
{
  gint windows = decoder->n_windows;
  gint groups = (windows - 1) / decoder->max_group + 1;
  gint last, tiles, rest;

  decoder->group = (windows - 1) / groups + 1;
  last = windows - (groups - 1) * decoder->group;
  tiles = MIN (decoder->group * decoder->n_tiles, decoder->max_batch);
  rest = last * decoder->n_tiles % tiles;
  batch_view (decoder, tiles, &decoder->batch[0]);
  if (rest)
    batch_view (decoder, rest, &decoder->batch[1]);
}

static void
batch_clear (Batch *batch)
{
  g_clear_pointer (&batch->tokens, h3_tensor_unref);
  g_clear_pointer (&batch->quant, h3_tensor_unref);
  g_clear_pointer (&batch->x, h3_tensor_unref);
  g_clear_pointer (&batch->suffix, h3_tensor_unref);
  g_clear_pointer (&batch->suffix_rows, h3_tensor_unref);
  g_clear_pointer (&batch->normed, h3_tensor_unref);
  g_clear_pointer (&batch->attention, h3_tensor_unref);
  g_clear_pointer (&batch->qkv, h3_tensor_unref);
  g_clear_pointer (&batch->gate_up, h3_tensor_unref);
  g_clear_pointer (&batch->gated, h3_tensor_unref);
  g_clear_pointer (&batch->last, h3_tensor_unref);
}

static void
clear_tile_views (H3VideoDecoder *decoder)
{
  for (H3Tensor **view = decoder->tile_tokens; view && *view; view++)
    h3_tensor_unref (*view);
  g_clear_pointer (&decoder->tile_tokens, g_free);
}

static void
forget_clip (H3VideoDecoder *decoder)
{
  g_clear_pointer (&decoder->latent, h3_tensor_unref);
  g_clear_pointer (&decoder->last_frames, h3_tensor_unref);
  g_clear_pointer (&decoder->last_overlap, h3_tensor_unref);
  batch_clear (&decoder->batch[1]);
  batch_clear (&decoder->batch[0]);
  decoder->n_windows = decoder->n_frames = 0;
  decoder->window = decoder->emitted = 0;
}

H3VideoDecoder *
h3_video_decoder_new_grouped (H3VideoVae *vae, H3Stream *stream, gint latent_h,
    gint latent_w, H3Composition composition, gint max_group, GError **error)
{
  g_autoptr (H3VideoDecoder) decoder = g_new0 (H3VideoDecoder, 1);
  Layout layout = { stream->device };

  decoder->vae = h3_video_vae_ref (vae);
  decoder->stream = stream;
  decoder->composition = composition;
  if (!decoder_cut (decoder, &vae->config, latent_h, latent_w, max_group,
          error))
    return NULL;
  layout_workspace (&layout, &vae->config, decoder);
  if (layout.error) {
    g_propagate_error (error, layout.error);
    return NULL;
  }
  make_tile_views (decoder);
  if (!upload_tables (decoder, error))
    return NULL;
  return g_steal_pointer (&decoder);
}

H3VideoDecoder *
h3_video_decoder_new (H3VideoVae *vae, H3Stream *stream, gint latent_h,
    gint latent_w, H3Composition composition, GError **error)
{
  return h3_video_decoder_new_grouped (vae, stream, latent_h, latent_w,
      composition, device_max_group (stream->device), error);
}

void
h3_video_decoder_free (H3VideoDecoder *decoder)
{
  forget_clip (decoder);
  clear_tile_views (decoder);
  batch_clear (&decoder->full);
  g_clear_pointer (&decoder->wide, h3_tensor_unref);
  g_clear_pointer (&decoder->cos, h3_tensor_unref);
  g_clear_pointer (&decoder->sin, h3_tensor_unref);
  g_clear_pointer (&decoder->tiles, h3_tensor_unref);
  g_clear_pointer (&decoder->frames, h3_tensor_unref);
  g_clear_pointer (&decoder->overlap, h3_tensor_unref);
  g_clear_pointer (&decoder->vae, h3_video_vae_unref);
  g_free (decoder);
}

/* The network (video-vae.md 6) */

static void
linear (H3VideoDecoder *decoder, H3Tensor *y, const H3Tensor *x,
    const H3VideoLinear *layer)
{
  h3_linear (decoder->stream, &(H3LinearArgs){ .y = y,
                                  .x = x,
                                  .weight = layer->weight,
                                  .bias = layer->bias });
}

static void
rms_norm (H3VideoDecoder *decoder, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *weight)
{
  h3_rms_norm (decoder->stream, &(H3RmsNormArgs){ .y = y,
                                    .x = x,
                                    .weight = weight,
                                    .eps = decoder->vae->config.eps });
}

/* z: tile number @tile of the group */
static void
take_latent_tile (H3VideoDecoder *decoder, H3Tensor *z, gint tile)
{
  H3VideoVae *vae = decoder->vae;
  gint ratio = vae->config.ratio;
  gint window = decoder->window + tile / decoder->n_tiles;
  gint place = tile % decoder->n_tiles;
  gint i = place / decoder->axis_x.n, j = place % decoder->axis_x.n;

  h3_latent_tile (decoder->stream, &(H3LatentTileArgs){
                                       .y = z,
                                       .latent = decoder->latent,
                                       .mean = vae->latents_mean,
                                       .std = vae->latents_std,
                                       .t0 = window * H3_VIDEO_WINDOW_STEP,
                                       .y0 = decoder->axis_y.start[i] / ratio,
                                       .x0 = decoder->axis_x.start[j] / ratio,
                                       .t = H3_VIDEO_WINDOW,
                                       .h = decoder->tile_h,
                                       .w = decoder->tile_w,
                                   });
}

/* x = [x_embedder (post_quant_conv (z)), registers, 0] for each tile. The
 * embedding goes through the narrow type on its way to the float32 stream, as
 * the recipe of 7.1 has it. */
static void
embed_tiles (H3VideoDecoder *decoder, const Batch *batch, gint first_tile)
{
  H3VideoVae *vae = decoder->vae;

  for (gint b = 0; b < batch->n_tiles; b++)
    take_latent_tile (decoder, decoder->tile_tokens[b], first_tile + b);
  linear (decoder, batch->quant, batch->tokens, &vae->post_quant);
  linear (decoder, batch->normed, batch->quant, &vae->x_embedder);
  h3_copy (decoder->stream, batch->x, batch->normed);
  h3_scatter_rows (decoder->stream, batch->x, batch->suffix,
      batch->suffix_rows);
}

/* x += branch * scale, then normed = RMSNorm (x); the branch is normed itself */
static void
residual_norm (H3VideoDecoder *decoder, const Batch *batch,
    const H3Tensor *scale, const H3Tensor *weight)
{
  h3_residual_norm (decoder->stream, &(H3ResidualNormArgs){ .x = batch->x,
                                         .branch = batch->normed,
                                         .scale = scale,
                                         .y = batch->normed,
                                         .weight = weight,
                                         .eps = decoder->vae->config.eps });
}

/* From the rows that the block's first norm made to those of the next one's,
 * where there is a next. */
static void
run_block (H3VideoDecoder *decoder, const Batch *batch,
    const H3VideoBlock *block, const H3VideoBlock *next)
{
  const H3VideoVaeConfig *config = &decoder->vae->config;
  H3Stream *stream = decoder->stream;
  guint heads = config->heads, head_dim = config->head_dim;

  linear (decoder, batch->qkv, batch->normed, &block->qkv);
  h3_qk_norm_rope (stream, &(H3QkNormRopeArgs){ .qkv = batch->qkv,
                               .heads = heads,
                               .kv_heads = heads,
                               .head_dim = head_dim,
                               .eps = config->eps,
                               .cos = decoder->cos,
                               .sin = decoder->sin });
  h3_attention (stream, &(H3AttentionArgs){ .y = batch->attention,
                            .qkv = batch->qkv,
                            .heads = heads,
                            .kv_heads = heads,
                            .head_dim = head_dim,
                            .n_sequences = batch->n_tiles,
                            .scale = 1 / sqrtf (head_dim) });
  linear (decoder, batch->normed, batch->attention, &block->out);
  residual_norm (decoder, batch, block->scale1, block->norm2);

  h3_linear_swiglu (stream, &(H3LinearSwigluArgs){ .y = batch->gated,
                                .x = batch->normed,
                                .weight = block->w1.weight,
                                .bias = block->w1.bias,
                                .gate_up = batch->gate_up });
  linear (decoder, batch->normed, batch->gated, &block->w2);
  if (next)
    residual_norm (decoder, batch, block->scale2, next->norm1);
  else
    h3_scaled_residual (stream, batch->x, batch->normed, block->scale2);
}

static gboolean
run_blocks (H3VideoDecoder *decoder, const Batch *batch, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  const H3VideoBlock *blocks = decoder->vae->blocks;
  gint layers = decoder->vae->config.layers;
  gchar name[64];

  rms_norm (decoder, batch->normed, batch->x, blocks[0].norm1);
  for (gint i = 0; i < layers; i++) {
    if (h3_stop_requested (stop, error))
      return FALSE;
    run_block (decoder, batch, &blocks[i],
        i + 1 < layers ? &blocks[i + 1] : NULL);
    g_snprintf (name, sizeof name, "decoder.transformer_blocks.%d", i);
    h3_tap (tap, name, batch->x);
  }
  return TRUE;
}

static gboolean
decode_batch (H3VideoDecoder *decoder, const Batch *batch, gint first_tile,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  H3VideoVae *vae = decoder->vae;
  gint64 rows = decoder->n_rows;
  g_autoptr (H3Tensor) out = h3_tensor_view_rows (decoder->tiles,
      first_tile * rows, batch->n_tiles * rows);

  embed_tiles (decoder, batch, first_tile);
  h3_tap (tap, "decoder.proj_in", batch->x);
  if (!run_blocks (decoder, batch, stop, tap, error))
    return FALSE;
  h3_layer_norm (decoder->stream, &(H3LayerNormArgs){ .y = batch->last,
                                      .x = batch->x,
                                      .weight = vae->norm_out_weight,
                                      .bias = vae->norm_out_bias,
                                      .eps = vae->config.eps });
  h3_tap (tap, "decoder.norm_out", batch->last);
  linear (decoder, out, batch->last, &vae->proj_out);
  h3_tap (tap, "decoder.proj_out", out);
  return TRUE;
}

/* The tiles of the window that is due and of those grouped with it. */
static gboolean
decode_group (H3VideoDecoder *decoder, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  gint n = MIN (decoder->group, decoder->n_windows - decoder->window);
  gint n_tiles = n * decoder->n_tiles;
  const Batch *batch = &decoder->batch[0];

  for (gint tile = 0; tile < n_tiles; tile += batch->n_tiles) {
    if (n_tiles - tile < batch->n_tiles)
      batch = &decoder->batch[1];
    if (!decode_batch (decoder, batch, tile, stop, tap, error))
      return FALSE;
  }
  return !h3_stop_requested (stop, error);
}

/* The clip (video-vae.md 9.2, 12) */

static void
compose (H3VideoDecoder *decoder, H3Tensor *y, const H3Tensor *tiles,
    gint first_frame)
{
  const H3VideoVaeConfig *config = &decoder->vae->config;

  h3_compose_tiles (decoder->stream, &(H3ComposeTilesArgs){ .y = y,
                                         .tiles = tiles,
                                         .axis_y = &decoder->axis_y,
                                         .axis_x = &decoder->axis_x,
                                         .first_frame = first_frame,
                                         .patch_t = config->ratio_t,
                                         .patch = config->ratio,
                                         .composition = decoder->composition });
}

/* Those of the window that is due, in its group. */
static H3Tensor *
view_window_tiles (H3VideoDecoder *decoder)
{
  gint patch = h3_video_patch (&decoder->vae->config);
  gint64 first = decoder->window % decoder->group * decoder->n_tiles;
  const gint64 shape[] = { decoder->n_tiles, decoder->n_rows, patch };

  return h3_tensor_view (decoder->tiles, first * decoder->n_rows * patch, 3,
      shape);
}

/* A window's new frames, and what the next one begins with or, after the last,
 * what the clip ends with. A still is the last of the 5 frames of two equal
 * latents. */
static void
compose_window (H3VideoDecoder *decoder)
{
  gboolean last = decoder->window == decoder->n_windows - 1;
  gboolean still = decoder->n_frames == 1;
  H3Tensor *frames = last ? decoder->last_frames : decoder->frames;
  H3Tensor *overlap = last ? decoder->last_overlap : decoder->overlap;
  g_autoptr (H3Tensor) tiles = view_window_tiles (decoder);

  compose (decoder, frames, tiles, H3_VIDEO_FIRST_FRAME + (still ? 4 : 0));
  if (decoder->window > 0)
    h3_blend_frames (decoder->stream,
        &(H3BlendFramesArgs){ .y = frames, .previous = decoder->overlap });
  if (overlap)
    compose (decoder, overlap, tiles, H3_VIDEO_OVERLAP_FRAME);
}

static gboolean
check_latent (const H3VideoDecoder *decoder, const H3Tensor *latent,
    GError **error)
{
  gint channels = decoder->vae->config.channels;

  if (latent->rank == 4 && latent->dtype == H3_DTYPE_F32 &&
      latent->shape[0] == channels && latent->shape[1] >= 1 &&
      latent->shape[1] <= H3_VIDEO_MAX_LATENTS &&
      latent->shape[2] == decoder->latent_h &&
      latent->shape[3] == decoder->latent_w)
    return TRUE;

  g_autoptr (GString) found = g_string_new (h3_dtype_name (latent->dtype));
  for (guint i = 0; i < latent->rank; i++)
    g_string_append_printf (found, "%s%" G_GINT64_FORMAT, i ? ", " : " [",
        latent->shape[i]);
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "video latent is %s]: float32 [%d, T, %d, %d] with T from 1 is needed",
      found->str, channels, decoder->latent_h, decoder->latent_w);
  return FALSE;
}

static H3Tensor *
view_frames (H3Tensor *parent, gint n)
{
  const gint64 shape[] = { 3, n, parent->shape[2], parent->shape[3] };

  return n > 0 ? h3_tensor_view (parent, 0, 4, shape) : NULL;
}

gboolean
h3_video_decoder_start (H3VideoDecoder *decoder, H3Tensor *latent,
    GError **error)
{
  gint left;

  forget_clip (decoder);
  if (!check_latent (decoder, latent, error))
    return FALSE;
  decoder->latent = h3_tensor_ref (latent);
  decoder->n_windows = h3_video_windows ((gint) latent->shape[1]);
  decoder->n_frames = h3_video_frames ((gint) latent->shape[1]);
  make_clip_batches (decoder);

  left = decoder->n_frames - (decoder->n_windows - 1) * H3_VIDEO_WINDOW_FRAMES;
  decoder->last_frames =
      view_frames (decoder->frames, MIN (left, H3_VIDEO_WINDOW_FRAMES));
  decoder->last_overlap =
      view_frames (decoder->overlap, left - H3_VIDEO_WINDOW_FRAMES);
  return TRUE;
}

gint
h3_video_decoder_frames (const H3VideoDecoder *decoder)
{
  return decoder->n_frames;
}

gboolean
h3_video_decoder_next (H3VideoDecoder *decoder, const H3Stop *stop,
    const H3Tap *tap, H3Tensor **pixels, gint *first, gint *n, GError **error)
{
  *pixels = NULL;
  *first = decoder->emitted;
  *n = 0;
  if (decoder->emitted == decoder->n_frames)
    return TRUE;

  if (decoder->window < decoder->n_windows) {
    if (h3_stop_requested (stop, error))
      return FALSE;
    if (decoder->window % decoder->group == 0 &&
        !decode_group (decoder, stop, tap, error))
      return FALSE;
    compose_window (decoder);
    if (!h3_stream_check (decoder->stream, error))
      return FALSE;
    decoder->window++;
    *pixels = decoder->window == decoder->n_windows ? decoder->last_frames
                                                    : decoder->frames;
  } else {
    *pixels = decoder->last_overlap;
  }
  *n = (gint) (*pixels)->shape[1];
  decoder->emitted += *n;
  return TRUE;
}
