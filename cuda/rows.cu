/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rows by number, and rows to latents (packing.md 3). A row number outside is
 * left out and reported through @bad_row, which the host reads when it
 * synchronises anyway. */
#include "cuda/kernel.cuh"

#define THREADS 128

enum Move { GATHER, SCATTER, ADD }; /* ADD: scatter, and add */

template <typename TY, typename TX, Move MOVE>
__global__ void
move_rows (TY *y, const TX *x, const gint32 *rows, int cols, gint64 limit,
    gint32 *bad_row)
{
  gint64 row = rows[blockIdx.x];

  if (row < 0 || row >= limit) {
    if (threadIdx.x == 0)
      atomicExch (bad_row, 1);
    return;
  }
  x += (MOVE == GATHER ? row : blockIdx.x) * (gint64) cols;
  y += (MOVE == GATHER ? blockIdx.x : row) * (gint64) cols;
  for (int i = threadIdx.x; i < cols; i += THREADS) {
    float v = to_float (x[i]);
    y[i] = from_float<TY> (MOVE == ADD ? to_float (y[i]) + v : v);
  }
}

cudaError_t
h3_cuda_embedding (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *weight, const H3Tensor *ids, gint32 *bad_row)
{
  gint64 n = h3_tensor_size (ids);

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (y->dtype, TY, H3_WITH_TYPE (weight->dtype, TX,
      (move_rows<TY, TX, GATHER><<<n, THREADS, 0, stream>>> ((TY *) y->data,
          (const TX *) weight->data, (const gint32 *) ids->data,
          h3_tensor_cols (weight), h3_tensor_rows (weight), bad_row))));
  return cudaGetLastError ();
}

cudaError_t
h3_cuda_scatter_rows (H3CudaStreamHandle stream, H3Tensor *y,
    const H3Tensor *x, const H3Tensor *rows, gint32 *bad_row)
{
  gint64 n = h3_tensor_size (rows);

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (y->dtype, TY, H3_WITH_TYPE (x->dtype, TX,
      (move_rows<TY, TX, SCATTER><<<n, THREADS, 0, stream>>> ((TY *) y->data,
          (const TX *) x->data, (const gint32 *) rows->data,
          h3_tensor_cols (y), h3_tensor_rows (y), bad_row))));
  return cudaGetLastError ();
}

cudaError_t
h3_cuda_add_rows (H3CudaStreamHandle stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows, gint32 *bad_row)
{
  gint64 n = h3_tensor_size (rows);

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (y->dtype, TY, H3_WITH_TYPE (x->dtype, TX,
      (move_rows<TY, TX, ADD><<<n, THREADS, 0, stream>>> ((TY *) y->data,
          (const TX *) x->data, (const gint32 *) rows->data,
          h3_tensor_cols (y), h3_tensor_rows (y), bad_row))));
  return cudaGetLastError ();
}

__global__ void
video_rows_to_latent (float *latent, const float *rows, gint64 n, int c,
    int t, int h, int w)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i >= n)
    return;
  int x = i % w, y = i / w % h, f = i / ((gint64) w * h) % t;
  int channel = i / ((gint64) w * h * t);
  gint64 row = ((gint64) f * (h / 2) + y / 2) * (w / 2) + x / 2;
  latent[i] = rows[row * 4 * c + channel * 4 + y % 2 * 2 + x % 2];
}

cudaError_t
h3_cuda_video_rows_to_latent (H3CudaStreamHandle stream, H3Tensor *latent,
    const H3Tensor *rows)
{
  gint64 n = h3_tensor_size (latent);
  const gint64 *s = latent->shape;

  if (n == 0)
    return cudaSuccess;
  video_rows_to_latent<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (
      (float *) latent->data, (const float *) rows->data, n, s[0], s[1], s[2],
      s[3]);
  return cudaGetLastError ();
}

__global__ void
audio_rows_to_latent (float *latent, const float *rows, gint64 n, int c,
    int t)
{
  gint64 i = (gint64) blockIdx.x * THREADS + threadIdx.x;

  if (i >= n)
    return;
  int at = i % t, channel = i / t % c, side = i / ((gint64) t * c);
  latent[i] = rows[((gint64) side * t + at) * c + channel];
}

cudaError_t
h3_cuda_audio_rows_to_latent (H3CudaStreamHandle stream, H3Tensor *latent,
    const H3Tensor *rows)
{
  gint64 n = h3_tensor_size (latent);

  if (n == 0)
    return cudaSuccess;
  audio_rows_to_latent<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (
      (float *) latent->data, (const float *) rows->data, n,
      latent->shape[1], latent->shape[2]);
  return cudaGetLastError ();
}
