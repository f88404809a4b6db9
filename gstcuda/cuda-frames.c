/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gst/gsth3cudaframes.h over libgstcuda.
 *
 * We compute in a GPU's primary context; libgstcuda makes contexts of its own,
 * and its elements compare them by pointer. So ours is wrapped as a
 * GstCudaContext, one per GPU and process, and offered to the pipeline. Where
 * the pipeline has another one already, finished frames are copied into that.
 *
 * Only API that 1.22 and later agree on: gst_cuda_allocator_alloc() changed its
 * arguments under one name in 1.24, so memory comes from pools alone. */
#include "gst/gsth3cudaframes.h"

#include <gmodule.h>
#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudautils.h>

#include "model/error.h"

GST_DEBUG_CATEGORY_STATIC (h3_gst_cuda_debug);
#define GST_CAT_DEFAULT h3_gst_cuda_debug

/* Of the driver, what libgstcuda has no name for. */
static CUresult (*primary_ctx_retain) (CUcontext *context, CUdevice device);
static CUresult (
    *memcpy_3d_peer) (const CUDA_MEMCPY3D_PEER *copy, CUstream stream);

/* The wrapped primary contexts, by ordinal, and every element's @shared. */
static GMutex lock;
static GHashTable *primaries;

static gboolean
find_driver_functions (void)
{
  GModule *driver =
      g_module_open ("libcuda.so.1", G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);

  if (!driver)
    return FALSE;
  g_module_make_resident (driver);
  return g_module_symbol (driver, "cuDevicePrimaryCtxRetain",
             (gpointer *) &primary_ctx_retain) &&
         g_module_symbol (driver, "cuMemcpy3DPeerAsync",
             (gpointer *) &memcpy_3d_peer);
}

/* With the lock held. It and its primary context stay as long as the process, as
 * devices do. */
static GstCudaContext *
wrap_primary (gint ordinal)
{
  GstCudaContext *context = NULL;
  CUcontext handle;
  CUdevice device;

  /* looks at the driver's devices, and starts it */
  if (!gst_cuda_result (CuInit (0)) ||
      !gst_cuda_result (CuDeviceGet (&device, ordinal)) ||
      !gst_cuda_result (primary_ctx_retain (&handle, device)))
    return NULL;
  context = gst_cuda_context_new_wrapped (handle, device);
  if (context)
    GST_OBJECT_FLAG_SET (context, GST_OBJECT_FLAG_MAY_BE_LEAKED);
  return context;
}

/* (transfer none): the GstCudaContext of our computing, or NULL. */
static GstCudaContext *
primary_context (gint ordinal)
{
  GstCudaContext *context;

  g_mutex_lock (&lock);
  if (!primaries)
    primaries = g_hash_table_new (NULL, NULL);
  context = g_hash_table_lookup (primaries, GINT_TO_POINTER (ordinal));
  if (!context && (context = wrap_primary (ordinal)))
    g_hash_table_insert (primaries, GINT_TO_POINTER (ordinal), context);
  g_mutex_unlock (&lock);
  return context;
}

static gboolean
usable (gint ordinal)
{
  return primary_context (ordinal) != NULL;
}

/* --- the pipeline's context --- */

/* (transfer full): what the element knows. */
static GstCudaContext *
get_shared (GstObject **shared)
{
  GstCudaContext *context;

  g_mutex_lock (&lock);
  context = *shared ? gst_object_ref (GST_CUDA_CONTEXT (*shared)) : NULL;
  g_mutex_unlock (&lock);
  return context;
}

/* The first one known stays. (transfer full): that one */
static GstCudaContext *
learn (GstObject **shared, GstCudaContext *context)
{
  g_mutex_lock (&lock);
  if (!*shared)
    *shared = gst_object_ref (GST_OBJECT (context));
  context = gst_object_ref (GST_CUDA_CONTEXT (*shared));
  g_mutex_unlock (&lock);
  return context;
}

static void
set_context (GstElement *element, GstContext *context, GstObject **shared)
{
  GstCudaContext *found = NULL;

  /* of any GPU: what is not ours is copied into */
  if (gst_cuda_handle_set_context (element, context, -1, &found) && found) {
    gst_object_unref (learn (shared, found));
    gst_object_unref (found);
  }
}

static gboolean
answer (GstElement *element, GstQuery *query, gint ordinal, GstObject **shared)
{
  GstCudaContext *context = get_shared (shared);
  gboolean answered;

  if (!context) {
    GstCudaContext *ours = primary_context (ordinal);

    context = ours ? learn (shared, ours) : NULL;
  }
  if (!context)
    return FALSE;
  answered = gst_cuda_handle_context_query (element, query, context);
  gst_object_unref (context);
  return answered;
}

/* What a neighbour answers goes to gst_element_set_context(), and so comes back
 * to set_context(). */
static void
ask_neighbour (GstElement *element, const gchar *pad_name)
{
  GstPad *pad = gst_element_get_static_pad (element, pad_name);
  GstQuery *query = gst_query_new_context (GST_CUDA_CONTEXT_TYPE);
  GstContext *context = NULL;

  if (pad && gst_pad_peer_query (pad, query))
    gst_query_parse_context (query, &context);
  if (context)
    gst_element_set_context (element, context);
  gst_query_unref (query);
  gst_clear_object (&pad);
}

/* The rounds that every element with a context makes: neighbours, application,
 * and then one's own is announced. (transfer full), NULL when there is none. */
static GstCudaContext *
find_context (GstElement *element, gint ordinal, GstObject **shared)
{
  static const gchar *const pads[] = { "src", "sink" };
  GstCudaContext *context = get_shared (shared), *ours;
  GstContext *announced;

  for (guint i = 0; i < G_N_ELEMENTS (pads) && !context; i++) {
    ask_neighbour (element, pads[i]);
    context = get_shared (shared);
  }
  if (context)
    return context;
  gst_element_post_message (element,
      gst_message_new_need_context (GST_OBJECT_CAST (element),
          GST_CUDA_CONTEXT_TYPE));
  if ((context = get_shared (shared)))
    return context;
  ours = primary_context (ordinal);
  if (!ours)
    return NULL;
  announced = gst_context_new_cuda_context (ours);
  gst_element_set_context (element, announced);
  gst_element_post_message (element,
      gst_message_new_have_context (GST_OBJECT_CAST (element), announced));
  return learn (shared, ours);
}

static GstBufferPool *
choose_pool (GstElement *element, GstQuery *allocation, gint ordinal,
    GstObject **shared, GError **error)
{
  GstCudaContext *context;
  GstBufferPool *pool = NULL;

  if (gst_query_get_n_allocation_pools (allocation) > 0)
    gst_query_parse_nth_allocation_pool (allocation, 0, &pool, NULL, NULL,
        NULL);
  if (pool && GST_IS_CUDA_BUFFER_POOL (pool)) {
    GST_DEBUG_OBJECT (element,
        "frames go into downstream's %" GST_PTR_FORMAT " of %" GST_PTR_FORMAT,
        pool, GST_CUDA_BUFFER_POOL (pool)->context);
    return pool;
  }
  gst_clear_object (&pool);
  context = find_context (element, ordinal, shared);
  if (!context) {
    g_set_error (error, H3_ERROR, H3_ERROR_DEVICE,
        "GPU %d gives no context to make frames in", ordinal);
    return NULL;
  }
  pool = gst_cuda_buffer_pool_new (context);
  GST_DEBUG_OBJECT (element, "frames go into a pool of %" GST_PTR_FORMAT,
      context);
  gst_object_unref (context);
  return pool;
}

/* --- frames --- */

static GstCudaMemory *
cuda_memory (GstBuffer *buffer)
{
  GstMemory *memory = gst_buffer_n_memory (buffer) == 1
                          ? gst_buffer_peek_memory (buffer, 0)
                          : NULL;

  return gst_is_cuda_memory (memory) ? GST_CUDA_MEMORY_CAST (memory) : NULL;
}

static gboolean
map (GstVideoFrame *frame, const GstVideoInfo *info, GstBuffer *buffer,
    gint ordinal, gboolean *direct, GError **error)
{
  GstCudaMemory *memory = cuda_memory (buffer);

  if (!memory || !gst_video_frame_map (frame, info, buffer,
                     GST_MAP_WRITE | GST_MAP_CUDA)) {
    g_set_error (error, H3_ERROR, H3_ERROR_DEVICE,
        "a buffer from downstream's pool is not CUDA memory that can be "
        "written to");
    return FALSE;
  }
  *direct = gst_cuda_context_get_handle (memory->context) ==
            gst_cuda_context_get_handle (primary_context (ordinal));
  return TRUE;
}

static CUresult
copy_planes (GstVideoFrame *frame, const H3Picture *picture, CUcontext from,
    CUcontext to)
{
  CUresult result = CUDA_SUCCESS;

  for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES (frame) && !result; i++) {
    CUDA_MEMCPY3D_PEER copy = {
      .srcMemoryType = CU_MEMORYTYPE_DEVICE,
      .srcDevice = (CUdeviceptr) picture->plane[i],
      .srcContext = from,
      .srcPitch = picture->stride[i],
      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
      .dstDevice = (CUdeviceptr) GST_VIDEO_FRAME_PLANE_DATA (frame, i),
      .dstContext = to,
      .dstPitch = GST_VIDEO_FRAME_PLANE_STRIDE (frame, i),
      /* of our formats, plane i begins with component i */
      .WidthInBytes = GST_VIDEO_FRAME_COMP_WIDTH (frame, i) *
                      GST_VIDEO_FRAME_COMP_PSTRIDE (frame, i),
      .Height = GST_VIDEO_FRAME_COMP_HEIGHT (frame, i),
      .Depth = 1,
    };

    result = memcpy_3d_peer (&copy, NULL);
  }
  return result ? result : CuStreamSynchronize (NULL);
}

static gboolean
copy (GstVideoFrame *frame, GstBuffer *buffer, const H3Picture *picture,
    gint ordinal, GError **error)
{
  GstCudaMemory *memory = cuda_memory (buffer);
  GstCudaContext *ours = primary_context (ordinal);
  CUresult result = CUDA_ERROR_INVALID_CONTEXT;
  const gchar *name = NULL;

  if (gst_cuda_context_push (memory->context)) {
    result = copy_planes (frame, picture, gst_cuda_context_get_handle (ours),
        gst_cuda_context_get_handle (memory->context));
    gst_cuda_context_pop (NULL);
  }
  if (result == CUDA_SUCCESS)
    return TRUE;
  CuGetErrorName (result, &name);
  g_set_error (error, H3_ERROR, H3_ERROR_DEVICE,
      "copying a frame into the pipeline's CUDA context: %s",
      name ? name : "unknown error");
  return FALSE;
}

G_MODULE_EXPORT const GstH3CudaFrames *gst_h3_cuda_frames (void);

const GstH3CudaFrames *
gst_h3_cuda_frames (void)
{
  static const GstH3CudaFrames frames = { usable, set_context, answer,
    choose_pool, map, copy };

  GST_DEBUG_CATEGORY_INIT (h3_gst_cuda_debug, "h3cuda", 0,
      "H3 frames in CUDA memory");
  if (!gst_cuda_load_library () || !find_driver_functions ())
    return NULL;
  gst_cuda_memory_init_once ();
  return &frames;
}
