/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Encoding a clip piece by piece, a piece tile by tile (video-vae.md 5, 8 to
 * 10).
 *
 * A piece is 17 frames, the 5 that end a clip, or a still; each is encoded for
 * itself (9.1). Its tiles all have the same size, and as many run through the
 * network together as the workspace has room for. Signals are channels last,
 * and three buffers hold them: what a block reads, what it normalised, what it
 * is making. */
#include <string.h>

#include "model/video/video-private.h"

#define CLIP H3_VIDEO_CLIP_LENGTH
#define TAIL H3_VIDEO_OVERLAP
#define CLIP_LATENTS H3_VIDEO_WINDOW_STEP
/* Frames of tiles at once: a clip's of one tile, or as many stills. */
#define BATCH_FRAMES CLIP
/* Frames that wait: a clip is encoded when the one after it has its least. */
#define WAITING (CLIP + TAIL)

enum { BUFFER_X, BUFFER_A, BUFFER_H, N_BUFFERS };

/* The buffers seen as a level's signals. */
typedef struct {
  H3Tensor *in[N_BUFFERS];  /* [B, T, H, W, channels it begins with] */
  H3Tensor *out[N_BUFFERS]; /* [B, T, H, W, its channels] */
} LevelViews;

/* Everything seen as @frames frames of @tiles tiles. */
typedef struct {
  gint frames, tiles;
  H3Tensor **pixels; /* [tiles] [frames, h, w, 3], in BUFFER_A */
  H3Tensor *first;   /* all of them */
  LevelViews levels[H3_VIDEO_MAX_LEVELS + 1]; /* in: what they made */
  H3Tensor *out; /* [B, T', h, w, 2 C], in BUFFER_A */
} Views;

/* How a frame is cut, and what the workspace takes. */
typedef struct {
  H3TileAxis axis_y, axis_x;     /* in pixels */
  H3TileAxis latent_y, latent_x; /* in latents */
  gint n_tiles;
  gint clip_frames;   /* 17, or 1 for stills */
  gint batch;         /* frames of tiles at once */
  gint64 buffer;      /* values of one */
  gint64 moments;     /* of all tiles of a piece */
  guint64 rgb, bytes; /* of the frames, of all */
} Plan;

struct _H3VideoEncoder {
  H3VideoEncoderModel *model;
  H3Stream *stream; /* not owned */
  Plan plan;

  H3Tensor *rgb;                /* uint8 [17, H, W, 3] */
  H3Tensor *buffers[N_BUFFERS]; /* flat */
  H3Tensor *tiles;              /* moments of each tile */
  H3Tensor *piece;              /* and of the whole: [2 C, 5, h, w] */
  Views views;

  guint8 *waiting; /* [22, H, W, 3], host */
  gint n_waiting;
  H3VideoMoments moments;
};

/* Plan */

static void
latent_axis (H3TileAxis *latent, const H3TileAxis *pixels, gint ratio)
{
  *latent = *pixels;
  latent->length /= ratio;
  latent->tile /= ratio;
  for (gint k = 0; k < latent->n; k++) {
    latent->start[k] /= ratio;
    if (k + 1 < latent->n)
      latent->overlap[k] /= ratio;
  }
}

/* Tiles at once, @at_most, so that every batch has about as many. */
static gint
even_batch (gint n_tiles, gint at_most)
{
  gint batches = (n_tiles + at_most - 1) / at_most;

  return (n_tiles + batches - 1) / batches;
}

/* Of a level's output in time: floor ((t - 1) / stride) + 1. */
static gint
shorter (gint t, gint stride)
{
  return (t - 1) / stride + 1;
}

/* Values of the largest signal of one frame of a tile. */
static gint64
largest_signal (const H3VideoEncoderConfig *config, gint64 pixels)
{
  gint64 most = pixels * MAX (config->first, 3);

  for (gint l = 0; l < config->levels; l++) {
    gint64 in = h3_video_level_in (config, l);

    most = MAX (most, pixels * MAX (in, config->channels[l]));
    pixels /= config->space[l] * config->space[l];
  }
  return MAX (most, pixels * 2 * config->vae.channels);
}

/* Bytes that a convolution of [Co, 3, 3, 3, Ci] takes on a GPU beside its
 * operands: those of a frame of @h x @w with its mirrored border and of the
 * weight, once more, in slabs of 32 channels. */
static void
add_pieces (gint64 *frame, gint64 *weight, gint64 h, gint64 w, gint64 ci,
    gint64 co)
{
  ci = (ci + 31) / 32 * 32;
  *frame = MAX (*frame, (gint64) sizeof (gfloat) * (h + 2) * (w + 2) * ci);
  *weight = MAX (*weight, (gint64) sizeof (gfloat) * 27 * ci * co);
}

static guint64
largest_pieces (const H3VideoEncoderConfig *config, gint64 h, gint64 w,
    gint batch)
{
  gint64 frame = 0, weight = 0, co = 0;

  for (gint l = 0; l < config->levels; l++) {
    gint64 in = h3_video_level_in (config, l);

    co = config->channels[l];
    add_pieces (&frame, &weight, h, w, in, co);
    add_pieces (&frame, &weight, h, w, co, co);
    h /= config->space[l];
    w /= config->space[l];
  }
  add_pieces (&frame, &weight, h, w, co, 2 * config->vae.channels);
  return batch * frame + weight;
}

static gboolean
plan_init (Plan *plan, const H3VideoEncoderConfig *config,
    const H3Device *device, gint height, gint width, gboolean clips,
    GError **error)
{
  gint ratio = config->vae.ratio;
  gint64 latents;

  if (height < 2 * ratio || width < 2 * ratio || height % ratio ||
      width % ratio) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "pictures of %d x %d cannot be encoded: multiples of %d, at least "
        "%d x %d, are needed",
        width, height, ratio, 2 * ratio, 2 * ratio);
    return FALSE;
  }
  if (!h3_tile_axis_init (&plan->axis_y, height, config->vae.tile,
          config->vae.min_overlap, ratio, error) ||
      !h3_tile_axis_init (&plan->axis_x, width, config->vae.tile,
          config->vae.min_overlap, ratio, error))
    return FALSE;
  latent_axis (&plan->latent_y, &plan->axis_y, ratio);
  latent_axis (&plan->latent_x, &plan->axis_x, ratio);
  plan->n_tiles = plan->axis_y.n * plan->axis_x.n;
  plan->clip_frames = clips ? CLIP : 1;
  /* a GPU wants more than one still's tile at once */
  plan->batch = clips ? BATCH_FRAMES
                : device->host_memory
                    ? 1
                    : even_batch (plan->n_tiles, BATCH_FRAMES);

  plan->buffer =
      plan->batch *
      largest_signal (config, (gint64) plan->axis_y.tile * plan->axis_x.tile);
  latents = clips ? CLIP_LATENTS : 1;
  plan->moments = 2 * latents * config->vae.channels * plan->n_tiles *
                  plan->latent_y.tile * plan->latent_x.tile;
  plan->rgb = (guint64) 3 * plan->clip_frames * height * width;
  plan->bytes =
      plan->rgb +
      sizeof (gfloat) * (N_BUFFERS * (guint64) plan->buffer + plan->moments +
                            2 * latents * config->vae.channels *
                                (guint64) (height / ratio) * (width / ratio));
  if (!device->host_memory)
    plan->bytes += largest_pieces (config, plan->axis_y.tile, plan->axis_x.tile,
        plan->batch);
  return TRUE;
}

guint64
h3_video_encoder_workspace (const H3VideoEncoderConfig *config,
    const H3Device *device, gint height, gint width, gboolean clips)
{
  g_autofree Plan *plan = g_new0 (Plan, 1);

  return plan_init (plan, config, device, height, width, clips, NULL)
             ? plan->bytes
             : 0;
}

static gboolean
allocate (H3VideoEncoder *encoder, GError **error)
{
  const H3VideoVaeConfig *config = &encoder->model->config.vae;
  const Plan *plan = &encoder->plan;
  H3Device *device = encoder->stream->device;
  gint frames = plan->clip_frames;
  gint64 height = plan->axis_y.length, width = plan->axis_x.length;
  const gint64 rgb[] = { frames, height, width, 3 };
  const gint64 piece[] = { 2 * config->channels, frames > 1 ? CLIP_LATENTS : 1,
    plan->latent_y.length, plan->latent_x.length };
  gsize waiting = (gsize) 3 * height * width * (frames > 1 ? WAITING : 1);

  encoder->rgb = h3_tensor_new (device, H3_DTYPE_U8, 4, rgb, error);
  if (!encoder->rgb)
    return FALSE;
  for (gint i = 0; i < N_BUFFERS; i++) {
    encoder->buffers[i] =
        h3_tensor_new_1d (device, H3_DTYPE_F32, plan->buffer, error);
    if (!encoder->buffers[i])
      return FALSE;
  }
  encoder->tiles =
      h3_tensor_new_1d (device, H3_DTYPE_F32, plan->moments, error);
  if (!encoder->tiles)
    return FALSE;
  encoder->piece = h3_tensor_new (device, H3_DTYPE_F32, 4, piece, error);
  if (!encoder->piece)
    return FALSE;
  encoder->waiting = g_try_malloc (waiting);
  if (!encoder->waiting) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "Video encoder: no memory for %" G_GSIZE_FORMAT " bytes of frames",
        waiting);
    return FALSE;
  }
  return TRUE;
}

/* Views */

static void
views_clear (Views *views)
{
  for (gint i = 0; i < views->tiles; i++)
    h3_tensor_unref (views->pixels[i]);
  g_clear_pointer (&views->pixels, g_free);
  g_clear_pointer (&views->first, h3_tensor_unref);
  g_clear_pointer (&views->out, h3_tensor_unref);
  for (gint l = 0; l <= H3_VIDEO_MAX_LEVELS; l++)
    for (gint i = 0; i < N_BUFFERS; i++) {
      g_clear_pointer (&views->levels[l].in[i], h3_tensor_unref);
      g_clear_pointer (&views->levels[l].out[i], h3_tensor_unref);
    }
  views->frames = views->tiles = 0;
}

static void
view_level (H3VideoEncoder *encoder, gint l, gint64 shape[5])
{
  const H3VideoEncoderConfig *config = &encoder->model->config;
  LevelViews *views = &encoder->views.levels[l];

  for (gint i = 0; i < N_BUFFERS; i++) {
    shape[4] = h3_video_level_in (config, l);
    views->in[i] = h3_tensor_view (encoder->buffers[i], 0, 5, shape);
    if (l == config->levels)
      continue;
    shape[4] = config->channels[l];
    views->out[i] = h3_tensor_view (encoder->buffers[i], 0, 5, shape);
  }
  if (l == config->levels)
    return;
  shape[1] = shorter (shape[1], config->time[l]);
  shape[2] /= config->space[l];
  shape[3] /= config->space[l];
}

/* The last tiles of a frame may be fewer, and the last frames of a clip. */
static void
views_set (H3VideoEncoder *encoder, gint frames, gint tiles)
{
  const H3VideoEncoderConfig *config = &encoder->model->config;
  const Plan *plan = &encoder->plan;
  Views *views = &encoder->views;
  gint64 h = plan->axis_y.tile, w = plan->axis_x.tile;
  gint64 shape[5] = { tiles, frames, h, w, 3 };

  if (views->frames == frames && views->tiles == tiles)
    return;
  views_clear (views);
  views->frames = frames;
  views->tiles = tiles;
  views->pixels = g_new (H3Tensor *, tiles);
  views->first = h3_tensor_view (encoder->buffers[BUFFER_A], 0, 5, shape);
  for (gint i = 0; i < tiles; i++)
    views->pixels[i] = h3_tensor_view (encoder->buffers[BUFFER_A],
        i * frames * h * w * 3, 4, shape + 1);
  for (gint l = 0; l <= config->levels; l++)
    view_level (encoder, l, shape);
  shape[4] = 2 * config->vae.channels;
  views->out = h3_tensor_view (encoder->buffers[BUFFER_A], 0, 5, shape);
}

/* The network (video-vae.md 5) */

static void
convolve (H3VideoEncoder *encoder, H3Tensor *y, const H3Tensor *x,
    const H3VideoConv *conv, const H3Tensor *residual)
{
  gint k = (gint) conv->weight->tensor->shape[2];

  h3_conv3d (encoder->stream, &(H3Conv3dArgs){ .y = y,
                                  .x = x,
                                  .weight = conv->weight,
                                  .bias = conv->bias,
                                  .residual = residual,
                                  .stride_t = 1,
                                  .stride = 1,
                                  .pad = k / 2 });
}

static void
norm_silu (H3VideoEncoder *encoder, H3Tensor *y, const H3Tensor *x,
    const H3VideoNorm *norm)
{
  const H3VideoEncoderConfig *config = &encoder->model->config;

  h3_group_norm_silu (encoder->stream, &(H3GroupNormArgs){ .y = y,
                                           .x = x,
                                           .weight = norm->weight,
                                           .bias = norm->bias,
                                           .groups = config->groups,
                                           .eps = config->eps });
}

/* y = shortcut (x) + conv2 (silu (norm2 (conv1 (silu (norm1 (x)))))). Returns
 * the buffer of y: x's own, or, with a shortcut, h. */
static gint
res_block (H3VideoEncoder *encoder, const H3VideoResBlock *block,
    H3Tensor *const *in, H3Tensor *const *out, gint x, gint h)
{
  norm_silu (encoder, in[BUFFER_A], in[x], &block->norm1);
  convolve (encoder, out[h], in[BUFFER_A], &block->conv1, NULL);
  norm_silu (encoder, out[BUFFER_A], out[h], &block->norm2);
  if (!block->shortcut.weight) {
    convolve (encoder, out[x], out[BUFFER_A], &block->conv2, in[x]);
    return x;
  }
  convolve (encoder, out[h], in[x], &block->shortcut, NULL);
  convolve (encoder, out[h], out[BUFFER_A], &block->conv2, out[h]);
  return h;
}

/* Rows below and columns to the right only are mirrored. */
static void
downsample (H3VideoEncoder *encoder, gint l, H3Tensor *y, const H3Tensor *x)
{
  const H3VideoEncoderConfig *config = &encoder->model->config;
  const H3VideoConv *conv = &encoder->model->levels[l].down;

  h3_conv3d (encoder->stream, &(H3Conv3dArgs){ .y = y,
                                  .x = x,
                                  .weight = conv->weight,
                                  .bias = conv->bias,
                                  .stride_t = config->time[l],
                                  .stride = config->space[l] });
}

static void
tap_level (const H3Tap *tap, gint l, const H3Tensor *value)
{
  g_autofree gchar *name = NULL;

  if (!tap || !tap->func)
    return;
  name = g_strdup_printf ("encoder.down_blocks.%d", l);
  h3_tap (tap, name, value);
}

/* All levels, from and to BUFFER_X or H, which it returns. -1: to stop. */
static gint
run_levels (H3VideoEncoder *encoder, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  const H3VideoEncoderConfig *config = &encoder->model->config;
  gint x = BUFFER_X;

  for (gint l = 0; l < config->levels; l++) {
    const LevelViews *views = &encoder->views.levels[l];

    for (gint b = 0; b < config->blocks; b++) {
      if (h3_stop_requested (stop, error))
        return -1;
      x = res_block (encoder, &encoder->model->levels[l].blocks[b],
          b ? views->out : views->in, views->out, x,
          x == BUFFER_X ? BUFFER_H : BUFFER_X);
    }
    tap_level (tap, l, views->out[x]);
    if (h3_video_level_shrinks (config, l)) {
      gint h = x == BUFFER_X ? BUFFER_H : BUFFER_X;

      downsample (encoder, l, views[1].in[h], views->out[x]);
      x = h;
    }
  }
  return x;
}

/* Tiles @first .. of the frames in rgb, into tiles. */
static gboolean
encode_tiles (H3VideoEncoder *encoder, gint first, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  const H3VideoEncoderConfig *config = &encoder->model->config;
  const Plan *plan = &encoder->plan;
  Views *views = &encoder->views;
  H3Tensor *const *made = views->levels[config->levels].in;
  g_autoptr (H3Tensor) moments = NULL;
  gint x, h;

  for (gint b = 0; b < views->tiles; b++) {
    H3NetworkPixelsArgs args = { .y = views->pixels[b],
      .rgb = encoder->rgb,
      .y0 = plan->axis_y.start[(first + b) / plan->axis_x.n],
      .x0 = plan->axis_x.start[(first + b) % plan->axis_x.n] };

    memcpy (args.mean, config->vae.pixel_mean, sizeof args.mean);
    memcpy (args.std, config->vae.pixel_std, sizeof args.std);
    h3_network_pixels (encoder->stream, &args);
  }
  h3_tap (tap, "encoder.pixels", views->first);
  convolve (encoder, views->levels[0].in[BUFFER_X], views->first,
      &encoder->model->conv_in, NULL);
  h3_tap (tap, "encoder.conv_in", views->levels[0].in[BUFFER_X]);
  x = run_levels (encoder, stop, tap, error);
  if (x < 0)
    return FALSE;
  h = x == BUFFER_X ? BUFFER_H : BUFFER_X;
  norm_silu (encoder, made[h], made[x], &encoder->model->norm_out);
  convolve (encoder, views->out, made[h], &encoder->model->conv_out, NULL);
  h3_tap (tap, "encoder.conv_out", views->out);
  moments = h3_tensor_view (encoder->tiles,
      first * (h3_tensor_size (views->out) / views->tiles), 5,
      views->out->shape);
  convolve (encoder, moments, views->out, &encoder->model->quant, NULL);
  return TRUE;
}

/* The tiles' moments as one (8.3), to the host. */
static gboolean
compose (H3VideoEncoder *encoder, gint latents, const H3Tap *tap,
    GError **error)
{
  const Plan *plan = &encoder->plan;
  gint64 c = 2 * encoder->model->config.vae.channels;
  gint64 h = plan->latent_y.length, w = plan->latent_x.length;
  gint64 tokens = (gint64) latents * plan->latent_y.tile * plan->latent_x.tile;
  g_autoptr (H3Tensor) tiles = h3_tensor_view (encoder->tiles, 0, 3,
      (const gint64[]){ plan->n_tiles, tokens, c });
  g_autoptr (H3Tensor) y = h3_tensor_view (encoder->piece, 0, 4,
      (const gint64[]){ c, latents, h, w });
  gfloat *host;

  h3_compose_tiles (encoder->stream, &(H3ComposeTilesArgs){ .y = y,
                                         .tiles = tiles,
                                         .axis_y = &plan->latent_y,
                                         .axis_x = &plan->latent_x,
                                         .patch_t = 1,
                                         .patch = 1,
                                         .composition = H3_COMPOSITION_RAW });
  h3_tap (tap, "encoder.moments", y);
  host = h3_video_moments_add (&encoder->moments, latents, error);
  if (!host)
    return FALSE;
  h3_download (encoder->stream, host, y);
  return h3_stream_synchronize (encoder->stream, error);
}

static gint
piece_latents (const H3VideoEncoderConfig *config, gint frames)
{
  for (gint l = 0; l < config->levels; l++)
    frames = shorter (frames, config->time[l]);
  return frames;
}

/* The first @frames frames that wait. */
static gboolean
encode_piece (H3VideoEncoder *encoder, gint frames, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  const Plan *plan = &encoder->plan;
  gint tiles = even_batch (plan->n_tiles, MAX (plan->batch / frames, 1));
  g_autoptr (H3Tensor) rgb = h3_tensor_view (encoder->rgb, 0, 4,
      (const gint64[]){ frames, plan->axis_y.length, plan->axis_x.length, 3 });
  gboolean done = TRUE;

  h3_upload (encoder->stream, rgb, encoder->waiting);
  for (gint first = 0; done && first < plan->n_tiles; first += tiles) {
    views_set (encoder, frames, MIN (tiles, plan->n_tiles - first));
    done = encode_tiles (encoder, first, stop, tap, error);
  }
  if (!done || h3_stop_requested (stop, error)) {
    /* nothing may still read the frames that wait */
    h3_stream_synchronize (encoder->stream, NULL);
    return FALSE;
  }
  return compose (encoder, piece_latents (&encoder->model->config, frames), tap,
      error);
}

/* The clip (9.1) */

static gsize
frame_bytes (const H3VideoEncoder *encoder)
{
  return (gsize) 3 * encoder->plan.axis_y.length * encoder->plan.axis_x.length;
}

H3VideoEncoder *
h3_video_encoder_new (H3VideoEncoderModel *model, H3Stream *stream, gint height,
    gint width, gboolean clips, GError **error)
{
  g_autoptr (H3VideoEncoder) encoder = g_new0 (H3VideoEncoder, 1);
  const Plan *plan = &encoder->plan;

  encoder->model = h3_video_encoder_model_ref (model);
  encoder->stream = stream;
  if (!plan_init (&encoder->plan, &model->config, stream->device, height, width,
          clips, error))
    return NULL;
  h3_video_moments_init (&encoder->moments, model->config.vae.channels,
      (gint64) plan->latent_y.length * plan->latent_x.length);
  if (!allocate (encoder, error))
    return NULL;
  return g_steal_pointer (&encoder);
}

void
h3_video_encoder_free (H3VideoEncoder *encoder)
{
  views_clear (&encoder->views);
  h3_video_moments_clear (&encoder->moments);
  g_clear_pointer (&encoder->rgb, h3_tensor_unref);
  for (gint i = 0; i < N_BUFFERS; i++)
    g_clear_pointer (&encoder->buffers[i], h3_tensor_unref);
  g_clear_pointer (&encoder->tiles, h3_tensor_unref);
  g_clear_pointer (&encoder->piece, h3_tensor_unref);
  g_free (encoder->waiting);
  h3_video_encoder_model_unref (encoder->model);
  g_free (encoder);
}

void
h3_video_encoder_start (H3VideoEncoder *encoder)
{
  encoder->n_waiting = 0;
  h3_video_moments_reset (&encoder->moments);
}

/* Once a clip's 17 frames and the least of the next wait. */
static gboolean
encode_clip (H3VideoEncoder *encoder, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  gsize frame = frame_bytes (encoder);

  if (!encode_piece (encoder, CLIP, stop, tap, error))
    return FALSE;
  memmove (encoder->waiting, encoder->waiting + CLIP * frame, TAIL * frame);
  encoder->n_waiting = TAIL;
  return TRUE;
}

gboolean
h3_video_encoder_push (H3VideoEncoder *encoder, const guint8 *rgb, gint stride,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  gint height = encoder->plan.axis_y.length;
  gsize row = (gsize) 3 * encoder->plan.axis_x.length;
  guint8 *to = encoder->waiting + encoder->n_waiting * frame_bytes (encoder);

  if (stride < 0 || (gsize) stride < row) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "rows of a picture are %d bytes apart: at least %" G_GSIZE_FORMAT
        ", 3 for each of its %d pixels, are needed",
        stride, row, encoder->plan.axis_x.length);
    h3_video_encoder_start (encoder);
    return FALSE;
  }
  if (encoder->plan.clip_frames == 1 && encoder->n_waiting == 1) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a second frame for an encoder of stills");
    h3_video_encoder_start (encoder);
    return FALSE;
  }
  for (gint y = 0; y < height; y++, to += row, rgb += stride)
    memcpy (to, rgb, row);
  encoder->n_waiting++;
  if (encoder->n_waiting < WAITING)
    return TRUE;
  if (encode_clip (encoder, stop, tap, error))
    return TRUE;
  h3_video_encoder_start (encoder);
  return FALSE;
}

static H3Tensor *
make_latent (H3VideoEncoder *encoder, H3Posterior posterior, guint64 seed,
    GError **error)
{
  const H3VideoVaeConfig *config = &encoder->model->config.vae;
  const gint64 shape[] = { config->channels, encoder->moments.length,
    encoder->plan.latent_y.length, encoder->plan.latent_x.length };
  g_autofree gfloat *z =
      h3_video_posterior (&encoder->moments, config, posterior, seed, error);

  if (!z)
    return NULL;
  return h3_tensor_new_from_host (encoder->stream->device, H3_DTYPE_F32, 4,
      shape, z, error);
}

gboolean
h3_video_encoder_finish (H3VideoEncoder *encoder, H3Posterior posterior,
    guint64 seed, const H3Stop *stop, const H3Tap *tap, H3Tensor **latent,
    GError **error)
{
  *latent = NULL;
  if (encoder->n_waiting == 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "no frame to encode: a clip needs at least one");
    return FALSE;
  }
  if (!h3_stop_requested (stop, error) &&
      encode_piece (encoder, encoder->n_waiting < TAIL ? 1 : TAIL, stop, tap,
          error))
    *latent = make_latent (encoder, posterior, seed, error);
  h3_video_encoder_start (encoder);
  return *latent != NULL;
}
