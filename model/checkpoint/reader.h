/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stored numbers on their way to a device: a few threads read, check and
 * convert pieces while earlier pieces are copied.
 *
 * Each thread has two staging buffers, of page-locked memory, each with its own
 * stream: it reads into one while the other is copied to the device. Where
 * tensors are in the host's memory they are read into directly. Little is read
 * by the calling thread itself, and no thread is started then. */
#pragma once

#include "model/checkpoint/stored-tensor.h"
#include "model/ops.h"

G_BEGIN_DECLS

typedef struct _H3Reader H3Reader;

/* Bytes of the tensors that have arrived; from the thread that adds or waits. */
typedef void (*H3ReaderProgress) (guint64 done, gpointer user_data);

/* @stop: asked by the thread that adds or waits, at least every 20 ms. */
H3Reader *h3_reader_new (H3Device *device, const H3Stop *stop,
    H3ReaderProgress progress, gpointer user_data);
/* Drops what is under way. */
void h3_reader_free (H3Reader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Reader, h3_reader_free)

/**
 * h3_reader_add:
 * @source: float32, float16 or bfloat16, or of one byte per element, or in
 *   blocks, whose bytes are the elements here
 * @first, @n: which of its elements; of whole blocks
 * @dest: float32, float16 or bfloat16, or uint8, which takes such bytes as they
 *   are; kept until the numbers have arrived
 * @offset: the first element of @dest that they go to
 *
 * Converts where the types differ, rounding to nearest, ties to even. May
 * return before anything was read; waits when much is under way. FALSE once
 * the reader has failed: h3_reader_wait() says why.
 */
gboolean h3_reader_add (H3Reader *reader, const H3StoredTensor *source,
    gint64 first, gint64 n, H3Tensor *dest, gint64 offset);

/**
 * h3_reader_wait:
 *
 * Until all that was added is on the device. FALSE when the file has become
 * shorter or the disk fails (H3_ERROR_READ), a number is not finite, or is not
 * in @dest's type (H3_ERROR_NUMERIC), memory is short (H3_ERROR_NO_SPACE), the
 * copy failed, or @stop asked to end: of several the one that was added first.
 * Nothing is under way then; what had not been read is not, and nothing more
 * can be added.
 */
gboolean h3_reader_wait (H3Reader *reader, GError **error);

/* Elements [first, first + n) at once to @dest, in the stored type and checked
 * to be finite. */
gboolean h3_reader_read (const H3StoredTensor *source, gint64 first, gint64 n,
    gpointer dest, GError **error);

G_END_DECLS
