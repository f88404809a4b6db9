/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Quantised matrices as ComfyUI stores them: a weight, its sidecars and the
 * marker that names the format (checkpoints.md 4.2). Private to
 * model/checkpoint. */
#pragma once

#include "model/checkpoint/tensor-set.h"
#include "model/tensor.h"

G_BEGIN_DECLS

/* A tensor of the oldest FP8 files, which is of no module. */
#define H3_OLDEST_MARKER "scaled_fp8"

/* A stored matrix and what belongs to it. Nothing is owned. */
typedef struct {
  const H3StoredTensor *weight;
  H3Encoding encoding;
  guint rotation;
  const H3StoredTensor *scale;        /* NULL: 1 */
  const H3StoredTensor *tensor_scale; /* weight_scale_2 */
  const H3StoredTensor *input_scale;  /* NULL: none */
  const H3StoredTensor *column_scale; /* pre_quant_scale */
  gboolean full_precision;
} H3Quantised;

/**
 * h3_quantised_find:
 * @name: a tensor of @set
 * @used: (element-type utf8): gets the names of marker and sidecars
 *
 * A matrix without marker is FP8 when its type is, with or without scales,
 * GGUF's blocks are what they are, and the rest is plain. FALSE with H3_ERROR_WRONG_TYPE, naming file and tensor, for a
 * format that is unknown or not supported, a marker that is no such thing, a
 * sidecar that is missing, or a type that is not the format's; with another code
 * when the file cannot be read.
 */
gboolean h3_quantised_find (H3TensorSet *set, const gchar *name,
    GHashTable *used, H3Quantised *q, GError **error);

/* The encoding of GGUF's blocks; PLAIN for every other type. */
H3Encoding h3_quantised_block_encoding (H3StoredType type);

/* The rows of a matrix of @cols columns, as stored; -1 when the shape is not
 * that of one. Rows may have been added to make a multiple of
 * h3_quantised_row_unit(). */
gint64 h3_quantised_rows (const H3Quantised *q, gint64 cols);
gint64 h3_quantised_row_unit (const H3Quantised *q);

/* FALSE, H3_ERROR_WRONG_TYPE, when a sidecar's shape or type is not that of a
 * matrix of [@rows, @cols], or the rotation does not divide @cols. */
gboolean h3_quantised_check (const H3Quantised *q, gint64 rows, gint64 cols,
    GError **error);

/* The sidecars' numbers. FALSE with H3_ERROR_NUMERIC when one is NaN, Inf,
 * negative, or, but for block scales, 0; H3_ERROR_READ or H3_ERROR_NO_SPACE. */
/* 0 where the layer has none */
gboolean h3_quantised_read_input_scale (const H3Quantised *q, gfloat *scale,
    GError **error);
/* @scale: [rows] */
gboolean h3_quantised_read_scale (const H3Quantised *q, gint64 rows,
    gfloat *scale, GError **error);
/* @scale: [rows, ceil (cols / scale_block)], row after row; stored are tiles */
gboolean h3_quantised_read_block_scale (const H3Quantised *q, gint64 rows,
    gint64 cols, guint8 *scale, GError **error);
/* @scale: [cols] */
gboolean h3_quantised_read_column_scale (const H3Quantised *q, gint64 cols,
    gfloat *scale, GError **error);

G_END_DECLS
