/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finding the components of a checkpoint on disk (checkpoints.md 3.1, 8). */
#pragma once

#include "model/error.h"

G_BEGIN_DECLS

typedef enum {
  H3_COMPONENT_TEXT_ENCODER,
  H3_COMPONENT_TOKENIZER,
  H3_COMPONENT_TRANSFORMER,
  H3_COMPONENT_VIDEO_VAE,
  H3_COMPONENT_AUDIO_VAE,
  H3_N_COMPONENTS
} H3Component;

/* "text_encoder", "tokenizer", "transformer", "video_vae", "audio_vae" */
const gchar *h3_component_name (H3Component component);

/* Which of the two transformers; the other components are the same in both. */
typedef enum {
  H3_PARTITION_FL2VA, /* t2va and fl2va */
  H3_PARTITION_REF2VA,
} H3Partition;

/* How a component's tensors are named and ordered. */
typedef enum {
  H3_NAMING_OFFICIAL,  /* sharded or single, qkv grouped per head, gate first */
  H3_NAMING_DIFFUSERS, /* q, k, v apart, gate second */
} H3Naming;

/* How the rows of a transformer's fused q, k, v are ordered, which neither names
 * nor shapes show (checkpoints.md 3.5). */
typedef enum {
  H3_QKV_AUTO,    /* by origin: official shards grouped, one file contiguous */
  H3_QKV_GROUPED, /* [q_0; k_0; v_0; q_1; ...], a head after the other */
  H3_QKV_CONTIGUOUS, /* [q; k; v] */
  H3_QKV_APART,      /* three tensors: diffusers */
} H3QkvOrder;

/* What the matrices of the transformer's main blocks, or of the language model's
 * layers, become while they are loaded, where the files have them in floats. */
typedef enum {
  H3_WEIGHTS_AS_STORED,
  H3_WEIGHTS_FP8, /* E4M3 with a scale for each row */
} H3WeightType;

typedef struct _H3Checkpoint H3Checkpoint;

/**
 * h3_checkpoint_open:
 * @path: the release's root (FL2VA/ and Ref2VA/ in it), one partition's folder,
 *   a diffusers folder, a folder of ComfyUI's single files (themselves, or in
 *   diffusion_models/, text_encoders/ and vae/), or one component's folder or
 *   file
 *
 * Looks at names, model_index.json, config.json and, where these do not tell,
 * the headers of the files; reads no tensor. A
 * path that is not there is H3_ERROR_NOT_FOUND, one that holds nothing of H3
 * H3_ERROR_WRONG_TYPE (the message says what was looked for), a damaged JSON
 * file H3_ERROR_READ. In the release's root a component that only the other
 * partition's folder has is taken from there, the transformer excepted. Free
 * with h3_checkpoint_free().
 */
H3Checkpoint *h3_checkpoint_open (const gchar *path, H3Partition partition,
    GError **error);
void h3_checkpoint_free (H3Checkpoint *checkpoint);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (H3Checkpoint, h3_checkpoint_free)

/* The component's folder, also where @path was a file in it: config.json is
 * there, and the weights, except that the official video autoencoder has them
 * in source/; or the single file that is the component, without any of this.
 * NULL with H3_ERROR_NOT_FOUND naming the component and the folder searched, or
 * H3_ERROR_WRONG_TYPE for a transformer that model_index.json declares to be the
 * other partition's and for a folder where several files are the component.
 * Owned by @checkpoint. */
const gchar *h3_checkpoint_path (const H3Checkpoint *checkpoint,
    H3Component component, GError **error);
H3Naming h3_checkpoint_naming (const H3Checkpoint *checkpoint);
/**
 * h3_checkpoint_doubts:
 * @partition_said: the user says which transformer it is, nobody guesses
 *
 * What was assumed of a component's files that only the user can know, or is odd
 * about them: sentences for warnings. Opens headers again.
 *
 * Returns: (transfer full) (element-type utf8)
 */
GPtrArray *h3_checkpoint_doubts (const H3Checkpoint *checkpoint,
    H3Component component, gboolean partition_said);
/* For a file whose maker ordered q, k, v otherwise than its form says. Before
 * anything is planned or loaded. */
void h3_checkpoint_set_qkv_order (H3Checkpoint *checkpoint, H3QkvOrder order);
H3QkvOrder h3_checkpoint_qkv_order (const H3Checkpoint *checkpoint);
/* A LoRA adapter, and how strongly it acts; finite, 1 is as it was trained. */
typedef struct {
  gchar *path;
  gdouble strength;
} H3AdapterChoice;

/* Adapters for the transformer, all at once, which then is another one. Copied.
 * Before anything is planned or loaded. */
void h3_checkpoint_set_adapters (H3Checkpoint *checkpoint,
    const H3AdapterChoice *adapters, guint n);
/* (array length=n) */
const H3AdapterChoice *h3_checkpoint_adapters (const H3Checkpoint *checkpoint,
    guint *n);
/* Before anything is planned or loaded. */
void h3_checkpoint_set_weight_type (H3Checkpoint *checkpoint,
    H3WeightType type);
H3WeightType h3_checkpoint_weight_type (const H3Checkpoint *checkpoint);
/* model_index.json's sigma_shift_scales, or the two schedulers' shift; 12 and 3
 * where they say nothing. */
void h3_checkpoint_shifts (const H3Checkpoint *checkpoint, gdouble *video,
    gdouble *audio);
/* The component's identity for sharing: canonical path, sizes and mtimes of
 * its files, so that a changed file is another model, and of the transformer its
 * adapters. Free with g_free(). */
gchar *h3_checkpoint_identity (const H3Checkpoint *checkpoint,
    H3Component component, GError **error);

G_END_DECLS
