/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What does not change between steps, and the memory of a step (denoiser.md 3.2
 * to 3.5, 7). */
#include "model/denoise/transformer-private.h"

#include <math.h>
#include <string.h>

#define VISUAL_CONDITION_T 0.999f
#define AUDIO_CONDITION_T 1.0f
#define N_CLOCKS 4
/* Parts of the workspace start at multiples of so many elements, so that every
 * part is as well aligned as an allocation. */
#define ALIGNMENT 128

static gint64
align (gint64 elements)
{
  return (elements + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Elements of the part that attention and MLP use in turn. */
static gint64
scratch_elements (const H3TransformerConfig *c, gint64 rows)
{
  gint64 inner = (gint64) c->heads * c->head_dim;
  gint64 chunk = MIN (rows, H3_MLP_CHUNK);
  gint64 attention = align (rows * 3 * inner) + align (rows * inner);
  gint64 mlp = align (chunk * 2 * c->ffn) + align (chunk * c->ffn);

  return MAX (attention, mlp);
}

static gint64
workspace_elements (const H3TransformerConfig *c, gint64 rows)
{
  return 2 * align (rows * c->hidden) + scratch_elements (c, rows);
}

guint64
h3_transformer_workspace (const H3TransformerConfig *config,
    const H3Device *device, gint rows, gint n_timesteps)
{
  guint64 act = h3_dtype_size (device->act_dtype);
  guint64 table = (guint64) n_timesteps * config->hidden
      * ((guint64) config->layers * H3_ADALN_ROWS + H3_N_FINAL_ADALN);
  /* at most: the part of the sequence that is no target */
  guint64 prefix = (guint64) rows * config->hidden;
  guint64 rope = 2 * (guint64) rows * 3 * config->rope_freqs * sizeof (gfloat);
  guint64 step_rows = 2 * (guint64) n_timesteps * rows * sizeof (gint32);

  return (workspace_elements (config, rows) + table + prefix) * act + rope
      + step_rows;
}

/* ---- views ---- */

static H3Tensor *
matrix_view (H3Tensor *parent, gint64 offset, gint64 rows, gint64 cols)
{
  const gint64 shape[] = { rows, cols };

  return h3_tensor_view (parent, offset, 2, shape);
}

/* Lays @a out at the start of @workspace, which is large enough for as many
 * rows or more. */
static void
activations_init (H3Activations *a, H3Tensor *workspace,
    const H3TransformerConfig *c, gint rows)
{
  gint64 inner = (gint64) c->heads * c->head_dim;
  gint64 scratch = 2 * align ((gint64) rows * c->hidden);
  gint64 chunk = MIN (rows, H3_MLP_CHUNK);

  a->x = matrix_view (workspace, 0, rows, c->hidden);
  a->n = matrix_view (
      workspace, align ((gint64) rows * c->hidden), rows, c->hidden);
  a->qkv = matrix_view (workspace, scratch, rows, 3 * inner);
  a->o = matrix_view (
      workspace, scratch + align (rows * 3 * inner), rows, inner);

  a->n_chunks = (rows + H3_MLP_CHUNK - 1) / H3_MLP_CHUNK;
  a->chunks = g_new0 (H3MlpChunk, a->n_chunks);
  for (gint i = 0; i < a->n_chunks; i++) {
    gint64 first = (gint64) i * H3_MLP_CHUNK;
    gint64 n = MIN (H3_MLP_CHUNK, rows - first);

    a->chunks[i].n = h3_tensor_view_rows (a->n, first, n);
    a->chunks[i].x = h3_tensor_view_rows (a->x, first, n);
    a->chunks[i].gate_up = matrix_view (workspace, scratch, n, 2 * c->ffn);
    a->chunks[i].inner = matrix_view (
        workspace, scratch + align (chunk * 2 * c->ffn), n, c->ffn);
  }
}

void
h3_activations_clear (H3Activations *a)
{
  for (gint i = 0; i < a->n_chunks; i++) {
    g_clear_pointer (&a->chunks[i].n, h3_tensor_unref);
    g_clear_pointer (&a->chunks[i].x, h3_tensor_unref);
    g_clear_pointer (&a->chunks[i].gate_up, h3_tensor_unref);
    g_clear_pointer (&a->chunks[i].inner, h3_tensor_unref);
  }
  g_clear_pointer (&a->chunks, g_free);
  a->n_chunks = 0;
  g_clear_pointer (&a->x, h3_tensor_unref);
  g_clear_pointer (&a->n, h3_tensor_unref);
  g_clear_pointer (&a->qkv, h3_tensor_unref);
  g_clear_pointer (&a->o, h3_tensor_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3Activations, h3_activations_clear)

static gboolean
make_workspace (H3TransformerSession *s, const H3Packing *packing,
    GError **error)
{
  const H3TransformerConfig *c = &s->transformer->config;
  gint audio = packing->first_audio, video = packing->first_video;

  s->workspace = h3_tensor_new_1d (s->transformer->device,
      s->transformer->device->act_dtype,
      workspace_elements (c, packing->rows), error);
  if (!s->workspace)
    return FALSE;

  activations_init (&s->all, s->workspace, c, packing->rows);
  s->x_prefix = h3_tensor_view_rows (s->all.x, 0, audio);
  s->x_audio = h3_tensor_view_rows (s->all.x, audio, packing->audio_rows);
  s->x_video = h3_tensor_view_rows (s->all.x, video, packing->video_rows);
  s->x_targets
      = h3_tensor_view_rows (s->all.x, audio, packing->rows - audio);
  s->n_audio = h3_tensor_view_rows (s->all.n, audio, packing->audio_rows);
  s->n_video = h3_tensor_view_rows (s->all.n, video, packing->video_rows);
  s->n_targets
      = h3_tensor_view_rows (s->all.n, audio, packing->rows - audio);
  return TRUE;
}

/* ---- rotary table ---- */

static gfloat
round_to_bf16 (gfloat x)
{
  guint32 bits;

  memcpy (&bits, &x, sizeof bits);
  bits += 0x7fff + (bits >> 16 & 1);
  bits &= 0xffff0000u;
  memcpy (&x, &bits, sizeof x);
  return x;
}

/* denoiser.md 3.5: angles of t, then h, then w; positions become float before
 * they are multiplied. A bfloat16 device takes bfloat16 cosines. */
static gboolean
make_rope (H3TransformerSession *s, const H3Packing *packing, GError **error)
{
  const H3TransformerConfig *c = &s->transformer->config;
  H3Device *device = s->transformer->device;
  gint n = c->rope_freqs;
  gsize cols = 3 * (gsize) n;
  const gint64 shape[] = { packing->rows, (gint64) cols };
  g_autofree gfloat *cosines = g_try_new (gfloat, packing->rows * cols);
  g_autofree gfloat *sines = g_try_new (gfloat, packing->rows * cols);
  g_autofree gfloat *inv_freq = g_new (gfloat, n);

  if (!cosines || !sines) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for the rotary table of %d rows", packing->rows);
    return FALSE;
  }
  for (gint k = 0; k < n; k++)
    inv_freq[k] = (gfloat) pow (c->rope_theta, -(gdouble) k / n);

  for (gsize row = 0; row < (gsize) packing->rows; row++)
    for (gint axis = 0; axis < 3; axis++) {
      gfloat position = (gfloat) packing->position[3 * row + axis];

      for (gint k = 0; k < n; k++) {
        gfloat angle = position * inv_freq[k];
        gsize i = row * cols + (gsize) axis * n + k;

        cosines[i] = cosf (angle);
        sines[i] = sinf (angle);
      }
    }

  if (device->act_dtype == H3_DTYPE_BF16)
    for (gsize i = 0; i < packing->rows * cols; i++) {
      cosines[i] = round_to_bf16 (cosines[i]);
      sines[i] = round_to_bf16 (sines[i]);
    }
  s->cos = h3_tensor_new_from_host (
      device, H3_DTYPE_F32, 2, shape, cosines, error);
  if (!s->cos)
    return FALSE;
  s->sin
      = h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, sines, error);
  return s->sin != NULL;
}

/* ---- timesteps ---- */

/* The distinct timesteps of a schedule, ascending. */
typedef struct {
  gfloat *t;
  gint n;
} Timesteps;

static void
timesteps_clear (Timesteps *timesteps)
{
  g_clear_pointer (&timesteps->t, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Timesteps, timesteps_clear)

/* packing.md 7 */
static gfloat
clock_time (H3Clock clock, gfloat t_v, gfloat t_a)
{
  switch (clock) {
    case H3_CLOCK_VIDEO:
      return t_v;
    case H3_CLOCK_AUDIO:
      return t_a;
    case H3_CLOCK_VIDEO_CONDITION:
      return MAX (t_v, VISUAL_CONDITION_T);
    case H3_CLOCK_AUDIO_CONDITION:
      return AUDIO_CONDITION_T;
  }
  return t_v;
}

static gint
compare_times (gconstpointer a, gconstpointer b)
{
  gfloat x = *(const gfloat *) a, y = *(const gfloat *) b;

  return (x > y) - (x < y);
}

static void
collect_timesteps (Timesteps *timesteps, const H3Packing *packing,
    const gfloat *t_v, const gfloat *t_a, gint steps)
{
  gboolean used[N_CLOCKS] = { FALSE };
  gint n = 0, distinct = 0;
  gfloat *t = g_new (gfloat, (gsize) steps * N_CLOCKS);

  for (gint row = 0; row < packing->rows; row++)
    used[packing->clock[row]] = TRUE;
  for (gint i = 0; i < steps; i++)
    for (gint clock = 0; clock < N_CLOCKS; clock++)
      if (used[clock])
        t[n++] = clock_time (clock, t_v[i], t_a[i]);

  qsort (t, n, sizeof *t, compare_times);
  for (gint i = 0; i < n; i++)
    if (distinct == 0 || t[i] != t[distinct - 1])
      t[distinct++] = t[i];
  timesteps->t = t;
  timesteps->n = distinct;
}

static gint
timestep_index (const Timesteps *timesteps, gfloat t)
{
  const gfloat *found = bsearch (
      &t, timesteps->t, timesteps->n, sizeof t, compare_times);

  return found ? (gint) (found - timesteps->t) : 0;
}

/* denoiser.md 3.4: r (s) = timestep_index[s] * 3 + tag[s]; in the final layer
 * the timestep alone. Of every step, uploaded once. */
static gboolean
make_step_rows (H3TransformerSession *s, const H3Packing *packing,
    const gfloat *t_v, const gfloat *t_a, const Timesteps *timesteps,
    GError **error)
{
  gint rows = packing->rows, targets = rows - packing->first_audio;
  g_autofree gint32 *block = g_try_new (gint32, rows);
  g_autofree gint32 *final = g_try_new (gint32, targets);
  const gint64 block_shape[] = { rows }, final_shape[] = { targets };

  if (!block || !final) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for the timestep indices of %d rows", rows);
    return FALSE;
  }
  s->step_rows = g_new0 (H3StepRows, s->steps);
  for (gint i = 0; i < s->steps; i++) {
    gint32 index[N_CLOCKS];

    for (gint clock = 0; clock < N_CLOCKS; clock++)
      index[clock]
          = timestep_index (timesteps, clock_time (clock, t_v[i], t_a[i]));
    for (gint row = 0; row < rows; row++)
      block[row]
          = index[packing->clock[row]] * H3_N_TAGS + packing->tag[row];
    for (gint row = 0; row < targets; row++)
      final[row] = index[packing->clock[packing->first_audio + row]];

    s->step_rows[i].rows = h3_tensor_new_from_host (
        s->transformer->device, H3_DTYPE_I32, 1, block_shape, block, error);
    if (!s->step_rows[i].rows)
      return FALSE;
    s->step_rows[i].final_rows = h3_tensor_new_from_host (
        s->transformer->device, H3_DTYPE_I32, 1, final_shape, final, error);
    if (!s->step_rows[i].final_rows)
      return FALSE;
  }
  return TRUE;
}

/* denoiser.md 3.3: cosines, then sines, of the unscaled t. */
static H3Tensor *
time_features (H3TransformerSession *s, const Timesteps *timesteps,
    GError **error)
{
  gint dim = s->transformer->config.freq_dim, half = dim / 2;
  const gint64 shape[] = { timesteps->n, dim };
  g_autofree gfloat *e = g_new (gfloat, (gsize) timesteps->n * dim);

  for (gint i = 0; i < timesteps->n; i++)
    for (gint k = 0; k < half; k++) {
      gfloat f = expf ((gfloat) -G_LN10 * 4 * k / half); /* 10000^(-k/half) */
      gfloat angle = timesteps->t[i] * f;

      e[(gsize) i * dim + k] = cosf (angle);
      e[(gsize) i * dim + half + k] = sinf (angle);
    }
  return h3_tensor_new_from_host (
      s->transformer->device, H3_DTYPE_F32, 2, shape, e, error);
}

static void
linear_act (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Weight *weight, const H3Tensor *bias, H3Activation activation)
{
  H3LinearArgs args = {
    .y = y,
    .x = x,
    .weight = weight,
    .bias = bias,
    .activation = activation,
  };

  h3_linear (stream, &args);
}

/* [D, time_dim]: silu of the time embedding, the input of every AdaLN. */
static H3Tensor *
embed_timesteps (H3TransformerSession *s, const Timesteps *timesteps,
    const H3Tap *tap, GError **error)
{
  const H3Transformer *t = s->transformer;
  gint n = timesteps->n;
  g_autoptr (H3Tensor) features = time_features (s, timesteps, error);
  g_autoptr (H3Tensor) hidden = NULL;
  g_autoptr (H3Tensor) a = NULL;

  if (!features)
    return NULL;
  h3_tap (tap, "time_proj", features);
  hidden = h3_tensor_new_2d (
      t->device, H3_DTYPE_F32, n, t->config.time_hidden, error);
  if (!hidden)
    return NULL;
  a = h3_tensor_new_2d (
      t->device, t->device->act_dtype, n, t->config.time_dim, error);
  if (!a)
    return NULL;

  linear_act (s->stream, hidden, features, t->time_in, t->time_in_bias,
      H3_ACTIVATION_SILU);
  if (tap && tap->func) {
    /* the embedding itself, which only its silu outlives */
    g_autoptr (H3Tensor) tau = h3_tensor_new_2d (
        t->device, H3_DTYPE_F32, n, t->config.time_dim, error);

    if (!tau)
      return NULL;
    linear_act (s->stream, tau, hidden, t->time_out, t->time_out_bias,
        H3_ACTIVATION_NONE);
    h3_tap (tap, "time_embedder", tau);
  }
  linear_act (s->stream, a, hidden, t->time_out, t->time_out_bias,
      H3_ACTIVATION_SILU);
  if (!h3_stream_synchronize (s->stream, error))
    return NULL;
  return g_steal_pointer (&a);
}

/* A table [D, 18 H] of one block, seen as [3 D, 6 H]. */
static H3Tensor *
block_table (H3TransformerSession *s, const H3Block *block, const H3Tensor *a,
    GError **error)
{
  const H3Transformer *t = s->transformer;
  gint64 n = h3_tensor_rows (a);
  g_autoptr (H3Tensor) z = h3_tensor_new_2d (t->device, t->device->act_dtype,
      n, H3_ADALN_ROWS * (gint64) t->config.hidden, error);

  if (!z)
    return NULL;
  linear_act (s->stream, z, a, block->adaln, block->adaln_bias,
      H3_ACTIVATION_NONE);
  return matrix_view (
      z, 0, H3_N_TAGS * n, H3_N_ADALN * (gint64) t->config.hidden);
}

static gboolean
make_tables (H3TransformerSession *s, const Timesteps *timesteps,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  const H3Transformer *t = s->transformer;
  g_autoptr (H3Tensor) a = embed_timesteps (s, timesteps, tap, error);

  if (!a)
    return FALSE;
  s->tables = g_new0 (H3Tensor *, t->config.layers);
  for (gint i = 0; i < t->config.layers; i++) {
    if (h3_stop_requested (stop, error))
      return FALSE;
    s->tables[i] = block_table (s, &t->blocks[i], a, error);
    if (!s->tables[i])
      return FALSE;
    if (tap && tap->func) {
      g_autofree gchar *name
          = g_strdup_printf ("transformer_blocks.%d.adaln_proj", i);

      h3_tap (tap, name, s->tables[i]);
    }
  }
  s->final_table = h3_tensor_new_2d (t->device, t->device->act_dtype,
      timesteps->n, H3_N_FINAL_ADALN * (gint64) t->config.hidden, error);
  if (!s->final_table)
    return FALSE;
  linear_act (s->stream, s->final_table, a, t->final_adaln,
      t->final_adaln_bias, H3_ACTIVATION_NONE);
  return h3_stream_synchronize (s->stream, error);
}

/* ---- text and conditions ---- */

/* In the activations' type. */
static H3Tensor *
convert_text (H3TransformerSession *s, const H3Tensor *prompt_embeds,
    GError **error)
{
  H3Device *device = s->transformer->device;
  g_autoptr (H3Tensor) text = h3_tensor_new_2d (device, device->act_dtype,
      h3_tensor_rows (prompt_embeds), h3_tensor_cols (prompt_embeds), error);

  if (!text)
    return NULL;
  h3_copy (s->stream, text, prompt_embeds);
  return g_steal_pointer (&text);
}

/* prefix[text] <- refiner (text W + b), in the workspace. */
static gboolean
refine_text (H3TransformerSession *s, const H3Tensor *prompt_embeds,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  const H3Transformer *t = s->transformer;
  gint n = (gint) h3_tensor_rows (prompt_embeds);
  g_autoptr (H3Tensor) text = convert_text (s, prompt_embeds, error);
  g_autoptr (H3Tensor) refined = NULL;
  g_auto (H3Activations) a = { 0 };
  H3RmsNormArgs args = {
    .weight = t->refiner_norm,
    .eps = (gfloat) t->config.final_norm_eps,
  };

  if (!text)
    return FALSE;
  activations_init (&a, s->workspace, &t->config, n);
  linear_act (s->stream, a.x, text, t->condition, t->condition_bias,
      H3_ACTIVATION_NONE);
  h3_tap (tap, "context_embedder", a.x);

  for (gint i = 0; i < t->config.refiner_layers; i++) {
    g_autofree gchar *name
        = g_strdup_printf ("token_refiner.refiner_blocks.%d", i);

    if (h3_stop_requested (stop, error))
      return FALSE;
    h3_block_forward (s->stream, &t->config, &t->refiner[i], &a, NULL, NULL,
        NULL, NULL, name, tap);
  }

  refined = h3_tensor_view_rows (s->prefix, 0, n);
  args.y = refined;
  args.x = a.x;
  h3_rms_norm (s->stream, &args);
  h3_tap (tap, "token_refiner", refined);
  return h3_stream_synchronize (s->stream, error);
}

/* prefix[rows with @tag after the text] <- conditions W + b */
static gboolean
embed_conditions (H3TransformerSession *s, const H3Packing *packing, H3Tag tag,
    const H3Tensor *conditions, const H3Weight *weight, const H3Tensor *bias,
    GError **error)
{
  H3Device *device = s->transformer->device;
  gint64 given = conditions ? h3_tensor_rows (conditions) : 0;
  gint64 n = 0;
  g_autofree gint32 *rows = g_new (gint32, packing->first_audio);
  g_autoptr (H3Tensor) index = NULL;
  g_autoptr (H3Tensor) embedded = NULL;

  for (gint row = packing->text_rows; row < packing->first_audio; row++)
    if (packing->tag[row] == tag)
      rows[n++] = row;
  if (n != given) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "%" G_GINT64_FORMAT " %s condition rows were encoded, but the "
        "sequence has room for %" G_GINT64_FORMAT,
        given, tag == H3_TAG_AUDIO ? "audio" : "video", n);
    return FALSE;
  }
  if (n == 0)
    return TRUE;

  index = h3_tensor_new_from_host (device, H3_DTYPE_I32, 1, &n, rows, error);
  if (!index)
    return FALSE;
  embedded = h3_tensor_view_rows (s->all.n, 0, n);
  linear_act (
      s->stream, embedded, conditions, weight, bias, H3_ACTIVATION_NONE);
  h3_scatter_rows (s->stream, s->prefix, embedded, index);
  return h3_stream_synchronize (s->stream, error);
}

static gboolean
make_prefix (H3TransformerSession *s, const H3Packing *packing,
    const H3Tensor *prompt_embeds, const H3Tensor *video_conditions,
    const H3Tensor *audio_conditions, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  const H3Transformer *t = s->transformer;

  s->prefix = h3_tensor_new_2d (t->device, t->device->act_dtype,
      packing->first_audio, t->config.hidden, error);
  return s->prefix
      && refine_text (s, prompt_embeds, stop, tap, error)
      && embed_conditions (s, packing, H3_TAG_VIDEO, video_conditions,
          t->video_in, t->video_in_bias, error)
      && embed_conditions (s, packing, H3_TAG_AUDIO, audio_conditions,
          t->audio_in, t->audio_in_bias, error);
}

/* ---- the session ---- */

/* The layout's own promises: what indexes memory later. */
static gboolean
check_packing (const H3Packing *p, GError **error)
{
  gboolean whole = p->text_rows >= 1 && p->first_audio >= p->text_rows
      && p->audio_rows >= 1 && p->video_rows >= 1
      && p->first_video == p->first_audio + p->audio_rows
      && p->rows == p->first_video + p->video_rows;

  for (gint row = 0; whole && row < p->rows; row++)
    whole = p->tag[row] < H3_N_TAGS && p->clock[row] < N_CLOCKS;
  if (!whole)
    g_set_error_literal (error, H3_ERROR, H3_ERROR_SETTINGS,
        "the packed layout is not [ text | conditions | audio | video ] with "
        "tags 0 to 2 and clocks 0 to 3");
  return whole;
}

static gboolean
check_text (const H3TransformerConfig *c, const H3Packing *packing,
    const H3Tensor *prompt_embeds, GError **error)
{
  gint64 rows = h3_tensor_rows (prompt_embeds);
  gint64 cols = h3_tensor_cols (prompt_embeds);

  if (rows == packing->text_rows && cols == c->text_dim)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "the prompt's embeddings are [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
      "], this transformer and layout need [%d, %d]: do text encoder and "
      "transformer belong together?",
      rows, cols, packing->text_rows, c->text_dim);
  return FALSE;
}

H3TransformerSession *
h3_transformer_session_new (H3Transformer *transformer, H3Stream *stream,
    const H3Packing *packing, const H3Tensor *prompt_embeds,
    const gfloat *t_v, const gfloat *t_a, gint steps,
    const H3Tensor *video_conditions, const H3Tensor *audio_conditions,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  g_autoptr (H3TransformerSession) s = NULL;
  g_auto (Timesteps) timesteps = { NULL, 0 };

  if (!check_packing (packing, error)
      || !check_text (&transformer->config, packing, prompt_embeds, error))
    return NULL;

  s = g_new0 (H3TransformerSession, 1);
  s->transformer = h3_transformer_ref (transformer);
  s->stream = stream;
  s->steps = steps;
  collect_timesteps (&timesteps, packing, t_v, t_a, steps);
  if (!make_workspace (s, packing, error) || !make_rope (s, packing, error)
      || !make_step_rows (s, packing, t_v, t_a, &timesteps, error)
      || !make_tables (s, &timesteps, stop, tap, error)
      || !make_prefix (s, packing, prompt_embeds, video_conditions,
          audio_conditions, stop, tap, error))
    return NULL;
  return g_steal_pointer (&s);
}

static void
step_rows_free (H3StepRows *rows, gint n)
{
  for (gint i = 0; rows && i < n; i++) {
    g_clear_pointer (&rows[i].rows, h3_tensor_unref);
    g_clear_pointer (&rows[i].final_rows, h3_tensor_unref);
  }
  g_free (rows);
}

void
h3_transformer_session_free (H3TransformerSession *s)
{
  if (!s)
    return;
  /* a failed or cancelled pass may still have work on its way */
  h3_stream_synchronize (s->stream, NULL);

  h3_activations_clear (&s->all);
  g_clear_pointer (&s->x_prefix, h3_tensor_unref);
  g_clear_pointer (&s->x_audio, h3_tensor_unref);
  g_clear_pointer (&s->x_video, h3_tensor_unref);
  g_clear_pointer (&s->x_targets, h3_tensor_unref);
  g_clear_pointer (&s->n_audio, h3_tensor_unref);
  g_clear_pointer (&s->n_video, h3_tensor_unref);
  g_clear_pointer (&s->n_targets, h3_tensor_unref);
  g_clear_pointer (&s->workspace, h3_tensor_unref);
  g_clear_pointer (&s->prefix, h3_tensor_unref);
  g_clear_pointer (&s->cos, h3_tensor_unref);
  g_clear_pointer (&s->sin, h3_tensor_unref);
  for (gint i = 0; s->tables && i < s->transformer->config.layers; i++)
    g_clear_pointer (&s->tables[i], h3_tensor_unref);
  g_free (s->tables);
  g_clear_pointer (&s->final_table, h3_tensor_unref);
  step_rows_free (s->step_rows, s->steps);
  h3_transformer_unref (s->transformer);
  g_free (s);
}
