/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Encoded weights (checkpoints.md 5) as float32. */
#include "cpu/decode.h"
#include "cpu/mathf.h"
#include "model/blocks.h"

/* w[row, first .. first + n) but for rotation and column scale. */
typedef void (*Decode) (const H3Weight *weight, gint64 row, gint64 first,
    gint64 n, gfloat *dst);

/* The bytes of block @first of row @row. */
static inline const guint8 *
bytes_at (const H3Weight *w, gint64 row, gint64 first, guint block,
    guint block_bytes)
{
  return (const guint8 *) w->tensor->data + row * w->tensor->shape[1] +
         first / block * block_bytes;
}

static inline gfloat
row_scale (const H3Weight *w, gint64 row)
{
  return ((const gfloat *) w->scale->data)[row];
}

static inline const guint8 *
block_scales (const H3Weight *w, gint64 row, gint64 first, guint block)
{
  return (const guint8 *) w->block_scale->data +
         row * w->block_scale->shape[1] + first / block;
}

/* e = 0: m 2^-9; else (1 + m / 8) 2^(e - 7); NaN when all bits are set. The
 * fields at float32's place are the number times 2^-120, subnormal or not. */
static inline gfloat
e4m3 (guint8 code)
{
  guint32 bits = (guint32) (code & 0x80) << 24 | (guint32) (code & 0x7f) << 20;

  return (code & 0x7f) == 0x7f ? NAN : h3_bits_float (bits) * 0x1p120f;
}

/* The upper half of a half. */
static inline gfloat
e5m2 (guint8 code)
{
  guint32 bits = (guint32) (code & 0x80) << 24 | (guint32) (code & 0x7f) << 21;

  return (code & 0x7c) == 0x7c ? NAN : h3_bits_float (bits) * 0x1p112f;
}

static const gfloat e2m1[16] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1,
  -1.5f, -2, -3, -4, -6 };

static void
decode_e4m3 (const H3Weight *w, gint64 row, gint64 first, gint64 n, gfloat *dst)
{
  const guint8 *q = bytes_at (w, row, first, 1, 1);
  gfloat scale = row_scale (w, row);

  for (gint64 i = 0; i < n; i++)
    dst[i] = e4m3 (q[i]) * scale;
}

static void
decode_e5m2 (const H3Weight *w, gint64 row, gint64 first, gint64 n, gfloat *dst)
{
  const guint8 *q = bytes_at (w, row, first, 1, 1);
  gfloat scale = row_scale (w, row);

  for (gint64 i = 0; i < n; i++)
    dst[i] = e5m2 (q[i]) * scale;
}

static void
decode_int8 (const H3Weight *w, gint64 row, gint64 first, gint64 n, gfloat *dst)
{
  const gint8 *q = (const gint8 *) bytes_at (w, row, first, 1, 1);
  gfloat scale = row_scale (w, row);

  for (gint64 i = 0; i < n; i++)
    dst[i] = q[i] * scale;
}

static void
decode_nvfp4 (const H3Weight *w, gint64 row, gint64 first, gint64 n,
    gfloat *dst)
{
  const guint8 *q = bytes_at (w, row, first, 16, 8);
  const guint8 *scales = block_scales (w, row, first, 16);

  for (gint64 i = 0; i < n; i += 16) {
    gfloat scale = e4m3 (scales[i / 16]) * row_scale (w, row);
    gint64 end = MIN (i + 16, n);

    for (gint64 k = i; k < end; k++)
      dst[k] = e2m1[k % 2 ? q[k / 2] & 15 : q[k / 2] >> 4] * scale;
  }
}

static void
decode_mxfp8 (const H3Weight *w, gint64 row, gint64 first, gint64 n,
    gfloat *dst)
{
  const guint8 *q = bytes_at (w, row, first, 32, 32);
  const guint8 *scales = block_scales (w, row, first, 32);

  for (gint64 i = 0; i < n; i += 32) {
    guint8 e = scales[i / 32];
    gfloat scale = e == 255 ? NAN : h3_bits_float ((guint32) e << 23);
    gint64 end = MIN (i + 32, n);

    for (gint64 k = i; k < end; k++)
      dst[k] = e4m3 (q[k]) * scale;
  }
}

static void
decode_blocks (const H3Weight *w, gint64 row, gint64 first, gint64 n,
    gfloat *dst)
{
  const H3EncodingInfo *info = h3_encoding_info (w->encoding);

  h3_blocks_decode (w->encoding,
      bytes_at (w, row, first, info->block, info->block_bytes), n / info->block,
      dst);
}

static const Decode decoders[] = {
  [H3_ENCODING_E4M3] = decode_e4m3,
  [H3_ENCODING_E5M2] = decode_e5m2,
  [H3_ENCODING_INT8] = decode_int8,
  [H3_ENCODING_NVFP4] = decode_nvfp4,
  [H3_ENCODING_MXFP8] = decode_mxfp8,
};

/* x = x H_G, one factor H4 / 2 at a time:
 * H4 = [1 1 1 -1; 1 1 -1 1; 1 -1 1 1; -1 1 1 1] */
static void
rotate (gfloat *x, guint g)
{
  for (guint step = 1; step < g; step *= 4)
    for (guint block = 0; block < g; block += 4 * step)
      for (guint i = block; i < block + step; i++) {
        gfloat a = x[i], b = x[i + step], c = x[i + 2 * step],
               d = x[i + 3 * step];

        x[i] = 0.5f * (a + b + c - d);
        x[i + step] = 0.5f * (a + b - c + d);
        x[i + 2 * step] = 0.5f * (a - b + c + d);
        x[i + 3 * step] = 0.5f * (b + c + d - a);
      }
}

void
H3_ISA (h3_cpu_decode) (const H3Weight *w, gint64 row, gint64 first, gint64 n,
    gfloat *dst)
{
  for (guint i = 0; w->encoding == H3_ENCODING_STACKED; i++) {
    if (row < w->parts[i]->rows)
      w = w->parts[i];
    else
      row -= w->parts[i]->rows;
  }
  if (w->encoding == H3_ENCODING_PLAIN) {
    h3_widen (dst, w->tensor, row * w->cols + first, n);
    return;
  }
  if (h3_encoding_is_block (w->encoding))
    decode_blocks (w, row, first, n, dst);
  else
    decoders[w->encoding](w, row, first, n, dst);
  if (w->rotation > 1)
    for (gint64 i = 0; i < n; i += w->rotation)
      rotate (dst + i, w->rotation);
  if (w->column_scale) {
    const gfloat *factor = (const gfloat *) w->column_scale->data + first;

    for (gint64 i = 0; i < n; i++)
      dst[i] *= factor[i];
  }
}
