/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Noise levels of both streams (sampling.md 4). */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

typedef enum {
  H3_SCHEDULE_UNIFORM,
  H3_SCHEDULE_SIMPLE,
  H3_SCHEDULE_BETA,
  H3_SCHEDULE_EXPLICIT,
} H3ScheduleKind;

typedef struct {
  gint steps;      /* model evaluations */
  gfloat *sigma_v; /* [steps + 1], ends with 0 */
  gfloat *sigma_a;
  gfloat *t_v; /* [steps]: what the transformer receives, 1 - sigma */
  gfloat *t_a;
} H3Schedule;

/**
 * h3_schedule_new:
 * @steps: evaluations asked for; dropped duplicates can give fewer
 * @shift_v, @shift_a: > 0 and finite
 * @explicit_v: for H3_SCHEDULE_EXPLICIT, @n_explicit sigmas of the video stream,
 *   strictly decreasing, first at most 1, last exactly 0
 * @explicit_a: of the audio stream, as many; or NULL: derived from the video's
 *   through the shifts (sampling.md 4.3)
 */
H3Schedule *h3_schedule_new (H3ScheduleKind kind, gint steps, gdouble shift_v,
    gdouble shift_a, const gdouble *explicit_v, const gdouble *explicit_a,
    gint n_explicit, GError **error);
void h3_schedule_free (H3Schedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Schedule, h3_schedule_free)

G_END_DECLS
