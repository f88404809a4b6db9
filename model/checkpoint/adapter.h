/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* LoRA adapters: what several files, together, add to the transformer's linear
 * layers (denoiser.md 8, checkpoints.md 7.1). */
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/checkpoint/stored-tensor.h"

G_BEGIN_DECLS

/**
 * H3AdapterUpdate: W <- W + scale * up down, of a module or one part of it
 * @module: official name, "blocks.3.attn.qkv_proj"
 * @key: of the file, for messages
 * @part: rows of fused q, k, v: 0, 1, 2; -1: all
 * @order: of up's rows as stored; the module's are [q; k; v] and [gate; value]
 * @activated: see H3AdapterModule
 * @down: A [rank, in]; @up: B [out, rank]
 * @scale: strength * alpha / rank
 */
typedef struct {
  const gchar *module;
  gchar *key;
  gint part;
  H3RowOrder order;
  gboolean activated;
  const H3StoredTensor *down, *up;
  gint64 rank;
  gfloat scale;
} H3AdapterUpdate;

/**
 * H3AdapterInfo: for reports
 * @layout: "ComfyUI", "kohya", ...
 * @min_rank, @max_rank: of its modules
 * @alpha: what decides the scale: "per module", "0.5 for all (metadata)", ...
 * @warnings: (element-type utf8): what was left out
 */
typedef struct {
  gchar *path, *alpha;
  const gchar *layout;
  gdouble strength;
  guint n_modules;
  gint64 min_rank, max_rank;
  GPtrArray *warnings;
} H3AdapterInfo;

typedef struct _H3Adapters H3Adapters;

/**
 * h3_adapters_open:
 *
 * Reads headers and alphas, and checks what can be without the transformer.
 * H3_ERROR_WRONG_TYPE, with file and key, for what is no adapter of it: another
 * kind of file, names that are no layer's (a few, and how many), a factor
 * without its other one, a rank that is 0 or not the same in both, an alpha that
 * is no finite number. Afterwards nothing changes: may be used by any thread.
 */
H3Adapters *h3_adapters_open (const H3AdapterChoice *choices, guint n,
    GError **error);
void h3_adapters_free (H3Adapters *adapters);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Adapters, h3_adapters_free)

/* All updates of all adapters, in their order. (element-type H3AdapterUpdate) */
const GPtrArray *h3_adapters_updates (const H3Adapters *adapters);
/* (nullable) (element-type H3AdapterUpdate): of a tensor of the transformer, in
 * any naming. */
const GPtrArray *h3_adapters_find (const H3Adapters *adapters,
    const gchar *tensor);
guint h3_adapters_n (const H3Adapters *adapters);
const H3AdapterInfo *h3_adapters_info (const H3Adapters *adapters, guint i);

G_END_DECLS
