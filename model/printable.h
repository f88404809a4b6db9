/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names and texts out of files nobody knows, for people to read. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* @text as valid UTF-8 on one line, with "?" for control characters, of which a
 * terminal would take orders. Free with g_free(). */
gchar *h3_printable (const gchar *text);

G_END_DECLS
