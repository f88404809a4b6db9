/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/loader-private.h"
#include "model/checkpoint/stored-values.h"

#include <stdarg.h>
#include <string.h>

/* How many of each kind of problem a message names. */
#define NAMED 4

H3Loader *
h3_loader_new (H3TensorSet *set, const gchar *what)
{
  H3Loader *loader = g_new0 (H3Loader, 1);

  loader->set = set;
  loader->what = g_strdup (what);
  loader->used = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  loader->ignored =
      g_ptr_array_new_with_free_func ((GDestroyNotify) g_pattern_spec_free);
  loader->missing = g_ptr_array_new_with_free_func (g_free);
  loader->problems = g_ptr_array_new_with_free_func (g_free);
  return loader;
}

void
h3_loader_free (H3Loader *loader)
{
  if (!loader)
    return;
  g_clear_pointer (&loader->reader, h3_reader_free);
  g_clear_pointer (&loader->merges, g_ptr_array_unref);
  g_clear_pointer (&loader->adapted, g_hash_table_unref);
  g_clear_pointer (&loader->tensors, g_ptr_array_unref);
  g_clear_pointer (&loader->stream, h3_stream_free);
  g_clear_pointer (&loader->device, h3_device_unref);
  g_clear_error (&loader->failure);
  g_ptr_array_unref (loader->problems);
  g_ptr_array_unref (loader->missing);
  g_ptr_array_unref (loader->ignored);
  g_hash_table_unref (loader->used);
  g_free (loader->what);
  g_free (loader);
}

void
h3_loader_report_progress (const H3Loader *loader)
{
  if (loader->progress && !loader->failure)
    loader->progress (loader->read + loader->computed, loader->total,
        loader->progress_data);
}

void
h3_loader_plan_for (H3Loader *loader, const H3Device *device)
{
  loader->planned = device;
}

static void
on_read (guint64 done, gpointer user_data)
{
  H3Loader *loader = user_data;

  loader->read = done;
  h3_loader_report_progress (loader);
}

gboolean
h3_loader_begin (H3Loader *loader, H3Device *device, const H3Stop *stop,
    H3LoadProgress progress, gpointer user_data, GError **error)
{
  g_return_val_if_fail (!loader->device, FALSE);

  loader->stream = h3_stream_new (device, error);
  if (!loader->stream)
    return FALSE;
  loader->device = h3_device_ref (device);
  loader->reader = h3_reader_new (device, stop, on_read, loader);
  loader->tensors =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_unref);
  loader->stop = stop;
  loader->progress = progress;
  loader->progress_data = user_data;
  loader->total = loader->bytes + loader->passing;
  loader->bytes = 0;
  loader->passing = 0;
  loader->round_to = H3_DTYPE_F32;
  loader->as_e4m3 = FALSE;
  g_hash_table_remove_all (loader->used);
  g_ptr_array_set_size (loader->ignored, 0);
  return TRUE;
}

gboolean
h3_loader_is_dry_run (const H3Loader *loader)
{
  return loader->device == NULL;
}

guint64
h3_loader_bytes (const H3Loader *loader)
{
  return loader->bytes;
}

guint64
h3_loader_encoded_elements (const H3Loader *loader)
{
  return loader->encoded;
}

static void
count_encoded (H3Loader *loader, gint64 rows, gint64 cols)
{
  loader->encoded = MAX (loader->encoded, (guint64) rows * cols);
}

void
h3_loader_problem (H3Loader *loader, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  g_ptr_array_add (loader->problems, g_strdup_vprintf (format, args));
  va_end (args);
}

/* Nothing more is read once a run cannot succeed. */
static gboolean
has_failed (const H3Loader *loader)
{
  return loader->failure ||
         (loader->device && loader->missing->len + loader->problems->len > 0);
}

/* Takes @error as the run's failure. */
void
h3_loader_fail (H3Loader *loader, GError *error)
{
  if (loader->failure)
    g_error_free (error);
  else
    loader->failure = error;
}

/* Reading */

/* Before each tensor of the real run. */
gboolean
h3_loader_may_go_on (H3Loader *loader)
{
  GError *error = NULL;

  if (has_failed (loader))
    return FALSE;
  if (h3_stop_requested (loader->stop, &error)) {
    h3_loader_fail (loader, error);
    return FALSE;
  }
  return TRUE;
}

gboolean
h3_loader_wait (H3Loader *loader)
{
  GError *error = NULL;

  if (h3_reader_wait (loader->reader, &error))
    return TRUE;
  h3_loader_fail (loader, error);
  return FALSE;
}

gboolean
h3_loader_take_to_tensor (H3Loader *loader, const H3StoredTensor *tensor,
    gint64 first, gint64 n, gpointer dest, gint64 offset)
{
  return h3_reader_add (loader->reader, tensor, first, n, dest, offset) ||
         h3_loader_wait (loader);
}

static gboolean
take_to_host (H3Loader *loader, const H3StoredTensor *tensor, gint64 first,
    gint64 n, gpointer dest, gint64 offset)
{
  gsize size = h3_stored_type_size (tensor->type);
  GError *error = NULL;

  if (h3_reader_read (tensor, first, n, (guint8 *) dest + offset * size,
          &error))
    return TRUE;
  h3_loader_fail (loader, error);
  return FALSE;
}

/* Rows [first, first + n) of the parts, one after the other as stored. */
static gboolean
take_rows (H3Loader *loader, const H3LoaderParts *p, gint64 first, gint64 n,
    H3LoaderTake take, gpointer dest, gint64 offset)
{
  for (guint i = 0; i < p->n && n > 0; i++) {
    gint64 here = MIN (n, p->n_rows[i] - first);

    if (here <= 0) {
      first -= p->n_rows[i];
      continue;
    }
    if (!take (loader, p->tensor[i], first * p->width, here * p->width, dest,
            offset))
      return FALSE;
    offset += here * p->width;
    n -= here;
    first = 0;
  }
  return TRUE;
}

/* [q; k; v] from [q_0; k_0; v_0; q_1; ...]: one piece per head and part. */
static gboolean
take_grouped (H3Loader *loader, const H3LoaderParts *p, H3LoaderTake take,
    gpointer dest)
{
  gint64 offset = 0;

  for (guint part = 0; part < 3; part++) {
    for (guint head = 0; head < p->heads; head++) {
      gint64 first = ((gint64) head * 3 + part) * p->head_dim;
      if (!take_rows (loader, p, first, p->head_dim, take, dest, offset))
        return FALSE;
      offset += p->head_dim * p->width;
    }
  }
  return TRUE;
}

/* The rows in their order on the device. */
gboolean
h3_loader_take_ordered (H3Loader *loader, const H3LoaderParts *p,
    H3LoaderTake take, gpointer dest)
{
  gint64 half = p->rows / 2;

  switch (p->order) {
    case H3_ROWS_GROUPED_QKV:
      return take_grouped (loader, p, take, dest);
    case H3_ROWS_SWAP_HALVES:
      return take_rows (loader, p, half, half, take, dest, 0) &&
             take_rows (loader, p, 0, half, take, dest, half * p->width);
    default:
      return take_rows (loader, p, p->first, p->rows, take, dest, 0);
  }
}

H3Tensor *
h3_loader_new_tensor (H3Loader *loader, H3DType dtype, guint rank,
    const gint64 *shape)
{
  GError *error = NULL;
  H3Tensor *tensor = h3_tensor_new (loader->device, dtype, rank, shape, &error);

  if (!tensor) {
    g_prefix_error (&error, "%s: ", loader->what);
    h3_loader_fail (loader, error);
  }
  return tensor;
}

void
h3_loader_remember (H3Loader *loader, H3Tensor *tensor)
{
  g_ptr_array_add (loader->tensors, h3_tensor_ref (tensor));
}

gboolean
h3_loader_upload (H3Loader *loader, H3Tensor *tensor, gconstpointer host)
{
  GError *error = NULL;

  h3_upload (loader->stream, tensor, host);
  if (h3_stream_synchronize (loader->stream, &error))
    return TRUE;
  h3_loader_fail (loader, error);
  return FALSE;
}

static H3DType
plain_dtype (H3StoredType type)
{
  if (type == H3_STORED_F32)
    return H3_DTYPE_F32;
  return type == H3_STORED_F16 ? H3_DTYPE_F16 : H3_DTYPE_BF16;
}

void
h3_loader_round_matrices (H3Loader *loader, H3DType dtype)
{
  loader->round_to = dtype;
}

void
h3_loader_quantise_matrices (H3Loader *loader, gboolean quantise)
{
  loader->as_e4m3 = quantise;
}

static H3DType
matrix_dtype (const H3Loader *loader, H3StoredType type)
{
  return loader->round_to == H3_DTYPE_F32 ? plain_dtype (type)
                                          : loader->round_to;
}

/* A new tensor that the numbers are on their way to. */
static H3Tensor *
load_tensor (H3Loader *loader, const H3LoaderParts *p, H3DType dtype,
    guint rank, const gint64 *shape)
{
  g_autoptr (H3Tensor) tensor = NULL;

  if (!h3_loader_may_go_on (loader))
    return NULL;
  tensor = h3_loader_new_tensor (loader, dtype, rank, shape);
  if (!tensor ||
      !h3_loader_take_ordered (loader, p, h3_loader_take_to_tensor, tensor))
    return NULL;
  h3_loader_remember (loader, tensor);
  return g_steal_pointer (&tensor);
}

/* Weights */

static H3Weight *load_stored (H3Loader *loader, const H3LoaderParts *p);

/* A weight for each part. */
static H3Weight *
load_stacked (H3Loader *loader, const H3LoaderParts *p)
{
  H3Weight *parts[H3_LOADER_MAX_PARTS] = { NULL };
  guint n = 0;

  for (guint i = 0; i < p->n; i++) {
    H3LoaderParts one = { .matrix = TRUE,
      .tensor = { p->tensor[i] },
      .quantised = { p->quantised[i] },
      .n_rows = { p->n_rows[i] },
      .n = 1,
      .rows = p->n_rows[i],
      .cols = p->cols,
      .width = p->cols,
      .type = p->tensor[i]->type };

    if (h3_loader_parts_quantised (&one))
      one.width = h3_encoding_row_bytes (one.quantised[0].encoding, p->cols);
    parts[i] = load_stored (loader, &one);
    n += parts[i] != NULL;
  }
  if (n == p->n)
    return h3_weight_new_stacked (parts, n);
  for (guint i = 0; i < p->n; i++)
    g_clear_pointer (&parts[i], h3_weight_unref);
  return NULL;
}

/* As the file has it. */
static H3Weight *
load_stored (H3Loader *loader, const H3LoaderParts *p)
{
  const gint64 shape[] = { p->rows, p->cols };
  H3DType dtype = matrix_dtype (loader, p->decoded ? H3_STORED_F32 : p->type);
  H3Tensor *tensor;

  if (p->stacked)
    return load_stacked (loader, p);
  if (h3_loader_parts_quantised (p)) {
    if (!h3_loader_check_encoding (loader, p->quantised))
      return NULL;
    loader->bytes += h3_loader_quantised_bytes (p);
    count_encoded (loader, p->rows, p->cols);
    return loader->device ? h3_loader_load_quantised (loader, p, TRUE) : NULL;
  }
  loader->bytes += p->rows * p->cols * h3_dtype_size (dtype);
  if (!loader->device)
    return NULL;
  if (p->decoded)
    return h3_loader_load_decoded (loader, p, dtype, TRUE);
  tensor = load_tensor (loader, p, dtype, 2, shape);
  return tensor ? h3_weight_new_plain (tensor) : NULL;
}

/* With what adapters add to it. */
static H3Weight *
load_weight (H3Loader *loader, const H3LoaderParts *p)
{
  const GPtrArray *updates = h3_loader_find_updates (loader, p);
  gboolean beside = p->stacked || h3_loader_parts_quantised (p);
  H3Weight *weight;

  if (loader->as_e4m3 && !beside && !p->plain && !p->decoded) {
    count_encoded (loader, p->rows, p->cols);
    return h3_loader_load_as_e4m3 (loader, p, matrix_dtype (loader, p->type),
        updates);
  }
  weight = load_stored (loader, p);
  if (updates && beside)
    loader->bytes += h3_loader_low_rank_bytes (loader, updates, p);
  if (!updates || !weight)
    return weight;
  if (!beside)
    h3_loader_merge_later (loader, updates, p, weight->tensor);
  else if (!h3_loader_add_low_rank (loader, updates, p, weight, TRUE))
    g_clear_pointer (&weight, h3_weight_unref);
  return weight;
}

H3Weight *
h3_loader_weight (H3Loader *loader, const gchar *const *names, guint n_names,
    gint64 rows, gint64 cols, H3RowOrder order, guint heads, guint head_dim)
{
  H3LoaderParts p = { .matrix = TRUE,
    .rows = rows,
    .cols = cols,
    .order = order,
    .heads = heads,
    .head_dim = head_dim };

  return h3_loader_find_parts (loader, &p, names, n_names)
             ? load_weight (loader, &p)
             : NULL;
}

H3Weight *
h3_loader_matrix (H3Loader *loader, const gchar *name, gint64 rows, gint64 cols)
{
  return h3_loader_weight (loader, &name, 1, rows, cols, H3_ROWS_AS_STORED, 0,
      0);
}

H3Weight *
h3_loader_plain_matrix (H3Loader *loader, const gchar *name, gint64 rows,
    gint64 cols)
{
  H3LoaderParts p = { .matrix = TRUE,
    .plain = TRUE,
    .rows = rows,
    .cols = cols,
    .order = H3_ROWS_AS_STORED };

  return h3_loader_find_parts (loader, &p, &name, 1) ? load_weight (loader, &p)
                                                     : NULL;
}

/* A matrix for the rows of @p: @piece's memory when it fits. */
static gboolean
fit_piece (H3Loader *loader, const H3LoaderParts *p, H3Weight **piece)
{
  const gint64 shape[] = { p->rows, p->cols };
  H3DType dtype = matrix_dtype (loader, p->type);
  const H3Tensor *have = *piece ? (*piece)->tensor : NULL;
  H3Tensor *tensor;

  if (have && (*piece)->encoding == H3_ENCODING_PLAIN && have->dtype == dtype &&
      have->shape[0] == p->rows && have->shape[1] == p->cols)
    return TRUE;
  g_clear_pointer (piece, h3_weight_unref);
  tensor = h3_loader_new_tensor (loader, dtype, 2, shape);
  if (tensor)
    *piece = h3_weight_new_plain (tensor);
  return tensor != NULL;
}

/* As the file has it; it has arrived. */
static gboolean
load_piece (H3Loader *loader, const H3LoaderParts *p, H3Weight **piece)
{
  if (p->decoded) {
    g_clear_pointer (piece, h3_weight_unref);
    *piece = h3_loader_load_decoded (loader, p,
        matrix_dtype (loader, H3_STORED_F32), FALSE);
    return *piece != NULL;
  }
  if (h3_loader_parts_quantised (p)) {
    g_clear_pointer (piece, h3_weight_unref);
    *piece = h3_loader_load_quantised (loader, p, FALSE);
    return *piece && h3_loader_wait (loader);
  }
  return h3_loader_may_go_on (loader) && fit_piece (loader, p, piece) &&
         h3_loader_take_ordered (loader, p, h3_loader_take_to_tensor,
             (*piece)->tensor) &&
         h3_loader_wait (loader);
}

gboolean
h3_loader_piece (H3Loader *loader, const gchar *name, gint64 rows, gint64 cols,
    gint64 first, gint64 n, H3Weight **piece)
{
  H3LoaderParts p = { .matrix = TRUE,
    .rows = rows,
    .cols = cols,
    .order = H3_ROWS_AS_STORED };
  const GPtrArray *updates;

  g_return_val_if_fail (first >= 0 && n >= 1 && first <= rows - n, FALSE);

  if (!h3_loader_find_parts (loader, &p, &name, 1) ||
      (h3_loader_parts_quantised (&p) &&
          !h3_loader_check_encoding (loader, p.quantised)))
    return FALSE;
  updates = h3_loader_find_updates (loader, &p);
  if (!loader->device)
    return TRUE;
  p.first = first;
  p.rows = n;
  /* a bias that was asked for has arrived with it */
  if (!load_piece (loader, &p, piece) || !h3_loader_merge_all (loader))
    return FALSE;
  if (!updates)
    return TRUE;
  return (*piece)->encoding == H3_ENCODING_PLAIN
             ? h3_loader_merge (loader, updates, &p, (*piece)->tensor)
             : h3_loader_add_low_rank (loader, updates, &p, *piece, FALSE);
}

/* Stored numbers, in order, as float32 on the host. */
static gfloat *
load_floats (H3Loader *loader, const H3LoaderParts *p)
{
  gsize n = p->rows * p->cols;
  gsize unused = sizeof (gfloat) - h3_stored_type_size (p->type);
  gfloat *values = g_try_new (gfloat, MAX (n, 1));
  guint8 *stored;

  if (!values) {
    h3_loader_fail (loader,
        g_error_new (H3_ERROR, H3_ERROR_NO_SPACE,
            "%s: no memory for %" G_GSIZE_FORMAT " floats", loader->what, n));
    return NULL;
  }
  stored = (guint8 *) values + n * unused;
  if (!h3_loader_take_ordered (loader, p, take_to_host, stored)) {
    g_free (values);
    return NULL;
  }
  h3_stored_values_convert (p->type, stored, n, H3_STORED_F32, values);
  return values;
}

H3Tensor *
h3_loader_vector (H3Loader *loader, const gchar *const *names, guint n_names,
    gint64 n, H3RowOrder order, guint heads, guint head_dim)
{
  H3LoaderParts p = { .rows = n,
    .cols = 1,
    .order = order,
    .heads = heads,
    .head_dim = head_dim };

  if (!h3_loader_find_parts (loader, &p, names, n_names))
    return NULL;
  loader->bytes += n * sizeof (gfloat);
  return loader->device ? load_tensor (loader, &p, H3_DTYPE_F32, 1, &n) : NULL;
}

H3Tensor *
h3_loader_vector1 (H3Loader *loader, const gchar *name, gint64 n)
{
  return h3_loader_vector (loader, &name, 1, n, H3_ROWS_AS_STORED, 0, 0);
}

/* The same but for dimensions of 1: [1, C, 1] is [C]. */
static gboolean
same_shape (const H3StoredTensor *tensor, guint rank, const gint64 *shape)
{
  guint d = 0;

  for (guint i = 0; i < tensor->rank; i++) {
    if (tensor->shape[i] == 1)
      continue;
    while (d < rank && shape[d] == 1)
      d++;
    if (d == rank || tensor->shape[i] != (guint64) shape[d++])
      return FALSE;
  }
  while (d < rank && shape[d] == 1)
    d++;
  return d == rank;
}

static gchar *
shape_string (guint rank, const gint64 *shape)
{
  GString *string = g_string_new ("[");

  for (guint i = 0; i < rank; i++)
    g_string_append_printf (string, "%s%" G_GINT64_FORMAT, i ? ", " : "",
        shape[i]);
  return g_string_free (g_string_append_c (string, ']'), FALSE);
}

gfloat *
h3_loader_read (H3Loader *loader, const gchar *name, guint rank,
    const gint64 *shape)
{
  H3LoaderParts p = { .n = 1, .cols = 1, .order = H3_ROWS_AS_STORED };

  p.tensor[0] = h3_loader_find_numbers (loader, name);
  if (!p.tensor[0])
    return NULL;
  if (!same_shape (p.tensor[0], rank, shape)) {
    g_autofree gchar *expected = shape_string (rank, shape);
    h3_loader_wrong_shape (loader, p.tensor[0], expected);
    return NULL;
  }
  if (!loader->device || !h3_loader_may_go_on (loader))
    return NULL;
  p.rows = p.n_rows[0] = h3_loader_elements (p.tensor[0]);
  p.width = 1;
  p.type = p.tensor[0]->type;
  return load_floats (loader, &p);
}

static H3Tensor *
upload_floats (H3Loader *loader, const gfloat *host, guint rank,
    const gint64 *shape)
{
  g_autoptr (H3Tensor) tensor = NULL;
  guint64 bytes = sizeof (gfloat);

  for (guint i = 0; i < rank; i++)
    bytes *= shape[i];
  if (loader->device) {
    if (!host || !h3_loader_may_go_on (loader))
      return NULL;
    tensor = h3_loader_new_tensor (loader, H3_DTYPE_F32, rank, shape);
    if (!tensor || !h3_loader_upload (loader, tensor, host))
      return NULL;
    h3_loader_remember (loader, tensor);
    loader->computed += bytes;
    h3_loader_report_progress (loader);
  }
  loader->bytes += bytes;
  return g_steal_pointer (&tensor);
}

H3Weight *
h3_loader_computed (H3Loader *loader, const gfloat *host, guint rank,
    const gint64 *shape)
{
  H3Tensor *tensor = upload_floats (loader, host, rank, shape);
  return tensor ? h3_weight_new_plain (tensor) : NULL;
}

H3Tensor *
h3_loader_computed_vector (H3Loader *loader, const gfloat *host, gint64 n)
{
  return upload_floats (loader, host, 1, &n);
}

gboolean
h3_loader_has (const H3Loader *loader, const gchar *name)
{
  return h3_tensor_set_has (loader->set, name);
}

gboolean
h3_loader_shape (H3Loader *loader, const gchar *name,
    guint64 shape[H3_STORED_MAX_RANK], guint *rank)
{
  const H3StoredTensor *tensor =
      loader->failure ? NULL : h3_loader_find (loader, name);

  if (!tensor)
    return FALSE;
  memcpy (shape, tensor->shape, sizeof tensor->shape);
  *rank = tensor->rank;
  return TRUE;
}

void
h3_loader_ignore (H3Loader *loader, const gchar *pattern)
{
  g_ptr_array_add (loader->ignored, g_pattern_spec_new (pattern));
}

/* Ending a run */

static gboolean
is_ignored (const H3Loader *loader, const gchar *name)
{
  if (g_str_equal (name, H3_OLDEST_MARKER))
    return TRUE;
  for (guint i = 0; i < loader->ignored->len; i++) {
    if (g_pattern_spec_match_string (loader->ignored->pdata[i], name))
      return TRUE;
  }
  return FALSE;
}

/* Names that nobody asked for. Not owned by the array. */
static GPtrArray *
find_unexpected (const H3Loader *loader)
{
  const GPtrArray *names = h3_tensor_set_names (loader->set);
  GPtrArray *unexpected = g_ptr_array_new ();

  for (guint i = 0; i < names->len; i++) {
    if (!g_hash_table_contains (loader->used, names->pdata[i]) &&
        !is_ignored (loader, names->pdata[i]))
      g_ptr_array_add (unexpected, names->pdata[i]);
  }
  return unexpected;
}

/* "3 tensors missing, first: a, b, c" */
static void
append_list (GString *message, const gchar *heading, const gchar *separator,
    const GPtrArray *items)
{
  if (items->len == 0)
    return;
  g_string_append_printf (message, "; %u %s", items->len, heading);
  for (guint i = 0; i < MIN (items->len, NAMED); i++)
    g_string_append_printf (message, "%s%s", i ? separator : "",
        (const gchar *) items->pdata[i]);
  if (items->len > NAMED)
    g_string_append_printf (message, "%s...", separator);
}

/* The problems of a run, if any, in one message. */
static void
report (H3Loader *loader, GError **error)
{
  g_autoptr (GPtrArray) unexpected =
      loader->device ? g_ptr_array_new () : find_unexpected (loader);
  g_autoptr (GPtrArray) unmatched = loader->device
                                        ? g_ptr_array_new ()
                                        : h3_loader_unmatched_updates (loader);
  g_autoptr (GString) message = g_string_new (NULL);

  append_list (message, "tensors missing, first: ", ", ", loader->missing);
  append_list (message, "unexpected, first: ", ", ", unexpected);
  append_list (message, "layers of adapters are not in it, first: ", ", ",
      unmatched);
  append_list (message, "wrong: ", "; ", loader->problems);
  if (message->len > 0)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s: %s",
        h3_tensor_set_path (loader->set), loader->what, message->str + 2);
}

gboolean
h3_loader_finish (H3Loader *loader, GError **error)
{
  GError *found = NULL;

  if (loader->reader && !has_failed (loader) && h3_loader_wait (loader))
    h3_loader_merge_all (loader);
  g_clear_pointer (&loader->reader, h3_reader_free);
  if (loader->failure) {
    g_propagate_error (error, g_steal_pointer (&loader->failure));
    return FALSE;
  }
  report (loader, &found);
  if (!found)
    return TRUE;
  g_propagate_error (error, found);
  return FALSE;
}

GPtrArray *
h3_loader_take_tensors (H3Loader *loader)
{
  GPtrArray *tensors = g_steal_pointer (&loader->tensors);

  for (guint i = tensors->len; i-- > 0;) {
    H3Tensor *tensor = tensors->pdata[i];

    if (g_atomic_ref_count_compare (&tensor->refcount, 1))
      g_ptr_array_remove_index_fast (tensors, i);
  }
  return tensors;
}
