/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frames in memory:CUDAMemory on a GPU: the bytes of the frames in system
 * memory, in the pipeline's context or ours. Skipped where there is no GPU. */
#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudautils.h>

#include "cuda/h3-cuda.h"
#include "decoder-test.h"

#define REQUEST "request_t2va.safetensors"

static const gchar *const formats[] = { "NV12", "I420", "Y444", "RGBA" };

/* Visible rows of all planes, one after the other. */
static void
append_frame (GByteArray *bytes, GstBuffer *buffer, const GstVideoInfo *info)
{
  GstVideoFrame frame;

  g_assert_true (gst_video_frame_map (&frame, info, buffer, GST_MAP_READ));
  for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES (&frame); i++) {
    gint width = GST_VIDEO_FRAME_COMP_WIDTH (&frame, i) *
                 GST_VIDEO_FRAME_COMP_PSTRIDE (&frame, i);

    for (gint y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT (&frame, i); y++)
      g_byte_array_append (bytes,
          (guint8 *) GST_VIDEO_FRAME_PLANE_DATA (&frame, i) +
              (gsize) y * GST_VIDEO_FRAME_PLANE_STRIDE (&frame, i),
          width);
  }
  gst_video_frame_unmap (&frame);
}

/* The golden clip's frames. @feature: "" or "(memory:CUDAMemory)". @given: what
 * the application has as a context, or NULL. @used: (out): the context of the
 * frames' memory, or NULL */
static GBytes *
decode (const gchar *feature, const gchar *format, GstCudaContext *given,
    GstCudaContext **used)
{
  g_autoptr (Latent) latent = latent_video (REQUEST);
  g_autofree gchar *caps_text =
      g_strdup_printf ("video/x-raw%s,format=%s", feature, format);
  g_autoptr (Decoder) decoder =
      decoder_new ("h3videovae", caps_text, "backend", "cuda", NULL);
  GByteArray *bytes = g_byte_array_new ();
  g_autoptr (GPtrArray) frames = NULL;
  g_autoptr (GstCaps) caps = NULL;
  GstVideoInfo info;

  if (given) {
    g_autoptr (GstContext) context = gst_context_new_cuda_context (given);

    gst_element_set_context (decoder->element, context);
  }
  *used = NULL;
  g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
  caps = gst_pad_get_current_caps (decoder->harness->sinkpad);
  g_assert_true (gst_video_info_from_caps (&info, caps));
  frames = decoder_pull_all (decoder);
  g_assert_cmpuint (frames->len, ==, 22);
  for (guint i = 0; i < frames->len; i++) {
    GstBuffer *buffer = g_ptr_array_index (frames, i);
    GstMemory *memory = gst_buffer_peek_memory (buffer, 0);

    g_assert_true (gst_is_cuda_memory (memory) == (*feature != '\0'));
    if (*feature) {
      gst_clear_object (used);
      *used = gst_object_ref (GST_CUDA_MEMORY_CAST (memory)->context);
    }
    append_frame (bytes, buffer, &info);
  }
  return g_byte_array_free_to_bytes (bytes);
}

static void
test_equal (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++) {
    GstCudaContext *none, *ours;
    g_autoptr (GBytes) system = decode ("", formats[i], NULL, &none);
    g_autoptr (GBytes) cuda =
        decode ("(memory:CUDAMemory)", formats[i], NULL, &ours);

    g_assert_null (none);
    g_assert_nonnull (ours);
    gst_object_unref (ours);
    g_assert_true (g_bytes_equal (system, cuda));
  }
}

/* A context that libgstcuda made is not where we compute: copied into. */
static void
test_other_context (void)
{
  GstCudaContext *context = gst_cuda_context_new (0);

  g_assert_nonnull (context);
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++) {
    GstCudaContext *none, *used;
    g_autoptr (GBytes) system = decode ("", formats[i], NULL, &none);
    g_autoptr (GBytes) cuda =
        decode ("(memory:CUDAMemory)", formats[i], context, &used);

    g_assert_true (used == context);
    gst_object_unref (used);
    g_assert_true (g_bytes_equal (system, cuda));
  }
  gst_object_unref (context);
}

static GstCudaContext *
ask_context (void)
{
  g_autoptr (GstElement) element =
      gst_object_ref_sink (gst_element_factory_make ("h3videovae", NULL));
  g_autoptr (GstPad) pad = gst_element_get_static_pad (element, "src");
  g_autoptr (GstQuery) query = gst_query_new_context (GST_CUDA_CONTEXT_TYPE);
  GstCudaContext *context = NULL;
  GstContext *answer;

  gst_util_set_object_arg (G_OBJECT (element), "backend", "cuda");
  g_assert_true (gst_pad_query (pad, query));
  gst_query_parse_context (query, &answer);
  g_assert_true (gst_structure_get (gst_context_get_structure (answer),
      GST_CUDA_CONTEXT_TYPE, GST_TYPE_CUDA_CONTEXT, &context, NULL));
  return context;
}

/* An encoder asks before we are opened; all of a process get the one. */
static void
test_context_in_null (void)
{
  GstCudaContext *first = ask_context (), *second = ask_context (), *used;
  g_autoptr (GBytes) frames =
      decode ("(memory:CUDAMemory)", "NV12", NULL, &used);

  g_assert_nonnull (first);
  g_assert_true (first == second);
  g_assert_true (first == used);
  gst_object_unref (first);
  gst_object_unref (second);
  gst_object_unref (used);
}

/* Milliseconds that a frame's way takes to memory of the host at @to, or, when
 * that is NULL, to a frame on the GPU. */
static gdouble
time_frames (H3Device *device, guint8 *to)
{
  g_autoptr (H3Stream) stream = h3_stream_new (device, NULL);
  const gint64 shape[] = { 3, 1, 768, 1344 };
  g_autoptr (H3Tensor) pixels =
      h3_tensor_new (device, H3_DTYPE_F32, 4, shape, NULL);
  g_autoptr (H3Tensor) frame =
      h3_tensor_new_1d (device, H3_DTYPE_U8, 1344 * 768 * 3 / 2, NULL);
  H3EmitPictureArgs args = {
    .picture = { H3_PICTURE_NV12, 1344, 768, .stride = { 1344, 1344 },
        .on_device = to == NULL },
    .pixels = pixels,
    .std = { 1, 1, 1 },
  };
  gint64 start = 0;

  if (!to)
    to = frame->data;
  args.picture.plane[0] = to;
  args.picture.plane[1] = to + 1344 * 768;
  for (gint i = -20; i < 200; i++) {
    if (i == 0)
      start = g_get_monotonic_time ();
    h3_emit_picture (stream, &args);
    g_assert_true (h3_stream_synchronize (stream, NULL));
  }
  return (g_get_monotonic_time () - start) / 200e3;
}

/* What pinned memory would be worth (spec/gstreamer.md 7). */
static void
test_speed (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Device) device = h3_cuda_open_device (-1, &error);
  const gsize bytes = 1344 * 768 * 3 / 2;
  g_autofree guint8 *pageable = g_malloc0 (bytes);
  guint8 *pinned;

  g_assert_no_error (error);
  pinned = device->ops->alloc_host (device, bytes, &error);
  g_assert_no_error (error);
  g_test_message ("1344x768 NV12, ms a frame: GPU %.3f, pinned host %.3f, "
                  "pageable host %.3f",
      time_frames (device, NULL), time_frames (device, pinned),
      time_frames (device, pageable));
  device->ops->free_host (device, pinned, bytes);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Device) device = NULL;

  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  if (!gst_cuda_load_library () ||
      !(device = h3_cuda_open_device (-1, &error))) {
    g_print ("1..0 # SKIP %s\n", error ? error->message : "no NVIDIA driver");
    return 0;
  }
  gst_cuda_memory_init_once ();
  g_test_add_func ("/cuda-frames/equal", test_equal);
  g_test_add_func ("/cuda-frames/other-context", test_other_context);
  g_test_add_func ("/cuda-frames/context-in-null", test_context_in_null);
  if (g_test_perf ())
    g_test_add_func ("/cuda-frames/speed", test_speed);
  return g_test_run ();
}
