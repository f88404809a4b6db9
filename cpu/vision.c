/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What only the vision tower needs (text-encoder.md 4.3, 5). */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

/* @scratch: the sum, then a row of the weight */
static void
mix_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3MixRowsArgs *a = data;
  const gint64 h = h3_tensor_cols (a->y), k = h3_tensor_cols (a->ids);
  const gint64 grain = h3_cpu_row_grain (h * k);
  const gint64 end = MIN ((index + 1) * grain, h3_tensor_rows (a->y));
  gfloat *sum = scratch, *row = sum + h;

  for (gint64 n = index * grain; n < end; n++) {
    const gint32 *ids = (const gint32 *) a->ids->data + n * k;
    const gfloat *mix = (const gfloat *) a->mix->data + n * k;
    gfloat *y = (gfloat *) a->y->data + n * h;

    memset (sum, 0, h * sizeof *sum);
    for (gint64 j = 0; j < k; j++) {
      h3_widen (row, a->weight->tensor, ids[j] * h, h);
      for (gint64 i = 0; i < h; i++)
        sum[i] += mix[j] * row[i];
    }
    for (gint64 i = 0; i < h; i++)
      y[i] += sum[i];
  }
}

void
H3_ISA (h3_cpu_mix_rows) (H3Stream *stream, const H3MixRowsArgs *args)
{
  const gint64 h = h3_tensor_cols (args->y);
  const gint64 grain = h3_cpu_row_grain (h * h3_tensor_cols (args->ids));

  if (!h3_cpu_rows_inside (stream, "mix_rows", args->ids,
          args->weight->tensor->shape[0]))
    return;
  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (args->y), grain),
      2 * h * sizeof (gfloat), mix_task, args);
}

/* A task is two rows of patches, whose groups follow each other. */
static void
patches_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3PicturePatchesArgs *a = data;
  const gint64 frames = a->pixels->shape[0];
  const gint64 height = a->pixels->shape[1], width = a->pixels->shape[2];
  const gint64 p = a->patch, down = height / (2 * p), across = width / p;
  const gint64 block = index / down, top = index % down * 2 * p;
  gfloat *y =
      (gfloat *) a->y->data + index * 2 * across * h3_tensor_cols (a->y);

  for (gint64 group = 0; group < across / 2; group++) {
    for (gint64 q = 0; q < 4; q++) { /* of a group */
      const gint64 row = top + q / 2 * p, column = (2 * group + q % 2) * p;

      for (gint64 c = 0; c < 3; c++) {
        for (gint64 s = 0; s < 2; s++) {
          const gint64 frame = MIN (2 * block + s, frames - 1);
          const guint8 *x = (const guint8 *) a->pixels->data +
                            ((frame * height + row) * width + column) * 3 + c;

          for (gint64 i = 0; i < p; i++, x += width * 3) {
            for (gint64 j = 0; j < p; j++)
              *y++ = (x[j * 3] - 127.5f) / 127.5f;
          }
        }
      }
    }
  }
}

void
H3_ISA (
    h3_cpu_picture_patches) (H3Stream *stream, const H3PicturePatchesArgs *args)
{
  const gint64 *shape = args->pixels->shape;

  h3_cpu_for (stream, (shape[0] + 1) / 2 * (shape[1] / (2 * args->patch)), 0,
      patches_task, args);
}
