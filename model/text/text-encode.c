/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One forward pass of the language model (text-encoder.md 6):
 *
 *   h = E[id]
 *   per layer:
 *     a = RMSNorm (h, input_layernorm)
 *     q, k, v = Wq a, Wk a, Wv a;  q, k = rope (RMSNorm per head)
 *     h = h + Wo softmax (q kᵀ / sqrt (head_dim) + causal) v
 *     m = RMSNorm (h, post_attention_layernorm)
 *     h = h + Wdown (silu (Wgate m) * (Wup m))
 *     h[pads] = h[pads] + deepstack_l        in the first layers
 *
 * At the pads the vision tower's tokens stand in for E[id].
 *
 * The residual stream h is float32: it reaches 1e5 (text-encoder.md 7). */
#include <math.h>

#include "model/text/text-layers.h"

/* The MLP's intermediate rows are the widest: 100 kB a token in bfloat16. It
 * works on so many rows at a time, which bounds them without slowing it. */
#define MLP_ROWS 2048

/* The rows of one turn of the MLP. */
typedef struct {
  H3Tensor *h, *normed, *gate_up, *intermediate;
} Chunk;

/* Everything a pass works in; freed when it ends, after the stream ran dry. */
typedef struct {
  H3Tensor *h;            /* [n, hidden] float32 */
  H3Tensor *ids;          /* [n] int32 */
  H3Tensor *pads;         /* [n_pads] int32, or NULL */
  H3Tensor *cos, *sin;    /* [n, head_dim / 2] float32 */
  H3Tensor *normed;       /* [n, hidden] */
  H3Tensor *qkv;          /* [n, (heads + 2 kv_heads) head_dim] */
  H3Tensor *attended;     /* [n, heads head_dim] */
  H3Tensor *gate_up;      /* [rows, 2 ffn], rows = min (n, MLP_ROWS) */
  H3Tensor *intermediate; /* [rows, ffn] */
  H3Tensor *bad;          /* [1] int32 */
  Chunk *chunks;          /* [n_chunks] */
  guint n_chunks;
} Pass;

static void
pass_clear (Pass *pass)
{
  for (guint i = 0; i < pass->n_chunks; i++) {
    h3_tensor_unref (pass->chunks[i].h);
    h3_tensor_unref (pass->chunks[i].normed);
    h3_tensor_unref (pass->chunks[i].gate_up);
    h3_tensor_unref (pass->chunks[i].intermediate);
  }
  g_clear_pointer (&pass->chunks, g_free);
  g_clear_pointer (&pass->h, h3_tensor_unref);
  g_clear_pointer (&pass->ids, h3_tensor_unref);
  g_clear_pointer (&pass->pads, h3_tensor_unref);
  g_clear_pointer (&pass->cos, h3_tensor_unref);
  g_clear_pointer (&pass->sin, h3_tensor_unref);
  g_clear_pointer (&pass->normed, h3_tensor_unref);
  g_clear_pointer (&pass->qkv, h3_tensor_unref);
  g_clear_pointer (&pass->attended, h3_tensor_unref);
  g_clear_pointer (&pass->gate_up, h3_tensor_unref);
  g_clear_pointer (&pass->intermediate, h3_tensor_unref);
  g_clear_pointer (&pass->bad, h3_tensor_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Pass, pass_clear)

static gboolean
check_ids (const H3TextConfig *config, const gint32 *ids, gint n,
    GError **error)
{
  if (n < 1 || n > config->max_positions) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "%d tokens to encode, 1 to %d (max_position_embeddings) are possible",
        n, config->max_positions);
    return FALSE;
  }
  for (gint i = 0; i < n; i++) {
    if (ids[i] < 0 || ids[i] >= config->vocab) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "token %d has id %d, the text encoder knows ids 0 to %d: the "
          "tokenizer is another model's",
          i, ids[i], config->vocab - 1);
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean
check_vision (const H3TextConfig *config, const H3TextInput *input,
    GError **error)
{
  const H3VisionFeatures *vision = input->vision;

  if ((vision ? vision->n : 0) != input->n_pads) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "%d vision tokens for %d places in the text", vision ? vision->n : 0,
        input->n_pads);
    return FALSE;
  }
  if (vision && h3_tensor_cols (vision->tokens) != config->hidden) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "vision tokens of %" G_GINT64_FORMAT
        " channels, the text encoder has %d: they are another model's",
        h3_tensor_cols (vision->tokens), config->hidden);
    return FALSE;
  }
  for (gint i = 0; i < input->n_pads; i++) {
    if (input->pads[i] < (i > 0 ? input->pads[i - 1] + 1 : 0) ||
        input->pads[i] >= input->n) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "vision token %d is to be in row %d of %d, after row %d", i,
          input->pads[i], input->n, i > 0 ? input->pads[i - 1] : -1);
      return FALSE;
    }
  }
  return TRUE;
}

/* Which of (t, h, w) turns frequency @j: the sections are interleaved, as far as
 * those of h and w reach. */
static gint
axis_of (const H3TextConfig *config, gint j)
{
  const gint axis = j % 3;

  return axis > 0 && j < 3 * config->mrope_section[axis] ? axis : 0;
}

/* angle = fp32 (inv_j * position), inv_j = theta^(-2 j / head_dim). */
static void
fill_rope (const H3TextConfig *config, const H3TextInput *input,
    gfloat *cosines, gfloat *sines)
{
  const gint frequencies = config->head_dim / 2;

  for (gint j = 0; j < frequencies; j++) {
    const gfloat exponent = (gfloat) (2 * j) / config->head_dim;
    const gfloat inv = 1.0f / (gfloat) pow (config->rope_theta, exponent);
    const gint axis = axis_of (config, j);

    for (gint i = 0; i < input->n; i++) {
      const gint32 position =
          input->positions ? input->positions[3 * (gsize) i + axis] : i;
      const gfloat angle = inv * (gfloat) position;

      cosines[(gsize) i * frequencies + j] = cos (angle);
      sines[(gsize) i * frequencies + j] = sin (angle);
    }
  }
}

static gboolean
make_rope (Pass *pass, const H3TextConfig *config, H3Device *device,
    const H3TextInput *input, GError **error)
{
  const gint64 shape[] = { input->n, config->head_dim / 2 };
  const gsize size = shape[0] * shape[1];
  g_autofree gfloat *host = g_try_new (gfloat, 2 * size);

  if (!host) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for the rotations of %d tokens: %" G_GSIZE_FORMAT
        " bytes are needed",
        input->n, 2 * size * sizeof (gfloat));
    return FALSE;
  }
  fill_rope (config, input, host, host + size);
  pass->cos =
      h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, host, error);
  if (!pass->cos)
    return FALSE;
  pass->sin = h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape,
      host + size, error);
  return pass->sin != NULL;
}

static void
make_chunks (Pass *pass, gint n)
{
  pass->n_chunks = (n + MLP_ROWS - 1) / MLP_ROWS;
  pass->chunks = g_new0 (Chunk, pass->n_chunks);
  for (guint i = 0; i < pass->n_chunks; i++) {
    const gint first = i * MLP_ROWS, rows = MIN (n - first, MLP_ROWS);
    Chunk *chunk = &pass->chunks[i];

    chunk->h = h3_tensor_view_rows (pass->h, first, rows);
    chunk->normed = h3_tensor_view_rows (pass->normed, first, rows);
    chunk->gate_up = h3_tensor_view_rows (pass->gate_up, 0, rows);
    chunk->intermediate = h3_tensor_view_rows (pass->intermediate, 0, rows);
  }
}

static gboolean
pass_init (Pass *pass, const H3TextConfig *config, H3Device *device,
    const H3TextInput *input, GError **error)
{
  const gint n = input->n;
  const H3DType act = device->act_dtype;
  const gint64 q_width = (gint64) config->heads * config->head_dim;
  const gint64 kv_width = (gint64) config->kv_heads * config->head_dim;
  const gint64 ffn = config->ffn, rows = MIN (n, MLP_ROWS);
  const struct {
    H3Tensor **tensor;
    H3DType dtype;
    gint64 rows, cols;
  } tensors[] = {
    { &pass->h, H3_DTYPE_F32, n, config->hidden },
    { &pass->normed, act, n, config->hidden },
    { &pass->qkv, act, n, q_width + 2 * kv_width },
    { &pass->attended, act, n, q_width },
    { &pass->gate_up, act, rows, 2 * ffn },
    { &pass->intermediate, act, rows, ffn },
  };

  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++) {
    *tensors[i].tensor = h3_tensor_new_2d (device, tensors[i].dtype,
        tensors[i].rows, tensors[i].cols, error);
    if (!*tensors[i].tensor)
      return FALSE;
  }
  pass->ids = h3_tensor_new_1d (device, H3_DTYPE_I32, n, error);
  if (!pass->ids)
    return FALSE;
  pass->bad = h3_tensor_new_1d (device, H3_DTYPE_I32, 1, error);
  if (!pass->bad || !make_rope (pass, config, device, input, error))
    return FALSE;
  if (input->vision) {
    const gint64 shape[] = { input->n_pads };

    pass->pads = h3_tensor_new_from_host (device, H3_DTYPE_I32, 1, shape,
        input->pads, error);
    if (!pass->pads)
      return FALSE;
  }
  make_chunks (pass, n);
  return TRUE;
}

/* The tensors of pass_init(). */
guint64
h3_text_model_workspace (const H3TextConfig *config, const H3Device *device,
    gint n)
{
  const guint64 act = h3_dtype_size (device->act_dtype);
  const guint64 q_width = (guint64) config->heads * config->head_dim;
  const guint64 kv_width = (guint64) config->kv_heads * config->head_dim;
  const guint64 row = config->hidden * (sizeof (gfloat) + act) +
                      (2 * q_width + 2 * kv_width) * act + sizeof (gint32) +
                      config->head_dim * sizeof (gfloat);

  return n * row + MIN (n, MLP_ROWS) * 3 * (guint64) config->ffn * act +
         h3_device_decode_bytes (device, config->encoded);
}

static void
run_attention (const H3TextConfig *config, const H3TextLayer *layer, Pass *pass,
    H3Stream *stream)
{
  const H3RmsNormArgs norm = {
    .y = pass->normed,
    .x = pass->h,
    .weight = layer->input_norm,
    .eps = config->rms_eps,
  };
  const H3LinearArgs qkv = {
    .y = pass->qkv,
    .x = pass->normed,
    .weight = layer->qkv,
  };
  const H3QkNormRopeArgs rope = {
    .qkv = pass->qkv,
    .heads = config->heads,
    .kv_heads = config->kv_heads,
    .head_dim = config->head_dim,
    .q_norm = layer->q_norm,
    .k_norm = layer->k_norm,
    .eps = config->rms_eps,
    .cos = pass->cos,
    .sin = pass->sin,
  };
  const H3AttentionArgs attention = {
    .y = pass->attended,
    .qkv = pass->qkv,
    .heads = config->heads,
    .kv_heads = config->kv_heads,
    .head_dim = config->head_dim,
    .n_sequences = 1,
    .causal = TRUE,
    .scale = 1.0 / sqrt (config->head_dim),
  };
  const H3LinearArgs out = {
    .y = pass->h,
    .x = pass->attended,
    .weight = layer->o,
    .accumulate = TRUE,
  };

  h3_rms_norm (stream, &norm);
  h3_linear (stream, &qkv);
  h3_qk_norm_rope (stream, &rope);
  h3_attention (stream, &attention);
  h3_linear (stream, &out);
}

static void
run_mlp (const H3TextConfig *config, const H3TextLayer *layer, Pass *pass,
    H3Stream *stream)
{
  const H3RmsNormArgs norm = {
    .y = pass->normed,
    .x = pass->h,
    .weight = layer->post_norm,
    .eps = config->rms_eps,
  };

  h3_rms_norm (stream, &norm);
  for (guint i = 0; i < pass->n_chunks; i++) {
    const Chunk *chunk = &pass->chunks[i];
    const H3LinearArgs gate_up = {
      .y = chunk->gate_up,
      .x = chunk->normed,
      .weight = layer->gate_up,
    };
    const H3LinearArgs down = {
      .y = chunk->h,
      .x = chunk->intermediate,
      .weight = layer->down,
      .accumulate = TRUE,
    };

    h3_linear (stream, &gate_up);
    h3_swiglu (stream, chunk->intermediate, chunk->gate_up);
    h3_linear (stream, &down);
  }
}

static void
tap_hidden (const H3Tap *tap, guint k, const H3Tensor *h)
{
  gchar name[sizeof "hidden." + 10];

  if (!tap)
    return;
  g_snprintf (name, sizeof name, "hidden.%u", k);
  h3_tap (tap, name, h);
}

static gboolean
run_layers (const H3TextModel *model, Pass *pass,
    const H3VisionFeatures *vision, H3Stream *stream, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  tap_hidden (tap, 0, pass->h);
  for (guint i = 0; i < H3_TEXT_LAYERS; i++) {
    if (h3_stop_requested (stop, error) || !h3_stream_check (stream, error))
      return FALSE;
    run_attention (&model->config, &model->layers[i], pass, stream);
    run_mlp (&model->config, &model->layers[i], pass, stream);
    if (vision && i < vision->n_deepstack)
      h3_add_rows (stream, pass->h, vision->deepstack[i], pass->pads);
    tap_hidden (tap, i + 1, pass->h);
  }
  return TRUE;
}

/* The first row of @h with a NaN or Inf, or -1 when that cannot be said. */
static gint64
first_bad_row (H3Stream *stream, const H3Tensor *h)
{
  const gsize rows = h3_tensor_rows (h), cols = h3_tensor_cols (h);
  g_autofree gfloat *host = g_try_new (gfloat, rows * cols);

  if (!host)
    return -1;
  h3_download (stream, host, h);
  if (!h3_stream_synchronize (stream, NULL))
    return -1;
  for (gsize i = 0; i < rows * cols; i++) {
    if (!isfinite (host[i]))
      return i / cols;
  }
  return -1;
}

static gboolean
check_finite (Pass *pass, H3Stream *stream, const gint32 *ids, GError **error)
{
  gint32 bad = 0;
  gint64 row;

  h3_count_nonfinite (stream, pass->bad, pass->h);
  h3_download (stream, &bad, pass->bad);
  if (!h3_stream_synchronize (stream, error))
    return FALSE;
  if (bad == 0)
    return TRUE;
  row = first_bad_row (stream, pass->h);
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "the text encoder gave %d values that are not finite, first in row "
      "%" G_GINT64_FORMAT " (token id %d)",
      bad, row, row >= 0 ? ids[row] : -1);
  return FALSE;
}

H3Tensor *
h3_text_model_encode (H3TextModel *model, H3Stream *stream,
    const H3TextInput *input, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  g_auto (Pass) pass = { 0 };

  if (!check_ids (&model->config, input->ids, input->n, error) ||
      !check_vision (&model->config, input, error) ||
      !pass_init (&pass, &model->config, stream->device, input, error))
    return NULL;

  h3_upload (stream, pass.ids, input->ids);
  h3_embedding (stream, pass.h, model->embed_tokens, pass.ids);
  if (input->vision)
    h3_scatter_rows (stream, pass.h, input->vision->tokens, pass.pads);
  if (!run_layers (model, &pass, input->vision, stream, stop, tap, error)) {
    h3_stream_synchronize (stream, NULL); /* before its memory goes */
    return NULL;
  }
  if (!check_finite (&pass, stream, input->ids, error))
    return NULL;
  return g_steal_pointer (&pass.h);
}
