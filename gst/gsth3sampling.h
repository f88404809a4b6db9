/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a clip is asked to be: the settings that are read when a job starts. */
#pragma once

#include <gst/gst.h>

#include "model/denoise/denoise.h"

G_BEGIN_DECLS

/* Property numbers, relative to the first. */
enum {
  GST_H3_SAMPLING_SEED,
  GST_H3_SAMPLING_STEPS,
  GST_H3_SAMPLING_SHIFT_VIDEO,
  GST_H3_SAMPLING_SHIFT_AUDIO,
  GST_H3_SAMPLING_SCHEDULE,
  GST_H3_SAMPLING_SIGMAS,
  GST_H3_SAMPLING_SIGMAS_AUDIO,
  GST_H3_SAMPLING_SOLVER,
  GST_H3_SAMPLING_NOISE_MODE,
  GST_H3_SAMPLING_FRAMES,
  GST_H3_SAMPLING_DURATION,
  GST_H3_SAMPLING_WIDTH,
  GST_H3_SAMPLING_HEIGHT,
  GST_H3_SAMPLING_ASPECT_RATIO,
  GST_H3_SAMPLING_STRICT,
  GST_H3_N_SAMPLING_PROPS
};

#define GST_H3_DEFAULT_SEED (-1)
#define GST_H3_DEFAULT_STEPS 20
#define GST_H3_DEFAULT_SHIFT 0.0
#define GST_H3_DEFAULT_SCHEDULE H3_SCHEDULE_UNIFORM
#define GST_H3_DEFAULT_SOLVER H3_SOLVER_EULER
#define GST_H3_DEFAULT_NOISE_MODE H3_NOISE_DIFFUSERS
#define GST_H3_DEFAULT_FRAMES 0
#define GST_H3_DEFAULT_DURATION 0
#define GST_H3_DEFAULT_SIDE 0
#define GST_H3_DEFAULT_ASPECT_N 16
#define GST_H3_DEFAULT_ASPECT_D 9
#define GST_H3_DEFAULT_STRICT FALSE

#define GST_TYPE_H3_SCHEDULE (gst_h3_schedule_get_type ())
#define GST_TYPE_H3_SOLVER (gst_h3_solver_get_type ())
#define GST_TYPE_H3_NOISE_MODE (gst_h3_noise_mode_get_type ())
GType gst_h3_schedule_get_type (void);
GType gst_h3_solver_get_type (void);
GType gst_h3_noise_mode_get_type (void);

typedef struct {
  gint64 seed;
  guint steps;
  gdouble shift_video, shift_audio;
  H3ScheduleKind schedule;
  gchar *sigmas, *sigmas_audio;
  H3Solver solver;
  H3NoiseMode noise_mode;
  guint frames;
  GstClockTime duration;
  gint width, height;
  gint aspect_n, aspect_d;
  gboolean strict;
} GstH3Sampling;

void gst_h3_sampling_install_properties (GObjectClass *klass, guint first);
void gst_h3_sampling_init (GstH3Sampling *sampling);
void gst_h3_sampling_clear (GstH3Sampling *sampling);
void gst_h3_sampling_copy (GstH3Sampling *to, const GstH3Sampling *from);
/* @id is relative to the first; FALSE when it is none of these. The caller
 * holds what guards @sampling. */
gboolean gst_h3_sampling_set (GstH3Sampling *sampling, guint id,
    const GValue *value);
gboolean gst_h3_sampling_get (const GstH3Sampling *sampling, guint id,
    GValue *value);

/* What the checkpoint says where the settings say nothing. */
typedef struct {
  gdouble shift_video, shift_audio;
  gboolean demo; /* the shipped toy: 96x64 and 22 frames are what it knows */
} GstH3SamplingDefaults;

/* A clip as it will be. */
typedef struct {
  H3DenoiseRequest request; /* its schedule is the one below */
  H3Schedule *schedule;     /* owned */
  H3ScheduleKind schedule_kind;
  gint requested_frames;     /* before alignment */
  gboolean untrained_length; /* outside 107 .. 362 frames, and no demo */
} GstH3Clip;

/* H3_ERROR_SETTINGS, naming the property, for what cannot be. Draws the seed
 * when it is -1. */
gboolean gst_h3_sampling_resolve (const GstH3Sampling *sampling,
    const GstH3SamplingDefaults *defaults, GstH3Clip *clip, GError **error);
void gst_h3_clip_clear (GstH3Clip *clip);

/* The size and length alone, for answering a CAPS query. */
gboolean gst_h3_sampling_geometry (const GstH3Sampling *sampling,
    const GstH3SamplingDefaults *defaults, H3Geometry *geometry,
    gint *requested_frames, GError **error);

G_END_DECLS
