/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "denoise-test.h"

#define TIMEOUT (30 * GST_SECOND)

static void
set_properties (GstElement *element, va_list args)
{
  const gchar *name;

  while ((name = va_arg (args, const gchar *)))
    gst_util_set_object_arg (G_OBJECT (element), name,
        va_arg (args, const gchar *));
}

void
denoiser_set (Denoiser *denoiser, ...)
{
  va_list args;

  va_start (args, denoiser);
  set_properties (denoiser->element, args);
  va_end (args);
}

/* What the caps say of the golden prompt: its task by the file's name, what is
 * seen by its tags; the number of references is the test's to say. */
static void
read_info (GstH3EmbedsInfo *info, const gchar *request, const gchar *file)
{
  gint64 shape[H3_STORED_MAX_RANK];
  guint rank = h3_test_golden_shape (file, "prompt_embeds", shape);
  gsize n;
  g_autofree gint32 *tags = h3_test_golden_ints (file, "text_token_tags", &n);

  info->task = g_str_has_prefix (request, "ref2va")  ? "ref2va"
               : g_str_has_prefix (request, "fl2va") ? "fl2va"
                                                     : "t2va";
  info->type = GST_H3_TYPE_FLOAT32;
  info->tokens = shape[rank - 2];
  info->hidden = shape[rank - 1];
  for (gsize i = 0; i < n; i++) {
    if (tags[i] != 0)
      continue;
    if (i == 0 || tags[i - 1] != 0)
      info->vision[info->n_vision++].first = i;
    info->vision[info->n_vision - 1].n++;
  }
}

static Denoiser *
new_with_args (const gchar *request, va_list args)
{
  Denoiser *denoiser = g_new0 (Denoiser, 1);
  gchar *file = g_strdup_printf ("request_%s.safetensors", request);
  gsize n;

  denoiser->embeds = h3_test_golden (file, "prompt_embeds", &n);
  denoiser->embeds_bytes = n * sizeof (gfloat);
  read_info (&denoiser->info, request, file);
  g_free (file);

  denoiser->element = gst_element_factory_make ("h3denoise", NULL);
  g_assert_nonnull (denoiser->element);
  gst_object_ref_sink (denoiser->element);
  g_object_set (denoiser->element, "model-path", h3_test_tiny_dir (), "width",
      96, "height", 64, "frames", 22, "steps", 4, "seed", (gint64) 440204,
      NULL);
  set_properties (denoiser->element, args);
  denoiser->bus = gst_bus_new ();
  gst_element_set_bus (denoiser->element, denoiser->bus);
  return denoiser;
}

Denoiser *
denoiser_new_stopped (const gchar *request, ...)
{
  Denoiser *denoiser;
  va_list args;

  va_start (args, request);
  denoiser = new_with_args (request, args);
  va_end (args);
  return denoiser;
}

Denoiser *
denoiser_new (const gchar *request, ...)
{
  Denoiser *denoiser;
  va_list args;

  va_start (args, request);
  denoiser = new_with_args (request, args);
  va_end (args);
  denoiser_start (denoiser, TRUE);
  return denoiser;
}

void
denoiser_start (Denoiser *denoiser, gboolean audio)
{
  denoiser->video =
      gst_harness_new_with_element (denoiser->element, "sink", "video");
  if (audio) {
    denoiser->audio =
        gst_harness_new_with_element (denoiser->element, NULL, "audio");
  }
  gst_harness_play (denoiser->video);
  if (audio)
    gst_harness_play (denoiser->audio);
}

void
denoiser_free (Denoiser *denoiser)
{
  gst_element_set_state (denoiser->element, GST_STATE_NULL);
  if (denoiser->audio)
    gst_harness_teardown (denoiser->audio);
  if (denoiser->video)
    gst_harness_teardown (denoiser->video);
  gst_element_set_bus (denoiser->element, NULL);
  gst_bus_set_flushing (denoiser->bus, TRUE);
  gst_object_unref (denoiser->bus);
  gst_object_unref (denoiser->element);
  g_free (denoiser->embeds);
  g_free (denoiser);
}

void
denoiser_send_header (Denoiser *denoiser)
{
  gst_harness_set_src_caps (denoiser->video,
      gst_h3_embeds_info_to_caps (&denoiser->info, FALSE));
}

GstBuffer *
denoiser_embeds_buffer (Denoiser *denoiser)
{
  GstBuffer *buffer =
      gst_buffer_new_memdup (denoiser->embeds, denoiser->embeds_bytes);
  GstStructure *job = gst_structure_new ("job", "task", G_TYPE_STRING, "t2va",
      "tokens", G_TYPE_UINT, denoiser->info.tokens, "prompt", G_TYPE_STRING,
      "a dragon", "prompt-sha256", G_TYPE_STRING, "abcd", NULL);

  gst_h3_buffer_add_job (buffer, job);
  gst_structure_free (job);
  return buffer;
}

GstFlowReturn
denoiser_push (Denoiser *denoiser)
{
  GstEvent *caps =
      gst_pad_get_sticky_event (denoiser->video->srcpad, GST_EVENT_CAPS, 0);

  if (caps)
    gst_event_unref (caps);
  else
    denoiser_send_header (denoiser);
  return gst_harness_push (denoiser->video, denoiser_embeds_buffer (denoiser));
}

static void
append (GByteArray *array, GstBuffer *buffer)
{
  GstMapInfo map;

  g_assert_true (gst_buffer_map (buffer, &map, GST_MAP_READ));
  g_byte_array_append (array, map.data, map.size);
  gst_buffer_unmap (buffer, &map);
}

GBytes *
denoiser_pull (Denoiser *denoiser, GstBuffer **video, GstBuffer **audio)
{
  GByteArray *array = g_byte_array_new ();
  GstBuffer *buffer = gst_harness_pull (denoiser->video);

  g_assert_nonnull (buffer);
  append (array, buffer);
  if (video)
    *video = buffer;
  else
    gst_buffer_unref (buffer);
  if (denoiser->audio) {
    buffer = gst_harness_pull (denoiser->audio);
    g_assert_nonnull (buffer);
    append (array, buffer);
    if (audio)
      *audio = buffer;
    else
      gst_buffer_unref (buffer);
  }
  return g_byte_array_free_to_bytes (array);
}

GstMessage *
denoiser_wait (Denoiser *denoiser, GstMessageType type, const gchar *name)
{
  GstMessage *message;

  while ((message = gst_bus_timed_pop_filtered (denoiser->bus, TIMEOUT,
              type | GST_MESSAGE_ERROR))) {
    const GstStructure *s = gst_message_get_structure (message);

    if ((GST_MESSAGE_TYPE (message) & type) &&
        (!name || gst_structure_has_name (s, name)))
      return message;
    if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
      g_error ("an error instead of %s: %s",
          name ? name : gst_message_type_get_name (type),
          gst_structure_to_string (s));
    gst_message_unref (message);
  }
  g_error ("no message %s %s", gst_message_type_get_name (type),
      name ? name : "");
}

void
denoiser_drop_messages (Denoiser *denoiser)
{
  GstMessage *message;

  while ((message = gst_bus_pop (denoiser->bus)))
    gst_message_unref (message);
}

void
denoiser_wait_running (Denoiser *denoiser)
{
  for (;;) {
    GstMessage *message = denoiser_wait (denoiser, GST_MESSAGE_PROGRESS, NULL);
    GstProgressType type;
    gchar *code;
    gboolean running;

    gst_message_parse_progress (message, &type, &code, NULL);
    running =
        type == GST_PROGRESS_TYPE_START && g_str_equal (code, "h3-denoise");
    g_free (code);
    gst_message_unref (message);
    if (running)
      return;
  }
}

void
denoiser_check_error (const gchar *where, Denoiser *denoiser, GQuark domain,
    gint code, const gchar *text)
{
  GstMessage *message =
      gst_bus_timed_pop_filtered (denoiser->bus, TIMEOUT, GST_MESSAGE_ERROR);
  GError *error;
  gchar *debug;

  if (!message)
    g_error ("%s: no error message", where);
  gst_message_parse_error (message, &error, &debug);
  if (!g_error_matches (error, domain, code) || !strstr (error->message, text))
    g_error ("%s: error %s %d \"%s\" (%s) is not %s %d with \"%s\"", where,
        g_quark_to_string (error->domain), error->code, error->message, debug,
        g_quark_to_string (domain), code, text);
  g_error_free (error);
  g_free (debug);
  gst_message_unref (message);
  message = gst_bus_pop_filtered (denoiser->bus, GST_MESSAGE_ERROR);
  if (message)
    g_error ("%s: a second error message", where);
}

guint64
element_stat (GstElement *element, const gchar *field)
{
  GstStructure *stats;
  guint64 value = 0;
  guint small;

  g_object_get (element, "stats", &stats, NULL);
  if (!gst_structure_get_uint64 (stats, field, &value)) {
    g_assert_true (gst_structure_get_uint (stats, field, &small));
    value = small;
  }
  gst_structure_free (stats);
  return value;
}
