/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Quantised checkpoints in every form against the same numbers as float32, by
 * the models. */
#include "h3-test-device.h"

#include "model/denoise/denoise.h"
#include "model/parking.h"
#include "model/text/text-model.h"
#include "model/video/video-vae.h"

/* On a GPU, plain matrices are rounded to 16 bits when they are loaded, encoded
 * ones when they are decoded: what an embedding looks up is not. */
#define TOLERANCE h3_test_tolerance (1e-5, 3e-2)
/* Where a GPU multiplies bytes it rounds the layers' inputs, too: to four bits,
 * and to eight. */
#define FP8_TOLERANCE h3_test_tolerance (1e-5, 0.15)
#define INT8_TOLERANCE h3_test_tolerance (1e-5, 5e-2)
#define N_TOKENS 9

/* Of the checkpoints that setup_init() opens. */
static H3WeightType weight_type;

typedef struct {
  H3Device *device;
  H3Stream *stream;
  H3Checkpoint *checkpoint;
} Setup;

static void
setup_init (Setup *s, const gchar *form, const gchar *suffix)
{
  g_autofree gchar *name = g_strconcat (form, suffix, NULL);
  g_autofree gchar *path =
      g_build_filename (g_getenv ("H3_QUANTISED_DIR"), name, NULL);
  g_autoptr (GError) error = NULL;

  s->device = h3_test_device_new (2);
  s->stream = h3_stream_new (s->device, &error);
  g_assert_no_error (error);
  s->checkpoint = h3_checkpoint_open (path, H3_PARTITION_FL2VA, &error);
  g_assert_no_error (error);
  h3_checkpoint_set_weight_type (s->checkpoint, weight_type);
}

static void
setup_clear (Setup *s)
{
  h3_checkpoint_free (s->checkpoint);
  h3_stream_free (s->stream);
  h3_device_unref (s->device);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Setup, setup_clear)

/* A model's list is all that was planned. */
static void
check_list (GPtrArray *tensors, guint64 planned)
{
  g_autoptr (H3Parking) parking = h3_parking_new (tensors);
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (h3_parking_bytes (parking), ==, planned);
  /* out and in again, and nothing is lost */
  g_assert_true (h3_parking_park (parking, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (h3_parking_unpark (parking, NULL, &error));
  g_assert_no_error (error);
}

/* A result on the host. */
typedef struct {
  gfloat *values;
  gsize n;
  guint64 weights;
} Result;

static void
result_take (Result *result, Setup *s, const H3Tensor *tensor)
{
  gsize n = h3_tensor_size (tensor);
  g_autofree gfloat *values = h3_test_to_host (s->stream, tensor);

  result->values =
      g_realloc (result->values, (result->n + n) * sizeof (gfloat));
  memcpy (result->values + result->n, values, n * sizeof (gfloat));
  result->n += n;
}

typedef struct {
  guint64 done, total;
} Progress;

static void
on_progress (guint64 done, guint64 total, gpointer data)
{
  Progress *p = data;

  g_assert_cmpuint (done, >=, p->done);
  p->done = done;
  p->total = total;
}

static void
run_text (const gchar *form, const gchar *suffix, Result *result)
{
  static const gint32 ids[N_TOKENS] = { 1, 17, 250, 3, 99, 401, 8, 17, 60 };
  const H3TextInput input = { .ids = ids, .n = N_TOKENS };
  g_auto (Setup) s = { 0 };
  g_autoptr (H3TextModel) model = NULL;
  g_autoptr (H3Tensor) state = NULL;
  g_autoptr (GError) error = NULL;
  H3TextConfig config;
  Progress progress = { 0 };

  setup_init (&s, form, suffix);
  h3_text_model_plan (s.checkpoint, s.device, &config, &result->weights,
      &error);
  g_assert_no_error (error);
  model = h3_text_model_load (s.checkpoint, s.device, NULL, on_progress,
      &progress, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (progress.done, ==, progress.total);
  check_list (h3_text_model_tensors (model), result->weights);
  state = h3_text_model_encode (model, s.stream, &input, NULL, NULL, &error);
  g_assert_no_error (error);
  result_take (result, &s, state);
}

static void
run_vision (const gchar *form, const gchar *suffix, Result *result)
{
  const H3Image image = { 96, 64, g_malloc (96 * 64 * 3) };
  g_auto (Setup) s = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3TextCondition) picture = NULL;
  g_autoptr (H3VisionModel) model = NULL;
  g_autoptr (H3VisionFeatures) features = NULL;
  H3VisionConfig config;

  for (gint i = 0; i < 96 * 64 * 3; i++)
    image.pixels[i] = i * 37 % 251;
  picture = h3_text_condition_new_picture (H3_CONDITION_IMAGE,
      (H3Image *) &image, &error);
  g_assert_no_error (error);
  setup_init (&s, form, suffix);
  h3_vision_model_plan (s.checkpoint, s.device, &config, &result->weights,
      &error);
  g_assert_no_error (error);
  model =
      h3_vision_model_load (s.checkpoint, s.device, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  check_list (h3_vision_model_tensors (model), result->weights);
  features = h3_vision_model_encode (model, s.stream,
      (const H3TextCondition *const *) &picture, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  result_take (result, &s, features->tokens);
}

static H3Tensor *
make_prompt (H3Device *device, gint64 width)
{
  g_autofree gfloat *values = g_new (gfloat, N_TOKENS * width);
  g_autoptr (GError) error = NULL;
  H3Tensor *prompt;

  for (gint64 i = 0; i < N_TOKENS * width; i++)
    values[i] = (i * 37 % 101 - 50) / 60.0f;
  prompt = h3_tensor_new_from_host (device, H3_DTYPE_F32, 2,
      (gint64[]){ N_TOKENS, width }, values, &error);
  g_assert_no_error (error);
  return prompt;
}

static void
run_transformer (const gchar *form, const gchar *suffix, Result *result)
{
  g_auto (Setup) s = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Schedule) schedule =
      h3_schedule_new (H3_SCHEDULE_UNIFORM, 2, 12, 3, NULL, NULL, 0, &error);
  g_autoptr (H3Transformer) transformer = NULL;
  g_autoptr (H3Tensor) prompt = NULL;
  g_autoptr (H3Tensor) video = NULL;
  g_autoptr (H3Tensor) audio = NULL;
  H3DenoiseRequest request = { .seed = 5,
    .schedule = schedule,
    .shift_v = 12,
    .shift_a = 3 };
  H3TransformerConfig config;
  Progress progress = { 0 };

  g_assert_no_error (error);
  setup_init (&s, form, suffix);
  h3_transformer_plan (s.checkpoint, s.device, &config, &result->weights,
      &error);
  g_assert_no_error (error);
  transformer = h3_transformer_load (s.checkpoint, s.device, NULL, on_progress,
      &progress, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (progress.done, ==, progress.total);
  check_list (h3_transformer_tensors (transformer), result->weights);
  prompt = make_prompt (s.device, config.text_dim);
  h3_geometry_init (&request.geometry, 96, 64, 22, &error);
  g_assert_no_error (error);
  h3_denoise (transformer, s.stream, &request, prompt, NULL, NULL, NULL, NULL,
      NULL, NULL, &video, &audio, &error);
  g_assert_no_error (error);
  result_take (result, &s, video);
  result_take (result, &s, audio);
}

static void
run_video (const gchar *form, const gchar *suffix, Result *result)
{
  g_auto (Setup) s = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3VideoVae) vae = NULL;
  g_autoptr (H3VideoDecoder) decoder = NULL;
  g_autoptr (H3Tensor) latent = NULL;
  g_autofree gfloat *values = NULL;
  const gint64 shape[] = { 4, 7, 4, 6 };
  H3VideoVaeConfig config;
  H3Tensor *pixels;
  gint first, n;

  setup_init (&s, form, suffix);
  h3_video_vae_plan (s.checkpoint, s.device, &config, &result->weights, &error);
  g_assert_no_error (error);
  vae = h3_video_vae_load (s.checkpoint, s.device, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  values = g_new (gfloat, 4 * 7 * 4 * 6);
  for (gint i = 0; i < 4 * 7 * 4 * 6; i++)
    values[i] = (i * 53 % 97 - 48) / 40.0f;
  latent = h3_tensor_new_from_host (s.device, H3_DTYPE_F32, 4, shape, values,
      &error);
  g_assert_no_error (error);
  decoder = h3_video_decoder_new (vae, s.stream, 4, 6, 0, &error);
  g_assert_no_error (error);
  h3_video_decoder_start (decoder, latent, &error);
  g_assert_no_error (error);
  h3_video_decoder_next (decoder, NULL, NULL, &pixels, &first, &n, &error);
  g_assert_no_error (error);
  result_take (result, &s, pixels);
}

typedef struct {
  const gchar *model, *form;
  void (*run) (const gchar *form, const gchar *suffix, Result *result);
} Case;

static const Case cases[] = {
  { "text", "fp8-official", run_text },
  { "text", "int8-official", run_text },
  { "text", "nvfp4-official", run_text },
  { "text", "mxfp8-official", run_text },
  { "transformer", "fp8-official", run_transformer },
  { "transformer", "int8-official", run_transformer },
  { "transformer", "nvfp4-official", run_transformer },
  { "transformer", "mxfp8-official", run_transformer },
  { "transformer", "fp8-diffusers", run_transformer },
  { "transformer", "int8-diffusers", run_transformer },
  { "transformer", "nvfp4-diffusers", run_transformer },
  { "transformer", "mxfp8-diffusers", run_transformer },
  { "text", "fp8-metadata", run_text },
  { "text", "int8-metadata", run_text },
  { "text", "nvfp4-metadata", run_text },
  { "text", "fp8-oldest", run_text },
  { "text", "fp8-cast", run_text },
  { "transformer", "fp8-metadata", run_transformer },
  { "transformer", "int8-metadata", run_transformer },
  { "transformer", "nvfp4-metadata", run_transformer },
  { "transformer", "fp8-oldest", run_transformer },
  { "transformer", "fp8-cast", run_transformer },
  { "transformer", "fp8-comfy-pruned", run_transformer },
  { "transformer", "int8-comfy-pruned", run_transformer },
  { "transformer", "nvfp4-comfy-pruned", run_transformer },
  { "transformer", "mxfp8-comfy-pruned", run_transformer },
  { "text", "nvfp4-comfy-pruned", run_text },
  { "video", "int8-comfy-pruned", run_video },
  { "transformer", "../gguf/blocks", run_transformer },
  { "transformer", "../gguf/pruned", run_transformer },
  { "text", "../gguf/blocks", run_text },
  { "text", "../gguf/mixed", run_text },
  { "vision", "../gguf/blocks", run_vision },
  { "vision", "../gguf/flat", run_vision },
  { "transformer", "../gguf/flat", run_transformer },
  { "text", "../gguf/flat", run_text },
  { "video", "int8-official", run_video },
  { "video", "int8-diffusers", run_video },
  { "video", "int8-metadata", run_video },
};

static gdouble
tolerance_of (const gchar *form)
{
  if (g_str_has_prefix (form, "fp8"))
    return FP8_TOLERANCE;
  return g_str_has_prefix (form, "int8") ? INT8_TOLERANCE : TOLERANCE;
}

static void
test_same (gconstpointer data)
{
  const Case *c = data;
  Result quantised = { 0 }, decoded = { 0 };

  c->run (c->form, "", &quantised);
  c->run (c->form, "-decoded", &decoded);
  g_assert_cmpuint (quantised.n, ==, decoded.n);
  h3_test_assert_close (quantised.values, decoded.values, decoded.n,
      tolerance_of (c->form));
  g_assert_cmpuint (quantised.weights, <, decoded.weights);
  g_free (quantised.values);
  g_free (decoded.values);
}

/* A single file as the release's, grouped, gives what q, k, v apart give: where
 * each row has its own scales the numbers are the same. */
static void
test_grouped (gconstpointer data)
{
  const gchar *encoding = data;
  g_autofree gchar *official = g_strconcat (encoding, "-official", NULL);
  g_autofree gchar *diffusers = g_strconcat (encoding, "-diffusers", NULL);
  Result grouped = { 0 }, apart = { 0 };

  run_transformer (official, "", &grouped);
  run_transformer (diffusers, "", &apart);
  g_assert_cmpuint (grouped.n, ==, apart.n);
  h3_test_assert_close (grouped.values, apart.values, apart.n,
      tolerance_of (encoding));
  g_free (grouped.values);
  g_free (apart.values);
}

/* A device that takes plain weights only says so before anything is loaded. */
static void
test_refused (gconstpointer data)
{
  const gchar *form = data;
  const H3Device plain = { .name = "plain card",
    .act_dtype = H3_DTYPE_BF16,
    .vae_dtype = H3_DTYPE_F16 };
  g_auto (Setup) s = { 0 };
  g_autoptr (GError) error = NULL;
  H3TransformerConfig config;
  guint64 bytes;

  setup_init (&s, form, "");
  g_assert_false (
      h3_transformer_plan (s.checkpoint, &plain, &config, &bytes, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE,
      "plain card does not take weights in");
  g_clear_error (&error);
  g_assert_true (
      h3_transformer_plan (s.checkpoint, NULL, &config, &bytes, &error));
  g_assert_no_error (error);
}

/* weight-type=fp8: near what the floats give, but not it; less memory than they
 * need, as planned; and of a file that is quantised already it changes only what
 * is not. */
static void
test_weight_type (gconstpointer data)
{
  const Case *c = data;
  Result plain = { 0 }, fp8 = { 0 };

  c->run (c->form, "-decoded", &plain);
  weight_type = H3_WEIGHTS_FP8;
  c->run (c->form, "-decoded", &fp8);
  weight_type = H3_WEIGHTS_AS_STORED;
  g_assert_cmpuint (fp8.n, ==, plain.n);
  g_assert_cmpint (memcmp (fp8.values, plain.values, plain.n * sizeof (gfloat)),
      !=, 0);
  h3_test_assert_close (fp8.values, plain.values, plain.n, 0.15);
  g_assert_cmpuint (fp8.weights, <, plain.weights * 4 / 5);
  g_free (plain.values);
  g_free (fp8.values);
}

static void
test_weight_type_quantised (void)
{
  Result stored = { 0 }, fp8 = { 0 };

  run_transformer ("nvfp4-official", "", &stored);
  weight_type = H3_WEIGHTS_FP8;
  run_transformer ("nvfp4-official", "", &fp8);
  weight_type = H3_WEIGHTS_AS_STORED;
  g_assert_cmpmem (fp8.values, fp8.n * sizeof (gfloat), stored.values,
      stored.n * sizeof (gfloat));
  g_assert_cmpuint (fp8.weights, ==, stored.weights);
  g_free (stored.values);
  g_free (fp8.values);
}

int
main (int argc, char **argv)
{
  static const Case plain[] = { { "text", "int8-official", run_text },
    { "transformer", "int8-official", run_transformer },
    { "transformer", "int8-diffusers", run_transformer } };

  if (h3_test_skip_program ())
    return 0;
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const gchar *form = cases[i].form;
    g_autofree gchar *path = g_strdup_printf ("/quantised/%s/%s",
        cases[i].model, form + (g_str_has_prefix (form, "../") ? 3 : 0));
    g_test_add_data_func (path, &cases[i], test_same);
  }
  for (guint i = 0; i < G_N_ELEMENTS (plain); i++) {
    g_autofree gchar *path = g_strdup_printf ("/quantised/weight-type/%s/%s",
        plain[i].model, plain[i].form);
    g_test_add_data_func (path, &plain[i], test_weight_type);
  }
  g_test_add_func ("/quantised/weight-type/quantised",
      test_weight_type_quantised);
  g_test_add_data_func ("/quantised/grouped/int8", "int8", test_grouped);
  g_test_add_data_func ("/quantised/grouped/mxfp8", "mxfp8", test_grouped);
  g_test_add_data_func ("/quantised/refused/fp8", "fp8-official", test_refused);
  g_test_add_data_func ("/quantised/refused/gguf", "../gguf/blocks",
      test_refused);
  return g_test_run ();
}
