/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations one by one, in the shapes that a forward pass at 1344x768x124, a
 * video decode and an audio decode are made of. */
#include <math.h>

#include "tests/bench/h3-bench.h"

#define BF16(...)                                                              \
  filler_tensor (b->filler, H3_DTYPE_BF16, 1, 0,                               \
      G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ })), (gint64[]){ __VA_ARGS__ })
#define F16(...)                                                               \
  filler_tensor (b->filler, H3_DTYPE_F16, 1, 0,                                \
      G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ })), (gint64[]){ __VA_ARGS__ })
#define F32(...)                                                               \
  filler_tensor (b->filler, H3_DTYPE_F32, 1, 0,                                \
      G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ })), (gint64[]){ __VA_ARGS__ })

static void
run_linear (Bench *b, gpointer data)
{
  h3_linear (b->stream, data);
}

static void
run_norm (Bench *b, gpointer data)
{
  h3_rms_norm (b->stream, data);
}

static void
run_rope (Bench *b, gpointer data)
{
  h3_qk_norm_rope (b->stream, data);
}

static void
run_attention (Bench *b, gpointer data)
{
  h3_attention (b->stream, data);
}

static void
run_swiglu (Bench *b, gpointer data)
{
  H3Tensor **t = data;

  h3_swiglu (b->stream, t[0], t[1]);
}

static void
run_gate (Bench *b, gpointer data)
{
  H3Tensor **t = data;

  h3_gated_residual (b->stream, t[0], t[1], t[2], t[3], 2);
}

static void
run_scaled (Bench *b, gpointer data)
{
  H3Tensor **t = data;

  h3_scaled_residual (b->stream, t[0], t[1], t[2]);
}

static void
run_linear_swiglu (Bench *b, gpointer data)
{
  h3_linear_swiglu (b->stream, data);
}

static void
run_residual_norm (Bench *b, gpointer data)
{
  h3_residual_norm (b->stream, data);
}

static void
run_conv (Bench *b, gpointer data)
{
  h3_conv1d (b->stream, data);
}

static void
run_up (Bench *b, gpointer data)
{
  h3_conv_transpose1d (b->stream, data);
}

static void
run_snake (Bench *b, gpointer data)
{
  h3_snake_beta (b->stream, data);
}

static void
bench_linear (Bench *b, const gchar *name, H3DType dtype, gint64 m, gint64 n,
    gint64 k)
{
  g_autoptr (H3Tensor) x =
      filler_tensor (b->filler, dtype, 1, 0, 2, (gint64[]){ m, k });
  g_autoptr (H3Tensor) y =
      filler_tensor (b->filler, dtype, 1, 0, 2, (gint64[]){ m, n });
  g_autoptr (H3Weight) w = h3_weight_new_plain (
      filler_tensor (b->filler, dtype, 1 / sqrt (k), 0, 2, (gint64[]){ n, k }));
  H3LinearArgs args = { .y = y, .x = x, .weight = w };
  g_autofree gchar *what =
      g_strdup_printf ("  %s %d x %d x %d", name, (gint) m, (gint) n, (gint) k);

  bench_measure (b, what, 2.0 * m * n * k, run_linear, &args);
}

static void
bench_linear_swiglu (Bench *b, H3DType dtype, gint64 m, gint64 f, gint64 k,
    gboolean bias)
{
  g_autoptr (H3Tensor) x =
      filler_tensor (b->filler, dtype, 1, 0, 2, (gint64[]){ m, k });
  g_autoptr (H3Tensor) y =
      filler_tensor (b->filler, dtype, 1, 0, 2, (gint64[]){ m, f });
  g_autoptr (H3Tensor) both =
      filler_tensor (b->filler, dtype, 1, 0, 2, (gint64[]){ m, 2 * f });
  g_autoptr (H3Weight) w = h3_weight_new_plain (filler_tensor (b->filler, dtype,
      1 / sqrt (k), 0, 2, (gint64[]){ 2 * f, k }));
  g_autoptr (H3Tensor) v = F32 (2 * f);
  H3LinearSwigluArgs args = { y, x, w, bias ? v : NULL, both };
  g_autofree gchar *what = g_strdup_printf ("  linear_swiglu %d x %d x %d",
      (gint) m, (gint) (2 * f), (gint) k);

  bench_measure (b, what, 4.0 * m * f * k, run_linear_swiglu, &args);
}

static void
bench_block (Bench *b, gint64 s)
{
  const gint64 h = 5376, inner = 7168;
  g_autoptr (H3Tensor) x = BF16 (s, h);
  g_autoptr (H3Tensor) y = BF16 (s, h);
  g_autoptr (H3Tensor) table = BF16 (6, 6 * h);
  g_autoptr (H3Tensor) w = F32 (h);
  g_autoptr (H3Tensor) head = F32 (128);
  g_autoptr (H3Tensor) cos = F32 (s, 48);
  g_autoptr (H3Tensor) qkv = BF16 (s, 3 * inner);
  g_autoptr (H3Tensor) o = BF16 (s, inner);
  g_autoptr (H3Tensor) gate_up = BF16 (4096, 2 * 14336);
  g_autoptr (H3Tensor) gated = BF16 (4096, 14336);
  g_autoptr (H3Tensor) rows = NULL;
  g_autofree gint32 *index = g_new0 (gint32, s);

  rows = h3_tensor_new_from_host (b->device, H3_DTYPE_I32, 1, &s, index, NULL);
  bench_measure (b, "  rms_norm and modulation", 0, run_norm,
      &(H3RmsNormArgs){ y, x, w, 1e-5, table, rows, 0, 1 });
  bench_measure (b, "  qk_norm_rope", 0, run_rope,
      &(H3QkNormRopeArgs){ qkv, 56, 56, 128, head, head, 1e-5, cos, cos });
  bench_measure (b, "  attention", 4.0 * s * s * inner, run_attention,
      &(H3AttentionArgs){ o, qkv, 56, 56, 128, 1, FALSE, 0.088f });
  bench_measure (b, "  gated_residual", 0, run_gate,
      (H3Tensor *[]){ x, y, table, rows });
  bench_measure (b, "  swiglu, 4096 rows", 0, run_swiglu,
      (H3Tensor *[]){ gated, gate_up });
  bench_linear (b, "qkv", H3_DTYPE_BF16, s, 3 * inner, h);
  bench_linear (b, "out", H3_DTYPE_BF16, s, h, inner);
  bench_linear (b, "fc1", H3_DTYPE_BF16, 4096, 2 * 14336, h);
  bench_linear_swiglu (b, H3_DTYPE_BF16, 4096, 14336, h, FALSE);
  bench_linear (b, "fc2", H3_DTYPE_BF16, 4096, h, 14336);
}

static void
bench_tiles (Bench *b)
{
  const gint64 n = 14, s = n * 1797, dim = 2048;
  g_autoptr (H3Tensor) x = F32 (s, dim);
  g_autoptr (H3Tensor) y = F16 (s, dim);
  g_autoptr (H3Tensor) w = F32 (dim);
  g_autoptr (H3Tensor) cos = F32 (1797, 24);
  g_autoptr (H3Tensor) qkv = F16 (s, 3 * dim);
  g_autoptr (H3Tensor) gate_up = F16 (s, 16384);
  g_autoptr (H3Tensor) gated = F16 (s, 8192);

  bench_measure (b, "  rms_norm", 0, run_norm,
      &(H3RmsNormArgs){ .y = y, .x = x, .weight = w, .eps = 1e-5 });
  bench_measure (b, "  qk_norm_rope", 0, run_rope,
      &(H3QkNormRopeArgs){ qkv, 32, 32, 64, NULL, NULL, 1e-5, cos, cos });
  bench_measure (b, "  attention", 4.0 * 1797 * s * dim, run_attention,
      &(H3AttentionArgs){ y, qkv, 32, 32, 64, n, FALSE, 0.125f });
  bench_measure (b, "  scaled_residual", 0, run_scaled,
      (H3Tensor *[]){ x, y, w });
  bench_measure (b, "  residual_norm", 0, run_residual_norm,
      &(H3ResidualNormArgs){ x, y, w, y, w, 1e-5 });
  bench_measure (b, "  swiglu", 0, run_swiglu,
      (H3Tensor *[]){ gated, gate_up });
  bench_linear (b, "qkv", H3_DTYPE_F16, s, 3 * dim, dim);
  bench_linear (b, "out", H3_DTYPE_F16, s, dim, dim);
  bench_linear (b, "w1", H3_DTYPE_F16, s, 16384, dim);
  bench_linear_swiglu (b, H3_DTYPE_F16, s, 8192, dim, TRUE);
  bench_linear (b, "w2", H3_DTYPE_F16, s, dim, 8192);
  bench_linear (b, "proj_out, float32", H3_DTYPE_F32, s, 3072, dim);
}

static void
bench_text_rows (Bench *b)
{
  const gint64 s = 300;
  g_autoptr (H3Tensor) qkv = BF16 (s, 80 * 128);
  g_autoptr (H3Tensor) o = BF16 (s, 64 * 128);

  bench_measure (b, "  attention, causal", 2.0 * s * s * 8192, run_attention,
      &(H3AttentionArgs){ o, qkv, 64, 8, 128, 1, TRUE, 0.088f });
  bench_linear (b, "qkv", H3_DTYPE_BF16, s, 10240, 5120);
  bench_linear (b, "o", H3_DTYPE_BF16, s, 5120, 8192);
  bench_linear (b, "gate_up", H3_DTYPE_BF16, s, 51200, 5120);
  bench_linear (b, "down", H3_DTYPE_BF16, s, 5120, 25600);
}

static void
bench_stage (Bench *b, gint64 channels, gint64 length, gint64 taps_up, gint up)
{
  g_autoptr (H3Tensor) x = F32 (2, channels, length);
  g_autoptr (H3Tensor) y = F32 (2, channels, length);
  g_autoptr (H3Tensor) before = F32 (2, 2 * channels, length / up);
  g_autoptr (H3Tensor) v = F32 (channels);
  g_autoptr (H3Tensor) filter = F32 (12);
  g_autoptr (H3Weight) w_up =
      h3_weight_new_plain (F32 (2 * channels, channels, taps_up));
  g_autofree gchar *name = NULL;

  for (gint taps = 3; taps <= 11; taps += 4) {
    g_autoptr (H3Weight) w =
        h3_weight_new_plain (F32 (channels, channels, taps));
    g_autofree gchar *what = g_strdup_printf ("  conv1d %d channels, %d taps, "
                                              "length %d",
        (gint) channels, taps, (gint) length);

    bench_measure (b, what, 4.0 * channels * channels * taps * length, run_conv,
        &(H3Conv1dArgs){ y, x, w, v, NULL, 1, 3, (taps - 1) / 2 * 3 });
  }
  name = g_strdup_printf ("  conv_transpose1d to %d channels", (gint) channels);
  bench_measure (b, name, 8.0 * channels * channels * taps_up * length / up,
      run_up, &(H3ConvTranspose1dArgs){ y, before, w_up, v, up });
  bench_measure (b, "  snake_beta", 0, run_snake,
      &(H3SnakeBetaArgs){ y, x, v, v, filter, filter });
}

void
bench_ops (Bench *b)
{
  printf ("a transformer block, 38010 rows\n");
  bench_block (b, 38010);
  printf ("a text layer, 300 rows\n");
  bench_text_rows (b);
  printf ("a video decoder block, 14 tiles\n");
  bench_tiles (b);
  printf ("the audio decoder's stages\n");
  bench_stage (b, 512, 1035, 9, 5);
  bench_stage (b, 256, 5175, 9, 5);
  bench_stage (b, 128, 10350, 4, 2);
  bench_stage (b, 64, 20700, 4, 2);
  bench_stage (b, 8, 165600, 4, 2);
}
