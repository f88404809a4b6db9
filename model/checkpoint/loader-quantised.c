/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Quantised matrices with their scales, in the rows' order. */
#include "model/checkpoint/loader-private.h"

#include <string.h>

/* The row of the parts, one after the other, that is row @r of the result. */
static gint64
part_row (const H3LoaderParts *p, gint64 r)
{
  gint64 inner = (gint64) p->heads * p->head_dim;

  switch (p->order) {
    case H3_ROWS_GROUPED_QKV:
      return (r % inner / p->head_dim * 3 + r / inner) * p->head_dim +
             r % p->head_dim;
    case H3_ROWS_SWAP_HALVES:
      return (r + p->rows / 2) % p->rows;
    default:
      return p->first + r;
  }
}

/* Bytes of a sidecar's row in memory. */
typedef gboolean (*ReadSidecar) (const H3Quantised *q, gint64 rows, gint64 cols,
    gpointer dest, GError **error);

static gboolean
read_scale (const H3Quantised *q, gint64 rows, gint64 cols, gpointer dest,
    GError **error)
{
  return h3_quantised_read_scale (q, rows, dest, error);
}

static gboolean
read_block_scale (const H3Quantised *q, gint64 rows, gint64 cols, gpointer dest,
    GError **error)
{
  return h3_quantised_read_block_scale (q, rows, cols, dest, error);
}

static gboolean
read_column_scale (const H3Quantised *q, gint64 rows, gint64 cols,
    gpointer dest, GError **error)
{
  return h3_quantised_read_column_scale (q, cols, dest, error);
}

/* A sidecar's @size bytes for each row of the parts, in the rows' order. */
static guint8 *
read_by_rows (const H3LoaderParts *p, gsize size, ReadSidecar read,
    GError **error)
{
  g_autofree guint8 *stored = NULL;
  g_autofree guint8 *ordered = NULL;
  gint64 rows = 0;

  for (guint i = 0; i < p->n; i++)
    rows += p->n_rows[i];
  stored = g_try_malloc_n (rows, size);
  ordered = g_try_malloc_n (p->rows, size);
  if (!stored || !ordered) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "%s: tensor %s: no memory for the scales of %" G_GINT64_FORMAT " rows",
        p->tensor[0]->path, p->tensor[0]->name, rows);
    return NULL;
  }
  rows = 0;
  for (guint i = 0; i < p->n; i++) {
    if (!read (&p->quantised[i], p->n_rows[i], p->cols, stored + rows * size,
            error))
      return NULL;
    rows += p->n_rows[i];
  }
  for (gint64 r = 0; r < p->rows; r++)
    memcpy (ordered + r * size, stored + part_row (p, r) * size, size);
  return g_steal_pointer (&ordered);
}

/* Takes @host, or @error when there is none. */
static gboolean
upload_sidecar (H3Loader *loader, H3DType dtype, guint rank,
    const gint64 *shape, gpointer host, GError *error, gboolean keep,
    H3Tensor **tensor)
{
  gboolean good = FALSE;

  if (!host)
    h3_loader_fail (loader, error);
  else if ((*tensor = h3_loader_new_tensor (loader, dtype, rank, shape)))
    good = h3_loader_upload (loader, *tensor, host);
  if (good && keep) {
    h3_loader_remember (loader, *tensor);
    loader->computed += (*tensor)->bytes;
    h3_loader_report_progress (loader);
  }
  g_free (host);
  return good;
}

static gint64
scale_blocks (const H3LoaderParts *p)
{
  gint64 per = h3_encoding_info (p->quantised[0].encoding)->scale_block;

  return per ? (p->cols + per - 1) / per : 0;
}

static gboolean
load_scales (H3Loader *loader, const H3LoaderParts *p, gboolean keep,
    H3Weight *w)
{
  const gint64 blocks[] = { p->rows, scale_blocks (p) };
  GError *error = NULL;
  gpointer host;

  if (h3_encoding_info (w->encoding)->scale) {
    host = read_by_rows (p, sizeof (gfloat), read_scale, &error);
    if (!upload_sidecar (loader, H3_DTYPE_F32, 1, &p->rows, host, error, keep,
            &w->scale))
      return FALSE;
  }
  if (blocks[1] > 0) {
    host = read_by_rows (p, blocks[1], read_block_scale, &error);
    if (!upload_sidecar (loader, H3_DTYPE_U8, 2, blocks, host, error, keep,
            &w->block_scale))
      return FALSE;
  }
  return TRUE;
}

static gboolean
load_column_scale (H3Loader *loader, const H3LoaderParts *p, gboolean keep,
    H3Weight *w)
{
  gfloat *host;
  GError *error = NULL;

  if (!p->quantised[0].column_scale)
    return TRUE;
  host = g_new (gfloat, p->cols);
  if (!read_column_scale (&p->quantised[0], p->rows, p->cols, host, &error))
    g_clear_pointer (&host, g_free);
  return upload_sidecar (loader, H3_DTYPE_F32, 1, &p->cols, host, error, keep,
      &w->column_scale);
}

/* What is no tensor: of several parts with one input the largest scale, and full
 * precision when one asks for it. */
static gboolean
load_inputs (H3Loader *loader, const H3LoaderParts *p, H3Weight *w)
{
  for (guint i = 0; i < p->n; i++) {
    const H3Quantised *q = &p->quantised[i];
    GError *error = NULL;
    gfloat scale;

    if (!h3_quantised_read_input_scale (q, &scale, &error)) {
      h3_loader_fail (loader, error);
      return FALSE;
    }
    w->input_scale = MAX (w->input_scale, scale);
    w->full_precision = w->full_precision || q->full_precision;
  }
  return TRUE;
}

guint64
h3_loader_quantised_bytes (const H3LoaderParts *p)
{
  const H3EncodingInfo *info = h3_encoding_info (p->quantised[0].encoding);
  guint64 row = p->width + scale_blocks (p);

  if (info->scale)
    row += sizeof (gfloat);
  return p->rows * row +
         (p->quantised[0].column_scale ? p->cols * sizeof (gfloat) : 0);
}

gboolean
h3_loader_check_encoding (H3Loader *loader, const H3Quantised *q)
{
  const H3Device *device = loader->device ? loader->device : loader->planned;

  if (!device || device->encodings >> q->encoding & 1)
    return TRUE;
  h3_loader_problem (loader,
      "%s: tensor %s: %s does not take weights in %s; the CPU does",
      q->weight->path, q->weight->name, device->name,
      h3_encoding_info (q->encoding)->name);
  return FALSE;
}

/* The codes and scales of @plain's rows. */
static H3Weight *
quantise (H3Loader *loader, const H3Tensor *plain)
{
  g_autoptr (H3Weight) w = h3_weight_new_encoded (H3_ENCODING_E4M3,
      plain->shape[0], plain->shape[1]);
  GError *error = NULL;

  w->tensor = h3_loader_new_tensor (loader, H3_DTYPE_U8, 2, plain->shape);
  w->scale = w->tensor
                 ? h3_loader_new_tensor (loader, H3_DTYPE_F32, 1, plain->shape)
                 : NULL;
  if (!w->scale)
    return NULL;
  h3_quantise_rows (loader->stream, w->tensor, w->scale, plain);
  if (!h3_stream_synchronize (loader->stream, &error)) {
    h3_loader_fail (loader, error);
    return NULL;
  }
  h3_loader_remember (loader, w->tensor);
  h3_loader_remember (loader, w->scale);
  return g_steal_pointer (&w);
}

H3Weight *
h3_loader_load_as_e4m3 (H3Loader *loader, const H3LoaderParts *p, H3DType dtype,
    const GPtrArray *updates)
{
  H3Quantised becomes = p->quantised[0];
  const gint64 shape[] = { p->rows, p->cols };
  const gint64 kept = p->rows * (p->cols + (gint64) sizeof (gfloat));
  g_autoptr (H3Tensor) plain = NULL;

  becomes.encoding = H3_ENCODING_E4M3;
  if (!h3_loader_check_encoding (loader, &becomes))
    return NULL;
  loader->bytes += kept;
  loader->passing += p->rows * p->cols * (gint64) h3_dtype_size (dtype) - kept;
  if (!loader->device || !h3_loader_may_go_on (loader))
    return NULL;
  plain = h3_loader_new_tensor (loader, dtype, 2, shape);
  return plain &&
                 h3_loader_take_ordered (loader, p, h3_loader_take_to_tensor,
                     plain) &&
                 h3_loader_wait (loader) &&
                 (!updates || h3_loader_merge (loader, updates, p, plain))
             ? quantise (loader, plain)
             : NULL;
}

/* @keep: it is a part of the model */
H3Weight *
h3_loader_load_quantised (H3Loader *loader, const H3LoaderParts *p,
    gboolean keep)
{
  const H3Quantised *q = p->quantised;
  const gint64 shape[] = { p->rows, p->width };
  g_autoptr (H3Weight) w = NULL;

  if (!h3_loader_may_go_on (loader))
    return NULL;
  w = h3_weight_new_encoded (q->encoding, p->rows, p->cols);
  w->rotation = q->rotation;
  w->tensor = h3_loader_new_tensor (loader, H3_DTYPE_U8, 2, shape);
  if (!w->tensor ||
      !h3_loader_take_ordered (loader, p, h3_loader_take_to_tensor, w->tensor))
    return NULL;
  if (keep)
    h3_loader_remember (loader, w->tensor);
  return load_inputs (loader, p, w) && load_scales (loader, p, keep, w) &&
                 load_column_scale (loader, p, keep, w)
             ? g_steal_pointer (&w)
             : NULL;
}
