/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the elements do with memory that is not the host's, on a GPU that is
 * none (fake-gpu.h): no bytes through the host, events waited for, failures
 * reported. */
#include "decoder-test.h"
#include "fake-gpu.h"

#define REQUEST "request_t2va.safetensors"
#define PROMPT                                                                 \
  "A brass-and-paper dragon flies above a rain-washed old city at blue hour."
#define TIMEOUT (60 * GST_SECOND)

/* --- pipelines of our elements --- */

static GstElement *
clip_pipeline (const gchar *after_denoise)
{
  g_autofree gchar *launch = g_strdup_printf (
      "appsrc name=p format=time "
      "caps=text/x-raw,format=utf8 ! h3textenc backend=cuda model-path=%s ! "
      "h3denoise name=d backend=cuda model-path=%s width=96 height=64 "
      "frames=22 steps=4 seed=440204 d.video ! %s",
      h3_test_tiny_dir (), h3_test_tiny_dir (), after_denoise);
  GError *error = NULL;
  GstElement *pipeline = gst_parse_launch (launch, &error);

  g_assert_no_error (error);
  return gst_object_ref_sink (pipeline);
}

static gchar *
decode_to_file (const gchar *file)
{
  return g_strdup_printf ("h3videovae name=v backend=cuda model-path=%s ! "
                          "video/x-raw,format=RGB ! filesink location=%s",
      h3_test_tiny_dir (), file);
}

/* Sends the prompt and waits: the error, or NULL after EOS. */
static GError *
make_clip (GstElement *pipeline)
{
  g_autoptr (GstElement) prompt = gst_bin_get_by_name (GST_BIN (pipeline), "p");
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);
  g_autoptr (GstBuffer) buffer =
      gst_buffer_new_memdup (PROMPT, strlen (PROMPT));
  g_autoptr (GstMessage) message = NULL;
  GError *error = NULL;
  GstFlowReturn ret;

  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  g_signal_emit_by_name (prompt, "push-buffer", buffer, &ret);
  g_signal_emit_by_name (prompt, "end-of-stream", &ret);
  message = gst_bus_timed_pop_filtered (bus, TIMEOUT,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    gst_message_parse_error (message, &error, NULL);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  return error;
}

static void
assert_frames (const gchar *file)
{
  g_autofree gint32 *want = NULL;
  g_autofree gchar *got = NULL;
  gsize n, size;

  want = h3_test_golden_ints (REQUEST, "video_u8", &n);
  g_assert_true (g_file_get_contents (file, &got, &size, NULL));
  g_assert_cmpuint (size, ==, n);
  for (gsize i = 0; i < n; i++)
    g_assert_cmpint (ABS ((guint8) got[i] - want[i]), <=, 1);
}

typedef struct {
  gchar *dir, *file;
} Output;

static Output *
output_new (void)
{
  Output *output = g_new (Output, 1);

  output->dir = h3_test_temp_dir ();
  output->file = g_build_filename (output->dir, "frames.rgb", NULL);
  return output;
}

static void
output_free (Output *output)
{
  h3_test_remove_tree (output->dir);
  g_free (output->dir);
  g_free (output->file);
  g_free (output);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Output, output_free)

/* From the prompt to the frames, nothing of a tensor comes to the host. */
static void
test_resident (void)
{
  g_autoptr (Output) output = output_new ();
  g_autofree gchar *decode = decode_to_file (output->file);
  g_autoptr (GstElement) pipeline = clip_pipeline (decode);
  H3FakeGpu *gpu = h3_fake_gpu ();
  gint before = g_atomic_int_get (&gpu->downloads);

  g_assert_no_error (make_clip (pipeline));
  assert_frames (output->file);
  g_assert_cmpint (g_atomic_int_get (&gpu->downloads), ==, before);
}

/* The decoder on another GPU than the denoiser: one copy, between the two. */
static void
test_two_gpus (void)
{
  g_autoptr (Output) output = output_new ();
  g_autofree gchar *decode = decode_to_file (output->file);
  g_autoptr (GstElement) pipeline = clip_pipeline (decode);
  g_autoptr (GstElement) decoder =
      gst_bin_get_by_name (GST_BIN (pipeline), "v");
  H3FakeGpu *gpu = h3_fake_gpu ();
  gint before = g_atomic_int_get (&gpu->downloads);

  g_object_set (decoder, "cuda-device-id", 1, NULL);
  g_assert_no_error (make_clip (pipeline));
  assert_frames (output->file);
  g_assert_cmpint (g_atomic_int_get (&gpu->downloads), ==, before);
}

/* Who wants it on the CPU gets it, once. */
static void
test_read_by_cpu (void)
{
  g_autoptr (Output) output = output_new ();
  g_autofree gchar *save =
      g_strdup_printf ("filesink location=%s", output->file);
  g_autoptr (GstElement) pipeline = clip_pipeline (save);
  H3FakeGpu *gpu = h3_fake_gpu ();
  gint before = g_atomic_int_get (&gpu->downloads);
  g_autofree gfloat *want = NULL;
  g_autofree gchar *got = NULL;
  gsize n, size;

  g_assert_no_error (make_clip (pipeline));
  g_assert_cmpint (g_atomic_int_get (&gpu->downloads), ==, before + 1);
  want = h3_test_golden (REQUEST, "final_latents", &n);
  g_assert_true (g_file_get_contents (output->file, &got, &size, NULL));
  g_assert_cmpuint (size, ==, n * sizeof (gfloat));
  h3_test_assert_close ((const gfloat *) got, want, n, 1e-4);
}

static void
add_probe (GstElement *pipeline, GstPadProbeCallback callback, gpointer data)
{
  g_autoptr (GstElement) decoder =
      gst_bin_get_by_name (GST_BIN (pipeline), "v");
  g_autoptr (GstPad) pad = gst_element_get_static_pad (decoder, "sink");

  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, callback, data, NULL);
}

static GstPadProbeReturn
break_gpu (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  g_atomic_int_set (&h3_fake_gpu ()->failing, TRUE);
  return GST_PAD_PROBE_OK;
}

/* What fails when the denoiser has pushed is the decoder's error, and no frame
 * comes. */
static void
test_fails_after_push (void)
{
  g_autoptr (Output) output = output_new ();
  g_autofree gchar *decode = decode_to_file (output->file);
  g_autoptr (GstElement) pipeline = clip_pipeline (decode);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *got = NULL;
  gsize size;

  add_probe (pipeline, break_gpu, NULL);
  error = make_clip (pipeline);
  g_atomic_int_set (&h3_fake_gpu ()->failing, FALSE);
  g_assert_error (error, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_FAILED);
  g_assert_true (g_file_get_contents (output->file, &got, &size, NULL));
  g_assert_cmpuint (size, ==, 0);
}

static GstPadProbeReturn
overwrite (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  GstBuffer *buffer = gst_pad_probe_info_get_buffer (info);
  const Latent *latent = data;

  g_assert_cmpuint (gst_buffer_fill (buffer, 0, latent->data, latent->bytes),
      ==, latent->bytes);
  return GST_PAD_PROBE_OK;
}

/* A probe's new values are what is decoded. */
static void
test_written_by_cpu (void)
{
  g_autoptr (Output) output = output_new ();
  g_autofree gchar *decode = decode_to_file (output->file);
  g_autoptr (GstElement) pipeline = clip_pipeline (decode);
  g_autoptr (Latent) latent = latent_video (REQUEST);
  g_autoptr (GstElement) denoise =
      gst_bin_get_by_name (GST_BIN (pipeline), "d");

  g_object_set (denoise, "seed", (gint64) 1, NULL);
  add_probe (pipeline, overwrite, latent);
  g_assert_no_error (make_clip (pipeline));
  assert_frames (output->file);
}

/* --- somebody else's memory --- */

/* Memory of another plugin on a GPU. It must not be read by the host. */
static gpointer
foreign_alloc (gsize size, gpointer user_data)
{
  return g_malloc0 (size);
}

static void
foreign_free (gpointer data, gsize size, gpointer user_data)
{
  g_free (data);
}

static gboolean
foreign_download (gpointer host, gconstpointer data, gsize size, gpointer ready,
    gpointer user_data)
{
  g_assert_not_reached ();
}

static gboolean
foreign_upload (gpointer data, gconstpointer host, gsize size,
    gpointer user_data)
{
  g_assert_not_reached ();
}

static gboolean
foreign_copy (gpointer to, gconstpointer from, gsize size, gpointer ready,
    gpointer user_data)
{
  g_assert_not_reached ();
}

static const GstH3DeviceFuncs foreign_funcs = { foreign_alloc, foreign_free,
  foreign_download, foreign_upload, foreign_copy };

typedef struct {
  const Latent *latent;
  gpointer to, ready;
} Work;

/* The other plugin's GPU is slow: it has not begun when the buffer is pushed. */
static gpointer
work_late (gpointer data)
{
  Work *work = data;

  g_usleep (50 * 1000);
  memcpy (work->to, work->latent->data, work->latent->bytes);
  h3_fake_event_reach (work->ready);
  return NULL;
}

static void
work_free (gpointer data)
{
  Work *work = data;

  h3_fake_event_free (work->ready);
  g_free (work->to);
  g_free (work);
}

static void
note_peer_copy (GstDebugCategory *category, GstDebugLevel level,
    const gchar *file, const gchar *function, gint line, GObject *object,
    GstDebugMessage *message, gpointer noted)
{
  if (level == GST_LEVEL_INFO &&
      strstr (gst_debug_message_get (message), "from GPU 1 to cuda:0"))
    g_atomic_int_inc ((gint *) noted);
}

/* Decodes @latent out of memory of GPU @ordinal that is written later. */
static GBytes *
decode_foreign (const Latent *latent, gint ordinal)
{
  g_autoptr (Decoder) decoder = decoder_new ("h3videovae",
      "video/x-raw,format=RGB", "backend", "cuda", NULL);
  GstH3Allocator *allocator =
      gst_h3_allocator_new (ordinal, &foreign_funcs, NULL, NULL);
  Work *work = g_new (Work, 1);
  gint64 dim[GST_H3_MAX_RANK];
  guint rank = gst_h3_latent_info_shape (&latent->info, dim);
  GstBuffer *buffer = gst_buffer_new ();
  g_autoptr (GPtrArray) frames = NULL;
  GThread *thread;

  *work = (Work){ latent, g_malloc0 (latent->bytes), h3_fake_event_new () };
  gst_buffer_append_memory (buffer,
      gst_h3_allocator_wrap (allocator, latent->info.type, rank, dim, work->to,
          work->ready, work, work_free));
  /* the thread's part of work ends before the push does */
  thread = g_thread_new ("gpu", work_late, work);
  gst_harness_set_src_caps (decoder->harness, latent_caps (latent, TRUE));
  g_assert_cmpint (gst_harness_push (decoder->harness, buffer), ==,
      GST_FLOW_OK);
  g_thread_join (thread);
  gst_object_unref (allocator);
  frames = decoder_pull_all (decoder);
  return buffers_bytes (frames);
}

static void
test_foreign (void)
{
  g_autoptr (Latent) latent = latent_video (REQUEST);
  H3FakeGpu *gpu = h3_fake_gpu ();
  g_autoptr (GBytes) want = NULL;
  gint noted = 0;

  {
    g_autoptr (Decoder) decoder = decoder_new ("h3videovae",
        "video/x-raw,format=RGB", "backend", "cuda", NULL);
    g_autoptr (GPtrArray) frames = NULL;

    g_assert_cmpint (decoder_push (decoder, latent), ==, GST_FLOW_OK);
    frames = decoder_pull_all (decoder);
    want = buffers_bytes (frames);
    g_assert_cmpuint (g_bytes_get_size (want), >, 0);
  }
  gst_debug_set_threshold_for_name ("h3runtime", GST_LEVEL_INFO);
  gst_debug_add_log_function (note_peer_copy, &noted, NULL);
  for (gint ordinal = 0; ordinal < 2; ordinal++) {
    gint downloads = g_atomic_int_get (&gpu->downloads);
    gint waits = g_atomic_int_get (&gpu->waits);
    gint copies = g_atomic_int_get (&gpu->copies);
    gint events = g_atomic_int_get (&gpu->events);
    g_autoptr (GBytes) got = decode_foreign (latent, ordinal);

    g_assert_true (g_bytes_equal (got, want));
    g_assert_cmpint (g_atomic_int_get (&gpu->downloads), ==, downloads);
    g_assert_cmpint (g_atomic_int_get (&gpu->waits), ==, waits + 1);
    g_assert_cmpint (g_atomic_int_get (&gpu->copies), >, copies);
    g_assert_cmpint (g_atomic_int_get (&gpu->events), ==, events);
    g_assert_cmpint (noted, ==, ordinal); /* said of another GPU's alone */
  }
  gst_debug_remove_log_function (note_peer_copy);
}

/* No GPU is behind it, so frames stay in system memory. */
static void
test_no_cuda_frames (void)
{
  g_autoptr (Decoder) decoder =
      decoder_new ("h3videovae", NULL, "backend", "cuda", NULL);
  g_autoptr (GstPad) pad = gst_element_get_static_pad (decoder->element, "src");
  g_autoptr (GstCaps) caps = gst_pad_query_caps (pad, NULL);

  g_assert_false (gst_caps_is_empty (caps));
  for (guint i = 0; i < gst_caps_get_size (caps); i++)
    g_assert_true (gst_caps_features_is_equal (gst_caps_get_features (caps, i),
        GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  g_test_add_func ("/gpu/resident", test_resident);
  g_test_add_func ("/gpu/two-gpus", test_two_gpus);
  g_test_add_func ("/gpu/read-by-cpu", test_read_by_cpu);
  g_test_add_func ("/gpu/written-by-cpu", test_written_by_cpu);
  g_test_add_func ("/gpu/fails-after-push", test_fails_after_push);
  g_test_add_func ("/gpu/foreign", test_foreign);
  g_test_add_func ("/gpu/no-cuda-frames", test_no_cuda_frames);
  return g_test_run ();
}
