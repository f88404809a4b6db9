/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks and times the attention kernels: every shape against float64 on
 * sampled rows, with poisoned outputs and inputs that end in NaN, NaN
 * propagation and byte-identical repeats; then medians beside cuDNN's
 * operation. Stands alone: links the kernels and the CUDA runtime, opens cuDNN
 * if there.
 *
 *   nvcc -gencode arch=compute_90a,code=sm_90a -O3 -std=c++17 -I. \
 *     $(pkg-config --cflags glib-2.0) tests/bench/attention-bench.cu \
 *     cuda/attention-sm90.cu cuda/attention-mma.cu -ldl -o attention-bench
 *   attention-bench [check | time | all] [longest] [shortest]
 *
 * The numbers limit the lengths of sequences. Exit code 1: a check failed. */
#include <cudnn_graph.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "cuda/kernel.cuh"

#define CHECK(x)                                                               \
  do {                                                                         \
    cudaError_t e_ = (x);                                                      \
    if (e_ != cudaSuccess) {                                                   \
      printf ("%s:%d %s: %s\n", __FILE__, __LINE__, #x,                        \
          cudaGetErrorString (e_));                                            \
      exit (2);                                                                \
    }                                                                          \
  } while (0)

/* Rows of NaN after the end of the inputs, poison after the output's. */
#define MARGIN 300
#define N_RUNS 9

extern "C" gint64
h3_tensor_rows (const H3Tensor *t)
{
  return t->shape[0];
}

typedef cudaError_t (*Attention) (H3CudaStreamHandle, const H3AttentionArgs *);

struct Problem {
  int length, n_sequences, heads, kv_heads, head_dim;
  bool causal, half;
};

static const Problem problems[] = {
  { 1, 1, 4, 4, 128, false, false },
  { 63, 1, 4, 4, 128, false, false },
  { 64, 2, 4, 4, 128, false, false },
  { 65, 1, 4, 4, 64, false, true },
  { 129, 3, 4, 2, 128, false, false },
  { 175, 2, 4, 4, 128, false, true },
  { 177, 2, 4, 4, 128, false, false },
  { 200, 2, 4, 4, 128, false, false },
  { 394, 3, 4, 4, 128, false, true },
  { 300, 1, 64, 8, 128, true, false },
  { 129, 2, 4, 2, 64, true, true },
  { 511, 1, 56, 56, 128, false, false },
  { 1797, 15, 32, 32, 64, false, true },
  { 5000, 1, 8, 8, 128, false, true },
  { 5000, 1, 8, 8, 64, false, false },
  { 17780, 1, 56, 56, 128, false, false },
  { 38010, 1, 56, 56, 128, false, false },
};

/* On the host: kernel.cuh's conversions are the device's. */
static double
value_of (bf16 v)
{
  return (double) __bfloat162float (v);
}

static double
value_of (__half v)
{
  return (double) __half2float (v);
}

__device__ __forceinline__ float
noise (uint64_t i, uint64_t seed)
{
  uint64_t x = i * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
  float sum = 0.0f;
  for (int n = 0; n < 4; n++) {
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    sum += (float) (uint32_t) (x >> 32) * 0x1p-32f - 0.5f;
  }
  return sum * 1.7320508f; /* variance 1 */
}

template <typename T>
__global__ void
fill (T *p, int64_t n, uint64_t seed, float gain)
{
  for (int64_t i = blockIdx.x * (int64_t) blockDim.x + threadIdx.x; i < n;
       i += (int64_t) gridDim.x * blockDim.x)
    p[i] = from_float<T> (noise (i, seed) * gain);
}

template <typename T>
__global__ void
count_nan (const T *p, int64_t n, unsigned long long *count)
{
  for (int64_t i = blockIdx.x * (int64_t) blockDim.x + threadIdx.x; i < n;
       i += (int64_t) gridDim.x * blockDim.x)
    if (isnan (to_float (p[i])))
      atomicAdd (count, 1ull);
}

__global__ void
count_different (const uint16_t *a, const uint16_t *b, int64_t n,
    unsigned long long *count)
{
  for (int64_t i = blockIdx.x * (int64_t) blockDim.x + threadIdx.x; i < n;
       i += (int64_t) gridDim.x * blockDim.x)
    if (a[i] != b[i])
      atomicAdd (count, 1ull);
}

/* One query of one head a block, in double; @score: a row of length doubles a
 * block, @want: head_dim doubles a block */
template <typename T>
__global__ void
reference (double *want, double *score, const T *qkv, const int *sample,
    Problem p, double scale)
{
  __shared__ double part[256];
  int row = sample[2 * blockIdx.x], head = sample[2 * blockIdx.x + 1];
  int kv = head / (p.heads / p.kv_heads), first = row / p.length * p.length;
  int n = p.causal ? row - first + 1 : p.length;
  int64_t stride = (int64_t) (p.heads + 2 * p.kv_heads) * p.head_dim;
  const T *q = qkv + row * stride + head * p.head_dim;
  const T *k = qkv + first * stride + (p.heads + kv) * p.head_dim;
  const T *v = k + p.kv_heads * p.head_dim;
  double top = -INFINITY, sum = 0;

  score += (int64_t) blockIdx.x * p.length;
  for (int j = threadIdx.x; j < n; j += 256) {
    double s = 0;
    for (int d = 0; d < p.head_dim; d++)
      s += (double) to_float (q[d]) * to_float (k[j * stride + d]);
    score[j] = s * scale;
    top = max (top, score[j]);
  }
  part[threadIdx.x] = top;
  __syncthreads ();
  for (int i = 0; i < 256; i++)
    top = max (top, part[i]);
  __syncthreads ();
  for (int j = threadIdx.x; j < n; j += 256)
    sum += score[j] = exp (score[j] - top);
  part[threadIdx.x] = sum;
  __syncthreads ();
  sum = 0;
  for (int i = 0; i < 256; i++)
    sum += part[i];
  __syncthreads ();

  int d = threadIdx.x % p.head_dim, cut = threadIdx.x / p.head_dim;
  double acc = 0;
  for (int j = cut; j < n; j += 256 / p.head_dim)
    acc += score[j] * to_float (v[j * stride + d]);
  part[threadIdx.x] = acc;
  __syncthreads ();
  if (cut == 0) {
    for (int i = 1; i < 256 / p.head_dim; i++)
      acc += part[i * p.head_dim + d];
    want[(int64_t) blockIdx.x * p.head_dim + d] = acc / sum;
  }
}

/* --- cuDNN --- */

#define CUDNN_FUNCTIONS(F)                                                     \
  F (cudnnCreate)                                                              \
  F (cudnnSetStream)                                                           \
  F (cudnnBackendCreateDescriptor)                                             \
  F (cudnnBackendSetAttribute)                                                 \
  F (cudnnBackendGetAttribute)                                                 \
  F (cudnnBackendFinalize)                                                     \
  F (cudnnBackendExecute)
#define DECLARE(name) static decltype (&name) p_##name;
CUDNN_FUNCTIONS (DECLARE)

static cudnnHandle_t
cudnn_open (cudaStream_t stream)
{
  void *lib = dlopen ("libcudnn.so.9", RTLD_NOW);
  cudnnHandle_t handle;

  if (!lib)
    return NULL;
#define FIND(name)                                                             \
  if (!(p_##name = (decltype (p_##name)) dlsym (lib, #name)))                  \
    return NULL;
  CUDNN_FUNCTIONS (FIND)
  if (p_cudnnCreate (&handle) || p_cudnnSetStream (handle, stream))
    return NULL;
  return handle;
}

static bool cudnn_failed;

static cudnnBackendDescriptor_t
cudnn_new (cudnnBackendDescriptorType_t type)
{
  cudnnBackendDescriptor_t d = NULL;
  cudnn_failed |= p_cudnnBackendCreateDescriptor (type, &d) != 0;
  return d;
}

static void
cudnn_set (cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
  cudnn_failed |= p_cudnnBackendSetAttribute (d, name, type, n, value) != 0;
}

static cudnnBackendDescriptor_t
cudnn_tensor (int64_t uid, cudnnDataType_t type, const int64_t *dim,
    const int64_t *stride, bool by_value)
{
  cudnnBackendDescriptor_t t = cudnn_new (CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  int64_t align = 16;

  cudnn_set (t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  cudnn_set (t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
  cudnn_set (t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
  cudnn_set (t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  cudnn_set (t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
  if (by_value)
    cudnn_set (t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1,
        &by_value);
  cudnn_failed |= p_cudnnBackendFinalize (t) != 0;
  return t;
}

struct Cudnn {
  cudnnBackendDescriptor_t plan, pack;
};

/* Its first plan for the problem; plan NULL: none. What it allocates stays. */
static Cudnn
cudnn_plan (cudnnHandle_t handle, const Problem &p, void *qkv, void *y,
    float *scale)
{
  Cudnn c = {};
  cudnnDataType_t type = p.half ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  int64_t D = p.head_dim, row = (int64_t) (p.heads + 2 * p.kv_heads) * D;
  int64_t q_dim[4] = { p.n_sequences, p.heads, p.length, D };
  int64_t kv_dim[4] = { p.n_sequences, p.kv_heads, p.length, D };
  int64_t in[4] = { p.length * row, D, row, 1 }, one[4] = { 1, 1, 1, 1 };
  int64_t out[4] = { (int64_t) p.length * p.heads * D, D, p.heads * D, 1 };

  if (!handle || p.causal)
    return c;
  cudnn_failed = false;
  cudnnBackendDescriptor_t t[5] = { cudnn_tensor (1, type, q_dim, in, false),
    cudnn_tensor (2, type, kv_dim, in, false),
    cudnn_tensor (3, type, kv_dim, in, false),
    cudnn_tensor (4, type, q_dim, out, false),
    cudnn_tensor (5, CUDNN_DATA_FLOAT, one, one, true) };
  cudnnBackendDescriptor_t op =
      cudnn_new (CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  cudnnBackendAttributeName_t role[5] = { CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC };
  for (int i = 0; i < 5; i++)
    cudnn_set (op, role[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t[i]);
  cudnn_failed |= p_cudnnBackendFinalize (op) != 0;

  cudnnBackendDescriptor_t graph =
      cudnn_new (CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  cudnn_set (graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &op);
  cudnn_set (graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
      &handle);
  cudnn_failed |= p_cudnnBackendFinalize (graph) != 0;

  cudnnBackendDescriptor_t heur =
      cudnn_new (CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  cudnn_set (heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
  cudnn_set (heur, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  cudnn_failed |= p_cudnnBackendFinalize (heur) != 0;
  cudnnBackendDescriptor_t config =
      cudnn_new (CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  int64_t n = 0, bytes = 0, uids[5] = { 1, 2, 3, 4, 5 };
  cudnn_failed |=
      p_cudnnBackendGetAttribute (heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &config) != 0;
  if (cudnn_failed || n < 1)
    return c;

  cudnnBackendDescriptor_t plan =
      cudnn_new (CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  cudnn_set (plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
      &handle);
  cudnn_set (plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
  if (cudnn_failed || p_cudnnBackendFinalize (plan))
    return c;
  p_cudnnBackendGetAttribute (plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
      CUDNN_TYPE_INT64, 1, &n, &bytes);
  void *workspace = NULL;
  if (bytes)
    CHECK (cudaMalloc (&workspace, bytes));
  char *in_bytes = (char *) qkv;
  void *data[5] = { qkv, in_bytes + p.heads * D * 2,
    in_bytes + (p.heads + p.kv_heads) * D * 2, y, scale };
  c.pack = cudnn_new (CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  cudnn_set (c.pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 5,
      uids);
  cudnn_set (c.pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
      5, data);
  cudnn_set (c.pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
      &workspace);
  if (!p_cudnnBackendFinalize (c.pack) && !cudnn_failed)
    c.plan = plan;
  return c;
}

/* --- checks --- */

static bool failed;
static cudaStream_t stream;

static unsigned long long
read_count (unsigned long long *count)
{
  unsigned long long n;
  CHECK (cudaMemcpyAsync (&n, count, 8, cudaMemcpyDefault, stream));
  CHECK (cudaStreamSynchronize (stream));
  CHECK (cudaMemsetAsync (count, 0, 8, stream));
  return n;
}

static void
require (bool ok, const Problem &p, const char *what, double found)
{
  if (ok)
    return;
  failed = true;
  printf ("FAILED %dx%d heads %d/%d of %d%s%s: %s %g\n", p.length,
      p.n_sequences, p.heads, p.kv_heads, p.head_dim, p.causal ? " causal" : "",
      p.half ? " f16" : " bf16", what, found);
}

template <typename T>
static void
check (const Problem &p, Attention attention, H3AttentionArgs *a,
    unsigned long long *count)
{
  int64_t rows = a->y->shape[0], cols = (int64_t) p.heads * p.head_dim;
  int64_t stride = a->qkv->shape[1], n_y = rows * cols;
  T *y = (T *) a->y->data, *qkv = (T *) a->qkv->data, *again;
  size_t y_bytes = (n_y + MARGIN * cols) * sizeof (T);
  std::vector<int> sample;
  uint64_t r = 12345;

  for (int i = 0; i < 192; i++) {
    r = r * 6364136223846793005ull + 1442695040888963407ull;
    int row = i == 0 ? 0 : i < 4 ? (int) rows - 1 : (int) ((r >> 33) % rows);
    r = r * 6364136223846793005ull + 1442695040888963407ull;
    sample.push_back (row);
    sample.push_back ((int) ((r >> 33) % p.heads));
  }
  int n = (int) sample.size () / 2, *d_sample;
  double *score, *want;
  CHECK (cudaMalloc (&d_sample, sample.size () * sizeof (int)));
  CHECK (cudaMalloc (&score, (size_t) n * p.length * 8));
  CHECK (cudaMalloc (&want, (size_t) n * p.head_dim * 8));
  CHECK (cudaMalloc (&again, y_bytes));
  CHECK (cudaMemcpy (d_sample, sample.data (), sample.size () * sizeof (int),
      cudaMemcpyDefault));
  reference<T><<<n, 256, 0, stream>>> (want, score, qkv, d_sample, p,
      (double) a->scale);

  CHECK (cudaMemsetAsync (y, 0xff, y_bytes, stream));
  CHECK (attention (stream, a));
  count_nan<T><<<1024, 256, 0, stream>>> (y, n_y, count);
  double bad = read_count (count);
  require (bad == 0, p, "elements not written", bad);
  count_nan<T><<<1024, 256, 0, stream>>> (y + n_y, MARGIN * cols, count);
  bad = MARGIN * cols - (double) read_count (count);
  require (bad == 0, p, "elements written past the end", bad);

  std::vector<double> ref ((size_t) n * p.head_dim);
  CHECK (cudaMemcpy (ref.data (), want, ref.size () * 8, cudaMemcpyDefault));
  double err = 0, norm = 0;
  for (int i = 0; i < n; i++) {
    T got[256];
    CHECK (cudaMemcpy (got,
        y + sample[2 * i] * cols + (int64_t) sample[2 * i + 1] * p.head_dim,
        p.head_dim * sizeof (T), cudaMemcpyDefault));
    for (int d = 0; d < p.head_dim; d++) {
      double x = ref[i * p.head_dim + d], e = value_of (got[d]) - x;
      err += e * e;
      norm += x * x;
    }
  }
  err = sqrt (err / norm);
  require (err < (p.half ? 6e-4 : 4e-3), p, "relative L2 error", err);

  a->y->data = again;
  for (int i = 0; i < 3; i++) {
    CHECK (attention (stream, a));
    count_different<<<1024, 256, 0, stream>>> ((uint16_t *) y,
        (uint16_t *) again, n_y, count);
    bad = read_count (count);
    require (bad == 0, p, "elements differ between runs", bad);
  }

  /* a NaN in q, k or v reaches exactly the rows and columns that read it */
  int row = (int) (rows - 1), head = p.heads / 2;
  int kv = head / (p.heads / p.kv_heads), share = p.heads / p.kv_heads;
  int64_t col[3] = { (int64_t) head * p.head_dim + 5,
    (int64_t) (p.heads + kv) * p.head_dim + 5,
    (int64_t) (p.heads + p.kv_heads + kv) * p.head_dim + 5 };
  double seen = (double) (p.causal ? 1 : p.length) * share;
  double expect[3] = { (double) p.head_dim, seen * p.head_dim, seen };
  for (int i = 0; i < 3; i++) {
    T old, nan, *at = qkv + row * stride + col[i];
    /* causal: 0 x NaN of later values in the same tile is NaN too */
    if (p.causal && i == 2)
      continue;
    memset (&nan, 0xff, sizeof nan);
    CHECK (cudaMemcpy (&old, at, sizeof (T), cudaMemcpyDefault));
    CHECK (cudaMemcpy (at, &nan, sizeof (T), cudaMemcpyDefault));
    CHECK (attention (stream, a));
    count_nan<T><<<1024, 256, 0, stream>>> (again, n_y, count);
    bad = read_count (count);
    require (bad == expect[i], p, "NaN outputs of one NaN input", bad);
    CHECK (cudaMemcpy (at, &old, sizeof (T), cudaMemcpyDefault));
  }
  a->y->data = y;
  printf ("check %6dx%-2d heads %2d/%-2d of %-3d %-6s %-4s rel L2 %.2e\n",
      p.length, p.n_sequences, p.heads, p.kv_heads, p.head_dim,
      p.causal ? "causal" : "", p.half ? "f16" : "bf16", err);
  CHECK (cudaFree (d_sample));
  CHECK (cudaFree (score));
  CHECK (cudaFree (want));
  CHECK (cudaFree (again));
}

template <typename F>
static double
median_ms (F run)
{
  std::vector<float> ms;
  cudaEvent_t a, b;
  CHECK (cudaEventCreate (&a));
  CHECK (cudaEventCreate (&b));
  for (int i = 0; i < N_RUNS + 2; i++) {
    float t;
    CHECK (cudaEventRecord (a, stream));
    run ();
    CHECK (cudaEventRecord (b, stream));
    CHECK (cudaEventSynchronize (b));
    CHECK (cudaEventElapsedTime (&t, a, b));
    if (i >= 2)
      ms.push_back (t);
  }
  CHECK (cudaEventDestroy (a));
  CHECK (cudaEventDestroy (b));
  std::sort (ms.begin (), ms.end ());
  return ms[ms.size () / 2];
}

static void
report (const Problem &p, const char *name, double ms)
{
  double flop = 4.0 * p.length * p.length * p.n_sequences * p.heads *
                p.head_dim / (p.causal ? 2 : 1);
  printf ("  %-8s %9.4f ms %6.1f TFLOP/s\n", name, ms, flop / ms * 1e-9);
}

template <typename T>
static void
run (const Problem &p, bool checks, bool times, cudnnHandle_t cudnn)
{
  int64_t rows = (int64_t) p.length * p.n_sequences;
  int64_t stride = (int64_t) (p.heads + 2 * p.kv_heads) * p.head_dim;
  int64_t cols = (int64_t) p.heads * p.head_dim;
  H3Tensor y = {}, qkv = {};
  unsigned long long *count;
  float scale = 1.0f / sqrtf ((float) p.head_dim);

  y.dtype = qkv.dtype = p.half ? H3_DTYPE_F16 : H3_DTYPE_BF16;
  y.rank = qkv.rank = 2;
  y.shape[0] = qkv.shape[0] = rows;
  y.shape[1] = cols;
  qkv.shape[1] = stride;
  CHECK (cudaMalloc (&y.data, (rows + MARGIN) * cols * sizeof (T)));
  CHECK (cudaMalloc (&qkv.data, (rows + MARGIN) * stride * sizeof (T)));
  CHECK (cudaMalloc (&count, 8));
  CHECK (cudaMemset (count, 0, 8));
  CHECK (cudaMemset (qkv.data, 0xff, (rows + MARGIN) * stride * sizeof (T)));
  fill<T><<<4096, 256, 0, stream>>> ((T *) qkv.data, rows * stride,
      1 + p.length, 1.3f);
  CHECK (cudaGetLastError ());
  CHECK (cudaStreamSynchronize (stream));

  H3AttentionArgs a = {};
  a.y = &y;
  a.qkv = &qkv;
  a.heads = p.heads;
  a.kv_heads = p.kv_heads;
  a.head_dim = p.head_dim;
  a.n_sequences = p.n_sequences;
  a.causal = p.causal;
  a.scale = scale;
  if (checks)
    check<T> (p, h3_cuda_attention_sm90, &a, count);
  if (times && p.length >= 300) {
    printf ("time  %6dx%-2d heads %2d/%-2d of %-3d %-6s %s\n", p.length,
        p.n_sequences, p.heads, p.kv_heads, p.head_dim,
        p.causal ? "causal" : "", p.half ? "f16" : "bf16");
    report (p, "sm90",
        median_ms ([&] { CHECK (h3_cuda_attention_sm90 (stream, &a)); }));
    if ((double) p.length * p.length * p.heads < 1e10)
      report (p, "mma",
          median_ms ([&] { CHECK (h3_cuda_attention_mma (stream, &a)); }));
    Cudnn c = cudnn_plan (cudnn, p, qkv.data, y.data, &scale);
    if (c.plan)
      report (p, "cudnn", median_ms ([&] {
        if (p_cudnnBackendExecute (cudnn, c.plan, c.pack))
          exit (2);
      }));
  }
  CHECK (cudaFree (y.data));
  CHECK (cudaFree (qkv.data));
  CHECK (cudaFree (count));
}

int
main (int argc, char **argv)
{
  bool checks = argc < 2 || strcmp (argv[1], "time") != 0;
  bool times = argc < 2 || strcmp (argv[1], "check") != 0;
  int longest = argc > 2 ? atoi (argv[2]) : G_MAXINT;
  int shortest = argc > 3 ? atoi (argv[3]) : 0;
  cudaDeviceProp device;

  CHECK (cudaGetDeviceProperties (&device, 0));
  CHECK (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking));
  cudnnHandle_t cudnn = cudnn_open (stream);
  printf ("%s, %d multiprocessors, cuDNN %s\n", device.name,
      device.multiProcessorCount, cudnn ? "there" : "absent");
  for (const Problem &p : problems) {
    if (p.length > longest || p.length < shortest)
      continue;
    if (p.half)
      run<__half> (p, checks, times, cudnn);
    else
      run<bf16> (p, checks, times, cudnn);
    fflush (stdout);
  }
  printf (failed ? "FAILED\n" : "ok\n");
  return failed;
}
