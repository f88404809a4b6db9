/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A row-major tensor as GstMemory, on the host or on a device. */
#pragma once

#include <gst/h3/gsth3prelude.h>

G_BEGIN_DECLS

#define GST_H3_MEMORY_TYPE "H3DeviceMemory"
#define GST_CAPS_FEATURE_MEMORY_H3_DEVICE "memory:H3Device"
#define GST_H3_MAX_RANK 6

/**
 * GST_H3_MAP_DEVICE:
 *
 * Map with this flag to get the device address; without it the CPU can read
 * (and, after writing, the device sees) what `data` points to. On host memory
 * both are the same pointer.
 */
#define GST_H3_MAP_DEVICE (GST_MAP_FLAG_LAST << 1)

typedef struct _GstH3Memory GstH3Memory;

/**
 * GstH3DeviceFuncs:
 * @alloc: @size bytes on the device, 256-byte aligned; NULL when there is none
 * @free: from any thread
 * @download: copies to the host, after @ready when it is not NULL
 * @upload: copies to the device
 * @copy: between two addresses of the device, after @ready when it is not NULL
 *
 * What an allocator needs from a device. Each works from any thread and has
 * finished when it returns; @user_data is the allocator's. Host allocators have
 * none of this.
 */
typedef struct {
  gpointer (*alloc) (gsize size, gpointer user_data);
  void (*free) (gpointer data, gsize size, gpointer user_data);
  gboolean (*download) (gpointer host, gconstpointer device, gsize size,
      gpointer ready, gpointer user_data);
  gboolean (*upload) (gpointer device, gconstpointer host, gsize size,
      gpointer user_data);
  gboolean (*copy) (gpointer dst, gconstpointer src, gsize size, gpointer ready,
      gpointer user_data);
} GstH3DeviceFuncs;

/**
 * GstH3Memory:
 * @device: ordinal, -1 = host
 * @data: device address of the first element
 * @type, @rank, @dim: row-major and contiguous
 * @ready: what the producer recorded after its last write, NULL = complete; on an
 *   NVIDIA GPU a cudaEvent_t. Whoever reads on the device makes its stream wait
 *   for it; a CPU map waits for it
 *
 * All fields are read-only. A memory made by gst_memory_share() has rank 1 and
 * type uint8: it is a range of bytes of its parent.
 */
struct _GstH3Memory {
  GstMemory mem;

  gint device;
  gpointer data;
  GstH3Type type;
  guint rank;
  gint64 dim[GST_H3_MAX_RANK];
  gpointer ready;

  /*< private >*/
  gpointer owner;
  GDestroyNotify notify;
  GMutex lock;
  gpointer staging;       /* copy on the host, from the first CPU map on */
  gboolean staging_valid; /* the copy is what the device holds */
  gboolean needs_upload;  /* the CPU wrote to the copy */
};

#define GST_TYPE_H3_ALLOCATOR (gst_h3_allocator_get_type ())
GST_H3_API
G_DECLARE_FINAL_TYPE (GstH3Allocator, gst_h3_allocator, GST, H3_ALLOCATOR,
    GstAllocator)

/* The process's allocator of host memory. (transfer none) */
GST_H3_API
GstH3Allocator *gst_h3_allocator_get_host (void);

/**
 * gst_h3_allocator_new:
 * @device: ordinal, 0 or more
 * @funcs: lives as long as the process
 * @notify: called with @user_data when the last memory and the allocator go
 */
GST_H3_API
GstH3Allocator *gst_h3_allocator_new (gint device,
    const GstH3DeviceFuncs *funcs, gpointer user_data, GDestroyNotify notify);

/**
 * gst_h3_allocator_alloc:
 *
 * Returns: (nullable): new memory of that shape, not initialised; NULL when the
 *   shape overflows, has a dimension below 1, or there is no memory
 */
GST_H3_API
GstMemory *gst_h3_allocator_alloc (GstH3Allocator *allocator, GstH3Type type,
    guint rank, const gint64 *dim);

/**
 * gst_h3_allocator_wrap:
 * @data: address on the allocator's device, not copied
 * @ready: (nullable): see #GstH3Memory; lives as long as @owner
 * @owner, @notify: called with @owner when the memory is freed
 *
 * Returns: (nullable): NULL, without calling @notify, for an invalid shape
 */
GST_H3_API
GstMemory *gst_h3_allocator_wrap (GstH3Allocator *allocator, GstH3Type type,
    guint rank, const gint64 *dim, gpointer data, gpointer ready,
    gpointer owner, GDestroyNotify notify);

GST_H3_API
gboolean gst_is_h3_memory (GstMemory *memory);

/* The @owner given to wrap when @notify is the same function, else NULL: how a
 * producer recognises its own memory. */
GST_H3_API
gpointer gst_h3_memory_get_owner (GstH3Memory *memory, GDestroyNotify notify);

G_END_DECLS
