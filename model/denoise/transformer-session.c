/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One request's memory, and its embedded text and conditions (denoiser.md 3.2).
 */
#include "model/denoise/transformer-private.h"

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

gint64
h3_activations_elements (const H3TransformerConfig *c, gint64 rows)
{
  return 2 * align (rows * c->hidden) + scratch_elements (c, rows);
}

guint64
h3_transformer_workspace (const H3TransformerConfig *config,
    const H3Device *device, gint rows, gint steps)
{
  guint64 act = h3_dtype_size (device->act_dtype);
  /* text, video, audio in each step, and the two kinds of conditions */
  gint n_pairs = 3 * steps + 2;
  guint64 final_table = 2 * (guint64) n_pairs * config->hidden;
  /* at most: the part of the sequence that is no target */
  guint64 prefix = (guint64) rows * config->hidden;
  guint64 rope = 2 * (guint64) rows * 3 * config->rope_freqs * sizeof (gfloat);
  guint64 step_rows = 2 * (guint64) steps * rows * sizeof (gint32);
  guint64 low = (guint64) rows * config->low_rank;

  return (h3_activations_elements (config, rows) + prefix + low) * act +
         final_table * h3_dtype_size (h3_adaln_dtype (config, device)) +
         h3_adaln_bytes (config, device, n_pairs) + rope + step_rows +
         h3_device_decode_bytes (device, config->encoded);
}

/* The workspace and its views */

void
h3_activations_init (H3Activations *a, H3Tensor *workspace,
    const H3TransformerConfig *c, gint rows, gint chunk_rows)
{
  gint64 inner = (gint64) c->heads * c->head_dim;
  gint64 scratch = 2 * align ((gint64) rows * c->hidden);
  gint64 chunk = MIN (rows, chunk_rows);

  a->x = h3_matrix_view (workspace, 0, rows, c->hidden);
  a->n = h3_matrix_view (workspace, align ((gint64) rows * c->hidden), rows,
      c->hidden);
  a->qkv = h3_matrix_view (workspace, scratch, rows, 3 * inner);
  a->o = h3_matrix_view (workspace, scratch + align (rows * 3 * inner), rows,
      inner);

  a->n_chunks = (rows + chunk_rows - 1) / chunk_rows;
  a->chunks = g_new0 (H3MlpChunk, a->n_chunks);
  for (gint i = 0; i < a->n_chunks; i++) {
    gint64 first = (gint64) i * chunk_rows;
    gint64 n = MIN (chunk_rows, rows - first);

    a->chunks[i].n = h3_tensor_view_rows (a->n, first, n);
    a->chunks[i].x = h3_tensor_view_rows (a->x, first, n);
    a->chunks[i].gate_up = h3_matrix_view (workspace, scratch, n, 2 * c->ffn);
    a->chunks[i].inner = h3_matrix_view (workspace,
        scratch + align (chunk * 2 * c->ffn), n, c->ffn);
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

static gboolean
make_workspace (H3TransformerSession *s, const H3Packing *packing,
    GError **error)
{
  const H3TransformerConfig *c = &s->transformer->config;
  gint audio = packing->first_audio, video = packing->first_video;

  s->workspace = h3_tensor_new_1d (s->transformer->device,
      s->transformer->device->act_dtype,
      h3_activations_elements (c, packing->rows), error);
  if (!s->workspace || !h3_stream_reserve_low_rank (s->stream,
                           packing->rows * (gint64) c->low_rank, error))
    return FALSE;

  h3_activations_init (&s->all, s->workspace, c, packing->rows, H3_MLP_CHUNK);
  s->x_prefix = h3_tensor_view_rows (s->all.x, 0, audio);
  s->x_audio = h3_tensor_view_rows (s->all.x, audio, packing->audio_rows);
  s->x_video = h3_tensor_view_rows (s->all.x, video, packing->video_rows);
  s->x_targets = h3_tensor_view_rows (s->all.x, audio, packing->rows - audio);
  s->n_audio = h3_tensor_view_rows (s->all.n, audio, packing->audio_rows);
  s->n_video = h3_tensor_view_rows (s->all.n, video, packing->video_rows);
  s->n_targets = h3_tensor_view_rows (s->all.n, audio, packing->rows - audio);
  return TRUE;
}

/* Text and conditions */

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

/* prefix[text] <- refiner (text W + b), in the activations @a. */
static gboolean
refine (H3TransformerSession *s, const H3Activations *a, const H3Tensor *text,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  const H3Transformer *t = s->transformer;
  g_autoptr (H3Tensor) refined =
      h3_tensor_view_rows (s->prefix, 0, h3_tensor_rows (text));
  H3RmsNormArgs args = {
    .y = refined,
    .x = a->x,
    .weight = t->refiner_norm,
    .eps = (gfloat) t->config.final_norm_eps,
  };

  h3_linear_bias (s->stream, a->x, text, t->condition, t->condition_bias);
  h3_tap (tap, "context_embedder", a->x);
  for (gint i = 0; i < t->config.refiner_layers; i++) {
    g_autofree gchar *name =
        g_strdup_printf ("token_refiner.refiner_blocks.%d", i);

    if (h3_stop_requested (stop, error))
      return FALSE;
    h3_block_forward (s->stream, &t->config, &t->refiner[i], a, NULL, NULL,
        NULL, NULL, name, tap);
  }
  h3_rms_norm (s->stream, &args);
  h3_tap (tap, "token_refiner", refined);
  return TRUE;
}

static gboolean
refine_text (H3TransformerSession *s, const H3Tensor *prompt_embeds,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  g_autoptr (H3Tensor) text = convert_text (s, prompt_embeds, error);
  g_auto (H3Activations) a = { 0 };
  gboolean refined;

  if (!text)
    return FALSE;
  h3_activations_init (&a, s->workspace, &s->transformer->config,
      (gint) h3_tensor_rows (text), H3_MLP_CHUNK);
  refined = refine (s, &a, text, stop, tap, error);
  /* in any case: @text may be in use until then */
  return h3_stream_synchronize (s->stream, refined ? error : NULL) && refined;
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
  g_autofree gint32 *rows = g_try_new (gint32, packing->first_audio);
  g_autoptr (H3Tensor) index = NULL;
  g_autoptr (H3Tensor) embedded = NULL;

  if (!rows) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for the numbers of %d rows", packing->first_audio);
    return FALSE;
  }
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
  h3_linear_bias (s->stream, embedded, conditions, weight, bias);
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
  return s->prefix && refine_text (s, prompt_embeds, stop, tap, error) &&
         embed_conditions (s, packing, H3_TAG_VIDEO, video_conditions,
             t->video_in, t->video_in_bias, error) &&
         embed_conditions (s, packing, H3_TAG_AUDIO, audio_conditions,
             t->audio_in, t->audio_in_bias, error);
}

/* The session */

/* The layout's own promises: what indexes memory later. */
static gboolean
check_packing (const H3Packing *p, GError **error)
{
  gboolean whole = p->text_rows >= 1 && p->first_audio >= p->text_rows &&
                   p->audio_rows >= 1 && p->video_rows >= 1 &&
                   p->first_video == p->first_audio + p->audio_rows &&
                   p->rows == p->first_video + p->video_rows;

  for (gint row = 0; whole && row < p->rows; row++)
    whole = p->tag[row] < H3_N_TAGS && p->clock[row] < H3_N_CLOCKS;
  for (gint row = p->text_rows; whole && row < p->first_audio; row++)
    whole = p->tag[row] != H3_TAG_TEXT;
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
    const H3Packing *packing, const H3Tensor *prompt_embeds, const gfloat *t_v,
    const gfloat *t_a, gint steps, const H3Tensor *video_conditions,
    const H3Tensor *audio_conditions, H3LoadProgress progress,
    gpointer user_data, const H3Stop *stop, const H3Tap *tap, GError **error)
{
  g_autoptr (H3TransformerSession) s = NULL;

  if (!check_packing (packing, error) ||
      !check_text (&transformer->config, packing, prompt_embeds, error))
    return NULL;

  s = g_new0 (H3TransformerSession, 1);
  s->transformer = h3_transformer_ref (transformer);
  s->stream = stream;
  s->steps = steps;
  if (!make_workspace (s, packing, error) ||
      !h3_session_make_tables (s, packing, t_v, t_a, progress, user_data, stop,
          tap, error) ||
      !make_prefix (s, packing, prompt_embeds, video_conditions,
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
