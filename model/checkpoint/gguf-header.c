/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Nothing the file says is believed: every length is compared with what is left
 * of the file before it is used, and a header has an end. */
#include "model/checkpoint/gguf-header.h"

#include <string.h>

/* As of safetensors files. A vocabulary of 150 000 words takes some 6 MB. */
#define MAX_HEADER G_GUINT64_CONSTANT (100000000)
#define MAX_KEYS 65536
#define MAX_KEY (H3_STORED_MAX_NAME + 256)
#define MAX_DIMS 4
#define DEFAULT_ALIGNMENT 32
/* The least that a key and a tensor can take. */
#define KEY_BYTES (8 + 4 + 1)
#define TENSOR_BYTES (8 + 4 + 4 + 8)

#define ALIGNMENT_KEY "general.alignment"
#define SPLIT_KEY "split.count"
#define ORIG_SHAPE_PREFIX "comfy.gguf.orig_shape."

enum {
  TYPE_U16 = 2,
  TYPE_U32 = 4,
  TYPE_I32 = 5,
  TYPE_STRING = 8,
  TYPE_ARRAY = 9,
  N_TYPES = 13
};

/* Bytes of a value; 0 for those that tell their length. */
static const guint8 type_bytes[N_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8,
  8 };

typedef struct {
  const H3StoredFile *file;
  guint64 at, end;
  /* bytes of the file that were read ahead */
  guint8 ahead[8192];
  guint64 ahead_at;
  gsize n_ahead;
} Cursor;

static guint64
left (const Cursor *c)
{
  return c->end - c->at;
}

/* @what is @n bytes long, or says so: is there room for it? */
static gboolean
check_left (const Cursor *c, guint64 n, const gchar *what, GError **error)
{
  if (n <= left (c))
    return TRUE;
  if (c->end < c->file->size)
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: %s at byte %" G_GUINT64_FORMAT " has %" G_GUINT64_FORMAT
        " bytes; a header of more than %" G_GUINT64_FORMAT
        " bytes is not supported",
        c->file->path, what, c->at, n, MAX_HEADER);
  else
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s is truncated: %s at byte %" G_GUINT64_FORMAT
        " has %" G_GUINT64_FORMAT " bytes, the file has %" G_GUINT64_FORMAT
        "; download again",
        c->file->path, what, c->at, n, c->file->size);
  return FALSE;
}

static gboolean
fill (Cursor *c, GError **error)
{
  c->n_ahead = MIN (left (c), sizeof c->ahead);
  c->ahead_at = c->at;
  return h3_stored_file_read (c->file, c->at, c->n_ahead, c->ahead, error);
}

static gboolean
take (Cursor *c, gpointer dest, gsize n, const gchar *what, GError **error)
{
  guint8 *to = dest;

  if (!check_left (c, n, what, error))
    return FALSE;
  while (n > 0) {
    gsize skip, here;

    if (c->at < c->ahead_at || c->at - c->ahead_at >= c->n_ahead) {
      if (!fill (c, error))
        return FALSE;
    }
    skip = c->at - c->ahead_at;
    here = MIN (n, c->n_ahead - skip);
    memcpy (to, c->ahead + skip, here);
    to += here;
    c->at += here;
    n -= here;
  }
  return TRUE;
}

static gboolean
skip (Cursor *c, guint64 n, const gchar *what, GError **error)
{
  if (!check_left (c, n, what, error))
    return FALSE;
  c->at += n;
  return TRUE;
}

static gboolean
take_u32 (Cursor *c, guint32 *value, const gchar *what, GError **error)
{
  if (!take (c, value, 4, what, error))
    return FALSE;
  *value = GUINT32_FROM_LE (*value);
  return TRUE;
}

static gboolean
take_u64 (Cursor *c, guint64 *value, const gchar *what, GError **error)
{
  if (!take (c, value, 8, what, error))
    return FALSE;
  *value = GUINT64_FROM_LE (*value);
  return TRUE;
}

/* A name or a key: 1 to @most bytes of UTF-8. NULL with an error. */
static gchar *
take_name (Cursor *c, gsize most, const gchar *what, GError **error)
{
  guint64 at = c->at, length;
  g_autofree gchar *name = NULL;

  if (!take_u64 (c, &length, what, error) ||
      !check_left (c, length, what, error))
    return NULL;
  if (length == 0 || length > most) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: %s at byte %" G_GUINT64_FORMAT " has %" G_GUINT64_FORMAT
        " bytes; needed: 1 to %" G_GSIZE_FORMAT,
        c->file->path, what, at, length, most);
    return NULL;
  }
  name = g_malloc (length + 1);
  if (!take (c, name, length, what, error))
    return NULL;
  name[length] = '\0';
  if (!g_utf8_validate_len (name, length, NULL)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: %s at byte %" G_GUINT64_FORMAT " is not UTF-8", c->file->path,
        what, at);
    return NULL;
  }
  return g_steal_pointer (&name);
}

/* --- metadata --- */

static gboolean
unknown_type (const Cursor *c, const gchar *key, guint32 type, GError **error)
{
  g_set_error (error, H3_ERROR, H3_ERROR_READ,
      "%s: key %s: its type is %u%s; needed: 0 to %d, arrays not of arrays",
      c->file->path, key, type, type == TYPE_ARRAY ? " in an array" : "",
      N_TYPES - 1);
  return FALSE;
}

static gboolean
skip_string (Cursor *c, const gchar *key, GError **error)
{
  guint64 length;

  return take_u64 (c, &length, key, error) && skip (c, length, key, error);
}

/* The type and number of an array's elements, which fit in the file. */
static gboolean
take_array_head (Cursor *c, const gchar *key, guint32 *type, guint64 *n,
    GError **error)
{
  gsize least;

  if (!take_u32 (c, type, key, error) || !take_u64 (c, n, key, error))
    return FALSE;
  if (*type >= N_TYPES || *type == TYPE_ARRAY)
    return unknown_type (c, key, *type, error);
  least = *type == TYPE_STRING ? 8 : type_bytes[*type];
  return check_left (c, *n > G_MAXUINT64 / least ? G_MAXUINT64 : *n * least,
      key, error);
}

static gboolean
skip_array (Cursor *c, const gchar *key, GError **error)
{
  guint32 type;
  guint64 n;

  if (!take_array_head (c, key, &type, &n, error))
    return FALSE;
  if (type != TYPE_STRING)
    return skip (c, n * type_bytes[type], key, error);
  for (guint64 i = 0; i < n; i++) {
    if (!skip_string (c, key, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean
skip_value (Cursor *c, const gchar *key, guint32 type, GError **error)
{
  if (type >= N_TYPES)
    return unknown_type (c, key, type, error);
  if (type == TYPE_STRING)
    return skip_string (c, key, error);
  if (type == TYPE_ARRAY)
    return skip_array (c, key, error);
  return skip (c, type_bytes[type], key, error);
}

static gboolean
take_alignment (Cursor *c, guint32 type, H3GgufHeader *header, GError **error)
{
  guint32 alignment = 0;

  if (type == TYPE_U32 && !take_u32 (c, &alignment, ALIGNMENT_KEY, error))
    return FALSE;
  if (alignment == 0 || (alignment & (alignment - 1))) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: " ALIGNMENT_KEY " is %u, of type %u; needed: a power of two, of "
        "type %d",
        c->file->path, alignment, type, TYPE_U32);
    return FALSE;
  }
  header->alignment = alignment;
  return TRUE;
}

static gboolean
take_orig_shape (Cursor *c, const gchar *key, guint32 type,
    H3GgufHeader *header, GError **error)
{
  g_autoptr (GArray) shape = g_array_new (FALSE, FALSE, sizeof (gint32));
  guint32 element = type;
  guint64 n = 0;

  if (type == TYPE_ARRAY && !take_array_head (c, key, &element, &n, error))
    return FALSE;
  if (element != TYPE_I32 || n == 0 || n > H3_STORED_MAX_RANK) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: key %s: %" G_GUINT64_FORMAT " values of type %u; needed: 1 to %d "
        "of type %d",
        c->file->path, key, n, element, H3_STORED_MAX_RANK, TYPE_I32);
    return FALSE;
  }
  for (guint64 i = 0; i < n; i++) {
    guint32 dim;

    if (!take_u32 (c, &dim, key, error))
      return FALSE;
    if (dim == 0 || dim > G_MAXINT32) {
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: key %s: a dimension is %d; needed: more than 0", c->file->path,
          key, (gint32) dim);
      return FALSE;
    }
    g_array_append_val (shape, dim);
  }
  g_hash_table_insert (header->orig_shapes,
      g_strdup (key + strlen (ORIG_SHAPE_PREFIX)), g_steal_pointer (&shape));
  return TRUE;
}

/* gguf-split cuts a file in several, of which each is a GGUF file. */
static gboolean
take_split (Cursor *c, guint32 type, GError **error)
{
  guint16 count = 0;

  if (type != TYPE_U16)
    return skip_value (c, SPLIT_KEY, type, error);
  if (!take (c, &count, sizeof count, SPLIT_KEY, error))
    return FALSE;
  count = GUINT16_FROM_LE (count);
  if (count <= 1)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s is one of %u parts of a GGUF file, which are not supported; join "
      "them with gguf-split --merge",
      c->file->path, count);
  return FALSE;
}

static gboolean
take_keys (Cursor *c, guint64 n, H3GgufHeader *header, GError **error)
{
  g_autoptr (GHashTable) seen =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint64 i = 0; i < n; i++) {
    gchar *key = take_name (c, MAX_KEY, "a key", error);
    guint32 type;
    gboolean ok;

    if (!key)
      return FALSE;
    if (g_hash_table_contains (seen, key)) {
      g_set_error (error, H3_ERROR, H3_ERROR_READ, "%s: key %s is there twice",
          c->file->path, key);
      g_free (key);
      return FALSE;
    }
    g_hash_table_add (seen, key);
    if (!take_u32 (c, &type, key, error))
      return FALSE;
    if (g_str_equal (key, ALIGNMENT_KEY))
      ok = take_alignment (c, type, header, error);
    else if (g_str_equal (key, SPLIT_KEY))
      ok = take_split (c, type, error);
    else if (g_str_has_prefix (key, ORIG_SHAPE_PREFIX))
      ok = take_orig_shape (c, key, type, header, error);
    else
      ok = skip_value (c, key, type, error);
    if (!ok)
      return FALSE;
  }
  return TRUE;
}

/* --- tensors --- */

/* The file's first dimension is the innermost one. */
static gboolean
take_shape (Cursor *c, H3GgufEntry *entry, GError **error)
{
  if (!take_u32 (c, &entry->rank, entry->name, error))
    return FALSE;
  if (entry->rank > MAX_DIMS) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: it has %u dimensions; needed: at most %d",
        c->file->path, entry->name, entry->rank, MAX_DIMS);
    return FALSE;
  }
  entry->elements = 1;
  for (guint i = 0; i < entry->rank; i++) {
    guint64 dim;

    if (!take_u64 (c, &dim, entry->name, error))
      return FALSE;
    /* an element has at most 8 bytes */
    if (dim == 0 || dim > G_MAXINT64 / 8 / entry->elements) {
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: tensor %s: shape overflows: dimension %u of %u is "
          "%" G_GINT64_FORMAT,
          c->file->path, entry->name, i, entry->rank, (gint64) dim);
      return FALSE;
    }
    entry->elements *= dim;
    entry->shape[entry->rank - 1 - i] = dim;
  }
  return TRUE;
}

static gboolean
take_tensors (Cursor *c, guint64 n, H3GgufHeader *header, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint64 i = 0; i < n; i++) {
    H3GgufEntry entry = { .name = take_name (c, H3_STORED_MAX_NAME,
                              "a tensor's name", error) };

    if (!entry.name)
      return FALSE;
    g_array_append_val (header->entries, entry);
    if (!g_hash_table_add (seen, entry.name)) {
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: tensor %s is there twice", c->file->path, entry.name);
      return FALSE;
    }
    if (!take_shape (c, &entry, error) ||
        !take_u32 (c, &entry.type, entry.name, error) ||
        !take_u64 (c, &entry.offset, entry.name, error))
      return FALSE;
    g_array_index (header->entries, H3GgufEntry, i) = entry;
  }
  return TRUE;
}

/* --- the whole --- */

static gboolean
check_version (const Cursor *c, guint32 version, GError **error)
{
  if (version == 2 || version == 3)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      version && (version & 0xffff) == 0
          ? "%s: GGUF version 0x%08x: the file is in big-endian order, which "
            "is "
            "not supported"
          : "%s: GGUF version %u is not supported; needed: 2 or 3",
      c->file->path, version);
  return FALSE;
}

static gboolean
check_count (const Cursor *c, guint64 n, guint64 most, guint64 least_bytes,
    const gchar *what, GError **error)
{
  if (n <= most && n <= left (c) / least_bytes)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_READ,
      "%s: the header says %" G_GINT64_FORMAT " %s; needed: 0 to "
      "%" G_GUINT64_FORMAT " and no more than fit in the file",
      c->file->path, (gint64) n, what, most);
  return FALSE;
}

static gboolean
check_is_gguf (const H3StoredFile *file, GError **error)
{
  guint8 magic[64];
  gsize n = MIN (file->size, sizeof magic);

  if (!h3_stored_file_read (file, 0, n, magic, error))
    return FALSE;
  if (n >= 4 && memcmp (magic, "GGUF", 4) == 0)
    return TRUE;
  if (h3_stored_file_check_magic (file, magic, n, error))
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is not a GGUF file: it does not begin with \"GGUF\"", file->path);
  return FALSE;
}

static void
clear_entry (gpointer data)
{
  g_free (((H3GgufEntry *) data)->name);
}

static void
free_shape (gpointer shape)
{
  g_array_unref (shape);
}

H3GgufHeader *
h3_gguf_header_read (const H3StoredFile *file, GError **error)
{
  g_autoptr (H3GgufHeader) header = g_new0 (H3GgufHeader, 1);
  Cursor c = { .file = file, .at = 4, .end = MIN (file->size, MAX_HEADER) };
  guint32 version;
  guint64 n_tensors, n_keys;

  header->alignment = DEFAULT_ALIGNMENT;
  header->orig_shapes =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_shape);
  header->entries = g_array_new (FALSE, TRUE, sizeof (H3GgufEntry));
  g_array_set_clear_func (header->entries, clear_entry);

  if (!check_is_gguf (file, error) ||
      !take_u32 (&c, &version, "the header", error) ||
      !check_version (&c, version, error) ||
      !take_u64 (&c, &n_tensors, "the header", error) ||
      !take_u64 (&c, &n_keys, "the header", error) ||
      !check_count (&c, n_keys, MAX_KEYS, KEY_BYTES, "keys", error) ||
      !check_count (&c, n_tensors, H3_STORED_MAX_TENSORS, TENSOR_BYTES,
          "tensors", error) ||
      !take_keys (&c, n_keys, header, error) ||
      !take_tensors (&c, n_tensors, header, error))
    return NULL;
  header->end = c.at;
  return g_steal_pointer (&header);
}

void
h3_gguf_header_free (H3GgufHeader *header)
{
  if (!header)
    return;
  g_array_unref (header->entries);
  g_hash_table_unref (header->orig_shapes);
  g_free (header);
}
