/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which transformer the files hold (denoiser.md 2.3, checkpoints.md 8). */
#include "model/denoise/transformer-private.h"

#include "model/checkpoint/detect.h"

#include <math.h>
#include <string.h>

#define PATCH_AREA 4 /* 1 x 2 x 2 */
#define MAX_DIM (1 << 20)
#define MAX_LAYERS 4096

#define DEFAULT_EPS 1e-5
#define DEFAULT_THETA 10000.0
#define DEFAULT_ROPE_FREQS 16

static gboolean
refuse (GError **error, H3TensorSet *set, const gchar *what)
{
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s",
      h3_tensor_set_path (set), what);
  return FALSE;
}

static gboolean
find_naming (H3TensorSet *set, gboolean *diffusers, GError **error)
{
  if (h3_tensor_set_has (set, "video_patch_proj.weight")) {
    *diffusers = FALSE;
    return TRUE;
  }
  if (h3_tensor_set_has (set, "proj_in.weight") &&
      h3_tensor_set_has (set, "audio_proj_in.weight")) {
    *diffusers = TRUE;
    return TRUE;
  }
  return refuse (error, set,
      "not a MiniMax H3 transformer: neither video_patch_proj.weight (official "
      "naming) nor proj_in.weight and audio_proj_in.weight (diffusers naming) "
      "is in it");
}

/* A tensor's shape, which must have @rank dimensions. */
static gboolean
shape_of (H3TensorSet *set, const gchar *name, guint rank, gint *dim0,
    gint *dim1, GError **error)
{
  const H3StoredTensor *tensor = h3_tensor_set_get (set, name, error);

  if (!tensor)
    return FALSE;
  if (tensor->rank != rank) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: tensor %s has %u dimensions, expected %u", tensor->path, name,
        tensor->rank, rank);
    return FALSE;
  }
  for (guint i = 0; i < rank; i++)
    if (tensor->shape[i] < 1 || tensor->shape[i] > MAX_DIM) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s: dimension %u of tensor %s is %" G_GUINT64_FORMAT
          ", expected 1 to %d",
          tensor->path, i, name, tensor->shape[i], MAX_DIM);
      return FALSE;
    }
  *dim0 = (gint) tensor->shape[0];
  if (dim1)
    *dim1 = (gint) tensor->shape[1];
  return TRUE;
}

/* @value / @by, where the tensor's rows must be a multiple of @by. */
static gboolean
divide_rows (H3TensorSet *set, const gchar *name, gint value, gint by,
    const gchar *what, gint *quotient, GError **error)
{
  if (value % by != 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: tensor %s has a dimension of %d, which is no multiple of %d (%s)",
        h3_tensor_set_path (set), name, value, by, what);
    return FALSE;
  }
  *quotient = value / by;
  return TRUE;
}

/* How many blocks @prefix numbers; they must be 0 .. n - 1. */
static gboolean
count_blocks (H3TensorSet *set, const gchar *prefix, gint *count,
    GError **error)
{
  const GPtrArray *names = h3_tensor_set_names (set);
  g_autofree guint8 *seen = g_new0 (guint8, MAX_LAYERS);
  gsize length = strlen (prefix);
  gint n = 0;

  for (guint i = 0; i < names->len; i++) {
    const gchar *name = g_ptr_array_index (names, i);
    gchar *end = NULL;
    guint64 index;

    if (!g_str_has_prefix (name, prefix) || !g_ascii_isdigit (name[length]))
      continue;
    index = g_ascii_strtoull (name + length, &end, 10);
    if (*end != '.')
      continue;
    if (index >= MAX_LAYERS) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s: tensor %s numbers a block past %d", h3_tensor_set_path (set),
          name, MAX_LAYERS - 1);
      return FALSE;
    }
    seen[index] = TRUE;
    n = MAX (n, (gint) index + 1);
  }

  for (gint i = 0; i < n; i++)
    if (!seen[i]) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s: blocks are not contiguous: %s%d is missing, the last is %s%d",
          h3_tensor_set_path (set), prefix, i, prefix, n - 1);
      return FALSE;
    }
  *count = n;
  return TRUE;
}

/* Forms that have these names but compute something else. */
static gboolean
refuse_variants (H3TensorSet *set, GError **error)
{
  if (h3_tensor_set_has (set, "control_proj_in.weight"))
    return refuse (error, set,
        "this is a ControlNet for MiniMax H3, not a transformer");
  return TRUE;
}

static gboolean
check_output_heads (H3TensorSet *set, const gchar *name, gint channels,
    GError **error)
{
  gint rows;

  if (!shape_of (set, name, 2, &rows, NULL, error))
    return FALSE;
  if (rows > channels && rows % channels == 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: tensor %s is a bank of %d output heads (PDD), which cannot be "
        "read; expected %d rows, found %d",
        h3_tensor_set_path (set), name, rows / channels, channels, rows);
    return FALSE;
  }
  return TRUE; /* any other number is a wrong shape the loader names */
}

static gboolean
read_attention_shapes (H3TransformerConfig *c, H3TensorSet *set,
    gboolean diffusers, GError **error)
{
  const gchar *norm = diffusers ? "transformer_blocks.0.attn.norm_q.weight"
                                : "blocks.0.attn.q_norm.weight";
  const gchar *qkv = diffusers ? "transformer_blocks.0.attn.to_q.weight"
                               : "blocks.0.attn.qkv_proj.weight";
  const gchar *fc1 = diffusers ? "transformer_blocks.0.ff.net.0.proj.weight"
                               : "blocks.0.mlp.fc1.weight";
  gint parts = diffusers ? 1 : 3;
  gint rows, cols;

  return shape_of (set, norm, 1, &c->head_dim, NULL, error) &&
         shape_of (set, qkv, 2, &rows, &cols, error) &&
         divide_rows (set, qkv, rows, parts * c->head_dim,
             "whole attention heads", &c->heads, error) &&
         shape_of (set, fc1, 2, &rows, &cols, error) &&
         divide_rows (set, fc1, rows, 2, "gate and value", &c->ffn, error);
}

/* The time embedder's shapes. */
static gboolean
read_embedder (H3TransformerConfig *c, H3TensorSet *set, gboolean diffusers,
    GError **error)
{
  const gchar *time_in = diffusers ? "time_embedder.linear_1.weight"
                                   : "time_embedder.proj_in.weight";
  const gchar *time_out = diffusers ? "time_embedder.linear_2.weight"
                                    : "time_embedder.proj_out.weight";
  gint ignored;

  if (!shape_of (set, time_in, 2, &c->time_hidden, &c->freq_dim, error) ||
      !shape_of (set, time_out, 2, &c->time_dim, &ignored, error))
    return FALSE;
  if (c->freq_dim % 2 != 0)
    return refuse (error, set,
        "the timestep embedding has an odd number of features; cosines and "
        "sines come in pairs");
  return TRUE;
}

/* A pruned transformer's table, and what it was projected from where the file
 * says so (denoiser.md 6.1). */
static gboolean
read_curve (H3TransformerConfig *c, H3TensorSet *set, const gchar *table,
    GError **error)
{
  gint ignored;

  if (h3_tensor_set_has (set, "time_embedder.proj_in.weight") ||
      h3_tensor_set_has (set, "time_embedder.linear_1.weight")) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s has a table of timesteps (%s), as a pruned transformer, and a time "
        "embedder, as a full one: only one of them can be AdaLN's input",
        h3_tensor_set_path (set), table);
    return FALSE;
  }
  if (!shape_of (set, table, 2, &c->curve_points, &c->curve_width, error))
    return FALSE;
  if (c->curve_points < 2) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: tensor %s has %d row, needed are the first and the last timestep "
        "at least",
        h3_tensor_set_path (set), table, c->curve_points);
    return FALSE;
  }
  return !h3_tensor_set_has (set, "adaln_basis") ||
         shape_of (set, "adaln_basis", 2, &ignored, &c->time_dim, error);
}

static gboolean
read_time_shapes (H3TransformerConfig *c, H3TensorSet *set, gboolean diffusers,
    GError **error)
{
  const gchar *table = h3_curve_table_name (set);

  return table ? read_curve (c, set, table, error)
               : read_embedder (c, set, diffusers, error);
}

static gboolean
read_shapes (H3TransformerConfig *c, H3TensorSet *set, gboolean diffusers,
    GError **error)
{
  const gchar *video_in =
      diffusers ? "proj_in.weight" : "video_patch_proj.weight";
  const gchar *audio_in =
      diffusers ? "audio_proj_in.weight" : "audio_patch_proj.weight";
  const gchar *condition =
      diffusers ? "context_embedder.weight" : "condition_proj.weight";
  const gchar *video_out =
      diffusers ? "proj_out.weight" : "final_layer.video_out.weight";
  const gchar *audio_out =
      diffusers ? "audio_proj_out.weight" : "final_layer.audio_out.weight";
  gint ignored, cols;

  if (!shape_of (set, video_in, 2, &c->hidden, &cols, error) ||
      !divide_rows (set, video_in, cols, PATCH_AREA, "patches of 1x2x2",
          &c->video_channels, error) ||
      !shape_of (set, audio_in, 2, &ignored, &c->audio_channels, error) ||
      !shape_of (set, condition, 2, &ignored, &c->text_dim, error) ||
      !read_time_shapes (c, set, diffusers, error) ||
      !check_output_heads (set, video_out, PATCH_AREA * c->video_channels,
          error) ||
      !check_output_heads (set, audio_out, c->audio_channels, error) ||
      !count_blocks (set, diffusers ? "transformer_blocks." : "blocks.",
          &c->layers, error) ||
      !count_blocks (set,
          diffusers ? "token_refiner.refiner_blocks." : "token_refiner.blocks.",
          &c->refiner_layers, error))
    return FALSE;
  if (c->layers == 0)
    return refuse (error, set, "the transformer has no blocks");
  if (h3_tensor_set_has (set, "rope.inv_freq") &&
      !shape_of (set, "rope.inv_freq", 1, &c->rope_freqs, NULL, error))
    return FALSE;
  return read_attention_shapes (c, set, diffusers, error);
}

/* A number the tensors already gave: config.json may repeat it, not change
 * it. */
static gboolean
agrees (H3Config *json, const gchar *key, gint found, GError **error)
{
  gint value = found;

  if (!h3_config_get_int (json, key, 0, G_MAXINT, &value, error))
    return FALSE;
  if (value == found)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s says %s = %d, but the tensors give %d: the file and the folder do "
      "not belong together",
      h3_config_path (json), key, value, found);
  return FALSE;
}

static gboolean
check_geometry (H3Config *json, const H3TransformerConfig *c, GError **error)
{
  const struct {
    const gchar *key;
    gint found;
  } keys[] = {
    { "hidden_size", c->hidden },
    { "num_layers", c->layers },
    { "token_refiner_num_layers", c->refiner_layers }, /* official */
    { "num_refiner_layers", c->refiner_layers },       /* diffusers */
    { "num_attention_heads", c->heads },
    { "attention_head_dim", c->head_dim },
    { "ffn_hidden_size", c->ffn },
    { "ffn_dim", c->ffn },
    { "latents_dim", c->video_channels },
    { "in_channels", c->video_channels },
    { "audio_latents_dim", c->audio_channels },
    { "audio_in_channels", c->audio_channels },
    { "text_dim", c->text_dim },
    { "adaln_out_features", H3_ADALN_ROWS * c->hidden },
    { "final_adaln_out_features", H3_N_FINAL_ADALN * c->hidden },
  };

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (!agrees (json, keys[i].key, keys[i].found, error))
      return FALSE;
  return TRUE;
}

/* A curve's file need not show what it was made of. */
static gboolean
check_time (H3Config *json, const H3TransformerConfig *c, GError **error)
{
  if (c->curve_points > 0)
    return agrees (json, "time_table_size", c->curve_points, error) &&
           agrees (json, "adaln_rank", c->curve_width, error) &&
           (c->time_dim == 0 ||
               agrees (json, "time_embed_dim", c->time_dim, error));
  return agrees (json, "timestep_input_dim", c->freq_dim, error) &&
         agrees (json, "freq_dim", c->freq_dim, error) &&
         agrees (json, "time_embed_hidden_size", c->time_hidden, error) &&
         agrees (json, "time_embed_hidden_dim", c->time_hidden, error) &&
         agrees (json, "time_embed_dim", c->time_dim, error);
}

static gboolean
check_patch (H3Config *json, GError **error)
{
  gint patch[3] = { 1, 2, 2 };
  guint n = 3;

  if (!h3_config_get_ints (json, "patch_size", 1, 64, patch, &n, error))
    return FALSE;
  if (n == 3 && patch[0] == 1 && patch[1] == 2 && patch[2] == 2)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s: patch_size is not [1, 2, 2], the only one MiniMax H3 has",
      h3_config_path (json));
  return FALSE;
}

static gboolean
check_class (H3Config *json, const H3TransformerConfig *c, GError **error)
{
  g_autofree gchar *name = NULL;

  if (!h3_config_get_string (json, "_class_name", &name, error))
    return FALSE;
  if (g_strcmp0 (name, H3_PRUNED_CLASS) == 0) {
    if (c->curve_points > 0)
      return TRUE;
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s describes a %s, but the tensors have a time embedder and no table "
        "of timesteps",
        h3_config_path (json), name);
    return FALSE;
  }
  if (!name || g_str_equal (name, "MiniMaxH3DiTModel") ||
      g_str_equal (name, "MiniMaxH3Transformer3DModel"))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s describes a %s; needed is a MiniMaxH3DiTModel, a "
      "MiniMaxH3Transformer3DModel or a " H3_PRUNED_CLASS,
      h3_config_path (json), name);
  return FALSE;
}

/* The one count that may stand in config.json alone. */
static gboolean
read_rope (H3TransformerConfig *c, H3Config *json, GError **error)
{
  static const gchar *const keys[] = { "rope_inv_freq_len", "rope_freq_dim" };

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++) {
    if (c->rope_freqs > 0) {
      if (!agrees (json, keys[i], c->rope_freqs, error))
        return FALSE;
    } else if (!h3_config_get_int (json, keys[i], 1, MAX_DIM, &c->rope_freqs,
                   error))
      return FALSE;
  }
  return h3_config_get_double (json, "rope_theta", &c->rope_theta, error);
}

static gboolean
check_number (const H3Config *json, const gchar *key, gdouble value,
    gboolean zero_allowed, GError **error)
{
  if (isfinite (value) && (value > 0 || (zero_allowed && value == 0)))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s: %s is %g, expected a positive number", h3_config_path (json), key,
      value);
  return FALSE;
}

static gboolean
read_json (H3TransformerConfig *c, H3Config *json, GError **error)
{
  return check_class (json, c, error) && check_patch (json, error) &&
         check_geometry (json, c, error) && check_time (json, c, error) &&
         read_rope (c, json, error) &&
         h3_config_get_double (json, "norm_eps", &c->norm_eps, error) &&
         h3_config_get_double (json, "qk_norm_eps", &c->qk_norm_eps, error) &&
         h3_config_get_double (json, "final_norm_eps", &c->final_norm_eps,
             error) &&
         check_number (json, "rope_theta", c->rope_theta, FALSE, error) &&
         check_number (json, "norm_eps", c->norm_eps, TRUE, error) &&
         check_number (json, "qk_norm_eps", c->qk_norm_eps, TRUE, error) &&
         check_number (json, "final_norm_eps", c->final_norm_eps, TRUE, error);
}

gboolean
h3_transformer_config_read (H3TransformerConfig *config, H3TensorSet *set,
    gboolean *diffusers, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (H3Config) json = h3_component_config (h3_tensor_set_path (set),
      H3_COMPONENT_TRANSFORMER, &local);

  if (local) {
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  *config = (H3TransformerConfig){
    .rope_theta = DEFAULT_THETA,
    .norm_eps = DEFAULT_EPS,
    .qk_norm_eps = DEFAULT_EPS,
    .final_norm_eps = DEFAULT_EPS,
  };
  if (!refuse_variants (set, error) || !find_naming (set, diffusers, error) ||
      !read_shapes (config, set, *diffusers, error))
    return FALSE;
  if (json && !read_json (config, json, error))
    return FALSE;

  if (config->rope_freqs == 0)
    config->rope_freqs = DEFAULT_ROPE_FREQS;
  if (6 * (gint64) config->rope_freqs > config->head_dim) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: %d rotary frequencies on three axes turn %d dimensions, but a "
        "head has %d",
        h3_tensor_set_path (set), config->rope_freqs, 6 * config->rope_freqs,
        config->head_dim);
    return FALSE;
  }
  return TRUE;
}
