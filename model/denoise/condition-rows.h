/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/denoise/condition.h"
#include "model/denoise/noise.h"
#include "model/ops.h"

G_BEGIN_DECLS

/**
 * h3_condition_rows:
 * @conditions: (array length=n): checked, with their tensors on the stream's
 *   device
 * @noise: for all visual rows; @noise_share: h3_condition_noise()
 * @video: (out) (nullable): [rows, 4 * video_channels] float32, noised to
 *   t = 0.999; @audio: (out) (nullable): [rows, audio_channels], clean
 *
 * In packed order. H3_ERROR_FORMAT when a tensor lacks or has other channels
 * than the transformer.
 */
gboolean h3_condition_rows (H3Stream *stream, const H3Condition *conditions,
    guint n, gint video_channels, gint audio_channels, const gfloat *noise,
    gfloat noise_share, H3Tensor **video, H3Tensor **audio, GError **error);

G_END_DECLS
