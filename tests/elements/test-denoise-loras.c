/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3denoise's adapters. */
#include "denoise-test.h"

/* "<turbo.safetensors:0.5>" of the files that were made; free with g_free(). */
static gchar *
loras (const gchar *name, const gchar *strength)
{
  return g_strdup_printf ("<\"%s/%s.safetensors%s\">",
      g_getenv ("H3_ADAPTERS_DIR"), name, strength);
}

static GBytes *
make_clip (Denoiser *denoiser)
{
  g_assert_cmpint (denoiser_push (denoiser), ==, GST_FLOW_OK);
  return denoiser_pull (denoiser, NULL, NULL);
}

static GBytes *
clip_with (const gchar *value)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", "loras", value, NULL);

  return make_clip (denoiser);
}

/* Strengths count, and adapters of the same numbers make the same clip,
 * whatever wrote them. */
static void
test_clips (void)
{
  g_autofree gchar *one = loras ("comfy", "");
  g_autofree gchar *half = loras ("comfy", ":0.5");
  g_autofree gchar *nothing = loras ("comfy", ":0");
  g_autofree gchar *twice =
      g_strdup_printf ("<\"%s/comfy.safetensors:0.25\", "
                       "\"file://%s/comfy.safetensors:0.75\">",
          g_getenv ("H3_ADAPTERS_DIR"), g_getenv ("H3_ADAPTERS_DIR"));
  g_autoptr (GBytes) plain = clip_with ("<>");
  g_autoptr (GBytes) with_one = clip_with (one);
  g_autoptr (GBytes) with_half = clip_with (half);
  g_autoptr (GBytes) with_nothing = clip_with (nothing);
  g_autoptr (GBytes) with_two = clip_with (twice);
  gsize n = g_bytes_get_size (with_one) / sizeof (gfloat);

  g_assert_false (g_bytes_equal (plain, with_one));
  g_assert_false (g_bytes_equal (with_half, with_one));
  g_assert_true (g_bytes_equal (plain, with_nothing));
  h3_test_assert_close ((const gfloat *) g_bytes_get_data (with_two, NULL),
      (const gfloat *) g_bytes_get_data (with_one, NULL), n,
      h3_test_tolerance (1e-4, 2e-2));
}

/* Set in READY they are the next clip's, as if they had been there before. */
static void
test_ready (void)
{
  g_autofree gchar *one = loras ("comfy", "");
  g_autoptr (GBytes) plain = clip_with ("<>");
  g_autoptr (GBytes) want = clip_with (one);
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  g_autoptr (GBytes) before = make_clip (denoiser);
  g_autoptr (GBytes) with = NULL;
  g_autoptr (GBytes) after = NULL;

  gst_element_set_state (denoiser->element, GST_STATE_READY);
  denoiser_set (denoiser, "loras", one, NULL);
  gst_element_set_state (denoiser->element, GST_STATE_PLAYING);
  denoiser_send_header (denoiser);
  with = make_clip (denoiser);
  gst_element_set_state (denoiser->element, GST_STATE_READY);
  denoiser_set (denoiser, "loras", "<>", NULL);
  gst_element_set_state (denoiser->element, GST_STATE_PLAYING);
  denoiser_send_header (denoiser);
  after = make_clip (denoiser);
  g_assert_true (g_bytes_equal (before, plain));
  g_assert_true (g_bytes_equal (with, want));
  g_assert_true (g_bytes_equal (after, plain));
}

/* The same clip when the model leaves the memory after every clip. */
static void
test_residency (void)
{
  g_autofree gchar *one = loras ("kohya", "");
  g_autoptr (GBytes) want = clip_with (one);
  g_autoptr (Denoiser) denoiser =
      denoiser_new ("t2va", "loras", one, "residency", "stage", NULL);

  for (guint i = 0; i < 2; i++) {
    g_autoptr (GBytes) got = make_clip (denoiser);

    g_assert_true (g_bytes_equal (got, want));
  }
}

/* One transformer for those that have the same adapters, and another for those
 * that have not. */
static void
test_sharing (void)
{
  g_autofree gchar *one = loras ("comfy", "");
  g_autofree gchar *half = loras ("comfy", ":0.5");
  g_autoptr (Denoiser) plain = denoiser_new ("t2va", NULL);
  g_autoptr (Denoiser) first = denoiser_new ("t2va", "loras", one, NULL);
  g_autoptr (Denoiser) second = denoiser_new ("t2va", "loras", one, NULL);
  g_autoptr (Denoiser) weaker = denoiser_new ("t2va", "loras", half, NULL);
  g_autoptr (GBytes) a = make_clip (plain);
  g_autoptr (GBytes) b = make_clip (first);
  g_autoptr (GBytes) c = make_clip (second);
  g_autoptr (GBytes) d = make_clip (weaker);

  g_assert_true (g_bytes_equal (b, c));
  g_assert_false (g_bytes_equal (a, b));
  g_assert_false (g_bytes_equal (b, d));
  g_assert_cmpuint (element_stat (plain->element, "model-loads"), ==, 1);
  g_assert_cmpuint (element_stat (second->element, "model-loads"), ==, 1);
  g_assert_cmpuint (element_stat (weaker->element, "model-loads"), ==, 1);
}

/* What is no adapter keeps the element from READY, or, set there, from PAUSED;
 * with the right one it goes on. */
static void
test_errors (void)
{
  g_autofree gchar *one = loras ("comfy", "");
  g_autofree gchar *strong = loras ("comfy", ":inf");
  g_autofree gchar *wide = loras ("wide", "");
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("t2va", "loras", "</nowhere/a.safetensors>", NULL);
  GstElement *element = denoiser->element;

  g_assert_cmpint (gst_element_set_state (element, GST_STATE_READY), ==,
      GST_STATE_CHANGE_FAILURE);
  denoiser_assert_error (denoiser, GST_RESOURCE_ERROR,
      GST_RESOURCE_ERROR_NOT_FOUND, "/nowhere/a.safetensors");
  denoiser_set (denoiser, "loras", strong, NULL);
  g_assert_cmpint (gst_element_set_state (element, GST_STATE_READY), ==,
      GST_STATE_CHANGE_FAILURE);
  denoiser_assert_error (denoiser, GST_LIBRARY_ERROR,
      GST_LIBRARY_ERROR_SETTINGS, "strength");
  denoiser_set (denoiser, "loras", wide, NULL);
  g_assert_cmpint (gst_element_set_state (element, GST_STATE_READY), ==,
      GST_STATE_CHANGE_FAILURE);
  denoiser_assert_error (denoiser, GST_STREAM_ERROR,
      GST_STREAM_ERROR_WRONG_TYPE, "wide.safetensors");

  denoiser_set (denoiser, "loras", one, NULL);
  g_assert_cmpint (gst_element_set_state (element, GST_STATE_READY), ==,
      GST_STATE_CHANGE_SUCCESS);
  denoiser_set (denoiser, "loras", wide, NULL);
  g_assert_cmpint (gst_element_set_state (element, GST_STATE_PAUSED), ==,
      GST_STATE_CHANGE_FAILURE);
  denoiser_assert_error (denoiser, GST_STREAM_ERROR,
      GST_STREAM_ERROR_WRONG_TYPE, "wide.safetensors");
  denoiser_set (denoiser, "loras", one, NULL);
  g_assert_cmpint (gst_element_set_state (element, GST_STATE_PAUSED), ==,
      GST_STATE_CHANGE_SUCCESS);
}

/* What is left out of an adapter is said. */
static void
test_warning (void)
{
  static const gchar header[] =
      "{\"blocks.1.mlp.fc2.lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[1,80],"
      "\"data_offsets\":[0,320]},\"blocks.1.mlp.fc2.lora_B.weight\":{\"dtype\":"
      "\"F32\",\"shape\":[48,1],\"data_offsets\":[320,512]},"
      "\"blocks.1.mlp.fc2.dora_scale\":{\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":[512,516]}}";
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "dora.safetensors", NULL);
  g_autofree gchar *value = g_strdup_printf ("<\"%s\">", path);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  const guint64 length = GUINT64_TO_LE (sizeof header - 1);
  g_autoptr (Denoiser) denoiser = NULL;
  g_autoptr (GError) warning = NULL;
  GstMessage *message;

  g_byte_array_append (bytes, (const guint8 *) &length, 8);
  g_byte_array_append (bytes, (const guint8 *) header, sizeof header - 1);
  g_byte_array_set_size (bytes, bytes->len + 516);
  memset (bytes->data + bytes->len - 516, 0, 516);
  h3_test_write_file (path, bytes->data, bytes->len);
  denoiser = denoiser_new ("t2va", "loras", value, NULL);
  message = denoiser_wait (denoiser, GST_MESSAGE_WARNING, NULL);
  gst_message_parse_warning (message, &warning, NULL);
  g_assert_nonnull (strstr (warning->message, "DoRA"));
  g_assert_nonnull (strstr (warning->message, path));
  gst_message_unref (message);
  h3_test_remove_tree (dir);
}

/* A file's names reach the bus without what a terminal obeys. */
static void
test_escapes (void)
{
  static const gchar header[] =
      "{\"a\\u001b[31m.lora_A.weight\":"
      "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "a.safetensors", NULL);
  g_autofree gchar *value = g_strdup_printf ("<\"%s\">", path);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (Denoiser) denoiser = NULL;
  const guint64 length = GUINT64_TO_LE (strlen (header));
  const gfloat number = 0;

  g_byte_array_append (bytes, (const guint8 *) &length, sizeof length);
  g_byte_array_append (bytes, (const guint8 *) header, strlen (header));
  g_byte_array_append (bytes, (const guint8 *) &number, sizeof number);
  h3_test_write_file (path, bytes->data, bytes->len);
  denoiser = denoiser_new_stopped ("t2va", "loras", value, NULL);
  g_assert_cmpint (gst_element_set_state (denoiser->element, GST_STATE_READY),
      ==, GST_STATE_CHANGE_FAILURE);
  denoiser_assert_error (denoiser, GST_STREAM_ERROR,
      GST_STREAM_ERROR_WRONG_TYPE, "a?[31m");
  h3_test_remove_tree (dir);
}

void
add_lora_tests (void)
{
  g_test_add_func ("/denoise/loras/clips", test_clips);
  g_test_add_func ("/denoise/loras/ready", test_ready);
  g_test_add_func ("/denoise/loras/residency", test_residency);
  g_test_add_func ("/denoise/loras/sharing", test_sharing);
  g_test_add_func ("/denoise/loras/errors", test_errors);
  g_test_add_func ("/denoise/loras/escapes", test_escapes);
  g_test_add_func ("/denoise/loras/warning", test_warning);
}
