/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checkpoints in the forms people have, each component in another, through h3src:
 * the same clip as from what the quantised ones stand for in float32; parts that
 * are the same are loaded once; and what is said about files whose row order or
 * partition nothing shows. */
#include <gst/gst.h>

#include "h3-test-device.h"

#define SETTINGS "prompt=fox width=96 height=64 frames=22 steps=2 seed=3"

/* --- places --- */

static gchar *test_dir; /* GGUF with a tokenizer beside it */

static gchar *
quantised (const gchar *form, const gchar *suffix)
{
  g_autofree gchar *name = g_strconcat (form, suffix, NULL);

  return g_build_filename (g_getenv ("H3_QUANTISED_DIR"), name, NULL);
}

/* The path of a component: "tiny", "diffusers" and "comfy" are the plain ones. */
static gchar *
form_path (const gchar *form, const gchar *suffix)
{
  if (g_str_equal (form, "tiny"))
    return g_strdup (h3_test_tiny_dir ());
  if (g_str_equal (form, "diffusers"))
    return g_strdup (h3_test_tiny_diffusers_dir ());
  if (g_str_equal (form, "comfy"))
    return g_strdup (h3_test_tiny_comfy_dir ());
  if (g_str_equal (form, "f16"))
    return g_build_filename (h3_test_tiny_pruned_dir (), "vae", NULL);
  if (g_str_equal (form, "gguf")) {
    g_autofree gchar *name = g_strconcat ("gguf", suffix, NULL);

    return g_build_filename (test_dir, name, "FL2VA", NULL);
  }
  return quantised (form, suffix);
}

static void
make_gguf_folder (const gchar *suffix)
{
  g_autofree gchar *name = g_strconcat ("flat", suffix, NULL);
  g_autofree gchar *to_name = g_strconcat ("gguf", suffix, NULL);
  g_autofree gchar *from =
      g_build_filename (g_getenv ("H3_QUANTISED_DIR"), "../gguf", name, NULL);
  g_autofree gchar *to = g_build_filename (test_dir, to_name, NULL);
  g_autofree gchar *tokenizer =
      g_build_filename (h3_test_tiny_dir (), "FL2VA/tokenizer", NULL);
  g_autofree gchar *to_tokenizer =
      g_build_filename (to, "FL2VA/tokenizer", NULL);

  h3_test_copy_tree (from, to);
  h3_test_copy_tree (tokenizer, to_tokenizer);
}

/* --- clips --- */

typedef struct {
  GByteArray *video, *audio;
  GPtrArray *warnings; /* texts, owned */
} Clip;

static void
clip_clear (Clip *clip)
{
  g_byte_array_unref (clip->video);
  g_byte_array_unref (clip->audio);
  g_ptr_array_unref (clip->warnings);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Clip, clip_clear)

static void
keep (GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer bytes)
{
  GstMapInfo map;

  g_assert_true (gst_buffer_map (buffer, &map, GST_MAP_READ));
  g_byte_array_append (bytes, map.data, map.size);
  gst_buffer_unmap (buffer, &map);
}

static GByteArray *
keep_from (GstElement *pipeline, const gchar *name)
{
  GByteArray *bytes = g_byte_array_new ();
  g_autoptr (GstElement) sink = gst_bin_get_by_name (GST_BIN (pipeline), name);

  g_object_set (sink, "signal-handoffs", TRUE, NULL);
  g_signal_connect (sink, "handoff", G_CALLBACK (keep), bytes);
  return bytes;
}

static void
wait_for_end (GstElement *pipeline, GPtrArray *warnings)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);

  for (;;) {
    g_autoptr (GstMessage) message =
        gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
            GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_WARNING);
    g_autoptr (GError) error = NULL;

    g_assert_nonnull (message);
    if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS)
      return;
    if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR) {
      gst_message_parse_error (message, &error, NULL);
      g_assert_no_error (error);
    }
    gst_message_parse_warning (message, &error, NULL);
    if (strstr (error->message, "frames H3 is trained on"))
      continue;
    g_ptr_array_add (warnings, g_strdup (error->message));
  }
}

static void
clip_make (Clip *clip, const gchar *settings)
{
  g_autofree gchar *launch = g_strdup_printf (
      "h3src name=h3 %s %s h3.video ! video/x-raw,format=RGB ! fakesink "
      "name=video sync=false h3.audio ! fakesink name=audio sync=false",
      SETTINGS, settings);
  g_autoptr (GError) error = NULL;
  GstElement *pipeline = gst_parse_launch (launch, &error);

  g_assert_no_error (error);
  clip->video = keep_from (pipeline, "video");
  clip->audio = keep_from (pipeline, "audio");
  clip->warnings = g_ptr_array_new_with_free_func (g_free);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  wait_for_end (pipeline, clip->warnings);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (pipeline);
}

/* Frames but for one code in a thousand that is off by one, sounds to 1e-4; a GPU's as from
 * a prompt. */
static void
assert_same_clip (const Clip *got, const Clip *want)
{
  g_autofree gint32 *codes = g_new (gint32, want->video->len);

  g_assert_cmpuint (got->video->len, ==, want->video->len);
  for (guint i = 0; i < want->video->len; i++)
    codes[i] = want->video->data[i];
  h3_test_assert_codes (got->video->data, codes, want->video->len);
  g_assert_cmpuint (got->audio->len, ==, want->audio->len);
  h3_test_assert_max_abs ((const gfloat *) got->audio->data,
      (const gfloat *) want->audio->data, want->audio->len / sizeof (gfloat),
      H3_TEST_REQUEST_SAMPLES);
}

/* --- mixes --- */

typedef struct {
  const gchar *name;
  const gchar *textenc, *denoise, *videovae, *audiovae;
} Mix;

static const Mix mixes[] = {
  { "encoder-gguf", "gguf", "mxfp8-diffusers", "int8-official", "diffusers" },
  { "encoder-int8", "int8-metadata", "comfy", "diffusers", "comfy" },
  { "transformer-fp8", "tiny", "fp8-oldest", "comfy", "tiny" },
  { "transformer-gguf", "diffusers", "gguf", "tiny", "comfy" },
  { "encoder-nvfp4", "nvfp4-official", "nvfp4-metadata", "int8-metadata",
      "tiny" },
  { "half-floats", "fp8-cast", "int8-official", "f16", "comfy" },
};

#ifdef __SANITIZE_ADDRESS__ /* slow, and the loader is the same in all */
#define N_MIXES 1
#else
#define N_MIXES G_N_ELEMENTS (mixes)
#endif

static void
make_mix (const Mix *mix, const gchar *suffix, Clip *clip)
{
  g_autofree gchar *textenc = form_path (mix->textenc, suffix);
  g_autofree gchar *denoise = form_path (mix->denoise, suffix);
  g_autofree gchar *videovae = form_path (mix->videovae, suffix);
  g_autofree gchar *audiovae = form_path (mix->audiovae, suffix);
  g_autofree gchar *settings =
      g_strdup_printf ("textenc::model-path=%s denoise::model-path=%s "
                       "videovae::model-path=%s "
                       "audiovae::model-path=%s partition=fl2va",
          textenc, denoise, videovae, audiovae);

  clip_make (clip, settings);
}

static void
test_mix (gconstpointer data)
{
  g_auto (Clip) quantised_clip = { 0 }, decoded = { 0 };

  make_mix (data, "", &quantised_clip);
  make_mix (data, "-decoded", &decoded);
  assert_same_clip (&quantised_clip, &decoded);
}

/* --- sharing --- */

static guint
loads (GstElement *element)
{
  g_autoptr (GstStructure) stats = NULL;
  guint n = 0;

  g_object_get (element, "stats", &stats, NULL);
  gst_structure_get_uint (stats, "model-loads", &n);
  return n;
}

static GstElement *
load_element (const gchar *factory, const gchar *path, const gchar *partition)
{
  GstElement *element = gst_element_factory_make (factory, NULL);
  guint waited = 0;

  g_assert_nonnull (element);
  g_object_set (element, "model-path", path, NULL);
  gst_util_set_object_arg (G_OBJECT (element), "preload", "ready");
  if (partition)
    gst_util_set_object_arg (G_OBJECT (element), "partition", partition);
  g_assert_cmpint (gst_element_set_state (element, GST_STATE_READY), ==,
      GST_STATE_CHANGE_SUCCESS);
  while (loads (element) == 0 && waited++ < 2000)
    g_usleep (5000);
  g_assert_cmpuint (loads (element), ==, 1);
  return element;
}

static void
drop_element (GstElement *element)
{
  gst_element_set_state (element, GST_STATE_NULL);
  gst_object_unref (element);
}

/* Both partitions of a folder and a third user with an encoder of its own: each
 * file is loaded once, however it was named. */
static void
test_shared (void)
{
  const gchar *folder = h3_test_tiny_comfy_dir ();
  g_autofree gchar *file = g_build_filename (folder,
      "text_encoders/qwen3vl_32b_minimax_h3_bf16.safetensors", NULL);
  g_autofree gchar *other = quantised ("int8-metadata", "");
  GstElement *users[] = {
    load_element ("h3textenc", folder, NULL),
    load_element ("h3textenc", file, NULL),
    load_element ("h3textenc", other, NULL),
    load_element ("h3denoise", folder, "fl2va"),
    load_element ("h3denoise", folder, "ref2va"),
    load_element ("h3denoise", folder, "fl2va"),
    load_element ("h3videovae", folder, NULL),
    load_element ("h3videovae", folder, NULL),
  };

  for (guint i = 0; i < G_N_ELEMENTS (users); i++)
    g_assert_cmpuint (loads (users[i]), ==, 1);
  for (guint i = 0; i < G_N_ELEMENTS (users); i++)
    drop_element (users[i]);
}

static guint64
weight_bytes (GstElement *element)
{
  g_autoptr (GstStructure) stats = NULL;
  guint64 n = 0;

  g_object_get (element, "stats", &stats, NULL);
  g_assert_true (gst_structure_get_uint64 (stats, "weight-bytes", &n));
  return n;
}

/* Another weight type is another model, smaller, and makes nearly the same
 * clip. */
static void
test_weight_type (void)
{
  static const gchar *const factories[] = { "h3textenc", "h3denoise" };
  const gchar *folder = h3_test_tiny_dir ();
  g_autofree gchar *plain =
      g_strdup_printf ("model-path=%s partition=fl2va", folder);
  g_autofree gchar *narrow = g_strdup_printf ("%s weight-type=fp8", plain);
  g_auto (Clip) stored = { 0 }, fp8 = { 0 };
  gdouble sum = 0;

  for (guint i = 0; i < G_N_ELEMENTS (factories); i++) {
    GstElement *a = load_element (factories[i], folder, NULL);
    GstElement *b = gst_element_factory_make (factories[i], NULL);

    g_object_set (b, "model-path", folder, NULL);
    gst_util_set_object_arg (G_OBJECT (b), "weight-type", "fp8");
    gst_util_set_object_arg (G_OBJECT (b), "preload", "ready");
    gst_element_set_state (b, GST_STATE_READY);
    g_assert_cmpuint (weight_bytes (b), <, weight_bytes (a) * 4 / 5);
    for (guint k = 0; loads (b) == 0 && k < 2000; k++)
      g_usleep (5000);
    g_assert_cmpuint (loads (b), ==, 1);
    drop_element (a);
    drop_element (b);
  }
  clip_make (&stored, plain);
  clip_make (&fp8, narrow);
  g_assert_cmpuint (fp8.video->len, ==, stored.video->len);
  g_assert_cmpint (memcmp (fp8.video->data, stored.video->data, fp8.video->len),
      !=, 0);
  for (guint i = 0; i < fp8.video->len; i++)
    sum += ABS ((gint) fp8.video->data[i] - stored.video->data[i]);
  g_assert_cmpfloat (sum / fp8.video->len, <, 8);
}

/* --- what is doubted --- */

static gchar *
copy_transformer (const gchar *from, const gchar *file, gboolean with_config)
{
  gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *to = g_build_filename (dir, file, NULL);
  g_autofree gchar *config = g_build_filename (dir, "config.json", NULL);
  g_autofree gchar *official_config = g_build_filename (h3_test_tiny_dir (),
      "FL2VA/transformer/config.json", NULL);

  h3_test_copy_file (from, to);
  if (with_config)
    h3_test_copy_file (official_config, config);
  return dir;
}

/* Rows in the release's order under a name that says ComfyUI's: a warning, and
 * with the property the right clip and none. */
static void
test_qkv_layout (void)
{
  g_autofree gchar *form = quantised ("int8-official", "");
  g_autofree gchar *from =
      g_build_filename (form, "FL2VA/transformer/model.safetensors", NULL);
  g_autofree gchar *dir =
      copy_transformer (from, "minimax_h3_fl2va_int8.safetensors", TRUE);
  g_autofree gchar *right = g_strdup_printf ("model-path=%s "
                                             "denoise::model-path=%s "
                                             "qkv-layout=grouped-per-head",
      form, dir);
  g_autofree gchar *wrong =
      g_strdup_printf ("model-path=%s denoise::model-path=%s", form, dir);
  g_autofree gchar *plain =
      g_strdup_printf ("model-path=%s qkv-layout=auto", form);
  g_auto (Clip) said = { 0 }, guessed = { 0 }, official = { 0 };

  clip_make (&said, right);
  clip_make (&guessed, wrong);
  clip_make (&official, plain);
  g_assert_cmpuint (said.warnings->len, ==, 0);
  g_assert_cmpuint (guessed.warnings->len, ==, 1);
  g_assert_nonnull (
      strstr (guessed.warnings->pdata[0], "set qkv-layout=grouped-per-head"));
  g_assert_cmpuint (official.warnings->len, ==, 1);
  g_assert_nonnull (
      strstr (official.warnings->pdata[0], "set qkv-layout=contiguous"));
  assert_same_clip (&said, &official);
  g_assert_cmpint (memcmp (said.video->data, guessed.video->data,
                       said.video->len),
      !=, 0);
  h3_test_remove_tree (dir);
}

static void
test_partition (void)
{
  static const struct {
    const gchar *file, *settings, *warning;
  } cases[] = {
    { "x.safetensors", "", "say partition=fl2va" },
    { "x.safetensors", "partition=fl2va", NULL },
    { "minimax_h3_fl2va.safetensors", "", NULL },
    { "minimax_h3_ref2va.safetensors", "",
        "has the name of the transformer for references" },
  };
  g_autofree gchar *from = g_build_filename (h3_test_tiny_comfy_dir (),
      "diffusion_models/minimax_h3_fl2va_bf16.safetensors", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *dir = copy_transformer (from, cases[i].file, FALSE);
    g_autofree gchar *settings =
        g_strdup_printf ("model-path=%s denoise::model-path=%s/%s %s",
            h3_test_tiny_dir (), dir, cases[i].file, cases[i].settings);
    g_auto (Clip) clip = { 0 };

    clip_make (&clip, settings);
    g_assert_cmpuint (clip.warnings->len, ==, cases[i].warning ? 1 : 0);
    if (cases[i].warning)
      g_assert_nonnull (strstr (clip.warnings->pdata[0], cases[i].warning));
    h3_test_remove_tree (dir);
  }
}

int
main (int argc, char **argv)
{
  int result;

  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  test_dir = h3_test_temp_dir ();
  make_gguf_folder ("");
  make_gguf_folder ("-decoded");
  for (guint i = 0; i < N_MIXES; i++) {
    g_autofree gchar *name = g_strconcat ("/forms/mix/", mixes[i].name, NULL);

    g_test_add_data_func (name, &mixes[i], test_mix);
  }
  g_test_add_func ("/forms/shared", test_shared);
  g_test_add_func ("/forms/weight-type", test_weight_type);
  g_test_add_func ("/forms/qkv-layout", test_qkv_layout);
  g_test_add_func ("/forms/partition", test_partition);
  result = g_test_run ();
  h3_test_remove_tree (test_dir);
  g_free (test_dir);
  return result;
}
