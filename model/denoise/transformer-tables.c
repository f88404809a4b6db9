/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What depends on positions and timesteps alone: the rotary table, AdaLN's
 * tables of a whole schedule and which row of them a packed row reads in each
 * step (denoiser.md 3.4, 3.5, 7). */
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

/* Which clocks and tags occur together in a sequence. */
typedef struct {
  gboolean at[H3_N_CLOCKS][H3_N_TAGS];
} Used;

/* The distinct pairs of a schedule, ascending. */
typedef struct {
  H3AdalnPair *pair;
  gint *slot; /* in the table */
  gint n;
} Pairs;

static void
pairs_clear (Pairs *pairs)
{
  g_clear_pointer (&pairs->pair, g_free);
  g_clear_pointer (&pairs->slot, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Pairs, pairs_clear)

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
compare_pairs (gconstpointer a, gconstpointer b)
{
  const H3AdalnPair *x = a, *y = b;

  if (x->t != y->t)
    return x->t > y->t ? 1 : -1;
  return x->tag - y->tag;
}

static void
pairs_init (Pairs *pairs, const Used *used, const gfloat *t_v,
    const gfloat *t_a, gint steps)
{
  gint n = 0, distinct = 0;
  H3AdalnPair *pair =
      g_new (H3AdalnPair, (gsize) steps * H3_N_CLOCKS * H3_N_TAGS);

  for (gint i = 0; i < steps; i++)
    for (gint clock = 0; clock < H3_N_CLOCKS; clock++)
      for (gint tag = 0; tag < H3_N_TAGS; tag++)
        if (used->at[clock][tag])
          pair[n++] = (H3AdalnPair){ clock_time (clock, t_v[i], t_a[i]), tag };

  qsort (pair, n, sizeof *pair, compare_pairs);
  for (gint i = 0; i < n; i++)
    if (distinct == 0 || compare_pairs (&pair[i], &pair[distinct - 1]) != 0)
      pair[distinct++] = pair[i];
  pairs->pair = pair;
  pairs->slot = g_new0 (gint, MAX (distinct, 1));
  pairs->n = distinct;
}

/* Of a pair that is there; else 0, which nobody reads. */
static gint
pair_index (const Pairs *pairs, gfloat t, gint tag)
{
  const H3AdalnPair pair = { t, tag };
  const H3AdalnPair *found =
      bsearch (&pair, pairs->pair, pairs->n, sizeof pair, compare_pairs);

  return found ? (gint) (found - pairs->pair) : 0;
}

/* The pairs' rows of every block, for who looks. */
static gboolean
tap_tables (H3TransformerSession *s, const Pairs *pairs, const H3Tap *tap,
    GError **error)
{
  const H3Transformer *t = s->transformer;
  g_autofree gint32 *rows = g_new (gint32, pairs->n);
  const gint64 n = pairs->n;
  g_autoptr (H3Tensor) ids = NULL;
  g_autoptr (H3Tensor) seen = NULL;

  if (!tap || !tap->func)
    return TRUE;
  for (gint i = 0; i < pairs->n; i++)
    rows[i] = pairs->slot[i] * t->config.layers;
  ids = h3_tensor_new_from_host (t->device, H3_DTYPE_I32, 1, &n, rows, error);
  if (!ids)
    return FALSE;
  seen = h3_adaln_rows (t, n, H3_N_ADALN, error);
  if (!seen)
    return FALSE;
  for (gint i = 0; i < t->config.layers; i++) {
    g_autofree gchar *name =
        g_strdup_printf ("transformer_blocks.%d.adaln_proj", i);
    g_autoptr (H3Weight) table =
        h3_weight_new_plain (h3_tensor_ref (s->tables[i]));

    h3_embedding (s->stream, seen, table, ids);
    h3_tap (tap, name, seen);
  }
  return h3_stream_synchronize (s->stream, error);
}

static gboolean
make_block_tables (H3TransformerSession *s, Pairs *pairs,
    H3LoadProgress progress, gpointer user_data, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  H3Transformer *t = s->transformer;
  g_autoptr (H3Tensor) table = h3_adaln_get (t, s->stream, pairs->pair,
      pairs->n, pairs->slot, progress, user_data, stop, error);

  if (!table)
    return FALSE;
  s->tables = g_new0 (H3Tensor *, t->config.layers);
  for (gint i = 0; i < t->config.layers; i++)
    s->tables[i] = h3_adaln_block_table (t, table, i);
  return tap_tables (s, pairs, tap, error);
}

static gboolean
make_final_table (H3TransformerSession *s, const Pairs *times, const H3Tap *tap,
    GError **error)
{
  g_autofree gfloat *t = g_new (gfloat, times->n);

  for (gint i = 0; i < times->n; i++)
    t[i] = times->pair[i].t;
  s->final_table =
      h3_adaln_final_table (s->transformer, s->stream, t, times->n, tap, error);
  return s->final_table != NULL;
}

/* denoiser.md 3.4, with the rows of H3Adaln: one of the (timestep, tag) of each
 * packed row; in the final layer of the timestep alone. Uploaded once. */
static gboolean
make_step_rows (H3TransformerSession *s, const H3Packing *packing,
    const gfloat *t_v, const gfloat *t_a, const Pairs *pairs,
    const Pairs *times, GError **error)
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
    gint32 row_of[H3_N_CLOCKS][H3_N_TAGS], time_of[H3_N_CLOCKS];

    for (gint clock = 0; clock < H3_N_CLOCKS; clock++) {
      gfloat t = clock_time (clock, t_v[i], t_a[i]);

      time_of[clock] = pair_index (times, t, 0);
      for (gint tag = 0; tag < H3_N_TAGS; tag++)
        row_of[clock][tag] = pairs->slot[pair_index (pairs, t, tag)] *
                             s->transformer->config.layers;
    }
    for (gint row = 0; row < rows; row++)
      block[row] = row_of[packing->clock[row]][packing->tag[row]];
    for (gint row = 0; row < targets; row++)
      final[row] = time_of[packing->clock[packing->first_audio + row]];

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

gboolean
h3_session_make_tables (H3TransformerSession *session, const H3Packing *packing,
    const gfloat *t_v, const gfloat *t_a, H3LoadProgress progress,
    gpointer user_data, const H3Stop *stop, const H3Tap *tap, GError **error)
{
  Used used = { { { FALSE } } }, used_by_targets = { { { FALSE } } };
  g_auto (Pairs) pairs = { NULL, NULL, 0 };
  g_auto (Pairs) times = { NULL, NULL, 0 };

  for (gint row = 0; row < packing->rows; row++) {
    used.at[packing->clock[row]][packing->tag[row]] = TRUE;
    if (row >= packing->first_audio)
      used_by_targets.at[packing->clock[row]][0] = TRUE;
  }
  pairs_init (&pairs, &used, t_v, t_a, session->steps);
  pairs_init (&times, &used_by_targets, t_v, t_a, session->steps);
  return make_rope (session, packing, error) &&
         make_final_table (session, &times, tap, error) &&
         make_block_tables (session, &pairs, progress, user_data, stop, tap,
             error) &&
         make_step_rows (session, packing, t_v, t_a, &pairs, &times, error);
}
