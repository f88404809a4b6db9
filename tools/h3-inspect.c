/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3-inspect [--width N --height N --frames N] PATH...
 *
 * What each checkpoint is, how it is stored, what memory it needs, alone and with
 * the others, and what is wrong with it; reads no weights. Exit status: 0 when all can be used, 1 when
 * something cannot, 2 for wrong arguments.
 */
#include "inspect.h"
#include "inspect-needs.h"

#include <locale.h>

#define UNUSABLE 1
#define WRONG_ARGUMENTS 2

int
main (int argc, char **argv)
{
  g_auto (GStrv) paths = NULL;
  gint width = 1344, height = 768, frames = 124;
  const GOptionEntry entries[] = {
    { "width", 0, 0, G_OPTION_ARG_INT, &width,
        "of the clips that memory is for, 1344", "PIXELS" },
    { "height", 0, 0, G_OPTION_ARG_INT, &height, "likewise, 768", "PIXELS" },
    { "frames", 0, 0, G_OPTION_ARG_INT, &frames, "likewise, 124", "N" },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &paths, NULL,
        "PATH..." },
    { NULL },
  };
  g_autoptr (GOptionContext) context =
      g_option_context_new ("- say what MiniMax H3 checkpoints are");
  g_autoptr (GHashTable) seen =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GError) error = NULL;
  gint status = 0;

  setlocale (LC_CTYPE, ""); /* numbers stay as they are documented */
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error)) {
    g_printerr ("h3-inspect: %s\n", error->message);
    return WRONG_ARGUMENTS;
  }
  if (!paths) {
    g_printerr ("h3-inspect: PATH is needed: a file or folder of weights\n");
    return WRONG_ARGUMENTS;
  }
  if (!inspect_for (width, height, frames, &error)) {
    g_printerr ("h3-inspect: %s\n", error->message);
    return WRONG_ARGUMENTS;
  }
  for (guint i = 0; paths[i]; i++) {
    if (i > 0)
      g_print ("\n");
    if (!inspect (paths[i], seen))
      status = UNUSABLE;
  }
  needs_say_all (width, height, frames);
  return status;
}
