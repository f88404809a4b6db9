/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fill-model.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "tests/tools/h3-test.h"

const FillGeometry fill_model_a = {
  .channels = 4,
  .ratio = 4,
  .layers = 2,
  .heads = 2,
  .head_dim = 16,
  .registers = 4,
  .ffn_mult = 4,
  .tile = 32,
  .overlap = 8,
};

const FillGeometry fill_model_b = {
  .channels = 24,
  .ratio = 16,
  .layers = 2,
  .heads = 2,
  .head_dim = 64,
  .registers = 4,
  .ffn_mult = 4,
  .tile = 256,
  .overlap = 64,
  .release_statistics = TRUE,
};

/* The rule */

static guint32
fnv1a32 (const gchar *name)
{
  guint32 hash = 0x811C9DC5;

  for (; *name; name++)
    hash = (hash ^ (guint8) *name) * 0x01000193;
  return hash;
}

static gdouble
element (guint32 seed, gint64 i)
{
  guint32 x = seed + (guint32) i * 0x9E3779B9;

  x ^= x >> 16;
  x *= 0x85EBCA6B;
  x ^= x >> 13;
  x *= 0xC2B2AE35;
  x ^= x >> 16;
  return 2 * ldexp (x >> 8, -24) - 1;
}

/* value = base + scale * e */
static void
rule_for (const FillTensor *tensor, gdouble *base, gdouble *scale)
{
  gdouble fan_in = 1;

  *base = 0;
  for (guint d = 1; d < tensor->rank; d++)
    fan_in *= tensor->shape[d];

  if (g_str_has_suffix (tensor->name, "mask_token")) {
    *scale = 0;
  } else if (g_str_has_suffix (tensor->name, "scale1") ||
             g_str_has_suffix (tensor->name, "scale2")) {
    *base = 0.5;
    *scale = 0.25;
  } else if (g_str_has_suffix (tensor->name, "register_tokens")) {
    *scale = 0.5;
  } else if (g_str_has_suffix (tensor->name, ".bias")) {
    *scale = 0.05;
  } else if (tensor->rank == 1) {
    *base = 1;
    *scale = 0.1;
  } else {
    *scale = sqrt (3 / fan_in);
  }
}

static gint64
tensor_size (const FillTensor *tensor)
{
  gint64 n = 1;

  for (guint d = 0; d < tensor->rank; d++)
    n *= tensor->shape[d];
  return n;
}

static void
tensor_free (gpointer data)
{
  FillTensor *tensor = data;

  g_free (tensor->name);
  g_free (tensor->values);
  g_free (tensor);
}

static FillTensor *
tensor_new (const gchar *name, guint rank, const gint64 *shape)
{
  FillTensor *tensor = g_new0 (FillTensor, 1);

  tensor->name = g_strdup (name);
  tensor->rank = rank;
  memcpy (tensor->shape, shape, rank * sizeof *shape);
  tensor->values = g_new (gfloat, tensor_size (tensor));
  return tensor;
}

void
fill_add (GPtrArray *tensors, const gchar *name, guint rank,
    const gint64 *shape)
{
  FillTensor *tensor = tensor_new (name, rank, shape);
  guint32 seed = fnv1a32 (name);
  gint64 n = tensor_size (tensor);
  gdouble base, scale;

  rule_for (tensor, &base, &scale);
  for (gint64 i = 0; i < n; i++)
    tensor->values[i] = (gfloat) (base + scale * element (seed, i));
  g_ptr_array_add (tensors, tensor);
}

gfloat *
fill_latent (gint channels, gint t, gint h, gint w)
{
  gint64 n = (gint64) channels * t * h * w;
  gfloat *values = g_new (gfloat, n);
  guint32 seed = fnv1a32 ("latent");

  for (gint64 i = 0; i < n; i++)
    values[i] = (gfloat) (1.5 * element (seed, i));
  return values;
}

/* The model */

static void
add_linear (GPtrArray *tensors, const gchar *name, gint64 rows, gint64 cols)
{
  g_autofree gchar *weight = g_strconcat (name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (name, ".bias", NULL);

  fill_add (tensors, weight, 2, (const gint64[]){ rows, cols });
  fill_add (tensors, bias, 1, &rows);
}

static void
add_block (GPtrArray *tensors, const FillGeometry *geometry, gint i)
{
  static const gchar *const vectors[] = { "norm1.weight", "norm2.weight",
    "scale1", "scale2" };
  gint64 dim = geometry->heads * geometry->head_dim;
  gint64 ffn = geometry->ffn_mult * dim;
  const struct {
    const gchar *name;
    gint64 rows, cols;
  } linears[] = {
    { "attn.to_qkv", 3 * dim, dim },
    { "attn.to_out", dim, dim },
    { "ff.w1", 2 * ffn, dim },
    { "ff.w2", dim, ffn },
  };

  for (guint k = 0; k < G_N_ELEMENTS (vectors); k++) {
    g_autofree gchar *name =
        g_strdup_printf ("decoder.transformer_blocks.%d.%s", i, vectors[k]);
    fill_add (tensors, name, 1, &dim);
  }
  for (guint k = 0; k < G_N_ELEMENTS (linears); k++) {
    g_autofree gchar *name =
        g_strdup_printf ("decoder.transformer_blocks.%d.%s", i,
            linears[k].name);
    add_linear (tensors, name, linears[k].rows, linears[k].cols);
  }
}

GPtrArray *
fill_tensors (const FillGeometry *geometry)
{
  GPtrArray *tensors = g_ptr_array_new_with_free_func (tensor_free);
  gint64 z = geometry->channels, dim = geometry->heads * geometry->head_dim;
  gint64 patch = 3 * 4 * geometry->ratio * geometry->ratio;

  fill_add (tensors, "post_quant_conv.weight", 5,
      (const gint64[]){ z, z, 1, 1, 1 });
  fill_add (tensors, "post_quant_conv.bias", 1, &z);
  add_linear (tensors, "decoder.x_embedder", dim, z);
  fill_add (tensors, "decoder.register_tokens", 3,
      (const gint64[]){ 1, geometry->registers, dim });
  fill_add (tensors, "decoder.mask_token", 3, (const gint64[]){ 1, 1, dim });
  for (gint i = 0; i < geometry->layers; i++)
    add_block (tensors, geometry, i);
  fill_add (tensors, "decoder.norm_out.weight", 1, &dim);
  fill_add (tensors, "decoder.norm_out.bias", 1, &dim);
  add_linear (tensors, "decoder.proj_out", patch, dim);
  return tensors;
}

FillTensor *
fill_find (const GPtrArray *tensors, const gchar *name)
{
  for (guint i = 0; i < tensors->len; i++)
    if (g_str_equal (((FillTensor *) tensors->pdata[i])->name, name))
      return tensors->pdata[i];
  g_error ("no tensor %s in the fill model", name);
}

void
fill_remove (GPtrArray *tensors, const gchar *name)
{
  g_ptr_array_remove (tensors, fill_find (tensors, name));
}

/* diffusers' names and orders (video-vae.md 3.2) */

static gchar *
replaced (const gchar *name, const gchar *from, const gchar *to)
{
  g_auto (GStrv) parts = g_strsplit (name, from, 2);

  return g_strjoinv (to, parts);
}

static FillTensor *
copy_as (const FillTensor *tensor, const gchar *from, const gchar *to)
{
  g_autofree gchar *name = replaced (tensor->name, from, to);
  FillTensor *copy = tensor_new (name, tensor->rank, tensor->shape);

  memcpy (copy->values, tensor->values, tensor_size (tensor) * sizeof (gfloat));
  return copy;
}

/* Rows of head j: q, k, v of head_dim each. */
static FillTensor *
take_part (const FillTensor *tensor, gint part, gint head_dim)
{
  static const gchar *const names[] = { "to_q.", "to_k.", "to_v." };
  g_autofree gchar *name = replaced (tensor->name, "to_qkv.", names[part]);
  gint64 shape[2] = { tensor->shape[0] / 3, tensor->shape[1] };
  gint64 cols = tensor_size (tensor) / tensor->shape[0];
  FillTensor *taken = tensor_new (name, tensor->rank, shape);

  for (gint64 row = 0; row < shape[0]; row++) {
    gint64 head = row / head_dim, d = row % head_dim;
    gint64 from = (head * 3 + part) * head_dim + d;

    memcpy (taken->values + row * cols, tensor->values + from * cols,
        cols * sizeof (gfloat));
  }
  return taken;
}

static FillTensor *
swap_halves (const FillTensor *tensor)
{
  FillTensor *swapped = copy_as (tensor, "ff.w1.", "ff.net.0.proj.");
  gint64 half = tensor_size (tensor) / 2;

  memcpy (swapped->values, tensor->values + half, half * sizeof (gfloat));
  memcpy (swapped->values + half, tensor->values, half * sizeof (gfloat));
  return swapped;
}

GPtrArray *
fill_to_diffusers (const GPtrArray *tensors, gint head_dim)
{
  GPtrArray *result = g_ptr_array_new_with_free_func (tensor_free);

  for (guint i = 0; i < tensors->len; i++) {
    const FillTensor *tensor = tensors->pdata[i];

    if (strstr (tensor->name, "to_qkv.")) {
      for (gint part = 0; part < 3; part++)
        g_ptr_array_add (result, take_part (tensor, part, head_dim));
    } else if (strstr (tensor->name, "ff.w1.")) {
      g_ptr_array_add (result, swap_halves (tensor));
    } else if (strstr (tensor->name, "ff.w2.")) {
      g_ptr_array_add (result, copy_as (tensor, "ff.w2.", "ff.net.2."));
    } else if (strstr (tensor->name, "to_out.")) {
      g_ptr_array_add (result, copy_as (tensor, "to_out.", "to_out.0."));
    } else if (strstr (tensor->name, "x_embedder.")) {
      g_ptr_array_add (result, copy_as (tensor, "x_embedder.", "proj_in."));
    } else if (!strstr (tensor->name, "mask_token")) {
      g_ptr_array_add (result, copy_as (tensor, tensor->name, tensor->name));
    }
  }
  return result;
}

/* Types */

/* Nearest, ties to even, to @bits of significand below the first, with no
 * exponent under @least: what the narrow types do to numbers that they hold. */
static gfloat
round_bits (gfloat x, gint bits, gint least)
{
  gint exponent;

  if (x == 0)
    return x;
  frexpf (x, &exponent);
  exponent = MAX (exponent - 1, least) - bits;
  return ldexpf (rintf (ldexpf (x, -exponent)), exponent);
}

gfloat
fill_round (gfloat x, FillType type)
{
  switch (type) {
    case FILL_F16:
      return round_bits (x, 10, -14);
    case FILL_BF16:
      return round_bits (x, 7, -126);
    default:
      return x;
  }
}

static guint16
encode_f16 (gfloat x)
{
  gfloat y = fabsf (fill_round (x, FILL_F16));
  guint16 sign = signbit (x) ? 0x8000 : 0;
  gint exponent;

  if (y == 0)
    return sign;
  frexpf (y, &exponent);
  exponent = MAX (exponent - 1, -14);
  /* the implicit bit of a normal number adds one to the exponent's field */
  return sign + ((exponent + 14) << 10) + (guint16) ldexpf (y, 10 - exponent);
}

static guint16
encode_bf16 (gfloat x)
{
  gfloat y = fill_round (x, FILL_BF16);
  guint32 bits;

  memcpy (&bits, &y, 4);
  return bits >> 16;
}

/* Files */

static void
append_payload (GByteArray *payload, const FillTensor *tensor, FillType type)
{
  gint64 n = tensor_size (tensor);

  if (type == FILL_F32) {
    g_byte_array_append (payload, (const guint8 *) tensor->values, n * 4);
    return;
  }
  for (gint64 i = 0; i < n; i++) {
    guint16 code = type == FILL_F16 ? encode_f16 (tensor->values[i])
                                    : encode_bf16 (tensor->values[i]);
    g_byte_array_append (payload, (const guint8 *) &code, 2);
  }
}

static void
write_tensors (const gchar *path, const GPtrArray *tensors, FillType type)
{
  static const gchar *const names[] = { "F32", "F16", "BF16" };
  g_autoptr (GString) header = g_string_new ("{");
  g_autoptr (GByteArray) file = g_byte_array_new ();
  g_autoptr (GByteArray) payload = g_byte_array_new ();
  guint64 length;

  for (guint i = 0; i < tensors->len; i++) {
    const FillTensor *tensor = tensors->pdata[i];
    guint begin = payload->len;

    append_payload (payload, tensor, type);
    g_string_append_printf (header,
        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":", i ? "," : "", tensor->name,
        names[type]);
    for (guint d = 0; d < tensor->rank; d++)
      g_string_append_printf (header, "%c%" G_GINT64_FORMAT, d ? ',' : '[',
          tensor->shape[d]);
    g_string_append_printf (header, "],\"data_offsets\":[%u,%u]}", begin,
        payload->len);
  }
  g_string_append_c (header, '}');
  length = GUINT64_TO_LE (header->len);
  g_byte_array_append (file, (const guint8 *) &length, 8);
  g_byte_array_append (file, (const guint8 *) header->str, header->len);
  g_byte_array_append (file, payload->data, payload->len);
  h3_test_write_file (path, file->data, file->len);
}

static void
append_floats (GString *json, const gchar *key, const gchar *rest, gint n)
{
  g_string_append_printf (json, ",\"%s\":[", key);
  for (gint i = 0; i < n; i++)
    g_string_append_printf (json, "%s%s", i ? "," : "", rest);
  g_string_append_c (json, ']');
}

/* Without release statistics the latents are taken as they are. */
static void
append_statistics (GString *json, const FillGeometry *geometry)
{
  if (geometry->release_statistics)
    return;
  append_floats (json, "latents_mean", "0.0", geometry->channels);
  append_floats (json, "latents_std", "1.0", geometry->channels);
}

gchar *
fill_official_wrapper (const FillGeometry *geometry)
{
  GString *json = g_string_new ("{\"source_path\":\"source\","
                                "\"source_safetensors_path\":"
                                "\"model.safetensors\",\"vae_clip_length\":17,"
                                "\"vae_token_drop\":3");

  g_string_append_printf (json,
      ",\"vae_tile_size\":%d,\"vae_tile_overlap_min\":%d,"
      "\"latent_channels\":%d",
      geometry->tile, geometry->overlap, geometry->channels);
  append_statistics (json, geometry);
  g_string_append_c (json, '}');
  return g_string_free (json, FALSE);
}

gchar *
fill_official_network (const FillGeometry *geometry)
{
  return g_strdup_printf (
      "{\"_class_name\":\"AutoencoderKLLegacy\",\"z_channels\":%d,"
      "\"vae_ratio\":%d,\"vae_ratio_t\":4,\"causal_decoder\":false,"
      "\"use_vit_decoder\":true,\"pixel_norm_type\":\"imagenet\","
      "\"vit_decoder_kwargs\":{\"num_layers\":%d,\"heads\":%d,\"dim_head\":%d,"
      "\"norm_type\":\"rms_norm\",\"norm_affine\":true,"
      "\"qk_norm_type\":\"rms_norm\",\"qk_norm_affine\":false,"
      "\"ffn_activation_fn\":\"silu\",\"ffn_use_gated\":true,"
      "\"rope_theta\":100.0,\"rope_dim_ratio\":0.75}}",
      geometry->channels, geometry->ratio, geometry->layers, geometry->heads,
      geometry->head_dim);
}

gchar *
fill_diffusers_config (const FillGeometry *geometry)
{
  GString *json = g_string_new ("{\"_class_name\":\"AutoencoderKLMiniMaxH3\"");

  g_string_append_printf (json,
      ",\"latent_channels\":%d,\"spatial_downsample_factors\":[%d,1],"
      "\"temporal_downsample_factors\":[2,2],\"decoder_num_layers\":%d,"
      "\"decoder_num_attention_heads\":%d,\"decoder_attention_head_dim\":%d,"
      "\"decoder_num_register_tokens\":%d,\"decoder_ffn_mult\":%d,"
      "\"decoder_rope_theta\":100.0,\"decoder_rope_dim_ratio\":0.75,"
      "\"decoder_norm_eps\":1e-05,\"clip_length\":17,\"token_drop\":3",
      geometry->channels, geometry->ratio, geometry->layers, geometry->heads,
      geometry->head_dim, geometry->registers, geometry->ffn_mult);
  append_statistics (json, geometry);
  g_string_append_c (json, '}');
  return g_string_free (json, FALSE);
}

void
fill_replace (const gchar *dir, const gchar *file, const gchar *text)
{
  g_autofree gchar *path = g_build_filename (dir, file, NULL);
  g_autofree gchar *folder = g_path_get_dirname (path);

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  h3_test_write_file (path, text, strlen (text));
}

static gchar *
new_component (const gchar *name)
{
  g_autofree gchar *root = h3_test_temp_dir ();
  gchar *dir = g_build_filename (root, name, NULL);

  g_assert_cmpint (g_mkdir (dir, 0700), ==, 0);
  return dir;
}

gchar *
fill_write_official (const FillGeometry *geometry, const GPtrArray *tensors,
    FillType type, const gchar *config)
{
  g_autofree gchar *wrapper = fill_official_wrapper (geometry);
  g_autofree gchar *network = fill_official_network (geometry);
  gchar *dir = new_component ("video_vae");
  g_autofree gchar *file =
      g_build_filename (dir, "source", "model.safetensors", NULL);

  fill_replace (dir, "config.json", wrapper);
  fill_replace (dir, "source/config.json", config ? config : network);
  write_tensors (file, tensors, type);
  return dir;
}

gchar *
fill_write_diffusers (const FillGeometry *geometry, const GPtrArray *tensors,
    FillType type, const gchar *config)
{
  g_autofree gchar *flat = fill_diffusers_config (geometry);
  gchar *dir = new_component ("vae");
  g_autofree gchar *file =
      g_build_filename (dir, "diffusion_pytorch_model.safetensors", NULL);

  fill_replace (dir, "config.json", config ? config : flat);
  write_tensors (file, tensors, type);
  return dir;
}

void
fill_delete (gchar *dir)
{
  g_autofree gchar *root = g_path_get_dirname (dir);

  h3_test_remove_tree (root);
  g_free (dir);
}
