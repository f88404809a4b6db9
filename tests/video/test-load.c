/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Layouts and types that mean the same decoder, and files that are refused. */
#include <math.h>
#include <string.h>

#include "fill-model.h"
#include "test-video.h"
#include "model/video/video-private.h"
#include "tests/tools/h3-test-device.h"

/* Small enough to decode often, with the release's tile: both dialects of the
 * configuration say the same. */
static const FillGeometry small_model = {
  .channels = 4,
  .ratio = 16,
  .layers = 2,
  .heads = 3,
  .head_dim = 8,
  .registers = 3,
  .ffn_mult = 2,
  .tile = 256,
  .overlap = 64,
};

#define QKV "decoder.transformer_blocks.1.attn.to_qkv.weight"

static Clip *
decode_folder (const gchar *dir)
{
  g_autoptr (H3VideoVae) vae = test_vae (dir);
  gint channels = h3_video_vae_config (vae)->channels;
  g_autofree gfloat *latent = fill_latent (channels, 7, 4, 6);

  return test_decode (vae, latent, 7, 4, 6, H3_COMPOSITION_RAW);
}

static void
assert_same_clip (const Clip *a, const Clip *b)
{
  gsize bytes = (gsize) 3 * a->frames * a->height * a->width * sizeof (gfloat);

  g_assert_cmpint (a->frames, ==, b->frames);
  g_assert_cmpmem (a->pixels, bytes, b->pixels, bytes);
}

static void
test_diffusers_layout (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  g_autoptr (GPtrArray) split =
      fill_to_diffusers (tensors, small_model.head_dim);
  gchar *official = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  gchar *diffusers = fill_write_diffusers (&small_model, split, FILL_F32, NULL);
  g_autoptr (Clip) a = decode_folder (official);
  g_autoptr (Clip) b = decode_folder (diffusers);

  assert_same_clip (a, b);
  fill_delete (official);
  fill_delete (diffusers);
}

/* The generated checkpoint, with the configuration files as they are. */
static void
test_tiny_layouts (void)
{
  g_autoptr (H3VideoVae) official = test_vae (h3_test_tiny_dir ());
  g_autoptr (H3VideoVae) diffusers = test_vae (h3_test_tiny_diffusers_dir ());
  g_autoptr (Clip) a = decode_folder (h3_test_tiny_dir ());
  g_autoptr (Clip) b = decode_folder (h3_test_tiny_diffusers_dir ());

  g_assert_cmpmem (h3_video_vae_config (official), sizeof (H3VideoVaeConfig),
      h3_video_vae_config (diffusers), sizeof (H3VideoVaeConfig));
  assert_same_clip (a, b);
}

/* A narrow file is the wide file of the numbers it holds. */
static void
test_narrow_type (gconstpointer data)
{
  FillType type = GPOINTER_TO_INT (data);
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  gchar *narrow = fill_write_official (&small_model, tensors, type, NULL);
  gchar *wide;
  g_autoptr (Clip) a = NULL;
  g_autoptr (Clip) b = NULL;

  for (guint i = 0; i < tensors->len; i++) {
    FillTensor *tensor = tensors->pdata[i];
    gint64 n = 1;

    for (guint d = 0; d < tensor->rank; d++)
      n *= tensor->shape[d];
    for (gint64 k = 0; k < n; k++)
      tensor->values[k] = fill_round (tensor->values[k], type);
  }
  wide = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  a = decode_folder (narrow);
  b = decode_folder (wide);
  h3_test_assert_close (a->pixels, b->pixels,
      (gsize) 3 * a->frames * a->height * a->width, 1e-6);
  fill_delete (narrow);
  fill_delete (wide);
}

/* A device like the CPU whose products have float16 operands; on a GPU they
 * have them anyway. */
static H3VideoVae *
load_rounded (const gchar *dir, GError **error)
{
  g_autoptr (H3Device) device = h3_test_device_new (1);
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (dir, H3_PARTITION_FL2VA, error);

  if (!checkpoint)
    return NULL;
  device->vae_dtype = H3_DTYPE_F16;
  return h3_video_vae_load (checkpoint, device, NULL, NULL, NULL, error);
}

/* video-vae.md 7.1: the blocks' products and post_quant_conv are rounded, the
 * two projections around them are not. */
static void
test_rounded (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  gchar *dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3VideoVae) vae = load_rounded (dir, &error);
  const FillTensor *w2 =
      fill_find (tensors, "decoder.transformer_blocks.1.ff.w2.weight");
  const H3Tensor *got;
  g_autoptr (H3Stream) stream = NULL;
  g_autofree gfloat *values = NULL;

  g_assert_no_error (error);
  g_assert_cmpint (vae->post_quant.weight->tensor->dtype, ==, H3_DTYPE_F16);
  g_assert_cmpint (vae->x_embedder.weight->tensor->dtype, ==, H3_DTYPE_F32);
  g_assert_cmpint (vae->proj_out.weight->tensor->dtype, ==, H3_DTYPE_F32);
  g_assert_cmpint (vae->blocks[0].norm1->dtype, ==, H3_DTYPE_F32);
  for (gint i = 0; i < small_model.layers; i++) {
    const H3VideoBlock *b = &vae->blocks[i];

    g_assert_cmpint (b->qkv.weight->tensor->dtype, ==, H3_DTYPE_F16);
    g_assert_cmpint (b->out.weight->tensor->dtype, ==, H3_DTYPE_F16);
    g_assert_cmpint (b->w1.weight->tensor->dtype, ==, H3_DTYPE_F16);
  }
  got = vae->blocks[1].w2.weight->tensor;
  stream = h3_stream_new (got->device, &error);
  g_assert_no_error (error);
  values = h3_test_to_host (stream, got);
  for (gint64 i = 0; i < h3_tensor_size (got); i++)
    g_assert_cmpfloat (values[i], ==, fill_round (w2->values[i], FILL_F16));
  fill_delete (dir);
}

static void
test_rounded_overflow (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  g_autoptr (GError) error = NULL;
  gchar *dir;

  fill_find (tensors, QKV)->values[5] = 70000;
  dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  g_assert_null (load_rounded (dir, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, QKV, "element 5 is beyond",
      "float16");
  fill_delete (dir);
}

static void
test_plan (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  gchar *dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (dir, H3_PARTITION_FL2VA, NULL);
  guint64 bytes, expected = 2 * 4 * sizeof (gfloat); /* mean and std */
  const H3Device narrow = { .name = "narrow", .vae_dtype = H3_DTYPE_F16 };
  guint64 narrowed, halved = 0;
  H3VideoVaeConfig config;
  g_autoptr (GError) error = NULL;

  g_assert_true (h3_video_vae_plan (checkpoint, NULL, &config, &bytes, &error));
  g_assert_no_error (error);
  g_assert_cmpint (config.channels, ==, 4);
  g_assert_cmpint (config.layers, ==, 2);
  g_assert_cmpint (config.heads, ==, 3);
  g_assert_cmpint (config.head_dim, ==, 8);
  g_assert_cmpint (config.registers, ==, 3);
  g_assert_cmpint (config.ffn, ==, 48);
  g_assert_cmpint (config.ratio, ==, 16);
  g_assert_cmpint (config.tile, ==, 256);
  g_assert_cmpint (config.min_overlap, ==, 64);

  for (guint i = 0; i < tensors->len; i++) {
    const FillTensor *tensor = tensors->pdata[i];
    guint64 size = sizeof (gfloat);

    for (guint d = 0; d < tensor->rank; d++)
      size *= tensor->shape[d];
    if (!strstr (tensor->name, "mask_token"))
      expected += size;
    /* what a device multiplies in float16 it keeps in it */
    if (strstr (tensor->name, "post_quant_conv.weight") ||
        (strstr (tensor->name, "transformer_blocks.") &&
            g_str_has_suffix (tensor->name, ".weight") &&
            !strstr (tensor->name, "norm")))
      halved += size;
  }
  g_assert_cmpuint (bytes, ==, expected);
  g_assert_true (
      h3_video_vae_plan (checkpoint, &narrow, NULL, &narrowed, NULL));
  g_assert_cmpuint (narrowed, ==, expected - halved / 2);
  g_assert_true (h3_video_vae_plan (checkpoint, NULL, NULL, NULL, NULL));
  fill_delete (dir);
}

/* What the configuration does not say the tensors do. */
static void
test_short_configuration (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  gchar *dir = fill_write_official (&small_model, tensors, FILL_F32,
      "{\"vit_decoder_kwargs\":{\"dim_head\":8}}");
  gchar *full = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  g_autoptr (Clip) a = decode_folder (dir);
  g_autoptr (Clip) b = decode_folder (full);

  assert_same_clip (a, b);
  fill_delete (dir);
  fill_delete (full);
}

/* The encoder's half and other known names may be there or not, and be
 * anything: nobody reads them. */
static void
test_encoder_is_not_read (void)
{
  static const gchar *const names[] = { "encoder.conv_in.weight",
    "encoder.down.0.block.0.norm1.weight", "quant_conv.weight", "latents_mean",
    "latents_std" };
  static const gint64 shape[] = { 2 };
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  gchar *dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  g_autoptr (Clip) without = decode_folder (dir);
  g_autoptr (Clip) with = NULL;

  fill_delete (dir);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    fill_add (tensors, names[i], 1, shape);
    fill_find (tensors, names[i])->values[0] = NAN;
  }
  fill_find (tensors, "decoder.mask_token")->values[0] = NAN;
  dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  with = decode_folder (dir);
  assert_same_clip (without, with);
  fill_delete (dir);
}

/* Other programs' files: the same names behind a prefix. */
static void
test_prefix (void)
{
  static const gchar *const prefixes[] = { "vae.", "first_stage_model." };
  g_autoptr (GPtrArray) plain = fill_tensors (&small_model);
  gchar *dir = fill_write_official (&small_model, plain, FILL_F32, NULL);
  g_autoptr (Clip) expected = decode_folder (dir);

  fill_delete (dir);
  for (guint p = 0; p < G_N_ELEMENTS (prefixes); p++) {
    g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
    g_autoptr (Clip) clip = NULL;

    for (guint i = 0; i < tensors->len; i++) {
      FillTensor *tensor = tensors->pdata[i];
      g_autofree gchar *name = tensor->name;
      tensor->name = g_strconcat (prefixes[p], name, NULL);
    }
    dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
    clip = decode_folder (dir);
    assert_same_clip (clip, expected);
    fill_delete (dir);
  }
}

static void
assert_refused (const gchar *dir, gint code, const gchar *a, const gchar *b)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3VideoVae) vae = test_load (dir, &error);

  g_assert_null (vae);
  h3_test_assert_h3_error (error, code, a, b);
}

static void
test_missing_tensors (void)
{
  g_autoptr (GPtrArray) all = fill_tensors (&small_model);

  for (guint i = 0; i < all->len; i++) {
    const gchar *name = ((FillTensor *) all->pdata[i])->name;
    g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
    gchar *dir;

    if (strstr (name, "mask_token"))
      continue;
    fill_remove (tensors, name);
    dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
    /* scale1 counts the layers: without it there are fewer than configured */
    assert_refused (dir, H3_ERROR_WRONG_TYPE,
        strstr (name, "scale1") ? "layers" : name, "video decoder");
    fill_delete (dir);
  }
}

static void
test_missing_diffusers_tensor (void)
{
  const gchar *name = "decoder.transformer_blocks.1.attn.to_k.bias";
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  g_autoptr (GPtrArray) split =
      fill_to_diffusers (tensors, small_model.head_dim);
  gchar *dir;

  fill_remove (split, name);
  dir = fill_write_diffusers (&small_model, split, FILL_F32, NULL);
  assert_refused (dir, H3_ERROR_WRONG_TYPE, name, "video decoder");
  fill_delete (dir);
}

static void
test_wrong_shapes (void)
{
  g_autoptr (GPtrArray) all = fill_tensors (&small_model);

  for (guint i = 0; i < all->len; i++) {
    const gchar *name = ((FillTensor *) all->pdata[i])->name;
    g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
    FillTensor *tensor = fill_find (tensors, name);
    g_autoptr (GError) error = NULL;
    g_autoptr (H3VideoVae) vae = NULL;
    gchar *dir;

    if (strstr (name, "mask_token"))
      continue;
    /* how many registers there are is the tensor's to say */
    tensor->shape[tensor->rank == 3 ? 2 : tensor->rank > 3 ? 1 : 0] -= 1;
    dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
    vae = test_load (dir, &error);
    g_assert_null (vae);
    g_assert_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE);
    fill_delete (dir);
  }
}

static void
test_unexpected_tensor (void)
{
  static const gint64 shape[] = { 3 };
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  gchar *dir;

  fill_add (tensors, "decoder.transformer_blocks.0.attn.gate.bias", 1, shape);
  dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  assert_refused (dir, H3_ERROR_WRONG_TYPE,
      "decoder.transformer_blocks.0.attn.gate.bias", "video decoder");
  fill_delete (dir);
}

static void
test_not_finite (void)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  g_autoptr (GError) error = NULL;
  gchar *dir;

  fill_find (tensors, QKV)->values[5] = NAN;
  dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
  g_assert_null (test_load (dir, &error));
  g_assert_nonnull (error);
  g_assert_nonnull (strstr (error->message, QKV));
  fill_delete (dir);
}

/* Configurations that contradict the tensors or this decoder: what to replace,
 * by what, and what the message must name. */
typedef struct {
  const gchar *from, *to, *named;
} Edit;

static gchar *
edited (const gchar *text, const Edit *edit)
{
  g_auto (GStrv) parts = g_strsplit (text, edit->from, 2);

  g_assert_cmpuint (g_strv_length (parts), ==, 2);
  return g_strjoinv (edit->to, parts);
}

static void
test_wrong_network (void)
{
  static const Edit edits[] = {
    { "\"num_layers\":2", "\"num_layers\":3", "layers 3" },
    { "\"num_layers\":2", "\"num_layers\":0", "num_layers" },
    { "\"heads\":3", "\"heads\":4", "heads" },
    { "\"heads\":3", "\"heads\":\"3\"", "heads" },
    { "\"dim_head\":8", "\"dim_head\":10", "rope_dim_ratio" },
    { "\"z_channels\":4", "\"z_channels\":5", "z_channels" },
    { "\"vae_ratio\":16", "\"vae_ratio\":8", "patch" },
    { "\"vae_ratio_t\":4", "\"vae_ratio_t\":2", "vae_ratio_t" },
    { "\"rope_dim_ratio\":0.75", "\"rope_dim_ratio\":0.5", "rope_dim_ratio" },
    { "\"rope_dim_ratio\":0.75", "\"rope_dim_ratio\":1e300", "rope_dim_ratio" },
    { "\"rope_theta\":100.0", "\"rope_theta\":-1.0", "theta" },
    { "\"imagenet\"", "\"none\"", "pixel_norm_type" },
    { "\"silu\"", "\"gelu\"", "ffn_activation_fn" },
    { "\"causal_decoder\":false", "\"causal_decoder\":true", "causal_decoder" },
    { "\"use_vit_decoder\":true", "\"use_vit_decoder\":false",
        "use_vit_decoder" },
    { "\"qk_norm_affine\":false", "\"qk_norm_affine\":true", "qk_norm_affine" },
    { "\"vit_decoder_kwargs\":{",
        "\"vit_decoder_kwargs\":{\"num_register_tokens\":4,",
        "register tokens 4" },
  };
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  g_autofree gchar *text = fill_official_network (&small_model);

  for (guint i = 0; i < G_N_ELEMENTS (edits); i++) {
    g_autofree gchar *config = edited (text, &edits[i]);
    gchar *dir = fill_write_official (&small_model, tensors, FILL_F32, config);

    assert_refused (dir, H3_ERROR_WRONG_TYPE, edits[i].named, "source/");
    fill_delete (dir);
  }
}

static void
test_wrong_wrapper (void)
{
  static const Edit edits[] = {
    { "\"latent_channels\":4", "\"latent_channels\":5", "latents_mean" },
    { "\"latent_channels\":4", "\"latent_channels\":400", "latent_channels" },
    { "\"vae_clip_length\":17", "\"vae_clip_length\":18", "vae_clip_length" },
    { "\"vae_token_drop\":3", "\"vae_token_drop\":2", "vae_token_drop" },
    { "\"vae_tile_size\":256", "\"vae_tile_size\":250", "250 pixels" },
    { "\"vae_tile_overlap_min\":64", "\"vae_tile_overlap_min\":256",
        "overlap by 256" },
    { "[1.0,", "[0.0,", "standard deviation 0" },
    { "\"latents_std\":", "\"latents_sd\":", "latents_std" },
    { "\"source_path\":\"source\"", "\"source_path\":\"../source\"",
        "source_path" },
    { "\"model.safetensors\"", "\"/etc/passwd\"", "source_safetensors_path" },
    { "{", "{\"vae_decoder_tiling\":0,", "vae_decoder_tiling" },
  };
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  g_autofree gchar *text = fill_official_wrapper (&small_model);
  gchar *dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (edits); i++) {
    g_autofree gchar *config = edited (text, &edits[i]);

    fill_replace (dir, "config.json", config);
    assert_refused (dir, H3_ERROR_WRONG_TYPE, edits[i].named, "config.json");
  }
  fill_delete (dir);
}

static void
test_wrong_diffusers (void)
{
  static const Edit edits[] = {
    { "\"decoder_ffn_mult\":2", "\"decoder_ffn_mult\":4",
        "feed-forward width 96" },
    { "factors\":[16,1]", "factors\":[8,1]", "patch" },
    { "factors\":[16,1]", "factors\":[64,64]", "spatial_downsample_factors" },
    { "factors\":[2,2]", "factors\":[2,1]", "temporal_downsample_factors" },
    { "\"decoder_norm_eps\":1e-05", "\"decoder_norm_eps\":0.0", "eps" },
  };
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  g_autoptr (GPtrArray) split =
      fill_to_diffusers (tensors, small_model.head_dim);
  g_autofree gchar *text = fill_diffusers_config (&small_model);
  gchar *dir = fill_write_diffusers (&small_model, split, FILL_F32, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (edits); i++) {
    g_autofree gchar *config = edited (text, &edits[i]);

    fill_replace (dir, "config.json", config);
    assert_refused (dir, H3_ERROR_WRONG_TYPE, edits[i].named, "");
  }
  fill_delete (dir);
}

static void
test_other_class (void)
{
  static const Edit edit = { "AutoencoderKLMiniMaxH3", "AutoencoderKLWan",
    "AutoencoderKLWan" };
  g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
  g_autofree gchar *text = fill_diffusers_config (&small_model);
  g_autofree gchar *config = edited (text, &edit);
  gchar *dir = fill_write_diffusers (&small_model, tensors, FILL_F32, config);
  g_autofree gchar *root = g_path_get_dirname (dir);

  assert_refused (root, H3_ERROR_WRONG_TYPE, edit.named, "config.json");
  fill_delete (dir);
}

static void
test_missing_files (void)
{
  static const gchar *const files[] = { "source/config.json",
    "source/model.safetensors" };

  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autoptr (GPtrArray) tensors = fill_tensors (&small_model);
    gchar *dir = fill_write_official (&small_model, tensors, FILL_F32, NULL);
    g_autofree gchar *path = g_build_filename (dir, files[i], NULL);

    h3_test_remove_tree (path);
    assert_refused (dir, H3_ERROR_NOT_FOUND, files[i], "");
    fill_delete (dir);
  }
}

static gboolean
always (gpointer user_data)
{
  return TRUE;
}

static void
test_cancelled_load (void)
{
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (h3_test_demo_dir (), H3_PARTITION_FL2VA, NULL);
  H3Stop stop = { always };
  g_autoptr (GError) error = NULL;

  g_assert_null (h3_video_vae_load (checkpoint, test_device (), &stop, NULL,
      NULL, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
}

void
add_load_tests (void)
{
  g_test_add_func ("/video/load/diffusers-layout", test_diffusers_layout);
  g_test_add_func ("/video/load/tiny-layouts", test_tiny_layouts);
  g_test_add_data_func ("/video/load/f16", GINT_TO_POINTER (FILL_F16),
      test_narrow_type);
  g_test_add_data_func ("/video/load/bf16", GINT_TO_POINTER (FILL_BF16),
      test_narrow_type);
  g_test_add_func ("/video/load/rounded", test_rounded);
  g_test_add_func ("/video/load/rounded/overflow", test_rounded_overflow);
  g_test_add_func ("/video/load/plan", test_plan);
  g_test_add_func ("/video/load/short-configuration", test_short_configuration);
  g_test_add_func ("/video/load/encoder-is-not-read", test_encoder_is_not_read);
  g_test_add_func ("/video/load/prefix", test_prefix);
  g_test_add_func ("/video/load/missing-tensors", test_missing_tensors);
  g_test_add_func ("/video/load/missing-diffusers-tensor",
      test_missing_diffusers_tensor);
  g_test_add_func ("/video/load/wrong-shapes", test_wrong_shapes);
  g_test_add_func ("/video/load/unexpected-tensor", test_unexpected_tensor);
  g_test_add_func ("/video/load/not-finite", test_not_finite);
  g_test_add_func ("/video/load/wrong-network", test_wrong_network);
  g_test_add_func ("/video/load/wrong-wrapper", test_wrong_wrapper);
  g_test_add_func ("/video/load/wrong-diffusers", test_wrong_diffusers);
  g_test_add_func ("/video/load/other-class", test_other_class);
  g_test_add_func ("/video/load/missing-files", test_missing_files);
  g_test_add_func ("/video/load/cancelled", test_cancelled_load);
}
