/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gst/gsth3src-decoders.h"

#include <string.h>

/* Only jpegparse reads how a camera was held, and up to GStreamer 1.22 it must be
 * asked for. NULL: the order stays. */
G_GNUC_BEGIN_IGNORE_DEPRECATIONS
static GValueArray *
sort_decoders (GstElement *decode, GstPad *pad, GstCaps *caps,
    GValueArray *factories, gpointer data)
{
  const GstStructure *s = gst_caps_get_structure (caps, 0);
  g_autoptr (GstElementFactory) parser = NULL;
  GValueArray *sorted;
  GValue value = G_VALUE_INIT;

  if (!gst_structure_has_name (s, "image/jpeg") ||
      gst_structure_has_field (s, "parsed") ||
      !(parser = gst_element_factory_find ("jpegparse")))
    return NULL;
  g_value_init (&value, G_TYPE_OBJECT);
  g_value_set_object (&value, parser);
  sorted = g_value_array_copy (factories);
  g_value_array_prepend (sorted, &value);
  g_value_unset (&value);
  return sorted;
}
G_GNUC_END_IGNORE_DEPRECATIONS

/* --- 16-bit PNG --- */

/* Up to GStreamer 1.22 at least, pngdec writes 16-bit colours without alpha one
 * component too far: in place of A R G B it has ? A R G, B in the next pixel. */

#define COMPONENTS 4
#define OPAQUE 0xffff

/* Whether what goes into the decoder begins a PNG of 16 bits and three colours,
 * by its header. */
static GstPadProbeReturn
look_at_header (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  static const guint8 begins[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a,
    '\n' };
  gint *is_rgb16 = data;
  guint8 head[26];

  if (gst_buffer_extract (GST_PAD_PROBE_INFO_BUFFER (info), 0, head,
          sizeof head) == sizeof head &&
      memcmp (head, begins, sizeof begins) == 0)
    g_atomic_int_set (is_rgb16, head[24] == 16 && head[25] == 2);
  return GST_PAD_PROBE_OK;
}

/* The alpha, which is OPAQUE everywhere, is where red should be, and not where it
 * should be. What is in front of the first pixel was never written. */
static gboolean
is_shifted (const guint16 *v, gsize n)
{
  gboolean in_place = TRUE;

  for (gsize i = 0; i + 1 < n; i += COMPONENTS) {
    if (v[i + 1] != OPAQUE)
      return FALSE;
    in_place &= i == 0 || v[i] == OPAQUE;
  }
  return !in_place;
}

/* The very last component was lost; the pixel beside it has one much like it. */
static void
shift_back (guint16 *v, gsize n)
{
  memmove (v, v + 1, (n - 1) * sizeof *v);
  v[n - 1] = n > COMPONENTS ? v[n - 1 - COMPONENTS] : v[n - 2];
}

static GstPadProbeReturn
mend (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  g_autoptr (GstCaps) caps = gst_pad_get_current_caps (pad);
  GstBuffer *buffer;
  GstMapInfo map;

  if (!g_atomic_int_get ((gint *) data) || !caps ||
      g_strcmp0 (gst_structure_get_string (gst_caps_get_structure (caps, 0),
                     "format"),
          "ARGB64") != 0)
    return GST_PAD_PROBE_OK;
  buffer = gst_buffer_make_writable (GST_PAD_PROBE_INFO_BUFFER (info));
  GST_PAD_PROBE_INFO_DATA (info) = buffer;
  if (gst_buffer_map (buffer, &map, GST_MAP_READWRITE)) {
    gsize n = map.size / sizeof (guint16);

    if (is_shifted ((const guint16 *) map.data, n))
      shift_back ((guint16 *) map.data, n);
    gst_buffer_unmap (buffer, &map);
  }
  return GST_PAD_PROBE_OK;
}

static void
watch_png (GstElement *element)
{
  g_autoptr (GstPad) sink = gst_element_get_static_pad (element, "sink");
  g_autoptr (GstPad) src = gst_element_get_static_pad (element, "src");
  gint *is_rgb16 = g_new0 (gint, 1); /* atomic */

  g_object_set_data_full (G_OBJECT (element), "h3-is-rgb16", is_rgb16, g_free);
  gst_pad_add_probe (sink, GST_PAD_PROBE_TYPE_BUFFER, look_at_header, is_rgb16,
      NULL);
  gst_pad_add_probe (src, GST_PAD_PROBE_TYPE_BUFFER, mend, is_rgb16, NULL);
}

/* --- all of them --- */

/* jpegdec's default is fast and off by up to 12 of 255; the reference decodes
 * precisely. */
static void
decoder_added (GstBin *bin, GstBin *parent, GstElement *element, gpointer data)
{
  GstElementFactory *factory = gst_element_get_factory (element);
  const gchar *name = factory ? GST_OBJECT_NAME (factory) : "";

  if (g_str_equal (name, "jpegdec"))
    gst_util_set_object_arg (G_OBJECT (element), "idct-method", "islow");
  else if (g_str_equal (name, "pngdec"))
    watch_png (element);
}

void
gst_h3_src_set_up_decoders (GstElement *decode)
{
  g_signal_connect (decode, "autoplug-sort", G_CALLBACK (sort_decoders), NULL);
  g_signal_connect (decode, "deep-element-added", G_CALLBACK (decoder_added),
      NULL);
}
