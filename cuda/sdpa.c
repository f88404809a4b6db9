/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cuDNN's unified attention operation, read in place from the fused rows. cuDNN
 * is opened when the device is made and may be absent. */
#include <cudnn_graph.h>
#include <gmodule.h>
#include <stdbool.h>

#include "cuda/device.h"

/* Shorter sequences start faster on our own kernel. */
#define MIN_LENGTH 1024

typedef struct {
  gint64 length;
  guint n_sequences, heads, head_dim;
  H3DType dtype;
} Key;

typedef struct {
  Key key;
  cudnnBackendDescriptor_t plan; /* NULL: no engine for this */
  gint64 workspace;
} Plan;

#define FUNCTIONS(F)                                                           \
  F (cudnnCreate)                                                              \
  F (cudnnDestroy)                                                             \
  F (cudnnSetStream)                                                           \
  F (cudnnBackendCreateDescriptor)                                             \
  F (cudnnBackendDestroyDescriptor)                                            \
  F (cudnnBackendSetAttribute)                                                 \
  F (cudnnBackendGetAttribute)                                                 \
  F (cudnnBackendFinalize)                                                     \
  F (cudnnBackendExecute)

struct _H3CudaSdpa {
  GModule *module;
  cudnnHandle_t handle;
  GMutex lock;      /* the handle is one stream's at a time */
  GPtrArray *plans; /* Plan; a process sees few shapes */
#define DECLARE(name) __typeof__ (name) *name;
  FUNCTIONS (DECLARE)
#undef DECLARE
};

H3CudaSdpa *
h3_cuda_sdpa_new (void)
{
  H3CudaSdpa *s = g_new0 (H3CudaSdpa, 1);
  gboolean whole = TRUE;

  g_mutex_init (&s->lock);
  s->plans = g_ptr_array_new_with_free_func (g_free);
  s->module =
      g_module_open ("libcudnn.so.9", G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
  if (s->module) {
#define FIND(name)                                                             \
  whole &= g_module_symbol (s->module, #name, (gpointer *) &s->name);
    FUNCTIONS (FIND)
#undef FIND
    if (whole && s->cudnnCreate (&s->handle) == CUDNN_STATUS_SUCCESS)
      return s;
  }
  s->handle = NULL;
  h3_cuda_sdpa_free (s);
  return NULL;
}

void
h3_cuda_sdpa_free (H3CudaSdpa *s)
{
  for (guint i = 0; i < s->plans->len; i++) {
    Plan *plan = g_ptr_array_index (s->plans, i);

    if (plan->plan)
      s->cudnnBackendDestroyDescriptor (plan->plan);
  }
  g_ptr_array_free (s->plans, TRUE);
  if (s->handle)
    s->cudnnDestroy (s->handle);
  /* cuDNN leaves threads and handles behind that do not survive an unload */
  g_mutex_clear (&s->lock);
  g_free (s);
}

/* ---- descriptors ---- */

/* Everything a plan is made from; what is not NULL is destroyed at the end. */
typedef struct {
  H3CudaSdpa *s;
  cudnnBackendDescriptor_t all[16];
  guint n;
  gboolean ok;
} Maker;

static cudnnBackendDescriptor_t
make (Maker *m, cudnnBackendDescriptorType_t type)
{
  cudnnBackendDescriptor_t d = NULL;

  if (!m->ok || m->n == G_N_ELEMENTS (m->all) ||
      m->s->cudnnBackendCreateDescriptor (type, &d) != CUDNN_STATUS_SUCCESS) {
    m->ok = FALSE;
    return NULL;
  }
  m->all[m->n++] = d;
  return d;
}

static void
set (Maker *m, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, gint64 n, const void *value)
{
  m->ok = m->ok && m->s->cudnnBackendSetAttribute (d, name, type, n, value) ==
                       CUDNN_STATUS_SUCCESS;
}

static void
finalize (Maker *m, cudnnBackendDescriptor_t d)
{
  m->ok = m->ok && m->s->cudnnBackendFinalize (d) == CUDNN_STATUS_SUCCESS;
}

enum { UID_Q = 1, UID_K, UID_V, UID_Y, UID_SCALE, N_TENSORS = UID_SCALE };

/* [sequences, heads, length, head_dim] over rows @stride elements apart */
static cudnnBackendDescriptor_t
make_tensor (Maker *m, const Key *key, gint64 uid, gint64 stride)
{
  cudnnBackendDescriptor_t d = make (m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  cudnnDataType_t type =
      key->dtype == H3_DTYPE_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  gint64 dims[] = { key->n_sequences, key->heads, key->length, key->head_dim };
  gint64 strides[] = { key->length * stride, key->head_dim, stride, 1 };
  gint64 alignment = 16;

  set (m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set (m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  set (m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  set (m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  set (m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  finalize (m, d);
  return d;
}

static cudnnBackendDescriptor_t
make_scale (Maker *m)
{
  cudnnBackendDescriptor_t d = make (m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  gint64 ones[] = { 1, 1, 1, 1 }, uid = UID_SCALE, alignment = 16;
  bool by_value = true;

  set (m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set (m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, ones);
  set (m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, ones);
  set (m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  set (m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  set (m, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  finalize (m, d);
  return d;
}

static cudnnBackendDescriptor_t
make_graph (Maker *m, const Key *key)
{
  gint64 inner = (gint64) key->heads * key->head_dim;
  cudnnBackendDescriptor_t q = make_tensor (m, key, UID_Q, 3 * inner);
  cudnnBackendDescriptor_t k = make_tensor (m, key, UID_K, 3 * inner);
  cudnnBackendDescriptor_t v = make_tensor (m, key, UID_V, 3 * inner);
  cudnnBackendDescriptor_t y = make_tensor (m, key, UID_Y, inner);
  cudnnBackendDescriptor_t scale = make_scale (m);
  cudnnBackendDescriptor_t op =
      make (m, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  cudnnBackendDescriptor_t graph =
      make (m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

#define OPERAND(NAME, d)                                                       \
  set (m, op, CUDNN_ATTR_OPERATION_SDPA_FWD_##NAME##DESC,                      \
      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d)
  OPERAND (Q, q);
  OPERAND (K, k);
  OPERAND (V, v);
  OPERAND (O, y);
  OPERAND (SCALE, scale);
#undef OPERAND
  finalize (m, op);
  set (m, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      1, &op);
  set (m, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
      &m->s->handle);
  finalize (m, graph);
  return graph;
}

/* The first engine the library proposes: no timing, so that bytes never depend
 * on the day. */
static cudnnBackendDescriptor_t
make_plan (Maker *m, const Key *key, gint64 *workspace)
{
  cudnnBackendDescriptor_t graph = make_graph (m, key);
  cudnnBackendDescriptor_t heuristics =
      make (m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  cudnnBackendDescriptor_t engine =
      make (m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  cudnnBackendDescriptor_t plan = NULL;
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  gint64 n = 0;

  set (m, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
  set (m, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
      &mode);
  finalize (m, heuristics);
  m->ok = m->ok &&
          m->s->cudnnBackendGetAttribute (heuristics,
              CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
              &n, &engine) == CUDNN_STATUS_SUCCESS &&
          n > 0;
  if (!m->ok || m->s->cudnnBackendCreateDescriptor (
                    CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
                    CUDNN_STATUS_SUCCESS)
    return NULL;
  set (m, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
      &m->s->handle);
  set (m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
  finalize (m, plan);
  m->ok =
      m->ok && m->s->cudnnBackendGetAttribute (plan,
                   CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                   1, &n, workspace) == CUDNN_STATUS_SUCCESS;
  if (!m->ok) {
    m->s->cudnnBackendDestroyDescriptor (plan);
    return NULL;
  }
  return plan;
}

static void
maker_clear (Maker *m)
{
  while (m->n > 0)
    m->s->cudnnBackendDestroyDescriptor (m->all[--m->n]);
}

/* Under the lock. */
static const Plan *
find_plan (H3CudaSdpa *s, const Key *key)
{
  Maker m = { .s = s, .ok = TRUE };
  Plan *plan;

  for (guint i = 0; i < s->plans->len; i++) {
    const Key *k = &(plan = g_ptr_array_index (s->plans, i))->key;

    if (k->length == key->length && k->n_sequences == key->n_sequences &&
        k->heads == key->heads && k->head_dim == key->head_dim &&
        k->dtype == key->dtype)
      return plan;
  }
  plan = g_new0 (Plan, 1);
  plan->key = *key;
  plan->plan = make_plan (&m, key, &plan->workspace);
  maker_clear (&m);
  g_ptr_array_add (s->plans, plan);
  return plan;
}

static gboolean
run_plan (H3CudaSdpa *s, H3Stream *stream, const Plan *plan,
    const H3AttentionArgs *a)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  gsize part = (gsize) a->heads * a->head_dim * h3_dtype_size (a->qkv->dtype);
  gint64 uids[N_TENSORS] = { UID_Q, UID_K, UID_V, UID_Y, UID_SCALE };
  gfloat scale = a->scale;
  guint8 *qkv = a->qkv->data;
  void *data[N_TENSORS] = { qkv, qkv + part, qkv + 2 * part, a->y->data,
    &scale };
  void *workspace = NULL;
  Maker m = { .s = s, .ok = TRUE };
  cudnnBackendDescriptor_t pack =
      make (&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);

  if (plan->workspace > 0 &&
      !(workspace = h3_cuda_scratch (stream, &cuda->sdpa, plan->workspace)))
    m.ok = FALSE;
  set (&m, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
      N_TENSORS, uids);
  set (&m, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
      N_TENSORS, data);
  set (&m, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
      &workspace);
  finalize (&m, pack);
  m.ok = m.ok &&
         s->cudnnSetStream (s->handle, cuda->handle) == CUDNN_STATUS_SUCCESS &&
         s->cudnnBackendExecute (s->handle, plan->plan, pack) ==
             CUDNN_STATUS_SUCCESS;
  maker_clear (&m);
  return m.ok;
}

gboolean
h3_cuda_sdpa_run (H3Stream *stream, const H3AttentionArgs *a)
{
  H3CudaSdpa *s = h3_cuda_device (stream)->sdpa;
  Key key = { h3_tensor_rows (a->y) / a->n_sequences, a->n_sequences, a->heads,
    a->head_dim, a->qkv->dtype };
  const Plan *plan;
  gboolean done;

  if (!s || a->causal || a->heads != a->kv_heads || key.length < MIN_LENGTH ||
      a->head_dim % 8 || a->head_dim > 128 || a->qkv->dtype == H3_DTYPE_F32 ||
      a->y->dtype != a->qkv->dtype || (gsize) a->qkv->data % 16 ||
      (gsize) a->y->data % 16)
    return FALSE;
  g_mutex_lock (&s->lock);
  plan = find_plan (s, &key);
  done = plan->plan && run_plan (s, stream, plan, a);
  g_mutex_unlock (&s->lock);
  return done;
}
