/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One step of the sampler (sampling.md 6). */
#include "cpu/cpu.h"

/* Every product and every sum is rounded on its own: the project compiles with
 * contraction off. */
static void
solver_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3SolverArgs *s = data;
  gint64 first = index * H3_CPU_GRAIN;
  gint64 end = MIN (first + H3_CPU_GRAIN, h3_tensor_size (s->x));
  gfloat *x = s->x->data, *previous = s->d_prev ? s->d_prev->data : NULL;
  const gfloat *v = s->v->data;

  for (gint64 i = first; i < end; i++) {
    gfloat denoised = (s->in_scale * x[i] + s->sigma_t * v[i]) * s->d_scale;
    gfloat next = s->a * x[i] + s->b * denoised;

    if (s->c != 0)
      next = next + s->c * previous[i];
    x[i] = next;
    if (previous)
      previous[i] = denoised;
  }
}

void
H3_ISA (h3_cpu_solver_step) (H3Stream *stream, const H3SolverArgs *args)
{
  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_size (args->x), H3_CPU_GRAIN),
      0, solver_task, args);
}
