/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finding components in every form a path may have: checkpoints.md 3.1, 8. */
#include "test-checkpoint.h"

#include "model/checkpoint/checkpoint.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <unistd.h>

static H3Checkpoint *
open_good (const gchar *path, H3Partition partition)
{
  g_autoptr (GError) error = NULL;
  H3Checkpoint *c = h3_checkpoint_open (path, partition, &error);

  g_assert_no_error (error);
  return c;
}

/* The component is @root/@below. */
static void
assert_at (const H3Checkpoint *c, H3Component component, const gchar *root,
    const gchar *below)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *expected = g_build_filename (root, below, NULL);

  g_assert_cmpstr (h3_checkpoint_path (c, component, &error), ==, expected);
  g_assert_no_error (error);
}

static void
assert_absent (const H3Checkpoint *c, H3Component component, const gchar *path)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (h3_checkpoint_path (c, component, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, path,
      h3_component_name (component));
}

static void
test_release (void)
{
  const gchar *root = h3_test_tiny_dir ();
  g_autoptr (H3Checkpoint) c = open_good (root, H3_PARTITION_FL2VA);
  gdouble video, audio;

  g_assert_cmpint (h3_checkpoint_naming (c), ==, H3_NAMING_OFFICIAL);
  assert_at (c, H3_COMPONENT_TRANSFORMER, root, "FL2VA/transformer");
  assert_at (c, H3_COMPONENT_TEXT_ENCODER, root, "FL2VA/text_encoder");
  assert_at (c, H3_COMPONENT_TOKENIZER, root, "FL2VA/tokenizer");
  assert_at (c, H3_COMPONENT_VIDEO_VAE, root, "FL2VA/video_vae");
  assert_at (c, H3_COMPONENT_AUDIO_VAE, root, "FL2VA/audio_vae");
  h3_checkpoint_shifts (c, &video, &audio);
  g_assert_cmpfloat (video, ==, 12);
  g_assert_cmpfloat (audio, ==, 3);
}

/* Its own transformer, and the components that are the same in both. */
static void
test_release_ref (void)
{
  const gchar *root = h3_test_tiny_dir ();
  g_autoptr (H3Checkpoint) c = open_good (root, H3_PARTITION_REF2VA);

  assert_at (c, H3_COMPONENT_TRANSFORMER, root, "Ref2VA/transformer");
  assert_at (c, H3_COMPONENT_TEXT_ENCODER, root, "FL2VA/text_encoder");
  assert_at (c, H3_COMPONENT_TOKENIZER, root, "FL2VA/tokenizer");
}

static void
test_partition_folder (void)
{
  g_autofree gchar *fl = g_build_filename (h3_test_tiny_dir (), "FL2VA", NULL);
  g_autofree gchar *ref =
      g_build_filename (h3_test_tiny_dir (), "Ref2VA", NULL);
  g_autoptr (H3Checkpoint) right = open_good (fl, H3_PARTITION_FL2VA);
  g_autoptr (H3Checkpoint) wrong = open_good (fl, H3_PARTITION_REF2VA);
  g_autoptr (H3Checkpoint) only = open_good (ref, H3_PARTITION_REF2VA);
  g_autoptr (GError) error = NULL;

  assert_at (right, H3_COMPONENT_TRANSFORMER, fl, "transformer");
  assert_at (wrong, H3_COMPONENT_VIDEO_VAE, fl, "video_vae");
  g_assert_null (h3_checkpoint_path (wrong, H3_COMPONENT_TRANSFORMER, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, fl, "fl2va");
  assert_absent (only, H3_COMPONENT_VIDEO_VAE, ref);
}

static void
test_demo (void)
{
  g_autoptr (H3Checkpoint) c =
      open_good (h3_test_demo_dir (), H3_PARTITION_FL2VA);

  for (guint i = 0; i < H3_N_COMPONENTS; i++)
    assert_at (c, i, h3_test_demo_dir (), h3_component_name (i));
}

static void
test_diffusers (void)
{
  const gchar *root = h3_test_tiny_diffusers_dir ();
  g_autoptr (H3Checkpoint) fl = open_good (root, H3_PARTITION_FL2VA);
  g_autoptr (H3Checkpoint) ref = open_good (root, H3_PARTITION_REF2VA);
  gdouble video, audio;

  g_assert_cmpint (h3_checkpoint_naming (fl), ==, H3_NAMING_DIFFUSERS);
  assert_at (fl, H3_COMPONENT_TRANSFORMER, root, "transformer");
  assert_at (ref, H3_COMPONENT_TRANSFORMER, root, "transformer_ref");
  assert_at (fl, H3_COMPONENT_VIDEO_VAE, root, "vae");
  assert_at (fl, H3_COMPONENT_AUDIO_VAE, root, "audio_vae");
  assert_at (fl, H3_COMPONENT_TEXT_ENCODER, root, "text_encoder");
  assert_at (fl, H3_COMPONENT_TOKENIZER, root, "tokenizer");
  h3_checkpoint_shifts (fl, &video, &audio);
  g_assert_cmpfloat (video, ==, 12);
  g_assert_cmpfloat (audio, ==, 3);
}

/* One component's folder, and a file in it. */
static void
test_component_folders (void)
{
  static const struct {
    gboolean diffusers;
    const gchar *folder, *file;
    H3Component component;
  } cases[] = {
    { FALSE, "FL2VA/transformer", "model-00001-of-00003.safetensors",
        H3_COMPONENT_TRANSFORMER },
    { FALSE, "FL2VA/text_encoder", "model-00002-of-00002.safetensors",
        H3_COMPONENT_TEXT_ENCODER },
    { FALSE, "FL2VA/video_vae", "source/model.safetensors",
        H3_COMPONENT_VIDEO_VAE },
    { FALSE, "FL2VA/audio_vae", "model.safetensors", H3_COMPONENT_AUDIO_VAE },
    { FALSE, "FL2VA/tokenizer", "vocab.json", H3_COMPONENT_TOKENIZER },
    { TRUE, "transformer_ref", "config.json", H3_COMPONENT_TRANSFORMER },
    { TRUE, "vae", "diffusion_pytorch_model.safetensors",
        H3_COMPONENT_VIDEO_VAE },
    { TRUE, "audio_vae", "diffusion_pytorch_model.safetensors",
        H3_COMPONENT_AUDIO_VAE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const gchar *root = cases[i].diffusers ? h3_test_tiny_diffusers_dir ()
                                           : h3_test_tiny_dir ();
    g_autofree gchar *dir = g_build_filename (root, cases[i].folder, NULL);
    g_autofree gchar *file = g_build_filename (dir, cases[i].file, NULL);
    g_autoptr (H3Checkpoint) by_dir = open_good (dir, H3_PARTITION_FL2VA);
    g_autoptr (H3Checkpoint) by_file = open_good (file, H3_PARTITION_FL2VA);

    assert_at (by_dir, cases[i].component, root, cases[i].folder);
    assert_at (by_file, cases[i].component, root, cases[i].folder);
    if (cases[i].component != H3_COMPONENT_TOKENIZER)
      g_assert_cmpint (h3_checkpoint_naming (by_dir), ==,
          cases[i].diffusers ? H3_NAMING_DIFFUSERS : H3_NAMING_OFFICIAL);
    assert_absent (by_dir,
        cases[i].component == H3_COMPONENT_VIDEO_VAE ? H3_COMPONENT_AUDIO_VAE
                                                     : H3_COMPONENT_VIDEO_VAE,
        dir);
  }
}

/* A text encoder's folder brings the tokenizer beside it. */
static void
test_tokenizer_beside (void)
{
  g_autofree gchar *dir =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "text_encoder", NULL);
  g_autoptr (H3Checkpoint) c = open_good (dir, H3_PARTITION_FL2VA);

  assert_at (c, H3_COMPONENT_TOKENIZER, h3_test_tiny_dir (), "FL2VA/tokenizer");
}

static void
write_text (const gchar *path, const gchar *text)
{
  h3_test_write_file (path, text, strlen (text));
}

static void
test_nothing (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *absent = g_build_filename (dir, "absent", NULL);
  g_autofree gchar *file = g_build_filename (dir, "x.safetensors", NULL);
  g_autofree gchar *index = g_build_filename (dir, "model_index.json", NULL);
  g_autofree gchar *vae = g_build_filename (dir, "vae", NULL);
  g_autoptr (GError) error = NULL;

#define REFUSED(path, code, ...)                                               \
  G_STMT_START                                                                 \
  {                                                                            \
    g_assert_null (h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error));     \
    h3_test_assert_h3_error (error, code, __VA_ARGS__);                        \
    g_clear_error (&error);                                                    \
  }                                                                            \
  G_STMT_END
  REFUSED (absent, H3_ERROR_NOT_FOUND, absent);
  REFUSED (dir, H3_ERROR_WRONG_TYPE, dir, "looked for FL2VA/");
  g_assert_cmpint (g_chmod (dir, 0), ==, 0);
  if (g_access (dir, R_OK) != 0) /* root may read all */
    REFUSED (dir, H3_ERROR_OPEN, dir, g_strerror (EACCES));
  g_assert_cmpint (g_chmod (dir, 0700), ==, 0);
  h3_test_write_file (file, "x", 1);
  REFUSED (file, H3_ERROR_READ, file, "not a safetensors file");

  g_assert_cmpint (g_mkdir (vae, 0777), ==, 0);
  write_text (index, "{");
  REFUSED (dir, H3_ERROR_READ, index);
  write_text (index, "{\"_class_name\":\"FluxPipeline\"}");
  REFUSED (dir, H3_ERROR_WRONG_TYPE, index, "FluxPipeline");
  write_text (index, "{\"_class_name\":7}");
  REFUSED (dir, H3_ERROR_WRONG_TYPE, index, "_class_name is 7");
#undef REFUSED
  h3_test_remove_tree (dir);
}

/* model_index.json may not lead outside its folder, nor shift by nothing. */
static void
test_bad_model_index (void)
{
  static const struct {
    const gchar *text, *needle;
  } bad[] = {
    { "{\"_class_name\":\"MiniMaxH3ModularPipeline\",\"vae\":[\"d\",\"A\","
      "{\"subfolder\":\"../vae\"}]}",
        "vae.2.subfolder is \"../vae\"" },
    { "{\"_class_name\":\"MiniMaxH3ModularPipeline\",\"vae\":[\"d\",\"A\","
      "{\"subfolder\":\"/etc\"}]}",
        "vae.2.subfolder" },
    { "{\"_class_name\":\"MiniMaxH3ModularPipeline\",\"vae\":[\"d\",\"A\","
      "{\"subfolder\":1}]}",
        "vae.2.subfolder is 1" },
    { "{\"_class_name\":\"MiniMaxH3Pipeline\",\"_minimax_h3\":"
      "{\"sigma_shift_scales\":{\"video\":0}}}",
        "sigma_shift_scales.video is 0" },
    { "{\"_class_name\":\"MiniMaxH3Pipeline\",\"_minimax_h3\":"
      "{\"sigma_shift_scales\":{\"audio\":\"3\"}}}",
        "sigma_shift_scales.audio is \"3\"" },
  };
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *index = g_build_filename (dir, "model_index.json", NULL);
  g_autofree gchar *vae = g_build_filename (dir, "vae", NULL);

  g_assert_cmpint (g_mkdir (vae, 0777), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;

    write_text (index, bad[i].text);
    g_assert_null (h3_checkpoint_open (dir, H3_PARTITION_FL2VA, &error));
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, index, bad[i].needle);
  }
  h3_test_remove_tree (dir);
}

static void
test_shifts (void)
{
  static const gchar text[] =
      "{\"_class_name\":\"MiniMaxH3Pipeline\",\"_minimax_h3\":"
      "{\"sigma_shift_scales\":{\"video\":7.5}}}";
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *index = g_build_filename (dir, "model_index.json", NULL);
  g_autofree gchar *vae = g_build_filename (dir, "video_vae", NULL);
  g_autoptr (H3Checkpoint) c = NULL;
  gdouble video, audio;

  g_assert_cmpint (g_mkdir (vae, 0777), ==, 0);
  h3_test_write_file (index, text, sizeof text - 1);
  c = open_good (dir, H3_PARTITION_FL2VA);
  h3_checkpoint_shifts (c, &video, &audio);
  g_assert_cmpfloat (video, ==, 7.5);
  g_assert_cmpfloat (audio, ==, 3);
  h3_test_remove_tree (dir);
}

static void
test_identity (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *root = g_build_filename (dir, "vae", NULL);
  g_autofree gchar *source =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "video_vae", NULL);
  g_autofree gchar *weights =
      g_build_filename (root, "source", "model.safetensors", NULL);
  g_autofree gchar *first = NULL, *same = NULL, *changed = NULL;
  g_autoptr (H3Checkpoint) c = NULL;
  g_autoptr (GError) error = NULL;

  h3_test_copy_tree (source, root);
  c = open_good (root, H3_PARTITION_FL2VA);
  first = h3_checkpoint_identity (c, H3_COMPONENT_VIDEO_VAE, &error);
  same = h3_checkpoint_identity (c, H3_COMPONENT_VIDEO_VAE, &error);
  g_assert_cmpstr (first, ==, same);
  h3_test_truncate_file (weights, 100);
  changed = h3_checkpoint_identity (c, H3_COMPONENT_VIDEO_VAE, &error);
  g_assert_cmpstr (first, !=, changed);
  g_assert_null (h3_checkpoint_identity (c, H3_COMPONENT_AUDIO_VAE, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NOT_FOUND, "audio_vae");
  h3_test_remove_tree (dir);
}

void
add_component_tests (void)
{
  g_test_add_func ("/component/release", test_release);
  g_test_add_func ("/component/release-ref", test_release_ref);
  g_test_add_func ("/component/partition-folder", test_partition_folder);
  g_test_add_func ("/component/demo", test_demo);
  g_test_add_func ("/component/diffusers", test_diffusers);
  g_test_add_func ("/component/folders", test_component_folders);
  g_test_add_func ("/component/tokenizer-beside", test_tokenizer_beside);
  g_test_add_func ("/component/nothing", test_nothing);
  g_test_add_func ("/component/bad-model-index", test_bad_model_index);
  g_test_add_func ("/component/shifts", test_shifts);
  g_test_add_func ("/component/identity", test_identity);
}
