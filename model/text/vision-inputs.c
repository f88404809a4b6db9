/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/vision-inputs.h"

#include <math.h>
#include <string.h>

#define ROPE_THETA 10000.0
#define MERGED (H3_VISION_MERGE * H3_VISION_MERGE)

static gboolean
no_memory (const gchar *for_what, gsize bytes, GError **error)
{
  g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
      "no memory for %s: %" G_GSIZE_FORMAT " bytes are needed", for_what,
      bytes);
  return FALSE;
}

/* Where patch @i of a block lies: groups of 2 x 2 patches, row by row
 * (text-encoder.md 4.3). */
static void
patch_place (const H3VisionSize *size, gint i, gint *row, gint *column)
{
  const gint across = size->grid_w / H3_VISION_MERGE;
  const gint group = i / MERGED, in = i % MERGED;

  *row = group / across * H3_VISION_MERGE + in / H3_VISION_MERGE;
  *column = group % across * H3_VISION_MERGE + in % H3_VISION_MERGE;
}

/* The images at the tower's size, one after the other. */
static guint8 *
resize_images (const H3TextCondition *condition, GError **error)
{
  const H3VisionSize *size = &condition->size;
  const gsize row = (gsize) size->width * 3, image = row * size->height;
  g_autoptr (H3Resizer) resizer =
      h3_resizer_new (H3_RESIZE_BICUBIC, condition->canvas_width,
          condition->canvas_height, size->width, size->height, error);
  guint8 *pixels;

  if (!resizer)
    return NULL;
  pixels = g_try_malloc_n (condition->n_images, image);
  if (!pixels) {
    no_memory ("a reference's pixels", condition->n_images * image, error);
    return NULL;
  }
  for (guint i = 0; i < condition->n_images; i++)
    h3_resizer_run (resizer, pixels + i * image, row,
        condition->images[i].pixels, (gsize) condition->canvas_width * 3);
  return pixels;
}

H3Tensor *
h3_vision_make_pixels (const H3TextCondition *condition, H3Device *device,
    GError **error)
{
  const gint64 shape[] = { condition->n_images, condition->size.height,
    condition->size.width, 3 };
  g_autofree guint8 *host = resize_images (condition, error);

  return host ? h3_tensor_new_from_host (device, H3_DTYPE_U8, 4, shape, host,
                    error)
              : NULL;
}

typedef struct {
  gint low, high; /* of the table's side */
  gfloat part;    /* of high */
} Between;

/* Place @i of @n on a side of @side entries whose ends are the ends. */
static Between
between (gint i, gint n, gint side)
{
  const gfloat at = (gfloat) (i * (side - 1)) / (gfloat) (n - 1);
  Between b;

  b.low = (gint) at;
  b.high = MIN (b.low + 1, side - 1);
  b.part = at - b.low;
  return b;
}

/* The same for every block of a clip. */
static void
fill_positions (const H3VisionSize *size, gint side, gint32 *ids, gfloat *mix)
{
  const gint n = size->grid_h * size->grid_w;

  for (gint i = 0; i < n; i++, ids += 4, mix += 4) {
    gint row, column;
    Between r, c;

    patch_place (size, i, &row, &column);
    r = between (row, size->grid_h, side);
    c = between (column, size->grid_w, side);
    ids[0] = r.low * side + c.low;
    ids[1] = r.low * side + c.high;
    ids[2] = r.high * side + c.low;
    ids[3] = r.high * side + c.high;
    mix[0] = (1 - r.part) * (1 - c.part);
    mix[1] = (1 - r.part) * c.part;
    mix[2] = r.part * (1 - c.part);
    mix[3] = r.part * c.part;
  }
  for (gint b = 1; b < size->blocks; b++, ids += 4 * n, mix += 4 * n) {
    memcpy (ids, ids - 4 * n, 4 * n * sizeof *ids);
    memcpy (mix, mix - 4 * n, 4 * n * sizeof *mix);
  }
}

gboolean
h3_vision_make_positions (const H3VisionConfig *config,
    const H3VisionSize *size, H3Device *device, H3Tensor **ids, H3Tensor **mix,
    GError **error)
{
  const gint64 patches = (gint64) size->blocks * size->grid_h * size->grid_w;
  const gint64 shape[] = { patches, 4 };
  const gsize n = 4 * patches;
  g_autofree gint32 *rows = g_try_new (gint32, n);
  g_autofree gfloat *parts = g_try_new (gfloat, n);

  if (!rows || !parts)
    return no_memory ("positions of patches", 8 * n, error);
  fill_positions (size, (gint) sqrt (config->positions), rows, parts);
  *ids = h3_tensor_new_from_host (device, H3_DTYPE_I32, 2, shape, rows, error);
  if (!*ids)
    return FALSE;
  *mix = h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, parts, error);
  return *mix != NULL;
}

/* Angles of a block: the row turns the first half of them, the column the
 * second; inv_k = theta^(-2 k / (head_dim / 2)). */
static void
fill_rope (const H3VisionSize *size, gint angles, gfloat *cosines,
    gfloat *sines)
{
  const gint n = size->grid_h * size->grid_w, half = angles / 2;

  for (gint k = 0; k < half; k++) {
    const gfloat exponent = (gfloat) (2 * k) / angles;
    const gfloat inv = 1.0f / (gfloat) pow (ROPE_THETA, exponent);

    for (gint i = 0; i < n; i++) {
      gint row, column;
      gfloat a, b;

      patch_place (size, i, &row, &column);
      a = row * inv;
      b = column * inv;
      cosines[(gsize) i * angles + k] = cos (a);
      sines[(gsize) i * angles + k] = sin (a);
      cosines[(gsize) i * angles + half + k] = cos (b);
      sines[(gsize) i * angles + half + k] = sin (b);
    }
  }
}

gboolean
h3_vision_make_rope (const H3VisionConfig *config, const H3VisionSize *size,
    H3Device *device, H3Tensor **cosines, H3Tensor **sines, GError **error)
{
  const gint angles = config->hidden / config->heads / 2;
  const gint64 shape[] = { (gint64) size->grid_h * size->grid_w, angles };
  const gsize n = shape[0] * shape[1];
  g_autofree gfloat *host = g_try_new (gfloat, 2 * n);

  if (!host)
    return no_memory ("rotations of patches", 2 * n * sizeof (gfloat), error);
  fill_rope (size, angles, host, host + n);
  *cosines =
      h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, host, error);
  if (!*cosines)
    return FALSE;
  *sines =
      h3_tensor_new_from_host (device, H3_DTYPE_F32, 2, shape, host + n, error);
  return *sines != NULL;
}
