/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which encodings a set's tensors have: from types, markers and the names of
 * what belongs to a weight. */
#include "inspect.h"

#include "model/checkpoint/quantised.h"

#include <glib/gstdio.h>
#include <string.h>

void
census_clear (Census *census)
{
  g_clear_pointer (&census->lines, g_array_unref);
  g_clear_pointer (&census->problems, g_ptr_array_unref);
}

static void
add (Census *census, const gchar *encoding, guint n, guint64 bytes)
{
  CensusLine line = { encoding, n, bytes };

  for (guint i = 0; i < census->lines->len; i++) {
    CensusLine *there = &g_array_index (census->lines, CensusLine, i);

    if (g_str_equal (there->encoding, encoding)) {
      there->n += n;
      there->bytes += bytes;
      return;
    }
  }
  g_array_append_val (census->lines, line);
}

static gint
compare_lines (gconstpointer a, gconstpointer b)
{
  const CensusLine *x = a, *y = b;

  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? 1 : -1;
  return strcmp (x->encoding, y->encoding);
}

/* What belongs to the weight of a module, by the end of its name. */
static const gchar *const sidecars[] = { "comfy_quant", "weight_scale",
  "weight_scale_2", "input_scale", "pre_quant_scale", "scale_weight",
  "scale_input", "weight_s_rel", "weight_s_channel", "weight_codebook",
  "weight_zeros" };

/* Of @name's module, or NULL. Free with g_free(). */
static gchar *
weight_of_sidecar (const gchar *name)
{
  const gchar *dot = strrchr (name, '.');

  for (guint i = 0; dot && i < G_N_ELEMENTS (sidecars); i++)
    if (g_str_equal (dot + 1, sidecars[i]))
      return g_strdup_printf ("%.*sweight", (gint) (dot + 1 - name), name);
  return NULL;
}

static const gchar *
name_of_encoding (const H3Quantised *q)
{
  switch (q->encoding) {
    case H3_ENCODING_E4M3:
      return "FP8 E4M3";
    case H3_ENCODING_E5M2:
      return "FP8 E5M2";
    case H3_ENCODING_INT8:
      return q->rotation > 1 ? "INT8 ConvRot" : "INT8";
    case H3_ENCODING_NVFP4:
      return "NVFP4";
    case H3_ENCODING_MXFP8:
      return "MXFP8";
    default:
      return h3_stored_type_name (q->weight->type);
  }
}

static guint64
bytes_of (const H3StoredTensor *tensor)
{
  return tensor ? tensor->bytes : 0;
}

/* The weight @name with what the loader would take for it; what it would refuse
 * is a problem. @used: gets the names of what belongs to it */
static void
add_weight (Census *census, H3TensorSet *set, const gchar *name,
    const H3StoredTensor *tensor, GHashTable *used)
{
  g_autoptr (GError) error = NULL;
  guint64 bytes = tensor->bytes;
  H3Quantised q;

  if (!h3_quantised_find (set, name, used, &q, &error)) {
    g_ptr_array_add (census->problems, g_strdup (error->message));
    add (census, "unusable", 1, bytes);
    return;
  }
  bytes += bytes_of (q.scale) + bytes_of (q.tensor_scale) +
           bytes_of (q.input_scale) + bytes_of (q.column_scale);
  add (census, name_of_encoding (&q), 1, bytes);
}

static void
look_at_file (Census *census, GHashTable *files, const H3StoredTensor *tensor)
{
  GStatBuf st;

  if (!g_hash_table_add (files, g_strdup (tensor->path)))
    return;
  if (g_stat (tensor->path, &st) == 0)
    census->file_bytes += st.st_size;
}

/* What is no weight: part of one, or by itself. */
static void
add_other (Census *census, H3TensorSet *set, const gchar *name,
    const H3StoredTensor *tensor, GHashTable *used)
{
  g_autofree gchar *weight = weight_of_sidecar (name);

  if (weight && !h3_tensor_set_has (set, weight))
    g_ptr_array_add (census->problems,
        g_strdup_printf ("tensor %s is there without %s", name, weight));
  else if (!weight && !g_str_has_suffix (name, H3_OLDEST_MARKER) &&
           !g_hash_table_contains (used, name))
    add (census, h3_stored_type_name (tensor->type), 1, tensor->bytes);
}

void
census_take (Census *census, H3TensorSet *set)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  g_autoptr (GHashTable) files =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GHashTable) used =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  census->lines = g_array_new (FALSE, FALSE, sizeof (CensusLine));
  census->problems = g_ptr_array_new_with_free_func (g_free);
  census->n_tensors = names->len;
  for (guint i = 0; i < names->len; i++) {
    const gchar *name = names->pdata[i];
    g_autoptr (GError) error = NULL;
    const H3StoredTensor *tensor = h3_tensor_set_get (set, name, &error);

    if (!tensor) {
      g_ptr_array_add (census->problems, g_strdup (error->message));
      return; /* others of this shard would say the same */
    }
    look_at_file (census, files, tensor);
    if (g_str_has_suffix (name, ".weight"))
      add_weight (census, set, name, tensor, used);
    else
      add_other (census, set, name, tensor, used);
  }
  census->trailing = h3_tensor_set_trailing (set);
  g_array_sort (census->lines, compare_lines);
}
