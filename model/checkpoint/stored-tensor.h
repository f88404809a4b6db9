/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One tensor of a file, whatever the file's container: where its bytes are and
 * what they stand for. */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

typedef enum {
  H3_STORED_F32,
  H3_STORED_F16,
  H3_STORED_BF16,
  H3_STORED_F64,
  H3_STORED_F8_E4M3,
  H3_STORED_F8_E5M2,
  H3_STORED_F8_E8M0,
  H3_STORED_I8,
  H3_STORED_U8,
  H3_STORED_I16,
  H3_STORED_I32,
  H3_STORED_I64,
  /* GGUF's blocks (checkpoints.md 6.3) */
  H3_STORED_Q4_0,
  H3_STORED_Q4_1,
  H3_STORED_Q5_0,
  H3_STORED_Q5_1,
  H3_STORED_Q8_0,
  H3_STORED_Q2_K,
  H3_STORED_Q3_K,
  H3_STORED_Q4_K,
  H3_STORED_Q5_K,
  H3_STORED_Q6_K,
  H3_STORED_IQ4_NL,
  H3_STORED_IQ4_XS,
  H3_STORED_MXFP4,
  H3_STORED_NVFP4,
  H3_N_STORED_TYPES
} H3StoredType;

const gchar *h3_stored_type_name (H3StoredType type); /* "BF16" */
/* Elements of a block, 1 for the types that have none; its bytes. */
guint h3_stored_type_block (H3StoredType type);
gsize h3_stored_type_size (H3StoredType type);

#define H3_STORED_MAX_RANK 8

/* Limits of a file's names and their number, in any container. */
#define H3_STORED_MAX_TENSORS 65536
#define H3_STORED_MAX_NAME 4096

/* An open file of tensors, or bytes in memory, which are not owned. */
typedef struct {
  gchar *path;
  gint fd; /* -1 when in memory */
  const guint8 *bytes;
  guint64 size;
} H3StoredFile;

/* H3_ERROR_NOT_FOUND, or H3_ERROR_OPEN for what is no regular file. Closing is
 * needed in either case. */
gboolean h3_stored_file_open (H3StoredFile *file, const gchar *path,
    GError **error);
/* @name: for messages. @bytes must outlive @file. */
void h3_stored_file_open_bytes (H3StoredFile *file, const guint8 *bytes,
    gsize size, const gchar *name);
void h3_stored_file_close (H3StoredFile *file);
/* Bytes that lie in the file. H3_ERROR_READ when it has become shorter or the
 * disk fails. Thread-safe. */
gboolean h3_stored_file_read (const H3StoredFile *file, guint64 offset, gsize n,
    gpointer dest, GError **error);
/* FALSE, with H3_ERROR_WRONG_TYPE, for a file that begins with @magic and is
 * known not to hold tensors: a Git-LFS pointer, a web page, a pickle. */
gboolean h3_stored_file_check_magic (const H3StoredFile *file,
    const guint8 *magic, gsize n_magic, GError **error);

/* One tensor of a file: where its bytes are, not the bytes. Valid as long as
 * the file is open. */
typedef struct {
  const gchar *name;
  H3StoredType type;
  guint rank;
  guint64 shape[H3_STORED_MAX_RANK];
  guint64 offset; /* of its first byte in the file; any alignment */
  guint64 bytes;
  const gchar *path; /* of the file, for messages */
  const H3StoredFile *file;
} H3StoredTensor;

/* The product of its shape. */
guint64 h3_stored_tensor_elements (const H3StoredTensor *tensor);
/**
 * h3_stored_tensor_read:
 * @first, @n: which bytes of the tensor; outside it is a programming error
 *
 * Copies stored bytes to @dest. H3_ERROR_READ when the file has become shorter
 * or the disk fails. Thread-safe.
 */
gboolean h3_stored_tensor_read (const H3StoredTensor *tensor, guint64 first,
    gsize n, gpointer dest, GError **error);
/* Has the kernel fetch these bytes, which will be read soon. Thread-safe. */
void h3_stored_tensor_will_read (const H3StoredTensor *tensor, guint64 first,
    gsize n);
/* "[48, 16]", for messages. Free with g_free(). */
gchar *h3_stored_tensor_shape_string (const H3StoredTensor *tensor);

G_END_DECLS
