/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a file or a folder of weights is, from its tensors' names alone
 * (checkpoints.md 3.5, 4.1, 8). */
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/config.h"
#include "model/checkpoint/tensor-set.h"

G_BEGIN_DECLS

typedef enum {
  H3_LAYOUT_OFFICIAL,  /* the release's names, in shards or in one file */
  H3_LAYOUT_DIFFUSERS, /* names of its own; q, k, v apart */
  H3_LAYOUT_COMFY,     /* one file; most names are the official ones */
} H3Layout;

/**
 * H3Detection:
 * @refused: what it is that is no component and cannot be used as one ("a LoRA
 *   adapter"), or NULL; the rest means nothing then
 * @prefix: what the component's names begin with beyond their own
 * @qkv: of a transformer, what its origin says; not H3_QKV_AUTO
 * @qkv_assumed: the origin is not certain (h3_detection_doubt())
 * @pruned: a transformer with a table of timesteps (4.6)
 * @folded: an audio autoencoder without weight norm
 */
typedef struct {
  const gchar *refused;
  H3Component component;
  H3Layout layout;
  const gchar *prefix;
  H3QkvOrder qkv;
  gboolean qkv_assumed, pruned, folded;
} H3Detection;

/* "official", "diffusers", "ComfyUI" */
const gchar *h3_layout_name (H3Layout layout);
/* "grouped per head", "contiguous", "apart" */
const gchar *h3_qkv_order_name (H3QkvOrder order);
/* For messages: "transformer", "video autoencoder" */
const gchar *h3_component_title (H3Component component);

/* FALSE: it is nothing of MiniMax H3 that is known here. */
gboolean h3_detect (const H3TensorSet *set, H3Detection *found);

/**
 * h3_detect_component:
 * @component: which to look for in a file that may have several
 */
gboolean h3_detect_component (const H3TensorSet *set, H3Component component,
    H3Detection *found);

/**
 * h3_component_open:
 * @path: as h3_tensor_set_open() has it
 * @detection: (out) (optional)
 *
 * The component's tensors under their official or diffusers names: a prefix is
 * gone, and what is no tensor of the component in a file that has several. What
 * is known to be something else is H3_ERROR_WRONG_TYPE, by name; what is
 * unknown is left for the component's loader, which says what is missing.
 */
H3TensorSet *h3_component_open (const gchar *path, H3Component component,
    H3Detection *detection, GError **error);

/* How diffusers-style configurations call a pruned transformer. */
#define H3_PRUNED_CLASS "MiniMaxH3PrunedTransformer3DModel"

/* What was assumed of @set, for people who may know better, or NULL. Free with
 * g_free(). */
gchar *h3_detection_doubt (const H3TensorSet *set, const H3Detection *found);

/* The same of a transformer's tensors that the release has in float32 and @set in
 * a narrower type (checkpoints.md 3.4), but for GGUF, which keeps floats of any.
 * NULL, too, where a shard cannot be read: loading says why. */
gchar *h3_detection_narrowed (H3TensorSet *set, const H3Detection *found);

/* Whose configuration it is. */
gboolean h3_config_component (const H3Config *config, H3Component *component,
    H3Naming *naming);

/**
 * h3_component_config:
 *
 * config.json of the folder @path, or the one beside the file @path when it
 * describes this component: a folder of ComfyUI's has files of several. NULL
 * without an error when there is none.
 */
H3Config *h3_component_config (const gchar *path, H3Component component,
    GError **error);

/* Which transformer the name of a file or folder, or of the folder around
 * "transformer", says it is; names are hints. FALSE when it says nothing. */
gboolean h3_partition_hint (const gchar *path, H3Partition *partition);

G_END_DECLS
