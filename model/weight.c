/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/tensor.h"

static const H3EncodingInfo infos[H3_N_ENCODINGS] = {
  [H3_ENCODING_PLAIN] = { "plain", 1, 0, FALSE, 0 },
  [H3_ENCODING_E4M3] = { "float8_e4m3fn", 1, 1, TRUE, 0 },
  [H3_ENCODING_E5M2] = { "float8_e5m2", 1, 1, TRUE, 0 },
  [H3_ENCODING_INT8] = { "int8_tensorwise", 1, 1, TRUE, 0 },
  [H3_ENCODING_NVFP4] = { "nvfp4", 16, 8, TRUE, 16 },
  [H3_ENCODING_MXFP8] = { "mxfp8", 32, 32, FALSE, 32 },
  [H3_ENCODING_Q4_0] = { "GGUF Q4_0", 32, 18, FALSE, 0 },
  [H3_ENCODING_Q4_1] = { "GGUF Q4_1", 32, 20, FALSE, 0 },
  [H3_ENCODING_Q5_0] = { "GGUF Q5_0", 32, 22, FALSE, 0 },
  [H3_ENCODING_Q5_1] = { "GGUF Q5_1", 32, 24, FALSE, 0 },
  [H3_ENCODING_Q8_0] = { "GGUF Q8_0", 32, 34, FALSE, 0 },
  [H3_ENCODING_Q2_K] = { "GGUF Q2_K", 256, 84, FALSE, 0 },
  [H3_ENCODING_Q3_K] = { "GGUF Q3_K", 256, 110, FALSE, 0 },
  [H3_ENCODING_Q4_K] = { "GGUF Q4_K", 256, 144, FALSE, 0 },
  [H3_ENCODING_Q5_K] = { "GGUF Q5_K", 256, 176, FALSE, 0 },
  [H3_ENCODING_Q6_K] = { "GGUF Q6_K", 256, 210, FALSE, 0 },
  [H3_ENCODING_IQ4_NL] = { "GGUF IQ4_NL", 32, 18, FALSE, 0 },
  [H3_ENCODING_IQ4_XS] = { "GGUF IQ4_XS", 256, 136, FALSE, 0 },
  [H3_ENCODING_MXFP4] = { "GGUF MXFP4", 32, 17, FALSE, 0 },
  [H3_ENCODING_GGUF_NVFP4] = { "GGUF NVFP4", 64, 36, FALSE, 0 },
  [H3_ENCODING_STACKED] = { "several encodings", 1, 0, FALSE, 0 },
};

const H3EncodingInfo *
h3_encoding_info (H3Encoding encoding)
{
  g_return_val_if_fail (encoding < H3_N_ENCODINGS, &infos[0]);
  return &infos[encoding];
}

gint64
h3_encoding_row_bytes (H3Encoding encoding, gint64 cols)
{
  const H3EncodingInfo *info = h3_encoding_info (encoding);

  return (cols / info->block + (cols % info->block != 0)) * info->block_bytes;
}

static H3Weight *
weight_new (H3Encoding encoding, gint64 rows, gint64 cols)
{
  H3Weight *weight = g_new0 (H3Weight, 1);

  g_atomic_ref_count_init (&weight->refcount);
  weight->encoding = encoding;
  weight->rows = rows;
  weight->cols = cols;
  weight->rotation = 1;
  return weight;
}

H3Weight *
h3_weight_new_plain (H3Tensor *tensor)
{
  H3Weight *weight;

  g_return_val_if_fail (tensor != NULL, NULL);
  weight = weight_new (H3_ENCODING_PLAIN, h3_tensor_rows (tensor),
      h3_tensor_cols (tensor));
  weight->tensor = tensor;
  return weight;
}

H3Weight *
h3_weight_new_encoded (H3Encoding encoding, gint64 rows, gint64 cols)
{
  g_return_val_if_fail (encoding != H3_ENCODING_PLAIN, NULL);
  return weight_new (encoding, rows, cols);
}

H3Weight *
h3_weight_new_stacked (H3Weight *const *parts, guint n)
{
  H3Weight *weight;

  g_return_val_if_fail (n >= 1 && n <= G_N_ELEMENTS (weight->parts), NULL);

  weight = weight_new (H3_ENCODING_STACKED, 0, parts[0]->cols);
  for (guint i = 0; i < n; i++) {
    weight->parts[i] = parts[i];
    weight->rows += parts[i]->rows;
  }
  return weight;
}

H3Weight *
h3_weight_ref (H3Weight *weight)
{
  g_return_val_if_fail (weight != NULL, NULL);
  g_atomic_ref_count_inc (&weight->refcount);
  return weight;
}

void
h3_weight_unref (H3Weight *weight)
{
  g_return_if_fail (weight != NULL);
  if (!g_atomic_ref_count_dec (&weight->refcount))
    return;
  g_clear_pointer (&weight->tensor, h3_tensor_unref);
  g_clear_pointer (&weight->scale, h3_tensor_unref);
  g_clear_pointer (&weight->block_scale, h3_tensor_unref);
  g_clear_pointer (&weight->column_scale, h3_tensor_unref);
  g_clear_pointer (&weight->down, h3_weight_unref);
  g_clear_pointer (&weight->up, h3_weight_unref);
  for (guint i = 0; i < G_N_ELEMENTS (weight->parts); i++)
    g_clear_pointer (&weight->parts[i], h3_weight_unref);
  g_free (weight);
}
