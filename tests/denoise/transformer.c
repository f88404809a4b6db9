/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The transformer on a device, and what the tests of it share. */
#include "test-denoise.h"

void
h3_test_device_init (H3TestDevice *device, guint threads)
{
  g_autoptr (GError) error = NULL;

  device->device = h3_test_device_new (threads);
  device->stream = h3_stream_new (device->device, &error);
  g_assert_no_error (error);
}

void
h3_test_device_clear (H3TestDevice *device)
{
  g_clear_pointer (&device->stream, h3_stream_free);
  g_clear_pointer (&device->device, h3_device_unref);
}

H3Transformer *
h3_test_load_partition (const gchar *path, H3Partition partition,
    H3Device *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, partition, &error);
  H3Transformer *transformer;

  g_assert_no_error (error);
  transformer =
      h3_transformer_load (checkpoint, device, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  return transformer;
}

H3Transformer *
h3_test_load (const gchar *path, H3Device *device)
{
  return h3_test_load_partition (path, H3_PARTITION_FL2VA, device);
}

H3Tensor *
h3_test_matrix (H3Device *device, const gfloat *values, gint64 rows,
    gint64 cols)
{
  g_autoptr (GError) error = NULL;
  const gint64 shape[] = { rows, cols };
  H3Tensor *tensor =
      h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, values, &error);

  g_assert_no_error (error);
  return tensor;
}

/* Of a name that comes in every step the last is kept. */
static void
keep (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  H3TestTaps *taps = user_data;
  g_autofree gfloat *values = h3_test_to_host (taps->stream, value);
  GArray *copy;

  copy = g_array_new (FALSE, FALSE, sizeof (gfloat));
  g_array_append_vals (copy, values, h3_tensor_size (value));
  g_hash_table_replace (taps->seen, g_strdup (name), copy);
}

void
h3_test_taps_init (H3TestTaps *taps, H3Stream *stream)
{
  taps->stream = stream;
  taps->tap.func = keep;
  taps->tap.user_data = taps;
  taps->seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
      (GDestroyNotify) g_array_unref);
}

void
h3_test_taps_clear (H3TestTaps *taps)
{
  g_clear_pointer (&taps->seen, g_hash_table_unref);
}

const gfloat *
h3_test_taps_get (const H3TestTaps *taps, const gchar *name, gsize n)
{
  const GArray *values = g_hash_table_lookup (taps->seen, name);

  if (!values)
    g_error ("nothing was shown as %s", name);
  g_assert_cmpuint (values->len, ==, n);
  return (const gfloat *) values->data;
}

static gboolean
stop_after (gpointer user_data)
{
  H3TestStop *stop = user_data;

  return stop->asked++ >= stop->after;
}

void
h3_test_stop_init (H3TestStop *stop, gint after)
{
  stop->stop.should_stop = stop_after;
  stop->stop.user_data = stop;
  stop->after = after;
  stop->asked = 0;
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  h3_test_add_transformer ();
  h3_test_add_adaln ();
  h3_test_add_curve ();
  h3_test_add_denoise ();
  h3_test_add_checkpoint_errors ();
  return g_test_run ();
}
