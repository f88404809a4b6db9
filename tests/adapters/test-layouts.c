/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every layout against weights that were merged here, in double; several
 * adapters, strengths, and quantised weights. */
#include "test-adapters.h"

#define TOLERANCE h3_test_tolerance (1e-5, 2e-2)
#define HEAD_DIM 32
#define ALPHA 1.5

/* The row of the release's fused q, k, v that is row @r of [q; k; v]. */
static gint64
grouped_row (gint64 rows, gint64 r)
{
  gint64 inner = rows / 3;

  return (r % inner / HEAD_DIM * 3 + r / inner) * HEAD_DIM + r % HEAD_DIM;
}

/* W += strength alpha / rank B A, of every module of ComfyUI's layout. */
static void
merge (H3TestFile *base, const gchar *adapter, gdouble strength)
{
  static const gchar prefix[] = "diffusion_model.", suffix[] = ".lora_A.weight";
  g_autofree gchar *path = h3_test_adapter (adapter);
  g_auto (H3TestFile) factors = { 0 };

  h3_test_file_init (&factors);
  h3_test_file_read (&factors, path);
  for (guint i = 0; i < factors.names->len; i++) {
    const gchar *key = factors.names->pdata[i];
    g_autofree gchar *module = NULL, *weight = NULL, *up_key = NULL;
    gint64 rank, cols, rows, w_rows, w_cols, up_rank;
    const gfloat *a, *b;
    gfloat *w;

    if (!g_str_has_suffix (key, suffix))
      continue;
    module = g_strndup (key + strlen (prefix),
        strlen (key) - strlen (prefix) - strlen (suffix));
    weight = g_strconcat (module, ".weight", NULL);
    up_key = g_strconcat (prefix, module, ".lora_B.weight", NULL);
    a = h3_test_file_find (&factors, key, &rank, &cols);
    b = h3_test_file_find (&factors, up_key, &rows, &up_rank);
    w = h3_test_file_find (base, weight, &w_rows, &w_cols);
    g_assert_cmpint (w_rows, ==, rows);
    g_assert_cmpint (w_cols, ==, cols);
    for (gint64 r = 0; r < rows; r++) {
      gfloat *row = w + cols * (g_str_has_suffix (module, "qkv_proj")
                                       ? grouped_row (rows, r)
                                       : r);

      for (gint64 c = 0; c < cols; c++) {
        gdouble sum = 0;

        for (gint64 k = 0; k < rank; k++)
          sum += (gdouble) b[r * rank + k] * a[k * cols + c];
        row[c] = (gfloat) (row[c] + strength * ALPHA / rank * sum);
      }
    }
  }
}

/* The tiny transformer in float32, as it is and merged. */
typedef struct {
  gchar *dir, *base, *merged;
} Files;

static void
files_init (Files *files, gdouble strength)
{
  g_autofree gchar *path =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "transformer", NULL);
  g_auto (H3TestFile) file = { 0 };

  files->dir = h3_test_temp_dir ();
  files->base = g_build_filename (files->dir, "base.safetensors", NULL);
  files->merged = g_build_filename (files->dir, "merged.safetensors", NULL);
  h3_test_file_init (&file);
  h3_test_file_read (&file, path);
  h3_test_file_write (&file, files->base);
  merge (&file, "comfy", strength);
  h3_test_file_write (&file, files->merged);
}

static void
files_clear (Files *files)
{
  h3_test_remove_tree (files->dir);
  g_free (files->dir);
  g_free (files->base);
  g_free (files->merged);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Files, files_clear)

/* Fails unless @choices on the base are what was merged. */
static void
check_choices (const Files *files, const H3AdapterChoice *choices, guint n)
{
  gsize n_got, n_want;
  g_autofree gfloat *got =
      h3_test_latents (files->base, H3_QKV_GROUPED, choices, n, &n_got, NULL);
  g_autofree gfloat *want =
      h3_test_latents (files->merged, H3_QKV_GROUPED, NULL, 0, &n_want, NULL);
  g_autofree gfloat *plain =
      h3_test_latents (files->base, H3_QKV_GROUPED, NULL, 0, &n_want, NULL);

  g_assert_cmpuint (n_got, ==, n_want);
  h3_test_assert_close (got, want, n_want, TOLERANCE);
  g_assert_cmpfloat (h3_test_rel_l2 (plain, want, n_want), >, 0.1);
}

static void
test_layout (gconstpointer data)
{
  g_autofree gchar *path = h3_test_adapter (data);
  const H3AdapterChoice choice = { path, 1 };
  g_auto (Files) files = { 0 };

  files_init (&files, 1);
  check_choices (&files, &choice, 1);
}

/* Strengths multiply, and adapters add up. */
static void
test_several (void)
{
  g_autofree gchar *comfy = h3_test_adapter ("comfy");
  g_autofree gchar *kohya = h3_test_adapter ("kohya");
  g_autofree gchar *peft = h3_test_adapter ("peft");
  const H3AdapterChoice choices[] = { { comfy, 0.75 }, { kohya, -0.25 },
    { peft, 0.125 } };
  g_auto (Files) files = { 0 };

  files_init (&files, 0.625);
  check_choices (&files, choices, G_N_ELEMENTS (choices));
}

/* Same layers, other file: the release's names under diffusers' base. */
static void
test_bases (void)
{
  g_autofree gchar *comfy = h3_test_adapter ("comfy");
  g_autofree gchar *peft = h3_test_adapter ("peft");
  const H3AdapterChoice choices[] = { { comfy, 1 }, { peft, 1 } };
  const gchar *const dirs[] = { h3_test_tiny_dir (),
    h3_test_tiny_diffusers_dir (), h3_test_tiny_comfy_dir () };
  gsize n;
  g_autofree gfloat *want =
      h3_test_latents (dirs[0], H3_QKV_AUTO, choices, 1, &n, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (dirs); i++)
    for (guint k = 0; k < G_N_ELEMENTS (choices); k++) {
      g_autofree gfloat *got =
          h3_test_latents (dirs[i], H3_QKV_AUTO, &choices[k], 1, &n, NULL);

      /* a sum in another order may round a weight the other way */
      h3_test_assert_close (got, want, n, h3_test_tolerance (1e-4, 2e-2));
    }
}

typedef struct {
  const gchar *form, *adapter;
} Beside;

static const Beside beside[] = {
  { "fp8-official", "comfy" },
  { "int8-official", "kohya" },
  { "nvfp4-official", "diffsynth" },
  { "mxfp8-official", "diffusers" },
  { "fp8-diffusers", "peft" },
  { "int8-diffusers", "comfy" },
  { "nvfp4-diffusers", "bare" },
  { "int8-comfy-pruned", "turbo" },
  { "../gguf/blocks", "wide" },
  { "../gguf/flat", "turbo" },
};

/* A quantised weight with a low rank is what its numbers are with the adapter
 * merged; two adapters have one low rank. */
static void
test_beside (gconstpointer data)
{
  const Beside *b = data;
  g_autofree gchar *adapter = h3_test_adapter (b->adapter);
  g_autofree gchar *other = h3_test_adapter ("other");
  g_autofree gchar *path = h3_test_quantised (b->form);
  g_autofree gchar *decoded = g_strconcat (path, "-decoded", NULL);
  const H3AdapterChoice choices[] = { { adapter, 0.5 }, { other, 0.5 } };
  guint n_choices = g_str_equal (b->adapter, "wide") ? 1 : 2;
  guint64 weights, without;
  gsize n;
  g_autofree gfloat *got =
      h3_test_latents (path, H3_QKV_AUTO, choices, n_choices, &n, &weights);
  g_autofree gfloat *want =
      h3_test_latents (decoded, H3_QKV_AUTO, choices, n_choices, &n, NULL);
  g_autofree gfloat *plain =
      h3_test_latents (path, H3_QKV_AUTO, NULL, 0, &n, &without);

  h3_test_assert_close (got, want, n, TOLERANCE);
  g_assert_cmpfloat (h3_test_rel_l2 (plain, want, n), >, 0.1);
  g_assert_cmpuint (weights, >, without);
}

/* Nothing is different where the strength is 0. */
static void
test_nothing (void)
{
  g_autofree gchar *comfy = h3_test_adapter ("comfy");
  const H3AdapterChoice choice = { comfy, 0 };
  gsize n;
  g_autofree gfloat *got =
      h3_test_latents (h3_test_tiny_dir (), H3_QKV_AUTO, &choice, 1, &n, NULL);
  g_autofree gfloat *want =
      h3_test_latents (h3_test_tiny_dir (), H3_QKV_AUTO, NULL, 0, &n, NULL);

  g_assert_cmpmem (got, n * sizeof *got, want, n * sizeof *want);
}

void
h3_test_add_layouts (void)
{
  static const gchar *const layouts[] = { "comfy", "bare", "kohya", "diffsynth",
    "diffusers", "peft", "wrapped" };

  for (guint i = 0; i < G_N_ELEMENTS (layouts); i++) {
    g_autofree gchar *path =
        g_strconcat ("/adapters/layout/", layouts[i], NULL);

    g_test_add_data_func (path, layouts[i], test_layout);
  }
  for (guint i = 0; i < G_N_ELEMENTS (beside); i++) {
    const gchar *form = beside[i].form;
    g_autofree gchar *path = g_strconcat ("/adapters/beside/",
        form + (g_str_has_prefix (form, "../") ? 3 : 0), NULL);

    g_test_add_data_func (path, &beside[i], test_beside);
  }
  g_test_add_func ("/adapters/several", test_several);
  g_test_add_func ("/adapters/bases", test_bases);
  g_test_add_func ("/adapters/nothing", test_nothing);
}
