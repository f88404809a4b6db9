/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checkpoints damaged one way each, where a user meets them: h3src says which
 * element cannot go on, with the error's domain and code, the file and, where
 * there is one, the tensor; with the file whole again the same pipeline makes a
 * clip. */
#include <glib/gstdio.h>
#include <gst/gst.h>
#include <json-glib/json-glib.h>

#include "h3-test-device.h"

/* A file of weights and a tensor in it that is read. */
typedef struct {
  const gchar *element, *file, *tensor;
  gboolean sharded;
} Component;

static const Component components[] = {
  { "textenc", "text_encoder/model-00001-of-00002.safetensors",
      "model.language_model.layers.0.mlp.gate_proj.weight", TRUE },
  { "denoise", "transformer/model-00001-of-00003.safetensors",
      "blocks.0.adaln_proj.linear.weight", TRUE },
  { "videovae", "video_vae/source/model.safetensors",
      "decoder.transformer_blocks.0.ff.w1.weight", FALSE },
  { "audiovae", "audio_vae/model.safetensors", "decoder.conv_pre.weight_v",
      FALSE },
};

/* A safetensors file taken apart. */
typedef struct {
  JsonNode *root;
  JsonObject *header;
  GByteArray *payload;
} Parts;

static Parts *
parts_new (const gchar *path)
{
  Parts *parts = g_new0 (Parts, 1);
  g_autofree gchar *bytes = NULL;
  g_autofree gchar *text = NULL;
  g_autoptr (GError) error = NULL;
  guint64 length;
  gsize n;

  g_assert_true (g_file_get_contents (path, &bytes, &n, NULL));
  length = GST_READ_UINT64_LE (bytes);
  text = g_strndup (bytes + 8, length);
  parts->root = json_from_string (text, &error);
  g_assert_no_error (error);
  parts->header = json_node_get_object (parts->root);
  parts->payload = g_byte_array_new ();
  g_byte_array_append (parts->payload, (guint8 *) bytes + 8 + length,
      n - 8 - length);
  return parts;
}

static void
parts_free (Parts *parts)
{
  json_node_unref (parts->root);
  g_byte_array_unref (parts->payload);
  g_free (parts);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Parts, parts_free)

static void
parts_write (const Parts *parts, const gchar *path)
{
  g_autofree gchar *text = json_to_string (parts->root, FALSE);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  guint8 length[8];

  GST_WRITE_UINT64_LE (length, strlen (text));
  g_byte_array_append (bytes, length, sizeof length);
  g_byte_array_append (bytes, (guint8 *) text, strlen (text));
  g_byte_array_append (bytes, parts->payload->data, parts->payload->len);
  h3_test_write_file (path, bytes->data, bytes->len);
}

static JsonObject *
parts_tensor (const Parts *parts, const gchar *name)
{
  if (!json_object_has_member (parts->header, name))
    g_error ("no tensor %s", name);
  return json_object_get_object_member (parts->header, name);
}

static gint64
offset_of (JsonObject *tensor, guint end)
{
  return json_array_get_int_element (json_object_get_array_member (tensor,
                                         "data_offsets"),
      end);
}

/* Damages */

static void
make_missing (const Component *component, const gchar *path)
{
  g_assert_cmpint (g_remove (path), ==, 0);
}

static void
make_truncated (const Component *component, const gchar *path)
{
  h3_test_truncate_file (path, h3_test_file_size (path) - 8);
}

static void
make_huge_header (const Component *component, const gchar *path)
{
  guint8 length[8];

  GST_WRITE_UINT64_LE (length, G_GUINT64_CONSTANT (1) << 62);
  h3_test_patch_file (path, 0, length, sizeof length);
}

static void
move_tensor (const Component *component, const gchar *path, gint by)
{
  g_autoptr (Parts) parts = parts_new (path);
  JsonObject *tensor = parts_tensor (parts, component->tensor);
  JsonArray *moved = json_array_new ();

  json_array_add_int_element (moved, offset_of (tensor, 0) + by);
  json_array_add_int_element (moved, offset_of (tensor, 1) + by);
  json_object_set_array_member (tensor, "data_offsets", moved);
  parts_write (parts, path);
}

static void
make_overlapping (const Component *component, const gchar *path)
{
  move_tensor (component, path, -2);
}

static void
make_misaligned (const Component *component, const gchar *path)
{
  move_tensor (component, path, 1);
}

static void
make_wrong_shape (const Component *component, const gchar *path)
{
  g_autoptr (Parts) parts = parts_new (path);
  JsonObject *tensor = parts_tensor (parts, component->tensor);
  JsonArray *shape = json_object_get_array_member (tensor, "shape");
  JsonArray *wrong = json_array_new ();

  g_assert_cmpint (json_array_get_int_element (shape, 0), !=,
      json_array_get_int_element (shape, 1));
  for (guint i = 0; i < json_array_get_length (shape); i++)
    json_array_add_int_element (wrong,
        json_array_get_int_element (shape, i < 2 ? 1 - i : i));
  json_object_set_array_member (tensor, "shape", wrong);
  parts_write (parts, path);
}

static void
make_wrong_type (const Component *component, const gchar *path)
{
  g_autoptr (Parts) parts = parts_new (path);
  JsonObject *tensor = parts_tensor (parts, component->tensor);
  gboolean four =
      g_str_equal (json_object_get_string_member (tensor, "dtype"), "F32");

  json_object_set_string_member (tensor, "dtype", four ? "I32" : "I16");
  parts_write (parts, path);
}

/* The shard, or the file, has the tensor under another name. */
static void
make_lacking (const Component *component, const gchar *path)
{
  g_autoptr (Parts) parts = parts_new (path);
  g_autofree gchar *other = g_strconcat (component->tensor, ".old", NULL);

  json_object_set_object_member (parts->header, other,
      json_object_ref (parts_tensor (parts, component->tensor)));
  json_object_remove_member (parts->header, component->tensor);
  parts_write (parts, path);
}

static void
make_nan (const Component *component, const gchar *path)
{
  g_autoptr (Parts) parts = parts_new (path);
  JsonObject *tensor = parts_tensor (parts, component->tensor);
  gint64 at = offset_of (tensor, 0);

  /* a NaN as float32, and two as bfloat16 */
  GST_WRITE_UINT32_LE (parts->payload->data + at, 0x7fc07fc0);
  parts_write (parts, path);
}

typedef enum { ANY, SHARDED, SINGLE } Files;

typedef struct {
  const gchar *name;
  void (*make) (const Component *component, const gchar *path);
  Files files;
  GQuark (*domain) (void);
  gint code;
  const gchar *says;
  gboolean names_tensor;
} Damage;

static const Damage damages[] = {
  { "missing", make_missing, SHARDED, gst_resource_error_quark,
      GST_RESOURCE_ERROR_NOT_FOUND, "missing" },
  { "missing", make_missing, SINGLE, gst_resource_error_quark,
      GST_RESOURCE_ERROR_NOT_FOUND, "_vae" },
  { "truncated", make_truncated, ANY, gst_resource_error_quark,
      GST_RESOURCE_ERROR_READ, "truncated" },
  { "huge-header", make_huge_header, ANY, gst_stream_error_quark,
      GST_STREAM_ERROR_WRONG_TYPE, "header length" },
  { "overlapping", make_overlapping, ANY, gst_resource_error_quark,
      GST_RESOURCE_ERROR_READ, "overlaps", TRUE },
  { "misaligned", make_misaligned, ANY, gst_resource_error_quark,
      GST_RESOURCE_ERROR_READ, "hole before", TRUE },
  { "wrong-shape", make_wrong_shape, ANY, gst_stream_error_quark,
      GST_STREAM_ERROR_WRONG_TYPE, "shape", TRUE },
  { "wrong-dtype", make_wrong_type, ANY, gst_stream_error_quark,
      GST_STREAM_ERROR_WRONG_TYPE, "is not supported here", TRUE },
  { "lacking", make_lacking, SHARDED, gst_resource_error_quark,
      GST_RESOURCE_ERROR_READ, "does not contain it", TRUE },
  { "lacking", make_lacking, SINGLE, gst_stream_error_quark,
      GST_STREAM_ERROR_WRONG_TYPE, "missing", TRUE },
  { "nan", make_nan, ANY, gst_stream_error_quark, GST_STREAM_ERROR_FAILED,
      "NaN", TRUE },
};

/* Pipelines */

static GstMessage *
run (GstElement *pipeline)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  return gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
}

static void
assert_fails (GstElement *pipeline, const Component *component,
    const Damage *damage)
{
  g_autoptr (GstMessage) message = run (pipeline);
  g_autoptr (GstMessage) second = NULL;
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);
  g_autoptr (GError) error = NULL;

  g_assert_nonnull (message);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_ERROR);
  gst_message_parse_error (message, &error, NULL);
  g_test_message ("%s: %s", GST_OBJECT_NAME (GST_MESSAGE_SRC (message)),
      error->message);
  g_assert_cmpstr (GST_OBJECT_NAME (GST_MESSAGE_SRC (message)), ==,
      component->element);
  g_assert_error (error, damage->domain (), damage->code);
  g_assert_nonnull (strstr (error->message, damage->says));
  if (damage->names_tensor)
    g_assert_nonnull (strstr (error->message, component->tensor));
  /* said once */
  gst_element_set_state (pipeline, GST_STATE_NULL);
  second = gst_bus_pop_filtered (bus, GST_MESSAGE_ERROR);
  g_assert_null (second);
}

static void
assert_works (GstElement *pipeline)
{
  g_autoptr (GstMessage) message = run (pipeline);

  g_assert_nonnull (message);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  gst_element_set_state (pipeline, GST_STATE_NULL);
}

static void
test_component (gconstpointer data)
{
  const Component *component = data;
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *copy = g_build_filename (dir, "copy", NULL);
  g_autofree gchar *path =
      g_build_filename (copy, "FL2VA", component->file, NULL);
  g_autofree gchar *launch = g_strdup_printf (
      "h3src name=h3 prompt=fox model-path=%s width=32 height=32 frames=5 "
      "steps=1 h3.video ! fakesink sync=false h3.audio ! fakesink sync=false",
      copy);
  GstElement *pipeline = gst_parse_launch (launch, NULL);
  g_autofree gchar *whole = NULL;
  gsize size;

  g_assert_nonnull (pipeline);
  h3_test_copy_tree (h3_test_tiny_dir (), copy);
  g_assert_true (g_file_get_contents (path, &whole, &size, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (damages); i++) {
    if (damages[i].files == (component->sharded ? SINGLE : SHARDED))
      continue;
    g_test_message ("%s", damages[i].name);
    damages[i].make (component, path);
    assert_fails (pipeline, component, &damages[i]);
    h3_test_write_file (path, whole, size);
    assert_works (pipeline);
  }
  gst_object_unref (pipeline);
  h3_test_remove_tree (dir);
}

/* Headers of any length are read: here every tensor is at an odd address. */
static void
test_odd_addresses (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *copy = g_build_filename (dir, "copy", NULL);
  g_autofree gchar *launch = g_strdup_printf (
      "h3src name=h3 prompt=fox model-path=%s width=32 height=32 frames=5 "
      "steps=1 h3.video ! fakesink sync=false h3.audio ! fakesink sync=false",
      copy);
  GstElement *pipeline = gst_parse_launch (launch, NULL);

  h3_test_copy_tree (h3_test_tiny_dir (), copy);
  for (guint i = 0; i < G_N_ELEMENTS (components); i++) {
    g_autofree gchar *path =
        g_build_filename (copy, "FL2VA", components[i].file, NULL);
    g_autoptr (Parts) parts = parts_new (path);
    g_autofree gchar *text = json_to_string (parts->root, FALSE);
    JsonObject *metadata = json_object_new ();

    json_object_set_string_member (metadata, "x", "");
    json_object_set_object_member (parts->header, "__metadata__", metadata);
    g_free (text);
    text = json_to_string (parts->root, FALSE);
    if (strlen (text) % 2 == 0)
      json_object_set_string_member (metadata, "x", "x");
    parts_write (parts, path);
  }
  assert_works (pipeline);
  gst_object_unref (pipeline);
  h3_test_remove_tree (dir);
}

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  for (guint i = 0; i < G_N_ELEMENTS (components); i++) {
    g_autofree gchar *name =
        g_strconcat ("/checkpoint/", components[i].element, NULL);

    g_test_add_data_func (name, &components[i], test_component);
  }
  g_test_add_func ("/checkpoint/odd-addresses", test_odd_addresses);
  return g_test_run ();
}
