/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One readable report on a checkpoint (checkpoints.md 8). */
#include "inspect.h"
#include "inspect-needs.h"

#include "model/audio/audio-encoder.h"
#include "model/audio/audio-vae.h"
#include "model/denoise/transformer.h"
#include "model/text/text-model.h"
#include "model/video/video-encoder.h"
#include "model/video/video-vae.h"

#include <string.h>

/* The clip that workspaces are counted for. */
#define STEPS 20
#define TEXT_ROWS 512
#define AUDIO_CHUNK 256
/* A layer's fault is often every layer's. */
#define MOST_PROBLEMS 3

static gboolean
complain (GError *error)
{
  say ("problem", "%s", error->message);
  g_error_free (error);
  return FALSE;
}

static H3Geometry clip;

gboolean
inspect_for (gint width, gint height, gint frames, GError **error)
{
  return h3_geometry_init (&clip, width, height, frames, error);
}

/* Plans a model for each device. FALSE, with the problem said, when there is one
 * on all of them; what a single device does not take is remembered. */
typedef gboolean (*PlanModel) (const H3Checkpoint *checkpoint,
    const H3Device *device, gpointer config, guint64 *weight_bytes,
    GError **error);

static gboolean
plan (const H3Checkpoint *checkpoint, PlanModel plan_model, gpointer config,
    Needs *needs)
{
  GError *error = NULL;

  if (!plan_model (checkpoint, NULL, config, &needs->weights[0], &error))
    return complain (error);
  for (guint i = 0; i < N_DEVICES; i++)
    if (!plan_model (checkpoint, needs_device (i), config, &needs->weights[i],
            &error)) {
      needs->refusal[i] = g_strdup (error->message);
      g_clear_error (&error);
    }
  return TRUE;
}

/* Components: FALSE, with the problem said, when the loader would refuse. */

static gboolean
plan_transformer (const H3Checkpoint *checkpoint, const H3Device *device,
    gpointer config, guint64 *weight_bytes, GError **error)
{
  return h3_transformer_plan (checkpoint, device, config, weight_bytes, error);
}

static gboolean
inspect_transformer (const H3Checkpoint *checkpoint)
{
  g_auto (Needs) needs = { NEEDS_TURNS };
  H3TransformerConfig c;

  if (!plan (checkpoint, plan_transformer, &c, &needs))
    return FALSE;
  say ("geometry",
      "%d layers and %d of the refiner, hidden %d, %d heads of %d, "
      "feed-forward %d, text %d, %d video and %d audio channels",
      c.layers, c.refiner_layers, c.hidden, c.heads, c.head_dim, c.ffn,
      c.text_dim, c.video_channels, c.audio_channels);
  if (c.curve_points > 0)
    say ("", "AdaLN from a table of %d timesteps by %d%s", c.curve_points,
        c.curve_width,
        c.time_dim > 0 ? ", with the basis that it was projected by" : "");
  for (guint i = 0; i < N_DEVICES; i++)
    needs.workspace[i] = h3_transformer_workspace (&c, needs_device (i),
        clip.video_rows + clip.audio_rows + TEXT_ROWS, STEPS);
  needs_say (&needs, "");
  return TRUE;
}

static gboolean
plan_vision (const H3Checkpoint *checkpoint, const H3Device *device,
    gpointer config, guint64 *weight_bytes, GError **error)
{
  return h3_vision_model_plan (checkpoint, device, config, weight_bytes, error);
}

static gboolean
inspect_vision (const H3Checkpoint *checkpoint)
{
  g_auto (Needs) needs = { NEEDS_INPUT };
  H3TextCondition picture = { .kind = H3_CONDITION_IMAGE, .n_images = 1 };
  const H3TextCondition *const list[] = { &picture };
  GError *error = NULL;
  H3VisionConfig c;

  if (!plan (checkpoint, plan_vision, &c, &needs))
    return FALSE;
  say ("geometry", "vision: %d layers, hidden %d, %d heads, feed-forward %d",
      c.depth, c.hidden, c.heads, c.ffn);
  if (!h3_vision_picture_size (&picture.size, clip.width, clip.height, &error))
    return complain (error);
  for (guint i = 0; i < N_DEVICES; i++)
    needs.workspace[i] =
        h3_vision_model_workspace (&c, needs_device (i), list, 1);
  needs_say (&needs, "vision: ");
  return TRUE;
}

static gboolean
plan_text (const H3Checkpoint *checkpoint, const H3Device *device,
    gpointer config, guint64 *weight_bytes, GError **error)
{
  return h3_text_model_plan (checkpoint, device, config, weight_bytes, error);
}

static gboolean
inspect_text_encoder (const H3Checkpoint *checkpoint)
{
  g_auto (Needs) needs = { NEEDS_TURNS };
  GError *error = NULL;
  H3TextConfig c;
  const gchar *tokenizer;
  gboolean good;

  if (!plan (checkpoint, plan_text, &c, &needs))
    return FALSE;
  say ("geometry",
      "%d layers are used, hidden %d, %d heads and %d of keys of %d, "
      "feed-forward %d, vocabulary %d",
      H3_TEXT_LAYERS, c.hidden, c.heads, c.kv_heads, c.head_dim, c.ffn,
      c.vocab);
  for (guint i = 0; i < N_DEVICES; i++)
    needs.workspace[i] =
        h3_text_model_workspace (&c, needs_device (i), TEXT_ROWS);
  needs_say (&needs, "");
  good = inspect_vision (checkpoint);
  tokenizer = h3_checkpoint_path (checkpoint, H3_COMPONENT_TOKENIZER, &error);
  if (!tokenizer)
    return complain (error);
  say ("tokenizer", "%s", tokenizer);
  return good;
}

static gboolean
plan_video_decoder (const H3Checkpoint *checkpoint, const H3Device *device,
    gpointer config, guint64 *weight_bytes, GError **error)
{
  return h3_video_vae_plan (checkpoint, device, config, weight_bytes, error);
}

static gboolean
plan_video_encoder (const H3Checkpoint *checkpoint, const H3Device *device,
    gpointer config, guint64 *weight_bytes, GError **error)
{
  return h3_video_encoder_plan (checkpoint, device, config, weight_bytes,
      error);
}

static gboolean
inspect_video_vae (const H3Checkpoint *checkpoint)
{
  g_auto (Needs) decoder = { NEEDS_STAYS }, encoder = { NEEDS_INPUT };
  H3VideoVaeConfig c;
  H3VideoEncoderConfig e;

  if (!plan (checkpoint, plan_video_decoder, &c, &decoder))
    return FALSE;
  say ("geometry",
      "decoder: %d layers, %d heads of %d, feed-forward %d, %d channels, "
      "tiles of %d pixels",
      c.layers, c.heads, c.head_dim, c.ffn, c.channels, c.tile);
  for (guint i = 0; i < N_DEVICES; i++)
    decoder.workspace[i] = h3_video_decoder_workspace (&c, needs_device (i),
        clip.height / c.ratio, clip.width / c.ratio);
  needs_say (&decoder, "decoder: ");
  if (!plan (checkpoint, plan_video_encoder, &e, &encoder))
    return FALSE;
  for (guint i = 0; i < N_DEVICES; i++)
    encoder.workspace[i] = h3_video_encoder_workspace (&e, needs_device (i),
        clip.height, clip.width, TRUE);
  needs_say (&encoder, "encoder: ");
  return TRUE;
}

/* Audio: the same weights on every device. */
static gboolean
plan_audio_decoder (const H3Checkpoint *checkpoint, const H3Device *device,
    gpointer config, guint64 *weight_bytes, GError **error)
{
  return h3_audio_vae_plan (checkpoint, config, weight_bytes, error);
}

static gboolean
plan_audio_encoder (const H3Checkpoint *checkpoint, const H3Device *device,
    gpointer config, guint64 *weight_bytes, GError **error)
{
  return h3_audio_encoder_plan (checkpoint, config, weight_bytes, error);
}

static gboolean
inspect_audio_vae (const H3Checkpoint *checkpoint)
{
  g_auto (Needs) decoder = { NEEDS_STAYS }, encoder = { NEEDS_INPUT };
  H3AudioVaeConfig c;
  H3AudioEncoderConfig e;

  if (!plan (checkpoint, plan_audio_decoder, &c, &decoder))
    return FALSE;
  say ("geometry",
      "decoder: %d stages from %d channels, %d samples a latent of %d "
      "channels, %d Hz",
      c.n_stages, c.decoder_dim, c.hop, c.channels, c.rate);
  for (guint i = 0; i < N_DEVICES; i++)
    decoder.workspace[i] =
        h3_audio_decoder_workspace (&c, needs_device (i), AUDIO_CHUNK);
  needs_say (&decoder, "decoder: ");
  if (!plan (checkpoint, plan_audio_encoder, &e, &encoder))
    return FALSE;
  needs_say (&encoder, "encoder: ");
  return TRUE;
}

/* What a set is */

static gboolean
say_census (H3TensorSet *set)
{
  g_auto (Census) census = { 0 };
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree gchar *size = NULL;

  census_take (&census, set);
  for (guint i = 0; i < census.lines->len; i++) {
    const CensusLine *line = &g_array_index (census.lines, CensusLine, i);
    g_autofree gchar *bytes = size_text (line->bytes);

    g_string_append_printf (text, "%s%s %u (%s)", i ? ", " : "", line->encoding,
        line->n, bytes);
  }
  size = size_text (census.file_bytes);
  say ("encodings", "%s", text->str);
  say ("on disk", "%s (%" G_GUINT64_FORMAT " bytes), %u tensors", size,
      census.file_bytes, census.n_tensors);
  if (census.trailing > 0)
    say ("note", "%" G_GUINT64_FORMAT " bytes after the last tensor; ignored",
        census.trailing);
  for (guint i = 0; i < MIN (census.problems->len, MOST_PROBLEMS); i++)
    say ("problem", "%s", (const gchar *) census.problems->pdata[i]);
  if (census.problems->len > MOST_PROBLEMS)
    say ("problem", "and %u more of that kind",
        census.problems->len - MOST_PROBLEMS);
  return census.problems->len == 0;
}

/* Takes @text, which may be NULL. */
static void
note (gchar *text)
{
  if (text)
    say ("note", "%s", text);
  g_free (text);
}

static void
say_layout (H3TensorSet *set, const H3Detection *found)
{
  say ("layout", "%s, %s%s%s%s", h3_layout_name (found->layout),
      h3_tensor_set_is_sharded (set) ? "shards" : "one file",
      *found->prefix ? ", names begin with " : "", found->prefix,
      found->pruned   ? ", pruned: AdaLN from a table of timesteps"
      : found->folded ? ", weight norm folded"
                      : "");
  if (found->component != H3_COMPONENT_TRANSFORMER)
    return;
  say ("q, k, v", "%s%s", h3_qkv_order_name (found->qkv),
      found->qkv == H3_QKV_APART ? ""
                                 : " (by the form: no name or shape shows it)");
  note (h3_detection_doubt (set, found));
  note (h3_detection_narrowed (set, found));
}

/* model_index.json's word, or NULL. Free with g_free(). */
static gchar *
declared_partition (const gchar *component)
{
  g_autofree gchar *root = g_path_get_dirname (component);
  g_autofree gchar *base = g_path_get_basename (component);
  g_autofree gchar *index = g_build_filename (root, "model_index.json", NULL);
  g_autoptr (H3Config) config = h3_config_open (index, NULL);
  g_autofree gchar *class_name = NULL, *partition = NULL;

  if (!config)
    return NULL;
  h3_config_get_string (config, "_minimax_h3.partition", &partition, NULL);
  h3_config_get_string (config, "_class_name", &class_name, NULL);
  if (!partition && g_strcmp0 (class_name, "MiniMaxH3ModularPipeline") == 0)
    return g_strdup (
        g_str_equal (base, "transformer_ref") ? "ref2va" : "fl2va");
  return g_steal_pointer (&partition);
}

static void
say_partition (const gchar *component)
{
  g_autofree gchar *declared = declared_partition (component);
  H3Partition hint;

  if (declared)
    say ("partition", "%s (model_index.json says so)", declared);
  else if (h3_partition_hint (component, &hint))
    say ("partition", "%s (its name says so, nothing in it does)",
        hint == H3_PARTITION_REF2VA ? "ref2va" : "fl2va");
  else
    say ("partition", "unknown: nothing in the tensors tells fl2va from "
                      "ref2va");
}

/* The video autoencoder's tensors may be one folder deeper. */
static H3TensorSet *
open_set (const gchar *path, GError **error)
{
  g_autofree gchar *source = g_build_filename (path, "source", NULL);

  return h3_tensor_set_open (g_file_test (source, G_FILE_TEST_IS_DIR) ? source
                                                                      : path,
      error);
}

static gboolean
inspect_component (const H3Checkpoint *checkpoint, H3Component component,
    const gchar *path)
{
  g_autoptr (H3TensorSet) set = NULL;
  GError *error = NULL;
  H3Detection found;
  gboolean good;

  g_print ("%s\n", path);
  say ("component", "%s", h3_component_title (component));
  set = open_set (path, &error);
  if (!set)
    return complain (error);
  if (h3_detect_component (set, component, &found))
    say_layout (set, &found);
  if (component == H3_COMPONENT_TRANSFORMER)
    say_partition (path);
  good = say_census (set);
  switch (component) {
    case H3_COMPONENT_TRANSFORMER:
      return inspect_transformer (checkpoint) && good;
    case H3_COMPONENT_TEXT_ENCODER:
      return inspect_text_encoder (checkpoint) && good;
    case H3_COMPONENT_VIDEO_VAE:
      return inspect_video_vae (checkpoint) && good;
    default:
      return inspect_audio_vae (checkpoint) && good;
  }
}

/* A component of @path as one of the partitions has it, unless @seen. */
static gboolean
inspect_as (const gchar *path, H3Partition partition, GHashTable *seen,
    GPtrArray *refused)
{
  GError *error = NULL;
  g_autoptr (H3Checkpoint) checkpoint =
      h3_checkpoint_open (path, partition, &error);
  gboolean good = TRUE;

  if (!checkpoint) {
    g_ptr_array_add (refused, g_strdup (error->message));
    g_error_free (error);
    return TRUE;
  }
  for (guint i = 0; i < H3_N_COMPONENTS; i++) {
    const gchar *at;

    if (i == H3_COMPONENT_TOKENIZER)
      continue;
    at = h3_checkpoint_path (checkpoint, i, &error);
    if (!at) {
      if (error->code != H3_ERROR_NOT_FOUND)
        g_ptr_array_add (refused, g_strdup (error->message));
      g_clear_error (&error);
    } else {
      g_autofree gchar *key = g_strdup_printf ("%u %s", i, at);

      if (g_hash_table_add (seen, g_steal_pointer (&key)))
        good = inspect_component (checkpoint, i, at) && good;
    }
  }
  return good;
}

/* A file that is nothing a checkpoint can be: what is in it all the same. */
static void
inspect_foreign (const gchar *path)
{
  g_autoptr (H3TensorSet) set = g_file_test (path, G_FILE_TEST_IS_DIR)
                                    ? NULL
                                    : h3_tensor_set_open (path, NULL);
  H3Detection found;

  g_print ("%s\n", path);
  if (!set)
    return;
  if (h3_detect (set, &found) && found.refused)
    say ("is", "%s", found.refused);
  say_census (set);
}

gboolean
inspect (const gchar *path, GHashTable *seen)
{
  guint before = g_hash_table_size (seen);
  g_autoptr (GPtrArray) refused = g_ptr_array_new_with_free_func (g_free);
  gboolean good;

  if (inspect_is_adapter (path))
    return inspect_adapter (path, seen);
  good = inspect_as (path, H3_PARTITION_FL2VA, seen, refused);
  good = inspect_as (path, H3_PARTITION_REF2VA, seen, refused) && good;
  if (g_hash_table_size (seen) == before && refused->len > 0)
    inspect_foreign (path);
  /* what one partition is refused may be the other's transformer */
  for (guint i = 0; i < refused->len; i++)
    for (guint j = 0; j < i; j++)
      if (g_str_equal (refused->pdata[i], refused->pdata[j])) {
        say ("problem", "%s", (const gchar *) refused->pdata[i]);
        good = FALSE;
      }
  return good;
}
