/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What h3src adds to itself for its inputs, takes out again, and tells of
 * them. */
#include <stdio.h>

#include "gst/gsth3error.h"
#include "gst/gsth3src-inputs-private.h"
#include "model/denoise/condition.h"

#define GST_CAT_DEFAULT gst_h3_src_debug

/* An element that was added to the bin. */
typedef struct {
  GstElement *element; /* owned */
  GstH3SrcInput *input;
} Part;

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
  g_cond_init (&self->watch_wake);
  self->inputs = g_ptr_array_new ();
  self->parts = g_ptr_array_new ();
  self->requests = g_ptr_array_new ();
  return self;
}

void
gst_h3_src_inputs_free (GstH3SrcInputs *self)
{
  g_ptr_array_unref (self->requests);
  g_ptr_array_unref (self->parts);
  g_ptr_array_unref (self->inputs);
  g_cond_clear (&self->watch_wake);
  g_mutex_clear (&self->lock);
  g_free (self);
}

/* --- elements --- */

/* In the bin, which owns it, and here: in this order, or who takes all out in
 * another thread might miss the bin. The bin may be on its way to PAUSED in
 * another thread and take it there at once. */
GstElement *
gst_h3_src_inputs_add (GstH3SrcInput *input, GstElement *element)
{
  GstH3SrcInputs *self = input->owner;
  Part *part = g_new (Part, 1);

  *part = (Part){ gst_object_ref_sink (element), input };
  gst_bin_add (self->bin, element);
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->parts, part);
  g_mutex_unlock (&self->lock);
  return element;
}

GstElement *
gst_h3_src_inputs_make (const gchar *factory, GError **error)
{
  GstElement *element = gst_element_factory_make (factory, NULL);

  if (element)
    return element;
  g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_MISSING_PLUGIN,
      "The element \"%s\" is needed to read keyframes and references, and is "
      "not installed",
      factory);
  return NULL;
}

GstElement *
gst_h3_src_inputs_add_new (GstH3SrcInput *input, const gchar *factory,
    GError **error)
{
  GstElement *element = gst_h3_src_inputs_make (factory, error);

  return element ? gst_h3_src_inputs_add (input, element) : NULL;
}

gboolean
gst_h3_src_inputs_link (GstPad *from, GstElement *to)
{
  g_autoptr (GstPad) sink = gst_element_get_static_pad (to, "sink");

  return gst_pad_link (from, sink) == GST_PAD_LINK_OK;
}

gboolean
gst_h3_src_inputs_link_request (GstH3SrcInputs *self, GstPad *from,
    GstElement *to, const gchar *name)
{
  GstPad *pad = gst_element_request_pad_simple (to, name);

  if (!pad)
    return FALSE;
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->requests, pad);
  g_mutex_unlock (&self->lock);
  return gst_pad_link (from, pad) == GST_PAD_LINK_OK;
}

void
gst_h3_src_inputs_copy_property (GstElement *from, GstElement *to,
    const gchar *name)
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

/* --- the prompt --- */

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

static void
remove_probe (GstPad *pad, gulong *id)
{
  if (*id)
    gst_pad_remove_probe (pad, *id);
  *id = 0;
}

void
gst_h3_src_inputs_release (GstH3SrcInputs *self)
{
  for (guint i = 0; i < self->inputs->len; i++) {
    GstH3SrcInput *input = g_ptr_array_index (self->inputs, i);

    for (GstH3Media m = 0; m < GST_H3_N_MEDIA; m++)
      remove_probe (input->branches[m].out, &input->branches[m].hold);
  }
  remove_probe (self->prompt_pad, &self->prompt_hold);
}

/* --- opening and closing --- */

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

static gboolean
add_input (GstH3SrcInputs *self, GstH3Role role, guint number,
    const gchar *where, GError **error)
{
  GstH3SrcInput *input =
      gst_h3_src_input_new (self, role, number, where, error);

  if (!input)
    return FALSE;
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->inputs, input);
  g_mutex_unlock (&self->lock);
  return gst_h3_src_input_open (input, error);
}

gboolean
gst_h3_src_inputs_open (GstH3SrcInputs *self, const gchar *first,
    const gchar *last, const gchar *const *references, GstClockTime timeout,
    GError **error)
{
  gboolean good;

  gst_h3_src_inputs_close (self); /* those of a start that failed */
  self->connected = self->cancelled = FALSE;
  self->timeout = timeout;
  /* what an earlier clip's references had set */
  gst_h3_src_inputs_copy_property (self->denoise, self->text_enc, "width");
  gst_h3_src_inputs_copy_property (self->denoise, self->text_enc, "height");
  good = check_settings (first, last, references, error);
  if (good && first)
    good = add_input (self, GST_H3_ROLE_FIRST_FRAME, 0, first, error);
  if (good && last)
    good = add_input (self, GST_H3_ROLE_LAST_FRAME, 0, last, error);
  for (guint i = 0; good && references && references[i]; i++)
    good = add_input (self, GST_H3_ROLE_REFERENCE, i, references[i], error);
  if (!good)
    gst_h3_src_inputs_close (self);
  else if (self->inputs->len > 0)
    watch_prompt (self);
  return good;
}

void
gst_h3_src_inputs_started (GstH3SrcInputs *self)
{
  if (self->inputs->len > 0)
    gst_h3_src_watch_start (self);
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
  Part *part;

  while ((part = pop (self, self->parts))) {
    gst_element_set_locked_state (part->element, TRUE);
    gst_element_set_state (part->element, GST_STATE_NULL);
    gst_bin_remove (self->bin, part->element);
    gst_object_unref (part->element);
    g_free (part);
  }
}

void
gst_h3_src_inputs_close (GstH3SrcInputs *self)
{
  GstH3SrcInput *input;
  GstPad *pad;

  gst_h3_src_watch_stop (self);
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
  while ((input = pop (self, self->inputs)))
    gst_h3_src_input_free (input);
  g_mutex_lock (&self->lock);
  self->failed = FALSE;
  g_mutex_unlock (&self->lock);
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

/* Whether @source is, or is in, what was added for @input. With lock held. */
static gboolean
is_from (GstH3SrcInputs *self, const GstH3SrcInput *input, GstObject *source)
{
  for (guint i = 0; i < self->parts->len; i++) {
    const Part *part = g_ptr_array_index (self->parts, i);

    if (part->input == input &&
        gst_object_has_as_ancestor (source, GST_OBJECT (part->element)))
      return TRUE;
  }
  return FALSE;
}

/* Whether h3textenc speaks of the pad that this input comes in on. */
static gboolean
is_on_pad (const GstH3SrcInput *input, const gchar *text)
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

/* The name of the input that an error is about, or NULL. With lock held. */
static gchar *
find_name (GstH3SrcInputs *self, GstObject *source, const gchar *text)
{
  gboolean reads_prompt = source == GST_OBJECT_CAST (self->text_enc);

  for (guint i = 0; i < self->inputs->len; i++) {
    const GstH3SrcInput *input = g_ptr_array_index (self->inputs, i);

    if (is_from (self, input, source) ||
        (reads_prompt && is_on_pad (input, text)))
      return gst_h3_src_input_name (input);
  }
  return NULL;
}

GstMessage *
gst_h3_src_inputs_take_error (GstH3SrcInputs *self, GstMessage *message)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *debug = NULL;
  g_autofree gchar *name = NULL;
  GstMessage *named = NULL;
  gboolean repeats;

  gst_message_parse_error (message, &error, &debug);
  g_mutex_lock (&self->lock);
  repeats = self->failed;
  if (!repeats)
    name = find_name (self, GST_MESSAGE_SRC (message), error->message);
  self->failed |= name != NULL;
  g_mutex_unlock (&self->lock);
  if (repeats)
    GST_INFO_OBJECT (self->bin, "follows from an error before: %s", debug);
  else if (!name)
    return message;
  if (name) {
    g_prefix_error (&error, "%s: ", name);
    named = gst_message_new_error (GST_MESSAGE_SRC (message), error, debug);
  }
  gst_message_unref (message);
  return named;
}

void
gst_h3_src_inputs_fail (GstH3SrcInput *input, GError *error)
{
  GstH3SrcInputs *self = input->owner;
  g_autofree gchar *name = gst_h3_src_input_name (input);
  gboolean first;

  if (g_error_matches (error, H3_ERROR, H3_ERROR_CANCELLED)) {
    g_error_free (error); /* it has been told */
    return;
  }
  g_mutex_lock (&self->lock);
  first = !self->failed;
  self->failed = TRUE;
  g_mutex_unlock (&self->lock);
  g_prefix_error (&error, "%s: ", name);
  if (first)
    gst_h3_element_error (GST_ELEMENT_CAST (self->bin), error,
        "reading keyframes and references");
  g_error_free (error);
}
