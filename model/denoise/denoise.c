/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/denoise/denoise.h"

#include "model/denoise/condition-rows.h"

/* One stream of the loop: state, what the model reads and writes. */
typedef struct {
  const gchar *name; /* for taps: "latents", "audio" */
  H3Tensor *x;       /* the state [rows, cols] float32 */
  H3Tensor *in;      /* x as the model sees it: x, or a scaled copy */
  H3Tensor *v;       /* velocity */
  H3Tensor *d_prev;  /* the previous denoised, for multistep solvers */
  H3Tensor *count;   /* int32 [1]: values that are no numbers */
  gint32 bad;
} Track;

typedef struct {
  H3Transformer *transformer;
  H3Stream *stream;
  const H3DenoiseRequest *request;
  const H3Tap *tap;
  H3SolverPlan *plan;
  H3TransformerSession *session;
  Track video, audio;
} Loop;

static void
track_clear (Track *track)
{
  g_clear_pointer (&track->x, h3_tensor_unref);
  g_clear_pointer (&track->in, h3_tensor_unref);
  g_clear_pointer (&track->v, h3_tensor_unref);
  g_clear_pointer (&track->d_prev, h3_tensor_unref);
  g_clear_pointer (&track->count, h3_tensor_unref);
}

static void
loop_clear (Loop *loop)
{
  g_clear_pointer (&loop->session, h3_transformer_session_free);
  g_clear_pointer (&loop->plan, h3_solver_plan_free);
  track_clear (&loop->video);
  track_clear (&loop->audio);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Loop, loop_clear)

static gboolean
needs_previous (const H3SolverStep *steps, gint n)
{
  for (gint i = 0; i < n; i++)
    if (steps[i].c != 0)
      return TRUE;
  return FALSE;
}

static gboolean
needs_scaling (const H3SolverStep *steps, gint n)
{
  for (gint i = 0; i < n; i++)
    if (steps[i].in_scale != 1)
      return TRUE;
  return FALSE;
}

/* Everything the loop writes, starting from @noise [rows, cols]. */
static gboolean
track_init (Track *track, Loop *loop, const gchar *name, gint64 rows,
    gint64 cols, const gfloat *noise, const H3SolverStep *steps, GError **error)
{
  H3Device *device = loop->stream->device;
  gint n = loop->plan->steps;
  const gint64 shape[] = { rows, cols };

  track->name = name;
  track->x =
      h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, noise, error);
  if (!track->x)
    return FALSE;
  track->in = needs_scaling (steps, n)
                  ? h3_tensor_new (device, H3_DTYPE_F32, 2, shape, error)
                  : h3_tensor_ref (track->x);
  if (!track->in)
    return FALSE;
  track->v = h3_tensor_new (device, H3_DTYPE_F32, 2, shape, error);
  if (!track->v)
    return FALSE;
  if (needs_previous (steps, n)) {
    track->d_prev = h3_tensor_new (device, H3_DTYPE_F32, 2, shape, error);
    if (!track->d_prev)
      return FALSE;
  }
  track->count = h3_tensor_new_1d (device, H3_DTYPE_I32, 1, error);
  return track->count != NULL;
}

static gfloat *
try_floats (gsize rows, gsize cols, GError **error)
{
  gfloat *values = g_try_new (gfloat, MAX (rows * cols, 1));

  if (!values)
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for %" G_GSIZE_FORMAT " bytes of noise",
        rows * cols * sizeof (gfloat));
  return values;
}

static void
noise_clear (H3Noise *noise)
{
  g_clear_pointer (&noise->conditions, g_free);
  g_clear_pointer (&noise->video, g_free);
  g_clear_pointer (&noise->audio, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3Noise, noise_clear)

static gboolean
draw_noise (const H3DenoiseRequest *r, const H3TransformerConfig *c,
    const H3Packing *packing, H3Noise *noise, GError **error)
{
  gsize video_cols = 4 * (gsize) c->video_channels;

  noise->conditions =
      try_floats (packing->condition_video_rows, video_cols, error);
  if (!noise->conditions)
    return FALSE;
  noise->video = try_floats (packing->video_rows, video_cols, error);
  if (!noise->video)
    return FALSE;
  noise->audio = try_floats (packing->audio_rows, c->audio_channels, error);
  return noise->audio && h3_noise_draw (r->noise_mode, r->seed, &r->geometry,
                             r->conditions, r->n_conditions, c->video_channels,
                             c->audio_channels, noise, error);
}

/* sampling.md 3.5: both streams start as noise. */
static gboolean
start_from_noise (Loop *loop, const H3Packing *packing, const H3Noise *noise,
    GError **error)
{
  const H3TransformerConfig *c = h3_transformer_config (loop->transformer);

  return track_init (&loop->video, loop, "latents", packing->video_rows,
             4 * (gint64) c->video_channels, noise->video, loop->plan->video,
             error) &&
         track_init (&loop->audio, loop, "audio", packing->audio_rows,
             c->audio_channels, noise->audio, loop->plan->audio, error);
}

static gboolean
open_session (Loop *loop, const H3Packing *packing, const H3Noise *noise,
    const H3Tensor *prompt_embeds, H3LoadProgress tables, gpointer user_data,
    const H3Stop *stop, GError **error)
{
  const H3DenoiseRequest *r = loop->request;
  const H3TransformerConfig *c = h3_transformer_config (loop->transformer);
  g_autoptr (H3Tensor) video = NULL;
  g_autoptr (H3Tensor) audio = NULL;

  if (!h3_condition_rows (loop->stream, r->conditions, r->n_conditions,
          c->video_channels, c->audio_channels, noise->conditions,
          h3_condition_noise (r->noise_mode), &video, &audio, error))
    return FALSE;
  if (video)
    h3_tap (loop->tap, "video_conditions", video);
  loop->session =
      h3_transformer_session_new (loop->transformer, loop->stream, packing,
          prompt_embeds, r->schedule->t_v, r->schedule->t_a, r->schedule->steps,
          video, audio, tables, user_data, stop, loop->tap, error);
  return loop->session != NULL;
}

static gboolean
start (Loop *loop, const H3Tensor *prompt_embeds, const gint32 *text_tags,
    H3LoadProgress tables, gpointer user_data, const H3Stop *stop,
    GError **error)
{
  const H3DenoiseRequest *r = loop->request;
  gint64 n_text = h3_tensor_rows (prompt_embeds);
  g_auto (H3Packing) packing = { 0 };
  g_auto (H3Noise) noise = { 0 };

  if (n_text > G_MAXINT) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "%" G_GINT64_FORMAT " text tokens are too many", n_text);
    return FALSE;
  }
  return h3_packing_init (&packing, &r->geometry, text_tags, (gint) n_text,
             r->conditions, r->n_conditions, error) &&
         draw_noise (r, h3_transformer_config (loop->transformer), &packing,
             &noise, error) &&
         open_session (loop, &packing, &noise, prompt_embeds, tables, user_data,
             stop, error) &&
         start_from_noise (loop, &packing, &noise, error);
}

static void
tap_step (const Loop *loop, gint step, const gchar *what, const gchar *part,
    const H3Tensor *value)
{
  g_autofree gchar *name = NULL;

  if (!loop->tap || !loop->tap->func)
    return;
  name = g_strdup_printf ("step%d.%s%s", step, what, part);
  h3_tap (loop->tap, name, value);
}

static void
scale_input (Loop *loop, const Track *track, const H3SolverStep *step)
{
  if (track->in != track->x)
    h3_scale (loop->stream, track->in, track->x, step->in_scale);
}

static void
solve (Loop *loop, const Track *track, const H3SolverStep *step)
{
  H3SolverArgs args = {
    .x = track->x,
    .v = track->v,
    .d_prev = track->d_prev,
    .in_scale = step->in_scale,
    .sigma_t = step->sigma_t,
    .d_scale = step->d_scale,
    .a = step->a,
    .b = step->b,
    .c = step->c,
  };

  h3_solver_step (loop->stream, &args);
  h3_count_nonfinite (loop->stream, track->count, track->x);
}

static gboolean
check_finite (const Track *track, const gchar *stream, gint step, gint steps,
    GError **error)
{
  if (track->bad == 0)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "%d values of the %s latents are NaN or infinite after step %d of %d: "
      "are checkpoint and prompt embeddings intact?",
      track->bad, stream, step + 1, steps);
  return FALSE;
}

/* One evaluation and both updates. Waits at the end, so that progress means
 * what it says and a bad number is found in the step that made it. */
static gboolean
run_step (Loop *loop, gint i, const H3Stop *stop, GError **error)
{
  gint steps = loop->plan->steps;
  const H3SolverStep *video = &loop->plan->video[i];
  const H3SolverStep *audio = &loop->plan->audio[i];

  scale_input (loop, &loop->video, video);
  scale_input (loop, &loop->audio, audio);
  tap_step (loop, i, loop->video.name, "_in", loop->video.in);
  tap_step (loop, i, loop->audio.name, "_in", loop->audio.in);
  if (!h3_transformer_forward (loop->session, i, loop->video.in, loop->audio.in,
          loop->video.v, loop->audio.v, stop, loop->tap, error))
    return FALSE;
  tap_step (loop, i, "video", "_velocity", loop->video.v);
  tap_step (loop, i, "audio", "_velocity", loop->audio.v);

  solve (loop, &loop->video, video);
  solve (loop, &loop->audio, audio);
  tap_step (loop, i, loop->video.name, "_out", loop->video.x);
  tap_step (loop, i, loop->audio.name, "_out", loop->audio.x);

  h3_download (loop->stream, &loop->video.bad, loop->video.count);
  h3_download (loop->stream, &loop->audio.bad, loop->audio.count);
  return h3_stream_synchronize (loop->stream, error) &&
         check_finite (&loop->video, "video", i, steps, error) &&
         check_finite (&loop->audio, "audio", i, steps, error);
}

/* sampling.md 8: rows back to latents, still normalised. */
static gboolean
unpack (Loop *loop, H3Tensor **video_latent, H3Tensor **audio_latent,
    GError **error)
{
  H3Device *device = loop->stream->device;
  const H3Geometry *g = &loop->request->geometry;
  const H3TransformerConfig *c = h3_transformer_config (loop->transformer);
  const gint64 video_shape[] = { c->video_channels, g->latent_t, g->latent_h,
    g->latent_w };
  const gint64 audio_shape[] = { 2, c->audio_channels, g->audio_t };
  g_autoptr (H3Tensor) video = NULL;
  g_autoptr (H3Tensor) audio = NULL;

  video = h3_tensor_new (device, H3_DTYPE_F32, 4, video_shape, error);
  if (!video)
    return FALSE;
  audio = h3_tensor_new (device, H3_DTYPE_F32, 3, audio_shape, error);
  if (!audio)
    return FALSE;

  if (loop->plan->audio_final != 1)
    h3_scale (loop->stream, loop->audio.x, loop->audio.x,
        loop->plan->audio_final);
  h3_video_rows_to_latent (loop->stream, video, loop->video.x);
  h3_audio_rows_to_latent (loop->stream, audio, loop->audio.x);
  if (!h3_stream_synchronize (loop->stream, error))
    return FALSE;
  *video_latent = g_steal_pointer (&video);
  *audio_latent = g_steal_pointer (&audio);
  return TRUE;
}

gboolean
h3_denoise (H3Transformer *transformer, H3Stream *stream,
    const H3DenoiseRequest *request, const H3Tensor *prompt_embeds,
    const gint32 *text_tags, H3StepFunc step, H3LoadProgress tables,
    gpointer user_data, const H3Stop *stop, const H3Tap *tap,
    H3Tensor **video_latent, H3Tensor **audio_latent, GError **error)
{
  g_auto (Loop) loop = {
    .transformer = transformer,
    .stream = stream,
    .request = request,
    .tap = tap,
  };

  loop.plan = h3_solver_plan_new (request->solver, request->schedule,
      request->shift_v / request->shift_a);
  if (!start (&loop, prompt_embeds, text_tags, tables, user_data, stop, error))
    return FALSE;

  for (gint i = 0; i < loop.plan->steps; i++) {
    if (!run_step (&loop, i, stop, error))
      return FALSE;
    if (step)
      step (i + 1, loop.plan->steps, user_data);
  }
  return unpack (&loop, video_latent, audio_latent, error);
}
