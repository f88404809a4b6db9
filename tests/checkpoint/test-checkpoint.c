/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-checkpoint.h"

guint8 *
build_file (const gchar *header, gsize payload, gsize *size)
{
  guint64 length = strlen (header);
  guint64 stored = GUINT64_TO_LE (length);
  guint8 *bytes = g_malloc0 (8 + length + payload);

  memcpy (bytes, &stored, 8);
  memcpy (bytes + 8, header, length);
  *size = 8 + length + payload;
  return bytes;
}

void
write_safetensors (const gchar *path, const gchar *header,
    gconstpointer payload, gsize n)
{
  gsize size;
  g_autofree guint8 *bytes = build_file (header, n, &size);

  if (n > 0)
    memcpy (bytes + size - n, payload, n);
  h3_test_write_file (path, bytes, size);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add_safetensors_tests ();
  add_gguf_tests ();
  add_gguf_load_tests ();
  add_config_tests ();
  add_tensor_set_tests ();
  add_component_tests ();
  add_loader_tests ();
  add_reader_tests ();
  add_quantised_tests ();
  add_generator_tests ();
  add_layout_tests ();
  add_detect_tests ();
  add_damaged_tests ();
  return g_test_run ();
}
