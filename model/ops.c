/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every operation's promise about shapes and types, checked once for all
 * devices. A check that fails stays with the stream and names the operation,
 * the operand, what was found and what is needed. */
#include "model/ops-check.h"

/* Parameter @p of a modulation table [R, P * H], and its row numbers [S]. */
static gboolean
table_shaped (H3Stream *stream, const gchar *op, const H3Tensor *table,
    const H3Tensor *rows, gint64 s, gint64 h, guint p)
{
  if (!MATRIX ("the table", table, KIND_ACT, ANY, ANY) ||
      !VECTOR ("rows", rows, KIND_I32, s))
    return FALSE;
  if (h == 0 || h3_tensor_cols (table) % h != 0 ||
      p >= h3_tensor_cols (table) / h)
    return refuse (stream, op,
        "a table of %" G_GINT64_FORMAT " columns has "
        "no parameter %u of %" G_GINT64_FORMAT " channels",
        h3_tensor_cols (table), p, h);
  return TRUE;
}

void
h3_upload (H3Stream *stream, H3Tensor *dst, gconstpointer src)
{
  if (stream->error || !present (stream, "upload", "the tensor", dst))
    return;
  if (!src && dst->bytes)
    refuse (stream, "upload", "the source is missing");
  else
    stream->device->ops->upload (stream, dst, src);
}

void
h3_download (H3Stream *stream, gpointer dst, const H3Tensor *src)
{
  if (stream->error || !present (stream, "download", "the tensor", src))
    return;
  if (!dst && src->bytes)
    refuse (stream, "download", "the destination is missing");
  else
    stream->device->ops->download (stream, dst, src);
}

void
h3_copy (H3Stream *stream, H3Tensor *dst, const H3Tensor *src)
{
  static const gchar op[] = "copy";

  if (stream->error || !present (stream, op, "the source", src) ||
      !present (stream, op, "the destination", dst) ||
      !same_shape (stream, op, "the destination", dst,
          dst->dtype == src->dtype ? KIND_ANY : KIND_FLOAT, src) ||
      !same_shape (stream, op, "the source", src,
          dst->dtype == src->dtype ? KIND_ANY : KIND_FLOAT, dst) ||
      !apart (stream, op, "the source", dst, src))
    return;
  stream->device->ops->copy (stream, dst, src);
}

void
h3_scale (H3Stream *stream, H3Tensor *y, const H3Tensor *x, gfloat factor)
{
  static const gchar op[] = "scale";

  if (stream->error || !present (stream, op, "x", x) ||
      !same_shape (stream, op, "x", x, KIND_F32, x) ||
      !same_shape (stream, op, "y", y, KIND_F32, x) ||
      (y->data != x->data && !apart (stream, op, "x", y, x)))
    return;
  stream->device->ops->scale (stream, y, x, factor);
}

/* The stream's memory as [rows, rank]; @view is for a few calls and nobody's
 * reference. */
static gboolean
low_rank_view (H3Stream *stream, gint64 rows, gint64 rank, H3Tensor *view)
{
  GError *error = NULL;

  if (!h3_stream_reserve_low_rank (stream, MAX (rows * rank, 1), &error)) {
    h3_stream_fail (stream, error->code, "linear: %s", error->message);
    g_error_free (error);
    return FALSE;
  }
  *view = *stream->low;
  view->rank = 2;
  view->shape[0] = rows;
  view->shape[1] = rank;
  view->bytes = rows * rank * h3_dtype_size (view->dtype);
  return TRUE;
}

/* y += x downᵀ upᵀ */
static void
add_low_rank (H3Stream *stream, const H3LinearArgs *args)
{
  const H3Weight *w = args->weight;
  H3Tensor low;
  const H3LinearArgs down = { .y = &low, .x = args->x, .weight = w->down };
  const H3LinearArgs up = { .y = args->y,
    .x = &low,
    .weight = w->up,
    .accumulate = TRUE };

  if (!low_rank_view (stream, h3_tensor_rows (args->x), w->down->rows, &low))
    return;
  stream->device->ops->linear (stream, &down);
  if (!stream->error)
    stream->device->ops->linear (stream, &up);
}

/* Its two factors fit each other, and the weight. */
static gboolean
low_rank_fits (H3Stream *stream, const gchar *op, const H3Weight *w)
{
  return MATRIX_WEIGHT (w->down, ANY, w->cols) &&
         MATRIX_WEIGHT (w->up, w->rows, w->down->rows);
}

void
h3_linear (H3Stream *stream, const H3LinearArgs *args)
{
  static const gchar op[] = "linear";
  gint64 n;

  if (stream->error || !MATRIX ("x", args->x, KIND_ACT, ANY, ANY) ||
      !MATRIX_WEIGHT (args->weight, ANY, h3_tensor_cols (args->x)))
    return;
  n = args->weight->rows;
  if (!MATRIX ("y", args->y, KIND_ACT, h3_tensor_rows (args->x), n) ||
      (args->bias && !VECTOR ("the bias", args->bias, KIND_F32, n)) ||
      !apart (stream, op, "x", args->y, args->x) ||
      (args->weight->down && !low_rank_fits (stream, op, args->weight)))
    return;
  if (h3_tensor_cols (args->x) == 0)
    refuse (stream, op, "x has no columns");
  else if (args->accumulate && args->activation != H3_ACTIVATION_NONE)
    refuse (stream, op, "an activation and accumulate exclude each other");
  else if (args->weight->down && args->activation != H3_ACTIVATION_NONE)
    refuse (stream, op, "an activation and a low rank exclude each other");
  else
    stream->device->ops->linear (stream, args);
  if (args->weight->down && !stream->error)
    add_low_rank (stream, args);
}

void
h3_linear_swiglu (H3Stream *stream, const H3LinearSwigluArgs *args)
{
  static const gchar op[] = "linear_swiglu";
  gint64 m, f;

  if (stream->error || !MATRIX ("x", args->x, KIND_ACT, ANY, ANY) ||
      !MATRIX ("y", args->y, KIND_ACT, h3_tensor_rows (args->x), ANY))
    return;
  m = h3_tensor_rows (args->x);
  f = h3_tensor_cols (args->y);
  if (!MATRIX_WEIGHT (args->weight, 2 * f, h3_tensor_cols (args->x)) ||
      (args->bias && !VECTOR ("the bias", args->bias, KIND_F32, 2 * f)) ||
      !MATRIX ("gate_up", args->gate_up, KIND_ACT, m, 2 * f) ||
      !apart (stream, op, "x", args->y, args->x) ||
      !apart (stream, op, "gate_up", args->y, args->gate_up) ||
      !apart (stream, op, "x", args->gate_up, args->x))
    return;
  if (h3_tensor_cols (args->x) == 0) {
    refuse (stream, op, "x has no columns");
  } else if (args->weight->down) {
    h3_linear (stream, &(H3LinearArgs){ .y = args->gate_up,
                           .x = args->x,
                           .weight = args->weight,
                           .bias = args->bias });
    h3_swiglu (stream, args->y, args->gate_up);
  } else {
    stream->device->ops->linear_swiglu (stream, args);
  }
}

void
h3_embedding (H3Stream *stream, H3Tensor *y, const H3Weight *weight,
    const H3Tensor *ids)
{
  static const gchar op[] = "embedding";

  if (stream->error || !VECTOR ("ids", ids, KIND_I32, ANY) ||
      !MATRIX_WEIGHT (weight, ANY, ANY) ||
      (weight->down && !refuse (stream, op, "a low rank is not looked up")) ||
      !MATRIX ("y", y, KIND_ACT, ids->shape[0], weight->cols))
    return;
  stream->device->ops->embedding (stream, y, weight, ids);
}

void
h3_quantise_rows (H3Stream *stream, H3Tensor *q, H3Tensor *scale,
    const H3Tensor *x)
{
  static const gchar op[] = "quantise_rows";

  if (stream->error || !MATRIX ("x", x, KIND_FLOAT, ANY, ANY) ||
      !MATRIX ("q", q, KIND_U8, h3_tensor_rows (x), h3_tensor_cols (x)) ||
      !VECTOR ("scale", scale, KIND_F32, h3_tensor_rows (x)) ||
      !apart (stream, op, "x", q, x) || !apart (stream, op, "x", scale, x))
    return;
  stream->device->ops->quantise_rows (stream, q, scale, x);
}

void
h3_scatter_rows (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows)
{
  static const gchar op[] = "scatter_rows";

  if (stream->error || !MATRIX ("x", x, KIND_ACT, ANY, ANY) ||
      !MATRIX ("y", y, KIND_ACT, ANY, h3_tensor_cols (x)) ||
      !VECTOR ("rows", rows, KIND_I32, h3_tensor_rows (x)) ||
      !apart (stream, op, "x", y, x))
    return;
  stream->device->ops->scatter_rows (stream, y, x, rows);
}

void
h3_add_rows (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows)
{
  static const gchar op[] = "add_rows";

  if (stream->error || !MATRIX ("x", x, KIND_ACT, ANY, ANY) ||
      !MATRIX ("y", y, KIND_ACT, ANY, h3_tensor_cols (x)) ||
      !VECTOR ("rows", rows, KIND_I32, h3_tensor_rows (x)) ||
      !apart (stream, op, "x", y, x))
    return;
  stream->device->ops->add_rows (stream, y, x, rows);
}

void
h3_mix_rows (H3Stream *stream, const H3MixRowsArgs *args)
{
  static const gchar op[] = "mix_rows";

  if (stream->error || !MATRIX ("y", args->y, KIND_ACT, ANY, ANY) ||
      !WEIGHT (args->weight, ANY, h3_tensor_cols (args->y)) ||
      !MATRIX ("ids", args->ids, KIND_I32, h3_tensor_rows (args->y), ANY) ||
      !MATRIX ("mix", args->mix, KIND_F32, h3_tensor_rows (args->y),
          h3_tensor_cols (args->ids)))
    return;
  stream->device->ops->mix_rows (stream, args);
}

void
h3_picture_patches (H3Stream *stream, const H3PicturePatchesArgs *args)
{
  static const gchar op[] = "picture_patches";
  const gint64 *shape;
  gint64 p = args->patch;

  if (stream->error ||
      !SHAPED ("pixels", args->pixels, KIND_U8, ANY, ANY, ANY, 3))
    return;
  shape = args->pixels->shape;
  if (p < 1 || p > 256 || shape[1] % (2 * p) != 0 || shape[2] % (2 * p) != 0) {
    refuse (stream, op,
        "frames of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
        " cannot be cut into groups of 2 x 2 patches of %" G_GINT64_FORMAT,
        shape[2], shape[1], p);
    return;
  }
  if (!MATRIX ("y", args->y, KIND_ACT,
          (shape[0] + 1) / 2 * (shape[1] / p) * (shape[2] / p), 6 * p * p))
    return;
  stream->device->ops->picture_patches (stream, args);
}

void
h3_rms_norm (H3Stream *stream, const H3RmsNormArgs *args)
{
  static const gchar op[] = "rms_norm";
  gint64 s, h;

  if (stream->error || !MATRIX ("x", args->x, KIND_ACT, ANY, ANY))
    return;
  s = h3_tensor_rows (args->x);
  h = h3_tensor_cols (args->x);
  if (!MATRIX ("y", args->y, KIND_ACT, s, h) ||
      !VECTOR ("the weight", args->weight, KIND_F32, h) ||
      !apart (stream, op, "x", args->y, args->x))
    return;
  if (args->table &&
      (!table_shaped (stream, op, args->table, args->rows, s, h, args->shift) ||
          !table_shaped (stream, op, args->table, args->rows, s, h,
              args->scale)))
    return;
  stream->device->ops->rms_norm (stream, args);
}

void
h3_residual_norm (H3Stream *stream, const H3ResidualNormArgs *args)
{
  static const gchar op[] = "residual_norm";
  gint64 s, h;

  if (stream->error || !MATRIX ("x", args->x, KIND_ACT, ANY, ANY))
    return;
  s = h3_tensor_rows (args->x);
  h = h3_tensor_cols (args->x);
  if (!MATRIX ("the branch", args->branch, KIND_ACT, s, h) ||
      !VECTOR ("the scale", args->scale, KIND_F32, h) ||
      !MATRIX ("y", args->y, KIND_ACT, s, h) ||
      !VECTOR ("the weight", args->weight, KIND_F32, h) ||
      !apart (stream, op, "the branch", args->x, args->branch) ||
      !apart (stream, op, "x", args->y, args->x) ||
      (args->y->data != args->branch->data &&
          !apart (stream, op, "the branch", args->y, args->branch)))
    return;
  stream->device->ops->residual_norm (stream, args);
}

void
h3_layer_norm (H3Stream *stream, const H3LayerNormArgs *args)
{
  static const gchar op[] = "layer_norm";
  gint64 h;

  if (stream->error || !MATRIX ("x", args->x, KIND_ACT, ANY, ANY))
    return;
  h = h3_tensor_cols (args->x);
  if (!MATRIX ("y", args->y, KIND_ACT, h3_tensor_rows (args->x), h) ||
      !VECTOR ("the weight", args->weight, KIND_F32, h) ||
      !VECTOR ("the bias", args->bias, KIND_F32, h) ||
      !apart (stream, op, "x", args->y, args->x))
    return;
  stream->device->ops->layer_norm (stream, args);
}

static gboolean
heads_fit (H3Stream *stream, const gchar *op, guint heads, guint kv_heads,
    guint head_dim)
{
  if (heads == 0 || kv_heads == 0 || head_dim == 0 || heads % kv_heads != 0)
    return refuse (stream, op, "%u heads of %u cannot share %u kv heads", heads,
        head_dim, kv_heads);
  return TRUE;
}

void
h3_qk_norm_rope (H3Stream *stream, const H3QkNormRopeArgs *args)
{
  static const gchar op[] = "qk_norm_rope";
  gint64 d = args->head_dim;

  if (stream->error ||
      !heads_fit (stream, op, args->heads, args->kv_heads, args->head_dim) ||
      !MATRIX ("qkv", args->qkv, KIND_ACT, ANY,
          (args->heads + 2 * (gint64) args->kv_heads) * d))
    return;
  if (!args->q_norm != !args->k_norm || !args->cos != !args->sin) {
    refuse (stream, op, "one of a pair (q_norm, k_norm; cos, sin) is missing");
    return;
  }
  if (args->no_norm && args->q_norm) {
    refuse (stream, op, "no_norm and q_norm exclude each other");
    return;
  }
  if (args->q_norm && (!VECTOR ("q_norm", args->q_norm, KIND_F32, d) ||
                          !VECTOR ("k_norm", args->k_norm, KIND_F32, d)))
    return;
  if (args->cos) {
    if (!SHAPED ("cos", args->cos, KIND_F32, ANY, ANY) ||
        !same_shape (stream, op, "sin", args->sin, KIND_F32, args->cos))
      return;
    if (args->cos->shape[0] < 1 || args->cos->shape[1] > d / 2) {
      refuse (stream, op,
          "the rotary table is [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
          "], needs at least one row and at most %" G_GINT64_FORMAT " columns",
          args->cos->shape[0], args->cos->shape[1], d / 2);
      return;
    }
  }
  stream->device->ops->qk_norm_rope (stream, args);
}

void
h3_attention (H3Stream *stream, const H3AttentionArgs *args)
{
  static const gchar op[] = "attention";
  gint64 s, d = args->head_dim;

  if (stream->error ||
      !heads_fit (stream, op, args->heads, args->kv_heads, args->head_dim) ||
      !MATRIX ("qkv", args->qkv, KIND_ACT, ANY,
          (args->heads + 2 * (gint64) args->kv_heads) * d))
    return;
  s = h3_tensor_rows (args->qkv);
  if (!MATRIX ("y", args->y, KIND_ACT, s, args->heads * d) ||
      !apart (stream, op, "qkv", args->y, args->qkv))
    return;
  if (args->n_sequences == 0 || s % args->n_sequences != 0)
    refuse (stream, op,
        "%" G_GINT64_FORMAT " rows cannot be cut into %u "
        "equal sequences",
        s, args->n_sequences);
  else
    stream->device->ops->attention (stream, args);
}

void
h3_swiglu (H3Stream *stream, H3Tensor *y, const H3Tensor *gate_up)
{
  static const gchar op[] = "swiglu";

  if (stream->error || !MATRIX ("y", y, KIND_ACT, ANY, ANY) ||
      !MATRIX ("gate_up", gate_up, KIND_ACT, h3_tensor_rows (y),
          2 * h3_tensor_cols (y)) ||
      !apart (stream, op, "gate_up", y, gate_up))
    return;
  stream->device->ops->swiglu (stream, y, gate_up);
}

void
h3_scaled_residual (H3Stream *stream, H3Tensor *x, const H3Tensor *branch,
    const H3Tensor *scale)
{
  static const gchar op[] = "scaled_residual";

  if (stream->error || !MATRIX ("x", x, KIND_ACT, ANY, ANY) ||
      !MATRIX ("the branch", branch, KIND_ACT, h3_tensor_rows (x),
          h3_tensor_cols (x)) ||
      !VECTOR ("the scale", scale, KIND_F32, h3_tensor_cols (x)) ||
      !apart (stream, op, "the branch", x, branch))
    return;
  stream->device->ops->scaled_residual (stream, x, branch, scale);
}

void
h3_gated_residual (H3Stream *stream, H3Tensor *x, const H3Tensor *branch,
    const H3Tensor *table, const H3Tensor *rows, guint gate)
{
  static const gchar op[] = "gated_residual";

  if (stream->error || !MATRIX ("x", x, KIND_ACT, ANY, ANY) ||
      !MATRIX ("the branch", branch, KIND_ACT, h3_tensor_rows (x),
          h3_tensor_cols (x)) ||
      !table_shaped (stream, op, table, rows, h3_tensor_rows (x),
          h3_tensor_cols (x), gate) ||
      !apart (stream, op, "the branch", x, branch))
    return;
  stream->device->ops->gated_residual (stream, x, branch, table, rows, gate);
}

void
h3_solver_step (H3Stream *stream, const H3SolverArgs *args)
{
  static const gchar op[] = "solver_step";

  if (stream->error || !present (stream, op, "x", args->x) ||
      !same_shape (stream, op, "x", args->x, KIND_F32, args->x) ||
      !same_shape (stream, op, "v", args->v, KIND_F32, args->x) ||
      !apart (stream, op, "v", args->x, args->v))
    return;
  if (args->d_prev &&
      (!same_shape (stream, op, "d_prev", args->d_prev, KIND_F32, args->x) ||
          !apart (stream, op, "d_prev", args->x, args->d_prev)))
    return;
  if (args->c != 0 && !args->d_prev)
    refuse (stream, op, "c = %g needs d_prev", args->c);
  else
    stream->device->ops->solver_step (stream, args);
}

void
h3_latent_tile (H3Stream *stream, const H3LatentTileArgs *args)
{
  static const gchar op[] = "latent_tile";
  const gint64 *shape;

  if (stream->error ||
      !SHAPED ("the latent", args->latent, KIND_F32, ANY, ANY, ANY, ANY))
    return;
  shape = args->latent->shape;
  if (args->t < 1 || args->h < 1 || args->w < 1 || args->t0 < 0 ||
      args->y0 < 0 || args->x0 < 0 || shape[1] < 1 ||
      args->y0 > shape[2] - args->h || args->x0 > shape[3] - args->w) {
    refuse (stream, op,
        "a tile of %d x %d x %d at (%d, %d, %d) is not inside "
        "a latent of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
        " x %" G_GINT64_FORMAT,
        args->t, args->h, args->w, args->t0, args->y0, args->x0, shape[1],
        shape[2], shape[3]);
    return;
  }
  if (!MATRIX ("y", args->y, KIND_ACT, (gint64) args->t * args->h * args->w,
          shape[0]) ||
      !VECTOR ("the mean", args->mean, KIND_F32, shape[0]) ||
      !VECTOR ("the std", args->std, KIND_F32, shape[0]) ||
      !apart (stream, op, "the latent", args->y, args->latent))
    return;
  stream->device->ops->latent_tile (stream, args);
}

/* Tiles in order, without gaps, all inside, cut in whole patches. */
static gboolean
axis_fits (H3Stream *stream, const gchar *op, const gchar *name,
    const H3TileAxis *axis, gint64 length, gint patch)
{
  if (!axis)
    return refuse (stream, op, "%s is missing", name);
  if (axis->length != length || axis->n < 1 || axis->n > H3_MAX_TILES ||
      axis->tile < 1 || axis->tile % patch != 0 || axis->start[0] != 0 ||
      axis->start[axis->n - 1] != axis->length - axis->tile)
    return refuse (stream, op,
        "%s: %d tiles of %d do not cover %" G_GINT64_FORMAT
        " pixels in patches of %d",
        name, axis->n, axis->tile, length, patch);
  for (gint k = 0; k + 1 < axis->n; k++)
    if (axis->overlap[k] < 0 || axis->overlap[k] >= axis->tile ||
        axis->start[k + 1] != axis->start[k] + axis->tile - axis->overlap[k])
      return refuse (stream, op, "%s: tile %d does not follow tile %d", name,
          k + 1, k);
  return TRUE;
}

void
h3_compose_tiles (H3Stream *stream, const H3ComposeTilesArgs *args)
{
  static const gchar op[] = "compose_tiles";
  gint64 tokens, frames;

  if (stream->error || !SHAPED ("y", args->y, KIND_F32, ANY, ANY, ANY, ANY))
    return;
  if (args->patch_t < 1 || args->patch < 1 || args->patch_t > 256 ||
      args->patch > 256 || args->first_frame < 0) {
    refuse (stream, op,
        "a patch of %d x %d x %d from frame %d on is not "
        "possible",
        args->patch_t, args->patch, args->patch, args->first_frame);
    return;
  }
  if (!axis_fits (stream, op, "axis y", args->axis_y, args->y->shape[2],
          args->patch) ||
      !axis_fits (stream, op, "axis x", args->axis_x, args->y->shape[3],
          args->patch) ||
      !SHAPED ("tiles", args->tiles, KIND_ACT,
          (gint64) args->axis_y->n * args->axis_x->n, ANY,
          args->y->shape[0] * args->patch_t * args->patch * args->patch) ||
      !apart (stream, op, "tiles", args->y, args->tiles))
    return;
  frames = args->first_frame + args->y->shape[1];
  tokens = (frames + args->patch_t - 1) / args->patch_t *
           (args->axis_y->tile / args->patch) *
           (args->axis_x->tile / args->patch);
  if (tokens > args->tiles->shape[1])
    refuse (stream, op,
        "%" G_GINT64_FORMAT " frames need %" G_GINT64_FORMAT
        " tokens a tile, found %" G_GINT64_FORMAT,
        frames, tokens, args->tiles->shape[1]);
  else
    stream->device->ops->compose_tiles (stream, args);
}

void
h3_blend_frames (H3Stream *stream, const H3BlendFramesArgs *args)
{
  static const gchar op[] = "blend_frames";

  if (stream->error || !SHAPED ("y", args->y, KIND_F32, 3, ANY, ANY, ANY) ||
      !SHAPED ("previous", args->previous, KIND_F32, 3, ANY, args->y->shape[2],
          args->y->shape[3]) ||
      !apart (stream, op, "previous", args->y, args->previous))
    return;
  if (args->previous->shape[1] > args->y->shape[1])
    refuse (stream, op,
        "%" G_GINT64_FORMAT " previous frames are more than "
        "the %" G_GINT64_FORMAT " new ones",
        args->previous->shape[1], args->y->shape[1]);
  else
    stream->device->ops->blend_frames (stream, args);
}

static gboolean
picture_fits (H3Stream *stream, const gchar *op, const H3Picture *picture)
{
  gint w = picture->width;
  gint chroma = w / 2 + w % 2;
  gint64 row[3] = { w, 0, 0 };

  switch (picture->format) {
    case H3_PICTURE_NV12:
      row[1] = 2 * (gint64) chroma;
      break;
    case H3_PICTURE_I420:
      row[1] = row[2] = chroma;
      break;
    case H3_PICTURE_Y444:
      row[1] = row[2] = w;
      break;
    case H3_PICTURE_RGB:
      row[0] = 3 * (gint64) w;
      break;
    case H3_PICTURE_RGBA:
      row[0] = 4 * (gint64) w;
      break;
    default:
      return refuse (stream, op, "no picture format %d", picture->format);
  }
  for (gint i = 0; i < 3; i++)
    if (row[i] && (!picture->plane[i] || picture->stride[i] < row[i]))
      return refuse (stream, op,
          "plane %d has a stride of %d, needs %" G_GINT64_FORMAT " bytes", i,
          picture->plane[i] ? picture->stride[i] : 0, row[i]);
  return TRUE;
}

void
h3_emit_picture (H3Stream *stream, const H3EmitPictureArgs *args)
{
  static const gchar op[] = "emit_picture";

  if (stream->error || !SHAPED ("pixels", args->pixels, KIND_F32, 3, ANY,
                           args->picture.height, args->picture.width))
    return;
  if (args->frame < 0 || args->frame >= args->pixels->shape[1])
    refuse (stream, op, "frame %d is not among %" G_GINT64_FORMAT, args->frame,
        args->pixels->shape[1]);
  else if (picture_fits (stream, op, &args->picture))
    stream->device->ops->emit_picture (stream, args);
}

void
h3_conv1d (H3Stream *stream, const H3Conv1dArgs *args)
{
  static const gchar op[] = "conv1d";
  gint64 b, co, k, room, lo;

  if (stream->error || !SHAPED ("x", args->x, KIND_F32, ANY, ANY, ANY) ||
      !WEIGHT (args->weight, ANY, args->x->shape[1], ANY))
    return;
  b = args->x->shape[0];
  co = args->weight->tensor->shape[0];
  k = args->weight->tensor->shape[2];
  room = args->x->shape[2] + 2 * (gint64) args->pad;
  if (args->stride < 1 || args->dilation < 1 || args->pad < 0 || k < 1 ||
      (room - 1) / args->dilation < k - 1 || room < 1) {
    refuse (stream, op,
        "a kernel of %" G_GINT64_FORMAT " (stride %d, "
        "dilation %d, pad %d) does not fit into length %" G_GINT64_FORMAT,
        k, args->stride, args->dilation, args->pad, args->x->shape[2]);
    return;
  }
  lo = (room - args->dilation * (k - 1) - 1) / args->stride + 1;
  if (!SHAPED ("y", args->y, KIND_F32, b, co, lo) ||
      (args->bias && !VECTOR ("the bias", args->bias, KIND_F32, co)) ||
      (args->residual &&
          !SHAPED ("the residual", args->residual, KIND_F32, b, co, lo)) ||
      !apart (stream, op, "x", args->y, args->x) ||
      (args->residual && args->residual->data != args->y->data &&
          !apart (stream, op, "the residual", args->y, args->residual)))
    return;
  stream->device->ops->conv1d (stream, args);
}

void
h3_conv_transpose1d (H3Stream *stream, const H3ConvTranspose1dArgs *args)
{
  static const gchar op[] = "conv_transpose1d";
  gint64 co, k;

  if (stream->error || !SHAPED ("x", args->x, KIND_F32, ANY, ANY, ANY) ||
      !WEIGHT (args->weight, args->x->shape[1], ANY, ANY))
    return;
  co = args->weight->tensor->shape[1];
  k = args->weight->tensor->shape[2];
  if (args->stride < 1 || k < args->stride || (k - args->stride) % 2 != 0) {
    refuse (stream, op,
        "a kernel of %" G_GINT64_FORMAT " and stride %d: "
        "their difference needs to be even and not negative",
        k, args->stride);
    return;
  }
  if (!SHAPED ("y", args->y, KIND_F32, args->x->shape[0], co,
          args->stride * args->x->shape[2]) ||
      (args->bias && !VECTOR ("the bias", args->bias, KIND_F32, co)) ||
      !apart (stream, op, "x", args->y, args->x))
    return;
  stream->device->ops->conv_transpose1d (stream, args);
}

void
h3_snake_beta (H3Stream *stream, const H3SnakeBetaArgs *args)
{
  static const gchar op[] = "snake_beta";
  gint64 c;

  if (stream->error || !SHAPED ("x", args->x, KIND_F32, ANY, ANY, ANY))
    return;
  c = args->x->shape[1];
  if (!same_shape (stream, op, "y", args->y, KIND_F32, args->x) ||
      !VECTOR ("a", args->a, KIND_F32, c) ||
      !VECTOR ("inv_b", args->inv_b, KIND_F32, c) ||
      !VECTOR ("up_filter", args->up_filter, KIND_F32, 12) ||
      !VECTOR ("down_filter", args->down_filter, KIND_F32, 12) ||
      !apart (stream, op, "x", args->y, args->x))
    return;
  stream->device->ops->snake_beta (stream, args);
}

void
h3_mean3 (H3Stream *stream, H3Tensor *y, const H3Tensor *a, const H3Tensor *b,
    const H3Tensor *c)
{
  static const gchar op[] = "mean3";

  if (stream->error || !present (stream, op, "y", y) ||
      !same_shape (stream, op, "y", y, KIND_F32, y) ||
      !same_shape (stream, op, "a", a, KIND_F32, y) ||
      !same_shape (stream, op, "b", b, KIND_F32, y) ||
      (c && !same_shape (stream, op, "c", c, KIND_F32, y)) ||
      (y->data != a->data && !apart (stream, op, "a", y, a)) ||
      (y->data != b->data && !apart (stream, op, "b", y, b)) ||
      (c && y->data != c->data && !apart (stream, op, "c", y, c)))
    return;
  stream->device->ops->mean3 (stream, y, a, b, c);
}

void
h3_interleave_clamp (H3Stream *stream, H3Tensor *y, const H3Tensor *x)
{
  static const gchar op[] = "interleave_clamp";

  if (stream->error || !SHAPED ("x", x, KIND_F32, ANY, 1, ANY) ||
      !MATRIX ("y", y, KIND_F32, x->shape[2], x->shape[0]) ||
      !apart (stream, op, "x", y, x))
    return;
  stream->device->ops->interleave_clamp (stream, y, x);
}

void
h3_video_rows_to_latent (H3Stream *stream, H3Tensor *latent,
    const H3Tensor *rows)
{
  static const gchar op[] = "video_rows_to_latent";
  const gint64 *shape;

  if (stream->error ||
      !SHAPED ("the latent", latent, KIND_F32, ANY, ANY, ANY, ANY))
    return;
  shape = latent->shape;
  if (shape[2] % 2 != 0 || shape[3] % 2 != 0) {
    refuse (stream, op,
        "a latent of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
        " cannot be cut into 2 x 2 patches",
        shape[2], shape[3]);
    return;
  }
  if (!MATRIX ("rows", rows, KIND_F32,
          shape[1] * (shape[2] / 2) * (shape[3] / 2), 4 * shape[0]) ||
      !apart (stream, op, "rows", latent, rows))
    return;
  stream->device->ops->video_rows_to_latent (stream, latent, rows);
}

void
h3_audio_rows_to_latent (H3Stream *stream, H3Tensor *latent,
    const H3Tensor *rows)
{
  static const gchar op[] = "audio_rows_to_latent";

  if (stream->error || !SHAPED ("the latent", latent, KIND_F32, 2, ANY, ANY) ||
      !MATRIX ("rows", rows, KIND_F32, 2 * latent->shape[2],
          latent->shape[1]) ||
      !apart (stream, op, "rows", latent, rows))
    return;
  stream->device->ops->audio_rows_to_latent (stream, latent, rows);
}

void
h3_count_nonfinite (H3Stream *stream, H3Tensor *count, const H3Tensor *x)
{
  static const gchar op[] = "count_nonfinite";

  if (stream->error || !VECTOR ("count", count, KIND_I32, 1) ||
      !present (stream, op, "x", x) ||
      !same_shape (stream, op, "x", x, KIND_FLOAT, x))
    return;
  stream->device->ops->count_nonfinite (stream, count, x);
}
