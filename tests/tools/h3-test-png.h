/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reading the golden pictures without a library for pictures. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * h3_test_png:
 * @file: as for h3_test_golden()
 *
 * 8-bit RGB, not interlaced; anything else ends the test program.
 *
 * Returns: RGB, @height rows of @width pixels. Free with g_free().
 */
guint8 *h3_test_png (const gchar *file, gint *width, gint *height);

G_END_DECLS
