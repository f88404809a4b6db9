/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One safetensors file, mapped (checkpoints.md 2). */
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

/* One tensor of a file. @data is mapped memory at any alignment: copy, do not
 * cast. Valid as long as the file. */
typedef struct {
  const gchar *name;
  H3StoredType type;
  guint rank;
  guint64 shape[H3_STORED_MAX_RANK];
  const guint8 *data;
  guint64 bytes;
  const gchar *file; /* the path, for messages */
} H3StoredTensor;

typedef struct _H3SafeTensors H3SafeTensors;

/**
 * h3_safetensors_open:
 *
 * Maps @path and makes every check of checkpoints.md 2.3 before any payload is
 * read. Trailing bytes are accepted with one g_warning-free log line (see
 * h3_safetensors_trailing()). Errors name the file and the tensor.
 */
H3SafeTensors *h3_safetensors_open (const gchar *path, GError **error);
/* The same checks on bytes in memory, which must outlive the result. For tests
 * and the fuzzer. */
H3SafeTensors *h3_safetensors_parse (const guint8 *bytes, gsize size,
    const gchar *name, GError **error);
void h3_safetensors_free (H3SafeTensors *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3SafeTensors, h3_safetensors_free)

guint h3_safetensors_n_tensors (const H3SafeTensors *file);
const H3StoredTensor *h3_safetensors_nth (const H3SafeTensors *file, guint n);
const H3StoredTensor *h3_safetensors_lookup (const H3SafeTensors *file,
    const gchar *name);
/* Bytes after the last tensor, normally 0. */
guint64 h3_safetensors_trailing (const H3SafeTensors *file);

G_END_DECLS
