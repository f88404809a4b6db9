/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A GPU that is none: the CPU device, said to be cuda:0 with memory of its own,
 * and with events that a test reaches by hand. The library is a CUDA module, so
 * with $H3_CUDA_MODULE = its path backend=cuda computes on it, and counts. */
#pragma once

#include "cuda/h3-cuda.h"

G_BEGIN_DECLS

#define H3_FAKE_EXPORT __attribute__ ((visibility ("default")))

/* All atomic. */
typedef struct {
  gint downloads; /* of more than a count: data that went to the host */
  gint copies;    /* between tensors of one type */
  gint waits;     /* of a stream for an event */
  gint events;    /* that were not freed */
  gint failing;   /* set: everything fails from now on, as after a fault */
} H3FakeGpu;

H3_FAKE_EXPORT H3FakeGpu *h3_fake_gpu (void);

/* An event as some producer records it; a stream that waits for it holds the
 * caller until it is reached. */
H3_FAKE_EXPORT gpointer h3_fake_event_new (void);
H3_FAKE_EXPORT void h3_fake_event_reach (gpointer event);
H3_FAKE_EXPORT void h3_fake_event_free (gpointer event);

/* H3CudaDeviceNew; each call makes a device. */
H3_FAKE_EXPORT H3Device *h3_cuda_device_new (gint ordinal, GError **error);

G_END_DECLS
