/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What kernels share: typed access eight elements at a time, reductions over a
 * block, and dispatch from a tensor's type to a C++ type. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "cuda/kernels.h"

#define H3_WARP 32

typedef __nv_bfloat16 bf16;

template <typename T> __device__ __forceinline__ float to_float (T v);
template <> __device__ __forceinline__ float to_float (float v) { return v; }
template <> __device__ __forceinline__ float to_float (__half v)
{
  return __half2float (v);
}
template <> __device__ __forceinline__ float to_float (bf16 v)
{
  return __bfloat162float (v);
}

template <typename T> __device__ __forceinline__ T from_float (float v);
template <> __device__ __forceinline__ float from_float (float v)
{
  return v;
}
template <> __device__ __forceinline__ __half from_float (float v)
{
  return __float2half_rn (v);
}
template <> __device__ __forceinline__ bf16 from_float (float v)
{
  return __float2bfloat16_rn (v);
}

/* v as it is after being stored as a T. */
template <typename T> __device__ __forceinline__ float rounded (float v)
{
  return to_float (from_float<T> (v));
}

/* x + branch * scale, rounded once, wherever it is computed. */
__device__ __forceinline__ float
add_scaled (float x, float branch, float scale)
{
  return __fmaf_rn (branch, scale, x);
}

/* Eight neighbours: two 16-byte words of float, one of a 16-bit type. */
template <typename T> struct alignas (16) Eight {
  T v[8];
};

template <typename T>
__device__ __forceinline__ void
load8 (const T *p, float *v)
{
  Eight<T> e = *reinterpret_cast<const Eight<T> *> (p);
#pragma unroll
  for (int i = 0; i < 8; i++)
    v[i] = to_float (e.v[i]);
}

template <typename T>
__device__ __forceinline__ void
store8 (T *p, const float *v)
{
  Eight<T> e;
#pragma unroll
  for (int i = 0; i < 8; i++)
    e.v[i] = from_float<T> (v[i]);
  *reinterpret_cast<Eight<T> *> (p) = e;
}

/* Up to eight, one by one, where rows are not multiples of eight. */
template <typename T>
__device__ __forceinline__ void
load_n (const T *p, int n, float *v)
{
#pragma unroll
  for (int i = 0; i < 8; i++)
    v[i] = i < n ? to_float (p[i]) : 0.0f;
}

template <typename T>
__device__ __forceinline__ void
store_n (T *p, int n, const float *v)
{
#pragma unroll
  for (int i = 0; i < 8; i++)
    if (i < n)
      p[i] = from_float<T> (v[i]);
}

template <bool WHOLE, typename T>
__device__ __forceinline__ void
load_part (const T *p, int n, float *v)
{
  if (WHOLE)
    load8 (p, v);
  else
    load_n (p, n, v);
}

template <bool WHOLE, typename T>
__device__ __forceinline__ void
store_part (T *p, int n, const float *v)
{
  if (WHOLE)
    store8 (p, v);
  else
    store_n (p, n, v);
}

/* The same out of a tensor whose type only the launch knows: a small one that
 * many rows share, so that a branch per access costs nothing. */
template <bool WHOLE>
__device__ __forceinline__ void
load_any (const void *base, H3DType type, gint64 first, int n, float *v)
{
  if (type == H3_DTYPE_F32)
    load_part<WHOLE> ((const float *) base + first, n, v);
  else if (type == H3_DTYPE_F16)
    load_part<WHOLE> ((const __half *) base + first, n, v);
  else
    load_part<WHOLE> ((const bf16 *) base + first, n, v);
}

__device__ __forceinline__ float
any_value (const void *base, H3DType type, gint64 i)
{
  return type == H3_DTYPE_F32 ? ((const float *) base)[i]
      : type == H3_DTYPE_F16  ? to_float (((const __half *) base)[i])
                              : to_float (((const bf16 *) base)[i]);
}

__device__ __forceinline__ float
warp_sum (float v)
{
#pragma unroll
  for (int i = H3_WARP / 2; i; i /= 2)
    v += __shfl_xor_sync (~0u, v, i);
  return v;
}

/* The sum over a block of at most 1024 threads, in every thread; the order does
 * not depend on anything but the block's size. */
__device__ __forceinline__ float
block_sum (float v)
{
  __shared__ float part[H3_WARP];
  int lane = threadIdx.x % H3_WARP, warp = threadIdx.x / H3_WARP;
  int n = (blockDim.x + H3_WARP - 1) / H3_WARP;

  v = warp_sum (v);
  __syncthreads ();
  if (lane == 0)
    part[warp] = v;
  __syncthreads ();
  return warp_sum (lane < n ? part[lane] : 0.0f);
}

static inline bool
aligned16 (const void *p)
{
  return ((size_t) p & 15) == 0;
}

/* Whether rows of @cols elements can be read eight at a time, from tensors all
 * of which begin at a multiple of 16 bytes. */
static inline bool
whole (gint64 cols, const void *a, const void *b = NULL,
    const void *c = NULL, const void *d = NULL)
{
  return cols % 8 == 0 && aligned16 (a) && aligned16 (b) && aligned16 (c) &&
      aligned16 (d);
}

#define H3_CASE_TYPE(value, type, T, ...) \
  case value: { \
    typedef type T; \
    __VA_ARGS__; \
    break; \
  }

/* Runs the statements with T the C++ type of @dtype. */
#define H3_WITH_TYPE(dtype, T, ...) \
  switch (dtype) { \
    H3_CASE_TYPE (H3_DTYPE_F32, float, T, __VA_ARGS__) \
    H3_CASE_TYPE (H3_DTYPE_F16, __half, T, __VA_ARGS__) \
    H3_CASE_TYPE (H3_DTYPE_BF16, bf16, T, __VA_ARGS__) \
    default: \
      return cudaErrorInvalidValue; \
  }

static inline unsigned
blocks_for (gint64 n, int per_block)
{
  return (unsigned) ((n + per_block - 1) / per_block);
}
