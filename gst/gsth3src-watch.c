/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long h3src waits for an input: files that no demuxer ever finds the end
 * of, FIFOs that nobody writes to and servers that stall look the same, nothing
 * comes. A thread looks at the inputs from time to time, for as long as they are
 * read.
 *
 * An input is waited for until its streams are known and have shown what they
 * are, and then until each has ended. It is not waited for while one of its
 * streams is on its way into the model, which may compute for minutes, nor,
 * being live, before PLAYING. */
#include "gst/gsth3src-inputs-private.h"

#define GST_CAT_DEFAULT gst_h3_src_debug

/* How often it is looked at: so many times in the timeout, but not more often
 * than is of use. */
#define LOOKS 20
#define MIN_PERIOD (10 * G_TIME_SPAN_MILLISECOND)
#define MAX_PERIOD G_TIME_SPAN_SECOND

/* --- whether an input is waited for --- */

/* Whether what is behind the stream works on a buffer of it, or has not been
 * linked yet. */
static gboolean
is_busy (const GstH3SrcBranch *branch)
{
  g_autoptr (GstPad) peer = gst_pad_get_peer (branch->out);

  /* it is locked for as long as a buffer is being taken */
  if (!peer || !GST_PAD_STREAM_TRYLOCK (peer))
    return TRUE;
  GST_PAD_STREAM_UNLOCK (peer);
  return FALSE;
}

/* Once all are linked. With lock held. */
static gboolean
has_to_come (const GstH3SrcInput *input)
{
  gboolean more = FALSE;

  for (GstH3Media m = 0; m < GST_H3_N_MEDIA; m++) {
    const GstH3SrcBranch *branch = &input->branches[m];

    if (!branch->chain || branch->ended)
      continue;
    /* where one cannot go on, the demuxer cannot with another */
    if (is_busy (branch))
      return FALSE;
    more = TRUE;
  }
  return more;
}

/* Its data come with the clock, which does not run before PLAYING. */
static gboolean
is_asleep (const GstH3SrcInput *input)
{
  gboolean live;

  GST_OBJECT_LOCK (input->decode);
  live = GST_STATE_RETURN (input->decode) == GST_STATE_CHANGE_NO_PREROLL;
  GST_OBJECT_UNLOCK (input->decode);
  return live && GST_STATE (input->owner->bin) < GST_STATE_PLAYING;
}

/* With lock held. */
static gboolean
is_awaited (const GstH3SrcInput *input)
{
  if (is_asleep (input))
    return FALSE;
  return input->owner->connected ? has_to_come (input)
                                 : !gst_h3_src_input_is_settled (input);
}

/* --- what is said of it --- */

/* With lock held. */
static gchar *
describe_awaited (const GstH3SrcInput *input)
{
  const GstH3SrcBranch *video = &input->branches[GST_H3_MEDIA_VIDEO];
  const GstH3SrcBranch *audio = &input->branches[GST_H3_MEDIA_AUDIO];

  if (video->chain && !video->ended && video->came > 0)
    return g_strdup_printf ("%" G_GUINT64_FORMAT
                            " of its pictures came, neither another nor the "
                            "end of them",
        video->came);
  if (audio->chain && !audio->ended && audio->came > 0)
    return g_strdup ("some of its sound came, neither more nor the end of it");
  if (video->chain && !video->ended)
    return g_strdup ("its first picture is awaited");
  if (audio->chain && !audio->ended)
    return g_strdup ("the begin of its sound is awaited");
  return g_strdup ("what it holds is not known yet");
}

/* With lock held. */
static GError *
make_error (const GstH3SrcInput *input)
{
  g_autofree gchar *awaited = describe_awaited (input);

  return g_error_new (GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ,
      "Nothing has come of it for %g s: %s. The file may be cut short, or who "
      "writes or sends it be silent; input-timeout sets how long that may be",
      (gdouble) input->owner->timeout / GST_SECOND, awaited);
}

/* --- the thread --- */

/* Whether it has been waited for too long at @now. With lock held. */
static gboolean
is_late (GstH3SrcInput *input, gint64 now)
{
  guint64 progress = gst_h3_src_input_progress (input);

  if (progress != input->seen || !is_awaited (input)) {
    input->seen = progress;
    input->since = now;
    return FALSE;
  }
  return (guint64) (now - input->since) >= input->owner->timeout / 1000;
}

/* With lock held. */
static GstH3SrcInput *
find_late (GstH3SrcInputs *self)
{
  gint64 now = g_get_monotonic_time ();
  GstH3SrcInput *late = NULL;

  for (guint i = 0; i < self->inputs->len; i++) {
    GstH3SrcInput *input = g_ptr_array_index (self->inputs, i);

    if (is_late (input, now) && !late)
      late = input;
  }
  return late;
}

/* With lock held: whether there is anything left to wait for. */
static gboolean
goes_on (GstH3SrcInputs *self)
{
  gboolean all_ended = self->connected;

  for (guint i = 0; i < self->inputs->len && all_ended; i++) {
    const GstH3SrcInput *input = g_ptr_array_index (self->inputs, i);

    for (GstH3Media m = 0; m < GST_H3_N_MEDIA; m++)
      all_ended &= !input->branches[m].chain || input->branches[m].ended;
  }
  return !self->watch_stop && !self->cancelled && !self->failed && !all_ended;
}

static gpointer
watch (gpointer data)
{
  GstH3SrcInputs *self = data;
  gint64 period =
      CLAMP ((gint64) MIN (self->timeout / 1000 / LOOKS, MAX_PERIOD),
          MIN_PERIOD, MAX_PERIOD);
  GstH3SrcInput *late = NULL;
  GError *error = NULL;

  g_mutex_lock (&self->lock);
  while (!late && goes_on (self)) {
    gint64 wake = g_get_monotonic_time () + period;

    while (!self->watch_stop &&
           g_cond_wait_until (&self->watch_wake, &self->lock, wake)) {
    }
    if (goes_on (self))
      late = find_late (self);
  }
  if (late)
    error = make_error (late);
  g_mutex_unlock (&self->lock);
  /* it stays: who closes the inputs waits for this thread first */
  if (late)
    gst_h3_src_inputs_fail (late, error);
  return NULL;
}

void
gst_h3_src_watch_start (GstH3SrcInputs *self)
{
  gint64 now = g_get_monotonic_time ();

  if (self->timeout == 0)
    return;
  for (guint i = 0; i < self->inputs->len; i++) {
    GstH3SrcInput *input = g_ptr_array_index (self->inputs, i);

    input->since = now;
  }
  self->watch_stop = FALSE;
  self->watch = g_thread_new ("h3src-watch", watch, self);
}

void
gst_h3_src_watch_stop (GstH3SrcInputs *self)
{
  if (!self->watch)
    return;
  g_mutex_lock (&self->lock);
  self->watch_stop = TRUE;
  g_cond_signal (&self->watch_wake);
  g_mutex_unlock (&self->lock);
  g_thread_join (g_steal_pointer (&self->watch));
}
