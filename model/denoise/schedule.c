/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/denoise/schedule.h"

#include "model/denoise/beta.h"

#include <math.h>

#define MAX_STEPS 10000
/* ComfyUI's table of noise levels (sampling.md 4.2). */
#define TABLE 1000
#define BETA_PARAMETER 0.6

/* shift (b, s) = s b / (1 + (s - 1) b), every operation rounded to float. */
static gfloat
shift_sigma (gfloat b, gdouble shift)
{
  gfloat s = (gfloat) shift;
  gfloat s1 = (gfloat) (shift - 1.0);
  gfloat numerator = s * b;
  gfloat denominator = 1.0f + s1 * b;

  return numerator / denominator;
}

/* One value of torch's linspace (1, 0, points), from the nearer end. */
static gfloat
linspace_scalar (gint i, gint points, gfloat step)
{
  if (i < points / 2)
    return fmaf (step, i, 1.0f);
  return -(step * (points - 1 - i));
}

/* torch.linspace (1, 0, points) as its CPU kernel with 8 lanes computes it,
 * sampling.md 4.1: 16 at a time, in two groups begun by the scalar rule. */
static void
linspace_down (gfloat *b, gint points)
{
  gfloat step = -1.0f / (points - 1);
  gint i = 0;

  for (; i + 16 <= points; i += 16)
    for (gint group = i; group < i + 16; group += 8) {
      gfloat base = linspace_scalar (group, points, step);

      for (gint k = 0; k < 8; k++)
        b[group + k] = base + k * step;
    }
  for (; i < points; i++)
    b[i] = linspace_scalar (i, points, step);
}

/* The shifted uniform grid without consecutive duplicates; its length. */
static gint
uniform_sigmas (gfloat *sigma, gint points, gdouble shift)
{
  gint n = 0;

  linspace_down (sigma, points);
  for (gint i = 0; i < points; i++) {
    gfloat value = shift_sigma (sigma[i], shift);

    if (n == 0 || value != sigma[n - 1])
      sigma[n++] = value;
  }
  return n;
}

static gfloat
table_sigma (gint index, gdouble shift)
{
  return shift_sigma ((index + 1) / (gfloat) TABLE, shift);
}

static gint
simple_sigmas (gfloat *sigma, gint steps, gdouble shift)
{
  gdouble stride = (gdouble) TABLE / steps;

  for (gint i = 0; i < steps; i++)
    sigma[i] = table_sigma (TABLE - 1 - (gint) floor (i * stride), shift);
  sigma[steps] = 0;
  return steps + 1;
}

/* Indices at quantiles of a beta distribution, repeated ones left out. */
static gint
beta_sigmas (gfloat *sigma, gint steps, gdouble shift)
{
  gint n = 0, last = -1;

  for (gint j = 0; j < steps; j++) {
    gdouble u = 1.0 - j / (gdouble) steps;
    gint index = (gint) rint (
        (TABLE - 1) * h3_beta_quantile_symmetric (u, BETA_PARAMETER));

    if (index != last)
      sigma[n++] = table_sigma (index, shift);
    last = index;
  }
  sigma[n++] = 0;
  return n;
}

static gint
explicit_sigmas (gfloat *sigma, const gdouble *values, gint n)
{
  for (gint i = 0; i < n; i++)
    sigma[i] = (gfloat) values[i];
  return n;
}

/* sampling.md 4.3: undo the video's shift, apply the audio's. In double, from
 * which both the sigma and the timestep are rounded once. */
static gdouble
audio_sigma_of_video (gfloat sigma_v, gdouble shift_v, gdouble shift_a)
{
  gdouble sigma, b;

  if (sigma_v == 0)
    return 0;
  sigma = MAX (sigma_v, 1e-6);
  b = sigma / (shift_v + sigma * (1.0 - shift_v));
  return shift_a * b / (1.0 + (shift_a - 1.0) * b);
}

static void
derive_audio (H3Schedule *schedule, gdouble shift_v, gdouble shift_a)
{
  for (gint i = 0; i <= schedule->steps; i++) {
    gdouble sigma =
        audio_sigma_of_video (schedule->sigma_v[i], shift_v, shift_a);

    schedule->sigma_a[i] = (gfloat) sigma;
    if (i < schedule->steps)
      schedule->t_a[i] = (gfloat) (1.0 - sigma);
  }
}

static void
timesteps_of_sigmas (gfloat *t, const gfloat *sigma, gint steps)
{
  for (gint i = 0; i < steps; i++)
    t[i] = 1.0f - sigma[i];
}

/* What every loop relies on, whatever made the list. */
static gboolean
check_sigmas (const gfloat *sigma, gint steps, const gchar *stream,
    GError **error)
{
  if (steps < 1) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "the %s sigmas need at least 2 values, got %d", stream, steps + 1);
    return FALSE;
  }
  /* written so that NaN fails */
  if (!(sigma[0] <= 1)) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "the first %s sigma must be at most 1, got %g", stream, sigma[0]);
    return FALSE;
  }
  if (sigma[steps] != 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "the last %s sigma must be 0, got %g", stream, sigma[steps]);
    return FALSE;
  }
  for (gint i = 1; i <= steps; i++)
    if (!(sigma[i] < sigma[i - 1])) {
      g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
          "the %s sigmas must decrease strictly, but number %d is %.9g and "
          "number %d %.9g: use fewer steps or another list",
          stream, i, sigma[i - 1], i + 1, sigma[i]);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_shift (const gchar *name, gdouble shift, GError **error)
{
  if (isfinite (shift) && isfinite ((gfloat) shift) && (gfloat) shift > 0)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
      "%s must be a positive, finite number, got %g", name, shift);
  return FALSE;
}

static gboolean
check_steps (H3ScheduleKind kind, gint steps, const gdouble *explicit_v,
    gint n_explicit, GError **error)
{
  if (kind == H3_SCHEDULE_EXPLICIT) {
    if (explicit_v && n_explicit >= 2 && n_explicit <= MAX_STEPS + 1)
      return TRUE;
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "an explicit schedule needs 2 to %d sigmas, got %d", MAX_STEPS + 1,
        explicit_v ? n_explicit : 0);
    return FALSE;
  }
  if (steps < 1 || steps > MAX_STEPS) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "steps must be 1 to %d, got %d", MAX_STEPS, steps);
    return FALSE;
  }
  if (kind == H3_SCHEDULE_SIMPLE && steps > TABLE) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "the simple schedule has at most %d steps, got %d", TABLE, steps);
    return FALSE;
  }
  return TRUE;
}

static H3Schedule *
schedule_alloc (gint steps)
{
  H3Schedule *schedule = g_new0 (H3Schedule, 1);

  schedule->steps = steps;
  schedule->sigma_v = g_new0 (gfloat, steps + 1);
  schedule->sigma_a = g_new0 (gfloat, steps + 1);
  schedule->t_v = g_new0 (gfloat, steps);
  schedule->t_a = g_new0 (gfloat, steps);
  return schedule;
}

/* Fills both streams' sigmas; how many there are, -1 when they are not as many
 * in one as in the other, 0 when only the video's were made. */
static gint
fill_sigmas (H3Schedule *schedule, H3ScheduleKind kind, gdouble shift_v,
    gdouble shift_a, const gdouble *explicit_v, const gdouble *explicit_a,
    gboolean *own_audio)
{
  gint n_v = 0, n_a;

  *own_audio = kind == H3_SCHEDULE_UNIFORM ||
               (kind == H3_SCHEDULE_EXPLICIT && explicit_a);
  switch (kind) {
    case H3_SCHEDULE_UNIFORM:
      n_v = uniform_sigmas (schedule->sigma_v, schedule->steps + 1, shift_v);
      n_a = uniform_sigmas (schedule->sigma_a, schedule->steps + 1, shift_a);
      return n_a == n_v ? n_v : -1;
    case H3_SCHEDULE_SIMPLE:
      return simple_sigmas (schedule->sigma_v, schedule->steps, shift_v);
    case H3_SCHEDULE_BETA:
      return beta_sigmas (schedule->sigma_v, schedule->steps, shift_v);
    case H3_SCHEDULE_EXPLICIT:
      if (explicit_a)
        explicit_sigmas (schedule->sigma_a, explicit_a, schedule->steps + 1);
      return explicit_sigmas (schedule->sigma_v, explicit_v,
          schedule->steps + 1);
  }
  return n_v;
}

H3Schedule *
h3_schedule_new (H3ScheduleKind kind, gint steps, gdouble shift_v,
    gdouble shift_a, const gdouble *explicit_v, const gdouble *explicit_a,
    gint n_explicit, GError **error)
{
  g_autoptr (H3Schedule) schedule = NULL;
  gboolean own_audio;
  gint n;

  if (!check_shift ("shift-video", shift_v, error) ||
      !check_shift ("shift-audio", shift_a, error) ||
      !check_steps (kind, steps, explicit_v, n_explicit, error))
    return NULL;

  if (kind == H3_SCHEDULE_EXPLICIT)
    steps = n_explicit - 1;
  schedule = schedule_alloc (steps);
  n = fill_sigmas (schedule, kind, shift_v, shift_a, explicit_v, explicit_a,
      &own_audio);
  if (n < 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "with %d steps the video and audio sigmas do not have equally many "
        "distinct values: use fewer steps",
        steps);
    return NULL;
  }
  schedule->steps = n - 1;

  if (!check_sigmas (schedule->sigma_v, schedule->steps, "video", error))
    return NULL;
  timesteps_of_sigmas (schedule->t_v, schedule->sigma_v, schedule->steps);
  if (own_audio)
    timesteps_of_sigmas (schedule->t_a, schedule->sigma_a, schedule->steps);
  else
    derive_audio (schedule, shift_v, shift_a);
  if (!check_sigmas (schedule->sigma_a, schedule->steps, "audio", error))
    return NULL;
  return g_steal_pointer (&schedule);
}

void
h3_schedule_free (H3Schedule *schedule)
{
  if (!schedule)
    return;
  g_free (schedule->sigma_v);
  g_free (schedule->sigma_a);
  g_free (schedule->t_v);
  g_free (schedule->t_a);
  g_free (schedule);
}
