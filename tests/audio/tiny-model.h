/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The deterministic little model of audio-vae.md 11, made in memory, so that a
 * test can damage it before it is written. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TINY_CHANNELS 8
#define TINY_LENGTH 6
#define TINY_HOP 10
#define TINY_SAMPLES 57

/* How the weight-normed convolutions are stored (8.1). */
typedef enum {
  SPELLING_GV,           /* weight_g, weight_v */
  SPELLING_PARAMETRIZED, /* parametrizations.weight.original0, original1 */
  SPELLING_FOLDED,       /* weight, and latents_mean and latents_std */
} Spelling;

typedef struct {
  gchar *name;
  guint rank;
  gint64 shape[3];
  gsize n;
  gfloat *values;
} TinyTensor;

typedef struct {
  GPtrArray *tensors; /* TinyTensor */
} TinyModel;

TinyModel *tiny_model_new (Spelling spelling);
void tiny_model_free (TinyModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TinyModel, tiny_model_free)
TinyTensor *tiny_model_find (TinyModel *model, const gchar *name);
void tiny_model_remove (TinyModel *model, const gchar *name);
/* All tensors whose name ends in @suffix. */
void tiny_model_remove_all (TinyModel *model, const gchar *suffix);
/* A tensor of zeros. */
void tiny_model_add (TinyModel *model, const gchar *name, gint64 n);

/* config.json in the diffusers dialect; with latents_mean and latents_std when
 * @stats. Free with g_free(). */
gchar *tiny_model_config (gboolean stats);
/* Writes @dir/model.safetensors, and @dir/config.json when @config. */
void tiny_model_write (const TinyModel *model, const gchar *dir,
    const gchar *config);

/* input.z: [2, 8, 6], normalised. Free with g_free(). */
gfloat *tiny_latent (void);
/* input.x: [2, 57], a waveform. Free with g_free(). */
gfloat *tiny_waveform (void);
/* r of the tensor @name at index i. */
gdouble tiny_random (const gchar *name, guint32 i);

G_END_DECLS
