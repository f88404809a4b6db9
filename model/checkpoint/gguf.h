/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One GGUF file (checkpoints.md 6): its tensors' names, shapes and places. */
#pragma once

#include "model/checkpoint/stored-tensor.h"

G_BEGIN_DECLS

typedef struct _H3Gguf H3Gguf;

/* Whether @path begins as a GGUF file does. FALSE, too, where it cannot be
 * read: opening says why. */
gboolean h3_gguf_is (const gchar *path);

/**
 * h3_gguf_open:
 *
 * Opens @path and makes every check of checkpoints.md 6.1 before any payload is
 * read. Shapes are in torch's order, [out, in]; a tensor that was flattened to
 * rows of whole blocks has the shape it had before (6.2): its blocks may cross
 * its rows then. Errors name the file and the tensor or key:
 * H3_ERROR_NOT_FOUND, H3_ERROR_OPEN, H3_ERROR_WRONG_TYPE for something that is
 * no GGUF file, or of a version or with a type that is not supported,
 * H3_ERROR_READ for a damaged one.
 */
H3Gguf *h3_gguf_open (const gchar *path, GError **error);
/* The same checks on bytes in memory, which must outlive the result. For tests
 * and the fuzzer. */
H3Gguf *h3_gguf_parse (const guint8 *bytes, gsize size, const gchar *name,
    GError **error);
void h3_gguf_free (H3Gguf *gguf);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Gguf, h3_gguf_free)

guint h3_gguf_n_tensors (const H3Gguf *gguf);
/* In the order of the file. */
const H3StoredTensor *h3_gguf_nth (const H3Gguf *gguf, guint n);
/* NULL when there is none of that name. */
const H3StoredTensor *h3_gguf_lookup (const H3Gguf *gguf, const gchar *name);
/* Bytes after the last tensor and its padding, normally 0. */
guint64 h3_gguf_trailing (const H3Gguf *gguf);

G_END_DECLS
