/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Both layouts of the tiny checkpoint are the same weights on the device:
 * names, splits and row orders are undone by loading. */
#include "gguf-file.h"
#include "test-checkpoint.h"
#include "test-device.h"

#include "model/audio/audio-vae.h"
#include "model/checkpoint/detect.h"
#include "model/denoise/transformer-private.h"
#include "model/text/text-layers.h"
#include "model/video/video-vae.h"

typedef struct {
  const gchar *name;
  H3Partition partition;
  gpointer (*load) (const H3Checkpoint *checkpoint, H3Device *device,
      const H3Stop *stop, H3LoadProgress progress, gpointer user_data,
      GError **error);
  void (*free) (gpointer model);
  guint least_uploads;
  const gchar *comfy_file;
} Component;

#define COMPONENT(model)                                                       \
  static gpointer load_##model (const H3Checkpoint *checkpoint,                \
      H3Device *device, const H3Stop *stop, H3LoadProgress progress,           \
      gpointer user_data, GError **error)                                      \
  {                                                                            \
    return h3_##model##_load (checkpoint, device, stop, progress, user_data,   \
        error);                                                                \
  }                                                                            \
  static void free_##model (gpointer loaded)                                   \
  {                                                                            \
    h3_##model##_unref (loaded);                                               \
  }

COMPONENT (transformer)
COMPONENT (text_model)
COMPONENT (video_vae)
COMPONENT (audio_vae)

static const Component components[] = {
  { "transformer", H3_PARTITION_FL2VA, load_transformer, free_transformer, 50,
      "diffusion_models/minimax_h3_fl2va_bf16.safetensors" },
  { "transformer-ref", H3_PARTITION_REF2VA, load_transformer, free_transformer,
      50, "diffusion_models/minimax_h3_ref2va_bf16.safetensors" },
  { "text-encoder", H3_PARTITION_FL2VA, load_text_model, free_text_model, 400,
      "text_encoders/qwen3vl_32b_minimax_h3_bf16.safetensors" },
  { "video-vae", H3_PARTITION_FL2VA, load_video_vae, free_video_vae, 25,
      "vae/minimax_h3_video_vae_fp16.safetensors" },
  { "audio-vae", H3_PARTITION_FL2VA, load_audio_vae, free_audio_vae, 400,
      "vae/minimax_h3_audio_vae_fp32.safetensors" },
};

/* Everything uploaded, as one hash. Free with g_free(). */
static gchar *
load_and_hash (const Component *c, const gchar *path)
{
  g_autoptr (TestDevice) device = test_device_new (FALSE);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, c->partition, &error);
  gpointer model;

  g_assert_no_error (error);
  model = c->load (checkpoint, &device->device, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (device->n_uploads, >=, c->least_uploads);
  c->free (model);
  return g_strdup (g_checksum_get_string (device->uploaded));
}

static void
test_same_weights (gconstpointer data)
{
  const Component *c = data;
  g_autofree gchar *official = load_and_hash (c, h3_test_tiny_dir ());
  g_autofree gchar *diffusers =
      load_and_hash (c, h3_test_tiny_diffusers_dir ());

  g_assert_cmpstr (official, ==, diffusers);
}

/* ComfyUI's folder, and the file in it by its own path. */
static void
test_same_weights_comfy (gconstpointer data)
{
  const Component *c = data;
  g_autofree gchar *official = load_and_hash (c, h3_test_tiny_dir ());
  g_autofree gchar *folder = load_and_hash (c, h3_test_tiny_comfy_dir ());
  g_autofree gchar *path =
      g_build_filename (h3_test_tiny_comfy_dir (), c->comfy_file, NULL);
  g_autofree gchar *file = load_and_hash (c, path);

  g_assert_cmpstr (official, ==, folder);
  g_assert_cmpstr (official, ==, file);
}

/* ComfyUI's file as GGUF, in its floats. */
static void
test_same_weights_gguf (gconstpointer data)
{
  const Component *c = data;
  const H3StoredType type = H3_STORED_BF16;
  g_autofree gchar *from =
      g_build_filename (h3_test_tiny_comfy_dir (), c->comfy_file, NULL);
  g_autofree gchar *folder = g_path_get_dirname (from);
  g_autofree gchar *from_config =
      g_build_filename (folder, "config.json", NULL);
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "f.gguf", NULL);
  g_autofree gchar *config = g_build_filename (dir, "config.json", NULL);
  g_autofree gchar *official = load_and_hash (c, h3_test_tiny_dir ());
  g_autofree gchar *gguf = NULL;
  g_autoptr (GError) error = NULL;

  gguf_convert (from, path, &type, 1, 0, &error);
  g_assert_no_error (error);
  if (g_file_test (from_config, G_FILE_TEST_EXISTS))
    h3_test_copy_file (from_config, config);
  gguf = load_and_hash (c, path);
  g_assert_cmpstr (official, ==, gguf);
  h3_test_remove_tree (dir);
}

/* One file in the release's folder: as ComfyUI named it it is ComfyUI's, as the
 * release's shards are named it is the release saved in one; and both are doubted,
 * unless the user says which it is (checkpoints.md 3.5). */
typedef struct {
  const gchar *file;
  H3QkvOrder found, right, said;
  const gchar *doubt;
} InFolder;

static const InFolder in_folder[] = {
  { "minimax_h3_fl2va_bf16.safetensors", H3_QKV_CONTIGUOUS, H3_QKV_CONTIGUOUS,
      H3_QKV_AUTO, "set qkv-layout=grouped-per-head" },
  { "model.safetensors", H3_QKV_GROUPED, H3_QKV_CONTIGUOUS, H3_QKV_AUTO,
      "set qkv-layout=contiguous" },
  { "model.safetensors", H3_QKV_GROUPED, H3_QKV_CONTIGUOUS, H3_QKV_CONTIGUOUS,
      NULL },
};

static void
check_in_folder (const InFolder *f, const gchar *path, const gchar *official)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestDevice) device = test_device_new (FALSE);
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error);
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (path, NULL);
  g_autoptr (GPtrArray) doubts = NULL;
  gboolean right = f->said == f->right || f->found == f->right;
  H3Detection found;
  H3Transformer *t;

  g_assert_no_error (error);
  g_assert_true (h3_detect (set, &found));
  g_assert_cmpint (found.qkv, ==, f->found);
  h3_checkpoint_set_qkv_order (checkpoint, f->said);
  doubts = h3_checkpoint_doubts (checkpoint, H3_COMPONENT_TRANSFORMER, TRUE);
  g_assert_cmpuint (doubts->len, ==, f->doubt ? 1 : 0);
  if (f->doubt)
    g_assert_nonnull (strstr (doubts->pdata[0], f->doubt));
  t = h3_transformer_load (checkpoint, &device->device, NULL, NULL, NULL,
      &error);
  g_assert_no_error (error);
  h3_transformer_unref (t);
  g_assert_cmpint (g_str_equal (official,
                       g_checksum_get_string (device->uploaded)),
      ==, right);
}

static void
test_one_file_in_official_folder (void)
{
  const Component *c = &components[0];
  g_autofree gchar *from_config = g_build_filename (h3_test_tiny_dir (),
      "FL2VA/transformer/config.json", NULL);
  g_autofree gchar *from =
      g_build_filename (h3_test_tiny_comfy_dir (), c->comfy_file, NULL);
  g_autofree gchar *official = load_and_hash (c, h3_test_tiny_dir ());

  for (guint i = 0; i < G_N_ELEMENTS (in_folder); i++) {
    g_autofree gchar *dir = h3_test_temp_dir ();
    g_autofree gchar *config = g_build_filename (dir, "config.json", NULL);
    g_autofree gchar *weights = g_build_filename (dir, in_folder[i].file, NULL);

    h3_test_copy_file (from_config, config);
    h3_test_copy_file (from, weights);
    check_in_folder (&in_folder[i], dir, official);
    check_in_folder (&in_folder[i], weights, official);
    h3_test_remove_tree (dir);
  }
}

/* Which of the two transformers a file is its tensors do not say. */
static void
test_partition_doubts (void)
{
  static const struct {
    const gchar *name;
    H3Partition partition;
    gboolean said;
    const gchar *doubt;
  } files[] = {
    { "minimax_h3_fl2va_bf16.safetensors", H3_PARTITION_FL2VA, FALSE, NULL },
    { "minimax_h3_ref2va_bf16.safetensors", H3_PARTITION_FL2VA, FALSE,
        "has the name of the transformer for references (ref2va)" },
    { "minimax_h3_ref2va_bf16.safetensors", H3_PARTITION_FL2VA, TRUE,
        "used for text and keyframes, which needs that of fl2va" },
    { "x-T2VA.safetensors", H3_PARTITION_REF2VA, FALSE,
        "used for references, which needs that of ref2va" },
    { "x.safetensors", H3_PARTITION_FL2VA, FALSE, "say partition=fl2va" },
    { "x.safetensors", H3_PARTITION_REF2VA, FALSE, "say partition=ref2va" },
    { "x.safetensors", H3_PARTITION_REF2VA, TRUE, NULL },
  };
  g_autofree gchar *from = g_build_filename (h3_test_tiny_comfy_dir (),
      components[0].comfy_file, NULL);
  g_autofree gchar *dir = h3_test_temp_dir ();

  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autofree gchar *path = g_build_filename (dir, files[i].name, NULL);
    g_autoptr (H3Checkpoint) checkpoint = NULL;
    g_autoptr (GPtrArray) doubts = NULL;

    h3_test_copy_file (from, path);
    checkpoint = h3_checkpoint_open (path, files[i].partition, NULL);
    g_assert_nonnull (checkpoint);
    doubts = h3_checkpoint_doubts (checkpoint, H3_COMPONENT_TRANSFORMER,
        files[i].said);
    g_assert_cmpuint (doubts->len, ==, files[i].doubt ? 1 : 0);
    if (files[i].doubt && !strstr (doubts->pdata[0], files[i].doubt))
      g_error ("%s", (gchar *) doubts->pdata[0]);
  }
  h3_test_remove_tree (dir);
}

/* A file that somebody saved again, all of it in one type. */
static void
test_narrowed (void)
{
  static const gchar header[] =
      "{\"video_patch_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[1],"
      "\"data_offsets\":[0,2]},\"audio_patch_proj.weight\":{\"dtype\":\"F32\","
      "\"shape\":[1],\"data_offsets\":[2,6]},\"final_layer.video_out.bias\":"
      "{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[6,8]}}";
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path =
      g_build_filename (dir, "minimax_h3_fl2va.safetensors", NULL);
  g_autoptr (H3Checkpoint) checkpoint = NULL;
  g_autoptr (GPtrArray) doubts = NULL;

  write_safetensors (path, header, (const guint8 *) "12345678", 8);
  checkpoint = h3_checkpoint_open (path, H3_PARTITION_FL2VA, NULL);
  doubts = h3_checkpoint_doubts (checkpoint, H3_COMPONENT_TRANSFORMER, FALSE);
  g_assert_cmpuint (doubts->len, ==, 1);
  g_assert_nonnull (strstr (doubts->pdata[0], "has 2 tensors narrower"));
  h3_test_remove_tree (dir);
}

/* What a folder or model_index.json declares is not doubted, and a surplus at a
 * file's end is. */
static void
test_other_doubts (void)
{
  const struct {
    const gchar *root;
    H3Partition partition;
  } forms[] = {
    { h3_test_tiny_dir (), H3_PARTITION_FL2VA },
    { h3_test_tiny_dir (), H3_PARTITION_REF2VA },
    { h3_test_tiny_diffusers_dir (), H3_PARTITION_FL2VA },
    { h3_test_tiny_comfy_dir (), H3_PARTITION_REF2VA },
  };
  g_autofree gchar *from = g_build_filename (h3_test_tiny_comfy_dir (),
      "vae/minimax_h3_audio_vae_fp32.safetensors", NULL);
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "a.safetensors", NULL);
  g_autofree gchar *bytes = NULL;
  g_autoptr (H3Checkpoint) longer = NULL;
  g_autoptr (GPtrArray) doubts = NULL;
  gsize n;

  for (guint i = 0; i < G_N_ELEMENTS (forms); i++) {
    g_autoptr (H3Checkpoint) checkpoint =
        h3_checkpoint_open (forms[i].root, forms[i].partition, NULL);

    for (guint k = 0; k < H3_N_COMPONENTS; k++) {
      g_autoptr (GPtrArray) none = h3_checkpoint_doubts (checkpoint, k, FALSE);

      g_assert_cmpuint (none->len, ==, 0);
    }
  }
  g_assert_true (g_file_get_contents (from, &bytes, &n, NULL));
  bytes = g_realloc (bytes, n + 65);
  memset (bytes + n, 0, 65);
  h3_test_write_file (path, bytes, n + 65);
  longer = h3_checkpoint_open (path, H3_PARTITION_FL2VA, NULL);
  doubts = h3_checkpoint_doubts (longer, H3_COMPONENT_AUDIO_VAE, FALSE);
  g_assert_cmpuint (doubts->len, ==, 1);
  g_assert_nonnull (
      strstr (doubts->pdata[0], "has 65 bytes after the last tensor"));
  h3_test_remove_tree (dir);
}

/* What the user says goes before the form. */
static void
test_qkv_order (void)
{
  g_autoptr (TestDevice) device = test_device_new (FALSE);
  g_autofree gchar *official =
      load_and_hash (&components[0], h3_test_tiny_dir ());
  g_autofree gchar *path = g_build_filename (h3_test_tiny_comfy_dir (),
      components[0].comfy_file, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error);
  g_autofree gchar *before = NULL, *after = NULL;
  H3Transformer *t;

  g_assert_no_error (error);
  before = h3_checkpoint_identity (checkpoint, H3_COMPONENT_TRANSFORMER, NULL);
  h3_checkpoint_set_qkv_order (checkpoint, H3_QKV_GROUPED);
  after = h3_checkpoint_identity (checkpoint, H3_COMPONENT_TRANSFORMER, NULL);
  g_assert_cmpstr (before, !=, after);
  t = h3_transformer_load (checkpoint, &device->device, NULL, NULL, NULL,
      &error);
  g_assert_no_error (error);
  h3_transformer_unref (t);
  g_assert_cmpstr (official, !=, g_checksum_get_string (device->uploaded));
}

/* The two partitions differ, or the comparison would say nothing. */
static void
test_partitions_differ (void)
{
  g_autofree gchar *fl = load_and_hash (&components[0], h3_test_tiny_dir ());
  g_autofree gchar *ref = load_and_hash (&components[1], h3_test_tiny_dir ());

  g_assert_cmpstr (fl, !=, ref);
}

/* denoiser.md 3.8: what is no island is in the type of the activations. */
static void
test_rounded (void)
{
  g_autoptr (TestDevice) device = test_device_new (FALSE);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (h3_test_tiny_dir (), H3_PARTITION_FL2VA, &error);
  H3Transformer *t;
  H3TextModel *text;

  g_assert_no_error (error);
  device->device.act_dtype = H3_DTYPE_F16; /* the files have bfloat16 */
  t = h3_transformer_load (checkpoint, &device->device, NULL, NULL, NULL,
      &error);
  g_assert_no_error (error);
  for (gint i = 0; i < t->config.layers; i++) {
    const H3Block *b = &t->blocks[i];

    g_assert_cmpint (b->qkv->tensor->dtype, ==, H3_DTYPE_F16);
    g_assert_cmpint (b->out->tensor->dtype, ==, H3_DTYPE_F16);
    g_assert_cmpint (b->fc1->tensor->dtype, ==, H3_DTYPE_F16);
    g_assert_cmpint (b->fc2->tensor->dtype, ==, H3_DTYPE_F16);
    g_assert_cmpint (b->norm1->dtype, ==, H3_DTYPE_F32);
  }
  g_assert_cmpint (t->condition->tensor->dtype, ==, H3_DTYPE_F16);
  g_assert_cmpint (t->final_adaln->tensor->dtype, ==, H3_DTYPE_F16);
  g_assert_cmpint (t->video_in->tensor->dtype, ==, H3_DTYPE_F32);
  g_assert_cmpint (t->audio_in->tensor->dtype, ==, H3_DTYPE_F32);
  g_assert_cmpint (t->time_in->tensor->dtype, ==, H3_DTYPE_F32);
  g_assert_cmpint (t->time_out->tensor->dtype, ==, H3_DTYPE_F32);
  g_assert_cmpint (t->video_out->tensor->dtype, ==, H3_DTYPE_F32);
  g_assert_cmpint (t->audio_out->tensor->dtype, ==, H3_DTYPE_F32);
  h3_transformer_unref (t);

  text = h3_text_model_load (checkpoint, &device->device, NULL, NULL, NULL,
      &error);
  g_assert_no_error (error);
  g_assert_cmpint (text->embed_tokens->tensor->dtype, ==, H3_DTYPE_F16);
  g_assert_cmpint (text->layers[49].down->tensor->dtype, ==, H3_DTYPE_F16);
  g_assert_cmpint (text->layers[49].q_norm->dtype, ==, H3_DTYPE_F32);
  h3_text_model_unref (text);
}

void
add_layout_tests (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (components); i++) {
    g_autofree gchar *name =
        g_strconcat ("/layouts/", components[i].name, NULL);
    g_autofree gchar *comfy =
        g_strconcat ("/layouts/comfy/", components[i].name, NULL);
    g_test_add_data_func (name, &components[i], test_same_weights);
    g_test_add_data_func (comfy, &components[i], test_same_weights_comfy);
    if (components[i].load == load_transformer ||
        components[i].load == load_text_model) {
      g_autofree gchar *gguf =
          g_strconcat ("/layouts/gguf/", components[i].name, NULL);
      g_test_add_data_func (gguf, &components[i], test_same_weights_gguf);
    }
  }
  g_test_add_func ("/layouts/rounded", test_rounded);
  g_test_add_func ("/layouts/comfy/official-folder",
      test_one_file_in_official_folder);
  g_test_add_func ("/layouts/qkv-order", test_qkv_order);
  g_test_add_func ("/layouts/partition-doubts", test_partition_doubts);
  g_test_add_func ("/layouts/other-doubts", test_other_doubts);
  g_test_add_func ("/layouts/narrowed", test_narrowed);
  g_test_add_func ("/layouts/partitions-differ", test_partitions_differ);
}
