/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3sampling.h"

#include <math.h>

#include "gst/gsth3enums.h"
#include "model/picture/prepare.h"

#define MAX_STEPS 1000
#define MAX_FRAMES 4096
#define MAX_SIDE 8192
#define DEFAULT_LENGTH 124 /* packing.md 2.1 */
#define DEMO_LENGTH 22
#define DEMO_LONG_SIDE 96
#define DEMO_SHORT_SIDE 64
/* lengths H3 was trained on */
#define MIN_TRAINED 107
#define MAX_TRAINED 362

GType
gst_h3_schedule_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { H3_SCHEDULE_UNIFORM, "Evenly spaced, then shifted: the reference's",
        "uniform" },
    { H3_SCHEDULE_SIMPLE, "ComfyUI's \"simple\", on a grid of 1000", "simple" },
    { H3_SCHEDULE_BETA, "ComfyUI's \"beta\" with alpha = beta = 0.6", "beta" },
    { H3_SCHEDULE_EXPLICIT, "The list in the property \"sigmas\"", "explicit" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Schedule", values);
}

GType
gst_h3_solver_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { H3_SOLVER_EULER, "First order: the reference's", "euler" },
    { H3_SOLVER_RES_MULTISTEP, "Second order, as ComfyUI's res_multistep",
        "res-multistep" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Solver", values);
}

GType
gst_h3_noise_mode_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { H3_NOISE_DIFFUSERS, "As diffusers draws it from a CPU generator",
        "diffusers" },
    { H3_NOISE_SGLANG, "As SGLang draws it", "sglang" },
    { H3_NOISE_COMFY, "As ComfyUI draws it", "comfy" }, { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3NoiseMode", values);
}

/* --- properties --- */

void
gst_h3_sampling_install_properties (GObjectClass *klass, guint first)
{
  const GParamFlags flags =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_SCHEDULE, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_SOLVER, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_NOISE_MODE, 0);

  g_object_class_install_property (klass, first + GST_H3_SAMPLING_SEED,
      g_param_spec_int64 ("seed", "Seed",
          "Seed of the noise: the same seed, prompt and settings make the same "
          "clip. -1 = a random one for each clip, reported in the job's "
          "metadata.",
          -1, G_MAXINT64, GST_H3_DEFAULT_SEED, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_STEPS,
      g_param_spec_uint ("steps", "Steps",
          "Forward passes of the transformer: more is slower and better. "
          "diffusers' num_inference_steps is one more. Not used with "
          "schedule=explicit.",
          1, MAX_STEPS, GST_H3_DEFAULT_STEPS, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_SHIFT_VIDEO,
      g_param_spec_double ("shift-video", "Video shift",
          "Timestep shift of the video's schedule, a factor without unit: "
          "larger spends more steps at high noise. 0 = the checkpoint's (12).",
          0, 1000, GST_H3_DEFAULT_SHIFT, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_SHIFT_AUDIO,
      g_param_spec_double ("shift-audio", "Audio shift",
          "Timestep shift of the sound's schedule, a factor without unit. 0 = "
          "the checkpoint's (3).",
          0, 1000, GST_H3_DEFAULT_SHIFT, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_SCHEDULE,
      g_param_spec_enum ("schedule", "Schedule",
          "How the noise levels are spaced.", GST_TYPE_H3_SCHEDULE,
          GST_H3_DEFAULT_SCHEDULE, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_SIGMAS,
      g_param_spec_string ("sigmas", "Sigmas",
          "With schedule=explicit: the video's noise levels, numbers separated "
          "by commas, strictly decreasing from at most 1 to exactly 0, one "
          "more than there are steps: \"1, 0.9, 0.5, 0\".",
          NULL, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_SIGMAS_AUDIO,
      g_param_spec_string ("sigmas-audio", "Audio sigmas",
          "With schedule=explicit: the sound's noise levels, as many as in "
          "\"sigmas\". Unset = derived from the video's through the shifts.",
          NULL, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_SOLVER,
      g_param_spec_enum ("solver", "Solver",
          "How a step follows from the model's answer.", GST_TYPE_H3_SOLVER,
          GST_H3_DEFAULT_SOLVER, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_NOISE_MODE,
      g_param_spec_enum ("noise-mode", "Noise mode",
          "Whose noise a seed means, so that a seed gives the same clip as "
          "there.",
          GST_TYPE_H3_NOISE_MODE, GST_H3_DEFAULT_NOISE_MODE, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_FRAMES,
      g_param_spec_uint ("frames", "Frames",
          "Length of a clip in frames at 24 a second, rounded up to 17 k + 5; "
          "the result is reported. H3 is trained on 107 to 362. 0 = from "
          "\"duration\".",
          0, MAX_FRAMES, GST_H3_DEFAULT_FRAMES, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_DURATION,
      g_param_spec_uint64 ("duration", "Duration",
          "Length of a clip in nanoseconds, where \"frames\" is 0; rounded to "
          "frames, then up to 17 k + 5. 0 = 124 frames (5.17 s), or the 22 "
          "frames that the demo checkpoint is made for.",
          0, MAX_FRAMES * GST_SECOND / H3_FPS, GST_H3_DEFAULT_DURATION, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_WIDTH,
      g_param_spec_int ("width", "Width",
          "Width of the picture in pixels, a multiple of 32; give height too. "
          "0 = from \"aspect-ratio\".",
          0, MAX_SIDE, GST_H3_DEFAULT_SIDE, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_HEIGHT,
      g_param_spec_int ("height", "Height",
          "Height of the picture in pixels, a multiple of 32; give width too. "
          "0 = from \"aspect-ratio\".",
          0, MAX_SIDE, GST_H3_DEFAULT_SIDE, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_ASPECT_RATIO,
      gst_param_spec_fraction ("aspect-ratio", "Aspect ratio",
          "Width to height where width and height are 0, from 1/4 to 4/1: the "
          "size H3 is trained on for it, 1344x768 pixels for 16/9 (the demo "
          "checkpoint: 96x64 or 64x96).",
          1, 4, 4, 1, GST_H3_DEFAULT_ASPECT_N, GST_H3_DEFAULT_ASPECT_D, flags));
  g_object_class_install_property (klass, first + GST_H3_SAMPLING_STRICT,
      g_param_spec_boolean ("strict", "Strict",
          "Refuse lengths outside the 107 to 362 frames H3 is trained on, and "
          "reference clips or sounds of more than 15.1 seconds together, "
          "instead of warning.",
          GST_H3_DEFAULT_STRICT, flags));
}

void
gst_h3_sampling_init (GstH3Sampling *sampling)
{
  *sampling = (GstH3Sampling){
    .seed = GST_H3_DEFAULT_SEED,
    .steps = GST_H3_DEFAULT_STEPS,
    .shift_video = GST_H3_DEFAULT_SHIFT,
    .shift_audio = GST_H3_DEFAULT_SHIFT,
    .schedule = GST_H3_DEFAULT_SCHEDULE,
    .solver = GST_H3_DEFAULT_SOLVER,
    .noise_mode = GST_H3_DEFAULT_NOISE_MODE,
    .frames = GST_H3_DEFAULT_FRAMES,
    .duration = GST_H3_DEFAULT_DURATION,
    .width = GST_H3_DEFAULT_SIDE,
    .height = GST_H3_DEFAULT_SIDE,
    .aspect_n = GST_H3_DEFAULT_ASPECT_N,
    .aspect_d = GST_H3_DEFAULT_ASPECT_D,
    .strict = GST_H3_DEFAULT_STRICT,
  };
}

void
gst_h3_sampling_clear (GstH3Sampling *sampling)
{
  g_clear_pointer (&sampling->sigmas, g_free);
  g_clear_pointer (&sampling->sigmas_audio, g_free);
}

void
gst_h3_sampling_copy (GstH3Sampling *to, const GstH3Sampling *from)
{
  *to = *from;
  to->sigmas = g_strdup (from->sigmas);
  to->sigmas_audio = g_strdup (from->sigmas_audio);
}

gboolean
gst_h3_sampling_set (GstH3Sampling *s, guint id, const GValue *value)
{
  switch (id) {
    case GST_H3_SAMPLING_SEED:
      s->seed = g_value_get_int64 (value);
      break;
    case GST_H3_SAMPLING_STEPS:
      s->steps = g_value_get_uint (value);
      break;
    case GST_H3_SAMPLING_SHIFT_VIDEO:
      s->shift_video = g_value_get_double (value);
      break;
    case GST_H3_SAMPLING_SHIFT_AUDIO:
      s->shift_audio = g_value_get_double (value);
      break;
    case GST_H3_SAMPLING_SCHEDULE:
      s->schedule = g_value_get_enum (value);
      break;
    case GST_H3_SAMPLING_SIGMAS:
      g_free (s->sigmas);
      s->sigmas = g_value_dup_string (value);
      break;
    case GST_H3_SAMPLING_SIGMAS_AUDIO:
      g_free (s->sigmas_audio);
      s->sigmas_audio = g_value_dup_string (value);
      break;
    case GST_H3_SAMPLING_SOLVER:
      s->solver = g_value_get_enum (value);
      break;
    case GST_H3_SAMPLING_NOISE_MODE:
      s->noise_mode = g_value_get_enum (value);
      break;
    case GST_H3_SAMPLING_FRAMES:
      s->frames = g_value_get_uint (value);
      break;
    case GST_H3_SAMPLING_DURATION:
      s->duration = g_value_get_uint64 (value);
      break;
    case GST_H3_SAMPLING_WIDTH:
      s->width = g_value_get_int (value);
      break;
    case GST_H3_SAMPLING_HEIGHT:
      s->height = g_value_get_int (value);
      break;
    case GST_H3_SAMPLING_ASPECT_RATIO:
      s->aspect_n = gst_value_get_fraction_numerator (value);
      s->aspect_d = gst_value_get_fraction_denominator (value);
      break;
    case GST_H3_SAMPLING_STRICT:
      s->strict = g_value_get_boolean (value);
      break;
    default:
      return FALSE;
  }
  return TRUE;
}

gboolean
gst_h3_sampling_get (const GstH3Sampling *s, guint id, GValue *value)
{
  switch (id) {
    case GST_H3_SAMPLING_SEED:
      g_value_set_int64 (value, s->seed);
      break;
    case GST_H3_SAMPLING_STEPS:
      g_value_set_uint (value, s->steps);
      break;
    case GST_H3_SAMPLING_SHIFT_VIDEO:
      g_value_set_double (value, s->shift_video);
      break;
    case GST_H3_SAMPLING_SHIFT_AUDIO:
      g_value_set_double (value, s->shift_audio);
      break;
    case GST_H3_SAMPLING_SCHEDULE:
      g_value_set_enum (value, s->schedule);
      break;
    case GST_H3_SAMPLING_SIGMAS:
      g_value_set_string (value, s->sigmas);
      break;
    case GST_H3_SAMPLING_SIGMAS_AUDIO:
      g_value_set_string (value, s->sigmas_audio);
      break;
    case GST_H3_SAMPLING_SOLVER:
      g_value_set_enum (value, s->solver);
      break;
    case GST_H3_SAMPLING_NOISE_MODE:
      g_value_set_enum (value, s->noise_mode);
      break;
    case GST_H3_SAMPLING_FRAMES:
      g_value_set_uint (value, s->frames);
      break;
    case GST_H3_SAMPLING_DURATION:
      g_value_set_uint64 (value, s->duration);
      break;
    case GST_H3_SAMPLING_WIDTH:
      g_value_set_int (value, s->width);
      break;
    case GST_H3_SAMPLING_HEIGHT:
      g_value_set_int (value, s->height);
      break;
    case GST_H3_SAMPLING_ASPECT_RATIO:
      gst_value_set_fraction (value, s->aspect_n, s->aspect_d);
      break;
    case GST_H3_SAMPLING_STRICT:
      g_value_set_boolean (value, s->strict);
      break;
    default:
      return FALSE;
  }
  return TRUE;
}

/* --- from settings to a clip --- */

static gboolean
resolve_canvas (const GstH3Sampling *s, gboolean demo, gint *width,
    gint *height, GError **error)
{
  *width = s->width;
  *height = s->height;
  if ((*width > 0) != (*height > 0)) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "width is %d and height is %d: give both, or neither and aspect-ratio",
        *width, *height);
    return FALSE;
  }
  if (*width > 0)
    return h3_check_canvas (*width, *height, error);
  if (demo) {
    gboolean wide = s->aspect_n >= s->aspect_d;

    *width = wide ? DEMO_LONG_SIDE : DEMO_SHORT_SIDE;
    *height = wide ? DEMO_SHORT_SIDE : DEMO_LONG_SIDE;
    return TRUE;
  }
  return h3_canvas_of_aspect (H3_CANVAS_EDGE, s->aspect_n, s->aspect_d, width,
      height, error);
}

static gint
resolve_length (const GstH3Sampling *s, gboolean demo)
{
  if (s->frames > 0)
    return s->frames;
  if (s->duration > 0)
    return MAX (1, h3_frames_of_duration (s->duration));
  return demo ? DEMO_LENGTH : DEFAULT_LENGTH;
}

gboolean
gst_h3_sampling_geometry (const GstH3Sampling *s,
    const GstH3SamplingDefaults *defaults, H3Geometry *geometry,
    gint *requested_frames, GError **error)
{
  gint width, height;

  if (!resolve_canvas (s, defaults->demo, &width, &height, error))
    return FALSE;
  *requested_frames = resolve_length (s, defaults->demo);
  return h3_geometry_init (geometry, width, height, *requested_frames, error);
}

/* "1, 0.5, 0"; NULL with an error. */
static GArray *
parse_sigmas (const gchar *property, const gchar *text, GError **error)
{
  GArray *values = g_array_new (FALSE, FALSE, sizeof (gdouble));
  gchar **parts = g_strsplit_set (text, ",;", -1);
  gboolean good = TRUE;

  for (guint i = 0; parts[i] && good; i++) {
    gchar *part = g_strstrip (parts[i]);
    gchar *end = NULL;
    gdouble value = g_ascii_strtod (part, &end);

    good = end != part && *end == '\0' && isfinite (value) &&
           values->len <= MAX_STEPS;
    if (good)
      g_array_append_val (values, value);
    else
      g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
          "%s has \"%s\" as number %u; it must be at most %d numbers separated "
          "by commas",
          property, part, i + 1, MAX_STEPS + 1);
  }
  g_strfreev (parts);
  if (!good)
    g_clear_pointer (&values, g_array_unref);
  return values;
}

static gboolean
explicit_schedule (const GstH3Sampling *s, GArray **video, GArray **audio,
    GError **error)
{
  if (!s->sigmas) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_SETTINGS,
        "schedule=explicit needs the noise levels in the property sigmas");
    return FALSE;
  }
  *video = parse_sigmas ("sigmas", s->sigmas, error);
  if (*video && s->sigmas_audio)
    *audio = parse_sigmas ("sigmas-audio", s->sigmas_audio, error);
  if (!*video || (s->sigmas_audio && !*audio))
    return FALSE;
  if (*audio && (*audio)->len != (*video)->len) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "sigmas has %u numbers and sigmas-audio %u; they must be as many",
        (*video)->len, (*audio)->len);
    return FALSE;
  }
  return TRUE;
}

static H3Schedule *
make_schedule (const GstH3Sampling *s, gdouble shift_v, gdouble shift_a,
    GError **error)
{
  g_autoptr (GArray) video = NULL;
  g_autoptr (GArray) audio = NULL;

  if (s->schedule == H3_SCHEDULE_EXPLICIT) {
    if (!explicit_schedule (s, &video, &audio, error))
      return NULL;
  } else if (s->sigmas || s->sigmas_audio) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_SETTINGS,
        "sigmas and sigmas-audio are for schedule=explicit only; unset them or "
        "set it");
    return NULL;
  }
  return h3_schedule_new (s->schedule, s->steps, shift_v, shift_a,
      video ? (const gdouble *) video->data : NULL,
      audio ? (const gdouble *) audio->data : NULL, video ? video->len : 0,
      error);
}

static guint64
draw_seed (void)
{
  return (((guint64) g_random_int () << 32) | g_random_int ()) & G_MAXINT64;
}

gboolean
gst_h3_sampling_resolve (const GstH3Sampling *s,
    const GstH3SamplingDefaults *defaults, GstH3Clip *clip, GError **error)
{
  H3DenoiseRequest *request = &clip->request;
  gint frames;

  *clip = (GstH3Clip){
    0,
  };
  if (!gst_h3_sampling_geometry (s, defaults, &request->geometry,
          &clip->requested_frames, error))
    return FALSE;
  frames = request->geometry.frames;
  clip->untrained_length =
      (frames < MIN_TRAINED || frames > MAX_TRAINED) && !defaults->demo;
  if (s->strict && (frames < MIN_TRAINED || frames > MAX_TRAINED)) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "A clip of %d frames (%.2f s) is outside the %d to %d frames H3 is "
        "trained on, and strict=true refuses it",
        frames, frames / (gdouble) H3_FPS, MIN_TRAINED, MAX_TRAINED);
    return FALSE;
  }
  request->shift_v =
      s->shift_video > 0 ? s->shift_video : defaults->shift_video;
  request->shift_a =
      s->shift_audio > 0 ? s->shift_audio : defaults->shift_audio;
  clip->schedule = make_schedule (s, request->shift_v, request->shift_a, error);
  if (!clip->schedule)
    return FALSE;
  request->schedule = clip->schedule;
  clip->schedule_kind = s->schedule;
  request->solver = s->solver;
  request->noise_mode = s->noise_mode;
  request->seed = s->seed < 0 ? draw_seed () : (guint64) s->seed;
  return TRUE;
}

void
gst_h3_clip_clear (GstH3Clip *clip)
{
  g_clear_pointer (&clip->schedule, h3_schedule_free);
  clip->request.schedule = NULL;
}
