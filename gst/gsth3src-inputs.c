/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3src-inputs.h"

#include <stdio.h>

#include "gst/gsth3denoise.h"
#include "gst/gsth3error.h"
#include "gst/gsth3videovaeenc.h"
#include "model/denoise/condition.h"
#include "model/denoise/geometry.h"

GST_DEBUG_CATEGORY_EXTERN (gst_h3_src_debug);
#define GST_CAT_DEFAULT gst_h3_src_debug

typedef enum { MEDIA_VIDEO, MEDIA_AUDIO, N_MEDIA } Media;

/* To raw frames and samples as the encoders take them, upright, at their own
 * size and rate. */
static const gchar *const chains[N_MEDIA] = {
  [MEDIA_VIDEO] = "videoconvert dither=none ! video/x-raw,format=RGB ! "
                  "videoflip video-direction=auto",
  [MEDIA_AUDIO] = "audioconvert dithering=none ! capsfilter caps=\""
                  "audio/x-raw,format=F32LE,layout=interleaved,"
                  "channels=[1,2]\"",
};

/* A stream goes on for so long after what is used of it, so that the timestamps
 * need not be exact. */
#define CUT_MARGIN (2 * GST_SECOND)

typedef struct _Input Input;

/* One stream of an input. What is not said to be of a thread is under lock. */
typedef struct {
  Input *input;
  Media media;
  GstElement *chain;   /* the bin's; NULL: there is no such stream */
  GstElement *encoder; /* the bin's */
  GstPad *pad;         /* the chain's end; owned */
  gulong hold;         /* the probe that holds it */
  gboolean settled;    /* a buffer waits, or the stream had EOS */
  gboolean empty;      /* it had EOS */

  /* of the streaming thread */
  guint64 passed; /* buffers */
  GstClockTime start;
} Branch;

struct _Input {
  GstH3SrcInputs *owner;
  GstH3Role role;
  guint number; /* of references, from 0 */
  gchar *uri;
  GstElement *decode; /* the bin's */
  gboolean complete;  /* all of its streams are known */
  Branch branches[N_MEDIA];
};

struct _GstH3SrcInputs {
  GstBin *bin;
  GstElement *prompt, *text_enc, *denoise;

  GMutex lock;         /* never held while calling an element */
  GPtrArray *inputs;   /* Input; changed in READY only */
  GPtrArray *elements; /* GstElement that were added to the bin */
  GPtrArray *requests; /* GstPad of text_enc and denoise */
  GstPad *prompt_pad;
  gulong prompt_hold, prompt_filter;
  gboolean connected; /* the streams go on, or are about to */
  gboolean cancelled;
  GstClockTime length; /* of a reference that is used; of the connecting thread,
                          then constant */
};

static void
input_free (gpointer data)
{
  Input *input = data;

  for (Media m = 0; m < N_MEDIA; m++)
    gst_clear_object (&input->branches[m].pad);
  g_free (input->uri);
  g_free (input);
}

GstH3SrcInputs *
gst_h3_src_inputs_new (GstBin *bin, GstElement *prompt, GstElement *text_enc,
    GstElement *denoise)
{
  GstH3SrcInputs *self = g_new0 (GstH3SrcInputs, 1);

  self->bin = bin;
  self->prompt = prompt;
  self->text_enc = text_enc;
  self->denoise = denoise;
  g_mutex_init (&self->lock);
  self->inputs = g_ptr_array_new_with_free_func (input_free);
  self->elements = g_ptr_array_new ();
  self->requests = g_ptr_array_new ();
  return self;
}

void
gst_h3_src_inputs_free (GstH3SrcInputs *self)
{
  g_ptr_array_unref (self->requests);
  g_ptr_array_unref (self->elements);
  g_ptr_array_unref (self->inputs);
  g_mutex_clear (&self->lock);
  g_free (self);
}

static gchar *
input_name (const Input *input)
{
  switch (input->role) {
    case GST_H3_ROLE_FIRST_FRAME:
      return g_strdup_printf ("The first frame (%s)", input->uri);
    case GST_H3_ROLE_LAST_FRAME:
      return g_strdup_printf ("The last frame (%s)", input->uri);
    default:
      return g_strdup_printf ("Reference %u (%s)", input->number + 1,
          input->uri);
  }
}

/* Takes @error. */
static void
fail (GstH3SrcInputs *self, GError *error)
{
  gst_h3_element_error (GST_ELEMENT_CAST (self->bin), error,
      "reading keyframes and references");
  g_error_free (error);
}

/* --- elements --- */

/* In the bin, which owns it, and here: in this order, or who takes all out in
 * another thread might miss the bin. */
static GstElement *
add_element (GstH3SrcInputs *self, GstElement *element)
{
  gst_object_ref_sink (element);
  gst_bin_add (self->bin, element);
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->elements, element);
  g_mutex_unlock (&self->lock);
  return element;
}

static GstElement *
add_new (GstH3SrcInputs *self, const gchar *factory, GError **error)
{
  GstElement *element = gst_element_factory_make (factory, NULL);

  if (element)
    return add_element (self, element);
  g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_MISSING_PLUGIN,
      "The element \"%s\" is needed to read keyframes and references, and is "
      "not installed",
      factory);
  return NULL;
}

static gboolean
link_to (GstPad *from, GstElement *to)
{
  g_autoptr (GstPad) sink = gst_element_get_static_pad (to, "sink");

  return gst_pad_link (from, sink) == GST_PAD_LINK_OK;
}

/* Requests @name from h3textenc or h3denoise and links @from to it. */
static gboolean
link_request (GstH3SrcInputs *self, GstPad *from, GstElement *to,
    const gchar *name)
{
  GstPad *pad = gst_element_request_pad_simple (to, name);

  if (!pad)
    return FALSE;
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->requests, pad);
  g_mutex_unlock (&self->lock);
  return gst_pad_link (from, pad) == GST_PAD_LINK_OK;
}

/* --- how much of a stream goes on --- */

static gboolean
is_enough (Branch *branch, GstBuffer *buffer)
{
  GstH3SrcInputs *self = branch->input->owner;
  GstClockTime pts = GST_BUFFER_PTS (buffer);

  if (branch->input->role != GST_H3_ROLE_REFERENCE)
    return branch->passed > 0;
  if (branch->passed == 0)
    branch->start = pts;
  return GST_CLOCK_TIME_IS_VALID (self->length) &&
         GST_CLOCK_TIME_IS_VALID (pts) &&
         GST_CLOCK_TIME_IS_VALID (branch->start) && pts > branch->start &&
         pts - branch->start > self->length + CUT_MARGIN;
}

/* A film of two hours is not decoded for its first five seconds. */
static GstPadProbeReturn
cut (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  Branch *branch = data;

  if (!is_enough (branch, GST_PAD_PROBE_INFO_BUFFER (info))) {
    branch->passed++;
    return GST_PAD_PROBE_OK;
  }
  gst_pad_push_event (pad, gst_event_new_eos ());
  gst_buffer_unref (GST_PAD_PROBE_INFO_BUFFER (info));
  GST_PAD_PROBE_INFO_FLOW_RETURN (info) = GST_FLOW_EOS;
  return GST_PAD_PROBE_HANDLED;
}

/* --- connecting, once all inputs have shown what they are --- */

static void
copy_property (GstElement *from, GstElement *to, const gchar *name)
{
  GValue value = G_VALUE_INIT;
  GParamSpec *to_spec =
      g_object_class_find_property (G_OBJECT_GET_CLASS (to), name);
  GParamSpec *from_spec =
      g_object_class_find_property (G_OBJECT_GET_CLASS (from), name);

  if (!to_spec || !from_spec)
    return;
  g_value_init (&value, from_spec->value_type);
  g_object_get_property (G_OBJECT (from), name, &value);
  g_object_set_property (G_OBJECT (to), name, &value);
  g_value_unset (&value);
}

/* An encoder, in READY, set up like the elements that h3src always has. */
static GstElement *
add_encoder (GstH3SrcInputs *self, Branch *branch, GError **error)
{
  static const gchar *const factories[N_MEDIA] = {
    [MEDIA_VIDEO] = "h3videovaeenc",
    [MEDIA_AUDIO] = "h3audiovaeenc",
  };
  static const gchar *const shared[] = { "model-path", "backend", "residency",
    "memory-budget", "cuda-device-id", "width", "height", "frames",
    "canvas-edge", "reference-edge", "reference-resize" };
  GstElement *encoder = add_new (self, factories[branch->media], error);

  if (!encoder)
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (shared); i++)
    copy_property (self->text_enc, encoder, shared[i]);
  copy_property (GST_ELEMENT_CAST (self->bin), encoder, "condition-encode");
  g_object_set (encoder, "role", branch->input->role, NULL);
  g_mutex_lock (&self->lock);
  branch->encoder = encoder;
  g_mutex_unlock (&self->lock);
  if (gst_element_set_state (encoder, GST_STATE_READY) ==
      GST_STATE_CHANGE_FAILURE) {
    /* it has said why */
    g_set_error_literal (error, H3_ERROR, H3_ERROR_CANCELLED,
        "an encoder cannot start");
    return NULL;
  }
  return encoder;
}

static gboolean
link_encoder (GstH3SrcInputs *self, GstPad *from, GstElement *encoder,
    const gchar *denoise_pad)
{
  g_autoptr (GstPad) src = gst_element_get_static_pad (encoder, "src");

  return link_to (from, encoder) &&
         link_request (self, src, self->denoise, denoise_pad) &&
         gst_element_sync_state_with_parent (encoder);
}

/* A branch of what comes out of @tee, behind a queue: its end. */
static GstPad *
add_queue (GstH3SrcInputs *self, GstElement *tee, GError **error)
{
  GstElement *queue = add_new (self, "queue", error);

  if (!queue)
    return NULL;
  gst_element_link (tee, queue);
  gst_element_sync_state_with_parent (queue);
  return gst_element_get_static_pad (queue, "src");
}

/* A last frame beside a first fills the first one's canvas (packing.md 6.1). */
static gboolean
follow_first (GstH3SrcInputs *self, const Input *last, GstElement *encoder,
    GError **error)
{
  Input *first = g_ptr_array_index (self->inputs, 0);
  g_autoptr (GstCaps) caps = NULL;
  gint width = 0, height = 0;

  if (last->role != GST_H3_ROLE_LAST_FRAME || first == last)
    return TRUE;
  caps = gst_pad_get_current_caps (first->branches[MEDIA_VIDEO].pad);
  if (caps) {
    const GstStructure *s = gst_caps_get_structure (caps, 0);

    gst_structure_get_int (s, "width", &width);
    gst_structure_get_int (s, "height", &height);
  }
  if (!gst_h3_video_vae_enc_canvas (GST_H3_VIDEO_VAE_ENC (encoder), width,
          height, &width, &height, error))
    return FALSE;
  g_object_set (encoder, "width", width, "height", height, "fit",
      GST_H3_FIT_COVER, NULL);
  return TRUE;
}

static gboolean
link_video (GstH3SrcInputs *self, Input *input, GstElement *tee,
    GstElement *encoder, GError **error)
{
  gboolean reference = input->role == GST_H3_ROLE_REFERENCE;
  gboolean last = input->role == GST_H3_ROLE_LAST_FRAME;
  g_autofree gchar *text_pad = reference
                                   ? g_strdup_printf ("video_%u", input->number)
                                   : g_strdup_printf ("image_%u", last);
  g_autofree gchar *denoise_pad =
      reference ? g_strdup_printf ("ref_%u", input->number)
                : g_strdup (last ? "last_frame" : "first_frame");
  g_autoptr (GstPad) to_text = add_queue (self, tee, error);
  g_autoptr (GstPad) to_encoder = to_text ? add_queue (self, tee, error) : NULL;

  if (!to_encoder)
    return FALSE;
  if (link_request (self, to_text, self->text_enc, text_pad) &&
      link_encoder (self, to_encoder, encoder, denoise_pad) &&
      gst_element_sync_state_with_parent (tee) &&
      link_to (input->branches[MEDIA_VIDEO].pad, tee))
    return TRUE;
  g_set_error_literal (error, GST_CORE_ERROR, GST_CORE_ERROR_PAD,
      "the pictures could not be linked");
  return FALSE;
}

static gboolean
connect_video (GstH3SrcInputs *self, Input *input, GError **error)
{
  GstElement *encoder =
      add_encoder (self, &input->branches[MEDIA_VIDEO], error);
  GstElement *tee = encoder ? add_new (self, "tee", error) : NULL;

  return tee && follow_first (self, input, encoder, error) &&
         link_video (self, input, tee, encoder, error);
}

/* The text encoder needs to know of a sound, not what it is. */
static gboolean
announce_sound (GstH3SrcInputs *self, const Input *input)
{
  g_autofree gchar *name = g_strdup_printf ("audio_%u", input->number);
  g_autofree gchar *id = g_strdup_printf ("h3src/%s", name);
  g_autoptr (GstPad) pad =
      gst_object_ref_sink (gst_pad_new (NULL, GST_PAD_SRC));
  g_autoptr (GstCaps) caps =
      gst_pad_get_current_caps (input->branches[MEDIA_AUDIO].pad);
  GstSegment segment;

  gst_pad_set_active (pad, TRUE);
  if (!caps || !link_request (self, pad, self->text_enc, name))
    return FALSE;
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_pad_push_event (pad, gst_event_new_stream_start (id));
  gst_pad_push_event (pad, gst_event_new_caps (caps));
  gst_pad_push_event (pad, gst_event_new_segment (&segment));
  gst_pad_push_event (pad, gst_event_new_eos ());
  return TRUE;
}

static gboolean
connect_audio (GstH3SrcInputs *self, Input *input, GError **error)
{
  Branch *branch = &input->branches[MEDIA_AUDIO];
  g_autofree gchar *name = g_strdup_printf ("ref_audio_%u", input->number);
  GstElement *encoder = add_encoder (self, branch, error);

  if (!encoder)
    return FALSE;
  if (link_encoder (self, branch->pad, encoder, name) &&
      announce_sound (self, input))
    return TRUE;
  g_set_error_literal (error, GST_CORE_ERROR, GST_CORE_ERROR_PAD,
      "the sound could not be linked");
  return FALSE;
}

static gboolean
is_there (const Input *input, Media media)
{
  return input->branches[media].chain && !input->branches[media].empty;
}

static gboolean
connect_input (GstH3SrcInputs *self, Input *input, GError **error)
{
  gboolean video = is_there (input, MEDIA_VIDEO);
  gboolean audio = is_there (input, MEDIA_AUDIO);
  gboolean good = video || audio;

  GST_INFO_OBJECT (self->bin, "%s has %s", input->uri,
      video && audio ? "pictures and sound"
      : video        ? "pictures"
      : audio        ? "sound"
                     : "nothing");
  for (Media m = 0; m < N_MEDIA; m++)
    if (is_there (input, m))
      gst_pad_add_probe (input->branches[m].pad, GST_PAD_PROBE_TYPE_BUFFER, cut,
          &input->branches[m], NULL);
  if (!good)
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT, "there is %s in it",
        input->role == GST_H3_ROLE_REFERENCE
            ? "neither a picture nor a sound that can be read"
            : "no picture that can be read");
  good = good && (!video || connect_video (self, input, error)) &&
         (!audio || connect_audio (self, input, error));
  if (!good) {
    g_autofree gchar *name = input_name (input);

    g_prefix_error (error, "%s: ", name);
  }
  return good;
}

static void
remove_probe (GstPad *pad, gulong *id)
{
  if (*id)
    gst_pad_remove_probe (pad, *id);
  *id = 0;
}

static void
release_all (GstH3SrcInputs *self)
{
  for (guint i = 0; i < self->inputs->len; i++) {
    Input *input = g_ptr_array_index (self->inputs, i);

    for (Media m = 0; m < N_MEDIA; m++)
      remove_probe (input->branches[m].pad, &input->branches[m].hold);
  }
  remove_probe (self->prompt_pad, &self->prompt_hold);
}

/* With lock held. */
static gboolean
all_settled (GstH3SrcInputs *self)
{
  for (guint i = 0; i < self->inputs->len; i++) {
    Input *input = g_ptr_array_index (self->inputs, i);

    if (!input->complete)
      return FALSE;
    for (Media m = 0; m < N_MEDIA; m++)
      if (input->branches[m].chain && !input->branches[m].settled)
        return FALSE;
  }
  return TRUE;
}

/* References are cut to the clip's length, and a picture may be sized by its
 * area. */
static void
tell_size (GstH3SrcInputs *self)
{
  Input *input = g_ptr_array_index (self->inputs, 0);
  gint width, height, frames;

  self->length = GST_CLOCK_TIME_NONE;
  if (!gst_h3_denoise_get_size (GST_H3_DENOISE (self->denoise), &width, &height,
          &frames))
    return; /* it will say why */
  self->length = gst_util_uint64_scale (frames, GST_SECOND, H3_FPS);
  g_object_set (self->text_enc, "frames", (guint) frames, NULL);
  if (input->role == GST_H3_ROLE_REFERENCE)
    g_object_set (self->text_enc, "width", width, "height", height, NULL);
}

/* From whatever thread brought the last news. */
static void
connect_if_settled (GstH3SrcInputs *self)
{
  GError *error = NULL;
  gboolean mine;

  g_mutex_lock (&self->lock);
  mine = !self->connected && !self->cancelled && all_settled (self);
  self->connected |= mine;
  g_mutex_unlock (&self->lock);
  if (!mine)
    return;

  tell_size (self);
  for (guint i = 0; i < self->inputs->len; i++)
    if (!connect_input (self, g_ptr_array_index (self->inputs, i), &error)) {
      /* the streams stay where they are held; READY ends them */
      fail (self, error);
      return;
    }
  release_all (self);
}

/* --- decoding --- */

static GstPadProbeReturn
hold (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  Branch *branch = data;
  GstH3SrcInputs *self = branch->input->owner;
  gboolean eos = FALSE;

  if (GST_PAD_PROBE_INFO_TYPE (info) & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM) {
    eos = GST_EVENT_TYPE (GST_PAD_PROBE_INFO_EVENT (info)) == GST_EVENT_EOS;
    if (!eos)
      return GST_PAD_PROBE_PASS;
  }
  g_mutex_lock (&self->lock);
  if (!branch->settled)
    branch->empty = eos;
  branch->settled = TRUE;
  g_mutex_unlock (&self->lock);
  connect_if_settled (self);
  return GST_PAD_PROBE_OK;
}

/* A second stream of a kind, or one that a keyframe has no use for. */
static void
ignore_pad (GstH3SrcInputs *self, GstPad *pad)
{
  GError *error = NULL;
  GstElement *sink = add_new (self, "fakesink", &error);

  if (!sink) {
    fail (self, error);
    return;
  }
  /* after one buffer it has seen enough, and says so upstream */
  g_object_set (sink, "sync", FALSE, "async", FALSE, "num-buffers", 1, NULL);
  gst_element_sync_state_with_parent (sink);
  link_to (pad, sink);
}

/* The first stream of a kind is the input's. */
static gboolean
begin_branch (Branch *branch, GstPad *pad, GError **error)
{
  GstH3SrcInputs *self = branch->input->owner;
  GstElement *chain =
      gst_parse_bin_from_description (chains[branch->media], TRUE, error);
  GstPad *end;

  if (!chain)
    return FALSE;
  end = gst_element_get_static_pad (chain, "src");
  g_mutex_lock (&self->lock);
  branch->chain = chain;
  branch->pad = end;
  branch->hold = gst_pad_add_probe (end,
      GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER |
          GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
      hold, branch, NULL);
  g_mutex_unlock (&self->lock);
  add_element (self, chain);
  gst_element_sync_state_with_parent (chain);
  if (link_to (pad, chain))
    return TRUE;
  g_set_error_literal (error, GST_CORE_ERROR, GST_CORE_ERROR_PAD,
      "a stream could not be linked");
  return FALSE;
}

static void
pad_added (GstElement *decode, GstPad *pad, gpointer data)
{
  Input *input = data;
  g_autoptr (GstCaps) caps = gst_pad_query_caps (pad, NULL);
  const gchar *type =
      gst_caps_get_size (caps) > 0
          ? gst_structure_get_name (gst_caps_get_structure (caps, 0))
          : "";
  gboolean video = g_str_has_prefix (type, "video/");
  gboolean audio =
      g_str_has_prefix (type, "audio/") && input->role == GST_H3_ROLE_REFERENCE;
  Branch *branch = &input->branches[video ? MEDIA_VIDEO : MEDIA_AUDIO];
  GError *error = NULL;

  GST_DEBUG_OBJECT (input->owner->bin, "%s: %" GST_PTR_FORMAT, input->uri,
      caps);
  if ((!video && !audio) || branch->chain) {
    ignore_pad (input->owner, pad);
  } else if (!begin_branch (branch, pad, &error)) {
    g_autofree gchar *name = input_name (input);

    g_prefix_error (&error, "%s: ", name);
    fail (input->owner, error);
  }
}

static void
no_more_pads (GstElement *decode, gpointer data)
{
  Input *input = data;

  g_mutex_lock (&input->owner->lock);
  input->complete = TRUE;
  g_mutex_unlock (&input->owner->lock);
  connect_if_settled (input->owner);
}

/* Only jpegparse reads how a camera was held, and up to GStreamer 1.22 it must be
 * asked for. NULL: the order stays. */
G_GNUC_BEGIN_IGNORE_DEPRECATIONS
static GValueArray *
sort_decoders (GstElement *decode, GstPad *pad, GstCaps *caps,
    GValueArray *factories, gpointer data)
{
  const GstStructure *s = gst_caps_get_structure (caps, 0);
  g_autoptr (GstElementFactory) parser = NULL;
  GValueArray *sorted;
  GValue value = G_VALUE_INIT;

  if (!gst_structure_has_name (s, "image/jpeg") ||
      gst_structure_has_field (s, "parsed") ||
      !(parser = gst_element_factory_find ("jpegparse")))
    return NULL;
  g_value_init (&value, G_TYPE_OBJECT);
  g_value_set_object (&value, parser);
  sorted = g_value_array_copy (factories);
  g_value_array_prepend (sorted, &value);
  g_value_unset (&value);
  return sorted;
}
G_GNUC_END_IGNORE_DEPRECATIONS

/* A file of that name is meant, whatever its name looks like. */
static gchar *
to_uri (const gchar *where, GError **error)
{
  if (!g_file_test (where, G_FILE_TEST_EXISTS) && gst_uri_is_valid (where))
    return g_strdup (where);
  return gst_filename_to_uri (where, error);
}

static gboolean
add_input (GstH3SrcInputs *self, GstH3Role role, guint number,
    const gchar *where, GError **error)
{
  Input *input;
  gchar *uri;

  if (!where || !*where) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS, "The path of %s is empty",
        role == GST_H3_ROLE_FIRST_FRAME  ? "first-frame"
        : role == GST_H3_ROLE_LAST_FRAME ? "last-frame"
                                         : "one of the references");
    return FALSE;
  }
  uri = to_uri (where, error);
  if (!uri)
    return FALSE;
  input = g_new0 (Input, 1);
  input->owner = self;
  input->role = role;
  input->number = number;
  input->uri = uri;
  for (Media m = 0; m < N_MEDIA; m++)
    input->branches[m] = (Branch){ .input = input, .media = m };
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->inputs, input);
  g_mutex_unlock (&self->lock);

  input->decode = add_new (self, "uridecodebin", error);
  if (!input->decode)
    return FALSE;
  g_object_set (input->decode, "uri", uri, NULL);
  g_signal_connect (input->decode, "pad-added", G_CALLBACK (pad_added), input);
  g_signal_connect (input->decode, "autoplug-sort", G_CALLBACK (sort_decoders),
      NULL);
  g_signal_connect (input->decode, "no-more-pads", G_CALLBACK (no_more_pads),
      input);
  return TRUE;
}

/* --- opening and closing --- */

static GstPadProbeReturn
hold_prompt (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn
filter_prompt (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  GstH3SrcInputs *self = data;
  gboolean cancelled;

  g_mutex_lock (&self->lock);
  cancelled = self->cancelled;
  g_mutex_unlock (&self->lock);
  return cancelled ? GST_PAD_PROBE_DROP : GST_PAD_PROBE_OK;
}

static void
watch_prompt (GstH3SrcInputs *self)
{
  self->prompt_pad = gst_element_get_static_pad (self->prompt, "src");
  self->prompt_hold = gst_pad_add_probe (self->prompt_pad,
      GST_PAD_PROBE_TYPE_BLOCK_DOWNSTREAM, hold_prompt, NULL, NULL);
  self->prompt_filter = gst_pad_add_probe (self->prompt_pad,
      GST_PAD_PROBE_TYPE_BUFFER, filter_prompt, self, NULL);
}

static gboolean
check_settings (const gchar *first, const gchar *last,
    const gchar *const *references, GError **error)
{
  guint n = references ? g_strv_length ((gchar **) references) : 0;

  if (n > 0 && (first || last)) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "%s and references are both set: a clip takes keyframes or references",
        first && last ? "first-frame, last-frame"
        : first       ? "first-frame"
                      : "last-frame");
    return FALSE;
  }
  if (n > H3_MAX_REFERENCES) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "references has %u entries, at most %d can be used", n,
        H3_MAX_REFERENCES);
    return FALSE;
  }
  return TRUE;
}

gboolean
gst_h3_src_inputs_open (GstH3SrcInputs *self, const gchar *first,
    const gchar *last, const gchar *const *references, GError **error)
{
  gboolean good;

  gst_h3_src_inputs_close (self); /* those of a start that failed */
  self->connected = self->cancelled = FALSE;
  /* what an earlier clip's references had set */
  copy_property (self->denoise, self->text_enc, "width");
  copy_property (self->denoise, self->text_enc, "height");
  good = check_settings (first, last, references, error);
  if (good && first)
    good = add_input (self, GST_H3_ROLE_FIRST_FRAME, 0, first, error);
  if (good && last)
    good = add_input (self, GST_H3_ROLE_LAST_FRAME, 0, last, error);
  for (guint i = 0; good && references && references[i]; i++)
    good = add_input (self, GST_H3_ROLE_REFERENCE, i, references[i], error);
  if (good && self->inputs->len > 0)
    watch_prompt (self);
  if (!good)
    gst_h3_src_inputs_close (self);
  return good;
}

static gpointer
pop (GstH3SrcInputs *self, GPtrArray *array)
{
  gpointer last = NULL;

  g_mutex_lock (&self->lock);
  if (array->len > 0)
    last = g_ptr_array_remove_index (array, array->len - 1);
  g_mutex_unlock (&self->lock);
  return last;
}

/* Threads may still run, and add some. The last are furthest downstream: who is
 * held there gets free first. */
static void
remove_elements (GstH3SrcInputs *self)
{
  GstElement *element;

  while ((element = pop (self, self->elements))) {
    gst_element_set_locked_state (element, TRUE);
    gst_element_set_state (element, GST_STATE_NULL);
    gst_bin_remove (self->bin, element);
    gst_object_unref (element);
  }
}

void
gst_h3_src_inputs_close (GstH3SrcInputs *self)
{
  GPtrArray *inputs;
  GstPad *pad;

  remove_elements (self);
  while ((pad = pop (self, self->requests))) {
    GstElement *parent = gst_pad_get_parent_element (pad);

    gst_element_release_request_pad (parent, pad);
    gst_object_unref (parent);
    gst_object_unref (pad);
  }
  if (self->prompt_pad) {
    remove_probe (self->prompt_pad, &self->prompt_hold);
    remove_probe (self->prompt_pad, &self->prompt_filter);
  }
  gst_clear_object (&self->prompt_pad);

  g_mutex_lock (&self->lock);
  inputs = self->inputs;
  self->inputs = g_ptr_array_new_with_free_func (input_free);
  g_mutex_unlock (&self->lock);
  g_ptr_array_unref (inputs);
}

void
gst_h3_src_inputs_cancel (GstH3SrcInputs *self)
{
  gulong hold = 0;

  g_mutex_lock (&self->lock);
  if (!self->connected && self->prompt_pad) {
    self->cancelled = TRUE;
    hold = self->prompt_hold;
    self->prompt_hold = 0;
  }
  g_mutex_unlock (&self->lock);
  if (!hold)
    return;
  /* the bin waits for decoders on its way to PLAYING, and EOS with it */
  remove_elements (self);
  gst_pad_remove_probe (self->prompt_pad, hold);
}

/* --- errors --- */

/* Whether it comes from what reads this input. With lock held. */
static gboolean
is_from (const Input *input, GstObject *source)
{
  GstElement *mine[1 + 2 * N_MEDIA] = { input->decode };

  for (Media m = 0; m < N_MEDIA; m++) {
    mine[1 + m] = input->branches[m].chain;
    mine[1 + N_MEDIA + m] = input->branches[m].encoder;
  }
  for (guint i = 0; i < G_N_ELEMENTS (mine); i++)
    if (mine[i] && gst_object_has_as_ancestor (source, GST_OBJECT (mine[i])))
      return TRUE;
  return FALSE;
}

/* Whether h3textenc speaks of the pad that this input comes in on. */
static gboolean
is_on_pad (const Input *input, const gchar *text)
{
  gchar media[6];
  guint number;

  if (sscanf (text, "Pad \"%5[a-z]_%u\"", media, &number) != 2)
    return FALSE;
  if (input->role == GST_H3_ROLE_REFERENCE)
    return number == input->number && !g_str_equal (media, "image");
  return g_str_equal (media, "image") &&
         number == (input->role == GST_H3_ROLE_LAST_FRAME);
}

static gchar *
find_name (GstH3SrcInputs *self, GstObject *source, const gchar *text)
{
  gboolean reads_prompt = source == GST_OBJECT_CAST (self->text_enc);
  gchar *name = NULL;

  g_mutex_lock (&self->lock);
  for (guint i = 0; i < self->inputs->len && !name; i++) {
    Input *input = g_ptr_array_index (self->inputs, i);

    if (is_from (input, source) || (reads_prompt && is_on_pad (input, text)))
      name = input_name (input);
  }
  g_mutex_unlock (&self->lock);
  return name;
}

GstMessage *
gst_h3_src_inputs_name_error (GstH3SrcInputs *self, GstMessage *message)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *debug = NULL;
  g_autofree gchar *name = NULL;
  GstMessage *named;

  gst_message_parse_error (message, &error, &debug);
  name = find_name (self, GST_MESSAGE_SRC (message), error->message);
  if (!name)
    return message;
  g_prefix_error (&error, "%s: ", name);
  named = gst_message_new_error (GST_MESSAGE_SRC (message), error, debug);
  gst_message_unref (message);
  return named;
}
