/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From official tensors to what a layout stores: names, row orders, files
 * (checkpoints.md 3.3 to 3.6). */
#include "mkcheckpoint.h"

#include <json-glib/json-glib.h>
#include <string.h>

void
mk_stored_free (MkStored *stored)
{
  g_free (stored->name);
  g_free (stored->shard);
  g_free (stored->values);
  if (stored->own)
    mk_tensor_free (stored->own);
  g_free (stored);
}

MkStored *
mk_stored_add (GPtrArray *list, const MkTensor *source, gchar *name)
{
  MkStored *stored = g_new0 (MkStored, 1);

  stored->name = name;
  stored->source = source;
  stored->n_rows = source->shape[0];
  g_ptr_array_add (list, stored);
  return stored;
}

GPtrArray *
mk_stored_list_new (void)
{
  return g_ptr_array_new_with_free_func ((GDestroyNotify) mk_stored_free);
}

GPtrArray *
mk_stored_official (const GPtrArray *tensors)
{
  GPtrArray *list = mk_stored_list_new ();

  for (guint i = 0; i < tensors->len; i++) {
    const MkTensor *source = tensors->pdata[i];
    mk_stored_add (list, source, g_strdup (source->name));
  }
  return list;
}

typedef struct {
  const gchar *from, *to;
} Rename;

/* @name with each of @renames' pieces replaced, in their order. */
static gchar *
rename_pieces (const gchar *name, const Rename *renames, guint n)
{
  GString *string = g_string_new (name);

  for (guint i = 0; i < n; i++)
    g_string_replace (string, renames[i].from, renames[i].to, 1);
  return g_string_free (string, FALSE);
}

/* q, k and v of one fused tensor, whose name holds @fused. */
static void
add_parts (GPtrArray *list, const MkTensor *source, const gchar *name,
    const gchar *fused, gint64 head_dim)
{
  static const gchar *const parts[] = { "to_q", "to_k", "to_v" };

  for (guint part = 0; part < 3; part++) {
    Rename rename = { fused, parts[part] };
    MkStored *stored =
        mk_stored_add (list, source, rename_pieces (name, &rename, 1));
    stored->rows = MK_ROWS_PART;
    stored->part = part;
    stored->head_dim = head_dim;
    stored->n_rows /= 3;
  }
}

gchar *
mk_diffusers_transformer_name (const gchar *name)
{
  static const Rename renames[] = {
    { "video_patch_proj", "proj_in" },
    { "audio_patch_proj", "audio_proj_in" },
    { "condition_proj", "context_embedder" },
    { "time_embedder.proj_in", "time_embedder.linear_1" },
    { "time_embedder.proj_out", "time_embedder.linear_2" },
    { "final_layer.norm", "norm_out.norm" },
    { "final_layer.adaln_proj.linear", "norm_out.linear" },
    { "final_layer.video_out", "proj_out" },
    { "final_layer.audio_out", "audio_proj_out" },
    { "token_refiner.blocks", "token_refiner.refiner_blocks" },
    { "q_norm", "norm_q" },
    { "k_norm", "norm_k" },
    { "attn.out_proj", "attn.to_out.0" },
    { "mlp.fc1", "ff.net.0.proj" },
    { "mlp.fc2", "ff.net.2" },
  };
  gchar *renamed = rename_pieces (name, renames, G_N_ELEMENTS (renames));

  if (g_str_has_prefix (renamed, "blocks.")) {
    gchar *longer = g_strconcat ("transformer_", renamed, NULL);

    g_free (renamed);
    renamed = longer;
  }
  return renamed;
}

GPtrArray *
mk_stored_diffusers_transformer (const GPtrArray *tensors, gint64 head_dim)
{
  GPtrArray *list = mk_stored_list_new ();

  for (guint i = 0; i < tensors->len; i++) {
    const MkTensor *source = tensors->pdata[i];
    g_autofree gchar *name = mk_diffusers_transformer_name (source->name);

    if (g_str_equal (name, "rope.inv_freq"))
      continue;
    if (strstr (name, "attn.qkv_proj")) {
      add_parts (list, source, name, "qkv_proj", head_dim);
    } else {
      MkStored *stored = mk_stored_add (list, source, g_strdup (name));
      if (strstr (name, "ff.net.0.proj"))
        stored->rows = MK_ROWS_SWAP_HALVES;
    }
  }
  return list;
}

GPtrArray *
mk_stored_diffusers_video_vae (const GPtrArray *tensors, gint64 head_dim)
{
  static const Rename renames[] = {
    { "encoder.down.", "encoder.down_blocks." },
    { ".block.", ".resnets." },
    { "nin_shortcut", "conv_shortcut" },
    { "downsample.conv", "downsamplers.0.conv" },
    { "decoder.x_embedder", "decoder.proj_in" },
    { "attn.to_out", "attn.to_out.0" },
    { "ff.w1", "ff.net.0.proj" },
    { "ff.w2", "ff.net.2" },
  };
  GPtrArray *list = mk_stored_list_new ();

  for (guint i = 0; i < tensors->len; i++) {
    const MkTensor *source = tensors->pdata[i];
    g_autofree gchar *name =
        rename_pieces (source->name, renames, G_N_ELEMENTS (renames));

    if (g_str_equal (name, "decoder.mask_token"))
      continue;
    if (strstr (name, "attn.to_qkv")) {
      add_parts (list, source, name, "to_qkv", head_dim);
    } else {
      MkStored *stored = mk_stored_add (list, source, g_strdup (name));
      if (strstr (name, "ff.net.0.proj"))
        stored->rows = MK_ROWS_SWAP_HALVES;
    }
  }
  return list;
}

gboolean
mk_assign_from_index (GPtrArray *stored, const gchar *index, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *map;

  if (!json_parser_load_from_file (parser, index, error))
    return FALSE;
  map = json_object_get_object_member (json_node_get_object (
                                           json_parser_get_root (parser)),
      "weight_map");
  if (!map || json_object_get_size (map) != stored->len) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s lists %u tensors, the configuration asks for %u", index,
        map ? json_object_get_size (map) : 0, stored->len);
    return FALSE;
  }
  for (guint i = 0; i < stored->len; i++) {
    MkStored *tensor = stored->pdata[i];
    const gchar *shard =
        json_object_get_string_member_with_default (map, tensor->name, NULL);
    if (!shard || strchr (shard, '/')) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s does not say in which file %s goes", index, tensor->name);
      return FALSE;
    }
    tensor->shard = g_strdup (shard);
  }
  return TRUE;
}

void
mk_assign_single (GPtrArray *stored, const gchar *file)
{
  for (guint i = 0; i < stored->len; i++)
    ((MkStored *) stored->pdata[i])->shard = g_strdup (file);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp ((*(MkStored *const *) a)->name,
      (*(MkStored *const *) b)->name);
}

void
mk_assign_in_turn (GPtrArray *stored, const gchar *stem, guint n_shards)
{
  g_ptr_array_sort (stored, compare_names);
  for (guint i = 0; i < stored->len; i++)
    ((MkStored *) stored->pdata[i])->shard =
        g_strdup_printf ("%s-%05u-of-%05u.safetensors", stem, i % n_shards + 1,
            n_shards);
}
