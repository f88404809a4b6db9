/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What memory components need on each device: what is said of one, and what all
 * of them need together. */
#pragma once

#include "model/ops.h"

G_BEGIN_DECLS

#define N_DEVICES 2

/* What decides sizes of each; nothing is asked of them. */
const H3Device *needs_device (guint i);

/* How a model lives with the others (gst/gsth3runtime.h). */
typedef enum {
  NEEDS_TURNS, /* may leave while others compute */
  NEEDS_STAYS,
  NEEDS_INPUT, /* for pictures, clips and sounds that come in */
} NeedsRole;

/**
 * Needs: a model on each device
 * @refusal: why the device does not take it, or NULL; owned
 */
typedef struct {
  NeedsRole role;
  guint64 weights[N_DEVICES], workspace[N_DEVICES];
  gchar *refusal[N_DEVICES];
} Needs;

void needs_clear (Needs *needs);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Needs, needs_clear)

/* Prints it, and adds it to all. @half: "decoder" or "". */
void needs_say (const Needs *needs, const gchar *half);
/* Prints what all need together, where there is more than one. @width, @height,
 * @frames: the clip that it was counted for. */
void needs_say_all (gint width, gint height, gint frames);

/* Lines of the report. */
void say (const gchar *field, const gchar *format, ...) G_GNUC_PRINTF (2, 3);
/* "5.24 GB"; free with g_free(). */
gchar *size_text (guint64 bytes);

G_END_DECLS
