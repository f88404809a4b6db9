/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Does the clip begin with the picture that was given, and end with it? Drawn
 * pictures of the demo's language through h3src, each clip looked at and
 * listened to; and the golden request from its PNG on. */
#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <math.h>
#include <string.h>

#include "h3-test.h"
#include "tests/tools/look.h"

#define WIDTH 96
#define HEIGHT 64
#define FRAMES 22
#define SAMPLES 29600
#define PICTURE_BYTES (WIDTH * HEIGHT * 3)
#define RADIUS 17
/* The autoencoder's own is 25 dB (demo/README.md); another picture's is 10. */
#define LEAST_PSNR 20

static gchar *dir;

/* --- pictures --- */

typedef struct {
  gint x, y; /* of the shape's middle; x 0: no picture */
} Place;

typedef struct {
  const gchar *prompt, *shown;
  gboolean square;
  guint8 color[3], background[3];
  Place first, last;
} Case;

static const Case cases[] = {
  { "a red circle moves right on a blue background, high tone",
      "red circle right blue high", FALSE, { 220, 40, 40 }, { 40, 70, 220 },
      { 25, 32 }, { 0 } },
  { "a green square moves left on a black background, low tone",
      "green square left black low", TRUE, { 40, 180, 60 }, { 15, 15, 15 },
      { 71, 33 }, { 0 } },
  { "a white circle moves right on a purple background, mid tone",
      "white circle right purple mid", FALSE, { 245, 245, 245 },
      { 130, 40, 160 }, { 0 }, { 71, 31 } },
  { "a yellow square moves left on a gray background, silence",
      "yellow square left gray silence", TRUE, { 235, 210, 40 },
      { 128, 128, 128 }, { 0 }, { 25, 32 } },
  { "a blue circle moves left on a green background, low tone",
      "blue circle left green low", FALSE, { 40, 70, 220 }, { 40, 180, 60 },
      { 71, 32 }, { 25, 32 } },
  { "a red square moves right on a gray background, high tone",
      "red square right gray high", TRUE, { 220, 40, 40 }, { 128, 128, 128 },
      { 25, 33 }, { 71, 33 } },
};

static void
draw (const Case *c, Place place, guint8 *rgb)
{
  for (gint y = 0; y < HEIGHT; y++)
    for (gint x = 0; x < WIDTH; x++) {
      gint dx = ABS (x - place.x), dy = ABS (y - place.y);
      gboolean in = c->square ? MAX (dx, dy) < 0.85 * RADIUS
                              : dx * dx + dy * dy < RADIUS * RADIUS;

      memcpy (rgb + 3 * (y * WIDTH + x), in ? c->color : c->background, 3);
    }
}

/* Returns: the path of a PNG; NULL when there is no @place */
static gchar *
write_picture (const Case *c, Place place, const gchar *name)
{
  gchar *path = g_build_filename (dir, name, NULL);
  g_autofree gchar *text = g_strdup_printf (
      "appsrc name=a num-buffers=1 format=time "
      "caps=video/x-raw,format=RGB,width=%d,height=%d,framerate=1/1 ! pngenc ! "
      "filesink location=%s",
      WIDTH, HEIGHT, path);
  g_autoptr (GError) error = NULL;
  g_autoptr (GstElement) pipeline = NULL;
  g_autoptr (GstElement) source = NULL;
  g_autoptr (GstBus) bus = NULL;
  g_autoptr (GstMessage) message = NULL;
  guint8 *rgb;

  if (place.x == 0) {
    g_free (path);
    return NULL;
  }
  pipeline = gst_parse_launch (text, &error);
  g_assert_no_error (error);
  source = gst_bin_get_by_name (GST_BIN (pipeline), "a");
  bus = gst_element_get_bus (pipeline);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  rgb = g_malloc (PICTURE_BYTES);
  draw (c, place, rgb);
  gst_app_src_push_buffer (GST_APP_SRC (source),
      gst_buffer_new_wrapped (rgb, PICTURE_BYTES));
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  return path;
}

/* --- clips --- */

typedef struct {
  GByteArray *video, *audio, *latent;
} Clip;

static GstPadProbeReturn
keep (GstPad *pad, GstPadProbeInfo *info, gpointer bytes)
{
  GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER (info);
  GstMapInfo map;

  g_assert_true (gst_buffer_map (buffer, &map, GST_MAP_READ));
  g_byte_array_append (bytes, map.data, map.size);
  gst_buffer_unmap (buffer, &map);
  return GST_PAD_PROBE_OK;
}

static GByteArray *
keep_from (GstElement *pipeline, const gchar *element, const gchar *name)
{
  g_autoptr (GstElement) e = gst_bin_get_by_name (GST_BIN (pipeline), element);
  g_autoptr (GstPad) pad = gst_element_get_static_pad (e, name);
  GByteArray *bytes = g_byte_array_new ();

  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, keep, bytes, NULL);
  return bytes;
}

static void
clip_clear (Clip *clip)
{
  g_clear_pointer (&clip->video, g_byte_array_unref);
  g_clear_pointer (&clip->audio, g_byte_array_unref);
  g_clear_pointer (&clip->latent, g_byte_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Clip, clip_clear)

static void
make_clip (Clip *clip, const gchar *prompt, gint seed, const gchar *first,
    const gchar *last)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GstElement) pipeline = gst_parse_launch (
      "h3src name=h3 steps=8 frames=22 h3.video ! video/x-raw,format=RGB ! "
      "fakesink name=v sync=false h3.audio ! fakesink name=a sync=false",
      &error);
  g_autoptr (GstElement) h3 = NULL;
  g_autoptr (GstBus) bus = NULL;
  g_autoptr (GstMessage) message = NULL;

  g_assert_no_error (error);
  h3 = gst_bin_get_by_name (GST_BIN (pipeline), "h3");
  g_object_set (h3, "prompt", prompt, "seed", (gint64) seed, "first-frame",
      first, "last-frame", last, NULL);
  clip->video = keep_from (pipeline, "v", "sink");
  clip->audio = keep_from (pipeline, "a", "sink");
  clip->latent = keep_from (pipeline, "denoise", "video");
  bus = gst_element_get_bus (pipeline);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  if (message && GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    gst_message_parse_error (message, &error, NULL);
  g_assert_no_error (error);
  g_assert_nonnull (message);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  g_assert_cmpuint (clip->video->len, ==, FRAMES * PICTURE_BYTES);
  g_assert_cmpuint (clip->audio->len, ==, SAMPLES * 2 * sizeof (gfloat));
}

/* Whether that frame is the picture. */
static void
check_frame (const Case *c, const Clip *clip, gint frame, Place place)
{
  g_autofree guint8 *want = g_malloc (PICTURE_BYTES);
  const guint8 *got = clip->video->data + (gsize) frame * PICTURE_BYTES;
  gdouble sum = 0, psnr;

  if (place.x == 0)
    return;
  draw (c, place, want);
  for (gint i = 0; i < PICTURE_BYTES; i++)
    sum += (got[i] - want[i]) * (got[i] - want[i]);
  psnr = 10 * log10 (255.0 * 255.0 * PICTURE_BYTES / MAX (sum, 1));
  g_test_message ("frame %d is the picture to %.1f dB", frame, psnr);
  g_assert_cmpfloat (psnr, >, LEAST_PSNR);
}

static void
check_case (const Case *c)
{
  g_autofree gchar *first = write_picture (c, c->first, "first.png");
  g_autofree gchar *last = write_picture (c, c->last, "last.png");
  g_autofree gchar *words = NULL;
  g_auto (Clip) clip = { NULL };
  H3Look look;

  make_clip (&clip, c->prompt, 7, first, last);
  h3_look (clip.video->data, WIDTH, HEIGHT, FRAMES,
      (const gfloat *) clip.audio->data, SAMPLES, &look);
  words = h3_look_words (&look);
  g_test_message ("\"%s\"%s%s: %s", c->prompt, first ? ", first frame" : "",
      last ? ", last frame" : "", words);
  g_assert_cmpstr (words, ==, c->shown);
  check_frame (c, &clip, 0, c->first);
  check_frame (c, &clip, FRAMES - 1, c->last);
}

static void
test_keyframes (gconstpointer c)
{
  check_case (c);
}

/* Another place's picture is not this one's: the judge can say no. */
static void
test_can_refuse (void)
{
  Case moved = cases[0];
  g_auto (Clip) clip = { NULL };
  g_autofree gchar *first = NULL;

  if (g_test_subprocess ()) {
    first = write_picture (&cases[0], cases[0].first, "first.png");
    make_clip (&clip, cases[0].prompt, 7, first, NULL);
    moved.first.x = 71;
    check_frame (&moved, &clip, 0, moved.first);
    return;
  }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
}

static void
test_golden (void)
{
  static const gchar golden[] = "demo/first_22.safetensors";
  g_autofree gchar *picture = h3_test_golden_path ("demo/first_22.png");
  g_auto (Clip) clip = { NULL };
  gsize n;
  g_autofree gfloat *want = h3_test_golden (golden, "final_latents", &n);

  make_clip (&clip,
      "a yellow circle moves left on a gray background, high tone", 4, picture,
      NULL);
  g_assert_cmpuint (clip.latent->len, ==, n * sizeof (gfloat));
  h3_test_assert_close ((const gfloat *) clip.latent->data, want, n, 1e-4);
}

int
main (int argc, char **argv)
{
  int status;

  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  dir = h3_test_temp_dir ();
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *path =
        g_strdup_printf ("/semantic/keyframes/%s", cases[i].shown);

    g_test_add_data_func (path, &cases[i], test_keyframes);
  }
  g_test_add_func ("/semantic/keyframes/can-refuse", test_can_refuse);
  g_test_add_func ("/semantic/keyframes/golden", test_golden);
  status = g_test_run ();
  h3_test_remove_tree (dir);
  g_free (dir);
  return status;
}
