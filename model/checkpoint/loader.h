/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From stored tensors to a device's weights: names, shapes, row orders.
 *
 * A component describes what it reads by calling h3_loader_weight() and
 * friends. It does so twice, through the same function: first in a dry run,
 * which checks every name, shape and type, counts the bytes and allocates
 * nothing; then for real. What it gets then is filled while it goes on asking
 * (reader.h), and complete once h3_loader_finish() has said so. Errors are collected, so that one message says how
 * many tensors are missing or wrong and names the first few. */
#pragma once

#include "model/checkpoint/tensor-set.h"
#include "model/ops.h"

G_BEGIN_DECLS

typedef struct _H3Loader H3Loader;
typedef struct _H3Adapters H3Adapters;

/* How the stored rows become [q; k; v] or [gate; value] (checkpoints.md 3.5). */
typedef enum {
  H3_ROWS_AS_STORED,
  H3_ROWS_GROUPED_QKV, /* stored per head: head j's q, k, v rows, then j + 1's */
  H3_ROWS_SWAP_HALVES, /* stored [value; gate] */
} H3RowOrder;

/* bytes that arrived of bytes in all; from the loading thread. */
typedef void (*H3LoadProgress) (guint64 done, guint64 total, gpointer data);

/* @what: for messages, "MiniMax H3 transformer". @set must outlive the loader. */
H3Loader *h3_loader_new (H3TensorSet *set, const gchar *what);
void h3_loader_free (H3Loader *loader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Loader, h3_loader_free)

/**
 * h3_loader_plan_for:
 * @device: (nullable): what the dry run is for: matrices are counted in the type
 *   that is asked for there, and encodings that it does not take are problems
 *   before anything is uploaded. NULL, as in the beginning: as stored
 *
 * Must outlive the dry run.
 */
void h3_loader_plan_for (H3Loader *loader, const H3Device *device);
/* Starts the real run: uploads to @device, stops when @stop asks, which is asked
 * from the loading thread. Without this call the loader is in its dry run. */
gboolean h3_loader_begin (H3Loader *loader, H3Device *device,
    const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
    GError **error);

/**
 * h3_loader_set_adapters:
 * @adapters: (nullable): outlive the loader
 *
 * Before the first weight: adapters change the matrices they have updates for.
 * Plain ones are changed in float32 and rounded once, when they have arrived;
 * quantised ones get the factors as a low rank. An adapter that does not fit, or
 * has an update that no matrix was for, is a problem of the dry run.
 */
void h3_loader_set_adapters (H3Loader *loader, const H3Adapters *adapters);
/**
 * h3_loader_set_projection:
 * @width: columns of a pruned transformer's AdaLN; @full: of what it was made of
 * @basis: [width, full]; @mean: [full]; NULL in the dry run. Kept
 *
 * Lets adapters of AdaLN that are @full wide act on one of @width (denoiser.md
 * 8.4): A becomes A basisᵀ, and B A mean is to be added to the bias, see
 * h3_loader_adapt_bias().
 */
void h3_loader_set_projection (H3Loader *loader, gint64 width, gint64 full,
    const gfloat *basis, const gfloat *mean);
/* What the adapters of the matrix @weight add to @bias, its bias, in the real run:
 * when it has arrived. @bias NULL: nothing. */
void h3_loader_adapt_bias (H3Loader *loader, const gchar *weight,
    H3Tensor *bias);
/* The highest rank beside a quantised weight so far. */
gint64 h3_loader_low_rank (const H3Loader *loader);

gboolean h3_loader_is_dry_run (const H3Loader *loader);
/* Device bytes of everything asked for so far: after a dry run, the plan. */
guint64 h3_loader_bytes (const H3Loader *loader);
/* Elements of the largest encoded matrix asked for so far; 0: none was. */
guint64 h3_loader_encoded_elements (const H3Loader *loader);

/**
 * h3_loader_weight:
 * @names: of the tensor, or, with @n_names > 1, of two or three whose rows
 *   follow each other in the result (gate, up; q, k, v). The last two must have
 *   as many rows as each other, and q @heads * @head_dim of them unless 0
 * @order: applied to the concatenation
 * @heads, @head_dim: for H3_ROWS_GROUPED_QKV
 *
 * A matrix [rows, cols] for linear and embedding, in the encoding and type it
 * is stored in (quantised ones with their markers and sidecars, checkpoints.md
 * 4.2; rows that follow each other need one encoding, not one scale). Stored shapes of another rank are taken when their last
 * dimensions make @cols. NULL in the dry run and when something is wrong (which
 * is remembered).
 */
H3Weight *h3_loader_weight (H3Loader *loader, const gchar *const *names,
    guint n_names, gint64 rows, gint64 cols, H3RowOrder order, guint heads,
    guint head_dim);
/* Plain matrices asked for from here on are rounded to @dtype on their way to the
 * device; H3_DTYPE_F32, as in the beginning: they keep the type they are stored
 * in. Only a number that @dtype cannot hold is an error. */
void h3_loader_round_matrices (H3Loader *loader, H3DType dtype);
/* Plain matrices asked for from here on are quantised on the device, or, as in the
 * beginning, are not: E4M3 with a scale for each row (h3_quantise_rows()). Encoded
 * ones stay as they are. */
void h3_loader_quantise_matrices (H3Loader *loader, gboolean quantise);
/* The common case: one tensor, rows as stored. */
H3Weight *h3_loader_matrix (H3Loader *loader, const gchar *name, gint64 rows,
    gint64 cols);
/* The same for an operation that takes no encoded weight: GGUF's blocks become
 * floats. */
H3Weight *h3_loader_plain_matrix (H3Loader *loader, const gchar *name,
    gint64 rows, gint64 cols);
/**
 * h3_loader_piece:
 * @first, @n: which rows of the matrix @name [rows, cols]
 * @piece: (inout): a matrix read by this function before, whose memory is used
 *   again where type and shape are the same and it is plain, or NULL; left to
 *   the caller
 *
 * A part of a weight that is read when it is needed and not kept: its bytes are
 * not counted. The part is on the device when this returns; what reads @piece's
 * memory must have ended before. FALSE when something is wrong, which is
 * remembered. A dry run checks the whole matrix and leaves @piece alone.
 */
gboolean h3_loader_piece (H3Loader *loader, const gchar *name, gint64 rows,
    gint64 cols, gint64 first, gint64 n, H3Weight **piece);
/* A vector (norm weight, bias, scale) widened to float32; the same orders. */
H3Tensor *h3_loader_vector (H3Loader *loader, const gchar *const *names,
    guint n_names, gint64 n, H3RowOrder order, guint heads, guint head_dim);
H3Tensor *h3_loader_vector1 (H3Loader *loader, const gchar *name, gint64 n);
/* On the host as float32, for weights that are computed (weight norm). The
 * stored shape may have more or fewer dimensions of 1. NULL in the dry run and
 * when something is wrong. Free with g_free(). */
gfloat *h3_loader_read (H3Loader *loader, const gchar *name, guint rank,
    const gint64 *shape);
/* Uploads a computed weight; counts its bytes in the dry run (@host NULL). NULL
 * in the dry run, and when @host is (since reading it failed). */
H3Weight *h3_loader_computed (H3Loader *loader, const gfloat *host, guint rank,
    const gint64 *shape);
H3Tensor *h3_loader_computed_vector (H3Loader *loader, const gfloat *host,
    gint64 n);
gboolean h3_loader_has (const H3Loader *loader, const gchar *name);
/* A stored shape to derive geometry from; FALSE, remembered, when absent. */
gboolean h3_loader_shape (H3Loader *loader, const gchar *name,
    guint64 shape[H3_STORED_MAX_RANK], guint *rank);
/* Names that are known and not wanted here: not "unexpected". Glob pattern. */
void h3_loader_ignore (H3Loader *loader, const gchar *pattern);
/* To be called in both runs by code that finds something wrong itself. */
void h3_loader_problem (H3Loader *loader, const gchar *format, ...)
    G_GNUC_PRINTF (2, 3);

/* Ends a run, when all has arrived or failed. FALSE when anything was missing, mis-shaped, of an unsupported
 * type or unexpected (H3_ERROR_WRONG_TYPE, all in one message), or when a file
 * could not be read, a value was not finite, memory was short or @stop asked to
 * end: the first of these, by its own code. */
gboolean h3_loader_finish (H3Loader *loader, GError **error);

/**
 * h3_loader_take_tensors:
 *
 * After the real run: the tensors that it made and that somebody kept, a
 * reference each. What h3_parking_new() wants.
 *
 * Returns: (transfer full) (element-type H3Tensor)
 */
GPtrArray *h3_loader_take_tensors (H3Loader *loader);

G_END_DECLS
