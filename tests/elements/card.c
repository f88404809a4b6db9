/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "card.h"

#include "cpu/h3-cpu.h"

Card cards[N_CARDS];

static GMutex lock;
static const H3DeviceOps *cpu;
static H3DeviceOps ops;

static Card *
card_of (const H3Device *device)
{
  return &cards[device->ordinal];
}

static gpointer
card_alloc (H3Device *device, gsize bytes, GError **error)
{
  Card *card = card_of (device);
  gboolean fits;

  g_mutex_lock (&lock);
  fits =
      bytes <= card->capacity - card->used && !g_atomic_int_get (&card->refuse);
  if (fits)
    card->used += bytes;
  card->peak = MAX (card->peak, card->used);
  g_mutex_unlock (&lock);
  if (fits)
    return cpu->alloc (device, bytes, error);
  g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
      "%" G_GSIZE_FORMAT " bytes on a card that has used %" G_GSIZE_FORMAT
      " of %" G_GSIZE_FORMAT,
      bytes, card->used, card->capacity);
  return NULL;
}

static void
card_free (H3Device *device, gpointer data, gsize bytes)
{
  g_mutex_lock (&lock);
  card_of (device)->used -= bytes;
  g_mutex_unlock (&lock);
  cpu->free (device, data, bytes);
}

static void
card_memory_info (H3Device *device, guint64 *free_bytes, guint64 *total_bytes)
{
  Card *card = card_of (device);

  g_mutex_lock (&lock);
  *free_bytes = card->capacity - card->used;
  *total_bytes = card->capacity;
  g_mutex_unlock (&lock);
}

static gpointer
card_alloc_host (H3Device *device, gsize bytes, GError **error)
{
  Card *card = card_of (device);
  gboolean fits;

  g_mutex_lock (&lock);
  fits = bytes <= card->host_capacity - card->host_used;
  if (fits)
    card->host_used += bytes;
  g_mutex_unlock (&lock);
  if (fits)
    return cpu->alloc_host (device, bytes, error);
  g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE, "the host is full");
  return NULL;
}

static void
card_free_host (H3Device *device, gpointer data, gsize bytes)
{
  g_mutex_lock (&lock);
  card_of (device)->host_used -= bytes;
  g_mutex_unlock (&lock);
  cpu->free_host (device, data, bytes);
}

static void
card_upload (H3Stream *stream, H3Tensor *dst, gconstpointer src)
{
  card_of (stream->device)->uploads++;
  cpu->upload (stream, dst, src);
}

static void
card_download (H3Stream *stream, gpointer dst, const H3Tensor *src)
{
  card_of (stream->device)->downloads++;
  cpu->download (stream, dst, src);
}

static void
card_linear (H3Stream *stream, const H3LinearArgs *args)
{
  Card *card = card_of (stream->device);

  if (++card->products == card->break_after) {
    h3_device_fail (stream->device, "an illegal memory access");
    h3_stream_fail (stream, H3_ERROR_DEVICE,
        "linear on %s: an illegal memory "
        "access",
        stream->device->name);
  }
  cpu->linear (stream, args);
}

static void
begin (H3Stream *stream)
{
  Card *card = card_of (stream->device);

  if (card->begins)
    card->begins (card->user_data);
}

static void
end (H3Stream *stream)
{
  if (g_error_matches (stream->error, H3_ERROR, H3_ERROR_CANCELLED))
    g_atomic_int_inc (&card_of (stream->device)->cancelled);
}

static void
card_attention (H3Stream *stream, const H3AttentionArgs *args)
{
  begin (stream);
  cpu->attention (stream, args);
  end (stream);
}

static void
card_conv3d (H3Stream *stream, const H3Conv3dArgs *args)
{
  begin (stream);
  cpu->conv3d (stream, args);
  end (stream);
}

static H3Device *
open_card (gint ordinal, GError **error)
{
  H3Device *device;

  if (ordinal >= N_CARDS) {
    g_set_error (error, H3_ERROR, H3_ERROR_NOT_FOUND,
        "GPU %d was asked for, there are %d visible (0 .. %d)", ordinal,
        N_CARDS, N_CARDS - 1);
    return NULL;
  }
  device = h3_cpu_device_new (1, error);
  if (!device)
    return NULL;
  if (!cpu) {
    cpu = device->ops;
    ops = *cpu;
    ops.alloc = card_alloc;
    ops.free = card_free;
    ops.memory_info = card_memory_info;
    ops.alloc_host = card_alloc_host;
    ops.free_host = card_free_host;
    ops.upload = card_upload;
    ops.download = card_download;
    ops.linear = card_linear;
    ops.attention = card_attention;
    ops.conv3d = card_conv3d;
  }
  device->ops = &ops;
  device->ordinal = MAX (ordinal, 0);
  device->host_memory = FALSE;
  g_free (device->name);
  device->name = g_strdup_printf ("card:%d", device->ordinal);
  return device;
}

void
card_reset (Card *card, gsize capacity)
{
  card->capacity = capacity ? capacity : G_MAXSIZE / 2;
  card->host_capacity = G_MAXSIZE / 2;
  card->peak = card->used;
  card->uploads = card->downloads = card->products = card->break_after = 0;
  card->refuse = FALSE;
  card->begins = NULL;
  card->cancelled = 0;
}

void
cards_insert (void)
{
  for (guint i = 0; i < N_CARDS; i++)
    card_reset (&cards[i], 0);
  gst_h3_runtime_set_open_device (open_card);
}
