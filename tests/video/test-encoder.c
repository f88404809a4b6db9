/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The encoder against the golden data and the numbers of video-vae.md 15, and
 * what it refuses. */
#include <math.h>
#include <string.h>

#include "fill-model.h"
#include "model/video/video-encoder.h"
#include "test-video.h"
#include "tests/tools/h3-test-device.h"

#define MODULE "video_vae.safetensors"

/* A model, a stream, and an encoder of one size. */
typedef struct {
  H3VideoEncoderModel *model;
  H3Stream *stream;
  H3VideoEncoder *encoder;
  gint height, width;
} Fixture;

static H3VideoEncoderModel *
try_load (const gchar *path, GError **error)
{
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, error);

  if (!checkpoint)
    return NULL;
  return h3_video_encoder_load (checkpoint, test_device (), NULL, NULL, NULL,
      error);
}

static void
fixture_init (Fixture *f, const gchar *path, gint height, gint width,
    gboolean clips)
{
  g_autoptr (GError) error = NULL;

  f->model = try_load (path, &error);
  g_assert_no_error (error);
  f->stream = h3_stream_new (test_device (), &error);
  g_assert_no_error (error);
  f->encoder =
      h3_video_encoder_new (f->model, f->stream, height, width, clips, &error);
  g_assert_no_error (error);
  f->height = height;
  f->width = width;
}

static void
fixture_clear (Fixture *f)
{
  h3_video_encoder_free (f->encoder);
  h3_stream_free (f->stream);
  h3_video_encoder_model_unref (f->model);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Fixture, fixture_clear)

/* @frames of [F, H, W, 3]. */
static H3Tensor *
encode (Fixture *f, const guint8 *rgb, gint frames, H3Posterior posterior,
    guint64 seed, const H3Tap *tap)
{
  g_autoptr (GError) error = NULL;
  H3Tensor *latent;

  h3_video_encoder_start (f->encoder);
  for (gint i = 0; i < frames; i++) {
    h3_video_encoder_push (f->encoder,
        rgb + (gsize) i * f->height * f->width * 3, f->width * 3, NULL, tap,
        &error);
    g_assert_no_error (error);
  }
  h3_video_encoder_finish (f->encoder, posterior, seed, NULL, tap, &latent,
      &error);
  g_assert_no_error (error);
  return latent;
}

/* The files' pixels are no 8-bit pictures: they take the place of those that
 * the encoder cut out, tile by tile, and the moments are taken as they come. */
typedef struct {
  H3Stream *stream;
  const gfloat *pixels; /* [3, frames, height, width] */
  gint frames, height, width;
  H3TileAxis axis_y, axis_x;
  gint frame, tile; /* the next to come */
  gint channels, latents;
  gfloat *moments; /* [channels, latents, h, w] */
  gint latent;     /* the next to come */
} Swap;

static void
swap_pixels (Swap *s, H3Tensor *value)
{
  const gint64 *shape = value->shape;
  g_autofree gfloat *tiles = g_new (gfloat, h3_tensor_size (value));
  gfloat *to = tiles;
  gint n_tiles = s->axis_y.n * s->axis_x.n;

  for (gint64 b = 0; b < shape[0]; b++, s->tile++) {
    gint y0 = s->axis_y.start[s->tile / s->axis_x.n];
    gint x0 = s->axis_x.start[s->tile % s->axis_x.n];

    for (gint64 i = 0; i < shape[1] * shape[2] * shape[3]; i++)
      for (gint c = 0; c < 3; c++)
        *to++ = s->pixels[((c * (gint64) s->frames + s->frame +
                               i / shape[3] / shape[2]) *
                                  s->height +
                              y0 + i / shape[3] % shape[2]) *
                              s->width +
                          x0 + i % shape[3]];
  }
  h3_upload (s->stream, value, tiles);
  g_assert_true (h3_stream_synchronize (s->stream, NULL));
  if (s->tile == n_tiles) {
    s->tile = 0;
    s->frame += shape[1];
  }
}

static void
keep_moments (Swap *s, const H3Tensor *value)
{
  g_autofree gfloat *host = h3_test_to_host (s->stream, value);
  gint64 plane = value->shape[2] * value->shape[3], n = value->shape[1] * plane;

  g_assert_cmpint (value->shape[0], ==, s->channels);
  g_assert_cmpint (s->latent + value->shape[1], <=, s->latents);
  for (gint c = 0; c < s->channels; c++)
    memcpy (s->moments + (c * (gint64) s->latents + s->latent) * plane,
        host + c * n, n * sizeof *host);
  s->latent += value->shape[1];
}

static void
swap_tap (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  if (g_str_equal (name, "encoder.pixels"))
    swap_pixels (user_data, (H3Tensor *) value);
  else if (g_str_equal (name, "encoder.moments"))
    keep_moments (user_data, value);
}

/* The moments [2 C, T, h, w] of @pixels. */
static gfloat *
encode_pixels (Fixture *f, const gfloat *pixels, gint frames, gsize *n)
{
  const H3VideoVaeConfig *config = &h3_video_encoder_config (f->model)->vae;
  g_autofree guint8 *black =
      g_malloc0 ((gsize) 3 * frames * f->height * f->width);
  g_autoptr (H3Tensor) latent = NULL;
  Swap s = { .stream = f->stream,
    .pixels = pixels,
    .frames = frames,
    .height = f->height,
    .width = f->width,
    .channels = 2 * config->channels,
    .latents = h3_video_encoded_latents (frames) };
  H3Tap tap = { swap_tap, &s };

  *n = (gsize) s.channels * s.latents * (f->height / config->ratio) *
       (f->width / config->ratio);
  s.moments = g_new (gfloat, *n);
  g_assert_true (h3_tile_axis_init (&s.axis_y, f->height, config->tile,
      config->min_overlap, config->ratio, NULL));
  g_assert_true (h3_tile_axis_init (&s.axis_x, f->width, config->tile,
      config->min_overlap, config->ratio, NULL));
  latent = encode (f, black, frames, H3_POSTERIOR_MEAN, 0, &tap);
  g_assert_cmpint (s.latent, ==, s.latents);
  g_assert_cmpint (latent->shape[1], ==, s.latents);
  return s.moments;
}

static void
test_golden (gconstpointer data)
{
  const gchar *const *names = data;
  gint64 shape[H3_STORED_MAX_RANK];
  gsize n, n_want;
  g_autofree gfloat *pixels = h3_test_golden (MODULE, names[0], NULL);
  g_autofree gfloat *want = h3_test_golden (MODULE, names[1], &n_want);
  g_autofree gfloat *got = NULL;
  g_auto (Fixture) f = { 0 };

  h3_test_golden_shape (MODULE, names[0], shape);
  fixture_init (&f, h3_test_tiny_dir (), shape[3], shape[4], shape[2] > 1);
  got = encode_pixels (&f, pixels, shape[2], &n);
  g_assert_cmpuint (n, ==, n_want);
  h3_test_assert_close (got, want, n, h3_test_tolerance (1e-5, 2e-5));
}

/* What requests were conditioned with, from the frames they were given. */
static void
test_condition (void)
{
  gint64 shape[H3_STORED_MAX_RANK];
  gsize n, n_want;
  g_autofree gint32 *stored =
      h3_test_golden_ints ("media.safetensors", "video_frames", &n);
  g_autofree guint8 *rgb = g_malloc (n);
  g_autofree gfloat *want = h3_test_golden ("request_ref2va_mixed.safetensors",
      "condition_latents_0", &n_want);
  g_autofree gfloat *got = NULL;
  g_autoptr (H3Tensor) latent = NULL;
  g_auto (Fixture) f = { 0 };
  gsize other = 0;

  h3_test_golden_shape ("media.safetensors", "video_frames", shape);
  for (gsize i = 0; i < n; i++)
    rgb[i] = stored[i];
  fixture_init (&f, h3_test_tiny_dir (), shape[1], shape[2], TRUE);
  latent =
      encode (&f, rgb, shape[0], H3_POSTERIOR_SAMPLE, H3_POSTERIOR_SEED, NULL);
  g_assert_cmpint (h3_tensor_size (latent), ==, n_want);
  got = h3_test_to_host (f.stream, latent);
  /* a value on the edge between two of float16 may be the other one */
  for (gsize i = 0; i < n_want; i++)
    other += fabsf (got[i] - want[i]) > 1e-5f * (1 + fabsf (want[i]));
  g_test_message ("%" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT
                  " are another float16",
      other, n_want);
  g_assert_cmpuint (other * 100, <=, n_want);
  h3_test_assert_close (got, want, n_want, h3_test_tolerance (1e-4, 1e-3));
}

void
add_encoder_tests (void)
{
  static const gchar *const still[] = { "encode1_in", "encode1_params" };
  static const gchar *const tiled[] = { "encode1_tiled_in",
    "encode1_tiled_params" };
  static const gchar *const clip[] = { "encode22_in", "encode22_params" };

  g_test_add_data_func ("/video/encoder/golden/still", still, test_golden);
  g_test_add_data_func ("/video/encoder/golden/tiled", tiled, test_golden);
  g_test_add_data_func ("/video/encoder/golden/clip", clip, test_golden);
  g_test_add_func ("/video/encoder/golden/condition", test_condition);
}
