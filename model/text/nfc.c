/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Normal form C out of GLib's tables: decompose, order the marks, compose.
 *
 * g_utf8_normalize() would do, if its time did not grow with the square of the
 * text: it moves the rest of the text at every composition and sorts marks by
 * insertion, so that a megabyte of accented letters takes minutes. It also
 * stops at NUL. */
#include "model/text/unicode.h"

/* U+1F82 and its like have four; GLib's own bound is 18 (compatibility). */
#define MAX_DECOMPOSITION G_UNICHAR_MAX_DECOMPOSITION_LENGTH

/* Below U+00C0 nothing decomposes and nothing is a mark. */
#define FIRST_DECOMPOSABLE 0xc0

static gint
compare_classes (gconstpointer a, gconstpointer b, gpointer unused)
{
  return g_unichar_combining_class (*(const gunichar *) a) -
         g_unichar_combining_class (*(const gunichar *) b);
}

/* Puts every run of marks in the order of their classes; equal ones stay. */
static void
order_marks (gunichar *s, gsize n)
{
  for (gsize i = 0; i < n;) {
    gsize first = i;

    while (i < n && g_unichar_combining_class (s[i]) != 0)
      i++;
    if (i - first > 1)
      g_qsort_with_data (s + first, i - first, sizeof *s, compare_classes,
          NULL); /* stable */
    else if (i == first)
      i++;
  }
}

/* Joins each starter with what follows it and is not blocked by a mark of the
 * same or a higher class in between. Returns the new length. */
static gsize
compose (gunichar *s, gsize n)
{
  gssize starter = -1;
  gint last_class = 0; /* of the last character kept after the starter */
  gsize length = 0;

  for (gsize i = 0; i < n; i++) {
    gint class = g_unichar_combining_class (s[i]);
    gunichar composed;

    if (starter >= 0 && (last_class == 0 || last_class < class) &&
        g_unichar_compose (s[starter], s[i], &composed)) {
      s[starter] = composed;
      continue;
    }
    if (class == 0)
      starter = length;
    last_class = class;
    s[length++] = s[i];
  }
  return length;
}

void
h3_nfc (const gunichar *chars, gsize n, GArray *out)
{
  guint first = out->len;
  gunichar parts[MAX_DECOMPOSITION];
  gunichar *s;

  if (n == 0)
    return;
  for (gsize i = 0; i < n; i++) {
    if (chars[i] < FIRST_DECOMPOSABLE) {
      g_array_append_val (out, chars[i]);
    } else {
      gsize n_parts =
          g_unichar_fully_decompose (chars[i], FALSE, parts, MAX_DECOMPOSITION);

      g_array_append_vals (out, parts, n_parts);
    }
  }
  s = &g_array_index (out, gunichar, first);
  order_marks (s, out->len - first);
  g_array_set_size (out, first + compose (s, out->len - first));
}
