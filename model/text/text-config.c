/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/text-config.h"

#include <string.h>

#include "model/checkpoint/detect.h"

static const H3TextConfig released = {
  .hidden = 5120,
  .layers = 64,
  .heads = 64,
  .kv_heads = 8,
  .head_dim = 128,
  .ffn = 25600,
  .vocab = 151936,
  .max_positions = 262144,
  .mrope_section = { 24, 20, 20 },
  .rms_eps = 1e-6,
  .rope_theta = 5e6,
};

static gboolean
read_dimensions (const H3Config *file, H3TextConfig *config, GError **error)
{
  const struct {
    const gchar *key;
    gint *value;
  } dimensions[] = {
    { "text_config.hidden_size", &config->hidden },
    { "text_config.num_hidden_layers", &config->layers },
    { "text_config.num_attention_heads", &config->heads },
    { "text_config.num_key_value_heads", &config->kv_heads },
    { "text_config.head_dim", &config->head_dim },
    { "text_config.intermediate_size", &config->ffn },
    { "text_config.vocab_size", &config->vocab },
    { "text_config.max_position_embeddings", &config->max_positions },
  };

  for (guint i = 0; i < G_N_ELEMENTS (dimensions); i++) {
    if (!h3_config_get_int (file, dimensions[i].key, 1, H3_TEXT_MAX_DIMENSION,
            dimensions[i].value, error))
      return FALSE;
  }
  return TRUE;
}

/* transformers 5 writes rope_parameters with rope_theta inside, 4 rope_scaling
 * with it beside. */
static gboolean
read_rope (const H3Config *file, H3TextConfig *config, GError **error)
{
  const gboolean v5 = h3_config_has (file, "text_config.rope_parameters");
  guint n = G_N_ELEMENTS (config->mrope_section);
  gboolean interleaved = TRUE;
  g_autofree gchar *type = NULL;

  if (!h3_config_get_double (file,
          v5 ? "text_config.rope_parameters.rope_theta"
             : "text_config.rope_theta",
          &config->rope_theta, error) ||
      !h3_config_get_ints (file,
          v5 ? "text_config.rope_parameters.mrope_section"
             : "text_config.rope_scaling.mrope_section",
          1, H3_TEXT_MAX_DIMENSION, config->mrope_section, &n, error) ||
      !h3_config_get_bool (file,
          v5 ? "text_config.rope_parameters.mrope_interleaved"
             : "text_config.rope_scaling.mrope_interleaved",
          &interleaved, error) ||
      !h3_config_get_string (file,
          v5 ? "text_config.rope_parameters.rope_type"
             : "text_config.rope_scaling.rope_type",
          &type, error))
    return FALSE;
  if (n != G_N_ELEMENTS (config->mrope_section))
    return h3_config_refuse (file, error,
        "mrope_section has %u numbers, 3 are needed", n);
  if (!interleaved)
    return h3_config_refuse (file, error,
        "mrope_interleaved is false, H3 has it true");
  if (type && !g_str_equal (type, "default"))
    return h3_config_refuse (file, error,
        "rope_type is \"%s\", H3 has \"default\"", type);
  return TRUE;
}

/* Frequency j turns by h where j mod 3 = 1, by w where j mod 3 = 2, as far as
 * their sections reach, else by t (text-encoder.md 6). */
static gboolean
check_rope (const H3Config *file, const H3TextConfig *config, GError **error)
{
  const gint *section = config->mrope_section;
  const gint frequencies = config->head_dim / 2;

  if (config->head_dim % 2 != 0)
    return h3_config_refuse (file, error,
        "head_dim is %d, an even number is needed", config->head_dim);
  if ((gint64) section[0] + section[1] + section[2] != frequencies ||
      3 * section[1] - 2 >= frequencies || 3 * section[2] - 1 >= frequencies)
    return h3_config_refuse (file, error,
        "mrope_section [%d, %d, %d] does not interleave over the %d "
        "frequencies of head_dim %d",
        section[0], section[1], section[2], frequencies, config->head_dim);
  if (!(config->rope_theta > 1 && config->rope_theta < 1e12))
    return h3_config_refuse (file, error,
        "rope_theta is %g, 1 to 1e12 is needed", config->rope_theta);
  return TRUE;
}

static gboolean
check_settings (const H3Config *file, const H3TextConfig *config,
    GError **error)
{
  gboolean bias = FALSE;
  g_autofree gchar *act = NULL;

  if (!h3_config_get_bool (file, "text_config.attention_bias", &bias, error) ||
      !h3_config_get_string (file, "text_config.hidden_act", &act, error))
    return FALSE;
  if (bias)
    return h3_config_refuse (file, error,
        "attention_bias is true, H3 has none");
  if (act && !g_str_equal (act, "silu"))
    return h3_config_refuse (file, error,
        "hidden_act is \"%s\", H3 has \"silu\"", act);
  if (config->heads % config->kv_heads != 0)
    return h3_config_refuse (file, error,
        "num_attention_heads %d is no multiple of num_key_value_heads %d",
        config->heads, config->kv_heads);
  if (config->layers < H3_TEXT_LAYERS)
    return h3_config_refuse (file, error,
        "num_hidden_layers is %d, H3 needs the state after layer %d",
        config->layers, H3_TEXT_LAYERS);
  if (!(config->rms_eps > 0 && config->rms_eps < 1))
    return h3_config_refuse (file, error,
        "rms_norm_eps is %g, 0 to 1 is needed", config->rms_eps);
  return TRUE;
}

gboolean
h3_text_config_read (const H3Config *file, H3TextConfig *config, GError **error)
{
  *config = released;
  return read_dimensions (file, config, error) &&
         h3_config_get_double (file, "text_config.rms_norm_eps",
             &config->rms_eps, error) &&
         read_rope (file, config, error) &&
         check_settings (file, config, error) &&
         check_rope (file, config, error);
}

void
h3_text_config_check_dimension (H3Loader *loader, const H3Config *file,
    const gchar *key, const gchar *name, guint axis, gint unit, gint *value)
{
  guint64 shape[H3_STORED_MAX_RANK];
  guint rank;

  /* a missing tensor is reported where it is read */
  if (!h3_loader_has (loader, name) ||
      !h3_loader_shape (loader, name, shape, &rank))
    return;
  if (axis >= rank || shape[axis] == 0 || shape[axis] % unit != 0 ||
      shape[axis] / unit > H3_TEXT_MAX_DIMENSION) {
    h3_loader_problem (loader,
        "tensor %s: its shape gives no %s (dimension %u must be a positive "
        "multiple of %d)",
        name, key, axis, unit);
    return;
  }
  if (shape[axis] / unit == *value)
    return;
  h3_loader_problem (loader,
      "%s says %s %d, tensor %s gives %" G_GUINT64_FORMAT,
      h3_config_path (file), key, *value, name, shape[axis] / unit);
  *value = shape[axis] / unit;
}

void
h3_text_config_check_shapes (H3Loader *loader, const H3Config *file,
    H3TextConfig *config)
{
  const struct {
    const gchar *key, *name;
    guint axis;
    gboolean per_head;
    gint *value;
  } checks[] = {
    { "vocab_size", H3_TEXT_PREFIX "embed_tokens.weight", 0, FALSE,
        &config->vocab },
    { "hidden_size", H3_TEXT_PREFIX "embed_tokens.weight", 1, FALSE,
        &config->hidden },
    { "head_dim", H3_TEXT_PREFIX "layers.0.self_attn.q_norm.weight", 0, FALSE,
        &config->head_dim },
    { "num_attention_heads", H3_TEXT_PREFIX "layers.0.self_attn.q_proj.weight",
        0, TRUE, &config->heads },
    { "num_key_value_heads", H3_TEXT_PREFIX "layers.0.self_attn.k_proj.weight",
        0, TRUE, &config->kv_heads },
    { "intermediate_size", H3_TEXT_PREFIX "layers.0.mlp.gate_proj.weight", 0,
        FALSE, &config->ffn },
  };

  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    h3_text_config_check_dimension (loader, file, checks[i].key, checks[i].name,
        checks[i].axis, checks[i].per_head ? config->head_dim : 1,
        checks[i].value);
}

/* A single file has the release's geometry unless a configuration is beside it;
 * whether it has is checked against the shapes. */
static H3Config *
open_config (const gchar *path, GError **error)
{
  static const gchar nothing[] = "{}";
  g_autoptr (GError) local = NULL;
  g_autofree gchar *file = NULL;
  H3Config *config;

  if (g_file_test (path, G_FILE_TEST_IS_DIR)) {
    file = g_build_filename (path, "config.json", NULL);
    return h3_config_open (file, error);
  }
  config = h3_component_config (path, H3_COMPONENT_TEXT_ENCODER, &local);
  if (local) {
    g_propagate_error (error, g_steal_pointer (&local));
    return NULL;
  }
  if (config)
    return config;
  file =
      g_strdup_printf ("%s (no config.json beside it, so the release's)", path);
  return h3_config_parse (nothing, strlen (nothing), file, error);
}

gboolean
h3_text_open (const H3Checkpoint *checkpoint, H3Config **file,
    H3TensorSet **set, GError **error)
{
  const gchar *path =
      h3_checkpoint_path (checkpoint, H3_COMPONENT_TEXT_ENCODER, error);

  if (!path)
    return FALSE;
  *file = open_config (path, error);
  if (!*file)
    return FALSE;
  *set = h3_component_open (path, H3_COMPONENT_TEXT_ENCODER, NULL, error);
  return *set != NULL;
}
