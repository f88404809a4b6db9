/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pruned transformers (denoiser.md 6, checkpoints.md 4.6): in place of the time
 * embedder, AdaLN's input is read off a short table of timesteps. */
#include "model/denoise/transformer-private.h"

#include <math.h>

static const gchar *const table_names[] = { "adaln_t_table",
  "time_embedder.table" };

const gchar *
h3_curve_table_name (const H3TensorSet *set)
{
  for (guint i = 0; i < G_N_ELEMENTS (table_names); i++)
    if (h3_tensor_set_has (set, table_names[i]))
      return table_names[i];
  return NULL;
}

void
h3_curve_load (H3Curve *curve, H3Loader *loader, const H3TransformerConfig *c)
{
  const gint64 table[] = { c->curve_points, c->curve_width };
  const gint64 basis[] = { c->curve_width, c->time_dim };
  const gchar *name =
      table_names[h3_loader_has (loader, table_names[0]) ? 0 : 1];

  curve->points = c->curve_points;
  curve->width = c->curve_width;
  curve->time_dim = c->time_dim;
  curve->table = h3_loader_read (loader, name, 2, table);
  if (c->time_dim == 0)
    return;
  curve->basis = h3_loader_read (loader, "adaln_basis", 2, basis);
  curve->mean = h3_loader_read (loader, "adaln_mean", 1, basis + 1);
}

void
h3_curve_project (const H3Curve *curve, H3Loader *loader)
{
  if (curve->time_dim > 0)
    h3_loader_set_projection (loader, curve->width, curve->time_dim,
        curve->basis, curve->mean);
}

void
h3_curve_clear (H3Curve *curve)
{
  g_clear_pointer (&curve->table, g_free);
  g_clear_pointer (&curve->basis, g_free);
  g_clear_pointer (&curve->mean, g_free);
}

/* t = 1 is the end of the last interval, not the beginning of one more. */
void
h3_curve_at (const H3Curve *curve, gfloat t, gfloat *c)
{
  gfloat p = CLAMP (t, 0.0f, 1.0f) * (gfloat) (curve->points - 1);
  gint i = MIN ((gint) floorf (p), curve->points - 2);
  gfloat fraction = p - (gfloat) i;
  const gfloat *from = curve->table + (gsize) i * curve->width;
  const gfloat *to = from + curve->width;

  for (gint k = 0; k < curve->width; k++)
    c[k] = from[k] + fraction * (to[k] - from[k]);
}
