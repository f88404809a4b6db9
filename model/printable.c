/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/printable.h"

#include <string.h>

gchar *
h3_printable (const gchar *text)
{
  g_autofree gchar *valid = g_utf8_make_valid (text, -1);
  GString *printable = g_string_sized_new (strlen (valid));

  for (const gchar *c = valid; *c; c = g_utf8_next_char (c)) {
    gunichar character = g_utf8_get_char (c);

    if (character == '\n' || character == '\t')
      g_string_append_c (printable, ' ');
    else
      g_string_append_unichar (printable,
          g_unichar_iscntrl (character) ? '?' : character);
  }
  return g_string_free (printable, FALSE);
}
