/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * SECTION:element-h3videovaeenc
 * @title: h3videovaeenc
 * @short_description: encodes keyframes and references to MiniMax H3 latents
 *
 * Pictures in, one latent out, for h3denoise's pads `first_frame`, `last_frame`
 * and `ref_%u`. With role=first-frame or last-frame the first picture is used
 * and its latent leaves at once; with role=reference a stream of one picture is
 * a reference picture, of more a reference clip, whose latent leaves at EOS.
 *
 * Frames must come at their own size and rate: this element brings them to
 * their canvas and to 24 frames a second as the reference implementation does,
 * which videoscale and videorate do not. Give h3textenc the same frames and the
 * same settings, by a tee. A clip is cut to `frames`, then to 17 k + 5; without
 * `frames` one of more than 362 frames, 15.1 seconds, is an error, and so is one
 * of fewer than 5.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 filesrc location=first.png ! pngdec ! videoconvert ! video/x-raw,format=RGB ! h3videovaeenc role=first-frame width=96 height=64 ! filesink location=first.latent
 * ]|
 *
 * Since: 0.1
 */
#include "gst/gsth3videovaeenc.h"

#include "gst/gsth3elements.h"
#include "gst/gsth3fitting.h"
#include "model/denoise/geometry.h"
#include "model/video/video-encoder.h"

GST_DEBUG_CATEGORY_STATIC (gst_h3_video_vae_enc_debug);
#define GST_CAT_DEFAULT gst_h3_video_vae_enc_debug

#define DEFAULT_FIT GST_H3_FIT_STRETCH
#define DEFAULT_POSTERIOR H3_POSTERIOR_SAMPLE

/* Fewer than this is no clip (packing.md 6.2). */
#define MIN_CLIP_FRAMES 5

/* after the base class' */
enum {
  PROP_FITTING = GST_H3_N_COMMON_PROPS + 1,
  PROP_FIT = PROP_FITTING + GST_H3_N_FITTING_PROPS,
  PROP_CONDITION_ENCODE,
};

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE ("sink",
    GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_RGB_CAPS));

static GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE ("src",
    GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_VIDEO_LATENT_CAPS));

struct _GstH3VideoVaeEnc {
  GstH3Encoder parent;

  /* settings, under the object lock */
  GstH3Fitting fitting;
  GstH3Fit fit;
  H3Posterior posterior;

  /* from NULL→READY on */
  H3VideoEncoderConfig config;

  /* of the streaming thread */
  GstH3FrameReader reader;
  H3VideoEncoder *encoder;
  H3Fitter *fitter;
  gint canvas_width, canvas_height;
  gint64 slot; /* 24 fps frames pushed */
};

GType
gst_h3_fit_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { GST_H3_FIT_STRETCH,
        "To the canvas, whatever that does to its aspect: a first keyframe, a "
        "lone last one",
        "stretch" },
    { GST_H3_FIT_COVER,
        "Fill the canvas and cut off what is too much: a last keyframe beside "
        "a first",
        "cover" },
    { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3Fit", values);
}

GType
gst_h3_posterior_get_type (void)
{
  static gsize type;
  static const GEnumValue values[] = {
    { H3_POSTERIOR_SAMPLE,
        "A sample with seed 42, rounded to half precision: the release's",
        "sample" },
    { H3_POSTERIOR_MEAN, "The mean: ComfyUI's", "mean" }, { 0 }
  };

  return gst_h3_enum_register (&type, "GstH3ConditionEncode", values);
}

G_DEFINE_FINAL_TYPE (GstH3VideoVaeEnc, gst_h3_video_vae_enc,
    GST_TYPE_H3_ENCODER)
GST_ELEMENT_REGISTER_DEFINE_WITH_CODE (h3videovaeenc, "h3videovaeenc",
    GST_RANK_NONE, GST_TYPE_H3_VIDEO_VAE_ENC,
    GST_DEBUG_CATEGORY_INIT (gst_h3_video_vae_enc_debug, "h3videovaeenc", 0,
        "H3 video encoder"))

/* --- the model --- */

static gboolean
encoder_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    guint64 *weight_bytes, GError **error)
{
  return h3_video_encoder_plan (checkpoint, device, NULL, weight_bytes, error);
}

static gpointer
encoder_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  return h3_video_encoder_load (checkpoint, device, stop, progress, user_data,
      error);
}

static void
encoder_unref (gpointer model)
{
  h3_video_encoder_model_unref (model);
}

static const GstH3ModelKind encoder_kind = {
  .name = "video encoder",
  .component = H3_COMPONENT_VIDEO_VAE,
  .plan = encoder_plan,
  .load = encoder_load,
  .unref = encoder_unref,
};

static gboolean
encoder_opened (GstElement *element, const H3Checkpoint *checkpoint,
    GError **error)
{
  return h3_video_encoder_plan (checkpoint, NULL,
      &GST_H3_VIDEO_VAE_ENC (element)->config, NULL, error);
}

static const GstH3CommonFuncs common_funcs = {
  .kind = &encoder_kind,
  .opened = encoder_opened,
};

/* --- frames --- */

static GstH3Fitting
get_fitting (GstH3VideoVaeEnc *self)
{
  GstH3Fitting fitting;

  GST_OBJECT_LOCK (self);
  fitting = self->fitting;
  GST_OBJECT_UNLOCK (self);
  return fitting;
}

static gboolean
choose_canvas (GstH3VideoVaeEnc *self, gboolean clip, GError **error)
{
  GstH3Encoder *base = GST_H3_ENCODER (self);
  gboolean demo = gst_h3_encoder_common (base)->is_demo;
  gint width = self->reader.info.width, height = self->reader.info.height;
  GstH3Fitting fitting = get_fitting (self);

  if (gst_h3_encoder_role (base) != GST_H3_ROLE_REFERENCE)
    return gst_h3_fitting_keyframe (&fitting, demo, width, height,
        &self->canvas_width, &self->canvas_height, error);
  if (clip)
    return gst_h3_fitting_clip (&fitting, demo, width, height,
        &self->canvas_width, &self->canvas_height, error);
  return gst_h3_fitting_picture (&fitting, demo, width, height,
      &self->canvas_width, &self->canvas_height, error);
}

static gboolean
open_fitter (GstH3VideoVaeEnc *self, GError **error)
{
  H3Fit fit;

  GST_OBJECT_LOCK (self);
  fit = self->fit == GST_H3_FIT_COVER ? H3_FIT_COVER : H3_FIT_STRETCH;
  GST_OBJECT_UNLOCK (self);
  self->fitter = h3_fitter_new (fit, self->canvas_width, self->canvas_height,
      self->reader.info.width, self->reader.info.height, error);
  return self->fitter != NULL;
}

/* An encoder for the canvas. */
static gboolean
open_encoder (GstH3VideoVaeEnc *self, gboolean clip, const H3Stop *stop,
    GError **error)
{
  GstH3Encoder *base = GST_H3_ENCODER (self);
  GstH3Common *common = gst_h3_encoder_common (base);
  H3VideoEncoderModel *model;
  H3Stream *stream;

  if (!choose_canvas (self, clip, error) || !open_fitter (self, error))
    return FALSE;
  model = gst_h3_common_acquire (common,
      h3_video_encoder_workspace (&self->config, common->device,
          self->canvas_height, self->canvas_width, clip),
      0, stop, error);
  stream = model ? gst_h3_encoder_stream (base, error) : NULL;
  if (stream)
    self->encoder = h3_video_encoder_new (model, stream, self->canvas_height,
        self->canvas_width, clip, error);
  gst_h3_common_settle (common);
  if (!self->encoder)
    return FALSE;
  h3_video_encoder_start (self->encoder);
  self->slot = 0;
  GST_INFO_OBJECT (self, "%s of %dx%d is used at %dx%d",
      clip ? "a clip" : "a picture", self->reader.info.width,
      self->reader.info.height, self->canvas_width, self->canvas_height);
  return TRUE;
}

/* The frame takes the slots up to @until, on its canvas. */
static gboolean
push_frame (GstH3VideoVaeEnc *self, const GstVideoFrame *frame, gint64 until,
    const H3Stop *stop, GError **error)
{
  gsize stride = GST_VIDEO_FRAME_PLANE_STRIDE (frame, 0);
  const guint8 *canvas;
  GstH3Fitting fitting = get_fitting (self);

  if (!gst_h3_fitting_check_length (&fitting, until, error))
    return FALSE;
  until = MIN (until, gst_h3_fitting_most_frames (&fitting));
  if (self->slot >= until)
    return TRUE;
  canvas = h3_fitter_run (self->fitter, GST_VIDEO_FRAME_PLANE_DATA (frame, 0),
      &stride);
  for (; self->slot < until; self->slot++)
    if (!h3_video_encoder_push (self->encoder, canvas, stride, stop, NULL,
            error))
      return FALSE;
  return TRUE;
}

gboolean
gst_h3_video_vae_enc_canvas (GstH3VideoVaeEnc *self, gint width, gint height,
    gint *canvas_width, gint *canvas_height, GError **error)
{
  GstH3Fitting fitting = get_fitting (self);

  return gst_h3_fitting_keyframe (&fitting,
      gst_h3_encoder_common (GST_H3_ENCODER (self))->is_demo, width, height,
      canvas_width, canvas_height, error);
}

static gboolean
gst_h3_video_vae_enc_set_caps (GstH3Encoder *base, GstCaps *caps,
    GError **error)
{
  return gst_h3_frame_reader_set_caps (&GST_H3_VIDEO_VAE_ENC (base)->reader,
      caps, error);
}

/* A frame is looked at when the next one shows that there is a clip. */
static gboolean
gst_h3_video_vae_enc_take (GstH3Encoder *base, GstBuffer *buffer,
    const H3Stop *stop, GError **error)
{
  GstH3VideoVaeEnc *self = GST_H3_VIDEO_VAE_ENC (base);
  GstVideoFrame frame;
  gint64 until;
  gboolean have, good;

  if (!gst_h3_frame_reader_next (&self->reader, buffer, &frame, &until, &have,
          error))
    return FALSE;
  if (!have)
    return TRUE;
  good = (self->encoder || open_encoder (self, TRUE, stop, error)) &&
         push_frame (self, &frame, until, stop, error);
  gst_video_frame_unmap (&frame);
  return good;
}

static gboolean
gst_h3_video_vae_enc_complete (GstH3Encoder *base)
{
  return gst_h3_encoder_role (base) != GST_H3_ROLE_REFERENCE;
}

static gboolean
take_last (GstH3VideoVaeEnc *self, const H3Stop *stop, GError **error)
{
  GstVideoFrame frame;
  gint64 until;
  gboolean have, good;

  if (!gst_h3_frame_reader_next (&self->reader, NULL, &frame, &until, &have,
          error))
    return FALSE;
  if (!have)
    return TRUE;
  if (self->reader.n == 1)
    good = open_encoder (self, FALSE, stop, error) &&
           push_frame (self, &frame, 1, stop, error);
  else
    good = push_frame (self, &frame, until, stop, error);
  gst_video_frame_unmap (&frame);
  return good;
}

static gboolean
check_length (GstH3VideoVaeEnc *self, GError **error)
{
  gint used = h3_clip_encoded_frames ((gint) self->slot);

  if (self->reader.n == 1)
    return TRUE;
  if (used >= MIN_CLIP_FRAMES) {
    if (used != self->slot)
      GST_INFO_OBJECT (self,
          "of %" G_GINT64_FORMAT " frames the first %d are "
          "used",
          self->slot, used);
    return TRUE;
  }
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "A reference clip has %" G_GINT64_FORMAT " frames at 24 a second; at "
      "least %d are needed",
      self->slot, MIN_CLIP_FRAMES);
  return FALSE;
}

static H3Tensor *
gst_h3_video_vae_enc_finish (GstH3Encoder *base, const H3Stop *stop,
    GstH3LatentInfo *info, GError **error)
{
  GstH3VideoVaeEnc *self = GST_H3_VIDEO_VAE_ENC (base);
  H3Tensor *latent = NULL;
  H3Posterior posterior;

  GST_OBJECT_LOCK (self);
  posterior = self->posterior;
  GST_OBJECT_UNLOCK (self);
  if (!take_last (self, stop, error) || !check_length (self, error) ||
      !h3_video_encoder_finish (self->encoder, posterior, H3_POSTERIOR_SEED,
          stop, NULL, &latent, error))
    return NULL;
  info->modality = GST_H3_MODALITY_VIDEO;
  info->channels = (gint) latent->shape[0];
  info->frames = (gint) latent->shape[1];
  info->height = (gint) latent->shape[2];
  info->width = (gint) latent->shape[3];
  return latent;
}

static void
gst_h3_video_vae_enc_reset (GstH3Encoder *base)
{
  GstH3VideoVaeEnc *self = GST_H3_VIDEO_VAE_ENC (base);

  g_clear_pointer (&self->encoder, h3_video_encoder_free);
  g_clear_pointer (&self->fitter, h3_fitter_free);
  gst_h3_frame_reader_reset (&self->reader);
}

/* --- object --- */

static void
gst_h3_video_vae_enc_set_property (GObject *object, guint prop_id,
    const GValue *value, GParamSpec *pspec)
{
  GstH3VideoVaeEnc *self = GST_H3_VIDEO_VAE_ENC (object);
  gboolean known = TRUE;

  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_FIT:
      self->fit = g_value_get_enum (value);
      break;
    case PROP_CONDITION_ENCODE:
      self->posterior = g_value_get_enum (value);
      break;
    default:
      known = prop_id >= PROP_FITTING && gst_h3_fitting_set (&self->fitting,
                                             prop_id - PROP_FITTING, value);
      break;
  }
  GST_OBJECT_UNLOCK (self);
  if (!known)
    G_OBJECT_CLASS (gst_h3_video_vae_enc_parent_class)
        ->set_property (object, prop_id, value, pspec);
}

static void
gst_h3_video_vae_enc_get_property (GObject *object, guint prop_id,
    GValue *value, GParamSpec *pspec)
{
  GstH3VideoVaeEnc *self = GST_H3_VIDEO_VAE_ENC (object);
  gboolean known = TRUE;

  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_FIT:
      g_value_set_enum (value, self->fit);
      break;
    case PROP_CONDITION_ENCODE:
      g_value_set_enum (value, self->posterior);
      break;
    default:
      known = prop_id >= PROP_FITTING && gst_h3_fitting_get (&self->fitting,
                                             prop_id - PROP_FITTING, value);
      break;
  }
  GST_OBJECT_UNLOCK (self);
  if (!known)
    G_OBJECT_CLASS (gst_h3_video_vae_enc_parent_class)
        ->get_property (object, prop_id, value, pspec);
}

static void
gst_h3_video_vae_enc_class_init (GstH3VideoVaeEncClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);
  GstH3EncoderClass *encoder_class = GST_H3_ENCODER_CLASS (klass);
  const GParamFlags flags =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

  object_class->set_property = gst_h3_video_vae_enc_set_property;
  object_class->get_property = gst_h3_video_vae_enc_get_property;
  encoder_class->set_caps = gst_h3_video_vae_enc_set_caps;
  encoder_class->take = gst_h3_video_vae_enc_take;
  encoder_class->complete = gst_h3_video_vae_enc_complete;
  encoder_class->finish = gst_h3_video_vae_enc_finish;
  encoder_class->reset = gst_h3_video_vae_enc_reset;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_FIT, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_POSTERIOR, 0);
  gst_h3_fitting_install_properties (object_class, PROP_FITTING);
  g_object_class_install_property (object_class, PROP_FIT,
      g_param_spec_enum ("fit", "Fit",
          "How a keyframe of another aspect comes onto the clip's canvas.",
          GST_TYPE_H3_FIT, DEFAULT_FIT, flags));
  g_object_class_install_property (object_class, PROP_CONDITION_ENCODE,
      g_param_spec_enum ("condition-encode", "Condition encode",
          "What of the encoder's distribution is the latent.",
          GST_TYPE_H3_POSTERIOR, DEFAULT_POSTERIOR, flags));

  gst_element_class_add_static_pad_template (element_class, &sink_template);
  gst_element_class_add_static_pad_template (element_class, &src_template);
  gst_element_class_set_static_metadata (element_class,
      "MiniMax H3 video encoder", "Codec/Encoder/Video",
      "Encodes a keyframe, a reference picture or a reference clip to the one "
      "latent that h3denoise takes; frames come at their own size and rate",
      "The gst-h3 developers");
}

static void
gst_h3_video_vae_enc_init (GstH3VideoVaeEnc *self)
{
  gst_h3_encoder_setup (GST_H3_ENCODER (self), &common_funcs);
  gst_h3_fitting_init (&self->fitting);
  self->fit = DEFAULT_FIT;
  self->posterior = DEFAULT_POSTERIOR;
}
