/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Qwen3-VL's vision tower (text-encoder.md 5). A model of its own beside the
 * language model: a request without pictures and clips needs none of its 1.1 GiB,
 * so it is loaded when the first one with them comes. */
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/tap.h"
#include "model/text/text-condition.h"

G_BEGIN_DECLS

#define H3_VISION_MAX_DEEPSTACK 8

typedef struct {
  gint hidden, depth, heads, ffn;
  gint positions;  /* rows of the position table: the square of its side */
  gint out_hidden; /* the language model's hidden size */
  /* after which blocks deep-stack mergers read; ascending */
  gint deepstack[H3_VISION_MAX_DEEPSTACK];
  guint n_deepstack;
  guint64 encoded; /* h3_loader_encoded_elements() */
} H3VisionConfig;

typedef struct _H3VisionModel H3VisionModel;

/* Reads config and shapes, checks every tensor, allocates nothing on a device.
 * @device: (nullable): as of h3_text_model_plan(). */
gboolean h3_vision_model_plan (const H3Checkpoint *checkpoint,
    const H3Device *device, H3VisionConfig *config, guint64 *weight_bytes,
    GError **error);
/* Immutable and shared between sessions; reference counted. */
H3VisionModel *h3_vision_model_load (const H3Checkpoint *checkpoint,
    H3Device *device, const H3Stop *stop, H3LoadProgress progress,
    gpointer user_data, GError **error);
H3VisionModel *h3_vision_model_ref (H3VisionModel *model);
void h3_vision_model_unref (H3VisionModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3VisionModel, h3_vision_model_unref)
const H3VisionConfig *h3_vision_model_config (const H3VisionModel *model);
/* (transfer container) (element-type H3Tensor): its weights, for parking. */
GPtrArray *h3_vision_model_tensors (const H3VisionModel *model);
/* Device bytes h3_vision_model_encode() needs for @conditions beside the
 * weights, its result included. */
guint64 h3_vision_model_workspace (const H3VisionConfig *config,
    const H3Device *device, const H3TextCondition *const *conditions, guint n);

/**
 * H3VisionFeatures: what the language model takes the place of the pads with
 * @n: tokens of all pictures and clips, in the order of the request
 * @tokens: [n, out_hidden]
 * @deepstack: [n, out_hidden] each, to be added after the language model's layers
 *   0, 1, ...
 *
 * They depend on the pictures alone and serve any number of prompts.
 */
typedef struct {
  gint n;
  H3Tensor *tokens;
  H3Tensor *deepstack[H3_VISION_MAX_DEEPSTACK];
  guint n_deepstack;
} H3VisionFeatures;

void h3_vision_features_free (H3VisionFeatures *features);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3VisionFeatures, h3_vision_features_free)

/**
 * h3_vision_model_encode:
 * @conditions: (array length=n): finished; sounds are passed over
 * @tap: of each picture or clip "patches" (its pixels [patches, 1536]),
 *   "embedded", "blocks.0" ..., "merger" and "deepstack.0" ...
 *
 * Returns: NULL with an error: H3_ERROR_FORMAT when there is nothing to see, or
 *   more than can be counted. Synchronised when this returns.
 */
H3VisionFeatures *h3_vision_model_encode (H3VisionModel *model,
    H3Stream *stream, const H3TextCondition *const *conditions, guint n,
    const H3Stop *stop, const H3Tap *tap, GError **error);

G_END_DECLS
