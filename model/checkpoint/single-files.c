/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/single-files.h"
#include "model/checkpoint/detect.h"

#include <string.h>

#define WEIGHTS_SUFFIX ".safetensors"
#define GGUF_SUFFIX ".gguf"
#define INDEX_SUFFIX ".safetensors.index.json"

/* What is a download until it has ended; aria2 has its list beside the file. */
static const gchar *const unfinished[] = { ".part", ".incomplete",
  ".crdownload", ".download", ".aria2", NULL };

static const gchar *const comfy_folders[] = { "diffusion_models", "unet",
  "text_encoders", "clip", "vae" };
#define VAE 4 /* which diffusers has, too */

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* The names in @dir that end in @suffix, sorted; empty where there is no such
 * folder. */
static GPtrArray *
list_files (const gchar *dir, const gchar *suffix)
{
  g_autoptr (GDir) handle = g_dir_open (dir, 0, NULL);
  GPtrArray *found = g_ptr_array_new_with_free_func (g_free);
  const gchar *name;

  while (handle && (name = g_dir_read_name (handle)))
    if (g_str_has_suffix (name, suffix))
      g_ptr_array_add (found, g_build_filename (dir, name, NULL));
  g_ptr_array_sort (found, compare_names);
  return found;
}

static guint
count_files (const gchar *dir, const gchar *suffix)
{
  g_autoptr (GPtrArray) found = list_files (dir, suffix);

  return found->len;
}

static gboolean
has_file (const gchar *dir, const gchar *name)
{
  g_autofree gchar *path = g_build_filename (dir, name, NULL);

  return g_file_test (path, G_FILE_TEST_EXISTS);
}

gboolean
h3_holds_tokenizer (const gchar *dir)
{
  return has_file (dir, "vocab.json") || has_file (dir, "tokenizer.json");
}

gboolean
h3_single_files_likely (const gchar *dir)
{
  g_autofree gchar *vae = g_build_filename (dir, comfy_folders[VAE], NULL);

  if (has_file (dir, "model_index.json"))
    return FALSE;
  for (guint i = 0; i < VAE; i++)
    if (has_file (dir, comfy_folders[i]))
      return TRUE;
  if (count_files (vae, WEIGHTS_SUFFIX) > 0 &&
      count_files (vae, INDEX_SUFFIX) == 0 && !has_file (vae, "config.json"))
    return TRUE;
  return count_files (dir, INDEX_SUFFIX) == 0 &&
         count_files (dir, WEIGHTS_SUFFIX) + count_files (dir, GGUF_SUFFIX) > 1;
}

/* Choosing */

typedef struct {
  H3Partition partition;
  GPtrArray *files[H3_N_COMPONENTS]; /* paths, owned */
  gchar *damaged;                    /* what the first unreadable file is */
} Search;

static void
search_clear (Search *search)
{
  for (guint i = 0; i < H3_N_COMPONENTS; i++)
    g_clear_pointer (&search->files[i], g_ptr_array_unref);
  g_clear_pointer (&search->damaged, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

/* A file may be several components: a merged checkpoint. */
static void
look_at (Search *search, const gchar *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (path, &error);
  H3Detection found;

  if (!set) {
    if (!search->damaged)
      search->damaged = g_strdup (error->message);
    return;
  }
  if (!h3_detect (set, &found) || found.refused)
    return;
  for (guint i = 0; i < H3_N_COMPONENTS; i++)
    if (h3_detect_component (set, i, &found))
      g_ptr_array_add (search->files[i], g_strdup (path));
}

static void
look_in (Search *search, const gchar *dir)
{
  g_autoptr (GPtrArray) found = list_files (dir, WEIGHTS_SUFFIX);
  g_autoptr (GPtrArray) gguf = list_files (dir, GGUF_SUFFIX);

  if (count_files (dir, INDEX_SUFFIX) > 0)
    return; /* shards, which are no single files */
  for (guint i = 0; i < found->len; i++)
    look_at (search, found->pdata[i]);
  for (guint i = 0; i < gguf->len; i++)
    look_at (search, gguf->pdata[i]);
  for (guint i = 0; unfinished[i] && !search->damaged; i++) {
    g_autoptr (GPtrArray) parts = list_files (dir, unfinished[i]);

    if (parts->len > 0)
      search->damaged =
          g_strdup_printf ("%s is of a download that has not ended",
              (const gchar *) parts->pdata[0]);
  }
}

/* 2: named as the partition that is wanted, 1: not named, 0: as the other */
static gint
rank (const Search *search, const gchar *path)
{
  H3Partition hint;

  if (!h3_partition_hint (path, &hint))
    return 1;
  return hint == search->partition ? 2 : 0;
}

static void
keep_best (const Search *search, GPtrArray *files)
{
  gint best = 0;

  for (guint i = 0; i < files->len; i++)
    best = MAX (best, rank (search, files->pdata[i]));
  for (guint i = files->len; i-- > 0;)
    if (rank (search, files->pdata[i]) < best)
      g_ptr_array_remove_index (files, i);
}

static void
choose (Search *search, const gchar *dir, H3Component component, gchar **file,
    gchar **refusal)
{
  GPtrArray *files = search->files[component];
  const gchar *title = h3_component_title (component);

  if (component == H3_COMPONENT_TRANSFORMER)
    keep_best (search, files);
  if (files->len > 1)
    *refusal = g_strdup_printf ("%s has %u files of a %s (%s, %s, ...); "
                                "needed: one, or the path of one",
        dir, files->len, title, (const gchar *) files->pdata[0],
        (const gchar *) files->pdata[1]);
  else if (files->len == 1 && component == H3_COMPONENT_TRANSFORMER &&
           rank (search, files->pdata[0]) == 0)
    *refusal = g_strdup_printf ("%s has the name of the other partition's "
                                "transformer; needed: that of %s, or its path",
        (const gchar *) files->pdata[0],
        search->partition == H3_PARTITION_REF2VA ? "ref2va" : "fl2va");
  else if (files->len == 1)
    *file = g_ptr_array_steal_index (files, 0);
  else if (search->damaged)
    *refusal = g_strdup_printf ("%s: there is no %s here, and a file that "
                                "cannot be read: %s",
        dir, title, search->damaged);
}

gboolean
h3_single_files_find (const gchar *dir, H3Partition partition,
    gchar *files[H3_N_COMPONENTS], gchar *refusals[H3_N_COMPONENTS],
    gchar **damaged)
{
  g_auto (Search) search = { .partition = partition };
  gboolean found = FALSE;

  for (guint i = 0; i < H3_N_COMPONENTS; i++)
    search.files[i] = g_ptr_array_new_with_free_func (g_free);
  look_in (&search, dir);
  for (guint i = 0; i < G_N_ELEMENTS (comfy_folders); i++) {
    g_autofree gchar *folder = g_build_filename (dir, comfy_folders[i], NULL);

    look_in (&search, folder);
  }
  for (guint i = 0; i < H3_N_COMPONENTS; i++)
    found = found || search.files[i]->len > 0;
  for (guint i = 0; found && i < H3_N_COMPONENTS; i++)
    if (i != H3_COMPONENT_TOKENIZER)
      choose (&search, dir, i, &files[i], &refusals[i]);
  g_free (*damaged);
  *damaged = g_steal_pointer (&search.damaged);
  return found;
}

gchar *
h3_single_file_tokenizer (const gchar *file)
{
  g_autofree gchar *folder = g_path_get_dirname (file);
  g_autofree gchar *parent = g_path_get_dirname (folder);
  gchar *places[] = { g_strdup (folder),
    g_build_filename (folder, "tokenizer", NULL),
    g_build_filename (parent, "tokenizer", NULL) };
  gchar *found = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (places); i++) {
    if (!found && h3_holds_tokenizer (places[i]))
      found = g_steal_pointer (&places[i]);
    g_free (places[i]);
  }
  return found;
}
