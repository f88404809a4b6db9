/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Index files and shards (checkpoints.md 3.3). */
#define G_LOG_DOMAIN "h3"

#include "model/checkpoint/tensor-set.h"
#include "model/checkpoint/gguf.h"
#include "model/checkpoint/json-file.h"
#include "model/checkpoint/quantised-layers.h"
#include "model/checkpoint/safetensors.h"

#include <glib/gstdio.h>
#include <string.h>

#define INDEX_SUFFIX ".safetensors.index.json"
#define WEIGHTS_SUFFIX ".safetensors"
#define GGUF_SUFFIX ".gguf"

typedef struct {
  gchar *path;
  guint n_listed; /* tensors the index places here */
  /* one of them, once a tensor is asked for */
  H3SafeTensors *file;
  H3Gguf *gguf;
} Shard;

struct _H3TensorSet {
  gchar *path;
  gboolean sharded;
  GHashTable *shards;  /* file name, owned -> Shard, owned */
  GHashTable *tensors; /* name, owned -> Shard */
  GHashTable *stored;  /* name, owned -> the file's, owned; NULL: the same */
  GPtrArray *names;    /* sorted; owned by tensors */
  Shard *single;       /* where the set is one file */
  GHashTable *layers;  /* single's, quantised, by its metadata; or NULL */
};

static void
shard_free (gpointer data)
{
  Shard *shard = data;

  h3_safetensors_free (shard->file);
  h3_gguf_free (shard->gguf);
  g_free (shard->path);
  g_free (shard);
}

static Shard *
add_shard (H3TensorSet *set, const gchar *dir, const gchar *name)
{
  Shard *shard = g_hash_table_lookup (set->shards, name);

  if (!shard) {
    shard = g_new0 (Shard, 1);
    shard->path = dir ? g_build_filename (dir, name, NULL) : g_strdup (name);
    g_hash_table_insert (set->shards, g_strdup (name), shard);
  }
  return shard;
}

static void
add_tensor (H3TensorSet *set, const gchar *name, Shard *shard)
{
  g_hash_table_insert (set->tensors, g_strdup (name), shard);
  shard->n_listed++;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static void
sort_names (H3TensorSet *set)
{
  GHashTableIter iter;
  gpointer name;

  set->names = g_ptr_array_sized_new (g_hash_table_size (set->tensors));
  g_hash_table_iter_init (&iter, set->tensors);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_ptr_array_add (set->names, name);
  g_ptr_array_sort (set->names, compare_names);
}

static gboolean
is_open (const Shard *shard)
{
  return shard->file || shard->gguf;
}

static guint
n_tensors (const Shard *shard)
{
  return shard->gguf ? h3_gguf_n_tensors (shard->gguf)
                     : h3_safetensors_n_tensors (shard->file);
}

static const H3StoredTensor *
nth_tensor (const Shard *shard, guint n)
{
  return shard->gguf ? h3_gguf_nth (shard->gguf, n)
                     : h3_safetensors_nth (shard->file, n);
}

static const H3StoredTensor *
lookup_tensor (const Shard *shard, const gchar *name)
{
  return shard->gguf ? h3_gguf_lookup (shard->gguf, name)
                     : h3_safetensors_lookup (shard->file, name);
}

static gboolean
open_shard (Shard *shard, GError **error)
{
  guint64 trailing;
  guint n;

  if (h3_gguf_is (shard->path))
    shard->gguf = h3_gguf_open (shard->path, error);
  else
    shard->file = h3_safetensors_open (shard->path, error);
  if (!is_open (shard))
    return FALSE;
  trailing = shard->gguf ? h3_gguf_trailing (shard->gguf)
                         : h3_safetensors_trailing (shard->file);
  if (trailing > 0)
    g_info ("%s has %" G_GUINT64_FORMAT " bytes after the last tensor; ignored",
        shard->path, trailing);
  n = n_tensors (shard);
  if (shard->n_listed > 0 && n > shard->n_listed)
    g_info ("%s holds %u tensors that the index does not list; ignored",
        shard->path, n - shard->n_listed);
  return TRUE;
}

/* llama.cpp's names of the same language model, or of its vision tower in a
 * file of its own (checkpoints.md 6.2). */
static gboolean
check_names (const Shard *shard, GError **error)
{
  static const gchar *const signs[] = { "blk.0.attn_q.weight",
    "v.blk.0.ln1.weight" };

  for (guint i = 0; i < G_N_ELEMENTS (signs); i++) {
    if (lookup_tensor (shard, signs[i])) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s has llama.cpp's names (%s), which split the text encoder in two "
          "files and are not supported; needed: a GGUF file with ComfyUI's "
          "names (model.layers.0.self_attn.q_proj.weight, visual....)",
          shard->path, signs[i]);
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean
open_single (H3TensorSet *set, const gchar *path, GError **error)
{
  Shard *shard = add_shard (set, NULL, path);
  guint n;

  if (!open_shard (shard, error) || !check_names (shard, error))
    return FALSE;
  n = n_tensors (shard);
  for (guint i = 0; i < n; i++)
    add_tensor (set, nth_tensor (shard, i)->name, shard);
  set->single = shard;
  return TRUE;
}

/* A shard is a file beside its index and nowhere else. */
static gboolean
is_plain_file_name (const gchar *name)
{
  return *name && !strchr (name, '/') && !strchr (name, '\\') &&
         !strstr (name, "..");
}

static gboolean
add_listed (H3TensorSet *set, const gchar *index, const gchar *dir,
    const gchar *tensor, JsonNode *where, GError **error)
{
  const gchar *shard;

  if (!*tensor || strlen (tensor) > H3_STORED_MAX_NAME) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: a tensor's name has %" G_GSIZE_FORMAT " bytes; needed: 1 to %d",
        index, strlen (tensor), H3_STORED_MAX_NAME);
    return FALSE;
  }
  if (!JSON_NODE_HOLDS_VALUE (where) ||
      json_node_get_value_type (where) != G_TYPE_STRING) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: its place is not a file name", index, tensor);
    return FALSE;
  }
  shard = json_node_get_string (where);
  if (!is_plain_file_name (shard)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: tensor %s: \"%s\" is not the name of a file beside the index",
        index, tensor, shard);
    return FALSE;
  }
  add_tensor (set, tensor, add_shard (set, dir, shard));
  return TRUE;
}

static gboolean
read_index (H3TensorSet *set, const gchar *index, const gchar *dir,
    GError **error)
{
  g_autoptr (JsonNode) root = h3_json_load (index, error);
  JsonNode *node;
  JsonObject *map;
  JsonObjectIter iter;
  const gchar *tensor;

  if (!root)
    return FALSE;
  node = json_object_get_member (json_node_get_object (root), "weight_map");
  if (!node || !JSON_NODE_HOLDS_OBJECT (node)) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: weight_map is missing or no object", index);
    return FALSE;
  }
  map = json_node_get_object (node);
  if (json_object_get_size (map) == 0 ||
      json_object_get_size (map) > H3_STORED_MAX_TENSORS) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "%s: weight_map lists %u tensors; needed: 1 to %d", index,
        json_object_get_size (map), H3_STORED_MAX_TENSORS);
    return FALSE;
  }
  json_object_iter_init (&iter, map);
  while (json_object_iter_next (&iter, &tensor, &node)) {
    if (!add_listed (set, index, dir, tensor, node, error))
      return FALSE;
  }
  return TRUE;
}

/* All at once: half a download is the most common mistake. */
static gboolean
check_shards_exist (H3TensorSet *set, const gchar *index, GError **error)
{
  g_autoptr (GPtrArray) missing = g_ptr_array_new ();
  g_autoptr (GString) text = NULL;
  GHashTableIter iter;
  gpointer name, value;

  g_hash_table_iter_init (&iter, set->shards);
  while (g_hash_table_iter_next (&iter, &name, &value)) {
    if (!g_file_test (((Shard *) value)->path, G_FILE_TEST_EXISTS))
      g_ptr_array_add (missing, name);
  }
  if (missing->len == 0)
    return TRUE;
  g_ptr_array_sort (missing, compare_names);
  text = g_string_new (NULL);
  for (guint i = 0; i < missing->len; i++) {
    const Shard *shard = g_hash_table_lookup (set->shards, missing->pdata[i]);
    g_string_append_printf (text,
        "%s shard %s which is missing (holds %u "
        "tensors)",
        i ? "," : "", (const gchar *) missing->pdata[i], shard->n_listed);
  }
  g_set_error (error, H3_ERROR, H3_ERROR_NOT_FOUND,
      "%s: index lists%s; download them", index, text->str);
  return FALSE;
}

/* The names in @dir that end in @suffix; their number. */
static guint
find_by_suffix (const gchar *dir, const gchar *suffix, GPtrArray *found,
    GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (GDir) handle = g_dir_open (dir, 0, &local);
  const gchar *name;

  if (!handle) {
    g_set_error (error, H3_ERROR, H3_ERROR_OPEN, "%s: cannot open (%s)", dir,
        local->message);
    return 0;
  }
  while ((name = g_dir_read_name (handle))) {
    if (g_str_has_suffix (name, suffix))
      g_ptr_array_add (found, g_build_filename (dir, name, NULL));
  }
  g_ptr_array_sort (found, compare_names);
  return found->len;
}

/* The one file of @dir that ends in @suffix. NULL without an error when there
 * is none; several are an error. */
static gchar *
find_one (const gchar *dir, const gchar *suffix, GError **error)
{
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (g_free);
  guint n = find_by_suffix (dir, suffix, found, error);

  if (n == 1)
    return g_ptr_array_steal_index (found, 0);
  if (n > 1)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s holds %u files *%s (%s, %s, ...); needed: one, or an index of the "
        "weights and its shards",
        dir, n, suffix, (const gchar *) found->pdata[0],
        (const gchar *) found->pdata[1]);
  return NULL;
}

static gboolean
open_folder (H3TensorSet *set, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autofree gchar *index = find_one (set->path, INDEX_SUFFIX, &local);
  g_autofree gchar *single = NULL;

  if (index) {
    set->sharded = TRUE;
    return read_index (set, index, set->path, error) &&
           check_shards_exist (set, index, error);
  }
  if (!local)
    single = find_one (set->path, WEIGHTS_SUFFIX, &local);
  if (!local && !single)
    single = find_one (set->path, GGUF_SUFFIX, &local);
  if (local) {
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  if (!single) {
    g_set_error (error, H3_ERROR, H3_ERROR_NOT_FOUND,
        "%s: no weights here: looked for *" INDEX_SUFFIX ", *" WEIGHTS_SUFFIX
        " and *" GGUF_SUFFIX,
        set->path);
    return FALSE;
  }
  return open_single (set, single, error);
}

/* The older place of markers. */
static gboolean
read_layers (H3TensorSet *set, GError **error)
{
  const gchar *text = h3_tensor_set_metadata (set, H3_QUANTISATION_METADATA);

  if (!text)
    return TRUE;
  set->layers =
      h3_quantised_layers_parse (text, set->names, set->single->path, error);
  return set->layers != NULL;
}

H3TensorSet *
h3_tensor_set_open (const gchar *path, GError **error)
{
  g_autoptr (H3TensorSet) set = g_new0 (H3TensorSet, 1);
  gboolean ok;

  set->path = g_strdup (path);
  set->shards =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, shard_free);
  set->tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  ok = g_file_test (path, G_FILE_TEST_IS_DIR) ? open_folder (set, error)
                                              : open_single (set, path, error);
  if (!ok)
    return NULL;
  sort_names (set);
  return read_layers (set, error) ? g_steal_pointer (&set) : NULL;
}

void
h3_tensor_set_free (H3TensorSet *set)
{
  if (!set)
    return;
  g_clear_pointer (&set->names, g_ptr_array_unref);
  g_clear_pointer (&set->stored, g_hash_table_unref);
  g_clear_pointer (&set->layers, g_hash_table_unref);
  g_hash_table_unref (set->tensors);
  g_hash_table_unref (set->shards);
  g_free (set->path);
  g_free (set);
}

gboolean
h3_tensor_set_is_sharded (const H3TensorSet *set)
{
  return set->sharded;
}

const gchar *
h3_tensor_set_file (const H3TensorSet *set)
{
  return set->single ? set->single->path : NULL;
}

const gchar *
h3_tensor_set_metadata (const H3TensorSet *set, const gchar *key)
{
  return set->single && set->single->file
             ? h3_safetensors_metadata (set->single->file, key)
             : NULL;
}

JsonNode *
h3_tensor_set_quantisation (const H3TensorSet *set, const gchar *name)
{
  const gchar *stored =
      set->stored ? g_hash_table_lookup (set->stored, name) : name;
  g_autofree gchar *module = NULL;

  if (!set->layers || !stored || !g_str_has_suffix (stored, ".weight"))
    return NULL;
  module = g_strndup (stored, strlen (stored) - strlen (".weight"));
  return g_hash_table_lookup (set->layers, module);
}

guint64
h3_tensor_set_trailing (const H3TensorSet *set)
{
  guint64 trailing = 0;
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, set->shards);
  while (g_hash_table_iter_next (&iter, NULL, &value)) {
    const Shard *shard = value;

    if (shard->file)
      trailing += h3_safetensors_trailing (shard->file);
    else if (shard->gguf)
      trailing += h3_gguf_trailing (shard->gguf);
  }
  return trailing;
}

/* NULL when no rule fits. Free with g_free(). */
static gchar *
new_name (const gchar *name, const H3TensorRename *rules, guint n)
{
  for (guint i = 0; i < n; i++)
    if (g_str_has_prefix (name, rules[i].from))
      return g_strconcat (rules[i].to, name + strlen (rules[i].from), NULL);
  return NULL;
}

void
h3_tensor_set_rename (H3TensorSet *set, const H3TensorRename *rules, guint n)
{
  GHashTable *tensors =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GHashTableIter iter;
  gpointer name, shard;

  g_return_if_fail (!set->stored);

  set->stored = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_hash_table_iter_init (&iter, set->tensors);
  while (g_hash_table_iter_next (&iter, &name, &shard)) {
    gchar *renamed = new_name (name, rules, n);

    if (!renamed)
      continue;
    g_hash_table_insert (set->stored, g_strdup (renamed), g_strdup (name));
    g_hash_table_insert (tensors, renamed, shard);
  }
  g_clear_pointer (&set->names, g_ptr_array_unref);
  g_hash_table_unref (set->tensors);
  set->tensors = tensors;
  sort_names (set);
}

gboolean
h3_tensor_set_has (const H3TensorSet *set, const gchar *name)
{
  return g_hash_table_contains (set->tensors, name);
}

const H3StoredTensor *
h3_tensor_set_get (H3TensorSet *set, const gchar *name, GError **error)
{
  Shard *shard = g_hash_table_lookup (set->tensors, name);
  const H3StoredTensor *tensor;
  const gchar *stored;

  if (!shard) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: there is no tensor %s", set->path, name);
    return NULL;
  }
  if (!is_open (shard) && !open_shard (shard, error))
    return NULL;
  stored = set->stored ? g_hash_table_lookup (set->stored, name) : name;
  tensor = lookup_tensor (shard, stored);
  if (!tensor)
    g_set_error (error, H3_ERROR, H3_ERROR_READ,
        "tensor %s is listed in %s but %s does not contain it; download it "
        "again",
        stored, shard->path, shard->path);
  return tensor;
}

const GPtrArray *
h3_tensor_set_names (const H3TensorSet *set)
{
  return set->names;
}

const gchar *
h3_tensor_set_path (const H3TensorSet *set)
{
  return set->path;
}
