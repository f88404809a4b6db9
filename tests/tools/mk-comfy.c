/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ComfyUI's single files (checkpoints.md 4): q, k, v one after the other,
 * weight norm folded. */
#include "mkcheckpoint.h"

#include <math.h>
#include <string.h>

void
mk_stored_add_new (GPtrArray *list, const gchar *name, gint64 rows, gint64 cols,
    gfloat *values)
{
  MkTensor *tensor = g_new0 (MkTensor, 1);
  MkStored *stored;

  tensor->name = g_strdup (name);
  tensor->rank = cols > 0 ? 2 : 1;
  tensor->shape[0] = rows;
  tensor->shape[1] = cols;
  stored = mk_stored_add (list, tensor, g_strdup (name));
  stored->own = tensor;
  stored->values = values;
}

const MkTensor *
mk_tensor_find (const GPtrArray *tensors, const gchar *name)
{
  for (guint i = 0; i < tensors->len; i++)
    if (g_str_equal (((MkTensor *) tensors->pdata[i])->name, name))
      return tensors->pdata[i];
  g_error ("%s is not among the tensors", name);
}

void
mk_stored_add_prefix (GPtrArray *stored, const gchar *prefix)
{
  for (guint i = 0; i < stored->len; i++) {
    MkStored *tensor = stored->pdata[i];
    gchar *longer = g_strconcat (prefix, tensor->name, NULL);

    g_free (tensor->name);
    tensor->name = longer;
  }
}

/* Transformer */

GPtrArray *
mk_stored_comfy_transformer (const GPtrArray *tensors, gint64 head_dim)
{
  GPtrArray *list = mk_stored_list_new ();

  for (guint i = 0; i < tensors->len; i++) {
    const MkTensor *source = tensors->pdata[i];
    MkStored *stored = mk_stored_add (list, source, g_strdup (source->name));

    if (strstr (source->name, "attn.qkv_proj")) {
      stored->rows = MK_ROWS_CONTIGUOUS;
      stored->head_dim = head_dim;
    }
  }
  return list;
}

GPtrArray *
mk_stored_pruned_transformer (const GPtrArray *tensors, gint64 head_dim,
    const gchar *component, const MkRecipe *recipe)
{
  g_autoptr (GPtrArray) full = mk_stored_comfy_transformer (tensors, head_dim);

  return mk_stored_prune (full, tensors, component, recipe, FALSE);
}

/* Text encoder: the first fifty layers, without what comes after them */

GPtrArray *
mk_stored_comfy_text_encoder (const GPtrArray *tensors)
{
  static const gchar text[] = "model.language_model.", vision[] = "model.";
  GPtrArray *list = mk_stored_list_new ();

  for (guint i = 0; i < tensors->len; i++) {
    const MkTensor *source = tensors->pdata[i];
    const gchar *rest = source->name + strlen (text);

    if (g_str_has_prefix (source->name, "model.visual.")) {
      mk_stored_add (list, source, g_strdup (source->name + strlen (vision)));
    } else if (g_str_has_prefix (source->name, text) &&
               !g_str_equal (rest, "norm.weight") &&
               (!g_str_has_prefix (rest, "layers.") ||
                   g_ascii_strtoull (rest + strlen ("layers."), NULL, 10) <
                       50)) {
      mk_stored_add (list, source, g_strconcat ("model.", rest, NULL));
    }
  }
  return list;
}

/* Autoencoders */

/* latents_mean and latents_std of @dir/config.json */
static gboolean
add_statistics (GPtrArray *list, const gchar *dir, GError **error)
{
  static const gchar *const names[] = { "latents_mean", "latents_std" };
  g_autofree gchar *path = g_build_filename (dir, "config.json", NULL);
  g_autoptr (H3Config) config = h3_config_open (path, error);

  for (guint i = 0; config && i < G_N_ELEMENTS (names); i++) {
    g_autofree gfloat *values = g_new0 (gfloat, 256);
    guint n = 256;

    if (!h3_config_get_floats (config, names[i], values, &n, error))
      return FALSE;
    mk_stored_add_new (list, names[i], n, 0, g_steal_pointer (&values));
  }
  return config != NULL;
}

GPtrArray *
mk_stored_comfy_video_vae (const GPtrArray *tensors, const gchar *dir,
    gboolean f16, GError **error)
{
  g_autoptr (GPtrArray) list = mk_stored_official (tensors);

  if (!add_statistics (list, dir, error))
    return NULL;
  for (guint i = 0; f16 && i < list->len; i++)
    ((MkStored *) list->pdata[i])->f16 = TRUE;
  return g_steal_pointer (&list);
}

/* g v / |v|, a row at a time */
static void
add_folded (GPtrArray *list, const GPtrArray *tensors, const MkTensor *v,
    const gchar *component, guint64 seed)
{
  g_autofree gchar *base =
      g_strndup (v->name, strlen (v->name) - strlen ("_v"));
  g_autofree gchar *g_name = g_strconcat (base, "_g", NULL);
  g_autofree gfloat *g =
      mk_values (mk_tensor_find (tensors, g_name), component, seed);
  gint64 n = mk_tensor_size (v) / v->shape[0];
  gfloat *values = mk_values (v, component, seed);

  for (gint64 row = 0; row < v->shape[0]; row++) {
    gdouble sum = 0;

    for (gint64 i = 0; i < n; i++)
      sum += (gdouble) values[row * n + i] * values[row * n + i];
    for (gint64 i = 0; i < n; i++)
      values[row * n + i] = values[row * n + i] * (g[row] / sqrt (sum));
  }
  mk_stored_add (list, v, g_strdup (base))->values = values;
}

GPtrArray *
mk_stored_comfy_audio_vae (const GPtrArray *tensors, const gchar *dir,
    const gchar *component, guint64 seed, GError **error)
{
  g_autoptr (GPtrArray) list = mk_stored_list_new ();

  for (guint i = 0; i < tensors->len; i++) {
    const MkTensor *source = tensors->pdata[i];

    if (g_str_has_suffix (source->name, ".weight_v"))
      add_folded (list, tensors, source, component, seed);
    else if (!g_str_has_suffix (source->name, ".weight_g"))
      mk_stored_add (list, source, g_strdup (source->name));
  }
  return add_statistics (list, dir, error) ? g_steal_pointer (&list) : NULL;
}
