/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/memory.h"

#include <stdlib.h>
#include <string.h>

/* Smaller requests are not worth reading files for. */
#define CHECKED_BYTES ((gsize) 64 << 20)

/* "MemAvailable:   123 kB" */
static guint64
meminfo_value (const gchar *text, const gchar *key)
{
  const gchar *at = strstr (text, key);

  if (!at)
    return G_MAXUINT64;
  return g_ascii_strtoull (at + strlen (key), NULL, 10) * 1024;
}

/* The number in a control file; @otherwise when it is "max" or not there. */
static guint64
read_number (const gchar *folder, const gchar *name, guint64 otherwise)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);
  g_autofree gchar *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL) ||
      !g_ascii_isdigit (text[0]))
    return otherwise;
  return g_ascii_strtoull (text, NULL, 10);
}

/* Page cache that the kernel would give back is not used memory. */
static guint64
reclaimable (const gchar *folder, const gchar *key)
{
  g_autofree gchar *path = g_build_filename (folder, "memory.stat", NULL);
  g_autofree gchar *text = NULL;
  const gchar *at;

  if (!g_file_get_contents (path, &text, NULL, NULL) ||
      !(at = strstr (text, key)))
    return 0;
  return g_ascii_strtoull (at + strlen (key), NULL, 10);
}

static void
apply_group (const gchar *folder, gboolean v2, guint64 *free_bytes,
    guint64 *total_bytes)
{
  guint64 limit = read_number (folder,
      v2 ? "memory.max" : "memory.limit_in_bytes", G_MAXUINT64);
  guint64 used =
      read_number (folder, v2 ? "memory.current" : "memory.usage_in_bytes", 0);
  guint64 cache =
      reclaimable (folder, v2 ? "inactive_file " : "total_inactive_file ");

  if (limit == G_MAXUINT64)
    return;
  used -= MIN (used, cache);
  *total_bytes = MIN (*total_bytes, limit);
  *free_bytes = MIN (*free_bytes, limit - MIN (limit, used));
}

/* The group and its parents: inside a container the path may start above what
 * is mounted; missing folders say nothing. */
static void
apply_groups (const gchar *mount, const gchar *group, gboolean v2,
    guint64 *free_bytes, guint64 *total_bytes)
{
  g_autofree gchar *path = g_strdup (group);

  for (;;) {
    g_autofree gchar *folder = g_build_filename (mount, path, NULL);
    gchar *slash;

    apply_group (folder, v2, free_bytes, total_bytes);
    slash = strrchr (path, '/');
    if (!slash || !path[1])
      return;
    slash[slash == path ? 1 : 0] = '\0';
  }
}

void
h3_cpu_memory_read (const gchar *meminfo, const gchar *cgroup,
    const gchar *root, guint64 *free_bytes, guint64 *total_bytes)
{
  g_autofree gchar *text = NULL;
  g_autofree gchar *groups = NULL;
  g_auto (GStrv) lines = NULL;

  *free_bytes = *total_bytes = G_MAXUINT64;
  if (g_file_get_contents (meminfo, &text, NULL, NULL)) {
    *free_bytes = meminfo_value (text, "MemAvailable:");
    *total_bytes = meminfo_value (text, "MemTotal:");
  }
  if (!g_file_get_contents (cgroup, &groups, NULL, NULL))
    return;
  /* "0::/path" is v2, "7:memory:/path" v1's memory controller */
  lines = g_strsplit (groups, "\n", 0);
  for (guint i = 0; lines[i]; i++) {
    g_auto (GStrv) field = g_strsplit (lines[i], ":", 3);

    if (g_strv_length (field) < 3)
      continue;
    if (!strcmp (field[0], "0") && !*field[1]) {
      apply_groups (root, field[2], TRUE, free_bytes, total_bytes);
    } else if (!strcmp (field[1], "memory")) {
      g_autofree gchar *mount = g_build_filename (root, "memory", NULL);
      apply_groups (mount, field[2], FALSE, free_bytes, total_bytes);
    }
  }
}

void
h3_cpu_memory_info (guint64 *free_bytes, guint64 *total_bytes)
{
  h3_cpu_memory_read ("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup",
      free_bytes, total_bytes);
}

gpointer
h3_cpu_memory_alloc (gsize bytes)
{
  gsize size = (bytes + 63) & ~(gsize) 63;

  if (size < bytes)
    return NULL;
  if (size >= CHECKED_BYTES) {
    guint64 free_bytes, total_bytes;

    h3_cpu_memory_info (&free_bytes, &total_bytes);
    if (size > free_bytes)
      return NULL;
  }
  return aligned_alloc (64, size);
}
