/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One safetensors file (checkpoints.md 2). */
#pragma once

#include "model/checkpoint/stored-tensor.h"

G_BEGIN_DECLS

typedef struct _H3SafeTensors H3SafeTensors;

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
/* What __metadata__ says of @key, or NULL. Owned by @file. */
const gchar *h3_safetensors_metadata (const H3SafeTensors *file,
    const gchar *key);
/* Bytes after the last tensor, normally 0. */
guint64 h3_safetensors_trailing (const H3SafeTensors *file);

G_END_DECLS
