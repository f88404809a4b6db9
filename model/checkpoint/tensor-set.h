/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tensors of one component: one file, or shards through their index. */
#pragma once

#include <json-glib/json-glib.h>

#include "model/checkpoint/stored-tensor.h"

G_BEGIN_DECLS

typedef struct _H3TensorSet H3TensorSet;

/**
 * h3_tensor_set_open:
 * @path: a .safetensors or GGUF file, or a folder with an index and its shards,
 *   or with exactly one .safetensors file, or without those exactly one .gguf
 *   file (checkpoints.md 3.3)
 *
 * Shards are opened when a tensor in them is first asked for, so shards nobody
 * reads are never opened; that they exist is checked here, all at once.
 */
H3TensorSet *h3_tensor_set_open (const gchar *path, GError **error);
void h3_tensor_set_free (H3TensorSet *set);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3TensorSet, h3_tensor_set_free)

/* Whether the index (or the file) lists @name; opens nothing. */
gboolean h3_tensor_set_has (const H3TensorSet *set, const gchar *name);
/* NULL with an error when the set does not list it, or its shard does not hold
 * it ("tensor X is listed in shard Y but Y does not contain it"). */
const H3StoredTensor *h3_tensor_set_get (H3TensorSet *set, const gchar *name,
    GError **error);
/* Whether an index places the tensors in shards. */
gboolean h3_tensor_set_is_sharded (const H3TensorSet *set);

/* The one file that has the tensors; NULL where an index places them. */
const gchar *h3_tensor_set_file (const H3TensorSet *set);
/* What __metadata__ of a single safetensors file says of @key; NULL: nothing, or
 * there are shards. Owned by @set. */
const gchar *h3_tensor_set_metadata (const H3TensorSet *set, const gchar *key);
/* What the file's metadata say of how the weight @name is quantised: a marker's
 * object (checkpoints.md 4.2), or NULL. Owned by @set. */
JsonNode *h3_tensor_set_quantisation (const H3TensorSet *set,
    const gchar *name);
/* Bytes after the last tensor, of the files that were opened. */
guint64 h3_tensor_set_trailing (const H3TensorSet *set);

/* @from at the beginning of a name becomes @to. */
typedef struct {
  const gchar *from, *to;
} H3TensorRename;

/* Gives every tensor a new name by the first rule that fits; those that none
 * fits are no longer in the set. A tensor's own name stays the file's. */
void h3_tensor_set_rename (H3TensorSet *set, const H3TensorRename *rules,
    guint n);
/* All names, sorted. Owned by @set. */
const GPtrArray *h3_tensor_set_names (const H3TensorSet *set);
const gchar *h3_tensor_set_path (const H3TensorSet *set);

G_END_DECLS
