/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pruned transformers: the curve t -> silu (tau (t)) as a table in a basis of its
 * own, and AdaLN in that basis (denoiser.md 6). In float64. */
#include "mkcheckpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_ROWS MK_CURVE_POINTS

/* The numbers of the official file. */
static gdouble *
numbers (const MkTensor *tensor, const gchar *component, guint64 seed)
{
  gsize n = mk_tensor_size (tensor);
  g_autofree gfloat *recipe = mk_values (tensor, component, seed);
  gdouble *values = g_new (gdouble, n);

  for (gsize i = 0; i < n; i++)
    values[i] = tensor->bf16 ? mk_round_bf16 (recipe[i]) : recipe[i];
  return values;
}

/* A linear's numbers. */
typedef struct {
  gint64 rows, cols;
  gdouble *w, *b;
} Linear;

static void
linear_init (Linear *l, const GPtrArray *tensors, const gchar *name,
    const gchar *component, guint64 seed)
{
  g_autofree gchar *weight = g_strconcat (name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (name, ".bias", NULL);
  const MkTensor *w = mk_tensor_find (tensors, weight);

  l->rows = w->shape[0];
  l->cols = w->shape[1];
  l->w = numbers (w, component, seed);
  l->b = numbers (mk_tensor_find (tensors, bias), component, seed);
}

static void
linear_clear (Linear *l)
{
  g_free (l->w);
  g_free (l->b);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Linear, linear_clear)

/* y = silu (W x + b) */
static void
silu_linear (const Linear *l, const gdouble *x, gdouble *y)
{
  for (gint64 o = 0; o < l->rows; o++) {
    gdouble sum = l->b[o];

    for (gint64 i = 0; i < l->cols; i++)
      sum += l->w[o * l->cols + i] * x[i];
    y[o] = sum / (1 + exp (-sum));
  }
}

/**
 * Curve: @g [TABLE_ROWS, dim], the curve at i / (TABLE_ROWS - 1)
 * @basis: [rank, dim], orthonormal rows; @mean: [dim]
 */
typedef struct {
  gint64 dim, rank;
  gdouble *g, *basis, *mean;
} Curve;

static void
curve_clear (Curve *curve)
{
  g_free (curve->g);
  g_free (curve->basis);
  g_free (curve->mean);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Curve, curve_clear)

/* denoiser.md 3.3 */
static void
sample (Curve *curve, const GPtrArray *tensors, const gchar *component,
    guint64 seed)
{
  g_auto (Linear) in = { 0 };
  g_auto (Linear) out = { 0 };
  g_autofree gdouble *e = NULL, *hidden = NULL;
  gint64 half;

  linear_init (&in, tensors, "time_embedder.proj_in", component, seed);
  linear_init (&out, tensors, "time_embedder.proj_out", component, seed);
  curve->dim = out.rows;
  curve->g = g_new (gdouble, TABLE_ROWS * out.rows);
  e = g_new (gdouble, in.cols);
  hidden = g_new (gdouble, in.rows);
  half = in.cols / 2;
  for (gint64 row = 0; row < TABLE_ROWS; row++) {
    for (gint64 k = 0; k < half; k++) {
      gdouble angle =
          row / (TABLE_ROWS - 1.0) * exp (-log (10000.0) * k / half);

      e[k] = cos (angle);
      e[half + k] = sin (angle);
    }
    silu_linear (&in, e, hidden);
    silu_linear (&out, hidden, curve->g + row * curve->dim);
  }
}

/* The curve's own coordinates. */
static void
choose_identity (Curve *curve)
{
  curve->rank = curve->dim;
  curve->mean = g_new0 (gdouble, curve->dim);
  curve->basis = g_new0 (gdouble, curve->dim * curve->dim);
  for (gint64 i = 0; i < curve->dim; i++)
    curve->basis[i * curve->dim + i] = 1;
}

/* Of the deviations from the mean. */
static gdouble *
covariance (const Curve *curve)
{
  gint64 d = curve->dim;
  gdouble *c = g_new0 (gdouble, d * d);

  for (gint64 row = 0; row < TABLE_ROWS; row++) {
    const gdouble *g = curve->g + row * d;

    for (gint64 i = 0; i < d; i++)
      for (gint64 j = 0; j < d; j++)
        c[i * d + j] += (g[i] - curve->mean[i]) * (g[j] - curve->mean[j]);
  }
  return c;
}

/* Columns, or rows, @p and @q of @m [d, d] turned by the angle. */
static void
turn (gdouble *m, gint64 d, gint64 p, gint64 q, gdouble cosine, gdouble sine,
    gboolean rows)
{
  for (gint64 i = 0; i < d; i++) {
    gdouble *x = rows ? &m[p * d + i] : &m[i * d + p];
    gdouble *y = rows ? &m[q * d + i] : &m[i * d + q];
    gdouble old = *x;

    *x = cosine * old + sine * *y;
    *y = cosine * *y - sine * old;
  }
}

/* Jacobi's method: @c [d, d], symmetric, becomes diagonal; rows of the result are
 * its eigenvectors. */
static gdouble *
eigenvectors (gdouble *c, gint64 d)
{
  gdouble *v = g_new0 (gdouble, d * d);

  for (gint64 i = 0; i < d; i++)
    v[i * d + i] = 1;
  for (gint sweep = 0; sweep < 30; sweep++)
    for (gint64 p = 0; p < d; p++)
      for (gint64 q = p + 1; q < d; q++) {
        gdouble apart = c[p * d + p] - c[q * d + q], both = c[p * d + q];
        gdouble angle = apart == 0 ? G_PI_4 : atan (2 * both / apart) / 2;
        gdouble cosine = cos (angle), sine = sin (angle);

        if (both == 0)
          continue;
        turn (c, d, p, q, cosine, sine, FALSE);
        turn (c, d, p, q, cosine, sine, TRUE);
        turn (v, d, p, q, cosine, sine, TRUE);
      }
  return v;
}

typedef struct {
  gdouble value;
  gint64 row;
} Eigenvalue;

static gint
compare_eigenvalues (gconstpointer a, gconstpointer b)
{
  const Eigenvalue *x = a, *y = b;

  return x->value < y->value ? 1 : x->value > y->value ? -1 : 0;
}

/* The @rank directions in which the curve goes farthest from its mean. */
static void
choose_basis (Curve *curve, gint64 rank)
{
  gint64 d = curve->dim;
  g_autofree gdouble *c = NULL, *v = NULL;
  g_autofree Eigenvalue *order = g_new (Eigenvalue, d);

  curve->rank = MIN (rank, d);
  curve->mean = g_new0 (gdouble, d);
  for (gint64 row = 0; row < TABLE_ROWS; row++)
    for (gint64 i = 0; i < d; i++)
      curve->mean[i] += curve->g[row * d + i] / TABLE_ROWS;
  c = covariance (curve);
  v = eigenvectors (c, d);
  for (gint64 i = 0; i < d; i++)
    order[i] = (Eigenvalue){ c[i * d + i], i };
  qsort (order, d, sizeof *order, compare_eigenvalues);
  curve->basis = g_new (gdouble, curve->rank * d);
  for (gint64 i = 0; i < curve->rank; i++)
    memcpy (curve->basis + i * d, v + order[i].row * d, d * sizeof (gdouble));
}

/* [rows, rank]: (x - mean) basisᵀ of each row of @x [rows, dim] */
static gfloat *
project (const Curve *curve, const gdouble *x, gint64 rows, const gdouble *mean)
{
  gint64 d = curve->dim;
  gfloat *y = g_new (gfloat, rows * curve->rank);

  for (gint64 row = 0; row < rows; row++)
    for (gint64 k = 0; k < curve->rank; k++) {
      gdouble sum = 0;

      for (gint64 i = 0; i < d; i++)
        sum +=
            (x[row * d + i] - (mean ? mean[i] : 0)) * curve->basis[k * d + i];
      y[row * curve->rank + k] = sum;
    }
  return y;
}

/* b + W mean */
static gfloat *
fold (const Curve *curve, const Linear *l)
{
  gfloat *b = g_new (gfloat, l->rows);

  for (gint64 o = 0; o < l->rows; o++) {
    gdouble sum = l->b[o];

    for (gint64 i = 0; i < l->cols; i++)
      sum += l->w[o * l->cols + i] * curve->mean[i];
    b[o] = sum;
  }
  return b;
}

/* Files */

static gfloat *
narrowed (const gdouble *values, gsize n)
{
  gfloat *floats = g_new (gfloat, n);

  for (gsize i = 0; i < n; i++)
    floats[i] = values[i];
  return floats;
}

static void
prune_adaln (MkStored *stored, const Curve *curve, const GPtrArray *tensors,
    const gchar *component, guint64 seed)
{
  const MkTensor *source = stored->source;
  g_autofree gchar *module =
      g_strndup (source->name, strrchr (source->name, '.') - source->name);
  gboolean weight = source->rank == 2;
  g_auto (Linear) l = { 0 };

  linear_init (&l, tensors, module, component, seed);
  stored->own = g_new0 (MkTensor, 1);
  stored->own->name = g_strdup (source->name);
  stored->own->rank = source->rank;
  stored->own->shape[0] = l.rows;
  stored->own->shape[1] = weight ? curve->rank : 0;
  stored->source = stored->own;
  stored->values =
      weight ? project (curve, l.w, l.rows, NULL) : fold (curve, &l);
}

static void
rename_bias (MkStored *stored)
{
  GString *name = g_string_new (stored->name);

  g_string_replace (name, ".linear.bias", ".folded_bias", 1);
  g_free (stored->name);
  stored->name = g_string_free (name, FALSE);
}

static void
add_curve (GPtrArray *list, const Curve *curve, gboolean diffusers)
{
  gsize n = curve->rank * curve->dim;

  mk_stored_add_new (list, diffusers ? "time_embedder.table" : "adaln_t_table",
      TABLE_ROWS, curve->rank,
      project (curve, curve->g, TABLE_ROWS, curve->mean));
  if (!diffusers)
    return;
  mk_stored_add_new (list, "adaln_basis", curve->rank, curve->dim,
      narrowed (curve->basis, n));
  mk_stored_add_new (list, "adaln_mean", curve->dim, 0,
      narrowed (curve->mean, curve->dim));
}

GPtrArray *
mk_stored_prune (GPtrArray *full, const GPtrArray *tensors,
    const gchar *component, const MkRecipe *recipe, gboolean diffusers)
{
  GPtrArray *list =
      g_ptr_array_new_with_free_func ((GDestroyNotify) mk_stored_free);
  g_auto (Curve) curve = { 0 };

  sample (&curve, tensors, component, recipe->seed);
  if (recipe->rank > 0)
    choose_basis (&curve, recipe->rank);
  else
    choose_identity (&curve);
  while (full->len > 0) {
    MkStored *stored = g_ptr_array_steal_index (full, 0);

    if (g_str_has_prefix (stored->name, "time_embedder.")) {
      mk_stored_free (stored);
      continue;
    }
    if (strstr (stored->source->name, "adaln_proj.linear")) {
      prune_adaln (stored, &curve, tensors, component, recipe->seed);
      stored->f16 = !diffusers;
      if (diffusers)
        rename_bias (stored);
    }
    g_ptr_array_add (list, stored);
  }
  add_curve (list, &curve, diffusers);
  return list;
}
