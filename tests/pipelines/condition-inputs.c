/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pixels and samples that reach the encoders, against what the files were
 * written from. */
#include <math.h>
#include <stdlib.h>

#include "condition-clip.h"

/* --- what reaches them --- */

typedef struct {
  GstCaps *caps;
  GByteArray *bytes;
} Input;

static void
input_free (gpointer data)
{
  Input *input = data;

  gst_clear_caps (&input->caps);
  g_byte_array_unref (input->bytes);
  g_free (input);
}

static GstPadProbeReturn
keep (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  Input *input = data;
  GstMapInfo map;

  if (!input->caps)
    input->caps = gst_pad_get_current_caps (pad);
  g_assert_true (
      gst_buffer_map (GST_PAD_PROBE_INFO_BUFFER (info), &map, GST_MAP_READ));
  g_byte_array_append (input->bytes, map.data, map.size);
  gst_buffer_unmap (GST_PAD_PROBE_INFO_BUFFER (info), &map);
  return GST_PAD_PROBE_OK;
}

/* Encoders come in the order of their inputs, from one thread. */
static void
element_added (GstBin *bin, GstBin *parent, GstElement *element,
    gpointer inputs)
{
  const gchar *name = GST_OBJECT_NAME (gst_element_get_factory (element));
  g_autoptr (GstPad) pad = NULL;
  Input *input;

  if (!g_str_equal (name, "h3videovaeenc") &&
      !g_str_equal (name, "h3audiovaeenc"))
    return;
  input = g_new0 (Input, 1);
  input->bytes = g_byte_array_new ();
  g_ptr_array_add (inputs, input);
  pad = gst_element_get_static_pad (element, "sink");
  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, keep, input, NULL);
}

/* Of a first frame, or of up to four references. */
static GPtrArray *
inputs_of (const gchar *property, const gchar *const names[4])
{
  GPtrArray *inputs = g_ptr_array_new_with_free_func (input_free);
  g_autoptr (Clip) clip = clip_new ("");

  g_signal_connect (clip->pipeline, "deep-element-added",
      G_CALLBACK (element_added), inputs);
  if (g_str_equal (property, "references"))
    clip_set_references (clip, names[0], names[1], names[2], names[3], NULL);
  else
    clip_set_file (clip, property, names[0]);
  clip_run (clip);
  return inputs;
}

/* --- pictures --- */

#define WIDTH 76 /* rows without padding */
#define HEIGHT 51

/* Smooth, as a photograph, and no mirror image of itself. */
static guint8
level (gint x, gint y, gint channel, gboolean gray)
{
  return gray           ? 3 * x / 2 + 2 * y
         : channel == 0 ? 20 + 2 * x + y
         : channel == 1 ? 240 - 4 * y
                        : 30 + x + 3 * y;
}

/* Which pixel of the file is seen at (x, y), and what size that makes it. */
typedef enum { UPRIGHT, ROTATE_90, ROTATE_180, ROTATE_270, FLIPPED } Turn;

static void
turned (Turn turn, gint x, gint y, gint *fx, gint *fy)
{
  *fx = turn == ROTATE_90                       ? y
        : turn == ROTATE_270                    ? WIDTH - 1 - y
        : turn == ROTATE_180 || turn == FLIPPED ? WIDTH - 1 - x
                                                : x;
  *fy = turn == ROTATE_90    ? HEIGHT - 1 - x
        : turn == ROTATE_270 ? x
        : turn == ROTATE_180 ? HEIGHT - 1 - y
                             : y;
}

/* Every value within @tolerance of what was written. */
static void
check_pixels (const gchar *file, Turn turn, gboolean gray, gint tolerance)
{
  const gchar *const names[4] = { file };
  g_autoptr (GPtrArray) inputs = inputs_of ("first-frame", names);
  const Input *input = inputs->pdata[0];
  const GstStructure *s = gst_caps_get_structure (input->caps, 0);
  gboolean sideways = turn == ROTATE_90 || turn == ROTATE_270;
  const gint w = sideways ? HEIGHT : WIDTH, h = sideways ? WIDTH : HEIGHT;
  gint width, height, worst = 0;
  gsize stride = GST_ROUND_UP_4 (3 * w);

  g_assert_cmpuint (inputs->len, ==, 1);
  gst_structure_get_int (s, "width", &width);
  gst_structure_get_int (s, "height", &height);
  g_assert_cmpint (width, ==, w);
  g_assert_cmpint (height, ==, h);
  g_assert_cmpuint (input->bytes->len, ==, stride * h);
  for (gint y = 0; y < h; y++)
    for (gint x = 0; x < w; x++)
      for (gint c = 0; c < 3; c++) {
        gint fx, fy, got = input->bytes->data[y * stride + 3 * x + c];

        turned (turn, x, y, &fx, &fy);
        worst = MAX (worst, abs (got - level (fx, fy, c, gray)));
      }
  g_test_message ("%s: off by %d at the most", file, worst);
  g_assert_cmpint (worst, <=, tolerance);
}

/* --- PNG, of every kind --- */

static void
put_u32 (GByteArray *out, guint32 value)
{
  guint32 big = GUINT32_TO_BE (value);

  g_byte_array_append (out, (const guint8 *) &big, 4);
}

static void
put_chunk (GByteArray *out, const gchar *type, const guint8 *data, gsize n)
{
  guint32 crc = 0xffffffff;
  guint begin;

  put_u32 (out, n);
  begin = out->len;
  g_byte_array_append (out, (const guint8 *) type, 4);
  g_byte_array_append (out, data, n);
  for (guint i = begin; i < out->len; i++) {
    crc ^= out->data[i];
    for (gint bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  put_u32 (out, ~crc);
}

/* zlib's format without compression. */
static GByteArray *
store (const guint8 *data, gsize n)
{
  GByteArray *out = g_byte_array_new ();
  guint32 a = 1, b = 0;

  g_byte_array_append (out, (const guint8[]){ 0x78, 1 }, 2);
  for (gsize at = 0; at < n;) {
    guint16 size = MIN (n - at, 65535);
    const guint8 head[] = { at + size == n, size, size >> 8, ~size,
      (guint16) ~size >> 8 };

    g_byte_array_append (out, head, sizeof head);
    g_byte_array_append (out, data + at, size);
    at += size;
  }
  for (gsize i = 0; i < n; i++) {
    a = (a + data[i]) % 65521;
    b = (b + a) % 65521;
  }
  put_u32 (out, b << 16 | a);
  return out;
}

enum { PNG_GRAY, PNG_RGB = 2, PNG_PALETTE, PNG_GRAY_ALPHA, PNG_RGBA = 6 };

/* @palette: 256 colours of three bytes, or NULL. Low bytes of 16 bits vary, and
 * the alpha, of which neither may be seen. */
static void
write_png (const gchar *name, gint colour, gint depth, const guint8 *palette)
{
  static const gint channels[] = { [PNG_GRAY] = 1,
    [PNG_RGB] = 3,
    [PNG_PALETTE] = 1,
    [PNG_GRAY_ALPHA] = 2,
    [PNG_RGBA] = 4 };
  const guint8 head[] = { 0, 0, 0, WIDTH, 0, 0, 0, HEIGHT, depth, colour, 0, 0,
    0 };
  gboolean gray = colour == PNG_GRAY || colour == PNG_GRAY_ALPHA;
  g_autoptr (GByteArray) lines = g_byte_array_new ();
  g_autoptr (GByteArray) out = g_byte_array_new ();
  g_autoptr (GByteArray) stored = NULL;

  for (gint y = 0; y < HEIGHT; y++) {
    g_byte_array_append (lines, (const guint8[]){ 0 }, 1);
    for (gint x = 0; x < WIDTH; x++)
      for (gint c = 0; c < channels[colour]; c++) {
        gboolean alpha = colour >= PNG_GRAY_ALPHA && c == channels[colour] - 1;
        const guint8 value[] = { alpha     ? 17 * (x % 16)
                                 : palette ? 3 * x / 2 + 2 * y
                                           : level (x, y, c, gray),
          37 * x + y };

        g_byte_array_append (lines, value, depth / 8);
      }
  }
  g_byte_array_append (out, (const guint8 *) "\x89PNG\r\n\x1a\n", 8);
  put_chunk (out, "IHDR", head, sizeof head);
  if (palette)
    put_chunk (out, "PLTE", palette, 768);
  stored = store (lines->data, lines->len);
  put_chunk (out, "IDAT", stored->data, stored->len);
  put_chunk (out, "IEND", NULL, 0);
  write_file (name, out->data, out->len);
}

static void
test_png (void)
{
  static const struct {
    gint colour, depth, tolerance;
    gboolean gray;
  } cases[] = {
    { PNG_GRAY, 8, 0, TRUE },
    { PNG_GRAY, 16, 1, TRUE }, /* rounded, where others cut off */
    { PNG_RGB, 8, 0, FALSE },
    { PNG_RGB, 16, 1, FALSE }, /* the very last value is lost */
    { PNG_PALETTE, 8, 0, TRUE },
    { PNG_GRAY_ALPHA, 8, 0, TRUE },
    { PNG_GRAY_ALPHA, 16, 0, TRUE },
    { PNG_RGBA, 8, 0, FALSE },
    { PNG_RGBA, 16, 0, FALSE },
  };
  guint8 palette[768];

  for (guint i = 0; i < sizeof palette; i++)
    palette[i] = i / 3;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *name =
        g_strdup_printf ("kind-%d-%d.png", cases[i].colour, cases[i].depth);

    write_png (name, cases[i].colour, cases[i].depth,
        cases[i].colour == PNG_PALETTE ? palette : NULL);
    check_pixels (name, UPRIGHT, cases[i].gray, cases[i].tolerance);
  }
}

/* --- JPEG --- */

/* Full range, as JFIF has it, at @format; more of the pipeline may follow. */
static void
write_jpeg (const gchar *name, const gchar *format, gboolean gray,
    const gchar *more)
{
  guint8 raw[WIDTH * HEIGHT * 3];

  for (gint i = 0; i < WIDTH * HEIGHT * 3; i++)
    raw[i] = level (i / 3 % WIDTH, i / 3 / WIDTH, i % 3, gray);
  write_file ("raw.rgb", raw, sizeof raw);
  make_file ("filesrc location=%s/raw.rgb ! rawvideoparse format=rgb width=%d "
             "height=%d framerate=1/1 ! videoconvert ! video/x-raw,format=%s,"
             "colorimetry=1:4:0:0 ! jpegenc quality=100 idct-method=islow %s ! "
             "filesink location=%s/%s",
      test_dir, WIDTH, HEIGHT, format, more, test_dir, name);
}

/* What was drawn, and to the bit what the decoder gives at its most precise. */
static void
test_jpeg (void)
{
  static const struct {
    const gchar *format;
    gboolean gray;
    gint tolerance;
  } cases[] = {
    { "GRAY8", TRUE, 2 },
    { "I420", TRUE, 2 },
    /* the decoder gives every colour for four pixels, also of these */
    { "Y444", FALSE, 8 },
  };
  g_autofree gchar *path = test_path ("straight.rgb");

  if (test_lacks ("jpegenc jpegdec"))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const gchar *const names[4] = { "a.jpg" };
    g_autoptr (GPtrArray) inputs = NULL;
    g_autofree gchar *straight = NULL;
    const Input *input;
    gsize n;

    write_jpeg ("a.jpg", cases[i].format, cases[i].gray, "");
    check_pixels ("a.jpg", UPRIGHT, cases[i].gray, cases[i].tolerance);
    make_file ("filesrc location=%s/a.jpg ! jpegdec idct-method=islow ! "
               "videoconvert dither=none "
               "! video/x-raw,format=RGB ! filesink location=%s",
        test_dir, path);
    g_assert_true (g_file_get_contents (path, &straight, &n, NULL));
    inputs = inputs_of ("first-frame", names);
    input = inputs->pdata[0];
    g_assert_cmpmem (straight, n, input->bytes->data, input->bytes->len);
  }
}

/* How the camera was held. */
static void
test_orientation (void)
{
  static const gchar *const tags[] = { [UPRIGHT] = "rotate-0",
    [ROTATE_90] = "rotate-90",
    [ROTATE_180] = "rotate-180",
    [ROTATE_270] = "rotate-270",
    [FLIPPED] = "flip-rotate-0" };

  if (test_lacks ("jpegenc jpegdec jpegparse jifmux taginject"))
    return;
  for (guint turn = UPRIGHT; turn <= FLIPPED; turn++) {
    g_autofree gchar *more =
        g_strdup_printf ("! taginject tags=\"image-orientation=%s\" ! jifmux",
            tags[turn]);

    write_jpeg ("turned.jpg", "I420", TRUE, more);
    check_pixels ("turned.jpg", turn, TRUE, 3);
  }
}

/* --- sounds --- */

typedef struct {
  gint rate, channels, bits; /* 32: float */
} Sound;

/* What sample @i of a channel is, as the file's format can say it. */
static gdouble
sample (const Sound *sound, gint i, gint channel)
{
  gdouble value = 0.5 * sin (2 * G_PI * 440 * i / sound->rate + channel);
  gdouble scale = sound->bits == 32 ? 1 << 30 : 1 << (sound->bits - 1);

  return (gfloat) (rint (value * scale) / scale);
}

static void
put_le (GByteArray *out, gint64 value, guint bytes)
{
  for (guint i = 0; i < bytes; i++) {
    guint8 byte = value >> 8 * i;

    g_byte_array_append (out, &byte, 1);
  }
}

static void
put_sample (GByteArray *out, gint bits, gdouble value)
{
  gfloat f = value;

  if (bits == 32)
    g_byte_array_append (out, (const guint8 *) &f, 4);
  else
    put_le (out,
        (gint64) rint (value * (1 << (bits - 1))) + (bits == 8 ? 128 : 0),
        bits / 8);
}

/* RIFF's header: WAVE_FORMAT_EXTENSIBLE, which says where channels belong. */
static GByteArray *
begin_wav (const Sound *sound, gsize n)
{
  GByteArray *out = g_byte_array_new ();
  gint block = sound->channels * sound->bits / 8;
  const guint8 rest[] = { 0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b,
    0x71 };

  g_byte_array_append (out, (const guint8 *) "RIFF", 4);
  put_le (out, 60 + n * block, 4);
  g_byte_array_append (out, (const guint8 *) "WAVEfmt ", 8);
  put_le (out, 40, 4);
  put_le (out, 0xfffe, 2);
  put_le (out, sound->channels, 2);
  put_le (out, sound->rate, 4);
  put_le (out, sound->rate * block, 4);
  put_le (out, block, 2);
  put_le (out, sound->bits, 2);
  put_le (out, 22, 2);
  put_le (out, sound->bits, 2);
  put_le (out, sound->channels == 6 ? 0x3f : sound->channels == 2 ? 3 : 4, 4);
  put_le (out, sound->bits == 32 ? 3 : 1, 2);
  g_byte_array_append (out, rest, sizeof rest);
  g_byte_array_append (out, (const guint8 *) "data", 4);
  put_le (out, n * block, 4);
  return out;
}

static void
write_sound (const gchar *name, const Sound *sound, gint n)
{
  g_autoptr (GByteArray) out = begin_wav (sound, n);

  for (gint i = 0; i < n; i++)
    for (gint c = 0; c < sound->channels; c++)
      put_sample (out, sound->bits, sample (sound, i, c));
  write_file (name, out->data, out->len);
}

static void
check_sound (const Input *input, const Sound *sound, gint n)
{
  const GstStructure *s = gst_caps_get_structure (input->caps, 0);
  const gfloat *got = (const gfloat *) input->bytes->data;
  gint rate, channels;

  gst_structure_get_int (s, "rate", &rate);
  gst_structure_get_int (s, "channels", &channels);
  g_assert_cmpint (rate, ==, sound->rate);
  g_assert_cmpint (channels, ==, sound->channels);
  g_assert_cmpuint (input->bytes->len, ==, n * channels * sizeof (gfloat));
  for (gint i = 0; i < n * channels; i++) {
    gdouble want = sample (sound, i / channels, i % channels);

    if (fabs (got[i] - want) > 1e-7)
      g_error ("%d Hz, %d bits, %d channels: sample %d is %g, not %g", rate,
          sound->bits, channels, i, got[i], want);
  }
}

/* Sounds come at their own rate, every sample as the file has it; a picture
 * beside them, since they cannot be alone. */
static void
test_samples (void)
{
  static const Sound sounds[][3] = {
    { { 8000, 1, 16 }, { 11025, 2, 8 }, { 22050, 1, 24 } },
    { { 44100, 2, 16 }, { 48000, 1, 32 }, { 96000, 2, 24 } },
    { { 192000, 1, 16 }, { 32000, 2, 32 }, { 16000, 1, 8 } },
  };
  g_autofree gchar *image = golden_picture ("image.png");
  const gchar *const names[4] = { "0.wav", "1.wav", "2.wav", image };

  for (guint i = 0; i < G_N_ELEMENTS (sounds); i++) {
    g_autoptr (GPtrArray) inputs = NULL;

    for (guint k = 0; k < 3; k++)
      write_sound (names[k], &sounds[i][k], sounds[i][k].rate / 5);
    inputs = inputs_of ("references", names);
    g_assert_cmpuint (inputs->len, ==, 4);
    for (guint k = 0; k < 3; k++)
      check_sound (inputs->pdata[k], &sounds[i][k], sounds[i][k].rate / 5);
  }
}

/* 5.1 becomes stereo as audioconvert does it: front, LFE 1, centre 1 / sqrt (2),
 * rear 1 / 2, over their sum, so that nothing is ever cut off. Each channel by
 * itself, one after the other. */
static void
test_surround (void)
{
  static const Sound sound = { 48000, 6, 16 };
  const gint each = 480, n = 6 * each;
  static const gdouble gains[6][2] = { { 1, 0 }, { 0, 1 },
    { M_SQRT1_2, M_SQRT1_2 }, { 1, 1 }, { 0.5, 0 }, { 0, 0.5 } };
  const gdouble all = 2 + M_SQRT1_2 + 0.5;
  g_autofree gchar *image = golden_picture ("image.png");
  const gchar *const names[4] = { "surround.wav", image };
  g_autoptr (GByteArray) out = begin_wav (&sound, n);
  g_autoptr (GPtrArray) inputs = NULL;
  const Input *input;
  const gfloat *got;

  for (gint i = 0; i < n; i++)
    for (gint c = 0; c < 6; c++)
      put_sample (out, 16, i / each == c ? 0.25 : 0);
  write_file (names[0], out->data, out->len);
  inputs = inputs_of ("references", names);
  input = inputs->pdata[0];
  g_assert_cmpuint (input->bytes->len, ==, n * 2 * sizeof (gfloat));
  got = (const gfloat *) input->bytes->data;
  for (gint i = 0; i < n; i++)
    for (gint side = 0; side < 2; side++)
      g_assert_cmpfloat_with_epsilon (got[2 * i + side],
          0.25 * gains[i / each][side] / all, 1e-6);
}

void
add_condition_input_tests (void)
{
  g_test_add_func ("/conditions/inputs/png", test_png);
  g_test_add_func ("/conditions/inputs/jpeg", test_jpeg);
  g_test_add_func ("/conditions/inputs/orientation", test_orientation);
  g_test_add_func ("/conditions/inputs/samples", test_samples);
  g_test_add_func ("/conditions/inputs/surround", test_surround);
}
