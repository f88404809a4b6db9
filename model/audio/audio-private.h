/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of model/audio/ share. */
#pragma once

#include "model/audio/audio-encoder.h"
#include "model/checkpoint/config.h"

G_BEGIN_DECLS

#define H3_AUDIO_TAPS 12       /* of both resampling filters (4.6) */
#define H3_AUDIO_EDGE_KERNEL 7 /* of conv_pre and conv_post */
/* h3_mean3() averages that many AMP blocks. */
#define H3_AUDIO_MAX_KERNELS 3

/* [Co, Ci, K], or [Ci, Co, K] of an upsampler, weight norm folded (4.3). */
typedef struct {
  H3Weight *weight;
  H3Tensor *bias; /* NULL in conv_post */
} H3AudioConv;

/* Activation1d (4.9). */
typedef struct {
  H3Tensor *a, *inv_b;
  H3Tensor *up_filter, *down_filter;
} H3AudioActivation;

/* One AMP block (5): dilation q has convs1[q] and convs2[q], and activations 2q
 * and 2q + 1 in front of them. */
typedef struct {
  H3AudioConv convs1[H3_AUDIO_MAX_STAGES], convs2[H3_AUDIO_MAX_STAGES];
  H3AudioActivation activations[2 * H3_AUDIO_MAX_STAGES];
} H3AudioBlock;

struct _H3AudioVae {
  gatomicrefcount refcount;
  H3AudioVaeConfig config;
  H3AudioConv dec_in_proj, conv_pre, conv_post;
  H3AudioConv ups[H3_AUDIO_MAX_STAGES];
  H3AudioBlock blocks[H3_AUDIO_MAX_STAGES * H3_AUDIO_MAX_KERNELS];
  H3AudioActivation activation_post;
};

/* The encoder (6.1). */
typedef struct {
  H3Tensor *a, *inv_a;
} H3AudioSnake;

typedef struct {
  H3AudioSnake snake1, snake2;
  H3AudioConv conv1, conv2;
} H3AudioUnit;

#define H3_AUDIO_UNITS 3 /* of a block, with dilations 1, 3, 9 */

typedef struct {
  H3AudioUnit units[H3_AUDIO_UNITS];
  H3AudioSnake snake;
  H3AudioConv down;
} H3AudioStage;

typedef struct {
  H3Tensor *weight, *bias;
} H3AudioNorm;

struct _H3AudioEncoderModel {
  gatomicrefcount refcount;
  H3AudioEncoderConfig config;
  H3AudioConv conv_in, conv_out;
  H3AudioStage stages[H3_AUDIO_MAX_STAGES];
  H3AudioSnake snake_out;
  H3AudioNorm norm1, norm2, norm3, mlp_norm;
  H3AudioConv qkv;           /* [3 D, D] */
  H3AudioConv attn;          /* [C, D]: the heads' mean, the pool, attn.proj */
  H3AudioConv proj;          /* [C, D] */
  H3AudioConv w0, w1;        /* [2 C, C] */
  H3AudioConv w2, mean_proj; /* [C, 2 C], [C, C] */
};

/* A weight-normed convolution in whichever spelling (8.1), folded; @n_bias 0:
 * without. */
void h3_audio_read_conv (H3Loader *loader, H3AudioConv *conv, const gchar *name,
    gint64 d0, gint64 d1, gint64 k, gint64 n_bias);
/* latents_mean and latents_std; @has_stats: the configuration had them. */
void h3_audio_read_stats (H3Loader *loader, H3AudioVaeConfig *config,
    gboolean has_stats);

/* config.json and metadata.json of the folder @path, or beside the file when they
 * are this component's; NULL each where there is none. */
gboolean h3_audio_config_open (const gchar *path, H3Config **config,
    H3Config **metadata, GError **error);
/* Reads these, where there are any. Widths that no file names stay 0 and are the tensors' to
 * say; everything else gets the release's rule. @has_stats: whether the files
 * name latents_mean and latents_std. */
gboolean h3_audio_config_read (const gchar *path, H3AudioVaeConfig *config,
    gboolean *has_stats, GError **error);

/* Checks the geometry once all widths are known, and computes hop and halo. */
gboolean h3_audio_config_complete (H3AudioVaeConfig *config, const gchar *path,
    GError **error);

/* latents_mean and latents_std of the release (8.4), for 32 channels. */
gboolean h3_audio_config_release_stats (H3AudioVaeConfig *config);

/* The filter of 4.6, bit for bit what the release's files hold. */
const gfloat *h3_audio_default_filter (void);

/* Channels and samples per latent after stage @i. */
static inline gint
h3_audio_stage_channels (const H3AudioVaeConfig *config, gint i)
{
  return config->decoder_dim >> (i + 1);
}

static inline gint
h3_audio_stage_rate (const H3AudioVaeConfig *config, gint i)
{
  gint rate = 1;

  for (gint k = 0; k <= i; k++)
    rate *= config->rates[k];
  return rate;
}

G_END_DECLS
