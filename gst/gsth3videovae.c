/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * SECTION:element-h3videovae
 * @title: h3videovae
 * @short_description: decodes MiniMax H3 video latents to raw frames
 *
 * Takes one latent per clip and gives its frames, 24 a second, sixteen times
 * as wide and high as the latent. Frames leave in groups of 17, as soon as they
 * are final, so the memory needed does not depend on the length of the clip.
 *
 * Latents come from h3denoise, or from a file: with the byte stream of a
 * `filesrc` the caps say where one clip ends and the next begins.
 *
 * On an NVIDIA GPU, and when the plugin was built with `-Dgstcuda`, frames can
 * stay there: an element that names `memory:CUDAMemory` in its caps, as NVENC's
 * encoders do, gets them so. To anything else they come in system memory.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 -e filesrc location=prompt.txt ! text/x-raw,format=utf8 ! h3textenc ! h3denoise name=d d.video ! h3videovae ! x264enc ! h264parse ! mp4mux ! filesink location=clip.mp4
 * ]|
 * |[
 * gst-launch-1.0 filesrc location=clip.latent ! application/x-h3-latent,modality=video,type=float32,channels=24,frames=7,height=48,width=84,framerate=24/1 ! h3videovae ! videoconvert ! autovideosink
 * ]|
 *
 * Since: 0.1
 */
#include "gst/gsth3videovae.h"

#include <gst/video/gstvideometa.h>
#include <gst/video/gstvideopool.h>
#include <gst/video/video.h>

#include "gst/gsth3cudaframes.h"
#include "gst/gsth3elements.h"
#include "gst/gsth3negotiate.h"
#include "model/video/video-vae.h"

GST_DEBUG_CATEGORY_STATIC (h3videovae_debug);
#define GST_CAT_DEFAULT h3videovae_debug

#define DEFAULT_COMPOSITION H3_COMPOSITION_RAW
#define DEFAULT_QUANTIZE H3_QUANTIZE_ROUND

enum { PROP_COMPOSITION = GST_H3_N_COMMON_PROPS, PROP_QUANTIZE };

/* Pixels of a latent's edge (video-vae.md 1). */
#define RATIO 16

#define SIZE_FIELDS                                                            \
  ", width = (int) [ 32, 32768, 16 ], height = (int) [ 32, 32768, 16 ], "      \
  "framerate = (fraction) 24/1, pixel-aspect-ratio = (fraction) 1/1, "         \
  "interlace-mode = (string) progressive, "
/* clang-format off */
#ifdef H3_HAVE_GSTCUDA
#define CUDA_FRAMES "video/x-raw(" GST_H3_CUDA_MEMORY "), format = (string) "
#define CUDA_SRC_CAPS                                                          \
  CUDA_FRAMES "{ NV12, I420 }" SIZE_FIELDS                                     \
  "colorimetry = (string) bt709, chroma-site = (string) mpeg2; "               \
  CUDA_FRAMES "Y444" SIZE_FIELDS                                               \
  "colorimetry = (string) bt709; "                                             \
  CUDA_FRAMES "RGBA" SIZE_FIELDS                                               \
  "colorimetry = (string) sRGB; "
#else
#define CUDA_SRC_CAPS
#endif
/* clang-format on */
#define SRC_CAPS                                                               \
  CUDA_SRC_CAPS                                                                \
  "video/x-raw, format = (string) { NV12, I420 }" SIZE_FIELDS                  \
  "colorimetry = (string) bt709, chroma-site = (string) mpeg2; "               \
  "video/x-raw, format = (string) Y444" SIZE_FIELDS                            \
  "colorimetry = (string) bt709; "                                             \
  "video/x-raw, format = (string) { RGB, RGBA }" SIZE_FIELDS                   \
  "colorimetry = (string) sRGB"

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE ("sink",
    GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_H3_VIDEO_LATENT_CAPS));
static GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE ("src",
    GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (SRC_CAPS));

/**
 * GstH3VideoVae:
 *
 * @config belongs to the state change NULL→READY, the rest to the streaming
 * thread.
 */
struct _GstH3VideoVae {
  GstH3Decoder parent;

  /* settings, under the object lock */
  H3Composition composition;
  H3Quantize quantize;

  GstObject *cuda_context; /* GstH3CudaFrames' @shared */

  H3VideoVaeConfig config;
  GstVideoInfo video_info;
  const GstH3CudaFrames *cuda; /* when the output is CUDA memory */

  /* @decoder was made for these */
  H3VideoDecoder *decoder;
  gpointer model;
  gint latent_h, latent_w;
  H3Composition decoder_composition;

  H3Tensor *nonfinite; /* int32 [1] */
  H3Tensor *staging;   /* a frame on its way to another CUDA context, or NULL */
  H3Quantize clip_quantize; /* this clip's */
  H3Tensor *window;         /* frames final now; the decoder's */
  gint window_n, window_next;
};

G_DEFINE_FINAL_TYPE (GstH3VideoVae, gst_h3_video_vae, GST_TYPE_H3_DECODER)
#define parent_class gst_h3_video_vae_parent_class
GST_ELEMENT_REGISTER_DEFINE (h3videovae, "h3videovae", GST_RANK_NONE,
    GST_TYPE_H3_VIDEO_VAE)

#define GST_TYPE_H3_COMPOSITION (gst_h3_composition_get_type ())
static GType
gst_h3_composition_get_type (void)
{
  static gsize once = 0;
  static const GEnumValue values[] = {
    { H3_COMPOSITION_RAW,
        "Blend each tile with its neighbours as decoded, like the release",
        "raw" },
    { H3_COMPOSITION_COMPOSITED,
        "Blend each tile into what is composed so far, like ComfyUI",
        "composited" },
    { 0, NULL, NULL },
  };

  return gst_h3_enum_register (&once, "GstH3Composition", values);
}

#define GST_TYPE_H3_QUANTIZE (gst_h3_quantize_get_type ())
static GType
gst_h3_quantize_get_type (void)
{
  static gsize once = 0;
  static const GEnumValue values[] = {
    { H3_QUANTIZE_ROUND, "Round to the nearest code, like diffusers", "round" },
    { H3_QUANTIZE_TRUNC, "Cut the fraction off, like ComfyUI and SGLang",
        "trunc" },
    { 0, NULL, NULL },
  };

  return gst_h3_enum_register (&once, "GstH3Quantize", values);
}

/* Model */

static gboolean
gst_h3_video_vae_plan (const H3Checkpoint *checkpoint, const H3Device *device,
    guint64 *bytes, GError **error)
{
  H3VideoVaeConfig config;

  return h3_video_vae_plan (checkpoint, device, &config, bytes, error);
}

static gpointer
gst_h3_video_vae_load (const H3Checkpoint *checkpoint, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error)
{
  return h3_video_vae_load (checkpoint, device, stop, progress, user_data,
      error);
}

static void
gst_h3_video_vae_unref_model (gpointer model)
{
  h3_video_vae_unref (model);
}

static gboolean
gst_h3_video_vae_opened (GstElement *element, const H3Checkpoint *checkpoint,
    GError **error)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (element);
  guint64 bytes;

  if (!h3_video_vae_plan (checkpoint, NULL, &self->config, &bytes, error))
    return FALSE;
  if (self->config.ratio != RATIO) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "This video decoder makes %d pixels of a latent's edge; h3videovae "
        "needs one that makes %d.",
        self->config.ratio, RATIO);
    return FALSE;
  }
  return TRUE;
}

static const GstH3ModelKind video_vae_kind = {
  .name = "video decoder",
  .component = H3_COMPONENT_VIDEO_VAE,
  .plan = gst_h3_video_vae_plan,
  .load = gst_h3_video_vae_load,
  .unref = gst_h3_video_vae_unref_model,
};

static const GstH3CommonFuncs video_vae_funcs = {
  .kind = &video_vae_kind,
  .opened = gst_h3_video_vae_opened,
  .workspace = gst_h3_decoder_workspace,
  .add_stats = gst_h3_decoder_add_stats,
};

/* Caps */

static gboolean
gst_h3_video_vae_names_cuda (const GstCaps *caps, guint i)
{
  GstCapsFeatures *features = gst_caps_get_features (caps, i);

  return !gst_caps_features_is_any (features) &&
         gst_caps_features_contains (features, GST_H3_CUDA_MEMORY);
}

static gboolean
gst_h3_video_vae_drop_cuda (GstCapsFeatures *features, GstStructure *structure,
    gpointer user_data)
{
  return !gst_caps_features_contains (features, GST_H3_CUDA_MEMORY);
}

/* The source pad's template, without CUDA memory where there is none. */
static GstCaps *
gst_h3_video_vae_source_caps (GstH3VideoVae *self)
{
  GstCaps *caps =
      gst_pad_get_pad_template_caps (GST_BASE_TRANSFORM_SRC_PAD (self));
  H3Device *device = GST_H3_DECODER (self)->common.device;

  if (!device || gst_h3_cuda_frames_for (device))
    return caps;
  caps = gst_caps_make_writable (caps);
  gst_caps_filter_and_map_in_place (caps, gst_h3_video_vae_drop_cuda, NULL);
  return caps;
}

/* CUDA memory only for who asks for it by name: its rows are padded, and a
 * filesink, which takes anything, would write the padding. */
static GstCaps *
gst_h3_video_vae_choose (GstH3Decoder *decoder, GstCaps *possible)
{
  g_autoptr (GstCaps) peer =
      gst_pad_peer_query_caps (GST_BASE_TRANSFORM_SRC_PAD (decoder), NULL);
  GstCaps *others = gst_caps_copy (possible);
  gboolean named = FALSE;

  for (guint i = 0; !gst_caps_is_any (peer) && i < gst_caps_get_size (peer);
       i++)
    named |= gst_h3_video_vae_names_cuda (peer, i);
  gst_caps_filter_and_map_in_place (others, gst_h3_video_vae_drop_cuda, NULL);
  if (named || gst_caps_is_empty (others)) {
    gst_caps_unref (others);
    return possible;
  }
  gst_caps_unref (possible);
  return others;
}

static GstCaps *
gst_h3_video_vae_transform_caps (GstBaseTransform *trans,
    GstPadDirection direction, GstCaps *caps, GstCaps *filter)
{
  gboolean to_pixels = direction == GST_PAD_SINK;
  g_autoptr (GstCaps) latents = gst_pad_get_pad_template_caps (trans->sinkpad);
  g_autoptr (GstCaps) pictures =
      gst_h3_video_vae_source_caps (GST_H3_VIDEO_VAE (trans));
  GstCaps *own = to_pixels ? latents : pictures;
  GstCaps *other = to_pixels ? pictures : latents;
  g_autoptr (GstCaps) possible = gst_caps_intersect (caps, own);
  GstCaps *result = gst_caps_new_empty ();

  for (guint i = 0; i < gst_caps_get_size (possible); i++) {
    GstCaps *one = gst_caps_copy (other);
    if (gst_h3_limit_sizes (one, gst_caps_get_structure (possible, i), RATIO,
            to_pixels))
      result = gst_caps_merge (result, gst_caps_intersect (one, other));
    gst_caps_unref (one);
  }
  if (filter) {
    GstCaps *filtered =
        gst_caps_intersect_full (filter, result, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref (result);
    result = filtered;
  }
  return result;
}

static gboolean
gst_h3_video_vae_set_caps (GstH3Decoder *decoder, const GstH3LatentInfo *info,
    GstCaps *out, GError **error)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (decoder);

  if (info->modality != GST_H3_MODALITY_VIDEO) {
    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "modality=audio in the caps: h3videovae decodes video latents; link "
        "audio to h3audiovae.");
    return FALSE;
  }
  if (info->channels != self->config.channels) {
    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "channels=%d in the caps: the video decoder of this checkpoint takes "
        "latents of %d channels. Use the checkpoint the latents come from.",
        info->channels, self->config.channels);
    return FALSE;
  }
  if (!gst_video_info_from_caps (&self->video_info, out)) {
    g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
        "The output caps are no picture format.");
    return FALSE;
  }
  self->cuda = gst_h3_video_vae_names_cuda (out, 0)
                   ? gst_h3_cuda_frames_for (decoder->common.device)
                   : NULL;
  return TRUE;
}

static gboolean
gst_h3_video_vae_transform_size (GstBaseTransform *trans,
    GstPadDirection direction, GstCaps *caps, gsize size, GstCaps *othercaps,
    gsize *othersize)
{
  GstVideoInfo info;
  GstH3LatentInfo latent;

  if (direction == GST_PAD_SINK) {
    if (!gst_video_info_from_caps (&info, othercaps))
      return FALSE;
    *othersize = info.size;
  } else {
    if (!gst_h3_latent_info_from_caps (&latent, othercaps, NULL))
      return FALSE;
    *othersize = gst_h3_latent_info_size (&latent);
  }
  return TRUE;
}

/* Downstream's pool, else one of ours; NULL with the decoder's caps_error. */
static GstBufferPool *
gst_h3_video_vae_choose_pool (GstH3VideoVae *self, GstQuery *query)
{
  GstH3Decoder *decoder = GST_H3_DECODER (self);
  GstBufferPool *pool = NULL;

  if (self->cuda)
    return self->cuda->choose_pool (GST_ELEMENT (self), query,
        decoder->common.device->ordinal, &self->cuda_context,
        &decoder->caps_error);
  if (gst_query_get_n_allocation_pools (query) > 0)
    gst_query_parse_nth_allocation_pool (query, 0, &pool, NULL, NULL, NULL);
  return pool ? pool : gst_video_buffer_pool_new ();
}

static gboolean
gst_h3_video_vae_decide_allocation (GstBaseTransform *trans, GstQuery *query)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (trans);
  GstBufferPool *pool;
  GstStructure *config;
  GstCaps *caps;
  GstVideoInfo info;
  guint size, min = 0, max = 0;
  gboolean update = gst_query_get_n_allocation_pools (query) > 0;

  gst_query_parse_allocation (query, &caps, NULL);
  if (!caps || !gst_video_info_from_caps (&info, caps))
    return FALSE;
  size = info.size;
  if (update) {
    guint peer_size;
    gst_query_parse_nth_allocation_pool (query, 0, NULL, &peer_size, &min,
        &max);
    size = MAX (size, peer_size);
  }
  pool = gst_h3_video_vae_choose_pool (self, query);
  if (!pool)
    return FALSE;

  config = gst_buffer_pool_get_config (pool);
  gst_buffer_pool_config_set_params (config, caps, size, min, max);
  /* who takes CUDA memory knows that its rows are padded */
  if (self->cuda ||
      gst_query_find_allocation_meta (query, GST_VIDEO_META_API_TYPE, NULL))
    gst_buffer_pool_config_add_option (config,
        GST_BUFFER_POOL_OPTION_VIDEO_META);
  gst_buffer_pool_set_config (pool, config);
  /* which may be larger now, with the padding */
  config = gst_buffer_pool_get_config (pool);
  gst_buffer_pool_config_get_params (config, NULL, &size, NULL, NULL);
  gst_structure_free (config);

  if (update)
    gst_query_set_nth_allocation_pool (query, 0, pool, size, min, max);
  else
    gst_query_add_allocation_pool (query, pool, size, min, max);
  gst_object_unref (pool);

  return GST_BASE_TRANSFORM_CLASS (parent_class)
      ->decide_allocation (trans, query);
}

/* Decoding */

static guint64
gst_h3_video_vae_workspace (GstH3Decoder *decoder, const GstH3LatentInfo *info)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (decoder);

  return h3_video_decoder_workspace (&self->config, decoder->common.device,
      info->height, info->width);
}

static void
gst_h3_video_vae_release (GstH3Decoder *decoder)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (decoder);

  g_clear_pointer (&self->decoder, h3_video_decoder_free);
  g_clear_pointer (&self->nonfinite, h3_tensor_unref);
  g_clear_pointer (&self->staging, h3_tensor_unref);
  self->model = NULL;
  self->window = NULL;
  self->window_n = self->window_next = 0;
}

/* The decoder and its workspace stay while model, size and settings do. */
static gboolean
gst_h3_video_vae_ensure_decoder (GstH3VideoVae *self, gpointer model,
    GError **error)
{
  GstH3Decoder *decoder = GST_H3_DECODER (self);
  const GstH3LatentInfo *info = &decoder->info;
  H3Composition composition;

  GST_OBJECT_LOCK (self);
  composition = self->composition;
  self->clip_quantize = self->quantize;
  GST_OBJECT_UNLOCK (self);

  if (self->decoder && self->model == model && self->latent_h == info->height &&
      self->latent_w == info->width && self->decoder_composition == composition)
    return TRUE;

  gst_h3_video_vae_release (decoder);
  self->nonfinite =
      h3_tensor_new_1d (decoder->common.device, H3_DTYPE_I32, 1, error);
  if (!self->nonfinite)
    return FALSE;
  self->decoder = h3_video_decoder_new (model, decoder->stream, info->height,
      info->width, composition, error);
  self->model = model;
  self->latent_h = info->height;
  self->latent_w = info->width;
  self->decoder_composition = composition;
  return self->decoder != NULL;
}

/* Such values make black pixels (video-vae.md 16), which should not puzzle. */
static gboolean
gst_h3_video_vae_warn_nonfinite (GstH3VideoVae *self, const H3Tensor *latent,
    GError **error)
{
  H3Stream *stream = GST_H3_DECODER (self)->stream;
  gint32 count = 0;

  h3_count_nonfinite (stream, self->nonfinite, latent);
  h3_download (stream, &count, self->nonfinite);
  if (!h3_stream_synchronize (stream, error))
    return FALSE;
  if (count > 0)
    GST_ELEMENT_WARNING (self, STREAM, FAILED,
        ("%d of the %" G_GINT64_FORMAT " numbers of a latent are NaN or "
         "infinite: the pixels they reach are black.",
            count, h3_tensor_size (latent)),
        ("the latent was not made by a working denoiser"));
  return TRUE;
}

static gboolean
gst_h3_video_vae_begin (GstH3Decoder *decoder, gpointer model, H3Tensor *latent,
    guint64 *units, GError **error)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (decoder);

  if (!gst_h3_video_vae_ensure_decoder (self, model, error) ||
      !gst_h3_video_vae_warn_nonfinite (self, latent, error) ||
      !h3_video_decoder_start (self->decoder, latent, error))
    return FALSE;
  self->window = NULL;
  self->window_n = self->window_next = 0;
  *units = h3_video_decoder_frames (self->decoder);
  return TRUE;
}

static H3PictureFormat
gst_h3_video_vae_picture_format (GstVideoFormat format)
{
  switch (format) {
    case GST_VIDEO_FORMAT_NV12:
      return H3_PICTURE_NV12;
    case GST_VIDEO_FORMAT_I420:
      return H3_PICTURE_I420;
    case GST_VIDEO_FORMAT_Y444:
      return H3_PICTURE_Y444;
    case GST_VIDEO_FORMAT_RGB:
      return H3_PICTURE_RGB;
    default: /* the template has no other */
      return H3_PICTURE_RGBA;
  }
}

static void
gst_h3_video_vae_point_to (H3Picture *picture, GstVideoFrame *frame)
{
  for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES (frame); i++) {
    picture->plane[i] = GST_VIDEO_FRAME_PLANE_DATA (frame, i);
    picture->stride[i] = GST_VIDEO_FRAME_PLANE_STRIDE (frame, i);
  }
}

static gboolean
gst_h3_video_vae_emit_to_host (GstH3VideoVae *self, H3EmitPictureArgs *args,
    GstBuffer *buffer, GError **error)
{
  H3Stream *stream = GST_H3_DECODER (self)->stream;
  GstVideoFrame out;
  gboolean ok;

  if (!gst_video_frame_map (&out, &self->video_info, buffer, GST_MAP_WRITE)) {
    g_set_error (error, H3_ERROR, H3_ERROR_DEVICE,
        "A buffer from downstream's pool cannot be written to.");
    return FALSE;
  }
  gst_h3_video_vae_point_to (&args->picture, &out);
  h3_emit_picture (stream, args);
  ok = h3_stream_synchronize (stream, error);
  gst_video_frame_unmap (&out);
  return ok;
}

/* Where a frame is made that has to be copied into another context. */
static gboolean
gst_h3_video_vae_point_to_staging (GstH3VideoVae *self, H3Picture *picture,
    GError **error)
{
  const GstVideoInfo *info = &self->video_info;

  if (self->staging && self->staging->bytes != GST_VIDEO_INFO_SIZE (info))
    g_clear_pointer (&self->staging, h3_tensor_unref);
  if (!self->staging)
    self->staging = h3_tensor_new_1d (GST_H3_DECODER (self)->common.device,
        H3_DTYPE_U8, GST_VIDEO_INFO_SIZE (info), error);
  if (!self->staging)
    return FALSE;
  for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES (info); i++) {
    picture->plane[i] =
        (guint8 *) self->staging->data + GST_VIDEO_INFO_PLANE_OFFSET (info, i);
    picture->stride[i] = GST_VIDEO_INFO_PLANE_STRIDE (info, i);
  }
  return TRUE;
}

/* Waits before the frame is pushed: its memory says nothing of our stream, and
 * whoever reads it waits for nobody. */
static gboolean
gst_h3_video_vae_emit_to_gpu (GstH3VideoVae *self, H3EmitPictureArgs *args,
    GstBuffer *buffer, GError **error)
{
  H3Stream *stream = GST_H3_DECODER (self)->stream;
  gint ordinal = stream->device->ordinal;
  GstVideoFrame out;
  gboolean direct, ok = TRUE;

  if (!self->cuda->map (&out, &self->video_info, buffer, ordinal, &direct,
          error))
    return FALSE;
  args->picture.on_device = TRUE;
  if (direct)
    gst_h3_video_vae_point_to (&args->picture, &out);
  else
    ok = gst_h3_video_vae_point_to_staging (self, &args->picture, error);
  if (ok) {
    h3_emit_picture (stream, args);
    ok = h3_stream_synchronize (stream, error) &&
         (direct ||
             self->cuda->copy (&out, buffer, &args->picture, ordinal, error));
  }
  gst_video_frame_unmap (&out);
  return ok;
}

static gboolean
gst_h3_video_vae_emit (GstH3VideoVae *self, gint frame, GstBuffer *buffer,
    GError **error)
{
  H3EmitPictureArgs args = {
    .picture = {
        .format = gst_h3_video_vae_picture_format (
            GST_VIDEO_INFO_FORMAT (&self->video_info)),
        .width = GST_VIDEO_INFO_WIDTH (&self->video_info),
        .height = GST_VIDEO_INFO_HEIGHT (&self->video_info),
    },
    .pixels = self->window,
    .frame = frame,
    .quantize = self->clip_quantize,
  };

  memcpy (args.mean, self->config.pixel_mean, sizeof args.mean);
  memcpy (args.std, self->config.pixel_std, sizeof args.std);
  return self->cuda
             ? gst_h3_video_vae_emit_to_gpu (self, &args, buffer, error)
             : gst_h3_video_vae_emit_to_host (self, &args, buffer, error);
}

static gboolean
gst_h3_video_vae_next (GstH3Decoder *decoder, GstBuffer **buffer,
    GError **error)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (decoder);
  GstBaseTransform *trans = GST_BASE_TRANSFORM (decoder);
  GstBuffer *frame = NULL;

  if (self->window_next == self->window_n) {
    gint first;
    if (!h3_video_decoder_next (self->decoder, &decoder->stop, NULL,
            &self->window, &first, &self->window_n, error))
      return FALSE;
    self->window_next = 0;
    if (self->window_n == 0)
      return TRUE;
  }

  if (GST_BASE_TRANSFORM_GET_CLASS (trans)->prepare_output_buffer (trans,
          decoder->input, &frame) != GST_FLOW_OK) {
    /* the pool is flushing, or out of memory */
    if (h3_stop_requested (&decoder->stop, error))
      return FALSE;
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "No buffer for a frame of %" G_GSIZE_FORMAT " bytes.",
        GST_VIDEO_INFO_SIZE (&self->video_info));
    return FALSE;
  }
  if (!gst_h3_video_vae_emit (self, self->window_next, frame, error)) {
    gst_buffer_unref (frame);
    return FALSE;
  }
  self->window_next++;
  gst_h3_decoder_stamp (decoder, frame, 1);
  *buffer = frame;
  return TRUE;
}

/* CUDA context */

/* In any state: sinks change state first, and an encoder asks for a context when
 * we have not been opened. */
static gboolean
gst_h3_video_vae_answer_context (GstH3VideoVae *self, GstQuery *query)
{
  const GstH3CudaFrames *frames = NULL;
  g_autoptr (H3Device) device = NULL;
  const gchar *type;

  if (!gst_query_parse_context_type (query, &type) ||
      g_strcmp0 (type, GST_H3_CUDA_CONTEXT_TYPE) != 0 ||
      !gst_h3_cuda_frames_load ())
    return FALSE;
  device = gst_h3_common_get_device (&GST_H3_DECODER (self)->common, NULL);
  if (device)
    frames = gst_h3_cuda_frames_for (device);
  return frames && frames->answer (GST_ELEMENT (self), query, device->ordinal,
                       &self->cuda_context);
}

static gboolean
gst_h3_video_vae_query (GstBaseTransform *trans, GstPadDirection direction,
    GstQuery *query)
{
  return (GST_QUERY_TYPE (query) == GST_QUERY_CONTEXT &&
             gst_h3_video_vae_answer_context (GST_H3_VIDEO_VAE (trans),
                 query)) ||
         GST_BASE_TRANSFORM_CLASS (parent_class)
             ->query (trans, direction, query);
}

static void
gst_h3_video_vae_set_context (GstElement *element, GstContext *context)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (element);
  const GstH3CudaFrames *frames = NULL;

  if (gst_context_has_context_type (context, GST_H3_CUDA_CONTEXT_TYPE))
    frames = gst_h3_cuda_frames_load ();
  if (frames)
    frames->set_context (element, context, &self->cuda_context);
  GST_ELEMENT_CLASS (parent_class)->set_context (element, context);
}

/* Object */

static void
gst_h3_video_vae_finalize (GObject *object)
{
  gst_clear_object (&GST_H3_VIDEO_VAE (object)->cuda_context);
  G_OBJECT_CLASS (parent_class)->finalize (object);
}

static void
gst_h3_video_vae_set_property (GObject *object, guint prop_id,
    const GValue *value, GParamSpec *pspec)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (object);

  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_COMPOSITION:
      self->composition = g_value_get_enum (value);
      break;
    case PROP_QUANTIZE:
      self->quantize = g_value_get_enum (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_h3_video_vae_get_property (GObject *object, guint prop_id, GValue *value,
    GParamSpec *pspec)
{
  GstH3VideoVae *self = GST_H3_VIDEO_VAE (object);

  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_COMPOSITION:
      g_value_set_enum (value, self->composition);
      break;
    case PROP_QUANTIZE:
      g_value_set_enum (value, self->quantize);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_h3_video_vae_init (GstH3VideoVae *self)
{
  gst_h3_decoder_setup (GST_H3_DECODER (self), &video_vae_funcs);
  self->composition = DEFAULT_COMPOSITION;
  self->quantize = DEFAULT_QUANTIZE;
}

static void
gst_h3_video_vae_class_init (GstH3VideoVaeClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);
  GstBaseTransformClass *trans_class = GST_BASE_TRANSFORM_CLASS (klass);
  GstH3DecoderClass *decoder_class = (GstH3DecoderClass *) klass;

  GST_DEBUG_CATEGORY_INIT (h3videovae_debug, "h3videovae", 0,
      "MiniMax H3 video decoder");

  object_class->set_property = gst_h3_video_vae_set_property;
  object_class->get_property = gst_h3_video_vae_get_property;
  object_class->finalize = gst_h3_video_vae_finalize;
  element_class->set_context = gst_h3_video_vae_set_context;

  /**
   * GstH3VideoVae:composition:
   *
   * How the tiles of a large frame are joined. The release blends raw
   * neighbours; ComfyUI since August 2026 blends into the composed frame.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_COMPOSITION,
      g_param_spec_enum ("composition", "Tile composition",
          "How the tiles of a frame larger than 256 pixels are joined; a "
          "change counts from the next clip.",
          GST_TYPE_H3_COMPOSITION, DEFAULT_COMPOSITION,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_PLAYING));
  /**
   * GstH3VideoVae:quantize:
   *
   * How a pixel's value becomes 8 bits.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_QUANTIZE,
      g_param_spec_enum ("quantize", "Quantisation",
          "How a pixel's value becomes 8 bits; a change counts from the next "
          "clip.",
          GST_TYPE_H3_QUANTIZE, DEFAULT_QUANTIZE,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_PLAYING));

  gst_element_class_set_static_metadata (element_class,
      "MiniMax H3 video decoder", "Codec/Decoder/Video",
      "Takes normalised video latents, one buffer a clip, and gives the clip's "
      "raw frames: 24 a second, BT.709, sixteen times the latent's size",
      "The gst-h3 developers");
  gst_element_class_add_static_pad_template (element_class, &sink_template);
  gst_element_class_add_static_pad_template (element_class, &src_template);

  trans_class->transform_caps = gst_h3_video_vae_transform_caps;
  trans_class->transform_size = gst_h3_video_vae_transform_size;
  trans_class->query = gst_h3_video_vae_query;
  trans_class->decide_allocation = gst_h3_video_vae_decide_allocation;

  decoder_class->unit = "frame";
  decoder_class->rate = 24;
  decoder_class->set_caps = gst_h3_video_vae_set_caps;
  decoder_class->workspace = gst_h3_video_vae_workspace;
  decoder_class->choose = gst_h3_video_vae_choose;
  decoder_class->begin = gst_h3_video_vae_begin;
  decoder_class->next = gst_h3_video_vae_next;
  decoder_class->release = gst_h3_video_vae_release;

  gst_type_mark_as_plugin_api (GST_TYPE_H3_COMPOSITION, 0);
  gst_type_mark_as_plugin_api (GST_TYPE_H3_QUANTIZE, 0);
}
