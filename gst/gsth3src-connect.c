/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the streams of h3src's inputs, which have shown what they are, to the
 * elements that read and encode them. */
#include "gst/gsth3denoise.h"
#include "gst/gsth3src-inputs-private.h"
#include "gst/gsth3videovaeenc.h"
#include "model/denoise/geometry.h"

#define GST_CAT_DEFAULT gst_h3_src_debug

/* --- elements --- */

/* An encoder, in READY, set up like the elements that h3src always has. */
static GstElement *
add_encoder (GstH3SrcInputs *self, GstH3SrcBranch *branch, GError **error)
{
  static const gchar *const factories[GST_H3_N_MEDIA] = {
    [GST_H3_MEDIA_VIDEO] = "h3videovaeenc",
    [GST_H3_MEDIA_AUDIO] = "h3audiovaeenc",
  };
  static const gchar *const shared[] = { "model-path", "backend", "residency",
    "memory-budget", "cuda-device-id", "width", "height", "frames",
    "canvas-edge", "reference-edge", "reference-resize" };
  GstElement *encoder =
      gst_h3_src_inputs_make (factories[branch->media], error);

  if (!encoder)
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (shared); i++)
    gst_h3_src_inputs_copy_property (self->text_enc, encoder, shared[i]);
  gst_h3_src_inputs_copy_property (GST_ELEMENT_CAST (self->bin), encoder,
      "condition-encode");
  g_object_set (encoder, "role", branch->input->role, NULL);
  gst_h3_src_inputs_add (branch->input, encoder);
  if (gst_element_set_state (encoder, GST_STATE_READY) ==
      GST_STATE_CHANGE_FAILURE) {
    /* it has said why */
    g_set_error_literal (error, H3_ERROR, H3_ERROR_CANCELLED,
        "an encoder cannot start");
    return NULL;
  }
  return encoder;
}

/* Last to what comes in. The stream is held, but its thread pushes what describes
 * it before it stops there, and from an encoder that does not run yet would hear
 * that it is flushing, and end. */
static gboolean
link_encoder (GstH3SrcInputs *self, GstPad *from, GstElement *encoder,
    const gchar *denoise_pad)
{
  g_autoptr (GstPad) src = gst_element_get_static_pad (encoder, "src");

  return gst_h3_src_inputs_link_request (self, src, self->denoise,
             denoise_pad) &&
         gst_element_sync_state_with_parent (encoder) &&
         gst_h3_src_inputs_link (from, encoder);
}

/* A branch of what comes out of @tee, behind a queue: its end. */
static GstPad *
add_queue (GstH3SrcInput *input, GstElement *tee, GError **error)
{
  GstElement *queue = gst_h3_src_inputs_add_new (input, "queue", error);

  if (!queue)
    return NULL;
  gst_element_link (tee, queue);
  gst_element_sync_state_with_parent (queue);
  return gst_element_get_static_pad (queue, "src");
}

/* --- pictures --- */

/* A last frame beside a first fills the first one's canvas (packing.md 6.1). */
static gboolean
follow_first (GstH3SrcInputs *self, const GstH3SrcInput *last,
    GstElement *encoder, GError **error)
{
  GstH3SrcInput *first = g_ptr_array_index (self->inputs, 0);
  g_autoptr (GstCaps) caps = NULL;
  gint width = 0, height = 0;

  if (last->role != GST_H3_ROLE_LAST_FRAME || first == last)
    return TRUE;
  caps = gst_pad_get_current_caps (first->branches[GST_H3_MEDIA_VIDEO].in);
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
link_video (GstH3SrcInputs *self, GstH3SrcInput *input, GstElement *tee,
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
  g_autoptr (GstPad) to_text = add_queue (input, tee, error);
  g_autoptr (GstPad) to_encoder =
      to_text ? add_queue (input, tee, error) : NULL;

  if (!to_encoder)
    return FALSE;
  if (gst_h3_src_inputs_link_request (self, to_text, self->text_enc,
          text_pad) &&
      link_encoder (self, to_encoder, encoder, denoise_pad) &&
      gst_element_sync_state_with_parent (tee) &&
      gst_h3_src_inputs_link (input->branches[GST_H3_MEDIA_VIDEO].out, tee))
    return TRUE;
  g_set_error_literal (error, GST_CORE_ERROR, GST_CORE_ERROR_PAD,
      "the pictures could not be linked");
  return FALSE;
}

static gboolean
connect_video (GstH3SrcInputs *self, GstH3SrcInput *input, GError **error)
{
  GstElement *encoder =
      add_encoder (self, &input->branches[GST_H3_MEDIA_VIDEO], error);
  GstElement *tee =
      encoder ? gst_h3_src_inputs_add_new (input, "tee", error) : NULL;

  return tee && follow_first (self, input, encoder, error) &&
         link_video (self, input, tee, encoder, error);
}

/* --- sound --- */

/* The text encoder needs to know of a sound, not what it is. */
static gboolean
announce_sound (GstH3SrcInputs *self, const GstH3SrcInput *input)
{
  g_autofree gchar *name = g_strdup_printf ("audio_%u", input->number);
  g_autofree gchar *id = g_strdup_printf ("h3src/%s", name);
  g_autoptr (GstPad) pad =
      gst_object_ref_sink (gst_pad_new (NULL, GST_PAD_SRC));
  g_autoptr (GstCaps) caps =
      gst_pad_get_current_caps (input->branches[GST_H3_MEDIA_AUDIO].in);
  GstSegment segment;

  gst_pad_set_active (pad, TRUE);
  if (!caps ||
      !gst_h3_src_inputs_link_request (self, pad, self->text_enc, name))
    return FALSE;
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_pad_push_event (pad, gst_event_new_stream_start (id));
  gst_pad_push_event (pad, gst_event_new_caps (caps));
  gst_pad_push_event (pad, gst_event_new_segment (&segment));
  gst_pad_push_event (pad, gst_event_new_eos ());
  return TRUE;
}

static gboolean
connect_audio (GstH3SrcInputs *self, GstH3SrcInput *input, GError **error)
{
  GstH3SrcBranch *branch = &input->branches[GST_H3_MEDIA_AUDIO];
  g_autofree gchar *name = g_strdup_printf ("ref_audio_%u", input->number);
  GstElement *encoder = add_encoder (self, branch, error);

  if (!encoder)
    return FALSE;
  if (link_encoder (self, branch->out, encoder, name) &&
      announce_sound (self, input))
    return TRUE;
  g_set_error_literal (error, GST_CORE_ERROR, GST_CORE_ERROR_PAD,
      "the sound could not be linked");
  return FALSE;
}

/* --- inputs --- */

typedef struct {
  gboolean video, audio, cover;
} Content;

static Content
look_into (GstH3SrcInput *input)
{
  Content content;

  g_mutex_lock (&input->owner->lock);
  content.cover = gst_h3_src_input_is_cover (input);
  content.video =
      gst_h3_src_input_has (input, GST_H3_MEDIA_VIDEO) && !content.cover;
  content.audio = gst_h3_src_input_has (input, GST_H3_MEDIA_AUDIO);
  /* nothing of it is waited for */
  input->branches[GST_H3_MEDIA_VIDEO].ended |= content.cover;
  g_mutex_unlock (&input->owner->lock);
  GST_INFO_OBJECT (input->owner->bin, "%s has %s", input->uri,
      content.cover                    ? "sound with a cover"
      : content.video && content.audio ? "pictures and sound"
      : content.video                  ? "pictures"
      : content.audio                  ? "sound"
                                       : "nothing");
  return content;
}

static gboolean
connect_input (GstH3SrcInputs *self, GstH3SrcInput *input, GError **error)
{
  Content content = look_into (input);

  if (!content.video && !content.audio) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT, "there is %s in it",
        input->role == GST_H3_ROLE_REFERENCE
            ? "neither a picture nor a sound that can be read"
            : "no picture that can be read");
    return FALSE;
  }
  return (!content.cover ||
             gst_h3_src_input_ignore (input,
                 input->branches[GST_H3_MEDIA_VIDEO].out, error)) &&
         (!content.video || connect_video (self, input, error)) &&
         (!content.audio || connect_audio (self, input, error));
}

/* References are cut to the clip's length, and a picture may be sized by its
 * area. */
static void
tell_size (GstH3SrcInputs *self)
{
  GstH3SrcInput *input = g_ptr_array_index (self->inputs, 0);
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

/* With lock held. */
static gboolean
all_settled (GstH3SrcInputs *self)
{
  for (guint i = 0; i < self->inputs->len; i++)
    if (!gst_h3_src_input_is_settled (g_ptr_array_index (self->inputs, i)))
      return FALSE;
  return TRUE;
}

void
gst_h3_src_inputs_connect_if_settled (GstH3SrcInputs *self)
{
  gboolean mine;

  g_mutex_lock (&self->lock);
  mine = !self->connected && !self->cancelled && all_settled (self);
  self->connected |= mine;
  g_mutex_unlock (&self->lock);
  if (!mine)
    return;

  tell_size (self);
  for (guint i = 0; i < self->inputs->len; i++) {
    GstH3SrcInput *input = g_ptr_array_index (self->inputs, i);
    GError *error = NULL;

    if (!connect_input (self, input, &error)) {
      /* the streams stay where they are held; READY ends them */
      gst_h3_src_inputs_fail (input, error);
      return;
    }
  }
  gst_h3_src_inputs_release (self);
}
