/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Making GGUF files: a quantiser for each type of block and the container. */
#pragma once

#include "model/checkpoint/stored-tensor.h"

G_BEGIN_DECLS

/* The type of that name, "Q4_K"; FALSE when GGUF files have none of it. */
gboolean gguf_type_from_name (const gchar *name, H3StoredType *type);

/**
 * gguf_quantise:
 * @n: whole blocks of @type, or elements of F32, F16 and BF16
 * @bytes: what is written
 *
 * Plain rounding with scales from the extremes: no search for better ones.
 */
void gguf_quantise (H3StoredType type, const gfloat *values, gsize n,
    guint8 *bytes);
/* What @bytes stand for. */
void gguf_decode (H3StoredType type, const guint8 *bytes, gsize n,
    gfloat *values);

typedef struct _GgufFile GgufFile;

GgufFile *gguf_file_new (void);
/**
 * gguf_file_add:
 * @shape: in torch's order
 * @flat: 0 with a rank up to 4, or: stored as rows of so many elements, with the shape beside it
 *   (comfy.gguf.orig_shape)
 * @bytes: copied
 */
void gguf_file_add (GgufFile *file, const gchar *name, H3StoredType type,
    guint rank, const guint64 *shape, guint64 flat, const guint8 *bytes,
    gsize size);
gboolean gguf_file_write (GgufFile *file, const gchar *path, GError **error);
void gguf_file_free (GgufFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GgufFile, gguf_file_free)

typedef enum {
  GGUF_FLATTEN = 1 << 0, /* rows that are no whole blocks, where all are some */
  GGUF_MIX = 1 << 1,     /* v_proj and up_proj get the next type */
  GGUF_DECODED = 1 << 2, /* in float32 what the blocks would stand for */
} GgufFlags;

/**
 * gguf_convert:
 * @from: a safetensors file, as h3_tensor_set_open() takes it
 * @types: of matrices; a matrix of block N ("....N....") gets that of N modulo
 *   their number, another the first. F32 and what has no whole blocks stays
 */
gboolean gguf_convert (const gchar *from, const gchar *to,
    const H3StoredType *types, guint n_types, GgufFlags flags, GError **error);

G_END_DECLS
