/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sampling.md 3: torch's numbers, and where each convention puts them. */
#include "test-denoise.h"

#include "model/denoise/noise.h"
#include "model/denoise/packing.h"

#define TOLERANCE 2e-6

static gfloat *
randn (guint64 seed, gsize n)
{
  gfloat *out = g_new (gfloat, n);
  H3Generator generator;

  h3_generator_seed (&generator, seed);
  h3_generator_randn (&generator, out, n);
  return out;
}

static void
test_raw (void)
{
  static const guint32 want[] = { 1608637542u, 3421126067u, 4083286876u,
    787846414u };
  H3Generator a, b;

  h3_generator_seed (&a, 42);
  h3_generator_seed (&b, 42 + (G_GUINT64_CONSTANT (1) << 32));
  for (guint i = 0; i < G_N_ELEMENTS (want); i++)
    g_assert_cmpuint (h3_generator_u32 (&a), ==, want[i]);
  /* past the first refill, and blind to the seed's upper half */
  for (guint i = 0; i < G_N_ELEMENTS (want); i++)
    h3_generator_u32 (&b);
  for (guint i = 0; i < 2000; i++)
    g_assert_cmpuint (h3_generator_u32 (&a), ==, h3_generator_u32 (&b));
}

static void
test_golden (void)
{
  static const guint64 seeds[] = { 0, 42, 440204 };
  static const gsize lengths[] = { 7, 15, 16, 17, 40, 1000 };

  for (guint s = 0; s < G_N_ELEMENTS (seeds); s++)
    for (guint i = 0; i < G_N_ELEMENTS (lengths); i++) {
      g_autofree gchar *name =
          g_strdup_printf ("seed%" G_GUINT64_FORMAT "_n%" G_GSIZE_FORMAT,
              seeds[s], lengths[i]);
      gsize n;
      g_autofree gfloat *want =
          h3_test_golden ("torch_randn.safetensors", name, &n);
      g_autofree gfloat *got = randn (seeds[s], lengths[i]);

      g_assert_cmpuint (n, ==, lengths[i]);
      h3_test_assert_max_abs (got, want, n, TOLERANCE);
    }
}

static void
test_continued (void)
{
  static const guint64 seeds[] = { 0, 42, 440204 };

  for (guint s = 0; s < G_N_ELEMENTS (seeds); s++) {
    g_autofree gchar *name_a =
        g_strdup_printf ("seed%" G_GUINT64_FORMAT "_seq_a", seeds[s]);
    g_autofree gchar *name_b =
        g_strdup_printf ("seed%" G_GUINT64_FORMAT "_seq_b", seeds[s]);
    gsize n_a, n_b;
    g_autofree gfloat *want_a =
        h3_test_golden ("torch_randn.safetensors", name_a, &n_a);
    g_autofree gfloat *want_b =
        h3_test_golden ("torch_randn.safetensors", name_b, &n_b);
    g_autofree gfloat *got_a = g_new (gfloat, n_a);
    g_autofree gfloat *got_b = g_new (gfloat, n_b);
    H3Generator generator;

    h3_generator_seed (&generator, seeds[s]);
    h3_generator_randn (&generator, got_a, n_a);
    h3_generator_randn (&generator, got_b, n_b);
    h3_test_assert_max_abs (got_a, want_a, n_a, TOLERANCE);
    h3_test_assert_max_abs (got_b, want_b, n_b, TOLERANCE);
  }
}

/* The vectors of sampling.md 3.3. */
static void
test_vectors (void)
{
  static const gfloat latent[] = { 1.9269153f, 1.4872841f, 0.9007172f,
    -2.1055210f, 0.6784185f, -1.2345449f, -0.0430675f, -1.6046669f, -0.7521353f,
    1.6487230f, -0.3924786f, -1.4036071f, -0.7278813f, -0.5594302f, -0.7688389f,
    0.7624454f, 1.6423169f, -0.1595975f };
  static const gfloat rows_end[] = { -0.5617774f, -0.4788385f, -0.7523331f,
    -0.4768685f };
  static const gfloat ragged[] = { 1.9269153f, 1.4872841f, 0.9007172f,
    -2.1055210f, -0.7581311f, 1.0783176f, 0.8008006f, 1.6806206f, 0.3558599f,
    -0.6866230f, -0.4933563f, 0.2414878f, -0.2316243f, 0.0417595f, -0.2515753f,
    0.8598585f, -0.3097268f, -0.3957105f, 0.8034093f, -0.6215954f };
  g_autofree gfloat *a = randn (42, 24 * 2 * 2 * 2);
  g_autofree gfloat *b = randn (42, 74 * 32);
  g_autofree gfloat *c = randn (42, 20);

  h3_test_assert_max_abs (a, latent, G_N_ELEMENTS (latent), TOLERANCE);
  h3_test_assert_max_abs (b + 74 * 32 - 4, rows_end, 4, TOLERANCE);
  h3_test_assert_max_abs (c, ragged, G_N_ELEMENTS (ragged), TOLERANCE);
}

/* The second value of a pair waits for the next call, also across a tensor
 * that takes the other path. */
static void
test_spare (void)
{
  g_autofree gfloat *together = randn (7, 8);
  gfloat apart[8], block[16];
  H3Generator generator;

  h3_generator_seed (&generator, 7);
  h3_generator_randn (&generator, apart, 3);
  h3_generator_randn (&generator, apart + 3, 5);
  h3_test_assert_max_abs (apart, together, 8, 0);

  h3_generator_seed (&generator, 7);
  h3_generator_randn (&generator, apart, 3);
  h3_generator_randn (&generator, block, 16);
  h3_generator_randn (&generator, apart + 3, 1);
  g_assert_cmpfloat (apart[3], ==, together[3]);
}

typedef struct {
  H3Geometry geometry;
  gint video_channels, audio_channels;
  gfloat *video, *audio;
} Noise;

static void
noise_init (Noise *noise, H3NoiseMode mode, guint64 seed)
{
  g_autoptr (GError) error = NULL;
  gsize n_video, n_audio;

  noise->video_channels = 24;
  noise->audio_channels = 32;
  h3_geometry_init (&noise->geometry, 320, 192, 22, &error);
  g_assert_no_error (error);
  n_video = (gsize) noise->geometry.video_rows * 96;
  n_audio = (gsize) noise->geometry.audio_rows * 32;
  noise->video = g_new (gfloat, n_video);
  noise->audio = g_new (gfloat, n_audio);
  h3_noise_draw (mode, seed, &noise->geometry, NULL, 0, 24, 32,
      &(H3Noise){ .video = noise->video, .audio = noise->audio }, &error);
  g_assert_no_error (error);
}

static void
noise_clear (Noise *noise)
{
  g_free (noise->video);
  g_free (noise->audio);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Noise, noise_clear)

/* The three conventions agree on the video and differ in the audio. */
static void
test_modes (void)
{
  static const gfloat video[] = { -0.2045267f, 0.3922351f, 0.7242652f,
    -0.6500193f, -0.5946499f, -0.2409091f };
  static const gfloat audio[] = { 0.3993377f, 0.6792072f, 1.0895301f,
    1.4121639f, -1.2820092f, -1.3119874f };
  g_auto (Noise) diffusers = { 0 };
  g_auto (Noise) sglang = { 0 };
  g_auto (Noise) comfy = { 0 };
  gsize n_rows, n_video;

  noise_init (&diffusers, H3_NOISE_DIFFUSERS, 440204);
  noise_init (&sglang, H3_NOISE_SGLANG, 440204);
  noise_init (&comfy, H3_NOISE_COMFY, 440204);
  n_rows = diffusers.geometry.audio_rows;
  n_video = (gsize) diffusers.geometry.video_rows * 96;

  /* latent (0, 0, 0, x) is row x / 2, column x % 2 */
  for (guint x = 0; x < G_N_ELEMENTS (video); x++)
    g_assert_cmpfloat_with_epsilon (diffusers.video[x / 2 * 96 + x % 2],
        video[x], TOLERANCE);
  g_assert_cmpmem (diffusers.video, n_video * sizeof (gfloat), sglang.video,
      n_video * sizeof (gfloat));
  g_assert_cmpmem (diffusers.video, n_video * sizeof (gfloat), comfy.video,
      n_video * sizeof (gfloat));

  h3_test_assert_max_abs (diffusers.audio, audio, G_N_ELEMENTS (audio),
      TOLERANCE);
  h3_test_assert_max_abs (sglang.audio, video, G_N_ELEMENTS (video), TOLERANCE);
  for (guint t = 0; t < G_N_ELEMENTS (audio); t++)
    g_assert_cmpfloat_with_epsilon (comfy.audio[t * 32], audio[t], TOLERANCE);
  /* the same stream, other places */
  for (gsize row = 0; row < n_rows; row++)
    for (gsize c = 0; c < 32; c++)
      g_assert_cmpfloat (comfy.audio[row * 32 + c], ==,
          diffusers.audio[c * n_rows + row]);
}

void
h3_test_add_noise (void)
{
  g_test_add_func ("/noise/raw", test_raw);
  g_test_add_func ("/noise/golden", test_golden);
  g_test_add_func ("/noise/continued", test_continued);
  g_test_add_func ("/noise/vectors", test_vectors);
  g_test_add_func ("/noise/spare", test_spare);
  g_test_add_func ("/noise/modes", test_modes);
}
