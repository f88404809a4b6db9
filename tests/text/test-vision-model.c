/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vision tower: what must not change its numbers, memory, stopping, bad
 * checkpoints, and features that do not fit the text. */
#include <math.h>

#include "model/text/presentation.h"
#include "tests/text/vision-test.h"

#define TOLERANCE h3_test_tolerance (1e-5, 3e-2)

/* All of the features, one after the other: tokens, then deep-stack taps. */
static gfloat *
to_host (H3Stream *stream, const H3VisionFeatures *features, gsize *n)
{
  const gsize one = h3_tensor_size (features->tokens);
  gfloat *all;

  *n = one * (1 + features->n_deepstack);
  all = g_new (gfloat, *n);
  for (guint i = 0; i <= features->n_deepstack; i++) {
    g_autofree gfloat *part = h3_test_to_host (stream,
        i == 0 ? features->tokens : features->deepstack[i - 1]);

    memcpy (all + i * one, part, one * sizeof *part);
  }
  return all;
}

static H3VisionFeatures *
encode (H3VisionModel *model, H3Stream *stream,
    const H3TextCondition *const *conditions, guint n)
{
  g_autoptr (GError) error = NULL;
  H3VisionFeatures *features =
      h3_vision_model_encode (model, stream, conditions, n, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpint (h3_tensor_rows (features->tokens), ==, features->n);
  g_assert_cmpint (h3_tensor_cols (features->tokens), ==,
      h3_vision_model_config (model)->out_hidden);
  return features;
}

/* A clip of noise, @samples frames of @width x @height. */
static H3TextCondition *
noise_clip (gint samples, gint width, gint height, guint32 seed)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  g_autofree guint8 *frame = g_malloc (width * height * 3);
  g_autoptr (GError) error = NULL;
  H3TextCondition *clip =
      h3_text_condition_new_clip (width, height, 12 * samples, FALSE, &error);

  g_assert_no_error (error);
  for (gint i = 0; i < samples; i++) {
    for (gint k = 0; k < width * height * 3; k++)
      frame[k] = g_rand_int_range (rand, 0, 256);
    g_assert_true (h3_text_condition_push (clip, 12 * (i + 1), frame, width * 3,
        width, height, &error));
  }
  g_assert_true (h3_text_condition_finish (clip, &error));
  return clip;
}

/* Rows [first, first + n) of @all, in each of its parts, are @one's. */
static void
assert_part (H3Stream *stream, const H3VisionFeatures *all, gint first,
    const H3VisionFeatures *one, gdouble tolerance)
{
  const gsize cols = h3_tensor_cols (all->tokens);
  gsize n_all, n_one;
  g_autofree gfloat *whole = to_host (stream, all, &n_all);
  g_autofree gfloat *part = to_host (stream, one, &n_one);

  for (guint i = 0; i <= all->n_deepstack; i++)
    if (tolerance == 0)
      g_assert_cmpmem (whole + (i * all->n + first) * cols,
          one->n * cols * sizeof *whole, part + (gsize) i * one->n * cols,
          one->n * cols * sizeof *part);
    else
      h3_test_assert_close (whole + (i * all->n + first) * cols,
          part + (gsize) i * one->n * cols, one->n * cols, tolerance);
}

/* A GPU's products may depend on how their operands lie in memory. */
#define SAME_BYTES (h3_test_on_gpu () ? TOLERANCE : 0)

/* Pictures and clips do not see each other, and sounds are not seen. */
static void
test_independent (void)
{
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3VisionModel) model = vision_test_model (path);
  g_autoptr (H3Stream) stream = vision_test_stream ();
  g_autoptr (H3TextCondition) picture = vision_test_picture (320, 256, 1);
  g_autoptr (H3TextCondition) clip = noise_clip (3, 96, 64, 2);
  g_autoptr (H3TextCondition) sound = h3_text_condition_new_audio ();
  const H3TextCondition *const all[] = { sound, picture, sound, clip, picture };
  g_autoptr (H3VisionFeatures) together =
      encode (model, stream, all, G_N_ELEMENTS (all));
  g_autoptr (H3VisionFeatures) one = encode (model, stream, all + 1, 1);
  g_autoptr (H3VisionFeatures) two = encode (model, stream, all + 2, 2);

  g_assert_cmpint (one->n, ==, 10 * 8);
  g_assert_cmpint (two->n, ==, 2 * 3 * 2);
  g_assert_cmpint (together->n, ==, 2 * one->n + two->n);
  assert_part (stream, together, 0, one, SAME_BYTES);
  assert_part (stream, together, one->n, two, SAME_BYTES);
  assert_part (stream, together, one->n + two->n, one, SAME_BYTES);
}

/* Nor do a clip's blocks: two equal pairs of frames give equal tokens, which are
 * those of the pair alone. */
static void
test_blocks (void)
{
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3VisionModel) model = vision_test_model (path);
  g_autoptr (H3Stream) stream = vision_test_stream ();
  g_autoptr (H3TextCondition) pair = noise_clip (2, 96, 64, 3);
  g_autoptr (H3TextCondition) twice = noise_clip (4, 96, 64, 3);
  const H3TextCondition *const a[] = { pair }, *const b[] = { twice };
  g_autoptr (H3VisionFeatures) one = NULL, two = NULL;

  for (guint i = 0; i < 4; i++)
    memcpy (twice->images[i].pixels, pair->images[i % 2].pixels, 96 * 64 * 3);
  one = encode (model, stream, a, 1);
  two = encode (model, stream, b, 1);
  g_assert_cmpint (two->n, ==, 2 * one->n);
  assert_part (stream, two, 0, one, TOLERANCE);
  assert_part (stream, two, one->n, one, TOLERANCE);
}

/* More patches than the MLP takes at a time: 96 x 96 are 9216. Nothing is left
 * out. */
static void
test_large (void)
{
  g_autoptr (H3VisionModel) model = vision_test_model (h3_test_demo_dir ());
  g_autoptr (H3Stream) stream = vision_test_stream ();
  g_autoptr (H3TextCondition) large = vision_test_picture (1536, 1536, 4);
  const H3TextCondition *const list[] = { large };
  g_autoptr (H3VisionFeatures) features = encode (model, stream, list, 1);
  gsize n;
  g_autofree gfloat *values = to_host (stream, features, &n);
  const gsize cols = h3_tensor_cols (features->tokens);

  g_assert_cmpint (features->n, ==, 48 * 48);
  for (gsize row = 0; row < n / cols; row++) {
    gdouble sum = 0;

    for (gsize i = 0; i < cols; i++)
      sum += fabs (values[row * cols + i]);
    g_assert_true (isfinite (sum));
    g_assert_cmpfloat (sum, >, 1e-3);
  }
}

/* A request without pictures is the same with and without positions. */
static void
test_positions_of_text (void)
{
  static const gint32 ids[] = { 32, 469, 436, 438, 479, 455, 13 };
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3TextModel) model = vision_test_text_model (path);
  g_autoptr (H3Stream) stream = vision_test_stream ();
  gint32 positions[G_N_ELEMENTS (ids)][3];
  H3TextInput input = { .ids = ids, .n = G_N_ELEMENTS (ids) };
  g_autoptr (H3Tensor) a = NULL, b = NULL, c = NULL;
  g_autofree gfloat *without = NULL, *with = NULL, *moved = NULL;
  gsize size;

  for (gint i = 0; i < input.n; i++)
    positions[i][0] = positions[i][1] = positions[i][2] = i;
  a = h3_text_model_encode (model, stream, &input, NULL, NULL, NULL);
  input.positions = positions[0];
  b = h3_text_model_encode (model, stream, &input, NULL, NULL, NULL);
  positions[6][2] = 9;
  c = h3_text_model_encode (model, stream, &input, NULL, NULL, NULL);
  size = h3_tensor_size (a);
  without = h3_test_to_host (stream, a);
  with = h3_test_to_host (stream, b);
  moved = h3_test_to_host (stream, c);
  g_assert_cmpmem (with, size * sizeof *with, without, size * sizeof *without);
  g_assert_cmpfloat (h3_test_rel_l2 (moved, with, size), >, 1e-4);
  g_assert_cmpmem (moved, size / 7 * 6 * sizeof *with, with,
      size / 7 * 6 * sizeof *with);
}

static void
test_plan (void)
{
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3Checkpoint) checkpoint = vision_test_open (path);
  g_autoptr (H3VisionModel) model = NULL;
  g_autoptr (GPtrArray) tensors = NULL;
  g_autoptr (GError) error = NULL;
  H3VisionConfig config;
  guint64 bytes, kept = 0;
  const guint64 patch = 32 * 1536 * 2 + 32 * 4, table = 36 * 32 * 2;
  const guint64 block = 4 * 32 * 4 + (96 * 32 + 32 * 32 + 2 * 48 * 32) * 2 +
                        (96 + 32 + 48 + 32) * 4;
  const guint64 merger =
      (128 * 128 + 40 * 128) * 2 + (128 + 40) * 4; /* without its norm */

  g_assert_true (
      h3_vision_model_plan (checkpoint, NULL, &config, &bytes, &error));
  g_assert_no_error (error);
  g_assert_cmpint (config.hidden, ==, 32);
  g_assert_cmpint (config.depth, ==, 5);
  g_assert_cmpint (config.heads, ==, 2);
  g_assert_cmpint (config.ffn, ==, 48);
  g_assert_cmpint (config.positions, ==, 36);
  g_assert_cmpint (config.out_hidden, ==, 40);
  g_assert_cmpuint (config.n_deepstack, ==, 3);
  g_assert_cmpint (config.deepstack[2], ==, 3);
  g_assert_cmpuint (bytes, ==,
      patch + table + 5 * block + 4 * merger + 2 * 32 * 4 + 3 * 2 * 128 * 4);

  model = h3_vision_model_load (checkpoint, vision_test_device, NULL, NULL,
      NULL, &error);
  g_assert_no_error (error);
  tensors = h3_vision_model_tensors (model);
  for (guint i = 0; i < tensors->len; i++)
    kept += ((H3Tensor *) g_ptr_array_index (tensors, i))->bytes;
  g_assert_cmpuint (kept, ==, bytes);
}

/* The tensors of a pass over the larger of two pictures, and the features. */
static void
test_workspace (void)
{
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3VisionModel) model = vision_test_model (path);
  g_autoptr (H3TextCondition) small = noise_clip (2, 96, 64, 6);
  g_autoptr (H3TextCondition) large = vision_test_picture (256, 256, 7);
  g_autoptr (H3TextCondition) sound = h3_text_condition_new_audio ();
  const H3TextCondition *const list[] = { small, sound, large };
  const guint64 act = h3_dtype_size (vision_test_device->act_dtype);
  const guint64 pass = 256 * 256 * 3              /* pixels */
                       + 256 * 1536 * act         /* patches */
                       + 256 * 8 * 4              /* positions */
                       + 256 * 16 * 4             /* rotations */
                       + 256 * 32 * (4 + 6 * act) /* x, normed, q, k, v ... */
                       + 256 * 48 * act;          /* MLP */

  g_assert_cmpuint (h3_vision_model_workspace (h3_vision_model_config (model),
                        vision_test_device, list, 3),
      ==, pass + (64 + 6) * 4 * 40 * act);
}

/* --- stopping --- */

typedef struct {
  guint asked, allowed;
} Patience;

static gboolean
runs_out (gpointer user_data)
{
  Patience *patience = user_data;

  return patience->asked++ >= patience->allowed;
}

static void
test_cancel (void)
{
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3Checkpoint) checkpoint = vision_test_open (path);
  g_autoptr (H3VisionModel) model = vision_test_model (path);
  g_autoptr (H3Stream) stream = vision_test_stream ();
  g_autoptr (H3TextCondition) picture = vision_test_picture (256, 256, 5);
  const H3TextCondition *const list[] = { picture, picture };
  g_autoptr (H3VisionFeatures) before = encode (model, stream, list, 1);
  g_autoptr (H3VisionFeatures) after = NULL;
  Patience none = { 0, 0 };
  const H3Stop stop_loading = { runs_out, &none };
  g_autoptr (GError) error = NULL;

  for (guint allowed = 0; allowed < 10; allowed += 3) {
    Patience patience = { 0, allowed };
    const H3Stop stop = { runs_out, &patience };

    g_assert_null (
        h3_vision_model_encode (model, stream, list, 2, &stop, NULL, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
    g_clear_error (&error);
  }
  after = encode (model, stream, list, 1);
  assert_part (stream, after, 0, before, 0);

  g_assert_null (h3_vision_model_load (checkpoint, vision_test_device,
      &stop_loading, NULL, NULL, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
}

/* --- bad input --- */

static void
test_bad_conditions (void)
{
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3VisionModel) model = vision_test_model (path);
  g_autoptr (H3Stream) stream = vision_test_stream ();
  g_autoptr (H3TextCondition) sound = h3_text_condition_new_audio ();
  g_autoptr (H3TextCondition) clip =
      h3_text_condition_new_clip (32, 32, 100, FALSE, NULL);
  const H3TextCondition *const sounds[] = { sound, sound };
  const H3TextCondition *const clips[] = { sound, clip };
  g_autoptr (GError) error = NULL;

  g_assert_null (
      h3_vision_model_encode (model, stream, sounds, 2, NULL, NULL, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "2 references",
      "0 vision tokens");
  g_clear_error (&error);
  g_assert_null (
      h3_vision_model_encode (model, stream, NULL, 0, NULL, NULL, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "0 references");
  g_clear_error (&error);
  g_assert_null (
      h3_vision_model_encode (model, stream, clips, 2, NULL, NULL, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "reference 2",
      "not finished");
}

static void
assert_input_fails (H3TextModel *model, H3Stream *stream,
    const H3TextInput *input, H3Error code, const gchar *says)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (
      h3_text_model_encode (model, stream, input, NULL, NULL, &error));
  h3_test_assert_h3_error (error, code, says);
}

static void
test_bad_pads (void)
{
  static const gint32 ids[] = { 1, 2, 3, 4, 5, 6 };
  static const gint32 unsorted[] = { 0, 2, 1, 3 }, beyond[] = { 0, 1, 2, 6 };
  static const gint32 negative[] = { -1, 1, 2, 3 }, twice[] = { 0, 1, 1, 3 };
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3TextModel) model = vision_test_text_model (path);
  g_autoptr (H3TextModel) other = vision_test_text_model (h3_test_demo_dir ());
  g_autoptr (H3Stream) stream = vision_test_stream ();
  g_autoptr (H3Tensor) tokens = h3_tensor_new_2d (vision_test_device,
      vision_test_device->act_dtype, 4, 40, NULL);
  const H3VisionFeatures features = { .n = 4, .tokens = tokens };
  H3TextInput input = { .ids = ids,
    .n = 6,
    .vision = &features,
    .pads = unsorted,
    .n_pads = 4 };

  assert_input_fails (model, stream, &input, H3_ERROR_FORMAT,
      "vision token 2 is to be in row 1 of 6");
  input.pads = beyond;
  assert_input_fails (model, stream, &input, H3_ERROR_FORMAT,
      "vision token 3 is to be in row 6 of 6");
  input.pads = negative;
  assert_input_fails (model, stream, &input, H3_ERROR_FORMAT,
      "vision token 0 is to be in row -1");
  input.pads = twice;
  assert_input_fails (model, stream, &input, H3_ERROR_FORMAT,
      "vision token 2 is to be in row 1");
  input.n_pads = 3;
  assert_input_fails (model, stream, &input, H3_ERROR_FORMAT,
      "4 vision tokens for 3 places");
  input.vision = NULL;
  assert_input_fails (model, stream, &input, H3_ERROR_FORMAT,
      "0 vision tokens for 3 places");
  input.vision = &features;
  input.n_pads = 4;
  assert_input_fails (other, stream, &input, H3_ERROR_WRONG_TYPE,
      "vision tokens of 40 channels, the text encoder has 48");
}

#define INDEX "model.safetensors.index.json"

static gchar *
copy_encoder (gchar **root)
{
  g_autofree gchar *from =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "text_encoder", NULL);
  gchar *to;

  *root = h3_test_temp_dir ();
  to = g_build_filename (*root, "text_encoder", NULL);
  h3_test_copy_tree (from, to);
  return to;
}

static void
replace_in_file (const gchar *dir, const gchar *name, const gchar *from,
    const gchar *to)
{
  g_autofree gchar *path = g_build_filename (dir, name, NULL);
  g_autofree gchar *contents = NULL;
  GString *text;

  g_assert_true (g_file_get_contents (path, &contents, NULL, NULL));
  text = g_string_new (contents);
  g_assert_cmpuint (g_string_replace (text, from, to, 0), >, 0);
  h3_test_write_file (path, text->str, text->len);
  g_string_free (text, TRUE);
}

static void
assert_plan_fails (const gchar *dir, H3Error code, const gchar *says,
    const gchar *and_says)
{
  g_autoptr (H3Checkpoint) checkpoint = vision_test_open (dir);
  g_autoptr (GError) error = NULL;
  guint64 bytes;

  g_assert_false (
      h3_vision_model_plan (checkpoint, NULL, NULL, &bytes, &error));
  h3_test_assert_h3_error (error, code, says, and_says);
}

static void
test_bad_config (void)
{
  static const struct {
    const gchar *from, *to, *says, *and_says;
  } cases[] = {
    { "\"depth\": 5", "\"depth\": 6", "model.visual.blocks.5.", "missing" },
    { "\"depth\": 5", "\"depth\": 4", "model.visual.blocks.4.", "unexpected" },
    { "\"depth\": 5", "\"depth\": 3", "deepstack_visual_indexes has 3",
        "below depth 3" },
    { "\"depth\": 5", "\"depth\": 0", "depth", "0" },
    { "\"hidden_size\": 32", "\"hidden_size\": 64", "hidden_size 64",
        "gives 32" },
    { "\"intermediate_size\": 48", "\"intermediate_size\": 64",
        "intermediate_size 64", "gives 48" },
    { "\"num_heads\": 2", "\"num_heads\": 3", "num_heads 3", "multiple of 4" },
    { "\"num_heads\": 2", "\"num_heads\": 16", "num_heads 16",
        "multiple of 4" },
    { "\"num_position_embeddings\": 36", "\"num_position_embeddings\": 35",
        "num_position_embeddings is 35", "square" },
    { "\"num_position_embeddings\": 36", "\"num_position_embeddings\": 49",
        "num_position_embeddings 49", "gives 36" },
    { "\"out_hidden_size\": 40", "\"out_hidden_size\": 48",
        "out_hidden_size is 48", "hidden_size 40" },
    { "\"patch_size\": 16,", "\"patch_size\": 14,", "patch_size is 14", "16" },
    { "\"temporal_patch_size\": 2", "\"temporal_patch_size\": 1",
        "temporal_patch_size is 1", "2" },
    { "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 4",
        "spatial_merge_size is 4", "2" },
    { "\"in_channels\": 3", "\"in_channels\": 4", "in_channels is 4", "3" },
    { "gelu_pytorch_tanh", "gelu", "hidden_act is \"gelu\"",
        "gelu_pytorch_tanh" },
    { "   1,\n   2,\n   3\n", "   1,\n   1,\n   3\n",
        "deepstack_visual_indexes has 1 as number 2", "ascend" },
    { "   1,\n   2,\n   3\n", "   1,\n   2,\n   5\n",
        "deepstack_visual_indexes has 5", "below depth 5" },
    { "   1,\n   2,\n   3\n", "   1,\n   2\n", "deepstack_merger_list.2",
        "unexpected" },
    { "   1,\n   2,\n   3\n", "   0, 1, 2, 3, 4, 5, 6, 7, 8\n",
        "deepstack_visual_indexes", "at most 8" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *root = NULL;
    g_autofree gchar *dir = copy_encoder (&root);

    replace_in_file (dir, "config.json", cases[i].from, cases[i].to);
    assert_plan_fails (dir, H3_ERROR_WRONG_TYPE, cases[i].says,
        cases[i].and_says);
    h3_test_remove_tree (root);
  }
}

/* A checkpoint without the tower serves text and says what is missing. */
static void
test_missing_tensors (void)
{
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);

  replace_in_file (dir, INDEX, "model.visual.pos_embed.weight",
      "model.visual.other.weight");
  assert_plan_fails (dir, H3_ERROR_WRONG_TYPE, "vision tower",
      "model.visual.pos_embed.weight");
  replace_in_file (dir, INDEX, "model.visual.", "lm_head.weight.");
  assert_plan_fails (dir, H3_ERROR_WRONG_TYPE, "vision tower",
      "model.visual.patch_embed.proj.weight");
  h3_test_remove_tree (root);
}

/* Rewrites every element of one tensor, wherever it is stored. */
static void
fill_tensor (const gchar *dir, const gchar *tensor, guint16 bf16)
{
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (dir, NULL);
  const H3StoredTensor *stored = h3_tensor_set_get (set, tensor, NULL);
  g_autofree guint16 *values = g_malloc (stored->bytes);

  for (gsize i = 0; i < stored->bytes / sizeof bf16; i++)
    values[i] = bf16;
  h3_test_patch_file (stored->path, stored->offset, values, stored->bytes);
}

/* Finite weights whose products are not: the text encoder says in which row. */
static void
test_not_finite (void)
{
  g_autofree gchar *root = NULL;
  g_autofree gchar *dir = copy_encoder (&root);
  g_autofree gchar *path = vision_test_tiny ();
  g_autoptr (H3VisionModel) vision = NULL;
  g_autoptr (H3TextModel) text = vision_test_text_model (path);
  g_autoptr (H3Tokenizer) tokenizer = vision_test_tokenizer (path);
  g_autoptr (H3Stream) stream = vision_test_stream ();
  g_autoptr (H3TextCondition) picture = vision_test_picture (256, 256, 8);
  const H3TextCondition *const list[] = { picture };
  g_autoptr (H3VisionFeatures) features = NULL;
  g_auto (H3Presentation) presentation = { NULL };
  H3TextInput input;

  fill_tensor (dir, "model.visual.merger.linear_fc2.weight",
      0x7f7f); /* 3.4e38 */
  vision = vision_test_model (dir);
  features = encode (vision, stream, list, 1);
  g_assert_true (h3_presentation_init (&presentation, tokenizer, list, 1, "hi",
      2, 4096, NULL));
  input = h3_presentation_input (&presentation, features);
  /* a product of 0 and NaN, which a GPU's attention makes of the rows that it
   * leaves out, spoils the rows before the picture, too */
  assert_input_fails (text, stream, &input, H3_ERROR_NUMERIC,
      h3_test_on_gpu () ? "not finite" : "token id 492");
  h3_test_remove_tree (root);
}

void
add_vision_model_tests (void)
{
  g_test_add_func ("/vision/independent", test_independent);
  g_test_add_func ("/vision/blocks", test_blocks);
  g_test_add_func ("/vision/large", test_large);
  g_test_add_func ("/vision/positions-of-text", test_positions_of_text);
  g_test_add_func ("/vision/plan", test_plan);
  g_test_add_func ("/vision/workspace", test_workspace);
  g_test_add_func ("/vision/cancel", test_cancel);
  g_test_add_func ("/vision/bad-conditions", test_bad_conditions);
  g_test_add_func ("/vision/bad-pads", test_bad_pads);
  g_test_add_func ("/vision/bad-config", test_bad_config);
  g_test_add_func ("/vision/missing-tensors", test_missing_tensors);
  g_test_add_func ("/vision/not-finite", test_not_finite);
}
