/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-adapters.h"

#include "model/parking.h"

#define N_TOKENS 9

gchar *
h3_test_adapter (const gchar *name)
{
  g_autofree gchar *file = g_strconcat (name, ".safetensors", NULL);

  return g_build_filename (g_getenv ("H3_ADAPTERS_DIR"), file, NULL);
}

gchar *
h3_test_quantised (const gchar *form)
{
  return g_build_filename (g_getenv ("H3_QUANTISED_DIR"), form, NULL);
}

/* Files */

void
h3_test_file_init (H3TestFile *file)
{
  file->names = g_ptr_array_new_with_free_func (g_free);
  file->values = g_ptr_array_new_with_free_func (g_free);
  file->shapes = g_array_new (FALSE, FALSE, 2 * sizeof (gint64));
  file->metadata = NULL;
  file->fp8 = NULL;
}

void
h3_test_file_clear (H3TestFile *file)
{
  g_ptr_array_unref (file->names);
  g_ptr_array_unref (file->values);
  g_array_unref (file->shapes);
  g_free (file->metadata);
}

void
h3_test_file_add (H3TestFile *file, const gchar *name, gint64 rows, gint64 cols,
    gfloat *values)
{
  const gint64 shape[] = { rows, cols };

  g_ptr_array_add (file->names, g_strdup (name));
  g_ptr_array_add (file->values, values);
  g_array_append_vals (file->shapes, shape, 1);
}

void
h3_test_file_read (H3TestFile *file, const gchar *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (path, &error);
  const GPtrArray *names;

  g_assert_no_error (error);
  names = h3_tensor_set_names (set);
  for (guint i = 0; i < names->len; i++) {
    const H3StoredTensor *t = h3_tensor_set_get (set, names->pdata[i], &error);

    g_assert_no_error (error);
    h3_test_file_add (file, names->pdata[i], t->rank ? t->shape[0] : 1,
        t->rank == 2 ? t->shape[1] : 0, h3_test_stored_floats (t));
  }
}

gfloat *
h3_test_file_find (const H3TestFile *file, const gchar *name, gint64 *rows,
    gint64 *cols)
{
  for (guint i = 0; i < file->names->len; i++) {
    const gint64 *shape = (const gint64 *) file->shapes->data + 2 * i;

    if (!g_str_equal (file->names->pdata[i], name))
      continue;
    *rows = shape[0];
    *cols = shape[1];
    return file->values->pdata[i];
  }
  g_error ("there is no %s", name);
}

static gboolean
is_fp8 (const H3TestFile *file, guint i)
{
  return file->fp8 && g_str_equal (file->names->pdata[i], file->fp8);
}

/* Of a tensor in the file. */
static gsize
bytes_of (const H3TestFile *file, guint i)
{
  const gint64 *shape = (const gint64 *) file->shapes->data + 2 * i;

  return shape[0] * MAX (shape[1], 1) * (is_fp8 (file, i) ? 1 : 4);
}

void
h3_test_file_write (const H3TestFile *file, const gchar *path)
{
  g_autoptr (GString) json = g_string_new ("{");
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  guint64 length;
  gsize begin = 0;

  if (file->metadata)
    g_string_append_printf (json, "\"__metadata__\":%s,", file->metadata);
  for (guint i = 0; i < file->names->len; i++) {
    const gint64 *shape = (const gint64 *) file->shapes->data + 2 * i;
    gsize end = begin + bytes_of (file, i);

    g_string_append_printf (json,
        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%" G_GINT64_FORMAT, i ? "," : "",
        (const gchar *) file->names->pdata[i],
        is_fp8 (file, i) ? "F8_E4M3" : "F32", shape[0]);
    if (shape[1])
      g_string_append_printf (json, ",%" G_GINT64_FORMAT, shape[1]);
    g_string_append_printf (json,
        "],\"data_offsets\":[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]}", begin,
        end);
    begin = end;
  }
  g_string_append_c (json, '}');
  length = GUINT64_TO_LE (json->len);
  g_byte_array_append (bytes, (const guint8 *) &length, 8);
  g_byte_array_append (bytes, (const guint8 *) json->str, json->len);
  for (guint i = 0; i < file->names->len; i++) {
    gsize n = bytes_of (file, i), at = bytes->len;

    g_byte_array_set_size (bytes, at + n);
    if (is_fp8 (file, i))
      memset (bytes->data + at, 0x38, n);
    else
      memcpy (bytes->data + at, file->values->pdata[i], n);
  }
  h3_test_write_file (path, bytes->data, bytes->len);
}

/* The transformer */

void
h3_test_setup_init (H3TestSetup *s, const gchar *path, H3QkvOrder order,
    const H3AdapterChoice *choices, guint n)
{
  g_autoptr (GError) error = NULL;

  s->device = h3_test_device_new (2);
  s->stream = h3_stream_new (s->device, &error);
  g_assert_no_error (error);
  s->checkpoint = h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error);
  g_assert_no_error (error);
  if (order != H3_QKV_AUTO)
    h3_checkpoint_set_qkv_order (s->checkpoint, order);
  h3_checkpoint_set_adapters (s->checkpoint, choices, n);
}

void
h3_test_setup_clear (H3TestSetup *s)
{
  h3_checkpoint_free (s->checkpoint);
  h3_stream_free (s->stream);
  h3_device_unref (s->device);
}

/* All of a model's memory was planned, and comes back from the host. */
static void
check_list (H3Transformer *transformer, guint64 planned)
{
  g_autoptr (H3Parking) parking =
      h3_parking_new (h3_transformer_tensors (transformer));
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (h3_parking_bytes (parking), ==, planned);
  g_assert_true (h3_parking_park (parking, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (h3_parking_unpark (parking, NULL, &error));
  g_assert_no_error (error);
}

static H3Tensor *
make_prompt (H3Device *device, gint64 width)
{
  g_autofree gfloat *values = g_new (gfloat, N_TOKENS * width);
  g_autoptr (GError) error = NULL;
  H3Tensor *prompt;

  for (gint64 i = 0; i < N_TOKENS * width; i++)
    values[i] = (i * 37 % 101 - 50) / 60.0f;
  prompt = h3_tensor_new_from_host (device, H3_DTYPE_F32, 2,
      (gint64[]){ N_TOKENS, width }, values, &error);
  g_assert_no_error (error);
  return prompt;
}

gfloat *
h3_test_latents (const gchar *path, H3QkvOrder order,
    const H3AdapterChoice *choices, guint n_choices, gsize *n, guint64 *weights)
{
  g_auto (H3TestSetup) s = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Schedule) schedule =
      h3_schedule_new (H3_SCHEDULE_UNIFORM, 2, 12, 3, NULL, NULL, 0, &error);
  g_autoptr (H3Transformer) transformer = NULL;
  g_autoptr (H3Tensor) prompt = NULL;
  g_autoptr (H3Tensor) video = NULL;
  g_autoptr (H3Tensor) audio = NULL;
  g_autofree gfloat *heard = NULL;
  H3DenoiseRequest request = { .seed = 5,
    .schedule = schedule,
    .shift_v = 12,
    .shift_a = 3 };
  H3TransformerConfig config;
  guint64 planned;
  gfloat *values;
  gsize n_video, n_audio;

  g_assert_no_error (error);
  h3_test_setup_init (&s, path, order, choices, n_choices);
  h3_transformer_plan (s.checkpoint, s.device, &config, &planned, &error);
  g_assert_no_error (error);
  transformer =
      h3_transformer_load (s.checkpoint, s.device, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  check_list (transformer, planned);
  if (weights)
    *weights = planned;
  prompt = make_prompt (s.device, config.text_dim);
  h3_geometry_init (&request.geometry, 96, 64, 22, &error);
  g_assert_no_error (error);
  h3_denoise (transformer, s.stream, &request, prompt, NULL, NULL, NULL, NULL,
      NULL, NULL, &video, &audio, &error);
  g_assert_no_error (error);
  n_video = h3_tensor_size (video);
  n_audio = h3_tensor_size (audio);
  *n = n_video + n_audio;
  values = h3_test_to_host (s.stream, video);
  heard = h3_test_to_host (s.stream, audio);
  values = g_realloc (values, *n * sizeof (gfloat));
  memcpy (values + n_video, heard, n_audio * sizeof (gfloat));
  return values;
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  h3_test_add_layouts ();
  h3_test_add_merge ();
  h3_test_add_errors ();
  return g_test_run ();
}
