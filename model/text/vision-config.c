/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/vision-config.h"

#include <math.h>

#include "model/text/text-config.h"

static const H3VisionConfig released = {
  .hidden = 1152,
  .depth = 27,
  .heads = 16,
  .ffn = 4304,
  .positions = 2304,
  .out_hidden = 5120,
  .deepstack = { 8, 16, 24 },
  .n_deepstack = 3,
};

static gboolean
read_dimensions (const H3Config *file, H3VisionConfig *config, GError **error)
{
  const struct {
    const gchar *key;
    gint *value, most;
  } dimensions[] = {
    { "vision_config.hidden_size", &config->hidden, H3_TEXT_MAX_DIMENSION },
    { "vision_config.depth", &config->depth, 1024 },
    { "vision_config.num_heads", &config->heads, H3_TEXT_MAX_DIMENSION },
    { "vision_config.intermediate_size", &config->ffn, H3_TEXT_MAX_DIMENSION },
    { "vision_config.num_position_embeddings", &config->positions,
        H3_TEXT_MAX_DIMENSION },
    { "vision_config.out_hidden_size", &config->out_hidden,
        H3_TEXT_MAX_DIMENSION },
  };

  for (guint i = 0; i < G_N_ELEMENTS (dimensions); i++) {
    if (!h3_config_get_int (file, dimensions[i].key, 1, dimensions[i].most,
            dimensions[i].value, error))
      return FALSE;
  }
  if (h3_config_has (file, "vision_config.deepstack_visual_indexes"))
    config->n_deepstack = H3_VISION_MAX_DEEPSTACK;
  return h3_config_get_ints (file, "vision_config.deepstack_visual_indexes", 0,
      1024, config->deepstack, &config->n_deepstack, error);
}

/* What the order of patches, the operations and the presentation rely on. */
static gboolean
check_fixed (const H3Config *file, GError **error)
{
  static const struct {
    const gchar *key;
    gint needed;
  } fixed[] = {
    { "vision_config.in_channels", 3 },
    { "vision_config.patch_size", H3_VISION_PATCH },
    { "vision_config.temporal_patch_size", H3_VISION_TEMPORAL },
    { "vision_config.spatial_merge_size", H3_VISION_MERGE },
  };
  g_autofree gchar *act = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++) {
    gint value = fixed[i].needed;

    if (!h3_config_get_int (file, fixed[i].key, 1, H3_TEXT_MAX_DIMENSION,
            &value, error))
      return FALSE;
    if (value != fixed[i].needed)
      return h3_config_refuse (file, error, "%s is %d, H3 has %d", fixed[i].key,
          value, fixed[i].needed);
  }
  if (!h3_config_get_string (file, "vision_config.hidden_act", &act, error))
    return FALSE;
  if (act && !g_str_equal (act, "gelu_pytorch_tanh"))
    return h3_config_refuse (file, error,
        "vision_config.hidden_act is \"%s\", H3 has \"gelu_pytorch_tanh\"",
        act);
  return TRUE;
}

static gboolean
check_deepstack (const H3Config *file, const H3VisionConfig *config,
    GError **error)
{
  for (guint i = 0; i < config->n_deepstack; i++) {
    const gint index = config->deepstack[i];

    if (index >= config->depth || (i > 0 && index <= config->deepstack[i - 1]))
      return h3_config_refuse (file, error,
          "vision_config.deepstack_visual_indexes has %d as number %u: they "
          "must ascend and be below depth %d",
          index, i + 1, config->depth);
  }
  return TRUE;
}

static gboolean
check_settings (const H3Config *file, const H3VisionConfig *config,
    GError **error)
{
  const gint side = (gint) sqrt (config->positions);

  /* half of a head turns by the row, half by the column, in pairs */
  if (config->hidden % config->heads != 0 ||
      config->hidden / config->heads % 4 != 0)
    return h3_config_refuse (file, error,
        "vision_config.hidden_size %d is not num_heads %d times a multiple of "
        "4",
        config->hidden, config->heads);
  if (side * side != config->positions || side < 2)
    return h3_config_refuse (file, error,
        "vision_config.num_position_embeddings is %d, the square of 2 or more "
        "is needed",
        config->positions);
  return check_deepstack (file, config, error);
}

/* The tokens take the place of the language model's embeddings. */
static gboolean
check_language_model (const H3Config *file, const H3VisionConfig *config,
    GError **error)
{
  H3TextConfig text;

  if (!h3_text_config_read (file, &text, error))
    return FALSE;
  if (text.hidden != config->out_hidden)
    return h3_config_refuse (file, error,
        "vision_config.out_hidden_size is %d, text_config.hidden_size %d: they "
        "must be equal",
        config->out_hidden, text.hidden);
  return TRUE;
}

gboolean
h3_vision_config_read (const H3Config *file, H3VisionConfig *config,
    GError **error)
{
  *config = released;
  return read_dimensions (file, config, error) && check_fixed (file, error) &&
         check_settings (file, config, error) &&
         check_language_model (file, config, error);
}

void
h3_vision_config_check_shapes (H3Loader *loader, const H3Config *file,
    H3VisionConfig *config)
{
  const struct {
    const gchar *key, *name;
    guint axis;
    gint *value;
  } checks[] = {
    { "hidden_size", H3_VISION_PREFIX "patch_embed.proj.weight", 0,
        &config->hidden },
    { "num_position_embeddings", H3_VISION_PREFIX "pos_embed.weight", 0,
        &config->positions },
    { "intermediate_size", H3_VISION_PREFIX "blocks.0.mlp.linear_fc1.weight", 0,
        &config->ffn },
    { "out_hidden_size", H3_VISION_PREFIX "merger.linear_fc2.weight", 0,
        &config->out_hidden },
  };

  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    h3_text_config_check_dimension (loader, file, checks[i].key, checks[i].name,
        checks[i].axis, 1, checks[i].value);
}
