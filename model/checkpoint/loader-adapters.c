/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What adapters add to weights on their way (denoiser.md 8.1, 8.2): to plain ones
 * at once, beside quantised ones as two factors. */
#include "model/checkpoint/adapter.h"
#include "model/checkpoint/loader-private.h"
#include "model/checkpoint/stored-values.h"

#include <string.h>

/* Numbers of a weight that are widened at a time. */
#define CHUNK (G_GINT64_CONSTANT (1) << 24)
/* Ranks are filled up with zeros to a multiple of it, which every product of
 * 16-bit numbers takes. */
#define RANK_UNIT 8

/* A weight that is to be changed when it has arrived. */
typedef struct {
  H3Tensor *tensor; /* owned */
  const GPtrArray *updates;
  gboolean bias; /* it is a bias, and gets the projection's offset */
  H3LoaderParts parts;
} Merge;

static void
merge_free (gpointer data)
{
  Merge *merge = data;

  h3_tensor_unref (merge->tensor);
  g_free (merge);
}

void
h3_loader_set_adapters (H3Loader *loader, const H3Adapters *adapters)
{
  loader->adapters = adapters;
  if (!adapters)
    return;
  loader->adapted = g_hash_table_new (g_direct_hash, g_direct_equal);
  loader->merges = g_ptr_array_new_with_free_func (merge_free);
}

gint64
h3_loader_low_rank (const H3Loader *loader)
{
  return loader->low_rank;
}

GPtrArray *
h3_loader_unmatched_updates (const H3Loader *loader)
{
  GPtrArray *keys = g_ptr_array_new ();
  const GPtrArray *updates =
      loader->adapters ? h3_adapters_updates (loader->adapters) : NULL;

  for (guint i = 0; updates && i < updates->len; i++) {
    const H3AdapterUpdate *update = updates->pdata[i];

    if (!g_hash_table_contains (loader->adapted, update))
      g_ptr_array_add (keys, update->key);
  }
  return keys;
}

/* Finding */

/* Of the whole weight, which a piece is a part of. */
static gint64
all_rows (const H3LoaderParts *p)
{
  gint64 rows = 0;

  for (guint i = 0; i < p->n; i++)
    rows += p->n_rows[i];
  return rows;
}

static gint64
stays_padded (gint64 rank)
{
  return (rank + RANK_UNIT - 1) / RANK_UNIT * RANK_UNIT;
}

/* Of AdaLN's full width, which a pruned transformer has not. */
static gboolean
is_projected (const H3Loader *loader, const H3AdapterUpdate *update)
{
  return loader->full > 0 && strstr (update->module, "adaln_proj") &&
         update->down->shape[1] == (guint64) loader->full;
}

/* The module's rows and columns are the weight's. */
static gboolean
check_update (H3Loader *loader, const H3LoaderParts *p,
    const H3AdapterUpdate *update)
{
  gint64 rows = all_rows (p);
  gint64 needed = update->part < 0 ? rows : rows / 3;
  gint64 cols = (gint64) update->down->shape[1];
  gint64 found = (gint64) update->up->shape[0];

  if (cols != p->cols &&
      !(is_projected (loader, update) && p->cols == loader->width)) {
    h3_loader_problem (loader,
        "%s: lora_A is [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
        "], and %s has %" G_GINT64_FORMAT " columns%s",
        update->key, update->rank, cols, p->name, p->cols,
        strstr (update->module, "adaln_proj")
            ? ": one for the full checkpoint goes onto a pruned one only with "
              "adaln_basis and adaln_mean, and the other way round onto none"
            : "");
    return FALSE;
  }
  if (found != needed ||
      (update->order == H3_ROWS_GROUPED_QKV &&
          rows != (gint64) 3 * p->heads * p->head_dim) ||
      (update->order == H3_ROWS_SWAP_HALVES && rows % 2 != 0)) {
    h3_loader_problem (loader,
        "%s: lora_B is [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
        "]; %s needs %" G_GINT64_FORMAT " rows",
        update->key, found, update->rank, p->name, needed);
    return FALSE;
  }
  if (update->rank > MAX (rows, p->cols)) {
    h3_loader_problem (loader,
        "%s: the rank %" G_GINT64_FORMAT " is more than %s has rows or columns "
        "(%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ")",
        update->key, update->rank, p->name, rows, p->cols);
    return FALSE;
  }
  if (update->activated && (h3_loader_parts_quantised (p) || p->stacked)) {
    h3_loader_problem (loader,
        "%s: %s is quantised, where an adapter of this layer is not supported",
        update->key, p->name);
    return FALSE;
  }
  return TRUE;
}

const GPtrArray *
h3_loader_find_updates (H3Loader *loader, const H3LoaderParts *p)
{
  const GPtrArray *updates = loader->adapters && p->name
                                 ? h3_adapters_find (loader->adapters, p->name)
                                 : NULL;
  gboolean good = TRUE;

  for (guint i = 0; updates && i < updates->len; i++) {
    good = check_update (loader, p, updates->pdata[i]) && good;
    g_hash_table_add (loader->adapted, updates->pdata[i]);
  }
  return good ? updates : NULL;
}

/* Reading factors */

/* All of a stored factor. NULL: the run has failed. */
static gfloat *
read_factor (H3Loader *loader, const H3StoredTensor *tensor)
{
  gint64 n = h3_loader_elements (tensor);
  g_autofree guint8 *stored = g_try_malloc (tensor->bytes);
  gfloat *values = g_try_new (gfloat, n);
  GError *error = NULL;

  if (!stored || !values)
    error = g_error_new (H3_ERROR, H3_ERROR_NO_SPACE,
        "%s: tensor %s: no memory for %" G_GINT64_FORMAT " numbers",
        tensor->path, tensor->name, n);
  else if (h3_reader_read (tensor, 0, n, stored, &error))
    h3_stored_values_widen (tensor->type, stored, n, values);
  if (!error)
    return values;
  g_free (values);
  h3_loader_fail (loader, error);
  return NULL;
}

/* Zeros; NULL when it failed. */
static gfloat *
new_matrix (H3Loader *loader, const H3AdapterUpdate *update, gint64 rows,
    gint64 cols)
{
  gfloat *values = NULL;

  if (rows <= G_MAXINT64 / (gint64) sizeof (gfloat) / MAX (cols, 1))
    values = g_try_malloc0 (rows * cols * sizeof (gfloat));
  if (!values)
    h3_loader_fail (loader, g_error_new (H3_ERROR, H3_ERROR_NO_SPACE,
                                "%s: no memory for %" G_GINT64_FORMAT
                                " rows of %" G_GINT64_FORMAT " floats",
                                update->key, rows, cols));
  return values;
}

/* down, or what the projection makes of it, in double. */
static gfloat *
read_down (H3Loader *loader, const H3AdapterUpdate *update)
{
  gfloat *stored = read_factor (loader, update->down);
  gint64 full = loader->full, width = loader->width;
  gfloat *projected;

  if (!stored || !is_projected (loader, update))
    return stored;
  projected = new_matrix (loader, update, update->rank, width);
  for (gint64 k = 0; projected && k < update->rank; k++)
    for (gint64 j = 0; j < width; j++) {
      gdouble sum = 0;

      for (gint64 c = 0; c < full; c++)
        sum += (gdouble) stored[k * full + c] * loader->basis[j * full + c];
      projected[k * width + j] = (gfloat) sum;
    }
  g_free (stored);
  return projected;
}

/* The stored row of lora_B that is row @r of the update. */
static gint64
stored_row (const H3LoaderParts *p, const H3AdapterUpdate *update, gint64 r)
{
  gint64 rows = (gint64) update->up->shape[0];
  gint64 inner = (gint64) p->heads * p->head_dim;

  switch (update->order) {
    case H3_ROWS_GROUPED_QKV:
      return (r % inner / p->head_dim * 3 + r / inner) * p->head_dim +
             r % p->head_dim;
    case H3_ROWS_SWAP_HALVES:
      return (r + rows / 2) % rows;
    default:
      return r;
  }
}

/* Rows of the weight, or the piece of it, that an update changes: [first, first +
 * n), and the first of its own. */
typedef struct {
  gint64 first, n, from;
} Span;

static Span
span_of (const H3LoaderParts *p, const H3AdapterUpdate *update)
{
  gint64 rows = (gint64) update->up->shape[0];
  gint64 begin = update->part < 0 ? 0 : update->part * rows;
  gint64 first = MAX (begin, p->first);
  gint64 end = MIN (begin + rows, p->first + p->rows);

  return (Span){ first - p->first, MAX (end - first, 0), first - begin };
}

/* scale * lora_B's rows of @span to the columns from @column on of @dest
 * [.., width]. */
static gboolean
fill_up (H3Loader *loader, const H3LoaderParts *p,
    const H3AdapterUpdate *update, const Span *span, gfloat *dest, gint64 width)
{
  g_autofree gfloat *stored = read_factor (loader, update->up);

  if (!stored)
    return FALSE;
  for (gint64 r = 0; r < span->n; r++) {
    const gfloat *from =
        stored + stored_row (p, update, span->from + r) * update->rank;

    for (gint64 k = 0; k < update->rank; k++)
      dest[r * width + k] = update->scale * from[k];
  }
  return TRUE;
}

/* Merging */

/* On the device, for one weight: up [n, rank], and down as linear wants the
 * second factor of up down, [cols, rank]. */
typedef struct {
  Span span;
  H3Tensor *up;
  H3Weight *down;
} Factors;

static void
factors_clear (gpointer data)
{
  Factors *factors = data;

  g_clear_pointer (&factors->up, h3_tensor_unref);
  g_clear_pointer (&factors->down, h3_weight_unref);
}

/* Takes nothing; NULL when it failed. */
static H3Tensor *
upload_matrix (H3Loader *loader, H3DType dtype, const gfloat *values,
    gint64 rows, gint64 cols)
{
  const gint64 shape[] = { rows, cols };
  g_autoptr (H3Tensor) tensor = h3_loader_new_tensor (loader, dtype, 2, shape);

  if (!tensor || !h3_loader_upload (loader, tensor, values))
    return NULL;
  return g_steal_pointer (&tensor);
}

static H3Weight *
transposed_down (H3Loader *loader, const H3LoaderParts *p,
    const H3AdapterUpdate *update, gint64 width)
{
  gint64 cols = p->cols;
  g_autofree gfloat *stored = read_down (loader, update);
  g_autofree gfloat *values =
      stored ? new_matrix (loader, update, cols, width) : NULL;
  H3Tensor *tensor;

  if (!values)
    return NULL;
  for (gint64 k = 0; k < update->rank; k++)
    for (gint64 c = 0; c < cols; c++)
      values[c * width + k] = stored[k * cols + c];
  tensor = upload_matrix (loader, H3_DTYPE_F32, values, cols, width);
  return tensor ? h3_weight_new_plain (tensor) : NULL;
}

static gboolean
make_factors (H3Loader *loader, const H3LoaderParts *p,
    const H3AdapterUpdate *update, Factors *factors)
{
  gint64 width = stays_padded (update->rank);
  g_autofree gfloat *up = NULL;

  factors->span = span_of (p, update);
  if (factors->span.n == 0)
    return TRUE;
  up = new_matrix (loader, update, factors->span.n, width);
  if (!up || !fill_up (loader, p, update, &factors->span, up, width))
    return FALSE;
  factors->up =
      upload_matrix (loader, H3_DTYPE_F32, up, factors->span.n, width);
  if (factors->up)
    factors->down = transposed_down (loader, p, update, width);
  return factors->down != NULL;
}

/* wide += up down, of the rows from @first on that are in both. */
static void
add_factors (H3Loader *loader, H3Tensor *wide, gint64 first,
    const Factors *factors)
{
  const Span *span = &factors->span;
  gint64 begin = MAX (first, span->first);
  gint64 end = MIN (first + h3_tensor_rows (wide), span->first + span->n);

  if (begin < end) {
    g_autoptr (H3Tensor) y =
        h3_tensor_view_rows (wide, begin - first, end - begin);
    g_autoptr (H3Tensor) x =
        h3_tensor_view_rows (factors->up, begin - span->first, end - begin);

    h3_linear (loader->stream, &(H3LinearArgs){ .y = y,
                                   .x = x,
                                   .weight = factors->down,
                                   .accumulate = TRUE });
  }
}

/* Waits, and says so when a number is none any more. */
static gboolean
check_finite (H3Loader *loader, const H3Tensor *wide, H3Tensor *count,
    const H3AdapterUpdate *update)
{
  GError *error = NULL;
  gint32 bad = 0;

  h3_count_nonfinite (loader->stream, count, wide);
  h3_download (loader->stream, &bad, count);
  if (h3_stream_synchronize (loader->stream, &error) && bad > 0)
    error = g_error_new (H3_ERROR, H3_ERROR_NUMERIC,
        "%s: with this adapter %d numbers of %s are too large", update->key,
        bad, update->module);
  if (!error)
    return TRUE;
  h3_loader_fail (loader, error);
  return FALSE;
}

/* Rows of the weight in float32, and back, rounded once. */
static gboolean
merge_rows (H3Loader *loader, H3Tensor *rows, H3Tensor *scratch, gint64 first,
    const GArray *factors, H3Tensor *count, const H3AdapterUpdate *update)
{
  H3Tensor *wide = scratch ? scratch : rows;

  if (scratch)
    h3_copy (loader->stream, scratch, rows);
  for (guint i = 0; i < factors->len; i++) {
    const Factors *f = &g_array_index (factors, Factors, i);

    if (f->up)
      add_factors (loader, wide, first, f);
  }
  if (scratch) {
    h3_copy (loader->stream, rows, scratch);
    h3_copy (loader->stream, scratch, rows);
  }
  return check_finite (loader, wide, count, update);
}

static gboolean
merge_factors (H3Loader *loader, H3Tensor *tensor, const GArray *factors,
    const H3AdapterUpdate *update)
{
  gint64 rows = h3_tensor_rows (tensor), cols = h3_tensor_cols (tensor);
  gint64 step = MIN (rows, MAX (CHUNK / cols / 256 * 256, 1));
  const gint64 one = 1, shape[] = { step, cols };
  g_autoptr (H3Tensor) count =
      h3_loader_new_tensor (loader, H3_DTYPE_I32, 1, &one);
  g_autoptr (H3Tensor) scratch = NULL;

  if (count && tensor->dtype != H3_DTYPE_F32)
    scratch = h3_loader_new_tensor (loader, H3_DTYPE_F32, 2, shape);
  if (!count || (tensor->dtype != H3_DTYPE_F32 && !scratch))
    return FALSE;
  for (gint64 first = 0; first < rows; first += step) {
    gint64 n = MIN (step, rows - first);
    g_autoptr (H3Tensor) some = h3_tensor_view_rows (tensor, first, n);
    g_autoptr (H3Tensor) wide =
        scratch ? h3_tensor_view_rows (scratch, 0, n) : NULL;

    if (!merge_rows (loader, some, wide, first, factors, count, update))
      return FALSE;
  }
  return TRUE;
}

gboolean
h3_loader_merge (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p, H3Tensor *tensor)
{
  g_autoptr (GArray) factors =
      g_array_sized_new (FALSE, TRUE, sizeof (Factors), updates->len);

  g_array_set_clear_func (factors, factors_clear);
  g_array_set_size (factors, updates->len);
  for (guint i = 0; i < updates->len; i++)
    if (!h3_loader_may_go_on (loader) ||
        !make_factors (loader, p, updates->pdata[i],
            &g_array_index (factors, Factors, i)))
      return FALSE;
  return merge_factors (loader, tensor, factors, updates->pdata[0]);
}

void
h3_loader_merge_later (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p, H3Tensor *tensor)
{
  Merge *merge = g_new (Merge, 1);

  *merge = (Merge){ h3_tensor_ref (tensor), updates, FALSE, *p };
  g_ptr_array_add (loader->merges, merge);
}

void
h3_loader_set_projection (H3Loader *loader, gint64 width, gint64 full,
    const gfloat *basis, const gfloat *mean)
{
  loader->width = width;
  loader->full = full;
  loader->basis = basis;
  loader->mean = mean;
}

void
h3_loader_adapt_bias (H3Loader *loader, const gchar *weight, H3Tensor *bias)
{
  const GPtrArray *updates = loader->adapters && bias
                                 ? h3_adapters_find (loader->adapters, weight)
                                 : NULL;
  const H3LoaderParts parts = { .rows = updates ? h3_tensor_size (bias) : 0 };

  if (!updates)
    return;
  h3_loader_merge_later (loader, updates, &parts, bias);
  ((Merge *) loader->merges->pdata[loader->merges->len - 1])->bias = TRUE;
}

/* A mean: [1, width]. */
static H3Tensor *
mean_of_down (H3Loader *loader, const H3AdapterUpdate *update, gint64 width)
{
  g_autofree gfloat *stored = read_factor (loader, update->down);
  g_autofree gfloat *values =
      stored ? new_matrix (loader, update, 1, width) : NULL;

  if (!values)
    return NULL;
  for (gint64 k = 0; k < update->rank; k++) {
    gdouble sum = 0;

    for (gint64 c = 0; c < loader->full; c++)
      sum += (gdouble) stored[k * loader->full + c] * loader->mean[c];
    values[k] = (gfloat) sum;
  }
  return upload_matrix (loader, H3_DTYPE_F32, values, 1, width);
}

/* bias += B A mean */
static gboolean
add_offset (H3Loader *loader, const Merge *merge, const H3AdapterUpdate *update)
{
  gint64 width = stays_padded (update->rank), rows = merge->parts.rows;
  Span span = span_of (&merge->parts, update);
  g_autofree gfloat *values = new_matrix (loader, update, rows, width);
  g_autoptr (H3Tensor) x = NULL;
  g_autoptr (H3Weight) up = NULL;
  H3Tensor *tensor;
  GError *error = NULL;

  if (!values || !fill_up (loader, &merge->parts, update, &span, values, width))
    return FALSE;
  x = mean_of_down (loader, update, width);
  tensor = x ? upload_matrix (loader, H3_DTYPE_F32, values, rows, width) : NULL;
  if (!tensor)
    return FALSE;
  up = h3_weight_new_plain (tensor);
  h3_linear (loader->stream, &(H3LinearArgs){ .y = merge->tensor,
                                 .x = x,
                                 .weight = up,
                                 .accumulate = TRUE });
  if (h3_stream_synchronize (loader->stream, &error))
    return TRUE;
  h3_loader_fail (loader, error);
  return FALSE;
}

static gboolean
merge_bias (H3Loader *loader, const Merge *merge)
{
  for (guint i = 0; i < merge->updates->len; i++)
    if (is_projected (loader, merge->updates->pdata[i]) &&
        (!h3_loader_may_go_on (loader) ||
            !add_offset (loader, merge, merge->updates->pdata[i])))
      return FALSE;
  return TRUE;
}

gboolean
h3_loader_merge_all (H3Loader *loader)
{
  gboolean good = TRUE;

  for (guint i = 0; loader->merges && good && i < loader->merges->len; i++) {
    const Merge *merge = loader->merges->pdata[i];

    good = merge->bias ? merge_bias (loader, merge)
                       : h3_loader_merge (loader, merge->updates, &merge->parts,
                             merge->tensor);
  }
  if (loader->merges)
    g_ptr_array_set_size (loader->merges, 0);
  return good;
}

/* Beside quantised weights */

static gint64
sum_of_ranks (const GPtrArray *updates)
{
  gint64 rank = 0;

  for (guint i = 0; i < updates->len; i++)
    rank += ((const H3AdapterUpdate *) updates->pdata[i])->rank;
  return stays_padded (rank);
}

/* All updates as one: their ranks follow each other. */
static gboolean
join_factors (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p, gint64 rank, gfloat *up, gfloat *down)
{
  gint64 at = 0;

  for (guint i = 0; i < updates->len; i++) {
    const H3AdapterUpdate *update = updates->pdata[i];
    Span span = span_of (p, update);
    g_autofree gfloat *stored = NULL;

    if (!h3_loader_may_go_on (loader) ||
        !fill_up (loader, p, update, &span, up + span.first * rank + at, rank))
      return FALSE;
    stored = read_down (loader, update);
    if (!stored)
      return FALSE;
    memcpy (down + at * p->cols, stored,
        update->rank * p->cols * sizeof *stored);
    at += update->rank;
  }
  return TRUE;
}

/* @values in the device's type; they are narrowed in place. */
static H3Weight *
make_factor (H3Loader *loader, const H3AdapterUpdate *update, gfloat *values,
    gint64 rows, gint64 cols, gboolean keep)
{
  H3DType dtype = loader->device->act_dtype;
  H3StoredType type = dtype == H3_DTYPE_F32   ? H3_STORED_F32
                      : dtype == H3_DTYPE_F16 ? H3_STORED_F16
                                              : H3_STORED_BF16;
  H3Tensor *tensor;
  gsize index;

  h3_stored_values_convert (H3_STORED_F32, values, rows * cols, type, values);
  if (!h3_stored_values_finite (type, values, rows * cols, &index)) {
    h3_loader_fail (loader,
        g_error_new (H3_ERROR, H3_ERROR_NUMERIC,
            "%s: a number of the adapter is beyond what %s, in which %s "
            "computes here, can hold",
            update->key, h3_dtype_name (dtype), loader->device->name));
    return NULL;
  }
  tensor = upload_matrix (loader, dtype, values, rows, cols);
  if (!tensor)
    return NULL;
  if (keep)
    h3_loader_remember (loader, tensor);
  return h3_weight_new_plain (tensor);
}

guint64
h3_loader_low_rank_bytes (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p)
{
  gint64 rank = sum_of_ranks (updates);

  loader->low_rank = MAX (loader->low_rank, rank);
  return (guint64) rank * (p->rows + p->cols) *
         h3_dtype_size (
             loader->planned ? loader->planned->act_dtype : H3_DTYPE_F32);
}

gboolean
h3_loader_add_low_rank (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p, H3Weight *weight, gboolean keep)
{
  const H3AdapterUpdate *first = updates->pdata[0];
  gint64 rank = sum_of_ranks (updates);
  g_autofree gfloat *up = new_matrix (loader, first, p->rows, rank);
  g_autofree gfloat *down =
      up ? new_matrix (loader, first, rank, p->cols) : NULL;

  if (!down || !join_factors (loader, updates, p, rank, up, down))
    return FALSE;
  weight->up = make_factor (loader, first, up, p->rows, rank, keep);
  if (weight->up)
    weight->down = make_factor (loader, first, down, rank, p->cols, keep);
  if (!weight->down)
    return FALSE;
  if (keep) {
    loader->computed += h3_loader_low_rank_bytes (loader, updates, p);
    h3_loader_report_progress (loader);
  }
  return TRUE;
}
