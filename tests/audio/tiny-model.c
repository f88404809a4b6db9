/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/audio/tiny-model.h"

#include <math.h>
#include <string.h>

#include "model/audio/audio-private.h"
#include "tests/tools/h3-test.h"

#define LATENT_DIM 32
#define DECODER_DIM 16

static const gint kernels[] = { 9, 4 };
static const gint block_kernels[] = { 3, 7 };

gdouble
tiny_random (const gchar *name, guint32 i)
{
  guint32 s = 0x811C9DC5;

  for (const gchar *p = name; *p; p++)
    s = (s ^ (guint8) *p) * 0x01000193;
  s += i * 0x9E3779B9;
  s ^= s >> 16;
  s *= 0x85EBCA6B;
  s ^= s >> 13;
  s *= 0xC2B2AE35;
  s ^= s >> 16;
  return 2 * (s / 4294967296.0) - 1;
}

/* The first rule of the table that fits. */
static gdouble
value (const TinyTensor *tensor, guint32 i)
{
  const gchar *name = tensor->name;
  gdouble r = tiny_random (name, i);

  if (g_str_has_suffix (name, ".filter"))
    return h3_audio_default_filter ()[i];
  if (g_str_equal (name, "decoder.conv_post.weight_g"))
    return 0.5;
  if (g_str_has_suffix (name, ".weight_g"))
    return 0.9 + 0.3 * r;
  if (g_str_has_suffix (name, ".weight_v"))
    return r;
  if (g_str_has_suffix (name, ".act.alpha") ||
      g_str_has_suffix (name, ".act.beta"))
    return 0.5 * r;
  if (g_str_has_suffix (name, ".alpha"))
    return 1 + 0.5 * r;
  if (tensor->rank == 1 && g_str_has_suffix (name, ".weight"))
    return 1 + 0.1 * r;
  if (g_str_has_suffix (name, "zero_k_bias"))
    return 0;
  if (g_str_has_suffix (name, "bias"))
    return 0.1 * r;
  if (g_str_equal (name, "latents_mean"))
    return 0.3 * r;
  if (g_str_equal (name, "latents_std"))
    return 1 + 0.5 * r;
  return r * sqrt (3.0 / (tensor->shape[1] * tensor->shape[2]));
}

static void
tensor_free (gpointer data)
{
  TinyTensor *tensor = data;

  g_free (tensor->name);
  g_free (tensor->values);
  g_free (tensor);
}

static TinyTensor *
add (TinyModel *model, const gchar *name, gint64 d0, gint64 d1, gint64 d2)
{
  TinyTensor *tensor = g_new0 (TinyTensor, 1);

  tensor->name = g_strdup (name);
  tensor->rank = d1 ? 3 : 1;
  tensor->shape[0] = d0;
  tensor->shape[1] = d1;
  tensor->shape[2] = d2;
  tensor->n = d0 * (d1 ? d1 * d2 : 1);
  tensor->values = g_new (gfloat, tensor->n);
  for (gsize i = 0; i < tensor->n; i++)
    tensor->values[i] = value (tensor, i);
  g_ptr_array_add (model->tensors, tensor);
  return tensor;
}

G_GNUC_PRINTF (5, 6)
static TinyTensor *
addf (TinyModel *model, gint64 d0, gint64 d1, gint64 d2, const gchar *format,
    ...)
{
  g_autofree gchar *name = NULL;
  va_list args;

  va_start (args, format);
  name = g_strdup_vprintf (format, args);
  va_end (args);
  return add (model, name, d0, d1, d2);
}

static void
rename_tensor (TinyTensor *tensor, const gchar *prefix, const gchar *suffix)
{
  g_free (tensor->name);
  tensor->name = g_strconcat (prefix, suffix, NULL);
}

static void
fold (const TinyTensor *g, TinyTensor *v)
{
  gsize n = v->n / v->shape[0];

  for (gint64 a = 0; a < v->shape[0]; a++) {
    gdouble sum = 0;

    for (gsize i = 0; i < n; i++)
      sum += (gdouble) v->values[a * n + i] * v->values[a * n + i];
    for (gsize i = 0; i < n; i++)
      v->values[a * n + i] *= g->values[a] / sqrt (sum);
  }
}

static void
add_conv (TinyModel *model, const gchar *name, gint64 d0, gint64 d1, gint64 k,
    gint64 n_bias, Spelling spelling)
{
  TinyTensor *g = addf (model, d0, 1, 1, "%s.weight_g", name);
  TinyTensor *v = addf (model, d0, d1, k, "%s.weight_v", name);

  if (spelling == SPELLING_PARAMETRIZED) {
    rename_tensor (g, name, ".parametrizations.weight.original0");
    rename_tensor (v, name, ".parametrizations.weight.original1");
  } else if (spelling == SPELLING_FOLDED) {
    fold (g, v);
    rename_tensor (v, name, ".weight");
    g_ptr_array_remove (model->tensors, g);
  }
  if (n_bias > 0)
    addf (model, n_bias, 0, 0, "%s.bias", name);
}

static void
add_activation (TinyModel *model, const gchar *name, gint64 channels)
{
  addf (model, channels, 0, 0, "%s.act.alpha", name);
  addf (model, channels, 0, 0, "%s.act.beta", name);
  addf (model, 1, 1, 12, "%s.upsample.filter", name);
  addf (model, 1, 1, 12, "%s.downsample.lowpass.filter", name);
}

static void
add_block (TinyModel *model, gint n, gint64 channels, Spelling spelling)
{
  for (gint q = 0; q < 2; q++) {
    for (gint k = 1; k <= 2; k++) {
      g_autofree gchar *name =
          g_strdup_printf ("decoder.resblocks.%d.convs%d.%d", n, k, q);

      add_conv (model, name, channels, channels, block_kernels[n % 2], channels,
          spelling);
    }
  }
  for (gint a = 0; a < 4; a++) {
    g_autofree gchar *name =
        g_strdup_printf ("decoder.resblocks.%d.activations.%d", n, a);

    add_activation (model, name, channels);
  }
}

static void
add_linear (TinyModel *model, const gchar *name, gint64 rows, gint64 cols)
{
  addf (model, rows, cols, 1, "%s.weight", name);
  addf (model, rows, 0, 0, "%s.bias", name);
}

static void
add_norm (TinyModel *model, const gchar *name, gint64 n)
{
  addf (model, n, 0, 0, "%s.weight", name);
  addf (model, n, 0, 0, "%s.bias", name);
}

static void
add_encoder_block (TinyModel *model, gint n, gint64 channels, gint rate,
    Spelling spelling)
{
  g_autofree gchar *down = g_strdup_printf ("encoder.block.%d.block.4", n);

  for (gint r = 0; r < 3; r++) {
    g_autofree gchar *unit =
        g_strdup_printf ("encoder.block.%d.block.%d.block", n, r);
    g_autofree gchar *first = g_strconcat (unit, ".1", NULL);
    g_autofree gchar *second = g_strconcat (unit, ".3", NULL);

    addf (model, 1, channels, 1, "%s.0.alpha", unit);
    add_conv (model, first, channels, channels, 7, channels, spelling);
    addf (model, 1, channels, 1, "%s.2.alpha", unit);
    add_conv (model, second, channels, channels, 1, channels, spelling);
  }
  addf (model, 1, channels, 1, "encoder.block.%d.block.3.alpha", n);
  add_conv (model, down, 2 * channels, channels, 2 * rate, 2 * channels,
      spelling);
}

static void
add_encoder (TinyModel *model, Spelling spelling)
{
  const gint64 c = TINY_CHANNELS, dim = LATENT_DIM;

  add_conv (model, "encoder.block.0", 4, 1, 7, 4, spelling);
  add_encoder_block (model, 1, 4, 2, spelling);
  add_encoder_block (model, 2, 8, 5, spelling);
  add (model, "encoder.block.3.alpha", 1, 16, 1);
  add_conv (model, "encoder.block.4", dim, 16, 3, dim, spelling);
  add_norm (model, "pre_block.norm1", dim);
  add_norm (model, "pre_block.norm2", c);
  add_norm (model, "pre_block.norm3", dim);
  add (model, "pre_block.attn.qkv.weight", 3 * dim, dim, 1);
  add (model, "pre_block.attn.q_bias", dim, 0, 0);
  add (model, "pre_block.attn.v_bias", dim, 0, 0);
  add (model, "pre_block.attn.zero_k_bias", dim, 0, 0);
  add_linear (model, "pre_block.attn.proj", c, c);
  add_linear (model, "pre_block.proj", c, dim);
  add_norm (model, "pre_block.mlp.norm", c);
  add_linear (model, "pre_block.mlp.w0", 2 * c, c);
  add_linear (model, "pre_block.mlp.w1", 2 * c, c);
  add_linear (model, "pre_block.mlp.w2", c, 2 * c);
  add_linear (model, "mean_proj", c, c);
  add_linear (model, "logs_proj", c, c);
}

TinyModel *
tiny_model_new (Spelling spelling)
{
  TinyModel *model = g_new0 (TinyModel, 1);
  gint64 channels = DECODER_DIM;

  model->tensors = g_ptr_array_new_with_free_func (tensor_free);
  add (model, "dec_in_proj.weight", LATENT_DIM, TINY_CHANNELS, 1);
  add (model, "dec_in_proj.bias", LATENT_DIM, 0, 0);
  add_conv (model, "decoder.conv_pre", channels, LATENT_DIM, 7, channels,
      spelling);
  for (gint i = 0; i < 2; i++) {
    g_autofree gchar *name = g_strdup_printf ("decoder.ups.%d.0", i);

    add_conv (model, name, channels, channels / 2, kernels[i], channels / 2,
        spelling);
    channels /= 2;
    add_block (model, 2 * i, channels, spelling);
    add_block (model, 2 * i + 1, channels, spelling);
  }
  add_activation (model, "decoder.activation_post", channels);
  add_conv (model, "decoder.conv_post", 1, channels, 7, 0, spelling);
  add_encoder (model, spelling);
  if (spelling == SPELLING_FOLDED) {
    add (model, "latents_mean", TINY_CHANNELS, 0, 0);
    add (model, "latents_std", TINY_CHANNELS, 0, 0);
  }
  return model;
}

void
tiny_model_free (TinyModel *model)
{
  g_ptr_array_unref (model->tensors);
  g_free (model);
}

TinyTensor *
tiny_model_find (TinyModel *model, const gchar *name)
{
  for (guint i = 0; i < model->tensors->len; i++) {
    TinyTensor *tensor = g_ptr_array_index (model->tensors, i);

    if (g_str_equal (tensor->name, name))
      return tensor;
  }
  g_error ("the tiny model has no %s", name);
  return NULL;
}

void
tiny_model_remove (TinyModel *model, const gchar *name)
{
  g_ptr_array_remove (model->tensors, tiny_model_find (model, name));
}

void
tiny_model_remove_all (TinyModel *model, const gchar *suffix)
{
  for (guint i = model->tensors->len; i-- > 0;) {
    TinyTensor *tensor = g_ptr_array_index (model->tensors, i);

    if (g_str_has_suffix (tensor->name, suffix))
      g_ptr_array_remove_index (model->tensors, i);
  }
}

void
tiny_model_add (TinyModel *model, const gchar *name, gint64 n)
{
  TinyTensor *tensor = g_new0 (TinyTensor, 1);

  tensor->name = g_strdup (name);
  tensor->rank = 1;
  tensor->shape[0] = tensor->n = n;
  tensor->values = g_new0 (gfloat, n);
  g_ptr_array_add (model->tensors, tensor);
}

/* --- files -------------------------------------------------------------- */

static void
append_list (GString *json, const gchar *name, gdouble scale, gdouble offset)
{
  g_string_append_printf (json, ", \"%s\": [", name);
  for (gint c = 0; c < TINY_CHANNELS; c++) {
    gchar number[G_ASCII_DTOSTR_BUF_SIZE];

    g_ascii_dtostr (number, sizeof (number),
        offset + scale * tiny_random (name, c));
    g_string_append_printf (json, "%s%s", c ? ", " : "", number);
  }
  g_string_append (json, "]");
}

gchar *
tiny_model_config (gboolean stats)
{
  GString *json =
      g_string_new ("{ \"_class_name\": "
                    "\"AutoencoderKLMiniMaxH3Audio\", \"encoder_dim\": 4, "
                    "\"encoder_rates\": [2, 5], \"latent_dim\": 32, "
                    "\"latent_channels\": 8, \"num_attention_heads\": 2, "
                    "\"decoder_dim\": 16, \"decoder_rates\": [5, 2], "
                    "\"decoder_kernel_sizes\": [9, 4], "
                    "\"resblock_kernel_sizes\": [3, 7], "
                    "\"resblock_dilation_sizes\": [[1, 3], [1, 3]], "
                    "\"sampling_rate\": 32000");

  if (stats) {
    append_list (json, "latents_mean", 0.3, 0);
    append_list (json, "latents_std", 0.5, 1);
  }
  g_string_append (json, " }\n");
  return g_string_free (json, FALSE);
}

static GString *
header (const TinyModel *model)
{
  GString *json = g_string_new ("{");
  gsize offset = 0;

  for (guint i = 0; i < model->tensors->len; i++) {
    const TinyTensor *tensor = g_ptr_array_index (model->tensors, i);
    gsize end = offset + tensor->n * sizeof (gfloat);

    g_string_append_printf (json, "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [",
        i ? ", " : "", tensor->name);
    for (guint d = 0; d < tensor->rank; d++)
      g_string_append_printf (json, "%s%" G_GINT64_FORMAT, d ? ", " : "",
          tensor->shape[d]);
    g_string_append_printf (json,
        "], \"data_offsets\": [%" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT "]}",
        offset, end);
    offset = end;
  }
  g_string_append (json, "}");
  while (json->len % 8 != 0)
    g_string_append_c (json, ' ');
  return json;
}

void
tiny_model_write (const TinyModel *model, const gchar *dir, const gchar *config)
{
  GString *json = header (model);
  guint64 length = GUINT64_TO_LE (json->len);
  GByteArray *bytes = g_byte_array_new ();
  g_autofree gchar *path = g_build_filename (dir, "model.safetensors", NULL);
  g_autofree gchar *config_path = g_build_filename (dir, "config.json", NULL);

  g_byte_array_append (bytes, (guint8 *) &length, sizeof (length));
  g_byte_array_append (bytes, (guint8 *) json->str, json->len);
  for (guint i = 0; i < model->tensors->len; i++) {
    const TinyTensor *tensor = g_ptr_array_index (model->tensors, i);

    g_byte_array_append (bytes, (guint8 *) tensor->values,
        tensor->n * sizeof (gfloat));
  }
  h3_test_write_file (path, bytes->data, bytes->len);
  if (config)
    h3_test_write_file (config_path, config, strlen (config));
  g_byte_array_unref (bytes);
  g_string_free (json, TRUE);
}

gfloat *
tiny_latent (void)
{
  gint n = 2 * TINY_CHANNELS * TINY_LENGTH;
  gfloat *z = g_new (gfloat, n);

  for (gint i = 0; i < n; i++)
    z[i] = 1.5 * tiny_random ("input.z", i);
  return z;
}

gfloat *
tiny_waveform (void)
{
  gfloat *x = g_new (gfloat, 2 * TINY_SAMPLES);

  for (gint i = 0; i < 2 * TINY_SAMPLES; i++)
    x[i] = 0.8 * tiny_random ("input.x", i);
  return x;
}
