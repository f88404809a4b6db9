/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sound to latents: convolutions chunk by chunk, then attention over the whole
 * (audio-vae.md 6.1, 10.3). */
#include <math.h>
#include <string.h>

#include "model/audio/audio-private.h"

/* Left and right go through the same mono network as a batch (1). */
#define BATCH 2
#define NORM_EPS 1e-5f

/* What a unit reads and adds to, what it activated, what it convolved. */
enum { BUFFER_X, BUFFER_T, BUFFER_U, N_BUFFERS };

/* The buffers seen as the signals of a chunk of @n latents. */
typedef struct {
  gint n;
  H3Tensor *samples; /* [2, 1, n hop] */
  /* [2, channels, length] in front of each stage, and behind the last */
  H3Tensor *stage[H3_AUDIO_MAX_STAGES + 1][N_BUFFERS];
  H3Tensor *out;       /* [2, D, n], in BUFFER_T */
  H3Tensor *out_lines; /* the same as [2 D, n] */
  H3Tensor *rows;      /* [2, n, D], in BUFFER_U */
} Views;

struct _H3AudioEncoder {
  H3AudioEncoderModel *model; /* owned */
  H3Stream *stream;           /* the caller's */
  gint chunk;

  H3Tensor *samples;
  H3Tensor *buffers[N_BUFFERS];
  Views views;
  gfloat *staging; /* [2, samples of a chunk], host */
};

/* What the part after the convolutions takes, by the sound's length. */
typedef struct {
  gint length;         /* T */
  H3Tensor *features;  /* [2 T, D] */
  H3Tensor *normed;    /* [2 T, D], and what attention makes */
  H3Tensor *qkv;       /* [2 T, 3 D] */
  H3Tensor *y, *v;     /* [2 T, C] */
  H3Tensor *gate, *up; /* [2 T, 2 C] */
  H3Tensor *latent;    /* [2, C, T] */
} Sound;

/* --- workspace ---------------------------------------------------------- */

static guint64
padded_chunk (const H3AudioEncoderConfig *config, gint chunk)
{
  return (guint64) chunk + 2 * (guint64) config->halo;
}

/* The most values any signal has for one latent of one channel: a stage halves
 * at least what it doubles. */
static guint64
widest (const H3AudioEncoderConfig *config)
{
  return MAX ((guint64) config->dim * config->vae.hop,
      (guint64) config->vae.latent_dim);
}

guint64
h3_audio_encoder_workspace (const H3AudioEncoderConfig *config,
    const H3Device *device, gint chunk, gint latents)
{
  guint64 c = config->vae.channels, dim = config->vae.latent_dim;
  guint64 chunks = (config->vae.hop + N_BUFFERS * widest (config)) *
                   padded_chunk (config, chunk);

  return BATCH * sizeof (gfloat) *
         (chunks + (guint64) latents * (5 * dim + 7 * c));
}

static gboolean
allocate (H3AudioEncoder *encoder, GError **error)
{
  const H3AudioEncoderConfig *config = &encoder->model->config;
  H3Device *device = encoder->stream->device;
  gint64 n = padded_chunk (config, encoder->chunk);

  encoder->samples = h3_tensor_new_1d (device, H3_DTYPE_F32,
      BATCH * n * config->vae.hop, error);
  if (!encoder->samples)
    return FALSE;
  for (gint i = 0; i < N_BUFFERS; i++) {
    encoder->buffers[i] = h3_tensor_new_1d (device, H3_DTYPE_F32,
        BATCH * n * widest (config), error);
    if (!encoder->buffers[i])
      return FALSE;
  }
  encoder->staging =
      g_try_malloc_n (BATCH * n, config->vae.hop * sizeof (gfloat));
  if (!encoder->staging) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "Audio encoder: no memory for a chunk of %d latents", encoder->chunk);
    return FALSE;
  }
  return TRUE;
}

static void
sound_clear (Sound *sound)
{
  g_clear_pointer (&sound->features, h3_tensor_unref);
  g_clear_pointer (&sound->normed, h3_tensor_unref);
  g_clear_pointer (&sound->qkv, h3_tensor_unref);
  g_clear_pointer (&sound->y, h3_tensor_unref);
  g_clear_pointer (&sound->v, h3_tensor_unref);
  g_clear_pointer (&sound->gate, h3_tensor_unref);
  g_clear_pointer (&sound->up, h3_tensor_unref);
  g_clear_pointer (&sound->latent, h3_tensor_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sound, sound_clear)

static gboolean
sound_init (Sound *sound, H3AudioEncoder *encoder, gint length, GError **error)
{
  const H3AudioVaeConfig *config = &encoder->model->config.vae;
  gint64 c = config->channels, dim = config->latent_dim, rows = BATCH * length;
  const struct {
    H3Tensor **tensor;
    gint64 cols;
  } all[] = { { &sound->features, dim }, { &sound->normed, dim },
    { &sound->qkv, 3 * dim }, { &sound->y, c }, { &sound->v, c },
    { &sound->gate, 2 * c }, { &sound->up, 2 * c } };

  sound->length = length;
  for (guint i = 0; i < G_N_ELEMENTS (all); i++) {
    *all[i].tensor = h3_tensor_new_2d (encoder->stream->device, H3_DTYPE_F32,
        rows, all[i].cols, error);
    if (!*all[i].tensor)
      return FALSE;
  }
  sound->latent = h3_tensor_new_3d (encoder->stream->device, H3_DTYPE_F32,
      BATCH, c, length, error);
  return sound->latent != NULL;
}

/* --- views -------------------------------------------------------------- */

static void
views_clear (Views *views)
{
  g_clear_pointer (&views->samples, h3_tensor_unref);
  g_clear_pointer (&views->out, h3_tensor_unref);
  g_clear_pointer (&views->out_lines, h3_tensor_unref);
  g_clear_pointer (&views->rows, h3_tensor_unref);
  for (gint i = 0; i <= H3_AUDIO_MAX_STAGES; i++)
    for (gint k = 0; k < N_BUFFERS; k++)
      g_clear_pointer (&views->stage[i][k], h3_tensor_unref);
  views->n = 0;
}

static H3Tensor *
view (H3Tensor *buffer, gint64 a, gint64 b, gint64 c)
{
  return h3_tensor_view (buffer, 0, 3, (const gint64[]){ a, b, c });
}

/* The first, the last and the inner chunks have different lengths. */
static void
views_set_length (H3AudioEncoder *encoder, gint n)
{
  const H3AudioEncoderConfig *config = &encoder->model->config;
  Views *views = &encoder->views;
  gint64 length = (gint64) n * config->vae.hop, channels = config->dim;
  gint64 dim = config->vae.latent_dim;

  if (views->n == n)
    return;
  views_clear (views);
  views->n = n;
  views->samples = view (encoder->samples, BATCH, 1, length);
  for (gint i = 0; i <= config->n_stages; i++) {
    for (gint k = 0; k < N_BUFFERS; k++)
      views->stage[i][k] = view (encoder->buffers[k], BATCH, channels, length);
    if (i == config->n_stages)
      break;
    channels *= 2;
    length /= config->rates[i];
  }
  views->out = view (encoder->buffers[BUFFER_T], BATCH, dim, n);
  views->out_lines = h3_tensor_view (encoder->buffers[BUFFER_T], 0, 2,
      (const gint64[]){ BATCH * dim, n });
  views->rows = view (encoder->buffers[BUFFER_U], BATCH, n, dim);
}

/* --- the convolutions --------------------------------------------------- */

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

static void
convolve (H3AudioEncoder *encoder, H3Tensor *y, const H3Tensor *x,
    const H3AudioConv *conv, gint stride, gint dilation, gint pad,
    const H3Tensor *residual)
{
  h3_conv1d (encoder->stream, &(H3Conv1dArgs){ .y = y,
                                  .x = x,
                                  .weight = conv->weight,
                                  .bias = conv->bias,
                                  .residual = residual,
                                  .stride = stride,
                                  .dilation = dilation,
                                  .pad = pad });
}

static void
snake (H3AudioEncoder *encoder, H3Tensor *y, const H3Tensor *x,
    const H3AudioSnake *s)
{
  h3_snake (encoder->stream, &(H3SnakeArgs){ y, x, s->a, s->inv_a });
}

/* Three units x = x + conv2 (snake (conv1 (snake (x)))), then half as often and
 * twice as wide. */
static void
run_stage (H3AudioEncoder *encoder, gint i, gint x, const H3Tap *tap)
{
  static const gint dilations[H3_AUDIO_UNITS] = { 1, 3, 9 };
  const H3AudioStage *stage = &encoder->model->stages[i];
  H3Tensor **in = encoder->views.stage[i], **out = encoder->views.stage[i + 1];
  gint rate = encoder->model->config.rates[i];
  gint u = x == BUFFER_X ? BUFFER_U : BUFFER_X;

  for (gint r = 0; r < H3_AUDIO_UNITS; r++) {
    const H3AudioUnit *unit = &stage->units[r];

    snake (encoder, in[BUFFER_T], in[x], &unit->snake1);
    convolve (encoder, in[u], in[BUFFER_T], &unit->conv1, 1, dilations[r],
        3 * dilations[r], NULL);
    snake (encoder, in[BUFFER_T], in[u], &unit->snake2);
    convolve (encoder, in[x], in[BUFFER_T], &unit->conv2, 1, 1, 0, in[x]);
  }
  tap_stage (tap, in[x], "encoder.block.%d.units", i + 1);
  snake (encoder, in[BUFFER_T], in[x], &stage->snake);
  convolve (encoder, out[u], in[BUFFER_T], &stage->down, rate, 1,
      (rate + 1) / 2, NULL);
  tap_stage (tap, out[u], "encoder.block.%d", i + 1);
}

/* From views.samples to views.rows. */
static gboolean
run_convolutions (H3AudioEncoder *encoder, const H3Stop *stop, const H3Tap *tap,
    GError **error)
{
  const H3AudioEncoderModel *model = encoder->model;
  gint n = model->config.n_stages, x = BUFFER_X;
  Views *views = &encoder->views;
  H3Tensor **last = views->stage[n];

  convolve (encoder, views->stage[0][x], views->samples, &model->conv_in, 1, 1,
      3, NULL);
  tap_stage (tap, views->stage[0][x], "encoder.block.0");
  for (gint i = 0; i < n; i++) {
    if (h3_stop_requested (stop, error))
      return FALSE;
    run_stage (encoder, i, x, tap);
    x = x == BUFFER_X ? BUFFER_U : BUFFER_X;
  }
  snake (encoder, last[x], last[x], &model->snake_out);
  convolve (encoder, views->out, last[x], &model->conv_out, 1, 1, 1, NULL);
  tap_stage (tap, views->out, "encoder.block.%d", n + 2);
  /* the same exchange of the last two dimensions */
  h3_audio_rows_to_latent (encoder->stream, views->rows, views->out_lines);
  return TRUE;
}

/* Latents [first, first + n) of both sides, zeros beyond the end. */
static void
stage_samples (H3AudioEncoder *encoder, const gfloat *samples, gsize length,
    gint first, gint n)
{
  gsize hop = encoder->model->config.vae.hop, size = n * hop;
  gsize begin = MIN (first * hop, length), end = MIN (begin + size, length);
  gfloat *to = encoder->staging;

  for (gint side = 0; side < BATCH; side++, to += size) {
    memcpy (to, samples + side * length + begin, (end - begin) * sizeof *to);
    memset (to + (end - begin), 0, (size - (end - begin)) * sizeof *to);
  }
  h3_upload (encoder->stream, encoder->views.samples, encoder->staging);
}

/* The core latents' rows out of those with halo. */
static void
keep_rows (H3AudioEncoder *encoder, Sound *sound, gint first, gint halo,
    gint core)
{
  gint n = encoder->views.n;

  for (gint side = 0; side < BATCH; side++) {
    g_autoptr (H3Tensor) from = h3_tensor_view_rows (encoder->views.rows,
        (gint64) side * n + halo, core);
    g_autoptr (H3Tensor) to = h3_tensor_view_rows (sound->features,
        (gint64) side * sound->length + first, core);

    h3_copy (encoder->stream, to, from);
  }
}

/* 10.3: chunks with a halo of what the sound has around them, so that the true
 * edges of the sound are edges here too. */
static gboolean
encode_chunks (H3AudioEncoder *encoder, Sound *sound, const gfloat *samples,
    gsize length, const H3Stop *stop, const H3Tap *tap, GError **error)
{
  gint halo = encoder->model->config.halo;

  for (gint s = 0; s < sound->length; s += encoder->chunk) {
    gint core = MIN (encoder->chunk, sound->length - s);
    gint a = MAX (0, s - halo);
    gint b = s + core + MIN (halo, sound->length - s - core);
    gboolean done;

    views_set_length (encoder, b - a);
    stage_samples (encoder, samples, length, a, b - a);
    done = run_convolutions (encoder, stop, tap, error);
    if (done)
      keep_rows (encoder, sound, s, s - a, core);
    /* the next chunk writes into the staging memory */
    if (!h3_stream_synchronize (encoder->stream, done ? error : NULL) || !done)
      return FALSE;
  }
  return TRUE;
}

/* --- pre_block ---------------------------------------------------------- */

static void
norm (H3AudioEncoder *encoder, H3Tensor *y, const H3Tensor *x,
    const H3AudioNorm *n)
{
  h3_layer_norm (encoder->stream, &(H3LayerNormArgs){ .y = y,
                                      .x = x,
                                      .weight = n->weight,
                                      .bias = n->bias,
                                      .eps = NORM_EPS });
}

static void
linear (H3AudioEncoder *encoder, H3Tensor *y, const H3Tensor *x,
    const H3AudioConv *layer, H3Activation activation, gboolean accumulate)
{
  h3_linear (encoder->stream, &(H3LinearArgs){ .y = y,
                                  .x = x,
                                  .weight = layer->weight,
                                  .bias = layer->bias,
                                  .activation = activation,
                                  .accumulate = accumulate });
}

/* y = proj (norm3 (h)) + attn (norm1 (h)) */
static void
run_attention (H3AudioEncoder *encoder, Sound *sound, const H3Tap *tap)
{
  const H3AudioEncoderModel *model = encoder->model;
  guint heads = model->config.heads;
  guint head_dim = model->config.vae.latent_dim / heads;

  norm (encoder, sound->normed, sound->features, &model->norm1);
  linear (encoder, sound->qkv, sound->normed, &model->qkv, H3_ACTIVATION_NONE,
      FALSE);
  h3_attention (encoder->stream, &(H3AttentionArgs){ .y = sound->normed,
                                     .qkv = sound->qkv,
                                     .heads = heads,
                                     .kv_heads = heads,
                                     .head_dim = head_dim,
                                     .n_sequences = BATCH,
                                     .causal = TRUE,
                                     .scale = 1 / sqrtf (head_dim) });
  tap_stage (tap, sound->normed, "pre_block.attn.heads");
  linear (encoder, sound->y, sound->normed, &model->attn, H3_ACTIVATION_NONE,
      FALSE);
  tap_stage (tap, sound->y, "pre_block.attn");
  norm (encoder, sound->normed, sound->features, &model->norm3);
  linear (encoder, sound->y, sound->normed, &model->proj, H3_ACTIVATION_NONE,
      TRUE);
  tap_stage (tap, sound->y, "pre_block.attention");
}

/* y = y + w2 (gelu (w0 u) w1 u), u = mlp.norm (norm2 (y)); then the mean */
static void
run_head (H3AudioEncoder *encoder, Sound *sound, const H3Tap *tap)
{
  const H3AudioEncoderModel *model = encoder->model;
  g_autoptr (H3Tensor) u = h3_tensor_view (sound->qkv, 0, 2, sound->y->shape);

  norm (encoder, sound->v, sound->y, &model->norm2);
  norm (encoder, u, sound->v, &model->mlp_norm);
  linear (encoder, sound->gate, u, &model->w0, H3_ACTIVATION_GELU_TANH, FALSE);
  linear (encoder, sound->up, u, &model->w1, H3_ACTIVATION_NONE, FALSE);
  h3_multiply (encoder->stream, sound->gate, sound->up);
  linear (encoder, sound->y, sound->gate, &model->w2, H3_ACTIVATION_NONE, TRUE);
  tap_stage (tap, sound->y, "pre_block");
  linear (encoder, sound->v, sound->y, &model->mean_proj, H3_ACTIVATION_NONE,
      FALSE);
  h3_audio_rows_to_latent (encoder->stream, sound->latent, sound->v);
  tap_stage (tap, sound->latent, "mean");
}

/* On the host, as the references do (7): the same bytes for the same mean. */
static gboolean
normalise (H3AudioEncoder *encoder, Sound *sound, GError **error)
{
  const H3AudioVaeConfig *config = &encoder->model->config.vae;
  gsize n = h3_tensor_size (sound->latent);
  g_autofree gfloat *host = g_try_new (gfloat, n);

  if (!host) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "Audio encoder: no memory for %d latents", sound->length);
    return FALSE;
  }
  h3_download (encoder->stream, host, sound->latent);
  if (!h3_stream_synchronize (encoder->stream, error))
    return FALSE;
  for (gsize i = 0; i < n; i++) {
    gint c = i / sound->length % config->channels;

    host[i] = (host[i] - config->latents_mean[c]) / config->latents_std[c];
    if (!isfinite (host[i])) {
      g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
          "Audio encoder: channel %d of the latents has NaN or infinite "
          "values: the weights are damaged",
          c);
      return FALSE;
    }
  }
  h3_upload (encoder->stream, sound->latent, host);
  return h3_stream_synchronize (encoder->stream, error);
}

/* --- interface ---------------------------------------------------------- */

gint
h3_audio_encoded_latents (const H3AudioEncoderConfig *config, gsize samples)
{
  gsize hop = config->vae.hop, n = samples / hop + (samples % hop != 0);

  return (gint) MIN (n, G_MAXINT);
}

H3AudioEncoder *
h3_audio_encoder_new (H3AudioEncoderModel *model, H3Stream *stream, gint chunk,
    GError **error)
{
  g_autoptr (H3AudioEncoder) encoder = NULL;
  const H3AudioEncoderConfig *config = &model->config;
  gint most = G_MAXINT32 / BATCH / config->vae.hop - 2 * config->halo;

  if (chunk < 1 || chunk > most) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "Audio encoder: a chunk of %d latents; needed: 1 to %d", chunk, most);
    return NULL;
  }
  encoder = g_new0 (H3AudioEncoder, 1);
  encoder->model = h3_audio_encoder_model_ref (model);
  encoder->stream = stream;
  encoder->chunk = chunk;
  if (!allocate (encoder, error))
    return NULL;
  return g_steal_pointer (&encoder);
}

void
h3_audio_encoder_free (H3AudioEncoder *encoder)
{
  views_clear (&encoder->views);
  g_clear_pointer (&encoder->samples, h3_tensor_unref);
  for (gint i = 0; i < N_BUFFERS; i++)
    g_clear_pointer (&encoder->buffers[i], h3_tensor_unref);
  g_free (encoder->staging);
  h3_audio_encoder_model_unref (encoder->model);
  g_free (encoder);
}

static gboolean
check_samples (const H3AudioEncoderConfig *config, const gfloat *samples,
    gsize n, GError **error)
{
  gsize most = (gsize) (G_MAXINT32 / BATCH - 1) * config->vae.hop;

  if (n == 0 || n > most) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a reference sound of %" G_GSIZE_FORMAT
        " samples: 1 to %" G_GSIZE_FORMAT " are needed",
        n, most);
    return FALSE;
  }
  for (gsize i = 0; i < BATCH * n; i++)
    if (!isfinite (samples[i])) {
      g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
          "%s sample %" G_GSIZE_FORMAT " of a reference sound is %g",
          i < n ? "left" : "right", i % n, samples[i]);
      return FALSE;
    }
  return TRUE;
}

gboolean
h3_audio_encoder_encode (H3AudioEncoder *encoder, const gfloat *samples,
    gsize n, const H3Stop *stop, const H3Tap *tap, H3Tensor **latent,
    GError **error)
{
  const H3AudioEncoderConfig *config = &encoder->model->config;
  g_auto (Sound) sound = { 0 };

  *latent = NULL;
  if (!check_samples (config, samples, n, error) ||
      !sound_init (&sound, encoder, h3_audio_encoded_latents (config, n),
          error) ||
      !encode_chunks (encoder, &sound, samples, n, stop, tap, error) ||
      h3_stop_requested (stop, error))
    return FALSE;
  run_attention (encoder, &sound, tap);
  run_head (encoder, &sound, tap);
  if (!normalise (encoder, &sound, error))
    return FALSE;
  *latent = g_steal_pointer (&sound.latent);
  return TRUE;
}
