/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What depends on positions and timesteps alone: the rotary table, AdaLN's
 * tables of a whole schedule and which row of them a packed row reads in each
 * step (denoiser.md 3.3 to 3.5, 7). */
#include "model/denoise/transformer-private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VISUAL_CONDITION_T 0.999f
#define AUDIO_CONDITION_T 1.0f

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
  s->cos =
      h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, cosines, error);
  if (!s->cos)
    return FALSE;
  s->sin =
      h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, sines, error);
  return s->sin != NULL;
}

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
  gboolean used[H3_N_CLOCKS] = { FALSE };
  gint n = 0, distinct = 0;
  gfloat *t = g_new (gfloat, (gsize) steps * H3_N_CLOCKS);

  for (gint row = 0; row < packing->rows; row++)
    used[packing->clock[row]] = TRUE;
  for (gint i = 0; i < steps; i++)
    for (gint clock = 0; clock < H3_N_CLOCKS; clock++)
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
  const gfloat *found =
      bsearch (&t, timesteps->t, timesteps->n, sizeof t, compare_times);

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
    gint32 index[H3_N_CLOCKS];

    for (gint clock = 0; clock < H3_N_CLOCKS; clock++)
      index[clock] =
          timestep_index (timesteps, clock_time (clock, t_v[i], t_a[i]));
    for (gint row = 0; row < rows; row++)
      block[row] = index[packing->clock[row]] * H3_N_TAGS + packing->tag[row];
    for (gint row = 0; row < targets; row++)
      final[row] = index[packing->clock[packing->first_audio + row]];

    s->step_rows[i].rows = h3_tensor_new_from_host (s->transformer->device,
        H3_DTYPE_I32, 1, block_shape, block, error);
    if (!s->step_rows[i].rows)
      return FALSE;
    s->step_rows[i].final_rows =
        h3_tensor_new_from_host (s->transformer->device, H3_DTYPE_I32, 1,
            final_shape, final, error);
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
  g_autofree gfloat *e = g_try_new (gfloat, (gsize) timesteps->n * dim);

  if (!e) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for the features of %d timesteps", timesteps->n);
    return NULL;
  }
  for (gint i = 0; i < timesteps->n; i++)
    for (gint k = 0; k < half; k++) {
      gfloat f = expf ((gfloat) -G_LN10 * 4 * k / half); /* 10000^(-k/half) */
      gfloat angle = timesteps->t[i] * f;

      e[(gsize) i * dim + k] = cosf (angle);
      e[(gsize) i * dim + half + k] = sinf (angle);
    }
  return h3_tensor_new_from_host (s->transformer->device, H3_DTYPE_F32, 2,
      shape, e, error);
}

static void
linear_silu (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Weight *weight, const H3Tensor *bias)
{
  H3LinearArgs args = {
    .y = y,
    .x = x,
    .weight = weight,
    .bias = bias,
    .activation = H3_ACTIVATION_SILU,
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
  hidden = h3_tensor_new_2d (t->device, H3_DTYPE_F32, n, t->config.time_hidden,
      error);
  if (!hidden)
    return NULL;
  a = h3_tensor_new_2d (t->device, t->device->act_dtype, n, t->config.time_dim,
      error);
  if (!a)
    return NULL;

  linear_silu (s->stream, hidden, features, t->time_in, t->time_in_bias);
  if (tap && tap->func) {
    /* the embedding itself, which only its silu outlives */
    g_autoptr (H3Tensor) tau = h3_tensor_new_2d (t->device, H3_DTYPE_F32, n,
        t->config.time_dim, error);

    if (!tau)
      return NULL;
    h3_linear_bias (s->stream, tau, hidden, t->time_out, t->time_out_bias);
    h3_tap (tap, "time_embedder", tau);
  }
  linear_silu (s->stream, a, hidden, t->time_out, t->time_out_bias);
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
  g_autoptr (H3Tensor) z = h3_tensor_new_2d (t->device, t->device->act_dtype, n,
      H3_ADALN_ROWS * (gint64) t->config.hidden, error);

  if (!z)
    return NULL;
  h3_linear_bias (s->stream, z, a, block->adaln, block->adaln_bias);
  return h3_matrix_view (z, 0, H3_N_TAGS * n,
      H3_N_ADALN * (gint64) t->config.hidden);
}

static gboolean
make_block_tables (H3TransformerSession *s, const H3Tensor *a,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  const H3Transformer *t = s->transformer;

  s->tables = g_new0 (H3Tensor *, t->config.layers);
  for (gint i = 0; i < t->config.layers; i++) {
    if (h3_stop_requested (stop, error))
      return FALSE;
    s->tables[i] = block_table (s, &t->blocks[i], a, error);
    if (!s->tables[i])
      return FALSE;
    if (tap && tap->func) {
      g_autofree gchar *name =
          g_strdup_printf ("transformer_blocks.%d.adaln_proj", i);

      h3_tap (tap, name, s->tables[i]);
    }
  }
  return TRUE;
}

static gboolean
make_final_table (H3TransformerSession *s, const H3Tensor *a, GError **error)
{
  const H3Transformer *t = s->transformer;

  s->final_table = h3_tensor_new_2d (t->device, t->device->act_dtype,
      h3_tensor_rows (a), H3_N_FINAL_ADALN * (gint64) t->config.hidden, error);
  if (!s->final_table)
    return FALSE;
  h3_linear_bias (s->stream, s->final_table, a, t->final_adaln,
      t->final_adaln_bias);
  return TRUE;
}

static gboolean
make_tables (H3TransformerSession *s, const Timesteps *timesteps,
    const H3Stop *stop, const H3Tap *tap, GError **error)
{
  g_autoptr (H3Tensor) a = embed_timesteps (s, timesteps, tap, error);
  gboolean made = a && make_block_tables (s, a, stop, tap, error) &&
                  make_final_table (s, a, error);

  /* in any case: @a may be in use until then */
  return h3_stream_synchronize (s->stream, made ? error : NULL) && made;
}

gboolean
h3_session_make_tables (H3TransformerSession *session, const H3Packing *packing,
    const gfloat *t_v, const gfloat *t_a, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  g_auto (Timesteps) timesteps = { NULL, 0 };

  collect_timesteps (&timesteps, packing, t_v, t_a, session->steps);
  return make_rope (session, packing, error) &&
         make_step_rows (session, packing, t_v, t_a, &timesteps, error) &&
         make_tables (session, &timesteps, stop, tap, error);
}
