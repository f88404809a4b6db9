/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* h3videovae: golden frames, formats, strides, timeline, errors. */
#include <gst/video/video.h>
#include <math.h>

#include "decoder-test.h"

#define T2VA "request_t2va.safetensors"       /* 96x64, 22 frames */
#define T2VA_39 "request_t2va_39.safetensors" /* 64x96, 39 frames */

static GBytes *
decode_bytes (Decoder *decoder, const Latent *latent)
{
  g_autoptr (GPtrArray) frames = NULL;

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  frames = decoder_pull_all (decoder);
  return buffers_bytes (frames);
}

static GBytes *
decode_as (const Latent *latent, const gchar *format)
{
  g_autofree gchar *caps = g_strdup_printf ("video/x-raw,format=%s", format);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", caps, NULL);

  return decode_bytes (decoder, latent);
}

static guint8
at (GBytes *bytes, gsize i)
{
  gsize n;
  const guint8 *data = g_bytes_get_data (bytes, &n);

  g_assert_cmpuint (i, <, n);
  return data[i];
}

static void
check_golden (const gchar *file, gint frames)
{
  g_autoptr (Latent) latent = latent_video (file);
  g_autoptr (Decoder) decoder =
      decoder_new ("h3videovae", "video/x-raw,format=RGB", NULL);
  g_autoptr (GPtrArray) buffers = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GstCaps) caps = NULL;
  gsize n;
  g_autofree gint32 *want = h3_test_golden_ints (file, "video_u8", &n);

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  buffers = decoder_pull_all (decoder);
  g_assert_cmpuint (buffers->len, ==, frames);
  buffers_check_timeline (buffers, 0, 0, 24, 0);
  bytes = buffers_bytes (buffers);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, n);
  h3_test_assert_codes (g_bytes_get_data (bytes, NULL), want, n);
}

static void
test_golden (void)
{
  check_golden (T2VA, 22);
  check_golden (T2VA_39, 39);
}

static void
test_caps (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  g_autoptr (GstCaps) got = NULL;
  g_autoptr (GstCaps) want = gst_caps_from_string (
      "video/x-raw,format=NV12,width=96,height=64,framerate=24/1,"
      "pixel-aspect-ratio=1/1,interlace-mode=progressive,colorimetry=bt709,"
      "chroma-site=mpeg2");

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  got = gst_pad_get_current_caps (decoder->harness->sinkpad);
  g_assert_true (gst_caps_is_equal (got, want));
}

/* An encoder's own order of formats must not give 4:4:4. */
static void
test_format_preference (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder =
      decoder_new ("h3videovae", "video/x-raw,format={Y444,I420,NV12}", NULL);
  g_autoptr (GstCaps) got = NULL;
  GstVideoInfo info;

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  got = gst_pad_get_current_caps (decoder->harness->sinkpad);
  g_assert_true (gst_video_info_from_caps (&info, got));
  g_assert_cmpint (GST_VIDEO_INFO_FORMAT (&info), ==, GST_VIDEO_FORMAT_NV12);
}

static void
test_size_query (void)
{
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae",
      "video/x-raw,format=I420,width=[100,200],height=64", NULL);
  GstPad *pad = gst_element_get_static_pad (decoder->element, "sink");
  g_autoptr (GstCaps) caps = gst_pad_query_caps (pad, NULL);
  g_autoptr (GstCaps) fits = gst_caps_from_string (
      "application/x-h3-latent,modality=video,type=float32,channels=4,frames=7,"
      "height=4,width=12,framerate=24/1");
  g_autoptr (GstCaps) too_wide = gst_caps_copy (fits);

  gst_object_unref (pad);
  gst_caps_set_simple (too_wide, "width", G_TYPE_INT, 13, NULL);
  g_assert_true (gst_caps_can_intersect (caps, fits));
  g_assert_false (gst_caps_can_intersect (caps, too_wide));
}

/* Formats, against a conversion of the RGB frames that only knows BT.709 */

typedef struct {
  gdouble y, cb, cr;
} Ycc;

static Ycc
ycc_of (GBytes *rgb, gint frame, gint x, gint y)
{
  gsize i = ((frame * 64 + y) * 96 + x) * 3;
  gdouble r = at (rgb, i) / 255.0, g = at (rgb, i + 1) / 255.0,
          b = at (rgb, i + 2) / 255.0;
  gdouble luma = 0.2126 * r + 0.7152 * g + 0.0722 * b;

  return (Ycc){ 16 + 219 * luma, 128 + 224 * (b - luma) / 1.8556,
    128 + 224 * (r - luma) / 1.5748 };
}

/* Left-sited chroma of a 2x2 block: 1-2-1 around the left column. */
static Ycc
chroma_of (GBytes *rgb, gint frame, gint cx, gint cy)
{
  static const gint weight[3] = { 1, 2, 1 };
  Ycc sum = { 0 };

  for (gint row = 0; row < 2; row++) {
    for (gint k = 0; k < 3; k++) {
      gint x = CLAMP (2 * cx + k - 1, 0, 95);
      Ycc one = ycc_of (rgb, frame, x, 2 * cy + row);
      sum.cb += one.cb * weight[k] / 8;
      sum.cr += one.cr * weight[k] / 8;
    }
  }
  return sum;
}

/* The RGB was rounded, and the YUV is: a code and a half. */
static void
assert_code (guint8 got, gdouble want)
{
  g_assert_cmpfloat (fabs (got - want), <=, 1.5);
}

static void
test_formats (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (GBytes) rgb = decode_as (latent, "RGB");
  g_autoptr (GBytes) rgba = decode_as (latent, "RGBA");
  g_autoptr (GBytes) y444 = decode_as (latent, "Y444");
  g_autoptr (GBytes) i420 = decode_as (latent, "I420");
  g_autoptr (GBytes) nv12 = decode_as (latent, "NV12");
  const gsize area = 96 * 64, f420 = area * 3 / 2;

  g_assert_cmpuint (g_bytes_get_size (rgb), ==, 22 * area * 3);
  g_assert_cmpuint (g_bytes_get_size (rgba), ==, 22 * area * 4);
  g_assert_cmpuint (g_bytes_get_size (y444), ==, 22 * area * 3);
  g_assert_cmpuint (g_bytes_get_size (i420), ==, 22 * f420);
  g_assert_cmpuint (g_bytes_get_size (nv12), ==, 22 * f420);

  for (gsize i = 0; i < 22 * area; i++) {
    for (gint c = 0; c < 3; c++)
      g_assert_cmpint (at (rgba, 4 * i + c), ==, at (rgb, 3 * i + c));
    g_assert_cmpint (at (rgba, 4 * i + 3), ==, 255);
  }
  for (gint f = 0; f < 22; f += 7) {
    for (gint y = 0; y < 64; y++) {
      for (gint x = 0; x < 96; x++) {
        Ycc want = ycc_of (rgb, f, x, y);
        gsize i = y * 96 + x;
        assert_code (at (y444, f * 3 * area + i), want.y);
        assert_code (at (y444, (f * 3 + 1) * area + i), want.cb);
        assert_code (at (y444, (f * 3 + 2) * area + i), want.cr);
        assert_code (at (i420, f * f420 + i), want.y);
        assert_code (at (nv12, f * f420 + i), want.y);
      }
    }
    for (gint y = 0; y < 32; y++) {
      for (gint x = 0; x < 48; x++) {
        Ycc want = chroma_of (rgb, f, x, y);
        gsize i = f * f420 + area + y * 48 + x;
        assert_code (at (i420, i), want.cb);
        assert_code (at (i420, i + area / 4), want.cr);
        i = f * f420 + area + y * 96 + 2 * x;
        assert_code (at (nv12, i), want.cb);
        assert_code (at (nv12, i + 1), want.cr);
      }
    }
  }
}

static void
test_quantize (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae",
      "video/x-raw,format=RGB", "quantize", "trunc", NULL);
  g_autoptr (GBytes) rounded = decode_as (latent, "RGB");
  g_autoptr (GBytes) cut = decode_bytes (decoder, latent);
  gsize n = g_bytes_get_size (rounded), less = 0;

  g_assert_cmpuint (g_bytes_get_size (cut), ==, n);
  for (gsize i = 0; i < n; i++) {
    gint difference = at (rounded, i) - at (cut, i);
    g_assert_cmpint (difference, >=, 0);
    g_assert_cmpint (difference, <=, 1);
    less += difference;
  }
  /* half of them */
  g_assert_cmpuint (less, >, n / 4);
  g_assert_cmpuint (less, <, n * 3 / 4);
}

/* A pool downstream whose rows are wider than the picture */

static GstPadProbeReturn
answer_allocation (GstPad *pad, GstPadProbeInfo *info, gpointer user_data)
{
  GstQuery *query = GST_PAD_PROBE_INFO_QUERY (info);
  GstVideoAlignment align;
  GstBufferPool *pool;
  GstStructure *config;
  GstVideoInfo video;
  GstCaps *caps;

  if (GST_QUERY_TYPE (query) != GST_QUERY_ALLOCATION)
    return GST_PAD_PROBE_OK;
  gst_query_parse_allocation (query, &caps, NULL);
  g_assert_true (gst_video_info_from_caps (&video, caps));
  gst_video_alignment_reset (&align);
  align.padding_right = 20;
  align.padding_bottom = 6;
  align.padding_left = 32;
  pool = gst_video_buffer_pool_new ();
  config = gst_buffer_pool_get_config (pool);
  gst_buffer_pool_config_set_params (config, caps, video.size, 2, 0);
  gst_buffer_pool_config_add_option (config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  gst_buffer_pool_config_add_option (config,
      GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
  gst_buffer_pool_config_set_video_alignment (config, &align);
  g_assert_true (gst_buffer_pool_set_config (pool, config));
  gst_query_add_allocation_pool (query, pool, video.size, 2, 0);
  gst_query_add_allocation_meta (query, GST_VIDEO_META_API_TYPE, NULL);
  gst_object_unref (pool);
  return GST_PAD_PROBE_HANDLED;
}

static void
check_padded (const gchar *format)
{
  g_autofree gchar *caps_text =
      g_strdup_printf ("video/x-raw,format=%s", format);
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", caps_text, NULL);
  g_autoptr (GBytes) want = decode_as (latent, format);
  g_autoptr (GPtrArray) frames = NULL;
  g_autoptr (GstCaps) caps = NULL;
  GstVideoInfo info;
  gsize plain = 0;

  gst_pad_add_probe (decoder->harness->sinkpad,
      GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM | GST_PAD_PROBE_TYPE_PUSH,
      answer_allocation, NULL, NULL);
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  frames = decoder_pull_all (decoder);
  g_assert_cmpuint (frames->len, ==, 22);
  caps = gst_pad_get_current_caps (decoder->harness->sinkpad);
  g_assert_true (gst_video_info_from_caps (&info, caps));

  for (guint f = 0; f < frames->len; f++) {
    GstVideoFrame frame;

    g_assert_true (gst_video_frame_map (&frame, &info,
        g_ptr_array_index (frames, f), GST_MAP_READ));
    g_assert_cmpint (GST_VIDEO_FRAME_PLANE_STRIDE (&frame, 0), >,
        GST_VIDEO_INFO_PLANE_STRIDE (&info, 0));
    for (guint p = 0; p < GST_VIDEO_FRAME_N_PLANES (&frame); p++) {
      gint rows = GST_VIDEO_INFO_COMP_HEIGHT (&info, p);
      gint row_bytes = GST_VIDEO_INFO_PLANE_STRIDE (&info, p);

      for (gint y = 0; y < rows; y++) {
        const guint8 *row =
            (guint8 *) GST_VIDEO_FRAME_PLANE_DATA (&frame, p) +
            (gsize) y * GST_VIDEO_FRAME_PLANE_STRIDE (&frame, p);
        for (gint x = 0; x < row_bytes; x++, plain++)
          g_assert_cmpint (row[x], ==, at (want, plain));
      }
    }
    gst_video_frame_unmap (&frame);
  }
  g_assert_cmpuint (plain, ==, g_bytes_get_size (want));
}

static void
test_strides (void)
{
  check_padded ("NV12");
  check_padded ("I420");
  check_padded ("Y444");
  check_padded ("RGB");
  check_padded ("RGBA");
}

/* Timeline */

static void
test_two_clips (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  g_autoptr (GPtrArray) frames = NULL;
  g_autoptr (GstEvent) segment = NULL;

  for (gint i = 0; i < 4; i++)
    g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  frames = decoder_pull_all (decoder);
  g_assert_cmpuint (frames->len, ==, 88);
  g_assert_cmpuint (buffers_check_timeline (frames, 0, 0, 24, 0), ==, 88);
  for (guint i = 0; i < 22; i++) {
    g_autoptr (GPtrArray) a = g_ptr_array_new (), b = g_ptr_array_new ();
    g_autoptr (GBytes) first = NULL, last = NULL;

    g_ptr_array_add (a, g_ptr_array_index (frames, i));
    g_ptr_array_add (b, g_ptr_array_index (frames, 66 + i));
    first = buffers_bytes (a);
    last = buffers_bytes (b);
    g_assert_true (g_bytes_equal (first, last));
    g_assert_cmpint (GST_BUFFER_IS_DISCONT ((GstBuffer *) a->pdata[0]), ==,
        i == 0);
    g_assert_false (GST_BUFFER_IS_DISCONT ((GstBuffer *) b->pdata[0]));
  }
}

static void
test_caps_change (void)
{
  g_autoptr (Latent) wide = latent_video (T2VA);
  g_autoptr (Latent) high = latent_video (T2VA_39);
  g_autoptr (Decoder) decoder =
      decoder_new ("h3videovae", "video/x-raw,format=RGB", NULL);
  g_autoptr (GBytes) want_wide = decode_as (wide, "RGB");
  g_autoptr (GBytes) want_high = decode_as (high, "RGB");
  g_autoptr (GBytes) got_wide = decode_bytes (decoder, wide);
  g_autoptr (GPtrArray) frames = NULL;
  g_autoptr (GBytes) got_high = NULL, got_again = NULL;

  g_assert_cmpint (decoder_push (decoder, high), ==, GST_FLOW_OK);
  frames = decoder_pull_all (decoder);
  g_assert_cmpuint (GST_BUFFER_OFFSET (g_ptr_array_index (frames, 0)), ==, 22);
  got_high = buffers_bytes (frames);
  got_again = decode_bytes (decoder, wide);
  g_assert_true (g_bytes_equal (got_wide, want_wide));
  g_assert_true (g_bytes_equal (got_high, want_high));
  g_assert_true (g_bytes_equal (got_again, want_wide));
}

/* A latent's own time counts where the timeline begins and at a DISCONT. */
static void
test_timestamps (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  static const struct {
    GstClockTime in;
    gboolean discont;
    GstClockTime out;
  } clips[] = {
    { 5 * GST_SECOND, FALSE, 5 * GST_SECOND },
    /* a little off: no gap */
    { 5 * GST_SECOND + 900 * GST_MSECOND, FALSE, 5916666666 },
    { 60 * GST_SECOND, TRUE, 60 * GST_SECOND },
  };

  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, FALSE));
  for (guint i = 0; i < G_N_ELEMENTS (clips); i++) {
    GstBuffer *buffer = latent_buffer (latent);
    g_autoptr (GPtrArray) frames = NULL;

    GST_BUFFER_PTS (buffer) = clips[i].in;
    if (clips[i].discont)
      GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
    g_assert_cmpint (gst_harness_push (decoder->harness, buffer), ==,
        GST_FLOW_OK);
    frames = decoder_pull_all (decoder);
    g_assert_cmpuint (GST_BUFFER_PTS (frames->pdata[0]), ==, clips[i].out);
    g_assert_cmpuint (GST_BUFFER_OFFSET (frames->pdata[0]), ==, 22 * i);
    g_assert_cmpint (GST_BUFFER_IS_DISCONT ((GstBuffer *) frames->pdata[0]), ==,
        i != 1);
  }
}

static void
test_flush (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA_39);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  g_autoptr (GBytes) want = decode_as (latent, "NV12");

  decoder_check_flush (decoder, latent, 3, want);
  decoder_check_flush (decoder, latent, 20, want);
}

/* Memory, metadata, messages */

static void
test_device_memory (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  g_autoptr (GBytes) want = decode_as (latent, "NV12");
  g_autoptr (GPtrArray) frames = NULL;
  g_autoptr (GBytes) got = NULL;

  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, TRUE));
  g_assert_cmpint (gst_harness_push (decoder->harness,
                       latent_device_buffer (latent)),
      ==, GST_FLOW_OK);
  frames = decoder_pull_all (decoder);
  got = buffers_bytes (frames);
  g_assert_true (g_bytes_equal (got, want));
}

static void
test_job_and_tags (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  g_autoptr (GstStructure) job = gst_structure_new ("job", "job", G_TYPE_UINT64,
      (guint64) 7, "seed", G_TYPE_UINT64, (guint64) 440204, NULL);
  g_autoptr (GPtrArray) frames = NULL;
  GstBuffer *buffer = latent_buffer (latent);
  GstEvent *event;
  gboolean tags = FALSE;

  gst_h3_buffer_add_job (buffer, job);
  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, FALSE));
  gst_harness_push_event (decoder->harness,
      gst_event_new_tag (
          gst_tag_list_new (GST_TAG_DESCRIPTION, "a fox", NULL)));
  g_assert_cmpint (gst_harness_push (decoder->harness, buffer), ==,
      GST_FLOW_OK);
  while ((event = gst_harness_try_pull_event (decoder->harness))) {
    tags |= GST_EVENT_TYPE (event) == GST_EVENT_TAG;
    gst_event_unref (event);
  }
  g_assert_true (tags);
  frames = decoder_pull_all (decoder);
  for (guint i = 0; i < frames->len; i++) {
    const GstStructure *got = gst_h3_buffer_get_job (frames->pdata[i]);
    guint64 seed;
    g_assert_nonnull (got);
    g_assert_true (gst_structure_get_uint64 (got, "seed", &seed));
    g_assert_cmpuint (seed, ==, 440204);
  }
}

static void
test_progress (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  GstMessage *message;
  guint started = 0, completed = 0;

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  while (
      (message = gst_bus_pop_filtered (decoder->bus, GST_MESSAGE_PROGRESS))) {
    GstProgressType type;
    g_autofree gchar *code = NULL, *text = NULL;

    gst_message_parse_progress (message, &type, &code, &text);
    if (g_str_equal (code, "h3-decode")) {
      started += type == GST_PROGRESS_TYPE_START;
      completed += type == GST_PROGRESS_TYPE_COMPLETE;
    }
    gst_message_unref (message);
  }
  g_assert_cmpuint (started, ==, 1);
  g_assert_cmpuint (completed, ==, 1);
}

static void
test_stats (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  g_autoptr (GstStructure) stats = NULL;
  guint64 clips, frames, peak;

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  g_object_get (decoder->element, "stats", &stats, NULL);
  g_assert_true (gst_structure_get_uint64 (stats, "clips", &clips));
  g_assert_true (gst_structure_get_uint64 (stats, "frames", &frames));
  g_assert_true (gst_structure_get_uint64 (stats, "peak-bytes", &peak));
  g_assert_cmpuint (clips, ==, 2);
  g_assert_cmpuint (frames, ==, 44);
  g_assert_cmpuint (peak, >, 0);
}

static void
test_properties (void)
{
  g_autoptr (GstElement) element =
      gst_element_factory_make ("h3videovae", NULL);
  gint composition, quantize;
  gboolean qos;

  gst_object_ref_sink (element);
  g_object_get (element, "composition", &composition, "quantize", &quantize,
      "qos", &qos, NULL);
  g_assert_cmpint (composition, ==, 0);
  g_assert_cmpint (quantize, ==, 0);
  g_assert_false (qos);
  gst_util_set_object_arg (G_OBJECT (element), "composition", "composited");
  g_object_get (element, "composition", &composition, NULL);
  g_assert_cmpint (composition, ==, 1);
}

/* State */

static void
test_cycles (void)
{
  decoder_check_cycles ("h3videovae", 100);
}

static void
test_eos (void)
{
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);

  g_assert_true (
      gst_harness_push_event (decoder->harness, gst_event_new_eos ()));
  g_assert_cmpuint (decoder_count_messages (decoder,
                        GST_MESSAGE_ERROR | GST_MESSAGE_WARNING),
      ==, 0);
}

static void
test_unlinked (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  GstPad *pad = gst_element_get_static_pad (decoder->element, "src");

  gst_pad_unlink (pad, decoder->harness->sinkpad);
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_NOT_LINKED);
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_NOT_LINKED);
  g_assert_cmpuint (decoder_count_messages (decoder, GST_MESSAGE_ERROR), ==, 0);
  gst_pad_link (pad, decoder->harness->sinkpad);
  gst_object_unref (pad);
}

/* Errors */

static void
check_bad_caps (const gchar *field, GType type, gint value, const gchar *text)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  GstCaps *caps = latent_caps (latent, FALSE);

  if (type == G_TYPE_INVALID)
    gst_structure_remove_field (gst_caps_get_structure (caps, 0), field);
  else
    gst_caps_set_simple (caps, field, type, value, NULL);
  gst_harness_set_src_caps (decoder->harness, gst_caps_ref (caps));
  g_assert_cmpint (gst_harness_push (decoder->harness, latent_buffer (latent)),
      ==, GST_FLOW_NOT_NEGOTIATED);
  gst_caps_unref (caps);
  decoder_assert_error (decoder, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      text);
}

static void
test_bad_caps (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae",
      "video/x-raw,format=NV12,width=96,height=65", NULL);
  g_autoptr (GstCaps) caps = latent_caps (latent, FALSE);

  check_bad_caps ("channels", G_TYPE_INT, 5, "channels=5");
  check_bad_caps ("height", G_TYPE_INT, 1 << 20, "height");
  check_bad_caps ("height", G_TYPE_INT, (1 << 28) + 4,
      "height"); /* times 16: 64 */
  check_bad_caps ("frames", G_TYPE_INT, 0, "frames");
  check_bad_caps ("width", G_TYPE_INVALID, 0, "width");

  /* nothing decodes to an odd height */
  gst_harness_set_src_caps (decoder->harness, gst_caps_ref (caps));
  g_assert_cmpint (gst_harness_push (decoder->harness, latent_buffer (latent)),
      ==, GST_FLOW_NOT_NEGOTIATED);
  decoder_assert_error (decoder, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      "height=(int)65");
}

static void
test_truncated (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  g_autoptr (GPtrArray) frames = NULL;

  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, FALSE));
  g_assert_cmpint (gst_harness_push (decoder->harness,
                       gst_buffer_new_memdup (latent->data, latent->bytes - 4)),
      ==, GST_FLOW_ERROR);
  decoder_assert_error (decoder, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      "bytes");
  frames = decoder_pull_all (decoder);
  g_assert_cmpuint (frames->len, ==, 0);
  g_clear_pointer (&frames, g_ptr_array_unref);

  /* and the next one is fine */
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  frames = decoder_pull_all (decoder);
  g_assert_cmpuint (frames->len, ==, 22);
}

static void
test_nan (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder =
      decoder_new ("h3videovae", "video/x-raw,format=RGB", NULL);
  g_autoptr (GPtrArray) frames = NULL;
  g_autoptr (GstMessage) warning = NULL;
  g_autoptr (GBytes) bytes = NULL;

  for (guint i = 0; i < latent->bytes / sizeof (gfloat); i++)
    latent->data[i] = NAN;
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  warning = decoder_pop (decoder, GST_MESSAGE_WARNING);
  g_assert_cmpuint (decoder_count_messages (decoder, GST_MESSAGE_WARNING), ==,
      0);
  frames = decoder_pull_all (decoder);
  g_assert_cmpuint (frames->len, ==, 22);
  bytes = buffers_bytes (frames);
  for (gsize i = 0; i < g_bytes_get_size (bytes); i++)
    g_assert_cmpint (at (bytes, i), ==, 0);
}

/* Files */

static void
check_file (const gchar *dir, gsize bytes, guint clips)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autofree gchar *path = g_build_filename (dir, "latent", NULL);
  g_autoptr (GstCaps) fixed = latent_caps (latent, FALSE);
  g_autofree gchar *caps = gst_caps_to_string (fixed);
  g_autofree gchar *launch =
      g_strdup_printf ("filesrc location=%s ! %s ! h3videovae model-path=%s ! "
                       "fakesink name=sink sync=false",
          path, caps, h3_test_tiny_dir ());
  g_autofree guint8 *data = g_malloc (2 * latent->bytes);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) got = NULL;

  memcpy (data, latent->data, latent->bytes);
  memcpy (data + latent->bytes, latent->data, latent->bytes);
  h3_test_write_file (path, data, bytes);
  got = pipeline_bytes (launch, &error);
  g_assert_cmpuint (g_bytes_get_size (got), ==, clips * 22 * 96 * 64 * 3 / 2);
  if (bytes == clips * latent->bytes)
    g_assert_no_error (error);
  else
    g_assert_error (error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT);
}

static void
test_file (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autoptr (Latent) latent = latent_video (T2VA);

  check_file (dir, 2 * latent->bytes, 2);
  check_file (dir, latent->bytes, 1);
  check_file (dir, 2 * latent->bytes - 1, 1);
  check_file (dir, 100, 0);
  h3_test_remove_tree (dir);
}

/* CUDA memory */

static guint
count_cuda_caps (const GstCaps *caps)
{
  guint n = 0;

  for (guint i = 0; i < gst_caps_get_size (caps); i++)
    n += gst_caps_features_contains (gst_caps_get_features (caps, i),
        "memory:CUDAMemory");
  return n;
}

/* First, so that an encoder that takes both gets it; in a build that has it. */
static void
test_cuda_template (void)
{
  g_autoptr (GstElement) element =
      gst_object_ref_sink (gst_element_factory_make ("h3videovae", NULL));
  g_autoptr (GstPad) pad = gst_element_get_static_pad (element, "src");
  g_autoptr (GstCaps) caps = gst_pad_get_pad_template_caps (pad);
  guint n = count_cuda_caps (caps);

#ifdef H3_HAVE_GSTCUDA
  g_assert_cmpuint (n, ==, 3);
  g_assert_cmpuint (gst_caps_get_size (caps), ==, 6);
#else
  g_assert_cmpuint (n, ==, 0);
  g_assert_cmpuint (gst_caps_get_size (caps), ==, 3);
#endif
  for (guint i = 0; i < gst_caps_get_size (caps); i++)
    g_assert_true (gst_caps_features_contains (gst_caps_get_features (caps, i),
                       "memory:CUDAMemory") == (i < n));
}

/* On the CPU there is none: not offered, and a context is nobody's to ask for. */
static void
test_cuda_on_cpu (void)
{
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae", NULL, NULL);
  g_autoptr (GstPad) pad = gst_element_get_static_pad (decoder->element, "src");
  g_autoptr (GstCaps) caps = gst_pad_query_caps (pad, NULL);
  g_autoptr (GstQuery) query = gst_query_new_context ("gst.cuda.context");
  g_autoptr (GstContext) context = gst_context_new ("gst.cuda.context", TRUE);

  g_assert_false (gst_caps_is_empty (caps));
  g_assert_cmpuint (count_cuda_caps (caps), ==, 0);
  g_assert_false (gst_pad_query (pad, query));
  gst_element_set_context (decoder->element, context);
}

/* Who takes nothing else gets an error that says so. */
static void
test_cuda_refused (void)
{
  g_autoptr (Latent) latent = latent_video (T2VA);
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae",
      "video/x-raw(memory:CUDAMemory),format=NV12", NULL);

  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_NOT_NEGOTIATED);
  decoder_assert_error (decoder, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
      "memory:CUDAMemory");
}

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  if (h3_test_skip_program ())
    return 0;
  g_test_add_func ("/videovae/golden", test_golden);
  g_test_add_func ("/videovae/caps", test_caps);
  g_test_add_func ("/videovae/format-preference", test_format_preference);
  g_test_add_func ("/videovae/size-query", test_size_query);
  g_test_add_func ("/videovae/formats", test_formats);
  g_test_add_func ("/videovae/quantize", test_quantize);
  g_test_add_func ("/videovae/strides", test_strides);
  g_test_add_func ("/videovae/two-clips", test_two_clips);
  g_test_add_func ("/videovae/caps-change", test_caps_change);
  g_test_add_func ("/videovae/timestamps", test_timestamps);
  g_test_add_func ("/videovae/flush", test_flush);
  g_test_add_func ("/videovae/device-memory", test_device_memory);
  g_test_add_func ("/videovae/job-and-tags", test_job_and_tags);
  g_test_add_func ("/videovae/progress", test_progress);
  g_test_add_func ("/videovae/stats", test_stats);
  g_test_add_func ("/videovae/properties", test_properties);
  g_test_add_func ("/videovae/cycles", test_cycles);
  g_test_add_func ("/videovae/eos", test_eos);
  g_test_add_func ("/videovae/unlinked", test_unlinked);
  g_test_add_func ("/videovae/bad-caps", test_bad_caps);
  g_test_add_func ("/videovae/truncated", test_truncated);
  g_test_add_func ("/videovae/nan", test_nan);
  g_test_add_func ("/videovae/file", test_file);
  g_test_add_func ("/videovae/cuda/template", test_cuda_template);
  g_test_add_func ("/videovae/cuda/on-cpu", test_cuda_on_cpu);
  g_test_add_func ("/videovae/cuda/refused", test_cuda_refused);
  return g_test_run ();
}
