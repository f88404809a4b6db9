/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Latents to tokens and rows to latents (packing.md 3, video-vae.md 6, 8). */
#include "cpu/cpu.h"

void
H3_ISA (h3_cpu_latent_tile) (H3Stream *stream, const H3LatentTileArgs *args)
{
  const gint64 *shape = args->latent->shape;
  gint64 channels = shape[0], frames = shape[1];
  const gfloat *latent = args->latent->data;
  const gfloat *mean = args->mean->data, *std = args->std->data;
  gfloat *y = args->y->data;

  for (gint t = 0; t < args->t; t++) {
    gint64 frame = MIN ((gint64) args->t0 + t, frames - 1);

    for (gint i = 0; i < args->h; i++)
      for (gint j = 0; j < args->w; j++, y += channels)
        for (gint64 c = 0; c < channels; c++)
          y[c] = latent[((c * frames + frame) * shape[2] + args->y0 + i) *
                            shape[3] +
                        args->x0 + j] *
                     std[c] +
                 mean[c];
  }
}

void
H3_ISA (h3_cpu_video_rows_to_latent) (H3Stream *stream, H3Tensor *latent,
    const H3Tensor *rows)
{
  gint64 channels = latent->shape[0], frames = latent->shape[1];
  gint64 height = latent->shape[2], width = latent->shape[3];
  const gfloat *row = rows->data;
  gfloat *y = latent->data;

  for (gint64 t = 0; t < frames; t++)
    for (gint64 i = 0; i < height; i += 2)
      for (gint64 j = 0; j < width; j += 2)
        for (gint64 c = 0; c < channels; c++, row += 4) {
          gfloat *at = y + ((c * frames + t) * height + i) * width + j;

          at[0] = row[0];
          at[1] = row[1];
          at[width] = row[2];
          at[width + 1] = row[3];
        }
}

void
H3_ISA (h3_cpu_audio_rows_to_latent) (H3Stream *stream, H3Tensor *latent,
    const H3Tensor *rows)
{
  gint64 channels = latent->shape[1], length = latent->shape[2];
  const gfloat *row = rows->data;
  gfloat *y = latent->data;

  for (gint64 side = 0; side < 2; side++)
    for (gint64 t = 0; t < length; t++)
      for (gint64 c = 0; c < channels; c++)
        y[(side * channels + c) * length + t] = *row++;
}
