/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/ops/ops-test.h"

#include "model/blocks.h"

/* Scales of a block near one: its halves, or what it has instead. */
static void
tame_block (Ops *ops, H3Encoding encoding, guint8 *b)
{
  static const gint halves[H3_N_ENCODINGS][2] = {
    [H3_ENCODING_Q4_0] = { 0, -1 },
    [H3_ENCODING_Q4_1] = { 0, 2 },
    [H3_ENCODING_Q5_0] = { 0, -1 },
    [H3_ENCODING_Q5_1] = { 0, 2 },
    [H3_ENCODING_Q8_0] = { 0, -1 },
    [H3_ENCODING_Q2_K] = { 80, 82 },
    [H3_ENCODING_Q3_K] = { 108, -1 },
    [H3_ENCODING_Q4_K] = { 0, 2 },
    [H3_ENCODING_Q5_K] = { 0, 2 },
    [H3_ENCODING_Q6_K] = { 208, -1 },
    [H3_ENCODING_IQ4_NL] = { 0, -1 },
    [H3_ENCODING_IQ4_XS] = { 0, -1 },
    [H3_ENCODING_MXFP4] = { -1, -1 },
    [H3_ENCODING_GGUF_NVFP4] = { -1, -1 },
  };

  for (guint i = 0; i < 2; i++)
    if (halves[encoding][i] >= 0)
      b[halves[encoding][i] + 1] = ops_pick (ops, 0x10, 0x18) | (b[0] & 0x80);
  if (encoding == H3_ENCODING_MXFP4)
    b[0] = ops_pick (ops, 118, 126);
  for (guint i = 0; i < 4 && encoding == H3_ENCODING_GGUF_NVFP4; i++)
    b[i] = ops_pick (ops, 0, 0x30);
}

/* No code that is NaN or Inf, and scales near 1. */
static void
tame (Ops *ops, H3Weight *w)
{
  guint8 *q = w->tensor->data;
  gint64 n = h3_tensor_size (w->tensor);

  if (h3_encoding_is_block (w->encoding)) {
    for (gint64 i = 0; i < n; i += h3_encoding_info (w->encoding)->block_bytes)
      tame_block (ops, w->encoding, q + i);
    return;
  }
  for (gint64 i = 0; i < n; i++)
    if (w->encoding != H3_ENCODING_INT8 && w->encoding != H3_ENCODING_NVFP4)
      q[i] &= 0xbf;
  if (!w->block_scale)
    return;
  q = w->block_scale->data;
  for (gint64 i = 0; i < h3_tensor_size (w->block_scale); i++)
    q[i] = w->encoding == H3_ENCODING_NVFP4 ? 0x28 + q[i] % 16 : 124 + q[i] % 4;
}

static H3Tensor *
random_bytes (Ops *ops, gint64 rows, gint64 cols)
{
  H3Tensor *t = ops_new (ops, H3_DTYPE_U8, DIMS (rows, cols));
  guint64 x =
      g_rand_int (ops->rand) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) + 1;

  /* xorshift: the largest have 10^8 bytes */
  for (gint64 i = 0; i < rows * cols; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    ((guint8 *) t->data)[i] = x >> 40;
  }
  return h3_tensor_ref (t);
}

H3Weight *
ops_encoded (Ops *ops, H3Encoding encoding, gint64 rows, gint64 cols)
{
  const H3EncodingInfo *info = h3_encoding_info (encoding);
  H3Weight *w = h3_weight_new_encoded (encoding, rows, cols);

  w->tensor = random_bytes (ops, rows, h3_encoding_row_bytes (encoding, cols));
  if (info->scale)
    w->scale = h3_tensor_ref (ops_random (ops, H3_DTYPE_F32, 1, DIMS (rows)));
  if (info->scale_block)
    w->block_scale = random_bytes (ops, rows,
        (cols + info->scale_block - 1) / info->scale_block);
  tame (ops, w);
  return w;
}
