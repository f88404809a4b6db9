/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/reader.h"
#include "model/checkpoint/stored-values.h"

#include <math.h>

/* A staging buffer, and the most that is read for one copy. */
#define PIECE_BYTES ((gsize) 4 << 20)
/* What is read at once: checked while it is in the processor's cache, and the
 * reader stops in the middle of a piece on a slow disk. */
#define STEP_BYTES ((gsize) 512 << 10)
/* Fewer bytes are read by the calling thread. */
#define THREADED_BYTES ((guint64) 32 << 20)
/* Pieces that were asked for and that no thread has taken: as far ahead is the
 * disk. */
#define QUEUE 64
#define MIN_THREADS 4
#define MAX_THREADS 8
#define POLL_US 20000

typedef struct {
  guint64 number; /* in the order in which they were added */
  const H3StoredTensor *source;
  gint64 first, n;
  H3Tensor *dest; /* owned */
  gint64 offset;
} Piece;

/* A staging buffer and what is being copied out of it. */
typedef struct {
  gpointer data;
  H3Stream *stream; /* owned */
  gboolean busy;
  Piece piece;
} Slot;

/* What one thread has. */
typedef struct {
  H3Reader *reader;
  GThread *thread; /* NULL: the calling one */
  Slot slots[2];
  guint turn;
} Worker;

struct _H3Reader {
  H3Device *device; /* owned */
  const H3Stop *stop;
  H3ReaderProgress progress;
  gpointer user_data;
  guint64 n_added, bytes_added; /* by the calling thread alone */
  guint64 reported;
  Worker own;
  Worker *workers;
  guint n_workers;
  gint failed; /* atomic: pieces are dropped */

  GMutex lock; /* of what follows */
  GCond taken, added, finished;
  Piece queue[QUEUE];
  guint head, n_queued;
  guint under_way; /* queued, being read or being copied */
  gboolean quit;
  guint64 done;  /* bytes */
  GError *error; /* of piece number failed_at; owned */
  guint64 failed_at;
};

H3Reader *
h3_reader_new (H3Device *device, const H3Stop *stop, H3ReaderProgress progress,
    gpointer user_data)
{
  H3Reader *reader = g_new0 (H3Reader, 1);

  reader->device = h3_device_ref (device);
  reader->stop = stop;
  reader->progress = progress;
  reader->user_data = user_data;
  reader->own.reader = reader;
  g_mutex_init (&reader->lock);
  g_cond_init (&reader->added);
  g_cond_init (&reader->taken);
  g_cond_init (&reader->finished);
  return reader;
}

/* Takes @error. The failure that counts is the one of the first piece: those
 * before it were all begun. */
static void
fail (H3Reader *reader, guint64 number, GError *error)
{
  g_mutex_lock (&reader->lock);
  if (!reader->error || number < reader->failed_at) {
    g_clear_error (&reader->error);
    reader->error = error;
    reader->failed_at = number;
  } else {
    g_error_free (error);
  }
  g_atomic_int_set (&reader->failed, TRUE);
  g_mutex_unlock (&reader->lock);
}

/* Pieces before the one that failed are read to their end, or it would be
 * chance which failure is found. */
static gboolean
is_dropped (H3Reader *reader, const Piece *piece)
{
  gboolean dropped;

  if (!g_atomic_int_get (&reader->failed))
    return FALSE;
  g_mutex_lock (&reader->lock);
  dropped = piece->number >= reader->failed_at;
  g_mutex_unlock (&reader->lock);
  return dropped;
}

/* --- one piece --- */

static H3DType
dtype_of (H3StoredType type)
{
  if (type == H3_STORED_F32)
    return H3_DTYPE_F32;
  if (type == H3_STORED_F16)
    return H3_DTYPE_F16;
  return type == H3_STORED_BF16 ? H3_DTYPE_BF16 : H3_DTYPE_U8;
}

static H3StoredType
stored_type_of (H3DType dtype)
{
  if (dtype == H3_DTYPE_F32)
    return H3_STORED_F32;
  return dtype == H3_DTYPE_F16 ? H3_STORED_F16 : H3_STORED_BF16;
}

/* What pieces are cut into: an element, or a byte of a block. */
static gsize
unit_size (H3StoredType type)
{
  return h3_stored_type_block (type) > 1 ? 1 : h3_stored_type_size (type);
}

/* At most @most units: whole blocks. */
static gint64
whole (H3StoredType type, gint64 most)
{
  gsize size = h3_stored_type_size (type);

  return h3_stored_type_block (type) > 1 ? most / size * size : most;
}

/* Elements from the first to the one whose value, or block, is @index units from
 * @first. */
static gint64
element_at (H3StoredType type, gint64 first, gsize index)
{
  guint block = h3_stored_type_block (type);

  return block > 1 ? (first / h3_stored_type_size (type) + index) * block
                   : first + index;
}

gboolean
h3_reader_read (const H3StoredTensor *source, gint64 first, gint64 n,
    gpointer dest, GError **error)
{
  gsize size = unit_size (source->type);
  gsize checked = n * size / h3_stored_type_size (source->type);
  gsize index;
  gfloat value = NAN;

  if (!h3_stored_tensor_read (source, first * size, n * size, dest, error))
    return FALSE;
  if (h3_stored_values_finite (source->type, dest, checked, &index))
    return TRUE;
  if (dtype_of (source->type) != H3_DTYPE_U8)
    h3_stored_values_widen (source->type, (const guint8 *) dest + index * size,
        1, &value);
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "%s: tensor %s: element %" G_GINT64_FORMAT " is %s; weights must be "
      "finite",
      source->path, source->name, element_at (source->type, first, index),
      h3_stored_type_block (source->type) > 1 ? "of a block whose scale is NaN "
                                                "or Inf"
      : isnan (value)                         ? "NaN"
                                              : "Inf");
  return FALSE;
}

/* What was finite has to be finite in the narrower type, too. */
static gboolean
check_rounded (const Piece *piece, gint64 first, gint64 n, gconstpointer values,
    GError **error)
{
  H3DType dtype = piece->dest->dtype;
  gsize index;

  if (h3_stored_values_finite (stored_type_of (dtype), values, n, &index))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "%s: tensor %s: element %" G_GINT64_FORMAT " is beyond what %s, in which "
      "%s computes here, can hold",
      piece->source->path, piece->source->name, first + (gint64) index,
      h3_dtype_name (dtype), piece->dest->device->name);
  return FALSE;
}

/* The numbers to @to, which has room for them in either type. Stored, they lie
 * at its end, so that converting forward overwrites none that is yet to be
 * converted. */
static gboolean
read_piece (H3Reader *reader, const Piece *piece, guint8 *to, GError **error)
{
  const H3StoredTensor *source = piece->source;
  H3DType dtype = piece->dest->dtype;
  gsize stored = unit_size (source->type);
  gsize final = h3_dtype_size (dtype);
  guint8 *from = to + piece->n * (MAX (stored, final) - stored);
  gint64 step = whole (source->type, STEP_BYTES / stored);

  for (gint64 i = 0; i < piece->n; i += step) {
    gint64 n = MIN (step, piece->n - i);

    if (is_dropped (reader, piece))
      return TRUE;
    if (!h3_reader_read (source, piece->first + i, n, from + i * stored, error))
      return FALSE;
    if (dtype_of (source->type) == dtype)
      continue;
    h3_stored_values_convert (source->type, from + i * stored, n,
        stored_type_of (dtype), to + i * final);
    if (!check_rounded (piece, piece->first + i, n, to + i * final, error))
      return FALSE;
  }
  return TRUE;
}

/* It has arrived, or failed, or was dropped. */
static void
finish_piece (H3Reader *reader, Piece *piece, GError *error)
{
  gsize bytes = piece->n * h3_dtype_size (piece->dest->dtype);

  if (error)
    fail (reader, piece->number, error);
  /* before it counts as finished: who waits for it may look at the memory */
  h3_tensor_unref (piece->dest);
  g_mutex_lock (&reader->lock);
  reader->done += bytes;
  reader->under_way--;
  g_cond_signal (&reader->finished);
  g_mutex_unlock (&reader->lock);
}

/* Waits until the copy out of it has run. */
static void
slot_finish (H3Reader *reader, Slot *slot)
{
  GError *error = NULL;

  if (!slot->busy)
    return;
  slot->busy = FALSE;
  if (!h3_stream_synchronize (slot->stream, &error))
    g_prefix_error (&error, "%s: tensor %s: ", slot->piece.source->path,
        slot->piece.source->name);
  finish_piece (reader, &slot->piece, error);
}

static gboolean
slot_prepare (H3Reader *reader, Slot *slot, GError **error)
{
  if (!slot->stream)
    slot->stream = h3_stream_new (reader->device, error);
  if (slot->stream && !slot->data)
    slot->data =
        reader->device->ops->alloc_host (reader->device, PIECE_BYTES, error);
  return slot->stream && slot->data;
}

static void
slot_clear (H3Reader *reader, Slot *slot)
{
  slot_finish (reader, slot);
  if (slot->data)
    reader->device->ops->free_host (reader->device, slot->data, PIECE_BYTES);
  slot->data = NULL;
  g_clear_pointer (&slot->stream, h3_stream_free);
}

/* Into the tensor. */
static void
read_directly (H3Reader *reader, Piece *piece)
{
  gsize size = h3_dtype_size (piece->dest->dtype);
  GError *error = NULL;

  read_piece (reader, piece,
      (guint8 *) piece->dest->data + piece->offset * size, &error);
  finish_piece (reader, piece, error);
}

static void
read_through_slot (Worker *worker, Piece *piece)
{
  H3Reader *reader = worker->reader;
  Slot *slot = &worker->slots[worker->turn++ % G_N_ELEMENTS (worker->slots)];
  GError *error = NULL;

  slot_finish (reader, slot);
  if (slot_prepare (reader, slot, &error) &&
      read_piece (reader, piece, slot->data, &error) &&
      !is_dropped (reader, piece)) {
    g_autoptr (H3Tensor) part =
        h3_tensor_view (piece->dest, piece->offset, 1, &piece->n);

    h3_upload (slot->stream, part, slot->data);
    slot->piece = *piece;
    slot->busy = TRUE;
  } else {
    finish_piece (reader, piece, error);
  }
}

/* Takes @piece. */
static void
run_piece (Worker *worker, Piece *piece)
{
  gboolean narrower =
      h3_dtype_size (piece->dest->dtype) < unit_size (piece->source->type);

  if (is_dropped (worker->reader, piece))
    finish_piece (worker->reader, piece, NULL);
  else if (worker->reader->device->host_memory && !narrower)
    read_directly (worker->reader, piece);
  else
    read_through_slot (worker, piece);
}

static void
worker_finish_slots (Worker *worker)
{
  /* the older one first */
  for (guint i = 0; i < G_N_ELEMENTS (worker->slots); i++)
    slot_finish (worker->reader,
        &worker->slots[(worker->turn + i) % G_N_ELEMENTS (worker->slots)]);
}

static void
worker_clear (Worker *worker)
{
  for (guint i = 0; i < G_N_ELEMENTS (worker->slots); i++)
    slot_clear (worker->reader, &worker->slots[i]);
}

/* --- threads --- */

/* The next piece; FALSE at the end. With nothing to read, what was copied is
 * finished first. */
static gboolean
take_piece (Worker *worker, Piece *piece)
{
  H3Reader *reader = worker->reader;
  gboolean taken = FALSE;

  g_mutex_lock (&reader->lock);
  if (reader->n_queued == 0) {
    g_mutex_unlock (&reader->lock);
    worker_finish_slots (worker);
    g_mutex_lock (&reader->lock);
  }
  while (reader->n_queued == 0 && !reader->quit)
    g_cond_wait (&reader->added, &reader->lock);
  if (reader->n_queued > 0) {
    *piece = reader->queue[reader->head];
    reader->head = (reader->head + 1) % QUEUE;
    reader->n_queued--;
    taken = TRUE;
    g_cond_signal (&reader->taken);
  }
  g_mutex_unlock (&reader->lock);
  return taken;
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  Piece piece;

  while (take_piece (worker, &piece))
    run_piece (worker, &piece);
  worker_clear (worker);
  return NULL;
}

static void
start_threads (H3Reader *reader)
{
  guint n = CLAMP (g_get_num_processors (), MIN_THREADS, MAX_THREADS);

  reader->workers = g_new0 (Worker, n);
  for (guint i = 0; i < n; i++) {
    Worker *worker = &reader->workers[i];

    worker->reader = reader;
    worker->thread = g_thread_try_new ("h3-read", work, worker, NULL);
    if (!worker->thread)
      break;
    reader->n_workers++;
  }
}

static void
stop_threads (H3Reader *reader)
{
  g_mutex_lock (&reader->lock);
  reader->quit = TRUE;
  g_cond_broadcast (&reader->added);
  g_mutex_unlock (&reader->lock);
  for (guint i = 0; i < reader->n_workers; i++)
    g_thread_join (reader->workers[i].thread);
  g_clear_pointer (&reader->workers, g_free);
  reader->n_workers = 0;
}

void
h3_reader_free (H3Reader *reader)
{
  if (!reader)
    return;
  g_atomic_int_set (&reader->failed, TRUE);
  g_mutex_lock (&reader->lock);
  reader->failed_at = 0;
  g_mutex_unlock (&reader->lock);
  stop_threads (reader);
  worker_clear (&reader->own);
  g_clear_error (&reader->error);
  g_cond_clear (&reader->finished);
  g_cond_clear (&reader->taken);
  g_cond_clear (&reader->added);
  g_mutex_clear (&reader->lock);
  h3_device_unref (reader->device);
  g_free (reader);
}

/* --- the calling thread --- */

/* With the lock, which it leaves meanwhile. */
static void
report (H3Reader *reader)
{
  guint64 done = reader->done;

  if (!reader->progress || done == reader->reported || reader->error)
    return;
  g_mutex_unlock (&reader->lock);
  reader->reported = done;
  reader->progress (done, reader->user_data);
  g_mutex_lock (&reader->lock);
}

/* FALSE when there is no use in going on. */
static gboolean
ask_stop (H3Reader *reader)
{
  GError *error = NULL;

  if (g_atomic_int_get (&reader->failed))
    return FALSE;
  if (!h3_stop_requested (reader->stop, &error))
    return TRUE;
  fail (reader, 0, error);
  return FALSE;
}

/* With the lock: waits a moment for @cond. */
static void
wait_a_moment (H3Reader *reader, GCond *cond)
{
  g_cond_wait_until (cond, &reader->lock, g_get_monotonic_time () + POLL_US);
  report (reader);
  g_mutex_unlock (&reader->lock);
  ask_stop (reader);
  g_mutex_lock (&reader->lock);
}

static void
enqueue (H3Reader *reader, const Piece *piece)
{
  gsize size = unit_size (piece->source->type);

  h3_stored_tensor_will_read (piece->source, piece->first * size,
      piece->n * size);
  g_mutex_lock (&reader->lock);
  while (reader->n_queued == QUEUE)
    wait_a_moment (reader, &reader->taken);
  reader->queue[(reader->head + reader->n_queued++) % QUEUE] = *piece;
  reader->under_way++;
  g_cond_signal (&reader->added);
  report (reader);
  g_mutex_unlock (&reader->lock);
}

static void
run_here (H3Reader *reader, Piece *piece)
{
  g_mutex_lock (&reader->lock);
  reader->under_way++;
  g_mutex_unlock (&reader->lock);
  run_piece (&reader->own, piece);
  g_mutex_lock (&reader->lock);
  report (reader);
  g_mutex_unlock (&reader->lock);
}

gboolean
h3_reader_add (H3Reader *reader, const H3StoredTensor *source, gint64 first,
    gint64 n, H3Tensor *dest, gint64 offset)
{
  gsize size = MAX (unit_size (source->type), h3_dtype_size (dest->dtype));
  gint64 most = whole (source->type, PIECE_BYTES / size);

  g_return_val_if_fail (dest->device == reader->device, FALSE);

  reader->bytes_added += n * size;
  if (!reader->workers && reader->bytes_added > THREADED_BYTES)
    start_threads (reader);
  for (gint64 i = 0; i < n && ask_stop (reader); i += most) {
    Piece piece = { .number = reader->n_added++,
      .source = source,
      .first = first + i,
      .n = MIN (most, n - i),
      .dest = h3_tensor_ref (dest),
      .offset = offset + i };

    if (reader->n_workers > 0)
      enqueue (reader, &piece);
    else
      run_here (reader, &piece);
  }
  return !g_atomic_int_get (&reader->failed);
}

gboolean
h3_reader_wait (H3Reader *reader, GError **error)
{
  gboolean ok;

  worker_finish_slots (&reader->own);
  g_mutex_lock (&reader->lock);
  while (reader->under_way > 0)
    wait_a_moment (reader, &reader->finished);
  report (reader);
  ok = !reader->error;
  if (!ok)
    g_propagate_error (error, g_error_copy (reader->error));
  g_mutex_unlock (&reader->lock);
  return ok;
}
