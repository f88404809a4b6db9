/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The golden pictures, clip and sounds, as they go into an element. */
#pragma once

#include <gst/gst.h>

#include "h3-test.h"

G_BEGIN_DECLS

#define MEDIA_CAPS "video/x-raw, format=RGB, width=%d, height=%d, framerate=%s"

/* One or more frames of RGB. */
typedef struct {
  gint width, height;
  guint n;
  guint8 *pixels; /* rows padded to 4 bytes, as GStreamer has them */
} Media;

void media_free (Media *media);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Media, media_free)

/* "first", "last" or "image": a PNG of the golden ones. */
Media *media_picture (const gchar *name);
/* The golden clip: 30 frames of 96x64 at 24 fps. */
Media *media_clip (void);
/* Frames that are something else. */
Media *media_pattern (gint width, gint height, guint n);

/* @framerate: "24/1" */
gchar *media_caps (const Media *media, const gchar *framerate);
/* Frame @i, without a timestamp. */
GstBuffer *media_buffer (const Media *media, guint i);

G_END_DECLS
