/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Against the numbers of video-vae.md 15: two small models whose weights follow
 * from their names, computed there with the release's modules. */
#include <math.h>
#include <string.h>

#include "fill-model.h"
#include "test-video.h"
#include "tests/tools/h3-test-device.h"

typedef struct {
  gint at[4]; /* channel, time, row, column */
  gdouble value;
} Sample;

typedef struct {
  gdouble sum, sum_abs;
  Sample samples[10];
} Expected;

/* The sums were made of float32 and are printed to two places. */
static void
assert_clip (const Clip *clip, const gint shape[3], const Expected *expected)
{
  gsize n = (gsize) 3 * clip->frames * clip->height * clip->width;
  gdouble sum = 0, sum_abs = 0;

  g_assert_cmpint (clip->frames, ==, shape[0]);
  g_assert_cmpint (clip->height, ==, shape[1]);
  g_assert_cmpint (clip->width, ==, shape[2]);
  for (gsize i = 0; i < n; i++) {
    sum += clip->pixels[i];
    sum_abs += fabs (clip->pixels[i]);
  }
  g_test_message ("sum %.3f (%.3f), sum of magnitudes %.3f (%.3f)", sum,
      expected->sum, sum_abs, expected->sum_abs);
  g_assert_cmpfloat_with_epsilon (sum, expected->sum,
      h3_test_tolerance (1e-6, 1e-3) * expected->sum_abs);
  g_assert_cmpfloat_with_epsilon (sum_abs, expected->sum_abs,
      h3_test_tolerance (1e-6, 1e-3) * expected->sum_abs);
  for (guint i = 0; i < G_N_ELEMENTS (expected->samples); i++) {
    const Sample *s = &expected->samples[i];

    if (s->value == 0)
      break;
    g_assert_cmpfloat_with_epsilon (clip_at (clip, s->at[0], s->at[1], s->at[2],
                                        s->at[3]),
        s->value, h3_test_tolerance (2e-5, 1e-2));
  }
}

static H3VideoVae *
load_fill_model (const FillGeometry *geometry)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (geometry);
  gchar *dir = fill_write_official (geometry, tensors, FILL_F32, NULL);
  H3VideoVae *vae = test_vae (dir);

  fill_delete (dir);
  return vae;
}

/* [C, T, h, w] out of "latent" of [4, 12, 10, 18]. */
static gfloat *
cut_latent (gint t, gint h, gint w)
{
  g_autofree gfloat *whole = fill_latent (4, 12, 10, 18);
  gfloat *cut = g_new (gfloat, 4 * t * h * w);
  gfloat *to = cut;

  for (gint c = 0; c < 4; c++)
    for (gint i = 0; i < t; i++)
      for (gint y = 0; y < h; y++, to += w)
        memcpy (to, whole + ((c * 12 + i) * 10 + y) * 18, w * sizeof *to);
  return cut;
}

static void
test_fill_rule (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&fill_model_a);
  g_autofree gfloat *latent = fill_latent (4, 12, 10, 18);
  static const gdouble u[] = { 0.58555043, 0.43528342, 0.97576803 };
  static const gint64 conv_in[] = { 32, 3, 3, 3, 3 };
  FillTensor *tensor;

  for (guint i = 0; i < G_N_ELEMENTS (u); i++)
    g_assert_cmpfloat_with_epsilon (latent[i], 1.5 * (2 * u[i] - 1), 1e-6);
  tensor = fill_find (tensors, "decoder.transformer_blocks.0.norm1.weight");
  g_assert_cmpfloat_with_epsilon (tensor->values[0], 0.9328311, 1e-6);
  tensor = fill_find (tensors, "decoder.transformer_blocks.0.scale1");
  g_assert_cmpfloat_with_epsilon (tensor->values[0], 0.29417425, 1e-6);
  fill_add (tensors, "encoder.conv_in.weight", 5, conv_in);
  tensor = fill_find (tensors, "encoder.conv_in.weight");
  g_assert_cmpfloat_with_epsilon (tensor->values[0], 0.14667846, 1e-6);
  g_assert_cmpfloat_with_epsilon (tensor->values[2], -0.0600875, 1e-6);
}

/* All 28 raw frames of a window, of which a clip never shows some. */
typedef struct {
  H3Stream *stream;
  H3TileAxis axis_y, axis_x;
  gint n_windows;
  Clip *clip;
} RawWindow;

static void
tap_tiles (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  RawWindow *raw = user_data;
  gint height = raw->axis_y.length, width = raw->axis_x.length;
  gint64 n_tiles = raw->axis_y.n * raw->axis_x.n;
  gint64 rows = h3_tensor_rows (value) / n_tiles;
  g_autoptr (H3Tensor) tiles = NULL;
  g_autoptr (H3Tensor) pixels = NULL;

  if (!g_str_equal (name, "decoder.proj_out"))
    return;
  tiles = h3_tensor_view ((H3Tensor *) value, 0, 3,
      (const gint64[]){ n_tiles, rows, h3_tensor_cols (value) });
  pixels = h3_tensor_new (test_device (), H3_DTYPE_F32, 4,
      (const gint64[]){ 3, 28, height, width }, NULL);
  h3_compose_tiles (raw->stream, &(H3ComposeTilesArgs){ .y = pixels,
                                     .tiles = tiles,
                                     .axis_y = &raw->axis_y,
                                     .axis_x = &raw->axis_x,
                                     .patch_t = 4,
                                     .patch = 4 });
  raw->clip->frames = 28;
  raw->clip->height = height;
  raw->clip->width = width;
  raw->clip->pixels = g_new (gfloat, 3 * 28 * height * width);
  h3_download (raw->stream, raw->clip->pixels, pixels);
  g_assert_true (h3_stream_synchronize (raw->stream, NULL));
  raw->n_windows++;
}

static Clip *
decode_raw_window (H3VideoVae *vae, gint h, gint w)
{
  g_autofree gfloat *values = cut_latent (7, h, w);
  g_autoptr (H3Stream) stream = h3_stream_new (test_device (), NULL);
  g_autoptr (H3Tensor) latent = test_latent (values, 4, 7, h, w);
  g_autoptr (H3VideoDecoder) decoder =
      h3_video_decoder_new (vae, stream, h, w, H3_COMPOSITION_RAW, NULL);
  g_autoptr (GError) error = NULL;
  RawWindow raw = { stream };
  H3Tap tap = { tap_tiles, &raw };
  H3Tensor *pixels;
  gint first, n;

  g_assert_true (h3_tile_axis_init (&raw.axis_y, h * 4, 32, 8, 4, NULL));
  g_assert_true (h3_tile_axis_init (&raw.axis_x, w * 4, 32, 8, 4, NULL));
  raw.clip = g_new0 (Clip, 1);
  raw.clip->counts = g_array_new (FALSE, FALSE, sizeof (gint));
  g_assert_true (h3_video_decoder_start (decoder, latent, NULL));
  h3_video_decoder_next (decoder, NULL, &tap, &pixels, &first, &n, &error);
  g_assert_no_error (error);
  g_assert_cmpint (n, ==, 17);
  g_assert_cmpint (raw.n_windows, ==, 1);
  return raw.clip;
}

static void
test_one_tile (void)
{
  static const Expected expected = { -2786.33, 68968.63,
    { { { 0, 0, 0, 0 }, -1.085094 }, { { 0, 3, 0, 0 }, 1.131598 },
        { { 1, 10, 5, 17 }, 1.237620 }, { { 2, 27, 31, 31 }, 0.695983 },
        { { 0, 15, 16, 16 }, -1.450056 } } };
  g_autoptr (H3VideoVae) vae = load_fill_model (&fill_model_a);
  g_autoptr (Clip) clip = decode_raw_window (vae, 8, 8);

  assert_clip (clip, (const gint[]){ 28, 32, 32 }, &expected);
}

static void
test_tiled_window (void)
{
  static const Expected expected = { -6621.86, 192954.34,
    { { { 0, 3, 8, 25 }, -0.384273 }, { { 1, 10, 20, 30 }, -1.431586 },
        { { 2, 27, 39, 71 }, 1.031133 } } };
  g_autoptr (H3VideoVae) vae = load_fill_model (&fill_model_a);
  g_autoptr (Clip) clip = decode_raw_window (vae, 10, 18);

  assert_clip (clip, (const gint[]){ 28, 40, 72 }, &expected);
}

static void
test_two_windows (void)
{
  static const Expected expected = { -10070.47, 269771.88,
    { { { 0, 0, 0, 0 }, 1.131598 }, { { 0, 16, 20, 30 }, 1.617221 },
        { { 0, 17, 20, 30 }, 0.139248 }, { { 0, 18, 20, 30 }, -0.515556 },
        { { 0, 19, 20, 30 }, -0.845817 }, { { 0, 20, 20, 30 }, 0.591723 },
        { { 0, 21, 20, 30 }, 0.992748 }, { { 0, 22, 20, 30 }, -1.248106 },
        { { 2, 38, 39, 71 }, -0.490086 }, { { 1, 20, 10, 22 }, -1.628348 } } };
  g_autoptr (H3VideoVae) vae = load_fill_model (&fill_model_a);
  g_autofree gfloat *latent = fill_latent (4, 12, 10, 18);
  g_autoptr (Clip) clip =
      test_decode (vae, latent, 12, 10, 18, H3_COMPOSITION_RAW);

  assert_clip (clip, (const gint[]){ 39, 40, 72 }, &expected);
}

static void
test_composited (void)
{
  static const Expected expected = { -10112.55, 269783.37,
    { { { 1, 20, 10, 22 }, -1.632356 }, { { 0, 20, 20, 30 }, 0.591169 } } };
  g_autoptr (H3VideoVae) vae = load_fill_model (&fill_model_a);
  g_autofree gfloat *latent = fill_latent (4, 12, 10, 18);
  g_autoptr (Clip) raw =
      test_decode (vae, latent, 12, 10, 18, H3_COMPOSITION_RAW);
  g_autoptr (Clip) clip =
      test_decode (vae, latent, 12, 10, 18, H3_COMPOSITION_COMPOSITED);
  gdouble largest = 0;

  assert_clip (clip, (const gint[]){ 39, 40, 72 }, &expected);
  for (gint i = 0; i < 3 * 39 * 40 * 72; i++)
    largest = MAX (largest, fabs (clip->pixels[i] - raw->pixels[i]));
  g_assert_cmpfloat_with_epsilon (largest, 0.652139,
      h3_test_tolerance (1e-4, 1e-2));
}

static void
test_two_latents (void)
{
  static const Expected expected = { -397.84, 12515.33,
    { { { 0, 0, 0, 0 }, -0.632143 }, { { 2, 4, 31, 31 }, -0.063626 } } };
  g_autoptr (H3VideoVae) vae = load_fill_model (&fill_model_a);
  g_autofree gfloat *latent = fill_latent (4, 2, 8, 8);
  g_autoptr (Clip) clip =
      test_decode (vae, latent, 2, 8, 8, H3_COMPOSITION_RAW);

  assert_clip (clip, (const gint[]){ 5, 32, 32 }, &expected);
}

static gdouble
sum_bytes (const guint8 *bytes, gsize n)
{
  gdouble sum = 0;

  for (gsize i = 0; i < n; i++)
    sum += bytes[i];
  return sum;
}

/* Sums may differ where a value lies on the edge between two codes. */
static void
assert_rgb_sums (const H3VideoVae *vae, const Clip *clip, gdouble rounded,
    gdouble truncated)
{
  gsize n = (gsize) 3 * clip->frames * clip->height * clip->width;
  g_autofree guint8 *rint_rgb = test_clip_rgb (vae, clip, H3_QUANTIZE_ROUND);
  g_autofree guint8 *trunc_rgb = test_clip_rgb (vae, clip, H3_QUANTIZE_TRUNC);

  g_assert_cmpfloat_with_epsilon (sum_bytes (rint_rgb, n), rounded,
      h3_test_tolerance (1e-5, 1e-3) * rounded);
  g_assert_cmpfloat_with_epsilon (sum_bytes (trunc_rgb, n), truncated,
      h3_test_tolerance (1e-5, 1e-3) * truncated);
}

static void
test_rgb (void)
{
  g_autoptr (H3VideoVae) vae = load_fill_model (&fill_model_a);
  g_autofree gfloat *latent = fill_latent (4, 12, 10, 18);
  g_autoptr (Clip) clip =
      test_decode (vae, latent, 12, 10, 18, H3_COMPOSITION_RAW);
  g_autofree guint8 *rgb = test_clip_rgb (vae, clip, H3_QUANTIZE_ROUND);
  const guint8 *pixel = rgb + ((20 * 40 + 20) * 72 + 30) * 3;

  assert_rgb_sums (vae, clip, 38126689, 37963940);
  if (h3_test_on_gpu ())
    return; /* a code may be the next one */
  g_assert_cmpmem (rgb, 3, ((const guint8[]){ 190, 220, 181 }), 3);
  g_assert_cmpmem (pixel, 3, ((const guint8[]){ 158, 176, 102 }), 3);
}

static void
test_release_geometry (void)
{
  static const Expected expected = { -53142.9, 3218564.5,
    { { { 0, 0, 0, 0 }, -1.105395 }, { { 1, 10, 96, 100 }, 0.937067 },
        { { 2, 21, 191, 319 }, -1.333364 },
        { { 0, 5, 50, 250 }, -0.614957 } } };
  g_autoptr (H3VideoVae) vae = load_fill_model (&fill_model_b);
  g_autofree gfloat *latent = fill_latent (24, 7, 12, 20);
  g_autoptr (Clip) clip =
      test_decode (vae, latent, 7, 12, 20, H3_COMPOSITION_RAW);

  assert_clip (clip, (const gint[]){ 22, 192, 320 }, &expected);
  assert_rgb_sums (vae, clip, 462867287, 460904694);
}

void
add_oracle_tests (void)
{
  g_test_add_func ("/video/oracle/fill-rule", test_fill_rule);
  g_test_add_func ("/video/oracle/one-tile", test_one_tile);
  g_test_add_func ("/video/oracle/tiled-window", test_tiled_window);
  g_test_add_func ("/video/oracle/two-windows", test_two_windows);
  g_test_add_func ("/video/oracle/composited", test_composited);
  g_test_add_func ("/video/oracle/two-latents", test_two_latents);
  g_test_add_func ("/video/oracle/rgb", test_rgb);
  g_test_add_func ("/video/oracle/release-geometry", test_release_geometry);
}
