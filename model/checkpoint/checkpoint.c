/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/config.h"
#include "model/checkpoint/detect.h"
#include "model/checkpoint/single-files.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct _H3Checkpoint {
  gchar *path; /* as given, for messages */
  H3Naming naming;
  H3QkvOrder qkv_order;
  H3WeightType weight_type;
  gchar *components[H3_N_COMPONENTS]; /* folders or files; NULL: not there */
  gchar *refusals[H3_N_COMPONENTS];   /* why not, or NULL */
  H3Partition partition;
  gboolean declared;      /* the files' form says whose the transformer is */
  gchar *other_partition; /* the transformer is declared to be another's */
  gdouble video_shift, audio_shift;
  GArray *adapters; /* H3AdapterChoice */
};

const gchar *
h3_component_name (H3Component component)
{
  static const gchar *const names[H3_N_COMPONENTS] = { "text_encoder",
    "tokenizer", "transformer", "video_vae", "audio_vae" };
  return names[component];
}

static H3Checkpoint *
checkpoint_new (const gchar *path, H3Partition partition)
{
  H3Checkpoint *c = g_new0 (H3Checkpoint, 1);

  c->partition = partition;
  c->path = g_strdup (path);
  c->video_shift = 12.0;
  c->audio_shift = 3.0;
  return c;
}

static const gchar *
partition_name (H3Partition partition)
{
  return partition == H3_PARTITION_REF2VA ? "ref2va" : "fl2va";
}

static gboolean
is_dir (const gchar *path)
{
  return g_file_test (path, G_FILE_TEST_IS_DIR);
}

/* The folder @dir/@name, or NULL when there is none. */
static gchar *
child_dir (const gchar *dir, const gchar *name)
{
  g_autofree gchar *path = g_build_filename (dir, name, NULL);
  return is_dir (path) ? g_steal_pointer (&path) : NULL;
}

/* The configuration @dir/@name: NULL without an error when it is not there. */
static H3Config *
open_if_there (const gchar *dir, const gchar *name, GError **error)
{
  g_autofree gchar *path = g_build_filename (dir, name, NULL);

  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return NULL;
  return h3_config_open (path, error);
}

/* The tokenizer's own folder, or the text encoder's with it inside. */
static void
find_tokenizer (H3Checkpoint *c, const gchar *dir)
{
  const gchar *encoder = c->components[H3_COMPONENT_TEXT_ENCODER];

  c->components[H3_COMPONENT_TOKENIZER] = child_dir (dir, "tokenizer");
  if (!c->components[H3_COMPONENT_TOKENIZER] && encoder &&
      h3_holds_tokenizer (encoder))
    c->components[H3_COMPONENT_TOKENIZER] = g_strdup (encoder);
}

static gboolean
read_shift (const H3Config *config, const gchar *key, gdouble *shift,
    GError **error)
{
  if (!h3_config_get_double (config, key, shift, error))
    return FALSE;
  if (*shift <= 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: %s is %g; needed: a positive number", h3_config_path (config), key,
        *shift);
    return FALSE;
  }
  return TRUE;
}

/* A partition's folder (checkpoints.md 3.1, 3.2) */

static gboolean
read_partition_index (H3Checkpoint *c, const gchar *dir, H3Partition partition,
    GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (H3Config) index = open_if_there (dir, "model_index.json", &local);
  g_autofree gchar *declared = NULL;

  if (local) {
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  if (!index)
    return TRUE;
  if (!h3_config_get_string (index, "_minimax_h3.partition", &declared,
          error) ||
      !read_shift (index, "_minimax_h3.sigma_shift_scales.video",
          &c->video_shift, error) ||
      !read_shift (index, "_minimax_h3.sigma_shift_scales.audio",
          &c->audio_shift, error))
    return FALSE;
  c->declared = c->declared || declared;
  if (declared && !g_str_equal (declared, partition_name (partition)))
    c->other_partition = g_steal_pointer (&declared);
  return TRUE;
}

/* @shared: where else the components are that both partitions have, or NULL */
static gboolean
open_partition (H3Checkpoint *c, const gchar *dir, const gchar *shared,
    H3Partition partition, GError **error)
{
  c->naming = H3_NAMING_OFFICIAL;
  for (guint i = 0; i < H3_N_COMPONENTS; i++) {
    const gchar *name = h3_component_name (i);

    if (i == H3_COMPONENT_TOKENIZER)
      continue;
    c->components[i] = child_dir (dir, name);
    if (!c->components[i] && shared && i != H3_COMPONENT_TRANSFORMER)
      c->components[i] = child_dir (shared, name);
  }
  find_tokenizer (c, dir);
  if (!c->components[H3_COMPONENT_TOKENIZER] && shared)
    find_tokenizer (c, shared);
  return read_partition_index (c, dir, partition, error);
}

static gboolean
open_release (H3Checkpoint *c, const gchar *fl, const gchar *ref,
    H3Partition partition, GError **error)
{
  c->declared = TRUE;
  if (partition == H3_PARTITION_REF2VA)
    return open_partition (c, ref, fl, partition, error);
  return open_partition (c, fl, ref, partition, error);
}

/* A diffusers folder */

/* The component's folder by model_index.json; its usual one when that says
 * nothing. A subfolder is a plain name: nothing outside the root is read. */
static gchar *
diffusers_dir (const gchar *root, const H3Config *index, const gchar *name,
    GError **error)
{
  g_autofree gchar *key = g_strconcat (name, ".2.subfolder", NULL);
  g_autofree gchar *subfolder = g_strdup (name);

  if (index && !h3_config_get_string (index, key, &subfolder, error))
    return NULL;
  if (!*subfolder || strchr (subfolder, '/') || strstr (subfolder, "..")) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: %s is \"%s\"; needed: a folder beside model_index.json",
        h3_config_path (index), key, subfolder);
    return NULL;
  }
  return child_dir (root, subfolder);
}

static gboolean
read_scheduler (const gchar *root, const gchar *name, gdouble *shift,
    GError **error)
{
  g_autofree gchar *dir = g_build_filename (root, name, NULL);
  g_autoptr (GError) local = NULL;
  g_autoptr (H3Config) config =
      open_if_there (dir, "scheduler_config.json", &local);

  if (local) {
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  return !config || read_shift (config, "shift", shift, error);
}

static gboolean
open_diffusers (H3Checkpoint *c, const gchar *root, const H3Config *index,
    H3Partition partition, GError **error)
{
  const struct {
    H3Component component;
    const gchar *name;
  } parts[] = {
    { H3_COMPONENT_TEXT_ENCODER, "text_encoder" },
    { H3_COMPONENT_TRANSFORMER,
        partition == H3_PARTITION_REF2VA ? "transformer_ref" : "transformer" },
    { H3_COMPONENT_VIDEO_VAE, "vae" },
    { H3_COMPONENT_AUDIO_VAE, "audio_vae" },
  };

  c->naming = H3_NAMING_DIFFUSERS;
  c->declared = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++) {
    g_autoptr (GError) local = NULL;
    c->components[parts[i].component] =
        diffusers_dir (root, index, parts[i].name, &local);
    if (local) {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  }
  find_tokenizer (c, root);
  return read_scheduler (root, "scheduler", &c->video_shift, error) &&
         read_scheduler (root, "audio_scheduler", &c->audio_shift, error);
}

/* One component's folder, by its config.json */

/* TRUE, with the component set, when @dir is a component's folder. */
static gboolean
open_component (H3Checkpoint *c, const gchar *dir, GError **error)
{
  g_autoptr (H3Config) config = open_if_there (dir, "config.json", error);
  g_autofree gchar *parent = g_path_get_dirname (dir);
  H3Component component;

  if (config && h3_config_component (config, &component, &c->naming)) {
    c->components[component] = g_strdup (dir);
    if (component == H3_COMPONENT_TEXT_ENCODER)
      find_tokenizer (c, parent);
    return TRUE;
  }
  if (!config && h3_holds_tokenizer (dir)) {
    c->components[H3_COMPONENT_TOKENIZER] = g_strdup (dir);
    return TRUE;
  }
  return FALSE;
}

/* What @dir is */

/* @damaged: a file there that might be of it, or NULL */
static void
nothing_of_h3 (const gchar *path, const gchar *damaged, GError **error)
{
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s holds nothing of MiniMax H3: looked for FL2VA/ and Ref2VA/, "
      "model_index.json, transformer/, video_vae/ or vae/, audio_vae/, "
      "text_encoder/, and for the config.json of one of these%s%s",
      path, damaged ? "; but " : "", damaged ? damaged : "");
}

/* The diffusers names, where no model_index.json tells. */
static gboolean
looks_like_diffusers (const gchar *dir)
{
  g_autofree gchar *vae = child_dir (dir, "vae");
  g_autofree gchar *transformer = child_dir (dir, "transformer");
  g_autoptr (H3Config) config = NULL;
  H3Component component;
  H3Naming naming;

  if (vae)
    return TRUE;
  config =
      transformer ? open_if_there (transformer, "config.json", NULL) : NULL;
  return config && h3_config_component (config, &component, &naming) &&
         naming == H3_NAMING_DIFFUSERS;
}

static gboolean
has_any_component (const gchar *dir)
{
  static const gchar *const names[] = { "transformer", "transformer_ref",
    "text_encoder", "video_vae", "vae", "audio_vae" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree gchar *path = child_dir (dir, names[i]);
    if (path)
      return TRUE;
  }
  return FALSE;
}

static gboolean
open_root (H3Checkpoint *c, const gchar *dir, H3Partition partition,
    GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (H3Config) index = open_if_there (dir, "model_index.json", &local);
  g_autofree gchar *class_name = NULL;
  gboolean diffusers;

  if (local || (index && !h3_config_get_string (index, "_class_name",
                             &class_name, &local))) {
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  if (class_name)
    diffusers = g_str_equal (class_name, "MiniMaxH3ModularPipeline");
  else
    diffusers = looks_like_diffusers (dir);
  if (class_name && !diffusers &&
      !g_str_equal (class_name, "MiniMaxH3Pipeline")) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is a %s; needed: MiniMaxH3Pipeline or MiniMaxH3ModularPipeline",
        h3_config_path (index), class_name);
    return FALSE;
  }
  if (diffusers)
    return open_diffusers (c, dir, index, partition, error);
  return open_partition (c, dir, NULL, partition, error);
}

/* Where the text encoder is a single file. */
static void
find_single_tokenizer (H3Checkpoint *c)
{
  const gchar *encoder = c->components[H3_COMPONENT_TEXT_ENCODER];
  g_autofree gchar *folder = encoder ? g_path_get_dirname (encoder) : NULL;

  if (!encoder)
    return;
  c->components[H3_COMPONENT_TOKENIZER] = h3_single_file_tokenizer (encoder);
  if (!c->components[H3_COMPONENT_TOKENIZER])
    c->refusals[H3_COMPONENT_TOKENIZER] = g_strdup_printf (
        "%s: there is no tokenizer in it, nor in %s, in tokenizer/ there, or "
        "in "
        "tokenizer/ beside that folder; needed: the release's FL2VA/tokenizer/ "
        "(vocab.json, merges.txt, tokenizer_config.json) at one of them",
        encoder, folder);
}

static gboolean
open_single_files (H3Checkpoint *c, const gchar *dir, H3Partition partition,
    gchar **damaged)
{
  c->naming = H3_NAMING_OFFICIAL;
  if (!h3_single_files_find (dir, partition, c->components, c->refusals,
          damaged))
    return FALSE;
  find_single_tokenizer (c);
  return TRUE;
}

static gboolean
open_dir (H3Checkpoint *c, const gchar *dir, H3Partition partition,
    GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autofree gchar *fl = g_build_filename (dir, "FL2VA", NULL);
  g_autofree gchar *ref = g_build_filename (dir, "Ref2VA", NULL);
  g_autofree gchar *damaged = NULL;

  if (is_dir (fl) || is_dir (ref))
    return open_release (c, fl, ref, partition, error);
  if (h3_single_files_likely (dir) &&
      open_single_files (c, dir, partition, &damaged))
    return TRUE;
  if (has_any_component (dir))
    return open_root (c, dir, partition, error);
  if (open_component (c, dir, &local))
    return TRUE;
  if (local)
    g_propagate_error (error, g_steal_pointer (&local));
  else if (open_single_files (c, dir, partition, &damaged))
    return TRUE;
  else
    nothing_of_h3 (c->path, damaged, error);
  return FALSE;
}

/* Whether @path is all the weights of the folder's component, or one of its
 * shards: then it stands for the folder, which has the configuration. */
static gboolean
stands_for_folder (const gchar *path, const H3Checkpoint *folder)
{
  g_autofree gchar *dir = g_path_get_dirname (path);
  g_autoptr (H3TensorSet) all = NULL;
  H3Detection found;

  if (!g_str_has_suffix (path, ".safetensors") &&
      !g_str_has_suffix (path, ".gguf"))
    return TRUE; /* config.json and its like */
  all = h3_tensor_set_open (dir, NULL);
  if (!all)
    return FALSE; /* not the only one */
  if (h3_tensor_set_is_sharded (all))
    return TRUE;
  return h3_detect (all, &found) && !found.refused &&
         folder->components[found.component];
}

static gboolean
open_single_file (H3Checkpoint *c, const gchar *path, GError **error)
{
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (path, error);
  H3Detection found;

  if (!set)
    return FALSE;
  if (!h3_detect (set, &found) || found.refused) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s is %s; needed: a transformer, text encoder, video or audio "
        "autoencoder of MiniMax H3",
        path, found.refused ? found.refused : "nothing of MiniMax H3");
    return FALSE;
  }
  c->naming = found.layout == H3_LAYOUT_DIFFUSERS ? H3_NAMING_DIFFUSERS
                                                  : H3_NAMING_OFFICIAL;
  for (guint i = 0; i < H3_N_COMPONENTS; i++)
    if (h3_detect_component (set, i, &found))
      c->components[i] = g_strdup (path);
  find_single_tokenizer (c);
  return TRUE;
}

/* A file that is a component by itself, or stands for the folder it is in. The
 * official video autoencoder keeps its weights one folder deeper. */
static gboolean
open_file (H3Checkpoint *c, GError **error)
{
  g_autoptr (H3Checkpoint) folder = checkpoint_new (c->path, c->partition);
  g_autoptr (GError) local = NULL;
  g_autofree gchar *dir = g_path_get_dirname (c->path);
  g_autofree gchar *base = g_path_get_basename (dir);

  if (g_str_equal (base, "source")) {
    gchar *parent = g_path_get_dirname (dir);
    g_free (dir);
    dir = parent;
  }
  if (open_component (folder, dir, &local) &&
      stands_for_folder (c->path, folder)) {
    c->naming = folder->naming;
    for (guint i = 0; i < H3_N_COMPONENTS; i++)
      c->components[i] = g_steal_pointer (&folder->components[i]);
    return TRUE;
  }
  if (local) {
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  return open_single_file (c, c->path, error);
}

H3Checkpoint *
h3_checkpoint_open (const gchar *path, H3Partition partition, GError **error)
{
  g_autoptr (H3Checkpoint) c = checkpoint_new (path, partition);
  GStatBuf st;
  gboolean ok;

  /* a folder without permission would look empty */
  if (g_stat (path, &st) < 0 ||
      (S_ISDIR (st.st_mode) && g_access (path, R_OK | X_OK) < 0)) {
    gint code = errno == ENOENT || errno == ENOTDIR ? H3_ERROR_NOT_FOUND
                                                    : H3_ERROR_OPEN;
    g_set_error (error, H3_ERROR, code, "%s: cannot open (%s)", path,
        g_strerror (errno));
    return NULL;
  }
  ok = S_ISDIR (st.st_mode) ? open_dir (c, path, partition, error)
                            : open_file (c, error);
  return ok ? g_steal_pointer (&c) : NULL;
}

void
h3_checkpoint_free (H3Checkpoint *checkpoint)
{
  if (!checkpoint)
    return;
  for (guint i = 0; i < H3_N_COMPONENTS; i++)
    g_free (checkpoint->components[i]);
  for (guint i = 0; i < H3_N_COMPONENTS; i++)
    g_free (checkpoint->refusals[i]);
  g_free (checkpoint->other_partition);
  g_clear_pointer (&checkpoint->adapters, g_array_unref);
  g_free (checkpoint->path);
  g_free (checkpoint);
}

const gchar *
h3_checkpoint_path (const H3Checkpoint *checkpoint, H3Component component,
    GError **error)
{
  const gchar *path = checkpoint->components[component];

  if (!path && checkpoint->refusals[component]) {
    g_set_error_literal (error, H3_ERROR,
        component == H3_COMPONENT_TOKENIZER ? H3_ERROR_NOT_FOUND
                                            : H3_ERROR_WRONG_TYPE,
        checkpoint->refusals[component]);
    return NULL;
  }
  if (!path) {
    g_set_error (error, H3_ERROR, H3_ERROR_NOT_FOUND, "%s: there is no %s here",
        checkpoint->path, h3_component_name (component));
    return NULL;
  }
  if (component == H3_COMPONENT_TRANSFORMER && checkpoint->other_partition) {
    gboolean references = !g_str_equal (checkpoint->other_partition, "ref2va");

    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s holds the transformer for %s (model_index.json: partition %s); %s "
        "the release's %s is needed",
        checkpoint->path, references ? "text and keyframes" : "references",
        checkpoint->other_partition,
        references ? "for references" : "without references",
        references ? "Ref2VA" : "FL2VA");
    return NULL;
  }
  return path;
}

/* Nothing in the tensors tells the two transformers apart. @file: the one in the
 * folder @path, or NULL */
static gchar *
partition_doubt (const H3Checkpoint *c, const gchar *path, const gchar *file,
    gboolean said)
{
  gboolean references = c->partition == H3_PARTITION_REF2VA;
  const gchar *task = references ? "references" : "text and keyframes";
  H3Partition hint;

  if (c->declared)
    return NULL;
  if (h3_partition_hint (path, &hint) ||
      (file && h3_partition_hint (file, &hint)))
    return hint == c->partition
               ? NULL
               : g_strdup_printf ("%s has the name of the transformer for %s "
                                  "(%s) and is "
                                  "used for %s, which needs that of %s",
                     path, references ? "text and keyframes" : "references",
                     partition_name (hint), task,
                     partition_name (c->partition));
  return said ? NULL
              : g_strdup_printf (
                    "%s may be the transformer for text and keyframes (fl2va) "
                    "or for references (ref2va): nothing in it tells. It is "
                    "used for %s; say partition=%s when it is",
                    path, task, partition_name (c->partition));
}

/* Takes @doubt. */
static void
add_doubt (GPtrArray *doubts, gchar *doubt)
{
  if (doubt)
    g_ptr_array_add (doubts, doubt);
}

GPtrArray *
h3_checkpoint_doubts (const H3Checkpoint *checkpoint, H3Component component,
    gboolean partition_said)
{
  GPtrArray *doubts = g_ptr_array_new_with_free_func (g_free);
  const gchar *path = checkpoint->components[component];
  g_autoptr (H3TensorSet) set = path && component != H3_COMPONENT_TOKENIZER
                                    ? h3_tensor_set_open (path, NULL)
                                    : NULL;
  H3Detection found;

  if (set && h3_tensor_set_trailing (set) > 0)
    g_ptr_array_add (doubts,
        g_strdup_printf ("%s has %" G_GUINT64_FORMAT
                         " bytes after the last tensor; they are ignored",
            path, h3_tensor_set_trailing (set)));
  if (!set || component != H3_COMPONENT_TRANSFORMER)
    return doubts;
  if (h3_detect_component (set, component, &found)) {
    if (checkpoint->qkv_order == H3_QKV_AUTO)
      add_doubt (doubts, h3_detection_doubt (set, &found));
    add_doubt (doubts, h3_detection_narrowed (set, &found));
  }
  add_doubt (doubts, partition_doubt (checkpoint, path,
                         h3_tensor_set_file (set), partition_said));
  return doubts;
}

H3Naming
h3_checkpoint_naming (const H3Checkpoint *checkpoint)
{
  return checkpoint->naming;
}

void
h3_checkpoint_set_qkv_order (H3Checkpoint *checkpoint, H3QkvOrder order)
{
  checkpoint->qkv_order = order;
}

static void
adapter_clear (gpointer data)
{
  H3AdapterChoice *choice = data;

  g_free (choice->path);
}

void
h3_checkpoint_set_adapters (H3Checkpoint *checkpoint,
    const H3AdapterChoice *adapters, guint n)
{
  g_clear_pointer (&checkpoint->adapters, g_array_unref);
  checkpoint->adapters = g_array_new (FALSE, FALSE, sizeof (H3AdapterChoice));
  g_array_set_clear_func (checkpoint->adapters, adapter_clear);
  for (guint i = 0; i < n; i++) {
    H3AdapterChoice choice = adapters[i];

    choice.path = g_strdup (choice.path);
    g_array_append_val (checkpoint->adapters, choice);
  }
}

const H3AdapterChoice *
h3_checkpoint_adapters (const H3Checkpoint *checkpoint, guint *n)
{
  *n = checkpoint->adapters ? checkpoint->adapters->len : 0;
  return *n > 0 ? (const H3AdapterChoice *) checkpoint->adapters->data : NULL;
}

H3QkvOrder
h3_checkpoint_qkv_order (const H3Checkpoint *checkpoint)
{
  return checkpoint->qkv_order;
}

void
h3_checkpoint_set_weight_type (H3Checkpoint *checkpoint, H3WeightType type)
{
  checkpoint->weight_type = type;
}

H3WeightType
h3_checkpoint_weight_type (const H3Checkpoint *checkpoint)
{
  return checkpoint->weight_type;
}

void
h3_checkpoint_shifts (const H3Checkpoint *checkpoint, gdouble *video,
    gdouble *audio)
{
  *video = checkpoint->video_shift;
  *audio = checkpoint->audio_shift;
}

static void
add_line (const gchar *path, const gchar *name, GPtrArray *lines)
{
  GStatBuf st;

  if (g_stat (path, &st) == 0 && S_ISREG (st.st_mode))
    g_ptr_array_add (lines,
        g_strdup_printf ("%s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT ".%09ld",
            name, (gint64) st.st_size, (gint64) st.st_mtim.tv_sec,
            (glong) st.st_mtim.tv_nsec));
}

/* One line a file below @dir: name, size, time of the last change. */
static void
list_files (const gchar *dir, const gchar *below, GPtrArray *lines)
{
  g_autoptr (GDir) handle = g_dir_open (dir, 0, NULL);
  const gchar *name;

  while (handle && (name = g_dir_read_name (handle))) {
    g_autofree gchar *path = g_build_filename (dir, name, NULL);
    g_autofree gchar *relative = g_build_filename (below, name, NULL);

    /* one level is all there is: video_vae/source */
    if (is_dir (path) && !*below)
      list_files (path, name, lines);
    else
      add_line (path, relative, lines);
  }
}

/* A single file, and the configuration that may be beside it. */
static void
add_single_lines (const gchar *path, GPtrArray *lines)
{
  g_autofree gchar *dir = g_path_get_dirname (path);
  g_autofree gchar *config = g_build_filename (dir, "config.json", NULL);

  add_line (path, "", lines);
  add_line (config, "config.json", lines);
}

static gint
compare_lines (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static void
add_adapters (const H3Checkpoint *checkpoint, GPtrArray *lines)
{
  for (guint i = 0; checkpoint->adapters && i < checkpoint->adapters->len;
       i++) {
    const H3AdapterChoice *choice =
        &g_array_index (checkpoint->adapters, H3AdapterChoice, i);
    gchar *real = realpath (choice->path, NULL); /* free(), not g_free() */
    g_autofree gchar *name = g_strdup_printf ("adapter %u %.17g %s", i,
        choice->strength, real ? real : choice->path);

    free (real);
    if (is_dir (choice->path)) {
      g_ptr_array_add (lines, g_steal_pointer (&name));
      list_files (choice->path, "adapter", lines);
    } else {
      add_line (choice->path, name, lines);
    }
  }
}

gchar *
h3_checkpoint_identity (const H3Checkpoint *checkpoint, H3Component component,
    GError **error)
{
  const gchar *path = h3_checkpoint_path (checkpoint, component, error);
  g_autofree gchar *canonical = NULL;
  g_autofree gchar *hash = NULL;
  g_autofree gchar *text = NULL;
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  gchar *real;

  if (!path)
    return NULL;
  real = realpath (path, NULL); /* free(), not g_free() */
  canonical = g_strdup (real ? real : path);
  free (real);
  if (is_dir (canonical))
    list_files (canonical, "", lines);
  else
    add_single_lines (canonical, lines);
  g_ptr_array_add (lines,
      g_strdup_printf ("qkv %d, weights %d", (gint) checkpoint->qkv_order,
          (gint) checkpoint->weight_type));
  if (component == H3_COMPONENT_TRANSFORMER)
    add_adapters (checkpoint, lines);
  g_ptr_array_sort (lines, compare_lines);
  g_ptr_array_add (lines, NULL);
  text = g_strjoinv ("\n", (gchar **) lines->pdata);
  hash = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);
  return g_strdup_printf ("%s#%s", canonical, hash);
}
