/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests with pictures, clips and sounds through the vision tower and the text
 * encoder, from the media files to the golden states. */
#include <json-glib/json-glib.h>
#include <math.h>

#include "model/text/presentation.h"
#include "tests/text/vision-test.h"
#include "tests/tools/h3-test-png.h"

/* golden/README.md: a float32 implementation at a module */
#define TOLERANCE h3_test_tolerance (1e-5, 3e-2)
#define PATCH_SIZE 1536

/* The golden references' scaled-down sizes (golden/README.md). */
#define GOLDEN_EDGE 64

/* A request out of tests/golden. */
typedef struct {
  const gchar *golden, *requests, *name;
  GPtrArray *conditions; /* H3TextCondition */
} Request;

static void
add_picture (Request *request, H3ConditionKind kind, const gchar *png,
    H3Fit fit, gint width, gint height)
{
  gint src_width, src_height;
  g_autofree guint8 *src = h3_test_png (png, &src_width, &src_height);
  g_autoptr (GError) error = NULL;
  H3TextCondition *condition;
  H3Image image;

  if (kind == H3_CONDITION_IMAGE) {
    h3_reference_size (H3_REFERENCE_RESIZE_DIFFUSERS, GOLDEN_EDGE, width,
        height, src_width, src_height, &width, &height, &error);
    g_assert_no_error (error);
  }
  h3_image_fit (&image, fit, width, height, src, src_width * 3, src_width,
      src_height, &error);
  g_assert_no_error (error);
  condition = h3_text_condition_new_picture (kind, &image, &error);
  g_assert_no_error (error);
  g_ptr_array_add (request->conditions, condition);
}

/* media.safetensors: 30 frames at 24 fps. */
static void
add_clip (Request *request, gint most_frames)
{
  gint64 shape[H3_STORED_MAX_RANK];
  g_autofree gint32 *stored =
      h3_test_golden_ints ("media.safetensors", "video_frames", NULL);
  g_autofree guint8 *frame = NULL;
  g_autoptr (GError) error = NULL;
  H3TextCondition *clip;
  gint width, height;
  gsize size;

  h3_test_golden_shape ("media.safetensors", "video_frames", shape);
  size = shape[1] * shape[2] * 3;
  frame = g_malloc (size);
  h3_canvas_of_aspect (GOLDEN_EDGE, shape[2], shape[1], &width, &height,
      &error);
  g_assert_no_error (error);
  clip = h3_text_condition_new_clip (width, height, most_frames, TRUE, &error);
  g_assert_no_error (error);
  for (gint64 i = 0; i < shape[0]; i++) {
    for (gsize k = 0; k < size; k++)
      frame[k] = stored[i * size + k];
    h3_text_condition_push (clip, h3_clip_slot_of_frame (i + 1, 24, 1), frame,
        shape[2] * 3, shape[2], shape[1], &error);
    g_assert_no_error (error);
  }
  h3_text_condition_finish (clip, &error);
  g_assert_no_error (error);
  g_ptr_array_add (request->conditions, clip);
}

/* What the tower saw and gave. */
typedef struct {
  H3Stream *stream;
  GArray *pictures, *clips; /* gfloat: patches of each kind */
  const H3TextCondition *const *conditions;
  guint next;
} Seen;

static void
collect_patches (const gchar *name, const H3Tensor *value, gpointer user_data)
{
  Seen *seen = user_data;
  g_autofree gfloat *values = NULL;

  if (!g_str_equal (name, "patches"))
    return;
  while (seen->conditions[seen->next]->kind == H3_CONDITION_AUDIO)
    seen->next++;
  values = h3_test_to_host (seen->stream, value);
  g_array_append_vals (seen->conditions[seen->next]->kind == H3_CONDITION_VIDEO
                           ? seen->clips
                           : seen->pictures,
      values, h3_tensor_size (value));
  seen->next++;
}

/* Every stored pixel, exactly. */
static void
compare_pixels (const gchar *golden, const gchar *tensor, const GArray *got)
{
  g_autofree gint32 *want = NULL;
  gsize n;

  if (!h3_test_golden_has (golden, tensor)) {
    if (!g_str_has_prefix (golden, "demo/"))
      g_assert_cmpuint (got->len, ==, 0);
    return;
  }
  want = h3_test_golden_ints (golden, tensor, &n);
  g_assert_cmpuint (got->len, ==, n);
  for (gsize i = 0; i < n; i++) {
    const gdouble pixel = g_array_index (got, gfloat, i) * 127.5 + 127.5;

    if (rint (pixel) != want[i])
      g_error ("%s of %s: value %" G_GSIZE_FORMAT " is %g, stored is %d",
          tensor, golden, i, pixel, want[i]);
  }
}

static void
compare_ints (const gchar *golden, const gchar *tensor, const GArray *got)
{
  gsize n;
  g_autofree gint32 *want = h3_test_golden_ints (golden, tensor, &n);

  g_test_message ("%s of %s", tensor, golden);
  g_assert_cmpmem (got->data, got->len * sizeof (gint32), want,
      n * sizeof (gint32));
}

static void
compare_request (Request *request, const gchar *path)
{
  const H3TextCondition *const *conditions =
      (const H3TextCondition *const *) request->conditions->pdata;
  const guint n = request->conditions->len;
  g_autoptr (H3Tokenizer) tokenizer = vision_test_tokenizer (path);
  g_autoptr (H3TextModel) text = vision_test_text_model (path);
  g_autoptr (H3VisionModel) vision = vision_test_model (path);
  g_autoptr (H3Stream) stream = vision_test_stream ();
  g_autofree gchar *prompt =
      vision_test_prompt (request->requests, request->name);
  g_auto (H3Presentation) presentation = { NULL };
  g_autoptr (H3VisionFeatures) features = NULL;
  g_autoptr (H3Tensor) state = NULL;
  g_autofree gfloat *got = NULL, *want = NULL;
  g_autoptr (GError) error = NULL;
  Seen seen = { .stream = stream,
    .pictures = g_array_new (FALSE, FALSE, sizeof (gfloat)),
    .clips = g_array_new (FALSE, FALSE, sizeof (gfloat)),
    .conditions = conditions };
  const H3Tap tap = { collect_patches, &seen };
  H3TextInput input;
  gsize size;

  h3_presentation_init (&presentation, tokenizer, conditions, n, prompt,
      strlen (prompt), 4096, &error);
  g_assert_no_error (error);
  compare_ints (request->golden, "token_ids", presentation.ids);
  compare_ints (request->golden, "text_token_tags", presentation.tags);

  features = h3_vision_model_encode (vision, stream, conditions, n, NULL, &tap,
      &error);
  g_assert_no_error (error);
  compare_pixels (request->golden, "vision.pixel_values_u8", seen.pictures);
  compare_pixels (request->golden, "vision.pixel_values_videos_u8", seen.clips);

  input = h3_presentation_input (&presentation, features);
  state = h3_text_model_encode (text, stream, &input, NULL, NULL, &error);
  g_assert_no_error (error);
  got = h3_test_to_host (stream, state);
  want = h3_test_golden (request->golden, "prompt_embeds", &size);
  g_assert_cmpint (h3_tensor_size (state), ==, size);
  g_test_message ("%s", request->golden);
  h3_test_assert_close (got, want, size, TOLERANCE);
  g_array_unref (seen.pictures);
  g_array_unref (seen.clips);
}

static Request
new_request (const gchar *golden, const gchar *requests, const gchar *name)
{
  return (Request){ golden, requests, name,
    g_ptr_array_new_with_free_func ((GDestroyNotify) h3_text_condition_free) };
}

static void
end_request (Request *request, const gchar *path)
{
  compare_request (request, path);
  g_ptr_array_unref (request->conditions);
}

#define FIRST "tiny/golden/media/first.png"
#define LAST "tiny/golden/media/last.png"
#define IMAGE "tiny/golden/media/image.png"

static void
test_keyframes (void)
{
  g_autofree gchar *path = vision_test_tiny ();
  Request first = new_request ("request_fl2va_first.safetensors",
      "requests.json", "fl2va_first");
  Request last = new_request ("request_fl2va_last.safetensors", "requests.json",
      "fl2va_last");
  Request both = new_request ("request_fl2va_both.safetensors", "requests.json",
      "fl2va_both");

  add_picture (&first, H3_CONDITION_FIRST_FRAME, FIRST, H3_FIT_STRETCH, 96, 64);
  end_request (&first, path);
  add_picture (&last, H3_CONDITION_LAST_FRAME, LAST, H3_FIT_STRETCH, 96, 64);
  end_request (&last, path);
  add_picture (&both, H3_CONDITION_FIRST_FRAME, FIRST, H3_FIT_STRETCH, 96, 64);
  add_picture (&both, H3_CONDITION_LAST_FRAME, LAST, H3_FIT_COVER, 96, 64);
  end_request (&both, path);
}

static void
test_references (void)
{
  g_autofree gchar *path = vision_test_tiny ();
  Request image = new_request ("request_ref2va_image.safetensors",
      "requests.json", "ref2va_image");
  Request mixed = new_request ("request_ref2va_mixed.safetensors",
      "requests.json", "ref2va_mixed");

  add_picture (&image, H3_CONDITION_IMAGE, IMAGE, H3_FIT_STRETCH, 96, 64);
  end_request (&image, path);
  g_ptr_array_add (mixed.conditions, h3_text_condition_new_audio ());
  add_clip (&mixed, 56);
  add_picture (&mixed, H3_CONDITION_IMAGE, IMAGE, H3_FIT_STRETCH, 96, 64);
  end_request (&mixed, path);
}

static void
test_demo (void)
{
  Request first = new_request ("demo/first_22.safetensors",
      "demo/requests.json", "first_22");

  add_picture (&first, H3_CONDITION_FIRST_FRAME, "demo/first_22.png",
      H3_FIT_STRETCH, 96, 64);
  end_request (&first, h3_test_demo_dir ());
}

void
add_vision_golden_tests (void)
{
  g_test_add_func ("/vision/golden/keyframes", test_keyframes);
  g_test_add_func ("/vision/golden/references", test_references);
  g_test_add_func ("/vision/golden/demo", test_demo);
}
