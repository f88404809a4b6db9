/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations of the vision tower, on the GPU against the CPU. */
#include "tests/cuda/test-cuda.h"

static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };

static void
test_add_rows (CudaTest *t)
{
  for (guint i = 0; i < 9; i++) {
    gint n = ops_pick (&t->ops, 1, 60), h = ops_pick (&t->ops, 1, 300);
    Twin *x = twin_random (t, types[i / 3], 1, DIMS (n, h));
    Twin *y = twin_random (t, types[i % 3], 1, DIMS (2 * n, h));
    g_autofree gint32 *odd = g_new (gint32, n);
    Twin *rows;

    for (gint k = 0; k < n; k++)
      odd[k] = 2 * (n - 1 - k) + k % 2;
    rows = twin_of (t, H3_DTYPE_I32, odd, DIMS (n));
    h3_add_rows (t->ops.stream, y->cpu, x->cpu, rows->cpu);
    h3_add_rows (t->gpu, y->gpu, x->gpu, rows->gpu);
    twin_check (t, "add_rows", y, twin_tolerance (types[i % 3]));
  }
}

static void
test_mix_rows (CudaTest *t)
{
  for (guint i = 0; i < 9; i++) {
    gint n = ops_pick (&t->ops, 1, 90);
    gint h = i == 8 ? 1152 : ops_pick (&t->ops, 1, 300);
    Twin *table = twin_random (t, types[i / 3], 1, DIMS (50, h));
    g_autofree gint32 *numbers = g_new (gint32, 4 * n);
    Twin *mix = twin_random (t, H3_DTYPE_F32, 1, DIMS (n, 4));
    Twin *y = twin_random (t, types[i % 3], 1, DIMS (n, h));
    g_autoptr (H3Weight) a = twin_weight_cpu (table);
    g_autoptr (H3Weight) b = twin_weight_gpu (table);
    Twin *ids;

    for (gint k = 0; k < 4 * n; k++)
      numbers[k] = ops_pick (&t->ops, 0, 49);
    ids = twin_of (t, H3_DTYPE_I32, numbers, DIMS (n, 4));
    h3_mix_rows (t->ops.stream,
        &(H3MixRowsArgs){ y->cpu, a, ids->cpu, mix->cpu });
    h3_mix_rows (t->gpu, &(H3MixRowsArgs){ y->gpu, b, ids->gpu, mix->gpu });
    twin_check (t, "mix_rows", y, twin_tolerance (types[i % 3]));
  }
}

static void
test_bad_rows (CudaTest *t)
{
  static const gint32 ids[] = { 1, 4, 0 };
  Twin *table = twin_random (t, H3_DTYPE_BF16, 1, DIMS (4, 9));
  Twin *rows = twin_of (t, H3_DTYPE_I32, ids, DIMS (3, 1));
  Twin *flat = twin_of (t, H3_DTYPE_I32, ids, DIMS (3));
  Twin *mix = twin_random (t, H3_DTYPE_F32, 1, DIMS (3, 1));
  Twin *y = twin_random (t, H3_DTYPE_F32, 1, DIMS (3, 9));
  g_autoptr (H3Weight) w = twin_weight_gpu (table);
  g_autoptr (GError) error = NULL;

  h3_mix_rows (t->gpu, &(H3MixRowsArgs){ y->gpu, w, rows->gpu, mix->gpu });
  g_assert_false (h3_stream_synchronize (t->gpu, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE);
  g_clear_error (&error);
  h3_add_rows (t->gpu, table->gpu, y->gpu, flat->gpu);
  g_assert_false (h3_stream_synchronize (t->gpu, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE);
  g_assert_true (h3_stream_synchronize (t->gpu, NULL));
}

static void
test_patches (CudaTest *t)
{
  static const gint shape[][4] = { /* frames, height, width, patch */
    { 1, 64, 96, 16 }, { 3, 64, 32, 16 }, { 4, 8, 12, 2 }, { 5, 2, 2, 1 }
  };

  for (guint i = 0; i < 3 * G_N_ELEMENTS (shape); i++) {
    const gint *s = shape[i / 3], p = s[3];
    const gint64 dims[] = { s[0], s[1], s[2], 3 };
    const gsize n = (gsize) s[0] * s[1] * s[2] * 3;
    g_autofree guint8 *pixels = g_malloc (n);
    g_autoptr (H3Tensor) a = NULL, b = NULL;
    Twin *y = twin_out (t, types[i % 3],
        DIMS ((s[0] + 1) / 2 * (s[1] / p) * (s[2] / p), 6 * p * p));

    for (gsize k = 0; k < n; k++)
      pixels[k] = ops_pick (&t->ops, 0, 255);
    a = h3_tensor_new_from_host (t->ops.device, H3_DTYPE_U8, 4, dims, pixels,
        NULL);
    b = h3_tensor_new_from_host (t->gpu->device, H3_DTYPE_U8, 4, dims, pixels,
        NULL);
    h3_picture_patches (t->ops.stream, &(H3PicturePatchesArgs){ y->cpu, a, p });
    h3_picture_patches (t->gpu, &(H3PicturePatchesArgs){ y->gpu, b, p });
    twin_check (t, "picture_patches", y,
        types[i % 3] == H3_DTYPE_F32 ? 0 : twin_tolerance (types[i % 3]));
  }
}

/* The tower's rotation, and heads that the fast kernel takes. */
static void
test_rope (CudaTest *t)
{
  static const gint heads[][2] = { { 72, 36 }, { 64, 32 }, { 16, 8 } };

  for (guint i = 0; i < 3 * G_N_ELEMENTS (heads); i++) {
    const gint d = heads[i / 3][0], rot = heads[i / 3][1];
    Twin *qkv = twin_random (t, types[i % 3], 2, DIMS (18, 3 * 16 * d));
    Twin *c = twin_random (t, H3_DTYPE_F32, 1, DIMS (6, rot));
    Twin *s = twin_random (t, H3_DTYPE_F32, 1, DIMS (6, rot));
    H3QkNormRopeArgs a = { .qkv = qkv->cpu,
      .heads = 16,
      .kv_heads = 16,
      .head_dim = d,
      .no_norm = TRUE,
      .cos = c->cpu,
      .sin = s->cpu };
    H3QkNormRopeArgs b = a;

    b.qkv = qkv->gpu;
    b.cos = c->gpu;
    b.sin = s->gpu;
    h3_qk_norm_rope (t->ops.stream, &a);
    h3_qk_norm_rope (t->gpu, &b);
    twin_check (t, "rotation", qkv, twin_tolerance (types[i % 3]));
  }
}

/* Its attention: heads of 72, short and long blocks, by our kernel (16-bit types,
 * causal or short), by cuDNN where there is one, and by plain loops. */
static void
test_attention (CudaTest *t)
{
  static const gint shape[][3] = { /* blocks, patches of a block, causal */
    { 1, 24, 0 }, { 3, 280, 0 }, { 2, 1100, 0 }, { 1, 1, 0 }, { 2, 65, 1 },
    { 1, 1030, 1 }
  };

  for (guint i = 0; i < 3 * G_N_ELEMENTS (shape); i++) {
    const gint *s = shape[i / 3], n = s[0] * s[1];
    const H3DType type = types[i % 3];
    Twin *qkv = twin_random (t, type, 2, DIMS (n, 3 * 2 * 72));
    Twin *y = twin_out (t, type, DIMS (n, 2 * 72));
    H3AttentionArgs a = { .y = y->cpu,
      .qkv = qkv->cpu,
      .heads = 2,
      .kv_heads = 2,
      .head_dim = 72,
      .n_sequences = s[0],
      .causal = s[2],
      .scale = 1 / sqrt (72) };
    H3AttentionArgs b = a;

    b.y = y->gpu;
    b.qkv = qkv->gpu;
    h3_attention (t->ops.stream, &a);
    h3_attention (t->gpu, &b);
    twin_check (t, "attention", y, 2 * twin_tolerance (type));
  }
}

void
add_vision_tests (void)
{
  cuda_test_add ("/cuda/vision/add-rows", test_add_rows);
  cuda_test_add ("/cuda/vision/mix-rows", test_mix_rows);
  cuda_test_add ("/cuda/vision/bad-rows", test_bad_rows);
  cuda_test_add ("/cuda/vision/picture-patches", test_patches);
  cuda_test_add ("/cuda/vision/rope", test_rope);
  cuda_test_add ("/cuda/vision/attention", test_attention);
}
