/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reference sound at any rate to what the encoder takes (audio-vae.md 6.2, 6.3). */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

#define H3_AUDIO_MIN_RATE 1000
#define H3_AUDIO_MAX_RATE 384000

/* Samples at @rate that last as long as @frames of video at 24 a second, cut
 * off: floor (frames rate / 24). */
gsize h3_audio_frames_to_samples (gint frames, gint rate);

/**
 * h3_audio_reference_sound:
 * @samples: [@n, @channels], interleaved
 * @frames: of the video that is made: the sound is cut to that length; 0: not
 * @to_rate: 32000
 * @n_out: (out): samples of each side: ceil (to_rate n / rate) of those kept
 *
 * [2, n_out], mono on both sides, by the windowed-sinc filter of the reference
 * (torchaudio's Resample). Free with g_free(). NULL with H3_ERROR_FORMAT for
 * another number of channels than 1 or 2 or a rate out of range,
 * H3_ERROR_NO_SPACE when memory is short.
 */
gfloat *h3_audio_reference_sound (const gfloat *samples, gsize n, gint channels,
    gint rate, gint frames, gint to_rate, gsize *n_out, GError **error);

G_END_DECLS
