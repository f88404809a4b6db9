/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Running pipelines as a user does, and looking at the files they leave. */
#pragma once

#include <gst/gst.h>

#include "h3-test-device.h"

G_BEGIN_DECLS

/* What every test works in: a folder of its own, gone at the end. */
extern gchar *test_dir;
gchar *test_path (const gchar *name); /* in it; free with g_free() */
/* gst_init(), g_test_init(), the folder. */
void test_begin (int *argc, char ***argv);
int test_end (void);

typedef struct {
  int status;      /* exit status; 128 + n after signal n */
  gdouble seconds; /* since the start, or since SIGINT */
  gchar *output;   /* stdout and stderr */
} Result;

void result_free (Result *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Result, result_free)

/**
 * run:
 * @argv: ends with NULL; @env: "NAME=value", ends with NULL; may be NULL
 * @interrupt_at: half a second after it printed this it gets SIGINT; or NULL
 *
 * Runs a program to its end; one that does not end in 60 s is killed, which is
 * a failure.
 */
Result *run (const gchar *const *argv, const gchar *const *env,
    const gchar *interrupt_at);
/* gst-launch-1.0 -e with @pipeline, split at blanks as a shell would. */
Result *launch (const gchar *pipeline);
/* Fails, with the output, unless it ended well. */
void result_check (const gchar *where, const Result *result);
#define assert_ok(result) result_check (G_STRLOC, result)

/* TRUE, and the test is skipped, when GStreamer here lacks one of these
 * elements, which are separated by blanks. */
gboolean test_lacks (const gchar *elements);
/* What makes and reads an MP4. */
#define H264 "x264enc avdec_h264 "
#define AAC "avenc_aac avdec_aac "

/* What a file holds, counted by decoding all of it. */
typedef struct {
  gchar *container, *video_codec, *audio_codec; /* caps names, or NULL */
  guint frames;
  guint64 samples; /* per channel */
  gint width, height, fps_n, fps_d, rate, channels;
  gchar *colorimetry;
  gint64 first_video, first_audio; /* running time, ns; -1: none */
} Media;

Media *media_read (const gchar *path);
void media_free (Media *media);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Media, media_free)

G_END_DECLS
