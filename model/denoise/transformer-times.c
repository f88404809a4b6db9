/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From timesteps to the input of AdaLN's linears (denoiser.md 3.3, 6.2), and what
 * a linear makes of it, row by row. */
#include "model/denoise/transformer-private.h"

#include <math.h>
#include <string.h>

G_STATIC_ASSERT (H3_TIME_PLACES == 1 << 4);

static gint
place_of (gfloat time)
{
  guint32 bits;

  memcpy (&bits, &time, sizeof bits);
  bits *= 2654435761u; /* mixes them into the upper ones */
  return bits >> 28;
}

void
h3_time_batch_clear (H3TimeBatch *batch)
{
  g_clear_pointer (&batch->chunk, g_free);
  g_clear_pointer (&batch->a, h3_tensor_unref);
  g_clear_pointer (&batch->places, h3_tensor_unref);
  g_clear_pointer (&batch->rows, h3_tensor_unref);
}

/* @chunk_of: (out) (array length=n): the product of each. */
static void
share_out (H3TimeBatch *batch, const gfloat *times, gint n, gint *chunk_of)
{
  gint filled[H3_TIME_PLACES] = { 0 };

  batch->n = n;
  for (gint i = 0; i < n; i++) {
    chunk_of[i] = filled[place_of (times[i])]++;
    batch->n_chunks = MAX (batch->n_chunks, chunk_of[i] + 1);
  }
}

/* Uploads who is where, product by product. */
static gboolean
make_indices (H3TimeBatch *batch, H3Device *device, const gfloat *times,
    const gint32 *rows, const gint *chunk_of, GError **error)
{
  const gint64 n = batch->n;
  g_autofree gint32 *places = g_new (gint32, n);
  g_autofree gint32 *sorted = g_new (gint32, n);
  gint found = 0;

  batch->chunk = g_new0 (gint, batch->n_chunks + 1);
  for (gint chunk = 0; chunk < batch->n_chunks; chunk++) {
    for (gint i = 0; i < n; i++)
      if (chunk_of[i] == chunk) {
        places[found] = place_of (times[i]);
        sorted[found++] = rows[i];
      }
    batch->chunk[chunk + 1] = found;
  }
  batch->places =
      h3_tensor_new_from_host (device, H3_DTYPE_I32, 1, &n, places, error);
  if (!batch->places)
    return FALSE;
  batch->rows =
      h3_tensor_new_from_host (device, H3_DTYPE_I32, 1, &n, sorted, error);
  return batch->rows != NULL;
}

/* denoiser.md 3.3: cosines, then sines, of the unscaled t. */
static void
time_features (const H3Transformer *t, gfloat time, gfloat *e)
{
  gint half = t->config.freq_dim / 2;

  for (gint k = 0; k < half; k++) {
    gfloat f = expf ((gfloat) -G_LN10 * 4 * k / half); /* 10000^(-k/half) */
    gfloat angle = time * f;

    e[k] = cosf (angle);
    e[half + k] = sinf (angle);
  }
}

/* denoiser.md 6.2 */
static void
curve_point (const H3Transformer *t, gfloat time, gfloat *c)
{
  h3_curve_at (&t->curve, time, c);
}

/* Float32 [n_chunks * H3_TIME_PLACES, dim]: @make of each place's timestep. */
static H3Tensor *
rows_of_times (const H3TimeBatch *batch, const H3Transformer *t,
    const gfloat *times, const gint *chunk_of, gint dim,
    void (*make) (const H3Transformer *t, gfloat time, gfloat *row),
    GError **error)
{
  gint rows = batch->n_chunks * H3_TIME_PLACES;
  const gint64 shape[] = { rows, dim };
  g_autofree gfloat *in_place = g_new0 (gfloat, rows);
  g_autofree gfloat *made = g_try_new (gfloat, (gsize) rows * dim);

  if (!made) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for the features of %d timesteps", batch->n);
    return NULL;
  }
  for (gint i = 0; i < batch->n; i++)
    in_place[chunk_of[i] * H3_TIME_PLACES + place_of (times[i])] = times[i];
  for (gint row = 0; row < rows; row++)
    make (t, in_place[row], made + (gsize) row * dim);
  return h3_tensor_new_from_host (t->device, H3_DTYPE_F32, 2, shape, made,
      error);
}

/* y = act (x Wᵀ + b), a product at a time */
static void
linear_chunks (H3Stream *stream, H3Tensor *y, H3Tensor *x,
    const H3Weight *weight, const H3Tensor *bias, H3Activation activation)
{
  for (gint64 first = 0; first < h3_tensor_rows (x); first += H3_TIME_PLACES) {
    g_autoptr (H3Tensor) y_rows =
        h3_tensor_view_rows (y, first, H3_TIME_PLACES);
    g_autoptr (H3Tensor) x_rows =
        h3_tensor_view_rows (x, first, H3_TIME_PLACES);
    H3LinearArgs args = {
      .y = y_rows,
      .x = x_rows,
      .weight = weight,
      .bias = bias,
      .activation = activation,
    };

    h3_linear (stream, &args);
  }
}

/* Shows @rows, one for each timestep, in their order. */
static gboolean
tap_rows (const H3TimeBatch *batch, H3Stream *stream, H3Tensor *rows,
    const gfloat *times, const gint *chunk_of, const gchar *name,
    const H3Tap *tap, GError **error)
{
  const gint64 n = batch->n;
  g_autofree gint32 *ids = g_new (gint32, n);
  g_autoptr (H3Weight) from = h3_weight_new_plain (h3_tensor_ref (rows));
  g_autoptr (H3Tensor) index = NULL;
  g_autoptr (H3Tensor) seen = NULL;

  for (gint i = 0; i < n; i++)
    ids[i] = chunk_of[i] * H3_TIME_PLACES + place_of (times[i]);
  index =
      h3_tensor_new_from_host (rows->device, H3_DTYPE_I32, 1, &n, ids, error);
  if (!index)
    return FALSE;
  seen = h3_tensor_new_2d (rows->device, rows->dtype, n, h3_tensor_cols (rows),
      error);
  if (!seen)
    return FALSE;
  h3_embedding (stream, seen, from, index);
  h3_tap (tap, name, seen);
  return h3_stream_synchronize (stream, error);
}

/* The embedding itself, which only its silu outlives. */
static gboolean
tap_embedding (const H3TimeBatch *batch, const H3Transformer *t,
    H3Stream *stream, H3Tensor *features, H3Tensor *hidden, const gfloat *times,
    const gint *chunk_of, const H3Tap *tap, GError **error)
{
  g_autoptr (H3Tensor) tau = NULL;

  if (!tap || !tap->func)
    return TRUE;
  tau = h3_tensor_new_2d (t->device, H3_DTYPE_F32, h3_tensor_rows (hidden),
      t->config.time_dim, error);
  if (!tau)
    return FALSE;
  linear_chunks (stream, tau, hidden, t->time_out, t->time_out_bias,
      H3_ACTIVATION_NONE);
  return tap_rows (batch, stream, features, times, chunk_of, "time_proj", tap,
             error) &&
         tap_rows (batch, stream, tau, times, chunk_of, "time_embedder", tap,
             error);
}

static gboolean
embed (H3TimeBatch *batch, const H3Transformer *t, H3Stream *stream,
    const gfloat *times, const gint *chunk_of, const H3Tap *tap, GError **error)
{
  g_autoptr (H3Tensor) features = rows_of_times (batch, t, times, chunk_of,
      t->config.freq_dim, time_features, error);
  g_autoptr (H3Tensor) hidden = NULL;

  if (!features)
    return FALSE;
  hidden = h3_tensor_new_2d (t->device, H3_DTYPE_F32, h3_tensor_rows (features),
      t->config.time_hidden, error);
  if (!hidden)
    return FALSE;
  batch->a = h3_tensor_new_2d (t->device, t->device->act_dtype,
      h3_tensor_rows (features), t->config.time_dim, error);
  if (!batch->a)
    return FALSE;
  linear_chunks (stream, hidden, features, t->time_in, t->time_in_bias,
      H3_ACTIVATION_SILU);
  linear_chunks (stream, batch->a, hidden, t->time_out, t->time_out_bias,
      H3_ACTIVATION_SILU);
  return tap_embedding (batch, t, stream, features, hidden, times, chunk_of,
             tap, error) &&
         h3_stream_synchronize (stream, error);
}

/* AdaLN's input itself, without an embedding and without silu. */
static gboolean
look_up (H3TimeBatch *batch, const H3Transformer *t, const gfloat *times,
    const gint *chunk_of, GError **error)
{
  batch->a = rows_of_times (batch, t, times, chunk_of, t->curve.width,
      curve_point, error);
  return batch->a != NULL;
}

gboolean
h3_time_batch_init (H3TimeBatch *batch, const H3Transformer *t,
    H3Stream *stream, const gfloat *times, const gint32 *rows, gint n,
    const H3Tap *tap, GError **error)
{
  g_autofree gint *chunk_of = g_new (gint, n);

  share_out (batch, times, n, chunk_of);
  if (!make_indices (batch, t->device, times, rows, chunk_of, error))
    return FALSE;
  return t->curve.table ? look_up (batch, t, times, chunk_of, error)
                        : embed (batch, t, stream, times, chunk_of, tap, error);
}

void
h3_time_batch_linear (const H3TimeBatch *batch, H3Stream *stream, H3Tensor *y,
    const H3Weight *weight, const H3Tensor *bias, H3Tensor *z, H3Tensor *picked)
{
  g_autoptr (H3Weight) from = h3_weight_new_plain (h3_tensor_ref (z));

  for (gint i = 0; i < batch->n_chunks; i++) {
    const gint64 first = batch->chunk[i], n = batch->chunk[i + 1] - first;
    g_autoptr (H3Tensor) a = h3_tensor_view_rows (batch->a,
        (gint64) i * H3_TIME_PLACES, H3_TIME_PLACES);
    g_autoptr (H3Tensor) places = h3_tensor_view (batch->places, first, 1, &n);
    g_autoptr (H3Tensor) rows = h3_tensor_view (batch->rows, first, 1, &n);
    g_autoptr (H3Tensor) theirs = h3_tensor_view_rows (picked, 0, n);

    h3_linear_bias (stream, z, a, weight, bias);
    h3_embedding (stream, theirs, from, places);
    h3_scatter_rows (stream, y, theirs, rows);
  }
}

static gboolean
final_linear (const H3TimeBatch *batch, const H3Transformer *t,
    H3Stream *stream, H3Tensor *table, GError **error)
{
  g_autoptr (H3Tensor) z =
      h3_adaln_rows (t, H3_TIME_PLACES, H3_N_FINAL_ADALN, error);
  g_autoptr (H3Tensor) picked = NULL;

  if (!z)
    return FALSE;
  picked = h3_adaln_rows (t, H3_TIME_PLACES, H3_N_FINAL_ADALN, error);
  if (!picked)
    return FALSE;
  h3_time_batch_linear (batch, stream, table, t->final_adaln,
      t->final_adaln_bias, z, picked);
  return h3_stream_synchronize (stream, error);
}

H3Tensor *
h3_adaln_final_table (const H3Transformer *t, H3Stream *stream,
    const gfloat *times, gint n, const H3Tap *tap, GError **error)
{
  g_autofree gint32 *rows = g_new (gint32, n);
  g_autoptr (H3Tensor) table = NULL;
  g_auto (H3TimeBatch) batch = { 0 };

  for (gint i = 0; i < n; i++)
    rows[i] = i;
  table = h3_adaln_rows (t, n, H3_N_FINAL_ADALN, error);
  if (!table ||
      !h3_time_batch_init (&batch, t, stream, times, rows, n, tap, error) ||
      !final_linear (&batch, t, stream, table, error))
    return NULL;
  return g_steal_pointer (&table);
}
