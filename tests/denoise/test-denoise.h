/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of the two test programs of this folder. */
#pragma once

#include "h3-test-device.h"

#include "model/denoise/transformer.h"

G_BEGIN_DECLS

/* of the program "sampling" */
void h3_test_add_geometry (void);
void h3_test_add_noise (void);
void h3_test_add_packing (void);
void h3_test_add_schedule (void);
void h3_test_add_solver (void);

/* of the program "transformer" */
void h3_test_add_transformer (void);
void h3_test_add_adaln (void);
void h3_test_add_curve (void);
void h3_test_add_denoise (void);
void h3_test_add_checkpoint_errors (void);

/* A device and a stream on it; @threads of the CPU. */
typedef struct {
  H3Device *device;
  H3Stream *stream;
} H3TestDevice;

void h3_test_device_init (H3TestDevice *device, guint threads);
void h3_test_device_clear (H3TestDevice *device);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3TestDevice, h3_test_device_clear)

/* The FL2VA transformer of the checkpoint at @path. */
H3Transformer *h3_test_load (const gchar *path, H3Device *device);
H3Transformer *h3_test_load_partition (const gchar *path, H3Partition partition,
    H3Device *device);
/* A matrix on the device. */
H3Tensor *h3_test_matrix (H3Device *device, const gfloat *values, gint64 rows,
    gint64 cols);

/* Keeps what a tap shows: name -> values. */
typedef struct {
  H3Tap tap;
  H3Stream *stream;
  GHashTable *seen; /* gchar * -> GArray of gfloat */
} H3TestTaps;

/* @stream: what computes the values; outlives the taps. */
void h3_test_taps_init (H3TestTaps *taps, H3Stream *stream);
void h3_test_taps_clear (H3TestTaps *taps);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3TestTaps, h3_test_taps_clear)
/* The values shown as @name, @n of them; the test fails when there are none. */
const gfloat *h3_test_taps_get (const H3TestTaps *taps, const gchar *name,
    gsize n);

/* A stop that says yes at the @after-th question (0: the first). */
typedef struct {
  H3Stop stop;
  gint after, asked;
} H3TestStop;

void h3_test_stop_init (H3TestStop *stop, gint after);

G_END_DECLS
