/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The language model's geometry. Private to model/text. */
#pragma once

#include "model/checkpoint/config.h"
#include "model/text/text-model.h"

G_BEGIN_DECLS

#define H3_TEXT_PREFIX "model.language_model."

/* Reads text_config of config.json; absent keys have the released values.
 * Settings that the language model of text-encoder.md 6 does not know are
 * H3_ERROR_WRONG_TYPE. */
gboolean h3_text_config_read (const H3Config *file, H3TextConfig *config,
    GError **error);

/* Compares @config with the stored shapes; each difference is a problem of the
 * loader that names both, after which @config has the tensors' value. */
void h3_text_config_check_shapes (H3Loader *loader, const H3Config *file,
    H3TextConfig *config);

G_END_DECLS
