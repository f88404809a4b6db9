/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The released models with random weights, made in device memory. */
#pragma once

#include <stdio.h>

#include "model/audio/audio-vae.h"
#include "model/denoise/transformer.h"
#include "model/ops.h"
#include "model/text/text-model.h"
#include "model/video/video-vae.h"

G_BEGIN_DECLS

/* Random numbers on a device. */
typedef struct _Filler Filler;

Filler *filler_new (H3Device *device);
void filler_free (Filler *filler);
/* New memory with uniform values of deviation @deviation about @mean. Ends the
 * program when there is not enough. */
H3Tensor *filler_tensor (Filler *filler, H3DType dtype, gdouble deviation,
    gdouble mean, guint rank, const gint64 *shape);

/* [@rows, @cols] bytes: @period's @n over and over. */
H3Tensor *filler_bytes (Filler *filler, gint64 rows, gint64 cols,
    const guint8 *period, gsize n);
/* @n values on the host, uniform, of deviation @deviation. Free with g_free(). */
gfloat *filler_values (Filler *filler, gsize n, gfloat deviation);
/* Matrices of blocks and layers are in it from here on; H3_ENCODING_PLAIN, as in
 * the beginning: bfloat16. */
void filler_set_encoding (Filler *filler, H3Encoding encoding);
H3Encoding filler_encoding (const Filler *filler);
/* Where the next random numbers come from, and to have the same again. */
gint64 filler_place (const Filler *filler);
void filler_go_to (Filler *filler, gint64 place);

/* plain, fp8, e5m2, int8, nvfp4, mxfp8, or a GGUF type: q4_k. */
gboolean bench_encoding_from_name (const gchar *name, H3Encoding *encoding);
/* A matrix of deviation 1 / sqrt (@cols). */
H3Weight *bench_encoded_new (Filler *filler, H3Encoding encoding, gint64 rows,
    gint64 cols);

typedef struct {
  H3Device *device;
  H3Stream *stream;
  Filler *filler;
  gint reps;
  gdouble ceiling; /* FLOP/s of a matrix product; 0: not measured */
} Bench;

typedef void (*BenchRun) (Bench *bench, gpointer data);

/* Runs once to warm up, then Bench.reps times; prints a line and returns the
 * median in seconds. @flop 0: not a matter of arithmetic. */
gdouble bench_measure (Bench *bench, const gchar *what, gdouble flop,
    BenchRun run, gpointer data);
/* Operations one by one. */
void bench_ops (Bench *bench);
/* Reading AdaLN's weights; needs room for a sparse file in $TMPDIR. */
void bench_adaln (Bench *bench, gint layers);
/* Encoded weights to bfloat16. */
void bench_decode (Bench *bench);
/* Pictures, clips and sound to latents. */
void bench_encode (Bench *bench);

/* The only timesteps the transformer made here knows. */
#define BENCH_T_V 0.25f
#define BENCH_T_A 0.5f

/* @layers: 0 = the release's, else fewer, for a quick look. */
H3Transformer *bench_transformer_new (Filler *filler, gint layers);
/* One of which nothing is there but what makes AdaLN's rows; without files. */
H3Transformer *bench_adaln_new (Filler *filler, gint layers);
H3TextModel *bench_text_model_new (Filler *filler);
H3VisionModel *bench_vision_model_new (Filler *filler);
H3VideoVae *bench_video_vae_new (Filler *filler, gint layers);
H3AudioVae *bench_audio_vae_new (Filler *filler);

G_END_DECLS
