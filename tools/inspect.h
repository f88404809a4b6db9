/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of h3-inspect. */
#pragma once

#include "model/checkpoint/detect.h"
#include "model/denoise/geometry.h"

/* What the tensors of a set are stored as (checkpoints.md 2.2, 4.2). */
typedef struct {
  const gchar *encoding; /* "BF16", "FP8 E4M3", "NVFP4" */
  guint n;
  guint64 bytes; /* with what belongs to them: scales, markers */
} CensusLine;

typedef struct {
  GArray *lines;       /* CensusLine, the most bytes first */
  guint n_tensors;     /* with scales and markers */
  guint64 file_bytes;  /* of the files, on disk */
  guint64 trailing;    /* bytes after the last tensor */
  GPtrArray *problems; /* sentences, owned */
} Census;

void census_clear (Census *census);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Census, census_clear)
/* Opens every shard; reads headers and markers, no weights. */
void census_take (Census *census, H3TensorSet *set);

/* What memory is counted for, before anything is inspected. FALSE for a clip that
 * there cannot be. */
gboolean inspect_for (gint width, gint height, gint frames, GError **error);
/* Whether the file is a LoRA adapter; a report on it, and on whether it fits the
 * transformers in @seen. */
gboolean inspect_is_adapter (const gchar *path);
gboolean inspect_adapter (const gchar *path, GHashTable *seen);
/* Prints a report on each component of @path that is not in @seen, a set of
 * strings; FALSE when anything is wrong or cannot be used. */
gboolean inspect (const gchar *path, GHashTable *seen);
