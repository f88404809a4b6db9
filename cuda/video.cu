/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Around the video decoder: tokens out of latents, frames out of tiles, the
 * join of windows (video-vae.md 4.2, 8.3, 8.4, 9.2). Pure gathers: one thread,
 * one output, whatever the order of tiles. */
#include "cuda/kernel.cuh"

#define THREADS 256

template <typename T>
__global__ void
latent_tile (T *y, const float *latent, const float *mean, const float *std_,
    H3LatentTileArgs a, int channels, int frames, int height, int width,
    gint64 n)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i >= n)
    return;
  int c = i % channels;
  gint64 token = i / channels;
  int x = token % a.w, row = token / a.w % a.h, t = token / (a.w * a.h);
  gint64 at = (((gint64) c * frames + min (a.t0 + t, frames - 1)) * height +
      a.y0 + row) * width + a.x0 + x;
  y[i] = from_float<T> (
      __fadd_rn (__fmul_rn (latent[at], std_[c]), mean[c]));
}

cudaError_t
h3_cuda_latent_tile (H3CudaStreamHandle stream, const H3LatentTileArgs *a)
{
  const gint64 *s = a->latent->shape;
  gint64 n = h3_tensor_size (a->y);

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (a->y->dtype, T,
      latent_tile<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (
          (T *) a->y->data, (const float *) a->latent->data,
          (const float *) a->mean->data, (const float *) a->std->data, *a,
          s[0], s[1], s[2], s[3], n));
  return cudaGetLastError ();
}

/* An axis small enough to be a kernel's argument: a wider frame than 128
 * tiles (24 000 pixels) is refused. */
#define MAX_TILES 128
typedef struct {
  int n, tile;
  short start[MAX_TILES], overlap[MAX_TILES];
} Axis;

static bool
axis_init (Axis *out, const H3TileAxis *axis)
{
  if (axis->n > MAX_TILES || axis->length > G_MAXSHORT)
    return false;
  out->n = axis->n;
  out->tile = axis->tile;
  for (int i = 0; i < axis->n; i++) {
    out->start[i] = axis->start[i];
    out->overlap[i] = axis->overlap[i];
  }
  return true;
}

__device__ __forceinline__ int
owner_of (const Axis &axis, int at)
{
  int k = axis.n - 1;

  while (axis.start[k] > at)
    k--;
  return k;
}

/* How much of tile k itself a pixel takes: r_k of 8.4, and the weight of 8.3. */
__device__ __forceinline__ float
rise (const Axis &axis, int k, int at)
{
  int inside = at - axis.start[k];

  return k > 0 && inside < axis.overlap[k - 1]
      ? (float) inside / axis.overlap[k - 1] : 1.0f;
}

typedef struct {
  const float *tiles;
  gint64 tokens, columns;
  int patch, patch_t;
} Tiles;

__device__ __forceinline__ float
pixel (const Tiles &t, const Axis &ay, const Axis &ax, int i, int j, int c,
    int frame, int y, int x)
{
  int p = t.patch, pt = t.patch_t;
  int iy = y - ay.start[i], ix = x - ax.start[j];
  gint64 token = ((gint64) (frame / pt) * (ay.tile / p) + iy / p) *
      (ax.tile / p) + ix / p;
  gint64 column = ((gint64) (c * pt + frame % pt) * p + iy % p) * p + ix % p;

  return t.tiles[((i * (gint64) ax.n + j) * t.tokens + token) * t.columns +
      column];
}

__device__ float
raw_pixel (const Tiles &t, const Axis &ay, const Axis &ax, int c, int frame,
    int y, int x)
{
  int i = owner_of (ay, y), j = owner_of (ax, x);
  float wy = rise (ay, i, y), wx = rise (ax, j, x);
  float v = pixel (t, ay, ax, i, j, c, frame, y, x);

  if (wy < 1.0f)
    v = (1.0f - wy) * pixel (t, ay, ax, i - 1, j, c, frame, y, x) + wy * v;
  if (wx < 1.0f)
    v = (1.0f - wx) * pixel (t, ay, ax, i, j - 1, c, frame, y, x) + wx * v;
  return v;
}

__device__ float
composited_pixel (const Tiles &t, const Axis &ay, const Axis &ax, int c,
    int frame, int y, int x)
{
  float v = 0.0f, rest_y = 1.0f;

  for (int i = owner_of (ay, y); i >= 0 && y < ay.start[i] + ay.tile; i--) {
    float wy = rise (ay, i, y) * rest_y, rest_x = 1.0f;

    for (int j = owner_of (ax, x);
         wy != 0.0f && j >= 0 && x < ax.start[j] + ax.tile; j--) {
      float wx = rise (ax, j, x) * rest_x;

      if (wx != 0.0f)
        v += wy * wx * pixel (t, ay, ax, i, j, c, frame, y, x);
      rest_x *= 1.0f - rise (ax, j, x);
    }
    rest_y *= 1.0f - rise (ay, i, y);
  }
  return v;
}

__global__ void
compose_tiles (float *out, Tiles tiles, const __grid_constant__ Axis ay,
    const __grid_constant__ Axis ax, int frames, int first_frame, int height,
    int width, bool raw)
{
  int x = blockIdx.x * THREADS + threadIdx.x, y = blockIdx.y;
  int c = blockIdx.z / frames, frame = blockIdx.z % frames;

  if (x >= width)
    return;
  out[((gint64) blockIdx.z * height + y) * width + x] = raw
      ? raw_pixel (tiles, ay, ax, c, frame + first_frame, y, x)
      : composited_pixel (tiles, ay, ax, c, frame + first_frame, y, x);
}

cudaError_t
h3_cuda_compose_tiles (H3CudaStreamHandle stream, const H3ComposeTilesArgs *a)
{
  const gint64 *s = a->y->shape;
  Axis ay, ax;
  Tiles tiles = { (const float *) a->tiles->data, a->tiles->shape[1],
    a->tiles->shape[2], a->patch, a->patch_t };

  if (a->tiles->dtype != H3_DTYPE_F32 || !axis_init (&ay, a->axis_y) ||
      !axis_init (&ax, a->axis_x) || s[0] * s[1] > 65535 || s[2] > 65535)
    return cudaErrorInvalidValue;
  if (h3_tensor_size (a->y) == 0)
    return cudaSuccess;
  compose_tiles<<<dim3 (blocks_for (s[3], THREADS), s[2], s[0] * s[1]),
      THREADS, 0, stream>>> ((float *) a->y->data, tiles, ay, ax, s[1],
      a->first_frame, s[2], s[3], a->composition == H3_COMPOSITION_RAW);
  return cudaGetLastError ();
}

__global__ void
blend_frames (float *y, const float *previous, int frames, int n,
    gint64 pixels)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;
  int k = blockIdx.y, c = blockIdx.z;
  float w = (float) k / n;

  if (i >= pixels)
    return;
  y += ((gint64) c * frames + k) * pixels + i;
  *y = __fadd_rn (
      __fmul_rn (previous[((gint64) c * n + k) * pixels + i], 1.0f - w),
      __fmul_rn (*y, w));
}

cudaError_t
h3_cuda_blend_frames (H3CudaStreamHandle stream, const H3BlendFramesArgs *a)
{
  gint64 n = a->previous->shape[1];
  gint64 pixels = a->y->shape[2] * a->y->shape[3];

  if (n == 0 || pixels == 0)
    return cudaSuccess;
  blend_frames<<<dim3 (blocks_for (pixels, THREADS), n, 3), THREADS, 0,
      stream>>> ((float *) a->y->data, (const float *) a->previous->data,
      a->y->shape[1], n, pixels);
  return cudaGetLastError ();
}
