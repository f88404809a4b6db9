/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The encoders of video-vae.md 15. */
#pragma once

#include "fill-model.h"

typedef struct {
  gint ch, levels, blocks;
  gint mult[6], space[6], time[6];
} FillEncoder;

extern const FillEncoder fill_encoder_a, fill_encoder_b;

/* Adds the encoder's tensors, by their official names. */
void fill_add_encoder (GPtrArray *tensors, const FillEncoder *encoder,
    gint channels);
/* source/config.json of both halves. Free with g_free(). */
gchar *fill_encoder_network (const FillGeometry *geometry,
    const FillEncoder *encoder);
/* uint8 [frames, height, width, 3]. Free with g_free(). */
guint8 *fill_pixels (gint frames, gint height, gint width);
