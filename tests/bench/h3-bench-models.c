/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/audio/audio-private.h"
#include "model/denoise/transformer-private.h"
#include "model/text/text-layers.h"
#include "model/text/vision-layers.h"
#include "model/video/video-private.h"
#include "tests/bench/h3-bench.h"

/* Numbers are made on the host once, and repeated: so many of them that no
 * cache holds them. */
#define POOL ((gint64) 1 << 24)

struct _Filler {
  H3Device *device;
  H3Stream *stream;
  gfloat *host;   /* [POOL] uniform, of deviation 1 */
  H3Tensor *unit; /* the same on the device */
  gint64 next;
  H3Encoding encoding; /* filler_set_encoding() */
};

#define DIMS(...)                                                              \
  G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ })), (gint64[])                       \
  {                                                                            \
    __VA_ARGS__                                                                \
  }

static void
stop (GError *error)
{
  fprintf (stderr, "h3-bench: %s\n", error->message);
  exit (1);
}

static H3Tensor *
new_tensor (Filler *f, H3DType dtype, guint rank, const gint64 *shape)
{
  GError *error = NULL;
  H3Tensor *tensor = h3_tensor_new (f->device, dtype, rank, shape, &error);

  if (!tensor)
    stop (error);
  return tensor;
}

Filler *
filler_new (H3Device *device)
{
  Filler *f = g_new0 (Filler, 1);
  guint64 x = 88172645463325252;
  GError *error = NULL;

  f->device = device;
  f->stream = h3_stream_new (device, &error);
  if (!f->stream)
    stop (error);
  f->host = g_new (gfloat, POOL);
  for (gint64 i = 0; i < POOL; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    f->host[i] = ((gfloat) (x >> 40) * 0x1p-23f - 1) * 1.7320508f;
  }
  f->unit = new_tensor (f, H3_DTYPE_F32, DIMS (POOL));
  h3_upload (f->stream, f->unit, f->host);
  return f;
}

void
filler_free (Filler *f)
{
  h3_tensor_unref (f->unit);
  h3_stream_free (f->stream);
  g_free (f->host);
  g_free (f);
}

/* A small one, through the host. */
static void
fill_vector (Filler *f, H3Tensor *tensor, gdouble deviation, gdouble mean)
{
  gint64 n = h3_tensor_size (tensor);
  g_autofree gfloat *values = g_new (gfloat, n);

  for (gint64 i = 0; i < n; i++)
    values[i] = mean + deviation * f->host[(f->next + i) % POOL];
  h3_upload (f->stream, tensor, values);
  h3_stream_synchronize (f->stream, NULL);
}

/* A large one: scaled on the device, piece by piece, each tensor from another
 * place on. */
static void
fill_matrix (Filler *f, H3Tensor *tensor, gdouble deviation)
{
  gint64 n = h3_tensor_size (tensor), at = 64 * f->next % POOL;
  g_autoptr (H3Tensor) scaled = new_tensor (f, H3_DTYPE_F32, DIMS (POOL));

  h3_scale (f->stream, scaled, f->unit, deviation);
  for (gint64 first = 0, part; first < n; first += part, at = 0) {
    g_autoptr (H3Tensor) to = NULL;
    g_autoptr (H3Tensor) from = NULL;

    part = MIN (POOL - at, n - first);
    to = h3_tensor_view (tensor, first, DIMS (part));
    from = h3_tensor_view (scaled, at, DIMS (part));
    h3_copy (f->stream, to, from);
  }
}

H3Tensor *
filler_tensor (Filler *f, H3DType dtype, gdouble deviation, gdouble mean,
    guint rank, const gint64 *shape)
{
  H3Tensor *tensor = new_tensor (f, dtype, rank, shape);
  GError *error = NULL;

  if (dtype == H3_DTYPE_F32 && h3_tensor_size (tensor) < (1 << 20))
    fill_vector (f, tensor, deviation, mean);
  else
    fill_matrix (f, tensor, deviation);
  f->next += 7919;
  if (!h3_stream_synchronize (f->stream, &error))
    stop (error);
  return tensor;
}

/* Doubled until it is full. */
H3Tensor *
filler_bytes (Filler *f, gint64 rows, gint64 cols, const guint8 *period,
    gsize n)
{
  H3Tensor *tensor = new_tensor (f, H3_DTYPE_U8, DIMS (rows, cols));
  gint64 size = h3_tensor_size (tensor), done = MIN (size, (gint64) n);
  g_autoptr (H3Tensor) start = h3_tensor_view (tensor, 0, DIMS (done));
  GError *error = NULL;

  h3_upload (f->stream, start, period);
  for (gint64 part; done < size; done += part) {
    g_autoptr (H3Tensor) to = NULL;
    g_autoptr (H3Tensor) from = NULL;

    part = MIN (done, size - done);
    to = h3_tensor_view (tensor, done, DIMS (part));
    from = h3_tensor_view (tensor, 0, DIMS (part));
    h3_copy (f->stream, to, from);
  }
  if (!h3_stream_synchronize (f->stream, &error))
    stop (error);
  return tensor;
}

gfloat *
filler_values (Filler *f, gsize n, gfloat deviation)
{
  gfloat *values = g_new (gfloat, n);

  for (gsize i = 0; i < n; i++)
    values[i] = deviation * f->host[(f->next + i) % POOL];
  f->next += 7919;
  return values;
}

void
filler_set_encoding (Filler *f, H3Encoding encoding)
{
  f->encoding = encoding;
}

H3Encoding
filler_encoding (const Filler *f)
{
  return f->encoding;
}

gint64
filler_place (const Filler *f)
{
  return f->next;
}

void
filler_go_to (Filler *f, gint64 place)
{
  f->next = place;
}

/* Keeps the size of what goes through it. */
static H3Weight *
weight (Filler *f, H3DType dtype, gint64 rows, gint64 cols)
{
  return h3_weight_new_plain (
      filler_tensor (f, dtype, 1 / sqrt (cols), 0, DIMS (rows, cols)));
}

/* What weight-type=fp8 makes of the same numbers. */
static H3Weight *
quantised (Filler *f, gint64 rows, gint64 cols)
{
  g_autoptr (H3Weight) plain = weight (f, H3_DTYPE_BF16, rows, cols);
  H3Weight *w = h3_weight_new_encoded (H3_ENCODING_E4M3, rows, cols);
  GError *error = NULL;

  w->tensor = new_tensor (f, H3_DTYPE_U8, DIMS (rows, cols));
  w->scale = new_tensor (f, H3_DTYPE_F32, DIMS (rows));
  h3_quantise_rows (f->stream, w->tensor, w->scale, plain->tensor);
  if (!h3_stream_synchronize (f->stream, &error))
    stop (error);
  return w;
}

/* One that files have quantised. */
static H3Weight *
matrix (Filler *f, gint64 rows, gint64 cols)
{
  switch (f->encoding) {
    case H3_ENCODING_PLAIN:
      return weight (f, H3_DTYPE_BF16, rows, cols);
    case H3_ENCODING_E4M3:
      return quantised (f, rows, cols);
    default:
      return bench_encoded_new (f, f->encoding, rows, cols);
  }
}

static H3Tensor *
gain (Filler *f, gint64 n)
{
  return filler_tensor (f, H3_DTYPE_F32, 0.1, 1, DIMS (n));
}

static H3Tensor *
bias (Filler *f, gint64 n)
{
  return filler_tensor (f, H3_DTYPE_F32, 0.1, 0, DIMS (n));
}

/* denoiser.md 1 */
static const H3TransformerConfig transformer_config = { .hidden = 5376,
  .layers = 50,
  .refiner_layers = 2,
  .heads = 56,
  .head_dim = 128,
  .ffn = 14336,
  .video_channels = 24,
  .audio_channels = 32,
  .text_dim = 5120,
  .freq_dim = 256,
  .time_hidden = 5376,
  .time_dim = 2688,
  .rope_freqs = 16,
  .rope_theta = 10000,
  .norm_eps = 1e-5,
  .qk_norm_eps = 1e-5,
  .final_norm_eps = 1e-5 };

static void
fill_block (Filler *f, const H3TransformerConfig *c, H3Block *b)
{
  gint64 inner = (gint64) c->heads * c->head_dim, h = c->hidden;

  b->norm1 = gain (f, h);
  b->norm2 = gain (f, h);
  b->q_norm = gain (f, c->head_dim);
  b->k_norm = gain (f, c->head_dim);
  b->qkv = matrix (f, 3 * inner, h);
  b->out = matrix (f, h, inner);
  b->fc1 = matrix (f, 2 * (gint64) c->ffn, h);
  b->fc2 = matrix (f, h, c->ffn);
}

/* The rows that AdaLN's weights would give, for there are no files to read them
 * from. */
static void
fill_adaln (Filler *f, const H3TransformerConfig *c, H3Adaln *adaln)
{
  static const H3AdalnPair pairs[] = { { BENCH_T_V, H3_TAG_TEXT },
    { BENCH_T_V, H3_TAG_VIDEO }, { BENCH_T_A, H3_TAG_AUDIO } };

  h3_adaln_init (adaln);
  adaln->capacity = H3_ADALN_PAIRS;
  adaln->n_pairs = G_N_ELEMENTS (pairs);
  adaln->pairs = g_new (H3AdalnPair, H3_ADALN_PAIRS);
  memcpy (adaln->pairs, pairs, sizeof pairs);
  adaln->table = filler_tensor (f, f->device->act_dtype, 0.2, 0,
      DIMS ((gint64) H3_ADALN_PAIRS * c->layers,
          H3_N_ADALN * (gint64) c->hidden));
}

H3Transformer *
bench_transformer_new (Filler *f, gint layers)
{
  H3Transformer *t = g_new0 (H3Transformer, 1);
  H3TransformerConfig *c = &t->config;
  H3Encoding encoding = f->encoding;

  g_atomic_ref_count_init (&t->refcount);
  t->device = h3_device_ref (f->device);
  *c = transformer_config;
  if (layers > 0)
    c->layers = layers;
  t->video_in = weight (f, H3_DTYPE_F32, c->hidden, 4 * c->video_channels);
  t->video_in_bias = bias (f, c->hidden);
  t->audio_in = weight (f, H3_DTYPE_F32, c->hidden, c->audio_channels);
  t->audio_in_bias = bias (f, c->hidden);
  t->condition = weight (f, H3_DTYPE_BF16, c->hidden, c->text_dim);
  t->condition_bias = bias (f, c->hidden);
  t->time_in = weight (f, H3_DTYPE_F32, c->time_hidden, c->freq_dim);
  t->time_in_bias = bias (f, c->time_hidden);
  t->time_out = weight (f, H3_DTYPE_F32, c->time_dim, c->time_hidden);
  t->time_out_bias = bias (f, c->time_dim);
  t->refiner = g_new0 (H3Block, c->refiner_layers);
  f->encoding = H3_ENCODING_PLAIN; /* as files have it (checkpoints.md 4.3) */
  for (gint i = 0; i < c->refiner_layers; i++)
    fill_block (f, c, &t->refiner[i]);
  f->encoding = encoding;
  t->refiner_norm = gain (f, c->hidden);
  t->blocks = g_new0 (H3Block, c->layers);
  if (encoding != H3_ENCODING_PLAIN)
    c->encoded = 2 * (guint64) c->ffn * c->hidden;
  for (gint i = 0; i < c->layers; i++)
    fill_block (f, c, &t->blocks[i]);
  fill_adaln (f, c, &t->adaln);
  t->final_norm = gain (f, c->hidden);
  t->final_adaln = weight (f, H3_DTYPE_BF16,
      H3_N_FINAL_ADALN * (gint64) c->hidden, c->time_dim);
  t->final_adaln_bias = bias (f, H3_N_FINAL_ADALN * (gint64) c->hidden);
  t->video_out = weight (f, H3_DTYPE_F32, 4 * c->video_channels, c->hidden);
  t->video_out_bias = bias (f, 4 * c->video_channels);
  t->audio_out = weight (f, H3_DTYPE_F32, c->audio_channels, c->hidden);
  t->audio_out_bias = bias (f, c->audio_channels);
  return t;
}

H3Transformer *
bench_adaln_new (Filler *f, gint layers)
{
  H3Transformer *t = g_new0 (H3Transformer, 1);
  H3TransformerConfig *c = &t->config;

  g_atomic_ref_count_init (&t->refcount);
  t->device = h3_device_ref (f->device);
  *c = transformer_config;
  c->refiner_layers = 0;
  if (layers > 0)
    c->layers = layers;
  t->blocks = g_new0 (H3Block, c->layers);
  t->time_in = weight (f, H3_DTYPE_F32, c->time_hidden, c->freq_dim);
  t->time_in_bias = bias (f, c->time_hidden);
  t->time_out = weight (f, H3_DTYPE_F32, c->time_dim, c->time_hidden);
  t->time_out_bias = bias (f, c->time_dim);
  h3_adaln_init (&t->adaln);
  return t;
}

/* text-encoder.md 6 */
H3TextModel *
bench_text_model_new (Filler *f)
{
  H3TextModel *m = g_new0 (H3TextModel, 1);
  H3TextConfig *c = &m->config;

  g_atomic_ref_count_init (&m->refcount);
  *c = (H3TextConfig){ .hidden = 5120,
    .layers = 64,
    .heads = 64,
    .kv_heads = 8,
    .head_dim = 128,
    .ffn = 25600,
    .vocab = 151936,
    .max_positions = 262144,
    .mrope_section = { 24, 20, 20 },
    .rms_eps = 1e-6,
    .rope_theta = 5e6 };
  m->embed_tokens = weight (f, H3_DTYPE_BF16, c->vocab, c->hidden);
  for (guint i = 0; i < H3_TEXT_LAYERS; i++) {
    H3TextLayer *l = &m->layers[i];

    l->input_norm = gain (f, c->hidden);
    l->post_norm = gain (f, c->hidden);
    l->q_norm = gain (f, c->head_dim);
    l->k_norm = gain (f, c->head_dim);
    l->qkv = matrix (f, (gint64) (c->heads + 2 * c->kv_heads) * c->head_dim,
        c->hidden);
    l->o = matrix (f, c->hidden, c->heads * c->head_dim);
    l->gate_up = matrix (f, 2 * (gint64) c->ffn, c->hidden);
    l->down = matrix (f, c->hidden, c->ffn);
  }
  return m;
}

static H3VisionLinear
vision_linear (Filler *f, gint64 rows, gint64 cols)
{
  return (
      H3VisionLinear){ weight (f, H3_DTYPE_BF16, rows, cols), bias (f, rows) };
}

static H3VisionNorm
vision_norm (Filler *f, gint64 n)
{
  return (H3VisionNorm){ gain (f, n), bias (f, n) };
}

static H3VisionMerger
vision_merger (Filler *f, const H3VisionConfig *c, gint64 norm)
{
  return (H3VisionMerger){ vision_norm (f, norm),
    vision_linear (f, 4 * c->hidden, 4 * c->hidden),
    vision_linear (f, c->out_hidden, 4 * c->hidden) };
}

/* text-encoder.md 5 */
H3VisionModel *
bench_vision_model_new (Filler *f)
{
  H3VisionModel *m = g_new0 (H3VisionModel, 1);
  H3VisionConfig *c = &m->config;

  g_atomic_ref_count_init (&m->refcount);
  *c = (H3VisionConfig){ .hidden = 1152,
    .depth = 27,
    .heads = 16,
    .ffn = 4304,
    .positions = 2304,
    .out_hidden = 5120,
    .deepstack = { 8, 16, 24 },
    .n_deepstack = 3 };
  m->patch_embed = vision_linear (f, c->hidden, 1536);
  m->pos_embed = weight (f, H3_DTYPE_BF16, c->positions, c->hidden);
  m->blocks = g_new0 (H3VisionBlock, c->depth);
  for (gint i = 0; i < c->depth; i++)
    m->blocks[i] = (H3VisionBlock){ vision_norm (f, c->hidden),
      vision_norm (f, c->hidden), vision_linear (f, 3 * c->hidden, c->hidden),
      vision_linear (f, c->hidden, c->hidden),
      vision_linear (f, c->ffn, c->hidden),
      vision_linear (f, c->hidden, c->ffn) };
  m->merger = vision_merger (f, c, c->hidden);
  for (guint i = 0; i < c->n_deepstack; i++)
    m->deepstack[i] = vision_merger (f, c, 4 * c->hidden);
  return m;
}

static H3VideoLinear
video_linear (Filler *f, H3DType dtype, gint64 rows, gint64 cols)
{
  return (H3VideoLinear){ weight (f, dtype, rows, cols), bias (f, rows) };
}

/* video-vae.md 1 */
H3VideoVae *
bench_video_vae_new (Filler *f, gint layers)
{
  H3VideoVae *v = g_new0 (H3VideoVae, 1);
  H3VideoVaeConfig *c = &v->config;
  H3DType narrow = f->device->vae_dtype;
  gint64 dim = 2048;

  g_atomic_ref_count_init (&v->refcount);
  *c = (H3VideoVaeConfig){ .channels = 24,
    .layers = layers > 0 ? layers : 36,
    .heads = 32,
    .head_dim = 64,
    .registers = 4,
    .ffn = 8192,
    .ratio = 16,
    .ratio_t = 4,
    .clip_length = 17,
    .token_drop = 3,
    .tile = 256,
    .min_overlap = 64,
    .rope_theta = 100,
    .rope_ratio = 0.75,
    .eps = 1e-5,
    .pixel_mean = { 0.485f, 0.456f, 0.406f },
    .pixel_std = { 0.229f, 0.224f, 0.225f } };
  v->latents_mean = bias (f, c->channels);
  v->latents_std = gain (f, c->channels);
  v->post_quant = video_linear (f, narrow, c->channels, c->channels);
  v->x_embedder = video_linear (f, H3_DTYPE_F32, dim, c->channels);
  v->registers = bias (f, c->registers * dim);
  v->blocks = g_new0 (H3VideoBlock, c->layers);
  for (gint i = 0; i < c->layers; i++) {
    H3VideoBlock *b = &v->blocks[i];

    b->norm1 = gain (f, dim);
    b->norm2 = gain (f, dim);
    b->scale1 = bias (f, dim);
    b->scale2 = bias (f, dim);
    b->qkv = video_linear (f, narrow, 3 * dim, dim);
    b->out = video_linear (f, narrow, dim, dim);
    b->w1 = video_linear (f, narrow, 2 * c->ffn, dim);
    b->w2 = video_linear (f, narrow, dim, c->ffn);
  }
  v->norm_out_weight = gain (f, dim);
  v->norm_out_bias = bias (f, dim);
  v->proj_out = video_linear (f, H3_DTYPE_F32, h3_video_patch (c), dim);
  return v;
}

static H3AudioConv
audio_conv (Filler *f, gint64 a, gint64 b, gint64 taps, gint64 fan_in,
    gint64 n_bias)
{
  return (H3AudioConv){ h3_weight_new_plain (filler_tensor (f, H3_DTYPE_F32,
                            1 / sqrt (fan_in), 0, DIMS (a, b, taps))),
    n_bias ? bias (f, n_bias) : NULL };
}

static H3AudioActivation
audio_activation (Filler *f, gint64 channels)
{
  H3AudioActivation a = { gain (f, channels), gain (f, channels),
    new_tensor (f, H3_DTYPE_F32, DIMS (H3_AUDIO_TAPS)), NULL };

  h3_upload (f->stream, a.up_filter, h3_audio_default_filter ());
  h3_stream_synchronize (f->stream, NULL);
  a.down_filter = h3_tensor_ref (a.up_filter);
  return a;
}

/* audio-vae.md 1, 5 */
H3AudioVae *
bench_audio_vae_new (Filler *f)
{
  static const gint rates[] = { 5, 5, 2, 2, 2, 2, 2 };
  static const gint kernels[] = { 9, 9, 4, 4, 4, 4, 4 };
  static const gint taps[] = { 3, 7, 11 }, dilations[] = { 1, 3, 5 };
  H3AudioVae *v = g_new0 (H3AudioVae, 1);
  H3AudioVaeConfig *c = &v->config;
  GError *error = NULL;

  g_atomic_ref_count_init (&v->refcount);
  c->channels = 32;
  c->latent_dim = 2048;
  c->decoder_dim = 1024;
  c->n_stages = G_N_ELEMENTS (rates);
  c->n_kernels = c->n_dilations = 3;
  c->rate = 32000;
  for (gint i = 0; i < c->n_stages; i++) {
    c->rates[i] = rates[i];
    c->kernels[i] = kernels[i];
  }
  for (gint j = 0; j < 3; j++) {
    c->resblock_kernels[j] = taps[j];
    for (gint q = 0; q < 3; q++)
      c->dilations[j][q] = dilations[q];
  }
  h3_audio_config_release_stats (c);
  if (!h3_audio_config_complete (c, "h3-bench", &error))
    stop (error);
  v->dec_in_proj = audio_conv (f, 2048, 32, 1, 32, 2048);
  v->conv_pre = audio_conv (f, 1024, 2048, 7, 7 * 2048, 1024);
  for (gint i = 0; i < c->n_stages; i++) {
    gint64 n = h3_audio_stage_channels (c, i);

    v->ups[i] =
        audio_conv (f, 2 * n, n, kernels[i], 2 * n * kernels[i] / rates[i], n);
    for (gint j = 0; j < 3; j++) {
      H3AudioBlock *b = &v->blocks[3 * i + j];

      for (gint q = 0; q < 3; q++) {
        b->convs1[q] = audio_conv (f, n, n, taps[j], n * taps[j], n);
        b->convs2[q] = audio_conv (f, n, n, taps[j], n * taps[j], n);
        b->activations[2 * q] = audio_activation (f, n);
        b->activations[2 * q + 1] = audio_activation (f, n);
      }
    }
  }
  v->activation_post = audio_activation (f, 8);
  v->conv_post = audio_conv (f, 1, 8, 7, 56, 0);
  return v;
}
