/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The coefficients of every step of both streams (sampling.md 6). */
#pragma once

#include "model/denoise/schedule.h"

G_BEGIN_DECLS

typedef enum {
  H3_SOLVER_EULER,
  H3_SOLVER_RES_MULTISTEP, /* audio in carried form, sampling.md 6.3 */
} H3Solver;

/* One stream's step, as H3SolverArgs of ops.h wants it. */
typedef struct {
  gfloat in_scale, sigma_t, d_scale, a, b, c;
} H3SolverStep;

typedef struct {
  gint steps;
  H3SolverStep *video, *audio; /* [steps] */
  gfloat audio_final;          /* multiply the audio state by this at the end */
} H3SolverPlan;

/* @k: shift_v / shift_a, the carried stream's factor. */
H3SolverPlan *h3_solver_plan_new (H3Solver solver, const H3Schedule *schedule,
    gdouble k);
void h3_solver_plan_free (H3SolverPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3SolverPlan, h3_solver_plan_free)

G_END_DECLS
