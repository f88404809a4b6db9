/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The promises of the encoders' operations. */
#include "model/ops-check.h"

void
h3_snake (H3Stream *stream, const H3SnakeArgs *args)
{
  static const gchar op[] = "snake";

  if (stream->error || !SHAPED ("x", args->x, KIND_F32, ANY, ANY, ANY) ||
      !same_shape (stream, op, "y", args->y, KIND_F32, args->x) ||
      !VECTOR ("a", args->a, KIND_F32, args->x->shape[1]) ||
      !VECTOR ("inv_a", args->inv_a, KIND_F32, args->x->shape[1]) ||
      (args->y->data != args->x->data &&
          !apart (stream, op, "x", args->y, args->x)))
    return;
  stream->device->ops->snake (stream, args);
}

void
h3_multiply (H3Stream *stream, H3Tensor *y, const H3Tensor *x)
{
  static const gchar op[] = "multiply";

  if (stream->error || !present (stream, op, "y", y) ||
      !same_shape (stream, op, "y", y, KIND_F32, y) ||
      !same_shape (stream, op, "x", x, KIND_F32, y) ||
      !apart (stream, op, "x", y, x))
    return;
  stream->device->ops->multiply (stream, y, x);
}

void
h3_network_pixels (H3Stream *stream, const H3NetworkPixelsArgs *args)
{
  static const gchar op[] = "network_pixels";
  const gint64 *y, *rgb;

  if (stream->error || !SHAPED ("y", args->y, KIND_F32, ANY, ANY, ANY, 3) ||
      !SHAPED ("rgb", args->rgb, KIND_U8, ANY, ANY, ANY, 3))
    return;
  y = args->y->shape;
  rgb = args->rgb->shape;
  if (y[0] > rgb[0] || args->y0 < 0 || args->x0 < 0 ||
      args->y0 > rgb[1] - y[1] || args->x0 > rgb[2] - y[2])
    refuse (stream, op,
        "a tile of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
        " x %" G_GINT64_FORMAT
        " at (%d, %d) is not inside frames of %" G_GINT64_FORMAT
        " x %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT,
        y[0], y[1], y[2], args->y0, args->x0, rgb[0], rgb[1], rgb[2]);
  else
    stream->device->ops->network_pixels (stream, args);
}

/* Mirroring once must be enough. */
static gboolean
mirrors (gint64 length, gint64 k, const H3Conv3dArgs *args)
{
  return length % args->stride == 0 && args->pad < length &&
         k - args->pad - args->stride < length;
}

void
h3_conv3d (H3Stream *stream, const H3Conv3dArgs *args)
{
  static const gchar op[] = "conv3d";
  const gint64 *x, *w;

  if (stream->error ||
      !SHAPED ("x", args->x, KIND_F32, ANY, ANY, ANY, ANY, ANY))
    return;
  if (!args->weight) {
    refuse (stream, op, "the weight is missing");
    return;
  }
  x = args->x->shape;
  if (!SHAPED ("the weight", args->weight->tensor, KIND_F32, ANY, ANY, ANY, ANY,
          x[4]))
    return;
  w = args->weight->tensor->shape;
  if (args->stride < 1 || args->stride_t < 1 || args->pad < 0 || w[1] < 1 ||
      w[2] < 1 || w[3] != w[2] || args->pad >= w[2] || x[1] < 1 ||
      !mirrors (x[2], w[2], args) || !mirrors (x[3], w[2], args)) {
    refuse (stream, op,
        "a kernel of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
        " x %" G_GINT64_FORMAT " (strides %d and %d, pad %d) does not fit "
        "%" G_GINT64_FORMAT " frames of %" G_GINT64_FORMAT
        " x %" G_GINT64_FORMAT,
        w[1], w[2], w[3], args->stride_t, args->stride, args->pad, x[1], x[2],
        x[3]);
    return;
  }
  if (!SHAPED ("y", args->y, KIND_F32, x[0], (x[1] - 1) / args->stride_t + 1,
          x[2] / args->stride, x[3] / args->stride, w[0]) ||
      !VECTOR ("the bias", args->bias, KIND_F32, w[0]) ||
      (args->residual && !same_shape (stream, op, "the residual",
                             args->residual, KIND_F32, args->y)) ||
      !apart (stream, op, "x", args->y, args->x) ||
      (args->residual && args->residual->data != args->y->data &&
          !apart (stream, op, "the residual", args->y, args->residual)))
    return;
  stream->device->ops->conv3d (stream, args);
}

void
h3_group_norm_silu (H3Stream *stream, const H3GroupNormArgs *args)
{
  static const gchar op[] = "group_norm_silu";
  gint64 c;

  if (stream->error || !present (stream, op, "x", args->x))
    return;
  if (args->x->rank < 3) {
    mismatch (stream, op, "x", args->x, KIND_F32, 3,
        (gint64[]){ ANY, ANY, ANY });
    return;
  }
  c = h3_tensor_cols (args->x);
  if (args->groups < 1 || c % args->groups) {
    refuse (stream, op, "%" G_GINT64_FORMAT " channels are not %d equal groups",
        c, args->groups);
    return;
  }
  if (!same_shape (stream, op, "x", args->x, KIND_F32, args->x) ||
      !same_shape (stream, op, "y", args->y, KIND_F32, args->x) ||
      !VECTOR ("the weight", args->weight, KIND_F32, c) ||
      !VECTOR ("the bias", args->bias, KIND_F32, c) ||
      !apart (stream, op, "x", args->y, args->x))
    return;
  stream->device->ops->group_norm_silu (stream, args);
}
