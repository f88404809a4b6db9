/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How far the host runs ahead of the device. */
#include "cuda/device.h"

/* A piece of work: a third of a millisecond of a fast GPU, a small part of a
 * block of a large canvas. */
#define PIECE_FLOP 2e11

/* The host enqueues a piece, waits until the device is H3_CUDA_AHEAD pieces
 * behind, and asks whether to stop: what asks ends within the time of those
 * pieces, attention being one however long, and the device always has work
 * waiting for as long as the host takes to wake up. */
void
h3_cuda_pace (H3Stream *stream, gdouble flop)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  g_autoptr (GError) error = NULL;
  cudaEvent_t *event;

  cuda->piece_flop += flop;
  if (cuda->piece_flop < PIECE_FLOP)
    return;
  cuda->piece_flop = 0;
  event = &cuda->pieces[cuda->n_pieces++ % H3_CUDA_AHEAD];
  if (!*event) {
    if (!h3_cuda_ok (stream, "creating an event",
            cudaEventCreateWithFlags (event,
                cudaEventDisableTiming | cudaEventBlockingSync)))
      return;
  } else if (!h3_cuda_ok (stream, "waiting for a piece of work",
                 cudaEventSynchronize (*event))) {
    return;
  }
  if (!h3_cuda_ok (stream, "recording an event",
          cudaEventRecord (*event, cuda->handle)))
    return;
  if (h3_stop_requested (stream->stop, &error))
    h3_stream_fail (stream, H3_ERROR_CANCELLED, "%s", error->message);
}

void
h3_cuda_pace_clear (H3CudaStream *cuda)
{
  for (guint i = 0; i < H3_CUDA_AHEAD; i++)
    if (cuda->pieces[i])
      cudaEventDestroy (cuda->pieces[i]);
}
