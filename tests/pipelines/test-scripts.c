/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every script in pipelines/ runs, and its file holds what it says. */
#include <glib/gstdio.h>
#include <gst/gst.h>

#include "pipeline-test.h"

#define PROMPT "a red circle moves right on a blue background, high tone"
#define SETTINGS "H3_SETTINGS=width=96 height=64 frames=22 steps=2 seed=1"

static const gchar *const settings[] = { SETTINGS, NULL };

static gchar *
script_path (const gchar *name)
{
  return g_build_filename (g_getenv ("H3_PIPELINES_DIR"), name, NULL);
}

/* Runs the script with the file @name in the test's folder; its path. */
static gchar *
run_script (const gchar *script, const gchar *prompt, const gchar *name)
{
  g_autofree gchar *path = script_path (script);
  gchar *out = test_path (name);
  const gchar *argv[] = { path, prompt, out, NULL };
  g_autoptr (Result) result = run (argv, settings, NULL);

  assert_ok (result);
  return out;
}

static void
assert_file_size (const gchar *path, gint64 size)
{
  g_assert_cmpint (h3_test_file_size (path), ==, size);
}

typedef struct {
  const gchar *script, *file;
  const gchar *needs; /* elements, beside GStreamer's own */
  const gchar *container, *video, *audio;
  guint64 samples, more_samples; /* at least, and at most that many more */
  gint rate;
  gint64 latest_start; /* ns */
  gboolean tagged;     /* with BT.709 */
} Kind;

/* AAC comes in frames of 1024 samples, Opus with 48 kHz. A clip of 22 frames
 * has 29600 samples, or 29600 - 1024 where AAC's delay is made up for. */
static const Kind kinds[] = {
  { "mp4.sh", "a.mp4", H264 AAC, "video/quicktime", "video/x-h264",
      "audio/mpeg", 28576, 2048, 32000, 0, TRUE },
  { "mp4-no-libav.sh", "b.mp4", H264 "voaacenc avdec_aac", "video/quicktime",
      "video/x-h264", "audio/mpeg", 28000 - 2048, 4096, 32000, 0, TRUE },
  { "mp4-fragmented.sh", "c.mp4", H264 AAC, "video/quicktime", "video/x-h264",
      "audio/mpeg", 28576, 2048, 32000, 0, TRUE },
  { "matroska-opus.sh", "d.mkv", H264 "opusenc opusdec", "video/x-matroska",
      "video/x-h264", "audio/x-opus", 44000, 1400, 48000, 0, TRUE },
  { "matroska-lossless.sh", "e.mkv", H264 "flacenc flacdec", "video/x-matroska",
      "video/x-h264", "audio/x-flac", 29600, 0, 32000, 0, TRUE },
  { "webm.sh", "f.webm", "vp8enc vp8dec opusenc opusdec", "video/webm",
      "video/x-vp8", "audio/x-opus", 44000, 1400, 48000, 0, FALSE },
  { "mpegts.sh", "g.ts", H264 AAC, "video/mpegts", "video/x-h264", "audio/mpeg",
      28000, 4096, 32000, GST_SECOND / 4, TRUE },
};

static void
check_kind (gconstpointer data)
{
  const Kind *kind = data;
  g_autofree gchar *path = NULL;
  g_autoptr (Media) media = NULL;

  if (test_lacks (kind->needs))
    return;
  path = run_script (kind->script, PROMPT, kind->file);
  media = media_read (path);
  g_assert_cmpstr (media->container, ==, kind->container);
  g_assert_cmpstr (media->video_codec, ==, kind->video);
  g_assert_cmpstr (media->audio_codec, ==, kind->audio);
  g_assert_cmpuint (media->frames, ==, 22);
  g_assert_cmpint (media->width, ==, 96);
  g_assert_cmpint (media->height, ==, 64);
  g_assert_cmpint (media->fps_n, ==, 24 * media->fps_d);
  g_assert_cmpint (media->channels, ==, 2);
  g_assert_cmpint (media->rate, ==, kind->rate);
  g_test_message ("%" G_GUINT64_FORMAT " samples", media->samples);
  g_assert_cmpuint (media->samples, >=, kind->samples);
  g_assert_cmpuint (media->samples, <=, kind->samples + kind->more_samples);
  g_assert_cmpint (media->first_video, >=, 0);
  g_assert_cmpint (media->first_video, <=, kind->latest_start);
  g_assert_cmpint (media->first_audio, >=, 0);
  g_assert_cmpint (media->first_audio, <=, kind->latest_start);
  if (kind->tagged)
    g_assert_cmpstr (media->colorimetry, ==, "bt709");
}

/* Whatever a prompt and a path hold, they arrive as they are. */
static void
test_texts (void)
{
  static const gchar *const prompts[] = { "a \"red\" circle's $HOME & `ls` ! x",
    "two\nlines and a tab\t, one \" quote, \\ at the end \\", "NULL",
    "\"in quotes\"", "-dash, gr\303\266\303\237er, \344\270\200 {%s} \n" };

  if (test_lacks ("x264enc avenc_aac"))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++) {
    g_autofree gchar *path =
        run_script ("mp4.sh", prompts[i], "o\"dd 'name' \\ $x.mp4");
    g_autofree gchar *bytes = NULL;
    gsize n, length = strlen (prompts[i]);
    gboolean found = FALSE;

    g_assert_true (g_file_get_contents (path, &bytes, &n, NULL));
    /* the description tag: size, "data", type 1, language 0, text */
    for (gsize k = 16; !found && k + length <= n; k++)
      found = memcmp (bytes + k, prompts[i], length) == 0 &&
              memcmp (bytes + k - 12, "data\0\0\0\1\0\0\0\0", 12) == 0 &&
              GST_READ_UINT32_BE (bytes + k - 16) == length + 16;
    g_test_message ("prompt %u", i);
    g_assert_true (found);
    g_assert_cmpint (g_unlink (path), ==, 0);
  }
}

/* quickstart.sh looks where it shall write before it installs anything. */
static void
test_quickstart_refuses (void)
{
  g_autofree gchar *path = script_path ("quickstart.sh");
  g_autofree gchar *missing = test_path ("missing/clip.mp4");
  const gchar *const outs[] = { missing, test_dir };

  for (guint i = 0; i < G_N_ELEMENTS (outs); i++) {
    const gchar *argv[] = { path, PROMPT, outs[i], NULL };
    g_autoptr (Result) result = run (argv, NULL, 0);

    g_assert_cmpint (result->status, ==, 1);
    g_assert_nonnull (strstr (result->output, "Cannot write"));
    g_assert_nonnull (strstr (result->output, outs[i]));
  }
}

/* More prompts than the queues between the elements hold. */
static void
test_many_prompts (void)
{
  g_autofree gchar *prompts = test_path ("twelve.txt");
  g_autofree gchar *out = test_path ("twelve.mp4");
  g_autofree gchar *script = script_path ("several.sh");
  g_autoptr (GString) text = g_string_new (NULL);
  const gchar *argv[] = { script, prompts, out, NULL };
  const gchar *env[] = { "H3_SETTINGS=steps=1 width=96 height=64 frames=22",
    NULL };
  g_autoptr (Media) media = NULL;
  g_autoptr (Result) result = NULL;

  if (test_lacks (H264 AAC "subparse"))
    return;
  for (guint i = 0; i < 12; i++)
    g_string_append (text, PROMPT "\n");
  h3_test_write_file (prompts, text->str, text->len);
  result = run (argv, env, NULL);
  assert_ok (result);
  media = media_read (out);
  g_assert_cmpuint (media->frames, ==, 12 * 22);
}

/* What was there before stays when a script fails, and nothing half is left. */
static void
test_failed (void)
{
  g_autofree gchar *out = test_path ("kept.mp4");
  g_autofree gchar *part = test_path ("kept.mp4.part");
  g_autofree gchar *script = script_path ("first-frame.sh");
  g_autofree gchar *missing = test_path ("nosuch.png");
  const gchar *argv[] = { script, missing, PROMPT, out, NULL };
  g_autoptr (Result) result = NULL;
  g_autofree gchar *kept = NULL;

  h3_test_write_file (out, "before", 6);
  result = run (argv, NULL, NULL);
  g_assert_cmpint (result->status, !=, 0);
  g_assert_true (g_file_get_contents (out, &kept, NULL, NULL));
  g_assert_cmpstr (kept, ==, "before");
  g_assert_false (g_file_test (part, G_FILE_TEST_EXISTS));
}

static void
test_elements (void)
{
  g_autofree gchar *prompt = test_path ("prompt.txt");
  g_autofree gchar *path = NULL;
  g_autoptr (Media) media = NULL;

  if (test_lacks (H264 AAC))
    return;
  h3_test_write_file (prompt, "\"quoted\" ! text\nof two lines\n", 29);
  path = run_script ("mp4-elements.sh", prompt, "elements.mp4");
  media = media_read (path);
  g_assert_cmpuint (media->frames, ==, 22);
  g_assert_cmpstr (media->audio_codec, ==, "audio/mpeg");
}

static void
test_several (void)
{
  static const gchar text[] = "a red circle\n\na blue square, high tone\n"
                              "a [green] triangle!\n";
  g_autofree gchar *prompts = test_path ("prompts.txt");
  g_autofree gchar *path = NULL;
  g_autoptr (Media) media = NULL;

  if (test_lacks (H264 AAC))
    return;
  h3_test_write_file (prompts, text, strlen (text));
  path = run_script ("several.sh", prompts, "several.mp4");
  media = media_read (path);
  g_assert_cmpuint (media->frames, ==, 66);
  /* 88000 less the 1024 skipped */
  g_assert_cmpuint (media->samples, >=, 86976);
  g_assert_cmpuint (media->samples, <=, 86976 + 2048);
  g_assert_cmpint (media->first_video, ==, 0);
  g_assert_cmpint (media->first_audio, ==, 0);
}

static void
test_raw (void)
{
  g_autofree gchar *out = run_script ("raw.sh", PROMPT, "raw");
  g_autofree gchar *video = g_strconcat (out, ".nv12", NULL);
  g_autofree gchar *audio = g_strconcat (out, ".f32", NULL);

  assert_file_size (video, 22 * 96 * 64 * 3 / 2);
  assert_file_size (audio, 29600 * 8);
}

static void
test_y4m_wav (void)
{
  g_autofree gchar *out = NULL, *video = NULL, *audio = NULL;
  g_autofree gchar *bytes = NULL;
  g_autoptr (Media) media = NULL;
  gsize n;

  if (test_lacks ("y4menc wavenc wavparse uridecodebin"))
    return;
  out = run_script ("y4m-wav.sh", PROMPT, "y4m");
  video = g_strconcat (out, ".y4m", NULL);
  audio = g_strconcat (out, ".wav", NULL);
  media = media_read (audio);
  g_assert_cmpuint (media->samples, ==, 29600);
  g_assert_cmpint (media->rate, ==, 32000);
  g_assert_true (g_file_get_contents (video, &bytes, &n, NULL));
  g_assert_true (g_str_has_prefix (bytes, "YUV4MPEG2 "));
  g_assert_nonnull (g_strstr_len (bytes, 100, " F24:1"));
  g_assert_cmpuint (n, >, 22 * 96 * 64 * 3 / 2);
  g_assert_cmpuint (n, <, 22 * (96 * 64 * 3 / 2 + 100));
}

static void
test_png (void)
{
  g_autofree gchar *out = run_script ("png.sh", PROMPT, "frame");

  for (gint i = 0; i < 23; i++) {
    g_autofree gchar *path = g_strdup_printf ("%s%04d.png", out, i);
    g_assert_cmpint (g_file_test (path, G_FILE_TEST_EXISTS), ==, i < 22);
  }
}

static void
test_hls (void)
{
  g_autofree gchar *out = NULL, *playlist = NULL, *segment = NULL;
  g_autofree gchar *text = NULL;
  g_autoptr (Media) media = NULL;

  if (test_lacks (H264 AAC "hlssink"))
    return;
  out = run_script ("hls.sh", PROMPT, "hls");
  playlist = g_strconcat (out, ".m3u8", NULL);
  segment = g_strconcat (out, "00000.ts", NULL);
  media = media_read (segment);
  g_assert_true (g_file_get_contents (playlist, &text, NULL, NULL));
  g_assert_nonnull (strstr (text, "hls00000.ts"));
  g_assert_nonnull (strstr (text, "#EXT-X-ENDLIST"));
  g_assert_cmpuint (media->frames, ==, 22);
  g_assert_cmpstr (media->audio_codec, ==, "audio/mpeg");
}

/* The latents' files decode to what one pipeline makes of them. */
static void
test_latents (void)
{
  g_autofree gchar *out = NULL, *path = NULL, *whole = NULL;
  g_autoptr (Media) media = NULL;
  g_autoptr (Media) other = NULL;

  if (test_lacks (H264 "flacenc flacdec"))
    return;
  out = run_script ("latents.sh", PROMPT, "latents");
  path = g_strconcat (out, ".mkv", NULL);
  whole = run_script ("matroska-lossless.sh", PROMPT, "w.mkv");
  media = media_read (path);
  other = media_read (whole);
  g_assert_cmpuint (media->frames, ==, 22);
  g_assert_cmpuint (media->samples, ==, 29600);
  g_assert_cmpuint (other->samples, ==, 29600);
}

static void
count_packet (GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer n)
{
  g_atomic_int_inc ((gint *) n);
}

static GstElement *
receiver (const gchar *source, const gchar *caps, const gchar *rest, gint *n,
    gint *port)
{
  g_autofree gchar *text =
      g_strdup_printf ("udpsrc name=u address=127.0.0.1 port=%d caps=\"%s\" ! "
                       "rtpjitterbuffer ! %s ! fakesink name=s sync=false "
                       "signal-handoffs=true",
          *port, caps, rest);
  GstElement *pipeline = gst_parse_launch (text, NULL);
  GstElement *sink = gst_bin_get_by_name (GST_BIN (pipeline), "s");
  GstElement *udp = gst_bin_get_by_name (GST_BIN (pipeline), "u");

  g_signal_connect (sink, "handoff", G_CALLBACK (count_packet), n);
  g_assert_cmpint (gst_element_set_state (pipeline, GST_STATE_PLAYING), !=,
      GST_STATE_CHANGE_FAILURE);
  g_object_get (udp, "port", port, NULL);
  gst_object_unref (sink);
  gst_object_unref (udp);
  return pipeline;
}

/* Frames and sound arrive, in real time. */
static void
send_rtp (void)
{
  gint frames = 0, packets = 0;
  gint port = g_random_int_range (20000, 30000) * 2, audio_port = port + 2;
  g_autoptr (GstElement) video = receiver ("video",
      "application/x-rtp,media=video,clock-rate=90000,encoding-name=H264,"
      "payload=96",
      "rtph264depay ! h264parse ! video/x-h264,alignment=au ! avdec_h264",
      &frames, &port);
  g_autoptr (GstElement) audio = receiver ("audio",
      "application/x-rtp,media=audio,clock-rate=48000,encoding-name=OPUS,"
      "payload=97",
      "rtpopusdepay ! opusdec", &packets, &audio_port);
  g_autofree gchar *path = script_path ("rtp.sh");
  g_autofree gchar *port_text = g_strdup_printf ("%d", port);
  const gchar *argv[] = { path, PROMPT, "127.0.0.1", port_text, NULL };
  g_autoptr (Result) result = run (argv, settings, NULL);

  assert_ok (result);
  /* it is sent in real time */
  g_assert_cmpfloat (result->seconds, >, 0.8);
  for (gint i = 0; i < 50 && frames < 15; i++)
    g_usleep (100000);
  gst_element_set_state (video, GST_STATE_NULL);
  gst_element_set_state (audio, GST_STATE_NULL);
  g_test_message ("%d frames, %d sound packets", frames, packets);
  g_assert_cmpint (frames, >=, 15);
  g_assert_cmpint (packets, >=, 30);
}

static void
test_rtp (void)
{
  if (!test_lacks (H264 "opusenc opusdec udpsrc rtph264depay"))
    send_rtp ();
}

/* Pictures, a clip and a sound to begin with, under names that need quoting. */
static void
make_media (const gchar *format, const gchar *name)
{
  g_autofree gchar *path = test_path (name);
  g_autofree gchar *text = g_strdup_printf ("%s ! filesink name=sink", format);
  g_autoptr (GError) error = NULL;
  g_autoptr (GstElement) pipeline = gst_parse_launch (text, &error);
  g_autoptr (GstElement) sink = NULL;
  g_autoptr (GstBus) bus = NULL;
  g_autoptr (GstMessage) message = NULL;

  g_assert_no_error (error);
  sink = gst_bin_get_by_name (GST_BIN (pipeline), "sink");
  g_object_set (sink, "location", path, NULL);
  bus = gst_element_get_bus (pipeline);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  gst_element_set_state (pipeline, GST_STATE_NULL);
}

#define PICTURE "a \"first\", <picture>.png"

#define INPUTS H264 AAC "uridecodebin pngenc jpegenc jpegdec wavenc wavparse"

static void
make_inputs (void)
{
  make_media ("videotestsrc num-buffers=1 pattern=smpte ! "
              "video/x-raw,width=150,height=100 ! pngenc",
      PICTURE);
  make_media ("videotestsrc num-buffers=1 pattern=ball ! "
              "video/x-raw,width=90,height=90 ! jpegenc",
      "last.jpg");
  make_media ("videotestsrc num-buffers=24 ! "
              "video/x-raw,width=96,height=64,framerate=24/1 ! x264enc ! "
              "h264parse ! mp4mux",
      "clip ' 2.mp4");
  make_media ("audiotestsrc num-buffers=40 ! wavenc", "$voice.wav");
}

static void
assert_clip (const gchar *const *argv, const gchar *const *env,
    const gchar *out)
{
  g_autoptr (Result) result = run (argv, env, NULL);
  g_autoptr (Media) media = NULL;

  assert_ok (result);
  media = media_read (out);
  g_assert_cmpuint (media->frames, ==, 22);
  g_assert_cmpint (media->width, ==, 96);
  g_assert_cmpint (media->height, ==, 64);
  g_assert_cmpstr (media->audio_codec, ==, "audio/mpeg");
}

static void
test_keyframes (void)
{
  static const gchar *const own_size[] = { "H3_SETTINGS=frames=22 steps=2",
    NULL };
  g_autofree gchar *picture = test_path (PICTURE);
  g_autofree gchar *last = test_path ("last.jpg");
  g_autofree gchar *out = test_path ("keyframes.mp4");
  g_autofree gchar *first_script = script_path ("first-frame.sh");
  g_autofree gchar *last_script = script_path ("last-frame.sh");
  g_autofree gchar *both_script = script_path ("both-frames.sh");
  const gchar *first_argv[] = { first_script, picture, PROMPT, out, NULL };
  const gchar *last_argv[] = { last_script, picture, PROMPT, out, NULL };
  const gchar *both_argv[] = { both_script, picture, last, PROMPT, out, NULL };
  const gchar *none_argv[] = { first_script, NULL };
  g_autoptr (Result) usage = NULL;

  if (test_lacks (INPUTS))
    return;
  make_inputs ();
  assert_clip (first_argv, own_size, out);
  assert_clip (last_argv, own_size, out);
  assert_clip (both_argv, own_size, out);
  usage = run (none_argv, NULL, NULL);
  g_assert_cmpint (usage->status, ==, 2);
  g_assert_nonnull (strstr (usage->output, "Usage: first-frame.sh PICTURE"));
}

/* The tiny checkpoint has the transformer that the demo has not. */
static void
test_references (void)
{
  g_autofree gchar *model =
      g_strconcat ("H3_MODEL_PATH=", h3_test_tiny_dir (), NULL);
  const gchar *env[] = { SETTINGS " canvas-edge=64 reference-edge=64", model,
    NULL };
  g_autofree gchar *script = script_path ("references.sh");
  g_autofree gchar *picture = test_path (PICTURE);
  g_autofree gchar *clip = test_path ("clip ' 2.mp4");
  g_autofree gchar *voice = test_path ("$voice.wav");
  g_autofree gchar *out = test_path ("references.mp4");
  const gchar *argv[] = { script, "<Picture 1> speaks like <Audio 1>", out,
    picture, clip, voice, NULL };

  if (test_lacks (INPUTS))
    return;
  make_inputs ();
  assert_clip (argv, env, out);
}

/* embed.c is a program as the README shows it. */
static void
test_embed (void)
{
  static const gchar *const bad[] = { "H3_MODEL_PATH=/nowhere", NULL };
  const gchar *argv[] = { g_getenv ("H3_EMBED"), PROMPT, NULL };
  g_autoptr (Result) good_run = run (argv, NULL, 0);
  g_autoptr (Result) bad_run = run (argv, bad, 0);

  assert_ok (good_run);
  g_assert_nonnull (strstr (good_run->output, "denoise: 20 of 20\n"));
  g_assert_nonnull (strstr (good_run->output, "frame 22: 18432 bytes\n"));
  g_assert_null (strstr (good_run->output, "frame 23"));
  g_assert_cmpint (bad_run->status, ==, 1);
  g_assert_nonnull (strstr (bad_run->output, "/nowhere: cannot open"));
}

/* No script without a test. */
static void
test_all_scripts (void)
{
  static const gchar *const others[] = { "common.sh", "install-deps.sh",
    "quickstart.sh", "mp4-elements.sh", "several.sh", "raw.sh", "y4m-wav.sh",
    "png.sh", "hls.sh", "latents.sh", "rtp.sh", "first-frame.sh",
    "last-frame.sh", "both-frames.sh", "references.sh" };
  g_autoptr (GDir) dir = g_dir_open (g_getenv ("H3_PIPELINES_DIR"), 0, NULL);
  const gchar *name;

  while ((name = g_dir_read_name (dir))) {
    gboolean known = !g_str_has_suffix (name, ".sh");

    for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
      known |= g_str_equal (name, kinds[i].script);
    for (guint i = 0; i < G_N_ELEMENTS (others); i++)
      known |= g_str_equal (name, others[i]);
    if (!known)
      g_test_message ("pipelines/%s has no test", name);
    g_assert_true (known);
  }
}

int
main (int argc, char **argv)
{
  if (h3_test_skip_program ())
    return 0;
  test_begin (&argc, &argv);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    g_autofree gchar *name = g_strconcat ("/scripts/", kinds[i].script, NULL);
    g_test_add_data_func (name, &kinds[i], check_kind);
  }
  g_test_add_func ("/scripts/texts", test_texts);
  g_test_add_func ("/scripts/quickstart.sh/refuses", test_quickstart_refuses);
  g_test_add_func ("/scripts/mp4-elements.sh", test_elements);
  g_test_add_func ("/scripts/several.sh", test_several);
  g_test_add_func ("/scripts/raw.sh", test_raw);
  g_test_add_func ("/scripts/y4m-wav.sh", test_y4m_wav);
  g_test_add_func ("/scripts/png.sh", test_png);
  g_test_add_func ("/scripts/hls.sh", test_hls);
  g_test_add_func ("/scripts/latents.sh", test_latents);
  g_test_add_func ("/scripts/rtp.sh", test_rtp);
  g_test_add_func ("/scripts/keyframes", test_keyframes);
  g_test_add_func ("/scripts/references.sh", test_references);
  g_test_add_func ("/scripts/embed.c", test_embed);
  g_test_add_func ("/scripts/many-prompts", test_many_prompts);
  g_test_add_func ("/scripts/failed", test_failed);
  g_test_add_func ("/scripts/all", test_all_scripts);
  return test_end ();
}
