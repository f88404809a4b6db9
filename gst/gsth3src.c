/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * SECTION:element-h3src
 * @title: h3src
 * @short_description: a prompt in, a clip of video and stereo sound out
 *
 * A bin of h3textenc, h3denoise, h3videovae and h3audiovae with one prompt in
 * front. It has the properties of all four under their own names; what several
 * of them have (`model-path`, `backend`) is set for all at once, and one alone
 * is reached through the child proxy: `textenc::memory-budget`.
 *
 * It generates one clip and ends with EOS. Back in READY, another prompt can be
 * set for the next. Either pad may stay unlinked. Each pad has a thread of its
 * own; a queue after it lets the decoder work on while an encoder does.
 *
 * With `first-frame`, `last-frame` or both the clip begins or ends with a
 * picture; without width and height it has the first one's shape. `references`
 * are what the prompt speaks of, as <Picture 1>, <Video 1> and <Audio 1> in their
 * order: pictures, clips with their sound, sounds. They are files or URIs of
 * whatever GStreamer can decode, read anew for each clip; what they are is found
 * out: one picture or more, sound or none. A sound's one picture is its cover,
 * which is not looked at. One that brings nothing for `input-timeout` is an
 * error.
 *
 * EOS sent to the element (gst-launch-1.0 -e and an interrupt) cancels the clip
 * and ends the stream with what has been made of it.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 -e h3src name=h3 prompt="a red circle moves right on a blue background, high tone" width=96 height=64 frames=22 h3.video ! queue ! x264enc ! h264parse ! mux.video_0 h3.audio ! queue ! avenc_aac ! aacparse ! mux.audio_0 mp4mux name=mux ! filesink location=clip.mp4
 * ]|
 * |[
 * gst-launch-1.0 h3src name=h3 prompt="<Picture 1> speaks like <Audio 1>" references='<face.jpg, voice.wav>' h3.video ! videoconvert ! autovideosink h3.audio ! audioconvert ! autoaudiosink
 * ]|
 *
 * Since: 0.1
 */
#include "gst/gsth3src.h"

#include "gst/gsth3audiovae.h"
#include "gst/gsth3denoise.h"
#include "gst/gsth3elements.h"
#include "gst/gsth3error.h"
#include "gst/gsth3promptsrc.h"
#include "gst/gsth3src-inputs.h"
#include "gst/gsth3strings.h"
#include "gst/gsth3textenc.h"
#include "gst/gsth3videovae.h"
#include "gst/gsth3videovaeenc.h"
#include "model/video/video-encoder.h"

GST_DEBUG_CATEGORY (gst_h3_src_debug);
#define GST_CAT_DEFAULT gst_h3_src_debug

#define DEFAULT_PROMPT NULL
#define DEFAULT_FIRST_FRAME NULL
#define DEFAULT_LAST_FRAME NULL
#define DEFAULT_INPUT_TIMEOUT (30 * GST_SECOND)

/* After the properties below, one for each of the children's. */
enum {
  PROP_PROMPT = 1,
  PROP_STATS,
  PROP_FIRST_FRAME,
  PROP_LAST_FRAME,
  PROP_REFERENCES,
  PROP_CONDITION_ENCODE,
  PROP_INPUT_TIMEOUT,
  PROP_FIRST_PROXY
};

typedef enum {
  CHILD_TEXT_ENC,
  CHILD_DENOISE,
  CHILD_VIDEO_VAE,
  CHILD_AUDIO_VAE,
  N_CHILDREN
} Child;

static const gchar *const child_names[N_CHILDREN] = { "textenc", "denoise",
  "videovae", "audiovae" };

struct _GstH3Src {
  GstBin parent;

  /* under the object lock */
  gchar *prompt, *first_frame, *last_frame;
  gchar **references; /* NULL: none */
  gint posterior;     /* of GST_TYPE_H3_POSTERIOR */
  GstClockTime input_timeout;
  gboolean ending; /* EOS was sent: the clip is to be cancelled */
  guint64 job;     /* the denoiser's last */

  GstH3PromptSrc *source;
  GstElement *children[N_CHILDREN];
  GstH3SrcInputs *inputs;
  gboolean chose_partition; /* of state changes: "auto" is to be restored */
};

G_DEFINE_FINAL_TYPE_WITH_CODE (GstH3Src, gst_h3_src, GST_TYPE_BIN,
    G_IMPLEMENT_INTERFACE (GST_TYPE_PRESET, NULL))
#define parent_class gst_h3_src_parent_class
GST_ELEMENT_REGISTER_DEFINE (h3src, "h3src", GST_RANK_NONE, GST_TYPE_H3_SRC)

static GType
gst_h3_src_child_type (Child child)
{
  switch (child) {
    case CHILD_TEXT_ENC:
      return GST_TYPE_H3_TEXT_ENC;
    case CHILD_DENOISE:
      return GST_TYPE_H3_DENOISE;
    case CHILD_VIDEO_VAE:
      return GST_TYPE_H3_VIDEO_VAE;
    default:
      return GST_TYPE_H3_AUDIO_VAE;
  }
}

/* The children's properties */

static gboolean
gst_h3_src_is_proxied (const GParamSpec *pspec)
{
  /* not what every element, aggregator or transform has */
  return g_str_has_prefix (g_type_name (pspec->owner_type), "GstH3") &&
         (pspec->flags & G_PARAM_WRITABLE);
}

/* A new spec like @pspec; a spec belongs to one class only. NULL for a type
 * that no child uses. */
static GParamSpec *
gst_h3_src_copy_spec (GParamSpec *pspec)
{
  const gchar *name = g_param_spec_get_name (pspec);
  const gchar *nick = g_param_spec_get_nick (pspec);
  const gchar *blurb = g_param_spec_get_blurb (pspec);
  GParamFlags flags = pspec->flags;

  if (G_IS_PARAM_SPEC_STRING (pspec))
    return g_param_spec_string (name, nick, blurb,
        G_PARAM_SPEC_STRING (pspec)->default_value, flags);
  if (G_IS_PARAM_SPEC_ENUM (pspec))
    return g_param_spec_enum (name, nick, blurb, pspec->value_type,
        G_PARAM_SPEC_ENUM (pspec)->default_value, flags);
  if (G_IS_PARAM_SPEC_BOOLEAN (pspec))
    return g_param_spec_boolean (name, nick, blurb,
        G_PARAM_SPEC_BOOLEAN (pspec)->default_value, flags);
  if (GST_IS_PARAM_SPEC_FRACTION (pspec)) {
    GstParamSpecFraction *f = GST_PARAM_SPEC_FRACTION (pspec);
    return gst_param_spec_fraction (name, nick, blurb, f->min_num, f->min_den,
        f->max_num, f->max_den, f->def_num, f->def_den, flags);
  }
  if (GST_IS_PARAM_SPEC_ARRAY_LIST (pspec))
    return gst_param_spec_array (name, nick, blurb,
        GST_PARAM_SPEC_ARRAY_LIST (pspec)->element_spec, flags);
#define COPY_NUMBER(TYPE, Type, type)                                          \
  if (G_IS_PARAM_SPEC_##TYPE (pspec)) {                                        \
    GParamSpec##Type *n = G_PARAM_SPEC_##TYPE (pspec);                         \
    return g_param_spec_##type (name, nick, blurb, n->minimum, n->maximum,     \
        n->default_value, flags);                                              \
  }
  COPY_NUMBER (INT, Int, int)
  COPY_NUMBER (UINT, UInt, uint)
  COPY_NUMBER (INT64, Int64, int64)
  COPY_NUMBER (UINT64, UInt64, uint64)
  COPY_NUMBER (DOUBLE, Double, double)
  COPY_NUMBER (FLOAT, Float, float)
#undef COPY_NUMBER
  g_return_val_if_reached (NULL);
}

/* Whose word counts for a property that several have: width is the denoiser's
 * first. */
static const Child proxy_order[N_CHILDREN] = { CHILD_DENOISE, CHILD_TEXT_ENC,
  CHILD_VIDEO_VAE, CHILD_AUDIO_VAE };

/* Installs every property of every child once. */
static void
gst_h3_src_install_proxies (GObjectClass *object_class)
{
  guint next = PROP_FIRST_PROXY;

  for (guint k = 0; k < N_CHILDREN; k++) {
    /* stays: the copies share its texts and enum values */
    GObjectClass *child =
        g_type_class_ref (gst_h3_src_child_type (proxy_order[k]));
    guint n;
    g_autofree GParamSpec **specs = g_object_class_list_properties (child, &n);

    for (guint i = 0; i < n; i++) {
      GParamSpec *copy;
      if (!gst_h3_src_is_proxied (specs[i]) ||
          g_object_class_find_property (object_class, specs[i]->name))
        continue;
      copy = gst_h3_src_copy_spec (specs[i]);
      if (copy)
        g_object_class_install_property (object_class, next++, copy);
    }
  }
}

static void
gst_h3_src_proxy_set (GstH3Src *self, const gchar *name, const GValue *value)
{
  for (Child c = 0; c < N_CHILDREN; c++) {
    if (g_object_class_find_property (G_OBJECT_GET_CLASS (self->children[c]),
            name))
      g_object_set_property (G_OBJECT (self->children[c]), name, value);
  }
}

static void
gst_h3_src_proxy_get (GstH3Src *self, const gchar *name, GValue *value)
{
  for (guint k = 0; k < N_CHILDREN; k++) {
    Child c = proxy_order[k];

    if (g_object_class_find_property (G_OBJECT_GET_CLASS (self->children[c]),
            name)) {
      g_object_get_property (G_OBJECT (self->children[c]), name, value);
      return;
    }
  }
}

static GstStructure *
gst_h3_src_stats (GstH3Src *self)
{
  GstStructure *stats = gst_structure_new_empty ("application/x-h3-stats");

  for (Child c = 0; c < N_CHILDREN; c++) {
    GstStructure *child = NULL;

    g_object_get (self->children[c], "stats", &child, NULL);
    gst_structure_set (stats, child_names[c], GST_TYPE_STRUCTURE, child, NULL);
    gst_structure_free (child);
  }
  return stats;
}

/* FALSE when it is none of these. */
static gboolean
gst_h3_src_set_input (GstH3Src *self, guint prop_id, const GValue *value)
{
  gboolean known = TRUE;

  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_FIRST_FRAME:
      g_free (self->first_frame);
      self->first_frame = g_value_dup_string (value);
      break;
    case PROP_LAST_FRAME:
      g_free (self->last_frame);
      self->last_frame = g_value_dup_string (value);
      break;
    case PROP_REFERENCES:
      g_strfreev (self->references);
      self->references = gst_h3_strings_from_array (value);
      break;
    case PROP_CONDITION_ENCODE:
      self->posterior = g_value_get_enum (value);
      break;
    case PROP_INPUT_TIMEOUT:
      self->input_timeout = g_value_get_uint64 (value);
      break;
    default:
      known = FALSE;
      break;
  }
  GST_OBJECT_UNLOCK (self);
  return known;
}

static gboolean
gst_h3_src_get_input (GstH3Src *self, guint prop_id, GValue *value)
{
  gboolean known = TRUE;

  GST_OBJECT_LOCK (self);
  switch (prop_id) {
    case PROP_FIRST_FRAME:
      g_value_set_string (value, self->first_frame);
      break;
    case PROP_LAST_FRAME:
      g_value_set_string (value, self->last_frame);
      break;
    case PROP_REFERENCES:
      gst_h3_strings_to_array (self->references, value);
      break;
    case PROP_CONDITION_ENCODE:
      g_value_set_enum (value, self->posterior);
      break;
    case PROP_INPUT_TIMEOUT:
      g_value_set_uint64 (value, self->input_timeout);
      break;
    default:
      known = FALSE;
      break;
  }
  GST_OBJECT_UNLOCK (self);
  return known;
}

static void
gst_h3_src_set_property (GObject *object, guint prop_id, const GValue *value,
    GParamSpec *pspec)
{
  GstH3Src *self = GST_H3_SRC (object);

  if (prop_id == PROP_PROMPT) {
    GST_OBJECT_LOCK (self);
    g_free (self->prompt);
    self->prompt = g_value_dup_string (value);
    GST_OBJECT_UNLOCK (self);
    gst_h3_prompt_src_set_prompt (self->source, g_value_get_string (value));
  } else if (gst_h3_src_set_input (self, prop_id, value)) {
    return;
  } else if (prop_id >= PROP_FIRST_PROXY) {
    gst_h3_src_proxy_set (self, pspec->name, value);
  } else {
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
  }
}

static void
gst_h3_src_get_property (GObject *object, guint prop_id, GValue *value,
    GParamSpec *pspec)
{
  GstH3Src *self = GST_H3_SRC (object);

  if (prop_id == PROP_PROMPT) {
    GST_OBJECT_LOCK (self);
    g_value_set_string (value, self->prompt);
    GST_OBJECT_UNLOCK (self);
  } else if (prop_id == PROP_STATS) {
    g_value_take_boxed (value, gst_h3_src_stats (self));
  } else if (gst_h3_src_get_input (self, prop_id, value)) {
    return;
  } else if (prop_id >= PROP_FIRST_PROXY) {
    gst_h3_src_proxy_get (self, pspec->name, value);
  } else {
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
  }
}

/* Behaviour */

static gboolean
gst_h3_src_unload (GstElement *element)
{
  GstH3Src *self = GST_H3_SRC (element);
  gboolean any = FALSE;

  for (Child c = 0; c < N_CHILDREN; c++) {
    gboolean freed = FALSE;
    g_signal_emit_by_name (self->children[c], "unload", &freed);
    any |= freed;
  }
  return any;
}

static gboolean
gst_h3_src_check_prompt (GstH3Src *self)
{
  gboolean missing;

  GST_OBJECT_LOCK (self);
  self->ending = FALSE;
  missing = self->prompt == NULL;
  GST_OBJECT_UNLOCK (self);
  if (missing)
    GST_ELEMENT_ERROR (self, LIBRARY, SETTINGS,
        ("There is no prompt. Say what the clip shows and sounds like: "
         "h3src prompt=\"...\"."),
        ("the property prompt of %s is unset", GST_OBJECT_NAME (self)));
  return !missing;
}

/* Where the partition is left to us, the denoiser opens the one for references
 * when there are some: their pads come too late for it to know. */
static void
gst_h3_src_choose_partition (GstH3Src *self, gboolean references)
{
  GstElement *denoise = self->children[CHILD_DENOISE];
  GstH3Partition is, wanted;
  gboolean ready = GST_STATE (denoise) == GST_STATE_READY;

  g_object_get (denoise, "partition", &is, NULL);
  if (self->chose_partition && is != GST_H3_PARTITION_REF2VA)
    self->chose_partition = FALSE; /* somebody set another since */
  wanted = references && is == GST_H3_PARTITION_AUTO ? GST_H3_PARTITION_REF2VA
           : !references && self->chose_partition    ? GST_H3_PARTITION_AUTO
                                                     : is;
  if (wanted == is)
    return;
  if (ready)
    gst_element_set_state (denoise, GST_STATE_NULL);
  g_object_set (denoise, "partition", wanted, NULL);
  self->chose_partition = wanted == GST_H3_PARTITION_REF2VA;
  /* a failure has been posted, and meets the way to PAUSED again */
  if (ready)
    gst_element_set_state (denoise, GST_STATE_READY);
}

static gboolean
gst_h3_src_has_references (GstH3Src *self)
{
  gboolean any;

  GST_OBJECT_LOCK (self);
  any = self->references != NULL;
  GST_OBJECT_UNLOCK (self);
  return any;
}

static gboolean
gst_h3_src_open_inputs (GstH3Src *self)
{
  g_autofree gchar *first = NULL, *last = NULL;
  g_auto (GStrv) references = NULL;
  g_autoptr (GError) error = NULL;
  GstClockTime timeout;

  GST_OBJECT_LOCK (self);
  timeout = self->input_timeout;
  first = g_strdup (self->first_frame);
  last = g_strdup (self->last_frame);
  references = g_strdupv (self->references);
  GST_OBJECT_UNLOCK (self);
  gst_h3_text_enc_expect_pictures (GST_H3_TEXT_ENC (
                                       self->children[CHILD_TEXT_ENC]),
      first || last || references);
  if (gst_h3_src_inputs_open (self->inputs, first, last,
          (const gchar *const *) references, timeout, &error))
    return TRUE;
  gst_h3_element_error (GST_ELEMENT_CAST (self), error,
      "opening keyframes and references");
  return FALSE;
}

static GstStateChangeReturn
gst_h3_src_change_state (GstElement *element, GstStateChange transition)
{
  GstH3Src *self = GST_H3_SRC (element);
  GstStateChangeReturn ret;

  switch (transition) {
    case GST_STATE_CHANGE_NULL_TO_READY:
      gst_h3_src_choose_partition (self, gst_h3_src_has_references (self));
      break;
    case GST_STATE_CHANGE_READY_TO_PAUSED:
      if (!gst_h3_src_check_prompt (self) || !gst_h3_src_open_inputs (self))
        return GST_STATE_CHANGE_FAILURE;
      gst_h3_src_choose_partition (self, gst_h3_src_has_references (self));
      break;
    default:
      break;
  }
  ret = GST_ELEMENT_CLASS (parent_class)->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED &&
      ret != GST_STATE_CHANGE_FAILURE)
    gst_h3_src_inputs_started (self->inputs);
  /* a failure on the asynchronous way to PAUSED leaves the bin in READY, with
   * inputs that go on */
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY ||
      transition == GST_STATE_CHANGE_READY_TO_READY ||
      transition == GST_STATE_CHANGE_READY_TO_NULL ||
      (transition == GST_STATE_CHANGE_READY_TO_PAUSED &&
          ret == GST_STATE_CHANGE_FAILURE))
    gst_h3_src_inputs_close (self->inputs);
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    gst_h3_src_choose_partition (self, FALSE);
  return ret;
}

/* Which of the inputs an error is about is our knowledge, and that one is enough:
 * a decoder's failure is its source's, too. */
static void
gst_h3_src_handle_message (GstBin *bin, GstMessage *message)
{
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    message = gst_h3_src_inputs_take_error (GST_H3_SRC (bin)->inputs, message);
  if (message)
    GST_BIN_CLASS (parent_class)->handle_message (bin, message);
}

static void
gst_h3_src_cancel (GstH3Src *self, guint64 job)
{
  gboolean found;

  g_signal_emit_by_name (self->children[CHILD_DENOISE], "cancel-job", job,
      &found);
}

/* From the denoiser's worker. */
static void
gst_h3_src_job_started (GstElement *denoise, guint64 job,
    GstStructure *settings, GstH3Src *self)
{
  gboolean ending;

  GST_OBJECT_LOCK (self);
  self->job = job;
  ending = self->ending;
  GST_OBJECT_UNLOCK (self);
  if (ending)
    gst_h3_src_cancel (self, job);
}

/* The prompt's EOS has long passed when an application sends one to end early,
 * so what EOS must end is the clip, in the denoiser or on its way there. The
 * sources of keyframes and references do not get it: cut off in the middle, one
 * would be an error. */
static gboolean
gst_h3_src_send_event (GstElement *element, GstEvent *event)
{
  GstH3Src *self = GST_H3_SRC (element);

  if (GST_EVENT_TYPE (event) == GST_EVENT_EOS) {
    guint64 job;

    GST_OBJECT_LOCK (self);
    self->ending = TRUE;
    job = self->job;
    GST_OBJECT_UNLOCK (self);
    GST_INFO_OBJECT (self, "EOS was sent: cancelling the clip");
    gst_h3_src_cancel (self, job);
    gst_h3_decoder_end (GST_H3_DECODER (self->children[CHILD_VIDEO_VAE]));
    gst_h3_decoder_end (GST_H3_DECODER (self->children[CHILD_AUDIO_VAE]));
    gst_h3_src_inputs_cancel (self->inputs);
    return gst_element_send_event (GST_ELEMENT (self->source), event);
  }
  return GST_ELEMENT_CLASS (parent_class)->send_event (element, event);
}

/* Object */

/* No queue at its end: at EOS a queue takes an unlinked pad for an error. */
static void
gst_h3_src_add_branch (GstH3Src *self, const gchar *name, Child vae)
{
  GstPadTemplate *template =
      gst_element_class_get_pad_template (GST_ELEMENT_GET_CLASS (self), name);
  g_autoptr (GstPad) pad =
      gst_element_get_static_pad (self->children[vae], "src");

  gst_element_link_pads (self->children[CHILD_DENOISE], name,
      self->children[vae], "sink");
  gst_element_add_pad (GST_ELEMENT (self),
      gst_ghost_pad_new_from_template (name, pad, template));
}

static void
gst_h3_src_finalize (GObject *object)
{
  GstH3Src *self = GST_H3_SRC (object);

  g_free (self->prompt);
  g_free (self->first_frame);
  g_free (self->last_frame);
  g_strfreev (self->references);
  gst_h3_src_inputs_free (self->inputs);
  G_OBJECT_CLASS (parent_class)->finalize (object);
}

static void
gst_h3_src_init (GstH3Src *self)
{
  GstBin *bin = GST_BIN (self);

  self->prompt = g_strdup (DEFAULT_PROMPT);
  self->first_frame = g_strdup (DEFAULT_FIRST_FRAME);
  self->last_frame = g_strdup (DEFAULT_LAST_FRAME);
  self->posterior = H3_POSTERIOR_SAMPLE;
  self->input_timeout = DEFAULT_INPUT_TIMEOUT;
  self->source = g_object_new (GST_TYPE_H3_PROMPT_SRC, "name", "prompt", NULL);
  gst_bin_add (bin, GST_ELEMENT (self->source));
  for (Child c = 0; c < N_CHILDREN; c++) {
    self->children[c] =
        g_object_new (gst_h3_src_child_type (c), "name", child_names[c], NULL);
    gst_bin_add (bin, self->children[c]);
  }
  gst_element_link_many (GST_ELEMENT (self->source),
      self->children[CHILD_TEXT_ENC], self->children[CHILD_DENOISE], NULL);
  g_signal_connect (self->children[CHILD_DENOISE], "job-started",
      G_CALLBACK (gst_h3_src_job_started), self);
  gst_h3_src_add_branch (self, "video", CHILD_VIDEO_VAE);
  gst_h3_src_add_branch (self, "audio", CHILD_AUDIO_VAE);
  self->inputs = gst_h3_src_inputs_new (bin, GST_ELEMENT (self->source),
      self->children[CHILD_TEXT_ENC], self->children[CHILD_DENOISE]);
}

/* A pad template @name like the source pad's of @type. */
static void
gst_h3_src_add_template (GstElementClass *klass, const gchar *name, GType type)
{
  g_autoptr (GTypeClass) vae = g_type_class_ref (type);
  g_autoptr (GstCaps) caps = gst_pad_template_get_caps (
      gst_element_class_get_pad_template (GST_ELEMENT_CLASS (vae), "src"));

  gst_element_class_add_pad_template (klass,
      gst_pad_template_new (name, GST_PAD_SRC, GST_PAD_ALWAYS, caps));
}

static void
gst_h3_src_install_inputs (GObjectClass *object_class)
{
  const GParamFlags flags =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

  /**
   * GstH3Src:first-frame:
   *
   * The picture that the clip begins with.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_FIRST_FRAME,
      g_param_spec_string ("first-frame", "First frame",
          "Path or URI of the picture that the clip begins with; of a clip, "
          "its "
          "first frame. Not together with references.",
          DEFAULT_FIRST_FRAME, flags));
  /**
   * GstH3Src:last-frame:
   *
   * The picture that the clip ends with.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_LAST_FRAME,
      g_param_spec_string ("last-frame", "Last frame",
          "Path or URI of the picture that the clip ends with, alone or beside "
          "first-frame, whose shape it is then cut to.",
          DEFAULT_LAST_FRAME, flags));
  /**
   * GstH3Src:references:
   *
   * What the prompt speaks of.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_REFERENCES,
      gst_param_spec_array ("references", "References",
          "Paths or URIs of what the prompt speaks of, in their order: at most "
          "9 "
          "pictures, 3 clips, 3 sounds, 12 in all, and not sounds alone; a "
          "clip's own sound counts with it.",
          g_param_spec_string ("reference", "Reference", "Path or URI", NULL,
              G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS),
          flags));
  /**
   * GstH3Src:condition-encode:
   *
   * As of h3videovaeenc.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_CONDITION_ENCODE,
      g_param_spec_enum ("condition-encode", "Condition encode",
          "What of the encoder's distribution is the latent of a keyframe or "
          "reference.",
          GST_TYPE_H3_POSTERIOR, H3_POSTERIOR_SAMPLE, flags));
  /**
   * GstH3Src:input-timeout:
   *
   * The longest time in which nothing comes of a keyframe or reference, before
   * it is an error that names it: of a file whose end no demuxer finds, a FIFO
   * that nobody writes to, a server that stalls.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_INPUT_TIMEOUT,
      g_param_spec_uint64 ("input-timeout", "Input timeout",
          "The longest time, in ns, in which nothing comes of a keyframe or "
          "reference that is waited for; then it is an error. It does not run "
          "while a model works on what came, nor before PLAYING where a source "
          "is live. 0 = it is waited for good.",
          0, G_MAXUINT64, DEFAULT_INPUT_TIMEOUT, flags));
}

static void
gst_h3_src_class_init (GstH3SrcClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);

  GST_DEBUG_CATEGORY_INIT (gst_h3_src_debug, "h3src", 0, "MiniMax H3 source");

  object_class->set_property = gst_h3_src_set_property;
  object_class->get_property = gst_h3_src_get_property;
  object_class->finalize = gst_h3_src_finalize;
  element_class->change_state = gst_h3_src_change_state;
  element_class->send_event = gst_h3_src_send_event;
  GST_BIN_CLASS (klass)->handle_message = gst_h3_src_handle_message;

  /**
   * GstH3Src:prompt:
   *
   * What the clip shows and sounds like.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_PROMPT,
      g_param_spec_string ("prompt", "Prompt",
          "What the clip shows and sounds like, UTF-8; a new one counts from "
          "the next start.",
          DEFAULT_PROMPT,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
              GST_PARAM_MUTABLE_READY));
  /**
   * GstH3Src:stats:
   *
   * The `stats` of the four elements inside, by their names.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_STATS,
      g_param_spec_boxed ("stats", "Statistics",
          "The stats of the elements inside: a structure each in the fields "
          "textenc, denoise, videovae and audiovae.",
          GST_TYPE_STRUCTURE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
  gst_h3_src_install_inputs (object_class);
  gst_h3_src_install_proxies (object_class);

  /**
   * GstH3Src::unload:
   *
   * Gives back the memory of models that nobody uses.
   *
   * Returns: whether there were any
   *
   * Since: 0.1
   */
  g_signal_new_class_handler ("unload", G_TYPE_FROM_CLASS (klass),
      G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION, G_CALLBACK (gst_h3_src_unload), NULL,
      NULL, NULL, G_TYPE_BOOLEAN, 0);

  gst_element_class_set_static_metadata (element_class, "MiniMax H3 source",
      "Source/Audio/Video",
      "Generates a clip from a prompt: raw video, 24 frames a second, on the "
      "pad video and its stereo sound, 32 kHz float, on the pad audio",
      "The gst-h3 developers");
  gst_h3_src_add_template (element_class, "video", GST_TYPE_H3_VIDEO_VAE);
  gst_h3_src_add_template (element_class, "audio", GST_TYPE_H3_AUDIO_VAE);
}
