/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of h3videovae and h3audiovae share. */
#pragma once

#include <gst/check/gstharness.h>
#include <gst/h3/h3.h>

#include "h3-test-device.h"

G_BEGIN_DECLS

/* One decoder under test: a harness, the element, the messages it posts. */
typedef struct {
  GstHarness *harness;
  GstElement *element;
  GstBus *bus;
} Decoder;

/* @factory on the tiny checkpoint, in PLAYING; @properties as for
 * gst_util_set_object_arg(): name, value, ..., NULL. @sink_caps: what
 * downstream takes, or NULL. */
Decoder *decoder_new (const gchar *factory, const gchar *sink_caps,
    ...) G_GNUC_NULL_TERMINATED;
void decoder_free (Decoder *decoder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Decoder, decoder_free)

/* A golden latent: its caps' facts and its bytes. */
typedef struct {
  GstH3LatentInfo info;
  gfloat *data;
  gsize bytes;
} Latent;

/* @file: as for h3_test_golden(), of a whole request */
Latent *latent_video (const gchar *file);
Latent *latent_audio (const gchar *file);
void latent_free (Latent *latent);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Latent, latent_free)
/* A buffer of it in system memory, without a timestamp. */
GstBuffer *latent_buffer (const Latent *latent);
/* The same in the host's GstH3Memory. */
GstBuffer *latent_device_buffer (const Latent *latent);
GstCaps *latent_caps (const Latent *latent, gboolean device);

/* Sends caps and the latent. */
GstFlowReturn decoder_push (Decoder *decoder, const Latent *latent);
/* All that came out so far. Free with g_ptr_array_unref(). */
GPtrArray *decoder_pull_all (Decoder *decoder);
/* Bytes of all of them, one after the other. */
GBytes *buffers_bytes (GPtrArray *buffers);

/* The next message of @type; fails when there is none. */
GstMessage *decoder_pop (Decoder *decoder, GstMessageType type);
guint decoder_count_messages (Decoder *decoder, GstMessageType type);
/* Fails unless the next error is of that domain and code and says @text. */
#define decoder_assert_error(decoder, domain, code, text)                      \
  decoder_check_error (G_STRLOC, decoder, domain, code, text)
void decoder_check_error (const gchar *where, Decoder *decoder, GQuark domain,
    gint code, const gchar *text);

/* Fails unless each buffer's times and offsets follow the last's: unit @first
 * of @rate a second begins at @base; returns the unit after the last.
 * @unit_bytes 0: a buffer is one unit. */
guint64 buffers_check_timeline (GPtrArray *buffers, guint64 first,
    GstClockTime base, guint rate, gsize unit_bytes);

/* Pushes a clip, flushes in the middle of it (in the @nth buffer out), pushes
 * it again and fails unless the second is whole and equal to @want. */
void decoder_check_flush (Decoder *decoder, const Latent *latent, guint nth,
    GBytes *want);
/* NULL to PLAYING and back @n times without growing. */
void decoder_check_cycles (const gchar *factory, guint n);

/* Bytes of all buffers of a pipeline's fakesink called "sink"; fails on an
 * error message, or, with @error, returns it. */
GBytes *pipeline_bytes (const gchar *launch, GError **error);

G_END_DECLS
