/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of model/video/ share. */
#pragma once

#include "model/video/video-encoder.h"

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
 * @path: the component's folder, or a single file, which may have no
 *   configuration
 * @config: (out): the release's values where the files say nothing, 0 in each
 *   integer that they leave to the tensors
 * @ffn_mult: (out): ffn / (heads * head_dim), or 0
 * @tensors: (out): where the tensors are; free with g_free()
 *
 * Both dialects of video-vae.md 2. Errors name file and key.
 */
gboolean h3_video_config_read (const gchar *path, H3VideoVaeConfig *config,
    gint *ffn_mult, gchar **tensors, GError **error);

/* Which of the two schemes @set's names follow. */
H3Naming h3_video_detect_naming (const H3TensorSet *set);

/* Where the configuration says nothing of latents, not even how many channels
 * they have: the statistics that the file has, or the release's, which are also
 * better than the file's where these are the same rounded to float16. */
gboolean h3_video_config_take_statistics (H3VideoVaeConfig *config,
    H3TensorSet *set, GError **error);

/* video-vae.md 3.1, 5. Weights lie as the convolution wants them: [Co, Kt, K, K,
 * Ci]. */
typedef struct {
  H3Weight *weight; /* NULL: a block without shortcut, a level at the end */
  H3Tensor *bias;
} H3VideoConv;

typedef struct {
  H3Tensor *weight, *bias;
} H3VideoNorm;

typedef struct {
  H3VideoNorm norm1, norm2;
  H3VideoConv conv1, conv2;
  H3VideoConv shortcut;
} H3VideoResBlock;

typedef struct {
  H3VideoResBlock *blocks; /* [config.blocks] */
  H3VideoConv down;
} H3VideoLevel;

struct _H3VideoEncoderModel {
  gatomicrefcount refcount;
  H3VideoEncoderConfig config;
  H3VideoConv conv_in, conv_out, quant;
  H3VideoNorm norm_out;
  H3VideoLevel levels[H3_VIDEO_MAX_LEVELS];
};

/* Both dialects, from the configuration beside the @tensors that
 * h3_video_config_read() named. */
gboolean h3_video_encoder_config_read (const gchar *tensors,
    H3VideoEncoderConfig *config, GError **error);

/* What the network made of a clip so far, on the host: for each piece of it,
 * [2 C, t, h, w], means before log-variances. */
typedef struct {
  gint channels; /* C */
  gint64 plane;  /* h w */
  GPtrArray *pieces;
  gint length; /* t of all */
} H3VideoMoments;

void h3_video_moments_init (H3VideoMoments *moments, gint channels,
    gint64 plane);
void h3_video_moments_clear (H3VideoMoments *moments);
/* Memory for the next @t latents, to be filled. NULL with H3_ERROR_NO_SPACE. */
gfloat *h3_video_moments_add (H3VideoMoments *moments, gint t, GError **error);
void h3_video_moments_reset (H3VideoMoments *moments);
/* The normalised latents [C, T, h, w] (video-vae.md 10.2). NULL with an error.
 * Free with g_free(). */
gfloat *h3_video_posterior (const H3VideoMoments *moments,
    const H3VideoVaeConfig *config, H3Posterior posterior, guint64 seed,
    GError **error);

/* As h3_video_decoder_new(), with groups of up to @max_group >= 1 windows, as
 * far as they fit into a batch, whatever the device: the choice is the tests'. */
H3VideoDecoder *h3_video_decoder_new_grouped (H3VideoVae *vae, H3Stream *stream,
    gint latent_h, gint latent_w, H3Composition composition, gint max_group,
    GError **error);

/* Channels a level begins with. */
static inline gint
h3_video_level_in (const H3VideoEncoderConfig *config, gint level)
{
  return level ? config->channels[level - 1] : config->first;
}

static inline gboolean
h3_video_level_shrinks (const H3VideoEncoderConfig *config, gint level)
{
  return config->space[level] > 1 || config->time[level] > 1;
}

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
