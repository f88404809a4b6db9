/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sampling.md 6: the coefficient table and the worked example. */
#include "test-denoise.h"

#include "model/denoise/solver.h"

#include <math.h>

static H3Schedule *
beta_schedule (gint steps)
{
  g_autoptr (GError) error = NULL;
  H3Schedule *schedule =
      h3_schedule_new (H3_SCHEDULE_BETA, steps, 12, 3, NULL, NULL, 0, &error);

  g_assert_no_error (error);
  return schedule;
}

/* One number through a step, as ops.h defines it, in double. */
typedef struct {
  gdouble x, d_prev;
} State;

static gdouble
model_input (const State *state, const H3SolverStep *step)
{
  return step->in_scale * state->x;
}

static void
advance (State *state, const H3SolverStep *step, gdouble v)
{
  gdouble d = (model_input (state, step) + step->sigma_t * v) * step->d_scale;

  state->x = step->a * state->x + step->b * d +
             (step->c != 0 ? step->c * state->d_prev : 0);
  state->d_prev = d;
}

/* sampling.md 6.2: beta 12, video */
static void
test_coefficients (void)
{
  static const gdouble table[][3] = {
    { 0.99419476, 0.012610589, -0.0068053475 },
    { 0.99070849, 0.016751867, -0.007460355 },
    { 0.98661335, 0.023071639, -0.0096849931 },
    { 0.98046043, 0.033891454, -0.014351883 },
    { 0.97153043, 0.04940496, -0.020935392 },
    { 0.95624449, 0.077898672, -0.034143158 },
    { 0.9293919, 0.12909224, -0.058484141 },
    { 0.8782846, 0.23191297, -0.11019757 },
    { 0.76131901, 0.50082166, -0.26214067 },
    { 0.49329851, 1.239878, -0.73317653 },
  };
  g_autoptr (H3Schedule) schedule = beta_schedule (12);
  g_autoptr (H3SolverPlan) plan =
      h3_solver_plan_new (H3_SOLVER_RES_MULTISTEP, schedule, 4);

  g_assert_cmpint (plan->steps, ==, 12);
  for (gint i = 1; i < 11; i++) {
    const H3SolverStep *step = &plan->video[i];

    g_assert_cmpfloat_with_epsilon (step->a, table[i - 1][0], 1e-7);
    g_assert_cmpfloat_with_epsilon (step->b, table[i - 1][1], 1e-6);
    g_assert_cmpfloat_with_epsilon (step->c, table[i - 1][2], 1e-6);
    /* the carried audio moves by the same coefficients */
    g_assert_cmpfloat (plan->audio[i].a, ==, step->a);
    g_assert_cmpfloat (plan->audio[i].b, ==, step->b);
    g_assert_cmpfloat (plan->audio[i].c, ==, step->c);
  }
  for (gint i = 0; i < 12; i++)
    g_assert_cmpfloat_with_epsilon ((gdouble) plan->video[i].a +
                                        plan->video[i].b + plan->video[i].c,
        1, 3e-7);
  /* the ends are Euler */
  g_assert_cmpfloat (plan->video[0].c, ==, 0);
  g_assert_cmpfloat (plan->video[11].c, ==, 0);
  g_assert_cmpfloat (plan->video[11].a, ==, 0);
  g_assert_cmpfloat (plan->video[11].b, ==, 1);
}

typedef struct {
  gdouble x_euler, y_euler, xa_euler, x_res, y_res, xa_res;
} Row;

/* sampling.md 6.5: D_v = 0.3 x + 0.2, D_a = 0.25 x_a - 0.1 */
static const Row worked[] = {
  { 1.485135147, -0.806995225, -0.766767397, 1.485135147, -0.806995225,
      -0.766767397 },
  { 1.434587970, -0.828655045, -0.673747975, 1.434110634, -0.825097861,
      -0.670855764 },
  { 1.258107160, -0.882439646, -0.480160598, 1.250725214, -0.835306588,
      -0.454514156 },
  { 0.577432148, -0.880160598, -0.220040149, 0.575217564, -0.854514156,
      -0.213628539 },
};

/* The velocity with which the model says its D: D = x + sigma v. */
static gdouble
toy_velocity (gdouble x, gdouble slope, gdouble offset, gdouble sigma)
{
  return (slope * x + offset - x) / sigma;
}

static void
test_worked_euler (void)
{
  g_autoptr (H3Schedule) schedule = beta_schedule (4);
  g_autoptr (H3SolverPlan) plan =
      h3_solver_plan_new (H3_SOLVER_EULER, schedule, 4);
  State video = { 1.5, NAN }, audio = { -0.8, NAN };

  for (gint i = 0; i < 4; i++) {
    advance (&video, &plan->video[i],
        toy_velocity (video.x, 0.3, 0.2, plan->video[i].sigma_t));
    advance (&audio, &plan->audio[i],
        toy_velocity (audio.x, 0.25, -0.1, plan->audio[i].sigma_t));
    g_assert_cmpfloat_with_epsilon (video.x, worked[i].x_euler, 3e-7);
    g_assert_cmpfloat_with_epsilon (audio.x, worked[i].xa_euler, 3e-7);
  }
  g_assert_cmpfloat (plan->audio_final, ==, 1);
}

static void
test_worked_res (void)
{
  g_autoptr (H3Schedule) schedule = beta_schedule (4);
  g_autoptr (H3SolverPlan) plan =
      h3_solver_plan_new (H3_SOLVER_RES_MULTISTEP, schedule, 4);
  State video = { 1.5, NAN }, audio = { -0.8, NAN };

  g_assert_cmpfloat_with_epsilon (plan->video[1].a, 0.939795733, 1e-7);
  g_assert_cmpfloat_with_epsilon (plan->video[1].b, 0.167243245, 1e-7);
  g_assert_cmpfloat_with_epsilon (plan->video[1].c, -0.107038978, 1e-7);
  g_assert_cmpfloat_with_epsilon (plan->video[2].a, 0.780554254, 1e-7);
  g_assert_cmpfloat_with_epsilon (plan->video[2].b, 0.675300764, 1e-7);
  g_assert_cmpfloat_with_epsilon (plan->video[2].c, -0.455855017, 1e-7);
  for (gint i = 0; i < 4; i++) {
    gdouble in = model_input (&audio, &plan->audio[i]);

    advance (&video, &plan->video[i],
        toy_velocity (video.x, 0.3, 0.2, plan->video[i].sigma_t));
    advance (&audio, &plan->audio[i],
        toy_velocity (in, 0.25, -0.1, plan->audio[i].sigma_t));
    g_assert_cmpfloat_with_epsilon (video.x, worked[i].x_res, 5e-7);
    g_assert_cmpfloat_with_epsilon (audio.x, worked[i].y_res, 5e-7);
    if (i < 3)
      g_assert_cmpfloat_with_epsilon (model_input (&audio, &plan->audio[i + 1]),
          worked[i].xa_res, 5e-7);
  }
  g_assert_cmpfloat_with_epsilon (audio.x * plan->audio_final, worked[3].xa_res,
      5e-7);
}

/* The reference takes sigma from the timestep and r from the grid, in float. */
static void
test_euler_sources (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Schedule) s =
      h3_schedule_new (H3_SCHEDULE_UNIFORM, 49, 12, 3, NULL, NULL, 0, &error);
  g_autoptr (H3SolverPlan) plan = NULL;
  gint differing = 0;

  g_assert_no_error (error);
  plan = h3_solver_plan_new (H3_SOLVER_EULER, s, 4);
  for (gint i = 0; i < 49; i++) {
    gfloat r = s->sigma_a[i + 1] / s->sigma_a[i];

    g_assert_cmpfloat (plan->audio[i].sigma_t, ==, 1.0f - s->t_a[i]);
    g_assert_cmpfloat (plan->audio[i].a, ==, r);
    g_assert_cmpfloat (plan->audio[i].b, ==, 1.0f - r);
    g_assert_cmpfloat (plan->audio[i].in_scale, ==, 1);
    g_assert_cmpfloat (plan->audio[i].d_scale, ==, 1);
    g_assert_cmpfloat (plan->audio[i].c, ==, 0);
    differing += plan->audio[i].sigma_t != s->sigma_a[i];
  }
  g_assert_cmpint (differing, ==, 4); /* sampling.md 6.1: P = 50, s = 3 */
  g_assert_cmpfloat (plan->video[48].a, ==, 0);
  g_assert_cmpfloat (plan->video[48].b, ==, 1);
}

/* With one or two evaluations there is no second-order step. */
static void
test_short (void)
{
  for (gint steps = 1; steps <= 2; steps++) {
    g_autoptr (H3Schedule) schedule = beta_schedule (steps);
    g_autoptr (H3SolverPlan) plan =
        h3_solver_plan_new (H3_SOLVER_RES_MULTISTEP, schedule, 4);

    g_assert_cmpint (plan->steps, ==, steps);
    for (gint i = 0; i < steps; i++) {
      g_assert_cmpfloat (plan->video[i].c, ==, 0);
      g_assert_cmpfloat (plan->audio[i].c, ==, 0);
      g_assert_cmpfloat (plan->audio[i].d_scale, ==, 4);
    }
    g_assert_cmpfloat (plan->audio_final, ==, 0.25f);
  }
}

void
h3_test_add_solver (void)
{
  g_test_add_func ("/solver/coefficients", test_coefficients);
  g_test_add_func ("/solver/worked-euler", test_worked_euler);
  g_test_add_func ("/solver/worked-res", test_worked_res);
  g_test_add_func ("/solver/euler-sources", test_euler_sources);
  g_test_add_func ("/solver/short", test_short);
}
