/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the wrappers of operations check with. Failures are the stream's; FALSE
 * lets checks be chained with &&. In a wrapper, "stream" and "op", the
 * operation's name, are in scope for the macros. */
#pragma once

#include "model/blocks.h"
#include "model/ops.h"

typedef enum {
  KIND_ANY,
  KIND_FLOAT, /* float32, float16 or bfloat16 */
  KIND_ACT,   /* float32 or what the device stores activations in */
  KIND_F32,
  KIND_I32,
  KIND_U8,
} Kind;

static const gchar *const kind_names[] = { "any type", "a float type",
  "an activation type of this device", "float32", "int32", "uint8" };

#define ANY G_GINT64_CONSTANT (-1)

static inline gboolean
kind_accepts (Kind kind, const H3Device *device, H3DType dtype)
{
  switch (kind) {
    case KIND_ANY:
      return TRUE;
    case KIND_FLOAT:
      return dtype == H3_DTYPE_F32 || dtype == H3_DTYPE_F16 ||
             dtype == H3_DTYPE_BF16;
    case KIND_ACT:
      return dtype == H3_DTYPE_F32 || dtype == device->act_dtype ||
             dtype == device->vae_dtype;
    case KIND_F32:
      return dtype == H3_DTYPE_F32;
    case KIND_I32:
      return dtype == H3_DTYPE_I32;
    case KIND_U8:
      return dtype == H3_DTYPE_U8;
  }
  return FALSE;
}

static inline gchar *
dims_to_string (guint rank, const gint64 *dims)
{
  GString *s = g_string_new ("[");

  for (guint i = 0; i < rank; i++) {
    g_string_append (s, i ? ", " : "");
    if (dims[i] == ANY)
      g_string_append (s, "any");
    else
      g_string_append_printf (s, "%" G_GINT64_FORMAT, dims[i]);
  }
  return g_string_free (g_string_append_c (s, ']'), FALSE);
}

static inline gboolean
mismatch (H3Stream *stream, const gchar *op, const gchar *name,
    const H3Tensor *t, Kind kind, guint rank, const gint64 *dims)
{
  g_autofree gchar *found = dims_to_string (t->rank, t->shape);
  g_autofree gchar *needed = dims_to_string (rank, dims);

  h3_stream_fail (stream, H3_ERROR_WRONG_TYPE,
      "%s: %s is %s %s, needs to be %s %s", op, name, h3_dtype_name (t->dtype),
      found, kind_names[kind], needed);
  return FALSE;
}

static inline gboolean refuse (H3Stream *stream, const gchar *op,
    const gchar *format, ...) G_GNUC_PRINTF (3, 4);

static inline gboolean
refuse (H3Stream *stream, const gchar *op, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  h3_stream_fail (stream, H3_ERROR_WRONG_TYPE, "%s: %s", op, text);
  return FALSE;
}

static inline gboolean
present (H3Stream *stream, const gchar *op, const gchar *name,
    const H3Tensor *t)
{
  if (!t)
    return refuse (stream, op, "%s is missing", name);
  if (t->device != stream->device)
    return refuse (stream, op,
        "%s lives on another device (%s) than the "
        "stream (%s)",
        name, t->device->name, stream->device->name);
  return TRUE;
}

static inline gboolean
shaped (H3Stream *stream, const gchar *op, const gchar *name, const H3Tensor *t,
    Kind kind, guint rank, const gint64 *dims)
{
  if (!present (stream, op, name, t))
    return FALSE;
  if (t->rank != rank || !kind_accepts (kind, stream->device, t->dtype))
    return mismatch (stream, op, name, t, kind, rank, dims);
  for (guint i = 0; i < rank; i++)
    if (dims[i] != ANY && dims[i] != t->shape[i])
      return mismatch (stream, op, name, t, kind, rank, dims);
  return TRUE;
}

#define SHAPED(name, t, kind, ...)                                             \
  shaped (stream, op, name, t, kind,                                           \
      G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ })), (gint64[]){ __VA_ARGS__ })

/* A matrix whose rows are all leading dimensions. */
static inline gboolean
matrix (H3Stream *stream, const gchar *op, const gchar *name, const H3Tensor *t,
    Kind kind, gint64 rows, gint64 cols)
{
  if (!present (stream, op, name, t))
    return FALSE;
  if (t->rank < 1 || !kind_accepts (kind, stream->device, t->dtype) ||
      (rows != ANY && rows != h3_tensor_rows (t)) ||
      (cols != ANY && cols != h3_tensor_cols (t)))
    return mismatch (stream, op, name, t, kind, 2, (gint64[]){ rows, cols });
  return TRUE;
}

#define MATRIX(name, t, kind, rows, cols)                                      \
  matrix (stream, op, name, t, kind, rows, cols)
#define VECTOR(name, t, kind, n) SHAPED (name, t, kind, n)

static inline gboolean
weight_shaped (H3Stream *stream, const gchar *op, const H3Weight *weight,
    guint rank, const gint64 *dims)
{
  if (!weight)
    return refuse (stream, op, "the weight is missing");
  return shaped (stream, op, "the weight", weight->tensor, KIND_FLOAT, rank,
      dims);
}

#define WEIGHT(weight, ...)                                                    \
  weight_shaped (stream, op, weight,                                           \
      G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ })), (gint64[]){ __VA_ARGS__ })

/* What comes with the bytes of an encoded weight. */
static inline gboolean
sidecars_shaped (H3Stream *stream, const gchar *op, const H3Weight *w)
{
  const H3EncodingInfo *info = h3_encoding_info (w->encoding);
  gint64 blocks = info->scale_block
                      ? (w->cols + info->scale_block - 1) / info->scale_block
                      : 0;

  if (info->scale &&
      !VECTOR ("the weight's scale", w->scale, KIND_F32, w->rows))
    return FALSE;
  if (blocks && !SHAPED ("the weight's block scale", w->block_scale, KIND_U8,
                    w->rows, blocks))
    return FALSE;
  return !w->column_scale || VECTOR ("the weight's column scale",
                                 w->column_scale, KIND_F32, w->cols);
}

static inline gboolean
rotation_fits (const H3Weight *w)
{
  guint g = w->rotation;

  while (g > 1 && g % 4 == 0)
    g /= 4;
  return g == 1 && w->rotation <= H3_MAX_ROTATION && w->cols % w->rotation == 0;
}

static inline gboolean matrix_weight (H3Stream *stream, const gchar *op,
    const H3Weight *w, gint64 rows, gint64 cols);

/* Their rows were added up where it was made. */
static inline gboolean
parts_fit (H3Stream *stream, const gchar *op, const H3Weight *w)
{
  for (guint i = 0; i < G_N_ELEMENTS (w->parts) && w->parts[i]; i++)
    if (!matrix_weight (stream, op, w->parts[i], ANY, w->cols))
      return FALSE;
  return TRUE;
}

/* A matrix in any encoding. */
static inline gboolean
matrix_weight (H3Stream *stream, const gchar *op, const H3Weight *w,
    gint64 rows, gint64 cols)
{
  if (!w)
    return refuse (stream, op, "the weight is missing");
  if (w->encoding == H3_ENCODING_PLAIN)
    return WEIGHT (w, rows, cols);
  if (!(stream->device->encodings >> w->encoding & 1))
    return refuse (stream, op, "%s does not take weights in %s",
        stream->device->name, h3_encoding_info (w->encoding)->name);
  if ((rows != ANY && rows != w->rows) || (cols != ANY && cols != w->cols)) {
    g_autofree gchar *needed = dims_to_string (2, (gint64[]){ rows, cols });

    return refuse (stream, op,
        "the weight is [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
        "] in %s, needs to be %s",
        w->rows, w->cols, h3_encoding_info (w->encoding)->name, needed);
  }
  if (w->encoding == H3_ENCODING_STACKED)
    return parts_fit (stream, op, w);
  if (h3_encoding_is_block (w->encoding) &&
      w->cols % h3_encoding_info (w->encoding)->block)
    return refuse (stream, op,
        "%" G_GINT64_FORMAT " columns are no whole blocks of %u of %s", w->cols,
        h3_encoding_info (w->encoding)->block,
        h3_encoding_info (w->encoding)->name);
  if (!rotation_fits (w))
    return refuse (stream, op,
        "the weight's rotation of %u does not fit its %" G_GINT64_FORMAT
        " columns",
        w->rotation, w->cols);
  return SHAPED ("the weight", w->tensor, KIND_U8, w->rows,
             h3_encoding_row_bytes (w->encoding, w->cols)) &&
         sidecars_shaped (stream, op, w);
}

#define MATRIX_WEIGHT(weight, rows, cols)                                      \
  matrix_weight (stream, op, weight, rows, cols)

static inline gboolean
same_shape (H3Stream *stream, const gchar *op, const gchar *name,
    const H3Tensor *t, Kind kind, const H3Tensor *as)
{
  return shaped (stream, op, name, t, kind, as->rank, as->shape);
}

static inline gboolean
apart (H3Stream *stream, const gchar *op, const gchar *name,
    const H3Tensor *out, const H3Tensor *in)
{
  const guint8 *a, *b;

  if (!in)
    return TRUE;
  a = out->data;
  b = in->data;
  if (a < b + in->bytes && b < a + out->bytes)
    return refuse (stream, op, "the output overlaps %s in memory", name);
  return TRUE;
}
