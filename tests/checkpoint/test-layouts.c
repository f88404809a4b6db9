/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Both layouts of the tiny checkpoint are the same weights on the device:
 * names, splits and row orders are undone by loading. */
#include "test-checkpoint.h"
#include "test-device.h"

#include "model/audio/audio-vae.h"
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
  { "transformer", H3_PARTITION_FL2VA, load_transformer, free_transformer, 50 },
  { "transformer-ref", H3_PARTITION_REF2VA, load_transformer, free_transformer,
      50 },
  { "text-encoder", H3_PARTITION_FL2VA, load_text_model, free_text_model, 400 },
  { "video-vae", H3_PARTITION_FL2VA, load_video_vae, free_video_vae, 25 },
  { "audio-vae", H3_PARTITION_FL2VA, load_audio_vae, free_audio_vae, 400 },
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
    g_test_add_data_func (name, &components[i], test_same_weights);
  }
  g_test_add_func ("/layouts/rounded", test_rounded);
  g_test_add_func ("/layouts/partitions-differ", test_partitions_differ);
}
