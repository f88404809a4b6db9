/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "media.h"

static gsize
stride (const Media *media)
{
  return GST_ROUND_UP_4 (3 * (gsize) media->width);
}

static gsize
frame_size (const Media *media)
{
  return stride (media) * media->height;
}

static Media *
media_new (gint width, gint height, guint n)
{
  Media *media = g_new0 (Media, 1);

  media->width = width;
  media->height = height;
  media->n = n;
  media->pixels = g_malloc0 (frame_size (media) * n);
  return media;
}

void
media_free (Media *media)
{
  g_free (media->pixels);
  g_free (media);
}

static Media *
media_from_sample (GstSample *sample)
{
  GstStructure *s = gst_caps_get_structure (gst_sample_get_caps (sample), 0);
  GstBuffer *buffer = gst_sample_get_buffer (sample);
  gint width, height;
  Media *media;

  g_assert_true (gst_structure_get_int (s, "width", &width));
  g_assert_true (gst_structure_get_int (s, "height", &height));
  media = media_new (width, height, 1);
  g_assert_cmpuint (gst_buffer_get_size (buffer), ==, frame_size (media));
  gst_buffer_extract (buffer, 0, media->pixels, frame_size (media));
  return media;
}

Media *
media_picture (const gchar *name)
{
  g_autofree gchar *file = g_strdup_printf ("tiny/golden/media/%s.png", name);
  g_autofree gchar *path = h3_test_golden_path (file);
  g_autofree gchar *launch =
      g_strdup_printf ("filesrc location=%s ! pngdec ! appsink name=sink "
                       "sync=false caps=video/x-raw,format=RGB",
          path);
  g_autoptr (GstElement) pipeline = gst_parse_launch (launch, NULL);
  g_autoptr (GstElement) sink = NULL;
  g_autoptr (GstSample) sample = NULL;
  Media *media;

  g_assert_nonnull (pipeline);
  gst_object_ref_sink (pipeline);
  sink = gst_bin_get_by_name (GST_BIN (pipeline), "sink");
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  g_signal_emit_by_name (sink, "pull-sample", &sample);
  if (!sample)
    g_error ("%s cannot be decoded", path);
  media = media_from_sample (sample);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  return media;
}

Media *
media_clip (void)
{
  gint64 shape[H3_STORED_MAX_RANK];
  gsize n;
  g_autofree gint32 *values =
      h3_test_golden_ints ("media.safetensors", "video_frames", &n);
  Media *media;

  g_assert_cmpuint (h3_test_golden_shape ("media.safetensors", "video_frames",
                        shape),
      ==, 4);
  media = media_new ((gint) shape[2], (gint) shape[1], (guint) shape[0]);
  g_assert_cmpuint (frame_size (media) * media->n, ==, n);
  for (gsize i = 0; i < n; i++)
    media->pixels[i] = (guint8) values[i];
  return media;
}

Media *
media_pattern (gint width, gint height, guint n)
{
  Media *media = media_new (width, height, n);

  for (gsize i = 0; i < frame_size (media) * n; i++)
    media->pixels[i] = (guint8) (i * 7 + i / 131);
  return media;
}

gchar *
media_caps (const Media *media, const gchar *framerate)
{
  return g_strdup_printf (MEDIA_CAPS, media->width, media->height, framerate);
}

GstBuffer *
media_buffer (const Media *media, guint i)
{
  return gst_buffer_new_memdup (media->pixels + i * frame_size (media),
      frame_size (media));
}
