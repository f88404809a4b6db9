/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/denoise/solver.h"

#include <math.h>

/* sampling.md 6.1: x <- r x + (1 - r) D, r = sigma' / sigma; sigma_t comes from
 * the timestep. Float arithmetic, as the reference does. */
static H3SolverStep
euler_step (const gfloat *sigma, const gfloat *t, gint i)
{
  gfloat r = sigma[i + 1] / sigma[i];
  H3SolverStep step = {
    .in_scale = 1,
    .sigma_t = 1.0f - t[i],
    .d_scale = 1,
    .a = r,
    .b = 1.0f - r,
    .c = 0,
  };

  return step;
}

static gdouble
finite_or_zero (gdouble x)
{
  return isfinite (x) ? x : 0;
}

/* sampling.md 6.2, x <- e^-h x + h (b1 D + b2 D_prev) with lambda = -ln sigma.
 * The first step has no D_prev and the last no lambda: Euler. */
static void
res_coefficients (const gfloat *sigma, gint i, H3SolverStep *step)
{
  gdouble h, c2, z, phi1, phi2;

  if (i == 0 || sigma[i + 1] == 0) {
    gdouble r = (gdouble) sigma[i + 1] / sigma[i];

    step->a = (gfloat) r;
    step->b = (gfloat) (1 - r);
    step->c = 0;
    return;
  }

  h = log (sigma[i]) - log (sigma[i + 1]);
  c2 = (log (sigma[i]) - log (sigma[i - 1])) / h;
  z = -h;
  phi1 = expm1 (z) / z;
  phi2 = (phi1 - 1) / z;
  step->a = (gfloat) exp (-h);
  step->b = (gfloat) (h * finite_or_zero (phi1 - phi2 / c2));
  step->c = (gfloat) (h * finite_or_zero (phi2 / c2));
}

static H3SolverStep
res_video_step (const H3Schedule *schedule, gint i)
{
  H3SolverStep step = {
    .in_scale = 1,
    .sigma_t = schedule->sigma_v[i],
    .d_scale = 1,
  };

  res_coefficients (schedule->sigma_v, i, &step);
  return step;
}

/* sampling.md 6.3: the audio state y = (sigma_v / sigma_a) x_a is integrated
 * over the video's sigma: x_a = y sigma_a / sigma_v, D = k (x_a + sigma_a v).
 */
static H3SolverStep
res_audio_step (const H3Schedule *schedule, gint i, gdouble k)
{
  H3SolverStep step = {
    .in_scale =
        (gfloat) ((gdouble) schedule->sigma_a[i] / schedule->sigma_v[i]),
    .sigma_t = schedule->sigma_a[i],
    .d_scale = (gfloat) k,
  };

  res_coefficients (schedule->sigma_v, i, &step);
  return step;
}

H3SolverPlan *
h3_solver_plan_new (H3Solver solver, const H3Schedule *schedule, gdouble k)
{
  H3SolverPlan *plan = g_new0 (H3SolverPlan, 1);

  plan->steps = schedule->steps;
  plan->video = g_new0 (H3SolverStep, plan->steps);
  plan->audio = g_new0 (H3SolverStep, plan->steps);
  plan->audio_final = solver == H3_SOLVER_RES_MULTISTEP ? (gfloat) (1 / k) : 1;

  for (gint i = 0; i < plan->steps; i++)
    if (solver == H3_SOLVER_RES_MULTISTEP) {
      plan->video[i] = res_video_step (schedule, i);
      plan->audio[i] = res_audio_step (schedule, i, k);
    } else {
      plan->video[i] = euler_step (schedule->sigma_v, schedule->t_v, i);
      plan->audio[i] = euler_step (schedule->sigma_a, schedule->t_a, i);
    }
  return plan;
}

void
h3_solver_plan_free (H3SolverPlan *plan)
{
  if (!plan)
    return;
  g_free (plan->video);
  g_free (plan->audio);
  g_free (plan);
}
