/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much memory the models of a clip need together on one device
 * (gstreamer.md 12). */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * H3MemoryPlan: a sum over models; zeros at first
 * @fixed: weights of what stays, and computes beside the others
 * @beside: its workspace
 * @parkable: weights of what takes turns and may leave between them
 * @largest: of those, the most that one needs with its workspace
 * @workspace: of those, the largest workspace
 */
typedef struct {
  guint64 fixed, beside, parkable, largest, workspace;
} H3MemoryPlan;

/* @parkable: it may be elsewhere while another of that kind computes */
void h3_memory_plan_add (H3MemoryPlan *plan, guint64 weights, guint64 workspace,
    gboolean parkable);
/* Bytes without which no clip can be made: what may leave does, for the next in
 * turn and, once more, for what computes beside. */
guint64 h3_memory_plan_least (const H3MemoryPlan *plan);
/* Bytes for clip after clip, where what computes beside keeps its workspace. */
guint64 h3_memory_plan_stream (const H3MemoryPlan *plan);
/* Bytes with which nothing ever leaves. */
guint64 h3_memory_plan_whole (const H3MemoryPlan *plan);

/* What stays free of a device of @total bytes: a twentieth, at most 1 GiB. */
guint64 h3_memory_margin (guint64 total);

G_END_DECLS
