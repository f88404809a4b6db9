/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stored tensors by name: there, of the right type and shape. */
#include "model/blocks.h"
#include "model/checkpoint/loader-private.h"

const H3StoredTensor *
h3_loader_find (H3Loader *loader, const gchar *name)
{
  const H3StoredTensor *tensor;
  GError *error = NULL;

  if (!h3_tensor_set_has (loader->set, name)) {
    g_ptr_array_add (loader->missing, g_strdup (name));
    return NULL;
  }
  tensor = h3_tensor_set_get (loader->set, name, &error);
  if (!tensor)
    h3_loader_fail (loader, error);
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

const H3StoredTensor *
h3_loader_find_numbers (H3Loader *loader, const gchar *name)
{
  const H3StoredTensor *tensor;

  if (loader->failure)
    return NULL;
  g_hash_table_add (loader->used, g_strdup (name));
  tensor = h3_loader_find (loader, name);
  return tensor && check_type (loader, tensor) ? tensor : NULL;
}

/* Takes @error: something wrong with the file's contents is remembered with the
 * rest of that kind. */
void
h3_loader_remember_error (H3Loader *loader, GError *error)
{
  if (g_error_matches (error, H3_ERROR, H3_ERROR_WRONG_TYPE)) {
    h3_loader_problem (loader, "%s", error->message);
    g_error_free (error);
  } else {
    h3_loader_fail (loader, error);
  }
}

/* The same for a matrix, which may be quantised. */
static const H3StoredTensor *
find_matrix (H3Loader *loader, const gchar *name, H3Quantised *q)
{
  GError *error = NULL;

  if (loader->failure)
    return NULL;
  g_hash_table_add (loader->used, g_strdup (name));
  if (!h3_tensor_set_has (loader->set, name)) {
    g_ptr_array_add (loader->missing, g_strdup (name));
    return NULL;
  }
  if (!h3_quantised_find (loader->set, name, loader->used, q, &error)) {
    h3_loader_remember_error (loader, error);
    return NULL;
  }
  return q->encoding != H3_ENCODING_PLAIN || check_type (loader, q->weight)
             ? q->weight
             : NULL;
}

gint64
h3_loader_elements (const H3StoredTensor *tensor)
{
  return h3_stored_tensor_elements (tensor);
}

/* Rows when the last dimensions make a row of @cols; -1 when they do not. */
static gint64
rows_of (const H3StoredTensor *tensor, gint64 cols)
{
  guint64 product = 1;

  for (gint d = tensor->rank - 1; d >= 0 && product < (guint64) cols; d--)
    product *= tensor->shape[d];
  return cols > 0 && product == (guint64) cols
             ? h3_loader_elements (tensor) / cols
             : -1;
}

void
h3_loader_wrong_shape (H3Loader *loader, const H3StoredTensor *tensor,
    const gchar *expected)
{
  g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);

  h3_loader_problem (loader, "%s: tensor %s: shape %s, expected %s",
      tensor->path, tensor->name, shape, expected);
}

/* q, k, v: q has a row for each dimension of each head, k as many as v. gate,
 * up: as many of each. The sum alone would hide two errors that cancel. */
static gboolean
parts_fit (const H3LoaderParts *p)
{
  if (p->n > 1 && p->n_rows[p->n - 1] != p->n_rows[p->n - 2])
    return FALSE;
  return p->n < 3 || p->heads == 0 ||
         p->n_rows[0] == (gint64) p->heads * p->head_dim;
}

/* How many rows part @i has where the others' are right. */
static gint64
rows_expected (const H3LoaderParts *p, guint i)
{
  gint64 q = p->heads ? (gint64) p->heads * p->head_dim : p->rows / 3;

  if (p->n < 3)
    return p->rows / p->n;
  return i == 0 ? q : (p->rows - q) / 2;
}

/* Leaves the rows away that were added to make up a whole unit. */
static void
drop_padding (H3LoaderParts *p)
{
  gint64 unit = h3_quantised_row_unit (&p->quantised[0]);

  for (guint i = 0; i < p->n; i++) {
    gint64 expected = rows_expected (p, i);

    if (p->n_rows[i] == (expected + unit - 1) / unit * unit)
      p->n_rows[i] = expected;
  }
}

/* One encoding for all, and what comes with it. */
static gboolean
check_quantised (H3Loader *loader, const H3LoaderParts *p)
{
  const H3Quantised *q = p->quantised;

  for (guint i = 0; i < p->n; i++) {
    GError *error = NULL;

    if (q[i].encoding != q[0].encoding || q[i].rotation != q[0].rotation) {
      h3_loader_problem (loader,
          "%s: tensor %s is %s with rotation %u and %s is %s with %u; needed: "
          "one encoding",
          q[i].weight->path, q[i].weight->name,
          h3_encoding_info (q[i].encoding)->name, q[i].rotation,
          q[0].weight->name, h3_encoding_info (q[0].encoding)->name,
          q[0].rotation);
      return FALSE;
    }
    if (p->n > 1 && q[i].column_scale) {
      h3_loader_problem (loader,
          "%s: tensor %s: not supported for a matrix that shares its input "
          "with another",
          q[i].column_scale->path, q[i].column_scale->name);
      return FALSE;
    }
    if (q[i].encoding != H3_ENCODING_PLAIN &&
        !h3_quantised_check (&q[i], p->n_rows[i], p->cols, &error)) {
      h3_loader_remember_error (loader, error);
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean
check_parts (H3Loader *loader, const H3LoaderParts *p)
{
  gint64 rows = 0;

  for (guint i = 0; i < p->n; i++) {
    const H3StoredTensor *tensor = p->tensor[i];

    if (p->n_rows[i] < 0) {
      g_autofree gchar *expected =
          g_strdup_printf ("rows of %" G_GINT64_FORMAT, p->cols);
      h3_loader_wrong_shape (loader, tensor, expected);
      return FALSE;
    }
    if (tensor->type != p->type && !p->decoded && !p->stacked) {
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
    h3_loader_wrong_shape (loader, p->tensor[0], expected);
    return FALSE;
  }
  return !p->matrix || p->decoded || p->stacked || check_quantised (loader, p);
}

gboolean
h3_loader_find_parts (H3Loader *loader, H3LoaderParts *p,
    const gchar *const *names, guint n)
{
  gboolean all = TRUE;

  g_return_val_if_fail (n >= 1 && n <= H3_LOADER_MAX_PARTS, FALSE);
  g_return_val_if_fail (p->order != H3_ROWS_GROUPED_QKV ||
                            p->rows == (gint64) 3 * p->heads * p->head_dim,
      FALSE);
  g_return_val_if_fail (p->order != H3_ROWS_SWAP_HALVES || p->rows % 2 == 0,
      FALSE);

  for (guint i = 0; i < n; i++) {
    H3Quantised *q = &p->quantised[i];

    p->tensor[i] = p->matrix ? find_matrix (loader, names[i], q)
                             : h3_loader_find_numbers (loader, names[i]);
    if (p->tensor[i])
      p->n_rows[i] =
          q->encoding == H3_ENCODING_PLAIN || h3_encoding_is_block (q->encoding)
              ? rows_of (p->tensor[i], p->cols)
              : h3_quantised_rows (q, p->cols);
    else
      all = FALSE;
  }
  if (!all)
    return FALSE;
  p->n = n;
  p->name = names[0];
  p->type = p->tensor[0]->type;
  p->width = p->cols;
  if (p->matrix)
    h3_loader_parts_look_at_blocks (p);
  if (h3_loader_parts_quantised (p)) {
    p->width = h3_encoding_row_bytes (p->quantised[0].encoding, p->cols);
    drop_padding (p);
  }
  return check_parts (loader, p);
}
