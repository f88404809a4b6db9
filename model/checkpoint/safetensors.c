/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opening a safetensors file and checking all of it (checkpoints.md 2.3).
 */
#include "model/checkpoint/safetensors.h"
#include "model/checkpoint/safetensors-header.h"

#include <string.h>

#define MAX_HEADER G_GUINT64_CONSTANT (100000000)
/* Enough to recognise what else a file may be. */
#define MAGIC_BYTES 64

struct _H3SafeTensors {
  H3StoredFile file;
  gchar *header;        /* names and metadata point into it */
  GHashTable *metadata; /* key -> value */
  H3StoredTensor *tensors;
  guint n_tensors;
  GHashTable *by_name; /* name -> H3StoredTensor, neither owned */
  guint64 trailing;
};

/* The types of this container: none in blocks. */
static gboolean
stored_type_from_name (const gchar *name, H3StoredType *type)
{
  for (guint i = 0; i <= H3_STORED_I64; i++) {
    if (g_str_equal (h3_stored_type_name (i), name)) {
      *type = i;
      return TRUE;
    }
  }
  return FALSE;
}

/* What a file that is no safetensors file is, in a sentence. */
static void
set_error_not_safetensors (const H3StoredFile *file, const guint8 *magic,
    gsize n_magic, guint64 header_bytes, GError **error)
{
  if (!h3_stored_file_check_magic (file, magic, n_magic, error))
    return;
  if (n_magic >= 4 && memcmp (magic, "GGUF", 4) == 0)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a GGUF file; a safetensors file is needed", file->path);
  else if (file->size < 8)
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s is not a safetensors file: it has %" G_GUINT64_FORMAT
        " bytes, the header alone needs more; download it again",
        file->path, file->size);
  else
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is not a safetensors file: header length %" G_GUINT64_FORMAT
        "; needed: 2 to %" G_GUINT64_FORMAT " and a header that begins with {",
        file->path, header_bytes, MAX_HEADER);
}

/* The length in front of the header, checked against the file. */
static gboolean
read_header_length (const H3StoredFile *file, guint64 *length, GError **error)
{
  guint8 magic[MAGIC_BYTES];
  gsize n = MIN (file->size, MAGIC_BYTES);

  if (!h3_stored_file_read (file, 0, n, magic, error))
    return FALSE;
  *length = 0;
  if (n >= 8) {
    memcpy (length, magic, 8);
    *length = GUINT64_FROM_LE (*length);
  }
  if (n < 8 || *length < 2 || *length > MAX_HEADER ||
      (n > 8 && magic[8] != '{')) {
    set_error_not_safetensors (file, magic, n, *length, error);
    return FALSE;
  }
  if (*length > file->size - 8) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s is truncated: header length %" G_GUINT64_FORMAT
        ", file has %" G_GUINT64_FORMAT " bytes; download again",
        file->path, *length, file->size);
    return FALSE;
  }
  return TRUE;
}

/* product (shape) * element size, or FALSE when that is no 64-bit number. */
static gboolean
payload_bytes (const H3HeaderEntry *entry, gsize element, guint64 *bytes)
{
  gboolean empty = FALSE;

  *bytes = element;
  for (guint i = 0; i < entry->rank; i++)
    empty = empty || entry->shape[i] == 0;
  for (guint i = 0; !empty && i < entry->rank; i++) {
    /* in bits too: the format counts them */
    if (entry->shape[i] > G_MAXUINT64 / 8 / *bytes)
      return FALSE;
    *bytes *= entry->shape[i];
  }
  if (empty)
    *bytes = 0;
  return TRUE;
}

static gboolean
make_tensor (const H3SafeTensors *file, guint64 payload,
    const H3HeaderEntry *entry, H3StoredTensor *tensor, GError **error)
{
  tensor->name = entry->name;
  tensor->path = file->file.path;
  tensor->file = &file->file;
  tensor->rank = entry->rank;
  memcpy (tensor->shape, entry->shape, sizeof tensor->shape);

  if (!stored_type_from_name (entry->dtype, &tensor->type)) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: dtype %s of tensor %s is not supported", file->file.path,
        entry->dtype, entry->name);
    return FALSE;
  }
  if (!payload_bytes (entry, h3_stored_type_size (tensor->type),
          &tensor->bytes)) {
    g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: shape overflows: %s", file->file.path, entry->name,
        shape);
    return FALSE;
  }
  if (entry->begin > entry->end) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: offsets reversed: %" G_GUINT64_FORMAT
        " to %" G_GUINT64_FORMAT,
        file->file.path, entry->name, entry->begin, entry->end);
    return FALSE;
  }
  if (entry->end - entry->begin != tensor->bytes) {
    g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: data_offsets give %" G_GUINT64_FORMAT
        " bytes, shape %s of %s needs %" G_GUINT64_FORMAT,
        file->file.path, entry->name, entry->end - entry->begin, shape,
        entry->dtype, tensor->bytes);
    return FALSE;
  }
  /* Wraps for absurd offsets; check_layout() refuses those before any use. */
  tensor->offset = payload + entry->begin;
  return TRUE;
}

static gint
compare_ranges (gconstpointer a, gconstpointer b)
{
  const H3HeaderEntry *x = *(H3HeaderEntry *const *) a;
  const H3HeaderEntry *y = *(H3HeaderEntry *const *) b;

  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* The tensors fill the payload from its first byte, one after the other. */
static gboolean
check_layout (H3SafeTensors *file, guint64 payload_size, const GArray *entries,
    GError **error)
{
  g_autoptr (GPtrArray) sorted = g_ptr_array_sized_new (entries->len);
  guint64 end = 0;

  for (guint i = 0; i < entries->len; i++)
    g_ptr_array_add (sorted, &g_array_index (entries, H3HeaderEntry, i));
  g_ptr_array_sort (sorted, compare_ranges);

  for (guint i = 0; i < sorted->len; i++) {
    const H3HeaderEntry *entry = sorted->pdata[i];

    if (entry->begin > end) {
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: hole before %s: it begins at %" G_GUINT64_FORMAT
          ", the tensor before it ends at %" G_GUINT64_FORMAT,
          file->file.path, entry->name, entry->begin, end);
      return FALSE;
    }
    if (entry->begin < end) {
      const H3HeaderEntry *before = sorted->pdata[i - 1];
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: %s overlaps %s: it begins at %" G_GUINT64_FORMAT
          ", that ends at %" G_GUINT64_FORMAT,
          file->file.path, entry->name, before->name, entry->begin, end);
      return FALSE;
    }
    end = entry->end;
  }
  if (end > payload_size) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s is truncated: tensors need %" G_GUINT64_FORMAT
        " bytes, file has %" G_GUINT64_FORMAT " (missing %" G_GUINT64_FORMAT
        "); download again",
        file->file.path, end, payload_size, end - payload_size);
    return FALSE;
  }
  file->trailing = payload_size - end;
  return TRUE;
}

static gboolean
index_tensors (H3SafeTensors *file, guint64 header_bytes, const GArray *entries,
    GError **error)
{
  file->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  file->tensors = g_new0 (H3StoredTensor, entries->len);
  file->n_tensors = entries->len;
  for (guint i = 0; i < entries->len; i++) {
    H3StoredTensor *tensor = &file->tensors[i];

    if (!make_tensor (file, 8 + header_bytes,
            &g_array_index (entries, H3HeaderEntry, i), tensor, error))
      return FALSE;
    g_hash_table_insert (file->by_name, (gpointer) tensor->name, tensor);
  }
  return check_layout (file, file->file.size - 8 - header_bytes, entries,
      error);
}

static gboolean
read_header (H3SafeTensors *file, GError **error)
{
  g_autoptr (GArray) entries = NULL;
  guint64 length;

  if (!read_header_length (&file->file, &length, error))
    return FALSE;
  file->header = g_try_malloc (length);
  if (!file->header) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "%s: no memory for a header of %" G_GUINT64_FORMAT " bytes",
        file->file.path, length);
    return FALSE;
  }
  if (!h3_stored_file_read (&file->file, 8, length, file->header, error))
    return FALSE;
  file->metadata = g_hash_table_new (g_str_hash, g_str_equal);
  entries = h3_safetensors_header_parse (file->header, length, file->file.path,
      file->metadata, error);
  return entries && index_tensors (file, length, entries, error);
}

H3SafeTensors *
h3_safetensors_open (const gchar *path, GError **error)
{
  g_autoptr (H3SafeTensors) file = g_new0 (H3SafeTensors, 1);

  if (!h3_stored_file_open (&file->file, path, error) ||
      !read_header (file, error))
    return NULL;
  return g_steal_pointer (&file);
}

H3SafeTensors *
h3_safetensors_parse (const guint8 *bytes, gsize size, const gchar *name,
    GError **error)
{
  g_autoptr (H3SafeTensors) file = g_new0 (H3SafeTensors, 1);

  h3_stored_file_open_bytes (&file->file, bytes, size, name);
  if (!read_header (file, error))
    return NULL;
  return g_steal_pointer (&file);
}

void
h3_safetensors_free (H3SafeTensors *file)
{
  if (!file)
    return;
  g_clear_pointer (&file->by_name, g_hash_table_unref);
  g_clear_pointer (&file->metadata, g_hash_table_unref);
  g_free (file->tensors);
  g_free (file->header);
  h3_stored_file_close (&file->file);
  g_free (file);
}

guint
h3_safetensors_n_tensors (const H3SafeTensors *file)
{
  return file->n_tensors;
}

const H3StoredTensor *
h3_safetensors_nth (const H3SafeTensors *file, guint n)
{
  g_return_val_if_fail (n < file->n_tensors, NULL);
  return &file->tensors[n];
}

const H3StoredTensor *
h3_safetensors_lookup (const H3SafeTensors *file, const gchar *name)
{
  return g_hash_table_lookup (file->by_name, name);
}

const gchar *
h3_safetensors_metadata (const H3SafeTensors *file, const gchar *key)
{
  return g_hash_table_lookup (file->metadata, key);
}

guint64
h3_safetensors_trailing (const H3SafeTensors *file)
{
  return file->trailing;
}
