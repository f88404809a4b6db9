/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of h3src's inputs share: gsth3src-inputs.c adds and removes
 * them, -read.c decodes each and holds its streams, -connect.c links the streams
 * to the model, -watch.c limits how long they are waited for. */
#pragma once

#include "gst/gsth3encoder.h"
#include "gst/gsth3src-inputs.h"

G_BEGIN_DECLS

GST_DEBUG_CATEGORY_EXTERN (gst_h3_src_debug);

typedef enum {
  GST_H3_MEDIA_VIDEO,
  GST_H3_MEDIA_AUDIO,
  GST_H3_N_MEDIA
} GstH3Media;

typedef struct _GstH3SrcInput GstH3SrcInput;

/* One stream of an input. What is not said to be of a thread is under lock. */
typedef struct {
  GstH3SrcInput *input;
  GstH3Media media;
  GstElement *chain; /* the bin's; NULL: there is no such stream */
  GstPad *in, *out;  /* of the queue at the chain's end; owned */
  gulong hold;       /* the probe that holds @out */
  guint64 came;      /* buffers, at @in */
  gboolean settled;  /* it has shown what it is */
  gboolean ended;    /* EOS came, or nothing more is wanted */

  /* of @out's streaming thread */
  guint64 passed; /* buffers */
  GstClockTime begin, latest;
  GstClockTime measured; /* what passed is long, by its own rate */
  gint fps_n, fps_d;     /* of pictures */
  gint rate, channels;   /* of samples */
} GstH3SrcBranch;

struct _GstH3SrcInput {
  GstH3SrcInputs *owner;
  GstH3Role role;
  guint number;       /* of references, from 0 */
  gchar *uri;         /* as it was asked for */
  gint fd;            /* it is read from; -1: from the URI */
  GstElement *decode; /* the bin's */
  gboolean complete;  /* all of its streams are known */
  GstH3SrcBranch branches[GST_H3_N_MEDIA];

  /* of the watch */
  guint64 seen; /* of gst_h3_src_input_progress() */
  gint64 since; /* nothing new, in microseconds */
};

struct _GstH3SrcInputs {
  GstBin *bin;
  GstElement *prompt, *text_enc, *denoise;
  GstClockTime timeout; /* 0: none; changed in READY only */

  GMutex lock;         /* never held while calling an element */
  GPtrArray *inputs;   /* GstH3SrcInput; changed in READY only */
  GPtrArray *parts;    /* what was added to the bin, and for which input */
  GPtrArray *requests; /* GstPad of text_enc and denoise */
  GstPad *prompt_pad;
  gulong prompt_hold, prompt_filter;
  gboolean connected; /* the streams go on, or are about to */
  gboolean cancelled;
  gboolean failed;     /* an error of an input has been told */
  GstClockTime length; /* of a reference that is used; of the connecting thread,
                          then constant */

  GThread *watch;
  GCond watch_wake; /* with lock */
  gboolean watch_stop;
};

/* --- gsth3src-inputs.c --- */

/* A new one, floating; NULL with GST_CORE_ERROR_MISSING_PLUGIN. */
GstElement *gst_h3_src_inputs_make (const gchar *factory, GError **error);
/* Adds @element, which is for @input, to the bin; close() removes it. What it is
 * to start with must be set: the bin's own way to PAUSED may take it along. */
GstElement *gst_h3_src_inputs_add (GstH3SrcInput *input, GstElement *element);
/* Both, of one that needs no settings. */
GstElement *gst_h3_src_inputs_add_new (GstH3SrcInput *input,
    const gchar *factory, GError **error);
/* To the pad "sink" of @to. */
gboolean gst_h3_src_inputs_link (GstPad *from, GstElement *to);
/* Requests @name from h3textenc or h3denoise and links @from to it. */
gboolean gst_h3_src_inputs_link_request (GstH3SrcInputs *inputs, GstPad *from,
    GstElement *to, const gchar *name);
/* Sets a property that both have. */
void gst_h3_src_inputs_copy_property (GstElement *from, GstElement *to,
    const gchar *name);
/* Lets the prompt and all streams go on. */
void gst_h3_src_inputs_release (GstH3SrcInputs *inputs);
/* Posts an error about @input, unless one was posted. Takes @error. */
void gst_h3_src_inputs_fail (GstH3SrcInput *input, GError *error);

/* --- gsth3src-read.c --- */

/* READY→PAUSED: a new one that reads @where, a path or URI, or NULL. */
GstH3SrcInput *gst_h3_src_input_new (GstH3SrcInputs *inputs, GstH3Role role,
    guint number, const gchar *where, GError **error);
void gst_h3_src_input_free (GstH3SrcInput *input);
gboolean gst_h3_src_input_open (GstH3SrcInput *input, GError **error);
/* Beside the streams that are used: what comes of it is dropped. */
gboolean gst_h3_src_input_ignore (GstH3SrcInput *input, GstPad *pad,
    GError **error);
/* "Reference 2 (file:///…)" */
gchar *gst_h3_src_input_name (const GstH3SrcInput *input);

/* These with lock held. */
gboolean gst_h3_src_input_is_settled (const GstH3SrcInput *input);
/* Whether there is such a stream, and something in it. */
gboolean gst_h3_src_input_has (const GstH3SrcInput *input, GstH3Media media);
/* Whether its picture is that of a sound, and no reference. */
gboolean gst_h3_src_input_is_cover (const GstH3SrcInput *input);
/* A number that another buffer, stream or end of one makes another. */
guint64 gst_h3_src_input_progress (const GstH3SrcInput *input);

/* --- gsth3src-connect.c --- */

/* Once all inputs have shown what they hold: links them to the model and lets
 * them go on. From whatever thread brought the last news. */
void gst_h3_src_inputs_connect_if_settled (GstH3SrcInputs *inputs);

/* --- gsth3src-watch.c --- */

void gst_h3_src_watch_start (GstH3SrcInputs *inputs);
void gst_h3_src_watch_stop (GstH3SrcInputs *inputs);

G_END_DECLS
