/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pruned transformers: the table of timesteps, and AdaLN's rows against a float64
 * evaluation of the files' own tensors (denoiser.md 6). */
#include "test-denoise.h"

#include "model/checkpoint/stored-values.h"
#include "model/denoise/transformer-private.h"

#include <math.h>

#define ROWS_TOLERANCE 1e-6

/* Rows i of [ i, i % 2, -i ]: the first column is where in the table the result
 * is from, the second tells which interval. Exactly so many bytes: reading past
 * them is an error. */
static H3Curve
ramp (gint points)
{
  H3Curve curve = { .points = points, .width = 3 };

  curve.table = g_new (gfloat, 3 * points);
  for (gint i = 0; i < points; i++) {
    curve.table[3 * i] = i;
    curve.table[3 * i + 1] = i % 2;
    curve.table[3 * i + 2] = -i;
  }
  return curve;
}

static void
check_at (const H3Curve *curve, gfloat t, gint interval, gdouble fraction)
{
  gdouble odd = interval % 2 ? 1 - fraction : fraction;
  gfloat c[3];

  h3_curve_at (curve, t, c);
  g_assert_cmpfloat_with_epsilon (c[0], interval + fraction, 1e-4);
  g_assert_cmpfloat_with_epsilon (c[1], odd, 1e-4);
  g_assert_cmpfloat (c[2], ==, -c[0]);
}

/* The examples of denoiser.md 6.2. */
static void
test_examples (void)
{
  H3Curve curve = ramp (1025);

  check_at (&curve, 0.999f, 1022, 0.976);
  check_at (&curve, 1.0f, 1023, 1);
  check_at (&curve, 0.19999999f, 204, 0.79999);
  check_at (&curve, 0, 0, 0);
  check_at (&curve, 0.5f, 512, 0);
  h3_curve_clear (&curve);
}

static void
test_clamped (void)
{
  static const gint points[] = { 2, 3, 1001, 1025 };

  for (guint i = 0; i < G_N_ELEMENTS (points); i++) {
    H3Curve curve = ramp (points[i]);

    check_at (&curve, -0.25f, 0, 0);
    check_at (&curve, -INFINITY, 0, 0);
    check_at (&curve, nextafterf (1, 0), points[i] - 2, 1);
    check_at (&curve, 1.0f, points[i] - 2, 1);
    check_at (&curve, 1.5f, points[i] - 2, 1);
    check_at (&curve, INFINITY, points[i] - 2, 1);
    h3_curve_clear (&curve);
  }
}

static void
test_narrowest (void)
{
  H3Curve curve = { .points = 2, .width = 1 };
  gfloat c;

  curve.table = g_memdup2 ((gfloat[]){ 3, 7 }, 2 * sizeof (gfloat));
  h3_curve_at (&curve, 0.25f, &c);
  g_assert_cmpfloat (c, ==, 4);
  h3_curve_clear (&curve);
}

/* Float64 */

static gdouble *
numbers (H3TensorSet *set, const gchar *name, gsize n)
{
  g_autoptr (GError) error = NULL;
  const H3StoredTensor *tensor = h3_tensor_set_get (set, name, &error);
  g_autofree guint8 *bytes = NULL;
  g_autofree gfloat *floats = g_new (gfloat, n);
  gdouble *values = g_new (gdouble, n);

  g_assert_no_error (error);
  g_assert_cmpuint (tensor->bytes, ==, n * h3_stored_type_size (tensor->type));
  bytes = g_malloc (tensor->bytes);
  h3_stored_tensor_read (tensor, 0, tensor->bytes, bytes, &error);
  g_assert_no_error (error);
  h3_stored_values_convert (tensor->type, bytes, n, H3_STORED_F32, floats);
  for (gsize i = 0; i < n; i++)
    values[i] = floats[i];
  return values;
}

/* What a form's tensors are called. */
typedef struct {
  const gchar *form, *table, *weight, *bias, *final_weight, *final_bias;
} Form;

static const Form forms[] = {
  { "comfy-pruned-2", "adaln_t_table", "blocks.%d.adaln_proj.linear.weight",
      "blocks.%d.adaln_proj.linear.bias",
      "final_layer.adaln_proj.linear.weight",
      "final_layer.adaln_proj.linear.bias" },
  { "diffusers-pruned-2", "time_embedder.table",
      "transformer_blocks.%d.adaln_proj.linear.weight",
      "transformer_blocks.%d.adaln_proj.folded_bias", "norm_out.linear.weight",
      "norm_out.folded_bias" },
};

typedef struct {
  H3TensorSet *set;
  gint points, width;
  gdouble *table;
} Evaluated;

/* z [n] = W c (t) + b from row @first on */
static void
evaluate (const Evaluated *e, const gchar *weight, const gchar *bias, gint rows,
    gint first, gint n, gfloat t, gfloat *z)
{
  g_autofree gdouble *w = numbers (e->set, weight, (gsize) rows * e->width);
  g_autofree gdouble *b = numbers (e->set, bias, rows);
  gdouble p = (gdouble) t * (e->points - 1);
  gint i = MIN ((gint) floor (p), e->points - 2);
  const gdouble *from = e->table + i * e->width, *to = from + e->width;

  for (gint row = 0; row < n; row++) {
    gdouble sum = b[first + row];

    for (gint k = 0; k < e->width; k++)
      sum += w[(first + row) * e->width + k] *
             (from[k] + (p - i) * (to[k] - from[k]));
    z[row] = sum;
  }
}

static const gfloat times[] = { 0, 0.19999999f, 1.0f / 3, 0.5f, 0.999f, 1 };
#define N_TIMES ((gint) G_N_ELEMENTS (times))

static void
check_blocks (const Form *form, const Evaluated *e, H3Transformer *t,
    H3Stream *stream)
{
  gint layers = t->config.layers, cols = H3_N_ADALN * t->config.hidden;
  H3AdalnPair pairs[3 * G_N_ELEMENTS (times)];
  gint slots[G_N_ELEMENTS (pairs)];
  g_autofree gfloat *want = g_new (gfloat, cols);
  g_autofree gfloat *got = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) table = NULL;

  for (gint i = 0; i < 3 * N_TIMES; i++)
    pairs[i] = (H3AdalnPair){ times[i / 3], i % 3 };
  table = h3_adaln_get (t, stream, pairs, 3 * N_TIMES, slots, NULL, NULL, NULL,
      &error);
  g_assert_no_error (error);
  g_assert_cmpint (table->dtype, ==, H3_DTYPE_F32);
  got = h3_test_to_host (stream, table);
  for (gint block = 0; block < layers; block++) {
    g_autofree gchar *weight = g_strdup_printf (form->weight, block);
    g_autofree gchar *bias = g_strdup_printf (form->bias, block);

    for (gint i = 0; i < 3 * N_TIMES; i++) {
      evaluate (e, weight, bias, 3 * cols, pairs[i].tag * cols, cols,
          pairs[i].t, want);
      h3_test_assert_close (got + (gsize) (slots[i] * layers + block) * cols,
          want, cols, ROWS_TOLERANCE);
    }
  }
}

static void
check_final (const Form *form, const Evaluated *e, const H3Transformer *t,
    H3Stream *stream)
{
  gint cols = H3_N_FINAL_ADALN * t->config.hidden;
  g_autofree gfloat *want = g_new (gfloat, cols);
  g_autofree gfloat *got = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Tensor) table =
      h3_adaln_final_table (t, stream, times, N_TIMES, NULL, &error);

  g_assert_no_error (error);
  got = h3_test_to_host (stream, table);
  for (gint i = 0; i < N_TIMES; i++) {
    evaluate (e, form->final_weight, form->final_bias, cols, 0, cols, times[i],
        want);
    h3_test_assert_close (got + i * cols, want, cols, ROWS_TOLERANCE);
  }
}

static void
test_float64 (gconstpointer data)
{
  const Form *form = data;
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autofree gchar *dir = h3_test_tiny_curve_dir (form->form);
  g_autoptr (H3Transformer) t = NULL;
  Evaluated e;

  h3_test_device_init (&d, 2);
  t = h3_test_load (dir, d.device);
  g_assert_cmpint (t->config.curve_points, ==, 1025);
  g_assert_cmpint (t->config.curve_width, ==, 2);
  e = (Evaluated){ t->adaln.set, 1025, 2,
    numbers (t->adaln.set, form->table, 2 * 1025) };
  check_blocks (form, &e, t, d.stream);
  check_final (form, &e, t, d.stream);
  g_free (e.table);
}

/* What an adapter of the full AdaLN is projected with: its rows are orthonormal,
 * and the full-width curve is its table's in it. */
static void
test_basis (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autofree gchar *dir = h3_test_tiny_curve_dir ("diffusers-pruned-2");
  g_autofree gchar *comfy = h3_test_tiny_curve_dir ("comfy-pruned-2");
  g_autoptr (H3Transformer) t = NULL;
  g_autoptr (H3Transformer) without = NULL;
  g_autoptr (H3Transformer) own = NULL; /* in the curve's own coordinates */
  const H3Curve *curve;
  gdouble worst = 0;

  h3_test_device_init (&d, 1);
  t = h3_test_load (dir, d.device);
  without = h3_test_load (comfy, d.device);
  own = h3_test_load (h3_test_tiny_pruned_dir (), d.device);
  g_assert_null (without->curve.basis);
  g_assert_null (without->curve.mean);
  g_assert_cmpint (without->config.time_dim, ==, 0);
  curve = &t->curve;
  g_assert_cmpint (t->config.time_dim, ==, 36);
  g_assert_cmpint (curve->time_dim, ==, 36);
  for (gint i = 0; i < 2; i++)
    for (gint j = 0; j < 2; j++) {
      gdouble product = 0;

      for (gint k = 0; k < 36; k++)
        product +=
            (gdouble) curve->basis[36 * i + k] * curve->basis[36 * j + k];
      g_assert_cmpfloat_with_epsilon (product, i == j, 1e-6);
    }
  for (gint row = 0; row < 1025; row++)
    for (gint k = 0; k < 36; k++) {
      gdouble value = curve->mean[k];

      for (gint i = 0; i < 2; i++)
        value += curve->table[2 * row + i] * curve->basis[36 * i + k];
      worst = MAX (worst, fabs (value - own->curve.table[36 * row + k]));
    }
  g_test_message ("two of 36 directions: %g off at most", worst);
  g_assert_cmpfloat (worst, <, 2e-3);
  g_assert_cmpfloat (worst, >, 1e-5);
}

void
h3_test_add_curve (void)
{
  g_test_add_func ("/curve/examples", test_examples);
  g_test_add_func ("/curve/clamped", test_clamped);
  g_test_add_func ("/curve/narrowest", test_narrowest);
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++) {
    g_autofree gchar *path =
        g_strconcat ("/curve/float64/", forms[i].form, NULL);

    g_test_add_data_func (path, &forms[i], test_float64);
  }
  g_test_add_func ("/curve/basis", test_basis);
}
