/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looking at the values inside a model: for golden tests and for debugging. */
#pragma once

#include "model/tensor.h"

G_BEGIN_DECLS

/**
 * H3TapFunc:
 * @name: the stage, in the spelling of the public diffusers module where there
 *   is one ("transformer_blocks.0.attn"), else the spec's ("hidden.25")
 * @value: valid, once the stream is synchronised, until the call returns
 *
 * Called in order from the computing thread.
 */
typedef void (
    *H3TapFunc) (const gchar *name, const H3Tensor *value, gpointer user_data);

typedef struct {
  H3TapFunc func; /* NULL: no taps */
  gpointer user_data;
} H3Tap;

static inline void
h3_tap (const H3Tap *tap, const gchar *name, const H3Tensor *value)
{
  if (tap && tap->func)
    tap->func (name, value, tap->user_data);
}

G_END_DECLS
