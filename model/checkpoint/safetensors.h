/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One safetensors file (checkpoints.md 2). */
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
} H3StoredType;

const gchar *h3_stored_type_name (H3StoredType type); /* "BF16" */
gsize h3_stored_type_size (H3StoredType type);

#define H3_STORED_MAX_RANK 8

typedef struct _H3SafeTensors H3SafeTensors;

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
  const H3SafeTensors *file;
} H3StoredTensor;

/**
 * h3_safetensors_open:
 *
 * Opens @path and makes every check of checkpoints.md 2.3 before any payload is
 * read. Bytes after the last tensor are accepted and counted
 * (h3_safetensors_trailing()). Errors name the file and the tensor:
 * H3_ERROR_NOT_FOUND, H3_ERROR_OPEN, H3_ERROR_WRONG_TYPE for something that is
 * no safetensors file (a Git-LFS pointer, a pickle, GGUF) or has a type that is
 * not supported, H3_ERROR_READ for a damaged one.
 */
H3SafeTensors *h3_safetensors_open (const gchar *path, GError **error);
/* The same checks on bytes in memory, which must outlive the result. For tests
 * and the fuzzer. */
H3SafeTensors *h3_safetensors_parse (const guint8 *bytes, gsize size,
    const gchar *name, GError **error);
void h3_safetensors_free (H3SafeTensors *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3SafeTensors, h3_safetensors_free)

guint h3_safetensors_n_tensors (const H3SafeTensors *file);
/* In the order of the header. */
const H3StoredTensor *h3_safetensors_nth (const H3SafeTensors *file, guint n);
/* NULL when there is none of that name. */
const H3StoredTensor *h3_safetensors_lookup (const H3SafeTensors *file,
    const gchar *name);
/* Bytes after the last tensor, normally 0. */
guint64 h3_safetensors_trailing (const H3SafeTensors *file);

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
