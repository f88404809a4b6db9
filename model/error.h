/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The one error domain of the model, and how to stop a computation. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define H3_ERROR (h3_error_quark ())
GQuark h3_error_quark (void);

/**
 * H3Error:
 *
 * Each code stands for one row of the error table in spec/gstreamer.md 11.3,
 * so an element can turn it into a GStreamer domain and code without reading
 * the message. A message names the file, tensor, property or field, says what
 * was found and what is needed.
 */
typedef enum {
  H3_ERROR_NOT_FOUND,  /* a file, folder or device that is not there */
  H3_ERROR_OPEN,       /* it is there and cannot be opened */
  H3_ERROR_READ,       /* truncated, overlapping, damaged bytes */
  H3_ERROR_WRONG_TYPE, /* whole, but not what is needed here: no H3 model, wrong
                         component, shape, dtype, version */
  H3_ERROR_SETTINGS,   /* a combination of settings that cannot be */
  H3_ERROR_FORMAT,     /* user data: text, latents, references */
  H3_ERROR_NO_SPACE,   /* memory: the message has needed and free bytes */
  H3_ERROR_INIT,       /* a library the device needs is missing */
  H3_ERROR_BUSY,       /* somebody else holds the device */
  H3_ERROR_DEVICE,     /* the device failed while computing */
  H3_ERROR_NUMERIC,    /* NaN or Inf where the model must give numbers */
  H3_ERROR_CANCELLED,  /* the caller asked to stop */
} H3Error;

/**
 * H3StopFunc:
 *
 * Asked between transformer blocks, decoder windows and the like, from the
 * computing thread, and from those that help it (h3_stream_set_stop). TRUE ends
 * the computation with H3_ERROR_CANCELLED.
 */
typedef gboolean (*H3StopFunc) (gpointer user_data);

typedef struct {
  H3StopFunc should_stop; /* may be NULL */
  gpointer user_data;
} H3Stop;

/* TRUE, with @error set, when @stop (may be NULL) asks to end. */
gboolean h3_stop_requested (const H3Stop *stop, GError **error);

G_END_DECLS
