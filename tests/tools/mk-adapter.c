/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* LoRA adapters of random numbers for a tiny transformer, the same ones in every
 * layout (checkpoints.md 7.1). */
#include "mkcheckpoint.h"

#include <string.h>

/* What all layouts say of it in their own way. */
#define ALPHA 1.5f

typedef enum {
  ALPHA_SCALAR,   /* a tensor of no dimension for each module */
  ALPHA_VECTOR,   /* of one */
  ALPHA_METADATA, /* one for all */
  ALPHA_NONE,     /* in B */
} AlphaForm;

typedef struct {
  const gchar *name;
  const gchar *prefix, *down, *up;
  gboolean flat, diffusers, grouped;
  AlphaForm alpha;
} Layout;

static const Layout layouts[] = {
  { "comfy", "diffusion_model.", "lora_A", "lora_B", FALSE, FALSE, FALSE,
      ALPHA_SCALAR },
  { "bare", "", "lora_down", "lora_up", FALSE, FALSE, FALSE, ALPHA_NONE },
  { "kohya", "lora_unet_", "lora_down", "lora_up", TRUE, FALSE, FALSE,
      ALPHA_VECTOR },
  { "diffsynth", "", "lora_A.default", "lora_B.default", FALSE, FALSE, TRUE,
      ALPHA_NONE },
  { "diffusers", "transformer.", "lora_A", "lora_B", FALSE, TRUE, FALSE,
      ALPHA_METADATA },
  { "peft", "", "lora_A.default", "lora_B.default", FALSE, TRUE, FALSE,
      ALPHA_METADATA },
  { "wrapped", "base_model.model.transformer_ref.", "lora_A", "lora_B", FALSE,
      TRUE, FALSE, ALPHA_METADATA },
};

/* One low-rank update: numbers in ComfyUI's order of rows. */
typedef struct {
  gchar *module; /* official name */
  gint64 rows, cols, rank;
  gfloat *down, *up;
} Update;

static void
update_free (gpointer data)
{
  Update *update = data;

  g_free (update->module);
  g_free (update->down);
  g_free (update->up);
  g_free (update);
}

static gfloat *
numbers (const gchar *module, const gchar *factor, gint64 rows, gint64 cols,
    guint64 seed)
{
  g_autofree gchar *name = g_strconcat (module, ".", factor, NULL);
  const MkTensor tensor = { .name = name, .rank = 2, .shape = { rows, cols } };

  return mk_values (&tensor, "adapter", seed);
}

/* Where none is said: different in every block. */
static gint64
rank_of (const gchar *module)
{
  const gchar *digit = module;

  if (strstr (module, "adaln"))
    return 2;
  while (*digit && !g_ascii_isdigit (*digit))
    digit++;
  return *digit ? 3 + (*digit - '0') % 3 : 5;
}

static gboolean
has_layer (const MkTensor *tensor, MkAdapterLayers layers)
{
  if (tensor->rank != 2 || !g_str_has_suffix (tensor->name, ".weight"))
    return FALSE;
  return layers == MK_ADAPTER_ALL || strstr (tensor->name, ".attn.") ||
         strstr (tensor->name, ".mlp.") ||
         (layers == MK_ADAPTER_ADALN && strstr (tensor->name, "adaln_proj"));
}

static GPtrArray *
make_updates (const GPtrArray *tensors, MkAdapterLayers layers, gint rank,
    guint64 seed)
{
  GPtrArray *updates = g_ptr_array_new_with_free_func (update_free);

  for (guint i = 0; i < tensors->len; i++) {
    const MkTensor *tensor = tensors->pdata[i];
    Update *update;

    if (!has_layer (tensor, layers))
      continue;
    update = g_new0 (Update, 1);
    update->module =
        g_strndup (tensor->name, strlen (tensor->name) - strlen (".weight"));
    update->rows = tensor->shape[0];
    update->cols = tensor->shape[1];
    update->rank = rank > 0 ? rank : rank_of (update->module);
    update->down =
        numbers (update->module, "down", update->rank, update->cols, seed);
    update->up =
        numbers (update->module, "up", update->rows, update->rank, seed);
    g_ptr_array_add (updates, update);
  }
  return updates;
}

static gchar *
file_name (const Layout *layout, const gchar *module)
{
  g_autofree gchar *plain = layout->diffusers
                                ? mk_diffusers_transformer_name (module)
                                : g_strdup (module);

  for (gchar *c = plain; layout->flat && *c; c++)
    if (*c == '.')
      *c = '_';
  return g_strconcat (layout->prefix, plain, NULL);
}

static void
add_matrix (GPtrArray *blobs, const gchar *module, const gchar *factor,
    const gfloat *values, gint64 rows, gint64 cols)
{
  const gint64 shape[] = { rows, cols };
  MkBlob *blob =
      mk_blob_new (g_strconcat (module, ".", factor, ".weight", NULL), "F32",
          sizeof (gfloat), 2, shape);

  memcpy (blob->bytes, values, blob->size);
  g_ptr_array_add (blobs, blob);
}

static void
add_alpha (GPtrArray *blobs, const Layout *layout, const gchar *module)
{
  const gint64 one = 1;
  const gfloat alpha = ALPHA;
  MkBlob *blob;

  if (layout->alpha != ALPHA_SCALAR && layout->alpha != ALPHA_VECTOR)
    return;
  blob = mk_blob_new (g_strconcat (module, ".alpha", NULL), "F32", sizeof alpha,
      layout->alpha == ALPHA_VECTOR, &one);
  memcpy (blob->bytes, &alpha, sizeof alpha);
  g_ptr_array_add (blobs, blob);
}

/* The row of ours that is the layout's row @r. */
static gint64
our_row (const Layout *layout, const Update *update, gint64 head_dim, gint64 r)
{
  gint64 inner = update->rows / 3;

  if (layout->grouped && g_str_has_suffix (update->module, "qkv_proj"))
    return r / head_dim % 3 * inner + r / (3 * head_dim) * head_dim +
           r % head_dim;
  if (layout->diffusers && g_str_has_suffix (update->module, "fc1"))
    return (r + update->rows / 2) % update->rows;
  return r;
}

static gfloat *
ordered_up (const Layout *layout, const Update *update, gint64 head_dim)
{
  gfloat *up = g_new (gfloat, update->rows * update->rank);
  gfloat scale =
      layout->alpha == ALPHA_NONE ? ALPHA / (gfloat) update->rank : 1;

  for (gint64 r = 0; r < update->rows; r++)
    for (gint64 k = 0; k < update->rank; k++)
      up[r * update->rank + k] =
          scale *
          update->up[our_row (layout, update, head_dim, r) * update->rank + k];
  return up;
}

static void
add_module (GPtrArray *blobs, const Layout *layout, const Update *update,
    const gchar *module, const gfloat *up, gint64 rows)
{
  add_matrix (blobs, module, layout->down, update->down, update->rank,
      update->cols);
  add_matrix (blobs, module, layout->up, up, rows, update->rank);
  add_alpha (blobs, layout, module);
}

static void
add_update (GPtrArray *blobs, const Layout *layout, const Update *update,
    gint64 head_dim)
{
  static const gchar *const parts[] = { "to_q", "to_k", "to_v" };
  g_autofree gfloat *up = ordered_up (layout, update, head_dim);
  g_autofree gchar *name = file_name (layout, update->module);
  gchar *fused = strstr (name, "qkv_proj");

  if (!layout->diffusers || !fused) {
    add_module (blobs, layout, update, name, up, update->rows);
    return;
  }
  *fused = '\0';
  for (guint part = 0; part < G_N_ELEMENTS (parts); part++) {
    g_autofree gchar *split = g_strconcat (name, parts[part], NULL);

    add_module (blobs, layout, update, split,
        up + part * update->rows / 3 * update->rank, update->rows / 3);
  }
}

gboolean
mk_write_adapter (const gchar *layout_name, MkAdapterLayers layers, gint rank,
    const GPtrArray *tensors, gint64 head_dim, guint64 seed, const gchar *path,
    GError **error)
{
  g_autoptr (GPtrArray) updates = make_updates (tensors, layers, rank, seed);
  g_autoptr (GPtrArray) blobs =
      g_ptr_array_new_with_free_func ((GDestroyNotify) mk_blob_free);
  const Layout *layout = NULL;
  gchar alpha[G_ASCII_DTOSTR_BUF_SIZE];

  for (guint i = 0; i < G_N_ELEMENTS (layouts); i++)
    if (g_str_equal (layouts[i].name, layout_name))
      layout = &layouts[i];
  if (!layout) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "--adapter %s: needed: comfy, bare, kohya, diffsynth, diffusers, peft "
        "or wrapped",
        layout_name);
    return FALSE;
  }
  for (guint i = 0; i < updates->len; i++)
    add_update (blobs, layout, updates->pdata[i], head_dim);
  g_ascii_dtostr (alpha, sizeof alpha, ALPHA);
  return mk_write_blobs (blobs,
      layout->alpha == ALPHA_METADATA ? "alpha" : NULL, alpha, path, error);
}
