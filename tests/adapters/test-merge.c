/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How adapters get into weights, and which transformers are the same one. */
#include "test-adapters.h"

#include "model/denoise/transformer-private.h"

#include <glib/gstdio.h>
#include <math.h>

static H3Transformer *
load (H3TestSetup *s)
{
  g_autoptr (GError) error = NULL;
  H3Transformer *transformer =
      h3_transformer_load (s->checkpoint, s->device, NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  return transformer;
}

/* A stored bfloat16 weight is rounded once: W + B A is what it is in double, to
 * the nearest. */
static void
test_rounding (void)
{
  g_autofree gchar *comfy = h3_test_adapter ("comfy");
  const H3AdapterChoice choice = { comfy, 1 };
  g_auto (H3TestSetup) s = { 0 };
  g_auto (H3TestFile) factors = { 0 }, base = { 0 };
  g_autofree gchar *path =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "transformer", NULL);
  g_autoptr (H3Transformer) t = NULL;
  g_autofree gfloat *got = NULL;
  gint64 rows, cols, rank;
  const gfloat *w, *a, *b;

  h3_test_file_init (&factors);
  h3_test_file_init (&base);
  h3_test_file_read (&factors, comfy);
  h3_test_file_read (&base, path);
  h3_test_setup_init (&s, h3_test_tiny_dir (), H3_QKV_AUTO, &choice, 1);
  t = load (&s);
  g_assert_cmpint (t->blocks[1].fc2->tensor->dtype, ==, H3_DTYPE_BF16);
  got = h3_test_to_host (s.stream, t->blocks[1].fc2->tensor);
  a = h3_test_file_find (&factors,
      "diffusion_model.blocks.1.mlp.fc2.lora_A.weight", &rank, &cols);
  b = h3_test_file_find (&factors,
      "diffusion_model.blocks.1.mlp.fc2.lora_B.weight", &rows, &rank);
  w = h3_test_file_find (&base, "blocks.1.mlp.fc2.weight", &rows, &cols);
  for (gint64 r = 0; r < rows; r++)
    for (gint64 c = 0; c < cols; c++) {
      gdouble sum = 0, size = 0, want, found = got[r * cols + c];

      for (gint64 k = 0; k < rank; k++) {
        gdouble term = (gdouble) b[r * rank + k] * a[k * cols + c];

        sum += term;
        size += fabs (term);
      }
      want = w[r * cols + c] + 1.5 / rank * sum;
      size = 1.5 / rank * size + fabs (w[r * cols + c]);
      /* half of the last bit of bfloat16, and what float32 loses on the way */
      g_assert_cmpfloat (fabs (found - want), <=,
          ldexp (1, ilogb (want) - 8) + 3e-7 * size);
    }
}

/* The adapter's AdaLN alone, and the pruned transformer in float32, as it is and
 * with its AdaLN merged here in double: W += s B A basisᵀ, b += s B A mean. */
typedef struct {
  gchar *dir, *adapter, *base, *merged;
} Projected;

static void
merge_adaln (H3TestFile *base, const gchar *name, const gchar *bias_name,
    const gfloat *a, const gfloat *b, gint64 rank)
{
  gint64 width, full, rows, cols;
  const gfloat *basis = h3_test_file_find (base, "adaln_basis", &width, &full);
  const gfloat *mean = h3_test_file_find (base, "adaln_mean", &full, &cols);
  gfloat *w = h3_test_file_find (base, name, &rows, &width);
  gfloat *bias = h3_test_file_find (base, bias_name, &rows, &cols);
  g_autofree gdouble *down = g_new0 (gdouble, rank * (width + 1));

  for (gint64 k = 0; k < rank; k++)
    for (gint64 c = 0; c < full; c++) {
      for (gint64 j = 0; j < width; j++)
        down[k * (width + 1) + j] +=
            (gdouble) a[k * full + c] * basis[j * full + c];
      down[k * (width + 1) + width] += (gdouble) a[k * full + c] * mean[c];
    }
  for (gint64 r = 0; r < rows; r++)
    for (gint64 j = 0; j <= width; j++) {
      gdouble sum = 0;

      for (gint64 k = 0; k < rank; k++)
        sum += b[r * rank + k] * down[k * (width + 1) + j];
      sum *= 1.5 / rank;
      if (j < width)
        w[r * width + j] = (gfloat) (w[r * width + j] + sum);
      else
        bias[r] = (gfloat) (bias[r] + sum);
    }
}

static void
projected_init (Projected *p, const gchar *of)
{
  g_autofree gchar *form = h3_test_tiny_curve_dir (of);
  g_autofree gchar *from = g_build_filename (form, "transformer", NULL);
  g_autofree gchar *full = h3_test_adapter ("adaln");
  g_auto (H3TestFile) base = { 0 }, adapter = { 0 }, few = { 0 };
  g_autofree gchar *base_file = NULL, *merged_file = NULL;

  p->dir = h3_test_temp_dir ();
  p->adapter = g_build_filename (p->dir, "adaln.safetensors", NULL);
  p->base = g_build_filename (p->dir, "base", NULL);
  p->merged = g_build_filename (p->dir, "merged", NULL);
  h3_test_file_init (&base);
  h3_test_file_init (&adapter);
  h3_test_file_init (&few);
  h3_test_file_read (&base, from);
  h3_test_file_read (&adapter, full);
  for (guint i = 0; i < 2; i++) {
    const gchar *to = i ? p->merged : p->base;
    g_autofree gchar *config = g_build_filename (from, "config.json", NULL);
    g_autofree gchar *copy = g_build_filename (to, "config.json", NULL);

    g_mkdir (to, 0777);
    h3_test_copy_file (config, copy);
  }
  base_file = g_build_filename (p->base, "model.safetensors", NULL);
  merged_file = g_build_filename (p->merged, "model.safetensors", NULL);
  h3_test_file_write (&base, base_file);

  for (gint i = -1; i < 3; i++) {
    g_autofree gchar *module =
        i < 0 ? g_strdup ("final_layer.adaln_proj.linear")
              : g_strdup_printf ("blocks.%d.adaln_proj.linear", i);
    g_autofree gchar *weight =
        i < 0 ? g_strdup ("norm_out.linear.weight")
              : g_strdup_printf ("transformer_%s.weight", module);
    g_autofree gchar *bias =
        i < 0 ? g_strdup ("norm_out.folded_bias")
              : g_strdup_printf ("transformer_blocks.%d.adaln_proj.folded_bias",
                    i);
    static const gchar *const factors[] = { "lora_A.weight", "lora_B.weight",
      "alpha" };
    const gfloat *values[3];
    gint64 rows[3], cols[3];

    for (guint k = 0; k < 3; k++) {
      g_autofree gchar *key =
          g_strdup_printf ("diffusion_model.%s.%s", module, factors[k]);

      values[k] = h3_test_file_find (&adapter, key, &rows[k], &cols[k]);
      h3_test_file_add (&few, key, rows[k], cols[k],
          g_memdup2 (values[k], rows[k] * MAX (cols[k], 1) * sizeof (gfloat)));
    }
    merge_adaln (&base, weight, bias, values[0], values[1], rows[0]);
  }
  h3_test_file_write (&base, merged_file);
  h3_test_file_write (&few, p->adapter);
}

/* An adapter of the full AdaLN on a pruned one, also where nothing was cut off. */
static void
test_projection (gconstpointer data)
{
  Projected p;
  H3AdapterChoice choice;
  gsize n;
  g_autofree gfloat *got = NULL, *want = NULL, *plain = NULL;

  projected_init (&p, data);
  choice = (H3AdapterChoice){ p.adapter, 1 };
  got = h3_test_latents (p.base, H3_QKV_AUTO, &choice, 1, &n, NULL);
  want = h3_test_latents (p.merged, H3_QKV_AUTO, NULL, 0, &n, NULL);
  plain = h3_test_latents (p.base, H3_QKV_AUTO, NULL, 0, &n, NULL);
  h3_test_assert_close (got, want, n, h3_test_tolerance (1e-5, 2e-2));
  g_assert_cmpfloat (h3_test_rel_l2 (plain, want, n), >, 0.01);
  h3_test_remove_tree (p.dir);
  g_free (p.dir);
  g_free (p.adapter);
  g_free (p.base);
  g_free (p.merged);
}

static gchar *
identity (const H3AdapterChoice *choices, guint n, H3Component component)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (h3_test_tiny_dir (), H3_PARTITION_FL2VA, &error);
  gchar *text;

  g_assert_no_error (error);
  h3_checkpoint_set_adapters (checkpoint, choices, n);
  text = h3_checkpoint_identity (checkpoint, component, &error);
  g_assert_no_error (error);
  return text;
}

/* Another adapter, strength or file makes another transformer, and nothing else
 * another. */
static void
test_identity (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *comfy = h3_test_adapter ("comfy");
  g_autofree gchar *copy = g_build_filename (dir, "copy.safetensors", NULL);
  const H3AdapterChoice none[] = { { comfy, 1 } },
                        weaker[] = { { comfy, 0.5 } },
                        copied[] = { { copy, 1 } },
                        both[] = { { comfy, 1 }, { copy, 1 } };
  g_autoptr (GHashTable) seen =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autofree gchar *again = identity (none, 1, H3_COMPONENT_TRANSFORMER);
  g_autofree gchar *text = NULL, *other = NULL;

  h3_test_copy_file (comfy, copy);
  g_hash_table_add (seen, identity (none, 0, H3_COMPONENT_TRANSFORMER));
  g_hash_table_add (seen, identity (none, 1, H3_COMPONENT_TRANSFORMER));
  g_hash_table_add (seen, identity (weaker, 1, H3_COMPONENT_TRANSFORMER));
  g_hash_table_add (seen, identity (copied, 1, H3_COMPONENT_TRANSFORMER));
  g_hash_table_add (seen, identity (both, 2, H3_COMPONENT_TRANSFORMER));
  g_assert_cmpuint (g_hash_table_size (seen), ==, 5);
  g_assert_true (g_hash_table_contains (seen, again));
  h3_test_patch_file (copy, -4, "\0\0\0\0", 4);
  h3_test_truncate_file (copy, h3_test_file_size (copy) - 4);
  g_hash_table_add (seen, identity (copied, 1, H3_COMPONENT_TRANSFORMER));
  g_assert_cmpuint (g_hash_table_size (seen), ==, 6);

  text = identity (none, 0, H3_COMPONENT_VIDEO_VAE);
  other = identity (none, 1, H3_COMPONENT_VIDEO_VAE);
  g_assert_cmpstr (text, ==, other);
  h3_test_remove_tree (dir);
}

static gboolean
stop_at_once (gpointer data)
{
  gint *asked = data;

  return (*asked)++ >= 60;
}

/* Loading ends while adapters are merged, too. */
static void
test_cancel (void)
{
  g_autofree gchar *comfy = h3_test_adapter ("comfy");
  const H3AdapterChoice choice = { comfy, 1 };
  g_auto (H3TestSetup) s = { 0 };
  g_autoptr (GError) error = NULL;
  gint asked = 0;
  const H3Stop stop = { stop_at_once, &asked };

  h3_test_setup_init (&s, h3_test_tiny_dir (), H3_QKV_AUTO, &choice, 1);
  g_assert_null (
      h3_transformer_load (s.checkpoint, s.device, &stop, NULL, NULL, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
}

static void
test_info (void)
{
  g_autofree gchar *kohya = h3_test_adapter ("kohya");
  g_autofree gchar *peft = h3_test_adapter ("peft");
  const H3AdapterChoice choices[] = { { kohya, 1 }, { peft, 0.5 } };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Adapters) adapters = h3_adapters_open (choices, 2, &error);
  const H3AdapterInfo *info;

  g_assert_no_error (error);
  g_assert_cmpuint (h3_adapters_n (adapters), ==, 2);
  info = h3_adapters_info (adapters, 0);
  g_assert_cmpstr (info->layout, ==, "kohya, musubi");
  g_assert_cmpstr (info->alpha, ==, "per module");
  g_assert_cmpuint (info->n_modules, ==, 3 * 5 + 2 * 4 + 8);
  g_assert_cmpint (info->min_rank, ==, 2);
  g_assert_cmpint (info->max_rank, ==, 5);
  g_assert_cmpuint (info->warnings->len, ==, 0);
  info = h3_adapters_info (adapters, 1);
  g_assert_cmpstr (info->layout, ==, "PEFT, diffusers names");
  g_assert_cmpstr (info->alpha, ==,
      "1.5 in the metadata, for 41 of 41 modules");
  g_assert_cmpuint (info->n_modules, ==, 3 * 7 + 2 * 6 + 8);
}

void
h3_test_add_merge (void)
{
  g_test_add_func ("/adapters/rounding", test_rounding);
  g_test_add_data_func ("/adapters/projection/2", "diffusers-pruned-2",
      test_projection);
  g_test_add_data_func ("/adapters/projection/36", "diffusers-pruned-36",
      test_projection);
  g_test_add_func ("/adapters/identity", test_identity);
  g_test_add_func ("/adapters/cancel", test_cancel);
  g_test_add_func ("/adapters/info", test_info);
}
