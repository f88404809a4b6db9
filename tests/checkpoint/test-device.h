/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A device that stores and counts and computes nothing, so that loading is
 * tested apart from any real device, with and without host memory. */
#pragma once

#include "model/checkpoint/loader.h"
#include "model/ops.h"

typedef struct {
  H3Device device;
  GMutex lock; /* of the next two: readers upload from threads */
  GChecksum
      *uploaded; /* size of every tensor, bytes of every upload, in order */
  guint n_uploads;
  gboolean unhashed; /* which takes time */
  gsize in_use;      /* bytes */
  gsize capacity;    /* more is H3_ERROR_NO_SPACE; 0: no limit */
  gint n_host;       /* host allocations alive; atomic, as the next two */
  gint no_host_memory, fail_uploads;
} TestDevice;

TestDevice *test_device_new (gboolean host_memory);
void test_device_free (TestDevice *device);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TestDevice, test_device_free)

/* The loader's two runs, which must succeed: what was asked for is planned, and
 * after begin it arrives on @device until finish. */
void test_loader_begin (H3Loader *loader, TestDevice *device);
void test_loader_finish (H3Loader *loader);
