/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Quantised matrices against files made by hand: where bytes and scales go, and
 * what is said about sidecars and markers that do not fit. */
#include "test-checkpoint.h"
#include "test-device.h"

#include "model/checkpoint/loader.h"

#include <math.h>
#include <string.h>

#define WHAT "test component"

/* A file being made. */
typedef struct {
  GString *header;
  GByteArray *payload;
} File;

static void
file_init (File *file)
{
  file->header = g_string_new ("{");
  file->payload = g_byte_array_new ();
}

static void
file_add (File *file, const gchar *name, const gchar *dtype, const gchar *shape,
    gconstpointer bytes, gsize n)
{
  gsize begin = file->payload->len;

  g_string_append_printf (file->header,
      "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":"
      "[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]}",
      begin ? "," : "", name, dtype, shape, begin, begin + n);
  g_byte_array_append (file->payload, bytes, n);
}

static void
file_add_text (File *file, const gchar *name, const gchar *text)
{
  g_autofree gchar *shape = g_strdup_printf ("%u", (guint) strlen (text));

  file_add (file, name, "U8", shape, text, strlen (text));
}

/* Before anything else. */
static void
file_add_metadata (File *file, const gchar *quantisation)
{
  g_autofree gchar *text = g_strescape (quantisation, NULL);

  g_string_append_printf (file->header,
      "\"__metadata__\":{\"_quantization_metadata\":\"%s\"},", text);
}

static void
file_write (File *file, const gchar *path)
{
  g_string_append_c (file->header, '}');
  write_safetensors (path, file->header->str, file->payload->data,
      file->payload->len);
  g_string_free (file->header, TRUE);
  g_byte_array_unref (file->payload);
}

typedef struct {
  gchar *dir, *path;
  H3TensorSet *set;
  H3Loader *loader;
  TestDevice *device;
} Fixture;

static void
fixture_init (Fixture *f, File *file)
{
  g_autoptr (GError) error = NULL;

  f->dir = h3_test_temp_dir ();
  f->path = g_build_filename (f->dir, "f.safetensors", NULL);
  file_write (file, f->path);
  f->set = h3_tensor_set_open (f->path, &error);
  g_assert_no_error (error);
  f->loader = h3_loader_new (f->set, WHAT);
  f->device = test_device_new (TRUE);
  f->device->device.encodings = (1u << H3_N_ENCODINGS) - 1;
}

static void
fixture_clear (Fixture *f)
{
  h3_loader_free (f->loader);
  h3_tensor_set_free (f->set);
  test_device_free (f->device);
  h3_test_remove_tree (f->dir);
  g_free (f->path);
  g_free (f->dir);
}

/* What the tensors are asked for: 12 rows of 2, orders of 2 heads of 2. */
static H3Weight *
load_grouped (Fixture *f)
{
  const gchar *name = "m.weight";

  return h3_loader_weight (f->loader, &name, 1, 12, 2, H3_ROWS_GROUPED_QKV, 2,
      2);
}

/* Scales follow their rows. */
static void
test_row_scales (void)
{
  static const gint rows[] = { 0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11 };
  g_autoptr (H3Weight) w = NULL;
  g_autoptr (GPtrArray) tensors = NULL;
  guint8 q[24];
  gfloat scale[12];
  File file;
  Fixture f;

  for (guint i = 0; i < 24; i++)
    q[i] = i;
  for (guint i = 0; i < 12; i++)
    scale[i] = i + 1;
  file_init (&file);
  file_add (&file, "m.weight", "I8", "12,2", q, 24);
  file_add (&file, "m.weight_scale", "F32", "12,1", scale, 48);
  file_add_text (&file, "m.comfy_quant", "{\"format\": \"int8_tensorwise\"}\n");
  fixture_init (&f, &file);
  g_assert_null (load_grouped (&f));
  g_assert_cmpuint (h3_loader_bytes (f.loader), ==, 24 + 48);
  test_loader_begin (f.loader, f.device);
  w = load_grouped (&f);
  test_loader_finish (f.loader);
  g_assert_cmpint (w->encoding, ==, H3_ENCODING_INT8);
  g_assert_cmpint (w->rotation, ==, 1);
  for (guint r = 0; r < 12; r++) {
    g_assert_cmpfloat (((gfloat *) w->scale->data)[r], ==, scale[rows[r]]);
    g_assert_cmpmem ((guint8 *) w->tensor->data + 2 * r, 2, q + 2 * rows[r], 2);
  }
  tensors = h3_loader_take_tensors (f.loader);
  g_assert_cmpuint (tensors->len, ==, 2);
  g_clear_pointer (&w, h3_weight_unref);
  g_clear_pointer (&tensors, g_ptr_array_unref);
  fixture_clear (&f);
}

/* Gate and up, each with its own scale, one with none. */
static void
test_concatenation (void)
{
  static const gchar *const names[] = { "a.weight", "b.weight" };
  const gfloat scale = 0.25f;
  const guint8 a[4] = { 0x38, 0x39, 0x3a, 0x3b }, b[4] = { 1, 2, 3, 4 };
  g_autoptr (H3Weight) w = NULL;
  const gfloat *got;
  File file;
  Fixture f;

  file_init (&file);
  file_add (&file, "a.weight", "F8_E4M3", "2,2", a, 4);
  file_add (&file, "b.weight", "F8_E4M3", "2,2", b, 4);
  file_add (&file, "b.scale_weight", "F32", "", &scale, 4);
  file_add (&file, "b.scale_input", "F32", "", &scale, 4);
  file_add (&file, "scaled_fp8", "F8_E4M3", "2", b, 2);
  fixture_init (&f, &file);
  for (guint run = 0; run < 2; run++) {
    w = h3_loader_weight (f.loader, names, 2, 4, 2, H3_ROWS_SWAP_HALVES, 0, 0);
    if (run == 0)
      test_loader_begin (f.loader, f.device);
  }
  test_loader_finish (f.loader);
  g_assert_cmpint (w->encoding, ==, H3_ENCODING_E4M3);
  g_assert_cmpmem (w->tensor->data, 4, b, 4);
  g_assert_cmpmem ((guint8 *) w->tensor->data + 4, 4, a, 4);
  got = w->scale->data;
  g_assert_cmpfloat (got[0], ==, 0.25f);
  g_assert_cmpfloat (got[1], ==, 0.25f);
  g_assert_cmpfloat (got[2], ==, 1);
  g_assert_cmpfloat (got[3], ==, 1);
  g_assert_cmpfloat (w->input_scale, ==, 0.25f);
  g_assert_true (w->full_precision); /* scaled_fp8 has two elements */
  g_clear_pointer (&w, h3_weight_unref);
  fixture_clear (&f);
}

/* What devices are told about a layer's inputs. */
typedef struct {
  const gchar *name, *marker, *sidecar;
  gfloat stored, input_scale;
  gboolean full_precision;
} Inputs;

static const Inputs inputs[] = {
  { "none", "{\"format\": \"float8_e4m3fn\"}", NULL, 0, 0, FALSE },
  { "scale", "{\"format\": \"float8_e4m3fn\"}", "m.input_scale", 0.5f, 0.5f,
      FALSE },
  { "scale-1", "{\"format\": \"float8_e4m3fn\"}", "m.input_scale", 1, 1,
      FALSE },
  { "oldest", NULL, "m.scale_input", 0.5f, 0.5f, FALSE },
  { "oldest-1", NULL, "m.scale_input", 1, 0, FALSE },
  { "precise",
      "{\"format\": \"float8_e4m3fn\", \"full_precision_matrix_mult\": true}",
      "m.input_scale", 2, 2, TRUE },
  { "imprecise",
      "{\"format\": \"float8_e4m3fn\", \"full_precision_matrix_mult\": "
      "false}",
      NULL, 0, 0, FALSE },
  { "params",
      "{\"format\": \"float8_e4m3fn\", \"params\": "
      "{\"full_precision_matrix_mult\": true}}",
      NULL, 0, 0, TRUE },
};

static void
test_inputs (gconstpointer data)
{
  const Inputs *in = data;
  const guint8 q[4] = { 0x38, 0x39, 0x3a, 0x3b };
  const gfloat one = 1;
  g_autoptr (H3Weight) w = NULL;
  File file;
  Fixture f;

  file_init (&file);
  file_add (&file, "m.weight", "F8_E4M3", "2,2", q, 4);
  file_add (&file, in->marker ? "m.weight_scale" : "m.scale_weight", "F32", "",
      &one, 4);
  if (in->sidecar)
    file_add (&file, in->sidecar, "F32", "", &in->stored, 4);
  if (in->marker)
    file_add_text (&file, "m.comfy_quant", in->marker);
  else
    file_add (&file, "scaled_fp8", "F8_E4M3", "0", q, 0);
  fixture_init (&f, &file);
  h3_loader_matrix (f.loader, "m.weight", 2, 2);
  test_loader_begin (f.loader, f.device);
  w = h3_loader_matrix (f.loader, "m.weight", 2, 2);
  test_loader_finish (f.loader);
  g_assert_cmpfloat (w->input_scale, ==, in->input_scale);
  g_assert_cmpint (w->full_precision, ==, in->full_precision);
  g_clear_pointer (&w, h3_weight_unref);
  fixture_clear (&f);
}

/* The worked places of checkpoints.md 5.2, through a matrix of 201 rows and 8
 * blocks: padded rows are left away. */
static void
test_tiles (void)
{
  static const struct {
    gint row, block, place;
  } places[] = { { 0, 0, 0 }, { 1, 0, 16 }, { 32, 0, 4 }, { 0, 4, 512 },
    { 37, 5, 597 }, { 200, 7, 1675 }, { 128, 0, 1024 } };
  g_autofree guint8 *q = g_malloc0 (208 * 64);
  g_autofree guint8 *scales = g_malloc0 (256 * 8);
  const gfloat one = 1;
  g_autoptr (H3Weight) w = NULL;
  File file;
  Fixture f;

  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    scales[places[i].place] = 0x38 + i;
  file_init (&file);
  file_add (&file, "m.weight", "U8", "208,64", q, 208 * 64);
  file_add (&file, "m.weight_scale", "F8_E4M3", "256,8", scales, 256 * 8);
  file_add (&file, "m.weight_scale_2", "F32", "", &one, 4);
  file_add_text (&file, "m.comfy_quant", "{\"format\": \"nvfp4\"}");
  fixture_init (&f, &file);
  h3_loader_matrix (f.loader, "m.weight", 201, 128);
  test_loader_begin (f.loader, f.device);
  w = h3_loader_matrix (f.loader, "m.weight", 201, 128);
  test_loader_finish (f.loader);
  g_assert_cmpint (w->tensor->shape[0], ==, 201);
  g_assert_cmpint (w->block_scale->shape[0], ==, 201);
  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    g_assert_cmpint (((guint8 *) w->block_scale
                             ->data)[places[i].row * 8 + places[i].block],
        ==, 0x38 + i);
  g_clear_pointer (&w, h3_weight_unref);
  fixture_clear (&f);
}

/* Pieces with their rows' scales; nothing is remembered of them. */
static void
test_pieces (void)
{
  g_autoptr (H3Weight) piece = NULL;
  g_autoptr (GPtrArray) tensors = NULL;
  guint8 q[24];
  gfloat scale[12];
  File file;
  Fixture f;

  for (guint i = 0; i < 24; i++)
    q[i] = i;
  for (guint i = 0; i < 12; i++)
    scale[i] = i + 1;
  file_init (&file);
  file_add (&file, "m.weight", "I8", "12,2", q, 24);
  file_add (&file, "m.weight_scale", "F32", "12", scale, 48);
  file_add_text (&file, "m.comfy_quant", "{\"format\": \"int8_tensorwise\"}");
  fixture_init (&f, &file);
  g_assert_true (h3_loader_piece (f.loader, "m.weight", 12, 2, 0, 5, &piece));
  test_loader_begin (f.loader, f.device);
  for (gint first = 0; first <= 7; first += 7) {
    g_assert_true (
        h3_loader_piece (f.loader, "m.weight", 12, 2, first, 5, &piece));
    g_assert_cmpmem (piece->tensor->data, 10, q + 2 * first, 10);
    g_assert_cmpmem (piece->scale->data, 20, scale + first, 20);
  }
  g_assert_cmpuint (h3_loader_bytes (f.loader), ==, 0);
  test_loader_finish (f.loader);
  tensors = h3_loader_take_tensors (f.loader);
  g_assert_cmpuint (tensors->len, ==, 0);
  g_clear_pointer (&piece, h3_weight_unref);
  g_clear_pointer (&tensors, g_ptr_array_unref);
  fixture_clear (&f);
}

/* What is wrong */

/* A matrix "m.weight" of 2 rows of 64 columns, unless said otherwise. NULL
 * shapes: the tensor is left away. */
typedef struct {
  const gchar *name;
  const gchar *marker;
  const gchar *type, *shape;
  const gchar *scale_type, *scale_shape;
  gfloat scale;              /* a float's; of blocks the first byte */
  const gchar *second_shape; /* weight_scale_2 */
  gfloat second;
  const gchar *columns_shape; /* pre_quant_scale */
  gfloat columns;
  const gchar *input_shape;
  gfloat input;
  H3Error code;
  const gchar *texts[2];
} Bad;

#define INT8 "{\"format\": \"int8_tensorwise\"}"
#define ROT(g)                                                                 \
  "{\"format\": \"int8_tensorwise\", \"convrot\": true, "                      \
  "\"convrot_groupsize\": " #g "}"
#define NVFP4 "{\"format\": \"nvfp4\"}"
#define FP8 "{\"format\": \"float8_e4m3fn\"}"
#define MXFP8 "{\"format\": \"mxfp8\"}"
#define NV_BASE "U8", "16,32", "F8_E4M3", "128,4"
#define I8_BASE "I8", "2,64", "F32", "2,1"

static const Bad bad[] = {
  /* markers */
  { "not-json", "{\"format\": ", I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "layer m: comfy_quant is not valid JSON" } },
  { "array", "[1]", I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "layer m: comfy_quant is not valid JSON" } },
  { "no-format", "{}", I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "layer m: comfy_quant names no format" } },
  { "format-number", "{\"format\": 3}", I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "layer m: comfy_quant: format is no string" } },
  { "unknown", "{\"format\": \"int3\"}", I8_BASE, 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "layer m: quantization format int3 is unknown" } },
  { "unsupported", "{\"format\": \"asym_w4a8_int8\"}", I8_BASE, 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "format asym_w4a8_int8 is not supported" } },
  { "precision-string",
      "{\"format\": \"nvfp4\", \"full_precision_matrix_mult\": \"yes\"}",
      NV_BASE, 0x38, "", 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "full_precision_matrix_mult is no boolean" } },
  { "convrot-number", "{\"format\": \"int8_tensorwise\", \"convrot\": 1}",
      I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "convrot is no boolean" } },
  { "no-group", "{\"format\": \"int8_tensorwise\", \"convrot\": true}", I8_BASE,
      1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "convrot needs convrot_groupsize" } },
  { "group-32", ROT (32), I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "convrot_groupsize 32 is not a power of 4" } },
  { "group-1", ROT (1), I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "convrot_groupsize 1 is not a power of 4" } },
  { "group-negative", ROT (-4), I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "convrot_groupsize -4 is not a power of 4" } },
  { "group-large", ROT (4096), I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "convrot_groupsize 4096 is not a power of 4" } },
  { "group-256", ROT (256), I8_BASE, 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "convrot group 256 does not divide 64 columns" } },
  { "rotated-fp8",
      "{\"format\": \"float8_e4m3fn\", \"convrot\": true, "
      "\"convrot_groupsize\": 16}",
      "F8_E4M3", "2,64", "F32", "", 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "format float8_e4m3fn with convrot is not supported" } },
  /* types */
  { "plain", FP8, "BF16", "2,64", "F32", "", 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight is BF16, needed: F8_E4M3" } },
  { "no-marker", NULL, "I8", "2,64", NULL, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight: dtype I8 is not supported" } },
  { "stray-scale", NULL, "BF16", "2,64", "F32", "2,1", 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "1 unexpected, first: m.weight_scale" } },
  /* missing */
  { "no-scale", INT8, "I8", "2,64", NULL, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "layer m: format int8_tensorwise needs tensor "
                 "m.weight_scale" } },
  { "no-second", NVFP4, NV_BASE, 0x38, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "layer m: format nvfp4 needs tensor m.weight_scale_2" } },
  { "no-blocks", NVFP4, "U8", "16,32", NULL, NULL, 0, "", 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "layer m: format nvfp4 needs tensor m.weight_scale" } },
  /* shapes */
  { "scale-3", INT8, "I8", "2,64", "F32", "3", 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight_scale: F32 of shape [3]",
          "expected one float or [2]" } },
  { "scale-u8", INT8, "I8", "2,64", "U8", "2", 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight_scale: U8 of shape [2]" } },
  { "untiled", NVFP4, "U8", "16,32", "F8_E4M3", "2,4", 0x38, "", 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight_scale: F8_E4M3 of shape [2, 4]",
          "F8_E4M3 of shape [128, 4]" } },
  { "blocks-f32", NVFP4, "U8", "16,32", "F32", "128,4", 1, "", 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight_scale: F32 of shape [128, 4]" } },
  { "second-2", NVFP4, NV_BASE, 0x38, "2", 1, .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight_scale_2: F32 of shape [2], expected one "
                 "float" } },
  { "columns-32", NVFP4, NV_BASE, 0x38, "", 1, "32", 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.pre_quant_scale: F32 of shape [32], expected floats "
                 "[64]" } },
  { "input-2", INT8, I8_BASE, 1, .input_shape = "2", .input = 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.input_scale: F32 of shape [2], expected one "
                 "float" } },
  { "rows-17", NVFP4, "U8", "17,32", "F8_E4M3", "128,4", 0x38, "", 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight: shape [17, 32], expected [2, 64]" } },
  { "packed-33", NVFP4, "U8", "16,33", "F8_E4M3", "128,4", 0x38, "", 1,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight: shape [16, 33], expected rows of 64" } },
  { "mx-flat", MXFP8, "F8_E4M3", "2048", "F8_E8M0", "128,4", 127,
      .code = H3_ERROR_WRONG_TYPE,
      .texts = { "tensor m.weight: shape [2048], expected rows of 64" } },
  /* numbers */
  { "zero", INT8, I8_BASE, 0, .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.weight_scale: element 0 is zero" } },
  { "negative", INT8, I8_BASE, -1, .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.weight_scale: element 0 is negative" } },
  { "nan", INT8, I8_BASE, NAN, .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.weight_scale: element 0 is NaN" } },
  { "infinite", INT8, I8_BASE, INFINITY, .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.weight_scale: element 0 is Inf" } },
  { "second-zero", NVFP4, NV_BASE, 0x38, "", 0, .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.weight_scale_2: element 0 is zero" } },
  { "columns-nan", NVFP4, NV_BASE, 0x38, "", 1, "64", NAN,
      .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.pre_quant_scale: element 0 is NaN" } },
  { "input-zero", INT8, I8_BASE, 1, .input_shape = "", .input = 0,
      .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.input_scale: element 0 is zero" } },
  { "block-nan", NVFP4, NV_BASE, 0x7f, "", 1, .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.weight_scale: element 0 is NaN" } },
  { "block-negative", NVFP4, NV_BASE, 0xb8, "", 1, .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.weight_scale: element 0 is negative" } },
  { "exponent-nan", MXFP8, "F8_E4M3", "32,64", "F8_E8M0", "128,4", 255,
      .code = H3_ERROR_NUMERIC,
      .texts = { "tensor m.weight_scale: element 0 is NaN" } },
};

/* Elements of "2,64". */
static gsize
elements_of (const gchar *shape)
{
  g_auto (GStrv) parts = g_strsplit (shape, ",", -1);
  gsize n = 1;

  for (guint i = 0; parts[i]; i++)
    n *= g_ascii_strtoull (parts[i], NULL, 10);
  return n;
}

static void
add_floats (File *file, const gchar *name, const gchar *shape, gfloat value)
{
  gsize n = elements_of (shape);
  g_autofree gfloat *values = g_new (gfloat, n);

  for (gsize i = 0; i < n; i++)
    values[i] = value;
  file_add (file, name, "F32", shape, values, n * sizeof (gfloat));
}

static void
add_bytes (File *file, const gchar *name, const gchar *dtype,
    const gchar *shape, guint8 first)
{
  gsize n = elements_of (shape) * (g_str_equal (dtype, "BF16") ? 2 : 1);
  g_autofree guint8 *bytes = g_malloc0 (n);

  bytes[0] = first;
  file_add (file, name, dtype, shape, bytes, n);
}

static void
test_bad (gconstpointer data)
{
  const Bad *b = data;
  g_autoptr (GError) error = NULL;
  File file;
  Fixture f;

  file_init (&file);
  add_bytes (&file, "m.weight", b->type, b->shape, 0);
  if (b->marker)
    file_add_text (&file, "m.comfy_quant", b->marker);
  if (b->scale_type && g_str_equal (b->scale_type, "F32"))
    add_floats (&file, "m.weight_scale", b->scale_shape, b->scale);
  else if (b->scale_type)
    add_bytes (&file, "m.weight_scale", b->scale_type, b->scale_shape,
        (guint8) (gint) b->scale);
  if (b->second_shape)
    add_floats (&file, "m.weight_scale_2", b->second_shape, b->second);
  if (b->columns_shape)
    add_floats (&file, "m.pre_quant_scale", b->columns_shape, b->columns);
  if (b->input_shape)
    add_floats (&file, "m.input_scale", b->input_shape, b->input);
  fixture_init (&f, &file);
  g_assert_null (h3_loader_matrix (f.loader, "m.weight", 2, 64));
  if (h3_loader_finish (f.loader, &error)) {
    h3_loader_begin (f.loader, &f.device->device, NULL, NULL, NULL, &error);
    g_assert_no_error (error);
    g_assert_null (h3_loader_matrix (f.loader, "m.weight", 2, 64));
    g_assert_false (h3_loader_finish (f.loader, &error));
  }
  h3_test_assert_h3_error (error, b->code, f.path, b->texts[0],
      b->texts[1] ? b->texts[1] : "");
  fixture_clear (&f);
}

/* Markers in the file's metadata. The file has net.m.weight, FP8 of 2 rows of 2,
 * with net.m.weight_scale. */
typedef struct {
  const gchar *name, *metadata;
  const gchar *marker;            /* net.m.comfy_quant */
  const gchar *opening, *loading; /* what is said, or NULL */
} Metadata;

#define LAYERS(layers) "{\"format_version\":\"1.0\",\"layers\":{" layers "}}"

static const Metadata metadata[] = {
  { "object", LAYERS ("\"net.m\":{\"format\":\"float8_e4m3fn\"}") },
  { "string", LAYERS ("\"net.m\":\"float8_e4m3fn\"") },
  { "no-prefix", LAYERS ("\"m\":\"float8_e4m3fn\"") },
  { "no-layers", LAYERS ("") },
  { "marker-first", LAYERS ("\"m\":\"nvfp4\""),
      .marker = "{\"format\": \"float8_e4m3fn\"}" },
  { "not-json",
      "{\"layers\": ", .opening = "_quantization_metadata is no JSON object" },
  { "number", "1", .opening = "_quantization_metadata is no JSON object" },
  { "no-object", "{}", .opening = "with the object \"layers\"" },
  { "array", "{\"layers\":[]}", .opening = "with the object \"layers\"" },
  { "value", LAYERS ("\"m\":1"),
      .opening = "has neither a format nor an object for m" },
  { "stray", LAYERS ("\"other\":\"nvfp4\""),
      .opening = "has layer other, but there is no tensor other.weight" },
  { "half-a-name", LAYERS ("\"et.m\":\"nvfp4\""),
      .opening = "has layer et.m, but there is no tensor et.m.weight" },
  { "unknown", LAYERS ("\"m\":\"int3\""),
      .loading = "layer net.m: quantization format int3 is unknown" },
  { "unsupported", LAYERS ("\"m\":\"convrot_w4a4\""),
      .loading = "quantization format convrot_w4a4 is not supported" },
  { "no-format", LAYERS ("\"m\":{}"),
      .loading = "layer net.m: _quantization_metadata names no format" },
  { "type", LAYERS ("\"m\":\"int8_tensorwise\""),
      .loading = "tensor net.m.weight is F8_E4M3, needed: I8" },
};

static H3TensorSet *
open_metadata (const Metadata *m, const gchar *path, GError **error)
{
  const guint8 q[4] = { 0x38, 0x39, 0x3a, 0x3b };
  const gfloat scale = 0.5f;
  File file;

  file_init (&file);
  file_add_metadata (&file, m->metadata);
  file_add (&file, "net.m.weight", "F8_E4M3", "2,2", q, 4);
  file_add (&file, "net.m.weight_scale", "F32", "", &scale, 4);
  if (m->marker)
    file_add_text (&file, "net.m.comfy_quant", m->marker);
  file_write (&file, path);
  return h3_tensor_set_open (path, error);
}

static void
test_metadata (gconstpointer data)
{
  const Metadata *m = data;
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "f.safetensors", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3TensorSet) set = open_metadata (m, path, &error);
  g_autoptr (H3Loader) loader = set ? h3_loader_new (set, WHAT) : NULL;

  h3_test_remove_tree (dir);
  if (m->opening) {
    g_assert_null (set);
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, path, m->opening);
    return;
  }
  g_assert_no_error (error);
  h3_loader_matrix (loader, "net.m.weight", 2, 2);
  h3_loader_finish (loader, &error);
  if (m->loading) {
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, path, m->loading);
  } else {
    g_assert_no_error (error);
    g_assert_cmpuint (h3_loader_bytes (loader), ==, 4 + 2 * sizeof (gfloat));
  }
}

static void
test_mixed (void)
{
  static const gchar *const names[] = { "a.weight", "b.weight" };
  g_autoptr (GError) error = NULL;
  File file;
  Fixture f;

  file_init (&file);
  add_bytes (&file, "a.weight", "F8_E4M3", "2,64", 0);
  add_bytes (&file, "b.weight", "F8_E5M2", "2,64", 0);
  fixture_init (&f, &file);
  h3_loader_weight (f.loader, names, 2, 4, 64, H3_ROWS_AS_STORED, 0, 0);
  g_assert_false (h3_loader_finish (f.loader, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, f.path,
      "tensor b.weight is F8_E5M2 and a.weight is F8_E4M3");
  fixture_clear (&f);
}

/* A number of the weight that is none. */
static void
test_nan_weight (void)
{
  g_autoptr (GError) error = NULL;
  File file;
  Fixture f;

  file_init (&file);
  add_bytes (&file, "m.weight", "F8_E4M3", "2,64", 0xff);
  fixture_init (&f, &file);
  h3_loader_matrix (f.loader, "m.weight", 2, 64);
  test_loader_begin (f.loader, f.device);
  h3_loader_matrix (f.loader, "m.weight", 2, 64);
  g_assert_false (h3_loader_finish (f.loader, &error));
  h3_test_assert_h3_error (error, H3_ERROR_NUMERIC, f.path,
      "tensor m.weight: element 0 is NaN");
  fixture_clear (&f);
}

static void
test_device_without (void)
{
  g_autoptr (GError) error = NULL;
  File file;
  Fixture f;

  file_init (&file);
  add_bytes (&file, "m.weight", "F8_E4M3", "2,64", 0);
  fixture_init (&f, &file);
  f.device->device.encodings = 0;
  h3_loader_matrix (f.loader, "m.weight", 2, 64);
  test_loader_begin (f.loader, f.device);
  g_assert_null (h3_loader_matrix (f.loader, "m.weight", 2, 64));
  g_assert_cmpuint (f.device->n_uploads, ==, 0);
  g_assert_false (h3_loader_finish (f.loader, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, f.path,
      "tensor m.weight", "does not take weights in float8_e4m3fn");
  fixture_clear (&f);
}

void
add_quantised_tests (void)
{
  g_test_add_func ("/quantised/row-scales", test_row_scales);
  g_test_add_func ("/quantised/concatenation", test_concatenation);
  g_test_add_func ("/quantised/tiles", test_tiles);
  g_test_add_func ("/quantised/pieces", test_pieces);
  g_test_add_func ("/quantised/mixed", test_mixed);
  g_test_add_func ("/quantised/nan-weight", test_nan_weight);
  g_test_add_func ("/quantised/device-without", test_device_without);
  for (guint i = 0; i < G_N_ELEMENTS (metadata); i++) {
    g_autofree gchar *path =
        g_strconcat ("/quantised/metadata/", metadata[i].name, NULL);
    g_test_add_data_func (path, &metadata[i], test_metadata);
  }
  for (guint i = 0; i < G_N_ELEMENTS (inputs); i++) {
    g_autofree gchar *path =
        g_strconcat ("/quantised/inputs/", inputs[i].name, NULL);
    g_test_add_data_func (path, &inputs[i], test_inputs);
  }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autofree gchar *path = g_strconcat ("/quantised/bad/", bad[i].name, NULL);
    g_test_add_data_func (path, &bad[i], test_bad);
  }
}
