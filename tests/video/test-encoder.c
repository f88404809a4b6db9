/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The encoder against the golden data and the numbers of video-vae.md 15, and
 * what it refuses. */
#include <math.h>
#include <string.h>

#include "fill-encoder.h"
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

/* video-vae.md 15 */

static gchar *
write_fill (const FillGeometry *geometry, const FillEncoder *encoder)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (geometry);
  g_autofree gchar *network = fill_encoder_network (geometry, encoder);

  fill_add_encoder (tensors, encoder, geometry->channels);
  return fill_write_official (geometry, tensors, FILL_F32, network);
}

typedef struct {
  gint at[4]; /* channel, time, row, column */
  gdouble value;
} Sample;

typedef struct {
  gint frames, height, width;
  gboolean moments; /* or the sampled latent */
  gint shape[4];
  gdouble sum, sum_abs;
  Sample samples[4];
} Expected;

static void
check_expected (const Expected *e, const gfloat *got, gsize n)
{
  const gint *shape = e->shape;
  gdouble sum = 0, sum_abs = 0;

  g_assert_cmpuint (n, ==, (gsize) shape[0] * shape[1] * shape[2] * shape[3]);
  for (gsize i = 0; i < n; i++) {
    sum += got[i];
    sum_abs += fabs (got[i]);
  }
  g_test_message ("sum %.5f (%.5f), sum of magnitudes %.4f (%.4f)", sum, e->sum,
      sum_abs, e->sum_abs);
  g_assert_cmpfloat_with_epsilon (sum, e->sum, 2e-5 * e->sum_abs);
  g_assert_cmpfloat_with_epsilon (sum_abs, e->sum_abs, 2e-5 * e->sum_abs);
  for (guint i = 0; i < G_N_ELEMENTS (e->samples) && e->samples[i].value; i++) {
    const gint *at = e->samples[i].at;

    g_assert_cmpfloat_with_epsilon (got[((at[0] * shape[1] + at[1]) * shape[2] +
                                            at[2]) *
                                            shape[3] +
                                        at[3]],
        e->samples[i].value, e->moments ? 1e-4 : 2e-3);
  }
}

static void
keep_only_moments (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  if (g_str_equal (name, "encoder.moments"))
    keep_moments (user_data, value);
}

static void
try_expected (const FillGeometry *geometry, const FillEncoder *encoder,
    const Expected *e)
{
  gchar *dir = write_fill (geometry, encoder);
  g_autofree guint8 *rgb = fill_pixels (e->frames, e->height, e->width);
  g_autofree gfloat *got = NULL;
  g_autoptr (H3Tensor) latent = NULL;
  Swap s = { .channels = 2 * geometry->channels,
    .latents = h3_video_encoded_latents (e->frames) };
  H3Tap tap = { keep_only_moments, &s };
  g_auto (Fixture) f = { 0 };

  fixture_init (&f, dir, e->height, e->width, e->frames > 1);
  fill_delete (dir);
  s.stream = f.stream;
  s.moments =
      g_new (gfloat, (gsize) s.channels * s.latents * e->height * e->width);
  latent =
      encode (&f, rgb, e->frames, H3_POSTERIOR_SAMPLE, H3_POSTERIOR_SEED, &tap);
  got = h3_test_to_host (f.stream, latent);
  if (e->moments)
    check_expected (e, s.moments,
        (gsize) s.channels * s.latents * latent->shape[2] * latent->shape[3]);
  else
    check_expected (e, got, h3_tensor_size (latent));
  g_free (s.moments);
}

static void
test_model_a (void)
{
  static const Expected all[] = {
    { 39, 40, 72, TRUE, { 8, 12, 10, 18 }, -1087.714, 7461.844,
        { { { 0, 0, 0, 0 }, -0.169454 }, { { 3, 4, 5, 6 }, -0.454408 },
            { { 4, 5, 9, 17 }, -0.393045 }, { { 7, 11, 0, 9 }, 0.695542 } } },
    { 1, 40, 72, TRUE, { 8, 1, 10, 18 }, -71.3086, 380.3051,
        { { { 3, 0, 5, 6 }, 0.054593 }, { { 7, 0, 9, 17 }, 0.297084 } } },
    { 1, 40, 72, FALSE, { 4, 1, 10, 18 }, 1.40827, 584.7717,
        { { { 0, 0, 0, 0 }, 1.676758 }, { { 3, 0, 9, 17 }, 1.845703 } } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    try_expected (&fill_model_a, &fill_encoder_a, &all[i]);
}

static void
test_model_b (void)
{
  static const Expected all[] = {
    { 1, 192, 320, FALSE, { 24, 1, 12, 20 }, 638.885, 4408.42,
        { { { 0, 0, 0, 0 }, 1.306460 }, { { 5, 0, 6, 10 }, 1.005812 },
            { { 23, 0, 11, 19 }, -0.603455 } } },
    { 1, 192, 320, TRUE, { 48, 1, 12, 20 }, 110.014, 3160.871,
        { { { 5, 0, 6, 10 }, 0.315675 }, { { 24, 0, 0, 0 }, 0.459997 },
            { { 47, 0, 11, 19 }, -0.309138 } } },
    { 22, 192, 320, TRUE, { 48, 7, 12, 20 }, -1724.63, 32379.82,
        { { { 5, 3, 6, 10 }, 0.848778 }, { { 23, 6, 11, 19 }, -0.213212 },
            { { 47, 6, 11, 19 }, 0.115207 } } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    try_expected (&fill_model_b, &fill_encoder_b, &all[i]);
}

/* Clips */

static void
assert_same (Fixture *f, const H3Tensor *a, const H3Tensor *b)
{
  g_autofree gfloat *x = h3_test_to_host (f->stream, a);
  g_autofree gfloat *y = h3_test_to_host (f->stream, b);

  g_assert_cmpmem (x, a->bytes, y, b->bytes);
}

static void
test_frames (void)
{
  static const gint table[][3] = { { -1, 0, 0 }, { 0, 0, 0 }, { 1, 1, 1 },
    { 4, 1, 1 }, { 5, 5, 2 }, { 21, 5, 2 }, { 22, 22, 7 }, { 38, 22, 7 },
    { 39, 39, 12 }, { 124, 124, 37 }, { 362, 362, 107 } };

  for (guint i = 0; i < G_N_ELEMENTS (table); i++) {
    g_assert_cmpint (h3_video_encoded_frames (table[i][0]), ==, table[i][1]);
    g_assert_cmpint (h3_video_encoded_latents (table[i][0]), ==, table[i][2]);
    if (table[i][2])
      g_assert_cmpint (h3_video_frames (table[i][2]), ==, table[i][1]);
  }
}

/* Frames past the last that is taken change nothing. */
static void
test_trimmed (void)
{
  static const gint lengths[][2] = { { 3, 1 }, { 21, 5 }, { 38, 22 } };
  g_autofree guint8 *rgb = fill_pixels (38, 64, 96);
  g_auto (Fixture) f = { 0 };

  fixture_init (&f, h3_test_tiny_dir (), 64, 96, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++) {
    g_autoptr (H3Tensor) a =
        encode (&f, rgb, lengths[i][0], H3_POSTERIOR_MEAN, 0, NULL);
    g_autoptr (H3Tensor) b =
        encode (&f, rgb, lengths[i][1], H3_POSTERIOR_MEAN, 0, NULL);

    g_assert_cmpint (a->shape[1], ==, h3_video_encoded_latents (lengths[i][1]));
    assert_same (&f, a, b);
  }
}

/* A still is what a clip begins with, whatever the workspace. */
static void
test_still_in_clip (void)
{
  g_autofree guint8 *rgb = fill_pixels (5, 320, 288);
  g_auto (Fixture) f = { 0 };
  g_auto (Fixture) stills = { 0 };
  g_autoptr (H3Tensor) clip = NULL;
  g_autoptr (H3Tensor) one = NULL;
  g_autoptr (H3Tensor) still = NULL;
  g_autofree gfloat *x = NULL, *y = NULL;
  gint plane = 20 * 18;

  fixture_init (&f, h3_test_tiny_dir (), 320, 288, TRUE);
  fixture_init (&stills, h3_test_tiny_dir (), 320, 288, FALSE);
  clip = encode (&f, rgb, 5, H3_POSTERIOR_MEAN, 0, NULL);
  one = encode (&f, rgb, 1, H3_POSTERIOR_MEAN, 0, NULL);
  still = encode (&stills, rgb, 1, H3_POSTERIOR_MEAN, 0, NULL);
  assert_same (&f, one, still);
  x = h3_test_to_host (f.stream, clip);
  y = h3_test_to_host (f.stream, still);
  for (gint c = 0; c < 4; c++)
    h3_test_assert_close (x + 2 * c * plane, y + c * plane, plane, 1e-5);
}

/* Rows may be padded; the seed decides the sample, and nothing else does. */
static void
test_posterior (void)
{
  g_autofree guint8 *rgb = fill_pixels (1, 64, 96);
  g_autofree guint8 *padded = g_malloc0 (64 * 300);
  g_auto (Fixture) f = { 0 };
  g_autoptr (H3Tensor) mean = NULL;
  g_autoptr (H3Tensor) a = NULL;
  g_autoptr (H3Tensor) b = NULL;
  g_autoptr (H3Tensor) c = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gfloat *x = NULL, *y = NULL;

  fixture_init (&f, h3_test_tiny_dir (), 64, 96, FALSE);
  mean = encode (&f, rgb, 1, H3_POSTERIOR_MEAN, 0, NULL);
  a = encode (&f, rgb, 1, H3_POSTERIOR_SAMPLE, 42, NULL);
  b = encode (&f, rgb, 1, H3_POSTERIOR_SAMPLE, 43, NULL);
  for (gint y0 = 0; y0 < 64; y0++)
    memcpy (padded + y0 * 300, rgb + y0 * 288, 288);
  h3_video_encoder_push (f.encoder, padded, 300, NULL, NULL, &error);
  g_assert_no_error (error);
  h3_video_encoder_finish (f.encoder, H3_POSTERIOR_SAMPLE, 42, NULL, NULL, &c,
      &error);
  g_assert_no_error (error);
  assert_same (&f, a, c);
  x = h3_test_to_host (f.stream, a);
  y = h3_test_to_host (f.stream, b);
  g_assert_cmpfloat (h3_test_rel_l2 (x, y, h3_tensor_size (a)), >, 0.1);
  g_free (y);
  y = h3_test_to_host (f.stream, mean);
  g_assert_cmpfloat (h3_test_rel_l2 (x, y, h3_tensor_size (a)), >, 0.1);
}

static void
test_layouts (void)
{
  g_autofree guint8 *rgb = fill_pixels (1, 64, 96);
  g_auto (Fixture) official = { 0 };
  g_auto (Fixture) diffusers = { 0 };
  g_auto (Fixture) demo = { 0 };
  g_autoptr (H3Tensor) a = NULL;
  g_autoptr (H3Tensor) b = NULL;
  g_autoptr (H3Tensor) c = NULL;

  fixture_init (&official, h3_test_tiny_dir (), 64, 96, FALSE);
  fixture_init (&diffusers, h3_test_tiny_diffusers_dir (), 64, 96, FALSE);
  fixture_init (&demo, h3_test_demo_dir (), 64, 96, FALSE);
  a = encode (&official, rgb, 1, H3_POSTERIOR_SAMPLE, 42, NULL);
  b = encode (&diffusers, rgb, 1, H3_POSTERIOR_SAMPLE, 42, NULL);
  c = encode (&demo, rgb, 1, H3_POSTERIOR_SAMPLE, 42, NULL);
  g_assert_cmpmem (h3_video_encoder_config (official.model),
      sizeof (H3VideoEncoderConfig), h3_video_encoder_config (diffusers.model),
      sizeof (H3VideoEncoderConfig));
  assert_same (&official, a, b);
  g_assert_cmpint (c->shape[0], ==, 16);
}

/* Refusals */

static void
test_sizes (void)
{
  static const gint sizes[][2] = { { 16, 64 }, { 64, 16 }, { 0, 64 },
    { -32, 64 }, { 40, 64 }, { 64, 65 } };
  g_auto (Fixture) f = { 0 };

  fixture_init (&f, h3_test_tiny_dir (), 32, 32, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (h3_video_encoder_new (f.model, f.stream, sizes[i][0],
        sizes[i][1], TRUE, &error));
    h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "at least 32 x 32");
    g_assert_cmpuint (h3_video_encoder_workspace (h3_video_encoder_config (
                                                      f.model),
                          test_device (), sizes[i][0], sizes[i][1], TRUE),
        ==, 0);
  }
}

static void
test_workspace (void)
{
  g_auto (Fixture) f = { 0 };
  const H3VideoEncoderConfig *config;
  /* on a GPU: 32 channels with a border, and a weight of 64 x 64 */
  guint64 pieces = test_device ()->host_memory ? 0 : 4 * 32 * 66 * 98;
  guint64 weight = test_device ()->host_memory ? 0 : 4 * 27 * 64 * 64;
  guint64 clip, still;

  fixture_init (&f, h3_test_tiny_dir (), 64, 96, TRUE);
  config = h3_video_encoder_config (f.model);
  clip = h3_video_encoder_workspace (config, test_device (), 64, 96, TRUE);
  still = h3_video_encoder_workspace (config, test_device (), 64, 96, FALSE);
  g_assert_cmpuint (clip, ==,
      17 * 3 * 64 * 96 + 4 * (3 * 17 * 32 * 64 * 96 + 2 * 8 * 5 * 4 * 6) +
          17 * pieces + weight);
  g_assert_cmpuint (still, ==,
      3 * 64 * 96 + 4 * (3 * 32 * 64 * 96 + 2 * 8 * 4 * 6) + pieces + weight);
}

static gboolean
after_some (gpointer user_data)
{
  return --*(gint *) user_data < 0;
}

static void
test_refused (void)
{
  g_autofree guint8 *rgb = fill_pixels (22, 64, 96);
  g_auto (Fixture) f = { 0 };
  g_auto (Fixture) stills = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) before = NULL;
  g_autoptr (H3Tensor) after = NULL;
  H3Tensor *latent;

  fixture_init (&f, h3_test_tiny_dir (), 64, 96, TRUE);
  fixture_init (&stills, h3_test_tiny_dir (), 64, 96, FALSE);
  g_assert_false (h3_video_encoder_finish (f.encoder, H3_POSTERIOR_SAMPLE, 42,
      NULL, NULL, &latent, &error));
  g_assert_null (latent);
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "no frame");
  g_clear_error (&error);
  g_assert_false (
      h3_video_encoder_push (f.encoder, rgb, 287, NULL, NULL, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "287 bytes apart", "288");
  g_clear_error (&error);
  g_assert_false (
      h3_video_encoder_push (f.encoder, rgb, -288, NULL, NULL, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "-288 bytes apart");
  g_clear_error (&error);
  g_assert_true (
      h3_video_encoder_push (stills.encoder, rgb, 288, NULL, NULL, &error));
  g_assert_false (
      h3_video_encoder_push (stills.encoder, rgb, 288, NULL, NULL, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "a second frame");
  g_clear_error (&error);

  /* wherever it is stopped, the next clip is as if nothing had been */
  before = encode (&f, rgb, 22, H3_POSTERIOR_SAMPLE, 42, NULL);
  for (gint at = 0; at < 14; at++) {
    gint left = at;
    H3Stop stop = { after_some, &left };
    gboolean ok = TRUE;

    h3_video_encoder_start (f.encoder);
    for (gint i = 0; ok && i < 22; i++)
      ok = h3_video_encoder_push (f.encoder, rgb + i * 64 * 288, 288, &stop,
          NULL, &error);
    if (ok)
      ok = h3_video_encoder_finish (f.encoder, H3_POSTERIOR_SAMPLE, 42, &stop,
          NULL, &latent, &error);
    if (ok) {
      g_assert_cmpint (at, >=, 10);
      h3_tensor_unref (latent);
      break;
    }
    h3_test_assert_h3_error (error, H3_ERROR_CANCELLED, "");
    g_clear_error (&error);
  }
  after = encode (&f, rgb, 22, H3_POSTERIOR_SAMPLE, 42, NULL);
  assert_same (&f, before, after);
}

static void
assert_refused (gchar *dir, H3Error code, const gchar *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (try_load (dir, &error));
  h3_test_assert_h3_error (error, code, text);
  fill_delete (dir);
}

static void
test_configuration (void)
{
  static const struct {
    const gchar *from, *to, *text;
  } cases[] = {
    { "\"reflect\"", "\"zeros\"", "\"padding_mode\" is \"zeros\"" },
    { "\"padding_mode_t\":null", "\"padding_mode_t\":\"replicate\"",
        "padding_mode_t" },
    { "\"causal_encoder\":true", "\"causal_encoder\":false", "causal_encoder" },
    { "\"use_t_isolated_gn\":true", "\"use_t_isolated_gn\":false",
        "use_t_isolated_gn" },
    { "\"use_3d_conv\":true", "\"use_3d_conv\":false", "use_3d_conv" },
    { "\"in_channels\":3", "\"in_channels\":4", "in_channels" },
    { "\"ch\":32", "\"ch\":40", "40 channels are not 32 equal groups" },
    { "\"ch\":32", "\"ch\":0", "ch is 0" },
    { "\"ch\":32", "\"ch\":\"x\"", "ch" },
    { "\"ch\":32", "\"ch\":64", "encoder.conv_in.weight" },
    { "\"ch_mult\":[1,2]", "\"ch_mult\":[1,2,2]", "3 widths, 2 factors" },
    { "\"ch_mult\":[1,2]", "\"ch_mult\":[]", "0 widths" },
    { "\"ch_mult\":[1,2]", "\"ch_mult\":[1,3]", "encoder.down.1" },
    { "\"space_down\":[2,2]", "\"space_down\":[2,4]", "space_down" },
    { "\"space_down\":[2,2]", "\"space_down\":[2,1]",
        "level 1 halves time and not space" },
    { "\"time_down\":[2,2]", "\"time_down\":[2,1]",
        "4 pixels and 2 frames of a latent, the decoder 4 and 4" },
    { "\"num_res_blocks\":1", "\"num_res_blocks\":2",
        "encoder.down.0.block.1" },
    { "\"num_res_blocks\":1", "\"num_res_blocks\":0", "num_res_blocks" },
    { "\"num_res_blocks\":1", "\"num_res_blocks\":1,\"norm_eps\":0",
        "norm eps" },
    { "\"num_res_blocks\":1", "\"num_res_blocks\":1,\"norm_num_groups\":0",
        "norm_num_groups" },
  };
  g_autofree gchar *network =
      fill_encoder_network (&fill_model_a, &fill_encoder_a);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (GStrv) parts = g_strsplit (network, cases[i].from, 2);
    g_autofree gchar *changed = g_strjoinv (cases[i].to, parts);
    g_autoptr (GPtrArray) tensors = fill_tensors (&fill_model_a);

    g_assert_cmpuint (g_strv_length (parts), ==, 2);
    fill_add_encoder (tensors, &fill_encoder_a, fill_model_a.channels);
    assert_refused (fill_write_official (&fill_model_a, tensors, FILL_F32,
                        changed),
        H3_ERROR_WRONG_TYPE, cases[i].text);
  }
}

/* Each of some tensors missing, and of another shape. */
static void
test_tensors (void)
{
  static const gchar *const names[] = { "encoder.conv_in.weight",
    "encoder.down.0.block.0.norm1.weight", "encoder.down.1.block.0.conv2.bias",
    "encoder.down.1.block.0.nin_shortcut.weight",
    "encoder.down.0.downsample.conv.weight", "encoder.norm_out.bias",
    "encoder.conv_out.weight", "quant_conv.weight", "quant_conv.bias" };
  static const gint64 odd[] = { 5 };
  g_autofree gchar *network =
      fill_encoder_network (&fill_model_a, &fill_encoder_a);

  for (guint i = 0; i < 2 * G_N_ELEMENTS (names); i++) {
    g_autoptr (GPtrArray) tensors = fill_tensors (&fill_model_a);

    fill_add_encoder (tensors, &fill_encoder_a, fill_model_a.channels);
    fill_remove (tensors, names[i / 2]);
    if (i % 2)
      fill_add (tensors, names[i / 2], 1, odd);
    assert_refused (fill_write_official (&fill_model_a, tensors, FILL_F32,
                        network),
        H3_ERROR_WRONG_TYPE, names[i / 2]);
  }
}

/* The decoder's half is not read, and not counted; a file may do without. */
static void
test_plan (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&fill_model_b);
  g_autofree gchar *network =
      fill_encoder_network (&fill_model_b, &fill_encoder_b);
  guint n_decoder = tensors->len;
  guint64 expected = 0, bytes;
  H3VideoEncoderConfig config;
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint = NULL;
  gchar *dir;

  fill_add_encoder (tensors, &fill_encoder_b, fill_model_b.channels);
  for (guint i = n_decoder; i < tensors->len; i++) {
    const FillTensor *tensor = tensors->pdata[i];
    guint64 size = sizeof (gfloat);

    for (guint d = 0; d < tensor->rank; d++)
      size *= tensor->shape[d];
    expected += size;
  }
  g_ptr_array_remove_range (tensors, 0, n_decoder);
  dir = fill_write_official (&fill_model_b, tensors, FILL_F32, network);
  checkpoint = h3_checkpoint_open (dir, H3_PARTITION_FL2VA, &error);
  g_assert_no_error (error);
  g_assert_true (
      h3_video_encoder_plan (checkpoint, NULL, &config, &bytes, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (bytes, ==, expected);
  g_assert_cmpint (config.levels, ==, 6);
  g_assert_cmpint (config.channels[3], ==, 64);
  g_assert_cmpint (config.vae.channels, ==, 24);
  g_assert_true (h3_video_encoder_plan (checkpoint, NULL, NULL, NULL, NULL));
  fill_delete (dir);
}

/* Damage that only the result shows. */
static void
test_not_finite (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&fill_model_a);
  g_autofree gchar *network =
      fill_encoder_network (&fill_model_a, &fill_encoder_a);
  g_autofree guint8 *rgb = fill_pixels (1, 40, 72);
  g_auto (Fixture) f = { 0 };
  g_autoptr (GError) error = NULL;
  FillTensor *quant;
  H3Tensor *latent;
  gchar *dir;

  fill_add_encoder (tensors, &fill_encoder_a, fill_model_a.channels);
  quant = fill_find (tensors, "quant_conv.weight");
  for (gint i = 8; i < 16; i++) /* channel 1 */
    quant->values[i] = i % 2 ? 3e38f : -3e38f;
  fill_find (tensors, "encoder.conv_out.bias")->values[1] = 9;
  dir = fill_write_official (&fill_model_a, tensors, FILL_F32, network);
  fixture_init (&f, dir, 40, 72, FALSE);
  fill_delete (dir);
  g_assert_true (
      h3_video_encoder_push (f.encoder, rgb, 216, NULL, NULL, &error));
  g_assert_false (h3_video_encoder_finish (f.encoder, H3_POSTERIOR_SAMPLE, 42,
      NULL, NULL, &latent, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, "channel 1");
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
  g_test_add_func ("/video/encoder/model-a", test_model_a);
  g_test_add_func ("/video/encoder/model-b", test_model_b);
  g_test_add_func ("/video/encoder/frames", test_frames);
  g_test_add_func ("/video/encoder/trimmed", test_trimmed);
  g_test_add_func ("/video/encoder/still-in-clip", test_still_in_clip);
  g_test_add_func ("/video/encoder/posterior", test_posterior);
  g_test_add_func ("/video/encoder/layouts", test_layouts);
  g_test_add_func ("/video/encoder/sizes", test_sizes);
  g_test_add_func ("/video/encoder/workspace", test_workspace);
  g_test_add_func ("/video/encoder/refused", test_refused);
  g_test_add_func ("/video/encoder/configuration", test_configuration);
  g_test_add_func ("/video/encoder/tensors", test_tensors);
  g_test_add_func ("/video/encoder/plan", test_plan);
  g_test_add_func ("/video/encoder/not-finite", test_not_finite);
}
