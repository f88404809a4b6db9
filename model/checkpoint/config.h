/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A config.json: values by path, checked; errors name file and key. */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

typedef struct _H3Config H3Config;

/* H3_ERROR_NOT_FOUND, H3_ERROR_OPEN, or H3_ERROR_READ for no JSON object. */
H3Config *h3_config_open (const gchar *path, GError **error);
/* The same from memory. */
H3Config *h3_config_parse (const gchar *text, gsize length, const gchar *name,
    GError **error);
void h3_config_free (H3Config *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Config, h3_config_free)
const gchar *h3_config_path (const H3Config *config);

/* @key may be a path: "text_config.rope_scaling.mrope_section", and go
 * into an array by number: "sizes.0". A null is taken as absent. */
gboolean h3_config_has (const H3Config *config, const gchar *key);

/* Each sets @value and returns TRUE; where the key is absent @value keeps what
 * it had (the default). A value of another type or outside [min, max] is
 * H3_ERROR_WRONG_TYPE naming file, key, found and needed. */
gboolean h3_config_get_int (const H3Config *config, const gchar *key,
    gint64 min, gint64 max, gint *value, GError **error);
gboolean h3_config_get_double (const H3Config *config, const gchar *key,
    gdouble *value, GError **error);
gboolean h3_config_get_bool (const H3Config *config, const gchar *key,
    gboolean *value, GError **error);
/* Free with g_free(). */
gboolean h3_config_get_string (const H3Config *config, const gchar *key,
    gchar **value, GError **error);
/* @n: in, the room in @values; out, how many there are (an absent key leaves
 * both as they were). More than the room is an error. */
gboolean h3_config_get_ints (const H3Config *config, const gchar *key,
    gint64 min, gint64 max, gint *values, guint *n, GError **error);
gboolean h3_config_get_floats (const H3Config *config, const gchar *key,
    gfloat *values, guint *n, GError **error);

/* FALSE, with H3_ERROR_WRONG_TYPE: the file's path and what is wrong with what it
 * says, for checks that go beyond one key. */
gboolean h3_config_refuse (const H3Config *config, GError **error,
    const gchar *format, ...) G_GNUC_PRINTF (3, 4);

G_END_DECLS
