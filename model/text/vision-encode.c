/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One picture or clip after the other through the vision tower
 * (text-encoder.md 5):
 *
 *   x = W patch + b + position (row, column)
 *   per block:
 *     x = x + proj (attention of each temporal block's patches (LN1 (x)))
 *     x = x + fc2 (gelu_tanh (fc1 (LN2 (x))))
 *   tokens = fc2 (gelu_erf (fc1 (LN (x) of 4 patches)))
 *   deepstack_i = the same of the output of block deepstack[i], LN over all 4
 *
 * The residual stream x is float32. */
#include <math.h>

#include "model/text/vision-inputs.h"
#include "model/text/vision-layers.h"

#define LN_EPS 1e-6f
#define MERGED (H3_VISION_MERGE * H3_VISION_MERGE)
#define PATCH_SIZE (3 * H3_VISION_TEMPORAL * H3_VISION_PATCH * H3_VISION_PATCH)

/* Patches the MLP takes at a time: bounds its widest rows. */
#define MLP_ROWS 8192

typedef struct {
  H3Tensor *x, *normed, *ffn;
} Chunk;

/* Everything one picture or clip is worked on in. */
typedef struct {
  gint patches, block_patches, blocks;
  H3Tensor *pixels;    /* [frames, height, width, 3] uint8 */
  H3Tensor *patch;     /* [patches, 1536] */
  H3Tensor *ids, *mix; /* [patches, 4]: of the position table */
  H3Tensor *cos, *sin; /* [block_patches, head_dim / 2] float32 */
  H3Tensor *x;         /* [patches, hidden] float32 */
  H3Tensor *normed;    /* [patches, hidden] */
  H3Tensor *qkv;       /* [patches, 3 hidden] */
  H3Tensor *attended;  /* [patches, hidden] */
  H3Tensor *ffn;       /* [rows, ffn], rows = min (patches, MLP_ROWS) */
  H3Tensor *merged;    /* [patches / 4, 4 hidden]: a merger's first product */
  H3Tensor *x4, *normed4; /* x and normed as [patches / 4, 4 hidden] */
  Chunk *chunks;          /* [n_chunks] */
  guint n_chunks;
} Pass;

static void
pass_clear (Pass *pass)
{
  H3Tensor **tensors[] = { &pass->pixels, &pass->patch, &pass->ids, &pass->mix,
    &pass->cos, &pass->sin, &pass->x, &pass->normed, &pass->qkv,
    &pass->attended, &pass->ffn, &pass->merged, &pass->x4, &pass->normed4 };

  for (guint i = 0; i < pass->n_chunks; i++) {
    h3_tensor_unref (pass->chunks[i].x);
    h3_tensor_unref (pass->chunks[i].normed);
    h3_tensor_unref (pass->chunks[i].ffn);
  }
  g_clear_pointer (&pass->chunks, g_free);
  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++)
    g_clear_pointer (tensors[i], h3_tensor_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Pass, pass_clear)

void
h3_vision_features_free (H3VisionFeatures *features)
{
  g_clear_pointer (&features->tokens, h3_tensor_unref);
  for (guint i = 0; i < H3_VISION_MAX_DEEPSTACK; i++)
    g_clear_pointer (&features->deepstack[i], h3_tensor_unref);
  g_free (features);
}

/* --- memory --- */

static void
make_views (Pass *pass, const H3VisionConfig *config)
{
  const gint64 four[] = { pass->patches / MERGED,
    MERGED * (gint64) config->hidden };

  pass->x4 = h3_tensor_view (pass->x, 0, 2, four);
  pass->normed4 = h3_tensor_view (pass->normed, 0, 2, four);
  pass->n_chunks = (pass->patches + MLP_ROWS - 1) / MLP_ROWS;
  pass->chunks = g_new (Chunk, pass->n_chunks);
  for (guint i = 0; i < pass->n_chunks; i++) {
    const gint64 first = (gint64) i * MLP_ROWS;
    const gint64 rows = MIN (MLP_ROWS, pass->patches - first);

    pass->chunks[i].x = h3_tensor_view_rows (pass->x, first, rows);
    pass->chunks[i].normed = h3_tensor_view_rows (pass->normed, first, rows);
    pass->chunks[i].ffn = h3_tensor_view_rows (pass->ffn, 0, rows);
  }
}

static gboolean
pass_init (Pass *pass, const H3VisionConfig *config,
    const H3TextCondition *condition, H3Device *device, GError **error)
{
  const H3VisionSize *size = &condition->size;
  const H3DType act = device->act_dtype;
  const gint64 hidden = config->hidden;
  gint64 n;

  pass->blocks = size->blocks;
  pass->block_patches = size->grid_h * size->grid_w;
  pass->patches = pass->blocks * pass->block_patches;
  n = pass->patches;

  const struct {
    H3Tensor **tensor;
    H3DType dtype;
    gint64 rows, cols;
  } tensors[] = {
    { &pass->patch, act, n, PATCH_SIZE },
    { &pass->x, H3_DTYPE_F32, n, hidden },
    { &pass->normed, act, n, hidden },
    { &pass->qkv, act, n, 3 * hidden },
    { &pass->attended, act, n, hidden },
    { &pass->ffn, act, MIN (n, MLP_ROWS), config->ffn },
    { &pass->merged, act, n / MERGED, MERGED * hidden },
  };

  pass->pixels = h3_vision_make_pixels (condition, device, error);
  if (!pass->pixels ||
      !h3_vision_make_positions (config, size, device, &pass->ids, &pass->mix,
          error) ||
      !h3_vision_make_rope (config, size, device, &pass->cos, &pass->sin,
          error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++) {
    *tensors[i].tensor = h3_tensor_new_2d (device, tensors[i].dtype,
        tensors[i].rows, tensors[i].cols, error);
    if (!*tensors[i].tensor)
      return FALSE;
  }
  make_views (pass, config);
  return TRUE;
}

/* The tensors of pass_init(). */
static guint64
pass_bytes (const H3VisionConfig *config, const H3Device *device,
    const H3TextCondition *condition)
{
  const H3VisionSize *size = &condition->size;
  const guint64 act = h3_dtype_size (device->act_dtype);
  const guint64 block = (guint64) size->grid_h * size->grid_w;
  const guint64 patches = size->blocks * block, hidden = config->hidden;

  return (guint64) condition->n_images * size->width * size->height * 3 +
         patches * (PATCH_SIZE * act + 8 * sizeof (gfloat) +
                       hidden * (sizeof (gfloat) + 6 * act)) +
         block * hidden / config->heads * sizeof (gfloat) +
         MIN (patches, MLP_ROWS) * config->ffn * act;
}

guint64
h3_vision_model_workspace (const H3VisionConfig *config, const H3Device *device,
    const H3TextCondition *const *conditions, guint n)
{
  guint64 most = 0, tokens = 0;

  for (guint i = 0; i < n; i++) {
    if (conditions[i]->n_images == 0)
      continue;
    most = MAX (most, pass_bytes (config, device, conditions[i]));
    tokens += h3_text_condition_tokens (conditions[i]);
  }
  if (most == 0)
    return 0;
  return most +
         tokens * (1 + config->n_deepstack) * config->out_hidden *
             h3_dtype_size (device->act_dtype) +
         h3_device_decode_bytes (device, config->encoded);
}

/* --- the tower --- */

static void
run_norm (H3Stream *stream, const H3VisionNorm *norm, H3Tensor *y,
    const H3Tensor *x)
{
  const H3LayerNormArgs args = {
    .y = y,
    .x = x,
    .weight = norm->weight,
    .bias = norm->bias,
    .eps = LN_EPS,
  };

  h3_layer_norm (stream, &args);
}

static void
run_linear (H3Stream *stream, const H3VisionLinear *linear, H3Tensor *y,
    const H3Tensor *x, H3Activation activation)
{
  const H3LinearArgs args = {
    .y = y,
    .x = x,
    .weight = linear->weight,
    .bias = linear->bias,
    .activation = activation,
  };

  h3_linear (stream, &args);
}

/* y += linear (x) */
static void
add_linear (H3Stream *stream, const H3VisionLinear *linear, H3Tensor *y,
    const H3Tensor *x)
{
  const H3LinearArgs args = {
    .y = y,
    .x = x,
    .weight = linear->weight,
    .bias = linear->bias,
    .accumulate = TRUE,
  };

  h3_linear (stream, &args);
}

static void
run_embedding (const H3VisionModel *model, Pass *pass, H3Stream *stream)
{
  const H3PicturePatchesArgs patches = {
    .y = pass->patch,
    .pixels = pass->pixels,
    .patch = H3_VISION_PATCH,
  };
  const H3MixRowsArgs positions = {
    .y = pass->x,
    .weight = model->pos_embed,
    .ids = pass->ids,
    .mix = pass->mix,
  };

  h3_picture_patches (stream, &patches);
  run_linear (stream, &model->patch_embed, pass->x, pass->patch,
      H3_ACTIVATION_NONE);
  h3_mix_rows (stream, &positions);
}

static void
run_attention (const H3VisionConfig *config, const H3VisionBlock *block,
    Pass *pass, H3Stream *stream)
{
  const gint head_dim = config->hidden / config->heads;
  const H3QkNormRopeArgs rope = {
    .qkv = pass->qkv,
    .heads = config->heads,
    .kv_heads = config->heads,
    .head_dim = head_dim,
    .no_norm = TRUE,
    .cos = pass->cos,
    .sin = pass->sin,
  };
  const H3AttentionArgs attention = {
    .y = pass->attended,
    .qkv = pass->qkv,
    .heads = config->heads,
    .kv_heads = config->heads,
    .head_dim = head_dim,
    .n_sequences = pass->blocks,
    .scale = 1.0 / sqrt (head_dim),
  };

  run_norm (stream, &block->norm1, pass->normed, pass->x);
  run_linear (stream, &block->qkv, pass->qkv, pass->normed, H3_ACTIVATION_NONE);
  h3_qk_norm_rope (stream, &rope);
  h3_attention (stream, &attention);
  add_linear (stream, &block->proj, pass->x, pass->attended);
}

static void
run_mlp (const H3VisionBlock *block, Pass *pass, H3Stream *stream)
{
  run_norm (stream, &block->norm2, pass->normed, pass->x);
  for (guint i = 0; i < pass->n_chunks; i++) {
    const Chunk *chunk = &pass->chunks[i];

    run_linear (stream, &block->fc1, chunk->ffn, chunk->normed,
        H3_ACTIVATION_GELU_TANH);
    add_linear (stream, &block->fc2, chunk->x, chunk->ffn);
  }
}

/* @y: [patches / 4, out_hidden]; pass->normed4 is normed already */
static void
run_merger (const H3VisionMerger *merger, Pass *pass, H3Tensor *y,
    H3Stream *stream)
{
  run_linear (stream, &merger->fc1, pass->merged, pass->normed4,
      H3_ACTIVATION_GELU_ERF);
  run_linear (stream, &merger->fc2, y, pass->merged, H3_ACTIVATION_NONE);
}

static void
tap_numbered (const H3Tap *tap, const gchar *name, guint i, const H3Tensor *x)
{
  gchar full[32];

  if (!tap)
    return;
  g_snprintf (full, sizeof full, "%s.%u", name, i);
  h3_tap (tap, full, x);
}

/* @out: this picture's rows of the features */
static gboolean
run_tower (const H3VisionModel *model, Pass *pass, const H3VisionFeatures *out,
    H3Stream *stream, const H3Stop *stop, const H3Tap *tap, GError **error)
{
  const H3VisionConfig *config = &model->config;
  guint tapped = 0;

  run_embedding (model, pass, stream);
  h3_tap (tap, "patches", pass->patch);
  h3_tap (tap, "embedded", pass->x);
  for (gint i = 0; i < config->depth; i++) {
    if (h3_stop_requested (stop, error) || !h3_stream_check (stream, error))
      return FALSE;
    run_attention (config, &model->blocks[i], pass, stream);
    run_mlp (&model->blocks[i], pass, stream);
    tap_numbered (tap, "blocks", i, pass->x);
    if (tapped == config->n_deepstack || config->deepstack[tapped] != i)
      continue;
    run_norm (stream, &model->deepstack[tapped].norm, pass->normed4, pass->x4);
    run_merger (&model->deepstack[tapped], pass, out->deepstack[tapped],
        stream);
    tap_numbered (tap, "deepstack", tapped, out->deepstack[tapped]);
    tapped++;
  }
  run_norm (stream, &model->merger.norm, pass->normed, pass->x);
  run_merger (&model->merger, pass, out->tokens, stream);
  h3_tap (tap, "merger", out->tokens);
  return h3_stream_synchronize (stream, error);
}

/* --- the request --- */

static H3VisionFeatures *
features_new (const H3VisionConfig *config, H3Device *device, gint n,
    GError **error)
{
  g_autoptr (H3VisionFeatures) features = g_new0 (H3VisionFeatures, 1);

  features->n = n;
  features->n_deepstack = config->n_deepstack;
  features->tokens = h3_tensor_new_2d (device, device->act_dtype, n,
      config->out_hidden, error);
  if (!features->tokens)
    return NULL;
  for (guint i = 0; i < features->n_deepstack; i++) {
    features->deepstack[i] = h3_tensor_new_2d (device, device->act_dtype, n,
        config->out_hidden, error);
    if (!features->deepstack[i])
      return NULL;
  }
  return g_steal_pointer (&features);
}

/* Rows [first, first + n) of @all. */
static H3VisionFeatures *
features_view (const H3VisionFeatures *all, gint first, gint n)
{
  H3VisionFeatures *view = g_new0 (H3VisionFeatures, 1);

  view->n = n;
  view->n_deepstack = all->n_deepstack;
  view->tokens = h3_tensor_view_rows (all->tokens, first, n);
  for (guint i = 0; i < all->n_deepstack; i++)
    view->deepstack[i] = h3_tensor_view_rows (all->deepstack[i], first, n);
  return view;
}

static gboolean
encode_one (const H3VisionModel *model, H3Stream *stream,
    const H3TextCondition *condition, const H3VisionFeatures *out,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  g_auto (Pass) pass = { 0 };

  if (!pass_init (&pass, &model->config, condition, stream->device, error))
    return FALSE;
  if (!run_tower (model, &pass, out, stream, stop, tap, error)) {
    h3_stream_synchronize (stream, NULL); /* before its memory goes */
    return FALSE;
  }
  return TRUE;
}

static gboolean
count_tokens (const H3TextCondition *const *conditions, guint n, gint *tokens,
    GError **error)
{
  gint64 sum = 0;

  for (guint i = 0; i < n; i++) {
    if (!conditions[i]->finished) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "reference %u, a clip, was not finished", i + 1);
      return FALSE;
    }
    sum += h3_text_condition_tokens (conditions[i]);
  }
  if (sum < 1 || sum > G_MAXINT / MERGED) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "%u references are %" G_GINT64_FORMAT
        " vision tokens, 1 to %d can be encoded",
        n, sum, G_MAXINT / MERGED);
    return FALSE;
  }
  *tokens = (gint) sum;
  return TRUE;
}

H3VisionFeatures *
h3_vision_model_encode (H3VisionModel *model, H3Stream *stream,
    const H3TextCondition *const *conditions, guint n, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  g_autoptr (H3VisionFeatures) features = NULL;
  gint tokens, first = 0;

  if (!count_tokens (conditions, n, &tokens, error))
    return NULL;
  features = features_new (&model->config, stream->device, tokens, error);
  if (!features)
    return NULL;
  for (guint i = 0; i < n; i++) {
    const gint here = (gint) h3_text_condition_tokens (conditions[i]);
    g_autoptr (H3VisionFeatures) out = NULL;

    if (here == 0)
      continue;
    out = features_view (features, first, here);
    if (!encode_one (model, stream, conditions[i], out, stop, tap, error))
      return NULL;
    first += here;
  }
  return g_steal_pointer (&features);
}
