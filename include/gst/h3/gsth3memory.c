/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tensor memory.
 *
 * The map protocol (spec/gstreamer.md 3.2): mapped with GST_H3_MAP_DEVICE the
 * pointer is the device's; mapped without, device memory shows a staging copy,
 * filled at the first CPU map, and uploaded at the next device map after the
 * CPU wrote to it. Host memory is one pointer for both. */
#include "gsth3memory.h"

#include <stdlib.h>
#include <string.h>

GST_DEBUG_CATEGORY_STATIC (gst_h3_memory_debug);
#define GST_CAT_DEFAULT gst_h3_memory_debug

#define ALIGNMENT 256

struct _GstH3Allocator {
  GstAllocator parent;

  gint device; /* -1: host, then funcs is NULL */
  const GstH3DeviceFuncs *funcs;
  gpointer user_data;
  GDestroyNotify notify;
};

G_DEFINE_TYPE_WITH_CODE (GstH3Allocator, gst_h3_allocator, GST_TYPE_ALLOCATOR,
    GST_DEBUG_CATEGORY_INIT (gst_h3_memory_debug, "h3memory", 0,
        "H3 tensor memory"));

static const struct {
  const gchar *name;
  gsize size;
} types[] = {
  [GST_H3_TYPE_FLOAT32] = { "float32", 4 },
  [GST_H3_TYPE_FLOAT16] = { "float16", 2 },
  [GST_H3_TYPE_BFLOAT16] = { "bfloat16", 2 },
  [GST_H3_TYPE_INT32] = { "int32", 4 },
  [GST_H3_TYPE_UINT8] = { "uint8", 1 },
};

gsize
gst_h3_type_size (GstH3Type type)
{
  g_return_val_if_fail (type < G_N_ELEMENTS (types), 0);
  return types[type].size;
}

const gchar *
gst_h3_type_name (GstH3Type type)
{
  g_return_val_if_fail (type < G_N_ELEMENTS (types), NULL);
  return types[type].name;
}

gboolean
gst_h3_type_from_name (const gchar *name, GstH3Type *type)
{
  for (guint i = 0; i < G_N_ELEMENTS (types); i++) {
    if (g_strcmp0 (name, types[i].name) == 0) {
      *type = i;
      return TRUE;
    }
  }
  return FALSE;
}

/* Bytes of a shape; 0 when it is no shape or overflows. */
static gsize
shape_size (GstH3Type type, guint rank, const gint64 *dim)
{
  gsize size = gst_h3_type_size (type);

  if (rank < 1 || rank > GST_H3_MAX_RANK)
    return 0;
  for (guint i = 0; i < rank; i++) {
    if (dim[i] < 1 || !g_size_checked_mul (&size, size, (guint64) dim[i]))
      return 0;
  }
  return size > G_MAXSSIZE ? 0 : size;
}

static void
host_free (gpointer data)
{
  free (data);
}

static gpointer
host_alloc (gsize size)
{
  gpointer data = NULL;

  if (posix_memalign (&data, ALIGNMENT, size) != 0)
    return NULL;
  return data;
}

static GstH3Memory *
memory_new (GstH3Allocator *self, GstMemory *parent, gsize maxsize,
    gsize offset, gsize size, GstH3Type type, guint rank, const gint64 *dim,
    gpointer data)
{
  GstH3Memory *memory = g_new0 (GstH3Memory, 1);
  /* a range of a memory may not be written behind the parent's back */
  GstMemoryFlags flags = parent ? GST_MINI_OBJECT_FLAGS (parent) |
                                      GST_MINI_OBJECT_FLAG_LOCK_READONLY
                                : 0;

  gst_memory_init (GST_MEMORY_CAST (memory), flags, GST_ALLOCATOR_CAST (self),
      parent, maxsize, 0, offset, size);
  g_mutex_init (&memory->lock);
  memory->device = self->device;
  memory->type = type;
  memory->rank = rank;
  memcpy (memory->dim, dim, rank * sizeof *dim);
  memory->data = data;
  return memory;
}

/* The memory that holds the bytes of @mem, which may be a range of it. */
static GstH3Memory *
memory_base (GstMemory *mem)
{
  return (GstH3Memory *) (mem->parent ? mem->parent : mem);
}

/* With base->lock held: the staging copy, filled. NULL, logged, on failure. */
static gpointer
map_staging (GstH3Allocator *self, GstH3Memory *base)
{
  gsize size = base->mem.maxsize;

  if (!base->staging && !(base->staging = host_alloc (size))) {
    GST_ERROR_OBJECT (self,
        "no %" G_GSIZE_FORMAT " bytes of host memory to "
        "read device memory into",
        size);
    return NULL;
  }
  if (!base->staging_valid) {
    GST_DEBUG_OBJECT (self,
        "the CPU reads %" G_GSIZE_FORMAT " bytes of device %d", size,
        self->device);
    if (!self->funcs->download (base->staging, base->data, size, base->ready,
            self->user_data)) {
      GST_ERROR_OBJECT (self,
          "reading %" G_GSIZE_FORMAT " bytes from device "
          "%d failed",
          size, self->device);
      return NULL;
    }
    base->staging_valid = TRUE;
  }
  return base->staging;
}

/* With base->lock held: the device address, with what the CPU wrote. */
static gpointer
map_device (GstH3Allocator *self, GstH3Memory *base, gboolean writing)
{
  if (base->needs_upload) {
    if (!self->funcs->upload (base->data, base->staging, base->mem.maxsize,
            self->user_data)) {
      GST_ERROR_OBJECT (self,
          "writing %" G_GSIZE_FORMAT " bytes to device %d "
          "failed",
          base->mem.maxsize, self->device);
      return NULL;
    }
    base->needs_upload = FALSE;
  }
  if (writing)
    base->staging_valid = FALSE;
  return base->data;
}

static gpointer
gst_h3_memory_map (GstMemory *mem, gsize maxsize, GstMapFlags flags)
{
  GstH3Allocator *self = GST_H3_ALLOCATOR (mem->allocator);
  GstH3Memory *base = memory_base (mem);
  gpointer data;

  if (!self->funcs)
    return base->data;

  g_mutex_lock (&base->lock);
  if (flags & GST_H3_MAP_DEVICE) {
    data = map_device (self, base, (flags & GST_MAP_WRITE) != 0);
  } else {
    data = map_staging (self, base);
    if (data && (flags & GST_MAP_WRITE))
      base->needs_upload = TRUE;
  }
  g_mutex_unlock (&base->lock);
  return data;
}

static void
gst_h3_memory_unmap (GstMemory *mem)
{
}

static GstMemory *
gst_h3_memory_share (GstMemory *mem, gssize offset, gssize size)
{
  GstH3Memory *base = memory_base (mem);
  gint64 dim;

  if (size == -1)
    size = mem->size - offset;
  dim = size;
  return GST_MEMORY_CAST (
      memory_new (GST_H3_ALLOCATOR (mem->allocator), GST_MEMORY_CAST (base),
          mem->maxsize, mem->offset + offset, size, GST_H3_TYPE_UINT8, 1, &dim,
          (guint8 *) base->data + mem->offset + offset));
}

/* The whole keeps its shape; a part is bytes. */
static GstMemory *
gst_h3_memory_copy (GstMemory *mem, gssize offset, gssize size)
{
  GstH3Allocator *self = GST_H3_ALLOCATOR (mem->allocator);
  GstH3Memory *memory = (GstH3Memory *) mem;
  GstH3Memory *base = memory_base (mem);
  gint64 bytes = size == -1 ? mem->size - offset : size;
  gboolean whole =
      !mem->parent && mem->offset + offset == 0 && bytes == mem->maxsize;
  GstMemory *copy =
      whole ? gst_h3_allocator_alloc (self, memory->type, memory->rank,
                  memory->dim)
            : gst_h3_allocator_alloc (self, GST_H3_TYPE_UINT8, 1, &bytes);
  gconstpointer src;
  gboolean copied = TRUE;

  if (!copy)
    return NULL;
  if (!self->funcs) {
    memcpy (((GstH3Memory *) copy)->data,
        (guint8 *) base->data + mem->offset + offset, bytes);
    return copy;
  }
  g_mutex_lock (&base->lock);
  src = map_device (self, base, FALSE);
  copied = src && self->funcs->copy (((GstH3Memory *) copy)->data,
                      (const guint8 *) src + mem->offset + offset, bytes,
                      base->ready, self->user_data);
  g_mutex_unlock (&base->lock);
  if (!copied) {
    GST_ERROR_OBJECT (self,
        "copying %" G_GINT64_FORMAT " bytes on device %d "
        "failed",
        bytes, self->device);
    gst_clear_object (&copy);
  }
  return copy;
}

static void
gst_h3_allocator_free (GstAllocator *allocator, GstMemory *mem)
{
  GstH3Memory *memory = (GstH3Memory *) mem;

  if (memory->notify)
    memory->notify (memory->owner);
  if (memory->staging)
    host_free (memory->staging);
  g_mutex_clear (&memory->lock);
  g_free (memory);
}

static GstMemory *
gst_h3_allocator_no_alloc (GstAllocator *allocator, gsize size,
    GstAllocationParams *params)
{
  GST_ERROR_OBJECT (allocator, "tensors need a shape: use "
                               "gst_h3_allocator_alloc()");
  return NULL;
}

static void
gst_h3_allocator_finalize (GObject *object)
{
  GstH3Allocator *self = GST_H3_ALLOCATOR (object);

  if (self->notify)
    self->notify (self->user_data);
  G_OBJECT_CLASS (gst_h3_allocator_parent_class)->finalize (object);
}

static void
gst_h3_allocator_class_init (GstH3AllocatorClass *klass)
{
  GstAllocatorClass *allocator_class = GST_ALLOCATOR_CLASS (klass);

  G_OBJECT_CLASS (klass)->finalize = gst_h3_allocator_finalize;
  allocator_class->alloc = gst_h3_allocator_no_alloc;
  allocator_class->free = gst_h3_allocator_free;
}

static void
gst_h3_allocator_init (GstH3Allocator *self)
{
  GstAllocator *allocator = GST_ALLOCATOR_CAST (self);

  self->device = -1;
  allocator->mem_type = GST_H3_MEMORY_TYPE;
  allocator->mem_map = gst_h3_memory_map;
  allocator->mem_unmap = gst_h3_memory_unmap;
  allocator->mem_share = gst_h3_memory_share;
  allocator->mem_copy = gst_h3_memory_copy;
  /* mem_is_span stays the default, "no": buffers are never merged in place */
  GST_OBJECT_FLAG_SET (self, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

GstH3Allocator *
gst_h3_allocator_get_host (void)
{
  static GstH3Allocator *host;

  if (g_once_init_enter (&host)) {
    GstH3Allocator *allocator = g_object_new (GST_TYPE_H3_ALLOCATOR, NULL);

    gst_object_ref_sink (allocator);
    /* lives as long as the process: not a leak */
    GST_OBJECT_FLAG_SET (allocator, GST_OBJECT_FLAG_MAY_BE_LEAKED);
    g_once_init_leave (&host, allocator);
  }
  return host;
}

GstH3Allocator *
gst_h3_allocator_new (gint device, const GstH3DeviceFuncs *funcs,
    gpointer user_data, GDestroyNotify notify)
{
  GstH3Allocator *self;

  g_return_val_if_fail (device >= 0 && funcs, NULL);

  self = g_object_new (GST_TYPE_H3_ALLOCATOR, NULL);
  gst_object_ref_sink (self);
  self->device = device;
  self->funcs = funcs;
  self->user_data = user_data;
  self->notify = notify;
  return self;
}

/* What frees memory of our own on a device. */
typedef struct {
  GstH3Allocator *allocator; /* kept alive by the memory */
  gpointer data;
  gsize size;
} DeviceBlock;

static void
device_block_free (gpointer data)
{
  DeviceBlock *block = data;

  block->allocator->funcs->free (block->data, block->size,
      block->allocator->user_data);
  g_free (block);
}

GstMemory *
gst_h3_allocator_alloc (GstH3Allocator *self, GstH3Type type, guint rank,
    const gint64 *dim)
{
  gsize size;
  gpointer data;
  DeviceBlock *block;

  g_return_val_if_fail (GST_IS_H3_ALLOCATOR (self), NULL);

  size = shape_size (type, rank, dim);
  if (size == 0)
    return NULL;
  data = self->funcs ? self->funcs->alloc (size, self->user_data)
                     : host_alloc (size);
  if (!data) {
    GST_ERROR_OBJECT (self, "no %" G_GSIZE_FORMAT " bytes on %s %d", size,
        self->funcs ? "device" : "host", self->device);
    return NULL;
  }
  if (!self->funcs) {
    return gst_h3_allocator_wrap (self, type, rank, dim, data, NULL, data,
        host_free);
  }
  block = g_new (DeviceBlock, 1);
  *block = (DeviceBlock){ self, data, size };
  return gst_h3_allocator_wrap (self, type, rank, dim, data, NULL, block,
      device_block_free);
}

GstMemory *
gst_h3_allocator_wrap (GstH3Allocator *self, GstH3Type type, guint rank,
    const gint64 *dim, gpointer data, gpointer ready, gpointer owner,
    GDestroyNotify notify)
{
  GstH3Memory *memory;
  gsize size;

  g_return_val_if_fail (GST_IS_H3_ALLOCATOR (self), NULL);
  g_return_val_if_fail (data, NULL);

  size = shape_size (type, rank, dim);
  if (size == 0)
    return NULL;
  memory = memory_new (self, NULL, size, 0, size, type, rank, dim, data);
  memory->ready = ready;
  memory->owner = owner;
  memory->notify = notify;
  return GST_MEMORY_CAST (memory);
}

gboolean
gst_is_h3_memory (GstMemory *memory)
{
  return memory && memory->allocator && GST_IS_H3_ALLOCATOR (memory->allocator);
}

gpointer
gst_h3_memory_get_owner (GstH3Memory *memory, GDestroyNotify notify)
{
  g_return_val_if_fail (gst_is_h3_memory (GST_MEMORY_CAST (memory)), NULL);
  return notify && memory->notify == notify ? memory->owner : NULL;
}
