/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Quantiles of a symmetric beta distribution (sampling.md 4.2). */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The x in [0, 1] with I (x; a, a) = @u; 0 < a <= 1. Exactly 0, 1/2 and 1 for
 * @u 0, 1/2 and 1, so that rounding an index made of it is well defined. */
gdouble h3_beta_quantile_symmetric (gdouble u, gdouble a);

G_END_DECLS
