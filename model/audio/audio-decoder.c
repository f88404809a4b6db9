/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The audio decoder: latents to samples, chunk by chunk (audio-vae.md 5, 10). */
#include <math.h>
#include <string.h>

#include "model/audio/audio-private.h"

/* Left and right go through the same mono network as a batch (1). */
#define BATCH 2

/* What holds a stage's signals. All have the same size, that of the largest. */
enum {
  BUFFER_X, /* the stage's input, which every block reads */
  BUFFER_T, /* activated */
  BUFFER_U, /* convolved */
  BUFFER_R, /* the blocks' streams, one buffer each */
  N_BUFFERS = BUFFER_R + H3_AUDIO_MAX_KERNELS
};

/* The buffers seen as the signals of a chunk of @n latents. */
typedef struct {
  gint n;
  H3Tensor *latent;                                /* [2, C, n] */
  H3Tensor *projected;                             /* [2, latent_dim, n] */
  H3Tensor *pre;                                   /* [2, decoder_dim, n] */
  H3Tensor *stage[H3_AUDIO_MAX_STAGES][N_BUFFERS]; /* [2, C_i, L_i] */
  H3Tensor *mono;                                  /* [2, 1, n hop] */
  H3Tensor *samples;                               /* [n hop, 2] */
} Views;

struct _H3AudioDecoder {
  H3AudioVae *vae;  /* owned */
  H3Stream *stream; /* the caller's */
  gint chunk;

  H3Tensor *latent, *samples, *count; /* owned, as are the buffers */
  H3Tensor *buffers[N_BUFFERS];
  Views views;
  H3Tensor *result; /* what the last next() gave out */
  gfloat *staging;  /* [2, C, chunk + 2 halo], host */

  gfloat *clip; /* [2, C, T], normalised, host; NULL: no clip */
  gint length;  /* T */
  gint next;    /* the first latent not yet decoded */
};

/* --- workspace ---------------------------------------------------------- */

/* Latents in the longest chunk with its halo. */
static guint64
padded_chunk (const H3AudioVaeConfig *config, gint chunk)
{
  return (guint64) chunk + 2 * (guint64) config->halo;
}

/* The most values any signal has for one latent of one channel. */
static guint64
widest (const H3AudioVaeConfig *config)
{
  guint64 most = MAX (config->latent_dim, config->decoder_dim);

  for (gint i = 0; i < config->n_stages; i++)
    most = MAX (most, (guint64) h3_audio_stage_channels (config, i) *
                          h3_audio_stage_rate (config, i));
  return most;
}

static gint
n_buffers (const H3AudioVaeConfig *config)
{
  return BUFFER_R + config->n_kernels;
}

guint64
h3_audio_decoder_workspace (const H3AudioVaeConfig *config,
    const H3Device *device, gint chunk)
{
  guint64 values =
      config->channels + config->hop + n_buffers (config) * widest (config);

  return BATCH * sizeof (gfloat) * values * padded_chunk (config, chunk) +
         sizeof (gint32);
}

static gboolean
allocate (H3AudioDecoder *decoder, GError **error)
{
  const H3AudioVaeConfig *config = &decoder->vae->config;
  H3Device *device = decoder->stream->device;
  gint64 n = padded_chunk (config, decoder->chunk);

  decoder->latent = h3_tensor_new_3d (device, H3_DTYPE_F32, BATCH,
      config->channels, n, error);
  if (!decoder->latent)
    return FALSE;
  for (gint i = 0; i < n_buffers (config); i++) {
    decoder->buffers[i] = h3_tensor_new_3d (device, H3_DTYPE_F32, BATCH,
        widest (config), n, error);
    if (!decoder->buffers[i])
      return FALSE;
  }
  decoder->samples =
      h3_tensor_new_2d (device, H3_DTYPE_F32, n * config->hop, BATCH, error);
  decoder->count = decoder->samples
                       ? h3_tensor_new_1d (device, H3_DTYPE_I32, 1, error)
                       : NULL;
  if (!decoder->count)
    return FALSE;
  decoder->staging =
      g_try_malloc_n (BATCH * config->channels, n * sizeof (gfloat));
  if (!decoder->staging) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "Audio decoder: no memory "
        "for a chunk of %d latents",
        decoder->chunk);
    return FALSE;
  }
  return TRUE;
}

/* --- views -------------------------------------------------------------- */

static void
views_clear (Views *views)
{
  g_clear_pointer (&views->latent, h3_tensor_unref);
  g_clear_pointer (&views->projected, h3_tensor_unref);
  g_clear_pointer (&views->pre, h3_tensor_unref);
  g_clear_pointer (&views->mono, h3_tensor_unref);
  g_clear_pointer (&views->samples, h3_tensor_unref);
  for (gint i = 0; i < H3_AUDIO_MAX_STAGES; i++) {
    for (gint k = 0; k < N_BUFFERS; k++)
      g_clear_pointer (&views->stage[i][k], h3_tensor_unref);
  }
  views->n = 0;
}

static H3Tensor *
signal_view (H3Tensor *buffer, gint64 channels, gint64 length)
{
  const gint64 shape[3] = { BATCH, channels, length };

  return h3_tensor_view (buffer, 0, 3, shape);
}

/* The first, the last and the inner chunks have different lengths. */
static void
views_set_length (H3AudioDecoder *decoder, gint n)
{
  const H3AudioVaeConfig *config = &decoder->vae->config;
  Views *views = &decoder->views;

  if (views->n == n)
    return;
  views_clear (views);
  views->n = n;
  views->latent = signal_view (decoder->latent, config->channels, n);
  views->projected =
      signal_view (decoder->buffers[BUFFER_T], config->latent_dim, n);
  views->pre = signal_view (decoder->buffers[BUFFER_R], config->decoder_dim, n);
  for (gint i = 0; i < config->n_stages; i++) {
    gint64 length = (gint64) n * h3_audio_stage_rate (config, i);

    for (gint k = 0; k < n_buffers (config); k++)
      views->stage[i][k] = signal_view (decoder->buffers[k],
          h3_audio_stage_channels (config, i), length);
  }
  views->mono =
      signal_view (decoder->buffers[BUFFER_U], 1, (gint64) n * config->hop);
  views->samples =
      h3_tensor_view_rows (decoder->samples, 0, (gint64) n * config->hop);
}

/* --- the network -------------------------------------------------------- */

static void tap_stage (const H3Tap *tap, const H3Tensor *value,
    const gchar *format, ...) G_GNUC_PRINTF (3, 4);

static void
tap_stage (const H3Tap *tap, const H3Tensor *value, const gchar *format, ...)
{
  g_autofree gchar *name = NULL;
  va_list args;

  if (!tap || !tap->func)
    return;
  va_start (args, format);
  name = g_strdup_vprintf (format, args);
  va_end (args);
  h3_tap (tap, name, value);
}

/* Length-preserving convolution, plus @residual when there is one. */
static void
convolve (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3AudioConv *conv, gint dilation, const H3Tensor *residual)
{
  gint kernel = conv->weight->tensor->shape[2];

  h3_conv1d (stream, &(H3Conv1dArgs){
                         .y = y,
                         .x = x,
                         .weight = conv->weight,
                         .bias = conv->bias,
                         .residual = residual,
                         .stride = 1,
                         .dilation = dilation,
                         .pad = (kernel - 1) / 2 * dilation,
                     });
}

static void
activate (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3AudioActivation *activation)
{
  h3_snake_beta (stream, &(H3SnakeBetaArgs){
                             .y = y,
                             .x = x,
                             .a = activation->a,
                             .inv_b = activation->inv_b,
                             .up_filter = activation->up_filter,
                             .down_filter = activation->down_filter,
                         });
}

/* AMP block @j of stage @i: for each dilation
 *   x = x + convs2 (act (convs1 (act (x)))) */
static void
amp_block (H3AudioDecoder *decoder, gint i, gint j, const H3Tap *tap)
{
  const H3AudioVaeConfig *config = &decoder->vae->config;
  gint n = i * config->n_kernels + j;
  const H3AudioBlock *block = &decoder->vae->blocks[n];
  H3Stream *stream = decoder->stream;
  H3Tensor **view = decoder->views.stage[i];
  H3Tensor *t = view[BUFFER_T], *u = view[BUFFER_U], *r = view[BUFFER_R + j];
  H3Tensor *x = view[BUFFER_X];

  for (gint q = 0; q < config->n_dilations; q++) {
    activate (stream, t, x, &block->activations[2 * q]);
    tap_stage (tap, t, "decoder.resblocks.%d.activations.%d", n, 2 * q);
    convolve (stream, u, t, &block->convs1[q], config->dilations[j][q], NULL);
    activate (stream, t, u, &block->activations[2 * q + 1]);
    convolve (stream, r, t, &block->convs2[q], 1, x);
    x = r;
  }
  tap_stage (tap, r, "decoder.resblocks.%d", n);
}

/* The mean of the blocks ends in the first one's buffer, and is returned. */
static H3Tensor *
stage (H3AudioDecoder *decoder, gint i, const H3Tensor *x, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  const H3AudioVaeConfig *config = &decoder->vae->config;
  H3Tensor **view = decoder->views.stage[i];
  H3Tensor **r = view + BUFFER_R;

  h3_conv_transpose1d (decoder->stream,
      &(H3ConvTranspose1dArgs){
          .y = view[BUFFER_X],
          .x = x,
          .weight = decoder->vae->ups[i].weight,
          .bias = decoder->vae->ups[i].bias,
          .stride = config->rates[i],
      });
  tap_stage (tap, view[BUFFER_X], "decoder.ups.%d", i);
  for (gint j = 0; j < config->n_kernels; j++) {
    if (h3_stop_requested (stop, error))
      return NULL;
    amp_block (decoder, i, j, tap);
  }
  if (config->n_kernels > 1)
    h3_mean3 (decoder->stream, r[0], r[0], r[1], r[2]);
  tap_stage (tap, r[0], "decoder.stages.%d", i);
  return r[0];
}

/* From views.latent to views.mono and views.samples. */
static gboolean
run_network (H3AudioDecoder *decoder, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  const H3AudioVaeConfig *config = &decoder->vae->config;
  const H3AudioVae *vae = decoder->vae;
  H3Stream *stream = decoder->stream;
  Views *views = &decoder->views;
  H3Tensor **last = views->stage[config->n_stages - 1];
  const H3Tensor *x = views->pre;

  tap_stage (tap, views->latent, "latents");
  convolve (stream, views->projected, views->latent, &vae->dec_in_proj, 1,
      NULL);
  tap_stage (tap, views->projected, "dec_in_proj");
  convolve (stream, views->pre, views->projected, &vae->conv_pre, 1, NULL);
  tap_stage (tap, views->pre, "decoder.conv_pre");
  for (gint i = 0; i < config->n_stages; i++) {
    x = stage (decoder, i, x, stop, tap, error);
    if (!x)
      return FALSE;
  }
  activate (stream, last[BUFFER_T], x, &vae->activation_post);
  tap_stage (tap, last[BUFFER_T], "decoder.activation_post");
  convolve (stream, views->mono, last[BUFFER_T], &vae->conv_post, 1, NULL);
  tap_stage (tap, views->mono, "decoder.conv_post");
  h3_interleave_clamp (stream, views->samples, views->mono);
  tap_stage (tap, views->samples, "samples");
  return TRUE;
}

/* --- a chunk ------------------------------------------------------------ */

/* Latents [first, first + n) with the normalisation undone (2.2): the product
 * rounds before the sum. */
static void
stage_latents (H3AudioDecoder *decoder, gint first, gint n)
{
  const H3AudioVaeConfig *config = &decoder->vae->config;
  gfloat *out = decoder->staging;

  for (gint row = 0; row < BATCH * config->channels; row++) {
    const gfloat *in = decoder->clip + (gsize) row * decoder->length + first;
    gfloat mean = config->latents_mean[row % config->channels];
    gfloat std = config->latents_std[row % config->channels];

    for (gint t = 0; t < n; t++)
      *out++ = in[t] * std + mean;
  }
  h3_upload (decoder->stream, decoder->views.latent, decoder->staging);
}

/* Says which sample of which side is the first that is no number. */
static void
refuse_samples (H3AudioDecoder *decoder, gint first, gint32 count,
    GError **error)
{
  H3Tensor *mono = decoder->views.mono;
  gint64 length = mono->shape[2], n = 0;
  g_autofree gfloat *host = g_try_malloc (mono->bytes);
  GError *failure = NULL;

  if (host) {
    h3_download (decoder->stream, host, mono);
    if (!h3_stream_synchronize (decoder->stream, &failure)) {
      g_propagate_error (error, failure);
      return;
    }
    while (n < BATCH * length - 1 && isfinite (host[n]))
      n++;
  }
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "Audio decoder: %d samples "
      "are NaN or infinite, the first is %s sample %" G_GINT64_FORMAT "; the "
      "weights or the latents are damaged",
      count, n < length ? "left" : "right",
      n % length + (gint64) first * decoder->vae->config.hop);
}

/* Decodes latents [first, first + n) into views.samples and waits for them. */
static gboolean
decode (H3AudioDecoder *decoder, gint first, gint n, const H3Stop *stop,
    const H3Tap *tap, GError **error)
{
  gint32 bad = 0;

  views_set_length (decoder, n);
  stage_latents (decoder, first, n);
  if (!run_network (decoder, stop, tap, error)) {
    /* Nothing may still read the staging memory when this returns. */
    h3_stream_synchronize (decoder->stream, NULL);
    return FALSE;
  }
  /* Before the clamp, which turns an infinity into 1. */
  h3_count_nonfinite (decoder->stream, decoder->count, decoder->views.mono);
  h3_download (decoder->stream, &bad, decoder->count);
  if (!h3_stream_synchronize (decoder->stream, error))
    return FALSE;
  if (bad > 0) {
    refuse_samples (decoder, first, bad, error);
    return FALSE;
  }
  return TRUE;
}

/* --- interface ---------------------------------------------------------- */

H3AudioDecoder *
h3_audio_decoder_new (H3AudioVae *vae, H3Stream *stream, gint chunk,
    GError **error)
{
  g_autoptr (H3AudioDecoder) decoder = NULL;
  const H3AudioVaeConfig *config = h3_audio_vae_config (vae);
  gint most = G_MAXINT32 / BATCH / config->hop - 2 * config->halo;

  if (chunk < 1 || chunk > most) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "Audio decoder: a chunk of "
        "%d latents; needed: 1 to %d",
        chunk, most);
    return NULL;
  }
  decoder = g_new0 (H3AudioDecoder, 1);
  decoder->vae = h3_audio_vae_ref (vae);
  decoder->stream = stream;
  decoder->chunk = chunk;
  if (!allocate (decoder, error))
    return NULL;
  return g_steal_pointer (&decoder);
}

void
h3_audio_decoder_free (H3AudioDecoder *decoder)
{
  views_clear (&decoder->views);
  g_clear_pointer (&decoder->result, h3_tensor_unref);
  g_clear_pointer (&decoder->latent, h3_tensor_unref);
  g_clear_pointer (&decoder->samples, h3_tensor_unref);
  g_clear_pointer (&decoder->count, h3_tensor_unref);
  for (gint i = 0; i < N_BUFFERS; i++)
    g_clear_pointer (&decoder->buffers[i], h3_tensor_unref);
  g_free (decoder->staging);
  g_free (decoder->clip);
  h3_audio_vae_unref (decoder->vae);
  g_free (decoder);
}

static gboolean
check_latent (const H3AudioVaeConfig *config, const H3Tensor *latent,
    GError **error)
{
  if (latent->dtype != H3_DTYPE_F32 || latent->rank != 3 ||
      latent->shape[0] != BATCH || latent->shape[1] != config->channels ||
      latent->shape[2] < 1 || latent->shape[2] > G_MAXINT32 / config->hop) {
    g_autoptr (GString) found = g_string_new (h3_dtype_name (latent->dtype));

    for (guint i = 0; i < latent->rank; i++)
      g_string_append_printf (found, "%s%" G_GINT64_FORMAT, i ? ", " : " [",
          latent->shape[i]);
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "Audio latent is %s]; needed: float32 [2, %d, T] with T from 1 to %d",
        found->str, config->channels, G_MAXINT32 / config->hop);
    return FALSE;
  }
  return TRUE;
}

static gboolean
check_finite (const H3AudioDecoder *decoder, GError **error)
{
  gint channels = decoder->vae->config.channels;

  for (gint row = 0; row < BATCH * channels; row++) {
    const gfloat *values = decoder->clip + (gsize) row * decoder->length;

    for (gint t = 0; t < decoder->length; t++) {
      if (!isfinite (values[t])) {
        g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
            "Audio latent: %s "
            "channel %d at latent %d is %g; needed: finite numbers",
            row < channels ? "left" : "right", row % channels, t, values[t]);
        return FALSE;
      }
    }
  }
  return TRUE;
}

gboolean
h3_audio_decoder_start (H3AudioDecoder *decoder, H3Tensor *latent,
    GError **error)
{
  g_clear_pointer (&decoder->clip, g_free);
  decoder->length = decoder->next = 0;
  if (!check_latent (&decoder->vae->config, latent, error))
    return FALSE;
  decoder->clip = g_try_malloc (latent->bytes);
  if (!decoder->clip) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "Audio decoder: no memory "
        "for %" G_GSIZE_FORMAT " bytes of latents",
        latent->bytes);
    return FALSE;
  }
  h3_download (decoder->stream, decoder->clip, latent);
  decoder->length = latent->shape[2];
  if (!h3_stream_synchronize (decoder->stream, error) ||
      !check_finite (decoder, error)) {
    g_clear_pointer (&decoder->clip, g_free);
    decoder->length = 0;
    return FALSE;
  }
  return TRUE;
}

/* 10.2: @core latents from s with the halo that the clip has around them, so
 * that the true edges of the clip are edges here too. */
gboolean
h3_audio_decoder_next (H3AudioDecoder *decoder, const H3Stop *stop,
    const H3Tap *tap, H3Tensor **samples, gint *first, gint *n, GError **error)
{
  const H3AudioVaeConfig *config = &decoder->vae->config;
  gint s = decoder->next;
  gint core = MIN (decoder->chunk, decoder->length - s);
  gint a = MAX (0, s - config->halo);
  gint b = s + core + MIN (config->halo, decoder->length - s - core);

  g_clear_pointer (&decoder->result, h3_tensor_unref);
  *samples = NULL;
  *first = s * config->hop;
  *n = 0;
  if (core == 0)
    return TRUE;
  if (h3_stop_requested (stop, error) ||
      !decode (decoder, a, b - a, stop, tap, error))
    return FALSE;
  decoder->result = h3_tensor_view_rows (decoder->samples,
      (gint64) (s - a) * config->hop, (gint64) core * config->hop);
  decoder->next = s + core;
  *samples = decoder->result;
  *n = core * config->hop;
  return TRUE;
}
