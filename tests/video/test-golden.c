/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Against the golden data: network pixels of the tiny checkpoint, and the
 * pictures of whole requests from their final latents. */
#include <math.h>

#include "test-video.h"
#include "tests/tools/h3-test-device.h"

/* "video_vae.safetensors" has latents as the network sees them, a decoder takes
 * them normalised. */
static void
normalise (const H3VideoVaeConfig *config, gfloat *latent, gsize per_channel)
{
  for (gint c = 0; c < config->channels; c++)
    for (gsize i = 0; i < per_channel; i++, latent++)
      *latent = (*latent - config->latents_mean[c]) / config->latents_std[c];
}

static H3VideoVae *
load_tiny (void)
{
  return test_vae (h3_test_tiny_dir ());
}

static Clip *
decode_raw_golden (H3VideoVae *vae, const gchar *name)
{
  gint64 shape[H3_STORED_MAX_RANK];
  gsize n;
  g_autofree gfloat *latent =
      h3_test_golden ("video_vae.safetensors", name, &n);

  g_assert_cmpuint (h3_test_golden_shape ("video_vae.safetensors", name, shape),
      ==, 5);
  normalise (h3_video_vae_config (vae), latent, n / shape[1]);
  return test_decode (vae, latent, shape[2], shape[3], shape[4],
      H3_COMPOSITION_RAW);
}

/* Every @stride-th row and column. */
static gfloat *
take_every (const Clip *clip, gint stride, gsize *n)
{
  gint rows = (clip->height + stride - 1) / stride;
  gint cols = (clip->width + stride - 1) / stride;
  gfloat *taken = g_new (gfloat, (gsize) 3 * clip->frames * rows * cols);
  gfloat *to = taken;

  for (gint c = 0; c < 3; c++)
    for (gint t = 0; t < clip->frames; t++)
      for (gint y = 0; y < clip->height; y += stride)
        for (gint x = 0; x < clip->width; x += stride)
          *to++ = clip_at (clip, c, t, y, x);
  *n = to - taken;
  return taken;
}

static void
test_decode22 (void)
{
  g_autoptr (H3VideoVae) vae = load_tiny ();
  g_autoptr (Clip) clip = decode_raw_golden (vae, "decode22_in");
  gsize n, n_want;
  g_autofree gfloat *got = take_every (clip, 2, &n);
  g_autofree gfloat *want =
      h3_test_golden ("video_vae.safetensors", "decode22_out_stride2", &n_want);

  g_assert_cmpint (clip->frames, ==, 22);
  g_assert_cmpuint (n, ==, n_want);
  h3_test_assert_close (got, want, n, h3_test_tolerance (1e-5, 2e-3));
}

/* @want was stored in float16: what lies within half a step of it cannot be
 * told from it. Moves those values onto it, and the rest that much nearer. */
static void
forgive_half_step (gfloat *got, const gfloat *want, gsize n)
{
  for (gsize i = 0; i < n; i++) {
    gint exponent;
    gfloat half;

    frexpf (want[i], &exponent);
    half = ldexpf (1, MAX (exponent, -13) - 12);
    if (fabsf (got[i] - want[i]) <= half)
      got[i] = want[i];
    else
      got[i] += got[i] > want[i] ? -half : half;
  }
}

static void
test_decode39_tiled (void)
{
  g_autoptr (H3VideoVae) vae = load_tiny ();
  g_autoptr (Clip) clip = decode_raw_golden (vae, "decode39_tiled_in");
  gsize n, n_want;
  g_autofree gfloat *got = take_every (clip, 3, &n);
  g_autofree gfloat *want = h3_test_golden ("video_vae.safetensors",
      "decode39_tiled_out_stride3", &n_want);

  g_assert_cmpint (clip->frames, ==, 39);
  g_assert_cmpint (clip->height, ==, 320);
  g_assert_cmpint (clip->width, ==, 288);
  g_assert_cmpuint (n, ==, n_want);
  h3_test_assert_close (got, want, n, h3_test_tolerance (4e-4, 2e-3));
  forgive_half_step (got, want, n);
  h3_test_assert_close (got, want, n, h3_test_tolerance (1e-5, 2e-3));
}

typedef struct {
  const gchar *file;
  gboolean demo;
} Request;

static void
test_request (gconstpointer data)
{
  const Request *request = data;
  g_autoptr (H3VideoVae) vae =
      test_vae (request->demo ? h3_test_demo_dir () : h3_test_tiny_dir ());
  gint64 shape[H3_STORED_MAX_RANK];
  gsize n;
  g_autofree gfloat *latent =
      h3_test_golden (request->file, "final_latents", NULL);
  g_autofree gint32 *want = h3_test_golden_ints (request->file, "video_u8", &n);
  g_autoptr (Clip) clip = NULL;
  g_autofree guint8 *got = NULL;

  g_assert_cmpuint (h3_test_golden_shape (request->file, "final_latents",
                        shape),
      ==, 5);
  clip = test_decode (vae, latent, shape[2], shape[3], shape[4],
      H3_COMPOSITION_RAW);
  g_assert_cmpuint ((gsize) 3 * clip->frames * clip->height * clip->width, ==,
      n);
  got = test_clip_rgb (vae, clip, H3_QUANTIZE_ROUND);
  h3_test_assert_codes (got, want, n);
}

void
add_golden_tests (void)
{
  static const Request requests[] = {
    { "request_t2va.safetensors" },
    { "request_t2va_39.safetensors" },
    { "request_fl2va_first.safetensors" },
    { "request_fl2va_last.safetensors" },
    { "request_fl2va_both.safetensors" },
    { "request_ref2va_image.safetensors" },
    { "request_ref2va_mixed.safetensors" },
    { "demo/t2va_22.safetensors", TRUE },
    { "demo/t2va_39.safetensors", TRUE },
    { "demo/t2va_portrait.safetensors", TRUE },
    { "demo/first_22.safetensors", TRUE },
  };

  g_test_add_func ("/video/golden/decode22", test_decode22);
  g_test_add_func ("/video/golden/decode39-tiled", test_decode39_tiled);
  for (guint i = 0; i < G_N_ELEMENTS (requests); i++) {
    g_autofree gchar *path =
        g_strconcat ("/video/golden/", requests[i].file, NULL);
    g_test_add_data_func (path, &requests[i], test_request);
  }
}
