/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Encoded weights on a device: some numbers are encoded on the host, rounded to
 * nearest, and repeated. */
#include <math.h>
#include <string.h>

#include "gguf-file.h"
#include "model/blocks.h"
#include "tests/bench/h3-bench.h"

/* Numbers that are encoded: whole blocks of every encoding. */
#define PERIOD 65536
/* The largest of them, over their deviation. */
#define LARGEST 1.7320508f

gboolean
bench_encoding_from_name (const gchar *name, H3Encoding *encoding)
{
  static const gchar *const names[] = { "plain", "fp8", "e5m2", "int8", "nvfp4",
    "mxfp8" };

  for (guint i = 0; i < H3_ENCODING_STACKED; i++) {
    const gchar *own = i < G_N_ELEMENTS (names)
                           ? names[i]
                           : h3_encoding_info (i)->name + strlen ("GGUF ");

    if (g_ascii_strcasecmp (name, own) == 0) {
      *encoding = i;
      return TRUE;
    }
  }
  return FALSE;
}

/* The nearest code with so many bits of mantissa, of exponents from @least on. */
static guint8
float_code (gfloat v, gint mantissa, gint least)
{
  gint e;

  frexpf (v, &e);
  e = MAX (e - 1, least);
  /* what rounds up to the next exponent is its first code */
  return (v < 0 ? 0x80 : 0) |
         ((e - least) * (1 << mantissa) +
             (gint) rintf (ldexpf (fabsf (v), mantissa - e)));
}

/* E2M1, sign and all. */
static guint8
nibble (gfloat v)
{
  guint8 code = float_code (v, 1, 0);

  return code >> 4 | (code & 7);
}

/* What the bytes that @values become are multiplied by, for values of up to
 * @largest. */
static gfloat
code_unit (H3Encoding encoding, gfloat largest)
{
  switch (encoding) {
    case H3_ENCODING_E5M2:
      return largest / 57344;
    case H3_ENCODING_INT8:
      return largest / 127;
    case H3_ENCODING_NVFP4:
      return largest / 6;
    case H3_ENCODING_MXFP8:
      return exp2f (ceilf (log2f (largest / 448)));
    default:
      return largest / 448;
  }
}

/* PERIOD values; E4M3's least exponent is -6, E2M1's 0, E5M2's -14. */
static void
encode (H3Encoding encoding, gfloat unit, const gfloat *values, guint8 *bytes)
{
  if (h3_encoding_is_block (encoding)) {
    gguf_quantise (H3_STORED_Q4_0 + (encoding - H3_ENCODING_Q4_0), values,
        PERIOD, bytes);
    return;
  }
  for (gsize i = 0; i < PERIOD; i++) {
    gfloat v = values[i] / unit;

    if (encoding == H3_ENCODING_INT8)
      bytes[i] = (gint8) rintf (v);
    else if (encoding == H3_ENCODING_E5M2)
      bytes[i] = float_code (v, 2, -14);
    else if (encoding != H3_ENCODING_NVFP4)
      bytes[i] = float_code (v, 3, -6);
    else
      bytes[i / 2] = i % 2 ? bytes[i / 2] | nibble (v) : nibble (v) << 4;
  }
}

/* ConvRot's group of the released files. */
#define ROTATION 256

H3Weight *
bench_encoded_new (Filler *f, H3Encoding encoding, gint64 rows, gint64 cols)
{
  const H3EncodingInfo *info = h3_encoding_info (encoding);
  gfloat deviation = 1 / sqrtf (cols);
  gfloat unit = code_unit (encoding, LARGEST * deviation);
  gint64 width = h3_encoding_row_bytes (encoding, cols);
  g_autofree gfloat *values = filler_values (f, PERIOD, deviation);
  gsize size = PERIOD / info->block * info->block_bytes;
  g_autofree guint8 *bytes = g_malloc (size);
  H3Weight *w = h3_weight_new_encoded (encoding, rows, cols);

  encode (encoding, unit, values, bytes);
  w->tensor = filler_bytes (f, rows, width, bytes, size);
  if (encoding == H3_ENCODING_INT8)
    w->rotation = ROTATION;
  if (info->scale)
    w->scale = filler_tensor (f, H3_DTYPE_F32, 0, unit, 1, &rows);
  if (info->scale_block) {
    /* 1 in E4M3; the unit itself in E8M0 */
    guint8 scale =
        encoding == H3_ENCODING_NVFP4 ? 0x38 : 127 + (gint) log2f (unit);

    w->block_scale = filler_bytes (f, rows,
        (cols + info->scale_block - 1) / info->scale_block, &scale, 1);
  }
  return w;
}

typedef struct {
  H3Tensor *y;
  H3Weight *weight;
  H3Tensor *ids;
} Decode;

static void
run_decode (Bench *b, gpointer data)
{
  Decode *d = data;

  for (gint i = 0; i < 10; i++)
    h3_embedding (b->stream, d->y, d->weight, d->ids);
}

/* What a product does with a weight before it multiplies; the embedding is the
 * same kernel. */
void
bench_decode (Bench *b)
{
  const gint64 rows = 16384, cols = 5376;
  g_autoptr (H3Tensor) y = filler_tensor (b->filler, H3_DTYPE_BF16, 1, 0, 2,
      (gint64[]){ rows, cols });
  g_autoptr (H3Tensor) ids = NULL;
  g_autofree gint32 *numbers = g_new (gint32, rows);

  for (gint64 i = 0; i < rows; i++)
    numbers[i] = i;
  ids = h3_tensor_new_from_host (b->device, H3_DTYPE_I32, 1, &rows, numbers,
      NULL);
  for (guint e = H3_ENCODING_E4M3; e < H3_ENCODING_STACKED; e++) {
    g_autoptr (H3Weight) w = bench_encoded_new (b->filler, e, rows, cols);
    Decode d = { y, w, ids };
    g_autofree gchar *what = g_strdup_printf ("  10 x 16384 x 5376 of %s",
        h3_encoding_info (e)->name);
    gdouble seconds = bench_measure (b, what, 0, run_decode, &d);

    printf ("    %.0f GB/s, read and written\n",
        10 * (w->tensor->bytes + y->bytes) / seconds / 1e9);
  }
}
