/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/video/tiling.h"

/* The smallest N with tile N - overlap (N - 1) >= length. */
static gint64
tiles_needed (gint64 length, gint64 tile, gint64 overlap)
{
  gint64 step = tile - overlap;

  return length <= tile ? 1 : (length - overlap + step - 1) / step;
}

/* Overlaps start at the least and grow by one @ratio at a time, round robin
 * from the first, until the last tile ends where the axis does. */
static void
spread_overlaps (H3TileAxis *axis, gint min_overlap, gint ratio)
{
  gint joins = axis->n - 1;
  gint excess = (gint) ((gint64) axis->tile * axis->n -
                        (gint64) min_overlap * joins - axis->length);

  for (gint k = 0; k < joins; k++)
    axis->overlap[k] = min_overlap;
  for (gint u = 0; u < excess / ratio; u++)
    axis->overlap[u % joins] += ratio;
  for (gint k = 0; k < joins; k++)
    axis->start[k + 1] = axis->start[k] + axis->tile - axis->overlap[k];
}

gboolean
h3_tile_axis_init (H3TileAxis *axis, gint length, gint tile, gint min_overlap,
    gint ratio, GError **error)
{
  gint64 n;

  if (ratio < 1 || length < 1 || length % ratio) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "a picture side of %d pixels cannot be tiled: it must be a positive "
        "multiple of %d",
        length, ratio);
    return FALSE;
  }
  if (tile < ratio || tile % ratio || min_overlap < 0 || min_overlap % ratio ||
      min_overlap > tile - ratio) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "tiles of %d pixels that overlap by at least %d: both must be "
        "multiples of %d, the overlap at most the tile less %d",
        tile, min_overlap, ratio, ratio);
    return FALSE;
  }
  n = tiles_needed (length, tile, min_overlap);
  if (n > H3_MAX_TILES) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "a picture side of %d pixels needs %" G_GINT64_FORMAT " tiles of %d: "
        "at most %d are possible",
        length, n, tile, H3_MAX_TILES);
    return FALSE;
  }

  axis->length = length;
  axis->tile = MIN (tile, length);
  axis->n = (gint) n;
  axis->start[0] = 0;
  spread_overlaps (axis, min_overlap, ratio);
  return TRUE;
}

gint
h3_video_windows (gint latent_frames)
{
  gint64 padded = (gint64) latent_frames + H3_VIDEO_TOKEN_DROP;

  if (latent_frames < 1)
    return 0;
  padded = (padded + H3_VIDEO_WINDOW_STEP - 1) / H3_VIDEO_WINDOW_STEP;
  return (gint) MAX (padded - 1, 1);
}

gint
h3_video_frames (gint latent_frames)
{
  static const gint rest[H3_VIDEO_WINDOW_STEP] = { 0, 1, 5, 9, 13 };

  if (latent_frames < 1)
    return 0;
  return H3_VIDEO_WINDOW_FRAMES * (latent_frames / H3_VIDEO_WINDOW_STEP) +
         rest[latent_frames % H3_VIDEO_WINDOW_STEP];
}

/* What a clip's last few frames make: the latents of the window after it. */
#define TAIL_FRAMES H3_VIDEO_OVERLAP
#define TAIL_LATENTS (H3_VIDEO_WINDOW - H3_VIDEO_WINDOW_STEP)

gint
h3_video_encoded_frames (gint frames)
{
  if (frames < TAIL_FRAMES)
    return MIN (MAX (frames, 0), 1);
  return (frames - TAIL_FRAMES) / H3_VIDEO_CLIP_LENGTH * H3_VIDEO_CLIP_LENGTH +
         TAIL_FRAMES;
}

gint
h3_video_encoded_latents (gint frames)
{
  if (frames < TAIL_FRAMES)
    return MIN (MAX (frames, 0), 1);
  return (frames - TAIL_FRAMES) / H3_VIDEO_CLIP_LENGTH * H3_VIDEO_WINDOW_STEP +
         TAIL_LATENTS;
}
