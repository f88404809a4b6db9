/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A model's weights out of the device's memory and back, for devices that
 * cannot hold every model at once (spec/gstreamer.md 12, residency). */
#pragma once

#include "model/ops.h"

G_BEGIN_DECLS

typedef struct _H3Parking H3Parking;

/**
 * h3_parking_new:
 * @tensors: (element-type H3Tensor): a model's, of one device and no views;
 *   taken. Only parking changes their data from here on
 *
 * They are on the device. Nobody may compute with them, or hold a view of one,
 * while they are parked. Not thread-safe.
 */
H3Parking *h3_parking_new (GPtrArray *tensors);
/* The tensors stay as they are: parked ones have no data. */
void h3_parking_free (H3Parking *parking);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Parking, h3_parking_free)

/* Device bytes of all tensors. */
guint64 h3_parking_bytes (const H3Parking *parking);
gboolean h3_parking_is_parked (const H3Parking *parking);

/**
 * h3_parking_park:
 *
 * Copies to host memory what has not been copied before, weights never change,
 * then frees all device memory. FALSE, and everything is still on the device,
 * when there is no host memory, the device fails or @stop asks to end.
 */
gboolean h3_parking_park (H3Parking *parking, const H3Stop *stop,
    GError **error);

/* Brings every byte back. FALSE, and everything is still parked, when the
 * device has no memory, fails or @stop asks to end. */
gboolean h3_parking_unpark (H3Parking *parking, const H3Stop *stop,
    GError **error);

G_END_DECLS
