/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frames in memory:CUDAMemory, for NVENC and others of GStreamer's CUDA elements
 * (spec/gstreamer.md 6.1, 7). What knows libgstcuda, which pulls in OpenGL, X11
 * and Wayland, is a module that is loaded when a GPU computes: the plugin links
 * none of it. */
#pragma once

#include <gst/video/video.h>

#include "model/ops.h"

G_BEGIN_DECLS

#define GST_H3_CUDA_MEMORY "memory:CUDAMemory"
#define GST_H3_CUDA_CONTEXT_TYPE "gst.cuda.context"

/* The module's file name, and the name of the function in it that gives a
 * GstH3CudaFrames of its own, or NULL where libgstcuda finds no driver. */
#define GST_H3_CUDA_FRAMES_MODULE "libh3gstcuda.so"
#define GST_H3_CUDA_FRAMES_GET "gst_h3_cuda_frames"
typedef struct _GstH3CudaFrames GstH3CudaFrames;
typedef const GstH3CudaFrames *(*GstH3CudaFramesGet) (void);

/**
 * GstH3CudaFrames:
 * @usable: whether GPU @ordinal's primary context, where we compute, can be
 *   shared as a GstCudaContext
 * @set_context: for GstElementClass.set_context: takes the pipeline's
 *   GstCudaContext out of @context, if it is one and none is known yet
 * @answer: for a query of type "gst.cuda.context", in any state: the pipeline's
 *   context, else that of GPU @ordinal
 * @choose_pool: for frames to what @allocation was asked of: downstream's pool
 *   of CUDA memory, else a new one in the pipeline's context, which it looks for,
 *   or makes ours and announces. NULL with @error. (transfer full)
 * @map: @frame's planes become addresses on the GPU; unmap as any frame.
 *   @direct: kernels of GPU @ordinal's primary context can write there. FALSE
 *   with @error
 * @copy: from @picture in that primary context to such a frame of @buffer in
 *   another context; waits. FALSE with @error
 *
 * @shared is the element's: the pipeline's GstCudaContext, owned, or NULL as long
 * as none is known. All but @map and @copy work from any thread.
 */
struct _GstH3CudaFrames {
  gboolean (*usable) (gint ordinal);
  void (*set_context) (GstElement *element, GstContext *context,
      GstObject **shared);
  gboolean (*answer) (GstElement *element, GstQuery *query, gint ordinal,
      GstObject **shared);
  GstBufferPool *(*choose_pool) (GstElement *element, GstQuery *allocation,
      gint ordinal, GstObject **shared, GError **error);
  gboolean (*map) (GstVideoFrame *frame, const GstVideoInfo *info,
      GstBuffer *buffer, gint ordinal, gboolean *direct, GError **error);
  gboolean (*copy) (GstVideoFrame *frame, GstBuffer *buffer,
      const H3Picture *picture, gint ordinal, GError **error);
};

/* The module's, loaded once; NULL when this build has none, or the machine has
 * no libgstcuda or driver, which is logged. */
const GstH3CudaFrames *gst_h3_cuda_frames_load (void);

/* The same when @device is a GPU whose frames can be shared. */
const GstH3CudaFrames *gst_h3_cuda_frames_for (H3Device *device);

G_END_DECLS
