/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Norm and rotary embedding of the q and k heads (denoiser.md 3.5, 3.6). */
#include "cpu/cpu.h"
#include "cpu/mathf.h"

static void
norm_head (gfloat *x, gint d, const gfloat *w, gfloat eps)
{
  gfloat lane[8] = { 0 }, squares = 0, rstd;
  gint i = 0;

  for (; i + 8 <= d; i += 8)
    for (gint k = 0; k < 8; k++)
      lane[k] = h3_fma (x[i + k], x[i + k], lane[k]);
  for (gint k = 0; k < 8; k++)
    squares += lane[k];
  for (; i < d; i++)
    squares = h3_fma (x[i], x[i], squares);
  rstd = 1 / sqrtf (squares / d + eps);
  if (w)
    for (i = 0; i < d; i++)
      x[i] = x[i] * rstd * w[i];
  else
    for (i = 0; i < d; i++)
      x[i] *= rstd;
}

static void
rotate_head (gfloat *restrict x, gint rot, const gfloat *restrict c,
    const gfloat *restrict s)
{
  gfloat *restrict partner = x + rot;

  for (gint i = 0; i < rot; i++) {
    gfloat a = x[i], b = partner[i];

    x[i] = a * c[i] - b * s[i];
    partner[i] = b * c[i] + a * s[i];
  }
}

static void
rope_task (gconstpointer data, gint64 index, gpointer scratch)
{
  const H3QkNormRopeArgs *a = data;
  gint64 width = h3_tensor_cols (a->qkv), grain = h3_cpu_row_grain (width);
  gint64 end = MIN ((index + 1) * grain, h3_tensor_rows (a->qkv));
  gint d = a->head_dim, rot = a->cos ? a->cos->shape[1] : 0;
  const gfloat *q_norm = a->q_norm ? a->q_norm->data : NULL;
  const gfloat *k_norm = a->k_norm ? a->k_norm->data : NULL;

  for (gint64 s = index * grain; s < end; s++) {
    gfloat *row = (gfloat *) a->qkv->data + s * width;
    gint64 angle = rot ? s % a->cos->shape[0] * rot : 0;

    for (guint h = 0; h < a->heads + a->kv_heads; h++) {
      gfloat *x = row + (gint64) h * d;

      if (!a->no_norm)
        norm_head (x, d, h < a->heads ? q_norm : k_norm, a->eps);
      if (rot)
        rotate_head (x, rot, (const gfloat *) a->cos->data + angle,
            (const gfloat *) a->sin->data + angle);
    }
  }
}

void
H3_ISA (h3_cpu_qk_norm_rope) (H3Stream *stream, const H3QkNormRopeArgs *args)
{
  gint64 grain = h3_cpu_row_grain (h3_tensor_cols (args->qkv));

  h3_cpu_for (stream, h3_cpu_ceil_div (h3_tensor_rows (args->qkv), grain), 0,
      rope_task, args);
}
