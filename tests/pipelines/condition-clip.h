/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One h3src on the tiny checkpoint, and the files that it reads. */
#pragma once

#include "pipeline-test.h"

G_BEGIN_DECLS

/* A pipeline with an h3src, 96x64, 22 frames, references of 64 pixels; the
 * latents that come out of its denoiser, video then audio, and those that go in
 * as keyframes or references, as they come. */
typedef struct {
  GstElement *pipeline, *h3;
  GMutex lock; /* of latents */
  GByteArray *latents[3];
} Clip;

/* @settings: more properties, as in a pipeline description; the prompt is "x"
 * where they have none. */
Clip *clip_new (const gchar *settings);
void clip_free (Clip *clip);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Clip, clip_free)

/* Paths, up to NULL, in test_dir unless absolute. */
void clip_set_references (Clip *clip, ...) G_GNUC_NULL_TERMINATED;
/* @name: in test_dir unless absolute; NULL: none */
void clip_set_file (Clip *clip, const gchar *property, const gchar *name);
/* To PLAYING, and on to EOS or an error, which is returned. */
GError *clip_try (Clip *clip);
/* The same, where an error is a failure. */
void clip_run (Clip *clip);
/* Waits for what clip_try() waits for. */
GError *clip_wait (Clip *clip);

/* To READY; none of its errors may be left by then, a failure is told once. */
void clip_stop (Clip *clip);

/* Runs clips with these as reference (or @property) and compares what they are
 * encoded to and what is made with them. @tolerance: relative L2; 0: every bit */
#define assert_same_clips(property, a, b, tolerance)                           \
  check_same_clips (G_STRLOC, property, a, b, tolerance)
void check_same_clips (const gchar *where, const gchar *property,
    const gchar *a, const gchar *b, gdouble tolerance);

/* Runs a pipeline, from a printf format, to its end, in test_dir. */
void make_file (const gchar *format, ...) G_GNUC_PRINTF (1, 2);
/* A lossless clip of 96x64 in test_dir, each frame 5 brighter than the one @every
 * before; a frame lasts @hold 240ths of a second. @fps_n 0: only the timestamps
 * say so. @mux: what makes a file of it */
void write_steady (const gchar *name, guint n, gint hold, gint every,
    gint fps_n, gint fps_d, const gchar *mux);
/* A file of @n bytes in test_dir. */
void write_file (const gchar *name, gconstpointer bytes, gsize n);
/* The path of a golden picture. */
gchar *golden_picture (const gchar *name);

/* Where the tests are, one function a file. */
void add_condition_media_tests (void);
void add_condition_error_tests (void);
void add_condition_input_tests (void);
void add_condition_wait_tests (void);
void add_condition_odd_tests (void);

G_END_DECLS
