/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the two decoders share: one latent in, many buffers out, on one
 * timeline. Private to the plugin. */
#pragma once

#include <gst/base/gstadapter.h>
#include <gst/base/gstbasetransform.h>

#include "gst/gsth3common.h"
#include "gst/gsth3tensor.h"

G_BEGIN_DECLS

#define GST_TYPE_H3_DECODER (gst_h3_decoder_get_type ())
#define GST_H3_DECODER(obj)                                                    \
  (G_TYPE_CHECK_INSTANCE_CAST ((obj), GST_TYPE_H3_DECODER, GstH3Decoder))
#define GST_H3_DECODER_GET_CLASS(obj)                                          \
  (G_TYPE_INSTANCE_GET_CLASS ((obj), GST_TYPE_H3_DECODER, GstH3DecoderClass))

typedef struct _GstH3Decoder GstH3Decoder;
typedef struct _GstH3DecoderClass GstH3DecoderClass;

/**
 * GstH3Decoder:
 *
 * Fields without a lock belong to the streaming thread, and to start() and
 * stop(), when there is none.
 */
struct _GstH3Decoder {
  GstBaseTransform parent;
  GstH3Common common;

  GstH3LatentInfo info; /* of the caps */
  GError *caps_error;   /* why set_caps() refused */
  GstCaps *refused;     /* these, and said so */
  gboolean byte_stream; /* clips are cut out of bytes that have no borders */
  GstAdapter *adapter;  /* those bytes */
  GstBuffer *pending;   /* a clip that came whole */

  H3Stream *stream;
  H3Stop stop;      /* asks @cancel and @ending */
  GstBuffer *input; /* the clip being decoded, or NULL */
  guint64 units;    /* frames or samples it gave so far, and will give */
  guint64 total_units;
  GstH3ProgressReport progress;
  gint64 decode_us; /* without the time spent pushing */
  guint64 held;     /* bytes of workspace kept from the last clip */

  /* the timeline: unit @base_unit of the stream is at @base_time */
  guint64 next_unit, base_unit;
  GstClockTime base_time;
  gboolean has_timeline, new_segment;
  gboolean discont; /* the next buffer out does not follow the last */

  gint cancel; /* atomic: flushing or going down */
  gint ending; /* atomic: no more buffers, only EOS */

  /* under the object lock, for `stats` */
  guint64 clips;
  guint64 units_out;
  guint64 last_clip_us;
  guint64 peak_bytes;
};

/**
 * GstH3DecoderClass:
 * @unit: for messages: "frame"
 * @rate: units per second
 * @set_caps: what the output caps say; the latent's fit the template
 * @workspace: bytes to decode a latent like @info beside the weights
 * @begin: make ready for @latent with the loaded @model; sets the clip's number
 *   of units
 * @next: the clip's next buffer, stamped by gst_h3_decoder_stamp(), or NULL at
 *   the clip's end
 * @choose: (nullable): takes the caps that may come out and returns those that
 *   are to; not empty
 * @release: free everything that refers to the model or the stream
 * @restart: the timeline begins anew with the next clip
 */
struct _GstH3DecoderClass {
  GstBaseTransformClass parent_class;

  const gchar *unit;
  guint rate;

  gboolean (*set_caps) (GstH3Decoder *decoder, const GstH3LatentInfo *info,
      GstCaps *out, GError **error);
  guint64 (*workspace) (GstH3Decoder *decoder, const GstH3LatentInfo *info);
  gboolean (*begin) (GstH3Decoder *decoder, gpointer model, H3Tensor *latent,
      guint64 *units, GError **error);
  gboolean (*next) (GstH3Decoder *decoder, GstBuffer **buffer, GError **error);
  GstCaps *(*choose) (GstH3Decoder *decoder, GstCaps *possible);
  void (*release) (GstH3Decoder *decoder);
  void (*restart) (GstH3Decoder *decoder);
};

GType gst_h3_decoder_get_type (void);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GstH3Decoder, gst_object_unref)

/* To be called from the subclass's instance init. @funcs.workspace and
 * @funcs.add_stats are gst_h3_decoder_workspace(), _add_stats(). */
void gst_h3_decoder_setup (GstH3Decoder *decoder,
    const GstH3CommonFuncs *funcs);
guint64 gst_h3_decoder_workspace (GstElement *element);
void gst_h3_decoder_add_stats (GstElement *element, GstStructure *stats);

/* Ends the clip being decoded, and every later one, without an error, so that
 * EOS can pass; until the next start. The first buffer of a stream still comes:
 * a muxer with a stream that never began may write a broken file. From any
 * thread. */
void gst_h3_decoder_end (GstH3Decoder *decoder);

/* Gives @buffer, which holds the next @units, its place on the timeline. */
void gst_h3_decoder_stamp (GstH3Decoder *decoder, GstBuffer *buffer,
    guint64 units);

G_END_DECLS
