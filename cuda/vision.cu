/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What only the vision tower needs (text-encoder.md 4.3, 5). */
#include "cuda/kernel.cuh"

#define THREADS 128

/* A block per row. A row number outside is left out and reported. */
template <typename TY, typename TW>
__global__ void
mix_rows (TY *y, const TW *weight, const gint32 *ids, const float *mix, int k,
    int cols, gint64 limit, gint32 *bad_row)
{
  y += (gint64) blockIdx.x * cols;
  ids += (gint64) blockIdx.x * k;
  mix += (gint64) blockIdx.x * k;
  for (int i = threadIdx.x; i < cols; i += THREADS) {
    float sum = 0.0f;

    for (int j = 0; j < k; j++) {
      gint64 row = ids[j];
      if (row < 0 || row >= limit)
        atomicExch (bad_row, 1);
      else
        sum += mix[j] * to_float (weight[row * cols + i]);
    }
    y[i] = from_float<TY> (to_float (y[i]) + sum);
  }
}

cudaError_t
h3_cuda_mix_rows (H3CudaStreamHandle stream, const H3MixRowsArgs *a,
    gint32 *bad_row)
{
  gint64 n = h3_tensor_rows (a->y);
  const H3Tensor *weight = a->weight->tensor;

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (a->y->dtype, TY, H3_WITH_TYPE (weight->dtype, TW,
      (mix_rows<TY, TW><<<n, THREADS, 0, stream>>> ((TY *) a->y->data,
          (const TW *) weight->data, (const gint32 *) a->ids->data,
          (const float *) a->mix->data, h3_tensor_cols (a->ids),
          h3_tensor_cols (a->y), h3_tensor_rows (weight), bad_row))));
  return cudaGetLastError ();
}

/* A block per patch: its vector is [3][2][p][p]. */
template <typename T>
__global__ void
picture_patches (T *y, const guint8 *pixels, int frames, int height, int width,
    int p)
{
  int down = height / (2 * p), across = width / (2 * p);
  int quarter = blockIdx.x % 4, group = blockIdx.x / 4;
  int row = (group / across % down * 2 + quarter / 2) * p;
  int column = (group % across * 2 + quarter % 2) * p;
  int block = group / (across * down), n = 6 * p * p;

  y += (gint64) blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    int c = i / (2 * p * p), s = i / (p * p) % 2;
    int frame = min (2 * block + s, frames - 1);
    gint64 from = ((gint64) frame * height + row + i / p % p) * width + column +
        i % p;

    y[i] = from_float<T> (
        __fdiv_rn (__fsub_rn ((float) pixels[from * 3 + c], 127.5f), 127.5f));
  }
}

cudaError_t
h3_cuda_picture_patches (H3CudaStreamHandle stream,
    const H3PicturePatchesArgs *a)
{
  const gint64 *shape = a->pixels->shape;
  gint64 n = h3_tensor_rows (a->y);

  if (n == 0)
    return cudaSuccess;
  H3_WITH_TYPE (a->y->dtype, T,
      picture_patches<T><<<n, THREADS, 0, stream>>> ((T *) a->y->data,
          (const guint8 *) a->pixels->data, shape[0], shape[1], shape[2],
          a->patch));
  return cudaGetLastError ();
}
