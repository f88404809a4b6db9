/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of model/video/ share. */
#pragma once

#include "model/video/video-vae.h"

G_BEGIN_DECLS

typedef struct {
  H3Weight *weight;
  H3Tensor *bias;
} H3VideoLinear;

/* video-vae.md 3.2, rows in the order the operations want: [q; k; v], [gate;
 * up] */
typedef struct {
  H3Tensor *norm1, *norm2;
  H3Tensor *scale1, *scale2;
  H3VideoLinear qkv, out, w1, w2;
} H3VideoBlock;

struct _H3VideoVae {
  gatomicrefcount refcount;
  H3VideoVaeConfig config;
  H3Tensor *latents_mean, *latents_std; /* [channels] */
  H3VideoLinear post_quant, x_embedder, proj_out;
  H3Tensor *registers; /* [registers * dim] */
  H3Tensor *norm_out_weight, *norm_out_bias;
  H3VideoBlock *blocks; /* [config.layers] */
};

/**
 * h3_video_config_read:
 * @path: the component's folder
 * @config: (out): the release's values where the files say nothing, 0 in each
 *   integer that they leave to the tensors
 * @ffn_mult: (out): ffn / (heads * head_dim), or 0
 * @tensors: (out): where the tensors are; free with g_free()
 *
 * Both dialects of video-vae.md 2. Errors name file and key.
 */
gboolean h3_video_config_read (const gchar *path, H3VideoVaeConfig *config,
    gint *ffn_mult, gchar **tensors, GError **error);

/* Channels of a token's features; columns of proj_out; channels per head that
 * rotate, over 2. */
static inline gint
h3_video_dim (const H3VideoVaeConfig *config)
{
  return config->heads * config->head_dim;
}

static inline gint
h3_video_patch (const H3VideoVaeConfig *config)
{
  return 3 * config->ratio_t * config->ratio * config->ratio;
}

static inline gint
h3_video_rot (const H3VideoVaeConfig *config)
{
  return (gint) (config->head_dim * config->rope_ratio) / 2;
}

G_END_DECLS
