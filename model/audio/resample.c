/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sinc between two rates (audio-vae.md 6.2): of each group of o input samples
 * n output samples are made, each by a filter of its own. */
#include "model/audio/resample.h"

#include <math.h>

#define ZEROS 6      /* of the sinc, each side */
#define ROLLOFF 0.99 /* of the lower rate's half */

typedef struct {
  gint o, n;       /* the rates without what divides both */
  gint taps;       /* of a phase, at most */
  gint *first;     /* [n] where its taps begin in the input */
  gfloat *kernels; /* [n, taps] */
} Filter;

static void
filter_clear (Filter *filter)
{
  g_free (filter->first);
  g_free (filter->kernels);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Filter, filter_clear)

static gint
common_divisor (gint a, gint b)
{
  while (b) {
    gint rest = a % b;

    a = b;
    b = rest;
  }
  return a;
}

/* Tap i of phase p: base / o * cos² (pi tau / 12) sinc (tau) at
 * tau = (i / o - p / n) base, where the reference rounds p / n to float32. */
static void
fill_phase (Filter *filter, gint p)
{
  gdouble base = ROLLOFF * MIN (filter->o, filter->n), o = filter->o;
  gdouble at = (gfloat) p / (gfloat) filter->n;
  gint first = (gint) ceil (o * (at - ZEROS / base));

  filter->first[p] = first;
  for (gint k = 0; k < filter->taps; k++) {
    gdouble tau = ((first + k) / o - at) * base, angle = G_PI * tau;
    gdouble window = cos (angle / (2 * ZEROS));

    filter->kernels[(gsize) p * filter->taps + k] =
        fabs (tau) >= ZEROS
            ? 0
            : base / o * window * window * (tau == 0 ? 1 : sin (angle) / angle);
  }
}

static gboolean
filter_init (Filter *filter, gint rate, gint to_rate, GError **error)
{
  gint divisor = common_divisor (rate, to_rate);

  filter->o = rate / divisor;
  filter->n = to_rate / divisor;
  filter->taps = (gint) floor (2 * ZEROS * filter->o /
                               (ROLLOFF * MIN (filter->o, filter->n))) +
                 1;
  filter->first = g_try_new (gint, filter->n);
  filter->kernels = g_try_new (gfloat, (gsize) filter->n * filter->taps);
  if (!filter->first || !filter->kernels) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for a filter from %d to %d Hz", rate, to_rate);
    return FALSE;
  }
  for (gint p = 0; p < filter->n; p++)
    fill_phase (filter, p);
  return TRUE;
}

/* One channel, every @step th of @x; zeros before and after. */
static void
filter_run (const Filter *filter, const gfloat *x, gint step, gsize n,
    gfloat *y, gsize n_out)
{
  for (gsize i = 0; i < n_out; i++) {
    gint p = i % filter->n;
    gint64 at = (gint64) (i / filter->n) * filter->o + filter->first[p];
    const gfloat *kernel = filter->kernels + (gsize) p * filter->taps;
    gint64 begin = MAX (0, -at), end = MIN (filter->taps, (gint64) n - at);
    gdouble sum = 0;

    for (gint64 k = begin; k < end; k++)
      sum += (gdouble) kernel[k] * x[(at + k) * step];
    y[i] = (gfloat) sum;
  }
}

static void
copy_channel (const gfloat *x, gint step, gsize n, gfloat *y)
{
  for (gsize i = 0; i < n; i++)
    y[i] = x[i * step];
}

gsize
h3_audio_frames_to_samples (gint frames, gint rate)
{
  return frames > 0 && rate > 0 ? (gsize) frames * rate / 24 : 0;
}

static gboolean
check (gint channels, gint rate, GError **error)
{
  if (channels < 1 || channels > 2) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a reference sound of %d channels: 1 or 2 are needed; mix others down "
        "before (audioconvert)",
        channels);
    return FALSE;
  }
  if (rate < H3_AUDIO_MIN_RATE || rate > H3_AUDIO_MAX_RATE) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "a reference sound of %d samples a second: %d to %d are needed", rate,
        H3_AUDIO_MIN_RATE, H3_AUDIO_MAX_RATE);
    return FALSE;
  }
  return TRUE;
}

gfloat *
h3_audio_reference_sound (const gfloat *samples, gsize n, gint channels,
    gint rate, gint frames, gint to_rate, gsize *n_out, GError **error)
{
  g_auto (Filter) filter = { 0 };
  gfloat *sound;
  gsize out;

  *n_out = 0;
  if (!check (channels, rate, error))
    return NULL;
  if (frames > 0)
    n = MIN (n, h3_audio_frames_to_samples (frames, rate));
  if (rate != to_rate && !filter_init (&filter, rate, to_rate, error))
    return NULL;
  if (n > G_MAXSIZE / 4 / sizeof (gfloat) / to_rate)
    out = 0;
  else
    out = (n * to_rate + rate - 1) / rate;
  sound = out || n == 0 ? g_try_new (gfloat, MAX (2 * out, 1)) : NULL;
  if (!sound) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory for %" G_GSIZE_FORMAT " samples of a reference sound", n);
    return NULL;
  }
  for (gint side = 0; side < 2; side++) {
    const gfloat *x = samples + (channels == 2 ? side : 0);

    if (rate == to_rate)
      copy_channel (x, channels, n, sound + side * out);
    else
      filter_run (&filter, x, channels, n, sound + side * out, out);
  }
  *n_out = out;
  return sound;
}
