/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Conditions' latents as the rows that the transformer reads (packing.md 3, 4,
 * sampling.md 3.4). */
#include "model/denoise/condition-rows.h"

#include "model/denoise/packing.h"

static gboolean
check_channels (const H3Condition *c, const gchar *what, const H3Tensor *latent,
    gint64 found, gint needed, GError **error)
{
  if (latent && found == needed)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "the %s's %s latent has %" G_GINT64_FORMAT
      " channels, the transformer needs %d: do autoencoder and transformer "
      "belong together?",
      h3_condition_name (c->kind), what, latent ? found : 0, needed);
  return FALSE;
}

static gfloat *
try_floats (gsize n, GError **error)
{
  gfloat *values = g_try_new (gfloat, MAX (n, 1));

  if (!values)
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for %" G_GSIZE_FORMAT " bytes of conditions",
        n * sizeof (gfloat));
  return values;
}

static gfloat *
read_latent (H3Stream *stream, const H3Tensor *latent, GError **error)
{
  g_autofree gfloat *host = try_floats (h3_tensor_size (latent), error);

  if (!host)
    return NULL;
  h3_download (stream, host, latent);
  return h3_stream_synchronize (stream, error) ? g_steal_pointer (&host) : NULL;
}

/* Column c of row (ch T + t), as target audio rows are. */
static void
audio_to_rows (gfloat *rows, const gfloat *latent, gint channels, gint audio_t)
{
  for (gint ch = 0; ch < 2; ch++)
    for (gint c = 0; c < channels; c++)
      for (gint t = 0; t < audio_t; t++)
        rows[((gsize) ch * audio_t + t) * channels + c] = *latent++;
}

static gboolean
add_video (H3Stream *stream, const H3Condition *c, gint channels, gfloat *rows,
    GError **error)
{
  g_autofree gfloat *latent = NULL;

  if (!check_channels (c, "picture", c->video,
          c->video ? c->video->shape[0] : 0, channels, error))
    return FALSE;
  latent = read_latent (stream, c->video, error);
  if (!latent)
    return FALSE;
  h3_patchify (rows, latent, channels, c->latent_t, c->latent_h, c->latent_w);
  return TRUE;
}

static gboolean
add_audio (H3Stream *stream, const H3Condition *c, gint channels, gfloat *rows,
    GError **error)
{
  g_autofree gfloat *latent = NULL;

  if (!check_channels (c, "sound", c->audio, c->audio ? c->audio->shape[1] : 0,
          channels, error))
    return FALSE;
  latent = read_latent (stream, c->audio, error);
  if (!latent)
    return FALSE;
  audio_to_rows (rows, latent, channels, c->audio_t);
  return TRUE;
}

gboolean
h3_condition_rows (H3Stream *stream, const H3Condition *conditions, guint n,
    gint video_channels, gint audio_channels, const gfloat *noise,
    gfloat noise_share, H3Tensor **video, H3Tensor **audio, GError **error)
{
  gint64 video_shape[] = { 0, 4 * (gint64) video_channels };
  gint64 audio_shape[] = { 0, audio_channels };
  g_autofree gfloat *video_rows = NULL;
  g_autofree gfloat *audio_rows = NULL;
  g_autoptr (H3Tensor) video_tensor = NULL;
  gsize n_video, v = 0, a = 0;

  *video = *audio = NULL;
  for (guint i = 0; i < n; i++) {
    video_shape[0] += h3_condition_video_rows (&conditions[i]);
    audio_shape[0] += h3_condition_audio_rows (&conditions[i]);
  }
  n_video = video_shape[0] * video_shape[1];
  video_rows = try_floats (n_video, error);
  if (!video_rows)
    return FALSE;
  audio_rows = try_floats (audio_shape[0] * audio_shape[1], error);
  if (!audio_rows)
    return FALSE;

  for (guint i = 0; i < n; i++) {
    const H3Condition *c = &conditions[i];

    if ((c->latent_t > 0 &&
            !add_video (stream, c, video_channels, video_rows + v, error)) ||
        (c->audio_t > 0 &&
            !add_audio (stream, c, audio_channels, audio_rows + a, error)))
      return FALSE;
    v += h3_condition_video_rows (c) * video_shape[1];
    a += h3_condition_audio_rows (c) * audio_shape[1];
  }
  for (gsize i = 0; i < n_video; i++)
    video_rows[i] = H3_CONDITION_LEVEL * video_rows[i] + noise_share * noise[i];

  if (n_video > 0) {
    video_tensor = h3_tensor_new_from_host (stream->device, H3_DTYPE_F32, 2,
        video_shape, video_rows, error);
    if (!video_tensor)
      return FALSE;
  }
  if (audio_shape[0] > 0) {
    *audio = h3_tensor_new_from_host (stream->device, H3_DTYPE_F32, 2,
        audio_shape, audio_rows, error);
    if (!*audio)
      return FALSE;
  }
  *video = g_steal_pointer (&video_tensor);
  return TRUE;
}
