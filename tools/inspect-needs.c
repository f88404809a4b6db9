/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "inspect-needs.h"

#include "model/printable.h"

#include "cpu/h3-cpu.h"
#include "cuda/h3-cuda.h"
#include "model/memory-plan.h"

/* Nothing is asked of them but sizes. */
static H3Device devices[N_DEVICES] = { { .name = "cpu" }, { .name = "cuda" } };

/* Of everything that was said. */
static struct {
  guint n; /* models that make clips */
  H3MemoryPlan plan[N_DEVICES];
  guint64 input[N_DEVICES]; /* more, for what comes in */
  gboolean refused[N_DEVICES];
} all;

const H3Device *
needs_device (guint i)
{
  if (!devices[0].encodings) {
    h3_cpu_describe (&devices[0]);
    h3_cuda_describe (&devices[1]);
  }
  return &devices[i];
}

void
needs_clear (Needs *needs)
{
  for (guint i = 0; i < N_DEVICES; i++)
    g_clear_pointer (&needs->refusal[i], g_free);
}

void
say (const gchar *field, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  g_autofree gchar *printable = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  printable = h3_printable (text);
  g_print ("  %-12s %s\n", field, printable);
}

gchar *
size_text (guint64 bytes)
{
  if (bytes >= 1000000000)
    return g_strdup_printf ("%.2f GB", bytes / 1e9);
  if (bytes >= 1000000)
    return g_strdup_printf ("%.1f MB", bytes / 1e6);
  return g_strdup_printf ("%.1f kB", bytes / 1e3);
}

static void
add (const Needs *needs, guint i)
{
  if (needs->role == NEEDS_INPUT)
    all.input[i] += needs->weights[i] + needs->workspace[i];
  else
    h3_memory_plan_add (&all.plan[i], needs->weights[i], needs->workspace[i],
        needs->role == NEEDS_TURNS);
}

void
needs_say (const Needs *needs, const gchar *half)
{
  all.n += needs->role != NEEDS_INPUT;
  for (guint i = 0; i < N_DEVICES; i++) {
    g_autofree gchar *sum = size_text (needs->weights[i] + needs->workspace[i]);
    g_autofree gchar *weights = size_text (needs->weights[i]);
    g_autofree gchar *workspace = size_text (needs->workspace[i]);
    const gchar *field = i == 0 ? "memory" : "";

    if (needs->refusal[i]) {
      all.refused[i] = TRUE;
      say (field, "%snot on %s: %s", half, devices[i].name, needs->refusal[i]);
      continue;
    }
    add (needs, i);
    if (needs->workspace[i] > 0)
      say (field, "%s%s on %s: weights %s, workspace %s", half, sum,
          devices[i].name, weights, workspace);
    else
      say (field, "%s%s of weights on %s", half, sum, devices[i].name);
  }
}

/* Text encoder and transformer may be parked for each other and for decoding;
 * what decodes keeps its workspace between clips. */
static void
say_sum (guint i)
{
  const H3MemoryPlan *plan = &all.plan[i];
  g_autofree gchar *whole = size_text (h3_memory_plan_whole (plan));
  g_autofree gchar *stream = size_text (h3_memory_plan_stream (plan));
  g_autofree gchar *least = size_text (h3_memory_plan_least (plan));
  g_autofree gchar *input = size_text (all.input[i]);

  say ("", "on %s:", devices[i].name);
  say ("", "  %10s with all models there", whole);
  say ("", "  %10s with models in turn (residency=auto or stage)", stream);
  say ("", "  %10s in turn, where one clip is made and no more", least);
  say ("", "  %10s more for pictures and sounds that come in", input);
}

void
needs_say_all (gint width, gint height, gint frames)
{
  if (all.n < 2)
    return;
  g_print ("\nall of these\n");
  say ("memory", "for clips of %dx%d, %d frames", width, height, frames);
  for (guint i = 0; i < N_DEVICES; i++)
    if (all.refused[i])
      say ("", "not on %s", devices[i].name);
    else
      say_sum (i);
}
