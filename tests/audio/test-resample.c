/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reference sound at other rates (audio-vae.md 6.2, 6.3). */
#include <math.h>
#include <string.h>

#include "model/audio/resample.h"
#include "tests/audio/audio-test.h"

#define RATE 32000

static gfloat *
tone (gdouble hertz, gint rate, gsize n)
{
  gfloat *x = g_new (gfloat, n);

  for (gsize i = 0; i < n; i++)
    x[i] = sin (2 * G_PI * hertz * i / rate);
  return x;
}

static gfloat *
resample (const gfloat *x, gsize n, gint channels, gint rate, gint frames,
    gsize *n_out)
{
  g_autoptr (GError) error = NULL;
  gfloat *y = h3_audio_reference_sound (x, n, channels, rate, frames, RATE,
      n_out, &error);

  g_assert_no_error (error);
  return y;
}

/* The closed form in double: y[m] = sum_i k (m / 32000 - i / rate) x[i], with p
 * / n as the reference rounds it. */
static gdouble
closed_form (const gfloat *x, gsize n, gint rate, gsize m)
{
  gint a = rate, b = RATE, rest;
  gdouble o, phases, base, at, sum = 0;

  while (b) {
    rest = a % b;
    a = b;
    b = rest;
  }
  o = rate / a;
  phases = RATE / a;
  base = 0.99 * MIN (o, phases);
  at = (gfloat) (m % (gint) phases) / (gfloat) phases;
  for (gsize i = 0; i < n; i++) {
    gdouble tau = ((gdouble) i / o - floor (m / phases) - at) * base;

    if (fabs (tau) >= 6)
      continue;
    sum += x[i] * base / o * pow (cos (G_PI * tau / 12), 2) *
           (tau == 0 ? 1 : sin (G_PI * tau) / (G_PI * tau));
  }
  return sum;
}

static void
test_closed_form (void)
{
  static const gint rates[] = { 8000, 11025, 16000, 22050, 24000, 44100, 47999,
    48000, 88200, 96000, 192000 };

  for (guint r = 0; r < G_N_ELEMENTS (rates); r++) {
    gsize n = 700 + r, n_out;
    g_autofree gfloat *x = g_new (gfloat, n);
    g_autofree gfloat *y = NULL;

    for (gsize i = 0; i < n; i++)
      x[i] = g_test_rand_double_range (-1, 1);
    y = resample (x, n, 1, rates[r], 0, &n_out);
    g_assert_cmpuint (n_out, ==, (n * RATE + rates[r] - 1) / rates[r]);
    for (gsize m = 0; m < n_out; m++) {
      gdouble want = closed_form (x, n, rates[r], m);

      g_assert_cmpfloat_with_epsilon (y[m], want, 1e-6);
      g_assert_cmpfloat (y[n_out + m], ==, y[m]);
    }
  }
}

/* The values that audio-vae.md 6.2 prints. */
static void
test_known (void)
{
  static const struct {
    gint rate, n;
    gdouble first[5], sum;
  } cases[] = {
    { 44100, 882,
        { 0.01125134, 0.19302150, 0.38396310, 0.55524099, 0.70760841 },
        406.202570 },
    { 48000, 960,
        { 0.01280820, 0.19287319, 0.38402035, 0.55520616, 0.70761702 },
        406.202358 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    gsize n_out;
    g_autofree gfloat *x = tone (1000, cases[i].rate, cases[i].n);
    g_autofree gfloat *y =
        resample (x, cases[i].n, 1, cases[i].rate, 0, &n_out);
    gdouble sum = 0;

    g_assert_cmpuint (n_out, ==, 640);
    for (gint k = 0; k < 5; k++)
      g_assert_cmpfloat_with_epsilon (y[k], cases[i].first[k], 1e-5);
    for (gint k = 0; k < 640; k++)
      sum += fabs (y[k]);
    g_assert_cmpfloat_with_epsilon (sum, cases[i].sum, 1e-3);
  }
}

/* Sides stay apart; a rate of 32000 changes nothing. */
static void
test_stereo (void)
{
  gsize n_out;
  const gfloat x[] = { 1, -1, 2, -2, 3, -3 };
  g_autofree gfloat *same = resample (x, 3, 2, RATE, 0, &n_out);
  g_autofree gfloat *half = NULL;

  g_assert_cmpuint (n_out, ==, 3);
  for (gint i = 0; i < 3; i++) {
    g_assert_cmpfloat (same[i], ==, i + 1);
    g_assert_cmpfloat (same[3 + i], ==, -i - 1);
  }
  half = resample (x, 3, 2, 16000, 0, &n_out);
  g_assert_cmpuint (n_out, ==, 6);
  for (gint i = 0; i < 6; i++)
    g_assert_cmpfloat (half[6 + i], ==, -half[i]);
}

/* Cut to the video's length at the source's rate, before anything else. */
static void
test_length (void)
{
  g_autofree gfloat *x = g_new0 (gfloat, 300000);
  g_autofree gfloat *y = NULL, *z = NULL, *none = NULL;
  gsize n_out;

  g_assert_cmpuint (h3_audio_frames_to_samples (124, 44100), ==, 227850);
  g_assert_cmpuint (h3_audio_frames_to_samples (56, 8000), ==, 18666);
  g_assert_cmpuint (h3_audio_frames_to_samples (0, 44100), ==, 0);
  y = resample (x, 300000, 1, 44100, 124, &n_out);
  g_assert_cmpuint (n_out, ==, 165334);
  z = resample (x, 100, 1, 44100, 124, &n_out);
  g_assert_cmpuint (n_out, ==, 73);
  none = resample (x, 0, 2, 48000, 0, &n_out);
  g_assert_cmpuint (n_out, ==, 0);
}

static void
assert_refused (gint channels, gint rate, const gchar *text)
{
  static const gfloat x[8] = { 0 };
  g_autoptr (GError) error = NULL;
  gsize n_out;

  g_assert_null (
      h3_audio_reference_sound (x, 1, channels, rate, 0, RATE, &n_out, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, text);
}

static void
test_refused (void)
{
  assert_refused (6, 48000, "6 channels");
  assert_refused (0, 48000, "0 channels");
  assert_refused (2, 999, "999 samples a second");
  assert_refused (2, 384001, "384001 samples a second");
  assert_refused (2, -1, "-1 samples a second");
}

void
audio_add_resample_tests (void)
{
  g_test_add_func ("/audio/resample/closed-form", test_closed_form);
  g_test_add_func ("/audio/resample/known", test_known);
  g_test_add_func ("/audio/resample/stereo", test_stereo);
  g_test_add_func ("/audio/resample/length", test_length);
  g_test_add_func ("/audio/resample/refused", test_refused);
}
