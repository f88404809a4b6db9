/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The two encoders. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/audio/audio-private.h"
#include "model/video/video-private.h"
#include "tests/bench/h3-bench.h"

static void
must (gboolean ok, GError *error)
{
  if (ok)
    return;
  fprintf (stderr, "h3-bench: %s\n", error ? error->message : "failed");
  exit (1);
}

static H3Tensor *
vector (Filler *f, gdouble mean, gint64 n)
{
  return filler_tensor (f, H3_DTYPE_F32, 0.1, mean, 1, &n);
}

static H3Weight *
weight (Filler *f, guint rank, const gint64 *shape)
{
  gdouble fan_in = 1;

  for (guint i = 1; i < rank; i++)
    fan_in *= shape[i];
  return h3_weight_new_plain (
      filler_tensor (f, H3_DTYPE_F32, 1 / sqrt (fan_in), 0, rank, shape));
}

static H3VideoConv
video_conv (Filler *f, gint64 co, gint64 ci, gint64 k)
{
  return (H3VideoConv){ weight (f, 5, (const gint64[]){ co, k, k, k, ci }),
    vector (f, 0, co) };
}

static H3VideoNorm
video_norm (Filler *f, gint64 n)
{
  return (H3VideoNorm){ vector (f, 1, n), vector (f, 0, n) };
}

/* video-vae.md 3.1 */
static H3VideoEncoderModel *
video_encoder_new (Filler *f)
{
  H3VideoEncoderModel *m = g_new0 (H3VideoEncoderModel, 1);
  H3VideoEncoderConfig *c = &m->config;
  gint64 in = 128;

  g_atomic_ref_count_init (&m->refcount);
  *c = (H3VideoEncoderConfig){ .vae = { .channels = 24,
                                   .ratio = 16,
                                   .ratio_t = 4,
                                   .tile = 256,
                                   .min_overlap = 64,
                                   .pixel_mean = { 0.485f, 0.456f, 0.406f },
                                   .pixel_std = { 0.229f, 0.224f, 0.225f } },
    .levels = 6,
    .blocks = 2,
    .first = 128,
    .channels = { 128, 256, 256, 512, 512, 1024 },
    .space = { 2, 2, 2, 2, 1, 1 },
    .time = { 1, 2, 2, 1, 1, 1 },
    .groups = 32,
    .eps = 1e-6 };
  for (gint i = 0; i < c->vae.channels; i++)
    c->vae.latents_std[i] = 1;
  m->conv_in = video_conv (f, in, 3, 3);
  for (gint l = 0; l < c->levels; l++) {
    gint64 out = c->channels[l];

    m->levels[l].blocks = g_new0 (H3VideoResBlock, c->blocks);
    for (gint b = 0; b < c->blocks; b++, in = out)
      m->levels[l].blocks[b] =
          (H3VideoResBlock){ video_norm (f, in), video_norm (f, out),
            video_conv (f, out, in, 3), video_conv (f, out, out, 3),
            in == out ? (H3VideoConv){ NULL } : video_conv (f, out, in, 1) };
    if (h3_video_level_shrinks (c, l))
      m->levels[l].down = video_conv (f, out, out, 3);
  }
  m->norm_out = video_norm (f, in);
  m->conv_out = video_conv (f, 48, in, 3);
  m->quant = video_conv (f, 48, 48, 1);
  return m;
}

typedef struct {
  H3VideoEncoder *encoder;
  guint8 *rgb;
  gint width, height, frames;
} Video;

static void
run_video (Bench *b, gpointer data)
{
  Video *v = data;
  g_autoptr (H3Tensor) latent = NULL;
  GError *error = NULL;

  h3_video_encoder_start (v->encoder);
  for (gint i = 0; i < v->frames; i++)
    must (h3_video_encoder_push (v->encoder, v->rgb, 3 * v->width, NULL, NULL,
              &error),
        error);
  must (h3_video_encoder_finish (v->encoder, H3_POSTERIOR_SAMPLE,
            H3_POSTERIOR_SEED, NULL, NULL, &latent, &error),
      error);
}

static void
bench_clip (Bench *b, H3VideoEncoderModel *model, gint width, gint height,
    gint frames, gdouble flop)
{
  gsize bytes = (gsize) 3 * width * height;
  Video v = { NULL, g_malloc (bytes), width, height, frames };
  g_autofree gchar *what =
      g_strdup_printf ("video encoder, %d x %d x %d", width, height, frames);
  GError *error = NULL;

  for (gsize i = 0; i < bytes; i++)
    v.rgb[i] = i * 2654435761u >> 24;
  v.encoder = h3_video_encoder_new (model, b->stream, height, width, frames > 1,
      &error);
  must (v.encoder != NULL, error);
  bench_measure (b, what, flop, run_video, &v);
  h3_video_encoder_free (v.encoder);
  g_free (v.rgb);
}

static H3AudioConv
audio_conv (Filler *f, gint64 co, gint64 ci, gint64 k)
{
  return (H3AudioConv){ weight (f, 3, (const gint64[]){ co, ci, k }),
    vector (f, 0, co) };
}

static H3AudioConv
audio_linear (Filler *f, gint64 rows, gint64 cols)
{
  return (H3AudioConv){ weight (f, 2, (const gint64[]){ rows, cols }),
    vector (f, 0, rows) };
}

static H3AudioSnake
audio_snake (Filler *f, gint64 n)
{
  return (H3AudioSnake){ vector (f, 1, n), vector (f, 1, n) };
}

static H3AudioNorm
audio_norm (Filler *f, gint64 n)
{
  return (H3AudioNorm){ vector (f, 1, n), vector (f, 0, n) };
}

/* audio-vae.md 6.1 */
static H3AudioEncoderModel *
audio_encoder_new (Filler *f)
{
  H3AudioEncoderModel *m = g_new0 (H3AudioEncoderModel, 1);
  H3AudioEncoderConfig *c = &m->config;
  gint64 width = 64, dim = 2048, z = 32;

  g_atomic_ref_count_init (&m->refcount);
  *c = (H3AudioEncoderConfig){
    .vae = { .channels = z, .latent_dim = dim, .hop = 800, .rate = 32000 },
    .dim = width,
    .heads = 8,
    .n_stages = 5,
    .rates = { 2, 4, 4, 5, 5 },
    .halo = 12
  };
  for (gint i = 0; i < z; i++)
    c->vae.latents_std[i] = 1;
  m->conv_in = audio_conv (f, width, 1, 7);
  for (gint i = 0; i < c->n_stages; i++, width *= 2) {
    H3AudioStage *stage = &m->stages[i];

    for (gint r = 0; r < H3_AUDIO_UNITS; r++)
      stage->units[r] =
          (H3AudioUnit){ audio_snake (f, width), audio_snake (f, width),
            audio_conv (f, width, width, 7), audio_conv (f, width, width, 1) };
    stage->snake = audio_snake (f, width);
    stage->down = audio_conv (f, 2 * width, width, 2 * c->rates[i]);
  }
  m->snake_out = audio_snake (f, width);
  m->conv_out = audio_conv (f, dim, width, 3);
  m->norm1 = audio_norm (f, dim);
  m->norm2 = audio_norm (f, z);
  m->norm3 = audio_norm (f, dim);
  m->mlp_norm = audio_norm (f, z);
  m->qkv = audio_linear (f, 3 * dim, dim);
  m->attn = audio_linear (f, z, dim);
  m->proj = audio_linear (f, z, dim);
  m->w0 = audio_linear (f, 2 * z, z);
  m->w1 = audio_linear (f, 2 * z, z);
  m->w2 = audio_linear (f, z, 2 * z);
  m->mean_proj = audio_linear (f, z, z);
  return m;
}

typedef struct {
  H3AudioEncoder *encoder;
  gfloat *samples;
  gsize n;
} Audio;

static void
run_audio (Bench *b, gpointer data)
{
  Audio *a = data;
  g_autoptr (H3Tensor) latent = NULL;
  GError *error = NULL;

  must (h3_audio_encoder_encode (a->encoder, a->samples, a->n, NULL, NULL,
            &latent, &error),
      error);
}

static void
bench_sound (Bench *b)
{
  g_autoptr (H3AudioEncoderModel) model = audio_encoder_new (b->filler);
  Audio a = { .n = 207 * 800 };
  GError *error = NULL;

  a.samples = g_new (gfloat, 2 * a.n);
  for (gsize i = 0; i < 2 * a.n; i++)
    a.samples[i] = sin (i * 0.1);
  a.encoder = h3_audio_encoder_new (model, b->stream, 256, &error);
  must (a.encoder != NULL, error);
  bench_measure (b, "audio encoder, 207 latents (5 s), stereo", 0.675e12,
      run_audio, &a);
  h3_audio_encoder_free (a.encoder);
  g_free (a.samples);
}

void
bench_encode (Bench *b)
{
  g_autoptr (H3VideoEncoderModel) model = video_encoder_new (b->filler);

  /* video-vae.md 13: of a tile */
  bench_clip (b, model, 1344, 768, 1, 28 * 0.217e12);
  bench_clip (b, model, 448, 256, 22, 2 * (8.95e12 + 2.6e12));
  bench_sound (b);
}
