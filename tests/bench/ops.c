/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How fast the CPU's operations are: not a test, run by hand.
 *   build/tests/bench/bench-ops [THREADS] */
#include <stdio.h>
#include <stdlib.h>

#include "cpu/h3-cpu.h"
#include "model/picture/prepare.h"

typedef struct {
  H3Device *device;
  H3Stream *stream;
} Bench;

#define DIMS(...)                                                              \
  G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ })), (gint64[])                       \
  {                                                                            \
    __VA_ARGS__                                                                \
  }

static H3Tensor *
tensor (Bench *b, H3DType dtype, guint rank, const gint64 *shape)
{
  GError *error = NULL;
  H3Tensor *t = h3_tensor_new (b->device, dtype, rank, shape, &error);

  if (!t) {
    fprintf (stderr, "%s\n", error->message);
    exit (1);
  }
  for (gint64 i = 0; i < h3_tensor_size (t); i++) {
    if (dtype == H3_DTYPE_F32)
      ((gfloat *) t->data)[i] = (i * 2654435761u % 2001) / 1000.0f - 1;
    else
      ((guint16 *) t->data)[i] = 0x3c00 + i % 256;
  }
  return t;
}

typedef void (*Run) (Bench *b, gconstpointer args);

/* Repeats for a quarter of a second and prints the best time. */
static void
measure (Bench *b, const gchar *name, gdouble flop, Run run, gconstpointer args)
{
  gint64 start = g_get_monotonic_time (), best = G_MAXINT64;

  do {
    gint64 t = g_get_monotonic_time ();

    run (b, args);
    best = MIN (best, g_get_monotonic_time () - t);
  } while (g_get_monotonic_time () - start < 250000);
  if (!h3_stream_synchronize (b->stream, NULL)) {
    fprintf (stderr, "%s failed\n", name);
    exit (1);
  }
  printf ("%-48s %9.3f ms %8.1f G/s\n", name, best / 1e3,
      flop / 1e3 / MAX (best, 1));
}

static void
run_linear (Bench *b, gconstpointer args)
{
  h3_linear (b->stream, args);
}

static void
bench_linear (Bench *b, H3DType dtype, gint64 m, gint64 n, gint64 k)
{
  g_autofree gchar *name = g_strdup_printf ("linear %s %d x %d x %d",
      h3_dtype_name (dtype), (gint) m, (gint) n, (gint) k);
  H3Tensor *x = tensor (b, H3_DTYPE_F32, DIMS (m, k));
  H3Tensor *y = tensor (b, H3_DTYPE_F32, DIMS (m, n));
  H3Weight *w = h3_weight_new_plain (tensor (b, dtype, DIMS (n, k)));

  measure (b, name, 2.0 * m * n * k, run_linear,
      &(H3LinearArgs){ .y = y, .x = x, .weight = w });
  h3_tensor_unref (x);
  h3_tensor_unref (y);
  h3_weight_unref (w);
}

static void
run_attention (Bench *b, gconstpointer args)
{
  h3_attention (b->stream, args);
}

static void
bench_attention (Bench *b, gint64 s, gint heads, gint d, gboolean causal)
{
  g_autofree gchar *name = g_strdup_printf ("attention %d rows, %d heads x %d"
                                            "%s",
      (gint) s, heads, d, causal ? ", causal" : "");
  H3Tensor *qkv = tensor (b, H3_DTYPE_F32, DIMS (s, 3 * heads * d));
  H3Tensor *y = tensor (b, H3_DTYPE_F32, DIMS (s, heads * d));

  measure (b, name, 4.0 * s * s * heads * d / (causal ? 2 : 1), run_attention,
      &(H3AttentionArgs){ .y = y,
          .qkv = qkv,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = d,
          .n_sequences = 1,
          .causal = causal,
          .scale = 0.1 });
  h3_tensor_unref (qkv);
  h3_tensor_unref (y);
}

static void
run_conv (Bench *b, gconstpointer args)
{
  h3_conv1d (b->stream, args);
}

static void
bench_conv (Bench *b, gint64 c, gint64 co, gint64 k, gint64 length, gint d)
{
  g_autofree gchar *name = g_strdup_printf ("conv1d 2 x %d -> %d, %d taps, "
                                            "length %d",
      (gint) c, (gint) co, (gint) k, (gint) length);
  H3Tensor *x = tensor (b, H3_DTYPE_F32, DIMS (2, c, length));
  H3Tensor *y = tensor (b, H3_DTYPE_F32, DIMS (2, co, length));
  H3Weight *w = h3_weight_new_plain (tensor (b, H3_DTYPE_F32, DIMS (co, c, k)));

  measure (b, name, 4.0 * length * co * c * k, run_conv,
      &(H3Conv1dArgs){ .y = y,
          .x = x,
          .weight = w,
          .stride = 1,
          .dilation = d,
          .pad = (k - 1) * d / 2 });
  h3_tensor_unref (x);
  h3_tensor_unref (y);
  h3_weight_unref (w);
}

static void
run_conv3d (Bench *b, gconstpointer args)
{
  h3_conv3d (b->stream, args);
}

static void
run_norm (Bench *b, gconstpointer args)
{
  h3_group_norm_silu (b->stream, args);
}

/* A layer of the video encoder, of one frame, and the norm in front of it. */
static void
bench_conv3d (Bench *b, gint64 side, gint64 c, gint64 co)
{
  g_autofree gchar *name = g_strdup_printf ("conv3d %d x %d, %d -> %d",
      (gint) side, (gint) side, (gint) c, (gint) co);
  g_autofree gchar *norm = g_strdup_printf ("group_norm_silu %d x %d x %d",
      (gint) side, (gint) side, (gint) c);
  H3Tensor *x = tensor (b, H3_DTYPE_F32, DIMS (1, 1, side, side, c));
  H3Tensor *a = tensor (b, H3_DTYPE_F32, DIMS (1, 1, side, side, c));
  H3Tensor *y = tensor (b, H3_DTYPE_F32, DIMS (1, 1, side, side, co));
  H3Tensor *gain = tensor (b, H3_DTYPE_F32, DIMS (c));
  H3Tensor *bias = tensor (b, H3_DTYPE_F32, DIMS (co));
  H3Weight *w =
      h3_weight_new_plain (tensor (b, H3_DTYPE_F32, DIMS (co, 3, 3, 3, c)));

  measure (b, name, 18.0 * side * side * c * co, run_conv3d,
      &(H3Conv3dArgs){ y, x, w, bias, NULL, 1, 1, 1 });
  measure (b, norm, 0, run_norm,
      &(H3GroupNormArgs){ a, x, gain, gain, 32, 1e-6f });
  h3_tensor_unref (x);
  h3_tensor_unref (a);
  h3_tensor_unref (y);
  h3_tensor_unref (gain);
  h3_tensor_unref (bias);
  h3_weight_unref (w);
}

static void
run_transpose (Bench *b, gconstpointer args)
{
  h3_conv_transpose1d (b->stream, args);
}

static void
bench_transpose (Bench *b, gint64 c, gint64 co, gint64 k, gint64 u,
    gint64 length)
{
  g_autofree gchar *name = g_strdup_printf ("conv_transpose1d 2 x %d -> %d, "
                                            "%d taps, length %d",
      (gint) c, (gint) co, (gint) k, (gint) length);
  H3Tensor *x = tensor (b, H3_DTYPE_F32, DIMS (2, c, length));
  H3Tensor *y = tensor (b, H3_DTYPE_F32, DIMS (2, co, u * length));
  H3Weight *w = h3_weight_new_plain (tensor (b, H3_DTYPE_F32, DIMS (c, co, k)));

  measure (b, name, 4.0 * length * co * c * k, run_transpose,
      &(H3ConvTranspose1dArgs){ .y = y, .x = x, .weight = w, .stride = u });
  h3_tensor_unref (x);
  h3_tensor_unref (y);
  h3_weight_unref (w);
}

static void
run_snake (Bench *b, gconstpointer args)
{
  h3_snake_beta (b->stream, args);
}

static void
bench_snake (Bench *b, gint64 c, gint64 length)
{
  g_autofree gchar *name = g_strdup_printf ("snake_beta 2 x %d, length %d "
                                            "(samples)",
      (gint) c, (gint) length);
  H3Tensor *x = tensor (b, H3_DTYPE_F32, DIMS (2, c, length));
  H3Tensor *y = tensor (b, H3_DTYPE_F32, DIMS (2, c, length));
  H3Tensor *a = tensor (b, H3_DTYPE_F32, DIMS (c));
  H3Tensor *f = tensor (b, H3_DTYPE_F32, DIMS (12));

  measure (b, name, 2.0 * c * length, run_snake,
      &(H3SnakeBetaArgs){ .y = y,
          .x = x,
          .a = a,
          .inv_b = a,
          .up_filter = f,
          .down_filter = f });
  h3_tensor_unref (x);
  h3_tensor_unref (y);
  h3_tensor_unref (a);
  h3_tensor_unref (f);
}

typedef struct {
  H3Fitter *fitter;
  const guint8 *src;
  gsize stride;
} Fit;

static void
run_fit (Bench *b, gconstpointer args)
{
  const Fit *fit = args;
  gsize stride = fit->stride;

  h3_fitter_run (fit->fitter, fit->src, &stride);
}

/* A reference's frame to its canvas, by the calling thread alone. */
static void
bench_fit (Bench *b, gint width, gint height, gint to_width, gint to_height)
{
  g_autofree gchar *name = g_strdup_printf ("resize %d x %d to %d x %d "
                                            "(pixels)",
      width, height, to_width, to_height);
  g_autofree guint8 *src = g_malloc0 ((gsize) width * height * 3);
  const Fit fit = { h3_fitter_new (H3_FIT_STRETCH, to_width, to_height, width,
                        height, NULL),
    src, 3 * (gsize) width };

  measure (b, name, (gdouble) to_width * to_height, run_fit, &fit);
  h3_fitter_free (fit.fitter);
}

int
main (int argc, char **argv)
{
  GError *error = NULL;
  Bench b;

  b.device = h3_cpu_device_new (argc > 1 ? atoi (argv[1]) : 0, &error);
  if (!b.device) {
    fprintf (stderr, "%s\n", error->message);
    return 1;
  }
  b.stream = h3_stream_new (b.device, NULL);
  printf ("%s\n", b.device->name);

  bench_linear (&b, H3_DTYPE_BF16, 12, 96, 48);
  bench_linear (&b, H3_DTYPE_BF16, 128, 480, 128);
  bench_linear (&b, H3_DTYPE_BF16, 128, 512, 128);
  bench_linear (&b, H3_DTYPE_BF16, 9, 2304, 24);
  bench_linear (&b, H3_DTYPE_F16, 173, 288, 96);
  bench_linear (&b, H3_DTYPE_F32, 1024, 2048, 2048);
  bench_linear (&b, H3_DTYPE_BF16, 1024, 2048, 2048);
  bench_linear (&b, H3_DTYPE_BF16, 1, 4096, 4096);
  bench_attention (&b, 128, 5, 32, FALSE);
  bench_attention (&b, 1800, 32, 64, FALSE);
  bench_attention (&b, 1024, 8, 128, TRUE);
  bench_conv (&b, 64, 128, 7, 37, 1);
  bench_conv (&b, 64, 64, 11, 185, 5);
  bench_conv (&b, 32, 32, 11, 925, 5);
  bench_conv (&b, 8, 8, 7, 3700, 3);
  bench_conv (&b, 1, 1, 11, 29600, 5);
  bench_conv (&b, 2048, 1024, 7, 37, 1);
  bench_conv (&b, 512, 512, 7, 1500, 3);
  bench_conv3d (&b, 96, 32, 32);
  bench_conv3d (&b, 256, 128, 128);
  bench_conv3d (&b, 64, 256, 256);
  bench_conv3d (&b, 16, 1024, 1024);
  bench_transpose (&b, 128, 64, 9, 5, 37);
  bench_transpose (&b, 1024, 512, 9, 5, 300);
  bench_transpose (&b, 8, 4, 4, 2, 3700);
  bench_snake (&b, 64, 185);
  bench_snake (&b, 1, 29600);
  bench_snake (&b, 8, 250000);
  bench_fit (&b, 1920, 1080, 1344, 768);
  bench_fit (&b, 3840, 2160, 1344, 768);
  bench_fit (&b, 640, 360, 1344, 768);

  h3_stream_free (b.stream);
  h3_device_unref (b.device);
  return 0;
}
