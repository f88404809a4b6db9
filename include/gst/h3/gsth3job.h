/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The facts of a clip, on every buffer that belongs to it. */
#pragma once

#include <gst/h3/gsth3prelude.h>

G_BEGIN_DECLS

/**
 * GST_H3_JOB_META_NAME:
 *
 * A GstCustomMeta, so any binding can read its structure. Fields, each present
 * once the element that decides it has run:
 * - task (string), prompt-sha256 (string, hex), tokens (uint): h3textenc; and
 *   prompt (string), which h3denoise does not pass on
 * - job (uint64, counts from 0), seed (uint64), steps (uint), frames (uint,
 *   pictures in the clip), width, height (int, pixels), model (string):
 * h3denoise
 */
#define GST_H3_JOB_META_NAME "GstH3JobMeta"

/* Registers the meta; the other functions do it themselves. */
GST_H3_API
void gst_h3_job_meta_init (void);

/* Attaches a copy of @job (any name) to @buffer, which must be writable. */
GST_H3_API
void gst_h3_buffer_add_job (GstBuffer *buffer, const GstStructure *job);

/* The buffer's job, or NULL. Owned by the buffer. */
GST_H3_API
const GstStructure *gst_h3_buffer_get_job (GstBuffer *buffer);

G_END_DECLS
