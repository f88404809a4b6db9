/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/memory-plan.h"

#define MAX_MARGIN (G_GUINT64_CONSTANT (1) << 30)

void
h3_memory_plan_add (H3MemoryPlan *plan, guint64 weights, guint64 workspace,
    gboolean parkable)
{
  if (parkable) {
    plan->parkable += weights;
    plan->largest = MAX (plan->largest, weights + workspace);
    plan->workspace = MAX (plan->workspace, workspace);
  } else {
    plan->fixed += weights;
    plan->beside += workspace;
  }
}

guint64
h3_memory_plan_least (const H3MemoryPlan *plan)
{
  return plan->fixed + MAX (plan->largest, plan->beside);
}

guint64
h3_memory_plan_stream (const H3MemoryPlan *plan)
{
  return plan->fixed + plan->beside + plan->largest;
}

guint64
h3_memory_plan_whole (const H3MemoryPlan *plan)
{
  return plan->fixed + plan->beside + plan->parkable + plan->workspace;
}

guint64
h3_memory_margin (guint64 total)
{
  return MIN (total / 20, MAX_MARGIN);
}
