/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* 1-D convolution and its transpose (audio-vae.md 4.1, 4.2). */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

static gfloat
weight_at (const H3Tensor *w, gint64 i)
{
  gfloat y;
  h3_widen (&y, w, i, 1);
  return y;
}

static void
conv_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3Conv1dArgs *a = data;
  const H3Tensor *w = a->weight->tensor;
  gint64 co = w->shape[0], ci = w->shape[1], k = w->shape[2];
  gint64 length = a->x->shape[2], lo = a->y->shape[2];
  gint64 o = index % co;
  const gfloat *x = (const gfloat *) a->x->data + index / co * ci * length;
  gfloat bias = a->bias ? ((const gfloat *) a->bias->data)[o] : 0;

  for (gint64 n = 0; n < lo; n++) {
    gfloat sum = bias;
    for (gint64 c = 0; c < ci; c++)
      for (gint64 t = 0; t < k; t++) {
        gint64 i = n * a->stride - a->pad + t * a->dilation;
        if (i >= 0 && i < length)
          sum = h3_fma (weight_at (w, (o * ci + c) * k + t), x[c * length + i], sum);
      }
    if (a->residual)
      sum += ((const gfloat *) a->residual->data)[index * lo + n];
    ((gfloat *) a->y->data)[index * lo + n] = sum;
  }
}

void
H3_ISA (h3_cpu_conv1d) (H3Stream *stream, const H3Conv1dArgs *args)
{
  h3_cpu_for (stream, args->y->shape[0] * args->y->shape[1], 0, conv_task,
      args);
}

static void
transpose_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3ConvTranspose1dArgs *a = data;
  const H3Tensor *w = a->weight->tensor;
  gint64 ci = w->shape[0], co = w->shape[1], k = w->shape[2];
  gint64 length = a->x->shape[2], lo = a->y->shape[2];
  gint64 o = index % co, u = a->stride, pad = (k - u) / 2;
  const gfloat *x = (const gfloat *) a->x->data + index / co * ci * length;
  gfloat bias = a->bias ? ((const gfloat *) a->bias->data)[o] : 0;

  for (gint64 n = 0; n < lo; n++) {
    gint64 m = n + pad, r = m % u, i0 = m / u;
    gfloat sum = bias;
    for (gint64 c = 0; c < ci; c++)
      for (gint64 j = 0; r + j * u < k; j++)
        if (i0 - j >= 0 && i0 - j < length)
          sum = h3_fma (weight_at (w, (c * co + o) * k + r + j * u),
              x[c * length + i0 - j], sum);
    ((gfloat *) a->y->data)[index * lo + n] = sum;
  }
}

void
H3_ISA (h3_cpu_conv_transpose1d) (H3Stream *stream,
    const H3ConvTranspose1dArgs *args)
{
  h3_cpu_for (stream, args->y->shape[0] * args->y->shape[1], 0,
      transpose_task, args);
}
