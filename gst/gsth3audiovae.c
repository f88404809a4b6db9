/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * SECTION:element-h3audiovae
 * @title: h3audiovae
 * @short_description: decodes MiniMax H3 audio latents to stereo samples
 *
 * Takes one latent per clip and gives its sound, 800 samples for each of the
 * latent's steps, chunk by chunk. The samples are the same whatever the chunk.
 *
 * A clip's sound is up to 8.33 ms longer or shorter than its picture. For one
 * clip that is right as it is; where many clips follow each other,
 * `length=video` cuts or pads each to its picture, so that nothing drifts.
 *
 * AAC encoders delay the sound and mp4mux cannot say so: `skip-samples=1024`
 * (avenc_aac) or `1600` (voaacenc) makes up for it.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 -e filesrc location=prompt.txt ! text/x-raw,format=utf8 ! h3textenc ! h3denoise name=d d.audio ! h3audiovae ! audioconvert ! flacenc ! filesink location=clip.flac
 * ]|
 *
 * Since: 0.1
 */
#include "gst/gsth3audiovae.h"

#include <gst/audio/audio.h>

#include "gst/gsth3elements.h"
#include "model/audio/audio-vae.h"

GST_DEBUG_CATEGORY_STATIC (h3audiovae_debug);
#define GST_CAT_DEFAULT h3audiovae_debug

typedef enum {
  GST_H3_AUDIO_LENGTH_NATIVE,
  GST_H3_AUDIO_LENGTH_VIDEO,
} GstH3AudioLength;

#define DEFAULT_LENGTH GST_H3_AUDIO_LENGTH_NATIVE
#define DEFAULT_SKIP_SAMPLES 0
#define DEFAULT_CHUNK 256

enum {
  PROP_LENGTH = GST_H3_N_COMMON_PROPS,
  PROP_SKIP_SAMPLES,
  PROP_CHUNK,
};

#define RATE 32000
#define SAMPLE_BYTES (2 * sizeof (gfloat))
#define FORMAT GST_AUDIO_NE (F32)
#define SRC_CAPS                                                               \
  "audio/x-raw, format = (string) " FORMAT ", rate = (int) 32000, "            \
  "channels = (int) 2, layout = (string) interleaved, "                        \
  "channel-mask = (bitmask) 0x3"

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE ("sink",
    GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_AUDIO_LATENT_CAPS));
static GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE ("src",
    GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (SRC_CAPS));

/**
 * GstH3AudioVae:
 *
 * @config belongs to the state change NULL→READY, the rest to the streaming
 * thread.
 */
struct _GstH3AudioVae {
  GstH3Decoder parent;

  /* settings, under the object lock */
  GstH3AudioLength length;
  guint skip_samples;
  gint chunk;

  H3AudioVaeConfig config;

  /* @decoder was made for these */
  H3AudioDecoder *decoder;
  gpointer model;
  gint decoder_chunk;

  guint64 frames;    /* of the clips before this one on the timeline */
  guint64 skip_left; /* samples to take off the timeline's begin */

  /* the clip: samples [clip_skip, clip_end) go out; past native, zeros */
  guint64 clip_native, clip_skip, clip_end;
};

G_DEFINE_FINAL_TYPE (GstH3AudioVae, gst_h3_audio_vae, GST_TYPE_H3_DECODER)
#define parent_class gst_h3_audio_vae_parent_class
GST_ELEMENT_REGISTER_DEFINE (h3audiovae, "h3audiovae", GST_RANK_NONE,
    GST_TYPE_H3_AUDIO_VAE)

#define GST_TYPE_H3_AUDIO_LENGTH (gst_h3_audio_length_get_type ())
static GType
gst_h3_audio_length_get_type (void)
{
  static gsize once = 0;
  static const GEnumValue values[] = {
    { GST_H3_AUDIO_LENGTH_NATIVE,
        "All samples of the latent, up to 8.33 ms more or less than the "
        "picture",
        "native" },
    { GST_H3_AUDIO_LENGTH_VIDEO,
        "Cut, or padded with silence, to the picture's length, without drift "
        "over many clips",
        "video" },
    { 0, NULL, NULL },
  };

  return gst_h3_enum_register (&once, "GstH3AudioLength", values);
}

/* Model */

static gboolean
gst_h3_audio_vae_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    guint64 *bytes, GError **error)
{
  H3AudioVaeConfig config;

  return h3_audio_vae_plan (checkpoint, &config, bytes, error);
}

static gpointer
gst_h3_audio_vae_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  return h3_audio_vae_load (checkpoint, device, stop, progress, user_data,
      error);
}

static void
gst_h3_audio_vae_unref_model (gpointer model)
{
  h3_audio_vae_unref (model);
}

static gboolean
gst_h3_audio_vae_opened (GstElement *element, const H3Checkpoint *checkpoint,
    GError **error)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (element);
  guint64 bytes;

  if (!h3_audio_vae_plan (checkpoint, &self->config, &bytes, error))
    return FALSE;
  if (self->config.rate != RATE) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "This audio decoder makes %d samples a second; h3audiovae needs one "
        "that makes %d.",
        self->config.rate, RATE);
    return FALSE;
  }
  return TRUE;
}

static const GstH3ModelKind audio_vae_kind = {
  .name = "audio decoder",
  .component = H3_COMPONENT_AUDIO_VAE,
  .plan = gst_h3_audio_vae_plan,
  .load = gst_h3_audio_vae_load,
  .unref = gst_h3_audio_vae_unref_model,
};

static const GstH3CommonFuncs audio_vae_funcs = {
  .kind = &audio_vae_kind,
  .opened = gst_h3_audio_vae_opened,
  .workspace = gst_h3_decoder_workspace,
  .add_stats = gst_h3_decoder_add_stats,
};

/* Caps: whatever the latent, the samples' are the same */

static GstCaps *
gst_h3_audio_vae_transform_caps (GstBaseTransform *trans,
    GstPadDirection direction, GstCaps *caps, GstCaps *filter)
{
  gboolean from_sink = direction == GST_PAD_SINK;
  GstPad *own = from_sink ? trans->sinkpad : trans->srcpad;
  GstPad *other = from_sink ? trans->srcpad : trans->sinkpad;
  g_autoptr (GstCaps) possible = gst_pad_get_pad_template_caps (own);
  GstCaps *result;

  if (!gst_caps_can_intersect (caps, possible))
    return gst_caps_new_empty ();
  result = gst_pad_get_pad_template_caps (other);
  if (filter) {
    GstCaps *filtered =
        gst_caps_intersect_full (filter, result, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref (result);
    result = filtered;
  }
  return result;
}

static gboolean
gst_h3_audio_vae_transform_size (GstBaseTransform *trans,
    GstPadDirection direction, GstCaps *caps, gsize size, GstCaps *othercaps,
    gsize *othersize)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (trans);
  GstH3LatentInfo latent;

  if (direction == GST_PAD_SRC) {
    if (!gst_h3_latent_info_from_caps (&latent, othercaps, NULL))
      return FALSE;
    *othersize = gst_h3_latent_info_size (&latent);
    return TRUE;
  }
  if (!gst_h3_latent_info_from_caps (&latent, caps, NULL))
    return FALSE;
  *othersize = (gsize) latent.frames * self->config.hop * SAMPLE_BYTES;
  return TRUE;
}

static gboolean
gst_h3_audio_vae_set_caps (GstH3Decoder *decoder, const GstH3LatentInfo *info,
    GstCaps *out, GError **error)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (decoder);

  if (info->modality != GST_H3_MODALITY_AUDIO) {
    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "modality=video in the caps: h3audiovae decodes audio latents; link "
        "video to h3videovae.");
    return FALSE;
  }
  if (info->channels != self->config.channels) {
    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "channels=%d in the caps: the audio decoder of this checkpoint takes "
        "latents of %d channels. Use the checkpoint the latents come from.",
        info->channels, self->config.channels);
    return FALSE;
  }
  return TRUE;
}

/* Decoding */

static gint
gst_h3_audio_vae_get_chunk (GstH3AudioVae *self, const GstH3LatentInfo *info)
{
  gint chunk;

  GST_OBJECT_LOCK (self);
  chunk = self->chunk;
  GST_OBJECT_UNLOCK (self);
  return MIN (chunk, info->frames);
}

static guint64
gst_h3_audio_vae_workspace (GstH3Decoder *decoder, const GstH3LatentInfo *info)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (decoder);

  return h3_audio_decoder_workspace (&self->config, decoder->common.device,
      gst_h3_audio_vae_get_chunk (self, info));
}

static void
gst_h3_audio_vae_release (GstH3Decoder *decoder)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (decoder);

  g_clear_pointer (&self->decoder, h3_audio_decoder_free);
  self->model = NULL;
}

static void
gst_h3_audio_vae_restart (GstH3Decoder *decoder)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (decoder);

  self->frames = 0;
  GST_OBJECT_LOCK (self);
  self->skip_left = self->skip_samples;
  GST_OBJECT_UNLOCK (self);
}

/* round (4000 frames / 3), the samples of that many frames; never a tie */
static guint64
gst_h3_audio_vae_samples_of_frames (guint64 frames)
{
  return (4000 * frames + 1) / 3;
}

/* Which samples of the clip go out (audio-vae.md 3, gstreamer.md 10). */
static void
gst_h3_audio_vae_plan_clip (GstH3AudioVae *self, gint latents)
{
  /* the inverse of latents = round (5 frames / 3) */
  guint64 frames = (3 * (guint64) latents + 2) / 5;
  GstH3AudioLength length;

  GST_OBJECT_LOCK (self);
  length = self->length;
  GST_OBJECT_UNLOCK (self);

  self->clip_native = (guint64) latents * self->config.hop;
  self->clip_end = self->clip_native;
  if (length == GST_H3_AUDIO_LENGTH_VIDEO)
    self->clip_end =
        gst_h3_audio_vae_samples_of_frames (self->frames + frames) -
        gst_h3_audio_vae_samples_of_frames (self->frames);
  self->frames += frames;
  self->clip_skip = MIN (self->skip_left, self->clip_end);
  self->skip_left -= self->clip_skip;
}

static gboolean
gst_h3_audio_vae_ensure_decoder (GstH3AudioVae *self, gpointer model,
    GError **error)
{
  GstH3Decoder *decoder = GST_H3_DECODER (self);
  gint chunk = gst_h3_audio_vae_get_chunk (self, &decoder->info);

  if (self->decoder && self->model == model && self->decoder_chunk == chunk)
    return TRUE;
  gst_h3_audio_vae_release (decoder);
  self->decoder = h3_audio_decoder_new (model, decoder->stream, chunk, error);
  self->model = model;
  self->decoder_chunk = chunk;
  return self->decoder != NULL;
}

static gboolean
gst_h3_audio_vae_begin (GstH3Decoder *decoder, gpointer model, H3Tensor *latent,
    guint64 *units, GError **error)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (decoder);

  if (!gst_h3_audio_vae_ensure_decoder (self, model, error) ||
      !h3_audio_decoder_start (self->decoder, latent, error))
    return FALSE;
  gst_h3_audio_vae_plan_clip (self, decoder->info.frames);
  *units = self->clip_end - self->clip_skip;
  return TRUE;
}

/* Samples [begin, end) of the clip, of which @samples holds those from @first;
 * what is past them is silence. */
static gboolean
gst_h3_audio_vae_emit (GstH3AudioVae *self, H3Tensor *samples, guint64 first,
    guint64 begin, guint64 end, GstBuffer **buffer, GError **error)
{
  GstH3Decoder *decoder = GST_H3_DECODER (self);
  GstBaseTransform *trans = GST_BASE_TRANSFORM (self);
  guint64 last = MIN (end, first + h3_tensor_rows (samples));
  guint64 decoded = last > begin ? last - begin : 0;
  gsize size = (end - begin) * SAMPLE_BYTES;
  GstAllocator *allocator = NULL;
  GstAllocationParams params;
  GstMapInfo map;
  gboolean ok;
  g_autoptr (GstBuffer) out = NULL;
  g_autoptr (H3Tensor) view = NULL;

  gst_base_transform_get_allocator (trans, &allocator, &params);
  out = gst_buffer_new_allocate (allocator, size, &params);
  if (allocator)
    gst_object_unref (allocator);
  if (!out || !gst_buffer_map (out, &map, GST_MAP_WRITE)) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "No buffer for %" G_GSIZE_FORMAT " bytes of samples.", size);
    return FALSE;
  }
  if (decoded > 0) {
    view = h3_tensor_view_rows (samples, begin - first, decoded);
    h3_download (decoder->stream, map.data, view);
  }
  ok = h3_stream_synchronize (decoder->stream, error);
  memset (map.data + decoded * SAMPLE_BYTES, 0,
      (end - begin - decoded) * SAMPLE_BYTES);
  gst_buffer_unmap (out, &map);
  if (!ok)
    return FALSE;

  gst_buffer_copy_into (out, decoder->input,
      GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_META, 0, -1);
  gst_h3_decoder_stamp (decoder, out, end - begin);
  *buffer = g_steal_pointer (&out);
  return TRUE;
}

static gboolean
gst_h3_audio_vae_next (GstH3Decoder *decoder, GstBuffer **buffer,
    GError **error)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (decoder);

  while (TRUE) {
    H3Tensor *samples;
    gint first, n;
    guint64 begin, end;

    if (!h3_audio_decoder_next (self->decoder, &decoder->stop, NULL, &samples,
            &first, &n, error))
      return FALSE;
    if (n == 0)
      return TRUE;
    end = (guint64) first + n;
    end = end == self->clip_native ? self->clip_end : MIN (end, self->clip_end);
    begin = MAX ((guint64) first, self->clip_skip);
    if (begin < end)
      return gst_h3_audio_vae_emit (self, samples, first, begin, end, buffer,
          error);
  }
}

/* Object */

static void
gst_h3_audio_vae_set_property (GObject *object, guint prop_id,
    const GValue *value, GParamSpec *pspec)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (object);

  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_LENGTH:
      self->length = g_value_get_enum (value);
      break;
    case PROP_SKIP_SAMPLES:
      self->skip_samples = g_value_get_uint (value);
      break;
    case PROP_CHUNK:
      self->chunk = g_value_get_int (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_h3_audio_vae_get_property (GObject *object, guint prop_id, GValue *value,
    GParamSpec *pspec)
{
  GstH3AudioVae *self = GST_H3_AUDIO_VAE (object);

  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_LENGTH:
      g_value_set_enum (value, self->length);
      break;
    case PROP_SKIP_SAMPLES:
      g_value_set_uint (value, self->skip_samples);
      break;
    case PROP_CHUNK:
      g_value_set_int (value, self->chunk);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_h3_audio_vae_init (GstH3AudioVae *self)
{
  gst_h3_decoder_setup (GST_H3_DECODER (self), &audio_vae_funcs);
  self->length = DEFAULT_LENGTH;
  self->skip_samples = DEFAULT_SKIP_SAMPLES;
  self->chunk = DEFAULT_CHUNK;
}

static void
gst_h3_audio_vae_class_init (GstH3AudioVaeClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);
  GstBaseTransformClass *trans_class = GST_BASE_TRANSFORM_CLASS (klass);
  GstH3DecoderClass *decoder_class = (GstH3DecoderClass *) klass;

  GST_DEBUG_CATEGORY_INIT (h3audiovae_debug, "h3audiovae", 0,
      "MiniMax H3 audio decoder");

  object_class->set_property = gst_h3_audio_vae_set_property;
  object_class->get_property = gst_h3_audio_vae_get_property;

  /**
   * GstH3AudioVae:length:
   *
   * Whether a clip's sound keeps its own length or gets its picture's.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_LENGTH,
      g_param_spec_enum ("length", "Length",
          "How long a clip's sound is; use video where clips follow each "
          "other; a change counts from the next clip.",
          GST_TYPE_H3_AUDIO_LENGTH, DEFAULT_LENGTH,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_PLAYING));
  /**
   * GstH3AudioVae:skip-samples:
   *
   * Samples to take off the front of the stream, for encoders that delay.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_SKIP_SAMPLES,
      g_param_spec_uint ("skip-samples", "Samples to skip",
          "Samples per channel, 31.25 us each, to take off the front of the "
          "stream, so that an AAC encoder's delay in MP4 is made up for: 1024 "
          "for avenc_aac, 1600 for voaacenc; 0 = none.",
          0, RATE, DEFAULT_SKIP_SAMPLES,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_READY));
  /**
   * GstH3AudioVae:chunk:
   *
   * Latents decoded at once. It changes memory and speed, never the samples.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_CHUNK,
      g_param_spec_int ("chunk", "Chunk",
          "Latents, 25 ms each, decoded at once: a smaller chunk needs less "
          "memory and gives sound earlier, a larger one is faster; the samples "
          "are the same.",
          16, 65536, DEFAULT_CHUNK,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_PLAYING));

  gst_element_class_set_static_metadata (element_class,
      "MiniMax H3 audio decoder", "Codec/Decoder/Audio",
      "Takes normalised audio latents, one buffer a clip, and gives the clip's "
      "sound: 32 kHz, stereo, 32-bit float",
      "The gst-h3 developers");
  gst_element_class_add_static_pad_template (element_class, &sink_template);
  gst_element_class_add_static_pad_template (element_class, &src_template);

  trans_class->transform_caps = gst_h3_audio_vae_transform_caps;
  trans_class->transform_size = gst_h3_audio_vae_transform_size;

  decoder_class->unit = "sample";
  decoder_class->rate = RATE;
  decoder_class->set_caps = gst_h3_audio_vae_set_caps;
  decoder_class->workspace = gst_h3_audio_vae_workspace;
  decoder_class->begin = gst_h3_audio_vae_begin;
  decoder_class->next = gst_h3_audio_vae_next;
  decoder_class->release = gst_h3_audio_vae_release;
  decoder_class->restart = gst_h3_audio_vae_restart;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_AUDIO_LENGTH, 0);
}
