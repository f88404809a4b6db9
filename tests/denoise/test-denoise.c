/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whole requests: the golden ones, and that nothing but the request decides
 * the result. */
#include "test-denoise.h"

#include "model/denoise/denoise.h"

#include <math.h>

#define STEP_TOLERANCE h3_test_tolerance (1e-5, 1.5e-2)
#define SHIFT_V 12
#define SHIFT_A 3

/* Where a golden file keeps what an encoder made of a condition. */
typedef struct {
  H3ConditionKind kind;
  gint t, h, w, audio_t;
  const gchar *video, *audio;
} Encoded;

#define MAX_CONDITIONS 3

typedef struct {
  const gchar *file;
  gint width, height, frames, steps;
  guint64 seed;
  guint n_conditions;
  Encoded conditions[MAX_CONDITIONS];
} Case;

static const Case tiny = { "request_t2va.safetensors", 96, 64, 22, 4, 440204 };
static const Case tiny_39 = { "request_t2va_39.safetensors", 64, 96, 39, 3, 7 };
static const Case demo_22 = { "demo/t2va_22.safetensors", 96, 64, 22, 8, 1 };
static const Case demo_39 = { "demo/t2va_39.safetensors", 96, 64, 39, 8, 2 };
#define LATENTS_0 "condition_latents_0"
#define LATENTS_1 "condition_latents_1"
static const Case tiny_first = { "request_fl2va_first.safetensors", 96, 64, 22,
  3, 1, 1, { { H3_CONDITION_FIRST_FRAME, 1, 4, 6, 0, LATENTS_0 } } };
static const Case tiny_last = { "request_fl2va_last.safetensors", 96, 64, 22, 3,
  2, 1, { { H3_CONDITION_LAST_FRAME, 1, 4, 6, 0, LATENTS_0 } } };
static const Case tiny_both = { "request_fl2va_both.safetensors", 96, 64, 22, 3,
  3, 2,
  { { H3_CONDITION_FIRST_FRAME, 1, 4, 6, 0, LATENTS_0 },
      { H3_CONDITION_LAST_FRAME, 1, 4, 6, 0, LATENTS_1 } } };
static const Case tiny_image = { "request_ref2va_image.safetensors", 96, 64, 22,
  2, 4, 1, { { H3_CONDITION_IMAGE, 1, 6, 4, 0, LATENTS_0 } } };
static const Case tiny_mixed = { "request_ref2va_mixed.safetensors", 96, 64, 56,
  2, 5, 3,
  { { H3_CONDITION_AUDIO, .audio_t = 40, .audio = "audio_condition_latents_0" },
      { H3_CONDITION_VIDEO, 7, 4, 6, 50, LATENTS_0,
          "audio_condition_latents_1" },
      { H3_CONDITION_IMAGE, 1, 6, 4, 0, LATENTS_1 } } };
static const Case demo_first = { "demo/first_22.safetensors", 96, 64, 22, 8, 4,
  1, { { H3_CONDITION_FIRST_FRAME, 1, 4, 6, 0, LATENTS_0 } } };
static const Case demo_portrait = { "demo/t2va_portrait.safetensors", 64, 96,
  22, 8, 3 };

/* A request's result, on the host. */
typedef struct {
  gfloat *video, *audio;
  gsize n_video, n_audio;
  gint steps_reported;
} Result;

static void
result_clear (Result *result)
{
  g_clear_pointer (&result->video, g_free);
  g_clear_pointer (&result->audio, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Result, result_clear)

static void
count_step (gint step, gint steps, gpointer user_data)
{
  Result *result = user_data;

  g_assert_cmpint (step, ==, ++result->steps_reported);
  g_assert_cmpint (step, <=, steps);
}

static gfloat *
to_host (H3Stream *stream, const H3Tensor *tensor, gsize *n)
{
  g_autoptr (GError) error = NULL;
  gfloat *host = g_malloc (tensor->bytes);

  h3_download (stream, host, tensor);
  h3_stream_synchronize (stream, &error);
  g_assert_no_error (error);
  *n = h3_tensor_size (tensor);
  return host;
}

typedef struct {
  const Case *c;
  H3ScheduleKind schedule;
  H3Solver solver;
  H3NoiseMode noise;
  const H3Stop *stop;
  const H3Tap *tap;
} Run;

static H3Tensor *
device_latent (H3Device *device, guint rank, const gint64 *shape,
    const gfloat *values)
{
  g_autoptr (GError) error = NULL;
  H3Tensor *latent = h3_tensor_new_from_host (device, H3_DTYPE_F32, rank, shape,
      values, &error);

  g_assert_no_error (error);
  return latent;
}

static H3Tensor *
golden_video (const Case *c, const Encoded *encoded, H3Device *device)
{
  gsize n;
  g_autofree gfloat *values = h3_test_golden (c->file, encoded->video, &n);
  gint64 frame = encoded->t * encoded->h * encoded->w;
  const gint64 shape[] = { n / frame, encoded->t, encoded->h, encoded->w };

  return device_latent (device, 4, shape, values);
}

/* Golden files keep rows: [2 T, C]. */
static H3Tensor *
golden_audio (const Case *c, const Encoded *encoded, H3Device *device)
{
  gsize n;
  g_autofree gfloat *rows = h3_test_golden (c->file, encoded->audio, &n);
  g_autofree gfloat *latent = g_new (gfloat, n);
  gint64 t = encoded->audio_t, channels = n / (2 * t);
  const gint64 shape[] = { 2, channels, t };

  for (gint64 row = 0; row < 2 * t; row++)
    for (gint64 k = 0; k < channels; k++)
      latent[(row / t * channels + k) * t + row % t] = rows[row * channels + k];
  return device_latent (device, 3, shape, latent);
}

typedef struct {
  H3Condition list[MAX_CONDITIONS];
  H3Tensor *video[MAX_CONDITIONS], *audio[MAX_CONDITIONS];
} Conditions;

static void
conditions_init (Conditions *conditions, const Case *c, H3Device *device)
{
  for (guint i = 0; i < c->n_conditions; i++) {
    const Encoded *encoded = &c->conditions[i];

    if (encoded->video)
      conditions->video[i] = golden_video (c, encoded, device);
    if (encoded->audio)
      conditions->audio[i] = golden_audio (c, encoded, device);
    conditions->list[i] = (H3Condition){
      .kind = encoded->kind,
      .latent_t = encoded->t,
      .latent_h = encoded->h,
      .latent_w = encoded->w,
      .audio_t = encoded->audio_t,
      .video = conditions->video[i],
      .audio = conditions->audio[i],
    };
  }
}

static void
conditions_clear (Conditions *conditions)
{
  for (guint i = 0; i < MAX_CONDITIONS; i++) {
    g_clear_pointer (&conditions->video[i], h3_tensor_unref);
    g_clear_pointer (&conditions->audio[i], h3_tensor_unref);
  }
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Conditions, conditions_clear)

static gboolean
run (const Run *r, H3Transformer *transformer, const H3TestDevice *d,
    Result *result, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (H3Schedule) schedule = h3_schedule_new (r->schedule, r->c->steps,
      SHIFT_V, SHIFT_A, NULL, NULL, 0, &local);
  gint text_dim = h3_transformer_config (transformer)->text_dim;
  gsize n;
  g_autofree gfloat *embeds = h3_test_golden (r->c->file, "prompt_embeds", &n);
  g_autofree gint32 *tags =
      h3_test_golden_ints (r->c->file, "text_token_tags", NULL);
  g_autoptr (H3Tensor) prompt =
      h3_test_matrix (d->device, embeds, n / text_dim, text_dim);
  g_autoptr (H3Tensor) video = NULL;
  g_autoptr (H3Tensor) audio = NULL;
  g_auto (Conditions) conditions = { 0 };
  H3DenoiseRequest request = {
    .conditions = conditions.list,
    .n_conditions = r->c->n_conditions,
    .seed = r->c->seed,
    .noise_mode = r->noise,
    .schedule = schedule,
    .solver = r->solver,
    .shift_v = SHIFT_V,
    .shift_a = SHIFT_A,
  };

  g_assert_no_error (local);
  h3_geometry_init (&request.geometry, r->c->width, r->c->height, r->c->frames,
      &local);
  g_assert_no_error (local);
  conditions_init (&conditions, r->c, d->device);
  result_clear (result);
  result->steps_reported = 0;
  if (!h3_denoise (transformer, d->stream, &request, prompt, tags, count_step,
          NULL, result, r->stop, r->tap, &video, &audio, error)) {
    g_assert_null (video);
    g_assert_null (audio);
    return FALSE;
  }
  g_assert_cmpint (result->steps_reported, ==, r->c->steps);
  g_assert_cmpint (video->rank, ==, 4);
  g_assert_cmpint (video->shape[1], ==, request.geometry.latent_t);
  g_assert_cmpint (video->shape[2], ==, request.geometry.latent_h);
  g_assert_cmpint (video->shape[3], ==, request.geometry.latent_w);
  g_assert_cmpint (audio->rank, ==, 3);
  g_assert_cmpint (audio->shape[0], ==, 2);
  g_assert_cmpint (audio->shape[2], ==, request.geometry.audio_t);
  result->video = to_host (d->stream, video, &result->n_video);
  result->audio = to_host (d->stream, audio, &result->n_audio);
  return TRUE;
}

static void
run_ok (const Run *r, H3Transformer *transformer, const H3TestDevice *d,
    Result *result)
{
  g_autoptr (GError) error = NULL;

  run (r, transformer, d, result, &error);
  g_assert_no_error (error);
}

static void
assert_same (const Result *a, const Result *b)
{
  g_assert_cmpmem (a->video, a->n_video * sizeof (gfloat), b->video,
      b->n_video * sizeof (gfloat));
  g_assert_cmpmem (a->audio, a->n_audio * sizeof (gfloat), b->audio,
      b->n_audio * sizeof (gfloat));
}

static gboolean
same (const Result *a, const Result *b)
{
  return a->n_video == b->n_video &&
         memcmp (a->video, b->video, a->n_video * sizeof (gfloat)) == 0;
}

/* Elements of the conditions' rows, with which golden rows begin. */
static gsize
condition_elements (const Case *c, const gchar *golden)
{
  gboolean audio = strstr (golden, "audio") != NULL;
  gsize sum = 0, n;

  for (guint i = 0; i < c->n_conditions; i++) {
    const Encoded *encoded = &c->conditions[i];
    const gchar *name = audio ? encoded->audio : encoded->video;

    if (!name)
      continue;
    g_free (h3_test_golden (c->file, name, &n));
    sum += n;
  }
  return sum;
}

static void
check_tensor (const H3TestTaps *taps, const Case *c, const gchar *golden,
    const gchar *tap)
{
  gsize n, skip = condition_elements (c, golden);
  g_autofree gfloat *want = h3_test_golden (c->file, golden, &n);
  const gfloat *got = h3_test_taps_get (taps, tap, n - skip);

  g_test_message ("%s %s", c->file, golden);
  h3_test_assert_close (got, want + skip, n - skip, STEP_TOLERANCE);
}

/* What is the same in every step stands before the targets. */
static void
check_conditions (const H3TestTaps *taps, const Case *c, const gchar *golden)
{
  gsize n = condition_elements (c, golden);
  g_autofree gfloat *want = h3_test_golden (c->file, golden, NULL);

  if (n > 0)
    h3_test_assert_close (h3_test_taps_get (taps, "video_conditions", n), want,
        n, 1e-6);
}

/* Velocities and states of every step, under the golden file's own names. */
static void
check_steps (const H3TestTaps *taps, const Case *c)
{
  static const gchar *const parts[] = { "latents_in", "audio_in",
    "video_velocity", "audio_velocity", "latents_out", "audio_out" };

  check_conditions (taps, c, "step0.latents_in");
  for (gint i = 0; i < c->steps; i++)
    for (guint k = 0; k < G_N_ELEMENTS (parts); k++) {
      g_autofree gchar *name = g_strdup_printf ("step%d.%s", i, parts[k]);

      if (h3_test_golden_has (c->file, name))
        check_tensor (taps, c, name, name);
    }
}

/* The demo's files spell them in another way. */
static void
check_demo_steps (const H3TestTaps *taps, const Case *c)
{
  check_conditions (taps, c, "noise_video_rows");
  check_tensor (taps, c, "noise_video_rows", "step0.latents_in");
  check_tensor (taps, c, "noise_audio_rows", "step0.audio_in");
  check_tensor (taps, c, "step0_video_velocity", "step0.video_velocity");
  check_tensor (taps, c, "step0_audio_velocity", "step0.audio_velocity");
  for (gint i = 0; i < c->steps; i++) {
    g_autofree gchar *video = g_strdup_printf ("step%d_video_rows", i);
    g_autofree gchar *audio = g_strdup_printf ("step%d_audio_rows", i);
    g_autofree gchar *video_tap = g_strdup_printf ("step%d.latents_out", i);
    g_autofree gchar *audio_tap = g_strdup_printf ("step%d.audio_out", i);

    check_tensor (taps, c, video, video_tap);
    check_tensor (taps, c, audio, audio_tap);
  }
}

static void
check_final (const Result *result, const Case *c)
{
  gsize n_video, n_audio;
  g_autofree gfloat *video =
      h3_test_golden (c->file, "final_latents", &n_video);
  g_autofree gfloat *audio =
      h3_test_golden (c->file, "final_audio_latents", &n_audio);
  gdouble tolerance = g_str_has_prefix (c->file, "demo/") ? H3_TEST_DEMO_LATENTS
                                                          : H3_TEST_LATENTS;

  g_assert_cmpuint (result->n_video, ==, n_video);
  g_assert_cmpuint (result->n_audio, ==, n_audio);
  g_test_message ("%s: final latents", c->file);
  h3_test_assert_close (result->video, video, n_video, tolerance);
  h3_test_assert_close (result->audio, audio, n_audio, tolerance);
}

static void
check_golden (const Case *c, const gchar *checkpoint, H3Partition partition,
    void (*check) (const H3TestTaps *, const Case *))
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (H3TestTaps) taps = { 0 };
  g_auto (Result) result = { 0 };
  g_autoptr (H3Transformer) transformer = NULL;
  Run r = { .c = c, .tap = &taps.tap };

  h3_test_device_init (&d, 2);
  h3_test_taps_init (&taps, d.stream);
  transformer = h3_test_load_partition (checkpoint, partition, d.device);
  run_ok (&r, transformer, &d, &result);
  check (&taps, c);
  check_final (&result, c);
}

static void
test_tiny (gconstpointer dir)
{
  static const Case *const cases[] = { &tiny, &tiny_39, &tiny_first, &tiny_last,
    &tiny_both };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check_golden (cases[i], dir, H3_PARTITION_FL2VA, check_steps);
}

static void
test_tiny_references (gconstpointer dir)
{
  check_golden (&tiny_image, dir, H3_PARTITION_REF2VA, check_steps);
  check_golden (&tiny_mixed, dir, H3_PARTITION_REF2VA, check_steps);
}

static void
test_demo (void)
{
  static const Case *const cases[] = { &demo_22, &demo_39, &demo_portrait,
    &demo_first };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check_golden (cases[i], h3_test_demo_dir (), H3_PARTITION_FL2VA,
        check_demo_steps);
}

/* Keyframes and references in the other conventions' noise: a clip each, and
 * its own one. */
static void
test_condition_noise (void)
{
  static const H3NoiseMode modes[] = { H3_NOISE_DIFFUSERS, H3_NOISE_SGLANG,
    H3_NOISE_COMFY };
  Result results[G_N_ELEMENTS (modes)] = { 0 };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (H3Transformer) transformer = NULL;

  h3_test_device_init (&d, 2);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++) {
    Run r = { .c = &tiny_both, .noise = modes[i] };

    run_ok (&r, transformer, &d, &results[i]);
    for (guint k = 0; k < i; k++)
      g_assert_false (same (&results[i], &results[k]));
  }
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    result_clear (&results[i]);
}

static void
test_bad_condition (void)
{
  static const Case narrow = { "request_fl2va_first.safetensors", 96, 64, 22, 3,
    1, 1, { { H3_CONDITION_FIRST_FRAME, 2, 4, 6, 0, LATENTS_0 } } };
  static const Case missing = { "request_fl2va_first.safetensors", 96, 64, 22,
    3, 1, 1, { { H3_CONDITION_FIRST_FRAME, 1, 4, 6, 0, NULL } } };
  static const Case channels = { "request_fl2va_first.safetensors", 96, 64, 22,
    3, 1, 1, { { H3_CONDITION_IMAGE, 1, 2, 6, 0, LATENTS_0 } } };
  static const struct {
    const Case *c;
    const gchar *text;
  } cases[] = {
    { &narrow, "2 x 4 x 6" },
    { &missing, "0 channels, the transformer needs 4" },
    { &channels, "8 channels, the transformer needs 4" },
  };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (H3Transformer) transformer = NULL;

  h3_test_device_init (&d, 1);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (Result) result = { 0 };
    g_autoptr (GError) error = NULL;
    Run r = { .c = cases[i].c };

    g_assert_false (run (&r, transformer, &d, &result, &error));
    h3_test_assert_h3_error (error, H3_ERROR_FORMAT, cases[i].text);
  }
}

static void
test_layouts (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (Result) official = { 0 };
  g_auto (Result) diffusers = { 0 };
  g_autoptr (H3Transformer) a = NULL;
  g_autoptr (H3Transformer) b = NULL;
  Run r = { .c = &tiny };

  h3_test_device_init (&d, 2);
  a = h3_test_load (h3_test_tiny_dir (), d.device);
  b = h3_test_load (h3_test_tiny_diffusers_dir (), d.device);
  run_ok (&r, a, &d, &official);
  run_ok (&r, b, &d, &diffusers);
  assert_same (&official, &diffusers);
}

/* The same bytes again, with any number of threads. */
static void
test_repeatable (void)
{
  static const guint threads[] = { 1, 1, 2, 3, 7 };
  g_auto (Result) first = { 0 };
  Run r = { .c = &demo_22 };

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++) {
    g_auto (H3TestDevice) d = { NULL, NULL };
    g_auto (Result) again = { 0 };
    g_autoptr (H3Transformer) transformer = NULL;

    h3_test_device_init (&d, threads[i]);
    transformer = h3_test_load (h3_test_demo_dir (), d.device);
    run_ok (&r, transformer, &d, i == 0 ? &first : &again);
    if (i > 0)
      assert_same (&first, &again);
  }
}

/* What a transformer has made before, with other timesteps or the same ones,
 * changes nothing. */
static void
test_history (void)
{
  static const Run before[] = {
    { .c = &tiny_39 },
    { .c = &tiny, .schedule = H3_SCHEDULE_BETA },
  };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (Result) fresh = { 0 };
  g_autoptr (H3Transformer) transformer = NULL;
  g_autoptr (H3Transformer) other = NULL;
  Run r = { .c = &tiny };

  h3_test_device_init (&d, 2);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  other = h3_test_load (h3_test_tiny_dir (), d.device);
  run_ok (&r, transformer, &d, &fresh);
  for (guint i = 0; i < G_N_ELEMENTS (before); i++) {
    g_auto (Result) unused = { 0 };
    g_auto (Result) after = { 0 };

    run_ok (&before[i], other, &d, &unused);
    run_ok (&r, other, &d, &after);
    assert_same (&fresh, &after);
  }
}

/* Every schedule, solver and noise mode gives a clip, and its own one. */
static void
test_settings_matter (void)
{
  static const Run runs[] = {
    { .c = &tiny },
    { .c = &tiny, .schedule = H3_SCHEDULE_BETA },
    { .c = &tiny,
        .schedule = H3_SCHEDULE_BETA,
        .solver = H3_SOLVER_RES_MULTISTEP },
    { .c = &tiny, .solver = H3_SOLVER_RES_MULTISTEP },
    { .c = &tiny, .noise = H3_NOISE_SGLANG },
    { .c = &tiny, .noise = H3_NOISE_COMFY },
  };
  Result results[G_N_ELEMENTS (runs)] = { 0 };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (Result) simple = { 0 };
  g_autoptr (H3Transformer) transformer = NULL;
  Run r = { .c = &tiny, .schedule = H3_SCHEDULE_SIMPLE };

  h3_test_device_init (&d, 2);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  for (guint i = 0; i < G_N_ELEMENTS (runs); i++) {
    run_ok (&runs[i], transformer, &d, &results[i]);
    for (gsize k = 0; k < results[i].n_audio; k++)
      g_assert_true (isfinite (results[i].audio[k]));
    for (guint k = 0; k < i; k++)
      g_assert_false (same (&results[i], &results[k]));
  }
  /* 4 divides 1000: simple is uniform up to rounding */
  run_ok (&r, transformer, &d, &simple);
  h3_test_assert_close (simple.video, results[0].video, simple.n_video,
      H3_TEST_LATENTS);
  for (guint i = 0; i < G_N_ELEMENTS (runs); i++)
    result_clear (&results[i]);
}

/* sampling.md 6.2 and 6.3 written down once more, in double and in ComfyUI's
 * own form, for one number: y is the state, x what the model sees. */
typedef struct {
  gdouble y, d_prev;
} Res;

static gdouble
res_advance (Res *s, const gfloat *sigma_v, gint i, gdouble d)
{
  gdouble sigma = sigma_v[i], next = sigma_v[i + 1];

  if (i == 0 || next == 0) {
    s->y += (s->y - d) / sigma * (next - sigma);
  } else {
    gdouble h = log (sigma / next);
    gdouble c2 = log (sigma / sigma_v[i - 1]) / h;
    gdouble phi1 = expm1 (-h) / -h, phi2 = (phi1 - 1) / -h;

    s->y =
        exp (-h) * s->y + h * ((phi1 - phi2 / c2) * d + phi2 / c2 * s->d_prev);
  }
  s->d_prev = d;
  return s->y;
}

/* One stream's states out of what the model said; @k 1 and sigma_a = sigma_v
 * for the video. */
static void
check_res_track (const H3TestTaps *taps, const gfloat *sigma_v,
    const gfloat *sigma, gint steps, gdouble k, const gchar *in,
    const gchar *velocity, const gchar *out, const gfloat *final, gsize n)
{
  g_autofree Res *state = g_new0 (Res, n);
  g_autofree gfloat *want_in = g_new (gfloat, n);
  g_autofree gfloat *want_out = g_new (gfloat, n);

  for (gint i = 0; i < steps; i++) {
    g_autofree gchar *name_in = g_strdup_printf ("step%d.%s", i, in);
    g_autofree gchar *name_v = g_strdup_printf ("step%d.%s", i, velocity);
    g_autofree gchar *name_out = g_strdup_printf ("step%d.%s", i, out);
    const gfloat *x = h3_test_taps_get (taps, name_in, n);
    const gfloat *v = h3_test_taps_get (taps, name_v, n);

    for (gsize e = 0; e < n; e++) {
      if (i == 0)
        state[e].y = x[e];
      want_in[e] = state[e].y * sigma[i] / sigma_v[i];
      want_out[e] = res_advance (&state[e], sigma_v, i,
          k * (want_in[e] + (gdouble) sigma[i] * v[e]));
    }
    h3_test_assert_close (x, want_in, n, 1e-6);
    h3_test_assert_close (h3_test_taps_get (taps, name_out, n), want_out, n,
        1e-6);
  }
  if (final)
    for (gsize row = 0; row < n / 8; row++) /* [2, 8, T] <- [2 T, 8] */
      for (gsize c = 0; c < 8; c++) {
        gsize t = n / 16;
        gfloat got = final[(row / t * 8 + c) * t + row % t];

        g_assert_cmpfloat_with_epsilon (got, want_out[row * 8 + c] / k, 1e-5);
      }
}

static void
test_res_multistep (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (H3TestTaps) taps = { 0 };
  g_auto (Result) result = { 0 };
  g_autoptr (H3Transformer) transformer = NULL;
  g_autoptr (H3Schedule) s = h3_schedule_new (H3_SCHEDULE_BETA, 4, SHIFT_V,
      SHIFT_A, NULL, NULL, 0, &error);
  Run r = { .c = &tiny,
    .schedule = H3_SCHEDULE_BETA,
    .solver = H3_SOLVER_RES_MULTISTEP,
    .tap = &taps.tap };

  g_assert_no_error (error);
  h3_test_device_init (&d, 2);
  h3_test_taps_init (&taps, d.stream);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  run_ok (&r, transformer, &d, &result);
  check_res_track (&taps, s->sigma_v, s->sigma_v, 4, 1, "latents_in",
      "video_velocity", "latents_out", NULL, result.n_video);
  check_res_track (&taps, s->sigma_v, s->sigma_a, 4, SHIFT_V / SHIFT_A,
      "audio_in", "audio_velocity", "audio_out", result.audio, result.n_audio);
}

/* At any question, in the session's making as in a step; what follows on the
 * same stream is as if nothing had been. */
static void
test_cancel (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (Result) whole = { 0 };
  g_auto (Result) after = { 0 };
  g_autoptr (H3Transformer) transformer = NULL;
  H3TestStop count;
  Run r = { .c = &tiny };

  h3_test_device_init (&d, 2);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  h3_test_stop_init (&count, G_MAXINT);
  r.stop = &count.stop;
  run_ok (&r, transformer, &d, &whole);
  /* 3 blocks in 4 steps, and the session's own */
  g_assert_cmpint (count.asked, >, 4 * 3);

  for (gint at = 0; at < count.asked; at++) {
    g_autoptr (GError) error = NULL;
    g_auto (Result) cut = { 0 };
    H3TestStop stop;

    /* a new one: rows of AdaLN that are there ask less often */
    g_clear_pointer (&transformer, h3_transformer_unref);
    transformer = h3_test_load (h3_test_tiny_dir (), d.device);
    h3_test_stop_init (&stop, at);
    r.stop = &stop.stop;
    g_assert_false (run (&r, transformer, &d, &cut, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
    g_assert_cmpint (stop.asked, ==, at + 1);
  }
  r.stop = NULL;
  run_ok (&r, transformer, &d, &after);
  assert_same (&whole, &after);
}

/* A tap that breaks the state in one step. */
typedef struct {
  const gchar *where;
  H3Stream *stream;
} Poison;

static void
poison (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  const Poison *p = user_data;
  const gint64 one = 1;
  const gfloat infinity = INFINITY;
  g_autoptr (H3Tensor) element = NULL;

  if (!g_str_equal (name, p->where))
    return;
  element = h3_tensor_view ((H3Tensor *) value, 3, 1, &one);
  h3_upload (p->stream, element, &infinity);
  g_assert_true (h3_stream_synchronize (p->stream, NULL));
}

static void
check_poison (H3Transformer *transformer, const H3TestDevice *d,
    const gchar *where, const gchar *stream, const gchar *step)
{
  g_autoptr (GError) error = NULL;
  g_auto (Result) result = { 0 };
  Poison p = { where, d->stream };
  H3Tap tap = { poison, &p };
  Run r = { .c = &tiny, .tap = &tap };

  g_assert_false (run (&r, transformer, d, &result, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, stream, step, "NaN");
}

static void
test_not_finite (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_auto (Result) before = { 0 };
  g_auto (Result) after = { 0 };
  g_autoptr (H3Transformer) transformer = NULL;
  Run r = { .c = &tiny };

  h3_test_device_init (&d, 2);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  run_ok (&r, transformer, &d, &before);
  check_poison (transformer, &d, "step0.latents_in", "video", "step 1 of 4");
  check_poison (transformer, &d, "step2.latents_in", "video", "step 3 of 4");
  check_poison (transformer, &d, "step1.audio_velocity", "audio",
      "step 2 of 4");
  run_ok (&r, transformer, &d, &after);
  assert_same (&before, &after);
}

static void
test_bad_prompt (void)
{
  static const gint32 bad_tags[] = { 1, 1, 7 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Schedule) schedule = h3_schedule_new (H3_SCHEDULE_UNIFORM, 2,
      SHIFT_V, SHIFT_A, NULL, NULL, 0, &error);
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autofree gfloat *values = g_new0 (gfloat, 3 * 48);
  g_autoptr (H3Transformer) transformer = NULL;
  g_autoptr (H3Tensor) narrow = NULL;
  g_autoptr (H3Tensor) wide = NULL;
  g_autoptr (H3Tensor) nan = NULL;
  H3Tensor *video = NULL, *audio = NULL;
  H3DenoiseRequest request = {
    .schedule = schedule,
    .shift_v = SHIFT_V,
    .shift_a = SHIFT_A,
  };

  g_assert_no_error (error);
  h3_geometry_init (&request.geometry, 64, 64, 5, &error);
  h3_test_device_init (&d, 1);
  transformer = h3_test_load (h3_test_tiny_dir (), d.device);
  narrow = h3_test_matrix (d.device, values, 3, 40);
  wide = h3_test_matrix (d.device, values, 3, 48);
  values[17] = NAN;
  nan = h3_test_matrix (d.device, values, 3, 40);

  g_assert_false (h3_denoise (transformer, d.stream, &request, wide, NULL, NULL,
      NULL, NULL, NULL, NULL, &video, &audio, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "[3, 48]", "[3, 40]");
  g_clear_error (&error);
  g_assert_false (h3_denoise (transformer, d.stream, &request, narrow, bad_tags,
      NULL, NULL, NULL, NULL, NULL, &video, &audio, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "tag 7", "row 2");
  g_clear_error (&error);
  g_assert_false (h3_denoise (transformer, d.stream, &request, nan, NULL, NULL,
      NULL, NULL, NULL, NULL, &video, &audio, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, "step 1 of 2");
  g_clear_error (&error);
  g_assert_null (video);
  g_assert_null (audio);
}

void
h3_test_add_denoise (void)
{
  g_test_add_data_func ("/denoise/golden/tiny", h3_test_tiny_dir (), test_tiny);
  g_test_add_data_func ("/denoise/golden/tiny-references", h3_test_tiny_dir (),
      test_tiny_references);
  g_test_add_data_func ("/denoise/golden/pruned", h3_test_tiny_pruned_dir (),
      test_tiny);
  g_test_add_data_func ("/denoise/golden/pruned-references",
      h3_test_tiny_pruned_dir (), test_tiny_references);
  g_test_add_func ("/denoise/golden/demo", test_demo);
  g_test_add_func ("/denoise/condition-noise", test_condition_noise);
  g_test_add_func ("/denoise/bad-condition", test_bad_condition);
  g_test_add_func ("/denoise/layouts", test_layouts);
  g_test_add_func ("/denoise/repeatable", test_repeatable);
  g_test_add_func ("/denoise/history", test_history);
  g_test_add_func ("/denoise/settings-matter", test_settings_matter);
  g_test_add_func ("/denoise/res-multistep", test_res_multistep);
  g_test_add_func ("/denoise/cancel", test_cancel);
  g_test_add_func ("/denoise/not-finite", test_not_finite);
  g_test_add_func ("/denoise/bad-prompt", test_bad_prompt);
}
