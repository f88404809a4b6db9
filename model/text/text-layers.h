/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The language model's weights. Private to text-model.c and text-encode.c. */
#pragma once

#include "model/text/text-model.h"

G_BEGIN_DECLS

/* Linears are [out, in]; norms float32. */
typedef struct {
  H3Tensor *input_norm;      /* [hidden] */
  H3Weight *qkv;             /* [(heads + 2 kv_heads) head_dim, hidden] */
  H3Tensor *q_norm, *k_norm; /* [head_dim] */
  H3Weight *o;               /* [hidden, heads head_dim] */
  H3Tensor *post_norm;       /* [hidden] */
  H3Weight *gate_up;         /* [2 ffn, hidden] */
  H3Weight *down;            /* [hidden, ffn] */
} H3TextLayer;

struct _H3TextModel {
  gatomicrefcount refcount;
  H3TextConfig config;
  H3Weight *embed_tokens; /* [vocab, hidden] */
  H3TextLayer layers[H3_TEXT_LAYERS];
  GPtrArray *tensors; /* every H3Tensor of the above, owned */
};

G_END_DECLS
