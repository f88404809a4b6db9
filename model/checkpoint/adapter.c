/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/adapter.h"
#include "model/checkpoint/adapter-names.h"
#include "model/checkpoint/detect.h"
#include "model/checkpoint/stored-values.h"

#include <math.h>
#include <string.h>

/* How many keys a message names. */
#define NAMED 4

struct _H3Adapters {
  GPtrArray *sets;       /* H3TensorSet, open as long as we are */
  GPtrArray *infos;      /* H3AdapterInfo */
  GPtrArray *updates;    /* H3AdapterUpdate */
  GHashTable *by_module; /* official name, owned -> array of updates */
};

static void
update_free (gpointer data)
{
  H3AdapterUpdate *update = data;

  g_free (update->key);
  g_free (update);
}

static void
info_free (gpointer data)
{
  H3AdapterInfo *info = data;

  g_free (info->path);
  g_free (info->alpha);
  g_ptr_array_unref (info->warnings);
  g_free (info);
}

/* One file while it is read */

/* What a file has of a module. */
typedef struct {
  const H3StoredTensor *down, *up, *alpha;
  gboolean infix;
} Pair;

typedef struct {
  H3Adapters *adapters;
  H3TensorSet *set;
  const gchar *path;
  gdouble strength;
  H3AdapterInfo *info;
  GHashTable *pairs;   /* module as the file says it, owned -> Pair, owned */
  GPtrArray *modules;  /* the keys of that, sorted */
  GPtrArray *unknown;  /* keys that are no module's; not owned */
  GPtrArray *replaces; /* likewise; keys that say a weight as a whole */
  gboolean has_infix, has_flat, has_prefix, has_official, has_diffusers;
  gboolean has_alpha; /* metadata's */
  gdouble alpha;
  guint n_alphas, n_magnitudes;
} File;

static void
file_clear (File *file)
{
  g_clear_pointer (&file->pairs, g_hash_table_unref);
  g_clear_pointer (&file->modules, g_ptr_array_unref);
  g_clear_pointer (&file->unknown, g_ptr_array_unref);
  g_clear_pointer (&file->replaces, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (File, file_clear)

static void warn (File *file, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

static void
warn (File *file, const gchar *format, ...)
{
  va_list args;
  gchar *text;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_ptr_array_add (file->info->warnings, text);
}

/* "FILE: 7 keys WHAT, first: a, b, c" */
static gboolean
refuse_keys (const File *file, const GPtrArray *keys, const gchar *what,
    GError **error)
{
  g_autoptr (GString) list = g_string_new (NULL);

  if (keys->len == 0)
    return TRUE;
  for (guint i = 0; i < MIN (keys->len, NAMED); i++)
    g_string_append_printf (list, "%s%s", i ? ", " : "",
        (const gchar *) keys->pdata[i]);
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %u keys %s: %s%s",
      file->path, keys->len, what, list->str, keys->len > NAMED ? ", ..." : "");
  return FALSE;
}

static gboolean
put (const File *file, const H3StoredTensor **slot,
    const H3StoredTensor *tensor, GError **error)
{
  if (*slot) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: %s and %s are the same", file->path, (*slot)->name, tensor->name);
    return FALSE;
  }
  *slot = tensor;
  return TRUE;
}

static Pair *
pair_of (File *file, const gchar *name, gsize n)
{
  gchar *module = g_strndup (name, n);
  Pair *pair = g_hash_table_lookup (file->pairs, module);

  if (pair) {
    g_free (module);
    return pair;
  }
  pair = g_new0 (Pair, 1);
  g_hash_table_insert (file->pairs, module, pair);
  g_ptr_array_add (file->modules, module);
  return pair;
}

static gboolean
sort_key (File *file, const gchar *name, GError **error)
{
  const H3StoredTensor *tensor = h3_tensor_set_get (file->set, name, error);
  H3AdapterKey key;
  Pair *pair;

  if (!tensor)
    return FALSE;
  h3_adapter_key_parse (name, &key);
  switch (key.role) {
    case H3_ADAPTER_UNKNOWN:
      g_ptr_array_add (file->unknown, (gpointer) name);
      return TRUE;
    case H3_ADAPTER_REPLACES:
      g_ptr_array_add (file->replaces, (gpointer) name);
      return TRUE;
    case H3_ADAPTER_DORA:
      file->n_magnitudes++;
      return TRUE;
    default:
      break;
  }
  pair = pair_of (file, name, key.module);
  if (key.role == H3_ADAPTER_ALPHA)
    return put (file, &pair->alpha, tensor, error);
  pair->infix |= key.infix;
  return put (file, key.role == H3_ADAPTER_DOWN ? &pair->down : &pair->up,
      tensor, error);
}

/* Not an adapter, but something else that is known. */
static gboolean
check_kind (const File *file, GError **error)
{
  const GPtrArray *names = h3_tensor_set_names (file->set);
  H3Detection found;

  for (guint i = 0; i < names->len; i++)
    if (strstr (names->pdata[i], "h3_pdd.")) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s is a PDD adapter (LoRA and a bank of output heads), which is not "
          "supported; needed: a LoRA adapter",
          file->path);
      return FALSE;
    }
  if (!h3_detect (file->set, &found) ||
      (found.refused && strstr (found.refused, "LoRA")))
    return TRUE;
  if (found.refused)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is %s; needed: a LoRA adapter", file->path, found.refused);
  else
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a MiniMax H3 %s; needed: a LoRA adapter", file->path,
        h3_component_title (found.component));
  return FALSE;
}

/* One alpha for all modules, of the file's own. */
static void
read_metadata (File *file)
{
  const gchar *text = h3_tensor_set_metadata (file->set, "alpha");
  gchar *end;
  gdouble value;

  if (!text)
    return;
  value = g_ascii_strtod (text, &end);
  if (end == text || *end || !isfinite (value)) {
    warn (file, "alpha \"%s\" of the metadata is no number and is left out",
        text);
    return;
  }
  file->has_alpha = TRUE;
  file->alpha = value;
}

static gboolean
read_alpha (const H3StoredTensor *tensor, gdouble *alpha, GError **error)
{
  guint8 bytes[8];
  gfloat value = NAN;

  if (h3_stored_tensor_elements (tensor) != 1 || tensor->bytes > sizeof bytes) {
    g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);

    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: %s has the shape %s; needed: one number", tensor->path,
        tensor->name, shape);
    return FALSE;
  }
  if (!h3_stored_tensor_read (tensor, 0, tensor->bytes, bytes, error))
    return FALSE;
  switch (tensor->type) {
    case H3_STORED_F32:
    case H3_STORED_F16:
    case H3_STORED_BF16:
      h3_stored_values_widen (tensor->type, bytes, 1, &value);
      *alpha = value;
      break;
    case H3_STORED_F64:
      memcpy (alpha, bytes, sizeof *alpha);
      break;
    default:
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s: %s is %s; accepted: F64, F32, F16, BF16", tensor->path,
          tensor->name, h3_stored_type_name (tensor->type));
      return FALSE;
  }
  if (isfinite (*alpha))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "%s: %s is NaN or Inf; an adapter's alpha must be finite", tensor->path,
      tensor->name);
  return FALSE;
}

static gboolean
check_factor (const H3StoredTensor *tensor, GError **error)
{
  g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);

  if (tensor->type != H3_STORED_F32 && tensor->type != H3_STORED_F16 &&
      tensor->type != H3_STORED_BF16) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: %s is %s; accepted: F32, F16, BF16", tensor->path, tensor->name,
        h3_stored_type_name (tensor->type));
    return FALSE;
  }
  if (tensor->rank == 2 && h3_stored_tensor_elements (tensor) > 0 &&
      tensor->shape[0] <= G_MAXINT32 && tensor->shape[1] <= G_MAXINT32)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s: %s has the shape %s; needed: a matrix with rows and columns",
      tensor->path, tensor->name, shape);
  return FALSE;
}

/* A and B are both there, and of one rank. */
static gboolean
check_pair (const File *file, const gchar *module, const Pair *pair,
    GError **error)
{
  if (!pair->down || !pair->up) {
    const H3StoredTensor *other = pair->up     ? pair->up
                                  : pair->down ? pair->down
                                               : pair->alpha;

    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: %s is there and %s of %s is missing", file->path, other->name,
        pair->down ? "lora_B (lora_up)" : "lora_A (lora_down)", module);
    return FALSE;
  }
  if (!check_factor (pair->down, error) || !check_factor (pair->up, error))
    return FALSE;
  if (pair->down->shape[0] == pair->up->shape[1])
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s: %s has %" G_GUINT64_FORMAT " rows and %s %" G_GUINT64_FORMAT
      " columns; needed: one rank",
      file->path, pair->down->name, pair->down->shape[0], pair->up->name,
      pair->up->shape[1]);
  return FALSE;
}

/* Of @pair, whose alpha may be its own, the file's, or the rank. */
static gboolean
find_scale (File *file, const Pair *pair, gint64 rank, gfloat *scale,
    GError **error)
{
  gdouble alpha = file->has_alpha ? file->alpha : (gdouble) rank;

  if (pair->alpha) {
    file->n_alphas++;
    if (!read_alpha (pair->alpha, &alpha, error))
      return FALSE;
  }
  *scale = (gfloat) (file->strength * alpha / (gdouble) rank);
  if (isfinite (*scale))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "%s: %s: strength %g, alpha %g and rank %" G_GINT64_FORMAT
      " make no finite number",
      file->path, pair->down->name, file->strength, alpha, rank);
  return FALSE;
}

static GPtrArray *
updates_of (H3Adapters *adapters, const gchar *module, const gchar **name)
{
  GPtrArray *list = NULL;
  gpointer key = NULL, value = NULL;

  if (!g_hash_table_lookup_extended (adapters->by_module, module, &key,
          &value)) {
    key = g_strdup (module);
    value = list = g_ptr_array_new ();
    g_hash_table_insert (adapters->by_module, key, list);
  }
  *name = key;
  return value;
}

static H3RowOrder
row_order (const H3AdapterModule *module, gboolean grouped)
{
  if (module->swapped)
    return H3_ROWS_SWAP_HALVES;
  /* DiffSynth's: trained on the release's own order, and shows it only by
   * peft's infix with the release's names */
  return grouped && module->names != H3_ADAPTER_NAMES_DIFFUSERS &&
                 g_str_has_suffix (module->name, ".qkv_proj")
             ? H3_ROWS_GROUPED_QKV
             : H3_ROWS_AS_STORED;
}

static void
remember_names (File *file, const H3AdapterModule *module)
{
  file->has_flat |= module->names == H3_ADAPTER_NAMES_FLAT;
  file->has_official |= module->names == H3_ADAPTER_NAMES_OFFICIAL;
  file->has_diffusers |= module->names == H3_ADAPTER_NAMES_DIFFUSERS;
  file->has_prefix |= module->prefixed;
}

static gboolean
add_update (File *file, const gchar *text, const Pair *pair,
    const H3AdapterModule *module, GError **error)
{
  H3AdapterUpdate *update = g_new0 (H3AdapterUpdate, 1);
  H3AdapterInfo *info = file->info;
  GPtrArray *list = updates_of (file->adapters, module->name, &update->module);

  g_ptr_array_add (file->adapters->updates, update);
  update->key = g_strdup_printf ("%s: %s", file->path, text);
  update->part = module->part;
  update->activated = module->activated;
  update->order = row_order (module, file->has_infix);
  if (!check_pair (file, text, pair, error))
    return FALSE;
  update->down = pair->down;
  update->up = pair->up;
  update->rank = (gint64) pair->down->shape[0];
  if (!find_scale (file, pair, update->rank, &update->scale, error))
    return FALSE;
  for (guint i = 0; i < list->len; i++) {
    const H3AdapterUpdate *other = list->pdata[i];

    if (other->down->file == update->down->file &&
        other->part == update->part) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s and %s are the same layer, %s", other->key, text, update->module);
      return FALSE;
    }
  }
  g_ptr_array_add (list, update);
  info->min_rank =
      info->n_modules ? MIN (info->min_rank, update->rank) : update->rank;
  info->max_rank = MAX (info->max_rank, update->rank);
  info->n_modules++;
  return TRUE;
}

static gboolean
add_module (File *file, const gchar *text, const Pair *pair, GError **error)
{
  H3AdapterModule module;
  gboolean added;

  if (!h3_adapter_module_parse (text, strlen (text), &module)) {
    g_ptr_array_add (file->unknown, (gpointer) text);
    return TRUE;
  }
  remember_names (file, &module);
  added = add_update (file, text, pair, &module, error);
  g_free (module.name);
  return added;
}

static const gchar *
layout_name (const File *file)
{
  if (file->has_flat)
    return "kohya, musubi";
  if (file->has_official && file->has_diffusers)
    return "official and diffusers names";
  if (file->has_diffusers)
    return file->has_infix && !file->has_prefix ? "PEFT, diffusers names"
                                                : "diffusers";
  if (file->has_infix)
    return "DiffSynth-Studio, q, k, v grouped per head";
  return file->has_prefix ? "ComfyUI" : "official names";
}

static gchar *
alpha_text (const File *file)
{
  if (file->n_alphas == file->info->n_modules)
    return g_strdup ("per module");
  if (file->has_alpha)
    return g_strdup_printf ("%g in the metadata, for %u of %u modules",
        file->alpha, file->info->n_modules - file->n_alphas,
        file->info->n_modules);
  return file->n_alphas == 0
             ? g_strdup ("none, scale 1")
             : g_strdup_printf ("per module for %u of %u, scale 1 for the rest",
                   file->n_alphas, file->info->n_modules);
}

static gboolean
read_modules (File *file, GError **error)
{
  for (guint i = 0; i < file->modules->len; i++) {
    const Pair *pair =
        g_hash_table_lookup (file->pairs, file->modules->pdata[i]);

    file->has_infix |= pair->infix;
  }
  for (guint i = 0; i < file->modules->len; i++)
    if (!add_module (file, file->modules->pdata[i],
            g_hash_table_lookup (file->pairs, file->modules->pdata[i]), error))
      return FALSE;
  return refuse_keys (file, file->unknown,
      "are of no layer of MiniMax H3's transformer", error);
}

/* What is left out, once for all layers. */
static void
warn_of_rest (File *file)
{
  guint64 trailing = h3_tensor_set_trailing (file->set);

  if (file->n_magnitudes > 0)
    warn (file,
        "it is a DoRA adapter, whose magnitudes (.dora_scale, of %u layers) "
        "are left out",
        file->n_magnitudes);
  if (trailing > 0)
    warn (file, "%" G_GUINT64_FORMAT " bytes after the last tensor are ignored",
        trailing);
}

static gboolean
read_file (File *file, GError **error)
{
  const GPtrArray *names = h3_tensor_set_names (file->set);

  if (!check_kind (file, error))
    return FALSE;
  for (guint i = 0; i < names->len; i++)
    if (!sort_key (file, names->pdata[i], error))
      return FALSE;
  warn_of_rest (file);
  read_metadata (file);
  if (!refuse_keys (file, file->replaces,
          "hold differences or whole weights (.diff, .diff_b, .set_weight), "
          "which are not supported",
          error) ||
      !read_modules (file, error))
    return FALSE;
  if (file->info->n_modules == 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s has no lora_A and lora_B (or lora_down and lora_up); needed: a "
        "LoRA adapter",
        file->path);
    return FALSE;
  }
  file->info->layout = layout_name (file);
  file->info->alpha = alpha_text (file);
  return TRUE;
}

static gboolean
open_file (H3Adapters *adapters, const H3AdapterChoice *choice, GError **error)
{
  H3AdapterInfo *info = g_new0 (H3AdapterInfo, 1);
  g_auto (File) file = { .adapters = adapters,
    .path = choice->path,
    .strength = choice->strength,
    .info = info };

  info->path = g_strdup (choice->path);
  info->strength = choice->strength;
  info->warnings = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (adapters->infos, info);
  if (!*choice->path) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_SETTINGS,
        "an adapter has no path; needed: a file or folder, and, if need be, a "
        "colon and a strength");
    return FALSE;
  }
  if (!isfinite (choice->strength)) {
    g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
        "%s: the strength %g is no finite number", choice->path,
        choice->strength);
    return FALSE;
  }
  file.set = h3_tensor_set_open (choice->path, error);
  if (!file.set)
    return FALSE;
  g_ptr_array_add (adapters->sets, file.set);
  file.pairs = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  file.modules = g_ptr_array_new ();
  file.unknown = g_ptr_array_new ();
  file.replaces = g_ptr_array_new ();
  return read_file (&file, error);
}

H3Adapters *
h3_adapters_open (const H3AdapterChoice *choices, guint n, GError **error)
{
  g_autoptr (H3Adapters) adapters = g_new0 (H3Adapters, 1);

  adapters->sets =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_set_free);
  adapters->infos = g_ptr_array_new_with_free_func (info_free);
  adapters->updates = g_ptr_array_new_with_free_func (update_free);
  adapters->by_module = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
      (GDestroyNotify) g_ptr_array_unref);
  for (guint i = 0; i < n; i++)
    if (!open_file (adapters, &choices[i], error))
      return NULL;
  return g_steal_pointer (&adapters);
}

void
h3_adapters_free (H3Adapters *adapters)
{
  if (!adapters)
    return;
  g_hash_table_unref (adapters->by_module);
  g_ptr_array_unref (adapters->updates);
  g_ptr_array_unref (adapters->infos);
  g_ptr_array_unref (adapters->sets);
  g_free (adapters);
}

const GPtrArray *
h3_adapters_updates (const H3Adapters *adapters)
{
  return adapters->updates;
}

const GPtrArray *
h3_adapters_find (const H3Adapters *adapters, const gchar *tensor)
{
  H3AdapterModule module;
  const GPtrArray *found;

  if (!g_str_has_suffix (tensor, ".weight") ||
      !h3_adapter_module_parse (tensor, strlen (tensor) - strlen (".weight"),
          &module))
    return NULL;
  found = g_hash_table_lookup (adapters->by_module, module.name);
  g_free (module.name);
  return found;
}

guint
h3_adapters_n (const H3Adapters *adapters)
{
  return adapters->infos->len;
}

const H3AdapterInfo *
h3_adapters_info (const H3Adapters *adapters, guint i)
{
  return adapters->infos->pdata[i];
}
