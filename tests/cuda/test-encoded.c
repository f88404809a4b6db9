/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Encoded weights on the GPU against the CPU, which computes with what they
 * stand for in float32. The GPU rounds that once to x's type. */
#include "tests/cuda/test-cuda.h"

#include "model/blocks.h"

static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

#define ALL(e) (H3Encoding e = H3_ENCODING_E4M3; e < H3_ENCODING_STACKED; e++)

/* The same on the GPU, at the end of memory of its own that begins a few
 * elements earlier. */
static H3Tensor *
tensor_on_gpu (CudaTest *t, const H3Tensor *from)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) memory = NULL;
  gint64 first = ops_pick (&t->ops, 0, 7);
  H3Tensor *view;

  if (!from)
    return NULL;
  if (first % 2) /* half of them are aligned */
    first = 0;
  memory = h3_tensor_new_1d (t->gpu->device, from->dtype,
      first + h3_tensor_size (from), &error);
  g_assert_no_error (error);
  view = h3_tensor_view (memory, first, from->rank, from->shape);
  h3_upload (t->gpu, view, from->data);
  h3_stream_synchronize (t->gpu, &error);
  g_assert_no_error (error);
  return view;
}

static H3Weight *
weight_on_gpu (CudaTest *t, const H3Weight *w)
{
  H3Weight *parts[3], *gpu;
  guint n = 0;

  if (w->encoding == H3_ENCODING_PLAIN)
    return h3_weight_new_plain (tensor_on_gpu (t, w->tensor));
  if (w->encoding == H3_ENCODING_STACKED) {
    for (; n < G_N_ELEMENTS (parts) && w->parts[n]; n++)
      parts[n] = weight_on_gpu (t, w->parts[n]);
    return h3_weight_new_stacked (parts, n);
  }
  gpu = h3_weight_new_encoded (w->encoding, w->rows, w->cols);
  gpu->tensor = tensor_on_gpu (t, w->tensor);
  gpu->scale = tensor_on_gpu (t, w->scale);
  gpu->block_scale = tensor_on_gpu (t, w->block_scale);
  gpu->column_scale = tensor_on_gpu (t, w->column_scale);
  gpu->rotation = w->rotation;
  gpu->full_precision = w->full_precision;
  return gpu;
}

/* One that is to be computed with as it is decoded: what a GPU does in the
 * encoding's own arithmetic has other tests. */
static H3Weight *
make (CudaTest *t, H3Encoding encoding, gint64 rows, gint64 cols,
    guint rotation, gboolean columns)
{
  H3Weight *w = ops_encoded (&t->ops, encoding, rows, cols);

  w->rotation = rotation;
  w->full_precision = TRUE;
  if (columns)
    w->column_scale =
        h3_tensor_ref (ops_random (&t->ops, H3_DTYPE_F32, 1, DIMS (cols)));
  return w;
}

/* Takes @w. Two roundings of 16 bits, the weight's and the result's; a bias has
 * one, too. Of float32, a few numbers may cancel each other. */
static void
try_linear (CudaTest *t, H3Weight *w, H3DType tx, H3DType ty, gint m,
    gboolean bias, gboolean accumulate, H3Activation activation)
{
  g_autoptr (H3Weight) cpu = w;
  g_autoptr (H3Weight) gpu = weight_on_gpu (t, w);
  Twin *x = twin_random (t, tx, 1, DIMS (m, w->cols));
  Twin *b = twin_random (t, H3_DTYPE_F32, 1, DIMS (w->rows));
  Twin *y = accumulate ? twin_random (t, ty, 1, DIMS (m, w->rows))
                       : twin_out (t, ty, DIMS (m, w->rows));
  g_autofree gchar *what = g_strdup_printf (
      "linear %s by %s of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
      ", rotation %u, to %s of %d rows, bias %d, accumulate %d, activation %d",
      h3_dtype_name (tx), h3_encoding_info (w->encoding)->name, w->rows,
      w->cols, w->rotation, h3_dtype_name (ty), m, bias, accumulate,
      activation);

  h3_linear (t->ops.stream, &(H3LinearArgs){ y->cpu, x->cpu, cpu,
                                bias ? b->cpu : NULL, activation, accumulate });
  h3_linear (t->gpu, &(H3LinearArgs){ y->gpu, x->gpu, gpu, bias ? b->gpu : NULL,
                         activation, accumulate });
  twin_check (t, what, y,
      1.5 * twin_tolerance (tx) + (bias ? 1.5 : 1) * twin_tolerance (ty) +
          (w->cols > 256 ? 0 : 2e-5));
}

static void
test_linear (CudaTest *t)
{
  guint i = 0;

  for
    ALL (e)
    {
      gint block = h3_encoding_is_block (e) ? h3_encoding_info (e)->block : 1;
      const gint sizes[][3] = { { 1, 1, block }, { 3, 40, 3 * block },
        { 70, 90, block > 1 ? 5 * block : 33 }, { 5, 70, 2304 },
        { 130, 264, 1280 } };

      for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
        for (guint type = 0; type < 3; type++, i++) {
          const gint *n = sizes[s];
          H3DType tx = types[type], ty = i % 7 == 3 ? H3_DTYPE_F32 : tx;
          gboolean accumulate = i % 4 == 3;

          try_linear (t, make (t, e, n[1], n[2], 1, block == 1 && i % 3 == 0),
              tx, ty, n[0], i % 2, accumulate,
              /* of one number, what an activation leaves may be next to 0 */
              accumulate || s == 0 ? H3_ACTIVATION_NONE : i / 2 % 4);
        }
    }
}

static void
test_rotation (CudaTest *t)
{
  static const gint sizes[][2] = { { 4, 4 }, { 4, 12 }, { 4, 1028 }, { 16, 16 },
    { 16, 2320 }, { 64, 2688 }, { 256, 256 }, { 256, 1792 }, { 1024, 1024 },
    { 1024, 3072 } };

  for (guint i = 0; i < 3 * G_N_ELEMENTS (sizes); i++) {
    const gint *s = sizes[i / 3];

    try_linear (t, make (t, H3_ENCODING_INT8, 37, s[1], s[0], i % 2),
        types[i % 3], types[i % 3], 9, FALSE, FALSE, H3_ACTIVATION_NONE);
  }
}

/* More than H3_CUDA_DECODED at once: 80 000 000 numbers, in blocks of rows. */
static void
test_blocks (CudaTest *t)
{
  try_linear (t, make (t, H3_ENCODING_E4M3, 4000, 20000, 1, FALSE),
      H3_DTYPE_BF16, H3_DTYPE_BF16, 2, TRUE, FALSE, H3_ACTIVATION_NONE);
  try_linear (t, make (t, H3_ENCODING_Q4_K, 80001, 1024, 1, FALSE),
      H3_DTYPE_BF16, H3_DTYPE_BF16, 3, TRUE, FALSE, H3_ACTIVATION_SILU);
}

/* Rows of plain matrices between those of blocks. */
static H3Weight *
stacked (CudaTest *t, H3DType dtype, gint64 cols)
{
  H3Weight *parts[] = { make (t, H3_ENCODING_Q4_K, 70, cols, 1, FALSE),
    h3_weight_new_plain (
        h3_tensor_ref (ops_random (&t->ops, dtype, 1, DIMS (9, cols)))),
    make (t, H3_ENCODING_Q6_K, 33, cols, 1, FALSE) };

  return h3_weight_new_stacked (parts, 3);
}

static void
test_stacked (CudaTest *t)
{
  for (guint i = 0; i < 9; i++)
    try_linear (t, stacked (t, types[i / 3], 1280), types[i % 3], types[i % 3],
        20, i % 2, FALSE, i % 2 ? H3_ACTIVATION_NONE : H3_ACTIVATION_SILU);
}

static void
test_swiglu (CudaTest *t)
{
  static const gint sizes[][2] = { { 1, 8 }, { 37, 41 }, { 256, 128 } };

  for (guint i = 0; i < 9 * G_N_ELEMENTS (sizes); i++) {
    const gint m = sizes[i / 9][0], f = sizes[i / 9][1];
    H3DType type = types[i % 3];
    H3Weight *parts[2];
    g_autoptr (H3Weight) cpu = NULL;
    g_autoptr (H3Weight) gpu = NULL;
    Twin *x = twin_random (t, type, 0.05, DIMS (m, 512));
    Twin *b = twin_random (t, H3_DTYPE_F32, 1, DIMS (2 * f));
    Twin *y = twin_out (t, type, DIMS (m, f));
    Twin *both = twin_out (t, type, DIMS (m, 2 * f));
    gboolean bias = i % 2;

    if (i / 3 % 3 == 0) {
      parts[0] = make (t, H3_ENCODING_Q5_K, f, 512, 1, FALSE);
      parts[1] = make (t, H3_ENCODING_Q8_0, f, 512, 1, FALSE);
      cpu = h3_weight_new_stacked (parts, 2);
    } else {
      cpu = make (t, i / 3 % 3 == 1 ? H3_ENCODING_NVFP4 : H3_ENCODING_Q8_0,
          2 * f, 512, 1, FALSE);
    }
    gpu = weight_on_gpu (t, cpu);
    h3_linear_swiglu (t->ops.stream, &(H3LinearSwigluArgs){ y->cpu, x->cpu, cpu,
                                         bias ? b->cpu : NULL, both->cpu });
    h3_linear_swiglu (t->gpu, &(H3LinearSwigluArgs){ y->gpu, x->gpu, gpu,
                                  bias ? b->gpu : NULL, both->gpu });
    twin_check (t, "linear_swiglu of an encoded weight", y,
        4 * twin_tolerance (type));
  }
}

/* Takes @w. */
static void
try_embedding (CudaTest *t, H3Weight *w, H3DType type, gdouble tolerance)
{
  g_autoptr (H3Weight) cpu = w;
  g_autoptr (H3Weight) gpu = weight_on_gpu (t, w);
  Twin *ids = twin_rows (t, 20, w->rows);
  Twin *y = twin_out (t, type, DIMS (20, w->cols));
  g_autofree gchar *what =
      g_strdup_printf ("embedding of %" G_GINT64_FORMAT " columns in %s to %s",
          w->cols, h3_encoding_info (w->encoding)->name, h3_dtype_name (type));

  h3_embedding (t->ops.stream, y->cpu, cpu, ids->cpu);
  h3_embedding (t->gpu, y->gpu, gpu, ids->gpu);
  twin_check (t, what, y, tolerance);
}

static void
test_embedding (CudaTest *t)
{
  for
    ALL (e)
    {
      gint block = h3_encoding_is_block (e) ? h3_encoding_info (e)->block : 1;
      gint cols = block > 1 ? 5 * block : 1101;

      for (guint i = 0; i < 3; i++)
        try_embedding (t, make (t, e, 9, cols, 1, block == 1 && i == 1),
            types[i], i ? twin_tolerance (types[i]) : 2e-7);
    }
  for (guint i = 0; i < 3; i++)
    try_embedding (t, stacked (t, types[i], 768), H3_DTYPE_BF16,
        twin_tolerance (H3_DTYPE_BF16));
  try_embedding (t, make (t, H3_ENCODING_INT8, 9, 1536, 256, FALSE),
      H3_DTYPE_F32, 3e-7);
}

/* Every code of an element, and every scale of a block, NaN and all. */
static void
test_codes (CudaTest *t)
{
  static const H3Encoding encodings[] = { H3_ENCODING_E4M3, H3_ENCODING_E5M2,
    H3_ENCODING_INT8, H3_ENCODING_NVFP4, H3_ENCODING_MXFP8, H3_ENCODING_MXFP4,
    H3_ENCODING_GGUF_NVFP4 };

  for (guint i = 0; i < G_N_ELEMENTS (encodings); i++) {
    H3Weight *w = make (t, encodings[i], 256, 512, 1, FALSE);
    guint8 *q = w->tensor->data;
    gint64 width = h3_tensor_cols (w->tensor);

    for (gint64 k = 0; k < 256 * width && i < 3; k++)
      q[k] = k % width;
    for (gint64 row = 0; row < 256; row++) {
      if (w->scale)
        ops_f32 (w->scale)[row] = 0.25f;
      if (w->block_scale)
        memset ((guint8 *) w->block_scale->data +
                    row * h3_tensor_cols (w->block_scale),
            row, h3_tensor_cols (w->block_scale));
      if (h3_encoding_is_block (w->encoding))
        for (gint64 k = 0; k < width;
             k += h3_encoding_info (w->encoding)->block_bytes)
          memset (q + row * width + k, row,
              w->encoding == H3_ENCODING_MXFP4 ? 1 : 4);
    }
    /* numbers from 2^-128 to 2^127: to the bit */
    {
      g_autoptr (H3Weight) gpu = weight_on_gpu (t, w);
      g_autofree gint32 *all = g_new (gint32, 256);
      Twin *ids, *y = twin_out (t, H3_DTYPE_F32, DIMS (256, 512));
      g_autofree gfloat *got = NULL;

      for (gint k = 0; k < 256; k++)
        all[k] = k;
      ids = twin_of (t, H3_DTYPE_I32, all, DIMS (256));
      h3_embedding (t->ops.stream, y->cpu, w, ids->cpu);
      h3_embedding (t->gpu, y->gpu, gpu, ids->gpu);
      got = twin_values (t, y);
      for (gint k = 0; k < 256 * 512; k++) {
        gfloat want = ops_f32 (y->cpu)[k];

        if (isnan (want) ? !isnan (got[k]) : got[k] != want)
          g_error ("%s: row %d, column %d is %g, needs %g",
              h3_encoding_info (w->encoding)->name, k / 512, k % 512, got[k],
              want);
      }
      h3_weight_unref (w);
    }
  }
}

static void
test_bad_row (CudaTest *t)
{
  static const gint32 numbers[] = { 3, 9, -1, 0 };
  g_autoptr (H3Weight) cpu = stacked (t, H3_DTYPE_F32, 256);
  g_autoptr (H3Weight) gpu = weight_on_gpu (t, cpu);
  g_autoptr (GError) error = NULL;

  for (gint i = 1; i < 4; i++) {
    gint32 ids[] = { 0, numbers[i] == 9 ? (gint32) cpu->rows : numbers[i] };
    Twin *rows = twin_of (t, H3_DTYPE_I32, ids, DIMS (2));
    Twin *y = twin_out (t, H3_DTYPE_BF16, DIMS (2, 256));

    h3_embedding (t->gpu, y->gpu, gpu, rows->gpu);
    if (i == 3) {
      h3_stream_synchronize (t->gpu, &error);
      g_assert_no_error (error);
      continue;
    }
    g_assert_false (h3_stream_synchronize (t->gpu, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE);
    g_clear_error (&error);
  }
}

/* The same bytes every time, with a weight in one block or in several. */
static void
test_repeats (CudaTest *t)
{
  g_autoptr (H3Weight) cpu = make (t, H3_ENCODING_Q4_K, 1536, 512, 1, FALSE);
  g_autoptr (H3Weight) gpu = weight_on_gpu (t, cpu);
  Twin *x = twin_random (t, H3_DTYPE_BF16, 1, DIMS (1111, 512));
  Twin *y = twin_out (t, H3_DTYPE_BF16, DIMS (1111, 1536));
  g_autofree gfloat *first = NULL;

  for (gint i = 0; i < 3; i++) {
    g_autofree gfloat *values = NULL;

    h3_linear (t->gpu,
        &(H3LinearArgs){ .y = y->gpu, .x = x->gpu, .weight = gpu });
    values = twin_values (t, y);
    if (!first)
      first = g_steal_pointer (&values);
    else
      g_assert_cmpmem (first, 1111 * 1536 * 4, values, 1111 * 1536 * 4);
  }
}

void
add_encoded_tests (void)
{
  cuda_test_add ("/cuda/encoded/linear", test_linear);
  cuda_test_add ("/cuda/encoded/rotation", test_rotation);
  cuda_test_add ("/cuda/encoded/blocks", test_blocks);
  cuda_test_add ("/cuda/encoded/stacked", test_stacked);
  cuda_test_add ("/cuda/encoded/swiglu", test_swiglu);
  cuda_test_add ("/cuda/encoded/embedding", test_embedding);
  cuda_test_add ("/cuda/encoded/codes", test_codes);
  cuda_test_add ("/cuda/encoded/bad-row", test_bad_row);
  cuda_test_add ("/cuda/encoded/repeats", test_repeats);
}
