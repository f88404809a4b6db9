/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One forward pass against golden/dit.safetensors. Its packed sequence has its
 * rows in any order; attention does not care, so the tests bring them into the
 * order of H3Packing and the golden values along. */
#include "test-denoise.h"

#include "model/denoise/noise.h"
#include "model/denoise/transformer-private.h"

#define FILE "dit.safetensors"
#define TOLERANCE h3_test_tolerance (1e-5, 1e-2)
#define N_CONDITIONS_V 5
#define N_CONDITIONS_A 3

typedef struct {
  gsize n_text, n_audio, n_video, n;
  gint32 *text, *audio, *video; /* golden rows of each kind */
  gint32 *tags, *times;
  gfloat *positions, *t;
  gfloat *embeds, *audio_in, *video_in;
} Golden;

static void
golden_init (Golden *g)
{
  g->text = h3_test_golden_ints (FILE, "text_indices", &g->n_text);
  g->audio = h3_test_golden_ints (FILE, "audio_indices", &g->n_audio);
  g->video = h3_test_golden_ints (FILE, "video_indices", &g->n_video);
  g->tags = h3_test_golden_ints (FILE, "token_tags", &g->n);
  g->times = h3_test_golden_ints (FILE, "timestep_indices", NULL);
  g->positions = h3_test_golden (FILE, "position_ids", NULL);
  g->t = h3_test_golden (FILE, "timestep", NULL);
  g->embeds = h3_test_golden (FILE, "encoder_hidden_states", NULL);
  g->audio_in = h3_test_golden (FILE, "audio_hidden_states", NULL);
  g->video_in = h3_test_golden (FILE, "hidden_states", NULL);
  g_assert_cmpuint (g->n_text + g->n_audio + g->n_video, ==, g->n);
}

static void
golden_clear (Golden *g)
{
  g_free (g->text);
  g_free (g->audio);
  g_free (g->video);
  g_free (g->tags);
  g_free (g->times);
  g_free (g->positions);
  g_free (g->t);
  g_free (g->embeds);
  g_free (g->audio_in);
  g_free (g->video_in);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Golden, golden_clear)

/* Text, conditions (video and audio in turn), target audio, target video: the
 * golden row of each packed row. The first @conditions_v and @conditions_a rows
 * of the golden's lists become conditions. */
static gint *
order_rows (const Golden *g, gsize conditions_v, gsize conditions_a)
{
  gint *order = g_new (gint, g->n);
  gsize n = 0;

  for (gsize i = 0; i < g->n_text; i++)
    order[n++] = g->text[i];
  for (gsize i = 0; i < MAX (conditions_v, conditions_a); i++) {
    if (i < conditions_v)
      order[n++] = g->video[i];
    if (i < conditions_a)
      order[n++] = g->audio[i];
  }
  for (gsize i = conditions_a; i < g->n_audio; i++)
    order[n++] = g->audio[i];
  for (gsize i = conditions_v; i < g->n_video; i++)
    order[n++] = g->video[i];
  g_assert_cmpuint (n, ==, g->n);
  return order;
}

static void
packing_init (H3Packing *p, const Golden *g, const gint *order,
    gsize conditions_v, gsize conditions_a)
{
  /* 0.125, 0.4375 and 0.999: the clocks of a step with conditions */
  static const H3Clock clocks[] = { H3_CLOCK_VIDEO, H3_CLOCK_AUDIO,
    H3_CLOCK_VIDEO_CONDITION };

  p->rows = g->n;
  p->text_rows = g->n_text;
  p->first_audio = g->n_text + conditions_v + conditions_a;
  p->audio_rows = g->n_audio - conditions_a;
  p->first_video = p->first_audio + p->audio_rows;
  p->video_rows = g->n_video - conditions_v;
  p->tag = g_new (guint8, p->rows);
  p->clock = g_new (guint8, p->rows);
  p->position = g_new (gdouble, 3 * p->rows);
  for (gint row = 0; row < p->rows; row++) {
    p->tag[row] = g->tags[order[row]];
    p->clock[row] = clocks[g->times[order[row]]];
    for (gint axis = 0; axis < 3; axis++)
      p->position[3 * row + axis] = g->positions[3 * order[row] + axis];
  }
}

/* Golden rows [first, first + n) of the packed order. */
static void
check_rows (const gchar *name, const gfloat *got, const gfloat *golden,
    const gint *order, gsize first, gsize n, gsize cols)
{
  g_autofree gfloat *want = g_new (gfloat, n * cols);

  for (gsize i = 0; i < n; i++)
    memcpy (want + i * cols, golden + order[first + i] * cols,
        cols * sizeof (gfloat));
  g_test_message ("%s", name);
  h3_test_assert_close (got, want, n * cols, TOLERANCE);
}

/* A tap of the whole sequence against the dump of that name. */
static void
check_sequence (const H3TestTaps *taps, const gchar *name, const gint *order,
    gsize first, gsize n, gsize cols)
{
  g_autofree gchar *dump = g_strconcat ("dump.", name, NULL);
  g_autofree gfloat *golden = h3_test_golden (FILE, dump, NULL);

  check_rows (name, h3_test_taps_get (taps, name, n * cols), golden, order,
      first, n, cols);
}

/* One whose rows the two sides have in the same order. */
static void
check_plain (const H3TestTaps *taps, const gchar *name)
{
  g_autofree gchar *dump = g_strconcat ("dump.", name, NULL);
  gsize n;
  g_autofree gfloat *want = h3_test_golden (FILE, dump, &n);
  const gfloat *got = h3_test_taps_get (taps, name, n);

  g_test_message ("%s", name);
  h3_test_assert_close (got, want, n, TOLERANCE);
}

/* The public module shows its first parameter only, shift_msa, and also the
 * pairs of timestep and tag that no row has. */
static void
check_adaln (const H3TestTaps *taps, const Golden *g, gint hidden)
{
  gsize all, n = 0;
  g_autofree gfloat *dump =
      h3_test_golden (FILE, "dump.transformer_blocks.0.adaln_proj", &all);
  g_autofree gfloat *want = g_new (gfloat, all);
  g_autofree gfloat *got = g_new (gfloat, all);
  const gfloat *table;

  for (gsize pair = 0; pair < all / hidden; pair++)
    for (gsize row = 0; row < g->n; row++)
      if ((gsize) g->times[row] * 3 + g->tags[row] == pair) {
        memcpy (want + n++ * hidden, dump + pair * hidden,
            hidden * sizeof (gfloat));
        break;
      }
  g_assert_cmpuint (n, >=, 4);
  table = h3_test_taps_get (taps, "transformer_blocks.0.adaln_proj",
      n * H3_N_ADALN * hidden);
  for (gsize i = 0; i < n; i++)
    memcpy (got + i * hidden, table + i * H3_N_ADALN * hidden,
        hidden * sizeof (gfloat));
  h3_test_assert_close (got, want, n * hidden, TOLERANCE);
}

static void
check_dumps (const H3TestTaps *taps, const Golden *g, const gint *order,
    const H3Packing *p, const H3TransformerConfig *c)
{
  static const gchar *const time[] = { "time_proj", "time_embedder" };
  static const gchar *const plain[] = { "context_embedder",
    "token_refiner.refiner_blocks.0", "token_refiner", "proj_in",
    "audio_proj_in" };
  static const gchar *const sequences[] = { "transformer_blocks.0.norm1",
    "transformer_blocks.0.attn", "transformer_blocks.0.norm2",
    "transformer_blocks.0.ff", "transformer_blocks.0", "transformer_blocks.1",
    "transformer_blocks.2" };

  for (guint i = 0; c->curve_points == 0 && i < G_N_ELEMENTS (time); i++)
    check_plain (taps, time[i]);
  for (guint i = 0; i < G_N_ELEMENTS (plain); i++)
    check_plain (taps, plain[i]);
  check_adaln (taps, g, c->hidden);
  for (guint i = 0; i < G_N_ELEMENTS (sequences); i++)
    check_sequence (taps, sequences[i], order, 0, p->rows, c->hidden);
  check_sequence (taps, "norm_out", order, p->first_audio,
      p->rows - p->first_audio, c->hidden);
}

/* One pass by the checkpoint at @path; the golden's leading rows as conditions.
 * Without any, every stage is compared, else the outputs, which are the same. */
static void
forward (const gchar *path, gsize conditions_v, gsize conditions_a,
    gboolean look)
{
  g_autoptr (GError) error = NULL;
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (Golden) g = { 0 };
  g_auto (H3TestTaps) taps = { 0 };
  g_auto (H3Packing) p = { 0 };
  g_autoptr (H3Transformer) transformer = NULL;
  g_autoptr (H3TransformerSession) session = NULL;
  g_autoptr (H3Tensor) embeds = NULL;
  g_autoptr (H3Tensor) video = NULL;
  g_autoptr (H3Tensor) audio = NULL;
  g_autoptr (H3Tensor) video_out = NULL;
  g_autoptr (H3Tensor) audio_out = NULL;
  g_autoptr (H3Tensor) video_conditions = NULL;
  g_autoptr (H3Tensor) audio_conditions = NULL;
  g_autofree gint *order = NULL;
  g_autofree gfloat *want_v = h3_test_golden (FILE, "video_out", NULL);
  g_autofree gfloat *want_a = h3_test_golden (FILE, "audio_out", NULL);
  g_autofree gfloat *got_v = NULL, *got_a = NULL;
  const H3Tap *tap = look ? &taps.tap : NULL;
  gint cols_v, cols_a;

  h3_test_device_init (&d, 2);
  golden_init (&g);
  h3_test_taps_init (&taps, d.stream);
  transformer = h3_test_load (path, d.device);
  cols_v = 4 * h3_transformer_config (transformer)->video_channels;
  cols_a = h3_transformer_config (transformer)->audio_channels;
  order = order_rows (&g, conditions_v, conditions_a);
  packing_init (&p, &g, order, conditions_v, conditions_a);

  embeds = h3_test_matrix (d.device, g.embeds, g.n_text,
      h3_transformer_config (transformer)->text_dim);
  if (conditions_v > 0)
    video_conditions =
        h3_test_matrix (d.device, g.video_in, conditions_v, cols_v);
  if (conditions_a > 0)
    audio_conditions =
        h3_test_matrix (d.device, g.audio_in, conditions_a, cols_a);
  video = h3_test_matrix (d.device, g.video_in + conditions_v * cols_v,
      p.video_rows, cols_v);
  audio = h3_test_matrix (d.device, g.audio_in + conditions_a * cols_a,
      p.audio_rows, cols_a);
  video_out = h3_test_matrix (d.device, g.video_in, p.video_rows, cols_v);
  audio_out = h3_test_matrix (d.device, g.audio_in, p.audio_rows, cols_a);

  session = h3_transformer_session_new (transformer, d.stream, &p, embeds, g.t,
      g.t + 1, 1, video_conditions, audio_conditions, NULL, NULL, NULL, tap,
      &error);
  g_assert_no_error (error);
  h3_transformer_forward (session, 0, video, audio, video_out, audio_out, NULL,
      tap, &error);
  g_assert_no_error (error);

  if (look)
    check_dumps (&taps, &g, order, &p, h3_transformer_config (transformer));
  got_v = h3_test_to_host (d.stream, video_out);
  got_a = h3_test_to_host (d.stream, audio_out);
  h3_test_assert_close (got_v, want_v + conditions_v * cols_v,
      p.video_rows * cols_v, TOLERANCE);
  h3_test_assert_close (got_a, want_a + conditions_a * cols_a,
      p.audio_rows * cols_a, TOLERANCE);
}

static void
test_stages (gconstpointer dir)
{
  forward (dir, 0, 0, TRUE);
}

/* Nothing depends on somebody looking. */
static void
test_outputs (gconstpointer dir)
{
  forward (dir, 0, 0, FALSE);
}

static void
test_conditions (gconstpointer dir)
{
  forward (dir, N_CONDITIONS_V, N_CONDITIONS_A, FALSE);
  forward (dir, N_CONDITIONS_V, 0, FALSE);
  forward (dir, 0, N_CONDITIONS_A, FALSE);
}

static void
test_config (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *official =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", NULL);
  const gchar *const paths[] = { official, h3_test_tiny_diffusers_dir () };
  guint64 bytes[2];

  for (guint i = 0; i < 2; i++) {
    g_autoptr (H3Checkpoint) checkpoint =
        h3_checkpoint_open (paths[i], H3_PARTITION_FL2VA, &error);
    H3TransformerConfig c;

    g_assert_no_error (error);
    h3_transformer_plan (checkpoint, NULL, &c, &bytes[i], &error);
    g_assert_no_error (error);
    g_assert_cmpint (c.hidden, ==, 48);
    g_assert_cmpint (c.layers, ==, 3);
    g_assert_cmpint (c.refiner_layers, ==, 2);
    g_assert_cmpint (c.heads, ==, 2);
    g_assert_cmpint (c.head_dim, ==, 32);
    g_assert_cmpint (c.ffn, ==, 80);
    g_assert_cmpint (c.video_channels, ==, 4);
    g_assert_cmpint (c.audio_channels, ==, 8);
    g_assert_cmpint (c.text_dim, ==, 40);
    g_assert_cmpint (c.freq_dim, ==, 32);
    g_assert_cmpint (c.time_hidden, ==, 56);
    g_assert_cmpint (c.time_dim, ==, 36);
    g_assert_cmpint (c.rope_freqs, ==, 4);
    g_assert_cmpfloat (c.rope_theta, ==, 10000);
    g_assert_cmpfloat (c.norm_eps, ==, 1e-5);
    g_assert_cmpfloat (c.qk_norm_eps, ==, 1e-5);
    g_assert_cmpfloat (c.final_norm_eps, ==, 1e-5);
  }
  g_assert_cmpuint (bytes[0], >, 100000);
  g_assert_cmpuint (bytes[0], ==, bytes[1]);
}

/* The released shapes: what a session of the README's table would need. */
static void
test_workspace (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  const H3TransformerConfig c = {
    .hidden = 5376,
    .layers = 50,
    .heads = 56,
    .head_dim = 128,
    .ffn = 14336,
    .time_hidden = 5376,
    .time_dim = 2688,
    .rope_freqs = 16,
  };
  guint64 small, large, more_steps, few_steps;

  h3_test_device_init (&d, 1);
  small = h3_transformer_workspace (&c, d.device, 750, 40);
  large = h3_transformer_workspace (&c, d.device, 37966, 40);
  more_steps = h3_transformer_workspace (&c, d.device, 750, 100);
  few_steps = h3_transformer_workspace (&c, d.device, 750, 4);
  if (h3_test_on_gpu ())
    return; /* half of it */
  /* X, norm, prefix, qkv and o in float32, and room for 122 pairs, 6 H * 50
   * each */
  g_assert_cmpuint (large, >, G_GUINT64_CONSTANT (37966) * 4 * (3 * 5376));
  g_assert_cmpuint (large, <, G_GUINT64_CONSTANT (9) << 30);
  g_assert_cmpuint (small, <, large / 5);
  g_assert_cmpuint (more_steps - small, >,
      (guint64) (3 * 100 - H3_ADALN_PAIRS) * 4 * 50 * 6 * 5376);
  /* there is always room for some */
  g_assert_cmpuint (few_steps, >, (guint64) H3_ADALN_PAIRS * 4 * 50 * 6 * 5376);
}

/* A block of the refiner over random rows, its MLP @chunk_rows at a time. */
static gfloat *
run_block (H3Transformer *transformer, const H3TestDevice *d, gint rows,
    gint chunk_rows)
{
  const H3TransformerConfig *c = h3_transformer_config (transformer);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) workspace = h3_tensor_new_1d (d->device,
      d->device->act_dtype, h3_activations_elements (c, rows), &error);
  g_autofree gfloat *noise = g_new (gfloat, (gsize) rows * c->hidden);
  g_autoptr (H3Tensor) x = NULL;
  g_auto (H3Activations) a = { 0 };
  H3Generator generator;

  g_assert_no_error (error);
  h3_activations_init (&a, workspace, c, rows, chunk_rows);
  h3_generator_seed (&generator, 1);
  h3_generator_randn (&generator, noise, h3_tensor_size (a.x));
  x = h3_test_matrix (d->device, noise, rows, c->hidden);
  h3_copy (d->stream, a.x, x);
  h3_block_forward (d->stream, c, &transformer->refiner[0], &a, NULL, NULL,
      NULL, NULL, "block", NULL);
  return h3_test_to_host (d->stream, a.x);
}

/* How many rows an MLP takes at a time changes nothing, with a rest or not. */
static void
test_chunks (void)
{
  static const gint chunks[] = { 100, 99, 50, 32, 7, 1 };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (H3Transformer) transformer = NULL;
  g_autofree gfloat *whole = NULL;

  h3_test_device_init (&d, 2);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  whole = run_block (transformer, &d, 100, H3_MLP_CHUNK);
  for (guint i = 0; i < G_N_ELEMENTS (chunks); i++) {
    g_autofree gfloat *got = run_block (transformer, &d, 100, chunks[i]);

    h3_test_assert_close (got, whole, 100 * 48, h3_test_tolerance (1e-6, 5e-3));
  }
}

typedef struct {
  gint rows, cols;
  gint video_conditions;
  H3Error code;
  const gchar *text;
} BadSession;

static void
test_bad_sessions (void)
{
  static const BadSession cases[] = {
    { 9, 39, 0, H3_ERROR_FORMAT, "[9, 39]" },
    { 8, 40, 0, H3_ERROR_FORMAT, "[8, 40]" },
    { 9, 40, 2, H3_ERROR_FORMAT, "2 video condition rows" },
  };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (Golden) g = { 0 };
  g_auto (H3Packing) p = { 0 };
  g_autofree gint *order = NULL;
  g_autofree gfloat *zeros = g_new0 (gfloat, 1000);
  g_autoptr (H3Transformer) transformer = NULL;

  h3_test_device_init (&d, 1);
  golden_init (&g);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  order = order_rows (&g, 0, 0);
  packing_init (&p, &g, order, 0, 0);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (H3Tensor) embeds =
        h3_test_matrix (d.device, zeros, cases[i].rows, cases[i].cols);
    g_autoptr (H3Tensor) conditions = h3_test_matrix (d.device, zeros,
        MAX (1, cases[i].video_conditions), 16);

    g_assert_null (h3_transformer_session_new (transformer, d.stream, &p,
        embeds, g.t, g.t + 1, 1, cases[i].video_conditions ? conditions : NULL,
        NULL, NULL, NULL, NULL, NULL, &error));
    h3_test_assert_h3_error (error, cases[i].code, cases[i].text);
  }
}

static void
test_bad_packing (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (Golden) g = { 0 };
  g_auto (H3Packing) p = { 0 };
  g_autofree gint *order = NULL;
  g_autoptr (H3Transformer) transformer = NULL;
  g_autoptr (H3Tensor) embeds = NULL;

  h3_test_device_init (&d, 1);
  golden_init (&g);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  order = order_rows (&g, 0, 0);
  packing_init (&p, &g, order, 0, 0);
  embeds = h3_test_matrix (d.device, g.embeds, 9, 40);

  for (gint i = 0; i < 4; i++) {
    g_autoptr (GError) error = NULL;
    H3Packing bad = p;
    guint8 tag = p.tag[40], clock = p.clock[40];

    if (i == 0)
      p.tag[40] = 3;
    else if (i == 1)
      p.clock[40] = 4;
    else if (i == 2)
      bad.first_video++;
    else
      bad.text_rows--; /* makes a text row a condition */
    g_assert_null (h3_transformer_session_new (transformer, d.stream, &bad,
        embeds, g.t, g.t + 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, &error));
    h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "layout");
    p.tag[40] = tag;
    p.clock[40] = clock;
  }
}

void
h3_test_add_transformer (void)
{
  const gchar *tiny = h3_test_tiny_dir (), *pruned = h3_test_tiny_pruned_dir ();

  g_test_add_func ("/transformer/config", test_config);
  g_test_add_func ("/transformer/workspace", test_workspace);
  g_test_add_func ("/transformer/chunks", test_chunks);
  g_test_add_data_func ("/transformer/golden/stages", tiny, test_stages);
  g_test_add_data_func ("/transformer/golden/outputs", tiny, test_outputs);
  g_test_add_data_func ("/transformer/golden/conditions", tiny,
      test_conditions);
  g_test_add_data_func ("/transformer/golden/pruned-stages", pruned,
      test_stages);
  g_test_add_data_func ("/transformer/golden/pruned-conditions", pruned,
      test_conditions);
  g_test_add_data_func_full ("/transformer/golden/pruned-basis",
      h3_test_tiny_curve_dir ("diffusers-pruned-36"), test_stages, g_free);
  g_test_add_func ("/transformer/bad-sessions", test_bad_sessions);
  g_test_add_func ("/transformer/bad-packing", test_bad_packing);
}
