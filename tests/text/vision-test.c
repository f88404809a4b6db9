/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/text/vision-test.h"

#include <json-glib/json-glib.h>

H3Device *vision_test_device;

gchar *
vision_test_tiny (void)
{
  return g_build_filename (h3_test_tiny_dir (), "FL2VA", NULL);
}

H3Checkpoint *
vision_test_open (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  H3Checkpoint *checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error);

  g_assert_no_error (error);
  return checkpoint;
}

H3Tokenizer *
vision_test_tokenizer (const gchar *path)
{
  g_autoptr (H3Checkpoint) checkpoint = vision_test_open (path);
  g_autoptr (GError) error = NULL;
  H3Tokenizer *tokenizer;

  tokenizer = h3_tokenizer_load (h3_checkpoint_path (checkpoint,
                                     H3_COMPONENT_TOKENIZER, NULL),
      &error);
  g_assert_no_error (error);
  return tokenizer;
}

H3TextModel *
vision_test_text_model (const gchar *path)
{
  g_autoptr (H3Checkpoint) checkpoint = vision_test_open (path);
  g_autoptr (GError) error = NULL;
  H3TextModel *model = h3_text_model_load (checkpoint, vision_test_device, NULL,
      NULL, NULL, &error);

  g_assert_no_error (error);
  return model;
}

H3VisionModel *
vision_test_model (const gchar *path)
{
  g_autoptr (H3Checkpoint) checkpoint = vision_test_open (path);
  g_autoptr (GError) error = NULL;
  H3VisionModel *model = h3_vision_model_load (checkpoint, vision_test_device,
      NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  return model;
}

H3Stream *
vision_test_stream (void)
{
  g_autoptr (GError) error = NULL;
  H3Stream *stream = h3_stream_new (vision_test_device, &error);

  g_assert_no_error (error);
  return stream;
}

gchar *
vision_test_prompt (const gchar *requests, const gchar *name)
{
  g_autofree gchar *path = h3_test_golden_path (requests);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;
  JsonObject *object;

  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  object = json_node_get_object (json_parser_get_root (parser));
  object = json_object_get_object_member (object, name);
  return g_strdup (json_object_get_string_member (object, "prompt"));
}

H3TextCondition *
vision_test_picture (gint width, gint height, guint32 seed)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  g_autoptr (GError) error = NULL;
  H3Image image = { width, height, g_malloc (width * height * 3) };
  H3TextCondition *condition;

  for (gint i = 0; i < width * height * 3; i++)
    image.pixels[i] = g_rand_int_range (rand, 0, 256);
  condition =
      h3_text_condition_new_picture (H3_CONDITION_IMAGE, &image, &error);
  g_assert_no_error (error);
  return condition;
}

int
main (int argc, char **argv)
{
  gint result;

  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  vision_test_device = h3_test_device_new (0);
  add_vision_golden_tests ();
  add_vision_model_tests ();
  result = g_test_run ();
  h3_device_unref (vision_test_device);
  return result;
}
