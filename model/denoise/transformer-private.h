/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the transformer's files share. */
#pragma once

#include "model/checkpoint/adapter.h"
#include "model/denoise/transformer.h"

G_BEGIN_DECLS

/* For messages. */
#define H3_TRANSFORMER_WHAT "MiniMax H3 transformer"

/* AdaLN: six parameters for each of three modalities (denoiser.md 3.4), and
 * two for the final layer. */
enum {
  H3_SHIFT_MSA,
  H3_SCALE_MSA,
  H3_GATE_MSA,
  H3_SHIFT_MLP,
  H3_SCALE_MLP,
  H3_GATE_MLP,
  H3_N_ADALN
};
enum { H3_FINAL_SHIFT, H3_FINAL_SCALE, H3_N_FINAL_ADALN };
#define H3_N_TAGS 3
#define H3_N_CLOCKS 4
#define H3_ADALN_ROWS (H3_N_TAGS * H3_N_ADALN) /* times H */

/* A main block, whose AdaLN is in H3Adaln, or one of the refiner's. */
typedef struct {
  H3Tensor *norm1, *norm2;   /* [H] */
  H3Tensor *q_norm, *k_norm; /* [head_dim] */
  H3Weight *qkv; /* [3 I, H], I = heads * head_dim: all q, all k, all v */
  H3Weight *out; /* [H, I] */
  H3Weight *fc1; /* [2 F, H]: gate, value */
  H3Weight *fc2; /* [H, F] */
} H3Block;

/* What decides six parameters of every block. */
typedef struct {
  gfloat t;
  gint tag; /* H3Tag */
} H3AdalnPair;

/* Pairs there is room for at least: two schedules of 20 steps, 0.41 GB in
 * bfloat16 at the released size. */
#define H3_ADALN_PAIRS 128

/**
 * H3Adaln: the rows that were computed, under @lock
 * @set: where the weights are read from; only by who is @filling. NULL: all
 *   that will be asked for is there
 * @table: [capacity * layers, 6 H]; the row of the pair in slot s of block
 *   i is s * layers + i, so that all blocks, each from its own first row on, use
 *   the same numbers. A row never changes once its pair is in @pairs
 * @pairs: [capacity], the first n_pairs of them
 */
typedef struct {
  GMutex lock;
  GCond changed;
  gboolean filling;
  H3TensorSet *set;     /* owned */
  H3Adapters *adapters; /* owned, or NULL: what changes those weights */
  gboolean diffusers;
  H3Tensor *table;
  H3AdalnPair *pairs;
  gint n_pairs, capacity;
} H3Adaln;

/**
 * H3Curve: what a pruned transformer has for a time embedder (denoiser.md 6), on
 * the host
 * @table: [points, width]: AdaLN's input at the timesteps i / (points - 1); NULL:
 *   there is a time embedder
 * @basis: [width, time_dim], @mean: [time_dim]: what the full AdaLN's input was
 *   projected by, so that an adapter of the full one can be (8.4); or both NULL
 */
typedef struct {
  gint points, width, time_dim;
  gfloat *table, *basis, *mean;
} H3Curve;

struct _H3Transformer {
  gatomicrefcount refcount;
  H3Device *device;
  H3TransformerConfig config;

  H3Weight *video_in, *audio_in, *condition;
  H3Tensor *video_in_bias, *audio_in_bias, *condition_bias;
  H3Weight *time_in, *time_out; /* NULL where there is a curve */
  H3Tensor *time_in_bias, *time_out_bias;
  H3Curve curve;

  H3Block *refiner; /* [refiner_layers] */
  H3Tensor *refiner_norm;
  H3Block *blocks; /* [layers] */
  H3Adaln adaln;

  H3Tensor *final_norm;
  H3Weight *final_adaln, *video_out, *audio_out;
  H3Tensor *final_adaln_bias, *video_out_bias, *audio_out_bias;

  GPtrArray *tensors; /* every H3Tensor of the above, owned */
};

/* The architecture out of the tensors' names and shapes, cross-checked with
 * config.json where there is one. Refuses, by name, forms of the transformer
 * that are not read here. @diffusers: (out): which naming the tensors have. */
gboolean h3_transformer_config_read (H3TransformerConfig *config,
    H3TensorSet *set, gboolean *diffusers, GError **error);

/* Asks @loader for the curve, in both runs. */
void h3_curve_load (H3Curve *curve, H3Loader *loader,
    const H3TransformerConfig *config);
/* Lets adapters of the full AdaLN act on this one, in @loader, where the file has
 * what it takes. */
void h3_curve_project (const H3Curve *curve, H3Loader *loader);
void h3_curve_clear (H3Curve *curve);
/* c (t) of denoiser.md 6.2; @c: [width] */
void h3_curve_at (const H3Curve *curve, gfloat t, gfloat *c);

/* "adaln_t_table" or how else it is spelled; NULL: there is none. */
const gchar *h3_curve_table_name (const H3TensorSet *set);

/* Columns of AdaLN's weights. */
static inline gint
h3_adaln_width (const H3TransformerConfig *config)
{
  return config->curve_points > 0 ? config->curve_width : config->time_dim;
}

/* Of AdaLN's rows. A curve's stay in float32 up to the one rounding of what they
 * modulate (denoiser.md 6.2, 11); a full transformer's are rounded themselves. */
static inline H3DType
h3_adaln_dtype (const H3TransformerConfig *config, const H3Device *device)
{
  return config->curve_points > 0 ? H3_DTYPE_F32 : device->act_dtype;
}

/* Rows of an MLP that are computed at a time: bounds the inner activations, yet
 * fills the last wave of tiles of a product well.
 * Fixed, so that a result depends on nothing but the input. */
#define H3_MLP_CHUNK 10240

/* A piece of an MLP's rows: views into the workspace. */
typedef struct {
  H3Tensor *n, *x;   /* [rows, H] */
  H3Tensor *gate_up; /* [rows, 2 F] */
  H3Tensor *inner;   /* [rows, F] */
} H3MlpChunk;

/* A block's activations for some number of rows: views into the workspace.
 * @qkv, @o share their memory with the chunks' inner tensors. */
typedef struct {
  H3Tensor *x;   /* [rows, H] the residual stream */
  H3Tensor *n;   /* [rows, H] normalised rows, and what a branch returns */
  H3Tensor *qkv; /* [rows, 3 I] */
  H3Tensor *o;   /* [rows, I] */
  H3MlpChunk *chunks;
  gint n_chunks;
} H3Activations;

/* What one step reads of the per-step tables. */
typedef struct {
  H3Tensor *rows;       /* int32 [S]: row of a block's table */
  H3Tensor *final_rows; /* int32 [target rows]: row of the final one */
} H3StepRows;

struct _H3TransformerSession {
  H3Transformer *transformer;
  H3Stream *stream;
  gint steps;

  H3Tensor *workspace;                                /* act [elements] */
  H3Activations all;                                  /* the packed sequence */
  H3Tensor *x_prefix, *x_audio, *x_video, *x_targets; /* views of all.x */
  H3Tensor *n_audio, *n_video, *n_targets;            /* views of all.n */

  H3Tensor *prefix;      /* act [P, H]: embedded text and conditions */
  H3Tensor *cos, *sin;   /* float32 [S, 3 rope_freqs] */
  H3Tensor **tables;     /* [layers]: H3Adaln.table from a block's row on */
  H3Tensor *final_table; /* [timesteps, 2 H] */
  H3StepRows *step_rows; /* [steps] */
};

/* y = x Wᵀ + b */
static inline void
h3_linear_bias (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Weight *weight, const H3Tensor *bias)
{
  H3LinearArgs args = { .y = y, .x = x, .weight = weight, .bias = bias };

  h3_linear (stream, &args);
}

static inline H3Tensor *
h3_matrix_view (H3Tensor *parent, gint64 offset, gint64 rows, gint64 cols)
{
  const gint64 shape[] = { rows, cols };

  return h3_tensor_view (parent, offset, 2, shape);
}

/* A row must have the same bytes whatever is computed with it, and a matrix
 * library may sum each row of a product in another order, as OpenBLAS does. So
 * every product has the same number of rows, the timestep alone says which one
 * is whose, and timesteps of the same place come into different products. */
#define H3_TIME_PLACES 16

/**
 * H3TimeBatch: some timesteps, and where to put what is computed of them
 * @chunk: [n_chunks + 1]: the i-th product has the elements @chunk[i] to
 *   @chunk[i + 1] of @places and @rows
 * @a: [n_chunks * H3_TIME_PLACES, AdaLN's width]: the input of every AdaLN: silu
 *   of the time embedding, or a point of the curve; rows that are nobody's are
 *   those of t = 0
 * @places: int32 [n], in a product
 * @rows: int32 [n], in the result
 */
typedef struct {
  gint n, n_chunks;
  gint *chunk;
  H3Tensor *a, *places, *rows;
} H3TimeBatch;

void h3_time_batch_clear (H3TimeBatch *batch);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3TimeBatch, h3_time_batch_clear)
/* @rows: where each of @times goes in what h3_time_batch_linear() computes.
 * Shows the time embedding, where there is one. */
gboolean h3_time_batch_init (H3TimeBatch *batch, const H3Transformer *t,
    H3Stream *stream, const gfloat *times, const gint32 *rows, gint n,
    const H3Tap *tap, GError **error);
/* y[rows[i]] = a_i Wᵀ + b; @z, @picked: [H3_TIME_PLACES, cols of y] for its
 * use. */
void h3_time_batch_linear (const H3TimeBatch *batch, H3Stream *stream,
    H3Tensor *y, const H3Weight *weight, const H3Tensor *bias, H3Tensor *z,
    H3Tensor *picked);

/* [rows, parameters * H] of h3_adaln_dtype(). */
static inline H3Tensor *
h3_adaln_rows (const H3Transformer *t, gint64 rows, gint64 parameters,
    GError **error)
{
  return h3_tensor_new_2d (t->device, h3_adaln_dtype (&t->config, t->device),
      rows, parameters * t->config.hidden, error);
}

/* The bias of AdaLN's linear @module, "blocks.0.adaln_proj.linear", by the name
 * it has. Free with g_free(). */
gchar *h3_adaln_bias_name (const H3Loader *loader,
    const H3TransformerConfig *config, const gchar *module);
void h3_adaln_init (H3Adaln *adaln);
void h3_adaln_clear (H3Adaln *adaln);
/* Asks @loader, in its dry run, for the weights that will be read. */
void h3_adaln_check (H3Loader *loader, const H3TransformerConfig *config,
    gboolean diffusers);
/* Bytes of a table with @n_pairs and of making it, at most. */
guint64 h3_adaln_bytes (const H3TransformerConfig *config,
    const H3Device *device, gint n_pairs);
/**
 * h3_adaln_get:
 * @slots: (out) (array length=n): the pairs' in the result
 * @progress: bytes of weights read of those to read; not called when all the
 *   pairs are there
 *
 * The table, which sessions share; rows that are missing are computed on
 * @stream, for which all the weights are read once. From any thread.
 */
H3Tensor *h3_adaln_get (H3Transformer *transformer, H3Stream *stream,
    const H3AdalnPair *pairs, gint n, gint *slots, H3LoadProgress progress,
    gpointer user_data, const H3Stop *stop, GError **error);
/* @table from @block's first row on. */
H3Tensor *h3_adaln_block_table (const H3Transformer *transformer,
    H3Tensor *table, gint block);
/* The final layer's, a row for each of @times. Shows the time embedding. */
H3Tensor *h3_adaln_final_table (const H3Transformer *transformer,
    H3Stream *stream, const gfloat *times, gint n, const H3Tap *tap,
    GError **error);

/* Fills what the session reads that depends on positions and timesteps: cos,
 * sin, step_rows, tables, final_table. */
gboolean h3_session_make_tables (H3TransformerSession *session,
    const H3Packing *packing, const gfloat *t_v, const gfloat *t_a,
    H3LoadProgress progress, gpointer user_data, const H3Stop *stop,
    const H3Tap *tap, GError **error);

/* Elements of a workspace for @rows rows or fewer, with chunks of at most
 * H3_MLP_CHUNK. */
gint64 h3_activations_elements (const H3TransformerConfig *config, gint64 rows);
/* Lays @activations out at the start of @workspace. */
void h3_activations_init (H3Activations *activations, H3Tensor *workspace,
    const H3TransformerConfig *config, gint rows, gint chunk_rows);
void h3_activations_clear (H3Activations *activations);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3Activations, h3_activations_clear)

/* One block over @a in place. @table NULL: the refiner's form, no AdaLN. @cos
 * and @sin NULL: no rotation. @name, for @tap: "transformer_blocks.0". */
void h3_block_forward (H3Stream *stream, const H3TransformerConfig *config,
    const H3Block *block, const H3Activations *a, const H3Tensor *table,
    const H3Tensor *rows, const H3Tensor *cos, const H3Tensor *sin,
    const gchar *name, const H3Tap *tap);

G_END_DECLS
