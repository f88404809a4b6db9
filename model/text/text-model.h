/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Qwen3-VL's language model up to the state after layer 50 (text-encoder.md 6).
 */
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/loader.h"
#include "model/text/vision-model.h"

G_BEGIN_DECLS

#define H3_TEXT_LAYERS 50 /* layers 0 .. 49 are used, whatever the file has */

typedef struct {
  gint hidden, layers, heads, kv_heads, head_dim, ffn, vocab, max_positions;
  gint mrope_section[3];
  gdouble rms_eps, rope_theta;
  guint64 encoded; /* h3_loader_encoded_elements() */
} H3TextConfig;

typedef struct _H3TextModel H3TextModel;

/* Reads config and shapes, checks every tensor, allocates nothing on a device.
 * @device: (nullable): for which @weight_bytes are counted, and which takes the
 * encodings or is an error; NULL: as stored. */
gboolean h3_text_model_plan (const H3Checkpoint *checkpoint,
    const H3Device *device, H3TextConfig *config, guint64 *weight_bytes,
    GError **error);
/* Immutable and shared between sessions; reference counted. */
H3TextModel *h3_text_model_load (const H3Checkpoint *checkpoint,
    H3Device *device, const H3Stop *stop, H3LoadProgress progress,
    gpointer user_data, GError **error);
H3TextModel *h3_text_model_ref (H3TextModel *model);
void h3_text_model_unref (H3TextModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3TextModel, h3_text_model_unref)
const H3TextConfig *h3_text_model_config (const H3TextModel *model);
/* (transfer container) (element-type H3Tensor): its weights, for parking. */
GPtrArray *h3_text_model_tensors (const H3TextModel *model);
/* Device bytes h3_text_model_encode() needs for @n tokens beside the weights.
 */
guint64 h3_text_model_workspace (const H3TextConfig *config,
    const H3Device *device, gint n);

/**
 * H3TextInput: a request, as h3_presentation_init() gives it
 * @ids: [n] token ids, each below the vocabulary's size
 * @positions: [n][3] (t, h, w), not negative; NULL: row i is at (i, i, i), which
 *   is a request without pictures
 * @vision: NULL without pictures and clips
 * @pads: [vision->n] rows whose embeddings the tower's tokens replace, ascending
 */
typedef struct {
  const gint32 *ids;
  gint n;
  const gint32 *positions;
  const H3VisionFeatures *vision;
  const gint32 *pads;
  gint n_pads;
} H3TextInput;

/**
 * h3_text_model_encode:
 * @tap: "hidden.0" (embeddings) to "hidden.50"
 *
 * Returns: [n, hidden] in float32 residual precision: the state after layer 50,
 *   not normalised; NULL with an error. Synchronised when this returns.
 */
H3Tensor *h3_text_model_encode (H3TextModel *model, H3Stream *stream,
    const H3TextInput *input, const H3Stop *stop, const H3Tap *tap,
    GError **error);

G_END_DECLS
