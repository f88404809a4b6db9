/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opening a safetensors file and checking all of it (checkpoints.md 2.3).
 *
 * Payloads are read with pread(), not through a mapping. A mapped file that
 * shrinks or sits on a failing disk kills the process with SIGBUS; pread()
 * returns an error we can name the tensor in. It is not slower either: every
 * tensor is copied once anyway, since the file gives it any alignment and the
 * device needs its own, and pread() makes that copy without page faults and
 * without the file counting towards the process's resident memory. */
#include "model/checkpoint/safetensors.h"
#include "model/checkpoint/safetensors-header.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_HEADER G_GUINT64_CONSTANT (100000000)
/* Enough to recognise what else a file may be. */
#define MAGIC_BYTES 64

struct _H3SafeTensors {
  gchar *path;
  gint fd;             /* -1 when in memory */
  const guint8 *bytes; /* in memory, not owned */
  guint64 size;
  gchar *header; /* names point into it */
  H3StoredTensor *tensors;
  guint n_tensors;
  GHashTable *by_name; /* name -> H3StoredTensor, neither owned */
  guint64 trailing;
};

static const struct {
  const gchar *name;
  gsize size;
} stored_types[] = {
  [H3_STORED_F32] = { "F32", 4 },
  [H3_STORED_F16] = { "F16", 2 },
  [H3_STORED_BF16] = { "BF16", 2 },
  [H3_STORED_F64] = { "F64", 8 },
  [H3_STORED_F8_E4M3] = { "F8_E4M3", 1 },
  [H3_STORED_F8_E5M2] = { "F8_E5M2", 1 },
  [H3_STORED_F8_E8M0] = { "F8_E8M0", 1 },
  [H3_STORED_I8] = { "I8", 1 },
  [H3_STORED_U8] = { "U8", 1 },
  [H3_STORED_I16] = { "I16", 2 },
  [H3_STORED_I32] = { "I32", 4 },
  [H3_STORED_I64] = { "I64", 8 },
};

const gchar *
h3_stored_type_name (H3StoredType type)
{
  return stored_types[type].name;
}

gsize
h3_stored_type_size (H3StoredType type)
{
  return stored_types[type].size;
}

static gboolean
stored_type_from_name (const gchar *name, H3StoredType *type)
{
  for (guint i = 0; i < G_N_ELEMENTS (stored_types); i++) {
    if (g_str_equal (stored_types[i].name, name)) {
      *type = i;
      return TRUE;
    }
  }
  return FALSE;
}

gchar *
h3_stored_tensor_shape_string (const H3StoredTensor *tensor)
{
  GString *string = g_string_new ("[");

  for (guint i = 0; i < tensor->rank; i++)
    g_string_append_printf (string, "%s%" G_GUINT64_FORMAT, i ? ", " : "",
        tensor->shape[i]);
  return g_string_free (g_string_append_c (string, ']'), FALSE);
}

static gboolean
read_at (const H3SafeTensors *file, guint64 offset, gsize n, gpointer dest,
    GError **error)
{
  guint8 *to = dest;

  if (file->fd < 0) {
    memcpy (dest, file->bytes + offset, n);
    return TRUE;
  }
  while (n > 0) {
    /* Linux moves at most 2 GiB at a time. */
    gssize got = pread (file->fd, to, MIN (n, 1u << 30), offset);

    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0) {
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: cannot read at byte %" G_GUINT64_FORMAT " (%s)", file->path,
          offset, g_strerror (errno));
      return FALSE;
    }
    if (got == 0) {
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s became shorter while it was read: it had %" G_GUINT64_FORMAT
          " bytes and ends at byte %" G_GUINT64_FORMAT " now",
          file->path, file->size, offset);
      return FALSE;
    }
    to += got;
    offset += got;
    n -= got;
  }
  return TRUE;
}

gboolean
h3_stored_tensor_read (const H3StoredTensor *tensor, guint64 first, gsize n,
    gpointer dest, GError **error)
{
  g_return_val_if_fail (first <= tensor->bytes && n <= tensor->bytes - first,
      FALSE);

  if (!read_at (tensor->file, tensor->offset + first, n, dest, error)) {
    g_prefix_error (error, "tensor %s: ", tensor->name);
    return FALSE;
  }
  return TRUE;
}

/* The kernel takes no more than a device's largest transfer of one wish. */
#define ADVICE_BYTES ((gsize) 512 << 10)

void
h3_stored_tensor_will_read (const H3StoredTensor *tensor, guint64 first,
    gsize n)
{
  if (tensor->file->fd < 0)
    return;
  for (gsize i = 0; i < n; i += ADVICE_BYTES)
    posix_fadvise (tensor->file->fd, tensor->offset + first + i,
        MIN (ADVICE_BYTES, n - i), POSIX_FADV_WILLNEED);
}

/* What a file that is no safetensors file is, in a sentence. */
static void
set_error_not_safetensors (const H3SafeTensors *file, const guint8 *magic,
    gsize n_magic, guint64 header_bytes, GError **error)
{
  static const gchar lfs[] = "version https://git-lfs";
  gsize first = 0;

  while (first < n_magic && g_ascii_isspace (magic[first]))
    first++;
  if ((n_magic >= sizeof lfs - 1 && memcmp (magic, lfs, sizeof lfs - 1) == 0) ||
      (first < n_magic && magic[first] == '<'))
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a Git-LFS pointer (or web page), not weights: "
        "download the real file",
        file->path);
  else if (n_magic >= 4 && memcmp (magic, "GGUF", 4) == 0)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a GGUF file; a safetensors file is needed", file->path);
  else if (n_magic >= 4 &&
           (memcmp (magic, "PK\3\4", 4) == 0 || magic[0] == 0x80))
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a PyTorch pickle; only safetensors is supported", file->path);
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
read_header_length (const H3SafeTensors *file, guint64 *length, GError **error)
{
  guint8 magic[MAGIC_BYTES];
  gsize n = MIN (file->size, MAGIC_BYTES);

  if (!read_at (file, 0, n, magic, error))
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
  tensor->path = file->path;
  tensor->file = file;
  tensor->rank = entry->rank;
  memcpy (tensor->shape, entry->shape, sizeof tensor->shape);

  if (!stored_type_from_name (entry->dtype, &tensor->type)) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: dtype %s of tensor %s is not supported", file->path, entry->dtype,
        entry->name);
    return FALSE;
  }
  if (!payload_bytes (entry, stored_types[tensor->type].size, &tensor->bytes)) {
    g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: shape overflows: %s", file->path, entry->name, shape);
    return FALSE;
  }
  if (entry->begin > entry->end) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: offsets reversed: %" G_GUINT64_FORMAT
        " to %" G_GUINT64_FORMAT,
        file->path, entry->name, entry->begin, entry->end);
    return FALSE;
  }
  if (entry->end - entry->begin != tensor->bytes) {
    g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: data_offsets give %" G_GUINT64_FORMAT
        " bytes, shape %s of %s needs %" G_GUINT64_FORMAT,
        file->path, entry->name, entry->end - entry->begin, shape, entry->dtype,
        tensor->bytes);
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
          file->path, entry->name, entry->begin, end);
      return FALSE;
    }
    if (entry->begin < end) {
      const H3HeaderEntry *before = sorted->pdata[i - 1];
      g_set_error (error, H3_ERROR, H3_ERROR_READ,
          "%s: %s overlaps %s: it begins at %" G_GUINT64_FORMAT
          ", that ends at %" G_GUINT64_FORMAT,
          file->path, entry->name, before->name, entry->begin, end);
      return FALSE;
    }
    end = entry->end;
  }
  if (end > payload_size) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s is truncated: tensors need %" G_GUINT64_FORMAT
        " bytes, file has %" G_GUINT64_FORMAT " (missing %" G_GUINT64_FORMAT
        "); download again",
        file->path, end, payload_size, end - payload_size);
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
  return check_layout (file, file->size - 8 - header_bytes, entries, error);
}

static gboolean
read_header (H3SafeTensors *file, GError **error)
{
  g_autoptr (GArray) entries = NULL;
  guint64 length;

  if (!read_header_length (file, &length, error))
    return FALSE;
  file->header = g_try_malloc (length);
  if (!file->header) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "%s: no memory for a header of %" G_GUINT64_FORMAT " bytes", file->path,
        length);
    return FALSE;
  }
  if (!read_at (file, 8, length, file->header, error))
    return FALSE;
  entries =
      h3_safetensors_header_parse (file->header, length, file->path, error);
  return entries && index_tensors (file, length, entries, error);
}

static gint
open_regular_file (const gchar *path, guint64 *size, GError **error)
{
  /* Not to wait for a writer when somebody names a FIFO. */
  gint fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat st;

  if (fd < 0) {
    gint code = errno == ENOENT || errno == ENOTDIR ? H3_ERROR_NOT_FOUND
                                                    : H3_ERROR_OPEN;
    g_set_error (error, H3_ERROR, code, "%s: cannot open (%s)", path,
        g_strerror (errno));
    return -1;
  }
  if (fstat (fd, &st) < 0 || !S_ISREG (st.st_mode)) {
    g_set_error (error, H3_ERROR, H3_ERROR_OPEN,
        "%s: cannot open (it is no regular file)", path);
    close (fd);
    return -1;
  }
  *size = st.st_size;
  return fd;
}

H3SafeTensors *
h3_safetensors_open (const gchar *path, GError **error)
{
  g_autoptr (H3SafeTensors) file = g_new0 (H3SafeTensors, 1);

  file->path = g_strdup (path);
  file->fd = open_regular_file (path, &file->size, error);
  if (file->fd < 0 || !read_header (file, error))
    return NULL;
  return g_steal_pointer (&file);
}

H3SafeTensors *
h3_safetensors_parse (const guint8 *bytes, gsize size, const gchar *name,
    GError **error)
{
  g_autoptr (H3SafeTensors) file = g_new0 (H3SafeTensors, 1);

  file->path = g_strdup (name);
  file->fd = -1;
  file->bytes = bytes;
  file->size = size;
  if (!read_header (file, error))
    return NULL;
  return g_steal_pointer (&file);
}

void
h3_safetensors_free (H3SafeTensors *file)
{
  if (!file)
    return;
  if (file->fd >= 0)
    close (file->fd);
  g_clear_pointer (&file->by_name, g_hash_table_unref);
  g_free (file->tensors);
  g_free (file->header);
  g_free (file->path);
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

guint64
h3_safetensors_trailing (const H3SafeTensors *file)
{
  return file->trailing;
}
