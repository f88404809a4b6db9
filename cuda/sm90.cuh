/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The instructions of sm_90a that C++ has no words for: barriers in shared
 * memory, the copy engine, and matrix products of a warpgroup; and what the
 * kernels made of them share. */
#pragma once

#include <cuda.h>
#include <cuda_fp8.h>
#include <stdint.h>

#include "cuda/kernel.cuh"

typedef __nv_fp8_e4m3 e4m3;

#define WARPGROUP 128
/* Rows of shared memory are 128 bytes, the width of the swizzle. */
#define BOX_COLS 64
#define BOX_BYTES 128

__device__ __forceinline__ uint32_t
shared_address (const void *p)
{
  return (uint32_t) __cvta_generic_to_shared (p);
}

__device__ __forceinline__ void
barrier_init (uint32_t barrier, int arrivals)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}

/* The producer's arrival, and how many bytes complete the phase. */
__device__ __forceinline__ void
barrier_expect (uint32_t barrier, uint32_t bytes)
{
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   barrier),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void
barrier_arrive (uint32_t barrier)
{
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

/* On the barrier at the same place in block @rank of the cluster. It says that
 * the copy engine may overwrite what only matrix products have read: no memory
 * of threads is ordered by it, and none needs flushing. */
__device__ __forceinline__ void
barrier_arrive_at (uint32_t barrier, uint32_t rank)
{
  asm volatile("{\n"
               ".reg .b32 there;\n"
               "mapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
               "}" ::"r"(barrier),
               "r"(rank)
               : "memory");
}

__device__ __forceinline__ void
barrier_wait (uint32_t barrier, uint32_t phase)
{
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(barrier),
               "r"(phase)
               : "memory");
}

__device__ __forceinline__ void
cluster_sync (void)
{
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

/* Named barriers of the block, 0 is __syncthreads'. */
__device__ __forceinline__ void
named_sync (int id, int threads)
{
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void
named_arrive (int id, int threads)
{
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ uint64_t
policy_evict_last (void)
{
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;"
               : "=l"(policy));
  return policy;
}

/* One box of a tensor map into shared memory, of this block or of both blocks
 * of a cluster at the same place; the same place's barrier counts the bytes. */
template <int CLUSTER>
__device__ __forceinline__ void
load_box (uint32_t dst, const void *map, int col, int row, int sequence,
    uint32_t barrier, uint64_t policy)
{
  if (CLUSTER == 1)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier"
                 "::complete_tx::bytes.L2::cache_hint [%0], "
                 "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(dst),
                 "l"(map), "r"(col), "r"(row), "r"(sequence), "r"(barrier),
                 "l"(policy)
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier"
                 "::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], "
                 "[%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(dst),
                 "l"(map), "r"(col), "r"(row), "r"(sequence), "r"(barrier),
                 "h"((uint16_t) ((1 << CLUSTER) - 1)), "l"(policy)
                 : "memory");
}

/* One box of shared memory to a tensor map's place, with the other stores up to
 * the next commit. */
__device__ __forceinline__ void
store_box (const void *map, int col, int row, uint32_t src)
{
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group "
               "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
               "r"(col), "r"(row), "r"(0), "r"(src)
               : "memory");
}

__device__ __forceinline__ void
store_commit (void)
{
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until what this thread's stores read may be overwritten. */
__device__ __forceinline__ void
store_wait (void)
{
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Between writing shared memory and the copy engine's reading it. */
__device__ __forceinline__ void
fence_copies (void)
{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Rows of 128 bytes in the 128-byte swizzle, groups of 8 rows one after the
 * other; @leading: from one 128-byte column of an operand to the next, where it
 * is wider. In a cluster an address has the block's rank above its 18 bits. */
__device__ __forceinline__ uint64_t
matrix_descriptor (uint32_t address, uint32_t leading)
{
  return (uint64_t) ((address & 0x3ffff) >> 4) |
         (uint64_t) (leading >> 4) << 16 | (uint64_t) (1024 >> 4) << 32 |
         (uint64_t) 1 << 62;
}

__device__ __forceinline__ void
wgmma_fence (void)
{
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void
wgmma_commit (void)
{
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most @PENDING groups are under way. */
template <int PENDING>
__device__ __forceinline__ void
wgmma_wait (void)
{
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Keeps the compiler from moving accesses to @r over this place: it does not
 * know that products write registers later. */
template <int N>
__device__ __forceinline__ void
pin (float (&r)[N])
{
#pragma unroll
  for (int i = 0; i < N; i++)
    asm volatile("" : "+f"(r[i])::"memory");
}

template <int N>
__device__ __forceinline__ void
pin (int (&r)[N])
{
#pragma unroll
  for (int i = 0; i < N; i++)
    asm volatile("" : "+r"(r[i])::"memory");
}

__device__ __forceinline__ float
exp2_approx (float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <typename T>
__device__ __forceinline__ uint32_t pack2 (float a, float b);
template <>
__device__ __forceinline__ uint32_t
pack2<bf16> (float a, float b)
{
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
}
template <>
__device__ __forceinline__ uint32_t
pack2<__half> (float a, float b)
{
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
}

/* d += a b: d 64xN float, a 64x16, b 16xN.
 * shared: a and b K-major in shared memory; @keep false: d = a b
 * values: a in registers, b N-major in shared memory */
template <typename T, int N> struct Wgmma;

#define D8(i)                                                                  \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]),  \
      "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define D32(i) D8 (i), D8 (i + 8), D8 (i + 16), D8 (i + 24)
#define L32                                                                    \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                     \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define L64                                                                    \
  L32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"      \
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define L96                                                                    \
  L64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"      \
      "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"

#define L128                                                                   \
  L96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,"    \
      "%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,"      \
      "%123,%124,%125,%126,%127"

/* The operands after d's, numbered by hand: asm has no counting. */
#define H3_WGMMA(T, TYPE, N, LIST, A0, A1, A2, A3, A4, A5, ...)                \
  template <> struct Wgmma<T, N> {                                             \
    static __device__ __forceinline__ void shared (float (&d)[N / 2],          \
        uint64_t a, uint64_t b, int keep)                                      \
    {                                                                          \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " A2 ", 0;\n"             \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE      \
                   "." TYPE " {" LIST "}, " A0 ", " A1 ", p, 1, 1, 0, 0;\n}"   \
                   : __VA_ARGS__                                               \
                   : "l"(a), "l"(b), "r"(keep));                               \
    }                                                                          \
    static __device__ __forceinline__ void values (float (&d)[N / 2],          \
        const uint32_t *a, uint64_t b)                                         \
    {                                                                          \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " A5 ", 0;\n"             \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE      \
                   "." TYPE " {" LIST "}, {" A0 ", " A1 ", " A2 ", " A3        \
                   "}, " A4 ", p, 1, 1, 1;\n}"                                 \
                   : __VA_ARGS__                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),       \
                   "n"(1));                                                    \
    }                                                                          \
  };
#define H3_WGMMA_SIZES(T, TYPE)                                                \
  H3_WGMMA (T, TYPE, 64, L32, "%32", "%33", "%34", "%35", "%36", "%37",        \
      D32 (0))                                                                 \
  H3_WGMMA (T, TYPE, 128, L64, "%64", "%65", "%66", "%67", "%68", "%69",       \
      D32 (0), D32 (32))                                                       \
  H3_WGMMA (T, TYPE, 192, L96, "%96", "%97", "%98", "%99", "%100", "%101",     \
      D32 (0), D32 (32), D32 (64))                                             \
  H3_WGMMA (T, TYPE, 256, L128, "%128", "%129", "%130", "%131", "%132",        \
      "%133", D32 (0), D32 (32), D32 (64), D32 (96))
H3_WGMMA_SIZES (bf16, "bf16")
H3_WGMMA_SIZES (__half, "f16")

/* The same of bytes, a 64x32, b 32x256, both in shared memory: E4M3, whose sums
 * keep 14 bits or so, and signed integers, whose sums are exact. */
#define I8(i)                                                                  \
  "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]),  \
      "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
#define I32(i) I8 (i), I8 (i + 8), I8 (i + 16), I8 (i + 24)
#define H3_WGMMA_BYTES(T, SUM, TYPES, SIGNS, ...)                              \
  template <> struct Wgmma<T, 256> {                                           \
    static __device__ __forceinline__ void shared (SUM (&d)[128], uint64_t a,  \
        uint64_t b, int keep)                                                  \
    {                                                                          \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"              \
                   "wgmma.mma_async.sync.aligned.m64n256k32." TYPES            \
                   " {" L128 "}, %128, %129, p" SIGNS ";\n}"                   \
                   : __VA_ARGS__                                               \
                   : "l"(a), "l"(b), "r"(keep));                               \
    }                                                                          \
  };
H3_WGMMA_BYTES (e4m3, float, "f32.e4m3.e4m3", ", 1, 1", D32 (0), D32 (32),
    D32 (64), D32 (96))
H3_WGMMA_BYTES (int8_t, int, "s32.s8.s8", "", I32 (0), I32 (32), I32 (64),
    I32 (96))

/* A place in a ring of stages, and how often it went round. */
template <int STAGES> struct Ring {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void
  next (void)
  {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
};

/* A warp has read a stage: it may be overwritten, in every block of the cluster
 * that the copy engine writes at once. */
template <int CLUSTER>
__device__ __forceinline__ void
release (uint32_t empty, int lane)
{
  if (CLUSTER == 1) {
    if (lane == 0)
      barrier_arrive (empty);
  } else if (lane < CLUSTER) {
    barrier_arrive_at (empty, lane);
  }
}

/* --- host --- */

typedef CUresult (*EncodeTiled) (CUtensorMap *, CUtensorMapDataType, cuuint32_t,
    void *, const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
    const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function, without linking the driver's library. */
static EncodeTiled
find_encode_tiled (void)
{
  static void *found;
  void *encode = __atomic_load_n (&found, __ATOMIC_ACQUIRE);
  cudaDriverEntryPointQueryResult result;

  if (encode)
    return (EncodeTiled) encode;
  if (cudaGetDriverEntryPointByVersion ("cuTensorMapEncodeTiled", &encode,
          12000, cudaEnableDefault, &result) != cudaSuccess ||
      result != cudaDriverEntryPointSuccess) {
    cudaGetLastError ();
    return NULL;
  }
  __atomic_store_n (&found, encode, __ATOMIC_RELEASE);
  return (EncodeTiled) encode;
}

/* Boxes of @box_rows rows of 128 bytes of @n matrices, [rows, cols], one after
 * the other; what a box has past the end of a matrix is zero, and not stored. */
static cudaError_t
map_memory (CUtensorMap *map, CUtensorMapDataType type, int size, void *data,
    gint64 cols, gint64 rows, gint64 n, int box_rows)
{
  EncodeTiled encode = find_encode_tiled ();
  cuuint64_t dim[3] = { (cuuint64_t) cols, (cuuint64_t) rows, (cuuint64_t) n };
  cuuint64_t stride[2] = { dim[0] * size, dim[0] * size * dim[1] };
  cuuint32_t box[3] = { (cuuint32_t) (BOX_BYTES / size), (cuuint32_t) box_rows,
    1 };
  cuuint32_t step[3] = { 1, 1, 1 };

  if (!encode)
    return cudaErrorNotSupported;
  return encode (map, type, 3, data, dim, stride, box, step,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
      ? cudaSuccess
      : cudaErrorNotSupported;
}

/* The same of a 16-bit type's tensor: BOX_COLS columns. */
static inline cudaError_t
map_matrices (CUtensorMap *map, const H3Tensor *t, gint64 cols, gint64 rows,
    gint64 n, int box_rows)
{
  return map_memory (map,
      t->dtype == H3_DTYPE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      2, t->data, cols, rows, n, box_rows);
}
