/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the video tests share. */
#pragma once

#include "model/video/video-vae.h"

/* One for all tests. */
H3Device *test_device (void);

H3VideoVae *test_load (const gchar *path, GError **error);
/* The same, and it must work. */
H3VideoVae *test_vae (const gchar *path);

/* [C, T, h, w] on the device. */
H3Tensor *test_latent (const gfloat *values, gint c, gint t, gint h, gint w);

/* A clip, whole. */
typedef struct {
  gint frames, height, width;
  gfloat *pixels; /* [3, frames, height, width], network pixels */
  GArray *counts; /* gint: frames of each call */
} Clip;

void clip_free (Clip *clip);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Clip, clip_free)

/* Runs @decoder over @latent until the end. NULL with @error. */
Clip *test_decode_with (H3VideoDecoder *decoder, H3Stream *stream,
    H3Tensor *latent, const H3Stop *stop, GError **error);
/* A decoder for one clip, which must work. */
Clip *test_decode (H3VideoVae *vae, const gfloat *latent, gint t, gint h,
    gint w, H3Composition composition);
/* RGB of every frame, [frames, height, width, 3]. Free with g_free(). */
guint8 *test_clip_rgb (const H3VideoVae *vae, const Clip *clip,
    H3Quantize quantize);

gfloat clip_at (const Clip *clip, gint c, gint t, gint y, gint x);

void add_tiling_tests (void);
void add_oracle_tests (void);
void add_golden_tests (void);
void add_stream_tests (void);
void add_load_tests (void);
void add_encoder_tests (void);
void add_statistics_tests (void);
