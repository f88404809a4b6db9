/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* packing.md 3 to 5: the worked examples, and the golden layouts bit by bit. */
#include "test-denoise.h"

#include "model/denoise/packing.h"

#define PRINTED 5e-10 /* the specification prints nine decimals */

static void
pack (H3Packing *packing, gint width, gint height, gint frames, gint n_text)
{
  g_autoptr (GError) error = NULL;
  H3Geometry geometry;

  h3_geometry_init (&geometry, width, height, frames, &error);
  g_assert_no_error (error);
  h3_packing_init (packing, &geometry, NULL, n_text, NULL, 0, &error);
  g_assert_no_error (error);
}

static void
check_row (const H3Packing *packing, gint row, gint tag, gint clock, gdouble t,
    gdouble h, gdouble w)
{
  g_assert_cmpint (packing->tag[row], ==, tag);
  g_assert_cmpint (packing->clock[row], ==, clock);
  g_assert_cmpfloat_with_epsilon (packing->position[3 * row], t, PRINTED);
  g_assert_cmpfloat_with_epsilon (packing->position[3 * row + 1], h, PRINTED);
  g_assert_cmpfloat_with_epsilon (packing->position[3 * row + 2], w, PRINTED);
}

/* packing.md 9.1 */
static void
test_worked (void)
{
  static const gdouble h[] = { 3.606453292, 7.737635528, 11.868817764, 16,
    20.131182236, 24.262364472 };
  static const gdouble w[] = { -4.655911180, -0.524728944, 3.606453292,
    7.737635528, 11.868817764, 16, 20.131182236, 24.262364472, 28.393546708,
    32.524728944 };
  static const gdouble t[] = { 17, 18.666666667, 25.333333333, 32, 38.666666667,
    45.333333333, 47 };
  g_auto (H3Packing) packing = { 0 };

  pack (&packing, 320, 192, 22, 17);
  g_assert_cmpint (packing.rows, ==, 511);
  g_assert_cmpint (packing.text_rows, ==, 17);
  g_assert_cmpint (packing.first_audio, ==, 17);
  g_assert_cmpint (packing.audio_rows, ==, 74);
  g_assert_cmpint (packing.first_video, ==, 91);
  g_assert_cmpint (packing.video_rows, ==, 420);

  for (gint i = 0; i < 17; i++)
    check_row (&packing, i, H3_TAG_TEXT, H3_CLOCK_VIDEO, i, 0, 0);
  for (gint i = 0; i < 37; i++) {
    check_row (&packing, 17 + i, H3_TAG_AUDIO, H3_CLOCK_AUDIO, 17 + i, 0, w[0]);
    check_row (&packing, 54 + i, H3_TAG_AUDIO, H3_CLOCK_AUDIO, 17 + i, 0, w[9]);
  }
  for (gint m = 0; m < 7; m++)
    for (gint i = 0; i < 6; i++)
      for (gint j = 0; j < 10; j++)
        check_row (&packing, 91 + (m * 6 + i) * 10 + j, H3_TAG_VIDEO,
            H3_CLOCK_VIDEO, t[m], h[i], w[j]);
}

/* packing.md 9.4 */
static void
test_production (void)
{
  static const struct {
    gint width, height, frames;
    gdouble h_first, h_last, w_first, w_last, step;
  } sizes[] = {
    { 864, 480, 141, 4.074304120, 26.335603096, -5.466252584, 35.876159800,
        1.590092784 },
    { 960, 544, 124, 3.955637557, 26.627378626, -5.254757253, 35.837773436,
        1.416983817 },
    { 1344, 768, 124, 3.905136864, 27.086957875, -5.166010489, 36.158105227,
        1.007905261 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    g_auto (H3Packing) packing = { 0 };
    const gdouble *first, *second, *last;

    pack (&packing, sizes[i].width, sizes[i].height, sizes[i].frames, 256);
    first = packing.position + 3 * packing.first_video;
    second = first + 3;
    last = packing.position + 3 * (packing.rows - 1);
    g_assert_cmpfloat_with_epsilon (first[1], sizes[i].h_first, PRINTED);
    g_assert_cmpfloat_with_epsilon (first[2], sizes[i].w_first, PRINTED);
    g_assert_cmpfloat_with_epsilon (last[1], sizes[i].h_last, PRINTED);
    g_assert_cmpfloat_with_epsilon (last[2], sizes[i].w_last, PRINTED);
    g_assert_cmpfloat_with_epsilon (second[2] - first[2], sizes[i].step,
        2 * PRINTED);
    g_assert_cmpfloat (first[0], ==, 256);
  }
}

/* packing.md 9.2: the same canvas as 9.1 */
static void
test_keyframes (void)
{
  static const H3Condition both[] = {
    { .kind = H3_CONDITION_FIRST_FRAME, 1, 12, 20 },
    { .kind = H3_CONDITION_LAST_FRAME, 1, 12, 20 },
  };
  g_autoptr (GError) error = NULL;
  g_auto (H3Packing) plain = { 0 };
  g_auto (H3Packing) p = { 0 };
  H3Geometry geometry;

  pack (&plain, 320, 192, 22, 17);
  h3_geometry_init (&geometry, 320, 192, 22, &error);
  h3_packing_init (&p, &geometry, NULL, 17, both, 2, &error);
  g_assert_no_error (error);
  g_assert_cmpint (p.rows, ==, 631);
  g_assert_cmpint (p.condition_video_rows, ==, 120);
  g_assert_cmpint (p.condition_audio_rows, ==, 0);
  g_assert_cmpint (p.first_audio, ==, 137);
  g_assert_cmpint (p.first_video, ==, 211);
  for (gint row = 0; row < 120; row++) {
    const gdouble *target = plain.position + 3 * (91 + row % 60);

    check_row (&p, 17 + row, H3_TAG_VIDEO, H3_CLOCK_VIDEO_CONDITION,
        row < 60 ? 17 : 52, target[1], target[2]);
  }
  /* the targets stand where they stood */
  g_assert_cmpmem (p.position + 3 * 137, 3 * 494 * sizeof (gdouble),
      plain.position + 3 * 17, 3 * 494 * sizeof (gdouble));
}

/* packing.md 9.3; three of its numbers are 6e-9 away from its own formula. */
static void
test_references (void)
{
  static const H3Condition references[] = {
    { .kind = H3_CONDITION_IMAGE, 1, 4, 6 },
    { .kind = H3_CONDITION_AUDIO, .audio_t = 5 },
    { .kind = H3_CONDITION_VIDEO, 7, 4, 8, .audio_t = 30 },
  };
  static const gdouble image_h[] = { 2.936054705, 16 };
  static const gdouble image_w[] = { -3.595917942, 9.468027353, 22.531972647 };
  static const gdouble video_t[] = { 16, 17.666666667, 24.333333333, 31,
    37.666666667, 44.333333333, 46 };
  static const gdouble video_h[] = { 4.686291501, 16 };
  static const gdouble video_w[] = { -6.627416998, 4.686291501, 16,
    27.313708499 };
  static const gdouble target_t[] = { 52.666666667, 54.333333333, 61,
    67.666666667, 74.333333333, 81, 82.666666667 };
  g_autoptr (GError) error = NULL;
  g_auto (H3Packing) p = { 0 };
  H3Geometry geometry;

  h3_geometry_init (&geometry, 64, 64, 22, &error);
  h3_packing_init (&p, &geometry, NULL, 10, references, 3, &error);
  g_assert_no_error (error);
  g_assert_cmpint (p.rows, ==, 244);
  g_assert_cmpint (p.condition_video_rows, ==, 62);
  g_assert_cmpint (p.condition_audio_rows, ==, 70);
  for (gint n = 0; n < 6; n++)
    check_row (&p, 10 + n, H3_TAG_VIDEO, H3_CLOCK_VIDEO_CONDITION, 10,
        image_h[n / 3], image_w[n % 3]);
  for (gint n = 0; n < 10; n++)
    check_row (&p, 16 + n, H3_TAG_AUDIO, H3_CLOCK_AUDIO_CONDITION, 11 + n % 5,
        0, n < 5 ? 0 : 16);
  for (gint n = 0; n < 60; n++)
    check_row (&p, 26 + n, H3_TAG_AUDIO, H3_CLOCK_AUDIO_CONDITION, 16 + n % 30,
        0, video_w[n < 30 ? 0 : 3]);
  for (gint n = 0; n < 56; n++)
    check_row (&p, 86 + n, H3_TAG_VIDEO, H3_CLOCK_VIDEO_CONDITION,
        video_t[n / 8], video_h[n / 4 % 2], video_w[n % 4]);
  for (gint n = 0; n < 74; n++)
    check_row (&p, 142 + n, H3_TAG_AUDIO, H3_CLOCK_AUDIO, target_t[0] + n % 37,
        0, n < 37 ? 0 : 16);
  for (gint n = 0; n < 28; n++)
    check_row (&p, 216 + n, H3_TAG_VIDEO, H3_CLOCK_VIDEO, target_t[n / 4],
        n / 2 % 2 * 16, n % 2 * 16);
}

static gdouble *
golden_doubles (const gchar *file, const gchar *name, gsize *n)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *path = h3_test_golden_path (file);
  g_autoptr (H3SafeTensors) tensors = h3_safetensors_open (path, &error);
  const H3StoredTensor *tensor;
  gdouble *values;

  g_assert_no_error (error);
  tensor = h3_safetensors_lookup (tensors, name);
  g_assert_nonnull (tensor);
  g_assert_cmpint (tensor->type, ==, H3_STORED_F64);
  values = g_malloc (tensor->bytes);
  h3_stored_tensor_read (tensor, 0, tensor->bytes, values, &error);
  g_assert_no_error (error);
  *n = tensor->bytes / sizeof (gdouble);
  return values;
}

/* The rows with @tag after the text, which golden files list. */
static void
check_indices (const gchar *file, const gchar *name, const H3Packing *packing,
    gint tag)
{
  gsize count, n = 0;
  g_autofree gint32 *want = h3_test_golden_ints (file, name, &count);

  for (gint row = packing->text_rows; row < packing->rows; row++)
    if (packing->tag[row] == tag) {
      g_assert_cmpuint (n, <, count);
      g_assert_cmpint (want[n++], ==, row);
    }
  g_assert_cmpuint (n, ==, count);
}

typedef struct {
  const gchar *file;
  gint width, height, frames;
  guint n_conditions;
  H3Condition conditions[3];
} Golden;

static void
check_golden (const Golden *golden)
{
  const gchar *file = golden->file;
  g_autoptr (GError) error = NULL;
  g_auto (H3Packing) packing = { 0 };
  H3Geometry geometry;
  gsize n_text, n_tags, n_positions;
  g_autofree gint32 *text =
      h3_test_golden_ints (file, "text_token_tags", &n_text);
  g_autofree gint32 *tags = h3_test_golden_ints (file, "token_tags", &n_tags);
  g_autofree gdouble *positions =
      golden_doubles (file, "position_ids", &n_positions);

  g_test_message ("%s", file);
  h3_geometry_init (&geometry, golden->width, golden->height, golden->frames,
      &error);
  g_assert_no_error (error);
  h3_packing_init (&packing, &geometry, text, n_text, golden->conditions,
      golden->n_conditions, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_tags, ==, packing.rows);
  for (gint row = 0; row < packing.rows; row++)
    g_assert_cmpint (packing.tag[row], ==, tags[row]);
  g_assert_cmpmem (packing.position, 3 * packing.rows * sizeof (gdouble),
      positions, n_positions * sizeof (gdouble));
  check_indices (file, "audio_indices", &packing, H3_TAG_AUDIO);
  check_indices (file, "video_indices", &packing, H3_TAG_VIDEO);
}

static void
test_golden (void)
{
  static const Golden cases[] = {
    { "request_t2va.safetensors", 96, 64, 22 },
    { "request_t2va_39.safetensors", 64, 96, 39 },
    { "request_fl2va_first.safetensors", 96, 64, 22, 1,
        { { .kind = H3_CONDITION_FIRST_FRAME, 1, 4, 6 } } },
    { "request_fl2va_last.safetensors", 96, 64, 22, 1,
        { { .kind = H3_CONDITION_LAST_FRAME, 1, 4, 6 } } },
    { "request_fl2va_both.safetensors", 96, 64, 22, 2,
        { { .kind = H3_CONDITION_FIRST_FRAME, 1, 4, 6 },
            { .kind = H3_CONDITION_LAST_FRAME, 1, 4, 6 } } },
    { "request_ref2va_image.safetensors", 96, 64, 22, 1,
        { { .kind = H3_CONDITION_IMAGE, 1, 6, 4 } } },
    { "request_ref2va_mixed.safetensors", 96, 64, 56, 3,
        { { .kind = H3_CONDITION_AUDIO, .audio_t = 40 },
            { .kind = H3_CONDITION_VIDEO, 7, 4, 6, .audio_t = 50 },
            { .kind = H3_CONDITION_IMAGE, 1, 6, 4 } } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check_golden (&cases[i]);
}

static void
test_vision_tags (void)
{
  static const gint32 tags[] = { 1, 0, 0, 1 };
  g_autoptr (GError) error = NULL;
  g_auto (H3Packing) packing = { 0 };
  H3Geometry geometry;

  h3_geometry_init (&geometry, 64, 64, 5, &error);
  h3_packing_init (&packing, &geometry, tags, 4, NULL, 0, &error);
  g_assert_no_error (error);
  for (gint i = 0; i < 4; i++)
    check_row (&packing, i, tags[i], H3_CLOCK_VIDEO, i, 0, 0);
}

static void
test_bad (void)
{
  static const gint32 audio_tag[] = { 1, 2 }, negative[] = { -1, 1 };
  GError *error = NULL;
  H3Packing packing;
  H3Geometry geometry;

  h3_geometry_init (&geometry, 64, 64, 5, &error);
  g_assert_no_error (error);
  g_assert_false (
      h3_packing_init (&packing, &geometry, NULL, 0, NULL, 0, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "no tokens");
  g_clear_error (&error);
  g_assert_false (
      h3_packing_init (&packing, &geometry, audio_tag, 2, NULL, 0, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "tag 2", "row 1");
  g_clear_error (&error);
  g_assert_false (
      h3_packing_init (&packing, &geometry, negative, 2, NULL, 0, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "tag -1", "row 0");
  g_clear_error (&error);
  g_assert_false (
      h3_packing_init (&packing, &geometry, NULL, G_MAXINT, NULL, 0, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "rows");
  g_clear_error (&error);
  /* a layout that was refused holds nothing */
  g_assert_null (packing.position);
}

/* packing.md 6, 10 */
static void
test_bad_conditions (void)
{
#define FIRST                                                                  \
  {                                                                            \
    .kind = H3_CONDITION_FIRST_FRAME, 1, 4, 6                                  \
  }
#define LAST                                                                   \
  {                                                                            \
    .kind = H3_CONDITION_LAST_FRAME, 1, 4, 6                                   \
  }
#define IMAGE                                                                  \
  {                                                                            \
    .kind = H3_CONDITION_IMAGE, 1, 4, 6                                        \
  }
#define CLIP                                                                   \
  {                                                                            \
    .kind = H3_CONDITION_VIDEO, 7, 4, 6, .audio_t = 37                         \
  }
#define SOUND                                                                  \
  {                                                                            \
    .kind = H3_CONDITION_AUDIO, .audio_t = 40                                  \
  }
  static const struct {
    guint n;
    H3Condition conditions[13];
    const gchar *text[2];
  } cases[] = {
    { 2, { FIRST, FIRST }, { "2 first frames", "at most 1" } },
    { 2, { LAST, LAST }, { "2 last frames", "at most 1" } },
    { 2, { LAST, FIRST }, { "before the first" } },
    { 2, { FIRST, IMAGE }, { "1 keyframes and 1 references" } },
    { 10,
        { IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE,
            IMAGE },
        { "10 reference pictures", "at most 9" } },
    { 4, { CLIP, CLIP, CLIP, CLIP }, { "4 reference clips", "at most 3" } },
    { 5, { IMAGE, SOUND, SOUND, SOUND, SOUND },
        { "4 reference sounds", "at most 3" } },
    { 13,
        { IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, CLIP, CLIP, CLIP,
            SOUND, SOUND, SOUND },
        { "13 references", "at most 12" } },
    { 2, { SOUND, SOUND }, { "2 reference sounds", "a picture or a clip" } },
    { 1, { { .kind = H3_CONDITION_FIRST_FRAME, 1, 6, 4 } },
        { "encoded at 64 x 96", "96 x 64" } },
    { 1, { { .kind = H3_CONDITION_LAST_FRAME, 2, 4, 6 } },
        { "condition 1, a last frame", "2 x 4 x 6" } },
    { 1, { { .kind = H3_CONDITION_IMAGE, 1, 3, 6 } }, { "1 x 3 x 6" } },
    { 1, { { .kind = H3_CONDITION_IMAGE, 1, 4, 0 } }, { "1 x 4 x 0" } },
    { 1, { { .kind = H3_CONDITION_IMAGE, 1, 4, 6, .audio_t = 2 } },
        { "2 of sound" } },
    { 1, { { .kind = H3_CONDITION_VIDEO, 6, 4, 6 } }, { "6 x 4 x 6" } },
    { 1, { { .kind = H3_CONDITION_VIDEO, 7, 4, 6, .audio_t = -1 } },
        { "-1 of sound" } },
    { 2, { IMAGE, { .kind = H3_CONDITION_AUDIO, .audio_t = 0 } },
        { "condition 2, a reference sound" } },
    { 1, { { .kind = 17 } }, { "no known kind (17)" } },
  };
  H3Geometry geometry;

  h3_geometry_init (&geometry, 96, 64, 22, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_auto (H3Packing) packing = { 0 };

    g_assert_false (h3_packing_init (&packing, &geometry, NULL, 8,
        cases[i].conditions, cases[i].n, &error));
    h3_test_assert_h3_error (error, H3_ERROR_FORMAT, cases[i].text[0],
        cases[i].text[1]);
    g_assert_null (packing.position);
  }
}

/* packing.md 3, its worked row: lh = lw = 4, T = 1 */
static void
test_patchify (void)
{
  gfloat latent[2 * 2 * 4 * 4], rows[2 * 4 * 8];
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (latent); i++)
    latent[i] = i;
  h3_patchify (rows, latent, 2, 2, 4, 4);
  for (gint t = 0; t < 2; t++)
    for (gint i = 0; i < 2; i++)
      for (gint j = 0; j < 2; j++)
        for (gint c = 0; c < 2; c++)
          for (gint dy = 0; dy < 2; dy++)
            for (gint dx = 0; dx < 2; dx++)
              g_assert_cmpfloat (rows[n++], ==,
                  ((c * 2 + t) * 4 + 2 * i + dy) * 4 + 2 * j + dx);
}

void
h3_test_add_packing (void)
{
  g_test_add_func ("/packing/worked-example", test_worked);
  g_test_add_func ("/packing/production-sizes", test_production);
  g_test_add_func ("/packing/keyframes", test_keyframes);
  g_test_add_func ("/packing/references", test_references);
  g_test_add_func ("/packing/golden", test_golden);
  g_test_add_func ("/packing/bad-conditions", test_bad_conditions);
  g_test_add_func ("/packing/vision-tags", test_vision_tags);
  g_test_add_func ("/packing/bad", test_bad);
  g_test_add_func ("/packing/patchify", test_patchify);
}
