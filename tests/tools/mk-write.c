/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writing safetensors files and their index. One tensor is in memory at a
 * time, so a checkpoint of the released size can be made too. */
#include "mkcheckpoint.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

static gboolean
is_narrow (const MkStored *stored)
{
  return stored->f16 || stored->source->bf16;
}

static const gchar *
type_name (const MkStored *stored)
{
  if (stored->f16)
    return "F16";
  return stored->source->bf16 ? "BF16" : "F32";
}

static guint64
stored_bytes (const MkStored *stored)
{
  const MkTensor *source = stored->source;
  return mk_tensor_size (source) / source->shape[0] * stored->n_rows *
         (is_narrow (stored) ? 2 : 4);
}

/* The writer's order: the wider type first, then by name. */
static gint
compare_stored (gconstpointer a, gconstpointer b)
{
  const MkStored *x = *(MkStored *const *) a, *y = *(MkStored *const *) b;

  if (is_narrow (x) != is_narrow (y))
    return is_narrow (x) ? 1 : -1;
  if (x->f16 != y->f16)
    return x->f16 ? 1 : -1;
  return strcmp (x->name, y->name);
}

static void
append_shape (GString *string, const MkStored *stored)
{
  const MkTensor *source = stored->source;

  g_string_append_printf (string, "[%" G_GINT64_FORMAT, stored->n_rows);
  for (guint d = 1; d < source->rank; d++)
    g_string_append_printf (string, ",%" G_GINT64_FORMAT, source->shape[d]);
  g_string_append_c (string, ']');
}

/* Names are our own and need no escapes. */
static GString *
make_header (const GPtrArray *tensors)
{
  GString *json = g_string_new ("{\"__metadata__\":{\"format\":\"pt\"}");
  guint64 begin = 0;

  for (guint i = 0; i < tensors->len; i++) {
    const MkStored *stored = tensors->pdata[i];
    guint64 end = begin + stored_bytes (stored);

    g_string_append_printf (json,
        ",\"%s\":{\"dtype\":\"%s\",\"shape\":", stored->name,
        type_name (stored));
    append_shape (json, stored);
    g_string_append_printf (json,
        ",\"data_offsets\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]}",
        begin, end);
    begin = end;
  }
  g_string_append_c (json, '}');
  while (json->len % 8)
    g_string_append_c (json, ' ');
  return json;
}

/* The official row that is row @i of @stored. */
static gint64
source_row (const MkStored *stored, gint64 i)
{
  gint64 half = stored->n_rows / 2, d = stored->head_dim;
  gint64 third = stored->n_rows / 3;

  switch (stored->rows) {
    case MK_ROWS_PART:
      return i / d * 3 * d + stored->part * d + i % d;
    case MK_ROWS_CONTIGUOUS:
      return i % third / d * 3 * d + i / third * d + i % d;
    case MK_ROWS_SWAP_HALVES:
      return i < half ? i + half : i - half;
    default:
      return i;
  }
}

/* Round to nearest, ties to even; the recipe has no NaN. */
static guint16
bfloat16 (gfloat value)
{
  guint32 bits;

  memcpy (&bits, &value, 4);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

gfloat
mk_round_bf16 (gfloat value)
{
  guint32 bits = (guint32) bfloat16 (value) << 16;

  memcpy (&value, &bits, 4);
  return value;
}

static guint16
float16 (gfloat value)
{
  _Float16 half = (_Float16) value;
  guint16 bits;

  memcpy (&bits, &half, 2);
  return bits;
}

/* Of the type that the tensor has in the official files, if narrower. */
static guint16
narrow_value (const MkStored *stored, gfloat value)
{
  if (!stored->f16)
    return bfloat16 (value);
  return float16 (stored->source->bf16 ? mk_round_bf16 (value) : value);
}

static gboolean
write_tensor (FILE *file, const MkStored *stored, const gchar *component,
    guint64 seed)
{
  const MkTensor *source = stored->source;
  g_autofree gfloat *recipe =
      stored->values ? NULL : mk_values (source, component, seed);
  const gfloat *values = stored->values ? stored->values : recipe;
  gint64 cols = mk_tensor_size (source) / source->shape[0];
  g_autofree guint16 *narrow = g_new (guint16, cols);

  for (gint64 i = 0; i < stored->n_rows; i++) {
    const gfloat *row = values + source_row (stored, i) * cols;

    for (gint64 j = 0; is_narrow (stored) && j < cols; j++)
      narrow[j] = narrow_value (stored, row[j]);
    if (is_narrow (stored) ? fwrite (narrow, 2, cols, file) != (gsize) cols
                           : fwrite (row, 4, cols, file) != (gsize) cols)
      return FALSE;
  }
  return TRUE;
}

static gboolean
write_shard (const gchar *path, const GPtrArray *tensors,
    const gchar *component, guint64 seed, GError **error)
{
  g_autoptr (GString) header = make_header (tensors);
  guint64 length = GUINT64_TO_LE (header->len);
  FILE *file = g_fopen (path, "wb");
  gboolean ok = file && fwrite (&length, 8, 1, file) == 1 &&
                fwrite (header->str, header->len, 1, file) == 1;

  for (guint i = 0; ok && i < tensors->len; i++)
    ok = write_tensor (file, tensors->pdata[i], component, seed);
  if (file && fclose (file) != 0)
    ok = FALSE;
  if (!ok)
    g_set_error (error, H3_ERROR, H3_ERROR_OPEN, "%s: cannot write (%s)", path,
        g_strerror (errno));
  return ok;
}

/* Quantised checkpoints: all of a component's tensors in memory */

static MkBlob *
plain_blob (const MkStored *stored, const gfloat *values, gboolean narrow)
{
  const MkTensor *source = stored->source;
  gint64 shape[MK_MAX_RANK];
  MkBlob *blob;

  memcpy (shape, source->shape, sizeof shape);
  shape[0] = stored->n_rows;
  blob = mk_blob_new (g_strdup (stored->name),
      narrow ? type_name (stored) : "F32", narrow ? 2 : 4, source->rank, shape);
  if (!narrow)
    memcpy (blob->bytes, values, blob->size);
  for (gsize i = 0; narrow && i < blob->size / 2; i++)
    ((guint16 *) blob->bytes)[i] = narrow_value (stored, values[i]);
  return blob;
}

/* The tensor's numbers in its rows' order, as they are in the plain files. */
static gfloat *
stored_values (const MkStored *stored, const gchar *component, guint64 seed)
{
  const MkTensor *source = stored->source;
  g_autofree gfloat *recipe =
      stored->values ? NULL : mk_values (source, component, seed);
  const gfloat *values = stored->values ? stored->values : recipe;
  gint64 cols = mk_tensor_size (source) / source->shape[0];
  gfloat *ordered = g_new (gfloat, stored->n_rows * cols);

  for (gint64 i = 0; i < stored->n_rows; i++)
    memcpy (ordered + i * cols, values + source_row (stored, i) * cols,
        cols * sizeof (gfloat));
  for (gint64 i = 0; source->bf16 && i < stored->n_rows * cols; i++)
    ordered[i] = mk_round_bf16 (ordered[i]);
  return ordered;
}

static void
add_blobs (const MkStored *stored, const gchar *component,
    const MkRecipe *recipe, GPtrArray *blobs)
{
  g_autofree gfloat *values = stored_values (stored, component, recipe->seed);
  /* a curve's AdaLN is not (checkpoints.md 4.3) */
  gboolean quantised =
      !stored->own && mk_is_quantised (stored->source, recipe->encoding);
  guint before = blobs->len;

  if (quantised)
    mk_quantise (stored->source, stored->name, values, stored->n_rows,
        recipe->encoding, recipe->markers, blobs);
  if (recipe->decoded)
    g_ptr_array_set_size (blobs, before);
  if (recipe->decoded || !quantised)
    g_ptr_array_add (blobs,
        plain_blob (stored, values, is_narrow (stored) && !quantised));
}

static GString *
blob_header (const GPtrArray *blobs, const gchar *key, const gchar *value)
{
  GString *json = g_string_new ("{");
  gsize begin = 0;

  if (key) {
    g_autofree gchar *text = g_strescape (value, NULL);

    g_string_append_printf (json, "\"__metadata__\":{\"%s\":\"%s\"},", key,
        text);
  }

  for (guint i = 0; i < blobs->len; i++) {
    const MkBlob *blob = blobs->pdata[i];

    g_string_append_printf (json, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
        i ? "," : "", blob->name, blob->dtype);
    for (guint d = 0; d < blob->rank; d++)
      g_string_append_printf (json, "%s%" G_GINT64_FORMAT, d ? "," : "",
          blob->shape[d]);
    g_string_append_printf (json,
        "],\"data_offsets\":[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]}", begin,
        begin + blob->size);
    begin += blob->size;
  }
  g_string_append_c (json, '}');
  return json;
}

/* Of two elements, beside @first, which may have @prefix. */
static MkBlob *
oldest_marker (const MkBlob *first, const gchar *prefix)
{
  const gint64 n = 2;
  gboolean with = prefix && g_str_has_prefix (first->name, prefix);

  return mk_blob_new (g_strconcat (with ? prefix : "", "scaled_fp8", NULL),
      "F8_E4M3", 1, 1, &n);
}

gboolean
mk_write_blobs (const GPtrArray *blobs, const gchar *key, const gchar *value,
    const gchar *path, GError **error)
{
  g_autoptr (GString) header = blob_header (blobs, key, value);
  g_autoptr (GByteArray) file = g_byte_array_new ();
  guint64 length = GUINT64_TO_LE (header->len);

  g_byte_array_append (file, (const guint8 *) &length, 8);
  g_byte_array_append (file, (const guint8 *) header->str, header->len);
  for (guint i = 0; i < blobs->len; i++) {
    const MkBlob *blob = blobs->pdata[i];

    g_byte_array_append (file, blob->bytes, blob->size);
  }
  return g_file_set_contents (path, (const gchar *) file->data, file->len,
      error);
}

static gboolean
write_quantised (const GPtrArray *stored, const gchar *dir,
    const gchar *component, const MkRecipe *recipe, GError **error)
{
  g_autoptr (GPtrArray) blobs =
      g_ptr_array_new_with_free_func ((GDestroyNotify) mk_blob_free);
  const gchar *name = ((const MkStored *) stored->pdata[0])->shard;
  g_autofree gchar *path = g_build_filename (dir, name, NULL);
  g_autofree gchar *metadata = NULL;

  for (guint i = 0; i < stored->len; i++)
    add_blobs (stored->pdata[i], component, recipe, blobs);
  if (recipe->markers == MK_MARKERS_OLDEST && !recipe->decoded)
    g_ptr_array_add (blobs, oldest_marker (blobs->pdata[0], recipe->prefix));
  if (recipe->markers == MK_MARKERS_METADATA)
    metadata = mk_metadata_of_markers (blobs, recipe->prefix);
  return mk_write_blobs (blobs, metadata ? "_quantization_metadata" : NULL,
      metadata, path, error);
}

gboolean
mk_write_weights (GPtrArray *stored, const gchar *dir, const gchar *component,
    const MkRecipe *recipe, GError **error)
{
  g_autoptr (GHashTable) shards = g_hash_table_new_full (g_str_hash,
      g_str_equal, NULL, (GDestroyNotify) g_ptr_array_unref);
  GHashTableIter iter;
  gpointer name, tensors;

  g_ptr_array_sort (stored, compare_stored);
  if (recipe->encoding != MK_PLAIN)
    return write_quantised (stored, dir, component, recipe, error);
  for (guint i = 0; i < stored->len; i++) {
    MkStored *tensor = stored->pdata[i];
    GPtrArray *shard = g_hash_table_lookup (shards, tensor->shard);
    if (!shard) {
      shard = g_ptr_array_new ();
      g_hash_table_insert (shards, tensor->shard, shard);
    }
    g_ptr_array_add (shard, tensor);
  }
  g_hash_table_iter_init (&iter, shards);
  while (g_hash_table_iter_next (&iter, &name, &tensors)) {
    g_autofree gchar *path = g_build_filename (dir, name, NULL);
    if (!write_shard (path, tensors, component, recipe->seed, error))
      return FALSE;
  }
  return TRUE;
}

gboolean
mk_write_index (const GPtrArray *stored, const gchar *path, GError **error)
{
  g_autoptr (GString) json = g_string_new (NULL);
  guint64 total = 0;

  for (guint i = 0; i < stored->len; i++)
    total += stored_bytes (stored->pdata[i]);
  g_string_append_printf (json,
      "{\"metadata\":{\"total_size\":%" G_GUINT64_FORMAT "},\"weight_map\":{",
      total);
  for (guint i = 0; i < stored->len; i++) {
    const MkStored *tensor = stored->pdata[i];
    g_string_append_printf (json, "%s\n\"%s\":\"%s\"", i ? "," : "",
        tensor->name, tensor->shard);
  }
  g_string_append (json, "}}\n");
  return g_file_set_contents (path, json->str, json->len, error);
}
