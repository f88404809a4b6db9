/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much longer a transformer takes to load with adapters.
 *   bench-adapters [--cpu] [--reps N] CHECKPOINT ADAPTER...
 * Prints seconds without and with them, of files that are in the page cache. */
#include <stdio.h>
#include <stdlib.h>

#include "cpu/h3-cpu.h"
#include "cuda/h3-cuda.h"
#include "model/denoise/transformer.h"

static gboolean on_cpu;
static gint reps = 3;

static const GOptionEntry options[] = { { "cpu", 'c', 0, G_OPTION_ARG_NONE,
                                            &on_cpu, "load to the CPU", NULL },
  { "reps", 'r', 0, G_OPTION_ARG_INT, &reps, "timed runs", "N" }, { NULL } };

static void
must (gboolean ok, const GError *error, const gchar *what)
{
  if (ok)
    return;
  fprintf (stderr, "bench-adapters: %s\n", error ? error->message : what);
  exit (1);
}

static gdouble
load (const gchar *path, const H3AdapterChoice *adapters, guint n,
    H3Device *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error);
  g_autoptr (H3Transformer) transformer = NULL;
  gint64 start = g_get_monotonic_time ();

  must (checkpoint != NULL, error, NULL);
  h3_checkpoint_set_adapters (checkpoint, adapters, n);
  transformer =
      h3_transformer_load (checkpoint, device, NULL, NULL, NULL, &error);
  must (transformer != NULL, error, NULL);
  return (gdouble) (g_get_monotonic_time () - start) / G_USEC_PER_SEC;
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context =
      g_option_context_new ("CHECKPOINT ADAPTER...");
  g_autoptr (H3Device) device = NULL;
  g_autofree H3AdapterChoice *adapters = NULL;
  GError *error = NULL;

  g_option_context_add_main_entries (context, options, NULL);
  must (g_option_context_parse (context, &argc, &argv, &error), error, NULL);
  must (argc > 2 && reps > 0, NULL, "CHECKPOINT and ADAPTER are needed");
  adapters = g_new (H3AdapterChoice, argc - 2);
  for (gint i = 2; i < argc; i++)
    adapters[i - 2] = (H3AdapterChoice){ argv[i], 1 };
  device =
      on_cpu ? h3_cpu_device_new (0, &error) : h3_cuda_open_device (-1, &error);
  must (device != NULL, error, NULL);
  load (argv[1], adapters, argc - 2, device); /* everything is in the cache */
  for (gint i = 0; i < reps; i++) {
    gdouble plain = load (argv[1], NULL, 0, device);
    gdouble with = load (argv[1], adapters, argc - 2, device);

    printf ("%s: plain %.2f s, with adapters %.2f s, %.2f s more\n",
        device->name, plain, with, with - plain);
  }
  return 0;
}
