/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3denoise's properties, lengths, presets, sharing. */
#include "denoise-test.h"

/* Every writable property takes a value in each state it says, and gives it
 * back. */
static void
set_and_get_all (GstElement *element, gboolean playing)
{
  static const struct {
    const gchar *name, *value;
    gboolean ready_only;
  } cases[] = {
    { "model-path", "/nowhere", TRUE },
    { "backend", "cpu", TRUE },
    { "cuda-device-id", "2", TRUE },
    { "residency", "process", TRUE },
    { "memory-budget", "123456789", TRUE },
    { "preload", "none", TRUE },
    { "seed", "17", FALSE },
    { "steps", "7", FALSE },
    { "shift-video", "6.5", FALSE },
    { "shift-audio", "2", FALSE },
    { "schedule", "beta", FALSE },
    { "sigmas", "1, 0", FALSE },
    { "sigmas-audio", "1, 0", FALSE },
    { "solver", "res-multistep", FALSE },
    { "noise-mode", "comfy", FALSE },
    { "frames", "39", FALSE },
    { "duration", "5000000000", FALSE },
    { "width", "64", FALSE },
    { "height", "64", FALSE },
    { "aspect-ratio", "4/3", FALSE },
    { "strict", "true", FALSE },
    { "max-queued-jobs", "3", FALSE },
    { "tag-prompt", "false", FALSE },
    { "timestamps", "live", FALSE },
    { "lead", "42", FALSE },
    { "loras", "<a.safetensors, /b/c.safetensors:0.8>", TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    GParamSpec *spec =
        g_object_class_find_property (G_OBJECT_GET_CLASS (element),
            cases[i].name);
    GValue value = G_VALUE_INIT;
    GValue want = G_VALUE_INIT;

    g_assert_nonnull (spec);
    g_assert_cmpint ((spec->flags & GST_PARAM_MUTABLE_PLAYING) != 0, ==,
        !cases[i].ready_only);
    if (playing && cases[i].ready_only)
      continue;
    gst_util_set_object_arg (G_OBJECT (element), cases[i].name, cases[i].value);
    g_value_init (&value, spec->value_type);
    g_value_init (&want, spec->value_type);
    g_object_get_property (G_OBJECT (element), cases[i].name, &value);
    g_assert_true (gst_value_deserialize (&want, cases[i].value));
    if (gst_value_compare (&value, &want) != GST_VALUE_EQUAL)
      g_error ("%s does not give back %s", cases[i].name, cases[i].value);
    g_value_unset (&value);
    g_value_unset (&want);
  }
}

static void
test_properties (void)
{
  GstElement *element = gst_element_factory_make ("h3denoise", NULL);
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);

  set_and_get_all (element, FALSE);
  gst_object_unref (element);
  set_and_get_all (denoiser->element, TRUE);
}

/* Defaults are what the param specs say. */
static void
test_defaults (void)
{
  GstElement *element = gst_element_factory_make ("h3denoise", NULL);
  guint n;
  GParamSpec **specs =
      g_object_class_list_properties (G_OBJECT_GET_CLASS (element), &n);

  for (guint i = 0; i < n; i++) {
    GValue value = G_VALUE_INIT;

    if (specs[i]->owner_type != G_OBJECT_TYPE (element) ||
        g_str_equal (specs[i]->name, "stats"))
      continue;
    g_value_init (&value, specs[i]->value_type);
    g_object_get_property (G_OBJECT (element), specs[i]->name, &value);
    if (!g_param_value_defaults (specs[i], &value))
      g_error ("%s does not begin with its default", specs[i]->name);
    g_assert_true (g_str_has_suffix (g_param_spec_get_blurb (specs[i]), "."));
    g_value_unset (&value);
  }
  g_free (specs);
  gst_object_unref (element);
}

/* A change while a clip is made is for the next one. */
static void
test_snapshot (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", "steps", "60", NULL);
  GstBuffer *video, *audio;

  denoiser_push (denoiser);
  denoiser_wait_running (denoiser);
  denoiser_set (denoiser, "frames", "39", "width", "64", "height", "96",
      "steps", "4", NULL);
  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, &video, &audio));
  g_assert_cmpuint (GST_BUFFER_OFFSET_END (video), ==, 22);
  gst_buffer_unref (video);
  gst_buffer_unref (audio);
  g_bytes_unref (denoiser_pull (denoiser, &video, &audio));
  g_assert_cmpuint (GST_BUFFER_OFFSET (video), ==, 22);
  g_assert_cmpuint (GST_BUFFER_OFFSET_END (video), ==, 22 + 39);
  g_assert_cmpuint (gst_buffer_get_size (video), ==, 4 * 12 * 6 * 4 * 4);
  gst_buffer_unref (video);
  gst_buffer_unref (audio);
}

static void
check_length (const gchar *property, const gchar *asked, guint requested,
    guint frames)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", "width", "32", "height",
      "32", "steps", "1000", "frames", "0", property, asked, NULL);
  GstMessage *message;
  const GstStructure *s;
  guint value;

  denoiser_push (denoiser);
  message = denoiser_wait (denoiser, GST_MESSAGE_ELEMENT, "h3-job");
  s = gst_message_get_structure (message);
  g_assert_true (gst_structure_get_uint (s, "requested-frames", &value));
  g_assert_cmpuint (value, ==, requested);
  g_assert_true (gst_structure_get_uint (s, "frames", &value));
  g_assert_cmpuint (value, ==, frames);
  gst_message_unref (message);
  if (requested != frames) {
    g_autofree gchar *number = g_strdup_printf ("has %u", frames);
    GError *error;

    message = denoiser_wait (denoiser, GST_MESSAGE_INFO, NULL);
    gst_message_parse_info (message, &error, NULL);
    g_assert_nonnull (strstr (error->message, number));
    g_error_free (error);
    gst_message_unref (message);
  }
  if (frames < 107) {
    message = denoiser_wait (denoiser, GST_MESSAGE_WARNING, NULL);
    gst_message_unref (message);
  }
}

static void
test_lengths (void)
{
  check_length ("frames", "22", 22, 22);
  check_length ("frames", "96", 96, 107);
  check_length ("frames", "120", 120, 124);
  check_length ("frames", "124", 124, 124);
  check_length ("duration", "5000000000", 120, 124);
  check_length ("duration", "6000000000", 144, 158);
  check_length ("duration", "10000000000", 240, 243);
  check_length ("duration", "15000000000", 360, 362);
  check_length ("duration", "0", 124, 124);
}

/* Schedules, solvers and noise reach the model: each gives another clip. */
static void
test_sampling (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  static const gchar *const changes[][4] = {
    { "solver", "res-multistep", "solver", "euler" },
    { "schedule", "beta", "schedule", "uniform" },
    { "noise-mode", "comfy", "noise-mode", "diffusers" },
    { "shift-video", "6", "shift-video", "0" },
    { "shift-audio", "2", "shift-audio", "0" },
  };
  GBytes *plain, *clip;

  denoiser_push (denoiser);
  plain = denoiser_pull (denoiser, NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (changes); i++) {
    denoiser_set (denoiser, changes[i][0], changes[i][1], NULL);
    denoiser_push (denoiser);
    clip = denoiser_pull (denoiser, NULL, NULL);
    if (g_bytes_equal (clip, plain))
      g_error ("%s changes nothing", changes[i][0]);
    g_bytes_unref (clip);
    denoiser_set (denoiser, changes[i][2], changes[i][3], NULL);
  }

  /* the uniform schedule, given as a list */
  denoiser_set (denoiser, "schedule", "explicit", "sigmas",
      "1, 0.972972989, 0.923076928, 0.800000012, 0", "sigmas-audio",
      "1, 0.899999976, 0.75, 0.5, 0", NULL);
  denoiser_push (denoiser);
  clip = denoiser_pull (denoiser, NULL, NULL);
  h3_test_assert_close ((const gfloat *) g_bytes_get_data (clip, NULL),
      (const gfloat *) g_bytes_get_data (plain, NULL),
      g_bytes_get_size (plain) / sizeof (gfloat), 1e-5);
  g_bytes_unref (clip);
  g_bytes_unref (plain);
}

/* denoiser.md 8.3 */
static void
check_turbo (GstElement *element, const gchar *name, guint want_steps,
    gdouble want_video)
{
  gdouble video, audio;
  guint steps;
  gint schedule, solver;

  g_assert_true (gst_preset_load_preset (GST_PRESET (element), name));
  g_object_get (element, "steps", &steps, "shift-video", &video, "shift-audio",
      &audio, "schedule", &schedule, "solver", &solver, NULL);
  g_assert_cmpuint (steps, ==, want_steps);
  g_assert_cmpfloat (video, ==, want_video);
  g_assert_cmpfloat (audio, ==, 3);
  g_assert_cmpint (schedule, ==, 0); /* uniform */
  g_assert_cmpint (solver, ==, 0);   /* euler */
}

static void
test_presets (void)
{
  GstElement *element = gst_element_factory_make ("h3denoise", NULL);
  guint steps;

  g_assert_true (gst_preset_load_preset (GST_PRESET (element), "draft"));
  g_object_get (element, "steps", &steps, NULL);
  g_assert_cmpuint (steps, ==, 8);
  g_assert_true (gst_preset_load_preset (GST_PRESET (element), "quality"));
  g_object_get (element, "steps", &steps, NULL);
  g_assert_cmpuint (steps, ==, 49);
  check_turbo (element, "turbo-4", 4, 12);
  check_turbo (element, "turbo-4-768p", 4, 6);
  check_turbo (element, "turbo-8", 8, 12);
  gst_object_unref (element);
}

static guint
count_loads (Denoiser *denoiser)
{
  GstMessage *message;
  guint n = 0;

  while (
      (message = gst_bus_pop_filtered (denoiser->bus, GST_MESSAGE_PROGRESS))) {
    GstProgressType type;
    g_autofree gchar *code = NULL;

    gst_message_parse_progress (message, &type, &code, NULL);
    n += type == GST_PROGRESS_TYPE_START && g_str_equal (code, "h3-load");
    gst_message_unref (message);
  }
  return n;
}

static void
make_clip (Denoiser *denoiser)
{
  denoiser_push (denoiser);
  g_bytes_unref (denoiser_pull (denoiser, NULL, NULL));
}

/* Two elements, one model, loaded once. */
static void
test_shared (void)
{
  g_autoptr (Denoiser) first = denoiser_new ("t2va", NULL);
  g_autoptr (Denoiser) second = denoiser_new ("t2va", NULL);

  make_clip (first);
  make_clip (second);
  g_assert_cmpuint (element_stat (first->element, "model-loads"), ==, 1);
  g_assert_cmpuint (element_stat (second->element, "model-loads"), ==, 1);
  g_assert_cmpuint (count_loads (first) + count_loads (second), ==, 1);
}

static gpointer
make_clip_in_thread (gpointer data)
{
  make_clip (data);
  return NULL;
}

/* Both at once take turns on the device. */
static void
test_two_at_once (void)
{
  g_autoptr (Denoiser) first = denoiser_new ("t2va", NULL);
  g_autoptr (Denoiser) second = denoiser_new ("t2va", NULL);
  GThread *thread = g_thread_new ("first", make_clip_in_thread, first);

  make_clip (second);
  g_thread_join (thread);
}

static void
test_residency (void)
{
  g_autoptr (Denoiser) denoiser =
      denoiser_new ("t2va", "residency", "process", NULL);
  gboolean unloaded;

  make_clip (denoiser);
  g_assert_cmpuint (count_loads (denoiser), ==, 1);
  gst_element_set_state (denoiser->element, GST_STATE_NULL);
  gst_element_set_state (denoiser->element, GST_STATE_PLAYING);
  denoiser_send_header (denoiser);
  make_clip (denoiser);
  g_assert_cmpuint (count_loads (denoiser), ==, 0); /* it stayed */

  /* not while it is in use */
  g_signal_emit_by_name (denoiser->element, "unload", &unloaded);
  g_assert_false (unloaded);
  gst_element_set_state (denoiser->element, GST_STATE_READY);
  g_signal_emit_by_name (denoiser->element, "unload", &unloaded);
  g_assert_true (unloaded);
  denoiser_set (denoiser, "residency", "pipeline", NULL);
  gst_element_set_state (denoiser->element, GST_STATE_PLAYING);
  denoiser_send_header (denoiser);
  make_clip (denoiser);
  g_assert_cmpuint (count_loads (denoiser), ==, 1);
}

static void
check_preload (const gchar *preload, GstState state, gboolean loads)
{
  g_autoptr (Denoiser) denoiser =
      denoiser_new_stopped ("t2va", "preload", preload, NULL);
  gint64 deadline = g_get_monotonic_time () +
                    (loads ? 10 : 1) * G_USEC_PER_SEC / (loads ? 1 : 5);

  gst_element_set_state (denoiser->element, state);
  while (element_stat (denoiser->element, "model-loads") == 0 &&
         g_get_monotonic_time () < deadline)
    g_usleep (1000);
  g_assert_cmpuint (element_stat (denoiser->element, "model-loads"), ==, loads);
}

static void
test_preload (void)
{
  check_preload ("ready", GST_STATE_READY, TRUE);
  check_preload ("paused", GST_STATE_READY, FALSE);
  check_preload ("paused", GST_STATE_PAUSED, TRUE);
  check_preload ("none", GST_STATE_PLAYING, FALSE);
}

/* A message says which checkpoint and device it is. */
static void
test_model_message (void)
{
  g_autoptr (Denoiser) denoiser = denoiser_new ("t2va", NULL);
  GstMessage *message =
      denoiser_wait (denoiser, GST_MESSAGE_ELEMENT, "h3-model");
  const GstStructure *s = gst_message_get_structure (message);
  gboolean demo;

  g_assert_cmpstr (gst_structure_get_string (s, "model-path"), ==,
      h3_test_tiny_dir ());
  g_assert_true (gst_structure_get_boolean (s, "demo", &demo));
  g_assert_false (demo);
  g_assert_true (g_str_has_prefix (gst_structure_get_string (s, "device"),
      h3_test_backend ()));
  gst_message_unref (message);
}

/* Nobody names a checkpoint, or somebody names the demo: the demo, said on the
 * bus, at its own size. */
static void
test_demo (gconstpointer path)
{
  GstElement *element = gst_element_factory_make ("h3denoise", NULL);
  GstBus *bus = gst_bus_new ();
  GstMessage *message;
  gboolean demo;
  gint width;
  GstPad *pad = gst_element_get_static_pad (element, "video");
  GstCaps *caps;

  g_object_set (element, "model-path", path, NULL);
  gst_element_set_bus (element, bus);
  g_assert_cmpint (gst_element_set_state (element, GST_STATE_READY), ==,
      GST_STATE_CHANGE_SUCCESS);
  message = gst_bus_pop_filtered (bus, GST_MESSAGE_ELEMENT);
  g_assert_nonnull (message);
  g_assert_true (gst_structure_get_boolean (gst_message_get_structure (message),
      "demo", &demo));
  g_assert_true (demo);
  gst_message_unref (message);
  caps = gst_pad_query_caps (pad, NULL);
  g_assert_true (gst_structure_get_int (gst_caps_get_structure (caps, 0),
      "width", &width));
  g_assert_cmpint (width, ==, 6);
  gst_caps_unref (caps);
  gst_element_set_state (element, GST_STATE_NULL);
  gst_element_set_bus (element, NULL);
  gst_object_unref (bus);
  gst_object_unref (pad);
  gst_object_unref (element);
}

void
add_setting_tests (void)
{
  g_test_add_func ("/denoise/settings/properties", test_properties);
  g_test_add_func ("/denoise/settings/defaults", test_defaults);
  g_test_add_func ("/denoise/settings/snapshot", test_snapshot);
  g_test_add_func ("/denoise/settings/lengths", test_lengths);
  g_test_add_func ("/denoise/settings/sampling", test_sampling);
  g_test_add_func ("/denoise/settings/presets", test_presets);
  g_test_add_func ("/denoise/settings/shared", test_shared);
  g_test_add_func ("/denoise/settings/two-at-once", test_two_at_once);
  g_test_add_func ("/denoise/settings/residency", test_residency);
  g_test_add_func ("/denoise/settings/preload", test_preload);
  g_test_add_func ("/denoise/settings/model-message", test_model_message);
  g_test_add_data_func ("/denoise/settings/demo", NULL, test_demo);
  g_test_add_data_func ("/denoise/settings/demo-named", h3_test_demo_dir (),
      test_demo);
}
