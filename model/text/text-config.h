/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The language model's geometry. Private to model/text. */
#pragma once

#include "model/checkpoint/config.h"
#include "model/text/text-model.h"

G_BEGIN_DECLS

#define H3_TEXT_PREFIX "model.language_model."

/* Far above any model, and products of three stay below 2^63. */
#define H3_TEXT_MAX_DIMENSION (1 << 20)

/* The component's config.json and its tensors; both are the caller's, also when
 * the second cannot be opened. */
gboolean h3_text_open (const H3Checkpoint *checkpoint, H3Config **file,
    H3TensorSet **set, GError **error);

/* Reads text_config of config.json; absent keys have the released values.
 * Settings that the language model of text-encoder.md 6 does not know are
 * H3_ERROR_WRONG_TYPE. */
gboolean h3_text_config_read (const H3Config *file, H3TextConfig *config,
    GError **error);

/* Compares @config with the stored shapes; each difference is a problem of the
 * loader that names both, after which @config has the tensors' value. */
void h3_text_config_check_shapes (H3Loader *loader, const H3Config *file,
    H3TextConfig *config);
/* One of these: *@value against dimension @axis of the tensor @name, divided by
 * @unit. */
void h3_text_config_check_dimension (H3Loader *loader, const H3Config *file,
    const gchar *key, const gchar *name, guint axis, gint unit, gint *value);

G_END_DECLS
