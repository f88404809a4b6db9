/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which kernel a convolution is for. */
#include "cuda/device.h"

/* How many times as long as a product of 16-bit matrices they take. */
#define COST_SM90 4
#define COST_OTHERS 15

/* Frames before the first are zero and cost nothing. */
static gdouble
flop (const H3Conv3dArgs *args)
{
  const gint64 *w = args->weight->tensor->shape, *y = args->y->shape;
  gint64 taps = 0;

  for (gint64 t = 0; t < y[1]; t++)
    taps += MIN (t * args->stride_t + 1, w[1]);
  return 2.0 * taps * w[2] * w[3] * w[4] * y[0] * y[2] * y[3] * y[4];
}

/* FALSE: the kernel for Hopper cannot, and the stream has not failed. */
static gboolean
run_sm90 (H3Stream *stream, const H3Conv3dArgs *args)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  gsize bytes = h3_cuda_conv3d_sm90_scratch (args);
  gpointer scratch;
  cudaError_t err;

  if (bytes == 0)
    return FALSE;
  scratch = h3_cuda_scratch (stream, &cuda->conv3d, bytes);
  if (!scratch)
    return TRUE;
  err = h3_cuda_conv3d_sm90 (cuda->handle, args, scratch);
  if (err == cudaErrorNotSupported)
    return FALSE;
  h3_cuda_ok (stream, "conv3d", err);
  return TRUE;
}

void
h3_cuda_conv3d (H3Stream *stream, const H3Conv3dArgs *args)
{
  gdouble cost = COST_SM90;

  if (!h3_cuda_enter (stream))
    return;
  if (!run_sm90 (stream, args)) {
    cost = COST_OTHERS;
    h3_cuda_ok (stream, "conv3d",
        h3_cuda_conv3d_any (((H3CudaStream *) stream)->handle, args));
  }
  if (!stream->error)
    h3_cuda_pace (stream, cost * flop (args));
}
