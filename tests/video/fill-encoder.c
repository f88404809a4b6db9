/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fill-encoder.h"

const FillEncoder fill_encoder_a = {
  .ch = 32,
  .levels = 2,
  .blocks = 1,
  .mult = { 1, 2 },
  .space = { 2, 2 },
  .time = { 2, 2 },
};

const FillEncoder fill_encoder_b = {
  .ch = 32,
  .levels = 6,
  .blocks = 1,
  .mult = { 1, 1, 1, 2, 2, 2 },
  .space = { 2, 2, 2, 2, 1, 1 },
  .time = { 1, 2, 2, 1, 1, 1 },
};

static void
add_conv (GPtrArray *tensors, const gchar *name, gint64 co, gint64 ci, gint64 k)
{
  g_autofree gchar *weight = g_strconcat (name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (name, ".bias", NULL);

  fill_add (tensors, weight, 5, (const gint64[]){ co, ci, k, k, k });
  fill_add (tensors, bias, 1, &co);
}

static void
add_norm (GPtrArray *tensors, const gchar *name, gint64 n)
{
  g_autofree gchar *weight = g_strconcat (name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (name, ".bias", NULL);

  fill_add (tensors, weight, 1, &n);
  fill_add (tensors, bias, 1, &n);
}

static void
add_block (GPtrArray *tensors, const gchar *name, gint64 in, gint64 out)
{
  g_autofree gchar *norm1 = g_strconcat (name, ".norm1", NULL);
  g_autofree gchar *norm2 = g_strconcat (name, ".norm2", NULL);
  g_autofree gchar *conv1 = g_strconcat (name, ".conv1", NULL);
  g_autofree gchar *conv2 = g_strconcat (name, ".conv2", NULL);
  g_autofree gchar *shortcut = g_strconcat (name, ".nin_shortcut", NULL);

  add_norm (tensors, norm1, in);
  add_conv (tensors, conv1, out, in, 3);
  add_norm (tensors, norm2, out);
  add_conv (tensors, conv2, out, out, 3);
  if (in != out)
    add_conv (tensors, shortcut, out, in, 1);
}

void
fill_add_encoder (GPtrArray *tensors, const FillEncoder *encoder, gint channels)
{
  gint64 in = encoder->ch;

  add_conv (tensors, "encoder.conv_in", in, 3, 3);
  for (gint l = 0; l < encoder->levels; l++) {
    gint64 out = encoder->ch * encoder->mult[l];

    for (gint b = 0; b < encoder->blocks; b++, in = out) {
      g_autofree gchar *name =
          g_strdup_printf ("encoder.down.%d.block.%d", l, b);

      add_block (tensors, name, in, out);
    }
    if (encoder->space[l] > 1) {
      g_autofree gchar *name =
          g_strdup_printf ("encoder.down.%d.downsample.conv", l);

      add_conv (tensors, name, out, out, 3);
    }
  }
  add_norm (tensors, "encoder.norm_out", in);
  add_conv (tensors, "encoder.conv_out", 2 * channels, in, 3);
  add_conv (tensors, "quant_conv", 2 * channels, 2 * channels, 1);
}

static void
append_list (GString *json, const gchar *key, const gint *values, gint n)
{
  g_string_append_printf (json, ",\"%s\":[", key);
  for (gint i = 0; i < n; i++)
    g_string_append_printf (json, "%s%d", i ? "," : "", values[i]);
  g_string_append_c (json, ']');
}

gchar *
fill_encoder_network (const FillGeometry *geometry, const FillEncoder *encoder)
{
  g_autofree gchar *decoder = fill_official_network (geometry);
  GString *json = g_string_new (NULL);

  g_string_append_printf (json,
      "{\"ch\":%d,\"num_res_blocks\":%d,\"padding_mode\":\"reflect\","
      "\"padding_mode_t\":null,\"use_t_isolated_gn\":true,"
      "\"causal_encoder\":true,\"use_3d_conv\":true,\"in_channels\":3",
      encoder->ch, encoder->blocks);
  append_list (json, "ch_mult", encoder->mult, encoder->levels);
  append_list (json, "space_down", encoder->space, encoder->levels);
  append_list (json, "time_down", encoder->time, encoder->levels);
  g_string_append_printf (json, ",%s", decoder + 1);
  return g_string_free (json, FALSE);
}

guint8 *
fill_pixels (gint frames, gint height, gint width)
{
  guint8 *rgb = g_malloc ((gsize) 3 * frames * height * width), *to = rgb;

  for (gint t = 0; t < frames; t++)
    for (gint y = 0; y < height; y++)
      for (gint x = 0; x < width; x++)
        for (gint c = 0; c < 3; c++)
          *to++ = (7 * x + 13 * y + 29 * t + 71 * c + 3 * (x * y % 17)) % 256;
  return rgb;
}
