/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is in front of a GGUF file's tensors. Private to model/checkpoint. */
#pragma once

#include "model/checkpoint/stored-tensor.h"

G_BEGIN_DECLS

/* What the file says of one tensor, before anything is made of it. */
typedef struct {
  gchar *name; /* owned; not empty, UTF-8 */
  guint rank;
  guint64 shape[H3_STORED_MAX_RANK]; /* in torch's order; none is 0 */
  guint64 elements;                  /* their product */
  guint32 type;                      /* ggml's number */
  guint64 offset;
} H3GgufEntry;

typedef struct {
  guint64 alignment; /* a power of two */
  /* name, owned -> GArray of gint32, owned: comfy.gguf.orig_shape.<name> */
  GHashTable *orig_shapes;
  GArray *entries; /* H3GgufEntry, in file order, names unique */
  guint64 end;     /* the first byte after the header, before any padding */
} H3GgufHeader;

void h3_gguf_header_free (H3GgufHeader *header);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3GgufHeader, h3_gguf_header_free)

/* Reads and checks it (checkpoints.md 6.1); types and places are the caller's
 * to check. */
H3GgufHeader *h3_gguf_header_read (const H3StoredFile *file, GError **error);

G_END_DECLS
