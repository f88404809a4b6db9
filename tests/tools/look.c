/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/tools/look.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE 32000.0
#define BORDER 2
#define STILL_PIXELS 6.0
#define SILENCE_RMS 0.05
/* Distance over which a pixel counts, as a part of the strong pixels'. */
#define MASK_LOW 0.3
#define MASK_HIGH 0.7
#define COLOR_PART 0.8
/* Fewer pixels than that are noise, not a shape. */
#define MIN_AREA 8.0
/* Points per pixel and axis when a model shape is drawn. */
#define SUBPIXELS 4
#define MAX_DISTANCE_2 (3 * 255 * 255)

typedef struct {
  const gchar *name;
  gint rgb[3];
} PaletteEntry;

static const PaletteEntry colors[] = {
  { "red", { 220, 40, 40 } },
  { "green", { 40, 180, 60 } },
  { "blue", { 40, 70, 220 } },
  { "yellow", { 235, 210, 40 } },
  { "white", { 245, 245, 245 } },
};

static const PaletteEntry backgrounds[] = {
  { "black", { 15, 15, 15 } },
  { "blue", { 40, 70, 220 } },
  { "green", { 40, 180, 60 } },
  { "gray", { 128, 128, 128 } },
  { "purple", { 130, 40, 160 } },
};

static const gchar *const shapes[] = { "circle", "square", "triangle" };

typedef struct {
  gint width, height, n_frames;
  const guint8 *rgb;
} Clip;

/* The mask of one frame: how many pixels, and where they are. */
typedef struct {
  gdouble area, x, y;
} Blob;

static const guint8 *
pixel (const Clip *clip, gint frame, gint x, gint y)
{
  gsize n = ((gsize) frame * clip->height + y) * clip->width + x;

  return clip->rgb + 3 * n;
}

static gint
distance_2 (const guint8 *a, const guint8 *b)
{
  gint sum = 0;

  for (gint c = 0; c < 3; c++)
    sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

static const gchar *
nearest (const guint8 rgb[3], const PaletteEntry *palette, guint n)
{
  const gchar *name = NULL;
  gint best = G_MAXINT;

  for (guint i = 0; i < n; i++) {
    guint8 entry[3] = { palette[i].rgb[0], palette[i].rgb[1],
      palette[i].rgb[2] };
    gint d = distance_2 (rgb, entry);

    if (d < best) {
      best = d;
      name = palette[i].name;
    }
  }
  return name;
}

/* --- medians ------------------------------------------------------------ */

typedef struct {
  guint count[3][256];
  guint total;
} Histogram;

static void
histogram_add (Histogram *histogram, const guint8 *rgb)
{
  for (gint c = 0; c < 3; c++)
    histogram->count[c][rgb[c]]++;
  histogram->total++;
}

static void
histogram_median (const Histogram *histogram, guint8 rgb[3])
{
  for (gint c = 0; c < 3; c++) {
    guint seen = 0, value = 0;

    while (value < 255 &&
           (seen += histogram->count[c][value]) <= histogram->total / 2)
      value++;
    rgb[c] = value;
  }
}

static gboolean
on_border (const Clip *clip, gint x, gint y)
{
  return x < BORDER || y < BORDER || x >= clip->width - BORDER ||
         y >= clip->height - BORDER;
}

static void
find_background (const Clip *clip, guint8 rgb[3])
{
  Histogram *histogram = g_new0 (Histogram, 1);

  for (gint f = 0; f < clip->n_frames; f++)
    for (gint y = 0; y < clip->height; y++)
      for (gint x = 0; x < clip->width; x++)
        if (on_border (clip, x, y))
          histogram_add (histogram, pixel (clip, f, x, y));
  histogram_median (histogram, rgb);
  g_free (histogram);
}

/* The 98th percentile of the distances to the background. */
static gdouble
find_reach (const Clip *clip, const guint8 background[3])
{
  g_autofree guint *count = g_new0 (guint, MAX_DISTANCE_2 + 1);
  guint64 total = (guint64) clip->n_frames * clip->height * clip->width;
  guint64 seen = 0;
  gint d = 0;

  for (gint f = 0; f < clip->n_frames; f++)
    for (gint y = 0; y < clip->height; y++)
      for (gint x = 0; x < clip->width; x++)
        count[distance_2 (pixel (clip, f, x, y), background)]++;
  while (d < MAX_DISTANCE_2 && (seen += count[d]) <= 0.98 * total)
    d++;
  return sqrt (d);
}

static void
find_color (const Clip *clip, const guint8 background[3], gdouble reach,
    guint8 rgb[3])
{
  Histogram *histogram = g_new0 (Histogram, 1);
  gdouble limit = COLOR_PART * COLOR_PART * reach * reach;

  for (gint f = 0; f < clip->n_frames; f++)
    for (gint y = 0; y < clip->height; y++)
      for (gint x = 0; x < clip->width; x++)
        if (distance_2 (pixel (clip, f, x, y), background) > limit)
          histogram_add (histogram, pixel (clip, f, x, y));
  histogram_median (histogram, rgb);
  g_free (histogram);
}

/* --- the shape ---------------------------------------------------------- */

static void
make_mask (const Clip *clip, gint frame, const guint8 background[3],
    gdouble reach, gfloat *mask, Blob *blob)
{
  gdouble area = 0, sum_x = 0, sum_y = 0;

  for (gint y = 0; y < clip->height; y++) {
    for (gint x = 0; x < clip->width; x++) {
      gdouble d =
          sqrt (distance_2 (pixel (clip, frame, x, y), background)) / reach;
      gdouble m = CLAMP ((d - MASK_LOW) / (MASK_HIGH - MASK_LOW), 0, 1);

      mask[y * clip->width + x] = m;
      area += m;
      sum_x += m * x;
      sum_y += m * y;
    }
  }
  blob->area = area;
  blob->x = area > 0 ? sum_x / area : 0;
  blob->y = area > 0 ? sum_y / area : 0;
}

/* Whether (x, y), seen from the centroid, is in a shape of area @a: a disc, an
 * upright square, an equilateral triangle on its side. */
static gboolean
inside (gint shape, gdouble a, gdouble x, gdouble y)
{
  gdouble h, down;

  switch (shape) {
    case 0:
      return x * x + y * y <= a / G_PI;
    case 1:
      return 4 * x * x <= a && 4 * y * y <= a;
    default:
      h = sqrt (a * sqrt (3)); /* a = h² / sqrt (3) */
      down = y + 2 * h / 3;    /* from the tip */
      return down >= 0 && down <= h && fabs (x) <= down / sqrt (3);
  }
}

/* The part of a pixel that the shape covers. */
static gdouble
coverage (gint shape, gdouble a, gdouble x, gdouble y)
{
  gint hits = 0;

  /* No shape's corner is farther from its centroid. */
  if (MAX (fabs (x), fabs (y)) > sqrt (a) + 1)
    return 0;
  for (gint i = 0; i < SUBPIXELS; i++)
    for (gint j = 0; j < SUBPIXELS; j++)
      hits += inside (shape, a, x + (i + 0.5) / SUBPIXELS - 0.5,
          y + (j + 0.5) / SUBPIXELS - 0.5);
  return (gdouble) hits / (SUBPIXELS * SUBPIXELS);
}

/* Intersection over union of the mask and a shape of its area in its place. */
static gdouble
overlap (const Clip *clip, const gfloat *mask, const Blob *blob, gint shape)
{
  gdouble both = 0, either = 0;

  for (gint y = 0; y < clip->height; y++) {
    for (gint x = 0; x < clip->width; x++) {
      gdouble m = mask[y * clip->width + x];
      gdouble s = coverage (shape, blob->area, x - blob->x, y - blob->y);

      both += MIN (m, s);
      either += MAX (m, s);
    }
  }
  return both / either;
}

/* The mean place of the blobs of frames [first, first + n). */
static void
mean_place (const Blob *blobs, gint first, gint n, gdouble *x, gdouble *y)
{
  *x = *y = 0;
  for (gint f = first; f < first + n; f++) {
    *x += blobs[f].x / n;
    *y += blobs[f].y / n;
  }
}

static const gchar *
motion_word (gdouble dx, gdouble dy)
{
  if (MAX (fabs (dx), fabs (dy)) < STILL_PIXELS)
    return "still";
  if (fabs (dx) > fabs (dy))
    return dx > 0 ? "right" : "left";
  return dy > 0 ? "down" : "up";
}

static void
see_shape (const Clip *clip, gdouble reach, H3Look *look)
{
  g_autofree gfloat *mask = g_new (gfloat, clip->width * clip->height);
  g_autofree Blob *blobs = g_new0 (Blob, clip->n_frames);
  gint eighth = MAX (1, clip->n_frames / 8), seen = 0, best = 0;
  gdouble x0, y0, x1, y1;

  for (gint f = 0; f < clip->n_frames; f++) {
    make_mask (clip, f, look->background_rgb, reach, mask, &blobs[f]);
    if (blobs[f].area < MIN_AREA)
      continue;
    seen++;
    for (gint s = 0; s < G_N_ELEMENTS (shapes); s++)
      look->overlap[s] += overlap (clip, mask, &blobs[f], s);
  }
  /* A shape that comes and goes is none. */
  if (seen < clip->n_frames)
    return;
  for (gint s = 0; s < G_N_ELEMENTS (shapes); s++) {
    look->overlap[s] /= seen;
    if (look->overlap[s] > look->overlap[best])
      best = s;
  }
  look->shape = shapes[best];

  mean_place (blobs, 0, eighth, &x0, &y0);
  mean_place (blobs, clip->n_frames - eighth, eighth, &x1, &y1);
  look->dx = x1 - x0;
  look->dy = y1 - y0;
  look->motion = motion_word (look->dx, look->dy);
}

static void
see (const Clip *clip, H3Look *look)
{
  gdouble reach;

  find_background (clip, look->background_rgb);
  look->background =
      nearest (look->background_rgb, backgrounds, G_N_ELEMENTS (backgrounds));
  reach = find_reach (clip, look->background_rgb);
  if (reach < 1)
    return;
  find_color (clip, look->background_rgb, reach, look->color_rgb);
  look->color = nearest (look->color_rgb, colors, G_N_ELEMENTS (colors));
  see_shape (clip, reach, look);
}

/* --- the tone ----------------------------------------------------------- */

/* In place, @n a power of two, x[2 i] + x[2 i + 1] j: sum_n x_n e^(-2 pi j
 * kn/N) */
static void
fourier (gdouble *x, gint n)
{
  for (gint i = 1, j = 0; i < n; i++) {
    gint bit = n >> 1;

    for (; j & bit; bit >>= 1)
      j ^= bit;
    j ^= bit;
    for (gint c = 0; i < j && c < 2; c++) {
      gdouble swap = x[2 * i + c];

      x[2 * i + c] = x[2 * j + c];
      x[2 * j + c] = swap;
    }
  }
  for (gint half = 1; half < n; half *= 2) {
    for (gint k = 0; k < half; k++) {
      gdouble re = cos (-G_PI * k / half), im = sin (-G_PI * k / half);

      for (gint i = k; i < n; i += 2 * half) {
        gdouble *a = x + 2 * i, *b = x + 2 * (i + half);
        gdouble b_re = b[0] * re - b[1] * im, b_im = b[0] * im + b[1] * re;

        b[0] = a[0] - b_re;
        b[1] = a[1] - b_im;
        a[0] += b_re;
        a[1] += b_im;
      }
    }
  }
}

/* Where the spectrum of both channels' mean, under a Hann window, peaks. */
static gdouble
peak_frequency (const gfloat *samples, gint n_samples)
{
  g_autofree gdouble *x = NULL;
  gint n = 2, peak = 1;
  gdouble best = -1;

  while (n < n_samples)
    n *= 2;
  x = g_new0 (gdouble, 2 * n);
  for (gint i = 0; i < n_samples; i++)
    x[2 * i] = (0.5 * samples[2 * i] + 0.5 * samples[2 * i + 1]) *
               (0.5 - 0.5 * cos (2 * G_PI * (i + 0.5) / n_samples));
  fourier (x, n);
  for (gint k = 1; k <= n / 2; k++) {
    gdouble power = x[2 * k] * x[2 * k] + x[2 * k + 1] * x[2 * k + 1];

    if (power > best) {
      best = power;
      peak = k;
    }
  }
  return peak * RATE / n;
}

static void
listen (const gfloat *samples, gint n_samples, H3Look *look)
{
  static const struct {
    const gchar *name;
    gdouble frequency;
  } tones[] = { { "low", 240 }, { "mid", 480 }, { "high", 960 } };
  gdouble sum = 0;

  for (gint i = 0; i < 2 * n_samples; i++)
    sum += (gdouble) samples[i] * samples[i];
  look->rms = n_samples > 0 ? sqrt (sum / (2.0 * n_samples)) : 0;
  look->tone = "silence";
  if (look->rms < SILENCE_RMS)
    return;
  look->tone = "other";
  look->frequency = peak_frequency (samples, n_samples);
  for (guint i = 0; i < G_N_ELEMENTS (tones); i++) {
    if (fabs (look->frequency - tones[i].frequency) <= 0.1 * tones[i].frequency)
      look->tone = tones[i].name;
  }
}

void
h3_look (const guint8 *rgb, gint width, gint height, gint n_frames,
    const gfloat *samples, gint n_samples, H3Look *look)
{
  const Clip clip = { width, height, n_frames, rgb };

  memset (look, 0, sizeof (*look));
  look->color = look->shape = look->motion = look->background = "nothing";
  if (width > 0 && height > 0 && n_frames > 0)
    see (&clip, look);
  listen (samples, n_samples, look);
}

gchar *
h3_look_words (const H3Look *look)
{
  return g_strjoin (" ", look->color, look->shape, look->motion,
      look->background, look->tone, NULL);
}
