/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much memory this process can still use, and taking some of it. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * h3_cpu_memory_read:
 * @meminfo: /proc/meminfo; @cgroup: /proc/self/cgroup
 * @root: where the cgroup file systems are, /sys/fs/cgroup
 *
 * MemAvailable and MemTotal, or the limits of the process's control groups (v2,
 * each level up to the root; v1's memory controller) where those are lower.
 * Without a readable @meminfo both are G_MAXUINT64.
 */
void h3_cpu_memory_read (const gchar *meminfo, const gchar *cgroup,
    const gchar *root, guint64 *free_bytes, guint64 *total_bytes);

/* What the machine says, through the above. */
void h3_cpu_memory_info (guint64 *free_bytes, guint64 *total_bytes);

/**
 * h3_cpu_memory_alloc:
 *
 * 64-byte aligned memory to be freed with free(), or NULL. Large requests are
 * compared with what is free first: Linux would hand out address space that it
 * cannot fill, and kill the process later.
 */
gpointer h3_cpu_memory_alloc (gsize bytes);

G_END_DECLS
