/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A decoder over its life: windows, lengths, clips one after the other,
 * cancelling, and latents it must refuse. */
#include <math.h>
#include <string.h>

#include "fill-model.h"
#include "model/video/video-private.h"
#include "test-video.h"
#include "tests/tools/h3-test.h"
#include "tests/tools/h3-test-device.h"

#define CHANNELS 4
#define H 9 /* of model A: tile rows from 0 and 1, columns from 0 and 6 */
#define W 14
#define MAX_T 27 /* 5 windows */

typedef struct {
  H3VideoVae *vae;
  H3Stream *stream;
  H3VideoDecoder *decoder;
} Fixture;

/* Groups of up to @max_group windows. How many rows a product has decides how it
 * sums, so only equal groups give equal bytes. */
static H3VideoDecoder *
decoder_of (Fixture *f, gint max_group)
{
  g_autoptr (GError) error = NULL;
  H3VideoDecoder *decoder = h3_video_decoder_new_grouped (f->vae, f->stream, H,
      W, H3_COMPOSITION_RAW, max_group, &error);

  g_assert_no_error (error);
  g_assert_nonnull (decoder);
  return decoder;
}

static void
set_up (Fixture *f, gconstpointer data)
{
  g_autoptr (GPtrArray) tensors = fill_tensors (&fill_model_a);
  gchar *dir = fill_write_official (&fill_model_a, tensors, FILL_F32, NULL);
  g_autoptr (GError) error = NULL;

  f->vae = test_vae (dir);
  fill_delete (dir);
  f->stream = h3_stream_new (test_device (), &error);
  g_assert_no_error (error);
  f->decoder = decoder_of (f, 1);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  h3_video_decoder_free (f->decoder);
  h3_stream_free (f->stream);
  h3_video_vae_unref (f->vae);
}

/* T frames of one latent that is as long as any here, times @sign. */
static H3Tensor *
latent_of (gint t, gfloat sign)
{
  g_autofree gfloat *whole = fill_latent (CHANNELS, MAX_T, H, W);
  g_autofree gfloat *cut = g_new (gfloat, CHANNELS * t * H * W);

  for (gint c = 0; c < CHANNELS; c++)
    for (gint i = 0; i < t * H * W; i++)
      cut[c * t * H * W + i] = sign * whole[c * MAX_T * H * W + i];
  return test_latent (cut, CHANNELS, t, H, W);
}

static Clip *
decode (Fixture *f, H3Tensor *latent)
{
  g_autoptr (GError) error = NULL;
  Clip *clip = test_decode_with (f->decoder, f->stream, latent, NULL, &error);

  g_assert_no_error (error);
  return clip;
}

static void
assert_same_clip (const Clip *a, const Clip *b)
{
  g_assert_cmpint (a->frames, ==, b->frames);
  g_assert_cmpmem (a->pixels,
      (gsize) 3 * a->frames * a->height * a->width * sizeof (gfloat), b->pixels,
      (gsize) 3 * b->frames * b->height * b->width * sizeof (gfloat));
}

static void
test_lengths (Fixture *f, gconstpointer data)
{
  static const struct {
    gint t, frames;
    gint counts[4];
  } table[] = {
    { 1, 1, { 1 } },
    { 2, 5, { 5 } },
    { 3, 9, { 9 } },
    { 5, 17, { 17 } },
    { 6, 18, { 17, 1 } },
    { 7, 22, { 17, 5 } },
    { 8, 26, { 17, 9 } },
    { 11, 35, { 17, 17, 1 } },
    { 12, 39, { 17, 17, 5 } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (table); i++) {
    g_autoptr (H3Tensor) latent = latent_of (table[i].t, 1);
    g_autoptr (Clip) clip = decode (f, latent);
    guint n = 0;

    g_assert_cmpint (clip->frames, ==, table[i].frames);
    g_assert_cmpint (clip->height, ==, H * 4);
    g_assert_cmpint (clip->width, ==, W * 4);
    while (n < 4 && table[i].counts[n])
      n++;
    g_assert_cmpmem (clip->counts->data, clip->counts->len * sizeof (gint),
        table[i].counts, n * sizeof (gint));
  }
}

/* A latent padded by hand with copies of its last is the same clip, longer. */
static void
test_padding (Fixture *f, gconstpointer data)
{
  static const gint lengths[] = { 1, 2, 3, 5, 8 };

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++) {
    gint t = lengths[i], padded = t <= 7 ? 7 : 12;
    g_autofree gfloat *whole = fill_latent (CHANNELS, MAX_T, H, W);
    g_autofree gfloat *values = g_new (gfloat, CHANNELS * padded * H * W);
    g_autoptr (H3Tensor) latent = latent_of (t, 1);
    g_autoptr (H3Tensor) long_latent = NULL;
    g_autoptr (Clip) clip = NULL;
    g_autoptr (Clip) long_clip = NULL;

    for (gint c = 0; c < CHANNELS; c++)
      for (gint k = 0; k < padded; k++)
        memcpy (values + (c * padded + k) * H * W,
            whole + (c * MAX_T + MIN (k, t - 1)) * H * W,
            H * W * sizeof (gfloat));
    long_latent = test_latent (values, CHANNELS, padded, H, W);
    clip = decode (f, latent);
    long_clip = decode (f, long_latent);
    for (gint c = 0; c < 3; c++)
      for (gint k = 0; k < clip->frames; k++)
        for (gint y = 0; y < H * 4; y++)
          for (gint x = 0; x < W * 4; x++)
            /* a still is frame 4 of two latents */
            g_assert_cmpfloat (clip_at (clip, c, k, y, x), ==,
                clip_at (long_clip, c, t == 1 ? 4 : k, y, x));
  }
}

/* Frames 0 .. 16 need latents 0 .. 6 alone, whatever follows. */
static void
test_windows_are_causal (Fixture *f, gconstpointer data)
{
  g_autoptr (H3Tensor) seven = latent_of (7, 1);
  g_autoptr (H3Tensor) twelve = latent_of (12, 1);
  g_autoptr (Clip) short_clip = decode (f, seven);
  g_autoptr (Clip) long_clip = decode (f, twelve);
  gboolean other = FALSE;

  for (gint c = 0; c < 3; c++)
    for (gint y = 0; y < H * 4; y++)
      for (gint x = 0; x < W * 4; x++) {
        for (gint k = 0; k <= 17; k++) /* 17 is wholly the first window's */
          g_assert_cmpfloat (clip_at (short_clip, c, k, y, x), ==,
              clip_at (long_clip, c, k, y, x));
        other |= clip_at (short_clip, c, 18, y, x) !=
                 clip_at (long_clip, c, 18, y, x);
      }
  g_assert_true (other);
}

static void
test_clips_in_a_row (Fixture *f, gconstpointer data)
{
  g_autoptr (H3Tensor) a = latent_of (12, 1);
  g_autoptr (H3Tensor) b = latent_of (8, -1);
  g_autoptr (Clip) first = decode (f, a);
  g_autoptr (Clip) between = decode (f, b);
  g_autoptr (Clip) again = decode (f, a);
  g_autoptr (Clip) between_again = decode (f, b);

  assert_same_clip (first, again);
  assert_same_clip (between, between_again);
}

/* After its end a clip has no more frames, and none before its start. */
static void
test_end (Fixture *f, gconstpointer data)
{
  g_autoptr (H3Tensor) latent = latent_of (7, 1);
  g_autoptr (Clip) clip = NULL;
  H3Tensor *pixels = (H3Tensor *) f;
  gint first, n = -1;

  g_assert_cmpint (h3_video_decoder_frames (f->decoder), ==, 0);
  g_assert_true (h3_video_decoder_next (f->decoder, NULL, NULL, &pixels, &first,
      &n, NULL));
  g_assert_cmpint (n, ==, 0);
  g_assert_null (pixels);
  clip = decode (f, latent);
  for (gint i = 0; i < 2; i++) {
    g_assert_true (h3_video_decoder_next (f->decoder, NULL, NULL, &pixels,
        &first, &n, NULL));
    g_assert_cmpint (n, ==, 0);
    g_assert_cmpint (first, ==, 22);
  }
}

/* Asks to stop from the @left-th question on. */
static gboolean
stop_after (gpointer user_data)
{
  gint *left = user_data;

  return --*left < 0;
}

static gint
count_questions (Fixture *f, H3VideoDecoder *decoder, H3Tensor *latent)
{
  gint left = G_MAXINT;
  H3Stop stop = { stop_after, &left };
  g_autoptr (GError) error = NULL;
  g_autoptr (Clip) clip =
      test_decode_with (decoder, f->stream, latent, &stop, &error);

  g_assert_no_error (error);
  return G_MAXINT - left;
}

static void
test_cancel (Fixture *f, gconstpointer data)
{
  g_autoptr (H3Tensor) latent = latent_of (12, 1);
  g_autoptr (H3Tensor) other = latent_of (12, -1);
  g_autoptr (Clip) whole = decode (f, latent);
  gint questions = count_questions (f, f->decoder, other);

  /* at least once per window and block */
  g_assert_cmpint (questions, >=, 2 * 2);
  for (gint k = 0; k < questions; k++) {
    gint left = k;
    H3Stop stop = { stop_after, &left };
    g_autoptr (GError) error = NULL;
    g_autoptr (Clip) none =
        test_decode_with (f->decoder, f->stream, other, &stop, &error);
    g_autoptr (Clip) again = NULL;

    g_assert_null (none);
    g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
    again = decode (f, latent);
    assert_same_clip (again, whole);
  }
}

/* The window that was cancelled can be asked for again. */
static void
test_resume (Fixture *f, gconstpointer data)
{
  g_autoptr (H3Tensor) latent = latent_of (12, 1);
  g_autoptr (Clip) whole = decode (f, latent);
  gint first, n, left = 1;
  H3Stop stop = { stop_after, &left };
  g_autofree gfloat *got = NULL;
  g_autoptr (GError) error = NULL;
  H3Tensor *pixels;

  g_assert_true (h3_video_decoder_start (f->decoder, latent, NULL));
  h3_video_decoder_next (f->decoder, NULL, NULL, &pixels, &first, &n, NULL);
  g_assert_false (h3_video_decoder_next (f->decoder, &stop, NULL, &pixels,
      &first, &n, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
  g_assert_cmpint (n, ==, 0);
  g_assert_true (h3_video_decoder_next (f->decoder, NULL, NULL, &pixels, &first,
      &n, NULL));
  g_assert_cmpint (first, ==, 17);
  got = g_new (gfloat, h3_tensor_size (pixels));
  h3_download (f->stream, got, pixels);
  g_assert_true (h3_stream_synchronize (f->stream, NULL));
  g_assert_cmpfloat (got[0], ==, clip_at (whole, 0, 17, 0, 0));
  g_assert_cmpfloat (got[5 * H * 4 * W * 4], ==, clip_at (whole, 0, 22, 0, 0));
}

/* Groups */

static void
count_runs (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  gint *runs = user_data;

  *runs += g_str_equal (name, "decoder.proj_in");
}

/* The next call gives the frames of @whole from @expected on, after
 * @expected_runs batches. */
static gint
assert_next (Fixture *f, H3VideoDecoder *decoder, const Clip *whole,
    gint expected, gint expected_runs)
{
  gint runs = 0, first, n;
  H3Tap tap = { count_runs, &runs };
  gsize frame = (gsize) whole->height * whole->width;
  gdouble tolerance = h3_test_tolerance (2e-5, 1e-2);
  g_autofree gfloat *got = NULL;
  g_autoptr (GError) error = NULL;
  H3Tensor *pixels;

  h3_video_decoder_next (decoder, NULL, &tap, &pixels, &first, &n, &error);
  g_assert_no_error (error);
  g_assert_cmpint (runs, ==, expected_runs);
  g_assert_cmpint (first, ==, expected);
  if (n == 0)
    return 0;

  got = g_new (gfloat, h3_tensor_size (pixels));
  h3_download (f->stream, got, pixels);
  g_assert_true (h3_stream_synchronize (f->stream, NULL));
  for (gint c = 0; c < 3; c++) {
    const gfloat *a = got + c * n * frame;
    const gfloat *b = whole->pixels + (c * whole->frames + first) * frame;

    for (gsize i = 0; i < n * frame; i++)
      g_assert_cmpfloat_with_epsilon (a[i], b[i], tolerance);
  }
  return n;
}

/* The windows of @t latents in groups of up to @max_group: @runs[k] batches in
 * call k. */
static void
assert_groups (Fixture *f, gint t, gint max_group, const gint *runs)
{
  g_autoptr (H3VideoDecoder) decoder = decoder_of (f, max_group);
  g_autoptr (H3Tensor) latent = latent_of (t, 1);
  g_autoptr (Clip) whole = decode (f, latent);
  guint call = 0;
  gint first = 0, n;

  g_assert_true (h3_video_decoder_start (decoder, latent, NULL));
  do {
    n = assert_next (f, decoder, whole, first, runs[call]);
    if (n > 0)
      g_assert_cmpint (n, ==, g_array_index (whole->counts, gint, call));
    first += n;
    call++;
  } while (n > 0);
  g_assert_cmpint (first, ==, whole->frames);
  g_assert_cmpuint (call, ==, whole->counts->len + 1);
}

/* The same clip whatever the grouping, and the network runs as seldom as it can. */
static void
test_groups (Fixture *f, gconstpointer data)
{
  static const struct {
    gint t, max_group;
    gint runs[8];
  } table[] = {
    { 1, 3, { 1 } },
    { 7, 3, { 1 } },
    { 12, 1, { 1, 1 } }, /* 39 frames */
    { 12, 2, { 1 } },
    { 12, 3, { 1 } },
    { 17, 1, { 1, 1, 1 } }, /* 56 */
    { 17, 2, { 1, 0, 1 } }, /* ends inside a group */
    { 17, 3, { 1 } },
    { 27, 2, { 1, 0, 1, 0, 1 } }, /* 90 */
    { 27, 3, { 1, 0, 0, 1 } },    /* ends inside a group */
    { 27, 4, { 1, 0, 0, 1 } },    /* 3 + 2 rather than 4 + 1 */
    { 27, 32, { 1 } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    assert_groups (f, table[i].t, table[i].max_group, table[i].runs);
}

/* A decoder of groups takes clips of any length one after the other. */
static void
test_groups_in_a_row (Fixture *f, gconstpointer data)
{
  static const gint lengths[] = { 27, 1, 17, 27 };
  g_autoptr (H3VideoDecoder) decoder = decoder_of (f, 3);

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++) {
    g_autoptr (H3VideoDecoder) fresh = decoder_of (f, 3);
    g_autoptr (H3Tensor) latent = latent_of (lengths[i], 1);
    g_autoptr (Clip) got =
        test_decode_with (decoder, f->stream, latent, NULL, NULL);
    g_autoptr (Clip) expected =
        test_decode_with (fresh, f->stream, latent, NULL, NULL);

    assert_same_clip (got, expected);
  }
}

/* Wherever a clip of 3 + 2 windows is cancelled, the call can be made again. */
static void
test_groups_cancel (Fixture *f, gconstpointer data)
{
  g_autoptr (H3VideoDecoder) decoder = decoder_of (f, 3);
  g_autoptr (H3Tensor) latent = latent_of (27, 1);
  g_autoptr (Clip) whole =
      test_decode_with (decoder, f->stream, latent, NULL, NULL);
  gint questions = count_questions (f, decoder, latent);

  for (gint k = 0; k < questions; k++) {
    gint left = k, first, n;
    H3Stop stop = { stop_after, &left };
    g_autoptr (GError) error = NULL;
    H3Tensor *pixels;

    g_assert_true (h3_video_decoder_start (decoder, latent, NULL));
    while (h3_video_decoder_next (decoder, &stop, NULL, &pixels, &first, &n,
        &error))
      g_assert_cmpint (n, >, 0);
    g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
    g_assert_cmpint (n, ==, 0);
    /* groups begin with windows 0 and 3 */
    assert_next (f, decoder, whole, first, first % 51 == 0);
  }
}

static void
test_bad_latents (Fixture *f, gconstpointer data)
{
  static const struct {
    H3DType dtype;
    guint rank;
    gint64 shape[5];
  } bad[] = {
    { H3_DTYPE_F32, 4, { CHANNELS + 1, 7, H, W } },
    { H3_DTYPE_F32, 4, { CHANNELS, 0, H, W } },
    { H3_DTYPE_F32, 4, { CHANNELS, 7, H + 1, W } },
    { H3_DTYPE_F32, 4, { CHANNELS, 7, H, W - 1 } },
    { H3_DTYPE_F32, 4, { CHANNELS, 7, W, H } },
    { H3_DTYPE_F32, 3, { CHANNELS, H, W } },
    { H3_DTYPE_F32, 5, { 1, CHANNELS, 7, H, W } },
    { H3_DTYPE_F16, 4, { CHANNELS, 7, H, W } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (H3Tensor) latent = h3_tensor_new (test_device (), bad[i].dtype,
        bad[i].rank, bad[i].shape, NULL);

    g_assert_false (h3_video_decoder_start (f->decoder, latent, &error));
    h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "video latent",
        "float32 [4, T, 9, 14]");
    g_assert_cmpint (h3_video_decoder_frames (f->decoder), ==, 0);
  }
}

static void
test_bad_sizes (Fixture *f, gconstpointer data)
{
  static const gint bad[][2] = { { 0, 4 }, { 4, 0 }, { -1, 4 }, { 4, 1 << 20 },
    { G_MAXINT, 4 } };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (h3_video_decoder_new (f->vae, f->stream, bad[i][0],
        bad[i][1], H3_COMPOSITION_RAW, &error));
    g_assert_error (error, H3_ERROR, H3_ERROR_SETTINGS);
    g_assert_cmpuint (h3_video_decoder_workspace (h3_video_vae_config (f->vae),
                          test_device (), bad[i][0], bad[i][1]),
        ==, 0);
  }
}

/* Memory of the device, counted by way of its own table. */
static guint64 allocated, peak;
static const H3DeviceOps *real_ops;

static gpointer
counting_alloc (H3Device *device, gsize bytes, GError **error)
{
  allocated += bytes;
  peak = MAX (peak, allocated);
  return real_ops->alloc (device, bytes, error);
}

static void
counting_free (H3Device *device, gpointer data, gsize bytes)
{
  allocated -= bytes;
  real_ops->free (device, data, bytes);
}

/* The workspace is what was said, and no clip takes more; @max_group: what the
 * device would have, or 0 for what it has. */
static void
assert_workspace (Fixture *f, guint64 planned, gint max_group)
{
  H3Device *device = test_device ();
  g_autoptr (H3Tensor) latent = latent_of (12, 1);
  g_autoptr (H3VideoDecoder) decoder = NULL;
  g_autoptr (Clip) clip = NULL;
  H3DeviceOps ops;
  H3Tensor *pixels;
  gint first, n = 1;

  real_ops = device->ops;
  ops = *real_ops;
  ops.alloc = counting_alloc;
  ops.free = counting_free;
  allocated = peak = 0;
  device->ops = &ops;
  decoder = max_group ? decoder_of (f, max_group)
                      : h3_video_decoder_new (f->vae, f->stream, H, W,
                            H3_COMPOSITION_RAW, NULL);
  g_assert_nonnull (decoder);
  g_assert_cmpuint (allocated, ==, planned);

  g_assert_true (h3_video_decoder_start (decoder, latent, NULL));
  while (n > 0)
    g_assert_true (
        h3_video_decoder_next (decoder, NULL, NULL, &pixels, &first, &n, NULL));
  g_assert_cmpuint (peak, ==, planned);
  g_clear_pointer (&decoder, h3_video_decoder_free);
  g_assert_cmpuint (allocated, ==, 0);
  device->ops = real_ops;
}

static void
test_workspace (Fixture *f, gconstpointer data)
{
  const H3VideoVaeConfig *config = h3_video_vae_config (f->vae);
  H3Device cpu = *test_device (), gpu = cpu;
  guint64 single, grouped;

  cpu.host_memory = TRUE;
  gpu.host_memory = FALSE;
  single = h3_video_decoder_workspace (config, &cpu, H, W);
  grouped = h3_video_decoder_workspace (config, &gpu, H, W);
  g_assert_cmpuint (grouped, >, single);
  assert_workspace (f, test_device ()->host_memory ? single : grouped, 0);
  assert_workspace (f, single, 1);
  assert_workspace (f, grouped, 8);
}

/* On a GPU no canvas of whole tiles needs more than one of a full batch, 7 x 2
 * tiles of the release's size, and none of smaller tiles much more. */
static void
test_workspace_bound (void)
{
  static const H3VideoVaeConfig release = {
    .channels = 24,
    .layers = 24,
    .heads = 24,
    .head_dim = 64,
    .registers = 4,
    .ffn = 4096,
    .ratio = 16,
    .ratio_t = 4,
    .tile = 256,
    .min_overlap = 64,
    .rope_ratio = 0.5,
  };
  H3Device gpu = *test_device ();
  guint64 full;

  gpu.host_memory = FALSE;
  full = h3_video_decoder_workspace (&release, &gpu, 28, 88);
  for (gint h = 1; h <= 28; h++)
    for (gint w = 1; w <= 64; w++) {
      guint64 bytes = h3_video_decoder_workspace (&release, &gpu, h, w);

      g_assert_cmpuint (bytes, >, 0);
      g_assert_cmpuint (bytes, <=, h < 16 || w < 16 ? full / 16 * 17 : full);
    }
}

/* Fails the allocation that brings the total above @peak. */
static gpointer
failing_alloc (H3Device *device, gsize bytes, GError **error)
{
  if (allocated + bytes > peak) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE, "no space in this test");
    return NULL;
  }
  allocated += bytes;
  return real_ops->alloc (device, bytes, error);
}

static void
test_no_space (Fixture *f, gconstpointer data)
{
  const H3VideoVaeConfig *config = h3_video_vae_config (f->vae);
  H3Device *device = test_device ();
  guint64 planned = h3_video_decoder_workspace (config, device, H, W);
  H3DeviceOps ops;

  real_ops = device->ops;
  ops = *real_ops;
  ops.alloc = failing_alloc;
  ops.free = counting_free;
  device->ops = &ops;
  for (gint tenth = 0; tenth < 10; tenth++) {
    g_autoptr (GError) error = NULL;
    H3VideoDecoder *decoder;

    allocated = 0;
    peak = planned / 10 * tenth;
    decoder = h3_video_decoder_new (f->vae, f->stream, H, W, H3_COMPOSITION_RAW,
        &error);
    g_assert_null (decoder);
    g_assert_error (error, H3_ERROR, H3_ERROR_NO_SPACE);
    g_assert_cmpuint (allocated, ==, 0);
  }
  device->ops = real_ops;
}

/* Names of what a tap shows, in order. */
static void
collect (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  g_string_append_printf (user_data, "%s%s",
      *((GString *) user_data)->str ? " " : "", name + strlen ("decoder."));
  g_assert_nonnull (value->data);
}

static void
test_tap (Fixture *f, gconstpointer data)
{
  g_autoptr (H3Tensor) latent = latent_of (7, 1);
  g_autoptr (GString) names = g_string_new (NULL);
  H3Tap tap = { collect, names };
  H3Tensor *pixels;
  gint first, n;

  g_assert_true (h3_video_decoder_start (f->decoder, latent, NULL));
  g_assert_true (h3_video_decoder_next (f->decoder, NULL, &tap, &pixels, &first,
      &n, NULL));
  g_assert_cmpstr (names->str, ==,
      "proj_in transformer_blocks.0 transformer_blocks.1 norm_out proj_out");
}

/* Many small batches give what one large batch gives: 35 tiles of 453 rows do
 * not fit into one. */
static void
test_batches (Fixture *f, gconstpointer data)
{
  const gint h = 26, w = 35, tile_h = 8, tile_w = 8;
  g_autofree gfloat *values = fill_latent (CHANNELS, 7, h, w);
  g_autofree gfloat *corner = g_new (gfloat, CHANNELS * 7 * 64);
  g_autoptr (Clip) clip = NULL;
  g_autoptr (Clip) tile = NULL;
  gint y0 = h - tile_h, x0 = w - tile_w;

  for (gint i = 0; i < CHANNELS * 7; i++)
    for (gint y = 0; y < tile_h; y++)
      memcpy (corner + (i * tile_h + y) * tile_w,
          values + (i * h + y0 + y) * w + x0, tile_w * sizeof (gfloat));
  clip = test_decode (f->vae, values, 7, h, w, H3_COMPOSITION_RAW);
  tile = test_decode (f->vae, corner, 7, tile_h, tile_w, H3_COMPOSITION_RAW);
  /* the last tile's own corner, which no other overlaps */
  for (gint c = 0; c < 3; c++)
    for (gint k = 0; k < 22; k++)
      g_assert_cmpfloat_with_epsilon (clip_at (clip, c, k, h * 4 - 1,
                                          w * 4 - 1),
          clip_at (tile, c, k, tile_h * 4 - 1, tile_w * 4 - 1), 2e-5);
}

void
add_stream_tests (void)
{
#define ADD(name, func)                                                        \
  g_test_add ("/video/stream/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("lengths", test_lengths);
  ADD ("padding", test_padding);
  ADD ("windows-are-causal", test_windows_are_causal);
  ADD ("clips-in-a-row", test_clips_in_a_row);
  ADD ("end", test_end);
  ADD ("cancel", test_cancel);
  ADD ("resume", test_resume);
  ADD ("groups", test_groups);
  ADD ("groups-in-a-row", test_groups_in_a_row);
  ADD ("groups-cancel", test_groups_cancel);
  ADD ("bad-latents", test_bad_latents);
  ADD ("bad-sizes", test_bad_sizes);
  ADD ("workspace", test_workspace);
  ADD ("no-space", test_no_space);
  ADD ("tap", test_tap);
  ADD ("batches", test_batches);
#undef ADD
  g_test_add_func ("/video/stream/workspace-bound", test_workspace_bound);
}
