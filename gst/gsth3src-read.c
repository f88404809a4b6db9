/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One input of h3src: what is in a file, and its streams up to where they are
 * held and cut. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gst/gsth3src-decoders.h"
#include "gst/gsth3src-inputs-private.h"
#include "model/denoise/geometry.h"

#define GST_CAT_DEFAULT gst_h3_src_debug

/* To raw frames and samples as the encoders take them, upright, at their own
 * size and rate. Behind the queue a stream is held; in front of it one sees
 * whether there are two pictures or one. Sound may go on meanwhile, for the end
 * of a file tells that its one picture had none after it. */
static const gchar *const chains[GST_H3_N_MEDIA] = {
  [GST_H3_MEDIA_VIDEO] = "videoconvert dither=none ! video/x-raw,format=RGB ! "
                         "videoflip video-direction=auto ! "
                         "queue name=hold max-size-buffers=1 max-size-bytes=0 "
                         "max-size-time=0",
  [GST_H3_MEDIA_AUDIO] = "audioconvert dithering=none ! capsfilter caps=\""
                         "audio/x-raw,format=F32LE,layout=interleaved,"
                         "channels=[1,2]\" ! "
                         "queue name=hold max-size-buffers=0 max-size-bytes=0 "
                         "max-size-time=20000000000",
};

/* A stream goes on for so long after what is used of it, so that the timestamps
 * need not be exact. */
#define CUT_MARGIN (2 * GST_SECOND)
/* More than a camera takes in a second. */
#define MAX_FPS 1000

gchar *
gst_h3_src_input_name (const GstH3SrcInput *input)
{
  switch (input->role) {
    case GST_H3_ROLE_FIRST_FRAME:
      return g_strdup_printf ("The first frame (%s)", input->uri);
    case GST_H3_ROLE_LAST_FRAME:
      return g_strdup_printf ("The last frame (%s)", input->uri);
    default:
      return g_strdup_printf ("Reference %u (%s)", input->number + 1,
          input->uri);
  }
}

/* --- what has come --- */

static gboolean
is_known (const GstH3SrcBranch *branch)
{
  /* of a reference a second picture makes a clip */
  gboolean two = branch->media == GST_H3_MEDIA_VIDEO &&
                 branch->input->role == GST_H3_ROLE_REFERENCE;

  return branch->ended || branch->came > two;
}

gboolean
gst_h3_src_input_is_settled (const GstH3SrcInput *input)
{
  if (!input->complete)
    return FALSE;
  for (GstH3Media m = 0; m < GST_H3_N_MEDIA; m++)
    if (input->branches[m].chain && !input->branches[m].settled)
      return FALSE;
  return TRUE;
}

gboolean
gst_h3_src_input_has (const GstH3SrcInput *input, GstH3Media media)
{
  return input->branches[media].chain && input->branches[media].came > 0;
}

gboolean
gst_h3_src_input_is_cover (const GstH3SrcInput *input)
{
  return input->branches[GST_H3_MEDIA_VIDEO].came == 1 &&
         gst_h3_src_input_has (input, GST_H3_MEDIA_AUDIO);
}

guint64
gst_h3_src_input_progress (const GstH3SrcInput *input)
{
  guint64 n = input->complete;

  for (GstH3Media m = 0; m < GST_H3_N_MEDIA; m++) {
    const GstH3SrcBranch *branch = &input->branches[m];

    n += (branch->chain != NULL) + branch->came + branch->ended;
  }
  return n;
}

/* What comes to the queue in front of which a stream is held. */
static GstPadProbeReturn
look (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  GstH3SrcBranch *branch = data;
  GstH3SrcInputs *self = branch->input->owner;
  gboolean news;

  g_mutex_lock (&self->lock);
  if (GST_PAD_PROBE_INFO_TYPE (info) & GST_PAD_PROBE_TYPE_BUFFER)
    branch->came++;
  else if (GST_EVENT_TYPE (GST_PAD_PROBE_INFO_EVENT (info)) == GST_EVENT_EOS)
    branch->ended = TRUE;
  news = !branch->settled && is_known (branch);
  branch->settled |= news;
  g_mutex_unlock (&self->lock);
  if (news)
    gst_h3_src_inputs_connect_if_settled (self);
  return GST_PAD_PROBE_OK;
}

/* A queue answers it when all before it has gone, which what is held does not:
 * who asks takes memory of its own. */
static GstPadProbeReturn
refuse_allocation (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  GstQuery *query = GST_PAD_PROBE_INFO_QUERY (info);

  return GST_QUERY_TYPE (query) == GST_QUERY_ALLOCATION ? GST_PAD_PROBE_DROP
                                                        : GST_PAD_PROBE_OK;
}

/* So much sound with one picture: there will be no other. */
static void
sound_is_full (GstElement *queue, gpointer data)
{
  GstH3SrcBranch *branch = data;
  GstH3SrcBranch *pictures = &branch->input->branches[GST_H3_MEDIA_VIDEO];
  GstH3SrcInputs *self = branch->input->owner;
  gboolean news;

  g_mutex_lock (&self->lock);
  news = !pictures->settled && pictures->came == 1;
  pictures->settled |= news;
  g_mutex_unlock (&self->lock);
  if (news)
    gst_h3_src_inputs_connect_if_settled (self);
}

/* Not what only describes the stream. */
static GstPadProbeReturn
hold (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  if ((GST_PAD_PROBE_INFO_TYPE (info) & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM) &&
      GST_EVENT_TYPE (GST_PAD_PROBE_INFO_EVENT (info)) != GST_EVENT_EOS)
    return GST_PAD_PROBE_PASS;
  return GST_PAD_PROBE_OK;
}

/* --- how much of it goes on --- */

static void
read_rate (GstH3SrcBranch *branch, GstPad *pad)
{
  g_autoptr (GstCaps) caps = gst_pad_get_current_caps (pad);
  const GstStructure *s = caps ? gst_caps_get_structure (caps, 0) : NULL;

  if (!s)
    return;
  gst_structure_get_fraction (s, "framerate", &branch->fps_n, &branch->fps_d);
  gst_structure_get_int (s, "rate", &branch->rate);
  gst_structure_get_int (s, "channels", &branch->channels);
}

/* How long a buffer is, whatever it says of that itself. */
static GstClockTime
measure (const GstH3SrcBranch *branch, GstBuffer *buffer)
{
  gsize frame = sizeof (gfloat) * MAX (branch->channels, 1);

  if (branch->media == GST_H3_MEDIA_AUDIO)
    return gst_util_uint64_scale (gst_buffer_get_size (buffer) / frame,
        GST_SECOND, MAX (branch->rate, 1));
  if (branch->fps_n <= 0)
    return GST_SECOND / H3_FPS;
  return gst_util_uint64_scale (GST_SECOND, branch->fps_d, branch->fps_n);
}

/* Takes another buffer into account. */
static void
advance (GstH3SrcBranch *branch, GstPad *pad, GstBuffer *buffer)
{
  GstClockTime pts = GST_BUFFER_PTS (buffer);

  if (branch->passed++ == 0) {
    branch->begin = branch->latest = pts;
    read_rate (branch, pad);
  }
  branch->measured += measure (branch, buffer);
  if (GST_CLOCK_TIME_IS_VALID (pts) &&
      GST_CLOCK_TIME_IS_VALID (branch->begin) && pts > branch->latest)
    branch->latest = pts;
}

/* Timestamps tell how long it is, of pictures at a varying rate they alone.
 * Where they stand still what came is counted; and there is an end to how dense
 * pictures may be. */
static gboolean
is_enough (const GstH3SrcBranch *branch)
{
  GstClockTime length = branch->input->owner->length;
  gboolean sound = branch->media == GST_H3_MEDIA_AUDIO;
  guint64 densest = sound ? MAX (branch->rate, 1) : MAX_FPS;
  GstClockTime shown;

  if (branch->input->role != GST_H3_ROLE_REFERENCE)
    return branch->passed > 0;
  if (!GST_CLOCK_TIME_IS_VALID (length))
    return FALSE;
  shown = branch->latest - branch->begin;
  if (sound || shown == 0)
    shown = MAX (shown, branch->measured);
  return shown > length + CUT_MARGIN ||
         branch->passed >
             gst_util_uint64_scale (length + CUT_MARGIN, densest, GST_SECOND);
}

/* A film of two hours is not decoded for its first five seconds. */
static GstPadProbeReturn
cut (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  GstH3SrcBranch *branch = data;
  GstH3SrcInputs *self = branch->input->owner;

  gboolean enough = is_enough (branch);

  if (!enough)
    advance (branch, pad, GST_PAD_PROBE_INFO_BUFFER (info));
  /* nothing is waited for after a keyframe */
  g_mutex_lock (&self->lock);
  branch->ended |= enough || branch->input->role != GST_H3_ROLE_REFERENCE;
  g_mutex_unlock (&self->lock);
  if (!enough)
    return GST_PAD_PROBE_OK;
  gst_pad_push_event (pad, gst_event_new_eos ());
  gst_buffer_unref (GST_PAD_PROBE_INFO_BUFFER (info));
  GST_PAD_PROBE_INFO_FLOW_RETURN (info) = GST_FLOW_EOS;
  return GST_PAD_PROBE_HANDLED;
}

/* --- streams --- */

gboolean
gst_h3_src_input_ignore (GstH3SrcInput *input, GstPad *pad, GError **error)
{
  GstElement *sink = gst_h3_src_inputs_make ("fakesink", error);

  if (!sink)
    return FALSE;
  /* after one buffer it has seen enough, and says so upstream */
  g_object_set (sink, "sync", FALSE, "async", FALSE, "num-buffers", 1, NULL);
  gst_h3_src_inputs_add (input, sink);
  gst_element_sync_state_with_parent (sink);
  gst_h3_src_inputs_link (pad, sink);
  return TRUE;
}

static void
watch_stream (GstH3SrcBranch *branch, GstElement *queue)
{
  gst_pad_add_probe (branch->in,
      GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, look,
      branch, NULL);
  gst_pad_add_probe (branch->in, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
      refuse_allocation, NULL, NULL);
  gst_pad_add_probe (branch->out, GST_PAD_PROBE_TYPE_BUFFER, cut, branch, NULL);
  branch->hold = gst_pad_add_probe (branch->out,
      GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER |
          GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
      hold, NULL, NULL);
  if (branch->media == GST_H3_MEDIA_AUDIO)
    g_signal_connect (queue, "overrun", G_CALLBACK (sound_is_full), branch);
}

/* The first stream of a kind is the input's. */
static gboolean
begin_stream (GstH3SrcBranch *branch, GstPad *pad, GError **error)
{
  GstH3SrcInputs *self = branch->input->owner;
  GstElement *chain =
      gst_parse_bin_from_description (chains[branch->media], TRUE, error);
  g_autoptr (GstElement) queue = NULL;

  if (!chain)
    return FALSE;
  queue = gst_bin_get_by_name (GST_BIN (chain), "hold");
  g_mutex_lock (&self->lock);
  branch->chain = chain;
  branch->in = gst_element_get_static_pad (queue, "sink");
  branch->out = gst_element_get_static_pad (chain, "src");
  g_mutex_unlock (&self->lock);
  watch_stream (branch, queue);
  gst_h3_src_inputs_add (branch->input, chain);
  gst_element_sync_state_with_parent (chain);
  if (gst_h3_src_inputs_link (pad, chain))
    return TRUE;
  g_set_error_literal (error, GST_CORE_ERROR, GST_CORE_ERROR_PAD,
      "a stream could not be linked");
  return FALSE;
}

/* The next stream, or one that a keyframe has no use for. */
static void
pad_added (GstElement *decode, GstPad *pad, gpointer data)
{
  GstH3SrcInput *input = data;
  g_autoptr (GstCaps) caps = gst_pad_query_caps (pad, NULL);
  const gchar *type =
      gst_caps_get_size (caps) > 0
          ? gst_structure_get_name (gst_caps_get_structure (caps, 0))
          : "";
  gboolean video = g_str_has_prefix (type, "video/");
  gboolean audio =
      g_str_has_prefix (type, "audio/") && input->role == GST_H3_ROLE_REFERENCE;
  GstH3SrcBranch *branch =
      &input->branches[video ? GST_H3_MEDIA_VIDEO : GST_H3_MEDIA_AUDIO];
  GError *error = NULL;

  GST_DEBUG_OBJECT (input->owner->bin, "%s: %" GST_PTR_FORMAT, input->uri,
      caps);
  if ((!video && !audio) || branch->chain)
    gst_h3_src_input_ignore (input, pad, &error);
  else
    begin_stream (branch, pad, &error);
  if (error)
    gst_h3_src_inputs_fail (input, error);
}

static void
no_more_pads (GstElement *decode, gpointer data)
{
  GstH3SrcInput *input = data;

  g_mutex_lock (&input->owner->lock);
  input->complete = TRUE;
  g_mutex_unlock (&input->owner->lock);
  gst_h3_src_inputs_connect_if_settled (input->owner);
}

/* --- what is read --- */

/* A file of that name is meant, whatever its name looks like. */
static gchar *
to_uri (const gchar *where, GError **error)
{
  if (!g_file_test (where, G_FILE_TEST_EXISTS) && gst_uri_is_valid (where))
    return g_strdup (where);
  return gst_filename_to_uri (where, error);
}

static gboolean
is_fifo (const gchar *path)
{
  GStatBuf status;

  return g_stat (path, &status) == 0 && S_ISFIFO (status.st_mode);
}

/* Opening a FIFO waits for who writes to it, and filesrc does so in the thread
 * that changes its state. -1: it is none, or cannot be opened, which filesrc will
 * say. */
static gint
open_fifo (const gchar *uri)
{
  g_autofree gchar *path = g_filename_from_uri (uri, NULL, NULL);

  return path && is_fifo (path)
             ? g_open (path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0)
             : -1;
}

GstH3SrcInput *
gst_h3_src_input_new (GstH3SrcInputs *inputs, GstH3Role role, guint number,
    const gchar *where, GError **error)
{
  GstH3SrcInput *input;
  gchar *uri;

  if (!where || !*where) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS, "The path of %s is empty",
        role == GST_H3_ROLE_FIRST_FRAME  ? "first-frame"
        : role == GST_H3_ROLE_LAST_FRAME ? "last-frame"
                                         : "one of the references");
    return NULL;
  }
  uri = to_uri (where, error);
  if (!uri)
    return NULL;
  input = g_new0 (GstH3SrcInput, 1);
  input->owner = inputs;
  input->role = role;
  input->number = number;
  input->uri = uri;
  input->fd = open_fifo (uri);
  for (GstH3Media m = 0; m < GST_H3_N_MEDIA; m++)
    input->branches[m] = (GstH3SrcBranch){ .input = input, .media = m };
  return input;
}

void
gst_h3_src_input_free (GstH3SrcInput *input)
{
  for (GstH3Media m = 0; m < GST_H3_N_MEDIA; m++) {
    gst_clear_object (&input->branches[m].in);
    gst_clear_object (&input->branches[m].out);
  }
  if (input->fd >= 0)
    close (input->fd);
  g_free (input->uri);
  g_free (input);
}

gboolean
gst_h3_src_input_open (GstH3SrcInput *input, GError **error)
{
  g_autofree gchar *fd_uri =
      input->fd >= 0 ? g_strdup_printf ("fd://%d", input->fd) : NULL;

  input->decode = gst_h3_src_inputs_add_new (input, "uridecodebin", error);
  if (!input->decode)
    return FALSE;
  g_object_set (input->decode, "uri", fd_uri ? fd_uri : input->uri, NULL);
  g_signal_connect (input->decode, "pad-added", G_CALLBACK (pad_added), input);
  gst_h3_src_set_up_decoders (input->decode);
  g_signal_connect (input->decode, "no-more-pads", G_CALLBACK (no_more_pads),
      input);
  return TRUE;
}
