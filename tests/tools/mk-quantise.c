/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matrices in ComfyUI's quantised forms (checkpoints.md 4.2, 5), rounded to
 * nearest, and what they stand for. Plain loops, apart from the loader's and the
 * devices' code, to judge them. */
#include "mkcheckpoint.h"

#include <math.h>
#include <string.h>

static const gchar *const names[] = { "plain", "fp8", "int8", "nvfp4",
  "mxfp8" };

gboolean
mk_encoding_from_name (const gchar *name, MkEncoding *encoding)
{
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (name, names[i])) {
      *encoding = i;
      return TRUE;
    }
  return FALSE;
}

gboolean
mk_markers_from_name (const gchar *name, MkMarkers *markers)
{
  static const gchar *const forms[] = { "tensors", "metadata", "oldest",
    "none" };

  for (guint i = 0; i < G_N_ELEMENTS (forms); i++)
    if (g_str_equal (name, forms[i])) {
      *markers = i;
      return TRUE;
    }
  return FALSE;
}

void
mk_blob_free (MkBlob *blob)
{
  g_free (blob->name);
  g_free (blob->bytes);
  g_free (blob);
}

MkBlob *
mk_blob_new (gchar *name, const gchar *dtype, gsize item, guint rank,
    const gint64 *shape)
{
  MkBlob *blob = g_new0 (MkBlob, 1);

  blob->name = name;
  blob->dtype = dtype;
  blob->rank = rank;
  blob->size = item;
  for (guint i = 0; i < rank; i++) {
    blob->shape[i] = shape[i];
    blob->size *= shape[i];
  }
  blob->bytes = g_malloc0 (MAX (blob->size, 1));
  return blob;
}

/* Codes */

static gdouble
e4m3_value (guint code)
{
  gint e = code >> 3 & 15, m = code & 7;
  gdouble v = e ? ldexp (8 + m, e - 10) : ldexp (m, -9);

  return code & 128 ? -v : v;
}

static gdouble
e2m1_value (guint code)
{
  static const gdouble values[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };

  return code & 8 ? -values[code & 7] : values[code & 7];
}

/* The nearest of the codes 0 .. @last, whose values ascend, for |x|, of two the
 * even one, and the sign's bit. */
static guint8
nearest (gdouble x, gdouble (*value) (guint), guint last, guint sign)
{
  gdouble size = fabs (x), below, above;
  guint low = 0, high = last;

  while (high - low > 1) {
    guint middle = (low + high) / 2;

    if (value (middle) <= size)
      low = middle;
    else
      high = middle;
  }
  below = size - value (low);
  above = value (high) - size;
  if (above < below || (above == below && high % 2 == 0))
    low = high;
  return low | (signbit (x) ? sign : 0);
}

static guint8
e4m3_code (gdouble x)
{
  return nearest (x, e4m3_value, 0x7e, 0x80);
}

/* A matrix on its way. */
typedef struct {
  gchar *module; /* the name without ".weight"; owned */
  gint64 n, k;
  gfloat *w; /* [n, k]; becomes what the codes stand for */
  GPtrArray *blobs;
  gboolean awq; /* has a pre_quant_scale */
} Matrix;

static MkBlob *
add (Matrix *m, const gchar *suffix, const gchar *dtype, gsize item, guint rank,
    gint64 d0, gint64 d1)
{
  const gint64 shape[] = { d0, d1 };
  MkBlob *blob = mk_blob_new (g_strconcat (m->module, ".", suffix, NULL), dtype,
      item, rank, shape);

  g_ptr_array_add (m->blobs, blob);
  return blob;
}

static void
add_scalar (Matrix *m, const gchar *suffix, gfloat value)
{
  memcpy (add (m, suffix, "F32", 4, 0, 0, 0)->bytes, &value, 4);
}

static void add_marker (Matrix *m, const gchar *format, ...)
    G_GNUC_PRINTF (2, 3);

static void
add_marker (Matrix *m, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  memcpy (add (m, "comfy_quant", "U8", 1, 1, strlen (text), 0)->bytes, text,
      strlen (text));
}

static gint64
up (gint64 n, gint64 unit)
{
  return (n + unit - 1) / unit * unit;
}

static gfloat
largest (const gfloat *w, gint64 n)
{
  gfloat max = 0;

  for (gint64 i = 0; i < n; i++)
    max = MAX (max, fabsf (w[i]));
  return max;
}

/* Where scale (r, c) of a matrix of @cols of them lies. */
static gint64
tiled (gint64 r, gint64 c, gint64 cols)
{
  return (r / 128 * (up (cols, 4) / 4) + c / 4) * 512 + r % 32 * 16 +
         r % 128 / 32 * 4 + c % 4;
}

static void
add_fp8_sidecars (Matrix *m, gfloat scale, MkMarkers markers)
{
  gboolean oldest = markers == MK_MARKERS_OLDEST;

  add_scalar (m, oldest ? "scale_weight" : "weight_scale", scale);
  add_scalar (m, oldest ? "scale_input" : "input_scale", oldest ? 1 : 0.03125f);
  if (!oldest)
    add_marker (m, "{\"format\": \"float8_e4m3fn\"}");
}

static void
quantise_fp8 (Matrix *m, MkMarkers markers)
{
  gfloat s = markers == MK_MARKERS_NONE ? 1 : largest (m->w, m->n * m->k) / 448;
  MkBlob *q = add (m, "weight", "F8_E4M3", 1, 2, m->n, m->k);

  if (markers != MK_MARKERS_NONE)
    add_fp8_sidecars (m, s, markers);
  for (gint64 i = 0; i < m->n * m->k; i++) {
    q->bytes[i] = e4m3_code (m->w[i] / s);
    m->w[i] = (gfloat) e4m3_value (q->bytes[i]) * s;
  }
}

/* H4's and its powers' element, by its definition. */
static gdouble
hadamard (guint g, guint i, guint j)
{
  gdouble v = 1;

  for (; g > 1; g /= 4, i /= 4, j /= 4)
    v *= i % 4 + j % 4 == 3 ? -0.5 : 0.5;
  return v;
}

static void
rotate (gfloat *row, gint64 k, guint g)
{
  g_autofree gdouble *x = g_new (gdouble, g);

  for (gint64 first = 0; first < k; first += g) {
    for (guint j = 0; j < g; j++) {
      x[j] = 0;
      for (guint i = 0; i < g; i++)
        x[j] += row[first + i] * hadamard (g, i, j);
    }
    for (guint j = 0; j < g; j++)
      row[first + j] = x[j];
  }
}

static void
quantise_int8 (Matrix *m, gboolean rotated)
{
  MkBlob *q = add (m, "weight", "I8", 1, 2, m->n, m->k);
  MkBlob *scales = add (m, "weight_scale", "F32", 4, 2, m->n, 1);
  guint g = 1;

  while (rotated && g < 256 && m->k % (4 * g) == 0)
    g *= 4;
  if (g > 1)
    add_marker (m,
        "{\"format\": \"int8_tensorwise\", \"convrot\": true, "
        "\"convrot_groupsize\": %u}",
        g);
  else
    add_marker (m, "{\"format\": \"int8_tensorwise\"}");
  for (gint64 n = 0; n < m->n; n++) {
    gfloat *row = m->w + n * m->k, s;

    rotate (row, m->k, g);
    s = MAX (largest (row, m->k) / 127, 1e-30f);
    memcpy (scales->bytes + 4 * n, &s, 4);
    for (gint64 k = 0; k < m->k; k++) {
      gint code = CLAMP ((gint) rintf (row[k] / s), -128, 127);

      q->bytes[n * m->k + k] = (guint8) (gint8) code;
      row[k] = code * s;
    }
    rotate (row, m->k, g);
  }
}

/* Multiplies row @n from column @k on by the pre_quant_scale or its inverse. */
static gfloat
awq_factor (const Matrix *m, gint64 k)
{
  return m->awq ? 0.5f + 0.25f * (k % 5) : 1;
}

static void
add_awq (Matrix *m)
{
  MkBlob *p = add (m, "pre_quant_scale", "BF16", 2, 1, m->k, 0);

  for (gint64 k = 0; k < m->k; k++) {
    gfloat value = awq_factor (m, k);
    guint32 bits;

    memcpy (&bits, &value, 4); /* exact in bfloat16 */
    p->bytes[2 * k] = bits >> 16;
    p->bytes[2 * k + 1] = bits >> 24;
  }
}

static void
quantise_nvfp4_block (gfloat *w, gint64 n, gfloat ts, guint8 *scale,
    guint8 *bytes)
{
  gfloat s;

  *scale = ts > 0 ? e4m3_code (MIN (largest (w, n) / 6 / ts, 448)) : 0;
  s = (gfloat) e4m3_value (*scale) * ts;
  for (gint64 k = 0; k < n; k++) {
    guint8 code = s > 0 ? nearest (w[k] / s, e2m1_value, 7, 8) : 0;

    bytes[k / 2] |= k % 2 ? code : code << 4;
    w[k] = (gfloat) e2m1_value (code) * s;
  }
}

static void
quantise_nvfp4 (Matrix *m)
{
  gint64 width = up (m->k, 16) / 2, blocks = up (m->k, 16) / 16;
  MkBlob *q = add (m, "weight", "U8", 1, 2, up (m->n, 16), width);
  MkBlob *scales =
      add (m, "weight_scale", "F8_E4M3", 1, 2, up (m->n, 128), up (blocks, 4));
  gfloat ts;

  if (m->awq)
    add_marker (m,
        "{\"format\": \"nvfp4\", \"full_precision_matrix_mult\": true}");
  else
    add_marker (m, "{\"format\": \"nvfp4\"}");
  if (m->awq)
    add_awq (m);
  for (gint64 i = 0; i < m->n * m->k; i++)
    m->w[i] /= awq_factor (m, i % m->k);
  ts = largest (m->w, m->n * m->k) / 2688;
  add_scalar (m, "weight_scale_2", ts);
  for (gint64 n = 0; n < m->n; n++)
    for (gint64 b = 0; b < blocks; b++)
      quantise_nvfp4_block (m->w + n * m->k + 16 * b, MIN (16, m->k - 16 * b),
          ts, scales->bytes + tiled (n, b, blocks),
          q->bytes + n * width + 8 * b);
  for (gint64 i = 0; i < m->n * m->k; i++)
    m->w[i] *= awq_factor (m, i % m->k);
}

static void
quantise_mxfp8 (Matrix *m)
{
  gint64 width = up (m->k, 32), blocks = width / 32;
  MkBlob *q = add (m, "weight", "F8_E4M3", 1, 2, up (m->n, 32), width);
  MkBlob *scales =
      add (m, "weight_scale", "F8_E8M0", 1, 2, up (m->n, 128), up (blocks, 4));

  add_marker (m, "{\"format\": \"mxfp8\"}");
  for (gint64 n = 0; n < m->n; n++)
    for (gint64 b = 0; b < blocks; b++) {
      gint64 first = n * m->k + 32 * b, count = MIN (32, m->k - 32 * b);
      gfloat max = largest (m->w + first, count);
      gint e =
          max > 0 ? CLAMP ((gint) ceil (log2 (max / 448)) + 127, 0, 254) : 0;

      scales->bytes[tiled (n, b, blocks)] = e;
      for (gint64 i = 0; i < count; i++) {
        guint8 code = e ? e4m3_code (ldexp (m->w[first + i], 127 - e)) : 0;

        q->bytes[n * width + 32 * b + i] = code;
        m->w[first + i] = ldexp (e4m3_value (code), e - 127);
      }
    }
}

/* Which (4.3, 4.5) */

static gboolean
ends_with_any (const gchar *name, const gchar *const *suffixes)
{
  for (; *suffixes; suffixes++)
    if (g_str_has_suffix (name, *suffixes))
      return TRUE;
  return FALSE;
}

gboolean
mk_is_quantised (const MkTensor *tensor, MkEncoding encoding)
{
  static const gchar *const block[] = { ".attn.qkv_proj.weight",
    ".attn.out_proj.weight", ".mlp.fc1.weight", ".mlp.fc2.weight", NULL };
  static const gchar *const text[] = { "_proj.weight", NULL };
  static const gchar *const video[] = { ".attn.to_qkv.weight",
    ".attn.to_out.weight", ".ff.w1.weight", ".ff.w2.weight", NULL };
  const gchar *name = tensor->name;

  if (encoding == MK_PLAIN || tensor->rank != 2)
    return FALSE;
  if (g_str_has_suffix (name, "embed_tokens.weight"))
    return encoding == MK_INT8 || encoding == MK_NVFP4;
  if (g_str_has_prefix (name, "blocks."))
    return ends_with_any (name, block) ||
           (encoding == MK_INT8 &&
               g_str_has_suffix (name, ".adaln_proj.linear.weight"));
  if (g_str_has_prefix (name, "decoder.transformer_blocks."))
    return encoding == MK_INT8 && ends_with_any (name, video);
  return strstr (name, "language_model.layers.") && ends_with_any (name, text);
}

void
mk_quantise (const MkTensor *tensor, const gchar *name, gfloat *values,
    gint64 rows, MkEncoding encoding, MkMarkers markers, GPtrArray *blobs)
{
  Matrix m = { .n = rows, .k = tensor->shape[1], .w = values, .blobs = blobs };
  gboolean embedding = g_str_has_suffix (name, "embed_tokens.weight");

  m.module = g_strndup (name, strlen (name) - strlen (".weight"));
  m.awq = g_str_has_suffix (name, ".o_proj.weight") ||
          g_str_has_suffix (name, ".down_proj.weight");
  if (embedding || encoding == MK_INT8)
    quantise_int8 (&m, !embedding);
  else if (encoding == MK_FP8)
    quantise_fp8 (&m, markers);
  else if (encoding == MK_NVFP4)
    quantise_nvfp4 (&m);
  else
    quantise_mxfp8 (&m);
  g_free (m.module);
}

static gboolean
is_marker (const MkBlob *blob)
{
  return g_str_has_suffix (blob->name, ".comfy_quant");
}

/* Half of the layers that have nothing but a format are only that. */
gchar *
mk_metadata_of_markers (GPtrArray *blobs, const gchar *prefix)
{
  static const gchar only[] = "{\"format\": \"float8_e4m3fn\"}";
  GString *json = g_string_new ("{\"format_version\":\"1.0\",\"layers\":{");
  guint n = 0;

  for (guint i = blobs->len; i-- > 0;) {
    MkBlob *blob = blobs->pdata[i];
    g_autofree gchar *text = NULL;
    const gchar *name = blob->name;

    if (!is_marker (blob))
      continue;
    text = g_strndup ((const gchar *) blob->bytes, blob->size);
    if (prefix && g_str_has_prefix (name, prefix))
      name += strlen (prefix);
    g_string_append_printf (json, "%s\"%.*s\":%s", n ? "," : "",
        (gint) (strlen (name) - strlen (".comfy_quant")), name,
        n % 2 && g_str_equal (text, only) ? "\"float8_e4m3fn\"" : text);
    n++;
    g_ptr_array_remove_index (blobs, i);
  }
  g_string_append (json, "}}");
  return g_string_free (json, FALSE);
}
