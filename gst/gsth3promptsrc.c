/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3promptsrc.h"

#include <string.h>

static GstStaticPadTemplate src_template =
    GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS,
        GST_STATIC_CAPS ("text/x-raw, format = (string) utf8"));

struct _GstH3PromptSrc {
  GstPushSrc parent;

  gchar *prompt;  /* under the object lock */
  GBytes *unsent; /* the streaming thread's: what start() took */
};

G_DEFINE_FINAL_TYPE (GstH3PromptSrc, gst_h3_prompt_src, GST_TYPE_PUSH_SRC)
#define parent_class gst_h3_prompt_src_parent_class

void
gst_h3_prompt_src_set_prompt (GstH3PromptSrc *self, const gchar *prompt)
{
  GST_OBJECT_LOCK (self);
  g_free (self->prompt);
  self->prompt = g_strdup (prompt);
  GST_OBJECT_UNLOCK (self);
}

static gboolean
gst_h3_prompt_src_start (GstBaseSrc *src)
{
  GstH3PromptSrc *self = GST_H3_PROMPT_SRC (src);

  g_clear_pointer (&self->unsent, g_bytes_unref);
  GST_OBJECT_LOCK (self);
  if (self->prompt)
    self->unsent = g_bytes_new (self->prompt, strlen (self->prompt));
  GST_OBJECT_UNLOCK (self);
  return TRUE;
}

static GstFlowReturn
gst_h3_prompt_src_create (GstPushSrc *src, GstBuffer **buffer)
{
  GstH3PromptSrc *self = GST_H3_PROMPT_SRC (src);

  if (!self->unsent)
    return GST_FLOW_EOS;
  /* an empty prompt goes on too: h3textenc says what is wrong with it */
  *buffer = g_bytes_get_size (self->unsent) > 0
                ? gst_buffer_new_wrapped_bytes (self->unsent)
                : gst_buffer_new ();
  GST_BUFFER_PTS (*buffer) = 0;
  g_clear_pointer (&self->unsent, g_bytes_unref);
  return GST_FLOW_OK;
}

static void
gst_h3_prompt_src_finalize (GObject *object)
{
  GstH3PromptSrc *self = GST_H3_PROMPT_SRC (object);

  g_clear_pointer (&self->unsent, g_bytes_unref);
  g_free (self->prompt);
  G_OBJECT_CLASS (parent_class)->finalize (object);
}

static void
gst_h3_prompt_src_init (GstH3PromptSrc *self)
{
  /* so that h3textenc takes each buffer for a prompt of its own */
  gst_base_src_set_format (GST_BASE_SRC (self), GST_FORMAT_TIME);
}

static void
gst_h3_prompt_src_class_init (GstH3PromptSrcClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);

  object_class->finalize = gst_h3_prompt_src_finalize;
  GST_BASE_SRC_CLASS (klass)->start = gst_h3_prompt_src_start;
  GST_PUSH_SRC_CLASS (klass)->create = gst_h3_prompt_src_create;

  gst_element_class_set_static_metadata (element_class, "H3 prompt source",
      "Source/Text", "Gives the prompt of h3src", "The gst-h3 developers");
  gst_element_class_add_static_pad_template (element_class, &src_template);
}
