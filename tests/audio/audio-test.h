/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the audio tests share: a device, a model, a clip decoded. */
#pragma once

#include "model/audio/audio-vae.h"
#include "tests/audio/tiny-model.h"
#include "tests/tools/h3-test-device.h"

G_BEGIN_DECLS

/* One for the whole program. */
H3Device *audio_test_device (void);

/* The audio autoencoder in @path. NULL with @error. */
H3AudioVae *audio_test_try_load (const gchar *path, GError **error);
H3AudioVae *audio_test_load (const gchar *path);
/* The model of audio-vae.md 11, through a file. */
H3AudioVae *audio_test_load_tiny (Spelling spelling);

typedef struct {
  gint n;          /* samples of each side */
  gfloat *samples; /* [n, 2] */
} AudioClip;

void audio_clip_free (AudioClip *clip);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AudioClip, audio_clip_free)

H3Tensor *audio_test_latent (H3Device *device, const gfloat *values,
    gint channels, gint length);
/* Decodes [2, C, @length] values, @chunk latents at a time; checks that the
 * pieces follow each other. */
AudioClip *audio_test_decode (H3AudioVae *vae, const gfloat *values,
    gint length, gint chunk, const H3Tap *tap);
/* The same with a decoder that exists. */
AudioClip *audio_test_decode_with (H3AudioDecoder *decoder,
    const H3AudioVaeConfig *config, H3Stream *stream, const gfloat *values,
    gint length, const H3Tap *tap);
void audio_test_assert_equal (const AudioClip *a, const AudioClip *b);
/* [2, n] values in golden files' order. Free with g_free(). */
gfloat *audio_clip_planar (const AudioClip *clip);

/* [2, C, length] normalised values that sound like nothing. */
gfloat *audio_test_noise (gint channels, gint length, guint32 seed);

void audio_add_golden_tests (void);
void audio_add_tiny_tests (void);
void audio_add_decoder_tests (void);
void audio_add_config_tests (void);
void audio_add_encoder_tests (void);
void audio_add_resample_tests (void);

G_END_DECLS
