/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/loader.h"
#include "model/checkpoint/reader.h"
#include "model/checkpoint/stored-values.h"

#include <stdarg.h>
#include <string.h>

/* How many of each kind of problem a message names. */
#define NAMED 4

struct _H3Loader {
  H3TensorSet *set; /* not owned */
  gchar *what;
  guint64 bytes;    /* asked for so far, in this run */
  guint64 total;    /* of the dry run */
  H3DType round_to; /* H3_DTYPE_F32: matrices keep their type */

  /* what this run found */
  GHashTable *used;    /* names, owned */
  GPtrArray *ignored;  /* GPatternSpec */
  GPtrArray *missing;  /* names, owned */
  GPtrArray *problems; /* sentences, owned */
  GError *failure;     /* the first thing that ends a run at once */

  /* the real run */
  H3Device *device; /* owned; NULL: dry run */
  H3Stream *stream; /* owned: of computed weights */
  H3Reader *reader; /* owned: of stored ones */
  const H3Stop *stop;
  H3LoadProgress progress;
  gpointer progress_data;
  GPtrArray *tensors;     /* H3Tensor, owned: what it gave away */
  guint64 read, computed; /* bytes that arrived */
};

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

static void
report_progress (const H3Loader *loader)
{
  if (loader->progress && !loader->failure)
    loader->progress (loader->read + loader->computed, loader->total,
        loader->progress_data);
}

static void
on_read (guint64 done, gpointer user_data)
{
  H3Loader *loader = user_data;

  loader->read = done;
  report_progress (loader);
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
  loader->total = loader->bytes;
  loader->bytes = 0;
  loader->round_to = H3_DTYPE_F32;
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
static void
fail (H3Loader *loader, GError *error)
{
  if (loader->failure)
    g_error_free (error);
  else
    loader->failure = error;
}

/* Finding and checking */

static const H3StoredTensor *
find (H3Loader *loader, const gchar *name)
{
  const H3StoredTensor *tensor;
  GError *error = NULL;

  if (!h3_tensor_set_has (loader->set, name)) {
    g_ptr_array_add (loader->missing, g_strdup (name));
    return NULL;
  }
  tensor = h3_tensor_set_get (loader->set, name, &error);
  if (!tensor)
    fail (loader, error);
  return tensor;
}

static gboolean
check_type (H3Loader *loader, const H3StoredTensor *tensor)
{
  if (tensor->type == H3_STORED_F32 || tensor->type == H3_STORED_F16 ||
      tensor->type == H3_STORED_BF16)
    return TRUE;
  h3_loader_problem (loader,
      "%s: tensor %s: dtype %s is not supported here; accepted: F32, F16, "
      "BF16",
      tensor->path, tensor->name, h3_stored_type_name (tensor->type));
  return FALSE;
}

static const H3StoredTensor *
find_numbers (H3Loader *loader, const gchar *name)
{
  const H3StoredTensor *tensor;

  if (loader->failure)
    return NULL;
  g_hash_table_add (loader->used, g_strdup (name));
  tensor = find (loader, name);
  return tensor && check_type (loader, tensor) ? tensor : NULL;
}

static gint64
elements (const H3StoredTensor *tensor)
{
  return tensor->bytes / h3_stored_type_size (tensor->type);
}

/* Rows when the last dimensions make a row of @cols; -1 when they do not. */
static gint64
rows_of (const H3StoredTensor *tensor, gint64 cols)
{
  guint64 product = 1;

  for (gint d = tensor->rank - 1; d >= 0 && product < (guint64) cols; d--)
    product *= tensor->shape[d];
  return cols > 0 && product == (guint64) cols ? elements (tensor) / cols : -1;
}

static void
wrong_shape (H3Loader *loader, const H3StoredTensor *tensor,
    const gchar *expected)
{
  g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);

  h3_loader_problem (loader, "%s: tensor %s: shape %s, expected %s",
      tensor->path, tensor->name, shape, expected);
}

/* One to three tensors whose rows follow each other, found and checked. */
#define MAX_PARTS 3
typedef struct {
  const H3StoredTensor *tensor[MAX_PARTS];
  gint64 n_rows[MAX_PARTS];
  guint n;
  gint64 rows, cols;
  gint64 first; /* H3_ROWS_AS_STORED: read from this row on */
  H3StoredType type;
  H3RowOrder order;
  guint heads, head_dim;
} Parts;

/* q, k, v: q has a row for each dimension of each head, k as many as v. gate,
 * up: as many of each. The sum alone would hide two errors that cancel. */
static gboolean
parts_fit (const Parts *p)
{
  if (p->n > 1 && p->n_rows[p->n - 1] != p->n_rows[p->n - 2])
    return FALSE;
  return p->n < 3 || p->heads == 0 ||
         p->n_rows[0] == (gint64) p->heads * p->head_dim;
}

static gboolean
check_parts (H3Loader *loader, const Parts *p)
{
  gint64 rows = 0;

  for (guint i = 0; i < p->n; i++) {
    const H3StoredTensor *tensor = p->tensor[i];

    if (p->n_rows[i] < 0) {
      g_autofree gchar *expected =
          g_strdup_printf ("rows of %" G_GINT64_FORMAT, p->cols);
      wrong_shape (loader, tensor, expected);
      return FALSE;
    }
    if (tensor->type != p->type) {
      h3_loader_problem (loader,
          "%s: tensor %s is %s and %s is %s; needed: "
          "one type",
          tensor->path, tensor->name, h3_stored_type_name (tensor->type),
          p->tensor[0]->name, h3_stored_type_name (p->type));
      return FALSE;
    }
    rows += p->n_rows[i];
  }
  if (rows != p->rows || !parts_fit (p)) {
    g_autofree gchar *expected =
        g_strdup_printf ("[%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]%s%s",
            p->rows, p->cols, p->n > 1 ? " together with " : "",
            p->n > 1 ? p->tensor[1]->name : "");
    wrong_shape (loader, p->tensor[0], expected);
    return FALSE;
  }
  return TRUE;
}

static gboolean
find_parts (H3Loader *loader, Parts *p, const gchar *const *names, guint n)
{
  gboolean all = TRUE;

  g_return_val_if_fail (n >= 1 && n <= MAX_PARTS, FALSE);
  g_return_val_if_fail (p->order != H3_ROWS_GROUPED_QKV ||
                            p->rows == (gint64) 3 * p->heads * p->head_dim,
      FALSE);
  g_return_val_if_fail (p->order != H3_ROWS_SWAP_HALVES || p->rows % 2 == 0,
      FALSE);

  for (guint i = 0; i < n; i++) {
    p->tensor[i] = find_numbers (loader, names[i]);
    if (p->tensor[i])
      p->n_rows[i] = rows_of (p->tensor[i], p->cols);
    else
      all = FALSE;
  }
  if (!all)
    return FALSE;
  p->n = n;
  p->type = p->tensor[0]->type;
  return check_parts (loader, p);
}

/* Reading */

/* Before each tensor of the real run. */
static gboolean
may_go_on (H3Loader *loader)
{
  GError *error = NULL;

  if (has_failed (loader))
    return FALSE;
  if (h3_stop_requested (loader->stop, &error)) {
    fail (loader, error);
    return FALSE;
  }
  return TRUE;
}

/* Elements [first, first + n) of a tensor go to @offset of @dest, which is a
 * tensor, or memory of the host. */
typedef gboolean (*Take) (H3Loader *loader, const H3StoredTensor *tensor,
    gint64 first, gint64 n, gpointer dest, gint64 offset);

/* Until all that was taken is on the device. */
static gboolean
wait_for_reader (H3Loader *loader)
{
  GError *error = NULL;

  if (h3_reader_wait (loader->reader, &error))
    return TRUE;
  fail (loader, error);
  return FALSE;
}

static gboolean
take_to_tensor (H3Loader *loader, const H3StoredTensor *tensor, gint64 first,
    gint64 n, gpointer dest, gint64 offset)
{
  return h3_reader_add (loader->reader, tensor, first, n, dest, offset) ||
         wait_for_reader (loader);
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
  fail (loader, error);
  return FALSE;
}

/* Rows [first, first + n) of the parts, one after the other as stored. */
static gboolean
take_rows (H3Loader *loader, const Parts *p, gint64 first, gint64 n, Take take,
    gpointer dest, gint64 offset)
{
  for (guint i = 0; i < p->n && n > 0; i++) {
    gint64 here = MIN (n, p->n_rows[i] - first);

    if (here <= 0) {
      first -= p->n_rows[i];
      continue;
    }
    if (!take (loader, p->tensor[i], first * p->cols, here * p->cols, dest,
            offset))
      return FALSE;
    offset += here * p->cols;
    n -= here;
    first = 0;
  }
  return TRUE;
}

/* [q; k; v] from [q_0; k_0; v_0; q_1; ...]: one piece per head and part. */
static gboolean
take_grouped (H3Loader *loader, const Parts *p, Take take, gpointer dest)
{
  gint64 offset = 0;

  for (guint part = 0; part < 3; part++) {
    for (guint head = 0; head < p->heads; head++) {
      gint64 first = ((gint64) head * 3 + part) * p->head_dim;
      if (!take_rows (loader, p, first, p->head_dim, take, dest, offset))
        return FALSE;
      offset += p->head_dim * p->cols;
    }
  }
  return TRUE;
}

/* The rows in their order on the device. */
static gboolean
take_ordered (H3Loader *loader, const Parts *p, Take take, gpointer dest)
{
  gint64 half = p->rows / 2;

  switch (p->order) {
    case H3_ROWS_GROUPED_QKV:
      return take_grouped (loader, p, take, dest);
    case H3_ROWS_SWAP_HALVES:
      return take_rows (loader, p, half, half, take, dest, 0) &&
             take_rows (loader, p, 0, half, take, dest, half * p->cols);
    default:
      return take_rows (loader, p, p->first, p->rows, take, dest, 0);
  }
}

static H3Tensor *
new_tensor (H3Loader *loader, H3DType dtype, guint rank, const gint64 *shape)
{
  GError *error = NULL;
  H3Tensor *tensor = h3_tensor_new (loader->device, dtype, rank, shape, &error);

  if (!tensor) {
    g_prefix_error (&error, "%s: ", loader->what);
    fail (loader, error);
  }
  return tensor;
}

static void
remember (H3Loader *loader, H3Tensor *tensor)
{
  g_ptr_array_add (loader->tensors, h3_tensor_ref (tensor));
}

static gboolean
upload (H3Loader *loader, H3Tensor *tensor, gconstpointer host)
{
  GError *error = NULL;

  h3_upload (loader->stream, tensor, host);
  if (h3_stream_synchronize (loader->stream, &error))
    return TRUE;
  fail (loader, error);
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

static H3DType
matrix_dtype (const H3Loader *loader, H3StoredType type)
{
  return loader->round_to == H3_DTYPE_F32 ? plain_dtype (type)
                                          : loader->round_to;
}

/* A new tensor that the numbers are on their way to. */
static H3Tensor *
load_tensor (H3Loader *loader, const Parts *p, H3DType dtype, guint rank,
    const gint64 *shape)
{
  g_autoptr (H3Tensor) tensor = NULL;

  if (!may_go_on (loader))
    return NULL;
  tensor = new_tensor (loader, dtype, rank, shape);
  if (!tensor || !take_ordered (loader, p, take_to_tensor, tensor))
    return NULL;
  remember (loader, tensor);
  return g_steal_pointer (&tensor);
}

H3Weight *
h3_loader_weight (H3Loader *loader, const gchar *const *names, guint n_names,
    gint64 rows, gint64 cols, H3RowOrder order, guint heads, guint head_dim)
{
  Parts p = { .rows = rows,
    .cols = cols,
    .order = order,
    .heads = heads,
    .head_dim = head_dim };
  const gint64 shape[] = { rows, cols };
  H3DType dtype;
  H3Tensor *tensor;

  if (!find_parts (loader, &p, names, n_names))
    return NULL;
  dtype = matrix_dtype (loader, p.type);
  loader->bytes += rows * cols * h3_dtype_size (dtype);
  if (!loader->device)
    return NULL;
  tensor = load_tensor (loader, &p, dtype, 2, shape);
  return tensor ? h3_weight_new_plain (tensor) : NULL;
}

H3Weight *
h3_loader_matrix (H3Loader *loader, const gchar *name, gint64 rows, gint64 cols)
{
  return h3_loader_weight (loader, &name, 1, rows, cols, H3_ROWS_AS_STORED, 0,
      0);
}

/* A matrix for the rows of @p: @piece's memory when it fits. */
static gboolean
fit_piece (H3Loader *loader, const Parts *p, H3Weight **piece)
{
  const gint64 shape[] = { p->rows, p->cols };
  H3DType dtype = matrix_dtype (loader, p->type);
  const H3Tensor *have = *piece ? (*piece)->tensor : NULL;
  H3Tensor *tensor;

  if (have && have->dtype == dtype && have->shape[0] == p->rows &&
      have->shape[1] == p->cols)
    return TRUE;
  g_clear_pointer (piece, h3_weight_unref);
  tensor = new_tensor (loader, dtype, 2, shape);
  if (tensor)
    *piece = h3_weight_new_plain (tensor);
  return tensor != NULL;
}

gboolean
h3_loader_piece (H3Loader *loader, const gchar *name, gint64 rows, gint64 cols,
    gint64 first, gint64 n, H3Weight **piece)
{
  Parts p = { .rows = rows, .cols = cols, .order = H3_ROWS_AS_STORED };

  g_return_val_if_fail (first >= 0 && n >= 1 && first <= rows - n, FALSE);

  if (!find_parts (loader, &p, &name, 1))
    return FALSE;
  if (!loader->device)
    return TRUE;
  p.first = first;
  p.rows = n;
  return may_go_on (loader) && fit_piece (loader, &p, piece) &&
         take_ordered (loader, &p, take_to_tensor, (*piece)->tensor) &&
         wait_for_reader (loader);
}

/* Stored numbers, in order, as float32 on the host. */
static gfloat *
load_floats (H3Loader *loader, const Parts *p)
{
  gsize n = p->rows * p->cols;
  gsize unused = sizeof (gfloat) - h3_stored_type_size (p->type);
  gfloat *values = g_try_new (gfloat, MAX (n, 1));
  guint8 *stored;

  if (!values) {
    fail (loader,
        g_error_new (H3_ERROR, H3_ERROR_NO_SPACE,
            "%s: no memory for %" G_GSIZE_FORMAT " floats", loader->what, n));
    return NULL;
  }
  stored = (guint8 *) values + n * unused;
  if (!take_ordered (loader, p, take_to_host, stored)) {
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
  Parts p = { .rows = n,
    .cols = 1,
    .order = order,
    .heads = heads,
    .head_dim = head_dim };

  if (!find_parts (loader, &p, names, n_names))
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
  Parts p = { .n = 1, .cols = 1, .order = H3_ROWS_AS_STORED };

  p.tensor[0] = find_numbers (loader, name);
  if (!p.tensor[0])
    return NULL;
  if (!same_shape (p.tensor[0], rank, shape)) {
    g_autofree gchar *expected = shape_string (rank, shape);
    wrong_shape (loader, p.tensor[0], expected);
    return NULL;
  }
  if (!loader->device || !may_go_on (loader))
    return NULL;
  p.rows = p.n_rows[0] = elements (p.tensor[0]);
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
    if (!host || !may_go_on (loader))
      return NULL;
    tensor = new_tensor (loader, H3_DTYPE_F32, rank, shape);
    if (!tensor || !upload (loader, tensor, host))
      return NULL;
    remember (loader, tensor);
    loader->computed += bytes;
    report_progress (loader);
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
  const H3StoredTensor *tensor = loader->failure ? NULL : find (loader, name);

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
  g_autoptr (GString) message = g_string_new (NULL);

  append_list (message, "tensors missing, first: ", ", ", loader->missing);
  append_list (message, "unexpected, first: ", ", ", unexpected);
  append_list (message, "wrong: ", "; ", loader->problems);
  if (message->len > 0)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s: %s",
        h3_tensor_set_path (loader->set), loader->what, message->str + 2);
}

gboolean
h3_loader_finish (H3Loader *loader, GError **error)
{
  GError *found = NULL;

  if (loader->reader && !has_failed (loader))
    wait_for_reader (loader);
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
