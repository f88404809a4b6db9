/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of h3videovaeenc and h3audiovaeenc share beside
 * decoder-test.h, whose Decoder is any element with one sink and one source
 * pad. */
#pragma once

#include "decoder-test.h"

G_BEGIN_DECLS

/* To PLAYING, with caps of what goes in. */
void encoder_start (Decoder *encoder, const gchar *caps);
void encoder_eos (Decoder *encoder);
void encoder_flush (Decoder *encoder);

/* The one latent that came out; fails when there is none, or an error. */
GstBuffer *encoder_pull (Decoder *encoder);
/* The same as bytes. */
GBytes *encoder_pull_bytes (Decoder *encoder);
/* Pulls it; fails unless it is the @n golden floats, with caps that say @frames
 * and @role. */
void encoder_check_latent (Decoder *encoder, const gfloat *want, gsize n,
    gint frames, const gchar *role);

/* Sends EOS in another thread and, while the latent is made, READY or a flush:
 * either ends it within a second, without a latent and without an error. */
void encoder_check_cancel (Decoder *encoder, gboolean ready);
/* Lets the element have what its weights take and @extra bytes; in NULL. */
void encoder_limit_memory (Decoder *encoder, guint64 extra);

G_END_DECLS
