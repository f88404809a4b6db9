/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-video.h"

#include <string.h>

#include "tests/tools/h3-test-device.h"

H3Device *
test_device (void)
{
  static H3Device *device;

  if (!device)
    device = h3_test_device_new (0);
  return device;
}

H3VideoVae *
test_load (const gchar *path, GError **error)
{
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, error);

  if (!checkpoint)
    return NULL;
  return h3_video_vae_load (checkpoint, test_device (), NULL, NULL, NULL,
      error);
}

H3VideoVae *
test_vae (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  H3VideoVae *vae = test_load (path, &error);

  g_assert_no_error (error);
  g_assert_nonnull (vae);
  return vae;
}

H3Tensor *
test_latent (const gfloat *values, gint c, gint t, gint h, gint w)
{
  g_autoptr (GError) error = NULL;
  H3Tensor *tensor = h3_tensor_new_from_host (test_device (), H3_DTYPE_F32, 4,
      (const gint64[]){ c, t, h, w }, values, &error);

  g_assert_no_error (error);
  return tensor;
}

void
clip_free (Clip *clip)
{
  g_free (clip->pixels);
  g_array_unref (clip->counts);
  g_free (clip);
}

gfloat
clip_at (const Clip *clip, gint c, gint t, gint y, gint x)
{
  gsize frame = (gsize) c * clip->frames + t;

  return clip->pixels[(frame * clip->height + y) * clip->width + x];
}

/* Puts [3, n, H, W] where it belongs in the clip. */
static void
clip_take (Clip *clip, H3Stream *stream, const H3Tensor *pixels, gint first,
    gint n)
{
  gsize frame = (gsize) clip->height * clip->width;
  g_autofree gfloat *host = g_new (gfloat, h3_tensor_size (pixels));
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (h3_tensor_size (pixels), ==, 3 * n * frame);
  h3_download (stream, host, pixels);
  h3_stream_synchronize (stream, &error);
  g_assert_no_error (error);
  g_assert_cmpint (first + n, <=, clip->frames);
  for (gint c = 0; c < 3; c++)
    memcpy (clip->pixels + ((gsize) c * clip->frames + first) * frame,
        host + c * n * frame, n * frame * sizeof (gfloat));
}

Clip *
test_decode_with (H3VideoDecoder *decoder, H3Stream *stream, H3Tensor *latent,
    const H3Stop *stop, GError **error)
{
  g_autoptr (Clip) clip = g_new0 (Clip, 1);
  gint expected = 0, first, n;
  H3Tensor *pixels;

  clip->counts = g_array_new (FALSE, FALSE, sizeof (gint));
  if (!h3_video_decoder_start (decoder, latent, error))
    return NULL;
  clip->frames = h3_video_decoder_frames (decoder);
  while (TRUE) {
    if (!h3_video_decoder_next (decoder, stop, NULL, &pixels, &first, &n,
            error))
      return NULL;
    if (n == 0)
      break;
    if (!clip->pixels) {
      clip->height = pixels->shape[2];
      clip->width = pixels->shape[3];
      clip->pixels = g_new0 (gfloat,
          (gsize) 3 * clip->frames * clip->height * clip->width);
    }
    g_assert_cmpint (first, ==, expected);
    expected += n;
    clip_take (clip, stream, pixels, first, n);
    g_array_append_val (clip->counts, n);
  }
  g_assert_cmpint (expected, ==, clip->frames);
  g_assert_null (pixels);
  return g_steal_pointer (&clip);
}

Clip *
test_decode (H3VideoVae *vae, const gfloat *latent, gint t, gint h, gint w,
    H3Composition composition)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Stream) stream = h3_stream_new (test_device (), &error);
  g_autoptr (H3Tensor) tensor =
      test_latent (latent, h3_video_vae_config (vae)->channels, t, h, w);
  g_autoptr (H3VideoDecoder) decoder = NULL;
  Clip *clip;

  g_assert_no_error (error);
  decoder = h3_video_decoder_new (vae, stream, h, w, composition, &error);
  g_assert_no_error (error);
  clip = test_decode_with (decoder, stream, tensor, NULL, &error);
  g_assert_no_error (error);
  return clip;
}

guint8 *
test_clip_rgb (const H3VideoVae *vae, const Clip *clip, H3Quantize quantize)
{
  const H3VideoVaeConfig *config = h3_video_vae_config (vae);
  gsize frame = (gsize) clip->height * clip->width * 3;
  guint8 *rgb = g_malloc (clip->frames * frame);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Stream) stream = h3_stream_new (test_device (), &error);
  g_autoptr (H3Tensor) pixels =
      test_latent (clip->pixels, 3, clip->frames, clip->height, clip->width);

  g_assert_no_error (error);
  for (gint f = 0; f < clip->frames; f++) {
    H3EmitPictureArgs args = {
      .picture = { .format = H3_PICTURE_RGB,
          .width = clip->width,
          .height = clip->height,
          .plane = { rgb + f * frame },
          .stride = { clip->width * 3 } },
      .pixels = pixels,
      .frame = f,
      .quantize = quantize,
    };

    memcpy (args.mean, config->pixel_mean, sizeof args.mean);
    memcpy (args.std, config->pixel_std, sizeof args.std);
    h3_emit_picture (stream, &args);
  }
  h3_stream_synchronize (stream, &error);
  g_assert_no_error (error);
  return rgb;
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  add_tiling_tests ();
  add_oracle_tests ();
  add_golden_tests ();
  add_stream_tests ();
  add_load_tests ();
  add_encoder_tests ();
  add_statistics_tests ();
  return g_test_run ();
}
