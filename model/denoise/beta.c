/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/denoise/beta.h"

#include <math.h>

#define POINTS 64

/* Legendre polynomial P_n (x) and its derivative, by the recurrence. */
static gdouble
legendre (gint n, gdouble x, gdouble *derivative)
{
  gdouble p0 = 1, p1 = x;

  for (gint k = 2; k <= n; k++) {
    gdouble p2 = ((2 * k - 1) * x * p1 - (k - 1) * p0) / k;

    p0 = p1;
    p1 = p2;
  }
  *derivative = n * (x * p1 - p0) / (x * x - 1);
  return p1;
}

/* Gauss-Legendre nodes and weights on [-1, 1] by Newton's method. */
static void
gauss_legendre (gdouble node[POINTS], gdouble weight[POINTS])
{
  for (gint i = 0; i < POINTS; i++) {
    gdouble x = cos (G_PI * (i + 0.75) / (POINTS + 0.5));
    gdouble slope;

    for (gint k = 0; k < 20; k++) {
      gdouble delta = legendre (POINTS, x, &slope) / slope;

      x -= delta;
      if (fabs (delta) < 1e-15)
        break;
    }
    legendre (POINTS, x, &slope);
    node[i] = x;
    weight[i] = 2 / ((1 - x * x) * slope * slope);
  }
}

typedef struct {
  gdouble node[POINTS], weight[POINTS];
} Rule;

static const Rule *
rule_get (void)
{
  static Rule rule;
  static gsize ready;

  if (g_once_init_enter (&ready)) {
    gauss_legendre (rule.node, rule.weight);
    g_once_init_leave (&ready, 1);
  }
  return &rule;
}

/* I (x; a, a) for x <= 1/2. With w = x^a the integrand of
 *   I = 1 / (a B) * integral from 0 to x^a of (1 - w^(1/a))^(a-1) dw
 * is smooth on the whole range. */
static gdouble
incomplete_beta (gdouble x, gdouble a)
{
  const Rule *rule = rule_get ();
  gdouble beta = exp (2 * lgamma (a) - lgamma (2 * a));
  gdouble half = pow (x, a) / 2;
  gdouble sum = 0;

  for (gint i = 0; i < POINTS; i++) {
    gdouble w = half * (1 + rule->node[i]);

    sum += rule->weight[i] * pow (1 - pow (w, 1 / a), a - 1);
  }
  return half * sum / (a * beta);
}

gdouble
h3_beta_quantile_symmetric (gdouble u, gdouble a)
{
  gdouble low = 0, high = 0.5;

  if (u <= 0)
    return 0;
  if (u >= 1)
    return 1;
  if (u == 0.5)
    return 0.5;
  if (u > 0.5)
    return 1 - h3_beta_quantile_symmetric (1 - u, a);

  /* halve down to neighbouring doubles; the bound only ends bad input */
  for (gint i = 0; i < 200; i++) {
    gdouble middle = (low + high) / 2;

    if (middle <= low || middle >= high)
      break;
    if (incomplete_beta (middle, a) < u)
      low = middle;
    else
      high = middle;
  }
  return high;
}
