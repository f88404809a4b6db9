/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Network pixels to pictures (video-vae.md 4.1, 11), by the CPU's formulas. */
#include "cuda/kernel.cuh"

#define KR 0.2126f
#define KG 0.7152f
#define KB 0.0722f
#define CB_SCALE (1.0f / 1.8556f)
#define CR_SCALE (1.0f / 1.5748f)

typedef struct {
  const float *pixels; /* of the frame's first channel */
  gint64 channel_stride;
  int width, height;
  float mean[3], std[3];
  bool round;
  guint8 *plane[3];
  int stride[3];
} Job;

__device__ __forceinline__ float
channel (const Job &j, int c, int x, int y)
{
  float p = j.pixels[c * j.channel_stride + (gint64) y * j.width + x];
  float v = __fadd_rn (__fmul_rn (p, j.std[c]), j.mean[c]);

  v = v > 0.0f ? v : 0.0f; /* NaN too */
  return v < 1.0f ? v : 1.0f;
}

__device__ __forceinline__ guint8
quantize (float code, bool round)
{
  code = round ? rintf (code) : truncf (code);
  return (guint8) fminf (fmaxf (code, 0.0f), 255.0f);
}

__device__ __forceinline__ float3
colour (const Job &j, int x, int y)
{
  float r = channel (j, 0, x, y), g = channel (j, 1, x, y),
        b = channel (j, 2, x, y);
  float luma = __fadd_rn (
      __fadd_rn (__fmul_rn (KR, r), __fmul_rn (KG, g)), __fmul_rn (KB, b));

  return make_float3 (luma, (b - luma) * CB_SCALE, (r - luma) * CR_SCALE);
}

__device__ __forceinline__ guint8
chroma_code (const Job &j, float c)
{
  return quantize (__fadd_rn (128.0f, __fmul_rn (224.0f, c)), j.round);
}

__device__ __forceinline__ guint8
luma_code (const Job &j, float y)
{
  return quantize (__fadd_rn (16.0f, __fmul_rn (219.0f, y)), j.round);
}

template <int STEP>
__global__ void
rgb (const __grid_constant__ Job j)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;

  if (x >= j.width || y >= j.height)
    return;
  guint8 *out = j.plane[0] + (gint64) y * j.stride[0] + x * STEP;
  for (int c = 0; c < 3; c++)
    out[c] = quantize (255.0f * channel (j, c, x, y), j.round);
  if (STEP == 4)
    out[3] = 255;
}

__global__ void
y444 (const __grid_constant__ Job j)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;

  if (x >= j.width || y >= j.height)
    return;
  float3 v = colour (j, x, y);
  j.plane[0][(gint64) y * j.stride[0] + x] = luma_code (j, v.x);
  j.plane[1][(gint64) y * j.stride[1] + x] = chroma_code (j, v.y);
  j.plane[2][(gint64) y * j.stride[2] + x] = chroma_code (j, v.z);
}

/* A thread makes one chroma sample and the four luma ones under it. */
template <bool PLANAR>
__global__ void
yuv420 (const __grid_constant__ Job j)
{
  int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int rows[2] = { 2 * row, min (2 * row + 1, j.height - 1) };
  float cb = 0.0f, cr = 0.0f;

  if (x >= j.width || rows[0] >= j.height)
    return;
  int right = min (x + 1, j.width - 1);
  for (int i = 0; i < 2; i++) {
    float3 a = colour (j, max (x - 1, 0), rows[i]);
    float3 b = colour (j, x, rows[i]), c = colour (j, right, rows[i]);
    guint8 *luma = j.plane[0] + (gint64) rows[i] * j.stride[0];

    luma[x] = luma_code (j, b.x);
    luma[right] = luma_code (j, right == x ? b.x : c.x);
    cb += a.y + 2.0f * b.y + c.y;
    cr += a.z + 2.0f * b.z + c.z;
  }
  guint8 *u = j.plane[1] + (gint64) row * j.stride[1] +
      (PLANAR ? x / 2 : x);
  guint8 *v = PLANAR ? j.plane[2] + (gint64) row * j.stride[2] + x / 2
                     : u + 1;
  *u = chroma_code (j, cb / 8.0f);
  *v = chroma_code (j, cr / 8.0f);
}

cudaError_t
h3_cuda_emit_picture (H3CudaStreamHandle stream, const H3EmitPictureArgs *a,
    guint8 *const plane[3], const gint stride[3])
{
  const gint64 *s = a->pixels->shape;
  Job j = { (const float *) a->pixels->data + a->frame * s[2] * s[3],
    s[1] * s[2] * s[3], a->picture.width, a->picture.height };
  dim3 block (32, 8);
  dim3 grid (blocks_for (j.width, 32), blocks_for (j.height, 8));
  dim3 half (blocks_for (j.width, 64), blocks_for (j.height, 16));

  for (int i = 0; i < 3; i++) {
    j.mean[i] = a->mean[i];
    j.std[i] = a->std[i];
    j.plane[i] = plane[i];
    j.stride[i] = stride[i];
  }
  j.round = a->quantize == H3_QUANTIZE_ROUND;
  switch (a->picture.format) {
    case H3_PICTURE_RGB:
      rgb<3><<<grid, block, 0, stream>>> (j);
      break;
    case H3_PICTURE_RGBA:
      rgb<4><<<grid, block, 0, stream>>> (j);
      break;
    case H3_PICTURE_Y444:
      y444<<<grid, block, 0, stream>>> (j);
      break;
    case H3_PICTURE_I420:
      yuv420<true><<<half, block, 0, stream>>> (j);
      break;
    case H3_PICTURE_NV12:
      yuv420<false><<<half, block, 0, stream>>> (j);
      break;
  }
  return cudaGetLastError ();
}

/* The other way: a tile of frames, channels last. */
typedef struct {
  const guint8 *rgb;
  int rows, cols; /* of a frame */
  int y0, x0, height, width;
  float mean[3], std[3];
} Cut;

__global__ void
network_pixels (float *y, const __grid_constant__ Cut t, gint64 n)
{
  gint64 i = (gint64) blockIdx.x * blockDim.x + threadIdx.x;

  if (i >= n)
    return;
  int c = i % 3, x = i / 3 % t.width, row = i / 3 / t.width % t.height;
  gint64 frame = i / 3 / t.width / t.height;
  guint8 v = t.rgb[((frame * t.rows + t.y0 + row) * t.cols + t.x0 + x) * 3 + c];
  y[i] = __fdiv_rn (__fdiv_rn (v, 255.0f) - t.mean[c], t.std[c]);
}

cudaError_t
h3_cuda_network_pixels (H3CudaStreamHandle stream, const H3NetworkPixelsArgs *a)
{
  const gint64 *from = a->rgb->shape, *to = a->y->shape;
  gint64 n = h3_tensor_size (a->y);
  Cut t = { (const guint8 *) a->rgb->data, (int) from[1], (int) from[2], a->y0,
    a->x0, (int) to[1], (int) to[2] };

  if (n == 0)
    return cudaSuccess;
  for (int i = 0; i < 3; i++) {
    t.mean[i] = a->mean[i];
    t.std[i] = a->std[i];
  }
  network_pixels<<<blocks_for (n, 256), 256, 0, stream>>> (
      (float *) a->y->data, t, n);
  return cudaGetLastError ();
}
