/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One forward pass (denoiser.md 3.2, 3.6, 3.7). */
#include "model/denoise/transformer-private.h"

#include <math.h>

/* Names only exist where somebody looks. */
static void
tap_part (const H3Tap *tap, const gchar *name, const gchar *part,
    const H3Tensor *value)
{
  g_autofree gchar *full = NULL;

  if (!tap || !tap->func)
    return;
  full = g_strconcat (name, part, NULL);
  h3_tap (tap, full, value);
}

/* y = RMSNorm (x), modulated by two parameters of @table where there is one.
 * The plain norm, which no operation needs, is made for a tap only. */
static void
norm (H3Stream *stream, const H3Activations *a, const H3Tensor *weight,
    gdouble eps, const H3Tensor *table, const H3Tensor *rows, guint shift,
    guint scale, const gchar *name, const gchar *part, const H3Tap *tap)
{
  H3RmsNormArgs args = {
    .y = a->n,
    .x = a->x,
    .weight = weight,
    .eps = (gfloat) eps,
  };

  if (tap && tap->func) {
    h3_rms_norm (stream, &args);
    tap_part (tap, name, part, a->n);
  }
  args.table = table;
  args.rows = rows;
  args.shift = shift;
  args.scale = scale;
  h3_rms_norm (stream, &args);
}

/* A branch's last product: into @n for a gate to weigh, or, without gates,
 * straight onto the residual stream @x. */
static void
branch_out (H3Stream *stream, H3Tensor *n, H3Tensor *x, const H3Tensor *inner,
    const H3Weight *weight, gboolean gated)
{
  H3LinearArgs args = {
    .y = gated ? n : x,
    .x = inner,
    .weight = weight,
    .accumulate = !gated,
  };

  h3_linear (stream, &args);
}

/* n <- Attention (n), or X <- X + Attention (n) */
static void
attention (H3Stream *stream, const H3TransformerConfig *config,
    const H3Block *block, const H3Activations *a, const H3Tensor *cos,
    const H3Tensor *sin, gboolean gated)
{
  H3QkNormRopeArgs rope = {
    .qkv = a->qkv,
    .heads = config->heads,
    .kv_heads = config->heads,
    .head_dim = config->head_dim,
    .q_norm = block->q_norm,
    .k_norm = block->k_norm,
    .eps = (gfloat) config->qk_norm_eps,
    .cos = cos,
    .sin = sin,
  };
  H3AttentionArgs attend = {
    .y = a->o,
    .qkv = a->qkv,
    .heads = config->heads,
    .kv_heads = config->heads,
    .head_dim = config->head_dim,
    .n_sequences = 1,
    .scale = (gfloat) (1 / sqrt (config->head_dim)),
  };

  h3_linear_bias (stream, a->qkv, a->n, block->qkv, NULL);
  h3_qk_norm_rope (stream, &rope);
  h3_attention (stream, &attend);
  branch_out (stream, a->n, a->x, a->o, block->out, gated);
}

/* n <- W2 (silu (g) u), or X <- X + that; [g; u] = W1 n; in chunks of rows. */
static void
mlp (H3Stream *stream, const H3Block *block, const H3Activations *a,
    gboolean gated)
{
  for (gint i = 0; i < a->n_chunks; i++) {
    const H3MlpChunk *chunk = &a->chunks[i];

    h3_linear_swiglu (stream, &(H3LinearSwigluArgs){ .y = chunk->inner,
                                  .x = chunk->n,
                                  .weight = block->fc1,
                                  .gate_up = chunk->gate_up });
    branch_out (stream, chunk->n, chunk->x, chunk->inner, block->fc2, gated);
  }
}

void
h3_block_forward (H3Stream *stream, const H3TransformerConfig *config,
    const H3Block *block, const H3Activations *a, const H3Tensor *table,
    const H3Tensor *rows, const H3Tensor *cos, const H3Tensor *sin,
    const gchar *name, const H3Tap *tap)
{
  gboolean gated = table != NULL;

  norm (stream, a, block->norm1, config->norm_eps, table, rows, H3_SHIFT_MSA,
      H3_SCALE_MSA, name, ".norm1", tap);
  attention (stream, config, block, a, cos, sin, gated);
  if (gated) {
    tap_part (tap, name, ".attn", a->n);
    h3_gated_residual (stream, a->x, a->n, table, rows, H3_GATE_MSA);
  }

  norm (stream, a, block->norm2, config->norm_eps, table, rows, H3_SHIFT_MLP,
      H3_SCALE_MLP, name, ".norm2", tap);
  mlp (stream, block, a, gated);
  if (gated) {
    tap_part (tap, name, ".ff", a->n);
    h3_gated_residual (stream, a->x, a->n, table, rows, H3_GATE_MLP);
  }
  tap_part (tap, name, "", a->x);
}

/* X <- [ text | conditions | audio | video ] */
static void
embed (H3TransformerSession *s, const H3Tensor *video, const H3Tensor *audio,
    const H3Tap *tap)
{
  const H3Transformer *t = s->transformer;

  h3_copy (s->stream, s->x_prefix, s->prefix);
  h3_linear_bias (s->stream, s->x_audio, audio, t->audio_in, t->audio_in_bias);
  h3_linear_bias (s->stream, s->x_video, video, t->video_in, t->video_in_bias);
  h3_tap (tap, "audio_proj_in", s->x_audio);
  h3_tap (tap, "proj_in", s->x_video);
}

static gboolean
blocks (H3TransformerSession *s, const H3StepRows *step, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  const H3Transformer *t = s->transformer;
  gboolean looking = tap && tap->func;

  for (gint i = 0; i < t->config.layers; i++) {
    g_autofree gchar *name =
        looking ? g_strdup_printf ("transformer_blocks.%d", i) : NULL;

    if (h3_stop_requested (stop, error))
      return FALSE;
    h3_block_forward (s->stream, &t->config, &t->blocks[i], &s->all,
        s->tables[i], step->rows, s->cos, s->sin, name, tap);
    if (!h3_stream_check (s->stream, error))
      return FALSE;
  }
  return TRUE;
}

/* Targets only: conditions and text have no use for an output. */
static void
final_layer (H3TransformerSession *s, const H3StepRows *step,
    H3Tensor *video_velocity, H3Tensor *audio_velocity, const H3Tap *tap)
{
  const H3Transformer *t = s->transformer;
  H3RmsNormArgs args = {
    .y = s->n_targets,
    .x = s->x_targets,
    .weight = t->final_norm,
    .eps = (gfloat) t->config.final_norm_eps,
    .table = s->final_table,
    .rows = step->final_rows,
    .shift = H3_FINAL_SHIFT,
    .scale = H3_FINAL_SCALE,
  };

  h3_rms_norm (s->stream, &args);
  h3_tap (tap, "norm_out", s->n_targets);
  h3_linear_bias (s->stream, audio_velocity, s->n_audio, t->audio_out,
      t->audio_out_bias);
  h3_linear_bias (s->stream, video_velocity, s->n_video, t->video_out,
      t->video_out_bias);
}

gboolean
h3_transformer_forward (H3TransformerSession *session, gint step,
    const H3Tensor *video, const H3Tensor *audio, H3Tensor *video_velocity,
    H3Tensor *audio_velocity, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  const H3StepRows *rows;

  g_return_val_if_fail (step >= 0 && step < session->steps, FALSE);

  rows = &session->step_rows[step];
  embed (session, video, audio, tap);
  if (!blocks (session, rows, stop, tap, error))
    return FALSE;
  final_layer (session, rows, video_velocity, audio_velocity, tap);
  return h3_stream_check (session->stream, error);
}
