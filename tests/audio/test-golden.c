/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the public implementation computed from the same weights. */

#include "tests/audio/audio-test.h"

/* Decoder alone. The golden latents are raw: the configuration's statistics
 * have to come off first. */
static void
test_module (void)
{
  g_autoptr (H3AudioVae) vae = audio_test_load (h3_test_tiny_dir ());
  const H3AudioVaeConfig *config = h3_audio_vae_config (vae);
  gint64 shape[H3_STORED_MAX_RANK];
  gsize n, n_want;
  g_autofree gfloat *z =
      h3_test_golden ("audio_vae.safetensors", "decode_in", &n);
  g_autofree gfloat *want =
      h3_test_golden ("audio_vae.safetensors", "decode_out", &n_want);
  g_autoptr (AudioClip) clip = NULL;
  g_autofree gfloat *got = NULL;

  h3_test_golden_shape ("audio_vae.safetensors", "decode_in", shape);
  g_assert_cmpint (shape[1], ==, config->channels);
  for (gsize i = 0; i < n; i++) {
    gint c = i / shape[2] % config->channels;

    z[i] = (z[i] - config->latents_mean[c]) / config->latents_std[c];
  }
  clip = audio_test_decode (vae, z, shape[2], 256, NULL);
  g_assert_cmpint (2 * clip->n, ==, n_want);
  got = audio_clip_planar (clip);
  h3_test_assert_close (got, want, n_want, h3_test_tolerance (1e-5, 3e-4));
}

/* From the final latents of a whole request to its sound. */
static void
check_request (H3AudioVae *vae, const gchar *file)
{
  gint64 shape[H3_STORED_MAX_RANK];
  gsize n_want;
  g_autofree gfloat *z = h3_test_golden (file, "final_audio_latents", NULL);
  g_autofree gfloat *want = h3_test_golden (file, "audio", &n_want);
  g_autoptr (AudioClip) clip = NULL;
  g_autofree gfloat *got = NULL;

  h3_test_golden_shape (file, "final_audio_latents", shape);
  clip = audio_test_decode (vae, z, shape[2], 256, NULL);
  g_assert_cmpint (2 * clip->n, ==, n_want);
  got = audio_clip_planar (clip);
  g_test_message ("%s: largest difference %g", file,
      h3_test_max_abs (got, want, n_want, NULL));
  h3_test_assert_max_abs (got, want, n_want, h3_test_tolerance (1e-4, 3e-4));
}

static void
test_tiny_requests (void)
{
  g_autoptr (H3AudioVae) vae = audio_test_load (h3_test_tiny_dir ());

  static const gchar *const names[] = { "t2va", "t2va_39", "fl2va_first",
    "fl2va_last", "fl2va_both", "ref2va_image", "ref2va_mixed" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree gchar *file =
        g_strdup_printf ("request_%s.safetensors", names[i]);

    check_request (vae, file);
  }
}

/* The demo's weights are stored as float16. */
static void
test_demo_requests (void)
{
  g_autoptr (H3AudioVae) vae = audio_test_load (h3_test_demo_dir ());
  static const gchar *const names[] = { "t2va_22", "t2va_39", "t2va_portrait",
    "first_22" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree gchar *file = g_strdup_printf ("demo/%s.safetensors", names[i]);

    check_request (vae, file);
  }
}

/* Both layouts hold the same numbers, so the same bytes must come out. */
static void
test_layouts (void)
{
  g_autoptr (H3AudioVae) official = audio_test_load (h3_test_tiny_dir ());
  g_autoptr (H3AudioVae) diffusers =
      audio_test_load (h3_test_tiny_diffusers_dir ());
  const H3AudioVaeConfig *config = h3_audio_vae_config (official);
  g_autofree gfloat *z = audio_test_noise (config->channels, 9, 3);
  g_autoptr (AudioClip) a = audio_test_decode (official, z, 9, 256, NULL);
  g_autoptr (AudioClip) b = audio_test_decode (diffusers, z, 9, 256, NULL);

  g_assert_cmpmem (config, sizeof (*config), h3_audio_vae_config (diffusers),
      sizeof (*config));
  audio_test_assert_equal (a, b);
}

void
audio_add_golden_tests (void)
{
  g_test_add_func ("/audio/golden/module", test_module);
  g_test_add_func ("/audio/golden/tiny-requests", test_tiny_requests);
  g_test_add_func ("/audio/golden/demo-requests", test_demo_requests);
  g_test_add_func ("/audio/golden/layouts", test_layouts);
}
