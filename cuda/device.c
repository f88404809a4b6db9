/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A GPU: choosing it, its memory pool and its streams. Everything runs in the
 * device's primary context, which CUDA's libraries share. */
#define G_LOG_DOMAIN "h3cuda"
#include "cuda/device.h"

#include <string.h>

#include "cuda/h3-cuda.h"

#define MIN_CAPABILITY 80

static H3Error
code_of (cudaError_t err)
{
  switch (err) {
    case cudaErrorMemoryAllocation:
      return H3_ERROR_NO_SPACE;
    case cudaErrorDevicesUnavailable:
      return H3_ERROR_BUSY;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
      return H3_ERROR_NOT_FOUND;
    default:
      return H3_ERROR_DEVICE;
  }
}

/* A failure that was reported must not be found again by the next launch. One
 * that comes back nevertheless has poisoned the context for good. */
static void
forget (H3Device *device, const gchar *what, cudaError_t err)
{
  g_autofree gchar *why = NULL;

  cudaGetLastError ();
  if (!device || code_of (err) != H3_ERROR_DEVICE ||
      cudaFree (NULL) == cudaSuccess)
    return;
  why = g_strdup_printf ("%s: %s (%s)", what, cudaGetErrorName (err),
      cudaGetErrorString (err));
  g_info ("%s has failed for good: %s", device->name, why);
  h3_device_fail (device, why);
}

/* @device: NULL while it is being made */
static gboolean
ok (H3Device *device, cudaError_t err, const gchar *what, GError **error)
{
  if (err == cudaSuccess)
    return TRUE;
  forget (device, what, err);
  g_set_error (error, H3_ERROR, code_of (err), "%s: %s (%s)", what,
      cudaGetErrorName (err), cudaGetErrorString (err));
  return FALSE;
}

gboolean
h3_cuda_ok (H3Stream *stream, const gchar *what, cudaError_t err)
{
  if (err == cudaSuccess)
    return TRUE;
  forget (stream->device, what, err);
  h3_stream_fail (stream, code_of (err), "%s on %s: %s (%s)", what,
      stream->device->name, cudaGetErrorName (err), cudaGetErrorString (err));
  return FALSE;
}

gboolean
h3_cuda_enter (H3Stream *stream)
{
  return h3_cuda_ok (stream, "choosing the device",
      cudaSetDevice (stream->device->ordinal));
}

/* ---- memory ---- */

static void
memory_info (H3Device *device, guint64 *free_bytes, guint64 *total_bytes)
{
  H3CudaDevice *cuda = (H3CudaDevice *) device;
  size_t free_now = 0, total = 0;
  guint64 reserved = 0, used = 0;

  *free_bytes = *total_bytes = 0;
  /* what was freed before is to count */
  if (cudaSetDevice (device->ordinal) != cudaSuccess ||
      cudaStreamSynchronize (cuda->memory) != cudaSuccess ||
      cudaMemGetInfo (&free_now, &total) != cudaSuccess)
    return;
  /* what the pool keeps for the next allocation is free for us too */
  cudaMemPoolGetAttribute (cuda->pool, cudaMemPoolAttrReservedMemCurrent,
      &reserved);
  cudaMemPoolGetAttribute (cuda->pool, cudaMemPoolAttrUsedMemCurrent, &used);
  *free_bytes = free_now + (reserved - used);
  *total_bytes = total;
}

static cudaError_t
alloc_from_pool (H3CudaDevice *cuda, gsize bytes, gpointer *data)
{
  cudaError_t err =
      cudaMallocFromPoolAsync (data, MAX (bytes, 1), cuda->pool, cuda->memory);

  return err == cudaSuccess ? cudaStreamSynchronize (cuda->memory) : err;
}

static gpointer
alloc (H3Device *device, gsize bytes, GError **error)
{
  H3CudaDevice *cuda = (H3CudaDevice *) device;
  gpointer data = NULL;
  cudaError_t err;

  if (!ok (device, cudaSetDevice (device->ordinal), "choosing the device",
          error))
    return NULL;
  err = alloc_from_pool (cuda, bytes, &data);
  if (err == cudaErrorMemoryAllocation) {
    /* in pieces of other sizes, the pool may have it */
    cudaGetLastError ();
    g_debug ("trimming the pool for %" G_GSIZE_FORMAT " bytes", bytes);
    cudaMemPoolTrimTo (cuda->pool, 0);
    err = alloc_from_pool (cuda, bytes, &data);
  }
  if (err == cudaSuccess)
    return data;
  forget (device, "allocating memory", err);

  guint64 free_bytes, total_bytes;

  memory_info (device, &free_bytes, &total_bytes);
  g_set_error (error, H3_ERROR, code_of (err),
      "no memory for a tensor of %" G_GSIZE_FORMAT
      " bytes on %s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
      " bytes are free (%s)",
      bytes, device->name, free_bytes, total_bytes, cudaGetErrorName (err));
  return NULL;
}

/* Work that still reads the memory may be on any stream: the memory stream
 * waits for all of them before it takes it back. */
static void
free_memory (H3Device *device, gpointer data, gsize bytes)
{
  H3CudaDevice *cuda = (H3CudaDevice *) device;
  cudaEvent_t event;

  if (cudaSetDevice (device->ordinal) != cudaSuccess)
    return;
  g_mutex_lock (&cuda->lock);
  if (cudaEventCreateWithFlags (&event, cudaEventDisableTiming) ==
      cudaSuccess) {
    for (guint i = 0; i < cuda->streams->len; i++) {
      H3CudaStream *stream = g_ptr_array_index (cuda->streams, i);

      cudaEventRecord (event, stream->handle);
      cudaStreamWaitEvent (cuda->memory, event, 0);
    }
    cudaEventDestroy (event);
  }
  g_mutex_unlock (&cuda->lock);
  cudaFreeAsync (data, cuda->memory);
}

/* Pinned, for every device. */
static gpointer
alloc_host (H3Device *device, gsize bytes, GError **error)
{
  gpointer data = NULL;
  cudaError_t err = cudaSetDevice (device->ordinal);

  if (err == cudaSuccess)
    err = cudaHostAlloc (&data, MAX (bytes, 1), cudaHostAllocPortable);
  if (err == cudaSuccess)
    return data;
  forget (device, "allocating pinned memory", err);
  g_set_error (error, H3_ERROR, code_of (err),
      "no pinned host memory for %" G_GSIZE_FORMAT " bytes (%s)", bytes,
      cudaGetErrorName (err));
  return NULL;
}

static void
free_host (H3Device *device, gpointer data, gsize bytes)
{
  if (cudaSetDevice (device->ordinal) == cudaSuccess)
    cudaFreeHost (data);
}

gpointer
h3_cuda_scratch (H3Stream *stream, H3CudaScratch *scratch, gsize bytes)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;

  if (bytes <= scratch->bytes)
    return scratch->data;
  if (scratch->data)
    cudaFreeAsync (scratch->data, cuda->handle);
  scratch->bytes = 0;
  scratch->data = NULL;
  if (!h3_cuda_ok (stream, "allocating scratch",
          cudaMallocFromPoolAsync (&scratch->data, bytes,
              h3_cuda_device (stream)->pool, cuda->handle)))
    return NULL;
  scratch->bytes = bytes;
  return scratch->data;
}

/* ---- streams ---- */

static void
stream_free (H3Stream *stream)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  H3CudaDevice *device = h3_cuda_device (stream);
  H3CudaScratch *all[] = { &cuda->workspace, &cuda->scratch[0],
    &cuda->scratch[1], &cuda->scratch[2], &cuda->scratch[3], &cuda->picture,
    &cuda->sdpa, &cuda->sums, &cuda->conv3d, &cuda->bad_row, &cuda->decoded };

  cudaSetDevice (stream->device->ordinal);
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    if (all[i]->data)
      cudaFreeAsync (all[i]->data, cuda->handle);
  /* whoever frees a tensor meanwhile still waits for this stream */
  cudaStreamSynchronize (cuda->handle);
  g_mutex_lock (&device->lock);
  g_ptr_array_remove_fast (device->streams, cuda);
  g_mutex_unlock (&device->lock);
  h3_cuda_pace_clear (cuda);
  cudaStreamDestroy (cuda->handle);
  g_free (cuda);
}

static H3Stream *
stream_new (H3Device *device, GError **error)
{
  H3CudaDevice *cuda = (H3CudaDevice *) device;
  H3CudaStream *stream = g_new0 (H3CudaStream, 1);

  if (!ok (device, cudaSetDevice (device->ordinal), "choosing the device",
          error) ||
      !ok (device,
          cudaStreamCreateWithFlags (&stream->handle, cudaStreamNonBlocking),
          "creating a stream", error)) {
    g_free (stream);
    return NULL;
  }
  g_mutex_lock (&cuda->lock);
  g_ptr_array_add (cuda->streams, stream);
  g_mutex_unlock (&cuda->lock);
  return &stream->stream;
}

/* The flag that kernels raise; read when the stream is synchronised. */
static gint32 *
bad_row (H3Stream *stream)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;

  if (cuda->bad_row.data)
    return cuda->bad_row.data;
  if (!h3_cuda_enter (stream) ||
      !h3_cuda_scratch (stream, &cuda->bad_row, sizeof (gint32)) ||
      !h3_cuda_ok (stream, "clearing a flag",
          cudaMemsetAsync (cuda->bad_row.data, 0, sizeof (gint32),
              cuda->handle)))
    return NULL;
  return cuda->bad_row.data;
}

static gboolean
stream_synchronize (H3Stream *stream, GError **error)
{
  H3CudaStream *cuda = (H3CudaStream *) stream;
  H3Device *device = stream->device;
  gint32 bad = 0;

  if (!ok (device, cudaSetDevice (device->ordinal), "choosing the device",
          error) ||
      (cuda->bad_row.data &&
          !ok (device,
              cudaMemcpyAsync (&bad, cuda->bad_row.data, sizeof bad,
                  cudaMemcpyDeviceToHost, cuda->handle),
              "reading a flag", error)) ||
      !ok (device, cudaStreamSynchronize (cuda->handle), device->name, error))
    return FALSE;
  if (!bad)
    return TRUE;
  cudaMemsetAsync (cuda->bad_row.data, 0, sizeof bad, cuda->handle);
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "embedding, scatter_rows, add_rows or mix_rows: a row number is outside "
      "the table");
  return FALSE;
}

static void
upload (H3Stream *stream, H3Tensor *dst, gconstpointer src)
{
  if (dst->bytes && h3_cuda_enter (stream))
    h3_cuda_ok (stream, "upload",
        cudaMemcpyAsync (dst->data, src, dst->bytes, cudaMemcpyHostToDevice,
            ((H3CudaStream *) stream)->handle));
}

static void
download (H3Stream *stream, gpointer dst, const H3Tensor *src)
{
  if (src->bytes && h3_cuda_enter (stream))
    h3_cuda_ok (stream, "download",
        cudaMemcpyAsync (dst, src->data, src->bytes, cudaMemcpyDeviceToHost,
            ((H3CudaStream *) stream)->handle));
}

static gpointer
event_new (H3Stream *stream)
{
  cudaEvent_t event = NULL;

  if (!h3_cuda_enter (stream) ||
      !h3_cuda_ok (stream, "creating an event",
          cudaEventCreateWithFlags (&event, cudaEventDisableTiming)))
    return NULL;
  if (h3_cuda_ok (stream, "recording an event",
          cudaEventRecord (event, ((H3CudaStream *) stream)->handle)))
    return event;
  cudaEventDestroy (event);
  return NULL;
}

static void
event_wait (H3Stream *stream, gpointer event)
{
  if (h3_cuda_enter (stream))
    h3_cuda_ok (stream, "waiting for an event",
        cudaStreamWaitEvent (((H3CudaStream *) stream)->handle, event, 0));
}

/* One that was not reached yet goes when it is. */
static void
event_free (H3Device *device, gpointer event)
{
  if (cudaSetDevice (device->ordinal) == cudaSuccess)
    cudaEventDestroy (event);
}

/* ---- operations: the launchers, with the stream's errors ---- */

#define HANDLE(stream) (((H3CudaStream *) (stream))->handle)
#define RUN(name, call)                                                        \
  if (h3_cuda_enter (stream))                                                  \
  h3_cuda_ok (stream, name, call)

/* The addresses say which devices they are of: the elements copy from another
 * GPU's memory with it, too. */
static void
copy (H3Stream *stream, H3Tensor *dst, const H3Tensor *src)
{
  if (dst->dtype == src->dtype) {
    RUN ("copy", cudaMemcpyAsync (dst->data, src->data, dst->bytes,
                     cudaMemcpyDefault, HANDLE (stream)));
  } else {
    RUN ("copy", h3_cuda_convert (HANDLE (stream), dst->dtype, dst->data,
                     src->dtype, src->data, h3_tensor_size (dst), 1));
  }
}

static void
scale (H3Stream *stream, H3Tensor *y, const H3Tensor *x, gfloat factor)
{
  RUN ("scale", h3_cuda_convert (HANDLE (stream), y->dtype, y->data, x->dtype,
                    x->data, h3_tensor_size (y), factor));
}

static void
embedding (H3Stream *stream, H3Tensor *y, const H3Weight *weight,
    const H3Tensor *ids)
{
  gint32 *bad = bad_row (stream);

  if (!bad)
    return;
  if (weight->encoding != H3_ENCODING_PLAIN) {
    h3_cuda_embedding_encoded (stream, y, weight, ids, bad);
    return;
  }
  RUN ("embedding",
      h3_cuda_embedding (HANDLE (stream), y, weight->tensor, ids, bad));
}

static void
quantise_rows (H3Stream *stream, H3Tensor *q, H3Tensor *scale_,
    const H3Tensor *x)
{
  RUN ("quantise_rows",
      h3_cuda_quantise (HANDLE (stream), H3_ENCODING_E4M3, q->data,
          scale_->data, x->dtype, x->data, h3_tensor_rows (x),
          h3_tensor_cols (x), NULL, 1));
}

static void
scatter_rows (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows)
{
  gint32 *bad = bad_row (stream);

  if (bad)
    RUN ("scatter_rows",
        h3_cuda_scatter_rows (HANDLE (stream), y, x, rows, bad));
}

static void
add_rows (H3Stream *stream, H3Tensor *y, const H3Tensor *x,
    const H3Tensor *rows)
{
  gint32 *bad = bad_row (stream);

  if (bad)
    RUN ("add_rows", h3_cuda_add_rows (HANDLE (stream), y, x, rows, bad));
}

static void
mix_rows (H3Stream *stream, const H3MixRowsArgs *args)
{
  gint32 *bad = bad_row (stream);

  if (bad)
    RUN ("mix_rows", h3_cuda_mix_rows (HANDLE (stream), args, bad));
}

#define ONE_ARGS(name, Type)                                                   \
  static void name (H3Stream *stream, const Type *args)                        \
  {                                                                            \
    RUN (#name, h3_cuda_##name (HANDLE (stream), args));                       \
  }

ONE_ARGS (rms_norm, H3RmsNormArgs)
ONE_ARGS (residual_norm, H3ResidualNormArgs)
ONE_ARGS (layer_norm, H3LayerNormArgs)
ONE_ARGS (picture_patches, H3PicturePatchesArgs)
ONE_ARGS (qk_norm_rope, H3QkNormRopeArgs)
ONE_ARGS (solver_step, H3SolverArgs)
ONE_ARGS (latent_tile, H3LatentTileArgs)
ONE_ARGS (compose_tiles, H3ComposeTilesArgs)
ONE_ARGS (blend_frames, H3BlendFramesArgs)
ONE_ARGS (snake_beta, H3SnakeBetaArgs)
ONE_ARGS (snake, H3SnakeArgs)
ONE_ARGS (network_pixels, H3NetworkPixelsArgs)

static const gfloat *
float_weight (H3Stream *stream, const H3Weight *weight)
{
  const H3Tensor *t = weight->tensor;

  return h3_cuda_enter (stream)
             ? h3_cuda_as_type (stream, &((H3CudaStream *) stream)->scratch[3],
                   H3_DTYPE_F32, t->dtype, t->data, h3_tensor_size (t))
             : NULL;
}

static void
conv1d (H3Stream *stream, const H3Conv1dArgs *args)
{
  const gfloat *w = float_weight (stream, args->weight);

  if (w)
    RUN ("conv1d", h3_cuda_conv1d (HANDLE (stream), args, w));
}

static void
conv_transpose1d (H3Stream *stream, const H3ConvTranspose1dArgs *args)
{
  const gfloat *w = float_weight (stream, args->weight);

  if (w)
    RUN ("conv_transpose1d",
        h3_cuda_conv_transpose1d (HANDLE (stream), args, w));
}

static void
group_norm_silu (H3Stream *stream, const H3GroupNormArgs *args)
{
  gpointer scratch;

  if (!h3_cuda_enter (stream))
    return;
  scratch = h3_cuda_scratch (stream, &((H3CudaStream *) stream)->sums,
      h3_cuda_group_norm_scratch (args));
  if (scratch)
    h3_cuda_ok (stream, "group_norm_silu",
        h3_cuda_group_norm_silu (HANDLE (stream), args, scratch));
}

/* The fastest first: our kernel for Hopper; cuDNN's engine for long sequences
 * on other GPUs; our kernel for any tensor core; the rest by plain loops. */
static void
attention (H3Stream *stream, const H3AttentionArgs *args)
{
  gdouble rows = h3_tensor_rows (args->qkv);
  cudaError_t err;

  if (!h3_cuda_enter (stream))
    return;
  err = h3_cuda_attention_sm90 (HANDLE (stream), args);
  if (err == cudaErrorNotSupported && h3_cuda_sdpa_run (stream, args))
    err = cudaSuccess;
  if (err == cudaErrorNotSupported)
    err = h3_cuda_attention_mma (HANDLE (stream), args);
  if (err == cudaErrorNotSupported)
    err = h3_cuda_attention_any (HANDLE (stream), args);
  if (h3_cuda_ok (stream, "attention", err))
    h3_cuda_pace (stream, 4 * rows * rows / MAX (args->n_sequences, 1) *
                              args->heads * args->head_dim);
}

static void
swiglu (H3Stream *stream, H3Tensor *y, const H3Tensor *gate_up)
{
  RUN ("swiglu", h3_cuda_swiglu (HANDLE (stream), y, gate_up));
}

static void
linear_swiglu (H3Stream *stream, const H3LinearSwigluArgs *args)
{
  const H3LinearArgs product = { .y = args->gate_up,
    .x = args->x,
    .weight = args->weight,
    .bias = args->bias };
  gdouble weights = (gdouble) args->weight->rows * args->weight->cols;
  cudaError_t err = cudaErrorNotSupported;

  if (!h3_cuda_enter (stream))
    return;
  if (args->weight->encoding == H3_ENCODING_PLAIN)
    err = h3_cuda_linear_swiglu_sm90 (HANDLE (stream), args);
  else if (h3_cuda_linear_bytes (stream,
               &(H3LinearArgs){ .y = args->y,
                   .x = args->x,
                   .weight = args->weight,
                   .bias = args->bias },
               TRUE))
    return;
  if (err == cudaErrorNotSupported) {
    h3_cuda_linear (stream, &product);
    h3_cuda_ok (stream, "linear_swiglu",
        h3_cuda_swiglu (HANDLE (stream), args->y, args->gate_up));
  } else if (h3_cuda_ok (stream, "linear_swiglu", err)) {
    h3_cuda_pace (stream, 2 * h3_tensor_rows (args->x) * weights);
  }
}

static void
scaled_residual (H3Stream *stream, H3Tensor *x, const H3Tensor *branch,
    const H3Tensor *scale_)
{
  RUN ("scaled_residual",
      h3_cuda_scaled_residual (HANDLE (stream), x, branch, scale_));
}

static void
gated_residual (H3Stream *stream, H3Tensor *x, const H3Tensor *branch,
    const H3Tensor *table, const H3Tensor *rows, guint gate)
{
  RUN ("gated_residual",
      h3_cuda_gated_residual (HANDLE (stream), x, branch, table, rows, gate));
}

/* Rows without padding between them go in one piece: row by row, into memory
 * that is not pinned, takes many times as long. */
static cudaError_t
copy_plane (cudaStream_t stream, gpointer to, gint stride, const guint8 *from,
    gint width, gint height)
{
  if (stride == width)
    return cudaMemcpyAsync (to, from, (gsize) width * height,
        cudaMemcpyDeviceToHost, stream);
  return cudaMemcpy2DAsync (to, stride, from, width, width, height,
      cudaMemcpyDeviceToHost, stream);
}

/* Rows of host frames are copied out of a frame made on the device. */
static void
emit_picture (H3Stream *stream, const H3EmitPictureArgs *args)
{
  const H3Picture *p = &args->picture;
  gint half_w = (p->width + 1) / 2, half_h = (p->height + 1) / 2;
  gint n_planes = 1, width[3] = { p->width, 0, 0 };
  gint height[3] = { p->height, half_h, half_h }, stride[3];
  guint8 *plane[3] = { NULL }, *staging;
  gsize bytes = 0;

  switch (p->format) {
    case H3_PICTURE_RGB:
      width[0] = 3 * p->width;
      break;
    case H3_PICTURE_RGBA:
      width[0] = 4 * p->width;
      break;
    case H3_PICTURE_NV12:
      n_planes = 2;
      width[1] = 2 * half_w;
      break;
    case H3_PICTURE_I420:
      n_planes = 3;
      width[1] = width[2] = half_w;
      break;
    case H3_PICTURE_Y444:
      n_planes = 3;
      width[1] = width[2] = p->width;
      height[1] = height[2] = p->height;
      break;
  }
  if (!h3_cuda_enter (stream))
    return;
  if (p->on_device) {
    h3_cuda_ok (stream, "emit_picture",
        h3_cuda_emit_picture (HANDLE (stream), args, (guint8 *const *) p->plane,
            p->stride));
    return;
  }
  for (gint i = 0; i < n_planes; i++)
    bytes += (gsize) width[i] * height[i];
  staging =
      h3_cuda_scratch (stream, &((H3CudaStream *) stream)->picture, bytes);
  if (!staging)
    return;
  for (gint i = 0; i < n_planes; i++) {
    plane[i] = staging;
    stride[i] = width[i];
    staging += (gsize) width[i] * height[i];
  }
  if (!h3_cuda_ok (stream, "emit_picture",
          h3_cuda_emit_picture (HANDLE (stream), args, plane, stride)))
    return;
  for (gint i = 0; i < n_planes; i++)
    if (!h3_cuda_ok (stream, "emit_picture",
            copy_plane (HANDLE (stream), p->plane[i], p->stride[i], plane[i],
                width[i], height[i])))
      return;
}

static void
mean3 (H3Stream *stream, H3Tensor *y, const H3Tensor *a, const H3Tensor *b,
    const H3Tensor *c)
{
  RUN ("mean3", h3_cuda_mean (HANDLE (stream), y, a, b, c));
}

#define TWO_TENSORS(name)                                                      \
  static void name (H3Stream *stream, H3Tensor *y, const H3Tensor *x)          \
  {                                                                            \
    RUN (#name, h3_cuda_##name (HANDLE (stream), y, x));                       \
  }

TWO_TENSORS (multiply)
TWO_TENSORS (interleave_clamp)
TWO_TENSORS (video_rows_to_latent)
TWO_TENSORS (audio_rows_to_latent)
TWO_TENSORS (count_nonfinite)

/* ---- the device ---- */

static void
finalize (H3Device *device)
{
  H3CudaDevice *cuda = (H3CudaDevice *) device;

  cudaSetDevice (device->ordinal);
  h3_cuda_products_free (cuda->products);
  if (cuda->sdpa)
    h3_cuda_sdpa_free (cuda->sdpa);
  if (cuda->memory) {
    cudaStreamSynchronize (cuda->memory);
    cudaStreamDestroy (cuda->memory);
  }
  if (cuda->pool)
    cudaMemPoolDestroy (cuda->pool);
  g_ptr_array_free (cuda->streams, TRUE);
  g_mutex_clear (&cuda->lock);
  g_free (cuda);
}

const H3DeviceOps h3_cuda_ops = {
  .alloc = alloc,
  .free = free_memory,
  .memory_info = memory_info,
  .alloc_host = alloc_host,
  .free_host = free_host,
  .stream_new = stream_new,
  .stream_free = stream_free,
  .stream_synchronize = stream_synchronize,
  .upload = upload,
  .download = download,
  .event_new = event_new,
  .event_wait = event_wait,
  .event_free = event_free,
  .finalize = finalize,
  .copy = copy,
  .scale = scale,
  .linear = h3_cuda_linear,
  .linear_swiglu = linear_swiglu,
  .embedding = embedding,
  .quantise_rows = quantise_rows,
  .scatter_rows = scatter_rows,
  .add_rows = add_rows,
  .mix_rows = mix_rows,
  .picture_patches = picture_patches,
  .rms_norm = rms_norm,
  .residual_norm = residual_norm,
  .layer_norm = layer_norm,
  .qk_norm_rope = qk_norm_rope,
  .attention = attention,
  .swiglu = swiglu,
  .scaled_residual = scaled_residual,
  .gated_residual = gated_residual,
  .solver_step = solver_step,
  .latent_tile = latent_tile,
  .compose_tiles = compose_tiles,
  .blend_frames = blend_frames,
  .emit_picture = emit_picture,
  .conv1d = conv1d,
  .conv_transpose1d = conv_transpose1d,
  .snake_beta = snake_beta,
  .snake = snake,
  .multiply = multiply,
  .network_pixels = network_pixels,
  .conv3d = h3_cuda_conv3d,
  .group_norm_silu = group_norm_silu,
  .mean3 = mean3,
  .interleave_clamp = interleave_clamp,
  .video_rows_to_latent = video_rows_to_latent,
  .audio_rows_to_latent = audio_rows_to_latent,
  .count_nonfinite = count_nonfinite,
};

static gint
most_free_device (gint n)
{
  gint best = 0;
  size_t best_free = 0;

  for (gint i = 0; i < n; i++) {
    size_t free_now = 0, total = 0;

    if (cudaSetDevice (i) == cudaSuccess &&
        cudaMemGetInfo (&free_now, &total) == cudaSuccess &&
        free_now > best_free) {
      best = i;
      best_free = free_now;
    }
  }
  return best;
}

/* How many devices there are. The runtime says the same of a driver that is too
 * old and of one that is not there. */
static gboolean
count_devices (gint *n, GError **error)
{
  cudaError_t err = cudaGetDeviceCount (n);
  gint driver = 0, runtime = 0;

  if (err == cudaErrorNoDevice) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_NOT_FOUND,
        "there is an NVIDIA driver and no GPU that this process may see "
        "($CUDA_VISIBLE_DEVICES?): use backend=auto or backend=cpu");
    return FALSE;
  }
  if (err != cudaErrorInsufficientDriver)
    return ok (NULL, err, "looking for NVIDIA GPUs", error);
  cudaDriverGetVersion (&driver);
  cudaRuntimeGetVersion (&runtime);
  if (driver == 0)
    g_set_error_literal (error, H3_ERROR, H3_ERROR_NOT_FOUND,
        "there is no NVIDIA driver (libcuda.so.1): install it, or use "
        "backend=auto or backend=cpu");
  else
    g_set_error (error, H3_ERROR, H3_ERROR_NOT_FOUND,
        "the NVIDIA driver is for CUDA %d.%d, this build needs %d.%d: install "
        "a newer one, or use backend=auto or backend=cpu",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  return FALSE;
}

static gboolean
choose_device (gint *ordinal, struct cudaDeviceProp *prop, GError **error)
{
  gint n = 0;

  if (!count_devices (&n, error))
    return FALSE;
  if (*ordinal >= n) {
    g_set_error (error, H3_ERROR, H3_ERROR_NOT_FOUND,
        "GPU %d was asked for, "
        "there %s %d visible (0 .. %d)",
        *ordinal, n == 1 ? "is" : "are", n, n - 1);
    return FALSE;
  }
  if (*ordinal < 0)
    *ordinal = most_free_device (n);
  if (!ok (NULL, cudaGetDeviceProperties (prop, *ordinal),
          "reading the GPU's "
          "properties",
          error))
    return FALSE;
  if (prop->major * 10 + prop->minor >= MIN_CAPABILITY)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
      "GPU %d (%s) has compute "
      "capability %d.%d, the kernels need %d.%d",
      *ordinal, prop->name, prop->major, prop->minor, MIN_CAPABILITY / 10,
      MIN_CAPABILITY % 10);
  return FALSE;
}

/* Chosen already; better here than at the first operation of a clip. */
static gboolean
check_kernels (const struct cudaDeviceProp *prop, GError **error)
{
  if (h3_cuda_has_kernels ())
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_SETTINGS,
      "this build has no kernels for %s, of compute capability %d.%d: "
      "configure it with sm_%d%d among -Dgpu_archs",
      prop->name, prop->major, prop->minor, prop->major, prop->minor);
  return FALSE;
}

static gboolean
make_pool (H3CudaDevice *cuda, GError **error)
{
  struct cudaMemPoolProps props = {
    .allocType = cudaMemAllocationTypePinned,
    .location = { cudaMemLocationTypeDevice, cuda->device.ordinal },
  };
  guint64 keep = G_MAXUINT64;

  return ok (NULL, cudaMemPoolCreate (&cuda->pool, &props),
             "creating a memory pool", error) &&
         ok (NULL,
             cudaMemPoolSetAttribute (cuda->pool,
                 cudaMemPoolAttrReleaseThreshold, &keep),
             "creating a memory pool", error) &&
         ok (NULL,
             cudaStreamCreateWithFlags (&cuda->memory, cudaStreamNonBlocking),
             "creating a stream", error);
}

__attribute__ ((visibility ("default"))) H3Device *
h3_cuda_device_new (gint ordinal, GError **error)
{
  struct cudaDeviceProp prop;
  H3CudaDevice *cuda;

  if (!choose_device (&ordinal, &prop, error) ||
      !ok (NULL, cudaSetDevice (ordinal), "choosing the device", error) ||
      !ok (NULL, cudaFree (NULL), "starting the GPU's context", error) ||
      !check_kernels (&prop, error))
    return NULL;
  cuda = g_new0 (H3CudaDevice, 1);
  g_atomic_ref_count_init (&cuda->device.refcount);
  g_mutex_init (&cuda->lock);
  cuda->streams = g_ptr_array_new ();
  cuda->device.ops = &h3_cuda_ops;
  cuda->device.name = g_strdup_printf ("cuda:%d %s", ordinal, prop.name);
  cuda->device.ordinal = ordinal;
  cuda->capability = prop.major * 10 + prop.minor;
  h3_cuda_describe (&cuda->device);
  if (!make_pool (cuda, error) ||
      !(cuda->products = h3_cuda_products_new (error))) {
    h3_device_unref (&cuda->device);
    return NULL;
  }
  cuda->sdpa = h3_cuda_sdpa_new ();
  g_info ("%s: compute capability %d.%d, %" G_GSIZE_FORMAT
          " bytes, attention by cuDNN %s",
      cuda->device.name, prop.major, prop.minor, (gsize) prop.totalGlobalMem,
      cuda->sdpa ? "too" : "not found");
  return &cuda->device;
}
