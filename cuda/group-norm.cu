/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Group norm of each frame, then SiLU, channels last (video-vae.md 5): sums of a
 * part of a frame's pixels in double, the parts' sums in order, and a pass that
 * applies them. */
#include "cuda/kernel.cuh"

#define THREADS 256
#define MAX_CHANNELS 2048 /* whose sums fit into a block's shared memory */
#define PER_THREAD 4

/* V neighbours of a group. */
template <int V> struct alignas (4 * V) Channels {
  float v[V];
};

/* Sum and sum of squares of each group over part blockIdx.x of a frame. */
template <int V>
__global__ void __launch_bounds__ (THREADS)
sums (double2 *part, const float *x, int pixels, int channels, int groups)
{
  extern __shared__ double2 sum[]; /* [lanes][columns] */
  int columns = channels / V, width = columns / groups;
  int lanes = max (1, THREADS / columns);
  int each = (pixels + gridDim.x - 1) / gridDim.x;
  int first = blockIdx.x * each, end = min (first + each, pixels);
  int lane = columns < THREADS ? threadIdx.x / columns : 0;

  x += (gint64) blockIdx.y * pixels * channels;
  for (int c = columns < THREADS ? threadIdx.x % columns : threadIdx.x;
       c < columns && lane < lanes; c += THREADS) {
    double2 s = make_double2 (0, 0);
#pragma unroll 4
    for (int p = first + lane; p < end; p += lanes) {
      Channels<V> e = ((const Channels<V> *) x)[(gint64) p * columns + c];
#pragma unroll
      for (int i = 0; i < V; i++) {
        double v = e.v[i];
        s.x += v;
        s.y = fma (v, v, s.y);
      }
    }
    sum[lane * columns + c] = s;
    if (columns < THREADS)
      break;
  }
  __syncthreads ();
  for (int g = threadIdx.x; g < groups; g += THREADS) {
    double2 s = make_double2 (0, 0);
    for (int l = 0; l < lanes; l++)
      for (int c = g * width; c < (g + 1) * width; c++) {
        s.x += sum[l * columns + c].x;
        s.y += sum[l * columns + c].y;
      }
    part[((gint64) blockIdx.y * gridDim.x + blockIdx.x) * groups + g] = s;
  }
}

/* Of a frame's groups: the mean as two floats, 1 / standard deviation. */
__global__ void
finish (float4 *stats, const double2 *part, int parts, int groups, double n,
    float eps)
{
  for (int g = threadIdx.x; g < groups; g += blockDim.x) {
    double2 s = make_double2 (0, 0);
#pragma unroll 8
    for (int i = 0; i < parts; i++) {
      double2 v = part[((gint64) blockIdx.x * parts + i) * groups + g];
      s.x += v.x;
      s.y += v.y;
    }
    double mean = s.x / n, variance = fmax (s.y / n - mean * mean, 0.0);
    if (isnan (s.y))
      variance = s.y;
    float high = (float) mean;
    stats[blockIdx.x * groups + g] = make_float4 (high, (float) (mean - high),
        (float) (1.0 / sqrt (variance + eps)), 0.0f);
  }
}

template <int V>
__global__ void __launch_bounds__ (THREADS)
apply (float *y, const float *x, const float4 *stats, const float *weight,
    const float *bias, gint64 size, int channels, int groups)
{
  gint64 first = (gint64) blockIdx.x * THREADS * PER_THREAD;
  unsigned columns = channels / V, width = columns / groups;
  unsigned c0 = first % columns;
  Channels<V> e[PER_THREAD];

  x += blockIdx.y * size;
  y += blockIdx.y * size;
  stats += blockIdx.y * groups;
  size /= V;
#pragma unroll
  for (int i = 0; i < PER_THREAD; i++) {
    gint64 at = first + i * THREADS + threadIdx.x;
    if (at < size)
      e[i] = ((const Channels<V> *) x)[at];
  }
#pragma unroll
  for (int i = 0; i < PER_THREAD; i++) {
    unsigned c = (c0 + i * THREADS + threadIdx.x) % columns;
    gint64 at = first + i * THREADS + threadIdx.x;
    if (at >= size)
      continue;
    float4 s = stats[c / width];
    Channels<V> w = ((const Channels<V> *) weight)[c];
    Channels<V> b = ((const Channels<V> *) bias)[c];
#pragma unroll
    for (int k = 0; k < V; k++) {
      float v = (e[i].v[k] - s.x - s.y) * s.z * w.v[k] + b.v[k];
      e[i].v[k] = v / (1.0f + expf (-v));
    }
    ((Channels<V> *) y)[at] = e[i];
  }
}

/* H, W, C */
static const gint64 *
frame_of (const H3GroupNormArgs *a)
{
  return a->x->shape + a->x->rank - 3;
}

static gint64
frames_of (const H3GroupNormArgs *a)
{
  const gint64 *f = frame_of (a);
  gint64 size = f[0] * f[1] * f[2];

  return size ? h3_tensor_size (a->x) / size : 0;
}

/* As many parts as keep a device busy, whatever the device. */
static int
parts_of (const gint64 *f)
{
  return (int) CLAMP (f[0] * f[1] * f[2] / (THREADS * 256), 1, 128);
}

gsize
h3_cuda_group_norm_scratch (const H3GroupNormArgs *a)
{
  return frames_of (a) * a->groups * (parts_of (frame_of (a)) *
      sizeof (double2) + sizeof (float4));
}

template <int V>
static cudaError_t
launch (H3CudaStreamHandle stream, const H3GroupNormArgs *a, gpointer scratch)
{
  const gint64 *f = frame_of (a);
  gint64 frames = frames_of (a), pixels = f[0] * f[1], channels = f[2];
  gint64 size = pixels * channels;
  int parts = parts_of (f);
  double2 *part = (double2 *) scratch;
  float4 *stats = (float4 *) (part + frames * a->groups * parts);
  const float *x = (const float *) a->x->data;

  sums<V><<<dim3 (parts, frames), THREADS,
      MAX (channels / V, THREADS) * sizeof (double2), stream>>> (part, x,
      pixels, channels, a->groups);
  finish<<<frames, THREADS, 0, stream>>> (stats, part, parts, a->groups,
      (double) pixels * (channels / a->groups), a->eps);
  apply<V><<<dim3 (blocks_for (size / V, THREADS * PER_THREAD), frames),
      THREADS, 0, stream>>> ((float *) a->y->data, x, stats,
      (const float *) a->weight->data, (const float *) a->bias->data, size,
      channels, a->groups);
  return cudaGetLastError ();
}

cudaError_t
h3_cuda_group_norm_silu (H3CudaStreamHandle stream, const H3GroupNormArgs *a,
    gpointer scratch)
{
  const gint64 *f = frame_of (a);
  gint64 frames = frames_of (a), pixels = f[0] * f[1], channels = f[2];

  if (frames * pixels * channels == 0)
    return cudaSuccess;
  if (channels > MAX_CHANNELS || frames > 65535 || pixels > G_MAXINT - THREADS)
    return cudaErrorInvalidValue;
  return channels / a->groups % 4 == 0 && aligned16 (a->x->data) &&
          aligned16 (a->y->data) && aligned16 (a->weight->data) &&
          aligned16 (a->bias->data)
      ? launch<4> (stream, a, scratch)
      : launch<1> (stream, a, scratch);
}
