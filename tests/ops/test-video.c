/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Latents to tokens, tiles to frames, frames to pictures. */
#include "tests/ops/ops-test.h"

static void
test_latent_tile (Ops *ops)
{
  for (gint i = 0; i < 12; i++) {
    gint c = ops_pick (ops, 1, 24), frames = ops_pick (ops, 1, 9);
    gint h = ops_pick (ops, 1, 9), w = ops_pick (ops, 1, 9);
    H3LatentTileArgs a = { .t = 7,
      .h = ops_pick (ops, 1, h),
      .w = ops_pick (ops, 1, w),
      .t0 = ops_pick (ops, 0, 10) };
    gdouble *want;

    a.y0 = ops_pick (ops, 0, h - a.h);
    a.x0 = ops_pick (ops, 0, w - a.w);
    a.latent = ops_random (ops, H3_DTYPE_F32, 1, DIMS (c, frames, h, w));
    a.mean = ops_random (ops, H3_DTYPE_F32, 1, DIMS (c));
    a.std = ops_random (ops, H3_DTYPE_F32, 1, DIMS (c));
    a.y = ops_new (ops, H3_DTYPE_F32, DIMS (7 * a.h * a.w, c));
    want = g_new (gdouble, h3_tensor_size (a.y));
    for (gint k = 0; k < h3_tensor_size (a.y); k++) {
      gint n = k / c, channel = k % c, t = a.t0 + n / (a.h * a.w);
      gint at = ((channel * frames + MIN (t, frames - 1)) * h + a.y0 +
                    n / a.w % a.h) *
                    w +
                a.x0 + n % a.w;
      want[k] = (gfloat) (ops_f32 (a.latent)[at] * ops_f32 (a.std)[channel]) +
                ops_f32 (a.mean)[channel];
      want[k] = (gfloat) want[k];
    }
    h3_latent_tile (ops->stream, &a);
    ops_check (ops, a.y, want, 0);
  }
}

static void
test_video_rows (Ops *ops)
{
  gint c = 5, t = 3, h = 6, w = 4;
  H3Tensor *latent = ops_new (ops, H3_DTYPE_F32, DIMS (c, t, h, w));
  H3Tensor *rows =
      ops_random (ops, H3_DTYPE_F32, 1, DIMS (t * h * w / 4, 4 * c));
  gdouble *want = g_new (gdouble, c * t * h * w);

  for (gint k = 0; k < c * t * h * w; k++) {
    gint x = k % w, y = k / w % h, f = k / w / h % t, channel = k / w / h / t;
    gint row = (f * (h / 2) + y / 2) * (w / 2) + x / 2;
    want[k] = ops_at (rows, row * 4 * c + channel * 4 + y % 2 * 2 + x % 2);
  }
  h3_video_rows_to_latent (ops->stream, latent, rows);
  ops_check (ops, latent, want, 0);
}

/* video-vae.md 8.1, with smaller tiles */
static void
lay_out (H3TileAxis *axis, gint length, gint tile, gint least, gint patch)
{
  gint n = (length + tile - 1) / tile, rest;

  memset (axis, 0, sizeof *axis);
  axis->length = length;
  axis->tile = MIN (tile, length);
  axis->n = 1;
  if (length <= tile)
    return;
  while (tile * n - least * (n - 1) < length)
    n++;
  axis->n = n;
  rest = (tile * n - least * (n - 1) - length) / patch;
  for (gint k = 0; k < n - 1; k++)
    axis->overlap[k] = least;
  for (gint u = 0; u < rest; u++)
    axis->overlap[u % (n - 1)] += patch;
  for (gint k = 0; k < n - 1; k++)
    axis->start[k + 1] = axis->start[k] + tile - axis->overlap[k];
  g_assert_cmpint (axis->start[n - 1] + tile, ==, length);
}

static gdouble
tile_pixel (const H3ComposeTilesArgs *a, gint i, gint j, gint c, gint f, gint y,
    gint x)
{
  gint p = a->patch, iy = y - a->axis_y->start[i];
  gint ix = x - a->axis_x->start[j];
  gint token = (f / a->patch_t * (a->axis_y->tile / p) + iy / p) *
                   (a->axis_x->tile / p) +
               ix / p;
  gint column = ((c * a->patch_t + f % a->patch_t) * p + iy % p) * p + ix % p;

  return ops_at (a->tiles,
      ((gint64) (i * a->axis_x->n + j) * a->tiles->shape[1] + token) *
              a->tiles->shape[2] +
          column);
}

static gint
owner (const H3TileAxis *axis, gint at)
{
  gint k = axis->n - 1;

  while (axis->start[k] > at)
    k--;
  return k;
}

static gdouble
raw (const H3ComposeTilesArgs *a, gint c, gint f, gint y, gint x)
{
  gint i = owner (a->axis_y, y), j = owner (a->axis_x, x);
  gdouble t = tile_pixel (a, i, j, c, f, y, x);

  if (i > 0 && y - a->axis_y->start[i] < a->axis_y->overlap[i - 1]) {
    gdouble w = (gdouble) (y - a->axis_y->start[i]) / a->axis_y->overlap[i - 1];
    t = (1 - w) * tile_pixel (a, i - 1, j, c, f, y, x) + w * t;
  }
  if (j > 0 && x - a->axis_x->start[j] < a->axis_x->overlap[j - 1]) {
    gdouble w = (gdouble) (x - a->axis_x->start[j]) / a->axis_x->overlap[j - 1];
    t = (1 - w) * tile_pixel (a, i, j - 1, c, f, y, x) + w * t;
  }
  return t;
}

static gdouble
separable (const H3TileAxis *axis, gint j, gint x)
{
  gdouble v = 1;

  if (x < axis->start[j] || x >= axis->start[j] + axis->tile)
    return 0;
  for (gint k = j; k < axis->n && axis->start[k] <= x; k++) {
    gdouble r =
        k == 0 ? 1
               : CLAMP ((gdouble) (x - axis->start[k]) / axis->overlap[k - 1],
                     0, 1);
    v *= k == j ? r : 1 - r;
  }
  return v;
}

static gdouble
composited (const H3ComposeTilesArgs *a, gint c, gint f, gint y, gint x)
{
  gdouble v = 0;

  for (gint i = 0; i < a->axis_y->n; i++)
    for (gint j = 0; j < a->axis_x->n; j++) {
      gdouble w = separable (a->axis_y, i, y) * separable (a->axis_x, j, x);
      if (w > 0)
        v += w * tile_pixel (a, i, j, c, f, y, x);
    }
  return v;
}

static void
try_compose (Ops *ops, gint height, gint width, gint tile, gint least,
    gint patch, gint patch_t, gint first, gint frames)
{
  H3TileAxis ay, ax;
  H3ComposeTilesArgs a = { .axis_y = &ay,
    .axis_x = &ax,
    .patch = patch,
    .patch_t = patch_t,
    .first_frame = first };
  gint channels = patch > 1 ? 3 : 8; /* pixels, moments */
  gint tokens;

  lay_out (&ay, height, tile, least, patch);
  lay_out (&ax, width, tile, least, patch);
  tokens = (first + frames + patch_t - 1) / patch_t * (ay.tile / patch) *
           (ax.tile / patch);
  /* the suffix tokens come after a tile's own */
  a.tiles = ops_random (ops, H3_DTYPE_F32, 1,
      DIMS (ay.n * ax.n, tokens + 5, channels * patch_t * patch * patch));
  a.y = ops_new (ops, H3_DTYPE_F32, DIMS (channels, frames, height, width));
  for (gint mode = 0; mode < 2; mode++) {
    gdouble *want = g_new (gdouble, h3_tensor_size (a.y));

    a.composition = mode;
    for (gint k = 0; k < h3_tensor_size (a.y); k++) {
      gint x = k % width, y = k / width % height;
      gint f = k / width / height % frames + first;
      gint c = k / width / height / frames;
      want[k] = mode == H3_COMPOSITION_RAW ? raw (&a, c, f, y, x)
                                           : composited (&a, c, f, y, x);
    }
    h3_compose_tiles (ops->stream, &a);
    ops_check (ops, a.y, want, 5e-7);
  }
}

static void
test_compose (Ops *ops)
{
  try_compose (ops, 8, 12, 16, 4, 4, 2, 0, 3);
  try_compose (ops, 40, 28, 16, 4, 4, 2, 3, 3);
  try_compose (ops, 64, 16, 16, 4, 2, 1, 0, 2);
  /* overlaps that exceed half a tile: three tiles at one place */
  try_compose (ops, 30, 30, 16, 4, 2, 4, 3, 2);
  try_compose (ops, 32, 96, 256, 64, 16, 4, 3, 17);
  try_compose (ops, 21, 40, 16, 4, 1, 1, 0, 5);
}

static void
test_blend (Ops *ops)
{
  gint frames = 9, n = 5, h = 3, w = 7;
  H3BlendFramesArgs a = { .y = ops_random (ops, H3_DTYPE_F32, 1,
                              DIMS (3, frames, h, w)),
    .previous = ops_random (ops, H3_DTYPE_F32, 1, DIMS (3, n, h, w)) };
  gdouble *want = g_new (gdouble, 3 * frames * h * w);

  for (gint i = 0; i < 3 * frames * h * w; i++) {
    gint k = i / w / h % frames, c = i / w / h / frames;

    want[i] = ops_at (a.y, i);
    if (k < n)
      want[i] = ops_at (a.previous, (c * n + k) * h * w + i % (h * w)) *
                    (1 - k / 5.0) +
                want[i] * (k / 5.0);
  }
  h3_blend_frames (ops->stream, &a);
  ops_check (ops, a.y, want, 2e-7);
}

static const gfloat rgb_mean[3] = { 0.485f, 0.456f, 0.406f };
static const gfloat rgb_std[3] = { 0.229f, 0.224f, 0.225f };

static gdouble
unit_value (const H3EmitPictureArgs *a, gint c, gint x, gint y)
{
  gint w = a->picture.width, h = a->picture.height;
  gint64 at =
      ((c * a->pixels->shape[1] + a->frame) * h + CLAMP (y, 0, h - 1)) * w +
      CLAMP (x, 0, w - 1);
  gdouble v = (gfloat) (ops_f32 (a->pixels)[at] * a->std[c]) + a->mean[c];

  return isnan (v) ? 0 : CLAMP (v, 0, 1);
}

/* plane 0: Y, 1: Cb, 2: Cr, before rounding */
static gdouble
yuv (const H3EmitPictureArgs *a, gint plane, gint x, gint y)
{
  gdouble r = unit_value (a, 0, x, y), g = unit_value (a, 1, x, y);
  gdouble b = unit_value (a, 2, x, y);
  gdouble l = 0.2126 * r + 0.7152 * g + 0.0722 * b;

  return plane == 0   ? 16 + 219 * l
         : plane == 1 ? 128 + 224 * (b - l) / 1.8556
                      : 128 + 224 * (r - l) / 1.5748;
}

static gdouble
chroma (const H3EmitPictureArgs *a, gint plane, gint x, gint y)
{
  gdouble sum = 0;

  for (gint dy = 0; dy < 2; dy++)
    sum += yuv (a, plane, 2 * x - 1, 2 * y + dy) +
           2 * yuv (a, plane, 2 * x, 2 * y + dy) +
           yuv (a, plane, 2 * x + 1, 2 * y + dy);
  return sum / 8;
}

/* Equal to the code but where float and double fall on two sides of a tie. */
static void
assert_code (const H3EmitPictureArgs *a, guint8 got, gdouble want)
{
  gdouble code = a->quantize == H3_QUANTIZE_ROUND ? rint (want) : trunc (want);

  if (fabs (got - code) > 0 &&
      (fabs (got - code) > 1 || fabs (want - rint (want * 2) / 2) > 1e-4))
    g_error ("code %d, needs %.6f", got, want);
}

static void
check_picture (Ops *ops, const H3EmitPictureArgs *a, const guint8 *memory,
    gsize size)
{
  const H3Picture *p = &a->picture;
  gboolean half = p->format == H3_PICTURE_NV12 || p->format == H3_PICTURE_I420;
  gint step = p->format == H3_PICTURE_RGBA ? 4 : 3;

  for (gint y = 0; y < p->height; y++)
    for (gint x = 0; x < p->width; x++) {
      const guint8 *row = (const guint8 *) p->plane[0] + y * p->stride[0];

      if (p->format >= H3_PICTURE_RGB) {
        for (gint c = 0; c < 3; c++)
          assert_code (a, row[x * step + c], 255 * unit_value (a, c, x, y));
        if (step == 4)
          g_assert_cmpint (row[4 * x + 3], ==, 255);
        continue;
      }
      assert_code (a, row[x], yuv (a, 0, x, y));
      for (gint plane = 1; plane < 3; plane++) {
        gint at = p->format == H3_PICTURE_NV12 ? 1 : plane;
        const guint8 *line =
            (const guint8 *) p->plane[at] + (half ? y / 2 : y) * p->stride[at];
        gint column = half ? x / 2 : x;

        if (p->format == H3_PICTURE_NV12)
          column = 2 * column + plane - 1;
        assert_code (a, line[column],
            half ? chroma (a, plane, x / 2, y / 2) : yuv (a, plane, x, y));
      }
    }
  g_byte_array_append (ops->out, memory, size);
}

/* Padding between rows and after planes stays as it was. */
static void
check_padding (const H3Picture *p, const guint8 *memory, gint size,
    const gint *widths, const gint *heights)
{
  for (gint i = 0; i < size; i++) {
    gboolean written = FALSE;

    for (gint k = 0; k < 3; k++) {
      gint at = p->plane[k] ? memory + i - (guint8 *) p->plane[k] : -1;

      written |= at >= 0 && at / MAX (p->stride[k], 1) < heights[k] &&
                 at % p->stride[k] < widths[k];
    }
    if (!written)
      g_assert_cmpint (memory[i], ==, 0xa5);
  }
}

static void
try_picture (Ops *ops, H3PictureFormat format, gint w, gint h,
    H3Quantize quantize)
{
  gint cw = (w + 1) / 2, ch = (h + 1) / 2;
  gint widths[5][3] = { { w, 2 * cw, 0 }, { w, cw, cw }, { w, w, w },
    { 3 * w, 0, 0 }, { 4 * w, 0, 0 } };
  gint heights[5][3] = { { h, ch, 0 }, { h, ch, ch }, { h, h, h }, { h, 0, 0 },
    { h, 0, 0 } };
  H3EmitPictureArgs a = {
    .picture = { .format = format, .width = w, .height = h },
    .frame = 1,
    .quantize = quantize
  };
  gint size = 64;
  g_autofree guint8 *memory = NULL;

  memcpy (a.mean, rgb_mean, sizeof rgb_mean);
  memcpy (a.std, rgb_std, sizeof rgb_std);
  a.pixels = ops_random (ops, H3_DTYPE_F32, 2.8, DIMS (3, 3, h, w));
  ops_f32 (a.pixels)[w * h] = NAN;
  ops_f32 (a.pixels)[w * h * 5 - 1] = -INFINITY;
  for (gint k = 0; k < 3; k++) {
    a.picture.stride[k] = widths[format][k] ? widths[format][k] + 5 : 0;
    size += a.picture.stride[k] * heights[format][k] + 16;
  }
  memory = g_malloc (size);
  memset (memory, 0xa5, size);
  size = 16;
  for (gint k = 0; k < 3; k++)
    if (widths[format][k]) {
      a.picture.plane[k] = memory + size;
      size += a.picture.stride[k] * heights[format][k] + 16;
    }
  h3_emit_picture (ops->stream, &a);
  g_assert_true (h3_stream_synchronize (ops->stream, NULL));
  check_picture (ops, &a, memory, size);
  check_padding (&a.picture, memory, size, widths[format], heights[format]);
}

static void
test_pictures (Ops *ops)
{
  static const gint sizes[][2] = { { 1, 1 }, { 2, 2 }, { 1, 5 }, { 5, 1 },
    { 7, 9 }, { 32, 10 }, { 96, 64 } };

  for (gint format = 0; format < 5; format++)
    for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
      try_picture (ops, format, sizes[i][0], sizes[i][1], i % 2);
}

/* Colours whose codes are known: BT.709's black, white, red, and grey. */
static void
test_known_colours (Ops *ops)
{
  static const gdouble colour[][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 1, 0, 0 },
    { 0, 0, 1 }, { 0.5, 0.5, 0.5 } };
  static const guint8 codes[][3] = { { 16, 128, 128 }, { 235, 128, 128 },
    { 63, 102, 240 }, { 32, 240, 118 }, { 126, 128, 128 } };

  for (guint i = 0; i < G_N_ELEMENTS (colour); i++) {
    guint8 y[4], uv[2];
    H3EmitPictureArgs a = { .picture = { .format = H3_PICTURE_NV12,
                                .width = 2,
                                .height = 2,
                                .plane = { y, uv },
                                .stride = { 2, 2 } },
      .std = { 1, 1, 1 } };

    a.pixels = ops_new (ops, H3_DTYPE_F32, DIMS (3, 1, 2, 2));
    for (gint k = 0; k < 12; k++)
      ops_f32 (a.pixels)[k] = colour[i][k / 4];
    h3_emit_picture (ops->stream, &a);
    g_assert_true (h3_stream_synchronize (ops->stream, NULL));
    for (gint k = 0; k < 4; k++)
      g_assert_cmpint (y[k], ==, codes[i][0]);
    g_assert_cmpint (uv[0], ==, codes[i][1]);
    g_assert_cmpint (uv[1], ==, codes[i][2]);
  }
}

/* 8-bit RGB goes through the network's domain and back unchanged. */
static void
test_round_trip (Ops *ops)
{
  guint8 out[3 * 256];
  H3EmitPictureArgs a = { .picture = { .format = H3_PICTURE_RGB,
                              .width = 256,
                              .height = 1,
                              .plane = { out },
                              .stride = { 3 * 256 } } };

  memcpy (a.mean, rgb_mean, sizeof rgb_mean);
  memcpy (a.std, rgb_std, sizeof rgb_std);
  a.pixels = ops_new (ops, H3_DTYPE_F32, DIMS (3, 1, 1, 256));
  for (gint k = 0; k < 768; k++)
    ops_f32 (a.pixels)[k] =
        ((k % 256) / 255.0f - rgb_mean[k / 256]) / rgb_std[k / 256];
  h3_emit_picture (ops->stream, &a);
  g_assert_true (h3_stream_synchronize (ops->stream, NULL));
  for (gint k = 0; k < 768; k++)
    g_assert_cmpint (out[k], ==, k / 3);
}

static void
test_tile_shapes (Ops *ops)
{
  H3Tensor *latent = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2, 1, 4, 4));
  H3Tensor *vector = ops_random (ops, H3_DTYPE_F32, 1, DIMS (2));
  H3Tensor *y = ops_new (ops, H3_DTYPE_F32, DIMS (16, 2));
  H3LatentTileArgs tile = { .y = y,
    .latent = latent,
    .mean = vector,
    .std = vector,
    .t = 1,
    .h = 4,
    .w = 4,
    .x0 = 1 };
  H3TileAxis ay, ax;
  H3ComposeTilesArgs compose = { .axis_y = &ay,
    .axis_x = &ax,
    .patch = 2,
    .patch_t = 1 };

  h3_latent_tile (ops->stream, &tile);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "a tile of 1 x 4 x 4 at (0, 0, 1) is "
      "not inside a latent of 1 x 4 x 4");
  tile.x0 = 0;
  tile.t = 2;
  h3_latent_tile (ops->stream, &tile);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "latent_tile: y is float32 [16, 2]");
  tile.h = G_MAXINT;
  h3_latent_tile (ops->stream, &tile);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "is not inside");
  h3_video_rows_to_latent (ops->stream, latent, y);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "video_rows_to_latent: rows is");

  lay_out (&ay, 40, 16, 4, 2);
  lay_out (&ax, 8, 16, 4, 2);
  compose.y = ops_new (ops, H3_DTYPE_F32, DIMS (3, 2, 40, 8));
  compose.tiles =
      ops_random (ops, H3_DTYPE_F32, 1, DIMS (ay.n, 2 * 8 * 4 - 1, 12));
  h3_compose_tiles (ops->stream, &compose);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "2 frames need 64 tokens a tile, found 63");
  ay.start[1] += 2;
  h3_compose_tiles (ops->stream, &compose);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "tile 1 does not follow tile 0");
  ay.n = H3_MAX_TILES + 1;
  h3_compose_tiles (ops->stream, &compose);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "do not cover 40 pixels");
  compose.patch = 0;
  h3_compose_tiles (ops->stream, &compose);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "is not possible");
}

static void
test_picture_shapes (Ops *ops)
{
  guint8 out[64];
  H3Tensor *frames = ops_random (ops, H3_DTYPE_F32, 1, DIMS (3, 2, 4, 4));
  H3Tensor *more = ops_random (ops, H3_DTYPE_F32, 1, DIMS (3, 3, 4, 4));
  H3EmitPictureArgs a = { .pixels = frames,
    .picture = { .format = H3_PICTURE_NV12,
        .width = 4,
        .height = 4,
        .plane = { out, out + 16 },
        .stride = { 4, 3 } } };

  h3_emit_picture (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "plane 1 has a stride of 3, needs 4 bytes");
  a.frame = 2;
  h3_emit_picture (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "frame 2 is not among 2");
  a.frame = 0;
  a.picture.format = 9;
  h3_emit_picture (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "no picture format 9");
  a.picture.width = 5;
  h3_emit_picture (ops->stream, &a);
  ops_fails (ops, H3_ERROR_WRONG_TYPE,
      "pixels is float32 [3, 2, 4, 4], needs to be float32 [3, any, 4, 5]");
  h3_blend_frames (ops->stream,
      &(H3BlendFramesArgs){ .y = frames, .previous = more });
  ops_fails (ops, H3_ERROR_WRONG_TYPE, "3 previous frames are more than");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ops_add ("/ops/video/latent-tile", test_latent_tile);
  ops_add ("/ops/video/rows-to-latent", test_video_rows);
  ops_add ("/ops/video/compose-tiles", test_compose);
  ops_add ("/ops/video/blend-frames", test_blend);
  ops_add ("/ops/video/pictures", test_pictures);
  ops_add ("/ops/video/pictures/known", test_known_colours);
  ops_add ("/ops/video/pictures/round-trip", test_round_trip);
  ops_add ("/ops/video/tile-shapes", test_tile_shapes);
  ops_add ("/ops/video/picture-shapes", test_picture_shapes);
  return g_test_run ();
}
