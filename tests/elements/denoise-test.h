/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of h3denoise share. */
#pragma once

#include <gst/check/gstharness.h>
#include <gst/h3/h3.h>

#include "h3-test-device.h"

G_BEGIN_DECLS

/* One h3denoise in PLAYING on the tiny checkpoint, 96x64, 22 frames, 4 steps,
 * the golden seed; a harness on each source pad; its messages. */
typedef struct {
  GstElement *element;
  GstHarness *video; /* and the sink pad */
  GstHarness *audio; /* NULL: pad "audio" is not linked */
  GstBus *bus;
  gfloat *embeds;
  gsize embeds_bytes;
  GstH3EmbedsInfo info;
} Denoiser;

/* The golden request whose prompt embeddings go in, and properties as for
 * gst_util_set_object_arg(): name, value, ..., NULL. */
Denoiser *denoiser_new (const gchar *request, ...) G_GNUC_NULL_TERMINATED;
/* In NULL, nothing linked but what denoiser_start() links. */
Denoiser *denoiser_new_stopped (const gchar *request,
    ...) G_GNUC_NULL_TERMINATED;
/* Links and goes to PLAYING; @audio: link that pad too. */
void denoiser_start (Denoiser *denoiser, gboolean audio);
void denoiser_free (Denoiser *denoiser);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Denoiser, denoiser_free)

void denoiser_set (Denoiser *denoiser, ...) G_GNUC_NULL_TERMINATED;

/* Stream start, caps and segment; denoiser_push() does it the first time. */
void denoiser_send_header (Denoiser *denoiser);
GstFlowReturn denoiser_push (Denoiser *denoiser);
GstBuffer *denoiser_embeds_buffer (Denoiser *denoiser);

/* The next clip's bytes, both pads' one after the other; fails when there is
 * none. @video, @audio: (out) (optional): the buffers */
GBytes *denoiser_pull (Denoiser *denoiser, GstBuffer **video,
    GstBuffer **audio);

/* Waits until the element posts a message of that type (and structure name, or
 * NULL); fails when it does not. */
GstMessage *denoiser_wait (Denoiser *denoiser, GstMessageType type,
    const gchar *name);
void denoiser_drop_messages (Denoiser *denoiser);
/* Waits until the clip @job is in its loop. */
void denoiser_wait_running (Denoiser *denoiser);

/* Fails unless the next error is of that domain and code and says @text, and no
 * second one follows. */
#define denoiser_assert_error(denoiser, domain, code, text)                    \
  denoiser_check_error (G_STRLOC, denoiser, domain, code, text)
void denoiser_check_error (const gchar *where, Denoiser *denoiser,
    GQuark domain, gint code, const gchar *text);

/* A number of the `stats` property. */
guint64 element_stat (GstElement *element, const gchar *field);

/* Where the tests are, one function per file. */
void add_clip_tests (void);
void add_condition_tests (void);
void add_cancel_tests (void);
void add_setting_tests (void);
void add_error_tests (void);
void add_lora_tests (void);

G_END_DECLS
