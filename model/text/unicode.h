/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Code points out of UTF-8, and their composed form. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * h3_utf8_decode:
 * @chars: (element-type gunichar): code points are appended
 *
 * NUL is an ordinary character.
 *
 * Returns: -1, or the offset of the first byte that is not valid UTF-8; what
 *   comes before it has been appended
 */
gssize h3_utf8_decode (const gchar *text, gsize size, GArray *chars);

/**
 * h3_nfc:
 * @out: (element-type gunichar): the normal form C of @chars is appended
 *
 * Time grows as n log n in the worst case, linearly in texts.
 */
void h3_nfc (const gunichar *chars, gsize n, GArray *out);

G_END_DECLS
