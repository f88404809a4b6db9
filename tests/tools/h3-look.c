/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3-look [--json] VIDEO.rgb WIDTH HEIGHT AUDIO.f32
 *
 * Says what a clip of the demo checkpoint shows, from raw RGB frames and raw
 * F32LE interleaved stereo at 32 kHz. */
#include <stdlib.h>
#include <string.h>

#include "tests/tools/look.h"

static gboolean json;

static const GOptionEntry options[] = {
  { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Words and numbers as JSON", NULL },
  { NULL }
};

/* A whole number of @unit bytes out of @path. */
static gchar *
read_units (const gchar *path, gsize unit, const gchar *what, gint *n,
    GError **error)
{
  gchar *data = NULL;
  gsize size;

  if (!g_file_get_contents (path, &data, &size, error))
    return NULL;
  if (size % unit != 0 || size / unit > G_MAXINT / 2) {
    g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
        "%s: %" G_GSIZE_FORMAT
        " bytes are no whole number of %s (%" G_GSIZE_FORMAT " bytes each)",
        path, size, what, unit);
    g_free (data);
    return NULL;
  }
  *n = size / unit;
  return data;
}

static void
print_json (const H3Look *look)
{
  g_print ("{\"color\": \"%s\", \"shape\": \"%s\", \"motion\": \"%s\", "
           "\"background\": \"%s\", \"tone\": \"%s\",\n",
      look->color, look->shape, look->motion, look->background, look->tone);
  g_print (" \"color_rgb\": [%d, %d, %d], \"background_rgb\": [%d, %d, %d],\n",
      look->color_rgb[0], look->color_rgb[1], look->color_rgb[2],
      look->background_rgb[0], look->background_rgb[1],
      look->background_rgb[2]);
  g_print (" \"overlap\": {\"circle\": %.4f, \"square\": %.4f, \"triangle\": "
           "%.4f},\n",
      look->overlap[0], look->overlap[1], look->overlap[2]);
  g_print (" \"dx\": %.2f, \"dy\": %.2f, \"rms\": %.5f, \"frequency\": %.2f}\n",
      look->dx, look->dy, look->rms, look->frequency);
}

static gboolean
run (gchar **argv, GError **error)
{
  g_autofree gchar *video = NULL;
  g_autofree gchar *audio = NULL;
  guint64 width, height;
  gint n_frames, n_samples;
  H3Look look;

  if (!g_ascii_string_to_unsigned (argv[2], 10, 1, 16384, &width, error) ||
      !g_ascii_string_to_unsigned (argv[3], 10, 1, 16384, &height, error))
    return FALSE;
  video = read_units (argv[1], 3 * width * height, "frames", &n_frames, error);
  if (!video)
    return FALSE;
  audio = read_units (argv[4], 2 * sizeof (gfloat), "stereo samples",
      &n_samples, error);
  if (!audio)
    return FALSE;
  h3_look ((const guint8 *) video, width, height, n_frames,
      (const gfloat *) audio, n_samples, &look);
  if (json) {
    print_json (&look);
  } else {
    g_autofree gchar *words = h3_look_words (&look);

    g_print ("%s\n", words);
  }
  return TRUE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context =
      g_option_context_new ("VIDEO.rgb WIDTH HEIGHT AUDIO.f32");
  g_autoptr (GError) error = NULL;

  g_option_context_add_main_entries (context, options, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) ||
      (argc == 5 && !run (argv, &error))) {
    g_printerr ("h3-look: %s\n", error->message);
    return EXIT_FAILURE;
  }
  if (argc != 5) {
    g_printerr ("h3-look: needed are VIDEO.rgb WIDTH HEIGHT AUDIO.f32\n");
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
