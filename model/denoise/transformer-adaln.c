/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* AdaLN's rows by timestep and tag (denoiser.md 3.4, 7). They depend on
 * nothing else, so they are computed once and shared by the transformer's
 * sessions; the weights they come from, 40 % of all, are read for that, a block
 * and a tag at a time, and not kept. */
#include "model/denoise/transformer-private.h"

#include <string.h>

/* Computing rows */

typedef struct {
  const H3Transformer *transformer;
  H3Stream *stream;
  H3Tensor *table;
  H3TimeBatch batches[H3_N_TAGS]; /* what is to be computed */
  H3Tensor *z, *picked;           /* [H3_TIME_PLACES, 6 H] */
  H3Loader *loader;
  H3Weight *piece; /* [6 H, width] of one block and tag */
  H3LoadProgress progress;
  gpointer user_data;
  guint64 n_pieces, n_done;
} Fill;

static void
fill_clear (Fill *fill)
{
  for (gint tag = 0; tag < H3_N_TAGS; tag++)
    h3_time_batch_clear (&fill->batches[tag]);
  g_clear_pointer (&fill->z, h3_tensor_unref);
  g_clear_pointer (&fill->picked, h3_tensor_unref);
  g_clear_pointer (&fill->piece, h3_weight_unref);
  g_clear_pointer (&fill->loader, h3_loader_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Fill, fill_clear)

/* Of @pairs, the i-th of which goes to slot @slot + i, those with @tag. */
static gboolean
fill_tag (Fill *fill, gint tag, const H3AdalnPair *pairs, gint n, gint slot,
    GError **error)
{
  const H3Transformer *t = fill->transformer;
  g_autofree gfloat *times = g_new (gfloat, n);
  g_autofree gint32 *rows = g_new (gint32, n);
  gint found = 0;

  for (gint i = 0; i < n; i++)
    if (pairs[i].tag == tag) {
      times[found] = pairs[i].t;
      rows[found++] = (slot + i) * t->config.layers;
    }
  if (found == 0)
    return TRUE;
  fill->n_pieces += t->config.layers;
  return h3_time_batch_init (&fill->batches[tag], t, fill->stream, times, rows,
      found, NULL, error);
}

static gchar *
module_name (gboolean diffusers, gint block)
{
  return g_strdup_printf ("%s.%d.adaln_proj.linear",
      diffusers ? "transformer_blocks" : "blocks", block);
}

static gchar *
weight_name (gboolean diffusers, gint block)
{
  g_autofree gchar *module = module_name (diffusers, block);

  return g_strconcat (module, ".weight", NULL);
}

/* A curve's bias has the mean in it, which some files' names say. */
gchar *
h3_adaln_bias_name (const H3Loader *loader, const H3TransformerConfig *c,
    const gchar *module)
{
  gsize stem = strlen (module) - strlen (".linear");
  g_autofree gchar *folded =
      g_strdup_printf ("%.*s.folded_bias", (gint) stem, module);

  if (c->curve_points > 0 && h3_loader_has (loader, folded))
    return g_steal_pointer (&folded);
  return g_strconcat (module, ".bias", NULL);
}

static gchar *
bias_name (const H3Loader *loader, const H3TransformerConfig *c,
    gboolean diffusers, gint block)
{
  g_autofree gchar *module = module_name (diffusers, block);

  return h3_adaln_bias_name (loader, c, module);
}

/* One block's rows of one tag: z = a W_tagᵀ + b_tag. Waits, for the next piece
 * comes into the same memory; the product takes a hundredth of the reading. */
static gboolean
fill_piece (Fill *fill, gint block, gint tag, H3Tensor *bias, GError **error)
{
  const H3Transformer *t = fill->transformer;
  gint64 n = H3_N_ADALN * (gint64) t->config.hidden;
  g_autofree gchar *name = weight_name (t->adaln.diffusers, block);
  g_autoptr (H3Tensor) tag_bias = NULL;
  g_autoptr (H3Tensor) table = NULL;

  if (!h3_loader_piece (fill->loader, name, H3_N_TAGS * n,
          h3_adaln_width (&t->config), tag * n, n, &fill->piece))
    return FALSE;
  tag_bias = h3_tensor_view (bias, tag * n, 1, &n);
  table = h3_adaln_block_table (t, fill->table, block);
  h3_time_batch_linear (&fill->batches[tag], fill->stream, table, fill->piece,
      tag_bias, fill->z, fill->picked);
  if (!h3_stream_synchronize (fill->stream, error))
    return FALSE;
  fill->n_done++;
  if (fill->progress) {
    guint64 bytes = fill->piece->tensor->bytes;

    fill->progress (fill->n_done * bytes, fill->n_pieces * bytes,
        fill->user_data);
  }
  return TRUE;
}

/* FALSE without an error: the loader has it. A bias has arrived when a piece
 * after it has. */
static gboolean
fill_block (Fill *fill, gint block, GError **error)
{
  const H3Transformer *t = fill->transformer;
  g_autofree gchar *name =
      bias_name (fill->loader, &t->config, t->adaln.diffusers, block);
  g_autoptr (H3Tensor) bias = h3_loader_vector1 (fill->loader, name,
      H3_ADALN_ROWS * (gint64) t->config.hidden);

  g_autofree gchar *weight = weight_name (t->adaln.diffusers, block);

  if (!bias)
    return FALSE;
  h3_loader_adapt_bias (fill->loader, weight, bias);
  for (gint tag = 0; tag < H3_N_TAGS; tag++)
    if (fill->batches[tag].n > 0 && !fill_piece (fill, block, tag, bias, error))
      return FALSE;
  return TRUE;
}

static gboolean
fill_blocks (Fill *fill, const H3Stop *stop, GError **error)
{
  const H3Transformer *t = fill->transformer;
  GError *failure = NULL;

  fill->loader = h3_loader_new (t->adaln.set, H3_TRANSFORMER_WHAT);
  h3_loader_set_adapters (fill->loader, t->adaln.adapters);
  h3_curve_project (&t->curve, fill->loader);
  if (!h3_loader_begin (fill->loader, t->device, stop, NULL, NULL, error))
    return FALSE;
  h3_loader_round_matrices (fill->loader,
      h3_adaln_dtype (&t->config, t->device));
  for (gint i = 0; i < t->config.layers; i++)
    if (!fill_block (fill, i, &failure))
      break;
  if (failure) {
    g_propagate_error (error, failure);
    return FALSE;
  }
  return h3_loader_finish (fill->loader, error);
}

/* Rows of all blocks of @pairs into the slots @slot .. @slot + n. */
static gboolean
fill_slots (const H3Transformer *t, H3Stream *stream, H3Tensor *table,
    const H3AdalnPair *pairs, gint n, gint slot, H3LoadProgress progress,
    gpointer user_data, const H3Stop *stop, GError **error)
{
  g_auto (Fill) fill = {
    .transformer = t,
    .stream = stream,
    .table = table,
    .progress = progress,
    .user_data = user_data,
  };

  fill.z = h3_adaln_rows (t, H3_TIME_PLACES, H3_N_ADALN, error);
  if (!fill.z)
    return FALSE;
  fill.picked = h3_adaln_rows (t, H3_TIME_PLACES, H3_N_ADALN, error);
  if (!fill.picked)
    return FALSE;
  for (gint tag = 0; tag < H3_N_TAGS; tag++)
    if (!fill_tag (&fill, tag, pairs, n, slot, error))
      return FALSE;
  return fill_blocks (&fill, stop, error);
}

/* The rows that are there */

void
h3_adaln_init (H3Adaln *adaln)
{
  g_mutex_init (&adaln->lock);
  g_cond_init (&adaln->changed);
}

void
h3_adaln_clear (H3Adaln *adaln)
{
  g_clear_pointer (&adaln->table, h3_tensor_unref);
  g_clear_pointer (&adaln->pairs, g_free);
  g_clear_pointer (&adaln->set, h3_tensor_set_free);
  g_clear_pointer (&adaln->adapters, h3_adapters_free);
  g_mutex_clear (&adaln->lock);
  g_cond_clear (&adaln->changed);
}

void
h3_adaln_check (H3Loader *loader, const H3TransformerConfig *c,
    gboolean diffusers)
{
  gint64 n = H3_ADALN_ROWS * (gint64) c->hidden;

  for (gint i = 0; i < c->layers; i++) {
    g_autofree gchar *weight = weight_name (diffusers, i);
    g_autofree gchar *bias = bias_name (loader, c, diffusers, i);

    h3_loader_piece (loader, weight, n, h3_adaln_width (c), 0, n, NULL);
    h3_loader_piece (loader, bias, n, 1, 0, n, NULL);
  }
}

guint64
h3_adaln_bytes (const H3TransformerConfig *c, const H3Device *device,
    gint n_pairs)
{
  guint64 size = h3_dtype_size (h3_adaln_dtype (c, device));
  guint64 row = H3_N_ADALN * (guint64) c->hidden;
  guint64 width = h3_adaln_width (c);
  guint64 slots = MAX (n_pairs, H3_ADALN_PAIRS);
  guint64 bias = H3_N_TAGS * row * sizeof (gfloat);
  /* at most: of float32, and each timestep in a product of its own */
  guint64 piece = row * width * sizeof (gfloat);
  guint64 a = (guint64) n_pairs * H3_TIME_PLACES * width;
  guint64 hidden =
      (guint64) n_pairs * H3_TIME_PLACES * c->time_hidden * sizeof (gfloat);

  return (slots * c->layers * row + 2 * H3_TIME_PLACES * row + a) * size +
         piece + bias + hidden;
}

H3Tensor *
h3_adaln_block_table (const H3Transformer *t, H3Tensor *table, gint block)
{
  gint64 cols = H3_N_ADALN * (gint64) t->config.hidden;

  return h3_matrix_view (table, block * cols, h3_tensor_rows (table) - block,
      cols);
}

static gint
find_slot (const H3Adaln *adaln, const H3AdalnPair *pair)
{
  for (gint i = 0; i < adaln->n_pairs; i++)
    if (adaln->pairs[i].t == pair->t && adaln->pairs[i].tag == pair->tag)
      return i;
  return -1;
}

static gint
find_missing (const H3Adaln *adaln, const H3AdalnPair *pairs, gint n,
    H3AdalnPair *missing)
{
  gint n_missing = 0;

  for (gint i = 0; i < n; i++)
    if (find_slot (adaln, &pairs[i]) < 0)
      missing[n_missing++] = pairs[i];
  return n_missing;
}

/* A new, empty table where the old one has no room for @n_missing more of @n
 * pairs. Sessions keep the old one as long as they need it. */
static gboolean
make_room (H3Transformer *t, gint n, gint n_missing, GError **error)
{
  H3Adaln *adaln = &t->adaln;
  gint capacity = MAX (n, H3_ADALN_PAIRS);

  if (adaln->table && adaln->capacity - adaln->n_pairs >= n_missing)
    return TRUE;
  g_clear_pointer (&adaln->table, h3_tensor_unref);
  adaln->n_pairs = adaln->capacity = 0;
  adaln->table = h3_adaln_rows (t, (gint64) capacity * t->config.layers,
      H3_N_ADALN, error);
  if (!adaln->table)
    return FALSE;
  adaln->pairs = g_renew (H3AdalnPair, adaln->pairs, capacity);
  adaln->capacity = capacity;
  return TRUE;
}

/* With the lock, which is not held while rows are computed: slots after the
 * last are nobody else's. */
static gboolean
add_missing (H3Transformer *t, H3Stream *stream, const H3AdalnPair *pairs,
    gint n, H3AdalnPair *missing, gint n_missing, H3LoadProgress progress,
    gpointer user_data, const H3Stop *stop, GError **error)
{
  H3Adaln *adaln = &t->adaln;
  gboolean filled;

  if (!make_room (t, n, n_missing, error))
    return FALSE;
  n_missing = find_missing (adaln, pairs, n, missing);
  adaln->filling = TRUE;
  g_mutex_unlock (&adaln->lock);
  filled = fill_slots (t, stream, adaln->table, missing, n_missing,
      adaln->n_pairs, progress, user_data, stop, error);
  g_mutex_lock (&adaln->lock);
  adaln->filling = FALSE;
  if (filled) {
    memcpy (adaln->pairs + adaln->n_pairs, missing,
        n_missing * sizeof *missing);
    adaln->n_pairs += n_missing;
  }
  g_cond_broadcast (&adaln->changed);
  return filled;
}

/* With the lock: a moment for who is computing rows. */
static gboolean
wait_for_other (H3Adaln *adaln, const H3Stop *stop, GError **error)
{
  gboolean stopped;

  g_cond_wait_until (&adaln->changed, &adaln->lock,
      g_get_monotonic_time () + G_TIME_SPAN_MILLISECOND * 50);
  g_mutex_unlock (&adaln->lock);
  stopped = h3_stop_requested (stop, error);
  g_mutex_lock (&adaln->lock);
  return !stopped;
}

H3Tensor *
h3_adaln_get (H3Transformer *t, H3Stream *stream, const H3AdalnPair *pairs,
    gint n, gint *slots, H3LoadProgress progress, gpointer user_data,
    const H3Stop *stop, GError **error)
{
  H3Adaln *adaln = &t->adaln;
  g_autofree H3AdalnPair *missing = g_new (H3AdalnPair, n);
  H3Tensor *table = NULL;
  gboolean good = TRUE;
  gint n_missing;

  g_mutex_lock (&adaln->lock);
  while (good && (n_missing = find_missing (adaln, pairs, n, missing)) > 0) {
    if (adaln->filling)
      good = wait_for_other (adaln, stop, error);
    else
      good = add_missing (t, stream, pairs, n, missing, n_missing, progress,
          user_data, stop, error);
  }
  for (gint i = 0; good && i < n; i++)
    slots[i] = find_slot (adaln, &pairs[i]);
  if (good)
    table = h3_tensor_ref (adaln->table);
  g_mutex_unlock (&adaln->lock);
  return table;
}
