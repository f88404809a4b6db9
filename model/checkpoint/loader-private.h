/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the loader's files share: finding and checking (loader-parts.c), quantised
 * matrices (loader-quantised.c, loader-blocks.c), the rest (loader.c). */
#pragma once

#include "model/checkpoint/loader.h"
#include "model/checkpoint/quantised.h"
#include "model/checkpoint/reader.h"

G_BEGIN_DECLS

struct _H3Loader {
  H3TensorSet *set; /* not owned */
  gchar *what;
  guint64 bytes;           /* asked for so far, in this run */
  guint64 encoded;         /* elements of the largest encoded matrix, of both */
  guint64 total;           /* of the dry run */
  const H3Device *planned; /* whose dry run it is, or NULL; not owned */
  H3DType round_to;        /* H3_DTYPE_F32: matrices keep their type */
  gboolean as_e4m3;        /* plain matrices are not kept, but as E4M3 */
  gint64 passing; /* bytes read that are not kept, less what is made of them */
  const H3Adapters *adapters; /* not owned; or NULL */
  gint64 low_rank;
  gint64 width, full; /* h3_loader_set_projection(); 0: none */
  const gfloat *basis, *mean;
  GHashTable *adapted; /* H3AdapterUpdate that a matrix was asked for of */
  GPtrArray *merges;   /* what is to be done at the end of the real run */

  /* what this run found */
  GHashTable *used;    /* names, owned */
  GPtrArray *ignored;  /* GPatternSpec */
  GPtrArray *missing;  /* names, owned */
  GPtrArray *problems; /* sentences, owned */
  GError *failure;     /* the first thing that ends a run at once */

  /* the real run */
  H3Device *device; /* owned; NULL: dry run */
  H3Stream *stream; /* owned: of computed weights */
  H3Reader *reader; /* owned: of stored ones */
  const H3Stop *stop;
  H3LoadProgress progress;
  gpointer progress_data;
  GPtrArray *tensors;     /* H3Tensor, owned: what it gave away */
  guint64 read, computed; /* bytes that arrived */
};

/* One to three tensors whose rows follow each other, found and checked. */
#define H3_LOADER_MAX_PARTS 3
typedef struct {
  const gchar *name; /* of the first, as the caller said it */
  const H3StoredTensor *tensor[H3_LOADER_MAX_PARTS];
  H3Quantised quantised[H3_LOADER_MAX_PARTS];
  gint64 n_rows[H3_LOADER_MAX_PARTS];
  guint n;
  gboolean matrix;  /* may be quantised */
  gboolean plain;   /* but has to become floats then */
  gboolean decoded; /* becomes floats */
  gboolean stacked; /* becomes a weight for each part */
  gint64 rows, cols;
  gint64 width; /* stored elements of a row: bytes, of a quantised matrix */
  gint64 first; /* H3_ROWS_AS_STORED: read from this row on */
  H3StoredType type;
  H3RowOrder order;
  guint heads, head_dim;
} H3LoaderParts;

static inline gboolean
h3_loader_parts_quantised (const H3LoaderParts *p)
{
  return !p->decoded && !p->stacked &&
         p->quantised[0].encoding != H3_ENCODING_PLAIN;
}

/* Takes @error as the run's failure, unless it has one. */
void h3_loader_fail (H3Loader *loader, GError *error);
void h3_loader_report_progress (const H3Loader *loader);

/* Finding and checking: what is wrong is remembered. */

/* NULL when there is no tensor @name. */
const H3StoredTensor *h3_loader_find (H3Loader *loader, const gchar *name);
/* NULL also when it is of no float type. */
const H3StoredTensor *h3_loader_find_numbers (H3Loader *loader,
    const gchar *name);
/* Fills @p, of which rows, cols, order, heads, head_dim and matrix are set. */
gboolean h3_loader_find_parts (H3Loader *loader, H3LoaderParts *p,
    const gchar *const *names, guint n);
gint64 h3_loader_elements (const H3StoredTensor *tensor);
void h3_loader_wrong_shape (H3Loader *loader, const H3StoredTensor *tensor,
    const gchar *expected);
/* Takes @error: something wrong with the file's contents is remembered with the
 * rest of that kind, everything else fails the run. */
void h3_loader_remember_error (H3Loader *loader, GError *error);

/* Reading, in the real run. */

/* Elements [first, first + n) of a tensor go to @offset of @dest, which is a
 * tensor, or memory of the host. */
typedef gboolean (*H3LoaderTake) (H3Loader *loader,
    const H3StoredTensor *tensor, gint64 first, gint64 n, gpointer dest,
    gint64 offset);

/* Before each tensor: FALSE when there is no use in going on. */
gboolean h3_loader_may_go_on (H3Loader *loader);
gboolean h3_loader_take_to_tensor (H3Loader *loader,
    const H3StoredTensor *tensor, gint64 first, gint64 n, gpointer dest,
    gint64 offset);
/* Until all that was taken is on the device. */
gboolean h3_loader_wait (H3Loader *loader);
/* The rows in their order to @dest, by @take. */
gboolean h3_loader_take_ordered (H3Loader *loader, const H3LoaderParts *p,
    H3LoaderTake take, gpointer dest);
H3Tensor *h3_loader_new_tensor (H3Loader *loader, H3DType dtype, guint rank,
    const gint64 *shape);
/* For h3_loader_take_tensors(). */
void h3_loader_remember (H3Loader *loader, H3Tensor *tensor);
/* At once. */
gboolean h3_loader_upload (H3Loader *loader, H3Tensor *tensor,
    gconstpointer host);

/* Quantised matrices. */

/* Of a plain matrix, on its way to memory as numbers of @dtype, to which @updates
 * (nullable) are added. Counts bytes; NULL in the dry run. */
H3Weight *h3_loader_load_as_e4m3 (H3Loader *loader, const H3LoaderParts *p,
    H3DType dtype, const GPtrArray *updates);
/* In memory, with scales. */
guint64 h3_loader_quantised_bytes (const H3LoaderParts *p);
/* FALSE, remembered, when the device does not take the encoding. */
gboolean h3_loader_check_encoding (H3Loader *loader, const H3Quantised *q);
/* @keep: it is a part of the model: counted, remembered */
H3Weight *h3_loader_load_quantised (H3Loader *loader, const H3LoaderParts *p,
    gboolean keep);
/* Sets decoded or stacked where GGUF's blocks are not one weight as they are: of
 * parts whose tensor, quantised, type, plain, order and cols are set. */
void h3_loader_parts_look_at_blocks (H3LoaderParts *p);
/* Adapters (loader-adapters.c). */

/* NULL: there are none for this matrix, or they do not fit it. */
const GPtrArray *h3_loader_find_updates (H3Loader *loader,
    const H3LoaderParts *p);
/* Keys of files, not owned. */
GPtrArray *h3_loader_unmatched_updates (const H3Loader *loader);
/* Into numbers that have arrived; or when all have. */
gboolean h3_loader_merge (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p, H3Tensor *tensor);
void h3_loader_merge_later (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p, H3Tensor *tensor);
gboolean h3_loader_merge_all (H3Loader *loader);
/* Beside a quantised weight. */
guint64 h3_loader_low_rank_bytes (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p);
gboolean h3_loader_add_low_rank (H3Loader *loader, const GPtrArray *updates,
    const H3LoaderParts *p, H3Weight *weight, gboolean keep);

/* As floats of @dtype. */
H3Weight *h3_loader_load_decoded (H3Loader *loader, const H3LoaderParts *p,
    H3DType dtype, gboolean keep);

G_END_DECLS
