/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Caps to facts and back, the job meta, progress messages. */
#include <gst/gst.h>
#include <gst/h3/h3.h>

#include <string.h>

#define EMBEDS                                                                 \
  "application/x-h3-embeds, task=(string)t2va, "                               \
  "type=(string)float32, tokens=(int)9, hidden=(int)48"
#define VIDEO                                                                  \
  "application/x-h3-latent, modality=(string)video, "                          \
  "type=(string)float32, channels=(int)24, frames=(int)37, height=(int)48, "   \
  "width=(int)84, framerate=(fraction)24/1"
#define AUDIO                                                                  \
  "application/x-h3-latent, modality=(string)audio, "                          \
  "type=(string)float32, channels=(int)32, frames=(int)207, "                  \
  "audio-channels=(int)2, rate=(int)32000"

static void
test_embeds (void)
{
  GstCaps *caps = gst_caps_from_string (EMBEDS);
  GstCaps *back, *template = gst_caps_from_string (GST_H3_EMBEDS_CAPS);
  GstH3EmbedsInfo info;
  GError *error = NULL;

  g_assert_true (gst_h3_embeds_info_from_caps (&info, caps, &error));
  g_assert_no_error (error);
  g_assert_cmpint (info.tokens, ==, 9);
  g_assert_cmpint (info.hidden, ==, 48);
  g_assert_cmpuint (gst_h3_embeds_info_size (&info), ==, 9 * 48 * 4);
  back = gst_h3_embeds_info_to_caps (&info, FALSE);
  g_assert_true (gst_caps_is_equal (back, caps));
  g_assert_true (gst_caps_is_subset (back, template));
  gst_caps_unref (back);
  back = gst_h3_embeds_info_to_caps (&info, TRUE);
  g_assert_true (gst_caps_features_contains (gst_caps_get_features (back, 0),
      GST_CAPS_FEATURE_MEMORY_H3_DEVICE));
  g_assert_true (gst_caps_is_subset (back, template));
  g_assert_false (gst_caps_can_intersect (back, caps));
  gst_caps_unref (back);
  gst_caps_unref (template);
  gst_caps_unref (caps);
}

/* What was seen with the prompt, through caps and back. */
static void
test_vision (void)
{
  static const gchar text[] =
      "application/x-h3-embeds, task=(string)fl2va, type=(string)float32, "
      "tokens=(int)97, hidden=(int)48, references=(int)2, "
      "vision=(int)< 3, 10, 13, 84 >";
  GstCaps *caps = gst_caps_from_string (text);
  GstCaps *template = gst_caps_from_string (GST_H3_EMBEDS_CAPS);
  GstH3EmbedsInfo info;
  GstCaps *back;
  GError *error = NULL;

  g_assert_true (gst_h3_embeds_info_from_caps (&info, caps, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (info.task, ==, "fl2va");
  g_assert_cmpint (info.references, ==, 2);
  g_assert_cmpuint (info.n_vision, ==, 2);
  g_assert_cmpint (info.vision[0].first, ==, 3);
  g_assert_cmpint (info.vision[0].n, ==, 10);
  g_assert_cmpint (info.vision[1].first, ==, 13);
  g_assert_cmpint (info.vision[1].n, ==, 84);
  g_assert_true (gst_caps_is_subset (caps, template));
  back = gst_h3_embeds_info_to_caps (&info, FALSE);
  g_assert_true (gst_caps_is_equal (back, caps));
  gst_caps_unref (back);
  gst_caps_unref (template);
  gst_caps_unref (caps);
}

static void
check_latent (const gchar *string, const gchar *template_string,
    GstH3LatentInfo *info)
{
  GstCaps *caps = gst_caps_from_string (string);
  GstCaps *template = gst_caps_from_string (template_string);
  GError *error = NULL;

  g_assert_true (gst_h3_latent_info_from_caps (info, caps, &error));
  g_assert_no_error (error);
  for (gint device = 0; device < 2; device++) {
    GstCaps *back = gst_h3_latent_info_to_caps (info, device);
    GstH3LatentInfo again;

    g_assert_true (gst_caps_is_subset (back, template));
    g_assert_true (gst_h3_latent_info_from_caps (&again, back, NULL));
    g_assert_cmpmem (&again, sizeof again, info, sizeof *info);
    g_assert_true (gst_caps_is_equal (back, caps) == !device);
    gst_caps_unref (back);
  }
  gst_caps_unref (template);
  gst_caps_unref (caps);
}

static void
test_video (void)
{
  GstH3LatentInfo info;
  gint64 dim[GST_H3_MAX_RANK];

  check_latent (VIDEO, GST_H3_VIDEO_LATENT_CAPS, &info);
  g_assert_cmpuint (gst_h3_latent_info_shape (&info, dim), ==, 4);
  g_assert_cmpint (dim[0], ==, 24);
  g_assert_cmpint (dim[1], ==, 37);
  g_assert_cmpint (dim[2], ==, 48);
  g_assert_cmpint (dim[3], ==, 84);
  g_assert_cmpuint (gst_h3_latent_info_size (&info), ==, 24 * 37 * 48 * 84 * 4);
}

static void
test_audio (void)
{
  GstH3LatentInfo info;
  gint64 dim[GST_H3_MAX_RANK];

  check_latent (AUDIO, GST_H3_AUDIO_LATENT_CAPS, &info);
  g_assert_cmpuint (gst_h3_latent_info_shape (&info, dim), ==, 3);
  g_assert_cmpint (dim[0], ==, 2);
  g_assert_cmpint (dim[1], ==, 32);
  g_assert_cmpint (dim[2], ==, 207);
  g_assert_cmpuint (gst_h3_latent_info_size (&info), ==, 2 * 32 * 207 * 4);
}

/* Every bad field, and what the message must name. */
static void
test_bad (void)
{
  static const struct {
    const gchar *caps, *names;
  } cases[] = {
    { "video/x-raw", "video/x-raw" },
    { "ANY", "one structure" },
    { VIDEO "; " AUDIO, "one structure" },
    { "application/x-h3-latent", "modality" },
    { "application/x-h3-latent, modality=smell", "modality" },
    { "application/x-h3-latent, modality=video", "type" },
    { "application/x-h3-latent, modality=video, type=float64", "float64" },
    { "application/x-h3-latent, modality=video, type=bfloat16", "bfloat16" },
    { "application/x-h3-latent, modality=video, type=float32", "channels" },
    { "application/x-h3-latent, modality=video, type=float32, channels=0",
        "channels" },
    { "application/x-h3-latent, modality=video, type=float32, channels=129",
        "129" },
    { "application/x-h3-latent, modality=video, type=float32, channels=24, "
      "frames=[1,2]",
        "frames" },
    { "application/x-h3-latent, modality=video, type=float32, channels=24, "
      "frames=7, height=-4",
        "height" },
    { "application/x-h3-latent, modality=video, type=float32, channels=24, "
      "frames=7, height=4, width=2147483647",
        "width" },
    { "application/x-h3-latent, modality=video, type=float32, channels=24, "
      "frames=7, height=4, width=4",
        "framerate" },
    { "application/x-h3-latent, modality=video, type=float32, channels=24, "
      "frames=7, height=4, width=4, framerate=25/1",
        "framerate" },
    { "application/x-h3-latent, modality=audio, type=float32, channels=8, "
      "frames=7, audio-channels=1",
        "audio-channels" },
    { "application/x-h3-latent, modality=audio, type=float32, channels=8, "
      "frames=7, audio-channels=2, rate=48000",
        "48000" },
    { "application/x-h3-latent, modality=audio, type=float32, channels=8, "
      "frames=99999999, audio-channels=2, rate=32000",
        "frames" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    GstCaps *caps = gst_caps_from_string (cases[i].caps);
    GstH3LatentInfo info;
    GError *error = NULL;

    g_assert_false (gst_h3_latent_info_from_caps (&info, caps, &error));
    g_assert_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION);
    if (!strstr (error->message, cases[i].names))
      g_error ("\"%s\" does not name %s", error->message, cases[i].names);
    g_clear_error (&error);
    gst_caps_unref (caps);
  }
}

static void
test_bad_embeds (void)
{
  static const gchar *const cases[] = {
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=inpaint",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va, references=0",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=ref2va, references=13",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=t2va, references=1",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va, references=1, vision=(int)3",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va, references=1, vision=(int)<3>",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va, references=1, vision=(int)<3, 0>",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va, references=1, vision=(int)<3, 7>",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va, references=1, vision=(int)<-1, 2>",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va, references=1, vision=(int)<4, 2, 3, 2>",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48, "
    "task=fl2va, references=1, vision=(string)<a, b>",
    "application/x-h3-embeds, type=float32, tokens=9, hidden=48",
    "application/x-h3-embeds, task=t2va, tokens=9, hidden=48",
    "application/x-h3-embeds, task=t2va, type=float32, hidden=48",
    "application/x-h3-embeds, task=t2va, type=float32, tokens=0, hidden=48",
    "application/x-h3-embeds, task=t2va, type=float32, tokens=9",
    "application/x-h3-embeds, task=t2va, type=float32, tokens=9, "
    "hidden=99999999",
    AUDIO,
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    GstCaps *caps = gst_caps_from_string (cases[i]);
    GstH3EmbedsInfo info;
    GError *error = NULL;

    g_assert_false (gst_h3_embeds_info_from_caps (&info, caps, &error));
    g_assert_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION);
    g_clear_error (&error);
    gst_caps_unref (caps);
  }
}

/* Device memory first, system memory second. */
static void
test_features (void)
{
  GstCaps *caps = gst_caps_from_string (AUDIO);
  GstCaps *both = gst_h3_caps_with_features (caps);

  g_assert_cmpuint (gst_caps_get_size (both), ==, 2);
  g_assert_true (gst_caps_features_contains (gst_caps_get_features (both, 0),
      GST_CAPS_FEATURE_MEMORY_H3_DEVICE));
  g_assert_true (gst_caps_can_intersect (both, caps));
  gst_caps_unref (both);
  gst_caps_unref (caps);
}

static void
test_job_meta (void)
{
  GstBuffer *buffer = gst_buffer_new (), *copy;
  GstStructure *job = gst_structure_new ("any", "job", G_TYPE_UINT64,
      (guint64) 3, "task", G_TYPE_STRING, "t2va", NULL);
  const GstStructure *read;
  guint64 number;

  g_assert_null (gst_h3_buffer_get_job (buffer));
  gst_h3_buffer_add_job (buffer, job);
  gst_h3_buffer_add_job (buffer, job); /* replaces, does not add */
  copy = gst_buffer_copy (buffer);
  read = gst_h3_buffer_get_job (copy);
  g_assert_nonnull (read);
  g_assert_true (gst_structure_get_uint64 (read, "job", &number));
  g_assert_cmpuint (number, ==, 3);
  g_assert_cmpstr (gst_structure_get_string (read, "task"), ==, "t2va");
  gst_buffer_unref (copy);
  gst_buffer_unref (buffer);
  gst_structure_free (job);
}

static void
test_progress (void)
{
  const GstH3Progress progress = { 2, "denoise", 7, 20, 3 * GST_SECOND,
    GST_CLOCK_TIME_NONE, 12345 };
  GstMessage *message =
      gst_message_new_element (NULL, gst_h3_progress_to_structure (&progress));
  GstMessage *other = gst_message_new_element (NULL,
      gst_structure_new_empty ("something-else"));
  GstMessage *broken =
      gst_message_new_element (NULL, gst_structure_new (GST_H3_MESSAGE_PROGRESS,
                                         "stage", G_TYPE_STRING, "load", NULL));
  GstMessage *eos = gst_message_new_eos (NULL);
  GstH3Progress read;

  g_assert_true (gst_h3_message_parse_progress (message, &read));
  g_assert_cmpuint (read.job, ==, 2);
  g_assert_cmpstr (read.stage, ==, "denoise");
  g_assert_cmpuint (read.step, ==, 7);
  g_assert_cmpuint (read.steps, ==, 20);
  g_assert_cmpuint (read.elapsed, ==, 3 * GST_SECOND);
  g_assert_false (GST_CLOCK_TIME_IS_VALID (read.remaining));
  g_assert_cmpuint (read.peak_bytes, ==, 12345);
  g_assert_false (gst_h3_message_parse_progress (other, &read));
  g_assert_false (gst_h3_message_parse_progress (broken, &read));
  g_assert_false (gst_h3_message_parse_progress (eos, &read));
  gst_message_unref (message);
  gst_message_unref (other);
  gst_message_unref (broken);
  gst_message_unref (eos);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  g_test_add_func ("/caps/embeds", test_embeds);
  g_test_add_func ("/caps/vision", test_vision);
  g_test_add_func ("/caps/video", test_video);
  g_test_add_func ("/caps/audio", test_audio);
  g_test_add_func ("/caps/bad-latents", test_bad);
  g_test_add_func ("/caps/bad-embeds", test_bad_embeds);
  g_test_add_func ("/caps/features", test_features);
  g_test_add_func ("/caps/job-meta", test_job_meta);
  g_test_add_func ("/caps/progress", test_progress);
  return g_test_run ();
}
