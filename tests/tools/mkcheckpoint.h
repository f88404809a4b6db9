/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3-mkcheckpoint: a complete checkpoint of random weights, by the recipe of
 * tests/golden/README.md. The parts of the program. */
#pragma once

#include "model/checkpoint/config.h"

#define MK_MAX_RANK 5

/* A tensor by its official name. */
typedef struct {
  gchar *name;
  guint rank;
  gint64 shape[MK_MAX_RANK];
  gboolean bf16;
} MkTensor;

void mk_tensor_free (MkTensor *tensor);
const MkTensor *mk_tensor_find (const GPtrArray *tensors, const gchar *name);
gint64 mk_tensor_size (const MkTensor *tensor);

/* How rows of a stored tensor are taken from the official one's. */
typedef enum {
  MK_ROWS_SAME,
  MK_ROWS_PART,        /* q, k or v out of rows grouped per head */
  MK_ROWS_SWAP_HALVES, /* [gate; value] to [value; gate] */
  MK_ROWS_CONTIGUOUS,  /* [q; k; v] out of rows grouped per head */
} MkRows;

/* How matrices are stored. */
typedef enum {
  MK_PLAIN,
  MK_FP8,
  MK_INT8, /* rotated */
  MK_NVFP4,
  MK_MXFP8,
} MkEncoding;

/* What says how they are stored (checkpoints.md 4.2). */
typedef enum {
  MK_MARKERS_TENSORS,  /* one for each */
  MK_MARKERS_METADATA, /* of the file, layers without @prefix */
  MK_MARKERS_OLDEST,   /* scaled_fp8, scale_weight, scale_input */
  MK_MARKERS_NONE,     /* FP8 without scales: a plain cast */
} MkMarkers;

/* What is made.
 * @prefix: before the names of ComfyUI's transformer
 * @decoded: of quantised matrices the numbers that they stand for, in float32
 * @rank: width of a pruned transformer's curve, in a basis of its own; 0: as wide
 *   as it is, in its own coordinates */
typedef struct {
  guint64 seed;
  MkEncoding encoding;
  MkMarkers markers;
  const gchar *prefix;
  gboolean decoded, pruned;
  gint rank;
} MkRecipe;

/* A tensor as it is written. */
typedef struct {
  gchar *name;
  const MkTensor *source; /* not owned */
  MkRows rows;
  guint part; /* 0 q, 1 k, 2 v */
  gint64 head_dim;
  gint64 n_rows;  /* shape[0] */
  gchar *shard;   /* file name */
  gboolean f16;   /* whatever the source has */
  MkTensor *own;  /* @source, where the official files do not have it */
  gfloat *values; /* owned: instead of the recipe's; NULL: these */
} MkStored;

/* A list of MkStored. */
GPtrArray *mk_stored_list_new (void);
/* Appends @source, whole, as @name (taken). */
MkStored *mk_stored_add (GPtrArray *list, const MkTensor *source, gchar *name);
void mk_stored_free (MkStored *stored);

/* Shapes, from a component's configuration (mk-shapes.c). Each returns an array
 * of MkTensor. @dir: the component's folder in the official layout */
GPtrArray *mk_transformer_tensors (const gchar *dir, GError **error);
GPtrArray *mk_text_encoder_tensors (const gchar *dir, GError **error);
GPtrArray *mk_video_vae_tensors (const gchar *dir, GError **error);
GPtrArray *mk_audio_vae_tensors (const gchar *dir, GError **error);

/* Numbers (mk-values.c): the float32 values of @tensor before any rounding to
 * bfloat16, in a buffer to be freed with g_free(). @component: its name in the
 * recipe */
gfloat *mk_values (const MkTensor *tensor, const gchar *component,
    guint64 seed);
/* To the nearest that bfloat16 has, ties to even. */
gfloat mk_round_bf16 (gfloat value);

/* Names and row orders (mk-layout.c): arrays of MkStored over @tensors */
GPtrArray *mk_stored_official (const GPtrArray *tensors);
gchar *mk_diffusers_transformer_name (const gchar *name);
GPtrArray *mk_stored_diffusers_transformer (const GPtrArray *tensors,
    gint64 head_dim);
GPtrArray *mk_stored_diffusers_video_vae (const GPtrArray *tensors,
    gint64 head_dim);
/* Puts @prefix before every name. */
void mk_stored_add_prefix (GPtrArray *stored, const gchar *prefix);
/* ComfyUI's (mk-comfy.c). @dir: the component's folder in the official layout,
 * whose statistics the autoencoders' files have. @component, @seed: of values
 * that are computed */
GPtrArray *mk_stored_comfy_transformer (const GPtrArray *tensors,
    gint64 head_dim);
GPtrArray *mk_stored_pruned_transformer (const GPtrArray *tensors,
    gint64 head_dim, const gchar *component, const MkRecipe *recipe);
GPtrArray *mk_stored_comfy_text_encoder (const GPtrArray *tensors);
GPtrArray *mk_stored_comfy_video_vae (const GPtrArray *tensors,
    const gchar *dir, gboolean f16, GError **error);
GPtrArray *mk_stored_comfy_audio_vae (const GPtrArray *tensors,
    const gchar *dir, const gchar *component, guint64 seed, GError **error);
/* A pruned transformer out of a full one (mk-curve.c), which it empties.
 * @diffusers: in that style's spelling, with basis and mean, in F32; otherwise
 * AdaLN is F16, as in ComfyUI's files */
#define MK_CURVE_POINTS 1025
GPtrArray *mk_stored_prune (GPtrArray *full, const GPtrArray *tensors,
    const gchar *component, const MkRecipe *recipe, gboolean diffusers);
/* Adds a tensor that the official files do not have, a vector with @cols 0.
 * Takes @values. */
void mk_stored_add_new (GPtrArray *list, const gchar *name, gint64 rows,
    gint64 cols, gfloat *values);
/* Which file each goes to: the index's, one, or @n_shards in turn. */
gboolean mk_assign_from_index (GPtrArray *stored, const gchar *index,
    GError **error);
void mk_assign_single (GPtrArray *stored, const gchar *file);
void mk_assign_in_turn (GPtrArray *stored, const gchar *stem, guint n_shards);

/* A tensor in memory, as it is written. */
typedef struct {
  gchar *name;
  const gchar *dtype;
  guint rank;
  gint64 shape[MK_MAX_RANK];
  guint8 *bytes;
  gsize size;
} MkBlob;

/* Quantised forms (mk-quantise.c). */
gboolean mk_encoding_from_name (const gchar *name, MkEncoding *encoding);
/* tensors, metadata, oldest, none */
gboolean mk_markers_from_name (const gchar *name, MkMarkers *markers);
/* Zeros; takes @name. @item: bytes of an element */
MkBlob *mk_blob_new (gchar *name, const gchar *dtype, gsize item, guint rank,
    const gint64 *shape);
void mk_blob_free (MkBlob *blob);
/* Whether ComfyUI's files of @encoding have it quantised. */
gboolean mk_is_quantised (const MkTensor *tensor, MkEncoding encoding);
/* Adds weight, sidecars and marker to @blobs, an array of MkBlob. @values, of
 * [rows, tensor->shape[1]], become what they stand for. */
void mk_quantise (const MkTensor *tensor, const gchar *name, gfloat *values,
    gint64 rows, MkEncoding encoding, MkMarkers markers, GPtrArray *blobs);
/* Takes the markers out of @blobs: what the file's metadata say in their stead.
 * @prefix: which the layers' names lack. Free with g_free(). */
gchar *mk_metadata_of_markers (GPtrArray *blobs, const gchar *prefix);

/* Files (mk-write.c). Of one file, all shards' names the same, unless the
 * recipe is a plain one. */
gboolean mk_write_weights (GPtrArray *stored, const gchar *dir,
    const gchar *component, const MkRecipe *recipe, GError **error);
gboolean mk_write_index (const GPtrArray *stored, const gchar *path,
    GError **error);

/* A file of @blobs; with @key (nullable), @value is its metadata. */
gboolean mk_write_blobs (const GPtrArray *blobs, const gchar *key,
    const gchar *value, const gchar *path, GError **error);
typedef enum {
  MK_ADAPTER_ALL,
  MK_ADAPTER_TURBO, /* attention and MLP */
  MK_ADAPTER_ADALN, /* and AdaLN */
} MkAdapterLayers;

/**
 * mk_write_adapter: (mk-adapter.c)
 * @layout: comfy, bare, kohya, diffsynth, diffusers, peft or wrapped
 * @rank: of every layer; 0: another in each block
 * @tensors: the transformer's
 */
gboolean mk_write_adapter (const gchar *layout, MkAdapterLayers layers,
    gint rank, const GPtrArray *tensors, gint64 head_dim, guint64 seed,
    const gchar *path, GError **error);

/* The diffusers configuration out of the official one (mk-configs.c), into the
 * folder @out. @like: the partition's folder */
/* @rank: of a pruned transformer; 0: a full one */
gboolean mk_write_diffusers_transformer_config (const gchar *dir,
    const gchar *out, gint rank, GError **error);
gboolean mk_write_diffusers_video_vae_config (const gchar *dir,
    const gchar *out, GError **error);
gboolean mk_write_diffusers_audio_vae_config (const gchar *dir,
    const gchar *out, GError **error);
gboolean mk_write_diffusers_root (const gchar *like, gboolean with_ref,
    const gchar *out, GError **error);
