/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/loader.h"
#include "model/checkpoint/stored-values.h"

#include <math.h>
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
  H3Stream *stream; /* owned */
  const H3Stop *stop;
  H3LoadProgress progress;
  gpointer progress_data;
  GPtrArray *tensors; /* H3Tensor, owned: what it gave away */
  gpointer staging;   /* one tensor's stored bytes; only grows */
  gsize staging_size;
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
  g_clear_pointer (&loader->tensors, g_ptr_array_unref);
  g_clear_pointer (&loader->stream, h3_stream_free);
  g_clear_pointer (&loader->device, h3_device_unref);
  g_free (loader->staging);
  g_clear_error (&loader->failure);
  g_ptr_array_unref (loader->problems);
  g_ptr_array_unref (loader->missing);
  g_ptr_array_unref (loader->ignored);
  g_hash_table_unref (loader->used);
  g_free (loader->what);
  g_free (loader);
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

static gpointer
get_staging (H3Loader *loader, gsize bytes)
{
  if (bytes > loader->staging_size) {
    g_clear_pointer (&loader->staging, g_free);
    loader->staging_size = 0;
    loader->staging = g_try_malloc (bytes);
    if (!loader->staging) {
      fail (loader,
          g_error_new (H3_ERROR, H3_ERROR_NO_SPACE,
              "%s: no memory for %" G_GSIZE_FORMAT " bytes to read a tensor "
              "into",
              loader->what, bytes));
      return NULL;
    }
    loader->staging_size = bytes;
  }
  return loader->staging;
}

/* Elements [first, first + n) of a tensor to @dest, all of them finite. */
static gboolean
read_finite (H3Loader *loader, const H3StoredTensor *tensor, gint64 first,
    gint64 n, gpointer dest)
{
  gsize size = h3_stored_type_size (tensor->type);
  GError *error = NULL;
  gsize index;

  if (!h3_stored_tensor_read (tensor, first * size, n * size, dest, &error)) {
    fail (loader, error);
    return FALSE;
  }
  if (!h3_stored_values_finite (tensor->type, dest, n, &index)) {
    gfloat value;
    h3_stored_values_widen (tensor->type, (const guint8 *) dest + index * size,
        1, &value);
    fail (loader,
        g_error_new (H3_ERROR, H3_ERROR_NUMERIC,
            "%s: tensor %s: element %" G_GINT64_FORMAT " is %s; weights must "
            "be finite",
            tensor->path, tensor->name, first + (gint64) index,
            isnan (value) ? "NaN" : "Inf"));
    return FALSE;
  }
  return TRUE;
}

/* Rows [first, first + n) of the parts, one after the other as stored. */
static gboolean
read_rows (H3Loader *loader, const Parts *p, gint64 first, gint64 n,
    guint8 *dest)
{
  gsize row_bytes = p->cols * h3_stored_type_size (p->type);

  for (guint i = 0; i < p->n && n > 0; i++) {
    gint64 here = MIN (n, p->n_rows[i] - first);

    if (here <= 0) {
      first -= p->n_rows[i];
      continue;
    }
    if (!read_finite (loader, p->tensor[i], first * p->cols, here * p->cols,
            dest))
      return FALSE;
    dest += here * row_bytes;
    n -= here;
    first = 0;
  }
  return TRUE;
}

/* [q; k; v] from [q_0; k_0; v_0; q_1; ...]: one read per head and part. */
static gboolean
read_grouped (H3Loader *loader, const Parts *p, guint8 *dest)
{
  gsize block = p->head_dim * p->cols * h3_stored_type_size (p->type);

  for (guint part = 0; part < 3; part++) {
    for (guint head = 0; head < p->heads; head++) {
      gint64 first = ((gint64) head * 3 + part) * p->head_dim;
      if (!read_rows (loader, p, first, p->head_dim, dest))
        return FALSE;
      dest += block;
    }
  }
  return TRUE;
}

/* The rows in their order in memory, in the stored type. */
static gboolean
read_ordered (H3Loader *loader, const Parts *p, guint8 *dest)
{
  gint64 half = p->rows / 2;
  gsize half_bytes = half * p->cols * h3_stored_type_size (p->type);

  switch (p->order) {
    case H3_ROWS_GROUPED_QKV:
      return read_grouped (loader, p, dest);
    case H3_ROWS_SWAP_HALVES:
      return read_rows (loader, p, half, half, dest) &&
             read_rows (loader, p, 0, half, dest + half_bytes);
    default:
      return read_rows (loader, p, p->first, p->rows, dest);
  }
}

static void
count (H3Loader *loader, guint64 bytes)
{
  loader->bytes += bytes;
  if (loader->progress && !loader->failure)
    loader->progress (loader->bytes, loader->total, loader->progress_data);
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

/* What was finite has to be finite in the narrower type, too. */
static gboolean
check_rounded (H3Loader *loader, const H3Tensor *tensor, const Parts *p)
{
  g_autoptr (H3Tensor) count = NULL;
  const gint64 one = 1;
  gint32 bad = 0;
  GError *error = NULL;

  count = new_tensor (loader, H3_DTYPE_I32, 1, &one);
  if (!count)
    return FALSE;
  h3_count_nonfinite (loader->stream, count, tensor);
  h3_download (loader->stream, &bad, count);
  if (h3_stream_synchronize (loader->stream, &error) && bad > 0)
    error = g_error_new (H3_ERROR, H3_ERROR_NUMERIC,
        "%s: tensor %s: %d of its numbers are beyond what %s, in which %s "
        "computes here, can hold",
        p->tensor[0]->path, p->tensor[0]->name, bad,
        h3_dtype_name (tensor->dtype), loader->device->name);
  if (error)
    fail (loader, error);
  return !error;
}

static H3Tensor *
round_matrix (H3Loader *loader, const H3Tensor *stored, const Parts *p)
{
  g_autoptr (H3Tensor) rounded =
      new_tensor (loader, loader->round_to, stored->rank, stored->shape);

  if (!rounded)
    return NULL;
  h3_copy (loader->stream, rounded, stored);
  return check_rounded (loader, rounded, p) ? g_steal_pointer (&rounded) : NULL;
}

/* Straight into the tensor where the host can. */
static gboolean
read_matrix (H3Loader *loader, const Parts *p, H3Tensor *tensor)
{
  gpointer to = loader->device->host_memory
                    ? tensor->data
                    : get_staging (loader, tensor->bytes);

  return to && read_ordered (loader, p, to) &&
         (to == tensor->data || upload (loader, tensor, to));
}

static H3Weight *
load_matrix (H3Loader *loader, const Parts *p)
{
  const gint64 shape[] = { p->rows, p->cols };
  g_autoptr (H3Tensor) tensor = NULL;

  tensor = new_tensor (loader, plain_dtype (p->type), 2, shape);
  if (!tensor || !read_matrix (loader, p, tensor))
    return NULL;
  if (tensor->dtype != matrix_dtype (loader, p->type)) {
    H3Tensor *rounded = round_matrix (loader, tensor, p);

    return rounded ? h3_weight_new_plain (rounded) : NULL;
  }
  return h3_weight_new_plain (g_steal_pointer (&tensor));
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
  H3Weight *weight = NULL;

  if (!find_parts (loader, &p, names, n_names))
    return NULL;
  if (loader->device) {
    if (!may_go_on (loader))
      return NULL;
    weight = load_matrix (loader, &p);
    if (weight)
      remember (loader, weight->tensor);
  }
  count (loader, rows * cols * h3_dtype_size (matrix_dtype (loader, p.type)));
  return weight;
}

H3Weight *
h3_loader_matrix (H3Loader *loader, const gchar *name, gint64 rows, gint64 cols)
{
  return h3_loader_weight (loader, &name, 1, rows, cols, H3_ROWS_AS_STORED, 0,
      0);
}

/* A matrix of the type @p is stored in: @piece's memory when it fits. */
static gboolean
fit_piece (H3Loader *loader, const Parts *p, H3Weight **piece)
{
  const gint64 shape[] = { p->rows, p->cols };
  H3DType dtype = plain_dtype (p->type);
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
         read_matrix (loader, &p, (*piece)->tensor);
}

/* Stored numbers, in order, as float32 on the host. */
static gfloat *
load_floats (H3Loader *loader, const Parts *p)
{
  gsize n = p->rows * p->cols;
  gpointer staging = get_staging (loader, n * h3_stored_type_size (p->type));
  gfloat *values = staging ? g_try_new (gfloat, MAX (n, 1)) : NULL;

  if (staging && !values)
    fail (loader,
        g_error_new (H3_ERROR, H3_ERROR_NO_SPACE,
            "%s: no memory for %" G_GSIZE_FORMAT " floats", loader->what, n));
  if (!values || !read_ordered (loader, p, staging)) {
    g_free (values);
    return NULL;
  }
  h3_stored_values_widen (p->type, staging, n, values);
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
  g_autofree gfloat *values = NULL;

  if (!find_parts (loader, &p, names, n_names))
    return NULL;
  if (!loader->device) {
    count (loader, n * sizeof (gfloat));
    return NULL;
  }
  if (may_go_on (loader))
    values = load_floats (loader, &p);
  return values ? h3_loader_computed_vector (loader, values, n) : NULL;
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
  }
  count (loader, bytes);
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

  g_clear_pointer (&loader->staging, g_free);
  loader->staging_size = 0;
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
