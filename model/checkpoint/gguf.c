/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opening a GGUF file and checking all of it (checkpoints.md 6.1). */
#include "model/checkpoint/gguf.h"
#include "model/checkpoint/gguf-header.h"

#include <string.h>

struct _H3Gguf {
  H3StoredFile file;
  H3GgufHeader *header; /* owned: names are its */
  H3StoredTensor *tensors;
  guint n_tensors;
  GHashTable *by_name; /* name -> H3StoredTensor, neither owned */
  guint64 trailing;
};

/* ggml's types by their number (6.3); those without @supported are refused. */
static const struct {
  const gchar *name;
  gboolean supported;
  H3StoredType type;
} ggml_types[] = {
  [0] = { "F32", TRUE, H3_STORED_F32 },
  [1] = { "F16", TRUE, H3_STORED_F16 },
  [2] = { "Q4_0", TRUE, H3_STORED_Q4_0 },
  [3] = { "Q4_1", TRUE, H3_STORED_Q4_1 },
  [6] = { "Q5_0", TRUE, H3_STORED_Q5_0 },
  [7] = { "Q5_1", TRUE, H3_STORED_Q5_1 },
  [8] = { "Q8_0", TRUE, H3_STORED_Q8_0 },
  [9] = { "Q8_1" },
  [10] = { "Q2_K", TRUE, H3_STORED_Q2_K },
  [11] = { "Q3_K", TRUE, H3_STORED_Q3_K },
  [12] = { "Q4_K", TRUE, H3_STORED_Q4_K },
  [13] = { "Q5_K", TRUE, H3_STORED_Q5_K },
  [14] = { "Q6_K", TRUE, H3_STORED_Q6_K },
  [15] = { "Q8_K" },
  [16] = { "IQ2_XXS" },
  [17] = { "IQ2_XS" },
  [18] = { "IQ3_XXS" },
  [19] = { "IQ1_S" },
  [20] = { "IQ4_NL", TRUE, H3_STORED_IQ4_NL },
  [21] = { "IQ3_S" },
  [22] = { "IQ2_S" },
  [23] = { "IQ4_XS", TRUE, H3_STORED_IQ4_XS },
  [24] = { "I8", TRUE, H3_STORED_I8 },
  [25] = { "I16", TRUE, H3_STORED_I16 },
  [26] = { "I32", TRUE, H3_STORED_I32 },
  [27] = { "I64", TRUE, H3_STORED_I64 },
  [28] = { "F64", TRUE, H3_STORED_F64 },
  [29] = { "IQ1_M" },
  [30] = { "BF16", TRUE, H3_STORED_BF16 },
  [34] = { "TQ1_0" },
  [35] = { "TQ2_0" },
  [39] = { "MXFP4", TRUE, H3_STORED_MXFP4 },
  [40] = { "NVFP4", TRUE, H3_STORED_NVFP4 },
  [41] = { "Q1_0" },
  [42] = { "Q2_0" },
};

static gboolean
take_type (const H3Gguf *gguf, const H3GgufEntry *entry, H3StoredType *type,
    GError **error)
{
  const gchar *name = entry->type < G_N_ELEMENTS (ggml_types)
                          ? ggml_types[entry->type].name
                          : NULL;
  guint64 row = entry->rank ? entry->shape[entry->rank - 1] : 1;

  if (!name || !ggml_types[entry->type].supported) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: tensor %s: ggml type %u (%s) is not supported", gguf->file.path,
        entry->name, entry->type, name ? name : "unknown");
    return FALSE;
  }
  *type = ggml_types[entry->type].type;
  if (row % h3_stored_type_block (*type)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: row length %" G_GUINT64_FORMAT
        " is not a multiple of the block size %u of %s",
        gguf->file.path, entry->name, row, h3_stored_type_block (*type), name);
    return FALSE;
  }
  return TRUE;
}

/* The shape it had before it was flattened (6.2). */
static gboolean
take_orig_shape (const H3Gguf *gguf, const H3GgufEntry *entry,
    H3StoredTensor *tensor, GError **error)
{
  const GArray *shape =
      g_hash_table_lookup (gguf->header->orig_shapes, entry->name);
  guint64 elements = entry->elements;

  if (!shape)
    return TRUE;
  tensor->rank = shape->len;
  for (guint i = 0; i < shape->len; i++)
    tensor->shape[i] = g_array_index (shape, gint32, i);
  for (guint i = 0; i < shape->len; i++)
    elements = elements % tensor->shape[i] ? 0 : elements / tensor->shape[i];
  if (elements != 1) {
    g_autofree gchar *text = h3_stored_tensor_shape_string (tensor);
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: comfy.gguf.orig_shape.%s is %s, the tensor has %" G_GUINT64_FORMAT
        " elements",
        gguf->file.path, entry->name, text, entry->elements);
    return FALSE;
  }
  return TRUE;
}

/* @start: of the data section */
static gboolean
make_tensor (const H3Gguf *gguf, guint64 start, const H3GgufEntry *entry,
    H3StoredTensor *tensor, GError **error)
{
  guint64 size = gguf->file.size;

  tensor->name = entry->name;
  tensor->path = gguf->file.path;
  tensor->file = &gguf->file;
  tensor->rank = entry->rank;
  memcpy (tensor->shape, entry->shape, sizeof tensor->shape);

  if (!take_type (gguf, entry, &tensor->type, error) ||
      !take_orig_shape (gguf, entry, tensor, error))
    return FALSE;
  tensor->bytes = entry->elements / h3_stored_type_block (tensor->type) *
                  h3_stored_type_size (tensor->type);
  if (entry->offset % gguf->header->alignment) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: offset %" G_GUINT64_FORMAT
        " is not a multiple of the alignment %" G_GUINT64_FORMAT,
        gguf->file.path, entry->name, entry->offset, gguf->header->alignment);
    return FALSE;
  }
  if (start > size || entry->offset > size - start ||
      tensor->bytes > size - start - entry->offset) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s is truncated: tensor %s needs %" G_GUINT64_FORMAT
        " bytes at %" G_GUINT64_FORMAT " after byte %" G_GUINT64_FORMAT
        ", the file has %" G_GUINT64_FORMAT "; download again",
        gguf->file.path, entry->name, tensor->bytes, entry->offset, start,
        size);
    return FALSE;
  }
  tensor->offset = start + entry->offset;
  return TRUE;
}

static gint
compare_places (gconstpointer a, gconstpointer b)
{
  const H3StoredTensor *x = *(H3StoredTensor *const *) a;
  const H3StoredTensor *y = *(H3StoredTensor *const *) b;

  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* No tensor has bytes of another. */
static gboolean
check_layout (H3Gguf *gguf, guint64 start, GError **error)
{
  g_autoptr (GPtrArray) sorted = g_ptr_array_sized_new (gguf->n_tensors);
  guint64 alignment = gguf->header->alignment;
  guint64 end = MIN (start, gguf->file.size), padding;

  for (guint i = 0; i < gguf->n_tensors; i++)
    g_ptr_array_add (sorted, &gguf->tensors[i]);
  g_ptr_array_sort (sorted, compare_places);
  for (guint i = 0; i < sorted->len; i++) {
    const H3StoredTensor *tensor = sorted->pdata[i];

    if (tensor->offset < end) {
      const H3StoredTensor *before = sorted->pdata[i - 1];
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: %s overlaps %s: it begins at byte %" G_GUINT64_FORMAT
          ", that ends at %" G_GUINT64_FORMAT,
          gguf->file.path, tensor->name, before->name, tensor->offset, end);
      return FALSE;
    }
    end = tensor->offset + tensor->bytes;
  }
  padding = -(end - start) & (alignment - 1);
  gguf->trailing = gguf->file.size - end;
  gguf->trailing -= MIN (gguf->trailing, padding);
  return TRUE;
}

static gboolean
read_all (H3Gguf *gguf, GError **error)
{
  guint64 start;

  gguf->header = h3_gguf_header_read (&gguf->file, error);
  if (!gguf->header)
    return FALSE;
  /* neither is near the end of the numbers */
  start = (gguf->header->end + gguf->header->alignment - 1) &
          -gguf->header->alignment;
  gguf->n_tensors = gguf->header->entries->len;
  gguf->tensors = g_new0 (H3StoredTensor, gguf->n_tensors);
  gguf->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < gguf->n_tensors; i++) {
    H3StoredTensor *tensor = &gguf->tensors[i];

    if (!make_tensor (gguf, start,
            &g_array_index (gguf->header->entries, H3GgufEntry, i), tensor,
            error))
      return FALSE;
    g_hash_table_insert (gguf->by_name, (gpointer) tensor->name, tensor);
  }
  return check_layout (gguf, start, error);
}

gboolean
h3_gguf_is (const gchar *path)
{
  H3StoredFile file;
  guint8 magic[4];
  gboolean is = h3_stored_file_open (&file, path, NULL) && file.size >= 4 &&
                h3_stored_file_read (&file, 0, 4, magic, NULL) &&
                memcmp (magic, "GGUF", 4) == 0;

  h3_stored_file_close (&file);
  return is;
}

H3Gguf *
h3_gguf_open (const gchar *path, GError **error)
{
  g_autoptr (H3Gguf) gguf = g_new0 (H3Gguf, 1);

  if (!h3_stored_file_open (&gguf->file, path, error) ||
      !read_all (gguf, error))
    return NULL;
  return g_steal_pointer (&gguf);
}

H3Gguf *
h3_gguf_parse (const guint8 *bytes, gsize size, const gchar *name,
    GError **error)
{
  g_autoptr (H3Gguf) gguf = g_new0 (H3Gguf, 1);

  h3_stored_file_open_bytes (&gguf->file, bytes, size, name);
  if (!read_all (gguf, error))
    return NULL;
  return g_steal_pointer (&gguf);
}

void
h3_gguf_free (H3Gguf *gguf)
{
  if (!gguf)
    return;
  g_clear_pointer (&gguf->by_name, g_hash_table_unref);
  g_free (gguf->tensors);
  g_clear_pointer (&gguf->header, h3_gguf_header_free);
  h3_stored_file_close (&gguf->file);
  g_free (gguf);
}

guint
h3_gguf_n_tensors (const H3Gguf *gguf)
{
  return gguf->n_tensors;
}

const H3StoredTensor *
h3_gguf_nth (const H3Gguf *gguf, guint n)
{
  g_return_val_if_fail (n < gguf->n_tensors, NULL);
  return &gguf->tensors[n];
}

const H3StoredTensor *
h3_gguf_lookup (const H3Gguf *gguf, const gchar *name)
{
  return g_hash_table_lookup (gguf->by_name, name);
}

guint64
h3_gguf_trailing (const H3Gguf *gguf)
{
  return gguf->trailing;
}
