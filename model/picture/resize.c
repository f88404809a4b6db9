/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/picture/resize.h"

#include <math.h>
#include <string.h>

#include "model/picture/resize-passes.h"

#define CHANNELS H3_RESIZE_CHANNELS
#define MAX_PRECISION 22

typedef H3ResizeAxis Axis;

struct _H3Resizer {
  Axis x, y;
  const H3ResizePasses *passes;
  guint8 *rows;    /* [src height][dst width][3], when both passes run */
  guint8 *scratch; /* of the horizontal pass */
};

static gdouble
sinc (gdouble x)
{
  return x == 0 ? 1 : sin (G_PI * x) / (G_PI * x);
}

static gdouble
lanczos (gdouble x)
{
  return x >= -3 && x < 3 ? sinc (x) * sinc (x / 3) : 0;
}

static gdouble
bicubic (gdouble x)
{
  const gdouble a = -0.5;

  x = fabs (x);
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2)
    return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

static const struct {
  gdouble (*function) (gdouble x);
  gdouble support;
} filters[] = {
  [H3_RESIZE_LANCZOS] = { lanczos, 3 },
  [H3_RESIZE_BICUBIC] = { bicubic, 2 },
};

static void
axis_clear (Axis *axis)
{
  g_clear_pointer (&axis->weight, g_free);
  g_clear_pointer (&axis->first, g_free);
  g_clear_pointer (&axis->count, g_free);
}

/* The weights of output pixel @i in float64, their sum 1; which ones. */
static void
weigh (const Axis *axis, H3ResizeFilter filter, gint i, gdouble *w)
{
  const gdouble scale = (gdouble) axis->src / axis->dst;
  const gdouble stretch = MAX (scale, 1), narrow = 1 / stretch;
  const gdouble reach = filters[filter].support * stretch;
  const gdouble centre = (i + 0.5) * scale;
  const gint first = MAX ((gint) (centre - reach + 0.5), 0);
  const gint end = MIN ((gint) (centre + reach + 0.5), axis->src);
  const gint n = MIN (end - first, axis->taps);
  gdouble sum = 0;

  for (gint j = 0; j < n; j++) {
    w[j] = filters[filter].function ((j + first - centre + 0.5) * narrow);
    sum += w[j];
  }
  if (sum != 0) {
    for (gint j = 0; j < n; j++)
      w[j] /= sum;
  }
  axis->first[i] = first;
  axis->count[i] = n;
}

/* Bits after the point: PIL has 22, torch as many as the largest weight leaves
 * in an int16. */
static guint
choose_precision (const Axis *axis, H3ResizeFilter filter, const gdouble *w)
{
  gdouble largest = 0;
  guint p = 0;

  if (filter == H3_RESIZE_LANCZOS)
    return MAX_PRECISION;
  for (gint i = 0; i < axis->dst; i++) {
    for (gint j = 0; j < axis->count[i]; j++)
      largest = MAX (largest, w[(gsize) i * axis->taps + j]);
  }
  while (p < MAX_PRECISION && (gint) (0.5 + largest * (1 << (p + 1))) < 1 << 15)
    p++;
  return p;
}

/* @axis has its sizes. Nothing is made for an axis that stays as it is. */
static gboolean
axis_init (Axis *axis, H3ResizeFilter filter)
{
  const gdouble scale = (gdouble) axis->src / axis->dst;
  g_autofree gdouble *w = NULL;
  gsize size;

  if (axis->src == axis->dst)
    return TRUE;
  axis->taps = 2 * (gint) ceil (filters[filter].support * MAX (scale, 1)) + 1;
  size = (gsize) axis->dst * axis->taps;
  w = g_try_new (gdouble, size);
  axis->weight = g_try_new (gint32, size);
  axis->first = g_try_new (gint, axis->dst);
  axis->count = g_try_new (gint, axis->dst);
  if (!w || !axis->weight || !axis->first || !axis->count)
    return FALSE;

  for (gint i = 0; i < axis->dst; i++)
    weigh (axis, filter, i, w + (gsize) i * axis->taps);
  axis->precision = choose_precision (axis, filter, w);
  for (gint i = 0; i < axis->dst; i++) {
    for (gint j = 0; j < axis->count[i]; j++) {
      const gsize k = (gsize) i * axis->taps + j;
      const gdouble fixed = w[k] * (1 << axis->precision);

      axis->weight[k] = (gint32) (fixed < 0 ? fixed - 0.5 : fixed + 0.5);
    }
  }
  return TRUE;
}

/* The best that this processor can run; $H3_CPU_ISA=baseline: not that. */
static const H3ResizePasses *
choose_passes (void)
{
#ifdef H3_PICTURE_HAS_AVX2
  __builtin_cpu_init ();
  if (__builtin_cpu_supports ("avx2") &&
      g_strcmp0 (g_getenv ("H3_CPU_ISA"), "baseline") != 0)
    return &h3_resize_passes_avx2;
#endif
  return &h3_resize_passes_baseline;
}

static gboolean
check_side (gint side, const gchar *what, GError **error)
{
  if (side >= 1 && side <= H3_PICTURE_MAX_SIDE)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
      "a picture %s of %d pixels, 1 to %d are possible", what, side,
      H3_PICTURE_MAX_SIDE);
  return FALSE;
}

H3Resizer *
h3_resizer_new (H3ResizeFilter filter, gint src_width, gint src_height,
    gint dst_width, gint dst_height, GError **error)
{
  const gboolean across = src_width != dst_width;
  const gboolean both = across && src_height != dst_height;
  g_autoptr (H3Resizer) resizer = NULL;

  if (!check_side (src_width, "width", error) ||
      !check_side (src_height, "height", error) ||
      !check_side (dst_width, "width", error) ||
      !check_side (dst_height, "height", error))
    return NULL;
  resizer = g_new0 (H3Resizer, 1);
  resizer->x = (Axis){ .src = src_width, .dst = dst_width };
  resizer->y = (Axis){ .src = src_height, .dst = dst_height };
  resizer->passes = choose_passes ();
  if (both)
    resizer->rows = g_try_malloc_n (src_height, (gsize) dst_width * CHANNELS);
  if (across)
    resizer->scratch = g_try_malloc (H3_RESIZE_SCRATCH_BYTES (src_width));
  if ((both && !resizer->rows) || (across && !resizer->scratch) ||
      !axis_init (&resizer->x, filter) || !axis_init (&resizer->y, filter)) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory to resize a picture from %d x %d to %d x %d", src_width,
        src_height, dst_width, dst_height);
    return NULL;
  }
  return g_steal_pointer (&resizer);
}

void
h3_resizer_free (H3Resizer *resizer)
{
  axis_clear (&resizer->x);
  axis_clear (&resizer->y);
  g_free (resizer->rows);
  g_free (resizer->scratch);
  g_free (resizer);
}

void
h3_resizer_run (H3Resizer *resizer, guint8 *dst, gsize dst_stride,
    const guint8 *src, gsize src_stride)
{
  const Axis *x = &resizer->x, *y = &resizer->y;
  const gsize row = (gsize) x->dst * CHANNELS;

  if (x->weight && y->weight) {
    resizer->passes->rows (x, y->src, resizer->rows, row, src, src_stride,
        resizer->scratch);
    resizer->passes->columns (y, row, dst, dst_stride, resizer->rows, row);
  } else if (x->weight) {
    resizer->passes->rows (x, y->src, dst, dst_stride, src, src_stride,
        resizer->scratch);
  } else if (y->weight) {
    resizer->passes->columns (y, row, dst, dst_stride, src, src_stride);
  } else {
    for (gint i = 0; i < y->src; i++)
      memcpy (dst + i * dst_stride, src + i * src_stride, row);
  }
}

gboolean
h3_resize (H3ResizeFilter filter, guint8 *dst, gint dst_width, gint dst_height,
    const guint8 *src, gint src_width, gint src_height, GError **error)
{
  g_autoptr (H3Resizer) resizer = h3_resizer_new (filter, src_width, src_height,
      dst_width, dst_height, error);

  if (!resizer)
    return FALSE;
  h3_resizer_run (resizer, dst, (gsize) dst_width * CHANNELS, src,
      (gsize) src_width * CHANNELS);
  return TRUE;
}
