/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3-mkgguf --from PATH --to FILE --types TYPE,TYPE,... [--flatten] [--mix]
 *   [--decoded]
 *
 * A GGUF file of the tensors of safetensors files, as people make them of
 * ComfyUI's. gguf-file.h says what goes into which type. */
#include "gguf-file.h"

#include <stdlib.h>

static GArray *
parse_types (const gchar *text)
{
  g_auto (GStrv) names = g_strsplit (text, ",", -1);
  g_autoptr (GArray) types = g_array_new (FALSE, FALSE, sizeof (H3StoredType));

  for (guint i = 0; names[i]; i++) {
    H3StoredType type;

    if (!gguf_type_from_name (names[i], &type)) {
      g_printerr ("h3-mkgguf: GGUF has no type %s\n", names[i]);
      return NULL;
    }
    g_array_append_val (types, type);
  }
  return types->len > 0 ? g_steal_pointer (&types) : NULL;
}

int
main (int argc, char **argv)
{
  g_autofree gchar *from = NULL, *to = NULL, *text = NULL;
  gboolean flatten = FALSE, mix = FALSE, decoded = FALSE;
  const GOptionEntry entries[] = {
    { "from", 0, 0, G_OPTION_ARG_FILENAME, &from, "safetensors", "PATH" },
    { "to", 0, 0, G_OPTION_ARG_FILENAME, &to, "GGUF", "FILE" },
    { "types", 0, 0, G_OPTION_ARG_STRING, &text, "of matrices", "TYPES" },
    { "flatten", 0, 0, G_OPTION_ARG_NONE, &flatten,
        "rows that are no whole blocks", NULL },
    { "mix", 0, 0, G_OPTION_ARG_NONE, &mix, "v and up in the next type", NULL },
    { "decoded", 0, 0, G_OPTION_ARG_NONE, &decoded,
        "float32 that the blocks stand for", NULL },
    { NULL },
  };
  g_autoptr (GOptionContext) context =
      g_option_context_new ("- write a GGUF file");
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) types = NULL;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error)) {
    g_printerr ("h3-mkgguf: %s\n", error->message);
    return EXIT_FAILURE;
  }
  if (!from || !to || !text || !(types = parse_types (text))) {
    g_printerr ("h3-mkgguf: --from PATH, --to FILE and --types TYPES are "
                "needed\n");
    return EXIT_FAILURE;
  }
  if (!gguf_convert (from, to, (const H3StoredType *) types->data, types->len,
          (flatten ? GGUF_FLATTEN : 0) | (mix ? GGUF_MIX : 0) |
              (decoded ? GGUF_DECODED : 0),
          &error)) {
    g_printerr ("h3-mkgguf: %s\n", error->message);
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
