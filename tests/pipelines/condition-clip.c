/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "condition-clip.h"

#include <unistd.h>

#define TIMEOUT (60 * GST_SECOND)

/* --- files --- */

static gchar *
full_path (const gchar *name)
{
  return g_path_is_absolute (name) || strstr (name, "://") ? g_strdup (name)
                                                           : test_path (name);
}

gchar *
golden_picture (const gchar *name)
{
  g_autofree gchar *file =
      g_build_filename ("tiny", "golden", "media", name, NULL);

  return h3_test_golden_path (file);
}

void
write_file (const gchar *name, gconstpointer bytes, gsize n)
{
  g_autofree gchar *path = test_path (name);

  h3_test_write_file (path, bytes, n);
}

/* What stands still, for who has only the test's output. */
static void
tell_states (GstElement *pipeline)
{
  g_autoptr (GstIterator) all = gst_bin_iterate_recurse (GST_BIN (pipeline));
  GValue item = G_VALUE_INIT;

  while (gst_iterator_next (all, &item) == GST_ITERATOR_OK) {
    GstElement *element = g_value_get_object (&item);
    g_autofree gchar *path = gst_object_get_path_string (GST_OBJECT (element));

    g_test_message ("%s: %s", path,
        gst_element_state_get_name (GST_STATE (element)));
    for (GList *l = element->pads; l; l = l->next)
      g_test_message ("  %s: %s%s%s", GST_PAD_NAME (l->data),
          gst_flow_get_name (gst_pad_get_last_flow_return (l->data)),
          GST_PAD_IS_EOS (l->data) ? ", EOS" : "",
          GST_PAD_IS_BLOCKING (l->data) ? ", held" : "");
    g_value_reset (&item);
  }
}

/* To EOS or an error, which is returned. */
static GError *
wait_for_end (GstElement *pipeline)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (bus, TIMEOUT,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  GError *error = NULL;

  if (!message) {
    tell_states (pipeline);
    g_error ("neither EOS nor an error in a minute");
  }
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    gst_message_parse_error (message, &error, NULL);
  return error;
}

void
make_file (const gchar *format, ...)
{
  va_list args;
  g_autofree gchar *text = NULL;
  g_autoptr (GstElement) pipeline = NULL;
  g_autoptr (GError) error = NULL;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  pipeline = gst_parse_launch (text, &error);
  if (!error) {
    gst_element_set_state (pipeline, GST_STATE_PLAYING);
    error = wait_for_end (pipeline);
    gst_element_set_state (pipeline, GST_STATE_NULL);
  }
  if (error)
    g_error ("%s: %s", text, error->message);
}

/* --- clips --- */

static GstPadProbeReturn
keep (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  Clip *clip = data;
  guint kind = gst_pad_get_direction (pad) == GST_PAD_SINK ? 2
               : g_str_equal (GST_PAD_NAME (pad), "audio") ? 1
                                                           : 0;
  GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER (info);
  GstMapInfo map;

  g_assert_true (gst_buffer_map (buffer, &map, GST_MAP_READ));
  g_mutex_lock (&clip->lock);
  g_byte_array_append (clip->latents[kind], map.data, map.size);
  g_mutex_unlock (&clip->lock);
  gst_buffer_unmap (buffer, &map);
  return GST_PAD_PROBE_OK;
}

static void
keep_from (GstElement *denoise, GstPad *pad, gpointer clip)
{
  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, keep, clip, NULL);
}

Clip *
clip_new (const gchar *settings)
{
  Clip *clip = g_new0 (Clip, 1);
  g_autofree gchar *launch = g_strdup_printf (
      "h3src name=h3 prompt=x width=96 height=64 frames=22 steps=1 seed=1 "
      "canvas-edge=64 reference-edge=64 model-path=%s %s "
      "h3.video ! fakesink sync=false h3.audio ! fakesink sync=false",
      h3_test_tiny_dir (), settings);
  g_autoptr (GError) error = NULL;
  g_autoptr (GstElement) denoise = NULL;

  clip->pipeline = gst_parse_launch (launch, &error);
  g_assert_no_error (error);
  clip->h3 = gst_bin_get_by_name (GST_BIN (clip->pipeline), "h3");
  denoise = gst_bin_get_by_name (GST_BIN (clip->pipeline), "denoise");
  for (guint i = 0; i < G_N_ELEMENTS (clip->latents); i++)
    clip->latents[i] = g_byte_array_new ();
  g_mutex_init (&clip->lock);
  for (GList *l = denoise->srcpads; l; l = l->next)
    keep_from (denoise, l->data, clip);
  g_signal_connect (denoise, "pad-added", G_CALLBACK (keep_from), clip);
  return clip;
}

void
clip_free (Clip *clip)
{
  gst_element_set_state (clip->pipeline, GST_STATE_NULL);
  gst_object_unref (clip->h3);
  gst_object_unref (clip->pipeline);
  for (guint i = 0; i < G_N_ELEMENTS (clip->latents); i++)
    g_byte_array_unref (clip->latents[i]);
  g_mutex_clear (&clip->lock);
  g_free (clip);
}

void
clip_set_file (Clip *clip, const gchar *property, const gchar *name)
{
  g_autofree gchar *path = name ? full_path (name) : NULL;

  if (g_str_equal (property, "references"))
    clip_set_references (clip, name, NULL);
  else
    g_object_set (clip->h3, property, path, NULL);
}

void
clip_set_references (Clip *clip, ...)
{
  va_list args;
  const gchar *name;
  GValue array = G_VALUE_INIT;

  gst_value_array_init (&array, 0);
  va_start (args, clip);
  while ((name = va_arg (args, const gchar *))) {
    GValue value = G_VALUE_INIT;

    g_value_init (&value, G_TYPE_STRING);
    g_value_take_string (&value, full_path (name));
    gst_value_array_append_and_take_value (&array, &value);
  }
  va_end (args);
  g_object_set_property (G_OBJECT (clip->h3), "references", &array);
  g_value_unset (&array);
}

GError *
clip_wait (Clip *clip)
{
  return wait_for_end (clip->pipeline);
}

GError *
clip_try (Clip *clip)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (clip->pipeline);

  /* what an earlier failure had to say */
  gst_bus_set_flushing (bus, TRUE);
  gst_bus_set_flushing (bus, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (clip->latents); i++)
    g_byte_array_set_size (clip->latents[i], 0);
  gst_element_set_state (clip->pipeline, GST_STATE_PLAYING);
  return clip_wait (clip);
}

void
clip_stop (Clip *clip)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (clip->pipeline);
  g_autoptr (GstMessage) message = NULL;

  /* NULL would empty the bus. After a failure on the way to PAUSED a pipeline
   * calls this one, too. */
  gst_element_set_state (clip->pipeline, GST_STATE_READY);
  message = gst_bus_pop_filtered (bus, GST_MESSAGE_ERROR);
  if (message)
    g_error ("another error: %s",
        gst_structure_to_string (gst_message_get_structure (message)));
}

void
clip_run (Clip *clip)
{
  g_autoptr (GError) error = clip_try (clip);

  g_assert_no_error (error);
  g_assert_cmpuint (clip->latents[0]->len, >, 0);
  g_assert_cmpuint (clip->latents[1]->len, >, 0);
}

static Clip *
clip_of (const gchar *property, const gchar *name)
{
  Clip *clip = clip_new ("");

  clip_set_file (clip, property, name);
  clip_run (clip);
  return clip;
}

void
check_same_clips (const gchar *where, const gchar *property, const gchar *a,
    const gchar *b, gdouble tolerance)
{
  static const gchar *const kinds[] = { "picture", "sound", "input" };
  g_autoptr (Clip) x = clip_of (property, a);
  g_autoptr (Clip) y = clip_of (property, b);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    gdouble error;

    g_assert_cmpuint (x->latents[i]->len, ==, y->latents[i]->len);
    error = h3_test_rel_l2 ((const gfloat *) x->latents[i]->data,
        (const gfloat *) y->latents[i]->data,
        x->latents[i]->len / sizeof (gfloat));
    g_test_message ("%s: %s and %s: %s differs by %g", where, a, b, kinds[i],
        error);
    if (!(error <= tolerance))
      g_test_fail ();
  }
}
