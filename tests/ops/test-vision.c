/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations of the vision tower. */
#include "tests/ops/ops-test.h"

#define F32(...) ops_random (ops, H3_DTYPE_F32, 1, DIMS (__VA_ARGS__))

static void
test_add_rows (Ops *ops)
{
  H3Tensor *x = F32 (40, 9), *y = F32 (50, 9);
  H3Tensor *rows = ops_new (ops, H3_DTYPE_I32, DIMS (40));
  gdouble *want = g_new (gdouble, 450);

  for (gint k = 0; k < 40; k++)
    ((gint32 *) rows->data)[k] = (k * 7 + 3) % 50;
  for (gint k = 0; k < 450; k++)
    want[k] = ops_at (y, k);
  for (gint k = 0; k < 360; k++)
    want[(gint) ops_at (rows, k / 9) * 9 + k % 9] += ops_at (x, k);
  h3_add_rows (ops->stream, y, x, rows);
  ops_check (ops, y, want, 1e-7);
}

static void
test_mix_rows (Ops *ops)
{
  static const H3DType types[] = { H3_DTYPE_F32, H3_DTYPE_F16, H3_DTYPE_BF16 };
  static const gint shape[][3] = { { 1, 1, 1 }, { 37, 33, 4 }, { 700, 32, 4 },
    { 5, 1152, 3 } };

  for (guint i = 0; i < 3 * G_N_ELEMENTS (shape); i++) {
    const gint n = shape[i / 3][0], h = shape[i / 3][1], k = shape[i / 3][2];
    g_autoptr (H3Weight) w = ops_weight (ops, types[i % 3], 1, DIMS (50, h));
    g_autoptr (H3Tensor) ids =
        h3_tensor_view (ops_rows (ops, n * k, 50), 0, 2, (gint64[]){ n, k });
    H3Tensor *y = F32 (n, h), *mix = F32 (n, k);
    gdouble *want = g_new (gdouble, n * h);

    for (gint a = 0; a < n * h; a++) {
      want[a] = ops_at (y, a);
      for (gint j = 0; j < k; j++)
        want[a] += ops_at (mix, a / h * k + j) *
                   ops_at (w->tensor,
                       (gint64) ops_at (ids, a / h * k + j) * h + a % h);
    }
    h3_mix_rows (ops->stream,
        &(H3MixRowsArgs){ .y = y, .weight = w, .ids = ids, .mix = mix });
    ops_check (ops, y, want, 1e-6);
  }
}

static H3Tensor *
random_pixels (Ops *ops, gint frames, gint height, gint width)
{
  H3Tensor *pixels =
      ops_new (ops, H3_DTYPE_U8, DIMS (frames, height, width, 3));

  for (gint64 i = 0; i < h3_tensor_size (pixels); i++)
    ((guint8 *) pixels->data)[i] = ops_pick (ops, 0, 255);
  return pixels;
}

/* Written from the pixel's side: where each of them goes. */
static void
test_patches (Ops *ops)
{
  static const gint shape[][4] = { /* frames, height, width, patch */
    { 1, 32, 32, 16 }, { 1, 64, 96, 16 }, { 2, 32, 64, 16 }, { 3, 64, 32, 16 },
    { 4, 8, 12, 2 }, { 5, 2, 2, 1 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (shape); i++) {
    const gint frames = shape[i][0], height = shape[i][1], width = shape[i][2];
    const gint p = shape[i][3], gh = height / p, gw = width / p;
    const gint blocks = (frames + 1) / 2, size = 6 * p * p;
    H3Tensor *pixels = random_pixels (ops, frames, height, width);
    H3Tensor *y = F32 (blocks * gh * gw, size);
    gdouble *want = g_new (gdouble, h3_tensor_size (y));

    for (gint f = 0; f < 2 * blocks; f++) {
      for (gint at = 0; at < height * width * 3; at++) {
        const gint c = at % 3, x = at / 3 % width, r = at / 3 / width;
        const gint group =
            (f / 2 * (gh / 2) + r / (2 * p)) * (gw / 2) + x / (2 * p);
        const gint patch = group * 4 + r / p % 2 * 2 + x / p % 2;
        const gint column = ((c * 2 + f % 2) * p + r % p) * p + x % p;

        want[(gsize) patch * size + column] =
            (ops_at (pixels,
                 (gsize) MIN (f, frames - 1) * height * width * 3 + at) -
                127.5) /
            127.5;
      }
    }
    h3_picture_patches (ops->stream,
        &(H3PicturePatchesArgs){ .y = y, .pixels = pixels, .patch = p });
    ops_check (ops, y, want, 1e-7);
  }
}

static void
test_shapes (Ops *ops)
{
  H3Tensor *x = F32 (4, 6), *y = F32 (4, 6), *odd = F32 (5);
  H3Tensor *rows = ops_rows (ops, 4, 4), *pixels;
  g_autoptr (H3Weight) w = ops_weight (ops, H3_DTYPE_F32, 1, DIMS (7, 6));
  g_autoptr (H3Tensor) ids = h3_tensor_view (rows, 0, 2, (gint64[]){ 4, 1 });
  H3MixRowsArgs mix = { .y = y, .weight = w, .ids = ids, .mix = F32 (4, 1) };
  H3PicturePatchesArgs patches = { .y = F32 (4, 96), .patch = 4 };

  ((gint32 *) rows->data)[3] = 7;
  h3_add_rows (ops->stream, y, x, rows);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "add_rows: row 3 names row 7, needs to be in 0 .. 3");
  h3_add_rows (ops->stream, odd, x, rows);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "add_rows: y is float32 [5]");
  h3_add_rows (ops->stream, y, x, x);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "add_rows: rows is float32 [4, 6]");
  h3_add_rows (ops->stream, y, y, rows);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "the output overlaps x");

  h3_mix_rows (ops->stream, &mix);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "mix_rows: row 3 names row 7");
  mix.mix = F32 (4, 2);
  h3_mix_rows (ops->stream, &mix);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "mix_rows: mix is float32 [4, 2]");
  mix.y = odd;
  h3_mix_rows (ops->stream, &mix);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "mix_rows: the weight is");

  patches.pixels = pixels = random_pixels (ops, 1, 8, 12);
  h3_picture_patches (ops->stream, &patches);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "frames of 12 x 8 cannot be cut into groups of 2 x 2 patches of 4");
  patches.patch = 0;
  h3_picture_patches (ops->stream, &patches);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "patches of 0");
  patches.patch = 2;
  h3_picture_patches (ops->stream, &patches);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "y is float32 [4, 96]");
  patches.pixels = x;
  h3_picture_patches (ops->stream, &patches);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "needs to be uint8");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/ops/vision/add-rows", test_add_rows);
  ops_add ("/ops/vision/mix-rows", test_mix_rows);
  ops_add ("/ops/vision/picture-patches", test_patches);
  ops_add ("/ops/vision/shapes", test_shapes);
  return g_test_run ();
}
