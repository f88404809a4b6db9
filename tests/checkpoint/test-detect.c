/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a file is by its tensors' names: checkpoints.md 3.5, 4.1, 8. */
#include "test-checkpoint.h"

#include "model/checkpoint/detect.h"
#include "model/denoise/transformer.h"
#include "model/text/text-model.h"

#include <glib/gstdio.h>

/* A file of tensors of one byte with these names. */
static void
write_names (const gchar *path, const gchar *const *names)
{
  g_autoptr (GString) header = g_string_new ("{");
  g_autofree guint8 *zeros = g_new0 (guint8, 64);
  guint i;

  for (i = 0; names[i]; i++)
    g_string_append_printf (header,
        "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
        i ? "," : "", names[i], i, i + 1);
  g_string_append_c (header, '}');
  write_safetensors (path, header->str, zeros, i);
}

typedef struct {
  const gchar *names[4];
  gint component; /* -1: unknown */
  H3Layout layout;
  H3QkvOrder qkv;
  const gchar *prefix;
} Known;

static void
test_names (void)
{
  static const Known known[] = {
    { { "video_patch_proj.weight", "audio_patch_proj.weight" },
        H3_COMPONENT_TRANSFORMER, H3_LAYOUT_COMFY, H3_QKV_CONTIGUOUS, "" },
    { { "model.diffusion_model.video_patch_proj.weight",
          "model.diffusion_model.audio_patch_proj.weight" },
        H3_COMPONENT_TRANSFORMER, H3_LAYOUT_COMFY, H3_QKV_CONTIGUOUS,
        "model.diffusion_model." },
    { { "model.video_patch_proj.weight", "model.audio_patch_proj.weight" },
        H3_COMPONENT_TRANSFORMER, H3_LAYOUT_COMFY, H3_QKV_CONTIGUOUS,
        "model." },
    { { "net.video_patch_proj.weight", "net.audio_patch_proj.weight",
          "vae.other" },
        H3_COMPONENT_TRANSFORMER, H3_LAYOUT_COMFY, H3_QKV_CONTIGUOUS, "net." },
    { { "proj_in.weight", "audio_proj_in.weight" }, H3_COMPONENT_TRANSFORMER,
        H3_LAYOUT_DIFFUSERS, H3_QKV_APART, "" },
    { { "vae.decoder.x_embedder.weight" }, H3_COMPONENT_VIDEO_VAE,
        H3_LAYOUT_OFFICIAL, H3_QKV_AUTO, "vae." },
    { { "decoder.x_embedder.weight", "latents_mean" }, H3_COMPONENT_VIDEO_VAE,
        H3_LAYOUT_COMFY, H3_QKV_AUTO, "" },
    { { "decoder.proj_in.weight" }, H3_COMPONENT_VIDEO_VAE, H3_LAYOUT_DIFFUSERS,
        H3_QKV_AUTO, "" },
    { { "pre_block.attn.zero_k_bias" }, H3_COMPONENT_AUDIO_VAE,
        H3_LAYOUT_OFFICIAL, H3_QKV_AUTO, "" },
    { { "model.embed_tokens.weight", "visual.patch_embed.proj.weight" },
        H3_COMPONENT_TEXT_ENCODER, H3_LAYOUT_COMFY, H3_QKV_AUTO, "" },
    { { "model.language_model.embed_tokens.weight" }, H3_COMPONENT_TEXT_ENCODER,
        H3_LAYOUT_OFFICIAL, H3_QKV_AUTO, "" },
    /* somebody else's language model, half of a transformer's two signs */
    { { "model.embed_tokens.weight" }, -1 },
    { { "video_patch_proj.weight" }, -1 },
  };
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "x.safetensors", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (known); i++) {
    g_autoptr (H3TensorSet) set = NULL;
    H3Detection found;

    write_names (path, known[i].names);
    set = h3_tensor_set_open (path, NULL);
    g_assert_nonnull (set);
    g_assert_cmpint (h3_detect (set, &found), ==, known[i].component >= 0);
    if (known[i].component < 0)
      continue;
    g_assert_null (found.refused);
    g_assert_cmpint (found.component, ==, known[i].component);
    g_assert_cmpint (found.layout, ==, known[i].layout);
    g_assert_cmpint (found.qkv, ==, known[i].qkv);
    g_assert_cmpstr (found.prefix, ==, known[i].prefix);
  }
  h3_test_remove_tree (dir);
}

/* Official shards are grouped; the file's own tensors say what is pruned. */
static void
test_forms (void)
{
  const struct {
    const gchar *root, *below;
    H3Layout layout;
    H3QkvOrder qkv;
    gboolean pruned, folded;
  } forms[] = {
    { h3_test_tiny_dir (), "FL2VA/transformer", H3_LAYOUT_OFFICIAL,
        H3_QKV_GROUPED, FALSE, FALSE },
    { h3_test_tiny_dir (), "FL2VA/audio_vae", H3_LAYOUT_OFFICIAL, H3_QKV_AUTO,
        FALSE, FALSE },
    { h3_test_tiny_diffusers_dir (), "transformer", H3_LAYOUT_DIFFUSERS,
        H3_QKV_APART, FALSE, FALSE },
    { h3_test_tiny_pruned_dir (),
        "diffusion_models/minimax_h3_fl2va_bf16.safetensors", H3_LAYOUT_COMFY,
        H3_QKV_CONTIGUOUS, TRUE, FALSE },
    { h3_test_tiny_comfy_dir (), "vae/minimax_h3_audio_vae_fp32.safetensors",
        H3_LAYOUT_COMFY, H3_QKV_AUTO, FALSE, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (forms); i++) {
    g_autofree gchar *path =
        g_build_filename (forms[i].root, forms[i].below, NULL);
    g_autoptr (H3TensorSet) set = h3_tensor_set_open (path, NULL);
    H3Detection found;

    g_assert_nonnull (set);
    g_assert_true (h3_detect (set, &found));
    g_assert_cmpint (found.layout, ==, forms[i].layout);
    g_assert_cmpint (found.qkv, ==, forms[i].qkv);
    g_assert_cmpint (found.pruned, ==, forms[i].pruned);
    g_assert_cmpint (found.folded, ==, forms[i].folded);
  }
}

static void
test_foreign (void)
{
  static const struct {
    const gchar *names[4];
    const gchar *needle;
  } foreign[] = {
    { { "diffusion_model.blocks.0.attn.qkv_proj.lora_A.weight" },
        "LoRA adapter" },
    { { "lora_unet_blocks_0_attn_qkv_proj.lora_down.weight" }, "LoRA adapter" },
    { { "h3_pdd.bank.video.weight", "a.lora_A.weight" }, "PDD adapter" },
    { { "control_proj_in.weight", "control_blocks.0.norm1.weight" },
        "ControlNet" },
    { { "in_blocks.0.in_layers.2.weight" }, "latent upscaler" },
    { { "a.weight.quant_state.bitsandbytes__nf4", "video_patch_proj.weight",
          NULL },
        "bitsandbytes" },
    { { "blocks.0.attn.qkv_proj.smooth_factor" }, "SVDQuant" },
    { { "blocks.0.attn.qkv_proj.qweight", "blocks.0.attn.qkv_proj.lora_down" },
        "packed integers (SVDQuant" },
    { { "blocks.0.attn.qkv_proj.wscales", "blocks.0.attn.qkv_proj.lora_down" },
        "SVDQuant" },
    { { "encoder.0.weight", "decoder.1.weight", "decoder.3.conv.0.weight" },
        "tiny autoencoder for previews" },
    { { "decoder.mid.block_1.conv1.weight" }, "autoencoder of images" },
    { { "decoder.mid_block.resnets.0.conv1.weight" }, "autoencoder of images" },
    { { "v.weight" }, "nothing of MiniMax H3" },
  };
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "x.safetensors", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (foreign); i++) {
    g_autoptr (GError) error = NULL;

    write_names (path, foreign[i].names);
    g_assert_null (h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error));
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, path,
        foreign[i].needle);
  }
  h3_test_remove_tree (dir);
}

/* Other containers, whatever they are called. */
static void
test_containers (void)
{
  static const struct {
    const gchar *name, *bytes;
    gsize n;
    const gchar *needle;
  } files[] = {
    { "minimax_h3.pth", "PK\3\4 archive of torch", 22, "PyTorch pickle" },
    { "minimax_h3.ckpt", "\x80\2}q\0X\5\0\0\0model", 16, "PyTorch pickle" },
    { "minimax_h3_q8p.ckpt", "SQLite format 3\0 and more", 26,
        "database of Draw Things" },
    { "x.safetensors", "version https://git-lfs.github.com/spec/v1\n", 43,
        "Git-LFS pointer" },
    { "y.safetensors", "<!DOCTYPE html><html>404</html>", 31, "web page" },
    { "z.gguf", "version https://git-lfs.github.com/spec/v1\n", 43,
        "Git-LFS pointer" },
  };
  g_autofree gchar *dir = h3_test_temp_dir ();

  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autofree gchar *path = g_build_filename (dir, files[i].name, NULL);
    g_autoptr (GError) error = NULL;

    h3_test_write_file (path, files[i].bytes, files[i].n);
    g_assert_null (h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error));
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, path, files[i].needle);
  }
  h3_test_remove_tree (dir);
}

/* A transformer whose makers say in its metadata that it needs their code. */
static void
test_own_form (void)
{
  static const gchar header[] =
      "{\"__metadata__\":{\"quantization_config\":\"{}\"},"
      "\"video_patch_proj.weight\":{\"dtype\":\"U8\",\"shape\":[1],"
      "\"data_offsets\":[0,1]},\"audio_patch_proj.weight\":{\"dtype\":\"U8\","
      "\"shape\":[1],\"data_offsets\":[1,2]}}";
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "x.safetensors", NULL);
  g_autoptr (GError) error = NULL;

  write_safetensors (path, header, (const guint8 *) "ab", 2);
  g_assert_null (h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, path,
      "quantised in a form of its own");
  h3_test_remove_tree (dir);
}

/* A component where another is wanted. */
static void
test_role (void)
{
  g_autofree gchar *path = g_build_filename (h3_test_tiny_comfy_dir (),
      "vae/minimax_h3_video_vae_fp16.safetensors", NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (
      h3_component_open (path, H3_COMPONENT_TRANSFORMER, NULL, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, path,
      "is a MiniMax H3 video autoencoder", "needed: a transformer");
}

static void
assert_component (const gchar *path, H3Partition partition,
    H3Component component, const gchar *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) c = h3_checkpoint_open (path, partition, &error);

  g_assert_no_error (error);
  g_assert_true (
      g_str_has_suffix (h3_checkpoint_path (c, component, &error), expected));
  g_assert_no_error (error);
}

/* ComfyUI's folders: a partition's file by its name, several that fit by none. */
static void
test_folders (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *models = g_build_filename (dir, "diffusion_models", NULL);
  g_autofree gchar *other =
      g_build_filename (models, "minimax_h3_fl2va_copy.safetensors", NULL);
  g_autofree gchar *damaged =
      g_build_filename (models, "damaged.safetensors", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) c = NULL;
  static const gchar *const names[] = { "video_patch_proj.weight",
    "audio_patch_proj.weight", NULL };

  g_rmdir (dir);
  h3_test_copy_tree (h3_test_tiny_comfy_dir (), dir);
  h3_test_write_file (damaged, "x", 1);
  assert_component (dir, H3_PARTITION_FL2VA, H3_COMPONENT_TRANSFORMER,
      "diffusion_models/minimax_h3_fl2va_bf16.safetensors");
  assert_component (dir, H3_PARTITION_REF2VA, H3_COMPONENT_TRANSFORMER,
      "diffusion_models/minimax_h3_ref2va_bf16.safetensors");
  assert_component (dir, H3_PARTITION_FL2VA, H3_COMPONENT_TOKENIZER,
      "/tokenizer");
  assert_component (models, H3_PARTITION_FL2VA, H3_COMPONENT_TRANSFORMER,
      "minimax_h3_fl2va_bf16.safetensors");

  write_names (other, names);
  c = h3_checkpoint_open (dir, H3_PARTITION_FL2VA, &error);
  g_assert_no_error (error);
  g_assert_null (h3_checkpoint_path (c, H3_COMPONENT_TRANSFORMER, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, "2 files",
      "minimax_h3_fl2va_bf16", "minimax_h3_fl2va_copy");
  h3_test_remove_tree (dir);
}

/* A folder with half a download has nothing, and the message says why. */
static void
test_downloads (void)
{
  static const struct {
    const gchar *folder, *name, *bytes, *what;
  } cases[] = {
    { "", "a.safetensors", "x", "1 bytes" },
    { "", "a.gguf", "GGUF", "a.gguf" },
    { "diffusion_models", "a.safetensors", "<!DOCTYPE html>", "web page" },
    { "", "a.safetensors.part", "", "a.safetensors.part is of a download" },
    { "", "a.gguf.incomplete", "", "a.gguf.incomplete is of a download" },
    { "unet", "a.gguf.crdownload", "", "a.gguf.crdownload is of a download" },
    { "clip", "a.safetensors.aria2", "", "a.safetensors.aria2 is of a" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *dir = h3_test_temp_dir ();
    g_autofree gchar *folder = g_build_filename (dir, cases[i].folder, NULL);
    g_autofree gchar *path = g_build_filename (folder, cases[i].name, NULL);
    g_autoptr (GError) error = NULL;

    g_mkdir (folder, 0777);
    h3_test_write_file (path, cases[i].bytes, strlen (cases[i].bytes));
    g_assert_null (h3_checkpoint_open (dir, H3_PARTITION_FL2VA, &error));
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, dir, cases[i].what);
    h3_test_remove_tree (dir);
  }
}

/* The text encoder's file alone has no tokenizer; the message says where one
 * would be found. */
static void
test_no_tokenizer (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *deep = g_build_filename (dir, "text_encoders", NULL);
  g_autofree gchar *path = g_build_filename (deep, "te.safetensors", NULL);
  g_autofree gchar *tokenizer = g_build_filename (deep, "tokenizer", NULL);
  g_autofree gchar *vocab = g_build_filename (tokenizer, "vocab.json", NULL);
  static const gchar *const names[] = { "model.embed_tokens.weight",
    "visual.patch_embed.proj.weight", NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) c = NULL;
  guint64 bytes;

  g_assert_cmpint (g_mkdir (deep, 0777), ==, 0);
  write_names (path, names);
  c = h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error);
  g_assert_no_error (error);
  g_assert_null (h3_checkpoint_path (c, H3_COMPONENT_TOKENIZER, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, path, "tokenizer",
      "FL2VA/tokenizer/");
  g_clear_error (&error);
  /* fewer than fifty layers, and a geometry that is not the release's */
  g_assert_false (h3_text_model_plan (c, NULL, NULL, &bytes, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, path, "0 layers");

  g_assert_cmpint (g_mkdir (tokenizer, 0777), ==, 0);
  h3_test_write_file (vocab, "{}", 2);
  assert_component (path, H3_PARTITION_FL2VA, H3_COMPONENT_TOKENIZER,
      "text_encoders/tokenizer");
  h3_test_remove_tree (dir);
}

static void
test_hints (void)
{
  H3Partition partition = H3_PARTITION_FL2VA;

  g_assert_true (h3_partition_hint ("/x/minimax_h3_ref2va_pruned.safetensors",
      &partition));
  g_assert_cmpint (partition, ==, H3_PARTITION_REF2VA);
  g_assert_true (h3_partition_hint ("MiniMax_H3_FL2VA.gguf", &partition));
  g_assert_cmpint (partition, ==, H3_PARTITION_FL2VA);
  g_assert_false (h3_partition_hint ("/ref2va/model.safetensors", &partition));
  g_assert_false (h3_partition_hint ("fl2va_and_ref2va", &partition));
}

void
add_detect_tests (void)
{
  g_test_add_func ("/detect/names", test_names);
  g_test_add_func ("/detect/forms", test_forms);
  g_test_add_func ("/detect/foreign", test_foreign);
  g_test_add_func ("/detect/containers", test_containers);
  g_test_add_func ("/detect/own-form", test_own_form);
  g_test_add_func ("/detect/role", test_role);
  g_test_add_func ("/detect/folders", test_folders);
  g_test_add_func ("/detect/downloads", test_downloads);
  g_test_add_func ("/detect/no-tokenizer", test_no_tokenizer);
  g_test_add_func ("/detect/hints", test_hints);
}
