/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The models of video-vae.md 15, whose weights follow from their names, and
 * files of them: right ones in every layout and type, and damaged ones. */
#pragma once

#include <glib.h>

typedef struct {
  gint channels, ratio;
  gint layers, heads, head_dim, registers, ffn_mult;
  gint tile, overlap;
  gboolean release_statistics; /* latents' mean and std: else 0 and 1 */
} FillGeometry;

extern const FillGeometry fill_model_a, fill_model_b;

typedef struct {
  gchar *name;
  guint rank;
  gint64 shape[5];
  gfloat *values;
} FillTensor;

/* The decoder's tensors by their official names, and mask_token. Free with
 * g_ptr_array_unref(). */
GPtrArray *fill_tensors (const FillGeometry *geometry);
/* The same numbers as diffusers stores them. */
GPtrArray *fill_to_diffusers (const GPtrArray *tensors, gint head_dim);
FillTensor *fill_find (const GPtrArray *tensors, const gchar *name);
void fill_remove (GPtrArray *tensors, const gchar *name);
void fill_add (GPtrArray *tensors, const gchar *name, guint rank,
    const gint64 *shape);

/* "latent", 1.5 e, [channels, t, h, w]. */
gfloat *fill_latent (gint channels, gint t, gint h, gint w);

typedef enum { FILL_F32, FILL_F16, FILL_BF16 } FillType;

/* What @type keeps of @x. */
gfloat fill_round (gfloat x, FillType type);

/* A component's folder under a new temporary one. @config: replaces config.json
 * (official: source/config.json), or NULL. Free with fill_delete(). */
gchar *fill_write_official (const FillGeometry *geometry,
    const GPtrArray *tensors, FillType type, const gchar *config);
gchar *fill_write_diffusers (const FillGeometry *geometry,
    const GPtrArray *tensors, FillType type, const gchar *config);
/* Replaces a file of the folder. */
void fill_replace (const gchar *dir, const gchar *file, const gchar *text);
void fill_delete (gchar *dir);

gchar *fill_official_wrapper (const FillGeometry *geometry);
gchar *fill_official_network (const FillGeometry *geometry);
gchar *fill_diffusers_config (const FillGeometry *geometry);
