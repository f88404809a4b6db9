/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What travels between the elements: application/x-h3-embeds and -latent. */
#pragma once

#include <gst/h3/gsth3prelude.h>
#include <gst/h3/gsth3memory.h>

G_BEGIN_DECLS

#define GST_H3_EMBEDS_MEDIA_TYPE "application/x-h3-embeds"
#define GST_H3_LATENT_MEDIA_TYPE "application/x-h3-latent"

#define GST_H3_EMBEDS_FIELDS                                                   \
  "task = (string) { t2va, fl2va, ref2va }, type = (string) float32, "         \
  "tokens = (int) [ 1, 1048576 ], hidden = (int) [ 1, 65536 ]"
#define GST_H3_VIDEO_LATENT_FIELDS                                             \
  "modality = (string) video, type = (string) float32, "                       \
  "channels = (int) [ 1, 128 ], frames = (int) [ 1, 65536 ], "                 \
  "height = (int) [ 2, 2048 ], width = (int) [ 2, 2048 ], "                    \
  "framerate = (fraction) 24/1"
#define GST_H3_AUDIO_LATENT_FIELDS                                             \
  "modality = (string) audio, type = (string) float32, "                       \
  "channels = (int) [ 1, 128 ], frames = (int) [ 1, 1048576 ], "               \
  "audio-channels = (int) 2, rate = (int) 32000"

/* Device memory first, then the same in system memory. */
#define GST_H3_CAPS_MAKE(media_type, fields)                                   \
  media_type "(" GST_CAPS_FEATURE_MEMORY_H3_DEVICE "), " fields                \
             "; " media_type ", " fields

#define GST_H3_EMBEDS_CAPS                                                     \
  GST_H3_CAPS_MAKE (GST_H3_EMBEDS_MEDIA_TYPE, GST_H3_EMBEDS_FIELDS)
#define GST_H3_VIDEO_LATENT_CAPS                                               \
  GST_H3_CAPS_MAKE (GST_H3_LATENT_MEDIA_TYPE, GST_H3_VIDEO_LATENT_FIELDS)
#define GST_H3_AUDIO_LATENT_CAPS                                               \
  GST_H3_CAPS_MAKE (GST_H3_LATENT_MEDIA_TYPE, GST_H3_AUDIO_LATENT_FIELDS)

/* Pictures and moments of clips that a prompt can show: 9 pictures, 3 clips of
 * 16. */
#define GST_H3_MAX_VISION_BLOCKS 64

/**
 * GstH3EmbedsInfo: prompt embeddings, a buffer of [tokens, hidden]
 * @task: interned: "t2va", "fl2va" (keyframes) or "ref2va" (references)
 * @references: how many keyframes or references the prompt was read with, in the
 *   field `references`; none for t2va
 * @vision: the rows [first, first + n) that hold something seen, in the field
 *   `vision` as an array < first, n, first, n, ... >; ascending
 */
typedef struct {
  const gchar *task;
  GstH3Type type;
  gint tokens;
  gint hidden;
  gint references;
  guint n_vision;
  struct {
    gint first, n;
  } vision[GST_H3_MAX_VISION_BLOCKS];
} GstH3EmbedsInfo;

typedef enum {
  GST_H3_MODALITY_VIDEO, /* [channels, frames, height, width] */
  GST_H3_MODALITY_AUDIO, /* [audio_channels, channels, frames] */
} GstH3Modality;

/**
 * GstH3LatentInfo: a normalised latent
 * @frames: latents in time: of F pictures, video (F - 5) / 17 * 5 + 2, audio
 *   round (5 F / 3)
 * @height, @width: of the latent: a sixteenth of the picture's; video only
 * @audio_channels: 2; audio only
 */
typedef struct {
  GstH3Modality modality;
  GstH3Type type;
  gint channels;
  gint frames;
  gint height, width;
  gint audio_channels;
} GstH3LatentInfo;

/* FALSE with GST_CORE_ERROR_NEGOTIATION naming the field, what it holds and
 * what it may hold, unless @caps are fixed and complete. */
GST_H3_API
gboolean gst_h3_embeds_info_from_caps (GstH3EmbedsInfo *info,
    const GstCaps *caps, GError **error);
GST_H3_API
gboolean gst_h3_latent_info_from_caps (GstH3LatentInfo *info,
    const GstCaps *caps, GError **error);

/* Fixed caps. @device: with the feature memory:H3Device. (transfer full) */
GST_H3_API
GstCaps *gst_h3_embeds_info_to_caps (const GstH3EmbedsInfo *info,
    gboolean device);
GST_H3_API
GstCaps *gst_h3_latent_info_to_caps (const GstH3LatentInfo *info,
    gboolean device);

/* Bytes of a buffer. */
GST_H3_API
gsize gst_h3_embeds_info_size (const GstH3EmbedsInfo *info);
GST_H3_API
gsize gst_h3_latent_info_size (const GstH3LatentInfo *info);

/* The tensor's shape; returns the rank. */
GST_H3_API
guint gst_h3_latent_info_shape (const GstH3LatentInfo *info,
    gint64 dim[GST_H3_MAX_RANK]);

/* A copy of @caps with the device-memory feature in front of the same in system
 * memory. (transfer full) */
GST_H3_API
GstCaps *gst_h3_caps_with_features (const GstCaps *caps);

G_END_DECLS
