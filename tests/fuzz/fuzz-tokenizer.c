/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as the tokenizer's three files and a text, with a byte 0x1e between
 * them; a part that is not there is empty. */
#include "fuzz.h"

#include "model/text/tokenizer.h"

#include <string.h>

#define N_PARTS 4

/* The part's own memory, so that a sanitizer sees a byte too far. */
static gchar *
next_part (const guint8 **data, gsize *size, gboolean last, gsize *length)
{
  const guint8 *end = last || *size == 0 ? NULL : memchr (*data, 0x1e, *size);
  gchar *part;

  *length = end ? (gsize) (end - *data) : *size;
  part = g_malloc (MAX (*length, 1));
  if (*length > 0)
    memcpy (part, *data, *length);
  *data += *length + (end != NULL);
  *size -= *length + (end != NULL);
  return part;
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  gchar *part[N_PARTS];
  gsize length[N_PARTS];
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tokenizer) tokenizer = NULL;

  for (guint i = 0; i < N_PARTS; i++)
    part[i] = next_part (&data, &size, i == N_PARTS - 1, &length[i]);
  tokenizer = h3_tokenizer_parse (part[0], length[0], part[1], length[1],
      part[2], length[2], &error);
  g_assert_true ((tokenizer == NULL) == (error != NULL));
  if (tokenizer) {
    g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
    gboolean ok =
        h3_tokenizer_encode (tokenizer, part[3], length[3], ids, &error);

    g_assert_true (ok == (error == NULL));
    for (guint i = 0; ok && i < ids->len; i++)
      g_assert_cmpint (g_array_index (ids, gint32, i), >=, 0);
    h3_tokenizer_control (tokenizer, "<|vision_start|>");
  }
  for (guint i = 0; i < N_PARTS; i++)
    g_free (part[i]);
  return 0;
}
