/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * SECTION:element-h3audiovaeenc
 * @title: h3audiovaeenc
 * @short_description: encodes reference sounds to MiniMax H3 latents
 *
 * A sound in, one latent out at EOS, for h3denoise's pads `ref_audio_%u`: a
 * sound of its own, or that of the clip on `ref_%u` with the same number.
 *
 * The sound must come at its own rate, mono or stereo: this element brings it
 * to 32 kHz with the filter of the reference implementation, which
 * audioresample does not have; of more channels, mix down before
 * (audioconvert). Samples are taken one after the other, whatever their times.
 * A sound is cut to `frames`; without that, one of more than 15.1 seconds is an
 * error. The only `role` is reference.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 filesrc location=voice.wav ! wavparse ! audioconvert ! audio/x-raw,format=F32LE,channels=2 ! h3audiovaeenc frames=124 ! filesink location=voice.latent
 * ]|
 *
 * Since: 0.1
 */
#include "gst/gsth3audiovaeenc.h"

#include <gst/audio/audio.h>

#include "gst/gsth3elements.h"
#include "model/audio/audio-encoder.h"
#include "model/audio/resample.h"
#include "model/denoise/geometry.h"

GST_DEBUG_CATEGORY_STATIC (gst_h3_audio_vae_enc_debug);
#define GST_CAT_DEFAULT gst_h3_audio_vae_enc_debug

#define DEFAULT_FRAMES 0
#define DEFAULT_CHUNK 64

#define MAX_FRAMES 100000
/* A reference has 15 s (packing.md 6.2); a coded sound ends a little later. */
#define MAX_MILLISECONDS 15100

/* after the base class' */
enum {
  PROP_FRAMES = GST_H3_N_COMMON_PROPS + 1,
  PROP_CHUNK,
};

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE ("sink",
    GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS (
        "audio/x-raw, format = (string) F32LE, layout = (string) interleaved, "
        "rate = (int) [ " G_STRINGIFY (H3_AUDIO_MIN_RATE) ", " G_STRINGIFY (
            H3_AUDIO_MAX_RATE) " ], channels = (int) [ 1, 2 ]"));

static GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE ("src",
    GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_AUDIO_LATENT_CAPS));

struct _GstH3AudioVaeEnc {
  GstH3Encoder parent;

  /* settings, under the object lock */
  guint frames;
  gint chunk;

  /* from NULL→READY on */
  H3AudioEncoderConfig config;

  /* of the streaming thread */
  GstAudioInfo info;
  gboolean have_info;
  gfloat *samples; /* [n, channels]: as many as are used */
  gsize n, room;
  guint64 came; /* samples of each channel */
};

G_DEFINE_FINAL_TYPE (GstH3AudioVaeEnc, gst_h3_audio_vae_enc,
    GST_TYPE_H3_ENCODER)
GST_ELEMENT_REGISTER_DEFINE_WITH_CODE (h3audiovaeenc, "h3audiovaeenc",
    GST_RANK_NONE, GST_TYPE_H3_AUDIO_VAE_ENC,
    GST_DEBUG_CATEGORY_INIT (gst_h3_audio_vae_enc_debug, "h3audiovaeenc", 0,
        "H3 audio encoder"))

/* --- the model --- */

static gboolean
encoder_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    guint64 *weight_bytes, GError **error)
{
  return h3_audio_encoder_plan (checkpoint, NULL, weight_bytes, error);
}

static gpointer
encoder_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  return h3_audio_encoder_load (checkpoint, device, stop, progress, user_data,
      error);
}

static void
encoder_unref (gpointer model)
{
  h3_audio_encoder_model_unref (model);
}

static const GstH3ModelKind encoder_kind = {
  .name = "audio encoder",
  .component = H3_COMPONENT_AUDIO_VAE,
  .plan = encoder_plan,
  .load = encoder_load,
  .unref = encoder_unref,
};

static gboolean
encoder_opened (GstElement *element, const H3Checkpoint *checkpoint,
    GError **error)
{
  return h3_audio_encoder_plan (checkpoint,
      &GST_H3_AUDIO_VAE_ENC (element)->config, NULL, error);
}

static const GstH3CommonFuncs common_funcs = {
  .kind = &encoder_kind,
  .opened = encoder_opened,
};

/* --- samples --- */

/* What the clip is long, in frames; 0 when nobody says. */
static gint
get_frames (GstH3AudioVaeEnc *self)
{
  guint frames;

  GST_OBJECT_LOCK (self);
  frames = self->frames;
  GST_OBJECT_UNLOCK (self);
  return frames > 0 ? h3_align_frames ((gint) frames) : 0;
}

static gboolean
gst_h3_audio_vae_enc_set_caps (GstH3Encoder *base, GstCaps *caps,
    GError **error)
{
  GstH3AudioVaeEnc *self = GST_H3_AUDIO_VAE_ENC (base);
  GstAudioInfo info;

  if (gst_h3_encoder_role (base) != GST_H3_ROLE_REFERENCE) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_SETTINGS,
        "A sound can only be a reference: set role=reference");
    return FALSE;
  }
  if (!gst_audio_info_from_caps (&info, caps) ||
      GST_AUDIO_INFO_FORMAT (&info) != GST_AUDIO_FORMAT_F32LE) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_FORMAT,
        "Sound must be audio/x-raw, format=F32LE, of 1 or 2 channels: put "
        "audioconvert in front");
    return FALSE;
  }
  if (self->came > 0 &&
      (info.rate != self->info.rate || info.channels != self->info.channels)) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "The sound changes from %d channels at %d Hz to %d at %d Hz in the "
        "middle: a reference must keep its format",
        self->info.channels, self->info.rate, info.channels, info.rate);
    return FALSE;
  }
  self->info = info;
  self->have_info = TRUE;
  return TRUE;
}

/* Room for @n samples more. */
static gboolean
make_room (GstH3AudioVaeEnc *self, gsize n, GError **error)
{
  gsize room = MAX (2 * self->room, self->n + n);
  gfloat *samples;

  if (self->n + n <= self->room)
    return TRUE;
  samples = room <= G_MAXSIZE / GST_AUDIO_INFO_BPF (&self->info)
                ? g_try_realloc (self->samples,
                      room * GST_AUDIO_INFO_BPF (&self->info))
                : NULL;
  if (!samples) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for %" G_GSIZE_FORMAT " samples of a reference sound", room);
    return FALSE;
  }
  self->samples = samples;
  self->room = room;
  return TRUE;
}

/* Keeps of @n more what is used. */
static gboolean
keep (GstH3AudioVaeEnc *self, const guint8 *data, gsize n, GError **error)
{
  gint frames = get_frames (self), rate = GST_AUDIO_INFO_RATE (&self->info);
  gsize bpf = GST_AUDIO_INFO_BPF (&self->info);
  gsize most = frames > 0 ? h3_audio_frames_to_samples (frames, rate)
                          : (gsize) rate * MAX_MILLISECONDS / 1000;

  self->came += n;
  if (frames == 0 && self->came > most) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "A reference sound has %.1f s or more, at most %.1f s can be used: set "
        "frames to those of the clip to be made, and it is cut to their length",
        self->came / (gdouble) rate, MAX_MILLISECONDS / 1000.0);
    return FALSE;
  }
  n = MIN (n, most - self->n);
  if (!make_room (self, n, error))
    return FALSE;
  if (n > 0)
    memcpy ((guint8 *) self->samples + self->n * bpf, data, n * bpf);
  self->n += n;
  return TRUE;
}

static gboolean
gst_h3_audio_vae_enc_take (GstH3Encoder *base, GstBuffer *buffer,
    const H3Stop *stop, GError **error)
{
  GstH3AudioVaeEnc *self = GST_H3_AUDIO_VAE_ENC (base);
  GstMapInfo map;
  gboolean good = FALSE;

  if (!self->have_info) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_FORMAT,
        "Sound came without caps");
    return FALSE;
  }
  if (!gst_buffer_map (buffer, &map, GST_MAP_READ)) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_FORMAT,
        "A buffer of sound cannot be read");
    return FALSE;
  }
  if (map.size % GST_AUDIO_INFO_BPF (&self->info) == 0)
    good = keep (self, map.data, map.size / GST_AUDIO_INFO_BPF (&self->info),
        error);
  else
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "A buffer of sound has %" G_GSIZE_FORMAT
        " bytes; a multiple of %d is needed",
        map.size, GST_AUDIO_INFO_BPF (&self->info));
  gst_buffer_unmap (buffer, &map);
  return good;
}

static gboolean
gst_h3_audio_vae_enc_complete (GstH3Encoder *base)
{
  return FALSE;
}

/* --- the latent --- */

/* @sound: [2, @n] at the model's rate */
static H3Tensor *
encode (GstH3AudioVaeEnc *self, const gfloat *sound, gsize n,
    const H3Stop *stop, GError **error)
{
  GstH3Encoder *base = GST_H3_ENCODER (self);
  GstH3Common *common = gst_h3_encoder_common (base);
  gint latents = h3_audio_encoded_latents (&self->config, n), chunk;
  g_autoptr (H3AudioEncoder) encoder = NULL;
  H3AudioEncoderModel *model;
  H3Tensor *latent = NULL;
  H3Stream *stream;

  GST_OBJECT_LOCK (self);
  chunk = CLAMP (latents, 1, self->chunk);
  GST_OBJECT_UNLOCK (self);
  model = gst_h3_common_acquire (common,
      h3_audio_encoder_workspace (&self->config, common->device, chunk,
          latents),
      0, stop, error);
  stream = model ? gst_h3_encoder_stream (base, error) : NULL;
  if (stream)
    encoder = h3_audio_encoder_new (model, stream, chunk, error);
  if (encoder)
    h3_audio_encoder_encode (encoder, sound, n, stop, NULL, &latent, error);
  /* not before: the attention takes its memory while it runs */
  gst_h3_common_settle (common);
  return latent;
}

static H3Tensor *
gst_h3_audio_vae_enc_finish (GstH3Encoder *base, const H3Stop *stop,
    GstH3LatentInfo *info, GError **error)
{
  GstH3AudioVaeEnc *self = GST_H3_AUDIO_VAE_ENC (base);
  g_autofree gfloat *sound = NULL;
  H3Tensor *latent;
  gsize n;

  if (self->n < self->came)
    GST_INFO_OBJECT (self,
        "of %" G_GUINT64_FORMAT " samples the first %" G_GSIZE_FORMAT
        " are used",
        self->came, self->n);
  sound = h3_audio_reference_sound (self->samples, self->n,
      GST_AUDIO_INFO_CHANNELS (&self->info), GST_AUDIO_INFO_RATE (&self->info),
      get_frames (self), self->config.vae.rate, &n, error);
  latent = sound ? encode (self, sound, n, stop, error) : NULL;
  if (!latent)
    return NULL;
  info->modality = GST_H3_MODALITY_AUDIO;
  info->audio_channels = (gint) latent->shape[0];
  info->channels = (gint) latent->shape[1];
  info->frames = (gint) latent->shape[2];
  return latent;
}

static void
gst_h3_audio_vae_enc_reset (GstH3Encoder *base)
{
  GstH3AudioVaeEnc *self = GST_H3_AUDIO_VAE_ENC (base);

  g_clear_pointer (&self->samples, g_free);
  self->n = self->room = 0;
  self->came = 0;
}

/* --- object --- */

static void
gst_h3_audio_vae_enc_set_property (GObject *object, guint prop_id,
    const GValue *value, GParamSpec *pspec)
{
  GstH3AudioVaeEnc *self = GST_H3_AUDIO_VAE_ENC (object);

  switch (prop_id) {
    case PROP_FRAMES:
      GST_OBJECT_LOCK (self);
      self->frames = g_value_get_uint (value);
      GST_OBJECT_UNLOCK (self);
      break;
    case PROP_CHUNK:
      GST_OBJECT_LOCK (self);
      self->chunk = g_value_get_int (value);
      GST_OBJECT_UNLOCK (self);
      break;
    default:
      G_OBJECT_CLASS (gst_h3_audio_vae_enc_parent_class)
          ->set_property (object, prop_id, value, pspec);
      break;
  }
}

static void
gst_h3_audio_vae_enc_get_property (GObject *object, guint prop_id,
    GValue *value, GParamSpec *pspec)
{
  GstH3AudioVaeEnc *self = GST_H3_AUDIO_VAE_ENC (object);

  switch (prop_id) {
    case PROP_FRAMES:
      GST_OBJECT_LOCK (self);
      g_value_set_uint (value, self->frames);
      GST_OBJECT_UNLOCK (self);
      break;
    case PROP_CHUNK:
      GST_OBJECT_LOCK (self);
      g_value_set_int (value, self->chunk);
      GST_OBJECT_UNLOCK (self);
      break;
    default:
      G_OBJECT_CLASS (gst_h3_audio_vae_enc_parent_class)
          ->get_property (object, prop_id, value, pspec);
      break;
  }
}

static void
gst_h3_audio_vae_enc_class_init (GstH3AudioVaeEncClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);
  GstH3EncoderClass *encoder_class = GST_H3_ENCODER_CLASS (klass);
  const GParamFlags flags =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

  object_class->set_property = gst_h3_audio_vae_enc_set_property;
  object_class->get_property = gst_h3_audio_vae_enc_get_property;
  encoder_class->set_caps = gst_h3_audio_vae_enc_set_caps;
  encoder_class->take = gst_h3_audio_vae_enc_take;
  encoder_class->complete = gst_h3_audio_vae_enc_complete;
  encoder_class->finish = gst_h3_audio_vae_enc_finish;
  encoder_class->reset = gst_h3_audio_vae_enc_reset;

  g_object_class_install_property (object_class, PROP_FRAMES,
      g_param_spec_uint ("frames", "Frames",
          "Length of the clip to be made in frames at 24 a second, rounded up "
          "to 17 k + 5: the sound is cut to it. 0 = it is not cut, and may "
          "have 15.1 seconds at most.",
          0, MAX_FRAMES, DEFAULT_FRAMES, flags));
  g_object_class_install_property (object_class, PROP_CHUNK,
      g_param_spec_int ("chunk", "Chunk",
          "Latents, 25 ms each, encoded at once: a smaller chunk needs less "
          "memory, a larger one is faster; the latent is the same.",
          1, 65536, DEFAULT_CHUNK, flags));

  gst_element_class_add_static_pad_template (element_class, &sink_template);
  gst_element_class_add_static_pad_template (element_class, &src_template);
  gst_element_class_set_static_metadata (element_class,
      "MiniMax H3 audio encoder", "Codec/Encoder/Audio",
      "Encodes a reference sound to the one latent that h3denoise takes; it "
      "comes at its own rate, mono or stereo",
      "The gst-h3 developers");
}

static void
gst_h3_audio_vae_enc_init (GstH3AudioVaeEnc *self)
{
  gst_h3_encoder_setup (GST_H3_ENCODER (self), &common_funcs);
  self->frames = DEFAULT_FRAMES;
  self->chunk = DEFAULT_CHUNK;
}
