/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3-bench-process RUNS COMMAND [ARG...]: wall time, processor time and peak
 * memory of a whole process, as the kernel accounts them. One run that is not
 * counted comes first. */
#include <errno.h>
#include <glib.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

typedef struct {
  double wall, cpu, rss_mb;
} Run;

static double
now (void)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static gboolean
run_once (char **argv, Run *run)
{
  struct rusage usage;
  double start = now ();
  pid_t pid;
  int status;
  int err = posix_spawnp (&pid, argv[0], NULL, NULL, argv, environ);

  if (err != 0) {
    fprintf (stderr, "%s: %s\n", argv[0], g_strerror (err));
    return FALSE;
  }
  if (wait4 (pid, &status, 0, &usage) != pid) {
    fprintf (stderr, "wait: %s\n", g_strerror (errno));
    return FALSE;
  }
  run->wall = now () - start;
  run->cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
             1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  run->rss_mb = usage.ru_maxrss / 1024.0;
  if (!WIFEXITED (status) || WEXITSTATUS (status) != 0) {
    fprintf (stderr, "%s: ended with status %d\n", argv[0], status);
    return FALSE;
  }
  return TRUE;
}

static int
compare (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

static void
print_row (const char *name, const char *unit, double *value, int n)
{
  qsort (value, n, sizeof *value, compare);
  printf ("%-12s min %8.3f  median %8.3f  max %8.3f  %s\n", name, value[0],
      value[n / 2], value[n - 1], unit);
}

int
main (int argc, char **argv)
{
  int n = argc > 2 ? atoi (argv[1]) : 0;

  if (n < 1) {
    fprintf (stderr, "usage: %s RUNS COMMAND [ARG...]\n", argv[0]);
    return 2;
  }

  g_autofree double *wall = g_new (double, n);
  g_autofree double *cpu = g_new (double, n);
  g_autofree double *rss = g_new (double, n);

  for (int i = -1; i < n; i++) {
    Run run;

    if (!run_once (argv + 2, &run))
      return 1;
    if (i >= 0) {
      wall[i] = run.wall;
      cpu[i] = run.cpu;
      rss[i] = run.rss_mb;
    }
  }
  printf ("%d runs\n", n);
  print_row ("wall", "s", wall, n);
  print_row ("processor", "s", cpu, n);
  print_row ("peak memory", "MiB", rss, n);
  return 0;
}
