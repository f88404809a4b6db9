/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a LoRA adapter is, and whether it fits (checkpoints.md 7.1). */
#include "inspect.h"
#include "inspect-needs.h"

#include "model/checkpoint/adapter.h"
#include "model/denoise/transformer.h"

#include <string.h>

gboolean
inspect_is_adapter (const gchar *path)
{
  g_autoptr (H3TensorSet) set = NULL;
  H3Detection found;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    return FALSE;
  set = h3_tensor_set_open (path, NULL);
  return set && h3_detect (set, &found) && found.refused &&
         strstr (found.refused, "LoRA adapter");
}

/* "blocks.3.attn.qkv_proj" is an attn.qkv_proj. */
static const gchar *
kind_of (const gchar *module)
{
  const gchar *blocks = strstr (module, "blocks.");

  if (!blocks)
    return module;
  blocks += strlen ("blocks.");
  blocks += strspn (blocks, "0123456789");
  return blocks + (*blocks == '.');
}

static void
say_layers (const H3Adapters *adapters)
{
  const GPtrArray *updates = h3_adapters_updates (adapters);
  g_autoptr (GHashTable) modules = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) kinds = g_ptr_array_new ();
  g_autoptr (GArray) counts = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < updates->len; i++) {
    const H3AdapterUpdate *update = updates->pdata[i];
    const gchar *kind = kind_of (update->module);
    guint at, one = 1;

    if (!g_hash_table_add (modules, (gpointer) update->module))
      continue;
    if (g_ptr_array_find_with_equal_func (kinds, kind, g_str_equal, &at)) {
      g_array_index (counts, guint, at)++;
    } else {
      g_ptr_array_add (kinds, (gpointer) kind);
      g_array_append_val (counts, one);
    }
  }
  for (guint i = 0; i < kinds->len; i++)
    g_string_append_printf (text, "%s%u %s", i ? ", " : "",
        g_array_index (counts, guint, i), (const gchar *) kinds->pdata[i]);
  say ("layers", "%u: %s", g_hash_table_size (modules), text->str);
}

static void
say_scale (const H3Adapters *adapters, const H3AdapterInfo *info)
{
  const GPtrArray *updates = h3_adapters_updates (adapters);
  gfloat low = G_MAXFLOAT, high = -G_MAXFLOAT;

  for (guint i = 0; i < updates->len; i++) {
    const H3AdapterUpdate *update = updates->pdata[i];

    low = MIN (low, update->scale);
    high = MAX (high, update->scale);
  }
  if (info->min_rank == info->max_rank)
    say ("rank", "%" G_GINT64_FORMAT, info->max_rank);
  else
    say ("rank", "%" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, info->min_rank,
        info->max_rank);
  if (low < high)
    say ("alpha", "%s: scale %g to %g", info->alpha, low, high);
  else
    say ("alpha", "%s: scale %g", info->alpha, low);
}

/* On a transformer that was inspected before. */
static gboolean
check_fit (const gchar *base, const H3AdapterChoice *choice)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (base, H3_PARTITION_FL2VA, &error);
  H3TransformerConfig config;
  guint64 bytes;

  if (!checkpoint) {
    g_clear_error (&error);
    checkpoint = h3_checkpoint_open (base, H3_PARTITION_REF2VA, &error);
  }
  if (checkpoint) {
    h3_checkpoint_set_adapters (checkpoint, choice, 1);
    if (h3_transformer_plan (checkpoint, NULL, &config, &bytes, &error)) {
      say ("fits", "%s", base);
      return TRUE;
    }
  }
  say ("problem", "%s", error->message);
  return FALSE;
}

gboolean
inspect_adapter (const gchar *path, GHashTable *seen)
{
  const H3AdapterChoice choice = { (gchar *) path, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Adapters) adapters = NULL;
  g_autofree gchar *transformer =
      g_strdup_printf ("%u ", H3_COMPONENT_TRANSFORMER);
  const H3AdapterInfo *info;
  g_autoptr (GList) keys = NULL;
  H3Partition partition;
  gboolean good = TRUE;

  g_print ("%s\n", path);
  say ("is", "a LoRA adapter of the transformer (h3denoise's loras)");
  adapters = h3_adapters_open (&choice, 1, &error);
  if (!adapters) {
    say ("problem", "%s", error->message);
    return FALSE;
  }
  info = h3_adapters_info (adapters, 0);
  say ("layout", "%s", info->layout);
  say_layers (adapters);
  say_scale (adapters, info);
  say ("partition", "%s",
      !h3_partition_hint (path, &partition)
          ? "unknown: no adapter says it, nor does this one's name"
      : partition == H3_PARTITION_REF2VA
          ? "ref2va (its name says so, nothing in it does)"
          : "fl2va (its name says so, nothing in it does)");
  for (guint i = 0; i < info->warnings->len; i++)
    say ("warning", "%s", (const gchar *) info->warnings->pdata[i]);
  keys = g_list_sort (g_hash_table_get_keys (seen), (GCompareFunc) strcmp);
  for (const GList *link = keys; link; link = link->next)
    if (g_str_has_prefix (link->data, transformer))
      good = check_fit ((const gchar *) link->data + strlen (transformer),
                 &choice) &&
             good;
  return good;
}
