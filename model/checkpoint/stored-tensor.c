/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reading out of files of tensors.
 *
 * Payloads are read with pread(), not through a mapping. A mapped file that
 * shrinks or sits on a failing disk kills the process with SIGBUS; pread()
 * returns an error we can name the tensor in. It is not slower either: every
 * tensor is copied once anyway, since the file gives it any alignment and the
 * device needs its own, and pread() makes that copy without page faults and
 * without the file counting towards the process's resident memory. */
#include "model/checkpoint/stored-tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
  const gchar *name;
  guint block;
  gsize size;
} stored_types[] = {
  [H3_STORED_F32] = { "F32", 1, 4 },
  [H3_STORED_F16] = { "F16", 1, 2 },
  [H3_STORED_BF16] = { "BF16", 1, 2 },
  [H3_STORED_F64] = { "F64", 1, 8 },
  [H3_STORED_F8_E4M3] = { "F8_E4M3", 1, 1 },
  [H3_STORED_F8_E5M2] = { "F8_E5M2", 1, 1 },
  [H3_STORED_F8_E8M0] = { "F8_E8M0", 1, 1 },
  [H3_STORED_I8] = { "I8", 1, 1 },
  [H3_STORED_U8] = { "U8", 1, 1 },
  [H3_STORED_I16] = { "I16", 1, 2 },
  [H3_STORED_I32] = { "I32", 1, 4 },
  [H3_STORED_I64] = { "I64", 1, 8 },
  [H3_STORED_Q4_0] = { "Q4_0", 32, 18 },
  [H3_STORED_Q4_1] = { "Q4_1", 32, 20 },
  [H3_STORED_Q5_0] = { "Q5_0", 32, 22 },
  [H3_STORED_Q5_1] = { "Q5_1", 32, 24 },
  [H3_STORED_Q8_0] = { "Q8_0", 32, 34 },
  [H3_STORED_Q2_K] = { "Q2_K", 256, 84 },
  [H3_STORED_Q3_K] = { "Q3_K", 256, 110 },
  [H3_STORED_Q4_K] = { "Q4_K", 256, 144 },
  [H3_STORED_Q5_K] = { "Q5_K", 256, 176 },
  [H3_STORED_Q6_K] = { "Q6_K", 256, 210 },
  [H3_STORED_IQ4_NL] = { "IQ4_NL", 32, 18 },
  [H3_STORED_IQ4_XS] = { "IQ4_XS", 256, 136 },
  [H3_STORED_MXFP4] = { "MXFP4", 32, 17 },
  [H3_STORED_NVFP4] = { "NVFP4", 64, 36 },
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

guint
h3_stored_type_block (H3StoredType type)
{
  return stored_types[type].block;
}

/* --- files --- */

gboolean
h3_stored_file_open (H3StoredFile *file, const gchar *path, GError **error)
{
  struct stat st;

  *file = (H3StoredFile){ .path = g_strdup (path) };
  /* Not to wait for a writer when somebody names a FIFO. */
  file->fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd < 0) {
    gint code = errno == ENOENT || errno == ENOTDIR ? H3_ERROR_NOT_FOUND
                                                    : H3_ERROR_OPEN;
    g_set_error (error, H3_ERROR, code, "%s: cannot open (%s)", path,
        g_strerror (errno));
    return FALSE;
  }
  if (fstat (file->fd, &st) < 0 || !S_ISREG (st.st_mode)) {
    g_set_error (error, H3_ERROR, H3_ERROR_OPEN,
        "%s: cannot open (it is no regular file)", path);
    return FALSE;
  }
  file->size = st.st_size;
  return TRUE;
}

void
h3_stored_file_open_bytes (H3StoredFile *file, const guint8 *bytes, gsize size,
    const gchar *name)
{
  *file = (H3StoredFile){ .path = g_strdup (name),
    .fd = -1,
    .bytes = bytes,
    .size = size };
}

void
h3_stored_file_close (H3StoredFile *file)
{
  if (file->fd >= 0)
    close (file->fd);
  file->fd = -1;
  g_clear_pointer (&file->path, g_free);
}

gboolean
h3_stored_file_read (const H3StoredFile *file, guint64 offset, gsize n,
    gpointer dest, GError **error)
{
  guint8 *to = dest;

  if (n == 0)
    return TRUE;
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
h3_stored_file_check_magic (const H3StoredFile *file, const guint8 *magic,
    gsize n_magic, GError **error)
{
  static const gchar lfs[] = "version https://git-lfs";
  static const gchar sqlite[] = "SQLite format 3";
  gsize first = 0;

  while (first < n_magic && g_ascii_isspace (magic[first]))
    first++;
  if ((n_magic >= sizeof lfs - 1 && memcmp (magic, lfs, sizeof lfs - 1) == 0) ||
      (first < n_magic && magic[first] == '<')) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a Git-LFS pointer (or web page), not weights: "
        "download the real file",
        file->path);
    return FALSE;
  }
  if (n_magic >= 4 && (memcmp (magic, "PK\3\4", 4) == 0 || magic[0] == 0x80)) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a PyTorch pickle; only safetensors and GGUF are supported",
        file->path);
    return FALSE;
  }
  if (n_magic >= sizeof sqlite - 1 &&
      memcmp (magic, sqlite, sizeof sqlite - 1) == 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a database of Draw Things; only safetensors and GGUF are "
        "supported",
        file->path);
    return FALSE;
  }
  return TRUE;
}

/* --- tensors --- */

guint64
h3_stored_tensor_elements (const H3StoredTensor *tensor)
{
  guint64 n = 1;

  for (guint i = 0; i < tensor->rank; i++)
    n *= tensor->shape[i];
  return n;
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

gboolean
h3_stored_tensor_read (const H3StoredTensor *tensor, guint64 first, gsize n,
    gpointer dest, GError **error)
{
  g_return_val_if_fail (first <= tensor->bytes && n <= tensor->bytes - first,
      FALSE);

  if (!h3_stored_file_read (tensor->file, tensor->offset + first, n, dest,
          error)) {
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
