/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long the released models take on a GPU: their geometry, random weights
 * made in device memory, no files.
 *   h3-bench [--reps N] [--layers N] [--only PART] [--weights ENCODING] [--pytorch]
 * A line per part: median and range of N runs, TFLOP/s, the share of what a
 * large matrix product reaches on this GPU, and the memory in use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/h3-cuda.h"
#include "model/denoise/geometry.h"
#include "tests/bench/h3-bench.h"

static gint n_reps = 5, layers;
static gchar *only, *pytorch, *weights;
static gboolean compare;

static const GOptionEntry options[] = {
  { "reps", 'r', 0, G_OPTION_ARG_INT, &n_reps, "timed runs of each part", "N" },
  { "layers", 'l', 0, G_OPTION_ARG_INT, &layers,
      "of transformer and video decoder, for a quick look", "N" },
  { "only", 'o', 0, G_OPTION_ARG_STRING, &only,
      "matmul, ops, decode, transformer, text, vision, video, audio, encode, "
      "adaln or "
      "resident (all models at once, ten clips)",
      "PART" },
  { "weights", 'w', 0, G_OPTION_ARG_STRING, &weights,
      "of the transformer's blocks and the text encoder's layers: plain "
      "(bfloat16), fp8, e5m2, int8, nvfp4, mxfp8, or a GGUF type as q4_k",
      "ENCODING" },
  { "compare", 'c', 0, G_OPTION_ARG_NONE, &compare,
      "with --weights fp8: velocities with those of the bfloat16 weights, "
      "which "
      "then are loaded, too",
      NULL },
  { "pytorch", 'p', 0, G_OPTION_ARG_FILENAME, &pytorch,
      "then run this script, which measures the same shapes", "SCRIPT" },
  { NULL }
};

/* TRUE, or ends the program. */
static void
must (gboolean ok, GError *error)
{
  if (ok)
    return;
  fprintf (stderr, "h3-bench: %s\n", error ? error->message : "failed");
  exit (1);
}

static void
synchronize (Bench *b)
{
  GError *error = NULL;

  must (h3_stream_synchronize (b->stream, &error), error);
}

static gboolean
wanted (const gchar *part)
{
  return !only || g_str_equal (only, part);
}

static gint
by_size (gconstpointer a, gconstpointer b)
{
  gdouble x = *(const gdouble *) a, y = *(const gdouble *) b;

  return (x > y) - (x < y);
}

/* Bytes of the device's memory. */
static gdouble
in_use (Bench *b)
{
  guint64 free_bytes, total;

  b->device->ops->memory_info (b->device, &free_bytes, &total);
  return total - free_bytes;
}

gdouble
bench_measure (Bench *b, const gchar *what, gdouble flop, BenchRun run,
    gpointer data)
{
  gint reps = b->reps;
  g_autofree gdouble *ms = g_new (gdouble, reps);
  gdouble rate;

  run (b, data);
  synchronize (b);
  for (gint i = 0; i < reps; i++) {
    gint64 start = g_get_monotonic_time ();

    run (b, data);
    synchronize (b);
    ms[i] = (g_get_monotonic_time () - start) / 1e3;
  }
  qsort (ms, reps, sizeof *ms, by_size);
  rate = flop / ms[reps / 2] * 1e3;
  printf ("%-48s %9.3f ms  (%.3f .. %.3f)", what, ms[reps / 2], ms[0],
      ms[reps - 1]);
  if (flop > 0)
    printf ("  %6.1f TFLOP/s", rate / 1e12);
  if (flop > 0 && b->ceiling > 0)
    printf ("  %3.0f %%", 100 * rate / b->ceiling);
  printf ("  %6.1f GB in use\n", in_use (b) / 1e9);
  fflush (stdout);
  return ms[reps / 2] / 1e3;
}

/* --- the ceiling --- */

static void
run_linear (Bench *b, gpointer data)
{
  for (gint i = 0; i < 10; i++)
    h3_linear (b->stream, data);
}

static void
bench_matmul (Bench *b)
{
  const gint64 n = 8192, shape[] = { n, n };
  const gdouble flop = 20.0 * n * n * n;
  g_autoptr (H3Tensor) x =
      filler_tensor (b->filler, H3_DTYPE_BF16, 1, 0, 2, shape);
  g_autoptr (H3Tensor) y =
      filler_tensor (b->filler, H3_DTYPE_BF16, 1, 0, 2, shape);
  g_autoptr (H3Weight) w = h3_weight_new_plain (
      filler_tensor (b->filler, H3_DTYPE_BF16, 1, 0, 2, shape));
  H3LinearArgs args = { .y = y, .x = x, .weight = w };

  b->ceiling =
      flop / bench_measure (b, "matrix products, 10 x 8192^3, bfloat16", flop,
                 run_linear, &args);
}

/* --- the transformer --- */

typedef struct {
  H3TransformerSession *session;
  H3Tensor *video, *audio, *video_v, *audio_v;
} Denoise;

static void
run_forward (Bench *b, gpointer data)
{
  Denoise *d = data;
  GError *error = NULL;

  must (h3_transformer_forward (d->session, 0, d->video, d->audio, d->video_v,
            d->audio_v, NULL, NULL, &error),
      error);
}

/* denoiser.md 5.2 */
static gdouble
forward_flop (const H3TransformerConfig *c, gdouble rows)
{
  gdouble inner = (gdouble) c->heads * c->head_dim;

  return c->layers *
         (2 * rows * (4.0 * inner * c->hidden + 3.0 * c->ffn * c->hidden) +
             4 * rows * rows * inner);
}

/* Asks to stop from some moment on. */
static gboolean
time_is_up (gpointer data)
{
  return g_get_monotonic_time () >= *(const gint64 *) data;
}

/* How long a pass of @seconds goes on after the wish to stop, which comes in
 * different parts of a block. */
static void
bench_cancel (Bench *b, const Denoise *d, gdouble seconds, gint blocks)
{
  gdouble block = seconds / blocks, worst = 0;

  for (gint i = 0; i < b->reps; i++) {
    gdouble after = block * (5 + i + (gdouble) i / b->reps);
    gint64 end = g_get_monotonic_time () + (gint64) (1e6 * after);
    const H3Stop stop = { time_is_up, &end };
    GError *error = NULL;
    gboolean whole;

    h3_stream_set_stop (b->stream, &stop);
    whole = h3_transformer_forward (d->session, 0, d->video, d->audio,
        d->video_v, d->audio_v, &stop, NULL, &error);
    h3_stream_set_stop (b->stream, NULL);
    synchronize (b);
    if (whole)
      return; /* too short to cancel */
    must (g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED), error);
    g_error_free (error);
    worst = MAX (worst, (g_get_monotonic_time () - end) / 1e3);
  }
  printf ("  cancelled within %.1f ms, a block takes %.1f ms\n", worst,
      1e3 * block);
}

/* Rows of the sequence; 300 of text. */
static gint
denoise_init (Bench *b, Denoise *d, H3Transformer *t, gint width, gint height,
    gint frames)
{
  const H3TransformerConfig *c = h3_transformer_config (t);
  const gint n_text = 300;
  const gfloat t_v[] = { BENCH_T_V }, t_a[] = { BENCH_T_A };
  gint64 text[] = { n_text, c->text_dim };
  GError *error = NULL;
  H3Geometry g;
  g_auto (H3Packing) p = { 0 };
  g_autoptr (H3Tensor) embeds =
      filler_tensor (b->filler, H3_DTYPE_BF16, 1, 0, 2, text);

  must (h3_geometry_init (&g, width, height, frames, &error) &&
            h3_packing_init (&p, &g, NULL, n_text, NULL, 0, &error),
      error);
  d->video = filler_tensor (b->filler, H3_DTYPE_F32, 1, 0, 2,
      (gint64[]){ p.video_rows, 4 * c->video_channels });
  d->audio = filler_tensor (b->filler, H3_DTYPE_F32, 1, 0, 2,
      (gint64[]){ p.audio_rows, c->audio_channels });
  d->video_v = filler_tensor (b->filler, H3_DTYPE_F32, 1, 0, 2,
      (gint64[]){ p.video_rows, 4 * c->video_channels });
  d->audio_v = filler_tensor (b->filler, H3_DTYPE_F32, 1, 0, 2,
      (gint64[]){ p.audio_rows, c->audio_channels });
  d->session = h3_transformer_session_new (t, b->stream, &p, embeds, t_v, t_a,
      1, NULL, NULL, NULL, NULL, NULL, NULL, &error);
  must (d->session != NULL, error);
  return p.rows;
}

static void
denoise_clear (Denoise *d)
{
  h3_transformer_session_free (d->session);
  h3_tensor_unref (d->video);
  h3_tensor_unref (d->audio);
  h3_tensor_unref (d->video_v);
  h3_tensor_unref (d->audio_v);
}

static gdouble
relative_l2 (Bench *b, const H3Tensor *found, const H3Tensor *wanted)
{
  gint64 n = h3_tensor_size (wanted);
  g_autofree gfloat *a = g_new (gfloat, n);
  g_autofree gfloat *w = g_new (gfloat, n);
  gdouble error2 = 0, norm2 = 0;

  h3_download (b->stream, a, found);
  h3_download (b->stream, w, wanted);
  synchronize (b);
  for (gint64 i = 0; i < n; i++) {
    error2 += ((gdouble) a[i] - w[i]) * ((gdouble) a[i] - w[i]);
    norm2 += (gdouble) w[i] * w[i];
  }
  return sqrt (error2 / norm2);
}

/* How far @d's velocities are from those of @plain, for the same inputs, which
 * came from @place on. */
static void
bench_compare (Bench *b, const Denoise *d, H3Transformer *plain, gint64 place,
    gint width, gint height, gint frames)
{
  Denoise other;

  filler_go_to (b->filler, place);
  denoise_init (b, &other, plain, width, height, frames);
  run_forward (b, &other);
  printf ("  relative L2 to bfloat16 weights: video %.4f, audio %.4f\n",
      relative_l2 (b, d->video_v, other.video_v),
      relative_l2 (b, d->audio_v, other.audio_v));
  denoise_clear (&other);
}

/* @plain: (nullable): to compare with */
static void
bench_canvas (Bench *b, H3Transformer *t, H3Transformer *plain, gint width,
    gint height, gint frames)
{
  const H3TransformerConfig *c = h3_transformer_config (t);
  gint64 place = filler_place (b->filler);
  Denoise d;
  gint rows = denoise_init (b, &d, t, width, height, frames);
  g_autofree gchar *what = g_strdup_printf ("transformer %d x %d x %d, %d rows",
      width, height, frames, rows);
  gdouble seconds =
      bench_measure (b, what, forward_flop (c, rows), run_forward, &d);

  printf ("  workspace %.2f GB, with tables of 20 steps\n",
      h3_transformer_workspace (c, b->device, rows, 20) / 1e9);
  if (plain)
    bench_compare (b, &d, plain, place, width, height, frames);
  bench_cancel (b, &d, seconds, c->layers);
  denoise_clear (&d);
}

static void
bench_transformer (Bench *b)
{
  gdouble before = in_use (b);
  gint64 place = filler_place (b->filler);
  g_autoptr (H3Transformer) t = bench_transformer_new (b->filler, layers);
  g_autoptr (H3Transformer) plain = NULL;

  printf ("transformer, %d of 50 layers, %.2f GB resident (AdaLN's tables, not "
          "its weights)\n",
      h3_transformer_config (t)->layers, (in_use (b) - before) / 1e9);
  if (compare) {
    H3Encoding encoding = filler_encoding (b->filler);

    filler_go_to (b->filler, place);
    filler_set_encoding (b->filler, H3_ENCODING_PLAIN);
    plain = bench_transformer_new (b->filler, layers);
    filler_set_encoding (b->filler, encoding);
  }
  bench_canvas (b, t, plain, 1344, 768, 124);
  bench_canvas (b, t, plain, 960, 544, 124);
  bench_canvas (b, t, plain, 864, 480, 141);
  bench_canvas (b, t, plain, 320, 192, 22);
}

/* --- the text encoder --- */

#define N_TOKENS 300

typedef struct {
  H3TextModel *model;
  gint32 ids[N_TOKENS];
} Encode;

static void
encode_init (Encode *e, H3TextModel *model)
{
  e->model = model;
  for (gint i = 0; i < N_TOKENS; i++)
    e->ids[i] = i * 503 % h3_text_model_config (model)->vocab;
}

static void
run_encode (Bench *b, gpointer data)
{
  Encode *e = data;
  GError *error = NULL;
  g_autoptr (H3Tensor) state = h3_text_model_encode (e->model, b->stream,
      &(H3TextInput){ .ids = e->ids, .n = N_TOKENS }, NULL, NULL, &error);

  must (state != NULL, error);
}

static void
bench_text (Bench *b)
{
  g_autoptr (H3TextModel) model = bench_text_model_new (b->filler);
  const H3TextConfig *c = h3_text_model_config (model);
  gdouble q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  Encode e;

  encode_init (&e, model);
  bench_measure (b, "text encoder, 300 tokens, 50 layers",
      50 * (2.0 * N_TOKENS * c->hidden * (2 * q + 2 * kv + 3.0 * c->ffn) +
               2.0 * N_TOKENS * N_TOKENS * q),
      run_encode, &e);
}

typedef struct {
  H3VisionModel *model;
  H3TextCondition *picture;
} See;

static void
run_vision (Bench *b, gpointer data)
{
  See *s = data;
  GError *error = NULL;
  const H3TextCondition *const list[] = { s->picture };
  g_autoptr (H3VisionFeatures) features =
      h3_vision_model_encode (s->model, b->stream, list, 1, NULL, NULL, &error);

  must (features != NULL, error);
}

static void
bench_picture (Bench *b, See *s, gint width, gint height)
{
  GError *error = NULL;
  H3Image image = { width, height, g_malloc0 ((gsize) width * height * 3) };
  g_autofree gchar *what =
      g_strdup_printf ("vision tower, picture of %d x %d", width, height);
  gdouble patches, hidden = 1152;

  s->picture =
      h3_text_condition_new_picture (H3_CONDITION_IMAGE, &image, &error);
  must (s->picture != NULL, error);
  patches = 4.0 * h3_text_condition_tokens (s->picture);
  bench_measure (b, what,
      patches *
          (27 * (2 * hidden * (4 * hidden + 2 * 4304) + 4 * hidden * patches) +
              2 * hidden * 1536 + 4 * 2 * hidden * (4 * hidden + 5120)),
      run_vision, s);
  h3_text_condition_free (s->picture);
}

static void
bench_vision (Bench *b)
{
  g_autoptr (H3VisionModel) model = bench_vision_model_new (b->filler);
  See s = { .model = model };

  bench_picture (b, &s, 1344, 768);
  bench_picture (b, &s, 3648, 2048);
}

/* --- the autoencoders --- */

typedef struct {
  H3VideoDecoder *decoder;
  H3Tensor *latent;
  guint8 *picture;
} Video;

/* Frames included: NV12, in host memory. */
static void
run_video (Bench *b, gpointer data)
{
  Video *v = data;
  GError *error = NULL;
  H3Tensor *pixels;
  gint first, n;

  must (h3_video_decoder_start (v->decoder, v->latent, &error), error);
  do {
    must (h3_video_decoder_next (v->decoder, NULL, NULL, &pixels, &first, &n,
              &error),
        error);
    for (gint i = 0; i < n; i++) {
      gint w = pixels->shape[3], h = pixels->shape[2];

      h3_emit_picture (b->stream,
          &(H3EmitPictureArgs){ .picture = { H3_PICTURE_NV12, w, h,
                                    { v->picture, v->picture + w * h },
                                    { w, w } },
              .pixels = pixels,
              .frame = i,
              .mean = { 0.485f, 0.456f, 0.406f },
              .std = { 0.229f, 0.224f, 0.225f } });
    }
    synchronize (b);
  } while (n > 0);
}

/* Windows of the clip. */
static gint
video_init (Bench *b, Video *v, H3VideoVae *vae)
{
  GError *error = NULL;
  H3Geometry g;

  must (h3_geometry_init (&g, 1344, 768, 124, &error), error);
  v->latent = filler_tensor (b->filler, H3_DTYPE_F32, 1, 0, 4,
      (gint64[]){ h3_video_vae_config (vae)->channels, g.latent_t, g.latent_h,
          g.latent_w });
  v->decoder = h3_video_decoder_new (vae, b->stream, g.latent_h, g.latent_w,
      H3_COMPOSITION_RAW, &error);
  must (v->decoder != NULL, error);
  v->picture = g_malloc (1344 * 768 * 2);
  return h3_video_windows (g.latent_t);
}

static void
video_clear (Video *v)
{
  h3_video_decoder_free (v->decoder);
  h3_tensor_unref (v->latent);
  g_free (v->picture);
}

static void
bench_video (Bench *b)
{
  g_autoptr (H3VideoVae) vae = bench_video_vae_new (b->filler, layers);
  const H3VideoVaeConfig *c = h3_video_vae_config (vae);
  Video v;
  gint windows = video_init (b, &v, vae);
  gdouble rows = 1797, dim = 2048, per_tile;

  printf ("video decoder, %d of 36 layers\n", c->layers);
  per_tile = c->layers * (2 * rows * dim * (4 * dim + 3 * 8192) +
                             4 * rows * rows * dim) +
             2 * rows * dim * 3072;
  bench_measure (b, "video decoder, 1344 x 768 x 124, 28 x 7 tiles",
      28 * windows * per_tile, run_video, &v);
  video_clear (&v);
}

typedef struct {
  H3AudioDecoder *decoder;
  H3Tensor *latent;
} Audio;

static void
run_audio (Bench *b, gpointer data)
{
  Audio *a = data;
  GError *error = NULL;
  H3Tensor *samples;
  gint first, n;

  must (h3_audio_decoder_start (a->decoder, a->latent, &error), error);
  do
    must (h3_audio_decoder_next (a->decoder, NULL, NULL, &samples, &first, &n,
              &error),
        error);
  while (n > 0);
}

static void
audio_init (Bench *b, Audio *a, H3AudioVae *vae)
{
  GError *error = NULL;

  a->decoder = h3_audio_decoder_new (vae, b->stream, 256, &error);
  must (a->decoder != NULL, error);
  a->latent = filler_tensor (b->filler, H3_DTYPE_F32, 1, 0, 3,
      (gint64[]){ 2, 32, 207 });
}

static void
audio_clear (Audio *a)
{
  h3_audio_decoder_free (a->decoder);
  h3_tensor_unref (a->latent);
}

static void
bench_audio (Bench *b)
{
  g_autoptr (H3AudioVae) vae = bench_audio_vae_new (b->filler);
  Audio a;

  audio_init (b, &a, vae);
  bench_measure (b, "audio decoder, 207 latents (5 s), stereo", 0.5e12,
      run_audio, &a);
  audio_clear (&a);
}

/* --- memory --- */

#define N_CLIPS 10

/* Runs the part once; the most that was seen in use, its workspace included. */
static gdouble
run_part (Bench *b, BenchRun run, gpointer part, gdouble most)
{
  run (b, part);
  synchronize (b);
  return MAX (most, in_use (b));
}

/* All four models at once, and clips one after the other, each with workspaces of
 * its own and one step of the transformer. */
static void
bench_resident (Bench *b)
{
  g_autoptr (H3Transformer) t = bench_transformer_new (b->filler, layers);
  g_autoptr (H3TextModel) text = bench_text_model_new (b->filler);
  g_autoptr (H3VideoVae) video_vae = bench_video_vae_new (b->filler, layers);
  g_autoptr (H3AudioVae) audio_vae = bench_audio_vae_new (b->filler);

  printf ("all four models resident, before the first clip: %.2f GB in use\n",
      in_use (b) / 1e9);
  for (gint i = 0; i < N_CLIPS; i++) {
    Encode e;
    Denoise d;
    Video v;
    Audio a;
    gdouble most;

    encode_init (&e, text);
    most = run_part (b, run_encode, &e, 0);
    denoise_init (b, &d, t, 1344, 768, 124);
    most = run_part (b, run_forward, &d, most);
    denoise_clear (&d);
    video_init (b, &v, video_vae);
    audio_init (b, &a, audio_vae);
    most = run_part (b, run_video, &v, most);
    most = run_part (b, run_audio, &a, most);
    video_clear (&v);
    audio_clear (&a);
    printf ("  clip %2d, 1344 x 768 x 124: %.3f GB at the most, %.3f after "
            "it\n",
        i + 1, most / 1e9, in_use (b) / 1e9);
    fflush (stdout);
  }
}

static gint
run_pytorch (void)
{
  gchar *argv[] = { "python3", pytorch, NULL };
  GError *error = NULL;
  gint status = 0;

  fflush (stdout);
  if (!g_spawn_sync (NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL,
          NULL, &status, &error)) {
    fprintf (stderr, "h3-bench: %s\n", error->message);
    return 1;
  }
  return status != 0;
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  GError *error = NULL;
  Bench b = { NULL };
  H3Encoding encoding = H3_ENCODING_PLAIN;

  g_option_context_add_main_entries (context, options, NULL);
  must (g_option_context_parse (context, &argc, &argv, &error), error);
  if (weights && !bench_encoding_from_name (weights, &encoding))
    must (FALSE, g_error_new (H3_ERROR, H3_ERROR_SETTINGS,
                     "there is no encoding %s: see --help", weights));
  b.reps = MAX (n_reps, 1);
  b.device = h3_cuda_open_device (-1, &error);
  must (b.device != NULL, error);
  b.stream = h3_stream_new (b.device, &error);
  must (b.stream != NULL, error);
  b.filler = filler_new (b.device);
  filler_set_encoding (b.filler, encoding);
  printf ("%s, medians of %d, weights %s\n", b.device->name, b.reps,
      encoding ? h3_encoding_info (encoding)->name : "bfloat16");

  bench_matmul (&b);
  if (wanted ("ops"))
    bench_ops (&b);
  if (wanted ("decode"))
    bench_decode (&b);
  if (wanted ("transformer"))
    bench_transformer (&b);
  if (only && wanted ("adaln"))
    bench_adaln (&b, layers);
  if (only && wanted ("resident"))
    bench_resident (&b);
  if (wanted ("text"))
    bench_text (&b);
  if (wanted ("vision"))
    bench_vision (&b);
  if (wanted ("video"))
    bench_video (&b);
  if (wanted ("audio"))
    bench_audio (&b);
  if (wanted ("encode"))
    bench_encode (&b);

  filler_free (b.filler);
  h3_stream_free (b.stream);
  h3_device_unref (b.device);
  return pytorch ? run_pytorch () : 0;
}
