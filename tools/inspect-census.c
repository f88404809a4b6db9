/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which encodings a set's tensors have: from types, markers and the names of
 * what belongs to a weight. */
#include "inspect.h"

#include <glib/gstdio.h>
#include <string.h>

#define MAX_MARKER (64 * 1024)

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

static const H3StoredTensor *
beside (H3TensorSet *set, const gchar *weight, const gchar *sidecar)
{
  const gchar *dot = strrchr (weight, '.');
  g_autofree gchar *name = NULL;

  if (!dot || !g_str_equal (dot, ".weight"))
    return NULL;
  name = g_strdup_printf ("%.*s%s", (gint) (dot + 1 - weight), weight, sidecar);
  return h3_tensor_set_has (set, name) ? h3_tensor_set_get (set, name, NULL)
                                       : NULL;
}

/* The marker's JSON, or NULL with a problem noted. */
static H3Config *
read_marker (Census *census, const H3StoredTensor *marker)
{
  g_autofree gchar *text = NULL;
  g_autoptr (GError) error = NULL;
  H3Config *config = NULL;
  gsize n = marker->bytes;

  if (n <= MAX_MARKER && marker->type == H3_STORED_U8) {
    text = g_malloc0 (n + 1);
    if (h3_stored_tensor_read (marker, 0, n, text, &error)) {
      while (n > 0 && (text[n - 1] == 0 || text[n - 1] == ' '))
        n--;
      config = h3_config_parse (text, n, marker->name, &error);
    }
  }
  if (!config)
    g_ptr_array_add (census->problems,
        g_strdup_printf ("tensor %s is no marker of a quantisation (%s)",
            marker->name, error ? error->message : "not a short text"));
  return config;
}

static const gchar *
name_of_format (const gchar *format, gboolean convrot)
{
  static const gchar *const names[][2] = {
    { "float8_e4m3fn", "FP8 E4M3" },
    { "float8_e5m2", "FP8 E5M2" },
    { "mxfp8", "MXFP8" },
    { "nvfp4", "NVFP4" },
    { "convrot_w4a4", "INT4 ConvRot (W4A4)" },
    { "asym_w4a8_int8", "W4A8" },
    { "awq_w4a16", "AWQ W4A16" },
  };

  if (g_str_equal (format, "int8_tensorwise"))
    return convrot ? "INT8 ConvRot" : "INT8";
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (format, names[i][0]))
      return names[i][1];
  return NULL;
}

static const gchar *
marked_encoding (Census *census, const H3StoredTensor *marker)
{
  g_autoptr (H3Config) config = read_marker (census, marker);
  g_autofree gchar *format = NULL;
  gboolean convrot = FALSE;
  const gchar *name;

  if (!config || !h3_config_get_string (config, "format", &format, NULL) ||
      !format)
    return "unreadable marker";
  if (!h3_config_get_bool (config, "convrot", &convrot, NULL) || !convrot)
    h3_config_get_bool (config, "params.convrot", &convrot, NULL);
  name = name_of_format (format, convrot);
  if (name)
    return name;
  g_ptr_array_add (census->problems,
      g_strdup_printf ("tensor %s: quantization format \"%s\" is unknown",
          marker->name, format));
  return "unknown format";
}

/* By what is beside it (4.2); the type alone tells where nothing is. */
static const gchar *
encoding_of (Census *census, H3TensorSet *set, const gchar *name,
    const H3StoredTensor *tensor)
{
  const H3StoredTensor *marker = beside (set, name, "comfy_quant");
  const H3StoredTensor *scale = beside (set, name, "weight_scale");

  if (marker)
    return marked_encoding (census, marker);
  switch (tensor->type) {
    case H3_STORED_F8_E4M3:
      if (scale && scale->rank == 2 &&
          (scale->type == H3_STORED_U8 || scale->type == H3_STORED_F8_E8M0))
        return "MXFP8";
      return "FP8 E4M3";
    case H3_STORED_F8_E5M2:
      return "FP8 E5M2";
    case H3_STORED_I8:
      if (beside (set, name, "weight_s_rel"))
        return "W4A8";
      return scale ? "INT8" : "I8";
    case H3_STORED_U8:
      return beside (set, name, "weight_scale_2") ? "NVFP4" : "U8";
    default:
      return h3_stored_type_name (tensor->type);
  }
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

void
census_take (Census *census, H3TensorSet *set)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  g_autoptr (GHashTable) files =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  census->lines = g_array_new (FALSE, FALSE, sizeof (CensusLine));
  census->problems = g_ptr_array_new_with_free_func (g_free);
  census->n_tensors = names->len;
  for (guint i = 0; i < names->len; i++) {
    const gchar *name = names->pdata[i];
    g_autofree gchar *weight = weight_of_sidecar (name);
    g_autoptr (GError) error = NULL;
    const H3StoredTensor *tensor = h3_tensor_set_get (set, name, &error);
    const H3StoredTensor *owner = NULL;

    if (!tensor) {
      g_ptr_array_add (census->problems, g_strdup (error->message));
      return; /* others of this shard would say the same */
    }
    look_at_file (census, files, tensor);
    if (weight && h3_tensor_set_has (set, weight))
      owner = h3_tensor_set_get (set, weight, NULL);
    else if (weight)
      g_ptr_array_add (census->problems,
          g_strdup_printf ("tensor %s is there without %s", name, weight));
    if (owner && !g_str_equal (strrchr (name, '.'), ".comfy_quant"))
      add (census, encoding_of (census, set, weight, owner), 0, tensor->bytes);
    else if (!weight)
      add (census, encoding_of (census, set, name, tensor), 1, tensor->bytes);
  }
  census->trailing = h3_tensor_set_trailing (set);
  g_array_sort (census->lines, compare_lines);
}
