/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vision tower's weights. Private to vision-model.c and vision-encode.c. */
#pragma once

#include "model/text/vision-model.h"

G_BEGIN_DECLS

/* y = x weightᵀ + bias */
typedef struct {
  H3Weight *weight; /* [out, in] */
  H3Tensor *bias;   /* [out] float32 */
} H3VisionLinear;

typedef struct {
  H3Tensor *weight, *bias; /* float32 */
} H3VisionNorm;

typedef struct {
  H3VisionNorm norm1, norm2; /* [hidden] */
  H3VisionLinear qkv, proj;  /* [3 hidden, hidden], [hidden, hidden] */
  H3VisionLinear fc1, fc2;   /* [ffn, hidden], [hidden, ffn] */
} H3VisionBlock;

/* Four patches to one token. */
typedef struct {
  H3VisionNorm norm;       /* [hidden], of deep-stack mergers [4 hidden] */
  H3VisionLinear fc1, fc2; /* [4 hidden, 4 hidden], [out_hidden, 4 hidden] */
} H3VisionMerger;

struct _H3VisionModel {
  gatomicrefcount refcount;
  H3VisionConfig config;
  H3VisionLinear patch_embed; /* [hidden, 3 * 2 * 16 * 16] */
  H3Weight *pos_embed;        /* [positions, hidden] */
  H3VisionBlock *blocks;      /* [depth] */
  H3VisionMerger merger, deepstack[H3_VISION_MAX_DEEPSTACK];
  GPtrArray *tensors; /* every H3Tensor of the above, owned */
};

G_END_DECLS
